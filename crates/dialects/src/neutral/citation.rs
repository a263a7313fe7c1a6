//! A citation names the source of a part of an answer's text.
//!
//! Each format has its own way to name the part: characters, bytes of UTF-8, or a block of text. A
//! [`TextSoFar`] knows the text's length in all these units.

use std::ops::Range;

/// A citation, as a dialect reads it. Facts that a source lacks are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Citation<'a> {
    /// The source's URL.
    pub url: &'a str,
    /// The source's title, or the name of its file.
    pub title: &'a str,
    /// The source's words that support the text.
    pub quote: &'a str,
    /// The text that the source is for.
    pub cited_range: CitedRange,
}

/// The part of a choice's text that a citation is for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CitedRange {
    /// The end of the text so far: the source is for no part of its own.
    #[default]
    End,
    /// These characters of the text.
    Characters(Range<usize>),
    /// These characters of the last part of the text, which has so many characters.
    OfLast(usize, Range<usize>),
    /// These bytes of the text in UTF-8.
    Bytes(Range<usize>),
    /// So many bytes in UTF-8 at the end of the text so far.
    LastBytes(usize),
}

/// A citation whose place in the text is known.
#[derive(Debug)]
pub(crate) struct PlacedCitation<'a> {
    pub(crate) source: &'a Citation<'a>,
    /// The characters of the choice's text.
    pub(crate) characters: Range<usize>,
    /// The place in bytes of UTF-8.
    pub(crate) bytes: Range<usize>,
    /// The characters that the text has so far.
    pub(crate) text_length: usize,
}

/// The most bytes of text whose characters are known.
const MAX_MARKED_BYTES: usize = 1 << 20;
/// The bits of a word.
const BITS: usize = 64;

/// The length of a choice's text so far, and which of its bytes begin a character.
#[derive(Debug, Default)]
pub(crate) struct TextSoFar {
    bytes: usize,
    /// A bit for each byte, set if the byte continues a character. ASCII at the end has no bits
    /// yet.
    marks: Vec<u64>,
    /// The number of these bytes.
    marked: usize,
}

impl TextSoFar {
    /// Takes a piece of the text.
    #[inline]
    pub(crate) fn take(&mut self, text: &str) {
        if !text.is_ascii() {
            self.mark(text);
        }
        self.bytes = self.bytes.saturating_add(text.len());
    }

    fn mark(&mut self, text: &str) {
        for (offset, _) in text
            .bytes()
            .enumerate()
            .filter(|(_, byte)| is_inside(*byte))
        {
            let position = self.bytes + offset;
            if position >= MAX_MARKED_BYTES {
                return;
            }
            if self.marks.len() <= position / BITS {
                self.marks.resize(position / BITS + 1, 0);
            }
            if let Some(word) = self.marks.get_mut(position / BITS) {
                *word |= 1 << (position % BITS);
                self.marked += 1;
            }
        }
    }

    /// Places a citation. Returns `None` if the text is too long to know its characters.
    pub(crate) fn place_citation<'c>(
        &self,
        source: &'c Citation<'c>,
    ) -> Option<PlacedCitation<'c>> {
        if self.bytes > MAX_MARKED_BYTES && !self.marks.is_empty() {
            return None;
        }
        let text_length = self.bytes - self.marked;
        let characters = match &source.cited_range {
            CitedRange::End => text_length..text_length,
            CitedRange::Characters(range) => range.clone(),
            CitedRange::OfLast(length, range) => {
                let start = text_length.saturating_sub(*length);
                start.saturating_add(range.start)..start.saturating_add(range.end)
            }
            CitedRange::Bytes(range) => {
                self.character_at(range.start)..self.character_at(range.end)
            }
            CitedRange::LastBytes(length) => {
                self.character_at(self.bytes.saturating_sub(*length))..text_length
            }
        };
        let end = characters.end.min(text_length);
        let characters = characters.start.min(end)..end;
        let bytes = self.byte_at(characters.start)..self.byte_at(characters.end);
        Some(PlacedCitation {
            source,
            characters,
            bytes,
            text_length,
        })
    }

    /// Returns the number of characters that begin before this byte.
    fn character_at(&self, byte: usize) -> usize {
        let byte = byte.min(self.bytes);
        let whole: usize = self
            .marks
            .iter()
            .take(byte / BITS)
            .map(|word| ones_in_word(*word))
            .sum();
        let rest = self
            .marks
            .get(byte / BITS)
            .map_or(0, |word| ones_in_word(word & ((1 << (byte % BITS)) - 1)));
        byte - whole - rest
    }

    /// Returns the byte at which this character begins.
    fn byte_at(&self, character: usize) -> usize {
        let mut left = character;
        for (number, word) in self.marks.iter().enumerate() {
            let begun = BITS - ones_in_word(*word);
            if left < begun {
                let begins = (0..BITS).filter(|bit| word & (1 << bit) == 0);
                return number * BITS + begins.into_iter().nth(left).unwrap_or_default();
            }
            left -= begun;
        }
        (self.marks.len() * BITS + left).min(self.bytes)
    }
}

fn ones_in_word(word: u64) -> usize {
    usize::try_from(word.count_ones()).unwrap_or_default()
}

/// Returns whether a byte continues a character.
fn is_inside(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Returns the number of characters of a text.
#[inline]
pub(crate) fn count_characters(text: &str) -> usize {
    text.len() - text.bytes().filter(|byte| is_inside(*byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pieces: &[&str], place: CitedRange, characters: Range<usize>, bytes: Range<usize>) {
        let mut text = TextSoFar::default();
        pieces.iter().for_each(|piece| text.take(piece));
        let source = Citation {
            cited_range: place,
            ..Citation::default()
        };
        let placed = text.place_citation(&source).unwrap();
        assert_eq!(
            (placed.characters, placed.bytes),
            (characters, bytes),
            "{pieces:?}"
        );
    }

    #[test]
    fn each_way_to_name_a_part_means_the_same() {
        let text = &["Hé", "llo ", "wörld", "!"];
        check(text, CitedRange::Characters(6..11), 6..11, 7..13);
        check(text, CitedRange::Bytes(7..13), 6..11, 7..13);
        check(text, CitedRange::OfLast(6, 0..5), 6..11, 7..13);
        check(text, CitedRange::LastBytes(7), 6..12, 7..14);
        check(text, CitedRange::End, 12..12, 14..14);
        // A range beyond the text is cut.
        check(text, CitedRange::Characters(8..99), 8..12, 10..14);
        check(text, CitedRange::Bytes(99..100), 12..12, 14..14);
        check(text, CitedRange::LastBytes(99), 0..12, 0..14);
        check(&[], CitedRange::OfLast(5, 1..2), 0..0, 0..0);
    }

    #[test]
    fn what_is_kept_of_a_long_text_is_bounded() {
        let mut text = TextSoFar::default();
        (0..600).for_each(|_| text.take(&"é".repeat(1000)));
        assert!(
            text.marks.len() * BITS <= MAX_MARKED_BYTES
                && text.place_citation(&Citation::default()).is_none()
        );
        let mut ascii = TextSoFar::default();
        (0..600).for_each(|_| ascii.take(&"ab".repeat(1000)));
        assert_eq!(
            ascii.place_citation(&Citation::default()).unwrap().bytes,
            1_200_000..1_200_000
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn places_are_those_of_the_text(pieces in prop::collection::vec("[a-c é😀]{0,40}", 0..8), at in 0usize..200) {
            let whole = pieces.concat();
            let mut text = TextSoFar::default();
            pieces.iter().for_each(|piece| text.take(piece));
            let at = at.min(whole.chars().count());
            let byte = whole.char_indices().nth(at).map_or(whole.len(), |(byte, _)| byte);
            prop_assert_eq!((text.byte_at(at), text.character_at(byte)), (byte, at));
            prop_assert_eq!(count_characters(&whole), whole.chars().count());
        }
    }
}
