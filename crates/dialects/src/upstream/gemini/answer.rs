//! This module reads answers. Buffered and streamed answers have one kind of object; a stream sends
//! one with every event.
//!
//! In a stream's object the text is only the new text, the usage is the whole usage so far, and a
//! call is complete. There is no last event. A stream is complete if every candidate in it has a
//! reason of its end. Google's servers may leave out a default value, so only the name of a call is
//! required.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error;
use super::grounding::{self, CitedAlready};
use super::lenient::{compact_json, read_required};
use crate::neutral::{
    self, AnswerFault, Emit, Event, Finish, StreamFault, StreamResult, Tokens, UpstreamError,
};
use crate::upstream::shared::flat::shapes::Several;
use crate::upstream::shared::lenient::{Count, Object, counts_in, read_counts, unquote_input};
use crate::upstream::shared::text::Text;
use crate::wire::without_bom;

/// Reads a buffered answer. Also reads a stream's objects as an array: a stream comes so if
/// `alt=sse` was lost on the way.
pub fn read_answer(body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let body = without_bom(body);
    let lossy = String::from_utf8_lossy(body);
    let responses = read_responses(&lossy).ok_or(AnswerFault::Nonsense(
        "the answer is not JSON as Gemini sends it",
    ))?;
    let mut reader = GeminiReader::default();
    for response in responses.list() {
        reader
            .take(response, &lossy, emit)
            .map_err(AnswerFault::Upstream)?;
    }
    reader.finish_by_zero(emit);
    match responses {
        // The answer is whole because its JSON is whole.
        Several::One(_) => reader.finish_the_rest(emit),
        Several::Many(_) if !reader.is_whole() => {
            return Err(AnswerFault::Nonsense("the answer is not complete"));
        }
        Several::Many(_) => {}
    }
    if !reader.is_whole() {
        return Err(AnswerFault::Nonsense("the answer has no candidates"));
    }
    Ok(())
}

/// Emits the counts of a whole answer, whatever else it is.
pub fn emit_usage(body: &[u8], emit: Emit<'_>) {
    let counted = counts_in::<UsageMetadata>(body, "usageMetadata").map(|counts| counts.tokens());
    if let Some(tokens) = counted.or_else(|| last_tokens(body)) {
        emit(Event::Usage(tokens));
    }
}

/// Returns the counts of the last object that has some.
fn last_tokens(body: &[u8]) -> Option<Tokens> {
    let responses = read_responses(str::from_utf8(body).ok()?)?;
    let mut responses = responses.list().iter().rev();
    responses.find_map(|response| Some(response.usage_metadata.as_ref()?.tokens()))
}

/// Reads the objects in a text.
fn read_responses(text: &str) -> Option<Several<Response<'_>>> {
    if text.trim_ascii_start().starts_with('[') {
        let list: Vec<Object<_>> = serde_json::from_str(text).ok()?;
        return Some(Several::Many(
            list.into_iter().map(|Object(response)| response).collect(),
        ));
    }
    serde_json::from_str(text).ok().map(Several::One)
}

/// The reader of one stream.
#[derive(Debug, Default)]
pub struct GeminiReader {
    /// True if the answer's id was emitted.
    has_id: bool,
    /// True if the prompt was blocked. Then no candidates come.
    blocked: bool,
    candidates: Vec<CandidateState>,
}

/// The state of a candidate.
#[derive(Debug)]
struct CandidateState {
    index: u32,
    /// True if the candidate had content other than thinking.
    spoke: bool,
    /// True if the candidate had a reason of its end.
    ended: bool,
    /// The meaning of the enumeration's zero, so far.
    zero: Zero,
    cited: CitedAlready,
}

/// The zero of the enumeration of reasons. Some servers send it in place of the word for the end,
/// and some with every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zero {
    NotSeen,
    /// It came once, and nothing after it.
    IsLast,
    IsInEachEvent,
}

/// The most candidates that are read. Google gives at most eight.
const MAX_CANDIDATES: usize = 64;

impl neutral::Reader for GeminiReader {
    fn event(&mut self, _name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        if data.trim_ascii() == b"[DONE]" {
            // Google does not send this, but proxies that speak its format do.
            return Ok(());
        }
        let broken = StreamFault::Broken("an event is not JSON as Gemini sends it");
        let text = str::from_utf8(data).map_err(|_| broken.clone())?;
        for response in read_responses(text).ok_or(broken)?.list() {
            self.take(response, text, emit)
                .map_err(StreamFault::Upstream)?;
        }
        Ok(())
    }

    fn end_of_file(&mut self, emit: Emit<'_>) -> StreamResult<()> {
        self.finish_by_zero(emit);
        if self.is_whole() {
            emit(Event::End);
        }
        Ok(())
    }
}

impl GeminiReader {
    fn is_whole(&self) -> bool {
        self.blocked
            || (!self.candidates.is_empty() && self.candidates.iter().all(|seen| seen.ended))
    }

    fn finish_by_zero(&mut self, emit: Emit<'_>) {
        for seen in self
            .candidates
            .iter_mut()
            .filter(|seen| !seen.ended && seen.zero == Zero::IsLast)
        {
            seen.ended = true;
            emit(Event::Finish(seen.index, Finish::Stop));
        }
    }

    fn finish_the_rest(&mut self, emit: Emit<'_>) {
        for seen in self.candidates.iter_mut().filter(|seen| !seen.ended) {
            seen.ended = true;
            emit(Event::Finish(seen.index, Finish::Stop));
        }
    }

    /// Emits the content of one object. `whole` is the text that the object is in.
    fn take(
        &mut self,
        response: &Response<'_>,
        whole: &str,
        emit: Emit<'_>,
    ) -> Result<(), UpstreamError> {
        if response
            .error
            .is_some_and(|error| !matches!(error.get(), "false" | r#""""#))
        {
            return Err(error::read_any_error(whole.as_bytes(), None));
        }
        if let Some(id) = response.response_id.filled().filter(|_| !self.has_id) {
            self.has_id = true;
            emit(Event::Id(id));
        }
        let read = response
            .candidates
            .iter()
            .flatten()
            .try_for_each(|candidate| self.candidate(candidate, emit));
        // The usage of a candidate that is no answer counts, too.
        if let Some(counts) = &response.usage_metadata {
            emit(Event::Usage(counts.tokens()));
        }
        read?;
        if response.is_blocked() {
            self.blocked = true;
            self.candidates
                .iter_mut()
                .for_each(|seen| seen.ended = true);
            emit(Event::Finish(0, Finish::Filtered));
        }
        Ok(())
    }

    fn candidate(
        &mut self,
        candidate: &Candidate<'_>,
        emit: Emit<'_>,
    ) -> Result<(), UpstreamError> {
        let index = candidate
            .index
            .0
            .and_then(|index| u32::try_from(index).ok())
            .unwrap_or_default();
        let state_index = match self.candidates.iter().position(|seen| seen.index == index) {
            Some(known_index) => known_index,
            None if self.candidates.len() == MAX_CANDIDATES => return Ok(()),
            None => {
                self.candidates.push(CandidateState {
                    index,
                    spoke: false,
                    ended: false,
                    zero: Zero::NotSeen,
                    cited: CitedAlready::default(),
                });
                self.candidates.len() - 1
            }
        };
        let Some(seen) = self.candidates.get_mut(state_index) else {
            return Ok(());
        };
        for part in candidate
            .content
            .iter()
            .flat_map(|content| content.parts.iter().flatten())
        {
            seen.spoke |= part.emit(index, emit);
        }
        if let Some(metadata) = candidate.grounding_metadata {
            let is_last = seen.ended || !candidate.finish_reason.as_str().is_empty();
            grounding::emit_sources(metadata, is_last, index, &mut seen.cited, emit);
        }
        let is_zero = candidate.finish_reason.as_str() == ZERO;
        seen.zero = match seen.zero {
            Zero::NotSeen if is_zero => Zero::IsLast,
            Zero::NotSeen => Zero::NotSeen,
            Zero::IsLast | Zero::IsInEachEvent => Zero::IsInEachEvent,
        };
        let finish = match finish_reason(candidate.finish_reason.as_str()) {
            Ok(None) => return Ok(()),
            Ok(Some(finish)) => finish,
            // Content from before the failure is still an answer. Without content there is no
            // answer.
            Err(_) if seen.spoke => Finish::Stop,
            Err(word) => {
                return Err(error::unfinished_answer(
                    word,
                    candidate.finish_message.filled(),
                ));
            }
        };
        seen.ended = true;
        emit(Event::Finish(index, finish));
        Ok(())
    }
}

const ZERO: &str = "FINISH_REASON_UNSPECIFIED";

/// Returns the reason of a candidate's end, or `None` if the candidate goes on. If the model made
/// something that is no answer, the error is Google's word for it.
fn finish_reason(reason: &str) -> Result<Option<Finish>, &str> {
    match reason {
        "" | ZERO => Ok(None),
        "MAX_TOKENS" | "CONTINUATION" => Ok(Some(Finish::Length)),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "LANGUAGE"
        | "ESCALATION"
        | "PUP_LIMITED_DISABLED" => Ok(Some(Finish::Filtered)),
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE"
        | "MISSING_THOUGHT_SIGNATURE"
        | "OTHER"
        | "IMAGE_OTHER"
        | "NO_IMAGE" => Err(reason),
        _ => Ok(Some(Finish::Stop)),
    }
}

/// Google's `GenerateContentResponse`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Object<Candidate<'a>>>>,
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(deserialize_with = "read_counts")]
    usage_metadata: Option<UsageMetadata>,
    response_id: Text<'a>,
    error: Option<&'a RawValue>,
}

impl Response<'_> {
    fn is_blocked(&self) -> bool {
        self.prompt_feedback
            .as_ref()
            .is_some_and(|feedback| feedback.block_reason.filled().is_some())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<CandidateContent<'a>>,
    finish_reason: Text<'a>,
    finish_message: Text<'a>,
    index: Count,
    grounding_metadata: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Feedback<'a> {
    #[serde(borrow, default, rename = "blockReason")]
    block_reason: Text<'a>,
}

#[derive(Debug, Deserialize)]
struct CandidateContent<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Object<CandidatePart<'a>>>>,
}

/// The kinds of parts that a caller sees. Code that the model runs at Google (`executableCode`)
/// cannot be asked for here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CandidatePart<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    thought: Option<bool>,
    thought_signature: Text<'a>,
    function_call: Option<FunctionCall<'a>>,
    inline_data: Option<Object<Blob<'a>>>,
}

impl CandidatePart<'_> {
    /// Emits the part. Returns whether it was something other than thinking.
    ///
    /// A signature is emitted only for a call, because a call's signature must come back. A
    /// signature on a text, or on an empty part after a text, may be left out. It would be wrong to
    /// take it for a call's signature.
    fn emit(&self, choice: u32, emit: Emit<'_>) -> bool {
        let is_thought = self.thought == Some(true);
        let mut spoke = false;
        if let Some(text) = self.text.filled() {
            if is_thought {
                emit(Event::Reasoning(choice, text));
            } else {
                emit(Event::Text(choice, text));
                spoke = true;
            }
        }
        if let Some(call) = &self.function_call {
            emit(Event::Call {
                choice,
                id: call.id.filled(),
                name: &call.name,
                signature: self.thought_signature.filled(),
            });
            if let Some(args) = call.args.map(unquote_input).filter(|args| !args.is_empty()) {
                emit(Event::Arguments(choice, &compact_json(&args)));
            }
            spoke = true;
        }
        // Drafts of a picture are thoughts too.
        if let Some(blob) = self.inline_data.as_ref().filter(|_| !is_thought)
            && let Some(data) = blob.data.filled()
        {
            emit(Event::Media(
                choice,
                blob.mime_type
                    .filled()
                    .unwrap_or("application/octet-stream"),
                data,
            ));
            spoke = true;
        }
        spoke
    }
}

#[derive(Debug, Deserialize)]
struct FunctionCall<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    /// The name is required: a call without a function cannot be passed on.
    #[serde(borrow, deserialize_with = "read_required")]
    name: Cow<'a, str>,
    args: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Blob<'a> {
    #[serde(borrow)]
    mime_type: Text<'a>,
    data: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UsageMetadata {
    prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    total_token_count: Count,
}

impl UsageMetadata {
    fn tokens(&self) -> Tokens {
        let value_of = |count: &Count| count.0.unwrap_or_default();
        let prompt = value_of(&self.prompt_token_count)
            .saturating_add(value_of(&self.tool_use_prompt_token_count));
        let written = value_of(&self.candidates_token_count)
            .saturating_add(value_of(&self.thoughts_token_count));
        // Some models think without counting it separately. The total includes it.
        let rest = value_of(&self.total_token_count).saturating_sub(prompt);
        Tokens {
            prompt: Some(prompt),
            completion: Some(written.max(rest)),
            cached: self.cached_content_token_count.0,
            cache_write: None,
            reasoning: self.thoughts_token_count.0,
        }
    }
}

#[cfg(test)]
mod tests;
