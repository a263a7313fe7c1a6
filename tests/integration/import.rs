//! `portcullis import`: whole conversions in `tests/import`, for reviewers, and the command itself.
//! `UPDATE_GOLDEN=1` writes what the import makes now; review the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portcullis_import::litellm::LiteLlm;
use portcullis_import::{Finding, Given, ImportFrom, Imported, Inputs};
use serde_json::{Value, json};

use crate::support::canary::hash;
use crate::support::client;
use crate::support::folder::Folder;
use crate::support::{Gateway, Mock, chat, root, run};

/// A folder of `tests/import`.
struct Case(PathBuf);

impl Case {
    fn all() -> Vec<Self> {
        let folder = root().join("tests/import");
        let mut cases: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| Self(entry.unwrap().path()))
            .collect();
        cases.sort_by(|a, b| a.0.cmp(&b.0));
        cases
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    fn import(&self) -> Imported {
        let given = |name: &str| Given {
            name: name.to_owned(),
            text: self.read(name).unwrap(),
        };
        let keys = ["keys-1.json", "keys-2.json", "teams.json", "users.json"];
        let set: BTreeMap<String, String> = self
            .read("environment")
            .unwrap_or_default()
            .lines()
            .map(|line| line.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let loosened = self.read("loosen").unwrap_or_default();
        LiteLlm
            .import(&Inputs {
                config: given("config.yaml"),
                keys: keys
                    .into_iter()
                    .filter(|name| self.0.join(name).exists())
                    .map(given)
                    .collect(),
                spent_at: None,
                loosened: loosened.lines().map(str::to_owned).collect(),
                include: &|name, from| {
                    let beside = Path::new(from).parent().unwrap().join(name);
                    Ok(given(beside.to_str().unwrap()))
                },
                variable: &|name| set.get(name).cloned(),
            })
            .unwrap()
    }
}

#[test]
fn whole_conversions_are_as_reviewed() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for case in Case::all() {
        let imported = case.import();
        let mut files: Vec<(String, String)> = imported
            .files
            .iter()
            .map(|(name, text)| (format!("made/{name}"), text.clone()))
            .collect();
        files.push(("made/report.txt".to_owned(), imported.text()));
        for (name, text) in files {
            // A secret of the source is nowhere.
            assert!(
                !text.to_lowercase().contains("canary"),
                "{}: {name}",
                case.0.display()
            );
            let path = case.0.join(&name);
            if update {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &text).unwrap();
            } else if case.read(&name).as_ref() != Some(&text) {
                wrong.push(path);
            }
        }
        assert!(
            !imported
                .json()
                .to_string()
                .to_lowercase()
                .contains("canary")
        );
        assert_eq!(imported.check.errors, [], "{}", case.0.display());
    }
    assert_eq!(
        wrong,
        Vec::<PathBuf>::new(),
        "review the change, then write it with UPDATE_GOLDEN=1"
    );
}

/// The paths of a source that hold something, as findings write them.
fn paths(value: &serde_yaml::Value, path: String, all: &mut Vec<String>) {
    match value {
        serde_yaml::Value::Mapping(map) if !map.is_empty() => {
            for (key, value) in map {
                let key = key.as_str().unwrap();
                paths(
                    value,
                    if path.is_empty() {
                        key.to_owned()
                    } else {
                        format!("{path}.{key}")
                    },
                    all,
                );
            }
        }
        serde_yaml::Value::Sequence(items) if !items.is_empty() => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| paths(value, format!("{path}[{index}]"), all));
        }
        serde_yaml::Value::Null => {}
        _ => all.push(path),
    }
}

/// Returns the paths of the source about which the report says nothing.
pub fn untold(file: &str, text: &str, findings: &[Finding]) -> Vec<String> {
    let told: BTreeSet<&str> = findings
        .iter()
        .filter(|finding| finding.file == file)
        .map(|finding| &*finding.path)
        .collect();
    let mut all = Vec::new();
    paths(
        &serde_yaml::from_str(text).unwrap(),
        String::new(),
        &mut all,
    );
    let is_told = |path: &String| {
        let ends = path
            .char_indices()
            .filter(|(_, c)| ".[".contains(*c))
            .map(|(at, _)| at)
            .chain([path.len()]);
        ends.map(|end| &path[..end])
            .any(|begin| told.contains(begin))
    };
    all.into_iter().filter(|path| !is_told(path)).collect()
}

#[test]
fn each_line_of_a_configuration_is_in_the_report() {
    for case in Case::all() {
        let imported = case.import();
        for file in [
            "config.yaml",
            "parts/models.yaml",
            "parts/more.yaml",
            "settings.yaml",
        ] {
            let Some(text) = case.read(file) else {
                continue;
            };
            assert_eq!(
                untold(file, &text, &imported.findings),
                Vec::<String>::new(),
                "{} {file}",
                case.0.display()
            );
        }
    }
}

/// A configuration with one account, which the scripted upstream can serve.
const CONFIG: &str = "model_list:\n  - model_name: m\n    litellm_params: { model: openai/m, api_base: BASE, api_key: os.environ/PATH }\n";

fn key(name: &str, more: Value) -> Value {
    let token = hash(&format!("sk-{name}"))
        .trim_start_matches("sha256:")
        .to_owned();
    let mut row = json!({"token": token, "key_alias": name, "models": []});
    row.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    row
}

#[test]
fn keys_work_as_they_are_and_bounds_hold() {
    run(async {
        let mock = Mock::start().await;
        let keys = json!({"keys": [
            key("free", json!({})),
            key("one-a-minute", json!({"rpm_limit": 1})),
            key("past", json!({"expires": "2020-01-01T00:00:00+00:00"})),
            key("blocked", json!({"blocked": true})),
            key("for-life", json!({"max_budget": 5.0})),
            key("another-model", json!({"models": ["n"]})),
        ]});
        let config = CONFIG.replace("BASE", &format!("http://{}/v1", mock.address()));
        let folder = Folder::new(&[("config.yaml", &config), ("keys.json", &keys.to_string())]);
        let ran = folder.run(&["import", "litellm", "config.yaml", "--keys", "keys.json"]);
        assert_eq!(ran.status.code(), Some(1), "{}{}", ran.stdout, ran.stderr);
        let made = folder.path().join("portcullis-import");
        let read = |name: &str| fs::read_to_string(made.join(name)).unwrap();
        let gateway = Gateway::with(read("catalog.yaml"))
            .file(
                "catalog.d/litellm-keys.yaml",
                read("catalog.d/litellm-keys.yaml"),
            )
            .start()
            .await;
        for (name, statuses) in [
            ("free", [200, 200]),
            ("one-a-minute", [200, 429]),
            ("past", [401, 401]),
            ("blocked", [401, 401]),
            ("for-life", [401, 401]),
            ("another-model", [404, 404]),
            ("nobody", [401, 401]),
        ] {
            for status in statuses {
                let answer = gateway
                    .raw(client::post_as(&format!("sk-{name}"), &chat("m")))
                    .await;
                assert_eq!(answer.status, status, "{name}: {}", answer.text());
            }
        }
        // Nothing is overwritten, by whatever name.
        let before = read("catalog.yaml");
        let again = folder.run(&["import", "litellm", "config.yaml"]);
        assert_eq!((again.status.code(), again.stdout.as_str()), (Some(2), ""));
        assert!(
            again.stderr.contains("nothing is overwritten"),
            "{}",
            again.stderr
        );
        assert_eq!(read("catalog.yaml"), before);
        // A bound may be dropped by its name, and `--dry-run` writes nothing.
        let dry = folder.run(&[
            "import",
            "litellm",
            "config.yaml",
            "--keys",
            "keys.json",
            "--loosen",
            "budgets",
            "--dry-run",
            "--json",
            "--out",
            "new",
        ]);
        let report: Value = serde_json::from_str(&dry.stdout).unwrap();
        assert_eq!(
            report["keys"],
            json!({"found": 6, "work": 5}),
            "{}",
            dry.stdout
        );
        assert!(
            report["texts"]["catalog.yaml"]
                .as_str()
                .unwrap()
                .contains("models:")
        );
        assert!(!folder.path().join("new").exists());
    });
}

#[test]
fn budgets_go_on_where_they_were() {
    run(async {
        // What was spent today does not count tomorrow.
        const DAY: u64 = 86_400;
        let left = DAY
            - SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_secs()
                % DAY;
        if left < 90 {
            tokio::time::sleep(Duration::from_secs(left + 1)).await;
        }
        let mock = Mock::start().await;
        let month = |spend: &str| json!({"max_budget": 10, "budget_duration": "30d", "spend": spend, "team_id": "t"});
        let keys = json!([
            key("spent", month("9.9999999999")),
            key("has-some", month("9")),
            key("other-time", json!({"max_budget": 10, "budget_duration": "1d", "spend": 11, "team_id": "t",
                "budget_reset_at": "2020-01-01T00:00:00Z"})),
            key("today", json!({"max_budget": 10, "budget_duration": "1d", "spend": 10.5, "team_id": "t"})),
            key("odd", month("many")),
            {"team_id": "t", "team_alias": "T", "models": [], "max_budget": 100, "budget_duration": "30d", "spend": 40},
            key("of-poor-team", json!({"team_id": "p"})),
            {"team_id": "p", "team_alias": "P", "models": [], "max_budget": 2, "budget_duration": "1d", "spend": 2},
        ]);
        let config = CONFIG.replace("BASE", &format!("http://{}/v1", mock.address()))
            + "    model_info: { input_cost_per_token: 1.0e-6, output_cost_per_token: 1.0e-6 }\n";
        let folder = Folder::new(&[("config.yaml", &config), ("keys.json", &keys.to_string())]);
        let import = [
            "import",
            "litellm",
            "config.yaml",
            "--keys",
            "keys.json",
            "--spend",
        ];
        let ran = folder.run(&import);
        assert_eq!(ran.status.code(), Some(1), "{}{}", ran.stdout, ran.stderr);
        // 10 + 9 + 10.5 of keys, and of the teams what is more than that: 40 - 29.5, and 2.
        assert!(
            ran.stdout.contains("data/ledger.sqlite: $42 for 3 keys"),
            "{}",
            ran.stdout
        );
        // No key counts as used.
        let listed: Value = serde_json::from_str(
            &folder
                .run(&["key", "list", "--conf", "portcullis-import", "--json"])
                .stdout,
        )
        .unwrap();
        let last_used: Vec<&Value> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|key| &key["last_used"])
            .collect();
        assert_eq!(last_used, [&Value::Null; 6], "{listed}");
        let made = |name: &str| {
            fs::read_to_string(folder.path().join("portcullis-import").join(name)).unwrap()
        };
        let ledger = folder
            .path()
            .join("data/ledger.sqlite")
            .display()
            .to_string();
        let gateway = Gateway::with(made("catalog.yaml"))
            .file(
                "catalog.d/litellm-keys.yaml",
                made("catalog.d/litellm-keys.yaml"),
            )
            .server(&format!("ledger: {{ path: {ledger} }}"))
            .start()
            .await;
        for (name, status) in [
            ("has-some", 200),
            ("spent", 429),
            ("other-time", 200),
            ("today", 429),
            ("odd", 401),
            ("of-poor-team", 429),
        ] {
            let answer = gateway
                .raw(client::post_as(&format!("sk-{name}"), &chat("m")))
                .await;
            assert_eq!(answer.status, status, "{name}: {}", answer.text());
            assert_eq!(
                answer.text().contains("insufficient_quota"),
                status == 429,
                "{name}: {}",
                answer.text()
            );
        }
        // Nothing is overwritten.
        let again = folder.run(&[&import[..], &["--out", "new"]].concat());
        assert_eq!((again.status.code(), again.stdout.as_str()), (Some(2), ""));
        assert!(
            again
                .stderr
                .contains("--spend: data/ledger.sqlite exists already"),
            "{}",
            again.stderr
        );
        assert!(!folder.path().join("new").exists());
        let inside = folder.run(
            &[
                &import[..5],
                &["--spend=./new/ledger.sqlite", "--out", "new"],
            ]
            .concat(),
        );
        assert_eq!(
            (inside.status.code(), inside.stdout.as_str()),
            (Some(2), "")
        );
        assert!(
            inside
                .stderr
                .contains("must not be in a configuration folder"),
            "{}",
            inside.stderr
        );
        let dry = folder.run(
            &[
                &import[..5],
                &["--spend=other.sqlite", "--dry-run", "--json"],
            ]
            .concat(),
        );
        let report: Value = serde_json::from_str(&dry.stdout).unwrap();
        assert_eq!(
            report["spent"].as_array().unwrap().len(),
            5,
            "{}",
            dry.stdout
        );
        let of_spend = |report: &Value| -> Vec<String> {
            let all = report["findings"].as_array().unwrap().iter();
            let all = all.filter(|finding| finding["path"].as_str().unwrap().ends_with(".spend"));
            all.map(|finding| finding["what"].as_str().unwrap().to_owned())
                .collect()
        };
        let is_carried = |what: &&String| what.starts_with("is in the new ledger");
        assert_eq!(
            of_spend(&report).iter().filter(is_carried).count(),
            5,
            "{report}"
        );
        // A budget that is dropped carries nothing, and the report says so.
        let unpriced = folder.path().join("unpriced.yaml");
        fs::write(&unpriced, CONFIG.replace("BASE", "http://127.0.0.1:9/v1")).unwrap();
        let loose = [
            "--spend=other.sqlite",
            "--dry-run",
            "--json",
            "--loosen",
            "prices",
        ];
        let dry = folder.run(
            &[
                &["import", "litellm", "unpriced.yaml", "--keys", "keys.json"][..],
                &loose,
            ]
            .concat(),
        );
        let report: Value = serde_json::from_str(&dry.stdout).unwrap();
        assert_eq!(report["spent"], json!([]), "{}", dry.stdout);
        assert_eq!(
            of_spend(&report).iter().filter(is_carried).count(),
            0,
            "{report}"
        );
        assert!(!folder.path().join("other.sqlite").exists());
    });
}

#[test]
fn s06_unreadable_files_are_refused_without_their_text() {
    let secret = "sk-canary-0123456789abcdef";
    let wrong = |config: &str, keys: &str, told: &str| {
        let folder = Folder::new(&[("config.yaml", config), ("keys.json", keys)]);
        let ran = folder.run(&["import", "litellm", "config.yaml", "--keys", "keys.json"]);
        assert_eq!(
            (ran.status.code(), ran.stdout.as_str()),
            (Some(2), ""),
            "{config}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains(told) && !ran.stderr.contains("canary"),
            "{told}: {}",
            ran.stderr
        );
        assert!(!folder.path().join("portcullis-import").exists());
    };
    let keys = "[]";
    wrong("", keys, "config.yaml:1: is empty");
    wrong("- a\n", keys, "config.yaml:1: must be a map");
    wrong(
        &format!("model_list:\n  - {{ api_key: {secret}\n"),
        keys,
        "config.yaml:2",
    );
    wrong(
        &format!("model_list: []\n{secret}: 1\n{secret}: 2\n"),
        keys,
        "config.yaml:3",
    );
    wrong(
        &format!("a: &x {secret}\nb: {{ <<: *x }}\n"),
        keys,
        "config.yaml:2",
    );
    wrong(&format!("a: !tag {secret}\n"), keys, "config.yaml:1");
    wrong(&"[".repeat(100_000), keys, "config.yaml:1");
    wrong(&format!("include: [{secret}.yaml]\n"), keys, "include[0]");
    wrong(
        "model_list: []\n",
        &format!("{{\"token\":\n\"{secret}\"\n"),
        "keys.json:3: is not JSON",
    );
    wrong(
        "model_list: []\n",
        &format!("[\"{secret}\"]"),
        "keys.json [0]: is only the name of a key",
    );
    wrong(
        "model_list: []\n",
        &format!("[{{\"x\": \"{secret}\"}}]"),
        "is no row of keys",
    );
    wrong(
        "model_list: []\n",
        &"[".repeat(100_000),
        "keys.json:1: is not JSON",
    );
    wrong("model_list: []\n", "", "is empty");
}
