//! What a dialect is given to write a request, and what it gives back.

use std::sync::Arc;
use std::time::Duration;

use super::field::Field;
use super::losses::Losses;
use super::request::Thought;
use super::traits::Traits;

/// What a dialect needs to know of the target to write a request.
pub struct Target<'a> {
    /// The target's name for the model.
    pub model: &'a str,
    /// What this model can do.
    pub traits: Traits,
    /// For requests that are silent about the most tokens: the catalog's `defaults.max_tokens`.
    pub default_max_tokens: Option<u64>,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// How long a buffered answer may take.
    pub within: Option<Duration>,
    /// The thoughts that came before a call, by the call's id, where they were kept (and are of
    /// this dialect's family).
    pub kept: &'a dyn Fn(&str) -> Option<Kept>,
}

/// Thoughts that were kept for the next turn.
pub type Kept = Arc<[Thought<'static>]>;

/// A request in a dialect's words. `F` is how the fields that it does not say are named, as in
/// [`Losses`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<F = Field> {
    /// The body.
    pub body: Vec<u8>,
    /// What it does not say.
    pub losses: Losses<F>,
    /// What reading the answer must undo.
    pub undo: Undo,
    /// Headers that the body needs, besides those that every request has.
    pub headers: Vec<(&'static str, &'static str)>,
}

/// What writing a request did that reading the answer must undo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// Tools that have another name at the upstream: (theirs, the caller's).
    pub names: Vec<(String, String)>,
    /// The tool that was forced to get an answer in a format: its call's arguments are the content.
    pub format_tool: Option<String>,
    /// Tools that the caller does not offer, and that are there only so that calls before can be
    /// said: a call of one is none.
    pub stubs: Vec<String>,
}
