//! An answer's events → a whole response.

use super::calls::WaitingCalls;
use super::{call, finish, media, tail, usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind};
use crate::neutral::{AnswerHeader, Call, Finish};
use crate::wire::json::escape_into;

/// Gathers a response.
#[derive(Debug)]
pub(in crate::front::gemini) struct Whole {
    tail: Vec<u8>,
    candidates: Vec<WrittenCandidate>,
    calls: WaitingCalls,
    out: Vec<u8>,
}

/// One choice.
#[derive(Debug, Default)]
struct WrittenCandidate {
    /// Its parts, as JSON text.
    parts: Vec<u8>,
    /// The kind of the text that goes on: `true` for thinking.
    open: Option<bool>,
    reason: Option<Finish>,
}

impl WrittenCandidate {
    /// Begins another part.
    fn begin(&mut self) -> &mut Vec<u8> {
        self.close();
        if !self.parts.is_empty() {
            self.parts.push(b',');
        }
        &mut self.parts
    }

    /// Ends the text that goes on.
    fn close(&mut self) {
        if let Some(is_thought) = self.open.take() {
            self.parts.extend_from_slice(if is_thought { br#"","thought":true}"# } else { br#""}"# });
        }
    }

    fn say(&mut self, is_thought: bool, piece: &str) {
        if self.open != Some(is_thought) {
            self.begin().extend_from_slice(br#"{"text":""#);
            self.open = Some(is_thought);
        }
        escape_into(piece, &mut self.parts);
    }
}

impl Whole {
    /// Returns the writer of a response of which nothing is known yet.
    pub(in crate::front::gemini) fn new(header: &AnswerHeader) -> Self {
        Self { tail: tail(header), candidates: Vec::new(), calls: WaitingCalls::default(), out: Vec::new() }
    }

    fn write(&mut self, choice: usize, write: impl FnOnce(&mut WrittenCandidate)) {
        if let Some(candidate) = self.candidates.get_mut(choice) {
            write(candidate);
        }
    }

    fn called(&mut self, choice: usize, ended: Option<Call<'static>>) {
        if let Some(ended) = ended {
            self.write(choice, |candidate| call(candidate.begin(), &ended));
        }
    }
}

impl AnswerWriter for Whole {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithCalls
    }

    // Clients compare the id with nothing: ours stays.
    fn id(&mut self, _id: &str) {}

    fn open(&mut self, _choice: usize) {
        self.candidates.push(WrittenCandidate::default());
    }

    fn say(&mut self, choice: usize, kind: TextKind, piece: &str) {
        let before = self.calls.end_if_whole(choice);
        self.called(choice, before);
        self.write(choice, |candidate| candidate.say(kind == TextKind::Reasoning, piece));
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        let before = self.calls.end(choice);
        self.called(choice, before);
        self.calls.begin(choice, call);
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        self.calls.take(choice, piece);
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, data: &str) {
        let before = self.calls.end_if_whole(choice);
        self.called(choice, before);
        self.write(choice, |candidate| media(candidate.begin(), mime, data));
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        let before = self.calls.end(choice);
        self.called(choice, before);
        self.write(choice, |candidate| candidate.reason = Some(reason));
    }

    fn needs_objects(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.calls.is_full()
    }

    fn end(&mut self, tally: &Tally, _trail: Option<&str>) {
        let out = &mut self.out;
        out.extend_from_slice(br#"{"candidates":["#);
        for (choice, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.close();
            if choice > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"content":{"parts":["#);
            match candidate.parts.is_empty() {
                true => out.extend_from_slice(br#"{"text":""}"#),
                false => out.append(&mut candidate.parts),
            }
            out.extend_from_slice(br#"],"role":"model"}"#);
            finish(out, candidate.reason.unwrap_or(Finish::Stop), choice);
        }
        out.push(b']');
        usage(out, tally);
        out.append(&mut self.tail);
    }
}
