//! What the requests for one model have in common: whose turn it is, what may be spent on asking
//! again, how fast first tokens come as a rule, and who waits for a place. It outlives catalogs, by
//! the model's id.

use super::budget::Budget;
use super::latency::Rolling;
use super::queue::Queue;
use super::strategy::{self, Smooth, View};
use crate::base::lock::Lock;
use crate::catalog::Strategy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an answer of a model is taken to have before the first has come.
const UNKNOWN_OUTPUT: u64 = 1024;

/// The demand for one model.
pub struct Demand {
    memory: Lock<Memory>,
    /// Who waits for a place.
    pub queue: Arc<Queue>,
    /// How many tokens an answer has as a rule; 0 as long as there was none.
    typical: AtomicU64,
    /// Who waits for another one, having been asked in vain somewhere: a line of its own, since for
    /// each of these only some of the places will do.
    pub again: Arc<Queue>,
}

struct Memory {
    smooth: Smooth,
    retries: Budget,
    hedges: Budget,
    /// To the whole answer, and to a stream's first token.
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
    /// Returns the order in which the targets of a request that came are to be tried.
    pub fn order(&self, strategy: Strategy, views: &[View], sticky: Option<u64>) -> Vec<usize> {
        strategy::order(strategy, views, sticky, &mut self.memory.lock().smooth, fastrand::f64)
    }

    /// Notes that a request begins its first attempt.
    pub fn request(&self, now: Instant) {
        let mut memory = self.memory.lock();
        memory.retries.request(now);
        memory.hedges.request(now);
    }

    /// Tells whether one more attempt may be made after a failure; if so, it is counted.
    pub fn retry(&self, now: Instant) -> bool {
        self.memory.lock().retries.retry(now)
    }

    /// Returns whether one more may be made beside a slow one, for such a share of the requests.
    pub fn hedge(&self, share: f64, now: Instant) -> bool {
        self.memory.lock().hedges.retry_within(share, now)
    }

    /// Returns how many tokens an answer has as a rule.
    pub fn typical_output(&self) -> u64 {
        match self.typical.load(Ordering::Relaxed) {
            0 => UNKNOWN_OUTPUT,
            typical => typical,
        }
    }

    /// Notes how many tokens an answer had.
    pub fn answered(&self, tokens: u64) {
        // Two that end at once may lose one of them: it is no count.
        let typical = match self.typical.load(Ordering::Relaxed) {
            0 => tokens.min(16 * UNKNOWN_OUTPUT),
            // One that is far off, or an upstream that counts nonsense, moves it by so much at
            // most.
            before => before - before / 8 + tokens.min(before.saturating_mul(4).saturating_add(UNKNOWN_OUTPUT)) / 8,
        };
        self.typical.store(typical.max(1), Ordering::Relaxed);
    }

    /// Returns how many wait.
    pub fn waiting(&self) -> usize {
        self.queue.waiting() + self.again.waiting()
    }

    /// Returns how much of what may be spent on asking again is spent, from 0 to 1.
    pub fn spent(&self, now: Instant) -> f64 {
        self.memory.lock().retries.spent(now)
    }

    /// Notes how long a first token, or a whole answer, took, or was waited for.
    pub fn took(&self, stream: bool, time: Duration, now: Instant) {
        let [whole, first] = &mut self.memory.lock().paces;
        if stream { first } else { whole }.record(time, now);
    }

    /// Returns the time under which such a share of them stays.
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
