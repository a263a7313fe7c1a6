//! A caller that sends exactly the bytes it is told to send, and reports exactly what came back:
//! event by event, with the times.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::canary::KEY;
use super::ledger::Ledger;
use super::tls::{self, Ca};
use super::wire::{Framing, Io, Wire, find};

/// Returns the smallest request body for this model.
pub fn chat(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "hello"}]})
}

/// Returns the smallest body of a request for a stream.
pub fn chat_stream(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": true})
}

/// Returns the bytes of a request. `host` is filled in, and `content-length` if there is a body.
pub fn request(method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    let has = |wanted: &str| {
        fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    };
    if !has("host") {
        head.push_str("host: gateway.test\r\n");
    }
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() && !has("content-length") && !has("transfer-encoding") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// Returns the bytes of `POST /v1/chat/completions` with the good key.
pub fn post(body: &Value) -> Vec<u8> {
    post_as(KEY, body)
}

pub fn post_as(key: &str, body: &Value) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    request(
        "POST",
        "/v1/chat/completions",
        &fields,
        body.to_string().as_bytes(),
    )
}

/// The end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The body ended as its framing promised.
    Whole,
    /// The body ended with the connection, as no framing was given.
    Eof,
    /// The body ended too early, or with wrong framing.
    Cut,
    /// The connection was reset.
    Reset,
}

/// An answer. For a stream, `body` is what has been read so far.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The end of the body; `None` while it is still being read.
    pub end: Option<End>,
    /// The statuses of the 1xx heads before it.
    pub informational: Vec<u16>,
    /// The time at which the head was there.
    pub at: Instant,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        find(&self.fields, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e} in {self:?} {}", self.text()))
    }

    /// Fails unless this is a standard error with this status and code, complete, and with a
    /// request id.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert!(
            self.field("x-request-id").is_some(),
            "no x-request-id in {:?}",
            self.fields
        );
        assert_eq!(
            self.field("content-type"),
            Some("application/json"),
            "{:?}",
            self.fields
        );
        let body = self.json();
        let error = &body["error"];
        let keys: Vec<_> = error
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str())
            .collect();
        for key in ["message", "type", "param", "code"] {
            assert!(keys.contains(&key), "no {key:?} in {body}");
        }
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{body}"
        );
        let expected = if code.is_empty() {
            Value::Null
        } else {
            Value::from(code)
        };
        assert_eq!(error["code"], expected, "{body}");
        error.clone()
    }

    /// Returns the data of all events in the body.
    pub fn events(&self) -> Vec<String> {
        let text = self.text();
        let blocks = text
            .split("\n\n")
            .filter_map(|block| block.strip_prefix("data: "));
        blocks.map(ToOwned::to_owned).collect()
    }

    /// Returns the text of choice 0, from the events or from the whole answer.
    pub fn content(&self) -> String {
        if self.field("content-type") == Some("application/json") {
            return self.json()["choices"][0]["message"]["content"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
        }
        self.events()
            .iter()
            .map(|event| content_of(event))
            .collect()
    }
}

/// Returns the text in one chunk.
pub fn content_of(event: &str) -> String {
    let chunk: Value = serde_json::from_str(event).unwrap_or_default();
    chunk["choices"][0]["delta"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// A server-sent event as it came.
#[derive(Debug, Clone)]
pub struct Event {
    pub data: String,
    pub at: Instant,
}

impl Event {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e} in {:?}", self.data))
    }
}

/// One HTTP/1 connection to the gateway.
pub struct Connection {
    pub wire: Wire,
    /// The record of what callers saw; it is compared with the gateway's access lines at the end.
    ledger: Option<Ledger>,
    /// The framing of what a running stream still has to send.
    framing: Framing,
    until_eof: bool,
    unread: Vec<u8>,
    /// The times at which comments came in a stream.
    pub comments: Vec<Instant>,
}

impl Connection {
    pub async fn plain(address: SocketAddr, ledger: Option<Ledger>) -> Self {
        let tcp = TcpStream::connect(address)
            .await
            .expect("the gateway accepts");
        let _ = tcp.set_nodelay(true);
        Self::over(Io::Tcp(tcp), ledger)
    }

    pub async fn tls(address: SocketAddr, ca: &Ca, alpn: &[&str], ledger: Option<Ledger>) -> Self {
        let tcp = TcpStream::connect(address)
            .await
            .expect("the gateway accepts");
        Self::over(
            tls::connect(tcp, ca, alpn).await.expect("a TLS handshake"),
            ledger,
        )
    }

    pub fn over(io: Io, ledger: Option<Ledger>) -> Self {
        Connection {
            wire: Wire::new(io),
            ledger,
            framing: Framing::None,
            until_eof: false,
            unread: Vec::new(),
            comments: Vec::new(),
        }
    }

    /// Sends bytes. Returns false if the gateway closed before they were taken.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.wire.write(bytes.as_ref()).await
    }

    /// Reads the next answer to its end.
    #[track_caller]
    pub fn response(&mut self) -> impl Future<Output = Response> {
        let caller = std::panic::Location::caller();
        async move {
            let response = self.try_response("GET").await;
            response
                .unwrap_or_else(|| panic!("the connection ended without an answer, at {caller}"))
        }
    }

    /// Reads the next answer to its end, if there is one. The answer to a `HEAD` has no body.
    pub async fn try_response(&mut self, method: &str) -> Option<Response> {
        let mut response = self.head().await?;
        if method != "HEAD" {
            self.rest(&mut response).await;
        } else {
            response.end = Some(End::Whole);
        }
        Some(response)
    }

    /// Reads the head of the next answer. [`Connection::event`] or [`Connection::rest`] read its
    /// body.
    pub async fn head(&mut self) -> Option<Response> {
        let mut informational = Vec::new();
        loop {
            let head = self.wire.head().await?;
            let status: u16 = head
                .start
                .split(' ')
                .nth(1)
                .and_then(|s| s.parse().ok())
                .expect("a status");
            if (100..200).contains(&status) && status != 101 {
                informational.push(status);
                continue;
            }
            self.framing = head.framing();
            self.until_eof = self.framing == Framing::None && status != 204 && status != 304;
            self.unread.clear();
            if let Some(ledger) = &self.ledger {
                ledger.note(&head.raw, head.field("x-request-id"));
                ledger.head(&head.fields);
            }
            let at = Instant::now();
            return Some(Response {
                status,
                fields: head.fields,
                body: Vec::new(),
                end: None,
                informational,
                at,
            });
        }
    }

    /// Reads one more piece of the body. Returns `None` at its end, and `end` then says how it
    /// ended.
    pub async fn piece(&mut self, response: &mut Response) -> Option<Vec<u8>> {
        if response.end.is_some() {
            return None;
        }
        let end = match self.framing {
            Framing::Chunked => match self.wire.chunk().await {
                Some(piece) if piece.is_empty() => End::Whole,
                Some(piece) => return Some(self.got(response, piece)),
                None => End::Cut,
            },
            Framing::Length(0) => End::Whole,
            Framing::Length(left) => match self.wire.some(left).await {
                piece if piece.is_empty() => End::Cut,
                piece => {
                    self.framing = Framing::Length(left - piece.len());
                    return Some(self.got(response, piece));
                }
            },
            Framing::None if self.until_eof => match self.wire.some(64 * 1024).await {
                piece if piece.is_empty() => End::Eof,
                piece => return Some(self.got(response, piece)),
            },
            Framing::None => End::Whole,
        };
        response.end = Some(if self.wire.broken && end != End::Whole {
            End::Reset
        } else {
            end
        });
        if let Some(ledger) = &self.ledger {
            ledger.note(&response.body, None);
        }
        None
    }

    fn got(&self, response: &mut Response, piece: Vec<u8>) -> Vec<u8> {
        response.body.extend_from_slice(&piece);
        piece
    }

    /// Reads the body to its end.
    pub async fn rest(&mut self, response: &mut Response) {
        while self.piece(response).await.is_some() {}
    }

    /// Reads the next event of a stream. Comments are noted and skipped. Returns `None` at the end
    /// of the stream.
    pub async fn event(&mut self, response: &mut Response) -> Option<Event> {
        loop {
            if let Some(at) = super::wire::position(&self.unread, b"\n\n") {
                let rest = self.unread.split_off(at + 2);
                let block = std::mem::replace(&mut self.unread, rest);
                let block = String::from_utf8(block).expect("a stream of UTF-8");
                let now = Instant::now();
                if block.starts_with(':') {
                    self.comments.push(now);
                    continue;
                }
                let data = block.trim_end().strip_prefix("data: ");
                let data = data
                    .unwrap_or_else(|| panic!("an event that is more than data: {block:?}"))
                    .to_owned();
                return Some(Event { data, at: now });
            }
            let piece = self.piece(response).await?;
            self.unread.extend(piece);
        }
    }

    /// Waits until the gateway closes the connection. Returns true if it did so by FIN.
    pub async fn closed(&mut self) -> bool {
        self.wire.gone().await;
        !self.wire.broken
    }

    /// Ends the connection by RST.
    pub fn reset(self) {
        self.wire.io.reset();
    }
}
