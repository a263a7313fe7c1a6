//! Most events of a stream repeat the one before byte for byte, but for a text. The bytes around
//! the text decide the event's meaning, so an event with equal bytes around its text need not be
//! read.

use std::borrow::Cow;

use memchr::memmem;

use crate::wire::json::{self, Cursor, Span};

/// The most strings of an event that may change: its text, and padding.
pub(crate) const STRINGS: usize = 2;
/// The longest event that is learned. A longer one is not typical.
const MAX_LEARNED: usize = 2 * 1024;

/// A string of an event with its quotes, and the number of UTF-8 bytes in it.
pub(crate) type ChangingString<'a> = (&'a [u8], usize);

/// The bytes around the strings that change.
#[derive(Debug, Default)]
pub(crate) struct RepeatPattern {
    /// The strings stand between them. If the list is empty, nothing is known.
    parts: Vec<Vec<u8>>,
    /// Which of the strings is the text.
    pub(crate) text_at: usize,
}

impl RepeatPattern {
    pub(crate) fn new(parts: Vec<Vec<u8>>, text_at: usize) -> Self {
        Self { parts, text_at }
    }

    /// Returns the strings of an event that has these bytes around them.
    #[inline]
    pub(crate) fn strings<'a>(&self, data: &'a [u8]) -> Option<[ChangingString<'a>; STRINGS]> {
        let (first, others) = self.parts.split_first()?;
        let mut rest = data.strip_prefix(first.as_slice())?;
        let mut strings: [ChangingString<'_>; STRINGS] = Default::default();
        for ((string, length), part) in strings.iter_mut().zip(others) {
            let after = rest;
            if after.first() != Some(&b'"') {
                return None;
            }
            let mut cursor = Cursor::new(after);
            *length = cursor.text_len().ok()?;
            (*string, rest) = after.split_at_checked(cursor.offset())?;
            rest = rest.strip_prefix(part.as_slice())?;
        }
        rest.is_empty().then_some(strings)
    }

    #[cfg(test)]
    pub(crate) fn is_known(&self) -> bool {
        !self.parts.is_empty()
    }

    pub(crate) fn forget(&mut self) {
        self.parts.clear();
    }
}

/// The last event with a text, and the meaning of such events.
#[derive(Debug)]
pub(crate) struct Repeat<M> {
    pattern: RepeatPattern,
    meaning: Option<M>,
}

impl<M> Default for Repeat<M> {
    fn default() -> Self {
        Self {
            pattern: RepeatPattern::default(),
            meaning: None,
        }
    }
}

impl<M: Copy> Repeat<M> {
    /// Returns the meaning of an event that repeats the last one, and its text.
    #[inline]
    pub(crate) fn follow<'a>(&self, data: &'a [u8]) -> Option<(M, Cow<'a, str>)> {
        let strings = self.pattern.strings(data)?;
        let (text, _) = strings.get(self.pattern.text_at)?;
        Some((self.meaning?, json::text_of(text, &(0..text.len()))?))
    }

    /// Learns an event that means nothing but this text. `padding` is another text that may change.
    pub(crate) fn learn(&mut self, data: &[u8], text: &str, padding: Option<&str>, meaning: M) {
        self.forget();
        if data.len() > MAX_LEARNED {
            return;
        }
        let Some(mut holes) = [Some(text), padding]
            .into_iter()
            .flatten()
            .map(|text| only_place(data, text))
            .collect()
        else {
            return;
        };
        self.pattern = learn_pattern(data, &mut holes);
        self.meaning = Some(meaning);
    }

    /// Forgets the last event, because an event came that may change the meaning of its bytes.
    pub(crate) fn forget(&mut self) {
        self.pattern.forget();
    }
}

/// Returns the bytes around the holes. The first hole is the text.
fn learn_pattern(data: &[u8], holes: &mut Vec<Span>) -> RepeatPattern {
    let text = holes.first().map_or(0, |hole| hole.start);
    holes.sort_by_key(|hole| hole.start);
    let text_at = holes
        .iter()
        .position(|hole| hole.start == text)
        .unwrap_or_default();
    let mut parts = Vec::with_capacity(STRINGS + 1);
    let mut offset = 0;
    for hole in holes {
        parts.push(json::span_bytes(data, &(offset..hole.start)).to_vec());
        offset = hole.end;
    }
    parts.push(json::span_bytes(data, &(offset..data.len())).to_vec());
    RepeatPattern::new(parts, text_at)
}

/// Returns where this string stands, if it stands there only, and without escapes.
fn only_place(data: &[u8], text: &str) -> Option<Span> {
    let literal = [b"\"", text.as_bytes(), b"\""].concat();
    let mut places = memmem::find_iter(data, &literal);
    let position = places.next().filter(|_| places.next().is_none())?;
    (!text.is_empty()).then_some(position..position + literal.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(data: &str, text: &str, padding: Option<&str>) -> Repeat<u8> {
        let mut repeat = Repeat::default();
        repeat.learn(data.as_bytes(), text, padding, 7);
        repeat
    }

    #[test]
    fn what_repeats_is_followed_and_all_else_is_not() {
        let repeat = learned(r#"{"kind":"t","text":"one"} "#, "one", None);
        for (data, text) in [
            (r#"{"kind":"t","text":"one"} "#, Some("one")),
            (r#"{"kind":"t","text":""} "#, Some("")),
            (
                r#"{"kind":"t","text":"a\n\"b\" \u00e9"} "#,
                Some("a\n\"b\" é"),
            ),
            (r#"{"kind":"t","text":"one"}"#, None),
            (r#"{"kind":"u","text":"one"} "#, None),
            (r#"{"kind":"t","text":"one","more":"two"} "#, None),
            (r#"{"kind":"t","text":7} "#, None),
            (r#"{"kind":"t","text":"\x"} "#, None),
            ("", None),
        ] {
            assert_eq!(
                repeat.follow(data.as_bytes()),
                text.map(|text| (7, Cow::Borrowed(text))),
                "{data}"
            );
        }
        assert_eq!(repeat.follow(b"{\"kind\":\"t\",\"text\":\"\xff\"} "), None);
    }

    #[test]
    fn padding_may_stand_before_or_after() {
        for data in [
            r#"{"pad":"xyz","text":"one"}"#,
            r#"{"text":"one","pad":"xyz"}"#,
        ] {
            let repeat = learned(data, "one", Some("xyz"));
            let next = data.replace("one", "two").replace("xyz", "p");
            assert_eq!(
                repeat.follow(next.as_bytes()),
                Some((7, Cow::Borrowed("two")))
            );
        }
        let repeat = learned(r#"{"pad":"","text":"one"}"#, "one", Some(""));
        assert!(
            !repeat.pattern.is_known(),
            "it is not known where an empty padding stands"
        );
    }

    #[test]
    fn repeated_or_escaped_texts_are_not_learned() {
        for (data, text) in [
            (r#"{"kind":"text","text":"text"}"#, "text"),
            (r#"{"text":"a\nb"}"#, "a\nb"),
            ("{}", "a"),
        ] {
            assert_eq!(
                learned(data, text, None).follow(data.as_bytes()),
                None,
                "{data}"
            );
        }
        let long = format!(r#"{{"text":"a{}"}}"#, " ".repeat(MAX_LEARNED));
        assert_eq!(
            learned(&long, &long[9..long.len() - 2], None).follow(long.as_bytes()),
            None
        );
        let mut repeat = learned(r#"{"text":"one"}"#, "one", None);
        repeat.forget();
        assert_eq!(repeat.follow(br#"{"text":"one"}"#), None);
    }
}
