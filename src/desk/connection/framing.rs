//! How a caller finds the end of an answer of HTTP/1.1, and the lines of the answer's head that say
//! so. Pure.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

/// How the end of an answer's body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerFraming {
    /// So many bytes are left to be written.
    Length(u64),
    /// The body goes out in chunks.
    Chunks,
    /// The body ends with the connection.
    UntilClose,
    /// The end was written.
    Ended,
}

impl AnswerFraming {
    /// Finds out how the body of an answer with this head ends. `is_bare` says that the request
    /// was HEAD.
    pub(super) fn of_head(is_bare: bool, status: StatusCode, fields: &HeaderMap) -> AnswerFraming {
        if is_bare || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return AnswerFraming::Ended;
        }
        if let Some(coding) = fields.get(TRANSFER_ENCODING) {
            return if coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
                AnswerFraming::Chunks
            } else {
                AnswerFraming::UntilClose
            };
        }
        let length = fields
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        match length {
            Some(0) => AnswerFraming::Ended,
            Some(length) => AnswerFraming::Length(length),
            None => AnswerFraming::UntilClose,
        }
    }

    /// Decides how a part goes out. Returns `None` if the answer has ended. What is longer than the
    /// length says is left out.
    pub(super) fn frame(
        self,
        part: &[u8],
        is_last: bool,
    ) -> Result<Option<FramedPart<'_>>, TooShort> {
        let mut framed = FramedPart {
            line: None,
            part,
            after: b"",
            is_flushed: true,
            next: if is_last { AnswerFraming::Ended } else { self },
        };
        match self {
            AnswerFraming::Length(left) => {
                let shown = usize::try_from(left)
                    .ok()
                    .and_then(|left| part.get(..left))
                    .unwrap_or(part);
                let left = left.saturating_sub(shown.len() as u64);
                if is_last && left > 0 {
                    return Err(TooShort);
                }
                framed.part = shown;
                framed.is_flushed = left == 0;
                framed.next = if left == 0 {
                    AnswerFraming::Ended
                } else {
                    AnswerFraming::Length(left)
                };
            }
            AnswerFraming::Chunks => {
                framed.line = (!part.is_empty()).then(|| ChunkLine::new(part.len()));
                framed.after = match (part.is_empty(), is_last) {
                    (false, false) => b"\r\n",
                    (false, true) => b"\r\n0\r\n\r\n",
                    (true, true) => b"0\r\n\r\n",
                    (true, false) => b"",
                };
            }
            AnswerFraming::UntilClose => {}
            AnswerFraming::Ended => return Ok(None),
        }
        Ok(Some(framed))
    }
}

/// A part of a body as it goes out.
pub(super) struct FramedPart<'p> {
    /// The line before a chunk.
    line: Option<ChunkLine>,
    /// The bytes of the body.
    pub(super) part: &'p [u8],
    /// The end of a chunk, or of all of them.
    after: &'static [u8],
    /// True if it must not wait for the next part.
    pub(super) is_flushed: bool,
    /// The framing of what follows.
    pub(super) next: AnswerFraming,
}

impl FramedPart<'_> {
    /// Returns the bytes that are written.
    pub(super) fn bytes(&self) -> [&[u8]; 3] {
        let line = self.line.as_ref().map_or(&b""[..], ChunkLine::text);
        [line, self.part, self.after]
    }
}

/// The error for an answer that ends before its length.
pub(super) struct TooShort;

/// The most bytes of the line before a chunk.
const SIZE_LINE: usize = 18;

/// The line before a chunk of this size.
pub(super) struct ChunkLine {
    text: [u8; SIZE_LINE],
    start: usize,
}

impl ChunkLine {
    /// Writes the line before a chunk of so many bytes.
    pub(super) fn new(size: usize) -> ChunkLine {
        let mut line = ChunkLine {
            text: [0; SIZE_LINE],
            start: SIZE_LINE,
        };
        line.push(b'\n');
        line.push(b'\r');
        let mut rest = size;
        loop {
            line.push(*b"0123456789ABCDEF".get(rest & 15).unwrap_or(&b'0'));
            rest >>= 4;
            if rest == 0 {
                return line;
            }
        }
    }

    fn push(&mut self, byte: u8) {
        self.start -= 1;
        if let Some(place) = self.text.get_mut(self.start) {
            *place = byte;
        }
    }

    /// Returns the line.
    pub(super) fn text(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    #[test]
    fn an_answer_ends_where_its_head_says() {
        let check = |is_bare, status, lines: &[(HeaderName, &str)], expected| {
            let mut fields = HeaderMap::new();
            for (name, value) in lines {
                fields.insert(name, value.parse().expect("a value"));
            }
            let status = StatusCode::from_u16(status).expect("a status");
            let found = AnswerFraming::of_head(is_bare, status, &fields);
            assert_eq!(found, expected, "{is_bare} {status} {lines:?}");
        };
        let five = (CONTENT_LENGTH, "5");
        let chunked = (TRANSFER_ENCODING, "chunked");
        check(
            false,
            200,
            std::slice::from_ref(&five),
            AnswerFraming::Length(5),
        );
        check(true, 200, std::slice::from_ref(&five), AnswerFraming::Ended);
        check(false, 200, &[(CONTENT_LENGTH, "0")], AnswerFraming::Ended);
        check(false, 204, &[], AnswerFraming::Ended);
        check(
            false,
            304,
            std::slice::from_ref(&five),
            AnswerFraming::Ended,
        );
        check(
            false,
            200,
            std::slice::from_ref(&chunked),
            AnswerFraming::Chunks,
        );
        check(false, 200, &[chunked, five], AnswerFraming::Chunks);
        check(
            false,
            200,
            &[(TRANSFER_ENCODING, "gzip")],
            AnswerFraming::UntilClose,
        );
        check(false, 200, &[], AnswerFraming::UntilClose);
        check(
            false,
            200,
            &[(CONTENT_LENGTH, "x")],
            AnswerFraming::UntilClose,
        );
    }

    #[test]
    fn a_part_goes_out_in_its_framing() {
        let check = |framing: AnswerFraming,
                     part: &[u8],
                     is_last,
                     expected: Option<(&str, AnswerFraming)>| {
            let framed = framing.frame(part, is_last).ok().flatten();
            let found = framed.map(|framed| {
                assert_eq!(
                    framed.is_flushed,
                    !matches!(framed.next, AnswerFraming::Length(_))
                );
                (
                    String::from_utf8(framed.bytes().concat()).expect("text"),
                    framed.next,
                )
            });
            let expected = expected.map(|(text, next)| (text.to_owned(), next));
            assert_eq!(found, expected, "{framing:?} {part:?} {is_last}");
        };
        use AnswerFraming::{Chunks, Ended, Length, UntilClose};
        check(Length(5), b"abc", false, Some(("abc", Length(2))));
        check(Length(5), b"abcde", false, Some(("abcde", Ended)));
        check(Length(5), b"abcdef", true, Some(("abcde", Ended)));
        check(Length(5), b"abc", true, None);
        check(Chunks, b"abc", false, Some(("3\r\nabc\r\n", Chunks)));
        check(Chunks, b"abc", true, Some(("3\r\nabc\r\n0\r\n\r\n", Ended)));
        check(Chunks, b"", true, Some(("0\r\n\r\n", Ended)));
        check(Chunks, b"", false, Some(("", Chunks)));
        check(UntilClose, b"abc", false, Some(("abc", UntilClose)));
        check(UntilClose, b"", true, Some(("", Ended)));
        check(Ended, b"abc", true, None);
        assert!(Length(5).frame(b"abc", true).is_err() && Ended.frame(b"", true).is_ok());
    }

    #[test]
    fn chunks_have_their_size_before_them() {
        for size in [0, 1, 9, 10, 255, 4096, 65_535, usize::MAX] {
            assert_eq!(
                ChunkLine::new(size).text(),
                format!("{size:X}\r\n").as_bytes()
            );
        }
    }
}
