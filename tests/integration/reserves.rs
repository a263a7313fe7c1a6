//! What coding agents need of limits: they ask for the longest answer there is, several at once,
//! and use little of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::{self, Response};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, eventually, join_all, run_within};

const KEY: &str = "sk-CaNaRy-caller-agent-0123456789abcdefghijklmnopq";
/// The prompt that each answer reports.
const PROMPT: u64 = 6_300;
/// How many requests an agent and its four helpers make at once.
const AT_ONCE: usize = 5;

/// A turn of an agent: 25 kB of prompt, and the longest answer.
fn turn(number: usize) -> Value {
    json!({
        "model": "m", "max_tokens": 128_000,
        "system": "You help with code. ".repeat(1_200),
        "tools": [{"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
        "messages": [{"role": "user", "content": format!("Part {number} of the work. {}", "x".repeat(1_000))}],
    })
}

fn sent(body: &Value) -> Vec<u8> {
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    client::request("POST", "/v1/messages", &fields, body.to_string().as_bytes())
}

fn answer(tokens: u64) -> Value {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": PROMPT, "completion_tokens": tokens, "total_tokens": PROMPT + tokens});
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], "usage": usage})
}

/// A gateway with these limits. Each answer has so many tokens, and waits for the gate.
async fn start(limits: &str, tokens: u64) -> (Gateway, Mock, Gate) {
    let (mock, gate) = (Mock::start().await, Gate::new());
    mock.by({
        let gate = gate.clone();
        move |_| {
            Script::new()
                .wait(&gate)
                .and(Script::json(200, &answer(tokens)))
        }
    });
    let catalog = Catalog::new()
        .account("a", &mock)
        .model_with("m", &["a"], "price: { input: 3, output: 15 }")
        .caller_with(
            "agent",
            "",
            &[("prod", KEY, &format!("limits: {{ {limits} }}"))],
        );
    (Gateway::start(catalog).await, mock, gate)
}

/// What `/limits` tells of the agent's key.
fn key_limits(gateway: &Gateway) -> Value {
    let told: Value = serde_json::from_str(&gateway.admin("/limits").1).expect("JSON");
    told["limits"]
        .as_array()
        .expect("limits")
        .iter()
        .find(|scope| scope["level"] == "key")
        .expect("a key")
        .clone()
}

fn used(gateway: &Gateway, limit: &str) -> f64 {
    key_limits(gateway)["used"][limit]
        .as_f64()
        .unwrap_or_else(|| panic!("no {limit}"))
}

/// Sends five turns at once; returns the answers after `refused` of them came and the gate opened.
async fn five(gateway: &Gateway, mock: &Mock, gate: &Gate, refused: usize) -> Vec<Response> {
    let mut crowd = join_all((0..AT_ONCE).map(|number| async move {
        let mut connection = gateway.connect().await;
        connection.send(sent(&turn(number))).await;
        connection
    }))
    .await;
    let limited = || gateway.metrics().sum("portcullis_limited_total", &[]) as usize;
    eventually("all have come", || {
        (mock.count() == AT_ONCE - refused && limited() == refused).then_some(())
    })
    .await;
    let reserved = used(gateway, "tokens_per_minute");
    assert!(reserved > 0.0 && reserved <= 200_000.0, "{reserved}");
    gate.open();
    join_all(crowd.iter_mut().map(|connection| connection.response())).await
}

#[test]
fn an_agent_and_helpers_pass_200000_tokens_a_minute() {
    run_within(Duration::from_secs(60), async {
        let limits = "tokens_per_minute: 200000, tokens_per_day: 1000000, usd_per_day: 5";
        let (gateway, mock, gate) = start(limits, 700).await;
        for answer in five(&gateway, &mock, &gate, 0).await {
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let tokens = (AT_ONCE as u64 * (PROMPT + 700)) as f64;
        eventually("all are settled", || {
            (used(&gateway, "tokens_per_minute") == tokens).then_some(())
        })
        .await;
        assert_eq!(used(&gateway, "tokens_per_day"), tokens);
        // 5 × (6,300 × 3 + 700 × 15) millionths.
        assert_eq!(used(&gateway, "usd_per_day"), 0.147);
        assert_eq!(key_limits(&gateway)["reserve"], "usual");
        eventually("the ledger has them", || {
            (gateway.status()["ledger"]["rows"] == AT_ONCE).then_some(())
        })
        .await;
        let ledger: Value =
            serde_json::from_str(&gateway.admin("/usage?by=caller&caller=agent").1).expect("JSON");
        let row = &ledger["total"];
        assert_eq!(
            (&row["prompt_tokens"], &row["completion_tokens"]),
            (&json!(AT_ONCE as u64 * PROMPT), &json!(AT_ONCE * 700)),
            "{ledger}"
        );
    });
}

#[test]
fn the_strict_rule_lets_one_request_go_at_once() {
    run_within(Duration::from_secs(60), async {
        let (gateway, mock, gate) = start("tokens_per_minute: 200000, reserve: asked", 700).await;
        let answers = five(&gateway, &mock, &gate, AT_ONCE - 1).await;
        for refused in answers.iter().filter(|answer| answer.status != 200) {
            let error: Value = serde_json::from_slice(&refused.body).expect("JSON");
            assert_eq!(
                (refused.status, &error["error"]["type"]),
                (429, &json!("rate_limit_error"))
            );
            assert!(
                error["error"]["message"]
                    .as_str()
                    .expect("text")
                    .contains("200000 tokens per minute"),
                "{error}"
            );
        }
        assert_eq!(
            answers.iter().filter(|answer| answer.status == 200).count(),
            1
        );
        let tokens = (PROMPT + 700) as f64;
        eventually("it is settled", || {
            (used(&gateway, "tokens_per_minute") == tokens).then_some(())
        })
        .await;
        assert_eq!(key_limits(&gateway)["reserve"], "asked");
    });
}

/// Money is never exceeded where all that is asked for is reserved; else what is used beyond the
/// reservation holds the next requests back.
#[test]
fn use_beyond_the_reservation_holds_the_next_back() {
    run_within(Duration::from_secs(60), async {
        let (gateway, mock, gate) =
            start("tokens_per_minute: 100000, usd_per_day: 2.5", 95_000).await;
        gate.open();
        let first = gateway.raw(sent(&turn(1))).await;
        assert_eq!(first.status, 200, "{}", first.text());
        let second = gateway.raw(sent(&turn(2))).await;
        assert_eq!(second.status, 429, "{}", second.text());
        assert_eq!(
            (mock.count(), used(&gateway, "tokens_per_minute")),
            (1, (PROMPT + 95_000) as f64)
        );

        let (gateway, mock, gate) = start("usd_per_day: 2.5, reserve: asked", 95_000).await;
        gate.open();
        // 128,000 at 15 a million, and the prompt: one fits, and two do not.
        assert_eq!(gateway.raw(sent(&turn(1))).await.status, 200);
        assert_eq!(gateway.raw(sent(&turn(2))).await.status, 429);
        assert_eq!((mock.count(), used(&gateway, "usd_per_day")), (1, 1.4439));
    });
}

#[test]
fn answers_that_callers_leave_teach_what_is_usual() {
    run_within(Duration::from_secs(60), async {
        let (gateway, mock, gate) = start("tokens_per_minute: 200000", 700).await;
        mock.always(Script::sse().words(0..2).stall());
        let body = |stream: bool| {
            let messages = json!([{"role": "user", "content": "hello"}]);
            json!({"model": "m", "max_tokens": 128_000, "stream": stream, "messages": messages})
        };
        for number in 0..20 {
            let mut connection = gateway.connect().await;
            connection.send(sent(&body(true))).await;
            let mut head = connection.head().await.expect("a head");
            connection.piece(&mut head).await.expect("the first words");
            drop(connection);
            mock.left(number).await;
        }
        gateway.idle().await;
        mock.always(
            Script::new()
                .wait(&gate)
                .and(Script::json(200, &answer(700))),
        );
        let before = used(&gateway, "tokens_per_minute");
        let mut connection = gateway.connect().await;
        connection.send(sent(&body(false))).await;
        mock.request(20).await;
        // Of a model without answers, it would be 8,192.
        let reserved = used(&gateway, "tokens_per_minute") - before;
        assert!((1_024.0..2_048.0).contains(&reserved), "{reserved}");
        gate.open();
        assert_eq!(connection.response().await.status, 200);
    });
}
