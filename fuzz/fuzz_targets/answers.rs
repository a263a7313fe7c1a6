//! Any upstream may send any bytes for an answer of HTTP/1. However they are cut into reads, our
//! reader and Pingora's find the same status, headers, body and end in them. Where they differ on
//! purpose, ours is the stricter one, and this file has the rule.
//!
//! The first byte is the length of the reads. The second says whether the connection ends. The rest
//! is what the upstream sends.

#![no_main]

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use pingora::ErrorType;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::client::HttpSession;
use portcullis::exchange::http1::{AnswerReader, HeadFault};
use tokio::io::{AsyncWrite, duplex};

fuzz_target!(|input: &[u8]| {
    let [length, ends, sent @ ..] = input else {
        return;
    };
    compare(sent, &[usize::from(*length).max(1)], ends % 2 == 0);
});

/// What a reader has found.
#[derive(Debug, Default, PartialEq)]
struct Found {
    status: Option<u16>,
    /// The first value of each name, with one space for each run of them.
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    /// Nothing if the reader waits for more.
    end: Option<End>,
    /// Whether another request may follow on the connection.
    keeps: bool,
    /// All heads as they came. Only Pingora's reader tells.
    raw: Vec<u8>,
    /// Whether the body comes in chunks. Only Pingora's reader tells.
    is_chunked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// There is no head, since the connection ended.
    NoHead,
    /// What came is no head.
    Nonsense,
    /// The upstream has switched protocols.
    Switched,
    /// The body is broken, or not whole.
    Cut,
    Whole,
}

/// Reads the same with both readers, in pieces of these sizes, and compares.
pub(crate) fn compare(sent: &[u8], sizes: &[usize], ends: bool) {
    let ours = drive(sent, sizes, ends, read_with_ours);
    let mut theirs = drive(sent, sizes, ends, read_with_pingoras);
    let raw = std::mem::take(&mut theirs.raw);
    if theirs.end == Some(End::Switched) {
        assert_eq!(
            ours.end,
            Some(End::Nonsense),
            "nobody asked for another protocol"
        );
        return;
    }
    assert_eq!(
        (ours.status, &ours.headers),
        (theirs.status, &theirs.headers)
    );
    let head = Head(raw.to_ascii_lowercase());
    let has_body = !matches!(ours.status, None | Some(204 | 304));
    if has_body && theirs.is_chunked && is_lax(&sent[raw.len()..]) {
        assert_eq!(
            ours.end,
            Some(End::Cut),
            "chunks that may be read in two ways"
        );
        assert!(ours.body.starts_with(&theirs.body) || theirs.body.starts_with(&ours.body));
        return;
    }
    assert_eq!(ours.end, theirs.end);
    if ours.end == Some(End::Cut) {
        // Ours gives what is good of a broken chunk.
        assert!(ours.body.starts_with(&theirs.body));
    } else {
        assert_eq!(ours.body, theirs.body);
    }
    assert!(
        theirs.keeps || !ours.keeps,
        "it keeps no connection that Pingora closes"
    );
    if theirs.keeps && !ours.keeps {
        let is_plain = head
            .0
            .windows(29)
            .any(|part| part == b"\r\ntransfer-encoding: chunked\r\n");
        let is_odd = head.says("transfer-encoding")
            && (!is_plain
                || head.says("content-length")
                || head.count("transfer-encoding") > 1
                || !has_body);
        let is_odd = is_odd || !has_body && head.says("content-length");
        // An old server that says `keep-alive`, and then something else, too: ours closes, which is
        // always right.
        let is_old = head.0.starts_with(b"http/1.0");
        let is_odd = is_odd || is_old && head.count("\r\nconnection:") > 1;
        // A folded line, or a blank before a colon.
        let is_odd = is_odd
            || ["\n ", "\n\t", " :", "\t:"]
                .iter()
                .any(|part| head.says(part));
        assert!(
            is_odd || (head.says("connection") && head.says("close")),
            "nothing speaks against it"
        );
    }
}

/// The heads in lower case.
struct Head(Vec<u8>);

impl Head {
    fn count(&self, word: &str) -> usize {
        self.0
            .windows(word.len())
            .filter(|part| *part == word.as_bytes())
            .count()
    }

    fn says(&self, word: &str) -> bool {
        self.count(word) > 0
    }
}

/// Returns whether a chunk has no size, an absurd one, or a bare line feed in its extension.
/// Pingora takes the first for the end of the body, waits for the second, and ignores the third.
fn is_lax(mut body: &[u8]) -> bool {
    loop {
        let digits = body
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if digits == 0 {
            return matches!(body.first(), Some(b';' | b' ' | b'\t' | b'\r'));
        }
        let size = std::str::from_utf8(&body[..digits])
            .ok()
            .and_then(|text| u64::from_str_radix(text, 16).ok());
        if digits <= 16 && size.is_some_and(|size| size >> 63 != 0) {
            return true;
        }
        let Some(end) = body.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
            return false;
        };
        if body[end] == b'\n' {
            return body[..end].contains(&b';');
        }
        let size = size
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| *size > 0);
        let next = size.and_then(|size| size.checked_add(end + 4));
        let Some(rest) = next.and_then(|next| body.get(next..)) else {
            return false;
        };
        body = rest;
    }
}

/// Gives a reader the bytes piece by piece.
fn drive<F: Future<Output = ()>>(
    sent: &[u8],
    sizes: &[usize],
    ends: bool,
    reader: impl FnOnce(Stream, Rc<RefCell<Found>>) -> F,
) -> Found {
    // Pingora reads at most so much of a head at once.
    const MOST: usize = 4096;
    let (mut far, near) = duplex(sent.len() + 1);
    let found = Rc::new(RefCell::new(Found::default()));
    let mut reading = pin!(reader(Box::new(near), found.clone()));
    let mut context = Context::from_waker(Waker::noop());
    let mut is_over = reading.as_mut().poll(&mut context).is_ready();
    let mut rest = sent;
    for size in sizes.iter().cycle() {
        if is_over || rest.is_empty() {
            break;
        }
        let piece;
        (piece, rest) = rest.split_at(rest.len().min(*size).clamp(1, MOST));
        let written = Pin::new(&mut far).poll_write(&mut context, piece);
        assert!(matches!(written, Poll::Ready(Ok(count)) if count == piece.len()));
        is_over = reading.as_mut().poll(&mut context).is_ready();
    }
    if !is_over && ends {
        drop(far);
        assert!(
            reading.as_mut().poll(&mut context).is_ready(),
            "it waits at the end of the connection"
        );
    }
    found.take()
}

/// Each future is dropped after one poll, so that this proves that nothing is lost by it.
async fn read_with_ours(stream: Stream, found: Rc<RefCell<Found>>) {
    let mut answer = AnswerReader::new(stream);
    if let Err(fault) = poll_fn(|context| pin!(answer.read_head()).poll(context)).await {
        let end = if fault == HeadFault::Cut {
            End::NoHead
        } else {
            End::Nonsense
        };
        found.borrow_mut().end = Some(end);
        return;
    }
    {
        let (mut found, head) = (found.borrow_mut(), answer.head().expect("it was read"));
        found.status = Some(head.status.as_u16());
        for name in head.names() {
            let name = String::from_utf8(name.to_vec()).expect("a name");
            let value = squeezed(head.get(&name).expect("it has it"));
            found.headers.push((name, value));
        }
        found.headers.retain(|(name, _)| name != "content-length");
        found.headers.sort();
        found.headers.dedup();
    }
    loop {
        let read = |context: &mut Context<'_>| {
            let read = pin!(answer.read()).poll(context);
            read.map(|read| read.map(|piece| piece.map(<[u8]>::to_vec)))
        };
        match poll_fn(read).await {
            Ok(Some(piece)) => {
                assert!(!piece.is_empty());
                found.borrow_mut().body.extend(piece);
            }
            Ok(None) => break,
            Err(_) => {
                assert!(!answer.is_done());
                found.borrow_mut().end = Some(End::Cut);
                return;
            }
        }
    }
    assert!(answer.is_done());
    found.borrow_mut().end = Some(End::Whole);
    let keeps = answer.finish().is_ok();
    found.borrow_mut().keeps = keeps;
}

async fn read_with_pingoras(stream: Stream, found: Rc<RefCell<Found>>) {
    let mut session = HttpSession::new(stream);
    for informational in 0.. {
        if let Err(error) = session.read_response().await {
            let is_nonsense = matches!(
                error.etype(),
                ErrorType::InvalidHTTPHeader | ErrorType::H1Error
            );
            found.borrow_mut().end = Some(if is_nonsense {
                End::Nonsense
            } else {
                End::NoHead
            });
            return;
        }
        found
            .borrow_mut()
            .raw
            .extend_from_slice(&session.get_headers_raw_bytes());
        let status = session.get_status().expect("a head");
        if status.as_u16() == 101 {
            found.borrow_mut().end = Some(End::Switched);
            return;
        }
        if !status.is_informational() {
            break;
        }
        if informational == 8 {
            found.borrow_mut().end = Some(End::Nonsense);
            return;
        }
    }
    {
        let (mut found, head) = (
            found.borrow_mut(),
            session.resp_header().expect("it was read"),
        );
        found.status = Some(head.status.as_u16());
        for name in head.headers.keys() {
            found.headers.push((
                name.as_str().to_owned(),
                squeezed(head.headers[name].as_bytes()),
            ));
        }
        found.headers.retain(|(name, _)| name != "content-length");
        found.headers.sort();
        let encodings = head
            .headers
            .get_all("transfer-encoding")
            .iter()
            .next_back()
            .map(|value| value.as_bytes());
        let last = encodings.and_then(|all| all.rsplit(|byte| *byte == b',').next());
        found.is_chunked =
            last.is_some_and(|last| last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
    }
    loop {
        match session.read_body_ref().await {
            Ok(Some(piece)) => found.borrow_mut().body.extend_from_slice(piece),
            Ok(None) => break,
            Err(_) => {
                found.borrow_mut().end = Some(End::Cut);
                return;
            }
        }
    }
    found.borrow_mut().end = Some(End::Whole);
    session.respect_keepalive();
    let keeps = session.reuse().await.is_some();
    found.borrow_mut().keeps = keeps;
}

/// Returns the value with one space for each run of them: a folded line is written in many ways.
fn squeezed(value: &[u8]) -> Vec<u8> {
    let words = value
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}
