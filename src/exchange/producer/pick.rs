//! Picks the next candidate: the first one that neither rests nor is full, and can do what is
//! asked. If the catalog allows waiting, it waits for the first candidate that is back or free.

use super::opening::Opening;
use super::progress::Progress;
use super::state::{Race, Running, Try};
use super::{Piece, Producer, Request};
use crate::account::Permit;
use crate::account::health::{Rest, Why};
use crate::account::queue::Ticket;
use crate::account::strategy;
use crate::account::target_health::AttemptGuard;
use crate::base::clock::Clock;
use crate::base::memory::Held;
use crate::error::Refusal;
use crate::exchange::admission::{self, EarlierThoughts};
use crate::exchange::choose::{CandidateScan, PassedOver, Prospect};
use crate::live::ready_account::ReadyAccount;
use crate::plan::Candidate;
use dialects::Outbound;
use dialects::neutral::Kept;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// The shortest pause between two looks at the candidates.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// The longest pause, since not every change wakes those who wait.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The role of an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// No other attempt runs: it is the first one, or follows one that failed.
    Alone,
    /// A slow first attempt runs.
    Hedge,
}

/// The candidate that was picked, and what its attempt begins with.
pub(super) struct Chosen<'x> {
    candidate: &'x Candidate,
    permit: Permit,
    guard: AttemptGuard,
    outbound: Outbound,
    memory: Held,
}

impl<'x> Producer<'x> {
    /// Begins the next attempt. If no candidate can be tried, returns the answer in reserve, or the
    /// refusal.
    pub(super) async fn begin_next_attempt(&mut self) -> Result<Option<Piece>, Refusal> {
        match self.try_to_begin().await {
            Ok(true) => Ok(None),
            Ok(false) => {
                let refusal = self.no_candidate_left();
                self.over(refusal)
            }
            Err(refusal) => self.over(refusal),
        }
    }

    /// Begins the next attempt, and waits for a place if it may. Returns false if there is no
    /// candidate.
    async fn try_to_begin(&mut self) -> Result<bool, Refusal> {
        let demand = &self.request.demand;
        if self.search.tries == 0 {
            demand.count_request(self.own_time.clock());
            Box::pin(self.fetch_missing_thoughts()).await;
        }
        self.strike_impossible();
        if !self.search.has_candidate_for(self.search.reach) {
            return Ok(false);
        }
        // A new request does not overtake those that wait.
        let after_others = self.search.tries == 0
            && self.request.model.queue.is_some()
            && !demand.queue.is_empty();
        if !after_others && let Some(chosen) = self.pick(None)? {
            self.start_attempt(chosen, Role::Alone);
            return Ok(true);
        }
        let has_begun_slice = self.request.meter.has_begun_slice();
        if !after_others && !self.may_wait(has_begun_slice) {
            return Ok(false);
        }
        let since = Instant::now();
        if let Some(race) = self.state.race() {
            *race = Race::Waiting(since);
        }
        let begun = self.wait(has_begun_slice).await;
        self.queued += since.elapsed();
        if let Some(race @ Race::Waiting(_)) = self.state.race() {
            *race = Race::Searching;
        }
        begun
    }

    /// Returns whether the last look passed over a candidate that will be back, and the request may
    /// wait for it. If slices of it are under way, it may always wait for a place. (A request with
    /// many inputs may be cut into slices.)
    fn may_wait(&self, has_begun_slice: bool) -> bool {
        let may_queue =
            self.request.model.queue.is_some() || (has_begun_slice && self.search.passed.is_full);
        may_queue
            && self.search.passed.count > 0
            && self.attempts.not_retried.is_none()
            && !self.needs_operator()
    }

    /// Waits in the model's queue until a candidate can be tried, and begins the attempt. Returns
    /// false if the queue is full, the time is over, or nothing is left to wait for. If slices of
    /// the request are under way, the queue is never full for it, and it waits for a free place as
    /// long as the exchange may last.
    async fn wait(&mut self, has_begun_slice: bool) -> Result<bool, Refusal> {
        let request: &'x Request = self.request;
        let Some(mut ticket) = self.enter_queue(has_begun_slice) else {
            return Ok(false);
        };
        let last_deadline = request
            .candidates
            .iter()
            .map(|candidate| self.total(candidate))
            .max()
            .unwrap_or(self.began);
        let longest_wait = request.model.queue.map_or(Duration::ZERO, |rule| rule.wait);
        // The time that the exchange has waited before counts.
        let wait_left = longest_wait.saturating_sub(self.queued);
        let queue_deadline = last_deadline.min(Instant::now() + wait_left);
        let mut due = if has_begun_slice {
            last_deadline
        } else {
            queue_deadline
        };
        if self.alarm.until(due, pin!(ticket.turn())).await.is_none() {
            return Ok(false);
        }
        loop {
            // The waiters are registered before the candidates are looked at, so that no wake-up is
            // lost.
            let mut waiters = Waiters::register(&request.candidates);
            if let Some(chosen) = self.pick(None)? {
                self.start_attempt(chosen, Role::Alone);
                return Ok(true);
            }
            if !self.may_wait(has_begun_slice) {
                return Ok(false);
            }
            // A request with slices under way waits for a place; for a rest, no longer than any
            // other.
            due = if has_begun_slice && self.search.passed.is_full {
                last_deadline
            } else {
                queue_deadline
            };
            let pause = self.search.passed.soonest.unwrap_or(MAX_PAUSE);
            let recheck_at = Instant::now() + pause.clamp(MIN_PAUSE, MAX_PAUSE);
            self.alarm
                .until(due.min(recheck_at), pin!(waiters.any_freed()))
                .await;
            if Instant::now() >= due {
                return Ok(false);
            }
        }
    }

    /// Takes the last place in the model's queue. Returns `None` if the queue is full.
    fn enter_queue(&mut self, has_begun_slice: bool) -> Option<Ticket> {
        let demand = &self.request.demand;
        let is_first = self.search.tries == 0;
        let queue = if is_first {
            &demand.queue
        } else {
            &demand.failover_queue
        };
        if has_begun_slice {
            return Some(queue.enter_uncounted());
        }
        let length = self.request.model.queue.map_or(0, |rule| rule.length);
        let ticket = queue.enter(length);
        if ticket.is_none() {
            self.attempts.shed = is_first;
        }
        ticket
    }

    /// Picks the next candidate that can be tried, and writes the request for it. If
    /// `running_candidate` is set, the attempt is a hedge: only another account is picked, for the
    /// same model.
    pub(super) fn pick(
        &mut self,
        running_candidate: Option<&'x Candidate>,
    ) -> Result<Option<Chosen<'x>>, Refusal> {
        self.search.passed = PassedOver::default();
        if self.search.is_exhausted() {
            return Ok(None);
        }
        self.strike_impossible();
        let request: &'x Request = self.request;
        // True if the attempt follows one that failed.
        let is_retry = self.search.tries > 0 && running_candidate.is_none();
        let mut is_budget_spent = false;
        let key_hash = strategy::stable_hash(request.rights.key.bytes());
        let mut scan = CandidateScan::new(running_candidate);
        while let Some(prospect) = self.search.next_candidate(&mut scan) {
            let candidate = prospect.candidate;
            if self.is_too_late(&prospect) {
                if is_retry {
                    self.attempts.not_retried = Some("deadline");
                }
                continue;
            }
            let now = self.own_time.clock();
            let needs_retry_budget = is_retry && !candidate.health.is_sound(now);
            // The budget was refused once: do not use up another breaker's probe for nothing.
            if needs_retry_budget && is_budget_spent {
                continue;
            }
            let (permit, guard) =
                match admission::admit_attempt(candidate, key_hash, prospect.is_last_resort, now) {
                    Ok(admitted) => admitted,
                    Err(why) => {
                        self.search.pass_over(&prospect, why, now);
                        continue;
                    }
                };
            if needs_retry_budget && !request.demand.allow_retry(now) {
                // A later candidate may be sound.
                is_budget_spent = true;
                self.attempts.not_retried = Some("budget");
                continue;
            }
            let written = self.with_thoughts(candidate, |thoughts| {
                admission::write_request(candidate, self.callers_request(), thoughts)
            });
            let outbound = match written {
                Ok(outbound) => outbound,
                // Another candidate may be less strict: an upstream that takes the caller's own
                // format checks the request itself.
                Err(refused) => {
                    self.search.strike_target(candidate);
                    self.search.note_unable(refused);
                    continue;
                }
            };
            let held = self
                .memory
                .request
                .hold_separately(outbound.copied)
                .ok_or_else(Refusal::no_room)?;
            self.search.strike_target(candidate);
            self.attempts.not_retried = None;
            return Ok(Some(Chosen {
                candidate,
                permit,
                guard,
                outbound,
                memory: held,
            }));
        }
        Ok(None)
    }

    /// Strikes out the candidates that can never take this request. This is done before any is
    /// passed over for a reason that ends: else the caller would get a `retry-after` for a request
    /// that can never pass.
    fn strike_impossible(&mut self) {
        let reach = self.search.reach;
        let envelope = &self.request.envelope;
        let may_be_refused = envelope.may_refer() || envelope.names_models();
        // It may have been done for this reach already.
        if !may_be_refused || self.struck_for_reach.replace(reach) == Some(reach) {
            return;
        }
        let request: &'x Request = self.request;
        for index in 0..request.candidates.len() {
            let Some(candidate) = self.search.open_candidate(index, None) else {
                continue;
            };
            let refused = self.with_thoughts(candidate, |thoughts| {
                admission::lasting_refusal(candidate, self.callers_request(), thoughts)
            });
            if let Some(refused) = refused {
                self.search.strike_target(candidate);
                self.search.note_unable(refused);
            }
        }
    }

    /// Returns whether a candidate's attempt would probably end too late.
    fn is_too_late(&self, prospect: &Prospect<'_>) -> bool {
        // A first attempt may begin although it will probably be too late, if no other candidate is
        // left: the guess may be wrong.
        let must_finish_in_time = self.search.tries > 0
            || self.state.waiting().is_some()
            || (self.request.timeout.is_some() && !prospect.is_last_resort);
        must_finish_in_time && !self.can_finish(prospect.candidate)
    }

    /// Calls a function with the thoughts of earlier answers that a candidate gets back.
    fn with_thoughts<R>(
        &self,
        candidate: &Candidate,
        write: impl FnOnce(EarlierThoughts<'_>) -> R,
    ) -> R {
        let kept = self.kept_for(candidate);
        let seal = self.request.seal_of(&self.shared.seals, candidate);
        write(EarlierThoughts {
            find_kept: &kept,
            sealed: self.sealed(seal.as_ref()),
        })
    }

    /// Begins an attempt in this role.
    pub(super) fn start_attempt(&mut self, chosen: Chosen<'x>, role: Role) {
        let Chosen {
            candidate,
            permit,
            guard,
            mut outbound,
            memory: held,
        } = chosen;
        if self.search.tries == 0 && self.request.model.queue.is_some() {
            self.request.demand.queue.admitted(Clock::now());
        }
        self.search.tries += 1;
        self.last_candidate.get_or_insert(candidate);
        let losses = std::mem::take(&mut outbound.losses);
        let progress = Arc::new(Progress::default());
        self.request.meter.note_attempt(candidate, &progress);
        let opening = Opening {
            shared: self.shared,
            own_time: self.own_time,
            request: self.request,
            candidate,
            outbound,
            upload: self.memory.upload.clone(),
            permit: Arc::new(permit),
            total: self.total(candidate),
            progress: progress.clone(),
        };
        // The future is boxed: once a stream runs, the memory for its opening is freed.
        let end = Box::pin(opening.open(held));
        let attempt = Try {
            candidate,
            began: Instant::now(),
            guard,
            progress,
            has_failed: false,
            given_up_ms: 0,
        };
        if let Some(race) = self.state.race() {
            race.add(Running {
                attempt,
                is_hedge: role == Role::Hedge,
                no_thoughts: self.no_thoughts,
                losses,
                end,
            });
        }
    }

    /// Returns whether a candidate seems free now. Nothing is reserved.
    pub(super) fn has_candidate_left(&self, running_candidate: Option<&'x Candidate>) -> bool {
        let stream = self.request.envelope.stream;
        let mut open = self.search.open_candidates(running_candidate);
        !self.search.is_exhausted()
            && open.any(|one| one.is_fit(stream) && !is_full(&one.ready_account))
    }

    /// Returns whether there is enough time left for a candidate.
    fn can_finish(&self, candidate: &Candidate) -> bool {
        let left = self
            .total(candidate)
            .saturating_duration_since(Instant::now());
        let expected = candidate
            .health
            .expected(self.request.envelope.stream, Clock::now());
        left > expected.unwrap_or_default()
    }

    /// Returns the time until the first candidate is back. Returns `None` unless all that serve the
    /// model rest for a rate limit.
    pub(super) fn rate_limit_wait(&self) -> Option<Duration> {
        let now = Clock::now();
        let mut soonest: Option<Duration> = None;
        for rest in self
            .search
            .open_candidates(None)
            .map(|candidate| current_rest(candidate, now))
        {
            if rest.is_some_and(|rest| rest.why == Why::Refused) {
                continue;
            }
            let rest = rest.filter(|rest| rest.why == Why::Rate)?;
            let wait = rest.until.saturating_duration_since(now);
            soonest = Some(soonest.map_or(wait, |sooner| sooner.min(wait)));
        }
        soonest
    }

    /// Returns whether only the operator can help: each candidate that was tried has refused our
    /// credential, and each other one rests for a reason that only the operator can end.
    pub(super) fn needs_operator(&self) -> bool {
        let now = Clock::now();
        let mut left = self.search.open_candidates(None);
        !self.failures.may_recover
            && left.all(|candidate| {
                current_rest(candidate, now).is_some_and(|rest| rest.why.is_for_the_operator())
            })
    }

    /// Returns a function that finds the thoughts that were kept for a candidate, by their call.
    fn kept_for(&self, candidate: &Candidate) -> impl Fn(&str) -> Option<Kept> + use<'x> {
        let (shared, request) = (self.shared, self.request);
        let family = candidate.family();
        move |call: &str| {
            let family = family?;
            shared
                .vault
                .find(&request.rights.key, family, call, Clock::now())
        }
    }
}

/// The waiters for a change at the candidates' accounts.
struct Waiters<'x>(Vec<Pin<Box<Notified<'x>>>>);

impl<'x> Waiters<'x> {
    /// Registers a waiter at the account of each candidate.
    fn register(candidates: &'x [Candidate]) -> Waiters<'x> {
        let mut notices: Vec<Pin<Box<Notified<'x>>>> = candidates
            .iter()
            .map(|candidate| Box::pin(candidate.ready_account.state.freed.notified()))
            .collect();
        for notice in &mut notices {
            notice.as_mut().enable();
        }
        Waiters(notices)
    }

    /// Is ready once a place at one of the accounts is free, or an account is back.
    fn any_freed(&mut self) -> impl Future<Output = ()> {
        std::future::poll_fn(move |context| {
            let mut notices = self.0.iter_mut();
            if notices.any(|notice| notice.as_mut().poll(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

fn is_full(ready_account: &ReadyAccount) -> bool {
    let limit = ready_account.account.concurrency;
    limit.is_some_and(|limit| ready_account.state.in_flight() >= limit)
}

/// Returns the rest of a candidate's account, or of its target.
fn current_rest(candidate: &Candidate, now: std::time::Instant) -> Option<Rest> {
    candidate
        .state()
        .health
        .rest(now)
        .or_else(|| candidate.health.rest(now))
}
