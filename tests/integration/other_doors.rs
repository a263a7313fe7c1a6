//! OpenAI's Responses and Gemini's `generateContent` as front doors, through the whole gateway.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, End, Response};
use crate::support::script::finish;
use crate::support::{Catalog, Gateway, Mock, Script, run};

async fn ask(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Response {
    let fields = [
        ("x-goog-api-key", KEY),
        ("content-type", "application/json"),
    ];
    gateway
        .raw(client::request(
            method,
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

async fn over(mock: &Mock) -> Gateway {
    Gateway::start(Catalog::new().account("a", mock).model("m", &["a=up"])).await
}

/// The data of a stream's events.
fn data(answer: &Response) -> Vec<Value> {
    let text = answer.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

#[test]
fn a_responses_request_is_answered_whole_and_as_stream() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::answer("Hello there"));
        mock.push(Script::sse().words(0..3).event(finish("stop")).done());
        let gateway = over(&mock).await;
        let mut body = json!({"model": "m", "input": "hello", "instructions": "Be brief.", "metadata": {"a": "b"}});
        let whole = ask(&gateway, "POST", "/v1/responses", &body).await;
        assert_eq!(whole.status, 200, "{}", whole.text());
        let response = whole.json();
        assert_eq!(
            (
                &response["object"],
                &response["status"],
                &response["model"],
                &response["store"],
                &response["metadata"]
            ),
            (
                &json!("response"),
                &json!("completed"),
                &json!("m"),
                &json!(false),
                &json!({"a": "b"})
            )
        );
        assert_eq!(response["output"][0]["content"][0]["text"], "Hello there");
        let seen = mock.request(0).await.json();
        assert_eq!(
            seen["messages"],
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}])
        );
        body["stream"] = json!(true);
        let stream = ask(&gateway, "POST", "/v1/responses", &body).await;
        let events = data(&stream);
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{event}");
        }
        let kinds: Vec<_> = events
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            (kinds[0], kinds[1]),
            ("response.created", "response.in_progress")
        );
        assert_eq!(kinds.last(), Some(&"response.completed"));
        let said: String = events
            .iter()
            .filter(|event| event["type"] == "response.output_text.delta")
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        let last = events.last().unwrap();
        assert_eq!(
            last["response"]["output"][0]["content"][0]["text"],
            said.as_str()
        );
        for line in gateway.access_lines(2).await {
            assert_eq!(
                (&line["door"], &line["outcome"]),
                (&json!("responses"), &json!("ok"))
            );
        }
    });
}

#[test]
fn missing_stores_and_websockets_are_refused() {
    run(async {
        let mock = Mock::start().await;
        let gateway = over(&mock).await;
        let earlier = json!({"model": "m", "input": "x", "previous_response_id": "resp_1"});
        let refused = ask(&gateway, "POST", "/v1/responses", &earlier).await;
        refused.is_error(400, "previous_response_not_found");
        ask(&gateway, "GET", "/v1/responses", &json!({}))
            .await
            .is_error(426, "upgrade_required");
        ask(&gateway, "GET", "/v1/responses/resp_1", &json!({}))
            .await
            .is_error(404, "unknown_url");
        // Some clients send thirty requests after each 503.
        let dead = Catalog::new()
            .account_at("a", "http://127.0.0.1:1/v1", "")
            .model("m", &["a=up"]);
        let dead = Gateway::start(dead).await;
        let down = ask(
            &dead,
            "POST",
            "/v1/responses",
            &json!({"model": "m", "input": "x"}),
        )
        .await;
        down.is_error(429, "upstream_unavailable");
    });
}

#[test]
fn a_broken_responses_stream_ends_with_error_and_failure() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::sse().words(0..2).reset());
        let gateway = over(&mock).await;
        let stream = ask(
            &gateway,
            "POST",
            "/v1/responses",
            &json!({"model": "m", "input": "x", "stream": true}),
        )
        .await;
        let events = data(&stream);
        let kinds: Vec<_> = events
            .iter()
            .rev()
            .take(2)
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["response.failed", "error"], "{}", stream.text());
        // Both go on where the stream stopped.
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number, "{event}");
        }
        let (first, last) = (
            &events[0]["response"]["id"],
            &events.last().unwrap()["response"]["id"],
        );
        assert!(
            first.as_str().is_some_and(|id| id.starts_with("resp_")),
            "{first}"
        );
        assert_eq!(first, last);
    });
}

/// The client's name for the conversation is in the access line.
#[test]
fn the_access_line_has_the_session() {
    run(async {
        let mock = Mock::start().await;
        let gateway = over(&mock).await;
        let messages =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]});
        let responses = json!({"model": "m", "input": "x"});
        let long = "s".repeat(99);
        let cases: [(&str, &Value, &[(&str, &str)], Value); 6] = [
            (
                "/v1/messages",
                &messages,
                &[("x-claude-code-session-id", "a-1")],
                json!("a-1"),
            ),
            (
                "/v1/messages",
                &messages,
                &[("session-id", "a-1")],
                Value::Null,
            ),
            (
                "/v1/responses",
                &responses,
                &[("session-id", "b-1"), ("thread-id", "c-1")],
                json!("b-1"),
            ),
            (
                "/v1/responses",
                &responses,
                &[("session_id", ""), ("thread-id", "c-1")],
                json!("c-1"),
            ),
            (
                "/v1/responses",
                &responses,
                &[("session_id", &long)],
                json!(&long[..64]),
            ),
            (
                "/v1/responses",
                &responses,
                &[("session-id", "b"), ("x-portcullis-session", "own")],
                json!("own"),
            ),
        ];
        for (path, body, fields, session) in cases {
            mock.push(Script::answer("hi"));
            let fields = [
                &[("x-api-key", KEY), ("content-type", "application/json")],
                fields,
            ]
            .concat();
            let answer = gateway
                .raw(client::request(
                    "POST",
                    path,
                    &fields,
                    body.to_string().as_bytes(),
                ))
                .await;
            assert_eq!(
                gateway.line_of(&answer).await["session"],
                session,
                "{path} {fields:?}"
            );
        }
    });
}

#[test]
fn half_a_character_breaks_no_stream() {
    run(async {
        let mock = Mock::start().await;
        let half =
            r#"data: {"choices":[{"index":0,"delta":{"content":"a\ud83d"},"finish_reason":null}]}"#;
        let paths = [
            "/v1/responses",
            "/v1/messages",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
        ];
        for _ in paths {
            mock.push(
                Script::sse()
                    .body(format!("{half}\n\n"))
                    .event(finish("stop"))
                    .done(),
            );
        }
        let gateway = over(&mock).await;
        let body = json!({"model": "m", "input": "x", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
            "contents": [{"parts": [{"text": "x"}]}], "stream": true});
        for path in paths {
            let stream = ask(&gateway, "POST", path, &body).await;
            assert!(
                stream.text().contains("a\u{FFFD}"),
                "{path}: {}",
                stream.text()
            );
        }
        for line in gateway.access_lines(3).await {
            assert_eq!(line["outcome"], "ok", "{line}");
        }
    });
}

#[test]
fn a_gemini_request_is_answered_whole_and_as_events() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::answer("Hello there"));
        for _ in 0..2 {
            mock.push(Script::sse().words(0..3).event(finish("stop")).done());
        }
        let gateway = over(&mock).await;
        let body = json!({"contents": [{"parts": [{"text": "hello"}]}], "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
            "generationConfig": {"maxOutputTokens": 50, "temperature": 0.5}});
        let whole = ask(&gateway, "POST", "/v1beta/models/m:generateContent", &body).await;
        assert_eq!(whole.status, 200, "{}", whole.text());
        let candidate = &whole.json()["candidates"][0];
        assert_eq!(
            (
                &candidate["content"]["parts"][0]["text"],
                &candidate["finishReason"]
            ),
            (&json!("Hello there"), &json!("STOP"))
        );
        let seen = mock.request(0).await.json();
        assert_eq!(
            (
                &seen["messages"],
                &seen["max_completion_tokens"],
                &seen["temperature"]
            ),
            (
                &json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]),
                &json!(50),
                &json!(0.5)
            )
        );
        let stream = ask(
            &gateway,
            "POST",
            "/v1/models/m:streamGenerateContent?alt=sse",
            &body,
        )
        .await;
        assert!(
            !stream.text().contains("event:") && !stream.text().contains("\n:"),
            "{}",
            stream.text()
        );
        let chunks = data(&stream);
        let array: Vec<Value> = serde_json::from_slice(
            &ask(
                &gateway,
                "POST",
                "/v1beta/models/m:streamGenerateContent",
                &body,
            )
            .await
            .body,
        )
        .unwrap();
        for chunks in [chunks, array] {
            let said: String = chunks
                .iter()
                .filter_map(|chunk| chunk["candidates"][0]["content"]["parts"][0]["text"].as_str())
                .collect();
            assert_eq!(said, "w0 w1 w2 ");
            assert_eq!(
                chunks.last().unwrap()["candidates"][0]["finishReason"],
                "STOP"
            );
        }
        for (line, door) in
            gateway
                .access_lines(3)
                .await
                .iter()
                .zip(["gemini", "gemini", "gemini_array"])
        {
            assert_eq!(
                (&line["door"], &line["outcome"]),
                (&json!(door), &json!("ok"))
            );
        }
    });
}

#[test]
fn refusals_are_in_googles_form() {
    run(async {
        let mock = Mock::start().await;
        let gateway = over(&mock).await;
        let body = json!({"contents": [{"parts": [{"text": "hello"}]}]});
        let check = |answer: &Response, status: u16, word: &str| {
            let error = answer.json()["error"].clone();
            assert_eq!(
                (answer.status, &error["code"], &error["status"]),
                (status, &json!(status), &json!(word)),
                "{error}"
            );
        };
        check(
            &ask(
                &gateway,
                "POST",
                "/v1beta/models/none:generateContent",
                &body,
            )
            .await,
            404,
            "NOT_FOUND",
        );
        check(
            &ask(&gateway, "POST", "/v1beta/cachedContents", &body).await,
            404,
            "NOT_FOUND",
        );
        let wrong = client::request(
            "POST",
            "/v1beta/models/m:generateContent",
            &[("x-goog-api-key", "no")],
            body.to_string().as_bytes(),
        );
        check(&gateway.raw(wrong).await, 401, "UNAUTHENTICATED");
        let searching = json!({"contents": body["contents"], "tools": [{"googleSearch": {}}]});
        let refused = ask(
            &gateway,
            "POST",
            "/v1beta/models/m:generateContent",
            &searching,
        )
        .await;
        check(&refused, 400, "INVALID_ARGUMENT");
        assert!(
            refused.text().contains("googleSearch"),
            "{}",
            refused.text()
        );
    });
}

/// After a proper end, clients would take what they have for a whole answer.
#[test]
fn broken_gemini_streams_and_arrays_end_their_way() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::sse().words(0..2).reset());
        let gateway = over(&mock).await;
        let body = json!({"contents": [{"parts": [{"text": "hello"}]}]});
        let events = ask(
            &gateway,
            "POST",
            "/v1beta/models/m:streamGenerateContent?alt=sse",
            &body,
        )
        .await;
        assert_eq!(events.end, Some(End::Cut));
        assert!(
            data(&events).last().unwrap()["error"]["code"].is_number(),
            "{}",
            events.text()
        );
        let array = ask(
            &gateway,
            "POST",
            "/v1beta/models/m:streamGenerateContent",
            &body,
        )
        .await;
        assert_eq!(array.end, Some(End::Whole));
        assert!(
            array.json().as_array().unwrap().last().unwrap()["error"]["code"].is_number(),
            "{}",
            array.text()
        );
        for line in gateway.access_lines(2).await {
            assert_eq!(line["outcome"], "upstream_cut");
        }
    });
}

/// Google's clients try again after any 5xx.
#[test]
fn operators_trouble_is_no_unavailability_at_geminis_door() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(401, "wrong key"));
        let gateway = over(&mock).await;
        let body = json!({"contents": [{"parts": [{"text": "hello"}]}]});
        for _ in 0..2 {
            let refused = ask(&gateway, "POST", "/v1beta/models/m:generateContent", &body).await;
            let error = refused.json()["error"].clone();
            assert_eq!(
                (refused.status, &error["status"]),
                (400, &json!("FAILED_PRECONDITION")),
                "{error}"
            );
            assert!(
                error["message"].as_str().unwrap().contains("operator"),
                "{error}"
            );
        }
        assert_eq!(mock.count(), 1, "the account rests");
    });
}
