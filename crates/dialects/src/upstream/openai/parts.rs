//! A part is one element of content that is a list. This module reads the text of the parts, and
//! the thinking among them.

use crate::wire::json::{Cursor, Kind, ScanResult, Span, span_bytes, text_of};

/// The text and the thinking of the parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// Reads an array of parts, or a single one.
pub(super) fn read_parts(json: &[u8]) -> Parts {
    let mut parts = Parts::default();
    let mut cursor = Cursor::new(json);
    // The whole body was scanned before this, so it is valid JSON and nothing here fails.
    let _read = match cursor.kind() {
        Ok(Kind::Array) => cursor.array(|cursor, _| parts.append_part(cursor)),
        Ok(_) => parts.append_part(&mut cursor),
        Err(broken) => Err(broken),
    };
    parts
}

impl Parts {
    /// Reads one part, and appends its text or its thinking.
    fn append_part(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<Span> {
        if cursor.kind()? != Kind::Object {
            return append_string(&mut self.text, cursor);
        }
        let json = cursor.text();
        cursor.object(|cursor, key| match span_bytes(json, &key) {
            br#""text""# => append_string(&mut self.text, cursor),
            // Mistral sends a list. A string is read, too.
            br#""thinking""# if cursor.kind()? == Kind::Array => {
                cursor.array(|cursor, _| append_texts(&mut self.thinking, cursor))
            }
            br#""thinking""# => append_string(&mut self.thinking, cursor),
            _ => cursor.value(),
        })
    }
}

/// Appends one element of `thinking`: a string, or the `text` of an object.
fn append_texts(out: &mut String, cursor: &mut Cursor<'_>) -> ScanResult<Span> {
    if cursor.kind()? != Kind::Object {
        return append_string(out, cursor);
    }
    let json = cursor.text();
    cursor.object(|cursor, key| match span_bytes(json, &key) {
        br#""text""# => append_string(out, cursor),
        _ => cursor.value(),
    })
}

/// Appends a string. Any other value is ignored.
fn append_string(out: &mut String, cursor: &mut Cursor<'_>) -> ScanResult<Span> {
    let value = cursor.value()?;
    out.push_str(&text_of(cursor.text(), &value).unwrap_or_default());
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_text() {
        for (json, expected) in [
            (r#"[]"#, ("", "")),
            (
                r#"[{"type":"text","text":"a"},"b",{"type":"reference","reference_ids":[1]}]"#,
                ("ab", ""),
            ),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"}]},{"type":"text","text":"a"}]"#,
                ("a", "hm"),
            ),
            (r#"[{"type":"thinking","thinking":"hm"}]"#, ("", "hm")),
            (r#"{"type":"text","text":"a"}"#, ("a", "")),
            (r#"[7,null,{"text":null},{"thinking":null}]"#, ("", "")),
        ] {
            let (text, thinking) = expected;
            let expected = Parts {
                text: text.into(),
                thinking: thinking.into(),
            };
            assert_eq!(read_parts(json.as_bytes()), expected, "{json}");
        }
    }
}
