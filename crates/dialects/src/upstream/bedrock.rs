//! Amazon Bedrock's Converse and ConverseStream: one format for the models of many makers.
//!
//! The format is strict where the callers' is not: turns alternate and begin with the user's, no
//! text is blank, whoever has called a tool before must have tools now, pictures and documents come
//! as bytes. What only some makers' models take (thinking, `top_k`, cache points) depends on the
//! model's family, which its name tells, or an ARN does not.
//!
//! A stream comes in binary frames ([`crate::wire::frames`]); the account signs its
//! requests or has a bearer key.

mod answer;
mod blocks;
mod error;
mod models;
mod request;
mod tools;

pub use answer::{Reader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;

use crate::wire::percent::segment;

/// Where a region's models are.
pub fn base_url(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

/// What follows the base URL. A model's id may be an ARN, with `:` and `/` in it: all of it is one
/// segment.
pub fn path(model: &str, stream: bool) -> String {
    let action = if stream { "converse-stream" } else { "converse" };
    format!("/model/{}/{action}", segment(model))
}

#[cfg(test)]
mod tests;
