//! A request that passes to an account with Anthropic's format, and its answer.
//!
//! These parts are changed:
//! * the model;
//! * a maximum of tokens above the model's, with the budget of thinking below it;
//! * thoughts that are sealed or have no signature, and a message that has nothing else;
//! * thinking with a budget, which is switched off if the current calls have lost their thoughts,
//!   and the edits that clear thoughts with it;
//! * the model in the answer.
//!
//! All other fields, unknown ones included, reach the account.

use std::borrow::Cow;

use crate::front::passing::{self, Carried};
use crate::front::{PassedAnswer, PassedRequest};
use crate::neutral::seal::{AnswerSeal, Sealed};
use crate::neutral::{Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Cursor, ScanResult, Span, span_bytes, text_of};
use crate::wire::splice::Edits;

/// Makes these changes in a request.
pub(super) fn edit_request(
    job: &PassedRequest<'_>,
    edits: &mut Edits<'_>,
) -> Result<Losses, Refused> {
    let (body, envelope) = (edits.text(), job.envelope);
    let mut losses: Losses = Losses::default();
    job.write_model(edits);
    let thinking = envelope.places.thinking.as_ref();
    let thinking = |name| Some(find_member(body, thinking?.start, name)?.1);
    let mut thoughts = PassedThoughts {
        sealed: job.sealed,
        edits,
        has_lost: false,
        is_broken: false,
    };
    // The body was read before.
    if let Some(messages) = &envelope.places.thoughts {
        let mut cursor = Cursor::starting_at(body, messages.start);
        let _read = cursor.maybe_array(|cursor, _| thoughts.message(cursor));
    }
    let PassedThoughts {
        edits,
        has_lost,
        is_broken,
        ..
    } = thoughts;
    if let Some((asked, max_output)) = job.lower_max_tokens(edits) {
        losses.add("max_tokens");
        // The API refuses a budget that is not below the maximum. The answer keeps as many tokens
        // as the caller left for it.
        let budget =
            thinking("budget_tokens").and_then(|span| Some((json::integer_of(body, &span)?, span)));
        if let Some((tokens, span)) = budget.filter(|(tokens, _)| *tokens >= max_output) {
            let fits = max_output
                .saturating_sub(asked.saturating_sub(tokens))
                .max(LEAST_BUDGET)
                .min(max_output.saturating_sub(1));
            edits.replace(span, fits.to_string().into_bytes());
            losses.add("thinking.budget_tokens");
        }
    }
    if has_lost {
        losses.add("messages[].content[].thinking");
    }
    // With a budget, the API wants the thoughts that led to the current calls.
    if is_broken
        && let Some(span) = &envelope.places.thinking
        && let Some(kind) = thinking("type")
        && span_bytes(body, &kind) == br#""enabled""#
    {
        edits.replace(span.clone(), &br#"{"type":"disabled"}"#[..]);
        losses.add("thinking");
        if let Some((key, value)) = find_member(body, envelope.places.open, "context_management")
            && memchr::memmem::find(span_bytes(body, &value), b"clear_thinking").is_some()
        {
            edits.remove_member(&key, &value);
            losses.add("context_management");
        }
    }
    Ok(losses)
}

/// Returns the key and the value of a member of the object that stands at a place.
fn find_member(body: &[u8], start: usize, wanted: &str) -> Option<(Span, Span)> {
    let mut found = None;
    let _read = Cursor::starting_at(body, start).maybe_members(|key, value| {
        if *json::name_of(body, &key) == *wanted.as_bytes() {
            found = Some((key, value));
        }
    });
    found
}

/// The least budget that the API takes.
const LEAST_BUDGET: u64 = 1024;

/// The edits of a request's thoughts.
struct PassedThoughts<'s, 'p, 'e> {
    sealed: Sealed<'s>,
    edits: &'p mut Edits<'e>,
    /// True if a thought is left out.
    has_lost: bool,
    /// True if the assistant's last message calls tools, and has lost the thoughts that it began
    /// with.
    is_broken: bool,
}

impl PassedThoughts<'_, '_, '_> {
    /// Consumes a message, and opens its sealed thoughts. Leaves out thinking without a signature,
    /// which the API refuses, and a message that has nothing else.
    fn message(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<()> {
        let text = cursor.text();
        let mut is_assistants = false;
        let mut calls = false;
        let mut begins = false;
        let mut lost = Vec::new();
        let mut count = 0;
        let message = cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
            b"role" => {
                let role = cursor.value()?;
                is_assistants = span_bytes(text, &role) == br#""assistant""#;
                Ok(role)
            }
            b"content" => cursor.maybe_array(|cursor, _| {
                let block = Block::read(cursor)?;
                calls |= &*block.kind == "tool_use";
                match block.carried(self.sealed) {
                    None => {}
                    Some(Carried::Lost) => lost.push(block.span),
                    Some(kept) => {
                        begins |= count == lost.len();
                        if let (Carried::Opened(own), Some((place, _))) = (kept, block.text) {
                            self.edits.replace(place, own.into_bytes());
                        }
                    }
                }
                count += 1;
                Ok(())
            }),
            _ => cursor.value(),
        })?;
        if is_assistants {
            self.is_broken = calls && !lost.is_empty() && !begins;
        }
        self.has_lost |= !lost.is_empty();
        if lost.len() == count && count > 0 {
            lost = vec![message];
        }
        lost.iter()
            .for_each(|span| self.edits.remove_member(span, span));
        Ok(())
    }
}

/// The members of a block that matter for its thought.
#[derive(Default)]
struct Block<'t> {
    span: Span,
    kind: Cow<'t, str>,
    /// The signature of a thought, or the data of a redacted one, and its place.
    text: Option<(Span, Cow<'t, str>)>,
}

impl<'t> Block<'t> {
    fn read(cursor: &mut Cursor<'t>) -> ScanResult<Self> {
        let text = cursor.text();
        let mut block = Self::default();
        block.span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
            b"type" => block.kind = text_of(text, &value).unwrap_or_default(),
            b"signature" | b"data" => {
                block.text = text_of(text, &value)
                    .map(|text| (value, text))
                    .or(block.text.take());
            }
            _ => {}
        })?;
        Ok(block)
    }

    /// Returns what the account gets in place of a thought's signature, if the block is a thought.
    fn carried(&self, sealed: Sealed<'_>) -> Option<Carried> {
        let text = self
            .text
            .as_ref()
            .map(|(_, text)| &**text)
            .unwrap_or_default();
        match &*self.kind {
            "thinking" => Some(Carried::for_text(text, sealed, |thought| thought.signature)),
            "redacted_thinking" => {
                Some(Carried::for_text(text, sealed, |thought| thought.redacted))
            }
            _ => None,
        }
    }

    /// Seals the signature of a thought, or of a piece of one. A thought is signed in one piece. If
    /// there are several signatures, each is sealed, and clients keep the last one.
    fn seal(self, answer: &PassedAnswer, edits: &mut Edits<'_>) {
        let span = self.text.map(|(span, _)| span);
        match &*self.kind {
            "thinking" | "signature_delta" => answer.seal(span, edits, AnswerSeal::signature),
            "redacted_thinking" => answer.seal(span, edits, AnswerSeal::redacted),
            _ => {}
        }
    }
}

/// Writes an event of a stream.
pub(super) fn write_event(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    passing::append_event(event, |name, edits| edit_event(name, answer, edits), out);
}

fn edit_event(name: &[u8], answer: &PassedAnswer, edits: &mut Edits<'_>) {
    let data = edits.text();
    // Nearly all events are pieces of the answer.
    if !answer.has_signed
        && (name == b"content_block_delta"
            || memchr::memmem::find(data, b"\"message_start\"").is_none())
    {
        return;
    }
    let _read = Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
        b"message" => edit_message(cursor, answer, edits),
        b"content_block" | b"delta" => edit_block(cursor, answer, edits),
        _ => cursor.value(),
    });
}

/// Writes a whole answer.
pub(super) fn write_answer(body: &[u8], answer: &PassedAnswer) -> Vec<u8> {
    passing::edit_answer(body, |cursor, edits| edit_message(cursor, answer, edits))
}

/// Consumes an answer. Replaces its model, and seals its thoughts.
fn edit_message(
    cursor: &mut Cursor<'_>,
    answer: &PassedAnswer,
    edits: &mut Edits<'_>,
) -> ScanResult<Span> {
    let text = cursor.text();
    cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
        b"model" => answer.model(cursor, edits),
        b"content" => cursor.maybe_array(|cursor, _| edit_block(cursor, answer, edits)),
        _ => cursor.value(),
    })
}

fn edit_block(
    cursor: &mut Cursor<'_>,
    answer: &PassedAnswer,
    edits: &mut Edits<'_>,
) -> ScanResult<Span> {
    let block = Block::read(cursor)?;
    let span = block.span.clone();
    block.seal(answer, edits);
    Ok(span)
}

#[cfg(test)]
mod tests;
