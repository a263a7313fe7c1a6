//! A quick hash for names from the catalog and for words of our own. Whoever may choose the texts
//! can make them collide, so texts of a request are not hashed by it.

use std::hash::Hasher;

/// Gives one number for all texts to the hasher, as rustc's own tables do it.
pub fn texts<'t>(texts: impl IntoIterator<Item = &'t str>, state: &mut impl Hasher) {
    const FACTOR: u64 = 0x517C_C1B7_2722_0A95;
    let add = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    let sum = texts.into_iter().fold(0, |sum, text| {
        let (words, rest) = text.as_bytes().as_chunks();
        let sum = words.iter().fold(sum, |sum, word| add(sum, u64::from_le_bytes(*word)));
        add(sum, rest.iter().fold(text.len() as u64, |word, byte| word << 8 | u64::from(*byte)))
    });
    state.write_u64(sum);
}
