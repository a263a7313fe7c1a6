//! The doors of OpenAI's endpoints that hold no conversation. Each leads to one kind of endpoint,
//! to which requests pass, and whose answers pass back. What is changed is the model, and whether a
//! stream tells its usage.

use std::borrow::Cow;

use serde::Deserialize;

use super::chat::{errors, models, part, stream_options};
use super::reading::count::{Read, elements};
use super::reading::scan::{Scan, number};
use super::{
    AroundStream, CHAT, Choices, Contents, Envelope, ErrorForm, Fault, Front, Heard, Native,
    PassedAnswer, PassedRequest, form, passing, route,
};
use crate::neutral::answer::Nothing;
use crate::neutral::usage::{MOST, Units};
use crate::neutral::{Endpoint, Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Broken, Cursor, Kind};
use crate::wire::splice::Edits;

/// Texts that are continued.
pub static COMPLETIONS: Front = Front {
    name: "completions",
    route: |path, _| route::fixed(path, "completions"),
    owns: |path| route::fixed(path, "completions").is_some(),
    only: Some(Endpoint::Completions),
    native: Some(Native {
        format: "completions",
        ..NATIVE
    }),
    envelope: |body| read(body, &COMPLETIONS, &["prompt", "suffix"]),
    id_prefix: "cmpl-",
    ..BESIDE
};

/// Documents in the order in which they answer a question.
pub static RERANK: Front = Front {
    name: "rerank",
    // Cohere's own clients ask the second path.
    route: |path, _| route::fixed(path, "rerank").or_else(|| route::fixed(path, "v2/rerank")),
    owns: |path| (RERANK.route)(path, None).is_some(),
    only: Some(Endpoint::Rerank),
    native: Some(Native {
        format: "rerank",
        ..NATIVE
    }),
    envelope: |body| read(body, &RERANK, &["documents", "query"]),
    ..BESIDE
};

/// Whether a text is harmful.
pub static MODERATIONS: Front = Front {
    name: "moderations",
    route: |path, _| route::fixed(path, "moderations"),
    owns: |path| route::fixed(path, "moderations").is_some(),
    only: Some(Endpoint::Moderations),
    native: Some(Native {
        format: "moderations",
        ..NATIVE
    }),
    envelope: |body| read(body, &MODERATIONS, &["input"]),
    id_prefix: "modr-",
    ..BESIDE
};

/// Pictures.
pub static IMAGES: Front = Front {
    name: "images",
    route: |path, _| route::fixed(path, "images/generations"),
    owns: |path| route::fixed(path, "images/generations").is_some(),
    only: Some(Endpoint::Images),
    native: Some(Native {
        format: "images",
        ..NATIVE
    }),
    envelope: |body| {
        let envelope = read(body, &IMAGES, &["prompt"])?;
        let images = u32::try_from(envelope.choices.written).unwrap_or(u32::MAX);
        Ok(Envelope {
            units: Units {
                images,
                ..Units::NONE
            },
            ..envelope
        })
    },
    ..BESIDE
};

/// Pictures that are changed.
pub static EDITS: Front = Front {
    name: "image_edits",
    route: |path, _| route::fixed(path, "images/edits"),
    owns: |path| route::fixed(path, "images/edits").is_some(),
    only: Some(Endpoint::Edits),
    native: Some(Native {
        format: "image_edits",
        ..FORM
    }),
    envelope: |body| form::whole(&EDITS, body),
    ..BESIDE
};

/// Texts that are spoken.
pub static SPEECH: Front = Front {
    name: "speech",
    route: |path, _| route::fixed(path, "audio/speech"),
    owns: |path| route::fixed(path, "audio/speech").is_some(),
    only: Some(Endpoint::Speech),
    native: Some(Native {
        format: "speech",
        ..NATIVE
    }),
    // Nothing may be written into sound.
    envelope: |body| {
        let envelope = read(body, &SPEECH, &["input"])?;
        // What is paid for must not be guessed.
        let spoken = serde_json::from_slice::<Spoken<'_>>(body);
        let Spoken { input } =
            spoken.map_err(|_| Fault::of_value("input", "`input` must be a text"))?;
        let characters = u32::try_from(input.chars().count()).unwrap_or(u32::MAX);
        Ok(Envelope {
            stream: false,
            units: Units {
                characters,
                ..Units::NONE
            },
            ..envelope
        })
    },
    ..BESIDE
};

/// A request whose text is spoken.
#[derive(Deserialize)]
struct Spoken<'a> {
    #[serde(borrow)]
    input: Cow<'a, str>,
}

/// The text of a recording.
pub static TRANSCRIPTIONS: Front = Front {
    name: "transcriptions",
    route: |path, _| route::fixed(path, "audio/transcriptions"),
    owns: |path| route::fixed(path, "audio/transcriptions").is_some(),
    only: Some(Endpoint::Transcriptions),
    native: Some(Native {
        format: "transcriptions",
        ..FORM
    }),
    envelope: |body| form::whole(&TRANSCRIPTIONS, body),
    ..BESIDE
};

/// The same in English.
pub static TRANSLATIONS: Front = Front {
    name: "translations",
    route: |path, _| route::fixed(path, "audio/translations"),
    owns: |path| route::fixed(path, "audio/translations").is_some(),
    only: Some(Endpoint::Translations),
    native: Some(Native {
        format: "translations",
        ..FORM
    }),
    envelope: |body| form::whole(&TRANSLATIONS, body),
    ..BESIDE
};

/// How forms pass: what is written is the name of the model alone.
const FORM: Native = Native {
    request: |job, edits| {
        edits.replace(
            job.envelope.places.model.clone(),
            job.model.as_bytes().to_vec(),
        );
        Ok(Losses::default())
    },
    ..NATIVE
};

/// What these doors have in common.
pub(super) const BESIDE: Front = Front {
    name: "",
    route: |_, _| None,
    owns: |_| false,
    only: None,
    heard: Heard {
        sessions: &[],
        passed: &[],
        query_key: None,
    },
    errors: ErrorForm {
        unavailable: 503,
        hopeless: 503,
        overloaded: None,
        failed: None,
        cuts: false,
        obeys_waits: false,
        asks_upgrade: false,
        id_header: None,
        body: errors::body,
        event: errors::event,
    },
    models: models::LISTS,
    probes: "",
    native: None,
    vectors: None,
    counting: None,
    id_prefix: "",
    around: AroundStream {
        content_type: "text/event-stream",
        keepalive: b": keepalive\n\n",
        late_header: |name, value| format!(": {name}: {value}\n\n"),
    },
    envelope: |_| Err(Fault::plain(String::new())),
    contents: Contents {
        fields: &["input", "documents", "query", "prompt", "suffix"],
        is_plain: |name, _, is_text| is_text && name == b"text",
        results: &[],
        may_call: |_| false,
    },
    read: |_| {
        Err(Refused::invalid(
            "model",
            "this endpoint holds no conversation",
        ))
    },
    field_name: |request, field| (CHAT.field_name)(request, field),
    flaw_names: [""; 4],
    stream: |_| Box::new(Nothing::default()),
    whole: |_| Box::new(Nothing::default()),
};

/// How bodies pass.
pub(super) const NATIVE: Native = Native {
    format: "",
    request,
    event,
    around: [b"", b"", b"data: [DONE]\n\n"],
    whole,
};

/// Reads a request body. The model reads the texts of these fields; the first one must be there.
pub(super) fn read(
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
            b"stream_options" => stream_options(scan, cursor),
            b"max_tokens" => {
                let span = cursor.value()?;
                scan.envelope.most_tokens = number(cursor, &span);
                scan.envelope.max_tokens_said = scan.envelope.most_tokens.is_some();
                Ok(())
            }
            b"n" => {
                let span = cursor.value()?;
                scan.envelope
                    .choices
                    .show(number(cursor, &span).unwrap_or(1));
                Ok(())
            }
            b"best_of" if front.only == Some(Endpoint::Completions) => {
                let span = cursor.value()?;
                scan.envelope
                    .choices
                    .write(number(cursor, &span).unwrap_or(1));
                Ok(())
            }
            b"user" => {
                let kind = cursor.kind()?;
                scan.envelope.user = Some(cursor.value()?).filter(|_| kind == Kind::String);
                Ok(())
            }
            b"prompt" if front.only == Some(Endpoint::Completions) => {
                prompts = self::prompts(cursor, &mut scan.read)?;
                Ok(())
            }
            name if texts.iter().any(|text| text.as_bytes() == name) => {
                text(cursor, &mut scan.read)
            }
            name => {
                let known = ["model", "stream", "stream_options", "n"]
                    .into_iter()
                    .chain(texts.iter().copied());
                if let Some(known) = known.into_iter().find(|known| json::folds_to(name, known)) {
                    scan.note(|| Fault::case(name, known));
                }
                scan.read.setting(cursor, name)
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

/// Consumes a prompt, or a list of them. Returns how many there are.
fn prompts(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<u64, Broken> {
    if cursor.kind()? != Kind::Array {
        return text(cursor, read).map(|()| 1);
    }
    let mut count = 0;
    elements(cursor, read, |cursor, read| {
        // Numbers are the tokens of one prompt.
        count += u64::from(cursor.kind()? != Kind::Number);
        text(cursor, read)
    })?;
    Ok(count.max(1))
}

/// Consumes a text, or tokens, or a list of either. What else there is may refer to something.
fn text(cursor: &mut Cursor<'_>, read: &mut Read) -> Result<(), Broken> {
    match cursor.kind()? {
        Kind::String => read.text(cursor),
        Kind::Array => elements(cursor, read, text),
        Kind::Number => {
            read.tokens = read.tokens.saturating_add(1);
            cursor.value().map(drop)
        }
        Kind::Object => {
            read.refers = true;
            part(cursor, read)
        }
        Kind::Bool | Kind::Null => cursor.value().map(drop),
    }
}

/// Changes what must change in a request.
fn request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let envelope = job.envelope;
    if envelope.model != job.model {
        edits.replace(
            envelope.places.model.clone(),
            json::quote(job.model).into_bytes(),
        );
    }
    if envelope.stream && envelope.front.only == Some(Endpoint::Completions) {
        passing::stream_options(envelope, job.ask_usage, edits);
    }
    Ok(Losses::default())
}

/// Writes an event of a stream. The usage is for callers who asked for it.
fn event(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    if !answer.shows_usage && is_usage(event.data) {
        return;
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(&whole(event.data, answer));
    out.extend_from_slice(b"\n\n");
}

/// Returns whether an event has no choices, but the usage.
fn is_usage(data: &[u8]) -> bool {
    let (mut is_empty, mut counts) = (false, false);
    let _read = Cursor::new(data).maybe_members(|key, value| match &*json::name_of(data, &key) {
        b"choices" => {
            is_empty = json::slice(data, &value)
                .iter()
                .all(|byte| b"[] \t".contains(byte))
        }
        b"usage" => counts = json::slice(data, &value).starts_with(b"{"),
        _ => {}
    });
    is_empty && counts
}

/// Writes a whole answer.
fn whole(body: &[u8], answer: &PassedAnswer) -> Vec<u8> {
    passing::edited(body, |cursor, edits| {
        let text = cursor.text();
        cursor.maybe_object(|cursor, key| match &*json::name_of(text, &key) {
            b"model" => answer.model(cursor, edits),
            b"usage" => {
                let value = cursor.value()?;
                if !can_be_usage(json::slice(text, &value)) {
                    edits.remove_member(&key, &value);
                }
                Ok(value)
            }
            _ => cursor.value(),
        })
    })
}

/// Returns whether all counts of a usage can be. One that cannot is shown to nobody: these answers
/// need none, and what is booked is not it.
fn can_be_usage(usage: &[u8]) -> bool {
    let mut can_be = true;
    let mut cursor = Cursor::new(usage);
    // The answer was read before.
    let _read = counts(&mut cursor, &mut can_be);
    can_be
}

/// Consumes a usage, or a part of one, and looks at its numbers.
fn counts(cursor: &mut Cursor<'_>, can_be: &mut bool) -> Result<(), Broken> {
    let text = cursor.text();
    match cursor.kind()? {
        Kind::Number => {
            let span = cursor.value()?;
            let number: Option<f64> = std::str::from_utf8(json::slice(text, &span))
                .ok()
                .and_then(|n| n.parse().ok());
            *can_be &= number.is_some_and(|number| (0.0..=MOST_COUNT).contains(&number));
            Ok(())
        }
        Kind::Object => cursor.object(|cursor, _| counts(cursor, can_be)).map(drop),
        Kind::Array => cursor.array(|cursor, _| counts(cursor, can_be)).map(drop),
        Kind::String | Kind::Bool | Kind::Null => cursor.value().map(drop),
    }
}

/// No request uses more of anything.
const MOST_COUNT: f64 = MOST as f64;

#[cfg(test)]
mod tests;
