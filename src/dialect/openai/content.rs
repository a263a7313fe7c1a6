//! Content as a string. Mistral and others send a list of parts, with their thinking among them.

use super::calls::between_quotes;
use super::shape::Body;
use crate::wire::json::{self, Broken, Cursor, Kind, Pieces, slice, text_of};
use crate::wire::splice::Edits;

/// Makes the content of a delta or message a string; returns how long it is. Thinking that came
/// among its parts goes beside it, where it is shown. Parts that are no text (references, images)
/// are left out: a string cannot hold them.
pub(super) fn edit(
    text: &[u8],
    body: &Body,
    show_reasoning: bool,
    edits: &mut Edits<'_>,
) -> Result<usize, &'static str> {
    let Some(member) = &body.content else { return Ok(0) };
    match member.kind(text) {
        Kind::String => Ok(json::text_len(text, &member.value)),
        Kind::Null => Ok(0),
        Kind::Array | Kind::Object => {
            let parts = parts(slice(text, &member.value));
            edits.replace(member.value.clone(), json::quote(&parts.text).into_bytes());
            let has_place = !body.has_reasoning_content && !body.has_reasoning;
            if show_reasoning && has_place && !parts.thinking.is_empty() {
                let thinking = format!(r#""reasoning_content":{}"#, json::quote(&parts.thinking));
                edits.insert_member(body.open, thinking.into_bytes());
            }
            Ok(parts.text.len() + parts.thinking.len())
        }
        Kind::Number | Kind::Bool => Err("content is neither text nor parts"),
    }
}

/// Takes the content of a delta or message, as [`edit`] leaves it.
pub(super) fn take(text: &[u8], body: &Body, to: &mut Pieces) {
    let Some(member) = &body.content else { return };
    match member.kind(text) {
        Kind::String => to.take_literal(between_quotes(slice(text, &member.value))),
        Kind::Array | Kind::Object => to.take(&parts(slice(text, &member.value)).text),
        Kind::Null | Kind::Number | Kind::Bool => {}
    }
}

/// What the parts say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) thinking: String,
}

/// Reads an array of parts, or a single one.
pub(super) fn parts(json: &[u8]) -> Parts {
    let mut parts = Parts::default();
    let mut cursor = Cursor::new(json);
    // The text was scanned before, so this cannot fail.
    let _read = match cursor.kind() {
        Ok(Kind::Array) => cursor.array(|cursor, _| parts.part(cursor)).map(drop),
        Ok(_) => parts.part(&mut cursor),
        Err(broken) => Err(broken),
    };
    parts
}

impl Parts {
    fn part(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if cursor.kind()? != Kind::Object {
            return append(&mut self.text, cursor);
        }
        let json = cursor.text();
        let read = cursor.object(|cursor, key| match slice(json, &key) {
            br#""text""# => append(&mut self.text, cursor),
            br#""thinking""# if cursor.kind()? == Kind::Array => {
                let part = |cursor: &mut Cursor<'_>, _| texts(&mut self.thinking, cursor);
                cursor.array(part).map(drop)
            }
            br#""thinking""# => append(&mut self.thinking, cursor),
            _ => cursor.value().map(drop),
        });
        read.map(drop)
    }
}

/// Appends the `text` of an object.
fn texts(to: &mut String, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
    if cursor.kind()? != Kind::Object {
        return append(to, cursor);
    }
    let json = cursor.text();
    let read = cursor.object(|cursor, key| match slice(json, &key) {
        br#""text""# => append(to, cursor),
        _ => cursor.value().map(drop),
    });
    read.map(drop)
}

/// Appends a string; any other value says nothing.
fn append(to: &mut String, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
    let value = cursor.value()?;
    to.push_str(&text_of(cursor.text(), &value).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_text() {
        for (json, expected) in [
            (r#"[]"#, ("", "")),
            (r#"[{"type":"text","text":"a"},"b",{"type":"reference","reference_ids":[1]}]"#, ("ab", "")),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"}]},{"type":"text","text":"a"}]"#,
                ("a", "hm"),
            ),
            (r#"[{"type":"thinking","thinking":"hm"}]"#, ("", "hm")),
            (r#"{"type":"text","text":"a"}"#, ("a", "")),
            (r#"[7,null,{"text":null},{"thinking":null}]"#, ("", "")),
        ] {
            let (text, thinking) = expected;
            let expected = Parts { text: text.into(), thinking: thinking.into() };
            assert_eq!(parts(json.as_bytes()), expected, "{json}");
        }
    }
}
