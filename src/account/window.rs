//! A [`Window`] counts two kinds of events over the last while, the second as a share of the first:
//! failures of calls, or second tries of requests.
//!
//! Pure and of fixed size: ten buckets in a ring, each for a tenth of the span. A sum covers
//! between nine tenths and all of the span.

use std::time::{Duration, Instant};

const BUCKETS: u32 = 10;

/// Two counts over a span that moves with time.
#[derive(Debug, Clone)]
pub struct Window {
    width: Duration,
    /// The time of the first count. Buckets are numbered from it.
    began: Option<Instant>,
    ring: [Bucket; BUCKETS as usize],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    number: u32,
    counts: (u32, u32),
}

impl Window {
    /// Makes a window that has counted nothing yet.
    pub fn new(span: Duration) -> Window {
        Window {
            width: (span / BUCKETS).max(Duration::from_millis(1)),
            began: None,
            ring: Default::default(),
        }
    }

    /// Adds to both counts.
    pub fn add(&mut self, counts: (u32, u32), now: Instant) {
        let began = *self.began.get_or_insert(now);
        let number = self.number(began, now);
        let Some(bucket) = self.ring.get_mut((number % BUCKETS) as usize) else {
            return;
        };
        if bucket.number < number {
            *bucket = Bucket {
                number,
                counts: (0, 0),
            };
        }
        // A thread that was held up brings an older `now`. If that is out of the span by then, it
        // is not counted.
        if bucket.number == number {
            bucket.counts = (
                bucket.counts.0.saturating_add(counts.0),
                bucket.counts.1.saturating_add(counts.1),
            );
        }
    }

    /// Returns both counts over the span that ends now.
    pub fn sums(&self, now: Instant) -> (u64, u64) {
        self.youngest(BUCKETS, now)
    }

    /// Returns both counts over the last fifth of the span. They cover between one tenth and two
    /// tenths.
    pub fn lately(&self, now: Instant) -> (u64, u64) {
        self.youngest(BUCKETS / 5, now)
    }

    fn youngest(&self, buckets: u32, now: Instant) -> (u64, u64) {
        let Some(began) = self.began else {
            return (0, 0);
        };
        let number = self.number(began, now);
        let young = self
            .ring
            .iter()
            .filter(|bucket| bucket.number.saturating_add(buckets) > number);
        young.fold((0, 0), |sums, bucket| {
            (
                sums.0 + u64::from(bucket.counts.0),
                sums.1 + u64::from(bucket.counts.1),
            )
        })
    }

    /// Returns the time over which the present sums were counted: at first the time since the first
    /// count, later between nine tenths and all of the span.
    pub fn looks_back(&self, now: Instant) -> Duration {
        let Some(began) = self.began else {
            return Duration::ZERO;
        };
        let whole = self.width * self.number(began, now).saturating_sub(BUCKETS - 1);
        now.saturating_duration_since(began + whole)
    }

    fn number(&self, began: Instant, now: Instant) -> u32 {
        // This avoids u128, whose division is slow: every request calls this several times.
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        u32::try_from(micros(now.saturating_duration_since(began)) / micros(self.width).max(1))
            .unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn old_counts_leave() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut window = Window::new(Duration::from_secs(10));
        assert_eq!(
            (window.sums(at(0)), window.looks_back(at(0))),
            ((0, 0), Duration::ZERO)
        );
        window.add((1, 0), at(0));
        window.add((1, 1), at(9));
        assert_eq!(window.sums(at(9)), (2, 1));
        assert_eq!(window.looks_back(at(9)), Duration::from_secs(9));
        assert_eq!(window.sums(at(10)), (1, 1));
        assert_eq!(
            window.looks_back(at(10)),
            Duration::from_secs(9),
            "the first second is gone whole"
        );
        window.add((5, 5), at(3));
        assert_eq!(window.sums(at(10)), (6, 6), "late, but within the span");
        window.add((1, 0), at(40));
        window.add((9, 9), at(30));
        assert_eq!(window.sums(at(40)), (1, 0), "too late");
        assert_eq!(window.sums(at(1_000_000)), (0, 0));
    }

    proptest! {
        /// Against a plain list: never less than what nine tenths of the span saw, never more than
        /// all of it.
        #[test]
        fn it_counts_as_a_list_would(steps in prop::collection::vec((0u64..700, any::<bool>()), 0..400)) {
            let start = Instant::now();
            let span = Duration::from_secs(5);
            let mut window = Window::new(span);
            let mut list = Vec::new();
            let mut now = start;
            for (wait, some) in steps {
                now += Duration::from_millis(wait);
                window.add((1, u32::from(some)), now);
                list.push((now, some));
                let count = |age: Duration| list.iter().filter(|(at, _)| now - *at < age).count() as u64;
                let (all, _) = window.sums(now);
                prop_assert!(count(span * 9 / 10) <= all && all <= count(span));
                let over = window.looks_back(now);
                prop_assert!(all == list.iter().filter(|(at, _)| now - *at <= over).count() as u64 && over < span);
            }
        }
    }
}
