//! Each metric's name and help, in the order in which `/metrics` shows them.

use super::labelled::Labelled;
use super::labels::WordLabels;
use super::process::ThisProcess;
use super::sets::Sets;
use super::{
    AccountMetrics, CallerMetrics, CatalogMetrics, ExchangeMetrics, Metrics, ModelMetrics,
    ProcessMetrics, SpanMetrics, StoreMetrics,
};
use crate::base::lock::Lock;
use crate::conf::config::SeriesBounds;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// Makes a histogram of the time that callers wait.
const REQUEST_SECONDS: fn() -> Histogram = || {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0,
        300.0, 600.0,
    ])
};
/// Makes a histogram of the time to the first token. Most models take from a tenth of a second to
/// some seconds, and those that think first take minutes.
const FIRST_TOKEN: fn() -> Histogram = || {
    Histogram::new([
        0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0,
        120.0, 300.0, 600.0,
    ])
};
/// Makes a histogram of the time that the gateway itself is at work.
const OWN_SECONDS: fn() -> Histogram = || {
    Histogram::new([
        0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25,
    ])
};

/// Adds a metric. The client library adds `_total` to counters by itself.
fn add_metric<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Adds histograms.
fn add_histogram<L>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    new: fn() -> Histogram,
) -> Labelled<L, Histogram>
where
    Labelled<L, Histogram>: Metric,
{
    let metric = Labelled::new(new);
    registry.register(name, help, metric.clone());
    metric
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
        // These have the names that all programs use, and so no prefix.
        registry.register_collector(Box::new(ThisProcess::new()));
        let r = registry.sub_registry_with_prefix("portcullis");
        let exchanges = ExchangeMetrics {
            requests: add_metric(r, "requests", "Exchanges by how they ended"),
            seconds: add_histogram(
                r,
                "request_seconds",
                "From the request's head to the answer's last byte",
                REQUEST_SECONDS,
            ),
            first_byte: add_histogram(
                r,
                "first_byte_seconds",
                "From the request's head to the answer's first byte",
                REQUEST_SECONDS,
            ),
            own: add_histogram(
                r,
                "own_seconds",
                "Time that an exchange spent running in Portcullis itself",
                OWN_SECONDS,
            ),
            tokens: add_metric(r, "tokens", "Tokens, as counted or estimated"),
            cost: add_metric(
                r,
                "cost_usd",
                "US dollars that tokens cost, where their price is known",
            ),
            unpriced: add_metric(r, "cost_unknown", "Answers whose price is not known"),
            limited: add_metric(
                r,
                "limited",
                "Requests refused by a limit of their caller, key or key's model",
            ),
            attempts: add_metric(
                r,
                "attempts",
                "Attempts at upstream accounts by how they ended",
            ),
            resent: add_metric(
                r,
                "resent",
                "Attempts that sent their request once more, since a connection that was used before ended",
            ),
            given_up: add_metric(
                r,
                "given_up",
                "Attempts whose caller left before the first byte, after much more than the usual time",
            ),
            first_token: add_histogram(
                r,
                "first_token_seconds",
                "From the start of an attempt at an account to the first piece of its streamed answer",
                FIRST_TOKEN,
            ),
            estimated: add_metric(
                r,
                "usage_estimated",
                "Exchanges whose tokens had to be estimated",
            ),
            losses: add_metric(
                r,
                "dropped_params",
                "Fields of requests that the upstream's format cannot express",
            ),
            bound: Labelled::default(),
        };
        let accounts = AccountMetrics {
            in_flight: add_metric(r, "in_flight", "Requests in flight at an account"),
            states: add_metric(r, "account_state", "1 for the state that an account is in"),
            reasons: add_metric(
                r,
                "account_reason",
                "1 for the reason why an account is not ok",
            ),
            targets: add_metric(r, "target_state", "1 for the state that a target is in"),
            probing: add_metric(
                r,
                "target_probing",
                "1 while a request tests whether a target works again",
            ),
            headroom: add_metric(
                r,
                "headroom_ratio",
                "Share that is left of an account's tightest quota, as its provider last reported",
            ),
        };
        let models = ModelMetrics {
            hedges: add_metric(
                r,
                "hedges",
                "Second attempts while a slow first one runs, by whether they were faster",
            ),
            waiting: add_metric(r, "waiting", "Requests that wait in the queue of a model"),
            queue: add_histogram(
                r,
                "queue_seconds",
                "Time in the queue of a model, of the requests that waited",
                REQUEST_SECONDS,
            ),
            shed: add_metric(
                r,
                "shed",
                "Requests refused because all accounts were busy and the queue was full",
            ),
            spared: add_metric(
                r,
                "retries_spared",
                "Requests that failed and were not tried again because of the retry budget",
            ),
            unused: add_metric(
                r,
                "unused_tokens",
                "Tokens that a provider may charge for attempts whose answer no caller got",
            ),
        };
        let callers = CallerMetrics {
            limits_used: add_metric(
                r,
                "limit_used_ratio",
                "Share of a caller's limit that is used, as this instance counts it; the highest of its keys",
            ),
        };
        let catalog = CatalogMetrics {
            old_hashes: add_metric(
                r,
                "old_hash_uses",
                "Requests with a secret that is being replaced",
            ),
            generation: add_metric(
                r,
                "catalog_generation",
                "Number of catalogs that were taken since the start",
            ),
            last_success: add_metric(
                r,
                "catalog_last_success_seconds",
                "Unix time at which the present catalog was taken",
            ),
            refusals: add_metric(
                r,
                "catalog_refusals",
                "Changes of the catalog that were refused",
            ),
            reload_failed: add_metric(
                r,
                "reload_failed",
                "1 while the files hold a catalog that was refused",
            ),
            shrunk: add_metric(
                r,
                "catalog_shrunk",
                "Changes taken although they removed more than half of the accounts, models or callers",
            ),
            edit_waits: add_metric(
                r,
                "catalog_waiting_seconds",
                "Seconds that the oldest change of the files waits to be live; 0 if no change waits",
            ),
        };
        let process = ProcessMetrics {
            lines_dropped: add_metric(
                r,
                "access_lines_dropped",
                "Access lines dropped because they could not be written, or not fast enough",
            ),
            refused_connections: add_metric(
                r,
                "connections_refused",
                "Connections closed at once because callers had as many as they may have",
            ),
            lacks: add_metric(
                r,
                "descriptors_lacking",
                "Connections that were not made because no file descriptor was free for them",
            ),
            panics: add_metric(
                r,
                "panics",
                "Exchanges that ended in a panic, which is a bug of Portcullis",
            ),
            problems: add_metric(
                r,
                "problems",
                "Problems that the gateway sees now, as the page and /status list them",
            ),
        };
        let stores = StoreMetrics {
            ledger_rows: add_metric(r, "ledger_rows", "Rows written to the ledger"),
            ledger_dropped: add_metric(
                r,
                "ledger_dropped",
                "Rows dropped because the ledger could not be written for long",
            ),
            up: add_metric(
                r,
                "store_up",
                "1 while the store that gateways share decides over limits",
            ),
            errors: add_metric(
                r,
                "store_errors",
                "Admissions that the store did not answer in time, and its connections that failed",
            ),
            seconds: add_histogram(
                r,
                "store_seconds",
                "Time that the store takes to answer an admission",
                OWN_SECONDS,
            ),
            ledger_up: add_metric(
                r,
                "ledger_up",
                "1 while the ledger can be written; 0 if not, or if it is switched off",
            ),
        };
        let spans = SpanMetrics {
            exported: add_metric(
                r,
                "spans_exported",
                "Spans that the receiver of traces has taken",
            ),
            dropped: add_metric(r, "spans_dropped", "Spans that were not sent, by why"),
        };
        let sets = Sets::new(bounds);
        r.register(
            "label_sets",
            "Sets of a model, an account and a caller that have series; at metrics.series, further ones count as other",
            sets.number.clone(),
        );
        let build: Labelled<WordLabels<1>, Gauge> = add_metric(
            r,
            "build_info",
            "1, with the version of Portcullis as its label",
        );
        build
            .get_or_create(&[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        Metrics {
            registry,
            exchanges,
            accounts,
            models,
            catalog,
            process,
            stores,
            callers,
            spans,
            sets,
            gone: Lock::default(),
        }
    }
}
