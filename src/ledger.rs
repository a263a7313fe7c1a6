//! The ledger: what every settled exchange used and cost, one row each, in a SQLite file.
//!
//! Rows are gathered in memory and written by one thread, a transaction at most every `GATHER`: a
//! request's way has no system call for them, and a crash loses the last second at most. In the
//! same transaction the sums of days grow, so that they are the sums of the rows at any moment.
//! What runs is written down as it grows, `EVERY` so often, in a table of its own that no sum
//! reads: its final row replaces it, or, where its process died, whoever opens the file next makes
//! a row of it. When the file cannot be written, rows wait in memory, up to `MOST` bytes; beyond it
//! they are dropped and counted, since neither a full disk nor a broken file may stop the traffic.

mod book;
mod cut;
mod life;
pub mod read;
pub mod report;
mod row;
mod running;
mod sums;
mod writer;

pub use crate::calendar as days;
pub use row::Row;
pub use running::{Run, Runs};

use crate::config;
use crate::limits::{Past, Registry};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// So long rows are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(250);
/// So often it is written down what those have used that run: so often that it is in the file
/// within five seconds, the writing included.
const EVERY: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 4_500 });
/// So many rows at most: a transaction is short, so that whoever else writes to the file has its
/// turn.
const BATCH: usize = 16_384;
/// Rows that are kept in one piece of memory, so that none has to be moved when there are many.
const CHUNK: usize = 512;
/// So much may wait.
const MOST: usize = 64 << 20;
/// So long [`Ledger::flush`] waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer has so many lines at most: more than anybody reads, and some ten megabytes.
const LINES: usize = 100_000;
/// At the end, a second longer for so many thousand rows.
const THOUSANDS: u64 = 50;

/// How the ledger does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is written.
    Ok,
    /// It cannot be written; that is tried again and again.
    Failing,
    /// It is not wanted.
    Off,
}

impl State {
    /// The word in `/status`.
    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Failing => "failing",
            State::Off => "off",
        }
    }
}

/// What the ledger tells of itself.
#[derive(Debug, Clone)]
pub struct Told {
    /// How it does.
    pub state: State,
    /// Rows written since the start.
    pub rows: u64,
    /// Rows dropped since the start.
    pub dropped: u64,
    /// Rows that wait to be written.
    pub waiting: u64,
    /// Why it is failing.
    pub error: Option<Arc<str>>,
}

/// The ledger. Its thread ends with it, or with the process.
pub struct Ledger {
    sink: Option<Arc<Sink>>,
    path: PathBuf,
    instance: OnceLock<Arc<str>>,
}

/// What requests and the writer share.
struct Sink {
    path: PathBuf,
    retention: Duration,
    waiting: Mutex<Waiting>,
    /// The writer has something to do.
    filled: Condvar,
    /// The writer has done something, or could not.
    done: Condvar,
    /// Held while rows are on their way from memory to the file, so that [`Ledger::past`] sees each
    /// once.
    writing: Mutex<()>,
    /// Held while the file is opened, and while the past is read.
    reading: Mutex<()>,
    /// Held while a question is answered. SQLite cannot close a descriptor while the writer has its
    /// own, but takes it for the next reader: so there is one for questions, and one for the past,
    /// which need not wait for them.
    answering: Mutex<()>,
    /// Limits that began without what is in the file. All that is in the file was before them, and
    /// they have counted all that waits: until something is written.
    owed: Mutex<Option<Weak<Registry>>>,
    /// Limits that have begun: what is found later of a process that died before is told to them.
    limits: Mutex<Option<Weak<Registry>>>,
    running: running::Running,
    /// Rows that were made here of what ran in processes that died: limits that begin are told of
    /// them apart.
    cut: Mutex<Vec<Row>>,
    /// By which others see that this process lives, once the file has something of what runs.
    life: Mutex<Option<life::Life>>,
    rows: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    chunks: VecDeque<Vec<Row>>,
    /// Keys' last uses.
    uses: HashMap<Arc<str>, u64>,
    /// Rows and bytes that are not in the file yet, those in the writer's hand included.
    rows: u64,
    bytes: usize,
    /// Since when the oldest waits.
    since: Option<Instant>,
    /// The writer has some of it in its hand.
    in_hand: bool,
    /// Somebody waits for all of it to be written.
    hurry: bool,
    /// The file is tried at once, though it cannot be written: there is no later.
    last_try: bool,
    /// Nothing comes any more.
    closing: bool,
    /// Rows were dropped since it could last be written, and that has been said.
    dropping: bool,
    /// Why it cannot be written.
    error: Option<Arc<str>>,
}

/// What the writer writes in one transaction.
#[derive(Default)]
struct Batch {
    chunks: Vec<Vec<Row>>,
    uses: HashMap<Arc<str>, u64>,
}

impl Batch {
    fn rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.chunks.iter().flatten()
    }
}

impl Ledger {
    /// Opens the file and starts the writer. If the file cannot be had it says so, and tries again
    /// for as long as it lives.
    pub fn open(config: &config::Ledger) -> Ledger {
        let mut ledger = Ledger { sink: None, path: config.path.clone(), instance: OnceLock::new() };
        if !config.enabled {
            return ledger;
        }
        let sink = Arc::new(Sink {
            path: config.path.clone(),
            retention: config.retention,
            waiting: Mutex::default(),
            filled: Condvar::new(),
            done: Condvar::new(),
            writing: Mutex::new(()),
            reading: Mutex::new(()),
            answering: Mutex::new(()),
            owed: Mutex::default(),
            limits: Mutex::default(),
            running: running::Running::default(),
            cut: Mutex::default(),
            life: Mutex::default(),
            rows: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let (writer, instance) = writer::Writer::begin(sink.clone());
        ledger.instance = OnceLock::from(instance);
        match std::thread::Builder::new().name("ledger".to_owned()).spawn(move || writer.run()) {
            Ok(_) => ledger.sink = Some(sink),
            Err(why) => log::error!("there is no ledger, since its thread cannot be started: {why}"),
        }
        ledger
    }

    /// Adds a row. It is written soon, or dropped and counted if too many wait.
    pub fn write(&self, mut row: Row) {
        let Some(sink) = &self.sink else { return };
        // What was never written down need not be replaced.
        row.run = row.run.filter(|run| sink.running.end(*run));
        let mut waiting = sink.lock();
        let bytes = row.bytes();
        if waiting.bytes.saturating_add(bytes) > MOST {
            let said = std::mem::replace(&mut waiting.dropping, true);
            drop(waiting);
            sink.dropped.fetch_add(1, Ordering::Relaxed);
            if !said {
                log::error!(
                    "too much waits for the ledger {}: its rows are dropped until it can be written",
                    sink.path.display()
                );
            }
            return;
        }
        waiting.bytes += bytes;
        waiting.rows += 1;
        match waiting.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(row),
            Some(_) | None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(row);
                waiting.chunks.push_back(chunk);
            }
        }
        sink.begin(waiting);
    }

    /// An exchange runs, until its row is written: the run is for that.
    pub fn begin(&self, runs: Weak<dyn Runs>) -> Option<Run> {
        self.sink.as_ref().map(|sink| sink.running.begin(runs))
    }

    /// A key was used.
    pub fn used(&self, key: Arc<str>, at: u64) {
        let Some(sink) = &self.sink else { return };
        let mut waiting = sink.lock();
        waiting.used(key, at);
        sink.begin(waiting);
    }

    /// What was spent this month, for the limits to begin with: sums of its days, each at the day's
    /// first moment, and what was admitted in the last 61 seconds (or is not written yet) row by
    /// row, at its own moment. Nothing is in it twice, and nothing is later than now: what a clock
    /// wrote that was ahead is of today.
    ///
    /// Reads the file, so it is not for a request's way.
    pub fn past(&self, now_ms: u64) -> Vec<Past> {
        self.known(now_ms, None)
    }

    /// The same, for limits that are about to ask for it. What the file cannot tell now they are
    /// told when it can be read for the first time.
    pub fn past_of(&self, limits: &Arc<Registry>, now_ms: u64) -> Vec<Past> {
        self.known(now_ms, Some(limits))
    }

    fn known(&self, now_ms: u64, limits: Option<&Arc<Registry>>) -> Vec<Past> {
        let Some(sink) = &self.sink else { return Vec::new() };
        let _reading = sink.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let _nothing_moves = sink.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limits) = limits {
            *sink.limits.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(limits));
        }
        let read = read::past(&sink.path, now_ms);
        // A file that is not there may be on a disk that is not there yet.
        let failing = sink.lock().error.is_some();
        let unknown = match &read {
            Ok(past) => past.is_none() && failing,
            Err(_) => true,
        };
        if unknown && let Some(limits) = limits {
            limits.owe();
            sink.owe(Arc::downgrade(limits));
        }
        let past = read.unwrap_or_else(|why| {
            // Why it is failing has been said.
            let level = if failing { log::Level::Warn } else { log::Level::Error };
            log::log!(
                level,
                "what was spent before is not known yet, so new limits begin at nothing until it is: {why}"
            );
            None
        });
        let mut past = past.unwrap_or_default();
        cut::apart(&mut past, &sink.cut.lock().unwrap_or_else(PoisonError::into_inner), now_ms);
        // Whoever settles needs the lock, and many may wait: what waits is looked at without it.
        // Nobody else takes it meanwhile.
        let mut chunks = std::mem::take(&mut sink.lock().chunks);
        let counts = |row: &&Row| row.at >= read::since(now_ms);
        past.extend(chunks.iter().flatten().filter(counts).map(|row| row.past(now_ms)));
        let mut waiting = sink.lock();
        chunks.append(&mut waiting.chunks);
        waiting.chunks = chunks;
        drop(waiting);
        past
    }

    /// Who used how much, all that is settled so far included. None: there is no file. Reads it, so
    /// it is not for a request's way. One question at a time: another one meanwhile gets none.
    pub fn answer(
        &self,
        query: &report::Query,
        deadline: Instant,
    ) -> Result<Option<report::Answer>, report::Unanswered> {
        let Some(sink) = &self.sink else { return Ok(None) };
        let _answering = match sink.answering.try_lock() {
            Ok(answering) => answering,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(report::Unanswered::Busy),
        };
        self.flush();
        let opened = {
            let _reading = sink.reading.lock().unwrap_or_else(PoisonError::into_inner);
            read::Reader::open(&sink.path).map_err(report::Unanswered::Unreadable)?
        };
        let Some(reader) = opened else { return Ok(None) };
        report::answer_of(reader, &sink.path, query, Some(report::Bounds { deadline, lines: LINES })).map(Some)
    }

    /// Waits, for two seconds at most, until all rows so far are written, or cannot be. At once if
    /// the ledger is failing already.
    pub fn flush(&self) {
        let Some(sink) = &self.sink else { return };
        sink.wait(sink.lock(), PATIENCE);
    }

    /// The same at the end of the process: tries once more where the ledger is failing, and waits
    /// the longer the more there is to write.
    pub fn finish(&self) {
        let Some(sink) = &self.sink else { return };
        let mut waiting = sink.lock();
        waiting.last_try = waiting.error.is_some();
        let patience = PATIENCE + Duration::from_millis(waiting.rows / THOUSANDS);
        sink.wait(waiting, patience);
        // What still runs is found by the next process, which must not be told that this one is
        // dead before it is.
        if sink.running.is_empty() && sink.lock().is_empty() {
            sink.life().take();
        }
    }

    /// How it does.
    pub fn told(&self) -> Told {
        let Some(sink) = &self.sink else {
            return Told { state: State::Off, rows: 0, dropped: 0, waiting: 0, error: None };
        };
        let (waiting, error) = {
            let waiting = sink.lock();
            (waiting.rows, waiting.error.clone())
        };
        Told {
            state: if error.is_some() { State::Failing } else { State::Ok },
            rows: sink.rows.load(Ordering::Relaxed),
            dropped: sink.dropped.load(Ordering::Relaxed),
            waiting,
            error,
        }
    }

    /// Where the file is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is one.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// A random name that is kept in the file, and so is the same after a restart. Without a file
    /// it lives as long as the process.
    pub fn instance(&self) -> Arc<str> {
        self.instance.get_or_init(writer::random_name).clone()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(sink) = &self.sink {
            self.finish();
            sink.lock().closing = true;
            sink.filled.notify_one();
        }
    }
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> MutexGuard<'_, Option<life::Life>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owe(&self, limits: Weak<Registry>) {
        *self.owed() = Some(limits);
    }

    fn owed(&self) -> MutexGuard<'_, Option<Weak<Registry>>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until nothing waits any more, or that is in vain.
    fn wait(&self, mut waiting: MutexGuard<'_, Waiting>, patience: Duration) {
        let end = Instant::now() + patience;
        while !waiting.is_empty() && (waiting.error.is_none() || waiting.last_try) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            waiting.hurry = true;
            self.filled.notify_one();
            (waiting, _) = self.done.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes the writer for the first thing that waits.
    fn begin(&self, mut waiting: MutexGuard<'_, Waiting>) {
        if waiting.since.is_none() {
            waiting.since = Some(Instant::now());
            drop(waiting);
            self.filled.notify_one();
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.rows == 0 && self.uses.is_empty() && !self.in_hand
    }

    fn used(&mut self, key: Arc<str>, at: u64) {
        let last = self.uses.entry(key).or_default();
        *last = at.max(*last);
    }

    /// As much as one transaction takes.
    fn take(&mut self) -> Batch {
        let mut batch = Batch { chunks: Vec::new(), uses: std::mem::take(&mut self.uses) };
        let mut rows = 0;
        while rows < BATCH
            && let Some(chunk) = self.chunks.pop_front()
        {
            rows += chunk.len();
            batch.chunks.push(chunk);
        }
        if self.chunks.is_empty() {
            self.since = None;
        }
        self.in_hand = true;
        batch
    }

    /// It is in the file.
    fn settled(&mut self, batch: &Batch) {
        for row in batch.rows() {
            self.rows = self.rows.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(row.bytes());
        }
        self.in_hand = false;
        self.hurry = self.hurry && !self.is_empty();
    }

    /// It could not be written: first in its place again.
    fn give_back(&mut self, batch: Batch) {
        for chunk in batch.chunks.into_iter().rev() {
            self.chunks.push_front(chunk);
        }
        for (key, at) in batch.uses {
            self.used(key, at);
        }
        self.in_hand = false;
        self.hurry = false;
        self.since.get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests;
