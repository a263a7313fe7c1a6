//! The writer: one thread, which takes what waits and puts it into the file, writes down what runs,
//! and deletes what is old.

use super::book::{Book, Fault};
use super::days::{DAY, day_of, now, start_of};
use super::life::Life;
use super::{BATCH, CHUNK, EVERY, GATHER, Row, Sink, Waiting, read};
use crate::limits::Registry;
use dialects::usage::Usage;
use std::collections::HashMap;
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
    /// What runs here is told by it from what runs in other processes.
    process: Arc<str>,
    /// When to write down what runs.
    look: Instant,
    /// What the file has of that.
    so_far: HashMap<u64, SoFar>,
    /// That it cannot be written down has been said.
    said: bool,
}

/// What of an exchange that runs can change: its tokens, those of attempts in vain, and the number
/// of attempts.
type SoFar = (Usage, u64, u32);

impl Writer {
    /// Tries to have the file; the second is the instance's name.
    pub(super) fn begin(sink: Arc<Sink>) -> (Writer, Arc<str>) {
        let now = Instant::now();
        let mut writer = Writer {
            sink,
            book: None,
            instance: random_name(),
            next: now,
            panicked: false,
            process: random_name(),
            look: now + EVERY,
            so_far: HashMap::new(),
            said: false,
        };
        for _ in 0..TRIES {
            match writer.book() {
                Ok((book, instance)) => {
                    writer.instance = instance.into();
                    writer.book = Some(book);
                    // Where it fails, it is tried again as soon as what is old is looked for.
                    writer.take_over().ok();
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

    /// Goes on until the ledger is dropped, also after a panic: without it rows would wait for
    /// nobody.
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
        if Instant::now() >= self.look && self.book.is_some() {
            self.write_running(&sink);
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
                wake = wake.min(self.look);
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
                self.so_far.clear();
                // Before the past is read. Where it fails, it is tried again at once.
                self.take_over().ok();
                if let Some(limits) = self.recall() {
                    self.sink.owe(limits);
                }
                // With something at hand, writing it is the proof.
                let sink = self.sink.clone();
                if self.sink.lock().is_empty() && (self.sink.running.is_empty() || self.write_running(&sink)) {
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
            Some(_) if written => {
                log::error!("what was spent before stays unknown: limits that began at nothing go on from there")
            }
            Some(limits) => sink.owe(limits),
            None => {}
        }
    }

    /// Tells limits what they could not begin with, as long as nothing has been written since.
    /// Those that must be told still.
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
        let what = if past.is_empty() {
            "stays unknown"
        } else {
            "is known now, and counts against the limits that began without it"
        };
        limits.upgrade()?.recall(past);
        log::info!("what was spent before {what}");
        None
    }

    /// Makes rows of what ran in processes that are dead, and tells limits that have begun already.
    fn take_over(&mut self) -> Result<(), Fault> {
        let Some(book) = &mut self.book else { return Ok(()) };
        let (rows, limits) = {
            // Who reads the past from now on finds them there.
            let _reading = self.sink.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = book.take_over(&self.process)?;
            self.sink.cut.lock().unwrap_or_else(PoisonError::into_inner).extend(rows.iter().cloned());
            (rows, self.sink.limits.lock().unwrap_or_else(PoisonError::into_inner).clone())
        };
        if rows.is_empty() {
            return Ok(());
        }
        log::warn!(
            "{} requests ran in a process that was killed: the ledger {} has them now as `shutdown`, with what they had used up to five seconds before",
            rows.len(),
            self.sink.path.display()
        );
        // Those that are owed the past hear of it with the rest.
        let Some(limits) = limits.and_then(|limits| limits.upgrade()).filter(|_| self.sink.owed().is_none()) else {
            return Ok(());
        };
        for row in &rows {
            limits.late(&row.past(now()), std::iter::empty());
        }
        Ok(())
    }

    /// Writes down what those have used so far that run. False if the file cannot be written.
    fn write_running(&mut self, sink: &Sink) -> bool {
        self.look = Instant::now() + EVERY;
        if sink.running.is_empty() {
            self.so_far.clear();
            return true;
        }
        if !self.is_in_place(sink) {
            return false;
        }
        if let Err(why) = self.live(sink) {
            if !std::mem::replace(&mut self.said, true) {
                log::warn!("what runs is not written down, and is lost if this process is killed: {why}");
            }
            return true;
        }
        let running = sink.running.look();
        let changed: Vec<(u64, Row)> = running
            .iter()
            .map(|(number, runs)| (*number, runs.so_far()))
            .filter(|(number, row)| self.so_far.get(number) != Some(&so_far(row)))
            .collect();
        let mut known: HashMap<u64, SoFar> =
            running.iter().filter_map(|(number, _)| Some((*number, *self.so_far.get(number)?))).collect();
        let Some(book) = self.book.as_mut().filter(|_| !changed.is_empty()) else {
            self.so_far = known;
            return true;
        };
        match book.write_running(&self.process, &changed) {
            Ok(()) => {
                known.extend(changed.iter().map(|(number, row)| (*number, so_far(row))));
                self.so_far = known;
                true
            }
            // Likely over in a moment.
            Err(why) if why.busy => {
                self.look = Instant::now() + BREATH;
                true
            }
            Err(why) => {
                self.failed(&why);
                false
            }
        }
    }

    /// Others see that this process lives.
    fn live(&self, sink: &Sink) -> std::io::Result<()> {
        let mut life = sink.life();
        if life.as_ref().is_none_or(|life| !life.is_in_place()) {
            *life = None;
            *life = Some(Life::begin(&sink.path, &self.process)?);
        }
        Ok(())
    }

    /// What was moved away is not written to any more.
    fn is_in_place(&mut self, sink: &Sink) -> bool {
        let is_away = self.book.as_ref().is_some_and(|book| !book.is_in_place());
        if is_away {
            log::error!(
                "the ledger {} was removed, replaced or emptied while it was written: what it held is not here any more; going on with what is there, or a new one",
                sink.path.display()
            );
            self.book = None;
            self.next = Instant::now();
        }
        !is_away
    }

    /// Whether something was written.
    fn write_down(&mut self, sink: &Sink) -> bool {
        let _writing = sink.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_in_place(sink) {
            return false;
        }
        // Somebody began without the past just now.
        if sink.owed().is_some() {
            return false;
        }
        let Some(book) = &mut self.book else { return false };
        let batch = sink.lock().take();
        let count = || u64::try_from(batch.rows().count()).unwrap_or(u64::MAX);
        let written = catch_unwind(AssertUnwindSafe(|| book.write(&batch, &self.process)));
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
            Ok(true) => self.next = Instant::now() + BREATH,
            // Another process of this ledger may have died meanwhile.
            Ok(false) => self.next = Instant::now() + if self.take_over().is_ok() { LOOK } else { AGAIN },
            Err(why) if why.busy => self.next = Instant::now() + AGAIN,
            // A full disk has no room to delete, either; whether rows can be written is for rows to
            // say.
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
            log::info!(
                "the ledger {} is written again; {dropped} rows were dropped since the start",
                self.sink.path.display()
            );
        }
    }
}

fn so_far(row: &Row) -> SoFar {
    (row.usage, row.unused_tokens, row.attempts)
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
