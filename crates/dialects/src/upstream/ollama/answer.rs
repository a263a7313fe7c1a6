//! Ollama's answers: one object, or a line of it at a time. Both say the same; the last line says
//! that it is.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::{hidden, unanswered};
use crate::neutral::{self, AnswerFault, Emit, Event, Finish, StreamFault, Tokens, UpstreamError};
use crate::upstream::shared::flat::shapes::Several;
use crate::upstream::shared::lenient::{Count, unquoted};
use crate::upstream::shared::text::Text;

/// Reads a whole answer.
pub fn answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let line = read(body).map_err(|fault| match fault {
        BadLine::Upstream(error) => AnswerFault::Upstream(error),
        BadLine::Nonsense(why) => AnswerFault::Nonsense(why),
    })?;
    if line.message.is_none() || line.done != Some(true) {
        return Err(AnswerFault::Nonsense("the answer has no message, or is not done"));
    }
    line.tell(emit);
    Ok(())
}

/// The reading of a stream. No line needs to know another.
#[derive(Debug, Default)]
pub struct OllamaReader;

impl OllamaReader {
    /// A stream at its start.
    pub fn new() -> Self {
        Self
    }
}

impl neutral::Reader for OllamaReader {
    fn event(&mut self, _name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault> {
        let line = read(data).map_err(|fault| match fault {
            BadLine::Upstream(error) => StreamFault::Upstream(error),
            BadLine::Nonsense(why) => StreamFault::Broken(why),
        })?;
        line.tell(emit);
        if line.done == Some(true) {
            emit(Event::End);
        }
        Ok(())
    }
}

/// Why what came is no part of an answer.
enum BadLine {
    Upstream(UpstreamError),
    Nonsense(&'static str),
}

fn read(json: &[u8]) -> Result<Line<'_>, BadLine> {
    let nonsense = |_| BadLine::Nonsense("what came is not a JSON object of Ollama's");
    let line: Line<'_> = serde_json::from_slice(json).map_err(nonsense)?;
    if line.error.is_some_and(|error| !matches!(error.get(), "\"\"" | "false")) {
        return Err(BadLine::Upstream(hidden(json)));
    }
    if let reason @ ("load" | "unload") = line.done_reason.as_str() {
        return Err(BadLine::Upstream(unanswered(reason)));
    }
    let calls = line.message.as_ref().map_or(&[][..], |message| message.tool_calls.list());
    if calls.iter().any(|call| call.function.as_ref().is_none_or(|function| function.name.filled().is_none())) {
        return Err(BadLine::Nonsense("a call names no function"));
    }
    Ok(line)
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    message: Option<LineMessage<'a>>,
    done: Option<bool>,
    #[serde(borrow, default)]
    done_reason: Text<'a>,
    #[serde(default)]
    prompt_eval_count: Count,
    #[serde(default)]
    eval_count: Count,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LineMessage<'a> {
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    tool_calls: Several<ToolCall<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Line<'_> {
    fn tell(&self, emit: Emit<'_>) {
        if let Some(message) = &self.message {
            message.tell(emit);
        }
        if self.done != Some(true) {
            return;
        }
        // Nothing is what is not said, and what was in the cache is not counted.
        let counted = |count: Count| count.0.filter(|count| *count > 0);
        let tokens = Tokens {
            prompt: counted(self.prompt_eval_count),
            completion: counted(self.eval_count),
            ..Tokens::default()
        };
        if tokens != Tokens::default() {
            emit(Event::Usage(tokens));
        }
        emit(Event::Finish(0, if self.done_reason.as_str() == "length" { Finish::Length } else { Finish::Stop }));
    }
}

impl LineMessage<'_> {
    fn tell(&self, emit: Emit<'_>) {
        if let Some(thinking) = self.thinking.filled() {
            emit(Event::Reasoning(0, thinking));
        }
        if let Some(text) = self.content.filled() {
            emit(Event::Text(0, text));
        }
        for call in self.tool_calls.list() {
            let Some(function) = &call.function else { continue };
            emit(Event::Call { choice: 0, id: call.id.filled(), name: function.name.as_str(), signature: None });
            let arguments = function.arguments.map(unquoted).unwrap_or_default();
            if !matches!(&*arguments, "" | "{}" | "null") {
                emit(Event::Arguments(0, &arguments));
            }
        }
    }
}

#[cfg(test)]
mod tests;
