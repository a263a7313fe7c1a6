//! The official OpenAI clients for Python and Node, pinned, against the gateway. The programs that
//! use them are in `tests/sdk/`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::support::canary::KEY;
use crate::support::process::Process;
use crate::support::script::{self, Script, finish};
use crate::support::{Catalog, Gateway, Mock, SLOWER, root, run_within};

const TIGHT_KEY: &str = "sk-CaNaRy-caller-tight-0123456789abcdefghijklmnopq";
const POOR_KEY: &str = "sk-CaNaRy-caller-poor-0123456789abcdefghijklmnopqr";

#[test]
fn sdk_python_3() {
    python("3.52.0");
}

#[test]
fn sdk_python_1() {
    python("1.109.1");
}

#[test]
fn sdk_node_7() {
    let node = installed("node");
    against_the_gateway(
        Command::new("node")
            .arg("tests/sdk/node/test_sdk.mjs")
            .env("SDK", node),
    );
}

fn python(version: &str) {
    let venv = installed(&format!("python-{version}"));
    against_the_gateway(Command::new(venv.join("bin/python")).arg("tests/sdk/python/test_sdk.py"));
}

/// Where `setup.sh` has put a client.
pub fn installed(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder");
    let place = target.join("sdk").join(name);
    assert!(
        place.join(".made-from").exists(),
        "{} is not there: run tests/sdk/setup.sh",
        place.display()
    );
    place
}

fn against_the_gateway(program: &mut Command) {
    run_within(Duration::from_secs(120), async {
        let mock = upstream().await;
        let gateway = Gateway::start(catalog(&mock)).await;
        program
            .env("BASE_URL", format!("http://{}/v1", gateway.address))
            .env("API_KEY", KEY);
        program
            .env("TIGHT_KEY", TIGHT_KEY)
            .env("POOR_KEY", POOR_KEY);
        program.env("NO_PROXY", "*").current_dir(root());
        let mut client = Process::spawn(program);
        // The mock runs on other threads meanwhile.
        let status = client
            .wait(Duration::from_secs(100) * SLOWER)
            .expect("the client's tests come to an end");
        let output = String::from_utf8_lossy(&client.stdout()).into_owned();
        print!("{output}");
        assert!(status.success(), "{output}{}", client.stderr());
    });
}

/// A model is an account of its own, so that the failures of one do not cool the others down.
const MODELS: &[&str] = &[
    "chat",
    "tools",
    "bad",
    "limited",
    "broken",
    "silent",
    "cut",
    "endless",
    "was-it-left",
];

fn catalog(mock: &Mock) -> Catalog {
    let catalog = MODELS.iter().fold(Catalog::new(), |catalog, id| {
        let more = if *id == "chat" {
            "aliases: [alias], price: { input: 1, output: 2 }"
        } else {
            ""
        };
        catalog.account(id, mock).model_with(id, &[id], more)
    });
    let catalog = catalog.caller(
        "tight",
        TIGHT_KEY,
        "limits: { tokens_per_minute: 5000, concurrency: 1 }",
    );
    // What a model costs whose price nobody knows cannot be limited.
    let poor = "models: [chat], limits: { usd_per_day: 0.000001 }";
    catalog
        .caller("poor", POOR_KEY, poor)
        .model("org/chat", &["chat"])
}

async fn upstream() -> Arc<Mock> {
    let mock = Arc::new(Mock::start().await);
    mock.on("bad", Script::error(400, "temperature is out of range"));
    mock.on(
        "limited",
        Script::error(429, "slow down").with("retry-after", "2"),
    );
    mock.on("broken", Script::error(500, "out of order"));
    mock.on("silent", Script::silent());
    mock.on("cut", Script::sse().words(0..2).close());
    mock.on("endless", Script::sse().words(0..2).stall());
    mock.on_by("tools", |request| {
        if request.json()["stream"] == true {
            tool_stream()
        } else {
            tool_answer()
        }
    });
    let seen = Arc::downgrade(&mock);
    mock.on_by("was-it-left", move |_| {
        let requests = seen.upgrade().expect("a mock that answers").requests();
        let mut endless = requests
            .iter()
            .filter(|request| request.model() == "endless")
            .peekable();
        let left = endless.peek().is_some() && endless.all(|request| request.left.is_some());
        Script::answer(if left { "yes" } else { "no" })
    });
    mock
}

fn tool_answer() -> Script {
    let mut answer = script::completion("");
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}});
    answer["choices"][0]["message"] =
        json!({"role": "assistant", "content": null, "tool_calls": [call]});
    answer["choices"][0]["finish_reason"] = json!("tool_calls");
    Script::json(200, &answer)
}

fn tool_stream() -> Script {
    let first = json!({"role": "assistant", "content": null, "tool_calls": [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}]});
    let more = |text: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]});
    Script::sse()
        .event(script::chunk(&first, None))
        .event(script::chunk(&more("{\"city\":"), None))
        .event(script::chunk(&more("\"Rome\"}"), None))
        .event(finish("tool_calls"))
        .event(script::usage(5))
        .done()
}
