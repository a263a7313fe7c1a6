//! The [`Ledger`] is a SQLite file with one row for each settled exchange: what it used and what it
//! cost.
//!
//! Rows are gathered in memory. One thread writes them together, after 250 ms, or sooner if many
//! wait: a request makes no system call for its row, and a crash loses the last second at most. The
//! same transaction adds to the sums of days, so the sums always agree with the rows.
//!
//! The use of running exchanges is also written, every few seconds, into a table of its own that no
//! sum reads. An exchange's final row replaces it. If the process dies, the next process that opens
//! the file makes a row of it.
//!
//! While the file cannot be written, rows wait in memory, up to a limit of bytes. Beyond it they
//! are dropped and counted: neither a full disk nor a broken file may stop the traffic.

mod book;
pub mod carry;
mod columns;
mod cut;
mod insert;
mod life;
mod merge;
mod merge_point;
mod month;
mod past;
pub mod read;
mod reader_thread;
pub mod report;
mod row;
mod run;
mod running;
mod sink;
mod sums;
mod writer;

pub use row::Row;
pub use run::Run;
pub use running::Runs;

use crate::base::calendar::now_millis;
use crate::conf::config;
use crate::figures::callers::Callers;
use crate::limits::{Past, Registry};
use crate::status::{LedgerReport, LedgerState};
use sink::{Sink, SinkCallers};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The time between two writes of what running exchanges have used. So the use is in the file
/// within five seconds, the writing included.
const RUNNING_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 4_500 });
/// The longest time that [`Ledger::flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// At the end of the process, [`Ledger::finish`] waits one second longer for this many thousand
/// rows.
const ROWS_PER_MILLISECOND: u64 = 50;
/// The most lines of an answer to a key.
const MAX_KEY_LINES: usize = 1_000;
/// The most lines of an answer: more than anybody reads, and some ten megabytes.
const MAX_LINES: usize = 100_000;

/// The ledger. Its thread ends when it is dropped, or with the process.
pub struct Ledger {
    sink: Option<Arc<Sink>>,
    path: PathBuf,
    instance: OnceLock<Arc<str>>,
    /// The thread that reads what single keys have used. It is started when it is first asked.
    past_reader: OnceLock<reader_thread::PastReader>,
}

impl Ledger {
    /// Opens the file and starts the writer. If the file cannot be opened, the ledger logs that and
    /// tries again for as long as it lives.
    pub fn open(config: &config::Ledger) -> Ledger {
        let mut ledger = Ledger {
            sink: None,
            path: config.path.clone(),
            instance: OnceLock::new(),
            past_reader: OnceLock::new(),
        };
        if !config.enabled {
            return ledger;
        }
        let sink = Arc::new(Sink::new(config));
        let (writer, instance) = writer::Writer::begin(sink.clone());
        ledger.instance = OnceLock::from(instance);
        match std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run())
        {
            Ok(_) => ledger.sink = Some(sink),
            Err(why) => {
                log::error!("the ledger is off, because its thread cannot be started: {why}")
            }
        }
        ledger
    }

    /// Adds a row. It is written soon, or dropped and counted if too many wait.
    pub fn write(&self, mut row: Row) {
        let Some(sink) = &self.sink else { return };
        // The file has nothing of a run that was never written, so there is nothing to replace.
        row.run = row.run.filter(|run| sink.running.end(*run));
        sink.add(row);
    }

    /// Notes that an exchange runs, until its row is written. The row takes the run.
    pub fn begin_run(&self, runs: Weak<dyn Runs>) -> Option<Run> {
        self.sink.as_ref().map(|sink| sink.running.begin(runs))
    }

    /// Returns the exchanges that run now.
    pub fn running(&self) -> Vec<(Run, Arc<dyn Runs>)> {
        self.sink
            .as_ref()
            .map(|sink| sink.running.all())
            .unwrap_or_default()
    }

    /// Notes the time at which a key was used.
    pub fn note_use(&self, key: Arc<str>, used_at: u64) {
        if let Some(sink) = &self.sink {
            sink.add_use(key, used_at);
        }
    }

    /// Returns what was spent this month, with which limits begin. Most of it is sums of days,
    /// each at the day's first moment. What was admitted in the last 61 seconds, or is not written
    /// yet, is listed row by row, each at its own moment. No use is listed twice. No time is later
    /// than now: a row of the future, from a clock that was ahead, counts today.
    ///
    /// If the file cannot be read now, `limits` get the sums when it can be read for the first
    /// time.
    ///
    /// Reads the file, so no request may call it.
    pub fn past_use(&self, now_ms: u64, limits: Option<&Arc<Registry>>) -> Vec<Past> {
        let Some(sink) = &self.sink else {
            return Vec::new();
        };
        let _past_lock = sink.past_lock.lock();
        let _write_lock = sink.write_lock.lock();
        if let Some(limits) = limits {
            *sink.started_limits.lock() = Some(Arc::downgrade(limits));
        }
        let read = past::read_past(&sink.path, now_ms);
        // If the file is missing while the ledger fails, its disk may not be there yet.
        let failing = sink.backlog.lock().error.is_some();
        let unknown = read.as_ref().map_or(true, |past| past.is_none() && failing);
        if unknown && let Some(limits) = limits {
            limits.note_unread_past();
            *sink.limits_without_past.lock() = Some(Arc::downgrade(limits));
        }
        let past = read.unwrap_or_else(|why| {
            // While the file cannot be written, the log has said why.
            let level = if failing { log::Level::Warn } else { log::Level::Error };
            log::log!(
                level,
                "the use before this start is unknown, so limits begin at zero until the ledger can be read: {why}"
            );
            None
        });
        let mut past = past.unwrap_or_default();
        cut::split_dead_rows(&mut past, &sink.taken_over_rows.lock(), now_ms);
        // Settling exchanges need the lock, and many rows may wait: they are read without the lock.
        // No other task takes them meanwhile.
        let mut chunks = std::mem::take(&mut sink.backlog.lock().chunks);
        let counts = |row: &&Row| row.admitted_at >= past::first_moment(now_ms);
        past.extend(
            chunks
                .iter()
                .flatten()
                .filter(counts)
                .map(|row| row.past_use(now_ms)),
        );
        let mut backlog = sink.backlog.lock();
        chunks.append(&mut backlog.chunks);
        backlog.chunks = chunks;
        drop(backlog);
        past
    }

    /// Reads what one key has used this month, on a thread of its own, and calls `done` with it, or
    /// with `None` if that cannot be read. Rows that are not written yet are among it.
    pub fn read_past_of_key(
        &self,
        caller: Arc<str>,
        key: Arc<str>,
        now_ms: u64,
        done: Box<dyn FnOnce(Option<Vec<Past>>) + Send>,
    ) {
        let Some(sink) = &self.sink else {
            return done(Some(Vec::new()));
        };
        let reading = reader_thread::PastOfKey {
            caller,
            key,
            now_ms,
            done,
        };
        self.past_reader
            .get_or_init(|| reader_thread::PastReader::start(Arc::downgrade(sink)))
            .ask(reading);
    }

    /// Adds the sums of this month to the callers' use, and from now on what is taken over from
    /// processes that died. Call it once, before the first request. If the file cannot be read now,
    /// they are added when it can be read for the first time. Reads the file.
    pub fn begin_callers(&self, callers: &Arc<Callers>) {
        let Some(sink) = &self.sink else { return };
        let _past_lock = sink.past_lock.lock();
        let mut known = sink.callers.lock();
        let is_read = month::add_month_use(&sink.path, now_millis(), callers);
        *known = SinkCallers {
            callers: Arc::downgrade(callers),
            lacks_this_month: is_read.is_err(),
        };
    }

    /// Answers a question about use, with all that is settled so far. Returns `None` if there is no
    /// file. Reads the file, so no request may call it. Answers one question at a time, and refuses
    /// a second one.
    pub fn answer(
        &self,
        query: &report::Query,
        deadline: Instant,
    ) -> Result<Option<report::Answer>, report::Unanswered> {
        let Some(sink) = &self.sink else {
            return Ok(None);
        };
        let _query_lock = sink.query_lock.try_lock().ok_or(report::Unanswered::Busy)?;
        self.flush();
        answer_from_file(sink, query, deadline, MAX_LINES)
    }

    /// Answers a question of a key about its own use. What settled in the last moment may be
    /// missing. Returns `None` if there is no file. Reads the file, so no thread that serves
    /// requests may call it.
    pub fn answer_to_key(
        &self,
        query: &report::Query,
        deadline: Instant,
    ) -> Result<Option<report::Answer>, report::Unanswered> {
        let Some(sink) = &self.sink else {
            return Ok(None);
        };
        answer_from_file(sink, query, deadline, MAX_KEY_LINES)
    }

    /// Waits, for two seconds at most, until all rows so far are written or cannot be. Returns at
    /// once if the ledger is failing already.
    pub fn flush(&self) {
        let Some(sink) = &self.sink else { return };
        sink.wait_until_written(sink.backlog.lock(), FLUSH_TIMEOUT);
    }

    /// Flushes at the end of the process. Tries once more if the ledger is failing, and waits
    /// longer if there are many rows.
    pub fn finish(&self) {
        let Some(sink) = &self.sink else { return };
        let mut backlog = sink.backlog.lock();
        backlog.is_last_try = backlog.error.is_some();
        let timeout = FLUSH_TIMEOUT + Duration::from_millis(backlog.rows / ROWS_PER_MILLISECOND);
        sink.wait_until_written(backlog, timeout);
        // The next process finds what still runs. It must not take this process for dead before its
        // end.
        if sink.running.is_empty() && sink.backlog.lock().is_empty() {
            sink.life.lock().take();
        }
    }

    /// Returns what `/status` and `/metrics` show of the ledger.
    pub fn status(&self) -> LedgerReport {
        let path = self.path.display().to_string();
        let Some(sink) = &self.sink else {
            return LedgerReport {
                path,
                ..LedgerReport::default()
            };
        };
        let backlog = sink.backlog.lock();
        let (waiting, problem) = (backlog.rows, backlog.error.as_deref().map(str::to_owned));
        drop(backlog);
        LedgerReport {
            path,
            state: if problem.is_some() {
                LedgerState::Failing
            } else {
                LedgerState::Ok
            },
            rows: sink.rows_written.load(Ordering::Relaxed),
            dropped: sink.rows_dropped.load(Ordering::Relaxed),
            waiting,
            problem,
        }
    }

    /// Returns the path of the file, whether or not the file exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether there is a ledger.
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Returns a random name that is kept in the file, so that it is the same after a restart.
    /// Without a file, the name is as long-lived as the process.
    pub fn instance(&self) -> Arc<str> {
        self.instance.get_or_init(writer::random_name).clone()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(sink) = &self.sink {
            self.finish();
            sink.backlog.lock().is_closing = true;
            sink.filled.notify_one();
        }
    }
}

/// Answers a question from the rows that are in the file.
fn answer_from_file(
    sink: &Sink,
    query: &report::Query,
    deadline: Instant,
    lines: usize,
) -> Result<Option<report::Answer>, report::Unanswered> {
    let opened = {
        let _past_lock = sink.past_lock.lock();
        read::Reader::open(&sink.path).map_err(report::Unanswered::Unreadable)?
    };
    let bounds = Some(report::AnswerBounds { deadline, lines });
    opened
        .map(|reader| report::answer_of(reader, &sink.path, query, bounds))
        .transpose()
}

#[cfg(test)]
mod tests;
