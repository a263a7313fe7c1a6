//! A stray is a line in an event stream that belongs to no event. A server that fails in the middle
//! of a stream may write its error as a plain line of JSON, or as a field `error` (old llama.cpp).
//!
//! The decoder drops such lines, as the specification requires. This module looks for them at the
//! same time. It keeps only lines that begin like an error, up to a limit.

use memchr::memchr2;
use serde::de::IgnoredAny;

use super::error;
use crate::neutral::UpstreamError;

/// The search for strays in one stream.
#[derive(Debug, Default)]
pub struct Strays {
    /// True if a part of the current line was seen.
    inside: bool,
    /// True if the current line is kept.
    keeps: bool,
    /// The lines that are kept: one line, or the start of a JSON text over several lines.
    text: Vec<u8>,
}

/// The most bytes that are kept. An error's text is short.
const LIMIT: usize = 16 * 1024;

impl Strays {
    /// Looks through one network read. Returns the first error that is a stray, and the place in
    /// the read where it ends.
    pub fn watch(&mut self, bytes: &[u8]) -> Option<(Box<UpstreamError>, usize)> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr2(b'\n', b'\r', rest);
            let (line, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
            self.piece(line);
            if end.is_some()
                && let Some(found) = self.end_line()
            {
                return Some((Box::new(found), bytes.len() - after.len()));
            }
            rest = after.get(1..).unwrap_or_default();
        }
        None
    }

    fn piece(&mut self, piece: &[u8]) {
        let Some(first) = piece.first() else { return };
        if !self.inside {
            self.inside = true;
            // `e` may begin `error:`. A JSON text over several lines goes on until a line of an
            // event comes.
            let begins = matches!(first, b'{' | b'[' | b'e');
            let goes_on = !self.text.is_empty() && !matches!(first, b'd' | b'e' | b':' | b'i' | b'r');
            if !goes_on {
                self.text.clear();
            }
            self.keeps = begins || goes_on;
        }
        if self.keeps {
            if self.text.len() + piece.len() > LIMIT {
                self.forget();
                return;
            }
            self.text.extend_from_slice(piece);
        }
    }

    /// Ends the current line. Returns the error that the kept lines are. At the end of the stream,
    /// the last line may have no line end.
    pub fn end_line(&mut self) -> Option<UpstreamError> {
        self.inside = false;
        if !std::mem::take(&mut self.keeps) {
            return None;
        }
        if self.text.starts_with(b"e") {
            let found = self.text.strip_prefix(b"error:").map(|reason| error::error(reason, None));
            self.forget();
            return found;
        }
        let found = error::hidden(&self.text);
        if found.is_some() || serde_json::from_slice::<IgnoredAny>(&self.text).is_ok() {
            self.forget();
        }
        found
    }

    fn forget(&mut self) {
        self.keeps = false;
        self.text = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stream: &str, message: Option<&str>) {
        for cut in 0..=stream.len() {
            let (head, tail) = stream.as_bytes().split_at(cut);
            let mut strays = Strays::default();
            let watched = strays.watch(head).or_else(|| strays.watch(tail));
            let found = watched.map(|(error, _)| *error).or_else(|| strays.end_line());
            assert_eq!(found.map(|error| error.message).as_deref(), message, "{stream:?} cut at {cut}");
        }
    }

    #[test]
    fn bare_errors_are_found_and_events_are_not() {
        check("data: {\"error\":\"x\"}\n\nevent: error\ndata: 1\n\n", None);
        check("data: {}\n\n{\"error\":{\"message\":\"full\"}}\n\n", Some("full"));
        check("data: {}\r\n\r\n{\"error\":\"full\"}", Some("full"));
        check("{\n  \"error\": {\n    \"message\": \"full\"\n  }\n}\n", Some("full"));
        check("error: {\"code\":500,\"message\":\"full\"}\n\n", Some("full"));
        check("{\"id\":1}\n{\"error\":\"full\"}\n", Some("full"));
        check("{ not json\ndata: {\"error\":\"x\"}\n\n", None);
        check(": {\"error\":\"x\"}\nid: 7\nretry: 3\n", None);
    }

    #[test]
    fn a_long_line_is_not_kept() {
        let mut strays = Strays::default();
        strays.watch(b"{");
        for _ in 0..1000 {
            assert_eq!(strays.watch(&[b'x'; 100]), None);
        }
        assert!(strays.text.capacity() <= LIMIT * 2);
    }
}
