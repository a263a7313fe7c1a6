//! Anthropic's Messages as a front door, through the whole gateway: to an account of the same
//! format and to others, whole and as a stream, and what a caller is told when things go wrong.

use serde_json::{Value, json};

use crate::sealed::unsealed;
use crate::support::canary::{ACCOUNT_KEY, KEY};
use crate::support::client::{self, End, Response};
use crate::support::{Catalog, Gateway, Mock, ModelAnswer, Script, run, script};

/// Sends a request to the door, with these headers besides the key.
pub async fn ask(gateway: &Gateway, fields: &[(&str, &str)], body: &Value) -> Response {
    let fields = [
        &[("x-api-key", KEY), ("content-type", "application/json")],
        fields,
    ]
    .concat();
    gateway
        .raw(client::request(
            "POST",
            "/v1/messages?beta=true",
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

fn hello(more: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

/// The names and the data of a stream's events.
pub fn events(answer: &Response) -> Vec<(String, Value)> {
    let text = answer.text();
    let blocks = text
        .split("\n\n")
        .filter(|block| block.starts_with("event: "));
    blocks
        .map(|block| {
            let (name, data) = block.split_once('\n').expect("two lines");
            let data = data.strip_prefix("data: ").expect("data");
            (
                name["event: ".len()..].to_owned(),
                serde_json::from_str(data).expect("JSON"),
            )
        })
        .collect()
}

/// Puts a stream together as clients do.
fn message(answer: &Response) -> Value {
    let mut message = Value::Null;
    let mut inputs: Vec<String> = Vec::new();
    for (name, data) in events(answer) {
        assert_eq!(data["type"], name.as_str());
        let index = data["index"].as_u64().unwrap_or(0) as usize;
        match name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                assert_eq!(
                    message["content"].as_array().unwrap().len(),
                    index,
                    "no gap"
                );
                message["content"]
                    .as_array_mut()
                    .unwrap()
                    .push(data["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let block = &mut message["content"][index];
                let delta = &data["delta"];
                for key in ["text", "thinking", "signature"] {
                    if let Some(piece) = delta[key].as_str() {
                        block[key] = json!(format!(
                            "{}{piece}",
                            block[key].as_str().unwrap_or_default()
                        ));
                    }
                }
                inputs[index].push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if message["content"][index]["type"] == "tool_use" => {
                message["content"][index]["input"] =
                    serde_json::from_str(&inputs[index]).expect("an object");
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["usage"] = data["usage"].clone();
            }
            _ => {}
        }
    }
    message
}

fn weather() -> Value {
    json!([{"name": "weather", "description": "The weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}])
}

#[test]
fn a_tool_turn_at_an_account_of_openais_format() {
    run(async {
        let mock = Mock::start().await;
        let said = ModelAnswer::text("Let me see.")
            .call("weather", json!({"city": "Rome"}))
            .call("weather", json!({"city": "Oslo"}));
        mock.push(said.whole("openai")).push(said.stream("openai"));
        let gateway =
            Gateway::start(Catalog::new().account("a", &mock).model("m", &["a=up"])).await;

        let history = json!({"tools": weather(), "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "context_management": {"edits": []}, "messages": [
            {"role": "user", "content": "And in Bern?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Bern"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": "no data"}, {"type": "text", "text": "Try Rome."}]}]});
        let whole = ask(&gateway, &[], &hello(history.clone())).await;
        assert_eq!(whole.status, 200, "{}", whole.text());
        let seen = mock.request(0).await.json();
        assert_eq!(
            (
                &seen["model"],
                &seen["max_completion_tokens"],
                &seen["messages"]
            ),
            (
                &json!("up"),
                &json!(100),
                &json!([
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "And in Bern?"},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Bern\"}"}}]},
                    {"role": "tool", "tool_call_id": "t1", "content": "Error: no data"},
                    {"role": "user", "content": "Try Rome."},
                ])
            ),
            "{seen:#}"
        );
        let body = whole.json();
        assert_eq!(
            (&body["model"], &body["stop_reason"]),
            (&json!("m"), &json!("tool_use"))
        );
        assert_eq!(
            body["content"],
            json!([{"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_0_0", "name": "weather", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "call_0_1", "name": "weather", "input": {"city": "Oslo"}}])
        );
        assert_eq!(
            body["usage"],
            json!({"input_tokens": 30, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 3}})
        );

        let mut asked = hello(history);
        asked["stream"] = json!(true);
        let stream = ask(&gateway, &[], &asked).await;
        let streamed = message(&stream);
        for key in ["content", "stop_reason", "usage", "model", "role"] {
            assert_eq!(streamed[key], body[key], "{key}: {}", stream.text());
        }
        let names: Vec<_> = events(&stream).into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            (
                names.first().unwrap().as_str(),
                names.last().unwrap().as_str()
            ),
            ("message_start", "message_stop")
        );
        for line in gateway.access_lines(2).await {
            assert_eq!(
                (
                    &line["door"],
                    &line["prompt_tokens"],
                    &line["cached_tokens"]
                ),
                (&json!("messages"), &json!(50), &json!(20))
            );
        }
    });
}

#[test]
fn a_request_to_anthropic_passes_with_new_fields() {
    run(async {
        let mock = Mock::start().await;
        let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "new": {"a": [1]},
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s=="}, {"type": "text", "text": "Bonjour"}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 7}});
        mock.push(Script::json(200, &answer));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model("m", &["a=claude-sonnet-4-5"]);
        let gateway = Gateway::start(catalog).await;
        let body = hello(
            json!({"max_tokens": 128_000, "a_new_field": {"x": 1}, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        );
        let beta = [
            ("anthropic-beta", "new-2027"),
            ("anthropic-beta", "other-1"),
        ];
        let answered = ask(&gateway, &beta, &body).await;
        assert_eq!(answered.field("x-portcullis-dropped"), Some("max_tokens"));
        let mut expected = answer;
        expected["model"] = json!("m");
        assert_eq!(unsealed(&answered.text(), "s=="), expected.to_string());
        let seen = mock.request(0).await;
        assert_eq!(
            (seen.target.as_str(), seen.field("x-api-key")),
            ("/v1/messages", Some(ACCOUNT_KEY))
        );
        assert_eq!(seen.field("anthropic-beta"), Some("new-2027,other-1"));
        let mut sent = body;
        sent["model"] = json!("claude-sonnet-4-5");
        sent["max_tokens"] = json!(64_000);
        assert_eq!(seen.json(), sent);
        let line = gateway.line().await;
        assert_eq!(
            (&line["prompt_tokens"], &line["completion_tokens"]),
            (&json!(103), &json!(7))
        );

        // A stream passes event by event, those of unknown types too.
        let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}});
        let events_sent = [
            start,
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Bonjour"}}),
            json!({"type": "brand_new", "x": "y"}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ];
        mock.push(events_sent.iter().fold(Script::sse(), Script::named).end());
        let stream = ask(&gateway, &[], &hello(json!({"stream": true}))).await;
        let mut expected = events_sent.to_vec();
        expected[0]["message"]["model"] = json!("m");
        let seen: Vec<_> = events(&stream).into_iter().map(|(_, data)| data).collect();
        assert_eq!((seen, stream.end), (expected, Some(End::Whole)));
    });
}

#[test]
fn refusals_are_in_anthropics_form() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(Catalog::new().account("a", &mock).model("m", &["a"])).await;
        let check = |answer: &Response, status: u16, kind: &str| {
            let body = answer.json();
            assert_eq!(
                (answer.status, &body["type"], &body["error"]["type"]),
                (status, &json!("error"), &json!(kind)),
                "{body}"
            );
            assert!(
                body["error"]["message"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{body}"
            );
            assert_eq!(answer.field("request-id"), answer.field("x-request-id"));
            assert_eq!(body["request_id"].as_str(), answer.field("request-id"));
        };
        let wrong = client::request(
            "POST",
            "/v1/messages",
            &[("x-api-key", "sk-wrong")],
            hello(json!({})).to_string().as_bytes(),
        );
        let wrong = gateway.raw(wrong).await;
        check(&wrong, 401, "authentication_error");
        assert_eq!(
            wrong.field("x-should-retry"),
            Some("false"),
            "some clients try for minutes"
        );
        check(
            &ask(&gateway, &[], &hello(json!({"model": "none"}))).await,
            404,
            "not_found_error",
        );
        check(
            &ask(&gateway, &[], &hello(json!({"max_tokens": 0}))).await,
            400,
            "invalid_request_error",
        );
        let served = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
        let refused = ask(&gateway, &[], &hello(served)).await;
        check(&refused, 400, "invalid_request_error");
        assert!(
            refused.text().contains("web_search_20250305"),
            "{}",
            refused.text()
        );
        let lost = client::request("POST", "/v1/messages/batches", &[("x-api-key", KEY)], b"{}");
        check(&gateway.raw(lost).await, 404, "not_found_error");

        let long = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
        mock.push(Script::json(400, &json!({"error": {"message": long, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})));
        let too_long = ask(&gateway, &[], &hello(json!({}))).await;
        check(&too_long, 400, "invalid_request_error");
        assert_eq!(
            too_long.json()["error"]["message"],
            "prompt is too long: 9001 tokens > 8192 maximum"
        );
        mock.push(Script::error(429, "slow down"));
        check(
            &ask(&gateway, &[], &hello(json!({}))).await,
            429,
            "rate_limit_error",
        );
    });
}

#[test]
fn a_broken_stream_ends_with_an_error() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::new().account("a", &mock).model("m", &["a"]))
            .server("timeouts: { comment: 300ms }")
            .start()
            .await;
        mock.push(
            Script::sse()
                .words(0..2)
                .delay(std::time::Duration::from_secs(4))
                .reset(),
        );
        let answer = ask(&gateway, &[], &hello(json!({"stream": true}))).await;
        let events = events(&answer);
        let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (names.first(), names.last()),
            (Some(&"message_start"), Some(&"error")),
            "{}",
            answer.text()
        );
        assert!(
            names.contains(&"ping") && !names.contains(&"message_stop"),
            "{}",
            answer.text()
        );
        let (_, error) = events.last().unwrap();
        assert_eq!(
            (&error["type"], &error["error"]["type"]),
            (&json!("error"), &json!("api_error"))
        );
    });
}

#[test]
fn a_call_that_cannot_be_read_is_no_answer() {
    run(async {
        let mock = Mock::start().await;
        let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":"}});
        let mut answer = script::completion("");
        answer["choices"][0]["message"] =
            json!({"role": "assistant", "content": null, "tool_calls": [call]});
        answer["choices"][0]["finish_reason"] = json!("tool_calls");
        mock.always(Script::json(200, &answer));
        let gateway = Gateway::start(Catalog::new().account("a", &mock).model("m", &["a"])).await;
        let answer = ask(&gateway, &[], &hello(json!({"tools": weather()}))).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["type"].as_str()),
            (502, Some("api_error")),
            "{}",
            answer.text()
        );
    });
}

/// What passes would show the thinking.
#[test]
fn thinking_is_hidden_where_the_model_says_so() {
    run(async {
        let mock = Mock::start().await;
        let said = ModelAnswer::thinking("secret").and_text("Bonjour");
        mock.push(said.whole("anthropic"))
            .push(said.stream("anthropic"));
        let catalog = Catalog::new().account_with("a", &mock, "dialect: anthropic");
        let gateway =
            Gateway::start(catalog.model_with("m", &["a=claude-sonnet-4-5"], "reasoning: hide"))
                .await;
        for stream in [false, true] {
            let answer = ask(&gateway, &[], &hello(json!({"stream": stream}))).await;
            assert!(
                answer.text().contains("Bonjour") && !answer.text().contains("secret"),
                "{}",
                answer.text()
            );
        }
    });
}
