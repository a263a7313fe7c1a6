//! Server-sent events, decoded as the specification says from any cut of the bytes.
//!
//! How the stream was cut into reads never changes the events. An event that lies whole in one read
//! and has one `data` line is handed out borrowed from it; all others are gathered in buffers that
//! stay below the limit. Comments, `id`, `retry` and unknown fields are dropped, and so are events
//! with nothing in their data, which OpenAI's clients crash on. Bytes stay bytes: whether they are
//! UTF-8 is for the reader to say.

use std::ops::ControlFlow;

use memchr::memchr2;

use super::Event;

/// An event, or a line, is longer than the limit. The decoder is of no use after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge;

/// Where in the stream we are, and what is kept of an event whose end has not come yet.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The start of a line that earlier reads left without its end.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Data,
    /// The stream's first line has not ended yet, so a byte order mark may stand in front.
    first_line: bool,
    /// The last read ended with CR: a LF in front of the next one belongs to that.
    after_cr: bool,
}

/// The pending event's data, as far as it is no longer in the read at hand.
#[derive(Debug, Default)]
struct Data {
    buffer: Vec<u8>,
    /// Where it begins in the buffer: a line that was gathered in pieces is taken over with its
    /// field name.
    start: usize,
    any_line: bool,
}

/// What buffers may keep between events, so that one large event does not weigh on an idle stream.
pub(super) const KEPT: usize = 8 * 1024;

impl Decoder {
    /// Returns a decoder at a stream's start. An event's data, together with the line being read,
    /// may be as long as `limit`.
    pub fn new(limit: usize) -> Self {
        Self { limit, line: Vec::new(), name: Vec::new(), data: Data::default(), first_line: true, after_cr: false }
    }

    /// Returns how many bytes it keeps of an event whose end has not come yet.
    pub fn buffered(&self) -> usize {
        self.line.len() + self.data.buffer.len()
    }

    /// Takes one network read and calls `event` for every event that ends in it. If `event` breaks,
    /// the rest of the read is dropped; nothing should be fed after that.
    pub fn feed<B>(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooLarge> {
        let mut rest = bytes;
        // The pending event's only data line so far, if this read holds it.
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
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.check(gathered + rest.len())?;
                append(&mut self.line, rest, self.limit);
                break;
            };
            self.check(gathered + end)?;
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

            if !self.line.is_empty() {
                append(&mut self.line, line, self.limit);
                if let Some(earlier) = borrowed.take() {
                    self.data.push(earlier, self.limit);
                }
                if self.end_of_gathered_line() {
                    self.dispatch(None, |_| ());
                }
                continue;
            }
            let line = without_mark(&mut self.first_line, line);
            if line.is_empty() {
                if let Some(ControlFlow::Break(value)) = self.dispatch(borrowed.take(), &mut event) {
                    return Ok(ControlFlow::Break(value));
                }
            } else if let Some(value) = value_of(line, b"data") {
                if let Some(earlier) = borrowed.take() {
                    self.data.push(earlier, self.limit);
                }
                if self.data.any_line {
                    self.data.push(value, self.limit);
                } else {
                    borrowed = Some(value);
                }
            } else {
                self.field(line);
            }
        }
        if let Some(unfinished) = borrowed {
            self.data.push(unfinished, self.limit);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows, at the end of the stream, the event that still waits for its empty line, if it has
    /// data. The specification drops it, but several servers omit the last line end; the caller
    /// must see for itself whether the data is whole.
    pub fn finish<R>(&mut self, event: impl FnOnce(Event<'_>) -> R) -> Option<R> {
        if !self.line.is_empty() {
            self.end_of_gathered_line();
        }
        self.dispatch(None, event)
    }

    fn check(&self, length: usize) -> Result<(), TooLarge> {
        if length > self.limit { Err(TooLarge) } else { Ok(()) }
    }

    /// Ends the line that was gathered in pieces; true if there was nothing in it but the mark.
    fn end_of_gathered_line(&mut self) -> bool {
        let mut line = std::mem::take(&mut self.line);
        let content = without_mark(&mut self.first_line, &line);
        let is_empty = content.is_empty();
        match value_of(content, b"data") {
            Some(value) if self.data.any_line => self.data.push(value, self.limit),
            Some(value) => {
                self.data.start = line.len() - value.len();
                self.data.any_line = true;
                std::mem::swap(&mut self.data.buffer, &mut line);
            }
            None => self.field(content),
        }
        empty(&mut line);
        self.line = line;
        is_empty
    }

    /// Takes a line other than `data`; of these only `event` matters.
    fn field(&mut self, line: &[u8]) {
        if let Some(name) = value_of(line, b"event") {
            self.name.clear();
            self.name.extend_from_slice(name);
        }
    }

    /// Ends the pending event and shows it, if it has data.
    fn dispatch<R>(&mut self, borrowed: Option<&[u8]>, event: impl FnOnce(Event<'_>) -> R) -> Option<R> {
        let data = borrowed.unwrap_or_else(|| self.data.bytes());
        // Several empty `data` lines are as empty as one.
        let shown = data.iter().any(|byte| *byte != b'\n').then(|| event(Event { name: &self.name, data }));
        empty(&mut self.name);
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
            append(&mut self.buffer, b"\n", limit);
        }
        append(&mut self.buffer, value, limit);
        self.any_line = true;
    }

    fn clear(&mut self) {
        empty(&mut self.buffer);
        self.start = 0;
        self.any_line = false;
    }
}

/// Returns a line without the byte order mark that may stand before a stream's first.
pub(super) fn without_mark<'l>(is_first: &mut bool, line: &'l [u8]) -> &'l [u8] {
    if !std::mem::take(is_first) {
        return line;
    }
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
}

/// Returns the value of a line if its field has this name: after the first colon and one space, or
/// nothing.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    match line.strip_prefix(name)? {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(&[]),
        [_, ..] => None,
    }
}

/// Appends in doubling steps, but never reserves beyond what the limit lets in.
pub(super) fn append(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() {
        let capacity = needed.max(limit.min(buffer.capacity() * 2));
        buffer.reserve_exact(capacity - buffer.len());
    }
    buffer.extend_from_slice(bytes);
}

/// Empties a buffer, and gives it back if it is large.
pub(super) fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

#[cfg(test)]
mod tests;
