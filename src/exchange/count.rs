//! A [`TokenCount`] asks the accounts of a model, one after the other, how many tokens a request
//! has. It is no attempt of an exchange: whatever comes of it, nothing rests, no breaker and no
//! time is changed, and no other model stands in. Only a token that was refused is forgotten. A
//! count takes no place of the account's `concurrency`. A wrong number is worse than none, so
//! nothing is estimated.

use super::admission::{self, CallersRequest, EarlierThoughts};
use super::attempt::Attempt;
use super::backends::Backends;
use super::credential;
use super::outgoing::{self, Outgoing};
use super::producer::CALLER_LEFT;
use crate::account::Permit;
use crate::account::failure::{Class, Failure};
use crate::base::alarm::Alarm;
use crate::base::clock::Clock;
use crate::base::memory::Held;
use crate::base::trace_context::SpanId;
use crate::catalog::Key;
use crate::error::{Refusal, What, scrub};
use crate::plan::Candidate;
use crate::seal::AccountSeal;
use crate::series::{Step, Sums};
use crate::settled::{Settled, Tried, millis};
use dialects::Outbound;
use dialects::neutral::seal::Sealed;
use http::{HeaderName, HeaderValue};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for a count, with all its tries.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of an answer: it is hardly more than a number.
const MOST: usize = 64 * 1024;

/// A request whose tokens are counted.
pub struct TokenCount<'c> {
    /// The parts through which providers are asked.
    pub shared: &'c Backends,
    /// The request, and what its caller may use.
    pub asked: CallersRequest<'c>,
    /// The memory that the body holds.
    pub held: Held,
    /// The key that the request came with.
    pub key: &'c Key,
    /// The caller's own deadline.
    pub timeout: Option<Duration>,
    /// The time at which the request's head arrived.
    pub head: std::time::Instant,
}

impl TokenCount<'_> {
    /// Asks the first of these candidates that counts exactly and is fit. Only if that one cannot
    /// be reached, or counts nothing at all, the next is asked. Returns the answer for the caller.
    pub async fn ask(
        &self,
        candidates: &[Candidate],
        facts: &mut Settled,
    ) -> Result<Vec<u8>, Refusal> {
        let due = Instant::now() + self.timeout.map_or(PATIENCE, |most| most.min(PATIENCE));
        let mut refusal = None;
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate.place.account.dialect.counts())
        {
            let (place, model) = (&candidate.place, &candidate.upstream_model);
            let said = match self.write(candidate) {
                Ok(said) => said,
                Err(why) => {
                    refusal.get_or_insert(why);
                    continue;
                }
            };
            let dialect = &place.account.dialect;
            if let Some(answer) = dialect.count_here(self.asked.envelope.front, &said) {
                (facts.served.account, facts.served.losses) =
                    (Some(place.account.id.clone()), said.losses);
                return Ok(answer);
            }
            let Some(said) = dialect.to_count(model, said) else {
                continue;
            };
            let held = self.held.beside(said.copied).ok_or_else(Refusal::no_room)?;
            let permit = candidate
                .is_fit(false)
                .then(|| place.state.admit_count())
                .flatten();
            let Some(permit) = permit else {
                let message =
                    "No upstream account of this model can count tokens now. Try again later.";
                refusal = Some(Refusal::new(What::NoCapacity, message).retry_after(1));
                continue;
            };
            (facts.served.account, facts.served.upstream_model) =
                (Some(place.account.id.clone()), Some(model.clone()));
            let began = Instant::now();
            let trace = facts
                .trace
                .as_ref()
                .filter(|_| self.shared.server.traces.is_some() && place.account.added.trace);
            let mut of_trace = Vec::new();
            let span = trace.map(|trace| outgoing::tell_trace(trace, &mut of_trace));
            let at = began.into_std().saturating_duration_since(self.head);
            let trail = &mut facts.attempts.trail;
            let mut running = RunningCount {
                trail,
                candidate,
                began,
                at,
                span,
                resent: 0,
                has_ended: false,
            };
            let asking = (&*facts.request.id, due, &*of_trace);
            let counted = self
                .ask_one(
                    candidate,
                    &said,
                    asking,
                    (Arc::new(permit), &mut running.resent),
                )
                .await;
            drop(held);
            let token = place.state.tokens.present();
            let secrets = place.secrets(token.as_ref());
            let has_failed = counted
                .as_ref()
                .is_err_and(|why| !matches!(why.class(), Class::Caller | Class::Ours));
            let sums = Sums {
                requests: 1,
                by_upstream: u32::from(has_failed),
                ..Sums::default()
            };
            candidate
                .track
                .series
                .add(&sums, None, Step::of(Clock::now()));
            running.end(counted.as_ref().err(), &secrets);
            let failure = match counted {
                Ok(answer) => {
                    facts.served.losses = said.losses;
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if failure.class() == Class::Credential {
                place.state.tokens.forget();
            }
            let is_nobody = matches!(
                failure,
                Failure::Status {
                    seen: 404 | 405 | 501,
                    ..
                }
            );
            let is_unreachable = matches!(
                failure,
                Failure::Unreachable(_)
                    | Failure::ConnectTimeout
                    | Failure::Tls { .. }
                    | Failure::Proxy { .. }
            );
            if is_nobody {
                refusal.get_or_insert_with(nobody);
                continue;
            }
            let why = failure.refusal(1, &secrets);
            if !is_unreachable {
                return Err(why);
            }
            // It may count later, whoever else cannot.
            refusal = Some(why);
        }
        Err(refusal.unwrap_or_else(nobody))
    }

    /// Writes the request as it would be sent.
    fn write(&self, candidate: &Candidate) -> Result<Outbound, Refusal> {
        let (family, account) = (candidate.family(), &candidate.place.account);
        let kept = |call: &str| {
            self.shared
                .vault
                .find(&self.key.id, family?, call, Clock::now())
        };
        let seal = family.map(|family| {
            AccountSeal::new(&self.shared.seals, &self.key.caller.id, family, account)
        });
        let sealed = seal
            .as_ref()
            .map_or(Sealed::Closed, |seal| Sealed::Opened(seal));
        admission::write(
            candidate,
            self.asked,
            EarlierThoughts {
                kept: &kept,
                sealed,
            },
        )
        .map_err(|refused| Refusal::unable(refused, &self.asked.envelope.model))
    }

    /// Asks one candidate, with these headers for its trace. After a stale connection it tries a
    /// fresh one.
    async fn ask_one(
        &self,
        candidate: &Candidate,
        said: &Outbound,
        (request_id, total, of_trace): (&str, Instant, &[(HeaderName, HeaderValue)]),
        (permit, resent): (Arc<Permit>, &mut u32),
    ) -> Result<Vec<u8>, Failure> {
        let (mut alarm, upstream) = (Alarm::default(), &self.shared.upstream);
        let mut headers = credential::headers(upstream, candidate, said, total, &mut alarm).await?;
        headers.extend_from_slice(of_trace);
        let (path, body, timeouts) = (&*said.path, &*said.body, candidate.timeouts);
        let outgoing = |fresh| Outgoing {
            request_id,
            path,
            headers: &headers,
            body,
            upload: None,
            stream: false,
            timeouts,
            total,
            fresh,
        };
        let attempt = match begun(
            self.shared,
            candidate,
            &permit,
            &outgoing(false),
            &mut alarm,
        )
        .await
        {
            Err(Failure::Stale) => {
                *resent = 1;
                begun(self.shared, candidate, &permit, &outgoing(true), &mut alarm).await
            }
            other => other,
        };
        let mut attempt = attempt.map_err(|failure| {
            if failure == Failure::Stale {
                Failure::unread()
            } else {
                failure
            }
        })?;
        if attempt.head().await?.0 != http::StatusCode::OK {
            return Err(attempt
                .refused(
                    &candidate.place.account.dialect,
                    self.asked.envelope.front,
                    total,
                    &mut alarm,
                )
                .await);
        }
        let answer = attempt.rest(MOST, total, &mut alarm).await?;
        attempt.finish().await;
        let (dialect, model) = (&candidate.place.account.dialect, &candidate.upstream_model);
        let counted = dialect.counted(model, self.asked.envelope.front, &answer);
        counted
            .ok_or_else(|| Failure::Nonsense("an answer without the number of tokens".to_owned()))
    }
}

/// Sends the request over one connection, and waits for the head of the answer.
async fn begun(
    shared: &Backends,
    candidate: &Candidate,
    permit: &Arc<Permit>,
    outgoing: &Outgoing<'_>,
    alarm: &mut Alarm,
) -> Result<Attempt, Failure> {
    let mut attempt = Attempt::begin(
        &shared.upstream,
        &candidate.place,
        permit.clone(),
        outgoing,
        alarm,
    )
    .await?;
    let head = alarm
        .until(outgoing.total, pin!(attempt.head()))
        .await
        .map(|head| head.map(drop));
    head.ok_or(Failure::TotalTimeout)?.map(|()| attempt)
}

/// Makes the refusal for a model of which nobody counts.
pub fn nobody() -> Refusal {
    let message = "No upstream account of this model counts the tokens of a request exactly, and this gateway \
                   does not guess. Estimate the number, or ask for another model.";
    Refusal::new(What::NobodyCounts, message).in_vain()
}

/// A count that runs. If it is dropped before its end, its caller has left, or the gateway shuts
/// down: the account was asked all the same.
struct RunningCount<'c> {
    trail: &'c mut Vec<Tried>,
    candidate: &'c Candidate,
    began: Instant,
    /// The time from the request's head until it began.
    at: Duration,
    span: Option<SpanId>,
    resent: u32,
    has_ended: bool,
}

impl RunningCount<'_> {
    /// Notes the attempt, and how it ended.
    fn end(mut self, failure: Option<&Failure>, secrets: &[&str]) {
        self.has_ended = true;
        let facts = failure.map(Failure::facts);
        let detail = failure.and_then(Failure::detail);
        let ended = Tried {
            outcome: facts.as_ref().map_or("ok", |facts| facts.name),
            status: facts.map_or(Some(200), |facts| facts.status),
            detail: detail.map(|detail| scrub(&detail, secrets).chars().take(200).collect()),
            ..self.tried()
        };
        self.trail.push(ended);
    }

    /// Returns the attempt as it is so far.
    fn tried(&self) -> Tried {
        Tried {
            account: self.candidate.place.account.id.clone(),
            model: self.candidate.upstream_model.clone(),
            outcome: CALLER_LEFT,
            times: 1,
            resent: self.resent,
            at_ms: millis(self.at),
            ms: millis(self.began.elapsed()),
            span: self.span,
            ..Tried::default()
        }
    }
}

impl Drop for RunningCount<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let tried = self.tried();
            self.trail.push(tried);
        }
    }
}
