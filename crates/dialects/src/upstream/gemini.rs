//! Google's Gemini, through the Gemini API and through Vertex AI: one format at two addresses.
//!
//! The two differ in path, credential and labels, and in the files that they can reach. Only the
//! [`GeminiReader`] of a stream has state.

mod answer;
mod contents;
mod counting;
pub(crate) mod embed;
mod error;
mod grounding;
mod lenient;
mod media;
mod models;
mod names;
mod open_api;
mod request;
mod schema;
mod tools;
mod vertex;

pub use answer::{GeminiReader, emit_usage, read_answer};
pub use error::read_error;
pub use models::model_traits;
pub use request::write_request;
pub use vertex::VERTEX;

use super::listing::ModelListing;
use super::protocol::{
    AccountField, BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol, Settings,
    Translation,
};
use super::servers::{HostPattern::Is, known_server};
use crate::neutral::{Endpoint, Family};
use crate::wire::percent::encode_segment;

const FACTS: DialectFacts = DialectFacts {
    name: "gemini",
    about: "Google's Gemini API. `key` is sent as `x-goog-api-key`.",
    provider: "gcp.gemini",
    servers: &[known_server(
        Is("generativelanguage.googleapis.com"),
        &["/v1beta", "/v1", "/v1alpha"],
    )
    .with_key("GEMINI_API_KEY")
    .listed_as("gemini")],
    own_fields: &[
        AccountField::ResponseJsonSchema,
        AccountField::ParametersJsonSchema,
    ],
    litellm: Litellm {
        names: &["gemini"],
        keys: &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        bases: &["GEMINI_API_BASE"],
    },
    base_url: BaseUrl::Fixed("https://generativelanguage.googleapis.com/v1beta"),
    key_header: Some("x-goog-api-key"),
    prices: |_| Prices::Listed,
    translation: Some(TRANSLATION),
    error: |_, head, body| read_error(head.status, head.content_type, body),
};

/// The Gemini API of AI Studio.
pub static PROTOCOL: Protocol = Protocol {
    path: |_, _, model, stream| model_path(model, stream).into(),
    endpoints: Endpoints {
        protocols: std::slice::from_ref(&embed::BATCH),
        default_endpoints: DEFAULT_ENDPOINTS,
        listing: Some(ModelListing {
            first_page_path: |base| format!("{base}/models?pageSize=1000"),
            next_parameter: Some("pageToken"),
            name_prefix: "models/",
        }),
        ..ENDPOINTS
    },
    key_variable: Some("GEMINI_API_KEY"),
    ..common_protocol(FACTS)
};

/// The fields that both protocols share.
const fn common_protocol(facts: DialectFacts) -> Protocol {
    Protocol {
        model_in_path: |_| true,
        family: Some(Family::Gemini),
        traits: model_traits,
        ..Protocol::common(facts)
    }
}

/// The translation that both protocols share.
const TRANSLATION: Translation = Translation {
    request: write_request,
    answer: |_, body, emit| read_answer(body, emit),
    count: |_, body, emit| emit_usage(body, emit),
    reader: |_| Box::new(GeminiReader::default()),
    max_tokens: "/generationConfig/maxOutputTokens",
    counting: Some(counting::GEMINI),
    format: "gemini",
    inner: |_| None,
    vectors: None,
    cloud: None,
};

/// Returns the path after the base URL for a model. The model's name may begin with `models/`.
pub fn model_path(model: &str, stream: bool) -> String {
    of_model(model, method_suffix(stream))
}

/// Returns the path of a method.
fn of_model(model: &str, method: &str) -> String {
    format!(
        "/models/{}{method}",
        encode_segment(model.strip_prefix("models/").unwrap_or(model))
    )
}

/// The kinds of endpoint of both services.
const DEFAULT_ENDPOINTS: fn(&Settings, &str) -> &'static [Endpoint] =
    |_, _| &[Endpoint::Chat, Endpoint::Embeddings];

/// The service that runs a Gemini.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// The Gemini API of AI Studio.
    Gemini,
    /// Vertex AI.
    Vertex,
}

/// Returns the method in the path. Without `alt=sse` a stream is one long JSON array.
fn method_suffix(stream: bool) -> &'static str {
    if stream {
        ":streamGenerateContent?alt=sse"
    } else {
        ":generateContent"
    }
}

#[cfg(test)]
mod tests;
