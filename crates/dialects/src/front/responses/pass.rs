//! A request that passes to an account with OpenAI's Responses, and its answer.
//!
//! These parts are changed:
//! * the model;
//! * a maximum of tokens above the model's;
//! * `store` and `include`;
//! * the ids of items;
//! * thoughts that are sealed, or that no server could read;
//! * the model in the answer.
//!
//! All other fields, unknown ones included, reach the account, and so do the tools that its server
//! runs.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::front::passing::{self, Carried};
use crate::front::{PassedAnswer, PassedRequest};
use crate::neutral::seal::{AnswerSeal, Sealed};
use crate::neutral::{ENCRYPTED, Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span, span_bytes, text_of};
use crate::wire::splice::Edits;

/// Makes these changes in a request.
pub(super) fn edit_request(
    job: &PassedRequest<'_>,
    edits: &mut Edits<'_>,
) -> Result<Losses, Refused> {
    let (body, envelope) = (edits.text(), job.envelope);
    let approvals = HashSet::new();
    let mut pass = Pass {
        edits,
        losses: Losses::default(),
        refused: None,
        sealed: job.sealed,
        approvals,
    };
    job.write_model(pass.edits);
    if job.lower_max_tokens(pass.edits).is_some() {
        pass.losses.add("max_output_tokens");
    }
    let mut stores = true;
    let mut includes = false;
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"input" => cursor.maybe_array(|cursor, index| pass.item(cursor, index)),
        b"store" => {
            let value = cursor.value()?;
            stores = false;
            pass.not_stored(&value);
            Ok(value)
        }
        b"include" => {
            includes = true;
            pass.include(cursor, job.thinks)
        }
        _ => cursor.value(),
    });
    let open = envelope.places.open;
    if stores {
        pass.edits.insert_member(open, &br#""store":false"#[..]);
    }
    if job.thinks && !includes {
        pass.edits
            .insert_member(open, format!(r#""include":["{ENCRYPTED}"]"#).into_bytes());
    }
    let Pass {
        losses, refused, ..
    } = pass;
    refused.map_or(Ok(losses), Err)
}

/// The reading of one body.
struct Pass<'s, 'p, 'e> {
    edits: &'p mut Edits<'e>,
    losses: Losses,
    refused: Option<Refused>,
    sealed: Sealed<'s>,
    /// The ids of the calls that wait for an approval. The calls stand before it.
    approvals: HashSet<Cow<'e, str>>,
}

/// The types of items that their server can read without an id. All other items are known by their
/// ids alone.
const NAMELESS: [&str; 9] = [
    "",
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "tool_search_call",
    "tool_search_output",
];

impl<'e> Pass<'_, '_, 'e> {
    /// Asks the server to store nothing.
    fn not_stored(&mut self, value: &Span) {
        if span_bytes(self.edits.text(), value) != b"false" {
            self.edits.replace(value.clone(), &b"false"[..]);
        }
    }

    /// Reads the list `include`, and adds the encrypted thoughts of a model that thinks.
    fn include(&mut self, cursor: &mut Cursor<'_>, thinks: bool) -> ScanResult<Span> {
        let (text, is_list) = (cursor.text(), cursor.kind()? == Kind::Array);
        let mut has_it = false;
        let mut is_empty = true;
        let span = cursor.maybe_array(|cursor, _| {
            let value = cursor.value()?;
            is_empty = false;
            has_it |= text_of(text, &value).is_some_and(|name| name == ENCRYPTED);
            Ok(())
        })?;
        match (thinks && !has_it, is_list && !is_empty) {
            (true, true) => {
                let after = span.start + 1;
                self.edits
                    .replace(after..after, format!(r#""{ENCRYPTED}","#).into_bytes());
            }
            (true, false) => self
                .edits
                .replace(span.clone(), format!(r#"["{ENCRYPTED}"]"#).into_bytes()),
            (false, _) => {}
        }
        Ok(span)
    }

    /// Reads an item. The server has stored no items, and refuses ids that it does not know. A
    /// thought is useless without the text that the server encrypted.
    fn item(&mut self, cursor: &mut Cursor<'e>, index: usize) -> ScanResult<()> {
        let text = cursor.text();
        let mut kind = Cow::Borrowed("");
        let mut has_role = false;
        let mut encrypted = None;
        let mut id = None;
        let mut has_result = false;
        let mut approves = None;
        let span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
            b"type" => kind = text_of(text, &value).unwrap_or_default(),
            b"role" => has_role = true,
            b"id" if span_bytes(text, &value) != b"null" => id = Some((key, value)),
            b"encrypted_content" => encrypted = Some(value),
            b"result" => has_result = text_of(text, &value).is_some(),
            b"approval_request_id" => approves = Some(text_of(text, &value).unwrap_or_default()),
            _ => {}
        })?;
        if kind == "mcp_approval_request" {
            self.approvals
                .extend(id.as_ref().and_then(|(_, value)| text_of(text, value)));
        }
        let is_reference = match &*kind {
            "item_reference" => true,
            "image_generation_call" => !has_result,
            "" => id.is_some() && !has_role,
            _ => approves.is_some_and(|id| !self.approvals.contains(&id)),
        };
        match (&*kind, id) {
            _ if is_reference => {
                let message = "refers to an item that is not in the request: send the item itself";
                let param = format!("input[{index}]");
                self.refused.get_or_insert_with(|| {
                    Refused::invalid(param.clone(), format!("`{param}` {message}"))
                });
            }
            (kind, Some((key, value))) if NAMELESS.contains(&kind) => {
                self.edits.remove_member(&key, &value)
            }
            (_, _) => {}
        }
        if kind == "reasoning" {
            self.thought(&span, encrypted);
        }
        Ok(())
    }

    /// Opens the sealed text of a thought. Leaves the thought out if the server could not read it.
    fn thought(&mut self, item: &Span, encrypted: Option<Span>) {
        let encrypted_span = encrypted.unwrap_or_default();
        let text = text_of(self.edits.text(), &encrypted_span).unwrap_or_default();
        match Carried::for_text(&text, self.sealed, |thought| {
            thought.redacted.or(thought.signature)
        }) {
            Carried::Unchanged => {}
            Carried::Opened(own) => self.edits.replace(encrypted_span, own.into_bytes()),
            Carried::Lost => {
                self.edits.remove_member(item, item);
                self.losses.add("input[].reasoning");
            }
        }
    }
}

/// Writes an event of a stream. A thought that several events repeat is sealed to the same text
/// each time.
pub(super) fn write_event(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    passing::append_event(event, |name, edits| edit_event(name, answer, edits), out);
}

fn edit_event(name: &[u8], answer: &PassedAnswer, edits: &mut Edits<'_>) {
    // Nearly all events are pieces of the answer.
    if name.ends_with(b".delta") {
        return;
    }
    let data = edits.text();
    let _read = Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
        b"response" => edit_response(cursor, answer, edits),
        b"item" => edit_item(cursor, answer, edits),
        _ => cursor.value(),
    });
}

/// Writes a whole answer.
pub(super) fn write_answer(body: &[u8], answer: &PassedAnswer) -> Vec<u8> {
    passing::edit_answer(body, |cursor, edits| edit_response(cursor, answer, edits))
}

/// Consumes an answer. Replaces its model, and seals its thoughts.
fn edit_response(
    cursor: &mut Cursor<'_>,
    answer: &PassedAnswer,
    edits: &mut Edits<'_>,
) -> ScanResult<Span> {
    let text = cursor.text();
    cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
        b"model" => answer.model(cursor, edits),
        b"output" => cursor.maybe_array(|cursor, _| edit_item(cursor, answer, edits)),
        _ => cursor.value(),
    })
}

fn edit_item(
    cursor: &mut Cursor<'_>,
    answer: &PassedAnswer,
    edits: &mut Edits<'_>,
) -> ScanResult<Span> {
    let text = cursor.text();
    let mut thinks = false;
    let mut encrypted = None;
    let span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
        b"type" => thinks = span_bytes(text, &value) == br#""reasoning""#,
        b"encrypted_content" => encrypted = Some(value),
        _ => {}
    })?;
    answer.seal(encrypted.filter(|_| thinks), edits, AnswerSeal::redacted);
    Ok(span)
}

#[cfg(test)]
mod tests;
