//! The endpoints without a conversation at OpenAI's servers, and at servers that imitate them:
//! `/v1/audio/speech`, `/v1/images/edits`, `/v1/rerank` and others. Requests and answers pass. An
//! answer is read only for its usage, and to see whether it is an answer.

use std::time::Duration;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::embed;
use super::error::find_error;
use crate::neutral::usage::{MAX_TOKENS, Source, Units, Usage};
use crate::neutral::{
    AnswerFault, Emit, Endpoint, EndpointAnswer, Event, Field, FieldRefused, Finish, Reader,
    StreamFault, StreamResult, Tokens,
};
use crate::upstream::protocol::{ENDPOINTS, Protocol, Translation, VectorForm};
use crate::upstream::shared::lenient::{Count, Object, counts_in, read_counts};
use crate::upstream::shared::text::Text;
use crate::wire::without_bom;

/// Returns how requests of a kind of endpoint that holds no conversation pass.
pub(crate) const fn endpoint_translation(endpoint: Endpoint) -> Translation {
    use EndpointAnswer::*;
    let passing = passing_translation(endpoint.name());
    let answer: ReadAnswer = match endpoint.facts().answer {
        Message => passing.answer,
        Vectors => {
            return Translation {
                vectors: Some(&embed::FORM),
                ..passing
            };
        }
        Choices => {
            return Translation {
                answer: |_, body, emit| {
                    Answer::read(body, |answer| begins_with(answer.choices, '['), emit)
                },
                reader: |_| Box::new(Continuation::default()),
                ..passing
            };
        }
        Results => {
            |_, body, emit| Answer::read(body, |answer| begins_with(answer.results, '['), emit)
        }
        Pictures => {
            |_, body, emit| Answer::read(body, |answer| begins_with(answer.data, '['), emit)
        }
        // Whatever is JSON is no sound.
        Sound => |_, body, emit| Answer::read(body, |_| false, emit),
        Transcript => {
            |_, body, emit| Answer::read(body, |answer| begins_with(answer.text, '"'), emit)
        }
    };
    Translation { answer, ..passing }
}

type ReadAnswer = fn(&str, &[u8], Emit<'_>) -> Result<(), AnswerFault>;

/// Reads an event of an answer that passes: an error, or the usage. Returns whether the answer goes
/// on after it.
pub(crate) fn passing_event(data: &[u8], usage: &mut Usage) -> StreamResult<bool> {
    if memchr::memmem::find(data, b"\"error\"").is_some()
        && let Some(error) = find_error(data)
    {
        return Err(StreamFault::Upstream(error));
    }
    let Ok(Object(answer)) = serde_json::from_slice::<Object<Answer<'_>>>(data) else {
        return Ok(false);
    };
    let goes_on = [".delta", ".segment", ".partial_image"]
        .iter()
        .any(|part| answer.kind.as_str().ends_with(part));
    let Some(counts) = answer.usage else {
        return Ok(goes_on);
    };
    if counts.seconds > 0 {
        usage.units.millis = counts.seconds;
    }
    let tokens = counts.tokens();
    let largest_count = tokens.prompt.max(tokens.completion);
    if largest_count.is_some_and(|largest_count| largest_count <= MAX_TOKENS) {
        let (prompt, completion) = (tokens.prompt.unwrap_or(0), tokens.completion.unwrap_or(0));
        *usage = Usage {
            prompt,
            completion,
            source: Source::Reported,
            ..*usage
        };
    }
    Ok(goes_on)
}

/// Returns the translation of an endpoint whose requests only pass.
pub(crate) const fn passing_translation(format: &'static str) -> Translation {
    Translation {
        request: |_, _| {
            Err(FieldRefused::unsupported(
                Field::Messages,
                "the endpoint holds no conversation",
            ))
        },
        answer: |_, _, _| Err(AnswerFault::Nonsense("an answer of another endpoint")),
        count: |_, body, emit| emit_usage(body, emit),
        reader: |_| Box::new(NoStream),
        max_tokens: "/max_tokens",
        counting: None,
        format,
        inner: |_| None,
        vectors: None,
        cloud: None,
    }
}

/// Returns the protocol of vectors at the servers of a dialect.
pub(crate) const fn vector_protocol(chat: Protocol, form: &'static VectorForm) -> Protocol {
    passing_vector_protocol(chat, form, "")
}

/// Returns the protocol of vectors at the servers of a dialect. Bodies of the front door of this
/// format pass.
pub(crate) const fn passing_vector_protocol(
    chat: Protocol,
    form: &'static VectorForm,
    format: &'static str,
) -> Protocol {
    Protocol {
        endpoint: Endpoint::Embeddings,
        endpoints: ENDPOINTS,
        translation: Some(Translation {
            vectors: Some(form),
            ..passing_translation(format)
        }),
        ..chat
    }
}

/// Emits the tokens of a whole answer, whatever else it is.
fn emit_usage(body: &[u8], emit: Emit<'_>) {
    let of_meta = || counts_in::<Meta>(body, "meta").and_then(|meta| meta.tokens);
    if let Some(counts) = counts_in::<Counts>(body, "usage").or_else(of_meta) {
        let tokens = counts.tokens();
        emit(Event::Usage(Tokens {
            completion: tokens.completion.or(tokens.prompt.map(|_| 0)),
            ..tokens
        }));
    }
}

/// A whole answer, or a piece of a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer<'a> {
    /// The type of an event.
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    results: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(deserialize_with = "read_millis")]
    duration: u32,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<Counts>,
    /// Cohere counts here.
    #[serde(deserialize_with = "read_counts")]
    meta: Option<Meta>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(deserialize_with = "read_counts")]
    tokens: Option<Counts>,
    #[serde(deserialize_with = "read_counts")]
    billed_units: Option<Billed>,
}

/// The most searches that one request can be. A larger count is no count.
const MOST_SEARCHES: u64 = 1 << 20;

/// The units that Cohere charges for: a search is a question with up to a hundred documents.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Billed {
    search_units: Count,
}

/// Returns whether a value is there, and begins so.
fn begins_with(value: Option<&RawValue>, with: char) -> bool {
    value.is_some_and(|value| value.get().starts_with(with))
}

/// Counts in the words of several servers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    #[serde(deserialize_with = "read_millis")]
    seconds: u32,
}

/// Reads seconds, as a number or a text. Any other value is 0.
fn read_millis<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let seconds = value
        .as_f64()
        .or_else(|| value.as_str()?.trim().parse().ok())
        .unwrap_or(0.0);
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(u32::try_from(length.as_millis()).unwrap_or(0))
}

impl Counts {
    fn tokens(&self) -> Tokens {
        let completion = self.completion_tokens.or(self.output_tokens).0;
        let total = self
            .total_tokens
            .0
            .map(|total| total.saturating_sub(completion.unwrap_or(0)));
        let prompt = self.prompt_tokens.or(self.input_tokens).0.or(total);
        Tokens {
            prompt,
            completion,
            ..Tokens::default()
        }
    }
}

impl<'a> Answer<'a> {
    /// Reads a whole answer. `is_one` returns whether it has the member that makes it an answer.
    fn read(
        body: &'a [u8],
        is_one: impl FnOnce(&Answer<'a>) -> bool,
        emit: Emit<'_>,
    ) -> Result<(), AnswerFault> {
        let body = without_bom(body);
        let answer: Object<Answer<'a>> = serde_json::from_slice(body)
            .map_err(|_| AnswerFault::Nonsense("the answer is no object of JSON"))?;
        if !is_one(&answer) {
            let nonsense = AnswerFault::Nonsense("the answer has no list of results, and no text");
            return Err(find_error(body).map_or(nonsense, AnswerFault::Upstream));
        }
        // An answer that is not written token by token has no completion.
        let meta = || answer.meta.as_ref()?.tokens.as_ref();
        let tokens = answer
            .usage
            .as_ref()
            .or_else(meta)
            .map(Counts::tokens)
            .unwrap_or_default();
        emit(Event::Usage(Tokens {
            completion: tokens.completion.or(tokens.prompt.map(|_| 0)),
            ..tokens
        }));
        let billed = answer
            .meta
            .as_ref()
            .and_then(|meta| meta.billed_units.as_ref());
        let searches = billed
            .and_then(|billed| billed.search_units.0)
            .filter(|count| *count <= MOST_SEARCHES);
        if let Some(requests) = searches.and_then(|count| u32::try_from(count).ok()) {
            emit(Event::Units(Units {
                requests,
                ..Units::NONE
            }));
        }
        if let Some(images) = answer
            .data
            .and_then(|data| serde_json::from_str::<Vec<IgnoredAny>>(data.get()).ok())
        {
            let images = u32::try_from(images.len()).unwrap_or(u32::MAX);
            emit(Event::Units(Units {
                images,
                ..Units::NONE
            }));
        }
        let charged = answer.usage.as_ref().map_or(0, |usage| usage.seconds);
        let millis = if charged > 0 {
            charged
        } else {
            answer.duration
        };
        if millis > 0 {
            emit(Event::Units(Units {
                millis,
                ..Units::NONE
            }));
        }
        if let Some(choices) = answer.choices {
            let choices: Vec<Object<Choice<'_>>> = serde_json::from_str(choices.get())
                .map_err(|_| AnswerFault::Nonsense("the answer has a choice that is none"))?;
            choices
                .iter()
                .for_each(|choice| choice.text.emit(|text| Event::Text(0, text), emit));
        }
        emit(Event::Finish(0, Finish::Stop));
        emit(Event::End);
        Ok(())
    }
}

/// A continuation of a prompt, or a piece of one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    index: Count,
    #[serde(borrow)]
    finish_reason: Text<'a>,
}

/// A stream of continuations.
#[derive(Default)]
struct Continuation {
    /// The number of choices without which the answer is not whole.
    asked: usize,
    /// Whether each of the choices so far has ended.
    ended: Vec<bool>,
}

impl Continuation {
    /// The most choices of an answer.
    const MAX_CHOICES: usize = 1 << 16;

    fn end(&self, emit: Emit<'_>) {
        if self.has_ended() {
            emit(Event::Finish(0, Finish::Stop));
            emit(Event::End);
        }
    }

    fn has_ended(&self) -> bool {
        !self.ended.is_empty()
            && self.ended.len() >= self.asked
            && self.ended.iter().all(|ended| *ended)
    }
}

impl Reader for Continuation {
    fn expect_choices(&mut self, choices: u64) {
        self.asked = usize::try_from(choices).unwrap_or(usize::MAX);
    }

    fn event(&mut self, _name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        if data.trim_ascii() == b"[DONE]" {
            // The server may have fewer choices than were asked for.
            self.asked = 0;
            self.end(emit);
            return Ok(());
        }
        let nonsense = |_| StreamFault::Broken("an event that is no object of JSON");
        let piece: Object<Answer<'_>> = serde_json::from_slice(data).map_err(nonsense)?;
        if piece.error.is_some()
            && let Some(error) = find_error(data)
        {
            return Err(StreamFault::Upstream(error));
        }
        let choices = piece.choices.map_or("[]", RawValue::get);
        let choices: Vec<Object<Choice<'_>>> = serde_json::from_str(choices).map_err(nonsense)?;
        for choice in &choices {
            let index = choice
                .index
                .0
                .and_then(|index| usize::try_from(index).ok())
                .unwrap_or(0);
            if index >= Self::MAX_CHOICES {
                return Err(StreamFault::Broken("an answer with too many choices"));
            }
            if self.ended.len() <= index {
                self.ended.resize(index + 1, false);
            }
            choice.text.emit(|text| Event::Text(0, text), emit);
            if choice.finish_reason.filled().is_some()
                && let Some(ended) = self.ended.get_mut(index)
            {
                *ended = true;
            }
        }
        if self.has_ended() {
            emit(Event::Finish(0, Finish::Stop));
        }
        if let Some(usage) = &piece.usage {
            emit(Event::Usage(usage.tokens()));
        }
        Ok(())
    }

    fn end_of_file(&mut self, emit: Emit<'_>) -> StreamResult<()> {
        self.end(emit);
        Ok(())
    }
}

/// The stream of an endpoint that has none.
struct NoStream;

impl Reader for NoStream {
    fn event(&mut self, _name: &[u8], _data: &[u8], _emit: Emit<'_>) -> StreamResult<()> {
        Err(StreamFault::Broken("a stream of an endpoint that has none"))
    }
}

#[cfg(test)]
mod tests;
