//! What a translated account answers: framing, a dialect's reader, and the telling in the callers'
//! format, put together.
//!
//! The twin of [`openai::Stream`](crate::upstream::openai::Stream) for every dialect that is not
//! passed through, with the same promises: however the bytes are cut, the same comes out; a stream
//! ends with its finishes, the usage if it was asked for, and `[DONE]`, or with a fault; and the
//! state does not grow with the stream's length. `[DONE]` comes only after the dialect said that
//! the answer is whole.

mod repair;

use std::fmt;
use std::ops::ControlFlow;

pub(crate) use repair::repaired;

use crate::front::chat::write::{Chunks, Whole};
use crate::neutral::answer::{AnswerOptions, Kept};
use crate::neutral::usage::Usage;
use crate::neutral::{Answer, AnswerFault, AnswerHeader, Emit, Flaws, Reader, StreamFault};
use crate::upstream::Framing;
use crate::upstream::openai::Strays;
use crate::wire::json::{Cursor, slice};
use crate::wire::{frames, lines, sse};

/// The reading of one attempt's stream.
pub struct TranslatedStream {
    decoder: Decoder,
    telling: Telling,
}

#[derive(Debug)]
enum Decoder {
    Events(sse::Decoder, Strays),
    Lines(lines::LineDecoder),
    Frames(frames::FrameDecoder),
}

/// From an event's data to chunks.
struct Telling {
    reader: Box<dyn Reader>,
    chunks: Chunks,
    has_failed: bool,
}

impl TranslatedStream {
    /// A stream at its start; no event may be longer than `event_limit` bytes.
    pub fn new(
        header: &AnswerHeader,
        options: AnswerOptions,
        framing: Framing,
        reader: Box<dyn Reader>,
        event_limit: usize,
    ) -> Self {
        let decoder = match framing {
            Framing::Events => Decoder::Events(sse::Decoder::new(event_limit), Strays::default()),
            Framing::Lines => Decoder::Lines(lines::LineDecoder::new(event_limit)),
            Framing::Frames => Decoder::Frames(frames::FrameDecoder::new(event_limit)),
        };
        Self { decoder, telling: Telling { reader, chunks: Chunks::new(header, options), has_failed: false } }
    }

    /// How many bytes are kept of an event whose end has not come yet.
    pub fn buffered(&self) -> usize {
        match &self.decoder {
            Decoder::Events(decoder, _) => decoder.buffered(),
            Decoder::Lines(decoder) => decoder.buffered(),
            Decoder::Frames(decoder) => decoder.buffered(),
        }
    }

    /// Takes bytes as they came and appends whole events to `out`. After a fault, what was appended
    /// before it still counts, and nothing more should be fed.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let telling = &mut self.telling;
        if telling.chunks.done() {
            return Ok(());
        }
        let mut each = |name: &[u8], data: &[u8]| telling.event(name, data, out);
        let mut stray = None;
        let fed = match &mut self.decoder {
            Decoder::Events(decoder, strays) => {
                stray = strays.watch(bytes);
                // What is no event counts at its place among the events.
                let before = stray.as_ref().map_or(bytes.len(), |(_, end)| *end);
                decoder.feed(slice(bytes, &(0..before)), |event| each(event.name, event.data)).map_err(too_large)
            }
            Decoder::Lines(decoder) => decoder.feed(bytes, |event| each(event.name, event.data)).map_err(too_large),
            Decoder::Frames(decoder) => decoder
                .feed(bytes, |event| each(event.name, event.data))
                .map_err(|frames::Broken(why)| StreamFault::Broken(why)),
        };
        let fed = fed.and_then(|flow| match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(told) => told,
        });
        let fed = match (fed, stray) {
            (Ok(()), Some((found, _))) if !self.telling.chunks.done() => Err(StreamFault::Upstream(found)),
            (fed, _) => fed,
        };
        self.telling.has_failed = fed.is_err();
        fed
    }

    /// The commit gate: the upstream has begun to answer, with content, thinking (hidden too), a
    /// call, a refusal, a picture or a finish.
    pub fn opened(&self) -> bool {
        self.telling.chunks.opened()
    }

    /// All that was told is that the model will not answer: a refusal, or a content filter's
    /// finish, be there thinking before it or not.
    pub fn declined(&self) -> bool {
        self.telling.chunks.declined()
    }

    /// The dialect's end was seen, and nothing more need be read: [`finish`](Self::finish) is next.
    pub fn done(&self) -> bool {
        self.telling.chunks.done()
    }

    /// Every choice has its finish, so that nothing but the end may be missing:
    /// [`finish`](Self::finish) knows whether it is.
    pub fn whole(&self) -> bool {
        self.done() || (!self.telling.has_failed && self.telling.chunks.finished())
    }

    /// At the upstream's end of file, or once [`done`](Self::done): appends the finishes, the usage
    /// if it was asked for, and `[DONE]`; or says why there can be none. `trail` goes with the
    /// usage.
    pub fn finish(&mut self, out: &mut Vec<u8>, trail: Option<&str>) -> Result<Usage, StreamFault> {
        let telling = &mut self.telling;
        if !telling.chunks.done() {
            // The last event may lack its line end. One that is itself cut may have held more of
            // the answer.
            let mut each = |name: &[u8], data: &[u8]| match data.trim_ascii() {
                b"[DONE]" => Ok(()),
                data if name == b"error" || is_json(data) => told(telling.event(name, data, out)),
                _ => Err(StreamFault::Cut),
            };
            let pending = match &mut self.decoder {
                Decoder::Events(decoder, _) => decoder.finish(|event| each(event.name, event.data)),
                Decoder::Lines(decoder) => decoder.finish(|event| each(event.name, event.data)),
                // Its last checksum is its end: half a frame is a cut.
                Decoder::Frames(_) => None,
            };
            pending.transpose()?;
            if let Decoder::Frames(decoder) = &self.decoder
                && !decoder.is_empty()
            {
                return Err(StreamFault::Cut);
            }
        }
        if !telling.chunks.done() {
            if let Decoder::Events(_, strays) = &mut self.decoder
                && let Some(found) = strays.finish()
            {
                return Err(StreamFault::Upstream(found));
            }
            telling.end_of_file(out)?;
        }
        if !telling.chunks.done() {
            return Err(StreamFault::Cut);
        }
        telling.chunks.finish(out, trail)
    }

    /// What was used so far, for streams that end early: as the upstream said, and an estimate of
    /// what it did not count; nothing if nothing was told.
    pub fn usage_so_far(&self) -> Usage {
        self.telling.chunks.usage_so_far()
    }

    /// What is wrong with the answer, though it is whole.
    pub fn flaws(&self) -> Flaws {
        self.telling.chunks.flaws()
    }

    /// Thoughts to keep for the next turn, each once.
    pub fn kept(&mut self) -> Vec<Kept> {
        self.telling.chunks.kept()
    }
}

impl fmt::Debug for TranslatedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("decoder", &self.decoder)
            .field("chunks", &self.telling.chunks)
            .finish_non_exhaustive()
    }
}

impl Telling {
    /// Takes an event; breaks where nothing that follows matters.
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<u8>) -> ControlFlow<Result<(), StreamFault>> {
        let Self { reader, chunks, .. } = self;
        let mut read = reader.event(name, data, &mut |event| chunks.take(event, out));
        if let Err(StreamFault::Broken(_)) = read
            && let Some(repaired) = repaired(data)
        {
            read = reader.event(name, &repaired, &mut |event| chunks.take(event, out));
        }
        match read.and_then(|()| chunks.fault()) {
            Ok(()) if chunks.done() => ControlFlow::Break(Ok(())),
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(Err(fault)),
        }
    }

    fn end_of_file(&mut self, out: &mut Vec<u8>) -> Result<(), StreamFault> {
        let Self { reader, chunks, .. } = self;
        reader.end_of_file(&mut |event| chunks.take(event, out))?;
        chunks.fault()
    }
}

/// Reads a buffered answer, and where it cannot be read for what no JSON may hold, once more
/// without that.
pub(crate) fn repairing<T>(body: &[u8], read: impl Fn(&[u8]) -> Result<T, AnswerFault>) -> Result<T, AnswerFault> {
    match read(body) {
        Err(AnswerFault::Nonsense(why)) => repaired(body).map_or(Err(AnswerFault::Nonsense(why)), |body| read(&body)),
        told => told,
    }
}

/// A buffered answer, told to a caller who asked for one.
pub(crate) fn answer(
    header: &AnswerHeader,
    options: AnswerOptions,
    tell: impl FnOnce(Emit<'_>) -> Result<(), AnswerFault>,
) -> Result<(Answer, Vec<Kept>), AnswerFault> {
    let mut whole = Whole::new(header, options);
    tell(&mut |event| whole.take(event))?;
    let kept = whole.kept();
    Ok((whole.finish(header)?, kept))
}

/// A buffered answer, told to a caller who asked for a stream. Its head can tell all of the trail.
pub(crate) fn converted(
    header: &AnswerHeader,
    options: AnswerOptions,
    tell: impl FnOnce(Emit<'_>) -> Result<(), AnswerFault>,
) -> Result<(Answer, Vec<Kept>), AnswerFault> {
    let mut chunks = Chunks::new(header, options);
    let mut body = Vec::new();
    tell(&mut |event| chunks.take(event, &mut body))?;
    let usage = chunks.finish(&mut body, None).map_err(|fault| match fault {
        StreamFault::Upstream(error) => AnswerFault::Upstream(error),
        StreamFault::Broken(why) => AnswerFault::Nonsense(why),
        StreamFault::Cut => AnswerFault::Nonsense("the answer has no end"),
    })?;
    Ok((Answer { body, usage, declined: chunks.declined(), flaws: chunks.flaws() }, chunks.kept()))
}

fn too_large(_: sse::TooLarge) -> StreamFault {
    StreamFault::Broken("an event is larger than allowed")
}

fn told(flow: ControlFlow<Result<(), StreamFault>>) -> Result<(), StreamFault> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(told) => told,
    }
}

fn is_json(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    cursor.value().and_then(|_| cursor.end()).is_ok()
}

#[cfg(test)]
mod tests;
