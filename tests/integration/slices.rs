//! Requests for the vectors of more texts than a server takes at once: one exchange, several calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::mock::Request;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, eventually, run};

/// Cohere takes 96 texts at once.
const MANY: usize = 96 * 11 + 5;

fn texts(count: usize) -> Value {
    let texts: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
    json!({"model": "m", "input": texts, "encoding_format": "float"})
}

async fn ask(gateway: &Gateway, body: &Value) -> Response {
    let authorization = format!("Bearer {KEY}");
    let fields = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    gateway
        .raw(client::request(
            "POST",
            "/v1/embeddings",
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

/// Cohere's answer: the vector of a text is its number. Each text is one token.
fn vectors(request: &Request) -> Script {
    let body = request.json();
    let texts = body["texts"].as_array().expect("texts").clone();
    let number = |text: &Value| {
        text.as_str()
            .unwrap()
            .trim_start_matches("text ")
            .parse::<u64>()
            .unwrap()
    };
    let list: Vec<Value> = texts
        .iter()
        .map(|text| json!([number(text), 0.5]))
        .collect();
    Script::json(
        200,
        &json!({"id": "x", "embeddings": {"float": list}, "texts": [], "response_type": "embeddings_by_type",
                "meta": {"billed_units": {"input_tokens": texts.len()}}}),
    )
}

fn has(request: &Request, text: &str) -> bool {
    request.json()["texts"]
        .as_array()
        .is_some_and(|texts| texts.iter().any(|one| one == text))
}

const COHERE: &str = "dialect: cohere";
const PRICED: &str = "price: { input: 1, output: 0 }, ";

#[test]
fn many_texts_are_one_exchange_in_their_order() {
    run(async {
        let mock = Mock::start().await;
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (began, peak) = (now.clone(), most.clone());
        mock.by(move |request| {
            peak.fetch_max(began.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let now = began.clone();
            Script::new()
                .delay(Duration::from_millis(30))
                .run(move || _ = now.fetch_sub(1, Ordering::SeqCst))
                .and(vectors(request))
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, &format!("{COHERE}, concurrency: 12"))
            .model_of(
                "m",
                &["{ account: a, model: embed-v4.0, price: { input: 1, output: 0 } }"],
                "",
            );
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, &texts(MANY)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let told = answer.json();
        let data = told["data"].as_array().unwrap();
        assert_eq!(data.len(), MANY);
        for (place, one) in data.iter().enumerate() {
            assert_eq!(
                (&one["index"], &one["embedding"]),
                (&json!(place), &json!([place as u64, 0.5])),
                "{one}"
            );
        }
        assert_eq!(
            told["usage"],
            json!({"prompt_tokens": MANY, "total_tokens": MANY})
        );
        assert_eq!(mock.count(), 12);
        assert_eq!(
            most.load(Ordering::SeqCst),
            3,
            "a quarter of the account's places"
        );
        let line = gateway.line_of(&answer).await;
        let tried = line["attempts"].as_array().unwrap();
        assert_eq!(
            (tried.len(), &tried[0]["times"], &tried[0]["outcome"]),
            (1, &json!(12), &json!("ok")),
            "{line}"
        );
        assert_eq!(
            (&line["prompt_tokens"], &line["usage"], &line["outcome"]),
            (&json!(MANY), &json!("reported"), &json!("ok"))
        );
        let cost = MANY as f64 / 1e6;
        assert!(
            (line["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12,
            "{line}"
        );
        assert_eq!(gateway.access_lines(1).await.len(), 1, "one exchange");
        let exchanges = gateway.metrics().sum("portcullis_requests_total", &[]);
        assert_eq!(exchanges, 1.0);
    });
}

#[test]
fn only_what_failed_goes_to_another_account() {
    run(async {
        let [first, second] = [Mock::start().await, Mock::start().await];
        first.by(|request| {
            if has(request, "text 100") {
                Script::error(500, "broken")
            } else {
                vectors(request)
            }
        });
        second.by(vectors);
        let catalog = Catalog::new()
            .account_with("a", &first, COHERE)
            .account_with("b", &second, COHERE)
            .model_of(
                "m",
                &[
                    "{ account: a, model: embed-v4.0, tier: 1, price: { input: 1, output: 0 } }",
                    "{ account: b, model: embed-v4.0, tier: 2, price: { input: 3, output: 0 } }",
                ],
                "",
            );
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let told = answer.json();
        let numbers: Vec<u64> = told["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["embedding"][0].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, (0..300).collect::<Vec<_>>());
        assert_eq!((first.count(), second.count()), (4, 1));
        let line = gateway.line_of(&answer).await;
        // 204 texts at one price, and 96 at another.
        let cost = (204.0 + 3.0 * 96.0) / 1e6;
        assert!(
            (line["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12,
            "{line}"
        );
        assert_eq!(line["prompt_tokens"], 300);
    });
}

#[test]
fn callers_get_all_or_nothing_and_use_counts() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| {
            if has(request, "text 250") {
                return Script::new()
                    .delay(Duration::from_millis(200))
                    .and(Script::error(400, "not this text"));
            }
            vectors(request)
        });
        let catalog = Catalog::new().account_with("a", &mock, COHERE).model_of(
            "m",
            &[&format!(
                "{{ account: a, model: embed-v4.0, {} }}",
                PRICED.trim_end_matches(", ")
            )],
            "",
        );
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["prompt_tokens"], &line["usage"]),
            (&json!(204), &json!("reported")),
            "{line}"
        );
        assert!(
            (line["cost_usd"].as_f64().unwrap() - 204.0 / 1e6).abs() < 1e-12,
            "{line}"
        );
        // Fewer vectors than texts are no answer.
        mock.by(|request| {
            let mut body = vectors(request);
            if has(request, "text 299") {
                body = Script::json(200, &json!({"embeddings": {"float": [[1]]}, "meta": {}}));
            }
            body
        });
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
    });
}

#[test]
fn a_caller_who_leaves_takes_all_slices_along() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::silent());
        let catalog = Catalog::new()
            .account_with("a", &mock, COHERE)
            .model("m", &["a=embed-v4.0"]);
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        let authorization = format!("Bearer {KEY}");
        let fields = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
        ];
        connection
            .send(client::request(
                "POST",
                "/v1/embeddings",
                &fields,
                texts(300).to_string().as_bytes(),
            ))
            .await;
        while mock.count() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        connection.reset();
        let line = gateway.line().await;
        assert_eq!(line["outcome"], "client_left", "{line}");
        let times = |one: &Value| one["times"].as_u64().unwrap_or(1);
        assert_eq!(
            line["attempts"]
                .as_array()
                .unwrap()
                .iter()
                .map(times)
                .sum::<u64>(),
            4,
            "{line}"
        );
        let status = gateway.status();
        assert_eq!(status["accounts"][0]["in_flight"], 0);
    });
}

/// What the key has used of its money, as `/limits` tells it.
fn spent(gateway: &Gateway) -> f64 {
    let told: Value = serde_json::from_str(&gateway.admin("/limits").1).expect("JSON");
    told["limits"][0]["used"]["usd_per_day"]
        .as_f64()
        .unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn each_slice_is_charged_for_in_every_book() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let opens = gate.clone();
        mock.by(move |request| Script::new().wait(&opens).and(vectors(request)));
        let start = async |limit: &str| {
            let more = format!("debug: true, limits: {{ usd_per_day: {limit} }}");
            let catalog = Catalog::new()
                .without_acme()
                .caller_with("acme", "expose_cost: true", &[("prod", KEY, &more)])
                .account_with("a", &mock, COHERE)
                .model_of(
                    "m",
                    &["{ account: a, model: embed-v4.0, price: { input: 0, output: 0, per_request: 0.001 } }"],
                    "",
                );
            Gateway::start(catalog).await
        };
        let poor = start("0.0119").await;
        assert_eq!(
            ask(&poor, &texts(MANY)).await.status,
            429,
            "twelve calls cost more"
        );
        assert_eq!(mock.count(), 0);
        let gateway = start("0.0121").await;
        let many = texts(MANY);
        let (answer, ()) = tokio::join!(ask(&gateway, &many), async {
            eventually("it waits", || (mock.count() == 8).then_some(())).await;
            assert!(
                (spent(&gateway) - 0.012).abs() < 1e-9,
                "it is reserved: {}",
                spent(&gateway)
            );
            gate.open();
        });
        assert_eq!(
            (answer.status, mock.count()),
            (200, 12),
            "{}",
            answer.text()
        );
        assert_eq!(answer.json()["usage"]["cost"], 0.012);
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["cost_usd"], 0.012, "{line}");
        assert!(
            (spent(&gateway) - 0.012).abs() < 1e-9,
            "{}",
            spent(&gateway)
        );
        let trail = answer.field("x-portcullis-attempts").expect("a trail");
        assert!(
            trail.starts_with("a;ok;") && trail.ends_with("ms;12 times"),
            "{trail}"
        );
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_attempts_total", &[("outcome", "ok")]),
            12.0
        );
    });
}

#[test]
fn a_slice_waits_for_a_busy_account() {
    run(async {
        let ([broken, small], gate) = ([Mock::start().await, Mock::start().await], Gate::new());
        broken.always(Script::error(500, "broken"));
        let opens = gate.clone();
        small.by(move |request| Script::new().wait(&opens).and(vectors(request)));
        let targets = [
            "{ account: a, model: embed-v4.0, tier: 1 }",
            "{ account: b, model: embed-v4.0, tier: 2 }",
        ];
        let catalog = Catalog::new()
            .account_with("a", &broken, COHERE)
            .account_with("b", &small, &format!("{COHERE}, concurrency: 1"))
            .model_of("m", &targets, "")
            .model_of("q", &targets[1..], "queue: { length: 1, wait: 60s }");
        let gateway = Gateway::start(catalog).await;
        let many = |model: &str| {
            let mut body = texts(MANY);
            body["model"] = json!(model);
            body
        };
        let body = many("m");
        let (answer, ()) = tokio::join!(ask(&gateway, &body), async {
            eventually("the place is taken", || (small.count() == 1).then_some(())).await;
            // The other slices find it taken.
            gateway.is_quiet_with(1).await;
            gate.open();
        });
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(MANY));
        // Where there is a queue, it is never too short for the slices of one request.
        let (one, other) = (many("q"), many("q"));
        let (one, other) = tokio::join!(ask(&gateway, &one), ask(&gateway, &other));
        assert_eq!(
            (one.status, other.status),
            (200, 200),
            "{} {}",
            one.text(),
            other.text()
        );
    });
}

#[test]
fn many_slices_hold_little_memory() {
    const COUNT: u64 = 700;
    run(async {
        let mock = Mock::start().await;
        // A model that gives one vector at a time.
        mock.always(Script::json(
            200,
            &json!({"embedding": [0.5, 1], "inputTextTokenCount": 1}),
        ));
        let account = "dialect: bedrock, region: us-east-1, key: CaNaRy-bedrock";
        let catalog = Catalog::new()
            .account_with("a", &mock, account)
            .model("m", &["a=amazon.titan-embed-text-v2:0"]);
        let gateway = Gateway::with(catalog)
            .server("log: { level: info }")
            .start()
            .await;
        let body = |beside: usize| {
            let mut body = texts(COUNT as usize);
            body["user"] = json!("u".repeat(beside));
            body
        };
        let peak = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.process.pid()))
                .expect("a status");
            let peak = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))
                .expect("a peak");
            peak.trim()
                .trim_end_matches(" kB")
                .parse::<usize>()
                .expect("a number")
        };
        let before = peak();
        let answer = ask(&gateway, &body(60 << 10)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            (
                mock.count() as u64,
                answer.json()["usage"]["prompt_tokens"].as_u64()
            ),
            (COUNT, Some(COUNT))
        );
        let more = peak() - before;
        println!("{more} KiB more");
        assert!(
            more < 20 << 10,
            "{more} KiB for {COUNT} slices with 60 KiB each"
        );
        // What is too long is not sent so often.
        let refused = ask(&gateway, &body(1 << 20)).await;
        assert_eq!(
            (refused.status, mock.count() as u64),
            (400, COUNT),
            "{}",
            refused.text()
        );
        assert_eq!(refused.json()["error"]["param"], "input");
    });
}

#[test]
fn a_slices_error_names_the_whole_requests_text() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match has(request, "text 130") {
            true => Script::error(400, "texts[34] is not allowed"),
            false => vectors(request),
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, COHERE)
            .model("m", &["a=embed-v4.0"]);
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 400);
        assert!(
            answer.text().contains("texts[130] is not allowed"),
            "{}",
            answer.text()
        );
        // Vectors of different lengths are none.
        mock.by(|request| {
            let number = if has(request, "text 200") {
                json!([1, 2, 3])
            } else {
                json!([1, 2])
            };
            let count = request.json()["texts"].as_array().unwrap().len();
            Script::json(
                200,
                &json!({"embeddings": {"float": vec![number; count]}, "meta": {}}),
            )
        });
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
    });
}
