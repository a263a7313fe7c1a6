//! Every dialect through the whole gateway: the address of the request, its credential, the answer,
//! and the losses that are reported. The golden files, and not these tests, hold what exactly is
//! translated to what.

use std::time::Duration;

use serde_json::{Value, json};

use dialects::upstream;

use crate::failover::trail;
use crate::reported;
use crate::support::canary::ACCOUNT_KEY;
use crate::support::client::Response;
use crate::support::model_answers;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, frames, root, run};

/// Dialects that a list of the tests leaves out, each with the reason.
const LEFT_OUT: [(&str, &str, &str); 1] = [("tests/errors", "vertex", "its errors are Gemini's")];

#[test]
fn each_list_of_the_tests_has_each_dialect() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a source");
    let written = read("crates/dialects/tests/support/models.rs");
    // The demo is at none of them: it makes no calls.
    for protocol in upstream::ALL {
        if protocol.calls_nobody() {
            continue;
        }
        let name = protocol.name;
        let quoted = format!("\"{name}\"");
        let played = model_answers::DIALECTS.iter().any(|row| row.0 == name);
        let reported = reported::words::DIALECTS.iter();
        for (list, has_it) in [
            (
                "dialects/tests/support/models.rs",
                written.contains(&quoted),
            ),
            ("support/model_answers.rs", played),
            (
                "reported/words.rs",
                reported.clone().any(|one| one.name() == name),
            ),
            (
                "tests/errors",
                root().join("tests/errors").join(name).is_dir(),
            ),
        ] {
            let is_left_out = LEFT_OUT.iter().any(|row| (row.0, row.1) == (list, name));
            assert!(has_it != is_left_out, "{list}: {name}: {has_it}");
        }
    }
}

/// A request that has more in it than a text.
fn with(mut body: Value, more: Value) -> Value {
    let fields = more.as_object().expect("an object").clone();
    body.as_object_mut().expect("an object").extend(fields);
    body
}

/// One account of a dialect at a mock, which knows the model `m` as `model`.
fn over(mock: &Mock, more: &str, model: &str) -> Catalog {
    Catalog::new()
        .account_with("a", mock, more)
        .model("m", &[&format!("a={model}")])
}

/// The deltas of a stream, one after the other.
fn deltas(answer: &Response) -> Vec<Value> {
    let chunks = answer
        .events()
        .into_iter()
        .filter(|event| event != "[DONE]");
    let chunks = chunks.map(|event| serde_json::from_str::<Value>(&event).expect("JSON"));
    chunks
        .filter_map(|chunk| {
            chunk["choices"]
                .get(0)
                .map(|choice| choice["delta"].clone())
        })
        .collect()
}

fn is_whole(answer: &Response) {
    assert_eq!(
        (answer.status, answer.events().last().map(String::as_str)),
        (200, Some("[DONE]")),
        "{}",
        answer.text()
    );
}

const CLAUDE: &str = "claude-sonnet-4-5";

fn claude(content: Value, stop: &str) -> Script {
    Script::json(
        200,
        &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": CLAUDE, "content": content, "stop_reason": stop,
            "stop_sequence": null, "usage": {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 7}}),
    )
}

/// Named events, as Anthropic sends them.
fn named(events: &[Value]) -> Script {
    let script = events.iter().fold(Script::sse(), |script, event| {
        script.body(format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().expect("a type")
        ))
    });
    script.end()
}

fn block(index: u32, start: Value, delta: &[Value]) -> Vec<Value> {
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let deltas = delta
        .iter()
        .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let stop = json!({"type": "content_block_stop", "index": index});
    std::iter::once(start).chain(deltas).chain([stop]).collect()
}

fn claude_stream(blocks: &[Vec<Value>], stop: &str) -> Script {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 90, "output_tokens": 1});
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": CLAUDE,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 7}});
    let events: Vec<Value> = [
        vec![start, json!({"type": "ping"})],
        blocks.concat(),
        vec![end, json!({"type": "message_stop"})],
    ]
    .concat();
    named(&events)
}

#[test]
fn anthropic_buffered_and_streamed() {
    run(async {
        let mock = Mock::start().await;
        mock.push(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let text = block(
            0,
            json!({"type": "text", "text": ""}),
            &[
                json!({"type": "text_delta", "text": "Bon"}),
                json!({"type": "text_delta", "text": "jour"}),
            ],
        );
        mock.push(claude_stream(&[text], "end_turn"));
        let gateway = Gateway::start(over(&mock, "dialect: anthropic", CLAUDE)).await;

        let answer = gateway.post(&chat("m")).await;
        let body = answer.json();
        assert_eq!((answer.status, answer.content().as_str()), (200, "Bonjour"));
        assert_eq!(
            (&body["model"], &body["choices"][0]["finish_reason"]),
            (&json!("m"), &json!("stop"))
        );
        assert_eq!(body["usage"]["prompt_tokens"], 103);
        assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 90);
        assert_eq!(
            (
                &body["usage"]["completion_tokens"],
                &body["usage"]["total_tokens"]
            ),
            (&json!(7), &json!(110))
        );
        let seen = mock.request(0).await;
        assert_eq!(seen.target, "/v1/messages");
        assert_eq!(seen.field("x-api-key"), Some(ACCOUNT_KEY));
        assert_eq!(
            (seen.field("anthropic-version"), seen.field("authorization")),
            (Some("2023-06-01"), None)
        );
        assert_eq!(
            (&seen.json()["model"], &seen.json()["max_tokens"]),
            (&json!(CLAUDE), &json!(21333)),
            "B15: what comes in time"
        );

        let stream = gateway
            .post(&with(
                chat_stream("m"),
                json!({"stream_options": {"include_usage": true}}),
            ))
            .await;
        is_whole(&stream);
        assert_eq!(stream.content(), "Bonjour");
        let usage: Value =
            serde_json::from_str(&stream.events()[stream.events().len() - 2]).unwrap();
        assert_eq!(
            usage["usage"], body["usage"],
            "the same request costs the same, streamed or not"
        );
        let lines = gateway.access_lines(2).await;
        for line in lines {
            assert_eq!(
                (
                    &line["prompt_tokens"],
                    &line["completion_tokens"],
                    &line["cached_tokens"]
                ),
                (&json!(103), &json!(7), &json!(90))
            );
            assert_eq!(
                (&line["usage"], &line["upstream_model"]),
                (&json!("reported"), &json!(CLAUDE))
            );
        }
    });
}

fn tools() -> Value {
    json!([{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}])
}

/// A client of OpenAI's knows no field for signed thinking. It comes back all the same with the
/// tool's result (P10).
#[test]
fn signed_thinking_comes_back_with_the_tools_result() {
    run(async {
        let mock = Mock::start().await;
        let thinking = json!([{"type": "thinking_delta", "thinking": "Rome?"}, {"type": "signature_delta", "signature": "sig=="}]);
        let call = json!([{"type": "input_json_delta", "partial_json": "{\"city\":"}, {"type": "input_json_delta", "partial_json": "\"Rome\"}"}]);
        let blocks = [
            block(
                0,
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                thinking.as_array().unwrap(),
            ),
            block(
                1,
                json!({"type": "text", "text": ""}),
                &[json!({"type": "text_delta", "text": "Let me see."})],
            ),
            block(
                2,
                json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}),
                call.as_array().unwrap(),
            ),
        ];
        mock.push(claude_stream(&blocks, "tool_use"));
        mock.push(claude(
            json!([{"type": "text", "text": "Sunny."}]),
            "end_turn",
        ));
        let catalog = over(&mock, "dialect: anthropic", CLAUDE);
        let other = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnop";
        let gateway = Gateway::start(catalog.caller("other", other, "")).await;

        let asked =
            json!({"tools": tools(), "reasoning_effort": "low", "max_completion_tokens": 9000});
        let first = gateway.post(&with(chat_stream("m"), asked.clone())).await;
        is_whole(&first);
        let deltas = deltas(&first);
        let shown: String = deltas
            .iter()
            .filter_map(|delta| delta["reasoning_content"].as_str())
            .collect();
        assert_eq!(
            (shown.as_str(), first.content().as_str()),
            ("Rome?", "Let me see.")
        );
        let calls: Vec<&Value> = deltas
            .iter()
            .filter_map(|delta| delta["tool_calls"].get(0))
            .collect();
        assert_eq!(
            (
                &calls[0]["id"],
                &calls[0]["function"]["name"],
                &calls[0]["index"]
            ),
            (&json!("toolu_1"), &json!("weather"), &json!(0))
        );
        let arguments: String = calls
            .iter()
            .filter_map(|call| call["function"]["arguments"].as_str())
            .collect();
        assert_eq!(arguments, r#"{"city":"Rome"}"#);

        let next = with(
            with(chat("m"), asked),
            json!({"messages": [{"role": "user", "content": "Weather in Rome?"},
                {"role": "assistant", "content": "Let me see.", "tool_calls":
                    [{"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
                {"role": "tool", "tool_call_id": "toolu_1", "content": "sun"}]}),
        );
        let second = gateway.post(&next).await;
        assert_eq!(
            (
                second.status,
                second.content().as_str(),
                second.field("x-portcullis-dropped")
            ),
            (200, "Sunny.", None)
        );
        let sent = mock.request(1).await.json();
        assert_eq!(sent["thinking"]["type"], "enabled");
        assert_eq!(
            sent["messages"][1]["content"],
            json!([{"type": "thinking", "thinking": "Rome?", "signature": "sig=="}, {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}}])
        );
        // Another caller who names the call does not get what was kept for the first.
        mock.push(claude(
            json!([{"type": "text", "text": "Sunny."}]),
            "end_turn",
        ));
        let bytes = crate::support::client::post_as(other, &next);
        let foreign = gateway.raw(bytes).await;
        assert_eq!(
            foreign.field("x-portcullis-dropped"),
            Some("reasoning_effort")
        );
        let sent = mock.request(2).await;
        assert!(
            !sent.text().contains("sig==") && !sent.text().contains("Rome?\",\"signature"),
            "{}",
            sent.text()
        );
    });
}

#[test]
fn reasoning_is_hidden_where_the_model_says_so() {
    run(async {
        let mock = Mock::start().await;
        let thinking = block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[json!({"type": "thinking_delta", "thinking": "secret"})],
        );
        let text = block(
            1,
            json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "said"})],
        );
        mock.push(claude_stream(&[thinking, text], "end_turn"));
        mock.push(claude(
            json!([{"type": "thinking", "thinking": "secret", "signature": "s"}, {"type": "text", "text": "said"}]),
            "end_turn",
        ));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model_with("m", &["a=claude-sonnet-4-5"], "reasoning: hide");
        let gateway = Gateway::start(catalog).await;
        for body in [chat_stream("m"), chat("m")] {
            let answer = gateway.post(&body).await;
            assert_eq!((answer.status, answer.content().as_str()), (200, "said"));
            assert!(
                !answer.text().contains("secret") && !answer.text().contains("reasoning_content"),
                "{}",
                answer.text()
            );
        }
    });
}

#[test]
fn errors_of_other_dialects_are_classed_and_made_standard() {
    run(async {
        let mock = Mock::start().await;
        let error = |status, kind: &str, message: &str| {
            Script::json(
                status,
                &json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}),
            )
        };
        let gateway = Gateway::start(over(&mock, "dialect: anthropic", CLAUDE)).await;
        mock.push(error(
            400,
            "invalid_request_error",
            "prompt is too long: 250000 tokens > 200000 maximum",
        ));
        gateway
            .post(&chat("m"))
            .await
            .is_error(400, "context_length_exceeded");
        mock.push(error(529, "overloaded_error", "Overloaded").with("retry-after", "2"));
        gateway
            .post(&chat("m"))
            .await
            .is_error(503, "upstream_overloaded");
        let line = &gateway.access_lines(2).await[1];
        assert_eq!(
            (trail(line).as_str(), &line["attempts"][0]["status"]),
            ("a:overloaded", &json!(529))
        );
    });
    run(async {
        // After the stream began, an error event; before, the next candidate.
        let (mock, spare) = (Mock::start().await, Mock::start().await);
        let failure = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        mock.push(named(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 1}}}),
            failure.clone(),
        ]));
        let begun = block(
            0,
            json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "Bon"})],
        );
        let gate = Gate::new();
        let late = format!("event: error\ndata: {failure}\n\n");
        let mut cut = named(&begun[..2]);
        cut.steps.pop();
        mock.push(cut.wait(&gate).body(late).end());
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account("b", &spare)
            .model("m", &["a=claude-sonnet-4-5", "b"]);
        let gateway = Gateway::start(catalog).await;
        let first = gateway.post(&chat_stream("m")).await;
        is_whole(&first);
        assert_eq!(first.content(), "w0 w1 w2 ");
        // An overloaded account stands behind the others for a while.
        gateway.reset("a");
        let (mut connection, mut second) = gateway.open(&chat_stream("m")).await;
        while !second.text().contains("Bon") {
            assert!(
                connection.piece(&mut second).await.is_some(),
                "{}",
                second.text()
            );
        }
        gate.open();
        connection.rest(&mut second).await;
        let events = second.events();
        assert!(
            second.content() == "Bon"
                && events.last().unwrap().contains("error")
                && !events.contains(&"[DONE]".to_owned()),
            "{events:?}"
        );
    });
}

#[test]
fn gemini_buffered_and_streamed() {
    run(async {
        let mock = Mock::start().await;
        let usage = json!({"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 30, "totalTokenCount": 41});
        let part = |parts: Value, finish: Option<&str>| {
            let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
            if let Some(finish) = finish {
                candidate["finishReason"] = json!(finish);
            }
            json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "g", "responseId": "abc"})
        };
        mock.push(Script::json(
            200,
            &part(json!([{"text": "Ciao"}]), Some("STOP")),
        ));
        let call = json!([{"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "c2ln"}]);
        mock.push(
            Script::sse()
                .event(part(json!([{"text": "Ci"}]), None))
                .event(part(call, None))
                .event(part(json!([{"text": ""}]), Some("STOP")))
                .end(),
        );
        mock.push(Script::json(
            200,
            &part(json!([{"text": "Sunny"}]), Some("STOP")),
        ));
        let gateway = Gateway::start(over(&mock, "dialect: gemini", "gemini-3-pro")).await;

        let answer = gateway.post(&chat("m")).await;
        assert_eq!((answer.status, answer.content().as_str()), (200, "Ciao"));
        let usage = &answer.json()["usage"];
        assert_eq!(
            (
                &usage["prompt_tokens"],
                &usage["completion_tokens"],
                &usage["total_tokens"]
            ),
            (&json!(9), &json!(32), &json!(41))
        );
        assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 30);
        let seen = mock.request(0).await;
        assert_eq!(seen.target, "/v1/models/gemini-3-pro:generateContent");
        assert_eq!(
            (seen.field("x-goog-api-key"), seen.field("authorization")),
            (Some(ACCOUNT_KEY), None)
        );

        let stream = gateway
            .post(&with(chat_stream("m"), json!({"tools": tools()})))
            .await;
        is_whole(&stream);
        assert_eq!(
            mock.request(1).await.target,
            "/v1/models/gemini-3-pro:streamGenerateContent?alt=sse"
        );
        let deltas = deltas(&stream);
        let call = deltas
            .iter()
            .find_map(|delta| delta["tool_calls"].get(0))
            .expect("a call")
            .clone();
        assert_eq!(call["function"]["name"], "weather");
        assert_eq!(call["extra_content"]["google"]["thought_signature"], "c2ln");
        // The client sends back what it knows, and not the signature.
        let id = call["id"].clone();
        let next = json!({"tools": tools(), "messages": [{"role": "user", "content": "Rome?"},
            {"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
            {"role": "tool", "tool_call_id": id, "content": "sun"}]});
        assert_eq!(
            gateway.post(&with(chat("m"), next)).await.content(),
            "Sunny"
        );
        let sent = mock.request(2).await.json();
        assert_eq!(sent["contents"][1]["parts"][0]["thoughtSignature"], "c2ln");
        assert_eq!(
            sent["contents"][2]["parts"][0]["functionResponse"]["name"],
            "weather"
        );
    });
}

const SERVICE_ACCOUNT: &str = include_str!("../support/service_account.json");

/// The token is fetched once, goes out as a bearer, and is fetched anew when the upstream no longer
/// takes it.
#[test]
fn vertex_signs_for_a_token() {
    run(async {
        let (mock, issuer) = (Mock::start().await, Mock::start().await);
        let good = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Ciao"}]}, "finishReason": "STOP"}]});
        mock.always(Script::json(200, &good));
        issuer.push(Script::json(
            200,
            &json!({"access_token": "CaNaRy-token-one", "expires_in": 3599, "token_type": "Bearer"}),
        ));
        issuer.push(Script::json(
            200,
            &json!({"access_token": "CaNaRy-token-two", "expires_in": 3599, "token_type": "Bearer"}),
        ));
        let mut account: Value = serde_json::from_str(SERVICE_ACCOUNT).unwrap();
        account["token_uri"] = json!(format!("http://{}/token", issuer.address()));
        let base = format!("http://{}", mock.address());
        let catalog = Catalog::new()
            .account_at(
                "a",
                &base,
                "dialect: vertex, project: acme-1, location: europe-west4, service_account: { file: sa.json }",
            )
            .model("m", &["a=gemini-2.5-flash"]);
        let gateway = Gateway::with(catalog)
            .file("sa.json", &account)
            .start()
            .await;
        for _ in 0..2 {
            let answer = gateway.post(&chat("m")).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "Ciao"),
                "{}",
                answer.text()
            );
        }
        assert_eq!(issuer.count(), 1);
        let asked = issuer.request(0).await;
        assert_eq!(
            (asked.target.as_str(), asked.field("content-type")),
            ("/token", Some("application/x-www-form-urlencoded"))
        );
        assert!(
            asked.text().starts_with(
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
            ),
            "{}",
            asked.text()
        );
        let seen = mock.request(1).await;
        assert_eq!(
            seen.target,
            "/v1/projects/acme-1/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent"
        );
        assert_eq!(
            (seen.field("authorization"), seen.field("x-goog-api-key")),
            (Some("Bearer CaNaRy-token-one"), None)
        );
        mock.push(Script::json(
            401,
            &json!({"error": {"code": 401, "message": "expired", "status": "UNAUTHENTICATED"}}),
        ));
        gateway
            .post(&chat("m"))
            .await
            .is_error(503, "upstream_unavailable");
        assert!(!gateway.log().contains("CaNaRy-token"));
    });
}

#[test]
fn vertex_without_a_token_explains_only_in_the_log() {
    run(async {
        let (mock, issuer, spare) = (
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        );
        issuer.always(Script::json(
            400,
            &json!({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}),
        ));
        let mut account: Value = serde_json::from_str(SERVICE_ACCOUNT).unwrap();
        account["token_uri"] = json!(format!("http://{}/token", issuer.address()));
        let base = format!("http://{}", mock.address());
        let catalog = Catalog::new()
            .account_at(
                "a",
                &base,
                "dialect: vertex, project: p, service_account: { file: sa.json }",
            )
            .account("b", &spare)
            .model("m", &["a=gemini-2.5-flash", "b"]);
        let gateway = Gateway::with(catalog)
            .file("sa.json", &account)
            .start()
            .await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            (mock.count(), trail(&gateway.line().await).as_str()),
            (0, "a:credential b:ok")
        );
    });
}

fn bedrock_stream(events: &[(&str, Value)]) -> Script {
    let head = Script::new().head(
        200,
        &[
            ("content-type", "application/vnd.amazon.eventstream"),
            ("transfer-encoding", "chunked"),
        ],
    );
    let bytes: Vec<u8> = events
        .iter()
        .flat_map(|(kind, payload)| frames::event(kind, &payload.to_string()))
        .collect();
    // However it is cut.
    head.slices(bytes, 7, Duration::ZERO).end()
}

const NOVA: &str = "amazon.nova-pro-v1:0";

#[test]
fn bedrock_buffered_and_streamed() {
    run(async {
        let mock = Mock::start().await;
        let usage = json!({"inputTokens": 5, "outputTokens": 2, "totalTokens": 7});
        mock.push(Script::json(
            200,
            &json!({"output": {"message": {"role": "assistant", "content": [{"text": "Hola"}]}}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}),
        ));
        mock.push(bedrock_stream(&[
            ("messageStart", json!({"role": "assistant"})),
            (
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"text": "Ho"}}),
            ),
            (
                "contentBlockDelta",
                json!({"contentBlockIndex": 0, "delta": {"text": "la"}, "p": "abc"}),
            ),
            ("contentBlockStop", json!({"contentBlockIndex": 0})),
            ("messageStop", json!({"stopReason": "end_turn"})),
            (
                "metadata",
                json!({"usage": usage, "metrics": {"latencyMs": 1}}),
            ),
        ]));
        let base = format!("http://{}", mock.address());
        let more = "dialect: bedrock, region: us-east-1, aws: { access_key_id: AKIDCaNaRyEXAMPLE, secret_access_key: CaNaRy-secret-access-key, session_token: CaNaRy-session }";
        let gateway = Gateway::start(
            Catalog::new()
                .account_at("a", &base, more)
                .model("m", &[&format!("a={NOVA}")]),
        )
        .await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(
            (answer.status, answer.content().as_str()),
            (200, "Hola"),
            "{}",
            answer.text()
        );
        assert_eq!(answer.json()["usage"]["total_tokens"], 7);
        let stream = gateway.post(&chat_stream("m")).await;
        is_whole(&stream);
        assert_eq!(stream.content(), "Hola");
        let seen = mock.request(1).await;
        assert_eq!(seen.target, "/model/amazon.nova-pro-v1%3A0/converse-stream");
        let signature = seen.field("authorization").expect("a signature");
        assert!(
            signature.starts_with("AWS4-HMAC-SHA256 Credential=AKIDCaNaRyEXAMPLE/"),
            "{signature}"
        );
        assert!(
            signature.contains("/us-east-1/bedrock/aws4_request") && !signature.contains("secret"),
            "{signature}"
        );
        assert_eq!(seen.field("x-amz-security-token"), Some("CaNaRy-session"));
        assert!(
            seen.field("x-amz-date")
                .is_some_and(|date| date.len() == 16 && date.ends_with('Z'))
        );
    });
    run(async {
        // A Bedrock API key is a bearer; an exception inside the stream is an error; a broken
        // checksum is no answer.
        let mock = Mock::start().await;
        let head = || {
            Script::new().head(
                200,
                &[
                    ("content-type", "application/vnd.amazon.eventstream"),
                    ("transfer-encoding", "chunked"),
                ],
            )
        };
        let delta = frames::event(
            "contentBlockDelta",
            r#"{"contentBlockIndex":0,"delta":{"text":"Ho"}}"#,
        );
        mock.push(
            head()
                .body(&delta)
                .body(frames::exception(
                    "modelStreamErrorException",
                    r#"{"message":"no"}"#,
                ))
                .end(),
        );
        let mut broken = delta.clone();
        let last = broken.len() - 1;
        broken[last] ^= 1;
        mock.push(head().body(broken).end());
        mock.push(head().body(&delta[..delta.len() - 3]).end());
        let base = format!("http://{}", mock.address());
        let gateway = Gateway::start(
            Catalog::new()
                .account_at("a", &base, "dialect: bedrock, region: us-east-1")
                .model("m", &[&format!("a={NOVA}")]),
        )
        .await;
        let cut = gateway.post(&chat_stream("m")).await;
        assert!(
            cut.content() == "Ho" && cut.events().last().unwrap().contains("\"error\""),
            "{}",
            cut.text()
        );
        assert_eq!(
            mock.request(0).await.field("authorization"),
            Some(format!("Bearer {ACCOUNT_KEY}").as_str())
        );
        gateway
            .post(&chat_stream("m"))
            .await
            .is_error(502, "bad_upstream_response");
        gateway
            .post(&chat_stream("m"))
            .await
            .is_error(502, "bad_upstream_response");
    });
}

#[test]
fn cohere_and_ollama_buffered_and_streamed() {
    run(async {
        let mock = Mock::start().await;
        let usage = json!({"billed_units": {"input_tokens": 3.0, "output_tokens": 2.0}, "tokens": {"input_tokens": 9.0, "output_tokens": 2.0}});
        mock.push(Script::json(
            200,
            &json!({"id": "c1", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": [{"type": "text", "text": "Hej"}]}, "usage": usage}),
        ));
        mock.push(named(&[
            json!({"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant", "content": []}}}),
            json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
            json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "He"}}}}),
            json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "j"}}}}),
            json!({"type": "content-end", "index": 0}),
            json!({"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}}),
        ]));
        let gateway = Gateway::start(over(&mock, "dialect: cohere", "command-a-03-2025")).await;
        for body in [chat("m"), chat_stream("m")] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "Hej"),
                "{}",
                answer.text()
            );
        }
        let seen = mock.request(0).await;
        assert_eq!(
            (seen.target.as_str(), seen.field("authorization")),
            ("/v1/chat", Some(format!("Bearer {ACCOUNT_KEY}").as_str()))
        );
        for line in gateway.access_lines(2).await {
            assert_eq!(
                (
                    &line["prompt_tokens"],
                    &line["completion_tokens"],
                    &line["usage"]
                ),
                (&json!(9), &json!(2), &json!("reported"))
            );
        }
    });
    run(async {
        let mock = Mock::start().await;
        let line = |text: &str, done: bool| {
            let mut line = json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": text}, "done": done});
            if done {
                line.as_object_mut().unwrap().extend(
                    json!({"done_reason": "stop", "prompt_eval_count": 9, "eval_count": 2})
                        .as_object()
                        .unwrap()
                        .clone(),
                );
            }
            line
        };
        mock.push(Script::json(200, &line("Hei", true)));
        let lines = format!(
            "{}\n{}\n{}\n",
            line("He", false),
            line("i", false),
            line("", true)
        );
        mock.push(
            Script::new()
                .head(
                    200,
                    &[
                        ("content-type", "application/x-ndjson"),
                        ("transfer-encoding", "chunked"),
                    ],
                )
                .slices(&lines, 11, Duration::ZERO)
                .end(),
        );
        mock.push(
            Script::new()
                .head(
                    200,
                    &[
                        ("content-type", "application/x-ndjson"),
                        ("transfer-encoding", "chunked"),
                    ],
                )
                .body(&lines[..lines.len() / 2])
                .end(),
        );
        let base = format!("http://{}", mock.address());
        let gateway = Gateway::start(
            Catalog::new()
                .account_at("a", &base, "dialect: ollama")
                .model("m", &["a=qwen3"]),
        )
        .await;
        for body in [chat("m"), chat_stream("m")] {
            let answer = gateway.post(&body).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "Hei"),
                "{}",
                answer.text()
            );
        }
        assert_eq!(
            (
                mock.request(0).await.target.as_str(),
                &mock.request(0).await.json()["stream"]
            ),
            ("/api/chat", &json!(false))
        );
        let cut = gateway.post(&chat_stream("m")).await;
        assert!(
            cut.events().last().unwrap().contains("\"error\""),
            "a cut stream says so: {}",
            cut.text()
        );
    });
}

#[test]
fn azure_is_addressed_by_deployment_or_v1_path() {
    run(async {
        let mock = Mock::start().await;
        let base = format!("http://{}", mock.address());
        let catalog = Catalog::new()
            .account_at("old", &base, "dialect: azure, api_version: 2024-10-21")
            .account_at("new", &base, "dialect: azure")
            .account_at("entra", &base, "dialect: azure, auth: bearer")
            .model("o", &["old=my gpt"])
            .model("n", &["new=gpt-4o"])
            .model("e", &["entra=gpt-4o"]);
        let gateway = Gateway::start(catalog).await;
        let asked = [
            (
                "o",
                "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
            ),
            ("n", "/openai/v1/chat/completions"),
            ("e", "/openai/v1/chat/completions"),
        ];
        for (nth, (model, target)) in asked.into_iter().enumerate() {
            assert_eq!(gateway.post(&chat(model)).await.status, 200);
            let seen = mock.request(nth).await;
            assert_eq!(seen.target, target);
            let bearer = format!("Bearer {ACCOUNT_KEY}");
            let expected = if model == "e" {
                (None, Some(bearer.as_str()))
            } else {
                (Some(ACCOUNT_KEY), None)
            };
            assert_eq!(
                (seen.field("api-key"), seen.field("authorization")),
                expected
            );
        }
    });
}

/// Loss is said: in a header, in the access line, in a metric; or the request is refused before
/// anybody is asked.
#[test]
fn what_is_lost_is_said_or_refused() {
    run(async {
        let mock = Mock::start().await;
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model("m", &["a=claude-sonnet-4-5"])
            .model_with("strict", &["a=claude-sonnet-4-5"], "on_loss: refuse");
        let gateway = Gateway::start(catalog).await;
        let lossy =
            json!({"seed": 7, "logit_bias": {"50256": -100}, "made_up": {"a": 1}, "max_tokens": 5});
        let answer = gateway.post(&with(chat("m"), lossy.clone())).await;
        assert_eq!(answer.status, 200);
        let mut dropped: Vec<&str> = answer
            .field("x-portcullis-dropped")
            .expect("losses")
            .split(", ")
            .collect();
        dropped.sort_unstable();
        assert_eq!(dropped, ["logit_bias", "made_up", "seed"]);
        let sent = mock.request(0).await.json();
        let mut fields: Vec<&String> = sent.as_object().unwrap().keys().collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            ["max_tokens", "messages", "model"],
            "B08: nothing that the provider would refuse"
        );
        gateway.line_of(&answer).await;
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum(
                "portcullis_dropped_params_total",
                &[("param", "seed"), ("account", "a")]
            ),
            1.0
        );
        assert_eq!(
            metrics.sum("portcullis_dropped_params_total", &[("param", "other")]),
            1.0,
            "{}",
            metrics.0
        );

        let refused = gateway.post(&with(chat("strict"), lossy)).await;
        let error = refused.is_error(400, "unsupported_parameter");
        assert_eq!(error["param"], "seed");
        assert!(
            error["message"].as_str().unwrap().contains("strict"),
            "{error}"
        );
        assert_eq!(mock.count(), 1, "nobody was asked");
        assert_eq!(gateway.line_of(&refused).await["outcome"], "unsupported");
    });
}

/// B16: what a target cannot do makes it be passed over; if none can, the caller is told before
/// anybody is asked.
#[test]
fn b16_a_target_that_cannot_is_passed_over() {
    run(async {
        let (mock, spare) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account("b", &spare)
            .model("m", &["a=claude-sonnet-4-5", "b"])
            .model("only", &["a=claude-sonnet-4-5"]);
        let gateway = Gateway::start(catalog).await;
        for (more, param) in [
            (json!({"n": 2}), "n"),
            (json!({"logprobs": true}), "logprobs"),
            (
                json!({"modalities": ["text", "audio"], "audio": {"voice": "a", "format": "wav"}}),
                "modalities",
            ),
            (
                json!({"tools": [{"type": "custom", "custom": {"name": "shell"}}]}),
                "tools[0]",
            ),
            (
                json!({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]}]}),
                "messages[0].content[0]",
            ),
        ] {
            let answer = gateway.post(&with(chat("m"), more.clone())).await;
            assert_eq!(
                (answer.status, answer.field("x-portcullis-dropped")),
                (200, None),
                "{more}"
            );
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (&line["account"], trail(&line).as_str()),
                (&json!("b"), "b:ok"),
                "{more}"
            );
            let refused = gateway.post(&with(chat("only"), more.clone())).await;
            let error = refused.is_error(400, "unsupported_parameter");
            assert!(
                error["param"].as_str().unwrap().starts_with(param),
                "{error}"
            );
            assert!(
                error["message"].as_str().unwrap().contains("`only`"),
                "{error}"
            );
        }
        assert_eq!((mock.count(), spare.count()), (0, 5));
    });
}

/// B07: numbers that no dialect could carry exactly are the caller's to mend; the pass-through
/// leaves them alone.
#[test]
fn b07_numbers_are_exact_or_refused() {
    run(async {
        let (mock, plain) = (Mock::start().await, Mock::start().await);
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account("b", &plain)
            .model("m", &["a=claude-sonnet-4-5"])
            .model("p", &["b"]);
        let gateway = Gateway::start(catalog).await;
        let ask = |model: &str, more: &str| {
            let body = format!(
                r#"{{"model":"{model}","messages":[{{"role":"user","content":"x"}}],{more}}}"#
            );
            crate::support::client::request(
                "POST",
                "/v1/chat/completions",
                &[
                    (
                        "authorization",
                        &format!("Bearer {}", crate::support::canary::KEY),
                    ),
                    ("content-type", "application/json"),
                ],
                body.as_bytes(),
            )
        };
        for (more, sent) in [
            (r#""temperature":1e999"#, None),
            (r#""max_tokens":12345678901234567890"#, None),
            (r#""max_tokens":1.5"#, None),
            (r#""max_tokens":-2"#, None),
            (r#""temperature":-0"#, Some(r#""temperature":-0"#)),
            (r#""temperature":0.70"#, Some(r#""temperature":0.70"#)),
            (r#""max_tokens":16.0"#, Some(r#""max_tokens":16"#)),
        ] {
            let answer = gateway.raw(ask("m", more)).await;
            match sent {
                None => {
                    let field = more.split('"').nth(1).unwrap();
                    assert_eq!(
                        answer.is_error(400, "invalid_value")["param"],
                        field,
                        "{more}"
                    );
                }
                Some(sent) => {
                    assert_eq!(answer.status, 200, "{more}: {}", answer.text());
                    let seen = mock.requests().pop().unwrap().text();
                    assert!(seen.contains(sent), "{more}: {seen}");
                }
            }
            assert_eq!(gateway.raw(ask("p", more)).await.status, 200);
            assert!(
                plain.requests().pop().unwrap().text().contains(more),
                "the same dialect: as it was written"
            );
        }
    });
}

/// B08: vendor extensions reach a server of the caller's own language byte for byte, in their
/// order; no other dialect gets them.
#[test]
fn b08_unknown_fields_pass_where_possible_else_are_named() {
    run(async {
        let (claude, plain) = (Mock::start().await, Mock::start().await);
        claude.always(self::claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let catalog = Catalog::new()
            .account_with("a", &claude, "dialect: anthropic")
            .account("b", &plain);
        let gateway = Gateway::start(
            catalog
                .model("m", &["a=claude-sonnet-4-5"])
                .model("p", &["b"]),
        )
        .await;
        let body = |model: &str| {
            format!(
                r#"{{"zeta":1.50,"model":"{model}","x_vendor":{{"b":[1, 2],"a":null}},"messages":[{{"role":"user","content":"x","x_mark":true}}],"alpha":"\u00e9"}}"#
            )
        };
        let bearer = format!("Bearer {}", crate::support::canary::KEY);
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let ask = |model: &str| {
            crate::support::client::request(
                "POST",
                "/v1/chat/completions",
                &fields,
                body(model).as_bytes(),
            )
        };
        let passed = gateway.raw(ask("p")).await;
        assert_eq!(
            (passed.status, passed.field("x-portcullis-dropped")),
            (200, None)
        );
        assert_eq!(plain.request(0).await.text(), body("p"));
        let translated = gateway.raw(ask("m")).await;
        assert_eq!(translated.status, 200);
        let mut dropped: Vec<&str> = translated
            .field("x-portcullis-dropped")
            .expect("losses")
            .split(", ")
            .collect();
        dropped.sort_unstable();
        assert_eq!(dropped, ["alpha", "messages[].x_mark", "x_vendor", "zeta"]);
        let seen = claude.request(0).await.text();
        assert!(
            !seen.contains("vendor") && !seen.contains("zeta") && !seen.contains("x_mark"),
            "{seen}"
        );
    });
}

/// B12: thirty-two tools, a thousand messages and twenty pictures of nine megabytes arrive whole.
/// Texts, not values: a test that parses them would keep the machine from all others.
#[test]
fn b12_a_very_large_request_is_translated_whole() {
    run(async {
        let mock = Mock::start().await;
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let gateway = Gateway::start(over(&mock, "dialect: anthropic", CLAUDE)).await;
        let pictures: Vec<String> = (0..20)
            .map(|n| format!("{n:04}").repeat(9 * 1024 * 1024 / 20 / 4))
            .collect();
        let list = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(",");
        let role = |n: usize| {
            if n.is_multiple_of(2) {
                "user"
            } else {
                "assistant"
            }
        };
        let schema = r#"{"type":"object","properties":{"q":{"type":"string"}}}"#;
        let asked = format!(
            r#"{{"model":"m","tools":[{}],"messages":[{},{{"role":"user","content":[{}]}}]}}"#,
            list(&mut (0..32).map(|n| format!(
                r#"{{"type":"function","function":{{"name":"tool_{n}","parameters":{schema}}}}}"#
            ))),
            list(
                &mut (0..998)
                    .map(|n| format!(r#"{{"role":"{}","content":"message {n}"}}"#, role(n)))
            ),
            list(&mut pictures.iter().map(|data| format!(
                r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#
            ))),
        );
        let expected = format!(
            r#"{{"model":"{CLAUDE}","max_tokens":21333,"tools":[{}],"messages":[{},{{"role":"user","content":[{}]}}]}}"#,
            list(&mut (0..32).map(|n| format!(r#"{{"name":"tool_{n}","input_schema":{schema}}}"#))),
            list(
                &mut (0..998)
                    .map(|n| format!(r#"{{"role":"{}","content":[{{"type":"text","text":"message {n}"}}]}}"#, role(n)))
            ),
            list(&mut pictures.iter().map(|data| {
                format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#)
            })),
        );
        let bearer = format!("Bearer {}", crate::support::canary::KEY);
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let bytes = crate::support::client::request(
            "POST",
            "/v1/chat/completions",
            &fields,
            asked.as_bytes(),
        );
        let answer = gateway.raw(bytes).await;
        assert_eq!(
            (answer.status, answer.field("x-portcullis-dropped")),
            (200, None),
            "{}",
            answer.text()
        );
        let sent = mock.request(0).await.body;
        let differs = sent
            .iter()
            .zip(expected.as_bytes())
            .position(|(one, other)| one != other);
        assert!(
            sent == expected.as_bytes(),
            "{} of {} bytes; the first difference at {differs:?}",
            sent.len(),
            expected.len()
        );
        gateway.idle().await;
        assert!(gateway.rss() < 300 << 20, "{} bytes", gateway.rss());
    });
}

/// B14: the system anywhere, nothing said, results only. More of these are in the golden files.
#[test]
fn b14_odd_conversations_are_put_right() {
    run(async {
        let mock = Mock::start().await;
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let gateway = Gateway::start(over(&mock, "dialect: anthropic", CLAUDE)).await;
        let messages = json!([{"role": "user", "content": "a"}, {"role": "system", "content": "S1"}, {"role": "user", "content": ""},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}]},
            {"role": "tool", "tool_call_id": "c1", "content": ""}, {"role": "developer", "content": "S2"}]);
        let answer = gateway
            .post(&with(
                chat("m"),
                json!({"tools": tools(), "messages": messages}),
            ))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let sent = mock.request(0).await.json();
        assert_eq!(
            sent["system"],
            json!([{"type": "text", "text": "S1"}, {"type": "text", "text": "S2"}])
        );
        assert_eq!(
            sent["messages"],
            json!([{"role": "user", "content": [{"type": "text", "text": "a"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]}])
        );
        // Nothing said at all is nothing to be asked.
        let nothing = json!({"messages": [{"role": "user", "content": ""}]});
        gateway
            .post(&with(chat("m"), nothing))
            .await
            .is_error(400, "unsupported_parameter");
        assert_eq!(mock.count(), 1);
    });
}

/// B15: where a dialect wants `max_tokens`: the request's, else the model's default, else the most
/// that it can, else 8192. A buffered answer is asked for no longer than it can be in its time: cut
/// off by a deadline it is paid for, lost, and asked for again.
#[test]
fn b15_max_tokens_is_filled_in_where_it_must_be() {
    run(async {
        let mock = Mock::start().await;
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account_with(
                "slow",
                &mock,
                "dialect: anthropic, timeouts: { total: 20m }",
            )
            .account_with(
                "quick",
                &mock,
                "dialect: anthropic, timeouts: { total: 20s }",
            )
            .model("known", &["a=claude-sonnet-4-5"])
            .model("slow", &["slow=claude-sonnet-4-5"])
            .model("quick", &["quick=claude-sonnet-4-5"])
            .model_with(
                "set",
                &["a=claude-sonnet-4-5"],
                "defaults: { max_tokens: 77 }",
            )
            .model_with(
                "long",
                &["a=claude-sonnet-4-5"],
                "defaults: { max_tokens: 64000 }",
            )
            .model("small", &["a=claude-3-5-haiku"])
            .model("unknown", &["a=house-model"]);
        let gateway = Gateway::start(catalog).await;
        for (nth, (model, more, expected)) in [
            ("known", json!({}), 21333),
            ("known", json!({"stream": true}), 64000),
            ("known", json!({"max_tokens": 5}), 5),
            ("known", json!({"max_completion_tokens": 6}), 6),
            ("known", json!({"max_tokens": 60000}), 60000),
            // No limit, as llama.cpp's and Ollama's clients say it.
            ("known", json!({"max_tokens": -1}), 21333),
            ("known", json!({"max_completion_tokens": -1}), 21333),
            ("slow", json!({}), 42666),
            ("quick", json!({}), 8192),
            ("set", json!({}), 77),
            ("set", json!({"max_tokens": -1}), 77),
            ("long", json!({}), 64000),
            ("small", json!({}), 8192),
            ("unknown", json!({}), 8192),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(gateway.post(&with(chat(model), more)).await.status, 200);
            assert_eq!(
                mock.request(nth).await.json()["max_tokens"],
                expected,
                "{model} {nth}"
            );
        }
        for wrong in [0, -2] {
            let error = gateway
                .post(&with(chat("known"), json!({"max_tokens": wrong})))
                .await
                .is_error(400, "invalid_value");
            assert_eq!(error["param"], "max_tokens");
        }
    });
}

/// A caller's own limits reserve what answers have as a rule, not what is asked of Claude where the
/// request is silent.
#[test]
fn a_silent_request_to_claude_passes_a_small_limit() {
    run(async {
        let mock = Mock::start().await;
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let key = "sk-CaNaRy-caller-small-0123456789abcdefghijklmnop";
        let priced = "price: { input: 3, output: 15 }";
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .model_with("m", &["a=claude-sonnet-4-5"], priced)
            .caller(
                "small",
                key,
                "limits: { tokens_per_minute: 10000, usd_per_day: 0.1 }",
            );
        let gateway = Gateway::start(catalog).await;
        for nth in 0..4 {
            let answer = gateway
                .raw(crate::support::client::post_as(key, &chat("m")))
                .await;
            assert_eq!(answer.status, 200, "{nth}: {}", answer.text());
            assert_eq!(mock.request(nth).await.json()["max_tokens"], 21333);
        }
    });
}

/// Where only the system speaks, Claude hears it from the user, wherever it runs.
#[test]
fn b15_a_conversation_without_a_user_gets_one() {
    run(async {
        let (mock, aws) = (Mock::start().await, Mock::start().await);
        mock.always(claude(
            json!([{"type": "text", "text": "Bonjour"}]),
            "end_turn",
        ));
        let said = json!({"output": {"message": {"role": "assistant", "content": [{"text": "Bonjour"}]}}, "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}});
        aws.always(Script::json(200, &said));
        let base = format!("http://{}", aws.address());
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account_at("b", &base, "dialect: bedrock, region: us-east-1")
            .model("m", &["a=claude-sonnet-4-5"])
            .model("b", &["b=anthropic.claude-sonnet-4-5-20250929-v1:0"]);
        let gateway = Gateway::start(catalog).await;
        let system = json!({"messages": [{"role": "system", "content": "Say hello."}, {"role": "developer", "content": "In French."}]});
        for model in ["m", "b"] {
            let answer = gateway.post(&with(chat(model), system.clone())).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "Bonjour"),
                "{}",
                answer.text()
            );
            assert_eq!(
                answer.field("x-portcullis-dropped"),
                Some("messages[].role")
            );
        }
        let (seen, at_aws) = (mock.request(0).await.json(), aws.request(0).await.json());
        let texts =
            json!([{"type": "text", "text": "Say hello."}, {"type": "text", "text": "In French."}]);
        assert_eq!(
            (&seen["messages"], &seen["system"]),
            (&json!([{"role": "user", "content": texts}]), &Value::Null)
        );
        let texts = json!([{"text": "Say hello."}, {"text": "In French."}]);
        assert_eq!(
            (&at_aws["messages"], &at_aws["system"]),
            (&json!([{"role": "user", "content": texts}]), &Value::Null)
        );
        assert_eq!(
            at_aws["inferenceConfig"]["maxTokens"], 21333,
            "a buffered answer comes in time there, too"
        );
    });
}

/// B17: whatever a model is called, it is one segment of the path, or the catalog is refused.
#[test]
fn b17_a_models_name_cannot_leave_its_path() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::json(
            200,
            &json!({"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}),
        ));
        let base = format!("http://{}", mock.address());
        let gemini = Catalog::new().account_at("a", &base, "dialect: gemini");
        let gateway = Gateway::start(gemini.clone().model("g", &["a=tuned/a b%2e"])).await;
        gateway
            .post(&chat("a/../b?x#y"))
            .await
            .is_error(404, "model_not_found");
        assert_eq!(
            mock.count(),
            0,
            "a name that the catalog does not know goes nowhere"
        );
        assert_eq!(gateway.post(&chat("g")).await.status, 200);
        assert_eq!(
            mock.request(0).await.target,
            "/models/tuned%2Fa%20b%252e:generateContent"
        );
        let (_, said) = Gateway::with(gemini.model("g", &["a=a/../b?x#y"])).refuse();
        assert!(
            said.contains("models.g.targets[0].model: becomes a part of the request's path"),
            "{said}"
        );
    });
}

/// What the strict reading of one dialect refuses, another may take: the order of targets does not
/// decide.
#[test]
fn a_request_refused_by_one_target_goes_on() {
    run(async {
        let (mock, plain) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: anthropic")
            .account("b", &plain);
        let gateway = Gateway::start(catalog.model("m", &["a=claude-sonnet-4-5", "b"])).await;
        let answer = gateway
            .post(&with(chat("m"), json!({"max_tokens": 0})))
            .await;
        assert_eq!((answer.status, mock.count(), plain.count()), (200, 0, 1));
    });
}

#[test]
fn an_account_with_a_preset_takes_two_lines() {
    run(async {
        let catalog = "accounts:\n  groq: { preset: groq, key: { env: GROQ_API_KEY } }\n  typo: { dialect: openai, preset: grok_, key: k }\n\
                       models:\n  llama: { targets: [{ account: groq, model: llama-3.3-70b }] }\ncallers: {}\n";
        let folder = crate::support::folder::Folder::new(&[
            ("server.yaml", "listen: [{ address: 127.0.0.1:0 }]\n"),
            ("catalog.yaml", catalog),
        ]);
        let ran = folder.run(&["check", "--no-secrets"]);
        assert!(
            ran.stderr
                .contains("accounts.typo.preset: no preset \"grok_\"; did you mean \"groq\"?"),
            "{}",
            ran.stderr
        );
        assert!(!ran.stderr.contains("accounts.groq"), "{}", ran.stderr);
        let table = crate::support::gateway::portcullis(&["presets"]);
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(
            table.contains("groq")
                && table.contains("https://api.groq.com/openai/v1")
                && table.contains("GROQ_API_KEY"),
            "{table}"
        );
    });
}
