//! How much callers and keys may use.

use crate::price::Usd;
use std::sync::Arc;

/// How much may be used. A minute is the last sixty seconds; days and months are UTC's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Chat completions that begin within a minute.
    pub requests_per_minute: Option<u64>,
    /// Chat completions that begin on a day.
    pub requests_per_day: Option<u64>,
    /// Tokens of those that begin within a minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of those that begin on a day.
    pub tokens_per_day: Option<u64>,
    /// Chat completions at once.
    pub concurrency: Option<u64>,
    /// What those that begin on a day may cost.
    pub usd_per_day: Option<Usd>,
    /// What those that begin on a month may cost.
    pub usd_per_month: Option<Usd>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Limits::default()
    }

    /// Whether money is.
    pub fn limits_money(&self) -> bool {
        self.usd_per_day.is_some() || self.usd_per_month.is_some()
    }
}

/// What was used before: what limits begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// When, in milliseconds of Unix time.
    pub at: u64,
    /// By which caller.
    pub caller: Arc<str>,
    /// With which key.
    pub key: Arc<str>,
    /// The model that was asked for.
    pub model: Arc<str>,
    /// How many requests.
    pub requests: u64,
    /// How many tokens.
    pub tokens: u64,
    /// What they cost, as far as that is known.
    pub usd: Usd,
}
