//! The task that sends spans, for ever: batch after batch, one at a time.
//!
//! While the receiver is down, spans are dropped and counted, and the queue is emptied all the
//! same: memory does not grow. One line of the log says when an outage begins, and one when it
//! ends.

use super::post::{Posted, Receiver};
use super::{Traces, Unsent, spans};
use crate::base::trace_context::SpanId;
use crate::exchange::backends::Backends;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use std::time::Duration;

/// The most tries for one batch.
const TRIES: usize = 3;
/// The longest wait that a receiver may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest time for one try at the end of the process.
const LAST: Duration = Duration::from_secs(1);
/// The longest time for one try before.
const USUAL: Duration = Duration::from_secs(10);

/// Sends spans, for ever. `instance` is the name of this gateway.
pub async fn keep(traces: &Traces, backends: &Backends, instance: &str) {
    let mut receiver = Receiver::new(traces, backends);
    let mut outage = Outage::default();
    loop {
        let batch = traces.queue.batch().await;
        let count = batch.iter().map(Unsent::spans).sum();
        let posted = send(traces, &mut receiver, encoded(traces, &batch, instance)).await;
        drop(batch);
        match &posted {
            Posted::Taken { rejected } => {
                let rejected = usize::try_from(*rejected).unwrap_or(usize::MAX).min(count);
                traces.metrics.exported(count - rejected);
                traces.metrics.dropped("rejected", rejected);
            }
            Posted::Refused(_) | Posted::Later { .. } => traces.metrics.dropped("refused", count),
            Posted::Failed(_) => traces.metrics.dropped("failed", count),
        }
        outage.note(&posted, count);
        traces.queue.sent();
    }
}

/// Writes the message for a batch.
fn encoded(traces: &Traces, batch: &[Unsent], instance: &str) -> Bytes {
    let mut id = || -> SpanId { fastrand::u64(1..).to_be_bytes() };
    let resource_spans = vec![spans::message(traces, batch, instance, &mut id)];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec().into()
}

/// Posts a batch, and again as long as the receiver says when.
async fn send(traces: &Traces, receiver: &mut Receiver<'_>, body: Bytes) -> Posted {
    let mut tries = 0;
    loop {
        let patience = if traces.queue.is_hurried() { LAST } else { USUAL };
        // At the end of the process, nobody waits for a slow receiver.
        let posted = tokio::select! {
            posted = receiver.post(body.clone(), patience) => posted,
            () = late(traces, patience) => Posted::Failed("the process ends".to_owned()),
        };
        tries += 1;
        let wait = match &posted {
            Posted::Later { wait, .. } => Some(*wait).filter(|wait| tries < TRIES && *wait <= LONGEST_WAIT),
            Posted::Taken { .. } | Posted::Refused(_) | Posted::Failed(_) => None,
        };
        let Some(wait) = wait.filter(|_| !traces.queue.is_hurried()) else { return posted };
        drop(tokio::time::timeout(wait, traces.queue.hurried()).await);
    }
}

/// Returns a while after everything is to be sent at once, if a try began before that.
async fn late(traces: &Traces, patience: Duration) {
    if patience == LAST {
        return std::future::pending().await;
    }
    traces.queue.hurried().await;
    tokio::time::sleep(LAST).await;
}

/// What is known of an outage of the receiver.
#[derive(Default)]
struct Outage {
    /// The spans that were lost since it began; `None` if there is none.
    lost: Option<usize>,
}

impl Outage {
    /// Logs the beginning and the end of an outage.
    fn note(&mut self, posted: &Posted, count: usize) {
        let why = match posted {
            Posted::Taken { .. } => {
                if let Some(lost) = self.lost.take() {
                    log::info!("spans can be sent again; {lost} spans were dropped");
                }
                return;
            }
            Posted::Later { why, .. } | Posted::Refused(why) | Posted::Failed(why) => why,
        };
        if self.lost.is_none() {
            log::warn!("spans cannot be sent to `traces.endpoint` ({why}): they are dropped until they can be");
        }
        *self.lost.get_or_insert(0) += count;
    }
}
