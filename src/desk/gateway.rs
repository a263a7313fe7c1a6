//! The [`Desk`] as a Pingora proxy: one short method for each of Pingora's phases, and no policy.
//! Mount it in any Pingora server with `pingora_proxy::http_proxy_service`, or run
//! [`crate::server`].
//!
//! Everything happens in `request_filter` and `proxy_upstream_filter`; Pingora's own loop to the
//! upstream is never entered. **Invariant:** `Ok` is returned to Pingora only after an explicit end
//! of the answer. After a partial answer, Pingora would finish the body, and a cut answer would
//! look whole. So a partial answer returns `Err`, and the connection ends truncated.

use crate::desk::connection;
use crate::desk::record::Record;
use crate::desk::relay::End;
use crate::desk::reply::Notes;
use crate::desk::{Desk, Planned};
use crate::error::Outcome;
use crate::exchange::{self, OwnTime, Panicked};
use async_trait::async_trait;
use pingora::modules::http::HttpModules;
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::pin::pin;
use std::time::Instant;

/// The data that an exchange carries from one phase to the next.
pub struct Context {
    record: Record,
    planned: Option<Box<Planned>>,
}

#[async_trait]
impl ProxyHttp for Desk {
    // Pingora moves it several times, and keeps room for each of its places.
    type CTX = Box<Context>;

    fn new_ctx(&self) -> Box<Context> {
        Box::new(Context {
            record: Record::new(self.books.clone()),
            planned: None,
        })
    }

    /// Adds no module: not even the compression that Pingora adds by default.
    fn init_downstream_modules(&self, _: &mut HttpModules) {}

    async fn early_request_filter(
        &self,
        session: &mut Session,
        context: &mut Box<Context>,
    ) -> pingora::Result<()> {
        let began = Instant::now();
        connection::enter_phase(session, connection::BUSY);
        self.begin_record(session, &mut context.record);
        context.record.facts.times.own_time += began.elapsed();
        Ok(())
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        context: &mut Box<Context>,
    ) -> pingora::Result<bool> {
        let record = &mut context.record;
        let own = OwnTime::from_beginning(record.began);
        let handled = exchange::run_guarded(&own, pin!(self.answer_or_plan(session, record))).await;
        record.facts.times.own_time += own.so_far();
        match handled.unwrap_or_else(|Panicked| Err(self.panicked())) {
            Ok(planned) => {
                context.planned = planned;
                Ok(context.planned.is_none())
            }
            Err(refusal) => {
                let written = self
                    .reply(session, record)
                    .refuse(&refusal, &Notes::default())
                    .await;
                written
                    .map(|()| true)
                    .map_err(|()| broken_connection(record))
            }
        }
    }

    async fn proxy_upstream_filter(
        &self,
        session: &mut Session,
        context: &mut Box<Context>,
    ) -> pingora::Result<bool> {
        let record = &mut context.record;
        let Some(planned) = context.planned.take() else {
            return Err(broken_connection(record));
        };
        match self.run_exchange(session, record, planned).await {
            End::Answered => Ok(false),
            End::Broken => Err(broken_connection(record)),
            // The connection may be used again after a refusal.
            End::Refused(refusal, notes) => {
                let written = self.reply(session, record).refuse(&refusal, &notes).await;
                written
                    .map(|()| false)
                    .map_err(|()| broken_connection(record))
            }
        }
    }

    async fn upstream_peer(
        &self,
        _: &mut Session,
        context: &mut Box<Context>,
    ) -> pingora::Result<Box<HttpPeer>> {
        // `proxy_upstream_filter` never returns `Ok(true)`.
        Err(broken_connection(&mut context.record))
    }

    async fn fail_to_proxy(
        &self,
        _: &mut Session,
        _: &Error,
        context: &mut Box<Context>,
    ) -> FailToProxy {
        // Everything that could be said to the caller has been said. The connection closes.
        FailToProxy {
            error_code: context.record.facts.answer.status,
            can_reuse_downstream: false,
        }
    }

    async fn logging(&self, session: &mut Session, _: Option<&Error>, context: &mut Box<Context>) {
        context.record.facts.request.bytes = session.as_downstream().body_bytes_read() as u64;
        connection::enter_phase(session, connection::OVER);
    }

    fn suppress_error_log(&self, _: &Session, _: &Box<Context>, _: &Error) -> bool {
        // The access line has the error.
        true
    }

    fn request_summary(&self, _: &Session, context: &Box<Context>) -> String {
        format!(
            "{} {}",
            context.record.facts.request.method, context.record.facts.request.path
        )
    }
}

/// Returns the error after which Pingora closes the connection as it is, since the connection
/// cannot be used any more.
fn broken_connection(record: &mut Record) -> Box<Error> {
    record.end(Outcome::ClientLeft);
    Error::explain(ErrorType::ConnectionClosed, "the caller cannot be answered").into_down()
}
