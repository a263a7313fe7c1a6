//! The access log has one line for each exchange, in JSON or text, whatever way the exchange ends.
//!
//! Lines are gathered in memory and written by one thread, at most `GATHER` later: no request waits
//! for a system call. No text of a prompt or an answer, no query string and no credential is ever
//! part of a line. If the sink stalls, new lines are dropped while more than `MOST` bytes wait.
//! Lines that the sink refuses are dropped too. Both are counted, since a full disk must not stop
//! the traffic.

use crate::base::calendar::time;
use crate::base::lock::{self, Lock};
use crate::conf::config::{Access, Format};
use crate::conf::price::Usd;
use crate::settled::{Settled, Tried, millis};
use dialects::wire::json::Writer;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

const GATHER: Duration = Duration::from_millis(50);
const MOST: usize = 16 << 20;

/// Writes the line in JSON. Its field names are a contract: other programs parse them.
fn json(settled: &Settled) -> Vec<u8> {
    // Most lines are shorter.
    const LINE: usize = 1024;
    let Settled { began_at, sender, request, answer, served, attempts, times, spending, outcome, total } = settled;
    let mut line = Writer::with_capacity(LINE);
    line.object(|w| {
        w.texts([("time", &time(*began_at)), ("request_id", &request.id)]);
        w.or_null("caller", sender.caller.as_deref(), Writer::text);
        w.or_null("key", sender.key.as_deref(), Writer::text);
        w.or_null("address", sender.address, |w, address| w.text(&address.to_string()));
        w.texts([("door", request.door), ("method", &request.method), ("path", &request.path)]);
        w.optional("session", request.session.as_deref(), Writer::text);
        w.or_null("model", request.model.as_deref(), Writer::text);
        w.or_null("account", served.account.as_deref(), Writer::text);
        w.or_null("upstream_model", served.upstream_model.as_deref(), Writer::text);
        w.key("stream").bool(request.stream);
        w.key("status").number(answer.status.into());
        w.key("outcome").text(outcome.name());
        w.key("attempts").each(&attempts.trail, tried);
        w.or_null("first_byte_ms", times.first_byte.map(millis), Writer::number);
        w.key("total_ms").number(millis(*total));
        w.key("own_us").number(micros(times.own));
        w.or_null("auth_us", times.auth.map(micros), Writer::number);
        w.or_null("plan_us", times.plan.map(micros), Writer::number);
        let queued = Some(times.queued).filter(|queued| !queued.is_zero());
        w.optional("queued_ms", queued.map(millis), Writer::number);
        w.optional("not_retried", attempts.not_retried, Writer::text);
        let (usage, units) = (&spending.usage, spending.usage.units);
        w.key("prompt_tokens").number(usage.prompt);
        w.key("completion_tokens").number(usage.completion);
        w.key("cached_tokens").number(usage.cached);
        for (name, count) in [("images", units.images), ("audio_ms", units.millis), ("characters", units.characters)] {
            w.optional(name, Some(count.into()).filter(|count| *count > 0), Writer::number);
        }
        w.key("usage").text(usage.source.name());
        w.or_null("cost_usd", spending.cost, usd);
        let limited = spending.limited.map(|(level, kind)| format!("{} {}", level.name(), kind.name()));
        w.optional("limited_by", limited.as_deref(), Writer::text);
        w.key("bytes_in").number(request.bytes);
        w.key("bytes_out").number(answer.bytes);
        w.or_null("upstream_request_id", served.upstream_request_id.as_deref(), Writer::text);
        w.key("maybe_billed").bool(attempts.maybe_billed);
        w.list("dropped", served.losses.names(), |w, name| w.text(name));
        let broken_calls = Some(served.flaws.broken_calls.into()).filter(|calls| *calls > 0);
        w.optional("broken_calls", broken_calls, Writer::number);
        w.optional("not_json", Some(true).filter(|_| served.flaws.not_json), Writer::bool);
        w.optional("error", answer.error.as_deref(), Writer::text);
    });
    line.into_bytes()
}

/// Writes one attempt.
fn tried(w: &mut Writer, tried: &Tried) {
    w.object(|w| {
        w.texts([("account", &*tried.account), ("model", &tried.model)]);
        w.optional("endpoint", tried.endpoint, Writer::text);
        w.key("outcome").text(tried.outcome);
        w.key("ms").number(tried.ms);
        w.optional("status", tried.status.map(u64::from), Writer::number);
        w.optional("times", Some(tried.times.into()).filter(|times| *times > 1), Writer::number);
        w.optional("connect_ms", tried.connect_ms, Writer::number);
        w.optional("first_ms", tried.first_ms, Writer::number);
        w.optional("prompt_tokens", tried.prompt_tokens, Writer::number);
        w.optional("completion_tokens", tried.completion_tokens, Writer::number);
        if let Some(cost) = tried.cost {
            w.or_null("cost_usd", cost, usd);
        }
        w.optional("detail", tried.detail.as_deref(), Writer::text);
    });
}

/// Writes an amount, always with a decimal point or an exponent.
fn usd(w: &mut Writer, cost: Usd) {
    // A float that is finite can always be written.
    w.raw(&serde_json::to_string(&cost).unwrap_or_default());
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

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
            let lines = std::mem::take(&mut *self.waiting.lock());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settled::{Incoming, Sender};

    fn attempt(cost: Option<Option<Usd>>) -> Tried {
        Tried {
            account: "a".into(),
            model: "m\u{1}".into(),
            endpoint: None,
            outcome: "failed",
            times: 1,
            ms: 7,
            status: Some(500),
            connect_ms: None,
            first_ms: None,
            prompt_tokens: Some(3),
            completion_tokens: None,
            cost,
            detail: Some("a \"quote\"\nand é".to_owned()),
        }
    }

    #[test]
    fn a_line_is_one_object_of_known_fields() {
        let mut settled = Settled {
            began_at: 951_782_400_123,
            sender: Sender { caller: Some("c".into()), key: None, address: Some([127, 0, 0, 1].into()) },
            request: Incoming { id: "r\n".to_owned(), path: "/\\".to_owned(), ..Incoming::default() },
            ..Settled::default()
        };
        settled.attempts.trail = vec![attempt(None), attempt(Some(None)), attempt(Some(Some(Usd(1_500))))];
        settled.spending.cost = Some(Usd::ZERO);
        let expected = [
            r#"{"time":"2000-02-29T00:00:00.123Z","request_id":"r\n","caller":"c","key":null,"address":"127.0.0.1","#,
            r#""door":"","method":"","path":"/\\","model":null,"account":null,"upstream_model":null,"stream":false,"#,
            r#""status":0,"outcome":"internal","attempts":[TRIES],"first_byte_ms":null,"total_ms":0,"own_us":0,"#,
            r#""auth_us":null,"plan_us":null,"prompt_tokens":0,"completion_tokens":0,"cached_tokens":0,"usage":"none","#,
            r#""cost_usd":0.0,"bytes_in":0,"bytes_out":0,"upstream_request_id":null,"maybe_billed":false}"#,
        ];
        let tried = [
            r#"{"account":"a","model":"m\u0001","outcome":"failed","ms":7,"status":500,"prompt_tokens":3"#,
            r#"COST,"detail":"a \"quote\"\nand é"}"#,
        ];
        let costs = ["", r#","cost_usd":null"#, r#","cost_usd":1.5e-6"#];
        let tries = costs.map(|cost| tried.concat().replace("COST", cost)).join(",");
        assert_eq!(String::from_utf8(json(&settled)).unwrap(), expected.concat().replace("TRIES", &tries));
    }
}
