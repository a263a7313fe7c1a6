//! The server, and one request to it. It is reached as the gateway reaches an account: names,
//! certificates and proxies are the same.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::time::Instant;

use super::door::Format;
use portcullis::account::failure::Failure;
use portcullis::base::alarm::Alarm;
use portcullis::base::secret::Secret;
use portcullis::catalog::{Base, KeyHeader, Timeouts};
use portcullis::conf::proxy::Proxies;
use portcullis::exchange::attempt::Attempt;
use portcullis::exchange::outgoing::{Outgoing, own_id};
use portcullis::exchange::upstream::Upstream;
use portcullis::live::ready_account::{ReadyAccount, server_account};

/// The longest time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The headers that are read.
const READ_HEADERS: [&str; 7] = [
    "content-type",
    "request-id",
    "retry-after",
    "x-portcullis-dropped",
    "x-portcullis-model",
    "x-request-id",
    "x-should-retry",
];

/// The server that is tried.
pub(super) struct Server {
    upstream: Upstream,
    pub(super) ready_account: Arc<ReadyAccount>,
}

/// An answer of any status.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: BTreeMap<&'static str, String>,
    /// The pieces of the body, each with the time after the request at which it came.
    pub(super) pieces: Vec<(Duration, Vec<u8>)>,
    /// The reason why the body is not whole.
    pub(super) cut: Option<Failure>,
}

impl Answer {
    /// Returns a header; an empty text if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the id of the request; an empty text if there is none.
    pub(super) fn request_id(&self) -> &str {
        match self.header("x-request-id") {
            "" => self.header("request-id"),
            id => id,
        }
    }

    /// Returns whether the gateway says that the request is refused at any time. It names no time
    /// for other reasons, too.
    pub(super) fn is_final(&self) -> bool {
        self.header("x-should-retry") == "false" && self.body().contains("is more than the limit")
    }

    pub(super) fn body(&self) -> String {
        let bytes: Vec<u8> = self
            .pieces
            .iter()
            .flat_map(|(_, bytes)| bytes)
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Server {
    pub(super) fn new(
        base: Base,
        format: &Format,
        key: Option<Secret>,
        timeout: Duration,
        proxies: &Proxies,
    ) -> Server {
        let timeouts = Timeouts::for_message(CONNECT_TIMEOUT.min(timeout), timeout);
        let mut account = server_account(
            "try".into(),
            base,
            timeouts,
            HeaderValue::from_static("application/json"),
        );
        account.key = key;
        if !format.key_header.is_empty() {
            account.key_header = KeyHeader::Named(format.key_header);
        }
        if format.key_header == "x-api-key" {
            let version = HeaderName::from_static("anthropic-version");
            let value = HeaderValue::from_static("2023-06-01");
            account.headers.push((version, value));
        }
        Server {
            upstream: Upstream::default(),
            ready_account: Arc::new(ReadyAccount::standalone(account, proxies)),
        }
    }

    /// Sends a request on a new connection, and reads its answer. Without a body it is a GET.
    pub(super) async fn send(&self, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        let account = &self.ready_account.account;
        let whole_path = format!("{}{path}", account.base.path);
        let body: Vec<Bytes> = body.iter().map(|body| body.to_string().into()).collect();
        let due = Instant::now() + account.timeouts.total;
        let path = if body.is_empty() { &whole_path } else { path };
        let request_id = own_id();
        let outgoing = Outgoing {
            body: &body,
            ..Outgoing::own(&request_id, path, account.timeouts, due)
        };
        let mut alarm = Alarm::default();
        let permit = self.ready_account.state.take_permit()?;
        let sending = Attempt::connect_and_send(
            &self.upstream,
            &self.ready_account,
            permit,
            &outgoing,
            &mut alarm,
        );
        let mut attempt = sending.await?;
        let sent = attempt.sent;
        let head = alarm.until(due, pin!(attempt.head())).await;
        let (status, headers) = head.ok_or(Failure::FirstByteTimeout)??;
        let headers = READ_HEADERS
            .iter()
            .filter_map(|name| Some((*name, headers.text(name)?.to_owned())));
        let mut answer = Answer {
            status: status.as_u16(),
            headers: headers.collect(),
            pieces: vec![(sent.elapsed(), Vec::new())],
            cut: None,
        };
        let mut size = 0;
        while answer.cut.is_none() {
            match alarm
                .until(due, pin!(attempt.read()))
                .await
                .unwrap_or(Err(Failure::TotalTimeout))
            {
                Ok(None) => break,
                Ok(Some(_)) if size > MAX_ANSWER_BYTES => {
                    answer.cut = Some(Failure::Nonsense("it is too long".to_owned()))
                }
                Ok(Some(chunk)) => {
                    size += chunk.len();
                    answer.pieces.push((sent.elapsed(), chunk.to_vec()));
                }
                Err(failure) => answer.cut = Some(failure),
            }
        }
        Ok(answer)
    }
}
