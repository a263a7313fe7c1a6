//! A stream in the format of the caller's front door, whichever dialect it came in.
//!
//! The output does not depend on how the bytes are cut. A stream ends as its front door's streams
//! do, or with a fault: a broken stream never looks complete. The state does not grow with the
//! stream's length, but for formats whose last event repeats the answer; then it is bounded.

use super::chunked::PassedChunks;
use super::conversion::Conversion;
use super::decoder::EventDecoder;
use super::raw::PassedBytes;
use crate::neutral::answer::{Kept, Unfinished};
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerHeader, EndReasons, Flaws, StreamResult};
use crate::upstream::openai::Chunks;
use crate::upstream::quirks::Quirks;

/// The reading of one attempt's stream: bytes in as they come, whole events out.
#[derive(Debug)]
pub struct Stream {
    /// The way in which the bytes become the caller's.
    conversion: Box<dyn Conversion>,
    /// True if the answer has ended.
    has_ended: bool,
    /// True if the bytes had a fault.
    has_failed: bool,
    /// The number of events before those of the end, once the end is written.
    events_before_end: Option<u64>,
}

impl Stream {
    /// Returns a stream at its start that passes; no event may be longer than `event_limit` bytes.
    pub(crate) fn passed(
        header: &AnswerHeader,
        quirks: &'static Quirks,
        show_reasoning: bool,
        event_limit: usize,
    ) -> Self {
        Self::new(PassedChunks {
            decoder: EventDecoder::new(event_limit),
            chunks: Chunks::new(header, quirks, show_reasoning),
        })
    }

    /// Returns an answer of this type at its start, whose bytes pass as they are. `usage` is its
    /// usage unless the answer reports one. No event may be longer than `event_limit` bytes.
    pub fn bytes(content_type: &[u8], usage: Usage, event_limit: usize) -> Self {
        Self::new(PassedBytes::new(content_type, usage, event_limit))
    }

    /// Returns a stream at its start.
    pub(super) fn new(conversion: impl Conversion + 'static) -> Self {
        Self {
            conversion: Box::new(conversion),
            has_ended: false,
            has_failed: false,
            events_before_end: None,
        }
    }

    /// Returns how many bytes are kept: of an event whose end has not come yet, and of the answer
    /// where its front door repeats it at the end.
    pub fn buffered(&self) -> usize {
        self.conversion.buffered()
    }

    /// Takes bytes as they came, and appends whole events to `out`. After a fault, the events
    /// before the fault still count, and no more bytes may be fed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<()> {
        if self.has_ended {
            return Ok(());
        }
        let fed = self.conversion.feed(bytes, out);
        self.has_failed = fed.is_err();
        self.has_ended = fed?;
        Ok(())
    }

    /// Returns whether the commit gate is open: the upstream has begun to answer, with content,
    /// thinking (hidden too), audio, a call, a refusal, a picture or a finish. A role alone, or
    /// empty content, opens nothing.
    pub fn opened(&self) -> bool {
        self.conversion.facts().opened()
    }

    /// Returns whether the answer so far only declines: it has a refusal, or a content filter's
    /// finish. Thinking before it does not matter; text, a call, audio or a picture does. Ask this
    /// when the gate opens: later events may still be an answer.
    pub fn declined(&self) -> bool {
        self.conversion.facts().declined()
    }

    /// Returns whether the stream has reached its end: [`finish`](Self::finish) is next.
    pub fn done(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the answer is complete. Only bytes that do not belong to it may be missing.
    pub fn whole(&self) -> bool {
        let is_unharmed = !self.has_failed || self.conversion.outlives_faults();
        self.has_ended || (is_unharmed && self.conversion.facts().finished())
    }

    /// Ends the stream: appends its last events, or returns why the stream is not complete. If the
    /// caller asked for the usage, `trail` stands next to it, in `x_portcullis`: members of an
    /// object as JSON text, on one line.
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        let events = self.conversion.events();
        self.has_ended = self.has_ended || self.conversion.end_of_file(out)?;
        let usage = self.conversion.finish(out, trail)?;
        self.events_before_end = Some(events);
        Ok(usage)
    }

    /// Returns the usage so far, for streams that end early: the upstream's counts, else an
    /// estimate from the bytes that were passed on. Without such bytes it is empty.
    pub fn usage_so_far(&self) -> Usage {
        self.conversion.facts().usage_so_far()
    }

    /// Returns the known facts of an answer that cannot go on. The events of its end do not count:
    /// an answer that is refused only then loses them.
    pub fn so_far(&self) -> Unfinished {
        Unfinished {
            events: self.events_before_end.unwrap_or(self.conversion.events()),
            ..self.conversion.so_far()
        }
    }

    /// Returns the thoughts to keep for the next turn, as far as they came since the last call.
    pub fn kept(&mut self) -> Vec<Kept> {
        self.conversion.kept_thoughts()
    }

    /// Returns the flaws of a complete answer. Ask this after [`finish`](Self::finish).
    pub fn flaws(&self) -> Flaws {
        self.conversion.flaws()
    }

    /// Returns the reasons for which the choices of a complete answer ended. Ask this after
    /// [`finish`](Self::finish).
    pub fn reasons(&self) -> EndReasons {
        self.conversion.facts().reasons()
    }

    /// Returns the chunks of a stream that passes.
    #[cfg(test)]
    pub(crate) fn chunks(&mut self) -> &mut Chunks {
        self.conversion.chunks()
    }
}
