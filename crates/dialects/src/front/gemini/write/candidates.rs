//! An answer's events → a response: whole, or in the chunks of a stream. A chunk is a response with
//! the new parts only.

use super::calls::WaitingCalls;
use super::grounding::Grounding;
use super::{StreamForm, chunk_tail, write_call, write_finish, write_media, write_usage};
use crate::neutral::answer::{AnswerWriter, Carries, NewCall, Tally, TextKind};
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{AnswerHeader, Call, Finish, mark};
use crate::wire::json::escape_into;

/// Writes the candidates of a response.
#[derive(Debug)]
pub(crate) struct CandidatesWriter {
    /// The form of the stream; `None` if the response is written whole.
    form: Option<StreamForm>,
    /// The end of every response.
    tail: Vec<u8>,
    has_begun: bool,
    calls: WaitingCalls,
    candidates: Vec<WrittenCandidate>,
    out: Vec<u8>,
}

/// A choice in the last response, or in the only one.
#[derive(Debug, Default)]
struct WrittenCandidate {
    /// The parts, as JSON text.
    parts: Vec<u8>,
    /// The kind of the text that goes on: `true` for thinking.
    open: Option<bool>,
    reason: Option<Finish>,
    grounding: Grounding,
}

impl WrittenCandidate {
    /// Begins another part.
    fn begin_part(&mut self) -> &mut Vec<u8> {
        self.close_text();
        if !self.parts.is_empty() {
            self.parts.push(b',');
        }
        &mut self.parts
    }

    /// Ends the text that goes on.
    fn close_text(&mut self) {
        if let Some(is_thought) = self.open.take() {
            self.parts.extend_from_slice(end_of_text(is_thought));
        }
    }

    fn add_text(&mut self, is_thought: bool, piece: &str) {
        if self.open != Some(is_thought) {
            self.begin_part().extend_from_slice(TEXT);
            self.open = Some(is_thought);
        }
        escape_into(piece, &mut self.parts);
    }
}

/// The beginning of a part with text.
const TEXT: &[u8] = br#"{"text":""#;

fn end_of_text(is_thought: bool) -> &'static [u8] {
    if is_thought {
        br#"","thought":true}"#
    } else {
        br#""}"#
    }
}

impl CandidatesWriter {
    /// Returns the writer of an answer without any events yet.
    pub(crate) fn new(header: &AnswerHeader, form: Option<StreamForm>) -> Self {
        let (calls, candidates) = (WaitingCalls::default(), Vec::new());
        Self {
            form,
            tail: chunk_tail(header),
            has_begun: false,
            calls,
            candidates,
            out: Vec::new(),
        }
    }

    /// Writes the beginning of a response.
    fn begin_response(&mut self) {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        self.out.extend_from_slice(match (self.form, has_begun) {
            (None, _) => b"",
            (Some(StreamForm::Events), _) => b"data: ",
            (Some(StreamForm::Array), false) => b"[",
            (Some(StreamForm::Array), true) => b",\n",
        });
    }

    /// Ends a response.
    fn end_response(&mut self) {
        self.out.extend_from_slice(&self.tail);
        if self.form == Some(StreamForm::Events) {
            self.out.extend_from_slice(b"\n\n");
        }
    }

    /// Writes a part: a chunk of its own, or one more part of the whole response.
    fn part(&mut self, choice: usize, part: impl FnOnce(&mut Vec<u8>)) {
        if self.form.is_none() {
            return if let Some(candidate) = self.candidates.get_mut(choice) {
                part(candidate.begin_part())
            };
        }
        self.begin_response();
        self.out
            .extend_from_slice(br#"{"candidates":[{"content":{"parts":["#);
        part(&mut self.out);
        self.out
            .extend_from_slice(format!(r#"],"role":"model"}},"index":{choice}}}]"#).as_bytes());
        self.end_response();
    }

    fn called(&mut self, choice: usize, ended: Option<Call<'static>>) {
        if let Some(ended) = ended {
            self.part(choice, |out| write_call(out, &ended));
        }
    }
}

impl AnswerWriter for CandidatesWriter {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn carries(&self) -> Carries {
        Carries::WithCalls
    }

    fn open(&mut self, _choice: usize) {
        self.candidates.push(WrittenCandidate::default());
    }

    fn write_text(&mut self, choice: usize, kind: TextKind, piece: &str) {
        let before = self.calls.end_if_whole(choice);
        self.called(choice, before);
        let is_thought = kind == TextKind::Reasoning;
        match self
            .candidates
            .get_mut(choice)
            .filter(|_| self.form.is_none())
        {
            Some(candidate) => candidate.add_text(is_thought, piece),
            None => self.part(choice, |out| {
                out.extend_from_slice(TEXT);
                escape_into(piece, out);
                out.extend_from_slice(end_of_text(is_thought));
            }),
        }
    }

    fn call(&mut self, choice: usize, _number: usize, call: &NewCall<'_>) {
        let before = self.calls.end(choice);
        self.called(choice, before);
        self.calls.begin_call(choice, call);
    }

    fn arguments(&mut self, choice: usize, _number: usize, piece: &str) {
        self.calls.take(choice, piece);
    }

    fn media(&mut self, choice: usize, _number: usize, mime: &str, data: &str) {
        let before = self.calls.end_if_whole(choice);
        self.called(choice, before);
        self.part(choice, |out| write_media(out, mime, data));
    }

    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool {
        self.candidates
            .get_mut(choice)
            .is_some_and(|candidate| candidate.grounding.take(citation))
    }

    fn finish(&mut self, choice: usize, reason: Finish) {
        let last = self.calls.end(choice);
        if let Some(candidate) = self.candidates.get_mut(choice) {
            candidate.reason = Some(reason);
            last.iter()
                .for_each(|last| write_call(candidate.begin_part(), last));
        }
    }

    fn needs_objects(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        self.calls.is_full()
    }

    fn end(&mut self, tally: &Tally, trail: Option<&str>) {
        self.begin_response();
        let out = &mut self.out;
        out.extend_from_slice(br#"{"candidates":["#);
        for (choice, candidate) in self.candidates.iter_mut().enumerate() {
            candidate.close_text();
            if choice > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"content":{"parts":["#);
            match candidate.parts.is_empty() {
                true => out.extend_from_slice(br#"{"text":""}"#),
                false => out.append(&mut candidate.parts),
            }
            out.extend_from_slice(br#"],"role":"model"}"#);
            candidate.grounding.write(out);
            write_finish(out, candidate.reason.unwrap_or(Finish::Stop), choice);
        }
        out.push(b']');
        write_usage(out, tally);
        if self.form.is_some() {
            mark::append_mark(out, tally.usage().source, trail);
        }
        self.end_response();
        if self.form == Some(StreamForm::Array) {
            self.out.extend_from_slice(b"]\n");
        }
    }
}
