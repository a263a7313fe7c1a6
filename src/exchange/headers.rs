//! The headers of an answer, whatever it came over.

use super::http1::AnswerHead;
use http::HeaderMap;

/// The headers of an answer. Names are given in lower case.
#[derive(Clone, Copy)]
pub enum AnswerHeaders<'a> {
    /// Those of HTTP/1.
    Http1(&'a AnswerHead),
    /// Those of HTTP/2 and of the demo.
    Map(&'a HeaderMap),
}

impl<'a> AnswerHeaders<'a> {
    /// Returns the value of the first header with this name.
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        match self {
            AnswerHeaders::Http1(head) => head.get(name),
            AnswerHeaders::Map(headers) => headers.get(name).map(|value| value.as_bytes()),
        }
    }

    /// Returns the value of the first header with this name, if it is plain ASCII.
    pub fn text(self, name: &str) -> Option<&'a str> {
        let is_plain = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
        let value = self.get(name).filter(|value| value.iter().all(is_plain))?;
        std::str::from_utf8(value).ok()
    }

    /// Returns whether any header may have a quota.
    pub fn have_quotas(self) -> bool {
        const PART: &[u8] = b"ratelimit";
        match self {
            AnswerHeaders::Http1(head) => head.mentions(PART),
            AnswerHeaders::Map(headers) => headers
                .keys()
                .any(|name| memchr::memmem::find(name.as_str().as_bytes(), PART).is_some()),
        }
    }
}
