//! A caller's body → [`Request`].
//!
//! The body is read in one pass. [`envelope`](super::envelope) has checked that it is JSON, and
//! that no top-level field stands there twice; any other body is refused. Texts are borrowed, so
//! that a picture of megabytes is not copied. A wrong type or a number out of range is refused
//! here, with the path of the caller's own field: a provider would name another one.

mod message;
mod parts;
mod tools;

use std::borrow::Cow;

use crate::front::reading::choice::ReadChoice;
use crate::front::reading::others::Defaults;
use crate::front::reading::value::{self, Name, ReadResult, Value};
use crate::front::{CHAT, FieldNames, RequestRead};
use crate::neutral::{Effort, Field, Format, Raw, Request};
use crate::wire::json::Kind;
use message::{Pending, read_message};
use tools::Tools;

/// Reads a body. Returns the request, and the caller's names for its fields.
pub(crate) fn read_request(body: &[u8]) -> RequestRead<'_> {
    let mut reading = Reading::default();
    // Room for ordinary messages, so that the list does not grow step by step. A body of pictures
    // has few messages.
    reading
        .request
        .messages
        .reserve((body.len() / 256).clamp(4, 128));
    value::read_body(body, |name, value| reading.field(name, value))?;
    Ok(reading.request()?)
}

/// The settings that several fields decide together.
#[derive(Default)]
struct Reading<'a> {
    request: Request<'a>,
    pending: Pending<'a>,
    tools: Tools<'a>,
    tool_choice: Option<ReadChoice<'a>>,
    function_call: Option<(ReadChoice<'a>, Raw<'a>)>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<(u64, Raw<'a>)>,
    safety_identifier: Option<Cow<'a, str>>,
    user: Option<(Cow<'a, str>, Raw<'a>)>,
    logprobs: bool,
    top_logprobs: Option<u64>,
}

impl<'a> Reading<'a> {
    /// Consumes a top-level field.
    fn field(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> ReadResult<()> {
        let request = &mut self.request;
        match &**name {
            "model" | "stream" | "stream_options" => value.skip()?,
            "messages" => value
                .array(|_, value| read_message(value, &mut request.messages, &mut self.pending))?,
            "tools" => self.tools.tools(value)?,
            "functions" => self.tools.functions(value)?,
            "tool_choice" => self.tool_choice = tools::read_tool_choice(value)?,
            "function_call" => {
                let raw = value.peek_raw()?;
                self.function_call = tools::function_call(value)?.map(|choice| (choice, raw));
            }
            "parallel_tool_calls" => request.parallel_tool_calls = value.flag()?,
            "response_format" => request.format = read_format(value, &mut self.tools.others)?,
            "max_completion_tokens" => {
                self.max_completion_tokens = value.count_from(1, &NO_LIMIT)?
            }
            "max_tokens" => {
                let raw = value.peek_raw()?;
                self.max_tokens = value.count_from(1, &NO_LIMIT)?.map(|number| (number, raw));
            }
            "temperature" => request.temperature = value.number()?,
            "top_p" => request.top_p = value.number()?,
            "top_k" => request.top_k = value.count_from(0, &ALL_TOKENS)?,
            "frequency_penalty" => request.penalties.frequency = value.number()?,
            "presence_penalty" => request.penalties.presence = value.number()?,
            "stop" => read_stop_words(value, &mut request.stop)?,
            "seed" => request.seed = value.integer()?,
            "n" => request.n = value.count_from(1, &[])?.filter(|n| *n > 1),
            "logprobs" => self.logprobs = value.flag()?.unwrap_or(false),
            "top_logprobs" => self.top_logprobs = value.count_from(0, &[])?,
            "reasoning_effort" => request.thinking.effort = value.effort(Effort::None)?,
            "modalities" => request.wants_audio |= beyond_text(value)?,
            "audio" => request.wants_audio |= value.raw_object()?.is_some(),
            "safety_identifier" => self.safety_identifier = value.text()?,
            "user" => {
                let raw = value.peek_raw()?;
                self.user = value.text()?.map(|user| (user, raw));
            }
            "metadata" => request.metadata = value.raw_object()?.filter(|Raw(text)| *text != "{}"),
            "service_tier" => request.service_tier = value.text()?,
            _ => DEFAULTS.note_unknown(&mut request.others, name, value)?,
        }
        Ok(())
    }

    fn request(self) -> ReadResult<(Request<'a>, FieldNames)> {
        let mut request = self.request;
        let mut names = FieldNames::new(CHAT.field_name);
        let first = self.max_completion_tokens;
        if first.is_some() {
            names.write(Field::MaxTokens, "max_completion_tokens");
        }
        request.max_tokens = first.or(self.max_tokens.map(|(number, _)| number));
        if let Some((number, raw)) = self.max_tokens
            && Some(number) != request.max_tokens
        {
            request.others.push(("max_tokens".into(), raw));
        }
        if self.pending.has_details {
            names.write(Field::Thoughts, "messages[].reasoning_details");
        }
        request.user = self.safety_identifier;
        if request.user.is_some() {
            names.write(Field::User, "safety_identifier");
        }
        if let Some((user, raw)) = self.user {
            match &request.user {
                None => request.user = Some(user),
                Some(identifier) if *identifier == user => {}
                Some(_) => request.others.push(("user".into(), raw)),
            }
        }
        request.logprobs = self.logprobs || self.top_logprobs.is_some_and(|count| count > 0);
        let choice = match (self.tool_choice, self.function_call) {
            (None, Some((choice, _))) => {
                names.write(Field::ToolChoice, "function_call");
                Some(choice)
            }
            (Some(choice), Some((_, raw))) => {
                request.others.push(("function_call".into(), raw));
                Some(choice)
            }
            (choice, None) => choice,
        };
        let (known, has_tools) = (&self.tools.names, !self.tools.list.is_empty());
        request.tool_choice = choice
            .map(|choice| choice.resolve(|name| known.contains(name), has_tools))
            .transpose()?;
        if self.tools.are_functions {
            names.write(Field::Tools, "functions");
        }
        request.tools = self.tools.list;
        request.others.extend(self.tools.others);
        Ok((request, names))
    }
}

/// Reads `response_format`.
fn read_format<'a>(
    value: Value<'_, 'a>,
    others: &mut Vec<(Name<'a>, Raw<'a>)>,
) -> ReadResult<Option<Format<'a>>> {
    let place = value.place;
    let mut kind = None;
    let mut schema = None;
    let is_there = value.object(|name, value| {
        match &**name {
            "type" => kind = value.text()?,
            "json_schema" => schema = json_schema(value, others)?,
            // Some servers take a schema in the object of `json_object`.
            _ => value.note_lost_value(others, "response_format.", name)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    match &*place.require("type", kind)? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::JsonObject)),
        "json_schema" => place.require("json_schema", schema).map(Some),
        _ => Err(place.unsupported_type("formats")),
    }
}

fn json_schema<'a>(
    value: Value<'_, 'a>,
    others: &mut Vec<(Name<'a>, Raw<'a>)>,
) -> ReadResult<Option<Format<'a>>> {
    let place = value.place;
    let mut name = None;
    let mut description = None;
    let mut schema = None;
    let mut strict = None;
    let is_there = value.object(|key, value| {
        match &**key {
            "name" => name = value.text()?,
            "description" => description = value.text()?,
            "schema" => schema = value.raw_object()?.map(Cow::from),
            "strict" => strict = value.flag()?,
            _ => value.note_lost_value(others, "response_format.json_schema.", key)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    let name = place.require("name", name)?;
    Ok(Some(Format::JsonSchema {
        name,
        description,
        schema,
        strict,
    }))
}

/// Reads a string, or several.
fn read_stop_words<'a>(mut value: Value<'_, 'a>, list: &mut Vec<Cow<'a, str>>) -> ReadResult<()> {
    match value.kind()? {
        Kind::Array => value.strings(list),
        Kind::String | Kind::Null => {
            list.extend(value.text()?);
            Ok(())
        }
        kind @ (Kind::Object | Kind::Number | Kind::Bool) => {
            Err(value.place.wrong("a string or an array of strings", kind))
        }
    }
}

/// The values of `top_k` that allow all tokens, as a request without `top_k` does; -1 is vLLM's.
const ALL_TOKENS: [i64; 2] = [-1, 0];

/// The value of `max_tokens` that sets no limit. llama.cpp, Ollama and their clients write it.
const NO_LIMIT: [i64; 1] = [-1];

/// Returns whether `modalities` names something else than text.
fn beyond_text(value: Value<'_, '_>) -> ReadResult<bool> {
    let mut is_more = false;
    value.array(|_, value| {
        is_more |= value.text()?.is_some_and(|word| word != "text");
        Ok(())
    })?;
    Ok(is_more)
}

const DEFAULTS: Defaults = Defaults {
    of_all: &["null"],
    of_fields: &[
        ("store", "false"),
        ("logit_bias", "{}"),
        ("verbosity", r#""medium""#),
    ],
};

#[cfg(test)]
mod tests;
