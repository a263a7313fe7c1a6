//! The front doors of the endpoints without a conversation: `/v1/audio/speech`, `/v1/images/edits`,
//! `/v1/rerank` and others, but not those for vectors. Each door follows from the facts of its kind
//! of endpoint. Requests and answers pass; only the model, and the usage of a stream, are changed.

use std::borrow::Cow;

use serde::Deserialize;

use super::chat::{scan_part, scan_stream_options};
use super::reading::count::{ReadTotals, each_element};
use super::reading::scan::{Scan, lenient_number, read_choice_count};
use super::{Choices, Envelope, Fault, Front, Native, PassedAnswer, PassedRequest, form, passing};
use crate::neutral::usage::MAX_TOKENS;
use crate::neutral::{Endpoint, EndpointAnswer, EndpointBody, Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Cursor, Kind, ScanResult};
use crate::wire::splice::Edits;

/// The front door of each kind of endpoint without a door of its own.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler does it, and would not compile a panic"
)]
pub(super) static OTHERS: [Front; Endpoint::ALL.len()] = {
    let mut doors = [Front::COMMON; Endpoint::ALL.len()];
    let mut index = 0;
    while index < doors.len() {
        doors[index] = endpoint_door(Endpoint::ALL[index]);
        index += 1;
    }
    doors
};

/// Returns the front door of a kind of endpoint.
pub(super) const fn endpoint_door(endpoint: Endpoint) -> Front {
    let facts = endpoint.facts();
    Front {
        only_endpoint: Some(endpoint),
        native: Some(Native {
            format: facts.name,
            ..NATIVE
        }),
        ..Front::of_endpoint(endpoint)
    }
}

/// Reads a request body, and the units of its price that are not tokens.
pub(super) fn read_paid_envelope(front: &'static Front, body: &[u8]) -> Result<Envelope, Fault> {
    let facts = front.only_endpoint.unwrap_or_default().facts();
    let EndpointBody::Json(texts) = facts.body else {
        return form::read_whole_form(front, body);
    };
    let mut envelope = read_envelope(body, front, texts)?;
    match facts.answer {
        EndpointAnswer::Pictures => {
            envelope.units.images = u32::try_from(envelope.choices.written).unwrap_or(u32::MAX);
        }
        EndpointAnswer::Sound => {
            // The units decide the price, so they are never guessed.
            let Spoken { input } = serde_json::from_slice(body)
                .map_err(|_| Fault::of_value("input", "`input` must be a text"))?;
            envelope.units.characters = u32::try_from(input.chars().count()).unwrap_or(u32::MAX);
            // A stream of sound has no room for other events.
            envelope.stream = false;
        }
        EndpointAnswer::Message
        | EndpointAnswer::Choices
        | EndpointAnswer::Vectors
        | EndpointAnswer::Results
        | EndpointAnswer::Transcript => {}
    }
    Ok(envelope)
}

/// A request whose text is spoken.
#[derive(Deserialize)]
struct Spoken<'a> {
    #[serde(borrow)]
    input: Cow<'a, str>,
}

/// The changes in a body that passes.
pub(super) const NATIVE: Native = Native {
    format: "",
    request: edit_request,
    event: write_event,
    event_separators: [b"", b"", b"data: [DONE]\n\n"],
    whole: write_answer,
};

/// Reads a request body. The model reads the texts of these fields; the first one must be there.
pub(super) fn read_envelope(
    body: &[u8],
    front: &'static Front,
    texts: &[&'static str],
) -> Result<Envelope, Fault> {
    let needed = texts.first().copied();
    let (mut is_there, mut prompts) = (false, 1);
    let mut scan = Scan::over(body, front, |scan, cursor, name| {
        is_there |= needed.is_some_and(|needed| needed.as_bytes() == name);
        match name {
            b"model" => scan.model(cursor),
            b"stream" => {
                scan.envelope.stream = scan.flag(cursor, "stream")?.0.unwrap_or(false);
                if scan.envelope.stream && !front.streams() {
                    let message = "`stream` must be false: this endpoint answers as a whole";
                    scan.note(|| Fault::of_value("stream", message));
                }
                Ok(())
            }
            b"stream_options" => scan_stream_options(scan, cursor),
            b"max_tokens" => {
                let span = cursor.value()?;
                scan.envelope.max_tokens = lenient_number(cursor, &span);
                scan.envelope.has_max_tokens = scan.envelope.max_tokens.is_some();
                Ok(())
            }
            b"n" => {
                scan.envelope.choices.set_shown(read_choice_count(cursor)?);
                Ok(())
            }
            b"best_of" if front.only_endpoint == Some(Endpoint::Completions) => {
                scan.envelope
                    .choices
                    .raise_written(read_choice_count(cursor)?);
                Ok(())
            }
            b"user" => {
                let kind = cursor.kind()?;
                scan.envelope.user = Some(cursor.value()?).filter(|_| kind == Kind::String);
                Ok(())
            }
            b"prompt" if front.only_endpoint == Some(Endpoint::Completions) => {
                prompts = self::scan_prompts(cursor, &mut scan.totals)?;
                Ok(())
            }
            name if texts.iter().any(|text| text.as_bytes() == name) => {
                scan_text(cursor, &mut scan.totals)
            }
            name => {
                let known = ["model", "stream", "stream_options", "n"]
                    .into_iter()
                    .chain(texts.iter().copied());
                if let Some(known) = known.into_iter().find(|known| json::folds_to(name, known)) {
                    scan.note(|| Fault::wrong_case(name, known));
                }
                scan.totals.count_setting(cursor, name)
            }
        }
    })?;
    let Choices { shown, written } = scan.envelope.choices;
    scan.envelope.choices = Choices {
        shown: shown.saturating_mul(prompts),
        written: written.saturating_mul(prompts),
    };
    scan.envelope(needed.filter(|_| !is_there))
}

/// Consumes a prompt, or a list of prompts. Returns the number of prompts.
fn scan_prompts(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<u64> {
    if cursor.kind()? != Kind::Array {
        return scan_text(cursor, totals).map(|()| 1);
    }
    let mut count = 0;
    each_element(cursor, totals, |cursor, totals| {
        // Numbers are the tokens of one prompt.
        count += u64::from(cursor.kind()? != Kind::Number);
        scan_text(cursor, totals)
    })?;
    Ok(count.max(1))
}

/// Consumes a text, or tokens, or a list of either. Any other value may refer to something.
fn scan_text(cursor: &mut Cursor<'_>, totals: &mut ReadTotals) -> ScanResult<()> {
    match cursor.kind()? {
        Kind::String => totals.count_text(cursor),
        Kind::Array => each_element(cursor, totals, scan_text),
        Kind::Number => {
            totals.tokens = totals.tokens.saturating_add(1);
            cursor.skip()
        }
        Kind::Object => {
            totals.may_refer = true;
            scan_part(cursor, totals)
        }
        Kind::Bool | Kind::Null => cursor.skip(),
    }
}

/// Makes the changes in a request.
fn edit_request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let envelope = job.envelope;
    if envelope.front.is_form() {
        let place = envelope.places.model.clone();
        edits.replace(place, job.model.as_bytes().to_vec());
    } else {
        job.write_model(edits);
    }
    if envelope.stream && envelope.front.only_endpoint == Some(Endpoint::Completions) {
        passing::stream_options(envelope, job.ask_usage, edits);
    }
    Ok(Losses::default())
}

/// Writes an event of a stream. The usage is for callers who asked for it.
fn write_event(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    if !answer.shows_usage && is_usage(event.data) {
        return;
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&write_answer(event.data, answer));
    out.extend_from_slice(b"\n\n");
}

/// Returns whether an event has no choices, but the usage.
fn is_usage(data: &[u8]) -> bool {
    let (mut is_empty, mut counts) = (false, false);
    let _read = Cursor::new(data).maybe_members(|key, value| match &*json::name_of(data, &key) {
        b"choices" => {
            is_empty = json::span_bytes(data, &value)
                .iter()
                .all(|byte| b"[] \t".contains(byte))
        }
        b"usage" => counts = json::span_bytes(data, &value).starts_with(b"{"),
        _ => {}
    });
    is_empty && counts
}

/// Writes a whole answer.
fn write_answer(body: &[u8], answer: &PassedAnswer) -> Vec<u8> {
    passing::edit_answer(body, |cursor, edits| {
        let text = cursor.text();
        cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
            b"model" => answer.model(cursor, edits),
            b"usage" => {
                let value = cursor.value()?;
                if !can_be_usage(json::span_bytes(text, &value)) {
                    edits.remove_member(&key, &value);
                }
                Ok(value)
            }
            _ => cursor.value(),
        })
    })
}

/// Returns whether all counts of a usage are possible. An impossible usage is left out of the
/// answer: these answers need none, and the ledger has another figure.
fn can_be_usage(usage: &[u8]) -> bool {
    let mut can_be = true;
    let mut cursor = Cursor::new(usage);
    // The answer was read before.
    let _read = check_counts(&mut cursor, &mut can_be);
    can_be
}

/// Consumes a usage, or a part of one, and checks its numbers.
fn check_counts(cursor: &mut Cursor<'_>, can_be: &mut bool) -> ScanResult<()> {
    let text = cursor.text();
    match cursor.kind()? {
        Kind::Number => {
            let span = cursor.value()?;
            let number: Option<f64> = str::from_utf8(json::span_bytes(text, &span))
                .ok()
                .and_then(|n| n.parse().ok());
            *can_be &= number.is_some_and(|number| (0.0..=MAX_COUNT).contains(&number));
            Ok(())
        }
        Kind::Object => cursor
            .object(|cursor, _| check_counts(cursor, can_be))
            .map(drop),
        Kind::Array => cursor
            .array(|cursor, _| check_counts(cursor, can_be))
            .map(drop),
        Kind::String | Kind::Bool | Kind::Null => cursor.skip(),
    }
}

/// No request uses more of anything than this.
const MAX_COUNT: f64 = MAX_TOKENS as f64;

#[cfg(test)]
mod tests;
