//! One attempt from its connection to its answer's end: the head, a buffered answer, or a stream as it comes.

use super::{Live, Piece, Producer};
use crate::account::Permit;
use crate::dialect::chat::speak::Manner;
use crate::dialect::translated::Framing;
use crate::dialect::{AnswerFault, ErrorHead, Said, StreamFault};
use crate::error::scrub;
use crate::exchange::alarm::Alarm;
use crate::exchange::attempt::{Attempt, Outgoing};
use crate::exchange::credential;
use crate::exchange::failover::Failure;
use crate::exchange::upstream::Upstream;
use crate::plan::Candidate;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// An error body longer than this is not read to its end, and its connection not kept.
const ERROR_BODY: usize = 64 * 1024;
/// Nor for longer than this.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);
/// Events that came at once leave in one write, up to about this: it fits the buffer of the caller's connection.
const TOGETHER: usize = 8 * 1024;
/// After a stream's end the connection's own end follows at once, or the connection is not kept.
const LINGER: Duration = Duration::from_millis(20);

impl Producer<'_> {
    /// From the connection to the head, and to the end of a buffered answer.
    pub(super) async fn open(&mut self, place: usize, said: Said, permit: Arc<Permit>, began: Instant) -> Result<Option<Piece>, Failure> {
        let Some(candidate) = self.request.candidates.get(place) else { return Err(Failure::Reset) };
        let account = candidate.place.account.clone();
        let stream = self.request.envelope.stream;
        let total = self.total(&account);
        self.upstream_request_id = None;
        let upstream = &self.shared.upstream;
        let headers = credential::headers(upstream, &candidate.place, &said, total, &mut self.alarm).await?;
        let manner =
            Manner { undo: said.undo, hide_reasoning: !candidate.model.show_reasoning, keep_thoughts: account.dialect.family().is_some() };
        let outgoing =
            Outgoing { request_id: &self.request.request_id, path: &said.path, headers: &headers, body: &said.body, stream, total };

        let mut attempt = match Attempt::begin(upstream, &candidate.place, permit.clone(), &outgoing, false, &mut self.alarm).await {
            Err(Failure::Stale) => again(upstream, candidate, permit.clone(), &outgoing, &mut self.alarm).await?,
            other => other?,
        };
        let mut head_due = if stream { total.min(attempt.sent() + account.timeouts.first_byte) } else { total };
        let late = |due: Instant| if due == total { Failure::TotalTimeout } else { Failure::FirstByteTimeout };
        let first = self.alarm.until(head_due, pin!(attempt.head())).await.map(|head| head.map(drop));
        match first {
            None => return Err(late(head_due)),
            Some(Ok(())) => {}
            Some(Err(Failure::Stale)) => {
                drop(attempt);
                attempt = again(upstream, candidate, permit, &outgoing, &mut self.alarm).await?;
                head_due = if stream { total.min(attempt.sent() + account.timeouts.first_byte) } else { total };
                match self.alarm.until(head_due, pin!(attempt.head())).await.map(|head| head.map(drop)) {
                    None => return Err(late(head_due)),
                    Some(head) => head?,
                }
            }
            Some(Err(failure)) => return Err(failure),
        }
        let (status, headers) = attempt.head().await?;
        let kind = Kind::of(headers);
        let compressed = headers.get(header::CONTENT_ENCODING).is_some_and(|e| !e.as_bytes().eq_ignore_ascii_case(b"identity"));
        let upstream_id = ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id"]
            .iter()
            .find_map(|n| headers.get(*n))
            .and_then(|v| v.to_str().ok());
        self.upstream_request_id = upstream_id.filter(|id| id.len() <= 128).map(|id| scrub(id, &account.secrets()));
        if status != StatusCode::OK {
            return Err(self.read_error(attempt, status, total).await);
        }
        if compressed {
            return Err(Failure::Nonsense("a compressed answer, although none was accepted".to_owned()));
        }
        match kind {
            Kind::Stream(framing) if stream && framing == account.dialect.framing() => {
                let stream = account.dialect.stream(&candidate.upstream_model, &self.request.face, manner, self.shared.server.limits.event);
                self.live = Some(Live { attempt, stream, out: Vec::new(), began });
                Ok(None)
            }
            Kind::Json => self.gather(attempt, manner, total, began, stream).await.map(Some),
            Kind::Stream(_) => Err(Failure::Nonsense("an event stream of a kind that was not asked for".to_owned())),
            Kind::Other(kind) => Err(Failure::Nonsense(format!("content-type {kind}"))),
        }
    }

    /// A whole JSON answer; for a caller who asked for a stream it is made into one.
    async fn gather(
        &mut self,
        mut attempt: Attempt,
        manner: Manner,
        total: Instant,
        began: Instant,
        stream: bool,
    ) -> Result<Piece, Failure> {
        let mut body = Vec::new();
        loop {
            match self.alarm.until(total, pin!(attempt.read())).await {
                None => return Err(Failure::TotalTimeout),
                Some(Err(failure)) => return Err(failure),
                Some(Ok(None)) => break,
                Some(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > self.shared.server.limits.response_body {
                        return Err(Failure::Nonsense("an answer larger than limits.response_body allows".to_owned()));
                    }
                    if !self.request.held.grow(chunk.len()) {
                        return Err(Failure::NoRoom);
                    }
                    body.extend_from_slice(&chunk);
                }
            }
        }
        let fault = |fault| match fault {
            AnswerFault::Upstream(error) => Failure::InAnswer(error.into()),
            AnswerFault::Nonsense(why) => Failure::Nonsense(why.to_owned()),
        };
        let (face, dialect) = (&self.request.face, &attempt.place.account.dialect);
        let model = self.candidate().map_or("", |candidate| &candidate.upstream_model);
        let read = if stream { dialect.converted(model, face, &manner, &body) } else { dialect.answer(model, face, &manner, &body) };
        let (answer, kept) = read.map_err(fault)?;
        self.usage = answer.usage;
        self.keep(kept);
        let piece = if stream { Piece::End(answer.body.into()) } else { Piece::Whole(answer) };
        attempt.finish().await;
        self.answered(began);
        Ok(piece)
    }

    /// The next events of a live stream.
    pub(super) async fn advance(&mut self, live: Live) -> Result<Option<Piece>, (Failure, Instant)> {
        let began = live.began;
        let timeouts = live.attempt.place.account.timeouts;
        let total = self.total(&live.attempt.place.account);
        let due = total.min(Instant::now() + timeouts.idle);
        // The live part goes back into `self` while it waits, so that one who drops this future still finds it there.
        let live = self.live.insert(live);
        let mut waited = false;
        let fed = loop {
            let read = if waited {
                // What has come already leaves in one write; nobody is waited for.
                match now(pin!(live.attempt.read())).await {
                    Some(read) => Some(read),
                    None => break Ok(false),
                }
            } else {
                self.alarm.until(due, pin!(live.attempt.read())).await
            };
            waited = true;
            match read {
                None => break Err(if due == total { Failure::TotalTimeout } else { Failure::IdleTimeout }),
                Some(Err(failure)) => break Err(failure),
                Some(Ok(None)) => break Ok(true),
                Some(Ok(Some(chunk))) => match live.stream.feed(&chunk, &mut live.out) {
                    Err(fault) => break Err(failure_of(fault)),
                    Ok(()) if live.stream.done() => break Ok(true),
                    Ok(()) if live.out.len() >= TOGETHER => break Ok(false),
                    Ok(()) => {}
                },
            }
        };
        match fed {
            Ok(true) => self.close(began).await,
            Ok(false) if live.stream.opened() && !live.out.is_empty() => {
                self.opened = true;
                // Nobody will be asked again: a long stream need not hold what it was asked.
                self.request.held.shrink(self.request.body.len());
                self.request.body = Bytes::new();
                Ok(Some(Piece::Events(std::mem::take(&mut live.out).into())))
            }
            Ok(false) => {
                if live.out.len() > self.shared.server.limits.event {
                    self.live = None;
                    return Err((Failure::Nonsense("a stream that does not begin".to_owned()), began));
                }
                Ok(None)
            }
            // Only its connection's end was missing.
            Err(_) if live.stream.whole() => self.close(began).await,
            Err(failure) => match self.live.take() {
                Some(live) => self.broke(live, failure),
                None => Err((failure, began)),
            },
        }
    }

    /// A stream broke. What came whole before still belongs to the caller, if the gate is open.
    fn broke(&mut self, live: Live, failure: Failure) -> Result<Option<Piece>, (Failure, Instant)> {
        let Live { stream, out, began, .. } = live;
        // As long as nothing has left for the caller, somebody else may still give a whole answer.
        let somebody_else = failure.class().next_candidate() && failure != Failure::TotalTimeout && self.is_anybody_left();
        if !stream.opened() || (!self.opened && somebody_else) {
            return Err((failure, began));
        }
        self.usage = stream.usage_so_far();
        self.opened = true;
        if out.is_empty() {
            return Err((failure, began));
        }
        self.pending = Some((failure, began));
        Ok(Some(Piece::Events(out.into())))
    }

    /// The end of a stream: its last events, and the connection's fate.
    async fn close(&mut self, began: Instant) -> Result<Option<Piece>, (Failure, Instant)> {
        let Some(mut live) = self.live.take() else { return Err((Failure::Cut, began)) };
        match live.stream.finish(&mut live.out) {
            Ok(usage) => {
                self.usage = usage;
                self.opened = true;
                self.answered(began);
                self.keep(live.stream.kept());
                live.attempt.release();
                self.lingering = Some(live.attempt);
                Ok(Some(Piece::End(live.out.into())))
            }
            Err(fault) => self.broke(live, failure_of(fault)),
        }
    }

    /// After the caller has everything: keeps the connection, if its end follows at once.
    pub async fn settle(&mut self) {
        let Some(mut attempt) = self.lingering.take() else { return };
        let due = Instant::now() + LINGER;
        while !attempt.is_done() {
            match self.alarm.until(due, pin!(attempt.read())).await {
                Some(Ok(Some(_))) => {}
                Some(Ok(None)) => break,
                Some(Err(_)) | None => return,
            }
        }
        attempt.finish().await;
    }

    async fn read_error(&mut self, mut attempt: Attempt, status: StatusCode, total: Instant) -> Failure {
        let mut retry_after = None;
        let (mut content_type, mut error_type) = (None, None);
        if let Ok((_, headers)) = attempt.head().await {
            retry_after = retry_after_of(headers, SystemTime::now());
            let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
            (content_type, error_type) = (text("content-type"), text("x-amzn-errortype"));
        }
        let mut body = Vec::new();
        let due = total.min(Instant::now() + ERROR_PATIENCE);
        let whole = loop {
            match self.alarm.until(due, pin!(attempt.read())).await {
                Some(Ok(None)) => break true,
                Some(Ok(Some(chunk))) if body.len() + chunk.len() <= ERROR_BODY => body.extend_from_slice(&chunk),
                Some(_) | None => break false,
            }
        };
        let seen = status.as_u16();
        let head = ErrorHead { status: seen, content_type: content_type.as_deref(), error_type: error_type.as_deref() };
        let dialect = &attempt.place.account.dialect;
        let error = Box::new(dialect.error(&head, &body));
        let status = dialect.meant(seen, &error);
        if whole {
            attempt.finish().await;
        }
        Failure::Status { status, seen, retry_after: retry_after.or(error.retry_after), error }
    }
}

/// The future's value, if it has one already.
async fn now<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

/// The second try on a fresh connection, which costs no attempt: the request was never looked at.
async fn again(
    upstream: &Arc<Upstream>,
    candidate: &Candidate,
    permit: Arc<Permit>,
    outgoing: &Outgoing<'_>,
    alarm: &mut Alarm,
) -> Result<Attempt, Failure> {
    Attempt::begin(upstream, &candidate.place, permit, outgoing, true, alarm)
        .await
        .map_err(|f| if f == Failure::Stale { Failure::Reset } else { f })
}

fn failure_of(fault: StreamFault) -> Failure {
    match fault {
        StreamFault::Upstream(error) => Failure::InAnswer(error.into()),
        StreamFault::Broken(why) => Failure::Nonsense(why.to_owned()),
        StreamFault::Cut => Failure::Cut,
    }
}

/// What a content type announces.
enum Kind {
    Json,
    Stream(Framing),
    Other(String),
}

impl Kind {
    fn of(headers: &HeaderMap) -> Kind {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Kind::Json };
        let name = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        match name.as_slice() {
            b"text/event-stream" => Kind::Stream(Framing::Events),
            b"application/x-ndjson" | b"application/ndjson" => Kind::Stream(Framing::Lines),
            b"application/vnd.amazon.eventstream" => Kind::Stream(Framing::Frames),
            b"application/json" => Kind::Json,
            other if other.ends_with(b"+json") => Kind::Json,
            other => Kind::Other(String::from_utf8_lossy(other).chars().take(60).collect()),
        }
    }
}

/// `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after_of(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let seconds = |s: f64| Duration::try_from_secs_f64(s.clamp(0.0, 1e9)).ok();
    if let Some(ms) = text("retry-after-ms").and_then(|v| v.parse::<f64>().ok()) {
        return seconds(ms / 1000.0);
    }
    let value = text("retry-after")?;
    match value.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => httpdate::parse_http_date(value).ok().map(|at| at.duration_since(now).unwrap_or_default()),
    }
}
