//! This module makes content a string. Mistral and others send a list of parts, with their thinking
//! among the parts.

use super::calls::between_quotes;
use super::parts::read_parts;
use super::scan::ScannedMessage;
use crate::wire::json::{self, Kind, Pieces, span_bytes};
use crate::wire::splice::Edits;

/// Makes the content of a delta or a message a string. Returns the length of its text. Thinking
/// among the parts moves into a field next to the content, if thinking is shown. Parts that are no
/// text (references, images) are left out, because a string cannot hold them.
pub(super) fn edit_content(
    body: &ScannedMessage,
    show_reasoning: bool,
    edits: &mut Edits<'_>,
) -> Result<usize, &'static str> {
    let text = edits.text();
    let Some(member) = &body.content else {
        return Ok(0);
    };
    match member.kind(text) {
        Kind::String => Ok(json::text_len(text, &member.value)),
        Kind::Null => Ok(0),
        Kind::Array | Kind::Object => {
            let parts = read_parts(span_bytes(text, &member.value));
            edits.replace(
                member.value.clone(),
                json::quote_string(&parts.text).into_bytes(),
            );
            let has_place = !body.thinking.has_reasoning_content && !body.thinking.has_reasoning;
            if show_reasoning && has_place && !parts.thinking.is_empty() {
                let thinking = format!(
                    r#""reasoning_content":{}"#,
                    json::quote_string(&parts.thinking)
                );
                edits.insert_member(body.open, thinking.into_bytes());
            }
            Ok(parts.text.len() + parts.thinking.len())
        }
        Kind::Number | Kind::Bool => Err("the content is neither a string nor a list of parts"),
    }
}

/// Takes the content of a delta or a message into `to`, as [`edit_content`] leaves it.
pub(super) fn take_content(text: &[u8], body: &ScannedMessage, to: &mut Pieces) {
    match (body.parts_of_content(text), &body.content) {
        (Some(content), _) => to.take(&read_parts(content).text),
        (None, Some(member)) if member.kind(text) == Kind::String => {
            to.take_literal(between_quotes(span_bytes(text, &member.value)));
        }
        (None, _) => {}
    }
}
