//! An account's rest after failures: simple cool-downs by class. It decides nothing about one request, and survives reloads.

use crate::exchange::failover::{Class, MAX_COOL, REFUSALS_IN_A_ROW, REFUSED_COOL, rate_cool};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

impl Why {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Why::Rate => "rate",
            Why::Credential => "credential",
            Why::Refused => "refused",
        }
    }
}

/// Why an account rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// False while nothing is remembered: the common case costs one load.
    troubled: AtomicBool,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Of the settings that it was learned with.
    fingerprint: Option<u64>,
    rest: Option<Rest>,
    /// By the upstream's name of the model: refusals in a row, and until when it rests.
    refused: HashMap<Arc<str>, (u32, Option<Instant>)>,
}

/// More names than this are never remembered: they come from the catalog, but catalogs come and go.
const REMEMBERED: usize = 4096;

impl Health {
    /// Whether the account rests for this model.
    pub fn rest(&self, model: &str, now: Instant) -> Option<Rest> {
        if !self.troubled.load(Ordering::Acquire) {
            return None;
        }
        let memory = self.lock();
        if let Some(rest) = memory.rest.filter(|rest| rest.until > now) {
            return Some(rest);
        }
        let until = memory.refused.get(model)?.1?;
        (until > now).then_some(Rest { until, why: Why::Refused })
    }

    /// The account's own rest, whatever the model.
    pub fn account_rest(&self, now: Instant) -> Option<Rest> {
        self.lock().rest.filter(|rest| rest.until > now)
    }

    /// A catalog names the account, with settings of this fingerprint. Where they changed, what was wrong with the old ones is forgotten.
    pub fn settings(&self, fingerprint: u64) {
        let mut memory = self.lock();
        if memory.fingerprint.replace(fingerprint).is_some_and(|old| old != fingerprint) {
            memory.refused.clear();
            if memory.rest.is_some_and(|rest| rest.why == Why::Credential) {
                memory.rest = None;
            }
        }
    }

    /// Learns from a failure. Returns the rest that begins with it, for the log.
    pub fn failed(&self, class: Class, model: &Arc<str>, retry_after: Option<Duration>, now: Instant) -> Option<Rest> {
        let rest = match class {
            Class::Caller | Class::Transient | Class::Ours => return None,
            Class::Credential => Rest { until: now + MAX_COOL, why: Why::Credential },
            Class::Rate => Rest { until: now + rate_cool(retry_after), why: Why::Rate },
            Class::Refused => {
                let mut memory = self.lock();
                if memory.refused.len() >= REMEMBERED {
                    memory.refused.clear();
                }
                let (count, until) = memory.refused.entry(model.clone()).or_default();
                *count += 1;
                self.troubled.store(true, Ordering::Release);
                if *count < REFUSALS_IN_A_ROW {
                    return None;
                }
                let rest = Rest { until: now + REFUSED_COOL, why: Why::Refused };
                *until = Some(rest.until);
                return Some(rest);
            }
        };
        let mut memory = self.lock();
        let began = memory.rest.is_none_or(|old| old.until <= now);
        // A longer rest is never cut short by a later, milder failure.
        if memory.rest.is_none_or(|old| old.until < rest.until) {
            memory.rest = Some(rest);
        }
        self.troubled.store(true, Ordering::Release);
        began.then_some(rest)
    }

    /// Learns from an answer: refusals in a row are broken off, and a rest that is over is forgotten.
    pub fn answered(&self, model: &str, now: Instant) {
        if !self.troubled.load(Ordering::Acquire) {
            return;
        }
        let mut memory = self.lock();
        memory.refused.remove(model);
        if memory.rest.is_some_and(|rest| rest.until <= now) {
            memory.rest = None;
        }
        if memory.rest.is_none() && memory.refused.is_empty() {
            self.troubled.store(false, Ordering::Release);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rest_as_they_should() {
        let now = Instant::now();
        let model: Arc<str> = "m".into();
        let seconds = |s| Duration::from_secs(s);

        let health = Health::default();
        assert_eq!(health.failed(Class::Transient, &model, None, now), None);
        assert_eq!(health.failed(Class::Caller, &model, None, now), None);
        assert_eq!(health.rest("m", now), None);

        assert!(health.failed(Class::Rate, &model, Some(seconds(7)), now).is_some());
        assert_eq!(health.rest("other", now + seconds(6)).map(|r| r.why), Some(Why::Rate));
        assert_eq!(health.rest("m", now + seconds(7)), None);

        health.failed(Class::Credential, &model, None, now);
        health.failed(Class::Rate, &model, Some(seconds(1)), now);
        assert_eq!(health.rest("m", now + seconds(59)).map(|r| r.why), Some(Why::Credential), "a milder failure does not shorten it");
        health.answered("m", now + seconds(61));
        assert!(!health.troubled.load(Ordering::Acquire));
    }

    #[test]
    fn a_mended_credential_is_used_at_once() {
        let now = Instant::now();
        let health = Health::default();
        health.settings(1);
        health.failed(Class::Credential, &"m".into(), None, now);
        health.settings(1);
        assert!(health.rest("m", now).is_some());
        health.settings(2);
        assert_eq!(health.rest("m", now), None);
    }

    #[test]
    fn three_refusals_in_a_row_rest_one_model_only() {
        let now = Instant::now();
        let model: Arc<str> = "m".into();
        let health = Health::default();
        health.failed(Class::Refused, &model, None, now);
        health.failed(Class::Refused, &model, None, now);
        health.answered("m", now);
        health.failed(Class::Refused, &model, None, now);
        health.failed(Class::Refused, &model, None, now);
        assert_eq!(health.rest("m", now), None);
        health.failed(Class::Refused, &model, None, now);
        assert_eq!(health.rest("m", now).map(|r| r.why), Some(Why::Refused));
        assert_eq!(health.rest("n", now), None);
        assert_eq!(health.rest("m", now + REFUSED_COOL), None);
    }
}
