//! A vector in an answer: a list of numbers, or a text with the numbers in base64, as 32-bit floats
//! whose lowest byte comes first. Both forms are JSON text.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memchr;

use crate::wire::json::{Broken, Cursor, Kind, span_bytes, text_of};

/// A vector as JSON text.
pub(crate) type VectorText<'v> = Cow<'v, [u8]>;

const NO_LIST: &str = "a vector is no list of numbers";
const NO_BASE64: &str = "a vector is no base64 of 32-bit floats";

/// Returns a vector in the requested form, and its length in bytes as 32-bit floats. A vector that
/// has this form already stays as it is.
pub(crate) fn convert_vector(
    vector: &[u8],
    base64: bool,
) -> Result<(VectorText<'_>, usize), &'static str> {
    if vector.first() != Some(&b'"') {
        let length = size_of::<f32>() * each_number(vector, |_| {})?;
        let vector = if base64 {
            Cow::Owned(encode_vector(vector)?)
        } else {
            Cow::Borrowed(vector)
        };
        return Ok((vector, length));
    }
    let inside = vector
        .strip_prefix(b"\"")
        .and_then(|inside| inside.strip_suffix(b"\""));
    // A vector that stays as it is need not be decoded.
    let (text, length) = match inside.filter(|inside| base64 && memchr(b'\\', inside).is_none()) {
        Some(inside) => (Cow::Borrowed(""), decoded_length(inside)),
        None => {
            let text = text_of(vector, &(0..vector.len())).ok_or(NO_BASE64)?;
            let length = decoded_length(text.as_bytes());
            (text, length)
        }
    };
    match base64 {
        true if length > 0 => Ok((Cow::Borrowed(vector), length)),
        true => Err(NO_BASE64),
        false => decode_vector(&text).map(|list| (Cow::Owned(list), length)),
    }
}

fn decoded_length(base64: &[u8]) -> usize {
    let padding = base64.iter().rev().take_while(|byte| **byte == b'=');
    (base64.len() - padding.count()) * 3 / 4
}

/// Hands the text of each number to `each`, and returns their count. Fails if there is none, or if
/// an element is no number.
fn each_number(vector: &[u8], mut each: impl FnMut(&[u8])) -> Result<usize, &'static str> {
    let mut count = 0;
    let read = Cursor::new(vector).array(|cursor, _| {
        if cursor.kind()? != Kind::Number {
            return Err(Broken {
                offset: cursor.offset(),
                why: NO_LIST,
            });
        }
        count += 1;
        each(span_bytes(vector, &cursor.value()?));
        Ok(())
    });
    if read.is_ok() && count > 0 {
        Ok(count)
    } else {
        Err(NO_LIST)
    }
}

/// Returns the base64 of a list of numbers.
fn encode_vector(vector: &[u8]) -> Result<Vec<u8>, &'static str> {
    // A number usually has more bytes than four.
    let mut bytes = Vec::with_capacity(vector.len() / 2);
    let mut is_finite = true;
    each_number(vector, |number| {
        let number: f64 = str::from_utf8(number)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(f64::NAN);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the form has 32 bits, and clients round the same way"
        )]
        let number = number as f32;
        is_finite &= number.is_finite();
        bytes.extend_from_slice(&number.to_le_bytes());
    })?;
    if !is_finite {
        return Err("a vector has a number that is too large");
    }
    let mut text = STANDARD.encode(bytes);
    text.insert(0, '"');
    text.push('"');
    Ok(text.into_bytes())
}

/// Returns the list of the numbers in base64.
fn decode_vector(text: &str) -> Result<Vec<u8>, &'static str> {
    let bytes = STANDARD.decode(text).map_err(|_| NO_BASE64)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if numbers.is_empty() || !rest.is_empty() {
        return Err(NO_BASE64);
    }
    let mut list = Vec::with_capacity(numbers.len() * 14);
    for number in numbers {
        let number = f32::from_le_bytes(*number);
        if !number.is_finite() {
            return Err(NO_BASE64);
        }
        list.push(if list.is_empty() { b'[' } else { b',' });
        // A number can always be written to a buffer.
        let _written = serde_json::to_writer(&mut list, &number);
    }
    list.push(b']');
    Ok(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(vector: &str, base64: bool) -> Result<String, &'static str> {
        convert_vector(vector.as_bytes(), base64)
            .map(|(vector, _)| String::from_utf8(vector.into_owned()).unwrap())
    }

    #[test]
    fn a_vector_comes_in_the_asked_form() {
        let same = |vector: &str, base64| assert_eq!(text(vector, base64).as_deref(), Ok(vector));
        same("[0.1, -2e-3,7]", false);
        same(r#""zczMPQ==""#, true);
        assert_eq!(text("[0.1]", true).as_deref(), Ok(r#""zczMPQ==""#));
        assert_eq!(text(r#""zczMPQ==""#, false).as_deref(), Ok("[0.1]"));
        assert_eq!(
            text(r#""AACAPwAAgL8=""#, false).as_deref(),
            Ok("[1.0,-1.0]")
        );
        assert_eq!(
            text(r#""AACAPwAAgL8=""#.replace('/', "\\/").as_str(), false).as_deref(),
            Ok("[1.0,-1.0]")
        );
    }

    #[test]
    fn a_vector_has_the_same_length_in_every_form() {
        for numbers in 1..9_usize {
            let list = serde_json::to_string(&vec![0.5_f32; numbers]).unwrap();
            let (packed, length) = convert_vector(list.as_bytes(), true).unwrap();
            assert_eq!(length, 4 * numbers);
            for base64 in [true, false] {
                assert_eq!(
                    convert_vector(&packed, base64).unwrap().1,
                    length,
                    "{numbers}"
                );
            }
        }
        assert_eq!(
            convert_vector(br#""\u002f\/\/\/\/w==""#, true).map(|(_, length)| length),
            Ok(4),
            "escapes do not count"
        );
    }

    #[test]
    fn what_is_no_vector_is_refused() {
        for vector in [
            "[]", "[null]", "[\"1\"]", "[1,[2]]", "{}", "7", "null", "\"\"", "[1",
        ] {
            assert!(
                text(vector, true).is_err() && text(vector, false).is_err(),
                "{vector}"
            );
        }
        for vector in [
            "\"zczM\"",
            "\"zczMPQ\"",
            "\"?\"",
            "\"AADAfw==\"",
            "\"AACAfw==\"",
        ] {
            assert!(text(vector, false).is_err(), "{vector}");
        }
        for vector in ["[1e39]", "[1e999]", "[-1e39]"] {
            assert!(text(vector, true).is_err(), "{vector}");
        }
    }

    proptest! {
        /// Floats that are written as base64 and read again are unchanged.
        #[test]
        fn nothing_is_lost_on_the_way(numbers in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL, 1..50)) {
            let list = serde_json::to_string(&numbers).unwrap();
            let there = text(&list, true).unwrap();
            let back: Vec<f32> = serde_json::from_str(&text(&there, false).unwrap()).unwrap();
            prop_assert_eq!(&back, &numbers);
            prop_assert_eq!(text(&text(&there, false).unwrap(), true).unwrap(), there);
        }

        /// No text panics, and a vector in one form is a vector in the other form, too.
        #[test]
        fn nothing_panics(vector in "[\\[\\]0-9eE.+,\"AQ=/\\\\-]{0,24}", base64: bool) {
            if let Ok(taken) = text(&vector, base64) {
                prop_assert!(base64 || taken.starts_with('['));
            }
        }
    }
}
