//! Connections are counted and timed here, around the proxy:
//!
//! * a cap: each connection holds one permit, since neither Pingora's settings nor its connection
//!   filter can count them;
//! * the time that a request's head may take: Pingora bounds the time of each byte, but not of the
//!   whole, so that a caller who sends a byte at a time would hold a place for ever;
//! * the answer to a head that Pingora cannot read. Pingora answers it before there is a request,
//!   with an empty 400; an answer of ours replaces that one, and has its access line.

mod misread;

use crate::config::{ClientTimeouts, Server};
use crate::desk::front_door::CHAT;
use crate::desk::record::{Books, Record};
use crate::desk::{auth, request_id};
use async_trait::async_trait;
use http::HeaderMap;
use misread::Seen;
use pingora::apps::ServerApp;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use pingora::server::ShutdownWatch;
use pingora_proxy::Session;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};

/// The proxy behind its cap.
pub struct Connections<P> {
    proxy: Arc<P>,
    places: Arc<Semaphore>,
    settings: Arc<Server>,
    books: Arc<Books>,
}

impl<P> Connections<P> {
    /// Puts a cap on this proxy's connections. `places` is shared by all listeners.
    pub fn new(proxy: P, places: Arc<Semaphore>, settings: Arc<Server>, books: Arc<Books>) -> Connections<P> {
        Connections { proxy: Arc::new(proxy), places, settings, books }
    }
}

#[async_trait]
impl<P: ServerApp + Send + Sync + 'static> ServerApp for Connections<P> {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let Ok(_place) = self.places.try_acquire() else {
            self.books.metrics.refused_connection();
            return None;
        };
        let stream: Stream = match stream.selected_alpn_proto() {
            // Its connections have deadlines of their own.
            Some(ALPN::H2) => stream,
            _ => Box::new(Timed::new(stream, self.settings.clone(), self.books.clone())),
        };
        self.proxy.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.proxy.cleanup().await;
    }
}

/// Tells the connection that a request has begun: from here on its own deadlines hold.
pub fn head_is_here(session: &Session) {
    tell(session, BUSY);
}

/// Tells the connection that the request is over: what comes next is another head.
pub fn next_head(session: &Session) {
    tell(session, OVER);
}

fn tell(session: &Session, phase: u8) {
    // A stream of HTTP/2 has none, and a listener that is not ours another.
    if let Some(timed) = session.as_downstream().stream().and_then(|stream| (**stream).as_any().downcast_ref::<Timed>())
    {
        timed.phase.store(phase, Ordering::Release);
    }
}

/// The phase in which a head is awaited or read.
const HEAD: u8 = 0;
/// The phase in which a request runs.
const BUSY: u8 = 1;
/// The phase after its end.
const OVER: u8 = 2;

/// How Pingora's own answer to a head begins that it cannot read.
const MISREAD: &[u8] = b"HTTP/1.1 400 ";
/// What is left of such a request is read for so long, so that the caller sees the answer and not a
/// reset.
const DRAIN_UNREAD: Duration = Duration::from_secs(1);

/// A connection whose heads must come in time: `client_read` from the first byte on. (Until then it
/// is idle, which Pingora bounds.)
struct Timed {
    stream: Stream,
    settings: Arc<Server>,
    books: Arc<Books>,
    phase: AtomicU8,
    /// The head's first byte has come.
    begun: bool,
    due: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
    keepalive: Duration,
    client_read: Duration,
    /// Of the head that is being read.
    seen: Seen,
    /// It could not be read: this is said instead of what Pingora says, and so much of it has been.
    refusal: Option<(Vec<u8>, usize)>,
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timed").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Timed {
    fn new(stream: Stream, settings: Arc<Server>, books: Arc<Books>) -> Timed {
        let ClientTimeouts { keepalive, client_read, .. } = settings.timeouts;
        Timed {
            stream,
            settings,
            books,
            phase: AtomicU8::new(OVER),
            begun: false,
            due: Instant::now(),
            alarm: None,
            keepalive,
            client_read,
            seen: Seen::default(),
            refusal: None,
        }
    }

    /// Returns the answer to a head that cannot be read. It is an exchange as any other, and ends
    /// with this answer.
    fn refuse(&self) -> Vec<u8> {
        let refusal = self.seen.fault();
        let (method, path) = self.seen.asked();
        let mut record = Record::new(self.books.clone());
        if let Some(began) = self.due.into_std().checked_sub(self.client_read).filter(|_| self.begun) {
            record.began = began;
        }
        record.request.id = request_id::make();
        (record.request.method, record.request.path) = (method.to_owned(), request_id::shown_path(path));
        let peer = self.stream.get_socket_digest().and_then(|digest| Some(digest.peer_addr()?.as_inet()?.ip()));
        record.sender.address = auth::address(&self.settings, peer, &HeaderMap::new());
        record.answer.status = refusal.what.row().status;
        let bare = method == "HEAD";
        record.answer.bytes = if bare { 0 } else { (CHAT.error_body)(&refusal).len() as u64 };
        record.refused(&refusal);
        misread::answer(&refusal, &record.request.id, bare, SystemTime::now())
    }

    /// Writes that answer, and tells Pingora that its own is written.
    fn poll_refuse(&mut self, cx: &mut Context<'_>, theirs: usize) -> Poll<io::Result<usize>> {
        let (ours, mut said) = self.refusal.take().unwrap_or_else(|| (self.refuse(), 0));
        while let Some(rest) = ours.get(said..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => said += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.refusal = Some((ours, said));
                    return Poll::Pending;
                }
            }
        }
        self.refusal = Some((ours, said));
        Poll::Ready(Ok(theirs))
    }

    /// Ends the answer, and reads what is left of the request.
    async fn linger(&mut self) {
        if AsyncWriteExt::shutdown(&mut self.stream).await.is_ok() {
            let mut unread = [0; 4096];
            let all = async { while self.stream.read(&mut unread).await.is_ok_and(|read| read > 0) {} };
            // Who goes on for longer sees the reset.
            drop(tokio::time::timeout(DRAIN_UNREAD, all).await);
        }
    }

    fn poll_overdue(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if alarm.deadline() != due {
            alarm.as_mut().reset(due);
        }
        alarm.as_mut().poll(cx)
    }
}

impl AsyncRead for Timed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let phase = *this.phase.get_mut();
        if phase == BUSY {
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        if phase == OVER {
            *this.phase.get_mut() = HEAD;
            this.begun = false;
            this.seen.clear();
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf)?;
        this.seen.note(buf.filled().get(before..).unwrap_or_default());
        if read.is_ready() && !this.begun && buf.filled().len() > before {
            this.begun = true;
            this.due = Instant::now() + this.client_read;
            return Poll::Ready(Ok(()));
        }
        // Bytes that are always there must not put off the end either. Before the first byte
        // Pingora's own deadline holds.
        let overdue =
            this.begun && if read.is_ready() { Instant::now() >= this.due } else { this.poll_overdue(cx).is_ready() };
        if overdue { Poll::Ready(Err(ErrorKind::TimedOut.into())) } else { read.map(Ok) }
    }
}

#[async_trait]
impl Peek for Timed {
    async fn try_peek(&mut self, buf: &mut [u8]) -> io::Result<bool> {
        let peeked = tokio::time::timeout(self.keepalive, self.stream.try_peek(buf)).await??;
        if peeked && buf.starts_with(b"PRI * HTTP/2.0") {
            // Its connections have deadlines of their own.
            *self.phase.get_mut() = BUSY;
        }
        Ok(peeked)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        // What is ours is written while a request runs.
        if *this.phase.get_mut() != BUSY && (this.refusal.is_some() || buf.starts_with(MISREAD)) {
            return this.poll_refuse(cx, buf.len());
        }
        Pin::new(&mut this.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for Timed {
    async fn shutdown(&mut self) {
        if self.refusal.is_some() {
            self.linger().await;
        }
        Shutdown::shutdown(&mut *self.stream).await;
    }
}

impl UniqueID for Timed {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

impl Ssl for Timed {
    fn get_ssl(&self) -> Option<&TlsRef> {
        self.stream.get_ssl()
    }

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

    fn get_read_pending_time(&self) -> Duration {
        self.stream.get_read_pending_time()
    }

    fn get_write_pending_time(&self) -> Duration {
        self.stream.get_write_pending_time()
    }
}

impl GetProxyDigest for Timed {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.stream.get_proxy_digest()
    }

    fn set_proxy_digest(&mut self, digest: ProxyDigest) {
        self.stream.set_proxy_digest(digest);
    }
}

impl GetSocketDigest for Timed {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.stream.get_socket_digest()
    }

    fn set_socket_digest(&mut self, digest: SocketDigest) {
        self.stream.set_socket_digest(digest);
    }
}
