//! How long is waited, by whose word.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{post_with, target};
use crate::failover::trail;
use crate::support::script::chunk;
use crate::support::{Catalog, Gateway, Mock, Script, chat, chat_stream, is_about, run};

fn role_alone() -> Script {
    Script::sse()
        .event(chunk(&json!({"role": "assistant", "content": ""}), None))
        .stall()
}

#[test]
fn a_stream_that_does_not_begin_goes_elsewhere() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account_with("a", &a, "timeouts: { first_token: 400ms }")
            .account("b", &b);
        let gateway =
            Gateway::start(catalog.model("m", &["a", "b"]).model("alone", &["a=m"])).await;
        // With a head, without one, and with an event that does not count.
        for (n, script) in [role_alone(), Script::silent(), Script::sse().stall()]
            .into_iter()
            .enumerate()
        {
            a.always(script);
            let began = Instant::now();
            let answer = gateway.post(&chat_stream("m")).await;
            assert!(
                is_about(began.elapsed(), Duration::from_millis(400)),
                "{:?}",
                began.elapsed()
            );
            assert_eq!(answer.content(), "w0 w1 w2 ");
            let line = gateway.line_of(&answer).await;
            assert_eq!(trail(&line), "a:first_token_timeout b:ok");
            assert!(
                line["attempts"][0]["prompt_tokens"].is_u64(),
                "it may be billed: {line}"
            );
            a.left(n).await;
        }
        gateway
            .post(&chat_stream("alone"))
            .await
            .is_error(504, "upstream_timeout");
        // Of a whole answer nothing comes before all of it does.
        a.always(
            Script::new()
                .delay(Duration::from_millis(700))
                .then_answer("late"),
        );
        assert_eq!(gateway.post(&chat("alone")).await.content(), "late");
        gateway.access_lines(5).await;
    });
}

#[test]
fn a_models_timeouts_go_before_its_accounts() {
    run(async {
        let a = Mock::start().await;
        let catalog = Catalog::new().account_with(
            "a",
            &a,
            "timeouts: { total: 20s, first_token: 20s, first_byte: 3s }",
        );
        let catalog = catalog
            .model_with("total", &["a"], "timeouts: { total: 500ms }")
            .model_with("token", &["a"], "timeouts: { first_token: 500ms }")
            .model_with("longer", &["a"], "timeouts: { first_byte: 20s }")
            .model("plain", &["a"]);
        let gateway = Gateway::start(catalog).await;
        for (model, script, body) in [
            ("total", Script::silent(), chat as fn(&str) -> Value),
            ("token", role_alone(), chat_stream),
            ("plain", Script::silent(), chat_stream),
        ] {
            a.on(model, script);
            let began = Instant::now();
            let answer = gateway.post(&body(model)).await;
            answer.is_error(504, "upstream_timeout");
            let (wanted, outcome) = match model {
                "total" => (500, "a:total_timeout"),
                "token" => (500, "a:first_token_timeout"),
                _ => (3_000, "a:first_byte_timeout"),
            };
            assert!(
                is_about(began.elapsed(), Duration::from_millis(wanted)),
                "{model}: {:?}",
                began.elapsed()
            );
            assert_eq!(trail(&gateway.line_of(&answer).await), outcome);
        }
        a.on(
            "longer",
            Script::new()
                .delay(Duration::from_millis(3_500))
                .and(Script::stream(1)),
        );
        assert_eq!(gateway.post(&chat_stream("longer")).await.content(), "w0 ");
        gateway.access_lines(4).await;
    });
}

#[test]
fn callers_may_shorten_the_time_and_not_lengthen_it() {
    run(async {
        let a = Mock::start().await;
        a.always(Script::silent());
        let catalog = Catalog::new()
            .account_with("a", &a, "timeouts: { total: 800ms }")
            .account("patient", &a);
        let catalog = catalog
            .account_with("b", &a, "timeouts: { total: 40s }")
            .model("l", &["b"]);
        let gateway = Gateway::start(catalog.model("m", &["a"]).model("n", &["patient"])).await;
        let cases: [(&str, &str, u64); 6] = [
            ("l", "0.4", 400),
            ("l", "400ms", 400),
            ("m", "30s", 800),
            ("m", "3600", 800),
            ("n", "1s", 1000),
            ("n", "5e-1", 500),
        ];
        for (model, said, wanted) in cases {
            let began = Instant::now();
            let answer = gateway
                .raw(post_with(&chat(model), &[("x-portcullis-timeout", said)]))
                .await;
            answer.is_error(504, "upstream_timeout");
            assert!(
                is_about(began.elapsed(), Duration::from_millis(wanted)),
                "{said}: {:?}",
                began.elapsed()
            );
        }
        // A stream that has begun ends with an error event.
        a.on("n", Script::sse().words(0..1).stall());
        let began = Instant::now();
        let answer = gateway
            .raw(post_with(
                &chat_stream("n"),
                &[("X-Portcullis-Timeout", "3000ms")],
            ))
            .await;
        assert!(
            is_about(began.elapsed(), Duration::from_secs(3)),
            "{:?}",
            began.elapsed()
        );
        assert_eq!((answer.status, answer.content().as_str()), (200, "w0 "));
        assert!(
            answer
                .events()
                .last()
                .is_some_and(|last| last.contains("upstream_timeout")),
            "{}",
            answer.text()
        );
        assert!(
            a.requests()
                .iter()
                .all(|request| request.field("x-portcullis-timeout").is_none()),
            "it is for us alone"
        );
        let asked = a.count();
        for said in [
            "",
            "0",
            "0s",
            "-1",
            "soon",
            "1 s",
            "2.5s",
            "NaN",
            "inf",
            "1e400",
            "1,2",
            "0x10",
            "99999999999999999999",
        ] {
            let answer = gateway
                .raw(post_with(&chat("m"), &[("x-portcullis-timeout", said)]))
                .await;
            let error = answer.is_error(400, "invalid_value");
            assert_eq!(error["param"], "x-portcullis-timeout", "{said}");
        }
        assert_eq!(a.count(), asked);
        gateway.access_lines(7 + 13).await;
    });
}

#[test]
fn no_attempt_begins_that_cannot_end_in_time() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        b.always(Script::new().delay(Duration::from_secs(6)).then_answer("b"));
        let gateway = Gateway::start(Catalog::chain(&[&a, &b]).model("warm", &["b=m"])).await;
        assert_eq!(gateway.post(&chat("warm")).await.content(), "b");
        a.always(
            Script::new()
                .delay(Duration::from_millis(300))
                .and(Script::error(500, "out of order")),
        );
        let began = Instant::now();
        let answer = gateway
            .raw(post_with(&chat("m"), &[("x-portcullis-timeout", "4")]))
            .await;
        // The time that is left is not waited for in vain.
        answer.is_error(502, "bad_upstream_response");
        assert!(
            began.elapsed() < Duration::from_millis(3_900),
            "{:?}",
            began.elapsed()
        );
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (trail(&line).as_str(), &line["not_retried"]),
            ("a:status", &json!("deadline"))
        );
        assert_eq!(b.count(), 1);
        // With time enough it does.
        assert_eq!(
            gateway
                .raw(post_with(&chat("m"), &[("x-portcullis-timeout", "40s")]))
                .await
                .content(),
            "b"
        );
        gateway.access_lines(3).await;
    });
}

#[test]
fn a_hurried_caller_takes_no_account_away_from_others() {
    run(async {
        let mock = Mock::start().await;
        mock.always(
            Script::new()
                .delay(Duration::from_millis(300))
                .then_answer("a"),
        );
        let gateway = Gateway::over(&mock).await;
        for stream in [false, true] {
            for _ in 0..6 {
                let body = if stream { chat_stream("m") } else { chat("m") };
                let answer = gateway
                    .raw(post_with(&body, &[("x-portcullis-timeout", "0.05")]))
                    .await;
                answer.is_error(504, "upstream_timeout");
            }
        }
        let target = target(&gateway, "a", "m");
        assert_eq!(
            (&target["breaker"], &target["failed"]),
            (&json!("closed"), &json!(0)),
            "{target}"
        );
        assert_eq!(gateway.post(&chat("m")).await.content(), "a");
        gateway.access_lines(13).await;
    });
}
