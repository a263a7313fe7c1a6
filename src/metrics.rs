//! `/metrics`: counters and histograms of exchanges, gauges of accounts and of the catalog.
//!
//! **Invariant:** labels come from the catalog and from our own enums only, never from a request,
//! so their number is bounded; when a reload takes something out of the catalog, the series start
//! anew, so that they do not pile up either.

use crate::account::State;
use crate::account::health::Why;
use crate::account::track::Track;
use crate::exchange::record::Record;
use crate::ledger;
use crate::price::Usd;
use crate::shared::Shared;
use crate::store;
use dialects::usage::Source;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Instant, SystemTime};

/// A name from the catalog, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Name(pub Option<Arc<str>>);

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.0.as_deref().unwrap_or(""))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exchange {
    door: &'static str,
    model: Name,
    account: Name,
    caller: Name,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tokens {
    model: Name,
    account: Name,
    caller: Name,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cost {
    model: Name,
    account: Name,
    caller: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unpriced {
    model: Name,
    account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limited {
    caller: Name,
    level: &'static str,
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    account: Name,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Dropped {
    model: Name,
    account: Name,
    param: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Door {
    door: &'static str,
    model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Account {
    account: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Model {
    model: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Key {
    key: Name,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Hedge {
    model: Name,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unused {
    model: Name,
    account: Name,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerState {
    account: Name,
    model: Name,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountState {
    account: Name,
    state: &'static str,
}

/// No labels: what is not there for everybody is a family of at most one.
type Bare = [(&'static str, &'static str); 0];

/// All of them.
pub struct Metrics {
    registry: Registry,
    requests: Family<Exchange, Counter>,
    seconds: Family<Door, Histogram, fn() -> Histogram>,
    first_byte: Family<Door, Histogram, fn() -> Histogram>,
    own: Family<Door, Histogram, fn() -> Histogram>,
    tokens: Family<Tokens, Counter>,
    cost: Family<Cost, Counter<f64, AtomicU64>>,
    unpriced: Family<Unpriced, Counter>,
    limited: Family<Limited, Counter>,
    attempts: Family<Attempt, Counter>,
    estimated: Family<Door, Counter>,
    losses: Family<Dropped, Counter>,
    in_flight: Family<Account, Gauge>,
    states: Family<AccountState, Gauge>,
    breakers: Family<BreakerState, Gauge>,
    headroom: Family<Account, Gauge<f64, AtomicU64>>,
    hedges: Family<Hedge, Counter>,
    waiting: Family<Model, Gauge>,
    shed: Family<Model, Counter>,
    spared: Family<Model, Counter>,
    unused: Family<Unused, Counter>,
    old_hashes: Family<Key, Counter>,
    generation: Gauge,
    last_success: Gauge<f64, AtomicU64>,
    refusals: Counter,
    reload_failed: Gauge,
    shrunk: Counter,
    edit_waits: Gauge<f64, AtomicU64>,
    dropped: Gauge,
    refused_connections: Counter,
    panics: Counter,
    ledger_rows: Counter,
    ledger_dropped: Counter,
    ledger_up: Gauge,
    store_up: Family<Bare, Gauge>,
    store_errors: Family<Bare, Counter>,
    store_seconds: Family<Bare, Histogram, fn() -> Histogram>,
}

const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
const OWN: [f64; 10] = [0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn own() -> Histogram {
    Histogram::new(OWN)
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("portcullis"),
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            first_byte: Family::new_with_constructor(seconds),
            own: Family::new_with_constructor(own),
            tokens: Family::default(),
            cost: Family::default(),
            unpriced: Family::default(),
            limited: Family::default(),
            attempts: Family::default(),
            estimated: Family::default(),
            losses: Family::default(),
            in_flight: Family::default(),
            states: Family::default(),
            breakers: Family::default(),
            headroom: Family::default(),
            hedges: Family::default(),
            waiting: Family::default(),
            shed: Family::default(),
            spared: Family::default(),
            unused: Family::default(),
            old_hashes: Family::default(),
            generation: Gauge::default(),
            last_success: Gauge::default(),
            refusals: Counter::default(),
            reload_failed: Gauge::default(),
            shrunk: Counter::default(),
            edit_waits: Gauge::default(),
            dropped: Gauge::default(),
            refused_connections: Counter::default(),
            panics: Counter::default(),
            ledger_rows: Counter::default(),
            ledger_dropped: Counter::default(),
            ledger_up: Gauge::default(),
            store_up: Family::default(),
            store_errors: Family::default(),
            store_seconds: Family::new_with_constructor(own),
        };
        let r = &mut metrics.registry;
        // The client library adds `_total` to counters by itself.
        r.register("requests", "Exchanges by how they ended", metrics.requests.clone());
        r.register("request_seconds", "From the request's head to the answer's last byte", metrics.seconds.clone());
        r.register(
            "first_byte_seconds",
            "From the request's head to the answer's first byte",
            metrics.first_byte.clone(),
        );
        r.register("own_seconds", "Time that an exchange spent running in Portcullis itself", metrics.own.clone());
        r.register("tokens", "Tokens, as counted or estimated", metrics.tokens.clone());
        r.register("cost_usd", "What tokens cost, where their price is known", metrics.cost.clone());
        r.register("cost_unknown", "Answers whose price is not known", metrics.unpriced.clone());
        r.register("limited", "Requests that a limit of their caller's did not let in", metrics.limited.clone());
        r.register("attempts", "Tries at upstream accounts by how they ended", metrics.attempts.clone());
        r.register("usage_estimated", "Exchanges whose tokens had to be estimated", metrics.estimated.clone());
        r.register(
            "dropped_params",
            "Fields of requests that could not be expressed in the upstream's language",
            metrics.losses.clone(),
        );
        r.register("in_flight", "Requests in flight at an account", metrics.in_flight.clone());
        r.register("account_state", "1 for the state that an account is in", metrics.states.clone());
        r.register("breaker_state", "1 for the state that a target's breaker is in", metrics.breakers.clone());
        r.register(
            "headroom_ratio",
            "What is left of an account's tightest quota, as its provider told of late",
            metrics.headroom.clone(),
        );
        r.register(
            "hedges",
            "Second attempts beside a slow first one, by whether they were faster",
            metrics.hedges.clone(),
        );
        r.register("waiting", "Requests that wait for a place at a model", metrics.waiting.clone());
        r.register("shed", "Requests that found no place and a full queue", metrics.shed.clone());
        r.register(
            "retries_spared",
            "Requests that failed and were not tried again because of the retry budget",
            metrics.spared.clone(),
        );
        r.register(
            "unused_tokens",
            "Tokens that may be charged for attempts whose answer nobody got",
            metrics.unused.clone(),
        );
        r.register("old_hash_uses", "Requests with a secret that is being replaced", metrics.old_hashes.clone());
        r.register("catalog_generation", "How many catalogs were taken since the start", metrics.generation.clone());
        r.register(
            "catalog_last_success_seconds",
            "Unix time at which the present catalog was taken",
            metrics.last_success.clone(),
        );
        r.register("catalog_refusals", "Changes of the catalog that were refused", metrics.refusals.clone());
        r.register("reload_failed", "1 while the files hold a catalog that was refused", metrics.reload_failed.clone());
        r.register(
            "catalog_shrunk",
            "Changes taken although they removed more than half of the accounts, models or callers",
            metrics.shrunk.clone(),
        );
        r.register(
            "catalog_waiting_seconds",
            "How long the oldest change of the files waits to be live; 0 if none does",
            metrics.edit_waits.clone(),
        );
        r.register(
            "access_lines_dropped",
            "Access lines dropped because their sink stalled or refused them",
            metrics.dropped.clone(),
        );
        r.register(
            "connections_refused",
            "Connections closed at once because of limits.connections",
            metrics.refused_connections.clone(),
        );
        r.register("panics", "Exchanges that ended in a panic of ours", metrics.panics.clone());
        r.register("ledger_rows", "Rows written to the ledger", metrics.ledger_rows.clone());
        r.register(
            "ledger_dropped",
            "Rows dropped because the ledger could not be written for long",
            metrics.ledger_dropped.clone(),
        );
        r.register("store_up", "1 while the store that instances share decides over limits", metrics.store_up.clone());
        r.register(
            "store_errors",
            "Admissions that the store did not answer in time, and connections lost or not had",
            metrics.store_errors.clone(),
        );
        r.register(
            "store_seconds",
            "From asking the store for an admission to its answer",
            metrics.store_seconds.clone(),
        );
        r.register(
            "ledger_up",
            "1 while the ledger can be written; 0 also where it is switched off",
            metrics.ledger_up.clone(),
        );
        metrics
    }
}

impl Metrics {
    /// Counts a settled exchange.
    pub fn settle(&self, record: &Record, cost: Option<Usd>, total_seconds: f64) {
        let (model, account, caller) =
            (Name(record.model.clone()), Name(record.account.clone()), Name(record.caller.clone()));
        let door = Door { door: record.door, model: model.clone() };
        self.seconds.get_or_create(&door).observe(total_seconds);
        self.own.get_or_create(&door).observe(record.own.as_secs_f64());
        if let Some(first_byte) = record.first_byte {
            self.first_byte.get_or_create(&door).observe(first_byte.as_secs_f64());
        }
        let usage = &record.usage;
        for (kind, count) in [
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("cached", usage.cached),
            ("cache_write", usage.cache_write),
            ("reasoning", usage.reasoning),
        ] {
            if count > 0 {
                let labels = Tokens { model: model.clone(), account: account.clone(), caller: caller.clone(), kind };
                self.tokens.get_or_create(&labels).inc_by(count);
            }
        }
        match cost {
            Some(Usd(0)) => {}
            Some(cost) => {
                let labels = Cost { model: model.clone(), account: account.clone(), caller: caller.clone() };
                self.cost.get_or_create(&labels).inc_by(cost.dollars());
            }
            None if record.usage.source != Source::None => {
                self.unpriced.get_or_create(&Unpriced { model: model.clone(), account: account.clone() }).inc();
            }
            None => {}
        }
        if let Some((level, kind)) = record.limited {
            self.limited
                .get_or_create(&Limited { caller: caller.clone(), level: level.name(), limit: kind.name() })
                .inc();
        }
        if record.usage.source == Source::Estimated {
            self.estimated.get_or_create(&door).inc();
        }
        for name in &record.dropped {
            // A field that only the caller knows is no label.
            let param = if let Cow::Borrowed(known) = name { known } else { "other" };
            self.losses.get_or_create(&Dropped { model: model.clone(), account: account.clone(), param }).inc();
        }
        for tried in &record.attempts {
            let account = Name(Some(tried.account.clone()));
            self.attempts.get_or_create(&Attempt { account: account.clone(), outcome: tried.outcome }).inc();
            for (kind, count) in [("prompt", tried.prompt_tokens), ("completion", tried.completion_tokens)] {
                if let Some(count) = count.filter(|count| *count > 0) {
                    self.unused
                        .get_or_create(&Unused { model: model.clone(), account: account.clone(), kind })
                        .inc_by(count);
                }
            }
        }
        if let Some(won) = record.hedged {
            self.hedges.get_or_create(&Hedge { model: model.clone(), outcome: if won { "won" } else { "lost" } }).inc();
        }
        if record.shed {
            self.shed.get_or_create(&Model { model: model.clone() }).inc();
        }
        if record.not_retried == Some("budget") {
            self.spared.get_or_create(&Model { model: model.clone() }).inc();
        }
        let labels = Exchange { door: record.door, model, account, caller, outcome: record.outcome().name() };
        self.requests.get_or_create(&labels).inc();
    }

    /// What the store measures, which only who has one tells.
    pub fn store(&self) -> store::Meters {
        store::Meters {
            errors: self.store_errors.get_or_create(&[]).clone(),
            seconds: self.store_seconds.get_or_create(&[]).clone(),
        }
    }

    /// A connection was closed because there are too many.
    pub fn refused_connection(&self) {
        self.refused_connections.inc();
    }

    /// An exchange ended in a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// A catalog was taken.
    pub fn reloaded(&self, generation: u64, something_left: bool) {
        if something_left {
            self.requests.clear();
            self.seconds.clear();
            self.first_byte.clear();
            self.own.clear();
            self.tokens.clear();
            self.cost.clear();
            self.unpriced.clear();
            self.limited.clear();
            self.attempts.clear();
            self.estimated.clear();
            self.losses.clear();
            self.hedges.clear();
            self.shed.clear();
            self.spared.clear();
            self.unused.clear();
        }
        self.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.last_success
            .set(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64());
    }

    /// A change was refused.
    pub fn reload_refused(&self) {
        self.refusals.inc();
        self.reload_failed.set(1);
    }

    /// All that the files hold is live.
    pub fn reload_recovered(&self) {
        self.reload_failed.set(0);
    }

    /// A change that took away more than half of something was taken.
    pub fn shrank(&self) {
        self.shrunk.inc();
    }

    /// The text of `/metrics`.
    pub fn render(&self, shared: &Shared) -> String {
        self.in_flight.clear();
        self.states.clear();
        self.breakers.clear();
        self.headroom.clear();
        self.waiting.clear();
        self.old_hashes.clear();
        let (now, clock) = (Instant::now(), SystemTime::now());
        let snapshot = shared.live.load();
        for ((account, state), tracks) in snapshot.catalog.accounts().iter().zip(&snapshot.states).zip(&snapshot.tracks)
        {
            let name = Name(Some(account.id.clone()));
            let in_flight = i64::try_from(state.in_flight()).unwrap_or(i64::MAX);
            self.in_flight.get_or_create(&Account { account: name.clone() }).set(in_flight);
            let present = account_state(account.enabled, state, tracks, now);
            for word in ["ok", "disabled", "cooling_rate", "cooling_credential"] {
                let labels = AccountState { account: name.clone(), state: word };
                self.states.get_or_create(&labels).set(i64::from(word == present));
            }
            let mut least: Option<f64> = None;
            for (model, track) in tracks {
                let told = track.told(now, clock);
                for word in ["closed", "open", "half_open"] {
                    let labels = BreakerState { account: name.clone(), model: Name(Some(model.clone())), state: word };
                    self.breakers.get_or_create(&labels).set(i64::from(word == told.breaker.name()));
                }
                least = [least, told.headroom].into_iter().flatten().min_by(f64::total_cmp);
            }
            if let Some(least) = least {
                self.headroom.get_or_create(&Account { account: name }).set(least);
            }
        }
        for (model, route) in snapshot.catalog.models().iter().zip(&snapshot.routes) {
            let waiting = i64::try_from(route.demand.waiting()).unwrap_or(i64::MAX);
            self.waiting.get_or_create(&Model { model: Name(Some(model.id.clone())) }).set(waiting);
        }
        for key in snapshot.catalog.rotating() {
            let uses = snapshot.scopes.get(key.index).map(|scopes| scopes.used.old_hash_uses()).unwrap_or_default();
            self.old_hashes.get_or_create(&Key { key: Name(Some(key.id.clone())) }).inc_by(uses);
        }
        let waits = shared.reloads.waiting().map(|waiting| now.saturating_duration_since(waiting.since));
        self.edit_waits.set(waits.unwrap_or_default().as_secs_f64());
        self.dropped.set(i64::try_from(shared.access_log.dropped()).unwrap_or(i64::MAX));
        if let Some(store) = &shared.store {
            self.store_up.get_or_create(&[]).set(i64::from(store.state() == store::State::Up));
        }
        let ledger = shared.ledger.told();
        for (counter, count) in [(&self.ledger_rows, ledger.rows), (&self.ledger_dropped, ledger.dropped)] {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        self.ledger_up.set(i64::from(ledger.state == ledger::State::Ok));
        let mut text = String::new();
        if let Err(why) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            log::error!("/metrics cannot be written: {why}");
        }
        text
    }
}

/// The word for an account's state, in metrics and `/status`: at rest for its rate is one of whose
/// targets any is.
pub fn account_state(enabled: bool, state: &State, tracks: &[(Arc<str>, Arc<Track>)], now: Instant) -> &'static str {
    if !enabled {
        return "disabled";
    }
    if state.health.rest(now).is_some() {
        return "cooling_credential";
    }
    let for_rate = |(_, track): &(Arc<str>, Arc<Track>)| track.rest(now).is_some_and(|rest| rest.why == Why::Rate);
    if tracks.iter().any(for_rate) { "cooling_rate" } else { "ok" }
}
