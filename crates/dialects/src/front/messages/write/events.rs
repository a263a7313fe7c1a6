//! An answer's events → the events of a stream. Blocks come one after the other, numbered without
//! a gap.

use super::{reason, usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind, omitted};
use crate::neutral::{AnswerHeader, Finish, mark};
use crate::wire::json::put_text;

/// Writes the events of a stream.
#[derive(Debug)]
pub(in crate::front::messages) struct Events {
    id: String,
    model: String,
    has_begun: bool,
    /// The number of blocks that have begun.
    blocks: usize,
    open: Open,
    /// The start of a delta of the block that is open.
    delta: Vec<u8>,
    /// True if the input of the open call has begun.
    has_input: bool,
    reason: Finish,
    refuses: bool,
    out: Vec<u8>,
}

/// The block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    None,
    Text,
    Thinking,
    Call,
}

impl Events {
    /// Returns the writer of a stream at its start.
    pub(in crate::front::messages) fn new(header: &AnswerHeader) -> Self {
        Self {
            id: header.id.clone(),
            model: header.model.clone(),
            has_begun: false,
            blocks: 0,
            open: Open::None,
            delta: Vec::new(),
            has_input: false,
            reason: Finish::Stop,
            refuses: false,
            out: Vec::new(),
        }
    }

    /// Writes the first event, once. What was used nobody knows yet: the last event says it.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let out = &mut self.out;
        put_text(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":", &self.id);
        put_text(out, r#","type":"message","role":"assistant","model":"#, &self.model);
        out.extend_from_slice(
            br#","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}"#,
        );
        out.extend_from_slice(b"\n\n");
    }

    /// Begins a block of this kind; `block` writes what it is.
    fn start(&mut self, open: Open, delta: &str, block: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        self.stop();
        self.out.extend_from_slice(b"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":");
        self.out.extend_from_slice(self.blocks.to_string().as_bytes());
        self.out.extend_from_slice(br#","content_block":"#);
        block(&mut self.out);
        self.out.extend_from_slice(b"}\n\n");
        self.delta.clear();
        self.delta.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        self.delta.extend_from_slice(self.blocks.to_string().as_bytes());
        self.delta.extend_from_slice(delta.as_bytes());
        self.blocks += 1;
        self.open = open;
    }

    /// Ends the block that is open.
    fn stop(&mut self) {
        if self.open == Open::None {
            return;
        }
        self.open = Open::None;
        self.out.extend_from_slice(b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":");
        self.out.extend_from_slice((self.blocks - 1).to_string().as_bytes());
        self.out.extend_from_slice(b"}\n\n");
    }

    fn piece(&mut self, piece: &str) {
        self.out.reserve(self.delta.len() + piece.len() + 16);
        self.out.extend_from_slice(&self.delta);
        put_text(&mut self.out, "", piece);
        self.out.extend_from_slice(b"}}\n\n");
    }

    fn think(&mut self) {
        if self.open != Open::Thinking {
            self.start(Open::Thinking, r#","delta":{"type":"thinking_delta","thinking":"#, |out| {
                out.extend_from_slice(br#"{"type":"thinking","thinking":"","signature":""}"#);
            });
        }
    }

    fn speak(&mut self) {
        if self.open != Open::Text {
            self.start(Open::Text, r#","delta":{"type":"text_delta","text":"#, |out| {
                out.extend_from_slice(br#"{"type":"text","text":""}"#);
            });
        }
    }
}

impl AnswerWriter for Events {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithThoughts
    }

    // Clients compare the id with nothing: ours stays.
    fn id(&mut self, _id: &str) {}

    fn open(&mut self, _choice: usize) {
        self.begin();
    }

    fn say(&mut self, choice: usize, kind: TextKind, piece: &str) {
        if choice > 0 {
            return;
        }
        match kind {
            TextKind::Content | TextKind::Refusal => self.speak(),
            TextKind::Reasoning => self.think(),
        }
        self.refuses |= kind == TextKind::Refusal;
        self.piece(piece);
    }

    fn signed(&mut self, signature: &str) {
        self.think();
        self.out.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
        self.out.extend_from_slice((self.blocks - 1).to_string().as_bytes());
        put_text(&mut self.out, r#","delta":{"type":"signature_delta","signature":"#, signature);
        self.out.extend_from_slice(b"}}\n\n");
        self.stop();
    }

    fn redacted(&mut self, data: &str) {
        self.start(Open::Thinking, "", |out| {
            put_text(out, r#"{"type":"redacted_thinking","data":"#, data);
            out.push(b'}');
        });
        self.stop();
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        if choice > 0 {
            return;
        }
        call.signature.into_iter().for_each(|sealed| self.redacted(sealed));
        self.start(Open::Call, r#","delta":{"type":"input_json_delta","partial_json":"#, |out| {
            put_text(out, r#"{"type":"tool_use","id":"#, call.id);
            put_text(out, r#","name":"#, call.name);
            out.extend_from_slice(br#","input":{}}"#);
        });
        self.has_input = false;
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        if choice > 0 || self.open != Open::Call {
            return;
        }
        // Blanks, and the `null` of a call without arguments, are left out: clients take a block
        // without a piece for `{}`, and all else for the input itself.
        let piece = if self.has_input { piece } else { piece.trim_ascii_start() };
        self.has_input |= piece.starts_with('{');
        if self.has_input {
            self.piece(piece);
        }
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, _data: &str) {
        if choice == 0 {
            self.speak();
            self.piece(&omitted(mime));
        }
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
        self.begin();
        self.stop();
        let out = &mut self.out;
        out.extend_from_slice(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"");
        out.extend_from_slice(reason(self.reason, self.refuses).as_bytes());
        out.extend_from_slice(br#"","stop_sequence":null},"usage":"#);
        usage(out, tally);
        mark::append(out, tally.usage().source, trail);
        out.extend_from_slice(b"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }
}
