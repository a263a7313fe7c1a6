//! The task that sends spans, for ever: batch after batch, one at a time.
//!
//! While the receiver is down, spans are dropped and counted, and the queue is emptied all the
//! same: memory does not grow.

use super::outage::Outage;
use super::post::{Posted, Receiver};
use super::{Traces, spans};
use crate::exchange::backends::Backends;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// The most tries for one batch.
const MAX_TRIES: usize = 3;
/// The longest wait that a receiver may ask for.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The longest time for one try at the end of the process.
const LAST_TRY_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends spans, for ever. `instance` is the name of this gateway.
pub async fn send_spans(traces: &Traces, backends: &Backends, instance: &str) {
    let receiver = Receiver::new(traces, backends);
    let mut outage = Outage::default();
    loop {
        let batch = traces.queue.next_batch().await;
        let count = batch.count;
        let body = [
            spans::preamble(traces, instance, batch.bytes.len()).into(),
            batch.bytes.into(),
        ];
        let posted = post_batch(traces, &receiver, &body).await;
        drop(body);
        // The line comes before `note_sent`, after which the process may end.
        if let Some((level, message)) = outage.note_batch(
            &posted,
            count,
            traces.queue.take_overflown(),
            Instant::now(),
        ) {
            log::log!(level, "{message}");
        }
        let (reason, lost) = match &posted {
            Posted::Taken { rejected } => ("rejected", (*rejected).min(count)),
            Posted::Refused(_) | Posted::Later { .. } => ("refused", count),
            Posted::Failed(_) => ("failed", count),
            Posted::Ended => ("ended", count),
        };
        let given_up = if traces.queue.is_ending() { lost } else { 0 };
        // The end of the process may have counted the batch already.
        let is_uncounted = traces.queue.note_sent(given_up);
        if is_uncounted {
            traces.metrics.exported(count - lost);
            traces.metrics.dropped(reason, lost);
        }
    }
}

/// Posts a batch, and retries while the receiver names a time for it.
async fn post_batch(traces: &Traces, receiver: &Receiver<'_>, body: &[Bytes]) -> Posted {
    let mut tries = 0;
    loop {
        let posted = tokio::select! {
            posted = receiver.post(body) => posted,
            () = wait_until_late(traces) => return Posted::Ended,
        };
        tries += 1;
        let wait = match &posted {
            Posted::Later { wait, .. } if tries < MAX_TRIES && *wait <= MAX_WAIT => *wait,
            Posted::Later { .. }
            | Posted::Taken { .. }
            | Posted::Refused(_)
            | Posted::Failed(_)
            | Posted::Ended => return posted,
        };
        // At the end of the process, no span waits for a receiver.
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = traces.queue.wait_until_ending() => return Posted::Ended,
        }
    }
}

/// Returns when a try takes too long for the end of the process.
async fn wait_until_late(traces: &Traces) {
    traces.queue.wait_until_ending().await;
    tokio::time::sleep(LAST_TRY_TIMEOUT).await;
}
