//! Reads a body that comes in chunks, however it is cut into reads. Pure.
//!
//! This is stricter than Pingora 0.9.1, which takes a line without a number for the end of the
//! body, and a bare line feed for a part of a chunk's extension. It limits the line before a chunk
//! only if the line comes in several reads.

use std::ops::Range;

/// The most bytes of the line before a chunk.
const LINE: usize = 8 * 1024;
/// The most bytes after the last chunk.
const TRAILERS: usize = 64 * 1024;
/// The most digits of a chunk's size.
const DIGITS: usize = 16;
/// The largest size of a chunk: what is larger is absurd.
const LARGEST: u64 = u64::MAX >> 1;

/// The reading of a body in chunks.
#[derive(Debug, Default)]
pub(super) struct ChunkReader {
    state: ChunkState,
    /// The bytes of the chunk that are still to come.
    bytes_left: u64,
    /// The bytes of the present line, or of everything after the last chunk.
    line: usize,
}

/// The place in the body, by what is expected there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// The first digit of a chunk's size.
    #[default]
    Size,
    /// More digits of it.
    Digits,
    /// The end of its line, or an extension.
    Gap,
    /// The rest of an extension, which is ignored.
    Extension,
    /// The line feed of its line.
    SizeEnd,
    /// The chunk's bytes.
    Data,
    /// The carriage return after them.
    DataEnd,
    /// The line feed after them.
    DataFeed,
    /// The first byte of a line after the last chunk.
    TrailerStart,
    /// The rest of such a line.
    Trailer,
    /// The line feed of such a line.
    TrailerFeed,
    /// The line feed of the empty line, which is the last byte.
    LastFeed,
    /// Nothing: the body is over.
    End,
}

/// The error for chunks that are not written as they must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BrokenChunk;

impl ChunkReader {
    /// Returns whether the body is over.
    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::End
    }

    /// Returns the place of the next bytes of the body in what has come. What stands before them is
    /// not needed any more. If the place is empty, the body is over there, or more must come.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Range<usize>, BrokenChunk> {
        let mut read = self.whole_size_line(bytes).unwrap_or_default();
        while let Some(byte) = bytes.get(read).filter(|_| self.state != ChunkState::End) {
            if self.state == ChunkState::Data {
                let came = bytes.len() - read;
                let taken = usize::try_from(self.bytes_left).map_or(came, |left| left.min(came));
                self.bytes_left -= taken as u64;
                if self.bytes_left == 0 {
                    self.state = ChunkState::DataEnd;
                }
                return Ok(read..read + taken);
            }
            self.state = self.step(*byte)?;
            read += 1;
        }
        Ok(read..read)
    }

    /// Reads what usually stands before a chunk, if all of it has come: the end of the last chunk,
    /// and a size of a few digits. Returns its length. All else is read byte by byte.
    fn whole_size_line(&mut self, bytes: &[u8]) -> Option<usize> {
        const FEW: usize = 7;
        let line = if self.state == ChunkState::DataEnd {
            bytes.strip_prefix(b"\r\n")?
        } else {
            bytes
        };
        if !matches!(self.state, ChunkState::DataEnd | ChunkState::Size) {
            return None;
        }
        let (mut size, mut rest) = (0, line);
        while let [byte, after @ ..] = rest
            && let Some(digit) = char::from(*byte).to_digit(16)
        {
            (size, rest) = ((size << 4) | u64::from(digit), after);
            if line.len() - rest.len() > FEW {
                return None;
            }
        }
        let rest = rest.strip_prefix(b"\r\n").filter(|_| size > 0)?;
        (self.state, self.bytes_left, self.line) = (ChunkState::Data, size, 0);
        Some(bytes.len() - rest.len())
    }

    /// Takes in a byte that is not of the body, and returns the next place.
    fn step(&mut self, byte: u8) -> Result<ChunkState, BrokenChunk> {
        self.line += 1;
        let is_last = matches!(
            self.state,
            ChunkState::TrailerStart
                | ChunkState::Trailer
                | ChunkState::TrailerFeed
                | ChunkState::LastFeed
        );
        if self.line > if is_last { TRAILERS } else { LINE } {
            return Err(BrokenChunk);
        }
        match (self.state, byte) {
            (ChunkState::Size | ChunkState::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F')
                if self.line <= DIGITS =>
            {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                self.bytes_left = (self.bytes_left << 4) | u64::from(digit);
                if self.bytes_left > LARGEST {
                    return Err(BrokenChunk);
                }
                Ok(ChunkState::Digits)
            }
            (ChunkState::Digits | ChunkState::Gap, b'\t' | b' ') => Ok(ChunkState::Gap),
            (ChunkState::Digits | ChunkState::Gap, b';') => Ok(ChunkState::Extension),
            (ChunkState::Digits | ChunkState::Gap | ChunkState::Extension, b'\r') => {
                Ok(ChunkState::SizeEnd)
            }
            (ChunkState::Extension, other) if other != b'\n' => Ok(ChunkState::Extension),
            (ChunkState::SizeEnd, b'\n') => {
                self.line = 0;
                Ok(if self.bytes_left == 0 {
                    ChunkState::TrailerStart
                } else {
                    ChunkState::Data
                })
            }
            (ChunkState::DataEnd, b'\r') => Ok(ChunkState::DataFeed),
            (ChunkState::DataFeed, b'\n') => {
                self.line = 0;
                Ok(ChunkState::Size)
            }
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::LastFeed),
            (ChunkState::Trailer, b'\r') => Ok(ChunkState::TrailerFeed),
            (ChunkState::TrailerStart | ChunkState::Trailer, other) if other != b'\n' => {
                Ok(ChunkState::Trailer)
            }
            (ChunkState::TrailerFeed, b'\n') => Ok(ChunkState::TrailerStart),
            (ChunkState::LastFeed, b'\n') => Ok(ChunkState::End),
            _ => Err(BrokenChunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body, and whether it is over, if it is not broken.
    fn body(sent: &[u8], most: usize) -> (Vec<u8>, Option<bool>) {
        let (mut reader, mut body) = (ChunkReader::default(), Vec::new());
        for piece in sent.chunks(most) {
            let mut rest = piece;
            while !rest.is_empty() && !reader.is_done() {
                let Ok(place) = reader.next(rest) else {
                    return (body, None);
                };
                body.extend_from_slice(&rest[place.clone()]);
                rest = &rest[place.end..];
            }
        }
        (body, Some(reader.is_done()))
    }

    proptest! {
        #[test]
        fn usual_lines_are_read_as_byte_by_byte(
            parts in prop::collection::vec(("[0-9a-gA-F]{0,9}", "(\r\n|;x\r\n| \r\n|\n|\r)", 0_usize..20, "(\r\n|\r|x)"), 0..6),
            good in prop::collection::vec(1_usize..300, 0..6),
            most in 1_usize..50,
        ) {
            let good = good.into_iter().map(|size| format!("{size:x}\r\n{}\r\n", "x".repeat(size)));
            let odd = parts.into_iter().map(|(size, line, length, end)| format!("{size}{line}{}{end}", "y".repeat(length)));
            let sent: String = good.chain(odd).chain(["0\r\n\r\n".to_owned()]).collect();
            let slow = body(sent.as_bytes(), 1);
            prop_assert_eq!(&body(sent.as_bytes(), sent.len()), &slow);
            prop_assert_eq!(&body(sent.as_bytes(), most), &slow);
        }
    }
}
