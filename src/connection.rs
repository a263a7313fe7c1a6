//! The cap on connections: a `ServerApp` around the proxy that holds one permit for each, since neither Pingora's settings nor its connection
//! filter can count them. And the time that a request's head may take, since Pingora bounds each of its bytes, but not the whole: who drips
//! would hold a place for ever.

use crate::config::ClientTimeouts;
use crate::gateway::Gateway;
use crate::shared::Shared;
use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::tls::{SslDigest, TlsRef};
use pingora::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest, UniqueID, UniqueIDType,
};
use pingora::server::ShutdownWatch;
use pingora_proxy::{HttpProxy, Session};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};

/// The proxy behind its cap.
pub struct Connections {
    proxy: Arc<HttpProxy<Gateway>>,
    places: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl Connections {
    /// `places` is shared by all listeners.
    pub fn new(proxy: HttpProxy<Gateway>, places: Arc<Semaphore>, shared: Arc<Shared>) -> Connections {
        Connections { proxy: Arc::new(proxy), places, shared }
    }
}

#[async_trait]
impl ServerApp for Connections {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let Ok(_place) = self.places.try_acquire() else {
            self.shared.metrics.refused_connection();
            return None;
        };
        let stream: Stream = match stream.selected_alpn_proto() {
            // Its connections have deadlines of their own.
            Some(ALPN::H2) => stream,
            _ => Box::new(Timed::new(stream, self.shared.server.timeouts)),
        };
        self.proxy.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.proxy.cleanup().await;
    }
}

/// A request has begun: from here on its own deadlines hold.
pub fn head_is_here(session: &Session) {
    tell(session, BUSY);
}

/// It is over: what comes next is another head.
pub fn next_head(session: &Session) {
    tell(session, OVER);
}

fn tell(session: &Session, phase: u8) {
    // A stream of HTTP/2 has none, and a listener that is not ours another.
    if let Some(timed) = session.as_downstream().stream().and_then(|stream| (**stream).as_any().downcast_ref::<Timed>()) {
        timed.phase.store(phase, Ordering::Release);
    }
}

/// A head is awaited or read.
const HEAD: u8 = 0;
/// A request runs.
const BUSY: u8 = 1;
/// It has ended.
const OVER: u8 = 2;

/// A connection whose heads must come in time: `client_read` from the first byte on. (Until then it is idle, which Pingora bounds.)
#[derive(Debug)]
struct Timed {
    stream: Stream,
    phase: AtomicU8,
    /// The head's first byte has come.
    begun: bool,
    due: Instant,
    alarm: Option<Pin<Box<Sleep>>>,
    keepalive: Duration,
    client_read: Duration,
}

impl Timed {
    fn new(stream: Stream, timeouts: ClientTimeouts) -> Timed {
        let ClientTimeouts { keepalive, client_read, .. } = timeouts;
        Timed { stream, phase: AtomicU8::new(OVER), begun: false, due: Instant::now(), alarm: None, keepalive, client_read }
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
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf)?;
        if read.is_ready() && !this.begun && buf.filled().len() > before {
            this.begun = true;
            this.due = Instant::now() + this.client_read;
            return Poll::Ready(Ok(()));
        }
        // Bytes that are always there must not put off the end either. Before the first byte Pingora's own deadline holds.
        let overdue = this.begun && if read.is_ready() { Instant::now() >= this.due } else { this.poll_overdue(cx).is_ready() };
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
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for Timed {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
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
