//! HTTP/1 as the tests need it: a byte stream that is TCP or TLS, and a reader of heads and bodies
//! that hides nothing.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// A connection's bytes.
pub enum Io {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Io {
    /// Takes a connection, with TLS if that is spoken. Returns `None` if the handshake fails.
    pub async fn accept(tcp: TcpStream, tls: Option<TlsAcceptor>) -> Option<Self> {
        let Some(tls) = tls else {
            return Some(Io::Tcp(tcp));
        };
        Some(Io::Tls(Box::new(tls.accept(tcp).await.ok()?.into())))
    }

    pub fn tcp(&self) -> &TcpStream {
        match self {
            Io::Tcp(tcp) => tcp,
            Io::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Ends the connection with RST instead of FIN.
    pub fn reset(self) {
        let _ = self.tcp().set_zero_linger();
    }

    /// Returns the protocol that was agreed on by ALPN.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        match self {
            Io::Tcp(_) => None,
            Io::Tls(tls) => tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Tcp(io) => Pin::new(io).poll_read(cx, buf),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Io::Tcp(io) => Pin::new(io).poll_write(cx, buf),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Tcp(io) => Pin::new(io).poll_flush(cx),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Io::Tcp(io) => Pin::new(io).poll_shutdown(cx),
            Io::Tls(io) => Pin::new(io.as_mut()).poll_shutdown(cx),
        }
    }
}

/// The first line and the fields of a message, in the order and the letter case in which they came.
#[derive(Debug, Clone, Default)]
pub struct Head {
    pub start: String,
    pub fields: Vec<(String, String)>,
    pub raw: Vec<u8>,
}

impl Head {
    fn parse(raw: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .map(|line| line.split_once(':').unwrap_or((line, "")))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Head { start, fields, raw }
    }

    /// Returns the first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    pub fn framing(&self) -> Framing {
        if self
            .field("transfer-encoding")
            .is_some_and(|v| v.to_ascii_lowercase().ends_with("chunked"))
        {
            Framing::Chunked
        } else if let Some(length) = self.field("content-length") {
            Framing::Length(
                length
                    .parse()
                    .unwrap_or_else(|_| panic!("content-length: {length:?}")),
            )
        } else {
            Framing::None
        }
    }
}

/// Returns the first field of this name, in any case.
pub fn find<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// The way in which a body says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    None,
}

/// An [`Io`], and the bytes that were read ahead of their use.
pub struct Wire {
    pub io: Io,
    ahead: Vec<u8>,
    /// True if the end of the stream or an error was seen.
    pub ended: bool,
    /// True if it was an error.
    pub broken: bool,
}

impl Wire {
    pub fn new(io: Io) -> Self {
        Wire {
            io,
            ahead: Vec::new(),
            ended: false,
            broken: false,
        }
    }

    /// Reads once more. Returns false at the end of the stream. Cancel-safe.
    async fn more(&mut self) -> bool {
        if !self.ended {
            match self.io.read_buf(&mut self.ahead).await {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(_) => (self.ended, self.broken) = (true, true),
            }
        }
        !self.ended
    }

    /// Returns when the peer has closed or reset. The bytes that it sends meanwhile are kept.
    /// Cancel-safe.
    pub async fn gone(&mut self) {
        while self.more().await {}
    }

    /// Writes all bytes, and reads meanwhile, so that neither side can block the other. Returns
    /// false if the peer is gone.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        let (mut reader, mut writer) = tokio::io::split(&mut self.io);
        let mut rest = bytes;
        while !rest.is_empty() {
            tokio::select! {
                written = writer.write(rest) => match written {
                    Ok(n) if n > 0 => rest = &rest[n..],
                    Ok(_) | Err(_) => return false,
                },
                read = reader.read_buf(&mut self.ahead), if !self.ended => match read {
                    Ok(0) => self.ended = true,
                    Ok(_) => {}
                    Err(_) => (self.ended, self.broken) = (true, true),
                },
            }
        }
        writer.flush().await.is_ok()
    }

    /// Reads the head of the next message. Returns `None` if the stream ends before it.
    pub async fn head(&mut self) -> Option<Head> {
        let mut searched = 0;
        loop {
            if let Some(at) = position(&self.ahead[searched..], b"\r\n\r\n") {
                let end = searched + at + 4;
                return Some(Head::parse(self.take(end)));
            }
            searched = self.ahead.len().saturating_sub(3);
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads exactly `n` bytes, or fewer at the end of the stream.
    pub async fn exactly(&mut self, n: usize) -> Vec<u8> {
        while self.ahead.len() < n && self.more().await {}
        self.take(n.min(self.ahead.len()))
    }

    /// Reads what is there: it waits for at least one byte, and takes no more than `most`. Returns
    /// nothing at the end of the stream.
    pub async fn some(&mut self, most: usize) -> Vec<u8> {
        if self.ahead.is_empty() {
            self.more().await;
        }
        self.take(most.min(self.ahead.len()))
    }

    /// Reads one chunk; the last one is empty. Returns `None` if the stream ends inside the chunk
    /// or its framing is wrong.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = loop {
            if let Some(at) = position(&self.ahead, b"\r\n") {
                break self.take(at + 2);
            }
            if !self.more().await {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&line);
        let size = usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()?;
        let mut chunk = self.exactly(size + 2).await;
        if chunk.len() != size + 2 || !chunk.ends_with(b"\r\n") {
            return None;
        }
        chunk.truncate(size);
        Some(chunk)
    }

    /// Reads a whole body. Returns false if it was cut.
    pub async fn body(&mut self, framing: Framing) -> (Vec<u8>, bool) {
        match framing {
            Framing::None => (Vec::new(), true),
            Framing::Length(n) => {
                let body = self.exactly(n).await;
                let whole = body.len() == n;
                (body, whole)
            }
            Framing::Chunked => {
                let mut body = Vec::new();
                loop {
                    match self.chunk().await {
                        Some(chunk) if chunk.is_empty() => return (body, true),
                        Some(chunk) => body.extend(chunk),
                        None => return (body, false),
                    }
                }
            }
        }
    }

    fn take(&mut self, n: usize) -> Vec<u8> {
        let rest = self.ahead.split_off(n);
        std::mem::replace(&mut self.ahead, rest)
    }
}

/// Returns the position at which `needle` begins in `hay`.
pub fn position(hay: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(hay, needle)
}
