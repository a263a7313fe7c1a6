//! What the reader holds, and what it takes for an answer. That it reads as Pingora's reader does
//! is shown in `tests/fuzz`.

use super::*;
use crate::base::pool;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncWrite, DuplexStream, duplex};

/// A reader, and the upstream's end of its connection.
fn connected() -> (AnswerReader, DuplexStream) {
    let (far, near) = duplex(1 << 20);
    (AnswerReader::new(Box::new(near)), far)
}

fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

fn send(far: &mut DuplexStream, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    let sent = Pin::new(far).poll_write(&mut Context::from_waker(Waker::noop()), bytes);
    assert!(matches!(sent, Poll::Ready(Ok(count)) if count == bytes.len()));
}

/// The head's fault when these bytes are all that comes.
fn fault(bytes: impl AsRef<[u8]>) -> Option<HeadFault> {
    let (mut answer, mut far) = connected();
    send(&mut far, bytes);
    drop(far);
    now(answer.read_head()).expect("all is there").err()
}

#[test]
fn a_waiting_stream_holds_no_buffer() {
    let (mut answer, mut far) = connected();
    assert!(now(answer.read_head()).is_none() && !answer.buffer.has_memory());
    send(
        &mut far,
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n",
    );
    assert!(now(answer.read_head()).is_none() && answer.buffer.has_memory() && answer.has_begun());
    send(&mut far, "\r\n");
    assert_eq!(now(answer.read_head()), Some(Ok(())));
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        assert!(now(answer.read()).is_none() && !answer.buffer.has_memory());
        send(&mut far, format!("{:x}\r\n{event}\r\n", event.len()));
        assert_eq!(now(answer.read()), Some(Ok(Some(event.as_bytes()))));
        assert!(answer.buffer.has_memory());
        assert!(now(answer.read()).is_none() && !answer.buffer.has_memory());
        // Not even in the midst of what stands before a chunk.
        send(&mut far, "0");
        assert!(now(answer.read()).is_none() && !answer.buffer.has_memory());
    }
}

#[test]
fn plain_answers_share_the_memory_of_their_thread() {
    std::thread::spawn(|| {
        let mut first = None;
        for length in [1, 100, pool::SIZE - 100, pool::SIZE * 3] {
            let (mut answer, mut far) = connected();
            let body = vec![b'x'; length];
            send(
                &mut far,
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"),
            );
            send(&mut far, &body);
            assert_eq!(now(answer.read_head()), Some(Ok(())));
            let mut read = Vec::new();
            while let Some(piece) = now(answer.read()).expect("all is there").expect("a body") {
                assert!(piece.len() <= pool::SIZE);
                read.extend_from_slice(piece);
            }
            assert_eq!((read, answer.is_done()), (body, true));
            assert!(answer.finish().is_ok());
            let memory = pool::take_buffer();
            assert_eq!(
                *first.get_or_insert(memory.as_ptr()),
                memory.as_ptr(),
                "a second piece of memory"
            );
            pool::give_back(memory);
        }
    })
    .join()
    .expect("a thread");
    const { assert!(pool::SIZE <= 16 * 1024) };
}

#[test]
fn a_head_may_be_large_but_not_too_large() {
    let head = |size: usize| format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(size));
    for size in [1, pool::SIZE, pool::SIZE * 2, LARGEST - 100] {
        assert_eq!(fault(head(size)), None, "{size}");
    }
    let too_long = Some(HeadFault::Nonsense("a response head that is too long"));
    assert_eq!(fault(head(LARGEST)), too_long);
    let fields = |count| "HTTP/1.1 200 OK\r\n".to_owned() + &"x: y\r\n".repeat(count) + "\r\n";
    assert!(fault(fields(256)).is_none() && fault(fields(257)).is_some());
    // Many heads before it need no more room than one.
    let early = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n",
        "x".repeat(15_000)
    );
    assert_eq!(fault(early.repeat(8) + &head(1)), None);
}

#[test]
fn no_answer_is_told_from_a_closed_connection() {
    let nonsense = |bytes: &str| matches!(fault(bytes), Some(HeadFault::Nonsense(_)));
    assert!(
        nonsense("SSH-2.0-OpenSSH\r\n") && nonsense("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n")
    );
    assert!(nonsense(
        "HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    ));
    let early = "HTTP/1.1 100 Continue\r\n\r\n".repeat(8);
    assert!(nonsense(
        &(early.clone() + "HTTP/1.1 103 Early Hints\r\n\r\n")
    ));
    assert_eq!(fault(early + "HTTP/1.1 200 OK\r\n\r\n"), None);
    assert_eq!(fault("HTTP/1.1 200 O"), Some(HeadFault::Cut));
    assert_eq!(fault(""), Some(HeadFault::Cut));
    let (mut answer, far) = connected();
    drop(far);
    assert_eq!(
        (now(answer.read_head()), answer.has_begun()),
        (Some(Err(HeadFault::Cut)), false)
    );
}

#[test]
fn a_broken_body_stays_broken() {
    for (framing, body) in [
        ("transfer-encoding: chunked", "5\r\nhelloX"),
        ("transfer-encoding: chunked", "\r\n"),
        ("content-length: 9", "x"),
    ] {
        let (mut answer, mut far) = connected();
        send(
            &mut far,
            format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{body}"),
        );
        drop(far);
        assert_eq!(now(answer.read_head()), Some(Ok(())));
        while let Some(Ok(Some(_))) = now(answer.read()) {}
        assert_eq!(now(answer.read()), Some(Err(BodyCut)));
        assert!(!answer.is_done());
        assert!(answer.finish().is_err());
    }
}

#[test]
fn lines_of_chunks_are_bounded() {
    let ends = |head: &str, line: usize, after: &str| {
        let (mut answer, mut far) = connected();
        send(
            &mut far,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        send(&mut far, format!("{head}{}{after}", "x".repeat(line)));
        assert_eq!(now(answer.read_head()), Some(Ok(())));
        while let Some(Ok(Some(_))) = now(answer.read()) {}
        now(answer.read()).expect("all is there").is_ok()
    };
    assert!(ends("1;", 8_000, "\r\ny\r\n0\r\n\r\n") && !ends("1;", 9_000, "\r\ny\r\n0\r\n\r\n"));
    assert!(ends("0\r\n", 65_000, "\r\n\r\n") && !ends("0\r\n", 66_000, "\r\n\r\n"));
}
