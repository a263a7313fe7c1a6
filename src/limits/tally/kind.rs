//! A [`Kind`] is one kind of limit: what it counts, and in which time.

use super::Ask;
use crate::conf::price::Usd;
use crate::limits::Limits;
use serde_json::{Value, json};

/// The kinds of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The requests of the last minute.
    RequestsPerMinute,
    /// The requests of the day.
    RequestsPerDay,
    /// The tokens of the last minute.
    TokensPerMinute,
    /// The tokens of the day.
    TokensPerDay,
    /// The requests that run at once.
    Concurrency,
    /// The money of the day, in thousand-millionths of a dollar.
    UsdPerDay,
    /// The money of the month, in thousand-millionths of a dollar.
    UsdPerMonth,
}

/// The share of a gateway that counts alone: one gateway has the whole limit.
pub const WHOLE_LIMIT: u64 = 1;

impl Kind {
    /// All kinds, in the order of the store's script.
    pub const ALL: [Kind; 7] = [
        Kind::RequestsPerMinute,
        Kind::RequestsPerDay,
        Kind::TokensPerMinute,
        Kind::TokensPerDay,
        Kind::Concurrency,
        Kind::UsdPerDay,
        Kind::UsdPerMonth,
    ];

    /// Returns an amount of this kind as JSON, with money as a text in dollars.
    pub fn amount_text(self, number: u64) -> Value {
        if self.is_money() {
            json!(Usd(number).to_string())
        } else {
            json!(number)
        }
    }

    /// Returns an amount of this kind as JSON: money in dollars, else the number.
    pub fn amount(self, number: u64) -> Value {
        if self.is_money() {
            json!(Usd(number))
        } else {
            json!(number)
        }
    }

    /// Returns the name in the catalog.
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

    /// Returns whether the kind counts money.
    pub fn is_money(self) -> bool {
        matches!(self, Kind::UsdPerDay | Kind::UsdPerMonth)
    }

    /// Returns the amount that these limits allow, or an equal share of it. A share is at least 1,
    /// unless the limit is 0.
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
        // Most gateways do not share, and a division is slow.
        Some(if share <= 1 {
            whole
        } else {
            (whole / share).max(whole.min(1))
        })
    }

    /// Returns the amount that an exchange asks for.
    pub fn asked(self, ask: Ask) -> u64 {
        match self {
            Kind::RequestsPerMinute | Kind::RequestsPerDay | Kind::Concurrency => 1,
            Kind::TokensPerMinute | Kind::TokensPerDay => ask.tokens,
            Kind::UsdPerDay | Kind::UsdPerMonth => ask.usd.0,
        }
    }

    /// Returns the part of the asked amount that is not an estimate.
    pub fn sure(self, ask: Ask) -> u64 {
        self.asked(Ask::exact(ask.sure.tokens, ask.sure.usd))
    }

    /// Returns whether the asked amount is over the whole limit only because of the estimate.
    /// Returns false if the limit is 0.
    pub fn is_over_as_estimated(self, limit: u64, ask: Ask) -> bool {
        limit > 0 && self.asked(ask) > limit && self.sure(ask) <= limit
    }
}
