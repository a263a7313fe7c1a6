//! Money: what tokens cost, exactly.
//!
//! A price is in millionths of a dollar for a million tokens, which is a million-millionth of a
//! dollar a token; a cost is in thousand-millionths of a dollar, and rounded to them once, so that
//! sums are sums of what was told. What is too much for the numbers is the most that they can say.

use std::fmt;

use super::usage::{Source, Usage};

/// An amount of US dollars, in thousand-millionths. Shown as an exact decimal, `0.000123`, which is
/// a JSON number too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(pub u64);

/// In one dollar.
const NANOS: u64 = 1_000_000_000;

impl Usd {
    /// Nothing.
    pub const ZERO: Usd = Usd(0);

    /// The most that an amount can be, so that every book can have it, and two of them together:
    /// some thousand million dollars.
    pub const MOST: Usd = Usd(1 << 62);

    /// From millionths of a dollar.
    pub fn of_millionths(millionths: u64) -> Usd {
        Usd(millionths.saturating_mul(1_000)).min(Self::MOST)
    }

    /// As near as a float comes to it.
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "said so")]
        let nanos = self.0 as f64;
        nanos / 1e9
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0)).min(Self::MOST)
    }
}

/// As a number: of nine decimals a float has all, up to some millions.
impl serde::Serialize for Usd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, NANOS, 9)
    }
}

/// What a million tokens cost, of which each costs so many million-millionths of a dollar: in
/// dollars, as the catalog has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Million(pub u64);

impl fmt::Display for Million {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 1_000_000, 6)
    }
}

/// Shows a number of equal parts of a whole as a decimal, with no zeros at its end.
fn decimal(f: &mut fmt::Formatter<'_>, parts: u64, in_one: u64, digits: usize) -> fmt::Result {
    let (whole, rest) = (parts / in_one, parts % in_one);
    if rest == 0 {
        return f.pad(&whole.to_string());
    }
    f.pad(format!("{whole}.{rest:0digits$}").trim_end_matches('0'))
}

/// What a model's tokens cost: each in million-millionths of a dollar, which is what a million of
/// them cost in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// A token that is read.
    pub input: u64,
    /// A token that is written.
    pub output: u64,
    /// A token that is read out of the upstream's cache.
    pub cached_input: u64,
    /// A token that is read and goes into the upstream's cache.
    pub cache_write: u64,
    /// A token that is thought.
    pub thinking: u64,
    /// Each answer, besides.
    pub per_request: Usd,
    /// What all tokens of an answer cost where its prompt is a long one.
    pub long: Option<Long>,
}

/// The price of answers to long prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Long {
    /// Prompts of more tokens than this are long.
    pub above: u64,
    /// Instead of the price's own, as are the others.
    pub input: u64,
    /// A token that is written.
    pub output: u64,
    /// A token that is read out of the upstream's cache.
    pub cached_input: u64,
    /// A token that is read and goes into the upstream's cache.
    pub cache_write: u64,
    /// A token that is thought.
    pub thinking: u64,
}

impl Price {
    /// Nothing costs anything.
    pub const FREE: Price =
        Price { input: 0, output: 0, cached_input: 0, cache_write: 0, thinking: 0, per_request: Usd::ZERO, long: None };

    /// What an answer cost; nothing where there was none.
    pub fn cost(&self, usage: &Usage) -> Usd {
        if usage.source == Source::None {
            return Usd::ZERO;
        }
        // Parts are no more than their whole, whatever an upstream says.
        let cached = usage.cached.min(usage.prompt);
        let cache_write = usage.cache_write.min(usage.prompt - cached);
        let thinking = usage.reasoning.min(usage.completion);
        let plain = usage.prompt - cached - cache_write;
        let Long { input, output, cached_input, cache_write: written, thinking: thought, .. } = self.at(usage.prompt);
        self.sum([
            (plain, input),
            (cached, cached_input),
            (cache_write, written),
            (usage.completion - thinking, output),
            (thinking, thought),
        ])
    }

    /// The most that an answer of so many tokens can cost, and of fewer, of whatever kind they are.
    pub fn most(&self, prompt: u64, completion: u64) -> Usd {
        let dearest =
            |each: Long| (each.input.max(each.cached_input).max(each.cache_write), each.output.max(each.thinking));
        let ((read, written), (long_read, long_written)) = (dearest(self.at(0)), dearest(self.at(prompt)));
        self.sum([(prompt, read.max(long_read)), (completion, written.max(long_written))])
    }

    /// What each token costs where the prompt has so many.
    fn at(&self, prompt: u64) -> Long {
        let Price { input, output, cached_input, cache_write, thinking, per_request: _, long } = *self;
        let short = Long { above: 0, input, output, cached_input, cache_write, thinking };
        long.filter(|long| prompt > long.above).unwrap_or(short)
    }

    /// Rounded once, half up.
    fn sum<const KINDS: usize>(&self, kinds: [(u64, u64); KINDS]) -> Usd {
        let picos = kinds
            .iter()
            .fold(0_u128, |sum, (tokens, each)| sum.saturating_add(u128::from(*tokens) * u128::from(*each)));
        let nanos = u64::try_from(picos.saturating_add(500) / 1_000).unwrap_or(u64::MAX);
        Usd(nanos).plus(self.per_request)
    }
}

/// Whether an answer's usage says what it cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShowCost {
    /// It does not: what an upstream says of it stays.
    #[default]
    No,
    /// It does, at this price, where it is known; what an upstream says of it is not ours, and
    /// goes.
    At(Option<Price>),
}

impl ShowCost {
    /// What is shown.
    pub fn of(&self, usage: &Usage) -> Option<Usd> {
        match self {
            Self::No | Self::At(None) => None,
            Self::At(Some(price)) => Some(price.cost(usage)),
        }
    }
}

#[cfg(test)]
mod tests;
