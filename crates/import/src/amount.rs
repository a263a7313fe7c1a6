//! An amount is a decimal number as it is written. Money and shares are counted with it, because
//! floats would change them.

/// The decimals that an amount keeps.
const DECIMALS: i32 = 18;

/// A decimal number that is not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    /// The number in units of its last decimal, rounded up.
    parts: u128,
    is_exact: bool,
}

impl Amount {
    pub(super) const ZERO: Self = Self {
        parts: 0,
        is_exact: true,
    };

    /// Stands for each number that is larger than any that can be used.
    const TOO_LARGE: Self = Self {
        parts: u128::MAX,
        is_exact: false,
    };

    /// Reads a number such as `5`, `20_000`, `0.00000015` or `1.5e-07`. Returns `None` for anything
    /// else, for negative numbers, and for numbers of too many digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        const MAX_EXPONENT: u32 = 40;
        let text = text.strip_prefix('+').unwrap_or(text);
        let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let plain = number.replace('_', "");
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let digits = format!("{whole}{fraction}");
        let is_number = number.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.bytes().all(|b| b.is_ascii_digit())
            && exponent.unsigned_abs() <= MAX_EXPONENT;
        let parts: u128 = digits.parse().ok().filter(|_| is_number)?;
        let read = Self {
            parts,
            is_exact: true,
        };
        let shift = DECIMALS + exponent - i32::try_from(fraction.len()).ok()?;
        // A large number must not be taken for none: a share would be nothing.
        let large = (parts > 0).then_some(Self::TOO_LARGE);
        read.scaled(shift).or(large)
    }

    /// Returns the number times a power of ten.
    fn scaled(self, exponent: i32) -> Option<Self> {
        let power = 10_u128.checked_pow(exponent.unsigned_abs());
        let (parts, is_whole) = match power {
            Some(power) if exponent < 0 => {
                (self.parts.div_ceil(power), self.parts.is_multiple_of(power))
            }
            None if exponent < 0 => (1.min(self.parts), self.parts == 0),
            power => (self.parts.checked_mul(power?)?, true),
        };
        Some(Self {
            parts,
            is_exact: self.is_exact && is_whole,
        })
    }

    pub(super) fn is_zero(self) -> bool {
        self.parts == 0
    }

    /// Returns the number as a whole one of units of 10^-`decimals`, rounded up, and whether it is
    /// exact. Returns `None` if it is too large.
    pub(super) fn units(self, decimals: i32) -> Option<(u64, bool)> {
        let units = self.scaled(decimals - DECIMALS)?;
        Some((u64::try_from(units.parts).ok()?, units.is_exact))
    }

    /// Returns the number if it is a whole one.
    pub(super) fn whole(self) -> Option<u64> {
        let (number, is_exact) = self.units(0)?;
        is_exact.then_some(number)
    }

    /// Returns these numbers as small whole ones in the same relation, and whether that is exact.
    pub(super) fn ratio(amounts: &[Self]) -> Option<(Vec<u32>, bool)> {
        const LARGEST: u64 = 1_000_000;
        let units: Vec<(u64, bool)> = amounts
            .iter()
            .map(|amount| amount.units(6))
            .collect::<Option<_>>()?;
        let numbers = || units.iter().map(|(number, _)| *number);
        let common = numbers().fold(0, greatest_divisor).max(1);
        let largest = numbers().max().unwrap_or_default() / common;
        let scale = largest.div_ceil(LARGEST).max(1);
        let is_exact = scale == 1 && units.iter().all(|(_, is_exact)| *is_exact);
        // A share that rounds to nothing keeps the smallest part.
        let parts = numbers().map(|number| u32::try_from((number / common).div_ceil(scale)).ok());
        Some((parts.collect::<Option<_>>()?, is_exact))
    }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis::conf::price::Million;
    use proptest::prelude::*;

    #[test]
    fn prices_of_a_million() {
        for (written, million) in [
            ("0.00000015", "0.15"),
            ("1.5e-07", "0.15"),
            ("3e-6", "3"),
            ("0", "0"),
            (".000001", "1"),
            ("1e-12", "0.000001"),
            ("20_000e-9", "20"),
        ] {
            let amount = Amount::parse(written).unwrap_or_else(|| panic!("{written}"));
            let (price, is_exact) = amount.units(12).unwrap();
            assert_eq!(
                (&*Million(price).to_string(), is_exact),
                (million, true),
                "{written}"
            );
        }
        assert_eq!(Amount::parse("1e-13").unwrap().units(12), Some((1, false)));
        for wrong in [
            "",
            "-1",
            "a",
            "1e",
            "1e99",
            "0x10",
            "1.2.3",
            "e5",
            "inf",
            "nan",
            "1 0",
            &"1".repeat(40),
        ] {
            assert_eq!(Amount::parse(wrong), None, "{wrong}");
        }
        // What is too large is no price, and not nothing either.
        for large in [&*"1".repeat(31), "1e40", "999999999999999999999999"] {
            let amount = Amount::parse(large).unwrap_or_else(|| panic!("{large}"));
            assert!(!amount.is_zero(), "{large}");
            assert_eq!((amount.units(12), amount.units(6)), (None, None), "{large}");
            assert_eq!((amount.whole(), amount.units(9)), (None, None), "{large}");
            assert_eq!(Amount::ratio(&[amount, Amount::ZERO]), None, "{large}");
        }
    }

    #[test]
    fn shares() {
        let ratio_of = |texts: &[&str]| {
            Amount::ratio(
                &texts
                    .iter()
                    .map(|text| Amount::parse(text).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(ratio_of(&["6", "3"]), Some((vec![2, 1], true)));
        assert_eq!(ratio_of(&["0.9", "0.1"]), Some((vec![9, 1], true)));
        assert_eq!(ratio_of(&["0", "5"]), Some((vec![0, 1], true)));
        assert_eq!(
            ratio_of(&["100000000", "1"]),
            Some((vec![1_000_000, 1], false))
        );
    }

    proptest! {
        #[test]
        fn an_amount_is_read_as_floats_read_it(whole in 0_u32..1_000_000, fraction in 0_u32..1_000_000, exponent in -3_i32..4) {
            let text = format!("{whole}.{fraction:06}e{exponent}");
            let (millionths, exact) = Amount::parse(&text).unwrap().units(6).unwrap();
            let written = Million(millionths).to_string();
            let (ours, theirs): (f64, f64) = (written.parse().unwrap(), text.parse().unwrap());
            let off = if exact { theirs * 1e-12 } else { 0.000_001 };
            prop_assert!((ours - theirs).abs() <= off && (exact || ours >= theirs), "{} {}", text, written);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = Amount::parse(&text).map(|amount| (amount.units(12), amount.whole(), Amount::ratio(&[amount, amount])));
        }
    }
}
