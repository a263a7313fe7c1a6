//! A stray is a line in an event stream that belongs to no event. A server that fails in the middle
//! of a stream may write its error as a plain line of JSON, or as a field `error` (old llama.cpp).
//!
//! The specification requires that such lines are dropped. This module keeps those that begin like
//! an error, up to a limit.

use serde::de::IgnoredAny;

use super::error;
use crate::neutral::UpstreamError;

/// The search for errors in the strays of one stream.
#[derive(Debug, Default)]
pub struct Strays {
    /// The start of a JSON text over several lines.
    text: Vec<u8>,
}

/// The most bytes that are kept. An error's text is short.
const LIMIT: usize = 16 * 1024;

impl Strays {
    /// Takes a stray. Returns the error that it is, or that it ends.
    pub fn line(&mut self, line: &[u8]) -> Option<UpstreamError> {
        if let Some(reason) = line.strip_prefix(b"error:") {
            self.forget();
            return Some(error::read_error(reason, None));
        }
        if self.text.is_empty() && !matches!(line.first(), Some(b'{' | b'[')) {
            return None;
        }
        if self.text.len() + line.len() > LIMIT {
            self.forget();
            return None;
        }
        self.text.extend_from_slice(line);
        let found = error::find_error(&self.text);
        if found.is_some() || serde_json::from_slice::<IgnoredAny>(&self.text).is_ok() {
            self.forget();
        }
        found
    }

    /// Forgets the kept lines: an event has come between.
    #[inline]
    pub fn forget(&mut self) {
        if !self.text.is_empty() {
            self.text = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::wire::sse::{Decoder, Piece};

    fn watch(decoder: &mut Decoder, strays: &mut Strays, read: &[u8]) -> Option<UpstreamError> {
        let fed = decoder.pieces(read, |piece| match piece {
            Piece::Event(_) => {
                strays.forget();
                ControlFlow::Continue(())
            }
            Piece::Stray(line) => strays
                .line(line)
                .map_or(ControlFlow::Continue(()), ControlFlow::Break),
        });
        fed.expect("lines that are short enough").break_value()
    }

    #[track_caller]
    fn check(stream: &str, message: Option<&str>) {
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            let (mut decoder, mut strays) = (Decoder::new(1 << 20), Strays::default());
            let found = watch(&mut decoder, &mut strays, head)
                .or_else(|| watch(&mut decoder, &mut strays, tail))
                .or_else(|| decoder.end_line(|line| strays.line(line)).flatten());
            assert_eq!(
                found.map(|error| error.message).as_deref(),
                message,
                "{stream:?} cut at {cut}"
            );
        }
    }

    #[test]
    fn bare_errors_are_found_and_events_are_not() {
        check("data: {\"error\":\"x\"}\n\nevent: error\ndata: 1\n\n", None);
        check(
            "data: {}\n\n{\"error\":{\"message\":\"full\"}}\n\n",
            Some("full"),
        );
        check("data: {}\r\n\r\n{\"error\":\"full\"}", Some("full"));
        check(
            "{\n  \"error\": {\n    \"message\": \"full\"\n  }\n}\n",
            Some("full"),
        );
        check(
            "error: {\"code\":500,\"message\":\"full\"}\n\n",
            Some("full"),
        );
        check("{\"id\":1}\n{\"error\":\"full\"}\n", Some("full"));
        check("{ not json\ndata: {\"error\":\"x\"}\n\n", None);
        check(": {\"error\":\"x\"}\nid: 7\nretry: 3\n", None);
    }

    #[test]
    fn a_long_text_is_not_kept() {
        let mut strays = Strays::default();
        assert!(strays.line(b"{").is_none());
        for _ in 0..1000 {
            assert!(strays.line(&[b'x'; 100]).is_none());
        }
        assert!(strays.text.capacity() <= LIMIT * 2);
    }
}
