//! The last minute, by the second: 61 of them, since the one that began sixty seconds ago is not wholly older than that.

/// Of a minute.
pub(super) const SECONDS: u64 = 61;
const LENGTH: usize = 61;

/// What a bucket counts in. Requests in a second are few, and rings are many.
pub(super) trait Count: Copy + Default + Into<u64> {
    fn clamped(count: u64) -> Self;
}

impl Count for u32 {
    fn clamped(count: u64) -> u32 {
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

impl Count for u64 {
    fn clamped(count: u64) -> u64 {
        count
    }
}

/// Counts by the second, once somebody wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ring<T> {
    pub(super) sum: u128,
    buckets: Option<Box<[T; LENGTH]>>,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { sum: 0, buckets: None }
    }
}

impl<T: Count> Ring<T> {
    pub(super) fn open(&mut self) {
        self.buckets.get_or_insert_with(|| Box::new([T::default(); LENGTH]));
    }

    pub(super) fn is_open(&self) -> bool {
        self.buckets.is_some()
    }

    /// From one second to a later one.
    pub(super) fn advance(&mut self, before: u64, after: u64) {
        let Some(buckets) = self.buckets.as_deref_mut().filter(|_| self.sum > 0) else { return };
        if after - before >= SECONDS {
            (*buckets, self.sum) = ([T::default(); LENGTH], 0);
            return;
        }
        for second in before + 1..=after {
            if let Some(bucket) = buckets.get_mut(index(second)) {
                self.sum = self.sum.saturating_sub(std::mem::take(bucket).into().into());
            }
        }
    }

    /// All of it is of this second, whichever it was of before.
    pub(super) fn gather(&mut self, second: u64) {
        let Some(buckets) = self.buckets.as_deref_mut().filter(|_| self.sum > 0) else { return };
        *buckets = [T::default(); LENGTH];
        let Some(bucket) = buckets.get_mut(index(second)) else { return };
        *bucket = T::clamped(u64::try_from(self.sum).unwrap_or(u64::MAX));
        let all: u64 = (*bucket).into();
        self.sum = all.into();
    }

    /// In the bucket of this second, if it is still there, one count is replaced by another.
    pub(super) fn change(&mut self, newest: u64, second: u64, what: u64, by: u64) {
        let Some(buckets) = self.buckets.as_deref_mut().filter(|_| newest.checked_sub(second).is_some_and(|age| age < SECONDS)) else {
            return;
        };
        let Some(bucket) = buckets.get_mut(index(second)) else { return };
        let before: u64 = (*bucket).into();
        *bucket = T::clamped(before.saturating_sub(what).saturating_add(by));
        let after: u64 = (*bucket).into();
        self.sum = self.sum.saturating_sub(before.into()) + u128::from(after);
    }

    pub(super) fn at(&self, second: u64) -> u64 {
        self.buckets.as_ref().and_then(|buckets| buckets.get(index(second))).map_or(0, |bucket| (*bucket).into())
    }

    /// The second in which so much, which is not more than all, has left.
    pub(super) fn gone(&self, newest: u64, enough: u128) -> u64 {
        let mut seconds = newest.saturating_sub(SECONDS - 1)..=newest;
        // Mostly the last ones are asked for: all is gone when they are.
        let mut left = self.sum.saturating_sub(enough);
        let last = seconds.rfind(|second| {
            let here = u128::from(self.at(*second));
            let still = here > left;
            left = left.saturating_sub(here);
            still
        });
        last.unwrap_or(newest) + SECONDS
    }
}

fn index(second: u64) -> usize {
    (second % SECONDS) as usize
}
