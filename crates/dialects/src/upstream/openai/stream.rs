//! A stream: bytes in as they come, whole standard events out.
//!
//! However the bytes are cut, the same comes out. A stream ends with its finishes, the usage if it
//! was asked for, and `[DONE]`; or with a fault. It is never made to look whole when it is not. The
//! state does not grow with the stream's length.

use std::ops::ControlFlow;

use super::chunks::{Chunks, DONE};
use super::stray::Strays;
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerHeader, Flaws, StreamFault};
use crate::upstream::quirks::Quirks;
use crate::wire::json::{Cursor, slice};
use crate::wire::sse::Decoder;

/// The reading of one attempt's stream.
#[derive(Debug)]
pub struct Stream {
    decoder: Decoder,
    strays: Strays,
    pub(super) chunks: Chunks,
}

impl Stream {
    /// Returns a stream at its start; no event may be longer than `event_limit` bytes.
    pub fn new(header: &AnswerHeader, quirks: &'static Quirks, show_reasoning: bool, event_limit: usize) -> Self {
        Self {
            decoder: Decoder::new(event_limit),
            strays: Strays::default(),
            chunks: Chunks::new(header, quirks, show_reasoning),
        }
    }

    /// Returns how many bytes are kept of an event whose end has not come yet.
    pub fn buffered(&self) -> usize {
        self.decoder.buffered()
    }

    /// Takes bytes as they came and appends whole events to `out`. After a fault, what was appended
    /// before it still counts, and nothing more should be fed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        // What is no event is only seen here, so that it counts at its place among the events.
        let stray = self.strays.watch(bytes);
        let before = stray.as_ref().map_or(bytes.len(), |(_, end)| *end);
        let chunks = &mut self.chunks;
        let fed =
            self.decoder.feed(slice(bytes, &(0..before)), |event| match chunks.event(event.name, event.data, out) {
                Ok(()) => ControlFlow::Continue(()),
                Err(fault) => ControlFlow::Break(fault),
            });
        let fed = fed.map_err(|_| StreamFault::Broken("an event is larger than allowed"))?;
        if let ControlFlow::Break(fault) = fed {
            return Err(fault);
        }
        match stray {
            Some((found, _)) if !self.chunks.done => Err(StreamFault::Upstream(found)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether the commit gate is open: the upstream has begun to answer, with content,
    /// thinking, audio, a call, a refusal or a finish. A role alone, or empty content, opens
    /// nothing.
    pub fn opened(&self) -> bool {
        self.chunks.opened
    }

    /// Returns whether all that was said is that the model will not answer: a refusal, or a content
    /// filter's finish, be there thinking before it or not.
    pub fn declined(&self) -> bool {
        self.chunks.declined()
    }

    /// Returns whether the upstream's `[DONE]` was seen, and rightly: [`finish`](Self::finish) is
    /// next.
    pub fn done(&self) -> bool {
        self.chunks.done
    }

    /// Returns whether every choice has its finish: the answer is whole, and only usage or `[DONE]`
    /// may be missing.
    pub fn whole(&self) -> bool {
        self.chunks.whole()
    }

    /// Appends the finishes, the usage if it was asked for, with `trail`, and `[DONE]`; or says why
    /// there can be none. To be called at the upstream's end of file, or once [`done`](Self::done).
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        let chunks = &mut self.chunks;
        // The last event may lack its empty line. One that is itself cut is no event.
        let pending = self.decoder.finish(|event| {
            let is_whole = event.name == b"error" || event.data.trim_ascii() == DONE || is_json(event.data);
            if is_whole { chunks.event(event.name, event.data, out) } else { Ok(()) }
        });
        pending.transpose()?;
        if !self.chunks.done
            && let Some(found) = self.strays.finish()
        {
            return Err(StreamFault::Upstream(found));
        }
        self.chunks.finish(out, trail)
    }

    /// Returns what is wrong with the answer, though it is whole.
    pub fn flaws(&self) -> Flaws {
        self.chunks.flaws()
    }

    /// Returns what was used so far, for streams that end early: as the upstream said, else an
    /// estimate of what was passed on, and nothing if nothing was.
    pub fn usage_so_far(&self) -> Usage {
        self.chunks.usage_so_far()
    }
}

fn is_json(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.value().and_then(|_| cursor.end()).is_ok()
}

#[cfg(test)]
mod tests;
