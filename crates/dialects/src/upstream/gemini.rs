//! Google's Gemini, at the Gemini API and on Vertex AI: one format, two addresses.
//!
//! They differ in path and credential, and in little else: which files they can reach, and labels.
//! Nothing here has state but a stream's [`GeminiReader`].

mod answer;
mod contents;
mod error;
mod lenient;
mod media;
mod models;
mod names;
mod open_api;
mod request;
mod schema;
mod tools;
mod vertex;

pub use answer::{GeminiReader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;
pub use vertex::VERTEX;

use super::protocol::{BaseUrl, Protocol, Translation};
use crate::neutral::Family;
use crate::wire::percent::segment;

/// The Gemini API, as of AI Studio.
pub static PROTOCOL: Protocol = Protocol {
    name: "gemini",
    about: "Google's Gemini API. `key` is sent as `x-goog-api-key`.",
    base_url: BaseUrl::At("https://generativelanguage.googleapis.com/v1beta"),
    path: |_, model, stream| path(model, stream).into(),
    key_header: Some("x-goog-api-key"),
    key_variable: Some("GEMINI_API_KEY"),
    translation: Some(TRANSLATION),
    ..COMMON
};

/// What both have in common.
const COMMON: Protocol = Protocol {
    model_in_path: |_| true,
    family: Some(Family::Gemini),
    traits,
    error: |_, head, body| error(head.status, head.content_type, body),
    ..Protocol::COMMON
};

/// The same.
const TRANSLATION: Translation = Translation {
    request,
    answer: |_, body, emit| answer(body, emit),
    reader: |_| Box::new(GeminiReader::default()),
    max_tokens: "/generationConfig/maxOutputTokens",
};

/// Returns what follows the base address for a model, which may be named with `models/` in front.
pub fn path(model: &str, stream: bool) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    format!("/models/{}{}", segment(model), action(stream))
}

/// Whose Gemini it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    /// The Gemini API, as of AI Studio.
    Gemini,
    /// Vertex AI.
    Vertex,
}

/// Returns what is asked of a model. Without `alt=sse` a stream is one long JSON array.
fn action(stream: bool) -> &'static str {
    if stream { ":streamGenerateContent?alt=sse" } else { ":generateContent" }
}

#[cfg(test)]
mod tests;
