//! Heads of HTTP/1 that dice put together from parts that mean something, and cut anywhere: what
//! our reader takes for plain, Pingora's takes for the same.

use crate::heads::compare;
use portcullis::desk::connection::head::{HeadRead, read_head};
use proptest::prelude::*;

const FIRST_LINES: [&str; 24] = [
    "GET /v1/models HTTP/1.1\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\n",
    "POST /v1/chat/completions?a=b&c=%2F HTTP/1.1\r\n",
    "HEAD / HTTP/1.1\r\n",
    "GET /?a=/../b HTTP/1.1\r\n",
    "GET /v1/models HTTP/1.1\n",
    "GET /v1/models HTTP/1.0\r\n",
    "GET /v1/models HTTP/1.2\r\n",
    "GET //a/b HTTP/1.1\r\n",
    "GET http://a/v1/models HTTP/1.1\r\n",
    "GET /a#b HTTP/1.1\r\n",
    "GET /a b HTTP/1.1\r\n",
    "GET /a\"b<c> HTTP/1.1\r\n",
    "GET /\u{e4} HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT a:443 HTTP/1.1\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\r\nGET / HTTP/1.1\r\n",
    "\nGET / HTTP/1.1\r\n",
    "GET / HTTP/1.1\r\r\n",
    "GET\t/ HTTP/1.1\r\n",
    "GET  / HTTP/1.1\r\n",
    "get / HTTP/1.1\r\n",
    "GET / HTTP/1.1 \r\n",
];

const FIELDS: [&str; 44] = [
    "host: a\r\n",
    "Host: a.test:8080\r\n",
    "host: [::1]:80\r\n",
    "host:\r\n",
    "host: a@b\r\n",
    "host : a\r\n",
    "content-length: 5\r\n",
    "Content-Length:5\r\n",
    "content-length: 05\r\n",
    "content-length: 0\r\n",
    "content-length: 5, 5\r\n",
    "content-length: +5\r\n",
    "content-length: \r\n",
    "content-length: 5 \t\r\n",
    "content-length: 99999999999999999999\r\n",
    "content-length: 999999999999999999\r\n",
    "content-length\0: 5\r\n",
    "content_length: 5\r\n",
    "content-length : 5\r\n",
    "transfer-encoding: chunked\r\n",
    "transfer-encoding: identity\r\n",
    "Transfer-Encoding:\tchunked\r\n",
    "transfer-encoding : chunked\r\n",
    "transfer-encoding: chunked\n",
    "transfer_encoding: chunked\r\n",
    "connection: close\r\n",
    "connection: keep-alive\r\n",
    "Connection: Keep-Alive\r\n",
    "connection: keep-alive, close\r\n",
    "connection: close, x-a\r\n",
    "connection: upgrade\r\n",
    "connection:\r\n",
    "upgrade: websocket\r\n",
    "expect: 100-continue\r\n",
    "te: trailers\r\n",
    "authorization: Bearer sk-a\r\n",
    "x-a: one\r\n\ttwo\r\n",
    "x-a:\r\n",
    "x-a: \u{e4}\tb\r\n",
    " x-c: folded\r\n",
    "x-d: a\rb\r\n",
    "x-d: a\0b\r\n",
    "x e: f\r\n",
    ": f\r\n",
];

const BODIES: [&str; 6] = [
    "",
    "hello",
    "hel",
    "hello and more",
    "5\r\nhello\r\n0\r\n\r\n",
    "helloGET / HTTP/1.1\r\nhost: a\r\n\r\n",
];

proptest! {
    #[test]
    fn plain_heads_are_the_same_to_both(
        first in prop::sample::select(&FIRST_LINES[..]),
        has_host in prop::bool::weighted(0.8),
        fields in prop::collection::vec(prop::sample::select(&FIELDS[..]), 0..4),
        body in prop::sample::select(&BODIES[..]),
        broken in prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>())),
        sizes in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let host = if has_host { "host: a\r\n" } else { "" };
        let sent = [first, host, &fields.concat(), "\r\n", body].concat();
        let mut sent = sent.into_bytes();
        if let Some((place, byte)) = broken {
            let place = place.index(sent.len());
            sent[place] = byte;
        }
        compare(&sent, &sizes);
        compare(&sent, &[sent.len()]);
        compare(&sent, &[1]);
    }

    #[test]
    fn plain_heads_are_taken_in_each_cut(
        path in "(/[a-z0-9._~-]{1,12}){1,5}",
        values in prop::collection::vec("[!-~]([ -~]{0,80}[!-~])?", 0..40),
        body in "[a-z]{0,300}",
        sizes in prop::collection::vec(1_usize..400, 1..6),
    ) {
        let fields: String = values.iter().enumerate().map(|(n, value)| format!("X-{n}: {value}\r\n")).collect();
        let sent = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
        let read = read_head(sent.as_bytes(), &mut http::HeaderMap::new());
        prop_assert!(matches!(read, HeadRead::Plain(head) if head.body == body.len() as u64));
        compare(sent.as_bytes(), &sizes);
    }
}
