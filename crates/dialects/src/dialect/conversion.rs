//! The five ways in which an upstream's bytes become the caller's have one trait.

use std::fmt;

use crate::neutral::answer::{AnswerFacts, Draft, Kept, Unfinished};
use crate::neutral::usage::Usage;
use crate::neutral::{Flaws, StreamResult};
#[cfg(test)]
use crate::upstream::openai::Chunks;

/// A way in which the upstream's bytes become the caller's, with the state of one stream.
pub(super) trait Conversion: fmt::Debug + Send {
    /// Takes bytes as they came, and appends whole events to `out`. Returns whether the answer has
    /// ended. The events before a fault are in `out` nevertheless.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool>;

    /// Takes the end of the bytes of an answer that has not ended yet: the last event may lack its
    /// end. Returns whether the answer has ended by that.
    fn end_of_file(&mut self, _out: &mut Vec<u8>) -> StreamResult<bool> {
        Ok(false)
    }

    /// Appends what the caller gets after the upstream's last event, or returns why the answer is
    /// not complete.
    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage>;

    /// Returns how many bytes are kept.
    fn buffered(&self) -> usize;

    /// Returns the facts of the answer so far.
    fn facts(&self) -> &dyn AnswerFacts;

    /// Returns the flaws of a complete answer.
    fn flaws(&self) -> Flaws {
        self.facts().flaws()
    }

    /// Returns whether an answer whose choices have all ended is complete, though a fault came
    /// after that.
    fn outlives_faults(&self) -> bool {
        false
    }

    /// Returns the number of events that the caller has got, in formats that count them.
    fn events(&self) -> u64 {
        self.draft().map_or(0, Draft::events)
    }

    /// Returns the known facts of an answer that cannot go on.
    fn so_far(&self) -> Unfinished {
        self.draft().map(Draft::so_far).unwrap_or_default()
    }

    /// Returns the draft of an answer that is read event by event.
    fn draft(&self) -> Option<&Draft> {
        None
    }

    /// Returns the thoughts to keep for the next turn, as far as they came since the last call.
    fn kept_thoughts(&mut self) -> Vec<Kept>;

    /// Returns the chunks of a stream that passes.
    #[cfg(test)]
    fn chunks(&mut self) -> &mut Chunks {
        panic!("it is written anew")
    }
}
