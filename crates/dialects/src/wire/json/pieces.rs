//! [`Pieces`] is JSON text that comes in pieces. It keeps no text, but knows if the text is one
//! whole value.
//!
//! It accepts exactly the texts that [`Cursor`](super::Cursor) accepts, but at any depth, because
//! nothing recurses here: a level costs one bit. The text may be cut between any two characters.
//! The pieces are UTF-8, and so are the characters of their escapes, because they come from a
//! scanned text.

use memchr::memchr;

use super::Kind;
use super::text::read_escape;

/// The number of levels in one number.
const HELD: usize = 128;

/// The state after the text so far.
#[derive(Debug, Clone)]
pub struct Pieces {
    state: ReaderState,
    /// One bit for each level, the innermost one lowest: 1 for an object. It holds up to [`HELD`]
    /// of the innermost levels.
    objects: u128,
    /// The levels around those, [`HELD`] in each number. Hardly any text has so many.
    outer_levels: Vec<u128>,
    depth: usize,
    /// The kind of the whole text, once its first byte has come.
    kind: Option<Kind>,
}

/// The state of the reader, which decides what may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    Value,
    /// After `[`: a value, or `]`.
    FirstItem,
    /// After `{`: a key, or `}`.
    FirstKey,
    Key,
    Colon,
    /// A value has ended.
    After,
    /// Inside a string. True if the string is a key.
    Text(bool),
    /// After a backslash in a string.
    Escape(bool),
    /// Inside a `\u` escape, with the number of digits that are still to come.
    Hex(bool, u8),
    Number(Number),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    Broken,
}

/// The state inside a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Default for Pieces {
    fn default() -> Self {
        Self {
            state: ReaderState::Value,
            objects: 0,
            outer_levels: Vec::new(),
            depth: 0,
            kind: None,
        }
    }
}

impl Pieces {
    /// Takes the next piece.
    pub fn take(&mut self, piece: &str) {
        self.bytes(piece.as_bytes());
    }

    /// Takes the next piece, as it is between the quotes of a scanned string literal.
    pub fn take_literal(&mut self, inside: &[u8]) {
        let mut rest = inside;
        while let Some(position) = memchr(b'\\', rest) {
            let (plain, escape) = rest.split_at(position);
            self.bytes(plain);
            let Some((character, after)) = read_escape(escape.get(1..).unwrap_or_default()) else {
                self.state = ReaderState::Broken;
                return;
            };
            self.bytes(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = after;
        }
        self.bytes(rest);
    }

    /// Returns whether the text has only white space.
    pub fn is_blank(&self) -> bool {
        self.kind.is_none() && self.state != ReaderState::Broken
    }

    /// Returns whether the text is exactly one whole value.
    pub fn is_whole(&self) -> bool {
        use Number::{Exponent, Fraction, Whole, Zero};
        self.depth == 0
            && matches!(
                self.state,
                ReaderState::After | ReaderState::Number(Zero | Whole | Fraction | Exponent)
            )
    }

    /// Returns whether the text is one whole object.
    pub fn is_object(&self) -> bool {
        self.kind == Some(Kind::Object) && self.is_whole()
    }

    /// Returns whether the text is an object, or may still become one.
    pub fn may_be_object(&self) -> bool {
        self.state != ReaderState::Broken && matches!(self.kind, None | Some(Kind::Object))
    }

    /// Returns whether the text is `null`.
    pub fn is_null(&self) -> bool {
        self.kind == Some(Kind::Null) && self.is_whole()
    }

    fn bytes(&mut self, mut rest: &[u8]) {
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == ReaderState::Broken {
                return;
            }
            // Most of a text is inside strings.
            if let ReaderState::Text(_) = self.state {
                let plain = rest
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
                    .unwrap_or(rest.len());
                if plain > 0 {
                    rest = rest.get(plain..).unwrap_or_default();
                    continue;
                }
            }
            self.byte(byte);
            rest = after;
        }
    }

    fn byte(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (
                ReaderState::Value
                | ReaderState::FirstItem
                | ReaderState::FirstKey
                | ReaderState::Key
                | ReaderState::Colon
                | ReaderState::After,
                b' ' | b'\n' | b'\r' | b'\t',
            ) => self.state,
            (ReaderState::FirstItem, b']') | (ReaderState::FirstKey, b'}') => self.close_level(),
            (ReaderState::Value | ReaderState::FirstItem, _) => self.begin_value(byte),
            (ReaderState::FirstKey | ReaderState::Key, b'"') => ReaderState::Text(true),
            (ReaderState::Colon, b':') => ReaderState::Value,
            (ReaderState::After, _) => self.take_after_value(byte),
            (ReaderState::Text(true), b'"') => ReaderState::Colon,
            (ReaderState::Text(false), b'"') => ReaderState::After,
            (ReaderState::Text(is_key), b'\\') => ReaderState::Escape(is_key),
            (ReaderState::Text(is_key), 0x20..) => ReaderState::Text(is_key),
            (ReaderState::Escape(is_key), b'u') => ReaderState::Hex(is_key, 4),
            (
                ReaderState::Escape(is_key),
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
            ) => ReaderState::Text(is_key),
            (ReaderState::Hex(is_key, left), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => match left
            {
                ..=1 => ReaderState::Text(is_key),
                2.. => ReaderState::Hex(is_key, left - 1),
            },
            (ReaderState::Number(number), _) => self.take_digit(number, byte),
            (ReaderState::Word(word), _) => match word.split_first() {
                Some((wanted, [])) if *wanted == byte => ReaderState::After,
                Some((wanted, rest)) if *wanted == byte => ReaderState::Word(rest),
                Some(_) | None => ReaderState::Broken,
            },
            (
                ReaderState::FirstKey
                | ReaderState::Key
                | ReaderState::Colon
                | ReaderState::Text(_)
                | ReaderState::Escape(_)
                | ReaderState::Hex(..)
                | ReaderState::Broken,
                _,
            ) => ReaderState::Broken,
        };
    }

    /// Takes the first byte of a value.
    fn begin_value(&mut self, byte: u8) -> ReaderState {
        self.kind = self.kind.or(Kind::from_byte(byte));
        match byte {
            b'{' | b'[' => {
                if self.depth > 0 && self.depth.is_multiple_of(HELD) {
                    self.outer_levels.push(std::mem::take(&mut self.objects));
                }
                self.depth += 1;
                self.objects = self.objects << 1 | u128::from(byte == b'{');
                if byte == b'{' {
                    ReaderState::FirstKey
                } else {
                    ReaderState::FirstItem
                }
            }
            b'"' => ReaderState::Text(false),
            b'-' => ReaderState::Number(Number::Minus),
            b'0' => ReaderState::Number(Number::Zero),
            b'1'..=b'9' => ReaderState::Number(Number::Whole),
            b't' => ReaderState::Word(b"rue"),
            b'f' => ReaderState::Word(b"alse"),
            b'n' => ReaderState::Word(b"ull"),
            _ => ReaderState::Broken,
        }
    }

    /// Takes the byte after a value.
    fn take_after_value(&mut self, byte: u8) -> ReaderState {
        let in_object = self.objects & 1 == 1;
        match byte {
            _ if self.depth == 0 => ReaderState::Broken,
            b',' if in_object => ReaderState::Key,
            b',' => ReaderState::Value,
            b'}' if in_object => self.close_level(),
            b']' if !in_object => self.close_level(),
            _ => ReaderState::Broken,
        }
    }

    fn close_level(&mut self) -> ReaderState {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
        if self.depth.is_multiple_of(HELD) {
            self.objects = self.outer_levels.pop().unwrap_or_default();
        }
        ReaderState::After
    }

    /// Takes the next byte of a number, or the byte that ends it.
    fn take_digit(&mut self, number: Number, byte: u8) -> ReaderState {
        use Number::{E, Exponent, Fraction, Minus, Point, Sign, Whole, Zero};
        let next = match (number, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => E,
            (E, b'+' | b'-') => Sign,
            (E | Sign | Exponent, b'0'..=b'9') => Exponent,
            (Zero | Whole | Fraction | Exponent, b' ' | b'\n' | b'\r' | b'\t') => {
                return ReaderState::After;
            }
            (Zero | Whole | Fraction | Exponent, _) => return self.take_after_value(byte),
            (Minus | Point | E | Sign, _) => return ReaderState::Broken,
        };
        ReaderState::Number(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::{Cursor, quote_string};
    use proptest::prelude::*;

    fn of<'t>(pieces: impl IntoIterator<Item = &'t str>) -> Pieces {
        let mut all = Pieces::default();
        pieces.into_iter().for_each(|piece| all.take(piece));
        all
    }

    /// Returns the scanner's verdict on a text.
    fn is_whole(text: &str) -> bool {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.value().and_then(|_| cursor.end()).is_ok()
    }

    #[test]
    fn whole_values_and_what_they_are() {
        for (text, whole, object, null, blank) in [
            ("", false, false, false, true),
            (" \n", false, false, false, true),
            ("{}", true, true, false, false),
            (" {\"a\": [1, {\"b\": \"}\"}]} ", true, true, false, false),
            ("null", true, false, true, false),
            ("[]", true, false, false, false),
            ("\"{}\"", true, false, false, false),
            ("12", true, false, false, false),
            ("{\"a\":1", false, false, false, false),
            ("{}{}", false, false, false, false),
            ("{\"a\":1}}", false, false, false, false),
            ("\"a\":1}", false, false, false, false),
            ("{\"a\":\"\n\"}", false, false, false, false),
            ("]", false, false, false, false),
        ] {
            let all = of([text]);
            assert_eq!(
                (
                    all.is_whole(),
                    all.is_object(),
                    all.is_null(),
                    all.is_blank()
                ),
                (whole, object, null, blank),
                "{text}"
            );
        }
    }

    #[test]
    fn the_beginning_of_an_object_may_become_one() {
        for text in [
            "",
            " ",
            "{",
            "{\"a",
            "{\"a\":[1,",
            "{\"a\":tr",
            "{}",
            "{\"a\":1} \n",
        ] {
            assert!(of([text]).may_be_object(), "{text}");
        }
        for text in ["[", "\"", "1", "null", "n", "{a", "{}{", "{\"a\":01", "x"] {
            assert!(!of([text]).may_be_object(), "{text}");
        }
    }

    /// The scanner, which would keep all of it, has a bound.
    #[test]
    fn it_reads_as_deep_as_the_text_is() {
        for depth in [1, 63, 64, 65, 127, 128, 129, 500, 100_000] {
            let (begin, end) = ("{\"a\":[".repeat(depth), "]}".repeat(depth));
            assert!(of([&*begin, &*end]).is_object(), "{depth}");
            assert!(of([&*begin, "1,{}", &*end]).is_object(), "{depth}");
            assert!(
                of([&*"[".repeat(depth), &*"]".repeat(depth)]).is_whole(),
                "{depth}"
            );
            assert!(!of([&*begin, &end[1..]]).is_whole(), "{depth}");
            assert!(!of([&*begin, &end[..end.len() - 1]]).is_whole(), "{depth}");
            assert!(!of([&*begin, &*end, "}"]).is_whole(), "{depth}");
            // Each end belongs to a level of its own.
            for at in [0, depth / 2, depth - 1] {
                let swapped = format!("{}}}]{}", "]}".repeat(at), "]}".repeat(depth - at - 1));
                assert!(!of([&*begin, &*swapped]).is_whole(), "{depth} {at}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_agrees_with_the_scanner_however_cut(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", " ", "\"a\"", "\"é\\u00e9\\n\"", "\"\\ud83d\\ude00\"", "\"\\x\"", "\"", "\\", "0", "-1.5e+3", "1.", "01",
                    "true", "null", "nul", "{\"a\":", "{\"a\":1}", "[1,2]", "{\"k\":[{\"x\":\"y\"},null]}", "\n", "\u{1}",
                ]),
                0..8,
            ),
            cuts in prop::collection::vec(1_usize..5, 1..6),
        ) {
            let text = tokens.concat();
            let (mut plain, mut literal) = (Pieces::default(), Pieces::default());
            let mut characters = text.chars().peekable();
            for cut in cuts.iter().cycle() {
                let piece: String = characters.by_ref().take(*cut).collect();
                plain.take(&piece);
                let quoted = quote_string(&piece);
                literal.take_literal(&quoted.as_bytes()[1..quoted.len() - 1]);
                if characters.peek().is_none() {
                    break;
                }
            }
            prop_assert_eq!(plain.is_whole(), is_whole(&text), "{:?}", text);
            prop_assert_eq!(literal.is_whole(), is_whole(&text), "{:?}", text);
            prop_assert_eq!(plain.is_blank(), text.trim_matches([' ', '\n', '\r', '\t']).is_empty(), "{:?}", text);
        }
    }
}
