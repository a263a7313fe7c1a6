use super::*;
use std::net::SocketAddr;

fn catalog(text: &str) -> Catalog {
    resolve::resolve_catalog(&[("catalog.yaml".to_owned(), text.to_owned())], &mut |_| {
        Ok("secret".to_owned())
    })
    .unwrap_or_else(|problems| panic!("{problems}"))
}

fn with(accounts: &[&str], models: &[&str], callers: &[&str]) -> Catalog {
    let list = |names: &[&str], entry: &str| {
        names
            .iter()
            .map(|name| format!("{name}: {entry}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let account = accounts.first().copied().unwrap_or("none");
    catalog(&format!(
        "accounts: {{{}}}\nmodels: {{{}}}\ncallers: {{{}}}\n",
        list(accounts, "{dialect: demo}"),
        list(models, &format!("{{targets: [{{account: {account}}}]}}")),
        list(callers, "{}")
    ))
}

#[test]
fn a_catalog_says_how_much_is_in_it() {
    let text = "accounts: { a: { dialect: demo } }\nmodels: { m: { targets: [{ account: a }] } }\ncallers: {}\n";
    assert_eq!(
        catalog(text).size(),
        "1 account, 1 model, 0 callers, 0 keys"
    );
    let hash = |digit: &str| format!("{{ hash: \"sha256:{}\" }}", digit.repeat(64));
    let keys = format!(
        "one: {}, two: {{ hashes: [{}, {}] }}",
        hash("1"),
        hash("2"),
        hash("3")
    );
    let text = text.replace(
        "callers: {}",
        &format!("callers: {{ c: {{ keys: {{ {keys} }} }} }}"),
    );
    assert_eq!(
        catalog(&text).size(),
        "1 account, 1 model, 1 caller, 2 keys with 3 secrets"
    );
}

#[test]
fn f12_what_takes_away_more_than_half() {
    let old = with(&["a", "b"], &["m", "n", "o"], &["x", "y", "z", "w"]);
    for (new, expected) in [
        (
            with(&["a", "b"], &["m", "n", "o"], &["x", "y", "z", "w"]),
            None,
        ),
        (
            with(
                &["a", "b", "c"],
                &["m", "n", "o", "p"],
                &["x", "y", "z", "w", "v"],
            ),
            None,
        ),
        (with(&["a"], &["m", "n"], &["x", "y"]), None),
        (
            with(&["a"], &["m"], &["x", "y"]),
            Some("removes 2 of 3 models"),
        ),
        // As many as before, but others.
        (
            with(&["c", "d"], &["m", "n"], &["x", "y"]),
            Some("removes 2 of 2 accounts"),
        ),
        (
            with(&[], &[], &[]),
            Some("removes 2 of 2 accounts, 3 of 3 models, 4 of 4 callers"),
        ),
    ] {
        assert_eq!(describe_losses(&old, &new).as_deref(), expected);
    }
    assert_eq!(describe_losses(&with(&[], &[], &[]), &old), None);
}

#[test]
fn the_published_key_on_a_public_listener() {
    let local: SocketAddr = "127.0.0.1:8080".parse().unwrap();
    let public: SocketAddr = "0.0.0.0:8080".parse().unwrap();
    let hash = raw::Digest(resolve::sha256_of(PUBLISHED_KEY));
    let catalog = |caller: &str, models: &str| {
        catalog(&format!(
            "accounts: {{demo: {{dialect: demo}}, real: {{dialect: openai, base_url: https://a.b}}, off: {{dialect: openai, enabled: false}}}}\nmodels: {{{models}}}\n\
             callers: {{demo: {{{caller} keys: {{k: {{hash: '{hash}'}}}}}}}}\n"
        ))
    };
    const DEMO: &str = "demo: {targets: [{account: demo}]}";
    const REAL: &str = "gpt: {targets: [{account: real}]}";
    for (caller, models, harmless) in [
        ("models: [demo],", DEMO.to_owned(), true),
        ("models: [demo],", format!("{DEMO}, {REAL}"), true),
        ("", DEMO.to_owned(), true),
        ("", format!("{DEMO}, {REAL}"), false),
        ("models: ['*'],", format!("{DEMO}, {REAL}"), false),
        ("enabled: false,", format!("{DEMO}, {REAL}"), true),
        (
            "",
            format!("{DEMO}, gpt: {{targets: [{{account: off}}]}}"),
            true,
        ),
        (
            "models: [demo],",
            "demo: {targets: [{account: real}]}".to_owned(),
            false,
        ),
        (
            "models: [demo],",
            format!("demo: {{targets: [{{account: demo}}], fallbacks: [gpt]}}, {REAL}"),
            true,
        ),
        (
            "models: [demo],",
            format!(
                "demo: {{targets: [{{account: demo}}], fallbacks_on: {{context: [gpt], refusal: [gpt]}}}}, {REAL}"
            ),
            true,
        ),
        (
            "",
            format!(
                "demo: {{targets: [{{account: demo}}], fallbacks_on: {{refusal: [gpt]}}}}, {REAL}"
            ),
            false,
        ),
        ("", "other: {targets: [{account: demo}]}".to_owned(), false),
        (
            "models: ['demo-*'],",
            format!("demo-slow: {{targets: [{{account: demo}}]}}, {REAL}"),
            true,
        ),
        (
            "models: ['demo-*'],",
            "demo-slow: {targets: [{account: real}]}".to_owned(),
            false,
        ),
    ] {
        let catalog = catalog(caller, &models);
        assert_eq!(
            published_key_problem(&catalog, &[local, "[::1]:1".parse().unwrap()]),
            None
        );
        for listener in [
            public,
            "[::]:80".parse().unwrap(),
            "10.0.0.1:80".parse().unwrap(),
        ] {
            assert_eq!(
                published_key_problem(&catalog, &[local, listener]).is_none(),
                harmless,
                "{caller} {models}"
            );
        }
    }
    assert_eq!(
        published_key_problem(&with(&["a"], &["m"], &["x"]), &[public]),
        None
    );
}

#[test]
fn what_ships_is_served_with_the_published_key() {
    let catalog = catalog(include_str!("../../conf/catalog.yaml"));
    assert_eq!(catalog.warnings, []);
    let key = catalog
        .opened(&resolve::sha256_of(PUBLISHED_KEY), SystemTime::UNIX_EPOCH)
        .map(|(key, _)| key)
        .unwrap();
    assert_eq!(&*key.id, "demo/published");
    assert!(key.permissions.allow("demo") && !key.permissions.allow("gpt-4o"));
    for id in [
        "demo",
        "demo-slow",
        "demo-429",
        "demo-broken",
        "demo-down",
        "claude-x",
        "gpt-x",
        "gemini-x",
    ] {
        assert!(
            catalog
                .visible(key, id)
                .is_some_and(|model| model.has_enabled_account() && model.is_demo()),
            "{id}"
        );
    }
    assert_eq!(
        published_key_problem(&catalog, &["0.0.0.0:80".parse().unwrap()]),
        None
    );
}

#[test]
fn globs_of_the_demo_need_listed_models() {
    let text = |targets: &str, models: &str| {
        let hash = raw::Digest(resolve::sha256_of("a key"));
        format!(
            "accounts: {{a: {{dialect: demo}}, b: {{dialect: openai, base_url: https://a.b}}}}\n\
             models: {{m: {{aliases: ['gpt-*', other], targets: [{targets}]}}, all: {{aliases: ['*'], catch_all: true, targets: [{{account: b}}]}}}}\n\
             callers: {{x: {{{models} keys: {{k: {{hash: '{hash}'}}}}}}}}\n"
        )
    };
    for (targets, models, seen) in [
        ("{account: a}", "", false),
        ("{account: a}", "models: ['*'],", false),
        ("{account: a}", "models: [m, all],", true),
        // A real account may answer too.
        ("{account: a}, {account: b}", "", true),
    ] {
        let catalog = catalog(&text(targets, models));
        let key = catalog
            .opened(&resolve::sha256_of("a key"), SystemTime::UNIX_EPOCH)
            .map(|(key, _)| key)
            .unwrap();
        let found = |id: &str| catalog.visible(key, id).map(|model| model.id.to_string());
        // Without it, the next glob counts.
        assert_eq!(
            found("gpt-5").as_deref(),
            Some(if seen { "m" } else { "all" }),
            "{targets} {models}"
        );
        assert_eq!(
            (found("m").as_deref(), found("other").as_deref()),
            (Some("m"), Some("m"))
        );
    }
}

#[test]
fn what_ships_as_a_comment_is_right_too() {
    // Two spaces, a hash and a space begin a line that is an example.
    let text = include_str!("../../conf/catalog.yaml");
    let examples: String = text
        .lines()
        .map(|line| {
            format!(
                "{}\n",
                line.strip_prefix("  # ")
                    .map_or(line.to_owned(), |line| format!("  {line}"))
            )
        })
        .collect();
    let catalog = catalog(&examples);
    assert_eq!(
        (
            catalog.accounts().len(),
            catalog.models().len(),
            catalog.callers().len()
        ),
        (5, 8, 2)
    );
    assert_eq!(catalog.warnings, []);
    assert_eq!(
        published_key_problem(&catalog, &["0.0.0.0:80".parse().unwrap()]),
        None
    );
}
