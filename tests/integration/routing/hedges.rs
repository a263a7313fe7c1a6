//! A second attempt beside a slow first one.

use std::time::Duration;

use serde_json::{Value, json};

use super::join_all;
use crate::failover::{trail, trail_of_leaver};
use crate::support::client::post;
use crate::support::script::{chunk, finish, usage};
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, eventually, run};

/// So many are enough to tell what is slow.
const ENOUGH: usize = 20;

/// Model `m` on `a` and `b`, where it is known how fast `a` is as a rule.
async fn warm(a: &Mock, b: &Mock, more: &str, body: fn(&str) -> Value) -> Gateway {
    let gateway = Gateway::start(Catalog::new().account("a", a).account("b", b).model_with(
        "m",
        &["a", "b"],
        more,
    ))
    .await;
    warm_up(&gateway, body).await;
    assert_eq!((a.count(), b.count()), (ENOUGH, 0));
    gateway
}

async fn warm_up(gateway: &Gateway, body: fn(&str) -> Value) {
    let mut connection = gateway.connect().await;
    for _ in 0..ENOUGH {
        connection.send(post(&body("m"))).await;
        assert_eq!(connection.response().await.status, 200);
    }
    drop(connection);
    gateway.access_lines(ENOUGH).await;
}

fn hedges(gateway: &Gateway) -> [f64; 2] {
    ["won", "lost"].map(|outcome| {
        gateway.metrics().sum(
            "portcullis_hedges_total",
            &[("model", "m"), ("outcome", outcome)],
        )
    })
}

#[test]
fn the_second_wins_and_the_first_is_left() {
    run(async {
        for body in [chat as fn(&str) -> Value, chat_stream] {
            let (a, b) = (Mock::start().await, Mock::start().await);
            let gateway = warm(&a, &b, "hedge: {}", body).await;
            let role = chunk(&json!({"role": "assistant", "content": ""}), None);
            a.always(if body("m")["stream"] == true {
                Script::sse().event(role).stall()
            } else {
                Script::silent()
            });
            b.by(|request| match request.json()["stream"] == true {
                true => Script::sse()
                    .words(0..2)
                    .event(finish("stop"))
                    .event(usage(2))
                    .done(),
                false => Script::answer("w0 w1 "),
            });
            let answer = gateway.post(&body("m")).await;
            assert_eq!(
                (answer.status, answer.content().as_str()),
                (200, "w0 w1 "),
                "{}",
                answer.text()
            );
            a.left(ENOUGH).await;
            assert_eq!((a.count(), b.count()), (ENOUGH + 1, 1));
            let line = gateway.line_of(&answer).await;
            // The faster one decides; the trail is in the order in which they ended.
            let mut attempts = line["attempts"].as_array().unwrap().clone();
            attempts.sort_by_key(|attempt| attempt["account"].to_string());
            assert_eq!(
                (&attempts[0]["outcome"], &attempts[1]["outcome"]),
                (&json!("slower"), &json!("ok")),
                "{line}"
            );
            assert_eq!(
                (&line["account"], &line["outcome"], &line["maybe_billed"]),
                (&json!("b"), &json!("ok"), &json!(true)),
                "{line}"
            );
            assert!(
                attempts[0]["prompt_tokens"]
                    .as_u64()
                    .is_some_and(|tokens| tokens > 0),
                "{line}"
            );
            assert!(attempts[1]["prompt_tokens"].is_null(), "{line}");
            let unused = gateway.metrics().sum(
                "portcullis_unused_tokens_total",
                &[("model", "m"), ("account", "a"), ("kind", "prompt")],
            );
            assert_eq!(attempts[0]["prompt_tokens"], json!(unused as u64));
            assert_eq!(hedges(&gateway), [1.0, 0.0]);
            gateway.idle().await;
            let shown = super::target(&gateway, "a", "m");
            assert_eq!(
                (&shown["failed"], &shown["awaited"]),
                (&json!(0), &json!(0)),
                "slow is not broken: {shown}"
            );
        }
    });
}

#[test]
fn the_first_may_still_win() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = warm(&a, &b, "hedge: { after: p50, at_most: 100% }", chat).await;
        a.always(Script::new().wait(&gate).then_answer("a"));
        b.always(Script::silent());
        let body = chat("m");
        let (answer, _) = tokio::join!(gateway.post(&body), async {
            b.request(0).await;
            gate.open();
        });
        assert_eq!(answer.content(), "a");
        b.left(0).await;
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (&line["account"], line["attempts"].as_array().unwrap().len()),
            (&json!("a"), 2),
            "{line}"
        );
        assert!(
            trail(&line).contains("a:ok") && trail(&line).contains("b:slower"),
            "{line}"
        );
        assert_eq!(hedges(&gateway), [0.0, 1.0]);
    });
}

#[test]
fn of_two_attempts_neither_takes_anything_from_the_other() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = warm(&a, &b, "hedge: { at_most: 100% }", chat).await;
        let b_has_failed = || {
            (gateway
                .metrics()
                .sum("portcullis_in_flight", &[("account", "b")])
                == 0.0)
                .then_some(())
        };
        a.always(Script::new().wait(&gate).then_answer("a"));
        b.push(Script::error(500, "out of order"));
        let body = chat("m");
        let (answer, _) = tokio::join!(gateway.post(&body), async {
            b.request(0).await;
            eventually("b has failed", b_has_failed).await;
            gate.open();
        });
        assert_eq!((answer.status, answer.content().as_str()), (200, "a"));
        assert_eq!(trail(&gateway.line_of(&answer).await), "b:status a:ok");
        // The other way round.
        let (fails, answers) = (Gate::new(), Gate::new());
        a.always(
            Script::new()
                .wait(&fails)
                .and(Script::error(500, "out of order")),
        );
        b.always(Script::new().wait(&answers).then_answer("b"));
        let (answer, _) = tokio::join!(gateway.post(&body), async {
            b.request(1).await;
            fails.open();
            eventually("a has failed", || {
                (gateway
                    .metrics()
                    .sum("portcullis_in_flight", &[("account", "a")])
                    == 0.0)
                    .then_some(())
            })
            .await;
            answers.open();
        });
        assert_eq!((answer.status, answer.content().as_str()), (200, "b"));
        assert_eq!(trail(&gateway.line_of(&answer).await), "a:status b:ok");
        gateway.access_lines(ENOUGH + 2).await;
    });
}

#[test]
fn no_more_than_a_share_is_asked_twice() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = warm(&a, &b, "hedge: { after: p95, at_most: 10% }", chat).await;
        // Slow for all, so that each is due long before the first is let go.
        a.always(
            Script::new()
                .delay(Duration::from_millis(400))
                .wait(&gate)
                .then_answer("a"),
        );
        b.always(Script::new().wait(&gate).then_answer("b"));
        let body = chat("m");
        let (answers, _) = tokio::join!(join_all((0..20).map(|_| gateway.post(&body))), async {
            eventually("all are asked", || {
                (a.count() == ENOUGH + 20 && b.count() > 0).then_some(())
            })
            .await;
            gate.open();
        });
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert!((1..=4).contains(&b.count()), "{} of 40", b.count());
        gateway.access_lines(ENOUGH + 20).await;
        let [won, lost] = hedges(&gateway);
        assert_eq!((won + lost) as usize, b.count());
    });
}

#[test]
fn no_second_attempt_at_one_account_or_unasked() {
    run(async {
        for (targets, more, feed) in [
            (["a=m", "a=n"], "hedge: { at_most: 100% }", ENOUGH),
            (["a=m", "b=m"], "hedge: { at_most: 100% }", ENOUGH - 1),
            (["a=m", "b=m"], "", ENOUGH),
        ] {
            let (a, b) = (Mock::start().await, Mock::start().await);
            let gateway = Gateway::start(
                Catalog::new()
                    .account("a", &a)
                    .account("b", &b)
                    .model_with("m", &targets, more),
            )
            .await;
            let mut connection = gateway.connect().await;
            for _ in 0..feed {
                connection.send(post(&chat("m"))).await;
                assert_eq!(connection.response().await.status, 200);
            }
            drop(connection);
            a.always(
                Script::new()
                    .delay(Duration::from_millis(500))
                    .then_answer("a"),
            );
            assert_eq!(gateway.post(&chat("m")).await.content(), "a");
            assert_eq!(
                (a.count(), b.count()),
                (feed + 1, 0),
                "{targets:?} {more} {feed}"
            );
            gateway.access_lines(feed + 1).await;
            assert_eq!(hedges(&gateway), [0.0, 0.0]);
        }
    });
}

#[test]
fn an_attempt_that_must_be_late_never_begins() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let catalog = Catalog::new()
            .account("a", &a)
            .account("b", &b)
            .model("slow", &["b=m"]);
        let gateway =
            Gateway::start(catalog.model_with("m", &["a", "b"], "hedge: { at_most: 100% }")).await;
        warm_up(&gateway, chat).await;
        b.always(Script::new().delay(Duration::from_secs(8)).then_answer("b"));
        gateway.post(&chat("slow")).await;
        a.always(
            Script::new()
                .delay(Duration::from_millis(400))
                .then_answer("a"),
        );
        let answer = gateway
            .raw(super::post_with(
                &chat("m"),
                &[("x-portcullis-timeout", "5s")],
            ))
            .await;
        assert_eq!((answer.content().as_str(), b.count()), ("a", 1));
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (trail(&line).as_str(), &line["not_retried"]),
            ("a:ok", &Value::Null),
            "{line}"
        );
        assert_eq!(hedges(&gateway), [0.0, 0.0]);
    });
}

#[test]
fn a_caller_who_leaves_ends_both() {
    run(async {
        let (a, b) = (Mock::start().await, Mock::start().await);
        let gateway = warm(&a, &b, "hedge: {}", chat_stream).await;
        a.always(Script::silent());
        b.always(Script::silent());
        let mut caller = gateway.connect().await;
        caller.send(post(&chat_stream("m"))).await;
        a.request(ENOUGH).await;
        b.request(0).await;
        drop(caller);
        a.left(ENOUGH).await;
        b.left(0).await;
        let line = gateway.access_lines(ENOUGH + 1).await.pop().unwrap();
        assert_eq!(
            (trail_of_leaver(&line).as_str(), &line["status"]),
            ("a:client_left b:client_left", &json!(499)),
            "{line}"
        );
        // Who left pays for one of them, as an estimate; what the other may cost is told with it.
        let unused: Vec<bool> = line["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| attempt["prompt_tokens"].is_u64())
            .collect();
        assert_eq!(
            (unused.as_slice(), &line["usage"]),
            ([false, true].as_slice(), &json!("estimated")),
            "{line}"
        );
        assert!(line["prompt_tokens"].as_u64() > Some(0), "{line}");
    });
}
