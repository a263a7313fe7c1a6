//! The tables of the metrics: each has its field, its type, and its name and help in `/metrics`, in
//! the order in which `/metrics` shows them.

use super::labelled::{EndsSeries, Labelled};
use super::labels::{
    AttemptLabels, DoorLabels, ExchangeLabels, NameLabels, PartyLabels, TargetLabels, TokensLabels,
    WordLabels,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::sync::atomic::AtomicU64;

/// Makes a histogram of the time that callers wait.
fn request_buckets() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0,
        300.0, 600.0,
    ])
}

/// Makes a histogram of the time to the first token. Most models take from a tenth of a second to
/// some seconds, and those that think first take minutes.
fn first_token_buckets() -> Histogram {
    Histogram::new([
        0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0, 7.0, 12.0, 20.0, 35.0, 60.0,
        120.0, 300.0, 600.0,
    ])
}

/// Makes a histogram of the time that the gateway itself is at work.
fn own_buckets() -> Histogram {
    Histogram::new([
        0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25,
    ])
}

/// Adds a metric. The client library adds `_total` to counters by itself.
pub(super) fn add_metric<M: Metric + Clone + Default>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> M {
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

/// Makes a group of metrics from its table. All its series end with the names that they have.
macro_rules! metrics {
    (@add $registry:ident, $name:literal, $help:literal) => {
        add_metric($registry, $name, $help)
    };
    (@add $registry:ident, $name:literal, $help:literal, $buckets:ident) => {
        add_histogram($registry, $name, $help, $buckets)
    };
    (
        $(#[$about:meta])*
        $vis:vis struct $Group:ident {
            $($(#[$doc:meta])* $field:ident: $Metric:ty =
                $name:literal, $help:literal $(, $buckets:ident)?;)*
        }
    ) => {
        $(#[$about])*
        $vis struct $Group { $($(#[$doc])* pub(crate) $field: $Metric),* }

        impl $Group {
            /// Adds the metrics to a registry.
            pub(super) fn register(registry: &mut Registry) -> $Group {
                $Group { $($field: metrics!(@add registry, $name, $help $(, $buckets)?)),* }
            }
        }

        impl EndsSeries for $Group {
            fn end_series(&self, is_kept: &dyn Fn(&str, &str) -> bool) {
                $(self.$field.end_series(is_kept);)*
            }
        }
    };
}

metrics! {
    /// The metrics that every exchange adds to.
    pub(crate) struct ExchangeMetrics {
        requests: Labelled<ExchangeLabels, Counter> = "requests", "Exchanges by how they ended";
        request_seconds: Labelled<DoorLabels, Histogram> =
            "request_seconds", "From the request's head to the answer's last byte", request_buckets;
        first_byte: Labelled<DoorLabels, Histogram> = "first_byte_seconds",
            "From the request's head to the answer's first byte", request_buckets;
        own_seconds: Labelled<DoorLabels, Histogram> =
            "own_seconds", "Time that an exchange spent running in Portcullis itself", own_buckets;
        tokens: Labelled<TokensLabels, Counter> = "tokens", "Tokens, as counted or estimated";
        cost: Labelled<PartyLabels, Counter<f64, AtomicU64>> =
            "cost_usd", "US dollars that tokens cost, where their price is known";
        unpriced: Labelled<TargetLabels, Counter> =
            "cost_unknown", "Answers whose price is not known";
        limited: Labelled<(NameLabels<1>, WordLabels<2>), Counter> =
            "limited", "Requests refused by a limit of their caller, key or key's model";
        attempts: Labelled<AttemptLabels, Counter> =
            "attempts", "Attempts at upstream accounts by how they ended";
        resent: Labelled<NameLabels<1>, Counter> = "resent",
            "Attempts that sent their request once more, since a connection that was used before ended";
        given_up: Labelled<TargetLabels, Counter> = "given_up",
            "Attempts whose caller left before the first byte, after much more than the usual time";
        first_token: Labelled<TargetLabels, Histogram> = "first_token_seconds",
            "From the start of an attempt at an account to the first piece of its streamed answer",
            first_token_buckets;
        estimated: Labelled<DoorLabels, Counter> =
            "usage_estimated", "Exchanges whose tokens had to be estimated";
        losses: Labelled<(NameLabels<2>, WordLabels<1>), Counter> =
            "dropped_params", "Fields of requests that the upstream's format cannot express";
    }
}

metrics! {
    /// The state of the accounts when `/metrics` is read.
    pub(crate) struct AccountMetrics {
        in_flight: Labelled<NameLabels<1>, Gauge> = "in_flight", "Requests in flight at an account";
        states: Labelled<(NameLabels<1>, WordLabels<1>), Gauge> =
            "account_state", "1 for the state that an account is in";
        reasons: Labelled<(NameLabels<1>, WordLabels<1>), Gauge> =
            "account_reason", "1 for the reason why an account is not ok";
        targets: Labelled<(NameLabels<2>, WordLabels<2>), Gauge> =
            "target_state", "1 for the state that a target is in";
        probing: Labelled<(NameLabels<2>, WordLabels<1>), Gauge> =
            "target_probing", "1 while a request tests whether a target works again";
        headroom: Labelled<NameLabels<1>, Gauge<f64, AtomicU64>> = "headroom_ratio",
            "Share that is left of an account's tightest quota, as its provider last reported";
    }
}

metrics! {
    /// The metrics of a model: hedges, its queue, retries that were not made, and tokens that no
    /// caller got.
    pub(crate) struct ModelMetrics {
        hedges: Labelled<(NameLabels<1>, WordLabels<1>), Counter> =
            "hedges", "Second attempts while a slow first one runs, by whether they were faster";
        waiting: Labelled<NameLabels<1>, Gauge> =
            "waiting", "Requests that wait in the queue of a model";
        queue: Labelled<NameLabels<1>, Histogram> = "queue_seconds",
            "Time in the queue of a model, of the requests that waited", request_buckets;
        shed: Labelled<NameLabels<1>, Counter> =
            "shed", "Requests refused because all accounts were busy and the queue was full";
        retries_spared: Labelled<NameLabels<1>, Counter> = "retries_spared",
            "Requests that failed and were not tried again because of the retry budget";
        unused: Labelled<(NameLabels<2>, WordLabels<1>), Counter> = "unused_tokens",
            "Tokens that a provider may charge for attempts whose answer no caller got";
    }
}

metrics! {
    /// The state of the callers' limits when `/metrics` is read.
    pub(crate) struct CallerMetrics {
        limits_used: Labelled<(NameLabels<1>, WordLabels<2>), Gauge<f64, AtomicU64>> = "limit_used_ratio",
            "Share of a caller's limit that is used, as this instance counts it; the highest of its keys";
    }
}

metrics! {
    /// The metrics of changes of the catalog.
    pub(crate) struct CatalogMetrics {
        old_hash_uses: Labelled<NameLabels<1>, Counter> =
            "old_hash_uses", "Requests with a secret that is being replaced";
        tokens_refused: Labelled<(NameLabels<1>, WordLabels<1>), Counter> =
            "tokens_refused", "Requests with a token of an issuer that was not taken, by why";
        generation: Gauge =
            "catalog_generation", "Number of catalogs that were taken since the start";
        last_success: Gauge<f64, AtomicU64> =
            "catalog_last_success_seconds", "Unix time at which the present catalog was taken";
        refusals: Counter = "catalog_refusals", "Changes of the catalog that were refused";
        /// 1 while the files hold a catalog that was refused.
        reload_failed: Gauge = "reload_failed", "1 while the files hold a catalog that was refused";
        /// Changes that were taken although they removed more than half of something.
        shrunk: Counter = "catalog_shrunk",
            "Changes taken although they removed more than half of the accounts, models or callers";
        waiting_seconds: Gauge<f64, AtomicU64> = "catalog_waiting_seconds",
            "Seconds that the oldest change of the files waits to be live; 0 if no change waits";
    }
}

metrics! {
    /// The metrics of what went wrong in the process.
    pub(crate) struct ProcessMetrics {
        lines_dropped: Gauge = "access_lines_dropped",
            "Access lines dropped because they could not be written, or not fast enough";
        refused_connections: Counter = "connections_refused",
            "Connections closed at once because callers had as many as they may have";
        descriptors_lacking: Counter = "descriptors_lacking",
            "Connections that were not made because no file descriptor was free for them";
        panics: Counter = "panics", "Exchanges that ended in a panic, which is a bug of Portcullis";
        problems: Labelled<WordLabels<2>, Gauge> =
            "problems", "Problems that the gateway sees now, as the page and /status list them";
    }
}

metrics! {
    /// The metrics of the ledger and of the store that instances share.
    pub(crate) struct StoreMetrics {
        ledger_rows: Counter = "ledger_rows", "Rows written to the ledger";
        ledger_dropped: Counter =
            "ledger_dropped", "Rows dropped because the ledger could not be written for long";
        up: Labelled<WordLabels<0>, Gauge> =
            "store_up", "1 while the store that gateways share decides over limits";
        errors: Labelled<WordLabels<0>, Counter> = "store_errors",
            "Admissions that the store did not answer in time, and its connections that failed";
        seconds: Labelled<WordLabels<0>, Histogram> =
            "store_seconds", "Time that the store takes to answer an admission", own_buckets;
        ledger_up: Gauge =
            "ledger_up", "1 while the ledger can be written; 0 if not, or if it is switched off";
    }
}

metrics! {
    /// The metrics of spans that are sent. Without traces, `/metrics` does not show them.
    #[derive(Clone)]
    pub struct SpanMetrics {
        exported: Labelled<WordLabels<0>, Counter> =
            "spans_exported", "Spans that the receiver of traces has taken";
        dropped: Labelled<WordLabels<1>, Counter> =
            "spans_dropped", "Spans that were not sent, by why";
    }
}
