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
pub(crate) struct FixedParts {
    /// The strings stand between them. If the list is empty, nothing is known.
    pub(crate) parts: Vec<Vec<u8>>,
    /// Which of the strings is the text.
    pub(crate) text_index: usize,
}

impl FixedParts {
    /// Returns the bytes around the strings at these places, and sorts the places. The place that
    /// was given first is the text's.
    pub(crate) fn between(data: &[u8], places: &mut Vec<Span>) -> Self {
        let text = places.first().map_or(0, |place| place.start);
        places.sort_by_key(|place| place.start);
        let text_index = places
            .iter()
            .position(|place| place.start == text)
            .unwrap_or_default();
        let mut parts = Vec::with_capacity(STRINGS + 1);
        let mut offset = 0;
        for place in places {
            parts.push(json::span_bytes(data, &(offset..place.start)).to_vec());
            offset = place.end;
        }
        parts.push(json::span_bytes(data, &(offset..data.len())).to_vec());
        Self { parts, text_index }
    }

    /// Returns the strings of an event that has these bytes around them.
    #[inline]
    pub(crate) fn match_strings<'a>(
        &self,
        data: &'a [u8],
    ) -> Option<[ChangingString<'a>; STRINGS]> {
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
    fixed: FixedParts,
    meaning: Option<M>,
}

impl<M> Default for Repeat<M> {
    fn default() -> Self {
        Self {
            fixed: FixedParts::default(),
            meaning: None,
        }
    }
}

impl<M: Copy> Repeat<M> {
    /// Returns the meaning of an event that repeats the last one, and its text.
    #[inline]
    pub(crate) fn follow<'a>(&self, data: &'a [u8]) -> Option<(M, Cow<'a, str>)> {
        let strings = self.fixed.match_strings(data)?;
        let (text, _) = strings.get(self.fixed.text_index)?;
        Some((self.meaning?, json::text_of(text, &(0..text.len()))?))
    }

    /// Learns an event that means nothing but this text. `padding` is another text that may change.
    pub(crate) fn learn(&mut self, data: &[u8], text: &str, padding: Option<&str>, meaning: M) {
        self.forget();
        if data.len() > MAX_LEARNED {
            return;
        }
        let Some(mut places) = [Some(text), padding]
            .into_iter()
            .flatten()
            .map(|text| only_place(data, text))
            .collect()
        else {
            return;
        };
        self.fixed = FixedParts::between(data, &mut places);
        self.meaning = Some(meaning);
    }

    /// Forgets the last event, because an event came that may change the meaning of its bytes.
    pub(crate) fn forget(&mut self) {
        self.fixed.forget();
    }
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
            !repeat.fixed.is_known(),
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
