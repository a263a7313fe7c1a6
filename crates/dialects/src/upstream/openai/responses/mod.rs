//! OpenAI's Responses, as its servers speak them: the endpoint that has everything which newer
//! models can do. Nothing is stored there: each request has all of its conversation, and the
//! model's thoughts come back encrypted.

mod answer;
mod request;
mod stream;

use crate::upstream::Translation;

/// The way in which Responses are asked for.
pub(crate) const TRANSLATION: Translation = Translation {
    request: request::write_request,
    answer: |_, body, emit| answer::read_answer(body, emit),
    count: |_, body, emit| answer::emit_usage(body, emit),
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
