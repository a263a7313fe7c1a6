//! A conversation in the form that Claude takes: the system's texts, and sides that alternate.
//!
//! The first side is the user's, no text is blank, and every result answers a call of the side
//! before it. Anthropic and Bedrock write the same blocks in the same order. The form of a block
//! differs ([`BlockWriter`]).

use std::borrow::Cow;

use super::alternation::{self, Side};
use super::blocks::is_blank_part;
use super::thinking::Thinking;
use crate::neutral::traits::Traits;
use crate::neutral::turns::{Item, Outcome, Thoughts, Turn, Turns};
use crate::neutral::{Call, Field, FieldRefused, LostFields, Part, Request, Role, Thought};
use crate::wire::json::Writer;

/// A conversation that can be written.
#[derive(Debug)]
pub(crate) struct Conversation<'t, 'r, 'a> {
    /// The system's texts. If there are no other messages, the user's message has them.
    system: Vec<&'r Part<'a>>,
    turns: &'t [Turn<'r, 'a>],
    /// The turns that have content.
    spoken: Vec<&'t Turn<'r, 'a>>,
    /// The ids of all calls and results, in the order in which they are written.
    ids: Vec<Cow<'r, str>>,
    /// True if thoughts are sent back.
    pub(crate) sends_thoughts: bool,
}

/// Writes blocks in the form of one API.
pub(crate) trait BlockWriter {
    /// Writes a text that is not the caller's.
    fn text(&mut self, w: &mut Writer, text: &str);
    /// Writes a text or a medium. The conversation must not end with white space.
    fn part(&mut self, w: &mut Writer, part: &Part<'_>, is_end: bool);
    /// Writes a thought.
    fn thought(&mut self, w: &mut Writer, thought: &Thought<'_>);
    /// Writes a call with this id.
    fn call(&mut self, w: &mut Writer, id: &str, call: &Call<'_>);
    /// Writes the result of a call.
    fn result(&mut self, w: &mut Writer, id: &str, outcome: &Outcome<'_, '_>);
    /// Adds the parts that a side lacks.
    fn end(&mut self, _w: &mut Writer, _side: Side<'_, '_, '_>) {}
}

impl<'t, 'r, 'a> Conversation<'t, 'r, 'a> {
    /// Reads the turns. Refuses, with the sentence `refusal`, a conversation without any content.
    pub(crate) fn read(
        request: &'r Request<'a>,
        turns: &'t Turns<'r, 'a>,
        traits: &Traits,
        refusal: &str,
        losses: &mut LostFields,
    ) -> Result<Self, FieldRefused> {
        let spoken = alternation::spoken_turns(&turns.turns);
        let is_said = |item: &Item<'_, '_>| matches!(item, Item::Thoughts(Thoughts::Sent(_)));
        let mut silent = turns
            .turns
            .iter()
            .filter(|turn| !alternation::has_content(turn));
        losses.add_if(
            silent.any(|turn| turn.items.iter().any(is_said)),
            Field::Thoughts,
        );
        let ids = alternation::valid_ids(request, &spoken)?;
        let system: Vec<_> = turns
            .system
            .iter()
            .copied()
            .filter(|part| !is_blank_part(part))
            .collect();
        if spoken.is_empty() {
            if system.is_empty() {
                return Err(FieldRefused::unsupported(Field::Messages, refusal));
            }
            losses.add(Field::SystemRole);
        }
        let conversation = Self {
            system,
            turns: &turns.turns,
            spoken,
            ids,
            sends_thoughts: false,
        };
        if conversation.is_prefilled() && !traits.prefill {
            let last = request
                .messages
                .iter()
                .rposition(|message| message.role == Role::Assistant)
                .unwrap_or_default();
            return Err(FieldRefused::unsupported(
                Field::Message(last),
                "This model does not continue an assistant message: the last message must be the user's.",
            ));
        }
        Ok(conversation)
    }

    fn sides(&self) -> impl DoubleEndedIterator<Item = Side<'_, 'r, 'a>> + Clone {
        alternation::group_sides(&self.spoken)
    }

    /// Returns whether the conversation ends with the assistant's words.
    pub(crate) fn is_prefilled(&self) -> bool {
        self.spoken.last().is_some_and(|turn| turn.is_assistant)
    }

    /// Returns whether the conversation has calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.sides().any(Side::has_calls)
    }

    /// Returns whether the conversation has thoughts.
    pub(crate) fn has_thoughts(&self) -> bool {
        self.thoughts().next().is_some()
    }

    /// Returns whether the caller sent thoughts.
    pub(crate) fn has_callers_thoughts(&self) -> bool {
        self.thoughts()
            .any(|thoughts| matches!(thoughts, Thoughts::Sent(_)))
    }

    fn thoughts(&self) -> impl Iterator<Item = &'t Thoughts<'r, 'a>> {
        let items = self.turns.iter().flat_map(|turn| &turn.items);
        items.filter_map(|item| {
            if let Item::Thoughts(thoughts) = item {
                Some(thoughts)
            } else {
                None
            }
        })
    }

    /// Leaves thinking out if the API needs thoughts that the conversation does not have.
    pub(crate) fn check_thoughts(&self, thinking: &mut Thinking<'_>, losses: &mut LostFields) {
        let calling = || self.sides().rfind(|side| side.has_calls());
        if thinking.needs_thoughts()
            && (self.is_prefilled() || calling().is_some_and(|side| !side.begins_with_thoughts()))
        {
            thinking.leave_out(losses);
        }
    }

    /// Counts the cache hints.
    pub(crate) fn cache_hints(&self) -> usize {
        let system = self.system.iter().filter(|part| part.cache.is_some());
        let items = self.sides().flat_map(Side::items);
        let items = items.filter(|item| match item {
            Item::Part(part) => part.cache.is_some(),
            Item::Result(outcome) => outcome.cache.is_some(),
            Item::Thoughts(_) | Item::Call(..) => false,
        });
        system.count() + items.count()
    }

    /// Writes `system` and `messages`. `hint` becomes the last text of the system.
    pub(crate) fn write(&self, w: &mut Writer, hint: Option<&str>, blocks: &mut impl BlockWriter) {
        let is_only_system = self.spoken.is_empty();
        let system: &[_] = if is_only_system { &[] } else { &self.system };
        if !system.is_empty() || hint.is_some() {
            w.key("system").array(|w| {
                system.iter().for_each(|part| blocks.part(w, part, false));
                if let Some(hint) = hint {
                    blocks.text(w, hint);
                }
            });
        }
        w.key("messages").array(|w| {
            if is_only_system {
                write_message(w, "user", |w| {
                    self.system
                        .iter()
                        .for_each(|part| blocks.part(w, part, false))
                });
            }
            if self.spoken.first().is_some_and(|turn| turn.is_assistant) {
                write_message(w, "user", |w| blocks.text(w, "."));
            }
            let mut ids = self.ids.iter().map(AsRef::as_ref);
            let mut sides = self.sides().peekable();
            while let Some(side) = sides.next() {
                let is_last = sides.peek().is_none();
                let role = if side.is_assistant {
                    "assistant"
                } else {
                    "user"
                };
                write_message(w, role, |w| {
                    let mut items = side.items().peekable();
                    while let Some(item) = items.next() {
                        let is_end = side.is_assistant && is_last && items.peek().is_none();
                        match item {
                            Item::Part(part) => blocks.part(w, part, is_end),
                            Item::Thoughts(thoughts) if self.sends_thoughts => {
                                thoughts
                                    .all()
                                    .iter()
                                    .for_each(|thought| blocks.thought(w, thought));
                            }
                            Item::Thoughts(_) => {}
                            Item::Call(call, _) => {
                                blocks.call(w, ids.next().unwrap_or_default(), call)
                            }
                            Item::Result(outcome) => {
                                blocks.result(w, ids.next().unwrap_or_default(), outcome)
                            }
                        }
                    }
                    blocks.end(w, side);
                });
            }
        });
    }
}

fn write_message(w: &mut Writer, role: &str, content: impl FnOnce(&mut Writer)) {
    w.object(|w| {
        w.key("role").text(role);
        w.key("content").array(content);
    });
}
