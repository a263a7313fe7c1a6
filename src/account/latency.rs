//! The speed of a target, by the time to its first token: the present one ([`Peak`]), and the usual
//! one ([`Rolling`]).
//!
//! Pure and of fixed size. An attempt that ended before its first token counts too: by
//! [`Peak::record_wait`], and by [`Rolling::record`] if a hedge cut it off. Such an attempt was
//! slower than the time it waited. Without the slow attempts, all targets would seem fast.

use crate::series::{BUCKETS, bucket_index, quantile};
use std::time::{Duration, Instant};

/// The time in which a rise is forgotten to a third. Finagle and Linkerd also use 10 s. With a
/// request a second or more, a target that has recovered gets its share back soon, and the
/// expectation does not swing with each answer.
const DECAY: Duration = Duration::from_secs(10);

/// The peak-EWMA of one target's times: a rise counts at once, a fall only as time passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peak {
    /// The peak in seconds, and its time.
    last_peak: Option<(f64, Instant)>,
}

impl Peak {
    /// Notes the time that a first token took.
    pub fn record_time(&mut self, time: Duration, now: Instant) {
        let time = time.as_secs_f64();
        self.last_peak = match self.last_peak {
            Some((peak, peaked_at)) if time < peak => {
                let kept = decayed_share(peaked_at, now);
                Some((peak * kept + time * (1.0 - kept), peaked_at.max(now)))
            }
            Some((_, peaked_at)) => Some((time, peaked_at.max(now))),
            None => Some((time, now)),
        };
    }

    /// Notes that no first token came in this time, and none will. The time counts only if it is
    /// long, since a quick failure says nothing about speed.
    pub fn record_wait(&mut self, time: Duration, now: Instant) {
        /// The shortest wait that proves anything about a target without known times.
        const LONG: Duration = Duration::from_secs(1);
        if self
            .last_peak
            .map_or(time >= LONG, |(peak, _)| time.as_secs_f64() >= peak)
        {
            self.record_time(time, now);
        }
    }

    /// Returns the time to expect. Returns `None` if nothing is known. A target that was not asked
    /// for a while is expected to have become faster, so that it gets another try. But while an
    /// attempt is already finding that out (`awaited`), other requests do not follow.
    pub fn expected_time(&self, now: Instant, awaited: bool) -> Option<Duration> {
        let (peak, peaked_at) = self.last_peak?;
        let expected = if awaited {
            peak
        } else {
            peak * decayed_share(peaked_at, now)
        };
        Duration::try_from_secs_f64(expected).ok()
    }
}

/// Returns the share of a peak that is left.
fn decayed_share(peaked_at: Instant, now: Instant) -> f64 {
    (-now.saturating_duration_since(peaked_at).as_secs_f64() / DECAY.as_secs_f64()).exp()
}

/// Half of the longest time that [`Rolling`] looks back, as a rule.
const HALF: Duration = Duration::from_secs(150);
/// The least number of times for a quantile: the p95 of fewer would be the slowest of them.
pub const ENOUGH: u64 = 20;

/// The quantiles of a model's times over the last minutes, in 1.3 KB.
#[derive(Debug, Clone)]
pub struct Rolling {
    /// Half of the longest time that it looks back.
    half: Duration,
    /// The time at which the filling of the present half began.
    began: Option<Instant>,
    present_half: Half,
    last_half: Half,
}

#[derive(Debug, Clone)]
struct Half {
    counts: [u32; BUCKETS],
    total: u64,
}

impl Default for Rolling {
    fn default() -> Rolling {
        Rolling::over(HALF * 2)
    }
}

impl Rolling {
    /// Makes one that looks back for at most this long, and for at least half of it.
    pub fn over(time: Duration) -> Rolling {
        Rolling {
            half: time / 2,
            began: None,
            present_half: Half::EMPTY,
            last_half: Half::EMPTY,
        }
    }

    /// Notes the time that a first token took, or the time for which it was waited in vain.
    pub fn record(&mut self, time: Duration, now: Instant) {
        self.turn(now);
        if let Some(count) = self.present_half.counts.get_mut(bucket_index(time)) {
            *count = count.saturating_add(1);
            self.present_half.total += 1;
        }
    }

    /// Returns the time under which a share `q` of the times stayed. Returns `None` if there are
    /// too few.
    pub fn quantile(&mut self, q: f64, now: Instant) -> Option<Duration> {
        self.turn(now);
        let total = self.present_half.total + self.last_half.total;
        if total < ENOUGH {
            return None;
        }
        let both = self.present_half.counts.iter().zip(&self.last_half.counts);
        quantile(both.map(|(a, b)| u64::from(*a) + u64::from(*b)), total, q)
    }

    /// Drops times that are too old.
    fn turn(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age < self.half {
            return;
        }
        let filled = std::mem::replace(&mut self.present_half, Half::EMPTY);
        let is_next = age < self.half * 2;
        self.last_half = if is_next { filled } else { Half::EMPTY };
        self.began = Some(if is_next { began + self.half } else { now });
    }
}

impl Half {
    const EMPTY: Half = Half {
        counts: [0; BUCKETS],
        total: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn rises_count_at_once_and_falls_with_time() {
        let start = Instant::now();
        let mut peak = Peak::default();
        assert_eq!(peak.expected_time(start, false), None);
        peak.record_time(ms(200), start);
        assert_eq!(peak.expected_time(start, false), Some(ms(200)));
        peak.record_time(ms(900), start);
        assert_eq!(peak.expected_time(start, false), Some(ms(900)));
        for time in (1..900).rev() {
            peak.record_time(ms(time), start);
        }
        assert_eq!(
            peak.expected_time(start, false),
            Some(ms(900)),
            "not by many answers at once"
        );
        let mut now = start;
        for _ in 0..100 {
            now += ms(100);
            peak.record_time(ms(200), now);
        }
        let after = peak.expected_time(now, false).unwrap();
        assert!(
            after > ms(430) && after < ms(480),
            "a third of the rise after 10 s: {after:?}"
        );
    }

    #[test]
    fn what_is_not_heard_of_gets_one_more_try() {
        let start = Instant::now();
        let mut peak = Peak::default();
        peak.record_time(ms(3000), start);
        let later = start + ms(23_100);
        assert!(peak.expected_time(later, false).unwrap() < ms(300));
        assert_eq!(
            peak.expected_time(later, true),
            Some(ms(3000)),
            "but no flock follows the first"
        );
    }

    #[test]
    fn failures_count_only_as_far_as_awaited() {
        let now = Instant::now();
        let mut peak = Peak::default();
        peak.record_time(ms(300), now);
        peak.record_wait(ms(5), now);
        assert_eq!(peak.expected_time(now, false), Some(ms(300)));
        peak.record_wait(ms(10_000), now);
        assert_eq!(peak.expected_time(now, false), Some(ms(10_000)));
    }

    #[test]
    fn old_times_leave() {
        let start = Instant::now();
        let mut rolling = Rolling::default();
        for _ in 0..ENOUGH - 1 {
            rolling.record(ms(100), start);
        }
        assert_eq!(rolling.quantile(0.95, start), None, "too few");
        rolling.record(ms(100), start);
        assert!(rolling.quantile(0.95, start + HALF).is_some());
        assert_eq!(rolling.quantile(0.95, start + HALF * 2), None);
        for _ in 0..ENOUGH {
            rolling.record(ms(100), start + HALF * 2);
        }
        assert_eq!(rolling.quantile(0.95, start + HALF * 9), None);
    }

    proptest! {
        #[test]
        fn it_lies_between_the_last_and_the_highest(times in prop::collection::vec((0u64..100_000, 0u64..20_000), 1..200)) {
            let mut now = Instant::now();
            let (mut peak, mut highest) = (Peak::default(), Duration::ZERO);
            for (time, wait) in times {
                now += ms(wait);
                peak.record_time(ms(time), now);
                highest = highest.max(ms(time));
                let shown = peak.expected_time(now, false).unwrap();
                let slack = Duration::from_micros(1);
                prop_assert!(shown + slack >= ms(time) && shown <= highest + slack);
                prop_assert!(peak.expected_time(now + ms(500), false).unwrap() <= peak.expected_time(now + ms(500), true).unwrap());
            }
        }

        #[test]
        fn a_quantile_is_off_by_an_eighth_at_most(mut times in prop::collection::vec(2u64..1_000_000, 20..500), q in 0.01..1.0f64) {
            let now = Instant::now();
            let mut rolling = Rolling::default();
            for time in &times {
                rolling.record(ms(*time), now);
            }
            times.sort_unstable();
            let rank = (1..times.len()).find(|rank| *rank as f64 >= q * times.len() as f64).unwrap_or(times.len());
            let exact = times[rank - 1] as f64;
            let told = rolling.quantile(q, now).unwrap().as_secs_f64() * 1e3;
            prop_assert!(told >= exact / 1.13 && told <= exact * 1.13, "{} for {}", told, exact);
        }
    }
}
