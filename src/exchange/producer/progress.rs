//! The progress of an attempt: what others may know of it while it runs.

use crate::base::lock::Lock;
use dialects::usage::{Source, Usage};
use std::sync::MutexGuard;
use std::time::Duration;

/// The progress.
#[derive(Default)]
pub(super) struct Progress(Lock<Facts>);

/// What is known.
#[derive(Default)]
pub(super) struct Facts {
    /// The upstream's own id for the request.
    pub(super) id: Option<String>,
    /// How long it took to have a connection.
    pub(super) connected: Option<Duration>,
    /// How long it took until the upstream began to answer.
    pub(super) begun: Option<Duration>,
    /// The whole request was sent.
    pub(super) sent: bool,
    /// What was used so far.
    pub(super) usage: Usage,
}

impl Progress {
    /// Returns what is known, to be read or noted.
    pub(super) fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock()
    }

    /// Notes that the whole request was sent, over a connection that took so long.
    pub(super) fn sent(&self, connected: Duration) {
        let mut facts = self.lock();
        facts.connected = Some(connected);
        facts.sent = true;
    }

    /// Returns how long it took to have a connection, and to begin to answer.
    pub(super) fn timing(&self) -> (Option<Duration>, Option<Duration>) {
        let facts = self.lock();
        (facts.connected, facts.begun)
    }

    /// Returns what the upstream may charge, if the request was sent.
    pub(super) fn spent(&self, prompt_bytes: u64) -> Option<Usage> {
        let facts = self.lock();
        let is_unknown = facts.usage.source == Source::None;
        facts.sent.then(|| if is_unknown { Usage::estimated(prompt_bytes, 0) } else { facts.usage })
    }
}
