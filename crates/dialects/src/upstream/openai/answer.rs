//! A buffered answer, made standard.
//!
//! It is whole because its JSON is: nothing of it was cut. So a finish reason that is missing here
//! is `stop` (or `tool_calls`), while in a stream it would be a cut.

use super::calls::{self, Ids};
use super::choice::Common;
use super::chunks::Chunks;
use super::finish::{self, Finish};
use super::head::Head;
use super::meter::{self, Counts};
use super::shape::{self, Call, Shape};
use super::{content, digits, error, reasoning};
use crate::neutral::usage::{Source, Usage};
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Flaws, StreamFault, flaws};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{self, Pieces, integer_of, slice};
use crate::wire::splice::Edits;

/// Reads a buffered answer. An event stream is none, even if it holds a whole answer.
pub fn answer(
    header: &AnswerHeader,
    quirks: &Quirks,
    show_reasoning: bool,
    body: &[u8],
) -> Result<Answer, AnswerFault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii();
    let mut shape = Shape::default();
    if shape.read(body).is_ok() {
        return standard(header, quirks, show_reasoning, body, &shape);
    }
    let lossy = String::from_utf8_lossy(body);
    let text = lossy.as_bytes();
    if text != body && shape.read(text).is_ok() {
        return standard(header, quirks, show_reasoning, text, &shape);
    }
    Err(match error::hidden(body) {
        Some(found) => AnswerFault::Upstream(found),
        None => AnswerFault::Nonsense("the answer is not a JSON object"),
    })
}

/// Reads a buffered answer that came where a stream was asked for, and writes it as one.
pub fn converted(
    header: &AnswerHeader,
    quirks: &Quirks,
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

fn standard(
    header: &AnswerHeader,
    quirks: &Quirks,
    show_reasoning: bool,
    text: &[u8],
    shape: &Shape,
) -> Result<Answer, AnswerFault> {
    if let Some(found) = shape.error(text) {
        return Err(AnswerFault::Upstream(found));
    }
    if let Some(why) = shape.too_many {
        return Err(AnswerFault::Nonsense(why));
    }
    if shape.list.is_empty() {
        return Err(AnswerFault::Nonsense("the answer has no choices"));
    }
    let common = Common { ids: Ids::new(header), show_reasoning, wants_json: header.wants_json };
    let mut head = Head::new(header);
    head.learn(text, shape);
    let mut edits = Edits::default();
    head.edit(text, shape, br#""chat.completion""#, &mut edits);
    let (mut said, mut answers, mut declines, mut flaws) = (0, false, false, Flaws::default());
    let indices = indices(text, &shape.list);
    for (choice, at) in shape.list.iter().zip(indices) {
        let told = edit_choice(text, choice, &shape.calls, at, &common, &mut edits)?;
        said += told.bytes;
        answers |= told.answers;
        declines |= told.declines;
        flaws.add(told.flaws);
    }
    let usage = edit_usage(header, quirks, text, shape, said as u64, &mut edits);
    let mut body = Vec::new();
    edits.apply_into(text, &mut body);
    Ok(Answer { body, usage, declined: declines && !answers, flaws })
}

/// What a choice tells.
struct Told {
    bytes: usize,
    /// Something that a caller can use.
    answers: bool,
    /// That there will be no answer, or no more of it.
    declines: bool,
    flaws: Flaws,
}

/// The index of each choice: its own if they fit together, else its place.
fn indices(text: &[u8], choices: &[shape::Choice]) -> Vec<usize> {
    let mut seen = vec![false; choices.len()];
    let own = choices.iter().map(|choice| {
        let index = usize::try_from(integer_of(text, &choice.index.as_ref()?.value)?).ok()?;
        let is_new = !std::mem::replace(seen.get_mut(index)?, true);
        is_new.then_some(index)
    });
    own.collect::<Option<Vec<_>>>().unwrap_or_else(|| (0..choices.len()).collect())
}

/// Puts right an entry of `choices`.
fn edit_choice(
    text: &[u8],
    choice: &shape::Choice,
    calls: &[Call],
    at: usize,
    common: &Common,
    edits: &mut Edits<'_>,
) -> Result<Told, AnswerFault> {
    let nonsense = AnswerFault::Nonsense;
    match &choice.index {
        Some(index) if slice(text, &index.value) == &*digits(at) => {}
        Some(index) => edits.replace(index.value.clone(), digits(at)),
        None => edits.insert_member(choice.open, [b"\"index\":", &*digits(at)].concat()),
    }
    if let Some(logprobs) = &choice.logprobs
        && !logprobs.is_logprobs(text)
    {
        edits.replace(logprobs.value.clone(), &b"null"[..]);
    }
    let body = match (&choice.in_message, &choice.in_delta, &choice.delta) {
        (Some(message), ..) => message,
        (None, Some(delta), Some(member)) => {
            // A chunk in the place of an answer.
            if let Some(null) = &choice.message {
                edits.remove_member(&null.key, &null.value);
            }
            edits.replace(member.key.clone(), &br#""message""#[..]);
            delta
        }
        (None, ..) => return Err(nonsense("a choice has no message")),
    };
    if body.has_odd_calls(text) {
        return Err(nonsense("`tool_calls` is not an array"));
    }
    match &body.role {
        Some(role) if slice(text, &role.value) == br#""assistant""# => {}
        Some(role) => edits.replace(role.value.clone(), &br#""assistant""#[..]),
        None => edits.insert_member(body.open, &br#""role":"assistant""#[..]),
    }
    let mut said = body.said + content::edit(text, body, common.show_reasoning, edits).map_err(nonsense)?;
    reasoning::edit(text, body, common.show_reasoning, edits);
    // A delta beside the message only repeats it.
    if let (Some(_), Some(delta)) = (&choice.in_message, &choice.in_delta)
        && !common.show_reasoning
    {
        reasoning::edit(text, delta, false, edits);
    }
    if body.content.is_none() {
        let content =
            if body.is_special || !body.call_range.is_empty() { &br#""content":null"#[..] } else { br#""content":"""# };
        edits.insert_member(body.open, content);
    }
    let calls = calls.get(body.call_range.clone()).unwrap_or_default();
    let reason = edit_finish(text, choice, !calls.is_empty(), edits)?;
    let is_cut = finish::is_cut(reason);
    let (arguments, broken_calls) = calls::whole(text, calls, is_cut, &common.ids, at, edits).map_err(nonsense)?;
    said += arguments;
    let flaws =
        if is_cut || body.refuses { Flaws::default() } else { flaws_of(text, body, broken_calls, common.wants_json) };
    Ok(Told { bytes: said, answers: body.answers(text), declines: body.refuses || reason == finish::FILTERED, flaws })
}

/// What is wrong with a message that is whole.
fn flaws_of(text: &[u8], body: &shape::Body, broken_calls: u32, wants_json: bool) -> Flaws {
    let mut broken_calls = broken_calls;
    if let Some(call) = &body.old_call {
        let mut arguments = Pieces::default();
        calls::take_old(text, call, &mut arguments);
        broken_calls += u32::from(flaws::is_broken(&arguments));
    }
    let mut content = Pieces::default();
    let not_json = wants_json && body.call_range.is_empty() && body.old_call.is_none() && {
        content::take(text, body, &mut content);
        !content.is_whole()
    };
    Flaws { broken_calls, not_json }
}

/// Puts right why a choice ended; returns the reason.
fn edit_finish(
    text: &[u8],
    choice: &shape::Choice,
    made_calls: bool,
    edits: &mut Edits<'_>,
) -> Result<&'static str, AnswerFault> {
    let said = choice.finish.as_ref().map_or(Finish::Unsaid, |member| finish::read(text, &member.value));
    let (reason, native) = match said {
        Finish::Unsaid => (finish::STOP, None),
        Finish::Ended(reason) => (reason, None),
        Finish::EndedBy(word) => (finish::STOP, Some(word)),
        Finish::Failed(word) => {
            return Err(AnswerFault::Upstream(error::hidden(text).unwrap_or_else(|| error::gave_up(word))));
        }
    };
    let literal = json::quote(finish::shown(reason, made_calls)).into_bytes();
    match &choice.finish {
        Some(member) if slice(text, &member.value) == literal => {}
        Some(member) => edits.replace(member.value.clone(), literal),
        None => edits.insert_member(choice.open, [br#""finish_reason":"#, &*literal].concat()),
    }
    if let Some(word) = native.filter(|_| !choice.has_native_finish) {
        let native = format!(r#""native_finish_reason":{}"#, json::quote(&word));
        edits.insert_member(choice.open, native.into_bytes());
    }
    Ok(reason)
}

fn edit_usage(
    header: &AnswerHeader,
    quirks: &Quirks,
    text: &[u8],
    shape: &Shape,
    said: u64,
    edits: &mut Edits<'_>,
) -> Usage {
    let span = shape.usage.as_ref().map(|usage| usage.value.clone());
    let counts = span.as_ref().and_then(|span| Counts::read(text, span));
    let usage = match counts {
        Some(counts) => counts.settle(quirks, header.prompt_bytes, said),
        None => Usage::estimated(header.prompt_bytes, said),
    };
    let old = span.filter(|_| counts.is_some_and(|counts| counts.are_believed())).map(|span| slice(text, &span));
    let new = meter::write(old, &usage, header.cost);
    match &shape.usage {
        Some(_) if old == Some(&*new) => {}
        Some(member) => edits.replace(member.value.clone(), new),
        None => edits.insert_member(shape.open, [br#""usage":"#, &*new].concat()),
    }
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
