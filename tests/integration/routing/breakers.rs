//! The breaker of a target, from its first failure to its last.

use std::time::Duration;

use serde_json::{Value, json};

use super::{account, admin, breaker, join_all, target};
use crate::failover::trail;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

/// The longest first cool-down of a breaker.
const COOL_DOWN: Duration = Duration::from_secs(6);

/// Model `m` on `a`, whose breaker is open and stays so while the clock is held, and `b`.
async fn broken(a: &Mock, b: &Mock) -> Gateway {
    a.always(Script::error(500, "out of order"));
    b.always(Script::answer("b"));
    let gateway = Gateway::start(Catalog::chain(&[a, b]).model("other", &["a"])).await;
    gateway.hold_clock();
    for _ in 0..5 {
        assert_eq!(gateway.post(&chat("m")).await.content(), "b");
    }
    gateway
}

#[test]
fn five_failures_in_a_row_open_it_visibly() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = broken(&a, &b).await;
        let shown = target(&gateway, "a", "m");
        assert_eq!(
            (&shown["breaker"], &shown["calls"], &shown["failed"]),
            (&json!("open"), &json!(0), &json!(0)),
            "{shown}"
        );
        assert!(
            shown["opens_in_ms"]
                .as_u64()
                .is_some_and(|ms| ms > 0 && ms <= 6000),
            "{shown}"
        );
        let failure = &shown["last_failure"];
        assert_eq!(
            (&failure["outcome"], &failure["status"]),
            (&json!("status"), &json!(500)),
            "{shown}"
        );
        let fine = target(&gateway, "b", "m");
        assert_eq!(
            (&fine["breaker"], &fine["calls"], &fine["opens_in_ms"]),
            (&json!("closed"), &json!(5), &Value::Null),
            "{fine}"
        );
        let metrics = gateway.metrics();
        let state = |account, model, state| {
            metrics.sum(
                "portcullis_target_state",
                &[("account", account), ("model", model), ("state", state)],
            )
        };
        assert_eq!(
            [
                state("a", "m", "ok"),
                state("a", "m", "open"),
                state("a", "m", "half_open")
            ],
            [0.0, 1.0, 0.0]
        );
        assert_eq!([state("b", "m", "ok"), state("b", "m", "open")], [1.0, 0.0]);
        assert_eq!(
            state("a", "other", "ok"),
            1.0,
            "another model of the account is another matter"
        );
        // Nobody asks it.
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(a.count(), 5);
        gateway
            .logged(" s: its breaker opened after HTTP 500")
            .await;
        assert_eq!(trail(&gateway.access_lines(6).await[5]), "b:ok");
        assert_eq!(gateway.post(&chat("other")).await.status, 502);
        assert_eq!(a.count(), 6);
    });
}

#[test]
fn an_answer_between_failures_keeps_it_closed() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for n in 0..9 {
            a.push(if n % 5 == 4 {
                Script::answer("a")
            } else {
                Script::error(500, "out of order")
            });
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        let shown = target(&gateway, "a", "m");
        assert_eq!(
            (&shown["breaker"], &shown["calls"], &shown["failed"]),
            (&json!("closed"), &json!(9), &json!(8)),
            "{shown}"
        );
        gateway.access_lines(9).await;
    });
}

#[test]
fn half_of_twenty_calls_open_it_too() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = Gateway::start(Catalog::chain(&[&a, &b])).await;
        for n in 0..20 {
            assert_eq!(target(&gateway, "a", "m")["breaker"], "closed", "after {n}");
            a.push(if n % 2 == 0 {
                Script::answer("a")
            } else {
                Script::error(500, "out of order")
            });
            assert_eq!(gateway.post(&chat("m")).await.status, 200);
        }
        assert_eq!(target(&gateway, "a", "m")["breaker"], "open");
        gateway.access_lines(20).await;
    });
}

#[test]
fn after_the_cool_down_one_answer_closes_it() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = broken(&a, &b).await;
        a.always(Script::new().wait(&gate).then_answer("a"));
        gateway.advance(COOL_DOWN).await;
        breaker(&gateway, "a", "m", "half_open").await;
        assert_eq!(
            gateway.metrics().sum(
                "portcullis_target_state",
                &[("account", "a"), ("model", "m"), ("state", "half_open")]
            ),
            1.0
        );
        let body = chat("m");
        let answers = join_all((0..8).map(|_| async {
            let answer = gateway.post(&body).await.content();
            // Whoever is answered elsewhere shows that the probe is still alone.
            if answer == "b" && b.count() == 5 + 7 {
                gate.open();
            }
            answer
        }))
        .await;
        assert_eq!(
            answers.iter().filter(|answer| *answer == "a").count(),
            1,
            "{answers:?}"
        );
        assert_eq!(a.count(), 5 + 1);
        breaker(&gateway, "a", "m", "closed").await;
        assert_eq!(gateway.post(&body).await.content(), "a");
        gateway
            .logged("account a works again for m: its breaker closed")
            .await;
        gateway.access_lines(5 + 8 + 1).await;
    });
}

#[test]
fn a_failed_probe_opens_it_for_longer_unseen() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = broken(&a, &b).await;
        gateway.advance(COOL_DOWN).await;
        breaker(&gateway, "a", "m", "half_open").await;
        let answer = gateway.post(&chat("m")).await;
        assert_eq!(answer.content(), "b");
        assert_eq!(trail(&gateway.line_of(&answer).await), "a:status b:ok");
        let shown = target(&gateway, "a", "m");
        assert_eq!(shown["breaker"], "open");
        assert!(
            shown["opens_in_ms"]
                .as_u64()
                .is_some_and(|ms| ms > 6000 && ms <= 12_000),
            "twice as long: {shown}"
        );
        gateway.access_lines(6).await;
    });
}

#[test]
fn a_caller_who_leaves_frees_the_probe() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = broken(&a, &b).await;
        a.always(Script::silent());
        gateway.advance(COOL_DOWN).await;
        breaker(&gateway, "a", "m", "half_open").await;
        let mut caller = gateway.connect().await;
        caller.send(crate::support::client::post(&chat("m"))).await;
        a.request(5).await;
        drop(caller);
        a.left(5).await;
        gateway.idle().await;
        assert_eq!(target(&gateway, "a", "m")["breaker"], "half_open");
        a.always(Script::answer("a"));
        assert_eq!(gateway.post(&chat("m")).await.content(), "a");
        assert_eq!(target(&gateway, "a", "m")["breaker"], "closed");
        gateway.access_lines(7).await;
    });
}

#[test]
fn it_survives_a_reload_but_not_a_new_credential() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = broken(&a, &b).await;
        gateway
            .swap(
                Catalog::chain(&[&a, &b])
                    .model("other", &["a"])
                    .model("more", &["b"]),
            )
            .await;
        assert_eq!(target(&gateway, "a", "m")["breaker"], "open");
        assert_eq!(gateway.post(&chat("m")).await.content(), "b");
        assert_eq!(a.count(), 5);
        // Whoever gives an account another key need not wait.
        let mended = Catalog::new()
            .account_with("a", &a, "key: another-key-of-the-account")
            .account("b", &b);
        gateway
            .swap(
                mended
                    .model("m", &["a", "b"])
                    .model("other", &["a"])
                    .model("more", &["b"]),
            )
            .await;
        assert_eq!(target(&gateway, "a", "m")["breaker"], "closed");
        gateway.access_lines(6).await;
    });
}

#[test]
fn operators_can_reset_an_account_and_web_pages_cannot() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = broken(&a, &b).await;
        a.on(
            "other",
            Script::error(429, "slow down").with("retry-after", "50"),
        );
        gateway
            .post(&chat("other"))
            .await
            .is_error(429, "upstream_rate_limited");
        for (method, path, more, wanted) in [
            ("GET", "/accounts/a/reset", "", 405),
            ("HEAD", "/accounts/a/reset", "", 405),
            ("POST", "/accounts/nobody/reset", "", 404),
            ("POST", "/accounts//reset", "", 404),
            ("POST", "/accounts/a", "", 404),
            ("POST", "/status", "", 405),
            (
                "POST",
                "/accounts/a/reset",
                "origin: https://evil.test\r\n",
                403,
            ),
            ("POST", "/accounts/a/reset", "origin: null\r\n", 403),
        ] {
            let (status, answer) = admin(&gateway, method, path, more);
            assert_eq!(status, wanted, "{method} {path} {more}: {answer}");
            assert_eq!(
                answer.to_ascii_lowercase().contains("allow: "),
                wanted == 405,
                "{answer}"
            );
        }
        assert_eq!(
            (
                &target(&gateway, "a", "m")["breaker"],
                &account(&gateway, "a")["state"]
            ),
            (&json!("open"), &json!("out"))
        );
        let (status, answer) = admin(&gateway, "POST", "/accounts/a/reset", "");
        assert_eq!(status, 204, "{answer}");
        assert_eq!(
            (
                &target(&gateway, "a", "m")["breaker"],
                &account(&gateway, "a")["state"]
            ),
            (&json!("closed"), &json!("ok"))
        );
        a.always(Script::answer("a"))
            .on("other", Script::answer("a"));
        assert_eq!(gateway.post(&chat("m")).await.content(), "a");
        assert_eq!(gateway.post(&chat("other")).await.content(), "a");
        gateway.access_lines(8).await;
    });
}

#[test]
fn faults_that_are_not_the_targets_never_count() {
    run(async {
        let a = Mock::start().await;
        let coded = |code: &str| json!({"error": {"message": "no", "type": "invalid_request_error", "param": null, "code": code}});
        let faults = [
            Script::error(400, "no"),
            Script::error(413, "no"),
            Script::error(422, "no"),
            Script::json(400, &coded("context_length_exceeded")),
            Script::json(400, &coded("content_filter")),
            Script::json(200, &coded("context_length_exceeded")),
            Script::json(200, &coded("content_filter")),
            Script::json(200, &coded("content_policy_violation")),
        ];
        let gateway = Gateway::over(&a).await;
        for fault in &faults {
            for body in [chat("m"), chat_stream("m")] {
                a.push(fault.clone());
                let answer = gateway.post(&body).await;
                assert!((400..500).contains(&answer.status), "{}", answer.text());
            }
        }
        for code in [
            "context_length_exceeded",
            "content_filter",
            "content_policy_violation",
        ] {
            a.push(Script::sse().event(coded(code)).done());
            let answer = gateway.post(&chat_stream("m")).await;
            answer.is_error(400, code);
        }
        let shown = target(&gateway, "a", "m");
        assert_eq!(
            (&shown["breaker"], &shown["calls"], &shown["rest"]),
            (&json!("closed"), &json!(0), &Value::Null),
            "{shown}"
        );
        assert_eq!(a.count(), 2 * faults.len() + 3);
        gateway.access_lines(2 * faults.len() + 3).await;
    });
}

/// Where all are out, the first to be back is found within a second or so, and a crowd is no crowd
/// for it.
#[test]
fn the_only_target_is_asked_once_a_second() {
    run(async {
        let a = Mock::start().await;
        a.always(Script::error(500, "out of order"));
        let gateway = Gateway::over(&a).await;
        gateway.hold_clock();
        for _ in 0..5 {
            gateway
                .post(&chat("m"))
                .await
                .is_error(502, "bad_upstream_response");
        }
        for second in 1..=3 {
            for _ in 0..2 {
                let refused = gateway.post(&chat("m")).await;
                refused.is_error(503, "no_capacity");
                assert!(
                    (1..=2).contains(&super::retry_after(&refused)),
                    "{:?}",
                    refused.fields
                );
            }
            gateway.advance(Duration::from_secs(1)).await;
            assert_eq!(gateway.post(&chat("m")).await.status, 502);
            assert_eq!(a.count(), 5 + second, "nobody else asks it");
        }
        a.always(Script::answer("a"));
        gateway.advance(Duration::from_secs(1)).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        eventually("it is closed", || {
            (target(&gateway, "a", "m")["breaker"] == "closed").then_some(())
        })
        .await;
        gateway.access_lines(5 + 3 * 3 + 1).await;
    });
}

#[test]
fn where_the_catalog_says_so_portcullis_itself_finds_out() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account_with("a", &a, "probe: true")
            .account("b", &b)
            .model("m", &["a=up-m", "b"]);
        let gateway = Gateway::start(catalog).await;
        gateway.hold_clock();
        a.always(Script::error(500, "out of order"));
        b.always(Script::answer("b"));
        for _ in 0..5 {
            assert_eq!(gateway.post(&chat("m")).await.content(), "b");
        }
        breaker(&gateway, "a", "up-m", "open").await;
        // Until its probe has found it back no caller's request goes there.
        let gate = Gate::new();
        a.always(Script::new().wait(&gate).then_answer("pong"));
        gateway.advance(COOL_DOWN).await;
        let probe = a.request(5).await;
        assert_eq!(
            (probe.model(), &probe.json()["max_tokens"]),
            ("up-m".to_owned(), &json!(1))
        );
        assert_eq!(gateway.post(&chat("m")).await.content(), "b");
        gate.open();
        breaker(&gateway, "a", "up-m", "closed").await;
        gateway
            .logged("account a works again for up-m, as its probe found")
            .await;
        assert_eq!(a.count(), 6, "five requests and the probe");
        assert_eq!(gateway.post(&chat("m")).await.content(), "pong");
        assert_eq!(
            gateway.access_lines(7).await.len(),
            7,
            "a probe leaves no line"
        );
    });
}
