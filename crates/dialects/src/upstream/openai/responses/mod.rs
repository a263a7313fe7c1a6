//! OpenAI's Responses, as its servers speak them: the endpoint that has everything which newer
//! models can do. Nothing is stored there: each request has all of its conversation, and the
//! model's thoughts come back encrypted.

mod answer;
mod request;
mod stream;

use std::borrow::Cow;

use crate::neutral::Family;
use crate::upstream::{Protocol, Translation};

/// OpenAI's Responses.
pub(crate) static PROTOCOL: Protocol = Protocol {
    name: "responses",
    path: |_, _, _| Cow::Borrowed("/responses"),
    family: Some(Family::OpenAi),
    translation: Some(TRANSLATION),
    ..super::PROTOCOL
};

/// What OpenAI's and Azure's servers have in common.
pub(crate) const TRANSLATION: Translation = Translation {
    request: request::write,
    answer: |_, body, emit| answer::answer(body, emit),
    count: |_, body, emit| answer::count(body, emit),
    reader: |_| Box::new(stream::ResponsesReader::default()),
    max_tokens: "/max_output_tokens",
    counting: None,
    format: "responses",
    inner: |_| None,
    vectors: None,
    cloud: None,
};

#[cfg(test)]
mod tests;
