//! Receivers of spans that fail: no request notices it, memory does not grow, and the log says it
//! once.

use std::time::{Duration, Instant};

use super::{end, with};
use crate::support::gateway::free_port;
use crate::support::spans::Receiver;
use crate::support::{Catalog, Gateway, Mock, Script, eventually, join_all, run_within};

const LONG: Duration = Duration::from_secs(180);

async fn ask(gateway: &Gateway, times: usize) {
    for _ in 0..times {
        assert_eq!(gateway.raw(with(&[])).await.status, 200);
    }
}

/// Waits until so many requests were answered. The last of them settle after their answers.
async fn settled(gateway: &Gateway, wanted: f64) {
    let answered = || {
        gateway
            .metrics()
            .sum("portcullis_requests_total", &[("outcome", "ok")])
    };
    eventually("all are answered", || (answered() == wanted).then_some(())).await;
}

fn dropped(gateway: &Gateway, reason: &str) -> f64 {
    gateway
        .metrics()
        .sum("portcullis_spans_dropped_total", &[("reason", reason)])
}

/// Waits until so many spans were dropped for this reason.
async fn drops(gateway: &Gateway, reason: &str, wanted: f64) {
    let are_dropped = || dropped(gateway, reason) >= wanted;
    gateway
        .when_spans_are_due(&format!("{wanted} are dropped: {reason}"), are_dropped)
        .await;
}

fn exported(gateway: &Gateway) -> f64 {
    gateway
        .metrics()
        .sum("portcullis_spans_exported_total", &[])
}

#[test]
fn a_receiver_that_fails_loses_spans_and_nothing_else() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let cases = [
            ("500", Script::error(500, "no"), "refused", "it answers 500"),
            ("503", Script::error(503, "no"), "refused", "it answers 503"),
            (
                "401",
                Script::error(401, "no"),
                "refused",
                "look at `traces.headers`",
            ),
            (
                "404",
                Script::error(404, "no"),
                "refused",
                "look at the path in `traces.endpoint`",
            ),
            (
                "nothing",
                Script::new().close(),
                "failed",
                "(it closed the connection without an answer)",
            ),
            (
                "nonsense",
                Script::new().raw("220 smtp.example.com ESMTP\r\n").close(),
                "failed",
                "(what answers there is no HTTP server)",
            ),
        ];
        join_all(cases.map(|case| fails(&mock, case))).await;
    });
}

async fn fails(mock: &Mock, (case, script, reason, why): (&str, Script, &str, &str)) {
    let receiver = Receiver::start().await;
    receiver.mock.always(script);
    let gateway = receiver
        .of(Gateway::with(Catalog::over(mock)), "")
        .start()
        .await;
    ask(&gateway, 2).await;
    drops(&gateway, reason, 4.0).await;
    let line = gateway
        .logged("spans cannot be sent to `traces.endpoint`")
        .await;
    assert!(line.contains(why), "{case}: {line}");
    receiver.mock.always(Script::text(
        200,
        "application/json",
        "{\"partialSuccess\":{}}",
    ));
    ask(&gateway, 1).await;
    gateway
        .when_spans_are_due("the others are taken", || exported(&gateway) == 2.0)
        .await;
    // What was dropped is not sent again.
    assert_eq!(dropped(&gateway, reason), 4.0, "{case}");
    let log = gateway.log();
    assert_eq!(log.matches("spans cannot be sent").count(), 1, "{case}");
    // It is over only after a minute.
    assert!(!log.contains("no more spans are lost"), "{case}: {log}");
}

#[test]
fn a_dead_receiver_costs_no_request_and_no_memory() {
    run_within(LONG, async {
        let mock = Mock::start().await;
        let traces = format!("traces: {{ endpoint: 'http://{}' }}", free_port());
        let gateway = Gateway::with(Catalog::over(&mock))
            .server(&traces)
            .returns_memory_at_once()
            .start()
            .await;
        ask(&gateway, 20).await;
        drops(&gateway, "failed", 1.0).await;
        let rss = gateway.rss();
        for _ in 0..10 {
            join_all((0..10).map(|_| ask(&gateway, 10))).await;
        }
        settled(&gateway, 1_020.0).await;
        let lost = || dropped(&gateway, "failed") + dropped(&gateway, "queue_full");
        gateway
            .when_spans_are_due("all spans are dropped", || lost() == 2_040.0)
            .await;
        // The queue holds at most some megabytes.
        let grown = gateway.rss().saturating_sub(rss);
        assert!(grown < 64 << 20, "{grown} bytes");
        let line = gateway
            .logged("spans cannot be sent to `traces.endpoint`")
            .await;
        assert!(
            line.contains("(it cannot be reached: ") && line.contains("refused"),
            "{line}"
        );
        assert_eq!(gateway.log().matches("spans cannot be sent").count(), 1);
    });
}

#[test]
fn a_queue_that_is_full_drops_and_counts() {
    run_within(LONG, async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        receiver.mock.always(Script::silent());
        let gateway = receiver
            .of(Gateway::with(Catalog::over(&mock)), "")
            .start()
            .await;
        // A batch is under way for ten seconds, and 2,048 spans wait behind it.
        let mut asked = 0.0;
        while dropped(&gateway, "queue_full") == 0.0 {
            join_all((0..10).map(|_| ask(&gateway, 20))).await;
            asked += 200.0;
        }
        settled(&gateway, asked).await;
        // The gateway ends in time all the same, which the end of each test checks.
    });
}

#[test]
fn a_receiver_that_names_a_time_gets_spans_then() {
    run_within(LONG, async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        receiver
            .mock
            .push(Script::error(503, "no").with("retry-after", "1"));
        let gateway = receiver
            .of(Gateway::with(Catalog::over(&mock)), "")
            .start()
            .await;
        ask(&gateway, 1).await;
        gateway
            .when_spans_are_due("the first try", || receiver.mock.count() > 0)
            .await;
        let first = receiver.mock.request(0).await;
        let second = receiver.mock.request(1).await;
        assert_eq!(first.body, second.body);
        assert!(second.at.duration_since(first.at) >= Duration::from_millis(900));
        let are_counted = || (exported(&gateway) == 2.0).then_some(());
        eventually("they are counted", are_counted).await;
        assert!(
            !gateway.log().contains("spans cannot be sent"),
            "it was no outage"
        );
    });
}

#[test]
fn a_receivers_answer_is_bounded_and_checked() {
    run_within(LONG, async {
        let (mock, endless) = (Mock::start().await, Receiver::start().await);
        let head = [
            ("content-type", "application/x-protobuf"),
            ("transfer-encoding", "chunked"),
        ];
        let body = Script::new()
            .head(200, &head)
            .slices(vec![0xff; 8 << 20], 64 << 10, Duration::ZERO)
            .stall();
        endless.mock.always(body);
        // A partial success: two spans are rejected.
        let partial = Receiver::start().await;
        partial.mock.always(Script::text(
            200,
            "application/x-protobuf",
            [0x0a, 0x02, 0x08, 0x02],
        ));
        let start =
            |receiver: &Receiver| receiver.of(Gateway::with(Catalog::over(&mock)), "").start();
        let gateways = [start(&endless).await, start(&partial).await];
        for gateway in &gateways {
            ask(gateway, 2).await;
        }
        gateways[0]
            .when_spans_are_due("they are taken", || exported(&gateways[0]) == 4.0)
            .await;
        gateways[1]
            .when_spans_are_due("half are taken", || exported(&gateways[1]) == 2.0)
            .await;
        assert_eq!(dropped(&gateways[1], "rejected"), 2.0);
        gateways[1]
            .logged("takes spans and rejects 2 of 4: these are dropped")
            .await;
    });
}

#[test]
fn a_silent_receiver_does_not_hold_up_the_end() {
    run_within(LONG, async {
        let (mock, receiver) = (Mock::start().await, Receiver::start().await);
        receiver.mock.always(Script::silent());
        let gateway = receiver
            .of(Gateway::with(Catalog::over(&mock)), "")
            .start()
            .await;
        ask(&gateway, 3).await;
        settled(&gateway, 3.0).await;
        let begun = Instant::now();
        let log = end(gateway);
        // Two seconds are the promise.
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{:?}",
            begun.elapsed()
        );
        assert!(receiver.mock.count() >= 1, "it was tried");
        // No outage is told: the process did not wait long enough to know of one.
        assert!(
            log.contains("6 spans were not sent before the process ended"),
            "{log}"
        );
        assert!(!log.contains("spans cannot be sent"), "{log}");
    });
}
