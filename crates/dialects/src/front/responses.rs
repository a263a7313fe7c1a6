//! OpenAI's Responses, as callers speak them. Nothing is stored: each request has all of its
//! conversation.

mod envelope;
mod errors;
mod fields;
mod items;
mod pass;
mod read;
mod references;
mod write;

use super::{AroundStream, Contents, ErrorForm, Front, Heard, Native, route};

const PATH: &str = "responses";

/// OpenAI's Responses.
pub static RESPONSES: Front = Front {
    name: "responses",
    route: |path, _| route::fixed(path, PATH),
    owns: |path| route::after(path, PATH).is_some(),
    only: None,
    heard: Heard {
        sessions: &["session-id", "session_id", "thread-id"],
        passed: &[],
        query_key: None,
    },
    // Codex sends thirty requests after each status of 500 and more. After 429 it sends few, and
    // none without a time to wait.
    errors: ErrorForm {
        unavailable: 429,
        hopeless: 429,
        overloaded: None,
        failed: Some(429),
        cuts: false,
        obeys_waits: true,
        asks_upgrade: true,
        id_header: None,
        body: errors::body,
        event: errors::event,
    },
    models: super::chat::models::LISTS,
    probes: include_str!("responses/probes.json"),
    native: Some(Native {
        format: "responses",
        request: pass::request,
        event: pass::event,
        around: [b"", b"", b""],
        whole: pass::whole,
    }),
    vectors: None,
    counting: None,
    id_prefix: "resp_",
    around: AroundStream {
        content_type: "text/event-stream",
        keepalive: b": keepalive\n\n",
        late_header: |name, value| format!(": {name}: {value}\n\n"),
    },
    envelope: envelope::read,
    contents: Contents {
        fields: &["input", "instructions"],
        is_plain: references::is_plain,
        results: &[],
        may_call: |body| memchr::memmem::find(body, b"_call\"").is_some(),
    },
    read: read::read,
    field_name: fields::name,
    flaw_names: [
        "output[].arguments",
        "text.format",
        "output[].encrypted_content",
        "output[].content[].annotations",
    ],
    stream: |header| Box::new(write::ResponseWriter::stream(header)),
    whole: |header| Box::new(write::ResponseWriter::whole(header)),
};
