//! Anthropic's Messages API.
//!
//! The API answers 400 to every field that it does not know, and to many combinations of fields
//! that it knows. So a table ([`model_traits`]) lists the fields that each model refuses. A refused
//! field is left out before the request is sent, and it is named as a loss. Ids of calls and names
//! of tools that the API would refuse are rewritten, in the request and in the answer. Thoughts go
//! back exactly as they came, or not at all.

mod answer;
mod blocks;
mod error;
mod models;
mod request;
mod stream;
mod tools;

pub use answer::{emit_usage, read_answer};
pub use error::read_error;
pub use models::model_traits;
pub use request::write_request;
pub use stream::AnthropicReader;

use super::listing::{ModelListing, ONE_PAGE};
use super::protocol::{
    AccountField, BaseUrl, Counting, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol,
    Translation,
};
use super::servers::{HostPattern::Is, known_server};
use crate::neutral::Family;
use crate::wire::splice::without_members;

const FACTS: DialectFacts = DialectFacts {
    name: "anthropic",
    about: "Anthropic's Messages. `key` is sent as `x-api-key`.",
    provider: "anthropic",
    servers: &[known_server(Is("api.anthropic.com"), &["/v1"])
        .with_key("ANTHROPIC_API_KEY")
        .listed_as("anthropic")],
    own_fields: &[AccountField::OutputConfig],
    litellm: Litellm {
        names: &["anthropic"],
        keys: &["ANTHROPIC_API_KEY"],
        bases: &["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"],
    },
    base_url: BaseUrl::Fixed("https://api.anthropic.com/v1"),
    key_header: Some("x-api-key"),
    prices: |_| Prices::Listed,
    translation: Some(TRANSLATION),
    error: |_, head, body| read_error(head.status, head.content_type, body),
};

/// Anthropic's Messages API.
pub static PROTOCOL: Protocol = Protocol {
    path: |_, _, _, _| "/messages".into(),
    endpoints: Endpoints {
        listing: Some(ModelListing {
            first_page_path: |base| format!("{base}/models?limit=1000"),
            next_parameter: Some("after_id"),
            ..ONE_PAGE
        }),
        ..ENDPOINTS
    },
    key_variable: Some("ANTHROPIC_API_KEY"),
    headers: &[("anthropic-version", "2023-06-01")],
    family: Some(Family::Claude),
    traits: model_traits,
    ..Protocol::common(FACTS)
};

/// The translation at other providers' servers. Their counts of tokens may be estimates.
pub(super) const THIRD_PARTY_TRANSLATION: Translation = Translation {
    counting: None,
    ..TRANSLATION
};

/// The API refuses fields here that change only the answer.
pub(crate) const COUNTING: Counting = Counting {
    path: |path| {
        path.ends_with("/messages")
            .then(|| format!("{path}/count_tokens"))
    },
    body: |_, body| {
        let answers = [
            "max_tokens",
            "stream",
            "temperature",
            "top_p",
            "top_k",
            "stop_sequences",
            "metadata",
        ];
        Some(without_members(body, |name| {
            answers.contains(&name) || name == "service_tier"
        }))
    },
    field: "input_tokens",
};

/// The translation of all servers that have Claude in this format.
pub(crate) const TRANSLATION: Translation = Translation {
    request: write_request,
    answer: |_, body, emit| read_answer(body, emit),
    count: |_, body, emit| emit_usage(body, emit),
    reader: |_| Box::new(AnthropicReader::default()),
    max_tokens: "/max_tokens",
    counting: Some(COUNTING),
    format: "messages",
    inner: |_| None,
    vectors: None,
    cloud: None,
};

#[cfg(test)]
pub(super) mod tests;
