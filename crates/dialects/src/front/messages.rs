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

const PATH: &str = "messages";

/// Anthropic's Messages.
pub static MESSAGES: Front = Front {
    name: "messages",
    route: |path, _| route::fixed(path, PATH),
    owns: |path| route::after(path, PATH).is_some(),
    only: None,
    heard: Heard {
        sessions: &["x-claude-code-session-id"],
        passed: &["anthropic-beta"],
        query_key: None,
    },
    errors: ErrorForm {
        unavailable: 503,
        hopeless: 503,
        overloaded: Some(529),
        failed: None,
        cuts: false,
        obeys_waits: false,
        asks_upgrade: false,
        id_header: Some("request-id"),
        body: errors::body,
        event: errors::event,
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
    vectors: None,
    counting: Some(CountForm {
        route: |path, _| route::fixed(path, "messages/count_tokens"),
        read: |body, _| envelope::to_count(&body).map(|envelope| (body, envelope)),
        field: "input_tokens",
        nobody: 404,
    }),
    id_prefix: "msg_",
    around: AroundStream {
        content_type: "text/event-stream",
        // Clients skip this event, wherever it comes.
        keepalive: b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
        late_header: |name, value| format!(": {name}: {value}\n\n"),
    },
    envelope: envelope::read,
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
};
