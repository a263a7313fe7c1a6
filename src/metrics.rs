//! A metric is a number that `/metrics` shows: counters and histograms of exchanges, gauges of
//! accounts and of the catalog.
//!
//! **Invariant:** labels come only from the catalog and from our own enums, never from a request,
//! and `Sets` bounds the sets of a model, an account and a caller. A counter does not fall while
//! the process runs. When a reload takes a name out of the catalog, its series stay for a while and
//! end then, so that old series do not pile up: see the module `gone`.

mod gone;
mod labelled;
pub(crate) mod labels;
mod process;
mod registered;
mod sets;

use crate::account::given_up::GIVEN_UP;
use crate::base::calendar::unix_time;
use crate::base::hash::Quick;
use crate::base::lock::Lock;
use crate::conf::config::SeriesBounds;
use crate::conf::price::Usd;
use crate::limits::{Kind, Level};
use crate::settled::Settled;
use crate::store;
use crate::tls::Certificate;
use dialects::usage::Source;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use gone::Gone;
pub(crate) use gone::LabelledName;
use labelled::{EndsSeries, Labelled};
use labels::{
    AttemptLabels, DoorLabels, ExchangeLabels, Name, PartyLabels, TargetLabels, TokensLabels,
    WordLabels,
};
use process::{Certificates, ThisProcess};
pub use registered::SpanMetrics;
use registered::{
    AccountMetrics, CallerMetrics, CatalogMetrics, ExchangeMetrics, ModelMetrics, ProcessMetrics,
    StoreMetrics, add_metric,
};
use sets::{OTHER, Sets};

/// All metrics, in the order in which `/metrics` shows them.
pub struct Metrics {
    registry: Registry,
    exchanges: ExchangeMetrics,
    /// The series of exchanges that have the same names and outcome. `/metrics` does not show it.
    bound: Labelled<ExchangeLabels, BoundSeries>,
    pub(crate) accounts: AccountMetrics,
    pub(crate) models: ModelMetrics,
    pub(crate) catalog: CatalogMetrics,
    pub(crate) process: ProcessMetrics,
    pub(crate) stores: StoreMetrics,
    pub(crate) callers: CallerMetrics,
    spans: SpanMetrics,
    sets: Sets,
    ended_series: Lock<Gone>,
}

/// The series that an exchange adds to. They are looked up once, and not by each exchange.
#[derive(Default)]
struct BoundSeries {
    requests: OnceLock<Counter>,
    seconds: OnceLock<Histogram>,
    first_byte: OnceLock<Histogram>,
    own_seconds: OnceLock<Histogram>,
    /// One for each kind of tokens.
    tokens: [OnceLock<Counter>; 5],
    cost: OnceLock<Counter<f64, AtomicU64>>,
    unpriced: OnceLock<Counter>,
    /// The refusals by the limit that was the first to refuse.
    limited: OnceLock<((Level, Kind), Counter)>,
    /// The attempts of the account that answered.
    answered: OnceLock<Counter>,
    /// The times to the first token of that account.
    first_token: OnceLock<Histogram>,
}

impl SpanMetrics {
    /// Counts spans that were taken.
    pub fn exported(&self, spans: usize) {
        self.exported.get_or_create(&[]).inc_by(spans as u64);
    }

    /// Counts spans that were lost.
    pub fn dropped(&self, reason: &'static str, spans: usize) {
        if spans > 0 {
            self.dropped
                .get_or_create(&[("reason", reason)])
                .inc_by(spans as u64);
        }
    }
}

impl CatalogMetrics {
    /// Notes that a catalog was taken.
    pub(crate) fn note_taken(&self, generation: u64) {
        self.generation
            .set(i64::try_from(generation).unwrap_or(i64::MAX));
        let now = unix_time(SystemTime::now());
        self.last_success.set(now.as_secs_f64());
    }

    /// Counts a token of an issuer that was not taken. `identity` is the issuer's, if it is known.
    pub(crate) fn note_token_refused(&self, identity: Option<&Arc<str>>, reason: &'static str) {
        let labels = ([("identity", identity.cloned())], [("reason", reason)]);
        self.tokens_refused.get_or_create(&labels).inc();
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new(SeriesBounds::default())
    }
}

impl Metrics {
    /// Makes the metrics of a process. `bounds` limits the series of exchanges.
    pub fn new(bounds: SeriesBounds) -> Metrics {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ThisProcess::new()));
        let ours = registry.sub_registry_with_prefix("portcullis");
        let exchanges = ExchangeMetrics::register(ours);
        let accounts = AccountMetrics::register(ours);
        let models = ModelMetrics::register(ours);
        let callers = CallerMetrics::register(ours);
        let catalog = CatalogMetrics::register(ours);
        let process = ProcessMetrics::register(ours);
        let stores = StoreMetrics::register(ours);
        let spans = SpanMetrics::register(ours);
        let sets = Sets::new(bounds);
        ours.register(
            "label_sets",
            "Sets of a model, an account and a caller that have series; at metrics.series, further ones count as other",
            sets.number.clone(),
        );
        let build: Labelled<WordLabels<1>, Gauge> = add_metric(
            ours,
            "build_info",
            "1, with the version of Portcullis as its label",
        );
        build
            .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        Metrics {
            registry,
            exchanges,
            bound: Labelled::default(),
            accounts,
            models,
            catalog,
            process,
            stores,
            callers,
            spans,
            sets,
            ended_series: Lock::default(),
        }
    }

    /// Counts a settled exchange.
    pub fn settle(&self, settled: &Settled) {
        let Settled {
            sender,
            request,
            served,
            outcome,
            ..
        } = settled;
        let model = request.pattern.as_ref().or(request.model.as_ref()).cloned();
        let parties = PartyLabels {
            model,
            account: served.account.clone(),
            caller: sender.caller.clone().filter(|_| settled.is_let_in()),
        };
        let mut labels = ExchangeLabels {
            door: request.door,
            parties,
            outcome: outcome.name(),
        };
        let bound = &self.bound;
        let is_shown_whole = self.sets.has_all_labels();
        if is_shown_whole
            && bound
                .with_known(&labels, |bound| self.count(settled, &labels, bound))
                .is_some()
        {
            return;
        }
        let counted = self.sets.admit(&labels.parties);
        // What is bound has series of the target, too, so it is shared only by exchanges of one.
        let has_its_target =
            counted.model == labels.parties.model && counted.account == labels.parties.account;
        labels.parties = counted;
        if has_its_target {
            bound.with_series(&labels, |bound| self.count(settled, &labels, bound));
        } else {
            self.count(settled, &labels, &BoundSeries::default());
        }
    }

    /// Counts a settled exchange with these labels. `bound` has their series.
    fn count(&self, settled: &Settled, labels: &ExchangeLabels, bound: &BoundSeries) {
        let Settled {
            request,
            served,
            attempts,
            times,
            spending,
            total,
            ..
        } = settled;
        let Metrics {
            exchanges, models, ..
        } = self;
        // Only the labels of a set are bounded. Targets and models are as many as the catalog has.
        let model = request.pattern.as_ref().or(request.model.as_ref());
        let (model, account) = (&model.cloned(), &served.account);
        let parties = || labels.parties.clone();
        let door = || DoorLabels::new(request.door, model);
        let of_door = |family: &Labelled<DoorLabels, Histogram>| family.get_or_create(&door());
        bound
            .requests
            .get_or_init(|| exchanges.requests.get_or_create(labels))
            .inc();
        bound
            .seconds
            .get_or_init(|| of_door(&exchanges.request_seconds))
            .observe(total.as_secs_f64());
        bound
            .own_seconds
            .get_or_init(|| of_door(&exchanges.own_seconds))
            .observe(times.own_time.as_secs_f64());
        if let Some(first_byte) = times.first_byte {
            bound
                .first_byte
                .get_or_init(|| of_door(&exchanges.first_byte))
                .observe(first_byte.as_secs_f64());
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
                bound
                    .get_or_init(|| {
                        let parties = parties();
                        exchanges
                            .tokens
                            .get_or_create(&TokensLabels { parties, kind })
                    })
                    .inc_by(count);
            }
        }
        match spending.cost {
            Some(Usd(0)) => {}
            Some(cost) => {
                bound
                    .cost
                    .get_or_init(|| exchanges.cost.get_or_create(&parties()))
                    .inc_by(cost.dollars());
            }
            None if usage.source != Source::None => {
                bound
                    .unpriced
                    .get_or_init(|| {
                        let labels = TargetLabels::new(model, account);
                        exchanges.unpriced.get_or_create(&labels)
                    })
                    .inc();
            }
            None => {}
        }
        if let Some((level, kind)) = spending.limited {
            let words = [("level", level.name()), ("limit", kind.name())];
            let limit_labels = ([("caller", labels.parties.caller.clone())], words);
            let refusals = || exchanges.limited.get_or_create(&limit_labels);
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
            let param = if let Cow::Borrowed(known) = name {
                known
            } else {
                "other"
            };
            exchanges
                .losses
                .get_or_create(&(target(account.clone()), [("param", param)]))
                .inc();
        }
        for tried in &attempts.trail {
            let is_of_answer = account.as_ref() == Some(&tried.account);
            let tried_account = || Some(tried.account.clone());
            let target_labels = |account: &Name| TargetLabels::new(model, account);
            let attempt_labels = |account: &Name| AttemptLabels::new(model, account, tried.outcome);
            // An answer that is not a stream has no first token: it comes as a whole.
            if let Some(first) = tried.first_ms.filter(|_| request.stream) {
                let (seconds, times) = (
                    Duration::from_millis(first).as_secs_f64(),
                    &exchanges.first_token,
                );
                if is_of_answer {
                    bound
                        .first_token
                        .get_or_init(|| times.get_or_create(&target_labels(account)))
                        .observe(seconds);
                } else {
                    times
                        .get_or_create(&target_labels(&tried_account()))
                        .observe(seconds);
                }
            }
            let (count, attempts) = (u64::from(tried.count), &exchanges.attempts);
            let all_given_up = &exchanges.given_up;
            let given_up = || all_given_up.get_or_create(&target_labels(&tried_account()));
            if tried.outcome == "ok" && is_of_answer {
                let answered = bound.answered.get_or_init(|| {
                    // The series begins at zero, so that a scrape sees the first rise.
                    given_up();
                    attempts.get_or_create(&attempt_labels(account))
                });
                answered.inc_by(count);
            } else {
                attempts
                    .get_or_create(&attempt_labels(&tried_account()))
                    .inc_by(count);
            }
            if tried.resent > 0 {
                let labels = [("account", Some(tried.account.clone()))];
                exchanges
                    .resent
                    .get_or_create(&labels)
                    .inc_by(tried.resent.into());
            }
            if tried.outcome == GIVEN_UP {
                given_up().inc_by(count);
            }
            for (kind, count) in [
                ("prompt", tried.prompt_tokens),
                ("completion", tried.completion_tokens),
            ] {
                if let Some(count) = count.filter(|count| *count > 0) {
                    let labels = (target(Some(tried.account.clone())), [("kind", kind)]);
                    models.unused.get_or_create(&labels).inc_by(count);
                }
            }
        }
        if let Some(won) = attempts.hedge_won {
            let outcome = if won { "won" } else { "lost" };
            models
                .hedges
                .get_or_create(&([("model", model.clone())], [("outcome", outcome)]))
                .inc();
        }
        if !times.queued.is_zero() {
            models
                .queue
                .get_or_create(&[("model", model.clone())])
                .observe(times.queued.as_secs_f64());
        }
        if attempts.shed {
            models.shed.get_or_create(&[("model", model.clone())]).inc();
        }
        if attempts.not_retried == Some("budget") {
            models
                .retries_spared
                .get_or_create(&[("model", model.clone())])
                .inc();
        }
    }

    /// Shows when the listeners' certificates end. Each comes with its listener's address.
    pub fn show_certificates(&mut self, certificates: Vec<(String, Arc<Certificate>)>) {
        if !certificates.is_empty() {
            self.registry
                .sub_registry_with_prefix("portcullis")
                .register_collector(Box::new(Certificates(certificates)));
        }
    }

    /// Returns whether metrics name callers.
    pub(crate) fn has_callers(&self) -> bool {
        self.sets.has_caller()
    }

    /// Returns the metrics that the store adds to. Without a store, `/metrics` does not show them.
    pub fn store(&self) -> store::Meters {
        store::Meters {
            errors: self.stores.errors.get_or_create(&[]).clone(),
            seconds: self.stores.seconds.get_or_create(&[]).clone(),
        }
    }

    /// Returns the metrics of spans.
    pub fn spans(&self) -> SpanMetrics {
        self.spans.exported(0);
        self.spans.clone()
    }

    /// Takes over the names of a new catalog. `left` has the names that it lacks and the one before
    /// had. `is_live` says what it has, and `live` is the number of its names.
    pub(crate) fn note_reload(
        &self,
        left: Vec<LabelledName>,
        live: usize,
        is_live: &dyn Fn(&str, &str) -> bool,
        now: Instant,
    ) {
        let mut gone = self.ended_series.lock();
        if gone.note_change(left, live, is_live, now) {
            // An exchange may outlive its names, and make a series of a name that is neither.
            let stay: HashSet<(&str, &str), Quick> = gone.names().collect();
            self.end_series(&|label, name| {
                name == OTHER || is_live(label, name) || stay.contains(&(label, name))
            });
        }
    }

    /// Ends the series of names that are not kept. The gauges that each reading sets anew end
    /// there.
    fn end_series(&self, is_kept: &dyn Fn(&str, &str) -> bool) {
        self.sets.end_sets(is_kept);
        // What is bound ends last: what is bound from then on is bound to new series.
        let groups: [&dyn EndsSeries; 3] = [&self.exchanges, &self.models, &self.bound];
        groups.iter().for_each(|group| group.end_series(is_kept));
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
