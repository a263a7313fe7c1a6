//! Fallbacks for requests that are too long, and for refusals.

use serde_json::{Value, json};

use crate::failover::trail;
use crate::support::client::{Response, post_as};
use crate::support::script::{chunk, delta, finish, usage};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

const OTHER_KEY: &str = "sk-CaNaRy-caller-other-0123456789abcdefghijklmnop";
const BODIES: [fn(&str) -> Value; 2] = [chat, chat_stream];

fn coded(code: &str) -> Value {
    json!({"error": {"message": "no", "type": "invalid_request_error", "param": "messages", "code": code}})
}

fn claude_error(message: &str) -> Value {
    json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}})
}

/// Model `m` on `a`, `large` and `mild` on accounts of these names.
fn catalog(a: &Mock, large: &Mock, mild: &Mock, more: &str) -> Catalog {
    let catalog = Catalog::new()
        .account_with("a", a, more)
        .account("spare", a)
        .account("large", large)
        .account("mild", mild);
    catalog
        .model_with(
            "m",
            &["a=x", "spare=x"],
            "fallbacks_on: { context: [large], refusal: [mild] }",
        )
        .model("large", &["large"])
        .model("mild", &["mild"])
}

fn served(answer: &Response, by: &str) {
    assert_eq!(
        (answer.status, answer.field("x-portcullis-model")),
        (200, Some(by)),
        "{}",
        answer.text()
    );
}

#[test]
fn a_request_that_is_too_long_takes_another_model() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let openai = Gateway::start(catalog(&a, &large, &mild, "")).await;
        let claude = Gateway::start(catalog(&a, &large, &mild, "dialect: anthropic")).await;
        let cases = [
            (
                &openai,
                Script::json(400, &coded("context_length_exceeded")),
            ),
            (
                &openai,
                Script::json(200, &coded("context_length_exceeded")),
            ),
            (
                &openai,
                Script::sse().event(coded("context_length_exceeded")).done(),
            ),
            (
                &claude,
                Script::json(
                    400,
                    &claude_error("prompt is too long: 208310 tokens > 200000 maximum"),
                ),
            ),
        ];
        let mut asked = [0, 0];
        for (case, (gateway, script)) in cases.iter().enumerate() {
            for body in BODIES {
                a.push(script.clone());
                let before = a.count();
                let answer = gateway.post(&body("m")).await;
                if case == 2 && body("m")["stream"] != true {
                    // A stream that nobody asked for is nonsense, and another account may know
                    // better.
                    assert_eq!(answer.status, 200);
                } else {
                    served(&answer, "large");
                    assert_eq!(
                        a.count(),
                        before + 1,
                        "no other account of the same model: case {case}"
                    );
                    assert!(trail(&gateway.line_of(&answer).await).ends_with(" large:ok"));
                }
                asked[usize::from(case == 3)] += 1;
            }
        }
        assert_eq!(mild.count(), 0);
        openai.access_lines(asked[0]).await;
        claude.access_lines(asked[1]).await;
    });
}

#[test]
fn a_refusal_goes_to_a_milder_model() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        mild.always(Script::answer("mild"));
        mild.by(|request| {
            if request.json()["stream"] == true {
                Script::stream(2)
            } else {
                Script::answer("mild")
            }
        });
        let gateway = Gateway::start(catalog(&a, &large, &mild, "")).await;
        let message = |message: Value, finish: &str| {
            let choice =
                json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
            Script::json(
                200,
                &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice],
                "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}}),
            )
        };
        let role = chunk(&json!({"role": "assistant", "content": ""}), None);
        let whole = [
            message(
                json!({"role": "assistant", "content": null, "refusal": "I will not."}),
                "stop",
            ),
            message(
                json!({"role": "assistant", "content": "", "refusal": null}),
                "content_filter",
            ),
            Script::json(400, &coded("content_filter")),
            Script::json(400, &coded("content_policy_violation")),
            Script::json(200, &coded("content_filter")),
        ];
        let streamed = [
            Script::sse()
                .event(&role)
                .event(chunk(&json!({"refusal": "I will not."}), None))
                .event(finish("stop"))
                .event(usage(2))
                .done(),
            Script::sse()
                .event(&role)
                .event(finish("content_filter"))
                .event(usage(2))
                .done(),
            Script::json(400, &coded("content_filter")),
            Script::sse().event(coded("content_filter")).done(),
            Script::sse()
                .event(&role)
                .event(coded("content_policy_violation"))
                .done(),
        ];
        for (body, scripts) in BODIES.into_iter().zip([whole, streamed]) {
            for (case, script) in scripts.iter().enumerate() {
                let before = a.count();
                a.push(script.clone());
                let answer = gateway.post(&body("m")).await;
                served(&answer, "mild");
                assert!(
                    !answer.text().contains("I will not"),
                    "the caller sees one answer only: {}",
                    answer.text()
                );
                assert_eq!(a.count(), before + 1);
                let line = gateway.line_of(&answer).await;
                let first = &line["attempts"][0];
                if case < 2 {
                    assert_eq!(trail(&line), "a:declined mild:ok");
                    // A stream is left as soon as it is known for one, before it says what it cost.
                    let told = body("m")["stream"] != true;
                    assert!(
                        first["prompt_tokens"]
                            .as_u64()
                            .is_some_and(|tokens| if told { tokens == 9 } else { tokens > 0 }),
                        "{line}"
                    );
                    assert!(
                        first["completion_tokens"].is_u64() && first["status"] == 200,
                        "{line}"
                    );
                } else {
                    assert!(trail(&line).ends_with(" mild:ok"), "{line}");
                }
                assert_eq!(
                    line["prompt_tokens"], 9,
                    "the first answer's are not the caller's: {line}"
                );
            }
        }
        assert_eq!(large.count(), 0);
        let unused = |kind| {
            gateway.metrics().sum(
                "portcullis_unused_tokens_total",
                &[("model", "m"), ("account", "a"), ("kind", kind)],
            )
        };
        assert!(unused("prompt") > 2.0 * 9.0, "{}", unused("prompt"));
        assert!(super::target(&gateway, "a", "x")["breaker"] == "closed");
        gateway.access_lines(10).await;
    });
}

/// Which costs no place, and no tokens, for as long as the other answer runs.
#[test]
fn a_refused_stream_is_left_when_another_model_answers() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let gate = Gate::new();
        let gateway = Gateway::start(catalog(&a, &large, &mild, "")).await;
        a.push(
            Script::sse()
                .event(chunk(
                    &json!({"role": "assistant", "refusal": "I will not."}),
                    None,
                ))
                .stall(),
        );
        mild.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .event(finish("stop"))
                .event(usage(1))
                .done(),
        );
        let (mut caller, mut answer) = gateway.open(&chat_stream("m")).await;
        served(&answer, "mild");
        a.left(0).await;
        eventually("its place is free", || {
            (super::account(&gateway, "a")["in_flight"] == 0).then_some(())
        })
        .await;
        gate.open();
        caller.rest(&mut answer).await;
        assert_eq!(answer.content(), "w0 ");
        assert_eq!(trail(&gateway.line_of(&answer).await), "a:declined mild:ok");
    });
}

#[test]
fn a_refusal_after_words_is_an_answer() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let gateway = Gateway::start(catalog(&a, &large, &mild, "")).await;
        a.push(
            Script::sse()
                .event(delta("Some words"))
                .event(finish("content_filter"))
                .event(usage(2))
                .done(),
        );
        let answer = gateway.post(&chat_stream("m")).await;
        assert_eq!(
            (
                answer.content().as_str(),
                answer.field("x-portcullis-model"),
                mild.count()
            ),
            ("Some words", None, 0)
        );
        gateway.line().await;
    });
}

#[test]
fn if_the_milder_model_fails_the_first_answer_counts() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        mild.always(Script::error(500, "out of order"));
        let gateway = Gateway::start(catalog(&a, &large, &mild, "")).await;
        let choice = json!({"index": 0, "message": {"role": "assistant", "content": null, "refusal": "I will not."}, "finish_reason": "stop"});
        a.push(Script::json(
            200,
            &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}}),
        ));
        let whole = gateway.post(&chat("m")).await;
        assert_eq!(
            (whole.status, whole.field("x-portcullis-model")),
            (200, None),
            "{}",
            whole.text()
        );
        assert_eq!(
            whole.json()["choices"][0]["message"]["refusal"],
            "I will not."
        );
        a.push(
            Script::sse()
                .event(chunk(
                    &json!({"role": "assistant", "refusal": "I will not."}),
                    None,
                ))
                .event(finish("stop"))
                .event(usage(2))
                .done(),
        );
        let streamed = gateway.post(&chat_stream("m")).await;
        assert_eq!(streamed.status, 200);
        assert_eq!(
            streamed.events().last().map(String::as_str),
            Some("[DONE]"),
            "{}",
            streamed.text()
        );
        let refusal = |event: &String| {
            serde_json::from_str::<Value>(event)
                .ok()
                .map(|chunk| chunk["choices"][0]["delta"]["refusal"].clone())
        };
        let refusals: Vec<Value> = streamed
            .events()
            .iter()
            .filter_map(refusal)
            .filter(Value::is_string)
            .collect();
        assert_eq!(refusals, [json!("I will not.")], "{}", streamed.text());
        for answer in [whole, streamed] {
            let line = gateway.line_of(&answer).await;
            assert_eq!(
                (trail(&line).as_str(), &line["account"], &line["outcome"]),
                ("mild:status a:ok", &json!("a"), &json!("ok"))
            );
            assert_eq!(
                (&line["prompt_tokens"], &line["completion_tokens"]),
                (&json!(9), &json!(2)),
                "counted once, as the caller's: {line}"
            );
            assert!(line["attempts"][1]["prompt_tokens"].is_null(), "{line}");
        }
        // One that comes as an error is told as one.
        a.push(Script::json(400, &coded("content_filter")));
        let answer = gateway.post(&chat("m")).await;
        assert!([400, 502].contains(&answer.status), "{}", answer.text());
        gateway.access_lines(3).await;
    });
}

#[test]
fn an_unavailable_larger_model_leaves_the_first_refusal() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        large.always(Script::error(401, "who are you?"));
        let gateway = Gateway::start(catalog(&a, &large, &mild, "")).await;
        gateway
            .post(&chat("large"))
            .await
            .is_error(503, "upstream_unavailable");
        a.push(Script::json(400, &coded("context_length_exceeded")));
        gateway
            .post(&chat("m"))
            .await
            .is_error(400, "context_length_exceeded");
        assert_eq!((a.count(), large.count()), (1, 1));
        gateway.access_lines(2).await;
    });
}

#[test]
fn no_other_fault_and_no_unpermitted_caller_falls_back() {
    run(async {
        let [a, large, mild] = [
            Mock::start().await,
            Mock::start().await,
            Mock::start().await,
        ];
        let catalog = catalog(&a, &large, &mild, "").caller("other", OTHER_KEY, "models: [m]");
        let gateway = Gateway::start(catalog).await;
        let mut lines = 0;
        for (status, code) in [
            (400, "invalid_value"),
            (422, "invalid_value"),
            (413, "too_large"),
            (400, "string_above_max_length"),
        ] {
            for body in BODIES {
                a.push(Script::json(status, &coded(code)));
                gateway.post(&body("m")).await.is_error(status, code);
                lines += 1;
            }
        }
        for code in ["context_length_exceeded", "content_filter"] {
            a.push(Script::json(400, &coded(code)));
            gateway
                .raw(post_as(OTHER_KEY, &chat("m")))
                .await
                .is_error(400, code);
            lines += 1;
        }
        // Nor where the account is out of order: they are no fallbacks for that.
        a.push(Script::error(500, "out of order"))
            .push(Script::error(500, "out of order"));
        gateway
            .post(&chat("m"))
            .await
            .is_error(502, "bad_upstream_response");
        assert_eq!((large.count(), mild.count()), (0, 0));
        gateway.access_lines(lines + 1).await;
    });
}
