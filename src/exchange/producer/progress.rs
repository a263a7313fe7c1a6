//! The [`Progress`] of an attempt is what others may know of it while it runs.

use crate::base::lock::Lock;
use crate::base::trace_context::SpanId;
use dialects::Labels;
use dialects::usage::{Source, Usage};
use http::HeaderValue;
use std::sync::MutexGuard;
use std::time::Duration;

/// The progress of one attempt.
#[derive(Default)]
pub(super) struct Progress(Lock<Facts>);

/// The facts of a progress.
#[derive(Default)]
pub(super) struct Facts {
    /// The upstream's own id for the request.
    pub(super) id: Option<String>,
    /// The type of the answer, if it passes as it comes.
    pub(super) content_type: Option<HeaderValue>,
    /// The time until there was a connection.
    pub(super) connected: Option<Duration>,
    /// The time until the upstream began to answer.
    pub(super) begun_after: Option<Duration>,
    /// True if the whole request was sent.
    pub(super) sent: bool,
    /// True if the request was sent once more, since a connection that was used before ended.
    pub(super) resent: bool,
    /// The usage so far.
    pub(super) usage: Usage,
    /// The attempt's span, if its account got the trace context.
    pub(super) span: Option<SpanId>,
    /// The upstream's id of its answer, if the exchange is traced.
    pub(super) labels: Option<Box<Labels>>,
}

/// The times that an attempt took to have a connection, and to begin to answer.
#[derive(Clone, Copy, Default)]
pub(super) struct AttemptTimes {
    pub(super) connect: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
}

impl Progress {
    /// Locks the facts, to read or change them.
    pub(super) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock()
    }

    /// Notes that the whole request was sent, over a connection that took this time to open.
    pub(super) fn sent(&self, connected: Duration) {
        let mut facts = self.lock();
        facts.connected = Some(connected);
        facts.sent = true;
    }

    /// Returns the times that the attempt took so far.
    pub(super) fn times(&self) -> AttemptTimes {
        let facts = self.lock();
        AttemptTimes {
            connect: facts.connected,
            first_byte: facts.begun_after,
        }
    }

    /// Notes that the request is sent once more, on a new connection.
    pub(super) fn resend(&self) {
        let mut facts = self.lock();
        (facts.sent, facts.resent) = (false, true);
    }

    /// Takes what a trace shows of the attempt: its span, and what the upstream calls its answer;
    /// and tells how often the request was sent once more.
    pub(super) fn take_trace_facts(&self) -> (Option<SpanId>, Option<Box<Labels>>, u32) {
        let mut facts = self.lock();
        (facts.span, facts.labels.take(), facts.resent.into())
    }

    /// Returns the usage of an attempt that failed, if the upstream may charge for it. It may, if
    /// it has counted something or begun to answer; `maybe_billed` says that it may in any case.
    pub(super) fn unused(&self, prompt_bytes: u64, maybe_billed: bool) -> Option<Usage> {
        let is_counted = self.lock().usage.source != Source::None;
        self.spent(prompt_bytes)
            .filter(|_| maybe_billed || is_counted)
    }

    /// Returns the usage for which the upstream may charge, if the request was sent.
    pub(super) fn spent(&self, prompt_bytes: u64) -> Option<Usage> {
        let facts = self.lock();
        let is_unknown = facts.usage.source == Source::None;
        facts.sent.then(|| {
            if is_unknown {
                Usage::estimated(prompt_bytes, 0)
            } else {
                facts.usage
            }
        })
    }
}
