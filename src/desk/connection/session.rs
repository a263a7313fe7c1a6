//! A [`PlainSession`] is one request with a plain head, and its answer, for Pingora: `ProxyHttp`
//! has it in place of Pingora's own session of HTTP/1.
//!
//! Pingora's own makes its maps, its buffers and its timers anew for each request. This one has
//! them from the connection, and leaves the timers to who reads and writes. Its request and its
//! answer are those of Pingora's session, with the same bytes. It differs in this:
//!
//! * An answer that is not written to its end closes the connection, whoever ends the session.
//! * Bytes that came in one read with a request, and are none of it, are never served: then the
//!   answer says `connection: close`. (Pingora's says `keep-alive`, and closes.)
//! * The rest of a refused body is read to its last byte, and no further: what comes later is the
//!   next request.
//! * There are no upgrades, no trailers, and nothing is kept to be read twice.

use super::framing::{AnswerFraming, FramedPart, TooShort};
use super::wire::{Fate, Handover, Wire};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONNECTION, DATE};
use http::{HeaderMap, Method, StatusCode};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::HttpTask;
use pingora::protocols::http::custom::CustomMessageWrite;
use pingora::protocols::http::custom::server::Session;
use pingora::protocols::http::date::get_cached_date;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::{Error, ErrorType, Result};
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

type MessageReader =
    Box<dyn futures_core::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>;

type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

/// The head of a session that is over.
static NO_HEADER: LazyLock<RequestHeader> = LazyLock::new(empty_header);

fn empty_header() -> RequestHeader {
    RequestHeader::from(http::Request::new(()).into_parts().0)
}

/// A request with a plain head, and its answer.
pub(super) struct PlainSession {
    handover: Arc<Handover>,
    /// Nothing after the session's end.
    wire: Option<Box<Wire>>,
    /// Nothing after the session's end.
    header: Option<RequestHeader>,
    /// The bytes of the request's body that were not read yet.
    left: u64,
    read_bytes: usize,
    /// The head of the answer, once it was written.
    written: Option<Box<ResponseHeader>>,
    framing: AnswerFraming,
    sent_bytes: usize,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    /// The time for the rest of the request's body, if an answer leaves before it was read.
    drain_timeout: Option<Duration>,
}

/// How much of a part was written at once.
enum WrittenAtOnce {
    All,
    /// All of it waits in the outbox, and must be sent.
    Queued,
    Nothing,
}

/// The future of a part that is written. It has no size, so that its box has no memory.
struct Written;

impl Future for Written {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The future of the caller's leaving, as small as it can be: a stream makes one for each piece.
struct Leaving<'w>(&'w mut Wire);

impl Future for Leaving<'_> {
    type Output = Result<Option<Bytes>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0
            .poll_left(context)
            .map(|()| Err(closed("the caller left before the answer's end")))
    }
}

impl PlainSession {
    /// Begins the session of a request with a body of so many bytes.
    pub(super) fn new(
        handover: Arc<Handover>,
        wire: Box<Wire>,
        header: RequestHeader,
        body: u64,
    ) -> PlainSession {
        PlainSession {
            handover,
            wire: Some(wire),
            header: Some(header),
            left: body,
            read_bytes: 0,
            written: None,
            framing: AnswerFraming::UntilClose,
            sent_bytes: 0,
            read_timeout: None,
            write_timeout: None,
            drain_timeout: None,
        }
    }

    fn wire(&mut self) -> Result<&mut Wire> {
        self.wire
            .as_deref_mut()
            .ok_or_else(|| closed("the session is over"))
    }

    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        let left = self.left;
        if left == 0 {
            return Ok(None);
        }
        let piece = self.wire()?.read_piece(left).await;
        let piece = piece.map_err(read_error)?;
        if piece.is_empty() {
            return Err(closed("the caller left before the body's end"));
        }
        self.left = left.saturating_sub(piece.len() as u64);
        self.read_bytes += piece.len();
        Ok(Some(piece))
    }

    /// Reads the rest of the body. The time for it is bounded.
    async fn drain_body(&mut self) -> Result<()> {
        let time = self.drain_timeout.or(self.read_timeout);
        let drained = tokio::time::timeout(time.unwrap_or_default(), async {
            while self.left > 0 {
                let left = self.left;
                let skipped = self.wire()?.skip(left).await.map_err(read_error)?;
                if skipped == 0 {
                    return Err(closed("the caller left before the body's end"));
                }
                self.left = left.saturating_sub(skipped as u64);
                self.read_bytes += skipped;
            }
            Ok(())
        });
        drained
            .await
            .unwrap_or_else(|_| Err(closed("the body's rest did not come in time")))
    }

    /// Queues a head. Returns whether it must be sent now.
    fn queue_head(&mut self, mut head: Box<ResponseHeader>) -> Result<bool> {
        if head.status.is_informational() {
            if head.status == StatusCode::SWITCHING_PROTOCOLS || self.written.is_some() {
                return Err(closed("there is no other protocol, and no second head"));
            }
            let text = self.wire()?.waiting();
            push_first_line(text, &head);
            head.header_to_h1_wire(text);
            text.extend_from_slice(b"\r\n");
            return Ok(true);
        }
        if self.written.is_some() {
            log::warn!("an answer has two heads; the second one is dropped");
            return Ok(false);
        }
        let is_bare = self.req_header().method == Method::HEAD;
        self.framing = AnswerFraming::of_head(is_bare, head.status, &head.headers);
        let is_unread = self.left > 0 && self.drain_timeout.is_none();
        let left = self.left;
        let has_more = self.wire()?.has_more_than(left);
        if is_unread || has_more || self.framing == AnswerFraming::UntilClose {
            self.handover.end_after_answer();
        }
        let is_last = self.handover.is_last();
        // Both are ours to write. Pingora's own errors have a date, which is none.
        for name in [DATE, CONNECTION] {
            head.remove_header(&name);
        }
        let text = self.wire()?.waiting();
        push_first_line(text, &head);
        head.header_to_h1_wire(text);
        text.extend_from_slice(b"Date: ");
        text.extend_from_slice(get_cached_date().as_bytes());
        text.extend_from_slice(if is_last {
            b"\r\nConnection: close\r\n\r\n"
        } else {
            b"\r\nConnection: keep-alive\r\n\r\n"
        });
        self.written = Some(head);
        // A body of known length follows at once. Others may begin later.
        Ok(!matches!(self.framing, AnswerFraming::Length(_)))
    }

    async fn flush(&mut self) -> Result<()> {
        self.wire()?.flush().await.map_err(write_error)
    }

    /// Sends all that waits, as far as the connection takes it now. Returns whether this was all.
    fn flush_now(&mut self) -> Result<bool> {
        match self.wire()?.flush_now() {
            Poll::Ready(flushed) => flushed.map(|()| true).map_err(write_error),
            Poll::Pending => Ok(false),
        }
    }

    /// Decides how a part of the body goes out. Returns `None` if the answer has ended.
    fn frame<'p>(&self, part: &'p [u8], is_last: bool) -> Result<Option<FramedPart<'p>>> {
        if self.written.is_none() {
            return Err(closed("an answer has no head"));
        }
        let framed = self.framing.frame(part, is_last);
        framed.map_err(|TooShort| closed("the answer is shorter than its length"))
    }

    /// Writes a part of the body if it is small and the connection takes it at once: a stream
    /// writes here again and again. `write_rest` writes what is left.
    fn write_at_once(&mut self, part: &[u8], is_last: bool) -> Result<WrittenAtOnce> {
        let Some(framed) = self.frame(part, is_last)? else {
            return Ok(WrittenAtOnce::All);
        };
        if !self.wire()?.queue(&framed.bytes()) {
            return Ok(WrittenAtOnce::Nothing);
        }
        if framed.is_flushed && !self.flush_now()? {
            return Ok(WrittenAtOnce::Queued);
        }
        self.note_written(framed.part.len(), framed.next);
        Ok(WrittenAtOnce::All)
    }

    /// Writes a part of the body, or sends it if it waits in the outbox.
    async fn write_rest(&mut self, part: &[u8], is_last: bool, is_queued: bool) -> Result<()> {
        let Some(framed) = self.frame(part, is_last)? else {
            return Ok(());
        };
        if !is_queued {
            let written = self.wire()?.write(framed.bytes()).await;
            written.map_err(write_error)?;
        }
        if framed.is_flushed {
            self.flush().await?;
        }
        self.note_written(framed.part.len(), framed.next);
        Ok(())
    }

    /// Notes that a part of so many bytes was written.
    fn note_written(&mut self, length: usize, next: AnswerFraming) {
        self.sent_bytes += length;
        self.framing = next;
    }

    /// Ends the session. The connection goes back to its loop, if the answer is whole.
    async fn end(&mut self) -> Result<()> {
        let is_sent = self.wire.as_ref().is_none_or(|wire| wire.is_sent());
        if self.written.is_none() || self.framing != AnswerFraming::Ended || !is_sent {
            self.wire = None;
            return Err(closed("the answer is not whole"));
        }
        if self.left > 0 && !self.handover.is_last() && Box::pin(self.drain_body()).await.is_err() {
            self.handover.end_after_answer();
        }
        let (Some(mut wire), Some(header)) = (self.wire.take(), self.header.take()) else {
            return Ok(());
        };
        wire.recycle(header);
        let fate = if self.left > 0 || wire.has_more() {
            Fate::ClosesUnread
        } else if self.handover.is_last() {
            Fate::Closes
        } else {
            Fate::Stays
        };
        self.handover.give_back(wire, fate);
        Ok(())
    }
}

/// Writes the first line of an answer.
fn push_first_line(text: &mut Vec<u8>, head: &ResponseHeader) {
    text.extend_from_slice(b"HTTP/1.1 ");
    text.extend_from_slice(head.status.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(head.get_reason_phrase().unwrap_or_default().as_bytes());
    text.extend_from_slice(b"\r\n");
}

fn closed(why: &'static str) -> Box<Error> {
    Error::explain(ErrorType::ConnectionClosed, why).into_down()
}

fn read_error(error: io::Error) -> Box<Error> {
    Error::because(ErrorType::ReadError, "from a caller", error).into_down()
}

fn write_error(error: io::Error) -> Box<Error> {
    Error::because(ErrorType::WriteError, "to a caller", error).into_down()
}

#[async_trait]
impl Session for PlainSession {
    fn req_header(&self) -> &RequestHeader {
        self.header.as_ref().unwrap_or(&NO_HEADER)
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        self.header.get_or_insert_with(empty_header)
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        self.read_body().await
    }

    async fn drain_request_body(&mut self) -> Result<()> {
        self.drain_body().await
    }

    // Three methods are not async, so that their boxes are small: what was written at once needs
    // none, and the wait for a caller who leaves needs one reference.
    fn write_response_header<'s, 'f>(
        &'s mut self,
        head: Box<ResponseHeader>,
        _: bool,
    ) -> BoxFuture<'f, Result<()>>
    where
        's: 'f,
        Self: 'f,
    {
        let is_done = self
            .queue_head(head)
            .and_then(|must_flush| Ok(!must_flush || self.flush_now()?));
        match is_done {
            Ok(true) => Box::pin(Written),
            Ok(false) => Box::pin(self.flush()),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, _: bool) -> Result<()> {
        self.write_response_header(Box::new(head.clone()), false)
            .await
    }

    fn write_body<'s, 'f>(&'s mut self, part: Bytes, is_last: bool) -> BoxFuture<'f, Result<()>>
    where
        's: 'f,
        Self: 'f,
    {
        let is_queued = match self.write_at_once(&part, is_last) {
            Ok(WrittenAtOnce::All) => return Box::pin(Written),
            Ok(WrittenAtOnce::Queued) => true,
            Ok(WrittenAtOnce::Nothing) => false,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        Box::pin(async move { self.write_rest(&part, is_last, is_queued).await })
    }

    /// As in Pingora's session, HTTP/1 has no trailers.
    async fn write_trailers(&mut self, _: HeaderMap) -> Result<()> {
        Ok(())
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        for task in tasks {
            let (part, is_last) = match task {
                HttpTask::Header(head, is_last) => {
                    self.write_response_header(head, false).await?;
                    (None, is_last)
                }
                HttpTask::Body(part, is_last) | HttpTask::UpgradedBody(part, is_last) => {
                    (part, is_last)
                }
                HttpTask::Trailer(_) | HttpTask::Done => (None, true),
                HttpTask::Failed(error) => return Err(error),
            };
            let part = part.unwrap_or_default();
            if is_last || !part.is_empty() {
                self.write_rest(&part, is_last, false).await?;
            }
        }
        Ok(self.written.is_some() && self.framing == AnswerFraming::Ended)
    }

    fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.read_timeout = timeout;
    }

    fn get_read_timeout(&self) -> Option<Duration> {
        self.read_timeout
    }

    fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.write_timeout = timeout;
    }

    fn get_write_timeout(&self) -> Option<Duration> {
        self.write_timeout
    }

    fn set_total_drain_timeout(&mut self, timeout: Option<Duration>) {
        self.drain_timeout = timeout;
    }

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        self.drain_timeout
    }

    fn request_summary(&self) -> String {
        let header = self.req_header();
        format!("{} {}", header.method, header.uri)
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.written.as_deref()
    }

    async fn shutdown(&mut self, _: u32, _: &str) {
        if let Some(wire) = self.wire.take() {
            Box::pin(wire.close(Fate::Closes)).await;
        }
    }

    fn is_body_done(&mut self) -> bool {
        self.left == 0
    }

    async fn finish(&mut self) -> Result<()> {
        self.end().await
    }

    fn is_body_empty(&mut self) -> bool {
        self.left == 0 && self.read_bytes == 0
    }

    fn read_body_or_idle<'s, 'f>(
        &'s mut self,
        no_body_expected: bool,
    ) -> BoxFuture<'f, Result<Option<Bytes>>>
    where
        's: 'f,
        Self: 'f,
    {
        if self.left > 0 && !no_body_expected {
            return Box::pin(self.read_body());
        }
        match self.wire() {
            Ok(wire) => Box::pin(Leaving(wire)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn body_bytes_sent(&self) -> usize {
        self.sent_bytes
    }

    fn body_bytes_read(&self) -> usize {
        self.read_bytes
    }

    fn digest(&self) -> Option<&Digest> {
        self.wire.as_ref().map(|wire| &wire.digest)
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        self.wire.as_mut().map(|wire| &mut wire.digest)
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        self.digest()?.socket_digest.as_ref()?.peer_addr()
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        self.digest()?.socket_digest.as_ref()?.local_addr()
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        Bytes::new()
    }

    fn enable_retry_buffering(&mut self) {}

    fn retry_buffer_truncated(&self) -> bool {
        true
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        None
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(&mut self) -> Option<MessageReader> {
        None
    }

    fn restore_custom_message_reader(&mut self, _: MessageReader) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }
}
