//! [`Event`](super::Event)s → the standard answer, as the chunks of a stream ([`Chunks`]) or whole
//! ([`Whole`]).
//!
//! Both are put in words by one telling (`course`), so that they say the same and cost the same.
//! Here is decided what every dialect would else decide for itself: role, ids, indexes, names, the
//! reason of the end, and the usage. What is told is written at once and not kept; but for thoughts
//! that must come back, and text that waits for the tool of a format, both of them bounded.

mod chunks;
mod course;
mod ids;
mod tally;
mod thoughts;
mod whole;
mod words;

pub use chunks::Chunks;
pub use whole::Whole;

use super::{Thought, Undo};

/// How an exchange's events are to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
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

#[cfg(test)]
pub(crate) mod tests;
