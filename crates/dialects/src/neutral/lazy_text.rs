//! A [`LazyText`] is a text of a request that may be long. It is kept as it stands in the caller's
//! body, and is decoded only where its content is needed: most texts are only written again.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;

use crate::wire::json::{self, Writer};

/// A text of a message, or a description.
#[derive(Clone)]
pub struct LazyText<'a> {
    kept: TextForm<'a>,
    /// The text of a literal with escapes, once it is decoded.
    decoded: OnceCell<Box<str>>,
}

#[derive(Clone)]
enum TextForm<'a> {
    /// A string literal without its quotes. It may be written again.
    Literal(&'a [u8]),
    /// The text itself.
    Text(Cow<'a, str>),
}

impl<'a> LazyText<'a> {
    /// Returns the text of a string literal, which is valid JSON. `literal` has no quotes.
    pub(crate) fn literal(literal: &'a [u8]) -> Self {
        Self {
            kept: TextForm::Literal(literal),
            decoded: OnceCell::new(),
        }
    }

    /// Returns whether the text is empty, without decoding it.
    pub fn is_empty(&self) -> bool {
        self.written_len() == 0
    }

    /// Returns whether the text is nothing but white space. It is decoded only if it may be so.
    pub fn is_blank(&self) -> bool {
        let may_be = match &self.kept {
            TextForm::Literal(literal) => literal
                .first()
                .is_none_or(|first| matches!(first, b'\\' | b' ' | 0x80..)),
            TextForm::Text(_) => true,
        };
        may_be && self.trim().is_empty()
    }

    /// Returns about how many bytes it takes where it is written.
    pub fn written_len(&self) -> usize {
        match &self.kept {
            TextForm::Literal(literal) => literal.len(),
            TextForm::Text(text) => text.len(),
        }
    }

    /// Returns the decoded text.
    pub fn into_text(self) -> Cow<'a, str> {
        match (self.kept, self.decoded.into_inner()) {
            (_, Some(decoded)) => Cow::Owned(decoded.into_string()),
            (TextForm::Literal(literal), None) => json::decode_string(literal).unwrap_or_default(),
            (TextForm::Text(text), None) => text,
        }
    }

    /// Adds to the text.
    pub fn push_str(&mut self, more: &str) {
        let mut text = std::mem::take(self).into_text();
        text.to_mut().push_str(more);
        *self = text.into();
    }

    /// Writes the text as a string.
    pub fn write(&self, w: &mut Writer) {
        Self::write_joined(std::iter::once(self), "", w);
    }

    /// Writes several texts as one string. `between` stands between two texts.
    pub fn write_joined<'s>(texts: impl Iterator<Item = &'s Self>, between: &str, w: &mut Writer)
    where
        'a: 's,
    {
        w.string(|w| {
            for (index, text) in texts.enumerate() {
                if index > 0 {
                    w.escaped(between);
                }
                match &text.kept {
                    TextForm::Literal(literal) => w.literal(literal),
                    TextForm::Text(text) => w.escaped(text),
                }
            }
        });
    }
}

impl Default for LazyText<'_> {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for LazyText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.kept {
            TextForm::Text(text) => text,
            TextForm::Literal(literal) if !literal.contains(&b'\\') => {
                str::from_utf8(literal).unwrap_or_default()
            }
            TextForm::Literal(literal) => self.decoded.get_or_init(|| {
                json::decode_string(literal)
                    .unwrap_or_default()
                    .into_owned()
                    .into()
            }),
        }
    }
}

impl<'a> From<Cow<'a, str>> for LazyText<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self {
            kept: TextForm::Text(text),
            decoded: OnceCell::new(),
        }
    }
}

impl<'a> From<&'a str> for LazyText<'a> {
    fn from(text: &'a str) -> Self {
        Cow::Borrowed(text).into()
    }
}

impl From<String> for LazyText<'_> {
    fn from(text: String) -> Self {
        Cow::<str>::Owned(text).into()
    }
}

impl PartialEq for LazyText<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Display for LazyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for LazyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::text_of;
    use proptest::prelude::*;

    fn written(said: &LazyText<'_>) -> Vec<u8> {
        let mut w = Writer::default();
        said.write(&mut w);
        w.into_bytes()
    }

    #[test]
    fn it_is_written_unchanged_until_it_is_another() {
        let said = LazyText::literal(br#"a\/\"b\n"#);
        assert_eq!(written(&said), br#""a\/\"b\n""#);
        assert_eq!(&*said, "a/\"b\n");
        assert_eq!(written(&said), br#""a\/\"b\n""#);
        assert_eq!(
            written(&said.into_text().into_owned().into()),
            br#""a/\"b\n""#
        );
        let (a, b) = (LazyText::literal(br"1\t"), LazyText::from("2\n"));
        let mut w = Writer::default();
        LazyText::write_joined([&a, &b, &a].into_iter(), "\n\n", &mut w);
        assert_eq!(w.into_bytes(), br#""1\t\n\n2\n\n\n1\t""#);
    }

    #[test]
    fn what_is_empty_or_blank() {
        for (literal, is_empty, is_blank) in [
            ("", true, true),
            (r"\n \t", false, true),
            (" ", false, true),
            ("\u{a0}", false, true),
            (r"\\", false, false),
            ("a", false, false),
            (" a", false, false),
        ] {
            let said = LazyText::literal(literal.as_bytes());
            assert_eq!(
                (said.is_empty(), said.is_blank()),
                (is_empty, is_blank),
                "{literal:?}"
            );
            let read = LazyText::from(said.to_owned().into_text());
            assert_eq!(
                (read.is_empty(), read.is_blank()),
                (is_empty, is_blank),
                "{literal:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_says_what_was_read(text in "[a-c\\\\\"\n\t\u{1}é\u{1F600} ]{0,40}") {
            let quoted = json::quote_string(&text);
            let said = LazyText::literal(&quoted.as_bytes()[1..quoted.len() - 1]);
            prop_assert_eq!(said.is_blank(), text.trim().is_empty());
            let bytes = written(&said);
            let read = text_of(&bytes, &(0..bytes.len()));
            prop_assert_eq!(read.as_deref(), Some(&*text));
            prop_assert_eq!(&*said, &*text);
            prop_assert_eq!(said.is_empty(), text.is_empty());
        }
    }
}
