//! An answer's events → a message: whole, or as the events of a stream. Its blocks come one after
//! the other, numbered without a gap.

use std::ops::Range;

use super::{stop_reason, write_usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind, omitted_media_text};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, Finish, mark};
use crate::wire::json::{Pieces, escape_into, put_text};

/// Writes a message.
#[derive(Debug)]
pub(crate) struct MessageWriter {
    is_stream: bool,
    id: String,
    model: String,
    has_begun: bool,
    /// The number of blocks that have begun.
    blocks: usize,
    open: OpenBlock,
    /// The start of each delta of the open block, in a stream.
    delta_start: Vec<u8>,
    /// The blocks of a whole message, as the elements of an array.
    content: Vec<u8>,
    /// The offset in `content` at which the last block begins, with its comma.
    last_block_start: usize,
    /// The citations of the open text of a whole message, as the elements of an array.
    citations: Vec<u8>,
    /// The input of the open call of a whole message.
    input: String,
    /// The places in `content` of calls that have no input. If the answer was cut, these calls are
    /// removed at its end.
    calls_without_input: Vec<Range<usize>>,
    /// True if the input of the open call has begun, in a stream.
    has_input: bool,
    reason: Finish,
    refuses: bool,
    out: Vec<u8>,
}

/// The block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenBlock {
    None,
    Text,
    Thinking,
    Redacted,
    Call,
}

impl OpenBlock {
    /// Returns what closes a block after its head, if no piece of it follows.
    fn tail(self) -> &'static [u8] {
        match self {
            OpenBlock::None => b"",
            OpenBlock::Text => br#""}"#,
            OpenBlock::Thinking => br#"","signature":""}"#,
            OpenBlock::Redacted => b"}",
            OpenBlock::Call => b"{}}",
        }
    }
}

impl MessageWriter {
    /// Returns the writer of a message without any events yet.
    pub(crate) fn new(header: &AnswerHeader, is_stream: bool) -> Self {
        Self {
            is_stream,
            id: header.id.clone(),
            model: header.model.clone(),
            has_begun: false,
            blocks: 0,
            open: OpenBlock::None,
            delta_start: Vec::new(),
            content: Vec::new(),
            last_block_start: 0,
            citations: Vec::new(),
            input: String::new(),
            calls_without_input: Vec::new(),
            has_input: false,
            reason: Finish::Stop,
            refuses: false,
            out: Vec::new(),
        }
    }

    /// Writes the first event of a stream, once. The usage is not known yet: it comes with the last
    /// event.
    fn begin_message(&mut self) {
        if !self.is_stream || std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let out = &mut self.out;
        put_text(
            out,
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":",
            &self.id,
        );
        put_text(
            out,
            r#","type":"message","role":"assistant","model":"#,
            &self.model,
        );
        out.extend_from_slice(
            br#","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}"#,
        );
        out.extend_from_slice(b"\n\n");
    }

    /// Begins a block of this kind. `head` writes its beginning, and `delta` stands before each of
    /// its pieces.
    fn begin_block(&mut self, open: OpenBlock, delta: &str, head: impl FnOnce(&mut Vec<u8>)) {
        self.begin_message();
        self.end_block();
        if self.is_stream {
            begin_event(&mut self.out, "content_block_start", self.blocks);
            self.out.extend_from_slice(br#","content_block":"#);
            head(&mut self.out);
            self.out.extend_from_slice(open.tail());
            self.out.extend_from_slice(b"}\n\n");
            self.delta_start.clear();
            begin_event(&mut self.delta_start, "content_block_delta", self.blocks);
            self.delta_start.extend_from_slice(delta.as_bytes());
        } else {
            self.last_block_start = self.content.len();
            if self.last_block_start > 0 {
                self.content.push(b',');
            }
            head(&mut self.content);
        }
        self.blocks += 1;
        self.open = open;
    }

    /// Ends the block that is open.
    fn end_block(&mut self) {
        match std::mem::replace(&mut self.open, OpenBlock::None) {
            OpenBlock::None => {}
            _ if self.is_stream => {
                begin_event(&mut self.out, "content_block_stop", self.blocks - 1);
                self.out.extend_from_slice(b"}\n\n");
            }
            OpenBlock::Call => self.end_call(),
            OpenBlock::Text if !self.citations.is_empty() => {
                self.content.extend_from_slice(br#"","citations":["#);
                self.content.append(&mut self.citations);
                self.content.extend_from_slice(b"]}");
            }
            open @ (OpenBlock::Text | OpenBlock::Thinking | OpenBlock::Redacted) => {
                self.content.extend_from_slice(open.tail())
            }
        }
    }

    /// Ends a call of a whole message. A call whose input is no object is left out.
    fn end_call(&mut self) {
        let input = std::mem::take(&mut self.input);
        let mut pieces = Pieces::default();
        pieces.take(input.trim_ascii());
        if matches!(input.trim_ascii(), "" | "null") {
            self.content.extend_from_slice(OpenBlock::Call.tail());
            self.calls_without_input
                .push(self.last_block_start..self.content.len());
        } else if pieces.is_object() {
            self.content
                .extend_from_slice(input.trim_ascii().as_bytes());
            self.content.push(b'}');
        } else {
            self.content.truncate(self.last_block_start);
        }
    }

    /// Writes a piece of the open block: as a delta event, or as more of its text.
    fn write_piece(&mut self, piece: &str) {
        if !self.is_stream {
            return escape_into(piece, &mut self.content);
        }
        self.out.reserve(self.delta_start.len() + piece.len() + 16);
        self.out.extend_from_slice(&self.delta_start);
        put_text(&mut self.out, "", piece);
        self.out.extend_from_slice(b"}}\n\n");
    }

    fn open_thinking(&mut self) {
        if self.open != OpenBlock::Thinking {
            self.begin_block(
                OpenBlock::Thinking,
                r#","delta":{"type":"thinking_delta","thinking":"#,
                |out| {
                    out.extend_from_slice(br#"{"type":"thinking","thinking":""#);
                },
            );
        }
    }

    fn open_text(&mut self) {
        if self.open != OpenBlock::Text {
            self.begin_block(
                OpenBlock::Text,
                r#","delta":{"type":"text_delta","text":"#,
                |out| {
                    out.extend_from_slice(br#"{"type":"text","text":""#);
                },
            );
        }
    }

    /// Writes the whole message.
    fn write_whole(&mut self, stop_word: &str, tally: &Tally) {
        // If the answer was cut, a call without an input may have lost it: it is left out.
        if matches!(self.reason, Finish::Length | Finish::Filtered) {
            // From the last one, so that the places before stay right.
            for call in self.calls_without_input.drain(..).rev() {
                self.content.drain(call);
            }
        }
        let out = &mut self.out;
        put_text(out, r#"{"id":"#, &self.id);
        put_text(
            out,
            r#","type":"message","role":"assistant","model":"#,
            &self.model,
        );
        out.extend_from_slice(br#","content":["#);
        // If the first block was left out, the next one begins with a comma.
        out.extend_from_slice(self.content.strip_prefix(b",").unwrap_or(&self.content));
        put_text(out, r#"],"stop_reason":"#, stop_word);
        out.extend_from_slice(br#","stop_sequence":null,"usage":"#);
        write_usage(out, tally);
        out.push(b'}');
    }
}

impl AnswerWriter for MessageWriter {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithThoughts
    }

    fn open(&mut self, _choice: usize) {
        self.begin_message();
    }

    fn write_text(&mut self, choice: usize, kind: TextKind, piece: &str) {
        if choice > 0 {
            return;
        }
        match kind {
            TextKind::Content | TextKind::Refusal => self.open_text(),
            TextKind::Reasoning => self.open_thinking(),
        }
        self.refuses |= kind == TextKind::Refusal;
        self.write_piece(piece);
    }

    fn signed(&mut self, signature: &str) {
        self.open_thinking();
        if self.is_stream {
            begin_event(&mut self.out, "content_block_delta", self.blocks - 1);
            put_text(
                &mut self.out,
                r#","delta":{"type":"signature_delta","signature":"#,
                signature,
            );
            self.out.extend_from_slice(b"}}\n\n");
            self.end_block();
        } else {
            put_text(&mut self.content, r#"","signature":"#, signature);
            self.content.push(b'}');
            self.open = OpenBlock::None;
        }
    }

    fn redacted(&mut self, data: &str) {
        self.begin_block(OpenBlock::Redacted, "", |out| {
            put_text(out, r#"{"type":"redacted_thinking","data":"#, data)
        });
        self.end_block();
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        if choice > 0 {
            return;
        }
        // Here the signature is the sealed thoughts that led to the call. A call of this format has
        // no place for them, so they go before it as a redacted thought, which clients send back.
        if let Some(sealed) = call.signature {
            self.redacted(sealed);
        }
        self.begin_block(
            OpenBlock::Call,
            r#","delta":{"type":"input_json_delta","partial_json":"#,
            |out| {
                put_text(out, r#"{"type":"tool_use","id":"#, call.id);
                put_text(out, r#","name":"#, call.name);
                out.extend_from_slice(br#","input":"#);
            },
        );
        self.has_input = false;
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        if choice > 0 || self.open != OpenBlock::Call {
            return;
        }
        if !self.is_stream {
            return self.input.push_str(piece);
        }
        // Blanks, and the `null` of a call without arguments, are left out: clients take a block
        // without a piece for `{}`, and all else for the input itself.
        let piece = if self.has_input {
            piece
        } else {
            piece.trim_ascii_start()
        };
        self.has_input |= piece.starts_with('{');
        if self.has_input {
            self.write_piece(piece);
        }
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, _data: &str) {
        if choice == 0 {
            self.open_text();
            self.write_piece(&omitted_media_text(mime));
        }
    }

    // Anthropic's format has a block for each cited passage. Text that was sent cannot be split
    // into blocks any more, so all citations of a text stand in its one block.
    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool {
        // Other choices are not written at all, so nothing more of them is lost.
        if choice > 0 {
            return true;
        }
        if self.open != OpenBlock::Text || citation.source.url.is_empty() {
            return false;
        }
        if self.is_stream {
            begin_event(&mut self.out, "content_block_delta", self.blocks - 1);
            self.out
                .extend_from_slice(br#","delta":{"type":"citations_delta","citation":"#);
            append_web_citation(&mut self.out, citation);
            self.out.extend_from_slice(b"}}\n\n");
            return true;
        }
        if !self.citations.is_empty() {
            self.citations.push(b',');
        }
        append_web_citation(&mut self.citations, citation);
        true
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        if choice == 0 {
            self.reason = reason;
        }
    }

    fn needs_objects(&self) -> bool {
        true
    }

    fn end(&mut self, tally: &Tally, trail: Option<&str>) {
        self.begin_message();
        self.end_block();
        let stop_word = stop_reason(self.reason, self.refuses);
        if self.is_stream {
            end_stream(&mut self.out, stop_word, tally, trail);
        } else {
            self.write_whole(stop_word, tally);
        }
    }
}

/// Appends the last two events of a stream.
fn end_stream(out: &mut Vec<u8>, stop_word: &str, tally: &Tally, trail: Option<&str>) {
    let start =
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":";
    put_text(out, start, stop_word);
    out.extend_from_slice(br#","stop_sequence":null},"usage":"#);
    write_usage(out, tally);
    mark::append_mark(out, tally.usage().source, trail);
    out.extend_from_slice(b"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

/// Appends a citation of a web page. Clients require `encrypted_index`, by which Anthropic's
/// servers find the page again; no other provider has one, so it is empty.
fn append_web_citation(out: &mut Vec<u8>, citation: &PlacedCitation<'_>) {
    let source = citation.source;
    put_text(
        out,
        r#"{"type":"web_search_result_location","cited_text":"#,
        source.quote,
    );
    put_text(out, r#","encrypted_index":"","title":"#, source.title);
    put_text(out, r#","url":"#, source.url);
    out.push(b'}');
}

/// Begins an event of the block at this index.
fn begin_event(out: &mut Vec<u8>, name: &str, index: usize) {
    out.extend_from_slice(
        format!("event: {name}\ndata: {{\"type\":\"{name}\",\"index\":{index}").as_bytes(),
    );
}
