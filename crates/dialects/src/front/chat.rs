//! The front door of OpenAI's chat completions.

mod envelope;
pub(super) mod errors;
pub(super) mod models;
pub(crate) mod read;
mod references;
pub(crate) mod write;

pub(super) use envelope::{scan_part, scan_stream_options};

use super::{Contents, Front};
use crate::neutral::Endpoint;

/// The front door of OpenAI's chat completions.
pub static CHAT: Front = Front {
    probes: include_str!("chat/probes.json"),
    envelope: |_, body| envelope::read_envelope(body),
    contents: Contents {
        fields: &["messages"],
        may_refer: |name, is_message, is_text| match is_message {
            true => references::may_refer_in_message(name) && !(is_text && name == b"content"),
            false => references::may_refer(name),
        },
        results: &[],
        call_marks: &["\"tool_calls\""],
    },
    read: read::read_request,
    flaw_names: [
        "tool_calls[].function.arguments",
        "response_format",
        "tool_calls[].extra_content",
        "annotations",
    ],
    stream: |header| Box::new(write::ChunksWriter::new(header)),
    whole: |header| Box::new(write::WholeWriter::new(header)),
    ..Front::of_endpoint(Endpoint::Chat)
};
