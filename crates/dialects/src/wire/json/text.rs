//! This module decodes the strings and numbers of a scanned text.
//!
//! The spans come from a scan of this text. Any other span gives an empty result, never a panic. A
//! value without escapes is borrowed from the text.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{Cursor, ScanResult, Span, Writer, span_bytes};

impl<'a> Cursor<'a> {
    /// Consumes a string, and returns the text between its quotes.
    pub fn string_literal(&mut self) -> ScanResult<&'a [u8]> {
        self.skip_blank();
        if self.peek() != Some(b'"') {
            return Err(self.broken_here("expected a string"));
        }
        let start = self.offset + 1;
        self.string()?;
        Ok(span_bytes(self.text, &(start..self.offset - 1)))
    }
}

/// Returns the decoded value of a string. It is borrowed if the string has no escapes, and `None`
/// if the span holds no string. A lone surrogate becomes U+FFFD.
#[inline]
pub fn text_of<'a>(text: &'a [u8], string: &Span) -> Option<Cow<'a, str>> {
    decode_string(inside_quotes(text, string)?)
}

/// Returns the decoded value of the text between the quotes of a string.
#[inline]
pub(crate) fn decode_string(inside: &[u8]) -> Option<Cow<'_, str>> {
    match memchr(b'\\', inside) {
        None => str::from_utf8(inside).ok().map(Cow::Borrowed),
        Some(_) => decode_escapes(inside).map(Cow::Owned),
    }
}

/// Returns the decoded bytes of a key from the scanner, without a second check that they are UTF-8.
/// They are empty if the span holds no string.
#[inline]
pub fn name_of<'a>(text: &'a [u8], key: &Span) -> Cow<'a, [u8]> {
    let inside = inside_quotes(text, key).unwrap_or_default();
    if inside.contains(&b'\\') {
        return Cow::Owned(decode_escapes(inside).unwrap_or_default().into_bytes());
    }
    Cow::Borrowed(inside)
}

/// Returns whether a server that ignores the case of letters takes this name for `known`, which is
/// in lower case. The folding of Go maps two letters beyond ASCII to ASCII ones.
pub fn folds_to(name: &[u8], known: &str) -> bool {
    // A folded letter has at most three bytes for one.
    if name.len() < known.len() || name.len() > known.len() * 3 {
        return false;
    }
    str::from_utf8(name).is_ok_and(|name| {
        name.chars()
            .map(fold_letter)
            .eq(known.chars().map(fold_letter))
    })
}

fn fold_letter(letter: char) -> char {
    match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    }
}

/// Returns the number of UTF-8 bytes in the result of [`text_of`], without decoding; 0 if the span
/// holds no string. `Cursor::text_len` returns it in the pass that finds the span.
pub fn text_len(text: &[u8], string: &Span) -> usize {
    let mut rest = inside_quotes(text, string).unwrap_or_default();
    let mut len = 0;
    while let Some(plain) = memchr(b'\\', rest) {
        let escape = rest.get(plain + 1..).unwrap_or_default();
        let Some((character, after)) = read_escape(escape) else {
            break;
        };
        len += plain + character.len_utf8();
        rest = after;
    }
    len + rest.len()
}

/// Returns the exact value of a number that is a non-negative integer, written as `12` or as
/// `12.0`.
pub fn integer_of(text: &[u8], number: &Span) -> Option<u64> {
    let number = span_bytes(text, number);
    let mut value = 0u64;
    for (index, byte) in number.iter().enumerate() {
        if *byte == b'.' {
            let zeros = number.get(index + 1..).unwrap_or_default();
            let is_whole =
                index > 0 && !zeros.is_empty() && zeros.iter().all(|digit| *digit == b'0');
            return is_whole.then_some(value);
        }
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    (!number.is_empty()).then_some(value)
}

/// Returns whether a text is exactly one JSON value.
pub fn is_whole(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.value().and_then(|_| cursor.end()).is_ok()
}

/// Returns a valid JSON text on one line. Its line ends stand between tokens only.
pub fn one_line(text: &str) -> Cow<'_, str> {
    match memchr2(b'\n', b'\r', text.as_bytes()) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.replace(['\n', '\r'], "")),
    }
}

/// Returns a JSON string literal with this value. It has no raw line ends.
pub fn quote_string(s: &str) -> String {
    let mut literal = Writer::with_capacity(s.len() + 2);
    literal.text(s);
    String::from_utf8(literal.into_bytes()).unwrap_or_default()
}

/// Returns the text between the quotes of a string.
fn inside_quotes<'a>(text: &'a [u8], string: &Span) -> Option<&'a [u8]> {
    span_bytes(text, string)
        .strip_prefix(b"\"")?
        .strip_suffix(b"\"")
}

/// Decodes a string with escapes. Returns `None` if one is malformed.
fn decode_escapes(mut rest: &[u8]) -> Option<String> {
    let mut decoded = Vec::with_capacity(rest.len());
    loop {
        let Some(end) = memchr(b'\\', rest) else {
            decoded.extend_from_slice(rest);
            return String::from_utf8(decoded).ok();
        };
        decoded.extend_from_slice(rest.get(..end)?);
        let (character, after) = read_escape(rest.get(end + 1..)?)?;
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => decoded.push(byte),
            Ok(_) | Err(_) => {
                decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes())
            }
        }
        rest = after;
    }
}

/// Returns the character that an escape stands for, and the text after the escape. `rest` begins
/// just after the backslash.
pub(super) fn read_escape(rest: &[u8]) -> Option<(char, &[u8])> {
    let (&letter, after) = rest.split_first()?;
    let character = match letter {
        b'"' | b'\\' | b'/' => char::from(letter),
        b'b' => '\x08',
        b'f' => '\x0C',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return code_point(after),
        _ => return None,
    };
    Some((character, after))
}

/// Returns the character of a `\u` escape, and the text after it. `rest` begins just after the `u`.
/// A pair of surrogates is one character.
pub(super) fn code_point(rest: &[u8]) -> Option<(char, &[u8])> {
    let (high, after) = read_four_hex(rest)?;
    if let 0xD800..0xDC00 = high
        && let Some((low @ 0xDC00..0xE000, after)) =
            after.strip_prefix(b"\\u").and_then(read_four_hex)
    {
        let code = 0x1_0000 + ((high - 0xD800) << 10 | (low - 0xDC00));
        return Some((char::from_u32(code)?, after));
    }
    Some((
        char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
        after,
    ))
}

fn read_four_hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, after) = text.split_at_checked(4)?;
    let code = digits.iter().try_fold(0, |code, digit| {
        Some(code << 4 | char::from(*digit).to_digit(16)?)
    });
    Some((code?, after))
}
