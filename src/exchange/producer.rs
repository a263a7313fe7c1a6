//! The half of an exchange that faces the upstreams: attempts, failover, and the commit gate. It yields pieces of a standard answer, or what the
//! caller is to be told instead; it never sees the caller.
//!
//! **Invariant:** no byte of a stream is yielded before the gate is open, that is before an event with content, thinking, audio, a tool
//! call, a refusal or a finish has come. Until then any failure may go to the next candidate; from then on none can.

mod reading;

use super::alarm::Alarm;
use super::attempt::Attempt;
use super::failover::{Class, Failure};
use super::record::millis;
use crate::access_log::Tried;
use crate::account::Permit;
use crate::account::health::Why;
use crate::catalog::Account;
use crate::catalog::reload::Snapshot;
use crate::dialect::chat::speak::Kept;
use crate::dialect::chat::{Losses, Refused};
use crate::dialect::{Answer, Ask, Face, Said, Stream};
use crate::error::{Refusal, What, scrub};
use crate::intake::Held;
use crate::intake::envelope::Envelope;
use crate::plan::Candidate;
use crate::secret::Secret;
use crate::shared::Shared;
use crate::usage::Usage;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
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
    /// The caller's key: what is kept for the next turn is kept for it.
    pub key: Arc<str>,
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
    /// What the request as it went up last does not say of what the caller said.
    pub losses: Losses,
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
    /// Why a candidate that could not do what is asked was passed over: the first one's word.
    unable: Option<Refused>,
    began: Instant,
    attempt_began: Instant,
    alarm: Alarm,
}

/// A stream that runs.
struct Live {
    attempt: Attempt,
    stream: Stream,
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
            losses: Losses::default(),
            live: None,
            lingering: None,
            pending: None,
            opened: false,
            next: 0,
            tries: 0,
            last: None,
            resting: Resting::default(),
            unable: None,
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
                    let Some((place, permit, mut said)) = self.pick()? else { return Err(self.nobody_left()) };
                    self.served = Some(place);
                    self.losses = std::mem::take(&mut said.losses);
                    self.tries += 1;
                    let began = Instant::now();
                    self.attempt_began = began;
                    // Boxed: once a stream runs, what it took to open it need not be held.
                    let copied = said.copied;
                    let opened = Box::pin(self.open(place, said, Arc::new(permit), began)).await;
                    self.request.held.shrink(copied);
                    opened.map_err(|failure| (failure, began))
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

    /// The next candidate that neither rests nor is full and can do what is asked, its place, and the request in its words.
    fn pick(&mut self) -> Result<Option<(usize, Permit, Said)>, Refusal> {
        while self.tries < self.shared.server.attempts {
            let place = self.next;
            let Some(candidate) = self.request.candidates.get(place) else { return Ok(None) };
            self.next += 1;
            if self.tries > 0 && Instant::now() >= self.total(&candidate.place.account) {
                continue;
            }
            let now = std::time::Instant::now();
            if let Some(rest) = candidate.place.state.health.rest(&candidate.upstream_model, now) {
                self.pass(Some((rest.why, rest.until.saturating_duration_since(now))));
                continue;
            }
            let Some(permit) = candidate.place.state.admit(candidate.place.account.concurrency) else {
                self.pass(None);
                continue;
            };
            match self.write(candidate) {
                Ok(said) if self.request.held.grow(said.copied) => return Ok(Some((place, permit, said))),
                Ok(_) => return Err(Refusal::no_room()),
                // Somebody else may be less strict: one who speaks the caller's own language judges for itself.
                Err(refused) => {
                    self.unable.get_or_insert(refused);
                }
            }
        }
        Ok(None)
    }

    /// The request in a candidate's words.
    fn write(&self, candidate: &Candidate) -> Result<Said, Refused> {
        let (shared, request) = (self.shared, &*self.request);
        let account = &candidate.place.account;
        let family = account.dialect.family();
        let kept = |call: &str| shared.vault.find(&request.key, family?, call, std::time::Instant::now());
        let said = account.dialect.write(&Ask {
            body: &request.body,
            envelope: &request.envelope,
            model: &candidate.upstream_model,
            traits: candidate.traits,
            default_max_tokens: candidate.model.max_tokens,
            stream_usage: account.stream_usage,
            kept: &kept,
        })?;
        match said.losses.names().first() {
            Some(lost) if candidate.model.refuse_loss => {
                Err(Refused::unsupported(lost.as_ref(), format!("`{lost}` cannot be expressed in the language of this model's upstream.")))
            }
            Some(_) | None => Ok(said),
        }
    }

    /// Keeps what an answer wants back with the next turn.
    fn keep(&self, kept: Vec<Kept>) {
        let Some(family) = self.candidate().and_then(|candidate| candidate.place.account.dialect.family()) else { return };
        for Kept { call, thoughts } in kept {
            self.shared.vault.put(&self.request.key, family, &call, thoughts, std::time::Instant::now());
        }
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
        match self.unable.take().filter(|_| self.resting.passed == 0) {
            Some(Refused::Invalid(complaint)) => {
                return Refusal::new(What::BadRequest { code: Some("invalid_value") }, complaint.message).param(complaint.param);
            }
            Some(Refused::Unsupported(complaint)) => {
                let message = format!("No upstream account of the model `{}` can do this: {}", self.request.face.model, complaint.message);
                return Refusal::new(What::Unsupported, message).param(complaint.param);
            }
            None => {}
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
        let place = self.candidate().map(|c| &c.place);
        let token = place.and_then(|place| place.state.tokens.present());
        let secrets: Vec<&str> =
            place.map(|p| p.account.secrets()).unwrap_or_default().into_iter().chain(token.as_ref().map(Secret::expose)).collect();
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
        let retry_after = failure.retry_after();
        let account = &candidate.place.account;
        let rest = candidate.place.state.health.failed(failure.class(), &candidate.upstream_model, retry_after, std::time::Instant::now());
        let token = candidate.place.state.tokens.present();
        if failure.class() == Class::Credential {
            candidate.place.state.tokens.forget();
        }
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
        let secrets: Vec<&str> = account.secrets().into_iter().chain(token.as_ref().map(Secret::expose)).collect();
        let detail = failure.detail().map(|d| scrub(&d, &secrets).chars().take(200).collect());
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
}
