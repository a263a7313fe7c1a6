//! The budget bounds the bytes that all requests together may hold in memory. No caller can take
//! all of it from the others.
//!
//! A caller may hold no more than it leaves to others, so that there is always something left for a
//! new caller. A caller with only one request may take everything that is left for that request. Up
//! to an eighth of the budget is kept for small bodies; there too a caller may hold no more than it
//! leaves. **Invariant:** when a [`Held`] is dropped, its bytes go back to the gateway and to the
//! caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest size of a small body.
const SMALL: usize = 64 << 10;

/// The bytes that all exchanges together may hold in memory.
pub struct Budget {
    free_bytes: AtomicUsize,
    /// The part of `free_bytes` that only small bodies may hold.
    small_bodies_only: usize,
}

/// The bytes that one caller holds.
#[derive(Debug, Default)]
pub struct Purse {
    requests: AtomicUsize,
    /// The bytes of small bodies.
    small_bytes: AtomicUsize,
    /// The bytes of other bodies.
    large: AtomicUsize,
}

impl Budget {
    /// Makes a budget of `total` bytes. The largest body may have `largest` bytes.
    pub fn new(total: usize, largest: usize) -> Budget {
        Budget {
            free_bytes: AtomicUsize::new(total),
            small_bodies_only: (total / 8).min(total.saturating_sub(largest)),
        }
    }

    /// Opens a holder for a request of a caller. It holds nothing yet.
    pub fn open(self: &Arc<Budget>, purse: &Arc<Purse>) -> Held {
        purse.requests.fetch_add(1, Ordering::AcqRel);
        Held {
            budget: self.clone(),
            purse: purse.clone(),
            bytes: 0,
            is_request: true,
        }
    }
}

/// A part of the budget, which is given back when this is dropped.
pub struct Held {
    budget: Arc<Budget>,
    purse: Arc<Purse>,
    bytes: usize,
    is_request: bool,
}

impl Held {
    /// Returns the number of bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes `bytes` for something else of the same caller, if they are left.
    pub fn hold_separately(&self, bytes: usize) -> Option<Held> {
        let mut held = Held {
            budget: self.budget.clone(),
            purse: self.purse.clone(),
            bytes: 0,
            is_request: false,
        };
        held.grow(bytes).then_some(held)
    }

    /// Takes `more` bytes, if they are left for this caller.
    pub fn grow(&mut self, more: usize) -> bool {
        if more == 0 {
            return true;
        }
        let bytes = self.bytes.saturating_add(more);
        let is_small = bytes <= SMALL;
        let (purse, left) = (&self.purse, &self.budget.free_bytes);
        let kept = if is_small {
            0
        } else {
            self.budget.small_bodies_only
        };
        // A body that becomes large moves its bytes from the small count to the other.
        let moved = if is_small || self.bytes > SMALL {
            0
        } else {
            self.bytes
        };
        let own = purse.counter_for(bytes);
        let grown = own.fetch_update(Ordering::AcqRel, Ordering::Acquire, |own| {
            let may_grow = self.fits(own, more, is_small, kept);
            may_grow.then_some(own.saturating_add(more + moved))
        });
        if grown.is_err() {
            return false;
        }
        let take = |left: usize| left.checked_sub(more).filter(|left| *left >= kept);
        if left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
            .is_err()
        {
            own.fetch_sub(more + moved, Ordering::AcqRel);
            return false;
        }
        if moved > 0 {
            purse.small_bytes.fetch_sub(moved, Ordering::AcqRel);
        }
        self.bytes = bytes;
        true
    }

    /// Returns whether a caller who holds `own` bytes of large bodies, or of small ones, may have
    /// `more`. Two requests that ask at once may both find room where there is room for one. They
    /// still take nothing that is kept back, and no request is refused without a reason.
    fn fits(&self, own: usize, more: usize, is_small: bool, kept: usize) -> bool {
        let small = match is_small {
            true => 0,
            false => self.purse.small_bytes.load(Ordering::Acquire),
        };
        let left = self.budget.free_bytes.load(Ordering::Acquire);
        let others = left
            .checked_sub(more)
            .and_then(|left| left.checked_sub(kept));
        others.is_some_and(|others| own.saturating_add(small).saturating_add(more) <= others)
            || self.purse.requests.load(Ordering::Acquire) <= 1
    }

    /// Holds exactly `bytes` from now on, if they are left.
    pub fn hold(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.shrink(self.bytes - bytes);
                true
            }
        }
    }

    /// Gives `less` bytes back, or all if fewer are held.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.bytes);
        if less == 0 {
            return;
        }
        let bytes = self.bytes - less;
        let (before, after) = (
            self.purse.counter_for(self.bytes),
            self.purse.counter_for(bytes),
        );
        if bytes == 0 || std::ptr::eq(before, after) {
            before.fetch_sub(less, Ordering::AcqRel);
        } else {
            after.fetch_add(bytes, Ordering::AcqRel);
            before.fetch_sub(self.bytes, Ordering::AcqRel);
        }
        self.bytes = bytes;
        self.budget.free_bytes.fetch_add(less, Ordering::AcqRel);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shrink(self.bytes);
        if self.is_request {
            self.purse.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Purse {
    /// Returns the count to which a holder of `bytes` belongs.
    fn counter_for(&self, bytes: usize) -> &AtomicUsize {
        if bytes <= SMALL {
            &self.small_bytes
        } else {
            &self.large
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<Budget> {
        Arc::new(Budget::new(1024 * MIB, 32 * MIB))
    }

    fn body(budget: &Arc<Budget>, purse: &Arc<Purse>, bytes: usize) -> Option<Held> {
        let mut held = budget.open(purse);
        held.grow(bytes).then_some(held)
    }

    #[test]
    fn full_uploads_leave_as_much_to_others() {
        let (budget, greedy, other) = (
            budget(),
            Arc::new(Purse::default()),
            Arc::new(Purse::default()),
        );
        let large: Vec<Held> = (0..37)
            .filter_map(|_| body(&budget, &greedy, 31 * MIB))
            .collect();
        assert_eq!(
            large.len(),
            14,
            "448 MiB of 896, beside what is kept for small bodies"
        );
        let small: Vec<Held> = (0..20_000)
            .filter_map(|_| body(&budget, &greedy, SMALL))
            .collect();
        assert_eq!(
            small.iter().map(Held::bytes).sum::<usize>(),
            295 * MIB,
            "of what is small it holds half of what the others left"
        );
        assert!(body(&budget, &other, 60).is_some());
        assert!(body(&budget, &other, 31 * MIB).is_some());
        drop((large, small));
        assert_eq!(budget.free_bytes.load(Ordering::Relaxed), 1024 * MIB);
        assert_eq!(
            [&greedy.large, &greedy.small_bytes, &greedy.requests]
                .map(|each| each.load(Ordering::Relaxed)),
            [0; 3]
        );
    }

    #[test]
    fn a_callers_only_request_takes_the_rest() {
        let (budget, purse) = (
            Arc::new(Budget::new(40 * MIB, 32 * MIB)),
            Arc::new(Purse::default()),
        );
        let mut held = body(&budget, &purse, 32 * MIB).expect("it is the only one");
        assert!(
            held.hold_separately(4 * MIB).is_none(),
            "what is kept is kept"
        );
        assert!(held.hold_separately(3 * MIB).is_some());
        assert!(body(&budget, &purse, MIB).is_none() && body(&budget, &purse, SMALL).is_some());
        assert!(
            held.hold(SMALL) && held.hold(32 * MIB),
            "it may be less for a while"
        );
    }

    proptest! {
        /// Whatever callers do: nobody holds more than it leaves, but with its only request, and
        /// there is room for what is small.
        #[test]
        fn there_is_always_room_for_one_who_comes(
            steps in prop::collection::vec((0usize..4, 0usize..6, 1usize..40 * MIB, any::<bool>(), any::<bool>()), 1..120),
        ) {
            let budget = budget();
            let purses: [Arc<Purse>; 4] = Default::default();
            let mut held: Vec<(usize, Held)> = Vec::new();
            for (who, what, bytes, small, shrinks) in steps {
                let bytes = if small { bytes % SMALL + 1 } else { bytes };
                match what {
                    0 if !held.is_empty() => drop(held.swap_remove(bytes % held.len())),
                    1 | 2 if !held.is_empty() => {
                        let at = bytes % held.len();
                        if shrinks { held[at].1.shrink(bytes) } else { held[at].1.grow(bytes); }
                    }
                    _ => held.extend(body(&budget, &purses[who], bytes).map(|held| (who, held))),
                }
                let total: usize = held.iter().map(|(_, held)| held.bytes()).sum();
                prop_assert_eq!(budget.free_bytes.load(Ordering::Relaxed), 1024 * MIB - total);
                for (who, purse) in purses.iter().enumerate() {
                    let own = held.iter().filter(|(owner, _)| *owner == who);
                    let (large, small) = own.fold((0, 0), |(large, small), (_, held)| match held.bytes() {
                        bytes if bytes <= SMALL => (large, small + bytes),
                        bytes => (large + bytes, small),
                    });
                    prop_assert_eq!((purse.large.load(Ordering::Relaxed), purse.small_bytes.load(Ordering::Relaxed)), (large, small));
                }
                let newcomer = Arc::new(Purse::default());
                prop_assert!(body(&budget, &newcomer, SMALL).is_some());
            }
        }
    }
}
