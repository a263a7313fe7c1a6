//! The kinds of limits.

use super::Ask;
use crate::conf::price::Usd;
use crate::limits::Limits;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Requests of the last minute.
    RequestsPerMinute,
    /// Requests of the day.
    RequestsPerDay,
    /// Tokens of the last minute.
    TokensPerMinute,
    /// Tokens of the day.
    TokensPerDay,
    /// Requests at once.
    Concurrency,
    /// Thousand-millionths of a dollar on the day.
    UsdPerDay,
    /// Thousand-millionths of a dollar in the month.
    UsdPerMonth,
}

impl Kind {
    /// All of them, in the order in which the store's script has them.
    pub const ALL: [Kind; 7] = [
        Kind::RequestsPerMinute,
        Kind::RequestsPerDay,
        Kind::TokensPerMinute,
        Kind::TokensPerDay,
        Kind::Concurrency,
        Kind::UsdPerDay,
        Kind::UsdPerMonth,
    ];

    /// Its name in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Kind::RequestsPerMinute => "requests_per_minute",
            Kind::RequestsPerDay => "requests_per_day",
            Kind::TokensPerMinute => "tokens_per_minute",
            Kind::TokensPerDay => "tokens_per_day",
            Kind::Concurrency => "concurrency",
            Kind::UsdPerDay => "usd_per_day",
            Kind::UsdPerMonth => "usd_per_month",
        }
    }

    /// Returns whether it counts money.
    pub fn is_money(self) -> bool {
        matches!(self, Kind::UsdPerDay | Kind::UsdPerMonth)
    }

    /// Returns what these limits allow of it, or an equal share of that: of what is allowed at all,
    /// at least 1.
    pub fn limit(self, limits: &Limits, share: u64) -> Option<u64> {
        let whole = match self {
            Kind::RequestsPerMinute => limits.requests_per_minute,
            Kind::RequestsPerDay => limits.requests_per_day,
            Kind::TokensPerMinute => limits.tokens_per_minute,
            Kind::TokensPerDay => limits.tokens_per_day,
            Kind::Concurrency => limits.concurrency,
            Kind::UsdPerDay => limits.usd_per_day.map(|Usd(nano)| nano),
            Kind::UsdPerMonth => limits.usd_per_month.map(|Usd(nano)| nano),
        }?;
        // Most share with nobody, and a division is dear.
        Some(if share <= 1 { whole } else { (whole / share).max(whole.min(1)) })
    }

    /// Returns what an exchange asks of it.
    pub fn asked(self, ask: Ask) -> u64 {
        match self {
            Kind::RequestsPerMinute | Kind::RequestsPerDay | Kind::Concurrency => 1,
            Kind::TokensPerMinute | Kind::TokensPerDay => ask.tokens,
            Kind::UsdPerDay | Kind::UsdPerMonth => ask.usd.0,
        }
    }

    /// Returns what of that is no estimate.
    pub fn sure(self, ask: Ask) -> u64 {
        self.asked(Ask::of(ask.sure.tokens, ask.sure.usd))
    }

    /// Returns whether it is more than all that is allowed, but would not be without what is
    /// estimated. Where nothing is allowed nothing is.
    pub fn is_over_as_estimated(self, limit: u64, ask: Ask) -> bool {
        limit > 0 && self.asked(ask) > limit && self.sure(ask) <= limit
    }
}
