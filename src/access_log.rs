//! One line an exchange, JSON or text, for every way to end.
//!
//! Lines are gathered in memory and written by one thread, at most `GATHER` later: a request's way
//! has no system call for them. No text of a prompt or an answer, no query string and no credential
//! is ever part of a line. If the sink stalls, lines beyond `MOST` bytes are dropped, and so is
//! what it refuses; both are counted, since a full disk must not stop the traffic.

use crate::config::{Access, Format};
use crate::price::Usd;
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::time::{Duration, SystemTime};

const GATHER: Duration = Duration::from_millis(50);
const MOST: usize = 16 << 20;

/// One attempt, as the line tells it.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The account's id.
    pub account: Arc<str>,
    /// Its name for the model.
    pub model: Arc<str>,
    /// How it went.
    pub outcome: &'static str,
    /// How long it took.
    pub ms: u64,
    /// The upstream's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long it took to have a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<u64>,
    /// How long it took to begin to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
    /// Tokens that may be charged for an answer that nobody got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// The same for what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// What these cost, if that is known.
    #[serde(rename = "cost_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<Option<Usd>>,
    /// What the upstream or the network said, scrubbed and cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The line. Its field names are a contract: others parse them.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names say it, and README explains each")]
pub struct Line<'a> {
    pub time: String,
    pub request_id: &'a str,
    pub caller: Option<&'a str>,
    pub key: Option<&'a str>,
    pub address: Option<String>,
    pub door: Option<&'a str>,
    pub method: &'a str,
    pub path: &'a str,
    pub model: Option<&'a str>,
    pub account: Option<&'a str>,
    pub upstream_model: Option<&'a str>,
    pub stream: bool,
    pub status: u16,
    pub outcome: &'a str,
    pub attempts: &'a [Tried],
    pub first_byte_ms: Option<u64>,
    pub total_ms: u64,
    pub own_us: u64,
    pub auth_us: Option<u64>,
    pub plan_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_retried: Option<&'static str>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub cached_tokens: u64,
    pub usage: &'a str,
    pub cost_usd: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub upstream_request_id: Option<&'a str>,
    pub maybe_billed: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub dropped: &'a [Cow<'static, str>],
    #[serde(skip_serializing_if = "is_none")]
    pub broken_calls: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_json: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The log.
pub struct AccessLog {
    sink: Option<Arc<Sink>>,
    format: Format,
}

#[derive(Default)]
struct Sink {
    waiting: Mutex<Vec<u8>>,
    filled: Condvar,
    /// Held while lines are being written, so that [`AccessLog::flush`] can wait for them.
    writing: Mutex<()>,
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

    /// Adds a line.
    pub fn write(&self, line: &Line<'_>) {
        let Some(sink) = &self.sink else { return };
        let mut waiting = sink.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() > MOST {
            sink.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = waiting.is_empty();
        match self.format {
            // Writing to memory cannot fail, and the line holds nothing that JSON cannot.
            Format::Json => drop(serde_json::to_writer(&mut *waiting, line)),
            Format::Text => text(&mut waiting, line),
        }
        waiting.push(b'\n');
        drop(waiting);
        if was_empty {
            sink.filled.notify_one();
        }
    }

    /// Opens the file anew: what `logrotate` asks for with SIGHUP.
    pub fn reopen(&self) {
        if let Some(sink) = &self.sink {
            sink.reopen.store(true, Ordering::Release);
        }
    }

    /// Lines that were dropped because the sink stalled or refused them.
    pub fn dropped(&self) -> u64 {
        self.sink.as_ref().map_or(0, |sink| sink.dropped.load(Ordering::Relaxed))
    }

    /// Waits, for a second at most, until every line so far is written. Whoever reads the sink may
    /// have stopped for good.
    pub fn flush(&self) {
        let Some(sink) = &self.sink else { return };
        let end = std::time::Instant::now() + Duration::from_secs(1);
        while std::time::Instant::now() < end {
            let none_waits = sink.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
            if none_waits && !matches!(sink.writing.try_lock(), Err(TryLockError::WouldBlock)) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

impl Sink {
    fn run(&self, mut file: Option<File>) {
        let mut failing = false;
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                while waiting.is_empty() {
                    waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
            std::thread::park_timeout(GATHER);
            if self.reopen.swap(false, Ordering::AcqRel)
                && let Some(path) = &self.path
            {
                match open(path) {
                    Ok(new) => file = Some(new),
                    Err(why) => log::error!("{why}; still writing to the old file"),
                }
            }
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            let written = match &mut file {
                Some(file) => file.write_all(&lines),
                None => std::io::stdout().lock().write_all(&lines).and_then(|()| std::io::stdout().lock().flush()),
            };
            match written {
                Ok(()) if failing => log::info!("the access log can be written again"),
                Ok(()) => {}
                Err(why) => {
                    let lines = memchr::memchr_iter(b'\n', &lines).count();
                    self.dropped.fetch_add(u64::try_from(lines).unwrap_or(u64::MAX), Ordering::Relaxed);
                    // Once an outage.
                    if !failing {
                        log::error!("the access log cannot be written, its lines are dropped: {why}");
                    }
                    failing = true;
                    continue;
                }
            }
            failing = false;
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

fn text(out: &mut Vec<u8>, line: &Line<'_>) {
    let dash = |value: Option<&str>| value.unwrap_or("-").to_owned();
    // Of a head that could not be read nothing may be known.
    let or_dash = |value: &str| if value.is_empty() { "-".to_owned() } else { value.to_owned() };
    let detail = |tried: &Tried| tried.detail.as_ref().map(|detail| format!(":{detail:?}")).unwrap_or_default();
    let tries: Vec<String> =
        line.attempts.iter().map(|t| format!("{}:{}:{}ms{}", t.account, t.outcome, t.ms, detail(t))).collect();
    out.extend_from_slice(
        format!(
            "{} {} {} {} {} {} {} {}ms own={}us model={} key={} account={} tokens={}+{}({}) tries=[{}]",
            line.time,
            line.request_id,
            line.address.as_deref().unwrap_or("-"),
            or_dash(line.method),
            or_dash(line.path),
            line.status,
            line.outcome,
            line.total_ms,
            line.own_us,
            dash(line.model),
            dash(line.key),
            dash(line.account),
            line.prompt_tokens,
            line.completion_tokens,
            line.usage,
            tries.join(",")
        )
        .as_bytes(),
    );
}

/// RFC 3339 in UTC, to the millisecond.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Howard Hinnant's civil_from_days, for dates from 1970 on.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |millis: u64, expected: &str| {
            assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)), expected)
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_123, "2000-02-29T00:00:00.123Z");
        check(1_795_228_799_999, "2026-11-21T02:39:59.999Z");
        check(4_102_444_800_000, "2100-01-01T00:00:00.000Z");
    }
}
