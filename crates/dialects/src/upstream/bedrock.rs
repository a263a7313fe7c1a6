//! Amazon Bedrock's Converse and ConverseStream: one format for the models of many makers.
//!
//! The format is stricter than the callers' format:
//!
//! * Turns alternate, and the first one is the user's.
//! * No text is blank.
//! * A conversation with calls of tools must have tools now.
//! * Pictures and documents are sent as bytes.
//!
//! Thinking, `top_k` and cache points work only with some makers' models. That depends on the
//! model's family, which the name shows, but an ARN may not.
//!
//! A stream comes in binary frames ([`crate::wire::frames`]). The account signs its requests, or
//! has a bearer key.

mod answer;
mod blocks;
mod cited;
mod embed;
mod error;
mod invoke;
mod models;
mod request;
mod tools;

pub use answer::{ConverseReader, emit_usage, read_answer};
pub use error::read_error;
pub use models::model_traits;
pub use request::write_request;

use super::protocol::{
    AccountField, BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Framing, Litellm, Prices, Protocol,
    SignsWith, Translation,
};
use super::servers::{
    HostPattern::{Between, Ends},
    known_server,
};
use crate::neutral::{Endpoint, Family};
use crate::wire::percent::encode_segment;

const FACTS: DialectFacts = DialectFacts {
    name: "bedrock",
    about: "AWS Bedrock's Converse, and Claude's own format for callers of Messages, with `region`. The credential is `aws`, or a Bedrock API key in `key`. The base URL follows from `region`.",
    provider: "aws.bedrock",
    servers: &[
        known_server(Ends(".amazonaws.com"), &[""]),
        known_server(Between("bedrock-runtime.", ".amazonaws.com"), &[""]).listed_as("bedrock"),
    ],
    own_fields: &[
        AccountField::Region,
        AccountField::Aws,
        AccountField::OutputConfig,
    ],
    litellm: Litellm {
        names: &["bedrock", "bedrock_converse"],
        keys: &[],
        bases: &[],
    },
    base_url: BaseUrl::PerRegion {
        default_region: "us-east-1",
        address_in: base_url,
    },
    key_header: None,
    prices: |_| Prices::Listed,
    translation: Some(Translation {
        request: write_request,
        answer: read_answer,
        count: emit_usage,
        reader: |model| Box::new(ConverseReader::new(model)),
        max_tokens: "/inferenceConfig/maxTokens",
        counting: None,
        format: "",
        inner: |_| None,
        vectors: None,
        cloud: None,
    }),
    error: |_, head, body| read_error(head.status, head.error_type, head.content_type, body),
};

/// Amazon Bedrock, through its Converse API.
pub static PROTOCOL: Protocol = Protocol {
    path: |_, _, model, stream| model_path(model, stream).into(),
    model_in_path: |_| true,
    key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
    signs_with: SignsWith::AccessKey,
    error_type: Some("x-amzn-errortype"),
    framing: Framing::Frames,
    family: Some(Family::Claude),
    traits: model_traits,
    endpoints: Endpoints {
        protocols: std::slice::from_ref(&embed::EMBEDDINGS),
        default_endpoints: |_, _| &[Endpoint::Chat, Endpoint::Embeddings],
        other_protocol: |_, model| models::is_claude(model).then_some(&invoke::CLAUDE),
        ..ENDPOINTS
    },
    ..Protocol::common(FACTS)
};

/// Returns the base URL of a region.
pub fn base_url(region: &str) -> String {
    format!("https://bedrock-runtime.{region}.amazonaws.com")
}

/// Returns the path after the base URL. A model's id may be an ARN, with `:` and `/` in it. The
/// whole id is one segment.
pub fn model_path(model: &str, stream: bool) -> String {
    let action = if stream {
        "converse-stream"
    } else {
        "converse"
    };
    format!("/model/{}/{action}", encode_segment(model))
}

#[cfg(test)]
mod tests;
