//! A decoder cuts the bytes of a stream into events, whichever framing it has.

use std::ops::ControlFlow;

use crate::neutral::{StreamFault, StreamResult, UpstreamError};
use crate::upstream::Framing;
use crate::upstream::openai::Strays;
use crate::wire::sse::Piece;
use crate::wire::{Event, frames, lines, sse};

/// The decoder of a stream, by its framing.
#[derive(Debug)]
pub(super) enum Decoder {
    Events(EventDecoder),
    Lines(lines::LineDecoder),
    Frames(frames::FrameDecoder),
}

/// The decoder of server-sent events. It also finds lines that are no event but report an error.
#[derive(Debug)]
pub(super) struct EventDecoder {
    events: sse::Decoder,
    strays: Strays,
}

const TOO_LARGE: &str = "an event is larger than allowed";

impl Decoder {
    /// Returns the decoder of a stream at its start; no event may be longer than `limit` bytes.
    pub(super) fn new(framing: Framing, limit: usize) -> Self {
        match framing {
            Framing::Events => Self::Events(EventDecoder::new(limit)),
            Framing::Lines => Self::Lines(lines::LineDecoder::new(limit)),
            Framing::Frames => Self::Frames(frames::FrameDecoder::new(limit)),
        }
    }

    /// Returns how many bytes are kept of an event whose end has not come yet.
    pub(super) fn buffered(&self) -> usize {
        match self {
            Self::Events(decoder) => decoder.buffered(),
            Self::Lines(decoder) => decoder.buffered(),
            Self::Frames(decoder) => decoder.buffered(),
        }
    }

    /// Hands the name and the data of each event in these bytes to `each`. When `each` returns
    /// true, the answer has ended, and the rest does not matter. Returns whether the answer has
    /// ended.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        each: impl FnMut(&[u8], &[u8]) -> StreamResult<bool>,
    ) -> StreamResult<bool> {
        let mut taker = EventTaker {
            each,
            has_ended: false,
            fault: None,
        };
        let fed = match self {
            Self::Events(decoder) => return decoder.feed(bytes, taker.each),
            Self::Lines(decoder) => decoder
                .feed(bytes, |event| taker.take(event))
                .map_err(|_| TOO_LARGE),
            Self::Frames(decoder) => decoder
                .feed(bytes, |event| taker.take(event))
                .map_err(|broken| broken.0),
        };
        taker.end(fed)
    }

    /// Hands over the last event, which may lack its end, as [`feed`](Self::feed) does.
    pub(super) fn finish(
        &mut self,
        each: impl FnOnce(&[u8], &[u8]) -> StreamResult<bool>,
    ) -> StreamResult<bool> {
        match self {
            Self::Events(decoder) => decoder.finish(each),
            Self::Lines(decoder) => decoder
                .finish(|event| each(event.name, event.data))
                .unwrap_or(Ok(false)),
            // A frame ends with its checksum, so half a frame is a cut.
            Self::Frames(decoder) => {
                if decoder.is_empty() {
                    Ok(false)
                } else {
                    Err(StreamFault::Cut)
                }
            }
        }
    }
}

impl EventDecoder {
    /// Returns the decoder of a stream at its start; no event may be longer than `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            events: sse::Decoder::new(limit),
            strays: Strays::default(),
        }
    }

    /// Returns how many bytes are kept of an event whose end has not come yet.
    pub(super) fn buffered(&self) -> usize {
        self.events.buffered()
    }

    /// Hands over the events in these bytes, like [`Decoder::feed`].
    #[inline]
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        each: impl FnMut(&[u8], &[u8]) -> StreamResult<bool>,
    ) -> StreamResult<bool> {
        let Self { events, strays } = self;
        let mut taker = EventTaker {
            each,
            has_ended: false,
            fault: None,
        };
        let fed = events.pieces(bytes, |piece| match piece {
            Piece::Event(event) => {
                strays.forget();
                taker.take(event)
            }
            Piece::Stray(line) => taker.fail(strays.line(line)),
        });
        taker.end(fed.map_err(|_| TOO_LARGE))
    }

    /// Hands over the last event, like [`Decoder::finish`].
    pub(super) fn finish(
        &mut self,
        each: impl FnOnce(&[u8], &[u8]) -> StreamResult<bool>,
    ) -> StreamResult<bool> {
        let Self { events, strays } = self;
        let found = events.end_line(|line| strays.line(line)).flatten();
        let has_ended = events
            .finish(|event| each(event.name, event.data))
            .unwrap_or(Ok(false))?;
        match found {
            Some(found) if !has_ended => Err(StreamFault::Upstream(found)),
            Some(_) | None => Ok(has_ended),
        }
    }
}

/// The taker of a decoder's events. A fault is large, so it is kept here, and not handed through
/// the decoder.
struct EventTaker<F> {
    each: F,
    has_ended: bool,
    fault: Option<StreamFault>,
}

impl<F: FnMut(&[u8], &[u8]) -> StreamResult<bool>> EventTaker<F> {
    #[inline]
    fn take(&mut self, event: Event<'_>) -> ControlFlow<()> {
        match (self.each)(event.name, event.data) {
            Ok(false) => return ControlFlow::Continue(()),
            Ok(true) => self.has_ended = true,
            Err(fault) => self.fault = Some(fault),
        }
        ControlFlow::Break(())
    }

    /// Takes the error that stands between the events, if there is one.
    fn fail(&mut self, error: Option<UpstreamError>) -> ControlFlow<()> {
        self.fault = error.map(StreamFault::Upstream);
        if self.fault.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    #[inline]
    fn end(self, fed: Result<ControlFlow<()>, &'static str>) -> StreamResult<bool> {
        match (self.fault, fed) {
            (Some(fault), _) => Err(fault),
            (None, Ok(_)) => Ok(self.has_ended),
            (None, Err(why)) => Err(StreamFault::Broken(why)),
        }
    }
}
