//! Kinds of endpoint of one account: which one is asked, and that each is judged by itself.

use std::time::Duration;

use serde_json::{Value, json};

use crate::explain::explain;
use crate::sealed::unsealed;
use crate::support::canary::KEY;
use crate::support::client::{self, Response, chat};
use crate::support::{Catalog, Gateway, Mock, Script, run};

const BOTH: &str = "serves: [chat, responses]";

async fn ask(gateway: &Gateway, path: &str, body: &Value) -> Response {
    let fields = [("x-api-key", KEY), ("content-type", "application/json")];
    gateway
        .raw(client::request(
            "POST",
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

/// A response with one text, as a server of OpenAI's sends it.
fn response(text: &str) -> Value {
    json!({
        "id": "resp_up", "object": "response", "status": "completed", "model": "gpt-5-2026", "error": null,
        "output": [
            {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAsealed"},
            {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": text, "annotations": []}]},
        ],
        "usage": {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
                  "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 16},
    })
}

/// The text of a chat completion.
fn completion_text(answer: &Response) -> String {
    answer.json()["choices"][0]["message"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// The targets of the account `a` in `/status`: the kind of endpoint, and why it rests.
fn rests(gateway: &Gateway) -> Vec<(String, Value)> {
    let status = gateway.status();
    let targets = status["accounts"][0]["targets"]
        .as_array()
        .expect("targets")
        .clone();
    targets
        .iter()
        .map(|one| {
            (
                one["endpoint"].as_str().unwrap().to_owned(),
                one["rest"]["why"].clone(),
            )
        })
        .collect()
}

#[test]
fn a_missing_endpoint_keeps_no_requests_from_the_other() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match request.target.as_str() {
            "/v1/chat/completions" => Script::answer("here"),
            _ => Script::error(404, "no such path"),
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, BOTH)
            .account_with("b", &mock, "serves: [responses]")
            .model("m", &["a=gpt-5"])
            .model("only", &["b=gpt-5"]);
        let gateway = Gateway::start(catalog).await;
        // The conversation has a thought that chat has no place for.
        let body = json!({"model": "m", "max_tokens": 50, "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "gAAAAsealed"}, {"type": "text", "text": "y"}]},
            {"role": "user", "content": "z"}]});
        // The other endpoint answers the same request, and then the next ones at once.
        for paths in [2, 2, 2, 1, 1] {
            let asked = mock.count();
            let answer = ask(&gateway, "/v1/messages", &body).await;
            assert_eq!(
                answer.json()["content"][0]["text"],
                "here",
                "{}",
                answer.text()
            );
            assert_eq!(
                answer.field("x-portcullis-dropped"),
                Some("messages[].content[].thinking")
            );
            assert_eq!(mock.count() - asked, paths);
            let tried = gateway.line_of(&answer).await["attempts"]
                .as_array()
                .unwrap()
                .clone();
            let tried: Vec<_> = tried
                .iter()
                .map(|one| (&one["endpoint"], &one["outcome"]))
                .collect();
            let refused = (&json!("responses"), &json!("refused"));
            let expected = [refused, (&Value::Null, &json!("ok"))];
            assert_eq!(tried, expected[2 - paths..]);
        }
        assert_eq!(
            rests(&gateway),
            [
                ("chat".to_owned(), Value::Null),
                ("responses".to_owned(), json!("unfit"))
            ]
        );
        let status = format!("http://{}/status", gateway.admin);
        let told = explain(
            &gateway,
            &body,
            &["--door", "messages", "--status", &status, "--json"],
        )
        .1;
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|why| panic!("{why}: {told}"));
        let kinds: Vec<_> = told["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (&one["endpoint"], &one["state"]))
            .collect();
        assert_eq!(
            kinds,
            [
                (&json!("responses"), &json!("resting")),
                (&json!("chat"), &json!("asked"))
            ]
        );
        let passed = ask(
            &gateway,
            "/v1/responses",
            &json!({"model": "m", "input": "x"}),
        )
        .await;
        assert_eq!(
            passed.json()["output"][0]["content"][0]["text"],
            "here",
            "{}",
            passed.text()
        );
        // Where there is no other endpoint, nobody is asked.
        let body = json!({"model": "only", "input": "x"});
        for _ in 0..3 {
            ask(&gateway, "/v1/responses", &body)
                .await
                .is_error(429, "bad_upstream_response");
        }
        let asked = mock.count();
        ask(&gateway, "/v1/responses", &body)
            .await
            .is_error(429, "no_capacity");
        assert_eq!(mock.count(), asked);
        for _ in 0..3 {
            assert_eq!(completion_text(&gateway.post(&chat("m")).await), "here");
        }
        let states = |endpoint: &str, state: &str| {
            let labels = [
                ("account", "a"),
                ("model", "gpt-5"),
                ("endpoint", endpoint),
                ("state", state),
            ];
            gateway.metrics().sum("portcullis_target_state", &labels)
        };
        assert_eq!(
            (states("chat", "ok"), states("responses", "resting")),
            (1.0, 1.0)
        );
    });
}

#[test]
fn another_endpoint_stands_in_only_where_needed() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match (request.target.as_str(), request.text()) {
            ("/v1/chat/completions", text) if text.contains("limited") => {
                Script::error(429, "slow down")
            }
            ("/v1/chat/completions", _) => Script::answer("here"),
            (_, text) if text.contains("broken") => Script::error(500, "a fault"),
            _ => Script::error(404, "no such path"),
        });
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, BOTH)
                .model("m", &["a=gpt-5"]),
        )
        .await;
        let says = |text: &str| json!({"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": text}]});
        let told = explain(&gateway, &says("x"), &["--door", "messages"]).1;
        let line = |kind: &str| {
            told.lines()
                .find(|line| line.trim_start().starts_with(kind))
                .unwrap_or_default()
        };
        assert!(line("1  a").ends_with("asked first"), "{told}");
        assert!(
            line("?  a")
                .ends_with("asked if the account's endpoint `responses` does not serve the model: then at `chat`"),
            "{told}"
        );
        assert_eq!(ask(&gateway, "/v1/messages", &says("x")).await.status, 200);
        assert_eq!(mock.count(), 2);
        // That was an earlier request: of this one nothing is known but that the server failed.
        let broken = ask(&gateway, "/v1/messages", &says("broken")).await;
        assert!(broken.status >= 500, "{}", broken.text());
        assert_eq!(mock.count(), 3);
        for _ in 0..2 {
            assert_eq!(ask(&gateway, "/v1/messages", &says("x")).await.status, 200);
        }
        // An endpoint that is missing makes no other error of a rate limit.
        assert_eq!(
            ask(&gateway, "/v1/messages", &says("limited")).await.status,
            429
        );
        let asked = mock.count();
        let limited = ask(&gateway, "/v1/messages", &says("x")).await;
        assert_eq!(
            (limited.status, mock.count() - asked),
            (429, 0),
            "{}",
            limited.text()
        );
        assert_eq!(
            limited.json()["error"]["type"],
            "rate_limit_error",
            "{}",
            limited.text()
        );
        let expected = [
            ("chat".to_owned(), json!("rate")),
            ("responses".to_owned(), json!("unfit")),
        ];
        assert_eq!(rests(&gateway), expected);
    });
}

#[test]
fn a_key_refused_at_one_endpoint_works_at_another() {
    run(async {
        let [scoped, strict, poor] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let chat_only = |mock: &Mock, error: Value| {
            mock.by(move |request| match request.target.as_str() {
                "/v1/chat/completions" => Script::answer("here"),
                _ => Script::json(401, &json!({"error": error})),
            });
        };
        let message = "You have insufficient permissions for this operation. Missing scopes: api.responses.write.";
        chat_only(
            &scoped,
            json!({"message": message, "type": "invalid_request_error", "code": null, "param": null}),
        );
        chat_only(
            &strict,
            json!({"message": "Not for this path.", "code": "unauthorized"}),
        );
        poor.always(Script::json(
            401,
            &json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}),
        ));
        let catalog = Catalog::new()
            .account_with("a", &scoped, BOTH)
            .account_with("b", &strict, BOTH)
            .account_with("c", &poor, BOTH)
            .model("scoped", &["a=gpt-5"])
            .model("strict", &["b=gpt-5"])
            .model("poor", &["c=gpt-5"]);
        let gateway = Gateway::start(catalog).await;
        let asks = |model: &str| json!({"model": model, "input": "x"});
        let rest =
            |place: usize| gateway.status()["accounts"][place]["targets"][0]["rest"]["why"].clone();
        for _ in 0..5 {
            let answer = ask(&gateway, "/v1/responses", &asks("scoped")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        let line = &gateway.access_lines(5).await[0];
        assert_eq!(
            line["attempts"][0]["detail"], "type=invalid_request_error code=missing_scopes",
            "{line}"
        );
        // Of a 401 without such words, it must be known that the key works.
        assert_eq!(
            completion_text(&gateway.post(&chat("strict")).await),
            "here"
        );
        for _ in 0..5 {
            assert_eq!(
                ask(&gateway, "/v1/responses", &asks("strict")).await.status,
                200
            );
        }
        assert_eq!((rest(0), rest(1)), (Value::Null, Value::Null));
        // A key that works nowhere rests the account.
        assert_eq!(
            ask(&gateway, "/v1/responses", &asks("poor")).await.status,
            429
        );
        assert_eq!((poor.count(), &rest(2)), (1, &json!("credential")));
        assert_eq!(gateway.post(&chat("poor")).await.status, 503);
        assert_eq!(poor.count(), 1);
    });
}

#[test]
fn messages_pass_to_servers_that_have_them_beside_chat() {
    run(async {
        let mock = Mock::start().await;
        let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "new": [1],
            "content": [{"type": "text", "text": "from messages"}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 11, "output_tokens": 5}});
        mock.by({
            let answer = answer.clone();
            move |request| match request.target.as_str() {
                "/v1/messages" if request.text().contains("absent") => {
                    Script::error(404, "no such model")
                }
                "/v1/messages" => Script::json(200, &answer),
                _ => Script::answer("from chat"),
            }
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, "serves: [chat, messages]")
            .account_with("b", &mock, "serves: [messages]")
            .model("m", &["a=up"])
            .model("absent", &["a"])
            .model("only", &["b=up"]);
        let gateway = Gateway::start(catalog).await;
        let body = r#"{"model":"m", "max_tokens":9,"top_k":5,"new_field":{"a":1},"messages":[{"role":"user","content":"x"}]}"#;
        let fields = [
            ("x-api-key", KEY),
            ("content-type", "application/json"),
            ("anthropic-beta", "a-beta"),
        ];
        let passed = gateway
            .raw(client::request(
                "POST",
                "/v1/messages",
                &fields,
                body.as_bytes(),
            ))
            .await;
        let mut expected = answer.clone();
        expected["model"] = json!("m");
        assert_eq!(
            (
                passed.status,
                passed.json(),
                passed.field("x-portcullis-dropped")
            ),
            (200, expected, None)
        );
        let asked = mock.request(0).await;
        assert_eq!(
            (asked.target.as_str(), asked.text()),
            ("/v1/messages", body.replace("\"m\"", "\"up\""))
        );
        assert_eq!(
            (asked.field("anthropic-beta"), asked.field("x-api-key")),
            (Some("a-beta"), None)
        );
        assert!(
            asked
                .field("authorization")
                .is_some_and(|key| key.starts_with("Bearer ")),
            "the account's own key"
        );
        let line = gateway.line_of(&passed).await;
        assert_eq!(
            (&line["attempts"][0]["endpoint"], &line["prompt_tokens"]),
            (&json!("messages"), &json!(11))
        );
        // Who speaks another format is asked at chat, unless there is none.
        assert_eq!(
            completion_text(&gateway.post(&chat("m")).await),
            "from chat"
        );
        assert_eq!(
            completion_text(&gateway.post(&chat("only")).await),
            "from messages"
        );
        assert_eq!(
            mock.requests().last().unwrap().json()["messages"][0]["content"][0]["text"],
            "hello"
        );
        // Where the model is not there, chat stands in.
        let other = ask(
            &gateway,
            "/v1/messages",
            &serde_json::from_str(&body.replace("\"m\"", "\"absent\"")).unwrap(),
        )
        .await;
        assert_eq!(
            other.json()["content"][0]["text"],
            "from chat",
            "{}",
            other.text()
        );
        assert_eq!(
            other.field("x-portcullis-dropped"),
            Some("top_k, new_field")
        );
        // What such a server counts may be an estimate.
        let count = ask(
            &gateway,
            "/v1/messages/count_tokens",
            &serde_json::from_str(body).unwrap(),
        )
        .await;
        assert_eq!(count.status, 404, "{}", count.text());
    });
}

#[test]
fn errors_name_the_fields_of_the_caller() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, "serves: [responses]")
                .model("m", &["a=gpt-5"]),
        )
        .await;
        let chat = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        let native = json!({"model": "m", "input": "x"});
        for (param, in_chat) in [
            ("max_output_tokens", "max_tokens"),
            ("input[0].content", "messages"),
            ("reasoning.effort", "reasoning_effort"),
            ("text.format.schema", "response_format.json_schema.schema"),
            ("tools[0].parameters", "tools[].function.parameters"),
        ] {
            let error = json!({"message": "no", "type": "invalid_request_error", "code": "invalid_value", "param": param});
            for (path, body, expected) in [
                ("/v1/responses", &native, param),
                ("/v1/chat/completions", &chat, in_chat),
            ] {
                mock.push(Script::json(400, &json!({"error": error})));
                let refused = ask(&gateway, path, body).await;
                assert_eq!(
                    (refused.status, &refused.json()["error"]["param"]),
                    (400, &json!(expected)),
                    "{path}"
                );
            }
        }
    });
}

#[test]
fn door_and_model_say_which_endpoint_is_asked() {
    run(async {
        let mock = Mock::start().await;
        mock.by(|request| match request.target.as_str() {
            "/v1/responses" => Script::json(200, &response("from responses")),
            _ => Script::answer("from chat"),
        });
        let catalog = Catalog::new()
            .account_with("a", &mock, BOTH)
            .account_with("b", &mock, "serves: [responses]")
            .model("thinker", &["a=gpt-5"])
            .model("talker", &["a=gpt-4o"])
            .model("only", &["b=gpt-4o"]);
        let gateway = Gateway::start(catalog).await;
        let messages = |model: &str| {
            json!({"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": "x"}],
                   "thinking": {"type": "enabled", "budget_tokens": 1024}})
        };
        let answer = ask(&gateway, "/v1/messages", &messages("thinker")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(
            answer["content"].as_array().unwrap().last().unwrap()["text"],
            "from responses"
        );
        assert_eq!(
            (
                &answer["model"],
                &answer["usage"]["output_tokens"],
                &answer["usage"]["cache_read_input_tokens"]
            ),
            (&json!("thinker"), &json!(5), &json!(4))
        );
        let asked = mock.request(0).await;
        assert_eq!(asked.target, "/v1/responses");
        assert_eq!(
            asked.json(),
            json!({"model": "gpt-5", "store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 50,
                   "reasoning": {"effort": "low", "summary": "auto"}, "input": [{"role": "user", "content": "x"}]})
        );
        let answer = ask(&gateway, "/v1/messages", &messages("talker"))
            .await
            .json();
        assert_eq!(answer["content"][0]["text"], "from chat");
        assert_eq!(
            completion_text(&gateway.post(&chat("thinker")).await),
            "from chat"
        );
        assert_eq!(
            completion_text(&gateway.post(&chat("only")).await),
            "from responses"
        );
        let lines = gateway.access_lines(4).await;
        let kinds: Vec<&Value> = lines
            .iter()
            .map(|line| &line["attempts"][0]["endpoint"])
            .collect();
        assert_eq!(
            kinds,
            [
                &json!("responses"),
                &Value::Null,
                &Value::Null,
                &json!("responses")
            ]
        );
        // The usage counts once, as the upstream reported it.
        let first = &lines[0];
        assert_eq!(
            (
                &first["prompt_tokens"],
                &first["completion_tokens"],
                &first["usage"]
            ),
            (&json!(11), &json!(5), &json!("reported"))
        );
        assert_eq!(
            gateway.metrics().sum(
                "portcullis_tokens_total",
                &[("model", "thinker"), ("kind", "cached")]
            ),
            4.0
        );
    });
}

/// The events of a stream, as a server of OpenAI's sends them.
fn stream(text: &str) -> Vec<(&'static str, Value)> {
    let response = |status: &str| json!({"id": "resp_up", "object": "response", "model": "gpt-5-2026", "status": status, "output": []});
    let mut last = response("completed");
    last["usage"] = json!({"input_tokens": 11, "output_tokens": 5});
    vec![
        (
            "response.created",
            json!({"response": response("in_progress")}),
        ),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": {"id": "msg_1", "type": "message", "content": []}}),
        ),
        (
            "response.output_text.delta",
            json!({"output_index": 0, "item_id": "msg_1", "delta": text, "obfuscation": "x"}),
        ),
        ("response.novel", json!({"new": [1]})),
        (
            "response.output_item.done",
            json!({"output_index": 0, "item": {"id": "msg_1", "type": "message", "content": [{"type": "output_text", "text": text}]}}),
        ),
        ("response.completed", json!({"response": last})),
    ]
}

/// Writes events as they stand on the wire.
fn on_the_wire(events: &[(&str, Value)]) -> String {
    let one = |(number, (name, data)): (usize, &(&str, Value))| {
        let mut data = data.clone();
        (data["type"], data["sequence_number"]) = (json!(name), json!(number));
        format!("event: {name}\ndata: {data}\n\n")
    };
    events.iter().enumerate().map(one).collect()
}

/// A turn of an agent, of which an earlier answer is a part.
const TURN: &str = r#"{"model":"m","stream":true,"store":false, "input" :[
 {"type":"message","id":"msg_a","role":"user","content":[{"type":"input_text","text":"read é"}]},
 {"type":"reasoning","id":"rs_a","summary":[],"content":null,"encrypted_content":"gAAAAsealed"},
 {"type":"function_call","id":"fc_a","name":"shell","arguments":"{}","call_id":"call_a"},
 {"type":"function_call_output","id":"fco_a","call_id":"call_a","output":"done"}],
 "tools":[{"type":"custom","name":"patch","format":{"type":"text"}},{"type":"web_search","external_web_access":false}],
 "include":["reasoning.encrypted_content"],"client_metadata":{"x":"y"}}"#;

#[test]
fn callers_of_responses_pass_byte_by_byte() {
    run(async {
        let mock = Mock::start().await;
        let events = on_the_wire(&stream("hé"));
        mock.push(Script::sse().body(&events).end());
        mock.push(Script::json(200, &response("whole")));
        let gateway = Gateway::start(
            Catalog::new()
                .account_with("a", &mock, BOTH)
                .model("m", &["a=gpt-5"]),
        )
        .await;
        let fields = [("x-api-key", KEY), ("content-type", "application/json")];
        let passed = gateway
            .raw(client::request(
                "POST",
                "/v1/responses",
                &fields,
                TURN.as_bytes(),
            ))
            .await;
        assert_eq!(
            (passed.status, passed.field("x-portcullis-dropped")),
            (200, None),
            "{}",
            passed.text()
        );
        assert_eq!(passed.text(), events.replace("\"gpt-5-2026\"", "\"m\""));
        let asked = mock.request(0).await;
        let mut expected = TURN.replace("\"model\":\"m\"", "\"model\":\"gpt-5\"");
        for id in [
            "\"id\":\"msg_a\",",
            "\"id\":\"rs_a\",",
            "\"id\":\"fc_a\",",
            "\"id\":\"fco_a\",",
        ] {
            expected = expected.replace(id, "");
        }
        assert_eq!(
            (asked.target.as_str(), asked.text()),
            ("/v1/responses", expected)
        );
        let whole = ask(
            &gateway,
            "/v1/responses",
            &json!({"model": "m", "input": "x"}),
        )
        .await;
        let mut answer = response("whole");
        answer["model"] = json!("m");
        assert_eq!(unsealed(&whole.text(), "gAAAAsealed"), answer.to_string());
        let lines = gateway.access_lines(2).await;
        for line in &lines {
            assert_eq!(
                (
                    &line["prompt_tokens"],
                    &line["completion_tokens"],
                    &line["usage"],
                    &line["outcome"]
                ),
                (&json!(11), &json!(5), &json!("reported"), &json!("ok"))
            );
        }
        let tokens = |kind: &str| {
            gateway
                .metrics()
                .sum("portcullis_tokens_total", &[("model", "m"), ("kind", kind)])
        };
        assert_eq!(
            (tokens("prompt"), tokens("completion")),
            (22.0, 10.0),
            "each answer counts once"
        );
    });
}

#[test]
fn a_broken_stream_that_passes_never_looks_whole() {
    run(async {
        let [mock, ill, well] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let events = stream("half");
        let cut = on_the_wire(&events[..4]);
        let failed = json!({"response": {"status": "failed", "error": {"code": "server_error", "message": "boom"}}});
        let last = on_the_wire(&[("response.failed", failed.clone())]);
        // The beginning has left when the rest comes.
        let begun = || Script::sse().body(&cut).delay(Duration::from_secs(3));
        mock.push(begun().reset());
        mock.push(begun().end());
        mock.push(begun().body(&last).end());
        // What fails before the first word is tried elsewhere.
        ill.always(
            Script::sse()
                .body(on_the_wire(&[
                    events[0].clone(),
                    ("response.failed", failed),
                ]))
                .end(),
        );
        well.always(Script::sse().body(on_the_wire(&events)).end());
        let catalog = Catalog::new()
            .account_with("a", &mock, BOTH)
            .account_with("ill", &ill, BOTH)
            .account_with("well", &well, BOTH)
            .model("m", &["a=gpt-5"])
            .model("n", &["ill=gpt-5", "well=gpt-5"]);
        let gateway = Gateway::start(catalog).await;
        let body = |model: &str| json!({"model": model, "input": "x", "stream": true});
        for _ in 0..3 {
            let answer = ask(&gateway, "/v1/responses", &body("m")).await.text();
            let names: Vec<&str> = answer
                .lines()
                .filter_map(|line| line.strip_prefix("event: "))
                .collect();
            assert!(
                names.ends_with(&["response.novel", "error", "response.failed"]),
                "{answer}"
            );
            assert!(
                !answer.contains("boom") && answer.contains(r#""sequence_number":5"#),
                "{answer}"
            );
        }
        let whole = ask(&gateway, "/v1/responses", &body("n")).await.text();
        assert_eq!(
            whole,
            on_the_wire(&events).replace("\"gpt-5-2026\"", "\"n\"")
        );
        let lines = gateway.access_lines(4).await;
        assert_eq!(
            lines[3]["attempts"].as_array().map(Vec::len),
            Some(2),
            "{}",
            lines[3]["attempts"]
        );
        assert_eq!(
            (&lines[3]["account"], &lines[3]["prompt_tokens"]),
            (&json!("well"), &json!(11))
        );
    });
}

#[test]
fn stored_items_and_other_models_do_not_pass() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::json(200, &response("fine")));
        let catalog = Catalog::new()
            .account_with("a", &mock, BOTH)
            .account_with(
                "b",
                &mock,
                "serves: [chat, responses], caller_references: [files]",
            )
            .model("m", &["a=gpt-5"])
            .model("open", &["b=gpt-5"]);
        let gateway = Gateway::start(catalog).await;
        let with =
            |model: &str, tool: &Value| json!({"model": model, "input": "x", "tools": [tool]});
        for tool in [
            json!({"type": "file_search", "vector_store_ids": ["vs_1"]}),
            json!({"type": "code_interpreter", "container": "cntr_1"}),
        ] {
            let refused = ask(&gateway, "/v1/responses", &with("m", &tool)).await;
            assert_eq!(refused.status, 400, "{}", refused.text());
            assert_eq!(
                ask(&gateway, "/v1/responses", &with("open", &tool))
                    .await
                    .status,
                200
            );
        }
        let painter = json!({"type": "image_generation", "model": "dear"});
        assert_eq!(
            ask(&gateway, "/v1/responses", &with("open", &painter))
                .await
                .status,
            400
        );
        let plain = [
            json!({"type": "code_interpreter", "container": {"type": "auto"}}),
            json!({"type": "image_generation"}),
        ];
        for tool in plain {
            assert_eq!(
                ask(&gateway, "/v1/responses", &with("m", &tool))
                    .await
                    .status,
                200
            );
            assert_eq!(mock.requests().last().unwrap().json()["tools"][0], tool);
        }
        let earlier =
            json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_elsewhere"}]});
        assert_eq!(ask(&gateway, "/v1/responses", &earlier).await.status, 400);
    });
}
