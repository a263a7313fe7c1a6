use std::time::{Duration, SystemTime};

use super::*;
use crate::catalog::{KeyRefused, Strategy};
use crate::conf::secret_ref::Reference;

mod accounts;
mod callers;
mod identities;
mod limits;
mod models;
mod prices;
mod routing;

const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// The key of RFC 8037.
const KEY_SET: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// An outside world in which these things are found.
fn look_up(reference: Reference<'_>) -> Result<String, String> {
    match reference {
        Reference::Env("KEY") => Ok("sk-canary-env".to_owned()),
        Reference::Env("EMPTY") => Ok(String::new()),
        Reference::Env("TEMPLATE") => Ok("${OTHER_KEY}".to_owned()),
        Reference::Env("QUOTED") => Ok("\"sk-canary\"".to_owned()),
        Reference::Env(_) | Reference::Optional(_) => {
            Err("the environment variable is not set".to_owned())
        }
        Reference::File("/key") => Ok("sk-canary-file\r\n".to_owned()),
        Reference::File("/two-lines") => Ok("sk-canary\nsk-canary\n".to_owned()),
        Reference::File("/two-ends") => Ok("sk-canary\n\n".to_owned()),
        Reference::File("/space") => Ok("sk-canary \n".to_owned()),
        Reference::File("/umlaut") => Ok("sk-cänary\n".to_owned()),
        Reference::File("/nul") => Ok("sk-canary\0".to_owned()),
        Reference::Ca("/ca") => Ok("-----BEGIN CERTIFICATE-----\n".to_owned()),
        Reference::Ca("/other") => Ok("-----BEGIN CANARY-----\n".to_owned()),
        Reference::Keys("/keys") => Ok(KEY_SET.to_owned()),
        Reference::File(path) | Reference::Ca(path) | Reference::Keys(path) => {
            Err(format!("there is no file {path}"))
        }
    }
}

/// Files as `catalog.yaml`, `catalog.d/1.yaml`, …
fn files(texts: &[&str]) -> Vec<(String, String)> {
    let name = |index: usize| {
        if index == 0 {
            "catalog.yaml".to_owned()
        } else {
            format!("catalog.d/{index}.yaml")
        }
    };
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| (name(index), (*text).to_owned()))
        .collect()
}

fn read_all(texts: &[&str]) -> Result<Catalog, Problems> {
    resolve_catalog(&files(texts), &mut look_up)
}

#[track_caller]
fn read_one(text: &str) -> Catalog {
    read_all(&[text]).unwrap_or_else(|problems| panic!("{text}:\n{problems}"))
}

/// The errors of several files, each by how it begins.
#[track_caller]
fn check_all(texts: &[&str], expected: &[&str]) {
    let told: Vec<String> = match read_all(texts) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    };
    assert!(!told.concat().contains("canary"), "{told:#?}");
    let right = told.len() == expected.len()
        && told
            .iter()
            .zip(expected)
            .all(|(told, expected)| told.starts_with(expected));
    assert!(right, "{texts:?}\ntold: {told:#?}\nexpected: {expected:#?}");
}

/// The errors of one account, named `a`, beginning in line 2.
#[track_caller]
fn check_account(account: &str, expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|expected| format!("catalog.yaml:2 accounts.a{expected}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(
        &[&format!(
            "accounts:\n  a: {account}\nmodels: {{}}\ncallers: {{}}\n"
        )],
        &expected,
    );
}

/// The errors of models, beginning in line 4, beside the accounts `openai` and `off`.
#[track_caller]
fn check_models(models: &str, expected: &[&str]) {
    let text = format!(
        "accounts:\n  openai: {{dialect: demo}}\n  off: {{dialect: demo, enabled: false}}\nmodels:\n{models}\ncallers: {{}}\n"
    );
    let expected: Vec<String> = expected
        .iter()
        .map(|expected| format!("catalog.yaml:{expected}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&text], &expected);
}

/// The errors of callers, beginning in line 5, beside the model `m` with the alias `n`.
#[track_caller]
fn check_callers(callers: &str, expected: &[&str]) {
    let text = served(callers);
    let expected: Vec<String> = expected
        .iter()
        .map(|expected| format!("catalog.yaml:{expected}"))
        .collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_all(&[&text], &expected);
}

fn served(callers: &str) -> String {
    format!(
        "accounts: {{a: {{dialect: demo}}}}\nmodels:\n  m: {{aliases: [n], targets: [{{account: a}}]}}\ncallers:\n{callers}\n"
    )
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn byte(hex: u8) -> [u8; 32] {
    [hex; 32]
}

/// How many distinct permissions there are.
fn permission_count(catalog: &Catalog) -> usize {
    catalog
        .keys()
        .map(|key| key.permissions.index)
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

#[test]
fn f01_what_is_no_catalog() {
    check_all(&[""], &["catalog.yaml:1: is empty"]);
    check_all(&["# nothing\n"], &["catalog.yaml:1: is empty"]);
    check_all(
        &["\u{feff}accounts: {}"],
        &["catalog.yaml:1: begins with a byte-order mark"],
    );
    check_all(
        &["[]"],
        &["catalog.yaml:1: must be a map of accounts, models, callers, identities, not a list"],
    );
    check_all(
        &["accounts: {}\nmodels: {\n"],
        &["catalog.yaml:2: is not YAML"],
    );
    check_all(
        &["{}"],
        &[
            "catalog.yaml accounts: is missing: write it, as `{}` if it is empty",
            "catalog.yaml models: is missing",
            "catalog.yaml callers: is missing",
        ],
    );
    check_all(
        &["accounts: {}\nmodels: {}\n"],
        &["catalog.yaml callers: is missing"],
    );
    check_all(
        &["accounts:\nmodels: {}\ncallers: {}"],
        &["catalog.yaml:1 accounts: has no value"],
    );
    check_all(
        &["accounts: {}\nmodels: []\ncallers: {}"],
        &["catalog.yaml:2 models: must be a map, not a list"],
    );
    check_all(
        &["accounts: {}\nmodel: {}\ncallers: {}"],
        &[
            "catalog.yaml:2 model: unknown field; did you mean `models`? Allowed: accounts, models, callers",
        ],
    );
    check_all(
        &["accounts: {}\nmodels: {}\ncallers: {}\nmodels: {}"],
        &["catalog.yaml:4 models: is written twice, first in line 2"],
    );
    assert!(
        read_one("accounts: {}\r\nmodels: {}\r\ncallers: {}\r\n")
            .models()
            .is_empty()
    );
}

#[test]
fn the_example_of_the_design_in_its_words() {
    check_all(
        &[
            "accounts:\n  claude: {dialect: demo}\nmodels:\n  fast:\n    targets:\n      - {account: claude}\n      - account: claud\ncallers: {}\n",
        ],
        &[
            "catalog.yaml:7 models.fast.targets[1].account: no account \"claud\"; did you mean \"claude\"?",
        ],
    );
}

#[test]
fn all_errors_of_all_files_at_once() {
    check_all(
        &[
            "accounts:\n  a: {dialect: opneai, enabled: yes}\n  b: {dialect: demo, concurrency: 0, weights: 1}\nmodels:\n  m:\n    targets: [{account: a}, {account: c}]\n    strategy: \
             random\n    fallbacks: [x]\n  n: {}\ncallers: {}\n",
            "callers:\n  acme:\n    limit: {}\n    expires: soon\n    keys:\n      k:\n        hash: sk-canary-0123456789\n      l: {}\n",
            "models:\n  m: {targets: [{account: b}]}\n  o: {targets: [{account: b, weight: 0}]}\n",
        ],
        &[
            "catalog.yaml:2 accounts.a.dialect: \"opneai\" is not known; did you mean `openai`? Allowed: openai, azure",
            "catalog.yaml:2 accounts.a.enabled: must be true or false, not \"yes\"",
            "catalog.yaml:3 accounts.b.…: unknown field; allowed: dialect, preset, quirks, base_url",
            "catalog.yaml:3 accounts.b.concurrency: must be at least 1",
            "catalog.yaml:6 models.m.targets[1].account: no such account; allowed: a, b (column 39)",
            "catalog.yaml:7 models.m.strategy: is not known; allowed: priority, weighted, least_busy, fastest (column 15)",
            "catalog.yaml:8 models.m.fallbacks[0]: no such model; allowed: m, n, o (column 17)",
            "catalog.yaml:9 models.n.targets: must list at least one target",
            "catalog.d/1.yaml:3 callers.acme.limit: unknown field; did you mean `limits`?",
            "catalog.d/1.yaml:4 callers.acme.expires: must be a time",
            "catalog.d/1.yaml:7 callers.acme.keys.k.hash: must be `sha256:` and 64 hex digits. Never write a key in \
             clear text here",
            "catalog.d/1.yaml:8 callers.acme.keys.l.hash: is missing: `portcullis key new --print`",
            "catalog.d/2.yaml:2 models.m: is also in catalog.yaml:5: keep only one of the two",
            "catalog.d/2.yaml:3 models.o.targets[0].weight: must be at least 1",
        ],
    );
}

#[test]
fn a_file_without_yaml_makes_no_other_errors() {
    check_all(
        &[
            "accounts: {}\nmodels: {m: {targets: [{account: a}], colour: 1}}\ncallers: {}\n",
            "accounts:\n  a: {dialect: demo\n",
        ],
        &[
            "catalog.yaml:2 models.m.…: unknown field",
            "catalog.d/1.yaml:2: is not YAML",
        ],
    );
}

#[test]
fn a_field_of_later_days_is_unknown() {
    for (text, path) in [
        (
            "accounts: {a: {dialect: demo, weights: {}}}\nmodels: {}\ncallers: {}",
            "accounts.a.…: unknown field",
        ),
        (
            "accounts: {}\nmodels: {m: {colours: {}}}\ncallers: {}",
            "models.m.…: unknown field; allowed: aliases, catch_all, strategy, sticky",
        ),
    ] {
        let problems = read_all(&[text]).expect_err(text).to_string();
        assert!(problems.contains(path), "{problems}");
    }
    check_account(
        "{dialect: smtp}",
        &[".dialect: is not known; allowed: openai, azure"],
    );
}

#[test]
fn files_are_merged() {
    let main = served("  acme: {models: [m]}");
    let catalog = read_all(&[
        &main,
        &format!("callers:\n  acme: {{keys: {{a: {{hash: '{A}'}}}}}}\n  new: {{}}\n"),
        &format!(
            "callers:\n  acme:\n    keys:\n      b: {{hash: '{B}'}}\nmodels:\n  other: {{targets: [{{account: a}}, {{account: z}}]}}\n"
        ),
        "accounts: {z: {dialect: demo}}\n",
        "{}",
    ])
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(catalog.callers().len(), 2);
    for hex in [0xaa, 0xbb] {
        let key = catalog
            .opened(&byte(hex), at(0))
            .map(|(key, _)| key)
            .unwrap();
        assert!(key.permissions.allow("m") && !key.permissions.allow("other"));
        assert!(Arc::ptr_eq(&key.caller, &catalog.callers()[0]));
    }
    assert_eq!(catalog.models().len(), 2);
    assert_eq!(
        (catalog.accounts().len(), catalog.accounts()[1].index),
        (2, 1)
    );

    check_all(
        &[
            &main,
            &format!(
                "callers:\n  acme:\n    enabled: false\n    keys:\n      k: {{hash: '{A}'}}\n"
            ),
            &format!(
                "callers:\n  acme:\n    keys:\n      k: {{hash: '{B}'}}\naccounts:\n  a: {{dialect: demo}}\n"
            ),
            "",
        ],
        &["catalog.d/3.yaml:1: is empty"],
    );
    check_all(
        &[
            &main,
            &format!(
                "callers:\n  acme:\n    enabled: false\n    keys:\n      k: {{hash: '{A}'}}\n"
            ),
            &format!(
                "callers:\n  acme:\n    keys:\n      k: {{hash: '{B}'}}\naccounts:\n  a: {{dialect: demo}}\n"
            ),
        ],
        &[
            "catalog.d/1.yaml:2 callers.acme: is also described in catalog.yaml:5: only the `keys` of a caller may \
             be spread over several files",
            "catalog.d/2.yaml:4 callers.acme.keys.k: is also in catalog.d/1.yaml:5: keep only one of the two",
            "catalog.d/2.yaml:6 accounts.a: is also in catalog.yaml:1: keep only one of the two",
        ],
    );
}

#[test]
fn the_hash_changes_with_text_and_secrets() {
    let text = "accounts: {a: {dialect: openai, key: {env: KEY}}}\nmodels: {}\ncallers: {}\n";
    let with = |secret: &'static str, text: &str| {
        resolve_catalog(&files(&[text]), &mut |_| Ok(secret.to_owned()))
            .map(|catalog| catalog.digest)
            .unwrap_or_default()
    };
    let hash = with("one", text);
    assert_ne!(hash, [0; 32]);
    assert_eq!(hash, with("one", text));
    assert_ne!(hash, with("two", text));
    assert_ne!(hash, with("one", &format!("{text}#")));
}

#[test]
fn errors_beyond_the_first_hundred_are_counted() {
    let many = (0..1_000).fold("accounts: {}\nmodels:\n".to_owned(), |text, i| {
        text + &format!("  m{i}: {{targets: [{{account: x}}]}}\n")
    }) + "callers: {}\n";
    let problems = read_all(&[&many]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(
        problems.last().unwrap().to_string(),
        "catalog.yaml: and 900 more errors"
    );
    let many = (0..1_000).fold("accounts: {}\nmodels:\n".to_owned(), |text, i| {
        text + &format!("  m{i}: {{target: x}}\n")
    }) + "callers: {}\n";
    let problems = read_all(&[&many]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(
        problems.last().unwrap().to_string(),
        "catalog.yaml: there are more errors: Portcullis stopped reading here"
    );
}

#[test]
fn f02_a_file_cut_short_loses_no_model() {
    let text = format!(
        "# A comment\naccounts:\n  a: {{dialect: demo}}\n  b:\n    dialect: openai\n    key: {{env: KEY}}\nmodels:\n  m:\n    targets:\n      - account: a\n      - {{account: b, weight: 2}}\n  \
         n:\n    targets: [{{account: b}}]\ncallers:\n  acme:\n    models: [m]\n    keys:\n      k:\n        hash: {A}\n        expires: 2027-01-01T00:00:00Z\n"
    );
    let whole = read_one(&text);
    for end in 0..text.len() {
        if let Ok(part) = read_all(&[&text[..end]]) {
            assert_eq!(
                (part.accounts().len(), part.models().len()),
                (whole.accounts().len(), whole.models().len()),
                "{}",
                &text[..end]
            );
            assert_eq!(part.models()[0].targets.len(), 2);
        }
    }
}

/// `cargo test --release -- --ignored --nocapture the_largest_catalog`
#[test]
#[ignore = "a figure, not a test"]
fn the_largest_catalog() {
    use std::fmt::Write as _;
    let mut text = "accounts:\n".to_owned();
    for i in 0..1_000 {
        writeln!(
            text,
            "  acc-{i}:\n    dialect: openai\n    base_url: https://api{i}.example.com/v1\n    key: {{ env: KEY }}"
        )
        .unwrap();
    }
    text.push_str("models:\n");
    for i in 0..10_000 {
        let (a, b) = (i % 1_000, (i + 7) % 1_000);
        writeln!(
            text,
            "  model-{i}:\n    targets:\n      - {{ account: acc-{a}, model: m{i} }}\n      - {{ account: acc-{b}, weight: 3 }}"
        )
        .unwrap();
    }
    text.push_str("callers:\n");
    for caller in 0..1_000 {
        writeln!(
            text,
            "  caller-{caller}:\n    models: [\"model-*\"]\n    keys:"
        )
        .unwrap();
        for key in 0..100 {
            let number = caller * 100 + key;
            writeln!(
                text,
                "      key-{key}:\n        hash: sha256:{number:064x}\n        models: [\"model-1*\", \"model-{key}\"]"
            )
            .unwrap();
        }
    }
    let files = files(&[&text]);
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let catalog =
            resolve_catalog(&files, &mut look_up).unwrap_or_else(|problems| panic!("{problems}"));
        let read = start.elapsed();
        let start = std::time::Instant::now();
        let mut digest = [0; 32];
        for number in 0..100_000_u32 {
            digest[28..].copy_from_slice(&number.to_be_bytes());
            assert!(catalog.opened(&digest, at(0)).map(|(key, _)| key).is_ok());
        }
        println!(
            "{} bytes in {read:?}; look-up {:?} each; {catalog:?}",
            text.len(),
            start.elapsed() / 100_000
        );
    }
}
