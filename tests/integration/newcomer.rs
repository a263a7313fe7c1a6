//! The first day of an operator: from nothing to a key that works, with the messages on the way,
//! and with secrets that are written into the wrong place.

mod demo;
mod make_run;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::canary;
use crate::support::folder::{Folder, Ran};
use crate::support::gateway::BINARY;
use crate::support::{Catalog, Gateway, Mock, chat, eventually, root, run};

/// None of them looks like a secret to somebody who goes by prefixes.
const SECRETS: [&str; 4] = [
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEK1",
    "6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f",
    "Tr0ub4dor",
    "correcthorse",
];
const HASH: &str = "\"sha256:0101010101010101010101010101010101010101010101010101010101010101\"";

/// Fields of an account with a secret (`@`) in the wrong place.
const ACCOUNTS: &[&str] = &[
    "dialect: '@'",
    "dialect: { '@': x }",
    "preset: '@'",
    "dialect: openai, quirks: '@', key: k",
    "dialect: openai, base_url: '@', key: k",
    "dialect: openai, key: { file: '@' }",
    "dialect: openai, key: { env: '@' }",
    "dialect: openai, key: { vault: '@' }",
    "dialect: openai, key: { '@': x }",
    "dialect: openai, key: ['@']",
    "dialect: openai, key: k, enabled: @",
    "dialect: openai, key: k, concurrency: x@",
    "dialect: openai, key: k, '@': x",
    "dialect: openai, key: k, timeouts: { total: '@' }",
    "dialect: openai, key: k, timeouts: { '@': 5s }",
    "dialect: openai, key: k, tls: { ca: '@' }",
    "dialect: openai, key: k, tls: { '@': x }",
    "dialect: openai, key: k, headers: { '@ @': x }",
    "dialect: openai, key: k, headers: { X-A: b, 'x/@': 'c' }",
    "dialect: openai, key: k, headers: ['@']",
    "dialect: azure, base_url: 'https://a.example', key: k, api_version: '/@'",
    "dialect: azure, base_url: 'https://a.example', key: k, auth: '@'",
    "dialect: vertex, key: k, project: '/@'",
    "dialect: vertex, project: p, service_account: '@'",
    "dialect: vertex, project: p, service_account: { file: '@' }",
    "dialect: bedrock, key: k, region: '/@'",
    "dialect: bedrock, region: r, aws: { access_key_id: { file: '@' }, secret_access_key: s }",
    "dialect: bedrock, region: r, aws: { '@': s, access_key_id: a, secret_access_key: s }",
    "dialect: demo, stream_usage: @",
    "'@'",
];
/// Fields of a model.
const MODELS: &[&str] = &[
    "targets: [{ account: '@' }]",
    "targets: [{ account: ok, '@': 1 }]",
    "targets: ['@']",
    "targets: [{ account: ok, weight: x@ }]",
    "targets: [{ account: ok, traits: { thinking: '@' } }]",
    "targets: [{ account: ok, price: { input: '@' } }]",
    "targets: [{ account: ok }], strategy: '@'",
    "targets: [{ account: ok }], fallbacks: ['@']",
    "targets: [{ account: ok }], fallbacks_on: { context: ['@'] }",
    "targets: [{ account: ok }], aliases: ['@ x']",
    "targets: [{ account: ok }], hedge: { after: '@' }",
    "targets: [{ account: ok }], queue: { wait: '@' }",
    "targets: [{ account: ok }], created: '@'",
    "targets: [{ account: ok }], on_loss: '@'",
    "targets: [{ account: ok }], sticky: @",
    "targets: [{ account: ok }], '@': x",
];
/// Fields of a caller.
const CALLERS: &[&str] = &[
    "'@': x",
    "models: ['@ x']",
    "expires: '@'",
    "limits: { '@': 1 }",
    "limits: { requests_per_minute: x@ }",
    "limits: { usd_per_day: '@' }",
    "keys: { prod: '@' }",
    "keys: { prod: { hash: '@' } }",
    "keys: { prod: { hash: HASH, '@': x } }",
    "keys: { prod: { hash: HASH, allow_ips: ['@'] } }",
    "keys: { prod: { hash: HASH, expires: '@' } }",
    "keys: { prod: { hash: HASH, model_limits: { '@': { requests_per_day: 1 } } } }",
    "keys: { prod: { hash: HASH, model_limits: { '@': { '@': 1 } } } }",
    "keys: { '@ x': { hash: HASH } }",
];

/// A catalog with one of these in each line, and the lines that must be named.
fn wrong(secret: &str) -> (String, Vec<usize>) {
    let mut text = "accounts:\n  ok: { dialect: demo }\n".to_owned();
    let mut lines = Vec::new();
    let mut put = |text: &mut String, list: &[&str]| {
        for (nth, fields) in list.iter().enumerate() {
            // No key twice: each hash is another one.
            let line = lines.len();
            let hash = HASH.replace("sha256:0101", &format!("sha256:{line:04}"));
            let fields = fields.replace('@', secret).replace("HASH", &hash);
            let entry = if fields.contains(": ") {
                format!("{{ {fields} }}")
            } else {
                fields
            };
            text.push_str(&format!("  x{nth}: {entry}\n"));
            lines.push(text.lines().count());
        }
    };
    put(&mut text, ACCOUNTS);
    text.push_str("models:\n");
    put(&mut text, MODELS);
    text.push_str("callers:\n");
    put(&mut text, CALLERS);
    (text, lines)
}

#[track_caller]
fn is_discreet(whence: &str, said: &str, secret: &str) {
    // Two edits do not make another secret of it.
    for secret in [
        secret,
        &secret[..secret.len() - 2],
        &secret.to_lowercase(),
        &secret.to_uppercase(),
    ] {
        assert!(!said.contains(secret), "{secret} is in {whence}:\n{said}");
    }
}

fn all_output(ran: &Ran) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

#[test]
fn s06_a_secret_in_any_field_is_never_shown() {
    for secret in SECRETS {
        let (text, lines) = wrong(secret);
        let folder = Folder::new(&[("catalog.yaml", &text)]);
        for command in ["check", "serve"] {
            let ran = folder.run(&[command]);
            assert_eq!(ran.status.code(), Some(1), "{}", all_output(&ran));
            is_discreet(command, &all_output(&ran), secret);
            for line in &lines {
                let place = format!("catalog.yaml:{line} ");
                assert!(
                    ran.stderr.contains(&place),
                    "no {place} in\n{}\n{}",
                    ran.stderr,
                    text.lines().nth(line - 1).unwrap()
                );
            }
        }
        // What ends the reading, and what is a fault of YAML.
        for text in [
            format!("'{secret}': 1\naccounts: {{}}\nmodels: {{}}\ncallers: {{}}\n"),
            format!("'{secret}': 1\n'{secret}': 2\naccounts: {{}}\nmodels: {{}}\ncallers: {{}}\n"),
            format!(
                "accounts: {{ a: {{ dialect: demo, '{secret}': 1, '{secret}': 2 }} }}\nmodels: {{}}\ncallers: {{}}\n"
            ),
            format!("accounts: {{ a: {{ '{secret}': !x y }} }}\nmodels: {{}}\ncallers: {{}}\n"),
            format!("accounts: {{ a: {{ key: *{secret} }} }}\nmodels: {{}}\ncallers: {{}}\n"),
            format!("accounts: {{ a: {{ key: {secret}: x }} }}\nmodels: {{}}\ncallers: {{}}\n"),
            format!("accounts: {{ a: {{ key: \"{secret}\\q\" }} }}\nmodels: {{}}\ncallers: {{}}\n"),
            format!("accounts: '{secret}'\nmodels: {{}}\ncallers: {{}}\n"),
            format!("{secret}\n"),
        ] {
            folder.write("catalog.yaml", &text);
            for command in [
                &["check"][..],
                &["serve"],
                &["key", "list", "--conf", "."],
                &["prices", "--conf", "."],
            ] {
                let ran = folder.run(command);
                assert_eq!(ran.status.code(), Some(1), "{}", all_output(&ran));
                assert!(
                    ran.stderr.contains("catalog.yaml:1") || ran.stderr.contains("catalog.yaml:2"),
                    "{}",
                    ran.stderr
                );
                is_discreet(&text, &all_output(&ran), secret);
            }
        }
    }
}

#[test]
fn s06_nor_is_one_in_server_yaml() {
    for secret in SECRETS {
        let folder = Folder::new(&[("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n")]);
        for text in [
            "listen: [{ address: '@' }]",
            "listen: ['@']",
            "listen: [{ address: 127.0.0.1:1, '@': 1 }]",
            "listen: [{ address: '127.0.0.1:1', tls: { cert: '@', key: '@' } }]",
            "admin: { address: '@' }",
            "workers: x@",
            "limits: { request_body: '@' }",
            "limits: { '@': 1 }",
            "timeouts: { comment: '@' }",
            "trusted_proxies: ['@']",
            "cors: { origins: ['@'] }",
            "log: { format: '@' }",
            "log: { level: '@' }",
            "log: { '@': json }",
            "ledger: { retention: '@' }",
            "ledger: { enabled: @ }",
            "store: { redis: '@' }",
            "store: { redis: { file: '@' } }",
            "store: { redis: { env: '@' } }",
            "store: { redis: 'redis://h', prefix: '@ x' }",
            "store: { redis: 'rediss://h', tls: { ca: '@' } }",
            "'@': 1",
        ] {
            folder.write("server.yaml", text.replace('@', secret));
            for command in ["check", "serve"] {
                let ran = folder.run(&[command]);
                assert_eq!(ran.status.code(), Some(1), "{text}: {}", all_output(&ran));
                assert!(
                    ran.stderr.contains("server.yaml:1 "),
                    "{text}: {}",
                    ran.stderr
                );
                is_discreet(text, &all_output(&ran), secret);
            }
        }
    }
}

#[test]
fn s06_nor_one_on_the_command_line() {
    // Where it is looked for if nobody says.
    let folder = Folder::new(&[(
        "conf/catalog.yaml",
        &format!(
            "accounts: {{}}\nmodels: {{}}\ncallers: {{ acme: {{ keys: {{ prod: {{ hash: {HASH} }} }} }} }}\n"
        ),
    )]);
    let path = folder.path().join("ledger.sqlite");
    folder.write(
        "conf/server.yaml",
        format!("ledger: {{ path: {path:?} }}\n"),
    );
    drop(crate::ledger::fill(&path));
    let known = Command::new(BINARY)
        .args(["usage", "--caller", "acme"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(
        known.status.success(),
        "{}",
        String::from_utf8_lossy(&known.stderr)
    );
    for secret in SECRETS {
        let id = format!("acme/{}", secret.replace('/', "-"));
        let option = format!("--{secret}");
        for arguments in [
            &["@"][..],
            &["check", "@"],
            &["check", &option],
            &["check", "--conf", "@"],
            &["serve", "--listen", "@"],
            &["schema", "@"],
            &["key", "@"],
            &["key", "hash", "@"],
            &["key", "list", "--caller", "@"],
            &["key", "show", "@"],
            &["key", "show", "#"],
            &["key", "delete", "@"],
            &["key", "delete", "#"],
            &["key", "disable", "@"],
            &["key", "expire", "acme/prod", "--at", "@"],
            &["key", "expire", "acme/prod", "--in", "@"],
            &["key", "new", "--caller", "@", "--name", "x"],
            &[
                "key", "new", "--caller", "acme", "--name", "x", "--model", "@ x",
            ],
            &["key", "rotate", "acme/prod", "--overlap", "@"],
            &["usage", "--by", "@"],
            &["usage", "--since", "@"],
            &["usage", "--caller", "@"],
            &["usage", "--key", "@"],
            &["usage", "--key", "#"],
            &["usage", "--model", "@"],
            &["usage", "--conf", "@"],
            &["prices", "@"],
            &["prices", "--conf", "@"],
            &["explain", "--key", "@", "r.json"],
            &["explain", "--key", "#", "@"],
            &["explain", "--key", "acme/prod", "--header", "@", "r.json"],
        ] {
            let given: Vec<&str> = arguments
                .iter()
                .map(|argument| match *argument {
                    "@" => secret,
                    "#" => id.as_str(),
                    other => other,
                })
                .collect();
            let spaced = format!("{secret} x");
            let given: Vec<&str> = given
                .into_iter()
                .map(|argument| {
                    if argument == "@ x" {
                        spaced.as_str()
                    } else {
                        argument
                    }
                })
                .collect();
            let output = Command::new(BINARY)
                .args(&given)
                .current_dir(folder.path())
                .output()
                .unwrap();
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(
                !output.status.success() && !said.is_empty(),
                "{arguments:?}: {said}"
            );
            is_discreet(&format!("{arguments:?}"), &said, secret);
        }
    }
}

#[test]
fn s06_nor_one_in_an_edit_of_a_running_gateway() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        for secret in SECRETS {
            let (text, lines) = wrong(secret);
            gateway.write_catalog(&text);
            let place = format!("catalog.yaml:{} ", lines[0]);
            let refused = || {
                gateway.status()["catalog"]["last_refusal"]
                    .to_string()
                    .contains(&place)
                    .then_some(())
            };
            eventually("it is refused", refused).await;
            is_discreet("/status", &gateway.status().to_string(), secret);
            is_discreet("/metrics", &gateway.admin("/metrics").1, secret);
            is_discreet("the log", &gateway.log(), secret);
            gateway.write_catalog(Catalog::over(&mock).to_string());
            let mended =
                || (gateway.status()["catalog"]["last_refusal"]["standing"] == false).then_some(());
            eventually("it is mended", mended).await;
        }
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
    });
}

#[test]
fn a_key_that_is_a_template_never_goes_up() {
    let folder = Folder::new(&[]);
    for (key, instead) in [
        ("\"${OPENAI_API_KEY}\"", "key: { env: OPENAI_API_KEY }"),
        ("$OPENAI_API_KEY", "key: { env: OPENAI_API_KEY }"),
        ("os.environ/OPENAI_API_KEY", "key: { env: OPENAI_API_KEY }"),
        ("sk-...", "key: { env: OPENAI_API_KEY }"),
        ("<your key>", "key: { env: OPENAI_API_KEY }"),
        ("your-api-key", "key: { env: OPENAI_API_KEY }"),
        ("changeme", "key: { env: OPENAI_API_KEY }"),
        ("'\"sk-...\"'", "key: { env: OPENAI_API_KEY }"),
        ("OPENAI_API_KEY", "key: { env: OPENAI_API_KEY }"),
        // A variable that is set.
        ("CARGO_MANIFEST_DIR", "key: { env: CARGO_MANIFEST_DIR }"),
    ] {
        folder.write(
            "catalog.yaml",
            format!("accounts:\n  a:\n    dialect: openai\n    key: {key}\nmodels: {{}}\ncallers: {{}}\n"),
        );
        for command in ["check", "serve"] {
            let ran = folder.run(&[command]);
            assert!(
                !ran.status.success()
                    && ran.stderr.contains("catalog.yaml:4 accounts.a.key: is ")
                    && ran.stderr.contains(instead),
                "{}",
                all_output(&ran)
            );
        }
    }
}

#[test]
fn an_account_with_its_preset_alone_is_served() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::over(&mock).to_string();
        let preset = catalog.replace("dialect: openai", "preset: vllm");
        assert_ne!(preset, catalog);
        let gateway = Gateway::start(preset).await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let asked = mock.request(0).await;
        assert_eq!((asked.model().as_str(), mock.count()), ("m", 1));
    });
}

#[test]
fn a_port_belongs_into_the_address() {
    let folder = Folder::new(&[(
        "catalog.yaml",
        "accounts:\n  a: { dialect: openai, port: 8000 }\nmodels: {}\ncallers: {}\n",
    )]);
    let ran = folder.run(&["check"]);
    let told = "catalog.yaml:2 accounts.a.port: unknown field: the port is a part of the address: write `base_url: \
     http://127.0.0.1:8000/v1`";
    assert!(
        !ran.status.success() && ran.stderr.contains(told),
        "{}",
        all_output(&ran)
    );
}

/// What a newcomer does, from an empty folder on.
#[test]
fn from_nothing_to_a_key_that_works() {
    run(async {
        let mock = Mock::start().await;
        // server.yaml says where this gateway listens; without one everything is as by default.
        let catalog = format!(
            "accounts:\n  local: {{ dialect: openai, base_url: \"{}\" }}\nmodels:\n  m: {{ targets: [{{ account: local }}] }}\n  n: {{ targets: [{{ account: local }}] }}\ncallers: {{}}\n",
            mock.base_url()
        );
        let folder = Folder::new(&[("catalog.yaml", &catalog)]);
        let conf = folder.path().to_str().unwrap();
        let checked = folder.run(&["check"]);
        assert!(
            checked.status.success()
                && checked
                    .stdout
                    .contains("fine. 1 file, 1 account, 2 models, 0 callers"),
            "{}",
            all_output(&checked)
        );
        assert!(
            checked.stderr.contains(
                "catalog.yaml:6 callers: there is no \
             caller"
            ) && checked.stderr.contains("--create"),
            "{}",
            checked.stderr
        );

        let gateway = Gateway::with(catalog).start().await;
        let conf_of_gateway = gateway.conf.to_str().unwrap();
        let ran = folder.run(&[
            "key",
            "new",
            "--caller",
            "acme",
            "--name",
            "prod",
            "--conf",
            conf_of_gateway,
        ]);
        assert!(
            !ran.status.success() && ran.stdout.is_empty(),
            "{}",
            all_output(&ran)
        );
        assert!(
            ran.stderr.contains("there is no such caller")
                && ran.stderr.contains("--create")
                && ran.stderr.contains("callers: { NAME:"),
            "{}",
            ran.stderr
        );
        assert!(
            !gateway.conf.join("catalog.d").exists(),
            "a command that fails leaves nothing"
        );

        let ran = folder.run(&[
            "key",
            "new",
            "--caller",
            "acme",
            "--name",
            "prod",
            "--create",
            "--models",
            "m",
            "--conf",
            conf_of_gateway,
        ]);
        assert!(
            ran.status.success()
                && ran.stderr.contains("the caller acme is new\n")
                && !ran.stderr.contains("warning"),
            "{}",
            all_output(&ran)
        );
        let secret = ran.stdout.trim().to_owned();
        let written =
            std::fs::read_to_string(gateway.conf.join("catalog.d/keys-acme.yaml")).unwrap();
        let hash = canary::hash(&secret);
        let beginning = secret.rsplit_once('-').unwrap().0;
        assert_eq!(
            written.split_once('\n').unwrap().1,
            format!(
                "callers:\n  acme:\n    models: [m]\n    keys:\n      prod:\n        hash: {hash} # {beginning}-…\n"
            )
        );
        assert!(
            ran.stderr.contains("keys-acme.yaml:6."),
            "it says where the key stands: {}",
            ran.stderr
        );
        let served = || (gateway.generation() == 2).then_some(());
        eventually("the key is live", served).await;
        let answer = gateway
            .raw(crate::support::client::post_as(&secret, &chat("m")))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        gateway
            .raw(crate::support::client::post_as(&secret, &chat("n")))
            .await
            .is_error(404, "model_not_found");
        let ran = folder.run(&[
            "key",
            "new",
            "--caller",
            "acme",
            "--name",
            "ci",
            "--create",
            "--conf",
            conf_of_gateway,
        ]);
        assert!(
            !ran.status.success()
                && ran.stderr.contains(
                    "the caller acme already exists: run the command without \
             --create"
                ),
            "{}",
            all_output(&ran)
        );

        // Without models named, every one, and that is said.
        let ran = folder.run(&[
            "key", "new", "--caller", "all", "--name", "k", "--create", "--conf", conf,
        ]);
        assert!(
            ran.status.success()
                && ran
                    .stderr
                    .contains("the caller all is new, and may use every model"),
            "{}",
            all_output(&ran)
        );
        let checked = folder.run(&["check"]);
        assert!(
            checked.stdout.contains("1 caller, 1 key, 0 warnings"),
            "{}",
            all_output(&checked)
        );
    });
}

#[test]
fn a_deleted_key_opens_nothing_and_other_bytes_stay() {
    const CATALOG: &str =
        "accounts: { d: { dialect: demo } }\nmodels: { m: { targets: [{ account: d }] } }\n";
    let hash = |n: usize| format!("sha256:{n:064}");
    let keys = format!(
        "# ours\r\ncallers:\r\n  acme: # theirs\r\n    models: [m]\r\n    keys:\r\n      # the first\r\n      a:\r\n        hash: {}\r\n        # limits: later\r\n      b: # second\r\n        hashes:\r\n        - {{ hash: \"{}\", until: 2030-01-01 }}\r\n        - hash: {} # sk-b-…\r\n      # the third\r\n      c: {{ hash: \"{}\" }} # c\r\n",
        hash(1),
        hash(2),
        hash(3),
        hash(4)
    );
    let folder = Folder::new(&[
        (
            "catalog.yaml",
            &format!(
                "{CATALOG}callers: {{ flow: {{ keys: {{ x: {{ hash: \"{}\" }}, y: {{ hash: \"{}\" }} }} }} }}\n",
                hash(5),
                hash(6)
            ),
        ),
        ("catalog.d/keys.yaml", &keys),
    ]);
    let conf = folder.path().to_str().unwrap();
    let delete = |id: &str| folder.run(&["key", "delete", id, "--conf", conf]);
    let file = || std::fs::read_to_string(folder.path().join("catalog.d/keys.yaml")).unwrap();
    let ran = delete("acme/b");
    assert!(
        ran.status.success()
            && ran.stdout.contains("acme/b is deleted from ")
            && ran.stdout.contains("keys.yaml:10"),
        "{}",
        all_output(&ran)
    );
    let (before, rest) = keys.split_once("      b: # second").unwrap();
    let without_b = format!(
        "{before}{}",
        &rest[rest.find("      # the third").unwrap()..]
    );
    assert_eq!(file(), without_b);
    assert!(delete("acme/a").status.success());
    let without_a = without_b.replace(
        &format!(
            "      a:\r\n        hash: {}\r\n        # limits: later\r\n",
            hash(1)
        ),
        "",
    );
    assert_eq!(file(), without_a);
    // The last: the caller stays, without keys.
    assert!(delete("acme/c").status.success());
    let none = without_a
        .replace("    keys:\r\n", "    keys: {}\r\n")
        .replace(&format!("      c: {{ hash: \"{}\" }} # c\r\n", hash(4)), "");
    assert_eq!(file(), none);
    assert!(delete("flow/x").status.success());
    let main = std::fs::read_to_string(folder.path().join("catalog.yaml")).unwrap();
    assert_eq!(
        main,
        format!(
            "{CATALOG}callers: {{ flow: {{ keys: {{ y: {{ hash: \"{}\" }} }} }} }}\n",
            hash(6)
        )
    );
    let again = delete("flow/x");
    assert!(
        !again.status.success()
            && again
                .stderr
                .contains("there is no key flow/x; did you mean flow/y?"),
        "{}",
        all_output(&again)
    );
    let ran = folder.run(&["key", "list", "--conf", conf]);
    assert!(
        ran.stdout.contains("flow/y") && !ran.stdout.contains("acme/"),
        "{}",
        ran.stdout
    );
    // Its name is free again.
    assert!(
        folder
            .run(&[
                "key", "new", "--caller", "acme", "--name", "b", "--conf", conf
            ])
            .status
            .success()
    );
    let ran = folder.run(&["key", "delete", "acme/b", "--conf", conf]);
    assert!(
        ran.status.success() && ran.stdout.contains("keys-acme.yaml"),
        "{}",
        all_output(&ran)
    );
    assert!(folder.run(&["check"]).status.success());
}

/// A shell's line in the folder, with this file mode creation mask.
fn shell(folder: &Folder, umask: &str, line: &str) -> (bool, String) {
    let script = format!("umask {umask}; {}", line.replace("portcullis", BINARY));
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn s08_a_secret_file_that_others_read_is_warned_of() {
    const NEW: &str = "portcullis key new --conf . --caller acme --create --name";
    let folder = Folder::new(&[("catalog.yaml", "accounts: {}\nmodels: {}\ncallers: {}\n")]);
    let open = "warning: the secret was written into a file that every user of this machine can read: run `chmod \
     600` on it";
    let (done, said) = shell(&folder, "022", &format!("{NEW} a > a.key"));
    assert!(done && said.contains(open), "{said}");
    let rotate = "portcullis key rotate --conf . acme/a";
    let (done, said) = shell(&folder, "022", &format!("{rotate} >> b.key"));
    assert!(done && said.contains(open), "{said}");
    for line in [
        format!("{rotate} > c.key"),
        format!("{rotate} | cat > d.key"),
        format!("{rotate} > /dev/null"),
    ] {
        let umask = if line.contains("c.key") { "077" } else { "022" };
        let (done, said) = shell(&folder, umask, &line);
        assert!(done && !said.contains("warning"), "{line}: {said}");
    }
}

#[test]
fn check_accepts_what_ships_and_what_key_new_writes() {
    let root = root().join("conf");
    let shipped = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let folder = Folder::new(&[
        ("server.yaml", &shipped("server.yaml")),
        ("catalog.yaml", &shipped("catalog.yaml")),
    ]);
    // As git writes it.
    for name in ["server.yaml", "catalog.yaml"] {
        std::fs::set_permissions(folder.path().join(name), PermissionsExt::from_mode(0o644))
            .unwrap();
    }
    let fine = |what: &str| {
        let ran = folder.run(&["check"]);
        assert!(
            ran.status.success() && ran.stdout.contains("0 warnings") && ran.stderr.is_empty(),
            "{what}: {}",
            all_output(&ran)
        );
    };
    fine("what ships");
    for command in [
        "key new --conf . --caller demo --name laptop --expires-in 90d",
        "key new --conf . --caller acme --name prod --create --models demo",
        "key rotate --conf . demo/laptop",
        "key rotate --conf . acme/prod --overlap 0s",
        "key disable --conf . acme/prod",
        "key delete --conf . acme/prod",
        "key new --conf . --caller acme --name again",
    ] {
        let (done, said) = shell(&folder, "022", &format!("portcullis {command} | cat"));
        assert!(done && !said.contains("warning"), "{command}: {said}");
        fine(command);
    }
}

#[test]
fn a_key_whose_secret_nobody_got_is_not_made() {
    let folder = Folder::new(&[(
        "catalog.yaml",
        "accounts: {}\nmodels: {}\ncallers: { acme: {} }\n",
    )]);
    // A device that takes nothing.
    let (done, said) = shell(
        &folder,
        "022",
        "portcullis key new --conf . --caller acme --name a > /dev/full",
    );
    assert!(
        !done && said.contains("the secret could not be printed: no key was made"),
        "{said}"
    );
    assert!(!folder.path().join("catalog.d").exists());
    assert!(
        shell(
            &folder,
            "022",
            "portcullis key new --conf . --caller acme --name a > a.key"
        )
        .0
    );
    let file = || std::fs::read_to_string(folder.path().join("catalog.d/keys-acme.yaml")).unwrap();
    let before = file();
    for command in [
        "key new --conf . --caller acme --name b",
        "key rotate --conf . acme/a --overlap 0s",
    ] {
        let (done, said) = shell(&folder, "022", &format!("portcullis {command} > /dev/full"));
        assert!(
            !done && said.contains("the secret could not be printed: "),
            "{command}: {said}"
        );
        assert_eq!(file(), before, "{command}");
    }
}

#[test]
fn warnings_are_told_beside_errors() {
    let folder = Folder::new(&[(
        "catalog.yaml",
        "accounts:\n  a: { dialect: openai, key: sk-CaNaRy-1, base_url: https://api.openai.com }\n  b: { dialect: opnai }\nmodels: {}\ncallers: {}\n",
    )]);
    for command in ["check", "serve"] {
        let ran = folder.run(&[command]);
        assert_eq!(ran.status.code(), Some(1));
        for told in [
            "warning: catalog.yaml:2 accounts.a.key",
            "warning: catalog.yaml:2 accounts.a.base_url",
            "warning: catalog.yaml:5 callers",
            "\ncatalog.yaml:3 accounts.b.dialect",
        ] {
            assert!(ran.stderr.contains(told), "no {told:?} in {}", ran.stderr);
        }
    }
    assert!(
        folder
            .run(&["check"])
            .stderr
            .ends_with(": 1 error, 3 warnings\n"),
        "{}",
        folder.run(&["check"]).stderr
    );
    // Where there is no folder, that is said, and once.
    let nowhere = Command::new(BINARY)
        .args(["check"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    if !std::path::Path::new("/etc/portcullis").exists() {
        assert!(
            said.starts_with("conf: this folder does not exist: use `--conf DIR`")
                && said.lines().count() == 2,
            "{said}"
        );
    }
}

/// Who opens the callers' address in a browser once saw an error in JSON.
#[test]
fn a_browser_at_the_callers_address_gets_an_explanation() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let fields = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
        let page = gateway
            .raw(crate::support::client::request("GET", "/", &fields, b""))
            .await;
        let text = page.text();
        assert_eq!((page.status, text.lines().count()), (200, 5), "{text}");
        assert!(
            text.contains("Portcullis") && text.contains("docs/src"),
            "{text}"
        );
        assert!(
            !text.contains(&gateway.admin.to_string()) && !text.contains("9090"),
            "{text}"
        );
        assert!(
            page.field("content-type")
                .is_some_and(|kind| kind.starts_with("text/plain"))
        );
        // Programs get what they always got.
        gateway.get("/").await.is_error(404, "unknown_url");
        gateway
            .raw(crate::support::client::request("POST", "/", &fields, b""))
            .await
            .is_error(404, "unknown_url");
    });
}
