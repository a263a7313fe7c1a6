//! The progress of an attempt: what others may know of it while it runs.

use crate::lock::Lock;
use dialects::usage::{Source, Usage};
use std::sync::MutexGuard;
use std::time::Duration;

/// The progress.
#[derive(Default)]
pub(super) struct Progress(Lock<Facts>);

#[derive(Default)]
struct Facts {
    /// The upstream's own id for the request.
    id: Option<String>,
    connected: Option<Duration>,
    begun: Option<Duration>,
    /// The whole request was sent.
    sent: bool,
    usage: Usage,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock()
    }

    /// Returns the upstream's own id for the request.
    pub(super) fn id(&self) -> Option<String> {
        self.lock().id.clone()
    }

    /// Notes the upstream's own id for the request.
    pub(super) fn named(&self, id: Option<String>) {
        self.lock().id = id;
    }

    /// Notes that the whole request was sent, over a connection that took so long.
    pub(super) fn sent(&self, connected: Duration) {
        let mut facts = self.lock();
        facts.connected = Some(connected);
        facts.sent = true;
    }

    /// Notes that the upstream did not look at the request.
    pub(super) fn unsent(&self) {
        self.lock().sent = false;
    }

    /// Notes that the upstream began to answer, after so long.
    pub(super) fn begun(&self, after: Duration) {
        self.lock().begun = Some(after);
    }

    /// Returns how long it took to have a connection, and to begin to answer.
    pub(super) fn timing(&self) -> (Option<Duration>, Option<Duration>) {
        let facts = self.lock();
        (facts.connected, facts.begun)
    }

    /// Notes what was used so far.
    pub(super) fn used(&self, usage: Usage) {
        self.lock().usage = usage;
    }

    /// Returns what the upstream may charge, if the request was sent.
    pub(super) fn spent(&self, prompt_bytes: u64) -> Option<Usage> {
        let facts = self.lock();
        let is_unknown = facts.usage.source == Source::None;
        facts.sent.then(|| if is_unknown { Usage::estimated(prompt_bytes, 0) } else { facts.usage })
    }
}
