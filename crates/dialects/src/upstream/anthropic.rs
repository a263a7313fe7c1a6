//! Anthropic's Messages API.
//!
//! What a request asks for that a model refuses is known from a table ([`traits`]) and is left out,
//! and said, before it is sent: the API answers 400 to every field it does not know and to many
//! combinations of those it does. Ids of calls and names of tools that it would refuse are
//! rewritten, both sides alike. Thoughts go back as they came or not at all.

mod answer;
mod blocks;
mod error;
mod models;
mod request;
mod stream;
mod tools;

pub use answer::answer;
pub use error::error;
pub use models::traits;
pub use request::request;
pub use stream::AnthropicReader;

use super::protocol::{BaseUrl, Protocol, Translation};
use crate::neutral::Family;

/// Anthropic's Messages.
pub static PROTOCOL: Protocol = Protocol {
    name: "anthropic",
    about: "Anthropic's Messages. `key` is sent as `x-api-key`.",
    base_url: BaseUrl::At("https://api.anthropic.com/v1"),
    path: |_, _, _| "/messages".into(),
    key_header: Some("x-api-key"),
    key_variable: Some("ANTHROPIC_API_KEY"),
    headers: &[("anthropic-version", "2023-06-01")],
    family: Some(Family::Claude),
    traits,
    translation: Some(Translation {
        request,
        answer: |_, body, emit| answer(body, emit),
        reader: |_| Box::new(AnthropicReader::default()),
        max_tokens: "/max_tokens",
    }),
    error: |_, head, body| error(head.status, head.content_type, body),
    ..Protocol::COMMON
};

#[cfg(test)]
pub(super) mod tests;
