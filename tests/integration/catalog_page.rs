//! `GET /catalog`, and `portcullis check --diff`: what is live, what is in the files, and what a
//! change would do.

use std::io::Write as _;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::canary::{self, ADMIN_KEY, KEY, hash};
use crate::support::gateway::portcullis;
use crate::support::{Catalog, Gateway, Mock, eventually, run, run_within};

/// The longest wait for an answer about a large catalog on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Returns the page. A gateway that has no time asks to come back.
fn page(gateway: &Gateway) -> String {
    let start = Instant::now();
    loop {
        let (status, body) = gateway.admin("/catalog");
        if status == 200 {
            canary::check("/catalog", body.as_bytes()).expect("no secret");
            assert!(
                !body.contains(&hash(KEY)["sha256:".len()..]),
                "no hash of a key: {body}"
            );
            return body;
        }
        assert!(
            status == 503 && body.contains("ask again") && start.elapsed() < LONG,
            "{status} {body}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn served(gateway: &Gateway) -> Value {
    serde_json::from_str(&page(gateway)).expect("JSON")
}

/// Runs `check --conf FOLDER …`. Nothing secret may be in what it prints.
fn check(conf: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let conf = conf.display().to_string();
    let all: Vec<&str> = ["check", "--conf", &conf]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let Output {
        status,
        stdout,
        stderr,
    } = portcullis(&all);
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    );
    canary::check("check", format!("{stdout}{stderr}").as_bytes()).expect("no secret");
    (status.code(), stdout, stderr)
}

/// Makes a copy of the gateway's folder, with another catalog.
fn copy(gateway: &Gateway, name: &str, catalog: &Catalog) -> std::path::PathBuf {
    let folder = gateway.conf.with_file_name(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(gateway.conf.join("server.yaml"), folder.join("server.yaml")).expect("a copy");
    std::fs::write(folder.join("catalog.yaml"), catalog.to_string()).expect("a catalog");
    folder
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().skip(2).collect()
}

fn two_models(mock: &Mock) -> Catalog {
    Catalog::over(mock).model("n", &["a"])
}

#[test]
fn an_edit_is_told_before_it_is_live() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(two_models(&mock)).await;
        let before = served(&gateway);
        assert_eq!(
            (&before["generation"], &before["disk"]["is_live"]),
            (&1.into(), &true.into()),
            "{before:#}"
        );
        assert_eq!(before["disk"]["hash"], before["live"]["hash"]);
        assert_eq!(
            before["catalog"]["callers"]["acme"]["keys"]["prod"]["secrets"],
            serde_json::json!([null])
        );
        let (code, says, _) = check(&gateway.conf, &["--diff"]);
        assert!(
            code == Some(0) && says.contains("): nothing changes.\n"),
            "{says}"
        );

        let edited =
            Catalog::over(&mock).caller("beta", "sk-CaNaRy-caller-beta-0123456789", "models: [m]");
        let folder = copy(&gateway, "edited", &edited);
        let expected = [
            "Requests that are answered now will be refused:",
            "  model n: gone (caller acme; 1 key)",
            "Wider:",
            "  caller beta: new, with 1 key",
        ];
        let (code, says, _) = check(&folder, &["--diff"]);
        assert_eq!((code, lines(&says)), (Some(0), expected.to_vec()), "{says}");
        let (code, says, _) = check(&folder, &["--diff", "--no-secrets"]);
        assert_eq!(code, Some(0), "{says}");
        assert_eq!(
            lines(&says),
            [&expected[..], &["Secrets were not compared."]].concat(),
            "{says}"
        );
        let (code, says, _) = check(&folder, &[&format!("--diff={}", gateway.conf.display())]);
        assert_eq!((code, lines(&says)), (Some(0), expected.to_vec()), "{says}");
        let (code, says, _) = check(&folder, &["--diff", "--json"]);
        let told: Value = serde_json::from_str(&says).expect("JSON");
        assert_eq!(
            (code, &told["counts"]["breaks"], &told["counts"]["widens"]),
            (Some(0), &1.into(), &1.into())
        );
        assert_eq!(
            told["changes"][0]["callers"],
            serde_json::json!(["acme"]),
            "{told:#}"
        );
        assert_eq!(told["secrets"], "told", "{told:#}");

        gateway.swap(&edited).await;
        let (code, says, _) = check(&folder, &["--diff"]);
        assert!(
            code == Some(0) && says.ends_with("): nothing changes.\n"),
            "{says}"
        );
        let after = served(&gateway);
        assert_eq!(
            (&after["generation"], &after["disk"]["is_live"]),
            (&2.into(), &true.into()),
            "{after:#}"
        );
        assert_ne!(after["live"]["hash"], before["live"]["hash"]);

        // A key whose secret is replaced is found with the gateway's own folder, which is here.
        let rotated =
            edited
                .clone()
                .without_acme()
                .caller("acme", "sk-CaNaRy-caller-rotated-0123456", "");
        let (code, says, _) = check(&copy(&gateway, "rotated", &rotated), &["--diff"]);
        let breaks = [
            expected[0],
            "  key acme/prod: a secret of it that works now is refused",
        ];
        assert_eq!((code, lines(&says)), (Some(0), breaks.to_vec()), "{says}");
        // Without that folder it is not known whose it is, and not told as nothing.
        let hidden = gateway.conf.with_file_name("hidden");
        std::fs::rename(&gateway.conf, &hidden).expect("a rename");
        let folder_now = gateway.conf.with_file_name("rotated");
        let (_, says, _) = check(&folder_now, &["--diff"]);
        let (_, json, _) = check(&folder_now, &["--diff", "--json"]);
        std::fs::rename(&hidden, &gateway.conf).expect("a rename");
        assert!(
            says.contains("no setting changes, but secrets do") && says.contains("not known whose"),
            "{says}"
        );
        assert!(json.contains("\"secrets\": \"differ\""), "{json}");
    });
}

#[test]
fn changes_not_yet_live_are_told_with_their_secrets() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(two_models(&mock)).await;
        let before = served(&gateway);
        // A refused edit.
        gateway.write_catalog(
            "accounts: {}\nmodels: { m: { targets: [{ account: gone }] } }\ncallers: {}\n",
        );
        let refused = eventually("it is refused", || {
            let now = served(&gateway);
            (now["disk"]["problems"][0].is_string()).then_some(now)
        });
        let refused = refused.await;
        assert_eq!(
            (&refused["disk"]["is_live"], &refused["live"]),
            (&false.into(), &before["live"]),
            "{refused:#}"
        );
        assert!(
            refused["disk"]["problems"][0]
                .as_str()
                .unwrap()
                .contains("catalog.yaml:2"),
            "{refused:#}"
        );
        gateway.write_catalog(two_models(&mock));
        eventually("the files are live again", || {
            (served(&gateway)["disk"]["is_live"] == true).then_some(())
        })
        .await;

        // An edit of which the gateway does not know that it is whole: somebody has the file open.
        let rotated =
            two_models(&mock)
                .without_acme()
                .caller("acme", "sk-CaNaRy-caller-rotated-0123456", "");
        let rotated = rotated
            .to_string()
            .replace("sk-CaNaRy-account", "sk-CaNaRy-accounts");
        let path = gateway.conf.join("catalog.yaml");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .expect("it opens");
        file.write_all(rotated.as_bytes()).expect("it is written");
        file.flush().expect("it is written");
        let pending = served(&gateway);
        assert_eq!(
            (&pending["disk"]["is_live"], &pending["live"]),
            (&false.into(), &before["live"]),
            "{pending:#}"
        );
        assert_ne!(pending["disk"]["secrets"], before["live"]["secrets"]);
        assert_eq!(
            pending["disk"]["secrets_changed"]["keys"],
            serde_json::json!(["acme/prod"]),
            "{pending:#}"
        );
        assert_eq!(
            pending["disk"]["secrets_changed"]["accounts"],
            serde_json::json!({ "a": ["credential"] }),
            "{pending:#}"
        );
        let (code, says, _) = check(&gateway.conf, &["--diff"]);
        let expected = [
            "Requests that are answered now will be refused:",
            "  key acme/prod: a secret of it that works now is refused",
            "Changed:",
            "  account a: other secrets: credential",
        ];
        assert_eq!((code, lines(&says)), (Some(0), expected.to_vec()), "{says}");
        drop(file);
        let live = eventually("it is live", || {
            let now = served(&gateway);
            (now["disk"]["is_live"] == true).then_some(now)
        });
        assert_eq!(live.await["live"]["hash"], pending["disk"]["hash"]);
    });
}

#[test]
fn differences_within_a_fleet_are_told() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let (one, other) = (
            Gateway::start(two_models(&mock)).await,
            Gateway::start(two_models(&mock)).await,
        );
        let (first, second) = (served(&one), served(&other));
        assert_eq!(
            (&first["live"], &first["catalog"]),
            (&second["live"], &second["catalog"])
        );
        assert_ne!(first["instance"], second["instance"]);
        let text = |gateway| {
            page(gateway)
                .split("\"disk\"")
                .next()
                .expect("the catalog")
                .to_owned()
        };
        assert_eq!(text(&one), text(&other), "byte by byte");
        let url = format!("--diff=http://{}", other.admin);
        let (code, says, _) = check(&one.conf, &[&url]);
        // Their ports differ, and their ledgers.
        let expected = [
            "Only after a restart:",
            "  server.yaml admin, ledger, listen: differs",
        ];
        assert_eq!((code, lines(&says)), (Some(0), expected.to_vec()), "{says}");

        other
            .swap(
                two_models(&mock)
                    .account_with("b", &mock, "concurrency: 3")
                    .model("o", &["b"]),
            )
            .await;
        assert_ne!(served(&other)["live"]["hash"], first["live"]["hash"]);
        let (code, says, _) = check(&one.conf, &[&url]);
        assert_eq!(code, Some(0));
        assert!(
            says.contains("  model o: gone (caller acme; 1 key)\n")
                && says.contains("  account b: gone\n"),
            "{says}"
        );
    });
}

/// What is shown is one hash. Line ends, comments, order and files do not count in it, and where
/// everybody may look, no secret does: it could be tried in no time by whoever knows the files.
#[test]
fn one_hash_is_shown_and_no_secret_is_guessable() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(two_models(&mock)).await;
        let shown = async |gateway: &Gateway| {
            let hash = served(gateway)["live"]["hash"].clone();
            assert_eq!(gateway.status()["catalog"]["hash"], hash);
            // The page is made twice a second.
            let on_page = || -> Option<()> {
                let page: Value =
                    serde_json::from_str(&gateway.admin("/live?show=configuration").1)
                        .expect("JSON");
                (page["configuration"]["hash"] == hash).then_some(())
            };
            eventually("the page has the hash", on_page).await;
            hash
        };
        let before = shown(&gateway).await;
        let text = two_models(&mock).to_string();
        let (accounts, rest) = text.split_at(text.find("models:").expect("models"));
        gateway.write_catalog(format!("# Turned around.\n{rest}{accounts}").replace('\n', "\r\n"));
        eventually("it is live", || (gateway.generation() == 2).then_some(())).await;
        assert_eq!(shown(&gateway).await, before);
        gateway
            .swap(text.replace("sk-CaNaRy-account", "sk-CaNaRy-accounts"))
            .await;
        assert_ne!(shown(&gateway).await, before, "a secret counts");

        let open = async |catalog: &str| {
            Gateway::with(catalog)
                .server("admin: { address: \"0.0.0.0:{admin_port}\" }")
                .start()
                .await
        };
        let one = shown(&open(&text).await).await;
        assert_ne!(one, before);
        let other = text
            .replace("sk-CaNaRy-account", "sk-CaNaRy-accounts")
            .replace(&hash(KEY), &hash("sk-other"));
        assert_eq!(shown(&open(&other).await).await, one);
    });
}

#[test]
fn only_who_may_ask_sees_the_catalog() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
            .env("ADMIN_KEY", ADMIN_KEY)
            .start()
            .await;
        let (status, says) = gateway.admin("/catalog");
        assert_eq!(status, 200, "the test's client has the key: {says}");
        // Nothing runs at the address of this folder.
        let folder = copy(&gateway, "nobody", &Catalog::over(&mock));
        std::fs::write(
            folder.join("server.yaml"),
            "admin: { address: \"127.0.0.1:1\" }\n",
        )
        .expect("written");
        let (code, says, error) = check(&folder, &["--diff"]);
        assert_eq!((code, says.as_str()), (Some(1), ""), "{error}");
        assert!(
            error.contains("http://127.0.0.1:1 does not answer") && error.contains("--diff=DIR"),
            "{error}"
        );
        let (code, _, error) = check(&folder, &["--diff=./nowhere"]);
        assert!(
            code == Some(1) && error.contains("--diff: there is no folder ./nowhere"),
            "{error}"
        );
        assert!(!error.contains("--conf"), "{error}");
        let broken = copy(&gateway, "broken", &Catalog::over(&mock));
        std::fs::write(broken.join("catalog.yaml"), "accounts: 7\n").expect("written");
        let (code, _, error) = check(&folder, &[&format!("--diff={}", broken.display())]);
        assert!(
            code == Some(1)
                && error.contains("--diff: with these errors the folder cannot be compared"),
            "{error}"
        );
        let (code, _, error) = check(&folder, &["--json"]);
        assert!(code == Some(2) && error.contains("--diff"), "{error}");
        // A browser's address has a slash at its end.
        let (code, _, error) = check(&folder, &[&format!("--diff=http://{}/", gateway.admin)]);
        assert!(
            code == Some(1) && error.contains("wants its key"),
            "{error}"
        );
        // Where everybody may look, nothing is told of secrets.
        let open = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"0.0.0.0:{admin_port}\" }")
            .start()
            .await;
        let shown = served(&open);
        assert_eq!(
            (&shown["live"]["secrets"], &shown["disk"]["is_live"]),
            (&"".into(), &true.into()),
            "{shown:#}"
        );
        // Without the key.
        let (code, _, error) = check(&folder, &[&format!("--diff=http://{}", gateway.admin)]);
        assert!(
            code == Some(1) && error.contains("wants its key"),
            "{error}"
        );
    });
}

#[test]
fn very_many_keys_are_shown_and_compared() {
    const KEYS: usize = if cfg!(debug_assertions) {
        5_000
    } else {
        100_000
    };
    run_within(LONG, async {
        let mock = Mock::start().await;
        let keys = |count: usize| {
            let each =
                (0..count).map(|n| format!("      k{n}: {{ hash: \"sha256:{:064x}\" }}\n", n + 1));
            format!("callers:\n  many:\n    keys:\n{}", each.collect::<String>())
        };
        let gateway = Gateway::with(Catalog::over(&mock))
            .file("catalog.d/keys.yaml", keys(KEYS))
            .start()
            .await;
        let text = page(&gateway);
        assert!(text.len() < KEYS * 100 + 10_000, "{}", text.len());
        let now: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            now["catalog"]["callers"]["many"]["keys"]
                .as_object()
                .map(serde_json::Map::len),
            Some(KEYS)
        );
        let folder = copy(&gateway, "fewer", &Catalog::over(&mock));
        std::fs::create_dir_all(folder.join("catalog.d")).expect("a folder");
        std::fs::write(folder.join("catalog.d/keys.yaml"), keys(KEYS - 300)).expect("written");
        let (code, says, error) = check(&folder, &["--diff", "--no-secrets"]);
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(says.lines().count(), 5, "{says}");
        assert!(
            says.contains(" and 295 more: gone: requests with it are refused unless another key has its secret\n"),
            "{says}"
        );
    });
}
