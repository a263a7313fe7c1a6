//! A plain head is the head of a request of HTTP/1.1 that all readers read in one way, and whose
//! body has a length or is empty. Ours reads plain heads. All others are Pingora's to read, with
//! the same bytes: this module refuses nothing, and decides only who reads.
//!
//! It uses the parser that Pingora 0.9.1 uses, and takes less than Pingora does. What it takes,
//! Pingora reads as the same request with the same end. The fuzz target `heads` says so. These are
//! not plain:
//!
//! * what is no HTTP/1.1: other versions, the preface of HTTP/2, bytes that are no head;
//! * a body in chunks or in any other coding, `expect`, and `upgrade`;
//! * a length that is no number of at most 18 digits, or that stands there twice;
//! * a `host` that is missing, empty, there twice, or has bytes that no host and port have;
//! * a `connection` that is there twice, or says anything but `close` or `keep-alive`;
//! * a method that no door knows, and CONNECT;
//! * a target in another form than a path and a query, one that begins with two slashes, and one
//!   with bytes that RFC 3986 wants encoded;
//! * a bare line feed, and empty lines before the head;
//! * more than 64 fields, and more than 16 KiB. (Pingora reads 256, and 1 MiB.)
//!
//! Pure.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use httparse::{Header, ParserConfig, Request, Status};
use std::mem::MaybeUninit;

/// The most bytes of a plain head.
pub const LARGEST: usize = 16 * 1024;
/// The most fields of a plain head.
const FIELDS: usize = 64;
/// The most digits of a length: no number of them overflows.
const DIGITS: usize = 18;

/// The methods of plain heads.
const METHODS: [Method; 7] = [
    Method::POST,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::DELETE,
    Method::PUT,
    Method::PATCH,
];

/// What the bytes at the beginning of a request are.
#[derive(Debug)]
pub enum HeadRead {
    /// A whole plain head.
    Plain(PlainHead),
    /// The beginning of a head that may be plain.
    Partial,
    /// No plain head, whatever follows.
    Other,
}

/// A plain head, but for its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct PlainHead {
    /// The method.
    pub method: Method,
    /// The target: a path, and perhaps a query.
    pub uri: Uri,
    /// The bytes of the head.
    pub length: usize,
    /// The bytes of the body.
    pub body: u64,
    /// True if another request may follow on the connection.
    pub keeps: bool,
}

/// Reads the head at the beginning of these bytes. Its fields take the place of those in the map,
/// whose memory is used again.
pub fn read_head(bytes: &[u8], fields: &mut HeaderMap) -> HeadRead {
    fields.clear();
    let mut places = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS];
    let mut request = Request::new(&mut []);
    let config = ParserConfig::default();
    let parsed = config.parse_request_with_uninit_headers(&mut request, bytes, &mut places);
    match parsed {
        Ok(Status::Complete(length)) => bytes
            .get(..length)
            .and_then(|text| plain_head(text, &request, fields))
            .map_or(HeadRead::Other, HeadRead::Plain),
        Ok(Status::Partial) if bytes.len() < LARGEST => HeadRead::Partial,
        Ok(Status::Partial) | Err(_) => HeadRead::Other,
    }
}

/// Returns the parsed head if it is plain.
fn plain_head(text: &[u8], request: &Request<'_, '_>, fields: &mut HeaderMap) -> Option<PlainHead> {
    if text.len() > LARGEST || request.version != Some(1) || !has_plain_lines(text) {
        return None;
    }
    let name = request.method?;
    let method = METHODS.iter().find(|method| method.as_str() == name)?;
    let target = request.path?.as_bytes();
    if !is_plain_target(target) {
        return None;
    }
    // All values share this memory.
    let shared = Bytes::copy_from_slice(text);
    let uri = PathAndQuery::from_maybe_shared(shared_part(&shared, text, target)?).ok()?;
    let (mut host, mut body, mut keeps) = (None, None, None);
    for field in request.headers.iter() {
        let (name, value) = (
            HeaderName::from_bytes(field.name.as_bytes()).ok()?,
            field.value,
        );
        let is_first = match &name {
            &TRANSFER_ENCODING | &EXPECT | &UPGRADE => false,
            &HOST => is_plain_host(value) && host.replace(()).is_none(),
            &CONTENT_LENGTH => body.replace(parse_length(value)?).is_none(),
            &CONNECTION => keeps.replace(parse_connection(value)?).is_none(),
            _ => true,
        };
        if !is_first {
            return None;
        }
        let value = HeaderValue::from_maybe_shared(shared_part(&shared, text, value)?).ok()?;
        fields.try_append(name, value).ok()?;
    }
    host.map(|()| PlainHead {
        method: method.clone(),
        uri: Uri::from(uri),
        length: text.len(),
        body: body.unwrap_or(0),
        keeps: keeps.unwrap_or(true),
    })
}

/// Returns the part of the shared bytes that is where `part` is in `text`.
fn shared_part(shared: &Bytes, text: &[u8], part: &[u8]) -> Option<Bytes> {
    if part.is_empty() {
        return Some(Bytes::new());
    }
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let end = start + part.len();
    (end <= shared.len()).then(|| shared.slice(start..end))
}

/// Returns whether the head begins with its first line, and each line ends with CR LF.
fn has_plain_lines(text: &[u8]) -> bool {
    !text.starts_with(b"\r")
        && memchr::memchr_iter(b'\n', text).all(|end| {
            let before = end.checked_sub(1).and_then(|before| text.get(before));
            before == Some(&b'\r')
        })
}

/// Returns whether the target is a path and a query as RFC 3986 has them.
fn is_plain_target(target: &[u8]) -> bool {
    let mut rest = target;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'%', [one, two, after @ ..])
                if one.is_ascii_hexdigit() && two.is_ascii_hexdigit() =>
            {
                after
            }
            (b'/' | b'?', _) => after,
            (byte, _) if is_plain_byte(*byte) => after,
            _ => return false,
        };
    }
    target.starts_with(b"/") && !target.starts_with(b"//")
}

/// Returns whether the value has only bytes that a host and a port may have.
fn is_plain_host(value: &[u8]) -> bool {
    !value.is_empty()
        && value.iter().all(|byte| match byte {
            b'[' | b']' => true,
            b'@' => false,
            byte => is_plain_byte(*byte),
        })
}

/// Returns whether RFC 3986 lets this byte stand for itself in a part of a path.
fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}

/// Reads a number of digits only.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > DIGITS {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + u64::from(byte - b'0'))
    })
}

/// Returns whether another request may follow, if the value is one that says it and nothing else.
fn parse_connection(value: &[u8]) -> Option<bool> {
    if value.eq_ignore_ascii_case(b"keep-alive") {
        return Some(true);
    }
    value.eq_ignore_ascii_case(b"close").then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "POST /v1/chat/completions?a=b%20c HTTP/1.1\r\nHost: a.test:8080\r\nx-a: \r\nContent-Length: 12\r\nx-a:  b c \r\n\r\n";

    fn read(text: &str) -> HeadRead {
        read_head(text.as_bytes(), &mut HeaderMap::new())
    }

    /// A head with this first line, and these lines beside its host.
    fn is_plain(line: &str, lines: &str) -> bool {
        let text = format!("{line}\r\nhost: a\r\n{lines}\r\n");
        matches!(read(&text), HeadRead::Plain(head) if head.length == text.len())
    }

    #[test]
    fn a_plain_head_is_read_whole() {
        let mut fields = HeaderMap::new();
        fields.insert("x-old", HeaderValue::from_static("gone"));
        let text = format!("{PLAIN}and a body");
        let HeadRead::Plain(head) = read_head(text.as_bytes(), &mut fields) else {
            panic!("it is plain");
        };
        let expected = PlainHead {
            method: Method::POST,
            uri: Uri::from_static("/v1/chat/completions?a=b%20c"),
            length: PLAIN.len(),
            body: 12,
            keeps: true,
        };
        assert_eq!(head, expected);
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        let expected = [
            ("host", "a.test:8080"),
            ("x-a", ""),
            ("x-a", "b c"),
            ("content-length", "12"),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_head_is_partial_until_its_last_byte() {
        for end in 0..PLAIN.len() {
            assert!(matches!(read(&PLAIN[..end]), HeadRead::Partial), "{end}");
        }
        let line = "GET / HTTP/1.1\r\nhost: a\r\nx: ";
        let value = "y".repeat(LARGEST - line.len());
        assert!(matches!(read(&format!("{line}{value}")), HeadRead::Other));
        assert!(matches!(
            read(&format!("{line}{}", &value[1..])),
            HeadRead::Partial
        ));
    }

    #[test]
    fn what_is_not_plain_is_not_ours() {
        let get = "GET /v1/models HTTP/1.1";
        for lines in [
            "content-length: 0\r\n",
            "content-length: 999999999999999999\r\n",
            "connection: Close\r\n",
            "connection: keep-alive\r\n",
            "te: trailers\r\n",
            "x: \u{e4}\r\n",
            "x:\ta\tb\r\n",
            &"x: y\r\n".repeat(FIELDS - 1),
        ] {
            assert!(is_plain(get, lines), "{lines:?}");
        }
        for lines in [
            "content-length: 5\r\ncontent-length: 5\r\n",
            "content-length: 5, 5\r\n",
            "content-length: +5\r\n",
            "content-length: -5\r\n",
            "content-length: \r\n",
            "content-length: 0x5\r\n",
            "content-length: 5 5\r\n",
            "content-length: 1000000000000000000\r\n",
            "transfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding:\r\n",
            "expect: 100-continue\r\n",
            "upgrade: websocket\r\n",
            "connection: upgrade\r\n",
            "connection: keep-alive, x-a\r\n",
            "connection: close\r\nconnection: close\r\n",
            "connection:\r\n",
            "host: a\r\n",
            "x: a\nx: b\r\n",
            "x : a\r\n",
            "x: a\r\n b\r\n",
            "x: a\rb\r\n",
            "x: a\0b\r\n",
            "x\r\n",
            &"x: y\r\n".repeat(FIELDS),
        ] {
            assert!(!is_plain(get, lines), "{lines:?}");
        }
        for line in [
            "GET / HTTP/1.0",
            "GET / HTTP/1.2",
            "GET / HTTP/2.0",
            "PRI * HTTP/2.0",
            "GET /",
            "get / HTTP/1.1",
            "CONNECT a:443 HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "TRACE / HTTP/1.1",
            "GET http://a/ HTTP/1.1",
            "GET //a/ HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET  / HTTP/1.1",
            "GET /\\a HTTP/1.1",
            "GET /a#b HTTP/1.1",
            "GET /a% HTTP/1.1",
            "GET /a%2 HTTP/1.1",
            "GET /a%zz HTTP/1.1",
            "GET /a\" HTTP/1.1",
            "GET /{a} HTTP/1.1",
            "GET /\u{e4} HTTP/1.1",
            "GET a HTTP/1.1",
            "\r\nGET / HTTP/1.1",
            "\nGET / HTTP/1.1",
            " GET / HTTP/1.1",
        ] {
            assert!(!is_plain(line, ""), "{line:?}");
        }
        for host in [
            "host: \r\n",
            "",
            "host: a@b\r\n",
            "host: a b\r\n",
            "host: a/b\r\n",
        ] {
            let text = format!("{get}\r\n{host}\r\n");
            assert!(matches!(read(&text), HeadRead::Other), "{host:?}");
        }
        assert!(matches!(read("\x16\x03\x01\x02\0\r\n"), HeadRead::Other));
    }

    #[test]
    fn only_close_ends_a_connection() {
        for (lines, keeps) in [
            ("", true),
            ("connection: Keep-Alive\r\n", true),
            ("connection: CLOSE\r\n", false),
        ] {
            let text = format!("GET / HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
            assert!(matches!(read(&text), HeadRead::Plain(head) if head.keeps == keeps));
        }
    }
}
