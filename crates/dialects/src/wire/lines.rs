//! A decoder for lines of JSON (NDJSON). It accepts the bytes in any pieces.
//!
//! The lines are the same however the stream was cut into reads. A line that is whole in one read
//! is borrowed from the read. Other lines are gathered in a buffer that stays below the limit. A
//! line ends with LF. A CR before the LF and white space around the line are removed, and blank
//! lines are skipped: JSON does not need them. Bytes stay bytes; the reader decides if they are
//! JSON.

use std::ops::ControlFlow;

use memchr::memchr;

use super::Event;
use super::sse::{TooLarge, append_bytes, check_length, clear_buffer, without_mark};

/// The decoder's place in the stream, and the bytes of a line whose end has not come yet.
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    line: Vec<u8>,
    /// True until the stream's first line has ended. A byte order mark may stand before that line.
    first_line: bool,
}

impl LineDecoder {
    /// Returns a decoder at the start of a stream. A line may have up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            first_line: true,
        }
    }

    /// Returns the number of buffered bytes of a line whose end has not come yet.
    pub fn buffered(&self) -> usize {
        self.line.len()
    }

    /// Takes one network read, and calls `event` for every line that ends in it. The name of the
    /// event is empty. If `event` breaks, the rest of the read is dropped, and nothing may be fed
    /// after that.
    pub fn feed<B>(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(Event<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooLarge> {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            check_length(self.line.len() + end, self.limit)?;
            let (line, after) = rest.split_at_checked(end).unwrap_or_default();
            rest = after.get(1..).unwrap_or_default();
            let flow = if self.line.is_empty() {
                emit_line(&mut self.first_line, line, &mut event)
            } else {
                append_bytes(&mut self.line, line, self.limit);
                self.finish(&mut event)
            };
            if let Some(ControlFlow::Break(value)) = flow {
                return Ok(ControlFlow::Break(value));
            }
        }
        check_length(self.line.len() + rest.len(), self.limit)?;
        append_bytes(&mut self.line, rest, self.limit);
        Ok(ControlFlow::Continue(()))
    }

    /// Calls `event` for the gathered line, unless it is blank. At the end of the stream this is a
    /// last line without a line end. The caller must check if that line is whole.
    pub fn finish<R>(&mut self, event: impl FnOnce(Event<'_>) -> R) -> Option<R> {
        let shown = emit_line(&mut self.first_line, &self.line, event);
        clear_buffer(&mut self.line);
        shown
    }
}

/// Calls `event` for a line, unless it is blank.
fn emit_line<R>(
    first_line: &mut bool,
    line: &[u8],
    event: impl FnOnce(Event<'_>) -> R,
) -> Option<R> {
    let data = without_mark(first_line, line).trim_ascii();
    (!data.is_empty()).then(|| event(Event { name: b"", data }))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1 << 20;

    /// Returns the lines of a stream that comes in these reads, and the line that the stream's end
    /// ends.
    fn decode(limit: usize, reads: &[&[u8]]) -> (Vec<String>, Result<Option<String>, TooLarge>) {
        let text = |event: Event<'_>| {
            assert_eq!(event.name, b"");
            String::from_utf8_lossy(event.data).into_owned()
        };
        let mut decoder = LineDecoder::new(limit);
        let mut lines = Vec::new();
        for read in reads {
            let fed = decoder.feed(read, |event| {
                lines.push(text(event));
                ControlFlow::<Infallible>::Continue(())
            });
            if fed == Err(TooLarge) {
                return (lines, Err(TooLarge));
            }
        }
        let last = decoder.finish(text);
        assert_eq!(decoder.finish(|_| ()), None, "the end comes once");
        (lines, Ok(last))
    }

    /// Checks a stream whole, byte by byte, and at every cut in two and three.
    #[track_caller]
    fn check(stream: impl AsRef<[u8]>, expected: &[&str], last: Option<&str>) {
        let stream = stream.as_ref();
        let expected = (
            expected.iter().map(|line| (*line).to_owned()).collect(),
            Ok(last.map(str::to_owned)),
        );
        let shown = stream.escape_ascii();
        assert_eq!(decode(LIMIT, &[stream]), expected, "{shown}");
        assert_eq!(
            decode(LIMIT, &stream.chunks(1).collect::<Vec<_>>()),
            expected,
            "byte by byte: {shown}"
        );
        for second in 0..=stream.len() {
            for first in 0..=second {
                let reads = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(
                    decode(LIMIT, &reads),
                    expected,
                    "cut at {first} and {second}: {shown}"
                );
            }
        }
    }

    #[test]
    fn lines_end_with_a_line_feed() {
        check("", &[], None);
        check("{}\n", &["{}"], None);
        check("{\"a\":1}\n{\"b\":2}\n", &["{\"a\":1}", "{\"b\":2}"], None);
        check("{}\r\n[]\r\n", &["{}", "[]"], None);
        check("{}\r[]\n", &["{}\r[]"], None);
        check("é😀\nb\n", &["é😀", "b"], None);
        check(b"\xFF\n", &["\u{FFFD}"], None);
    }

    #[test]
    fn blank_lines_are_no_data() {
        check("\n\n\r\n \t\r\n{}\n\n", &["{}"], None);
        check("  {} \t\r\n", &["{}"], None);
        check(" \n \r", &[], None);
    }

    #[test]
    fn the_last_line_may_lack_its_end() {
        check("{}", &[], Some("{}"));
        check("{}\n[", &["{}"], Some("["));
        check("{}\n []\r", &["{}"], Some("[]"));
    }

    #[test]
    fn a_byte_order_mark_counts_at_the_start_only() {
        check("\u{FEFF}{}\n", &["{}"], None);
        check("\u{FEFF}\n{}\n", &["{}"], None);
        check("\u{FEFF}{}", &[], Some("{}"));
        check("\u{FEFF}", &[], None);
        check("\u{FEFF}\u{FEFF}{}\n", &["\u{FEFF}{}"], None);
        check("{}\n\u{FEFF}{}\n", &["{}", "\u{FEFF}{}"], None);
        check(b"\xEF\xBB\n", &["\u{FFFD}"], None);
    }

    #[test]
    fn a_break_stops_the_read() {
        let mut seen = 0;
        let fed = LineDecoder::new(LIMIT).feed(b"1\n2\n3\n", |event| {
            seen += 1;
            if event.data == b"2" {
                ControlFlow::Break("two")
            } else {
                ControlFlow::Continue(())
            }
        });
        assert_eq!((fed, seen), (Ok(ControlFlow::Break("two")), 2));
    }

    #[test]
    fn d14_a_line_over_the_limit_is_refused() {
        for (stream, lines, is_fine) in [
            ("12345678\n", 1, true),
            ("123456789\n", 0, false),
            ("1\n123456789", 1, false),
        ] {
            for size in [1, 3, 100] {
                let reads: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                let (seen, end) = decode(8, &reads);
                assert_eq!(
                    (seen.len(), end.is_ok()),
                    (lines, is_fine),
                    "{stream:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn d14_memory_stays_below_the_limit_and_is_given_back() {
        let mut decoder = LineDecoder::new(1 << 16);
        let read = [b'x'; 1000];
        let ignore = |_: Event<'_>| ControlFlow::<()>::Continue(());
        while decoder.feed(&read, ignore) != Err(TooLarge) {
            assert!(decoder.line.capacity() <= 1 << 16);
        }
        assert_eq!(decoder.feed(b"\n", ignore), Ok(ControlFlow::Continue(())));
        assert_eq!(decoder.line.capacity(), 0);
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(stream in "[a\r\n \u{FEFF}é]{0,40}", cuts in prop::collection::vec(0usize..100, 0..6), limit in 1usize..20) {
            let bytes = stream.as_bytes();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let reads: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode(limit, &reads), decode(limit, &[bytes]));
        }
    }
}
