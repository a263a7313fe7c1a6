//! [`Changes`] lists the scopes whose counts have changed. The store, which keeps the counts too,
//! reads the list.
//!
//! A scope is in the list at most once, however often it changes before the list is read: the
//! reader then sends all that the scope counts. So the list is never longer than the number of
//! scopes.

use super::{Counts, Scope, Used};
use crate::base::lock::Lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The scopes whose counts have changed since the list was last read.
#[derive(Debug, Default)]
pub struct Changes {
    scopes: Lock<Vec<Arc<Scope>>>,
    /// Wakes the reader of the list: there is a changed scope.
    pub some: Notify,
}

impl Changes {
    /// Takes at most `most` scopes from the list.
    pub fn take(&self, max_scopes: usize) -> Vec<Arc<Scope>> {
        let mut scopes = self.scopes.lock();
        let rest = scopes.len().min(max_scopes);
        let taken: Vec<Arc<Scope>> = scopes.drain(..rest).collect();
        for scope in &taken {
            // The counts are read after this. So a change from now on puts the scope into the list
            // again.
            scope.shared.listed.store(false, Ordering::SeqCst);
        }
        taken
    }

    /// Returns the number of scopes in the list.
    pub fn len(&self) -> usize {
        self.scopes.lock().len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The state of a scope that the store counts too.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The list that the scope enters when it changes. `None` if there is no store.
    changes: Option<Arc<Changes>>,
    listed: AtomicBool,
    sent_epoch: AtomicU64,
    retired: AtomicBool,
    /// The counts with which the scope began, without those of processes that died.
    began: OnceLock<Counts>,
    /// True if it is known what the store already had of this scope, sent earlier by this gateway's
    /// name.
    is_known: AtomicBool,
}

impl Scope {
    /// Makes the scope enter `changes` from now on, if there is such a list.
    pub(super) fn shared(self, changes: Option<Arc<Changes>>) -> Scope {
        Scope {
            shared: Shared {
                changes,
                ..Shared::default()
            },
            ..self
        }
    }

    /// Puts the scope into the list of changes.
    pub fn changed(self: &Arc<Scope>) {
        let Shared {
            changes: Some(changes),
            retired,
            listed,
            ..
        } = &self.shared
        else {
            return;
        };
        if !retired.load(Ordering::SeqCst) && !listed.swap(true, Ordering::SeqCst) {
            changes.scopes.lock().push(self.clone());
            changes.some.notify_one();
        }
    }

    /// Notes that no key is bound by the scope any more. If its name comes back, a new scope counts
    /// for it.
    pub(super) fn retire(&self) {
        self.shared.retired.store(true, Ordering::SeqCst);
    }

    /// Notes the present counts as those with which the scope began. The use of processes that died
    /// is added after this call: in the store such a process had only reserved it.
    pub(super) fn begins(&self) {
        if self.shared.changes.is_some() {
            // Only the first call counts.
            self.shared.began.get_or_init(|| self.tally().counts());
        }
    }

    /// Returns the counts with which the scope began, without those of processes that died. Returns
    /// empty counts if none were noted.
    pub fn began(&self) -> Counts {
        self.shared.began.get().cloned().unwrap_or_default()
    }

    /// Returns whether it is known what the store already had of this scope, sent earlier by this
    /// gateway's name.
    pub fn is_known(&self) -> bool {
        self.shared.changes.is_none() || self.shared.is_known.load(Ordering::Relaxed)
    }

    /// Notes that it is now known what the store already had. Adds `missing`, which was not counted
    /// here: each entry has a time and an amount.
    pub fn add_missing(self: &Arc<Scope>, missing: &[(u64, Used)]) {
        let Shared {
            changes, is_known, ..
        } = &self.shared;
        if changes.is_none() || is_known.swap(true, Ordering::Relaxed) || missing.is_empty() {
            return;
        }
        let mut tally = self.tally();
        missing
            .iter()
            .for_each(|(used_at, used)| tally.recall(*used_at, None, *used));
        drop(tally);
        self.changed();
    }

    /// Returns the epoch in which all counts were last sent to the store.
    pub fn sent_epoch(&self) -> u64 {
        self.shared.sent_epoch.load(Ordering::Relaxed)
    }

    /// Notes that all counts were sent to the store in this epoch.
    pub fn mark_sent(&self, epoch: u64) {
        self.shared.sent_epoch.store(epoch, Ordering::Relaxed);
    }
}
