//! The front door of OpenAI's Responses. Nothing is stored: each request has its whole
//! conversation.

mod envelope;
mod errors;
mod items;
mod pass;
mod read;
mod references;
mod write;

use super::fields::Wording;
use super::{Contents, ErrorForm, Front, Native, RequestExtras};
use crate::neutral::Endpoint;

/// The front door of OpenAI's Responses.
pub static RESPONSES: Front = Front {
    extras: RequestExtras {
        session_headers: &["session-id", "session_id", "thread-id"],
        ..Front::COMMON.extras
    },
    // Codex sends thirty requests after each status of 500 and more. After 429 it sends few, and
    // none without a time to wait.
    errors: ErrorForm {
        unavailable_status: 429,
        hopeless_status: 429,
        failed_status: Some(429),
        obeys_long_waits: true,
        asks_upgrade: true,
        body: errors::error_body,
        final_event: errors::error_event,
        ..Front::COMMON.errors
    },
    probes: include_str!("responses/probes.json"),
    native: Some(Native {
        format: "responses",
        request: pass::edit_request,
        event: pass::write_event,
        event_separators: [b"", b"", b""],
        whole: pass::write_answer,
    }),
    envelope: |_, body| envelope::read_envelope(body),
    contents: Contents {
        fields: &["input", "instructions"],
        may_refer: |name, _, is_text| match is_text {
            true => references::may_refer_as_text(name),
            false => references::may_refer(name),
        },
        results: &[],
        call_marks: &["_call\""],
    },
    read: read::read_request,
    field_name: |request, field| Wording::Responses.field_name(request, field),
    flaw_names: [
        "output[].arguments",
        "text.format",
        "output[].encrypted_content",
        "output[].content[].annotations",
    ],
    stream: |header| Box::new(write::ResponseWriter::stream(header)),
    whole: |header| Box::new(write::ResponseWriter::whole(header)),
    ..Front::of_endpoint(Endpoint::Responses)
};
