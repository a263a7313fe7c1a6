//! `portcullis import litellm` beside LiteLLM itself, with its own examples and its own keys;
//! `make test-real` sets it up and runs this.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::import::untold;
use crate::support::canary::hash;
use crate::support::client;
use crate::support::folder::Folder;
use crate::support::gateway::{BINARY, portcullis};
use crate::support::{Gateway, Mock, chat, root, run_within};
use portcullis_import::{Finding, Grade};

/// What the examples read from the environment.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("FAKE_OPENAI_API_BASE", "https://fake.example.com/v1"),
    ("AZURE_API_BASE", "https://acme.openai.azure.com"),
    ("AZURE_AI_API_BASE", "https://acme.services.ai.azure.com"),
    ("RECORDER_COHERE_BASE_URL", "https://cohere.example.com"),
    ("VERTEXAI_PROJECT", "my-project"),
    ("REDIS_HOST", "localhost"),
    ("REDIS_PORT", "6379"),
    ("OPENAI_API_KEY", "none"),
    ("ANTHROPIC_API_KEY", "none"),
    ("AZURE_API_KEY", "none"),
];

fn place() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder")
        .join("real/litellm");
    assert!(place.exists(), "LiteLLM is not there: run make test-real");
    place
}

fn python(script: &str, arguments: &[String]) -> String {
    let script = root().join("tests/real").join(script);
    let mut command = Command::new(place().join("bin/python"));
    command
        .arg(script)
        .args(arguments)
        .envs(ENVIRONMENT)
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    let output = command.output().expect("python");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A model and an address: where a request goes.
type Place = (String, String);

/// Turns what LiteLLM says into a model and the beginning of a URL.
fn theirs(place: &Value) -> Place {
    let part = |index: usize| place[index].as_str().unwrap_or_default();
    let (provider, model, base) = (part(0), part(1), part(2).trim_end_matches('/'));
    let or = |standard: &str| {
        if base.is_empty() {
            standard.to_owned()
        } else {
            base.to_owned()
        }
    };
    let address = match provider {
        "openai" => or("https://api.openai.com/v1"),
        "anthropic" => or("https://api.anthropic.com"),
        "bedrock" if base.is_empty() => {
            let region = if part(3).is_empty() {
                "us-west-2"
            } else {
                part(3)
            };
            format!("https://bedrock-runtime.{region}.amazonaws.com")
        }
        "vertex_ai" if part(4) == "global" => "https://aiplatform.googleapis.com".to_owned(),
        "vertex_ai" => format!("https://{}-aiplatform.googleapis.com", part(4)),
        "gemini" => or("https://generativelanguage.googleapis.com"),
        "ollama" | "ollama_chat" => or("http://127.0.0.1:11434"),
        "openrouter" => or("https://openrouter.ai/api/v1"),
        _ => base.to_owned(),
    };
    let model = ["converse/", "invoke/"]
        .iter()
        .find_map(|way| model.strip_prefix(way))
        .unwrap_or(model);
    (model.to_owned(), address.replace("localhost", "127.0.0.1"))
}

/// Returns where Portcullis sends a request for a chat.
fn ours(conf: &str, model: &str, folder: &Folder) -> BTreeSet<Place> {
    folder.write("request.json", chat(model).to_string());
    let request = folder.path().join("request.json");
    let out = portcullis(&[
        "explain",
        "--conf",
        conf,
        "--key",
        "t/k",
        "--json",
        request.to_str().unwrap(),
    ]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let candidates = report["candidates"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    candidates
        .iter()
        .filter(|one| one["for"] == "any" && !one["request"].is_null())
        .map(|one| {
            (
                text(&one["upstream_model"]),
                text(&one["request"]["url"]).replace("localhost", "127.0.0.1"),
            )
        })
        .collect()
}

/// Returns whether both go to the same models at the same addresses.
fn is_same(theirs: &BTreeSet<Place>, ours: &BTreeSet<Place>) -> bool {
    let goes = |one: &Place, url: &str, model: &str| {
        one.0 == model && url.starts_with(&one.1) && !one.1.is_empty()
    };
    theirs
        .iter()
        .all(|one| ours.iter().any(|(model, url)| goes(one, url, model)))
        && ours
            .iter()
            .all(|(model, url)| theirs.iter().any(|one| goes(one, url, model)))
}

#[test]
#[ignore = "needs LiteLLM's package: make test-real"]
fn real_examples_of_litellm_go_where_litellm_sends_them() {
    let list = include_str!("../real/litellm_examples.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let lib = fs::read_dir(place().join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let proxy = lib.join("site-packages/litellm/proxy");
    let files: Vec<PathBuf> = list.map(|name| proxy.join(name)).collect();
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let mut asked: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in python("litellm_routes.py", &names)
        .lines()
        .filter(|line| line.starts_with('{'))
    {
        let line: Value = serde_json::from_str(line).unwrap();
        asked
            .entry(line["file"].as_str().unwrap().to_owned())
            .or_default()
            .push(line);
    }
    let (mut fine, mut same) = (0, 0);
    for (file, name) in files.iter().zip(&names) {
        let folder = Folder::new(&[]);
        let conf = folder.path().join("made");
        let conf = conf.to_str().unwrap();
        let mut import = Command::new(BINARY);
        import
            .args(["import", "litellm", name, "--out", conf, "--json"])
            .envs(ENVIRONMENT);
        let out = import.output().unwrap();
        assert!(
            out.status.code().is_some_and(|code| code < 2),
            "{name}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings: Vec<Finding> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| Finding {
                file: text(&one["file"]),
                line: None,
                path: text(&one["path"]),
                grade: Grade::Exact,
                message: String::new(),
                became: String::new(),
                unset: None,
                after: None,
            })
            .collect();
        let short = file.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            untold(short, &fs::read_to_string(file).unwrap(), &findings),
            Vec::<String>::new(),
            "{short}"
        );
        let is_fine = portcullis(&["check", "--no-secrets", "--conf", conf])
            .status
            .success();
        fine += usize::from(is_fine);
        let caller = format!(
            "callers: {{ t: {{ keys: {{ k: {{ hash: \"{}\" }} }} }} }}\n",
            hash("sk-test")
        );
        folder.write("made/catalog.d/test.yaml", caller);
        let (mut differs, mut compared) = (Vec::new(), 0);
        for one in asked.get(name).into_iter().flatten() {
            let theirs: BTreeSet<Place> = one["places"]
                .as_array()
                .unwrap()
                .iter()
                .map(theirs)
                .collect();
            // A pattern needs the provider's list, which a test has not.
            if theirs.is_empty() || one["model"].as_str().unwrap().contains('*') {
                continue;
            }
            compared += 1;
            let ours = ours(conf, one["asked"].as_str().unwrap(), &folder);
            if !is_same(&theirs, &ours) {
                differs.push(format!(
                    "{}: LiteLLM {theirs:?}, here {ours:?}",
                    one["model"]
                ));
            }
        }
        let is_same = differs.is_empty();
        same += usize::from(is_same && is_fine && compared > 0);
        println!(
            "{short}: check {is_fine}, {compared} models compared, {} differ",
            differs.len()
        );
        differs.iter().for_each(|line| println!("    {line}"));
    }
    println!(
        "{fine} of {} pass check, {same} go where LiteLLM sends them",
        files.len()
    );
    assert!(2 * fine >= files.len() && 2 * same >= files.len());
}

#[test]
#[ignore = "needs LiteLLM's package: make test-real"]
fn real_keys_of_litellm_answer_at_once() {
    const KEYS: usize = 1_000;
    run_within(Duration::from_secs(300), async {
        let mock = Mock::start().await;
        let config = json!({"model_list": [{"model_name": "m", "litellm_params": {
            "model": "openai/m", "api_base": format!("http://{}/v1", mock.address()), "api_key": "os.environ/PATH",
            "input_cost_per_token": 0, "output_cost_per_token": 0,
        }}]});
        let folder = Folder::new(&[("config.yaml", &config.to_string())]);
        python(
            "litellm_keys.py",
            &[KEYS.to_string(), folder.path().display().to_string()],
        );
        let ran = folder.run(&[
            "import",
            "litellm",
            "config.yaml",
            "--keys",
            "keys.json",
            "teams.json",
            "--json",
        ]);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(
            report["keys"],
            json!({"found": KEYS, "work": KEYS}),
            "{}",
            report["switched_off"]
        );
        let read = |name: &str| {
            fs::read_to_string(folder.path().join("portcullis-import").join(name)).unwrap()
        };
        let gateway = Gateway::with(read("catalog.yaml"))
            .file(
                "catalog.d/litellm-keys.yaml",
                read("catalog.d/litellm-keys.yaml"),
            )
            .start()
            .await;
        let secrets = fs::read_to_string(folder.path().join("secrets.txt")).unwrap();
        let mut answered = 0;
        for secret in secrets.lines() {
            let answer = gateway.raw(client::post_as(secret, &chat("m"))).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            answered += 1;
        }
        println!("{answered} keys of LiteLLM's own code answer");
        assert_eq!(answered, KEYS);
    });
}
