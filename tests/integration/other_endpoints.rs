//! The endpoints that hold no conversation: what passes to servers of OpenAI's format, and back.

use serde_json::{Value, json};

use crate::support::canary::KEY;
use crate::support::client::{self, Response};
use crate::support::{Catalog, Gateway, Mock, Script, run};

async fn ask(gateway: &Gateway, path: &str, body: &Value) -> Response {
    let fields = [
        ("authorization", format!("Bearer {KEY}")),
        ("content-type", "application/json".to_owned()),
    ];
    let fields = fields
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    gateway
        .raw(client::request(
            "POST",
            path,
            &fields,
            body.to_string().as_bytes(),
        ))
        .await
}

fn catalog(mock: &Mock) -> Catalog {
    Catalog::new().account("a", mock).model("m", &["a=up"])
}

#[test]
fn whole_answers_pass_and_are_counted() {
    run(async {
        let mock = Mock::start().await;
        let usage = json!({"prompt_tokens": 7, "total_tokens": 7});
        mock.by(move |request| {
            let answer = match request.target.as_str() {
                "/v1/moderations" => json!({"id": "modr-1", "model": "up", "results": [{"flagged": true, "new": 1}]}),
                "/v1/rerank" => {
                    json!({"model": "up", "results": [{"index": 1, "relevance_score": 0.9}], "usage": usage})
                }
                "/v1/images/generations" => json!({"created": 1, "data": [{"b64_json": "AAAA"}],
                    "usage": {"input_tokens": 3, "output_tokens": 40, "total_tokens": 43}}),
                "/v1/completions" => json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "up",
                    "choices": [{"index": 0, "text": " two", "logprobs": null, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}}),
                _ => return Script::error(404, "no such path"),
            };
            Script::json(200, &answer)
        });
        let gateway = Gateway::start(catalog(&mock)).await;
        let asked = [
            (
                "/v1/moderations",
                json!({"model": "m", "input": ["one", "two"], "x": 1}),
                "moderations",
            ),
            (
                "/v1/rerank",
                json!({"model": "m", "query": "q", "documents": ["a", {"text": "b"}], "top_n": 1}),
                "rerank",
            ),
            (
                "/v1/images/generations",
                json!({"model": "m", "prompt": "a cat", "n": 1}),
                "images",
            ),
            (
                "/v1/completions",
                json!({"model": "m", "prompt": "one", "suffix": "three", "echo": false}),
                "completions",
            ),
        ];
        let mut used = Vec::new();
        for (path, body, door) in asked {
            let answer = ask(&gateway, path, &body).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
            let told = answer.json();
            assert!(told.get("model").is_none_or(|model| model == "m"), "{told}");
            let sent: Value = mock.requests().last().expect("a request").json();
            let mut expected = body.clone();
            expected["model"] = json!("up");
            assert_eq!(sent, expected);
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (&line["door"], &line["outcome"]),
                (&json!(door), &json!("ok")),
                "{line}"
            );
            used.push((
                line["prompt_tokens"].clone(),
                line["completion_tokens"].clone(),
                line["usage"].clone(),
            ));
        }
        let reported =
            |prompt: u64, completion: u64| (json!(prompt), json!(completion), json!("reported"));
        // Nobody counted the text of the moderation: six bytes.
        assert_eq!(used[0], (json!(2), json!(0), json!("estimated")));
        assert_eq!(used[1..], [reported(7, 0), reported(3, 40), reported(2, 1)]);
        let (status, usage) = gateway.admin("/usage?by=door");
        let usage: Value = serde_json::from_str(&usage).unwrap();
        let lines = usage["usage"].as_array().expect("a list").iter();
        let doors: Vec<_> = lines
            .map(|line| (line["door"].as_str().unwrap(), &line["requests"]))
            .collect();
        let one = &json!(1);
        let expected = [
            ("completions", one),
            ("images", one),
            ("moderations", one),
            ("rerank", one),
        ];
        assert_eq!((status, doors), (200, expected.to_vec()));
    });
}

#[test]
fn a_stream_of_completions_is_whole_or_says_otherwise() {
    run(async {
        let mock = Mock::start().await;
        let piece = |text: &str, finish: Value| {
            json!({"id": "cmpl-1", "object": "text_completion", "model": "up",
                   "choices": [{"index": 0, "text": text, "finish_reason": finish}]})
        };
        let last = json!({"id": "cmpl-1", "object": "text_completion", "model": "up", "choices": [],
                          "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}});
        let events = [
            piece("one ", Value::Null),
            piece("two", Value::Null),
            piece("", json!("stop")),
            last,
        ];
        let text = |events: &[Value], end: &str| -> String {
            events
                .iter()
                .map(|event| format!("data: {event}\n\n"))
                .chain([end.to_owned()])
                .collect()
        };
        let gateway = Gateway::start(catalog(&mock)).await;
        let asks = |usage: bool| json!({"model": "m", "prompt": "x", "stream": true, "stream_options": {"include_usage": usage}});
        for (usage, shown) in [(false, 3), (true, 4)] {
            mock.always(Script::text(
                200,
                "text/event-stream",
                text(&events, "data: [DONE]\n\n"),
            ));
            let answer = ask(&gateway, "/v1/completions", &asks(usage)).await;
            let told = answer.events();
            assert_eq!(told.len(), shown + 1, "{}", answer.text());
            assert_eq!(told.last().map(String::as_str), Some("[DONE]"));
            assert!(
                told[..shown]
                    .iter()
                    .all(|event| event.contains(r#""model":"m""#)),
                "{told:?}"
            );
            let sent: Value = mock.requests().last().expect("a request").json();
            assert_eq!(sent["stream_options"]["include_usage"], true);
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (&line["prompt_tokens"], &line["completion_tokens"]),
                (&json!(5), &json!(2)),
                "{line}"
            );
        }
        // Without its end it is no answer.
        mock.always(Script::text(
            200,
            "text/event-stream",
            text(&events[..2], ""),
        ));
        let answer = ask(&gateway, "/v1/completions", &asks(false)).await;
        let told = answer.events();
        assert!(
            told.last().expect("an event").contains("\"error\""),
            "{told:?}"
        );
        assert!(!answer.text().contains("[DONE]"));
        // Nor is one text of two, unless the server says that it is all.
        let two = [json!({"prompt": ["x", "y"]}), json!({"n": 2})];
        for more in two {
            let mut asks = asks(false);
            asks.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            mock.always(Script::text(200, "text/event-stream", text(&events, "")));
            let answer = ask(&gateway, "/v1/completions", &asks).await;
            assert!(
                answer
                    .events()
                    .last()
                    .expect("an event")
                    .contains("\"error\""),
                "{}",
                answer.text()
            );
            assert_eq!(gateway.line_of(&answer).await["outcome"], "upstream_cut");
            mock.always(Script::text(
                200,
                "text/event-stream",
                text(&events, "data: [DONE]\n\n"),
            ));
            assert!(
                ask(&gateway, "/v1/completions", &asks)
                    .await
                    .text()
                    .ends_with("data: [DONE]\n\n")
            );
        }
        // A server that does not stream is believed.
        mock.always(Script::json(200, &piece("all", json!("length"))));
        let answer = ask(&gateway, "/v1/completions", &asks(false)).await;
        let told = answer.events();
        assert!(
            told.len() == 2 && told[0].contains("\"all\"") && told[1] == "[DONE]",
            "{told:?}"
        );
    });
}

#[test]
fn a_missing_endpoint_is_told_and_rests_nothing_else() {
    run(async {
        let [mock, other] = [Mock::start().await, Mock::start().await];
        mock.by(|request| match request.target.as_str() {
            "/v1/chat/completions" => Script::answer("here"),
            _ => Script::error(404, "no such path"),
        });
        other.always(Script::json(200, &json!({"results": []})));
        let catalog = Catalog::new()
            .account("a", &mock)
            .account_with("c", &mock, "serves: [chat]")
            .account("b", &other)
            .model("m", &["a=up"])
            .model("chats", &["c=up"])
            .model("both", &["a=up", "b=up"]);
        let gateway = Gateway::start(catalog).await;
        let asks = |model: &str| json!({"model": model, "query": "q", "documents": ["a"]});
        for _ in 0..4 {
            // The one that has it answers.
            assert_eq!(ask(&gateway, "/v1/rerank", &asks("both")).await.status, 200);
        }
        let refused = ask(&gateway, "/v1/rerank", &asks("m")).await;
        // It has refused the model three times.
        refused.is_error(503, "no_capacity");
        let asked = mock.count();
        let refused = ask(&gateway, "/v1/rerank", &asks("chats"))
            .await
            .is_error(400, "unsupported_endpoint");
        assert_eq!(refused["param"], "model");
        assert_eq!(mock.count(), asked, "nobody is asked");
        assert_eq!(gateway.post(&client::chat("m")).await.status, 200);
        let status = gateway.status();
        let targets = status["accounts"][0]["targets"].as_array().unwrap();
        let kinds: Vec<_> = targets
            .iter()
            .map(|one| one["endpoint"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["chat", "rerank"], "{status}");
    });
}

#[test]
fn what_is_no_request_is_refused_by_its_field() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(&mock)).await;
        for (path, body, param) in [
            (
                "/v1/rerank",
                json!({"model": "m", "query": "q"}),
                "documents",
            ),
            ("/v1/moderations", json!({"input": "x"}), "model"),
            (
                "/v1/moderations",
                json!({"model": "m", "Input": "x"}),
                "Input",
            ),
            (
                "/v1/completions",
                json!({"model": "m", "prompt": "x", "stream": "yes"}),
                "stream",
            ),
            (
                "/v1/images/generations",
                json!({"model": 7, "prompt": "x"}),
                "model",
            ),
            (
                "/v1/rerank",
                json!({"model": "m", "query": "q", "documents": ["a"], "stream": true}),
                "stream",
            ),
            (
                "/v1/moderations",
                json!({"model": "m", "input": "x", "stream": true}),
                "stream",
            ),
            (
                "/v1/embeddings",
                json!({"model": "m", "input": "x", "stream": true}),
                "stream",
            ),
        ] {
            let answer = ask(&gateway, path, &body).await;
            assert_eq!(
                (answer.status, &answer.json()["error"]["param"]),
                (400, &json!(param)),
                "{}",
                answer.text()
            );
        }
        let body = json!({"model": "m", "input": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]});
        ask(&gateway, "/v1/moderations", &body)
            .await
            .is_error(400, "unsupported_parameter");
        let inside = json!({"text": {"url": "file:///etc/passwd"}});
        let body = json!({"model": "m", "query": "q", "documents": ["a", inside]});
        let refused = ask(&gateway, "/v1/rerank", &body)
            .await
            .is_error(400, "unsupported_parameter");
        assert_eq!(refused["param"], "documents[1].text.url");
        assert_eq!(mock.count(), 0);
    });
}

#[test]
fn coheres_own_form_passes_to_cohere() {
    run(async {
        let mock = Mock::start().await;
        let results = json!([{"index": 0, "relevance_score": 0.5}]);
        mock.always(Script::json(
            200,
            &json!({"id": "r", "results": results, "meta": {"tokens": {"input_tokens": 9}}}),
        ));
        let catalog = Catalog::new()
            .account_with("a", &mock, "dialect: cohere")
            .model("m", &["a=rerank-v3.5"]);
        let gateway = Gateway::start(catalog).await;
        let body = json!({"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 1, "max_tokens_per_doc": 7});
        for path in ["/v2/rerank", "/v1/rerank"] {
            let answer = ask(&gateway, path, &body).await;
            assert_eq!(
                (answer.status, &answer.json()["results"]),
                (200, &results),
                "{}",
                answer.text()
            );
            let sent = mock.requests().last().expect("a request").clone();
            assert!(sent.target.ends_with("/rerank"), "{}", sent.target);
            assert_eq!(
                (&sent.json()["model"], &sent.json()["max_tokens_per_doc"]),
                (&json!("rerank-v3.5"), &json!(7))
            );
            assert_eq!(gateway.line_of(&answer).await["prompt_tokens"], 9);
        }
    });
}

/// OpenAI's own clients need no model for moderations.
#[test]
fn moderations_without_a_model_take_the_only_one() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::json(
            200,
            &json!({"id": "modr-1", "model": "up", "results": [{"flagged": false}]}),
        ));
        let kind = "kind: moderation";
        let one = catalog(&mock).model_with("judge", &["a=up-judge"], kind);
        let gateway = Gateway::start(one).await;
        let body = json!({"input": "hello"});
        let answer = ask(&gateway, "/v1/moderations", &body).await;
        assert_eq!(
            (answer.status, &answer.json()["model"]),
            (200, &json!("judge")),
            "{}",
            answer.text()
        );
        assert_eq!(
            mock.requests().last().expect("a request").json()["model"],
            "up-judge"
        );
        assert_eq!(
            ask(&gateway, "/v1/rerank", &body).await.json()["error"]["param"],
            "model",
            "nowhere else"
        );
        let two = catalog(&mock)
            .model_with("judge", &["a=x"], kind)
            .model_with("other", &["a=y"], kind);
        for catalog in [catalog(&mock), two] {
            let gateway = Gateway::start(catalog).await;
            let refused = ask(&gateway, "/v1/moderations", &body).await;
            refused.is_error(400, "missing_required_parameter");
        }
        assert_eq!(mock.count(), 1);
    });
}

#[test]
fn a_usage_that_cannot_be_reaches_no_caller() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::start(catalog(&mock)).await;
        for counts in [
            json!({"prompt_tokens": -5, "total_tokens": -5}),
            json!({"prompt_tokens": 1e30, "total_tokens": 1}),
        ] {
            let data = json!([{"object": "embedding", "index": 0, "embedding": [0.5]}]);
            mock.push(Script::json(
                200,
                &json!({"object": "list", "data": data, "model": "up", "usage": counts}),
            ));
            let answer = ask(
                &gateway,
                "/v1/embeddings",
                &json!({"model": "m", "input": "hello"}),
            )
            .await;
            let usage = answer.json()["usage"].clone();
            let shown =
                [&usage["prompt_tokens"], &usage["total_tokens"]].map(|count| count.as_u64());
            assert!(
                shown
                    .iter()
                    .all(|count| count.is_some_and(|count| count < 100)),
                "{counts}: {usage}"
            );
            assert!(
                answer.json()["id"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("embd-")),
                "{}",
                answer.text()
            );
            mock.push(Script::json(
                200,
                &json!({"created": 1, "data": [{"b64_json": "AAAA"}], "usage": counts}),
            ));
            let answer = ask(
                &gateway,
                "/v1/images/generations",
                &json!({"model": "m", "prompt": "a cat"}),
            )
            .await;
            assert_eq!(
                (answer.status, answer.json().get("usage")),
                (200, None),
                "{}",
                answer.text()
            );
        }
    });
}
