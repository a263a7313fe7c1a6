//! Values as Google's servers may write them: texts that are `null`, numbers in quotes, JSON with line ends in it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text that may be absent or `null`; borrowed where it has no escapes.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// The text, if there is any.
    pub(super) fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }
}

/// A count that may be absent, `null`, or in quotes, as 64-bit numbers are.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count(pub Option<u64>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsText)
    }
}

/// A text that must be there, and not empty.
pub(super) fn required<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, str>, D::Error> {
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

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AsCount)
    }
}

struct AsCount;

impl Visitor<'_> for AsCount {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count or null")
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Count, E> {
        Ok(Count(Some(count)))
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(count).ok()))
    }

    fn visit_f64<E: Error>(self, count: f64) -> Result<Count, E> {
        // Numbers of this size are whole in an f64; others are no counts.
        let is_count = count.fract() == 0.0 && (0.0..9e15).contains(&count);
        Ok(Count(is_count.then(|| format!("{count}").parse().ok()).flatten()))
    }

    fn visit_str<E: Error>(self, digits: &str) -> Result<Count, E> {
        Ok(Count(digits.parse().ok()))
    }

    fn visit_unit<E: Error>(self) -> Result<Count, E> {
        Ok(Count(None))
    }
}

/// JSON without the white space between its tokens; numbers and strings stay as they are.
pub(super) fn compact(json: &str) -> Cow<'_, str> {
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

    #[test]
    fn counts_are_read_in_every_form() {
        let check = |json: &str, expected| assert_eq!(serde_json::from_str::<Count>(json).unwrap().0, expected, "{json}");
        check("7", Some(7));
        check("\"7\"", Some(7));
        check("7.0", Some(7));
        check("null", None);
        check("-7", None);
        check("7.5", None);
        check("1e300", None);
        check("\"seven\"", None);
    }
}
