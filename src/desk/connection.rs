//! [`Connections`] counts and times the connections of callers, around the proxy. It adds four
//! things:
//!
//! * A cap on the number of connections. Neither Pingora's settings nor its connection filter can
//!   count them.
//! * A session of HTTP/1.1 of our own, for requests with plain heads: [`head`] has which they are.
//!   It leaves less memory to touch than Pingora's. From the first other request on, the connection
//!   is Pingora's, with the bytes that came.
//! * A deadline for a request's head. Pingora bounds the time of each byte, but not of the whole
//!   head: a caller who sends a byte at a time would hold a place for ever.
//! * The answer to a head that Pingora cannot read. Pingora answers it with an empty 400, before
//!   there is a request. Our answer replaces that one, and has its access line.

mod framing;
pub mod head;
mod inside;
mod misread;
mod outbox;
mod session;
mod wire;

pub use inside::{CallersRuntime, InternalConnector};

use crate::base::alarm::Alarm;
use crate::conf::config::Server;
use crate::desk::record::{Books, Record};
use crate::desk::{auth, request_id};
use crate::drain::Phase;
use async_trait::async_trait;
use bytes::{Buf, Bytes};
use dialects::front::Front;
use http::HeaderMap;
use misread::HeadBytes;
use outbox::Outbox;
use pingora::apps::{HttpServerApp, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::SslDigest;
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl,
    Stream, TimingDigest, UniqueID, UniqueIDType,
};
use pingora::server::ShutdownWatch;
use pingora_proxy::Session;
use session::PlainSession;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use wire::{Fate, Handover, Next, Wire, linger};

/// The proxy behind its cap and its deadlines.
pub struct Connections<P> {
    proxy: Arc<P>,
    permits: Arc<Semaphore>,
    settings: Arc<Server>,
    books: Arc<Books>,
    home: CallersRuntime,
}

impl<P> Connections<P> {
    /// Puts a cap on this proxy's connections. All listeners share `permits`.
    pub fn new(
        proxy: P,
        permits: Arc<Semaphore>,
        settings: Arc<Server>,
        books: Arc<Books>,
    ) -> Connections<P> {
        Connections {
            proxy: Arc::new(proxy),
            permits,
            settings,
            books,
            home: CallersRuntime::default(),
        }
    }

    /// Lets the first connection note the callers' runtime in this cell, for [`InternalConnector`].
    pub fn with_runtime(self, home: CallersRuntime) -> Connections<P> {
        Connections { home, ..self }
    }
}

impl<P: HttpServerApp + Send + Sync + 'static> Connections<P> {
    /// Serves a connection until it ends.
    async fn serve(&self, stream: Stream, shutdown: &ShutdownWatch) {
        // Connections of HTTP/2 have deadlines of their own.
        let stream = if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            stream
        } else {
            match self.serve_plain(stream, shutdown).await {
                Some(others) => others,
                None => return,
            }
        };
        ServerApp::process_new(&self.proxy, stream, shutdown).await;
    }

    /// Serves requests with plain heads. Returns the connection if a request has come that is not
    /// ours to read.
    async fn serve_plain(&self, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let timeouts = &self.settings.timeouts;
        let handover = Arc::new(Handover::default());
        let mut wire = Box::new(Wire::new(stream, &handover));
        let mut is_over = pin!(self.books.drain.wait_for_phase(Phase::Draining));
        let mut idle = timeouts.client_read;
        let mut may_be_http2 = true;
        loop {
            let next = wire.next_request(idle, timeouts.client_read, is_over.as_mut());
            let (header, body) = match next.await {
                Next::Request {
                    header,
                    body,
                    keeps,
                } => {
                    if !keeps {
                        handover.end_after_answer();
                    }
                    (header, body)
                }
                Next::Other(due) => {
                    let (stream, came) = wire.into_stream();
                    let (settings, books) = (self.settings.clone(), self.books.clone());
                    let mut others = Timed::new(stream, settings, books, came, due);
                    others.may_be_http2 = may_be_http2;
                    return Some(Box::new(others));
                }
                Next::Nothing => return None,
                Next::Overdue => {
                    Box::pin(wire.close(Fate::Closes)).await;
                    return None;
                }
            };
            let session = PlainSession::new(handover.clone(), wire, header, body);
            let session = ServerSession::new_custom(Box::new(session));
            self.proxy.process_new_http(session, shutdown).await;
            // `None`: the answer is not whole, so the session kept the connection and dropped it.
            // That closes it.
            let (back, fate) = handover.take()?;
            if fate != Fate::Stays {
                Box::pin(back.close(fate)).await;
                return None;
            }
            wire = back;
            may_be_http2 = false;
            idle = timeouts.keepalive.max(LEAST_IDLE);
        }
    }
}

#[async_trait]
impl<P: HttpServerApp + Send + Sync + 'static> ServerApp for Connections<P> {
    async fn process_new(
        self: &Arc<Self>,
        stream: Stream,
        shutdown: &ShutdownWatch,
    ) -> Option<Stream> {
        self.home.get_or_init(Handle::current);
        let refuse = || self.books.metrics.process.refused_connections.inc();
        if !self.books.descriptors.is_within(stream.id()) {
            self.books.descriptors.note_lack();
            refuse();
            return None;
        }
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            refuse();
            return None;
        };
        // The task that has accepted the connection holds the memory of a handshake as long as it
        // lives. So it ends here, and another one serves the connection. The runtime of the
        // listeners is the owner of both. The drain counts their exchanges.
        let (connections, shutdown) = (self.clone(), shutdown.clone());
        Handle::current().spawn(async move {
            // However this task ends, by a panic too, the place is free again.
            let _permit = permit;
            connections.serve(stream, &shutdown).await;
        });
        None
    }

    async fn cleanup(&self) {
        self.proxy.http_cleanup().await;
    }
}

/// Notes at the connection of a session which phase begins.
pub fn enter_phase(session: &Session, phase: u8) {
    // A stream of HTTP/2 has no such connection. On a listener that is not ours, the connection has
    // another type.
    if let Some(timed) = session
        .as_downstream()
        .stream()
        .and_then(|stream| (**stream).as_any().downcast_ref::<Timed>())
    {
        timed.phase.store(phase, Ordering::Release);
    }
}

/// Makes the answer that is under way the last one of its connection.
pub fn end_after_answer(session: &mut Session) {
    session.set_keepalive(None);
    let handover = session.req_header().extensions.get::<Weak<Handover>>();
    if let Some(handover) = handover.and_then(Weak::upgrade) {
        handover.end_after_answer();
    }
}

/// The least time for which a connection waits for another request.
const LEAST_IDLE: Duration = Duration::from_secs(1);

/// The phase in which a head is awaited or read.
const HEAD: u8 = 0;
/// The phase in which a request runs. The deadlines of its exchange apply.
pub const BUSY: u8 = 1;
/// The phase after a request's end. The next thing to come is another head.
pub const OVER: u8 = 2;

/// The beginning of Pingora's own answer to a head that it cannot read.
const MISREAD: &[u8] = b"HTTP/1.1 400 ";

/// A connection with requests that are not ours to read. Their heads must come in time: within
/// `client_read`, from the first byte on. (After an answer the connection is idle, which Pingora
/// bounds.)
struct Timed {
    stream: Stream,
    settings: Arc<Server>,
    books: Arc<Books>,
    phase: AtomicU8,
    /// True if the head's first byte has come.
    has_begun: bool,
    /// The bytes that have come beforehand, and are not read yet.
    peeked: Vec<u8>,
    /// The deadline of the first head, if its first byte came a while ago.
    first_due: Option<Instant>,
    due: Instant,
    alarm: Alarm,
    /// The head that is being read.
    head: HeadBytes,
    /// The bytes that are written, and not sent yet.
    outbox: Outbox,
    /// True until a request of HTTP/1 was served: only then may HTTP/2 begin.
    may_be_http2: bool,
    /// The rest of the answer to a head that could not be read. This answer replaces Pingora's own.
    refusal: Option<Bytes>,
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl Timed {
    /// Takes a connection on which these bytes have come. The rest of their head is due as it is
    /// stated, or as if they came now.
    fn new(
        stream: Stream,
        settings: Arc<Server>,
        books: Arc<Books>,
        came: Vec<u8>,
        first_due: Option<Instant>,
    ) -> Timed {
        Timed {
            first_due,
            due: first_due.unwrap_or_else(|| Instant::now() + settings.timeouts.client_read),
            stream,
            settings,
            books,
            phase: AtomicU8::new(OVER),
            has_begun: false,
            peeked: came,
            alarm: Alarm::default(),
            head: HeadBytes::default(),
            outbox: Outbox::default(),
            may_be_http2: true,
            refusal: None,
        }
    }

    /// Reads bytes, first those that were looked at beforehand.
    fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.peeked.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let some = self.peeked.len().min(buf.remaining());
        buf.put_slice(self.peeked.get(..some).unwrap_or_default());
        self.peeked.drain(..some);
        if self.peeked.is_empty() {
            self.peeked = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the answer to a head that cannot be read. It is an exchange like any other, and ends
    /// with this answer.
    fn refuse(&self) -> Vec<u8> {
        let refusal = self.head.fault();
        let (method, path) = self.head.method_and_path();
        let mut record = Record::new(self.books.clone());
        // Only the path is known: the query is cut off, and the headers were not read.
        record.front = Front::for_path(path, None, &|_| false);
        if let Some(began) = self
            .due
            .into_std()
            .checked_sub(self.settings.timeouts.client_read)
            .filter(|_| self.has_begun)
        {
            record.began = began;
        }
        record.facts.request.id = request_id::make_request_id();
        (record.facts.request.method, record.facts.request.path) =
            (method.to_owned(), request_id::display_text(path).into());
        let peer = self
            .stream
            .get_socket_digest()
            .and_then(|digest| Some(digest.peer_addr()?.as_inet()?.ip()));
        record.facts.sender.address = auth::caller_address(&self.settings, peer, &HeaderMap::new());
        record.facts.answer.status = refusal.status(record.front);
        let bare = method == "HEAD";
        let body = refusal.body(record.front, &record.facts.request.id);
        record.facts.answer.bytes = if bare { 0 } else { body.len() as u64 };
        record.record_refusal(&refusal);
        misread::write_answer(
            record.facts.answer.status,
            &record.facts.request.id,
            &body,
            bare,
            SystemTime::now(),
        )
    }

    /// Writes the answer to a head that cannot be read. Returns the length of Pingora's own answer,
    /// as if that one had been written.
    fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        replaced_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        if self.refusal.is_none() {
            self.refusal = Some(self.refuse().into());
        }
        ready!(self.outbox.poll_empty(&mut self.stream, cx))?;
        while let Some(rest) = self.refusal.as_mut().filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                written => rest.advance(written),
            }
        }
        Poll::Ready(Ok(replaced_bytes))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let phase = *this.phase.get_mut();
        if phase == BUSY {
            return this.poll_bytes(cx, buf);
        }
        if phase == OVER {
            *this.phase.get_mut() = HEAD;
            this.has_begun = false;
            this.head.clear();
        }
        let before = buf.filled().len();
        let read = this.poll_bytes(cx, buf)?;
        this.head
            .note(buf.filled().get(before..).unwrap_or_default());
        if read.is_ready() && !this.has_begun && buf.filled().len() > before {
            this.has_begun = true;
            let first_due = this.first_due.take();
            this.due =
                first_due.unwrap_or_else(|| Instant::now() + this.settings.timeouts.client_read);
            return Poll::Ready(Ok(()));
        }
        // Bytes that always arrive must not put off the deadline either. Before the first byte of
        // another head, Pingora's own deadline applies.
        let overdue = this.has_begun
            && if read.is_ready() {
                Instant::now() >= this.due
            } else {
                this.alarm.poll(cx, this.due).is_ready()
            };
        if overdue {
            Poll::Ready(Err(ErrorKind::TimedOut.into()))
        } else {
            read.map(Ok)
        }
    }
}

#[async_trait]
impl Peek for Timed {
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        // A short head of HTTP/1 must not wait for more bytes than it has.
        while self.may_be_http2
            && self.peeked.len() < buf.len()
            && PREFACE.starts_with(&self.peeked)
        {
            let mut more = vec![0; buf.len() - self.peeked.len()];
            let read = timeout_at(self.due, self.stream.read(&mut more)).await??;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.peeked
                .extend_from_slice(more.get(..read).unwrap_or_default());
        }
        buf.fill(0);
        if self.may_be_http2 {
            buf.iter_mut()
                .zip(&self.peeked)
                .for_each(|(to, from)| *to = *from);
        }
        if buf.starts_with(PREFACE) {
            // Connections of HTTP/2 have deadlines of their own.
            *self.phase.get_mut() = BUSY;
        }
        Ok(true)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // Our own answers are written while a request runs.
        if *this.phase.get_mut() != BUSY && (this.refusal.is_some() || buf.starts_with(MISREAD)) {
            return this.poll_refuse(cx, buf.len());
        }
        this.outbox
            .poll_write(&mut this.stream, cx, &[IoSlice::new(buf)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.outbox.poll_empty(&mut this.stream, cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.outbox.poll_empty(&mut this.stream, cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.outbox.poll_write(&mut this.stream, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[async_trait]
impl Shutdown for Timed {
    async fn shutdown(&mut self) {
        if self.refusal.is_some() {
            // The caller may still be sending: read it for a while, so that the caller sees the
            // answer and not a reset.
            linger(&mut self.stream).await;
        }
        let time = self.settings.timeouts.client_write;
        if !self.outbox.is_empty() && !matches!(timeout(time, self.flush()).await, Ok(Ok(()))) {
            log::debug!("a caller left before the last bytes of an answer were sent");
        }
        // With TLS, this writes. A caller who does not read must not hold it up.
        drop(timeout(time, Shutdown::shutdown(&mut *self.stream)).await);
    }
}

impl UniqueID for Timed {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Timed {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.stream.get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.stream.selected_alpn_proto()
    }
}

impl GetTimingDigest for Timed {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.stream.get_timing_digest()
    }
}

impl GetProxyDigest for Timed {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }
}

impl GetSocketDigest for Timed {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }
}
