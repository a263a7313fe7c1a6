//! A caller's body → [`Request`].
//!
//! The body is known to be JSON, and is read in one pass. The items of one turn of the assistant
//! become one message. Tools of a namespace get longer names and stand among all others, and tools
//! with free input become functions: the [`Echo`] keeps what they were, so that an answer uses the
//! caller's names. Tools that only OpenAI's own servers can run are refused by type.

pub(super) mod echoed;
mod items;
mod parts;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;

use crate::front::reading::choice::ReadChoice;
use crate::front::reading::others::{self, Defaults};
use crate::front::reading::value::{self, Name, ReadResult, Value};
use crate::front::{FieldNames, RESPONSES, RequestRead};
use crate::neutral::{Echo, Effort, Field, Format, Message, Part, Raw, Request, Role};
use crate::wire::json::Kind;
use echoed::Echoed;

/// Reads a body. Returns the request, and the caller's names for its fields.
pub(super) fn read_request(body: &[u8]) -> RequestRead<'_> {
    let mut reading = ReadingItems::default();
    reading
        .items
        .messages
        .reserve((body.len() / 1024).clamp(4, 128));
    value::read_body(body, |name, value| reading.field(name, value))?;
    Ok(reading.end()?)
}

/// The settings that several fields decide together.
#[derive(Default)]
struct ReadingItems<'a> {
    request: Request<'a>,
    instructions: Option<Part<'a>>,
    items: items::Items<'a>,
    tools: tools::CallableTools<'a>,
    choice: Option<ReadChoice<'a>>,
    users: [Option<Cow<'a, str>>; 2],
    echoed: Echoed<'a>,
    shows_thinking: bool,
    /// True if the caller sends back sealed thoughts.
    carries_thoughts: bool,
}

impl<'a> ReadingItems<'a> {
    /// Consumes a top-level field.
    fn field(&mut self, name: &Name<'a>, value: Value<'_, 'a>) -> ReadResult<()> {
        let raw = value.written(|value| self.read(name, value))?;
        self.echoed.field(name, raw);
        Ok(())
    }

    fn read(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> ReadResult<()> {
        let request = &mut self.request;
        match &**name {
            // The envelope has read these fields.
            "model"
            | "stream"
            | "previous_response_id"
            | "conversation"
            | "background"
            | "prompt" => value.skip()?,
            // These fields set how the stream is padded, and how many calls the server may make by
            // itself. It makes none.
            "stream_options" | "max_tool_calls" => value.skip()?,
            "input" if value.kind()? == Kind::String => {
                let text = value.lazy_text()?.and_then(Part::unless_empty);
                let content = Vec::from_iter(text);
                self.items.messages.push(Message {
                    caller_index: Some(0),
                    content,
                    ..Message::default()
                });
            }
            "input" => value.array(|index, value| self.items.read_item(index, value))?,
            "instructions" => self.instructions = value.lazy_text()?.and_then(Part::unless_empty),
            "max_output_tokens" => request.max_tokens = value.count_from(1, &[])?,
            "parallel_tool_calls" => request.parallel_tool_calls = value.flag()?,
            "tools" => {
                let tools = &mut self.tools;
                value.array(|_, value| tools.read(value))?;
            }
            "tool_choice" => self.choice = tools::read_tool_choice(value, &mut request.others)?,
            "text" => self.text(value)?,
            "reasoning" => self.reasoning(value)?,
            "include" => value.array(|_, value| {
                let name = value.text()?.unwrap_or_default();
                if name == "reasoning.encrypted_content" {
                    self.carries_thoughts = true;
                    return Ok(());
                }
                others::note_value(
                    &mut request.others,
                    format!("include[].{name}"),
                    Raw("true"),
                );
                Ok(())
            })?,
            "service_tier" => request.service_tier = value.text()?.filter(|tier| tier != "auto"),
            "temperature" => request.temperature = value.number()?,
            "top_p" => request.top_p = value.number()?,
            "presence_penalty" => request.penalties.presence = value.number()?,
            "frequency_penalty" => request.penalties.frequency = value.number()?,
            "metadata" => request.metadata = value.raw_object()?.filter(|Raw(text)| *text != "{}"),
            "user" => self.users[1] = value.text()?,
            "safety_identifier" => self.users[0] = value.text()?,
            _ => DEFAULTS.note_unknown(&mut request.others, name, value)?,
        }
        Ok(())
    }

    /// Reads the format of the answer's text.
    fn text(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let (request, echoed) = (&mut self.request, &mut self.echoed);
        value.object(|name, mut value| {
            match &**name {
                "format" => {
                    echoed.format = Some(value.peek_raw()?);
                    request.format = read_format(value, &mut request.others)?;
                }
                "verbosity" => {
                    let raw = value.peek_raw()?;
                    echoed.verbosity = Some(raw);
                    if raw.0 == r#""medium""# {
                        return value.skip();
                    }
                    value.note_lost_value(&mut request.others, "text.", name)?;
                }
                _ => value.note_lost_value(&mut request.others, "text.", name)?,
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Reads the effort of thinking, and which summary of it is shown.
    fn reasoning(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let (request, echoed) = (&mut self.request, &mut self.echoed);
        value.object(|name, mut value| {
            let raw = value.peek_raw()?;
            match &**name {
                "effort" => {
                    echoed.effort = Some(raw);
                    request.thinking.effort = value.effort(Effort::None)?;
                }
                "summary" | "generate_summary" => {
                    let place = value.place;
                    let shows = match value.text()?.as_deref() {
                        None => return Ok(()),
                        Some("auto" | "concise" | "detailed") => true,
                        Some("none") => false,
                        Some(_) => {
                            return Err(
                                place.refuse("must be one of `auto`, `concise` and `detailed`")
                            );
                        }
                    };
                    echoed.summary = Some(raw);
                    self.shows_thinking |= shows;
                }
                "context" if raw.0 == r#""auto""# => value.skip()?,
                _ => value.note_lost_value(&mut request.others, "reasoning.", name)?,
            }
            Ok(())
        })?;
        Ok(())
    }

    fn end(self) -> ReadResult<(Request<'a>, FieldNames)> {
        let (mut request, mut tools) = (self.request, self.tools);
        tools.join(self.items.tools)?;
        request.messages = self.items.messages;
        if let Some(instructions) = self.instructions {
            let system = Message {
                role: Role::System,
                content: vec![instructions],
                ..Message::default()
            };
            request.messages.insert(0, system);
        }
        let has_tools = !tools.list.is_empty();
        request.tool_choice = self
            .choice
            .map(|choice| choice.resolve(|name| tools.known.contains_key(name), has_tools))
            .transpose()?;
        // Without tools there is nothing to choose.
        if !has_tools {
            (request.tool_choice, request.parallel_tool_calls) = (None, None);
        }
        request.tools = tools.list;
        request.others.extend(tools.others);
        request.others.extend(self.items.others);
        let [identifier, user] = self.users;
        let mut names = FieldNames::new(RESPONSES.field_name);
        if identifier.is_none() && user.is_some() {
            names.write(Field::User, "user");
        }
        // A provider gets only one of the two.
        if identifier.is_some() && user.is_some() {
            request.others.push((Cow::Borrowed("user"), Raw("true")));
        }
        request.user = identifier.or(user);
        names.echo = Some(Arc::new(Echo {
            carries_thoughts: self.carries_thoughts,
            ..self.echoed.echo(self.shows_thinking, tools.known)
        }));
        Ok((request, names))
    }
}

/// Reads `text`, `json_object`, or a schema that stands next to its name.
fn read_format<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<(Name<'a>, Raw<'a>)>,
) -> ReadResult<Option<Format<'a>>> {
    let place = value.place;
    let mut kind = None;
    let mut name = None;
    let mut description = None;
    let mut schema = None;
    let mut strict = None;
    let is_there = value.object(|key, value| {
        match &**key {
            "type" => kind = value.text()?,
            "name" => name = value.text()?,
            "description" => description = value.text()?,
            "schema" => schema = value.raw_object()?,
            "strict" => strict = value.flag()?,
            _ => value.note_lost_value(lost, "text.format.", key)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    match &*place.require("type", kind)? {
        "text" => Ok(None),
        "json_object" => Ok(Some(Format::JsonObject)),
        "json_schema" => Ok(Some(Format::JsonSchema {
            name: place.require("name", name)?,
            description,
            schema: Some(place.require("schema", schema)?.into()),
            strict,
        })),
        _ => Err(place
            .field("type")
            .refuse("must be one of `text`, `json_object` and `json_schema`")),
    }
}

const DEFAULTS: Defaults = Defaults {
    of_all: &["null", "[]", "{}"],
    of_fields: &[
        ("truncation", r#""disabled""#),
        ("store", "false"),
        ("top_logprobs", "0"),
    ],
};

#[cfg(test)]
mod tests;
