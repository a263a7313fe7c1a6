//! A [`Series`] is what happened in the last five minutes, in steps of five seconds: for the whole
//! gateway, for a model, and for a target. Steps in which nothing happened take no memory.

mod times;

use crate::base::clock::Clock;
use crate::base::lock::Lock;
use crate::error::Blame;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
pub use times::{BUCKETS, Times, bucket_edges, bucket_index, quantile};

/// The length of a step.
pub const STEP: Duration = Duration::from_secs(5);
const STEP_MS: u64 = STEP.as_secs() * 1_000;
/// The number of steps that are kept, with the one that still fills.
pub const STEPS: usize = 60;

/// A moment, and the number of its step. All series begin their steps at the same moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepMoment {
    step: u64,
    /// The milliseconds since the beginning of the first step.
    since_start_ms: u64,
}

/// The beginning of the first step.
static FIRST_STEP_START: LazyLock<Instant> = LazyLock::new(Clock::now);

impl StepMoment {
    /// Returns the moment of an instant.
    pub fn from_instant(now: Instant) -> StepMoment {
        let since = now.saturating_duration_since(*FIRST_STEP_START);
        let since_start_ms = since.as_secs() * 1_000 + u64::from(since.subsec_millis());
        StepMoment {
            step: since_start_ms / STEP_MS,
            since_start_ms,
        }
    }

    /// Returns the milliseconds since the beginning of the first step.
    pub fn since_start_ms(self) -> u64 {
        self.since_start_ms
    }
}

/// Returns how long the present step has lasted.
fn time_into_step(now: Instant) -> Duration {
    let since = now.saturating_duration_since(*FIRST_STEP_START);
    let step = StepMoment::from_instant(now).step;
    since.saturating_sub(Duration::from_secs(step * STEP.as_secs()))
}

/// Returns the number of steps that a time takes, at least one.
fn count_steps(time: Duration) -> u64 {
    time.as_secs().div_ceil(STEP.as_secs()).max(1)
}

/// The counts of some steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// The requests that ended; of a target, the attempts.
    pub requests: u32,
    /// Those of them that failed, and it was the caller's fault.
    pub by_caller: u32,
    /// Those that failed, and it was the upstream's fault.
    pub by_upstream: u32,
    /// Those that failed, and it was the fault of the gateway or its operator.
    pub by_us: u32,
    /// Those that their callers gave up, since they waited for much longer than usual.
    pub given_up: u32,
    /// How long the callers that gave up had waited.
    pub given_up_waits: Option<WaitRange>,
    /// Those whose callers left for any other reason.
    pub left: u32,
    /// Those that were refused since the queue was full.
    pub shed: u32,
    /// Those whose cost is not known.
    pub unpriced: u32,
    /// The tokens that were written.
    pub output_tokens: u64,
    /// The cost of all tokens, in thousand-millionths of a dollar.
    pub nano_usd: u64,
    /// The milliseconds in which a target wrote its tokens: from the first token to the end, or
    /// the whole time if the answer came in one piece.
    pub writing_ms: u64,
}

impl Sums {
    /// Counts a failure.
    pub fn count_failure(&mut self, blame: Blame) {
        match blame {
            Blame::Caller => self.by_caller += 1,
            Blame::Upstream => self.by_upstream += 1,
            Blame::Ours => self.by_us += 1,
            Blame::GivenUp => self.given_up += 1,
        }
    }

    /// Returns the number of all failures.
    pub fn failed(&self) -> u32 {
        let by_somebody = self
            .by_caller
            .saturating_add(self.by_upstream)
            .saturating_add(self.by_us);
        by_somebody.saturating_add(self.given_up)
    }

    /// Returns whether at least one request was answered.
    fn has_answers(&self) -> bool {
        self.requests > self.failed().saturating_add(self.left)
    }

    /// Adds other sums.
    pub fn add(&mut self, other: &Sums) {
        self.requests = self.requests.saturating_add(other.requests);
        self.by_caller = self.by_caller.saturating_add(other.by_caller);
        self.by_upstream = self.by_upstream.saturating_add(other.by_upstream);
        self.by_us = self.by_us.saturating_add(other.by_us);
        self.given_up = self.given_up.saturating_add(other.given_up);
        self.given_up_waits = match (self.given_up_waits, other.given_up_waits) {
            (Some(own), Some(others)) => Some(own.join(others)),
            (own, others) => own.or(others),
        };
        self.left = self.left.saturating_add(other.left);
        self.shed = self.shed.saturating_add(other.shed);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.nano_usd = self.nano_usd.saturating_add(other.nano_usd);
        self.writing_ms = self.writing_ms.saturating_add(other.writing_ms);
    }

    /// Subtracts sums that were added. Only the range of waits stays: it does not show of whom.
    fn subtract(&mut self, other: &Sums) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.by_caller = self.by_caller.saturating_sub(other.by_caller);
        self.by_upstream = self.by_upstream.saturating_sub(other.by_upstream);
        self.by_us = self.by_us.saturating_sub(other.by_us);
        self.given_up = self.given_up.saturating_sub(other.given_up);
        self.left = self.left.saturating_sub(other.left);
        self.shed = self.shed.saturating_sub(other.shed);
        self.unpriced = self.unpriced.saturating_sub(other.unpriced);
        self.output_tokens = self.output_tokens.saturating_sub(other.output_tokens);
        self.nano_usd = self.nano_usd.saturating_sub(other.nano_usd);
        self.writing_ms = self.writing_ms.saturating_sub(other.writing_ms);
    }
}

/// The shortest and the longest of some waits, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRange {
    /// The shortest wait.
    pub shortest_ms: u32,
    /// The longest wait.
    pub longest_ms: u32,
}

impl WaitRange {
    /// Returns the range of one wait.
    pub fn from_one(wait_ms: u32) -> WaitRange {
        WaitRange {
            shortest_ms: wait_ms,
            longest_ms: wait_ms,
        }
    }

    /// Returns the range of the waits of both.
    fn join(self, other: WaitRange) -> WaitRange {
        WaitRange {
            shortest_ms: self.shortest_ms.min(other.shortest_ms),
            longest_ms: self.longest_ms.max(other.longest_ms),
        }
    }
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The number of the step.
    step: u64,
    /// The counts.
    pub sums: Sums,
    /// The most requests that were seen in flight.
    pub in_flight: u32,
    /// The most requests that were seen to wait.
    pub waiting: u32,
    /// The times to the first token of streams.
    pub first_tokens: Times,
}

/// The failures by one fault since the start of the process, and what came after the last one.
/// Times are milliseconds since the beginning of the first step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCount {
    /// The number of all failures.
    pub total: u64,
    /// The time of the last failure.
    pub last_failed_at: Option<u64>,
    /// The number of all requests since then.
    pub requests_since: u64,
    /// The number of requests since then that did not fail.
    pub successes_since: u64,
    /// The time of the first request since then that did not fail.
    pub good_since: Option<u64>,
}

/// The failures by each fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// By the callers' fault.
    pub by_caller: FaultCount,
    /// By an upstream's fault.
    pub by_upstream: FaultCount,
    /// By the gateway's fault.
    pub by_us: FaultCount,
    /// The fault is unknown: callers gave up.
    pub given_up: FaultCount,
    /// The failures by an upstream's fault since the last answer.
    pub in_a_row: u64,
}

impl FaultCounts {
    /// Returns how many requests ended after a target's last failure. `was_given_up` says whether
    /// that failure was that its caller gave up.
    pub fn requests_since_failure(&self, was_given_up: bool) -> u64 {
        if was_given_up {
            self.given_up.requests_since
        } else {
            self.by_upstream.requests_since
        }
    }

    fn add(&mut self, ended: &Sums, ended_ms: u64) {
        let is_good = ended.failed() == 0;
        self.in_a_row = if ended.has_answers() {
            0
        } else {
            self.in_a_row.saturating_add(ended.by_upstream.into())
        };
        for (fault, failed) in [
            (&mut self.by_caller, ended.by_caller),
            (&mut self.by_upstream, ended.by_upstream),
            (&mut self.by_us, ended.by_us),
            (&mut self.given_up, ended.given_up),
        ] {
            if failed > 0 {
                let total = fault.total.saturating_add(failed.into());
                *fault = FaultCount {
                    total,
                    last_failed_at: Some(ended_ms),
                    ..FaultCount::default()
                };
            } else if fault.last_failed_at.is_some() {
                fault.requests_since = fault.requests_since.saturating_add(ended.requests.into());
                if is_good {
                    fault.successes_since =
                        fault.successes_since.saturating_add(ended.requests.into());
                    fault.good_since.get_or_insert(ended_ms);
                }
            }
        }
    }

    /// Takes out one request that ended at this time and did not fail. A failure after it has begun
    /// a new count, in which it is not.
    fn take_back(&mut self, ended_ms: u64) {
        for fault in [
            &mut self.by_caller,
            &mut self.by_upstream,
            &mut self.by_us,
            &mut self.given_up,
        ] {
            if fault.last_failed_at.is_some_and(|ms| ms <= ended_ms) {
                fault.requests_since = fault.requests_since.saturating_sub(1);
                fault.successes_since = fault.successes_since.saturating_sub(1);
                fault.good_since = fault.good_since.filter(|_| fault.successes_since > 0);
            }
        }
    }
}

/// The last five minutes: the steps in which something happened.
#[derive(Debug, Default)]
pub struct Series(Lock<SeriesState>);

#[derive(Debug, Default)]
struct SeriesState {
    buckets: VecDeque<Bucket>,
    /// True if a request was ever answered.
    has_answered: bool,
    /// They are boxed, since there are usually none.
    faults: Option<Box<FaultCounts>>,
    /// The last answer without a known cost, in milliseconds since the first step.
    last_unpriced_ms: Option<u64>,
}

impl Series {
    /// Adds what ended at this moment, and the time to its first token if it was a stream.
    pub fn add(&self, ended: &Sums, first_token: Option<Duration>, moment: StepMoment) {
        let mut state = self.0.lock();
        if let Some(bucket) = state.bucket(moment.step) {
            bucket.sums.add(ended);
            if let Some(time) = first_token {
                bucket.first_tokens.record(time);
            }
        }
        state.has_answered |= ended.has_answers();
        if ended.unpriced > 0 {
            state.last_unpriced_ms = state.last_unpriced_ms.max(Some(moment.since_start_ms));
        }
        if ended.failed() > 0 || state.faults.is_some() {
            let faults = state.faults.get_or_insert_default();
            faults.add(ended, moment.since_start_ms);
        }
    }

    /// Takes out one request that was added so and did not fail: its answer is used after all, so
    /// it will be counted again.
    pub fn take_back(&self, ended: &Sums, first_token: Option<Duration>, moment: StepMoment) {
        let mut state = self.0.lock();
        let newest = state.buckets.back().map(|bucket| bucket.step);
        let is_kept = newest.is_some_and(|newest| !is_too_old(moment.step, newest));
        if is_kept && let Some(bucket) = state.find_bucket(moment.step) {
            bucket.sums.subtract(ended);
            if let Some(time) = first_token {
                bucket.first_tokens.remove(time);
            }
        }
        if let Some(faults) = &mut state.faults {
            faults.take_back(moment.since_start_ms);
        }
    }

    /// Notes how many requests run and wait now. A step keeps the largest numbers.
    pub fn sample(&self, in_flight: usize, waiting: usize, now: Instant) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let step = StepMoment::from_instant(now).step;
        if let Some(bucket) = self.0.lock().bucket(step) {
            bucket.in_flight = bucket.in_flight.max(number(in_flight));
            bucket.waiting = bucket.waiting.max(number(waiting));
        }
    }

    /// Returns what is known of the failures by each fault.
    pub fn faults(&self) -> FaultCounts {
        self.0.lock().faults.as_deref().copied().unwrap_or_default()
    }

    /// Returns whether a request was ever answered.
    pub fn has_answered(&self) -> bool {
        self.0.lock().has_answered
    }

    /// Sums the steps of the last `time`, with the step that still fills.
    pub fn recent_sums(&self, time: Duration, now: Instant) -> Sums {
        let mut sums = Sums::default();
        let state = self.0.lock();
        state
            .recent(time, now)
            .for_each(|bucket| sums.add(&bucket.sums));
        sums
    }

    /// Counts the answers without a known cost in the last `time`, from the step of `start` on.
    /// Returns 0 if none came after `start` itself. The whole step of `start` counts, so that the
    /// number only falls when answers grow too old.
    pub fn recent_unpriced(&self, start: Instant, time: Duration, now: Instant) -> u32 {
        let start = StepMoment::from_instant(start);
        let state = self.0.lock();
        if state
            .last_unpriced_ms
            .is_none_or(|ms| ms < start.since_start_ms)
        {
            return 0;
        }
        state
            .recent(time, now)
            .take_while(|bucket| bucket.step >= start.step)
            .fold(0, |sum, bucket| sum.saturating_add(bucket.sums.unpriced))
    }

    /// Returns the length of what [`Series::recent_sums`] sums: the whole steps, and the part of
    /// the present one that has passed.
    pub fn summed_time(time: Duration, now: Instant) -> Duration {
        let whole_steps = u32::try_from(count_steps(time) - 1).unwrap_or(u32::MAX);
        STEP.saturating_mul(whole_steps)
            .saturating_add(time_into_step(now))
    }

    /// Returns the last steps, the oldest first. The last one still fills.
    pub fn buckets(&self, count: usize, now: Instant) -> Vec<Bucket> {
        let step = StepMoment::from_instant(now).step;
        let mut all = vec![Bucket::default(); count];
        for bucket in &self.0.lock().buckets {
            // Another thread may have read the clock later: its step is shown with this one.
            let age = usize::try_from(step.saturating_sub(bucket.step)).unwrap_or(usize::MAX);
            if let Some(slot) = count
                .checked_sub(age.saturating_add(1))
                .and_then(|place| all.get_mut(place))
            {
                slot.add(bucket);
            }
        }
        all
    }

    /// Returns the median of the times to the first token, and the 99th percentile.
    pub fn first_token_quantiles(&self, now: Instant) -> Option<[Duration; 2]> {
        let step = StepMoment::from_instant(now).step;
        let mut counts = [0; BUCKETS];
        let state = self.0.lock();
        state
            .buckets
            .iter()
            .filter(|bucket| !is_too_old(bucket.step, step))
            .for_each(|bucket| bucket.first_tokens.add_to(&mut counts));
        drop(state);
        median_and_p99(&counts)
    }

    /// Forgets steps that are too old, so that what is not used any more takes no memory.
    pub fn sweep(&self, now: Instant) {
        let step = StepMoment::from_instant(now).step;
        let mut state = self.0.lock();
        if state
            .buckets
            .back()
            .is_some_and(|last| is_too_old(last.step, step))
        {
            state.buckets = VecDeque::new();
        }
    }
}

impl SeriesState {
    /// Returns the bucket in which a step counts, and adds it if the step is the newest.
    fn bucket(&mut self, step: u64) -> Option<&mut Bucket> {
        if self.buckets.back().is_none_or(|last| last.step < step) {
            let old = self
                .buckets
                .iter()
                .take_while(|bucket| is_too_old(bucket.step, step))
                .count();
            self.buckets.drain(..old);
            self.buckets.push_back(Bucket {
                step,
                ..Bucket::default()
            });
        }
        self.find_bucket(step)
    }

    /// Returns the bucket in which a step counts. A thread that read the clock earlier may come
    /// later: if its step has no bucket, it counts in the first later step that has one.
    fn find_bucket(&mut self, step: u64) -> Option<&mut Bucket> {
        let index = self.buckets.partition_point(|bucket| bucket.step < step);
        self.buckets.get_mut(index)
    }

    /// Returns the buckets of the last `time`, the newest first.
    fn recent(&self, time: Duration, now: Instant) -> impl Iterator<Item = &Bucket> {
        let (step, step_count) = (StepMoment::from_instant(now).step, count_steps(time));
        let newest_first = self.buckets.iter().rev();
        newest_first.take_while(move |bucket| bucket.step.saturating_add(step_count) > step)
    }
}

impl Bucket {
    /// Adds what happened in another step.
    fn add(&mut self, other: &Bucket) {
        self.sums.add(&other.sums);
        self.in_flight = self.in_flight.max(other.in_flight);
        self.waiting = self.waiting.max(other.waiting);
        self.first_tokens.add(&other.first_tokens);
    }

    /// Returns the median of the step's times to the first token, and the 99th percentile.
    pub fn first_token_quantiles(&self) -> Option<[Duration; 2]> {
        let mut counts = [0; BUCKETS];
        self.first_tokens.add_to(&mut counts);
        median_and_p99(&counts)
    }
}

/// Returns the median of the times to the first token, and the 99th percentile.
fn median_and_p99(counts: &[u64; BUCKETS]) -> Option<[Duration; 2]> {
    let total = counts.iter().sum();
    let each = || counts.iter().copied();
    Some([
        quantile(each(), total, 0.5)?,
        quantile(each(), total, 0.99)?,
    ])
}

/// Returns whether a step is older than the last five minutes.
fn is_too_old(step: u64, present_step: u64) -> bool {
    step.saturating_add(STEPS as u64) <= present_step
}

#[cfg(test)]
mod tests;
