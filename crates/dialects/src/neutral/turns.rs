//! Turns are a conversation in the form that most providers want: the system's texts apart, then
//! turns of user and assistant that alternate.
//!
//! System and developer messages are gathered from any place. Neighbours of one role become one
//! turn, and messages without content are left out. The results of tools come first in the user's
//! turn, in the order of their calls. Thoughts stand before the call that they led to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::field::Field;
use super::losses::LostFields;
use super::request::{Cache, Call, Message, Part, PartKind, Request, Role, Thought};
use super::target::Kept;

/// A conversation of alternating turns.
#[derive(Debug, Default)]
pub struct Turns<'r, 'a> {
    /// The system's texts, in order.
    pub system: Vec<&'r Part<'a>>,
    /// The turns. The first one may be the assistant's, and there may be none.
    pub turns: Vec<Turn<'r, 'a>>,
}

/// The items of one side until the other side speaks again. A turn is never empty.
#[derive(Debug)]
pub struct Turn<'r, 'a> {
    /// True if the turn is the assistant's, false if it is the user's.
    pub is_assistant: bool,
    /// The content.
    pub items: Vec<Item<'r, 'a>>,
}

/// A piece of a turn.
#[derive(Debug)]
pub enum Item<'r, 'a> {
    /// Text, picture, sound or file.
    Part(&'r Part<'a>),
    /// Assistant: the thoughts before the next item. Each is signed or redacted.
    Thoughts(Thoughts<'r, 'a>),
    /// Assistant: a call, and Google's signature of it, from the caller or from the kept thoughts.
    Call(&'r Call<'a>, Option<Cow<'r, str>>),
    /// User: the result of a call.
    Result(Outcome<'r, 'a>),
}

/// Thoughts, from the caller or from the place where they were kept.
#[derive(Debug)]
pub enum Thoughts<'r, 'a> {
    /// The caller sent them.
    Sent(&'r [Thought<'a>]),
    /// They were kept here.
    Kept(Kept),
}

impl Thoughts<'_, '_> {
    /// Returns the thoughts, in order.
    pub fn all(&self) -> &[Thought<'_>] {
        match self {
            Self::Sent(thoughts) => thoughts,
            Self::Kept(thoughts) => thoughts,
        }
    }
}

/// The result of a call.
#[derive(Debug)]
pub struct Outcome<'r, 'a> {
    /// The call's id.
    pub id: Cow<'r, str>,
    /// The function's name, from the call, else from the message; empty if neither has it.
    pub name: Cow<'r, str>,
    /// The content of the result; may be empty.
    pub parts: &'r [Part<'a>],
    /// The hint that a prompt cache may end here: from the message, else from the last part that
    /// has one.
    pub cache: Option<&'r Cache<'a>>,
}

/// Puts a conversation into turns. The names of participants and the unknown fields of messages are
/// lost.
pub fn group_turns<'r, 'a>(
    request: &'r Request<'a>,
    kept: &dyn Fn(&str) -> Option<Kept>,
    losses: &mut LostFields,
) -> Turns<'r, 'a> {
    let mut draft = Draft::default();
    for (index, message) in request.messages.iter().enumerate() {
        message.note_others(losses);
        let is_result = message.role.is_result();
        losses.add_if(message.name.is_some() && !is_result, Field::ParticipantName);
        losses.add_if(message.cache.is_some() && !is_result, Field::CacheHint);
        match message.role {
            Role::System | Role::Developer => draft.system(message, losses),
            Role::User => draft.add_items(false, message.content.iter().map(Item::Part)),
            Role::Assistant => draft.assistant(index, message, kept, losses),
            Role::Tool | Role::Function => draft.result(message, losses),
        }
    }
    draft.finish()
}

/// The turns of a conversation up to a message.
#[derive(Default)]
struct Draft<'r, 'a> {
    system: Vec<&'r Part<'a>>,
    turns: Vec<OpenTurn<'r, 'a>>,
    calls: HashMap<&'r str, MadeCalls<'r>>,
    count: usize,
}

/// A turn that may still grow.
struct OpenTurn<'r, 'a> {
    is_assistant: bool,
    /// The results, with the numbers of their calls. They are put first only at the end, so that
    /// their indexes do not change until then.
    results: Vec<(usize, Outcome<'r, 'a>)>,
    items: Vec<Item<'r, 'a>>,
}

/// The calls with one id, in the last message that has any. Several calls share an id if a server
/// does not number them.
struct MadeCalls<'r> {
    message: usize,
    /// The number and the function of each call.
    calls: Vec<(usize, &'r str)>,
    /// The number of calls that have a result. `last` is the place of the last such result: its
    /// turn, and its index in that turn's results.
    answered: usize,
    last: (usize, usize),
}

impl<'r, 'a> Draft<'r, 'a> {
    fn system(&mut self, message: &'r Message<'a>, losses: &mut LostFields) {
        for part in &message.content {
            match part.kind {
                PartKind::Text(_) => self.system.push(part),
                PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => {
                    losses.add(Field::SystemMedia)
                }
            }
        }
    }

    fn assistant(
        &mut self,
        index: usize,
        message: &'r Message<'a>,
        kept: &dyn Fn(&str) -> Option<Kept>,
        losses: &mut LostFields,
    ) {
        let mut items = Vec::with_capacity(message.content.len() + message.calls.len() + 1);
        for thoughts in message
            .thoughts
            .chunk_by(|one, other| one.is_whole() == other.is_whole())
        {
            if thoughts.first().is_some_and(Thought::is_whole) {
                items.push(Item::Thoughts(Thoughts::Sent(thoughts)));
            } else {
                losses.add(Field::Thoughts);
            }
        }
        let says_thoughts = !items.is_empty();
        let mut known: HashSet<Cow<'r, str>> = HashSet::new();
        if !message.calls.is_empty() {
            known.extend(
                message
                    .thoughts
                    .iter()
                    .map(|thought| Cow::Borrowed(thought.mark())),
            );
        }
        items.extend(message.content.iter().map(Item::Part));

        let mut remembered = says_thoughts;
        for (call_index, call) in message.calls.iter().enumerate() {
            self.note(index, call);
            let mut signature = call.signature.as_deref().map(Cow::Borrowed);
            if let Some(kept) = kept(&call.id) {
                if signature.is_none() {
                    let of_call = kept.iter().find(|thought| thought.of_call);
                    signature = of_call.and_then(|thought| thought.signature.clone());
                }
                if let Some(thoughts) = new_thoughts(kept, &mut known) {
                    remembered = true;
                    // An answer begins with its thoughts, so the text of the message comes after
                    // them.
                    let item_index = if call_index == 0 && !says_thoughts {
                        0
                    } else {
                        items.len()
                    };
                    items.insert(item_index, Item::Thoughts(Thoughts::Kept(thoughts)));
                }
            }
            remembered |= signature.is_some();
            items.push(Item::Call(call, signature));
        }
        losses.add_if(message.reasoning.is_some() && !remembered, Field::Reasoning);
        self.add_items(true, items);
    }

    /// Notes a call, so that its result can find it.
    fn note(&mut self, message: usize, call: &'r Call<'a>) {
        let made = self.calls.entry(&call.id).or_insert(MadeCalls {
            message,
            calls: Vec::new(),
            answered: 0,
            last: (0, 0),
        });
        if made.message != message {
            // Some servers begin to count again with every answer.
            *made = MadeCalls {
                message,
                calls: Vec::new(),
                answered: 0,
                last: (0, 0),
            };
        }
        made.calls.push((self.count, &call.name));
        self.count += 1;
    }

    fn result(&mut self, message: &'r Message<'a>, losses: &mut LostFields) {
        let id = message.tool_call_id.as_deref().unwrap_or_default();
        let cache = message.cache.as_ref().or_else(|| {
            message
                .content
                .iter()
                .rev()
                .find_map(|part| part.cache.as_ref())
        });
        let made = self.calls.get_mut(id);
        let call = match &made {
            Some(made) => made.calls.get(made.answered).copied(),
            // This result has no call. The provider may judge that. It stands after the results
            // whose calls are known.
            None => Some((usize::MAX, message.name.as_deref().unwrap_or_default())),
        };
        if let Some((number, name)) = call {
            let Some((index, turn)) = open_turn(&mut self.turns, false) else {
                return;
            };
            if let Some(made) = made {
                made.answered += 1;
                made.last = (index, turn.results.len());
            }
            let outcome = Outcome {
                id: Cow::Borrowed(id),
                name: Cow::Borrowed(name),
                parts: &message.content,
                cache,
            };
            turn.results.push((number, outcome));
            return;
        }
        // This is a second result of one call, which providers refuse. The later result counts. It
        // stands in the place of the first one, next to its call.
        losses.add(Field::SecondResult);
        let (turn, result_index) = made.map_or((0, 0), |made| made.last);
        if let Some((_, first)) = self
            .turns
            .get_mut(turn)
            .and_then(|turn| turn.results.get_mut(result_index))
        {
            first.parts = &message.content;
            first.cache = cache;
        }
    }

    /// Adds items to the turn of this side. Begins the turn if there is an item.
    fn add_items(&mut self, is_assistant: bool, items: impl IntoIterator<Item = Item<'r, 'a>>) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some()
            && let Some((_, turn)) = open_turn(&mut self.turns, is_assistant)
        {
            turn.items.extend(items);
        }
    }

    fn finish(self) -> Turns<'r, 'a> {
        let turns = self.turns.into_iter().map(|open| {
            let OpenTurn {
                is_assistant,
                mut results,
                mut items,
            } = open;
            if !results.is_empty() {
                results.sort_by_key(|(number, _)| *number);
                items.splice(
                    ..0,
                    results
                        .into_iter()
                        .map(|(_, outcome)| Item::Result(outcome)),
                );
            }
            Turn {
                is_assistant,
                items,
            }
        });
        Turns {
            system: self.system,
            turns: turns.collect(),
        }
    }
}

impl Thought<'_> {
    /// Returns whether a provider takes the thought back.
    fn is_whole(&self) -> bool {
        self.signature.is_some() || self.redacted.is_some()
    }

    /// Returns the text that distinguishes the thought from others.
    fn mark(&self) -> &str {
        self.redacted
            .as_deref()
            .or(self.signature.as_deref())
            .unwrap_or_default()
    }
}

/// Returns the kept thoughts that this message does not have yet.
fn new_thoughts(kept: Kept, known: &mut HashSet<Cow<'_, str>>) -> Option<Kept> {
    let mut new: Vec<&Thought<'static>> = kept.iter().collect();
    new.retain(|thought| {
        thought.is_whole()
            && !thought.of_call
            && !known.contains(thought.mark())
            && known.insert(Cow::Owned(thought.mark().to_owned()))
    });
    if new.is_empty() {
        return None;
    }
    if new.len() == kept.len() {
        return Some(kept);
    }
    Some(new.into_iter().cloned().collect())
}

/// Returns the last turn, and its index. Begins a new turn if the last one is of the other side.
/// Never returns `None`.
fn open_turn<'t, 'r, 'a>(
    turns: &'t mut Vec<OpenTurn<'r, 'a>>,
    is_assistant: bool,
) -> Option<(usize, &'t mut OpenTurn<'r, 'a>)> {
    if turns
        .last()
        .is_none_or(|turn| turn.is_assistant != is_assistant)
    {
        turns.push(OpenTurn {
            is_assistant,
            results: Vec::new(),
            items: Vec::new(),
        });
    }
    Some(turns.len().saturating_sub(1)).zip(turns.last_mut())
}

#[cfg(test)]
mod tests;
