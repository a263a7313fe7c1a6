//! A cursor is a validating scanner over JSON text. It returns spans, not values.
//!
//! It needs one pass, no allocation, and no recursion that a caller's input controls. It accepts
//! exactly RFC 8259 in UTF-8, up to [`MAX_DEPTH`] levels. Numbers are checked only for their form,
//! and lone surrogates in `\u` escapes pass, because both are kept as text. It builds no values and
//! does not compare keys.

mod kind;
mod pieces;
mod plain;
mod repair;
mod text;
mod write;

use std::ops::Range;

pub use kind::Kind;
pub use pieces::Pieces;
pub(crate) use repair::{repaired_line, repaired_text};
pub(crate) use text::decode_string;
pub use text::{
    folds_to, integer_of, is_whole, name_of, one_line, quote_string, text_len, text_of,
};
pub use write::{Writer, escape_into, put_text};

use plain::{HIGH_BITS, plain_ascii_length, plain_length};
use text::code_point;

/// The place of a value in the text, in bytes. The span of a string includes its quotes.
pub type Span = Range<usize>;

/// The most arrays and objects inside each other. It is the limit of serde_json, so that a text
/// which passes here cannot be too deep for a reader after us.
pub const MAX_DEPTH: usize = 127;

/// The result of scanning a part of a text.
pub type ScanResult<T> = Result<T, Broken>;

/// The reason why a text is not JSON, and the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The offset of the first byte that does not fit.
    pub offset: usize,
    /// The reason. It may be shown, because it never quotes the text.
    pub why: &'static str,
}

impl Broken {
    /// Returns the line and the column of the fault. Both count from 1, and the column counts
    /// characters.
    pub fn line_and_column(&self, text: &[u8]) -> (usize, usize) {
        let before = text.get(..self.offset).unwrap_or(text);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let is_start = |byte: &&u8| **byte & 0xC0 != 0x80;
        let column = span_bytes(before, &(start..before.len()))
            .iter()
            .filter(is_start)
            .count()
            + 1;
        (line, column)
    }
}

/// A place in a JSON text. It moves forward over whole values.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    text: &'a [u8],
    offset: usize,
    depth: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor before the first byte.
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            offset: 0,
            depth: 0,
        }
    }

    /// Returns a cursor before a value that an earlier scan has found at this place.
    pub fn starting_at(text: &'a [u8], offset: usize) -> Self {
        Self {
            text,
            offset,
            depth: 0,
        }
    }

    /// Returns a cursor at this place, for which a value with more levels than this is too deep.
    pub fn starting_at_with_levels(text: &'a [u8], offset: usize, levels: usize) -> Self {
        Self {
            text,
            offset,
            depth: MAX_DEPTH.saturating_sub(levels),
        }
    }

    /// Returns the whole text.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the cursor's offset.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the kind of the next value. Consumes only white space.
    pub fn kind(&mut self) -> ScanResult<Kind> {
        self.skip_blank();
        self.peek()
            .and_then(Kind::from_byte)
            .ok_or_else(|| self.broken_here("expected a value"))
    }

    /// Consumes and checks one whole value.
    pub fn skip(&mut self) -> ScanResult<()> {
        self.value().map(drop)
    }

    /// Consumes and checks one whole value, and returns its place.
    pub fn value(&mut self) -> ScanResult<Span> {
        self.skip_blank();
        let start = self.offset;
        // Most values are strings.
        if self.peek() == Some(b'"') {
            self.string()?;
            return Ok(start..self.offset);
        }
        let outside = self.depth;
        // One bit for each level, the innermost one lowest: 1 for an object. MAX_DEPTH bits fit.
        let mut objects: u128 = 0;
        loop {
            match self.peek() {
                Some(b'"') => drop(self.string()?),
                Some(open @ (b'{' | b'[')) => {
                    let is_object = open == b'{';
                    self.enter()?;
                    if self.skip_over(if is_object { b'}' } else { b']' }) {
                        self.depth -= 1;
                    } else {
                        objects = objects << 1 | u128::from(is_object);
                        if is_object {
                            self.key()?;
                            self.skip_blank();
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return Err(self.broken_here("expected a value")),
            }
            // A value has ended. Close the levels that end with it, or go on to the next value.
            loop {
                if self.depth == outside {
                    return Ok(start..self.offset);
                }
                let in_object = objects & 1 == 1;
                if self.more(if in_object { b'}' } else { b']' })? {
                    if in_object {
                        self.key()?;
                    }
                    self.skip_blank();
                    break;
                }
                self.depth -= 1;
                objects >>= 1;
            }
        }
    }

    /// Consumes one whole value. Returns the number of UTF-8 bytes in its decoded text if it is a
    /// string, else 0.
    pub fn text_len(&mut self) -> ScanResult<usize> {
        self.skip_blank();
        if self.peek() == Some(b'"') {
            return self.string();
        }
        self.value()?;
        Ok(0)
    }

    /// Consumes an object. `each` gets the span of every key, quotes included, and must consume
    /// exactly the value of that member. Its result has no effect, unless it is a fault.
    pub fn object<R>(
        &mut self,
        mut each: impl FnMut(&mut Self, Span) -> ScanResult<R>,
    ) -> ScanResult<Span> {
        self.enclosed(b'{', b'}', "expected an object", |cursor, _| {
            let key = cursor.key()?;
            each(cursor, key)
        })
    }

    /// Consumes an object. `each` gets the key and the value of every member.
    pub fn members(&mut self, mut each: impl FnMut(Span, Span)) -> ScanResult<Span> {
        self.object(|cursor, key| {
            each(key, cursor.value()?);
            Ok(())
        })
    }

    /// Consumes an array. `each` gets the index of every element, and must consume exactly that
    /// element. Its result has no effect, unless it is a fault.
    pub fn array<R>(
        &mut self,
        each: impl FnMut(&mut Self, usize) -> ScanResult<R>,
    ) -> ScanResult<Span> {
        self.enclosed(b'[', b']', "expected an array", each)
    }

    /// Consumes a value between two brackets. `each` consumes the text between two commas.
    #[inline]
    fn enclosed<R>(
        &mut self,
        open: u8,
        close: u8,
        expected: &'static str,
        mut each: impl FnMut(&mut Self, usize) -> ScanResult<R>,
    ) -> ScanResult<Span> {
        self.skip_blank();
        let start = self.offset;
        if self.peek() != Some(open) {
            return Err(self.broken_here(expected));
        }
        self.enter()?;
        if !self.skip_over(close) {
            for index in 0.. {
                each(self, index)?;
                if !self.more(close)? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(start..self.offset)
    }

    /// Consumes a value. If it is an object, `each` gets its members as in
    /// [`object`](Self::object).
    pub fn maybe_object<R>(
        &mut self,
        each: impl FnMut(&mut Self, Span) -> ScanResult<R>,
    ) -> ScanResult<Span> {
        if self.kind()? == Kind::Object {
            self.object(each)
        } else {
            self.value()
        }
    }

    /// Consumes a value. If it is an object, `each` gets its members as in
    /// [`members`](Self::members).
    pub fn maybe_members(&mut self, each: impl FnMut(Span, Span)) -> ScanResult<Span> {
        if self.kind()? == Kind::Object {
            self.members(each)
        } else {
            self.value()
        }
    }

    /// Consumes a value. If it is an array, `each` gets its elements as in [`array`](Self::array).
    pub fn maybe_array<R>(
        &mut self,
        each: impl FnMut(&mut Self, usize) -> ScanResult<R>,
    ) -> ScanResult<Span> {
        if self.kind()? == Kind::Array {
            self.array(each)
        } else {
            self.value()
        }
    }

    /// Checks that only white space is left.
    pub fn end(&mut self) -> ScanResult<()> {
        self.skip_blank();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.broken_here("expected nothing after the value")),
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.offset).copied()
    }

    #[inline]
    fn skip_blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.offset += 1;
        }
    }

    /// Steps over white space and, if it comes next, over `byte`.
    #[inline]
    fn skip_over(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let found = self.peek() == Some(byte);
        self.offset += usize::from(found);
        found
    }

    /// Steps over the bracket that opens a level.
    #[inline]
    fn enter(&mut self) -> ScanResult<()> {
        if self.depth == MAX_DEPTH {
            return Err(self.broken_here("nested deeper than 127 levels"));
        }
        self.depth += 1;
        self.offset += 1;
        self.skip_blank();
        Ok(())
    }

    /// Steps over the byte after a member or element. Returns true for `,` and false for `close`.
    #[inline]
    fn more(&mut self, close: u8) -> ScanResult<bool> {
        if self.skip_over(b',') {
            return Ok(true);
        }
        if self.peek() == Some(close) {
            self.offset += 1;
            return Ok(false);
        }
        Err(self.broken_here(if close == b'}' {
            "expected `,` or `}`"
        } else {
            "expected `,` or `]`"
        }))
    }

    /// Steps over a key and its colon.
    #[inline]
    fn key(&mut self) -> ScanResult<Span> {
        self.skip_blank();
        let start = self.offset;
        if self.peek() != Some(b'"') {
            return Err(self.broken_here("expected a key in double quotes"));
        }
        self.string()?;
        let key = start..self.offset;
        if !self.skip_over(b':') {
            return Err(self.broken_here("expected `:` after the key"));
        }
        Ok(key)
    }

    fn literal(&mut self, word: &'static [u8]) -> ScanResult<()> {
        if !self.rest(self.offset).starts_with(word) {
            return Err(self.broken_here("expected a value"));
        }
        self.offset += word.len();
        Ok(())
    }

    fn number(&mut self) -> ScanResult<()> {
        self.offset += usize::from(self.peek() == Some(b'-'));
        if self.peek() == Some(b'0') {
            self.offset += 1;
            if let Some(b'0'..=b'9') = self.peek() {
                return Err(self.broken_here("a number must not begin with 0"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.offset += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.offset += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.offset += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Steps over one or more digits.
    #[inline]
    fn digits(&mut self) -> ScanResult<()> {
        let start = self.offset;
        while let Some(b'0'..=b'9') = self.peek() {
            self.offset += 1;
        }
        if self.offset == start {
            return Err(self.broken_here("expected a digit"));
        }
        Ok(())
    }

    /// Steps over a string, from its opening quote. Returns the length of its decoded text.
    #[inline]
    fn string(&mut self) -> ScanResult<usize> {
        let start = self.offset + 1;
        self.offset = start + plain_ascii_length(self.rest(start));
        if self.peek() != Some(b'"') {
            return self.long_string(start);
        }
        self.offset += 1;
        Ok(self.offset - 1 - start)
    }

    /// Steps over the rest of a string that begins at `start`, and is longer than most, or has
    /// escapes or non-ASCII.
    fn long_string(&mut self, start: usize) -> ScanResult<usize> {
        let mut high = 0;
        let mut saved = 0;
        loop {
            self.offset += plain_length(self.rest(self.offset), &mut high);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => saved += self.escape()?,
                Some(_) => {
                    return Err(self.broken_here("control characters in strings must be escaped"));
                }
                None => return Err(self.broken_here("the text ends inside a string")),
            }
        }
        if high & HIGH_BITS != 0 {
            self.check_utf8(start)?;
        }
        let len = self.offset - start - saved;
        self.offset += 1;
        Ok(len)
    }

    fn check_utf8(&mut self, start: usize) -> ScanResult<()> {
        match str::from_utf8(span_bytes(self.text, &(start..self.offset))) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.offset = start + error.valid_up_to();
                Err(self.broken_here("invalid UTF-8"))
            }
        }
    }

    /// Steps over an escape. Returns the number of bytes that decoding saves.
    #[inline]
    fn escape(&mut self) -> ScanResult<usize> {
        match self.text.get(self.offset + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.offset += 2;
                Ok(1)
            }
            Some(b'u') => {
                let rest = self.rest(self.offset + 2);
                let Some((character, after)) = code_point(rest) else {
                    return Err(self.broken_here("expected four hexadecimal digits after `\\u`"));
                };
                let written = 2 + rest.len() - after.len();
                self.offset += written;
                Ok(written - character.len_utf8())
            }
            _ => Err(self.broken_here("invalid escape in a string")),
        }
    }

    #[inline]
    fn rest(&self, from: usize) -> &'a [u8] {
        self.text.get(from..).unwrap_or_default()
    }

    /// Returns the fault at this place. If the text's encoding is the cause, the reason names it.
    #[cold]
    fn broken_here(&self, why: &'static str) -> Broken {
        let why = match self.text {
            [0xEF, 0xBB, 0xBF, ..] if self.offset == 0 => "a byte order mark (BOM) is not allowed",
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => {
                "the text must be UTF-8, and this looks like UTF-16"
            }
            // JSON begins with two ASCII characters, so a zero byte among the first two cannot be
            // JSON in UTF-8.
            [0, _, ..] | [_, 0, ..] => {
                "the text must be UTF-8, and this looks like UTF-16 or UTF-32"
            }
            _ if self.offset >= self.text.len() && why.starts_with("expected") => {
                "the text ends too early"
            }
            _ => why,
        };
        Broken {
            offset: self.offset,
            why,
        }
    }
}

/// Returns the bytes of a span. They are empty if the text does not reach that far.
#[inline]
pub fn span_bytes<'a>(text: &'a [u8], span: &Span) -> &'a [u8] {
    text.get(span.clone()).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
