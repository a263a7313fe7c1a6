//! Values as Google's servers may write them: texts that are `null`, JSON with line ends in it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text that may be absent or `null`; borrowed where it has no escapes.
#[derive(Debug, Default)]
pub struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// The text, if there is any.
    pub fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsText)
    }
}

/// A text that must be there, and not empty.
pub fn required<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
    let text = Text::deserialize(deserializer)?.0.filter(|text| !text.is_empty());
    text.ok_or_else(|| D::Error::custom("expected a text"))
}

struct AsText;

impl<'de> Visitor<'de> for AsText {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or null")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
        Ok(Text(None))
    }
}

/// JSON without the white space between its tokens; numbers and strings stay as they are.
pub fn compact(json: &str) -> Cow<'_, str> {
    let mut compacted = String::new();
    let mut start = 0;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_string = true;
        } else if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            compacted.push_str(json.get(start..at).unwrap_or_default());
            start = at + 1;
        }
    }
    if start == 0 {
        return Cow::Borrowed(json);
    }
    compacted.push_str(json.get(start..).unwrap_or_default());
    Cow::Owned(compacted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_goes_but_not_out_of_strings() {
        let check = |json, expected| assert_eq!(compact(json), expected);
        check(r#"{"a":1.0}"#, r#"{"a":1.0}"#);
        check("{\n  \"a b\": [ 1 ,\t2 ],\r\n \"c\\\" d\\\\\" : \" e \"\n}", r#"{"a b":[1,2],"c\" d\\":" e "}"#);
        check(" {}", "{}");
        check("{ }", "{}");
        check(r#"{"é ü": "ß"}"#, r#"{"é ü":"ß"}"#);
        assert!(matches!(compact(r#"{"a b":1}"#), Cow::Borrowed(_)));
    }
}
