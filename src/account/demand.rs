//! A [`Demand`] is what the requests for one model have in common: the turns of its targets, the
//! budgets for further attempts, the usual times to first tokens, and the queue for a place. It
//! outlives catalogs, by the model's id.

use super::budget::Budget;
use super::latency::Rolling;
use super::queue::Queue;
use super::strategy::{self, Smooth, View};
use crate::base::lock::Lock;
use crate::catalog::Strategy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of tokens that an answer of a model is expected to have before the first answer has
/// come.
const UNKNOWN_OUTPUT: u64 = 1024;

/// The demand for one model.
pub struct Demand {
    memory: Lock<Memory>,
    /// The queue of requests that wait for a place.
    pub queue: Arc<Queue>,
    /// The usual number of tokens of an answer; 0 before the first answer.
    typical: AtomicU64,
    /// The queue of requests that have failed somewhere and wait for another target. It is
    /// separate, since only some places are of use to each of them.
    pub again: Arc<Queue>,
}

struct Memory {
    smooth: Smooth,
    retries: Budget,
    hedges: Budget,
    /// The times to a whole answer, and to a stream's first token.
    paces: [Rolling; 2],
}

impl Default for Demand {
    fn default() -> Demand {
        let memory = Memory {
            smooth: Smooth::default(),
            retries: Budget::retries(),
            hedges: Budget::hedges(),
            paces: Default::default(),
        };
        Demand { memory: Lock::new(memory), queue: Arc::default(), typical: AtomicU64::new(0), again: Arc::default() }
    }
}

impl Demand {
    /// Returns the order in which the targets are tried for a new request.
    pub fn order(&self, strategy: Strategy, views: &[View], sticky: Option<u64>) -> Vec<usize> {
        strategy::order(strategy, views, sticky, &mut self.memory.lock().smooth, fastrand::f64)
    }

    /// Counts a request that begins its first attempt.
    pub fn request(&self, now: Instant) {
        let mut memory = self.memory.lock();
        memory.retries.request(now);
        memory.hedges.request(now);
    }

    /// Counts one more attempt after a failure if the budget allows it. Returns whether it does.
    pub fn retry(&self, now: Instant) -> bool {
        self.memory.lock().retries.retry(now)
    }

    /// Counts one more attempt beside a slow one, if the budget of this share of the requests
    /// allows it. Returns whether it does.
    pub fn hedge(&self, share: f64, now: Instant) -> bool {
        self.memory.lock().hedges.retry_within(share, now)
    }

    /// Returns the usual number of tokens of an answer.
    pub fn typical_output(&self) -> u64 {
        match self.typical.load(Ordering::Relaxed) {
            0 => UNKNOWN_OUTPUT,
            typical => typical,
        }
    }

    /// Notes the number of tokens of an answer.
    pub fn answered(&self, tokens: u64) {
        // Of two answers that end at once, one may be lost: this is an average, and not a count.
        let typical = match self.typical.load(Ordering::Relaxed) {
            0 => tokens.min(16 * UNKNOWN_OUTPUT),
            // An answer that is far off, or an upstream that counts nonsense, moves the average
            // only so far.
            before => before - before / 8 + tokens.min(before.saturating_mul(4).saturating_add(UNKNOWN_OUTPUT)) / 8,
        };
        self.typical.store(typical.max(1), Ordering::Relaxed);
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.waiting() + self.again.waiting()
    }

    /// Returns the share of the budget for attempts after failures that is spent, from 0 to 1.
    pub fn spent(&self, now: Instant) -> f64 {
        self.memory.lock().retries.spent(now)
    }

    /// Notes the time that a first token, or a whole answer, took or was waited for.
    pub fn took(&self, stream: bool, time: Duration, now: Instant) {
        let [whole, first] = &mut self.memory.lock().paces;
        if stream { first } else { whole }.record(time, now);
    }

    /// Returns the time under which this share of the times stays.
    pub fn pace(&self, stream: bool, share: f64, now: Instant) -> Option<Duration> {
        let [whole, first] = &mut self.memory.lock().paces;
        if stream { first } else { whole }.quantile(share, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_of_absurd_length_does_not_make_the_others_long() {
        let demand = Demand::default();
        assert_eq!(demand.typical_output(), UNKNOWN_OUTPUT);
        demand.answered(u64::MAX);
        assert!(demand.typical_output() <= 16 * UNKNOWN_OUTPUT);
        (0..100).for_each(|_| demand.answered(800));
        assert!((700..=900).contains(&demand.typical_output()), "{}", demand.typical_output());
        demand.answered(u64::MAX);
        assert!(demand.typical_output() < 2_000, "{}", demand.typical_output());
        (0..100).for_each(|_| demand.answered(3_000));
        assert!((2_800..=3_200).contains(&demand.typical_output()), "{}", demand.typical_output());
    }
}
