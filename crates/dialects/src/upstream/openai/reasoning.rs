//! This module shows thinking under the name that callers know, `reasoning_content`, or removes it.
//!
//! Servers send thinking under one of [`NAMES`], under several of them at once, or among the parts
//! of the content. A body without any is not touched here. In a body that
//! [`template`](super::template) learns, the edits of a member depend only on the other members of
//! the body, never on its text, because in later chunks only the text differs.

use super::names::{NAMES, REASONING, REASONING_CONTENT};
use super::parts::read_parts;
use super::scan::{ScannedMessage, is_empty_value};
use crate::wire::json::{Cursor, Span, span_bytes};
use crate::wire::splice::Edits;

/// Corrects the thinking of a delta or a message, except thinking in the parts of its content.
pub(super) fn edit_thinking(body: &ScannedMessage, show: bool, edits: &mut Edits<'_>) {
    let text = edits.text();
    if show {
        if body.thinking.has_reasoning {
            rename_reasoning(body, edits);
        }
    } else if body.thinking.has_field {
        each_member(text, body, |key, value| {
            if NAMES.contains(&span_bytes(text, &key)) {
                edits.remove_member(&key, &value);
            }
        });
    }
}

/// Renames `reasoning` to the standard's name. If the body already has thinking under the
/// standard's name, `reasoning` is removed if it is empty or repeats that text.
fn rename_reasoning(body: &ScannedMessage, edits: &mut Edits<'_>) {
    let text = edits.text();
    let mut standard = None;
    let mut short = None;
    each_member(text, body, |key, value| match span_bytes(text, &key) {
        REASONING_CONTENT => standard = Some((key, value)),
        REASONING => short = Some((key, value)),
        _ => {}
    });
    let Some((short_key, short_value)) = short else {
        return;
    };
    if let Some((key, value)) = standard {
        let short_text = span_bytes(text, &short_value);
        let standard_text = span_bytes(text, &value);
        if !matches!(standard_text, b"null" | b"\"\"") {
            if short_text == b"\"\"" || short_text == standard_text {
                edits.remove_member(&short_key, &short_value);
            }
            return;
        }
        edits.remove_member(&key, &value);
    }
    edits.replace(short_key, REASONING_CONTENT);
}

/// Returns the bytes of thinking in a body, if the body has nothing else that a caller could use.
pub(super) fn thinking_bytes(text: &[u8], body: &ScannedMessage) -> Option<usize> {
    if !(body.thinking.has_content || body.parts_of_content(text).is_some())
        || body.has_odd_calls(text)
    {
        return None;
    }
    let mut has_thinking = body.thinking.has_content;
    let mut has_other = false;
    let mut bytes = body.spoken_bytes;
    each_member(text, body, |key, value| {
        match (span_bytes(text, &key), span_bytes(text, &value)) {
            (br#""role""#, _) => {}
            (name, _) if NAMES.contains(&name) => {}
            (br#""content""#, content @ [b'[' | b'{', ..]) => {
                let parts = read_parts(content);
                has_thinking |= !parts.thinking.is_empty();
                has_other |= !parts.text.is_empty();
                bytes += parts.thinking.len();
            }
            (_, value) => has_other |= !is_empty_value(value),
        }
    });
    (has_thinking && !has_other).then_some(bytes)
}

/// Calls `each` with the key and the value of every member.
fn each_member(text: &[u8], body: &ScannedMessage, each: impl FnMut(Span, Span)) {
    // The text was scanned before, so this cannot fail.
    let _read = Cursor::starting_at(text, body.open).members(each);
}
