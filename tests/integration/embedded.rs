//! Portcullis in another program's Pingora server (`examples/embed.rs`), where Pingora's session
//! reads requests. `make test` runs most tests of doors, framing and callers there, too. Those left
//! out are about what that server decides: how it refuses heads, deadlines of heads, the number of
//! connections, and HTTP/2 without TLS.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::canary::KEY;
use crate::support::client::End;
use crate::support::script::finish;
use crate::support::{
    Catalog, Gate, Gateway, Mock, PATIENCE, Script, chat, chat_stream, eventually, run,
};

#[test]
fn a_drain_of_its_server_lets_a_stream_end() {
    run(async {
        let (mock, gate) = (Mock::start().await, Gate::new());
        let setup = Gateway::with(Catalog::over(&mock)).embedded();
        let mut gateway = setup.start().await;
        let mut idle = gateway.connect().await;
        idle.send(crate::support::client::post(&chat("m"))).await;
        assert_eq!(idle.response().await.status, 200);
        mock.push(
            Script::sse()
                .words(0..1)
                .wait(&gate)
                .words(1..3)
                .event(finish("stop"))
                .done(),
        );
        let (mut connection, mut head) = gateway.open(&chat_stream("m")).await;
        connection.event(&mut head).await.expect("a word");
        gateway.signal("TERM");
        eventually("it is not ready", || {
            (gateway.admin("/readyz").0 == 503).then_some(())
        })
        .await;
        assert!(idle.closed().await, "the idle connection ends");
        gate.open();
        connection.rest(&mut head).await;
        assert_eq!(
            (head.content().as_str(), head.end),
            ("w0 w1 w2 ", Some(End::Whole))
        );
        assert_eq!(gateway.exit(PATIENCE).code(), Some(0));
        let lines = gateway.lines();
        let outcomes: Vec<_> = lines.iter().map(|line| &line["outcome"]).collect();
        assert_eq!(outcomes, ["ok", "ok"]);
    });
}

#[test]
fn ambiguous_heads_reach_nobody() {
    run(async {
        let mock = Mock::start().await;
        let setup = Gateway::with(Catalog::over(&mock)).embedded();
        let gateway = setup.start().await;
        let body = chat("m").to_string();
        let length = body.len();
        let heads = [
            format!("content-length: {length}\r\ncontent-length: 5\r\n"),
            format!("content-length: {length}, 5\r\n"),
            format!("content-length: +{length}\r\n"),
            format!("content-length: 0x{length:x}\r\n"),
            "transfer-encoding: xchunked\r\n".to_owned(),
            "transfer-encoding: chunked, identity\r\n".to_owned(),
            "transfer-encoding : chunked\r\n".to_owned(),
            format!("x-a : b\r\ncontent-length: {length}\r\n"),
            format!("x-a: b\0c\r\ncontent-length: {length}\r\n"),
            format!("host: b\r\ncontent-length: {length}\r\n"),
        ];
        for head in &heads {
            let after = if head.contains("chunked") {
                format!("{length:x}\r\n{body}\r\n0\r\n\r\n")
            } else {
                body.clone()
            };
            let request = format!(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {KEY}\r\n\
                 content-type: application/json\r\n{head}\r\n{after}"
            );
            let mut stream = TcpStream::connect(gateway.address).expect("it accepts");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.write_all(request.as_bytes()).expect("sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it is closed");
            assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?}: {answer}");
        }
        assert_eq!(mock.connections(), 0);
    });
}
