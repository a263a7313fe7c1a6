//! Any caller may send any bytes for a request of HTTP/1. What our reader takes for a plain head,
//! Pingora's reader takes for the same request, with the same end and the same body, however the
//! bytes are cut into reads. What is no plain head stays none, whatever follows.
//!
//! The first byte is the length of the reads. The rest is what the caller sends.

#![no_main]

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, Method, Uri, Version};
use libfuzzer_sys::fuzz_target;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::server::HttpSession;
use portcullis::desk::connection::head::{HeadRead, PlainHead, read_head};
use tokio::io::{AsyncWrite, duplex};

fuzz_target!(|input: &[u8]| {
    let [length, sent @ ..] = input else {
        return;
    };
    compare(sent, &[usize::from(*length).max(1)]);
});

/// What Pingora's reader has found.
#[derive(Default)]
struct Found {
    request: Option<FoundRequest>,
    /// True if what came is no head for it.
    is_refused: bool,
}

struct FoundRequest {
    method: Method,
    uri: Uri,
    target: Vec<u8>,
    version: Version,
    fields: HeaderMap,
    /// The bytes of the head.
    length: usize,
    keeps: bool,
    body: Vec<u8>,
    is_whole: bool,
}

/// Reads the same with both readers, theirs in pieces of these sizes, and compares.
pub(crate) fn compare(sent: &[u8], sizes: &[usize]) {
    let mut fields = HeaderMap::new();
    let ours = read_head(sent, &mut fields);
    let theirs = drive(sent, sizes);
    let (length, body) = match &ours {
        HeadRead::Plain(head) => (head.length, head.body),
        HeadRead::Partial => {
            assert!(theirs.request.is_none() && !theirs.is_refused);
            (sent.len(), 0)
        }
        HeadRead::Other => (sent.len(), 0),
    };
    // A head of many bytes is read in each cut only near its end.
    let mut is_other = false;
    for cut in length.saturating_sub(600)..length {
        let read = read_head(&sent[..cut], &mut HeaderMap::new());
        assert!(
            !matches!(read, HeadRead::Plain(_)),
            "{cut} of {length} bytes are whole"
        );
        let is_now_other = matches!(read, HeadRead::Other);
        assert!(is_now_other || !is_other, "{cut} bytes may be plain again");
        is_other = is_now_other;
    }
    let HeadRead::Plain(ours) = ours else {
        return;
    };
    assert!(!is_other, "the beginning of a plain head is not plain");
    let Some(theirs) = theirs.request else {
        panic!("Pingora takes it for no request");
    };
    let expected = PlainHead {
        method: theirs.method,
        uri: theirs.uri,
        length: theirs.length,
        body,
        keeps: theirs.keeps,
    };
    assert_eq!(ours, expected);
    assert_eq!((fields, theirs.version), (theirs.fields, Version::HTTP_11));
    assert_eq!(ours.uri.to_string().into_bytes(), theirs.target);
    let rest = &sent[length..];
    let whole = usize::try_from(body).ok().and_then(|body| rest.get(..body));
    assert_eq!(theirs.body, whole.unwrap_or(rest));
    assert_eq!(theirs.is_whole, whole.is_some());
}

/// Gives the bytes to Pingora's reader, piece by piece.
fn drive(sent: &[u8], sizes: &[usize]) -> Found {
    // Pingora reads at most so much of a head at once.
    const MOST: usize = 4096;
    let (mut far, near) = duplex(sent.len() + 1);
    let found = Rc::new(RefCell::new(Found::default()));
    let mut reading = pin!(read(Box::new(near), found.clone()));
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
    found.take()
}

async fn read(stream: Stream, found: Rc<RefCell<Found>>) {
    let mut session = HttpSession::new(stream);
    // Otherwise it has a timer, which needs a runtime.
    session.set_read_timeout(None);
    match session.read_request().await {
        Ok(Some(length)) => {
            let header = session.req_header();
            found.borrow_mut().request = Some(FoundRequest {
                method: header.method.clone(),
                uri: header.uri.clone(),
                target: header.raw_path().to_vec(),
                version: header.version,
                fields: header.headers.clone(),
                length,
                keeps: session.get_keepalive_timeout().is_some(),
                body: Vec::new(),
                is_whole: false,
            });
        }
        Ok(None) | Err(_) => {
            found.borrow_mut().is_refused = true;
            return;
        }
    }
    while let Ok(Some(piece)) = session.read_body_bytes().await {
        if let Some(request) = &mut found.borrow_mut().request {
            request.body.extend_from_slice(&piece);
        }
    }
    if let Some(request) = &mut found.borrow_mut().request {
        request.is_whole = session.is_body_done();
    }
}
