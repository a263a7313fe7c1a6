//! The part of HTTP/1.1 that the mock and the callers need, without a library that could affect the
//! figures.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection, and the bytes that were read from it but not used yet.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    used: usize,
}

/// The head of a request or of an answer.
pub struct Head {
    /// The first line: `POST /v1/chat/completions HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub first: String,
    pub key: Option<String>,
    pub length: Option<usize>,
    pub chunked: bool,
    pub close: bool,
}

impl Wire {
    pub async fn connect(to: SocketAddr) -> io::Result<Wire> {
        Wire::new(TcpStream::connect(to).await?)
    }

    pub fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire {
            stream,
            buffer: Vec::with_capacity(64 << 10),
            used: 0,
        })
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads the next head. Returns `None` if the other side has closed the connection before it.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        let mut seen = 0;
        let length = loop {
            let unread = self.unread();
            if let Some(at) = unread[seen..]
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                break seen + at + 4;
            }
            seen = unread.len().saturating_sub(3);
            match self.more().await {
                Err(why)
                    if why.kind() == io::ErrorKind::UnexpectedEof && self.unread().is_empty() =>
                {
                    return Ok(None);
                }
                other => other?,
            }
        };
        let text = std::str::from_utf8(&self.unread()[..length])
            .map_err(|_| broken("a head that is not UTF-8"))?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_owned();
        let mut head = Head {
            first,
            key: None,
            length: None,
            chunked: false,
            close: false,
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name {
                _ if name.eq_ignore_ascii_case("content-length") => {
                    head.length = value.parse().ok()
                }
                _ if name.eq_ignore_ascii_case("transfer-encoding") => {
                    head.chunked = value.eq_ignore_ascii_case("chunked")
                }
                _ if name.eq_ignore_ascii_case("connection") => {
                    head.close = value.eq_ignore_ascii_case("close")
                }
                _ if name.eq_ignore_ascii_case("authorization") => {
                    head.key = value.strip_prefix("Bearer ").map(str::to_owned)
                }
                _ if name.eq_ignore_ascii_case("x-api-key") => head.key = Some(value.to_owned()),
                _ => {}
            }
        }
        self.used += length;
        Ok(Some(head))
    }

    /// Reads the next `length` bytes.
    pub async fn take(&mut self, length: usize) -> io::Result<&[u8]> {
        while self.unread().len() < length {
            self.more().await?;
        }
        self.used += length;
        Ok(&self.buffer[self.used - length..self.used])
    }

    /// Reads the next chunk of a chunked body; it is empty at the body's end.
    pub async fn chunk(&mut self) -> io::Result<&[u8]> {
        let line = loop {
            if let Some(at) = self
                .unread()
                .windows(2)
                .take(20)
                .position(|two| two == b"\r\n")
            {
                break at;
            }
            if self.unread().len() > 20 {
                return Err(broken("no chunk size where one is due"));
            }
            self.more().await?;
        };
        let size = std::str::from_utf8(&self.unread()[..line])
            .ok()
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size
            .filter(|size| *size < 64 << 20)
            .ok_or_else(|| broken("a chunk size that is no number"))?;
        let framed = self.take(line + 2 + size + 2).await?;
        Ok(&framed[line + 2..line + 2 + size])
    }

    /// Waits until the other side closes.
    pub async fn closed(&mut self) {
        while self.more().await.is_ok() {
            self.used = self.buffer.len();
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.used..]
    }

    async fn more(&mut self) -> io::Result<()> {
        if self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        } else if self.used > 64 << 10 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.reserve(16 << 10);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed")),
            _ => Ok(()),
        }
    }
}

fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
