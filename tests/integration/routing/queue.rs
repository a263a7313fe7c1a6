//! Who waits for a place, and who is turned away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{account, join_all, model, retry_after, say};
use crate::failover::trail;
use crate::support::client::{Response, post};
use crate::support::{
    Catalog, Gate, Gateway, Mock, Script, chat, eventually, is_about, run, spawn,
};

/// Model `m` on an account with one place.
async fn narrow(mock: &Mock, queue: &str) -> Gateway {
    let catalog = Catalog::new().account_with("a", mock, "concurrency: 1");
    Gateway::start(catalog.model_with("m", &["a"], &format!("queue: {queue}"))).await
}

/// Waits until so many wait.
async fn waiting(gateway: &Gateway, wanted: usize) {
    eventually(&format!("{wanted} wait"), || {
        (model(gateway, "m")["waiting"] == wanted).then_some(())
    })
    .await;
}

/// Whoever waited for seconds has worked for next to none of them: the gateway has used little of a
/// processor meanwhile.
fn idled(gateway: &Gateway, before: Duration, lines: &[Value]) {
    let queued = lines
        .iter()
        .filter_map(|line| line["queued_ms"].as_u64())
        .max()
        .unwrap_or_default();
    let worked = gateway.process.cpu() - before;
    assert!(
        worked < Duration::from_millis(queued / 2),
        "{worked:?} of work in {queued} ms"
    );
}

#[test]
fn who_comes_first_is_served_first() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = narrow(&mock, "{}").await;
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let mut callers = Vec::new();
        for n in 0..6 {
            let mut caller = gateway.connect().await;
            caller.send(post(&say("m", &format!("request {n}")))).await;
            if n == 0 {
                mock.request(0).await;
            }
            waiting(&gateway, n).await;
            callers.push(caller);
        }
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_waiting", &[("model", "m")]),
            5.0
        );
        assert_eq!(mock.count(), 1);
        gate.open();
        let mut answers: Vec<Response> = Vec::new();
        for mut caller in callers {
            answers.push(caller.response().await);
        }
        assert!(answers.iter().all(|answer| answer.status == 200));
        let order: Vec<_> = mock
            .requests()
            .iter()
            .map(|request| request.json()["messages"][0]["content"].clone())
            .collect();
        assert_eq!(
            order,
            (0..6)
                .map(|n| json!(format!("request {n}")))
                .collect::<Vec<_>>()
        );
        waiting(&gateway, 0).await;
        for (n, answer) in answers.iter().enumerate() {
            let line = gateway.line_of(answer).await;
            assert_eq!(line["queued_ms"].is_null(), n == 0, "{line}");
        }
    });
}

#[test]
fn the_queue_and_its_wait_have_an_end() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = narrow(&mock, "{ length: 2, wait: 4s }").await;
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let body = chat("m");
        let (held, waited, _) = tokio::join!(
            gateway.post(&body),
            async {
                mock.request(0).await;
                let waited = join_all((0..2).map(|_| gateway.post(&body))).await;
                gate.open();
                waited
            },
            async {
                waiting(&gateway, 2).await;
                let shed = gateway.post(&body).await;
                let error = shed.is_error(503, "no_capacity");
                assert!(
                    error["message"]
                        .as_str()
                        .unwrap()
                        .contains("and the queue is full"),
                    "{error}"
                );
                // One was admitted in some seconds, and two are in front.
                assert!(
                    (2..=60).contains(&retry_after(&shed)),
                    "{}",
                    retry_after(&shed)
                );
                gateway.line_of(&shed).await;
                assert_eq!(
                    gateway
                        .metrics()
                        .sum("portcullis_shed_total", &[("model", "m")]),
                    1.0
                );
            }
        );
        for answer in &waited {
            let error = answer.is_error(503, "no_capacity");
            assert!(
                error["message"]
                    .as_str()
                    .unwrap()
                    .contains("became free while the request waited"),
                "{error}"
            );
            assert!((1..=60).contains(&retry_after(answer)));
            let line = gateway.line_of(answer).await;
            assert!(
                is_about(
                    Duration::from_millis(line["queued_ms"].as_u64().unwrap()),
                    Duration::from_secs(4)
                ),
                "{line}"
            );
            assert_eq!(
                (trail(&line).as_str(), &line["outcome"]),
                ("", &json!("no_capacity"))
            );
        }
        assert_eq!((held.status, mock.count()), (200, 1));
        gateway.access_lines(4).await;
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_shed_total", &[("model", "m")]),
            1.0,
            "who gave up was not shed"
        );
    });
}

#[test]
fn a_caller_who_leaves_leaves_the_queue() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = narrow(&mock, "{ length: 2, wait: 30s }").await;
        mock.push(Script::new().wait(&gate).then_answer("first"))
            .always(Script::answer("later"));
        let mut callers = Vec::new();
        for n in 0..3 {
            let mut caller = gateway.connect().await;
            caller.send(post(&say("m", &n.to_string()))).await;
            if n == 0 {
                mock.request(0).await;
            }
            waiting(&gateway, n).await;
            callers.push(caller);
        }
        // The head leaves; who is behind it moves up, and there is room for one more.
        let leaver = callers.remove(1);
        drop(leaver);
        waiting(&gateway, 1).await;
        let left = eventually("the leaver's line", || {
            gateway
                .lines()
                .into_iter()
                .find(|line| line["status"] == 499)
        })
        .await;
        assert_eq!(
            (trail(&left).as_str(), &left["outcome"]),
            ("", &json!("client_left")),
            "{left}"
        );
        let mut caller = gateway.connect().await;
        caller.send(post(&say("m", "3"))).await;
        waiting(&gateway, 2).await;
        callers.push(caller);
        gate.open();
        for mut caller in callers {
            assert_eq!(caller.response().await.status, 200);
        }
        let order: Vec<_> = mock
            .requests()
            .iter()
            .map(|request| request.json()["messages"][0]["content"].clone())
            .collect();
        assert_eq!(order, ["0", "2", "3"]);
        gateway.access_lines(4).await;
    });
}

#[test]
fn who_leaves_the_queue_has_its_wait_logged() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = narrow(&mock, "{ wait: 30s }").await;
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let body = chat("m");
        let (held, _) = tokio::join!(gateway.post(&body), async {
            mock.request(0).await;
            let mut leaver = gateway.connect().await;
            leaver.send(post(&body)).await;
            waiting(&gateway, 1).await;
            drop(leaver);
            waiting(&gateway, 0).await;
            gate.open();
        });
        assert_eq!(held.status, 200);
        let left = gateway
            .access_lines(2)
            .await
            .into_iter()
            .find(|line| line["status"] == 499)
            .unwrap();
        assert!(left["queued_ms"].is_u64(), "{left}");
    });
}

/// And nobody spins meanwhile.
#[test]
fn the_end_of_a_rest_is_waited_for_too() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new().account("a", &mock).account("b", &mock);
        let catalog = catalog
            .model_with("m", &["a"], "queue: { wait: 20s }")
            .model("n", &["a=m"]);
        let gateway =
            Gateway::start(catalog.model_with("two", &["a=m", "b=m"], "queue: { wait: 20s }"))
                .await;
        mock.push(Script::error(429, "slow down").with("retry-after", "5"));
        let began = Instant::now();
        gateway
            .post(&chat("n"))
            .await
            .is_error(429, "upstream_rate_limited");
        let before = gateway.process.cpu();
        let body = chat("m");
        let (answers, _) = tokio::join!(
            join_all((0..3).map(|_| gateway.post(&body))),
            waiting(&gateway, 3)
        );
        assert!(answers.iter().all(|answer| answer.status == 200));
        assert!(
            is_about(began.elapsed(), Duration::from_secs(5)),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(mock.count(), 4);
        idled(&gateway, before, &gateway.access_lines(4).await);
    });
}

#[test]
fn callers_who_leave_during_a_rest_leave_the_queue() {
    run(async {
        let mock = Mock::start().await;
        let catalog =
            Catalog::new()
                .account("a", &mock)
                .model_with("m", &["a"], "queue: { wait: 20s }");
        let gateway = Gateway::start(catalog.model("n", &["a=m"])).await;
        mock.push(Script::error(429, "slow down").with("retry-after", "30"));
        gateway
            .post(&chat("n"))
            .await
            .is_error(429, "upstream_rate_limited");
        let mut caller = gateway.connect().await;
        caller.send(post(&chat("m"))).await;
        waiting(&gateway, 1).await;
        drop(caller);
        waiting(&gateway, 0).await;
        assert_eq!(
            (mock.count(), &account(&gateway, "a")["in_flight"]),
            (1, &json!(0))
        );
        gateway.access_lines(2).await;
    });
}

#[test]
fn a_reset_lets_those_who_wait_go() {
    run(async {
        let mock = Mock::start().await;
        let catalog =
            Catalog::new()
                .account("a", &mock)
                .model_with("m", &["a"], "queue: { wait: 30s }");
        let gateway = Gateway::start(catalog.model("n", &["a=m"])).await;
        mock.push(Script::error(429, "slow down").with("retry-after", "60"));
        gateway
            .post(&chat("n"))
            .await
            .is_error(429, "upstream_rate_limited");
        let body = chat("m");
        let (answer, _) = tokio::join!(gateway.post(&body), async {
            waiting(&gateway, 1).await;
            gateway.reset("a");
        });
        assert_eq!(answer.status, 200);
        gateway.access_lines(2).await;
    });
}

#[test]
fn who_failed_at_one_account_waits_for_the_other() {
    run(async {
        let (a, b, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let catalog = Catalog::new()
            .account("a", &a)
            .account_with("b", &b, "concurrency: 1");
        let gateway = Gateway::start(catalog.model("alone", &["b=m"]).model_with(
            "m",
            &["a", "b"],
            "queue: { wait: 30s }",
        ))
        .await;
        a.push(Script::error(500, "out of order"));
        b.push(Script::new().wait(&gate).then_answer("first"))
            .always(Script::answer("b"));
        let (alone, body) = (chat("alone"), chat("m"));
        let (held, answer, _) = tokio::join!(
            gateway.post(&alone),
            async {
                b.request(0).await;
                gateway.post(&body).await
            },
            async {
                waiting(&gateway, 1).await;
                gate.open();
            }
        );
        assert_eq!(
            (held.content().as_str(), answer.content().as_str()),
            ("first", "b")
        );
        let line = gateway.line_of(&answer).await;
        assert_eq!(
            (trail(&line).as_str(), line["queued_ms"].is_u64()),
            ("a:status b:ok", true),
            "{line}"
        );
        gateway.access_lines(2).await;
    });
}

/// The first finds out, and the others follow.
#[test]
fn an_account_that_is_out_is_waited_for_too() {
    run(async {
        let mock = Mock::start().await;
        mock.always(Script::error(500, "out of order"));
        let gateway = Gateway::start(Catalog::new().account("a", &mock).model_with(
            "m",
            &["a"],
            "queue: { wait: 30s }",
        ))
        .await;
        for _ in 0..5 {
            gateway
                .post(&chat("m"))
                .await
                .is_error(502, "bad_upstream_response");
        }
        mock.always(Script::answer("a"));
        let body = chat("m");
        let before = gateway.process.cpu();
        let answers = join_all((0..6).map(|_| gateway.post(&body))).await;
        assert!(answers.iter().all(|answer| answer.content() == "a"));
        assert_eq!(mock.count(), 5 + 6);
        idled(&gateway, before, &gateway.access_lines(5 + 6).await);
    });
}

#[test]
fn a_requests_time_passes_in_the_queue_too() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = narrow(&mock, "{ wait: 30s }").await;
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let body = chat("m");
        let (held, _) = tokio::join!(gateway.post(&body), async {
            mock.request(0).await;
            let began = Instant::now();
            let hasty = gateway
                .raw(super::post_with(
                    &body,
                    &[("x-portcullis-timeout", "500ms")],
                ))
                .await;
            hasty.is_error(503, "no_capacity");
            assert!(
                is_about(began.elapsed(), Duration::from_millis(500)),
                "{:?}",
                began.elapsed()
            );
            gate.open();
        });
        assert_eq!((held.status, mock.count()), (200, 1));
        gateway.access_lines(2).await;
    });
}

#[test]
fn waiting_in_vain_for_a_rate_limit_says_so() {
    run(async {
        let mock = Mock::start().await;
        let catalog = Catalog::new().account("a", &mock).model_with(
            "m",
            &["a"],
            "queue: { length: 1, wait: 4s }",
        );
        let gateway = Gateway::start(catalog.model("n", &["a=m"])).await;
        mock.push(Script::error(429, "slow down").with("retry-after", "55"));
        gateway
            .post(&chat("n"))
            .await
            .is_error(429, "upstream_rate_limited");
        let body = chat("m");
        let (waited, shed) = tokio::join!(gateway.post(&body), async {
            waiting(&gateway, 1).await;
            gateway.post(&body).await
        });
        for answer in [waited, shed] {
            answer.is_error(429, "no_capacity");
            assert!(
                (30..=56).contains(&retry_after(&answer)),
                "{}",
                retry_after(&answer)
            );
        }
        gateway.access_lines(3).await;
    });
}

#[test]
fn nobody_waits_without_a_queue_or_in_vain() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let catalog = Catalog::new()
            .account_with("a", &mock, "concurrency: 1")
            .account("b", &mock);
        let gateway = Gateway::start(catalog.model("m", &["a"]).model_with(
            "q",
            &["b"],
            "queue: { wait: 30s }",
        ))
        .await;
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let body = chat("m");
        let (held, _) = tokio::join!(gateway.post(&body), async {
            mock.request(0).await;
            gateway.post(&body).await.is_error(503, "no_capacity");
            // It was asked, and failed: there is nobody to wait for.
            mock.push(Script::error(500, "out of order"));
            gateway
                .post(&chat("q"))
                .await
                .is_error(502, "bad_upstream_response");
            gate.open();
        });
        assert_eq!(held.status, 200);
        gateway.access_lines(3).await;
    });
}

#[test]
fn l07_many_large_requests_are_shed_before_memory_grows() {
    run(async {
        const BIG: usize = 3 << 20;
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.always(Script::new().wait(&gate).then_answer("ok"));
        let catalog = Catalog::new()
            .account_with("a", &mock, "concurrency: 1")
            .model_with("m", &["a"], "queue: { length: 100, wait: 40s }");
        let limits = "limits: { request_body: 4MiB, response_body: 4MiB, buffered_total: 12MiB }";
        let setup = Gateway::with(catalog).server(limits);
        let gateway = setup.returns_memory_at_once().start().await;
        let body = post(&say("m", &"x".repeat(BIG)));
        let ask = async || gateway.raw(&body).await;
        let before = gateway.rss();
        let mut shed = 0;
        let answers = join_all((0..24).map(|_| async {
            let answer = ask().await;
            if answer.status == 503 {
                // As many are held as have room.
                answer.is_error(503, "no_capacity");
                assert!(retry_after(&answer) >= 1);
            }
            answer.status
        }));
        // A refusal is counted when its unread body is drained, which is after its answer.
        let opened = async {
            let counted =
                || (gateway.metrics().sum("portcullis_requests_total", &[]) >= 21.0).then_some(());
            eventually("all others are refused", counted).await;
            gate.open();
        };
        let (answers, ()) = tokio::join!(answers, opened);
        shed += answers.iter().filter(|status| **status == 503).count();
        assert!(
            answers.iter().all(|status| [200, 503].contains(status)),
            "{answers:?}"
        );
        // Bodies that are half read crowd each other out: how many have room depends on who is read
        // when, but one always has.
        assert!((18..=23).contains(&shed), "{shed} of 24 were shed");
        let after = gateway.rss();
        assert!(after < before + (60 << 20), "{before} bytes became {after}");
        assert_eq!(gateway.raw(&body).await.status, 200, "there is room again");
        gateway.access_lines(25).await;
    });
}

#[test]
fn a_queue_survives_a_reload() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let gateway = std::sync::Arc::new(narrow(&mock, "{ wait: 30s }").await);
        mock.push(Script::new().wait(&gate).then_answer("first"));
        let ask = || {
            let gateway = gateway.clone();
            spawn(async move { gateway.post(&chat("m")).await.status })
        };
        let first = ask();
        mock.request(0).await;
        let second = ask();
        waiting(&gateway, 1).await;
        let catalog = |most: &str| {
            Catalog::new().account_with("a", &mock, most).model_with(
                "m",
                &["a"],
                "queue: { length: 1, wait: 30s }",
            )
        };
        gateway.swap(catalog("concurrency: 1")).await;
        // Who came after the change waits behind who came before it, in the same line.
        assert_eq!(model(&gateway, "m")["waiting"], 1);
        gateway.post(&chat("m")).await.is_error(503, "no_capacity");
        // A place more is one for those who wait already.
        gateway.swap(catalog("concurrency: 2")).await;
        assert_eq!(second.await.unwrap(), 200);
        gate.open();
        assert_eq!(first.await.unwrap(), 200);
        gateway.access_lines(3).await;
    });
}
