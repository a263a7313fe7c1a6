//! The front door of Anthropic's Messages.

mod envelope;
mod errors;
mod models;
mod pass;
mod read;
mod references;
mod write;

use super::fields::Wording;
use super::{Contents, CountForm, ErrorForm, Front, Native, RequestExtras, StreamFrame, route};
use crate::neutral::Endpoint;

/// The front door of Anthropic's Messages.
pub static MESSAGES: Front = Front {
    extras: RequestExtras {
        session_headers: &["x-claude-code-session-id"],
        passed_headers: &["anthropic-beta"],
        ..Front::COMMON.extras
    },
    errors: ErrorForm {
        overloaded_status: Some(529),
        id_header: Some("request-id"),
        body: errors::error_body,
        final_event: errors::error_event,
        ..Front::COMMON.errors
    },
    models: models::LISTS,
    probes: include_str!("messages/probes.json"),
    native: Some(Native {
        format: "messages",
        request: pass::edit_request,
        event: pass::write_event,
        event_separators: [b"", b"", b""],
        whole: pass::write_answer,
    }),
    counting: Some(CountForm {
        path: "/v1/messages/count_tokens",
        route: |path, _| route::route_fixed(path, "/v1/messages/count_tokens"),
        read: |body, _| envelope::to_count(&body).map(|envelope| (body, envelope)),
        field: "input_tokens",
        uncountable_status: 404,
    }),
    stream_frame: StreamFrame {
        // Clients skip this event, wherever it comes.
        keepalive: b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
        ..Front::COMMON.stream_frame
    },
    envelope: |_, body| envelope::read_envelope(body),
    contents: Contents {
        fields: &["messages", "system"],
        may_refer: |name, _, is_text| references::may_refer(name, is_text),
        results: &["search_result", "web_search_result", "web_fetch_result"],
        call_marks: &["\"tool_use\""],
    },
    read: read::read_request,
    field_name: |request, field| Wording::Messages.field_name(request, field),
    flaw_names: [
        "content[].input",
        "output_config.format",
        "content[].signature",
        "content[].citations",
    ],
    stream: |header| Box::new(write::MessageWriter::new(header, true)),
    whole: |header| Box::new(write::MessageWriter::new(header, false)),
    ..Front::of_endpoint(Endpoint::Messages)
};
