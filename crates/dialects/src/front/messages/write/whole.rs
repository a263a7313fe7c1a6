//! An answer's events → a whole message.

use super::{reason, usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind, omitted};
use crate::neutral::{AnswerHeader, Call, Finish, Thought};
use crate::wire::json::{Pieces, put_text};

/// Gathers a message.
#[derive(Debug)]
pub(in crate::front::messages) struct Whole {
    id: String,
    model: String,
    blocks: Vec<WrittenBlock>,
    reason: Finish,
    refuses: bool,
    out: Vec<u8>,
}

#[derive(Debug)]
enum WrittenBlock {
    Text(String),
    /// Thinking; `true` if its signature has come.
    Thinking(Thought<'static>, bool),
    Call(Call<'static>),
}

impl Whole {
    /// Returns the writer of a message of which nothing is known yet.
    pub(in crate::front::messages) fn new(header: &AnswerHeader) -> Self {
        Self {
            id: header.id.clone(),
            model: header.model.clone(),
            blocks: Vec::new(),
            reason: Finish::Stop,
            refuses: false,
            out: Vec::new(),
        }
    }

    fn speak(&mut self, piece: &str) {
        match self.blocks.last_mut() {
            Some(WrittenBlock::Text(said)) => said.push_str(piece),
            _ => self.blocks.push(WrittenBlock::Text(piece.to_owned())),
        }
    }

    /// Returns the thought that goes on, or a new one.
    fn thought(&mut self) -> Option<&mut Thought<'static>> {
        if !matches!(self.blocks.last(), Some(WrittenBlock::Thinking(_, false))) {
            self.blocks.push(WrittenBlock::Thinking(Thought::default(), false));
        }
        match self.blocks.last_mut() {
            Some(WrittenBlock::Thinking(thought, _)) => Some(thought),
            Some(WrittenBlock::Text(_) | WrittenBlock::Call(_)) | None => None,
        }
    }
}

impl AnswerWriter for Whole {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithThoughts
    }

    // Clients compare the id with nothing: ours stays.
    fn id(&mut self, _id: &str) {}

    fn open(&mut self, _choice: usize) {}

    fn say(&mut self, choice: usize, kind: TextKind, piece: &str) {
        match kind {
            _ if choice > 0 => {}
            TextKind::Content => self.speak(piece),
            TextKind::Refusal => {
                self.refuses = true;
                self.speak(piece);
            }
            TextKind::Reasoning => {
                self.thought().into_iter().for_each(|thought| thought.text.to_mut().push_str(piece));
            }
        }
    }

    fn signed(&mut self, signature: &str) {
        self.thought().into_iter().for_each(|thought| thought.signature = Some(signature.to_owned().into()));
        if let Some(WrittenBlock::Thinking(_, is_signed)) = self.blocks.last_mut() {
            *is_signed = true;
        }
    }

    fn redacted(&mut self, data: &str) {
        let thought = Thought { redacted: Some(data.to_owned().into()), ..Thought::default() };
        self.blocks.push(WrittenBlock::Thinking(thought, true));
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        if choice == 0 {
            call.signature.into_iter().for_each(|sealed| self.redacted(sealed));
            self.blocks.push(WrittenBlock::Call(call.begun()));
        }
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        if let (0, Some(WrittenBlock::Call(call))) = (choice, self.blocks.last_mut()) {
            call.arguments.to_mut().push_str(piece);
        }
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, _data: &str) {
        if choice == 0 {
            self.speak(&omitted(mime));
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

    fn end(&mut self, tally: &Tally, _trail: Option<&str>) {
        let out = &mut self.out;
        put_text(out, r#"{"id":"#, &self.id);
        put_text(out, r#","type":"message","role":"assistant","model":"#, &self.model);
        let mut before = r#","content":["#;
        for block in &self.blocks {
            let input = if let WrittenBlock::Call(call) = block { input(call, self.reason) } else { Some("") };
            let Some(input) = input else { continue };
            out.extend_from_slice(before.as_bytes());
            before = ",";
            match block {
                WrittenBlock::Text(said) => put_text(out, r#"{"type":"text","text":"#, said),
                WrittenBlock::Thinking(Thought { redacted: Some(data), .. }, _) => {
                    put_text(out, r#"{"type":"redacted_thinking","data":"#, data);
                }
                WrittenBlock::Thinking(thought, _) => {
                    put_text(out, r#"{"type":"thinking","thinking":"#, &thought.text);
                    put_text(out, r#","signature":"#, thought.signature.as_deref().unwrap_or_default());
                }
                WrittenBlock::Call(call) => {
                    put_text(out, r#"{"type":"tool_use","id":"#, &call.id);
                    put_text(out, r#","name":"#, &call.name);
                    out.extend_from_slice(br#","input":"#);
                    out.extend_from_slice(input.as_bytes());
                }
            }
            out.push(b'}');
        }
        if before != "," {
            out.extend_from_slice(br#","content":["#);
        }
        put_text(out, r#"],"stop_reason":"#, reason(self.reason, self.refuses));
        out.extend_from_slice(br#","stop_sequence":null,"usage":"#);
        usage(out, tally);
        out.push(b'}');
    }
}

/// Returns the input of a call; `None` if the answer was cut before its end, since nobody knows
/// what the call would have been.
fn input<'c>(call: &'c Call<'_>, reason: Finish) -> Option<&'c str> {
    let input = call.arguments.trim_ascii();
    if matches!(input, "" | "null") {
        return matches!(reason, Finish::Stop | Finish::Calls).then_some("{}");
    }
    let mut pieces = Pieces::default();
    pieces.take(input);
    pieces.is_object().then_some(input)
}
