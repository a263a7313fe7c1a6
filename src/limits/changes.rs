//! [`Changes`] lists the scopes whose counts have changed. The store, which keeps the counts too,
//! reads the list.
//!
//! A scope is in the list at most once, however often it changes before the list is read: the
//! reader then sends what the scope counts. So the list is never longer than the number of scopes.
//! A settlement may wait a moment in the list, for an admission of its scope that it can go with.

use super::{Counts, OwnPart, Scope, Used};
use crate::base::lock::Lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The time that a settlement waits for an admission to go with. With what a timer may be late, it
/// is sent within 20 ms.
const MAX_WAIT: Duration = Duration::from_millis(15);
/// The ticket of a scope that is not in the list.
const NOT_LISTED: u64 = 0;
/// The bit of a ticket that says that the scope is to be sent at once.
const AT_ONCE: u64 = 1;

/// The scopes whose counts have changed since the list was last read.
#[derive(Debug, Default)]
pub struct Changes {
    queues: Lock<Queues>,
    /// True once nothing waits any more, since the process is about to end.
    hurries: AtomicBool,
    /// Wakes the reader of the list: there is a changed scope that is to be sent at once, or the
    /// first one that may wait.
    pub some: Notify,
    /// True if the store had something of a scope that was not counted here.
    has_late_use: AtomicBool,
}

#[derive(Debug, Default)]
struct Queues {
    at_once: VecDeque<Listed>,
    /// The scopes that may wait, in the order of their times.
    waiting: VecDeque<Listed>,
    tickets: u64,
    /// The number of scopes in the list.
    listed: usize,
}

/// A scope in the list. The entry is void if the scope has another ticket by now.
#[derive(Debug)]
struct Listed {
    ticket: u64,
    due: Instant,
    scope: Arc<Scope>,
}

impl Listed {
    fn is_void(&self) -> bool {
        self.scope.shared.ticket.load(Ordering::SeqCst) != self.ticket
    }
}

impl Queues {
    fn drop_void(&mut self) {
        for queue in [&mut self.at_once, &mut self.waiting] {
            while queue.front().is_some_and(Listed::is_void) {
                queue.pop_front();
            }
        }
    }

    /// Takes a scope from the list. Its counts are read after this: so a change from now on puts it
    /// into the list again.
    fn unlist(&mut self, scope: &Scope) -> bool {
        let was = scope.shared.ticket.swap(NOT_LISTED, Ordering::SeqCst);
        self.listed -= usize::from(was != NOT_LISTED);
        was != NOT_LISTED
    }
}

impl Changes {
    /// Takes at most this many of the scopes that are to be sent by now.
    pub fn take_due(&self, max_scopes: usize, now: Instant) -> Vec<Arc<Scope>> {
        let hurries = self.hurries.load(Ordering::SeqCst);
        let mut queues = self.queues.lock();
        let mut taken = Vec::new();
        while taken.len() < max_scopes {
            queues.drop_void();
            let first = queues.waiting.front();
            let is_due = first.is_some_and(|entry| hurries || entry.due <= now);
            let next = match queues.at_once.pop_front() {
                None if is_due => queues.waiting.pop_front(),
                urgent => urgent,
            };
            let Some(entry) = next else { break };
            queues.unlist(&entry.scope);
            taken.push(entry.scope);
        }
        taken
    }

    /// Takes this scope from the list. Returns whether it was there.
    pub fn take(&self, scope: &Scope) -> bool {
        scope.shared.ticket.load(Ordering::SeqCst) != NOT_LISTED && self.queues.lock().unlist(scope)
    }

    /// Returns the time at which the next scope is to be sent, if there is one.
    pub fn next_due(&self) -> Option<Instant> {
        let mut queues = self.queues.lock();
        queues.drop_void();
        let next = queues.at_once.front().or(queues.waiting.front())?;
        match self.hurries.load(Ordering::SeqCst) {
            true => Some(Instant::now()),
            false => Some(next.due),
        }
    }

    /// Lets nothing wait any more.
    pub fn hurry(&self) {
        self.hurries.store(true, Ordering::SeqCst);
        self.some.notify_one();
    }

    /// Returns whether the store had something of a scope, since this was last asked.
    pub(super) fn take_late_use(&self) -> bool {
        self.has_late_use.load(Ordering::Relaxed)
            && self.has_late_use.swap(false, Ordering::Relaxed)
    }

    /// Returns the number of scopes in the list.
    pub fn len(&self) -> usize {
        self.queues.lock().listed
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a scope into the list. If it may wait there already, it is perhaps moved forward.
    fn add(&self, scope: &Arc<Scope>, is_urgent: bool) {
        let ticket = &scope.shared.ticket;
        let is_there = |ticket: u64| ticket != NOT_LISTED && (!is_urgent || ticket & AT_ONCE != 0);
        if is_there(ticket.load(Ordering::SeqCst)) {
            return;
        }
        let mut queues = self.queues.lock();
        let before = ticket.load(Ordering::SeqCst);
        if is_there(before) {
            return;
        }
        queues.listed += usize::from(before == NOT_LISTED);
        queues.tickets += 2;
        let (mut number, mut due) = (queues.tickets, Instant::now());
        let queue = if is_urgent {
            number |= AT_ONCE;
            &mut queues.at_once
        } else {
            due += MAX_WAIT;
            &mut queues.waiting
        };
        let wakes = is_urgent || queue.is_empty();
        ticket.store(number, Ordering::SeqCst);
        queue.push_back(Listed {
            ticket: number,
            due,
            scope: scope.clone(),
        });
        drop(queues);
        if wakes {
            self.some.notify_one();
        }
    }
}

/// The state of a scope that the store counts too.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The list that the scope enters when it changes. `None` if there is no store.
    changes: Option<Arc<Changes>>,
    /// The scope's ticket in the list.
    ticket: AtomicU64,
    /// True if settlements may wait in the list: by the store's last answer they free no place that
    /// another gateway waits for.
    may_wait: AtomicBool,
    sent_epoch: AtomicU64,
    retired: AtomicBool,
    /// True if anything was ever counted.
    pub(super) is_used: AtomicBool,
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

    /// Puts the scope into the list of changes. All that it counts is sent at once.
    pub fn changed(self: &Arc<Scope>) {
        if self.shared.changes.is_some() {
            self.tally().send_all();
            self.list(true);
        }
    }

    /// Puts the scope into the list of changes, since an exchange was settled. What has changed is
    /// sent at once if `is_urgent`, or if the scope is nearly full or limits the requests that run.
    pub(super) fn settled(self: &Arc<Scope>, is_urgent: bool) {
        self.list(is_urgent || !self.shared.may_wait.load(Ordering::Relaxed));
    }

    fn list(self: &Arc<Scope>, is_urgent: bool) {
        if let Some(changes) = &self.shared.changes
            && !self.shared.retired.load(Ordering::SeqCst)
        {
            changes.add(self, is_urgent);
        }
    }

    /// Notes whether settlements of this scope may wait a moment before the store gets them.
    pub fn let_wait(&self, may_wait: bool) {
        self.shared.may_wait.store(may_wait, Ordering::Relaxed);
    }

    /// Takes this gateway's own counts to send them: of the minute only the seconds that changed
    /// since they were last taken, or all if `is_whole`.
    pub fn take_part(&self, now_ms: u64, is_whole: bool) -> OwnPart {
        self.tally_at(now_ms).take_part(is_whole)
    }

    /// Notes that something is counted.
    pub(super) fn note_use(&self) {
        let is_used = &self.shared.is_used;
        if !is_used.load(Ordering::Relaxed) {
            is_used.store(true, Ordering::Relaxed);
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
        self.note_use();
        if let Some(changes) = changes {
            changes.has_late_use.store(true, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Level;

    fn scope(name: &str, changes: &Arc<Changes>) -> Arc<Scope> {
        let scope = Scope::new(Level::Key, name.into()).shared(Some(changes.clone()));
        scope.let_wait(true);
        Arc::new(scope)
    }

    fn names(scopes: &[Arc<Scope>]) -> Vec<&str> {
        scopes.iter().map(|scope| &*scope.name).collect()
    }

    #[test]
    fn settlements_wait_and_all_else_goes_at_once() {
        let changes = Arc::new(Changes::default());
        let [a, b, c, full] = ["a", "b", "c", "full"].map(|name| scope(name, &changes));
        full.let_wait(false);
        a.settled(false);
        b.settled(false);
        b.settled(false);
        let now = Instant::now();
        assert_eq!(changes.len(), 2);
        assert!(changes.take_due(9, now).is_empty());
        assert!(changes.next_due().is_some_and(|due| due > now));
        // What may wait is moved forward by what may not.
        c.changed();
        a.settled(true);
        full.settled(false);
        assert_eq!(changes.len(), 4);
        let now = Instant::now();
        assert!(changes.next_due().is_some_and(|due| due <= now));
        assert_eq!(names(&changes.take_due(2, now)), ["c", "a"]);
        assert_eq!(names(&changes.take_due(2, now)), ["full"]);
        // Only the other one still waits, and only until its time.
        assert_eq!(names(&changes.take_due(9, now + MAX_WAIT)), ["b"]);
        assert_eq!((changes.next_due(), changes.is_empty()), (None, true));
    }

    #[test]
    fn a_scope_that_was_taken_waits_anew() {
        let changes = Arc::new(Changes::default());
        let [a, b] = ["a", "b"].map(|name| scope(name, &changes));
        a.settled(false);
        assert!(changes.take(&a) && !changes.take(&a) && !changes.take(&b));
        assert_eq!((changes.next_due(), changes.len()), (None, 0));
        a.settled(false);
        let first = changes.next_due().expect("it waits");
        assert!(changes.take(&a));
        a.settled(false);
        b.settled(false);
        assert!(changes.next_due() > Some(first));
        assert_eq!(changes.len(), 2);
        // Nothing waits at the end.
        changes.hurry();
        assert_eq!(names(&changes.take_due(9, Instant::now())), ["a", "b"]);
    }
}
