//! One choice of a stream: what it has shown so far, and so what its next chunk must still show, or
//! no more.

use super::calls::{self, Calls, Ids};
use super::shape::{self, Body, Call, LISTS, MAX_CHOICES};
use super::{content, digits, finish, reasoning};
use crate::neutral::{Flaws, StreamFault, flaws};
use crate::wire::json::{self, Cursor, Kind, Pieces, integer_of, slice};
use crate::wire::splice::Edits;

/// A choice; its place in the list is its index to the caller.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Its index to the upstream.
    number: u64,
    pub(super) has_role: bool,
    /// Content came in `delta`, so a `message` beside it only repeats it.
    has_delta: bool,
    pub(super) calls: Calls,
    /// Entries of each of [`LISTS`].
    listed: [usize; LISTS.len()],
    /// It said something that a caller can use: text, a call, audio, a picture. Thinking is none.
    ///
    /// Chunks that the pattern follows need not be looked at: they say more of what the chunk
    /// before them said.
    pub(super) answers: bool,
    pub(super) refuses: bool,
    pub(super) ended: Option<Ended>,
    /// A spoken answer ends with the time when its audio expires, and may have no finish.
    pub(super) has_ended_audio: bool,
    /// The chunk that brought the finish, held back.
    pub(super) last: Vec<u8>,
    /// The content so far, where it must be JSON.
    pub(super) content: Pieces,
    /// The arguments of a call of the old kind so far, if there is one.
    old_call: Option<Pieces>,
    /// The last piece of reasoning, for servers that send pieces twice.
    last_reasoning: Vec<u8>,
}

/// What is the same for all choices of a stream.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) ids: Ids,
    pub(super) show_reasoning: bool,
    /// The content must be JSON.
    pub(super) wants_json: bool,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reason: &'static str,
    /// The upstream's own word, where nobody knows it.
    pub(super) native: Option<String>,
}

/// Whether a chunk's finish is shown or goes out as `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finishes {
    Held,
    Shown,
}

/// What a choice's part of a chunk brought.
pub(super) struct Said {
    pub(super) bytes: usize,
    pub(super) speaks: bool,
}

/// The delta to use, and where it stands.
pub(super) enum Part<'s> {
    Delta(&'s Body),
    /// Seen at Perplexity and at proxies: `message` instead of `delta`.
    Message(&'s Body),
}

impl Part<'_> {
    pub(super) fn speaks(&self) -> bool {
        match self {
            Part::Delta(body) | Part::Message(body) => body.speaks || body.ends_audio,
        }
    }
}

impl Choice {
    /// What to read of an entry: its delta; its message only while no delta has said anything.
    pub(super) fn body<'s>(&self, text: &[u8], entry: &'s shape::Choice) -> Result<Option<Part<'s>>, StreamFault> {
        let message = entry.in_message.as_ref().filter(|message| message.speaks && !self.has_delta);
        match (&entry.in_delta, message) {
            (Some(delta), Some(message)) if !delta.speaks => Ok(Some(Part::Message(message))),
            (Some(delta), _) => Ok(Some(Part::Delta(delta))),
            (None, _) if entry.delta.as_ref().is_some_and(|delta| delta.kind(text) != Kind::Null) => {
                Err(StreamFault::Broken("a delta is not an object"))
            }
            (None, message) => Ok(message.map(Part::Message)),
        }
    }

    /// Whether it says that there will be no answer, or no more of it.
    pub(super) fn declines(&self) -> bool {
        self.refuses || self.ended.as_ref().is_some_and(|ended| ended.reason == finish::FILTERED)
    }

    /// What is wrong with it, now that it is whole. Nothing is where it says that it may be cut
    /// short.
    pub(super) fn flaws(&self, wants_json: bool) -> Flaws {
        if self.refuses || self.ended.as_ref().is_none_or(|ended| finish::is_cut(ended.reason)) {
            return Flaws::default();
        }
        let has_calls = self.calls.any() || self.old_call.is_some();
        let old = u32::from(self.old_call.as_ref().is_some_and(flaws::is_broken));
        Flaws {
            broken_calls: self.calls.broken() + old,
            not_json: wants_json && !has_calls && !self.content.is_whole(),
        }
    }

    /// How many bytes of thinking an entry holds, if it has nothing beside it and neither begins
    /// nor ends the choice.
    pub(super) fn only_thinks(&mut self, text: &[u8], entry: &shape::Choice) -> Result<Option<usize>, StreamFault> {
        // Choices must appear in their order, whatever is hidden of them.
        if !self.has_role || entry.finish.as_ref().is_some_and(|finish| finish.speaks(text)) {
            return Ok(None);
        }
        Ok(match self.body(text, entry)? {
            Some(Part::Delta(body)) => {
                self.has_delta |= body.speaks;
                reasoning::only(text, body)
            }
            Some(Part::Message(body)) => reasoning::only(text, body),
            None => None,
        })
    }

    /// Whether an entry only says again the piece of reasoning that came before it. A short one may
    /// well be meant twice.
    pub(super) fn repeats_reasoning(&mut self, text: &[u8], entry: &shape::Choice) -> bool {
        let Some(span) = entry.in_delta.as_ref().and_then(|body| body.only_reasoning(text)) else { return false };
        let piece = slice(text, span);
        if piece == self.last_reasoning {
            return true;
        }
        self.last_reasoning.clear();
        if (REPEATED_FROM..MAX_REPEATED).contains(&piece.len()) {
            self.last_reasoning.extend_from_slice(piece);
        }
        false
    }

    /// Puts right an entry of `choices`, all but its finish.
    pub(super) fn edit(
        &mut self,
        text: &[u8],
        entry: &shape::Choice,
        calls: &[Call],
        at: usize,
        common: &Common,
        edits: &mut Edits<'_>,
    ) -> Result<Said, StreamFault> {
        match &entry.index {
            Some(index) if slice(text, &index.value) == &*digits(at) => {}
            Some(index) => edits.replace(index.value.clone(), digits(at)),
            None => edits.insert_member(entry.open, [b"\"index\":", &*digits(at)].concat()),
        }
        if let Some(logprobs) = &entry.logprobs
            && !logprobs.is_logprobs(text)
        {
            edits.replace(logprobs.value.clone(), &b"null"[..]);
        }
        if let Some(usage) = &entry.usage {
            edits.remove_member(&usage.key, &usage.value);
        }
        let part = self.body(text, entry)?;
        let body = match part {
            Some(Part::Delta(body)) => {
                if let Some(message) = &entry.message {
                    edits.remove_member(&message.key, &message.value);
                }
                self.has_delta |= body.speaks;
                body
            }
            Some(Part::Message(body)) => {
                if let Some(delta) = &entry.delta {
                    edits.remove_member(&delta.key, &delta.value);
                }
                if let Some(message) = &entry.message {
                    edits.replace(message.key.clone(), &br#""delta""#[..]);
                }
                body
            }
            None => {
                self.edit_empty(entry, edits);
                return Ok(Said { bytes: 0, speaks: false });
            }
        };
        if body.has_odd_calls(text) {
            return Err(StreamFault::Broken("`tool_calls` is not an array"));
        }
        self.has_ended_audio |= body.ends_audio;
        self.refuses |= body.refuses;
        self.answers = self.answers || body.answers(text);
        self.edit_role(text, body, edits);
        let mut bytes =
            body.said + content::edit(text, body, common.show_reasoning, edits).map_err(StreamFault::Broken)?;
        reasoning::edit(text, body, common.show_reasoning, edits);
        if common.wants_json {
            content::take(text, body, &mut self.content);
        }
        if let Some(call) = &body.old_call {
            calls::take_old(text, call, self.old_call.get_or_insert_default());
        }
        if let Some(member) = &body.calls
            && !body.call_range.is_empty()
        {
            let calls = calls.get(body.call_range.clone()).unwrap_or_default();
            let edited = self.calls.edit(text, member, calls, &common.ids, at, edits);
            bytes += edited.map_err(StreamFault::Broken)?;
        }
        if body.has_lists {
            self.number_lists(text, body, edits);
        }
        Ok(Said { bytes, speaks: body.speaks || body.ends_audio })
    }

    /// An entry without anything to say: the delta is there nonetheless.
    fn edit_empty(&mut self, entry: &shape::Choice, edits: &mut Edits<'_>) {
        let delta = if std::mem::replace(&mut self.has_role, true) {
            &br#"{}"#[..]
        } else {
            br#"{"role":"assistant","content":""}"#
        };
        if let Some(message) = &entry.message {
            edits.remove_member(&message.key, &message.value);
        }
        match &entry.delta {
            Some(null) => edits.replace(null.value.clone(), delta),
            None => edits.insert_member(entry.open, [br#""delta":"#, delta].concat()),
        }
    }

    fn edit_role(&mut self, text: &[u8], body: &Body, edits: &mut Edits<'_>) {
        let is_first = !std::mem::replace(&mut self.has_role, true);
        match &body.role {
            Some(role) if !is_first => edits.remove_member(&role.key, &role.value),
            Some(role) if slice(text, &role.value) == br#""assistant""# => {}
            Some(role) => edits.replace(role.value.clone(), &br#""assistant""#[..]),
            None if is_first => edits.insert_member(body.open, &br#""role":"assistant""#[..]),
            None => {}
        }
    }

    pub(super) fn edit_finish(&self, text: &[u8], entry: &shape::Choice, finishes: Finishes, edits: &mut Edits<'_>) {
        let Some(member) = &entry.finish else { return };
        let Some(ended) = self.ended.as_ref().filter(|_| finishes == Finishes::Shown) else {
            if slice(text, &member.value) != b"null" {
                edits.replace(member.value.clone(), &b"null"[..]);
            }
            return;
        };
        let reason = json::quote(finish::shown(ended.reason, self.calls.any())).into_bytes();
        if slice(text, &member.value) != reason {
            edits.replace(member.value.clone(), reason);
        }
        if let Some(word) = ended.native.as_ref().filter(|_| !entry.has_native_finish) {
            let native = format!(r#""native_finish_reason":{}"#, json::quote(word));
            edits.insert_member(entry.open, native.into_bytes());
        }
    }

    /// Gives the entries of lists the `index` that clients merge them by.
    fn number_lists(&mut self, text: &[u8], body: &Body, edits: &mut Edits<'_>) {
        let Some(rest) = text.get(body.open..) else { return };
        // The text was scanned before, so this cannot fail.
        let _read = Cursor::new(rest).object(|cursor, key| {
            let name = slice(rest, &key);
            let Some(listed) =
                LISTS.iter().zip(&mut self.listed).find_map(|(list, listed)| (*list == name).then_some(listed))
            else {
                return cursor.value().map(drop);
            };
            if cursor.kind()? != Kind::Array {
                return cursor.value().map(drop);
            }
            let each = |cursor: &mut Cursor<'_>, at| {
                if at >= MAX_LISTED || cursor.kind()? != Kind::Object {
                    return cursor.value().map(drop);
                }
                let mut has_index = false;
                let entry = cursor.object(|cursor, key| {
                    has_index |= slice(rest, &key) == br#""index""#;
                    cursor.value().map(drop)
                })?;
                if !has_index {
                    let index = format!(r#""index":{listed}"#);
                    edits.insert_member(body.open + entry.start, index.into_bytes());
                }
                *listed += 1;
                Ok(())
            };
            cursor.array(each).map(drop)
        });
    }
}

/// From this length on, quotes included, the same piece of text twice in a row is no chance.
const REPEATED_FROM: usize = 24;
/// One that is longer is not remembered.
const MAX_REPEATED: usize = 16 * 1024;

/// A list that is longer is no list of citations, and would need an edit an entry.
const MAX_LISTED: usize = 1024;

/// The place of an entry's choice in our list, by the upstream's index (or its place, where it has
/// none).
pub(super) fn place_of(
    choices: &mut Vec<Choice>,
    text: &[u8],
    entry: &shape::Choice,
    place: usize,
) -> Result<usize, StreamFault> {
    let said = entry.index.as_ref().and_then(|index| integer_of(text, &index.value));
    let number = said.unwrap_or(place as u64);
    if let Some(at) = choices.iter().position(|choice| choice.number == number) {
        return Ok(at);
    }
    if choices.len() == MAX_CHOICES {
        return Err(StreamFault::Broken("more than 128 choices"));
    }
    choices.push(Choice { number, ..Choice::default() });
    Ok(choices.len() - 1)
}
