//! Money: what tokens cost, exactly.
//!
//! A price is in millionths of a dollar for a million tokens, which is a million-millionth of a dollar a token; a cost is in thousand-millionths of
//! a dollar, and rounded to them once, so that sums are sums of what was told.

/// An amount of US dollars, in thousand-millionths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(pub u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Usd = Usd(0);

    /// From millionths of a dollar.
    pub fn of_millionths(millionths: u64) -> Usd {
        Usd(millionths.saturating_mul(1_000))
    }
}
