//! A [`Minute`] holds the counts of the last sixty seconds, the present one included. A count
//! leaves sixty seconds after its second began. So it leaves at most a minute after it came, as the
//! caller's answer says, and up to a second sooner.

use super::Used;
use super::dates::Sums;
use crate::conf::price::Usd;

/// The seconds of a minute.
const SECONDS: u64 = 60;
const LENGTH: usize = 60;

/// The seconds of a minute that have changed since the store last got them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsent {
    /// All seconds, also those in which nothing is counted any more.
    All,
    /// These seconds: a bit for each place in the ring.
    Some(u64),
}

impl Default for Unsent {
    fn default() -> Unsent {
        Unsent::Some(0)
    }
}

impl Unsent {
    /// Returns whether a second of the minute has changed.
    pub(super) fn has(self, second: u64) -> bool {
        match self {
            Unsent::All => true,
            Unsent::Some(bits) => bits & (1 << (second % SECONDS)) != 0,
        }
    }

    fn note(&mut self, second: u64, has_changed: bool) {
        if let Unsent::Some(bits) = self {
            let bit = 1 << (second % SECONDS);
            *bits = if has_changed {
                *bits | bit
            } else {
                *bits & !bit
            };
        }
    }
}

/// The counts of a minute, by the second. **Invariant:** `requests` and `tokens` are the sums over
/// the seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Minute {
    requests: u64,
    tokens: u128,
    tokens_of: [u64; LENGTH],
    /// A narrow type: a second has few requests, and there are many minutes in memory.
    requests_of: [u32; LENGTH],
    pub(super) unsent: Unsent,
}

impl Default for Minute {
    fn default() -> Minute {
        Minute {
            requests: 0,
            tokens: 0,
            tokens_of: [0; LENGTH],
            requests_of: [0; LENGTH],
            unsent: Unsent::default(),
        }
    }
}

impl Minute {
    /// Moves from one second to a later one.
    pub(super) fn advance(&mut self, before: u64, after: u64) {
        if (self.requests, self.tokens) == (0, 0) {
            return;
        }
        if after - before >= SECONDS {
            let unsent = match self.unsent {
                Unsent::All => Unsent::All,
                Unsent::Some(_) => Unsent::default(),
            };
            *self = Minute {
                unsent,
                ..Minute::default()
            };
            return;
        }
        for second in before + 1..=after {
            self.set(second, Used::default());
            // The store leaves out by itself what is over.
            self.unsent.note(second, false);
        }
    }

    /// Moves the counts when the clock is set back by this many seconds: each count keeps its age.
    pub(super) fn set_back(&mut self, seconds: u64) {
        let by = slot_index(seconds);
        self.tokens_of.rotate_left(by);
        self.requests_of.rotate_left(by);
        self.unsent = Unsent::All;
    }

    /// Adds an amount to a second, if that second is still counted.
    pub(super) fn add(&mut self, newest: u64, second: u64, used: Used) {
        self.replace_count(newest, second, Used::default(), used);
    }

    /// Returns the sums over the seconds.
    pub(super) fn sums(&self) -> Sums {
        Sums {
            requests: self.requests.into(),
            tokens: self.tokens,
            usd: 0,
        }
    }

    /// Replaces one count by another in a second, if that second is still counted.
    pub(super) fn replace_count(&mut self, newest: u64, second: u64, old: Used, by: Used) {
        if newest.checked_sub(second).is_none_or(|age| age >= SECONDS) {
            return;
        }
        let Used {
            requests, tokens, ..
        } = self.count_in(second);
        let requests = requests
            .saturating_sub(old.requests)
            .saturating_add(by.requests);
        let tokens = tokens.saturating_sub(old.tokens).saturating_add(by.tokens);
        self.set(second, Used::new(requests, tokens, Usd::ZERO));
    }

    /// Returns the requests and tokens of a second. Money is not counted by the second.
    pub(super) fn count_in(&self, second: u64) -> Used {
        let index = slot_index(second);
        let requests = self.requests_of.get(index).copied().unwrap_or_default();
        let tokens = self.tokens_of.get(index).copied().unwrap_or_default();
        Used::new(requests.into(), tokens, Usd::ZERO)
    }

    fn set(&mut self, second: u64, count: Used) {
        let before = self.count_in(second);
        let index = slot_index(second);
        let (Some(requests), Some(tokens)) = (
            self.requests_of.get_mut(index),
            self.tokens_of.get_mut(index),
        ) else {
            return;
        };
        *requests = u32::try_from(count.requests).unwrap_or(u32::MAX);
        *tokens = count.tokens;
        self.unsent.note(second, true);
        self.requests = self.requests.saturating_sub(before.requests) + u64::from(*requests);
        self.tokens = self.tokens.saturating_sub(before.tokens.into()) + u128::from(*tokens);
    }
}

/// Returns the range of the seconds that are counted, oldest first.
pub(super) fn counted_seconds(newest: u64) -> std::ops::RangeInclusive<u64> {
    newest.saturating_sub(SECONDS - 1)..=newest
}

/// Returns the second by which `enough` of a sum has left. `enough` is at most the sum.
pub(super) fn freed_second(
    newest: u64,
    sum: u128,
    enough: u128,
    amount_of: impl Fn(u64) -> u64,
) -> u64 {
    let mut seconds = counted_seconds(newest);
    // The search runs from the newest second, since callers mostly ask when the whole sum is gone.
    let mut left = sum.saturating_sub(enough);
    let last = seconds.rfind(|second| {
        let here = u128::from(amount_of(*second));
        let still = here > left;
        left = left.saturating_sub(here);
        still
    });
    last.unwrap_or(newest) + SECONDS
}

fn slot_index(second: u64) -> usize {
    (second % SECONDS) as usize
}
