//! The half of an exchange that faces the upstreams: attempts, failover, and the commit gate. It yields pieces of a standard answer, or what the
//! caller is to be told instead; it never sees the caller.
//!
//! **Invariant:** no byte of a stream is yielded before the gate is open, that is before an event with content, thinking, audio, a tool
//! call, a refusal or a finish has come. Until then any failure may go to the next candidate; from then on none can.

use super::alarm::Alarm;
use super::attempt::{Attempt, Outgoing};
use super::failover::{Class, Failure};
use super::record::millis;
use super::upstream::Upstream;
use crate::access_log::Tried;
use crate::account::Permit;
use crate::account::health::Why;
use crate::catalog::Account;
use crate::catalog::reload::Snapshot;
use crate::dialect::{Answer, AnswerFault, Face, StreamFault, openai};
use crate::error::{Refusal, What, scrub};
use crate::intake::Held;
use crate::intake::envelope::Envelope;
use crate::plan::Candidate;
use crate::shared::Shared;
use crate::usage::Usage;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// What is to be answered, and by whom it may be.
pub struct Request {
    /// The caller's body.
    pub body: Bytes,
    /// What was read of it.
    pub envelope: Envelope,
    /// What every answer shows.
    pub face: Arc<Face>,
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// Our id.
    pub request_id: String,
    /// What the request holds of the budget; answers that are gathered whole add to it.
    pub held: Held,
    /// The catalog that the exchange began with, kept to its end.
    pub snapshot: Arc<Snapshot>,
}

/// A piece of the answer.
pub enum Piece {
    /// All of a buffered answer.
    Whole(Answer),
    /// Some of a stream.
    Events(Bytes),
    /// The last of a stream, after which it is complete.
    End(Bytes),
}

/// The producer.
pub struct Producer<'x> {
    shared: &'x Shared,
    request: &'x mut Request,
    /// The attempts so far.
    pub trail: Vec<Tried>,
    /// What it cost so far.
    pub usage: Usage,
    /// The place in `candidates` of the one that answers, or was asked last.
    pub served: Option<usize>,
    /// The upstream's own id.
    pub upstream_request_id: Option<String>,
    /// An upstream may charge for an answer that nobody got.
    pub maybe_billed: bool,
    live: Option<Live>,
    /// A whole stream's attempt, until its connection's fate is known.
    lingering: Option<Attempt>,
    /// A failure that came together with the last good events: those are yielded first.
    pending: Option<(Failure, Instant)>,
    opened: bool,
    next: usize,
    tries: usize,
    last: Option<Failure>,
    resting: Resting,
    began: Instant,
    attempt_began: Instant,
    alarm: Alarm,
}

struct Live {
    attempt: Attempt,
    stream: openai::Stream,
    out: Vec<u8>,
    began: Instant,
}

/// Why candidates were passed over, for when none is left.
#[derive(Default)]
struct Resting {
    passed: usize,
    for_rate: usize,
    /// When the first of them will be back, or of those that were asked and limit their rate.
    soonest: Option<Duration>,
}

impl Resting {
    /// Some account will be back after this wait.
    fn soon(&mut self, wait: Duration) {
        self.soonest = Some(self.soonest.map_or(wait, |soonest| soonest.min(wait)));
    }
}

/// An error body longer than this is not read to its end, and its connection not kept.
const ERROR_BODY: usize = 64 * 1024;
/// Nor for longer than this.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);
/// Events that came at once leave in one write, up to about this: it fits the buffer of the caller's connection.
const TOGETHER: usize = 8 * 1024;
/// After a stream's end the connection's own end follows at once, or the connection is not kept.
const LINGER: Duration = Duration::from_millis(20);

impl<'x> Producer<'x> {
    /// Nothing is done yet.
    pub fn new(shared: &'x Shared, request: &'x mut Request) -> Producer<'x> {
        Producer {
            shared,
            request,
            trail: Vec::new(),
            usage: Usage::default(),
            served: None,
            upstream_request_id: None,
            maybe_billed: false,
            live: None,
            lingering: None,
            pending: None,
            opened: false,
            next: 0,
            tries: 0,
            last: None,
            resting: Resting::default(),
            began: Instant::now(),
            attempt_began: Instant::now(),
            alarm: Alarm::default(),
        }
    }

    /// The candidate that answers.
    pub fn candidate(&self) -> Option<&Candidate> {
        self.request.candidates.get(self.served?)
    }

    /// The candidate whose stream is being relayed.
    pub fn running(&self) -> Option<&Candidate> {
        self.live.as_ref().and_then(|_| self.candidate())
    }

    /// The next piece; or why there is none, and will be none.
    pub async fn next(&mut self) -> Result<Piece, Refusal> {
        loop {
            let step = match (self.pending.take(), self.live.take()) {
                (Some(pending), _) => Err(pending),
                (None, Some(live)) => self.advance(live).await,
                (None, None) => {
                    let Some(place) = self.pick() else { return Err(self.nobody_left()) };
                    let Some(candidate) = self.request.candidates.get(place) else { return Err(self.nobody_left()) };
                    let Some(permit) = candidate.place.state.admit(candidate.place.account.concurrency) else {
                        self.pass(None);
                        continue;
                    };
                    self.served = Some(place);
                    self.tries += 1;
                    let began = Instant::now();
                    self.attempt_began = began;
                    // Boxed: once a stream runs, what it took to open it need not be held.
                    Box::pin(self.open(place, Arc::new(permit), began)).await.map_err(|failure| (failure, began))
                }
            };
            match step {
                Ok(Some(piece)) => return Ok(piece),
                Ok(None) => {}
                Err((failure, began)) => {
                    self.failed(&failure, began);
                    // After `total` nobody has time left; and who had all of the request may be at work on it still.
                    let final_one = self.opened || !failure.class().next_candidate() || failure == Failure::TotalTimeout;
                    let refusal = final_one.then(|| self.refusal(&failure));
                    self.last = Some(failure);
                    if let Some(refusal) = refusal {
                        return Err(refusal);
                    }
                }
            }
        }
    }

    /// What was reported or passed on so far, for an exchange that ends early.
    pub fn usage_so_far(&self) -> Usage {
        match &self.live {
            Some(live) if self.opened => live.stream.usage_so_far(),
            Some(_) | None => self.usage,
        }
    }

    /// Notes an attempt that the caller's leaving, or our going down, put an end to.
    pub fn abandon(&mut self, why: &'static str) {
        self.usage = self.usage_so_far();
        if let Some(live) = self.live.take() {
            self.maybe_billed = true;
            self.note(why, live.began, Some(200), None);
        } else if self.served.is_some() && self.trail.len() < self.tries {
            self.maybe_billed = true;
            self.note(why, self.attempt_began, None, None);
        }
    }

    /// The next candidate that neither rests nor is full.
    fn pick(&mut self) -> Option<usize> {
        while self.tries < self.shared.server.attempts {
            let place = self.next;
            let candidate = self.request.candidates.get(place)?;
            self.next += 1;
            if self.tries > 0 && Instant::now() >= self.total(&candidate.place.account) {
                continue;
            }
            let now = std::time::Instant::now();
            match candidate.place.state.health.rest(&candidate.upstream_model, now) {
                None => return Some(place),
                Some(rest) => self.pass(Some((rest.why, rest.until.saturating_duration_since(now)))),
            }
        }
        None
    }

    /// When an account's time is over, that of the attempts before it included.
    fn total(&self, account: &Account) -> Instant {
        let timeouts = &account.timeouts;
        self.began + if self.request.envelope.stream { timeouts.total_stream } else { timeouts.total }
    }

    fn is_anybody_left(&self) -> bool {
        let now = std::time::Instant::now();
        let fit = |candidate: &Candidate| candidate.place.state.health.rest(&candidate.upstream_model, now).is_none();
        self.tries < self.shared.server.attempts && self.request.candidates.iter().skip(self.next).any(fit)
    }

    fn pass(&mut self, rest: Option<(Why, Duration)>) {
        self.resting.passed += 1;
        if let Some((why, wait)) = rest {
            self.resting.for_rate += usize::from(why == Why::Rate);
            self.resting.soon(wait);
        }
    }

    fn nobody_left(&mut self) -> Refusal {
        if let Some(failure) = self.last.take() {
            return self.refusal(&failure);
        }
        let seconds = self.resting.soonest.map_or(1, |wait| wait.as_secs() + 1);
        if self.resting.passed > 0 && self.resting.for_rate == self.resting.passed {
            Refusal::new(What::AllRateLimited, "Every upstream account of this model is waiting out its rate limit. Try again later.")
                .retry_after(seconds)
        } else {
            Refusal::new(What::NoCapacity, "No upstream account of this model can take the request at the moment. Try again later.")
                .retry_after(seconds)
        }
    }

    fn refusal(&self, failure: &Failure) -> Refusal {
        if *failure == Failure::Cut && !self.opened {
            // Nobody received a part of it.
            let refusal = Refusal::new(What::BadUpstreamResponse, "The upstream ended its answer before it was complete. Try again.");
            return Refusal { retry_helps: self.tries < 2, ..refusal };
        }
        let secrets = self.candidate().map(|c| c.place.account.secrets()).unwrap_or_default();
        let refusal = failure.refusal(self.tries, &secrets);
        // Some other account may be back sooner than the last one that was asked.
        if let Some(wait) = self.resting.soonest.filter(|_| failure.class() == Class::Rate) {
            return refusal.retry_after(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
        }
        refusal
    }

    /// What follows from a failure for the account, and the trail.
    fn failed(&mut self, failure: &Failure, began: Instant) {
        let Some(candidate) = self.served.and_then(|place| self.request.candidates.get(place)) else { return };
        let retry_after = if let Failure::Status { retry_after, .. } = failure { *retry_after } else { None };
        let account = &candidate.place.account;
        let rest = candidate.place.state.health.failed(failure.class(), &candidate.upstream_model, retry_after, std::time::Instant::now());
        if failure.class() == Class::Rate {
            self.resting.soon(super::failover::rate_cool(retry_after));
        }
        if let Some(rest) = rest {
            log::warn!(
                "account {} rests for {} s ({}) after {} (HTTP {}) for {}",
                account.id,
                rest.until.saturating_duration_since(std::time::Instant::now()).as_secs() + 1,
                rest.why.name(),
                failure.name(),
                failure.status().map_or_else(|| "-".to_owned(), |s| s.to_string()),
                candidate.upstream_model,
            );
        }
        let detail = failure.detail().map(|d| scrub(&d, &account.secrets()).chars().take(200).collect());
        self.maybe_billed |= failure.maybe_billed();
        self.note(failure.name(), began, failure.status(), detail);
    }

    fn note(&mut self, outcome: &'static str, began: Instant, status: Option<u16>, detail: Option<String>) {
        let Some(candidate) = self.candidate() else { return };
        let tried = Tried {
            account: candidate.place.account.id.clone(),
            model: candidate.upstream_model.clone(),
            outcome,
            ms: millis(began.elapsed()),
            status,
            detail,
        };
        self.trail.push(tried);
    }

    fn answered(&mut self, began: Instant) {
        if let Some(candidate) = self.candidate() {
            candidate.place.state.health.answered(&candidate.upstream_model, std::time::Instant::now());
        }
        self.note("ok", began, Some(200), None);
    }

    /// From the connection to the head, and to the end of a buffered answer.
    async fn open(&mut self, place: usize, permit: Arc<Permit>, began: Instant) -> Result<Option<Piece>, Failure> {
        let Some(candidate) = self.request.candidates.get(place) else { return Err(Failure::Reset) };
        let account = candidate.place.account.clone();
        let stream = self.request.envelope.stream;
        let total = self.total(&account);
        self.upstream_request_id = None;
        let body = openai::request(
            &self.request.body,
            &self.request.envelope,
            &candidate.upstream_model,
            stream && account.stream_usage,
            candidate.model.max_tokens,
        );
        let outgoing = Outgoing { request_id: &self.request.request_id, body: &body, stream, total };
        let upstream = &self.shared.upstream;

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
        let upstream_id = ["x-request-id", "request-id"].iter().find_map(|n| headers.get(*n)).and_then(|v| v.to_str().ok());
        self.upstream_request_id = upstream_id.filter(|id| id.len() <= 128).map(|id| scrub(id, &account.secrets()));
        if status != StatusCode::OK {
            return Err(self.read_error(attempt, status, total).await);
        }
        if compressed {
            return Err(Failure::Nonsense("a compressed answer, although none was accepted".to_owned()));
        }
        match kind {
            Kind::Events if stream => {
                let stream = openai::Stream::new(&self.request.face, self.shared.server.limits.event);
                self.live = Some(Live { attempt, stream, out: Vec::new(), began });
                Ok(None)
            }
            Kind::Json => self.gather(attempt, total, began, stream).await.map(Some),
            Kind::Events => Err(Failure::Nonsense("an event stream where JSON was asked for".to_owned())),
            Kind::Other(kind) => Err(Failure::Nonsense(format!("content-type {kind}"))),
        }
    }

    /// A whole JSON answer; for a caller who asked for a stream it is made into one.
    async fn gather(&mut self, mut attempt: Attempt, total: Instant, began: Instant, stream: bool) -> Result<Piece, Failure> {
        let mut body = Vec::new();
        loop {
            match self.alarm.until(total, pin!(attempt.read())).await {
                None => return Err(Failure::TotalTimeout),
                Some(Err(failure)) => return Err(failure),
                Some(Ok(None)) => break,
                Some(Ok(Some(chunk))) => {
                    if body.len() + chunk.len() > self.shared.server.limits.response_body || !self.request.held.grow(chunk.len()) {
                        return Err(Failure::Nonsense(
                            "an answer larger than limits.response_body or limits.buffered_total allows".to_owned(),
                        ));
                    }
                    body.extend_from_slice(&chunk);
                }
            }
        }
        let fault = |fault| match fault {
            AnswerFault::Upstream(error) => Failure::InAnswer(error.into()),
            AnswerFault::Nonsense(why) => Failure::Nonsense(why.to_owned()),
        };
        let piece = if stream {
            let Answer { body: events, usage } = openai::converted(&self.request.face, &body).map_err(fault)?;
            self.usage = usage;
            Piece::End(events.into())
        } else {
            let answer = openai::answer(&self.request.face, &body).map_err(fault)?;
            self.usage = answer.usage;
            Piece::Whole(answer)
        };
        attempt.finish().await;
        self.answered(began);
        Ok(piece)
    }

    /// The next events of a live stream.
    async fn advance(&mut self, live: Live) -> Result<Option<Piece>, (Failure, Instant)> {
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
        let mut content_type = None;
        if let Ok((_, headers)) = attempt.head().await {
            retry_after = retry_after_of(headers, SystemTime::now());
            content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned);
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
        if whole {
            attempt.finish().await;
        }
        let error = Box::new(openai::error(&body, content_type.as_deref()));
        Failure::Status { status: status.as_u16(), error, retry_after }
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
    Events,
    Other(String),
}

impl Kind {
    fn of(headers: &HeaderMap) -> Kind {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Kind::Json };
        let name = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
        match name.as_slice() {
            b"text/event-stream" => Kind::Events,
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
