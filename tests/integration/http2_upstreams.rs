//! Connections to upstreams that speak HTTP/2: their number, the requests that share them, and the
//! time at which they are closed.

use std::time::{Duration, Instant};

use crate::support::canary::KEY;
use crate::support::clock::CONNECTIONS;
use crate::support::script;
use crate::support::tls::Ca;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, join_all, run,
};

const TRUST: &str = "tls: { ca: ca.pem }";

/// A stream that is held in its middle.
fn held(gate: &Gate) -> Script {
    Script::sse()
        .words(0..1)
        .wait(gate)
        .words(1..2)
        .event(script::finish("stop"))
        .done()
}

#[test]
fn an_unknown_keys_http2_connection_ends_with_its_request() {
    run(async {
        let ca = Ca::new();
        let (mock, other) = (Mock::h2(&ca.leaf()).await, Mock::h2(&ca.leaf()).await);
        let with_key = |key: &str| {
            let catalog = Catalog::new()
                .account_with(
                    "a",
                    &mock,
                    &format!("key: \"sk-CaNaRy-account-{key}\", {TRUST}"),
                )
                .model("m", &["a"]);
            if key == "one" {
                catalog.account_with("b", &other, TRUST).model("n", &["b"])
            } else {
                catalog
            }
        };
        let gateway = Gateway::with(with_key("one"))
            .file("ca.pem", ca.pem())
            .start()
            .await;
        gateway.post(&chat("n")).await;
        let gate = Gate::new();
        mock.push(held(&gate));
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        connection.piece(&mut head).await;

        gateway.swap(with_key("two")).await;
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        assert_eq!(
            (mock.connections(), mock.requests()[1].connection),
            (2, 1),
            "a new key is never sent on an old connection"
        );
        eventually(
            "the connection of the account that is gone is closed",
            || (other.open() == 0).then_some(()),
        )
        .await;
        // When the idle ones have been looked at, the one that is in use is still there.
        gateway.round(CONNECTIONS).await;
        assert_eq!(mock.open(), 2);
        gate.open();
        while connection.piece(&mut head).await.is_some() {}
        assert_eq!(head.content(), "w0 w1 ");
        eventually("the connection of the old key is closed", || {
            (mock.open() == 1).then_some(())
        })
        .await;

        // An idle one goes as well, and the other stays.
        gateway.swap(with_key("three")).await;
        eventually("the idle connection of the old key is closed", || {
            (mock.open() == 0).then_some(())
        })
        .await;
        gateway.access_lines(3).await;
    });
}

#[test]
fn requests_at_once_share_one_http2_connection() {
    run(async {
        const AT_ONCE: usize = 40;
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new()
            .account_with("a", &mock, TRUST)
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        let burst = async || {
            let gate = Gate::new();
            mock.always(held(&gate));
            let before = mock.count();
            let body = chat_stream("m");
            let all = join_all((0..AT_ONCE).map(|_| gateway.post(&body)));
            let open = async {
                mock.request(before + AT_ONCE - 1).await;
                gate.open();
            };
            let (answers, ()) = tokio::join!(all, open);
            for answer in answers {
                assert_eq!(answer.content(), "w0 w1 ", "{}", answer.text());
            }
        };
        // While there is none yet, each has to open one; what is not needed is not kept.
        burst().await;
        eventually("one is left", || (mock.open() == 1).then_some(())).await;
        let before = mock.connections();
        for _ in 0..5 {
            burst().await;
        }
        assert_eq!(
            mock.connections(),
            before,
            "all found room on the one that was there"
        );
        gateway.access_lines(6 * AT_ONCE).await;
    });
}

#[test]
fn where_a_request_waited_in_vain_none_follows() {
    run(async {
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new()
            .account_with(
                "a",
                &mock,
                &format!("timeouts: {{ first_byte: 4s }}, {TRUST}"),
            )
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        gateway.post(&chat("m")).await;
        // As one behind a router that has forgotten the connection.
        mock.push(Script::silent());
        let gate = Gate::new();
        mock.push(held(&gate));
        let body = chat_stream("m");
        let meanwhile = async {
            mock.request(1).await;
            let (mut connection, mut head) = gateway.open(&body).await;
            connection.piece(&mut head).await;
            (connection, head)
        };
        let (in_vain, (mut connection, mut head)) = tokio::join!(gateway.post(&body), meanwhile);
        assert_eq!(in_vain.status, 504);
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        let connections: Vec<usize> = mock
            .requests()
            .iter()
            .map(|request| request.connection)
            .collect();
        assert_eq!(
            connections,
            [0, 0, 0, 1],
            "who came before that is still on the first"
        );
        gate.open();
        while connection.piece(&mut head).await.is_some() {}
        assert_eq!(head.content(), "w0 w1 ");
        eventually("the first is closed, since nobody is on it", || {
            (mock.open() == 1).then_some(())
        })
        .await;
    });
}

#[test]
fn a_request_refused_unread_is_sent_again_unbilled() {
    run(async {
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new()
            .account_with("a", &mock, TRUST)
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .file("ca.pem", ca.pem())
            .start()
            .await;
        // On a new connection; later than a connection that was closed while it was idle would say
        // so.
        mock.push(Script::new().delay(Duration::from_millis(700)).refuse());
        assert_eq!(gateway.post(&chat("m")).await.status, 200);
        mock.push(Script::new().refuse());
        mock.push(Script::new().refuse());
        let answer = gateway.post(&chat("m")).await;
        assert_eq!((answer.status, mock.count()), (503, 4), "{}", answer.text());
        let line = gateway.lines_after(&answer).await.pop().expect("its line");
        assert!(
            line["maybe_billed"] != true && line["prompt_tokens"].as_u64().unwrap_or(0) == 0,
            "{line:#?}"
        );
    });
}

#[test]
fn callers_who_stop_reading_hold_up_nobody_else() {
    // One less than a connection takes.
    stuck(99, 8_000);
}

/// Of frames that wait, small ones are dear to h2: it ends a connection that has too many of them.
#[test]
fn small_frames_for_stuck_readers_cut_nobody_off() {
    stuck(20, 60);
}

/// Some callers read nothing of streams that come in frames of so many bytes.
fn stuck(callers: usize, frame: usize) {
    run(async {
        let ca = Ca::new();
        let mock = Mock::h2(&ca.leaf()).await;
        let catalog = Catalog::new()
            .account_with("a", &mock, TRUST)
            .model("m", &["a"]);
        let gateway = Gateway::with(catalog)
            .listen("h2c: true")
            // A slow machine takes long until all of them are stuck. None is cut before.
            .server("timeouts: { client_write: 10m }")
            .file("ca.pem", ca.pem())
            .start()
            .await;
        // So that there is one connection.
        gateway.post(&chat("m")).await;
        // More than a stream's window on the way up, and a caller's own on the way down.
        let event = format!("data: {}\n\n", script::delta(&"x".repeat(7_800)));
        let long = Script::sse().slices(event.repeat(60), frame, Duration::ZERO);
        mock.always(long.event(script::finish("stop")).done());
        let h2 = gateway.h2c(0).await;
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let body = chat_stream("m").to_string();
        // Their connection has room for less than one of these answers.
        let stuck = join_all(
            (0..callers).map(|_| h2.open("POST", "/v1/chat/completions", &fields, body.as_bytes())),
        )
        .await;
        assert!(
            stuck
                .iter()
                .all(|answer| answer.as_ref().is_ok_and(|(head, _)| head.status == 200))
        );
        gateway.is_quiet_with(callers).await;
        mock.always(Script::answer("here"));
        let began = Instant::now();
        assert_eq!(gateway.post(&chat("m")).await.content(), "here");
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        assert_eq!(mock.connections(), 1);
        let cut = gateway
            .lines()
            .into_iter()
            .find(|line| line["outcome"] == "upstream_cut");
        assert!(cut.is_none(), "{cut:?}");
        drop(stuck);
        gateway.access_lines(callers + 2).await;
    });
}
