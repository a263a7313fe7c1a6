//! Prices and costs, computed exactly.
//!
//! A price is in millionths of a dollar for a million tokens. That is a million-millionth of a
//! dollar for one token, which is also the unit of the prices of pictures, sound and characters. A
//! cost is in thousand-millionths of a dollar. It is rounded only once, so sums are sums of the
//! amounts that were shown. An amount that is too large becomes the largest amount.

use std::fmt;

use super::usage::{Source, Units, Usage};

/// An amount of US dollars, in thousand-millionths. It is shown as an exact decimal, `0.000123`,
/// which is a JSON number too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(pub u64);

/// The number of thousand-millionths in one dollar.
const NANOS: u64 = 1_000_000_000;

impl Usd {
    /// Nothing.
    pub const ZERO: Usd = Usd(0);

    /// The largest amount, some thousand million dollars. Every counter can hold it, and can hold
    /// the sum of two such amounts.
    pub const MAX: Usd = Usd(1 << 62);

    /// Returns an amount from millionths of a dollar.
    pub fn of_millionths(millionths: u64) -> Usd {
        Usd(millionths.saturating_mul(1_000)).min(Self::MAX)
    }

    /// Returns the nearest float, in dollars.
    pub fn dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "said so")]
        let nanos = self.0 as f64;
        nanos / 1e9
    }

    /// Returns the sum of both amounts.
    #[must_use]
    pub fn plus(self, other: Usd) -> Usd {
        Usd(self.0.saturating_add(other.0)).min(Self::MAX)
    }
}

/// Writes a number. A float has all nine decimals of an amount of up to some millions.
impl serde::Serialize for Usd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, NANOS, 9)
    }
}

/// The price of one thing, in million-millionths of a dollar. It is shown as an exact decimal of
/// dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Each(pub u64);

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 1_000_000_000_000, 12)
    }
}

/// The price of a million tokens, for display in dollars as in the catalog. The number is the price
/// of one token in million-millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Million(pub u64);

impl fmt::Display for Million {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 1_000_000, 6)
    }
}

/// Writes `parts` of a whole as a decimal without zeros at its end.
fn write_decimal(
    f: &mut fmt::Formatter<'_>,
    parts: u64,
    in_one: u64,
    digits: usize,
) -> fmt::Result {
    let (whole, rest) = (parts / in_one, parts % in_one);
    if rest == 0 {
        return f.pad(&whole.to_string());
    }
    f.pad(format!("{whole}.{rest:0digits$}").trim_end_matches('0'))
}

/// The prices of a model's tokens, in million-millionths of a dollar for a token. That number is
/// also the price of a million tokens in millionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// The price of a token that is read.
    pub input: u64,
    /// The price of a token that is written.
    pub output: u64,
    /// The price of a token that is read out of the upstream's cache.
    pub cached_input: u64,
    /// The price of a token that is read and goes into the upstream's cache.
    pub cache_write: u64,
    /// The price of a token of thinking.
    pub thinking: u64,
}

impl Rates {
    /// Returns the highest price of a token that is read, and of a token that is written.
    fn highest(&self) -> (u64, u64) {
        (
            self.input.max(self.cached_input).max(self.cache_write),
            self.output.max(self.thinking),
        )
    }
}

/// The prices of a model's answers. A unit without a price, `None`, costs nothing here. Where money
/// is limited, the gateway asks for no answer that is charged by such a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// The prices of tokens.
    pub rates: Option<Rates>,
    /// The price of each answer, in addition.
    pub per_request: Option<Usd>,
    /// The price of each picture.
    pub per_image: Option<Each>,
    /// The price of a second of sound.
    pub per_second: Option<Each>,
    /// The price of each character that is spoken.
    pub per_character: Option<Each>,
    /// The prices of all tokens of an answer to a long prompt, in place of the others.
    pub long: Option<LongPrices>,
}

/// The prices of answers to long prompts. They replace the prices of [`Price`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrices {
    /// A prompt with more tokens than this is long.
    pub above: u64,
    /// The prices of the tokens of such prompts, and of their answers.
    pub rates: Rates,
}

/// The most tokens of a picture at providers that charge pictures by tokens.
const TOKENS_OF_A_PICTURE: u64 = 6_240;

impl Price {
    /// The price of a free model.
    pub const FREE: Price = Price {
        rates: Some(Rates {
            input: 0,
            output: 0,
            cached_input: 0,
            cache_write: 0,
            thinking: 0,
        }),
        per_request: Some(Usd::ZERO),
        per_image: Some(Each(0)),
        per_second: Some(Each(0)),
        per_character: Some(Each(0)),
        long: None,
    };

    /// Returns the cost of an answer. Without an answer there is none.
    pub fn cost(&self, usage: &Usage) -> Usd {
        if usage.source == Source::None {
            return Usd::ZERO;
        }
        // A part is never larger than its whole, whatever an upstream reports.
        let cached = usage.cached.min(usage.prompt);
        let cache_write = usage.cache_write.min(usage.prompt - cached);
        let thinking = usage.reasoning.min(usage.completion);
        let plain = usage.prompt - cached - cache_write;
        let each = self.rates_for(usage.prompt);
        let tokens = [
            (plain, each.input),
            (cached, each.cached_input),
            (cache_write, each.cache_write),
            (usage.completion - thinking, each.output),
            (thinking, each.thinking),
        ];
        self.sum(&tokens, &usage.units)
    }

    /// Returns the highest possible cost of an answer with at most so many tokens, of any kind, and
    /// so many other units.
    pub fn highest_cost(&self, prompt: u64, completion: u64, units: &Units) -> Usd {
        let (read, written) = self.rates_for(0).highest();
        let (long_read, long_written) = self.rates_for(prompt).highest();
        self.sum(
            &[
                (prompt, read.max(long_read)),
                (completion, written.max(long_written)),
            ],
            units,
        )
    }

    /// Returns the most tokens that pictures are charged for, where no count is known. If each
    /// picture has a price, they are charged for none.
    pub fn image_tokens(&self, pictures: u32) -> u64 {
        let is_by_tokens = self.per_image.is_none_or(|Each(each)| each == 0);
        let is_charged = is_by_tokens && self.rates.is_some_and(|rates| rates.output > 0);
        if is_charged {
            u64::from(pictures).saturating_mul(TOKENS_OF_A_PICTURE)
        } else {
            0
        }
    }

    /// Returns the prices of tokens for a prompt of this length.
    fn rates_for(&self, prompt: u64) -> Rates {
        self.long
            .filter(|long| prompt > long.above)
            .map_or(self.rates.unwrap_or_default(), |long| long.rates)
    }

    /// Returns the sum with the price of the answer, rounded once, half up.
    fn sum(&self, tokens: &[(u64, u64)], units: &Units) -> Usd {
        let each = |price: Option<Each>| price.map_or(0, |Each(picos)| picos);
        let others = [
            (u64::from(units.images), each(self.per_image)),
            (u64::from(units.characters), each(self.per_character)),
        ];
        let all = tokens.iter().chain(&others);
        let picos = all.fold(0_u128, |sum, (count, each)| {
            sum.saturating_add(u128::from(*count) * u128::from(*each))
        });
        // A price of a second is a price of a thousand milliseconds.
        let sound = u128::from(units.millis) * u128::from(each(self.per_second));
        let nanos = picos
            .saturating_mul(1_000)
            .saturating_add(sound)
            .saturating_add(500_000)
            / 1_000_000;
        let answers = self
            .per_request
            .unwrap_or_default()
            .0
            .saturating_mul(units.requests.max(1).into());
        Usd(u64::try_from(nanos).unwrap_or(u64::MAX)).plus(Usd(answers))
    }
}

/// Decides whether an answer's usage shows the cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShowCost {
    /// The usage shows no cost of ours. An upstream's own cost stays.
    #[default]
    No,
    /// The usage shows the cost at this price, if the price is known. An upstream's own cost is
    /// removed.
    AtPrice(Option<Price>),
    /// The usage shows this cost.
    Sum(Usd),
}

impl ShowCost {
    /// Returns the cost that is shown.
    pub fn shown_cost(&self, usage: &Usage) -> Option<Usd> {
        match self {
            Self::No | Self::AtPrice(None) => None,
            Self::AtPrice(Some(price)) => Some(price.cost(usage)),
            Self::Sum(cost) => Some(*cost),
        }
    }
}

#[cfg(test)]
mod tests;
