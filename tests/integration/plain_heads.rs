//! Connections on which requests with plain heads and others follow each other, in each way in
//! which bytes can come: whoever reads a request, its answer is the same.

use tokio::io::AsyncWriteExt;

use crate::support::canary::KEY;
use crate::support::client::{Connection, End, post, request};
use crate::support::tls::Ca;
use crate::support::{Catalog, Gate, Gateway, Mock, Script, chat, chat_stream, run};

const HELLO: &str = "Hello from the mock.";

/// A chat completion with these lines in its head, and this behind it.
fn chat_with(lines: &str, after: &str) -> Vec<u8> {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n{lines}\r\n{after}"
    )
    .into_bytes()
}

fn list() -> Vec<u8> {
    let bearer = format!("Bearer {KEY}");
    request("GET", "/v1/models", &[("authorization", &bearer)], b"")
}

/// A gateway without TLS, with TLS, and with h2c.
async fn three_listeners(mock: &Mock, ca: &Ca) -> Gateway {
    let leaf = ca.leaf();
    Gateway::with(Catalog::over(mock))
        .also_listen("tls: { cert: cert.pem, key: key.pem }")
        .also_listen("h2c: true")
        .file("cert.pem", &leaf.cert)
        .file("key.pem", &leaf.key)
        .start()
        .await
}

/// A new connection of HTTP/1 to each of the listeners.
async fn all_connections(gateway: &Gateway, ca: &Ca) -> Vec<Connection> {
    vec![
        gateway.connect().await,
        gateway.connect_tls(1, ca, &["http/1.1"]).await,
        Connection::plain(gateway.listeners[2], None).await,
    ]
}

/// Is answered with this status, whole, and with this `connection`.
async fn answered(connection: &mut Connection, status: u16, kept: &str, what: &str) -> String {
    let answer = connection.response().await;
    let found = (answer.status, answer.end, answer.field("connection"));
    assert_eq!(found, (status, Some(End::Whole), Some(kept)), "{what}");
    for name in ["date", "connection", "content-length"] {
        let lines = answer.fields.iter().filter(|field| field.0 == name);
        assert!(lines.count() <= 1, "{what}: {name}");
    }
    if answer.field("content-type") == Some("text/event-stream") {
        answer.content()
    } else {
        answer.text()
    }
}

#[test]
fn requests_of_all_kinds_follow_each_other() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = three_listeners(&mock, &ca).await;
        let body = chat("m").to_string();
        let length = format!("content-length: {}\r\n", body.len());
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n", body.len());
        let plain: Vec<(&str, Vec<u8>, &str)> = vec![
            ("a list", list(), "\"m\""),
            ("a chat", post(&chat("m")), HELLO),
            ("a stream", post(&chat_stream("m")), "w0 w1 w2 "),
            (
                "keep-alive",
                chat_with(&format!("connection: Keep-Alive\r\n{length}"), &body),
                HELLO,
            ),
        ];
        let others: Vec<(&str, Vec<u8>, &str)> = vec![
            (
                "chunks",
                chat_with("transfer-encoding: chunked\r\n", &format!("{chunks}\r\n")),
                HELLO,
            ),
            (
                "trailers",
                chat_with(
                    "transfer-encoding: chunked\r\n",
                    &format!("{chunks}x-a: b\r\n\r\n"),
                ),
                HELLO,
            ),
            (
                "expect",
                chat_with(&format!("expect: 100-continue\r\n{length}"), &body),
                HELLO,
            ),
            (
                "two lengths",
                chat_with(&format!("{length}{length}"), &body),
                HELLO,
            ),
            (
                "upgrade",
                chat_with(
                    &format!("connection: upgrade\r\nupgrade: websocket\r\n{length}"),
                    &body,
                ),
                HELLO,
            ),
            (
                "bare line feeds",
                String::from_utf8(list())
                    .unwrap()
                    .replace("\r\n", "\n")
                    .into_bytes(),
                "\"m\"",
            ),
        ];
        for other in &others {
            for connection in &mut all_connections(&gateway, &ca).await {
                // Pingora's session closes after an interim answer.
                let is_last = other.0 == "expect";
                let kept = if is_last { "close" } else { "keep-alive" };
                let mut all: Vec<_> = plain.iter().map(|one| (one, "keep-alive")).collect();
                all.push((other, kept));
                if !is_last {
                    all.extend([(&plain[0], kept), (other, kept)]);
                }
                for ((what, bytes, expected), kept) in all {
                    assert!(connection.send(bytes).await, "{what} with {}", other.0);
                    let text = answered(connection, 200, kept, what).await;
                    assert!(text.contains(expected), "{what} with {}: {text}", other.0);
                }
            }
        }
        for sent in mock
            .requests()
            .iter()
            .filter(|sent| !sent.text().contains("stream"))
        {
            assert_eq!(sent.text(), body);
        }
    });
}

#[test]
fn each_cut_of_a_request_gives_the_same() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let body = chat("m").to_string();
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for bytes in [
            post(&chat("m")),
            chat_with("transfer-encoding: chunked\r\n", &chunks),
        ] {
            for cut in 1..bytes.len() {
                let mut connection = gateway.connect().await;
                connection.send(&bytes[..cut]).await;
                // Most of the cuts are read by themselves. Nothing tells so, but both must do.
                tokio::task::yield_now().await;
                connection.send(&bytes[cut..]).await;
                let text = answered(&mut connection, 200, "keep-alive", "a cut").await;
                assert!(text.contains(HELLO), "cut at {cut}: {text}");
            }
            let mut connection = gateway.connect().await;
            for byte in &bytes {
                connection.send([*byte]).await;
                tokio::task::yield_now().await;
            }
            answered(&mut connection, 200, "keep-alive", "byte by byte").await;
        }
    });
}

#[test]
fn what_follows_too_early_is_never_run() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = three_listeners(&mock, &ca).await;
        // With the body of a refused request, too.
        let refused = chat_with(
            "x-portcullis-timeout: never\r\ncontent-length: 5\r\n",
            "hello",
        );
        for connection in &mut all_connections(&gateway, &ca).await {
            connection.send([refused.clone(), list()].concat()).await;
            answered(connection, 400, "close", "a refused request").await;
            assert!(connection.try_response("GET").await.is_none());
        }
        for early in [list(), b"x".to_vec(), b"\r\n".to_vec(), vec![b'x'; 4_000]] {
            for connection in &mut all_connections(&gateway, &ca).await {
                let mut bytes = post(&chat("m"));
                bytes.extend_from_slice(&early);
                connection.send(bytes).await;
                let text = answered(connection, 200, "close", "with the request").await;
                assert!(text.contains(HELLO) && connection.try_response("GET").await.is_none());
            }
        }
    });
}

#[test]
fn who_ends_its_half_has_left() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::over(&mock).await;
        let gate = Gate::new();
        mock.always(Script::new().wait(&gate).then_answer("too late"));
        for body in [chat("m"), chat_stream("m")] {
            let before = mock.count();
            let mut connection = gateway.connect().await;
            connection.send(post(&body)).await;
            mock.request(before).await;
            connection
                .wire
                .io
                .shutdown()
                .await
                .expect("a half is closed");
            assert!(connection.try_response("GET").await.is_none());
        }
        let lines = gateway.access_lines(2).await;
        assert!(
            lines.iter().all(|line| line["outcome"] == "client_left"),
            "{lines:?}"
        );
        // In the midst of a head there is no request, and so no line.
        let mut connection = gateway.connect().await;
        connection.send("GET /v1/models HTTP/1.1\r\nhost:").await;
        connection
            .wire
            .io
            .shutdown()
            .await
            .expect("a half is closed");
        assert!(connection.try_response("GET").await.is_none());
        gate.open();
    });
}

#[test]
fn close_is_obeyed_and_said() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = three_listeners(&mock, &ca).await;
        for body in [chat("m"), chat_stream("m")] {
            for connection in &mut all_connections(&gateway, &ca).await {
                let text = body.to_string();
                let lines = format!("connection: Close\r\ncontent-length: {}\r\n", text.len());
                connection.send(chat_with(&lines, &text)).await;
                answered(connection, 200, "close", "it wants it").await;
                assert!(connection.closed().await, "by FIN");
            }
        }
        // An answer that leaves before the body was read ends the connection, but a refusal does
        // not if the body comes.
        let mut connection = gateway.connect().await;
        let get = String::from_utf8(list()).unwrap();
        let get = get.replace("\r\n\r\n", "\r\ncontent-length: 5\r\n\r\n");
        connection.send(get).await;
        answered(&mut connection, 200, "close", "a body that nobody reads").await;
        assert!(connection.closed().await, "by FIN");
        let mut connection = gateway.connect().await;
        let refused = chat_with(
            "x-portcullis-timeout: never\r\ncontent-length: 5\r\n",
            "hel",
        );
        connection.send(refused).await;
        answered(&mut connection, 400, "keep-alive", "a refusal").await;
        connection.send("lo").await;
        connection.send(list()).await;
        answered(&mut connection, 200, "keep-alive", "after a refusal").await;
    });
}

/// HTTP/2 begins with a connection, or never. A short head waits for no preface of it.
#[test]
fn heads_of_older_and_newer_http_follow_plain_ones() {
    run(async {
        let (mock, ca) = (Mock::start().await, Ca::new());
        let gateway = three_listeners(&mock, &ca).await;
        for has_plain in [false, true] {
            for connection in &mut all_connections(&gateway, &ca).await {
                if has_plain {
                    connection.send(list()).await;
                    answered(connection, 200, "keep-alive", "a list").await;
                }
                connection.send("GET / HTTP/1.0\r\n\r\n").await;
                answered(connection, 404, "close", "a short head of HTTP/1.0").await;
                assert!(connection.closed().await, "by FIN");
            }
        }
        for connection in &mut all_connections(&gateway, &ca).await {
            connection.send(list()).await;
            answered(connection, 200, "keep-alive", "a list").await;
            connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
            let answer = connection.response().await;
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
        let h2 = gateway.h2c(2).await;
        let bearer = format!("Bearer {KEY}");
        let answer = h2
            .exchange("GET", "/v1/models", &[("authorization", &bearer)], b"")
            .await;
        assert_eq!(answer.status, 200);
    });
}

#[test]
fn an_idle_connection_ends_after_its_time() {
    run(async {
        let mock = Mock::start().await;
        let gateway = Gateway::with(Catalog::over(&mock))
            .server("timeouts: { keepalive: 1s }")
            .start()
            .await;
        let mut connection = gateway.connect().await;
        for _ in 0..3 {
            connection.send(list()).await;
            answered(&mut connection, 200, "keep-alive", "a list").await;
        }
        assert!(connection.closed().await, "by FIN");
    });
}

#[test]
fn a_drain_ends_connections_that_wait() {
    run(async {
        let mock = Mock::start().await;
        let gate = Gate::new();
        let mut gateway = Gateway::over(&mock).await;
        let mut waiting = gateway.connect().await;
        let mut in_a_head = gateway.connect().await;
        in_a_head.send("GET /v1/models HTTP/1.1\r\nhost:").await;
        let mut kept = gateway.connect().await;
        kept.send(list()).await;
        answered(&mut kept, 200, "keep-alive", "before").await;
        mock.push(Script::new().wait(&gate).then_answer("in time"));
        let mut served = gateway.connect().await;
        served.send(post(&chat("m"))).await;
        mock.request(0).await;
        gateway.signal("TERM");
        for connection in [&mut waiting, &mut in_a_head, &mut kept] {
            assert!(connection.try_response("GET").await.is_none());
        }
        gate.open();
        let text = answered(&mut served, 200, "close", "what runs").await;
        assert!(text.contains("in time"));
        assert!(gateway.exit(std::time::Duration::from_secs(10)).success());
    });
}
