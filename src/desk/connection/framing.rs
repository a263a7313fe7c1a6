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
}

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
    fn chunks_have_their_size_before_them() {
        for size in [0, 1, 9, 10, 255, 4096, 65_535, usize::MAX] {
            assert_eq!(
                ChunkLine::new(size).text(),
                format!("{size:X}\r\n").as_bytes()
            );
        }
    }
}
