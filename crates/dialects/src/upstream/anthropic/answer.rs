//! A whole answer, and the shapes that it shares with a stream's events.
//!
//! Everything is optional, `null` is absent, what is unknown is passed over: the API says that it
//! will add to all of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::error;
use crate::neutral::{AnswerFault, Emit, Event, Finish, Tokens};
use crate::upstream::shared::lenient::{Count, counts, unquoted};
use crate::upstream::shared::text::Text;

/// Reads a buffered answer.
pub fn answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let lossy;
    let message: AnthropicMessage<'_> = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(_) => {
            // Half a character of the model's costs that character, not the answer.
            lossy = String::from_utf8_lossy(body);
            serde_json::from_str(&lossy)
                .map_err(|_| AnswerFault::Nonsense("the answer is not a message of the Messages API"))?
        }
    };
    if message.kind.as_str() == "error" || message.error.is_some() {
        return Err(AnswerFault::Upstream(error::told(body)));
    }
    let Some(blocks) = message.content else {
        return Err(AnswerFault::Nonsense("the answer has no content"));
    };
    if let Some(id) = message.id.filled() {
        emit(Event::Id(id));
    }
    match &blocks {
        BlocksOrText::Blocks(blocks) => blocks.iter().for_each(|block| block.tell(emit)),
        BlocksOrText::Text(text) => text.filled().into_iter().for_each(|text| emit(Event::Text(0, text))),
    }
    let mut counts = TokenCounts::default();
    counts.learn(&message.usage.unwrap_or_default());
    emit(Event::Usage(counts.tokens()));
    finish(&message.stop_reason, message.stop_details.as_ref(), emit);
    Ok(())
}

#[derive(serde::Deserialize)]
struct AnthropicMessage<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
    /// `null` is nothing said; absent, this is no answer.
    #[serde(borrow, default, deserialize_with = "present")]
    content: Option<BlocksOrText<'a>>,
    #[serde(borrow, default)]
    stop_reason: Text<'a>,
    #[serde(borrow, default)]
    stop_details: Option<Details<'a>>,
    #[serde(default, deserialize_with = "counts")]
    usage: Option<AnthropicUsage>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What was said: blocks, or a text, as some write it who imitate the API.
enum BlocksOrText<'a> {
    Blocks(Vec<Block<'a>>),
    Text(Text<'a>),
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<BlocksOrText<'a>>, D::Error> {
    from.deserialize_any(ContentVisitor).map(Some)
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = BlocksOrText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("blocks, or a text")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(BlocksOrText::Blocks)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BlocksOrText::Text(Text::default()))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(BlocksOrText::Text(Text(Some(Cow::Borrowed(text)))))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(BlocksOrText::Text(Text(Some(Cow::Owned(text.to_owned())))))
    }
}

/// A content block. Which fields it has is its type's business.
#[derive(Default, serde::Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
    #[serde(borrow, default)]
    data: Text<'a>,
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Why a model refused.
#[derive(serde::Deserialize)]
pub(super) struct Details<'a> {
    #[serde(borrow, default)]
    explanation: Text<'a>,
}

impl Block<'_> {
    /// Tells all of it, which in a stream is its beginning.
    pub(super) fn tell(&self, emit: Emit<'_>) {
        match self.kind.as_str() {
            "text" => {
                if let Some(text) = self.text.filled() {
                    emit(Event::Text(0, text));
                }
            }
            "thinking" => {
                if let Some(text) = self.thinking.filled() {
                    emit(Event::Reasoning(0, text));
                }
                if let Some(signature) = self.signature.filled() {
                    emit(Event::Signed(signature));
                }
            }
            "redacted_thinking" => {
                if let Some(data) = self.data.filled() {
                    emit(Event::Redacted(data));
                }
            }
            "tool_use" => {
                emit(Event::Call { choice: 0, id: self.id.filled(), name: self.name.as_str(), signature: None });
                if let Some(input) = self.input() {
                    emit(Event::Arguments(0, &input));
                }
            }
            // What the provider's own tools did is in the text that follows.
            _ => {}
        }
    }

    /// A call's input, if there is anything in it.
    pub(super) fn input(&self) -> Option<Cow<'_, str>> {
        let input = unquoted(self.input?);
        let inside = input.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(&input);
        (!inside.trim_ascii().is_empty()).then_some(input)
    }
}

/// Tells why the answer ended.
pub(super) fn finish(reason: &Text<'_>, details: Option<&Details<'_>>, emit: Emit<'_>) {
    let finish = match reason.as_str() {
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::Filtered,
        // `end_turn`, `stop_sequence`, `tool_use`, `pause_turn`, and whatever will come.
        _ => Finish::Stop,
    };
    if let Some(why) = details.and_then(|details| details.explanation.filled()).filter(|_| finish == Finish::Filtered) {
        emit(Event::Refusal(0, why));
    }
    emit(Event::Finish(0, finish));
}

/// What the API counts. Its input is without what went through the cache.
#[derive(Debug, Default, serde::Deserialize)]
pub(super) struct AnthropicUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default, deserialize_with = "counts")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, serde::Deserialize)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl AnthropicUsage {
    /// Without what is counted of the answer: at a stream's start that is a placeholder.
    pub(super) fn of_the_prompt(self) -> Self {
        Self { output_tokens: Count::default(), output_tokens_details: None, ..self }
    }
}

/// The last of every number so far: each is the sum of the whole answer.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TokenCounts {
    input: Option<u64>,
    written: Option<u64>,
    read: Option<u64>,
    output: Option<u64>,
    thinking: Option<u64>,
}

impl TokenCounts {
    /// Newer numbers win.
    pub(super) fn learn(&mut self, usage: &AnthropicUsage) {
        let thinking = usage.output_tokens_details.as_ref().and_then(|details| details.thinking_tokens.0);
        self.input = usage.input_tokens.0.or(self.input);
        self.written = usage.cache_creation_input_tokens.0.or(self.written);
        self.read = usage.cache_read_input_tokens.0.or(self.read);
        self.output = usage.output_tokens.0.or(self.output);
        self.thinking = thinking.or(self.thinking);
    }

    /// As everybody else counts.
    pub(super) fn tokens(&self) -> Tokens {
        let parts = [self.input, self.written, self.read];
        let sum = parts.iter().flatten().fold(0u64, |sum, part| sum.saturating_add(*part));
        Tokens {
            prompt: parts.iter().any(Option::is_some).then_some(sum),
            completion: self.output,
            cached: self.read,
            cache_write: self.written,
            reasoning: self.thinking,
        }
    }
}

#[cfg(test)]
mod tests;
