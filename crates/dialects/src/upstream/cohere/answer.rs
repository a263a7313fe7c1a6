//! This module reads Cohere's answers, whole or as a stream.
//!
//! Both have the same fields, but a message's `content` and `tool_calls` are lists in a whole
//! answer, and single objects in a stream's events. An answer ends with `message-end`; a `[DONE]`
//! after it has no effect.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cited;
use super::error::unfinished_answer;
use crate::neutral::{
    self, AnswerFault, Emit, Event, Finish, StreamFault, StreamResult, Tokens, UpstreamError,
};
use crate::upstream::openai;
use crate::upstream::shared::flat::shapes::{Several, ToolCall};
use crate::upstream::shared::lenient::{Count, Object, counts_in, read_counts, read_object};
use crate::upstream::shared::text::Text;
use crate::wire::without_bom;

const NO_OBJECT: AnswerFault =
    AnswerFault::Nonsense("the answer is not a JSON object as Cohere sends it");
const BROKEN_EVENT: StreamFault =
    StreamFault::Broken("an event is not a JSON object as Cohere sends it");

/// Reads a whole answer.
pub fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = without_bom(body);
    let top: EventTop<'_> = read_object(body).ok_or(NO_OBJECT)?;
    let Some(message) = top
        .message
        .filter(|message| message.get().starts_with('{') && !top.has_error())
    else {
        return Err(match top.hidden_error(body) {
            Some(error) => AnswerFault::Upstream(error),
            None => AnswerFault::Nonsense("the answer has no message"),
        });
    };
    let message: SpokenMessage<'_> = read_object(message.get().as_bytes()).ok_or(NO_OBJECT)?;
    let reason = top.finish_reason.as_str();
    let finish = finish_reason(reason)
        .ok_or_else(|| AnswerFault::Upstream(unfinished_answer(reason, None)))?;
    if !message.tool_calls.list().iter().all(ToolCall::is_named) {
        return Err(AnswerFault::Nonsense("a tool call without a name"));
    }

    top.id.emit(Event::Id, emit);
    message.emit(emit);
    for call in message.tool_calls.list() {
        call.emit_begin(emit);
        let mut arguments = Arguments::default();
        arguments.push(call, emit);
        arguments.end(emit);
    }
    top.usage.unwrap_or_default().emit(emit);
    emit(Event::Finish(0, finish));
    Ok(())
}

/// Emits the token counts of a whole answer, even if the rest of it is broken.
pub fn emit_usage(body: &[u8], emit: Emit<'_>) {
    counts_in::<UsageReport>(body, "usage")
        .unwrap_or_default()
        .emit(emit);
}

/// The reader of a stream.
#[derive(Debug, Default)]
pub struct CohereReader {
    /// The last call that began, until it ends.
    open: Option<OpenCall>,
}

/// A call whose arguments are still coming.
#[derive(Debug, Default)]
struct OpenCall {
    index: Count,
    arguments: Arguments,
}

impl OpenCall {
    /// Returns whether an event with this index belongs to this call. If one of the two has no
    /// index, it does.
    fn is_at(&self, index: Count) -> bool {
        self.index == index || self.index.0.is_none() || index.0.is_none()
    }
}

/// The kinds of events that must be readable.
#[derive(Clone, Copy)]
enum EventKind {
    MessageStart,
    /// A part of the text, the thinking or the plan.
    Content,
    CallStart,
    CallDelta,
    CallEnd,
    MessageEnd,
}

impl EventKind {
    fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"message-start" => Some(Self::MessageStart),
            b"content-start" | b"content-delta" | b"tool-plan-delta" => Some(Self::Content),
            b"tool-call-start" => Some(Self::CallStart),
            b"tool-call-delta" => Some(Self::CallDelta),
            b"tool-call-end" => Some(Self::CallEnd),
            b"message-end" => Some(Self::MessageEnd),
            _ => None,
        }
    }
}

impl neutral::Reader for CohereReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        if data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        let top: EventTop<'_> = read_object(data).ok_or(BROKEN_EVENT)?;
        let name = top.kind.filled().map_or(name, str::as_bytes);
        if let Some(kind) = EventKind::from_name(name) {
            return self.known_event(kind, &top, emit);
        }
        // An event of an unknown kind may have any form: nothing more of it must be readable.
        if let Some(error) = top.hidden_error(data) {
            return Err(StreamFault::Upstream(error));
        }
        if name == b"citation-start" {
            emit_cited(&top, emit);
        }
        Ok(())
    }
}

impl CohereReader {
    fn known_event(
        &mut self,
        kind: EventKind,
        top: &EventTop<'_>,
        emit: Emit<'_>,
    ) -> StreamResult<()> {
        let delta: Delta<'_> = match top.delta {
            Some(delta) => read_object(delta.get().as_bytes()).ok_or(BROKEN_EVENT)?,
            None => Delta::default(),
        };
        let message = delta.message.unwrap_or_default();
        let calls = message.tool_calls.list();
        match kind {
            EventKind::MessageStart => top.id.emit(Event::Id, emit),
            EventKind::Content => message.emit(emit),
            EventKind::CallStart => {
                if !calls.iter().all(ToolCall::is_named) {
                    return Err(StreamFault::Broken("a tool call without a name"));
                }
                for call in calls {
                    self.begin_call(call, top.index, emit);
                }
            }
            EventKind::CallDelta => {
                let Some(open) = self.open.as_mut().filter(|open| open.is_at(top.index)) else {
                    return Err(StreamFault::Broken(
                        "arguments of a tool call that has not begun or has ended",
                    ));
                };
                for call in calls {
                    open.arguments.push(call, emit);
                }
            }
            EventKind::CallEnd => self.end_call(emit),
            EventKind::MessageEnd => {
                let (reason, error) = (delta.finish_reason.as_str(), delta.error.filled());
                self.end_call(emit);
                // The usage of an invalid answer counts, too.
                delta.usage.unwrap_or_default().emit(emit);
                let Some(finish) = finish_reason(reason).filter(|_| error.is_none()) else {
                    return Err(StreamFault::Upstream(unfinished_answer(reason, error)));
                };
                emit(Event::Finish(0, finish));
                emit(Event::End);
            }
        }
        Ok(())
    }

    /// Begins a call. The one before it ends.
    fn begin_call(&mut self, call: &ToolCall<'_, Text<'_>>, index: Count, emit: Emit<'_>) {
        self.end_call(emit);
        call.emit_begin(emit);
        let open = self.open.insert(OpenCall {
            index,
            ..OpenCall::default()
        });
        open.arguments.push(call, emit);
    }

    fn end_call(&mut self, emit: Emit<'_>) {
        if let Some(open) = self.open.take() {
            open.arguments.end(emit);
        }
    }
}

/// Emits the citation of an event. A citation that cannot be read is no fault of the answer.
fn emit_cited(top: &EventTop<'_>, emit: Emit<'_>) {
    let delta: Option<Delta<'_>> = top
        .delta
        .and_then(|delta| read_object(delta.get().as_bytes()));
    match delta.and_then(|delta| delta.message?.citations) {
        Some(citation) => cited::emit_all(Some(citation), emit),
        None => cited::emit_unreadable(emit),
    }
}

/// The top of an event, or of a whole answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventTop<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    index: Count,
    delta: Option<&'a RawValue>,
    /// The message of an answer, or the text of an error.
    message: Option<&'a RawValue>,
    finish_reason: Text<'a>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<UsageReport>,
    error: Option<&'a RawValue>,
}

impl EventTop<'_> {
    /// Returns the error if this object is one: it has an `error`, or a `message` that is a text.
    /// An empty text or `false` is none.
    fn hidden_error(&self, json: &[u8]) -> Option<UpstreamError> {
        let is_text = |value: &RawValue| is_filled(value) && value.get().starts_with('"');
        (self.has_error() || self.message.is_some_and(is_text))
            .then(|| openai::read_error(json, None))
    }

    fn has_error(&self) -> bool {
        self.error.is_some_and(is_filled)
    }
}

fn is_filled(value: &RawValue) -> bool {
    !matches!(value.get(), "\"\"" | "false")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    message: Option<Object<SpokenMessage<'a>>>,
    finish_reason: Text<'a>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<UsageReport>,
    error: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpokenMessage<'a> {
    #[serde(borrow)]
    tool_plan: Text<'a>,
    content: Several<ContentItem<'a>>,
    tool_calls: Several<ToolCall<'a, Text<'a>>>,
    citations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentItem<'a> {
    #[serde(borrow)]
    thinking: Text<'a>,
    text: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageReport {
    #[serde(deserialize_with = "read_counts")]
    tokens: Option<Units>,
    #[serde(deserialize_with = "read_counts")]
    billed_units: Option<Units>,
    cached_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Units {
    input_tokens: Count,
    output_tokens: Count,
}

impl SpokenMessage<'_> {
    /// Emits the message except its calls.
    fn emit(&self, emit: Emit<'_>) {
        for part in self.content.list() {
            part.thinking
                .emit(|thinking| Event::Reasoning(0, thinking), emit);
            part.text.emit(|text| Event::Text(0, text), emit);
        }
        cited::emit_all(self.citations, emit);
        self.tool_plan.emit(|plan| Event::Reasoning(0, plan), emit);
    }
}

impl UsageReport {
    /// Emits the tokens that the model read and wrote. If they are missing, it emits the billed
    /// tokens, which do not include Cohere's own prompt to the model.
    fn emit(self, emit: Emit<'_>) {
        let model_tokens = self.tokens.unwrap_or_default();
        let billed = self.billed_units.unwrap_or_default();
        let tokens = Tokens {
            prompt: model_tokens.input_tokens.or(billed.input_tokens).0,
            completion: model_tokens.output_tokens.or(billed.output_tokens).0,
            cached: self.cached_tokens.0,
            ..Tokens::default()
        };
        if tokens != Tokens::default() {
            emit(Event::Usage(tokens));
        }
    }
}

/// The arguments of a call while they come. For a function without parameters Cohere sends `null`,
/// perhaps in pieces, and means an empty object. So the beginning is held back while it may still
/// become `null`.
#[derive(Debug)]
enum Arguments {
    /// So far the arguments are this number of bytes of `null`.
    Held(usize),
    /// The arguments are something else, and are passed on.
    Passed,
}

const NULL: &str = "null";

impl Default for Arguments {
    fn default() -> Self {
        Self::Held(0)
    }
}

impl Arguments {
    /// Takes the next piece of the arguments, which stands in `call`.
    fn push(&mut self, call: &ToolCall<'_, Text<'_>>, emit: Emit<'_>) {
        let mut rest = call.arguments().map_or("", Text::as_str);
        if let Self::Held(held) = self {
            // White space may stand before `null` and after it, but not inside it.
            let mut blank_may_come = *held == 0 || *held == NULL.len();
            loop {
                if blank_may_come {
                    rest = rest.trim_ascii_start();
                }
                let next = NULL.as_bytes().get(*held);
                let Some(after) = next.and_then(|next| rest.strip_prefix(char::from(*next))) else {
                    break;
                };
                rest = after;
                *held += 1;
                blank_may_come = *held == NULL.len();
            }
            if rest.is_empty() {
                return;
            }
            let begun = NULL.get(..*held).unwrap_or_default();
            if !begun.is_empty() {
                emit(Event::Arguments(0, begun));
            }
            *self = Self::Passed;
        }
        if !rest.is_empty() {
            emit(Event::Arguments(0, rest));
        }
    }

    /// Ends the arguments. Empty arguments and `null` are not emitted, so they count as an empty
    /// object.
    fn end(self, emit: Emit<'_>) {
        match self {
            // A beginning of `null` that never became `null`.
            Self::Held(held @ 1..=3) => {
                emit(Event::Arguments(0, NULL.get(..held).unwrap_or_default()))
            }
            Self::Held(_) | Self::Passed => {}
        }
    }
}

/// Returns the reason of the end, or `None` if the model gave up. An unknown or missing reason is
/// the normal end.
fn finish_reason(reason: &str) -> Option<Finish> {
    match reason {
        // The last two are from version 1.
        "MAX_TOKENS" | "ERROR_LIMIT" => Some(Finish::Length),
        "ERROR_TOXIC" => Some(Finish::Filtered),
        "ERROR" | "TIMEOUT" => None,
        // COMPLETE, STOP_SEQUENCE, TOOL_CALL
        _ => Some(Finish::Stop),
    }
}

#[cfg(test)]
mod tests;
