//! This module reads Converse's answers, whole or as a stream's events.
//!
//! In a stream the usage comes after the reason of the end, and both together are the end. A text
//! block begins with its first delta; only calls are announced. Unknown parts are ignored:
//! traces, padding, and tools that the provider runs itself.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cited::{CitedContent, emit_citation};
use super::{error, models};
use crate::neutral::{
    self, AnswerFault, Emit, Event, Finish, StreamFault, StreamResult, Tokens, UpstreamError,
};
use crate::upstream::shared::citations::CitedBlock;
use crate::upstream::shared::lenient::{
    Count, Object, counts_in, read_counts, read_object, unquote_input,
};
use crate::upstream::shared::text::Text;

/// Reads a buffered answer of this model.
pub fn read_answer(model: &str, body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let Some(answer) = read_object::<Converse<'_>>(body) else {
        return Err(AnswerFault::Nonsense(
            "the answer is not JSON as Converse sends it",
        ));
    };
    let Some(content) = answer
        .output
        .and_then(|output| output.message)
        .and_then(|message| message.content)
    else {
        return Err(match error::hidden_error(body) {
            Some(error) => AnswerFault::Upstream(error),
            None => AnswerFault::Nonsense("the answer has no message"),
        });
    };
    let finish = finish_reason(answer.stop_reason.as_str()).map_err(AnswerFault::Upstream)?;
    for block in &content {
        block.emit(emit);
    }
    emit(Event::Finish(0, finish));
    if let Some(usage) = answer.usage {
        emit(Event::Usage(usage.tokens(models::is_claude(model))));
    }
    Ok(())
}

/// Emits the counts of a whole answer of this model, whatever else it is.
pub fn emit_usage(model: &str, body: &[u8], emit: Emit<'_>) {
    if let Some(usage) = counts_in::<ConverseUsage>(body, "usage") {
        emit(Event::Usage(usage.tokens(models::is_claude(model))));
    }
}

/// The reader of a stream.
#[derive(Debug)]
pub struct ConverseReader {
    is_claude: bool,
    has_stopped: bool,
    /// The reason why the answer is none. Its usage comes after it, and counts.
    failed: Option<Box<UpstreamError>>,
    has_usage: bool,
    /// The block to which fragments of a call belong. A text block may come without a start, so it
    /// changes nothing here.
    open: Option<OpenBlock>,
    cited: CitedBlock,
}

/// A block that has begun.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    kind: BlockKind,
    index: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// A call of a caller's tool.
    Call,
    /// A call of one of the provider's own tools. Nothing of it is emitted.
    Hidden,
    /// A block that is no call.
    Other,
}

impl OpenBlock {
    /// Returns whether an event with this index belongs to this block.
    fn is_at(self, index: Option<u64>) -> bool {
        self.index.is_none() || index.is_none() || self.index == index
    }
}

impl ConverseReader {
    /// Returns a reader of this model's answers.
    pub fn new(model: &str) -> Self {
        Self {
            is_claude: models::is_claude(model),
            has_stopped: false,
            failed: None,
            has_usage: false,
            open: None,
            cited: CitedBlock::default(),
        }
    }

    fn delta(&mut self, index: Option<u64>, delta: &Delta<'_>, emit: Emit<'_>) -> StreamResult<()> {
        if let Some(open) = self.open
            && open.kind == BlockKind::Hidden
            && index.is_some()
            && open.index == index
        {
            return Ok(());
        }
        if delta.fragment().is_some() {
            match self
                .open
                .filter(|open| open.is_at(index))
                .map(|open| open.kind)
            {
                Some(BlockKind::Call) => {}
                Some(BlockKind::Hidden | BlockKind::Other) => return Ok(()),
                // Blocks never interleave. A guess could destroy the arguments of two calls.
                None => {
                    return Err(StreamFault::Broken(
                        "a part of a tool call that has not begun or has ended",
                    ));
                }
            }
        }
        self.cited.bytes += delta.text.as_str().len();
        delta.emit(emit);
        if let Some(citation) = delta.citation {
            self.cited.take(citation, emit_citation, emit);
        }
        Ok(())
    }

    /// Fails if the answer has ended, and is none.
    fn check(&mut self) -> StreamResult<()> {
        self.failed
            .take()
            .map_or(Ok(()), |error| Err(StreamFault::Upstream(*error)))
    }

    fn end(&self, emit: Emit<'_>) {
        if self.has_stopped && self.has_usage {
            emit(Event::End);
        }
    }
}

impl neutral::Reader for ConverseReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        match name {
            b"contentBlockDelta" => {
                let event = read_event(data)?;
                self.delta(
                    event.content_block_index.0,
                    &event.delta.unwrap_or_default(),
                    emit,
                )?;
            }
            b"contentBlockStart" => {
                let event = read_event(data)?;
                self.cited.end(emit_citation, emit);
                let call = event.start.and_then(|Object(block)| block.call);
                let kind = match &call {
                    Some(call) if call.is_providers() => BlockKind::Hidden,
                    Some(_) => BlockKind::Call,
                    None => BlockKind::Other,
                };
                self.open = Some(OpenBlock {
                    kind,
                    index: event.content_block_index.0,
                });
                if let Some(call) = call {
                    call.emit(emit);
                }
            }
            b"contentBlockStop" => {
                let index = read_event(data)?.content_block_index.0;
                self.cited.end(emit_citation, emit);
                self.open = self.open.filter(|open| !open.is_at(index));
            }
            b"messageStop" => {
                self.has_stopped = true;
                self.cited.end(emit_citation, emit);
                match finish_reason(read_event(data)?.stop_reason.as_str()) {
                    Ok(finish) => emit(Event::Finish(0, finish)),
                    Err(error) if self.has_usage => return Err(StreamFault::Upstream(error)),
                    Err(error) => self.failed = Some(Box::new(error)),
                }
                self.end(emit);
            }
            b"metadata" => {
                let event = read_event(data)?;
                self.has_usage = true;
                if let Some(usage) = event.usage {
                    emit(Event::Usage(usage.tokens(self.is_claude)));
                }
                self.check()?;
                self.end(emit);
            }
            _ => return error::event_error(name, data).map_or(Ok(()), Err),
        }
        Ok(())
    }

    /// Ends an answer that came without its usage. It is whole nevertheless.
    fn end_of_file(&mut self, emit: Emit<'_>) -> StreamResult<()> {
        self.check()?;
        if self.has_stopped && !self.has_usage {
            emit(Event::End);
        }
        Ok(())
    }
}

fn read_event(data: &[u8]) -> StreamResult<Converse<'_>> {
    read_object(data).ok_or(StreamFault::Broken(
        "an event is not JSON as ConverseStream sends it",
    ))
}

/// Returns the reason of the end, or an error if the model broke its own format.
fn finish_reason(reason: &str) -> Result<Finish, UpstreamError> {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(Finish::Length),
        "guardrail_intervened" | "content_filtered" | "refusal" => Ok(Finish::Filtered),
        "malformed_model_output" | "malformed_tool_use" => Err(error::malformed_answer(reason)),
        _ => Ok(Finish::Stop),
    }
}

/// A whole answer, or an event of a stream. An event has some of these members, and some of its
/// own.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Converse<'a> {
    #[serde(borrow)]
    output: Option<Output<'a>>,
    stop_reason: Text<'a>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<ConverseUsage>,
    content_block_index: Count,
    start: Option<Object<Start<'a>>>,
    delta: Option<Object<Delta<'a>>>,
}

/// The start of a block. Only the start of a call has facts in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Start<'a> {
    #[serde(borrow, rename = "toolUse")]
    call: Option<Object<ToolUse<'a>>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Option<Content<'a>>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    content: Option<Vec<Object<Block<'a>>>>,
}

/// A content block. Each block has one of these members.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(rename = "toolUse")]
    call: Option<Object<ToolUse<'a>>>,
    #[serde(rename = "reasoningContent")]
    thought: Option<Object<Thought<'a>>>,
    /// Text with its sources.
    #[serde(rename = "citationsContent")]
    cited: Option<Object<CitedContent<'a>>>,
    image: Option<Object<Image<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolUse<'a> {
    #[serde(borrow, rename = "toolUseId")]
    id: Text<'a>,
    name: Text<'a>,
    input: Option<&'a RawValue>,
    /// `server_tool_use` if the provider runs the tool.
    #[serde(rename = "type")]
    kind: Text<'a>,
}

/// A whole thought, or a stream's piece of one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Thought<'a> {
    #[serde(borrow, rename = "reasoningText")]
    whole: Option<Object<ThoughtText<'a>>>,
    text: Text<'a>,
    signature: Text<'a>,
    #[serde(rename = "redactedContent")]
    redacted: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ThoughtText<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    signature: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Image<'a> {
    #[serde(borrow)]
    format: Text<'a>,
    source: Option<ImageBytes<'a>>,
}

#[derive(Deserialize)]
struct ImageBytes<'a> {
    #[serde(borrow, default)]
    bytes: Text<'a>,
}

impl Block<'_> {
    fn emit(&self, emit: Emit<'_>) {
        self.text.emit(|text| Event::Text(0, text), emit);
        if let Some(call) = &self.call {
            call.emit(emit);
        }
        if let Some(thought) = &self.thought {
            thought.emit(emit);
        }
        if let Some(cited) = &self.cited {
            cited.emit(emit);
        }
        if let Some(image) = &self.image
            && let Some(bytes) = image
                .source
                .as_ref()
                .and_then(|source| source.bytes.filled())
        {
            let format = image.format.filled().unwrap_or("png");
            emit(Event::Media(0, &format!("image/{format}"), bytes));
        }
    }
}

impl ToolUse<'_> {
    fn is_providers(&self) -> bool {
        self.kind.filled() == Some("server_tool_use")
    }

    fn emit(&self, emit: Emit<'_>) {
        if self.is_providers() {
            return;
        }
        emit(Event::Call {
            choice: 0,
            id: self.id.filled(),
            name: self.name.as_str(),
            signature: None,
        });
        if let Some(input) = self
            .input
            .map(unquote_input)
            .filter(|input| !input.is_empty())
        {
            emit(Event::Arguments(0, &input));
        }
    }
}

impl Thought<'_> {
    fn emit(&self, emit: Emit<'_>) {
        let (text, signature) = match &self.whole {
            Some(whole) => (&whole.text, &whole.signature),
            None => (&self.text, &self.signature),
        };
        text.emit(|text| Event::Reasoning(0, text), emit);
        signature.emit(Event::Signed, emit);
        self.redacted.emit(Event::Redacted, emit);
    }
}

/// A piece of a block in a stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(rename = "toolUse")]
    call: Option<Fragment<'a>>,
    #[serde(rename = "reasoningContent")]
    thought: Option<Object<Thought<'a>>>,
    citation: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Fragment<'a> {
    #[serde(borrow, default)]
    input: Text<'a>,
}

impl Delta<'_> {
    /// Returns the piece of a call's arguments, if the delta has one.
    fn fragment(&self) -> Option<&str> {
        self.call.as_ref()?.input.filled()
    }

    fn emit(&self, emit: Emit<'_>) {
        self.text.emit(|text| Event::Text(0, text), emit);
        if let Some(fragment) = self.fragment() {
            emit(Event::Arguments(0, fragment));
        }
        if let Some(thought) = &self.thought {
            thought.emit(emit);
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConverseUsage {
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
}

impl ConverseUsage {
    /// Returns the tokens as other providers count them.
    ///
    /// The input of a Claude does not include the tokens that went through the cache. Other models
    /// differ in this, so their prompt follows from the total. But if the cache's tokens are more
    /// than the input, they cannot be part of it, and are added.
    fn tokens(&self, is_claude: bool) -> Tokens {
        let cache = self
            .cache_read_input_tokens
            .0
            .unwrap_or(0)
            .saturating_add(self.cache_write_input_tokens.0.unwrap_or(0));
        let sum = self.input_tokens.0.map(|input| input.saturating_add(cache));
        let rest = self
            .total_tokens
            .0
            .zip(self.output_tokens.0)
            .map(|(total, output)| total.saturating_sub(output));
        let prompt = if is_claude || cache > self.input_tokens.0.unwrap_or(0) {
            sum
        } else {
            rest.filter(|rest| *rest > 0).or(sum)
        };
        Tokens {
            prompt,
            completion: self.output_tokens.0,
            cached: self.cache_read_input_tokens.0,
            cache_write: self.cache_write_input_tokens.0,
            reasoning: None,
        }
    }
}

#[cfg(test)]
mod tests;
