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
pub struct Step {
    number: u64,
    /// The milliseconds since the beginning of the first step.
    at_ms: u64,
}

/// The beginning of the first step.
static FIRST_STEP_START: LazyLock<Instant> = LazyLock::new(Clock::now);

impl Step {
    /// Returns the step of a moment.
    pub fn at_instant(now: Instant) -> Step {
        let since = now.saturating_duration_since(*FIRST_STEP_START);
        let at_ms = since.as_secs() * 1_000 + u64::from(since.subsec_millis());
        Step {
            number: at_ms / STEP_MS,
            at_ms,
        }
    }

    /// Returns the milliseconds since the beginning of the first step.
    pub fn at_ms(self) -> u64 {
        self.at_ms
    }

    /// Returns the time since the beginning of the moment's step.
    fn age(now: Instant) -> Duration {
        let all = now.saturating_duration_since(*FIRST_STEP_START);
        all.saturating_sub(Duration::from_secs(
            Step::at_instant(now).number * STEP.as_secs(),
        ))
    }
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
    pub by_ours: u32,
    /// Those that their callers gave up, since they waited for much longer than usual.
    pub given_up: u32,
    /// For how long the callers had waited when they gave a target up.
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
            Blame::Ours => self.by_ours += 1,
            Blame::GivenUp => self.given_up += 1,
        }
    }

    /// Returns the number of all failures.
    pub fn failed(&self) -> u32 {
        let by_somebody = self
            .by_caller
            .saturating_add(self.by_upstream)
            .saturating_add(self.by_ours);
        by_somebody.saturating_add(self.given_up)
    }

    /// Returns whether one was answered.
    fn has_answers(&self) -> bool {
        self.requests > self.failed().saturating_add(self.left)
    }

    /// Adds other sums.
    pub fn add(&mut self, more: &Sums) {
        self.requests = self.requests.saturating_add(more.requests);
        self.by_caller = self.by_caller.saturating_add(more.by_caller);
        self.by_upstream = self.by_upstream.saturating_add(more.by_upstream);
        self.by_ours = self.by_ours.saturating_add(more.by_ours);
        self.given_up = self.given_up.saturating_add(more.given_up);
        self.given_up_waits = match (self.given_up_waits, more.given_up_waits) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        };
        self.left = self.left.saturating_add(more.left);
        self.shed = self.shed.saturating_add(more.shed);
        self.unpriced = self.unpriced.saturating_add(more.unpriced);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.nano_usd = self.nano_usd.saturating_add(more.nano_usd);
        self.writing_ms = self.writing_ms.saturating_add(more.writing_ms);
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
    /// Returns how many requests came since the last failure. `is_given_up` says whether that one
    /// was given up by its caller.
    pub fn asked_since(&self, is_given_up: bool) -> u64 {
        if is_given_up {
            self.given_up.requests_since
        } else {
            self.by_upstream.requests_since
        }
    }

    fn add(&mut self, more: &Sums, at_ms: u64) {
        let is_good = more.failed() == 0;
        self.in_a_row = if more.has_answers() {
            0
        } else {
            self.in_a_row.saturating_add(more.by_upstream.into())
        };
        for (fault, failed) in [
            (&mut self.by_caller, more.by_caller),
            (&mut self.by_upstream, more.by_upstream),
            (&mut self.by_us, more.by_ours),
            (&mut self.given_up, more.given_up),
        ] {
            if failed > 0 {
                let total = fault.total.saturating_add(failed.into());
                *fault = FaultCount {
                    total,
                    last_failed_at: Some(at_ms),
                    ..FaultCount::default()
                };
            } else if fault.last_failed_at.is_some() {
                fault.requests_since = fault.requests_since.saturating_add(more.requests.into());
                if is_good {
                    fault.successes_since =
                        fault.successes_since.saturating_add(more.requests.into());
                    fault.good_since.get_or_insert(at_ms);
                }
            }
        }
    }

    /// Takes one request out again.
    fn take_back(&mut self) {
        for fault in [
            &mut self.by_caller,
            &mut self.by_upstream,
            &mut self.by_us,
            &mut self.given_up,
        ] {
            fault.requests_since = fault.requests_since.saturating_sub(1);
            fault.successes_since = fault.successes_since.saturating_sub(1);
            fault.good_since = fault.good_since.filter(|_| fault.successes_since > 0);
        }
    }
}

/// The steps of the last minutes.
#[derive(Debug, Default)]
pub struct Series(Lock<Counted>);

#[derive(Debug, Default)]
struct Counted {
    buckets: VecDeque<Bucket>,
    /// True if a request was ever answered.
    has_answered: bool,
    /// They are boxed, since there are usually none.
    faults: Option<Box<FaultCounts>>,
    /// The last answer without a known cost, in milliseconds since the first step.
    last_unpriced_ms: Option<u64>,
}

impl Series {
    /// Adds what ended in this step, and the time to its first token if it was a stream.
    pub fn add(&self, more: &Sums, first_token: Option<Duration>, step: Step) {
        let mut counted = self.0.lock();
        if let Some(bucket) = counted.bucket(step.number) {
            bucket.sums.add(more);
            if let Some(time) = first_token {
                bucket.first_tokens.record(time);
            }
        }
        counted.has_answered |= more.has_answers();
        if more.unpriced > 0 {
            counted.last_unpriced_ms = counted.last_unpriced_ms.max(Some(step.at_ms));
        }
        if more.failed() > 0 || counted.faults.is_some() {
            counted.faults.get_or_insert_default().add(more, step.at_ms);
        }
    }

    /// Takes one request out again that was added to the last step.
    pub fn take_back(&self) {
        let mut counted = self.0.lock();
        if let Some(bucket) = counted.buckets.back_mut() {
            bucket.sums.requests = bucket.sums.requests.saturating_sub(1);
        }
        if let Some(faults) = &mut counted.faults {
            faults.take_back();
        }
    }

    /// Notes how many requests run and wait now. A step keeps the largest numbers.
    pub fn sample(&self, in_flight: usize, waiting: usize, now: Instant) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if let Some(bucket) = self.0.lock().bucket(Step::at_instant(now).number) {
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

    /// Sums the steps of the last time, the one that still fills included.
    pub fn recent_sums(&self, time: Duration, now: Instant) -> Sums {
        let (step, step_count) = (
            Step::at_instant(now).number,
            time.as_secs().div_ceil(STEP.as_secs()).max(1),
        );
        let mut sums = Sums::default();
        let counted = self.0.lock();
        let recent = counted
            .buckets
            .iter()
            .rev()
            .take_while(|bucket| bucket.step.saturating_add(step_count) > step);
        recent.for_each(|bucket| sums.add(&bucket.sums));
        sums
    }

    /// Counts the answers of the last time without a known cost, if the last one came after
    /// `start`. The step of `start` counts whole: so the number falls only as answers grow old.
    pub fn recent_unpriced(&self, start: Instant, time: Duration, now: Instant) -> u32 {
        let (start, step) = (Step::at_instant(start), Step::at_instant(now).number);
        let step_count = time.as_secs().div_ceil(STEP.as_secs()).max(1);
        let counted = self.0.lock();
        if counted.last_unpriced_ms.is_none_or(|ms| ms < start.at_ms) {
            return 0;
        }
        let recent = counted.buckets.iter().rev().take_while(|bucket| {
            bucket.step >= start.number && bucket.step.saturating_add(step_count) > step
        });
        recent.fold(0, |sum, bucket| sum.saturating_add(bucket.sums.unpriced))
    }

    /// Returns how much of the last time [`Series::recent_sums`] sums: the step that fills is not
    /// whole.
    pub fn covered(time: Duration, now: Instant) -> Duration {
        let steps = u32::try_from(time.as_secs().div_ceil(STEP.as_secs())).unwrap_or(u32::MAX);
        STEP.saturating_mul(steps.saturating_sub(1))
            .saturating_add(Step::age(now))
    }

    /// Returns the last steps, the oldest first. The last one still fills.
    pub fn buckets(&self, count: usize, now: Instant) -> Vec<Bucket> {
        let step = Step::at_instant(now).number;
        let mut all = vec![Bucket::default(); count];
        for bucket in &self.0.lock().buckets {
            // A bucket of the next step belongs to this one: the clock was read before.
            let age = usize::try_from(step.saturating_sub(bucket.step)).unwrap_or(usize::MAX);
            if let Some(slot) = count
                .checked_sub(age.saturating_add(1))
                .and_then(|place| all.get_mut(place))
            {
                *slot = bucket.clone();
            }
        }
        all
    }

    /// Returns the time under which half of the first tokens came, and 99 of 100.
    pub fn first_token(&self, now: Instant) -> Option<[Duration; 2]> {
        let step = Step::at_instant(now).number;
        let mut counts = [0; BUCKETS];
        let counted = self.0.lock();
        counted
            .buckets
            .iter()
            .filter(|bucket| !is_over(bucket, step))
            .for_each(|bucket| bucket.first_tokens.add_to(&mut counts));
        drop(counted);
        halves_and_most(&counts)
    }

    /// Forgets steps that are over, so that what is not used any more takes no memory.
    pub fn sweep(&self, now: Instant) {
        let step = Step::at_instant(now).number;
        let mut counted = self.0.lock();
        if counted
            .buckets
            .back()
            .is_some_and(|last| is_over(last, step))
        {
            counted.buckets = VecDeque::new();
        }
    }
}

impl Counted {
    /// Returns the bucket of a step.
    fn bucket(&mut self, step: u64) -> Option<&mut Bucket> {
        // Of two threads, the one that looked at the clock first may come last.
        if self.buckets.back().is_none_or(|last| last.step < step) {
            let old = self
                .buckets
                .iter()
                .take_while(|bucket| is_over(bucket, step))
                .count();
            self.buckets.drain(..old);
            self.buckets.push_back(Bucket {
                step,
                ..Bucket::default()
            });
        }
        self.buckets.back_mut()
    }
}

impl Bucket {
    /// Returns the time under which half of the step's first tokens came, and 99 of 100.
    pub fn first_token(&self) -> Option<[Duration; 2]> {
        let mut counts = [0; BUCKETS];
        self.first_tokens.add_to(&mut counts);
        halves_and_most(&counts)
    }
}

fn halves_and_most(counts: &[u64; BUCKETS]) -> Option<[Duration; 2]> {
    let total = counts.iter().sum();
    let each = || counts.iter().copied();
    Some([
        quantile(each(), total, 0.5)?,
        quantile(each(), total, 0.99)?,
    ])
}

fn is_over(bucket: &Bucket, step: u64) -> bool {
    bucket.step.saturating_add(STEPS as u64) <= step
}

#[cfg(test)]
mod tests;
