//! The front doors: the formats that callers speak. A front door reads a caller's body, and writes
//! the answer that the caller gets.
//!
//! Each format has a folder, and one static, its [`Front`]: all that the rest of this crate, and a
//! gateway, ask of it.

pub(crate) mod chat;
mod envelope;
mod names;
pub mod references;

use std::borrow::Cow;
use std::fmt;

pub use chat::CHAT;
pub use envelope::{Envelope, Fault};
pub use names::FieldNames;

use crate::neutral::answer::AnswerWriter;
use crate::neutral::{AnswerHeader, Field, Flaws, Refused, Request, UpstreamError};
use references::AllowedReferences;

/// What is asked of the format that a caller speaks.
pub struct Front {
    /// Its name.
    pub name: &'static str,
    /// What the ids of answers begin with.
    pub id_prefix: &'static str,
    /// The `content-type` of a stream.
    pub stream_type: &'static str,
    /// Keeps a silent stream open, and is no part of the answer.
    pub keepalive: &'static [u8],
    /// Returns what a stream says in place of a header that it has no more room for.
    pub late_header: fn(&str, &str) -> String,
    /// Reads what decides where a body goes.
    pub envelope: fn(&[u8]) -> Result<Envelope, Fault>,
    /// Refuses a body that refers to what it may not. It was read before; whether it refers to
    /// anything at all, its envelope says.
    pub check_references: fn(&AllowedReferences, &[u8]) -> Result<(), Refused>,
    /// Returns whether a conversation may hold calls, without reading it.
    pub may_have_calls: fn(&[u8]) -> bool,
    /// Reads a body whole.
    pub read: for<'a> fn(&'a [u8]) -> RequestRead<'a>,
    /// Returns what callers call a field, as a rule.
    pub field_name: fn(&Request<'_>, &Field) -> Cow<'static, str>,
    /// What broken calls of an answer are called, and an answer that is not JSON.
    pub flaw_names: [&'static str; 2],
    /// Returns the writer of a stream.
    pub(crate) stream: NewWriter,
    /// Returns the writer of a whole answer.
    pub(crate) whole: NewWriter,
}

/// A request, and what its caller calls its fields; or why it is none.
pub type RequestRead<'a> = Result<(Request<'a>, FieldNames), Refused>;

/// Returns a writer of an answer that shows this.
pub(crate) type NewWriter = fn(&AnswerHeader) -> Box<dyn AnswerWriter>;

impl Front {
    /// Returns the names of what is wrong with an answer, as `x-portcullis-dropped` says them.
    pub fn flaws(&self, flaws: Flaws) -> impl Iterator<Item = &'static str> {
        let [calls, json] = self.flaw_names;
        [(flaws.broken_calls > 0).then_some(calls), flaws.not_json.then_some(json)].into_iter().flatten()
    }

    /// Returns the same for a stream, whose head has left; empty if nothing is wrong.
    pub fn late_flaws(&self, flaws: Flaws) -> String {
        let names: Vec<&str> = self.flaws(flaws).collect();
        if names.is_empty() { String::new() } else { (self.late_header)("x-portcullis-dropped", &names.join(", ")) }
    }

    /// Names the field that an upstream's error is about, where the dialect found out which it is.
    pub(crate) fn named(&self, mut error: UpstreamError) -> UpstreamError {
        if let Some(field) = error.field.take() {
            error.param = Some((self.field_name)(&Request::default(), &field).into());
        }
        error
    }
}

/// Each has a name of its own.
impl PartialEq for Front {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Front {}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_are_named_once_each() {
        for (flaws, comment) in [
            (Flaws::default(), ""),
            (Flaws { broken_calls: 2, not_json: false }, ": x-portcullis-dropped: tool_calls[].function.arguments\n\n"),
            (Flaws { broken_calls: 0, not_json: true }, ": x-portcullis-dropped: response_format\n\n"),
            (
                Flaws { broken_calls: 1, not_json: true },
                ": x-portcullis-dropped: tool_calls[].function.arguments, response_format\n\n",
            ),
        ] {
            assert_eq!(CHAT.late_flaws(flaws), comment);
        }
    }
}
