//! A caller's body → [`Request`].
//!
//! The body is known to be JSON, and is read in one pass. A content with results of tools becomes
//! several messages: each result is a message of its own, before the user's other parts. Tools that
//! only Google's servers can run are refused by name; fields that are only hints are left out.

mod calls;
mod media;
mod parts;
mod schema;
mod settings;
mod tools;

use super::camel_name;
use crate::front::reading::others::Defaults;
use crate::front::reading::value::{self, Name, ReadResult, Value};
use crate::front::{FieldNames, GEMINI, RequestRead};
use crate::neutral::{Message, Request, Role};
use crate::wire::json::Kind;

/// Reads a body. Returns the request, and the caller's names for its fields.
pub(super) fn read_request(body: &[u8]) -> RequestRead<'_> {
    let mut reading = ReadSoFar {
        request: Request::default(),
        system: Message::default(),
        tools: tools::DeclaredTools::default(),
        calls: calls::Calls::default(),
        names: FieldNames::new(GEMINI.field_name),
    };
    reading
        .request
        .messages
        .reserve((body.len() / 1024).clamp(4, 128));
    value::read_body(body, |name, value| reading.field(name, value))?;
    Ok(reading.request()?)
}

/// The settings that several fields decide together.
struct ReadSoFar<'a> {
    request: Request<'a>,
    system: Message<'a>,
    tools: tools::DeclaredTools<'a>,
    /// The calls that wait for their results.
    calls: calls::Calls<'a>,
    /// The caller's names for the fields.
    names: FieldNames,
}

impl<'a> ReadSoFar<'a> {
    /// Consumes a top-level field.
    fn field(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> ReadResult<()> {
        let (request, place) = (&mut self.request, value.place);
        match &*camel_name(name) {
            // The path names the model.
            "model" => value.skip()?,
            "contents" => read_each(value, |index, value| self.content(index, value))?,
            "systemInstruction" if value.kind()? == Kind::String => {
                let text = value.lazy_text()?.unwrap_or_default();
                parts::push_text(&mut self.system, text);
            }
            "systemInstruction" => {
                let mut read = parts::Parts::new(None);
                read.content(value)?;
                self.system = read.system(place, &mut request.others)?;
            }
            "tools" => self.tools.read(value)?,
            "toolConfig" => self.tools.config(value, &mut request.others)?,
            "generationConfig" => settings::read_settings(value, request, &mut self.names)?,
            "cachedContent" => {
                if value.read_is_filled()? {
                    return Err(place
                        .unsupported("what was stored at Google is not at hand here: send the contents themselves"));
                }
            }
            "serviceTier" => request.service_tier = settings::read_service_tier(value)?,
            _ => DEFAULTS.note_unknown(&mut request.others, name, value)?,
        }
        Ok(())
    }

    /// Reads a content, and appends its messages to the list.
    fn content(&mut self, index: usize, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut read = parts::Parts::new(Some(index));
        let role = read.content(value)?;
        let role = match role.as_deref() {
            None | Some("" | "user" | "function") => Role::User,
            Some("model") => Role::Assistant,
            Some(_) => return Err(place.field("role").refuse("must be `user` or `model`")),
        };
        read.end(role, place, &mut self.calls, &mut self.request.messages)
    }

    fn request(mut self) -> ReadResult<(Request<'a>, FieldNames)> {
        let mut request = self.request;
        if !self.system.content.is_empty() {
            request.messages.insert(
                0,
                Message {
                    role: Role::System,
                    ..self.system
                },
            );
        }
        request.tool_choice = self.tools.choice()?;
        self.tools.name_parameters(&mut self.names);
        request.tools = self.tools.list;
        request.others.append(&mut self.tools.others);
        Ok((request, self.names))
    }
}

/// Reads an array, or a single element without its array, as Google does.
fn read_each<'a>(
    mut value: Value<'_, 'a>,
    mut read: impl FnMut(usize, Value<'_, 'a>) -> ReadResult<()>,
) -> ReadResult<()> {
    if value.kind()? == Kind::Object {
        read(0, value)
    } else {
        value.array(read)
    }
}

/// Reads an object whose members' names may be in camel case or in snake case.
fn read_camel_members<'a>(
    value: Value<'_, 'a>,
    mut read: impl FnMut(&str, &Name<'a>, Value<'_, 'a>) -> ReadResult<()>,
) -> ReadResult<bool> {
    value.object(|name, value| read(&camel_name(name), name, value))
}

const DEFAULTS: Defaults = Defaults {
    of_all: &["null", "[]", "{}", "false", r#""""#],
    of_fields: &[],
};

#[cfg(test)]
mod tests;
