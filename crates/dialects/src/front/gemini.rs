//! Gemini's `generateContent`, as callers speak it. There are two doors, since without `alt=sse` a
//! stream is one JSON array, which is written as it comes.

mod count;
mod embed;
mod envelope;
mod errors;
mod fields;
mod models;
mod pass;
mod read;
mod references;
mod route;
mod write;

use std::borrow::Cow;

use super::{AroundStream, Contents, CountForm, ErrorForm, Front, Heard, Native};
use crate::wire::json;
pub use embed::{GEMINI_EMBED, GEMINI_EMBEDS};
use write::StreamForm;

/// Gemini's `generateContent`, and `streamGenerateContent` with server-sent events.
pub static GEMINI: Front = Front {
    counting: Some(CountForm {
        path: "/v1beta/models/{model}:countTokens",
        route: route::count,
        read: count::read,
        field: "totalTokens",
        nobody: 501,
    }),
    ..EVENTS
};

/// Gemini's `streamGenerateContent` with a JSON array.
pub static GEMINI_ARRAY: Front = Front {
    name: "gemini_array",
    paths: &[STREAM_PATH],
    route: |_, path, query| route::route(path, query, StreamForm::Array),
    errors: ErrorForm {
        // An array holds the error as an element, so it may end.
        cuts: false,
        event: errors::element,
        ..EVENTS.errors
    },
    // An element before the first one would need the beginning of the array.
    around: AroundStream {
        content_type: "application/json",
        late_header: |_, _| String::new(),
        ..AROUND
    },
    probes: "",
    native: Some(Native {
        event: pass::element,
        around: [b"[", b",\n", b"]\n"],
        ..NATIVE
    }),
    stream: |header| {
        Box::new(write::CandidatesWriter::new(
            header,
            Some(StreamForm::Array),
        ))
    },
    ..EVENTS
};

const STREAM_PATH: &str = "/v1beta/models/{model}:streamGenerateContent";

const AROUND: AroundStream = AroundStream {
    content_type: "text/event-stream",
    // Clients lose all that follows a comment. A blank line between events, or between the elements
    // of an array, they skip.
    keepalive: b"\n",
    // Clients ignore a chunk that has nothing they know.
    late_header: |name, value| {
        let name = name.rsplit('-').next().unwrap_or(name);
        format!(
            "data: {{\"x_portcullis\":{{{}:{}}}}}\n\n",
            json::quote(name),
            json::quote(value)
        )
    },
};

const EVENTS: Front = Front {
    stream_path: Some(STREAM_PATH),
    route: |_, path, query| route::route(path, query, StreamForm::Events),
    owns: |_, path| route::owns(path),
    heard: Heard {
        query_key: Some("key"),
        ..Front::COMMON.heard
    },
    errors: ErrorForm {
        // Google's clients try again after any 5xx.
        hopeless: 400,
        cuts: true,
        body: errors::body,
        event: errors::event,
        ..Front::COMMON.errors
    },
    models: models::LISTS,
    probes: include_str!("gemini/probes.json"),
    native: Some(NATIVE),
    around: AROUND,
    envelope: |front, body| envelope::read(body, front),
    contents: Contents {
        fields: &["contents", "systeminstruction"],
        is_plain: references::is_plain,
        results: &[],
        may_call: |body| {
            [&b"functionCall"[..], b"function_call"]
                .iter()
                .any(|name| memchr::memmem::find(body, name).is_some())
        },
    },
    read: read::read,
    field_name: fields::name,
    flaw_names: [
        "candidates[].content.parts[].functionCall.args",
        "generationConfig.responseJsonSchema",
        "candidates[].content.parts[].thoughtSignature",
        "candidates[].groundingMetadata",
    ],
    stream: |header| {
        Box::new(write::CandidatesWriter::new(
            header,
            Some(StreamForm::Events),
        ))
    },
    whole: |header| Box::new(write::CandidatesWriter::new(header, None)),
    ..Front::common("gemini", &["/v1beta/models/{model}:generateContent"])
};

const NATIVE: Native = Native {
    format: "gemini",
    request: pass::request,
    event: pass::event,
    around: [b"", b"", b""],
    whole: pass::whole,
};

/// Returns a field's name as it is usually written. Google reads `mime_type` as `mimeType`.
fn camel(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let mut words = name.split('_');
    let mut joined = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
    }
    Cow::Owned(joined)
}
