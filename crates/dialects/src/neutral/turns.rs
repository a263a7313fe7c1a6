//! The conversation as most providers want it: the system's words apart, then turns of user and
//! assistant that alternate.
//!
//! System and developer messages are gathered from wherever they stand; neighbours of one role
//! become one turn; what says nothing is left out. The results of tools open the user's turn, in
//! the order of their calls. Thoughts stand in front of the call that they led to.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::field::Field;
use super::losses::LostFields;
use super::request::{Cache, Call, Message, Part, PartKind, Request, Role, Thought};
use super::target::Kept;

/// A conversation of alternating turns.
#[derive(Debug, Default)]
pub struct Turns<'r, 'a> {
    /// What the system says: texts only, in order.
    pub system: Vec<&'r Part<'a>>,
    /// The turns. The first one may be the assistant's, and there may be none.
    pub turns: Vec<Turn<'r, 'a>>,
}

/// What one side says before the other does again; never empty.
#[derive(Debug)]
pub struct Turn<'r, 'a> {
    /// Whose it is: the assistant's, else the user's.
    pub is_assistant: bool,
    /// What it says.
    pub items: Vec<Item<'r, 'a>>,
}

/// A piece of a turn.
#[derive(Debug)]
pub enum Item<'r, 'a> {
    /// Text, picture, sound or file.
    Part(&'r Part<'a>),
    /// Assistant: what it thought before what follows; of signed or redacted thoughts only.
    Thoughts(Thoughts<'r, 'a>),
    /// Assistant: a call. `signature` is Google's, from the caller or as it was kept.
    Call(&'r Call<'a>, Option<Cow<'r, str>>),
    /// User: what a call gave.
    Result(Outcome<'r, 'a>),
}

/// Thoughts, from the caller or as they were kept.
#[derive(Debug)]
pub enum Thoughts<'r, 'a> {
    /// The caller sent them.
    Said(&'r [Thought<'a>]),
    /// They were kept here.
    Kept(Kept),
}

impl Thoughts<'_, '_> {
    /// Each of them, in order.
    pub fn all(&self) -> &[Thought<'_>] {
        match self {
            Self::Said(thoughts) => thoughts,
            Self::Kept(thoughts) => thoughts,
        }
    }
}

/// What a call gave.
#[derive(Debug)]
pub struct Outcome<'r, 'a> {
    /// The call's id.
    pub id: Cow<'r, str>,
    /// The function's name, from the call, else from the message; empty if nobody says it.
    pub name: Cow<'r, str>,
    /// What it gave; may be empty.
    pub parts: &'r [Part<'a>],
    /// A prompt cache may end here: the message says so, or the last part that does.
    pub cache: Option<&'r Cache<'a>>,
}

/// Puts a conversation in turns. Participants' names, and messages' unknown fields, are lost.
pub fn turns<'r, 'a>(
    request: &'r Request<'a>,
    kept: &dyn Fn(&str) -> Option<Kept>,
    losses: &mut LostFields,
) -> Turns<'r, 'a> {
    let mut draft = Draft::default();
    for (index, message) in request.messages.iter().enumerate() {
        for name in &message.others {
            losses.add(Field::OtherOfMessage(name.to_string()));
        }
        let answers = matches!(message.role, Role::Tool | Role::Function);
        losses.add_if(message.name.is_some() && !answers, Field::ParticipantName);
        losses.add_if(message.cache.is_some() && !answers, Field::CacheHint);
        match message.role {
            Role::System | Role::Developer => draft.system(message, losses),
            Role::User => draft.say(false, message.content.iter().map(Item::Part)),
            Role::Assistant => draft.assistant(index, message, kept, losses),
            Role::Tool | Role::Function => draft.result(message, losses),
        }
    }
    draft.finish()
}

/// What is known of a conversation up to a message.
#[derive(Default)]
struct Draft<'r, 'a> {
    system: Vec<&'r Part<'a>>,
    turns: Vec<OpenTurn<'r, 'a>>,
    calls: HashMap<&'r str, Made<'r>>,
    count: usize,
}

/// A turn that may still grow.
struct OpenTurn<'r, 'a> {
    is_assistant: bool,
    /// By the number of their calls. They only come in front at the end, so that their places stay.
    results: Vec<(usize, Outcome<'r, 'a>)>,
    items: Vec<Item<'r, 'a>>,
}

/// The calls of one id in the last message that has any. Several share one where a server does not
/// number them.
struct Made<'r> {
    message: usize,
    /// Number and function of each.
    calls: Vec<(usize, &'r str)>,
    /// How many have a result, and where the last of those stands: turn, and result therein.
    answered: usize,
    last: (usize, usize),
}

impl<'r, 'a> Draft<'r, 'a> {
    fn system(&mut self, message: &'r Message<'a>, losses: &mut LostFields) {
        for part in &message.content {
            match part.kind {
                PartKind::Text(_) => self.system.push(part),
                PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => losses.add(Field::SystemMedia),
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
        for thoughts in message.thoughts.chunk_by(|one, other| one.is_whole() == other.is_whole()) {
            if thoughts.first().is_some_and(Thought::is_whole) {
                items.push(Item::Thoughts(Thoughts::Said(thoughts)));
            } else {
                losses.add(Field::Thoughts);
            }
        }
        let says_thoughts = !items.is_empty();
        let mut known: HashSet<Cow<'r, str>> = HashSet::new();
        if !message.calls.is_empty() {
            known.extend(message.thoughts.iter().map(|thought| Cow::Borrowed(thought.mark())));
        }
        items.extend(message.content.iter().map(Item::Part));

        let mut remembered = says_thoughts;
        for (place, call) in message.calls.iter().enumerate() {
            self.note(index, call);
            let mut signature = call.signature.as_deref().map(Cow::Borrowed);
            if let Some(kept) = kept(&call.id) {
                if signature.is_none() {
                    let of_call = kept.iter().find(|thought| thought.of_call);
                    signature = of_call.and_then(|thought| thought.signature.clone());
                }
                if let Some(thoughts) = news(kept, &mut known) {
                    remembered = true;
                    // An answer begins with its thoughts: what it said comes after them.
                    let at = if place == 0 && !says_thoughts { 0 } else { items.len() };
                    items.insert(at, Item::Thoughts(Thoughts::Kept(thoughts)));
                }
            }
            remembered |= signature.is_some();
            items.push(Item::Call(call, signature));
        }
        losses.add_if(message.reasoning.is_some() && !remembered, Field::Reasoning);
        self.say(true, items);
    }

    /// Notes a call, so that its result finds it.
    fn note(&mut self, message: usize, call: &'r Call<'a>) {
        let made = self.calls.entry(&call.id).or_insert(Made { message, calls: Vec::new(), answered: 0, last: (0, 0) });
        if made.message != message {
            // Some servers begin to count anew with every answer.
            *made = Made { message, calls: Vec::new(), answered: 0, last: (0, 0) };
        }
        made.calls.push((self.count, &call.name));
        self.count += 1;
    }

    fn result(&mut self, message: &'r Message<'a>, losses: &mut LostFields) {
        let id = message.tool_call_id.as_deref().unwrap_or_default();
        let cache =
            message.cache.as_ref().or_else(|| message.content.iter().rev().find_map(|part| part.cache.as_ref()));
        let made = self.calls.get_mut(id);
        let call = match &made {
            Some(made) => made.calls.get(made.answered).copied(),
            // The provider may judge. It stands behind those whose calls are known.
            None => Some((usize::MAX, message.name.as_deref().unwrap_or_default())),
        };
        if let Some((number, name)) = call {
            let Some((index, turn)) = open(&mut self.turns, false) else { return };
            if let Some(made) = made {
                made.answered += 1;
                made.last = (index, turn.results.len());
            }
            let outcome = Outcome { id: Cow::Borrowed(id), name: Cow::Borrowed(name), parts: &message.content, cache };
            turn.results.push((number, outcome));
            return;
        }
        // A second result of one call, which providers refuse: the later one counts, where the
        // first one stood, beside its call.
        losses.add(Field::SecondResult);
        let (turn, place) = made.map_or((0, 0), |made| made.last);
        if let Some((_, first)) = self.turns.get_mut(turn).and_then(|turn| turn.results.get_mut(place)) {
            first.parts = &message.content;
            first.cache = cache;
        }
    }

    /// Adds to the turn of this side; begins it if there is something to add.
    fn say(&mut self, is_assistant: bool, items: impl IntoIterator<Item = Item<'r, 'a>>) {
        let mut items = items.into_iter().peekable();
        if items.peek().is_some()
            && let Some((_, turn)) = open(&mut self.turns, is_assistant)
        {
            turn.items.extend(items);
        }
    }

    fn finish(self) -> Turns<'r, 'a> {
        let turns = self.turns.into_iter().map(|open| {
            let OpenTurn { is_assistant, mut results, mut items } = open;
            if !results.is_empty() {
                results.sort_by_key(|(number, _)| *number);
                items.splice(..0, results.into_iter().map(|(_, outcome)| Item::Result(outcome)));
            }
            Turn { is_assistant, items }
        });
        Turns { system: self.system, turns: turns.collect() }
    }
}

impl Thought<'_> {
    /// Whether a provider takes it back.
    fn is_whole(&self) -> bool {
        self.signature.is_some() || self.redacted.is_some()
    }

    /// What tells it from others.
    fn mark(&self) -> &str {
        self.redacted.as_deref().or(self.signature.as_deref()).unwrap_or_default()
    }
}

/// Of what was kept, the thoughts that this message does not have yet.
fn news(kept: Kept, known: &mut HashSet<Cow<'_, str>>) -> Option<Kept> {
    let mut is_new = |thought: &&Thought<'static>| {
        thought.is_whole()
            && !thought.of_call
            && !known.contains(thought.mark())
            && known.insert(Cow::Owned(thought.mark().to_owned()))
    };
    let new: Vec<&Thought<'static>> = kept.iter().filter(&mut is_new).collect();
    if new.is_empty() {
        return None;
    }
    if new.len() == kept.len() {
        return Some(kept);
    }
    Some(new.into_iter().cloned().collect())
}

/// The last turn, and its index: of this side, begun now if it must be. Never `None`.
fn open<'t, 'r, 'a>(
    turns: &'t mut Vec<OpenTurn<'r, 'a>>,
    is_assistant: bool,
) -> Option<(usize, &'t mut OpenTurn<'r, 'a>)> {
    if turns.last().is_none_or(|turn| turn.is_assistant != is_assistant) {
        turns.push(OpenTurn { is_assistant, results: Vec::new(), items: Vec::new() });
    }
    Some(turns.len().saturating_sub(1)).zip(turns.last_mut())
}

#[cfg(test)]
mod tests;
