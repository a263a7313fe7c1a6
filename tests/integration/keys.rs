//! Keys in daily life: the command line changes the catalog's files, and the running gateway
//! follows them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::problems::Clock;
use crate::support::canary::{KEY, hash};
use crate::support::client::{self, Response};
use crate::support::folder::Folder;
use crate::support::gateway::portcullis;
use crate::support::{Catalog, Gateway, Mock, PATIENCE, chat, eventually, run};

/// `portcullis key …` on a gateway's folder: what it printed, and what it said beside it.
#[track_caller]
fn key(gateway: &Gateway, arguments: &[&str]) -> (String, String) {
    let conf = gateway.conf.to_str().unwrap();
    let output = portcullis(&[&["key"], arguments, &["--conf", conf]].concat());
    let (out, err) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    (out, err)
}

/// The secret that a command prints: alone on its output.
#[track_caller]
fn secret(gateway: &Gateway, arguments: &[&str]) -> String {
    let (out, err) = key(gateway, arguments);
    let secret = out.strip_suffix('\n').unwrap();
    assert!(
        secret.starts_with("sk-")
            && secret
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-'),
        "{out:?}"
    );
    assert!(!err.contains(secret), "the secret is printed once");
    secret.to_owned()
}

async fn ask(gateway: &Gateway, secret: &str) -> Response {
    gateway.raw(client::post_as(secret, &chat("m"))).await
}

/// Waits until a request with this secret ends so.
async fn becomes(gateway: &Gateway, secret: &str, status: u16) {
    let start = Instant::now();
    loop {
        let now = ask(gateway, secret).await.status;
        let took = start.elapsed();
        if now == status {
            return;
        }
        assert!(took < PATIENCE, "still {now} after {took:?}, not {status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_key_lives_and_ends_without_a_restart() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        // The folder catalog.d comes with it, and is watched from then on.
        let first = secret(
            &gateway,
            &[
                "new",
                "--caller",
                "acme",
                "--name",
                "ci",
                "--model",
                "m",
                "--expires-in",
                "30d",
            ],
        );
        becomes(&gateway, &first, 200).await;
        let file = gateway.conf.join("catalog.d/keys-acme.yaml");
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(
            written.contains(&hash(&first)) && !written.contains(&first),
            "{written}"
        );

        key(&gateway, &["disable", "acme/ci"]);
        becomes(&gateway, &first, 401).await;
        key(&gateway, &["enable", "acme/ci"]);
        becomes(&gateway, &first, 200).await;

        let second = secret(&gateway, &["rotate", "acme/ci", "--overlap", "1h"]);
        becomes(&gateway, &second, 200).await;
        assert_eq!(
            ask(&gateway, &first).await.status,
            200,
            "the one before works on"
        );
        let third = secret(&gateway, &["rotate", "acme/ci", "--overlap", "0s"]);
        becomes(&gateway, &third, 200).await;
        assert_eq!(
            (
                ask(&gateway, &first).await.status,
                ask(&gateway, &second).await.status
            ),
            (401, 401)
        );

        key(&gateway, &["expire", "acme/ci", "--in", "0s"]);
        becomes(&gateway, &third, 401).await;
        key(&gateway, &["expire", "acme/ci", "--never"]);
        becomes(&gateway, &third, 200).await;
        assert_eq!(
            ask(&gateway, KEY).await.status,
            200,
            "the other key never noticed"
        );
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_catalog_refusals_total", &[]),
            0.0
        );
    });
}

#[test]
fn after_the_overlap_the_secret_before_opens_nothing() {
    run(async {
        let mock = Mock::start().await;
        let clock = Clock::new();
        let setup = clock.give(Gateway::with(Catalog::over(&mock)));
        let gateway = setup.start().await;
        // The key stands in catalog.yaml in flow style, and is changed there.
        let before = std::fs::read_to_string(gateway.conf.join("catalog.yaml")).unwrap();
        let new = secret(&gateway, &["rotate", "acme/prod", "--overlap", "10m"]);
        becomes(&gateway, &new, 200).await;
        assert_eq!(ask(&gateway, KEY).await.status, 200);
        clock.set(601);
        assert_eq!(
            (
                ask(&gateway, KEY).await.status,
                ask(&gateway, &new).await.status
            ),
            (401, 200)
        );
        let after = std::fs::read_to_string(gateway.conf.join("catalog.yaml")).unwrap();
        let (old, with) = (
            format!("hash: \"{}\"", hash(KEY)),
            format!("{{ hash: \"{}\" }}", hash(&new)),
        );
        let at = after.find("hashes: [").unwrap();
        assert!(
            after[at..].contains(&old) && after[at..].contains(&with),
            "{after}"
        );
        assert_eq!(before.find(&old), Some(at), "{after}");
    });
}

#[test]
fn old_secrets_in_use_and_last_uses_are_told() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).caller("idle", "sk-of-nobody-who-calls", "");
        let mut gateway = Gateway::start(catalog).await;
        assert_eq!(ask(&gateway, KEY).await.status, 200);
        let uses = |gateway: &Gateway| {
            gateway
                .metrics()
                .sum("portcullis_old_hash_uses_total", &[("key", "acme/prod")])
        };
        let status = gateway.status();
        assert_eq!(
            status["keys"].as_array().map(Vec::len),
            Some(1),
            "{:#}",
            status["keys"]
        );
        assert_eq!(
            (
                &status["keys"][0]["id"],
                &status["keys"][0]["old_hash_last_used"]
            ),
            (&"acme/prod".into(), &Value::Null)
        );
        assert!(
            !gateway
                .metrics()
                .0
                .contains("portcullis_old_hash_uses_total{"),
            "only keys that are being rotated have a series"
        );

        let new = secret(&gateway, &["rotate", "acme/prod"]);
        becomes(&gateway, &new, 200).await;
        assert_eq!(uses(&gateway), 0.0);
        for secret in [KEY, &new, KEY] {
            assert_eq!(ask(&gateway, secret).await.status, 200);
        }
        assert_eq!(uses(&gateway), 2.0);
        let told = gateway.status()["keys"][0].clone();
        let time = |field: &str| {
            told[field]
                .as_str()
                .unwrap_or_else(|| panic!("no {field}: {told}"))
                .to_owned()
        };
        assert!(time("last_used") >= time("old_hash_last_used"), "{told}");

        // The ledger keeps it when the gateway is gone.
        gateway.signal("TERM");
        gateway.exit(PATIENCE);
        let (out, err) = key(&gateway, &["list", "--json"]);
        assert_eq!(err, "", "the ledger tells");
        let list: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            list[0]["last_used"].as_str().map(|at| at[..16].to_owned()),
            Some(time("last_used")[..16].to_owned()),
            "{list:#}"
        );
        assert_eq!(
            (&list[1]["id"], &list[1]["last_used"]),
            (&"idle/prod".into(), &Value::Null)
        );
    });
}

#[test]
fn keys_are_listed_as_they_stand() {
    const CATALOG: &str = "accounts: { a: { dialect: demo }, off: { dialect: demo, enabled: false } }
models: { m: { targets: [{ account: a }] }, n: { targets: [{ account: a }] }, gone: { targets: [{ account: off }] } }
callers:
  acme:
    models: [m, gone]
    limits: { usd_per_day: 12.5 }
    keys:
      good: { hash: \"sha256:0101010101010101010101010101010101010101010101010101010101010101\", expires: 2090-01-01 }
      off: { hash: \"sha256:0202020202020202020202020202020202020202020202020202020202020202\", enabled: false }
      old: { hash: \"sha256:0303030303030303030303030303030303030303030303030303030303030303\", expires: 2001-01-01 }
      turning:
        hashes:
          - { hash: \"sha256:0404040404040404040404040404040404040404040404040404040404040404\", until: 2080-02-03 }
          - { hash: \"sha256:0505050505050505050505050505050505050505050505050505050505050505\" }
        limits: { requests_per_minute: 60, concurrency: 4 }
        model_limits: { m: { usd_per_month: 0.5 } }
        models: [m, n]
        allow_ips: [10.0.0.0/8]
  closed: { enabled: false, keys: { k: { hash: \"sha256:0606060606060606060606060606060606060606060606060606060606060606\" } } }
  ended: { expires: 2002-02-02, keys: { k: { hash: \"sha256:0707070707070707070707070707070707070707070707070707070707070707\" } } }
";
    let folder = Folder::new(&[
        ("server.yaml", "ledger: { path: /nowhere/ledger.sqlite }\n"),
        ("catalog.yaml", CATALOG),
    ]);
    let conf = folder.path().to_str().unwrap();
    let file = folder.path().join("catalog.yaml").display().to_string();
    let ran = folder.run(&["key", "list", "--json", "--conf", conf]);
    assert!(
        ran.status.success()
            && ran.stderr.lines().count() == 1
            && ran.stderr.contains("/nowhere/ledger.sqlite"),
        "{}",
        ran.stderr
    );
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    let told: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|key| {
            format!(
                "{} {} {} {}",
                key["id"], key["state"], key["expires"], key["line"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "\"acme/good\" \"ok\" \"2090-01-01T00:00:00Z\" 8",
            "\"acme/off\" \"disabled\" null 9",
            "\"acme/old\" \"expired\" \"2001-01-01T00:00:00Z\" 10",
            "\"acme/turning\" \"rotating\" null 11",
            "\"closed/k\" \"caller_disabled\" null 19",
            "\"ended/k\" \"caller_expired\" \"2002-02-02T00:00:00Z\" 20",
        ]
    );
    assert_eq!(
        (list[3]["rotating_until"].as_str(), list[3]["file"].as_str()),
        (Some("2080-02-03T00:00:00Z"), Some(&*file))
    );
    let ran = folder.run(&["key", "list", "--caller", "acme", "--conf", conf]);
    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows[0],
        ["KEY", "STATE", "EXPIRES", "MODELS", "LAST USED", "FILE"]
    );
    assert_eq!(
        rows[4],
        [
            "acme/turning",
            "rotating until 2080-02-03T00:00:00Z",
            "-",
            "m, n",
            "-",
            &format!("{file}:11")
        ]
    );
    assert_eq!(rows.len(), 5);

    let ran = folder.run(&["key", "show", "acme/turning", "--conf", conf]);
    for line in [
        "key:        acme/turning",
        "state:      rotating until 2080-02-03T00:00:00Z",
        "hash:       sha256:04040404…, until 2080-02-03T00:00:00Z",
        "hash:       sha256:05050505…",
        "models:     [m, n], within its caller's [gone, m]: the key may use 1 of 3 models",
        "limits:     of its own: requests_per_minute 60, concurrency 4",
        "limits:     of acme: usd_per_day 12.5",
        "limits:     of its own, on m: usd_per_month 0.5",
        "allow_ips:  10.0.0.0/8",
    ] {
        assert!(
            ran.stdout.lines().any(|told| told == line),
            "no {line:?} in\n{}",
            ran.stdout
        );
    }
    // For machines: what the list tells of it, and the rest.
    let ran = folder.run(&["key", "show", "acme/turning", "--json", "--conf", conf]);
    let mut told: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}{}", ran.stdout, ran.stderr));
    let mut rest = serde_json::Map::new();
    for name in ["hashes", "sees", "limits", "allow_ips", "debug"] {
        rest.insert(
            name.to_owned(),
            told.as_object_mut()
                .unwrap()
                .remove(name)
                .unwrap_or_else(|| panic!("no {name}")),
        );
    }
    assert_eq!(told, list[3]);
    let expected = json!({
        "hashes": [{ "hash": "sha256:04040404…", "until": "2080-02-03T00:00:00Z" }, { "hash": "sha256:05050505…", "until": null }],
        "sees": ["m"],
        "limits": [
            { "level": "caller", "name": "acme", "limits": { "usd_per_day": 12.5 }, "reserve": "usual" },
            { "level": "key", "name": "acme/turning", "limits": { "requests_per_minute": 60, "concurrency": 4 } },
            { "level": "key_model", "name": "acme/turning m", "limits": { "usd_per_month": 0.5 }, "reserve": "usual" },
        ],
        "allow_ips": ["10.0.0.0/8"],
        "debug": false,
    });
    assert_eq!(Value::Object(rest), expected);
    let ran = folder.run(&["key", "show", "acme/turnin", "--conf", conf]);
    assert!(
        ran.stderr.contains("did you mean acme/turning?"),
        "{}",
        ran.stderr
    );
    let ran = folder.run(&["key", "list", "--caller", "acmee", "--conf", conf]);
    assert!(ran.stderr.contains("did you mean acme?"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_changed_surely_is_said_and_left() {
    const CATALOG: &str = "accounts: {}\nmodels: {}\ncallers:\n  acme:\n    keys:\n      a: &a { hash: \"sha256:0101010101010101010101010101010101010101010101010101010101010101\" }\n";
    const KEYS: &str = "# ours\r\ncallers:\r\n  acme: # theirs\r\n    keys:\r\n      b:\r\n        hash: sha256:0202020202020202020202020202020202020202020202020202020202020202 # sk-b-…\r\n        # enabled: false\r\n";
    let folder = Folder::new(&[
        ("catalog.yaml", CATALOG),
        ("catalog.d/keys-acme.yaml", KEYS),
    ]);
    let conf = folder.path().to_str().unwrap();
    let key = |arguments: &[&str]| folder.run(&[&["key"], arguments, &["--conf", conf]].concat());
    let refused = |arguments: &[&str], says: &[&str]| {
        let ran = key(arguments);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {}", ran.stdout);
        assert!(
            ran.stdout.is_empty() && says.iter().all(|says| ran.stderr.contains(says)),
            "{arguments:?}: {}",
            ran.stderr
        );
    };
    refused(
        &["disable", "acme/a"],
        &[
            "catalog.yaml:6 callers.acme.keys.a",
            "anchor",
            "by hand: `enabled: false`",
        ],
    );
    refused(
        &["rotate", "acme/a"],
        &["catalog.yaml:6", "anchor", "by hand"],
    );
    refused(
        &["new", "--caller", "acne", "--name", "x"],
        &["there is no caller acne; did you mean acme?"],
    );
    refused(
        &["new", "--caller", "acme", "--name", "a"],
        &[
            "acme/a already exists",
            "catalog.yaml:6",
            "key rotate acme/a",
        ],
    );
    refused(
        &["disable", "acme/c"],
        &["there is no key acme/c; did you mean acme/"],
    );
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        (file("catalog.yaml"), file("catalog.d/keys-acme.yaml")),
        (CATALOG.to_owned(), KEYS.to_owned())
    );

    // What can be changed keeps all else, with its line ends.
    assert!(key(&["disable", "acme/b"]).status.success());
    assert_eq!(
        file("catalog.d/keys-acme.yaml"),
        KEYS.replace("sk-b-…\r\n", "sk-b-…\r\n        enabled: false\r\n")
    );
    let again = key(&["disable", "acme/b"]);
    assert!(
        again.status.success() && again.stdout.contains("already"),
        "{}",
        again.stdout
    );
    let made = key(&[
        "new",
        "--caller",
        "acme",
        "--name",
        "c",
        "--expires",
        "2090-01-01",
        "--model",
        "*",
    ]);
    assert!(made.status.success(), "{}", made.stderr);
    let written = file("catalog.d/keys-acme.yaml");
    let added = written
        .strip_prefix(&KEYS.replace("sk-b-…\r\n", "sk-b-…\r\n        enabled: false\r\n"))
        .unwrap();
    let hash = hash(made.stdout.trim());
    let note = made.stdout.rsplit_once('-').unwrap().0;
    assert_eq!(
        added,
        format!(
            "      c:\r\n        hash: {hash} # {note}-…\r\n        models: [\"*\"]\r\n        expires: 2090-01-01T00:00:00Z\r\n"
        )
    );

    // A catalog that is wrong already is not made worse.
    folder.write("catalog.d/x.yaml", "models: { m: { targets: [] } }\n");
    refused(
        &["enable", "acme/b"],
        &["catalog.d/x.yaml:1 models.m.targets"],
    );
}

#[test]
fn a_hundred_thousand_keys_are_no_burden() {
    // Unoptimised, a command takes 0.13 ms of processor time for each key, and it must end in time
    // beside seven other tests.
    const KEYS: usize = if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    let mut text = "callers:\n  acme:\n    keys:\n".to_owned();
    for number in 0..KEYS {
        writeln!(
            text,
            "      k{number}:\n        hash: sha256:{number:064x} # sk-{number}-…"
        )
        .unwrap();
    }
    let folder = Folder::new(&[
        ("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n"),
        ("catalog.d/keys-acme.yaml", &text),
    ]);
    let conf = folder.path().to_str().unwrap();
    for arguments in [
        &["new", "--caller", "acme", "--name", "new"][..],
        &["list"],
        &["disable", "acme/k4000"],
        &["rotate", "acme/k4000"],
    ] {
        // It ends within the time that a test waits for a process.
        let ran = folder.run(&[&["key"], arguments, &["--conf", conf]].concat());
        assert!(ran.status.success(), "{}", ran.stderr);
    }
    let text = std::fs::read_to_string(folder.path().join("catalog.d/keys-acme.yaml")).unwrap();
    assert_eq!(
        (
            text.matches("hash: ").count(),
            text.matches("enabled: false").count()
        ),
        (KEYS + 2, 1)
    );
}

#[test]
fn a_keys_last_use_outlives_a_killed_gateway() {
    run(async {
        let mock = Mock::start().await;
        let mut gateway =
            Gateway::start(Catalog::over(&mock).caller("idle", "sk-of-nobody-who-calls", "")).await;
        assert_eq!(ask(&gateway, KEY).await.status, 200);
        let written = || {
            (gateway.status()["ledger"]["rows"] == 1 && gateway.status()["ledger"]["waiting"] == 0)
                .then_some(())
        };
        eventually("the row is written", written).await;
        let before = gateway.status()["keys"].clone();
        assert_eq!(
            (before.as_array().map(Vec::len), &before[0]["id"]),
            (Some(1), &"acme/prod".into()),
            "{before:#}"
        );

        gateway.crash_and_restart();
        // Nobody has asked anything since.
        let after = gateway.status()["keys"].clone();
        assert_eq!(after.as_array().map(Vec::len), Some(1), "{after:#}");
        let time = |keys: &Value| {
            keys[0]["last_used"]
                .as_str()
                .unwrap_or_else(|| panic!("no time: {keys}"))[..19]
                .to_owned()
        };
        assert_eq!(
            (&after[0]["id"], time(&after)),
            (&before[0]["id"], time(&before))
        );
        let (out, _) = key(&gateway, &["list", "--json"]);
        let list: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (time(&list), &list[1]["last_used"]),
            (time(&before), &Value::Null),
            "{list:#}"
        );
    });
}
