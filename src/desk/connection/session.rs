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

use super::framing::AnswerFraming;
use super::wire::{Fate, Handover, Wire};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONNECTION, DATE};
use http::{HeaderMap, Method};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::Digest;
use pingora::protocols::http::HttpTask;
use pingora::protocols::http::custom::CustomMessageWrite;
use pingora::protocols::http::custom::server::Session;
use pingora::protocols::http::date::get_cached_date;
use pingora::protocols::l4::socket::SocketAddr;
use pingora::{Error, ErrorType, Result};
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

type MessageReader =
    Box<dyn futures_core::Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>;

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

    async fn write_head(&mut self, mut head: Box<ResponseHeader>) -> Result<()> {
        if head.status.is_informational() {
            return self.write_informational(&head).await;
        }
        if self.written.is_some() {
            log::warn!("an answer has two heads; the second one is dropped");
            return Ok(());
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
        let wire = self.wire()?;
        let text = wire.waiting();
        push_first_line(text, &head);
        head.header_to_h1_wire(text);
        text.extend_from_slice(b"Date: ");
        text.extend_from_slice(get_cached_date().as_bytes());
        text.extend_from_slice(if is_last {
            b"\r\nConnection: close\r\n\r\n"
        } else {
            b"\r\nConnection: keep-alive\r\n\r\n"
        });
        // A body of known length follows at once. Others may begin later.
        if !matches!(self.framing, AnswerFraming::Length(_)) {
            self.wire()?.flush().await.map_err(write_error)?;
        }
        self.written = Some(head);
        Ok(())
    }

    async fn write_informational(&mut self, head: &ResponseHeader) -> Result<()> {
        if head.status == http::StatusCode::SWITCHING_PROTOCOLS || self.written.is_some() {
            return Err(closed("there is no other protocol, and no second head"));
        }
        let wire = self.wire()?;
        let text = wire.waiting();
        push_first_line(text, head);
        head.header_to_h1_wire(text);
        text.extend_from_slice(b"\r\n");
        wire.flush().await.map_err(write_error)
    }

    async fn write_part(&mut self, part: &[u8], is_last: bool) -> Result<()> {
        if self.written.is_none() {
            return Err(closed("an answer has no head"));
        }
        let (part, is_last) = match self.framing {
            AnswerFraming::Length(left) => {
                let part = usize::try_from(left)
                    .ok()
                    .and_then(|left| part.get(..left))
                    .unwrap_or(part);
                let left = left.saturating_sub(part.len() as u64);
                if is_last && left > 0 {
                    return Err(closed("the answer is shorter than its length"));
                }
                self.framing = AnswerFraming::Length(left);
                (part, left == 0)
            }
            AnswerFraming::Chunks | AnswerFraming::UntilClose => (part, is_last),
            AnswerFraming::Ended => return Ok(()),
        };
        let framing = self.framing;
        let wire = self.wire()?;
        let written = async {
            if framing == AnswerFraming::Chunks {
                return wire.write_chunk(part, is_last).await;
            }
            wire.write([part]).await?;
            let is_flushed = is_last || framing == AnswerFraming::UntilClose;
            if is_flushed {
                wire.flush().await
            } else {
                Ok(())
            }
        };
        written.await.map_err(write_error)?;
        self.sent_bytes += part.len();
        if is_last {
            self.framing = AnswerFraming::Ended;
        }
        Ok(())
    }

    /// Ends the session. The connection goes back to its loop, if the answer is whole.
    async fn end(&mut self) -> Result<()> {
        if self.written.is_none() || self.framing != AnswerFraming::Ended {
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

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, _: bool) -> Result<()> {
        self.write_head(head).await
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, _: bool) -> Result<()> {
        self.write_head(Box::new(head.clone())).await
    }

    async fn write_body(&mut self, part: Bytes, is_last: bool) -> Result<()> {
        self.write_part(&part, is_last).await
    }

    /// As in Pingora's session, HTTP/1 has no trailers.
    async fn write_trailers(&mut self, _: HeaderMap) -> Result<()> {
        Ok(())
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        for task in tasks {
            let (part, is_last) = match task {
                HttpTask::Header(head, is_last) => {
                    self.write_head(head).await?;
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
                self.write_part(&part, is_last).await?;
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

    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        // A stream waits here while it runs. The rare way must not make its future large.
        if self.left > 0 && !no_body_expected {
            return Box::pin(self.read_body()).await;
        }
        let wire = self.wire()?;
        poll_fn(|context| wire.poll_left(context)).await;
        Err(closed("the caller left before the answer's end"))
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
