//! The front doors of Gemini's `generateContent`. There are two doors: a stream without `alt=sse`
//! is one JSON array, which is written as it comes.

mod count;
mod embed;
mod envelope;
mod errors;
mod models;
mod pass;
mod read;
mod references;
mod route;
mod write;

use std::borrow::Cow;

use super::fields::Wording;
use super::{Contents, CountForm, ErrorForm, Front, Native, RequestExtras, StreamFrame};
use crate::wire::json;
pub use embed::{GEMINI_EMBED, GEMINI_EMBEDS};
use write::StreamForm;

/// Gemini's `generateContent`, and `streamGenerateContent` with server-sent events.
pub static GEMINI: Front = Front {
    counting: Some(CountForm {
        path: "/v1beta/models/{model}:countTokens",
        route: route::route_count,
        read: count::read_count,
        field: "totalTokens",
        uncountable_status: 501,
    }),
    ..EVENTS
};

/// Gemini's `streamGenerateContent` with a JSON array.
pub static GEMINI_ARRAY: Front = Front {
    name: "gemini_array",
    paths: &[STREAM_PATH],
    route: |_, path, query| route::route_path(path, query, StreamForm::Array),
    errors: ErrorForm {
        // An array holds the error as an element, so it may end.
        cut_after_error: false,
        final_event: errors::error_element,
        ..EVENTS.errors
    },
    // An element before the first one would need the beginning of the array.
    stream_frame: StreamFrame {
        content_type: "application/json",
        late_header: |_, _| String::new(),
        ..STREAM_FRAME
    },
    probes: "",
    native: Some(Native {
        event: pass::write_element,
        event_separators: [b"[", b",\n", b"]\n"],
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

const STREAM_FRAME: StreamFrame = StreamFrame {
    content_type: "text/event-stream",
    // Clients lose all that follows a comment. A blank line between events, or between the elements
    // of an array, they skip.
    keepalive: b"\n",
    // Clients ignore a chunk without fields that they know.
    late_header: |name, value| {
        let name = name.rsplit('-').next().unwrap_or(name);
        format!(
            "data: {{\"x_portcullis\":{{{}:{}}}}}\n\n",
            json::quote_string(name),
            json::quote_string(value)
        )
    },
};

const EVENTS: Front = Front {
    stream_path: Some(STREAM_PATH),
    route: |_, path, query| route::route_path(path, query, StreamForm::Events),
    owns: |_, path| route::owns_path(path),
    extras: RequestExtras {
        query_key: Some("key"),
        ..Front::COMMON.extras
    },
    errors: ErrorForm {
        // Google's clients try again after any 5xx.
        hopeless_status: 400,
        cut_after_error: true,
        body: errors::error_body,
        final_event: errors::error_event,
        ..Front::COMMON.errors
    },
    models: models::LISTS,
    probes: include_str!("gemini/probes.json"),
    native: Some(NATIVE),
    stream_frame: STREAM_FRAME,
    envelope: |front, body| envelope::read_envelope(body, front),
    contents: Contents {
        fields: &["contents", "systeminstruction"],
        may_refer: |name, _, _| references::may_refer(name),
        results: &[],
        call_marks: &["functionCall", "function_call"],
    },
    read: read::read_request,
    field_name: |request, field| Wording::Gemini.field_name(request, field),
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
    request: pass::edit_request,
    event: pass::write_event,
    event_separators: [b"", b"", b""],
    whole: pass::write_answer,
};

/// Returns a field's name as it is usually written. Google reads `mime_type` as `mimeType`.
fn camel_name(name: &str) -> Cow<'_, str> {
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
