//! Google's Gemini, at the Gemini API and on Vertex AI: one format, two addresses.
//!
//! They differ in path and credential, and in little else: which files they can reach, and labels.
//! Nothing here has state but a stream's [`Reader`].

mod answer;
mod contents;
mod error;
pub mod lenient;
mod media;
mod models;
mod names;
mod open_api;
mod request;
mod schema;
mod tools;
mod vertex;

pub use answer::{Reader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;
pub use vertex::{vertex_base, vertex_path, vertex_request};

use crate::wire::percent::segment;

/// Where the Gemini API is.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// What follows the base address for a model, which may be named with `models/` in front.
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

/// What is asked of a model. Without `alt=sse` a stream is one long JSON array.
fn action(stream: bool) -> &'static str {
    if stream { ":streamGenerateContent?alt=sse" } else { ":generateContent" }
}

#[cfg(test)]
mod tests;
