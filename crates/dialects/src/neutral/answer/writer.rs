//! A writer writes an answer in the format of one front door.

use std::fmt;

use super::tally::Tally;
use crate::neutral::Finish;

/// Writes an answer in the format of one front door. What happens to an answer is told in the order
/// that a caller may see it.
pub(crate) trait AnswerWriter: fmt::Debug + Send {
    /// Returns the buffer that it writes to. Whoever takes what is written leaves it empty.
    fn out(&mut self) -> &mut Vec<u8>;
    /// Takes the upstream's id of the answer.
    fn id(&mut self, id: &str);
    /// Opens a choice: always the next one.
    fn open(&mut self, choice: usize);
    /// Writes more of one of a choice's texts; never empty.
    fn say(&mut self, choice: usize, kind: TextKind, text: &str);
    /// Begins a call: always the choice's next one.
    fn call(&mut self, choice: usize, number: usize, call: &NewCall<'_>);
    /// Writes more of the last call's arguments; never empty.
    fn arguments(&mut self, choice: usize, number: usize, text: &str);
    /// Writes a picture, or a file that is none; each of them counted for itself.
    fn media(&mut self, choice: usize, number: usize, mime: &str, data: &str);
    /// Ends a choice.
    fn finish(&mut self, choice: usize, reason: Finish);
    /// Ends the answer: writes what is still missing, with what it cost. In a stream, `trail`
    /// stands beside the cost: members of an object as JSON text, on one line.
    fn end(&mut self, tally: &Tally, trail: Option<&str>);
}

/// A call that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewCall<'c> {
    /// Its id; empty where there is none yet.
    pub(crate) id: &'c str,
    /// The function.
    pub(crate) name: &'c str,
    /// Google's signature.
    pub(crate) signature: Option<&'c str>,
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
    mime.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("image/"))
}
