//! The chunks of a stream, each made standard while it passes.
//!
//! What goes out is the upstream's own chunk with the wrong spans edited. A choice's finish is held
//! back until the stream has ended: so it comes last and once, however often and early the upstream
//! says it, and nothing that follows it is lost.

use super::calls::between_quotes;
use super::choice::{Choice, Common, Ended, Finishes, choice_of};
use super::event::{edit_usage, groq_usage, write_event};
use super::head::Head;
use super::meter::{self, Counts};
use super::pattern::{Pattern, Probe};
use super::shape::{ChoiceShape, Shape, set};
use super::{error, finish};
use crate::neutral::price::ShowCost;
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{AnswerHeader, Flaws, StreamFault, mark};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{self, Kind, Pieces, slice};
use crate::wire::splice::Edits;

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";
const OBJECT: &[u8] = br#""chat.completion.chunk""#;
/// Chunks that are held back are short ones; what is longer goes out at once.
const MAX_HELD: usize = 16 * 1024;

/// The state behind a stream.
#[derive(Debug)]
pub(crate) struct Chunks {
    quirks: &'static Quirks,
    head: Head,
    common: Common,
    show_usage: bool,
    cost: ShowCost,
    prompt_bytes: u64,
    shape: Shape,
    pub(super) pattern: Pattern,
    /// What the text belongs to that the pattern follows.
    followed: Followed,
    choices: Vec<Choice>,
    pub(super) reported: Reported,
    /// What the answer cites, where that came in a chunk that is not shown.
    citations: Vec<u8>,
    /// UTF-8 bytes passed on, for the estimate.
    pub(super) said: u64,
    /// Something was said that an answer may begin with.
    pub(crate) opened: bool,
}

/// What a text goes on with, as far as somebody looks at it: the places of a choice, and of its
/// call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Nothing,
    Content(usize),
    Arguments(usize, usize),
}

/// The last usage that the upstream reported.
#[derive(Debug, Default)]
pub(super) struct Reported {
    counts: Option<Counts>,
    object: Vec<u8>,
    /// The chunk made for it, if it came in one.
    chunk: Vec<u8>,
    /// It is an estimate that this gateway made itself.
    pub(super) is_estimate: bool,
}

impl Chunks {
    /// Returns the state of a stream at its start.
    pub(crate) fn new(header: &AnswerHeader, quirks: &'static Quirks, show_reasoning: bool) -> Self {
        Self {
            quirks,
            head: Head::new(header),
            common: Common::new(header, show_reasoning),
            show_usage: header.show_usage,
            cost: header.cost,
            prompt_bytes: header.prompt_bytes,
            shape: Shape::default(),
            pattern: Pattern::default(),
            followed: Followed::Nothing,
            choices: Vec::new(),
            reported: Reported::default(),
            citations: Vec::new(),
            said: 0,
            opened: false,
        }
    }

    /// Takes one event; returns whether it is the `[DONE]` of an answer that is whole.
    #[inline]
    pub(crate) fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<u8>) -> Result<bool, StreamFault> {
        let data = data.trim_ascii();
        if name == b"error" {
            return Err(StreamFault::Upstream(error::error(data, None)));
        }
        if let Some((text, length)) = self.pattern.follow(data, out) {
            self.said = self.said.saturating_add(length as u64);
            self.opened |= length > 0;
            if let Some(pieces) = self.pieces() {
                pieces.take_literal(between_quotes(text));
            }
            return Ok(false);
        }
        self.other(data, out)
    }

    /// Takes an event that is not as the one before.
    #[inline(never)]
    fn other(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<bool, StreamFault> {
        if data == DONE {
            return if self.whole() { Ok(true) } else { Err(StreamFault::Cut) };
        }
        self.pattern.forget();
        match self.shape.read(data) {
            Ok(()) => self.chunk(data, out)?,
            Err(_) => self.unreadable(data, out)?,
        }
        Ok(false)
    }

    /// Takes the last event, which may lack its empty line. One that is itself cut is no event.
    pub(crate) fn last(&mut self, name: &[u8], data: &[u8], out: &mut Vec<u8>) -> Result<bool, StreamFault> {
        let is_whole = name == b"error" || data.trim_ascii() == DONE || json::is_whole(data);
        if is_whole { self.event(name, data, out) } else { Ok(false) }
    }

    #[cold]
    fn unreadable(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        // The specification has invalid UTF-8 replaced, not refused: a model may well emit half a
        // character.
        if std::str::from_utf8(data).is_err() {
            let text = String::from_utf8_lossy(data);
            if self.shape.read(text.as_bytes()).is_ok() {
                return self.chunk(text.as_bytes(), out);
            }
        }
        let broken = StreamFault::Broken("an event is not a JSON object");
        Err(error::hidden(data).map_or(broken, StreamFault::Upstream))
    }

    /// Takes a chunk that was read into the shape.
    fn chunk(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let shape = &self.shape;
        if let Some(found) = shape.error(text) {
            return Err(StreamFault::Upstream(found));
        }
        if let Some(why) = shape.too_many {
            return Err(StreamFault::Broken(why));
        }
        if shape.choices.as_ref().is_some_and(|member| !matches!(member.kind(text), Kind::Array | Kind::Null)) {
            return Err(StreamFault::Broken("`choices` is not an array"));
        }
        self.reported.take(text, shape, self.show_usage);
        self.head.learn(text, shape);
        // Azure's first chunk, a usage chunk, a vendor's notice: nothing that a caller could use
        // now.
        if shape.list.is_empty() {
            self.keep_citations(text);
            return Ok(());
        }
        let holds = self.note_finishes(text)?;
        if self.quirks.repeats_reasoning && self.repeats_reasoning(text)? {
            return Ok(());
        }
        if let Some(choice) = holds.and_then(|at| self.choices.get_mut(at)) {
            choice.last.clear();
            choice.last.extend_from_slice(text);
            self.opened = true;
            return Ok(());
        }
        if !self.common.show_reasoning && self.hides(text)? {
            return Ok(());
        }
        self.write(text, Finishes::Held, out)?;
        // A call that still waits for its name is not yet what it will be.
        if self.choices.iter().any(|choice| choice.calls.any_unnamed()) {
            return Ok(());
        }
        // Pieces that may be repeated must all be looked at.
        let is_reasoning =
            |entry: &ChoiceShape| entry.in_delta.as_ref().is_some_and(|body| body.only_reasoning(text).is_some());
        if self.quirks.repeats_reasoning && self.shape.list.iter().any(is_reasoning) {
            return Ok(());
        }
        // Of thinking that is hidden, it depends on the text beside it whether the chunk goes out
        // at all.
        if !self.common.show_reasoning && self.shape.list.iter().any(ChoiceShape::thinks) {
            return Ok(());
        }
        match self.pattern.probe(text, &self.shape) {
            Some(probe) => self.learn(text, probe),
            None => Ok(()),
        }
    }

    /// Finds out what becomes of chunks like the one just written.
    fn learn(&mut self, text: &[u8], probe: Probe) -> Result<(), StreamFault> {
        let (said, opened) = (self.said, self.opened);
        self.followed = self.goes_on_with(text)?;
        // What is tried out was not said.
        let so_far = self.pieces().map(std::mem::take);
        let mut written = Vec::new();
        if self.shape.read(&probe.text).is_ok() {
            self.write(&probe.text, Finishes::Held, &mut written)?;
            if self.said - said == probe.says() {
                self.pattern.learn(probe, &written);
            }
        }
        (self.said, self.opened) = (said, opened);
        if let (Some(pieces), Some(so_far)) = (self.pieces(), so_far) {
            *pieces = so_far;
        }
        Ok(())
    }

    /// Returns what the only text of the chunk in the shape goes on with.
    fn goes_on_with(&mut self, text: &[u8]) -> Result<Followed, StreamFault> {
        let [entry] = self.shape.list.as_slice() else { return Ok(Followed::Nothing) };
        let Some(body) = &entry.in_delta else { return Ok(Followed::Nothing) };
        let choice = choice_of(&mut self.choices, text, entry, 0)?;
        Ok(match self.shape.calls.get(body.call_range.clone()) {
            Some([call]) => match choice.calls.place(text, call) {
                Ok(slot) => Followed::Arguments(choice.index, slot),
                Err(_) => Followed::Nothing,
            },
            Some(_) | None if self.common.wants_json && body.is_only_content() => Followed::Content(choice.index),
            Some(_) | None => Followed::Nothing,
        })
    }

    /// Returns what is known of what is followed.
    #[inline]
    fn pieces(&mut self) -> Option<&mut Pieces> {
        match self.followed {
            Followed::Nothing => None,
            Followed::Content(at) => self.choices.get_mut(at).map(|choice| &mut choice.content),
            Followed::Arguments(at, slot) => self.choices.get_mut(at)?.calls.arguments_of(slot),
        }
    }

    /// Keeps the citations of a chunk without choices, unless it is shown as it is: with the usage.
    fn keep_citations(&mut self, text: &[u8]) {
        let is_shown = self.show_usage && self.shape.usage.is_some();
        let Some(member) = self.shape.citations.as_ref().filter(|_| !is_shown) else { return };
        let citations = slice(text, &member.value);
        if citations.starts_with(b"[") && (3..=MAX_HELD).contains(&citations.len()) {
            self.citations.clear();
            self.citations.extend_from_slice(citations);
        }
    }

    /// Returns whether a chunk holds nothing but thinking, of which nothing would be left; it still
    /// counts.
    fn hides(&mut self, text: &[u8]) -> Result<bool, StreamFault> {
        if self.shape.citations.as_ref().is_some_and(|citations| citations.speaks(text)) {
            return Ok(false);
        }
        let mut said = 0_usize;
        for (place, entry) in self.shape.list.iter().enumerate() {
            let choice = choice_of(&mut self.choices, text, entry, place)?;
            let Some(thought) = choice.only_thinks(text, entry)? else { return Ok(false) };
            said = said.saturating_add(thought);
        }
        self.said = self.said.saturating_add(said as u64);
        self.opened = true;
        Ok(true)
    }

    fn repeats_reasoning(&mut self, text: &[u8]) -> Result<bool, StreamFault> {
        let [entry] = self.shape.list.as_slice() else { return Ok(false) };
        Ok(choice_of(&mut self.choices, text, entry, 0)?.repeats_reasoning(text, entry))
    }

    /// Notes which choices end with this chunk. If it does nothing but end one, which that is.
    fn note_finishes(&mut self, text: &[u8]) -> Result<Option<usize>, StreamFault> {
        let mut only = None;
        for (place, entry) in self.shape.list.iter().enumerate() {
            let Some(ended) = Ended::read(text, entry).map_err(StreamFault::Upstream)? else { continue };
            let choice = choice_of(&mut self.choices, text, entry, place)?;
            choice.ended = Some(ended);
            self.opened = true;
            let speaks = choice.body(text, entry)?.is_some_and(|(body, _)| body.speaks);
            // A choice must have appeared before it ends.
            only = (!speaks && choice.has_role).then_some(choice.index);
        }
        let is_short = self.shape.list.len() == 1 && text.len() <= MAX_HELD;
        Ok(only.filter(|_| is_short))
    }

    /// Writes the chunk that is in the shape.
    fn write(&mut self, text: &[u8], finishes: Finishes, out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let mut edits = Edits::new(text);
        self.head.edit(&self.shape, OBJECT, &mut edits);
        edit_usage(&self.shape, self.show_usage, &mut edits);
        for (place, entry) in self.shape.list.iter().enumerate() {
            let choice = choice_of(&mut self.choices, text, entry, place)?;
            let (bytes, speaks) = choice.edit(entry, &self.shape.calls, &self.common, &mut edits)?;
            choice.edit_finish(entry, finishes, &mut edits);
            self.said = self.said.saturating_add(bytes as u64);
            self.opened |= speaks;
        }
        write_event(&mut edits, out);
        Ok(())
    }

    /// Returns whether every choice has its finish: the answer is whole, and only usage or `[DONE]`
    /// may be missing.
    pub(crate) fn whole(&self) -> bool {
        let has_end = |choice: &Choice| choice.ended.is_some() || choice.has_ended_audio;
        !self.choices.is_empty() && self.choices.iter().all(has_end)
    }

    /// Returns whether nothing was said that is an answer, but that there will be none. As long as
    /// one of several choices is open, it may answer.
    pub(crate) fn declined(&self) -> bool {
        let is_settled = |choice: &Choice| !choice.answers && (choice.refuses || choice.ended.is_some());
        self.choices.iter().any(Choice::declines) && self.choices.iter().all(is_settled)
    }

    /// Returns what is wrong with what was said, once all of it was.
    pub(crate) fn flaws(&self) -> Flaws {
        let mut flaws = Flaws::default();
        self.choices.iter().for_each(|choice| flaws.add(choice.flaws(self.common.wants_json)));
        flaws
    }

    /// Returns the usage, unless nothing was said or counted.
    pub(crate) fn usage_so_far(&self) -> Usage {
        if self.reported.counts.is_none() && !self.opened { Usage::default() } else { self.usage() }
    }

    fn usage(&self) -> Usage {
        let mut usage = match self.reported.counts {
            Some(counts) => counts.settle(self.quirks, self.prompt_bytes, self.said),
            None => Usage::estimated(self.prompt_bytes, self.said),
        };
        if self.reported.is_estimate {
            usage.source = Source::Estimated;
        }
        usage
    }

    /// Appends the finishes, the usage if it was asked for, with `trail`, and `[DONE]`; or says why
    /// there can be none.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        if !self.whole() {
            return Err(StreamFault::Cut);
        }
        if self.choices.iter().any(|choice| choice.calls.any_unnamed()) {
            return Err(StreamFault::Broken("a tool call without a name"));
        }
        if !self.citations.is_empty() {
            let chunk = [
                br#"{"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],"citations":"#,
                self.citations.as_slice(),
                self.no_usage().as_bytes(),
                b"}",
            ];
            self.write_ours(&chunk.concat(), None, out);
        }
        for at in 0..self.choices.len() {
            self.write_finish(at, out)?;
        }
        let usage = self.usage();
        if self.show_usage {
            self.write_usage(&usage, trail, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        Ok(usage)
    }

    /// Returns what chunks of ours end with where the usage will be shown.
    fn no_usage(&self) -> &'static str {
        if self.show_usage { r#","usage":null"# } else { "" }
    }

    fn write_finish(&mut self, at: usize, out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let no_usage = self.no_usage();
        let Some(choice) = self.choices.get_mut(at) else { return Ok(()) };
        let Some(ended) = &choice.ended else { return Ok(()) };
        let empty = if finish::is_cut(ended.reason) { String::new() } else { choice.calls.empty() };
        let reason = finish::shown(ended.reason, choice.calls.any());
        let native = ended.native.as_ref().map(|word| format!(r#","native_finish_reason":{}"#, json::quote(word)));
        let last = std::mem::take(&mut choice.last);
        if !empty.is_empty() {
            let text = format!(
                r#"{{"choices":[{{"index":{at},"delta":{{"tool_calls":[{empty}]}},"finish_reason":null}}]{no_usage}}}"#
            );
            self.write_ours(text.as_bytes(), None, out);
        }
        if last.is_empty() {
            let native = native.unwrap_or_default();
            let text = format!(
                r#"{{"choices":[{{"index":{at},"delta":{{}},"logprobs":null,"finish_reason":"{reason}"{native}}}]{no_usage}}}"#
            );
            self.write_ours(text.as_bytes(), None, out);
        } else if self.shape.read(&last).is_ok() {
            // It was read before it was held.
            self.write(&last, Finishes::Shown, out)?;
        }
        Ok(())
    }

    fn write_usage(&mut self, usage: &Usage, trail: Option<&str>, out: &mut Vec<u8>) {
        let object = Some(&*self.reported.object).filter(|object| !object.is_empty());
        let object = meter::write(object, usage, self.cost);
        let chunk = std::mem::take(&mut self.reported.chunk);
        let chunk = if chunk.is_empty() { br#"{"choices":[],"usage":null}"#.to_vec() } else { chunk };
        self.write_ours(&chunk, Some((object, mark::write(usage.source, trail))), out);
    }

    /// Writes a chunk that has no choice to look after, with this usage and our mark.
    fn write_ours(&mut self, text: &[u8], usage: Option<(Vec<u8>, Option<String>)>, out: &mut Vec<u8>) {
        if self.shape.read(text).is_err() {
            return;
        }
        let mut edits = Edits::new(text);
        self.head.edit(&self.shape, OBJECT, &mut edits);
        if let Some((object, mark)) = usage {
            if let Some((key, value)) = groq_usage(text, &self.shape) {
                edits.remove_member(&key, &value);
            }
            set(&mut edits, self.shape.open, br#""usage""#, &self.shape.usage, object);
            // What an upstream like this one tried is none of the caller's business.
            match (&self.shape.x_portcullis, mark) {
                (member, Some(mark)) => {
                    set(&mut edits, self.shape.open, br#""x_portcullis""#, member, mark.into_bytes());
                }
                (Some(member), None) => edits.remove_member(&member.key, &member.value),
                (None, None) => {}
            }
        }
        match &self.shape.choices {
            Some(member) if member.kind(text) != Kind::Null => {}
            member => set(&mut edits, self.shape.open, br#""choices""#, member, &b"[]"[..]),
        }
        write_event(&mut edits, out);
    }
}

impl Reported {
    /// Takes the usage of a chunk, wherever it stands. The last one counts, so that one which grows
    /// from chunk to chunk, or comes twice, is counted once.
    fn take(&mut self, text: &[u8], shape: &Shape, keeps_chunk: bool) {
        let in_groq = groq_usage(text, shape).map(|(_, value)| value);
        let in_choice = shape.list.iter().find_map(|choice| choice.usage.as_ref()).map(|usage| usage.value.clone());
        let top = shape.usage.as_ref().map(|usage| usage.value.clone());
        let mut places = [top, in_groq, in_choice].into_iter().flatten();
        let Some((span, counts)) = places.find_map(|span| Counts::read(text, &span).map(|counts| (span, counts)))
        else {
            return;
        };
        self.counts = Some(counts);
        // The upstream may be a gateway like this one.
        self.is_estimate = shape.x_portcullis.as_ref().is_some_and(|mark| mark::is_estimated(slice(text, &mark.value)));
        self.object.clear();
        if counts.are_believed() && span.len() <= MAX_HELD {
            self.object.extend_from_slice(slice(text, &span));
        }
        if keeps_chunk && shape.list.is_empty() && shape.usage.is_some() && text.len() <= MAX_HELD {
            self.chunk.clear();
            self.chunk.extend_from_slice(text);
        }
    }
}

#[cfg(test)]
mod tests;
