//! The record of one exchange: what is known of it so far, and the guard that settles it exactly
//! once.
//!
//! **Invariant:** settling happens in `Drop`, so that it happens for every way to end: an answer, a
//! refusal, a caller who left, a panic. It writes the access line and the ledger's row, counts, and
//! gives the drain its place back. Only the caller's limits are settled before, when it is certain
//! what was used and the answer's end is about to leave.

use super::producer::meter::{Meter, Unused, Who};
use crate::access_log::{Line, Tried, rfc3339};
use crate::error::{Outcome, Refusal, What};
use crate::ledger::{Row, Run, Runs};
use crate::limits::{Kind, Left, Level, Past, Reservation, Spent};
use crate::price::{Price, Usd};
use crate::reply::Notes;
use crate::shared::Shared;
use dialects::Flaws;
use dialects::usage::{Source, Usage};
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The record. Fields are filled in as they become known.
pub struct Record {
    shared: Arc<Shared>,
    /// When the request's head was there.
    pub began: Instant,
    began_at: SystemTime,
    /// Probes of health are no exchanges: they leave no line.
    pub is_exchange: bool,
    /// Given by the caller, or made.
    pub request_id: String,
    /// Who asks.
    pub caller: Option<Arc<str>>,
    /// With which key.
    pub key: Option<Arc<str>>,
    /// From where.
    pub address: Option<IpAddr>,
    /// At which door.
    pub door: &'static str,
    /// The method, cut short.
    pub method: String,
    /// The path without its query, cut short.
    pub path: String,
    /// The model's id; from the catalog, never from the request.
    pub model: Option<Arc<str>>,
    /// The account that answered, or was asked last.
    pub account: Option<Arc<str>>,
    /// Its name for the model.
    pub upstream_model: Option<Arc<str>>,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// The status that the caller saw; 499 if it left, whatever it saw before.
    pub status: u16,
    outcome: Option<Outcome>,
    /// The trail of attempts.
    pub attempts: Vec<Tried>,
    /// When the first byte of the answer's body left.
    pub first_byte: Option<Duration>,
    /// Time spent running, not waiting.
    pub own: Duration,
    /// From the head's arrival until it was known who asks.
    pub auth: Option<Duration>,
    /// From the body's last byte until it was known who may be asked.
    pub plan: Option<Duration>,
    /// How long it waited for a place.
    pub queued: Duration,
    /// Why no further attempt was made, although there was somebody.
    pub not_retried: Option<&'static str>,
    /// Whether a second attempt beside a slow first one was made, and was faster.
    pub hedged: Option<bool>,
    /// Nobody could take it, and no more may wait.
    pub shed: bool,
    reservation: Option<Reservation>,
    /// The catalog that it was admitted by.
    generation: u64,
    /// When it was admitted, and what it cost, once that is settled.
    admitted: Option<u64>,
    settled: Option<Option<Usd>>,
    /// Among those that run, from then on until its row is written.
    run: Option<Run>,
    meter: Option<Arc<Meter>>,
    /// What is left of them.
    pub left: Left,
    /// The limit that did not let it in.
    pub limited: Option<(Level, Kind)>,
    /// What the tokens of who answered cost, if that is known.
    price: Option<Price>,
    /// What the head of a refusal says besides.
    pub notes: Notes,
    /// What it cost in tokens.
    pub usage: Usage,
    /// The request's body.
    pub bytes_in: u64,
    /// The answer's body.
    pub bytes_out: u64,
    /// The upstream's own id for the request.
    pub upstream_request_id: Option<String>,
    /// An upstream may charge for an answer that nobody got.
    pub maybe_billed: bool,
    /// Fields of the request that the upstream was not told, and what is wrong with its answer.
    pub dropped: Vec<Cow<'static, str>>,
    /// What is wrong with the answer, though it is whole.
    pub flaws: Flaws,
    error: Option<String>,
}

impl Record {
    /// An exchange begins.
    pub fn new(shared: Arc<Shared>) -> Record {
        shared.drain.begin();
        Record {
            shared,
            began: Instant::now(),
            began_at: SystemTime::now(),
            is_exchange: true,
            request_id: String::new(),
            caller: None,
            key: None,
            address: None,
            door: "none",
            method: String::new(),
            path: String::new(),
            model: None,
            account: None,
            upstream_model: None,
            stream: false,
            status: 0,
            outcome: None,
            attempts: Vec::new(),
            first_byte: None,
            own: Duration::ZERO,
            auth: None,
            plan: None,
            queued: Duration::ZERO,
            not_retried: None,
            hedged: None,
            shed: false,
            reservation: None,
            generation: 0,
            admitted: None,
            settled: None,
            run: None,
            meter: None,
            left: Left::default(),
            limited: None,
            price: None,
            notes: Notes::default(),
            usage: Usage::default(),
            bytes_in: 0,
            bytes_out: 0,
            upstream_request_id: None,
            maybe_billed: false,
            dropped: Vec::new(),
            flaws: Flaws::default(),
            error: None,
        }
    }

    /// How it ended. The first word counts: what follows from it does not change it.
    pub fn end(&mut self, outcome: Outcome) {
        if self.outcome.is_none() && outcome == Outcome::ClientLeft {
            self.status = What::CallerLeft.row().status;
        }
        self.outcome.get_or_insert(outcome);
    }

    /// It ended with a refusal.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.end(refusal.what.row().outcome);
        // The upstream's own sentences may quote the prompt, which no log may hold.
        let shown = if let What::CallersFault { .. } = refusal.what {
            "the upstream finds fault with the request"
        } else {
            &refusal.message
        };
        self.error.get_or_insert_with(|| shown.chars().take(200).collect());
    }

    /// How it ended; what nobody ended was a fault of ours.
    pub fn outcome(&self) -> Outcome {
        self.outcome.unwrap_or(Outcome::Internal)
    }

    /// The caller's limits let it in.
    pub fn admit(&mut self, reservation: Reservation, generation: u64) {
        self.generation = generation;
        self.left = reservation.left;
        self.admitted = Some(reservation.at);
        self.reservation = Some(reservation);
    }

    /// What it uses is written down from now on: `prompt_bytes` at least, once it is asked for.
    pub fn meter(&mut self, prompt_bytes: u64) -> Arc<Meter> {
        let name = |name: &Option<Arc<str>>| name.clone().unwrap_or_default();
        let meter = Arc::new(Meter::new(Who {
            at: self.admitted.unwrap_or_default(),
            request_id: self.request_id.clone(),
            caller: name(&self.caller),
            key: name(&self.key),
            model: name(&self.model),
            stream: self.stream,
            prompt_bytes,
            began: Some(self.began),
        }));
        let runs: Arc<dyn Runs> = meter.clone();
        self.run = self.shared.ledger.begin(Arc::downgrade(&runs));
        self.meter = Some(meter.clone());
        meter
    }

    /// What is used so far, and who is paid for it.
    pub fn count(&mut self, usage: Usage, price: Option<Price>) {
        // What is settled stays as it was told to the limits.
        if self.settled.is_none() {
            (self.usage, self.price) = (usage, price);
        }
    }

    /// Gives back to the limits what was not used. Done before the answer's end leaves, so that a
    /// caller who waits for it finds its place free.
    pub fn settle(&mut self) -> Option<Usd> {
        if let Some(settled) = self.settled {
            return settled;
        }
        let cost = match (&self.admitted, self.usage.source) {
            (None, _) => None,
            (Some(_), Source::None) => Some(Usd::ZERO),
            (Some(_), Source::Reported | Source::Estimated) => self.price.map(|price| price.cost(&self.usage)),
        };
        self.settled = Some(cost);
        if let Some(reservation) = self.reservation.take() {
            let spent = Spent { tokens: self.usage.total(), usd: cost.unwrap_or_default() };
            // Whom the catalog limits since, it does for what ends now, too.
            if self.shared.live.load().generation != self.generation
                && let (Some(caller), Some(key), Some(model)) = (&self.caller, &self.key, &self.model)
            {
                let (caller, key, model) = (caller.clone(), key.clone(), model.clone());
                let unpriced = u64::from(cost.is_none());
                let Spent { tokens, usd } = spent;
                let past = Past {
                    at: reservation.at,
                    dated: None,
                    caller,
                    key,
                    model,
                    requests: 1,
                    tokens,
                    usd,
                    unpriced,
                    cut: false,
                };
                self.shared.limits.late(&past, reservation.scopes());
            }
            reservation.settle(spent);
        }
        cost
    }

    /// Its row in the ledger. Last, since it takes from the record what is not needed any more.
    fn row(&mut self, cost: Option<Usd>, total: Duration) -> Option<Row> {
        let unused = Unused::of(&self.attempts);
        Some(Row {
            at: self.admitted?,
            unused_tokens: unused.tokens,
            unused_cost: unused.cost,
            caller: self.caller.take()?,
            key: self.key.take()?,
            model: self.model.take()?,
            account: self.account.take(),
            upstream_model: self.upstream_model.take(),
            usage: self.usage,
            cost,
            outcome: self.outcome().name(),
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            stream: self.stream,
            status: self.status,
            total_ms: millis(total),
            first_byte_ms: self.first_byte.map(millis),
            request_id: std::mem::take(&mut self.request_id),
            run: self.run,
        })
    }

    /// Whether it is known how it ended.
    pub fn ended(&self) -> bool {
        self.outcome.is_some()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.metrics.panicked();
        }
        if self.is_exchange {
            let total = self.began.elapsed();
            let cost = self.settle();
            self.shared.metrics.settle(self, cost, total.as_secs_f64());
            self.shared.access_log.write(&Line {
                time: rfc3339(self.began_at),
                request_id: &self.request_id,
                caller: self.caller.as_deref(),
                key: self.key.as_deref(),
                address: self.address.map(|a| a.to_string()),
                door: Some(self.door),
                method: &self.method,
                path: &self.path,
                model: self.model.as_deref(),
                account: self.account.as_deref(),
                upstream_model: self.upstream_model.as_deref(),
                stream: self.stream,
                status: self.status,
                outcome: self.outcome().name(),
                attempts: &self.attempts,
                first_byte_ms: self.first_byte.map(millis),
                total_ms: millis(total),
                own_us: micros(self.own),
                auth_us: self.auth.map(micros),
                plan_us: self.plan.map(micros),
                queued_ms: Some(self.queued).filter(|queued| !queued.is_zero()).map(millis),
                not_retried: self.not_retried,
                prompt_tokens: self.usage.prompt,
                completion_tokens: self.usage.completion,
                cached_tokens: self.usage.cached,
                usage: self.usage.source.name(),
                cost_usd: cost,
                limited_by: self.limited.map(|(level, kind)| format!("{} {}", level.name(), kind.name())),
                bytes_in: self.bytes_in,
                bytes_out: self.bytes_out,
                upstream_request_id: self.upstream_request_id.as_deref(),
                maybe_billed: self.maybe_billed,
                dropped: &self.dropped,
                broken_calls: self.flaws.broken_calls,
                not_json: self.flaws.not_json,
                error: self.error.as_deref(),
            });
            if let Some(row) = self.row(cost, total) {
                self.shared.ledger.write(row);
            }
        }
        self.shared.drain.end();
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
