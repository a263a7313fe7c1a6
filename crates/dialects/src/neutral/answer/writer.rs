//! A writer writes an answer in the format of one front door.

use std::fmt;
use std::sync::Arc;

use super::tally::Tally;
use crate::neutral::citation::PlacedCitation;
use crate::neutral::{Call, Echo, Finish};
use crate::wire::starts_with_any_case;

/// Writes an answer in the format of one front door. The calls come in the order in which a caller
/// may see their results.
pub(crate) trait AnswerWriter: fmt::Debug + Send {
    /// Returns the buffer of the written text. Readers that take the text leave the buffer empty.
    fn out(&mut self) -> &mut Vec<u8>;
    /// Takes the part of the request that the answer repeats, before anything else.
    fn echo(&mut self, _echo: &Arc<Echo>) {}
    /// Returns the part of the request that was taken, in formats whose failed answers repeat it.
    fn echoed(&self) -> Option<&Arc<Echo>> {
        None
    }
    /// Returns the number of bytes of the answer that are kept until its end.
    fn unsent_bytes(&self) -> usize {
        0
    }
    /// Returns the number of events that were written, in formats that count them.
    fn events(&self) -> u64 {
        0
    }
    /// Returns the upstream's id of the answer, if the caller sees it.
    fn shown_id(&self) -> Option<&str> {
        None
    }
    /// Returns why the answer cannot be written, if it cannot.
    fn fault(&self) -> Option<&'static str> {
        None
    }
    /// Returns where callers of the format carry the thoughts that an upstream must get back.
    fn carries(&self) -> Carries {
        Carries::Nowhere
    }
    /// Takes the upstream's id of the answer. In most formats clients do not use the id, or compare
    /// the ids of one stream: our own id stays.
    fn id(&mut self, _id: &str) {}
    /// Opens the next choice.
    fn open(&mut self, choice: usize);
    /// Writes a piece of one of a choice's texts; never empty.
    fn write_text(&mut self, choice: usize, kind: TextKind, text: &str);
    /// Writes the signature of the thinking so far.
    fn signed(&mut self, _signature: &str) {}
    /// Writes thinking that no caller may read.
    fn redacted(&mut self, _data: &str) {}
    /// Begins the next call of a choice.
    fn call(&mut self, choice: usize, number: usize, call: &NewCall<'_>);
    /// Writes a piece of the last call's arguments; never empty.
    fn arguments(&mut self, choice: usize, number: usize, text: &str);
    /// Writes a picture or another file. Pictures and other files are counted separately.
    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str);
    /// Writes a citation of a choice's text. Returns whether the format can show it.
    fn cite(&mut self, choice: usize, citation: &PlacedCitation<'_>) -> bool;
    /// Ends a choice.
    fn finish(&mut self, choice: usize, reason: Finish);
    /// Returns whether clients of the format fail on a call whose arguments are no JSON object.
    /// Then an answer with such a call is no answer.
    fn needs_objects(&self) -> bool {
        false
    }
    /// Returns whether the arguments that wait for the ends of their calls are more than the writer
    /// keeps. Then the answer cannot go on.
    fn is_full(&self) -> bool {
        false
    }
    /// Ends the answer: writes the missing parts, with the cost. In a stream, `trail` stands next
    /// to the cost: members of an object as JSON text, on one line.
    fn end(&mut self, tally: &Tally, trail: Option<&str>);
}

/// Writes nothing: the answer passes as it came, and only its progress is followed.
#[derive(Debug, Default)]
pub(crate) struct NullWriter {
    out: Vec<u8>,
    id: Option<String>,
}

impl AnswerWriter for NullWriter {
    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
    fn id(&mut self, id: &str) {
        self.id = Some(id.to_owned());
    }
    fn shown_id(&self) -> Option<&str> {
        self.id.as_deref()
    }
    fn open(&mut self, _choice: usize) {}
    fn write_text(&mut self, _choice: usize, _kind: TextKind, _text: &str) {}
    fn call(&mut self, _choice: usize, _number: usize, _call: &NewCall<'_>) {}
    fn arguments(&mut self, _choice: usize, _number: usize, _text: &str) {}
    fn media(&mut self, _choice: usize, _number: usize, _mime: &str, _data: &str) {}
    // The citation passes with the answer.
    fn cite(&mut self, _choice: usize, _citation: &PlacedCitation<'_>) -> bool {
        true
    }
    fn finish(&mut self, _choice: usize, _reason: Finish) {}
    fn end(&mut self, _tally: &Tally, _trail: Option<&str>) {}
}

/// A call that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewCall<'c> {
    /// The id; empty if the upstream gave none.
    pub(crate) id: &'c str,
    /// The name of the function.
    pub(crate) name: &'c str,
    /// Google's signature. In a format whose callers carry thoughts, the thoughts that are sealed
    /// for them.
    pub(crate) signature: Option<&'c str>,
}

impl NewCall<'_> {
    /// Returns the call without its arguments, which are still to come.
    pub(crate) fn without_arguments(&self) -> Call<'static> {
        Call {
            id: self.id.to_owned().into(),
            name: self.name.to_owned().into(),
            signature: self.signature.map(|signature| signature.to_owned().into()),
            ..Call::default()
        }
    }
}

/// The places where callers carry the thoughts that an upstream must get back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// No part of an answer: the thoughts are kept here, or callers send back a provider's own
    /// signature.
    Nowhere,
    /// Each thought that callers see carries its own; calls carry the rest.
    WithThoughts,
    /// The calls carry the thoughts that led to them.
    WithCalls,
}

/// One of a choice's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    Content,
    Reasoning,
    Refusal,
}

/// Returns whether media of this type goes where clients look for pictures.
pub(crate) fn is_picture(mime: &str) -> bool {
    starts_with_any_case(mime, "image/")
}

/// Returns the text that stands for media where a format cannot hold them.
pub(crate) fn omitted_media_text(mime: &str) -> String {
    let noun = if is_picture(mime) {
        "a picture"
    } else {
        "a file"
    };
    format!("[The model sent {noun} here ({mime}). This format cannot carry it.]")
}
