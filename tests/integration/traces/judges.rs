//! Receivers of spans that others wrote.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::{end, two, with};
use crate::sdk::installed;
use crate::support::client::{self, Connection};
use crate::support::folder::Folder;
use crate::support::gateway::free_port;
use crate::support::process::Process;
use crate::support::{Gateway, Mock, Script, eventually, run_within};

/// Returns the value of an attribute in OTLP's JSON.
fn attribute(span: &Value, name: &str) -> Option<String> {
    let all = span["attributes"].as_array().expect("attributes");
    let value = &all.iter().find(|one| one["key"] == name)?["value"];
    let value = value
        .as_object()
        .expect("a value")
        .values()
        .next()
        .expect("a value");
    Some(
        value
            .as_str()
            .map_or_else(|| value.to_string(), ToOwned::to_owned),
    )
}

#[test]
fn an_independent_receiver_reads_what_is_sent() {
    run_within(Duration::from_secs(120), async {
        let (bad, good, address) = (Mock::start().await, Mock::start().await, free_port());
        bad.always(Script::error(500, "no"));
        let tap = installed("python-oteltap").join("bin/oteltap");
        let tap = Process::spawn(Command::new(tap).args(["--port", &address.port().to_string()]));
        eventually("oteltap listens", || {
            std::net::TcpStream::connect(address).ok()
        })
        .await;
        let traces = format!("traces: {{ endpoint: \"http://{address}\" }}");
        let setup = Gateway::with(two(&bad, &good, ""))
            .server(&traces)
            .upstream(address.port());
        let gateway = setup.start().await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        let line = gateway.line().await;
        end(gateway);
        let spans = || -> Vec<Value> {
            let output = String::from_utf8(tap.stdout()).expect("text");
            output
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect()
        };
        let spans = eventually("three spans", || {
            Some(spans()).filter(|spans| spans.len() == 3)
        })
        .await;
        let [server, first, second] = &spans[..] else {
            panic!("{spans:#?}")
        };
        assert!(
            spans.iter().all(|span| span["traceId"] == line["trace_id"]),
            "{spans:#?}"
        );
        assert_eq!(
            (&server["name"], &server["kind"]),
            (&"POST /v1/chat/completions".into(), &2.into())
        );
        assert!(
            [first, second]
                .iter()
                .all(|span| span["parentSpanId"] == server["spanId"] && span["kind"] == 3)
        );
        assert_eq!(
            (&first["status"]["code"], &second["status"]),
            (&2.into(), &Value::Null)
        );
        let used: Vec<_> = spans
            .iter()
            .filter_map(|span| attribute(span, "gen_ai.usage.input_tokens"))
            .collect();
        assert_eq!(used, ["9"]);
        let cost = attribute(second, "gen_ai.usage.cost").and_then(|cost| cost.parse::<f64>().ok());
        assert_eq!(cost, line["cost_usd"].as_f64());
    });
}

/// Asks a server that others wrote.
async fn ask(address: SocketAddr, request: Vec<u8>) -> Value {
    let mut connection = Connection::plain(address, None).await;
    connection.send(request).await;
    let answer = connection.response().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Starts Phoenix, and waits until it answers: it takes some time to make its database.
async fn phoenix(folder: &Folder) -> (Process, SocketAddr) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("the target folder")
        .join("real/phoenix");
    assert!(place.exists(), "Phoenix is not there: run make test-real");
    let (address, grpc) = (free_port(), free_port());
    let mut command = Command::new(place.join("bin/phoenix"));
    command
        .arg("serve")
        .env("PHOENIX_WORKING_DIR", folder.path())
        .env("PHOENIX_HOST", "127.0.0.1");
    command
        .env("PHOENIX_PORT", address.port().to_string())
        .env("PHOENIX_GRPC_PORT", grpc.port().to_string());
    let mut process = Process::spawn(command.env("PHOENIX_TELEMETRY_ENABLED", "false"));
    for _ in 0..180 {
        if std::net::TcpStream::connect(address).is_ok() {
            return (process, address);
        }
        assert!(process.exited().is_none(), "{}", process.stderr());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("Phoenix does not listen: {}", process.stderr())
}

#[test]
#[ignore = "needs Phoenix, which takes minutes to set up: make test-real"]
fn real_phoenix_shows_tokens_and_cost_once() {
    run_within(Duration::from_secs(300), async {
        let (bad, good, folder) = (Mock::start().await, Mock::start().await, Folder::new(&[]));
        bad.always(Script::error(500, "no"));
        let (_phoenix, address) = phoenix(&folder).await;
        let traces = format!("traces: {{ endpoint: \"http://{address}\" }}");
        let gateway = Gateway::with(two(&bad, &good, ""))
            .server(&traces)
            .upstream(address.port())
            .start()
            .await;
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
        let line = gateway.line().await;
        end(gateway);
        let list = || {
            ask(
                address,
                client::request("GET", "/v1/projects/default/spans?limit=10", &[], b""),
            )
        };
        let mut spans = Vec::new();
        for _ in 0..60 {
            spans = list().await["data"].as_array().cloned().unwrap_or_default();
            if spans.len() == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let of_name = |name: &str| {
            spans
                .iter()
                .find(|span| span["name"] == name)
                .unwrap_or_else(|| panic!("{spans:#?}"))
        };
        let (server, paid) = (of_name("POST /v1/chat/completions"), of_name("chat gpt-y"));
        let kinds = ["POST /v1/chat/completions", "chat gpt-x", "chat gpt-y"]
            .map(|name| &of_name(name)["span_kind"]);
        assert_eq!(kinds, ["CHAIN", "LLM", "LLM"]);
        assert_eq!(
            (&paid["parent_id"], &paid["context"]["trace_id"]),
            (&server["context"]["span_id"], &line["trace_id"])
        );
        for (theirs, ours) in [
            ("llm.token_count.prompt", &line["prompt_tokens"]),
            ("llm.token_count.completion", &line["completion_tokens"]),
            ("gen_ai.usage.cost", &line["cost_usd"]),
        ] {
            let told: Vec<_> = spans
                .iter()
                .filter_map(|span| span["attributes"].get(theirs))
                .collect();
            assert_eq!(told, [ours], "{theirs}");
        }
        // It sums over spans.
        let query = json!({"query": "{projects{edges{node{name tokenCountTotal}}}}"}).to_string();
        let fields = [("content-type", "application/json")];
        let sums = ask(
            address,
            client::request("POST", "/graphql", &fields, query.as_bytes()),
        )
        .await;
        assert_eq!(
            sums["data"]["projects"]["edges"][0]["node"]["tokenCountTotal"], 12.0,
            "{sums}"
        );
    });
}
