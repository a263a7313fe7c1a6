//! This module reads the events of a stream.
//!
//! The events come in order: the message, its blocks one after the other, the reason of the end,
//! and the end. Between two events the reader keeps only a few numbers.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::answer::{AnthropicUsage, Block, BlockCitation, Details, emit_finish};
use super::error;
use crate::neutral::{self, Emit, Event, Finish, StreamFault, StreamResult};
use crate::upstream::shared::citations::CitedBlock;
use crate::upstream::shared::lenient::{Count, Object, read_counts, read_object};
use crate::upstream::shared::repeat::Repeat;
use crate::upstream::shared::text::Text;

/// The reader's place in a stream.
#[derive(Debug, Default)]
pub struct AnthropicReader {
    usage: AnthropicUsage,
    open: OpenBlock,
    cited: CitedBlock,
    /// True if a part of the message came.
    started: bool,
    /// True if a reason of the end came, even if it is `null`.
    has_stop_reason: bool,
    /// True if the finish was emitted.
    finished: bool,
    /// True if `message_stop` came. Later events are ignored.
    ended: bool,
    /// The last event with a piece. Most events differ from it in the text only, and are not
    /// parsed.
    repeat: Repeat<BlockPiece>,
}

/// The kind of a block's piece.
#[derive(Debug, Clone, Copy)]
enum BlockPiece {
    Text,
    Thinking,
    Arguments,
}

/// The block to which fragments belong.
#[derive(Debug, Default, Clone, Copy)]
enum OpenBlock {
    #[default]
    Nothing,
    /// A block that is no call of the caller's tools.
    Other(Option<u64>),
    Call {
        index: Option<u64>,
        /// True if the arguments came with the start of the call.
        is_whole: bool,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Data<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    index: Count,
    delta: Option<Object<Delta<'a>>>,
    content_block: Option<Object<Block<'a>>>,
    message: Option<Object<Start<'a>>>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<AnthropicUsage>,
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(deserialize_with = "read_counts")]
    usage: Option<AnthropicUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    partial_json: Text<'a>,
    citation: Option<&'a RawValue>,
    /// `null` differs from an absent value here.
    #[serde(deserialize_with = "read_present")]
    stop_reason: Option<Text<'a>>,
    stop_details: Option<Details<'a>>,
}

impl neutral::Reader for AnthropicReader {
    fn event(&mut self, name: &[u8], data: &[u8], emit: Emit<'_>) -> StreamResult<()> {
        if self.ended {
            return Ok(());
        }
        if name == b"error" {
            return Err(StreamFault::Upstream(error::hidden_error(data)));
        }
        if let Some((piece, text)) = self.repeat.follow(data) {
            self.emit_piece(piece, &text, emit);
            return Ok(());
        }
        self.repeat.forget();
        let Some(event) = read_object::<Data<'_>>(data) else {
            return self.judge_unreadable(data);
        };
        // The name is repeated inside the data. Some servers that imitate the API have it in one
        // place only.
        let kind = event
            .kind
            .filled()
            .unwrap_or_else(|| str::from_utf8(name).unwrap_or_default());
        match kind {
            "content_block_delta" => {
                let delta = event.delta.unwrap_or_default();
                let piece = self.delta(event.index.0, &delta, emit)?;
                // An event whose name is not in it may mean something else under another name.
                if let Some((piece, text)) = piece.filter(|_| event.kind.filled().is_some()) {
                    self.repeat.learn(data, text, None, piece);
                }
                Ok(())
            }
            "content_block_start" => {
                let block = event.content_block.unwrap_or_default();
                self.start(event.index.0, &block, emit);
                Ok(())
            }
            "message_start" => {
                self.started = true;
                let Object(message) = event.message.unwrap_or_default();
                message.id.emit(Event::Id, emit);
                self.count(message.usage.map(AnthropicUsage::of_the_prompt), emit);
                Ok(())
            }
            "content_block_stop" => {
                self.cited.end(emit_citation, emit);
                Ok(())
            }
            "message_delta" => {
                self.cited.end(emit_citation, emit);
                self.count(event.usage, emit);
                let Object(delta) = event.delta.unwrap_or_default();
                self.has_stop_reason |= delta.stop_reason.is_some();
                if let Some(reason) = delta.stop_reason.filter(|reason| reason.filled().is_some()) {
                    self.finished = true;
                    emit_finish(&reason, delta.stop_details.as_ref(), emit);
                }
                Ok(())
            }
            "message_stop" => self.stop(emit),
            "error" => Err(StreamFault::Upstream(error::hidden_error(data))),
            "" if event.error.is_some() => Err(StreamFault::Upstream(error::hidden_error(data))),
            // `ping`, and any future event.
            _ => Ok(()),
        }
    }
}

impl AnthropicReader {
    fn start(&mut self, index: Option<u64>, block: &Block<'_>, emit: Emit<'_>) {
        self.started = true;
        self.cited.end(emit_citation, emit);
        self.open = if block.kind.as_str() == "tool_use" {
            OpenBlock::Call {
                index,
                is_whole: block.input().is_some(),
            }
        } else {
            OpenBlock::Other(index)
        };
        block.emit(emit);
        self.cited.bytes = block.text_bytes();
    }

    /// Emits a piece of a block. Returns its kind and its text if the event means nothing else:
    /// then an event that differs only in the text can be read without parsing.
    fn delta<'d>(
        &mut self,
        index: Option<u64>,
        delta: &'d Delta<'_>,
        emit: Emit<'_>,
    ) -> StreamResult<Option<(BlockPiece, &'d str)>> {
        self.started = true;
        let (piece, text) = match delta.kind.as_str() {
            "text_delta" => (BlockPiece::Text, &delta.text),
            "thinking_delta" => (BlockPiece::Thinking, &delta.thinking),
            "input_json_delta" => (BlockPiece::Arguments, &delta.partial_json),
            "citations_delta" => {
                if let Some(citation) = delta.citation {
                    self.cited.take(citation, emit_citation, emit);
                }
                return Ok(None);
            }
            "signature_delta" => {
                delta.signature.emit(Event::Signed, emit);
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let Some(text) = text.filled() else {
            return Ok(None);
        };
        if matches!(piece, BlockPiece::Arguments) {
            let belongs_to = |open: Option<u64>| index.is_none() || index == open;
            match self.open {
                // The arguments came with the start of the call.
                OpenBlock::Call {
                    index: open,
                    is_whole: true,
                } if belongs_to(open) => return Ok(None),
                OpenBlock::Call {
                    index: open,
                    is_whole: false,
                } if belongs_to(open) => {}
                // The input of one of the provider's own tools.
                OpenBlock::Other(open) if belongs_to(open) => return Ok(None),
                // Blocks never interleave. A guess could destroy the arguments of two calls.
                OpenBlock::Call { .. } | OpenBlock::Other(_) | OpenBlock::Nothing => {
                    return Err(StreamFault::Broken(
                        "a part of a tool call that has not begun or has ended",
                    ));
                }
            }
        }
        self.emit_piece(piece, text, emit);
        Ok(Some((piece, text)))
    }

    /// Emits a piece of a block, and counts the text that citations may be for.
    fn emit_piece(&mut self, piece: BlockPiece, text: &str, emit: Emit<'_>) {
        if matches!(piece, BlockPiece::Text) {
            self.cited.bytes += text.len();
        }
        piece.emit(text, emit);
    }

    fn stop(&mut self, emit: Emit<'_>) -> StreamResult<()> {
        if !self.started {
            return Err(StreamFault::Broken("the stream ends without an answer"));
        }
        if !self.has_stop_reason {
            return Err(StreamFault::Cut);
        }
        if !self.finished {
            emit(Event::Finish(0, Finish::Stop));
        }
        emit(Event::End);
        self.ended = true;
        Ok(())
    }

    fn count(&mut self, usage: Option<AnthropicUsage>, emit: Emit<'_>) {
        if let Some(usage) = usage {
            self.usage.update(usage);
            emit(Event::Usage(self.usage.tokens()));
        }
    }

    /// Ignores an event of the wrong shape if its kind is unknown. Fails if its kind is known.
    #[cold]
    fn judge_unreadable(&mut self, data: &[u8]) -> StreamResult<()> {
        // Some proxies end every stream as OpenAI does.
        if data.trim_ascii() == b"[DONE]" {
            return Ok(());
        }
        if let Some(kinds) = read_object::<Kinds<'_>>(data) {
            // The kinds that this reader would have read. Without a type, an event counts as known.
            let is_known = match kinds.kind.as_str() {
                "content_block_delta" => [
                    "",
                    "text_delta",
                    "thinking_delta",
                    "signature_delta",
                    "input_json_delta",
                ]
                .contains(&kind_of(kinds.delta).as_str()),
                "content_block_start" => ["", "text", "thinking", "redacted_thinking", "tool_use"]
                    .contains(&kind_of(kinds.content_block).as_str()),
                kind => [
                    "",
                    "message_start",
                    "message_delta",
                    "message_stop",
                    "error",
                ]
                .contains(&kind),
            };
            if !is_known {
                if kinds.kind.as_str() == "content_block_start" {
                    self.open = OpenBlock::Other(kinds.index.0);
                }
                return Ok(());
            }
        }
        Err(StreamFault::Broken(
            "an event is not what the Messages API sends",
        ))
    }
}

impl BlockPiece {
    fn emit(self, text: &str, emit: Emit<'_>) {
        emit(match self {
            BlockPiece::Text => Event::Text(0, text),
            BlockPiece::Thinking => Event::Reasoning(0, text),
            BlockPiece::Arguments => Event::Arguments(0, text),
        });
    }
}

/// Emits a citation from its JSON text.
fn emit_citation(json: &str, bytes: usize, emit: Emit<'_>) {
    read_object::<BlockCitation<'_>>(json.as_bytes())
        .unwrap_or_default()
        .emit(bytes, emit);
}

fn read_present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Text<'a>>, D::Error> {
    Text::deserialize(from).map(Some)
}

/// The parts of an event that can be read even if the rest has the wrong shape.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Kinds<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    index: Count,
    delta: Option<&'a RawValue>,
    content_block: Option<&'a RawValue>,
}

/// Returns the type of a part of an event; empty if the part is no object.
fn kind_of(part: Option<&RawValue>) -> Text<'_> {
    part.and_then(|part| read_object::<Kinds<'_>>(part.get().as_bytes()))
        .map(|kinds| kinds.kind)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
