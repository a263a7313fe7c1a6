//! [`Unreadable`] is what is known of counts in the store that could not be read. Another program
//! wrote there, or a disk is broken. The store removes them, and each gateway sends its own again.

use crate::limits::{Level, Scope};
use crate::status::UnreadableReport;
use std::sync::{Arc, Weak};

/// The record of counts that could not be read.
#[derive(Default)]
pub(super) struct Unreadable {
    /// How often some were found.
    number: u64,
    /// Whose counts the last ones were.
    last_scopes: Option<String>,
    /// The scopes that this gateway has not sent again.
    waiting: Vec<Weak<Scope>>,
}

impl Unreadable {
    /// Notes that a scope's counts could not be read.
    pub(super) fn note_unreadable(&mut self, scope: &Arc<Scope>) {
        self.number += 1;
        self.last_scopes = Some(shown_scope(scope));
        // It may be found again before it is sent, and others may be gone from the catalog.
        self.note_sent(scope);
        self.waiting.push(Arc::downgrade(scope));
    }

    /// Notes that the store has this gateway's counts of a scope.
    pub(super) fn note_sent(&mut self, scope: &Arc<Scope>) {
        self.waiting
            .retain(|other| other.strong_count() > 0 && other.as_ptr() != Arc::as_ptr(scope));
    }

    /// Returns what `/status` shows.
    pub(super) fn report(&self) -> UnreadableReport {
        // A caller that is no longer in the catalog is not sent again.
        let waiting = self
            .waiting
            .iter()
            .filter(|scope| scope.strong_count() > 0)
            .count();
        UnreadableReport {
            number: self.number,
            scope: self.last_scopes.clone(),
            waiting,
        }
    }
}

/// Logs that a scope's counts could not be read.
pub(super) fn log_unreadable(scope: &Scope) {
    log::warn!(
        "the store had counts of {} that could not be read: they were removed, and each gateway sends its own again. \
         Does another program write under `store.prefix`?",
        shown_scope(scope)
    );
}

/// Returns whose counts a scope has: `caller acme`, `key acme/prod`.
fn shown_scope(scope: &Scope) -> String {
    let level = match scope.level {
        Level::Caller => "caller",
        Level::Key | Level::KeyModel => "key",
    };
    format!("{level} {}", scope.name)
}
