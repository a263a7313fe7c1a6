//! What those who may know are told of how an answer came about.

use serde_json::json;

use super::post_as;
use crate::support::canary::KEY;
use crate::support::client::{End, request};
use crate::support::script::{finish, usage};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, run};

const DEBUG_KEY: &str = "sk-CaNaRy-caller-debug-0123456789abcdefghijklmnop";

fn catalog(a: &Mock, b: &Mock) -> Catalog {
    let catalog =
        Catalog::new()
            .account("a", a)
            .account("b", b)
            .account_with("narrow", b, "concurrency: 1");
    let catalog = catalog
        .caller_with("team", "", &[("prod", DEBUG_KEY, "debug: true")])
        .model("m", &["a=up-m", "b"]);
    catalog.model_with("queued", &["narrow"], "queue: {}")
}

/// The names in a `server-timing`, each of which has its milliseconds.
fn names(timing: &str) -> Vec<&str> {
    let parts = timing.split(", ").map(|part| {
        let (name, milliseconds) = part
            .split_once(";dur=")
            .unwrap_or_else(|| panic!("{part} in {timing}"));
        assert!(
            milliseconds
                .parse::<f64>()
                .is_ok_and(|ms| (0.0..60_000.0).contains(&ms)),
            "{part}"
        );
        name
    });
    parts.collect()
}

/// `a;status(500);12ms` without the time.
fn untimed(attempts: &str) -> Vec<String> {
    let parts = attempts.split(", ").map(|part| {
        let (rest, time) = part.rsplit_once(';').unwrap_or_else(|| panic!("{part}"));
        match time.strip_suffix("ms") {
            Some(ms) if ms.parse::<u64>().is_ok() => rest.to_owned(),
            _ => part.to_owned(),
        }
    });
    parts.collect()
}

#[test]
fn only_keys_with_debug_see_the_trail() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&a, &b)).await;
        for (body, last) in [(chat("m"), "b;ok"), (chat_stream("m"), "b;running")] {
            a.push(Script::error(500, "out of order"));
            let gate = Gate::new();
            if last == "b;running" {
                b.push(
                    Script::sse()
                        .words(0..1)
                        .wait(&gate)
                        .event(finish("stop"))
                        .event(usage(1))
                        .done(),
                );
            }
            let mut connection = gateway.connect().await;
            connection.send(post_as(DEBUG_KEY, &body, &[])).await;
            let mut answer = connection.head().await.expect("a head");
            gate.open();
            connection.rest(&mut answer).await;
            assert_eq!((answer.status, answer.end), (200, Some(End::Whole)));
            assert_eq!(
                untimed(answer.field("x-portcullis-attempts").expect("a trail")),
                ["a;status(500)", last]
            );
            let timing = answer.field("server-timing").expect("a timing");
            assert_eq!(
                names(timing),
                ["auth", "plan", "connect", "first_byte", "own"],
                "{timing}"
            );
            a.push(Script::error(500, "out of order"));
            let other = gateway.raw(post_as(KEY, &body, &[])).await;
            assert_eq!(
                (
                    other.field("x-portcullis-attempts"),
                    other.field("server-timing")
                ),
                (None, None)
            );
        }
        gateway.access_lines(4).await;
    });
}

#[test]
fn those_who_are_refused_see_it_too() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        a.always(Script::error(429, "slow down").with("retry-after", "50"));
        b.always(Script::error(401, "who are you?"));
        let gateway = Gateway::start(catalog(&a, &b)).await;
        let refused = gateway.raw(post_as(DEBUG_KEY, &chat("m"), &[])).await;
        refused.is_error(503, "upstream_unavailable");
        let attempts = refused.field("x-portcullis-attempts").expect("a trail");
        assert_eq!(
            untimed(attempts),
            ["a;rate_limited(429)", "b;credential(401)"]
        );
        assert!(names(refused.field("server-timing").expect("a timing")).contains(&"own"));
        let other = gateway.post(&chat("m")).await;
        assert_eq!(
            (
                other.status,
                other.field("x-portcullis-attempts"),
                other.field("server-timing")
            ),
            (503, None, None)
        );
        // Nobody was asked.
        let nobody = gateway.raw(post_as(DEBUG_KEY, &chat("m"), &[])).await;
        nobody.is_error(503, "no_capacity");
        assert_eq!(nobody.field("x-portcullis-attempts"), None);
        gateway.access_lines(3).await;
    });
}

#[test]
fn the_wait_in_a_queue_is_in_the_timing() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = Gateway::start(catalog(&a, &b)).await;
        b.push(Script::new().wait(&gate).then_answer("first"));
        let body = chat("queued");
        let (first, second, _) = tokio::join!(
            gateway.raw(post_as(DEBUG_KEY, &body, &[])),
            async {
                b.request(0).await;
                gateway.raw(post_as(DEBUG_KEY, &body, &[])).await
            },
            async {
                crate::support::eventually("one waits", || {
                    (super::model(&gateway, "queued")["waiting"] == 1).then_some(())
                })
                .await;
                gate.open();
            }
        );
        assert!(!names(first.field("server-timing").unwrap()).contains(&"queue"));
        assert_eq!(
            names(second.field("server-timing").unwrap()),
            ["auth", "plan", "queue", "connect", "first_byte", "own"]
        );
        gateway.access_lines(2).await;
    });
}

#[test]
fn the_access_line_has_it_always() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&a, &b)).await;
        for body in [chat("m"), chat_stream("m")] {
            a.push(Script::error(500, "out of order"));
            let answer = gateway.post(&body).await;
            let line = gateway.line_of(&answer).await;
            assert!(
                line["auth_us"].is_u64() && line["plan_us"].is_u64() && line["own_us"].is_u64(),
                "{line}"
            );
            assert!(
                line["queued_ms"].is_null() && line["not_retried"].is_null(),
                "{line}"
            );
            let [first, second] = line["attempts"].as_array().unwrap().as_slice() else {
                panic!("{line}")
            };
            for (attempt, account, model, outcome, status) in [
                (first, "a", "up-m", "status", 500),
                (second, "b", "m", "ok", 200),
            ] {
                let shown = (
                    &attempt["account"],
                    &attempt["model"],
                    &attempt["outcome"],
                    &attempt["status"],
                );
                assert_eq!(
                    shown,
                    (
                        &json!(account),
                        &json!(model),
                        &json!(outcome),
                        &json!(status)
                    ),
                    "{line}"
                );
                assert!(
                    attempt["ms"].is_u64() && attempt["connect_ms"].is_u64(),
                    "{line}"
                );
                assert!(
                    attempt["prompt_tokens"].is_null() && attempt["completion_tokens"].is_null(),
                    "{line}"
                );
            }
            assert!(
                first["first_ms"].is_null() && second["first_ms"].is_u64(),
                "{line}"
            );
            let [at, ms, next] =
                [&first["at_ms"], &first["ms"], &second["at_ms"]].map(|n| n.as_u64().unwrap());
            // Each is rounded down.
            assert!(next + 1 >= at + ms, "{line}");
            assert!(
                next + second["ms"].as_u64().unwrap() <= line["total_ms"].as_u64().unwrap(),
                "{line}"
            );
            assert!(
                second["first_ms"].as_u64() <= second["ms"].as_u64()
                    && second["ms"].as_u64() <= line["total_ms"].as_u64(),
                "{line}"
            );
        }
        // Before the key is known, or the request, there is nothing to tell of either.
        let unknown = gateway.raw(post_as("nobody", &chat("m"), &[])).await;
        let line = gateway.line_of(&unknown).await;
        assert!(
            line["plan_us"].is_null() && line["attempts"] == json!([]),
            "{line}"
        );
    });
}

#[test]
fn the_end_user_is_a_hash_at_every_door() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&a, &b)).await;
        let says = |fields: serde_json::Value| {
            let mut body = chat("m");
            let members = body.as_object_mut().unwrap();
            if fields["input"].is_string() {
                members.remove("messages");
            }
            members.extend(fields.as_object().unwrap().clone());
            body
        };
        // `printf jane@x.example | sha256sum`, `printf 'j"é' | sha256sum`
        let (jane, escaped) = (json!("e7f7cf55dea91660"), json!("ac33e706619bea42"));
        for (path, fields, expected) in [
            (
                "/v1/chat/completions",
                json!({"user": "jane@x.example"}),
                &jane,
            ),
            (
                "/v1/chat/completions",
                json!({"user": "other", "safety_identifier": "jane@x.example"}),
                &jane,
            ),
            (
                "/v1/chat/completions",
                json!({"safety_identifier": "jane@x.example", "user": "other"}),
                &jane,
            ),
            ("/v1/chat/completions", json!({"user": "j\"é"}), &escaped),
            ("/v1/chat/completions", json!({"user": ""}), &json!(null)),
            ("/v1/chat/completions", json!({}), &json!(null)),
            (
                "/v1/responses",
                json!({"input": "hi", "safety_identifier": "jane@x.example"}),
                &jane,
            ),
            (
                "/v1/messages",
                json!({"max_tokens": 5, "metadata": {"user_id": "jane@x.example"}}),
                &jane,
            ),
        ] {
            let bearer = format!("Bearer {KEY}");
            let heads = [
                ("authorization", &*bearer),
                ("content-type", "application/json"),
            ];
            let answer = gateway
                .raw(request(
                    "POST",
                    path,
                    &heads,
                    says(fields).to_string().as_bytes(),
                ))
                .await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            let line = gateway.line_of(&answer).await;
            assert_eq!(&line["end_user"], expected, "{path} {line}");
            assert!(!line.to_string().contains("jane"), "{line}");
        }
    });
}

#[test]
fn the_last_usage_chunk_has_it_once_more() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(catalog(&a, &b)).await;
        let mut body = chat_stream("m");
        body["stream_options"] = json!({"include_usage": true});
        for (key, sees) in [(DEBUG_KEY, true), (KEY, false)] {
            a.push(Script::error(500, "out of order"));
            b.push(Script::stream(2));
            let answer = gateway.raw(post_as(key, &body, &[])).await;
            assert_eq!(answer.status, 200);
            let events = answer.events();
            let chunk: serde_json::Value = events
                .iter()
                .filter_map(|event| serde_json::from_str(event).ok())
                .find(|chunk: &serde_json::Value| chunk["usage"].is_object())
                .expect("a usage chunk");
            if !sees {
                assert!(chunk.get("x_portcullis").is_none(), "{chunk}");
                continue;
            }
            let told = |name: &str| {
                chunk["x_portcullis"][name]
                    .as_str()
                    .unwrap_or_else(|| panic!("{name} in {chunk}"))
                    .to_owned()
            };
            assert_eq!(untimed(&told("attempts")), ["a;status(500)", "b;ok"]);
            assert_eq!(
                names(&told("server_timing")),
                ["auth", "plan", "connect", "first_byte", "own"]
            );
        }
        gateway.access_lines(2).await;
    });
}
