//! A check looks at a request's headers. It refuses headers that no caller may send, or reads what
//! the caller asks for in a header of ours.

use super::connection;
use crate::base::units::Span;
use crate::error::{FailureKind, Refusal};
use dialects::front::Front;
use http::{HeaderMap, HeaderName, Method, header};
use pingora::http::RequestHeader;
use pingora_proxy::Session;
use std::time::Duration;

static SESSION: HeaderName = HeaderName::from_static("x-portcullis-session");
static TIMEOUT: HeaderName = HeaderName::from_static("x-portcullis-timeout");

/// Returns whether a browser asks for something to look at.
pub(super) fn wants_page(request: &RequestHeader) -> bool {
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    let mut accepted = request.headers.get_all(header::ACCEPT).iter();
    is_read
        && accepted.any(|value| {
            let value = value.to_str();
            value.is_ok_and(|value| value.contains("text/html"))
        })
}

/// Refuses a target, or headers together with the target, that have more bytes than this.
pub(super) fn check_sizes(session: &Session, max_bytes: usize) -> Result<(), Refusal> {
    let header = session.req_header();
    let target = header
        .uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    let size: usize = header
        .headers
        .iter()
        .map(|(n, v)| n.as_str().len() + v.len() + 4)
        .sum();
    if target > max_bytes {
        let message =
            format!("The request's path and query are longer than the limit of {max_bytes} bytes.");
        return Err(Refusal::new(FailureKind::TargetTooLong, message));
    }
    if size + target > max_bytes {
        let message =
            format!("The request's headers are larger than the limit of {max_bytes} bytes.");
        return Err(Refusal::new(FailureKind::HeadersTooLarge, message));
    }
    Ok(())
}

/// Refuses a body in another transfer coding than chunks: the body's packed bytes would be taken
/// for the body itself.
pub(super) fn check_coding(session: &mut Session) -> Result<(), Refusal> {
    let headers = &session.req_header().headers;
    if !headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(());
    }
    let lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings: Vec<&str> = lines
        .flat_map(|line| line.to_str().unwrap_or("?").split(','))
        .map(str::trim)
        .collect();
    let is = |coding: &str, name: &str| coding.eq_ignore_ascii_case(name);
    let chunked = codings
        .iter()
        .filter(|coding| is(coding, "chunked"))
        .count();
    // A body in chunks twice has two ends (RFC 9112, 6.1).
    if chunked <= 1
        && codings
            .iter()
            .all(|coding| coding.is_empty() || is(coding, "identity") || is(coding, "chunked"))
    {
        return Ok(());
    }
    // A proxy before us may see another end of the body.
    connection::end_after_answer(session);
    let message = "The header `transfer-encoding` may only be `chunked`, written once: send the body without compression.";
    Err(Refusal::new(FailureKind::UnknownCoding, message).without_retry())
}

/// Refuses a `connection` header that lets a hop remove headers which decide who sends the request,
/// and what it asks for.
pub(super) fn check_connection(session: &Session) -> Result<(), Refusal> {
    const PROTECTED: [&str; 8] = [
        "authorization",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
    ];
    let named = session.req_header().headers.get_all(header::CONNECTION);
    let named = named
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .map(str::trim);
    match named
        .into_iter()
        .find_map(|n| PROTECTED.iter().find(|p| p.eq_ignore_ascii_case(n)))
    {
        Some(name) => {
            let message = format!("The header `connection` must not name `{name}`.");
            Err(Refusal::new(
                FailureKind::BadRequest { code: None },
                message,
            ))
        }
        None => Ok(()),
    }
}

/// Returns the caller's own name for the conversation. An empty name is none.
pub fn conversation_name<'h>(headers: &'h HeaderMap, front: &Front) -> Option<&'h [u8]> {
    let others = front
        .extras
        .session_headers
        .iter()
        .filter_map(|name| headers.get(*name));
    let mut sessions = headers
        .get(&SESSION)
        .into_iter()
        .chain(others)
        .map(|value| value.as_bytes());
    sessions.find(|session| !session.is_empty())
}

/// Returns the longest time for all attempts together, from the caller's header.
pub fn request_timeout(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let mut values = headers.get_all(&TIMEOUT).iter();
    let (Some(value), another) = (values.next(), values.next()) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim();
    let seconds = text.parse::<f64>().ok();
    let span = seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .or_else(|| text.parse::<Span>().ok().map(|Span(span)| span))
        .filter(|span| *span >= Duration::from_millis(1) && another.is_none());
    span.map(Some).ok_or_else(|| {
        let message = format!(
            "The header `{TIMEOUT}` must be sent once, with a number of seconds or a time such as 1500ms or 30s, at least 1ms."
        );
        Refusal::new(FailureKind::BadRequest { code: Some("invalid_value") }, message).param(TIMEOUT.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_millisecond_or_more() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT.clone(), text.parse().expect("a value"));
            request_timeout(&headers).ok().flatten()
        };
        for (text, milliseconds) in [("0.001", 1), ("1ms", 1), ("2.5", 2_500), ("30s", 30_000)] {
            assert_eq!(
                read(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["0", "0.0009", "1e-9", "0.0000001", "0ms", "-1", "soon", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
