//! A chunk is one event of a stream. This module makes chunks standard while they pass.
//!
//! Each chunk that goes out is the upstream's own chunk, in which the wrong spans are edited. The
//! finish of a choice is held back until the stream has ended. So the finish comes last and once,
//! however often and early the upstream sends it, and nothing after it is lost.
//!
//! Most chunks equal the one before except for their text. A chunk that was written in full teaches
//! the template: a *probe*, the same chunk with placeholders for the strings that change, is
//! written too, and the bytes around the placeholders are kept.

mod followed;
mod reported;

use std::borrow::Cow;

use super::calls::{UNNAMED, between_quotes};
use super::choice::{Choice, Common, Ended, Finishes, find_choice};
use super::event::{edit_usage, write_event};
use super::head::Head;
use super::meter;
use super::scan::{Scan, ScannedChoice, set_member};
use super::template::{Probe, Template};
use super::{error, finish};
use crate::neutral::answer::AnswerFacts;
use crate::neutral::price::ShowCost;
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{AnswerHeader, EndReasons, Flaws, StreamFault, StreamResult, mark};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{self, Kind, span_bytes};
use crate::wire::splice::Edits;
use followed::Followed;
use reported::Reported;

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";
const OBJECT: &[u8] = br#""chat.completion.chunk""#;
/// The longest chunk that is held back. A longer one goes out at once.
const MAX_HELD: usize = 16 * 1024;

/// The state of a stream.
#[derive(Debug)]
pub(crate) struct Chunks {
    quirks: &'static Quirks,
    pub(super) head: Head,
    pub(super) common: Common,
    show_usage: bool,
    pub(super) cost: ShowCost,
    prompt_bytes: u64,
    pub(super) scan: Scan,
    pub(super) template: Template,
    /// The text that the template continues.
    followed: Followed,
    pub(super) choices: Vec<Choice>,
    /// The number of choices without which the answer is not whole.
    pub(super) choices_asked: usize,
    pub(super) reported: Reported,
    /// The citations from a chunk that is not shown.
    citations: Vec<u8>,
    /// The UTF-8 bytes that were passed on, for the estimate.
    pub(super) passed_bytes: u64,
    /// True if the answer has begun.
    opened: bool,
}

impl Chunks {
    /// Returns the state at the start of a stream.
    pub(crate) fn new(
        header: &AnswerHeader,
        quirks: &'static Quirks,
        show_reasoning: bool,
    ) -> Self {
        Self {
            quirks,
            head: Head::new(header),
            common: Common::new(header, show_reasoning),
            show_usage: header.show_usage,
            cost: header.cost,
            prompt_bytes: header.prompt_bytes,
            scan: Scan::default(),
            template: Template::default(),
            followed: Followed::Nothing,
            choices: Vec::new(),
            choices_asked: usize::try_from(header.choices).unwrap_or(usize::MAX),
            reported: Reported::default(),
            citations: Vec::new(),
            passed_bytes: 0,
            opened: false,
        }
    }

    /// Takes one event. Returns whether it is the `[DONE]` of a whole answer.
    #[inline]
    pub(crate) fn event(
        &mut self,
        name: &[u8],
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> StreamResult<bool> {
        let data = data.trim_ascii();
        if name == b"error" {
            return Err(StreamFault::Upstream(error::read_error(data, None)));
        }
        if let Some((text, length)) = self.template.write_fitting(data, out) {
            self.passed_bytes = self.passed_bytes.saturating_add(length as u64);
            self.opened |= length > 0;
            if let Some(pieces) = self.followed_pieces() {
                pieces.take_literal(between_quotes(text));
            }
            return Ok(false);
        }
        self.event_in_full(data, out)
    }

    /// Takes an event that does not follow the template.
    #[inline(never)]
    fn event_in_full(&mut self, data: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        if data == DONE {
            // The server may have fewer choices than were asked for.
            self.choices_asked = 0;
            return if self.finished() {
                Ok(true)
            } else {
                Err(StreamFault::Cut)
            };
        }
        self.template.forget();
        let text = self.scan_text(data, "an event is not a JSON object")?;
        self.take_chunk(&text, out)?;
        Ok(false)
    }

    /// Takes the last event, which may lack its empty line. An event that was itself cut is
    /// ignored.
    pub(crate) fn last(
        &mut self,
        name: &[u8],
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> StreamResult<bool> {
        let is_whole = name == b"error" || data.trim_ascii() == DONE || json::is_whole(data);
        if is_whole {
            self.event(name, data, out)
        } else {
            Ok(false)
        }
    }

    /// Reads one whole text into the scan. Returns the text as it was read. `broken` is the reason
    /// of the fault if the text is no JSON object.
    pub(super) fn scan_text<'t>(
        &mut self,
        data: &'t [u8],
        broken: &'static str,
    ) -> StreamResult<Cow<'t, [u8]>> {
        let mut text = Cow::Borrowed(data);
        if self.scan.read(data).is_err() {
            // The specification requires that invalid UTF-8 is replaced, not refused. A model may
            // emit half a character.
            text = String::from_utf8_lossy(data)
                .into_owned()
                .into_bytes()
                .into();
            if self.scan.read(&text).is_err() {
                return Err(error::find_error(data)
                    .map_or(StreamFault::Broken(broken), StreamFault::Upstream));
            }
        }
        if let Some(found) = self.scan.error(&text) {
            // The usage until then counts.
            self.reported.take(&text, &self.scan, false);
            return Err(StreamFault::Upstream(found));
        }
        self.scan
            .too_many
            .map_or(Ok(text), |why| Err(StreamFault::Broken(why)))
    }

    /// Takes a chunk that was read into the scan.
    fn take_chunk(&mut self, text: &[u8], out: &mut Vec<u8>) -> StreamResult<()> {
        let scan = &self.scan;
        if scan
            .choices
            .as_ref()
            .is_some_and(|member| !matches!(member.kind(text), Kind::Array | Kind::Null))
        {
            return Err(StreamFault::Broken("`choices` is not an array"));
        }
        self.reported.take(text, scan, self.show_usage);
        self.head.learn(text, scan);
        // A chunk without choices has nothing that a caller could use now: Azure's first chunk, a
        // usage chunk, a vendor's notice.
        if scan.entries.is_empty() {
            self.keep_citations(text);
            return Ok(());
        }
        let only_ends = self.note_finishes(text)?;
        if self.quirks.repeats_reasoning
            && let [entry] = self.scan.entries.as_slice()
            // 0 is the place of the only entry in the list.
            && find_choice(&mut self.choices, text, entry, 0, self.choices_asked)?
                .repeats_reasoning(text, entry)
        {
            return Ok(());
        }
        if let Some(choice) = only_ends.and_then(|choice_index| self.choices.get_mut(choice_index))
        {
            choice.held_chunk.clear();
            choice.held_chunk.extend_from_slice(text);
            self.opened = true;
            return Ok(());
        }
        if !self.common.show_reasoning && self.is_hidden(text)? {
            return Ok(());
        }
        self.write(text, Finishes::Held, out)?;
        if self.any_unnamed() || self.must_read_thinking(text) {
            return Ok(());
        }
        self.template
            .probe(text, &self.scan)
            .map_or(Ok(()), |probe| self.learn_template(text, probe))
    }

    /// Returns whether a call still waits for its name. It may change the following chunks.
    fn any_unnamed(&self) -> bool {
        self.choices.iter().any(|choice| choice.calls.any_unnamed())
    }

    /// Returns whether each chunk like the one in the scan must be read for its thinking. Pieces
    /// that may be repeated must all be checked. If thinking is hidden, the other text decides if
    /// the chunk goes out at all.
    fn must_read_thinking(&self, text: &[u8]) -> bool {
        let mut bodies = self.scan.entries.iter().flat_map(ScannedChoice::bodies);
        bodies.any(|body| {
            self.quirks.repeats_reasoning && body.only_reasoning(text).is_some()
                || body.thinking.has_content && !self.common.show_reasoning
        })
    }

    /// Learns the output for chunks like the one that was just written.
    fn learn_template(&mut self, text: &[u8], probe: Probe) -> StreamResult<()> {
        let (bytes_before, opened) = (self.passed_bytes, self.opened);
        self.followed = self.find_followed(text)?;
        // The probe is not part of the answer: what it changes is put back below.
        let so_far = self.followed_pieces().map(std::mem::take);
        let mut written = Vec::new();
        if self.scan.read(&probe.text).is_ok() {
            self.write(&probe.text, Finishes::Held, &mut written)?;
            // The placeholder must count as text with exactly its own bytes. Otherwise later chunks
            // would be counted wrongly.
            if self.passed_bytes - bytes_before == probe.placeholder_bytes() {
                self.template.learn(probe, &written);
            }
        }
        (self.passed_bytes, self.opened) = (bytes_before, opened);
        if let (Some(pieces), Some(so_far)) = (self.followed_pieces(), so_far) {
            *pieces = so_far;
        }
        Ok(())
    }

    /// Keeps the citations of a chunk without choices. A chunk with the usage that will be shown
    /// keeps its own.
    fn keep_citations(&mut self, text: &[u8]) {
        let is_shown = self.show_usage && self.scan.usage.is_some();
        let Some(member) = self.scan.citations.as_ref().filter(|_| !is_shown) else {
            return;
        };
        let citations = span_bytes(text, &member.value);
        if citations.starts_with(b"[") && (3..=MAX_HELD).contains(&citations.len()) {
            self.citations.clear();
            self.citations.extend_from_slice(citations);
        }
    }

    /// Returns whether a chunk has only thinking that is hidden, so that nothing of it would be
    /// left. The thinking is counted nevertheless.
    fn is_hidden(&mut self, text: &[u8]) -> StreamResult<bool> {
        if self
            .scan
            .citations
            .as_ref()
            .is_some_and(|citations| citations.has_content(text))
        {
            return Ok(false);
        }
        let mut thought_bytes = 0_usize;
        for (list_index, entry) in self.scan.entries.iter().enumerate() {
            let choice = find_choice(
                &mut self.choices,
                text,
                entry,
                list_index,
                self.choices_asked,
            )?;
            let Some(thought) = choice.only_thinking_bytes(text, entry)? else {
                return Ok(false);
            };
            thought_bytes = thought_bytes.saturating_add(thought);
        }
        self.passed_bytes = self.passed_bytes.saturating_add(thought_bytes as u64);
        self.opened = true;
        Ok(true)
    }

    /// Notes the choices that end with this chunk. Returns the index of a choice if the chunk has
    /// nothing but the end of that choice.
    fn note_finishes(&mut self, text: &[u8]) -> StreamResult<Option<usize>> {
        let mut only = None;
        for (list_index, entry) in self.scan.entries.iter().enumerate() {
            let Some(ended) = Ended::read(text, entry)? else {
                continue;
            };
            let choice = find_choice(
                &mut self.choices,
                text,
                entry,
                list_index,
                self.choices_asked,
            )?;
            choice.ended = Some(ended);
            self.opened = true;
            let has_content = choice
                .readable_body(text, entry)?
                .is_some_and(|(body, _)| body.has_content);
            // A choice must be shown before it ends.
            only = (!has_content && choice.has_role).then_some(choice.index);
        }
        let is_short = self.scan.entries.len() == 1 && text.len() <= MAX_HELD;
        Ok(only.filter(|_| is_short))
    }

    /// Writes the chunk that is in the scan.
    fn write(&mut self, text: &[u8], finishes: Finishes, out: &mut Vec<u8>) -> StreamResult<()> {
        let mut edits = Edits::new(text);
        self.head.edit(&self.scan, OBJECT, &mut edits);
        edit_usage(&self.scan, self.show_usage, &mut edits);
        for (list_index, entry) in self.scan.entries.iter().enumerate() {
            let choice = find_choice(
                &mut self.choices,
                text,
                entry,
                list_index,
                self.choices_asked,
            )?;
            let (bytes, has_content) =
                choice.edit(entry, &self.scan.calls, &self.common, &mut edits)?;
            choice.edit_finish(entry, finishes, &mut edits);
            self.passed_bytes = self.passed_bytes.saturating_add(bytes as u64);
            self.opened |= has_content;
        }
        write_event(&mut edits, out);
        Ok(())
    }

    /// Returns the usage for the counts and the text so far.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = match self.reported.counts {
            Some(counts) => counts.settle(self.quirks, self.prompt_bytes, self.passed_bytes),
            None => Usage::estimated(self.prompt_bytes, self.passed_bytes),
        };
        if self.reported.is_estimate {
            usage.source = Source::Estimated;
        }
        usage
    }

    /// Appends the finishes, then the usage with `trail` if it was asked for, then `[DONE]`. Fails
    /// if the answer is not whole. `trail` is JSON members about the attempts, for keys that debug.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        if !self.finished() {
            return Err(StreamFault::Cut);
        }
        if self.any_unnamed() {
            return Err(UNNAMED);
        }
        if !self.citations.is_empty() {
            let citations = [br#","citations":"#, self.citations.as_slice()].concat();
            self.write_choice(
                r#""index":0,"delta":{},"logprobs":null,"finish_reason":null"#,
                &citations,
                out,
            );
        }
        for choice_index in 0..self.choices.len() {
            self.write_finish(choice_index, out)?;
        }
        let usage = self.usage();
        if self.show_usage {
            self.write_usage(&usage, trail, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
        Ok(usage)
    }

    /// Writes the finish of a choice, after the fragments that its calls still need.
    fn write_finish(&mut self, choice_index: usize, out: &mut Vec<u8>) -> StreamResult<()> {
        let Some(choice) = self.choices.get_mut(choice_index) else {
            return Ok(());
        };
        let Some(ended) = &choice.ended else {
            return Ok(());
        };
        let shown = choice.shown;
        let missing = if finish::is_cut(ended.reason) {
            String::new()
        } else {
            choice.calls.write_missing_arguments()
        };
        let held = std::mem::take(&mut choice.held_chunk);
        let reason = finish::shown_reason(ended.reason, choice.calls.any_shown());
        let native = ended
            .native
            .as_ref()
            .map(|word| format!(r#","native_finish_reason":{}"#, json::quote_string(word)));
        let native = native.unwrap_or_default();
        if !missing.is_empty() {
            let calls = format!(
                r#""index":{shown},"delta":{{"tool_calls":[{missing}]}},"finish_reason":null"#
            );
            self.write_choice(&calls, b"", out);
        }
        if held.is_empty() {
            let end = format!(
                r#""index":{shown},"delta":{{}},"logprobs":null,"finish_reason":"{reason}"{native}"#
            );
            self.write_choice(&end, b"", out);
        } else if self.scan.read(&held).is_ok() {
            // The chunk was read before it was held.
            self.write(&held, Finishes::Shown, out)?;
        }
        Ok(())
    }

    /// Writes a chunk of ours with this choice, and with the members in `rest` after it. The usage
    /// is empty if it will be shown at the end.
    fn write_choice(&mut self, choice: &str, rest: &[u8], out: &mut Vec<u8>) {
        let usage: &[u8] = if self.show_usage {
            br#","usage":null"#
        } else {
            b""
        };
        let chunk = [
            br#"{"choices":[{"#,
            choice.as_bytes(),
            b"}]",
            rest,
            usage,
            b"}",
        ]
        .concat();
        self.write_ours(&chunk, None, out);
    }

    /// Writes the chunk of the usage.
    fn write_usage(&mut self, usage: &Usage, trail: Option<&str>, out: &mut Vec<u8>) {
        let object = Some(&*self.reported.object).filter(|object| !object.is_empty());
        let object = meter::write_usage(object, usage, self.cost).into_owned();
        let chunk = std::mem::take(&mut self.reported.chunk);
        let chunk = if chunk.is_empty() {
            br#"{"choices":[],"usage":null}"#.to_vec()
        } else {
            chunk
        };
        self.write_ours(
            &chunk,
            Some((object, mark::mark_json(usage.source, trail))),
            out,
        );
    }

    /// Writes a chunk of ours whose choices need no edits, with this usage and our mark.
    fn write_ours(
        &mut self,
        text: &[u8],
        usage: Option<(Vec<u8>, Option<String>)>,
        out: &mut Vec<u8>,
    ) {
        if self.scan.read(text).is_err() {
            return;
        }
        let mut edits = Edits::new(text);
        self.head.edit(&self.scan, OBJECT, &mut edits);
        if let Some((object, mark)) = usage {
            if let Some(usage) = self.scan.groq_usage(text) {
                edits.remove_member(&usage.key, &usage.value);
            }
            set_member(
                &mut edits,
                self.scan.open,
                br#""usage""#,
                &self.scan.usage,
                object,
            );
            // An upstream gateway's own trail is not for the caller.
            let old = &self.scan.x_portcullis;
            if let Some(mark) = mark {
                set_member(
                    &mut edits,
                    self.scan.open,
                    br#""x_portcullis""#,
                    old,
                    mark.into_bytes(),
                );
            } else if let Some(old) = old {
                edits.remove_member(&old.key, &old.value);
            }
        }
        if self.scan.lacks_choices(text) {
            set_member(
                &mut edits,
                self.scan.open,
                br#""choices""#,
                &self.scan.choices,
                &b"[]"[..],
            );
        }
        write_event(&mut edits, out);
    }
}

impl AnswerFacts for Chunks {
    fn opened(&self) -> bool {
        self.opened
    }

    fn finished(&self) -> bool {
        let has_end = |choice: &Choice| choice.ended.is_some() || choice.has_ended_audio;
        !self.choices.is_empty()
            && self.choices.len() >= self.choices_asked
            && self.choices.iter().all(has_end)
    }

    fn declined(&self) -> bool {
        let mut choices = self.choices.iter();
        choices.clone().any(Choice::declines)
            && choices
                .all(|choice| !choice.has_answer && (choice.refuses || choice.ended.is_some()))
    }

    fn flaws(&self) -> Flaws {
        let mut flaws = Flaws::default();
        self.choices
            .iter()
            .for_each(|choice| flaws.add(choice.flaws(self.common.wants_json)));
        flaws
    }

    fn reasons(&self) -> EndReasons {
        let mut reasons = EndReasons::default();
        self.choices
            .iter()
            .filter_map(Choice::shown_reason)
            .for_each(|reason| reasons.add(reason));
        reasons
    }

    fn usage_so_far(&self) -> Usage {
        if self.reported.counts.is_none() && !self.opened {
            Usage::default()
        } else {
            self.usage()
        }
    }
}

#[cfg(test)]
mod tests;
