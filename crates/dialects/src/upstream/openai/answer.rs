//! This module makes a buffered answer standard.
//!
//! A buffered answer is whole because its JSON is whole. So a missing finish reason is `stop` here
//! (or `tool_calls`). In a stream it would mean that the answer was cut.

use super::choice::{Choice, Common, Ended, Finishes};
use super::chunks::Chunks;
use super::head::Head;
use super::meter::{self, Counts};
use super::shape::{CallShape, ChoiceShape, Shape, set};
use super::{error, finish, reasoning};
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Flaws, StreamFault};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{integer_of, slice};
use crate::wire::splice::Edits;

/// Reads a buffered answer. An event stream is refused, even if it has a whole answer.
pub fn answer(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    let mut shape = Shape::default();
    let lossy;
    let text = if shape.read(body).is_ok() {
        body
    } else {
        lossy = String::from_utf8_lossy(body);
        if shape.read(lossy.as_bytes()).is_err() {
            let nonsense = AnswerFault::Nonsense("the answer is not a JSON object");
            return Err(error::hidden(body).map_or(nonsense, AnswerFault::Upstream));
        }
        lossy.as_bytes()
    };
    if let Some(found) = shape.error(text) {
        return Err(AnswerFault::Upstream(found));
    }
    if let Some(why) = shape.too_many {
        return Err(AnswerFault::Nonsense(why));
    }
    if shape.list.is_empty() {
        return Err(AnswerFault::Nonsense("the answer has no choices"));
    }
    let common = Common::new(header, show_reasoning);
    let mut head = Head::new(header);
    head.learn(text, &shape);
    let mut edits = Edits::new(text);
    head.edit(&shape, br#""chat.completion""#, &mut edits);
    let (mut said, mut answers, mut declines, mut flaws) = (0, false, false, Flaws::default());
    for (entry, index) in shape.list.iter().zip(indices(text, &shape.list)) {
        let mut choice = Choice::new(0, index);
        said += edit_choice(&mut choice, entry, &shape.calls, &common, &mut edits)?;
        answers |= choice.answers;
        declines |= choice.declines();
        flaws.add(choice.flaws(common.wants_json));
    }
    let usage = edit_usage(header, quirks, &shape, said as u64, &mut edits);
    let mut body = Vec::new();
    edits.apply_into(&mut body);
    Ok(Answer { body, usage, declined: declines && !answers, flaws })
}

/// Reads a buffered answer in place of a stream that was asked for, and writes it as a stream.
pub fn converted(
    header: &AnswerHeader,
    quirks: &'static Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    let Answer { body, usage, declined, flaws } = answer(header, quirks, show_reasoning, body)?;
    let mut chunks = Chunks::new(header, &Quirks::NONE, show_reasoning);
    let mut events = Vec::new();
    chunks.event(b"", &body, &mut events).map_err(fault)?;
    chunks.reported.is_estimate = usage.source == Source::Estimated;
    chunks.finish(&mut events, None).map_err(fault)?;
    Ok(Answer { body: events, usage, declined, flaws })
}

/// Returns the index of each choice: its own if the indexes are complete, else its place.
fn indices(text: &[u8], choices: &[ChoiceShape]) -> Vec<usize> {
    let mut seen = vec![false; choices.len()];
    let own = choices.iter().map(|choice| {
        let index = usize::try_from(integer_of(text, &choice.index.as_ref()?.value)?).ok()?;
        let is_new = !std::mem::replace(seen.get_mut(index)?, true);
        is_new.then_some(index)
    });
    own.collect::<Option<Vec<_>>>().unwrap_or_else(|| (0..choices.len()).collect())
}

/// Corrects an entry of `choices`. Returns the number of bytes of its text.
fn edit_choice(
    choice: &mut Choice,
    entry: &ChoiceShape,
    calls: &[CallShape],
    common: &Common,
    edits: &mut Edits<'_>,
) -> Result<usize, AnswerFault> {
    choice.edit_entry(entry, edits);
    let body = match (&entry.in_message, &entry.in_delta, &entry.delta) {
        (Some(message), ..) => message,
        (None, Some(delta), Some(member)) => {
            // This is a chunk in place of an answer.
            if let Some(null) = &entry.message {
                edits.remove_member(&null.key, &null.value);
            }
            edits.replace(member.key.clone(), &br#""message""#[..]);
            delta
        }
        (None, ..) => return Err(AnswerFault::Nonsense("a choice has no message")),
    };
    let mut said = choice.edit_body(body, common, edits).map_err(AnswerFault::Nonsense)?;
    // A delta beside the message only repeats the message.
    if let (Some(_), Some(delta)) = (&entry.in_message, &entry.in_delta)
        && !common.show_reasoning
    {
        reasoning::edit(delta, false, edits);
    }
    if body.content.is_none() {
        let content =
            if body.is_special || !body.call_range.is_empty() { &br#""content":null"#[..] } else { br#""content":"""# };
        edits.insert_member(body.open, content);
    }
    let ended = Ended::read(edits.text(), entry).map_err(AnswerFault::Upstream)?;
    let ended = choice.ended.insert(ended.unwrap_or(Ended { reason: finish::STOP, native: None }));
    let calls = calls.get(body.call_range.clone()).unwrap_or_default();
    let edited = choice.calls.edit_whole(calls, finish::is_cut(ended.reason), &common.ids, edits);
    said += edited.map_err(AnswerFault::Nonsense)?;
    choice.edit_finish(entry, Finishes::Shown, edits);
    Ok(said)
}

fn edit_usage(header: &AnswerHeader, quirks: &Quirks, shape: &Shape, said: u64, edits: &mut Edits<'_>) -> Usage {
    let text = edits.text();
    let span = shape.usage.as_ref().map(|usage| &usage.value);
    let counts = span.and_then(|span| Counts::read(text, span));
    let usage = match counts {
        Some(counts) => counts.settle(quirks, header.prompt_bytes, said),
        None => Usage::estimated(header.prompt_bytes, said),
    };
    let old = span.filter(|_| counts.is_some_and(|counts| counts.are_believed())).map(|span| slice(text, span));
    set(edits, shape.open, br#""usage""#, &shape.usage, meter::write(old, &usage, header.cost));
    usage
}

fn fault(fault: StreamFault) -> AnswerFault {
    match fault {
        StreamFault::Upstream(found) => AnswerFault::Upstream(found),
        StreamFault::Broken(why) => AnswerFault::Nonsense(why),
        StreamFault::Cut => AnswerFault::Nonsense("the answer has no end"),
    }
}

#[cfg(test)]
mod tests;
