//! A `Draft` is one answer in the making; all front doors use it.
//!
//! Its `AnswerProgress` follows the events. It decides what each dialect would otherwise decide for
//! itself: role, ids, indexes, names, the reason of the end, and the usage. It tells a front door's
//! `AnswerWriter` what to write.
//!
//! Text is written at once and not kept. Only two things are kept, and both are bounded: thoughts
//! that must come back, and text that waits for the tool of a format.

mod draft;
mod ids;
mod progress;
mod tally;
mod thoughts;
mod writer;

pub(crate) use draft::Draft;
pub(crate) use progress::AnswerProgress;
pub(crate) use tally::Tally;
pub(crate) use writer::{
    AnswerWriter, Carries, NewCall, NullWriter, TextKind, is_picture, omitted_media_text,
};
#[cfg(test)]
pub(crate) use {ids::MAX_CALLS, progress::MAX_HELD, thoughts::MAX_KEPT};

use std::sync::Arc;

use super::Echo;
use super::flaws::Flaws;
use super::labels::Labels;
use super::price::ShowCost;
use super::reasons::EndReasons;
use super::seal::AnswerSeal;
pub use super::seal::Kept;
use super::target::Undo;
use super::usage::Usage;

/// The facts of one exchange that shape its answer, whatever the upstream sends.
#[derive(Debug, Clone, Default)]
pub struct AnswerHeader {
    /// The model id that the caller asked for.
    pub model: String,
    /// The answer's id if the upstream gives none. It is unique, because generated ids of calls
    /// build on it.
    pub id: String,
    /// The answer's time (Unix seconds) if the upstream gives none.
    pub created: u64,
    /// The clock for the time at which the answer is complete, in formats that show it.
    pub clock: Clock,
    /// True if the caller of a stream asked for the usage chunk.
    pub show_usage: bool,
    /// The number of answers that were asked for; 0 if it is not known.
    pub choices: u64,
    /// The number of UTF-8 bytes in the prompt's text. The estimate uses it if the upstream counts
    /// nothing.
    pub prompt_bytes: u64,
    /// Decides whether the usage contains the cost of the answer. This depends on the target that
    /// answers.
    pub cost: ShowCost,
    /// True if the content must be JSON.
    pub wants_json: bool,
    /// True if the caller did not ask for thinking to be shown.
    pub hide_thoughts: bool,
    /// True if the provider's labels of the answer are wanted.
    pub wants_labels: bool,
}

/// A clock that is read when an answer ends. Without one, no time has passed.
#[derive(Debug, Clone, Copy)]
pub struct Clock(pub fn() -> u64);

impl Clock {
    /// Returns the time, in Unix seconds.
    pub(crate) fn seconds(self) -> u64 {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self(|| 0)
    }
}

/// The known facts of an answer that cannot go on.
#[derive(Debug, Clone, Default)]
pub struct Unfinished {
    /// The upstream's id of the answer, if the caller sees it.
    pub id: Option<String>,
    /// The number of events that were written, in formats that count them.
    pub events: u64,
    /// The part of the request that the answer repeats, in formats that do so.
    pub echo: Option<Arc<Echo>>,
}

/// The facts of an answer, as far as it has come.
pub(crate) trait AnswerFacts {
    /// Returns whether the model has begun to answer, shown or hidden.
    fn opened(&self) -> bool;

    /// Returns whether the model has only declined. While one of several choices is open, the model
    /// may still answer.
    fn declined(&self) -> bool {
        false
    }

    /// Returns whether every choice has its reason to end. Then the answer is whole, and only its
    /// usage or its end may be missing.
    fn finished(&self) -> bool {
        false
    }

    /// Returns the usage so far. It is empty if nothing was written or counted.
    fn usage_so_far(&self) -> Usage;

    /// Returns the whole answer with this body.
    fn answer_with(&self, body: Vec<u8>, usage: Usage) -> Answer {
        Answer {
            body,
            usage,
            declined: self.declined(),
            flaws: self.flaws(),
            reasons: self.reasons(),
            labels: None,
        }
    }

    /// Returns the flaws of a whole answer.
    fn flaws(&self) -> Flaws {
        Flaws::default()
    }

    /// Returns the reasons for which the choices of a whole answer ended, as they are shown.
    fn reasons(&self) -> EndReasons {
        EndReasons::default()
    }
}

/// The options by which the events of one exchange become an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerOptions {
    /// The changes that writing the request made, and that must be undone.
    pub undo: Undo,
    /// True if thinking is not shown in `reasoning_content`.
    pub hide_reasoning: bool,
    /// True if thoughts are gathered for the next turn.
    pub keep_thoughts: bool,
    /// Seals thoughts for callers who carry them. Without it they carry none.
    pub seal: Option<AnswerSeal>,
}

/// A whole answer in the callers' format.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The body to send.
    pub body: Vec<u8>,
    /// The tokens that the answer used.
    pub usage: Usage,
    /// True if the answer only declines: it has a refusal or a content filter's finish, and it has
    /// no text, no call and no media.
    pub declined: bool,
    /// The flaws of the answer, though it is whole.
    pub flaws: Flaws,
    /// The reasons for which its choices ended.
    pub reasons: EndReasons,
    /// The provider's labels of the answer, if they are wanted and were found.
    pub labels: Option<Box<Labels>>,
}
