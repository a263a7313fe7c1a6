//! Counts of times in buckets of growing width, and the quantiles of them.

use std::time::Duration;

/// Buckets from 1 ms (2¹⁰ µs) to 18 min (2³⁰ µs), eight to each doubling, so that a quantile is off
/// by an eighth at most.
const LOWEST_POWER: u32 = 10;
const DOUBLINGS: u32 = 20;
const PARTS: u32 = 8;
/// The number of buckets.
pub const BUCKETS: usize = (DOUBLINGS * PARTS) as usize;

/// The times of one step. Few buckets have some, so only those are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<(u8, u32)>);

impl Times {
    /// Counts a time.
    pub fn record(&mut self, time: Duration) {
        self.add_count(bucket_number(time), 1);
    }

    /// Takes out a time that was counted.
    pub fn remove(&mut self, time: Duration) {
        let bucket = bucket_number(time);
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == bucket) {
            *count = count.saturating_sub(1);
        }
        self.0.retain(|(_, count)| *count > 0);
    }

    /// Adds the counts of another step.
    pub fn add(&mut self, other: &Times) {
        for (bucket, count) in &other.0 {
            self.add_count(*bucket, *count);
        }
    }

    fn add_count(&mut self, bucket: u8, more: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == bucket) {
            Some((_, count)) => *count = count.saturating_add(more),
            None => self.0.push((bucket, more)),
        }
    }

    /// Adds the counts to those of all buckets.
    pub fn add_to(&self, counts: &mut [u64; BUCKETS]) {
        for (bucket, count) in &self.0 {
            if let Some(sum) = counts.get_mut(usize::from(*bucket)) {
                *sum += u64::from(*count);
            }
        }
    }
}

/// Returns the bucket of a time, as it is kept.
fn bucket_number(time: Duration) -> u8 {
    u8::try_from(bucket_index(time)).unwrap_or(u8::MAX)
}

/// Returns the time under which a share `q` of the times stayed. `counts` are the numbers of times
/// in each bucket, `total` of them in all.
pub fn quantile(counts: impl Iterator<Item = u64>, total: u64, q: f64) -> Option<Duration> {
    let wanted = q.clamp(0.0, 1.0) * total as f64;
    let mut below = 0.0;
    for (index, count) in counts.enumerate() {
        // Most are empty.
        if count == 0 {
            continue;
        }
        let here = count as f64;
        if below + here >= wanted {
            let (from, to) = bucket_edges(index);
            return Some(from + (to - from).mul_f64(((wanted - below) / here).clamp(0.0, 1.0)));
        }
        below += here;
    }
    None
}

/// Returns the bucket of a time.
pub fn bucket_index(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros())
        .unwrap_or(u64::MAX)
        .clamp(1 << LOWEST_POWER, (1 << (LOWEST_POWER + DOUBLINGS)) - 1);
    let doubling = micros.ilog2();
    let part = (micros >> (doubling - PARTS.ilog2())) % u64::from(PARTS);
    ((doubling - LOWEST_POWER) * PARTS) as usize + usize::try_from(part).unwrap_or(0)
}

/// Returns the times between which a bucket is.
pub fn bucket_edges(bucket: usize) -> (Duration, Duration) {
    let bucket = u32::try_from(bucket).unwrap_or(0);
    let shift = bucket / PARTS + LOWEST_POWER - PARTS.ilog2();
    let micros = |part: u32| Duration::from_micros(u64::from(PARTS + part) << shift);
    (micros(bucket % PARTS), micros(bucket % PARTS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet() {
        for index in 0..BUCKETS {
            let (from, to) = bucket_edges(index);
            assert_eq!(
                (
                    bucket_index(from),
                    bucket_index(to - Duration::from_micros(1))
                ),
                (index, index)
            );
            assert!(to.as_secs_f64() / from.as_secs_f64() <= 1.125);
        }
        assert_eq!(
            (bucket_index(Duration::ZERO), bucket_index(Duration::MAX)),
            (0, BUCKETS - 1)
        );
    }
}
