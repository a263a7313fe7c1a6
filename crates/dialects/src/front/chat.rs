//! OpenAI's chat completions, as callers speak them.

mod envelope;
pub(super) mod errors;
pub(crate) mod fields;
pub(super) mod models;
pub(crate) mod read;
mod references;
pub(crate) mod write;

pub(super) use envelope::{part, stream_options};

use super::{AroundStream, Contents, ErrorForm, Front, Heard, route};

const PATH: &str = "chat/completions";

/// OpenAI's chat completions.
pub static CHAT: Front = Front {
    name: "chat",
    route: |path, _| route::fixed(path, PATH),
    owns: |path| route::after(path, PATH).is_some(),
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
    probes: include_str!("chat/probes.json"),
    native: None,
    vectors: None,
    counting: None,
    id_prefix: "chatcmpl-",
    around: AroundStream {
        content_type: "text/event-stream",
        keepalive: b": keepalive\n\n",
        late_header: |name, value| format!(": {name}: {value}\n\n"),
    },
    envelope: envelope::read,
    contents: Contents {
        fields: &["messages"],
        is_plain: references::is_plain_in,
        results: &[],
        may_call: |body| memchr::memmem::find(body, b"\"tool_calls\"").is_some(),
    },
    read: read::read,
    field_name: fields::name,
    flaw_names: [
        "tool_calls[].function.arguments",
        "response_format",
        "tool_calls[].extra_content",
        "annotations",
    ],
    stream: |header| Box::new(write::Chunks::new(header)),
    whole: |header| Box::new(write::Whole::new(header)),
};
