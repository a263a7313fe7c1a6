//! The access log has one line for each exchange, in JSON or text, whatever way the exchange ends.
//!
//! Lines are gathered in memory and written by one thread, at most `GATHER` later: no request waits
//! for a system call. No text of a prompt or an answer, no query string and no credential is ever
//! part of a line. If the sink stalls, new lines are dropped while more than `MOST` bytes wait.
//! Lines that the sink refuses are dropped too. Both are counted, since a full disk must not stop
//! the traffic. The same thread keeps the newest lines for operators ([`Recent`]), wherever lines
//! are written, and if they are written nowhere.

mod line;
mod recent;

use crate::base::calendar::format_time;
use crate::base::hash::digest_text;
use crate::base::lock::{self, Lock};
use crate::base::pool;
use crate::conf::config::{Access, Format};
use crate::error::Blame;
use crate::settled::{Settled, whole_micros, whole_millis};
use line::json_line;
pub use recent::{Recent, RecentLine};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

const GATHER_TIME: Duration = Duration::from_millis(50);
const MAX_WAITING_BYTES: usize = 16 << 20;
/// The most memory that is kept to be filled again.
const KEPT_CAPACITY: usize = 256 << 10;

/// The log.
pub struct AccessLog {
    sink: Arc<Sink>,
    /// True if the lines are written as text.
    is_text: bool,
}

/// The output of the lines.
#[derive(Default)]
enum Output {
    #[default]
    Nowhere,
    File(File),
}

/// The lines that wait to be written.
#[derive(Default)]
struct Waiting {
    /// The lines in JSON.
    json: Vec<u8>,
    /// The end of each of them, and whose fault it is if it is a failure.
    ends: Vec<(usize, Option<Blame>)>,
    /// The lines as text, if they are written so.
    text: Vec<u8>,
}

#[derive(Default)]
struct Sink {
    waiting: Lock<Waiting>,
    recent: Recent,
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
        let (output, path) = match access {
            Access::Off => (Output::Nowhere, None),
            // Without a buffer, so that it is known what was written.
            Access::Stdout => {
                let stdout = std::io::stdout().as_fd().try_clone_to_owned();
                let stdout = stdout.map_err(|why| {
                    format!("cannot write access lines to standard output: {why}")
                })?;
                (Output::File(stdout.into()), None)
            }
            Access::File(path) => (Output::File(open_log_file(path)?), Some(path.clone())),
        };
        let sink = Arc::new(Sink {
            path,
            ..Sink::default()
        });
        let writer = sink.clone();
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || writer.run(output))
            .map_err(|e| format!("cannot start the access log's thread: {e}"))?;
        let is_text = match access {
            Access::Off => false,
            Access::Stdout => format.is_text(&std::io::stdout()),
            Access::File(_) => format == Format::Text,
        };
        Ok(AccessLog { sink, is_text })
    }

    /// Adds the line of an exchange.
    pub fn write(&self, settled: &Settled) {
        let (sink, mut line) = (&self.sink, json_line(settled));
        line.push(b'\n');
        let text = if self.is_text {
            text_line(settled)
        } else {
            Vec::new()
        };
        let mut waiting = sink.waiting.lock();
        let is_full = waiting.json.len() > MAX_WAITING_BYTES;
        let was_empty = waiting.ends.is_empty();
        if !is_full {
            waiting.json.extend_from_slice(&line);
            let end = waiting.json.len();
            waiting.ends.push((end, settled.blame()));
            waiting.text.extend_from_slice(&text);
        }
        drop(waiting);
        pool::give_back(line);
        if is_full {
            sink.dropped.fetch_add(1, Ordering::Relaxed);
        } else if was_empty {
            sink.filled.notify_one();
        }
    }

    /// Opens the file again, as `logrotate` asks with SIGHUP.
    pub fn reopen(&self) {
        self.sink.reopen.store(true, Ordering::Release);
    }

    /// Returns the number of lines that were dropped because the sink stalled or refused them.
    pub fn dropped(&self) -> u64 {
        self.sink.dropped.load(Ordering::Relaxed)
    }

    /// Returns the newest lines.
    pub fn recent(&self) -> &Recent {
        &self.sink.recent
    }

    /// Waits, for a second at most, until every line so far is written. The wait has an end because
    /// the reader of the sink may have stopped for good.
    pub fn flush(&self) {
        let sink = &self.sink;
        let end = std::time::Instant::now() + Duration::from_secs(1);
        while std::time::Instant::now() < end {
            let none_waits = sink.waiting.lock().ends.is_empty();
            if none_waits && sink.writing.try_lock().is_some() {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Output {
    /// Writes lines. Returns the number of bytes that were written, also if not all were.
    fn write(&mut self, lines: &[u8]) -> (usize, std::io::Result<()>) {
        let Output::File(file) = self else {
            return (lines.len(), Ok(()));
        };
        let mut written = 0;
        while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
            match file.write(rest) {
                Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
                Ok(some) => written += some,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return (written, Err(why)),
            }
        }
        (written, Ok(()))
    }
}

/// The output, and the rest of a line that a full disk has cut. The rest is written first when
/// there is room again, so that no line is lost in part, and none is glued to another one.
struct LineWriter {
    output: Output,
    rest: Vec<u8>,
}

impl LineWriter {
    /// Writes lines. Returns the number of lines that are lost.
    fn write(&mut self, lines: &[u8]) -> (u64, std::io::Result<()>) {
        let (written, result) = self.output.write(&self.rest);
        self.rest.drain(..written);
        if result.is_err() {
            return (count_lines(lines), result);
        }
        let (written, result) = self.output.write(lines);
        let (before, after) = lines.split_at(written);
        let is_cut = before.last().is_some_and(|last| *last != b'\n');
        let end = if is_cut {
            memchr::memchr(b'\n', after).map_or(after.len(), |end| end + 1)
        } else {
            0
        };
        let (rest, lost) = after.split_at(end);
        self.rest = rest.to_vec();
        (count_lines(lost), result)
    }

    /// Writes to another file from now on. Returns whether a line stays cut in the old one.
    fn change_output(&mut self, output: Output) -> bool {
        self.output = output;
        !std::mem::take(&mut self.rest).is_empty()
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

impl Waiting {
    /// Lists the lines, without their ends.
    fn lines(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<Blame>)> {
        let mut begin = 0;
        self.ends.iter().map(move |(end, blame)| {
            let line = self.json.get(begin..end - 1).unwrap_or_default();
            begin = *end;
            (line, *blame)
        })
    }

    fn clear(&mut self) {
        self.json.clear();
        self.json.shrink_to(KEPT_CAPACITY);
        self.text.clear();
        self.text.shrink_to(KEPT_CAPACITY);
        self.ends.clear();
        self.ends
            .shrink_to(KEPT_CAPACITY / size_of::<(usize, Option<Blame>)>());
    }
}

impl Sink {
    fn run(&self, output: Output) {
        let mut writer = LineWriter {
            output,
            rest: Vec::new(),
        };
        let mut failing = false;
        let mut lines = Waiting::default();
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.ends.is_empty() {
                waiting = lock::wait_for_signal(&self.filled, waiting);
            }
            drop(waiting);
            std::thread::park_timeout(GATHER_TIME);
            if self.reopen.swap(false, Ordering::AcqRel)
                && let Some(path) = &self.path
            {
                match open_log_file(path) {
                    Ok(new) => {
                        let is_cut = writer.change_output(Output::File(new));
                        self.dropped.fetch_add(u64::from(is_cut), Ordering::Relaxed);
                    }
                    Err(why) => log::error!("{why}; access lines still go to the old file"),
                }
            }
            let _writing = self.writing.lock();
            std::mem::swap(&mut lines, &mut self.waiting.lock());
            // This is first, since the output may let the thread wait.
            self.recent.add(lines.lines());
            let (lost, written) = writer.write(if lines.text.is_empty() {
                &lines.json
            } else {
                &lines.text
            });
            let has_failed = std::mem::replace(&mut failing, written.is_err());
            self.dropped.fetch_add(lost, Ordering::Relaxed);
            if let Err(why) = written {
                // The error is logged once per outage.
                if !has_failed {
                    log::error!(
                        "the access log cannot be written, so its lines are dropped: {why}"
                    );
                }
            } else if has_failed {
                log::info!("the access log can be written again");
            }
            lines.clear();
        }
    }
}

fn open_log_file(path: &PathBuf) -> Result<File, String> {
    // To open a pipe without a reader would wait for ever, unless it is opened for both.
    let is_pipe = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
    File::options()
        .read(is_pipe)
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| {
            format!("cannot open the access log that `log.access` in server.yaml names: {e}")
        })
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a caller's name for its end user, as
/// the access line has it: the name itself may be an address of mail.
pub fn end_user_hash(name: &str) -> String {
    digest_text(&Sha256::digest(name), 8)
}

/// Writes the line as text, with its end.
fn text_line(settled: &Settled) -> Vec<u8> {
    let Settled {
        began_at,
        sender,
        request,
        answer,
        served,
        attempts,
        times,
        spending,
        outcome,
        total,
        ..
    } = settled;
    // If the head could not be read, these facts may be unknown.
    fn or_dash(value: Option<&str>) -> &str {
        value.filter(|value| !value.is_empty()).unwrap_or("-")
    }
    let tries = attempts.trail.iter().map(|tried| {
        let detail = tried.detail.as_ref().map(|detail| format!(":{detail:?}"));
        format!(
            "{}:{}:{}ms{}{}",
            tried.account,
            tried.outcome,
            tried.ms,
            tried.count_text(":"),
            detail.unwrap_or_default()
        )
    });
    let (usage, address) = (
        &spending.usage,
        sender.address.map(|address| address.to_string()),
    );
    let line = format!(
        "{} {} {} {} {} {} {} {}ms own={}us model={}{} key={} account={} tokens={}+{}({}) tries=[{}]{}\n",
        format_time(*began_at),
        request.id,
        or_dash(address.as_deref()),
        or_dash(Some(&request.method)),
        or_dash(Some(&request.path)),
        answer.status,
        outcome.name(),
        whole_millis(*total),
        whole_micros(times.own_time),
        or_dash(request.model.as_deref()),
        quoted_fact(" asked", request.asked_model.as_deref()),
        or_dash(sender.key.as_deref()),
        or_dash(served.account.as_deref()),
        usage.prompt,
        usage.completion,
        usage.source.name(),
        tries.collect::<Vec<_>>().join(","),
        quoted_fact(" error", answer.error.as_deref())
    );
    line.into_bytes()
}

/// Writes a fact that not every line has, in quotes, or nothing.
fn quoted_fact(name: &str, value: Option<&str>) -> String {
    value
        .map(|value| format!("{name}={value:?}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outcome;

    #[test]
    fn the_newest_lines_are_kept_wherever_lines_are_written() {
        let file = std::env::temp_dir().join(format!("portcullis-access-{}", std::process::id()));
        for (access, format) in [
            (Access::Off, Format::Json),
            (Access::Off, Format::Text),
            (Access::File(file.clone()), Format::Json),
            (Access::File(file.clone()), Format::Text),
        ] {
            std::fs::remove_file(&file).ok();
            let log = AccessLog::open(&access, format).expect("a log");
            let mut settled = Settled::default();
            for (id, outcome) in [("one", Outcome::Ok), ("two\"", Outcome::UpstreamCut)] {
                (settled.request.id, settled.outcome) = (id.to_owned(), outcome);
                log.write(&settled);
            }
            log.flush();
            let ids = |failures| {
                let lines = match failures {
                    true => log.recent().failures(0, u64::MAX),
                    false => log.recent().lines(0, u64::MAX),
                };
                let read = |line: RecentLine| -> serde_json::Value {
                    serde_json::from_slice(&line.json).expect("JSON")
                };
                lines
                    .into_iter()
                    .map(|line| (line.seq, read(line)["request_id"].clone()))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                ids(false),
                [(2, "two\"".into()), (1, "one".into())],
                "{access:?} {format:?}"
            );
            assert_eq!(ids(true), [(2, "two\"".into())]);
            let written = std::fs::read_to_string(&file).unwrap_or_default();
            let lines = if access == Access::Off { 0 } else { 2 };
            assert_eq!(
                (written.lines().count(), log.dropped()),
                (lines, 0),
                "{written}"
            );
            assert_eq!(
                written.starts_with('{'),
                access != Access::Off && format == Format::Json
            );
        }
        std::fs::remove_file(&file).ok();
    }
}
