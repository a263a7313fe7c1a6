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

pub use answer::{ConverseReader, answer};
pub use error::error;
pub use models::traits;
pub use request::request;

use super::protocol::{BaseUrl, Framing, Protocol, SignsWith, Translation};
use crate::neutral::Family;
use crate::wire::percent::segment;

/// Amazon Bedrock, by its Converse API.
pub static PROTOCOL: Protocol = Protocol {
    name: "bedrock",
    about: "AWS Bedrock's Converse, with `region`. The credential is `aws`, or a Bedrock API key in `key`. The base URL follows from `region`.",
    base_url: BaseUrl::OfPlace { usual: "us-east-1", at: base_url },
    path: |_, model, stream| path(model, stream).into(),
    model_in_path: |_| true,
    key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
    signs_with: SignsWith::AccessKey,
    error_type: Some("x-amzn-errortype"),
    framing: Framing::Frames,
    family: Some(Family::Claude),
    traits,
    translation: Some(Translation {
        request,
        answer,
        reader: |model| Box::new(ConverseReader::new(model)),
        max_tokens: "/inferenceConfig/maxTokens",
    }),
    error: |_, head, body| error(head.status, head.error_type, head.content_type, body),
    ..Protocol::COMMON
};

/// Returns where a region's models are.
pub fn base_url(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

/// Returns what follows the base URL. A model's id may be an ARN, with `:` and `/` in it: all of it
/// is one segment.
pub fn path(model: &str, stream: bool) -> String {
    let action = if stream { "converse-stream" } else { "converse" };
    format!("/model/{}/{action}", segment(model))
}

#[cfg(test)]
mod tests;
