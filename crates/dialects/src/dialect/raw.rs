//! An answer whose bytes pass as they are: sound, a text, or events of which only the usage and
//! errors are read.

use super::conversion::Conversion;
use super::decoder::EventDecoder;
use crate::neutral::answer::{AnswerFacts, Kept};
use crate::neutral::usage::Usage;
use crate::neutral::{StreamFault, StreamResult};
use crate::upstream::openai::other_endpoints;
use crate::wire::json;

/// An answer that passes.
#[derive(Debug)]
pub(super) struct PassedBytes {
    /// The decoder of the events, if the answer has events. Only whole events leave.
    events: Option<EventDecoder>,
    /// The beginning of an event whose end has not come yet.
    held: Vec<u8>,
    so_far: PassedSoFar,
    /// True if an empty answer is a valid one, as the transcript of silence is.
    may_be_empty: bool,
}

/// The facts of the part that has passed.
#[derive(Debug)]
struct PassedSoFar {
    usage: Usage,
    /// True if some of the answer has come.
    has_begun: bool,
    /// True if the last event promises further ones.
    goes_on: bool,
}

impl PassedSoFar {
    /// Reads an event. Returns whether the answer has ended.
    fn read_event(&mut self, data: &[u8]) -> StreamResult<bool> {
        self.goes_on = other_endpoints::passing_event(data, &mut self.usage)?;
        self.has_begun = true;
        Ok(data.trim_ascii() == b"[DONE]")
    }
}

impl PassedBytes {
    /// Begins to pass an answer of this type. No event may be longer than `event_limit` bytes.
    pub(super) fn new(content_type: &[u8], usage: Usage, event_limit: usize) -> PassedBytes {
        let kind = content_type.to_ascii_lowercase();
        let is_events = kind.starts_with(b"text/event-stream");
        PassedBytes {
            events: is_events.then(|| EventDecoder::new(event_limit)),
            held: Vec::new(),
            so_far: PassedSoFar {
                usage,
                has_begun: false,
                goes_on: false,
            },
            may_be_empty: kind.starts_with(b"text/") && !is_events,
        }
    }
}

impl Conversion for PassedBytes {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> StreamResult<bool> {
        let Some(events) = &mut self.events else {
            self.so_far.has_begun |= !bytes.is_empty();
            out.extend_from_slice(bytes);
            return Ok(false);
        };
        let has_ended = events.feed(bytes, |_, data| self.so_far.read_event(data))?;
        // The held bytes have no end of an event, but may have its first bytes.
        let known = self.held.len().saturating_sub(3);
        self.held.extend_from_slice(bytes);
        let end = self.held.get(known..).and_then(end_of_events);
        let whole = if has_ended {
            self.held.len()
        } else {
            end.map_or(0, |end| known + end)
        };
        out.extend(self.held.drain(..whole));
        Ok(has_ended)
    }

    fn finish(&mut self, out: &mut Vec<u8>, _trail: Option<&str>) -> StreamResult<Usage> {
        if let Some(events) = &mut self.events {
            events.finish(
                |_, data| match data.starts_with(b"{") && !json::is_whole(data) {
                    true => Err(StreamFault::Cut),
                    false => self.so_far.read_event(data),
                },
            )?;
        }
        if self.so_far.goes_on {
            return Err(StreamFault::Cut);
        }
        if !self.so_far.has_begun && !self.may_be_empty {
            return Err(StreamFault::Broken("an empty answer"));
        }
        out.append(&mut self.held);
        Ok(self.so_far.usage)
    }

    fn buffered(&self) -> usize {
        self.events.as_ref().map_or(0, EventDecoder::buffered) + self.held.len()
    }

    fn facts(&self) -> &dyn AnswerFacts {
        self
    }

    fn kept_thoughts(&mut self) -> Vec<Kept> {
        Vec::new()
    }
}

impl AnswerFacts for PassedBytes {
    fn opened(&self) -> bool {
        self.so_far.has_begun
    }

    fn usage_so_far(&self) -> Usage {
        if self.so_far.has_begun {
            self.so_far.usage
        } else {
            Usage::default()
        }
    }
}

/// Returns the place after the last whole event: a line end, and an empty line.
fn end_of_events(text: &[u8]) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
    ends.iter()
        .filter_map(|end| Some(memchr::memmem::rfind(text, end)? + end.len()))
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Stream;
    use crate::neutral::usage::Source;

    const EVENTS: &str = "event: transcript.text.delta\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\n\
        data: {\"type\":\"transcript.text.done\",\"text\":\"a\",\"usage\":{\"type\":\"tokens\",\"input_tokens\":14,\
        \"output_tokens\":5,\"total_tokens\":19}}\r\n\r\n";

    fn pass(kind: &str, text: &[u8], size: usize) -> Result<(Vec<u8>, Usage, bool), StreamFault> {
        let mut stream = Stream::bytes(kind.as_bytes(), Usage::default(), 1 << 12);
        let mut out = Vec::new();
        for piece in text.chunks(size) {
            assert_eq!(stream.opened(), !out.is_empty() || stream.opened());
            stream.feed(piece, &mut out)?;
        }
        let opened = stream.opened();
        stream
            .finish(&mut out, None)
            .map(|usage| (out, usage, opened))
    }

    #[test]
    fn bytes_pass_however_they_are_cut() {
        let sound: Vec<u8> = (0..=255).cycle().take(5_000).collect();
        for size in [1, 2, 7, 4_096, 5_000] {
            assert_eq!(
                pass("audio/mpeg", &sound, size),
                Ok((sound.clone(), Usage::default(), true))
            );
            let (out, usage, opened) =
                pass("Text/Event-Stream; charset=utf-8", EVENTS.as_bytes(), size).unwrap();
            assert!(out == EVENTS.as_bytes() && opened);
            assert_eq!(
                (usage.prompt, usage.completion, usage.source),
                (14, 5, Source::Reported)
            );
        }
    }

    #[test]
    fn the_length_of_sound_ends_the_stream() {
        let asked = Usage {
            source: Source::Estimated,
            ..Usage::default()
        };
        let mut stream = Stream::bytes(b"text/event-stream", asked, 1 << 12);
        assert_eq!(stream.usage_so_far(), Usage::default(), "nothing has come");
        let done = b"data: {\"type\":\"transcript.text.done\",\"usage\":{\"type\":\"duration\",\"seconds\":7}}\n\n";
        stream.feed(done, &mut Vec::new()).unwrap();
        let usage = stream.usage_so_far();
        assert_eq!(
            (usage.units.millis, usage.source),
            (7_000, Source::Estimated)
        );
    }

    #[test]
    fn events_leave_whole() {
        let mut stream = Stream::bytes(b"text/event-stream", Usage::default(), 1 << 12);
        let (mut out, half) = (
            Vec::new(),
            EVENTS
                .find("data: {\"type\":\"transcript.text.done")
                .unwrap(),
        );
        stream
            .feed(&EVENTS.as_bytes()[..half + 20], &mut out)
            .unwrap();
        assert_eq!(out, EVENTS.as_bytes()[..half]);
        assert_eq!(stream.buffered() > 20, stream.buffered() > 0);
        stream
            .feed(&EVENTS.as_bytes()[half + 20..], &mut out)
            .unwrap();
        assert!(out == EVENTS.as_bytes() && !stream.done() && !stream.whole());
        stream
            .feed(b"data: [DONE]\n\ndata: more\n\n", &mut out)
            .unwrap();
        assert!(stream.done() && stream.whole());
    }

    #[test]
    fn events_that_end_too_early_are_cut() {
        let cut = Err(StreamFault::Cut);
        let delta = "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AAAA\"}\n\n";
        for size in [1, 7, 4_096] {
            assert_eq!(pass("text/event-stream", delta.as_bytes(), size), cut);
            assert_eq!(
                pass(
                    "text/event-stream",
                    &EVENTS.as_bytes()[..EVENTS.len() - 20],
                    size
                ),
                cut,
                "half an event"
            );
            let told = EVENTS.trim_end().as_bytes();
            assert_eq!(
                pass("text/event-stream", told, size).unwrap().0,
                told,
                "only its empty line is missing"
            );
        }
        let other =
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a.delta\"}}]}\n\ndata: a text\n\n";
        assert!(
            pass("text/event-stream", other, 9).is_ok(),
            "servers with events of their own"
        );
    }

    #[test]
    fn no_event_is_slow() {
        let event = format!(
            "data: {{\"type\":\"image_edit.completed\",\"b64_json\":\"{}\"}}\r\n\r\n",
            "A".repeat(2 << 20)
        );
        let mut stream = Stream::bytes(b"text/event-stream", Usage::default(), 8 << 20);
        let (mut out, start) = (Vec::new(), std::time::Instant::now());
        for piece in event.as_bytes().chunks(64) {
            stream.feed(piece, &mut out).unwrap();
        }
        assert!(
            out == event.as_bytes() && start.elapsed().as_secs() < 60,
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn an_error_and_nothing_at_all_are_no_answer() {
        let error = "data: {\"error\":{\"message\":\"no\",\"code\":\"x\"}}\n\n";
        assert!(matches!(
            pass("text/event-stream", error.as_bytes(), 9),
            Err(StreamFault::Upstream(_))
        ));
        assert!(pass("text/event-stream", b": comment\n\n", 9).is_err());
        assert!(pass("audio/wav", b"", 9).is_err());
        assert_eq!(
            pass("text/plain; charset=utf-8", b"", 9),
            Ok((Vec::new(), Usage::default(), false))
        );
        let long = format!("data: {}\n\n", "x".repeat(1 << 13));
        assert!(pass("text/event-stream", long.as_bytes(), 100).is_err());
    }
}
