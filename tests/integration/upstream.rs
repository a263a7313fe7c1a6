//! The scripted upstream does what its scripts say: every other test rests on it.

use std::time::{Duration, Instant};

use crate::support::client::{self, Connection, End};
use crate::support::script::{self, SSE};
use crate::support::tls::Ca;
use crate::support::{Gate, H2, Mock, Script, chat, chat_stream, eventually, run};

async fn plain(mock: &Mock) -> Connection {
    Connection::plain(mock.address(), None).await
}

#[test]
fn it_answers_like_a_good_server_and_records_bytes() {
    run(async {
        let mock = Mock::start().await;
        let mut connection = plain(&mock).await;
        let body = br#"{"model": "x",  "messages":[]}"#;
        let bytes = client::request("POST", "/v1/chat/completions?q", &[("X-Odd", "a  b")], body);
        connection.send(&bytes).await;
        let answer = connection.response().await;
        assert_eq!((answer.status, answer.end), (200, Some(End::Whole)));
        assert_eq!(
            answer.json()["choices"][0]["message"]["content"],
            "Hello from the mock."
        );
        connection
            .send(client::request(
                "POST",
                "/",
                &[],
                chat_stream("x").to_string().as_bytes(),
            ))
            .await;
        let stream = connection.response().await;
        assert_eq!(stream.events().last().unwrap(), "[DONE]");
        assert_eq!(stream.content(), "w0 w1 w2 ");

        let first = mock.request(0).await;
        assert_eq!(
            (first.method.as_str(), first.target.as_str()),
            ("POST", "/v1/chat/completions?q")
        );
        assert_eq!([first.raw_head.clone(), first.body.clone()].concat(), bytes);
        assert_eq!(first.field("x-odd"), Some("a  b"));
        let second = mock.request(1).await;
        assert_eq!((second.connection, second.nth), (0, 1));
        assert_eq!((mock.connections(), mock.open()), (1, 1));
    });
}

#[test]
fn scripts_are_chosen_by_queue_then_by_model() {
    run(async {
        let mock = Mock::start().await;
        mock.on(
            "a",
            Script::error(429, "slow down").with("retry-after", "3"),
        )
        .push(Script::answer("first"));
        let ask = post(&chat("a"));
        let mut connection = plain(&mock).await;
        connection.send(&ask).await;
        assert_eq!(connection.response().await.content(), "first");
        connection.send(&ask).await;
        let limited = connection.response().await;
        assert_eq!(
            (limited.status, limited.field("Retry-After")),
            (429, Some("3"))
        );
    });
}

#[test]
fn breaks_off_where_it_is_told_to() {
    run(async {
        let mock = Mock::start().await;
        let cases = [
            (Script::sse().words(0..2).reset(), Some(End::Reset)),
            (Script::sse().words(0..2).close(), Some(End::Cut)),
            (Script::sse().words(0..2), Some(End::Cut)),
            (Script::sse().words(0..2).end(), Some(End::Whole)),
            (
                Script::new().head(200, &[SSE]).words(0..2).close(),
                Some(End::Eof),
            ),
            (Script::sse().raw("zz\r\n"), Some(End::Cut)),
            (Script::new().reset(), None),
            (Script::new().close(), None),
        ];
        for (script, end) in cases {
            mock.push(script.clone());
            let mut connection = plain(&mock).await;
            connection.send(post(&chat("a"))).await;
            let answer = connection.try_response("POST").await;
            assert_eq!(answer.as_ref().and_then(|a| a.end), end);
            if let Some(answer) = answer {
                assert_eq!(answer.body, script.payload());
            }
        }
        let gate = Gate::new();
        mock.greet(Script::new().wait(&gate).reset());
        let mut refused = plain(&mock).await;
        gate.open();
        assert!(refused.try_response("GET").await.is_none());
        assert!(refused.wire.broken);
    });
}

#[test]
fn waits_at_a_gate_and_notices_who_leaves() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        mock.push(Script::sse().words(0..1).wait(&gate).words(1..2).stall());
        let mut connection = plain(&mock).await;
        connection.send(post(&chat_stream("a"))).await;
        let mut answer = connection.head().await.unwrap();
        connection.event(&mut answer).await.unwrap();
        assert_eq!(
            client::content_of(&connection.event(&mut answer).await.unwrap().data),
            "w0 "
        );
        assert!(
            tokio::time::timeout(Duration::from_millis(30), connection.event(&mut answer))
                .await
                .is_err()
        );
        gate.open();
        assert_eq!(
            client::content_of(&connection.event(&mut answer).await.unwrap().data),
            "w1 "
        );
        assert!(mock.request(0).await.left.is_none());
        drop(connection);
        mock.left(0).await;
        eventually("it is closed", || (mock.open() == 0).then_some(())).await;
    });
}

#[test]
fn cuts_a_body_into_slices() {
    run(async {
        let mock = Mock::start().await;
        let payload = Script::stream(2).payload();
        mock.push(Script::sse().slices(&payload, 1, Duration::ZERO).end());
        let mut connection = plain(&mock).await;
        connection.send(post(&chat_stream("a"))).await;
        let mut answer = connection.head().await.unwrap();
        let mut pieces = 0;
        while let Some(piece) = connection.piece(&mut answer).await {
            assert_eq!(piece.len(), 1);
            pieces += 1;
        }
        assert_eq!((pieces, answer.body), (payload.len(), payload));
    });
}

#[test]
fn answers_before_the_body_and_with_informational_heads() {
    run(async {
        let mock = Mock::start().await;
        mock.early(Script::error(413, "too much"));
        let mut connection = plain(&mock).await;
        connection
            .send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n{")
            .await;
        assert_eq!(connection.response().await.status, 413);
        mock.push(
            Script::new()
                .informational(103, &[])
                .informational(103, &[])
                .head(204, &[])
                .end(),
        );
        let mut connection = plain(&mock).await;
        connection.send(post(&chat("a"))).await;
        let answer = connection.response().await;
        assert_eq!((answer.status, answer.informational), (204, vec![103, 103]));
    });
}

#[test]
fn refuses_or_ignores_connections() {
    run(async {
        let refusing = Mock::refusing().await;
        assert!(
            tokio::net::TcpStream::connect(refusing.address())
                .await
                .is_err()
        );
        let deaf = Mock::deaf().await;
        let start = Instant::now();
        let connect = tokio::net::TcpStream::connect(deaf.address());
        assert!(
            tokio::time::timeout(Duration::from_millis(300), connect)
                .await
                .is_err(),
            "{:?}",
            start.elapsed()
        );
    });
}

#[test]
fn speaks_http2_in_clear_and_by_tls() {
    run(async {
        let ca = Ca::new();
        for tls in [false, true] {
            let mock = if tls {
                Mock::h2(&ca.leaf()).await
            } else {
                Mock::h2c().await
            };
            let caller = match tls {
                true => H2::tls(mock.address(), &ca, None).await,
                false => H2::clear(mock.address(), None).await,
            };
            mock.push(Script::stream(3))
                .push(Script::sse().words(0..1).reset())
                .push(Script::sse().stall());
            let fields = [("content-type", "application/json")];
            let body = chat_stream("a").to_string();
            let whole = caller
                .exchange("POST", "/v1/chat/completions", &fields, body.as_bytes())
                .await;
            assert_eq!(
                (whole.status, whole.end, whole.content().as_str()),
                (200, Some(End::Whole), "w0 w1 w2 ")
            );
            assert!(mock.request(0).await.http2);
            assert_eq!(mock.request(0).await.text(), body);
            let cut = caller.exchange("POST", "/", &fields, body.as_bytes()).await;
            assert_eq!((cut.end, cut.content().as_str()), (Some(End::Reset), "w0 "));
            let (_, stream) = caller
                .open("POST", "/", &fields, body.as_bytes())
                .await
                .unwrap();
            drop(stream);
            mock.left(2).await;
            // A script without an end closes the connection under the other streams too.
            mock.push(Script::sse().words(0..1));
            assert_eq!(
                caller
                    .exchange("POST", "/", &fields, body.as_bytes())
                    .await
                    .end,
                Some(End::Cut)
            );
        }
    });
}

#[test]
fn has_good_and_bad_certificates() {
    run(async {
        let ca = Ca::new();
        for (leaf, good) in [
            (ca.leaf(), true),
            (ca.expired(), false),
            (ca.leaf_for("other.test"), false),
        ] {
            let mock = Mock::tls(&leaf).await;
            let tcp = tokio::net::TcpStream::connect(mock.address())
                .await
                .unwrap();
            let io = crate::support::tls::connect(tcp, &ca, &["h2", "http/1.1"]).await;
            assert_eq!(io.is_ok(), good);
            if let Ok(io) = io {
                assert_eq!(io.alpn().as_deref(), Some(b"http/1.1".as_slice()));
                let mut connection = Connection::over(io, None);
                connection.send(post(&chat("a"))).await;
                assert_eq!(
                    connection.response().await.json(),
                    script::completion("Hello from the mock.")
                );
            }
        }
    });
}

/// Without a key of a caller's, which no upstream may see.
fn post(body: &serde_json::Value) -> Vec<u8> {
    client::post_as("none", body)
}
