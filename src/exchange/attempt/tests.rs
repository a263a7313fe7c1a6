//! Every wire that an answer can come over, with an upstream at its other end that writes at its
//! own pace.

#![expect(
    clippy::disallowed_methods,
    reason = "the upstreams of a test end with its runtime"
)]

use super::*;
use crate::account::State;
use crate::catalog::resolve::resolve_catalog;
use crate::conf::proxy::Proxies;
use pingora::connectors::http::v2::{H2HandshakeSettings, handshake};
use pingora::http::RequestHeader;
use tokio::io::{AsyncReadExt, DuplexStream, duplex};

/// What an answer comes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum Over {
    Length,
    Chunked,
    Closed,
    Http2,
    Demo,
}

impl Over {
    pub(in crate::exchange) const ALL: [Over; 5] = [
        Over::Length,
        Over::Chunked,
        Over::Closed,
        Over::Http2,
        Over::Demo,
    ];
}

/// One piece of the body, and how long its upstream waits before it: so many turns of the runtime;
/// of the demo, so many milliseconds.
pub(in crate::exchange) type Paced = (Vec<u8>, u8);

/// An attempt whose head has come, and whose body comes in these pieces.
pub(in crate::exchange) async fn answered(over: Over, pieces: Vec<Paced>) -> Attempt {
    let mut attempt = nothing_yet();
    attempt.wire = match over {
        Over::Demo => demo(pieces),
        Over::Http2 => {
            let (ours, theirs) = duplex(64 * 1024);
            tokio::spawn(serve_http2(theirs, pieces));
            let mut settings = H2HandshakeSettings::new();
            settings.max_streams = 1;
            let connection = handshake(Box::new(ours), settings)
                .await
                .expect("a handshake");
            let mut stream = connection
                .spawn_stream()
                .await
                .expect("a stream")
                .expect("a stream");
            let mut head = RequestHeader::build("POST", b"/", None).expect("a head");
            head.insert_header("host", "upstream.test")
                .expect("a header");
            stream
                .write_request_header(Box::new(head), true)
                .expect("a request");
            Wire::Http2(Box::new(stream))
        }
        Over::Length | Over::Chunked | Over::Closed => {
            let (ours, theirs) = duplex(64 * 1024);
            tokio::spawn(serve_http1(theirs, over, pieces));
            Wire::Http1(AnswerReader::new(Box::new(ours)))
        }
    };
    attempt.read_head().await.expect("a head");
    attempt
}

fn demo(pieces: Vec<Paced>) -> Wire {
    let pieces = pieces.into_iter().map(|(bytes, wait)| demo::Piece {
        pause: Duration::from_millis(wait.into()),
        bytes,
    });
    let pieces = pieces.collect();
    let reply = demo::Reply {
        status: 200,
        retry_after: None,
        content_type: "application/json",
        pieces,
        breaks: false,
    };
    Wire::Demo(reply.into())
}

async fn wait(turns: u8) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// Ends early where the reader is at its end before the connection is.
async fn serve_http1(
    mut stream: DuplexStream,
    over: Over,
    pieces: Vec<Paced>,
) -> std::io::Result<()> {
    let length: usize = pieces.iter().map(|(bytes, _)| bytes.len()).sum();
    let framing = match over {
        Over::Length => format!("content-length: {length}\r\n"),
        Over::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
        Over::Closed | Over::Http2 | Over::Demo => String::new(),
    };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{framing}\r\n");
    stream.write_all(head.as_bytes()).await?;
    for (bytes, turns) in pieces {
        wait(turns).await;
        if over != Over::Chunked {
            stream.write_all(&bytes).await?;
            continue;
        }
        // The chunk's own head and end come apart, too.
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
        for part in chunk.chunks(1 + usize::from(turns) * 7) {
            stream.write_all(part).await?;
            wait(turns).await;
        }
    }
    if over == Over::Chunked {
        for part in [b"0".as_slice(), b"\r\n", b"\r", b"\n"] {
            stream.write_all(part).await?;
            wait(1).await;
        }
    }
    if over != Over::Closed {
        // It stays open until the reader has gone.
        while stream.read(&mut [0; 64]).await? > 0 {}
    }
    Ok(())
}

async fn serve_http2(stream: DuplexStream, pieces: Vec<Paced>) {
    let mut connection = h2::server::handshake(stream).await.expect("a handshake");
    let (_, mut respond) = connection
        .accept()
        .await
        .expect("a request")
        .expect("a request");
    tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let head = http::Response::builder()
        .header("content-type", "text/event-stream")
        .body(())
        .expect("a head");
    let mut body = respond
        .send_response(head, false)
        .expect("the head is taken");
    for (bytes, turns) in pieces {
        wait(turns).await;
        body.send_data(bytes.into(), false)
            .expect("a piece is taken");
    }
    // The reader may be at its end before the stream is.
    body.send_data(Bytes::new(), true).ok();
}

/// An attempt at some account, with no wire.
fn nothing_yet() -> Attempt {
    let catalog = "accounts:\n  a: { dialect: openai, key: k-1 }\nmodels: {}\ncallers: {}\n";
    let catalog = resolve_catalog(
        &[("catalog.yaml".to_owned(), catalog.to_owned())],
        &mut |_| Ok(String::new()),
    )
    .expect("a catalog");
    let account = catalog.accounts().first().expect("an account").clone();
    let state = Arc::new(State::new(account.id.clone()));
    Attempt {
        wire: Wire::Spent,
        ready_account: Arc::new(ReadyAccount::new(account, state, &Proxies::default())),
        permit: None,
        reused: false,
        sent_whole: true,
        head_failed: false,
        connected: Duration::ZERO,
        sent: Instant::now(),
    }
}
