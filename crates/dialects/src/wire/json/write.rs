//! A writer writes JSON straight into a buffer. It builds no values, and text that is already JSON
//! is written unchanged.

use super::plain::plain_length;

/// A JSON text while it is written. The writer adds the commas. The caller must write keys only in
/// objects.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// Returns an empty text with room for this number of bytes.
    pub fn with_capacity(room: usize) -> Self {
        Self {
            out: Vec::with_capacity(room),
        }
    }

    /// Returns the text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Writes an object. `inside` writes its members.
    pub fn object(&mut self, inside: impl FnOnce(&mut Self)) {
        self.comma();
        self.out.push(b'{');
        inside(self);
        self.out.push(b'}');
    }

    /// Writes an array. `inside` writes its elements.
    pub fn array(&mut self, inside: impl FnOnce(&mut Self)) {
        self.comma();
        self.out.push(b'[');
        inside(self);
        self.out.push(b']');
    }

    /// Writes the key of a member. The key is one of ours, so nothing in it needs an escape. The
    /// value must come next.
    #[inline]
    pub fn key(&mut self, name: &'static str) -> &mut Self {
        debug_assert!(
            plain_length(name.as_bytes(), &mut 0) == name.len(),
            "{name:?} is to be escaped"
        );
        self.comma();
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self
    }

    /// Writes the key of a member. The key is not one of ours, so it is escaped. The value must
    /// come next.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self.out.push(b':');
        self
    }

    /// Writes members whose values are strings.
    pub fn texts<const N: usize>(&mut self, members: [(&'static str, &str); N]) {
        members
            .into_iter()
            .for_each(|(name, text)| self.key(name).text(text));
    }

    /// Writes a member, if it has a value.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T),
    ) {
        if let Some(value) = value {
            write(self.key(name), value);
        }
    }

    /// Writes a member: its value, or `null`.
    pub fn or_null<T>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(&mut Self, T),
    ) {
        match value {
            Some(value) => write(self.key(name), value),
            None => self.key(name).null(),
        }
    }

    /// Writes an array. `write` writes an element, or nothing, for each item.
    pub fn each<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.array(|w| items.into_iter().for_each(|item| write(w, item)));
    }

    /// Writes a member whose value is an array as in [`each`](Self::each), unless the array is
    /// empty.
    pub fn list<T>(
        &mut self,
        name: &'static str,
        items: impl IntoIterator<Item = T>,
        write: impl FnMut(&mut Self, T),
    ) {
        self.filled(name, |w| w.each(items, write));
    }

    /// Writes a member whose value is an object, unless the object is empty. `inside` writes its
    /// members.
    pub fn group(&mut self, name: &'static str, inside: impl FnOnce(&mut Self)) {
        self.filled(name, |w| w.object(inside));
    }

    fn filled(&mut self, name: &'static str, value: impl FnOnce(&mut Self)) {
        const EMPTY: usize = 2;
        let start = self.out.len();
        let inside = self.key(name).out.len();
        value(self);
        if self.out.len() == inside + EMPTY {
            self.out.truncate(start);
        }
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) {
        self.string(|w| w.escaped(text));
    }

    /// Writes a string. `inside` writes the text between its quotes.
    pub(crate) fn string(&mut self, inside: impl FnOnce(&mut Self)) {
        self.comma();
        self.out.push(b'"');
        inside(self);
        self.out.push(b'"');
    }

    /// Writes a part of a string.
    pub(crate) fn escaped(&mut self, text: &str) {
        escape_into(text, &mut self.out);
    }

    /// Writes a part of a string that has its escapes already.
    pub(crate) fn literal(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    /// Writes a whole value that is already JSON.
    pub fn raw(&mut self, json: &str) {
        self.comma();
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes a number.
    pub fn number(&mut self, number: u64) {
        self.comma();
        // A number can always be written to a buffer.
        let _written = serde_json::to_writer(&mut self.out, &number);
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    /// Writes `null`.
    pub fn null(&mut self) {
        self.raw("null");
    }

    /// Writes the comma between two values, unless something was just opened. A string ends with a
    /// quote, so a bracket or a colon as the last byte was not written inside a string.
    #[inline]
    fn comma(&mut self) {
        if !matches!(
            self.out.last(),
            None | Some(b'{' | b'[' | b':' | b'\n' | b' ')
        ) {
            self.out.push(b',');
        }
    }
}

/// Appends the escaped text of a string literal, without the quotes.
pub fn escape_into(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    loop {
        let end = plain_length(rest, &mut 0);
        let (before, from) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        out.extend_from_slice(before);
        let Some((byte, after)) = from.split_first() else {
            return;
        };
        rest = after;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
}

/// Appends a string, after the text `before`.
#[inline]
pub fn put_text(out: &mut Vec<u8>, before: &str, text: &str) {
    out.extend_from_slice(before.as_bytes());
    out.push(b'"');
    escape_into(text, out);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_come_by_themselves() {
        let mut w = Writer::default();
        w.object(|w| {
            w.key("a").number(0);
            w.key("b").array(|w| {
                w.number(u64::MAX);
                w.text(":");
                w.raw("{}");
                w.array(|_| {});
                w.text("");
                w.null();
            });
            w.key("c").object(|w| w.key("d{").bool(true));
            w.name("e\n").object(|_| {});
            w.key("f").raw("1.0");
        });
        assert_eq!(
            String::from_utf8(w.into_bytes()).unwrap(),
            r#"{"a":0,"b":[18446744073709551615,":",{},[],"",null],"c":{"d{":true},"e\n":{},"f":1.0}"#
        );
    }

    #[test]
    fn what_is_not_there_leaves_no_trace() {
        let mut w = Writer::default();
        w.object(|w| {
            w.group("a", |w| w.optional("x", None, Writer::text));
            w.texts([("b", "1"), ("c", "")]);
            w.list("d", [(); 0], |_, ()| {});
            w.optional("e", Some(2), Writer::number);
            w.group("f", |w| w.list("g", [3], Writer::number));
        });
        assert_eq!(
            String::from_utf8(w.into_bytes()).unwrap(),
            r#"{"b":"1","c":"","e":2,"f":{"g":[3]}}"#
        );
    }

    #[test]
    fn strings_are_escaped_as_serde_does() {
        let text: String = (0..0x90u8)
            .map(char::from)
            .chain("é😀\u{2028}".chars())
            .collect();
        let long = format!("{}{text}{}", "x".repeat(100), "y".repeat(100));
        for text in ["", "a", &text, &long] {
            let mut w = Writer::default();
            w.text(text);
            let back: String = serde_json::from_slice(&w.into_bytes()).unwrap();
            assert_eq!(back, text);
        }
    }
}
