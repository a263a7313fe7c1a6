//! Upstreams that others wrote; `make test-real` sets them up and runs this. They are llama.cpp's
//! own server, and LiteLLM's proxy over it. The proxy is a separate implementation of Anthropic's
//! and Gemini's formats, with faults of its own.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Connection, End, Response, content_of};
use crate::support::process::Process;
use crate::support::{Catalog, Gateway, chat, chat_stream, eventually, run_within};

#[test]
#[ignore = "needs llama.cpp's server, which takes minutes to build: make test-real"]
fn real_llama_cpp() {
    run_within(Duration::from_secs(240), async {
        let (llama, address) = llama().await;
        // A free look makes the model say nothing.
        crate::doctor::serves_chat(&format!("http://{address}/v1")).await;
        assert!(!llama.stderr().contains("llama_perf"), "{}", llama.stderr());
        let catalog =
            Catalog::new().account_at("llama", &format!("http://{address}/v1"), "key: none");
        let gateway = Gateway::with(catalog.model_with("tiny", &["llama=tiny"], ""))
            .upstream(address.port())
            .start()
            .await;

        chats(&gateway).await;
        streams(&gateway).await;
        passes_errors_on(&gateway).await;
        cancels(&gateway).await;
        assert!(llama.stderr().contains("llama_perf"), "{}", llama.stderr());

        let outcomes: Vec<_> = gateway
            .access_lines(6)
            .await
            .iter()
            .map(|line| line["outcome"].clone())
            .collect();
        assert_eq!(outcomes[..3], ["ok", "ok", "ok"]);
        assert_eq!(outcomes[4..], ["client_left", "ok"]);
    });
}

#[test]
#[ignore = "needs llama.cpp's server and LiteLLM's proxy, which take minutes to set up: make test-real"]
fn real_litellm() {
    run_within(Duration::from_secs(400), async {
        let (_llama, llama) = llama().await;
        let (_litellm, litellm) = litellm(llama).await;
        let key = "key: sk-master, timeouts: { first_byte: 60s }";
        let catalog = Catalog::new()
            .account_at(
                "anthropic",
                &format!("http://{litellm}/v1"),
                &format!("dialect: anthropic, {key}"),
            )
            .account_at(
                "gemini",
                &format!("http://{litellm}/v1beta"),
                &format!("dialect: gemini, {key}"),
            )
            .model_with("claude", &["anthropic=tiny"], "")
            .model_with("canned", &["anthropic=canned"], "")
            .model_with("gem", &["gemini=tiny"], "");
        let gateway = Gateway::with(catalog)
            .upstream(litellm.port())
            .start()
            .await;
        for model in ["claude", "gem"] {
            let answer = gateway.post(&asking(chat(model), 8)).await;
            assert_eq!(answer.status, 200, "{model}: {}", answer.text());
            let body = answer.json();
            assert_eq!(
                (&body["object"], &body["model"]),
                (&json!("chat.completion"), &json!(model))
            );
            assert!(!answer.content().is_empty(), "{model}: {body}");
            assert_eq!(
                body["choices"][0]["finish_reason"], "length",
                "{model}: {body}"
            );
            assert_eq!(body["usage"]["completion_tokens"], 8, "{model}: {body}");

            let mut ask = asking(chat_stream(model), 8);
            ask["stream_options"] = json!({"include_usage": true});
            let stream = gateway.post(&ask).await;
            let events = stream.events();
            assert_eq!(
                (stream.status, events.last().map(String::as_str)),
                (200, Some("[DONE]")),
                "{model}: {}",
                stream.text()
            );
            assert!(!stream.content().is_empty(), "{model}: {}", stream.text());
            let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
            let count = |name: &str| {
                usage["usage"][name]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{model}: {usage}"))
            };
            // It counts wrongly, but never nothing: where it says zero, we estimate, and say so.
            assert!(
                count("prompt_tokens") > 0 && count("completion_tokens") > 0,
                "{model}: {usage}"
            );
            assert_eq!(
                count("total_tokens"),
                count("prompt_tokens") + count("completion_tokens")
            );
        }
        // It answers a stream's request with plain JSON here: made into a stream.
        let canned = gateway.post(&chat_stream("canned")).await;
        assert_eq!(
            canned.events().last().map(String::as_str),
            Some("[DONE]"),
            "{}",
            canned.text()
        );
        assert_eq!(canned.content(), "hello from the mock");
        // A request that it cannot serve, and what it says after that: errors, in the standard's
        // own words.
        let mut long = chat("claude");
        long["messages"][0]["content"] = json!("day ".repeat(4000));
        for _ in 0..2 {
            let refused = gateway.post(&long).await;
            let error = &refused.json()["error"];
            assert!(
                refused.status >= 400 && error["message"].is_string() && error["type"].is_string(),
                "{}",
                refused.text()
            );
            assert!(!refused.text().contains("sk-master"), "{}", refused.text());
        }
    });
}

#[test]
#[ignore = "needs llama.cpp's server and LiteLLM's proxy, which take minutes to set up: make test-real"]
fn real_vectors_and_continuations() {
    run_within(Duration::from_secs(400), async {
        let (_llama, llama) = llama_with(&["--embedding", "true"]).await;
        let (_litellm, litellm) = litellm(llama).await;
        let catalog = Catalog::new()
            .account_at("llama", &format!("http://{llama}/v1"), "key: none")
            .account_at("litellm", &format!("http://{litellm}/v1"), "key: sk-master")
            .model_with("tiny", &["llama=tiny"], "")
            .model_with("through", &["litellm=vectors"], "");
        let gateway = Gateway::with(catalog)
            .upstream(llama.port())
            .upstream(litellm.port())
            .start()
            .await;
        for (model, upstream, name, key) in [
            ("tiny", llama, "tiny", "none"),
            ("through", litellm, "vectors", "sk-master"),
        ] {
            let body = |model: &str| json!({"model": model, "input": ["one day", "another"]});
            let answer = post(gateway.address, KEY, "/v1/embeddings", &body(model)).await;
            assert_eq!(answer.status, 200, "{model}: {}", answer.text());
            let own = post(upstream, key, "/v1/embeddings", &body(name)).await;
            let vectors = |answer: &Response| -> Vec<Value> {
                answer.json()["data"]
                    .as_array()
                    .expect("data")
                    .iter()
                    .map(|one| one["embedding"].clone())
                    .collect()
            };
            assert_eq!(vectors(&answer), vectors(&own), "{model}");
            assert!(
                vectors(&answer).len() == 2
                    && vectors(&answer)[0]
                        .as_array()
                        .is_some_and(|one| one.len() > 8)
            );
            assert_eq!(answer.json()["model"], model);
        }
        let asks = |stream: bool| json!({"model": "tiny", "prompt": "one day", "max_tokens": 8, "temperature": 0, "stream": stream});
        let whole = post(gateway.address, KEY, "/v1/completions", &asks(false)).await;
        let text = whole.json()["choices"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned();
        assert_eq!(
            (whole.status, text.is_empty()),
            (200, false),
            "{}",
            whole.text()
        );
        let stream = post(gateway.address, KEY, "/v1/completions", &asks(true)).await;
        let events = stream.events();
        assert_eq!(
            events.last().map(String::as_str),
            Some("[DONE]"),
            "{}",
            stream.text()
        );
        let pieces = events
            .iter()
            .filter_map(|event| serde_json::from_str::<Value>(event).ok());
        let told: String = pieces
            .filter_map(|piece| Some(piece["choices"][0]["text"].as_str()?.to_owned()))
            .collect();
        assert_eq!(told, text);
        let outcomes: Vec<_> = gateway
            .access_lines(4)
            .await
            .iter()
            .map(|line| line["outcome"].clone())
            .collect();
        assert_eq!(outcomes, ["ok"; 4]);
    });
}

async fn post(address: SocketAddr, key: &str, path: &str, body: &Value) -> Response {
    let authorization = format!("Bearer {key}");
    let fields = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    let mut connection = Connection::plain(address, None).await;
    connection
        .send(client::request(
            "POST",
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await;
    connection.response().await
}

async fn litellm(llama: SocketAddr) -> (Process, SocketAddr) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder")
        .join("real");
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("litellm-{}.yaml", address.port()));
    let yaml = include_str!("../real/litellm.yaml").replace("LLAMA", &llama.to_string());
    std::fs::write(&config, yaml).expect("a configuration");
    let mut command = Command::new(place.join("litellm/bin/litellm"));
    command
        .env("LITELLM_MODE", "PRODUCTION")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    // Its own look-ups at start must not be waited for where there is no network.
    command
        .env("NO_PROXY", "127.0.0.1")
        .arg("--config")
        .arg(&config);
    command.args([
        "--host",
        "127.0.0.1",
        "--telemetry",
        "False",
        "--port",
        &address.port().to_string(),
    ]);
    let server = Process::spawn(&mut command);
    for _ in 0..30 {
        let up = tokio::time::timeout(Duration::from_secs(9), async {
            eventually("it listens", || {
                std::net::TcpStream::connect(address).is_ok().then_some(())
            })
            .await;
        });
        if up.await.is_ok() {
            return (server, address);
        }
    }
    panic!("LiteLLM's proxy does not listen: {}", server.stderr())
}

async fn chats(gateway: &Gateway) {
    let answer = gateway.post(&asking(chat("tiny"), 8)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = answer.json();
    assert_eq!(
        (&body["object"], &body["model"]),
        (&json!("chat.completion"), &json!("tiny"))
    );
    assert_eq!(body["choices"][0]["message"]["role"], "assistant");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["usage"]["completion_tokens"], 8);
    assert_eq!(answer.field("x-portcullis-usage"), None);
}

/// It counts nothing in streams, so what callers are told is an estimate, and says so.
async fn streams(gateway: &Gateway) {
    let silent = gateway.post(&asking(chat_stream("tiny"), 8)).await;
    assert_eq!(
        (silent.status, silent.end),
        (200, Some(End::Whole)),
        "{}",
        silent.text()
    );
    assert_eq!(silent.events().last().unwrap(), "[DONE]");
    assert!(!silent.text().contains("usage"), "{}", silent.text());

    let mut ask = asking(chat_stream("tiny"), 8);
    ask["stream_options"] = json!({"include_usage": true});
    let counted = gateway.post(&ask).await;
    let events = counted.events();
    let [.., finish, usage, done] = events.as_slice() else {
        panic!("{events:?}")
    };
    let (finish, usage): (Value, Value) = (
        serde_json::from_str(finish).unwrap(),
        serde_json::from_str(usage).unwrap(),
    );
    assert_eq!(
        (
            finish["choices"][0]["finish_reason"].as_str(),
            done.as_str()
        ),
        (Some("length"), "[DONE]")
    );
    assert_eq!(usage["x_portcullis"]["usage"], "estimated", "{usage}");
    let (prompt, completion) = (
        &usage["usage"]["prompt_tokens"],
        &usage["usage"]["completion_tokens"],
    );
    assert_eq!(
        usage["usage"]["total_tokens"].as_u64(),
        Some(prompt.as_u64().unwrap() + completion.as_u64().unwrap())
    );
    assert!(!counted.content().is_empty());
}

async fn passes_errors_on(gateway: &Gateway) {
    let mut long = chat("tiny");
    long["messages"][0]["content"] = json!("day ".repeat(4000));
    let answer = gateway.post(&long).await;
    answer.is_error(400, "context_length_exceeded");
}

/// It makes one answer at a time: that the next one comes shows that it has stopped making this
/// one.
async fn cancels(gateway: &Gateway) {
    let (mut connection, mut head) = gateway.open(&asking(chat_stream("tiny"), 1500)).await;
    let mut words = 0;
    while words < 3 {
        words += usize::from(
            !content_of(&connection.event(&mut head).await.expect("an event").data).is_empty(),
        );
    }
    drop(connection);
    gateway.idle().await;
    assert_eq!(gateway.post(&asking(chat("tiny"), 1)).await.status, 200);
}

fn asking(mut body: Value, max_tokens: u32) -> Value {
    body["max_tokens"] = max_tokens.into();
    body
}

async fn llama() -> (Process, SocketAddr) {
    llama_with(&[]).await
}

async fn llama_with(more: &[&str]) -> (Process, SocketAddr) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder")
        .join("real");
    let hint = "llama.cpp's server is not there: run make test-real";
    assert!(place.join(".made-from").exists(), "{hint}");
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let port = address.port().to_string();
    let mut command = Command::new(place.join("venv/bin/python"));
    command
        .args([
            "-m",
            "llama_cpp.server",
            "--host",
            "127.0.0.1",
            "--n_ctx",
            "2048",
            "--port",
            &port,
        ])
        .args(more)
        .arg("--model");
    let server = Process::spawn(command.arg(place.join("tiny.gguf")));
    // Python takes some seconds to load it.
    for _ in 0..30 {
        let up = tokio::time::timeout(Duration::from_secs(9), async {
            eventually("it listens", || {
                std::net::TcpStream::connect(address).is_ok().then_some(())
            })
            .await;
        });
        if up.await.is_ok() {
            return (server, address);
        }
    }
    panic!("llama.cpp's server does not listen: {}", server.stderr())
}
