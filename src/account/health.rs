//! The health of an account: whether the account rests. It rests after a failure of its credential
//! or its money, which would fail the account's other models too.

use super::failure::MAX_COOL;
use crate::base::lock::Lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

impl Why {
    /// Returns the word for the reason.
    pub fn name(self) -> &'static str {
        match self {
            Why::Rate => "rate",
            Why::Credential => "credential",
            Why::Refused => "refused",
        }
    }

    /// Tells whether nothing has changed when the rest is over, unless the operator has done
    /// something.
    pub fn is_for_the_operator(self) -> bool {
        self != Why::Rate
    }
}

/// Why an account, or one of its targets, rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its provider limits the rate.
    Rate,
    /// Its credential or its money.
    Credential,
    /// It does not serve this model.
    Refused,
}

/// A rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest {
    /// Until when.
    pub until: Instant,
    /// Why.
    pub why: Why,
}

/// The health of one account.
#[derive(Default)]
pub struct Health {
    /// False while it does not rest: the common case costs one load.
    troubled: AtomicBool,
    memory: Lock<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Of the settings that it was learned with.
    fingerprint: Option<u64>,
    rest: Option<Rest>,
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

    /// Notes that a catalog names the account, with settings of this fingerprint. Returns true if
    /// they changed: what was wrong with the old ones is forgotten.
    pub fn settings(&self, fingerprint: u64) -> bool {
        let mut memory = self.memory.lock();
        let changed = memory.fingerprint.replace(fingerprint).is_some_and(|old| old != fingerprint);
        if changed {
            memory.rest = None;
            self.troubled.store(false, Ordering::Release);
        }
        changed
    }

    /// Notes that the credential failed, or that the money is gone. Returns the rest if it begins
    /// now, for the log.
    pub fn failed(&self, now: Instant) -> Option<Rest> {
        let rest = Rest { until: now + MAX_COOL, why: Why::Credential };
        let mut memory = self.memory.lock();
        let began = memory.rest.replace(rest).is_none_or(|old| old.until <= now);
        self.troubled.store(true, Ordering::Release);
        began.then_some(rest)
    }

    /// Sets the rest: the one that another process tells of its own, or none.
    pub fn set_rest(&self, rest: Option<Rest>) {
        let mut memory = self.memory.lock();
        memory.rest = rest;
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
        assert!(health.failed(now).is_some() && health.failed(now).is_none(), "told once");
        assert!(health.rest(now + MAX_COOL - Duration::from_millis(1)).is_some());
        assert_eq!(health.rest(now + MAX_COOL), None);
        assert!(!health.troubled.load(Ordering::Acquire));
        assert!(health.failed(now).is_some());
        health.set_rest(None);
        assert_eq!(health.rest(now), None);
    }

    #[test]
    fn a_mended_credential_is_used_at_once() {
        let (health, now) = (Health::default(), Instant::now());
        assert!(!health.settings(1));
        health.failed(now);
        assert!(!health.settings(1));
        assert!(health.rest(now).is_some());
        assert!(health.settings(2));
        assert_eq!(health.rest(now), None);
    }
}
