//! An answer in the making: what all front doors' answers have in common.
//!
//! A `Draft` is one answer. Its `AnswerProgress` follows the events and decides what every dialect
//! would else decide for itself: role, ids, indexes, names, the reason of the end, and the usage.
//! It tells a front door's `AnswerWriter` what to write. What is told is written at once and not
//! kept; but for thoughts that must come back, and text that waits for the tool of a format, which
//! are bounded.

mod draft;
mod ids;
mod progress;
mod tally;
mod thoughts;
mod writer;

pub(crate) use draft::Draft;
pub(crate) use progress::AnswerProgress;
pub(crate) use tally::Tally;
pub(crate) use writer::{AnswerWriter, NewCall, TextKind, is_picture};
#[cfg(test)]
pub(crate) use {ids::MAX_CALLS, progress::MAX_HELD, thoughts::MAX_KEPT};

use super::flaws::Flaws;
use super::price::ShowCost;
use super::request::Thought;
use super::target::Undo;
use super::usage::Usage;

/// The fields that every answer of one exchange shows, whatever the upstream said.
#[derive(Debug, Clone, Default)]
pub struct AnswerHeader {
    /// The model id that the caller asked for.
    pub model: String,
    /// The answer's id where the upstream gives none. Unique: generated tool-call ids build on it.
    pub id: String,
    /// The answer's time (Unix seconds) where the upstream gives none.
    pub created: u64,
    /// Streams: the caller asked for the usage chunk.
    pub show_usage: bool,
    /// UTF-8 bytes of the prompt's text, for the estimate where the upstream counts nothing.
    pub prompt_bytes: u64,
    /// Whether the usage says what the answer cost, which depends on who gives it.
    pub cost: ShowCost,
    /// The content must be JSON.
    pub wants_json: bool,
}

/// How the events of one exchange become an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerOptions {
    /// What writing the request did that must be undone.
    pub undo: Undo,
    /// Thinking is not shown, as it would be in `reasoning_content`.
    pub hide_reasoning: bool,
    /// Thoughts are gathered for the next turn.
    pub keep_thoughts: bool,
}

/// What must come back with a call, from a caller who will not send it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The call's id, as the caller sees it.
    pub call: String,
    /// The thoughts that led to it; the last one is nothing but a signature where the call itself
    /// was signed.
    pub thoughts: Vec<Thought<'static>>,
}

/// A whole answer in the callers' format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The body to send.
    pub body: Vec<u8>,
    /// What it cost.
    pub usage: Usage,
    /// It says nothing to the caller but that it will not answer: a refusal, or a content filter's
    /// finish, and no text and no call.
    pub declined: bool,
    /// What is wrong with it, though it is whole.
    pub flaws: Flaws,
}
