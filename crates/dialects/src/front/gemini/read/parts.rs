//! The parts of a content.

use std::borrow::Cow;

use super::calls::Calls;
use super::{media, read_camel_members, read_each};
use crate::front::reading::others;
use crate::front::reading::value::{Name, Place, ReadResult, Value, non_empty};
use crate::neutral::schema::{read_members as members_of, string_value};
use crate::neutral::seal::is_sealed;
use crate::neutral::{Call, LazyText, Message, Part, PartKind, Raw, Role};

/// The parts of a content, as they are read.
pub(super) struct Parts<'a> {
    /// The author's own text, media and calls.
    message: Message<'a>,
    results: Vec<ToolOutcome<'a>>,
}

/// The result of a call.
struct ToolOutcome<'a> {
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    content: Vec<Part<'a>>,
}

impl<'a> Parts<'a> {
    /// Returns the parts of the content at this index.
    pub(super) fn new(caller_index: Option<usize>) -> Self {
        Self {
            message: Message {
                caller_index,
                ..Message::default()
            },
            results: Vec::new(),
        }
    }

    /// Reads a content, and returns its role.
    pub(super) fn content(&mut self, value: Value<'_, 'a>) -> ReadResult<Option<Cow<'a, str>>> {
        let mut role = None;
        value.non_null_object(|name, value| {
            match &**name {
                "role" => role = value.text()?,
                "parts" => read_each(value, |_, value| self.part(value))?,
                _ => value.note_lost(&mut self.message.others, "", name)?,
            }
            Ok(())
        })?;
        Ok(role)
    }

    /// Returns the text of the system instruction. It makes no calls.
    pub(super) fn system(
        mut self,
        place: Place<'_>,
        lost: &mut Vec<(Name<'a>, Raw<'a>)>,
    ) -> ReadResult<Message<'a>> {
        let others = std::mem::take(&mut self.message.others).into_iter();
        lost.extend(
            others.map(|name| (Cow::Owned(format!("systemInstruction.{name}")), Raw("true"))),
        );
        if self.message.calls.is_empty() && self.results.is_empty() {
            return Ok(self.message);
        }
        Err(place
            .field("parts")
            .refuse("must not have calls of functions or their results"))
    }

    /// Appends the messages that were read to the list.
    pub(super) fn end(
        mut self,
        role: Role,
        place: Place<'_>,
        calls: &mut Calls<'a>,
        list: &mut Vec<Message<'a>>,
    ) -> ReadResult<()> {
        self.message.role = role;
        let place = place.field("parts");
        if role == Role::User && !self.message.calls.is_empty() {
            return Err(place.refuse("has a `functionCall`, which only the role `model` can have"));
        }
        if role == Role::Assistant && !self.results.is_empty() {
            return Err(
                place.refuse("has a `functionResponse`, which only the role `user` can have")
            );
        }
        if role == Role::User {
            self.message.reasoning = None;
        }
        let index = self.message.caller_index.unwrap_or_default();
        for (number, call) in self.message.calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = Cow::Owned(format!("call_{index}_{number}"));
            }
            calls.add(call);
        }
        if role == Role::Assistant {
            push_continued(list, self.message);
            return Ok(());
        }
        let has_results = !self.results.is_empty();
        for (number, ToolOutcome { id, name, content }) in self.results.into_iter().enumerate() {
            let id = calls
                .take_call_for(id, &name)
                .unwrap_or_else(|| Cow::Owned(format!("result_{index}_{number}")));
            list.push(Message {
                role: Role::Tool,
                caller_index: self.message.caller_index,
                name: Some(name),
                tool_call_id: Some(id),
                content,
                ..Message::default()
            });
        }
        if !has_results || !self.message.content.is_empty() || !self.message.others.is_empty() {
            list.push(self.message);
        }
        Ok(())
    }

    fn part(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let message = &mut self.message;
        let mut text = None;
        let mut is_thought = false;
        let mut signature = None;
        let calls_before = message.calls.len();
        let place = value.place;
        let is_there = read_camel_members(value, |known, name, value| {
            match known {
                "text" => text = value.lazy_text()?,
                "thought" => is_thought = value.flag()?.unwrap_or(false),
                // Any other signature has a meaning only for the model that made it.
                "thoughtSignature" => {
                    signature = value.text_if_string()?.0.filter(|text| is_sealed(text))
                }
                "inlineData" => {
                    let kind = media::read_inline_data(value, &mut message.others)?;
                    push_part(message, kind);
                }
                "fileData" => {
                    let kind = media::read_file_data(value, &mut message.others)?;
                    push_part(message, kind);
                }
                "functionCall" => message.calls.extend(read_call(value, &mut message.others)?),
                "functionResponse" => self
                    .results
                    .extend(read_outcome(value, &mut message.others)?),
                "executableCode" => {
                    if let Some([language, code]) =
                        read_texts(value, known, ["language", "code"], &mut message.others)?
                    {
                        let language = language.unwrap_or_default().to_ascii_lowercase();
                        let language = if language == "python" { "python" } else { "" };
                        let code = code.unwrap_or_default();
                        push_text(message, format!("\n```{language}\n{code}\n```\n").into());
                    }
                }
                "codeExecutionResult" => {
                    if let Some([outcome, output]) =
                        read_texts(value, known, ["outcome", "output"], &mut message.others)?
                    {
                        let failed = outcome.is_some_and(|outcome| outcome != "OUTCOME_OK");
                        let before = if failed { "Error: " } else { "" };
                        let output = output.unwrap_or_default();
                        push_text(message, format!("\n```\n{before}{output}\n```\n").into());
                    }
                }
                _ => value.note_lost(&mut message.others, "parts[].", name)?,
            }
            Ok(())
        })?;
        if !is_there {
            return Err(place.refuse("must be an object, not null"));
        }
        match message.calls.get_mut(calls_before) {
            Some(call) => call.signature = signature,
            // Only calls must be signed.
            None if signature.is_some() => {
                others::note_name(
                    &mut message.others,
                    "parts[].",
                    &Cow::Borrowed("thoughtSignature"),
                );
            }
            None => {}
        }
        match text.filter(|text| !text.is_empty()) {
            Some(text) if is_thought => message
                .reasoning
                .get_or_insert_default()
                .to_mut()
                .push_str(&text),
            Some(text) => push_text(message, text),
            None => {}
        }
        Ok(())
    }
}

/// Adds the model's parts to the list. Clients send back a streamed answer in the pieces in which
/// it came: in several parts, or in several contents.
fn push_continued<'a>(list: &mut Vec<Message<'a>>, mut continuation: Message<'a>) {
    let content = std::mem::take(&mut continuation.content);
    if list.last().is_none_or(|last| last.role != Role::Assistant) {
        list.push(Message {
            role: continuation.role,
            caller_index: continuation.caller_index,
            ..Message::default()
        });
    }
    let Some(message) = list.last_mut() else {
        return;
    };
    for part in content {
        match (message.content.last_mut(), part) {
            (
                Some(Part {
                    kind: PartKind::Text(text),
                    ..
                }),
                Part {
                    kind: PartKind::Text(more),
                    ..
                },
            ) => {
                text.push_str(&more);
            }
            (_, part) => message.content.push(part),
        }
    }
    message.calls.append(&mut continuation.calls);
    message.others.append(&mut continuation.others);
    match (&mut message.reasoning, continuation.reasoning) {
        (Some(before), Some(more)) => before.to_mut().push_str(&more),
        (None, Some(more)) => message.reasoning = Some(more),
        (_, None) => {}
    }
}

/// Adds a text to a message, unless it is empty.
pub(super) fn push_text<'a>(message: &mut Message<'a>, text: LazyText<'a>) {
    message.content.extend(Part::unless_empty(text));
}

fn push_part<'a>(message: &mut Message<'a>, kind: Option<PartKind<'a>>) {
    message.content.extend(kind.map(Part::from));
}

/// Reads `functionCall`. A call without an id gets one later.
fn read_call<'a>(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> ReadResult<Option<Call<'a>>> {
    let place = value.place;
    let mut id = None;
    let mut function = None;
    let mut args = None;
    let is_there = read_camel_members(value, |known, name, value| {
        match known {
            "id" => id = value.text()?,
            "name" => function = value.text()?,
            "args" => args = value.raw_object()?,
            _ => value.note_lost(lost, "parts[].functionCall.", name)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    Ok(Some(Call {
        id: id.unwrap_or_default(),
        name: place.require_text("name", function)?,
        arguments: args.map_or(Cow::Borrowed("{}"), Cow::from),
        ..Call::default()
    }))
}

/// Reads `functionResponse`.
fn read_outcome<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<Name<'a>>,
) -> ReadResult<Option<ToolOutcome<'a>>> {
    let place = value.place;
    let mut id = None;
    let mut function = None;
    let mut response = None;
    let mut inside = Parts::new(None);
    let is_there = read_camel_members(value, |known, name, value| {
        match known {
            "id" => id = non_empty(value.text()?),
            "name" => function = value.text()?,
            "response" => response = value.raw_object()?,
            "parts" => read_each(value, |_, value| inside.part(value))?,
            _ => value.note_lost(lost, "parts[].functionResponse.", name)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    if !inside.message.calls.is_empty() || !inside.results.is_empty() {
        return Err(place
            .field("parts")
            .refuse("must not have calls of functions or their results"));
    }
    lost.append(&mut inside.message.others);
    let text = response.map(outcome_text).and_then(Part::unless_empty);
    let mut content = Vec::from_iter(text);
    content.append(&mut inside.message.content);
    let name = place.require_text("name", function)?;
    Ok(Some(ToolOutcome { id, name, content }))
}

/// Returns the text of a tool's response: of `output` or of `error` if there is nothing else.
fn outcome_text(response: Raw<'_>) -> Cow<'_, str> {
    let response = response.0;
    let found = members_of(response).unwrap_or_default();
    match found.as_slice() {
        [(name, value)] if name == "output" => {
            string_value(value).unwrap_or(Cow::Borrowed(response))
        }
        [(name, value)] if name == "error" => Cow::Owned(format!(
            "Error: {}",
            string_value(value).unwrap_or(Cow::Borrowed(value))
        )),
        _ => Cow::Borrowed(response),
    }
}

/// Reads these strings of the object with this name. The object may have an id.
fn read_texts<'a, const N: usize>(
    value: Value<'_, 'a>,
    field_name: &str,
    names: [&'static str; N],
    lost: &mut Vec<Name<'a>>,
) -> ReadResult<Option<[Option<Cow<'a, str>>; N]>> {
    value.texts(names, |name, value| match &**name {
        "id" => value.skip(),
        _ => value.note_lost(lost, &format!("parts[].{field_name}."), name),
    })
}
