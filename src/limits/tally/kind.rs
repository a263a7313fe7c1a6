//! A [`Kind`] is one kind of limit: what it counts, and in which time.

use super::Ask;
use crate::conf::price::Usd;
use crate::limits::Limits;
use dialects::named_enum;
use serde_json::{Value, json};

named_enum! {
    /// The kinds of limits, by their names in the catalog and in the order of the store's script.
    #[derive(PartialOrd, Ord)]
    pub enum Kind {
        /// The requests of the last minute.
        RequestsPerMinute = "requests_per_minute",
        /// The requests of the day.
        RequestsPerDay = "requests_per_day",
        /// The tokens of the last minute.
        TokensPerMinute = "tokens_per_minute",
        /// The tokens of the day.
        TokensPerDay = "tokens_per_day",
        /// The requests that run at once.
        Concurrency = "concurrency",
        /// The money of the day, in thousand-millionths of a dollar.
        UsdPerDay = "usd_per_day",
        /// The money of the month, in thousand-millionths of a dollar.
        UsdPerMonth = "usd_per_month",
    }
}

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Requests.
    Requests,
    /// The tokens of prompts and answers.
    Tokens,
    /// Money, in thousand-millionths of a dollar.
    Usd,
}

/// The time in which a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// The last minute.
    Minute,
    /// The day, in UTC.
    Day,
    /// The month, in UTC.
    Month,
    /// The present moment: only what runs.
    Present,
}

/// The share of a gateway that counts alone: one gateway has the whole limit.
pub const WHOLE_LIMIT: u64 = 1;

impl Kind {
    /// Returns what the kind counts.
    pub const fn measure(self) -> Measure {
        match self {
            Kind::RequestsPerMinute | Kind::RequestsPerDay | Kind::Concurrency => Measure::Requests,
            Kind::TokensPerMinute | Kind::TokensPerDay => Measure::Tokens,
            Kind::UsdPerDay | Kind::UsdPerMonth => Measure::Usd,
        }
    }

    /// Returns the time in which the kind counts.
    pub const fn period(self) -> Period {
        match self {
            Kind::RequestsPerMinute | Kind::TokensPerMinute => Period::Minute,
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::UsdPerDay => Period::Day,
            Kind::UsdPerMonth => Period::Month,
            Kind::Concurrency => Period::Present,
        }
    }

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

    /// Returns whether the kind counts money.
    pub fn is_money(self) -> bool {
        self.measure() == Measure::Usd
    }

    /// Returns the amount that these limits allow, or an equal share of it. A share is at least 1,
    /// unless the limit is 0.
    pub fn limit(self, limits: &Limits, share: u64) -> Option<u64> {
        let whole = limits.allowed(self)?;
        // Most gateways do not share, and a division is slow.
        Some(if share <= 1 {
            whole
        } else {
            (whole / share).max(whole.min(1))
        })
    }

    /// Returns the amount that an exchange asks for.
    pub fn asked_amount(self, ask: Ask) -> u64 {
        match self.measure() {
            Measure::Requests => 1,
            Measure::Tokens => ask.tokens,
            Measure::Usd => ask.usd.0,
        }
    }

    /// Returns the part of the asked amount that is not an estimate.
    pub fn sure(self, ask: Ask) -> u64 {
        self.asked_amount(Ask::exact(ask.sure.tokens, ask.sure.usd))
    }

    /// Returns whether the asked amount is over the whole limit only because of the estimate.
    /// Returns false if the limit is 0.
    pub fn is_over_as_estimated(self, limit: u64, ask: Ask) -> bool {
        limit > 0 && self.asked_amount(ask) > limit && self.sure(ask) <= limit
    }
}
