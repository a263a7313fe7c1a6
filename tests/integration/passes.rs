//! Bodies that pass, because the account has the format of the front door; and what a request may
//! name.

use serde_json::{Value, json};

use crate::messages::{ask as ask_messages, events};
use crate::sealed::unsealed;
use crate::support::canary::KEY;
use crate::support::client::{self, End, Response};
use crate::support::{Catalog, Gateway, Mock, Script, frames, run};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

fn hello(more: Value) -> Value {
    let mut body =
        json!({"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

async fn ask_gemini(gateway: &Gateway, verb: &str, body: &Value) -> Response {
    let fields = [
        ("x-goog-api-key", KEY),
        ("content-type", "application/json"),
    ];
    let path = format!("/v1beta/models/m:{verb}");
    gateway
        .raw(client::request(
            "POST",
            &path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

#[test]
fn a_request_of_geminis_passes_to_gemini() {
    run(async {
        let mock = Mock::start().await;
        let chunk = |parts: Value, more: Value| {
            let mut chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "up-1", "responseId": "r"});
            if more != json!(null) {
                chunk["candidates"][0]["finishReason"] = more;
                chunk["usageMetadata"] = json!({"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11});
            }
            chunk
        };
        let code = json!([{"executableCode": {"language": "PYTHON", "code": "1+1"}}, {"text": "It is 2.", "thoughtSignature": "c2ln"}]);
        let chunks = [
            chunk(code, json!(null)),
            chunk(json!([{"text": ""}]), json!("STOP")),
        ];
        mock.push(Script::json(
            200,
            &chunk(json!([{"text": "It is 2."}]), json!("STOP")),
        ));
        for _ in 0..2 {
            mock.push(Script::sse().event(&chunks[0]).event(&chunks[1]).end());
        }
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: gemini")
            .model("m", &["a=gemini-2.5-flash"]);
        let gateway = Gateway::start(catalog).await;
        let body = json!({"contents": [{"parts": [{"text": "hello", "thoughtSignature": ""}]}], "new_field": [1], "tools": [{"codeExecution": {}}],
            "generationConfig": {"maxOutputTokens": 100_000}});
        let mut sent = body.clone();
        sent["generationConfig"]["maxOutputTokens"] = json!(65_536);
        sent["contents"][0]["parts"][0]
            .as_object_mut()
            .unwrap()
            .remove("thoughtSignature");
        let asked = |chunk: &Value| {
            let mut chunk = chunk.clone();
            chunk["modelVersion"] = json!("m");
            chunk
        };

        let whole = ask_gemini(&gateway, "generateContent", &body).await;
        assert_eq!(
            whole.json(),
            asked(&chunk(json!([{"text": "It is 2."}]), json!("STOP"))),
            "{}",
            whole.text()
        );
        assert_eq!(
            whole.field("x-portcullis-dropped"),
            Some("generationConfig.maxOutputTokens")
        );
        let seen = mock.request(0).await;
        assert_eq!(
            (seen.target.as_str(), seen.json()),
            ("/v1/models/gemini-2.5-flash:generateContent", sent)
        );
        let expected: Vec<Value> = chunks.iter().map(asked).collect();
        let stream = ask_gemini(&gateway, "streamGenerateContent?alt=sse", &body).await;
        let text = unsealed(&stream.text(), "c2ln");
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let data: Vec<Value> = data
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert_eq!((data, stream.end), (expected.clone(), Some(End::Whole)));
        let array = ask_gemini(&gateway, "streamGenerateContent", &body).await;
        assert_eq!(
            unsealed(&array.text(), "c2ln").parse::<Value>().unwrap(),
            Value::from(expected)
        );
        for line in gateway.access_lines(3).await {
            assert_eq!(
                (&line["prompt_tokens"], &line["completion_tokens"]),
                (&json!(9), &json!(2)),
                "{line}"
            );
        }

        // What is stored at the account is nobody else's, and no other model is asked.
        for field in ["cachedContent", "model"] {
            let mut body = json!({"contents": [{"parts": [{"text": "hello"}]}]});
            body[field] = json!("cachedContents/of-somebody");
            let refused = ask_gemini(&gateway, "generateContent", &body).await;
            assert_eq!(refused.status, 400, "{}", refused.text());
            assert!(
                refused.text().contains(field) || field == "cachedContent",
                "{}",
                refused.text()
            );
        }
        assert_eq!(mock.count(), 3);
    });
}

#[test]
fn a_request_of_messages_passes_to_claude_at_bedrock() {
    run(async {
        let mock = Mock::start().await;
        let sent = [
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [],
                "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Bonjour"}}),
            json!({"type": "brand_new", "x": "y"}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ];
        mock.push(frames::invoked(&sent));
        let base = format!("http://{}", mock.address());
        let more = "dialect: bedrock, region: us-east-1, key: CaNaRy-bedrock";
        let gateway = Gateway::start(
            Catalog::new()
                .account_at("a", &base, more)
                .model("m", &[&format!("a={CLAUDE}")]),
        )
        .await;
        let beta = [("anthropic-beta", "effort-2025-11-24,brand-new-2030")];
        let stream = ask_messages(
            &gateway,
            &beta,
            &hello(json!({"stream": true, "new_field": {"x": [1]}})),
        )
        .await;
        let mut expected = sent.to_vec();
        expected[0]["message"]["model"] = json!("m");
        let told: Vec<_> = events(&stream).into_iter().map(|(_, data)| data).collect();
        assert_eq!((told, stream.end), (expected, Some(End::Whole)));
        let seen = mock.request(0).await;
        assert!(
            seen.target.ends_with("-v1%3A0/invoke-with-response-stream"),
            "{}",
            seen.target
        );
        assert_eq!(seen.field("anthropic-beta"), None);
        assert_eq!(
            seen.json(),
            json!({"anthropic_version": "bedrock-2023-05-31", "anthropic_beta": ["effort-2025-11-24"], "max_tokens": 50,
                "messages": [{"role": "user", "content": "hello"}], "new_field": {"x": [1]}})
        );
        let line = gateway.line().await;
        assert_eq!(
            (&line["prompt_tokens"], &line["completion_tokens"]),
            (&json!(10), &json!(7))
        );

        // An exception of Amazon's is an error of the stream.
        let head = Script::new().head(
            200,
            &[
                ("content-type", "application/vnd.amazon.eventstream"),
                ("transfer-encoding", "chunked"),
            ],
        );
        mock.push(
            head.body(frames::exception(
                "throttlingException",
                r#"{"message":"slow down"}"#,
            ))
            .end(),
        );
        let refused = ask_messages(&gateway, &[], &hello(json!({"stream": true}))).await;
        assert_eq!(
            refused.json()["error"]["type"],
            "rate_limit_error",
            "{}",
            refused.text()
        );
    });
}

#[test]
fn claude_at_vertex_is_asked_in_anthropics_format() {
    run(async {
        let mock = Mock::start().await;
        for _ in 0..2 {
            mock.push(Script::json(
                200,
                &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [{"type": "text", "text": "Bonjour"}],
                    "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 7}}),
            ));
        }
        let base = format!("http://{}", mock.address());
        let more = "dialect: vertex, project: p, location: eu, key: CaNaRy-vertex";
        let model = "claude-sonnet-4-5@20250929";
        let gateway = Gateway::start(
            Catalog::new()
                .account_at("a", &base, more)
                .model("m", &[&format!("a={model}")]),
        )
        .await;
        let answer = ask_messages(&gateway, &[], &hello(json!({}))).await;
        assert_eq!(
            (answer.status, &answer.json()["model"]),
            (200, &json!("m")),
            "{}",
            answer.text()
        );
        let chat = gateway.post(&client::chat("m")).await;
        assert_eq!(
            (chat.status, chat.content().as_str()),
            (200, "Bonjour"),
            "{}",
            chat.text()
        );
        for number in 0..2 {
            let seen = mock.request(number).await;
            let path = "/v1/projects/p/locations/eu/publishers/anthropic/models/claude-sonnet-4-5%4020250929:rawPredict";
            assert_eq!(
                (seen.target.as_str(), seen.field("authorization")),
                (path, Some("Bearer CaNaRy-vertex"))
            );
            let body = seen.json();
            assert_eq!(
                (&body["anthropic_version"], body.get("model")),
                (&json!("vertex-2023-10-16"), None)
            );
        }
    });
}

#[test]
fn a_request_names_only_models_of_its_key() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new()
            .account("a", &mock)
            .model("m", &["a=up"])
            .model("ours", &["a=theirs"])
            .model("secret", &["a=dear"])
            .without_acme()
            .caller_with("team", "models: [m, ours]", &[("k", KEY, "")]);
        let gateway = Gateway::start(catalog).await;
        let chat = |models: Value| json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], "models": models});
        for (models, index) in [(json!(["secret"]), 0), (json!(["m", "nowhere"]), 1)] {
            let refused = gateway.post(&chat(models)).await;
            assert_eq!(
                (refused.status, refused.json()["error"]["param"].as_str()),
                (400, Some(&*format!("models[{index}]")))
            );
        }
        assert_eq!(mock.count(), 0);
        mock.push(Script::answer("Hello"));
        let answer = gateway.post(&chat(json!(["m", "ours"]))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            mock.request(0).await.json()["models"],
            json!(["up", "theirs"])
        );
    });
}

#[test]
fn a_request_names_no_model_outside_limits_and_prices() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::answer("hi"));
        let key = "sk-CaNaRy-caller-bounded";
        let limits = "model_limits: { cheap: { usd_per_day: 5 }, tight: { requests_per_day: 1 } }";
        let price = "price: { input: 3, output: 15 }";
        let catalog = Catalog::new()
            .account("a", &mock)
            .model_with("cheap", &["a=c"], &format!("{price}, aliases: [also]"))
            .model_with("other", &["a=o"], price)
            .model_with("tight", &["a=t"], price)
            .model("dear", &["a=d"])
            .caller_with("bounded", "", &[("prod", key, limits)]);
        let gateway = Gateway::start(catalog).await;
        let ask = async |key: &str, other: &str| {
            let body = json!({"model": "cheap", "fallbacks": [other], "messages": [{"role": "user", "content": "x"}]});
            let fields = [("x-api-key", key), ("content-type", "application/json")];
            gateway
                .raw(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    body.to_string().as_bytes(),
                ))
                .await
        };
        for (other, allowed) in [
            ("other", true),
            ("also", true),
            ("dear", false),
            ("tight", false),
        ] {
            let (asked, answer) = (mock.count(), ask(key, other).await);
            assert_eq!(
                (answer.status == 200, mock.count() - asked),
                (allowed, usize::from(allowed)),
                "{other}"
            );
            if !allowed {
                assert_eq!(
                    (answer.status, &answer.json()["error"]["param"]),
                    (400, &json!("fallbacks[0]")),
                    "{other}"
                );
            }
            // Without such limits, all may be named.
            assert_eq!(ask(KEY, other).await.status, 200, "{other}");
        }
    });
}

#[test]
fn a_forbidden_model_is_refused_whatever_rests() {
    run(async {
        let (resting, good) = (Mock::start().await, Mock::start().await);
        resting.always(Script::error(429, "slow down"));
        good.always(Script::answer("hi"));
        let catalog = Catalog::new()
            .account("a", &resting)
            .account("b", &good)
            .model("m", &["a", "b"]);
        let gateway = Gateway::start(catalog).await;
        let ask = async |more: Value| {
            let fields = [("x-api-key", KEY), ("content-type", "application/json")];
            let body = hello(more).to_string();
            gateway
                .raw(client::request(
                    "POST",
                    "/v1/chat/completions",
                    &fields,
                    body.as_bytes(),
                ))
                .await
        };
        assert_eq!(ask(json!({})).await.status, 200);
        assert_eq!((resting.count(), good.count()), (1, 1));
        let refused = ask(json!({"fallbacks": ["dear"]})).await;
        assert_eq!(
            (refused.status, refused.json()["error"]["param"].as_str()),
            (400, Some("fallbacks[0]"))
        );
        assert_eq!((resting.count(), good.count()), (1, 1));
    });
}
