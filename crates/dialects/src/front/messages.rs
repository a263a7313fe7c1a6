//! Anthropic's Messages, as callers speak them.

mod envelope;
mod errors;
mod fields;
mod models;
mod pass;
mod read;
mod references;
mod write;

use super::{AroundStream, Contents, CountForm, ErrorForm, Front, Heard, Native, route};
use crate::neutral::Endpoint;

/// Anthropic's Messages.
pub static MESSAGES: Front = Front {
    heard: Heard {
        sessions: &["x-claude-code-session-id"],
        passed: &["anthropic-beta"],
        ..Front::COMMON.heard
    },
    errors: ErrorForm {
        overloaded: Some(529),
        id_header: Some("request-id"),
        body: errors::body,
        event: errors::event,
        ..Front::COMMON.errors
    },
    models: models::LISTS,
    probes: include_str!("messages/probes.json"),
    native: Some(Native {
        format: "messages",
        request: pass::request,
        event: pass::event,
        around: [b"", b"", b""],
        whole: pass::whole,
    }),
    counting: Some(CountForm {
        path: "/v1/messages/count_tokens",
        route: |path, _| route::fixed(path, "/v1/messages/count_tokens"),
        read: |body, _| envelope::to_count(&body).map(|envelope| (body, envelope)),
        field: "input_tokens",
        nobody: 404,
    }),
    around: AroundStream {
        // Clients skip this event, wherever it comes.
        keepalive: b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
        ..Front::COMMON.around
    },
    envelope: |_, body| envelope::read(body),
    contents: Contents {
        fields: &["messages", "system"],
        is_plain: references::is_plain,
        results: &["search_result", "web_search_result", "web_fetch_result"],
        may_call: |body| memchr::memmem::find(body, b"\"tool_use\"").is_some(),
    },
    read: read::read,
    field_name: fields::name,
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
