//! A unit gives a number its meaning. This module reads values with units as an operator writes
//! them: durations, sizes, shares, points in time. [`Text`] reads any value that is written as
//! text. [`format_count`] writes a number with its noun.
//!
//! A unit is always written, so that a number explains itself.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::base::address::Cidr;
use crate::base::calendar;

/// Writes a number with its noun: `1 request`, `2 requests`.
pub fn format_count<N: fmt::Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let end = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{end}")
}

/// Cuts a text that has more characters, and marks the cut.
pub fn cut_text(text: &str, max_characters: usize) -> String {
    match text.char_indices().nth(max_characters) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}

/// Lists the first three texts, and counts the others.
pub fn first_three<T: AsRef<str>>(texts: &[T], between: &str) -> String {
    let first: Vec<&str> = texts.iter().take(3).map(AsRef::as_ref).collect();
    let first = first.join(between);
    match texts.len().saturating_sub(3) {
        0 => first,
        more if between == ", " => format!("{first} and {more} more"),
        // Between sentences, `and` alone would not be seen.
        more => format!("{first}{between}and {more} more"),
    }
}

/// Writes a duration in the unit that fits: `40 s`, `4 min`, `3 h`, `6 days`.
pub fn rough_duration(span: Duration) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "days"), (3_600, "h"), (60, "min")];
    let seconds = span.as_secs();
    match UNITS.iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", seconds / unit),
        None => format!("{seconds} s"),
    }
}

/// A value that is written as text. `T` reads it, and gives the schema's words about it to editors.
#[derive(Clone, Copy)]
pub struct Text<T>(pub T);

/// The schema's words about a value that is written as text. The type's `FromStr` gives the error
/// of a wrong value.
pub trait Written: FromStr<Err = String> {
    /// The type's name in the schema.
    const NAME: &str;
    /// A regular expression that matches every right value.
    const PATTERN: &str;
    /// The meaning in one line, for the operator.
    const MEANING: &str;
}

impl<'de, T: Written> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // At a newtype the YAML reader gives a number's text too. So the error of `30` is that of
        // `T`, which names the missing unit.
        deserializer
            .deserialize_newtype_struct(T::NAME, Parse("text", PhantomData))
            .map(Text)
    }
}

/// A visitor that parses a text as `T`. The first field says in an error what is expected.
struct Parse<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Parse<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        // The text is not repeated: it may be a secret in the wrong place.
        text.parse().map_err(E::custom)
    }
}

impl<T: Written> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed(T::NAME)
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": T::PATTERN, "description": T::MEANING })
    }
}

/// A length of time: `250ms`, `5s`, `10m`, `1h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Written for Span {
    const NAME: &str = "Duration";
    const PATTERN: &str = "^[0-9]+(ms|s|m|h)$";
    const MEANING: &str = "A length of time with its unit: ms, s, m or h.";
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let milliseconds = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let number = number_and_unit(text, &milliseconds, 168 * 3_600_000);
        let number = number.map_err(|fault| match fault {
            NumberFault::NoNumber => {
                "must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h"
            }
            NumberFault::TooLarge => "must be at most 168h",
        })?;
        Ok(Self(Duration::from_millis(number)))
    }
}

/// Writes a length of time as the catalog does.
pub fn duration_text(time: Duration) -> String {
    let milliseconds = time.as_millis();
    if milliseconds.is_multiple_of(1_000) {
        format!("{}s", milliseconds / 1_000)
    } else {
        format!("{milliseconds}ms")
    }
}

/// A number of whole days: `90d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days(pub u32);

impl Days {
    /// Returns the time that these days last.
    pub fn span(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 24 * 3600)
    }
}

impl Written for Days {
    const NAME: &str = "Days";
    const PATTERN: &str = "^[0-9]+d$";
    const MEANING: &str = "A number of days with its unit: 90d.";
}

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const OUT_OF_RANGE: &str = "must be 1d to 3650d";
        let days = number_and_unit(text, &[("d", 1)], 3650).map_err(|fault| match fault {
            NumberFault::NoNumber => "must be a number of days, such as 90d",
            NumberFault::TooLarge => OUT_OF_RANGE,
        })?;
        let days = u32::try_from(days).ok().filter(|days| *days > 0);
        Ok(Self(days.ok_or(OUT_OF_RANGE)?))
    }
}

/// A number of bytes: `512B`, `64KiB`, `32MiB`, `1GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

impl Written for Size {
    const NAME: &str = "Size";
    const PATTERN: &str = "^[0-9]+(B|KiB|MiB|GiB)$";
    const MEANING: &str = "A number of bytes with its unit: B, KiB, MiB or GiB.";
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = [
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
        ];
        const TOO_LARGE: &str = "must be at most 1024GiB";
        let size = number_and_unit(text, &bytes, 1 << 40).map_err(|fault| match fault {
            NumberFault::NoNumber => {
                "must be a size with its unit (B, KiB, MiB or GiB), such as 512B, 64KiB, 32MiB or 1GiB"
            }
            NumberFault::TooLarge => TOO_LARGE,
        })?;
        Ok(Self(usize::try_from(size).map_err(|_| TOO_LARGE)?))
    }
}

/// What is wrong with a number that has a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberFault {
    /// The text is no number with one of the units.
    NoNumber,
    /// The number is larger than it may be.
    TooLarge,
}

/// Reads a number with one of these units, each with its factor.
pub fn number_and_unit(
    text: &str,
    units: &[(&str, u64)],
    largest: u64,
) -> Result<u64, NumberFault> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, written) = text.split_at_checked(digits).unwrap_or_default();
    let unit = units
        .iter()
        .find(|(name, _)| *name == written && !number.is_empty());
    let (_, factor) = unit.ok_or(NumberFault::NoNumber)?;
    // A number that cannot be parsed is too large: it has 20 digits or more.
    number
        .parse()
        .ok()
        .and_then(|number: u64| number.checked_mul(*factor))
        .filter(|number| *number <= largest)
        .ok_or(NumberFault::TooLarge)
}

/// Makes the type of a number that is not negative, with at most `$decimals` decimals. It is held
/// as a whole number of the last decimal.
macro_rules! decimals {
    ($(#[$about:meta])* $Number:ident: $decimals:literal, $in_words:literal, $largest:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $Number(pub u64);

        impl<'de> Deserialize<'de> for $Number {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // The reader gives the number's text as it is written: a float does not have all
                // decimals.
                deserializer.deserialize_f64(Parse("a number", PhantomData))
            }
        }

        impl FromStr for $Number {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                parse_scaled(text, $decimals, $in_words, $largest).map(Self)
            }
        }

        impl JsonSchema for $Number {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($Number))
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "number",
                    "minimum": 0,
                    "maximum": $largest,
                    "description": concat!("A number with at most ", $in_words, " decimals.")
                })
            }
        }
    };
}

decimals! {
    /// A number of at most six decimals, not negative. It is held in millionths, so that sums are
    /// exact. It may have an exponent, as some programs that write YAML do: `1e-05`.
    Decimal: 6, "six", 1_000_000_000
}

decimals! {
    /// A small number of at most twelve decimals, not negative. It is held in million-millionths.
    Fine: 12, "twelve", 1_000_000
}

/// Reads a number with at most `max_decimals` decimals, as a whole number of the last decimal.
fn parse_scaled(
    text: &str,
    max_decimals: u32,
    in_words: &str,
    largest: u64,
) -> Result<u64, String> {
    let max_parts = largest.saturating_mul(10_u64.saturating_pow(max_decimals));
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if [whole, decimals, power]
        .iter()
        .any(|digits| digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err("must be a number that is 0 or more, such as 12 or 0.15".to_owned());
    }
    let digits = format!("{whole}{decimals}");
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    // The number of parts has these digits, and `zeros` zeros after them.
    let after = i64::try_from(digits.len() - significant.len())
        .unwrap_or(i64::MAX)
        .saturating_sub(decimals.len() as i64);
    let power: i64 = power.parse().unwrap_or(i64::MAX);
    let zeros = after
        .saturating_add(if exponent.starts_with('-') {
            -power
        } else {
            power
        })
        .saturating_add(max_decimals.into());
    if zeros < 0 {
        return Err(format!("must have at most {in_words} decimals"));
    }
    let factor = u32::try_from(zeros)
        .ok()
        .and_then(|zeros| 10_u64.checked_pow(zeros));
    let parts = significant
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor));
    parts
        .filter(|parts| *parts <= max_parts)
        .ok_or_else(|| format!("must be at most {largest}"))
}

/// A share of a whole: `5%`, `0.5%`. It is held as a number from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl Written for Share {
    const NAME: &str = "Share";
    const PATTERN: &str = r"^[0-9]+(\.[0-9]+)?%$";
    const MEANING: &str = "A share in percent, such as 5%.";
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').filter(|number| {
            // Rust's floats may begin with a sign or a dot, end with a dot, have an exponent, or be
            // `inf`.
            let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
            [whole, fraction]
                .iter()
                .all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        });
        let percent: f64 = percent
            .and_then(|number| number.parse().ok())
            .ok_or("must be a share in percent, such as 5% or 0.5%")?;
        if percent > 100.0 {
            Err("must be at most 100%".to_owned())
        } else {
            Ok(Self(percent / 100.0))
        }
    }
}

/// A quantile: the value below which this share of all values stays, `p50` to `p99`. It is held as
/// a number from 0.5 to 0.99.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile(pub f64);

impl Written for Quantile {
    const NAME: &str = "Quantile";
    const PATTERN: &str = "^p[5-9][0-9]$";
    const MEANING: &str =
        "A quantile from p50 to p99: p95 is the value that 95 of 100 values stay below.";
}

impl FromStr for Quantile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [b'p', tens @ b'5'..=b'9', ones @ b'0'..=b'9'] => {
                Ok(Self(f64::from((tens - b'0') * 10 + (ones - b'0')) / 100.0))
            }
            _ => Err("must be a quantile from p50 to p99, such as p95".to_owned()),
        }
    }
}

/// A point in time: `2027-06-01T00:00:00Z`, or `2027-06-01` for the start of that day in UTC. It is
/// held in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub u64);

impl Time {
    /// Returns the time as a `SystemTime`.
    pub fn system(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.0)
    }
}

impl Written for Time {
    const NAME: &str = "Time";
    const PATTERN: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))?$";
    const MEANING: &str = "A point in time, such as 2027-06-01T00:00:00Z, or a date for the start of that day in UTC.";
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        calendar::parse_unix_seconds(text).map(Self).ok_or_else(|| {
            "must be a time from 1970 on, such as 2027-06-01T00:00:00Z, or a date such as 2027-06-01".to_owned()
        })
    }
}

impl Written for Cidr {
    const NAME: &str = "Cidr";
    const PATTERN: &str = "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$";
    const MEANING: &str = "An IP address or a range of addresses: 192.0.2.7, 10.0.0.0/8, fd00::/8.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_its_noun() {
        assert_eq!(
            (format_count(1_u64, "row"), format_count(0_usize, "row")),
            ("1 row".to_owned(), "0 rows".to_owned())
        );
    }

    #[test]
    fn spans_and_sizes() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("5s", 5_000),
            ("10m", 600_000),
            ("168h", 604_800_000),
        ] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
        for (text, bytes) in [
            ("0B", 0),
            ("512B", 512),
            ("64KiB", 65_536),
            ("32MiB", 33_554_432),
            ("1024GiB", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for wrong in [
            "",
            "5",
            "s",
            "5 s",
            "5S",
            "-5s",
            "+5s",
            "1.5s",
            "5sec",
            "169h",
            "99999999999999999999999h",
            "5d",
            "５s",
        ] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "5",
            "5MB",
            "5mib",
            "5 MiB",
            "1025GiB",
            "99999999999999999999999GiB",
            "-1B",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn days() {
        for (text, days) in [("1d", 1), ("90d", 90), ("3650d", 3650)] {
            assert_eq!(text.parse(), Ok(Days(days)), "{text}");
        }
        assert_eq!(Days(2).span(), Duration::from_secs(172_800));
        for wrong in [
            "",
            "d",
            "0d",
            "90",
            "90D",
            "3651d",
            "24h",
            "1.5d",
            "-1d",
            "99999999999999999999999d",
        ] {
            assert!(wrong.parse::<Days>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        for (text, millionths) in [
            ("0", 0),
            ("0.0e99", 0),
            ("12", 12_000_000),
            ("0.15", 150_000),
            ("0.000001", 1),
            ("0.1500000", 150_000),
            ("1000000000", 1_000_000_000_000_000),
            // As PyYAML, Go and JavaScript write them.
            ("1e-05", 10),
            ("1.0e-05", 10),
            ("1E-6", 1),
            ("2.5e-05", 25),
            ("100e-8", 1),
            ("3e+00", 3_000_000),
            ("1.25e+02", 125_000_000),
            ("1e9", 1_000_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Decimal(millionths)), "{text}");
        }
        for (text, why) in [
            ("", "a number that is 0 or more"),
            ("-1", "a number that is 0 or more"),
            ("+1", "a number that is 0 or more"),
            (".5", "a number that is 0 or more"),
            ("5.", "a number that is 0 or more"),
            ("1e", "a number that is 0 or more"),
            ("e5", "a number that is 0 or more"),
            ("1e+-5", "a number that is 0 or more"),
            ("1e1.5", "a number that is 0 or more"),
            ("1e5e5", "a number that is 0 or more"),
            ("0x10", "a number that is 0 or more"),
            ("1e-07", "six decimals"),
            ("1.5e-6", "six decimals"),
            ("1e-99999999999999999999", "six decimals"),
            ("1000000000.000001", "at most 1000000000"),
            ("1e10", "at most 1000000000"),
            ("1e99999999999999999999", "at most 1000000000"),
            ("99999999999999999999999", "at most 1000000000"),
        ] {
            assert!(
                text.parse::<Decimal>()
                    .is_err_and(|told| told.contains(why)),
                "{text}"
            );
        }
    }

    #[test]
    fn small_numbers_have_twelve_decimals() {
        for (text, picos) in [
            ("0", 0),
            ("0.000015", 15_000_000),
            ("0.000000000001", 1),
            ("1.1e-5", 11_000_000),
            ("1000000", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Fine(picos)), "{text}");
        }
        for (text, why) in [
            ("1e-13", "twelve decimals"),
            ("1000000.1", "at most 1000000"),
            ("-1", "0 or more"),
        ] {
            assert!(
                text.parse::<Fine>().is_err_and(|told| told.contains(why)),
                "{text}"
            );
        }
    }

    #[test]
    fn shares_and_quantiles() {
        for (text, share) in [
            ("0%", 0.0),
            ("0.5%", 0.005),
            ("5%", 0.05),
            ("05.0%", 0.05),
            ("12.5%", 0.125),
            ("100%", 1.0),
        ] {
            assert_eq!(text.parse(), Ok(Share(share)), "{text}");
        }
        for (text, share) in [("p50", 0.5), ("p59", 0.59), ("p95", 0.95), ("p99", 0.99)] {
            assert_eq!(text.parse(), Ok(Quantile(share)), "{text}");
        }
        for wrong in [
            "", "%", "5", "5 %", "-5%", "+5%", ".5%", "5.%", "1.2.3%", "1e1%", "inf%", "nan%",
            "100.1%", "5%%", "５%",
        ] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
        assert_eq!(
            format!("{}%", "9".repeat(400)).parse::<Share>(),
            Err("must be at most 100%".to_owned())
        );
        for wrong in [
            "", "p", "95", "P95", "p49", "p100", "p9", "p095", "p99.9", "p95 ", "95%", "p5０",
        ] {
            assert!(wrong.parse::<Quantile>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-01-01", 1_767_225_600),
            ("2027-06-01T00:00:00Z", 1_811_808_000),
            ("2027-06-01T02:00:00.250+02:00", 1_811_808_000),
            ("2027-05-31t20:30:00-03:30", 1_811_808_000),
            ("2016-12-31T23:59:60Z", 1_483_228_799),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(text.parse(), Ok(Time(seconds)), "{text}");
        }
        for wrong in [
            "",
            "2027",
            "2027-06",
            "2027-6-1",
            "2027-13-01",
            "2027-00-01",
            "2027-02-29",
            "2100-02-29",
            "2027-06-31",
            "2027-06-01T00:00:00",
            "2027-06-01T24:00:00Z",
            "2027-06-01T00:60:00Z",
            "2027-06-01T00:00:00.Z",
            "2027-06-01T00:00Z",
            "1969-12-31",
            "2027-06-01Z",
            "12027-06-01",
            "2027-06-01T00:00:00+24:00",
        ] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
    }
}
