//! Writing to the caller: heads built from nothing, bodies with their framing, every write with a
//! deadline of ours.
//!
//! An `Err(())` means that the caller cannot be written to any more; nothing must be written after
//! it.

use crate::config::ClientTimeouts;
use crate::door::Door;
use crate::drain::Phase;
use crate::error::{Outcome, Refusal, What};
use crate::exchange::record::Record;
use crate::shared::Shared;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Version};
use pingora::http::ResponseHeader;
use pingora_proxy::Session;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// What is left of a refused request's body is read for so long, so that the caller sees the
/// refusal and not a reset.
const DRAIN_UNREAD: Duration = Duration::from_secs(1);

/// What a head says of how the answer came about.
#[derive(Default)]
pub struct Notes {
    /// The model that answered, if it is another than the one asked for.
    pub model: Option<String>,
    /// The trail of attempts, for keys that may see it.
    pub attempts: Option<String>,
    /// Where the time went, for the same keys.
    pub timing: Option<String>,
    /// What the upstream was not told of the request.
    pub dropped: Option<String>,
    /// Nobody counted the tokens.
    pub estimated: bool,
}

fn noted(head: &mut ResponseHeader, notes: &Notes) -> Result<(), ()> {
    if let Some(model) = &notes.model {
        insert(head, "x-portcullis-model", model)?;
    }
    if let Some(attempts) = &notes.attempts {
        insert(head, "x-portcullis-attempts", attempts)?;
    }
    if let Some(timing) = &notes.timing {
        insert(head, "server-timing", timing)?;
    }
    if let Some(dropped) = &notes.dropped {
        insert(head, "x-portcullis-dropped", dropped)?;
    }
    if notes.estimated {
        insert(head, "x-portcullis-usage", "estimated")?;
    }
    Ok(())
}

/// One write to the caller.
const SLICE: usize = 64 * 1024;
/// What a write has left once everything is being cut.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// A whole answer in JSON.
pub async fn answer(
    session: &mut Session,
    shared: &Shared,
    record: &mut Record,
    body: Bytes,
    notes: &Notes,
) -> Result<(), ()> {
    let mut head = head(session, record, 200)?;
    noted(&mut head, notes)?;
    record.first_byte = Some(record.began.elapsed());
    whole(session, shared, record, head, "application/json", body).await?;
    record.end(Outcome::Ok);
    Ok(())
}

/// Any other whole answer.
pub async fn plain(
    session: &mut Session,
    shared: &Shared,
    record: &mut Record,
    status: u16,
    kind: &'static str,
    body: Bytes,
) -> Result<(), ()> {
    let head = head(session, record, status)?;
    whole(session, shared, record, head, kind, body).await?;
    record.end(Outcome::Ok);
    Ok(())
}

/// The answer to a preflight; the rest of CORS is in every head.
pub async fn preflight(session: &mut Session, shared: &Shared, record: &mut Record, door: &Door) -> Result<(), ()> {
    let mut head = head(session, record, 204)?;
    let methods = if *door == Door::Chat { "POST" } else { "GET" };
    insert(&mut head, "access-control-allow-methods", methods)?;
    // Whatever a page of an allowed origin wants to send: SDKs for browsers have headers of their
    // own (OpenAI's a dozen `x-stainless-…`).
    let wanted = session
        .req_header()
        .headers
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .and_then(|wanted| wanted.to_str().ok());
    insert(&mut head, "access-control-allow-headers", wanted.unwrap_or("authorization, content-type, x-request-id"))?;
    insert(&mut head, "access-control-max-age", "600")?;
    cors(session, shared, &mut head)?;
    keep_or_close(session, shared);
    guard(shared, session.as_downstream_mut().write_response_header(Box::new(head))).await?;
    record.end(Outcome::Ok);
    Ok(())
}

/// A refusal.
pub async fn refusal(session: &mut Session, shared: &Shared, record: &mut Record, refusal: &Refusal) -> Result<(), ()> {
    record.refused(refusal);
    if matches!(refusal.what, What::CallerLeft) {
        return Err(());
    }
    let mut head = head(session, record, refusal.what.row().status)?;
    if let What::MethodNotSupported { allow } = &refusal.what {
        insert(&mut head, "allow", allow)?;
    }
    if refusal.what == What::InvalidKey {
        insert(&mut head, "www-authenticate", "Bearer")?;
    }
    noted(&mut head, &record.notes)?;
    if let Some(seconds) = refusal.retry_after {
        insert(&mut head, "retry-after", &seconds.to_string())?;
    }
    if !refusal.retry_helps {
        insert(&mut head, "x-should-retry", "false")?;
    }
    if refusal.what == What::Internal {
        // What else a panic of ours left behind on this connection, nobody knows.
        session.set_keepalive(None);
    }
    if !session.as_downstream_mut().is_body_done() {
        // Pingora would close at once, and the reset would overtake the answer.
        session.set_close_on_response_before_downstream_finish(false);
        session.set_total_drain_timeout(Some(DRAIN_UNREAD));
    }
    whole(session, shared, record, head, "application/json", refusal.body().into()).await
}

/// The head of a stream.
pub async fn stream_head(session: &mut Session, shared: &Shared, record: &mut Record, notes: &Notes) -> Result<(), ()> {
    let mut head = head(session, record, 200)?;
    insert(&mut head, "content-type", "text/event-stream")?;
    insert(&mut head, "cache-control", "no-cache, no-transform")?;
    insert(&mut head, "x-accel-buffering", "no")?;
    noted(&mut head, notes)?;
    cors(session, shared, &mut head)?;
    keep_or_close(session, shared);
    match session.req_header().version {
        Version::HTTP_11 => insert(&mut head, "transfer-encoding", "chunked")?,
        // HTTP/1.0 knows no chunks: the connection's end is the answer's.
        Version::HTTP_10 | Version::HTTP_09 => session.set_keepalive(None),
        _ => {}
    }
    guard(shared, session.as_downstream_mut().write_response_header(Box::new(head))).await
}

/// Some of a body, in slices: the deadline of a write is for its progress, not for its size.
pub async fn write(
    session: &mut Session,
    shared: &Shared,
    record: &mut Record,
    mut bytes: Bytes,
    end: bool,
) -> Result<(), ()> {
    loop {
        let slice = bytes.split_to(bytes.len().min(SLICE));
        let (length, last) = (slice.len() as u64, bytes.is_empty());
        if end && last {
            record.settle();
        }
        guard(shared, session.as_downstream_mut().write_response_body(slice, end && last)).await?;
        record.bytes_out += length;
        if last {
            return Ok(());
        }
    }
}

async fn whole(
    session: &mut Session,
    shared: &Shared,
    record: &mut Record,
    mut head: ResponseHeader,
    kind: &'static str,
    body: Bytes,
) -> Result<(), ()> {
    insert(&mut head, "content-type", kind)?;
    head.insert_header(header::CONTENT_LENGTH, body.len()).map_err(drop)?;
    cors(session, shared, &mut head)?;
    keep_or_close(session, shared);
    let bodiless = session.req_header().method == Method::HEAD;
    guard(shared, session.as_downstream_mut().write_response_header(Box::new(head))).await?;
    if bodiless {
        return Ok(());
    }
    write(session, shared, record, body, true).await
}

fn head(session: &Session, record: &mut Record, status: u16) -> Result<ResponseHeader, ()> {
    record.status = status;
    // Names are lower-case already, but for those that Pingora writes its own way: to keep how each
    // was written would be a second map.
    let mut head = ResponseHeader::build_no_case(status, Some(16)).map_err(drop)?;
    head.set_version(session.req_header().version);
    insert(&mut head, "x-request-id", &record.request_id)?;
    for (name, value) in record.left.headers() {
        insert(&mut head, name, &value)?;
    }
    Ok(head)
}

fn insert(head: &mut ResponseHeader, name: &'static str, value: &str) -> Result<(), ()> {
    let value = HeaderValue::from_str(value).map_err(drop)?;
    head.insert_header(name, value).map_err(drop)
}

fn cors(session: &Session, shared: &Shared, head: &mut ResponseHeader) -> Result<(), ()> {
    if shared.server.cors.is_empty() {
        return Ok(());
    }
    insert(head, "vary", "origin")?;
    let origin = session.req_header().headers.get(header::ORIGIN).and_then(|o| o.to_str().ok());
    if let Some(origin) = origin.filter(|o| shared.server.cors.iter().any(|allowed| allowed == "*" || allowed == o)) {
        insert(head, "access-control-allow-origin", origin)?;
        insert(
            head,
            "access-control-expose-headers",
            "x-request-id, x-portcullis-model, x-portcullis-dropped, x-portcullis-usage, x-portcullis-attempts, server-timing, retry-after, x-should-retry, x-ratelimit-limit-requests, \
             x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens",
        )?;
    }
    Ok(())
}

/// Keep-alive is decided again with every head: a drain may have begun meanwhile.
fn keep_or_close(session: &mut Session, shared: &Shared) {
    if shared.drain.phase() > Phase::Serving {
        session.set_keepalive(None);
    }
}

/// The deadline of one write.
async fn guard(shared: &Shared, write: impl Future<Output = pingora::Result<()>>) -> Result<(), ()> {
    let ClientTimeouts { client_write, .. } = shared.server.timeouts;
    let mut alarm = crate::exchange::alarm::Alarm::default();
    let cut_off = async {
        shared.drain.cutting().await;
        tokio::time::sleep(LAST_WRITE).await;
    };
    let (mut write, mut cut_off) = (pin!(write), pin!(cut_off));
    let either = std::future::poll_fn(|context| match write.as_mut().poll(context) {
        Poll::Ready(written) => Poll::Ready(written.map_err(drop)),
        // Who does not read must not keep the exchange from being settled before the process ends.
        Poll::Pending => cut_off.as_mut().poll(context).map(Err),
    });
    alarm.until(tokio::time::Instant::now() + client_write, pin!(either)).await.unwrap_or(Err(()))
}
