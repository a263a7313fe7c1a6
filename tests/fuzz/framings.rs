//! Answers of HTTP/1 that dice put together from parts that mean something, and cut anywhere: our
//! reader and Pingora's find the same in them.

use crate::answers::compare;
use proptest::prelude::*;

const HEADS: [&str; 6] = [
    "",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    "\r\n",
    "HTTP/1.1 102 Processing\r\ncontent-length: x\r\n\r\n",
];

const FIRST_LINES: [&str; 10] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 429 Too Many Requests\n",
    "HTTP/1.1 500 \r\n",
    "HTTP/2 200 OK\r\n",
    "HTTP/1.1 099 No\r\n",
    "HTTP/1.1 999 Odd\r\n",
];

const FIELDS: [&str; 34] = [
    "content-length: 5\r\n",
    "Content-Length: 5\r\n",
    "content-length: 5, 5\r\n",
    "content-length: 0\r\n",
    "content-length: 12\r\n",
    "content-length: +5\r\n",
    "content-length: \r\n",
    "content-length: 99999999999999999999\r\n",
    "content-length: 18446744073709551615\r\n",
    "content-length: 5\r\n 5\r\n",
    "transfer-encoding: chunked\r\n",
    "Transfer-Encoding: Chunked\r\n",
    "transfer-encoding: chunked\r\n",
    "transfer-encoding: gzip, chunked\r\n",
    "transfer-encoding: chunked, identity\r\n",
    "transfer-encoding: identity\r\n",
    "transfer-encoding:\r\n chunked\r\n",
    "transfer-encoding: xchunked\r\n",
    "transfer-encoding: chunked,\r\n",
    "transfer-encoding : chunked\r\n",
    "connection: close\r\n",
    "connection: keep-alive\r\n",
    "Connection: Keep-Alive, Close\r\n",
    "connection: keep-alive, x\r\n",
    "connection: upgrade\r\n",
    "keep-alive: timeout=0\r\n",
    "content-type: application/json\r\n",
    "Content-Type: text/event-stream; charset=utf-8\n",
    "x-a: one\r\n\ttwo\r\n",
    "x-a:\r\n",
    "x-b: \u{e4}\r\n",
    " x-c: folded\r\n",
    "x-d: a\rb\r\n",
    "x e: f\r\n",
];

const BODIES: [&str; 32] = [
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "hello",
    "5\r\nhello\r\n0\r\n\r\n",
    "5;a=b\r\nhello\r\n",
    "5 ;a\r\nhello\r\n",
    "5\t\r\nhello\r\n",
    "5;a\nb\r\nhello\r\n",
    "5;a\rb\r\nhello\r\n",
    "00005\r\nhello\r\n",
    "0000000000000005\r\nhello\r\n",
    "00000000000000005\r\nhello\r\n",
    "ffffffffffffffff\r\nhello\r\n",
    "7fffffffffffffff\r\nhello\r\n",
    "C\r\nhello, world\r\n",
    "5\nhello\n",
    "5\r\nhelloX\r\n",
    "5\r\nhello\rX",
    "5\r\nhello\n",
    ";a\r\n",
    "\r\n",
    "g\r\n",
    "-5\r\n",
    "0\r\nx-t: 1\r\n\r\n",
    "0\r\nx-t: 1\r\nx-u: 2\r\n\r\n",
    "0\r\nx-t: 1\n\r\n",
    "0\r\n\rX",
    "000;x\r\n\r\n",
    " 5\r\nhello\r\n",
    "0\r\n",
    "12345",
    "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
];

proptest! {
    #[test]
    fn both_readers_find_the_same(
        before in prop::collection::vec(prop::sample::select(&HEADS[..]), 0..3),
        first in prop::sample::select(&FIRST_LINES[..]),
        fields in prop::collection::vec(prop::sample::select(&FIELDS[..]), 0..4),
        bodies in prop::collection::vec(prop::sample::select(&BODIES[..]), 0..5),
        broken in prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>())),
        sizes in prop::collection::vec(1_usize..40, 1..6),
        ends in any::<bool>(),
    ) {
        let sent = [before.concat(), first.to_owned(), fields.concat(), "\r\n".to_owned(), bodies.concat()].concat();
        let mut sent = sent.into_bytes();
        if let Some((place, byte)) = broken {
            let place = place.index(sent.len());
            sent[place] = byte;
        }
        compare(&sent, &sizes, ends);
        compare(&sent, &[sent.len()], ends);
        compare(&sent, &[1], ends);
    }

    #[test]
    fn good_answers_are_read_whole_however_they_are_cut(
        framing in 0_usize..3,
        pieces in prop::collection::vec("[a-z]{1,3000}", 0..6),
        sizes in prop::collection::vec(1_usize..4000, 1..6),
    ) {
        let body = pieces.concat();
        let chunks: String = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
        let sent = match framing {
            0 => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
            1 => format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"),
            _ => format!("HTTP/1.1 200 OK\r\n\r\n{body}"),
        };
        compare(sent.as_bytes(), &sizes, true);
    }
}
