//! This module reads a whole response. It also has the types that a response shares with a stream's
//! events.
//!
//! Every field is optional, `null` counts as absent, and items of unknown types are ignored.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::error;
use crate::neutral::citation::count_characters;
use crate::neutral::{AnswerFault, CitedRange, Emit, Event, Finish, Tokens, UpstreamError};
use crate::upstream::shared::citations::{Annotation, read_list};
use crate::upstream::shared::lenient::{Count, Object, counts_in, read_counts, unquote_input};
use crate::upstream::shared::text::Text;
use crate::wire::json;
use crate::wire::without_bom;

/// Reads a buffered answer.
pub(super) fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = without_bom(body);
    let lossy;
    let response: Object<Response<'_>> = match serde_json::from_slice(body) {
        Ok(response) => response,
        Err(_) => {
            // An invalid character in the model's text costs that character, not the answer.
            lossy = String::from_utf8_lossy(body);
            serde_json::from_str(&lossy)
                .map_err(|_| AnswerFault::Nonsense("the answer is not a response"))?
        }
    };
    if let Some(error) = response.failure() {
        return Err(AnswerFault::Upstream(error));
    }
    let Some(items) = &response.output else {
        return Err(AnswerFault::Nonsense("the answer has no output"));
    };
    response.check_status().map_err(AnswerFault::Nonsense)?;
    response.id.emit(Event::Id, emit);
    items.iter().for_each(|item| item.emit(emit));
    response.end(false, emit);
    Ok(())
}

/// Emits the counts of a whole answer, whatever else it is.
pub(super) fn emit_usage(body: &[u8], emit: Emit<'_>) {
    if let Some(usage) = counts_in::<ResponseUsage>(body, "usage") {
        emit(Event::Usage(usage.tokens()));
    }
}

/// A response: whole, or in an event of a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    status: Text<'a>,
    pub(super) output: Option<Vec<Object<OutputItem<'a>>>>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<ResponseUsage>,
    error: Option<&'a RawValue>,
    incomplete_details: Option<Object<Incomplete<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Text<'a>,
}

impl Response<'_> {
    /// Returns the error of a response that failed.
    pub(super) fn failure(&self) -> Option<UpstreamError> {
        match self.error {
            Some(error) => Some(answer_failure(
                format!(r#"{{"error":{}}}"#, error.get()).as_bytes(),
            )),
            None => (self.status.as_str() == "failed").then(|| answer_failure(b"{}")),
        }
    }

    /// Fails if the response declares that it has not ended.
    pub(super) fn check_status(&self) -> Result<(), &'static str> {
        let has_ended = matches!(self.status.as_str(), "" | "completed" | "incomplete");
        if has_ended {
            Ok(())
        } else {
            Err("the response is not complete")
        }
    }

    /// Emits the counts.
    pub(super) fn count(&self, emit: Emit<'_>) {
        if let Some(usage) = &self.usage {
            emit(Event::Usage(usage.tokens()));
        }
    }

    /// Emits the counts, the reason of the end, and the end. `is_cut` is true if the answer is
    /// known to be incomplete.
    pub(super) fn end(&self, is_cut: bool, emit: Emit<'_>) {
        self.count(emit);
        let reason = self
            .incomplete_details
            .as_ref()
            .map(|details| details.reason.as_str());
        emit(Event::Finish(
            0,
            match reason {
                Some("content_filter") => Finish::Filtered,
                Some(_) => Finish::Length,
                None if is_cut || self.status.as_str() == "incomplete" => Finish::Length,
                None => Finish::Stop,
            },
        ));
        emit(Event::End);
    }
}

/// Reads an error that stands inside an answer. Its code decides the status.
pub(super) fn answer_failure(json: &[u8]) -> UpstreamError {
    let mut error = error::read_error(json, None);
    let status = match error.code.as_deref() {
        Some("rate_limit_exceeded") => 429,
        Some("invalid_prompt" | "context_length_exceeded") => 400,
        Some(code) if code.contains("image") => 400,
        Some(_) | None => return error,
    };
    error.status.get_or_insert(status);
    error
}

/// An item of an answer. Its type decides which fields it has.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputItem<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    call_id: Text<'a>,
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
    input: Text<'a>,
    content: Option<Vec<Object<PartOfOutput<'a>>>>,
    summary: Option<Vec<Object<PartOfOutput<'a>>>>,
    encrypted_content: Text<'a>,
    /// A picture that the server made, in base64.
    result: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartOfOutput<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    text: Text<'a>,
    refusal: Text<'a>,
    annotations: Option<&'a RawValue>,
}

impl PartOfOutput<'_> {
    /// Emits the citations of a text of so many characters, which was emitted. Some citations may
    /// have been emitted, too.
    fn cite(&self, characters: usize, emitted_count: usize, emit: Emit<'_>) {
        for annotation in read_list::<Annotation<'_>>(self.annotations)
            .iter()
            .skip(emitted_count)
        {
            annotation.emit(0, |range| CitedRange::OfLast(characters, range), emit);
        }
    }
}

/// The beginning of the arguments in which a free text stands.
pub(super) const FREE: &str = r#"{"input":""#;
/// Their end.
pub(super) const FREE_END: &str = r#""}"#;

impl OutputItem<'_> {
    /// Emits the whole item.
    pub(super) fn emit(&self, emit: Emit<'_>) {
        match self.kind.as_str() {
            "message" => {
                for part in self.content.iter().flatten() {
                    match part.kind.as_str() {
                        "refusal" => part.refusal.emit(|text| Event::Refusal(0, text), emit),
                        _ => {
                            part.text.emit(|text| Event::Text(0, text), emit);
                            part.cite(count_characters(part.text.as_str()), 0, emit);
                        }
                    }
                }
            }
            "reasoning" => {
                let parts = self
                    .summary
                    .as_ref()
                    .filter(|parts| !parts.is_empty())
                    .or(self.content.as_ref());
                let texts: Vec<&str> = parts
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part.text.filled())
                    .collect();
                if !texts.is_empty() {
                    emit(Event::Reasoning(0, &texts.join("\n\n")));
                }
                self.seal(!texts.is_empty(), emit);
            }
            "image_generation_call" => self
                .result
                .emit(|data| Event::Media(0, "image/png", data), emit),
            _ if self.begin_call(emit) => self.emit_arguments(emit),
            // The findings of the server's own tools are in the text that follows.
            _ => {}
        }
    }

    /// Emits the citations of a text that was emitted in pieces, which has so many characters. So
    /// many of its citations were emitted before.
    pub(super) fn cite(&self, characters: usize, emitted_count: usize, emit: Emit<'_>) {
        let mut texts = self
            .content
            .iter()
            .flatten()
            .filter(|part| part.kind.as_str() != "refusal");
        if let Some(last) = texts.next_back() {
            last.cite(characters, emitted_count, emit);
        }
    }

    /// Emits the encrypted text that makes a thought valid at its provider. `is_shown` is true if
    /// the thought has a text.
    pub(super) fn seal(&self, is_shown: bool, emit: Emit<'_>) {
        self.encrypted_content.emit(
            if is_shown {
                Event::Signed
            } else {
                Event::Redacted
            },
            emit,
        );
    }

    /// Emits the start of a call, if the item is a call that its caller answers. Returns whether it
    /// is.
    pub(super) fn begin_call(&self, emit: Emit<'_>) -> bool {
        let kind = self.kind.as_str();
        let name = match kind {
            "function_call" | "custom_tool_call" => self.name.as_str(),
            _ => kind.strip_suffix("_call").unwrap_or(kind),
        };
        if self.is_call() {
            emit(Event::Call {
                choice: 0,
                id: self.call_id.filled(),
                name,
                signature: None,
            });
        }
        self.is_call()
    }

    /// Returns whether the item is a call that its caller answers.
    pub(super) fn is_call(&self) -> bool {
        self.call_id.filled().is_some()
            || matches!(self.kind.as_str(), "function_call" | "custom_tool_call")
    }

    /// Returns a hash of the call's id.
    pub(super) fn id_hash(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.call_id.as_str().hash(&mut hash);
        hash.finish()
    }

    /// Returns the arguments of a call, or its free text.
    pub(super) fn given(&self) -> Cow<'_, str> {
        let arguments = self
            .arguments
            .filter(|_| self.kind.as_str() != "custom_tool_call");
        arguments.map_or(Cow::Borrowed(self.input.as_str()), unquote_input)
    }

    /// Emits all arguments of a call.
    pub(super) fn emit_arguments(&self, emit: Emit<'_>) {
        if self.kind.as_str() == "custom_tool_call" {
            let text = format!("{FREE}{}{FREE_END}", inside_quotes(self.input.as_str()));
            emit(Event::Arguments(0, &text));
        } else if let Some(arguments) = self.arguments {
            emit(Event::Arguments(0, &unquote_input(arguments)));
        }
    }
}

/// Returns a text as it stands inside the quotes of a JSON string.
pub(super) fn inside_quotes(text: &str) -> Cow<'static, str> {
    let quoted = json::quote_string(text);
    quoted
        .get(1..quoted.len() - 1)
        .unwrap_or_default()
        .to_owned()
        .into()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseUsage {
    input_tokens: Count,
    output_tokens: Count,
    #[serde(deserialize_with = "read_counts")]
    input_tokens_details: Option<InputDetails>,
    #[serde(deserialize_with = "read_counts")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl ResponseUsage {
    fn tokens(&self) -> Tokens {
        let input = self.input_tokens_details.as_ref();
        Tokens {
            prompt: self.input_tokens.0,
            completion: self.output_tokens.0,
            cached: input.and_then(|details| details.cached_tokens.0),
            cache_write: input.and_then(|details| details.cache_write_tokens.0),
            reasoning: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.reasoning_tokens.0),
        }
    }
}
