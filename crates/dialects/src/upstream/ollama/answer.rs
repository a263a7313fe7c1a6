//! This module reads Ollama's answers: one object, or one object in each line. All objects have
//! the same fields. In the last line, `done` is true.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{hidden_error, unanswered_error};
use crate::neutral::{self, AnswerFault, Emit, Event, Finish, StreamResult, Tokens};
use crate::upstream::shared::flat::shapes::{Several, ToolCall};
use crate::upstream::shared::lenient::{Count, Object, find_member, read_object, unquote_input};
use crate::upstream::shared::text::Text;
use crate::wire::without_bom;

/// Reads a whole answer.
pub fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = without_bom(body);
    let line = read_line(body)?;
    if line.message.is_none() || line.done != Some(true) {
        return Err(AnswerFault::Nonsense(
            "the answer has no message, or is not complete",
        ));
    }
    line.emit(emit);
    Ok(())
}

/// Emits the counts of a whole answer, whatever else it is.
pub fn emit_usage(body: &[u8], emit: Emit<'_>) {
    let [prompt, completion] = ["prompt_eval_count", "eval_count"].map(|name| {
        let count = find_member(body, name).and_then(|count| str::from_utf8(count).ok());
        count.map(Count::read).unwrap_or_default()
    });
    emit_counts(prompt, completion, emit);
}

/// The reader of a stream. It has no state, because no line depends on another.
#[derive(Debug, Default)]
pub struct OllamaReader;

impl neutral::Reader for OllamaReader {
    fn event(&mut self, _name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        let line = read_line(data)?;
        line.emit(emit);
        if line.done == Some(true) {
            emit(Event::End);
        }
        Ok(())
    }
}

fn read_line(json: &[u8]) -> Result<Line<'_>, AnswerFault> {
    let nonsense = AnswerFault::Nonsense("the answer is not a JSON object as Ollama sends it");
    let line: Line<'_> = read_object(json).ok_or(nonsense)?;
    if line
        .error
        .is_some_and(|error| !matches!(error.get(), "\"\"" | "false"))
    {
        return Err(AnswerFault::Upstream(hidden_error(json)));
    }
    if let reason @ ("load" | "unload") = line.done_reason.as_str() {
        return Err(AnswerFault::Upstream(unanswered_error(reason)));
    }
    let calls = line
        .message
        .as_ref()
        .map_or(&[][..], |message| message.tool_calls.list());
    if !calls.iter().all(ToolCall::is_named) {
        return Err(AnswerFault::Nonsense("a tool call without a name"));
    }
    Ok(line)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<Object<LineMessage<'a>>>,
    done: Option<bool>,
    done_reason: Text<'a>,
    prompt_eval_count: Count,
    eval_count: Count,
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LineMessage<'a> {
    #[serde(borrow)]
    thinking: Text<'a>,
    content: Text<'a>,
    tool_calls: Several<ToolCall<'a, Option<&'a RawValue>>>,
}

impl Line<'_> {
    fn emit(&self, emit: Emit<'_>) {
        if let Some(message) = &self.message {
            message.emit(emit);
        }
        if self.done != Some(true) {
            return;
        }
        emit_counts(self.prompt_eval_count, self.eval_count, emit);
        emit(Event::Finish(
            0,
            if self.done_reason.as_str() == "length" {
                Finish::Length
            } else {
                Finish::Stop
            },
        ));
    }
}

fn emit_counts(prompt: Count, completion: Count, emit: Emit<'_>) {
    // A missing count is zero, and cached tokens are not counted. So a zero is no real count.
    let counted = |count: Count| count.0.filter(|count| *count > 0);
    let tokens = Tokens {
        prompt: counted(prompt),
        completion: counted(completion),
        ..Tokens::default()
    };
    if tokens != Tokens::default() {
        emit(Event::Usage(tokens));
    }
}

impl LineMessage<'_> {
    fn emit(&self, emit: Emit<'_>) {
        self.thinking
            .emit(|thinking| Event::Reasoning(0, thinking), emit);
        self.content.emit(|text| Event::Text(0, text), emit);
        for call in self.tool_calls.list() {
            call.emit_begin(emit);
            let arguments = call
                .arguments()
                .copied()
                .flatten()
                .map(unquote_input)
                .unwrap_or_default();
            if !matches!(&*arguments, "" | "{}" | "null") {
                emit(Event::Arguments(0, &arguments));
            }
        }
    }
}

#[cfg(test)]
mod tests;
