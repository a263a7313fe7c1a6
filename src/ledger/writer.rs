//! The writer: one thread, which takes what waits and puts it into the file, and deletes what is old.

use super::book::{Book, Fault};
use super::days::{DAY, day_of, now, start_of};
use super::{BATCH, CHUNK, GATHER, Sink, Waiting, read};
use crate::limits::Registry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Between two tries to have the file.
const AGAIN: Duration = Duration::from_secs(3);
/// Between two looks at what has become old.
const LOOK: Duration = Duration::from_secs(600);
/// Between two steps of deleting, for those who wait to write.
const BREATH: Duration = Duration::from_millis(20);
/// Sums of days are kept so long at least.
const SUMS_KEPT: u64 = 400;
/// Tries at the start, when an instance that is about to end may have the file locked.
const TRIES: u32 = 10;

/// What is said of a panic. Where it was, the process has said already.
const PANICKED: &str = "its thread panicked, which is a bug of Portcullis";

/// The thread's own.
pub(super) struct Writer {
    sink: Arc<Sink>,
    /// None: it cannot be had.
    book: Option<Book>,
    instance: Arc<str>,
    /// When to look for what is old, or to try to have the file.
    next: Instant,
    /// Writing panicked, and what was to be written waits once more.
    panicked: bool,
}

impl Writer {
    /// Tries to have the file; the second is the instance's name.
    pub(super) fn begin(sink: Arc<Sink>) -> (Writer, Arc<str>) {
        let mut writer = Writer { sink, book: None, instance: random_name(), next: Instant::now(), panicked: false };
        for _ in 0..TRIES {
            match writer.book() {
                Ok((book, instance)) => {
                    writer.instance = instance.into();
                    writer.book = Some(book);
                    break;
                }
                Err(why) if why.busy => std::thread::park_timeout(BREATH),
                Err(why) => {
                    writer.failed(&why);
                    break;
                }
            }
        }
        let instance = writer.instance.clone();
        (writer, instance)
    }

    /// Goes on until the ledger is dropped, also after a panic: without it rows would wait for nobody.
    pub(super) fn run(mut self) {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.sink.lock().in_hand = false;
                    self.failed(&Fault::new(PANICKED));
                }
            }
        }
    }

    fn book(&self) -> Result<(Book, String), Fault> {
        let _reading = self.sink.reading.lock().unwrap_or_else(PoisonError::into_inner);
        Book::open(&self.sink.path, &self.instance)
    }

    /// False at the end.
    fn turn(&mut self) -> bool {
        let sink = self.sink.clone();
        let waiting = self.wait(&sink);
        let closing = waiting.closing;
        if self.book.is_none() {
            drop(waiting);
            if closing {
                return false;
            }
            self.open();
            return true;
        }
        let is_due = is_due(&waiting);
        let is_empty = waiting.is_empty();
        drop(waiting);
        if is_due {
            self.write(&sink);
        }
        if Instant::now() >= self.next {
            self.prune();
        }
        !(closing && (is_empty || self.book.is_none()))
    }

    /// Until something is to be done.
    fn wait<'s>(&self, sink: &'s Sink) -> MutexGuard<'s, Waiting> {
        let mut waiting = sink.lock();
        loop {
            let now = Instant::now();
            let mut wake = self.next;
            if self.book.is_some() {
                if is_due(&waiting) {
                    return waiting;
                }
                if let Some(since) = waiting.since {
                    wake = wake.min(since + GATHER);
                }
            } else if waiting.last_try {
                return waiting;
            }
            if waiting.closing || now >= wake {
                return waiting;
            }
            (waiting, _) = sink.filled.wait_timeout(waiting, wake - now).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn open(&mut self) {
        match self.book() {
            Ok((book, _)) => {
                self.book = Some(book);
                self.next = Instant::now();
                if let Some(limits) = self.recall() {
                    self.sink.owe(limits);
                }
                // With something at hand, writing it is the proof.
                if self.sink.lock().is_empty() {
                    self.works();
                }
            }
            Err(why) => self.failed(&why),
        }
    }

    fn write(&mut self, sink: &Sink) {
        let owed = self.recall();
        let written = self.write_down(sink);
        match owed {
            Some(_) if written => log::error!("what was spent before stays unknown: limits that began at nothing go on from there"),
            Some(limits) => sink.owe(limits),
            None => {}
        }
    }

    /// Tells limits what they could not begin with, as long as nothing has been written since. Those that must be told still.
    fn recall(&self) -> Option<Weak<Registry>> {
        let limits = self.sink.owed().take()?;
        let past = {
            let _reading = self.sink.reading.lock().unwrap_or_else(PoisonError::into_inner);
            read::past(&self.sink.path, now())
        };
        let Ok(past) = past else { return Some(limits) };
        // Nothing of the ledger is held: whoever asks for the past holds the registry.
        let past = past.unwrap_or_default();
        // A new file, in the place of one that was broken.
        let what = if past.is_empty() { "stays unknown" } else { "is known now, and counts against the limits that began without it" };
        limits.upgrade()?.recall(past);
        log::info!("what was spent before {what}");
        None
    }

    /// Whether something was written.
    fn write_down(&mut self, sink: &Sink) -> bool {
        let _writing = sink.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.book.as_ref().is_some_and(|book| !book.is_in_place()) {
            // What was moved away is not written to any more.
            log::error!(
                "the ledger {} was removed, replaced or emptied while it was written: what it held is not here any more; going on with what is there, or a new one",
                sink.path.display()
            );
            self.book = None;
            self.next = Instant::now();
            return false;
        }
        // Somebody began without the past just now.
        if sink.owed().is_some() {
            return false;
        }
        let Some(book) = &mut self.book else { return false };
        let batch = sink.lock().take();
        let count = || u64::try_from(batch.rows().count()).unwrap_or(u64::MAX);
        let written = catch_unwind(AssertUnwindSafe(|| book.write(&batch)));
        let is_written = matches!(written, Ok(Ok(())));
        match written {
            Ok(Ok(())) => {
                self.panicked = false;
                sink.rows.fetch_add(count(), Ordering::Relaxed);
                sink.lock().settled(&batch);
                self.works();
            }
            Ok(Err(why)) => {
                sink.lock().give_back(batch);
                self.failed(&why);
            }
            // What makes it panic twice would do so for ever.
            Err(_) if self.panicked => {
                self.panicked = false;
                sink.dropped.fetch_add(count(), Ordering::Relaxed);
                sink.lock().settled(&batch);
                self.failed(&Fault::new(PANICKED));
            }
            Err(_) => {
                self.panicked = true;
                sink.lock().give_back(batch);
                self.failed(&Fault::new(PANICKED));
            }
        }
        sink.done.notify_all();
        is_written
    }

    /// A step of deleting what is old.
    fn prune(&mut self) {
        let Some(book) = &mut self.book else { return };
        let today = day_of(now());
        let kept = u64::try_from(self.sink.retention.as_millis()).unwrap_or(u64::MAX) / DAY;
        match book.prune(start_of(today.saturating_sub(kept)), today.saturating_sub(kept.max(SUMS_KEPT))) {
            Ok(more) => self.next = Instant::now() + if more { BREATH } else { LOOK },
            Err(why) if why.busy => self.next = Instant::now() + AGAIN,
            // A full disk has no room to delete, either; whether rows can be written is for rows to say.
            Err(why) => {
                log::debug!("the ledger's old rows stay for now: {}", why.what);
                self.next = Instant::now() + LOOK;
            }
        }
    }

    /// Said once an outage.
    fn failed(&mut self, why: &Fault) {
        self.book = None;
        self.next = Instant::now() + AGAIN;
        let path = self.sink.path.display();
        let said = {
            let mut waiting = self.sink.lock();
            waiting.last_try = false;
            waiting.error.replace(why.what.as_str().into()).is_some()
        };
        self.sink.done.notify_all();
        if said {
            log::debug!("the ledger {path} still cannot be written: {}", why.what);
        } else {
            log::error!(
                "the ledger {path} cannot be written: {}. Serving goes on; rows wait in memory until it can, some 200000 at most",
                why.what
            );
        }
    }

    fn works(&mut self) {
        let mut waiting = self.sink.lock();
        waiting.dropping = false;
        let failed = waiting.error.take().is_some();
        drop(waiting);
        if failed {
            let dropped = self.sink.dropped.load(Ordering::Relaxed);
            log::info!("the ledger {} is written again; {dropped} rows were dropped since the start", self.sink.path.display());
        }
    }
}

/// Whether enough waits, or long enough.
fn is_due(waiting: &Waiting) -> bool {
    let Some(since) = waiting.since else { return false };
    waiting.hurry || waiting.closing || waiting.chunks.len() * CHUNK >= BATCH || since.elapsed() >= GATHER
}

/// Sixteen random digits. Without randomness from the system, the clock's.
pub(super) fn random_name() -> Arc<str> {
    let mut bytes = [0; 8];
    let number = if getrandom::fill(&mut bytes).is_ok() { u64::from_le_bytes(bytes) } else { now() };
    format!("{number:016x}").into()
}
