//! What counts have changed, for whoever keeps them elsewhere too.
//!
//! A scope stands in the list once, however often it changes before the list is looked at: what is
//! told of it then is all that it counts. So the list is never longer than there are scopes.

use super::{Counts, Scope, Spent};
use crate::base::lock::Lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The scopes that have changed.
#[derive(Debug, Default)]
pub struct Changes {
    scopes: Lock<Vec<Arc<Scope>>>,
    /// There are some.
    pub some: Notify,
}

impl Changes {
    /// Takes at most so many.
    pub fn take(&self, most: usize) -> Vec<Arc<Scope>> {
        let mut scopes = self.scopes.lock();
        let rest = scopes.len().min(most);
        let taken: Vec<Arc<Scope>> = scopes.drain(..rest).collect();
        for scope in &taken {
            // What changes from now on is a change anew: its counts are read after this.
            scope.shared.listed.store(false, Ordering::SeqCst);
        }
        taken
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.scopes.lock().len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a scope knows of being shared.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Who is told of its changes, if anybody is.
    changes: Option<Arc<Changes>>,
    listed: AtomicBool,
    told: AtomicU64,
    retired: AtomicBool,
    /// What it began with, without what was cut where a process died.
    began: OnceLock<Counts>,
    /// What was kept elsewhere by who counted for it before is known.
    is_known: AtomicBool,
}

impl Scope {
    /// Lists its changes from now on, where somebody is told of them.
    pub(super) fn shared(self, changes: Option<Arc<Changes>>) -> Scope {
        Scope { shared: Shared { changes, ..Shared::default() }, ..self }
    }

    /// Notes that its counts have changed.
    pub fn changed(self: &Arc<Scope>) {
        let Shared { changes: Some(changes), retired, listed, .. } = &self.shared else { return };
        if !retired.load(Ordering::SeqCst) && !listed.swap(true, Ordering::SeqCst) {
            changes.scopes.lock().push(self.clone());
            changes.some.notify_one();
        }
    }

    /// Notes that nobody is bound by it any more: if its name comes back, another one counts for
    /// it.
    pub(super) fn retire(&self) {
        self.shared.retired.store(true, Ordering::SeqCst);
    }

    /// What it counts up to now it began with. What was cut where a process died comes after it:
    /// who counted there had only reserved it.
    pub(super) fn begins(&self) {
        if self.shared.changes.is_some() {
            // What it began with first stays.
            self.shared.began.get_or_init(|| self.tally().counts());
        }
    }

    /// Returns what it began with, without what was cut where a process died; nothing, if nobody
    /// said so.
    pub fn began(&self) -> Counts {
        self.shared.began.get().cloned().unwrap_or_default()
    }

    /// Returns whether it is known what was kept elsewhere by who counted for it before.
    pub fn is_known(&self) -> bool {
        self.shared.changes.is_none() || self.shared.is_known.load(Ordering::Relaxed)
    }

    /// It is known now, and this of it was not counted here: each when, how many requests, and what
    /// they used.
    pub fn know(self: &Arc<Scope>, missing: &[(u64, u64, Spent)]) {
        let Shared { changes, is_known, .. } = &self.shared;
        if changes.is_none() || is_known.swap(true, Ordering::Relaxed) || missing.is_empty() {
            return;
        }
        let mut tally = self.tally();
        missing.iter().for_each(|(at, requests, spent)| tally.recall(*at, None, *requests, *spent));
        drop(tally);
        self.changed();
    }

    /// Returns in which epoch all its counts were told last.
    pub fn told(&self) -> u64 {
        self.shared.told.load(Ordering::Relaxed)
    }

    /// Notes that all its counts were told in this epoch.
    pub fn tell(&self, epoch: u64) {
        self.shared.told.store(epoch, Ordering::Relaxed);
    }
}
