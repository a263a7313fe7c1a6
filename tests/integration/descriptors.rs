//! The gateway's own lack of file descriptors. It is told as what it is, and never as the fault of
//! a provider: not to callers, not to operators, and not to breakers.

use std::sync::Arc;

use crate::support::client::Response;
use crate::support::gateway::Setup;
use crate::support::{Catalog, Gate, Gateway, H2, Mock, Script, chat, eventually, run, spawn};

/// Few files, so that the test can use them all up with little.
const FEW: u32 = 224;
/// The streams that a caller may have on one connection of HTTP/2.
const STREAMS: usize = 100;

/// Returns a setup in which requests at model `m` hold a connection each until the gate opens.
/// Their caller needs few descriptors, since it speaks HTTP/2.
fn crowded(one: &Mock, two: &Mock, gate: &Gate) -> Setup {
    let held = gate.clone();
    one.by(move |_| Script::new().wait(&held).then_answer("late"));
    Gateway::with(Catalog::chain(&[one, two])).also_listen("h2c: true")
}

/// Asks with many streams at once. Returns their answers when the gate is open.
async fn crowd(
    gateway: &Gateway,
    connections: usize,
) -> tokio::sync::mpsc::UnboundedReceiver<Response> {
    let (send, answers) = tokio::sync::mpsc::unbounded_channel();
    // All are connected first: once the requests hold all descriptors, no further caller is let in.
    let mut callers: Vec<Arc<H2>> = Vec::new();
    for _ in 0..connections {
        callers.push(Arc::new(gateway.h2c(1).await));
    }
    for caller in callers {
        for _ in 0..STREAMS {
            let (caller, send) = (caller.clone(), send.clone());
            spawn(async move { send.send(caller.post(&chat("m")).await).ok() });
        }
    }
    answers
}

#[test]
fn without_descriptors_nobody_is_blamed_and_operators_still_see() {
    run(async {
        let (one, two, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = crowded(&one, &two, &gate).open_files(FEW).start().await;
        let mut answers = crowd(&gateway, 4).await;
        let refused = answers.recv().await.expect("an answer");
        let error = refused.is_error(503, "no_capacity");
        assert!(
            error["message"].as_str().unwrap().contains("gateway"),
            "{error}"
        );
        assert!(
            refused.field("retry-after").is_some(),
            "{:?}",
            refused.fields
        );
        // It ends some seconds after the last lack, so it is looked for first.
        let named = || {
            let status = gateway.status();
            let problems = status["problems"].as_array().unwrap();
            problems
                .iter()
                .find(|problem| problem["rule"] == "no_descriptors")
                .cloned()
        };
        let problem = eventually("the problem is told", named).await;
        // While it lasts, operators are served.
        for _ in 0..20 {
            assert_eq!(gateway.admin("/readyz").0, 200);
        }
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum("portcullis_target_state", &[("state", "ok")]),
            2.0,
            "no breaker is touched"
        );
        assert!(metrics.sum("portcullis_descriptors_lacking_total", &[]) >= 1.0);
        let status = gateway.status();
        let words = problem["what"].as_str().unwrap();
        assert!(
            words.contains(&FEW.to_string()) && words.contains("file"),
            "{problem:#}"
        );
        assert!(
            problem["do"]
                .as_str()
                .is_some_and(|remedy| remedy.contains("LimitNOFILE=")),
            "{problem:#}"
        );
        assert_eq!(status["descriptors"]["limit"], FEW);
        let whole: usize = 4 * STREAMS;
        eventually("each request is refused or holds a connection", || {
            let held = gateway.status()["exchanges"].as_u64()? as usize;
            (gateway.lines().len() + held == whole).then_some(())
        })
        .await;
        gate.open();
        let (mut served, mut turned_away) = (0, 1);
        for _ in 1..whole {
            let answer = answers.recv().await.expect("an answer");
            if answer.status == 200 {
                served += 1;
            } else {
                answer.is_error(503, "no_capacity");
                turned_away += 1;
            }
        }
        assert!(
            served >= 100 && turned_away >= 100,
            "{served} served, {turned_away} turned away"
        );
        assert_eq!(two.count(), 0, "no further account is tried");
        let lines = gateway.access_lines(whole).await;
        let lacking = lines
            .iter()
            .filter(|line| line["attempts"][0]["outcome"] == "no_descriptors");
        assert_eq!(lacking.count(), turned_away);
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let has_ended = || {
            let status = gateway.status();
            (!status["problems"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["rule"] == "no_descriptors"))
            .then_some(())
        };
        eventually("the problem ends", has_ended).await;
        gateway.logged("file descriptors are free again").await;
        let log = gateway.log();
        assert_eq!(
            log.matches("no file descriptor is free").count(),
            1,
            "one line a state: {log}"
        );
        assert!(!log.contains("Too many open files"), "{log}");
    });
}

/// The soft limit is a default for programs that cannot cope with more.
#[test]
fn the_soft_limit_is_raised_to_the_hard_one() {
    run(async {
        let (one, two, gate) = (Mock::start().await, Mock::start().await, Gate::new());
        let gateway = crowded(&one, &two, &gate)
            .soft_open_files(FEW)
            .start()
            .await;
        let limit = gateway.metrics().sum("process_max_fds", &[]);
        assert!(limit > f64::from(FEW) + 400.0, "{limit}");
        assert_eq!(
            gateway.status()["descriptors"]["limit"].as_f64(),
            Some(limit)
        );
        let mut answers = crowd(&gateway, 4).await;
        eventually("all are asked", || {
            (one.count() == 4 * STREAMS).then_some(())
        })
        .await;
        gate.open();
        for _ in 0..4 * STREAMS {
            assert_eq!(answers.recv().await.expect("an answer").status, 200);
        }
        assert!(
            !gateway.log().contains("file descriptor"),
            "{}",
            gateway.log()
        );
    });
}

#[test]
fn few_descriptors_bound_the_connections_of_callers() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .open_files(300)
            .start()
            .await;
        // 300 files, less 64 for the gateway itself and 40 for uploads, in pairs.
        let most = 98;
        gateway
            .logged("callers can have 98 connections at once")
            .await;
        let descriptors = &gateway.status()["descriptors"];
        assert_eq!(
            (&descriptors["limit"], &descriptors["connections"]),
            (&300.into(), &most.into()),
            "{descriptors}"
        );
        let mut held = Vec::new();
        for _ in 0..most {
            let mut connection = gateway.connect().await;
            connection
                .send(crate::support::client::post(&chat("m")))
                .await;
            assert_eq!(connection.response().await.status, 200);
            held.push(connection);
        }
        let mut one_more = gateway.connect().await;
        assert!(one_more.closed().await, "it is closed at once");
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_connections_refused_total", &[]),
            1.0
        );
        assert_eq!(gateway.admin("/readyz").0, 200);
    });
}
