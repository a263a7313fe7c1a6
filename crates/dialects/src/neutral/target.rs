//! A target is one way to serve a model. This module has the data about a target that a dialect
//! gets to write a request, and the data that the dialect gives back.

use std::sync::Arc;
use std::time::Duration;

use super::echo::Echo;
use super::field::Field;
use super::losses::{Losses, LostFields};
use super::request::Thought;
use super::traits::Traits;
use super::vectors::Inputs;
use crate::wire::json::Writer;

/// The facts about a target that a dialect needs to write a request.
pub struct Target<'a> {
    /// The target's name for the model.
    pub model: &'a str,
    /// The abilities of this model.
    pub traits: Traits,
    /// The catalog's `defaults.max_tokens`, for requests without a maximum of tokens.
    pub default_max_tokens: Option<u64>,
    /// True if a stream is asked for.
    pub stream: bool,
    /// The time that a buffered answer may take.
    pub within: Option<Duration>,
    /// Returns the thoughts that came before the call with this id, if they were kept and are of
    /// this dialect's family.
    pub kept: &'a dyn Fn(&str) -> Option<Kept>,
}

/// Thoughts that were kept for the next turn.
pub type Kept = Arc<[Thought<'static>]>;

/// A request in a dialect's format. `F` is the type that names the losses, as in [`Losses`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written<F = Field> {
    /// The body.
    pub body: Vec<u8>,
    /// The fields that the body does not have, or not as the caller wrote them.
    pub losses: Losses<F>,
    /// The changes that reading the answer must undo.
    pub undo: Undo,
    /// Headers that this body needs, in addition to those of every request.
    pub headers: Vec<(&'static str, &'static str)>,
}

impl Written {
    /// Returns a request without headers of its own.
    pub(crate) fn new(body: Writer, losses: LostFields, undo: Undo) -> Self {
        Self {
            body: body.into_bytes(),
            losses,
            undo,
            headers: Vec::new(),
        }
    }
}

/// The changes that writing a request made, and that reading the answer must undo.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undo {
    /// The tools that have another name at the upstream: (the upstream's name, the caller's name).
    pub names: Vec<(String, String)>,
    /// The tool that was forced to get an answer in a format. The arguments of its call are the
    /// content.
    pub format_tool: Option<String>,
    /// Tools that the caller does not offer. They are there only because earlier calls need them. A
    /// call of such a tool is not shown.
    pub stubs: Vec<String>,
    /// The part of the request that the answer repeats, if its front door needs that.
    pub echo: Option<Arc<Echo>>,
    /// The vectors that were asked for.
    pub vectors: Option<Inputs>,
}
