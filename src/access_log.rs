//! The access log has one line for each exchange, in JSON or text, whatever way the exchange ends.
//!
//! Lines are gathered in memory and written by one thread, at most `GATHER` later: no request waits
//! for a system call. No text of a prompt or an answer, no query string and no credential is ever
//! part of a line. If the sink stalls, new lines are dropped while more than `MOST` bytes wait.
//! Lines that the sink refuses are dropped too. Both are counted, since a full disk must not stop
//! the traffic.

mod line;

use crate::base::calendar::time;
use crate::base::lock::{self, Lock};
use crate::conf::config::{Access, Format};
use crate::settled::{Settled, Tried, micros, millis};
use line::json;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

const GATHER: Duration = Duration::from_millis(50);
const MOST: usize = 16 << 20;
/// The most memory that is kept to be filled again.
const KEPT: usize = 256 << 10;

/// The log.
pub struct AccessLog {
    sink: Option<Arc<Sink>>,
    format: Format,
}

#[derive(Default)]
struct Sink {
    waiting: Lock<Vec<u8>>,
    filled: Condvar,
    /// Held while lines are being written, so that [`AccessLog::flush`] can wait for them.
    writing: Lock<()>,
    path: Option<PathBuf>,
    reopen: AtomicBool,
    dropped: AtomicU64,
}

impl AccessLog {
    /// Opens the sink and starts its thread.
    pub fn open(access: &Access, format: Format) -> Result<AccessLog, String> {
        let path = match access {
            Access::Off => return Ok(AccessLog { sink: None, format }),
            Access::Stdout => None,
            Access::File(path) => Some(path.clone()),
        };
        let file = path.as_ref().map(open).transpose()?;
        let sink = Arc::new(Sink { path, ..Sink::default() });
        let writer = sink.clone();
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run(file))
            .map_err(|e| format!("cannot start the access log's thread: {e}"))?;
        Ok(AccessLog { sink: Some(sink), format })
    }

    /// Adds the line of an exchange.
    pub fn write(&self, settled: &Settled) {
        let Some(sink) = &self.sink else { return };
        let mut line = match self.format {
            Format::Json => json(settled),
            Format::Text => text(settled),
        };
        line.push(b'\n');
        let mut waiting = sink.waiting.lock();
        if waiting.len() > MOST {
            sink.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = waiting.is_empty();
        waiting.extend_from_slice(&line);
        drop(waiting);
        if was_empty {
            sink.filled.notify_one();
        }
    }

    /// Opens the file again, as `logrotate` asks with SIGHUP.
    pub fn reopen(&self) {
        if let Some(sink) = &self.sink {
            sink.reopen.store(true, Ordering::Release);
        }
    }

    /// Returns the number of lines that were dropped because the sink stalled or refused them.
    pub fn dropped(&self) -> u64 {
        self.sink.as_ref().map_or(0, |sink| sink.dropped.load(Ordering::Relaxed))
    }

    /// Waits, for a second at most, until every line so far is written. The wait has an end because
    /// the reader of the sink may have stopped for good.
    pub fn flush(&self) {
        let Some(sink) = &self.sink else { return };
        let end = std::time::Instant::now() + Duration::from_secs(1);
        while std::time::Instant::now() < end {
            let none_waits = sink.waiting.lock().is_empty();
            if none_waits && sink.writing.try_lock().is_some() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Sink {
    fn run(&self, mut file: Option<File>) {
        let mut failing = false;
        let mut lines = Vec::new();
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.is_empty() {
                waiting = lock::wait(&self.filled, waiting);
            }
            drop(waiting);
            std::thread::park_timeout(GATHER);
            if self.reopen.swap(false, Ordering::AcqRel)
                && let Some(path) = &self.path
            {
                match open(path) {
                    Ok(new) => file = Some(new),
                    Err(why) => log::error!("{why}; access lines still go to the old file"),
                }
            }
            let _writing = self.writing.lock();
            std::mem::swap(&mut lines, &mut self.waiting.lock());
            let written = match &mut file {
                Some(file) => file.write_all(&lines),
                None => std::io::stdout().lock().write_all(&lines).and_then(|()| std::io::stdout().lock().flush()),
            };
            let has_failed = std::mem::replace(&mut failing, written.is_err());
            if let Err(why) = written {
                let lines = memchr::memchr_iter(b'\n', &lines).count();
                self.dropped.fetch_add(lines as u64, Ordering::Relaxed);
                // The error is logged once per outage.
                if !has_failed {
                    log::error!("the access log cannot be written, so its lines are dropped: {why}");
                }
            } else if has_failed {
                log::info!("the access log can be written again");
            }
            lines.clear();
            lines.shrink_to(KEPT);
        }
    }
}

fn open(path: &PathBuf) -> Result<File, String> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| format!("cannot open the access log that `log.access` in server.yaml names: {e}"))
}

/// Writes the line as text.
fn text(settled: &Settled) -> Vec<u8> {
    let Settled { began_at, sender, request, answer, served, attempts, times, spending, outcome, total } = settled;
    // If the head could not be read, these facts may be unknown.
    fn or_dash(value: Option<&str>) -> &str {
        value.filter(|value| !value.is_empty()).unwrap_or("-")
    }
    let detail = |tried: &Tried| tried.detail.as_ref().map(|detail| format!(":{detail:?}")).unwrap_or_default();
    let tries =
        attempts.trail.iter().map(|t| format!("{}:{}:{}ms{}", t.account, t.outcome, t.ms, t.often(":") + &detail(t)));
    let (usage, address) = (&spending.usage, sender.address.map(|address| address.to_string()));
    let line = format!(
        "{} {} {} {} {} {} {} {}ms own={}us model={} key={} account={} tokens={}+{}({}) tries=[{}]",
        time(*began_at),
        request.id,
        or_dash(address.as_deref()),
        or_dash(Some(&request.method)),
        or_dash(Some(&request.path)),
        answer.status,
        outcome.name(),
        millis(*total),
        micros(times.own),
        or_dash(request.model.as_deref()),
        or_dash(sender.key.as_deref()),
        or_dash(served.account.as_deref()),
        usage.prompt,
        usage.completion,
        usage.source.name(),
        tries.collect::<Vec<_>>().join(",")
    );
    line.into_bytes()
}
