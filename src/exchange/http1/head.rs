//! The head of an answer of HTTP/1: its status, its fields, and how the end of its body is found.
//!
//! Heads are read as Pingora 0.9.1 reads them. In doubt this module is stricter: a connection is
//! not used again if two readers could disagree on where its answer ended. Pure.

use http::StatusCode;
use httparse::{Header, ParserConfig, Response, Status};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most fields of a head. A head with more is no answer.
const FIELDS: usize = 256;

/// The head of an answer.
#[derive(Debug)]
pub struct AnswerHead {
    /// The status.
    pub status: StatusCode,
    /// How the end of the body is found.
    pub(super) framing: BodyFraming,
    /// True if another request may follow on the connection.
    pub(super) keeps: bool,
    /// The names, in lower case, and the values, one after the other.
    text: Vec<u8>,
    fields: Vec<FieldRange>,
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    /// The body has so many bytes.
    Length(u64),
    /// The body comes in chunks.
    Chunked,
    /// The body ends with the connection.
    UntilClose,
}

/// The place of a field in the text of its head.
#[derive(Debug)]
struct FieldRange {
    name: Range<usize>,
    value: Range<usize>,
}

/// The error for bytes that are no head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoHead;

impl AnswerHead {
    /// Reads the head at the beginning of these bytes, and returns its length, too. Returns `None`
    /// if its end has not come yet.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(AnswerHead, usize)>, NoHead> {
        let clear = Self::parse(bytes, &ParserConfig::default(), true);
        clear.or_else(|NoHead| {
            let mut lax = ParserConfig::default();
            lax.allow_spaces_after_header_name_in_responses(true);
            lax.allow_obsolete_multiline_headers_in_responses(true);
            Self::parse(bytes, &lax, false)
        })
    }

    /// Reads a head. `is_clear` says that no reader could see other fields in it.
    fn parse(
        bytes: &[u8],
        config: &ParserConfig,
        is_clear: bool,
    ) -> Result<Option<(AnswerHead, usize)>, NoHead> {
        let mut places = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS];
        let mut response = Response::new(&mut []);
        let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut places);
        let Status::Complete(length) = parsed.map_err(|_| NoHead)? else {
            return Ok(None);
        };
        let status = response
            .code
            .and_then(|code| StatusCode::from_u16(code).ok())
            .ok_or(NoHead)?;
        let room = response
            .headers
            .iter()
            .map(|field| field.name.len() + field.value.len())
            .sum();
        let mut head = AnswerHead {
            status,
            framing: BodyFraming::UntilClose,
            keeps: false,
            text: Vec::with_capacity(room),
            fields: Vec::with_capacity(response.headers.len()),
        };
        response.headers.iter().for_each(|field| head.push(field));
        head.frame(response.version == Some(1))?;
        head.keeps &= is_clear;
        Ok(Some((head, length)))
    }

    fn push(&mut self, field: &Header<'_>) {
        let name = self.text.len();
        self.text.extend_from_slice(field.name.as_bytes());
        self.text
            .get_mut(name..)
            .unwrap_or_default()
            .make_ascii_lowercase();
        let value = self.text.len();
        if memchr::memchr(b'\n', field.value).is_none() {
            self.text.extend_from_slice(field.value);
        } else {
            // The value goes on over several lines. They count as one, with spaces between.
            self.text.extend(field.value.iter().map(|byte| {
                if matches!(byte, b'\r' | b'\n') {
                    b' '
                } else {
                    *byte
                }
            }));
        }
        self.fields.push(FieldRange {
            name: name..value,
            value: value..self.text.len(),
        });
    }

    /// Finds out how the body's end is found, and whether the connection may be used again.
    fn frame(&mut self, is_http_1_1: bool) -> Result<(), NoHead> {
        let (mut length, mut encodings, mut last_encoding) = (None, 0, None);
        let (mut closes, mut keeps) = (false, None);
        for (name, value) in self.iter() {
            match name {
                b"content-length" => length = Some(one_length(length, value)),
                b"transfer-encoding" => (encodings, last_encoding) = (encodings + 1, Some(value)),
                b"connection" => {
                    let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                    closes |= tokens.any(|token| token.eq_ignore_ascii_case(b"close"));
                    keeps = Some(keeps != Some(false) && value.eq_ignore_ascii_case(b"keep-alive"));
                }
                _ => {}
            }
        }
        // HTTP/1.0 keeps a connection only if it says so, and nothing else.
        let keeps = !closes && (is_http_1_1 || keeps == Some(true));
        let has_length = length.is_some();
        let has_body = !matches!(length, None | Some(Some(0)));
        (self.framing, self.keeps) = match last_encoding {
            Some(encoding) if is_last_chunked(encoding) => {
                // With a length besides, or with more encodings, others may see another end.
                let is_plain =
                    encodings == 1 && !has_length && encoding.eq_ignore_ascii_case(b"chunked");
                (BodyFraming::Chunked, keeps && is_plain && is_http_1_1)
            }
            Some(_) => (BodyFraming::UntilClose, false),
            None => match length {
                Some(length) => (BodyFraming::Length(length.ok_or(NoHead)?), keeps),
                None => (BodyFraming::UntilClose, false),
            },
        };
        if matches!(
            self.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            // A body that these may not have would be taken for the next answer.
            (self.framing, self.keeps) =
                (BodyFraming::Length(0), keeps && encodings == 0 && !has_body);
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| self.text.get(range.clone()).unwrap_or_default();
        self.fields
            .iter()
            .map(move |field| (part(&field.name), part(&field.value)))
    }

    /// Returns the value of the first field with this name, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|(other, _)| *other == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// Returns the names of all fields, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns whether this stands in a name or in a value.
    pub fn mentions(&self, part: &[u8]) -> bool {
        memchr::memmem::find(&self.text, part).is_some()
    }
}

/// Returns the length in a field, if it is a number, and equal to that in the fields before it.
fn one_length(before: Option<Option<u64>>, value: &[u8]) -> Option<u64> {
    let mut known = before;
    for number in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        let length = parse_length(number)?;
        if known.is_some_and(|known| known != Some(length)) {
            return None;
        }
        known = Some(Some(length));
    }
    known.flatten()
}

/// Reads a number of digits only: no sign, and nothing that overflows.
fn parse_length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn is_last_chunked(encodings: &[u8]) -> bool {
    let last = encodings
        .rsplit(|byte| *byte == b',')
        .next()
        .unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}
