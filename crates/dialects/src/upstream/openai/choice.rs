//! One choice of a stream: what it has shown so far, and so what its next chunk must still show, or
//! no more.

use super::calls::{self, Calls, Ids};
use super::finish::{self, Finish};
use super::shape::{CallShape, ChoiceShape, LISTS, MAX_CHOICES, MessageShape, set};
use super::{content, digits, error, reasoning};
use crate::neutral::{AnswerHeader, Flaws, StreamFault, UpstreamError, flaws};
use crate::wire::json::{self, Cursor, Kind, Pieces, integer_of, slice};
use crate::wire::splice::Edits;

/// A choice of a stream, or of a whole answer.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Its index to the upstream.
    number: u64,
    /// Its index to the caller, which is its place in the list.
    pub(super) index: usize,
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

/// What is the same for all choices of an answer.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) ids: Ids,
    pub(super) show_reasoning: bool,
    /// The content must be JSON.
    pub(super) wants_json: bool,
}

impl Common {
    pub(super) fn new(header: &AnswerHeader, show_reasoning: bool) -> Self {
        Self { ids: Ids::new(header), show_reasoning, wants_json: header.wants_json }
    }
}

/// How a choice ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) reason: &'static str,
    /// The upstream's own word, where nobody knows it.
    pub(super) native: Option<String>,
}

impl Ended {
    /// Reads how an entry's choice ended; `None` if it does not say so.
    pub(super) fn read(text: &[u8], entry: &ChoiceShape) -> Result<Option<Self>, UpstreamError> {
        let Some(member) = &entry.finish else { return Ok(None) };
        match finish::read(text, &member.value) {
            Finish::Unsaid => Ok(None),
            Finish::Ended(reason) => Ok(Some(Self { reason, native: None })),
            Finish::EndedBy(word) => Ok(Some(Self { reason: finish::STOP, native: Some(word) })),
            Finish::Failed(word) => Err(error::hidden(text).unwrap_or_else(|| error::gave_up(word))),
        }
    }
}

/// Whether a chunk's finish is shown or goes out as `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finishes {
    Held,
    Shown,
}

impl Choice {
    /// Returns a choice that has shown nothing: the upstream's `number`, and the caller's `index`.
    pub(super) fn new(number: u64, index: usize) -> Self {
        Self { number, index, calls: Calls::of_choice(index), ..Self::default() }
    }

    /// Returns what to read of an entry: its delta; its message only while no delta has said
    /// anything. Then the flag is true: seen at Perplexity and at proxies.
    pub(super) fn body<'s>(
        &self,
        text: &[u8],
        entry: &'s ChoiceShape,
    ) -> Result<Option<(&'s MessageShape, bool)>, StreamFault> {
        let message = entry.in_message.as_ref().filter(|message| message.speaks && !self.has_delta);
        match (&entry.in_delta, message) {
            (Some(delta), Some(message)) if !delta.speaks => Ok(Some((message, true))),
            (Some(delta), _) => Ok(Some((delta, false))),
            (None, _) if entry.delta.as_ref().is_some_and(|delta| delta.kind(text) != Kind::Null) => {
                Err(StreamFault::Broken("a delta is not an object"))
            }
            (None, message) => Ok(message.map(|message| (message, true))),
        }
    }

    /// Returns whether it says that there will be no answer, or no more of it.
    pub(super) fn declines(&self) -> bool {
        self.refuses || self.ended.as_ref().is_some_and(|ended| ended.reason == finish::FILTERED)
    }

    /// Returns what is wrong with it, now that it is whole. Nothing is where it says that it may be
    /// cut short.
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

    /// Counts the bytes of thinking that an entry holds, if it has nothing beside it and neither
    /// begins nor ends the choice.
    pub(super) fn only_thinks(&mut self, text: &[u8], entry: &ChoiceShape) -> Result<Option<usize>, StreamFault> {
        // Choices must appear in their order, whatever is hidden of them.
        if !self.has_role || entry.finish.as_ref().is_some_and(|finish| finish.speaks(text)) {
            return Ok(None);
        }
        let Some((body, is_message)) = self.body(text, entry)? else { return Ok(None) };
        self.has_delta |= !is_message && body.speaks;
        Ok(reasoning::only(text, body))
    }

    /// Returns whether an entry only says again the piece of reasoning that came before it. A short
    /// one may well be meant twice.
    pub(super) fn repeats_reasoning(&mut self, text: &[u8], entry: &ChoiceShape) -> bool {
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

    /// Puts right an entry of a chunk's `choices`, all but its finish. Returns how many bytes it
    /// says, and whether it says anything.
    pub(super) fn edit(
        &mut self,
        entry: &ChoiceShape,
        calls: &[CallShape],
        common: &Common,
        edits: &mut Edits<'_>,
    ) -> Result<(usize, bool), StreamFault> {
        self.edit_entry(entry, edits);
        if let Some(usage) = &entry.usage {
            edits.remove_member(&usage.key, &usage.value);
        }
        let Some((body, is_message)) = self.body(edits.text(), entry)? else {
            self.edit_empty(entry, edits);
            return Ok((0, false));
        };
        let other = if is_message { &entry.delta } else { &entry.message };
        if let Some(other) = other {
            edits.remove_member(&other.key, &other.value);
        }
        match &entry.message {
            Some(message) if is_message => edits.replace(message.key.clone(), &br#""delta""#[..]),
            Some(_) | None => self.has_delta |= !is_message && body.speaks,
        }
        let mut bytes = self.edit_body(body, common, edits).map_err(StreamFault::Broken)?;
        if let Some(member) = &body.calls
            && !body.call_range.is_empty()
        {
            let calls = calls.get(body.call_range.clone()).unwrap_or_default();
            bytes += self.calls.edit(member, calls, &common.ids, edits).map_err(StreamFault::Broken)?;
        }
        if body.has_lists {
            self.number_lists(body, edits);
        }
        Ok((bytes, body.speaks))
    }

    /// Puts right what an entry holds beside its delta or message.
    pub(super) fn edit_entry(&self, entry: &ChoiceShape, edits: &mut Edits<'_>) {
        set(edits, entry.open, br#""index""#, &entry.index, digits(self.index));
        if let Some(logprobs) = &entry.logprobs
            && !logprobs.is_logprobs(edits.text())
        {
            edits.replace(logprobs.value.clone(), &b"null"[..]);
        }
    }

    /// Puts right a delta or message, all but its calls and lists; returns how many bytes it says.
    pub(super) fn edit_body(
        &mut self,
        body: &MessageShape,
        common: &Common,
        edits: &mut Edits<'_>,
    ) -> Result<usize, &'static str> {
        let text = edits.text();
        if body.has_odd_calls(text) {
            return Err("`tool_calls` is not an array");
        }
        self.has_ended_audio |= body.ends_audio;
        self.refuses |= body.refuses;
        self.answers = self.answers || body.answers(text);
        self.edit_role(body, edits);
        let bytes = body.said + content::edit(body, common.show_reasoning, edits)?;
        reasoning::edit(body, common.show_reasoning, edits);
        if common.wants_json {
            content::take(text, body, &mut self.content);
        }
        if let Some(call) = &body.old_call {
            calls::take_old(text, call, self.old_call.get_or_insert_default());
        }
        Ok(bytes)
    }

    /// Puts right an entry without anything to say: the delta is there nonetheless.
    fn edit_empty(&mut self, entry: &ChoiceShape, edits: &mut Edits<'_>) {
        let delta = if std::mem::replace(&mut self.has_role, true) {
            &br#"{}"#[..]
        } else {
            br#"{"role":"assistant","content":""}"#
        };
        if let Some(message) = &entry.message {
            edits.remove_member(&message.key, &message.value);
        }
        set(edits, entry.open, br#""delta""#, &entry.delta, delta);
    }

    fn edit_role(&mut self, body: &MessageShape, edits: &mut Edits<'_>) {
        let is_first = !std::mem::replace(&mut self.has_role, true);
        match &body.role {
            Some(role) if !is_first => edits.remove_member(&role.key, &role.value),
            role if is_first => set(edits, body.open, br#""role""#, role, &br#""assistant""#[..]),
            Some(_) | None => {}
        }
    }

    /// Shows why the choice ended, or that it has not.
    pub(super) fn edit_finish(&self, entry: &ChoiceShape, finishes: Finishes, edits: &mut Edits<'_>) {
        let Some(ended) = self.ended.as_ref().filter(|_| finishes == Finishes::Shown) else {
            if let Some(member) = &entry.finish
                && slice(edits.text(), &member.value) != b"null"
            {
                edits.replace(member.value.clone(), &b"null"[..]);
            }
            return;
        };
        let reason = json::quote(finish::shown(ended.reason, self.calls.any())).into_bytes();
        set(edits, entry.open, br#""finish_reason""#, &entry.finish, reason);
        if let Some(word) = ended.native.as_ref().filter(|_| !entry.has_native_finish) {
            let native = format!(r#""native_finish_reason":{}"#, json::quote(word));
            edits.insert_member(entry.open, native.into_bytes());
        }
    }

    /// Gives the entries of lists the `index` that clients merge them by.
    fn number_lists(&mut self, body: &MessageShape, edits: &mut Edits<'_>) {
        let text = edits.text();
        // The text was scanned before, so this cannot fail.
        let _read = Cursor::starting_at(text, body.open).object(|cursor, key| {
            let place = LISTS.iter().position(|list| *list == slice(text, &key));
            let Some(listed) = place.and_then(|place| self.listed.get_mut(place)) else {
                return cursor.value().map(drop);
            };
            let each = |cursor: &mut Cursor<'_>, at| {
                if at >= MAX_LISTED || cursor.kind()? != Kind::Object {
                    return cursor.value().map(drop);
                }
                let mut has_index = false;
                let entry = cursor.members(|key, _| has_index |= slice(text, &key) == br#""index""#)?;
                if !has_index {
                    edits.insert_member(entry.start, format!(r#""index":{listed}"#).into_bytes());
                }
                *listed += 1;
                Ok(())
            };
            cursor.maybe_array(each).map(drop)
        });
    }
}

/// From this length on, quotes included, the same piece of text twice in a row is no chance.
const REPEATED_FROM: usize = 24;
/// One that is longer is not remembered.
const MAX_REPEATED: usize = 16 * 1024;

/// A list that is longer is no list of citations, and would need an edit an entry.
const MAX_LISTED: usize = 1024;

/// Returns an entry's choice, by the upstream's index (or its place, where it has none).
pub(super) fn choice_of<'c>(
    choices: &'c mut Vec<Choice>,
    text: &[u8],
    entry: &ChoiceShape,
    place: usize,
) -> Result<&'c mut Choice, StreamFault> {
    let index = entry.index.as_ref().and_then(|index| integer_of(text, &index.value));
    let number = index.unwrap_or(place as u64);
    let at = choices.iter().position(|choice| choice.number == number).unwrap_or(choices.len());
    if at == choices.len() && at < MAX_CHOICES {
        choices.push(Choice::new(number, at));
    }
    choices.get_mut(at).ok_or(StreamFault::Broken("more than 128 choices"))
}
