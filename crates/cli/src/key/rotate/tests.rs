use std::time::Duration;

use super::*;
use portcullis::conf::yaml;
use portcullis::conf::yaml::edit::apply_changes;

const DAY: Duration = Duration::from_secs(86_400);

/// A key's fields before and after a rotation on 2030-01-10.
#[track_caller]
fn check(before: &str, overlap: Duration, after: &str) {
    let around = |fields: &str| format!("callers:\n  acme:\n    keys:\n      prod:{fields}\n");
    let (before, now) = (around(before), parse_time("2030-01-10").unwrap());
    let id = Id::parse("acme/prod").unwrap();
    let (tree, _) = yaml::parse(&before).ok().unwrap();
    let key = ["callers", "acme", "keys", "prod"]
        .into_iter()
        .try_fold(&tree, find_field)
        .unwrap();
    let until = (!overlap.is_zero()).then(|| time_after(now, overlap));
    let secret = NewSecret {
        text: String::new(),
        hash: "s:new".to_owned(),
        note: "sk-new-…".to_owned(),
    };
    let changes = rotation_changes(id, &read_hashes(key).unwrap(), &secret, until, now);
    assert_eq!(
        apply_changes(&before, &changes).map(|(text, _)| text),
        Ok(around(after))
    );
}

#[test]
fn the_secret_before_works_on_for_the_overlap() {
    check(
        "\n        hash: s:old # sk-old-…\n        models: [m] # these",
        DAY,
        "\n        hashes:\n          - { hash: \"s:old\", until: \"2030-01-11T00:00:00Z\" } # sk-old-…\n          - { hash: \"s:new\" } # sk-new-…\n        models: [m] # these",
    );
    check(
        " { hash: \"s:old\", debug: true }",
        DAY,
        " { hashes: [{ hash: \"s:old\", until: \"2030-01-11T00:00:00Z\" }, { hash: \"s:new\" }], debug: true }",
    );
}

#[test]
fn all_that_are_good_stay_and_the_others_go() {
    check(
        "\n        hashes:\n          - { hash: s:past, until: 2030-01-10 } # past\n          # kept\n          - hash: s:good\n            until: 2030-03-01\n          - { hash: s:last } # sk-last-…",
        DAY,
        "\n        hashes:\n          # kept\n          - hash: s:good\n            until: 2030-03-01\n          - { hash: s:last, until: \"2030-01-11T00:00:00Z\" } # sk-last-…\n          - { hash: \"s:new\" } # sk-new-…",
    );
    check(
        " { hashes: [{ hash: s:past, until: 2030-01-01 }] }",
        DAY,
        " { hashes: [{ hash: \"s:new\" }] }",
    );
}

#[test]
fn without_an_overlap_nothing_older_works_any_more() {
    check(
        "\n        hash: 's:old' # sk-old-…",
        Duration::ZERO,
        "\n        hash: 's:new' # sk-new-…",
    );
    check(" { hash: s:old }", Duration::ZERO, " { hash: \"s:new\" }");
    check(
        "\n        hashes:\n        - { hash: s:good, until: 2030-03-01 }\n        - { hash: s:last }",
        Duration::ZERO,
        "\n        hashes:\n        - { hash: \"s:new\" } # sk-new-…",
    );
}
