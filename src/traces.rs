//! Traces of exchanges, for OpenTelemetry: what is known of a settled exchange becomes spans, and
//! the spans are posted to a receiver.
//!
//! If an exchange is kept, its spans are written when it settles, and put into a bounded queue. A
//! task sends them. No request waits for it, and nothing of it fails a request.
//!
//! **Invariant:** no text of a prompt or an answer, no query string, no credential and no sentence
//! of an upstream is ever part of a span.

mod attributes;
mod export;
mod outage;
mod post;
mod protobuf;
mod queue;
mod sampling;
mod spans;
mod words;

use crate::base::calendar;
use crate::base::trace_context::{self, SpanId, TRACEPARENT, TRACESTATE, TraceContext};
use crate::conf::config::{self, Listen};
use crate::live::Snapshot;
use crate::metrics::SpanMetrics;
use crate::settled::Settled;
pub use export::send_spans;
use http::HeaderMap;
use protobuf::Message;
use queue::{SpanQueue, Unfinished};
use sampling::Sampler;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The most memory that a thread keeps for writing spans. Nearly all exchanges need less.
const KEPT_MEMORY: usize = 16 * 1024;

thread_local! {
    static SPANS: Cell<Message> = Cell::default();
}

/// The traces of a process.
pub struct Traces {
    settings: config::Traces,
    /// The addresses for callers, each with whether it speaks TLS.
    listeners: Vec<(SocketAddr, bool)>,
    sampler: Sampler,
    queue: SpanQueue,
    metrics: SpanMetrics,
}

impl Traces {
    /// Makes the traces of a process with these listeners.
    pub fn new(settings: config::Traces, listen: &[Listen], metrics: SpanMetrics) -> Traces {
        Traces {
            sampler: Sampler::new(settings.sampling),
            settings,
            listeners: listen
                .iter()
                .map(|listen| (listen.address, listen.tls.is_some()))
                .collect(),
            queue: SpanQueue::default(),
            metrics,
        }
    }

    /// Takes a settled exchange, if it is to be sent.
    pub fn take(&self, settled: &Settled, snapshot: Option<&Snapshot>) {
        if !words::is_traced(settled.request.door)
            || !self.sampler.keeps(settled, calendar::now_millis())
        {
            return;
        }
        let catalog = snapshot.map(|snapshot| &snapshot.catalog);
        let mut id = || -> SpanId { fastrand::u64(1..).to_be_bytes() };
        let mut spans = SPANS.try_with(Cell::take).unwrap_or_default();
        let count = spans::write_exchange(self, settled, catalog, &mut id, &mut spans);
        let dropped = self.queue.put(count, spans.encoded());
        spans.reset(KEPT_MEMORY);
        // At the end of the thread there is no place for it, and it is freed.
        SPANS.try_with(|kept| kept.set(spans)).ok();
        self.metrics.dropped("queue_full", dropped);
    }

    /// Sends what waits, and returns when that is done, or after this time. Returns the number of
    /// spans that were not sent because the process ends.
    pub fn finish(&self, timeout: Duration) -> usize {
        let Unfinished {
            left_at_end: left,
            given_up_before: before,
        } = self.queue.finish(timeout);
        self.metrics.dropped("ended", left);
        left + before
    }

    /// Begins to send what waits, without waiting for it.
    pub fn hurry(&self) {
        self.queue.hurry();
    }
}

/// Begins the trace of an exchange. Without traces there is one only if the caller has one. `made`
/// is the request's id if it was made here, and `local_address` the address that the request came
/// to.
pub fn begin_trace(
    traces: Option<&Traces>,
    headers: &HeaderMap,
    made: Option<Uuid>,
    local_address: impl FnOnce() -> Option<SocketAddr>,
) -> Option<Arc<TraceContext>> {
    let has_parent = headers.contains_key(&TRACEPARENT);
    if traces.is_none() && !has_parent {
        return None;
    }
    let lines = |name| headers.get_all(name).into_iter();
    let bytes = http::HeaderValue::as_bytes;
    let read = has_parent
        .then(|| {
            let parents = lines(&TRACEPARENT).map(bytes);
            trace_context::read_trace_headers(parents, lines(&TRACESTATE).map(bytes))
        })
        .flatten();
    let (trace, parent) = match read {
        Some((trace, parent)) => (trace, Some(parent)),
        // A request id that was made here is a trace id, too: who has one has the other.
        None => (
            made.filter(|_| traces.is_some())
                .unwrap_or_else(Uuid::now_v7)
                .into_bytes(),
            None,
        ),
    };
    let Some(traces) = traces else {
        let parent = parent?;
        return Some(Arc::new(TraceContext {
            trace,
            parent: Some(parent),
            is_sampled: false,
            local_address: None,
        }));
    };
    let is_sampled = traces.sampler.is_sampled(parent.as_ref());
    Some(Arc::new(TraceContext {
        trace,
        parent,
        is_sampled,
        local_address: local_address(),
    }))
}
