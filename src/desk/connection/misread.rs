//! A misread head is a head of HTTP/1 that Pingora's parser refuses, so that there is no request.
//! This module finds out from the head's bytes what is wrong, and writes the answer.
//!
//! Pingora answers all such heads with an empty 400, and gives no reason. A good head costs no more
//! than the copy of its first bytes. Pure.

use crate::error::{FailureKind, Refusal};
use http::StatusCode;
use std::time::SystemTime;

/// The number of a head's bytes that are kept. Most heads are shorter.
const KEPT: usize = 4096;
/// The most header fields that Pingora reads.
const FIELDS: usize = 256;
/// The most bytes of a head that Pingora reads.
const LARGEST: usize = 1_048_575;
/// The longest target that the library for URIs takes.
const LONGEST_TARGET: usize = 65_534;
/// The length of what follows the target in the first line.
const VERSION: usize = " HTTP/1.1\r".len();

/// The bytes of a head, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct HeadBytes {
    /// The beginning of the head.
    first_bytes: Vec<u8>,
    /// The number of bytes that came after it.
    later_bytes: usize,
    /// The number of lines in those bytes.
    later_lines: usize,
    /// The number of those bytes that belong to the first line.
    later_target_bytes: usize,
}

impl HeadBytes {
    /// Forgets the head, since another one begins. The memory stays allocated.
    pub(super) fn clear(&mut self) {
        self.first_bytes.clear();
        (self.later_bytes, self.later_lines, self.later_target_bytes) = (0, 0, 0);
    }

    /// Adds bytes that were read.
    pub(super) fn note(&mut self, bytes: &[u8]) {
        let mut more = bytes;
        if self.first_bytes.is_empty() {
            let kept;
            (kept, more) = bytes.split_at(bytes.len().min(KEPT));
            self.first_bytes.extend_from_slice(kept);
        }
        if !more.is_empty() {
            self.count(more);
        }
    }

    /// Counts bytes that are not kept. Most heads are there at once, and have no such bytes.
    fn count(&mut self, bytes: &[u8]) {
        if self.later_lines == 0 && !self.start().contains(&b'\n') {
            self.later_target_bytes += memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
        }
        self.later_bytes += bytes.len();
        self.later_lines += count_lines(bytes);
    }

    /// Returns the kept bytes, without the empty lines that may come before a head.
    fn start(&self) -> &[u8] {
        let first = self
            .first_bytes
            .iter()
            .position(|byte| !matches!(byte, b'\r' | b'\n'))
            .unwrap_or(self.first_bytes.len());
        self.first_bytes.get(first..).unwrap_or_default()
    }

    /// Returns the first line, as far as it is kept.
    fn line(&self) -> &[u8] {
        self.start()
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default()
    }

    /// Returns the method and the path, or empty texts if the first line has none.
    pub(super) fn method_and_path(&self) -> (&str, &str) {
        let line = std::str::from_utf8(self.line()).unwrap_or_default();
        let mut words = line.split(' ');
        let (method, target) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let is_method = (1..=16).contains(&method.len())
            && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if is_method && target.starts_with('/') {
            (method, target.split('?').next().unwrap_or_default())
        } else {
            ("", "")
        }
    }

    /// Returns the refusal that says what is wrong with the head.
    pub(super) fn fault(&self) -> Refusal {
        let line = self.line().len() + self.later_target_bytes;
        let target = line.saturating_sub(
            self.line()
                .iter()
                .position(|byte| *byte == b' ')
                .map_or(0, |space| space + 1)
                + VERSION,
        );
        if target > LONGEST_TARGET {
            let message =
                format!("The request's path and query are longer than {LONGEST_TARGET} bytes.");
            return Refusal::new(FailureKind::TargetTooLong, message);
        }
        if count_lines(self.start()) + self.later_lines > FIELDS + 1 {
            return Refusal::new(
                FailureKind::HeadersTooLarge,
                format!("The request has more than {FIELDS} header fields."),
            );
        }
        if self.first_bytes.len() + self.later_bytes > LARGEST {
            return Refusal::new(
                FailureKind::HeadersTooLarge,
                "The request's headers are larger than 1 MiB.",
            );
        }
        let message = "The request's head is not valid HTTP/1.1, or it gives the length of the body twice: check its \
                       first line, and its headers `host`, `content-length` and `transfer-encoding`.";
        Refusal::new(FailureKind::BadRequest { code: None }, message)
    }
}

/// Counts the lines up to the end of the head.
fn count_lines(bytes: &[u8]) -> usize {
    let ends = [
        memchr::memmem::find(bytes, b"\r\n\r\n").map(|offset| offset + 2),
        memchr::memmem::find(bytes, b"\n\n").map(|offset| offset + 1),
    ];
    let end = ends.into_iter().flatten().min().unwrap_or(bytes.len());
    memchr::memchr_iter(b'\n', bytes.get(..end).unwrap_or_default()).count()
}

/// Returns the bytes of the answer to such a head. The connection closes after it. If the answer is
/// `bare`, it has no body.
pub(super) fn write_answer(
    status: u16,
    request_id: &str,
    body: &[u8],
    bare: bool,
    now: SystemTime,
) -> Vec<u8> {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    let mut answer = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-request-id: {request_id}\r\ndate: {}\r\n\
         connection: close\r\n\r\n",
        body.len(),
        httpdate::fmt_http_date(now)
    )
    .into_bytes();
    if !bare {
        answer.extend_from_slice(body);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use dialects::front::CHAT;
    use proptest::prelude::*;

    fn seen(reads: &[&[u8]]) -> HeadBytes {
        let mut seen = HeadBytes::default();
        for read in reads {
            seen.note(read);
        }
        seen
    }

    fn head(line: &str, fields: usize) -> Vec<u8> {
        format!("{line}\r\n{}\r\n", "x: y\r\n".repeat(fields)).into_bytes()
    }

    fn status(head: &[u8]) -> u16 {
        seen(&[head]).fault().kind.row().status
    }

    #[test]
    fn what_is_wrong_is_told_as_what_it_is() {
        assert_eq!(status(&head("GET /v1/models HTTP/1.1", 256)), 400);
        assert_eq!(status(&head("GET /v1/models HTTP/1.1", 257)), 431);
        assert_eq!(
            status(&head("\r\n\r\nGET /v1/models HTTP/1.1", 256)),
            400,
            "empty lines before it are none of its fields"
        );
        assert_eq!(status("GET / HTTP/1.1\nx: y\n\n".as_bytes()), 400);
        let body = [head("POST / HTTP/1.1", 9), b"{\n".repeat(400)].concat();
        assert_eq!(status(&body), 400, "a body's lines are none of it");
        assert_eq!(
            status(&head(&format!("GET /{} HTTP/1.1", "a".repeat(65_533)), 3)),
            400
        );
        assert_eq!(
            status(&head(&format!("GET /{} HTTP/1.1", "a".repeat(65_534)), 3)),
            414
        );
        assert_eq!(status(&"a".repeat(2_000_000).into_bytes()), 414);
        assert_eq!(
            status(&[b"GET / HTTP/1.1\r\nx: ".as_slice(), &b"y".repeat(2_000_000)].concat()),
            431
        );
        assert_eq!(status(b"\x16\x03\x01\x02\0"), 400);
        assert_eq!(status(b""), 400);
    }

    #[test]
    fn another_head_is_told_by_itself() {
        let mut seen = seen(&[&head("GET / HTTP/1.1", 999)]);
        seen.clear();
        seen.note(&head("GET /v1/models?q=1 HTTP/1.1", 2));
        assert_eq!(
            (seen.fault().kind.row().status, seen.method_and_path()),
            (400, ("GET", "/v1/models"))
        );
    }

    #[test]
    fn asked_things_are_shown_only_where_true() {
        let check = |line: &str, expected: (&str, &str)| {
            assert_eq!(
                seen(&[line.as_bytes()]).method_and_path(),
                expected,
                "{line}"
            )
        };
        check(
            "POST /v1/chat/completions?key=s3cret HTTP/1.1\r\nx",
            ("POST", "/v1/chat/completions"),
        );
        check("\r\nGET / HTTP/1.1", ("GET", "/"));
        for line in [
            "",
            "GET",
            "get / HTTP/1.1",
            "GET http://a/b HTTP/1.1",
            "\x16\x03\x01",
            "G\0T / HTTP/1.1",
            "AVERYVERYLONGMETHOD / HTTP/1.1",
        ] {
            check(line, ("", ""));
        }
    }

    #[test]
    fn an_answer_is_whole() {
        let refusal = seen(&[b"\x16"]).fault();
        let answer = |bare| {
            let error = refusal.body(&CHAT, "id-1");
            super::write_answer(
                refusal.kind.row().status,
                "id-1",
                &error,
                bare,
                SystemTime::UNIX_EPOCH,
            )
        };
        assert!(answer(true).ends_with(b"\r\n\r\n"));
        let answer = String::from_utf8(answer(false)).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.starts_with("HTTP/1.1 400 Bad Request\r\n")
                && head.contains("x-request-id: id-1\r\n"),
            "{head}"
        );
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len()))
                && head.ends_with("connection: close"),
            "{head}"
        );
        assert_eq!(body.as_bytes(), refusal.body(&CHAT, "id-1"));
    }

    proptest! {
        /// However the bytes come, a head without a body is told as the same, but where its end
        /// itself is cut in two.
        #[test]
        fn the_split_makes_no_difference(fields in 200_usize..320, target in 1_usize..200, cut in 1_usize..4000) {
            let head = head(&format!("GET /{} HTTP/1.1", "a".repeat(target)), fields);
            let (one, two) = head.split_at(cut.min(head.len() - 8));
            prop_assert_eq!(seen(&[one, two]).fault(), seen(&[&head]).fault());
        }

        /// Nothing that comes makes it fail.
        #[test]
        fn anything_may_come(reads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..5)) {
            let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
            let seen = seen(&reads);
            let (_, path) = seen.method_and_path();
            prop_assert!(path.is_empty() || path.starts_with('/'));
            prop_assert!([400, 414, 431].contains(&seen.fault().kind.row().status));
        }
    }
}
