//! The parts of a content.

use std::borrow::Cow;

use super::calls::Calls;
use super::{each, media, members};
use crate::front::reading::others;
use crate::front::reading::value::{Name, Place, ReadFault, Value};
use crate::neutral::schema::{members as members_of, string};
use crate::neutral::seal::is_sealed;
use crate::neutral::{Call, Message, Part, PartKind, Raw, Role, Said};

/// What a content holds.
pub(super) struct Parts<'a> {
    /// What its author says.
    said: Message<'a>,
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
    pub(super) fn new(place: Option<usize>) -> Self {
        Self {
            said: Message {
                place,
                ..Message::default()
            },
            results: Vec::new(),
        }
    }

    /// Reads a content, and returns its role.
    pub(super) fn content(
        &mut self,
        value: Value<'_, 'a>,
    ) -> Result<Option<Cow<'a, str>>, ReadFault> {
        let mut role = None;
        value.element(|name, value| {
            match &**name {
                "role" => role = value.text()?,
                "parts" => each(value, |_, value| self.part(value))?,
                _ => others::field(&mut self.said.others, "", name, value)?,
            }
            Ok(())
        })?;
        Ok(role)
    }

    /// Returns what the system says. It makes no calls.
    pub(super) fn system(
        mut self,
        place: Place<'_>,
        lost: &mut Vec<(Name<'a>, Raw<'a>)>,
    ) -> Result<Message<'a>, ReadFault> {
        let others = std::mem::take(&mut self.said.others).into_iter();
        lost.extend(
            others.map(|name| (Cow::Owned(format!("systemInstruction.{name}")), Raw("true"))),
        );
        if self.said.calls.is_empty() && self.results.is_empty() {
            return Ok(self.said);
        }
        Err(place
            .field("parts")
            .refuse("must not have calls of functions or their results"))
    }

    /// Puts what was read to the end of the list.
    pub(super) fn end(
        mut self,
        role: Role,
        place: Place<'_>,
        calls: &mut Calls<'a>,
        list: &mut Vec<Message<'a>>,
    ) -> Result<(), ReadFault> {
        self.said.role = role;
        let place = place.field("parts");
        if role == Role::User && !self.said.calls.is_empty() {
            return Err(place.refuse("has a `functionCall`, which only the role `model` can have"));
        }
        if role == Role::Assistant && !self.results.is_empty() {
            return Err(
                place.refuse("has a `functionResponse`, which only the role `user` can have")
            );
        }
        if role == Role::User {
            self.said.reasoning = None;
        }
        let index = self.said.place.unwrap_or_default();
        for (number, call) in self.said.calls.iter_mut().enumerate() {
            if call.id.is_empty() {
                call.id = Cow::Owned(format!("call_{index}_{number}"));
            }
            calls.add(call);
        }
        if role == Role::Assistant {
            continued(list, self.said);
            return Ok(());
        }
        let has_results = !self.results.is_empty();
        for (number, ToolOutcome { id, name, content }) in self.results.into_iter().enumerate() {
            let id = calls
                .answer(id, &name)
                .unwrap_or_else(|| Cow::Owned(format!("result_{index}_{number}")));
            list.push(Message {
                role: Role::Tool,
                place: self.said.place,
                name: Some(name),
                tool_call_id: Some(id),
                content,
                ..Message::default()
            });
        }
        if !has_results || !self.said.content.is_empty() || !self.said.others.is_empty() {
            list.push(self.said);
        }
        Ok(())
    }

    fn part(&mut self, value: Value<'_, 'a>) -> Result<(), ReadFault> {
        let said = &mut self.said;
        let mut text = None;
        let mut is_thought = false;
        let mut signature = None;
        let calls_before = said.calls.len();
        let place = value.place;
        let is_there = members(value, |known, name, value| {
            match known {
                "text" => text = value.said()?,
                "thought" => is_thought = value.flag()?.unwrap_or(false),
                // Any other means something to the model that made it, and to no other.
                "thoughtSignature" => {
                    signature = value.text_or_not()?.0.filter(|text| is_sealed(text))
                }
                "inlineData" => {
                    let kind = media::inline(value, &mut said.others)?;
                    push(said, kind);
                }
                "fileData" => {
                    let kind = media::file(value, &mut said.others)?;
                    push(said, kind);
                }
                "functionCall" => said.calls.extend(call(value, &mut said.others)?),
                "functionResponse" => self.results.extend(outcome(value, &mut said.others)?),
                "executableCode" => {
                    if let Some([language, code]) =
                        texts(value, known, ["language", "code"], &mut said.others)?
                    {
                        let language = language.unwrap_or_default().to_ascii_lowercase();
                        let language = if language == "python" { "python" } else { "" };
                        let code = code.unwrap_or_default();
                        say(said, format!("\n```{language}\n{code}\n```\n").into());
                    }
                }
                "codeExecutionResult" => {
                    if let Some([outcome, output]) =
                        texts(value, known, ["outcome", "output"], &mut said.others)?
                    {
                        let failed = outcome.is_some_and(|outcome| outcome != "OUTCOME_OK");
                        let before = if failed { "Error: " } else { "" };
                        let output = output.unwrap_or_default();
                        say(said, format!("\n```\n{before}{output}\n```\n").into());
                    }
                }
                _ => others::field(&mut said.others, "parts[].", name, value)?,
            }
            Ok(())
        })?;
        if !is_there {
            return Err(place.refuse("must be an object, not null"));
        }
        match said.calls.get_mut(calls_before) {
            Some(call) => call.signature = signature,
            // Only calls must be signed.
            None if signature.is_some() => {
                others::note(
                    &mut said.others,
                    "parts[].",
                    &Cow::Borrowed("thoughtSignature"),
                );
            }
            None => {}
        }
        match text.filter(|text| !text.is_empty()) {
            Some(text) if is_thought => said
                .reasoning
                .get_or_insert_default()
                .to_mut()
                .push_str(&text),
            Some(text) => say(said, text),
            None => {}
        }
        Ok(())
    }
}

/// Adds what the model said to the list. What it said in a stream comes back in the pieces in which
/// it went out: in several parts, or in several contents.
fn continued<'a>(list: &mut Vec<Message<'a>>, mut said: Message<'a>) {
    let content = std::mem::take(&mut said.content);
    if list.last().is_none_or(|last| last.role != Role::Assistant) {
        list.push(Message {
            role: said.role,
            place: said.place,
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
    message.calls.append(&mut said.calls);
    message.others.append(&mut said.others);
    match (&mut message.reasoning, said.reasoning) {
        (Some(before), Some(more)) => before.to_mut().push_str(&more),
        (None, Some(more)) => message.reasoning = Some(more),
        (_, None) => {}
    }
}

/// Adds text to a message, if it is any.
pub(super) fn say<'a>(message: &mut Message<'a>, text: Said<'a>) {
    if !text.is_empty() {
        push(message, Some(PartKind::Text(text)));
    }
}

fn push<'a>(message: &mut Message<'a>, kind: Option<PartKind<'a>>) {
    message
        .content
        .extend(kind.map(|kind| Part { kind, cache: None }));
}

/// Reads `functionCall`. A call without an id gets one later.
fn call<'a>(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> Result<Option<Call<'a>>, ReadFault> {
    let place = value.place;
    let mut id = None;
    let mut function = None;
    let mut args = None;
    let is_there = members(value, |known, name, value| {
        match known {
            "id" => id = value.text()?,
            "name" => function = value.text()?,
            "args" => args = value.raw_object()?,
            _ => others::field(lost, "parts[].functionCall.", name, value)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    let function = function.filter(|name| !name.is_empty());
    Ok(Some(Call {
        id: id.unwrap_or_default(),
        name: function.ok_or_else(|| place.field("name").missing())?,
        arguments: args.map_or(Cow::Borrowed("{}"), Cow::from),
        ..Call::default()
    }))
}

/// Reads `functionResponse`.
fn outcome<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<Name<'a>>,
) -> Result<Option<ToolOutcome<'a>>, ReadFault> {
    let place = value.place;
    let mut id = None;
    let mut function = None;
    let mut response = None;
    let mut inside = Parts::new(None);
    let is_there = members(value, |known, name, value| {
        match known {
            "id" => id = value.text()?.filter(|id| !id.is_empty()),
            "name" => function = value.text()?,
            "response" => response = value.raw_object()?,
            "parts" => each(value, |_, value| inside.part(value))?,
            _ => others::field(lost, "parts[].functionResponse.", name, value)?,
        }
        Ok(())
    })?;
    if !is_there {
        return Ok(None);
    }
    if !inside.said.calls.is_empty() || !inside.results.is_empty() {
        return Err(place
            .field("parts")
            .refuse("must not have calls of functions or their results"));
    }
    lost.append(&mut inside.said.others);
    let mut content = Vec::new();
    let text = response.map(words).filter(|text| !text.is_empty());
    content.extend(text.map(Part::text));
    content.append(&mut inside.said.content);
    let name = function
        .filter(|name| !name.is_empty())
        .ok_or_else(|| place.field("name").missing())?;
    Ok(Some(ToolOutcome { id, name, content }))
}

/// Returns the text of a tool's response: of `output` or of `error` if there is nothing else.
fn words(response: Raw<'_>) -> Cow<'_, str> {
    let response = response.0;
    let found = members_of(response).unwrap_or_default();
    match found.as_slice() {
        [(name, value)] if name == "output" => string(value).unwrap_or(Cow::Borrowed(response)),
        [(name, value)] if name == "error" => Cow::Owned(format!(
            "Error: {}",
            string(value).unwrap_or(Cow::Borrowed(value))
        )),
        _ => Cow::Borrowed(response),
    }
}

/// Reads the object of this name, of which only these strings count. It may have an id.
fn texts<'a, const N: usize>(
    value: Value<'_, 'a>,
    of: &str,
    names: [&'static str; N],
    lost: &mut Vec<Name<'a>>,
) -> Result<Option<[Option<Cow<'a, str>>; N]>, ReadFault> {
    value.texts(names, |name, value| match &**name {
        "id" => value.skip(),
        _ => others::field(lost, &format!("parts[].{of}."), name, value),
    })
}
