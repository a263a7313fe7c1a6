//! This module writes the conversation as `systemInstruction` and `contents`.

use super::Service;
use super::media::{self, Carried};
use super::models::Model;
use super::names::FunctionNames;
use crate::neutral::turns::{Item, Outcome, Thoughts, Turn, Turns};
use crate::neutral::{
    Call, Field, FieldRefused, LostFields, NO_SIGNATURE, Part, PartKind, Request, Target,
};
use crate::upstream::shared::text::joined_text;
use crate::wire::json::{Cursor, Kind, Writer};

/// The writer of one conversation.
pub(super) struct Contents<'c, 'r, 'a, 't> {
    pub request: &'r Request<'a>,
    pub target: &'c Target<'t>,
    pub service: Service,
    pub names: &'c FunctionNames<'c>,
    pub losses: &'c mut LostFields,
    /// The refusal of the first part that cannot be written.
    pub refused: Option<FieldRefused>,
}

impl<'r, 'a> Contents<'_, 'r, 'a, '_> {
    /// Writes both members. If only the system has texts, they become the user's, because there
    /// must be a content.
    pub(super) fn write(&mut self, turns: &Turns<'r, 'a>, w: &mut Writer) {
        let model = Model::read(self.target.model);
        let hears_system = model.hears_system() && !turns.turns.is_empty();
        if !turns.system.is_empty() && hears_system {
            w.key("systemInstruction")
                .object(|w| w.key("parts").array(|w| self.system(turns, w)));
        }
        let current = current_turn(&turns.turns);
        let starts_with_user = turns.turns.first().is_some_and(|turn| !turn.is_assistant);
        w.key("contents").array(|w| {
            let mut system_left = !turns.system.is_empty() && !hears_system;
            self.losses.add_if(system_left, Field::SystemRole);
            if system_left && !starts_with_user {
                system_left = false;
                self.content("user", w, |this, w| this.system(turns, w));
            }
            for (index, turn) in turns.turns.iter().enumerate() {
                let role = if turn.is_assistant { "model" } else { "user" };
                // Since the third generation the calls of the current turn must be signed.
                let mut unsigned = index >= current && model.is_gemini_since(3, 0);
                self.content(role, w, |this, w| {
                    if std::mem::take(&mut system_left) {
                        this.system(turns, w);
                    }
                    turn.items
                        .iter()
                        .for_each(|item| this.item(item, &mut unsigned, w));
                });
            }
        });
    }

    fn content(&mut self, role: &str, w: &mut Writer, parts: impl FnOnce(&mut Self, &mut Writer)) {
        w.object(|w| {
            w.key("role").text(role);
            w.key("parts").array(|w| parts(self, w));
        });
    }

    fn system(&mut self, turns: &Turns<'r, 'a>, w: &mut Writer) {
        turns.system.iter().for_each(|part| self.part(part, w));
    }

    /// Writes an item. `unsigned` is true if the turn's first call is still to come, and must have
    /// a signature.
    fn item(&mut self, item: &Item<'r, 'a>, unsigned: &mut bool, w: &mut Writer) {
        match item {
            Item::Part(part) => self.part(part, w),
            // `prune` removed all thoughts.
            Item::Thoughts(_) => {}
            Item::Call(call, signature) => {
                let signature = signature.as_deref().or(unsigned.then_some(NO_SIGNATURE));
                *unsigned = false;
                self.call(call, signature, w);
            }
            Item::Result(outcome) => self.result(outcome, w),
        }
    }

    fn part(&mut self, part: &Part<'a>, w: &mut Writer) {
        self.losses.add_if(part.cache.is_some(), Field::CacheHint);
        if let PartKind::Text(text) = &part.kind {
            w.object(|w| text.write(w.key("text")));
        } else if let Some(carried) = self.carried(part) {
            w.object(|w| write_carried(&carried, w));
        }
    }

    fn carried<'p>(&mut self, part: &'p Part<'a>) -> Option<Carried<'p>> {
        match media::carry_part(&part.kind, self.target, self.service, self.losses) {
            Ok(carried) => Some(carried),
            Err(why) => {
                self.refused
                    .get_or_insert_with(|| media::part_refused(self.request, part, why));
                None
            }
        }
    }

    fn call(&mut self, call: &Call<'a>, signature: Option<&str>, w: &mut Writer) {
        w.object(|w| {
            w.key("functionCall").object(|w| {
                w.optional(
                    "id",
                    Some(&*call.id).filter(|id| is_theirs(id)),
                    Writer::text,
                );
                w.key("name").text(&self.names.theirs(&call.name));
                w.key("args");
                self.losses
                    .add_if(write_arguments(call, w), call.weakened());
            });
            w.optional("thoughtSignature", signature, Writer::text);
        });
    }

    fn result(&mut self, outcome: &Outcome<'r, 'a>, w: &mut Writer) {
        if outcome.name.is_empty() {
            self.refused
                .get_or_insert_with(|| orphan_refused(self.request, &outcome.id));
        }
        self.losses
            .add_if(outcome.cache.is_some(), Field::CacheHint);
        let mut media = Vec::new();
        for part in outcome
            .parts
            .iter()
            .filter(|part| !matches!(part.kind, PartKind::Text(_)))
        {
            media.extend(self.carried(part));
        }
        // Since the third generation a result may have media inside.
        let holds_media = !media.is_empty() && Model::read(self.target.model).is_gemini_since(3, 0);
        w.object(|w| {
            w.key("functionResponse").object(|w| {
                w.optional(
                    "id",
                    Some(&*outcome.id).filter(|id| is_theirs(id)),
                    Writer::text,
                );
                w.key("name").text(&self.names.theirs(&outcome.name));
                w.key("response");
                write_response(outcome.parts, w);
                if holds_media {
                    w.key("parts").array(|w| {
                        media
                            .iter()
                            .for_each(|carried| w.object(|w| write_carried(carried, w)))
                    });
                }
            });
        });
        if !holds_media {
            media
                .iter()
                .for_each(|carried| w.object(|w| write_carried(carried, w)));
        }
    }
}

/// Returns the start of the current turn, whose calls must be signed. It starts at the last turn of
/// the user's that has no tool's result. A turn with text next to a tool's result does not start a
/// new one, so no signature is missing, in whatever way Google counts.
fn current_turn(turns: &[Turn<'_, '_>]) -> usize {
    let is_result = |item: &Item<'_, '_>| matches!(item, Item::Result(_));
    turns
        .iter()
        .rposition(|turn| !turn.is_assistant && !turn.items.iter().any(is_result))
        .unwrap_or_default()
}

/// Removes the thoughts, and the turns that had nothing else. Google signs calls. Other signed
/// thoughts are another provider's.
pub(super) fn remove_thoughts(turns: &mut Turns<'_, '_>, losses: &mut LostFields) {
    for turn in &mut turns.turns {
        turn.items.retain(|item| match item {
            Item::Thoughts(Thoughts::Sent(_)) => {
                losses.add(Field::Thoughts);
                false
            }
            Item::Thoughts(Thoughts::Kept(_)) => false,
            Item::Part(_) | Item::Call(..) | Item::Result(_) => true,
        });
    }
    turns.turns.retain(|turn| !turn.items.is_empty());
}

/// Returns whether an id looks like one of Google's. Ids of other providers and of this gateway
/// (`call_…`) are not sent. Google's older models match calls and results by name and order, and
/// know no ids.
fn is_theirs(id: &str) -> bool {
    const OTHERS: [&str; 6] = [
        "call",
        "toolu_",
        "tooluse_",
        "fc_",
        "chatcmpl-",
        "functions.",
    ];
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    // Mistral's ids have nine characters.
    let is_nine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    !id.is_empty()
        && id.len() <= 64
        && id.bytes().all(is_plain)
        && !is_nine
        && !OTHERS.iter().any(|start| id.starts_with(start))
}

/// Writes arguments: an object as it is, and anything else inside an object. Returns whether that
/// weakens the call.
fn write_arguments(call: &Call<'_>, w: &mut Writer) -> bool {
    if let Some(object) = call.object() {
        w.raw(object);
        return false;
    }
    w.object(|w| match kind_of(call.arguments.trim_ascii()) {
        _ if call.is_custom => w.key("input").text(&call.arguments),
        Some(_) => w.key("value").raw(call.arguments.trim_ascii()),
        None => w.key("value").text(&call.arguments),
    });
    true
}

/// Writes a call's result: an object as it is, and any other text as its `output`.
fn write_response(parts: &[Part<'_>], w: &mut Writer) {
    let text = joined_text(parts);
    if kind_of(text.trim_ascii()) == Some(Kind::Object) {
        w.raw(text.trim_ascii());
    } else {
        w.object(|w| w.key("output").text(&text));
    }
}

/// Returns the kind of a JSON text, or `None` if the text is no JSON.
fn kind_of(text: &str) -> Option<Kind> {
    let mut cursor = Cursor::new(text.as_bytes());
    let kind = cursor.kind().ok()?;
    cursor.value().ok()?;
    cursor.end().ok()?;
    Some(kind)
}

fn write_carried(carried: &Carried<'_>, w: &mut Writer) {
    match carried {
        Carried::Inline(kind, data) => {
            w.key("inlineData")
                .object(|w| w.texts([("mimeType", kind), ("data", data)]));
        }
        Carried::FromUrl(kind, url) => w.key("fileData").object(|w| {
            w.optional("mimeType", *kind, Writer::text);
            w.key("fileUri").text(url);
        }),
    }
}

/// Returns the refusal of a result that belongs to no call.
fn orphan_refused(request: &Request<'_>, id: &str) -> FieldRefused {
    let message_index = request
        .messages
        .iter()
        .position(|message| message.tool_call_id.as_deref() == Some(id));
    let param = message_index.map_or(Field::Messages, Field::CallId);
    FieldRefused::invalid(
        param,
        "A tool message must answer a tool call of the assistant's message before it, with the same id.",
    )
}

#[cfg(test)]
mod tests;
