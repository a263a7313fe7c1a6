//! The [`Sink`] is what requests and the ledger's writer share: the rows that wait, and the locks
//! that guard rows on their way from memory to the file.

use super::Row;
use super::life::Life;
use super::running::Running;
use crate::base::lock::{Lock, wait_with_timeout};
use crate::conf::config;
use crate::figures::callers::Callers;
use crate::limits::Registry;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The time for which rows are gathered before they are written together.
const GATHER_TIME: Duration = Duration::from_millis(250);
/// The most rows of a transaction. A transaction is short, so that others can write to the file.
const MAX_BATCH_ROWS: usize = 16_384;
/// The rows in one piece of memory. With small pieces, no row has to be moved when there are many.
const CHUNK_ROWS: usize = 512;
/// The most bytes that wait.
pub(super) const MAX_WAITING_BYTES: usize = 64 << 20;

/// The state that requests and the writer share.
#[derive(Default)]
pub(super) struct Sink {
    pub(super) path: PathBuf,
    pub(super) retention: Duration,
    pub(super) backlog: Lock<Backlog>,
    /// Wakes the writer when there is something to do.
    pub(super) filled: Condvar,
    /// Wakes those who wait for the writer, when it has written something or could not.
    pub(super) done: Condvar,
    /// Held while rows are on their way from memory to the file, so that
    /// [`Ledger::past_use`](super::Ledger::past_use) sees each row once.
    pub(super) write_lock: Lock<()>,
    /// Held while the file is opened, and while the past is read. It is taken before `write_lock`.
    pub(super) past_lock: Lock<()>,
    /// Held while a query is answered. While the writer has the file open, SQLite cannot close a
    /// reader's descriptor, but keeps it for the next reader. So there is one descriptor for
    /// queries and one for the past, and a reader of the past need not wait for queries. The query
    /// of a key about its own use does not take this lock: its caller bounds how many run at once.
    pub(super) query_lock: Lock<()>,
    /// The limits that started while the file could not be read. They get the use of before this
    /// start as soon as it can be read, and before the first write: later, the file would also
    /// have rows that these limits have counted already.
    pub(super) limits_without_past: Lock<Option<Weak<Registry>>>,
    /// The limits that have started. They get the use of processes that are later found dead.
    pub(super) started_limits: Lock<Option<Weak<Registry>>>,
    /// The use of callers, which gets the use of processes that are found dead.
    pub(super) callers: Lock<SinkCallers>,
    pub(super) running: Running,
    /// The rows that this process made of the exchanges of dead processes. Limits that start later
    /// get these rows one by one.
    pub(super) taken_over_rows: Lock<Vec<Row>>,
    /// The sign to other processes that this one lives. It exists once the file has a row of a
    /// running exchange.
    pub(super) life: Lock<Option<Life>>,
    /// The rows written since the start.
    pub(super) rows_written: AtomicU64,
    /// The rows dropped since the start.
    pub(super) rows_dropped: AtomicU64,
}

/// The use of callers.
#[derive(Default)]
pub(super) struct SinkCallers {
    pub(super) callers: Weak<Callers>,
    /// True if the sums of this month are not in it yet, since the file could not be read.
    pub(super) lacks_this_month: bool,
}

/// The rows and uses that wait to be written.
#[derive(Default)]
pub(super) struct Backlog {
    pub(super) chunks: VecDeque<Vec<Row>>,
    /// The last uses of keys.
    uses: HashMap<Arc<str>, u64>,
    /// The number of rows that are not in the file yet, those that the writer has taken included.
    pub(super) rows: u64,
    /// The bytes of these rows.
    bytes: usize,
    /// The time since which the oldest row waits.
    pub(super) since: Option<Instant>,
    /// True while the writer has taken rows.
    pub(super) writer_has_rows: bool,
    /// True if somebody waits until everything is written.
    pub(super) has_waiter: bool,
    /// True if the file is tried at once although it could not be written: the process ends.
    pub(super) is_last_try: bool,
    /// True if no more rows come.
    pub(super) is_closing: bool,
    /// True if the log has said that rows are dropped, since the file could last be written.
    pub(super) drop_logged: bool,
    /// The reason why the file cannot be written.
    pub(super) error: Option<Arc<str>>,
}

/// The rows and uses that one transaction writes.
#[derive(Default)]
pub(super) struct Batch {
    chunks: Vec<Vec<Row>>,
    pub(super) uses: HashMap<Arc<str>, u64>,
}

impl Batch {
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> + Clone {
        self.chunks.iter().flatten()
    }
}

impl Sink {
    /// Makes an empty sink for a file.
    pub(super) fn new(config: &config::Ledger) -> Sink {
        Sink {
            path: config.path.clone(),
            retention: config.retention,
            ..Sink::default()
        }
    }

    /// Adds a row, or drops and counts it if too many wait.
    pub(super) fn add(&self, row: Row) {
        let mut backlog = self.backlog.lock();
        let bytes = row.bytes();
        if backlog.bytes.saturating_add(bytes) > MAX_WAITING_BYTES {
            let is_first_drop = !std::mem::replace(&mut backlog.drop_logged, true);
            drop(backlog);
            self.rows_dropped.fetch_add(1, Ordering::Relaxed);
            if is_first_drop {
                log::error!(
                    "the ledger {} cannot be written, and the rows that wait fill its memory: new rows are dropped until it can be written",
                    self.path.display()
                );
            }
            return;
        }
        backlog.bytes += bytes;
        backlog.rows += 1;
        match backlog.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK_ROWS => chunk.push(row),
            Some(_) | None => {
                let mut chunk = Vec::with_capacity(CHUNK_ROWS);
                chunk.push(row);
                backlog.chunks.push_back(chunk);
            }
        }
        self.wake_writer(backlog);
    }

    /// Adds a key's last use.
    pub(super) fn add_use(&self, key: Arc<str>, used_at: u64) {
        let mut backlog = self.backlog.lock();
        backlog.add_use(key, used_at);
        self.wake_writer(backlog);
    }

    /// Waits until all rows are written, or cannot be written, but no longer than `timeout`.
    pub(super) fn wait_until_written(
        &self,
        mut backlog: MutexGuard<'_, Backlog>,
        timeout: Duration,
    ) {
        let end = Instant::now() + timeout;
        while !backlog.is_empty() && (backlog.error.is_none() || backlog.is_last_try) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            backlog.has_waiter = true;
            self.filled.notify_one();
            backlog = wait_with_timeout(&self.done, backlog, left);
        }
    }

    /// Wakes the writer if this is the first thing that waits.
    fn wake_writer(&self, mut backlog: MutexGuard<'_, Backlog>) {
        if backlog.since.is_none() {
            backlog.since = Some(Instant::now());
            drop(backlog);
            self.filled.notify_one();
        }
    }
}

impl Backlog {
    /// Returns whether nothing waits, and the writer has nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0 && self.uses.is_empty() && !self.writer_has_rows
    }

    /// Returns when the oldest row is to be written, if one waits.
    pub(super) fn due(&self) -> Option<Instant> {
        self.since.map(|since| since + GATHER_TIME)
    }

    /// Returns whether a batch is to be written now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let is_urgent =
            self.has_waiter || self.is_closing || self.chunks.len() * CHUNK_ROWS >= MAX_BATCH_ROWS;
        self.due().is_some_and(|due| is_urgent || now >= due)
    }

    fn add_use(&mut self, key: Arc<str>, used_at: u64) {
        let last = self.uses.entry(key).or_default();
        *last = used_at.max(*last);
    }

    /// Takes as much as one transaction writes.
    pub(super) fn take_batch(&mut self) -> Batch {
        let mut batch = Batch {
            chunks: Vec::new(),
            uses: std::mem::take(&mut self.uses),
        };
        let mut rows = 0;
        while rows < MAX_BATCH_ROWS
            && let Some(chunk) = self.chunks.pop_front()
        {
            rows += chunk.len();
            batch.chunks.push(chunk);
        }
        if self.chunks.is_empty() {
            self.since = None;
        }
        self.writer_has_rows = true;
        batch
    }

    /// Notes that a batch is written, or given up.
    pub(super) fn finish_batch(&mut self, batch: &Batch) {
        for row in batch.rows() {
            self.rows = self.rows.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(row.bytes());
        }
        self.writer_has_rows = false;
        self.has_waiter = self.has_waiter && !self.is_empty();
    }

    /// Puts a batch that could not be written back to its place.
    pub(super) fn give_back(&mut self, batch: Batch) {
        for chunk in batch.chunks.into_iter().rev() {
            self.chunks.push_front(chunk);
        }
        for (key, used_at) in batch.uses {
            self.add_use(key, used_at);
        }
        self.writer_has_rows = false;
        self.has_waiter = false;
        self.since.get_or_insert_with(Instant::now);
    }
}
