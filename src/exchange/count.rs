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
use super::upstream::Reuse;
use crate::account::Permit;
use crate::account::failure::{Class, Failure};
use crate::base::alarm::Alarm;
use crate::base::clock::Clock;
use crate::base::memory::Held;
use crate::base::trace_context::SpanId;
use crate::catalog::Key;
use crate::error::{FailureKind, Refusal, scrub_secret_words};
use crate::plan::Candidate;
use crate::seal::AccountSeal;
use crate::series::{StepMoment, Sums};
use crate::settled::{Settled, Tried, whole_millis};
use dialects::Outbound;
use dialects::neutral::seal::Sealed;
use http::{HeaderName, HeaderValue};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for a count, with all its tries.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer: it is hardly more than a number.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A request whose tokens are counted.
pub struct TokenCount<'c> {
    /// The parts through which providers are asked.
    pub shared: &'c Backends,
    /// The request, and what its caller may use.
    pub request: CallersRequest<'c>,
    /// The memory that the body holds.
    pub memory: Held,
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
    pub async fn ask_accounts(
        &self,
        candidates: &[Candidate],
        facts: &mut Settled,
    ) -> Result<Vec<u8>, Refusal> {
        let due = Instant::now()
            + self
                .timeout
                .map_or(COUNT_TIMEOUT, |timeout| timeout.min(COUNT_TIMEOUT));
        let mut refusal = None;
        for candidate in candidates
            .iter()
            .filter(|candidate| candidate.account().dialect.counts())
        {
            let (ready_account, model) = (&candidate.ready_account, &candidate.upstream_model);
            let outbound = match self.write(candidate) {
                Ok(outbound) => outbound,
                Err(why) => {
                    refusal.get_or_insert(why);
                    continue;
                }
            };
            let dialect = &ready_account.account.dialect;
            if let Some(answer) = dialect.count_here(self.request.envelope.front, &outbound) {
                (facts.served.account, facts.served.losses) =
                    (Some(ready_account.account.id.clone()), outbound.losses);
                return Ok(answer);
            }
            let Some(outbound) = dialect.to_count(model, outbound) else {
                continue;
            };
            let held = self
                .memory
                .hold_separately(outbound.copied)
                .ok_or_else(Refusal::no_room)?;
            let permit = candidate
                .is_fit(false)
                .then(|| ready_account.state.admit_count())
                .flatten();
            let Some(permit) = permit else {
                let message =
                    "No upstream account of this model can count tokens now. Try again later.";
                refusal = Some(Refusal::new(FailureKind::NoCapacity, message).retry_after(1));
                continue;
            };
            (facts.served.account, facts.served.upstream_model) =
                (Some(ready_account.account.id.clone()), Some(model.clone()));
            let began = Instant::now();
            let trace = facts.trace.as_ref().filter(|_| {
                self.shared.server.traces.is_some() && ready_account.account.added_fields.trace
            });
            let mut of_trace = Vec::new();
            let span = trace.map(|trace| outgoing::add_trace_headers(trace, &mut of_trace));
            let started_after = began.into_std().saturating_duration_since(self.head);
            let trail = &mut facts.attempts.trail;
            let mut running = RunningCount {
                trail,
                candidate,
                began,
                started_after,
                span,
                resent: 0,
                has_ended: false,
            };
            let attempt = CountAttempt {
                request_id: &facts.request.id,
                due,
                trace: &of_trace,
                permit: Arc::new(permit),
            };
            let counted = self
                .ask_account(candidate, &outbound, attempt, &mut running.resent)
                .await;
            drop(held);
            let token = ready_account.state.identity.present();
            let secrets = ready_account.secrets(token.as_ref());
            let has_failed = counted
                .as_ref()
                .is_err_and(|why| !matches!(why.class(), Class::Caller | Class::Ours));
            let sums = Sums {
                requests: 1,
                by_upstream: u32::from(has_failed),
                ..Sums::default()
            };
            candidate
                .health
                .series
                .add(&sums, None, StepMoment::from_instant(Clock::now()));
            running.end(counted.as_ref().err(), &secrets);
            let failure = match counted {
                Ok(answer) => {
                    facts.served.losses = outbound.losses;
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if failure.class() == Class::Credential {
                ready_account.state.identity.forget();
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
                refusal.get_or_insert_with(uncounted_refusal);
                continue;
            }
            let why = failure.refusal(1, &secrets);
            if !is_unreachable {
                return Err(why);
            }
            // It may count later, whoever else cannot.
            refusal = Some(why);
        }
        Err(refusal.unwrap_or_else(uncounted_refusal))
    }

    /// Writes the request as it would be sent.
    fn write(&self, candidate: &Candidate) -> Result<Outbound, Refusal> {
        let (family, account) = (candidate.family(), candidate.account());
        let seal = family.map(|family| {
            AccountSeal::new(&self.shared.seals, &self.key.caller.id, family, account)
        });
        let sealed = seal
            .as_ref()
            .map_or(Sealed::Closed, |seal| Sealed::Opened(seal));
        admission::write_request(
            candidate,
            self.request,
            EarlierThoughts {
                find_kept: &|call| {
                    let vault = &self.shared.vault;
                    vault.find(&self.key.id, family?, call, Clock::now())
                },
                sealed,
            },
        )
        .map_err(|refused| Refusal::unable(refused, &self.request.envelope.model))
    }

    /// Asks one candidate. After a stale connection it tries a fresh one.
    async fn ask_account(
        &self,
        candidate: &Candidate,
        outbound: &Outbound,
        attempt: CountAttempt<'_>,
        resent: &mut u32,
    ) -> Result<Vec<u8>, Failure> {
        let CountAttempt {
            request_id,
            due: total,
            trace,
            permit,
        } = attempt;
        let mut alarm = Alarm::default();
        let mut headers = credential::candidate_headers(candidate, outbound, total).await?;
        headers.extend_from_slice(trace);
        let mut outgoing = Outgoing {
            method: None,
            request_id,
            path: &outbound.path,
            headers: &headers,
            body: &outbound.body,
            upload: None,
            stream: false,
            timeouts: candidate.timeouts,
            total,
            reuse: Reuse::Allowed,
        };
        let mut started =
            open_attempt(self.shared, candidate, &permit, &outgoing, &mut alarm).await;
        if let Err(Failure::Stale) = started {
            *resent = 1;
            outgoing.reuse = Reuse::Forbidden;
            started = open_attempt(self.shared, candidate, &permit, &outgoing, &mut alarm).await;
        }
        let mut attempt = started.map_err(Failure::after_last_try)?;
        if attempt.head().await?.0 != http::StatusCode::OK {
            return Err(attempt
                .read_refusal(
                    &candidate.account().dialect,
                    self.request.envelope.front,
                    total,
                    &mut alarm,
                )
                .await);
        }
        let answer = attempt
            .read_rest(MAX_ANSWER_BYTES, total, &mut alarm)
            .await?;
        attempt.finish().await;
        let (dialect, model) = (&candidate.account().dialect, &candidate.upstream_model);
        let counted = dialect.counted(model, self.request.envelope.front, &answer);
        counted
            .ok_or_else(|| Failure::Nonsense("an answer without the number of tokens".to_owned()))
    }
}

/// An attempt to have the tokens of a request counted.
struct CountAttempt<'a> {
    request_id: &'a str,
    /// The time at which the count must have come.
    due: Instant,
    /// The headers for the attempt's trace.
    trace: &'a [(HeaderName, HeaderValue)],
    permit: Arc<Permit>,
}

/// Sends the request over one connection, and waits for the head of the answer.
async fn open_attempt(
    shared: &Backends,
    candidate: &Candidate,
    permit: &Arc<Permit>,
    outgoing: &Outgoing<'_>,
    alarm: &mut Alarm,
) -> Result<Attempt, Failure> {
    let mut attempt = Attempt::connect_and_send(
        &shared.upstream,
        &candidate.ready_account,
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

/// Makes the refusal for a model whose tokens cannot be counted.
pub fn uncounted_refusal() -> Refusal {
    let message = "No upstream account of this model counts the tokens of a request exactly, and this gateway \
                   does not guess. Estimate the number, or ask for another model.";
    Refusal::new(FailureKind::CountUnsupported, message).without_retry()
}

/// A count that runs. If it is dropped before its end, its caller has left, or the gateway shuts
/// down: the account was asked all the same.
struct RunningCount<'c> {
    trail: &'c mut Vec<Tried>,
    candidate: &'c Candidate,
    began: Instant,
    /// The time from the request's head until it began.
    started_after: Duration,
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
            detail: detail.map(|detail| {
                scrub_secret_words(&detail, secrets)
                    .chars()
                    .take(200)
                    .collect()
            }),
            ..self.tried()
        };
        self.trail.push(ended);
    }

    /// Returns the attempt as it is so far.
    fn tried(&self) -> Tried {
        Tried {
            account: self.candidate.account().id.clone(),
            model: self.candidate.upstream_model.clone(),
            outcome: CALLER_LEFT,
            count: 1,
            resent: self.resent,
            at_ms: whole_millis(self.started_after),
            ms: whole_millis(self.began.elapsed()),
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
