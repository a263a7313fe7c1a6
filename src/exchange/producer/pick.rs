//! Picks the next candidate: the first one that neither rests nor is full, and can do what is
//! asked. If the catalog allows waiting, it waits for the first candidate that is back or free.

use super::opening::Opening;
use super::progress::Progress;
use super::state::{Race, Running, Try};
use super::{Piece, Producer, Request};
use crate::account::Permit;
use crate::account::health::{Rest, Why};
use crate::account::strategy;
use crate::account::target_health::AttemptGuard;
use crate::base::clock::Clock;
use crate::base::memory::Held;
use crate::catalog::Queue;
use crate::error::Refusal;
use crate::exchange::admission::{self, EarlierThoughts};
use crate::exchange::choose::{CandidateScan, PassedOver};
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
    /// No other attempt runs.
    First,
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
            self.start_attempt(chosen, Role::First);
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

    /// Waits in the model's queue until a candidate can be tried. If slices of the request are
    /// under way, it is not turned away while it waits for a place.
    async fn wait(&mut self, has_begun_slice: bool) -> Result<bool, Refusal> {
        let request: &'x Request = self.request;
        let queue = request.model.queue.unwrap_or(Queue {
            length: 0,
            wait: Duration::ZERO,
        });
        let is_first = self.search.tries == 0;
        let line = if is_first {
            &request.demand.queue
        } else {
            &request.demand.failover_queue
        };
        let ticket = if has_begun_slice {
            Some(line.enter_uncounted())
        } else {
            line.enter(queue.length)
        };
        let Some(mut ticket) = ticket else {
            self.attempts.shed = is_first;
            return Ok(false);
        };
        let latest = request
            .candidates
            .iter()
            .map(|candidate| self.total(candidate))
            .max()
            .unwrap_or(self.began);
        let queue_deadline = latest.min(Instant::now() + queue.wait.saturating_sub(self.queued));
        let mut due = if has_begun_slice {
            latest
        } else {
            queue_deadline
        };
        if self.alarm.until(due, pin!(ticket.turn())).await.is_none() {
            return Ok(false);
        }
        loop {
            // The listening begins before the look, so that no wake-up is lost.
            let mut freed: Vec<Pin<Box<Notified<'x>>>> = request
                .candidates
                .iter()
                .map(|c| Box::pin(c.ready_account.state.freed.notified()))
                .collect();
            for freed in &mut freed {
                freed.as_mut().enable();
            }
            if let Some(chosen) = self.pick(None)? {
                self.start_attempt(chosen, Role::First);
                return Ok(true);
            }
            if !self.may_wait(has_begun_slice) {
                return Ok(false);
            }
            due = if has_begun_slice && self.search.passed.is_full {
                latest
            } else {
                queue_deadline
            };
            let pause = self.search.passed.soonest.unwrap_or(MAX_PAUSE);
            let recheck_at = Instant::now() + pause.clamp(MIN_PAUSE, MAX_PAUSE);
            let any = std::future::poll_fn(|context| {
                if freed
                    .iter_mut()
                    .any(|freed| freed.as_mut().poll(context).is_ready())
                {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            });
            self.alarm.until(due.min(recheck_at), pin!(any)).await;
            if Instant::now() >= due {
                return Ok(false);
            }
        }
    }

    /// Picks the next candidate that can be tried, and writes the request for it. If
    /// `running_candidate` is set, the attempt is a hedge of the attempt at that candidate, at
    /// another account.
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
        while let Some(turn) = self.search.next_candidate(&mut scan) {
            let candidate = turn.candidate;
            // The first attempt begins even if it is expected to be too late, if no other candidate
            // is faster.
            let is_hurried = self.search.tries > 0
                || self.state.waiting().is_some()
                || (request.timeout.is_some() && !turn.is_last_resort);
            if is_hurried && !self.can_finish(candidate) {
                if is_retry {
                    self.attempts.not_retried = Some("deadline");
                }
                continue;
            }
            let now = self.own_time.clock();
            let needs_retry_budget = is_retry && !candidate.health.is_sound(now);
            // The budget has refused already: no other breaker's probe is taken in vain.
            if needs_retry_budget && is_budget_spent {
                continue;
            }
            let (permit, guard) =
                match admission::admit_attempt(candidate, key_hash, turn.is_last_resort, now) {
                    Ok(admitted) => admitted,
                    Err(why) => {
                        self.search.pass_over(&turn, why, now);
                        continue;
                    }
                };
            if needs_retry_budget && !request.demand.allow_retry(now) {
                // A later candidate may be sound.
                (is_budget_spent, self.attempts.not_retried) = (true, Some("budget"));
                continue;
            }
            let kept = self.kept_for(candidate);
            let seal = request.seal_of(&self.shared.seals, candidate);
            let thoughts = EarlierThoughts {
                find_kept: &kept,
                sealed: self.sealed(seal.as_ref()),
            };
            let outbound =
                match admission::write_request(candidate, self.callers_request(), thoughts) {
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

    /// Strikes out the candidates that can never be tried, before any is passed over for a passing
    /// reason. Otherwise, the caller of a request that can never pass would get a `retry-after`.
    fn strike_impossible(&mut self) {
        let reach = self.search.reach;
        let envelope = &self.request.envelope;
        let may_be_refused = envelope.may_refer() || envelope.names_models();
        // For this reach they may be struck out already.
        if !may_be_refused || self.struck_for_reach.replace(reach) == Some(reach) {
            return;
        }
        let request: &'x Request = self.request;
        for index in 0..request.candidates.len() {
            let Some(candidate) = self.search.open_candidate(index, None) else {
                continue;
            };
            let kept = self.kept_for(candidate);
            let seal = request.seal_of(&self.shared.seals, candidate);
            let thoughts = EarlierThoughts {
                find_kept: &kept,
                sealed: self.sealed(seal.as_ref()),
            };
            if let Some(refused) =
                admission::lasting_refusal(candidate, self.callers_request(), thoughts)
            {
                self.search.strike_target(candidate);
                self.search.note_unable(refused);
            }
        }
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

    /// Returns whether a candidate could be tried now, as far as that can be seen without asking
    /// for a place.
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

    /// Returns whether nothing changes by itself: each candidate that was tried has refused our
    /// credential, and each that could be tried rests for a reason that only the operator can end.
    pub(super) fn needs_operator(&self) -> bool {
        let now = Clock::now();
        let mut left = self.search.open_candidates(None);
        !self.failures.hope
            && left.all(|candidate| {
                current_rest(candidate, now).is_some_and(|rest| rest.why.is_for_the_operator())
            })
    }

    /// Returns a function that finds the thoughts that were kept for a candidate, by their call.
    fn kept_for(&self, candidate: &Candidate) -> impl Fn(&str) -> Option<Kept> + use<'x> {
        let (shared, request) = (self.shared, self.request);
        let family = candidate.family();
        move |call: &str| {
            shared
                .vault
                .find(&request.rights.key, family?, call, Clock::now())
        }
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
