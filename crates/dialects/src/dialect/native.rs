//! A stream in the caller's own format, which is not OpenAI's.

use super::conversion::Conversion;
use super::decoder::Decoder;
use super::translated::Translated;
use crate::front::{Native, PassedAnswer};
use crate::neutral::answer::{AnswerFacts, Draft, Kept};
use crate::neutral::usage::Usage;
use crate::neutral::{StreamFault, StreamResult};
use crate::upstream::Translation;
use crate::wire::Event;
use crate::wire::json::{self, repaired_line};

/// A stream whose events pass, and are read for their usage and their end.
#[derive(Debug)]
pub(super) struct NativeStream {
    pub(super) decoder: Decoder,
    pub(super) passing: Passing,
}

/// The state of the events that pass.
#[derive(Debug)]
pub(super) struct Passing {
    translated: Translated,
    native: &'static Native,
    /// Returns the event of the format that is inside an event, if one is.
    inner: fn(&[u8]) -> Option<Vec<u8>>,
    answer: PassedAnswer,
    /// The number of events that were written, with the one in `last`.
    events: u64,
    /// The last of the events with which the answer may end. It leaves when another event follows,
    /// or when the answer is known to be complete.
    last: Vec<u8>,
}

impl Passing {
    pub(super) fn new(
        translated: Translated,
        native: &'static Native,
        translation: &Translation,
        answer: PassedAnswer,
    ) -> Self {
        Self {
            translated,
            native,
            inner: translation.inner,
            answer,
            events: 0,
            last: Vec::new(),
        }
    }

    /// Takes an event: reads it, and writes it if it can be read. Returns whether the answer has
    /// ended.
    fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> StreamResult<bool> {
        let inner = (self.inner)(event.data);
        let event = inner
            .as_deref()
            .map_or(*event, |data| Event { name: b"", data });
        let has_ended = self.translated.event(event.name, event.data)?;
        self.answer.has_signed = std::mem::take(&mut self.translated.draft.progress.has_signed);
        // Proxies send this at the end of every stream.
        if event.data.trim_ascii() == b"[DONE]" {
            return Ok(has_ended);
        }
        // An event that needed a repair is sent in its repaired form.
        let clean = repaired_line(event.data);
        let event = Event {
            data: clean.as_deref().unwrap_or(event.data),
            ..event
        };
        out.append(&mut self.last);
        let out = if self.translated.draft.progress.finished() {
            &mut self.last
        } else {
            out
        };
        let [before, between, _] = self.native.event_separators;
        out.extend_from_slice(if self.events > 0 { between } else { before });
        self.events += 1;
        (self.native.event)(&event, &self.answer, out);
        Ok(has_ended)
    }

    /// Takes the last event as [`event`](Self::event) does, but refuses a cut event.
    fn last_event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> StreamResult<bool> {
        if json::is_whole(event.data) || event.data.trim_ascii() == b"[DONE]" {
            self.event(event, out)
        } else {
            Err(StreamFault::Cut)
        }
    }
}

impl Conversion for NativeStream {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        self.decoder.feed(bytes, |name, data| {
            self.passing.event(&Event { name, data }, out)
        })
    }

    fn end_of_file(&mut self, out: &mut Vec<u8>) -> StreamResult<bool> {
        let has_ended = self
            .decoder
            .finish(|name, data| self.passing.last_event(&Event { name, data }, out))?;
        Ok(has_ended || self.passing.translated.end_of_file()?)
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> StreamResult<Usage> {
        let usage = self.passing.translated.finish(trail)?;
        out.append(&mut self.passing.last);
        let [.., after] = self.passing.native.event_separators;
        out.extend_from_slice(after);
        Ok(usage)
    }

    fn buffered(&self) -> usize {
        self.decoder.buffered() + self.passing.last.len()
    }

    fn facts(&self) -> &dyn AnswerFacts {
        &self.passing.translated.draft.progress
    }

    fn events(&self) -> u64 {
        self.passing.events - u64::from(!self.passing.last.is_empty())
    }

    fn draft(&self) -> Option<&Draft> {
        Some(&self.passing.translated.draft)
    }

    fn kept_thoughts(&mut self) -> Vec<Kept> {
        self.passing.translated.draft.progress.kept_thoughts()
    }
}
