use serde::Deserialize;

use super::*;
use crate::base::units::{Span, Text};
use crate::conf::yaml::{parse, parse_as};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    name: Option<String>,
    on: Option<bool>,
    count: Option<u32>,
    list: Option<List<String>>,
    inner: Option<Entries<Inner>>,
    colour: Option<Colour>,
    wait: Option<Text<Span>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    size: Option<u32>,
    parts: Option<List<Part>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    weight: Option<u32>,
    #[expect(dead_code, reason = "only errors are of interest")]
    label: Option<String>,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
}

fn told(text: &str) -> (Option<Outer>, Vec<String>) {
    let (tree, mut faults) = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
    let shows = |section: Option<&str>, key: &str| section == Some("inner") && key != "hunter2";
    let habits = "farbe | colour | write `colour: red`";
    let outer = read_value(&tree, FileKind { shows, habits }, &mut faults);
    faults.sort_by_key(|fault| fault.line);
    (
        outer,
        faults
            .iter()
            .map(|fault| format!("{} {}: {}", fault.line.unwrap(), fault.path, fault.message))
            .collect(),
    )
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let (_, faults) = told(text);
    assert_eq!(faults, expected, "{text}");
}

#[test]
fn what_is_right_is_read() {
    let (outer, faults) = told(
        "name: '7'\non: True\ncount: 4294967295\nlist: [a, \"true\", 10.0.0.0/8]\ncolour: green\nwait: 5s\n\
         inner:\n  b: {size: 1}\n  a: {parts: [{weight: 2}, {}]}\n",
    );
    assert!(faults.is_empty(), "{faults:?}");
    let outer = outer.unwrap();
    assert_eq!(
        (outer.name.as_deref(), outer.on, outer.count),
        (Some("7"), Some(true), Some(u32::MAX))
    );
    assert_eq!(
        list_items(outer.list.as_ref())
            .map(|(index, text)| format!("{index}{text}"))
            .collect::<Vec<_>>(),
        ["0a", "1true", "210.0.0.0/8"]
    );
    assert_eq!(outer.colour, Some(Colour::Green));
    assert!(outer.wait.is_some());
    let inner = outer.inner.unwrap().0;
    assert_eq!(
        inner
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["b", "a"]
    );
    assert_eq!(inner[0].1.as_ref().unwrap().size, Some(1));
    let parts = inner[1].1.as_ref().unwrap().parts.as_ref().unwrap();
    assert_eq!(
        (parts.len(), parts[0].as_ref().unwrap().weight),
        (2, Some(2))
    );
    assert!(told("{}").1.is_empty());
}

#[test]
fn kinds_that_are_not_asked_for() {
    check(
        "name: 7",
        &["1 name: must be text (in quotes, if it looks like something else), not a number"],
    );
    check(
        "name: 1e3",
        &["1 name: must be text (in quotes, if it looks like something else), not a number"],
    );
    check(
        "name: true",
        &["1 name: must be text (in quotes, if it looks like something else), not true or false"],
    );
    check(
        "name: [a]",
        &["1 name: must be text (in quotes, if it looks like something else), not a list"],
    );
    check(
        "name: {a: b}",
        &["1 name: must be text (in quotes, if it looks like something else), not a map"],
    );
    check("on: yes", &["1 on: must be true or false, not \"yes\""]);
    check("on: 'true'", &["1 on: must be true or false, not text"]);
    check("on: [true]", &["1 on: must be true or false, not a list"]);
    check(
        "count: -1",
        &["1 count: must be a whole number, 0 or more (column 8)"],
    );
    check(
        "count: 1.5",
        &["1 count: must be a whole number, 0 or more (column 8)"],
    );
    check(
        "count: '1'",
        &["1 count: must be a whole number, 0 or more, not text"],
    );
    check(
        "count: many",
        &["1 count: must be a whole number, 0 or more (column 8)"],
    );
    check(
        "count: [1]",
        &["1 count: must be a whole number, 0 or more, not a list"],
    );
    check("count: 4294967296", &["1 count: is too large"]);
    check("count: 99999999999999999999", &["1 count: is too large"]);
    check("list: a", &["1 list: must be a list, not text"]);
    check("list: {a: b}", &["1 list: must be a list, not a map"]);
    check("inner: []", &["1 inner: must be a map, not a list"]);
    check(
        "inner: {a: 5}",
        &["1 inner.a: must be a map of size, parts, not a number"],
    );
    check(
        "colour: {}",
        &["1 colour: must be one of red, green, not a map"],
    );
    check(
        "wait: 5",
        &[
            "1 wait: must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h (column 7)",
        ],
    );
    check(
        "wait: 5 s",
        &[
            "1 wait: must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h (column 7)",
        ],
    );
    check(
        "[]",
        &["1 : must be a map of name, on, count, list, inner, colour, wait, not a list"],
    );
    check(
        "text",
        &["1 : must be a map of name, on, count, list, inner, colour, wait, not text"],
    );
}

#[test]
fn nulls_are_errors_everywhere() {
    const NULL: &str = "has no value: write a value, or remove the field";
    for (text, place) in [
        ("name:", "1 name"),
        ("name: ~", "1 name"),
        ("name: null", "1 name"),
        ("a: 1\non: Null", "2 on"),
        ("count:\n\n", "1 count"),
        ("list: ", "1 list"),
        ("list: [a, ~]", "1 list[1]"),
        ("list:\n- a\n-\n", "3 list[1]"),
        ("inner:", "1 inner"),
        ("inner:\n  a:\n  b: {}", "2 inner.a"),
        (
            "inner: {a: {parts: [{weight: ~}]}}",
            "1 inner.a.parts[0].weight",
        ),
        ("colour:", "1 colour"),
        ("wait: ", "1 wait"),
    ] {
        let (_, faults) = told(text);
        assert!(
            faults.contains(&format!("{place}: {NULL}")),
            "{text}: {faults:?}"
        );
    }
    // In quotes it is a word.
    check("name: 'null'", &[]);
}

#[test]
fn unknown_words_name_the_nearest() {
    check(
        "nam: x",
        &[
            "1 nam: unknown field; did you mean `name`? Allowed: name, on, count, list, inner, colour, wait",
        ],
    );
    check(
        "price: 1",
        &["1 …: unknown field; allowed: name, on, count, list, inner, colour, wait (column 1)"],
    );
    check(
        "farbe: red",
        &["1 farbe: unknown field: write `colour: red`"],
    );
    check(
        "inner: {a: {sise: 1}}",
        &["1 inner.a.sise: unknown field; did you mean `size`? Allowed: size, parts"],
    );
    check(
        "colour: gren",
        &["1 colour: \"gren\" is not known; did you mean `green`? Allowed: red, green"],
    );
    check(
        "colour: blue",
        &["1 colour: is not known; allowed: red, green (column 9)"],
    );
    check(
        "colour: Red",
        &["1 colour: \"Red\" is not known; did you mean `red`? Allowed: red, green"],
    );
}

#[test]
fn s06_a_foreign_word_is_told_by_place() {
    for secret in [
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f",
        "hunter2",
        "12345678",
    ] {
        for text in [
            format!("name: [{secret}]"),
            format!("on: {secret}"),
            format!("count: x{secret}"),
            format!("count: -{secret}"),
            format!("list: {secret}"),
            format!("inner: {secret}"),
            format!("inner: {{ a: {{ {secret}: 1 }} }}"),
            format!("inner: {{ a: {{ size: {secret}x }} }}"),
            format!("colour: {secret}"),
            format!("colour: {{ {secret}: 1 }}"),
            format!("wait: {secret}"),
            format!("{secret}: 1"),
            format!("{secret}: 1\n{secret}: 2"),
        ] {
            let parsed = parse_as(&text, |_, _| false).map(|(tree, doubles)| {
                let mut faults = doubles;
                drop(read_value::<Outer>(
                    &tree,
                    FileKind {
                        shows: |_, _| false,
                        habits: "",
                    },
                    &mut faults,
                ));
                faults
            });
            let faults = parsed.unwrap_or_else(|fault| vec![fault]);
            assert!(!faults.is_empty(), "{text}");
            for fault in faults {
                assert!(
                    !fault.path.contains(secret) && !fault.message.contains(secret),
                    "{text}: {fault:?}"
                );
                assert!(
                    fault.line > Some(0)
                        && (fault.message.contains("(column ")
                            || fault.message.contains("not text")
                            || fault.message.contains("not a ")),
                    "{fault:?}"
                );
            }
        }
    }
}

#[test]
fn all_errors_at_once_with_their_lines() {
    check(
        "nam: x\non: 1\nlist:\n  - a\n  - 2\n  - b\n  - 3\ninner:\n  first:\n    size: -1\n    parts:\n      - {weight: x, label: 1, colour: red}\n      - 5\n      \
         - label:\n  second: 5\n  third: {size: a}\nwait: 1d\nlist: []\n",
        &[
            "1 nam: unknown field; did you mean `name`? Allowed: name, on, count, list, inner, colour, wait",
            "2 on: must be true or false, not \"1\"",
            "5 list[1]: must be text (in quotes, if it looks like something else), not a number",
            "7 list[3]: must be text (in quotes, if it looks like something else), not a number",
            "10 inner.first.size: must be a whole number, 0 or more (column 11)",
            "12 inner.first.parts[0].weight: must be a whole number, 0 or more (column 18)",
            "12 inner.first.parts[0].label: must be text (in quotes, if it looks like something else), not a number",
            "12 inner.first.parts[0].…: unknown field; allowed: weight, label (column 31)",
            "13 inner.first.parts[1]: must be a map of weight, label, not a number",
            "14 inner.first.parts[2].label: has no value: write a value, or remove the field",
            "15 inner.second: must be a map of size, parts, not a number",
            "16 inner.third.size: must be a whole number, 0 or more (column 17)",
            "17 wait: must be a length of time with its unit (ms, s, m or h), such as 250ms, 30s, 10m or 1h (column 7)",
            "18 list: is written twice, first in line 3: keep only one",
        ],
    );
}

#[test]
fn what_could_not_be_read_keeps_its_place() {
    let (outer, _) = told("list: [a, 1, b]\ninner:\n  bad: 5\n  good: {size: 1}\n");
    let outer = outer.unwrap();
    assert_eq!(
        list_items(outer.list.as_ref())
            .map(|(index, text)| (index, text.as_str()))
            .collect::<Vec<_>>(),
        [(0, "a"), (2, "b")]
    );
    let inner = outer.inner.unwrap().0;
    assert!(
        matches!(inner.as_slice(), [(bad, None), (good, Some(_))] if bad == "bad" && good == "good")
    );
}

#[test]
fn many_errors_are_cut_short_soon() {
    let many = (0..50_000).fold("inner:\n".to_owned(), |text, i| {
        text + &format!("  e{i}: {{sise: {i}}}\n")
    });
    let (_, faults) = told(&many);
    assert_eq!(faults.len(), MOST_FAULTS);
}
