//! A request that passes to an account that has Anthropic's format, and its answer. What is changed
//! is: the model, a maximum of tokens above the model's with the budget of thinking below it,
//! thinking without a signature, and the model in the answer. So fields that nobody here knows
//! reach the account.

use std::borrow::Cow;

use crate::front::PassedRequest;
use crate::front::passing::{self, append_line, replace_member};
use crate::neutral::{Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Broken, Cursor, Span, slice, text_of};
use crate::wire::splice::Edits;

/// Changes what must change in a request.
pub(super) fn request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let (body, envelope) = (edits.text(), job.envelope);
    let mut losses: Losses = Losses::default();
    if envelope.model != job.model {
        edits.replace(envelope.places.model.clone(), json::quote(job.model).into_bytes());
    }
    let (mut unsigned, mut budget) = (Vec::new(), None);
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"messages" => cursor.maybe_array(|cursor, _| message(cursor, &mut unsigned, job.forgets)).map(drop),
        b"thinking" => cursor
            .maybe_members(|key, value| {
                if *json::name_of(body, &key) == *b"budget_tokens" {
                    budget = json::integer_of(body, &value).map(|tokens| (tokens, value));
                }
            })
            .map(drop),
        _ => cursor.value().map(drop),
    });
    if let (Some(asked), Some(most), Some(span)) = (envelope.most_tokens, job.max_output, &envelope.places.most_tokens)
        && asked > most
    {
        edits.replace(span.clone(), most.to_string().into_bytes());
        losses.add("max_tokens");
        // The API refuses a budget that is not below the maximum. The answer keeps its own part.
        if let Some((tokens, span)) = budget.filter(|(tokens, _)| *tokens >= most) {
            let fits = most.saturating_sub(asked.saturating_sub(tokens)).max(LEAST_BUDGET).min(most.saturating_sub(1));
            edits.replace(span, fits.to_string().into_bytes());
            losses.add("thinking.budget_tokens");
        }
    }
    for span in &unsigned {
        edits.remove_member(span, span);
        losses.add("messages[].content[].thinking");
    }
    Ok(losses)
}

/// The least budget that the API takes.
const LEAST_BUDGET: u64 = 1024;

/// Finds thinking without a signature, which the API refuses. A message that has nothing else keeps
/// it.
fn message(cursor: &mut Cursor<'_>, unsigned: &mut Vec<Span>, forgets: bool) -> Result<(), Broken> {
    let text = cursor.text();
    let read = cursor.maybe_object(|cursor, key| {
        if *json::name_of(text, &key) != *b"content" {
            return cursor.value();
        }
        let (mut found, mut count) = (Vec::new(), 0);
        let span = cursor.maybe_array(|cursor, _| {
            count += 1;
            let (mut is_thinking, mut is_signed) = (false, false);
            let span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
                b"type" => {
                    is_thinking = matches!(slice(text, &value), br#""thinking""# | br#""redacted_thinking""#);
                }
                b"signature" | b"data" => {
                    is_signed =
                        !forgets && text_of(text, &value).is_some_and(|signature| passing::is_signed(&signature))
                }
                _ => {}
            })?;
            if is_thinking && !is_signed {
                found.push(span);
            }
            Ok(())
        })?;
        if found.len() < count {
            unsigned.append(&mut found);
        }
        Ok(span)
    });
    read.map(drop)
}

/// Writes an event of a stream, with the model as a JSON text.
pub(super) fn event(event: &Event<'_>, model: &str, out: &mut Vec<u8>) {
    let Event { name, data } = *event;
    // Clients drop an event without a name. Some servers have it in the data only.
    let name = if name.is_empty() { Cow::Owned(kind(data).unwrap_or_default()) } else { String::from_utf8_lossy(name) };
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let mut edits = Edits::new(data);
    // Nearly all events are pieces of the answer.
    if name != "content_block_delta" && memchr::memmem::find(data, b"\"message_start\"").is_some() {
        let _read = Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
            b"message" => replace_member(cursor, "model", model, &mut edits),
            _ => cursor.value(),
        });
    }
    append_line(edits, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes a whole answer, with the model as a JSON text.
pub(super) fn whole(body: &[u8], model: &str) -> Vec<u8> {
    let (mut edits, mut out) = (Edits::new(body), Vec::new());
    let _read = replace_member(&mut Cursor::new(body), "model", model, &mut edits);
    edits.apply_into(&mut out);
    out
}

fn kind(data: &[u8]) -> Option<String> {
    let mut kind = None;
    let _read = Cursor::new(data).maybe_members(|key, value| {
        if *json::name_of(data, &key) == *b"type" {
            kind = text_of(data, &value).map(|kind| kind.into_owned());
        }
    });
    kind.filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[cfg(test)]
mod tests;
