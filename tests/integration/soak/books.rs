//! The books of the soak: what every caller saw, what the gateway's access lines say of it, and the
//! figures of the run.
//!
//! Access lines are read while they are written, so that an hour of them needs no memory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use crate::support::canary;

/// What became of a request, as its caller saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A whole answer.
    Whole,
    /// A stream that ended with an error event.
    ErrorEvent,
    /// A standard error.
    Status(u16),
    /// The caller left, and the request had been there.
    Left,
    /// The caller left so early that nobody may know of it.
    Perhaps,
    /// There was no request.
    Nothing,
}

/// What the gateway's access line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AccessLine {
    ok: bool,
    status: u16,
}

#[derive(Default)]
pub struct Books(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    seen: BTreeMap<u64, Seen>,
    said: BTreeMap<u64, AccessLine>,
    lines: u64,
    extra: u64,
    attempts: u64,
    whats: BTreeMap<String, u64>,
    outcomes: BTreeMap<String, u64>,
    took: Vec<u32>,
    failures: Vec<String>,
    /// Of the access log: how far it is read, and the line that is not whole.
    offset: u64,
    rest: Vec<u8>,
}

impl Books {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().expect("books")
    }

    pub fn saw(&self, number: u64, what: &str, seen: Seen) {
        let mut pages = self.pages();
        let shown = match seen {
            Seen::Whole => "a whole answer".to_owned(),
            Seen::ErrorEvent => "an error event".to_owned(),
            Seen::Status(status) => status.to_string(),
            Seen::Left | Seen::Perhaps | Seen::Nothing => "(left)".to_owned(),
        };
        *pages.whats.entry(format!("{what}: {shown}")).or_default() += 1;
        pages.seen.insert(number, seen);
        pages.settle(number);
    }

    pub fn took(&self, time: Duration) {
        self.pages()
            .took
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn fail(&self, why: String) {
        self.pages().failures.push(why);
    }

    pub fn failed(&self) -> Option<String> {
        let pages = self.pages();
        let first = pages
            .failures
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n\n");
        (!first.is_empty()).then(|| {
            format!(
                "{} failures, the first of them:\n{first}",
                pages.failures.len()
            )
        })
    }

    /// Reads what has been added to the access log.
    pub fn follow(&self, log: &Path) {
        let mut file = std::fs::File::open(log).expect("the access log");
        let mut pages = self.pages();
        file.seek(SeekFrom::Start(pages.offset))
            .expect("a place in the log");
        let mut text = std::mem::take(&mut pages.rest);
        pages.offset += file.read_to_end(&mut text).expect("the log") as u64;
        let whole = text
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        pages.rest = text.split_off(whole);
        if memchr::memmem::find(&text, canary::MARK.as_bytes()).is_some() {
            pages
                .failures
                .push("a secret is in the access log".to_owned());
        }
        for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            if let Err(why) = pages.line(line) {
                pages.failures.push(format!(
                    "{why} in access line {}",
                    String::from_utf8_lossy(line)
                ));
            }
        }
    }

    /// Every request has its line, no other line is there, and both say the same.
    pub fn balance(&self) -> Result<(), String> {
        let pages = self.pages();
        for (number, seen) in &pages.seen {
            let wanted = !matches!(seen, Seen::Nothing | Seen::Perhaps);
            if wanted && !pages.said.contains_key(number) {
                return Err(format!(
                    "request {number}, whose caller saw {seen:?}, has no access line"
                ));
            }
        }
        match pages
            .said
            .iter()
            .find(|(number, _)| !pages.seen.contains_key(number))
        {
            Some((number, said)) => Err(format!(
                "an access line of request {number}, which nobody made: {said:?}"
            )),
            None => Ok(()),
        }
    }

    pub fn report(&self) -> String {
        let mut pages = self.pages();
        pages.took.sort_unstable();
        let count = pages.took.len();
        let share = |per_mille: usize| {
            pages
                .took
                .get((count * per_mille / 1000).min(count.saturating_sub(1)))
                .map_or(0, |us| us / 1000)
        };
        let mut out = String::new();
        let (lines, extra) = (pages.lines, pages.extra);
        let each = pages.attempts as f64 / (lines.max(1)) as f64;
        writeln!(
            out,
            "access lines          {lines} ({extra} of streams beyond one a caller), {each:.2} attempts a line"
        )
        .expect("text");
        writeln!(
            out,
            "well-behaved callers  p50 {} ms, p99 {} ms, longest {} ms",
            share(500),
            share(990),
            share(1000)
        )
        .expect("text");
        for (title, counts) in [
            ("callers", &pages.whats),
            ("outcomes in access lines", &pages.outcomes),
        ] {
            writeln!(out, "{title}").expect("text");
            for (what, count) in counts {
                writeln!(out, "  {count:>8}  {what}").expect("text");
            }
        }
        out
    }
}

impl Pages {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        self.lines += 1;
        self.attempts += line["attempts"].as_array().map_or(0, Vec::len) as u64;
        let outcome = line["outcome"].as_str().unwrap_or_default();
        *self.outcomes.entry(outcome.to_owned()).or_default() += 1;
        if outcome == "internal" || line["status"] == 500 {
            return Err("an internal error".to_owned());
        }
        let id = line["request_id"].as_str().unwrap_or_default();
        let id = id
            .strip_prefix("soak-")
            .ok_or("a request that is none of ours")?;
        let Ok(number) = id.parse() else {
            self.extra += 1;
            return Ok(());
        };
        let status = line["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .ok_or("no status")?;
        if self
            .said
            .insert(
                number,
                AccessLine {
                    ok: outcome == "ok",
                    status,
                },
            )
            .is_some()
        {
            return Err("a second line".to_owned());
        }
        self.settle(number);
        Ok(())
    }

    /// Holds both sides of one request against each other once both are there.
    fn settle(&mut self, number: u64) {
        let (Some(seen), Some(said)) = (
            self.seen.get(&number).copied(),
            self.said.get(&number).copied(),
        ) else {
            return;
        };
        let agree = match seen {
            Seen::Whole => {
                said == AccessLine {
                    ok: true,
                    status: 200,
                }
            }
            Seen::ErrorEvent => {
                said == AccessLine {
                    ok: false,
                    status: 200,
                }
            }
            Seen::Status(status) => said == AccessLine { ok: false, status },
            Seen::Left | Seen::Perhaps => true,
            Seen::Nothing => false,
        };
        if !agree {
            self.failures.push(format!(
                "request {number}: its caller saw {seen:?}, its access line says {said:?}"
            ));
        }
    }
}
