//! Pairs of escapes that stand for one character: JSON writes 😀 as `\ud83d\ude00`, and YAML has no
//! such pairs. In a text that is JSON as a whole, each pair becomes its character before the text
//! is read. Half a pair stays, and is refused.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// The characters of a pair, as it is written.
const WRITTEN: usize = 12;

/// The places at which pairs stood: line and column of each character that took the place of a
/// pair, in the text without pairs, in order.
pub(super) type PairPositions = Vec<(usize, usize)>;

/// Returns the text without pairs, and where they stood.
pub(super) fn without_pairs(text: &str) -> (Cow<'_, str>, PairPositions) {
    let may_have = [br"\ud".as_slice(), br"\uD"]
        .iter()
        .any(|start| memchr::memmem::find(text.as_bytes(), start).is_some());
    if !may_have || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return (Cow::Borrowed(text), PairPositions::new());
    }
    let (mut joined, mut places, mut rest) = (
        String::with_capacity(text.len()),
        PairPositions::new(),
        text,
    );
    let (mut line, mut column) = (1, 1);
    while let Some(escape_start) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at(escape_start);
        let character = parse_pair(escape);
        // Of another escape, its letter is passed over too: it may be a backslash.
        let length = if character.is_some() { WRITTEN } else { 2 };
        let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        for passed in [before, if character.is_some() { "" } else { escape }] {
            (line, column) = passed.chars().fold((line, column), |(line, column), c| {
                next_position(line, column, c)
            });
            joined.push_str(passed);
        }
        if let Some(character) = character {
            places.push((line, column));
            joined.push(character);
            column += 1;
        }
        rest = after;
    }
    joined.push_str(rest);
    (
        if places.is_empty() {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(joined)
        },
        places,
    )
}

/// Returns the line and the column after a character.
fn next_position(line: usize, column: usize, character: char) -> (usize, usize) {
    if character == '\n' {
        (line + 1, 1)
    } else {
        (line, column + 1)
    }
}

/// Returns the character that a text begins with, if that is written as a pair.
fn parse_pair(text: &str) -> Option<char> {
    let mut halves = [0; 2];
    for (half, start) in halves.iter_mut().zip([0, WRITTEN / 2]) {
        let digits = text.get(start..start + WRITTEN / 2)?.strip_prefix("\\u")?;
        *half = u16::from_str_radix(digits, 16).ok()?;
    }
    // Two halves in their order are one character, and nothing else.
    let mut read = char::decode_utf16(halves);
    let character = read.next()?.ok()?;
    read.next().is_none().then_some(character)
}

/// Finds the columns of the text as it was written.
#[derive(Debug, Default)]
pub(super) struct Columns {
    places: PairPositions,
    /// The number of places before the last line that was asked for.
    next: usize,
}

impl Columns {
    pub(super) fn new(places: PairPositions) -> Self {
        Self { places, next: 0 }
    }

    /// Returns the column of what stands at this place in the text without pairs. They are asked
    /// for in the order of their lines.
    pub(super) fn written_column(&mut self, line: usize, column: usize) -> usize {
        let before = self.places.get(self.next..).unwrap_or_default();
        self.next += before
            .iter()
            .take_while(|(of_pair, _)| *of_pair < line)
            .count();
        let on_line = self.places.get(self.next..).unwrap_or_default();
        let pairs = on_line.partition_point(|position| *position < (line, column));
        column + pairs * (WRITTEN - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str, places: &[(usize, usize)]) {
        let (joined, found) = without_pairs(text);
        assert_eq!((&*joined, &*found), (expected, places), "{text}");
    }

    #[test]
    fn pairs_in_json_become_their_characters() {
        check(r#"{"a":"\ud83d\ude00"}"#, "{\"a\":\"😀\"}", &[(1, 7)]);
        check(
            "{\n \"é\":\"x\\uD83D\\uDE00\\uD83D\\uDE01\"}",
            "{\n \"é\":\"x😀😁\"}",
            &[(2, 8), (2, 9)],
        );
        for text in [
            r#"{"a":"\\ud83d\\ude00","b":"\ud83d x \ude00","c":"\ude00\ud83d","d":"\u00e9\ud7ff"}"#,
            "{}",
            // This is YAML, whose plain texts have no escapes.
            r"a: \ud83d\ude00",
            r#""\ud83d"#,
        ] {
            check(text, text, &[]);
        }
    }

    #[test]
    fn columns_are_those_of_the_written_text() {
        let mut columns = Columns::new(vec![(1, 7), (2, 3), (2, 9)]);
        for (place, written) in [
            ((1, 2), 2),
            ((1, 7), 7),
            ((1, 8), 19),
            ((2, 4), 15),
            ((2, 12), 34),
            ((3, 4), 4),
        ] {
            assert_eq!(
                columns.written_column(place.0, place.1),
                written,
                "{place:?}"
            );
        }
    }
}
