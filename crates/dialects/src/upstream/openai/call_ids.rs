//! This module makes ids of tool calls for Mistral's server, which takes only ids of nine letters
//! and digits.
//!
//! A call and its result must still share an id, and two calls must not. A conversation must get
//! the same ids each time it is sent, because a prompt cache would not know it otherwise.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::wire::json::{Span, text_of};
use crate::wire::splice::Edits;

/// An id in the server's form.
type Short = [u8; 9];

/// Gives the ids at these places the server's form. An id that already has this form stays.
pub(super) fn shorten_ids(places: &[Span], edits: &mut Edits<'_>) {
    let text = edits.text();
    let ids: Vec<(&Span, Cow<'_, str>)> = places
        .iter()
        .filter_map(|span| Some((span, text_of(text, span).filter(|id| !id.is_empty())?)))
        .collect();
    let mut taken: BTreeSet<Short> = ids.iter().filter_map(|(_, id)| as_short(id)).collect();
    let mut known: BTreeMap<&str, Short> = BTreeMap::new();
    for (span, id) in ids.iter().filter(|(_, id)| as_short(id).is_none()) {
        let count = known.len();
        let short = *known
            .entry(id)
            .or_insert_with(|| find_free_id(id, count, &mut taken));
        edits.replace((*span).clone(), [&b"\""[..], &short, b"\""].concat());
    }
}

/// Returns the id, if it already has the server's form.
fn as_short(id: &str) -> Option<Short> {
    Short::try_from(id.as_bytes())
        .ok()
        .filter(|id| id.iter().all(u8::is_ascii_alphanumeric))
}

/// Returns a short id that is not taken, and notes it as taken. `count` is the number of ids that
/// were renamed before.
fn find_free_id(id: &str, count: usize, taken: &mut BTreeSet<Short>) -> Short {
    let hash = fnv_hash(id.as_bytes());
    // Each id begins its retries with a salt of its own. Otherwise a caller who makes ids of one
    // hash on purpose would make us try all earlier salts each time.
    let salts = std::iter::once(0).chain(count as u64 + 1..);
    let mut short = [0; 9];
    for salt in salts {
        short = id_letters(mix_bits(
            hash.wrapping_add(salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        ));
        if taken.insert(short) {
            break;
        }
    }
    short
}

/// Hashes bytes with FNV-1a.
fn fnv_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Mixes bits with the last step of SplitMix64. Every bit then depends on every other.
fn mix_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

fn id_letters(mut x: u64) -> Short {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    std::array::from_fn(|_| {
        let letter = usize::try_from(x % 62)
            .ok()
            .and_then(|index| LETTERS.get(index).copied())
            .unwrap_or(b'0');
        x /= 62;
        letter
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Cursor;

    fn shortened(ids: &[&str]) -> Vec<String> {
        let text = serde_json::to_string(ids).unwrap();
        let mut places = Vec::new();
        Cursor::new(text.as_bytes())
            .array(|cursor, _| {
                places.push(cursor.value()?);
                Ok(())
            })
            .unwrap();
        let mut edits = Edits::new(text.as_bytes());
        shorten_ids(&places, &mut edits);
        let mut out = Vec::new();
        edits.apply_into(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn ids_get_nine_letters_and_keep_apart() {
        let ids = [
            "call_1",
            "toolu_01abc",
            "call_1",
            "abcdefghi",
            "é",
            "",
            "abcdefgh_",
        ];
        let short = shortened(&ids);
        assert_eq!(
            short,
            [
                "6cVnL8Rc5",
                "ead8F5vmb",
                "6cVnL8Rc5",
                "abcdefghi",
                "OZJgP2ZuN",
                "",
                "NeRjpQdZp"
            ]
        );
    }

    #[test]
    fn a_right_id_is_not_given_to_another() {
        let [short] = <[String; 1]>::try_from(shortened(&["call_1"])).unwrap();
        let [one, other] = <[String; 2]>::try_from(shortened(&["call_1", &short])).unwrap();
        assert_eq!(other, short);
        assert!(one != short && as_short(&one).is_some());
    }

    #[test]
    fn many_ids_are_many() {
        let ids: Vec<String> = (0..20_000).map(|n| format!("call_{n}")).collect();
        let short = shortened(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(short.iter().all(|id| as_short(id).is_some()));
        assert_eq!(short.iter().collect::<BTreeSet<_>>().len(), ids.len());
    }
}
