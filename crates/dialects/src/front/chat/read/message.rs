//! This module reads one message of any role. The role may come last, so all fields of all roles
//! are read.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::parts;
use crate::front::reading::others;
use crate::front::reading::value::{Name, Place, ReadResult, Value, non_empty};
use crate::neutral::{Call, Message, Role};
use crate::wire::json::Kind;

/// The facts from earlier messages that later messages need.
#[derive(Default)]
pub(super) struct Pending<'a> {
    /// The ids that were made for calls without one, with the names of the functions. They are
    /// those of the last message with calls, in order, until their results come.
    calls: VecDeque<(Cow<'a, str>, Cow<'a, str>)>,
    /// True if thoughts came as `reasoning_details`.
    pub(super) has_details: bool,
}

/// Reads a message, and appends it to the list.
pub(super) fn read_message<'a>(
    value: Value<'_, 'a>,
    list: &mut Vec<Message<'a>>,
    pending: &mut Pending<'a>,
) -> ReadResult<()> {
    let place = value.place;
    let mut message = Message {
        caller_index: Some(list.len()),
        ..Message::default()
    };
    let mut role = None;
    let mut refusal = None;
    let mut reasoning = None;
    let mut function_call = None;
    let mut details = Vec::new();
    value.non_null_object(|key, value| {
        match &**key {
            "role" => role = self::read_role(value)?,
            "content" => parts::read_content(value, &mut message)?,
            "name" => message.name = non_empty(value.text()?),
            "tool_call_id" => message.tool_call_id = value.text()?,
            "tool_calls" => value.array(|_, value| tool_call(value, &mut message))?,
            "function_call" => {
                function_call = read_function(value, "function_call.", &mut message.others)?
            }
            "refusal" => {
                refusal = value
                    .lazy_text()?
                    .filter(|refusal_text| !refusal_text.is_empty())
            }
            "thinking_blocks" => {
                value.array(|_, value| parts::thinking_block(value, &mut message))?
            }
            // The thoughts of earlier answers come back in many shapes, and are never a reason to
            // refuse.
            "reasoning_content" | "reasoning" => {
                let (text, is_other) = value.text_if_string()?;
                let slot = if key == "reasoning" {
                    &mut reasoning
                } else {
                    &mut message.reasoning
                };
                *slot = non_empty(text);
                if is_other {
                    others::note_name(&mut message.others, "", key);
                }
            }
            "reasoning_details" => details = parts::reasoning_details(value, &mut message)?,
            "cache_control" | "prompt_cache_breakpoint" => {
                message.cache = value.cache()?.or(message.cache.take())
            }
            _ => value.note_lost(&mut message.others, "", key)?,
        }
        Ok(())
    })?;
    message.role = place.require("role", role)?;
    message.reasoning = message.reasoning.or(reasoning);
    // Callers who send both fields send one text twice.
    if message.thoughts.is_empty() && !details.is_empty() {
        pending.has_details = true;
        message.thoughts = details;
    }
    if let Some((name, arguments)) = function_call {
        message.calls.push(Call {
            name,
            arguments,
            ..Call::default()
        });
    }
    match message.role {
        Role::Assistant => {
            parts::push_text(&mut message, refusal.unwrap_or_default(), None);
            pending.calls(list.len(), &mut message.calls);
        }
        Role::Tool => pending.tool(&mut message, place)?,
        Role::Function => pending.function(&mut message, place)?,
        Role::System | Role::Developer | Role::User => {
            let id = message.tool_call_id.take().is_some();
            note_lost_fields(
                &mut message,
                [("refusal", refusal.is_some()), ("tool_call_id", id)],
            );
        }
    }
    if message.role != Role::Assistant {
        let thoughts = !std::mem::take(&mut message.thoughts).is_empty();
        let calls = !std::mem::take(&mut message.calls).is_empty();
        let reasoning = message.reasoning.take().is_some();
        note_lost_fields(
            &mut message,
            [
                ("thinking_blocks", thoughts),
                ("tool_calls", calls),
                ("reasoning_content", reasoning),
            ],
        );
    }
    // A cache hint on a message stands for a hint on its last part.
    if !message.role.is_result()
        && let Some(last) = message.content.last_mut()
        && last.cache.is_none()
    {
        last.cache = message.cache.take();
    }
    list.push(message);
    Ok(())
}

fn read_role(value: Value<'_, '_>) -> ReadResult<Option<Role>> {
    let place = value.place;
    let Some(word) = value.text()? else {
        return Ok(None);
    };
    Ok(Some(match &*word {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        "system" => Role::System,
        "developer" => Role::Developer,
        "function" => Role::Function,
        _ => {
            return Err(place.refuse(
                "must be one of `system`, `developer`, `user`, `assistant`, `tool` and `function`",
            ));
        }
    }))
}

/// Notes the fields that are there although this role cannot have them.
fn note_lost_fields<const N: usize>(message: &mut Message<'_>, fields: [(&'static str, bool); N]) {
    for (name, _) in fields.into_iter().filter(|(_, is_there)| *is_there) {
        others::note_name(&mut message.others, "", &name.into());
    }
}

fn tool_call<'a>(value: Value<'_, 'a>, message: &mut Message<'a>) -> ReadResult<()> {
    let place = value.place;
    let mut id = None;
    let mut function = None;
    let mut custom = None;
    let mut signature = None;
    value.non_null_object(|name, value| {
        match &**name {
            "id" => id = value.text()?,
            "function" => {
                function =
                    self::read_function(value, "tool_calls[].function.", &mut message.others)?
            }
            "custom" => custom = self::read_custom(value, &mut message.others)?,
            "extra_content" => signature = read_google_signature(value)?,
            // The type names the member that holds the call. The fragments of a streamed answer
            // have an index.
            "type" | "index" => value.skip()?,
            _ => value.note_lost(&mut message.others, "tool_calls[].", name)?,
        }
        Ok(())
    })?;
    let is_custom = function.is_none() && custom.is_some();
    let (name, arguments) = place.require("function", function.or(custom))?;
    message.calls.push(Call {
        id: id.unwrap_or_default(),
        name,
        arguments,
        signature,
        is_custom,
    });
    Ok(())
}

/// The name and the arguments of a function.
type NameAndArguments<'a> = (Cow<'a, str>, Cow<'a, str>);

fn read_function<'a>(
    value: Value<'_, 'a>,
    prefix: &str,
    others: &mut Vec<Name<'a>>,
) -> ReadResult<Option<NameAndArguments<'a>>> {
    let place = value.place;
    let mut name = None;
    let mut arguments = None;
    let is_there = value.object(|key, mut value| {
        match &**key {
            "name" => name = value.text()?,
            // Some callers send the arguments as an object, not as the text that the model wrote.
            "arguments" if value.kind()? == Kind::Object => {
                arguments = Some(Cow::Borrowed(value.raw()?.0))
            }
            "arguments" => arguments = value.text()?,
            _ => value.note_lost(others, prefix, key)?,
        }
        Ok(())
    })?;
    if is_there {
        check_named(name, arguments, place).map(Some)
    } else {
        Ok(None)
    }
}

fn read_custom<'a>(
    value: Value<'_, 'a>,
    others: &mut Vec<Name<'a>>,
) -> ReadResult<Option<NameAndArguments<'a>>> {
    let place = value.place;
    let texts = value.texts(["name", "input"], |name, value| {
        value.note_lost(others, "tool_calls[].custom.", name)
    })?;
    let Some([name, input]) = texts else {
        return Ok(None);
    };
    check_named(name, input, place).map(Some)
}

fn check_named<'a>(
    name: Option<Cow<'a, str>>,
    input: Option<Cow<'a, str>>,
    place: Place<'_>,
) -> ReadResult<NameAndArguments<'a>> {
    let name = place.require("name", name)?;
    if name.is_empty() {
        return Err(place.field("name").refuse("must not be empty"));
    }
    Ok((name, input.unwrap_or_default()))
}

/// Reads the signature in `{google:{thought_signature}}`, as Google's own compatible API has it.
/// A value of another shape has none.
fn read_google_signature<'a>(mut value: Value<'_, 'a>) -> ReadResult<Option<Cow<'a, str>>> {
    let mut signature = None;
    if value.kind()? != Kind::Object {
        return value.skip().map(|()| None);
    }
    value.object(|name, mut value| {
        if name != "google" || value.kind()? != Kind::Object {
            return value.skip();
        }
        value.object(|name, value| {
            if name != "thought_signature" {
                return value.skip();
            }
            signature = non_empty(value.text_if_string()?.0);
            Ok(())
        })?;
        Ok(())
    })?;
    Ok(signature)
}

impl<'a> Pending<'a> {
    /// Gives ids to the calls that have none.
    fn calls(&mut self, message: usize, calls: &mut [Call<'a>]) {
        if calls.is_empty() {
            return;
        }
        self.calls.clear();
        for (number, call) in calls
            .iter_mut()
            .enumerate()
            .filter(|(_, call)| call.id.is_empty())
        {
            call.id = format!("call_{message}_{number}").into();
            self.calls.push_back((call.name.clone(), call.id.clone()));
        }
    }

    /// A result with an empty id belongs to a call that had an empty id.
    fn tool(&mut self, message: &mut Message<'a>, place: Place<'_>) -> ReadResult<()> {
        let place = place.field("tool_call_id");
        let id = message.tool_call_id.take().ok_or_else(|| place.missing())?;
        message.tool_call_id = if id.is_empty() {
            self.calls.pop_front().map(|(_, id)| id)
        } else {
            Some(id)
        };
        if message.tool_call_id.is_some() {
            Ok(())
        } else {
            Err(place.refuse("must not be empty"))
        }
    }

    /// A function's result has no id, but the function's name.
    fn function(&mut self, message: &mut Message<'a>, place: Place<'_>) -> ReadResult<()> {
        let Some(name) = &message.name else {
            return Err(place.field("name").missing());
        };
        let is_next = self
            .calls
            .front()
            .is_some_and(|(function, _)| function == name);
        message.tool_call_id = match non_empty(message.tool_call_id.take()) {
            None if is_next => self.calls.pop_front().map(|(_, id)| id),
            call_id => call_id,
        };
        Ok(())
    }
}
