//! This module has two kinds of texts: strings as servers write them, which may be `null`, and the
//! texts in the parts of a message.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Visitor};

use crate::neutral::{Emit, Event, Part, PartKind};

/// A string, borrowed if it has no escapes. `null` is `None`.
#[derive(Debug, Default)]
pub struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// Returns the string, if there is one and it is not empty.
    pub fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// Returns the string, empty if there is none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Emits the string as this event, if it is there and not empty.
    pub fn emit<'t>(&'t self, event: impl FnOnce(&'t str) -> Event<'t>, emit: Emit<'_>) {
        if let Some(text) = self.filled() {
            emit(event(text));
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ReadText<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for ReadText<'a> {
            type Value = Text<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'a>, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            fn visit_unit<E>(self) -> Result<Text<'a>, E> {
                Ok(Text(None))
            }
        }
        from.deserialize_any(ReadText(PhantomData))
    }
}

/// Returns the text of a part that is text.
pub(crate) fn text_of<'p>(part: &'p Part<'_>) -> Option<&'p str> {
    if let PartKind::Text(text) = &part.kind {
        Some(text)
    } else {
        None
    }
}

/// Returns the texts of a message as one text, with a line for each.
pub(crate) fn joined_text<'m>(content: &'m [Part<'_>]) -> Cow<'m, str> {
    let mut texts = content.iter().filter_map(text_of);
    let Some(first) = texts.next() else {
        return Cow::Borrowed("");
    };
    let Some(second) = texts.next() else {
        return Cow::Borrowed(first);
    };
    let mut joined = format!("{first}\n{second}");
    for text in texts {
        joined.push('\n');
        joined.push_str(text);
    }
    Cow::Owned(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::chat::read::read_request;

    #[test]
    fn texts_are_joined_by_lines() {
        let of = |content: &str| {
            let body =
                format!(r#"{{"model":"m","messages":[{{"role":"user","content":{content}}}]}}"#);
            joined_text(&read_request(body.as_bytes()).unwrap().0.messages[0].content).into_owned()
        };
        assert_eq!(of("null"), "");
        assert_eq!(of(r#""a""#), "a");
        assert_eq!(of(r#"[{"type":"text","text":"a"}]"#), "a");
        assert_eq!(
            of(
                r#"[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]"#
            ),
            "a\nb\nc"
        );
    }
}
