//! The time that the official clients keep their caller waiting for each refusal, and how often
//! they ask meanwhile. The client is `OpenAI()` without any setting. The table of retries in
//! `docs/src/errors.md` has what is measured here.
//!
//! Each row is a model with accounts of its own, and all are asked side by side. The programs are
//! in `tests/sdk/`: they ask once for each row, and report the seconds until the end.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::sdk::installed;
use crate::support::canary::KEY;
use crate::support::gateway::free_port;
use crate::support::process::Process;
use crate::support::{
    Catalog, Gate, Gateway, Mock, SLOWER, Script, chat, eventually, eventually_within, root,
    run_within,
};

#[test]
fn sdk_waits_python_3() {
    python("3.52.0");
}

#[test]
fn sdk_waits_python_1() {
    python("1.109.1");
}

#[test]
fn sdk_waits_node_7() {
    let node = installed("node");
    every_wait_has_its_end(
        Command::new("node")
            .arg("tests/sdk/node/test_waits.mjs")
            .env("SDK", node),
    );
}

fn python(version: &str) {
    let venv = installed(&format!("python-{version}"));
    every_wait_has_its_end(
        Command::new(venv.join("bin/python")).arg("tests/sdk/python/test_waits.py"),
    );
}

/// A model, and what asking for it once must come to.
struct Row {
    model: &'static str,
    /// What the client's caller sees in the end.
    status: u16,
    /// Requests that the client sends us, and tries of ours at an account for them.
    requests: usize,
    asked: usize,
    /// It takes so many seconds at least, and at most: what it does by itself, and some for a busy
    /// machine.
    least: f64,
    most: f64,
}

const fn row(
    model: &'static str,
    status: u16,
    requests: usize,
    asked: usize,
    least: f64,
    most: f64,
) -> Row {
    Row {
        model,
        status,
        requests,
        asked,
        least,
        most,
    }
}

/// More than any wait that is right here takes, and a third of the one that this is about: 120 s.
const SLOW: f64 = 35.0;
/// Without a word from us the clients wait 0.5 and 1 s, a quarter less by chance.
const OWN_PACE: f64 = 1.1;

const ROWS: &[Row] = &[
    // Nothing changes by itself.
    row("wrong-key", 503, 1, 1, 0.0, SLOW),
    row("wrong-key-known", 503, 1, 0, 0.0, SLOW),
    row("no-money", 503, 1, 1, 0.0, SLOW),
    row("no-quota", 503, 1, 1, 0.0, SLOW),
    row("two-wrong-keys", 503, 1, 2, 0.0, SLOW),
    row("no-such-model-known", 503, 1, 0, 0.0, SLOW),
    row("limited-for-an-hour", 429, 1, 1, 0.0, SLOW),
    // It may.
    row("wrong-key-and-limited", 200, 2, 2, 1.0, SLOW),
    row("nobody-there", 503, 3, 3, 9.9, SLOW),
    row("starts-again", 200, 2, 2, 4.9, SLOW),
    row("no-such-model", 502, 3, 3, OWN_PACE, SLOW),
    row("limited", 429, 3, 3, 2.0, SLOW),
    row("limited-known", 200, 2, 1, 1.0, SLOW),
    row("full", 503, 3, 0, 2.0, SLOW),
    row("out-of-order", 502, 3, 3, OWN_PACE, SLOW),
    row("two-out-of-order", 502, 1, 2, 0.0, SLOW),
    row("no-answer", 502, 3, 3, OWN_PACE, SLOW),
    row("too-slow", 504, 3, 3, OWN_PACE + 0.9, SLOW),
];

/// Whose last target has another model's name: it was asked before.
const BEFORE: &[&str] = &[
    "wrong-key-known",
    "no-such-model-known",
    "no-such-model-known",
    "no-such-model-known",
    "limited-before",
    "limited-known",
];

async fn upstream(gate: &Gate) -> Arc<Mock> {
    let mock = Arc::new(Mock::start().await);
    for model in ["wrong-key", "wrong-key-known", "two-wrong-keys"] {
        mock.on(model, Script::error(401, "Incorrect API key provided"));
    }
    mock.on("no-money", Script::error(402, "pay first"));
    let quota = json!({"error": {"message": "no quota", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}});
    mock.on("no-quota", Script::json(429, &quota));
    for model in ["no-such-model", "no-such-model-known"] {
        mock.on(model, Script::error(404, "never heard of it"));
    }
    mock.on(
        "limited-for-an-hour",
        Script::error(429, "come back tomorrow").with("retry-after", "3600"),
    );
    mock.on(
        "limited",
        Script::error(429, "slow down").with("retry-after", "1"),
    );
    // Limited, and then not; of the first a credential is refused elsewhere.
    for model in ["limited-before", "limited-known"] {
        let seen = Arc::downgrade(&mock);
        mock.on_by(model, move |request| {
            let before = seen.upgrade().expect("a mock that answers").requests();
            let is_first = !before
                .iter()
                .any(|other| other.number < request.number && other.model() == model);
            if is_first {
                Script::error(429, "slow down").with("retry-after", "20")
            } else {
                Script::answer("back")
            }
        });
    }
    let held = gate.clone();
    mock.on_by("full", move |_| {
        Script::new().wait(&held).then_answer("first")
    });
    for model in ["out-of-order", "two-out-of-order"] {
        mock.on(model, Script::error(500, "out of order"));
    }
    mock.on(
        "no-answer",
        Script::text(200, "text/html", "<html>a portal</html>"),
    );
    mock.on("too-slow", Script::silent());
    mock
}

fn catalog(mock: &Mock, nobody: &str, restarts: &str) -> Catalog {
    let alone = [
        "wrong-key",
        "wrong-key-known",
        "no-money",
        "no-quota",
        "no-such-model",
        "no-such-model-known",
        "limited-for-an-hour",
        "limited",
        "limited-known",
        "out-of-order",
        "no-answer",
    ];
    let catalog = alone.iter().fold(Catalog::new(), |catalog, id| {
        catalog.account(id, mock).model(id, &[id])
    });
    catalog
        .account("wrong-1", mock)
        .account("wrong-2", mock)
        .model("two-wrong-keys", &["wrong-1", "wrong-2"])
        .account("broken-1", mock)
        .account("broken-2", mock)
        .model("two-out-of-order", &["broken-1", "broken-2"])
        .account("wrong-3", mock)
        .account("limits", mock)
        .model("limited-before", &["limits"])
        .model(
            "wrong-key-and-limited",
            &["wrong-3=wrong-key", "limits=limited-before"],
        )
        .account_with("full", mock, "concurrency: 1")
        .model("full", &["full"])
        .account_with("too-slow", mock, "timeouts: { total: 300ms }")
        .model("too-slow", &["too-slow"])
        .account_at("nobody-there", nobody, "")
        .model("nobody-there", &["nobody-there"])
        .account_at("starts-again", restarts, "")
        .model("starts-again", &["starts-again"])
}

fn every_wait_has_its_end(program: &mut Command) {
    run_within(Duration::from_secs(150), async {
        let gate = Gate::new();
        let mock = upstream(&gate).await;
        let (nobody, restarts) = (Mock::refusing().await, free_port());
        let gateway = Gateway::with(catalog(
            &mock,
            &nobody.base_url(),
            &format!("http://{restarts}/v1"),
        ))
        .upstream(restarts.port())
        .start()
        .await;
        for model in BEFORE {
            assert!(gateway.post(&chat(model)).await.status >= 400, "{model}");
        }
        let holder = chat("full");
        let (held, ()) = tokio::join!(gateway.post(&holder), async {
            eventually("the place is taken", || {
                mock.requests()
                    .iter()
                    .any(|request| request.model() == "full")
                    .then_some(())
            })
            .await;
            let told = ask(program, &gateway, restarts).await;
            check(&told, &gateway).await;
            gate.open();
        });
        assert_eq!(held.content(), "first");
    });
}

/// Lets the client ask for each; a server that was not there when it was asked first is there the
/// second time.
async fn ask(program: &mut Command, gateway: &Gateway, restarts: SocketAddr) -> Vec<Value> {
    let models: Vec<&str> = ROWS.iter().map(|row| row.model).collect();
    program
        .env("OPENAI_BASE_URL", format!("http://{}/v1", gateway.address))
        .env("OPENAI_API_KEY", KEY)
        .env("MODELS", models.join(" "));
    program.env("NO_PROXY", "*").current_dir(root());
    let mut client = Process::spawn(program);
    let was_asked = || {
        gateway
            .lines()
            .iter()
            .any(|line| line["model"] == "starts-again")
            .then_some(())
    };
    // The client is a program that first has to start, and asks for other models before.
    eventually_within(
        Duration::from_secs(120) * SLOWER,
        "the server that is not there is asked",
        was_asked,
    )
    .await;
    let _server = Mock::at(restarts).await;
    // The mocks run on other threads meanwhile.
    let status = client
        .wait(Duration::from_secs(120) * SLOWER)
        .expect("the client comes to an end");
    let output = String::from_utf8_lossy(&client.stdout()).into_owned();
    assert!(status.success(), "{output}{}", client.stderr());
    output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}")))
        .collect()
}

async fn check(told: &[Value], gateway: &Gateway) {
    // The one that holds the place is still running.
    let before = BEFORE.len();
    let all = gateway
        .access_lines_at_least(before + ROWS.iter().map(|row| row.requests).sum::<usize>())
        .await;
    let mut wrong = Vec::new();
    for row in ROWS {
        let one = told
            .iter()
            .find(|one| one["model"] == row.model)
            .unwrap_or_else(|| panic!("nothing of {}: {told:?}", row.model));
        let (status, seconds) = (
            one["status"].as_u64().unwrap_or_default(),
            one["seconds"].as_f64().unwrap_or(f64::MAX),
        );
        let lines: Vec<_> = all
            .iter()
            .skip(before)
            .filter(|line| line["model"] == row.model)
            .collect();
        let (requests, asked) = (
            lines.len(),
            lines
                .iter()
                .map(|line| line["attempts"].as_array().map_or(0, Vec::len))
                .sum::<usize>(),
        );
        println!(
            "{:24} {status} after {seconds:6.2} s, {requests} requests, {asked} upstream",
            row.model
        );
        let right = (u64::from(row.status), row.requests, row.asked) == (status, requests, asked);
        if !right || seconds < row.least || seconds > row.most {
            wrong.push(format!(
                "{}: {status} after {seconds:.2} s, {requests} requests, {asked} upstream; should be {} after {} to {} s, {} and {}",
                row.model, row.status, row.least, row.most, row.requests, row.asked
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
