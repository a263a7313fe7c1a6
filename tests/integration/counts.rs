//! Counts of tokens, through the whole gateway: who counts, what a caller is told if nobody does,
//! and that a count changes nothing else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::canary::KEY as ACME;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, eventually, run_within};

const KEY: &str = "sk-CaNaRy-caller-counts-0123456789abcdefghijklmnop";
const MESSAGES: &str = "/v1/messages/count_tokens?beta=true";

fn sent(key: &str, path: &str, body: &Value) -> Vec<u8> {
    let fields = [
        ("x-api-key", key),
        ("content-type", "application/json"),
        ("anthropic-beta", "a-beta"),
    ];
    client::request("POST", path, &fields, body.to_string().as_bytes())
}

async fn count(gateway: &Gateway, path: &str, body: &Value) -> Response {
    gateway.raw(sent(ACME, path, body)).await
}

fn hello() -> Value {
    let tools = json!([{"name": "read", "input_schema": {"type": "object"}}]);
    json!({"model": "m", "system": "Be brief.", "tools": tools, "messages": [{"role": "user", "content": "hello"}]})
}

/// The answer to a request that is no count.
fn message_answer() -> Value {
    json!({"id": "i", "type": "message", "role": "assistant", "model": "c", "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}})
}

fn contents() -> Value {
    json!([{"role": "user", "parts": [{"text": "hello"}]}])
}

fn gemini(model: &str) -> String {
    format!("/v1beta/models/{model}:countTokens")
}

const CLAUDE: &str = "a=claude-sonnet-4-5";
const GEMINI: &str = "g=gemini-2.5-pro";

#[test]
fn a_count_whose_caller_left_names_its_attempt() {
    run_within(Duration::from_secs(60), async {
        let claude = Mock::start().await;
        claude.always(Script::silent());
        let catalog = Catalog::new()
            .account_with("a", &claude, "dialect: anthropic")
            .model("m", &[CLAUDE]);
        let gateway = Gateway::start(catalog).await;
        let mut connection = gateway.connect().await;
        connection
            .send(sent(ACME, "/v1/messages/count_tokens", &hello()))
            .await;
        claude.request(0).await;
        connection.reset();
        let line = gateway.line().await;
        let attempt = &line["attempts"][0];
        assert_eq!(
            (&line["outcome"], &attempt["outcome"]),
            (&"client_left".into(), &"client_left".into()),
            "{line}"
        );
        assert_eq!(
            (&attempt["account"], &attempt["model"]),
            (&"a".into(), &"claude-sonnet-4-5".into())
        );
    });
}

#[test]
fn servers_of_the_callers_format_count_it_unchanged() {
    run_within(Duration::from_secs(60), async {
        let (claude, google) = (Mock::start().await, Mock::start().await);
        let extra =
            json!({"input_tokens": 1234, "context_management": {"original_input_tokens": 5000}});
        claude.always(Script::json(200, &extra));
        let details = json!({"totalTokens": 31, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 31}]});
        google.always(Script::json(200, &details));
        let catalog = Catalog::new()
            .account_with("a", &claude, "dialect: anthropic")
            .account_with("g", &google, "dialect: gemini")
            .model_with("m", &[CLAUDE], "aliases: [\"claude-*\"]")
            .model("n", &[GEMINI]);
        let gateway = Gateway::start(catalog).await;
        let mut body = hello();
        body["model"] = json!("claude-anything");
        let answer = count(&gateway, MESSAGES, &body).await;
        assert_eq!((answer.status, answer.json()), (200, extra));
        assert_eq!(answer.field("x-portcullis-model"), Some("m"));
        let seen = claude.request(0).await;
        assert!(
            seen.target.ends_with("/messages/count_tokens"),
            "{}",
            seen.target
        );
        assert_eq!(seen.field("anthropic-beta"), Some("a-beta"));
        body["model"] = json!("claude-sonnet-4-5");
        assert_eq!(seen.json(), body);

        let whole = json!({"model": "models/n", "contents": contents(), "systemInstruction": {"parts": [{"text": "Be brief."}]}});
        for version in ["v1beta", "v1"] {
            let path = format!("/{version}/models/n:countTokens");
            let plain = count(&gateway, &path, &json!({"contents": contents()})).await;
            assert_eq!(
                (plain.status, plain.json()),
                (200, details.clone()),
                "{path}"
            );
            let inside = count(&gateway, &path, &json!({"generateContentRequest": whole})).await;
            assert_eq!(
                (inside.status, inside.json()),
                (200, details.clone()),
                "{path}"
            );
        }
        for number in 0..4 {
            let seen = google.request(number).await;
            assert!(
                seen.target.ends_with("/models/gemini-2.5-pro:countTokens"),
                "{}",
                seen.target
            );
            let counted = &seen.json()["generateContentRequest"];
            assert_eq!(counted["model"], "models/gemini-2.5-pro");
            assert_eq!(counted["contents"][0]["parts"][0]["text"], "hello");
            assert_eq!(
                counted["systemInstruction"].is_object(),
                number % 2 == 1,
                "{counted}"
            );
        }
        let mut other = whole;
        other["model"] = json!("models/m");
        let refused = count(
            &gateway,
            &gemini("n"),
            &json!({"generateContentRequest": other}),
        )
        .await;
        assert_eq!(
            (refused.status, google.count()),
            (400, 4),
            "{}",
            refused.text()
        );
        assert!(
            refused.text().contains("generateContentRequest.model"),
            "{}",
            refused.text()
        );
        for line in gateway.access_lines(6).await {
            assert_eq!(
                (&line["door"], &line["tokens"]),
                (&json!("count"), &Value::Null),
                "{line}"
            );
        }
    });
}

#[test]
fn servers_of_another_format_count_the_translated_request() {
    run_within(Duration::from_secs(60), async {
        let (claude, google) = (Mock::start().await, Mock::start().await);
        claude.always(Script::json(200, &json!({"input_tokens": 21})));
        google.by(|request| {
            let answer = json!({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]});
            Script::json(
                200,
                &if request.target.ends_with(":countTokens") { json!({"totalTokens": 22}) } else { answer },
            )
        });
        let catalog = Catalog::new()
            .account_with("a", &claude, "dialect: anthropic")
            .account_with("g", &google, "dialect: gemini")
            .model("m", &[GEMINI])
            .model("n", &[CLAUDE]);
        let gateway = Gateway::start(catalog).await;
        let answer = count(&gateway, MESSAGES, &hello()).await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({"input_tokens": 22}))
        );
        // The same request, to be answered, has the same parts.
        let mut body = hello();
        body["max_tokens"] = json!(100);
        assert_eq!(count(&gateway, "/v1/messages", &body).await.status, 200);
        let (mut counted, sent) = (
            google.request(0).await.json(),
            google.request(1).await.json(),
        );
        let counted = counted["generateContentRequest"].take();
        for part in ["contents", "systemInstruction", "tools"] {
            assert!(sent[part].is_array() || sent[part].is_object(), "{sent}");
            assert_eq!(counted[part], sent[part], "{part}");
        }
        let answer = count(&gateway, &gemini("n"), &json!({"contents": contents()})).await;
        assert_eq!(
            (answer.status, answer.json()),
            (200, json!({"totalTokens": 21}))
        );
        let seen = claude.request(0).await.json();
        let fields: Vec<&String> = seen.as_object().expect("an object").keys().collect();
        assert_eq!(
            fields,
            ["messages", "model"],
            "the API refuses what only the answer needs"
        );
    });
}

#[test]
fn where_nobody_counts_no_number_is_made_up() {
    run_within(Duration::from_secs(60), async {
        let (mock, claude) = (Mock::start().await, Mock::start().await);
        claude.always(Script::error(404, "no such path"));
        let catalog = Catalog::new()
            .account("o", &mock)
            .account_with("a", &claude, "dialect: anthropic")
            .model_with("m", &["o=up"], "fallbacks: [n]")
            .model("n", &[CLAUDE]);
        let gateway = Gateway::start(catalog).await;
        let refused = count(&gateway, MESSAGES, &hello()).await;
        let error = refused.json();
        assert_eq!(
            (refused.status, &error["error"]["type"]),
            (404, &json!("not_found_error")),
            "{error}"
        );
        assert_eq!(refused.field("x-should-retry"), Some("false"));
        let refused = count(&gateway, &gemini("m"), &json!({"contents": contents()})).await;
        let error = refused.json();
        assert_eq!(
            (refused.status, &error["error"]["status"]),
            (501, &json!("UNIMPLEMENTED")),
            "{error}"
        );
        assert_eq!((mock.count(), claude.count()), (0, 0), "nobody stands in");
        // The account's server has no such path.
        let refused = count(&gateway, &gemini("n"), &json!({"contents": contents()})).await;
        assert_eq!(
            (refused.status, claude.count()),
            (501, 1),
            "{}",
            refused.text()
        );
        // What holds for every request holds here.
        assert_eq!(
            gateway
                .raw(sent("sk-wrong", MESSAGES, &hello()))
                .await
                .status,
            401
        );
        let mut hidden = hello();
        hidden["model"] = json!("unknown");
        assert_eq!(count(&gateway, MESSAGES, &hidden).await.status, 404);
        assert_eq!(
            count(&gateway, MESSAGES, &json!({"model": "n"}))
                .await
                .status,
            400
        );
        let mut file = hello();
        file["model"] = json!("n");
        file["messages"][0]["content"] =
            json!([{"type": "image", "source": {"type": "file", "file_id": "f"}}]);
        let refused = count(&gateway, MESSAGES, &file).await;
        assert_eq!(
            (refused.status, claude.count()),
            (400, 1),
            "{}",
            refused.text()
        );
    });
}

#[test]
fn counts_use_no_limits_and_ten_run_at_once() {
    run_within(Duration::from_secs(60), async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.by({
            let gate = gate.clone();
            move |request| match request.target.contains("count_tokens") {
                true => Script::new()
                    .wait(&gate)
                    .and(Script::json(200, &json!({"input_tokens": 7}))),
                false => Script::json(200, &message_answer()),
            }
        });
        let limits = "limits: { requests_per_day: 1, concurrency: 1, tokens_per_minute: 1, usd_per_day: 0.000001 }";
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic, concurrency: 1")
            .model_with("m", &[CLAUDE], "price: { input: 3, output: 15 }")
            .caller_with("counts", "", &[("prod", KEY, limits)]);
        let gateway = Gateway::start(catalog).await;
        let mut running = Vec::new();
        for number in 0..10 {
            let mut connection = gateway.connect().await;
            connection.send(sent(KEY, MESSAGES, &hello())).await;
            mock.request(number).await;
            running.push(connection);
        }
        let refused = gateway.raw(sent(KEY, MESSAGES, &hello())).await;
        let error = refused.json();
        assert_eq!(
            (refused.status, &error["error"]["type"]),
            (429, &json!("rate_limit_error")),
            "{error}"
        );
        assert_eq!(refused.field("retry-after"), Some("1"));
        // Another key has places of its own.
        let mut other = gateway.connect().await;
        other.send(sent(ACME, MESSAGES, &hello())).await;
        mock.request(10).await;
        // Eleven slow counts leave the only place of the account to requests.
        let mut body = hello();
        body["max_tokens"] = json!(100);
        assert_eq!(count(&gateway, "/v1/messages", &body).await.status, 200);
        // A caller who leaves waits no longer.
        drop(running.pop());
        eventually("the line of the caller who left", || {
            gateway
                .lines()
                .into_iter()
                .find(|line| line["door"] == "count" && line["outcome"] == "client_left")
        })
        .await;
        gate.open();
        for connection in running.iter_mut().chain([&mut other]) {
            let answer = connection.response().await;
            assert_eq!(
                (answer.status, answer.json()),
                (200, json!({"input_tokens": 7}))
            );
            assert_eq!(answer.field("x-ratelimit-limit-requests"), None);
        }
        assert_eq!(
            gateway.raw(sent(KEY, MESSAGES, &hello())).await.status,
            200,
            "the places come back"
        );
        let told: Value = serde_json::from_str(&gateway.admin("/limits").1).expect("JSON");
        for used in told["limits"]
            .as_array()
            .expect("limits")
            .iter()
            .map(|scope| &scope["used"])
        {
            assert!(
                used.as_object()
                    .expect("used")
                    .values()
                    .all(|used| *used == json!(0) || *used == json!(0.0)),
                "{told}"
            );
        }
        // Counts would have come before it.
        eventually("the row of the request", || {
            (gateway.status()["ledger"]["rows"] != 0).then_some(())
        })
        .await;
        assert_eq!(gateway.status()["ledger"]["rows"], 1, "the request alone");
    });
}

#[test]
fn failed_counts_rest_nothing_and_skip_only_unreachable_accounts() {
    run_within(Duration::from_secs(60), async {
        let (first, second) = (Mock::start().await, Mock::start().await);
        first.by(|request| match request.target.contains("count_tokens") {
            true => Script::json(
                [401, 429, 500, 529][request.number % 4],
                &json!({"error": {"message": "no"}}),
            ),
            false => Script::json(200, &message_answer()),
        });
        second.always(Script::json(200, &json!({"input_tokens": 8})));
        let catalog = Catalog::new()
            .account_with("a", &first, "dialect: anthropic")
            .account_with("b", &second, "dialect: anthropic")
            .account_at("dead", "http://127.0.0.1:1/v1", "dialect: anthropic")
            .model("m", &[CLAUDE, "b=claude-sonnet-4-5"])
            .model("far", &["dead=claude-sonnet-4-5", "b=claude-sonnet-4-5"]);
        let gateway = Gateway::start(catalog).await;
        for number in 0..24 {
            let refused = count(&gateway, MESSAGES, &hello()).await;
            let expected = [503, 429, 502, 529][number % 4];
            assert_eq!(refused.status, expected, "{number}: {}", refused.text());
        }
        assert_eq!(
            (first.count(), second.count()),
            (24, 0),
            "nobody else is asked"
        );
        let mut body = hello();
        body["max_tokens"] = json!(100);
        assert_eq!(count(&gateway, "/v1/messages", &body).await.status, 200);
        assert_eq!(
            (first.count(), second.count()),
            (25, 0),
            "and the account is as good as before"
        );
        body["model"] = json!("far");
        for _ in 0..8 {
            let answer = count(&gateway, MESSAGES, &body).await;
            assert_eq!(
                (answer.status, answer.json()),
                (200, json!({"input_tokens": 8}))
            );
        }
        let line = eventually("the last line", || {
            gateway
                .lines()
                .into_iter()
                .find(|line| line["model"] == "far" && line["account"] == "b")
        })
        .await;
        let tried: Vec<&str> = line["attempts"]
            .as_array()
            .expect("tries")
            .iter()
            .filter_map(|tried| tried["outcome"].as_str())
            .collect();
        assert_eq!(tried, ["unreachable", "ok"], "nothing rests: {line:?}");
    });
}

#[test]
fn a_count_forgets_a_refused_token_and_tells_nobody() {
    run_within(Duration::from_secs(60), async {
        let (mock, issuer) = (Mock::start().await, Mock::start().await);
        for token in ["CaNaRy-token-one", "CaNaRy-token-two"] {
            issuer.push(Script::json(
                200,
                &json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}),
            ));
        }
        let refused = |code: u16, status: &str| {
            let message = "no: CaNaRy-token-two";
            Script::json(
                code,
                &json!({"error": {"code": code, "message": message, "status": status}}),
            )
        };
        mock.push(refused(401, "UNAUTHENTICATED"));
        mock.push(refused(400, "INVALID_ARGUMENT"));
        mock.push(Script::json(200, &json!({"totalTokens": 5})));
        let mut account: Value =
            serde_json::from_str(include_str!("../support/service_account.json")).unwrap();
        account["token_uri"] = json!(format!("http://{}/token", issuer.address()));
        let more = "dialect: vertex, project: p, service_account: { file: sa.json }";
        let catalog = Catalog::new()
            .account_at("g", &format!("http://{}", mock.address()), more)
            .model("n", &[GEMINI]);
        let gateway = Gateway::with(catalog)
            .file("sa.json", &account)
            .start()
            .await;
        let body = json!({"contents": contents()});
        let hopeless = count(&gateway, &gemini("n"), &body).await;
        assert_eq!(hopeless.status, 400, "{}", hopeless.text());
        let fault = count(&gateway, &gemini("n"), &body).await;
        assert_eq!((fault.status, issuer.count()), (400, 2), "{}", fault.text());
        assert!(fault.text().contains("no: [redacted]"), "{}", fault.text());
        let counted = count(&gateway, &gemini("n"), &body).await;
        assert_eq!(
            (counted.status, counted.json(), issuer.count()),
            (200, json!({"totalTokens": 5}), 2)
        );
    });
}

#[test]
fn claude_on_vertex_is_counted_by_anthropics_part() {
    run_within(Duration::from_secs(60), async {
        let mock = Mock::start().await;
        mock.always(Script::json(200, &json!({"input_tokens": 14})));
        let more = "dialect: vertex, project: p, location: us-east5";
        let target = "v=claude-sonnet-4-5@20250929";
        let catalog = Catalog::new()
            .account_at("v", &format!("http://{}", mock.address()), more)
            .model("m", &[target]);
        let gateway = Gateway::start(catalog).await;
        let counted = count(&gateway, MESSAGES, &hello()).await;
        assert_eq!(
            (counted.status, counted.json()),
            (200, json!({"input_tokens": 14}))
        );
        let asked = mock.request(0).await;
        let path =
            "/v1/projects/p/locations/us-east5/publishers/anthropic/models/count-tokens:rawPredict";
        assert_eq!(asked.target, path);
        let mut expected = hello();
        (expected["model"], expected["anthropic_version"]) = (
            json!("claude-sonnet-4-5@20250929"),
            json!("vertex-2023-10-16"),
        );
        assert_eq!(asked.json(), expected);
        assert_eq!(
            asked.field("anthropic-beta"),
            None,
            "the service refuses a beta that it does not know"
        );
        // The format of the caller does not matter.
        let counted = count(&gateway, &gemini("m"), &json!({"contents": contents()})).await;
        assert_eq!(
            (counted.status, counted.json()),
            (200, json!({"totalTokens": 14}))
        );
    });
}
