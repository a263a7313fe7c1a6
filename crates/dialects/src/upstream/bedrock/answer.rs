//! What Converse answers, whole or as a stream's events.
//!
//! In a stream the usage comes after the reason why it stopped; both together are its end. A text
//! block begins with its first delta, only calls are announced. Everything unknown is passed over:
//! citations, traces, padding, tools that the provider runs by itself.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{error, models};
use crate::neutral::{self, AnswerFault, Emit, Event, Finish, StreamFault, Tokens, UpstreamError};
use crate::upstream::shared::lenient::{Count, counts, unquoted};
use crate::upstream::shared::text::Text;

/// Reads a buffered answer of this model.
pub fn answer(model: &str, body: &[u8], emit: Emit<'_>) -> Result<(), AnswerFault> {
    let Ok(answer) = serde_json::from_slice::<ConverseAnswer<'_>>(body) else {
        return Err(AnswerFault::Nonsense("the answer is no JSON of Converse"));
    };
    let Some(content) = answer.output.and_then(|output| output.message).and_then(|message| message.content) else {
        return Err(match error::hidden(body) {
            Some(error) => AnswerFault::Upstream(error),
            None => AnswerFault::Nonsense("the answer has no message"),
        });
    };
    let finish = finish(answer.stop_reason.as_str()).map_err(AnswerFault::Upstream)?;
    for block in &content {
        block.tell(emit);
    }
    emit(Event::Finish(0, finish));
    if let Some(usage) = answer.usage {
        emit(Event::Usage(usage.tokens(models::is_claude(model))));
    }
    Ok(())
}

/// Reads the events of a stream.
#[derive(Debug)]
pub struct ConverseReader {
    is_claude: bool,
    has_stopped: bool,
    has_usage: bool,
    open: OpenBlock,
}

/// The block that a call's fragments belong to. A block of text may come without a beginning, and
/// so changes nothing.
#[derive(Debug, Default, Clone, Copy)]
enum OpenBlock {
    #[default]
    Nothing,
    /// A call.
    Call(Option<u64>),
    /// A call that the provider itself makes: nothing of it is told.
    Hidden(Option<u64>),
    /// No call.
    Other(Option<u64>),
}

impl ConverseReader {
    /// A reader of what this model answers.
    pub fn new(model: &str) -> Self {
        Self { is_claude: models::is_claude(model), has_stopped: false, has_usage: false, open: OpenBlock::Nothing }
    }

    fn end(&self, emit: Emit<'_>) {
        if self.has_stopped && self.has_usage {
            emit(Event::End);
        }
    }
}

impl neutral::Reader for ConverseReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> Result<(), StreamFault> {
        match name {
            b"contentBlockDelta" => {
                let event: Delta<'_> = read(data)?;
                let is_of = |open: Option<u64>| event.index.0.is_none() || open.is_none() || event.index.0 == open;
                let is_fragment = event.fragment().is_some();
                match self.open {
                    OpenBlock::Hidden(index) if event.index.0.is_some() && event.index.0 == index => {}
                    OpenBlock::Hidden(index) | OpenBlock::Other(index) if is_fragment && is_of(index) => {}
                    OpenBlock::Call(index) if is_of(index) => event.tell(emit),
                    // Blocks never interleave. To guess would make garbage of two calls.
                    OpenBlock::Nothing | OpenBlock::Call(_) | OpenBlock::Hidden(_) | OpenBlock::Other(_)
                        if is_fragment =>
                    {
                        return Err(StreamFault::Broken("a part of a call that is not open"));
                    }
                    OpenBlock::Nothing | OpenBlock::Call(_) | OpenBlock::Hidden(_) | OpenBlock::Other(_) => {
                        event.tell(emit)
                    }
                }
            }
            b"contentBlockStart" => {
                let event: Start<'_> = read(data)?;
                let call = event.start.and_then(|start| start.call);
                self.open = match &call {
                    Some(call) if call.is_providers() => OpenBlock::Hidden(event.index.0),
                    Some(_) => OpenBlock::Call(event.index.0),
                    None => OpenBlock::Other(event.index.0),
                };
                if let Some(call) = call {
                    call.tell(emit);
                }
            }
            b"contentBlockStop" => {
                let event: Stopped = read(data)?;
                match self.open {
                    OpenBlock::Call(index) | OpenBlock::Hidden(index) | OpenBlock::Other(index)
                        if event.index.0.is_none() || index.is_none() || event.index.0 == index =>
                    {
                        self.open = OpenBlock::Nothing;
                    }
                    OpenBlock::Nothing | OpenBlock::Call(_) | OpenBlock::Hidden(_) | OpenBlock::Other(_) => {}
                }
            }
            b"messageStop" => {
                let event: Stop<'_> = read(data)?;
                let finish = finish(event.reason.as_str()).map_err(StreamFault::Upstream)?;
                self.has_stopped = true;
                emit(Event::Finish(0, finish));
                self.end(emit);
            }
            b"metadata" => {
                let event: Metadata = read(data)?;
                self.has_usage = true;
                if let Some(usage) = event.usage {
                    emit(Event::Usage(usage.tokens(self.is_claude)));
                }
                self.end(emit);
            }
            _ => return error::of_event(name, data).map_or(Ok(()), Err),
        }
        Ok(())
    }

    /// Without its usage an answer is whole all the same.
    fn end_of_file(&mut self, emit: Emit<'_>) -> Result<(), StreamFault> {
        if self.has_stopped && !self.has_usage {
            emit(Event::End);
        }
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, StreamFault> {
    serde_json::from_slice(data).map_err(|_| StreamFault::Broken("an event is no JSON of ConverseStream"))
}

/// Why it ended; an error where the model broke its own format.
fn finish(reason: &str) -> Result<Finish, UpstreamError> {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => Ok(Finish::Length),
        "guardrail_intervened" | "content_filtered" | "refusal" => Ok(Finish::Filtered),
        "malformed_model_output" | "malformed_tool_use" => Err(error::malformed(reason)),
        _ => Ok(Finish::Stop),
    }
}

#[derive(Deserialize)]
struct ConverseAnswer<'a> {
    #[serde(borrow)]
    output: Option<Output<'a>>,
    #[serde(borrow, default, rename = "stopReason")]
    stop_reason: Text<'a>,
    #[serde(default, deserialize_with = "counts")]
    usage: Option<ConverseUsage>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(borrow)]
    message: Option<OutputMessage<'a>>,
}

#[derive(Deserialize)]
struct OutputMessage<'a> {
    #[serde(borrow)]
    content: Option<Vec<Block<'a>>>,
}

/// A block; each has one of these.
#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, rename = "toolUse")]
    call: Option<ToolUse<'a>>,
    #[serde(borrow, rename = "reasoningContent")]
    thought: Option<Thought<'a>>,
    /// Text with its sources.
    #[serde(borrow, rename = "citationsContent")]
    cited: Option<Cited<'a>>,
    #[serde(borrow)]
    image: Option<Image<'a>>,
}

#[derive(Deserialize)]
struct ToolUse<'a> {
    #[serde(borrow, default, rename = "toolUseId")]
    id: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    /// `server_tool_use`, if the provider makes it.
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
}

/// A whole thought, or a stream's piece of one.
#[derive(Deserialize)]
struct Thought<'a> {
    #[serde(borrow, rename = "reasoningText")]
    whole: Option<ThoughtText<'a>>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
    #[serde(borrow, default, rename = "redactedContent")]
    redacted: Text<'a>,
}

#[derive(Deserialize)]
struct ThoughtText<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    signature: Text<'a>,
}

#[derive(Deserialize)]
struct Cited<'a> {
    #[serde(borrow)]
    content: Option<Vec<CitedText<'a>>>,
}

#[derive(Deserialize)]
struct CitedText<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow, default)]
    format: Text<'a>,
    #[serde(borrow)]
    source: Option<ImageBytes<'a>>,
}

#[derive(Deserialize)]
struct ImageBytes<'a> {
    #[serde(borrow, default)]
    bytes: Text<'a>,
}

impl Block<'_> {
    fn tell(&self, emit: Emit<'_>) {
        if let Some(text) = self.text.filled() {
            emit(Event::Text(0, text));
        }
        if let Some(call) = &self.call {
            call.tell(emit);
        }
        if let Some(thought) = &self.thought {
            thought.tell(emit);
        }
        let cited = self.cited.as_ref().and_then(|cited| cited.content.as_deref());
        for text in cited.unwrap_or_default().iter().filter_map(|cited| cited.text.filled()) {
            emit(Event::Text(0, text));
        }
        if let Some(image) = &self.image
            && let Some(bytes) = image.source.as_ref().and_then(|source| source.bytes.filled())
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

    fn tell(&self, emit: Emit<'_>) {
        if self.is_providers() {
            return;
        }
        emit(Event::Call {
            choice: 0,
            id: self.id.filled(),
            name: self.name.filled().unwrap_or_default(),
            signature: None,
        });
        if let Some(input) = self.input.map(unquoted).filter(|input| !input.is_empty()) {
            emit(Event::Arguments(0, &input));
        }
    }
}

impl Thought<'_> {
    fn tell(&self, emit: Emit<'_>) {
        let (text, signature) = match &self.whole {
            Some(whole) => (&whole.text, &whole.signature),
            None => (&self.text, &self.signature),
        };
        if let Some(text) = text.filled() {
            emit(Event::Reasoning(0, text));
        }
        if let Some(signature) = signature.filled() {
            emit(Event::Signed(signature));
        }
        if let Some(redacted) = self.redacted.filled() {
            emit(Event::Redacted(redacted));
        }
    }
}

#[derive(Deserialize)]
struct Start<'a> {
    #[serde(rename = "contentBlockIndex")]
    #[serde(default)]
    index: Count,
    #[serde(borrow)]
    start: Option<StartOf<'a>>,
}

#[derive(Deserialize)]
struct StartOf<'a> {
    #[serde(borrow, rename = "toolUse")]
    call: Option<ToolUse<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "contentBlockIndex")]
    #[serde(default)]
    index: Count,
    #[serde(borrow)]
    delta: Option<BlockPiece<'a>>,
}

#[derive(Deserialize)]
struct BlockPiece<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, rename = "toolUse")]
    call: Option<Fragment<'a>>,
    #[serde(borrow, rename = "reasoningContent")]
    thought: Option<Thought<'a>>,
}

#[derive(Deserialize)]
struct Fragment<'a> {
    #[serde(borrow, default)]
    input: Text<'a>,
}

impl Delta<'_> {
    /// The piece of a call's arguments that it is.
    fn fragment(&self) -> Option<&str> {
        self.delta.as_ref()?.call.as_ref().and_then(|call| call.input.filled())
    }

    fn tell(&self, emit: Emit<'_>) {
        let Some(piece) = &self.delta else { return };
        if let Some(text) = piece.text.filled() {
            emit(Event::Text(0, text));
        }
        if let Some(fragment) = self.fragment() {
            emit(Event::Arguments(0, fragment));
        }
        if let Some(thought) = &piece.thought {
            thought.tell(emit);
        }
    }
}

/// The end of a block.
#[derive(Deserialize)]
struct Stopped {
    #[serde(rename = "contentBlockIndex")]
    #[serde(default)]
    index: Count,
}

#[derive(Deserialize)]
struct Stop<'a> {
    #[serde(borrow, default, rename = "stopReason")]
    reason: Text<'a>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "counts")]
    usage: Option<ConverseUsage>,
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
    /// A Claude's input is without what went through the cache. With the others' that differs, so
    /// the total decides; unless the cache's numbers are larger than the input that they would be
    /// part of.
    fn tokens(&self, is_claude: bool) -> Tokens {
        let cache =
            self.cache_read_input_tokens.0.unwrap_or(0).saturating_add(self.cache_write_input_tokens.0.unwrap_or(0));
        let sum = self.input_tokens.0.map(|input| input.saturating_add(cache));
        let rest = self.total_tokens.0.zip(self.output_tokens.0).map(|(total, output)| total.saturating_sub(output));
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
