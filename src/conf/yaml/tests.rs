use std::fmt::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// The tree on one line, with each value's line number.
fn drawn(node: &Node<'_>) -> String {
    match &node.value {
        Value::Plain(text) => format!("{text}@{}", node.line),
        Value::Quoted(text) => format!("{text:?}@{}", node.line),
        Value::List(items) => format!(
            "[{}]",
            items.iter().map(drawn).collect::<Vec<_>>().join(" ")
        ),
        Value::Map(entries) => {
            format!(
                "{{{}}}",
                entries
                    .iter()
                    .map(|entry| format!("{}: {}", entry.key, drawn(&entry.node)))
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    match parse(text) {
        Ok((tree, faults)) => {
            assert_eq!(faults, [], "{text}");
            assert_eq!(drawn(&tree), expected, "{text}");
        }
        Err(fault) => panic!("{text}: {fault:?}"),
    }
}

/// All that is wrong, as `line path: what`.
#[track_caller]
fn check_faults(text: &str, expected: &[&str]) {
    let faults = match parse(text) {
        Ok((_, faults)) => faults,
        Err(fault) => vec![fault],
    };
    let faults: Vec<String> = faults
        .iter()
        .map(|fault| format!("{} {}: {}", fault.line.unwrap(), fault.path, fault.message))
        .collect();
    assert_eq!(faults.len(), expected.len(), "{text}: {faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(
            fault.starts_with(expected),
            "{text}: {fault:?} is not {expected:?}"
        );
    }
}

#[test]
fn trees_and_lines() {
    check("{}", "{}");
    check("a: 1\nb: [x, \"y\"]\n", "{a: 1@1 b: [x@2 \"y\"@2]}");
    check(
        "# first\n\na:\n  - b: c\n    d: 'e'\n  - |\n    f\n",
        "{a: [{b: c@4 d: \"e\"@5} \"f\\n\"@7]}",
    );
    check("a:\nb: ~\n", "{a: @1 b: ~@2}");
    check("1: x\ntrue: y\n\"\": z\n", "{1: x@1 true: y@2 : z@3}");
    check("%YAML 1.2\n---\na: 1\n...\n", "{a: 1@3}");
    check(
        "a: &x {b: 1}\nc: *x\nd: [*x]\n",
        "{a: {b: 1@1} c: {b: 1@1} d: [{b: 1@1}]}",
    );
    check("a: &x 1\nc: *x\n", "{a: 1@1 c: 1@2}");
}

#[test]
fn crlf_is_a_line_end_like_any_other() {
    check(
        "a: 1\r\nb:\r\n  - x\r\n# c\r\nd: |\r\n  e\r\n",
        "{a: 1@1 b: [x@3] d: \"e\\n\"@6}",
    );
    check_faults("a: 1\r\n\r\nb: [\r\n", &["3 : is not YAML"]);
}

#[test]
fn f01_what_is_refused() {
    check_faults("", &["1 : is empty"]);
    check_faults("\n# a comment\n", &["1 : is empty"]);
    check_faults("---\n", &["1 : is empty"]);
    check_faults("null", &["1 : is empty"]);
    check_faults("\u{feff}a: 1\n", &["1 : begins with a byte-order mark"]);
    check_faults("a: 1\n---\nb: 2\n", &["2 : a second document"]);
    check_faults("a: 1\nb: !secret x\n", &["2 b: tags"]);
    check_faults("a: {b: [x, !!map {}]}\n", &["1 a.b[1]: tags"]);
    check_faults(
        "a: {b: 1, ? [x] : y}\n",
        &["1 a: the name of a field must be plain text"],
    );
    check_faults(
        "a:\n  b: 1\n  : x\n",
        &["3 a: the name of a field is missing"],
    );
    check_faults("a: &x {b: 1}\nc:\n  <<: *x\n", &["3 c: merge keys"]);
    check_faults("a: &x [*x]\n", &["1 a[0]: this alias"]);
    check_faults(
        "a: *x\n",
        &["1 : is not YAML: while parsing node, found unknown anchor (column 4)"],
    );
    check_faults(
        "a: b: c\n",
        &["1 : is not YAML: mapping values are not allowed"],
    );
    check_faults("a: [1, 2", &["1 : is not YAML"]);
    check_faults("a:\n\t- b\n", &["2 : is not YAML: tabs"]);
}

#[test]
fn f01_equal_keys_are_all_told() {
    check_faults(
        "a: 1\nb:\n  c: 1\n  d: {x: 1, x: 2}\n  c: 2\n  \"c\": 3\na: 2\n",
        &[
            "4 b.d.x: is written twice, first in line 4",
            "5 b.c: is written twice, first in line 3",
            "6 b.c: is written twice",
            "7 a: is written twice",
        ],
    );
    check_faults(
        "a: [{}, {b.c: 1,\n b.c: 2}]\n",
        &["2 a[1].\"b.c\": is written twice, first in line 1"],
    );
}

#[test]
fn s06_syntax_errors_show_no_value() {
    for text in [
        "key: @sk-canary-1",
        "key: \"sk-canary-1",
        "key: [sk-canary-1",
        "key: sk-canary-1: x",
        "key: 'x' sk-canary-1",
        "sk-canary-1: 1\nsk-canary-1: 2\n",
    ] {
        let told = match parse(text) {
            Ok((_, faults)) => format!("{faults:?}"),
            Err(fault) => format!("{fault:?}"),
        };
        assert!(!told.contains("canary"), "{told}");
    }
}

#[test]
fn f14_no_file_takes_long() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        writeln!(
            bomb,
            "a{i}: &a{i} [{}]",
            vec![format!("*a{}", i - 1); 10].join(", ")
        )
        .unwrap();
    }
    // Each alias a little deeper than the one before: the tree would be thousands deep.
    let mut ladder = format!("a0: &a0 {}{}\n", "[".repeat(60), "]".repeat(60));
    for i in 1..50 {
        writeln!(
            ladder,
            "a{i}: &a{i} {}*a{}{}",
            "[".repeat(50),
            i - 1,
            "]".repeat(50)
        )
        .unwrap();
    }
    // Its memory is never written, so it takes none.
    let huge = String::from_utf8(vec![0; LARGEST_TEXT + 1]).unwrap();
    for (what, text, expected) in [
        ("more than 1 GiB", huge, "is too large"),
        ("an alias bomb", bomb, "anchors and aliases repeat"),
        ("a ladder of aliases", ladder, "is nested too deep"),
        (
            "5,000 deep",
            format!("{}{}", "[".repeat(5000), "]".repeat(5000)),
            "",
        ),
        (
            "5,000 deep in blocks",
            (0..5000).fold(String::new(), |text, depth| {
                text + &" ".repeat(depth) + "a:\n"
            }),
            "is nested too deep",
        ),
        (
            "65 deep",
            format!("{}{}", "[".repeat(65), "]".repeat(65)),
            "is nested too deep",
        ),
    ] {
        let start = Instant::now();
        let fault = parse(&text).err().unwrap_or_else(|| panic!("{what}"));
        assert!(fault.message.contains(expected), "{what}: {fault:?}");
        // In a debug build on a slow machine. What follows each alias takes hours.
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{what}: {:?}",
            start.elapsed()
        );
    }
    assert!(parse(&format!("{}{}", "[".repeat(64), "]".repeat(64))).is_ok());
}

#[test]
fn paths_and_the_lines_they_lead_to() {
    let (tree, _) =
        parse("models:\n  fast:\n    targets:\n      - {account: a}\n      - account: b\n        model: c\n")
            .unwrap_or_else(|_| panic!());
    let models = Path::Root.key("models");
    let fast = models.key("fast");
    let targets = fast.key("targets");
    let second = targets.index(1);
    let missing = second.key("weight");
    let deeper = missing.key("x");
    for (path, text, line) in [
        (Path::Root, "", None),
        (models, "models", Some(1)),
        (fast, "models.fast", Some(2)),
        (second, "models.fast.targets[1]", Some(5)),
        (second.key("model"), "models.fast.targets[1].model", Some(6)),
        (missing, "models.fast.targets[1].weight", Some(5)),
        (deeper, "models.fast.targets[1].weight.x", Some(5)),
        (models.key("gpt-4.1"), "models.\"gpt-4.1\"", Some(1)),
        (models.key("sk-canary-12345"), "models.…", Some(1)),
    ] {
        assert_eq!(path.to_string(), text);
        assert_eq!(tree.line_of(&path), line, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-a-c0 :,{}\\[\\]\"'|>&*!%@#?~<\n\r\t]{0,60}") {
        drop(parse(&text));
    }

    #[test]
    fn what_json_says_yaml_says(text in "[a-c ]{0,5}", number: u32) {
        let json = format!("{{\"k\": [{text:?}, {number}, {{\"x\": true}}]}}");
        let (tree, faults) = parse(&json).map_err(|fault| TestCaseError::fail(fault.message))?;
        prop_assert!(faults.is_empty());
        prop_assert_eq!(drawn(&tree), format!("{{k: [{text:?}@1 {number}@1 {{x: true@1}}]}}"));
    }
}

/// JSON writes a character outside of the basic plane as two escapes.
#[test]
fn pairs_of_escapes_in_json_are_read() {
    let text =
        r#"{"a": {"\ud83d\ude00": "x\uD83D\uDE01\\ud83d"}, "b": "\ud83d\ude00", "c": 1, "c": 2}"#;
    let (root, faults) = parse(text).unwrap_or_else(|fault| panic!("{fault}"));
    let Value::Map(entries) = &root.value else {
        panic!()
    };
    let Value::Map(inner) = &entries[0].node.value else {
        panic!()
    };
    let quoted = |node: &Node<'_>| match &node.value {
        Value::Quoted(text) => text.to_string(),
        Value::Plain(_) | Value::List(_) | Value::Map(_) => panic!(),
    };
    assert_eq!(
        (&*inner[0].key, quoted(&inner[0].node).as_str()),
        ("😀", "x😁\\ud83d")
    );
    assert_eq!(quoted(&entries[1].node), "😀");
    // Columns are those of the text as it is written.
    let column = |key: &str| text.find(key).unwrap() + 1;
    assert_eq!(
        (entries[1].column, entries[2].column),
        (column("\"b\""), column("\"c\""))
    );
    assert_eq!(faults.len(), 1, "{faults:?}");
    // Half a pair is none, and YAML itself has no pairs.
    for text in [r#"{"a": "\ud83d"}"#, r#"a: "\ud83d\ude00""#] {
        assert!(
            parse(text)
                .err()
                .expect(text)
                .message
                .starts_with("is not YAML"),
            "{text}"
        );
    }
}
