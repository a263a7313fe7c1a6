//! A decoder for Amazon's event stream (`application/vnd.amazon.eventstream`). It accepts the bytes
//! in any pieces.
//!
//! ```text
//! u32 total length | u32 headers' length | u32 CRC of these eight bytes
//! headers | payload | u32 CRC of all before
//! ```
//!
//! * The events are the same however the stream was cut into reads.
//! * A frame that is whole in one read is borrowed from the read. Other frames are gathered in a
//!   buffer, which grows with the bytes that came, never with a length that was announced.
//! * A length is used only after its checksum was checked.
//! * After a broken frame the next frame cannot be found, so the first fault ends the stream.

use std::ops::ControlFlow;

use super::Event;
use super::json::Writer;
use super::sse::clear_buffer;

/// The fault of bytes that are no event stream, or of a frame longer than the limit. The decoder
/// must not be used after it. The text never quotes the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken(pub &'static str);

/// The decoder's place in the stream.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    /// The start of a frame whose end has not come yet.
    pending: Vec<u8>,
}

/// The most bytes of headers in a frame, as in Amazon's SDKs.
const MAX_HEADERS: usize = 128 * 1024;
/// The most bytes of payload in a frame, as in Amazon's SDKs.
const MAX_PAYLOAD: usize = 24 * 1024 * 1024;
/// The bytes of both lengths and their checksum.
const PRELUDE: usize = 12;
/// The bytes of the checksum at the end.
const CHECKSUM: usize = 4;
impl FrameDecoder {
    /// Returns a decoder at the start of a stream. The payload of a frame may have up to `limit`
    /// bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.min(MAX_PAYLOAD),
            pending: Vec::new(),
        }
    }

    /// Returns the number of buffered bytes of a frame whose end has not come yet.
    pub fn buffered(&self) -> usize {
        self.pending.len()
    }

    /// Takes one network read, and calls `event` for every frame that ends in it. If `event`
    /// breaks, the rest of the read is dropped, and nothing may be fed after that.
    pub fn feed<B>(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, Broken> {
        let mut rest = bytes;
        // The loop runs at most twice: first for the lengths, then for the rest of the frame.
        while !self.pending.is_empty() {
            let lengths = Lengths::read_prelude(&self.pending, self.limit)?;
            let missing = lengths
                .as_ref()
                .map_or(PRELUDE, |lengths| lengths.total)
                .saturating_sub(self.pending.len());
            let (taken, after) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
            self.pending.extend_from_slice(taken);
            if taken.len() < missing {
                return Ok(ControlFlow::Continue(()));
            }
            rest = after;
            if let Some(lengths) = lengths {
                let flow = emit_frame(&self.pending, &lengths, &mut event)?;
                clear_buffer(&mut self.pending);
                if let Some(ControlFlow::Break(value)) = flow {
                    return Ok(ControlFlow::Break(value));
                }
            }
        }
        while let Some(lengths) = Lengths::read_prelude(rest, self.limit)?
            && let Some((frame, after)) = rest.split_at_checked(lengths.total)
        {
            if let Some(ControlFlow::Break(value)) = emit_frame(frame, &lengths, &mut event)? {
                return Ok(ControlFlow::Break(value));
            }
            rest = after;
        }
        self.pending.extend_from_slice(rest);
        Ok(ControlFlow::Continue(()))
    }

    /// Returns whether the last frame was whole. If it was not at the end of the stream, the stream
    /// was cut.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }
}

/// The lengths in a prelude.
struct Lengths {
    total: usize,
    headers: usize,
}

impl Lengths {
    /// Reads and checks the prelude, if all of its bytes have come.
    fn read_prelude(bytes: &[u8], limit: usize) -> Result<Option<Self>, Broken> {
        let Some([total, headers, checksum]) = prelude_words(bytes) else {
            return Ok(None);
        };
        if crc32fast::hash(bytes.get(..8).unwrap_or_default()) != checksum {
            return Err(Broken("a frame's lengths do not match their checksum"));
        }
        // The lengths fit wherever addresses have 32 bits.
        let length = |word| usize::try_from(word).unwrap_or(usize::MAX);
        let (total, headers) = (length(total), length(headers));
        if headers > MAX_HEADERS {
            return Err(Broken("a frame's headers are too large"));
        }
        let Some(payload) = total.checked_sub(PRELUDE + headers + CHECKSUM) else {
            return Err(Broken("a frame's lengths contradict each other"));
        };
        if payload > limit {
            return Err(Broken("a frame is too large"));
        }
        Ok(Some(Self { total, headers }))
    }
}

fn prelude_words(bytes: &[u8]) -> Option<[u32; 3]> {
    let (total, rest) = read_word(bytes)?;
    let (headers, rest) = read_word(rest)?;
    let (checksum, _) = read_word(rest)?;
    Some([total, headers, checksum])
}

/// Checks a whole frame, and calls `event` if the frame is a message of a known type.
///
/// The name of an event is its `:event-type`. The name of an exception is `exception/` and its
/// type. The name of an error is `error/` and its code. The data is the payload. Only an error has
/// its text in a header, so its data is `{"message":…}`.
fn emit_frame<R>(
    frame: &[u8],
    lengths: &Lengths,
    event: impl FnOnce(Event<'_>) -> R,
) -> Result<Option<R>, Broken> {
    let (before, checksum) = frame
        .split_last_chunk::<CHECKSUM>()
        .unwrap_or((&[], &[0; CHECKSUM]));
    if crc32fast::hash(before) != u32::from_be_bytes(*checksum) {
        return Err(Broken("a frame does not match its checksum"));
    }
    let inside = before.get(PRELUDE..).unwrap_or_default();
    let (headers, payload) = inside.split_at_checked(lengths.headers).unwrap_or_default();
    let headers = Headers::read(headers)?;
    Ok(Some(match headers.message_type {
        b"exception" => event(Event {
            name: &[b"exception/", headers.exception_type].concat(),
            data: payload,
        }),
        b"error" => {
            let mut data = Writer::default();
            data.object(|data| {
                data.key("message")
                    .text(&String::from_utf8_lossy(headers.error_message))
            });
            event(Event {
                name: &[b"error/", headers.error_code].concat(),
                data: &data.into_bytes(),
            })
        }
        b"event" | b"" => event(Event {
            name: headers.event_type,
            data: payload,
        }),
        _ => return Ok(None),
    }))
}

/// The headers that identify a frame. A missing header is empty.
#[derive(Default)]
struct Headers<'a> {
    message_type: &'a [u8],
    event_type: &'a [u8],
    exception_type: &'a [u8],
    error_code: &'a [u8],
    error_message: &'a [u8],
}

impl<'a> Headers<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Broken> {
        let mut headers = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (name, value, after) =
                read_header(rest).ok_or(Broken("a frame's headers are malformed"))?;
            rest = after;
            match name {
                b":message-type" => headers.message_type = value,
                b":event-type" => headers.event_type = value,
                b":exception-type" => headers.exception_type = value,
                b":error-code" => headers.error_code = value,
                b":error-message" => headers.error_message = value,
                _ => {}
            }
        }
        Ok(headers)
    }
}

/// Returns the name and the value of a header, and the bytes after it. A value that is no text is
/// returned as empty.
fn read_header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    const STRING: u8 = 7;
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = match kind {
        // True, false.
        0 | 1 => (0, rest),
        // Integers of one to eight bytes.
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 => (8, rest),
        // Bytes, string.
        6 | &STRING => {
            let (length, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        // Time.
        8 => (8, rest),
        // UUID.
        9 => (16, rest),
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((name, if *kind == STRING { value } else { &[] }, rest))
}

/// Returns a big-endian word, and the bytes after it.
fn read_word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*word), rest))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::frame;
