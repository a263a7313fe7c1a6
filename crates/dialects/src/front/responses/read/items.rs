//! The items of a conversation → messages. Items of the assistant that follow each other are one
//! turn, and become one message; each output of a call is a message of its own.

use std::borrow::Cow;

use super::parts::Parts;
use super::tools::{CallableTools, SEARCH, name_in};
use crate::front::reading::value::{Name, Place, ReadFault, ReadResult, Value};
use crate::front::reading::{choice, others};
use crate::neutral::seal::is_sealed;
use crate::neutral::{Call, Message, Part, Raw, Role, Thought};
use crate::wire::json::{Kind, Writer};

/// The most messages between a call and its result.
const MOST_LATER: usize = 32;

/// The conversation so far.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) messages: Vec<Message<'a>>,
    /// The tools that the conversation shows.
    pub(super) tools: CallableTools<'a>,
    /// The items that are lost, by their paths without indexes.
    pub(super) others: Vec<(Name<'a>, Raw<'a>)>,
}

/// The members of an item of any type. Its type may come last.
#[derive(Default)]
struct Item<'a> {
    kind: Option<Cow<'a, str>>,
    has_id: bool,
    role: Option<Cow<'a, str>>,
    content: Parts<'a>,
    call_id: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    namespace: Option<Cow<'a, str>>,
    /// A text, or an object as it is written.
    arguments: Option<Cow<'a, str>>,
    input: Option<Cow<'a, str>>,
    output: Option<(Parts<'a>, Option<Raw<'a>>)>,
    action: Option<Raw<'a>>,
    /// The text that was sealed for the caller, or that its provider encrypted.
    encrypted: Option<Cow<'a, str>>,
    /// The names of the tools that the item shows.
    shown: Vec<String>,
    /// Why the item's tools are none.
    no_tools: Option<ReadFault>,
    others: Vec<Name<'a>>,
}

impl<'a> Items<'a> {
    /// Reads an item, and adds it to the conversation.
    pub(super) fn read_item(&mut self, index: usize, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut item = Item::default();
        value.non_null_object(|name, value| item.read_field(name, value, &mut self.tools))?;
        let kind = match item.kind.take() {
            Some(kind) => kind,
            None if item.role.is_some() => Cow::Borrowed("message"),
            None if item.has_id => Cow::Borrowed("item_reference"),
            None => return Err(place.field("type").missing()),
        };
        if let ("additional_tools" | "tool_search_output", Some(why)) =
            (&*kind, item.no_tools.take())
        {
            return Err(why);
        }
        match &*kind {
            "message" => self.add_message(item, index, place),
            "function_call" => {
                let arguments = item.arguments.take();
                let arguments = place.require("arguments", arguments)?;
                self.add_call(item, arguments, index, place)
            }
            "custom_tool_call" => {
                let input = item.input.take();
                let input = place.require("input", input)?;
                let mut w = Writer::with_capacity(input.len() + 16);
                w.object(|w| w.texts([("input", &input)]));
                let arguments = String::from_utf8(w.into_bytes()).unwrap_or_default();
                self.add_call(item, arguments.into(), index, place)
            }
            // Calls that a server executed have no id.
            "tool_search_call" | "tool_search_output" if item.call_id.is_none() => {
                self.note_loss(&kind);
                Ok(())
            }
            "tool_search_call" => {
                let arguments = item.arguments.take().unwrap_or(Cow::Borrowed("{}"));
                item.name = Some(Cow::Borrowed(SEARCH));
                self.add_call(item, arguments, index, place)
            }
            "tool_search_output" => {
                let names = item.shown.join(", ");
                let text = match names.is_empty() {
                    true => "No tool was found.".to_owned(),
                    false => format!("These tools can be called now: {names}"),
                };
                self.add_result(item, vec![Part::text(text)], index, place)
            }
            "function_call_output" | "custom_tool_call_output" => {
                let output = item.output.take();
                let (parts, _) = place.require("output", output)?;
                if let Some(why) = parts.refused {
                    return Err(why);
                }
                item.others.extend(parts.others);
                self.add_result(item, parts.list, index, place)
            }
            "local_shell_call" | "shell_call" | "apply_patch_call" => {
                let name = kind.strip_suffix("_call").unwrap_or(&kind).to_owned();
                item.name = Some(name.into());
                let arguments = Cow::Borrowed(item.action.map_or("{}", |Raw(action)| action));
                self.add_call(item, arguments, index, place)
            }
            "local_shell_call_output" | "shell_call_output" | "apply_patch_call_output" => {
                let (parts, raw) = item.output.take().unwrap_or_default();
                let list = match raw {
                    Some(Raw(output)) => vec![Part::text(output)],
                    None => parts.list,
                };
                self.add_result(item, list, index, place)
            }
            // The tools of the item are read.
            "additional_tools" => {
                item.others.iter().for_each(|name| self.note_loss(name));
                Ok(())
            }
            "item_reference" => Err(place.refuse(
                "refers to an item that is not in the request: send the item itself (programs do so if `store` is \
                 false)",
            )),
            "compaction" | "compaction_trigger" => Err(place.unsupported(
                "only OpenAI's own servers can make and read a compaction; let the client summarize by an ordinary \
                 request",
            )),
            "reasoning" if item.encrypted.as_deref().is_some_and(is_sealed) => {
                let thought = Thought { redacted: item.encrypted.take(), ..Thought::default() };
                self.extend_turn(index, item.others.into_iter(), |turn| turn.thoughts.push(thought));
                Ok(())
            }
            "reasoning"
            | "configuration_update"
            | "web_search_call"
            | "file_search_call"
            | "code_interpreter_call"
            | "image_generation_call"
            | "computer_call"
            | "computer_call_output"
            | "program"
            | "program_output" => {
                self.note_loss(&kind);
                Ok(())
            }
            _ if kind.starts_with("mcp_") => {
                self.note_loss(&kind);
                Ok(())
            }
            _ => Err(choice::refuse_foreign_item(place, &kind)),
        }
    }

    fn add_message(&mut self, item: Item<'a>, index: usize, place: Place<'_>) -> ReadResult<()> {
        let role = match &*place.require("role", item.role)? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            "developer" => Role::Developer,
            _ => {
                let why = "must be one of `user`, `assistant`, `system` and `developer`";
                return Err(place.field("role").refuse(why));
            }
        };
        let Parts {
            mut list,
            others,
            refused,
            ..
        } = item.content;
        if let Some(why) = refused {
            return Err(why);
        }
        if role == Role::Assistant {
            self.extend_turn(index, item.others.into_iter().chain(others), |turn| {
                turn.content.append(&mut list)
            });
            return Ok(());
        }
        let mut message = Message {
            caller_index: Some(index),
            role,
            content: list,
            ..Message::default()
        };
        note_losses(&mut message, item.others.into_iter().chain(others));
        self.messages.push(message);
        Ok(())
    }

    fn add_call(
        &mut self,
        item: Item<'a>,
        arguments: Cow<'a, str>,
        index: usize,
        place: Place<'_>,
    ) -> ReadResult<()> {
        let id = place.require_text("call_id", item.call_id)?;
        let name = place.require_text("name", item.name)?;
        let name = name_in(item.namespace.as_deref(), name);
        let call = Call {
            id,
            name,
            arguments,
            ..Call::default()
        };
        self.extend_turn(index, item.others.into_iter(), |turn| turn.calls.push(call));
        Ok(())
    }

    fn add_result(
        &mut self,
        item: Item<'a>,
        content: Vec<Part<'a>>,
        index: usize,
        place: Place<'_>,
    ) -> ReadResult<()> {
        let id = place.require_text("call_id", item.call_id)?;
        let mut message = Message {
            caller_index: Some(index),
            role: Role::Tool,
            tool_call_id: Some(id),
            content,
            ..Message::default()
        };
        note_losses(&mut message, item.others.into_iter());
        // Providers want a call's result before any other message that followed the call.
        let later = self
            .messages
            .iter()
            .rev()
            .take(MOST_LATER)
            .position(|earlier| earlier.role == Role::Tool || !earlier.calls.is_empty())
            .unwrap_or(0);
        self.messages.insert(self.messages.len() - later, message);
        Ok(())
    }

    /// Adds to the assistant's turn that goes on, or begins a turn.
    fn extend_turn(
        &mut self,
        index: usize,
        others: impl Iterator<Item = Name<'a>>,
        add: impl FnOnce(&mut Message<'a>),
    ) {
        if self
            .messages
            .last()
            .is_none_or(|last| last.role != Role::Assistant)
        {
            self.messages.push(Message {
                caller_index: Some(index),
                role: Role::Assistant,
                ..Message::default()
            });
        }
        if let Some(turn) = self.messages.last_mut() {
            add(turn);
            note_losses(turn, others);
        }
    }

    fn note_loss(&mut self, kind: &str) {
        others::note_value(&mut self.others, format!("input[].{kind}"), Raw("true"));
    }
}

fn note_losses<'a>(message: &mut Message<'a>, names: impl Iterator<Item = Name<'a>>) {
    names.for_each(|name| others::note_name(&mut message.others, "", &name));
}

impl<'a> Item<'a> {
    fn read_field(
        &mut self,
        name: &Name<'a>,
        mut value: Value<'_, 'a>,
        tools: &mut CallableTools<'a>,
    ) -> ReadResult<()> {
        match &**name {
            "type" => self.kind = value.text()?,
            "role" => self.role = value.text()?,
            "content" => self.content.read(value)?,
            "call_id" => self.call_id = value.text()?,
            "name" => self.name = value.text()?,
            "namespace" => self.namespace = value.text()?,
            "arguments" if value.kind()? == Kind::Object => {
                self.arguments = Some(Cow::Borrowed(value.raw()?.0))
            }
            "arguments" => self.arguments = value.text()?,
            "input" => self.input = value.text()?,
            "output" => {
                let raw = if value.kind()? == Kind::String {
                    None
                } else {
                    Some(value.peek_raw()?)
                };
                let mut parts = Parts {
                    is_output: true,
                    ..Parts::default()
                };
                parts.read(value)?;
                self.output = Some((parts, raw));
            }
            "action" | "operation" => self.action = value.raw_object()?,
            "tools" => value.array(|_, value| {
                match tools.read_shown(value)? {
                    Ok(mut names) => self.shown.append(&mut names),
                    Err(why) => drop(self.no_tools.get_or_insert(why)),
                }
                Ok(())
            })?,
            // No item is looked up by its id.
            "id" => self.has_id = value.read_is_filled()?,
            // It is clear from an item itself whether it is complete. The other members belong to
            // types that are dropped.
            "status" | "execution" | "summary" | "queries" | "results" => value.skip()?,
            "encrypted_content" => self.encrypted = value.text_if_string()?.0,
            _ => value.note_lost(&mut self.others, "", name)?,
        }
        Ok(())
    }
}
