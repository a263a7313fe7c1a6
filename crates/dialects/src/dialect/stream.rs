//! A stream in the format of the caller's front door, whichever dialect it came in.
//!
//! The output does not depend on how the bytes are cut. A stream ends as its front door's streams
//! do, or with a fault: a broken stream never looks complete. The state does not grow with the
//! stream's length, but for formats whose last event repeats the answer; then it is bounded.

use std::fmt;

use super::decoder::{Decoder, EventDecoder};
use super::raw::PassedBytes;
use super::translated::Translated;
use crate::front::{Native, PassedAnswer};
use crate::neutral::answer::{Draft, Kept, Unfinished};
use crate::neutral::usage::Usage;
use crate::neutral::{AnswerHeader, EndReasons, Flaws, StreamFault};
use crate::upstream::quirks::Quirks;
use crate::upstream::{Framing, Protocol, openai};
use crate::wire::Event;
use crate::wire::json::{self, repaired_line};

/// The reading of one attempt's stream: bytes in as they come, whole events out.
#[derive(Debug)]
pub struct Stream {
    conversion: Conversion,
    /// True if the answer has ended.
    has_ended: bool,
    has_failed: bool,
}

/// The way in which an event becomes the caller's.
#[derive(Debug)]
enum Conversion {
    /// The event is in the caller's format, and passes but for the corrections that it needs.
    Passed(Box<(EventDecoder, openai::Chunks)>),
    /// The event is corrected as a passing one is, and then written in the caller's format.
    Composed(Box<Composed>),
    /// The event is in the caller's format, which is not OpenAI's. It passes, and is read for its
    /// usage and its end.
    Native(Box<NativeStream>),
    /// The event is read, and written anew.
    Translated(Box<(Decoder, Translated)>),
    /// All bytes pass as they are.
    Bytes(Box<PassedBytes>),
}

/// A stream that passes in a format other than OpenAI's.
struct NativeStream {
    decoder: Decoder,
    translated: Translated,
    passing: Passing,
}

/// The state of a stream whose events pass.
struct Passing {
    native: &'static Native,
    /// Returns the event of the format that is inside an event, if one is.
    inner: fn(&[u8]) -> Option<Vec<u8>>,
    answer: PassedAnswer,
    /// The number of events that were written.
    events: u64,
    /// The last of the events with which the answer may end. It leaves when another event follows,
    /// or when the answer is known to be complete.
    last: Vec<u8>,
}

impl Passing {
    /// Takes an event: reads it, and writes it if it can be read. Returns whether the answer has
    /// ended.
    fn event(
        &mut self,
        translated: &mut Translated,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, StreamFault> {
        let inner = (self.inner)(event.data);
        let event = inner
            .as_deref()
            .map_or(*event, |data| Event { name: b"", data });
        let has_ended = translated.event(event.name, event.data)?;
        self.answer.has_signed = translated.has_signed();
        // Proxies send this at the end of every stream.
        if event.data.trim_ascii() == b"[DONE]" {
            return Ok(has_ended);
        }
        // An event that needed a repair is sent in its repaired form.
        let clean = repaired_line(event.data);
        let event = Event {
            name: event.name,
            data: clean.as_deref().unwrap_or(event.data),
        };
        if !self.last.is_empty() {
            out.append(&mut self.last);
        }
        let out = if translated.progress().finished() {
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
    fn last_event(
        &mut self,
        translated: &mut Translated,
        event: &Event<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, StreamFault> {
        if json::is_whole(event.data) || event.data.trim_ascii() == b"[DONE]" {
            self.event(translated, event, out)
        } else {
            Err(StreamFault::Cut)
        }
    }
}

impl fmt::Debug for NativeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeStream")
            .field("translated", &self.translated)
            .finish_non_exhaustive()
    }
}

/// A stream of chunks, for callers of another format. The chunks hold the facts of the answer.
#[derive(Debug)]
struct Composed {
    decoder: EventDecoder,
    chunks: openai::Chunks,
    /// The corrected chunks that are not read yet.
    standard: Vec<u8>,
    reader: openai::StandardChunks,
    draft: Draft,
}

impl Composed {
    /// Writes the corrected chunks.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let Self {
            standard,
            reader,
            draft,
            ..
        } = self;
        std::mem::swap(out, draft.out());
        let read = reader.events(standard, &mut |event| draft.take(event));
        std::mem::swap(out, draft.out());
        standard.clear();
        read.map_err(StreamFault::Broken)?;
        draft.fault()
    }

    fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        let usage = self.chunks.finish(&mut self.standard, None)?;
        self.write(out)?;
        let Self { reader, draft, .. } = self;
        draft.progress.tally.count_from_usage(&usage);
        reader.end(&mut |event| draft.take(event));
        std::mem::swap(out, draft.out());
        let ended = draft.end(trail);
        std::mem::swap(out, draft.out());
        ended.map_err(StreamFault::Broken)?;
        Ok(usage)
    }
}

impl Stream {
    /// Returns a stream at its start that passes; no event may be longer than `event_limit` bytes.
    pub(crate) fn passed(
        header: &AnswerHeader,
        quirks: &'static Quirks,
        show_reasoning: bool,
        event_limit: usize,
    ) -> Self {
        let chunks = openai::Chunks::new(header, quirks, show_reasoning);
        Self::new(Conversion::Passed(Box::new((
            EventDecoder::new(event_limit),
            chunks,
        ))))
    }

    /// Returns a stream at its start whose chunks are corrected, and written in another format.
    pub(super) fn composed(chunks: openai::Chunks, draft: Draft, event_limit: usize) -> Self {
        let (decoder, reader) = (
            EventDecoder::new(event_limit),
            openai::StandardChunks::default(),
        );
        Self::new(Conversion::Composed(Box::new(Composed {
            decoder,
            chunks,
            standard: Vec::new(),
            reader,
            draft,
        })))
    }

    /// Returns a stream at its start that passes in another format than OpenAI's.
    pub(super) fn native(
        protocol: &Protocol,
        translated: Translated,
        native: &'static Native,
        answer: PassedAnswer,
        event_limit: usize,
    ) -> Self {
        let decoder = Decoder::new(protocol.framing, event_limit);
        let passing = Passing {
            native,
            inner: protocol
                .translation
                .map_or(|_: &[u8]| None, |translation| translation.inner),
            answer,
            events: 0,
            last: Vec::new(),
        };
        Self::new(Conversion::Native(Box::new(NativeStream {
            decoder,
            translated,
            passing,
        })))
    }

    /// Returns a stream at its start that is translated.
    pub(super) fn translated(framing: Framing, translated: Translated, event_limit: usize) -> Self {
        Self::new(Conversion::Translated(Box::new((
            Decoder::new(framing, event_limit),
            translated,
        ))))
    }

    /// Returns an answer of this type at its start, whose bytes pass as they are. `usage` is its
    /// usage unless the answer reports one. No event may be longer than `event_limit` bytes.
    pub fn bytes(content_type: &[u8], usage: Usage, event_limit: usize) -> Self {
        Self::new(Conversion::Bytes(Box::new(PassedBytes::new(
            content_type,
            usage,
            event_limit,
        ))))
    }

    fn new(conversion: Conversion) -> Self {
        Self {
            conversion,
            has_ended: false,
            has_failed: false,
        }
    }

    /// Returns how many bytes are kept: of an event whose end has not come yet, and of the answer
    /// where its front door repeats it at the end.
    pub fn buffered(&self) -> usize {
        match &self.conversion {
            Conversion::Passed(passed) => passed.0.buffered(),
            Conversion::Composed(composed) => composed.decoder.buffered() + composed.draft.kept(),
            Conversion::Native(passed) => passed.decoder.buffered() + passed.passing.last.len(),
            Conversion::Translated(translated) => {
                translated.0.buffered() + translated.1.kept_bytes()
            }
            Conversion::Bytes(passed) => passed.buffered(),
        }
    }

    /// Takes bytes as they came, and appends whole events to `out`. After a fault, the events
    /// before the fault still count, and no more bytes may be fed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        if self.has_ended {
            return Ok(());
        }
        match &mut self.conversion {
            Conversion::Passed(passed) => {
                let (decoder, chunks) = &mut **passed;
                self.has_ended = decoder.feed(bytes, |name, data| chunks.event(name, data, out))?;
            }
            Conversion::Composed(composed) => {
                let Composed {
                    decoder,
                    chunks,
                    standard,
                    ..
                } = &mut **composed;
                let fed = decoder.feed(bytes, |name, data| chunks.event(name, data, standard));
                // The events before a fault still count.
                let written = composed.write(out);
                self.has_failed = fed.is_err() || written.is_err();
                self.has_ended = fed?;
                written?;
            }
            Conversion::Native(passed) => {
                let NativeStream {
                    decoder,
                    translated,
                    passing,
                } = &mut **passed;
                let fed = decoder.feed(bytes, |name, data| {
                    passing.event(translated, &Event { name, data }, out)
                });
                self.has_failed = fed.is_err();
                self.has_ended = fed?;
            }
            Conversion::Translated(translated) => {
                let (decoder, translated) = &mut **translated;
                let fed = translated.writing(out, |translated| {
                    decoder.feed(bytes, |name, data| translated.event(name, data))
                });
                self.has_failed = fed.is_err();
                self.has_ended = fed?;
            }
            Conversion::Bytes(passed) => self.has_ended = passed.feed(bytes, out)?,
        }
        Ok(())
    }

    /// Returns whether the commit gate is open: the upstream has begun to answer, with content,
    /// thinking (hidden too), audio, a call, a refusal, a picture or a finish. A role alone, or
    /// empty content, opens nothing.
    pub fn opened(&self) -> bool {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.opened,
            Conversion::Composed(composed) => composed.chunks.opened,
            Conversion::Native(passed) => passed.translated.progress().opened,
            Conversion::Translated(translated) => translated.1.progress().opened,
            Conversion::Bytes(passed) => passed.has_begun,
        }
    }

    /// Returns whether the answer so far only declines: it has a refusal, or a content filter's
    /// finish. Thinking before it does not matter; text, a call, audio or a picture does. Ask this
    /// when the gate opens: later events may still be an answer.
    pub fn declined(&self) -> bool {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.declined(),
            Conversion::Composed(composed) => composed.chunks.declined(),
            Conversion::Native(passed) => passed.translated.progress().declined(),
            Conversion::Translated(translated) => translated.1.progress().declined(),
            Conversion::Bytes(_) => false,
        }
    }

    /// Returns whether the stream has reached its end: [`finish`](Self::finish) is next.
    pub fn done(&self) -> bool {
        self.has_ended
    }

    /// Returns whether the answer is complete. Only bytes that do not belong to it may be missing.
    pub fn whole(&self) -> bool {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.whole(),
            Conversion::Composed(composed) => !self.has_failed && composed.chunks.whole(),
            Conversion::Native(passed) => {
                self.has_ended || (!self.has_failed && passed.translated.progress().finished())
            }
            Conversion::Translated(translated) => {
                self.has_ended || (!self.has_failed && translated.1.progress().finished())
            }
            Conversion::Bytes(_) => self.has_ended,
        }
    }

    /// Ends the stream: appends its last events, or returns why the stream is not complete. If the
    /// caller asked for the usage, `trail` stands next to it, in `x_portcullis`: members of an
    /// object as JSON text, on one line.
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        let has_ended = &mut self.has_ended;
        match &mut self.conversion {
            Conversion::Passed(passed) => {
                let (decoder, chunks) = &mut **passed;
                *has_ended =
                    *has_ended || decoder.finish(|name, data| chunks.last(name, data, out))?;
                chunks.finish(out, trail)
            }
            Conversion::Composed(composed) => {
                let Composed {
                    decoder,
                    chunks,
                    standard,
                    ..
                } = &mut **composed;
                *has_ended =
                    *has_ended || decoder.finish(|name, data| chunks.last(name, data, standard))?;
                composed.finish(out, trail)
            }
            Conversion::Native(passed) => {
                let NativeStream {
                    decoder,
                    translated,
                    passing,
                } = &mut **passed;
                *has_ended = *has_ended
                    || decoder.finish(|name, data| {
                        passing.last_event(translated, &Event { name, data }, out)
                    })?;
                *has_ended = *has_ended || translated.end_of_file()?;
                let usage = translated.finish(trail)?;
                out.append(&mut passing.last);
                let [.., after] = passing.native.event_separators;
                out.extend_from_slice(after);
                Ok(usage)
            }
            Conversion::Translated(translated) => {
                let (decoder, translated) = &mut **translated;
                translated.writing(out, |translated| {
                    *has_ended =
                        *has_ended || decoder.finish(|name, data| translated.last(name, data))?;
                    *has_ended = *has_ended || translated.end_of_file()?;
                    translated.finish(trail)
                })
            }
            Conversion::Bytes(passed) => passed.finish(out),
        }
    }

    /// Returns the usage so far, for streams that end early: the upstream's counts, else an
    /// estimate from the bytes that were passed on. Without such bytes it is empty.
    pub fn usage_so_far(&self) -> Usage {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.usage_so_far(),
            Conversion::Composed(composed) => composed.chunks.usage_so_far(),
            Conversion::Native(passed) => passed.translated.progress().usage_so_far(),
            Conversion::Translated(translated) => translated.1.progress().usage_so_far(),
            Conversion::Bytes(passed) => passed.usage_so_far(),
        }
    }

    /// Returns the known facts of an answer that cannot go on.
    pub fn so_far(&self) -> Unfinished {
        match &self.conversion {
            Conversion::Passed(..) | Conversion::Bytes(_) => Unfinished::default(),
            Conversion::Composed(composed) => composed.draft.so_far(),
            Conversion::Native(passed) => Unfinished {
                events: passed.passing.events,
                ..passed.translated.so_far()
            },
            Conversion::Translated(translated) => translated.1.so_far(),
        }
    }

    /// Returns the thoughts to keep for the next turn, as far as they came since the last call.
    pub fn kept(&mut self) -> Vec<Kept> {
        match &mut self.conversion {
            Conversion::Passed(..) | Conversion::Composed(..) | Conversion::Bytes(_) => Vec::new(),
            Conversion::Native(passed) => passed.translated.kept(),
            Conversion::Translated(translated) => translated.1.kept(),
        }
    }

    /// Returns the flaws of a complete answer. Ask this after [`finish`](Self::finish).
    pub fn flaws(&self) -> Flaws {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.flaws(),
            Conversion::Composed(composed) => {
                let not_cited = composed.draft.progress.flaws.not_cited;
                Flaws {
                    not_cited,
                    ..composed.chunks.flaws()
                }
            }
            Conversion::Native(passed) => passed.translated.progress().flaws,
            Conversion::Translated(translated) => translated.1.progress().flaws,
            Conversion::Bytes(_) => Flaws::default(),
        }
    }

    /// Returns the reasons for which the choices of a complete answer ended. Ask this after
    /// [`finish`](Self::finish).
    pub fn reasons(&self) -> EndReasons {
        match &self.conversion {
            Conversion::Passed(passed) => passed.1.reasons(),
            Conversion::Composed(composed) => composed.chunks.reasons(),
            Conversion::Native(passed) => passed.translated.progress().reasons,
            Conversion::Translated(translated) => translated.1.progress().reasons,
            Conversion::Bytes(_) => EndReasons::default(),
        }
    }
}

#[cfg(test)]
impl Stream {
    /// Returns the chunks of a stream that passes.
    pub(crate) fn chunks(&mut self) -> &mut openai::Chunks {
        match &mut self.conversion {
            Conversion::Passed(passed) => &mut passed.1,
            Conversion::Composed(..)
            | Conversion::Native(..)
            | Conversion::Translated(..)
            | Conversion::Bytes(_) => {
                panic!("it is written anew")
            }
        }
    }
}
