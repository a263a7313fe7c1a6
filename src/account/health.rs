//! The health of an account: whether the account rests. It rests after a failure of its credential
//! or its money, which would fail the account's other models too.

use super::failure::MAX_COOL;
use crate::base::lock::Lock;
use dialects::named_enum;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

impl Why {
    /// Returns whether the reason stays after the rest unless the operator acts.
    pub fn is_for_the_operator(self) -> bool {
        self != Why::Rate
    }
}

named_enum! {
    /// The reasons for which an account, or one of its targets, rests.
    pub enum Why: serde::Serialize, serde::Deserialize {
        /// The provider limits the rate.
        Rate = "rate",
        /// The credential failed, or the money is gone.
        Credential = "credential",
        /// The account does not serve the model. The alias is the word of older gateways.
        #[serde(alias = "refused")]
        Refused = "unfit",
    }
}

/// A rest of an account or a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// The end of the rest.
    pub until: Instant,
    /// The reason for the rest.
    pub why: Why,
}

/// The health of one account.
#[derive(Default)]
pub struct Health {
    /// False if the account surely does not rest: then the check costs one load.
    troubled: AtomicBool,
    memory: Lock<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The fingerprint of the settings that the newest catalog gives the account.
    fingerprint: Option<u64>,
    rest: Option<Rest>,
    /// The time at which the rests began that followed each other without a pause, and the end of
    /// the last one.
    row: Option<(Instant, Instant)>,
}

impl Health {
    /// Returns the account's rest, if it rests.
    pub fn rest(&self, now: Instant) -> Option<Rest> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        let mut memory = self.memory.lock();
        if memory.rest.is_some_and(|rest| rest.until <= now) {
            memory.rest = None;
            self.troubled.store(false, Ordering::Release);
        }
        memory.rest
    }

    /// Notes that a catalog has the account, with settings of this fingerprint. If they changed,
    /// ends the rest and returns true.
    pub fn apply_settings(&self, fingerprint: u64) -> bool {
        let mut memory = self.memory.lock();
        let changed = memory
            .fingerprint
            .replace(fingerprint)
            .is_some_and(|old| old != fingerprint);
        if changed {
            (memory.rest, memory.row) = (None, None);
            self.troubled.store(false, Ordering::Release);
        }
        changed
    }

    /// Notes that the credential failed, or that the money is gone. Returns the rest if it begins
    /// now, for the log.
    pub fn record_failure(&self, now: Instant) -> Option<Rest> {
        let rest = Rest {
            until: now + MAX_COOL,
            why: Why::Credential,
        };
        let mut memory = self.memory.lock();
        let began = memory.rest.replace(rest).is_none_or(|old| old.until <= now);
        // A credential that fails again soon after its rest has failed since the first time.
        let before = memory.row.filter(|(_, end)| now < *end + MAX_COOL);
        memory.row = Some((before.map_or(now, |(since, _)| since), rest.until));
        self.troubled.store(true, Ordering::Release);
        began.then_some(rest)
    }

    /// Returns the time since which the account rests, if it rests.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        self.rest(now)?;
        self.memory.lock().row.map(|(since, _)| since)
    }

    /// Returns since when the credential has failed, and when it failed last, unless it is known
    /// that it works again.
    pub fn refused(&self) -> Option<(Instant, Instant)> {
        let (since, end) = self.memory.lock().row?;
        Some((since, end.checked_sub(MAX_COOL).unwrap_or(since)))
    }

    /// Notes that the account has answered since its credential failed last, at `last`.
    pub fn clear_failures(&self, last: Instant) {
        let mut memory = self.memory.lock();
        // It may have failed once more meanwhile.
        if memory.rest.is_none() && memory.row.is_some_and(|(_, end)| end == last + MAX_COOL) {
            memory.row = None;
        }
    }

    /// Sets the rest to the one that another process reports, or to none.
    pub fn set_rest(&self, rest: Option<Rest>) {
        let mut memory = self.memory.lock();
        (memory.rest, memory.row) = (rest, None);
        self.troubled.store(rest.is_some(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bad_credential_rests_the_account_for_a_minute() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.rest(now), None);
        assert!(
            health.record_failure(now).is_some() && health.record_failure(now).is_none(),
            "told once"
        );
        assert!(
            health
                .rest(now + MAX_COOL - Duration::from_millis(1))
                .is_some()
        );
        assert_eq!(health.rest(now + MAX_COOL), None);
        assert!(!health.troubled.load(Ordering::Acquire));
        assert!(health.record_failure(now).is_some());
        health.set_rest(None);
        assert_eq!(health.rest(now), None);
    }

    #[test]
    fn a_mended_credential_is_used_at_once() {
        let (health, now) = (Health::default(), Instant::now());
        assert!(!health.apply_settings(1));
        health.record_failure(now);
        let again = now + MAX_COOL * 3 / 2;
        health.record_failure(again);
        assert_eq!(health.since(again), Some(now), "it failed all the time");
        assert_eq!(health.since(again + MAX_COOL), None);
        health.record_failure(now + MAX_COOL * 4);
        assert_eq!(health.since(now + MAX_COOL * 4), Some(now + MAX_COOL * 4));
        assert!(!health.apply_settings(1));
        assert!(health.rest(now).is_some());
        assert!(health.apply_settings(2));
        assert_eq!((health.rest(now), health.refused()), (None, None));
    }

    #[test]
    fn a_credential_is_refused_until_an_answer() {
        let (health, now) = (Health::default(), Instant::now());
        assert_eq!(health.refused(), None);
        health.record_failure(now);
        let between = now + MAX_COOL;
        assert_eq!(
            (health.rest(between), health.refused()),
            (None, Some((now, now)))
        );
        health.clear_failures(now - MAX_COOL);
        assert_eq!(
            health.refused(),
            Some((now, now)),
            "it has failed since that answer"
        );
        health.clear_failures(now);
        assert_eq!(health.refused(), None);
    }
}
