//! Callers and their keys.

use super::*;

#[test]
fn what_is_wrong_with_a_caller() {
    check_callers(
        "  acme: 5",
        &["5 callers.acme: must be a map of enabled, expires, models, limits, expose_cost, keys"],
    );
    check_callers(
        "  acme: {models: ['']}",
        &["5 callers.acme.models[0]: must be a glob"],
    );
    check_callers(
        "  acme: {models: m}",
        &["5 callers.acme.models: must be a list, not text"],
    );
    check_callers("  a/b: {}", &["5 callers.…: a name has 1 to 64"]);
    check_callers(
        "  acme: {keys: {a/b: {hash: 'x'}}}",
        &[
            "5 callers.acme.keys.….hash: must be `sha256:`",
            "5 callers.acme.keys.…: a name has 1 to 64",
        ],
    );
    check_callers(
        "  acme: {limits: {reserve: asked, requests_per_day: 9}}",
        &["5 callers.acme.limits.reserve: has no effect here"],
    );
    check_callers(
        "  acme: {keys: []}",
        &["5 callers.acme.keys: must be a map, not a list"],
    );
    check_callers(
        "  acme: {keys: {k: {}}}",
        &["5 callers.acme.keys.k.hash: is missing"],
    );
    check_callers(
        "  acme: {keys: {k: {hashes: []}}}",
        &["5 callers.acme.keys.k.hash: is missing"],
    );
    check_callers(
        "  acme: {keys: {k: {hashes: [{until: 2027-01-01}]}}}",
        &["5 callers.acme.keys.k.hashes[0].hash: is missing"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', hashes: [{{hash: '{B}'}}]}}}}}}"),
        &["5 callers.acme.keys.k.hashes: cannot be used together with `hash`"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', allow_ips: []}}}}}}"),
        &["5 callers.acme.keys.k.allow_ips: must list at least one"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hash: '{A}', allow_ips: [x]}}}}}}"),
        &["5 callers.acme.keys.k.allow_ips[0]: must be an IP address"],
    );
    check_callers(
        &format!(
            "  acme:\n    keys:\n      k: {{hash: '{A}'}}\n  other: {{keys: {{l: {{hash: '{A}'}}}}}}"
        ),
        &["8 callers.other.keys.l.hash: is also the hash of acme/k"],
    );
    check_callers(
        &format!("  acme: {{keys: {{k: {{hashes: [{{hash: '{A}'}}, {{hash: '{A}'}}]}}}}}}"),
        &["5 callers.acme.keys.k.hashes[1].hash: is also the hash of acme/k"],
    );
}

#[test]
fn s07_a_clear_text_key_is_refused_unseen() {
    for (text, expected) in [
        (
            "sk-canary-0123456789",
            "must be `sha256:` and 64 hex digits. Never write a key in clear text here",
        ),
        (
            "sha256:sk-canary",
            "must have exactly 64 hex digits after `sha256:`",
        ),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "must begin with `sha256:`",
        ),
        ("md5:canary", "must be `sha256:`"),
    ] {
        check_callers(
            &format!("  acme: {{keys: {{k: {{hash: '{text}'}}}}}}"),
            &[&format!("5 callers.acme.keys.k.hash: {expected}")],
        );
    }
    check_callers(
        "  acme: {keys: {k: {secret: sk-canary-1234}}}",
        &[
            "5 callers.acme.keys.k.secret: unknown field: write the key's hash, not the key",
            "5 callers.acme.keys.k.hash: is missing",
        ],
    );
    check_callers(
        "  acme: {keys: {k: sk-canary-1234}}",
        &["5 callers.acme.keys.k: must be a map of hash"],
    );
}

#[test]
fn secrets_ending_before_the_newest_are_replaced() {
    for (ends, expected) in [
        (&[Some(10)][..], &[false][..]),
        (&[Some(10), Some(20)], &[true, false]),
        (&[Some(20), Some(10), Some(20)], &[false, true, false]),
        (&[None, Some(20), Some(10)], &[false, true, true]),
        (&[None, None], &[false, false]),
    ] {
        let item = |(n, end): (usize, &Option<u64>)| {
            let until = end
                .map(|seconds| format!(", until: '1970-01-01T00:00:{seconds}Z'"))
                .unwrap_or_default();
            format!("{{hash: 'sha256:{}'{until}}}", format!("0{n}").repeat(32))
        };
        let hashes: Vec<String> = ends.iter().enumerate().map(item).collect();
        let catalog = read_one(&served(&format!(
            "  acme: {{keys: {{k: {{hashes: [{}]}}}}}}",
            hashes.join(", ")
        )));
        let replaced: Vec<bool> = (0..)
            .zip(ends)
            .map(|(n, _)| catalog.opened(&byte(n), at(0)).unwrap().1)
            .collect();
        assert_eq!(
            (&*replaced, catalog.rotating.len()),
            (expected, usize::from(expected.contains(&true))),
            "{ends:?}"
        );
    }
}

#[test]
fn keys_as_written_and_by_default() {
    let upper = A.to_ascii_uppercase().replace("SHA256", "sha256");
    let catalog = read_one(&served(&format!(
        "  acme:\n    expires: 1970-01-01T00:01:40Z\n    models: [m, x-*]\n    keys:\n      prod: {{hash: '{upper}', models: ['*'], expires: 1970-01-01T00:00:50Z, allow_ips: [10.0.0.0/8], \
         debug: true}}\n      plain: {{hash: '{B}'}}\n  off: {{enabled: false, keys: {{k: {{hash: 'sha256:{}'}}}}}}\n  \
         rotating: {{keys: {{k: {{hashes: [{{hash: 'sha256:{}', until: 1970-01-01T00:00:10Z}}, {{hash: 'sha256:{}'}}]}}}}}}\n  none: {{models: []}}",
        "cc".repeat(32),
        "dd".repeat(32),
        "ee".repeat(32),
    )));
    let prod = catalog
        .opened(&byte(0xaa), at(0))
        .map(|(key, _)| key)
        .unwrap();
    assert_eq!(
        (&*prod.id, &*prod.caller.id, prod.debug),
        ("acme/prod", "acme", true)
    );
    assert!(prod.allows("10.9.9.9".parse().unwrap()) && !prod.allows("11.0.0.1".parse().unwrap()));
    assert_eq!(
        catalog
            .opened(&byte(0xaa), at(49))
            .map(|(key, _)| key)
            .map(|key| &*key.id),
        Ok("acme/prod")
    );
    assert_eq!(
        catalog
            .opened(&byte(0xaa), at(50))
            .map(|(key, _)| key)
            .err(),
        Some(KeyRefused::Expired)
    );
    let plain = catalog
        .opened(&byte(0xbb), at(99))
        .map(|(key, _)| key)
        .unwrap();
    assert!(plain.allows("8.8.8.8".parse().unwrap()) && !plain.debug);
    assert_eq!(
        catalog
            .opened(&byte(0xbb), at(100))
            .map(|(key, _)| key)
            .err(),
        Some(KeyRefused::Expired)
    );
    assert_eq!(
        catalog.opened(&byte(0xcc), at(0)).map(|(key, _)| key).err(),
        Some(KeyRefused::Disabled)
    );
    assert_eq!(
        catalog
            .opened(&byte(0xdd), at(9))
            .map(|(key, _)| key)
            .map(|key| &*key.id),
        Ok("rotating/k")
    );
    assert_eq!(
        catalog
            .opened(&byte(0xdd), at(10))
            .map(|(key, _)| key)
            .err(),
        Some(KeyRefused::Expired)
    );
    let replaced = |digest: u8| {
        catalog
            .opened(&byte(digest), at(9))
            .map(|(_, replaced)| replaced)
    };
    assert_eq!(
        [0xbb, 0xdd, 0xee].map(replaced),
        [Ok(false), Ok(true), Ok(false)]
    );
    assert!(Arc::ptr_eq(
        catalog
            .opened(&byte(0xdd), at(9))
            .map(|(key, _)| key)
            .unwrap(),
        catalog
            .opened(&byte(0xee), at(1000))
            .map(|(key, _)| key)
            .unwrap()
    ));
    assert_eq!(
        catalog.opened(&byte(0xff), at(0)).map(|(key, _)| key).err(),
        Some(KeyRefused::Unknown)
    );
    assert_eq!(
        catalog
            .callers()
            .iter()
            .map(|caller| &*caller.id)
            .collect::<Vec<_>>(),
        ["acme", "none", "off", "rotating"]
    );
    assert_eq!(catalog.secret_count(), 5);
}

#[test]
fn equal_permissions_are_one_object() {
    let catalog = read_one(&served(&format!(
        "  a: {{models: [m, 'x*'], keys: {{k: {{hash: '{A}'}}, l: {{hash: '{B}', models: [m]}}}}}}\n  b: {{models: ['x*', m, m], keys: {{k: {{hash: 'sha256:{}'}}}}}}",
        "cc".repeat(32)
    )));
    let of = |hex: u8| {
        Arc::clone(
            &catalog
                .opened(&byte(hex), at(0))
                .map(|(key, _)| key)
                .unwrap()
                .permissions,
        )
    };
    assert!(Arc::ptr_eq(&of(0xaa), &of(0xcc)) && !Arc::ptr_eq(&of(0xaa), &of(0xbb)));
    assert_eq!(
        (of(0xaa).index, of(0xbb).index, permission_count(&catalog)),
        (0, 1, 2)
    );
    assert!(of(0xaa).allow("m") && of(0xaa).allow("x1") && !of(0xaa).allow("y"));
    assert!(of(0xbb).allow("m") && !of(0xbb).allow("x1"));
}

#[test]
fn globs_that_name_nothing_are_warned_of() {
    let catalog = read_one(&served(&format!(
        "  acme: {{models: [m, n, gone, 'y*'], keys: {{k: {{hash: '{A}', models: [nowhere]}}}}}}"
    )));
    let told: Vec<String> = catalog.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "catalog.yaml:5 callers.acme.models[1]: \"n\" is an alias, but a glob only matches ids: write \"m\"",
            "catalog.yaml:5 callers.acme.models[2]: there is no such model (column 25)",
            "catalog.yaml:5 callers.acme.keys.k.models[0]: there is no such model (column 139)",
        ]
    );
}

#[test]
fn every_caller_stands_twice() {
    use std::fmt::Write as _;
    let (mut text, mut more) = (
        "accounts: {}\nmodels: {}\ncallers:\n".to_owned(),
        "callers:\n".to_owned(),
    );
    for number in 0..2_000 {
        writeln!(
            text,
            "  c{number}: {{models: [], keys: {{a: {{hash: sha256:{number:064x}}}}}}}"
        )
        .unwrap();
        writeln!(
            more,
            "  c{number}: {{enabled: true, keys: {{a: {{hash: sha256:{:064x}}}}}}}",
            number + 2_000
        )
        .unwrap();
    }
    assert_eq!(read_one(&text).callers().len(), 2_000);
    let problems = read_all(&[&text, &more]).unwrap_err().0;
    assert_eq!(problems.len(), 101);
    assert_eq!(
        problems.last().unwrap().to_string(),
        "catalog.d/1.yaml: and 3900 more errors"
    );
}

#[test]
fn a_catalog_that_nobody_may_call_is_warned_of() {
    let warned = |text: &str| {
        read_one(text)
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let told = warned("accounts: {}\nmodels: {}\ncallers: {}\n");
    assert!(
        told.len() == 1
            && told[0].starts_with(
                "catalog.yaml:3 callers: there is no caller, so every request is refused: `portcullis key new"
            ),
        "{told:?}"
    );
    assert_eq!(
        warned("accounts: {}\nmodels: {}\ncallers: {acme: {}}\n"),
        [""; 0]
    );
    // Those of other files count.
    let catalog = read_all(&[
        "accounts: {}\nmodels: {}\ncallers: {}\n",
        "callers: {acme: {}}\n",
    ])
    .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(catalog.warnings, []);
}

#[test]
fn warnings_stand_beside_errors() {
    let problems = read_all(&[
        "accounts: {a: {dialect: openai, key: sk-canary-1}}\nmodels: {m: {}}\ncallers: {}\n",
    ])
    .unwrap_err();
    assert_eq!((problems.0.len(), problems.1.len()), (1, 2), "{problems:?}");
    let told = problems.with_warnings();
    let begins: Vec<&str> = told
        .lines()
        .map(|line| line.split(':').next().unwrap_or_default())
        .collect();
    assert_eq!(begins, ["warning", "warning", "catalog.yaml"], "{told}");
}
