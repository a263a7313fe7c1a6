//! A translated answer: a dialect's reader reads it, and a draft writes it in the caller's format.

use std::fmt;

use super::conversion::Conversion;
use super::decoder::Decoder;
use crate::front::Front;
use crate::neutral::answer::{AnswerFacts, Draft, Kept};
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerFault, AnswerHeader, Reader, StreamFault, StreamResult};
use crate::wire::json::{self, repaired_text};

/// The translation of a dialect's events into the caller's.
pub(super) struct Translated {
    front: &'static Front,
    /// The front door whose format the upstream speaks.
    upstream_front: Option<&'static Front>,
    reader: Box<dyn Reader>,
    pub(super) draft: Draft,
}

impl Translated {
    pub(super) fn new(
        front: &'static Front,
        upstream_front: Option<&'static Front>,
        mut reader: Box<dyn Reader>,
        draft: Draft,
        header: &AnswerHeader,
    ) -> Self {
        reader.expect_choices(header.choices);
        Self {
            front,
            upstream_front,
            reader,
            draft,
        }
    }

    /// Works with `out` as the buffer that is written to.
    fn writing<T>(&mut self, out: &mut Vec<u8>, work: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(out, self.draft.out());
        let done = work(self);
        std::mem::swap(out, self.draft.out());
        done
    }

    /// Takes an event. Returns whether the answer has ended.
    pub(super) fn event(&mut self, name: &[u8], data: &[u8]) -> StreamResult<bool> {
        let Self { reader, draft, .. } = self;
        let mut read = reader.event(name, data, &mut |event| draft.take(event));
        if let Err(StreamFault::Broken(_)) = read
            && let Some(repaired) = repaired_text(data)
        {
            read = reader.event(name, &repaired, &mut |event| draft.take(event));
        }
        match read {
            Ok(()) => self.has_ended(),
            Err(StreamFault::Upstream(error)) => Err(StreamFault::Upstream(
                self.front.name_error_field(self.upstream_front, error),
            )),
            Err(fault) => Err(fault),
        }
    }

    /// Takes the last event, which may lack its end. A cut event may have held more of the answer.
    fn last(&mut self, name: &[u8], data: &[u8]) -> StreamResult<bool> {
        match data.trim_ascii() {
            b"[DONE]" => Ok(false),
            data if name == b"error" || json::is_whole(data) => self.event(name, data),
            _ => Err(StreamFault::Cut),
        }
    }

    /// Takes the end of the upstream's stream. Returns whether the answer has ended by that.
    pub(super) fn end_of_file(&mut self) -> StreamResult<bool> {
        let Self { reader, draft, .. } = self;
        reader.end_of_file(&mut |event| draft.take(event))?;
        self.has_ended()
    }

    /// Writes the held parts and the end, or returns why there can be no end.
    pub(super) fn finish(&mut self, trail: Option<&str>) -> StreamResult<Usage> {
        if !self.draft.progress.ended() {
            return Err(StreamFault::Cut);
        }
        self.draft.end(trail).map_err(StreamFault::Broken)
    }

    fn has_ended(&self) -> StreamResult<bool> {
        self.draft.fault()?;
        Ok(self.draft.progress.ended())
    }
}

impl fmt::Debug for Translated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Translated")
            .field("draft", &self.draft)
            .finish_non_exhaustive()
    }
}

/// A stream whose events are read, and written anew.
#[derive(Debug)]
pub(super) struct TranslatedStream {
    pub(super) decoder: Decoder,
    pub(super) translated: Translated,
}

impl Conversion for TranslatedStream {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        self.translated.writing(out, |translated| {
            self.decoder
                .feed(bytes, |name, data| translated.event(name, data))
        })
    }

    fn end_of_file(&mut self, out: &mut Vec<u8>) -> StreamResult<bool> {
        self.translated.writing(out, |translated| {
            let has_ended = self
                .decoder
                .finish(|name, data| translated.last(name, data))?;
            Ok(has_ended || translated.end_of_file()?)
        })
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        self.translated
            .writing(out, |translated| translated.finish(trail))
    }

    fn buffered(&self) -> usize {
        self.decoder.buffered() + self.translated.draft.unsent_bytes()
    }

    fn facts(&self) -> &dyn AnswerFacts {
        &self.translated.draft.progress
    }

    fn draft(&self) -> Option<&Draft> {
        Some(&self.translated.draft)
    }

    fn kept_thoughts(&mut self) -> Vec<Kept> {
        self.translated.draft.progress.kept_thoughts()
    }
}

/// Reads a buffered answer. If it has bytes that no JSON may hold, reads it again without them.
pub(super) fn read_repaired<T>(
    body: &[u8],
    read: impl Fn(&[u8]) -> Result<T, AnswerFault>,
) -> Result<T, AnswerFault> {
    match read(body) {
        Err(AnswerFault::Nonsense(why)) => {
            repaired_text(body).map_or(Err(AnswerFault::Nonsense(why)), |body| read(&body))
        }
        answer => answer,
    }
}

#[cfg(test)]
mod tests;
