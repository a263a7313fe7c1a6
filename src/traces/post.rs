//! Posts spans to the receiver, which is called like an account. What it answers is read as far as
//! it says how many spans it did not take; nothing else of it is believed.

use super::Traces;
use crate::account::failure::Failure;
use crate::account::quota;
use crate::base::alarm::Alarm;
use crate::catalog::{Account, Base, Timeouts};
use crate::conf::config;
use crate::exchange::attempt::Attempt;
use crate::exchange::backends::Backends;
use crate::exchange::outgoing::Outgoing;
use crate::live::place::{Place, beside};
use bytes::Bytes;
use http::HeaderValue;
use http::header;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The longest time for one try.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time for a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// The most bytes of an answer that are read.
const ANSWER: usize = 16 * 1024;
/// The type of what is sent.
const PROTOBUF: &str = "application/x-protobuf";

/// The receiver of spans.
pub(super) struct Receiver<'r> {
    backends: &'r Backends,
    settings: &'r config::Traces,
    /// Its connections, and the addresses of its name. After a failure they are made anew: the name
    /// may have moved.
    place: Arc<Place>,
}

/// What became of a try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// The receiver has the spans, but for so many.
    Taken {
        /// The number of spans that it did not take.
        rejected: u64,
    },
    /// The receiver says when to come again.
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
}

impl<'r> Receiver<'r> {
    pub(super) fn new(traces: &'r Traces, backends: &'r Backends) -> Receiver<'r> {
        let settings = &traces.settings;
        Receiver { backends, settings, place: place(settings, backends) }
    }

    /// Tries once to post this body. No error has a part of the address, or anything that the
    /// receiver said.
    pub(super) async fn post(&mut self, body: Bytes, patience: Duration) -> Posted {
        let due = Instant::now() + patience.min(PATIENCE);
        let body = [body];
        let mut posted = Err(Failure::Stale);
        // A connection that was kept may be gone.
        for fresh in [false, true] {
            if posted.as_ref().is_err_and(|failure| *failure == Failure::Stale) {
                posted = self.once(&body, fresh, due).await;
            }
        }
        posted.unwrap_or_else(|failure| {
            self.place = place(self.settings, self.backends);
            Posted::Failed(failure.name().to_owned())
        })
    }

    async fn once(&self, body: &[Bytes], fresh: bool, due: Instant) -> Result<Posted, Failure> {
        let outgoing = Outgoing {
            request_id: "traces",
            path: self.settings.endpoint.target.expose(),
            headers: &[],
            body,
            upload: None,
            stream: false,
            timeouts: self.place.account.timeouts,
            total: due,
            fresh,
        };
        let mut alarm = Alarm::default();
        let permit = self.place.state.admit().map(Arc::new).ok_or(Failure::NoRoom)?;
        let mut attempt = Attempt::begin(&self.backends.upstream, &self.place, permit, &outgoing, &mut alarm).await?;
        let (status, headers) = alarm.until(due, pin!(attempt.head())).await.ok_or(Failure::TotalTimeout)??;
        let wait = quota::retry_after(|name| headers.text(name), SystemTime::now());
        // Some receivers answer with JSON all the same.
        let is_protobuf = headers.text("content-type").is_some_and(|kind| kind.starts_with(PROTOBUF));
        let why = format!("it answers {}", status.as_u16());
        // A body that is too long, too slow or cut changes nothing: the status is known. Its
        // connection is not used again.
        let rest = attempt.rest(ANSWER, due, &mut alarm).await;
        if rest.is_ok() {
            attempt.finish().await;
        }
        Ok(match (status.as_u16(), wait) {
            (200..=299, _) => {
                Posted::Taken { rejected: rest.ok().filter(|_| is_protobuf).map_or(0, |body| rejected(&body)) }
            }
            (429 | 502..=504, Some(wait)) => Posted::Later { why, wait },
            (401 | 403, _) => Posted::Refused(format!("{why}: look at `traces.headers`")),
            (404 | 405, _) => Posted::Refused(format!("{why}: look at the path in `traces.endpoint`")),
            _ => Posted::Refused(why),
        })
    }
}

/// Returns how many spans a receiver did not take, as it says.
fn rejected(body: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    answer.partial_success.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}

fn place(settings: &config::Traces, backends: &Backends) -> Arc<Place> {
    Arc::new(Place::apart(account(settings), &backends.server.proxies))
}

/// Returns the receiver as an account.
fn account(settings: &config::Traces) -> Account {
    let endpoint = &settings.endpoint;
    let base = Base {
        tls: endpoint.tls,
        host: endpoint.host.as_str().into(),
        port: endpoint.port,
        path: "".into(),
        authority: endpoint.authority.clone(),
    };
    let timeouts = Timeouts {
        connect: CONNECT,
        first_byte: PATIENCE,
        first_token: None,
        idle: PATIENCE,
        total: PATIENCE,
        total_stream: PATIENCE,
    };
    let mut account = beside("traces".into(), base, timeouts, HeaderValue::from_static(PROTOBUF));
    account.headers.push((header::ACCEPT, HeaderValue::from_static(PROTOBUF)));
    account.headers.extend(settings.headers.iter().cloned());
    account.network.ca.clone_from(&settings.ca);
    account
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    #[test]
    fn what_a_receiver_says_is_read_with_care() {
        let answer = |rejected_spans| {
            let partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message: "no".to_owned() });
            ExportTraceServiceResponse { partial_success }.encode_to_vec()
        };
        assert_eq!([rejected(&answer(3)), rejected(&answer(-3)), rejected(&answer(0))], [3, 0, 0]);
        assert_eq!([rejected(b""), rejected(b"{}"), rejected(&[0xff; 40])], [0, 0, 0]);
    }
}
