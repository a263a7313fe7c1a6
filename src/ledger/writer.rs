//! The [`Writer`] is one thread. It writes the rows that wait into the file, writes what running
//! exchanges have used so far, and deletes what is old.

mod limits;
mod running;

use super::RUNNING_INTERVAL;
use super::book::{BUSY_TIMEOUT, Book, Fault};
use super::merge::DETAILED_DAYS;
use super::sink::{Backlog, Sink};
use crate::base::calendar::{DAY, day_of, day_start, now_millis};
use crate::base::lock::wait_with_timeout;
use running::SoFar;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

/// The time between two tries to open the file.
const RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// The time between two searches for what is old.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);
/// The time between two steps of deleting, in which others can write.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// The least number of days for which sums of days are kept.
const SUMS_KEPT: u64 = 400;
/// The longest wait at the start for another program that locks the file: an instance that is about
/// to end may have it locked for a moment. Callers wait as long.
const START_TIMEOUT: Duration = Duration::from_millis(500);

/// The error after a panic. The process has logged its place.
const PANICKED: &str = "its thread panicked, which is a bug of Portcullis";

/// The state of the thread.
pub(super) struct Writer {
    sink: Arc<Sink>,
    /// `None` if the file could not be opened.
    book: Option<Book>,
    instance: Arc<str>,
    /// The time to search for what is old, or to try to open the file.
    next_prune: Instant,
    /// True if writing the last batch panicked. The batch waits for a second try.
    panicked: bool,
    /// A random name. It tells the running exchanges of this process from those of other processes.
    process: Arc<str>,
    /// The time to write running exchanges next.
    next_running_write: Instant,
    /// The use of running exchanges as the file has it, by the number of the run.
    written_uses: HashMap<u64, SoFar>,
    /// True if the log has said that running exchanges cannot be written.
    live_error_logged: bool,
}

impl Writer {
    /// Makes the writer, and tries to open the file. Also returns the instance's name.
    pub(super) fn begin(sink: Arc<Sink>) -> (Writer, Arc<str>) {
        let now = Instant::now();
        let mut writer = Writer {
            sink,
            book: None,
            instance: random_name(),
            next_prune: now,
            panicked: false,
            process: random_name(),
            next_running_write: now + RUNNING_INTERVAL,
            written_uses: HashMap::new(),
            live_error_logged: false,
        };
        match writer.open_book(START_TIMEOUT) {
            Ok((book, instance)) => {
                writer.instance = instance.into();
                writer.book = Some(book);
                // If this fails, it is tried again with the next search for what is old.
                writer.take_over().ok();
            }
            Err(why) => writer.note_failure(&why),
        }
        let instance = writer.instance.clone();
        (writer, instance)
    }

    /// Writes until the ledger is dropped, also after a panic: otherwise rows would wait for ever.
    pub(super) fn run(mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.do_due_work())) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.sink.backlog.lock().writer_has_rows = false;
                    self.note_failure(&Fault::new(PANICKED));
                }
            }
        }
    }

    fn open_book(&self, timeout: Duration) -> Result<(Book, String), Fault> {
        let _past_lock = self.sink.past_lock.lock();
        Book::open_within(&self.sink.path, &self.instance, timeout)
    }

    /// Does what is due. Returns false at the end.
    fn do_due_work(&mut self) -> bool {
        let sink = self.sink.clone();
        let backlog = self.wait(&sink);
        let is_closing = backlog.is_closing;
        if self.book.is_none() {
            drop(backlog);
            if is_closing {
                return false;
            }
            self.open();
            return true;
        }
        let is_due = backlog.is_due(Instant::now());
        let is_empty = backlog.is_empty();
        drop(backlog);
        if is_due {
            self.write(&sink);
        }
        if Instant::now() >= self.next_running_write && self.book.is_some() {
            self.write_running(&sink);
        }
        if Instant::now() >= self.next_prune {
            self.prune();
        }
        !(is_closing && (is_empty || self.book.is_none()))
    }

    /// Waits until something is due.
    fn wait<'s>(&self, sink: &'s Sink) -> MutexGuard<'s, Backlog> {
        let mut backlog = sink.backlog.lock();
        loop {
            let now = Instant::now();
            let mut wake = self.next_prune;
            if self.book.is_some() {
                if backlog.is_due(now) {
                    return backlog;
                }
                wake = wake.min(self.next_running_write);
                wake = backlog.due().map_or(wake, |due| wake.min(due));
            } else if backlog.is_last_try {
                return backlog;
            }
            if backlog.is_closing || now >= wake {
                return backlog;
            }
            backlog = wait_with_timeout(&sink.filled, backlog, wake - now);
        }
    }

    fn open(&mut self) {
        match self.open_book(BUSY_TIMEOUT) {
            Ok((book, _)) => {
                self.book = Some(book);
                self.next_prune = Instant::now();
                self.written_uses.clear();
                // This comes before the past is read. If it fails, the next search comes at once.
                self.take_over().ok();
                self.recall_callers();
                if let Some(limits) = self.recall() {
                    *self.sink.limits_without_past.lock() = Some(limits);
                }
                // If something waits, writing it shows whether the file works.
                let sink = self.sink.clone();
                if self.sink.backlog.lock().is_empty()
                    && (self.sink.running.is_empty() || self.write_running(&sink))
                {
                    self.note_recovery();
                }
            }
            Err(why) => self.note_failure(&why),
        }
    }

    fn write(&mut self, sink: &Sink) {
        self.recall_callers();
        let without_past = self.recall();
        let written = self.write_down(sink);
        match without_past {
            Some(_) if written => {
                log::error!(
                    "the use before this start stays unknown: limits that began at zero count on from there"
                )
            }
            Some(limits) => *sink.limits_without_past.lock() = Some(limits),
            None => {}
        }
    }

    /// Returns whether the file is in its place. Closes the file if it was moved away.
    fn is_in_place(&mut self, sink: &Sink) -> bool {
        let is_away = self.book.as_ref().is_some_and(|book| !book.is_in_place());
        if is_away {
            log::error!(
                "the ledger {} was removed, replaced or emptied while it was in use, and its rows are gone; \
                 Portcullis goes on with the file that is there now, or makes a new one",
                sink.path.display()
            );
            self.book = None;
            self.next_prune = Instant::now();
        }
        !is_away
    }

    /// Writes a batch. Returns whether the batch is written.
    fn write_down(&mut self, sink: &Sink) -> bool {
        let _write_lock = sink.write_lock.lock();
        if !self.is_in_place(sink) {
            return false;
        }
        // Just now, limits have begun without the past.
        if sink.limits_without_past.lock().is_some() {
            return false;
        }
        let Some(book) = &mut self.book else {
            return false;
        };
        let batch = sink.backlog.lock().take_batch();
        let count = || u64::try_from(batch.rows().count()).unwrap_or(u64::MAX);
        let written = catch_unwind(AssertUnwindSafe(|| book.write_batch(&batch, &self.process)));
        let is_written = matches!(written, Ok(Ok(())));
        match written {
            Ok(Ok(())) => {
                self.panicked = false;
                sink.rows_written.fetch_add(count(), Ordering::Relaxed);
                sink.backlog.lock().finish_batch(&batch);
                self.note_recovery();
            }
            Ok(Err(why)) => {
                sink.backlog.lock().give_back(batch);
                self.note_failure(&why);
            }
            // A batch that panics twice would panic for ever.
            Err(_) if self.panicked => {
                self.panicked = false;
                sink.rows_dropped.fetch_add(count(), Ordering::Relaxed);
                sink.backlog.lock().finish_batch(&batch);
                self.note_failure(&Fault::new(PANICKED));
            }
            Err(_) => {
                self.panicked = true;
                sink.backlog.lock().give_back(batch);
                self.note_failure(&Fault::new(PANICKED));
            }
        }
        sink.done.notify_all();
        is_written
    }

    /// Deletes some old rows and sums, and merges some old sums.
    fn prune(&mut self) {
        let Some(book) = &mut self.book else { return };
        let today = day_of(now_millis());
        let kept = u64::try_from(self.sink.retention.as_millis()).unwrap_or(u64::MAX) / DAY;
        let pruned = book.prune(
            day_start(today.saturating_sub(kept)),
            today.saturating_sub(kept.max(SUMS_KEPT)),
        );
        let merged = pruned
            .and_then(|more| Ok(more | book.merge_days(today.saturating_sub(DETAILED_DAYS))?));
        match merged {
            Ok(true) => self.next_prune = Instant::now() + STEP_PAUSE,
            // Another process of this ledger may have died meanwhile.
            Ok(false) => {
                self.next_prune = Instant::now()
                    + if self.take_over().is_ok() {
                        PRUNE_INTERVAL
                    } else {
                        RETRY_INTERVAL
                    }
            }
            Err(why) if why.is_locked => self.next_prune = Instant::now() + RETRY_INTERVAL,
            // On a full disk nothing can be deleted either. The next row shows whether rows can be
            // written.
            Err(why) => {
                log::debug!(
                    "the ledger's old rows could not be deleted: {}",
                    why.message
                );
                self.next_prune = Instant::now() + PRUNE_INTERVAL;
            }
        }
    }

    /// Closes the file after it could not be written. Logs an error once per outage.
    fn note_failure(&mut self, why: &Fault) {
        self.book = None;
        self.next_prune = Instant::now() + RETRY_INTERVAL;
        let path = self.sink.path.display();
        let was_failing = {
            let mut backlog = self.sink.backlog.lock();
            backlog.is_last_try = false;
            backlog.error.replace(why.message.as_str().into()).is_some()
        };
        self.sink.done.notify_all();
        if was_failing {
            log::debug!("the ledger {path} still cannot be written: {}", why.message);
        } else {
            log::error!(
                "the ledger {path} cannot be written: {}. The gateway still serves requests. Up to about 200000 rows wait in memory",
                why.message
            );
        }
    }

    /// Notes that the file can be written.
    fn note_recovery(&mut self) {
        let mut backlog = self.sink.backlog.lock();
        backlog.drop_logged = false;
        let failed = backlog.error.take().is_some();
        drop(backlog);
        if failed {
            let dropped = self.sink.rows_dropped.load(Ordering::Relaxed);
            log::info!(
                "the ledger {} can be written again; {dropped} rows were dropped since the start",
                self.sink.path.display()
            );
        }
    }
}

/// Returns sixteen random hexadecimal digits, or those of the clock if the system has no
/// randomness.
pub(super) fn random_name() -> Arc<str> {
    let mut bytes = [0; 8];
    let number = if getrandom::fill(&mut bytes).is_ok() {
        u64::from_le_bytes(bytes)
    } else {
        now_millis()
    };
    format!("{number:016x}").into()
}
