//! An answer's events → the chunks of a stream. A chunk is a response that holds what is new.

use super::calls::WaitingCalls;
use super::{StreamForm, call, finish, media, tail, text, usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind};
use crate::neutral::{AnswerHeader, Call, Finish, mark};

/// Writes the chunks of a stream.
#[derive(Debug)]
pub(in crate::front::gemini) struct Chunks {
    form: StreamForm,
    /// What every chunk ends with.
    tail: Vec<u8>,
    has_begun: bool,
    calls: WaitingCalls,
    /// How each choice ended, in order: why, and its last call, which its last chunk holds.
    ends: Vec<(Finish, Option<Call<'static>>)>,
    out: Vec<u8>,
}

impl Chunks {
    /// Returns the writer of a stream at its start.
    pub(in crate::front::gemini) fn new(header: &AnswerHeader, form: StreamForm) -> Self {
        Self {
            form,
            tail: tail(header),
            has_begun: false,
            calls: WaitingCalls::default(),
            ends: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Writes what stands before a chunk.
    fn begin(&mut self) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        self.out.extend_from_slice(match (self.form, has_begun) {
            (StreamForm::Events, _) => b"data: ",
            (StreamForm::Array, false) => b"[",
            (StreamForm::Array, true) => b",\n",
        });
    }

    /// Ends a chunk.
    fn end_chunk(&mut self) {
        self.out.extend_from_slice(&self.tail);
        if self.form == StreamForm::Events {
            self.out.extend_from_slice(b"\n\n");
        }
    }

    /// Writes a chunk with one part.
    fn part(&mut self, choice: usize, part: impl FnOnce(&mut Vec<u8>)) {
        self.begin();
        self.out.extend_from_slice(br#"{"candidates":[{"content":{"parts":["#);
        part(&mut self.out);
        self.out.extend_from_slice(format!(r#"],"role":"model"}},"index":{choice}}}]"#).as_bytes());
        self.end_chunk();
    }

    fn called(&mut self, choice: usize, ended: Option<Call<'static>>) {
        if let Some(ended) = ended {
            self.part(choice, |out| call(out, &ended));
        }
    }
}

impl AnswerWriter for Chunks {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithCalls
    }

    // Clients compare the id with nothing: ours stays.
    fn id(&mut self, _id: &str) {}

    fn open(&mut self, _choice: usize) {}

    fn say(&mut self, choice: usize, kind: TextKind, piece: &str) {
        let before = self.calls.end_if_whole(choice);
        self.called(choice, before);
        self.part(choice, |out| {
            text(out, r#"{"text":"#, piece);
            out.extend_from_slice(if kind == TextKind::Reasoning { br#","thought":true}"# } else { b"}" });
        });
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
        self.part(choice, |out| media(out, mime, data));
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        self.ends.push((reason, self.calls.end(choice)));
    }

    fn needs_objects(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.calls.is_full()
    }

    fn end(&mut self, tally: &Tally, trail: Option<&str>) {
        self.begin();
        let out = &mut self.out;
        out.extend_from_slice(br#"{"candidates":["#);
        for (choice, (reason, last)) in self.ends.iter().enumerate() {
            if choice > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"content":{"parts":["#);
            match last {
                Some(last) => call(out, last),
                None => out.extend_from_slice(br#"{"text":""}"#),
            }
            out.extend_from_slice(br#"],"role":"model"}"#);
            finish(out, *reason, choice);
        }
        out.push(b']');
        usage(out, tally);
        if let Some(mark) = mark::write(tally.usage().source, trail) {
            out.extend_from_slice(br#","x_portcullis":"#);
            out.extend_from_slice(mark.as_bytes());
        }
        self.end_chunk();
        if self.form == StreamForm::Array {
            self.out.extend_from_slice(b"]\n");
        }
    }
}
