//! This module reads values that servers write in several ways: counts, and the inputs of calls. An
//! answer does not fail because of such a value.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire::json::{Cursor, name_of, span_bytes};
use crate::wire::without_bom;

/// A count: an integer, a float with an integer's value, or either in quotes. Any other value
/// counts as absent.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count(pub Option<u64>);

impl Count {
    /// The count for a number that counts nothing, such as -1, a half, or a number that is too
    /// large. It is larger than any real count.
    pub const IMPOSSIBLE: u64 = u64::MAX;

    /// Returns this count, or the other one if this one is absent.
    pub fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }

    /// Reads a JSON value.
    pub fn read(json: &str) -> Self {
        let number = json
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(json);
        if let Ok(count) = number.parse() {
            return Self(Some(count));
        }
        let float: Option<f64> = number.parse().ok();
        Self(float.filter(|float| !float.is_nan()).map(whole_count))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is whole, and what is too large becomes the largest"
)]
fn whole_count(float: f64) -> u64 {
    if float >= 0.0 && float.fract() == 0.0 {
        float as u64
    } else {
        Count::IMPOSSIBLE
    }
}

/// Reads an object of JSON. Returns `None` for any other value.
pub fn read_object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    serde_json::from_slice(json).ok().map(|Object(read)| read)
}

/// An object. A list is refused: serde would take it for the object's members in their order.
#[derive(Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ReadObject<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ReadObject<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        from.deserialize_map(ReadObject(PhantomData))
    }
}

/// Reads an object of counts. Any other value counts as absent.
pub fn read_counts<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    let json = <&RawValue>::deserialize(from)?.get();
    Ok(json
        .starts_with('{')
        .then(|| serde_json::from_str(json).ok())
        .flatten())
}

/// Returns the value of a member of an object, even if the text after it is broken.
pub fn find_member<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let json = without_bom(json);
    let mut found = None;
    let _read = Cursor::new(json).maybe_members(|key, value| {
        if *name_of(json, &key) == *name.as_bytes() {
            found = Some(value);
        }
    });
    found.map(|value| span_bytes(json, &value))
}

/// Reads an object of counts that is a member of an object, even if the text after it is broken.
pub fn counts_in<T: DeserializeOwned>(json: &[u8], name: &str) -> Option<T> {
    read_object(find_member(json, name)?)
}

/// Returns a call's input. Some servers that imitate an API write the input as a string, as OpenAI
/// does.
pub fn unquote_input(input: &RawValue) -> Cow<'_, str> {
    let input = input.get();
    let quoted: Option<String> = input
        .starts_with('"')
        .then(|| serde_json::from_str(input).ok())
        .flatten();
    quoted.map_or(Cow::Borrowed(input), Cow::Owned)
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(from).map(|json| Self::read(json.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_every_form() {
        let check = |json: &str, expected| {
            assert_eq!(
                serde_json::from_str::<Count>(json).unwrap().0,
                expected,
                "{json}"
            )
        };
        for json in ["7", "7.0", "70e-1", "\"7\"", "\"7.0\"", " 7 "] {
            check(json, Some(7));
        }
        check("0", Some(0));
        check("-0.0", Some(0));
        check("1e18", Some(1_000_000_000_000_000_000));
        check("9223372036854775808", Some(1 << 63));
        for json in [
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
            "1e400",
            "-7",
            "-7.0",
            "7.5",
            "\"-7\"",
            "\"7.5\"",
            "\"inf\"",
        ] {
            check(json, Some(Count::IMPOSSIBLE));
        }
        for json in [
            "\"seven\"",
            "\"\"",
            "\"NaN\"",
            "null",
            "true",
            "[7,[]]",
            "{\"a\":{}}",
        ] {
            check(json, None);
        }
    }

    #[test]
    fn an_object_is_no_list_of_its_members() {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Named {
            name: Count,
        }
        let read = |json| {
            serde_json::from_str::<Vec<Object<Named>>>(json)
                .ok()
                .map(|list| list.len())
        };
        assert_eq!(
            (
                read(r#"[{"name":1},{}]"#),
                read("[[]]"),
                read("[[1]]"),
                read("[null]")
            ),
            (Some(2), None, None, None)
        );
        assert!(
            read_object::<Named>(b" {\"name\": 2}")
                .is_some_and(|named| named.name == Count(Some(2)))
        );
        assert!(read_object::<Named>(b"[]").is_none());
    }

    #[test]
    fn an_object_without_counts_is_absent() {
        #[derive(serde::Deserialize)]
        struct Of {
            #[serde(default, deserialize_with = "read_counts")]
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
        for json in [
            "{}",
            r#"{"counts":null}"#,
            r#"{"counts":7}"#,
            r#"{"counts":[7]}"#,
            r#"{"counts":"x"}"#,
            r#"{"counts":{"a":1,"a":2}}"#,
        ] {
            check(json, None);
        }
    }

    #[test]
    fn a_member_is_found_before_what_is_broken() {
        let check = |json: &str, expected: Option<&str>| {
            let found = find_member(json.as_bytes(), "a").map(String::from_utf8_lossy);
            assert_eq!(found.as_deref(), expected, "{json}");
        };
        check(r#"{"b":{"a":1},"a": {"c":2} }"#, Some(r#"{"c":2}"#));
        check("\u{feff}{\"a\":7,\"b\":{\"c", Some("7"));
        check(r#"{"a":1,"a":2}"#, Some("2"));
        for json in ["", "[]", "{}", r#"{"b":{"c,"a":1}"#, r#"{"a":{"c"#] {
            check(json, None);
        }
    }

    #[test]
    fn inputs_are_taken_out_of_their_quotes() {
        let check = |json: &str, expected| {
            assert_eq!(unquote_input(serde_json::from_str(json).unwrap()), expected)
        };
        check(r#"{"a": 1.0}"#, r#"{"a": 1.0}"#);
        check(r#""{\"a\": 1.0}""#, r#"{"a": 1.0}"#);
        check(r#""""#, "");
        check("[7]", "[7]");
    }
}
