use std::borrow::Cow;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::*;

/// JSON texts of some depth, with white space, escapes and odd numbers in them.
pub(crate) fn documents() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "12",
            "-1.50e+3",
            "1E400",
            "123456789012345678901",
            r#""""#,
            r#""a\n\"b\\\/\b\f\r\t""#,
            r#""\u00e9\ud83d\ude00\ud800""#,
            r#""Ünïcode 😀""#,
        ])
        .prop_map(str::to_owned),
        "[ -~é😀]{0,90}".prop_map(|text| quote_string(&text)),
    ];
    let blank = || prop::sample::select(vec!["", "", "", " ", "\n\t", "\r\n  "]);
    scalar.prop_recursive(5, 40, 6, move |inner| {
        let members = prop::collection::vec((keys(), blank(), inner.clone(), blank()), 0..6);
        let elements = prop::collection::vec((blank(), inner, blank()), 0..6);
        prop_oneof![
            (members, blank()).prop_map(|(members, blank)| {
                let member = |(key, before, value, after)| {
                    format!("{before}{key}{after}:{before}{value}{after}")
                };
                let members: Vec<String> = members.into_iter().map(member).collect();
                format!("{{{}{blank}}}", members.join(","))
            }),
            elements.prop_map(|elements| {
                let element = |(before, value, after)| format!("{before}{value}{after}");
                let elements: Vec<String> = elements.into_iter().map(element).collect();
                format!("[{}]", elements.join(","))
            }),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{0,2}".prop_map(|key| quote_string(&key)),
        Just(r#""\u0061\n""#.to_owned())
    ]
}

fn scan(text: &[u8]) -> Result<Span, Broken> {
    let mut cursor = Cursor::new(text);
    let span = cursor.value()?;
    cursor.end()?;
    Ok(span)
}

/// Returns the value that serde_json would read, built by the callbacks alone.
fn build(cursor: &mut Cursor<'_>) -> Result<Value, Broken> {
    match cursor.kind()? {
        Kind::Object => {
            let mut members = serde_json::Map::new();
            cursor.object(|cursor, key| {
                let key = text_of(cursor.text(), &key).expect("a key").into_owned();
                let value = build(cursor)?;
                members.insert(key, value);
                Ok(())
            })?;
            Ok(Value::Object(members))
        }
        Kind::Array => {
            let mut elements = Vec::new();
            cursor.array(|cursor, index| {
                assert_eq!(index, elements.len());
                elements.push(build(cursor)?);
                Ok(())
            })?;
            Ok(Value::Array(elements))
        }
        Kind::String => {
            let len = cursor.clone().text_len()?;
            let span = cursor.value()?;
            let value = text_of(cursor.text(), &span).expect("a string");
            assert_eq!(name_of(cursor.text(), &span), value.as_bytes());
            assert_eq!(len, value.len());
            assert_eq!(text_len(cursor.text(), &span), len);
            Ok(Value::String(value.into_owned()))
        }
        Kind::Number | Kind::Bool | Kind::Null => {
            let span = cursor.value()?;
            Ok(serde_json::from_slice(span_bytes(cursor.text(), &span)).expect("a scalar"))
        }
    }
}

#[track_caller]
fn check_broken(text: impl AsRef<[u8]>, at: usize, why: &'static str) {
    assert_eq!(scan(text.as_ref()), Err(Broken { offset: at, why }));
    let mut cursor = Cursor::new(text.as_ref());
    assert!(
        build(&mut cursor).and_then(|_| cursor.end()).is_err(),
        "by callbacks too"
    );
}

#[test]
fn faults_say_where_and_why() {
    check_broken("", 0, "the text ends too early");
    check_broken(r#"{"a":1"#, 6, "the text ends too early");
    check_broken(r#"{"a":"b"#, 7, "the text ends inside a string");
    check_broken(r#"{"a":1} x"#, 8, "expected nothing after the value");
    check_broken(r#"{"a":1,}"#, 7, "expected a key in double quotes");
    check_broken("{'a':1}", 1, "expected a key in double quotes");
    check_broken(r#"{"a" 1}"#, 5, "expected `:` after the key");
    check_broken(r#"{"a":1 "b":2}"#, 7, "expected `,` or `}`");
    check_broken("[1}", 2, "expected `,` or `]`");
    check_broken("[1,]", 3, "expected a value");
    check_broken("nul", 0, "expected a value");
    check_broken("[01]", 2, "a number must not begin with 0");
    check_broken("[-]", 2, "expected a digit");
    check_broken("[1.e3]", 3, "expected a digit");
    check_broken(
        "\"a\nb\"",
        2,
        "control characters in strings must be escaped",
    );
    check_broken(r#""\x""#, 1, "invalid escape in a string");
    check_broken(
        r#""\u12g4""#,
        1,
        "expected four hexadecimal digits after `\\u`",
    );
    check_broken(b"[\"ab\xFF\"]", 4, "invalid UTF-8");
    check_broken(b"\"\xED\xA0\x80\"", 1, "invalid UTF-8");
    check_broken("\u{FEFF}{}", 0, "a byte order mark (BOM) is not allowed");
    check_broken(
        b"\xFF\xFE{\0}\0",
        0,
        "the text must be UTF-8, and this looks like UTF-16",
    );
    check_broken(
        b"{\0}\0",
        1,
        "the text must be UTF-8, and this looks like UTF-16 or UTF-32",
    );
    check_broken(
        b"\0{\0}",
        0,
        "the text must be UTF-8, and this looks like UTF-16 or UTF-32",
    );
}

#[test]
fn lines_and_columns_count_characters_from_one() {
    let at = |text: &str, at| {
        Broken {
            offset: at,
            why: "",
        }
        .line_and_column(text.as_bytes())
    };
    assert_eq!(at("", 0), (1, 1));
    assert_eq!(at("ab", 2), (1, 3));
    assert_eq!(at("a\r\néé x", 7), (2, 3));
    assert_eq!(at("a\n", 2), (2, 1));
    assert_eq!(at("a", 99), (1, 2));
}

#[test]
fn b03_nesting_ends_at_127_levels() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
        let levels = if open.starts_with("[{") { 2 } else { 1 };
        let nested = |depth: usize| {
            let times = depth / levels;
            format!("{}0{}", open.repeat(times), close.repeat(times))
        };
        assert!(scan(nested(126).as_bytes()).is_ok());
        assert!(scan(nested(128).as_bytes()).is_err());
    }
    let nested = |depth| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
    assert!(scan(nested(127).as_bytes()).is_ok());
    check_broken(nested(128), 127, "nested deeper than 127 levels");
    check_broken("[".repeat(1_000_000), 127, "nested deeper than 127 levels");

    // Levels entered by callbacks count too.
    let text = nested(128);
    let mut cursor = Cursor::new(text.as_bytes());
    assert!(cursor.array(|cursor, _| cursor.skip()).is_err());
}

#[test]
fn long_strings_are_scanned_to_the_byte() {
    for len in (0..200).chain([1000]) {
        for stop in ["\"", "\\\"\"", "é\"", "\\u0041\""] {
            let text = format!("\"{}{stop} ", "x".repeat(len));
            assert_eq!(
                Cursor::new(text.as_bytes()).value(),
                Ok(0..text.len() - 1),
                "{text}"
            );
        }
        for bad in [&b"\n"[..], b"\x1F", b"\xFF", b"\x80"] {
            let text = [b"\"", "x".repeat(len).as_bytes(), bad, &[b'y'; 100], b"\""].concat();
            assert_eq!(scan(&text).expect_err("refused").offset, len + 1);
        }
        let delete = format!("\"{}\x7F\"", "x".repeat(len));
        assert_eq!(scan(delete.as_bytes()), Ok(0..delete.len()));
    }
}

#[test]
fn integers_are_exact_or_none() {
    let integer = |text: &str| integer_of(text.as_bytes(), &(0..text.len()));
    for (text, value) in [
        ("0", Some(0)),
        ("12", Some(12)),
        ("12.0", Some(12)),
        ("12.000", Some(12)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-1", None),
        ("-0", None),
        ("1.5", None),
        ("1e3", None),
        ("1.0e1", None),
        ("null", None),
        ("\"1\"", None),
        ("", None),
        ("1.", None),
        (".0", None),
    ] {
        assert_eq!(integer(text), value, "{text}");
    }
}

#[test]
fn spans_outside_the_text_are_harmless() {
    assert_eq!(span_bytes(b"abc", &(2..9)), b"");
    #[expect(clippy::reversed_empty_ranges, reason = "on purpose")]
    let reversed = 2..1;
    assert_eq!(span_bytes(b"abc", &reversed), b"");
    for text in ["\"", "", "\"a", "a\"", "\"\\\"", "\"\\u00\""] {
        assert_eq!(text_of(text.as_bytes(), &(0..text.len())), None, "{text}");
    }
    assert_eq!(integer_of(b"12", &(0..9)), None);
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    let decoded = |text: &str| {
        text_of(text.as_bytes(), &(0..text.len()))
            .expect("a string")
            .into_owned()
    };
    assert_eq!(decoded(r#""\ud83d\ude00""#), "😀");
    assert_eq!(decoded(r#""\ud83d""#), "\u{FFFD}");
    assert_eq!(decoded(r#""\ud83dx\ude00""#), "\u{FFFD}x\u{FFFD}");
    assert_eq!(decoded(r#""\ud83d\u0041""#), "\u{FFFD}A");
    assert_eq!(decoded(r#""\ud83d\ud83d\ude00""#), "\u{FFFD}😀");
}

proptest! {
    #[test]
    fn documents_scan_to_serde_jsons_values(text in documents()) {
        let text = format!(" {text}\n");
        prop_assert_eq!(scan(text.as_bytes()), Ok(1..text.len() - 1));
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(build(&mut Cursor::new(text.as_bytes())), Ok(value));
        }
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(
        text in documents(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..3u8, any::<u8>(), 0..16usize), 0..3),
    ) {
        let mut text = text.into_bytes();
        for (at, how, byte, common) in cuts {
            let byte = *b"\"\\{}[]:,0-e.u \n\x1F".get(common).filter(|_| byte < 200).unwrap_or(&byte);
            let at = at.index(text.len() + 1);
            match how {
                0 => text.insert(at, byte),
                1 => text.truncate(at),
                _ => if let Some(place) = text.get_mut(at) { *place = byte },
            }
        }
        let accepted = str::from_utf8(&text).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
        let mut cursor = Cursor::new(&text);
        let by_callbacks = fold(&mut cursor).and_then(|()| cursor.end());
        prop_assert_eq!(scan(&text).is_ok(), accepted, "{:?}", scan(&text));
        prop_assert_eq!(scan(&text).map(drop), by_callbacks, "one fault, found either way");
    }

    #[test]
    fn quotes_as_serde_json_reads(text in any::<String>()) {
        let literal = quote_string(&text);
        prop_assert_eq!(serde_json::from_str::<String>(&literal).ok(), Some(text.clone()));
        prop_assert!(!literal.contains(['\n', '\r']));
        let decoded = text_of(literal.as_bytes(), &(0..literal.len()));
        prop_assert_eq!(decoded.as_deref(), Some(text.as_str()));
    }

    #[test]
    fn a_string_ends_where_the_scanner_says(text in "[a\\\\\"é\n]{0,50}", rest in "[,\"\\\\a]{0,5}") {
        let literal = quote_string(&text);
        let all = format!(" {literal}{rest}");
        let mut cursor = Cursor::new(all.as_bytes());
        let inside = literal.as_bytes().get(1..literal.len() - 1).unwrap();
        prop_assert_eq!(cursor.string_literal(), Ok(inside));
        prop_assert_eq!(cursor.offset(), 1 + literal.len());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(broken) = scan(&bytes) {
            prop_assert!(broken.offset <= bytes.len());
            broken.line_and_column(&bytes);
        }
        Cursor::new(&bytes).string_literal().ok();
        text_of(&bytes, &(0..bytes.len()));
        name_of(&bytes, &(0..bytes.len()));
        text_len(&bytes, &(0..bytes.len()));
    }
}

/// Goes through a text by callbacks only.
fn fold(cursor: &mut Cursor<'_>) -> Result<(), Broken> {
    match cursor.kind()? {
        Kind::Object => cursor.object(|cursor, _| fold(cursor)).map(drop),
        Kind::Array => cursor.array(|cursor, _| fold(cursor)).map(drop),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.skip(),
    }
}

#[test]
fn a_run_ends_at_each_ending_byte_only() {
    // Long enough for words, for blocks and for the rest after them.
    for length in [
        1, 7, 8, 9, 16, 31, 33, 63, 64, 65, 140, 200, 575, 577, 640, 1_200,
    ] {
        for at in (0..length).step_by(1 + length / 20) {
            for byte in 0..=u8::MAX {
                let mut text = vec![b'#'; length];
                text[at] = byte;
                let (mut high, ends) = (0, byte < 0x20 || matches!(byte, b'"' | b'\\'));
                assert_eq!(
                    plain_length(&text, &mut high),
                    if ends { at } else { length },
                    "{byte} at {at} of {length}"
                );
                assert!(
                    ends || (high & HIGH_BITS != 0) == (byte >= 0x80),
                    "{byte} at {at} of {length}"
                );
                let whole = (length / 16 * 16).min(128);
                let first = if (ends || byte >= 0x80) && at < whole {
                    at
                } else {
                    whole
                };
                assert_eq!(
                    plain_ascii_length(&text),
                    first,
                    "{byte} at {at} of {length}"
                );
            }
        }
    }
}

#[test]
fn a_string_has_an_end() {
    for broken in [
        "", "1", "\"\\0\"", "\"\n\"", "\"", "\"\\", "\"\\\"", "\"a\\",
    ] {
        assert!(
            Cursor::new(broken.as_bytes()).string_literal().is_err(),
            "{broken}"
        );
    }
}

#[test]
fn a_text_on_one_line_says_the_same() {
    let text = "{\r\n \"a\": [1,\n2],\n\t\"b\\n\": \"x \\n\\\\\"\n}";
    let line = one_line(text);
    assert!(!line.contains(['\n', '\r']), "{line}");
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(read(&line), read(text));
    assert!(matches!(one_line("{ }"), Cow::Borrowed("{ }")));
}
