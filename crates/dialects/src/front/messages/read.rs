//! A caller's body → [`Request`].
//!
//! The body is known to be JSON, and is read in one pass. A message with results of tools becomes
//! several: each result is a message of its own, before the user's other blocks. Tools that only
//! Anthropic's servers can run are refused by name; fields that are only hints are left out.

mod blocks;
mod tools;

use std::borrow::Cow;

use crate::front::reading::others::{self, Defaults};
use crate::front::reading::value::{self, Name, ReadResult, Value};
use crate::front::{FieldNames, MESSAGES, RequestRead};
use crate::neutral::{Effort, Field, Format, Message, Raw, Refused, Request, Role, ToolChoice};
use crate::wire::json::Kind;

/// Reads a body. Returns the request, and the caller's names for its fields.
pub(super) fn read_request(body: &[u8]) -> RequestRead<'_> {
    let mut reading = Reading::default();
    reading
        .request
        .messages
        .reserve((body.len() / 1024).clamp(4, 128));
    value::read_body(body, |name, value| reading.field(name, value))?;
    let mut names = FieldNames::new(MESSAGES.field_name);
    if reading.has_old_format {
        names.write(Field::Format, "output_format");
        names.write(Field::FormatSchema, "output_format.schema");
    }
    let request = reading.request();
    check_choice(&request)?;
    // Without a named effort, the settings of thinking decide the effort.
    if request.thinking.effort.is_none() {
        names.write(Field::Effort, "thinking");
    }
    Ok((request, names))
}

/// The settings that several fields decide together.
#[derive(Default)]
struct Reading<'a> {
    request: Request<'a>,
    system: Message<'a>,
    tools: tools::ToolList<'a>,
    /// The deferred tools that the conversation has made known to the model, by name.
    shown_tools: Vec<Cow<'a, str>>,
    /// The effort that the last system message sets.
    effort: Option<Effort>,
    /// True if the format stands in `output_format`, its older place.
    has_old_format: bool,
}

impl<'a> Reading<'a> {
    /// Consumes a top-level field.
    fn field(&mut self, name: &Name<'a>, value: Value<'_, 'a>) -> ReadResult<()> {
        let (request, place) = (&mut self.request, value.place);
        match &**name {
            "model" | "stream" => value.skip()?,
            // A hint for a prompt cache changes nothing in the answer.
            "cache_control" => value.skip()?,
            "messages" => value.array(|index, value| self.message(index, value))?,
            "system" => blocks::read_system(value, &mut self.system)?,
            "max_tokens" => request.max_tokens = value.count_from(1, &[])?,
            "tools" => self.tools.read(value)?,
            "tool_choice" => tools::read_tool_choice(value, request)?,
            "thinking" => request.thinking.settings = value.raw_object()?,
            "output_config" => output_config(value, request)?,
            "output_format" => self.has_old_format = read_format(value, "output_format.", request)?,
            "metadata" => {
                let texts = value.texts(["user_id"], |name, value| {
                    value.note_lost_value(&mut request.others, "metadata.", name)
                })?;
                [request.user] = texts.unwrap_or_default();
            }
            "stop_sequences" => value.strings(&mut request.stop)?,
            "temperature" => request.temperature = value.number()?,
            "top_p" => request.top_p = value.number()?,
            "top_k" => request.top_k = value.count_from(0, &[])?,
            "service_tier" => request.service_tier = value.text()?,
            "mcp_servers" | "container" | "thread" => {
                if value.read_is_filled()? {
                    return Err(place.unsupported(
                        "only Anthropic's own servers have this; the model of this request is served by another",
                    ));
                }
            }
            _ => DEFAULTS.note_unknown(&mut request.others, name, value)?,
        }
        Ok(())
    }

    /// Reads a message, and appends it to the list.
    fn message(&mut self, index: usize, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut read = blocks::Blocks::for_message(index);
        let mut role = None;
        value.non_null_object(|name, mut value| {
            match &**name {
                "role" => role = value.text()?,
                "content" => read.read_content(value)?,
                "output_config" if value.kind()? == Kind::Object => {
                    let mut own = Request::default();
                    output_config(value, &mut own)?;
                    self.effort = own.thinking.effort.or(self.effort);
                    // The other settings are for the whole answer, and have no place in a message.
                    own.others.extend(
                        own.format
                            .map(|_| (Cow::Borrowed("output_config.format"), Raw(""))),
                    );
                    own.others.iter().for_each(|(name, _)| {
                        others::note_name(&mut read.message.others, "", name)
                    });
                }
                // It sets when the message may be cleared, which never happens here.
                "clear_at" => value.skip()?,
                _ => value.note_lost(&mut read.message.others, "", name)?,
            }
            Ok(())
        })?;
        let role = match &*place.require("role", role)? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            _ => {
                return Err(place
                    .field("role")
                    .refuse("must be one of `user`, `assistant` and `system`"));
            }
        };
        self.shown_tools.append(&mut read.shown_tools);
        read.finish(role, place, &mut self.request.messages)
    }

    fn request(mut self) -> Request<'a> {
        let mut request = self.request;
        if !self.system.content.is_empty() {
            request.messages.insert(0, self.system);
        }
        request.thinking.effort = self.effort.or(request.thinking.effort);
        request.tools = self.tools.take_shown(&self.shown_tools);
        request.others.extend(self.tools.others);
        // Without tools there is nothing to choose.
        if request.tools.is_empty() {
            (request.tool_choice, request.parallel_tool_calls) = (None, None);
        }
        request
    }
}

/// Refuses the choice of a tool that is not there, or that the model does not see.
fn check_choice(request: &Request<'_>) -> ReadResult<()> {
    match &request.tool_choice {
        Some(ToolChoice::Named(name)) if request.tools.iter().all(|tool| tool.name != *name) => {
            let message = "`tool_choice.name` is none of the tools that the model can see";
            Err(Box::new(Refused::invalid("tool_choice.name", message)))
        }
        Some(_) | None => Ok(()),
    }
}

/// Reads the effort, and the format.
fn output_config<'a>(value: Value<'_, 'a>, request: &mut Request<'a>) -> ReadResult<()> {
    value.object(|name, value| {
        match &**name {
            "effort" => request.thinking.effort = value.effort(Effort::Low)?,
            "format" => drop(read_format(value, "output_config.format.", request)?),
            _ => value.note_lost_value(&mut request.others, "output_config.", name)?,
        }
        Ok(())
    })?;
    Ok(())
}

/// Reads `{type: json_schema, schema}`; returns whether it is there. `prefix` stands before the
/// names of its other members.
fn read_format<'a>(
    value: Value<'_, 'a>,
    prefix: &str,
    request: &mut Request<'a>,
) -> ReadResult<bool> {
    let place = value.place;
    let mut kind = None;
    let mut schema = None;
    let mut name = None;
    let is_there = value.object(|key, value| {
        match &**key {
            "type" => kind = value.text()?,
            "schema" => schema = value.raw_object()?,
            "name" => name = value.text()?,
            _ => value.note_lost_value(&mut request.others, prefix, key)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(false);
    }
    if place.require("type", kind)? != "json_schema" {
        return Err(place.field("type").refuse("must be `json_schema`"));
    }
    request.format = Some(Format::JsonSchema {
        name: name.unwrap_or(Cow::Borrowed("output")),
        description: None,
        schema: Some(place.require("schema", schema)?.into()),
        strict: Some(true),
    });
    Ok(true)
}

const DEFAULTS: Defaults = Defaults {
    of_all: &["null", "[]", "{}"],
    of_fields: &[("speed", r#""standard""#)],
};

#[cfg(test)]
mod tests;
