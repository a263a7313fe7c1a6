//! What no provider's answer may fail for: counts, in whatever form, and inputs of calls in quotes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// More than this counts nothing; and a float is exact up to here.
pub(super) const MOST: u64 = 1 << 53;

/// A count: an integer, a float that is one, or either in quotes. What is none is not there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

impl Count {
    fn of(count: u64) -> Self {
        Self((count <= MOST).then_some(count))
    }

    fn of_float(count: f64) -> Self {
        let is_count = count.fract() == 0.0 && (0.0..1e16).contains(&count);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
        let whole = count as u64;
        if is_count { Self::of(whole) } else { Self(None) }
    }
}

/// An object of counts; what is none is not there.
pub(super) fn counts<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    let json = <&RawValue>::deserialize(from)?.get();
    Ok(json.starts_with('{').then(|| serde_json::from_str(json).ok()).flatten())
}

/// A call's input. Some servers that imitate another's API write it as a string, as OpenAI does.
pub(super) fn unquoted(input: &RawValue) -> Cow<'_, str> {
    let input = input.get();
    let quoted: Option<String> = input.starts_with('"').then(|| serde_json::from_str(input).ok()).flatten();
    quoted.map_or(Cow::Borrowed(input), Cow::Owned)
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AsCount)
    }
}

struct AsCount;

impl<'de> Visitor<'de> for AsCount {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
        Ok(Count::of(count))
    }

    fn visit_i64<E>(self, count: i64) -> Result<Count, E> {
        Ok(u64::try_from(count).map_or(Count(None), Count::of))
    }

    fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
        Ok(Count::of_float(count))
    }

    fn visit_str<E>(self, digits: &str) -> Result<Count, E> {
        let float = || digits.parse().map_or(Count(None), Count::of_float);
        Ok(digits.parse().map_or_else(|_| float(), Count::of))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_every_form() {
        let check = |json: &str, expected| assert_eq!(serde_json::from_str::<Count>(json).unwrap().0, expected, "{json}");
        for json in ["7", "7.0", "70e-1", "\"7\"", "\"7.0\""] {
            check(json, Some(7));
        }
        check("0", Some(0));
        check("-0.0", Some(0));
        check("9007199254740992", Some(MOST));
        for json in [
            "9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
            "-7",
            "-7.0",
            "7.5",
            "\"-7\"",
            "\"7.5\"",
            "\"seven\"",
            "\"\"",
            "\"NaN\"",
            "\"inf\"",
            "null",
            "true",
            "[7,[]]",
            "{\"a\":{}}",
        ] {
            check(json, None);
        }
    }

    #[test]
    fn an_object_of_counts_that_is_none_is_not_there() {
        #[derive(serde::Deserialize)]
        struct Of {
            #[serde(default, deserialize_with = "counts")]
            counts: Option<Inner>,
        }
        #[derive(serde::Deserialize)]
        struct Inner {
            #[serde(default)]
            a: Count,
        }
        let check = |json: &str, expected| {
            let of: Of = serde_json::from_str(json).unwrap();
            assert_eq!(of.counts.and_then(|counts| counts.a.0), expected, "{json}");
        };
        check(r#"{"counts":{"a":7}}"#, Some(7));
        for json in ["{}", r#"{"counts":null}"#, r#"{"counts":7}"#, r#"{"counts":[7]}"#, r#"{"counts":"x"}"#, r#"{"counts":{"a":1,"a":2}}"#]
        {
            check(json, None);
        }
    }

    #[test]
    fn inputs_are_taken_out_of_their_quotes() {
        let check = |json: &str, expected| assert_eq!(unquoted(serde_json::from_str(json).unwrap()), expected);
        check(r#"{"a": 1.0}"#, r#"{"a": 1.0}"#);
        check(r#""{\"a\": 1.0}""#, r#"{"a": 1.0}"#);
        check(r#""""#, "");
        check("[7]", "[7]");
    }
}
