//! A metric is a number that `/metrics` shows: counters and histograms of exchanges, gauges of
//! accounts and of the catalog.
//!
//! **Invariant:** labels come only from the catalog and from our own enums, never from a request,
//! so their number is bounded. When a reload takes something out of the catalog, the series start
//! again from zero, so that old series do not pile up.

pub(crate) mod labels;

use crate::conf::price::Usd;
use crate::limits::{Kind, Level};
use crate::settled::Settled;
use crate::store;
use dialects::usage::Source;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::borrow::Cow;
use std::hash::Hash;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use labels::{
    AttemptLabels, DoorLabels, ExchangeLabels, Name, NameLabels, SidesLabels, TokensLabels, UnpricedLabels, WordLabels,
};

/// All metrics, in the order in which `/metrics` shows them.
pub struct Metrics {
    registry: Registry,
    exchanges: ExchangeMetrics,
    pub(crate) accounts: AccountMetrics,
    pub(crate) models: ModelMetrics,
    pub(crate) catalog: CatalogMetrics,
    pub(crate) process: ProcessMetrics,
    pub(crate) stores: StoreMetrics,
}

/// The metrics that every exchange adds to.
struct ExchangeMetrics {
    requests: Family<ExchangeLabels, Counter>,
    seconds: Histograms<DoorLabels>,
    first_byte: Histograms<DoorLabels>,
    own: Histograms<DoorLabels>,
    tokens: Family<TokensLabels, Counter>,
    cost: Family<SidesLabels, Counter<f64, AtomicU64>>,
    unpriced: Family<UnpricedLabels, Counter>,
    limited: Family<(NameLabels<1>, WordLabels<2>), Counter>,
    attempts: Family<AttemptLabels, Counter>,
    estimated: Family<DoorLabels, Counter>,
    losses: Family<(NameLabels<2>, WordLabels<1>), Counter>,
    /// The series of exchanges that have the same names and outcome. `/metrics` does not show it.
    bound: Family<ExchangeLabels, BoundSeries>,
}

/// The series that an exchange adds to. They are looked up once, and not by each exchange.
#[derive(Default)]
struct BoundSeries {
    requests: OnceLock<Counter>,
    seconds: OnceLock<Histogram>,
    first_byte: OnceLock<Histogram>,
    own: OnceLock<Histogram>,
    /// One for each kind of tokens.
    tokens: [OnceLock<Counter>; 5],
    cost: OnceLock<Counter<f64, AtomicU64>>,
    unpriced: OnceLock<Counter>,
    /// The refusals by the limit that was the first to refuse.
    limited: OnceLock<((Level, Kind), Counter)>,
    /// The attempts of the account that answered.
    answered: OnceLock<Counter>,
}

/// The state of the accounts when `/metrics` is read.
pub(crate) struct AccountMetrics {
    pub(crate) in_flight: Family<NameLabels<1>, Gauge>,
    pub(crate) states: Family<(NameLabels<1>, WordLabels<1>), Gauge>,
    pub(crate) breakers: Family<(NameLabels<2>, WordLabels<2>), Gauge>,
    pub(crate) headroom: Family<NameLabels<1>, Gauge<f64, AtomicU64>>,
}

/// The metrics of a model: hedges, its queue, retries that were not made, and tokens that nobody
/// got.
pub(crate) struct ModelMetrics {
    hedges: Family<(NameLabels<1>, WordLabels<1>), Counter>,
    pub(crate) waiting: Family<NameLabels<1>, Gauge>,
    shed: Family<NameLabels<1>, Counter>,
    spared: Family<NameLabels<1>, Counter>,
    unused: Family<(NameLabels<2>, WordLabels<1>), Counter>,
}

/// The metrics of changes of the catalog.
pub(crate) struct CatalogMetrics {
    pub(crate) old_hashes: Family<NameLabels<1>, Counter>,
    generation: Gauge,
    last_success: Gauge<f64, AtomicU64>,
    refusals: Counter,
    /// 1 while the files hold a catalog that was refused.
    pub(crate) reload_failed: Gauge,
    /// Changes that were taken although they removed more than half of something.
    pub(crate) shrunk: Counter,
    pub(crate) edit_waits: Gauge<f64, AtomicU64>,
}

/// The metrics of what went wrong in the process.
pub(crate) struct ProcessMetrics {
    pub(crate) lines_dropped: Gauge,
    pub(crate) refused_connections: Counter,
    pub(crate) panics: Counter,
}

/// The metrics of the ledger and of the store that instances share.
pub(crate) struct StoreMetrics {
    pub(crate) ledger_rows: Counter,
    pub(crate) ledger_dropped: Counter,
    pub(crate) up: Family<WordLabels<0>, Gauge>,
    errors: Family<WordLabels<0>, Counter>,
    seconds: Histograms<WordLabels<0>>,
    pub(crate) ledger_up: Gauge,
}

/// A family of histograms, by their labels.
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Makes a histogram of the time that callers wait.
const SECONDS: fn() -> Histogram =
    || Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0]);
/// Makes a histogram of the time that the gateway itself is at work.
const OWN: fn() -> Histogram =
    || Histogram::new([0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25]);

/// Adds a metric. The client library adds `_total` to counters by itself.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Adds histograms.
fn times<L>(registry: &mut Registry, name: &str, help: &str, new: fn() -> Histogram) -> Histograms<L>
where
    Histograms<L>: Metric,
    L: Clone + Eq + Hash,
{
    let metric = Family::new_with_constructor(new);
    registry.register(name, help, metric.clone());
    metric
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("portcullis");
        let r = &mut registry;
        let exchanges = ExchangeMetrics {
            requests: add(r, "requests", "Exchanges by how they ended"),
            seconds: times(r, "request_seconds", "From the request's head to the answer's last byte", SECONDS),
            first_byte: times(r, "first_byte_seconds", "From the request's head to the answer's first byte", SECONDS),
            own: times(r, "own_seconds", "Time that an exchange spent running in Portcullis itself", OWN),
            tokens: add(r, "tokens", "Tokens, as counted or estimated"),
            cost: add(r, "cost_usd", "US dollars that tokens cost, where their price is known"),
            unpriced: add(r, "cost_unknown", "Answers whose price is not known"),
            limited: add(r, "limited", "Requests refused by a limit of their caller, key or key's model"),
            attempts: add(r, "attempts", "Attempts at upstream accounts by how they ended"),
            estimated: add(r, "usage_estimated", "Exchanges whose tokens had to be estimated"),
            losses: add(r, "dropped_params", "Fields of requests that the upstream's format cannot express"),
            bound: Family::default(),
        };
        let accounts = AccountMetrics {
            in_flight: add(r, "in_flight", "Requests in flight at an account"),
            states: add(r, "account_state", "1 for the state that an account is in"),
            breakers: add(r, "breaker_state", "1 for the state that a target's breaker is in"),
            headroom: add(
                r,
                "headroom_ratio",
                "Share that is left of an account's tightest quota, as its provider last reported",
            ),
        };
        let models = ModelMetrics {
            hedges: add(r, "hedges", "Second attempts beside a slow first one, by whether they were faster"),
            waiting: add(r, "waiting", "Requests that wait in the queue of a model"),
            shed: add(r, "shed", "Requests refused because all accounts were busy and the queue was full"),
            spared: add(
                r,
                "retries_spared",
                "Requests that failed and were not tried again because of the retry budget",
            ),
            unused: add(
                r,
                "unused_tokens",
                "Tokens that a provider may charge for attempts whose answer no caller got",
            ),
        };
        let catalog = CatalogMetrics {
            old_hashes: add(r, "old_hash_uses", "Requests with a secret that is being replaced"),
            generation: add(r, "catalog_generation", "Number of catalogs that were taken since the start"),
            last_success: add(r, "catalog_last_success_seconds", "Unix time at which the present catalog was taken"),
            refusals: add(r, "catalog_refusals", "Changes of the catalog that were refused"),
            reload_failed: add(r, "reload_failed", "1 while the files hold a catalog that was refused"),
            shrunk: add(
                r,
                "catalog_shrunk",
                "Changes taken although they removed more than half of the accounts, models or callers",
            ),
            edit_waits: add(
                r,
                "catalog_waiting_seconds",
                "Seconds that the oldest change of the files waits to be live; 0 if no change waits",
            ),
        };
        let process = ProcessMetrics {
            lines_dropped: add(
                r,
                "access_lines_dropped",
                "Access lines dropped because they could not be written, or not fast enough",
            ),
            refused_connections: add(
                r,
                "connections_refused",
                "Connections closed at once because of limits.connections",
            ),
            panics: add(r, "panics", "Exchanges that ended in a panic, which is a bug of Portcullis"),
        };
        let stores = StoreMetrics {
            ledger_rows: add(r, "ledger_rows", "Rows written to the ledger"),
            ledger_dropped: add(r, "ledger_dropped", "Rows dropped because the ledger could not be written for long"),
            up: add(r, "store_up", "1 while the store that gateways share decides over limits"),
            errors: add(
                r,
                "store_errors",
                "Admissions that the store did not answer in time, and its connections that failed",
            ),
            seconds: times(r, "store_seconds", "Time that the store takes to answer an admission", OWN),
            ledger_up: add(r, "ledger_up", "1 while the ledger can be written; 0 if not, or if it is switched off"),
        };
        Metrics { registry, exchanges, accounts, models, catalog, process, stores }
    }
}

impl ExchangeMetrics {
    fn clear(&self) {
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
        // This is last: what is bound from now on is bound to new series.
        self.bound.clear();
    }
}

impl Metrics {
    /// Counts a settled exchange.
    pub fn settle(&self, settled: &Settled) {
        let Settled { sender, request, served, attempts, times, spending, outcome, total, .. } = settled;
        let Metrics { exchanges, models, .. } = self;
        let (model, account) = (request.pattern.as_ref().or(request.model.as_ref()).cloned(), &served.account);
        let sides = SidesLabels { model: model.clone(), account: account.clone(), caller: sender.caller.clone() };
        let labels = ExchangeLabels { door: request.door, sides, outcome: outcome.name() };
        let bound = exchanges.bound.get_or_create(&labels);
        let sides = || labels.sides.clone();
        let door = || DoorLabels { door: request.door, model: model.clone() };
        let of_door = |family: &Histograms<DoorLabels>| family.get_or_create_owned(&door());
        bound.requests.get_or_init(|| exchanges.requests.get_or_create_owned(&labels)).inc();
        bound.seconds.get_or_init(|| of_door(&exchanges.seconds)).observe(total.as_secs_f64());
        bound.own.get_or_init(|| of_door(&exchanges.own)).observe(times.own.as_secs_f64());
        if let Some(first_byte) = times.first_byte {
            bound.first_byte.get_or_init(|| of_door(&exchanges.first_byte)).observe(first_byte.as_secs_f64());
        }
        let target = |account| [("model", model.clone()), ("account", account)];
        let usage = &spending.usage;
        let kinds = [
            ("prompt", usage.prompt),
            ("completion", usage.completion),
            ("cached", usage.cached),
            ("cache_write", usage.cache_write),
            ("reasoning", usage.reasoning),
        ];
        for ((kind, count), bound) in kinds.into_iter().zip(&bound.tokens) {
            if count > 0 {
                let labels = || TokensLabels { sides: sides(), kind };
                bound.get_or_init(|| exchanges.tokens.get_or_create_owned(&labels())).inc_by(count);
            }
        }
        match spending.cost {
            Some(Usd(0)) => {}
            Some(cost) => {
                bound.cost.get_or_init(|| exchanges.cost.get_or_create_owned(&sides())).inc_by(cost.dollars());
            }
            None if usage.source != Source::None => {
                let labels = || UnpricedLabels { model: model.clone(), account: account.clone() };
                bound.unpriced.get_or_init(|| exchanges.unpriced.get_or_create_owned(&labels())).inc();
            }
            None => {}
        }
        if let Some((level, kind)) = spending.limited {
            let words = [("level", level.name()), ("limit", kind.name())];
            let refusals = || exchanges.limited.get_or_create_owned(&([("caller", sender.caller.clone())], words));
            match bound.limited.get_or_init(|| ((level, kind), refusals())) {
                (limit, refusals) if *limit == (level, kind) => refusals.inc(),
                _ => refusals().inc(),
            };
        }
        if usage.source == Source::Estimated {
            exchanges.estimated.get_or_create(&door()).inc();
        }
        for name in served.losses.names() {
            // A field that only the caller knows is not used as a label.
            let param = if let Cow::Borrowed(known) = name { known } else { "other" };
            exchanges.losses.get_or_create(&(target(account.clone()), [("param", param)])).inc();
        }
        for tried in &attempts.trail {
            let tries = |account: &Name| {
                exchanges
                    .attempts
                    .get_or_create_owned(&AttemptLabels { account: account.clone(), outcome: tried.outcome })
            };
            let count = u64::from(tried.times);
            if tried.outcome == "ok" && account.as_ref() == Some(&tried.account) {
                bound.answered.get_or_init(|| tries(account)).inc_by(count);
            } else {
                tries(&Some(tried.account.clone())).inc_by(count);
            }
            for (kind, count) in [("prompt", tried.prompt_tokens), ("completion", tried.completion_tokens)] {
                if let Some(count) = count.filter(|count| *count > 0) {
                    let labels = (target(Some(tried.account.clone())), [("kind", kind)]);
                    models.unused.get_or_create(&labels).inc_by(count);
                }
            }
        }
        if let Some(won) = attempts.hedge_won {
            let outcome = if won { "won" } else { "lost" };
            models.hedges.get_or_create(&([("model", model.clone())], [("outcome", outcome)])).inc();
        }
        if attempts.shed {
            models.shed.get_or_create(&[("model", model.clone())]).inc();
        }
        if attempts.not_retried == Some("budget") {
            models.spared.get_or_create(&[("model", model.clone())]).inc();
        }
    }

    /// Returns the metrics that the store adds to. Without a store, `/metrics` does not show them.
    pub fn store(&self) -> store::Meters {
        store::Meters {
            errors: self.stores.errors.get_or_create(&[]).clone(),
            seconds: self.stores.seconds.get_or_create(&[]).clone(),
        }
    }

    /// Notes that a catalog was taken. `something_left` says that an entry was removed: then the
    /// series start again from zero.
    pub fn reloaded(&self, generation: u64, something_left: bool) {
        if something_left {
            self.exchanges.clear();
            self.models.hedges.clear();
            self.models.shed.clear();
            self.models.spared.clear();
            self.models.unused.clear();
        }
        self.catalog.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.catalog.last_success.set(now.as_secs_f64());
    }

    /// Counts a change of the catalog that was refused.
    pub fn reload_refused(&self) {
        self.catalog.refusals.inc();
        self.catalog.reload_failed.set(1);
    }

    /// Returns the text of `/metrics`, with the gauges as they were set last.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if let Err(why) = prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            log::error!("/metrics cannot be written: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
