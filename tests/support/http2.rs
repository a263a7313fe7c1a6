//! A caller over HTTP/2, in clear (prior knowledge) or by TLS. Tests that want to misbehave use
//! `sender`.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use h2::client::SendRequest;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::canary::KEY;
use super::client::{End, Response};
use super::ledger::Ledger;
use super::spawn;
use super::tls::{self, Ca};
use super::wire::Io;

/// One HTTP/2 connection to the gateway.
pub struct H2 {
    pub sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
    ledger: Option<Ledger>,
}

impl H2 {
    pub async fn clear(address: SocketAddr, ledger: Option<Ledger>) -> Self {
        let tcp = TcpStream::connect(address)
            .await
            .expect("the gateway accepts");
        let _ = tcp.set_nodelay(true);
        Self::over(Io::Tcp(tcp), ledger).await
    }

    pub async fn tls(address: SocketAddr, ca: &Ca, ledger: Option<Ledger>) -> Self {
        let tcp = TcpStream::connect(address)
            .await
            .expect("the gateway accepts");
        let _ = tcp.set_nodelay(true);
        let io = tls::connect(tcp, ca, &["h2", "http/1.1"])
            .await
            .expect("a TLS handshake");
        assert_eq!(
            io.alpn().as_deref(),
            Some(b"h2".as_slice()),
            "the gateway agreed on HTTP/2"
        );
        Self::over(io, ledger).await
    }

    async fn over(io: Io, ledger: Option<Ledger>) -> Self {
        let (sender, connection) = h2::client::handshake(io)
            .await
            .expect("an HTTP/2 handshake");
        H2 {
            sender,
            driver: spawn(connection),
            ledger,
        }
    }

    /// Sends `POST /v1/chat/completions` with the good key, and reads the answer to its end.
    pub async fn post(&self, body: &Value) -> Response {
        let bearer = format!("Bearer {KEY}");
        let fields = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        self.exchange(
            "POST",
            "/v1/chat/completions",
            &fields,
            body.to_string().as_bytes(),
        )
        .await
    }

    /// Makes one exchange, and reads the answer to its end.
    pub async fn exchange(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let (mut response, mut stream) = self
            .open(method, target, fields, body)
            .await
            .expect("an answer");
        while self.piece(&mut response, &mut stream).await.is_some() {}
        response
    }

    /// Sends a request and reads the head of its answer. Dropping the returned stream resets it.
    pub async fn open(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(Response, h2::RecvStream), h2::Error> {
        let uri = format!("http://gateway.test{target}");
        let mut request = http::Request::builder()
            .method(method)
            .uri(uri)
            .version(http::Version::HTTP_2);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut upload) =
            sender.send_request(request.body(()).expect("a request"), body.is_empty())?;
        let mut rest = Bytes::copy_from_slice(body);
        while !rest.is_empty() {
            upload.reserve_capacity(rest.len());
            // An answer, such as a 413, may come before everything was taken. Then the rest is not
            // wanted.
            let Some(Ok(room)) = std::future::poll_fn(|cx| upload.poll_capacity(cx)).await else {
                break;
            };
            let piece = rest.split_to(room.min(rest.len()));
            upload.send_data(piece, rest.is_empty())?;
        }
        let (head, stream) = answer.await?.into_parts();
        let text = |v: &http::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned();
        let fields: Vec<_> = head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        if let Some(ledger) = &self.ledger {
            ledger.note(
                format!("{fields:?}").as_bytes(),
                head.headers.get("x-request-id").map(text).as_deref(),
            );
            ledger.head(&fields);
        }
        let (status, at) = (head.status.as_u16(), Instant::now());
        Ok((
            Response {
                status,
                fields,
                body: Vec::new(),
                end: None,
                informational: Vec::new(),
                at,
            },
            stream,
        ))
    }

    /// Reads one more piece of a body.
    pub async fn piece(
        &self,
        response: &mut Response,
        stream: &mut h2::RecvStream,
    ) -> Option<Bytes> {
        let end = match stream.data().await {
            Some(Ok(data)) => {
                let _ = stream.flow_control().release_capacity(data.len());
                response.body.extend_from_slice(&data);
                return Some(data);
            }
            Some(Err(error)) if error.is_reset() => End::Reset,
            Some(Err(_)) => End::Cut,
            None => End::Whole,
        };
        response.end = Some(end);
        if let Some(ledger) = &self.ledger {
            ledger.note(&response.body, None);
        }
        None
    }

    /// Waits until the gateway closes the connection.
    pub async fn closed(mut self) -> Result<(), h2::Error> {
        (&mut self.driver).await.expect("the driver ran")
    }
}

impl Drop for H2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
