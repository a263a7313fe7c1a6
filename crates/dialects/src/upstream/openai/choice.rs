//! This module has the state of one choice. It decides what the next chunk of the
//! choice must still show, and what it must not show again.

use super::calls::{self, Calls};
use super::finish::{self, Finish};
use super::scan::{LISTS, MAX_CHOICES, ScannedCall, ScannedChoice, ScannedMessage, set_member};
use super::{content, error, number_literal, reasoning};
use crate::neutral::{AnswerHeader, Flaws, StreamFault, StreamResult, flaws};
use crate::wire::json::{self, Cursor, Kind, Pieces, integer_of, span_bytes};
use crate::wire::splice::Edits;

/// A choice of a stream, or of a whole answer.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The index at the upstream.
    number: u64,
    /// The choice's place in the list.
    pub(super) index: usize,
    /// The index that the caller sees.
    pub(super) shown: usize,
    pub(super) has_role: bool,
    /// True if content came in `delta`. A `message` next to it then only repeats it.
    has_delta: bool,
    pub(super) calls: Calls,
    /// The number of entries so far in each of [`LISTS`].
    listed: [usize; LISTS.len()],
    /// True if the choice has something that a caller can use: text, a call, audio, a picture.
    /// Thinking does not count.
    ///
    /// A chunk that follows the template need not be checked for this, because it continues the
    /// content of the chunk before it.
    pub(super) has_answer: bool,
    pub(super) refuses: bool,
    pub(super) ended: Option<Ended>,
    /// True if the audio has a time of expiry. A spoken answer ends with that time, and may have no
    /// finish.
    pub(super) has_ended_audio: bool,
    /// The chunk with the finish, which is held back.
    pub(super) held_chunk: Vec<u8>,
    /// The content so far, if it must be JSON.
    pub(super) content: Pieces,
    /// The arguments so far of a call of the old kind, if there is one.
    old_call: Option<Pieces>,
    /// The last piece of reasoning, for servers that send pieces twice.
    last_reasoning: Vec<u8>,
}

/// The settings that all choices of an answer share.
#[derive(Debug)]
pub(super) struct Common {
    /// The answer's id, from which the ids of calls are made that have none.
    pub(super) answer_id: String,
    pub(super) show_reasoning: bool,
    /// True if the content must be JSON.
    pub(super) wants_json: bool,
}

impl Common {
    pub(super) fn new(header: &AnswerHeader, show_reasoning: bool) -> Self {
        Self {
            answer_id: header.id.clone(),
            show_reasoning,
            wants_json: header.wants_json,
        }
    }
}

/// The end of a choice.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reason: &'static str,
    /// The upstream's own word, if it is unknown.
    pub(super) native: Option<String>,
}

impl Ended {
    /// Reads the end of an entry's choice. Returns `None` if the entry has no end.
    pub(super) fn read(text: &[u8], entry: &ScannedChoice) -> StreamResult<Option<Self>> {
        let Some(member) = &entry.finish else {
            return Ok(None);
        };
        match finish::read_finish(text, &member.value) {
            Finish::Missing => Ok(None),
            Finish::Ended(reason) => Ok(Some(Self {
                reason,
                native: None,
            })),
            Finish::EndedBy(word) => Ok(Some(Self {
                reason: finish::STOP,
                native: Some(word),
            })),
            Finish::Failed(word) => Err(StreamFault::Upstream(
                error::find_error(text).unwrap_or_else(|| error::unfinished_answer(word)),
            )),
        }
    }
}

/// Decides whether a chunk's finish is shown, or goes out as `null` and is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finishes {
    Held,
    Shown,
}

impl Choice {
    /// Returns a choice that has shown nothing. `number` is the upstream's index. `index` is its
    /// place in the list, and the caller's index.
    pub(super) fn new(number: u64, index: usize) -> Self {
        Self {
            number,
            index,
            shown: index,
            calls: Calls::of_choice(index),
            ..Self::default()
        }
    }

    /// Returns the part of an entry to read. This is its delta, or its message while no delta had
    /// content. The flag is true for a message; messages were seen at Perplexity and at proxies.
    pub(super) fn readable_body<'s>(
        &self,
        text: &[u8],
        entry: &'s ScannedChoice,
    ) -> StreamResult<Option<(&'s ScannedMessage, bool)>> {
        let message = entry
            .message
            .as_ref()
            .filter(|message| message.has_content && !self.has_delta);
        match (&entry.delta, message) {
            (Some(delta), _) if !matches!(delta.member.kind(text), Kind::Object | Kind::Null) => {
                Err(StreamFault::Broken("a delta is not an object"))
            }
            (Some(delta), None) if delta.is_object(text) => Ok(Some((delta, false))),
            (Some(delta), Some(_)) if delta.has_content => Ok(Some((delta, false))),
            (_, message) => Ok(message.map(|message| (message, true))),
        }
    }

    /// Returns whether the choice declares that there will be no answer, or no more of it.
    pub(super) fn declines(&self) -> bool {
        self.refuses
            || self
                .ended
                .as_ref()
                .is_some_and(|ended| ended.reason == finish::FILTERED)
    }

    /// Returns the reason of the end that is shown.
    pub(super) fn shown_reason(&self) -> Option<&'static str> {
        self.ended
            .as_ref()
            .map(|ended| finish::shown_reason(ended.reason, self.calls.any_shown()))
    }

    /// Returns the flaws of a complete choice. A choice that declares that it may be cut short has
    /// none.
    pub(super) fn flaws(&self, wants_json: bool) -> Flaws {
        if self.refuses
            || self
                .ended
                .as_ref()
                .is_none_or(|ended| finish::is_cut(ended.reason))
        {
            return Flaws::default();
        }
        let has_calls = self.calls.any_shown() || self.old_call.is_some();
        let old = u32::from(self.old_call.as_ref().is_some_and(flaws::is_broken));
        Flaws {
            broken_calls: self.calls.count_broken() + old,
            not_json: wants_json && !has_calls && !self.content.is_whole(),
            ..Flaws::default()
        }
    }

    /// Returns the bytes of thinking in an entry, if the entry has nothing else and neither begins
    /// nor ends the choice.
    pub(super) fn only_thinking_bytes(
        &mut self,
        text: &[u8],
        entry: &ScannedChoice,
    ) -> StreamResult<Option<usize>> {
        // Choices must be shown in their order, even if a part of them is hidden.
        if !self.has_role
            || entry
                .finish
                .as_ref()
                .is_some_and(|finish| finish.has_content(text))
        {
            return Ok(None);
        }
        let Some((body, is_message)) = self.readable_body(text, entry)? else {
            return Ok(None);
        };
        self.has_delta |= !is_message && body.has_content;
        Ok(reasoning::thinking_bytes(text, body))
    }

    /// Returns whether an entry only repeats the piece of reasoning before it. A short piece may be
    /// meant twice.
    pub(super) fn repeats_reasoning(&mut self, text: &[u8], entry: &ScannedChoice) -> bool {
        let Some(span) = entry
            .delta
            .as_ref()
            .and_then(|body| body.only_reasoning(text))
        else {
            return false;
        };
        let piece = span_bytes(text, span);
        if piece == self.last_reasoning {
            return true;
        }
        self.last_reasoning.clear();
        if (REPEATED_FROM..MAX_REPEATED).contains(&piece.len()) {
            self.last_reasoning.extend_from_slice(piece);
        }
        false
    }

    /// Corrects an entry of a chunk's `choices`, except its finish. Returns the number of bytes of
    /// its text, and whether it has any content.
    pub(super) fn edit(
        &mut self,
        entry: &ScannedChoice,
        calls: &[ScannedCall],
        common: &Common,
        edits: &mut Edits<'_>,
    ) -> StreamResult<(usize, bool)> {
        self.edit_entry(entry, edits);
        if let Some(usage) = &entry.usage {
            edits.remove_member(&usage.key, &usage.value);
        }
        let Some((body, is_message)) = self.readable_body(edits.text(), entry)? else {
            self.edit_empty(entry, edits);
            return Ok((0, false));
        };
        let other = if is_message {
            &entry.delta
        } else {
            &entry.message
        };
        if let Some(other) = other {
            edits.remove_member(&other.member.key, &other.member.value);
        }
        if is_message {
            edits.replace(body.member.key.clone(), &br#""delta""#[..]);
        } else {
            self.has_delta |= body.has_content;
        }
        let mut bytes = self.edit_body(body, common, edits)?;
        if let Some(member) = &body.calls
            && !body.call_range.is_empty()
        {
            let calls = calls.get(body.call_range.clone()).unwrap_or_default();
            bytes += self.calls.edit(member, calls, &common.answer_id, edits)?;
        }
        if body.has_lists {
            self.number_lists(body, edits);
        }
        Ok((bytes, body.has_content))
    }

    /// Corrects the parts of an entry outside its delta or message.
    pub(super) fn edit_entry(&self, entry: &ScannedChoice, edits: &mut Edits<'_>) {
        set_member(
            edits,
            entry.open,
            br#""index""#,
            &entry.index,
            number_literal(self.shown),
        );
        if let Some(logprobs) = &entry.logprobs
            && !logprobs.is_logprobs(edits.text())
        {
            edits.replace(logprobs.value.clone(), &b"null"[..]);
        }
    }

    /// Corrects a delta or a message, except its calls and lists. Returns the number of bytes of
    /// its text.
    pub(super) fn edit_body(
        &mut self,
        body: &ScannedMessage,
        common: &Common,
        edits: &mut Edits<'_>,
    ) -> StreamResult<usize> {
        let text = edits.text();
        if body.has_odd_calls(text) {
            return Err(StreamFault::Broken("`tool_calls` is not an array"));
        }
        self.has_ended_audio |= body.ends_audio;
        self.refuses |= body.refuses;
        self.has_answer = self.has_answer || body.has_answer(text);
        self.edit_role(body, edits);
        let bytes = body.spoken_bytes
            + content::edit_content(body, common.show_reasoning, edits)
                .map_err(StreamFault::Broken)?;
        reasoning::edit_thinking(body, common.show_reasoning, edits);
        if common.wants_json {
            content::take_content(text, body, &mut self.content);
        }
        if let Some(call) = &body.old_call {
            calls::take_old_call(text, call, self.old_call.get_or_insert_default());
        }
        Ok(bytes)
    }

    /// Corrects an entry without content. It gets a delta nevertheless.
    fn edit_empty(&mut self, entry: &ScannedChoice, edits: &mut Edits<'_>) {
        let delta = if std::mem::replace(&mut self.has_role, true) {
            &br#"{}"#[..]
        } else {
            br#"{"role":"assistant","content":""}"#
        };
        if let Some(message) = &entry.message {
            edits.remove_member(&message.member.key, &message.member.value);
        }
        let null = entry.delta.as_ref().map(|null| null.member.clone());
        set_member(edits, entry.open, br#""delta""#, &null, delta);
    }

    /// Shows the role in the first delta or message only.
    fn edit_role(&mut self, body: &ScannedMessage, edits: &mut Edits<'_>) {
        if !std::mem::replace(&mut self.has_role, true) {
            set_member(
                edits,
                body.open,
                br#""role""#,
                &body.role,
                &br#""assistant""#[..],
            );
        } else if let Some(role) = &body.role {
            edits.remove_member(&role.key, &role.value);
        }
    }

    /// Writes the reason of the end, or `null`.
    pub(super) fn edit_finish(
        &self,
        entry: &ScannedChoice,
        finishes: Finishes,
        edits: &mut Edits<'_>,
    ) {
        let Some(ended) = self.ended.as_ref().filter(|_| finishes == Finishes::Shown) else {
            if entry.finish.is_some() {
                set_member(
                    edits,
                    entry.open,
                    br#""finish_reason""#,
                    &entry.finish,
                    &b"null"[..],
                );
            }
            return;
        };
        let reason = json::quote_string(finish::shown_reason(ended.reason, self.calls.any_shown()))
            .into_bytes();
        set_member(
            edits,
            entry.open,
            br#""finish_reason""#,
            &entry.finish,
            reason,
        );
        if let Some(word) = ended
            .native
            .as_ref()
            .filter(|_| entry.native_finish.is_none())
        {
            let native = format!(r#""native_finish_reason":{}"#, json::quote_string(word));
            edits.insert_member(entry.open, native.into_bytes());
        }
    }

    /// Gives the entries of lists an `index`, because clients merge them by it.
    fn number_lists(&mut self, body: &ScannedMessage, edits: &mut Edits<'_>) {
        let text = edits.text();
        // The text was scanned before, so this cannot fail.
        let _read = Cursor::starting_at(text, body.open).object(|cursor, key| {
            let list_index = LISTS
                .iter()
                .position(|list| *list == span_bytes(text, &key));
            let Some(listed) = list_index.and_then(|list_index| self.listed.get_mut(list_index))
            else {
                return cursor.skip();
            };
            cursor.maybe_array(|cursor, index| {
                if index >= MAX_LISTED || cursor.kind()? != Kind::Object {
                    return cursor.skip();
                }
                let mut has_index = false;
                let entry = cursor
                    .members(|key, _| has_index |= span_bytes(text, &key) == br#""index""#)?;
                if !has_index {
                    edits.insert_member(entry.start, format!(r#""index":{listed}"#).into_bytes());
                }
                *listed += 1;
                Ok(())
            })?;
            Ok(())
        });
    }
}

/// The shortest piece of text, quotes included, whose repetition is no coincidence.
const REPEATED_FROM: usize = 24;
/// The longest piece that is remembered, quotes included.
const MAX_REPEATED: usize = 16 * 1024;

/// The longest list whose entries get an index. A longer list is no list of citations, and each
/// entry would need an edit.
const MAX_LISTED: usize = 1024;

/// Returns an entry's choice, by the upstream's index, or by the entry's place if it has none. The
/// caller sees the upstream's index if it is less than `max_shown`, the number that was asked for.
pub(super) fn find_choice<'c>(
    choices: &'c mut Vec<Choice>,
    text: &[u8],
    entry: &ScannedChoice,
    list_index: usize,
    max_shown: usize,
) -> StreamResult<&'c mut Choice> {
    let index = entry
        .index
        .as_ref()
        .and_then(|index| integer_of(text, &index.value));
    let number = index.unwrap_or(list_index as u64);
    let choice_index = choices
        .iter()
        .position(|choice| choice.number == number)
        .unwrap_or(choices.len());
    if choice_index == choices.len() && choice_index < MAX_CHOICES {
        // As in [`Scan`]: most answers have one choice.
        choices.reserve_exact(usize::from(choices.is_empty()));
        let is_free = |shown: &usize| choices.iter().all(|choice| choice.shown != *shown);
        let own = usize::try_from(number)
            .ok()
            .filter(|own| *own < max_shown.min(MAX_CHOICES))
            .filter(is_free);
        let shown = own
            .or_else(|| (0..MAX_CHOICES).find(is_free))
            .unwrap_or(choice_index);
        choices.push(Choice {
            shown,
            ..Choice::new(number, choice_index)
        });
    }
    choices
        .get_mut(choice_index)
        .ok_or(StreamFault::Broken("more than 128 choices"))
}
