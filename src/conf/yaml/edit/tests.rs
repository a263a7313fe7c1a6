use proptest::prelude::*;

use super::*;

/// `a.b.0`: numbers are places in lists.
fn steps(path: &str) -> Vec<Step<'_>> {
    path.split('.')
        .map(|step| step.parse().map_or(Step::Key(step), Step::Index))
        .collect()
}

/// The text after the changes.
fn text_after(text: &str, changes: &[Change<'_>]) -> Result<String, Problem> {
    apply_changes(text, changes).map(|(edited, _)| edited)
}

fn text(text: &str) -> NewValue {
    NewValue::text(text)
}

#[track_caller]
fn check(before: &str, change: Change<'_>, after: &str) {
    // A text of one line does not say how lines end.
    for eol in ["\n", "\r\n"].iter().take(1 + before.matches('\n').count()) {
        let lines = |text: &str| text.replace('\n', eol);
        assert_eq!(
            text_after(&lines(before), std::slice::from_ref(&change)).as_deref(),
            Ok(&*lines(after)),
            "{before}"
        );
    }
}

#[track_caller]
fn check_refused(before: &str, change: Change<'_>, line: usize, why: &str) {
    match text_after(before, &[change]) {
        Ok(edited) => panic!("{before} became {edited}"),
        Err(refused) => assert_eq!(
            (refused.line, &*refused.message),
            (Some(line), why),
            "{before}"
        ),
    }
}

fn set(path: &str, new: NewValue) -> Change<'_> {
    Change::Set(steps(path), new)
}

#[test]
fn a_value_is_replaced_with_its_quotes() {
    check(
        "a: 1 # one\nb: x\n",
        set("a", text("y")),
        "a: y # one\nb: x\n",
    );
    check("a: 'x'\n", set("a", text("it's")), "a: 'it''s'\n");
    check(
        "a: \"x\"   # c",
        set("a", text("\\ \"")),
        "a: \"\\\\ \\\"\"   # c",
    );
    check(
        "{a: {b: true, c: [x]}}\n",
        set("a.b", NewValue::Bool(false)),
        "{a: {b: false, c: [x]}}\n",
    );
    check(
        "a: { b: true }\n",
        set("a.b", text("x:y")),
        "a: { b: \"x:y\" }\n",
    );
    check(
        "ä: {b: ü, c: 'ö', d: e} # ß\nf: ä",
        set("ä.d", text("é")),
        "ä: {b: ü, c: 'ö', d: \"é\"} # ß\nf: ä",
    );
    check(
        "# ü\n\"a\": [ {b: ü}, {b: x} ]\n",
        set("a.1.b", text("y")),
        "# ü\n\"a\": [ {b: ü}, {b: y} ]\n",
    );
    check(
        "a:\n  - b: c\n    d: e # f\n",
        set("a.0.d", text("true")),
        "a:\n  - b: c\n    d: \"true\" # f\n",
    );
}

#[test]
fn an_entry_is_added_behind_the_others() {
    check("a: 1\n", set("b", text("x")), "a: 1\nb: x\n");
    check("a: 1", set("b", text("x")), "a: 1\nb: x");
    check(
        "a:\n    b: 1 # one\n\n# end\nc: 2\n",
        set("a.x", text("y")),
        "a:\n    b: 1 # one\n    x: y\n\n# end\nc: 2\n",
    );
    // Comments that are indented deeper belong to what stands above.
    check(
        "a:\n  b:\n    c: 1\n    # d: 2\n  # e: 3\nf: 4\n",
        set("a.x", NewValue::map([("y", text("z"))])),
        "a:\n  b:\n    c: 1\n    # d: 2\n  x:\n    y: z\n  # e: 3\nf: 4\n",
    );
    check("a: {}\n", set("a.b.c", text("d")), "a: { b: { c: d } }\n");
    check("a: {   }\n", set("a.b", text("d")), "a: { b: d }\n");
    check("{}", set("a.b", text("d")), "{ a: { b: d } }");
    check(
        "a: { b: 1, }\n",
        set("a.c", NewValue::List(vec![text("*"), text("d-e")])),
        "a: { b: 1, c: [\"*\", d-e], }\n",
    );
    check(
        "a: {\n  b: 1 # one\n}\n",
        set("a.c", text("d")),
        "a: {\n  b: 1, c: d # one\n}\n",
    );
    check(
        "a:\n  - b: 1\n  - b: 2\nc: d\n",
        set("a.0.x", text("y")),
        "a:\n  - b: 1\n    x: y\n  - b: 2\nc: d\n",
    );
    check(
        "a:\n   b: 1\n",
        set(
            "a.c.d",
            NewValue::map([("e", text("f").noted("g-…")), ("h", NewValue::List(vec![]))]),
        ),
        "a:\n   b: 1\n   c:\n      d:\n         e: f # g-…\n         h: []\n",
    );
}

#[test]
fn entries_and_items_go() {
    let remove = |path| Change::Remove(steps(path));
    check(
        "a: 1\nb: 2 # two\n# c\nc: 3\n",
        remove("b"),
        "a: 1\n# c\nc: 3\n",
    );
    check("a: 1\nb:\n  c: 2", remove("b"), "a: 1");
    check(
        "a: {b: 1, c: 2, d: 3}\n",
        remove("a.c"),
        "a: {b: 1, d: 3}\n",
    );
    check("a: {b: 1, c: 2}\n", remove("a.c"), "a: {b: 1}\n");
    check("a: {b: 1, c: 2, }\n", remove("a.c"), "a: {b: 1, }\n");
    check("a: { b: 1 }\n", remove("a.b"), "a: {  }\n");
    check(
        "a:\n- b\n- c: 1\n  d: 2 # d\n- e\n",
        remove("a.1"),
        "a:\n- b\n- e\n",
    );
    check("a: [b, {c: 1}, d]\n", remove("a.1"), "a: [b, d]\n");
    check("a: [b, {c: 1}]\n", remove("a.1"), "a: [b]\n");
    check(
        "a: [b, c, # c\n  # }\n  ]\nd: e\n",
        remove("a.1"),
        "a: [b, # c\n  # }\n  ]\nd: e\n",
    );
    check("a:\n  b: 1\n", remove("a.b"), "a: {}\n");
    check_refused("a: 1\n", remove("a"), 1, LAST);
    check_refused("a:\n  - b\n", remove("a.0"), 2, LAST);
    check_refused("a:\n  - b: 1\n    c: 2\n", remove("a.0.b"), 2, UNSURE);
    check_refused("a: [b, # b\n  c]\n", remove("a.0"), 1, UNSURE);
}

#[test]
fn a_whole_entry_goes_with_what_is_its_own() {
    let remove = |path| Change::Remove(steps(path));
    // The comments inside it and those below it that are indented deeper go with it; what stands
    // above it stays.
    check(
        "a:\n  # all\n  b: # of b\n    c: 1 # one\n    # d: 2\n  # of e\n  e:\n    f: [x,\n      y]\n",
        remove("a.b"),
        "a:\n  # all\n  # of e\n  e:\n    f: [x,\n      y]\n",
    );
    check(
        "a:\n  b:\n    c: 1\n  e:\n    f: 2\n    # g: 3\nh: 4\n",
        remove("a.e"),
        "a:\n  b:\n    c: 1\nh: 4\n",
    );
    check(
        "a:\n  b:\n    c: 1\n  e: { f: 2, g: [3] } # e\n",
        remove("a.e"),
        "a:\n  b:\n    c: 1\n",
    );
    check(
        "a:\n  b:\n  - c: 1\n  - c: 2\n  e: 1",
        remove("a.b"),
        "a:\n  e: 1",
    );
    // Of the only one an empty map is left, so that what is around it stays.
    check(
        "a:\n  b: # bs\n    # the only one\n    c:\n      d: 1\n      # e: 2\n  f: 3\n",
        remove("a.b.c"),
        "a:\n  b: {} # bs\n    # the only one\n  f: 3\n",
    );
    check(
        "a:\n  'b' :\n    c:\n      d: 1",
        remove("a.b.c"),
        "a:\n  'b' : {}",
    );
    check("x: {a: {b: {c: 1}}}\n", remove("x.a.b"), "x: {a: {}}\n");
    check_refused(
        "a:\n  b: &x\n    c: 1\nd: *x\n",
        remove("a.b.c"),
        3,
        ANCHORED,
    );
    check_refused("a:\n  - b: 1\n", remove("a.0.b"), 2, UNSURE);
}

#[test]
fn what_has_a_note_gets_room_for_it() {
    let new = || NewValue::map([("h", text("x").noted("n-…"))]);
    check(
        "a:\n  b: {} # bs\n  c: 1\n",
        set("a.b.k", new()),
        "a:\n  b: # bs\n    k:\n      h: x # n-…\n  c: 1\n",
    );
    check(
        "a:\n    b: { }",
        set("a.b.k", new()),
        "a:\n    b:\n        k:\n            h: x # n-…",
    );
    check(
        "a: {}\n",
        set("a.b.k", new()),
        "a:\n  b:\n    k:\n      h: x # n-…\n",
    );
    // Inside brackets there is none.
    check(
        "a: { b: {} }\n",
        set("a.b.k", new()),
        "a: { b: { k: { h: x } } }\n",
    );
    check("{}\n", set("a.k", new()), "{ a: { k: { h: x } } }\n");
}

#[test]
fn lists_get_items() {
    let push = |path, new| Change::Push(steps(path), new);
    let item = || NewValue::map([("b", text("x:y"))]);
    check(
        "a:\n- b: 1 # one\nc: 2\n",
        push("a", item()),
        "a:\n- b: 1 # one\n- { b: \"x:y\" }\nc: 2\n",
    );
    check(
        "a:\n  -   b",
        push("a", item().noted("n…")),
        "a:\n  -   b\n  - { b: \"x:y\" } # n…",
    );
    check(
        "a: [b]\n",
        push("a", item().noted("n…")),
        "a: [b, { b: \"x:y\" }]\n",
    );
    check("a: []\n", push("a", text("b")), "a: [b]\n");
}

#[test]
fn an_entry_is_split_in_two() {
    let split = |path| {
        Change::Split(
            steps(path),
            "hashes",
            [
                NewValue::map([("hash", text("s:old"))]),
                NewValue::map([("hash", text("s:new"))]).noted("n-…"),
            ],
        )
    };
    check(
        "a:\n   b:\n      hash: s:old # o-…\n      c: d\n",
        split("a.b.hash"),
        "a:\n   b:\n      hashes:\n         - { hash: \"s:old\" } # o-…\n         - { hash: \"s:new\" } # n-…\n      c: d\n",
    );
    check(
        "a: { hash: 's:old', b: c }\n",
        split("a.hash"),
        "a: { hashes: [{ hash: \"s:old\" }, { hash: \"s:new\" }], b: c }\n",
    );
}

#[test]
fn a_note_goes_with_its_value() {
    let new = || text("y").noted("new…");
    check("a: x # old…\n", set("a", new()), "a: y # new…\n");
    check("a: x\n", set("a", new()), "a: y # new…\n");
    check(
        "a: x # a comment…\n",
        set("a", new()),
        "a: y # a comment…\n",
    );
    check("a: x # old\n", set("a", new()), "a: y # old\n");
    check("a: {b: x}\n", set("a.b", new()), "a: {b: y}\n");
}

#[test]
fn what_cannot_be_edited_surely_is_refused() {
    let on = || set("a.b", text("y"));
    check_refused("x: &x {b: 1}\na: *x\n", on(), 2, ALIAS);
    check_refused("x: &x 1\na: {b: *x}\n", on(), 2, ALIAS);
    check_refused("a: &x {b: 1}\nc: *x\n", on(), 1, ANCHORED);
    check_refused("a: {b: &x z}\nc: *x\n", on(), 1, ANCHORED);
    check_refused("a: {c: &x z}\nd: *x\n", set("a", text("y")), 1, UNSURE);
    check_refused("a:\n  b: |\n    c\n", on(), 2, UNSURE);
    check_refused("a:\n  b: c\n    d\n", on(), 2, UNSURE);
    check_refused("a:\n  b: \"c\n    d\"\n", on(), 2, UNSURE);
    check_refused("a:\n  c: |\n    d\n", on(), 1, UNSURE);
    check_refused("a: {\n  # c\n  }\n", on(), 1, UNSURE);
    check_refused("a: [b]\n", on(), 1, UNSURE);
    check_refused(
        "a:\n  ? b\n  : c\n",
        Change::Remove(steps("a.b")),
        2,
        UNSURE,
    );
    // The comment would go with the key.
    let split = || Change::Split(steps("a"), "c", [text("x"), text("y")]);
    check_refused("a: # why\n  b\nd: e\n", split(), 1, UNSURE);
    check_refused("{a: # why\n b, d: e}\n", split(), 1, UNSURE);
    check_refused(
        "a: 1\nb: [\n",
        on(),
        2,
        "is not YAML: while parsing a node, did not find expected node content (column 1)",
    );
    check_refused(
        "a: 1\na: 2\n",
        on(),
        2,
        "is written twice, first in line 1: keep only one",
    );
}

/// A random document as it would be written by hand, and what is in it.
#[derive(Debug, Clone)]
enum Doc {
    Text(String),
    List(Vec<Doc>),
    Map(Vec<(String, Doc)>),
}

fn doc() -> impl Strategy<Value = Doc> {
    let leaf = "[a-z0-9:#'\"ä*-]([a-z0-9:#'\" ä*-]{0,6}[a-z0-9:#'\"ä*-])?".prop_map(Doc::Text);
    let entries = |inner| prop::collection::btree_map("[a-zä][a-z0-9ä. -]{0,3}[a-z]", inner, 0..4);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Doc::List),
            entries(inner).prop_map(|map| Doc::Map(map.into_iter().collect())),
        ]
    })
}

/// Writes it in a style of its own: `dice` decides at each turn.
struct Hand<'d> {
    dice: &'d [u8],
    at: usize,
    eol: &'static str,
    out: String,
}

impl Hand<'_> {
    fn roll(&mut self, sides: u8) -> u8 {
        self.at += 1;
        let turn = u8::try_from(self.at % 256).unwrap();
        self.dice[self.at % self.dice.len()]
            .wrapping_mul(31)
            .wrapping_add(turn)
            % sides
    }

    fn comments(&mut self, indent: usize) {
        for _ in 0..self.roll(4).saturating_sub(2) {
            let text = ["", "# x: y", "#", "# - ü {", "  # deeper"][usize::from(self.roll(5))];
            let text = if text.is_empty() {
                String::new()
            } else {
                format!("{:indent$}{text}", "")
            };
            self.out.push_str(&format!("{}{text}", self.eol));
        }
    }

    fn behind(&mut self) {
        if self.roll(4) == 0 {
            let comment = ["  # c: d", " # ü"][usize::from(self.roll(2))];
            self.out.push_str(comment);
        }
    }

    fn word(&mut self, text: &str, flow: bool) {
        let word = match self.roll(3) {
            0 => format!("'{}'", text.replace('\'', "''")),
            1 => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            _ => new::write_scalar(
                text,
                if flow {
                    new::Style::Flow
                } else {
                    new::Style::Block
                },
            ),
        };
        self.out.push_str(&word);
    }

    fn flow(&mut self, doc: &Doc) {
        let blank = |hand: &mut Self| {
            if hand.roll(2) == 0 {
                hand.out.push(' ')
            }
        };
        match doc {
            Doc::Text(text) => self.word(text, true),
            Doc::List(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at == 0 { "" } else { "," });
                    blank(self);
                    self.flow(item);
                }
                blank(self);
                self.out.push(']');
            }
            Doc::Map(entries) => {
                self.out.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.out.push_str(if at == 0 { "" } else { ", " });
                    self.word(key, true);
                    self.out.push_str(": ");
                    self.flow(value);
                }
                blank(self);
                self.out.push('}');
            }
        }
    }

    /// What stands behind `key:` or `-`.
    fn value(&mut self, doc: &Doc, indent: usize) {
        match doc {
            Doc::Map(entries) if !entries.is_empty() && self.roll(3) > 0 => {
                let inner = indent + 1 + usize::from(self.roll(4));
                self.behind();
                self.map(entries, inner);
            }
            Doc::List(items) if !items.is_empty() && self.roll(3) > 0 => {
                let inner = indent + 1 + usize::from(self.roll(3));
                self.behind();
                for item in items {
                    self.comments(inner);
                    self.out.push_str(&format!("{}{:inner$}-", self.eol, ""));
                    match item {
                        // A map that begins on the dash's line.
                        Doc::Map(entries) if entries.len() == 1 && self.roll(2) == 0 => {
                            self.out.push(' ');
                            self.entry(&entries[0].0, &entries[0].1, inner + 2);
                        }
                        Doc::Text(_) | Doc::List(_) | Doc::Map(_) => {
                            self.out.push(' ');
                            self.flow(item);
                            self.behind();
                        }
                    }
                }
            }
            Doc::Text(_) | Doc::List(_) | Doc::Map(_) => {
                let blanks = ["  ", " "][usize::from(self.roll(2))];
                self.out.push_str(blanks);
                self.flow_or_word(doc);
                self.behind();
            }
        }
    }

    fn flow_or_word(&mut self, doc: &Doc) {
        match doc {
            Doc::Text(text) => self.word(text, false),
            Doc::List(_) | Doc::Map(_) => self.flow(doc),
        }
    }

    fn entry(&mut self, key: &str, value: &Doc, indent: usize) {
        self.word(key, false);
        self.out.push(':');
        self.value(value, indent);
    }

    fn map(&mut self, entries: &[(String, Doc)], indent: usize) {
        for (key, value) in entries {
            self.comments(indent);
            self.out.push_str(&format!("{}{:indent$}", self.eol, ""));
            self.entry(key, value, indent);
        }
    }
}

/// A document whose root is a map, as text.
fn written() -> impl Strategy<Value = (Doc, String)> {
    let root = prop::collection::btree_map("[a-z]{1,3}", doc(), 1..4);
    (
        root,
        prop::collection::vec(any::<u8>(), 16..64),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(root, dice, crlf, ended)| {
            let entries: Vec<_> = root.into_iter().collect();
            let eol = if crlf { "\r\n" } else { "\n" };
            let mut hand = Hand {
                dice: &dice,
                at: 0,
                eol,
                out: "# top".to_owned(),
            };
            hand.map(&entries, 0);
            hand.comments(0);
            let end = if ended { eol } else { "" };
            (Doc::Map(entries), hand.out + end)
        })
}

/// Each place in it, with what stands there.
fn places<'d>(doc: &'d Doc, path: &mut Vec<Step<'d>>, found: &mut Vec<(Vec<Step<'d>>, &'d Doc)>) {
    found.push((path.clone(), doc));
    let inside: Vec<(Step<'d>, &Doc)> = match doc {
        Doc::Text(_) => Vec::new(),
        Doc::List(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| (Step::Index(at), item))
            .collect(),
        Doc::Map(entries) => entries
            .iter()
            .map(|(key, value)| (Step::Key(key), value))
            .collect(),
    };
    for (step, doc) in inside {
        path.push(step);
        places(doc, path, found);
        path.pop();
    }
}

/// How much two texts have in common at both ends.
fn common(a: &str, b: &str) -> (usize, usize) {
    let front = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let most = a.len().min(b.len()) - front;
    (
        front,
        a.bytes()
            .rev()
            .zip(b.bytes().rev())
            .take(most)
            .take_while(|(a, b)| a == b)
            .count(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn in_any_style_only_what_is_asked_for_changes((doc, text) in written(), pick: prop::sample::Index, word in "[a-zA-Z0-9:*' -]{0,8}") {
        let mut all = Vec::new();
        places(&doc, &mut Vec::new(), &mut all);
        let (path, what) = pick.get(&all).clone();
        let told = |refused: Problem| TestCaseError::fail(format!("{refused:?} in\n{text}"));
        match what {
            Doc::Text(old) => {
                let edited = text_after(&text, &[Change::Set(path.clone(), NewValue::text(&word))]).map_err(told)?;
                let (front, back) = common(&text, &edited);
                // What is gone lies within the old value.
                prop_assert!(text.len() - front - back <= old.len() * 2 + 2, "{text}\n{edited}");
                let again = text_after(&edited, &[Change::Set(path.clone(), NewValue::text(&word))]).map_err(told)?;
                prop_assert_eq!(&again, &edited, "the same once more changes nothing");
            }
            Doc::Map(_) => {
                let mut at = path.clone();
                at.push(Step::Key("new-one"));
                let edited = text_after(&text, &[Change::Set(at.clone(), NewValue::map([("k", NewValue::text(&word))]))]).map_err(told)?;
                let (front, back) = common(&text, &edited);
                prop_assert!(front + back >= text.trim_end().len().min(text.len()) - blanks(&text, front), "{text}\n{edited}");
                if !matches!(what, Doc::Map(entries) if entries.is_empty()) {
                    prop_assert_eq!(front + back, text.len(), "nothing goes: {}\n{}", &text, &edited);
                    prop_assert_eq!(text_after(&edited, &[Change::Remove(at)]).map_err(told)?, text.clone(), "and out again");
                }
            }
            Doc::List(items) => {
                let edited = text_after(&text, &[Change::Push(path.clone(), NewValue::text(&word))]).map_err(told)?;
                let (front, back) = common(&text, &edited);
                if !items.is_empty() {
                    prop_assert_eq!(front + back, text.len(), "nothing goes: {}\n{}", &text, &edited);
                    let mut last = path.clone();
                    last.push(Step::Index(items.len()));
                    prop_assert_eq!(text_after(&edited, &[Change::Remove(last)]).map_err(told)?, text.clone(), "and out again");
                }
            }
        }
    }

    #[test]
    fn no_text_panics_and_what_is_refused_says_where(text in "[-a-c0 :,{}\\[\\]\"'|>&*!%@#?~<\n\r\tä]{0,60}", path in "[ab01](\\.[ab01]){0,2}") {
        for change in [
            Change::Set(steps(&path), NewValue::text("x")),
            Change::Remove(steps(&path)),
            Change::Push(steps(&path), NewValue::Bool(true)),
            Change::Split(steps(&path), "c", [NewValue::text("x"), NewValue::text("y")]),
        ] {
            // That what comes out is right is checked by `edit` itself.
            drop(text_after(&text, &[change]));
        }
    }

    #[test]
    fn every_text_is_read_as_it_was(word in any::<String>()) {
        for (flow, around) in [(false, ["k: ", "\n"]), (true, ["k: [", ", x]\n"])] {
            let written = format!("{}{}{}", around[0], new::write_scalar(&word, if flow { new::Style::Flow } else { new::Style::Block }), around[1]);
            let (tree, _) = parse(&written).map_err(|fault| TestCaseError::fail(format!("{fault:?} in {written}")))?;
            let Value::Map(entries) = &tree.value else { return Err(TestCaseError::fail("no map")) };
            let node = match &entries[0].node.value {
                Value::List(items) => &items[0],
                Value::Plain(_) | Value::Quoted(_) | Value::Map(_) => &entries[0].node,
            };
            prop_assert!(node.is_same(&NewValue::text(&word).node()), "{}", written);
        }
    }
}

/// Blanks between empty brackets are not kept.
fn blanks(text: &str, from: usize) -> usize {
    text[..from]
        .bytes()
        .rev()
        .take_while(|b| *b == b' ')
        .count()
        + text[from..].bytes().take_while(|b| *b == b' ').count()
        + 1
}

#[test]
fn a_pair_of_escapes_in_json_becomes_its_character() {
    check(
        r#"{"\ud83d\ude00": {"b": true}, "c": "\ud83d\ude01"}"#,
        set("😀.b", NewValue::Bool(false)),
        "{\"😀\": {\"b\": false}, \"c\": \"😁\"}",
    );
}

#[test]
fn words_of_older_yaml_get_quotes() {
    for text in [
        "yes",
        "No",
        "ON",
        "off",
        "12:30",
        "1_000",
        "2026-11-29",
        "0b11",
        "1.5",
    ] {
        assert_eq!(
            new::write_scalar(text, new::Style::Block),
            format!("\"{text}\"")
        );
    }
    for text in ["gpt-4o", "yes-model", "o1", "2024-model", "a:1"] {
        assert_eq!(new::write_scalar(text, new::Style::Block), text);
    }
}
