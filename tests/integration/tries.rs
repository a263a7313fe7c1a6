//! `POST /try`: a request that comes by the admin listener is a request like any other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::canary::{ADMIN_KEY, KEY};
use crate::support::client::{Connection, End, Response, request};
use crate::support::script::delta;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, run,
};

/// Sends a request with these headers.
async fn open(gateway: &Gateway, more: &[(&str, &str)], body: &Value) -> Connection {
    let host = gateway.admin.to_string();
    let fields = [
        &[
            ("host", host.as_str()),
            ("content-type", "application/json"),
        ],
        more,
    ]
    .concat();
    let mut connection = Connection::plain(gateway.admin, None).await;
    connection
        .send(request(
            "POST",
            "/try",
            &fields,
            body.to_string().as_bytes(),
        ))
        .await;
    connection
}

async fn post(gateway: &Gateway, more: &[(&str, &str)], body: &Value) -> Response {
    open(gateway, more, body).await.response().await
}

const SECRET: (&str, &str) = ("x-portcullis-key", KEY);

#[test]
fn a_try_is_a_request_like_any_other() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let answer = post(&gateway, &[SECRET], &chat("m")).await;
        assert_eq!(
            (answer.status, answer.end),
            (200, Some(End::Whole)),
            "{}",
            answer.text()
        );
        let bearer = format!("Bearer {KEY}");
        let stream = post(
            &gateway,
            &[("authorization", &bearer), ("x-request-id", "mine")],
            &chat_stream("m"),
        )
        .await;
        assert_eq!(
            (stream.status, stream.end, stream.field("x-request-id")),
            (200, Some(End::Whole), Some("mine"))
        );
        assert!(
            stream.events().last().is_some_and(|last| last == "[DONE]"),
            "{}",
            stream.text()
        );
        for response in [&answer, &stream] {
            assert_eq!(response.field("cache-control"), Some("no-store"));
            assert!(
                response.field("content-security-policy").is_some()
                    && response.field("x-request-id").is_some()
            );
        }
        let lines = gateway.access_lines(2).await;
        for line in &lines {
            assert_eq!(
                (&line["key"], &line["path"], &line["status"]),
                (
                    &json!("acme/prod"),
                    &json!("/v1/chat/completions"),
                    &json!(200)
                )
            );
            assert_eq!(line["address"], "127.0.0.1", "{line}");
        }
        assert_eq!(
            gateway
                .metrics()
                .sum("portcullis_requests_total", &[("outcome", "ok")]),
            2.0
        );
        let (_, usage) = gateway.admin("/usage?by=key");
        let usage: Value = serde_json::from_str(&usage).unwrap();
        assert_eq!(usage["total"]["requests"], 2, "{usage}");
        // What the callers' door refuses is refused here too, in its words.
        assert_eq!(
            post(&gateway, &[("x-portcullis-key", "sk-wrong")], &chat("m"))
                .await
                .status,
            401
        );
        assert_eq!(
            post(&gateway, &[SECRET], &chat("nowhere")).await.status,
            404
        );
        assert_eq!(post(&gateway, &[SECRET], &json!([])).await.status, 400);
        gateway.access_lines(5).await;
        assert_eq!(post(&gateway, &[], &chat("m")).await.status, 400);
        let evil = [
            SECRET,
            ("origin", "https://evil.example"),
            ("x-portcullis-admin", "1"),
        ];
        assert_eq!(post(&gateway, &evil, &chat("m")).await.status, 403);
        gateway.access_lines(5).await;
    });
}

#[test]
fn limits_and_addresses_count() {
    run(async {
        let mock = Mock::start().await;
        let keys = [
            (
                "near",
                "sk-CaNaRy-near-0123456789",
                "allow_ips: [127.0.0.1]",
            ),
            ("far", "sk-CaNaRy-far-0123456789", "allow_ips: [10.0.0.0/8]"),
            (
                "one",
                "sk-CaNaRy-one-0123456789",
                "limits: { requests_per_minute: 1 }",
            ),
        ];
        let gateway = Gateway::start(Catalog::over(&mock).caller_with("more", "", &keys)).await;
        let status = async |key: &str| {
            post(&gateway, &[("x-portcullis-key", key)], &chat("m"))
                .await
                .status
        };
        assert_eq!(status(keys[0].1).await, 200);
        assert_eq!(status(keys[1].1).await, 401);
        assert_eq!(status(keys[2].1).await, 200);
        let refused = post(&gateway, &[("x-portcullis-key", keys[2].1)], &chat("m")).await;
        assert_eq!(refused.status, 429);
        assert!(
            refused.field("retry-after").is_some()
                && refused.field("x-ratelimit-remaining-requests") == Some("0")
        );
    });
}

#[test]
fn with_a_listeners_key_there_are_two_secrets() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"{admin}\", key: { env: ADMIN_KEY } }")
            .env("ADMIN_KEY", ADMIN_KEY)
            .start()
            .await;
        let (own, callers) = (format!("Bearer {ADMIN_KEY}"), format!("Bearer {KEY}"));
        assert_eq!(
            post(&gateway, &[("authorization", &own), SECRET], &chat("m"))
                .await
                .status,
            200
        );
        assert_eq!(
            post(&gateway, &[("authorization", &own)], &chat("m"))
                .await
                .status,
            400
        );
        assert_eq!(
            post(&gateway, &[("authorization", &callers)], &chat("m"))
                .await
                .status,
            401
        );
        assert_eq!(post(&gateway, &[SECRET], &chat("m")).await.status, 401);
        // The listener's key goes nowhere.
        assert!(
            mock.requests()
                .iter()
                .all(|request| !format!("{:?}", request.fields).contains(ADMIN_KEY))
        );
        gateway.access_lines(1).await;
        let open = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"0.0.0.0:{admin_port}\" }")
            .start()
            .await;
        let refused = post(&open, &[SECRET], &chat("m")).await;
        assert!(
            refused.status == 403 && refused.text().contains("key: { file: "),
            "{}",
            refused.text()
        );
        let off = Gateway::with(Catalog::over(&mock))
            .server("admin: { address: \"{admin}\", page: false }")
            .start()
            .await;
        assert_eq!(post(&off, &[SECRET], &chat("m")).await.status, 404);
    });
}

#[test]
fn four_run_at_once_and_the_fifth_is_told() {
    run(async {
        let mock = Mock::start().await;
        let gate = Gate::new();
        for _ in 0..4 {
            mock.push(Script::sse().event(delta("a")).wait(&gate).done());
        }
        let gateway = Gateway::over(&mock).await;
        let mut running = Vec::new();
        for _ in 0..4 {
            let mut connection = open(&gateway, &[SECRET], &chat_stream("m")).await;
            let mut head = connection.head().await.expect("a head");
            assert!(
                connection.event(&mut head).await.is_some(),
                "it streams through"
            );
            running.push((connection, head));
        }
        let fifth = post(&gateway, &[SECRET], &chat("m")).await;
        assert!(
            fifth.status == 429 && fifth.text().contains("4 tries run already"),
            "{}",
            fifth.text()
        );
        assert_eq!(fifth.field("retry-after"), Some("1"));
        gate.open();
        for (mut connection, mut head) in running {
            connection.rest(&mut head).await;
            assert_eq!(head.end, Some(End::Whole));
        }
        let free = async || post(&gateway, &[SECRET], &chat("m")).await.status == 200;
        let start = Instant::now();
        while !free().await {
            assert!(start.elapsed() < PATIENCE);
        }
    });
}

#[test]
fn when_the_browser_leaves_the_request_ends() {
    run(async {
        let mock = Mock::start().await;
        mock.push(Script::sse().event(delta("a")).stall());
        mock.push(Script::silent());
        let gateway = Gateway::over(&mock).await;
        let mut connection = open(&gateway, &[SECRET], &chat_stream("m")).await;
        let mut head = connection.head().await.expect("a head");
        assert!(connection.event(&mut head).await.is_some());
        drop(connection);
        let line = gateway.line().await;
        assert_eq!(line["outcome"], "client_left", "{line}");
        // The same before there is a head.
        let connection = open(&gateway, &[SECRET], &chat("m")).await;
        eventually("the upstream has it", || (mock.count() == 2).then_some(())).await;
        drop(connection);
        let lines = gateway.access_lines(2).await;
        assert_eq!(lines[1]["outcome"], "client_left", "{}", lines[1]);
    });
}

#[test]
fn a_long_stream_is_not_cut() {
    run(async {
        let mock = Mock::start().await;
        let mut script = Script::sse().event(delta("a"));
        for _ in 0..12 {
            script = script.delay(Duration::from_secs(1)).event(delta("b"));
        }
        mock.push(script.done());
        let gateway = Gateway::over(&mock).await;
        let start = Instant::now();
        let answer = post(&gateway, &[SECRET], &chat_stream("m")).await;
        assert!(
            start.elapsed() > Duration::from_secs(11),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(
            (answer.end, answer.content()),
            (Some(End::Whole), format!("a{}", "b".repeat(12)))
        );
        // A stream that breaks is not made to look whole.
        mock.push(Script::sse().event(delta("a")).reset());
        let broken = post(&gateway, &[SECRET], &chat_stream("m")).await;
        assert!(
            broken.text().contains("error") && !broken.text().contains("[DONE]"),
            "{}",
            broken.text()
        );
    });
}

#[test]
fn a_drain_waits_for_a_try() {
    run(async {
        let mock = Mock::start().await;
        let gate = Gate::new();
        mock.push(
            Script::sse()
                .event(delta("a"))
                .wait(&gate)
                .event(delta("b"))
                .done(),
        );
        let mut gateway = Gateway::over(&mock).await;
        let mut connection = open(&gateway, &[SECRET], &chat_stream("m")).await;
        let mut head = connection.head().await.expect("a head");
        assert!(connection.event(&mut head).await.is_some());
        gateway.signal("TERM");
        gateway.logged("stopping on a signal").await;
        let refused = eventually("no new try", || {
            let status = status_of_another(&gateway);
            (status == Some(503)).then_some(())
        });
        refused.await;
        gate.open();
        connection.rest(&mut head).await;
        assert_eq!(
            (head.end, head.content()),
            (Some(End::Whole), "ab".to_owned()),
            "{}",
            head.text()
        );
        assert!(gateway.exit(PATIENCE).success());
    });
}

/// The status of a new try, on a connection that blocks.
fn status_of_another(gateway: &Gateway) -> Option<u16> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect_timeout(&gateway.admin, PATIENCE).ok()?;
    let body = chat("m").to_string();
    let fields = [("host", gateway.admin.to_string())];
    let fields = [
        (fields[0].0, fields[0].1.as_str()),
        SECRET,
        ("connection", "close"),
    ];
    stream
        .write_all(&request("POST", "/try", &fields, body.as_bytes()))
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn the_doors_early_answer_passes_before_the_body() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        // The door refuses the key, and the size, by the head alone. The rest is never sent.
        for (key, length, status) in [("sk-wrong", "1000", 401), (KEY, "999999999999", 413)] {
            let head = format!(
                "POST /try HTTP/1.1\r\nhost: {}\r\nx-portcullis-key: {key}\r\ncontent-type: application/json\r\n\
                 content-length: {length}\r\n\r\n{{\"model\"",
                gateway.admin
            );
            let mut connection = Connection::plain(gateway.admin, None).await;
            connection.send(head).await;
            let answer = tokio::time::timeout(PATIENCE, connection.response())
                .await
                .expect("it is not waited for");
            assert_eq!(answer.status, status, "{}", answer.text());
            assert!(
                answer.field("x-request-id").is_some(),
                "it is the door's own answer"
            );
        }
        gateway.access_lines(2).await;
    });
}
