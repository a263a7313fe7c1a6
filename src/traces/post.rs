//! Posts spans to the receiver, which is called like an account. Of its answer only the status, the
//! time to wait and the number of rejected spans are used.

use super::Traces;
use crate::account::failure::Failure;
use crate::account::quota;
use crate::base::alarm::Alarm;
use crate::catalog::Account;
use crate::conf::config;
use crate::exchange::attempt::Attempt;
use crate::exchange::backends::Backends;
use crate::exchange::outgoing::{Outgoing, own_id};
use crate::exchange::upstream::Reuse;
use crate::live::ready_account::{
    MESSAGE_CONNECT_TIMEOUT, MESSAGE_TIMEOUT, ReadyAccount, webhook_account,
};
use bytes::Bytes;
use http::HeaderValue;
use http::header;
use prost::Message;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The most bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 16 * 1024;
/// The type of what is sent.
const PROTOBUF: &str = "application/x-protobuf";

/// The receiver of spans.
pub(super) struct Receiver<'r> {
    backends: &'r Backends,
    settings: &'r config::Traces,
    /// Its connections, and the addresses of its name.
    ready_account: Arc<ReadyAccount>,
}

/// The result of a try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// The receiver has the spans, but for so many.
    Taken {
        /// The number of spans that it did not take.
        rejected: usize,
    },
    /// The receiver asks for a retry at this time.
    Later {
        /// Why.
        why: String,
        /// The time to wait.
        wait: Duration,
    },
    /// The receiver does not take the spans.
    Refused(String),
    /// The receiver cannot be reached, or does not answer.
    Failed(String),
    /// The process ends, so nobody waits for the result any longer. Only the caller of
    /// [`Receiver::post`] says so.
    Ended,
}

impl<'r> Receiver<'r> {
    pub(super) fn new(traces: &'r Traces, backends: &'r Backends) -> Receiver<'r> {
        let settings = &traces.settings;
        let ready_account = Arc::new(ReadyAccount::standalone(
            receiver_account(settings),
            &backends.server.proxies,
        ));
        Receiver {
            backends,
            settings,
            ready_account,
        }
    }

    /// Tries once to post this body. An error shows at most the receiver's host, its status, and
    /// the names in its certificate.
    pub(super) async fn post(&self, body: &[Bytes]) -> Posted {
        // The name may have moved. If it cannot be looked up, the post says so, or does without.
        drop(
            self.ready_account
                .state
                .addresses
                .refresh_if_due(self.ready_account.hop())
                .await,
        );
        let due = Instant::now() + MESSAGE_TIMEOUT;
        let mut posted = self.post_once(body, Reuse::Allowed, due).await;
        // A kept connection may be gone: then a new one is tried once.
        if matches!(posted, Err(Failure::Stale)) {
            posted = self.post_once(body, Reuse::Forbidden, due).await;
        }
        posted.unwrap_or_else(|failure| Posted::Failed(failure_text(&failure)))
    }

    async fn post_once(
        &self,
        body: &[Bytes],
        reuse: Reuse,
        due: Instant,
    ) -> Result<Posted, Failure> {
        let id = own_id();
        let path = self.settings.endpoint.target.expose();
        let timeouts = self.ready_account.account.timeouts;
        let outgoing = Outgoing {
            body,
            reuse,
            ..Outgoing::own(&id, path, timeouts, due)
        };
        let mut alarm = Alarm::default();
        let permit = self.ready_account.state.take_permit()?;
        let mut attempt = Attempt::connect_and_send(
            &self.backends.upstream,
            &self.ready_account,
            permit,
            &outgoing,
            &mut alarm,
        )
        .await?;
        let (status, headers) = attempt.head_until(due, &mut alarm).await?;
        let wait = quota::retry_after(|name| headers.text(name), SystemTime::now());
        // Some receivers answer with JSON all the same.
        let is_protobuf = headers
            .text("content-type")
            .is_some_and(|kind| kind.starts_with(PROTOBUF));
        let why = format!("it answers {}", status.as_u16());
        // A body that is too long, too slow or cut changes nothing: the status is known. Its
        // connection is not used again.
        let rest = attempt.read_rest(MAX_ANSWER_BYTES, due, &mut alarm).await;
        if rest.is_ok() {
            attempt.finish().await;
        }
        Ok(match (status.as_u16(), wait) {
            (200..=299, _) => Posted::Taken {
                rejected: rest
                    .ok()
                    .filter(|_| is_protobuf)
                    .map_or(0, |body| rejected_spans(&body)),
            },
            // Without a time to wait, the spans are dropped and not sent again
            // (docs/src/traces.md).
            (429 | 502..=504, Some(wait)) => Posted::Later { why, wait },
            (401 | 403, _) => Posted::Refused(format!("{why}: look at `traces.headers`")),
            (404 | 405, _) => {
                Posted::Refused(format!("{why}: look at the path in `traces.endpoint`"))
            }
            _ => Posted::Refused(why),
        })
    }
}

/// The answer of a receiver, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct ReceiverAnswer {
    #[prost(message, optional, tag = "1")]
    partial: Option<PartialSuccess>,
}

/// The answer of a receiver that did not take all.
#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
}

/// Returns how many spans a receiver did not take, by its own answer.
fn rejected_spans(body: &[u8]) -> usize {
    let answer = ReceiverAnswer::decode(body).unwrap_or_default();
    answer
        .partial
        .and_then(|partial| usize::try_from(partial.rejected).ok())
        .unwrap_or(0)
}

/// Returns the receiver as an account: it is called like any other.
fn receiver_account(settings: &config::Traces) -> Account {
    let mut account = webhook_account("traces", &settings.endpoint, PROTOBUF);
    account
        .headers
        .push((header::ACCEPT, HeaderValue::from_static(PROTOBUF)));
    account.headers.extend(settings.headers.iter().cloned());
    account.network.ca.clone_from(&settings.ca);
    account
}

/// Writes why the receiver was not reached, or did not answer; see [`Receiver::post`] for what may
/// be shown.
fn failure_text(failure: &Failure) -> String {
    match failure {
        Failure::Unreachable(why) => format!("it cannot be reached: {why}"),
        Failure::Tls { why, .. } => format!("TLS failed: {why}"),
        Failure::Proxy { why, .. } => why.clone(),
        Failure::ConnectTimeout => format!(
            "it cannot be reached: no connection within {} s",
            MESSAGE_CONNECT_TIMEOUT.as_secs()
        ),
        Failure::Reset | Failure::Stale | Failure::Cut => {
            "it closed the connection without an answer".to_owned()
        }
        Failure::SendTimeout => "it stopped reading what is sent".to_owned(),
        Failure::FirstByteTimeout
        | Failure::FirstTokenTimeout
        | Failure::IdleTimeout
        | Failure::TotalTimeout => {
            format!("it does not answer within {} s", MESSAGE_TIMEOUT.as_secs())
        }
        Failure::NoRoom => "the gateway may hold no more in memory".to_owned(),
        Failure::NoDescriptors => {
            "the gateway has no file descriptor for another connection".to_owned()
        }
        Failure::Nonsense(_) => "what answers there is no HTTP server".to_owned(),
        Failure::Unsigned(_)
        | Failure::BrokenCall(_)
        | Failure::Status { .. }
        | Failure::InAnswer(_) => failure.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceResponse,
    };

    #[test]
    fn what_a_receiver_says_is_read_with_care() {
        let answer = |rejected_spans| {
            let partial_success = Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message: "no".to_owned(),
            });
            ExportTraceServiceResponse { partial_success }.encode_to_vec()
        };
        assert_eq!(
            [
                rejected_spans(&answer(3)),
                rejected_spans(&answer(-3)),
                rejected_spans(&answer(0))
            ],
            [3, 0, 0]
        );
        assert_eq!(
            [
                rejected_spans(b""),
                rejected_spans(b"{}"),
                rejected_spans(&[0xff; 40])
            ],
            [0, 0, 0]
        );
    }
}
