//! A stream in the callers' format, whichever dialect it came in.
//!
//! However the bytes are cut, the same comes out, and nothing is made to look whole that is not.

use super::translated::TranslatedStream;
use crate::neutral::answer::Kept;
use crate::neutral::usage::Usage;
use crate::neutral::{Flaws, StreamFault};
use crate::upstream::openai;

/// The reading of one attempt's stream: bytes in as they come, whole standard events out.
pub enum Stream {
    /// It is the standard's own, made standard in what it is not.
    Passed(Box<openai::Stream>),
    /// Another dialect's.
    Translated(Box<TranslatedStream>),
}

impl Stream {
    /// How many bytes are kept of an event whose end has not come yet.
    pub fn buffered(&self) -> usize {
        match self {
            Self::Passed(stream) => stream.buffered(),
            Self::Translated(stream) => stream.buffered(),
        }
    }

    /// Takes bytes as they came and appends whole events to `out`. After a fault, what was appended
    /// before it still counts, and nothing more should be fed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        match self {
            Self::Passed(stream) => stream.feed(bytes, out),
            Self::Translated(stream) => stream.feed(bytes, out),
        }
    }

    /// The commit gate: the upstream has begun to answer.
    pub fn opened(&self) -> bool {
        match self {
            Self::Passed(stream) => stream.opened(),
            Self::Translated(stream) => stream.opened(),
        }
    }

    /// All that the upstream has said is that it will not answer: a refusal, or a content filter's
    /// finish. Thinking before it makes no answer of it; text, a call, audio or a picture does. To
    /// be asked when the gate opens: what follows may still be an answer.
    pub fn declined(&self) -> bool {
        match self {
            Self::Passed(stream) => stream.declined(),
            Self::Translated(stream) => stream.declined(),
        }
    }

    /// The stream has said that it is at its end: [`finish`](Self::finish) is next.
    pub fn done(&self) -> bool {
        match self {
            Self::Passed(stream) => stream.done(),
            Self::Translated(stream) => stream.done(),
        }
    }

    /// The answer is whole, and only what does not belong to it may be missing.
    pub fn whole(&self) -> bool {
        match self {
            Self::Passed(stream) => stream.whole(),
            Self::Translated(stream) => stream.whole(),
        }
    }

    /// At the end: appends what is still to be said, or says why the stream is not whole. Where the
    /// caller asked for the usage, `trail` stands in the chunk of it, in `x_portcullis`: it is
    /// members of an object as JSON text, on one line.
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        match self {
            Self::Passed(stream) => stream.finish(out, trail),
            Self::Translated(stream) => stream.finish(out, trail),
        }
    }

    /// What was used so far, for streams that end early.
    pub fn usage_so_far(&self) -> Usage {
        match self {
            Self::Passed(stream) => stream.usage_so_far(),
            Self::Translated(stream) => stream.usage_so_far(),
        }
    }

    /// The thoughts to keep for the next turn, each time those that came since.
    pub fn kept(&mut self) -> Vec<Kept> {
        match self {
            Self::Passed(_) => Vec::new(),
            Self::Translated(stream) => stream.kept(),
        }
    }

    /// What is wrong with the answer, though it is whole. To be asked after
    /// [`finish`](Self::finish).
    pub fn flaws(&self) -> Flaws {
        match self {
            Self::Passed(stream) => stream.flaws(),
            Self::Translated(stream) => stream.flaws(),
        }
    }
}
