//! This module makes a buffered answer standard.
//!
//! A buffered answer is whole because its JSON is whole. So a missing finish reason is `stop` here
//! (or `tool_calls`). In a stream it would mean that the answer was cut.

use std::borrow::Cow;

use super::choice::{Choice, Common, Ended, Finishes};
use super::chunks::Chunks;
use super::meter::{self, Counts};
use super::scan::{ScannedCall, ScannedChoice, set_member};
use super::{finish, plain, reasoning};
use crate::neutral::answer::AnswerFacts;
use crate::neutral::price::ShowCost;
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, StreamFault, StreamResult};
use crate::upstream::quirks::Quirks;
use crate::upstream::shared::lenient::find_member;
use crate::wire::json::{integer_of, span_bytes};
use crate::wire::splice::Edits;
use crate::wire::without_bom;

/// Reads a buffered answer. An event stream is refused, even if it has a whole answer.
pub fn correct_answer(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    let body = without_bom(body).trim_ascii();
    let plain = plain::read_plain_answer(header, quirks, show_reasoning, body);
    plain.map_or_else(|| of_any_form(header, quirks, show_reasoning, body), Ok)
}

/// Reads a buffered answer, also if it deviates from the standard.
pub(super) fn of_any_form(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    Chunks::new(header, quirks, show_reasoning)
        .whole_answer(body)
        .map_err(answer_fault)
}

/// Reads a buffered answer in place of a stream that was asked for, and writes it as a stream.
pub fn answer_as_stream(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    let Answer {
        body,
        usage,
        declined,
        flaws,
        reasons,
        labels,
    } = correct_answer(header, quirks, show_reasoning, body)?;
    let mut chunks = Chunks::new(header, &Quirks::NONE, show_reasoning);
    let mut events = Vec::new();
    chunks
        .event(b"", &body, &mut events)
        .map_err(answer_fault)?;
    chunks.choices_asked = 0;
    chunks.reported.is_estimate = usage.source == Source::Estimated;
    chunks.finish(&mut events, None).map_err(answer_fault)?;
    Ok(Answer {
        body: events,
        usage,
        declined,
        flaws,
        reasons,
        labels,
    })
}

/// Returns the usage that stands in a whole answer, also if it is none. Returns `None` if it has
/// none.
pub fn reported_usage(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    body: &[u8],
) -> Option<Usage> {
    let usage = find_member(body, "usage")?;
    let counts = Counts::read(usage, &(0..usage.len()))?;
    Some(counts.settle(quirks, header.prompt_bytes, 0))
}

impl Chunks {
    /// Takes a whole answer as the only chunk of a stream.
    fn whole_answer(&mut self, body: &[u8]) -> StreamResult<Answer> {
        let text = &*self.scan_text(body, "the answer is not a JSON object")?;
        let scan = &self.scan;
        if scan.entries.is_empty() {
            return Err(StreamFault::Broken("the answer has no choices"));
        }
        self.head.learn(text, scan);
        let mut edits = Edits::new(text);
        for (entry, index) in scan.entries.iter().zip(choice_indices(text, &scan.entries)) {
            let mut choice = Choice::new(0, index);
            self.passed_bytes +=
                edit_choice(&mut choice, entry, &scan.calls, &self.common, &mut edits)? as u64;
            self.choices.push(choice);
        }
        let counts = scan
            .usage
            .as_ref()
            .and_then(|usage| Counts::read(text, &usage.value));
        self.reported.counts = counts;
        let usage = self.usage();
        self.head
            .edit(&self.scan, br#""chat.completion""#, &mut edits);
        let old = self
            .scan
            .usage
            .as_ref()
            .filter(|_| counts.is_some_and(|counts| counts.are_believed()));
        let old = old.map(|old| span_bytes(text, &old.value));
        let object = match old.filter(|_| {
            self.cost == ShowCost::No && counts.is_some_and(|counts| counts.match_usage(&usage))
        }) {
            Some(right) => Cow::Borrowed(right),
            None => meter::write_usage(old, &usage, self.cost),
        };
        set_member(
            &mut edits,
            self.scan.open,
            br#""usage""#,
            &self.scan.usage,
            object,
        );
        let body = edits.applied().into_owned();
        Ok(self.answer_with(body, usage))
    }
}

/// Returns the index of each choice: its own if the indexes are complete, else its place.
fn choice_indices(text: &[u8], choices: &[ScannedChoice]) -> Vec<usize> {
    let mut seen = vec![false; choices.len()];
    let own = choices.iter().map(|choice| {
        let index = usize::try_from(integer_of(text, &choice.index.as_ref()?.value)?).ok()?;
        let is_new = !std::mem::replace(seen.get_mut(index)?, true);
        is_new.then_some(index)
    });
    own.collect::<Option<Vec<_>>>()
        .unwrap_or_else(|| (0..choices.len()).collect())
}

/// Corrects an entry of `choices`. Returns the number of bytes of its text.
fn edit_choice(
    choice: &mut Choice,
    entry: &ScannedChoice,
    calls: &[ScannedCall],
    common: &Common,
    edits: &mut Edits<'_>,
) -> StreamResult<usize> {
    let text = edits.text();
    choice.edit_entry(entry, edits);
    let body = match (&entry.message, &entry.delta) {
        (Some(message), delta) if message.is_object(text) => {
            // A delta next to the message only repeats the message.
            if let Some(delta) = delta
                && !common.show_reasoning
            {
                reasoning::edit_thinking(delta, false, edits);
            }
            message
        }
        (message, Some(delta)) if delta.is_object(text) => {
            // This is a chunk in place of an answer.
            if let Some(null) = message {
                edits.remove_member(&null.member.key, &null.member.value);
            }
            edits.replace(delta.member.key.clone(), &br#""message""#[..]);
            delta
        }
        _ => return Err(StreamFault::Broken("a choice has no message")),
    };
    let mut passed_bytes = choice.edit_body(body, common, edits)?;
    if body.content.is_none() {
        let content = if body.has_rare_member || !body.call_range.is_empty() {
            &br#""content":null"#[..]
        } else {
            br#""content":"""#
        };
        edits.insert_member(body.open, content);
    }
    let ended = Ended::read(text, entry)?.unwrap_or(Ended {
        reason: finish::STOP,
        native: None,
    });
    let ended = choice.ended.insert(ended);
    let calls = calls.get(body.call_range.clone()).unwrap_or_default();
    passed_bytes += choice.calls.edit_whole(
        calls,
        finish::is_cut(ended.reason),
        &common.answer_id,
        edits,
    )?;
    choice.edit_finish(entry, Finishes::Shown, edits);
    Ok(passed_bytes)
}

fn answer_fault(fault: StreamFault) -> AnswerFault {
    match fault {
        StreamFault::Upstream(found) => AnswerFault::Upstream(found),
        StreamFault::Broken(why) => AnswerFault::Nonsense(why),
        StreamFault::Cut => AnswerFault::Nonsense("the answer is not complete"),
    }
}

#[cfg(test)]
mod tests;
