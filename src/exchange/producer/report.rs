//! Reports the end of an attempt to the account and the target, to the log, to the trail, and to
//! the caller if no other attempt answers.

use super::Producer;
use super::progress::AttemptTimes;
use super::state::{Counted, Try};
use crate::account::breaker::BreakerState;
use crate::account::failure::{self, Class, Facts, Failure, Setback};
use crate::account::health::Why;
use crate::account::target_health::{FailureEffect, Trouble};
use crate::base::clock::Clock;
use crate::error::{FailureKind, Refusal, scrub_secret_words, seconds_of};
use crate::exchange::advice;
use crate::exchange::choose::NoCandidate;
use crate::plan::Candidate;
use crate::series::{StepMoment, Sums, WaitRange};
use crate::settled::{Tried, whole_millis};
use dialects::Endpoint;
use dialects::usage::{Source, Usage};
use dialects::wire::shorten_text;
use std::time::Duration;

/// How much of a failed answer the caller got.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerGot {
    Nothing,
    Part,
}

impl<'x> Producer<'x> {
    /// Returns the trail of attempts and the times of the exchange, for keys that may see them.
    pub fn trail_so_far(&self) -> Option<(String, String)> {
        self.debug(
            self.state
                .streaming()
                .map(|live| (&live.attempt, "running")),
            self.times,
        )
    }

    /// Returns the trail of attempts, with `last` as an attempt and its outcome that are not in it
    /// yet, and the times of the exchange.
    pub(super) fn debug(
        &self,
        last: Option<(&Try<'_>, &str)>,
        times: AttemptTimes,
    ) -> Option<(String, String)> {
        let before = self.request.debug?;
        let last = last.map(|(attempt, outcome)| {
            let account = &attempt.candidate.account().id;
            format!(
                "{account};{outcome};{}ms",
                whole_millis(attempt.began.elapsed())
            )
        });
        let ended = self.attempts.trail.iter().map(|tried| {
            let status = tried.status.filter(|status| *status != 200);
            let status = status.map_or_else(String::new, |status| format!("({status})"));
            let (account, outcome, often) = (&tried.account, tried.outcome, tried.count_text(";"));
            format!("{account};{outcome}{status};{}ms{often}", tried.ms)
        });
        let attempts: Vec<String> = ended.chain(last).collect();
        let queued = Some(self.queued()).filter(|queued| !queued.is_zero());
        let own = before.own_time + self.own_time.so_far();
        let parts = [
            ("auth", before.auth),
            ("plan", before.plan),
            ("queue", queued),
            ("connect", times.connect),
            ("first_byte", times.first_byte),
            ("own", Some(own)),
        ];
        let parts = parts.into_iter().filter_map(|(name, time)| {
            Some(format!("{name};dur={:.3}", time?.as_secs_f64() * 1e3))
        });
        Some((attempts.join(", "), parts.collect::<Vec<_>>().join(", ")))
    }

    pub(super) fn no_candidate_left(&mut self) -> Refusal {
        if let Some(failure) = self.failures.last_failure.take() {
            if self.search.passed.count > 0 {
                self.attempts.not_retried.get_or_insert("nobody_fit");
            }
            if failure.class() == Class::Credential && !self.needs_operator() {
                return self.somebody_else_later();
            }
            return self.refusal(&failure);
        }
        let needs_operator = self.needs_operator();
        let reason = match self.search.why_none(needs_operator) {
            NoCandidate::Unable(refused) => {
                return Refusal::unable(refused, &self.request.answer_header.model);
            }
            NoCandidate::ForTheOperator => {
                return Refusal::for_the_operator(FailureKind::NoHealthyAccount);
            }
            NoCandidate::RateLimited => Refusal::new(
                FailureKind::AllRateLimited,
                "All upstream accounts of this model have reached their rate limits. Try again later.",
            ),
            NoCandidate::Overloaded => Refusal::overloaded(),
            NoCandidate::Busy => Refusal::new(
                if self.search.passed.is_full {
                    FailureKind::NoCapacity
                } else {
                    FailureKind::NoHealthyAccount
                },
                "No upstream account of this model can take the request now. Try again later.",
            ),
        };
        let seconds = self.search.passed.retry_after.map_or(1, seconds_of);
        if self.attempts.shed || !self.queued().is_zero() {
            // A request that was never first in line has not looked at the candidates.
            let limited = self.rate_limit_wait();
            let code = if limited.is_some() {
                FailureKind::AllRateLimited
            } else {
                FailureKind::NoCapacity
            };
            let seconds = limited.map_or(seconds, |wait| wait.as_secs() + 1);
            let wait = self.request.demand.queue.retry_after(Clock::now());
            let message = if self.attempts.shed {
                "All upstream accounts of this model are busy, and the queue is full. Try again later."
            } else {
                "No upstream account of this model became free while the request waited. Try again later."
            };
            return Refusal::new(code, message).retry_after(wait.max(seconds));
        }
        reason.retry_after(seconds)
    }

    /// Returns the time until the first account is back by itself, if one will be.
    fn soonest(&self) -> Option<Duration> {
        [self.search.passed.retry_after, self.failures.limited]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the refusal after the last account's credential was refused, if another account will
    /// be back by itself: that is no reason for the caller to give up.
    fn somebody_else_later(&self) -> Refusal {
        Refusal::new(
            FailureKind::UpstreamUnavailable,
            "No upstream account of this model could answer. Try again later.",
        )
        .retry_after(self.soonest().map_or(failure::UNREACHABLE, seconds_of))
        .after_tries(self.search.tries)
    }

    pub(super) fn refusal(&self, failure: &Failure) -> Refusal {
        if *failure == Failure::Cut && !self.state.is_committed() {
            // The caller has received no part of the answer.
            return Refusal::new(
                FailureKind::BadUpstreamResponse,
                "The upstream ended its answer before it was complete. Try again.",
            )
            .after_tries(self.search.tries);
        }
        let ready_account = self.candidate().map(|c| &c.ready_account);
        let token = ready_account.and_then(|ready_account| ready_account.state.identity.present());
        let secrets = ready_account
            .map(|ready_account| ready_account.secrets(token.as_ref()))
            .unwrap_or_default();
        let refusal = failure.refusal(self.search.tries, &secrets);
        // Another account may be back sooner than the last one that was tried.
        if let Some(wait) = self.soonest().filter(|_| failure.class() == Class::Rate) {
            if self.search.tries < 2 && wait < failure::MAX_COOL {
                return refusal.again_in(Some(wait));
            }
            return refusal.retry_after(seconds_of(wait));
        }
        refusal
    }

    /// Notes a failure for the account, the target and the trail.
    pub(super) fn report_failure(
        &mut self,
        failure: &Failure,
        attempt: &mut Try<'x>,
        caller_got: CallerGot,
    ) {
        let candidate = attempt.candidate;
        let (facts, retry_after) = (failure.facts(), failure.retry_after());
        let (account, state) = (candidate.account(), candidate.state());
        let (now, stream) = (Clock::now(), self.request.envelope.stream);
        // An attempt may have had less time than its account allows, since the caller has less or
        // other attempts took it. Then the total timeout is not the account's fault.
        let given = if stream {
            candidate.timeouts.total_stream
        } else {
            candidate.timeouts.total
        };
        let hurried = *failure == Failure::TotalTimeout
            && self
                .total(candidate)
                .saturating_duration_since(attempt.began)
                < given.mul_f64(0.9);
        let class = state.class_of(failure, candidate.health.endpoint, now);
        let class = if hurried { Class::Ours } else { class };
        let mut news = attempt.guard.record_failure(
            Setback { class, retry_after },
            stream,
            attempt.began.elapsed(),
            now,
        );
        let token = state.identity.present();
        if facts.class == Class::Credential {
            state.identity.forget();
        }
        if class == Class::Credential {
            news.rest = state.health.record_failure(now);
        }
        if class == Class::Refused {
            self.search.note_refused(candidate);
        }
        if facts.class == Class::Rate {
            let wait = failure::rate_cool(retry_after);
            self.failures.limited = Some(
                self.failures
                    .limited
                    .map_or(wait, |sooner| sooner.min(wait)),
            );
        }
        self.failures.may_recover |= matches!(
            facts.class,
            Class::Rate | Class::Overloaded | Class::Refused | Class::Transient
        );
        let secrets = candidate.ready_account.secrets(token.as_ref());
        let refused = news.rest.is_some_and(|rest| rest.why == Why::Credential);
        let advice = refused.then(|| advice::on_credential(failure, account, &secrets));
        let detail: Option<String> = failure
            .detail()
            .map(|detail| shorten_text(&scrub_secret_words(&detail, &secrets), 200));
        self.report(
            candidate,
            news,
            Some(&facts),
            advice.as_deref().or(detail.as_deref()),
        );
        if !matches!(facts.class, Class::Caller | Class::Ours) {
            let trouble = Trouble {
                outcome: facts.name,
                status: facts.status,
                detail: detail.clone(),
                failed_at: now,
            };
            let is_tls = matches!(failure, Failure::Tls { .. });
            let is_told = is_tls || matches!(failure, Failure::Proxy { .. });
            if candidate.health.record_trouble(trouble) && is_told {
                let symptom = if is_tls {
                    "TLS failed for"
                } else {
                    "no connection for"
                };
                let (id, model, why) = (
                    &account.id,
                    &candidate.upstream_model,
                    detail.as_deref().unwrap_or_default(),
                );
                log::warn!("account {id}: {symptom} {model}: {why} (logged once)");
            }
        }
        attempt.has_failed = !matches!(class, Class::Caller | Class::Ours);
        // These are the flaws of the last answer, unless a later one is whole.
        if let Failure::BrokenCall(calls) = failure {
            self.served.flaws.broken_calls = *calls;
        }
        let billed = attempt
            .progress
            .unused(self.request.answer_header.prompt_bytes, facts.maybe_billed);
        self.attempts.maybe_billed |= facts.maybe_billed || billed.is_some();
        let unused = billed.filter(|_| caller_got == CallerGot::Nothing);
        self.note(attempt, facts.name, facts.status, unused);
        if let Some(tried) = self.attempts.trail.last_mut() {
            tried.detail = detail;
        }
    }

    /// Logs what begins or ends for a target, after a failure or an answer.
    pub(super) fn report(
        &self,
        candidate: &Candidate,
        news: FailureEffect,
        failure: Option<&Facts<'_>>,
        why: Option<&str>,
    ) {
        let (account, model) = (
            &candidate.account().id,
            candidate.health.name(&candidate.upstream_model),
        );
        let after = failure.map_or("an answer".into(), Facts::outcome_text);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        if let Some(rest) = news.rest {
            let seconds = rest.until.saturating_duration_since(Clock::now()).as_secs() + 1;
            log::warn!(
                "account {account} rests: it gets no request for {seconds} s ({}) after {after} for {model}{why}",
                rest.why.name()
            );
        }
        let hint = match news.breaker {
            Some(BreakerState::Open(until)) => {
                let wait = until.saturating_duration_since(Clock::now());
                let seconds = wait.as_secs() + 1;
                log::warn!(
                    "account {account} gets no request for {model} for {seconds} s: its breaker opened after {after}{why}"
                );
                Some(wait)
            }
            Some(BreakerState::Closed) => {
                log::info!(
                    "account {account} works again for {model}: its breaker closed after {after}"
                );
                Some(Duration::ZERO)
            }
            Some(BreakerState::HalfOpen { .. }) | None => None,
        };
        if let (Some(store), Some(time)) = (&self.shared.store, hint) {
            store.hint(account, &model, time);
        }
    }

    /// Adds an attempt to the trail, and counts it. `unused` is the usage that may be charged for
    /// an answer that nobody got. Returns what is counted for its target.
    pub(super) fn note(
        &mut self,
        attempt: &Try<'_>,
        outcome: &'static str,
        status: Option<u16>,
        unused: Option<Usage>,
    ) -> Counted {
        let candidate = attempt.candidate;
        if let Some(name) = unused.unwrap_or(self.usage).doubted
            && candidate.state().record_impossible_count(Clock::now())
        {
            let (account, model) = (&candidate.account().id, &candidate.upstream_model);
            log::warn!(
                "account {account} reported an impossible `{name}` for {model}: the gateway \
                 ignores the reported usage and estimates it (logged once an hour)"
            );
        }
        // If an attempt has ended and was not in vain, its usage is the exchange's own.
        let used =
            Some(self.usage).filter(|usage| unused.is_none() && usage.source != Source::None);
        let AttemptTimes {
            connect,
            first_byte,
        } = attempt.progress.times();
        let took = self.time_since(attempt.began);
        let counted = self.count(attempt, unused.unwrap_or(self.usage), first_byte, took);
        let (span, labels, resent) = attempt.progress.take_trace_facts();
        self.attempts.trail.push(Tried {
            account: candidate.account().id.clone(),
            model: candidate.upstream_model.clone(),
            endpoint: Some(candidate.health.endpoint)
                .filter(|kind| *kind != Endpoint::Chat)
                .map(Endpoint::name),
            outcome,
            count: 1,
            resent,
            at_ms: whole_millis(self.request.meter.since_head(attempt.began.into_std())),
            ms: whole_millis(took),
            status,
            connect_ms: connect.map(whole_millis),
            first_ms: first_byte.map(whole_millis),
            prompt_tokens: unused.map(|used| used.prompt),
            completion_tokens: unused.map(|used| used.completion),
            cost: unused.map(|used| candidate.price.map(|price| price.cost(&used))),
            detail: None,
            gives_usage: used.is_some(),
            span,
            labels,
            parts: Vec::new(),
        });
        self.request
            .meter
            .note_end(&attempt.progress, used, &self.attempts.trail);
        counted
    }

    /// Counts an attempt for its target, and returns what is counted. `first` is the time until the
    /// answer began.
    fn count(
        &self,
        attempt: &Try<'_>,
        usage: Usage,
        first: Option<Duration>,
        took: Duration,
    ) -> Counted {
        // Tokens of which nothing is seen were written at an unknown speed.
        let tokens = if first.is_some() { usage.completion } else { 0 };
        let first_token = first.filter(|_| self.request.envelope.stream);
        let writing = if tokens > 0 {
            took.saturating_sub(first_token.unwrap_or_default())
        } else {
            Duration::ZERO
        };
        let sums = Sums {
            requests: 1,
            by_upstream: u32::from(attempt.has_failed),
            given_up: u32::from(attempt.given_up_ms > 0),
            given_up_waits: Some(attempt.given_up_ms)
                .filter(|wait_ms| *wait_ms > 0)
                .map(WaitRange::from_one),
            output_tokens: tokens,
            writing_ms: whole_millis(writing),
            ..Sums::default()
        };
        let ended = Clock::time_at((attempt.began + took).into_std());
        let moment = StepMoment::from_instant(ended);
        let series = &attempt.candidate.health.series;
        series.add(&sums, first_token, moment);
        Counted {
            sums,
            first_token,
            moment,
        }
    }
}
