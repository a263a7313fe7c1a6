//! An attempt is one try at one account: connect, send, read the head, read the body.
//!
//! Every wait has a deadline of ours. Pingora's own deadlines are per read, so an upstream that
//! sends a byte at a time defeats them. **Invariant:** an [`Attempt`] is a guard. If it is dropped
//! half-way, it closes its HTTP/1 connection, or resets its HTTP/2 stream. Only
//! [`Attempt::finish`], after a whole answer, keeps the connection for the next request.

use super::headers::AnswerHeaders;
use super::http1::{AnswerReader, HeadFault};
use super::outgoing::Outgoing;
use super::upload::Slice;
use super::upstream::{Connection, Upstream};
use crate::account::failure::Failure;
use crate::account::{Permit, quota};
use crate::base::alarm::Alarm;
use crate::live::ready_account::ReadyAccount;
use bytes::Bytes;
use dialects::front::Front;
use dialects::upstream::demo;
use dialects::{Dialect, ErrorHead};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use pingora::protocols::Stream;
use pingora::protocols::http::v2::client::Http2Session as Http2;
use pingora::{BError, ErrorType, RetryType};
use std::collections::VecDeque;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep_until};

/// If a reused connection ends within this time of the request's last byte, it was closed before
/// the request was looked at.
const STALE_PERIOD: Duration = Duration::from_millis(500);
/// The size of the slices in which the request is sent. Each slice has its own deadline.
const SLICE_BYTES: usize = 64 * 1024;
/// The time after a failed write in which the upstream may still send the reason.
const LATE_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// The time for the end of a connection that is not kept.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(20);
/// The most bytes of an error body that are read. If it is longer, its connection is not kept.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The longest time for which an error body is read.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// One try at one account.
pub struct Attempt {
    wire: Wire,
    /// The account that is tried.
    pub ready_account: Arc<ReadyAccount>,
    permit: Option<Arc<Permit>>,
    reused: bool,
    /// True if the whole request was written. Otherwise the connection is not kept.
    sent_whole: bool,
    /// True if the HTTP/2 head could not be read. Then `drop` does not take the connection out of
    /// use: it is gone, or the other side has answered.
    head_failed: bool,
    /// The time until there was a connection.
    pub connected: Duration,
    /// The time at which the request's last byte was sent. Before that: with HTTP/2 the time at
    /// which sending began, else the time at which the attempt began.
    pub sent: Instant,
}

enum Wire {
    Http1(AnswerReader),
    Http2(Box<Http2>),
    Demo(Demo),
    Spent,
}

/// The rest of the demo account's answer.
struct Demo {
    status: StatusCode,
    headers: HeaderMap,
    pieces: VecDeque<demo::Piece>,
    /// The time at which the first piece is due. It is set when somebody waits for the piece.
    first_piece_at: Option<Instant>,
    /// True if the connection breaks after the pieces.
    breaks: bool,
}

/// A piece of the answer's body.
pub enum Chunk<'a> {
    /// The piece is in the reader's buffer.
    Borrowed(&'a [u8]),
    /// The piece has memory of its own.
    Owned(Bytes),
}

impl Deref for Chunk<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Chunk::Borrowed(bytes) => bytes,
            Chunk::Owned(bytes) => bytes,
        }
    }
}

impl Attempt {
    /// Connects and sends the request.
    pub async fn connect_and_send(
        upstream: &Upstream,
        ready_account: &Arc<ReadyAccount>,
        permit: Arc<Permit>,
        outgoing: &Outgoing<'_>,
        alarm: &mut Alarm,
    ) -> Result<Attempt, Failure> {
        let began = Instant::now();
        let due = outgoing.total.min(began + outgoing.timeouts.connect);
        let connected = match Upstream::ready_connection(ready_account, outgoing.reuse) {
            Some(ready) => Ok(ready),
            // The future is boxed: a new connection is rare, and its future would make every
            // exchange twenty kilobytes larger.
            None => Box::pin(upstream.dial(ready_account, outgoing.reuse, due, alarm)).await,
        };
        let (connection, reused) = connected.map_err(|failure| {
            if Instant::now() >= outgoing.total {
                Failure::TotalTimeout
            } else {
                failure
            }
        })?;
        let mut attempt = Attempt {
            wire: Wire::Spent,
            ready_account: ready_account.clone(),
            permit: Some(permit),
            reused,
            sent_whole: false,
            head_failed: false,
            connected: began.elapsed(),
            sent: began,
        };
        match connection {
            Connection::Http1(stream) => attempt.send_http1(stream, outgoing, alarm).await?,
            Connection::Http2(stream) => attempt.send_http2(stream, outgoing, alarm).await?,
            Connection::Demo => {
                let (body, length) = (outgoing.body.concat(), outgoing.length());
                let reply = demo::demo_reply(outgoing.path, &body, length, outgoing.stream);
                let Some(reply) = reply else {
                    let why = "this model of the demo is always down";
                    return Err(Failure::Unreachable(why.to_owned()));
                };
                attempt.wire = Wire::Demo(reply.into());
                attempt.sent_whole = true;
                attempt.sent = Instant::now();
            }
        }
        Ok(attempt)
    }

    /// Sends the request's head and body, in one write if they are small.
    async fn send_http1(
        &mut self,
        mut stream: Stream,
        outgoing: &Outgoing<'_>,
        alarm: &mut Alarm,
    ) -> Result<(), Failure> {
        let length = outgoing.length();
        let is_one_write = length <= SLICE_BYTES && outgoing.upload.is_none();
        let room = if is_one_write { length } else { 0 };
        let mut head = outgoing.head(&self.ready_account, room);
        if is_one_write {
            outgoing
                .body
                .iter()
                .for_each(|part| head.extend_from_slice(part));
        }
        let mut written =
            write_in_time(outgoing, alarm, pin!(write_and_flush(&mut stream, &head))).await;
        if !is_one_write && written.is_ok() {
            for slice in outgoing.slices(SLICE_BYTES) {
                let slice = slice.read().await?;
                written =
                    write_in_time(outgoing, alarm, pin!(write_and_flush(&mut stream, &slice)))
                        .await;
                if written.is_err() {
                    break;
                }
            }
        }
        self.wire = Wire::Http1(AnswerReader::new(stream));
        self.after_write(written, alarm).await
    }

    async fn send_http2(
        &mut self,
        stream: Box<Http2>,
        outgoing: &Outgoing<'_>,
        alarm: &mut Alarm,
    ) -> Result<(), Failure> {
        let header = outgoing
            .header(&self.ready_account.account)
            .map_err(|e| Failure::Nonsense(e.to_string()))?;
        self.wire = Wire::Http2(stream);
        // If this future is dropped before the last byte is sent, `drop` must not take it for a
        // long wait.
        self.sent = Instant::now();
        let Wire::Http2(wire) = &mut self.wire else {
            return Err(Failure::Reset);
        };
        if wire.write_request_header(Box::new(header), false).is_err() {
            return Err(self.stale_or(Failure::Reset));
        }
        let mut written = Ok(());
        // The empty slice ends the stream.
        for slice in outgoing
            .slices(SLICE_BYTES)
            .chain([Slice::InMemory(Bytes::new())])
        {
            let slice = slice.read().await?;
            let end = slice.is_empty();
            written =
                write_in_time(outgoing, alarm, pin!(wire.write_request_body(slice, end))).await;
            if written.is_err() {
                break;
            }
        }
        self.after_write(written, alarm).await
    }

    /// Notes whether the whole request was written. After a failed write it reads the head, and
    /// leaves it for [`Attempt::head`]: an early 413 or 429 says more than "reset".
    async fn after_write(
        &mut self,
        written: Result<(), Failure>,
        alarm: &mut Alarm,
    ) -> Result<(), Failure> {
        self.sent_whole = written.is_ok();
        self.sent = Instant::now();
        let Err(failure) = written else { return Ok(()) };
        let read = alarm
            .until(Instant::now() + LATE_ANSWER_TIMEOUT, pin!(self.read_head()))
            .await;
        match read {
            Some(Ok(())) => Ok(()),
            Some(Err(Failure::Stale)) => Err(Failure::Stale),
            Some(Err(_)) | None => Err(self.stale_or(failure)),
        }
    }

    /// Returns the answer's status and headers. Reads them first if they were not read yet.
    pub async fn head(&mut self) -> Result<(StatusCode, AnswerHeaders<'_>), Failure> {
        if self.response().is_none()
            && let Err(failure) = self.read_head().await
        {
            return Err(self.stale_or(failure));
        }
        self.response().ok_or(Failure::Reset)
    }

    /// Returns the answer's status and headers, if they come before `due`.
    pub async fn head_until(
        &mut self,
        due: Instant,
        alarm: &mut Alarm,
    ) -> Result<(StatusCode, AnswerHeaders<'_>), Failure> {
        let head = alarm.until(due, pin!(self.head())).await;
        head.ok_or(Failure::TotalTimeout)?
    }

    fn response(&self) -> Option<(StatusCode, AnswerHeaders<'_>)> {
        let (status, headers) = match &self.wire {
            Wire::Http1(answer) => {
                return answer
                    .head()
                    .map(|head| (head.status, AnswerHeaders::Http1(head)));
            }
            Wire::Http2(wire) => wire.response_header().map(|h| (h.status, &h.headers))?,
            Wire::Demo(demo) => (demo.status, &demo.headers),
            Wire::Spent => return None,
        };
        Some((status, AnswerHeaders::Map(headers)))
    }

    async fn read_head(&mut self) -> Result<(), Failure> {
        match &mut self.wire {
            Wire::Http1(answer) => answer.read_head().await.map_err(|fault| {
                // If an answer has begun, the upstream has looked at the request.
                self.reused &= !answer.has_begun();
                match fault {
                    HeadFault::Cut => Failure::Reset,
                    HeadFault::Nonsense(why) => Failure::Nonsense(why.to_owned()),
                }
            }),
            Wire::Http2(wire) => wire.read_response_header().await.map_err(|e| {
                self.head_failed = true;
                if is_unread(&e) {
                    return Failure::Stale;
                }
                // If only the stream was reset, the connection was not stale: the upstream has
                // looked at the request.
                self.reused &= e.etype() != &ErrorType::H2Error;
                head_failure(&e)
            }),
            Wire::Demo(_) => Ok(()),
            Wire::Spent => Err(Failure::Reset),
        }
    }

    /// Returns the next piece of the body; `None` at its end.
    ///
    /// **Invariant:** this future may be dropped before it is ready. Nothing is lost then, and the
    /// next call reads on. This is needed: the future is polled once to see whether a piece has
    /// come already, and a deadline drops it. So each wire has all of its state outside of the
    /// future, and takes a piece only in the poll that returns it.
    pub async fn read(&mut self) -> Result<Option<Chunk<'_>>, Failure> {
        match &mut self.wire {
            Wire::Http1(answer) => answer
                .read()
                .await
                .map(|bytes| bytes.map(Chunk::Borrowed))
                .map_err(|_| Failure::Cut),
            // Pingora 0.9.1, `Http2Session::read_response_body`: it awaits only `RecvStream::data`
            // of h2, a `poll_fn` without state of its own; the connection's task holds the frames.
            // The window is opened again in the poll that returns a frame.
            Wire::Http2(wire) => wire
                .read_response_body()
                .await
                .map(|bytes| bytes.map(Chunk::Owned))
                .map_err(|_| Failure::Cut),
            Wire::Demo(demo) => match demo.next_piece().await {
                None if demo.breaks => Err(Failure::Cut),
                bytes => Ok(bytes.map(|bytes| Chunk::Owned(bytes.into()))),
            },
            Wire::Spent => Ok(None),
        }
    }

    /// Returns the rest of the body, of at most so many bytes.
    pub async fn read_rest(
        &mut self,
        max_bytes: usize,
        due: Instant,
        alarm: &mut Alarm,
    ) -> Result<Vec<u8>, Failure> {
        let mut rest = Vec::new();
        while let Some(chunk) = alarm
            .until(due, pin!(self.read()))
            .await
            .ok_or(Failure::TotalTimeout)??
        {
            if rest.len() + chunk.len() > max_bytes {
                return Err(Failure::Nonsense(
                    "an answer that is too long for what was asked".to_owned(),
                ));
            }
            rest.extend_from_slice(&chunk);
        }
        Ok(rest)
    }

    /// Reads the body of an answer whose status is not 200, and returns the failure that it means.
    /// The body is in the dialect in which the upstream was asked.
    pub async fn read_refusal(
        mut self,
        dialect: &Dialect,
        front: &Front,
        total: Instant,
        alarm: &mut Alarm,
    ) -> Failure {
        let error_type = dialect.protocol.error_type;
        let Some((status, headers)) = self.response() else {
            return Failure::Reset;
        };
        let text = |name: &str| headers.text(name);
        let sent_status = status.as_u16();
        let retry_after = quota::retry_after(text, SystemTime::now());
        let content_type = text("content-type").map(str::to_owned);
        let error_type = error_type.and_then(text).map(str::to_owned);
        let mut body = Vec::new();
        let due = total.min(Instant::now() + ERROR_BODY_TIMEOUT);
        let whole = loop {
            match alarm.until(due, pin!(self.read())).await {
                Some(Ok(None)) => break true,
                Some(Ok(Some(chunk))) if body.len() + chunk.len() <= MAX_ERROR_BODY => {
                    body.extend_from_slice(&chunk)
                }
                Some(_) | None => break false,
            }
        };
        let head = ErrorHead {
            status: sent_status,
            content_type: content_type.as_deref(),
            error_type: error_type.as_deref(),
        };
        let error = Box::new(dialect.error(front, &head, &body));
        let status = dialect.true_status(sent_status, &error);
        if whole {
            self.finish().await;
        }
        Failure::Status {
            status,
            seen: sent_status,
            retry_after: retry_after.or(error.retry_after),
            error,
        }
    }

    /// Frees the place at the account, since the answer is whole, whatever becomes of the
    /// connection.
    pub fn release(&mut self) {
        self.permit = None;
    }

    /// Keeps the connection after a whole answer, if it can be used again.
    pub async fn finish(mut self) {
        if let Wire::Http1(answer) = std::mem::replace(&mut self.wire, Wire::Spent)
            && self.sent_whole
        {
            match answer.finish() {
                Ok(stream) => self
                    .ready_account
                    .state
                    .http1
                    .put(stream, self.ready_account.account.fingerprint),
                // The connection is closed properly, but nobody waits long for that.
                Err(mut stream) => {
                    drop(tokio::time::timeout(CLOSE_TIMEOUT, stream.shutdown()).await)
                }
            }
        }
    }

    /// Returns whether all of the body was read.
    pub fn is_done(&mut self) -> bool {
        match &mut self.wire {
            Wire::Http1(answer) => answer.is_done(),
            Wire::Http2(wire) => wire.response_finished(),
            Wire::Demo(demo) => demo.pieces.is_empty() && !demo.breaks,
            Wire::Spent => true,
        }
    }

    /// Returns [`Failure::Stale`] for a reset that came so soon on a reused connection that the
    /// request was not looked at; any other failure stays.
    fn stale_or(&self, failure: Failure) -> Failure {
        if failure == Failure::Reset && self.reused && self.sent.elapsed() <= STALE_PERIOD {
            Failure::Stale
        } else {
            failure
        }
    }
}

impl From<demo::Reply> for Demo {
    fn from(reply: demo::Reply) -> Demo {
        let mut headers = HeaderMap::from_iter([(
            header::CONTENT_TYPE,
            HeaderValue::from_static(reply.content_type),
        )]);
        headers.extend(
            reply
                .retry_after
                .map(|seconds| (header::RETRY_AFTER, seconds.into())),
        );
        Demo {
            status: StatusCode::from_u16(reply.status).unwrap_or_default(),
            headers,
            pieces: reply.pieces.into(),
            first_piece_at: None,
            breaks: reply.breaks,
        }
    }
}

impl Demo {
    /// Returns the next piece, at its time. The piece is taken after the wait; until then only its
    /// time is stored.
    async fn next_piece(&mut self) -> Option<Vec<u8>> {
        let pause = self.pieces.front()?.pause;
        if !pause.is_zero() {
            sleep_until(
                *self
                    .first_piece_at
                    .get_or_insert_with(|| Instant::now() + pause),
            )
            .await;
            self.first_piece_at = None;
        }
        self.pieces.pop_front().map(|piece| piece.bytes)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Wire::Http2(stream) = &mut self.wire {
            // As with HTTP/1, no request is sent on a connection on which another one has waited in
            // vain: the other side may be gone. Other streams of the connection go on. An attempt
            // that is dropped at once has not waited.
            if stream.response_header().is_none()
                && !self.head_failed
                && self.sent.elapsed() >= STALE_PERIOD
            {
                stream.conn.mark_shutdown();
            }
            // This resets a stream that is not whole, and leaves a whole one as it is.
            stream.shutdown();
        }
    }
}

async fn write_and_flush(stream: &mut Stream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Waits for a write, as long as the upstream may take to read.
async fn write_in_time<E>(
    outgoing: &Outgoing<'_>,
    alarm: &mut Alarm,
    write: Pin<&mut impl Future<Output = Result<(), E>>>,
) -> Result<(), Failure> {
    match alarm
        .until(
            outgoing.total.min(Instant::now() + outgoing.timeouts.idle),
            write,
        )
        .await
    {
        Some(Ok(())) => Ok(()),
        Some(Err(_)) => Err(Failure::Reset),
        None if Instant::now() >= outgoing.total => Err(Failure::TotalTimeout),
        None => Err(Failure::SendTimeout),
    }
}

/// Returns the failure for an error that comes while the head is awaited.
fn head_failure(error: &BError) -> Failure {
    if matches!(
        error.etype(),
        ErrorType::InvalidHTTPHeader | ErrorType::H1Error | ErrorType::InvalidH2
    ) {
        return Failure::Nonsense("no HTTP response".to_owned());
    }
    Failure::Reset
}

/// Returns whether the upstream says that it did not look at the request: by `REFUSED_STREAM`, or
/// by a GOAWAY that leaves the stream out. This counts on any connection, and however late it
/// comes.
fn is_unread(error: &BError) -> bool {
    error.etype() == &ErrorType::H2Error && matches!(error.retry, RetryType::Decided(true))
}

#[cfg(test)]
pub(in crate::exchange) mod tests;
