//! This module shows thinking under the name that callers know, `reasoning_content`, or removes it.
//!
//! Servers send thinking under one of [`NAMES`], under several of them at once, or among the parts
//! of the content. A body without any of them is not touched here. In a body that
//! [`pattern`](super::pattern) learns, the edits of a member depend only on the other members
//! beside it, never on its text, because in later chunks only the text differs.

use super::names::{NAMES, SHORT, STANDARD};
use super::parts::read_parts;
use super::shape::{MessageShape, is_hollow};
use crate::wire::json::{Cursor, Span, span_bytes};
use crate::wire::splice::Edits;

/// Corrects the thinking of a delta or a message, except thinking in the parts of its content.
pub(super) fn edit_thinking(body: &MessageShape, show: bool, edits: &mut Edits<'_>) {
    let text = edits.text();
    if show {
        if body.thinking.has_reasoning {
            rename_reasoning(body, edits);
        }
    } else if body.thinking.is_there {
        each_member(text, body, |key, value| {
            if NAMES.contains(&span_bytes(text, &key)) {
                edits.remove_member(&key, &value);
            }
        });
    }
}

/// Renames `reasoning` to the standard's name. If the body already has thinking under the
/// standard's name, `reasoning` is removed if it is empty or repeats the same text.
fn rename_reasoning(body: &MessageShape, edits: &mut Edits<'_>) {
    let text = edits.text();
    let mut standard = None;
    let mut short = None;
    each_member(text, body, |key, value| match span_bytes(text, &key) {
        STANDARD => standard = Some((key, value)),
        SHORT => short = Some((key, value)),
        _ => {}
    });
    let Some((key, value)) = short else { return };
    if let Some((standard, standard_value)) = standard {
        let standard_text = span_bytes(text, &standard_value);
        if !matches!(standard_text, b"null" | b"\"\"") {
            if matches!(span_bytes(text, &value), b"\"\"")
                || span_bytes(text, &value) == standard_text
            {
                edits.remove_member(&key, &value);
            }
            return;
        }
        edits.remove_member(&standard, &standard_value);
    }
    edits.replace(key, STANDARD);
}

/// Returns the bytes of thinking in a body, if the body has nothing else that a caller could use.
pub(super) fn only_thinking(text: &[u8], body: &MessageShape) -> Option<usize> {
    if !(body.thinking.has_content || body.parts_of_content(text).is_some())
        || body.has_odd_calls(text)
    {
        return None;
    }
    let mut thinks = body.thinking.has_content;
    let mut has_answer = false;
    let mut thought_bytes = body.spoken_bytes;
    each_member(text, body, |key, value| {
        match (span_bytes(text, &key), span_bytes(text, &value)) {
            (br#""role""#, _) => {}
            (name, _) if NAMES.contains(&name) => {}
            (br#""content""#, content @ [b'[' | b'{', ..]) => {
                let parts = read_parts(content);
                thinks |= !parts.thinking.is_empty();
                has_answer |= !parts.text.is_empty();
                thought_bytes += parts.thinking.len();
            }
            (_, value) => has_answer |= !is_hollow(value),
        }
    });
    (thinks && !has_answer).then_some(thought_bytes)
}

/// Calls `each` with the key and the value of every member.
fn each_member(text: &[u8], body: &MessageShape, each: impl FnMut(Span, Span)) {
    // The text was scanned before, so this cannot fail.
    let _read = Cursor::starting_at(text, body.open).members(each);
}
