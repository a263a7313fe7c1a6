//! The streams in OpenAI's format: one for callers of that format, and one for all others.

use super::conversion::Conversion;
use super::decoder::EventDecoder;
use crate::neutral::answer::{AnswerFacts, Draft, Kept};
use crate::neutral::usage::Usage;
use crate::neutral::{Flaws, StreamFault, StreamResult};
use crate::upstream::openai::{Chunks, StandardChunks};

/// A stream whose events pass but for the corrections that they need.
#[derive(Debug)]
pub(super) struct PassedChunks {
    pub(super) decoder: EventDecoder,
    pub(super) chunks: Chunks,
}

impl Conversion for PassedChunks {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        self.decoder
            .feed(bytes, |name, data| self.chunks.event(name, data, out))
    }

    fn end_of_file(&mut self, out: &mut Vec<u8>) -> StreamResult<bool> {
        self.decoder
            .finish(|name, data| self.chunks.last(name, data, out))
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        self.chunks.finish(out, trail)
    }

    fn buffered(&self) -> usize {
        self.decoder.buffered()
    }

    fn facts(&self) -> &dyn AnswerFacts {
        &self.chunks
    }

    fn outlives_faults(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn chunks(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    fn kept_thoughts(&mut self) -> Vec<Kept> {
        Vec::new()
    }
}

/// A stream whose chunks are corrected as passing ones are, and then written in another format. The
/// chunks hold the facts of the answer.
#[derive(Debug)]
pub(super) struct ComposedChunks {
    decoder: EventDecoder,
    chunks: Chunks,
    /// The corrected chunks that are not read yet.
    standard: Vec<u8>,
    reader: StandardChunks,
    draft: Draft,
}

impl ComposedChunks {
    pub(super) fn new(chunks: Chunks, draft: Draft, event_limit: usize) -> Self {
        Self {
            decoder: EventDecoder::new(event_limit),
            chunks,
            standard: Vec::new(),
            reader: StandardChunks::default(),
            draft,
        }
    }

    /// Writes the corrected chunks.
    fn write(&mut self, out: &mut Vec<u8>) -> StreamResult<()> {
        let read = self.draft.writing(out, |draft| {
            self.reader
                .read_events(&self.standard, &mut |event| draft.take(event))
        });
        self.standard.clear();
        read.map_err(StreamFault::Broken)?;
        self.draft.fault()
    }
}

impl Conversion for ComposedChunks {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        let fed = self.decoder.feed(bytes, |name, data| {
            self.chunks.event(name, data, &mut self.standard)
        });
        // The events before a fault still count.
        let written = self.write(out);
        let has_ended = fed?;
        written?;
        Ok(has_ended)
    }

    fn end_of_file(&mut self, _out: &mut Vec<u8>) -> StreamResult<bool> {
        self.decoder
            .finish(|name, data| self.chunks.last(name, data, &mut self.standard))
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        let usage = self.chunks.finish(&mut self.standard, None)?;
        self.write(out)?;
        self.draft.progress.tally.count_from_usage(&usage);
        let ended = self.draft.writing(out, |draft| {
            self.reader.end(&mut |event| draft.take(event));
            draft.end(trail)
        });
        ended.map_err(StreamFault::Broken)?;
        Ok(usage)
    }

    fn buffered(&self) -> usize {
        self.decoder.buffered() + self.draft.unsent_bytes()
    }

    fn facts(&self) -> &dyn AnswerFacts {
        &self.chunks
    }

    fn flaws(&self) -> Flaws {
        Flaws {
            not_cited: self.draft.progress.flaws.not_cited,
            ..self.chunks.flaws()
        }
    }

    fn draft(&self) -> Option<&Draft> {
        Some(&self.draft)
    }

    fn kept_thoughts(&mut self) -> Vec<Kept> {
        Vec::new()
    }
}
