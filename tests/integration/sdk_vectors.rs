//! Clients and libraries that ask for vectors, pinned, with their defaults, in front of upstreams
//! of several dialects. Each gets the numbers that the upstream sent. The programs that use them
//! are
//! `tests/sdk/python/test_vectors.py` and `tests/sdk/node/test_vectors.mjs`.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::mock::Request;
use crate::support::process::Process;
use crate::support::{Catalog, Gateway, Mock, SLOWER, Script, root, run_within};

const DIALECTS: [&str; 4] = ["openai", "gemini", "cohere", "ollama"];
const TEXTS: [&str; 2] = ["a river", "trees, bees and eels"];

#[test]
fn python_clients_get_vectors() {
    let venv = installed("python-vectors");
    get_vectors(
        Command::new(venv.join("bin/python")).arg("tests/sdk/python/test_vectors.py"),
        6,
    );
}

#[test]
fn node_clients_get_vectors() {
    get_vectors(
        Command::new("node")
            .arg("tests/sdk/node/test_vectors.mjs")
            .env("SDK", installed("node")),
        3,
    );
}

fn get_vectors(program: &mut Command, clients: usize) {
    run_within(Duration::from_secs(180), async {
        let mock = Mock::start().await;
        mock.by(answer);
        let catalog = DIALECTS.iter().fold(Catalog::new(), |catalog, dialect| {
            let path = if *dialect == "openai" { "/v1" } else { "" };
            let base = format!("http://{}{path}", mock.address());
            let model = format!("{dialect}-embed");
            let target = format!("{dialect}={dialect}-up");
            catalog
                .account_at(dialect, &base, &format!("dialect: {dialect}"))
                .model(&model, &[&target])
        });
        let gateway = Gateway::start(catalog).await;
        let models = DIALECTS.map(|dialect| format!("{dialect}-embed"));
        program
            .env("BASE_URL", format!("http://{}", gateway.address))
            .env("MODELS", models.join(" "));
        program
            .env("API_KEY", KEY)
            .env("NO_PROXY", "*")
            .current_dir(root());
        let mut client = Process::spawn(program);
        // The mock runs on other threads meanwhile.
        let status = client
            .wait(Duration::from_secs(150) * SLOWER)
            .expect("the program comes to an end");
        let printed = String::from_utf8_lossy(&client.stdout()).into_owned();
        assert!(status.success(), "{printed}{}", client.stderr());
        let lines: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), DIALECTS.len() * clients, "{printed}");
        for line in &lines {
            assert_eq!(line["vectors"], json!(TEXTS.map(vector)), "{line}");
        }
    });
}

/// The vector of a text: numbers that are the same with 32 and 64 bits.
fn vector(text: &str) -> [f64; 3] {
    let count = |letter: char| u8::try_from(text.matches(letter).count()).map_or(0.0, f64::from);
    [
        count('e') + 0.5,
        count('r') - 0.25,
        count('a') / 8.0 + 0.125,
    ]
}

fn answer(request: &Request) -> Script {
    let asked: Value = request.json();
    let list = |name: &str| match &asked[name] {
        Value::String(one) => vec![one.clone()],
        many => many
            .as_array()
            .expect("texts")
            .iter()
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect(),
    };
    let vectors = |texts: Vec<String>| texts.iter().map(|text| vector(text)).collect::<Vec<_>>();
    Script::json(
        200,
        &match request.target.as_str() {
            "/v1/embeddings" => {
                let data = vectors(list("input")).into_iter().enumerate();
                let data =
                    data.map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}));
                json!({"object": "list", "model": "openai-up", "data": data.collect::<Vec<_>>(),
                    "usage": {"prompt_tokens": 7, "total_tokens": 7}})
            }
            "/embed" => json!({"embeddings": {"float": vectors(list("texts"))},
                "meta": {"billed_units": {"input_tokens": 7}}}),
            "/api/embed" => json!({"embeddings": vectors(list("input")), "prompt_eval_count": 7}),
            target if target.starts_with("/models/gemini-up:") => {
                let requests = asked["requests"]
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![asked.clone()]);
                let text = |one: &Value| {
                    one["content"]["parts"][0]["text"]
                        .as_str()
                        .expect("a text")
                        .to_owned()
                };
                let values: Vec<_> = vectors(requests.iter().map(text).collect())
                    .into_iter()
                    .map(|one| json!({"values": one}))
                    .collect();
                if target.ends_with(":embedContent") {
                    json!({"embedding": values[0], "usageMetadata": {"promptTokenCount": 7}})
                } else {
                    json!({"embeddings": values, "usageMetadata": {"promptTokenCount": 7}})
                }
            }
            _ => return Script::error(404, "no such path"),
        },
    )
}
