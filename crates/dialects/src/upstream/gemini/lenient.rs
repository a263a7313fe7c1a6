//! This module reads values in the forms that Google's servers may write: texts that are `null`,
//! and JSON with line ends in it.

use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error};

use crate::upstream::shared::text::Text;

/// Reads a text that must be there and must not be empty.
pub(super) fn read_required<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Cow<'a, str>, D::Error> {
    let text = Text::deserialize(deserializer)?
        .0
        .filter(|text| !text.is_empty());
    text.ok_or_else(|| D::Error::custom("expected a text"))
}

/// Returns JSON without the white space between its tokens. Numbers and strings stay as they are.
pub(super) fn compact_json(json: &str) -> Cow<'_, str> {
    let mut compacted = String::new();
    let mut start = 0;
    let mut in_string = false;
    let mut escaped = false;
    for (index, byte) in json.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            in_string = true;
        } else if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            compacted.push_str(json.get(start..index).unwrap_or_default());
            start = index + 1;
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
        let check = |json, expected| assert_eq!(compact_json(json), expected);
        check(r#"{"a":1.0}"#, r#"{"a":1.0}"#);
        check(
            "{\n  \"a b\": [ 1 ,\t2 ],\r\n \"c\\\" d\\\\\" : \" e \"\n}",
            r#"{"a b":[1,2],"c\" d\\":" e "}"#,
        );
        check(" {}", "{}");
        check("{ }", "{}");
        check(r#"{"é ü": "ß"}"#, r#"{"é ü":"ß"}"#);
        assert!(matches!(compact_json(r#"{"a b":1}"#), Cow::Borrowed(_)));
    }
}
