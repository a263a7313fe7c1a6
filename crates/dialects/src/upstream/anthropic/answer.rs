//! This module reads a whole answer. It also has the types that an answer shares with a stream's
//! events.
//!
//! Every field is optional, `null` counts as absent, and unknown parts are ignored, because the API
//! announces that it will add to all of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error;
use crate::neutral::{AnswerFault, Citation, CitedRange, Emit, Event, Finish, Tokens};
use crate::upstream::shared::citations;
use crate::upstream::shared::lenient::{Count, Object, counts_in, read_counts, unquote_input};
use crate::upstream::shared::text::Text;
use crate::wire::without_bom;

/// Reads a buffered answer.
pub fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = without_bom(body);
    let lossy;
    let message: AnthropicMessage<'_> = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(_) => {
            // An invalid character in the model's text costs that character, not the answer.
            lossy = String::from_utf8_lossy(body);
            serde_json::from_str(&lossy).map_err(|_| {
                AnswerFault::Nonsense("the answer is not a message of the Messages API")
            })?
        }
    };
    if message.kind.as_str() == "error" || message.error.is_some() {
        return Err(AnswerFault::Upstream(error::hidden_error(body)));
    }
    let Some(blocks) = message.content else {
        return Err(AnswerFault::Nonsense("the answer has no content"));
    };
    message.id.emit(Event::Id, emit);
    blocks.iter().for_each(|block| block.emit(emit));
    emit(Event::Usage(message.usage.unwrap_or_default().tokens()));
    emit_finish(&message.stop_reason, message.stop_details.as_ref(), emit);
    Ok(())
}

/// Emits the counts of a whole answer, whatever else it is.
pub fn emit_usage(body: &[u8], emit: Emit<'_>) {
    if let Some(usage) = counts_in::<AnthropicUsage>(body, "usage") {
        emit(Event::Usage(usage.tokens()));
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct AnthropicMessage<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    /// `null` is empty content. Without this field the body is no answer.
    #[serde(deserialize_with = "read_blocks")]
    content: Option<Vec<Object<Block<'a>>>>,
    stop_reason: Text<'a>,
    stop_details: Option<Details<'a>>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<AnthropicUsage>,
    error: Option<&'a RawValue>,
}

/// Reads the blocks of an answer. Some servers that imitate the API write a text instead.
fn read_blocks<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Object<Block<'de>>>>, D::Error> {
    from.deserialize_any(ContentVisitor).map(Some)
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Vec<Object<Block<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("blocks, or a text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(vec![Object(Block::of_text(Cow::Borrowed(text)))])
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![Object(Block::of_text(Cow::Owned(text.to_owned())))])
    }
}

/// A content block. Its type decides which fields it has.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    data: Text<'a>,
    id: Text<'a>,
    name: Text<'a>,
    input: Option<&'a RawValue>,
    citations: Option<&'a RawValue>,
}

/// A citation of a text. Its source is a page of the web, a result of the caller's own search, or a
/// document of the request.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct BlockCitation<'a> {
    #[serde(borrow)]
    url: Text<'a>,
    source: Text<'a>,
    title: Text<'a>,
    document_title: Text<'a>,
    cited_text: Text<'a>,
}

impl BlockCitation<'_> {
    /// Emits the citation, which is for all of its block: for so many bytes.
    pub(super) fn emit(&self, bytes: usize, emit: Emit<'_>) {
        let citation = Citation {
            url: self
                .url
                .filled()
                .unwrap_or_else(|| citations::web_address(self.source.as_str())),
            title: self
                .title
                .filled()
                .or(self.document_title.filled())
                .unwrap_or_default(),
            quote: self.cited_text.as_str(),
            cited_range: CitedRange::LastBytes(bytes),
        };
        emit(Event::Citation(0, &citation));
    }
}

/// The details of a model's refusal.
#[derive(serde::Deserialize)]
pub(super) struct Details<'a> {
    #[serde(borrow, default)]
    explanation: Text<'a>,
}

impl<'a> Block<'a> {
    fn of_text(text: Cow<'a, str>) -> Self {
        Self {
            kind: Text(Some(Cow::Borrowed("text"))),
            text: Text(Some(text)),
            ..Self::default()
        }
    }

    /// Emits the whole block. In a stream this is the start of the block.
    pub(super) fn emit(&self, emit: Emit<'_>) {
        match self.kind.as_str() {
            "text" => {
                self.text.emit(|text| Event::Text(0, text), emit);
                let cited: Vec<BlockCitation<'_>> = citations::read_list(self.citations);
                cited
                    .iter()
                    .for_each(|citation| citation.emit(self.text_bytes(), emit));
            }
            "thinking" => {
                self.thinking.emit(|text| Event::Reasoning(0, text), emit);
                self.signature.emit(Event::Signed, emit);
            }
            "redacted_thinking" => self.data.emit(Event::Redacted, emit),
            "tool_use" => {
                emit(Event::Call {
                    choice: 0,
                    id: self.id.filled(),
                    name: self.name.as_str(),
                    signature: None,
                });
                if let Some(input) = self.input() {
                    emit(Event::Arguments(0, &input));
                }
            }
            // The results of the provider's own tools are in the text that follows.
            _ => {}
        }
    }

    /// Returns the number of bytes of a text.
    pub(super) fn text_bytes(&self) -> usize {
        if self.kind.as_str() == "text" {
            self.text.as_str().len()
        } else {
            0
        }
    }

    /// Returns the input of a call, if it is not empty.
    pub(super) fn input(&self) -> Option<Cow<'_, str>> {
        let input = unquote_input(self.input?);
        let inside = input
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(&input);
        (!inside.trim_ascii().is_empty()).then_some(input)
    }
}

/// Emits the reason why the answer ended.
pub(super) fn emit_finish(reason: &Text<'_>, details: Option<&Details<'_>>, emit: Emit<'_>) {
    let finish = match reason.as_str() {
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Filtered,
        // `end_turn`, `stop_sequence`, `tool_use`, `pause_turn`, and any future reason.
        _ => Finish::Stop,
    };
    if let Some(details) = details.filter(|_| finish == Finish::Filtered) {
        details.explanation.emit(|why| Event::Refusal(0, why), emit);
    }
    emit(Event::Finish(0, finish));
}

/// The counts of the API. The input does not include the tokens that went through the cache.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct AnthropicUsage {
    input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    output_tokens: Count,
    #[serde(deserialize_with = "read_counts")]
    output_tokens_details: Option<OutputDetails>,
    /// The counts of each step, if the server took several. The counts above may leave some out.
    #[serde(deserialize_with = "read_steps")]
    iterations: Option<Vec<AnthropicUsage>>,
}

/// Reads the counts of steps. Counts that cannot be read are none.
fn read_steps<'de, D: serde::Deserializer<'de>>(
    input: D,
) -> Result<Option<Vec<AnthropicUsage>>, D::Error> {
    let steps: serde_json::Value = serde::Deserialize::deserialize(input)?;
    Ok(serde_json::from_value(steps).ok())
}

#[derive(Debug, Default, serde::Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl AnthropicUsage {
    /// Returns the counts of the prompt only. At the start of a stream the counts of the answer are
    /// placeholders.
    pub(super) fn of_the_prompt(self) -> Self {
        Self {
            output_tokens: Count::default(),
            output_tokens_details: None,
            iterations: None,
            ..self
        }
    }

    /// Updates the counts from a newer event. Each count is of the whole answer so far.
    pub(super) fn update(&mut self, newer: Self) {
        let details = newer
            .output_tokens_details
            .filter(|details| details.thinking_tokens.0.is_some());
        *self = Self {
            input_tokens: newer.input_tokens.or(self.input_tokens),
            cache_creation_input_tokens: newer
                .cache_creation_input_tokens
                .or(self.cache_creation_input_tokens),
            cache_read_input_tokens: newer
                .cache_read_input_tokens
                .or(self.cache_read_input_tokens),
            output_tokens: newer.output_tokens.or(self.output_tokens),
            output_tokens_details: details.or(self.output_tokens_details.take()),
            iterations: newer.iterations.or(self.iterations.take()),
        };
    }

    /// Returns a count, or the sum of its steps if that is more.
    fn highest_count(&self, count: fn(&Self) -> Option<u64>) -> Option<u64> {
        let steps = self.iterations.iter().flatten().filter_map(count);
        count(self).max(steps.reduce(u64::saturating_add))
    }

    /// Returns the tokens as other providers count them.
    pub(super) fn tokens(&self) -> Tokens {
        let cached = self.highest_count(|usage| usage.cache_read_input_tokens.0);
        let cache_write = self.highest_count(|usage| usage.cache_creation_input_tokens.0);
        let parts = [
            self.highest_count(|usage| usage.input_tokens.0),
            cache_write,
            cached,
        ];
        let sum = parts
            .iter()
            .flatten()
            .fold(0u64, |sum, part| sum.saturating_add(*part));
        Tokens {
            prompt: parts.iter().any(Option::is_some).then_some(sum),
            completion: self.highest_count(|usage| usage.output_tokens.0),
            cached,
            cache_write,
            reasoning: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.thinking_tokens.0),
        }
    }
}

#[cfg(test)]
mod tests;
