//! [`Unavailable`] says why a target cannot be tried now, and for how long.

use crate::account::health::{Rest, Why};
use std::time::{Duration, Instant};

/// The reasons why a target cannot be tried now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// Its account has the most requests that it may have.
    Full,
    /// Its account or the target itself rests.
    Resting(Rest),
    /// Its breaker keeps requests away, until then at the earliest.
    Broken(Instant),
}

impl Unavailable {
    /// Returns the time for which the target is unavailable; `None` if it is unknown.
    pub fn wait(self, now: Instant) -> Option<Duration> {
        match self {
            Unavailable::Full => None,
            Unavailable::Resting(Rest { until, .. }) | Unavailable::Broken(until) => {
                Some(until.saturating_duration_since(now))
            }
        }
    }

    /// Returns whether only the operator can bring the target back.
    pub fn is_for_the_operator(self) -> bool {
        matches!(self, Unavailable::Resting(Rest { why, .. }) if why.is_for_the_operator())
    }

    fn rests_for(self, reason: Why) -> bool {
        matches!(self, Unavailable::Resting(Rest { why, .. }) if why == reason)
    }

    /// Returns whether the target waits out its provider's rate limit.
    pub fn is_for_rate(self) -> bool {
        self.rests_for(Why::Rate)
    }

    /// Returns whether the target rests since its account does not serve the model there.
    pub fn is_refused(self) -> bool {
        self.rests_for(Why::Refused)
    }
}
