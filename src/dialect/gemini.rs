//! Google's Gemini, at the Gemini API and on Vertex AI: one format, two addresses.
//!
//! They differ in path and credential, and in little else: which files they can reach, and labels ([`Service`]). What a signed-in service
//! account needs is in [`token`]. Nothing here has state but a stream's [`Reader`].

mod answer;
mod contents;
mod error;
mod lenient;
mod media;
mod models;
mod names;
mod request;
mod schema;
pub mod token;
mod tools;
mod vertex;

pub use answer::{Reader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;
pub use vertex::{vertex_base, vertex_path, vertex_request};

/// Where the Gemini API is.
pub const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// What follows the base address for a model, which may be named with `models/` in front.
pub fn path(model: &str, stream: bool) -> String {
    let model = model.strip_prefix("models/").unwrap_or(model);
    format!("/models/{}{}", encoded(model), action(stream))
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

/// A path's segment: everything but unreserved characters is encoded (RFC 3986 §2.3). One of dots only would be a step in the tree, so it
/// is made a name that nothing has.
fn encoded(segment: &str) -> String {
    if segment.bytes().all(|byte| byte == b'.') {
        return "_".repeat(segment.len().max(1));
    }
    let mut path = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

#[cfg(test)]
mod tests;
