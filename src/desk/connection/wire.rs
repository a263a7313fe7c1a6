//! A [`Wire`] is a connection of HTTP/1.1 on which our sessions serve one request after another. It
//! has what outlives a request: the stream, the bytes that were read or wait to be written, one
//! timer, and the memory of a head.

use super::head::{HeadRead, PlainHead, read_head};
use super::outbox::Outbox;
use crate::base::alarm::Alarm;
use crate::base::lock::Lock;
use crate::base::pool;
use crate::base::read_buffer::ReadBuffer;
use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, Method, Uri, Version};
use pingora::http::RequestHeader;
use pingora::protocols::{Digest, Shutdown, Stream};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::Instant;

/// The time for which the rest of a request is read that nobody wants, so that the caller sees the
/// answer and not a reset.
const DRAIN_UNREAD: Duration = Duration::from_secs(1);
/// The memory of a head keeps room for so many headers.
const USUAL_HEADERS: usize = 32;
/// The most bytes of a large body that are read at once.
const PIECE: usize = 64 * 1024;

/// What the loop of a connection and the session of its present request share.
#[derive(Default)]
pub(super) struct Handover {
    /// True if the answer that is under way is the last one of the connection.
    is_last: AtomicBool,
    /// The connection and what becomes of it, once its request is over.
    wire: Lock<Option<(Box<Wire>, Fate)>>,
}

impl Handover {
    /// Makes the answer that is under way the last one of the connection.
    pub(super) fn end_after_answer(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Returns whether the answer that is under way is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed)
    }

    /// Gives the connection back to its loop.
    pub(super) fn give_back(&self, wire: Box<Wire>, fate: Fate) {
        *self.wire.lock() = Some((wire, fate));
    }

    /// Takes the connection, if its request has given it back.
    pub(super) fn take(&self) -> Option<(Box<Wire>, Fate)> {
        self.wire.lock().take()
    }
}

/// What follows on a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made once a request, and a box would be an allocation"
)]
pub(super) enum Next {
    /// A request with a plain head.
    Request {
        /// The head.
        header: RequestHeader,
        /// The bytes of the body.
        body: u64,
        /// True if another request may follow.
        keeps: bool,
    },
    /// A request that is not ours to read. If its head came in pieces, the rest is due then.
    Other(Option<Instant>),
    /// Nothing: the caller has left, the process ends, or the last request kept the memory of its
    /// head.
    Nothing,
    /// Nothing came in time.
    Overdue,
}

/// What becomes of a connection after its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Another request may follow.
    Stays,
    /// It is closed.
    Closes,
    /// It is closed, but the caller may still be sending.
    ClosesUnread,
}

/// A connection.
pub(super) struct Wire {
    stream: Stream,
    pub(super) digest: Digest,
    came: ReadBuffer,
    outbox: Outbox,
    alarm: Alarm,
    /// The memory of the heads. The extension in it leads to the handover.
    spare: Option<Parts>,
}

impl Wire {
    /// Puts our reader and writer on a connection.
    pub(super) fn new(stream: Stream, handover: &Arc<Handover>) -> Wire {
        let digest = Digest {
            ssl_digest: stream.get_ssl_digest(),
            timing_digest: stream.get_timing_digest(),
            proxy_digest: stream.get_proxy_digest(),
            socket_digest: stream.get_socket_digest(),
        };
        let (mut spare, ()) = http::Request::new(()).into_parts();
        // The handover may have the connection, and so not the other way round.
        spare.extensions.insert(Arc::downgrade(handover));
        Wire {
            stream,
            digest,
            came: ReadBuffer::default(),
            outbox: Outbox::default(),
            alarm: Alarm::default(),
            spare: Some(spare),
        }
    }

    /// Waits for the head of a request. Its first byte must come within `idle`, and then all of it
    /// within `head`. The process ends when `end` is ready.
    pub(super) async fn next_request(
        &mut self,
        idle: Duration,
        head: Duration,
        mut end: Pin<&mut impl Future<Output = ()>>,
    ) -> Next {
        let Some(mut parts) = self.spare.take() else {
            return Next::Nothing;
        };
        let mut due = None;
        let mut is_partial = false;
        loop {
            let Wire {
                stream,
                came,
                alarm,
                ..
            } = &mut *self;
            let read = poll_fn(|context| {
                if let Poll::Ready(read) = came.poll_fill(stream, context) {
                    return Poll::Ready(read.map(Some));
                }
                if end.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Ok(Some(0)));
                }
                // Most requests are there at once, or after one wait.
                let due = *due.get_or_insert_with(|| Instant::now() + idle);
                alarm.poll(context, due).map(|()| Ok(None))
            });
            match read.await {
                Ok(Some(1..)) => {}
                Ok(Some(0)) | Err(_) => return Next::Nothing,
                Ok(None) => return Next::Overdue,
            }
            match read_head(self.came.bytes(), &mut parts.headers) {
                HeadRead::Plain(head) => {
                    let PlainHead {
                        method,
                        uri,
                        length,
                        body,
                        keeps,
                    } = head;
                    self.take(length);
                    (parts.method, parts.uri) = (method, uri);
                    let header = RequestHeader::from(parts);
                    return Next::Request {
                        header,
                        body,
                        keeps,
                    };
                }
                HeadRead::Other => return Next::Other(due.filter(|_| is_partial)),
                HeadRead::Partial if is_partial => {
                    // Bytes that always arrive must not put off the deadline either.
                    if due.is_some_and(|due| Instant::now() >= due) {
                        return Next::Overdue;
                    }
                }
                HeadRead::Partial => {
                    is_partial = true;
                    due = Some(Instant::now() + head);
                }
            }
        }
    }

    /// Takes back the memory of a head. Nothing of the request stays in it.
    pub(super) fn recycle(&mut self, header: RequestHeader) {
        let mut parts = Parts::from(header);
        // The target is a part of the whole head, key and all.
        (parts.method, parts.uri) = (Method::GET, Uri::default());
        parts.headers.clear();
        if parts.headers.capacity() > USUAL_HEADERS {
            parts.headers = HeaderMap::new();
        }
        parts.version = Version::HTTP_11;
        if parts.extensions.len() > 1 {
            let handover = parts.extensions.remove::<Weak<Handover>>();
            parts.extensions.clear();
            handover.map(|handover| parts.extensions.insert(handover));
        }
        self.spare = Some(parts);
    }

    /// Returns the stream, and the bytes that came on it and that nobody has taken.
    pub(super) fn into_stream(mut self) -> (Stream, Vec<u8>) {
        let came = self.came.bytes().to_vec();
        self.came.take(came.len());
        (self.stream, came)
    }

    /// Takes so many of the bytes that have come. Behind the request the memory is given back: its
    /// answer may be a long stream.
    fn take(&mut self, count: usize) {
        self.came.take(count);
        self.came.release();
    }

    /// Returns whether bytes have come that nobody has taken.
    pub(super) fn has_more(&self) -> bool {
        self.has_more_than(0)
    }

    /// Returns whether more bytes have come than so many.
    pub(super) fn has_more_than(&self, left: u64) -> bool {
        self.came.bytes().len() as u64 > left
    }

    /// Reads a piece of a body that has so many bytes left. An empty piece is the end of the
    /// connection. This future may be dropped before it is ready.
    pub(super) async fn read_piece(&mut self, left: u64) -> io::Result<Bytes> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if !self.has_more() {
            if left > pool::SIZE {
                let mut piece = BytesMut::with_capacity(left.min(PIECE));
                self.stream.read_buf(&mut (&mut piece).limit(left)).await?;
                return Ok(piece.freeze());
            }
            let Wire { stream, came, .. } = &mut *self;
            poll_fn(|context| came.poll_fill(stream, context)).await?;
        }
        let came = self.came.bytes();
        let piece = Bytes::copy_from_slice(came.get(..left).unwrap_or(came));
        self.take(piece.len());
        Ok(piece)
    }

    /// Reads some of so many bytes, and forgets them. Returns how many they were: zero at the end
    /// of the connection. Nothing behind them is read.
    pub(super) async fn skip(&mut self, left: u64) -> io::Result<usize> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if self.has_more() {
            let came = self.came.bytes().len().min(left);
            self.take(came);
            return Ok(came);
        }
        poll_fn(|context| {
            let mut unread = [0; 4096];
            let room = unread.len().min(left);
            let mut room = ReadBuf::new(unread.get_mut(..room).unwrap_or_default());
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut room))?;
            Poll::Ready(Ok(room.filled().len()))
        })
        .await
    }

    /// Is ready if the caller leaves, or sends more.
    pub(super) fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut byte = [0];
        let read = Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut byte));
        read.map(drop)
    }

    /// Returns the memory in which bytes wait to be written.
    pub(super) fn waiting(&mut self) -> &mut Vec<u8> {
        self.outbox.waiting()
    }

    /// Takes all of these bytes if they are few, to be sent by the next flush.
    pub(super) fn queue(&mut self, parts: &[&[u8]]) -> bool {
        self.outbox.queue(parts)
    }

    /// Returns whether nothing waits to be sent.
    pub(super) fn is_sent(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Sends all that waits, as far as the connection takes it now. Nothing is woken later.
    pub(super) fn flush_now(&mut self) -> Poll<io::Result<()>> {
        self.poll_flush(&mut Context::from_waker(Waker::noop()))
    }

    /// Writes all of these bytes, large ones in one call of the system. Few bytes wait until the
    /// next flush.
    pub(super) async fn write<const N: usize>(&mut self, mut parts: [&[u8]; N]) -> io::Result<()> {
        let Wire { stream, outbox, .. } = self;
        poll_fn(|context| {
            while parts.iter().any(|part| !part.is_empty()) {
                match ready!(outbox.poll_write(stream, context, &parts.map(IoSlice::new)))? {
                    0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                    written => skip_written(&mut parts, written),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Sends all that waits.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|context| self.poll_flush(context)).await
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Wire { stream, outbox, .. } = self;
        ready!(outbox.poll_empty(stream, context))?;
        Pin::new(stream).poll_flush(context)
    }

    /// Closes the connection as its fate is. This future is large.
    pub(super) async fn close(mut self, fate: Fate) {
        if fate == Fate::ClosesUnread {
            linger(&mut self.stream).await;
        }
        // With TLS, this writes. A caller who does not read must not hold it up.
        drop(tokio::time::timeout(DRAIN_UNREAD, Shutdown::shutdown(&mut *self.stream)).await);
    }
}

/// Leaves out of the parts as many bytes as were written of them.
fn skip_written(parts: &mut [&[u8]], mut written: usize) {
    for part in parts {
        let skipped = written.min(part.len());
        *part = part.get(skipped..).unwrap_or_default();
        written -= skipped;
    }
}

/// Ends what is written, and reads what the caller still sends.
pub(super) async fn linger(stream: &mut Stream) {
    let all = async {
        let mut unread = [0; 4096];
        AsyncWriteExt::shutdown(stream).await?;
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // A caller who sends for longer, or does not read, sees the reset.
    drop(tokio::time::timeout(DRAIN_UNREAD, all).await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio::io::duplex;

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_request_that_was_read_holds_no_buffer() {
        let handover = Arc::new(Handover::default());
        for body in [0, 5, 40_000] {
            let (mut far, near) = duplex(1 << 20);
            let mut wire = Wire::new(Box::new(near), &handover);
            let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {body}\r\n\r\n");
            let sent = [head.into_bytes(), vec![b'x'; body]].concat();
            now(far.write_all(&sent))
                .expect("there is room")
                .expect("a write");
            let time = Duration::from_secs(1);
            let next = now(wire.next_request(time, time, pin!(std::future::pending())));
            let Some(Next::Request {
                header,
                body: length,
                keeps,
            }) = next
            else {
                panic!("no request");
            };
            assert_eq!((length, keeps), (body as u64, true));
            let mut read = 0;
            while read < body {
                let left = (body - read) as u64;
                let piece = now(wire.read_piece(left))
                    .expect("it is there")
                    .expect("a read");
                assert!(!piece.is_empty() && piece.iter().all(|byte| *byte == b'x'));
                read += piece.len();
            }
            assert!(read == body && !wire.came.has_memory(), "{body}");
            wire.recycle(header);
        }
    }

    #[test]
    fn a_skipped_body_leaves_what_follows_it() {
        let handover = Arc::new(Handover::default());
        let (mut far, near) = duplex(1 << 20);
        let mut wire = Wire::new(Box::new(near), &handover);
        now(far.write_all(b"hello, world"))
            .expect("there is room")
            .expect("a write");
        let skipped = now(wire.skip(5)).expect("it is there").expect("a read");
        let rest = now(wire.read_piece(7))
            .expect("it is there")
            .expect("a read");
        assert_eq!((skipped, &rest[..]), (5, &b", world"[..]));
    }

    #[test]
    fn a_used_head_keeps_only_its_handover() {
        let handover = Arc::new(Handover::default());
        let (_far, near) = duplex(1);
        let mut wire = Wire::new(Box::new(near), &handover);
        let mut parts = wire.spare.take().expect("it is new");
        parts.extensions.insert(7_u8);
        parts
            .headers
            .insert("x", http::HeaderValue::from_static("y"));
        wire.recycle(RequestHeader::from(parts));
        let parts = wire.spare.take().expect("it is back");
        assert!(parts.headers.is_empty() && parts.extensions.get::<u8>().is_none());
        let weak = parts.extensions.get::<Weak<Handover>>();
        assert!(
            weak.and_then(Weak::upgrade)
                .is_some_and(|one| Arc::ptr_eq(&one, &handover))
        );
    }
}
