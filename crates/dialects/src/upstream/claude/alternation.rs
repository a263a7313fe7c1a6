//! A side is everything that comes from one speaker between two changes of speaker. Sides
//! alternate, and the results of a side's calls are in the next side.
//!
//! Every call must have its result in the very next message ([`check_calls_answered`]), and every
//! result must have a call. OpenAI has this rule, too, so a conversation that breaks it is at fault
//! for any target. Turns without content are left out here, and the neighbours of such a turn
//! become one side.

use std::borrow::Cow;

use super::blocks::is_blank_part;
use crate::neutral::answered::check_calls_answered;
use crate::neutral::turns::{Item, Turn};
use crate::neutral::{Field, FieldRefused, Request};
use crate::upstream::shared::names::give_name;
use crate::upstream::shared::unique::Unique;

/// The content of one side: one turn, or several turns with no other turn between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'t, 'r, 'a> {
    /// True if the side is the assistant's.
    pub(crate) is_assistant: bool,
    turns: &'t [&'t Turn<'r, 'a>],
}

impl<'t, 'r, 'a> Side<'t, 'r, 'a> {
    /// Returns the items, with results first. Inside one turn they already come first, but a side
    /// may have several turns.
    pub(crate) fn items(self) -> impl Iterator<Item = &'t Item<'r, 'a>> + Clone {
        let has_several = self.turns.len() > 1;
        let is_ahead = move |item: &&Item<'_, '_>| has_several && matches!(item, Item::Result(_));
        let all = self.turns.iter().flat_map(|turn| &turn.items);
        let ahead = all.clone().filter(is_ahead);
        ahead.chain(all.filter(move |item| !is_ahead(item) && is_writable(item)))
    }

    fn calls(self) -> impl Iterator<Item = &'r str> {
        self.items().filter_map(|item| {
            if let Item::Call(call, _) = item {
                Some(&*call.id)
            } else {
                None
            }
        })
    }

    /// Returns whether the side makes calls.
    pub(crate) fn has_calls(self) -> bool {
        self.calls().next().is_some()
    }

    /// Returns whether the side begins with thoughts.
    pub(crate) fn begins_with_thoughts(self) -> bool {
        matches!(self.items().next(), Some(Item::Thoughts(_)))
    }
}

/// Returns the turns that have content.
pub(crate) fn spoken_turns<'t, 'r, 'a>(turns: &'t [Turn<'r, 'a>]) -> Vec<&'t Turn<'r, 'a>> {
    turns.iter().filter(|turn| has_content(turn)).collect()
}

/// Returns whether a turn has content. Thoughts alone are none.
pub(crate) fn has_content(turn: &Turn<'_, '_>) -> bool {
    let thinks = |item: &Item<'_, '_>| matches!(item, Item::Thoughts(_));
    turn.items
        .iter()
        .any(|item| is_writable(item) && !thinks(item))
}

/// Returns the sides, in the order in which they speak.
pub(crate) fn group_sides<'t, 'r, 'a>(
    spoken: &'t [&'t Turn<'r, 'a>],
) -> impl DoubleEndedIterator<Item = Side<'t, 'r, 'a>> + Clone {
    let same = |one: &&Turn<'_, '_>, other: &&Turn<'_, '_>| one.is_assistant == other.is_assistant;
    spoken.chunk_by(same).map(|turns| Side {
        is_assistant: turns.first().is_some_and(|turn| turn.is_assistant),
        turns,
    })
}

/// Returns the ids of all calls and results in a form that the API takes, in the order in which
/// they are written.
pub(crate) fn valid_ids<'r>(
    request: &'r Request<'_>,
    spoken: &[&Turn<'r, '_>],
) -> Result<Vec<Cow<'r, str>>, FieldRefused> {
    check_calls_answered(request)?;
    let mut unique = Unique::default();
    let mut ids = Vec::new();
    let mut made: Vec<(&str, Cow<'r, str>)> = Vec::new();
    for side in group_sides(spoken) {
        if side.is_assistant {
            made = side
                .calls()
                .map(|id| (id, give_name(&mut unique, id)))
                .collect();
            ids.extend(made.iter().map(|(_, given)| given.clone()));
            continue;
        }
        // Results come in the order of their calls. Results without a call come at the end.
        let mut calls = made.drain(..);
        for item in side.items() {
            let Item::Result(outcome) = item else {
                continue;
            };
            match calls.next() {
                Some((id, given)) if id == outcome.id => ids.push(given),
                Some(_) | None => return refuse_orphan(request, &outcome.id),
            }
        }
    }
    Ok(ids)
}

/// Returns whether the item may be written. The API refuses text of only white space.
fn is_writable(item: &Item<'_, '_>) -> bool {
    match item {
        Item::Part(part) => !is_blank_part(part),
        Item::Thoughts(_) | Item::Call(..) | Item::Result(_) => true,
    }
}

/// Returns whether a text is empty or has only white space.
pub(crate) fn is_blank(text: &str) -> bool {
    !text
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_graphic())
        && text.trim().is_empty()
}

fn refuse_orphan<T>(request: &Request<'_>, id: &str) -> Result<T, FieldRefused> {
    let mut messages = request.messages.iter();
    let index = messages.rposition(|message| {
        message.role.is_result() && message.tool_call_id.as_deref().unwrap_or_default() == id
    });
    Err(FieldRefused::invalid(
        Field::Message(index.unwrap_or_default()),
        "A tool message must answer a tool call of the assistant's message before it. This one answers no such call.",
    ))
}

#[cfg(test)]
mod tests;
