//! `POST /try` is a chat completion of the operator's own, with a caller's key. It is passed on to
//! the callers' door within the process, from the browser's address, and is a request like any
//! other: keys, limits, ledger, metrics and drain know no difference.
//!
//! The answer streams through as it comes. It ends with the gateway's own deadlines, or when the
//! browser leaves.

use super::{ANSWER_TIMEOUT, FullPage, GUARDS, PLAIN, Page, Pages};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v1::client::HttpSession;
use pingora::server::ShutdownWatch;
use std::net::SocketAddr;

/// The most tries at once.
pub(super) const MAX_TRIES: usize = 4;
/// The header that has the caller's secret. `Authorization` may have the listener's own key.
const KEY: &str = "x-portcullis-key";
/// The path of a try at the callers' door.
const PATH: &[u8] = b"/v1/chat/completions";
/// The headers of a request that the callers' door gets.
const PASSED: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-portcullis-session"),
    HeaderName::from_static("x-portcullis-timeout"),
    HeaderName::from_static("x-request-id"),
];

impl Pages {
    /// Passes a request on, and its answer back. Returns an answer of the listener's own instead if
    /// nothing was passed on.
    pub(super) async fn relay(
        &self,
        session: &mut ServerSession,
        from: SocketAddr,
        shutdown: &ShutdownWatch,
    ) -> pingora::Result<Option<FullPage>> {
        let page = |status, message: &str| (status, PLAIN, format!("{message}\n"));
        let refused = |status, message: &str| Ok(Some(page(status, message).into()));
        let Ok(_permit) = self.try_permits.try_acquire() else {
            let message = format!("{MAX_TRIES} tries run already: wait until one has ended");
            let headers = vec![("retry-after", "1".to_owned())];
            return Ok(Some(FullPage {
                page: (429, PLAIN, message + "\n"),
                headers,
                permit: None,
            }));
        };
        let Some(request) = door_request(
            session.req_header(),
            self.backends.server.admin.key.is_some(),
        ) else {
            return refused(
                400,
                "write the secret of a caller's key into the header `x-portcullis-key`",
            );
        };
        let Some(door) = &self.door else {
            return refused(404, "there is no callers' door within this process");
        };
        if !self.books.drain.takes_new() {
            return refused(503, "the gateway is shutting down");
        }
        let _relaying = self.books.drain.relay();
        let Some(stream) = door.connect(from, shutdown) else {
            return refused(503, "the gateway does not serve callers yet: try again");
        };
        let timeouts = self.backends.server.timeouts;
        session.set_read_timeout(Some(timeouts.client_read));
        session.set_write_timeout(Some(timeouts.client_write));
        let mut door = HttpSession::new(stream);
        if send_request(session, &mut door, request).await.is_err() {
            return refused(
                502,
                "the callers' door closed the connection without an answer: try again",
            );
        }
        let Some(head) = door.resp_header() else {
            return Ok(None);
        };
        session
            .write_response_header(Box::new(browser_head(head)?))
            .await?;
        loop {
            tokio::select! {
                piece = door.read_body_bytes() => match piece? {
                    Some(piece) => session.write_response_body(piece, false).await?,
                    None => break,
                },
                why = wait_until_left(session) => return Err(why),
            }
        }
        session.write_response_body(Bytes::new(), true).await?;
        Ok(None)
    }
}

/// Sends the request, and reads the head of the answer.
async fn send_request(
    session: &mut ServerSession,
    door: &mut HttpSession,
    request: RequestHeader,
) -> pingora::Result<()> {
    door.write_request_header(Box::new(request)).await?;
    if session.req_header().headers.contains_key(header::EXPECT) {
        session.write_continue_response().await?;
    }
    // The door may answer before it has the whole body, and take no more of it.
    loop {
        // A head that comes is one piece: nothing of it is lost if a piece of the body is first.
        let piece = tokio::select! {
            biased;
            piece = session.read_request_body() => piece?,
            head = door.read_response() => {
                head?;
                if door.resp_header().is_some_and(|head| !head.status.is_informational()) {
                    return Ok(());
                }
                continue;
            }
        };
        let Some(piece) = piece else {
            drop(door.finish_body().await);
            break;
        };
        if door.write_body(&piece).await.is_err() {
            break;
        }
    }
    let answered = async {
        loop {
            door.read_response().await?;
            if door
                .resp_header()
                .is_some_and(|head| !head.status.is_informational())
            {
                return Ok(());
            }
        }
    };
    tokio::select! {
        answered = answered => answered,
        why = wait_until_left(session) => Err(why),
    }
}

/// Waits until the browser leaves. More of a request that is answered already is of no use.
async fn wait_until_left(session: &mut ServerSession) -> Box<pingora::Error> {
    loop {
        if let Err(why) = session.read_body_or_idle(false).await {
            return why;
        }
    }
}

/// Reads the body of a request, of `max_bytes` at most.
pub(super) async fn read_body(
    session: &mut ServerSession,
    max_bytes: usize,
) -> Result<Vec<u8>, Page> {
    let length = session
        .get_header(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > max_bytes) {
        return Err(too_large(max_bytes));
    }
    let mut body = Vec::new();
    let gone = |_| (400, PLAIN, "the body did not come to its end\n".to_owned());
    // The answer itself takes some time, too.
    let timeout = ANSWER_TIMEOUT / 2;
    let deadline = tokio::time::Instant::now() + timeout;
    if session.req_header().headers.contains_key(header::EXPECT) {
        session.write_continue_response().await.map_err(gone)?;
    }
    loop {
        let piece = tokio::time::timeout_at(deadline, session.read_request_body())
            .await
            .map_err(|_| {
                let seconds = timeout.as_secs();
                let text = format!("the body did not come within {seconds} s: send it at once\n");
                (408, PLAIN, text)
            })?;
        let Some(piece) = piece.map_err(gone)? else {
            break;
        };
        body.extend_from_slice(&piece);
        if body.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
    }
    Ok(body)
}

fn too_large(max_bytes: usize) -> Page {
    let text = format!("the body is larger than {} KiB\n", max_bytes >> 10);
    (413, PLAIN, text)
}

/// Returns the request for the callers' door. `is_locked` says that `Authorization` has the
/// listener's own key.
fn door_request(header: &RequestHeader, is_locked: bool) -> Option<RequestHeader> {
    let mut request = RequestHeader::build("POST", PATH, Some(PASSED.len() + 3)).ok()?;
    request.insert_header(header::HOST, "localhost").ok()?;
    request.insert_header(header::CONNECTION, "close").ok()?;
    request
        .insert_header(
            header::AUTHORIZATION,
            caller_secret(&header.headers, is_locked)?,
        )
        .ok()?;
    for name in PASSED {
        for value in header.headers.get_all(&name) {
            request.append_header(name.clone(), value).ok()?;
        }
    }
    Some(request)
}

/// Returns the caller's secret, as the callers' door reads it.
fn caller_secret(headers: &HeaderMap, is_locked: bool) -> Option<HeaderValue> {
    let mut value = match headers.get(KEY) {
        Some(key) => HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok()?,
        None => headers
            .get(header::AUTHORIZATION)
            .filter(|_| !is_locked)?
            .clone(),
    };
    value.set_sensitive(true);
    Some(value)
}

/// Returns the head of the answer for the browser.
fn browser_head(head: &ResponseHeader) -> pingora::Result<ResponseHeader> {
    let mut head = head.clone();
    head.remove_header(&header::CONNECTION);
    for (name, value) in GUARDS {
        head.insert_header(name, value)?;
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_secret_is_never_the_listeners_key() {
        let check = |lines: &[(&'static str, &'static str)],
                     is_locked: bool,
                     expected: Option<&str>| {
            let mut header = RequestHeader::build("POST", b"/try?key=x", None).unwrap();
            for (name, value) in lines {
                header.append_header(*name, *value).unwrap();
            }
            let request = door_request(&header, is_locked);
            let sent = request
                .as_ref()
                .map(|request| request.headers[header::AUTHORIZATION].to_str().unwrap());
            assert_eq!(sent, expected, "{lines:?}");
            if let Some(request) = request {
                assert!(request.headers[header::AUTHORIZATION].is_sensitive());
                assert_eq!(request.uri.to_string(), "/v1/chat/completions");
                assert!(
                    !request.headers.contains_key(KEY) && !request.headers.contains_key("cookie")
                );
            }
        };
        let (own, bearer, basic) = (
            (KEY, "sk-a"),
            ("authorization", "Bearer sk-b"),
            ("authorization", "Basic eA=="),
        );
        check(&[], false, None);
        check(&[own], false, Some("Bearer sk-a"));
        check(&[bearer, ("cookie", "a=b")], false, Some("Bearer sk-b"));
        check(&[own, bearer], false, Some("Bearer sk-a"));
        check(&[bearer], true, None);
        check(&[basic], true, None);
        check(&[own, basic], true, Some("Bearer sk-a"));
    }
}
