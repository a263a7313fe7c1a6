//! Anthropic's Messages API.
//!
//! What a request asks for that a model refuses is known from a table ([`traits`]) and is left out,
//! and said, before it is sent: the API answers 400 to every field it does not know and to many
//! combinations of those it does. Ids of calls and names of tools that it would refuse are
//! rewritten, both sides alike. Thoughts go back as they came or not at all.

mod answer;
mod blocks;
pub(super) mod describe;
mod error;
mod models;
pub(super) mod names;
pub(super) mod offers;
pub(super) mod pairs;
pub(super) mod refuse;
mod request;
pub(super) mod schema;
mod stream;
mod text;
pub(super) mod thinking;

pub use answer::answer;
pub use error::error;
pub use models::traits;
pub use request::request;
pub use stream::Reader;

/// Where it lives.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
/// What to send as `anthropic-version`.
pub const VERSION: &str = "2023-06-01";

/// What follows the base URL.
pub fn path() -> String {
    "/messages".to_owned()
}

#[cfg(test)]
mod tests;
