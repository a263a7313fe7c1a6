//! A [`Series`] is what happened in the last five minutes, in steps of five seconds: for the whole
//! gateway, for a model, and for a target. Steps in which nothing happened take no memory.

mod times;

use crate::base::lock::Lock;
use crate::error::Blame;
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
pub use times::{BUCKETS, Times, bucket, edges, quantile};

/// The length of a step.
pub const STEP: Duration = Duration::from_secs(5);
/// The number of steps that are kept, with the one that still fills.
pub const STEPS: usize = 60;

/// The number of a step. All series begin their steps at the same moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(u64);

/// The beginning of the first step.
static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Step {
    /// Returns the step of a moment.
    pub fn of(now: Instant) -> Step {
        Step(now.saturating_duration_since(*FIRST).as_secs() / STEP.as_secs())
    }

    /// Returns the time since the beginning of the moment's step.
    fn age(now: Instant) -> Duration {
        let all = now.saturating_duration_since(*FIRST);
        all.saturating_sub(Duration::from_secs(Step::of(now).0 * STEP.as_secs()))
    }
}

/// What was counted in some steps.
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
    /// The milliseconds for which the callers had waited when they gave a target up.
    pub given_up_ms: u64,
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
    pub fn fail(&mut self, blame: Blame) {
        match blame {
            Blame::Caller => self.by_caller += 1,
            Blame::Upstream => self.by_upstream += 1,
            Blame::Ours => self.by_ours += 1,
            Blame::GivenUp => self.given_up += 1,
        }
    }

    /// Returns the number of all failures.
    pub fn failed(&self) -> u32 {
        let by_somebody = self.by_caller.saturating_add(self.by_upstream).saturating_add(self.by_ours);
        by_somebody.saturating_add(self.given_up)
    }

    /// Adds other sums.
    pub fn add(&mut self, more: &Sums) {
        self.requests = self.requests.saturating_add(more.requests);
        self.by_caller = self.by_caller.saturating_add(more.by_caller);
        self.by_upstream = self.by_upstream.saturating_add(more.by_upstream);
        self.by_ours = self.by_ours.saturating_add(more.by_ours);
        self.given_up = self.given_up.saturating_add(more.given_up);
        self.given_up_ms = self.given_up_ms.saturating_add(more.given_up_ms);
        self.shed = self.shed.saturating_add(more.shed);
        self.unpriced = self.unpriced.saturating_add(more.unpriced);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.nano_usd = self.nano_usd.saturating_add(more.nano_usd);
        self.writing_ms = self.writing_ms.saturating_add(more.writing_ms);
    }
}

/// One step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bucket {
    /// The number of the step.
    step: u64,
    /// What was counted.
    pub sums: Sums,
    /// The most requests that were seen in flight.
    pub in_flight: u32,
    /// The most requests that were seen to wait.
    pub waiting: u32,
    /// The times to the first token of streams.
    pub first_tokens: Times,
}

/// The steps of the last minutes.
#[derive(Debug, Default)]
pub struct Series(Lock<VecDeque<Bucket>>);

impl Series {
    /// Adds what ended in this step, and the time to its first token if it was a stream.
    pub fn add(&self, more: &Sums, first_token: Option<Duration>, step: Step) {
        self.fill(step, |bucket| {
            bucket.sums.add(more);
            if let Some(time) = first_token {
                bucket.first_tokens.record(time);
            }
        });
    }

    /// Takes one request out again that was added to the last step.
    pub fn take_back(&self) {
        if let Some(bucket) = self.0.lock().back_mut() {
            bucket.sums.requests = bucket.sums.requests.saturating_sub(1);
        }
    }

    /// Notes how many requests run and wait now. A step keeps the largest numbers.
    pub fn sample(&self, in_flight: usize, waiting: usize, now: Instant) {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.fill(Step::of(now), |bucket| {
            bucket.in_flight = bucket.in_flight.max(number(in_flight));
            bucket.waiting = bucket.waiting.max(number(waiting));
        });
    }

    /// Changes the bucket of a step.
    fn fill(&self, Step(step): Step, change: impl FnOnce(&mut Bucket)) {
        let mut buckets = self.0.lock();
        // Of two threads, the one that looked at the clock first may come last.
        if buckets.back().is_none_or(|last| last.step < step) {
            let old = buckets.iter().take_while(|bucket| is_over(bucket, step)).count();
            buckets.drain(..old);
            buckets.push_back(Bucket { step, ..Bucket::default() });
        }
        if let Some(bucket) = buckets.back_mut() {
            change(bucket);
        }
    }

    /// Sums the steps of the last time, the one that still fills included.
    pub fn last(&self, time: Duration, now: Instant) -> Sums {
        let (step, most) = (Step::of(now).0, time.as_secs().div_ceil(STEP.as_secs()).max(1));
        let mut sums = Sums::default();
        let buckets = self.0.lock();
        let recent = buckets.iter().rev().take_while(|bucket| bucket.step.saturating_add(most) > step);
        recent.for_each(|bucket| sums.add(&bucket.sums));
        sums
    }

    /// Returns how much of the last time [`Series::last`] sums: the step that fills is not whole.
    pub fn covered(time: Duration, now: Instant) -> Duration {
        let steps = u32::try_from(time.as_secs().div_ceil(STEP.as_secs())).unwrap_or(u32::MAX);
        STEP.saturating_mul(steps.saturating_sub(1)).saturating_add(Step::age(now))
    }

    /// Returns the last steps, the oldest first. The last one still fills.
    pub fn buckets(&self, count: usize, now: Instant) -> Vec<Bucket> {
        let step = Step::of(now).0;
        let mut all = vec![Bucket::default(); count];
        for bucket in &*self.0.lock() {
            // A bucket of the next step belongs to this one: the clock was read before.
            let age = usize::try_from(step.saturating_sub(bucket.step)).unwrap_or(usize::MAX);
            if let Some(place) = count.checked_sub(age.saturating_add(1)).and_then(|place| all.get_mut(place)) {
                *place = bucket.clone();
            }
        }
        all
    }

    /// Returns the time under which half of the first tokens came, and 99 of 100.
    pub fn first_token(&self, now: Instant) -> Option<[Duration; 2]> {
        let step = Step::of(now).0;
        let mut counts = [0; BUCKETS];
        let buckets = self.0.lock();
        buckets
            .iter()
            .filter(|bucket| !is_over(bucket, step))
            .for_each(|bucket| bucket.first_tokens.add_to(&mut counts));
        drop(buckets);
        halves_and_most(&counts)
    }

    /// Forgets steps that are over, so that what is not used any more takes no memory.
    pub fn sweep(&self, now: Instant) {
        let step = Step::of(now).0;
        let mut buckets = self.0.lock();
        if buckets.back().is_some_and(|last| is_over(last, step)) {
            *buckets = VecDeque::new();
        }
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
    Some([quantile(each(), total, 0.5)?, quantile(each(), total, 0.99)?])
}

fn is_over(bucket: &Bucket, step: u64) -> bool {
    bucket.step.saturating_add(STEPS as u64) <= step
}

#[cfg(test)]
mod tests;
