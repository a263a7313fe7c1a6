//! A [`Demand`] is what the requests for one model have in common: the turns of its targets, the
//! budgets for further attempts, the usual times to first tokens, and the queue for a place. It
//! outlives catalogs, by the model's id.

use super::budget::Budget;
use super::latency::Rolling;
use super::queue::Queue;
use super::strategy::{self, Smooth, View};
use crate::base::lock::Lock;
use crate::catalog::Strategy;
use crate::series::Series;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of tokens that an answer of a model is expected to have before the first answer has
/// come.
const UNKNOWN_OUTPUT: u64 = 1024;
/// The most tokens that an answer of a model is expected to have before enough answers have come.
/// Answers of agents are rarely longer; five requests at once, with long prompts, still pass a
/// limit of 200,000 tokens a minute.
pub const UNKNOWN_LONGEST: u64 = 8 * 1024;
/// The time over which the lengths of answers are known. It is long, since few answers a minute
/// must be enough.
const LENGTHS: Duration = Duration::from_secs(3600);

/// The demand for one model.
pub struct Demand {
    memory: Lock<Memory>,
    /// The queue of requests that wait for a place.
    pub queue: Arc<Queue>,
    /// The usual number of tokens of an answer; 0 before the first answer.
    typical: AtomicU64,
    /// The queue of requests that have failed somewhere and wait for another target. It is
    /// separate, since only some places are of use to each of them.
    pub failover_queue: Arc<Queue>,
    /// The model's exchanges of the last minutes.
    pub series: Series,
}

struct Memory {
    smooth: Smooth,
    retries: Budget,
    hedges: Budget,
    /// The times to a whole answer, and to a stream's first token.
    paces: [Rolling; 2],
    /// The tokens of answers, a millisecond for each.
    lengths: Rolling,
}

impl Default for Demand {
    fn default() -> Demand {
        let memory = Memory {
            smooth: Smooth::default(),
            retries: Budget::retries(),
            hedges: Budget::hedges(),
            paces: Default::default(),
            lengths: Rolling::over(LENGTHS),
        };
        let (queue, again) = Default::default();
        Demand {
            memory: Lock::new(memory),
            queue,
            typical: AtomicU64::new(0),
            failover_queue: again,
            series: Series::default(),
        }
    }
}

impl Demand {
    /// Returns the order in which the targets are tried for a new request.
    pub fn order(&self, strategy: Strategy, views: &[View], sticky: Option<u64>) -> Vec<usize> {
        strategy::order_targets(
            strategy,
            views,
            sticky,
            &mut self.memory.lock().smooth,
            fastrand::f64,
        )
    }

    /// Counts a request that begins its first attempt.
    pub fn count_request(&self, now: Instant) {
        let mut memory = self.memory.lock();
        memory.retries.count_request(now);
        memory.hedges.count_request(now);
    }

    /// Counts one more attempt after a failure if the budget allows it. Returns whether it does.
    pub fn allow_retry(&self, now: Instant) -> bool {
        self.memory.lock().retries.allow_retry(now)
    }

    /// Counts one more hedge, if the budget of this share of the requests allows it. Returns
    /// whether it does.
    pub fn allow_hedge(&self, share: f64, now: Instant) -> bool {
        self.memory.lock().hedges.allow_retry_within(share, now)
    }

    /// Returns the usual number of tokens of an answer.
    pub fn typical_output(&self) -> u64 {
        match self.typical.load(Ordering::Relaxed) {
            0 => UNKNOWN_OUTPUT,
            typical => typical,
        }
    }

    /// Returns the most tokens that an answer is expected to have: twice the p99 of the last hour's
    /// answers. After some short answers, a long one is still likely.
    pub fn longest_output(&self, now: Instant) -> u64 {
        let p99 = self.memory.lock().lengths.quantile(0.99, now);
        p99.map_or(UNKNOWN_LONGEST, |p99| {
            u64::try_from(2 * p99.as_millis())
                .unwrap_or(u64::MAX)
                .max(UNKNOWN_OUTPUT)
        })
    }

    /// Notes the number of tokens of an answer.
    pub fn answered(&self, tokens: u64, now: Instant) {
        self.memory
            .lock()
            .lengths
            .record(Duration::from_millis(tokens), now);
        // Of two answers that end at once, one may be lost: this is an average, and not a count.
        let typical = match self.typical.load(Ordering::Relaxed) {
            0 => tokens.min(16 * UNKNOWN_OUTPUT),
            // An answer that is far off, or an upstream that counts nonsense, moves the average
            // only so far.
            before => {
                before - before / 8
                    + tokens.min(before.saturating_mul(4).saturating_add(UNKNOWN_OUTPUT)) / 8
            }
        };
        self.typical.store(typical.max(1), Ordering::Relaxed);
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.waiting() + self.failover_queue.waiting()
    }

    /// Returns the share of the budget for attempts after failures that is spent, from 0 to 1.
    pub fn spent(&self, now: Instant) -> f64 {
        self.memory.lock().retries.spent_share(now)
    }

    /// Notes the time that a first token, or a whole answer, took or was waited for.
    pub fn record_time(&self, stream: bool, time: Duration, now: Instant) {
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
    fn one_absurdly_long_answer_does_not_change_others() {
        let (demand, now) = (Demand::default(), Instant::now());
        assert_eq!(demand.typical_output(), UNKNOWN_OUTPUT);
        demand.answered(u64::MAX, now);
        assert!(demand.typical_output() <= 16 * UNKNOWN_OUTPUT);
        (0..100).for_each(|_| demand.answered(800, now));
        assert!(
            (700..=900).contains(&demand.typical_output()),
            "{}",
            demand.typical_output()
        );
        demand.answered(u64::MAX, now);
        assert!(
            demand.typical_output() < 2_000,
            "{}",
            demand.typical_output()
        );
        (0..100).for_each(|_| demand.answered(3_000, now));
        assert!(
            (2_800..=3_200).contains(&demand.typical_output()),
            "{}",
            demand.typical_output()
        );
    }

    #[test]
    fn the_longest_answer_is_twice_the_99th_percentile() {
        let (demand, start) = (Demand::default(), Instant::now());
        (0..19).for_each(|_| demand.answered(300, start));
        assert_eq!(
            demand.longest_output(start),
            UNKNOWN_LONGEST,
            "19 answers are too few"
        );
        demand.answered(300, start);
        assert_eq!(
            demand.longest_output(start),
            UNKNOWN_OUTPUT,
            "a long one may still follow short ones"
        );
        demand.answered(6_000, start);
        let longest = demand.longest_output(start);
        assert!(
            (11_000..=13_500).contains(&longest),
            "one of 21 was long: {longest}"
        );
        (0..1_000).for_each(|_| demand.answered(300, start));
        assert_eq!(demand.longest_output(start), UNKNOWN_OUTPUT, "one of 1,000");
        (0..2_000).for_each(|_| demand.answered(u64::MAX, start));
        assert!(demand.longest_output(start) > 2_000_000);
        assert!(
            demand.longest_output(start + LENGTHS / 2) > 2_000_000,
            "after half an hour too"
        );
        assert_eq!(
            demand.longest_output(start + LENGTHS),
            UNKNOWN_LONGEST,
            "but not after an hour"
        );
    }
}
