//! Requests for the vectors of more texts than a server takes at once: one exchange, several calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::mock::Request;
use crate::support::{Catalog, Gateway, Mock, Script, run};

/// Cohere takes 96 texts at once.
const MANY: usize = 96 * 11 + 5;

fn texts(count: usize) -> Value {
    let texts: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
    json!({"model": "m", "input": texts, "encoding_format": "float"})
}

async fn ask(gateway: &Gateway, body: &Value) -> Response {
    let authorization = format!("Bearer {KEY}");
    let fields = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    gateway.raw(client::request("POST", "/v1/embeddings", &fields, body.to_string().as_bytes())).await
}

/// Cohere's answer: the vector of a text is its number. Each text is one token.
fn vectors(request: &Request) -> Script {
    let body = request.json();
    let texts = body["texts"].as_array().expect("texts").clone();
    let number = |text: &Value| text.as_str().unwrap().trim_start_matches("text ").parse::<u64>().unwrap();
    let list: Vec<Value> = texts.iter().map(|text| json!([number(text), 0.5])).collect();
    Script::json(
        200,
        &json!({"id": "x", "embeddings": {"float": list}, "texts": [], "response_type": "embeddings_by_type",
                "meta": {"billed_units": {"input_tokens": texts.len()}}}),
    )
}

fn has(request: &Request, text: &str) -> bool {
    request.json()["texts"].as_array().is_some_and(|texts| texts.iter().any(|one| one == text))
}

const COHERE: &str = "dialect: cohere";
const PRICED: &str = "price: { input: 1, output: 0 }, ";

#[test]
fn many_texts_are_one_exchange_and_come_back_in_their_order() {
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
        let catalog = Catalog::new().account_with("a", &mock, &format!("{COHERE}, concurrency: 12")).model_of(
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
            assert_eq!((&one["index"], &one["embedding"]), (&json!(place), &json!([place as u64, 0.5])), "{one}");
        }
        assert_eq!(told["usage"], json!({"prompt_tokens": MANY, "total_tokens": MANY}));
        assert_eq!(mock.count(), 12);
        assert_eq!(most.load(Ordering::SeqCst), 3, "a quarter of the account's places");
        let line = gateway.line_of(&answer).await;
        assert_eq!(line["attempts"].as_array().unwrap().len(), 12, "{line}");
        assert_eq!(
            (&line["prompt_tokens"], &line["usage"], &line["outcome"]),
            (&json!(MANY), &json!("reported"), &json!("ok"))
        );
        let cost = MANY as f64 / 1e6;
        assert!((line["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12, "{line}");
        assert_eq!(gateway.access_lines(1).await.len(), 1, "one exchange");
        let exchanges = gateway.metrics().sum("portcullis_requests_total", &[]);
        assert_eq!(exchanges, 1.0);
    });
}

#[test]
fn only_what_failed_goes_to_another_account() {
    run(async {
        let [first, second] = [Mock::start().await, Mock::start().await];
        first.by(|request| if has(request, "text 100") { Script::error(500, "broken") } else { vectors(request) });
        second.by(vectors);
        let catalog = Catalog::new().account_with("a", &first, COHERE).account_with("b", &second, COHERE).model_of(
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
        let numbers: Vec<u64> =
            told["data"].as_array().unwrap().iter().map(|one| one["embedding"][0].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..300).collect::<Vec<_>>());
        assert_eq!((first.count(), second.count()), (4, 1));
        let line = gateway.line_of(&answer).await;
        // 204 texts at one price, and 96 at another.
        let cost = (204.0 + 3.0 * 96.0) / 1e6;
        assert!((line["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12, "{line}");
        assert_eq!(line["prompt_tokens"], 300);
    });
}

#[test]
fn the_caller_gets_all_or_nothing_and_what_was_used_counts() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| {
            if has(request, "text 250") {
                return Script::new().delay(Duration::from_millis(200)).and(Script::error(400, "not this text"));
            }
            vectors(request)
        });
        let catalog = Catalog::new().account_with("a", &mock, COHERE).model_of(
            "m",
            &[&format!("{{ account: a, model: embed-v4.0, {} }}", PRICED.trim_end_matches(", "))],
            "",
        );
        let gateway = Gateway::start(catalog).await;
        let answer = ask(&gateway, &texts(300)).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
        let line = gateway.line_of(&answer).await;
        assert_eq!((&line["prompt_tokens"], &line["usage"]), (&json!(204), &json!("reported")), "{line}");
        assert!((line["cost_usd"].as_f64().unwrap() - 204.0 / 1e6).abs() < 1e-12, "{line}");
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
        let catalog = Catalog::new().account_with("a", &mock, COHERE).model("m", &["a=embed-v4.0"]);
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        let authorization = format!("Bearer {KEY}");
        let fields = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        connection.send(client::request("POST", "/v1/embeddings", &fields, texts(300).to_string().as_bytes())).await;
        while mock.count() < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        connection.reset();
        let line = gateway.line().await;
        assert_eq!(
            (&line["outcome"], line["attempts"].as_array().unwrap().len()),
            (&json!("client_left"), 4),
            "{line}"
        );
        let status = gateway.status();
        assert_eq!(status["accounts"][0]["in_flight"], 0);
    });
}
