//! A [`Reply`] writes to one caller: heads, and bodies with their framing. Each write has a
//! deadline.
//!
//! `Err(())` means that the caller cannot be written to any more. Nothing must be written after it.

use super::record::Record;
use super::request_id::X_REQUEST_ID;
use super::{connection, session_io};
use crate::base::alarm::Alarm;
use crate::conf::config::Server;
use crate::drain::{Drain, Phase};
use crate::error::{FailureKind, Outcome, Refusal};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue, IntoHeaderName};
use http::response::Parts;
use http::{Method, Response, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora_proxy::Session;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// The time for which the rest of a refused request's body is read, so that the caller sees the
/// refusal and not a reset.
const DRAIN_UNREAD: Duration = Duration::from_secs(1);

/// The most bytes of a body in one write, which has a deadline of its own.
const SLICE: usize = 64 * 1024;
/// Once a drain cuts the running exchanges, a write may go on while other exchanges still end. If
/// none has ended for this time, it is given up.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The room for the headers of an answer, Pingora's two included.
const HEADER_CAPACITY: usize = 12;

/// The headers that a page of an allowed origin may read.
const EXPOSED_HEADERS: &str = "x-request-id, request-id, x-portcullis-model, x-portcullis-dropped, x-portcullis-usage, x-portcullis-attempts, server-timing, \
                       retry-after, x-should-retry, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
                       x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

/// The notes in a head about how the answer was made.
#[derive(Default)]
pub struct Notes {
    /// The model that answered, if it is not the one that was asked for.
    pub model: Option<String>,
    /// The trail of attempts, for keys that may see it.
    pub attempts: Option<String>,
    /// The times of the exchange, for the same keys.
    pub timing: Option<String>,
    /// The fields of the request that the upstream did not get.
    pub dropped: Option<String>,
    /// True if the tokens are an estimate.
    pub estimated: bool,
    /// The content type of a stream that passes unchanged from the upstream. Without it, the stream
    /// has the front door's own.
    pub content_type: Option<HeaderValue>,
}

/// A writer to one caller.
pub struct Reply<'x> {
    /// The caller's connection.
    pub session: &'x mut Session,
    /// The exchange's record.
    pub record: &'x mut Record,
    /// The deadline of a write, and the origins that browsers may read from.
    pub settings: &'x Server,
    /// The drain, which decides whether connections close.
    pub drain: &'x Drain,
}

impl Reply<'_> {
    /// Writes the whole JSON answer of an exchange or a count, with the notes about how it was
    /// made.
    pub async fn write_answer(&mut self, body: Bytes, notes: &Notes) -> Result<(), ()> {
        let mut head = self.head(200)?;
        notes.add_to(&mut head.headers)?;
        self.record.facts.times.first_byte = Some(self.record.began.elapsed());
        self.write_whole(head, "application/json", body).await
    }

    /// Writes a whole answer of our own: a list, the answer to a probe, the welcome.
    pub async fn write_plain(
        &mut self,
        status: u16,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(), ()> {
        let head = self.head(status)?;
        self.write_whole(head, content_type, body).await
    }

    /// Writes the answer to a preflight. The other headers of CORS are added to every head, by
    /// `add_cors`.
    pub async fn write_preflight(&mut self, methods: &'static str) -> Result<(), ()> {
        let mut head = self.head(204)?;
        insert_header(&mut head.headers, "access-control-allow-methods", methods)?;
        // A page of an allowed origin may send any header: SDKs for browsers have headers of their
        // own (OpenAI's a dozen `x-stainless-…`).
        let wanted = self
            .session
            .req_header()
            .headers
            .get(header::ACCESS_CONTROL_REQUEST_HEADERS);
        let wanted = wanted.and_then(|wanted| wanted.to_str().ok());
        let default_headers = "authorization, content-type, x-request-id";
        insert_header(
            &mut head.headers,
            "access-control-allow-headers",
            wanted.unwrap_or(default_headers),
        )?;
        insert_header(&mut head.headers, "access-control-max-age", "600")?;
        self.add_cors(&mut head.headers)?;
        self.write_head(head).await?;
        self.record.end(Outcome::Ok);
        Ok(())
    }

    /// Writes a refusal.
    pub async fn refuse(&mut self, refusal: &Refusal, notes: &Notes) -> Result<(), ()> {
        self.record.record_refusal(refusal);
        if matches!(refusal.kind, FailureKind::CallerLeft) {
            return Err(());
        }
        let mut head = self.head(refusal.status(self.record.front))?;
        notes.add_to(&mut head.headers)?;
        for (name, value) in refusal.headers(self.record.front) {
            insert_header(&mut head.headers, name, &value)?;
        }
        if refusal.kind == FailureKind::Internal {
            // A panic of ours may have left anything behind on this connection.
            connection::end_after_answer(self.session);
        }
        if !self.session.as_downstream_mut().is_body_done() {
            // The caller is still sending. Pingora would close at once, and the reset would reach
            // the caller before the answer. So the rest is read for a moment.
            self.session
                .set_close_on_response_before_downstream_finish(false);
            self.session.set_total_drain_timeout(Some(DRAIN_UNREAD));
        }
        self.write_whole(
            head,
            "application/json",
            refusal
                .body(self.record.front, &self.record.facts.request.id)
                .into(),
        )
        .await
    }

    /// Writes the head of a stream.
    pub async fn write_stream_head(&mut self, notes: &Notes) -> Result<(), ()> {
        let mut head = self.head(200)?;
        let default_type = || HeaderValue::from_static(self.record.front.stream_frame.content_type);
        let content_type = notes.content_type.clone().unwrap_or_else(default_type);
        head.headers.insert(header::CONTENT_TYPE, content_type);
        insert_header(&mut head.headers, "cache-control", "no-cache, no-transform")?;
        insert_header(&mut head.headers, "x-accel-buffering", "no")?;
        notes.add_to(&mut head.headers)?;
        self.add_cors(&mut head.headers)?;
        match self.session.req_header().version {
            Version::HTTP_11 => insert_header(&mut head.headers, "transfer-encoding", "chunked")?,
            // HTTP/1.0 has no chunks: the end of the connection is the end of the answer.
            Version::HTTP_10 | Version::HTTP_09 => connection::end_after_answer(self.session),
            _ => {}
        }
        self.write_head(head).await
    }

    /// Writes a part of a body, in slices: the deadline of a write bounds its progress, and not its
    /// size.
    pub async fn write(&mut self, mut bytes: Bytes, end: bool) -> Result<(), ()> {
        loop {
            let slice = bytes.split_to(bytes.len().min(SLICE));
            let (length, last) = (slice.len() as u64, bytes.is_empty());
            if end && last {
                self.record.settle();
            }
            let write = session_io::write_part(self.session, slice, end && last);
            guard_write(self.settings.timeouts.client_write, self.drain, write).await?;
            self.record.facts.answer.bytes += length;
            if last {
                return Ok(());
            }
        }
    }

    /// Writes a whole answer, which ends the exchange.
    async fn write_whole(
        &mut self,
        mut head: Parts,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(), ()> {
        head.headers
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        head.headers
            .insert(header::CONTENT_LENGTH, body.len().into());
        self.add_cors(&mut head.headers)?;
        self.write_head(head).await?;
        if self.session.req_header().method != Method::HEAD {
            self.write(body, true).await?;
        }
        // The first outcome counts: if this is a refusal, its outcome was noted before, and stays.
        self.record.end(Outcome::Ok);
        Ok(())
    }

    /// Begins a head with the headers that all answers have. It is a head of the crate `http`,
    /// since Pingora's own type parses each header's name again.
    fn head(&mut self, status: u16) -> Result<Parts, ()> {
        self.record.facts.answer.status = status;
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = StatusCode::from_u16(status).map_err(drop)?;
        head.version = self.session.req_header().version;
        head.headers = HeaderMap::with_capacity(HEADER_CAPACITY);
        insert_header(
            &mut head.headers,
            &X_REQUEST_ID,
            &self.record.facts.request.id,
        )?;
        if let Some(name) = self.record.front.errors.id_header {
            insert_header(&mut head.headers, name, &self.record.facts.request.id)?;
        }
        for (name, value) in self.record.limits_left.headers() {
            insert_header(&mut head.headers, name, &value)?;
        }
        Ok(head)
    }

    async fn write_head(&mut self, head: Parts) -> Result<(), ()> {
        // Keep-alive is decided again with every head, since a drain may have begun meanwhile.
        if self.drain.phase() > Phase::Serving {
            connection::end_after_answer(self.session);
        }
        let write = session_io::write_head(self.session, Box::new(ResponseHeader::from(head)));
        guard_write(self.settings.timeouts.client_write, self.drain, write).await
    }

    /// Adds the headers of CORS: `vary`, and the others if the page's origin is allowed.
    fn add_cors(&self, head: &mut HeaderMap) -> Result<(), ()> {
        let allowed = &self.settings.cors;
        if allowed.is_empty() {
            return Ok(());
        }
        insert_header(head, "vary", "origin")?;
        let origin = self
            .session
            .req_header()
            .headers
            .get(header::ORIGIN)
            .and_then(|origin| origin.to_str().ok());
        let is_allowed = |origin: &&str| allowed.iter().any(|one| one == "*" || one == origin);
        if let Some(origin) = origin.filter(is_allowed) {
            insert_header(head, "access-control-allow-origin", origin)?;
            insert_header(head, "access-control-expose-headers", EXPOSED_HEADERS)?;
        }
        Ok(())
    }
}

impl Notes {
    fn add_to(&self, head: &mut HeaderMap) -> Result<(), ()> {
        let Notes {
            model,
            attempts,
            timing,
            dropped,
            estimated,
            content_type: _,
        } = self;
        for (name, value) in [
            ("x-portcullis-model", model.as_deref()),
            ("x-portcullis-attempts", attempts.as_deref()),
            ("server-timing", timing.as_deref()),
            ("x-portcullis-dropped", dropped.as_deref()),
            ("x-portcullis-usage", estimated.then_some("estimated")),
        ] {
            if let Some(value) = value {
                insert_header(head, name, value)?;
            }
        }
        Ok(())
    }
}

fn insert_header(head: &mut HeaderMap, name: impl IntoHeaderName, value: &str) -> Result<(), ()> {
    let value = HeaderValue::from_str(value).map_err(drop)?;
    head.insert(name, value);
    Ok(())
}

/// Bounds one write by its deadline, and by the end of the drain.
async fn guard_write(
    deadline: Duration,
    drain: &Drain,
    write: impl Future<Output = pingora::Result<()>>,
) -> Result<(), ()> {
    let mut write = pin!(write);
    let mut alarm = Alarm::default();
    // Most writes end at once. Only a write that waits gets a deadline and watches the drain.
    let mut bounds = None;
    std::future::poll_fn(|context| {
        if let Poll::Ready(written) = write.as_mut().poll(context) {
            return Poll::Ready(written.map_err(drop));
        }
        let (due, cut_off) = bounds.get_or_insert_with(|| {
            let due = Instant::now() + deadline;
            (due, Box::pin(wait_for_cut_off(drain)))
        });
        // The exchange must be settled before the process ends, also if the caller does not read.
        if cut_off.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(()));
        }
        alarm.poll(context, *due).map(Err)
    })
    .await
}

/// Waits until a write must be given up because the process ends. Counts the answer that its caller
/// does not get.
async fn wait_for_cut_off(drain: &Drain) {
    drain.wait_until_stalled(LAST_WRITE).await;
    drain.note_undelivered();
}
