//! Two catalogs, and what is said of the change from one to the other.

use std::time::{Duration, SystemTime};

use super::words::render_changes;
use super::{Change, Effect, ExtraFacts, compare_amounts, find_changes};
use crate::base::calendar::format_system_time;
use crate::catalog::Catalog;
use crate::catalog::resolve::resolve_catalog;
use crate::inventory::{Amounts, Inventory, Marks, SecretChanges};

const BEFORE: &str = r#"
accounts:
  eu: { dialect: openai, base_url: "https://eu.test/v1", key: sk-canary-eu-0123456789 }
  us: { dialect: openai, base_url: "https://us.test/v1", key: sk-canary-us-0123456789, headers: { X-Team: canary-team } }
models:
  big: { aliases: [main], targets: [{ account: eu, model: big-1 }, { account: us, model: big-1 }] }
  small: { targets: [{ account: eu, model: small-1, price: { input: 1, output: 2 } }] }
  far: { targets: [{ account: us, model: far-1 }] }
callers:
  acme:
    models: [big, small]
    limits: { requests_per_day: 5, concurrency: 10 }
    keys:
      one: { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000001" }
      two: { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000002", models: [small] }
  beta:
    keys:
      one: { hash: "sha256:ca00000000000000000000000000000000000000000000000000000000000003" }
"#;
const NOW: &str = "2026-11-01T00:00:00.000Z";

fn catalog(text: &str) -> Catalog {
    resolve_catalog(&[("catalog.yaml".to_owned(), text.to_owned())], &mut |_| {
        Err(String::new())
    })
    .unwrap()
}

fn found(before: &str, after: &str) -> Vec<Change> {
    let (before, after) = (catalog(before), catalog(after));
    // 2026-11-01, as NOW.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_491_200);
    assert_eq!(format_system_time(now), NOW);
    let besides = ExtraFacts {
        secrets: Some(SecretChanges::between(&before, &after, now)),
        server: None,
    };
    find_changes(
        &Inventory::from_catalog(&before),
        &Inventory::from_catalog(&after),
        &besides,
        NOW,
    )
}

/// Replaces parts of the catalog, and expects these lines.
#[track_caller]
fn check(edits: &[(&str, &str)], expected: &[&str]) {
    let mut after = BEFORE.to_owned();
    for (old, new) in edits {
        assert_eq!(after.matches(old).count(), 1, "{old}");
        after = after.replace(old, new);
    }
    let text = render_changes(&found(BEFORE, &after));
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    assert!(
        !text.contains("canary") && !text.contains("ca000"),
        "{text}"
    );
}

const BREAKS: &str = "Requests that are answered now will be refused:";

#[test]
fn nothing_is_said_of_what_is_the_same() {
    check(&[], &[]);
    check(&[("accounts:\n", "# A comment.\naccounts:\n")], &[]);
}

#[test]
fn a_removed_model_is_told_with_its_users() {
    check(
        &[("  far: { targets: [{ account: us, model: far-1 }] }\n", "")],
        &[BREAKS, "  model far: gone (caller beta; 1 key)"],
    );
    check(
        &[(
            "key: sk-canary-us-0123456789,",
            "key: sk-canary-us-0123456789, enabled: false,",
        )],
        &[
            BREAKS,
            "  model far: no target is left: account us is switched off (caller beta; 1 key)",
            "Changed:",
            "  account us: switched off; 2 models go there",
        ],
    );
    check(
        &[(
            "  far:",
            "  new: { targets: [{ account: us, model: far-1 }] }\n  far:",
        )],
        &["Wider:", "  model new: new (caller beta; 1 key)"],
    );
    // Nobody used it: acme may not, and beta is gone with it.
    check(
        &[("aliases: [main]", "aliases: [first]")],
        &[
            BREAKS,
            "  name main: gone; it meant big (callers acme, beta; 2 keys)",
            "Wider:",
            "  name first: new; it means big (callers acme, beta; 2 keys)",
        ],
    );
    check(
        &[
            ("aliases: [main], ", ""),
            ("  small: { ", "  small: { aliases: [main], "),
        ],
        &[
            "Changed:",
            "  name main: means the model small instead of big (callers acme, beta; 2 keys)",
            "Wider:",
            "  key acme/two: may also use main",
        ],
    );
}

#[test]
fn a_name_moved_between_models_is_not_new() {
    let glob = ("aliases: [main]", "aliases: [main, \"m*\"]");
    let with = |edits: &[(&str, &str)]| {
        edits.iter().fold(BEFORE.to_owned(), |text, (old, new)| {
            assert_eq!(text.matches(old).count(), 1, "{old}");
            text.replace(old, new)
        })
    };
    let told = |before: &[(&str, &str)], after: &[(&str, &str)]| {
        render_changes(&found(&with(before), &with(after)))
    };
    for name in ["mx", "\"mx*\""] {
        let (far, new) = (
            format!("far: {{ aliases: [{name}],"),
            name.trim_matches('"'),
        );
        let text = told(&[glob], &[glob, ("far: {", &far)]);
        let expected = format!(
            "{BREAKS}\n  key acme/one: may no longer use {new}\nChanged:\n  \
             name {new}: means the model far instead of big (callers acme, beta; 2 keys)\n"
        );
        assert_eq!(text, expected);
    }
    // Of a model that is new, too.
    let new = (
        "  far:",
        "  new: { aliases: [mx], targets: [{ account: us, model: new-1 }] }\n  far:",
    );
    let text = told(&[glob], &[glob, new]);
    assert!(
        text.contains(
            "  name mx: means the model new instead of big (callers acme, beta; 2 keys)\n"
        ),
        "{text}"
    );
    // A name that the model had by its own glob.
    let text = told(
        &[glob],
        &[("aliases: [main]", "aliases: [main, \"m*\", mx]")],
    );
    assert_eq!(
        text,
        "Changed:\n  name mx: written now; it meant big before, too\n"
    );
    // A name that a pattern had.
    let pattern = (
        "callers:\n",
        "  \"p/*\": { targets: [{ account: us, model: \"*\" }] }\ncallers:\n",
    );
    let text = told(
        &[pattern],
        &[pattern, ("far: {", "far: { aliases: [\"p/x*\"],")],
    );
    assert!(
        text.contains("  name p/x*: means the model far; until now a pattern may have answered ("),
        "{text}"
    );
}

#[test]
fn a_name_in_a_pattern_may_have_been_answered() {
    let off = "accounts:\n  off: { dialect: demo, enabled: false }\n";
    let pattern = "  \"p/*\": { targets: [{ account: us, model: \"*\" }] }\n";
    let before = BEFORE
        .replace("accounts:\n", off)
        .replace("callers:\n", &format!("{pattern}callers:\n"));
    let with = |model: &str| before.replace("callers:\n", &format!("  {model}\ncallers:\n"));
    let text = render_changes(&found(
        &before,
        &with("dead: { aliases: [\"p/x*\"], targets: [{ account: off }] }"),
    ));
    let expected = [
        BREAKS,
        "  name p/x*: a name of a model that is not served; until now a pattern may have answered (caller beta; 1 key)",
        "Changed:",
        "  model dead: new, but not served: account off is switched off (caller beta; 1 key)",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn permissions_are_told_for_callers_and_keys() {
    check(
        &[("models: [big, small]", "models: [small]")],
        &[
            BREAKS,
            "  key acme/one: may no longer use big, main",
            "Changed:",
            ALIKE,
        ],
    );
    check(
        &[("models: [big, small]", "models: [\"*\"]")],
        &[
            "Changed:",
            ALIKE,
            "Wider:",
            "  key acme/one: may also use far",
        ],
    );
    check(
        &[("02\", models: [small]", "02\", models: [big]")],
        &[
            BREAKS,
            "  key acme/two: may no longer use small",
            "Wider:",
            "  key acme/two: may also use big, main",
        ],
    );
    check(
        &[("    models: [big, small]\n", "    models: [\"[x]\"]\n")],
        &[
            BREAKS,
            "  key acme/one: may no longer use big, main, small",
            "  key acme/two: may no longer use small",
        ],
    );
    check(
        &[("  beta:\n", "  beta:\n    models: [far]\n")],
        &[BREAKS, "  caller beta: may no longer use big, main, small"],
    );
}

const ALIKE: &str = "  key acme/two: `models` is written otherwise, to the same effect";

#[test]
fn keys_and_callers_that_stop_are_told() {
    check(
        &[(
            "      two: { hash: \"sha256:ca00000000000000000000000000000000000000000000000000000000000002\", models: [small] }\n",
            "",
        )],
        &[BREAKS, "  key acme/two: gone: requests with it are refused"],
    );
    check(
        &[("03\" }", "03\", enabled: false }")],
        &[
            BREAKS,
            "  key beta/one: switched off: requests with it are refused",
        ],
    );
    check(
        &[("03\" }", "03\", expires: 2027-01-01 }")],
        &[
            "Tighter:",
            "  key beta/one: expires never → 2027-01-01T00:00:00.000Z",
        ],
    );
    check(
        &[("03\" }", "03\", expires: 2026-01-01 }")],
        &[
            BREAKS,
            "  key beta/one: expires never → 2026-01-01T00:00:00.000Z, which is past: requests are refused",
        ],
    );
    check(
        &[("03\" }", "04\" }")],
        &[
            BREAKS,
            "  key beta/one: a secret of it that works now is refused",
        ],
    );
    check(
        &[("  beta:\n", "  beta:\n    enabled: false\n")],
        &[BREAKS, "  caller beta: switched off: 1 key is refused"],
    );
    let from = BEFORE.split("  beta:").next().unwrap();
    let text = render_changes(&found(BEFORE, from));
    assert_eq!(text, format!("{BREAKS}\n  caller beta: gone, with 1 key\n"));
    assert_eq!(
        render_changes(&found(from, BEFORE)),
        "Wider:\n  caller beta: new, with 1 key\n"
    );
    // Without the secrets at hand, the key may have got another name.
    let told = find_changes(
        &Inventory::from_catalog(&catalog(BEFORE)),
        &Inventory::from_catalog(&catalog(from)),
        &ExtraFacts::default(),
        NOW,
    );
    let unless = "gone, with 1 key: refused unless other keys have the secrets";
    assert_eq!(
        render_changes(&told),
        format!("{BREAKS}\n  caller beta: {unless}\n")
    );
}

#[test]
fn a_secret_another_key_then_has_is_accepted() {
    let opens =
        |key: &str, other: &str| format!("  key {key}: a secret of it opens the key {other} then");
    // A key with another name.
    check(
        &[("      two: {", "      three: {")],
        &[
            "Changed:",
            "  key acme/two: gone; its secret opens the key acme/three then",
            "Wider:",
            "  key acme/three: new",
        ],
    );
    // A caller with another name.
    check(
        &[("  beta:\n", "  gamma:\n")],
        &[
            "Changed:",
            "  caller beta: gone, with 1 key",
            "  key beta/one: gone; its secret opens the key gamma/one then",
            "Wider:",
            "  caller gamma: new, with 1 key",
        ],
    );
    // Two keys that swap their secrets: each request has the models of the other.
    let swap = [
        ("00001\" }", "00009\" }"),
        ("00003\" }", "00001\" }"),
        ("00009\" }", "00003\" }"),
    ];
    check(
        &swap,
        &[
            BREAKS,
            "  key beta/one: may no longer use far",
            "Changed:",
            &opens("beta/one", "acme/one"),
            &opens("acme/one", "beta/one"),
            "Wider:",
            "  key acme/one: may also use far",
        ],
    );
    // The other key is switched off.
    check(
        &[("      two: {", "      three: { enabled: false,")],
        &[
            BREAKS,
            "  key acme/two: gone: requests with it are refused",
            "Wider:",
            "  key acme/three: new",
        ],
    );
    // One of two secrets moves, and the other is refused.
    let two = hashes(&[secret(7, ""), secret(8, "")]);
    let other = "    keys: { two: { hashes: [{ hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000007\" }] } }\n";
    check_beta(
        &two,
        other,
        &[
            BREAKS,
            "  key beta/one: gone: requests with it are refused",
            "Wider:",
            "  key beta/two: new",
        ],
    );
    // One of two secrets moves, and the other stays.
    let both = other.replace(
        "keys: {",
        &format!("keys: {{ one: {{ hashes: [{}] }},", secret(8, "")),
    );
    check_beta(
        &two,
        &both,
        &[
            "Changed:",
            &opens("beta/one", "beta/two"),
            "  key beta/one: secrets 2 (ends: never, never) → 1 (ends: never)",
            "Wider:",
            "  key beta/two: new",
        ],
    );
}

/// Catalogs that differ in `beta` alone.
#[track_caller]
fn check_beta(before: &str, after: &str, expected: &[&str]) {
    let of = |beta: &str| format!("{}  beta:\n{beta}", BEFORE.split("  beta:").next().unwrap());
    let text = render_changes(&found(&of(before), &of(after)));
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

fn secret(number: usize, until: &str) -> String {
    let until = if until.is_empty() {
        String::new()
    } else {
        format!(", until: {until}")
    };
    format!("{{ hash: \"sha256:{number:064x}\"{until} }}")
}

fn hashes(list: &[String]) -> String {
    format!("    keys: {{ one: {{ hashes: [{}] }} }}\n", list.join(", "))
}

#[test]
fn what_did_not_work_breaks_for_nobody() {
    let dead = "    keys: { one: { hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000009\", expires: 2026-01-01 } }\n";
    check_beta(
        dead,
        "    keys: {}\n",
        &["Changed:", "  key beta/one: gone; it did not work any more"],
    );
    check_beta(
        &format!("    enabled: false\n{dead}"),
        dead,
        &["Wider:", "  caller beta: switched on"],
    );
    check_beta(
        dead,
        &format!("    enabled: false\n{dead}"),
        &["Changed:", "  caller beta: switched off: 1 key is refused"],
    );
    let off = "    enabled: false\n    keys: { one: { hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000009\" } }\n";
    let past = "expires never → 2026-01-01T00:00:00.000Z";
    let ended = off.replace("9\" }", "9\", expires: 2026-01-01 }");
    check_beta(
        off,
        &ended,
        &["Changed:", &format!("  key beta/one: {past}")],
    );
    check_beta(
        off,
        &format!("    expires: 2026-01-01\n{off}"),
        &["Changed:", &format!("  caller beta: {past}")],
    );
    let of = |beta: &str, far: bool| {
        let text = format!("{}  beta:\n{beta}", BEFORE.split("  beta:").next().unwrap());
        if far {
            text
        } else {
            text.replace("  far: { targets: [{ account: us, model: far-1 }] }\n", "")
        }
    };
    assert_eq!(
        render_changes(&found(&of(dead, true), &of(dead, false))),
        "Changed:\n  model far: gone\n"
    );
    // An old secret that has ended is tidied up.
    let rotated = hashes(&[secret(7, "2026-10-01"), secret(8, "")]);
    check_beta(
        &rotated,
        &hashes(&[secret(8, "")]),
        &[
            "Changed:",
            "  key beta/one: secrets 2 (ends: never, 2026-10-01T00:00:00.000Z) → 1 (ends: never)",
        ],
    );
}

#[test]
fn each_secret_has_its_own_end() {
    let before = hashes(&[secret(7, "2026-11-30"), secret(8, "")]);
    let ended = hashes(&[secret(7, "2026-10-30"), secret(8, "")]);
    let text = "  key beta/one: secrets 2 (ends: never, 2026-11-30T00:00:00.000Z) → 2 (ends: never, 2026-10-30T00:00:00.000Z)";
    check_beta(
        &before,
        &ended,
        &[
            BREAKS,
            "  key beta/one: a secret of it that works now is refused",
            text,
        ],
    );
    // Without the secrets at hand, the number of those that work tells it.
    let of = |beta: &str| {
        Inventory::from_catalog(&catalog(&format!(
            "{}  beta:\n{beta}",
            BEFORE.split("  beta:").next().unwrap()
        )))
    };
    let told = find_changes(&of(&before), &of(&ended), &ExtraFacts::default(), NOW);
    assert_eq!(
        (told.len(), told[0].effect),
        (1, Effect::Breaks),
        "{told:?}"
    );
    // The wrong one of two ends: no list shows it, but the marks do.
    let swapped = hashes(&[secret(7, ""), secret(8, "2026-11-30")]);
    check_beta(
        &before,
        &swapped,
        &[
            "Tighter:",
            "  key beta/one: a secret of it that works now ends sooner",
        ],
    );
    let marks = |beta: &str| {
        let catalog = catalog(&format!(
            "{}  beta:\n{beta}",
            BEFORE.split("  beta:").next().unwrap()
        ));
        Marks::from_catalog(&catalog, &Inventory::from_catalog(&catalog), true)
    };
    assert_ne!(marks(&before), marks(&swapped));
}

#[test]
fn a_name_that_is_still_answered_breaks_for_nobody() {
    let edit = |edits: &[(&str, &str)]| {
        edits.iter().fold(BEFORE.to_owned(), |text, (old, new)| {
            assert_eq!(text.matches(old).count(), 1, "{old}");
            text.replace(old, new)
        })
    };
    let far = "  far: { targets: [{ account: us, model: far-1 }] }\n";
    let pattern = format!("{far}  \"f*\": {{ targets: [{{ account: us, model: \"f*\" }}] }}\n");
    let (with, without) = (
        edit(&[(far, &pattern)]),
        edit(&[(far, &pattern.replace(far, ""))]),
    );
    let text = render_changes(&found(&with, &without));
    assert_eq!(
        text,
        "Changed:\n  model far: gone; a pattern may answer instead (caller beta; 1 key)\n"
    );
    let text = render_changes(&found(&without, &with));
    assert_eq!(
        text,
        "Changed:\n  model far: new; until now a pattern may have answered (caller beta; 1 key)\n"
    );
    // A new model takes a name over from a glob: who may not use the new one loses the name.
    let glob = edit(&[("aliases: [main]", "aliases: [main, \"fast-*\"]")]);
    let own = glob.replace(
        far,
        &format!("{far}  fast-1: {{ targets: [{{ account: us, model: far-1 }}] }}\n"),
    );
    let text = render_changes(&found(&glob, &own));
    assert!(
        text.starts_with(&format!(
            "{BREAKS}\n  key acme/one: may no longer use fast-1\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("  model fast-1: new; its name meant the model big until now"),
        "{text}"
    );
    // A glob of another model takes the name over; who may not use that model loses the name.
    let taken = edit(&[(far, ""), ("aliases: [main]", "aliases: [main, \"fa*\"]")]);
    let text = render_changes(&found(BEFORE, &taken));
    assert!(
        text.starts_with(
            "Changed:\n  model far: gone; its name means the model big then (caller beta; 1 key)\n"
        ),
        "{text}"
    );
}

#[test]
fn limits_and_addresses_are_tighter_or_wider() {
    check(
        &[(
            "requests_per_day: 5, concurrency: 10",
            "requests_per_day: 2, requests_per_minute: 60",
        )],
        &[
            "Tighter:",
            "  caller acme: requests_per_day 5 → 2",
            "  caller acme: requests_per_minute no limit → 60",
            "Wider:",
            "  caller acme: concurrency 10 → no limit",
        ],
    );
    check(
        &[(
            "03\" }",
            "03\", allow_ips: [10.0.0.0/8], model_limits: { far: { requests_per_day: 3 } } }",
        )],
        &[
            "Tighter:",
            "  key beta/one: for the model far: requests_per_day no limit → 3",
            "  key beta/one: may be used from 10.0.0.0/8 instead of everywhere",
        ],
    );
}

#[test]
fn accounts_targets_and_prices_are_told() {
    check(
        &[("https://eu.test/v1", "https://ch.test/v1")],
        &[
            "Changed:",
            "  account eu: address https://eu.test/v1 → https://ch.test/v1; 2 models go there",
        ],
    );
    check(
        &[
            ("sk-canary-eu-0123456789", "sk-canary-other-0123456789"),
            ("canary-team", "canary-other"),
        ],
        &[
            "Changed:",
            "  account eu: other secrets: credential",
            "  account us: other secrets: headers",
        ],
    );
    check(
        &[(
            "key: sk-canary-eu-0123456789",
            "key: sk-canary-eu-0123456789, concurrency: 3, timeouts: { idle: 7s }",
        )],
        &[
            "Tighter:",
            "  account eu: concurrency not set → 3, timeouts.idle 60s → 7s; 2 models go there (callers acme, beta; 3 keys)",
        ],
    );
    // Only the account `us` serves `far`. Conversations are translated into each other.
    check(
        &[(
            "headers: { X-Team",
            "serves: [responses], headers: { X-Team",
        )],
        &[
            "Tighter:",
            "  model far: no target serves completions, embeddings, image_edits, images, moderations, rerank, speech, transcriptions, translations any more (caller beta; 1 key)",
            "Changed:",
            "  account us: serves chat, completions, embeddings, rerank, moderations, images, image_edits, speech, transcriptions, translations → responses; 2 models go there",
        ],
    );
    check(
        &[(
            "headers: { X-Team",
            "serves: [embeddings], headers: { X-Team",
        )],
        &[
            BREAKS,
            "  model far: no target serves completions, conversations, image_edits, images, moderations, rerank, speech, transcriptions, translations any more (caller beta; 1 key)",
            "Changed:",
            "  account us: serves chat, completions, embeddings, rerank, moderations, images, image_edits, speech, transcriptions, translations → embeddings; 2 models go there",
        ],
    );
    check(
        &[(
            "{ account: us, model: big-1 }]",
            "{ account: us, model: big-1, weight: 3 }], strategy: weighted",
        )],
        &[
            "Changed:",
            "  model big: strategy priority → weighted, weight of us/big-1 1 → 3 (callers acme, beta; 2 keys)",
        ],
    );
    check(
        &[(
            "[{ account: eu, model: big-1 }, { account: us, model: big-1 }]",
            "[{ account: us, model: big-1 }, { account: eu, model: big-1 }]",
        )],
        &[
            "Changed:",
            "  model big: order us/big-1, eu/big-1 (callers acme, beta; 2 keys)",
        ],
    );
    check(
        &[(
            "[{ account: us, model: far-1 }]",
            "[{ account: eu, model: far-1 }, { account: us, model: far-1 }]",
        )],
        &[
            "Changed:",
            "  model far: target eu/far-1 added (tried first, price unknown) (caller beta; 1 key)",
        ],
    );
    check(
        &[(
            "price: { input: 1, output: 2 }",
            "price: { input: 1, output: 3 }",
        )],
        &[
            "Changed:",
            "  model small: price of eu/small-1: output 2 → 3, thinking 2 → 3 (callers acme, beta; 3 keys)",
        ],
    );
    check(
        &[(", price: { input: 1, output: 2 }", "")],
        &[
            "Tighter:",
            "  model small: price of eu/small-1 no longer known: requests of callers whose money is limited are not sent there \
             (callers acme, beta; 3 keys)",
        ],
    );
}

#[test]
fn what_only_one_side_has_is_told_once() {
    let with = |more: &str| {
        BEFORE.replace(
            "key: sk-canary-eu-0123456789",
            &format!("key: sk-canary-eu-0123456789{more}"),
        )
    };
    let check = |before: &str, after: &str, expected: &[&str]| {
        let text = render_changes(&found(&with(before), &with(after)));
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
    };
    let own = ", proxy: \"http://u:canary@p:1\"";
    check(
        own,
        "",
        &[
            "Changed:",
            "  account eu: proxy own → not set; 2 models go there",
        ],
    );
    check(
        ", proxy: none",
        own,
        &[
            "Changed:",
            "  account eu: proxy none → own; 2 models go there",
        ],
    );
    check(
        own,
        &own.replace("canary", "other"),
        &["Changed:", "  account eu: other secrets: proxy"],
    );
    // Of an account that is switched off, the proxy is not read.
    let off = format!("{own}, enabled: false");
    let text = render_changes(&found(&with(own), &with(&off)));
    assert!(
        text.contains("  account eu: switched off; 2 models go there\n") && !text.contains("proxy"),
        "{text}"
    );
    // That it has none is no secret, and read.
    let text = render_changes(&found(&with(", enabled: false"), &with(", proxy: none")));
    assert!(
        text.contains("  account eu: proxy not set → none; 2 models go there\n"),
        "{text}"
    );
}

/// What a model is for, as the catalog says it, refuses nothing: what else it could do is tighter.
#[test]
fn a_model_that_loses_what_it_is_for_breaks() {
    let before = BEFORE.replace("far: { targets:", "far: { kind: embedding, targets:");
    let serving = |kinds: &str| {
        let text = before.replace(
            "headers: { X-Team",
            &format!("serves: [{kinds}], headers: {{ X-Team"),
        );
        render_changes(&found(&before, &text))
    };
    let text = serving("chat");
    assert!(
        text.starts_with(&format!(
            "{BREAKS}\n  model far: no target serves completions, embeddings, image_edits, images, moderations, rerank, "
        )),
        "{text}"
    );
    let text = serving("embeddings");
    assert!(
        text.starts_with("Tighter:\n  model far: no target serves completions, conversations, "),
        "{text}"
    );
}

/// It is shown to callers, and refuses nothing.
#[test]
fn another_kind_of_a_model_breaks_for_nobody() {
    let with = |kind: &str| BEFORE.replace("far: { targets:", &format!("far: {{ {kind}targets:"));
    let told = |before: &str, after: &str| render_changes(&found(&with(before), &with(after)));
    assert_eq!(
        told("", "kind: embedding, "),
        "Changed:\n  model far: kind not set → embedding (caller beta; 1 key)\n"
    );
    let text = "Changed:\n  model far: kind chat → embedding (caller beta; 1 key)\n";
    assert_eq!(told("kind: chat, ", "kind: embedding, "), text);
}

#[test]
fn a_models_times_are_compared_as_they_count() {
    let of = |times: &str| format!("far: {{ {times}targets:");
    let with = |times: &str| BEFORE.replace("far: { targets:", &of(times));
    let check = |before: &str, after: &str, expected: &str| {
        assert_eq!(
            render_changes(&found(&with(before), &with(after))),
            format!("{expected} (caller beta; 1 key)\n")
        );
    };
    check(
        "",
        "timeouts: { connect: 3s }, ",
        "Tighter:\n  model far: us/far-1: timeouts.connect 5s → 3s",
    );
    // Then the account's own count.
    check(
        "timeouts: { idle: 90s }, ",
        "",
        "Tighter:\n  model far: us/far-1: timeouts.idle 90s → 60s",
    );
    check(
        "timeouts: { idle: 3s }, ",
        "",
        "Changed:\n  model far: us/far-1: timeouts.idle 3s → 60s",
    );
}

#[test]
fn settings_have_the_catalogs_names_and_words() {
    let words = "on_loss: refuse, on_broken_call: error, reasoning: hide, defaults: { max_tokens: 5 }, created: 2020-01-01";
    let all = BEFORE.replace(
        "far: { targets:",
        &format!("far: {{ {words}, fallbacks_on: {{ context: [big] }}, targets:"),
    );
    let text = render_changes(&found(BEFORE, &all));
    let expected = [
        "Tighter:",
        "  model far: on_broken_call pass → error, on_loss drop → refuse (caller beta; 1 key)",
        "Changed:",
        "  model far: created 2026-01-01T00:00:00.000Z → 2020-01-01T00:00:00.000Z, defaults.max_tokens not set → 5, \
         fallbacks_on.context not set → big, reasoning show → hide (caller beta; 1 key)",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

/// A written name means its model, also where that model is not served, and never a glob's.
#[test]
fn a_name_taken_over_unserved_breaks() {
    let glob = BEFORE.replace("aliases: [main]", "aliases: [main, \"fa?t*\"]");
    let off = glob.replace(
        "accounts:\n",
        "accounts:\n  off: { dialect: demo, enabled: false }\n",
    );
    let with = |model: &str| off.replace("callers:\n", &format!("  {model}\ncallers:\n"));
    let check = |model: &str, expected: &str| {
        let text = render_changes(&found(&off, &with(model)));
        assert!(
            text.starts_with(&format!(
                "{BREAKS}\n{expected} (callers acme, beta; 2 keys)\n"
            )),
            "{text}"
        );
    };
    let why =
        "new, but not served: account off is switched off; its name meant the model big until now";
    check(
        "fast: { targets: [{ account: off }] }",
        &format!("  model fast: {why}"),
    );
    let why = "a name of a model that is not served; it meant big";
    check(
        "new: { aliases: [fast], targets: [{ account: off }] }",
        &format!("  name fast: {why}"),
    );
}

#[test]
fn other_names_of_served_models_are_told() {
    let two = BEFORE
        .replace("  far: {", "  far: { aliases: [x],")
        .replace("aliases: [main]", "aliases: [main, \"f*\"]");
    let text = render_changes(&found(
        &two,
        &two.replace(
            "  far: { aliases: [x], targets: [{ account: us, model: far-1 }] }\n",
            "",
        ),
    ));
    assert!(
        text.starts_with(&format!(
            "{BREAKS}\n  name x: gone; it meant far (caller beta; 1 key)\n"
        )),
        "{text}"
    );
}

#[test]
fn fewer_and_more_models_of_a_pattern() {
    let pattern = "  \"p/*\": { targets: [{ account: us, model: \"*\" }] }\n";
    let with = |models: &str| {
        let before = BEFORE.replace("callers:\n", &format!("{pattern}callers:\n"));
        before.replace("  beta:\n", &format!("  beta:\n    models: [{models}]\n"))
    };
    let check = |before: &str, after: &str, expected: &str| {
        let text = render_changes(&found(&with(before), &with(after)));
        assert_eq!(text, format!("{expected}\n"), "{before} {after}");
    };
    check(
        "\"p/*\"",
        "\"p/a*\"",
        "Tighter:\n  caller beta: may use fewer models of p/*",
    );
    check(
        "\"p/a*\"",
        "\"p/*\"",
        "Wider:\n  caller beta: may use more models of p/*",
    );
    check(
        "p/a, \"p/b*\"",
        "p/a, \"p/c*\"",
        "Tighter:\n  caller beta: may perhaps use other models of p/*",
    );
    check(
        "\"p/?*\"",
        "\"p/*?\"",
        "Tighter:\n  caller beta: may perhaps use other models of p/*",
    );
    check(
        "\"p/a?\"",
        "\"p/a*\"",
        "Wider:\n  caller beta: may use more models of p/*",
    );
    check(
        "\"p/*\"",
        "nothing",
        &format!("{BREAKS}\n  caller beta: may no longer use p/*"),
    );
    check(
        "\"p/a*\", p/ab",
        "\"p/a*\"",
        "Changed:\n  caller beta: `models` is written otherwise, to the same effect",
    );
    // A limit for one of its models makes no model.
    let limited = with("\"p/*\"").replace(
        "03\" }",
        "03\", model_limits: { p/a: { concurrency: 1 } } }",
    );
    let text = render_changes(&found(&with("\"p/*\""), &limited));
    assert_eq!(
        text,
        "Tighter:\n  key beta/one: for the model p/a: concurrency no limit → 1\n"
    );
}

#[test]
fn sections_of_server_yaml_wait_for_a_restart() {
    let marks = |limits: &str| {
        [("limits".to_owned(), limits.to_owned())]
            .into_iter()
            .collect()
    };
    let (before, after) = (marks("a"), marks("b"));
    let besides = ExtraFacts {
        server: Some([&before, &after]),
        ..ExtraFacts::default()
    };
    let changes = find_changes(&Inventory::default(), &Inventory::default(), &besides, NOW);
    assert_eq!(changes[0].effect, Effect::Restart);
    assert_eq!(
        render_changes(&changes),
        "Only after a restart:\n  server.yaml limits: differs\n"
    );
}

#[test]
fn many_alike_are_one_line() {
    let keys = |range: std::ops::Range<usize>| -> String {
        range
            .map(|n| format!("      k{n:03}: {{ hash: \"sha256:{n:064x}\" }}\n"))
            .collect()
    };
    let (before, after) = (
        format!("{BEFORE}{}", keys(4..224)),
        format!("{BEFORE}{}", keys(4..5)),
    );
    let line = "  keys beta/k005, beta/k006, beta/k007, beta/k008, beta/k009 and 214 more: gone: requests with it are refused\n";
    assert_eq!(
        render_changes(&found(&before, &after)),
        format!("{BREAKS}\n{line}")
    );
}

#[test]
fn equal_files_make_equal_bytes_without_secrets() {
    let (one, other) = (catalog(BEFORE), catalog(BEFORE));
    let text =
        |catalog: &Catalog| serde_json::to_string(&Inventory::from_catalog(catalog)).unwrap();
    assert_eq!(text(&one), text(&other));
    assert!(
        !text(&one).contains("canary") && !text(&one).contains("ca00000"),
        "{}",
        text(&one)
    );
    let marks = |text: &str| {
        let catalog = catalog(text);
        Marks::from_catalog(&catalog, &Inventory::from_catalog(&catalog), true)
    };
    let before = marks(BEFORE);
    assert_eq!(
        before,
        marks(&BEFORE.replace("accounts:\n", "# A comment.\naccounts:\n"))
    );
    for (old, new) in [
        ("canary-eu", "canary-ue"),
        ("canary-team", "canary-meat"),
        ("000000003", "000000007"),
    ] {
        let after = marks(&BEFORE.replace(old, new));
        assert!(
            after.hash != before.hash && after.secrets != before.secrets,
            "{old}"
        );
    }
    let after = marks(&BEFORE.replace("concurrency: 10", "concurrency: 11"));
    assert!(after.hash != before.hash && after.secrets == before.secrets);
}

#[test]
fn ranges_of_addresses_are_compared_and_not_their_texts() {
    let of = |list: &str| {
        format!(
            "    keys: {{ one: {{ hash: \"sha256:{:064x}\", allow_ips: [{list}] }} }}\n",
            9
        )
    };
    let check = |before: &str, after: &str, head: &str| {
        let text = |beta: &str| {
            format!(
                "{}  beta:\n{}",
                BEFORE.split("  beta:").next().unwrap(),
                of(beta)
            )
        };
        let said = render_changes(&found(&text(before), &text(after)));
        assert!(said.starts_with(head), "{before} {after}: {said}");
    };
    check("10.0.0.0/8", "0.0.0.0/0", "Wider:");
    check("10.0.0.0/8", "10.0.0.0/8, 192.0.2.7", "Wider:");
    check("10.0.0.0/8, 192.0.2.7", "10.0.0.0/8", "Tighter:");
    check("10.0.0.0/8", "10.0.0.0/9", "Tighter:");
    let of_ipv6 = "'::ffff:10.0.0.0/90'";
    check(of_ipv6, "10.0.0.0/8", "Tighter:");
    check(of_ipv6, &format!("{of_ipv6}, 192.0.2.7"), "Wider:");
}

#[test]
fn nothing_that_another_machine_says_moves_the_cursor() {
    let evil = "a\u{1b}[2J\n  caller x: gone\u{202e}\u{9b}1m";
    let item = crate::inventory::CallerItem {
        enabled: true,
        ..Default::default()
    };
    let of = |name: &str| Inventory {
        callers: [(name.to_owned(), item.clone())].into(),
        ..Inventory::default()
    };
    let text = render_changes(&find_changes(
        &of(evil),
        &Inventory::default(),
        &ExtraFacts::default(),
        NOW,
    ));
    assert_eq!(text.lines().count(), 2, "{text:?}");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{text:?}");
    let long = render_changes(&find_changes(
        &of(&"x".repeat(1 << 20)),
        &Inventory::default(),
        &ExtraFacts::default(),
        NOW,
    ));
    assert!(long.len() < 2_000, "{}", long.len());
}

#[test]
fn each_trait_of_a_model_is_compared() {
    for (name, value) in [
        ("structured_with_tools", "false"),
        ("forced_while_thinking", "false"),
        ("tools", "false"),
    ] {
        let with = BEFORE.replace(
            "model: far-1 }",
            &format!("model: far-1, traits: {{ {name}: {value} }} }}"),
        );
        let text = render_changes(&found(BEFORE, &with));
        assert!(text.contains(&format!("traits.{name} ")), "{name}: {text}");
    }
}

#[test]
fn money_is_written_as_in_the_catalog() {
    let limits = |money: f64| Amounts::from([("usd_per_day".to_owned(), serde_json::json!(money))]);
    let expected = [(Effect::Tightens, "usd_per_day 10 → 0.5".to_owned())];
    assert_eq!(compare_amounts(&limits(10.0), &limits(0.5)), expected);
}
