//! Requests of every kind of endpoint, mixed: what the upstreams counted, the access lines, the
//! ledger and the limits must be equal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::reconcile::{Sum, ledger, limits, of_lines, today};
use crate::support::client;
use crate::support::mock::Request;
use crate::support::{Catalog, Gateway, Mock, Script, eventually, run_within, spawn};

const KEY: &str = "sk-CaNaRy-caller-0-0-0123456789abcdefghijklmno";
const REQUESTS: usize = 3_000;
const CONNECTIONS: usize = 12;
const PRICE: &str = "price: { input: 0.7, output: 3.1, per_image: 0.001 }";

/// A path, and a request. The prompt says how many tokens the upstream counts.
fn request(random: &mut fastrand::Rng) -> (&'static str, Value) {
    let tokens = random.u64(1..1000);
    let fails = if random.u8(..20) == 0 { " fault" } else { "" };
    let text = format!("{tokens}{fails}");
    match random.u8(..7) {
        0 => (
            "/v1/chat/completions",
            json!({"model": "m", "messages": [{"role": "user", "content": text}]}),
        ),
        1 => ("/v1/completions", json!({"model": "m", "prompt": text})),
        2 => (
            "/v1/completions",
            json!({"model": "m", "prompt": text, "stream": true}),
        ),
        3 => (
            "/v1/rerank",
            json!({"model": "m", "query": text, "documents": ["a", "b"]}),
        ),
        4 => (
            "/v1/images/generations",
            json!({"model": "m", "prompt": text}),
        ),
        5 => ("/v1/embeddings", json!({"model": "m", "input": text})),
        _ => {
            // Cohere takes 96 at once, and each counts as one.
            let texts: Vec<String> = (0..random.u64(1..400))
                .map(|number| format!("{number}{fails}"))
                .collect();
            (
                "/v1/embeddings",
                json!({"model": "vectors", "input": texts}),
            )
        }
    }
}

fn answer(request: &Request, counted: &AtomicU64) -> Script {
    let body = request.json();
    let text = match request.target.as_str() {
        "/v1/chat/completions" => &body["messages"][0]["content"],
        "/v1/rerank" => &body["query"],
        "/v1/embeddings" => &body["input"],
        "/v1/embed" => &body["texts"][0],
        _ => &body["prompt"],
    };
    let text = text.as_str().expect("a text");
    if text.ends_with("fault") {
        return Script::error(400, "no");
    }
    let prompt: u64 = text.parse().expect("a number");
    let count = |prompt: u64, completion: u64| {
        counted.fetch_add(prompt + completion, Ordering::Relaxed);
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
    };
    let choice = json!([{"index": 0, "text": "x", "finish_reason": "stop"}]);
    let answer = match (request.target.as_str(), body["stream"] == true) {
        ("/v1/chat/completions", _) => {
            let message = json!({"role": "assistant", "content": "x"});
            json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": count(prompt, 3)})
        }
        ("/v1/completions", true) => {
            let events = [
                json!({"choices": choice}),
                json!({"choices": [], "usage": count(prompt, 5)}),
            ];
            let [first, last] = events.map(|event| format!("data: {event}\n\n"));
            return Script::text(
                200,
                "text/event-stream",
                format!("{first}{last}data: [DONE]\n\n"),
            );
        }
        ("/v1/completions", false) => json!({"choices": choice, "usage": count(prompt, 4)}),
        ("/v1/rerank", _) => json!({"results": [], "usage": count(prompt, 0)}),
        ("/v1/images/generations", _) => json!({"data": [], "usage": count(prompt, 70)}),
        ("/v1/embeddings", _) => {
            json!({"data": [{"index": 0, "embedding": [0.5]}], "usage": count(prompt, 0)})
        }
        ("/v1/embed", _) => {
            let texts = body["texts"].as_array().expect("texts").len();
            count(texts as u64, 0);
            let vectors = vec![json!([0.5]); texts];
            json!({"embeddings": {"float": vectors}, "meta": {"billed_units": {"input_tokens": texts}}})
        }
        (other, _) => panic!("{other}"),
    };
    Script::json(200, &answer)
}

#[test]
fn every_kind_of_endpoint_adds_up_in_every_book() {
    run_within(Duration::from_secs(240), async {
        // Counts of a day would begin anew at midnight.
        while !adds_up().await {}
    });
}

/// False if the day ended meanwhile.
async fn adds_up() -> bool {
    let (mock, day) = (Mock::start().await, today());
    let counted = Arc::new(AtomicU64::new(0));
    let count = counted.clone();
    mock.by(move |request| answer(request, &count));
    let bounds = "limits: { requests_per_day: 10000000, tokens_per_day: 10000000000, usd_per_month: 1000000 }";
    let catalog = Catalog::new()
        .without_acme()
        .account("a", &mock)
        .account_with("c", &mock, "dialect: cohere")
        .model_with("m", &["a"], PRICE)
        .model_with("vectors", &["c=embed-v4.0"], PRICE)
        .caller_with("caller-0", bounds, &[("one", KEY, bounds)]);
    let gateway = Gateway::with(catalog)
        .server("log: { format: json, level: warn, access: ./access.log }")
        .start()
        .await;
    let (next, whole, address) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        gateway.address,
    );
    let crowd = (0..CONNECTIONS).map(|number| {
        let (next, whole) = (next.clone(), whole.clone());
        spawn(async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut connection = client::Connection::plain(address, None).await;
            let authorization = format!("Bearer {KEY}");
            let fields = [
                ("authorization", authorization.as_str()),
                ("content-type", "application/json"),
            ];
            while next.fetch_add(1, Ordering::Relaxed) < REQUESTS {
                let (path, body) = request(&mut random);
                connection
                    .send(client::request(
                        "POST",
                        path,
                        &fields,
                        body.to_string().as_bytes(),
                    ))
                    .await;
                let answer = connection.response().await;
                assert!(
                    matches!(answer.status, 200 | 400),
                    "{path}: {} {}",
                    answer.status,
                    answer.text()
                );
                whole.fetch_add(usize::from(answer.status == 200), Ordering::Relaxed);
            }
        })
    });
    for one in crowd.collect::<Vec<_>>() {
        one.await.expect("a caller without a panic");
    }
    eventually("all is settled", || {
        (gateway.status()["exchanges"] == 0).then_some(())
    })
    .await;
    eventually("the ledger is written", || {
        (gateway.status()["ledger"]["waiting"] == 0).then_some(())
    })
    .await;
    let log = gateway.conf.parent().expect("a folder").join("access.log");
    let lines = eventually("all access lines", || {
        let text = std::fs::read_to_string(&log).ok()?;
        let lines: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        (lines.len() == REQUESTS).then_some(lines)
    })
    .await;
    let books = [of_lines(&lines), ledger(&gateway), limits(&gateway)];
    if today() != day {
        return false;
    }
    let [lines, ledger, limits] = books.each_ref().map(|book| book["caller-0/one"]);
    assert_eq!((ledger, limits), (lines, lines));
    let Sum {
        requests,
        tokens,
        usd,
    } = lines;
    assert_eq!(
        (requests, tokens),
        (REQUESTS as u64, counted.load(Ordering::Relaxed)),
        "what the upstream counted"
    );
    assert!(usd > 0 && whole.load(Ordering::Relaxed) > REQUESTS * 3 / 4);
    true
}
