use proptest::prelude::*;

use super::*;
use crate::wire::json::tests::documents;
use crate::wire::json::{Broken, Cursor, Kind};

/// Removes the members named in `remove`, puts `0` for those in `zero`, and inserts `insert` in
/// front.
#[track_caller]
fn check(text: &str, remove: &[&str], zero: &[&str], insert: &[&str], expected: &str) {
    let mut edits = Edits::new(text.as_bytes());
    let mut cursor = Cursor::new(text.as_bytes());
    let span = cursor.object(|cursor, key| {
        let value = cursor.value()?;
        let name = span_bytes(text.as_bytes(), &(key.start + 1..key.end - 1));
        if remove.iter().any(|removed| removed.as_bytes() == name) {
            edits.remove_member(&key, &value);
        } else if zero.iter().any(|zeroed| zeroed.as_bytes() == name) {
            edits.replace(value, &b"0"[..]);
        }
        Ok(())
    });
    for member in insert {
        edits.insert_member(span.clone().expect("an object").start, member.as_bytes());
    }
    assert_eq!(apply(&mut edits), expected);
}

fn apply(edits: &mut Edits<'_>) -> String {
    let mut out = b"before ".to_vec();
    edits.apply_into(&mut out);
    let out = String::from_utf8(out).expect("UTF-8");
    out.strip_prefix("before ").expect("appended").to_owned()
}

#[test]
fn no_more_edits_are_gathered_than_may_be() {
    let text = "[1,2,3,4]";
    let gathered = |count: usize| {
        let mut edits = Edits::with_limit(text.as_bytes(), 2);
        (0..count).for_each(|at| edits.replace(2 * at + 1..2 * at + 2, &b"0"[..]));
        (edits.is_over(), edits.list.len())
    };
    assert_eq!(
        [gathered(2), gathered(3), gathered(4)],
        [(false, 2), (true, 3), (true, 3)]
    );
}

#[test]
fn members_go_with_their_commas() {
    let text = r#"{"a":1,"b":2,"c":3}"#;
    check(text, &[], &[], &[], text);
    check(text, &["a"], &[], &[], r#"{"b":2,"c":3}"#);
    check(text, &["b"], &[], &[], r#"{"a":1,"c":3}"#);
    check(text, &["c"], &[], &[], r#"{"a":1,"b":2}"#);
    check(text, &["a", "b"], &[], &[], r#"{"c":3}"#);
    check(text, &["b", "c"], &[], &[], r#"{"a":1}"#);
    check(text, &["a", "c"], &[], &[], r#"{"b":2}"#);
    check(text, &["a", "b", "c"], &[], &[], "{}");
    check(text, &["b", "c"], &["a"], &[], r#"{"a":0}"#);
    check(
        "{ \"a\" : 1 ,\n \"b\" : 2 }",
        &["b"],
        &[],
        &[],
        "{ \"a\" : 1  }",
    );
    check(
        "{ \"a\" : 1 ,\n \"b\" : 2 }",
        &["a"],
        &[],
        &[],
        "{ \"b\" : 2 }",
    );
}

#[test]
fn members_are_inserted_with_the_commas_needed() {
    check("{}", &[], &[], &[r#""x":9"#], r#"{"x":9}"#);
    check(
        "{ }",
        &[],
        &[],
        &[r#""x":9"#, r#""y":8"#],
        r#"{"x":9,"y":8 }"#,
    );
    check(r#"{"a":1}"#, &[], &[], &[r#""x":9"#], r#"{"x":9,"a":1}"#);
    check(
        r#"{"a":1}"#,
        &[],
        &["a"],
        &[r#""x":9"#, r#""y":8"#],
        r#"{"x":9,"y":8,"a":0}"#,
    );
    check(r#"{"a":1}"#, &["a"], &[], &[r#""x":9"#], r#"{"x":9}"#);
    check(
        r#"{"a":1,"b":2}"#,
        &["a"],
        &[],
        &[r#""x":9"#],
        r#"{"x":9,"b":2}"#,
    );
    check(
        r#"{ "a":1, "b":2 }"#,
        &["a", "b"],
        &[],
        &[r#""x":9"#],
        r#"{"x":9  }"#,
    );
}

#[test]
fn what_goes_takes_the_edits_inside_with_it() {
    let text = r#"{"a":{"b":1,"c":2},"d":3}"#;
    let mut edits = Edits::new(text.as_bytes());
    edits.replace(10..11, &b"9"[..]);
    edits.remove_member(&(12..15), &(16..17));
    edits.insert_member(5, &b"\"x\":0"[..]);
    assert_eq!(apply(&mut edits), r#"{"a":{"x":0,"b":9},"d":3}"#);
    edits.remove_member(&(1..4), &(5..18));
    assert_eq!(apply(&mut edits), r#"{"d":3}"#);
    edits.remove_member(&(19..22), &(23..24));
    assert_eq!(apply(&mut edits), "{}");
    edits.replace(0..text.len(), &b"[]"[..]);
    assert_eq!(apply(&mut edits), "[]");
}

#[test]
fn spans_outside_the_text_are_harmless() {
    let mut edits = Edits::new(b"{\"a\":1}");
    edits.replace(3..99, &b"x"[..]);
    edits.remove_member(&(50..60), &(61..70));
    edits.insert_member(80, &b"y"[..]);
    apply(&mut edits);
}

proptest! {
    #[test]
    fn edited_texts_hold_what_was_meant(
        text in documents(),
        fates in prop::collection::vec(0..12u8, 1..40),
    ) {
        let mut edits = Edits::new(text.as_bytes());
        let mut fates = fates.into_iter().cycle();
        let expected = plan(&mut Cursor::new(text.as_bytes()), &mut edits, &mut fates).expect("JSON");
        let edited = apply(&mut edits);
        prop_assert_eq!(compact(&edited), expected, "{}", edited);
        prop_assert_eq!(&apply(&mut edits), &edited, "again");
        if edits.list.is_empty() {
            prop_assert_eq!(edited, text);
        }
    }

    #[test]
    fn replacing_keeps_every_other_byte(text in documents(), fates in prop::collection::vec(any::<bool>(), 1..9)) {
        let mut edits = Edits::new(text.as_bytes());
        let mut expected = String::new();
        let mut copied = 0;
        let mut fates = fates.into_iter().cycle();
        scalars(&mut Cursor::new(text.as_bytes()), &mut |span| if fates.next() == Some(true) {
            expected.push_str(&text[copied..span.start]);
            expected.push_str("new");
            copied = span.end;
            edits.replace(span, &b"new"[..]);
        }).expect("JSON");
        expected.push_str(&text[copied..]);
        prop_assert_eq!(apply(&mut edits), expected);
    }
}

/// Edits a value as the fates decide. Returns the expected result, without white space.
fn plan(
    cursor: &mut Cursor<'_>,
    edits: &mut Edits<'_>,
    fates: &mut impl Iterator<Item = u8>,
) -> Result<String, Broken> {
    let text = cursor.text();
    let raw = |span: &Span| String::from_utf8_lossy(span_bytes(text, span)).into_owned();
    match cursor.kind()? {
        Kind::Object => {
            let inserts = fates.next().unwrap_or(0).saturating_sub(9);
            let mut members: Vec<String> = (0..inserts)
                .map(|index| format!("\"new\":{index}"))
                .collect();
            let object = cursor.object(|cursor, key| {
                match fates.next() {
                    Some(0 | 1) => {
                        let value = cursor.value()?;
                        edits.remove_member(&key, &value);
                    }
                    Some(2) => {
                        // Edits inside a removed value go with it.
                        let start = cursor.clone().value()?;
                        plan(cursor, edits, fates)?;
                        edits.remove_member(&key, &start);
                    }
                    Some(3) => {
                        edits.replace(cursor.value()?, &b"[0]"[..]);
                        members.push(format!("{}:[0]", raw(&key)));
                    }
                    _ => members.push(format!("{}:{}", raw(&key), plan(cursor, edits, fates)?)),
                }
                Ok(())
            })?;
            for index in 0..inserts {
                edits.insert_member(object.start, format!("\"new\":{index}").into_bytes());
            }
            Ok(format!("{{{}}}", members.join(",")))
        }
        Kind::Array => {
            let mut elements = Vec::new();
            cursor.array(|cursor, _| {
                elements.push(plan(cursor, edits, fates)?);
                Ok(())
            })?;
            Ok(format!("[{}]", elements.join(",")))
        }
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => Ok(raw(&cursor.value()?)),
    }
}

fn compact(text: &str) -> String {
    let mut cursor = Cursor::new(text.as_bytes());
    let compacted = plan(
        &mut cursor,
        &mut Edits::new(text.as_bytes()),
        &mut std::iter::repeat(9),
    );
    compacted
        .and_then(|compacted| cursor.end().map(|()| compacted))
        .expect("JSON")
}

fn scalars(cursor: &mut Cursor<'_>, each: &mut impl FnMut(Span)) -> Result<(), Broken> {
    match cursor.kind()? {
        Kind::Object => cursor.object(|cursor, _| scalars(cursor, each)).map(drop),
        Kind::Array => cursor.array(|cursor, _| scalars(cursor, each)).map(drop),
        Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.value().map(each),
    }
}
