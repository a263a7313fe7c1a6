//! A key asks about itself: `GET /portcullis/key` and `GET /portcullis/usage`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::problems::Clock;
use crate::support::client::{Response, request};
use crate::support::{Catalog, Gateway, Mock, PATIENCE, chat, run};

const ONE: &str = "sk-CaNaRy-one-0123456789";
const OTHER: &str = "sk-CaNaRy-other-0123456789";

async fn ask(gateway: &Gateway, key: &str, target: &str) -> Response {
    let bearer = format!("Bearer {key}");
    gateway
        .raw(request("GET", target, &[("authorization", &bearer)], b""))
        .await
}

/// Asks until a second is over since the last question.
async fn ask_until_allowed(gateway: &Gateway, key: &str, target: &str) -> Value {
    let start = std::time::Instant::now();
    loop {
        let response = ask(gateway, key, target).await;
        match response.status {
            200 => return response.json(),
            429 => assert!(start.elapsed() < PATIENCE),
            _ => panic!("{target}: {}", response.text()),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn post(gateway: &Gateway, key: &str, model: &str) -> Response {
    gateway
        .raw(crate::support::client::post_as(key, &chat(model)))
        .await
}

fn catalog(mock: &Mock, expose: &str) -> Catalog {
    let limits = "limits: { requests_per_minute: 10, usd_per_month: 50 }";
    let keys = [
        (
            "one",
            ONE,
            "expires: 2099-01-01, limits: { tokens_per_day: 1000 }, model_limits: { m: { requests_per_day: 5 } }",
        ),
        ("other", OTHER, "models: [m]"),
    ];
    let price = "price: { input: 1, output: 2 }";
    Catalog::new()
        .account("secret-account", mock)
        .model_with(
            "m",
            &["secret-account=upstream-name"],
            &format!("{price}, aliases: [alias]"),
        )
        .model_with("n", &["secret-account"], price)
        .caller_with("team", &format!("{limits}, expose_cost: {expose}"), &keys)
}

#[test]
fn a_key_sees_itself_and_what_it_shares() {
    run(async {
        let mock = Mock::start().await;
        for (expose, shows) in [("true", true), ("false", false)] {
            let gateway = Gateway::start(catalog(&mock, expose)).await;
            assert_eq!(post(&gateway, ONE, "m").await.status, 200);
            assert_eq!(post(&gateway, OTHER, "m").await.status, 200);
            let told_one = ask_until_allowed(&gateway, ONE, "/portcullis/key").await;
            assert_eq!(
                (
                    &told_one["key"],
                    &told_one["caller"],
                    &told_one["expires"],
                    &told_one["models"],
                    &told_one["counted"]
                ),
                (
                    &json!("team/one"),
                    &json!("team"),
                    &json!("2099-01-01T00:00:00.000Z"),
                    &json!(["alias", "m", "n"]),
                    &json!("this instance")
                )
            );
            let levels: Vec<_> = told_one["limits"]
                .as_array()
                .unwrap()
                .iter()
                .map(|limit| limit["level"].clone())
                .collect();
            assert_eq!(levels, [json!("caller"), json!("key"), json!("key_model")]);
            let of = |at: usize, kind: &str| told_one["limits"][at]["limits"][kind].clone();
            // Both keys use the caller's limit.
            assert_eq!(
                (
                    &of(0, "requests_per_minute")["used"],
                    &of(0, "requests_per_minute")["left"]
                ),
                (&json!(2), &json!(8))
            );
            assert!(
                of(1, "tokens_per_day")["used"]
                    .as_u64()
                    .is_some_and(|used| used > 0),
                "{told_one:#}"
            );
            assert_eq!(
                (
                    &told_one["limits"][2]["model"],
                    &of(2, "requests_per_day")["left"]
                ),
                (&json!("m"), &json!(4))
            );
            assert_eq!(
                of(0, "usd_per_month")["limit"].is_string(),
                shows,
                "{told_one:#}"
            );
            let told_other = ask_until_allowed(&gateway, OTHER, "/portcullis/key").await;
            assert_eq!(
                (&told_other["models"], &told_other["expires"]),
                (&json!(["alias", "m"]), &Value::Null)
            );
            let usage = eventually_usage(&gateway, ONE, 1).await;
            assert_eq!(
                (&usage["by"], &usage["usage"][0]["model"]),
                (&json!(["model"]), &json!("m")),
                "{usage:#}"
            );
            assert!(
                usage["total"]["total_tokens"]
                    .as_u64()
                    .is_some_and(|tokens| tokens > 0),
                "{usage:#}"
            );
            assert_eq!(usage["total"].get("cost_usd").is_some(), shows, "{usage:#}");
            for told in [&told_one, &told_other, &usage] {
                let text = told.to_string();
                assert!(
                    !text.contains("secret-account") && !text.contains("upstream"),
                    "{text}"
                );
                assert!(
                    shows
                        || !(text.contains("usd")
                            || text.contains("cost")
                            || text.contains("unpriced")),
                    "{text}"
                );
            }
            assert!(
                !told_one.to_string().contains("team/other")
                    && !usage.to_string().contains("team/other")
            );
        }
    });
}

async fn eventually_usage(gateway: &Gateway, key: &str, requests: u64) -> Value {
    let start = std::time::Instant::now();
    loop {
        let usage = ask_until_allowed(gateway, key, "/portcullis/usage").await;
        if usage["total"]["requests"] == requests {
            return usage;
        }
        assert!(start.elapsed() < PATIENCE, "{usage:#}");
    }
}

#[test]
fn it_asks_once_a_second() {
    run(async {
        let mock = Mock::start().await;
        let clock = Clock::new();
        let setup = Gateway::with(catalog(&mock, "false"));
        let gateway = clock.give(setup).start().await;
        // On a slow machine a second may be over, but hardly each time.
        let mut before = 0;
        let refused = loop {
            assert_eq!(ask(&gateway, ONE, "/portcullis/key").await.status, 200);
            let second = ask(&gateway, ONE, "/portcullis/usage").await;
            if second.status != 200 || before == 8 {
                break second;
            }
            before += 2;
            clock.set(before);
        };
        refused.is_error(429, "rate_limit_exceeded");
        assert_eq!(
            (
                refused.field("retry-after"),
                refused.field("x-should-retry")
            ),
            (Some("1"), None)
        );
        // Another key is another matter, and requests are never held up.
        assert_eq!(ask(&gateway, OTHER, "/portcullis/usage").await.status, 200);
        assert_eq!(post(&gateway, ONE, "m").await.status, 200);
        clock.set(before + 2);
        assert_eq!(ask(&gateway, ONE, "/portcullis/usage").await.status, 200);
        assert_eq!(
            ask(&gateway, "sk-wrong", "/portcullis/usage").await.status,
            401
        );
        let before = usize::try_from(before).expect("a number");
        let lines = gateway.access_lines(before + 6).await;
        // A caller has its answer before the line is written: the lines may have another order.
        let limited: Vec<_> = lines
            .iter()
            .filter(|line| line["outcome"] == "limited")
            .collect();
        assert_eq!(limited.len(), 1, "{lines:#?}");
        // A question that came too often is no request of callers that failed.
        let failed = lines
            .iter()
            .filter(|line| line["outcome"] != "ok" && line["outcome"] != "limited")
            .count();
        let live: Value =
            serde_json::from_str(&gateway.admin("/live?show=figures").1).expect("JSON");
        assert_eq!(
            (failed, &live["figures"]["now"]["failed_caller"]),
            (1, &json!(1)),
            "{live:#}"
        );
        assert_eq!(limited[0]["door"], "usage");
    });
}

#[test]
fn what_cannot_be_answered_says_so() {
    run(async {
        let mock = Mock::start().await;
        let clock = Clock::new();
        let setup = Gateway::with(catalog(&mock, "true"));
        let gateway = clock.give(setup).start().await;
        for (second, (query, about)) in (2..).step_by(2).zip([
            ("by=key", "by: must be of day, model, outcome, door"),
            ("by=model,account", "by: must be of"),
            ("by=upstream_model", "by: must be of"),
            ("caller=acme", "caller: is not known"),
            ("since=never", "since: must be"),
            ("since=2099-01-01", "since: must not be in the future"),
        ]) {
            clock.set(second);
            let refused = ask(&gateway, ONE, &format!("/portcullis/usage?{query}")).await;
            let error = refused.is_error(400, "invalid_value");
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|message| message.contains(about)),
                "{error}"
            );
        }
        let by = ask_until_allowed(
            &gateway,
            ONE,
            "/portcullis/usage?by=day,model,outcome,door&since=7d&model=m",
        )
        .await;
        assert_eq!(by["by"], json!(["day", "model", "outcome", "door"]));
        let refused = gateway
            .raw(request("POST", "/portcullis/key", &[], b""))
            .await;
        refused.is_error(405, "method_not_supported");
        let unknown = ask(&gateway, ONE, "/v1/usage").await;
        assert!(
            unknown
                .text()
                .contains("GET /portcullis/usage or GET /portcullis/key"),
            "{}",
            unknown.text()
        );
        let setup = Gateway::with(catalog(&mock, "true")).server("ledger: { enabled: false }");
        let off = clock.give(setup).start().await;
        let refused = ask(&off, ONE, "/portcullis/usage").await;
        let error = refused.is_error(503, "ledger_unavailable");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| message.contains("keeps no ledger")),
            "{error}"
        );
        assert_eq!(refused.field("x-should-retry"), Some("false"));
        clock.set(100);
        assert_eq!(ask(&off, ONE, "/portcullis/key").await.status, 200);
    });
}

/// Only Google's clients put the key into the query, and they do not ask these questions.
#[test]
fn a_key_in_the_query_is_none_here() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(&mock, "true")).await;
        for target in ["/portcullis/key", "/portcullis/usage"] {
            let answer = gateway
                .raw(request("GET", &format!("{target}?key={ONE}"), &[], b""))
                .await;
            answer.is_error(401, "invalid_api_key");
            let google = [("x-goog-api-key", "sk-none")];
            gateway
                .raw(request("GET", target, &google, b""))
                .await
                .is_error(401, "invalid_api_key");
        }
    });
}
