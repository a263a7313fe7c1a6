//! A decoder for server-sent events, as in their specification. It accepts the bytes in any pieces.
//!
//! The events are the same however the stream was cut into reads. An event that is whole in one
//! read and has one `data` line is borrowed from the read. Other events are gathered in buffers
//! that stay below the limit. Comments, `id`, `retry` and unknown fields are dropped. Events with
//! empty data are dropped too, because OpenAI's clients crash on them. Bytes stay bytes; the reader
//! decides if they are UTF-8.

use std::ops::ControlFlow;

use memchr::memchr2;

use super::Event;

/// The fault of an event, or a line, that is longer than the limit. The decoder must not be used
/// after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// A piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// An event that has ended.
    Event(Event<'a>),
    /// A line that is no part of an event: no field of the specification has its name.
    Stray(&'a [u8]),
}

/// The decoder's place in the stream, and the parts of an event whose end has not come yet.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The start of a line whose end has not come yet.
    line: Vec<u8>,
    name: Vec<u8>,
    /// The last line that gave a name, with its LF. Most events have the name of the one before.
    name_line: Vec<u8>,
    data: Data,
    /// True until the stream's first line has ended. A byte order mark may stand before that line.
    first_line: bool,
    /// True if the last read ended with CR. A LF at the start of the next read then belongs to it.
    after_cr: bool,
}

/// The data of the pending event, as far as it is not in the current read.
#[derive(Debug, Default)]
struct Data {
    buffer: Vec<u8>,
    /// The start of the data in the buffer. A line that was gathered in pieces is taken over with
    /// its field name.
    start: usize,
    any_line: bool,
}

/// The most bytes that an empty buffer may keep between events, so that one large event does not
/// occupy memory of an idle stream.
pub(super) const KEPT: usize = 8 * 1024;

impl Decoder {
    /// Returns a decoder at the start of a stream. The data of an event and the current line may
    /// together have up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            name: Vec::new(),
            name_line: Vec::new(),
            data: Data::default(),
            first_line: true,
            after_cr: false,
        }
    }

    /// Returns the number of buffered bytes of an event whose end has not come yet.
    pub fn buffered(&self) -> usize {
        self.line.len() + self.data.buffer.len()
    }

    /// Takes one network read, and calls `event` for every event that ends in it. If `event`
    /// breaks, the rest of the read is dropped, and nothing may be fed after that.
    pub fn feed<B>(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooLarge> {
        self.pieces(bytes, |piece| match piece {
            Piece::Event(ended) => event(ended),
            Piece::Stray(_) => ControlFlow::Continue(()),
        })
    }

    /// Takes one network read like [`feed`](Self::feed), and hands over stray lines, too.
    #[inline]
    pub fn pieces<B>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(Piece<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooLarge> {
        let mut rest = bytes;
        // The pending event's only data line so far, if it is in this read.
        let mut borrowed: Option<&[u8]> = None;

        while let Some(&first) = rest.first() {
            if self.after_cr {
                self.after_cr = false;
                if first == b'\n' {
                    rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
            }
            let gathered = self.data.len() + borrowed.map_or(0, <[u8]>::len) + self.line.len();
            if first == b'e'
                && let Some(after) = self.same_name(rest)
            {
                check_length(gathered + self.name_line.len() - 1, self.limit)?;
                rest = after;
                continue;
            }
            let end = if first == b'\n' {
                Some(0)
            } else {
                memchr2(b'\n', b'\r', rest)
            };
            let Some(end) = end else {
                check_length(gathered + rest.len(), self.limit)?;
                append_bytes(&mut self.line, rest, self.limit);
                break;
            };
            check_length(gathered + end, self.limit)?;
            let (line, after) = rest.split_at_checked(end).unwrap_or_default();
            rest = match after {
                [b'\r', b'\n', after @ ..] => after,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, after @ ..] => after,
                [] => &[],
            };

            let found = if !self.line.is_empty() {
                append_bytes(&mut self.line, line, self.limit);
                if let Some(earlier) = borrowed.take() {
                    self.data.push(earlier, self.limit);
                }
                self.end_of_gathered_line(&mut each)
            } else {
                let line = without_mark(&mut self.first_line, line);
                if line.is_empty() {
                    self.dispatch(borrowed.take(), |event| each(Piece::Event(event)))
                } else if let Some(value) = value_of(line, b"data") {
                    if let Some(earlier) = borrowed.take() {
                        self.data.push(earlier, self.limit);
                    }
                    if self.data.any_line {
                        self.data.push(value, self.limit);
                    } else {
                        borrowed = Some(value);
                    }
                    None
                } else {
                    if let Some(b'\n') = after.first() {
                        self.keep_name_line(line);
                    }
                    self.field(line).map(|stray| each(Piece::Stray(stray)))
                }
            };
            if let Some(ControlFlow::Break(value)) = found {
                return Ok(ControlFlow::Break(value));
            }
        }
        if let Some(unfinished) = borrowed {
            self.data.push(unfinished, self.limit);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes a line that repeats the name of the last such line. Returns the bytes after it.
    fn same_name<'r>(&mut self, rest: &'r [u8]) -> Option<&'r [u8]> {
        if self.name_line.is_empty() || !self.line.is_empty() {
            return None;
        }
        let after = rest.strip_prefix(self.name_line.as_slice())?;
        let line = self
            .name_line
            .split_last()
            .map_or(&[][..], |(_, line)| line);
        self.name.clear();
        self.name
            .extend_from_slice(value_of(line, NAME).unwrap_or_default());
        Some(after)
    }

    /// Keeps a line that gives a name, if it is short.
    fn keep_name_line(&mut self, line: &[u8]) {
        if line.starts_with(NAME) && line.len() <= 64 && value_of(line, NAME).is_some() {
            self.name_line.clear();
            self.name_line.extend_from_slice(line);
            self.name_line.push(b'\n');
        }
    }

    /// Ends the last line at the end of the stream. Returns it if it is a stray.
    pub fn end_line<R>(&mut self, stray: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if self.line.is_empty() {
            None
        } else {
            self.end_of_gathered(stray)
        }
    }

    /// Calls `event`, at the end of the stream, for an event with data that still waits for its
    /// empty line. The specification drops such an event, but several servers omit the last line
    /// end. The caller must check if the data is whole.
    pub fn finish<R>(&mut self, event: impl FnOnce(Event<'_>) -> R) -> Option<R> {
        self.end_line(|_| ());
        self.dispatch(None, event)
    }

    /// Ends the line that was gathered in pieces. A line that has nothing but the byte order mark
    /// is an empty one.
    fn end_of_gathered_line<R>(&mut self, mut each: impl FnMut(Piece<'_>) -> R) -> Option<R> {
        let is_mark = self.first_line && self.line == MARK;
        let found = self.end_of_gathered(|stray| each(Piece::Stray(stray)));
        if is_mark {
            self.dispatch(None, |_| ());
        }
        found
    }

    fn end_of_gathered<R>(&mut self, stray: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let mut line = std::mem::take(&mut self.line);
        let content = without_mark(&mut self.first_line, &line);
        let mut found = None;
        match value_of(content, b"data") {
            Some(value) if self.data.any_line => self.data.push(value, self.limit),
            Some(value) => {
                self.data.start = line.len() - value.len();
                self.data.any_line = true;
                std::mem::swap(&mut self.data.buffer, &mut line);
            }
            None => found = self.field(content).map(stray),
        }
        clear_buffer(&mut line);
        self.line = line;
        found
    }

    /// Takes a line other than `data`. Only `event` has an effect. Returns a line that is a stray.
    fn field<'l>(&mut self, line: &'l [u8]) -> Option<&'l [u8]> {
        if let Some(name) = value_of(line, NAME) {
            self.name.clear();
            self.name.extend_from_slice(name);
            return None;
        }
        let is_field = matches!(line.first(), None | Some(b':'))
            || value_of(line, b"id").is_some()
            || value_of(line, b"retry").is_some();
        (!is_field).then_some(line)
    }

    /// Ends the pending event, and calls `event` if it has data.
    fn dispatch<R>(
        &mut self,
        borrowed: Option<&[u8]>,
        event: impl FnOnce(Event<'_>) -> R,
    ) -> Option<R> {
        let data = borrowed.unwrap_or_else(|| self.data.bytes());
        // Several empty `data` lines count as empty.
        let shown = data.iter().any(|byte| *byte != b'\n').then(|| {
            event(Event {
                name: &self.name,
                data,
            })
        });
        clear_buffer(&mut self.name);
        self.data.clear();
        shown
    }
}

impl Data {
    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn push(&mut self, value: &[u8], limit: usize) {
        if self.any_line {
            append_bytes(&mut self.buffer, b"\n", limit);
        }
        append_bytes(&mut self.buffer, value, limit);
        self.any_line = true;
    }

    fn clear(&mut self) {
        clear_buffer(&mut self.buffer);
        self.start = 0;
        self.any_line = false;
    }
}

/// Checks that a length is within the limit.
pub(super) fn check_length(length: usize, limit: usize) -> Result<(), TooLarge> {
    if length > limit {
        Err(TooLarge)
    } else {
        Ok(())
    }
}

/// The field that gives an event's name.
const NAME: &[u8] = b"event";

/// The byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns a line without the byte order mark that may stand before the first line of a stream.
pub(super) fn without_mark<'l>(is_first: &mut bool, line: &'l [u8]) -> &'l [u8] {
    if !std::mem::take(is_first) {
        return line;
    }
    line.strip_prefix(MARK).unwrap_or(line)
}

/// Returns the value of a line if its field has this name. The value is the text after the first
/// colon and one space. It is empty if there is no colon.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    match line.strip_prefix(name)? {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(&[]),
        [_, ..] => None,
    }
}

/// Appends bytes. The capacity doubles, but it never grows beyond the limit unless the bytes need
/// it.
pub(super) fn append_bytes(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        let capacity = needed.max(limit.min(buffer.capacity() * 2));
        buffer.reserve_exact(capacity - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}

/// Empties a buffer, and frees its memory if it is large.
pub(super) fn clear_buffer(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests;
