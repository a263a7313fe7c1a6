//! `server.yaml` as written: what it may say, and what the schema tells editors about it.
//!
//! Nothing is filled in: a field that is not written is `None`. The doc comments of fields are
//! shown by editors.

use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::base::address::Cidr;
use crate::base::units::{Days, Share, Size, Span, Text, Written};
use crate::conf::secret_ref::{SecretRef, Tls};
use crate::conf::yaml::read::{Entries, List};

/// How the process runs. The file is read once, at the start. Restart the process after a change.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The addresses where callers are served, at least one. `serve --listen` replaces the whole
    /// list. Default: 127.0.0.1:8080.
    #[schemars(length(min = 1))]
    pub listen: Option<List<Listen>>,
    /// The listener for operators: the page, `/metrics`, `/status`, `/usage`, `/limits`,
    /// `/catalog`, and the reset of accounts. Without a `key` it answers everybody: bind it to an
    /// address that only operators reach. Default: at 127.0.0.1:9090.
    pub admin: Option<Admin>,
    /// The number of threads that serve. 0 means one for each core. Default: 0.
    #[schemars(range(max = 1024))]
    pub workers: Option<u32>,
    /// How many targets one request may try. Default: 3.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: Option<u32>,
    /// The largest sizes and numbers that the process accepts.
    pub limits: Option<Bounds>,
    /// The most that all files of the catalog together may have, at most 1GiB: 32MiB hold some
    /// 300,000 keys. A larger catalog is refused. Default: 32MiB.
    pub catalog_size: Option<Text<Size>>,
    /// Deadlines on the callers' side. Those on the upstreams' side stand in catalog.yaml, for each
    /// account and model.
    pub timeouts: Option<Timeouts>,
    /// What happens between SIGTERM and the end of the process.
    pub drain: Option<Drain>,
    /// The load balancers whose `X-Forwarded-For` is trusted, as addresses or ranges such as
    /// 10.20.0.0/16. The caller's address is the last hop that is not among them. Default: none.
    pub trusted_proxies: Option<List<Text<Cidr>>>,
    /// Which web pages may call.
    pub cors: Option<Cors>,
    /// What is logged, how and where.
    pub log: Option<Log>,
    /// The file that records every admitted chat completion with its tokens and cost.
    pub ledger: Option<Ledger>,
    /// The lists of providers' models, for models of the catalog whose id is a pattern such as
    /// `openai/*`. They are kept in `model-lists`, in the folder of the ledger, if there is one.
    pub model_lists: Option<ModelLists>,
    /// A Redis or Valkey that several gateways share: for limits, budgets, targets that fail, and
    /// signed thoughts. Without it each gateway works alone.
    pub store: Option<Store>,
    /// The keys that seal what callers carry from one turn to the next.
    pub seal: Option<Seal>,
    /// Where the items of answers at `/v1/responses` are kept for 24 hours, so that a later request
    /// of this key may refer to them by their ids. Each key has 8 MiB, and all together 64 MiB.
    /// Answers to requests with `store: false` are not kept. Default: memory.
    pub item_cache: Option<ItemCacheMode>,
    /// Through which proxy servers outside are reached: accounts that have no `proxy` of their own,
    /// and the receivers of notices and traces. Default: none.
    pub upstream_proxy: Option<UpstreamProxy>,
    /// Where notices are sent when a problem of the gateway comes or goes. Default: nowhere.
    pub notify: Option<Notify>,
    /// Where traces of requests are sent, by OpenTelemetry's protocol. Default: nowhere.
    pub traces: Option<Traces>,
    /// How many series `/metrics` has.
    pub metrics: Option<Metrics>,
}

/// How many series `/metrics` has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Which of the labels with many values `/metrics` shows. Without `caller` no metric names a
    /// caller. Without `account` the metrics of requests, tokens and costs do not name the account
    /// that answered; the metrics of accounts stay. Default: [caller, account].
    pub labels: Option<List<MetricLabel>>,
    /// The most sets of a model, an account and a caller that have series of their own. A set keeps
    /// its series. Once there are so many, requests of further sets count for the caller `other`.
    /// Default: 20000.
    #[schemars(range(min = 1))]
    pub series: Option<u32>,
}

/// A label that `/metrics` may leave out.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum MetricLabel {
    /// Who has asked.
    Caller,
    /// Which account has answered.
    Account,
}

/// Where traces of requests are sent. With this section, `OTEL_*` variables set the keys that it
/// leaves out; without it they do nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// The URL of a receiver that takes OTLP over HTTP, such as `http://collector:4318`. Without a
    /// path, `/v1/traces` is added. Plain `http:` goes to private addresses only. Default: the
    /// value of `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: Option<String>,
    /// Headers that are sent with all traces, by name: each value as `{ env: NAME }`, `{ file:
    /// /path }` or a text. Default: the headers of `OTEL_EXPORTER_OTLP_TRACES_HEADERS` or
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub headers: Option<Entries<SecretRef>>,
    /// How the certificate of the receiver is checked.
    pub tls: Option<Tls>,
    /// The share of requests without a `traceparent` that are sent, such as 10%. For the others
    /// their `traceparent` decides. Default: the share of `OTEL_TRACES_SAMPLER`, else 100%.
    pub sample: Option<Text<Share>>,
    /// A request that takes longer than this is sent, even if `sample` leaves it out. Default: no
    /// limit.
    pub slow: Option<Text<Span>>,
    /// The most requests a second that are sent because their caller's `traceparent` asks for it.
    /// The same number again may be sent because they failed, were retried, or were slow. This does
    /// not limit `sample`. Default: 100.
    pub extra_per_second: Option<u32>,
    /// Whether the spans of attempts show the model, the tokens and the cost, as OpenTelemetry's
    /// conventions for generative AI have them. `off` is for callers who trace that themselves:
    /// their receiver would count it twice. Default: attempts.
    pub gen_ai: Option<GenAi>,
    /// Attributes of this gateway, such as `deployment.environment.name: production`. Default: the
    /// attributes of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`; `service.name` is
    /// portcullis.
    pub resource: Option<Entries<String>>,
}

/// Which spans show the model, the tokens and the cost.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum GenAi {
    /// The spans of attempts.
    #[default]
    Attempts,
    /// No span.
    Off,
}

/// Through which proxy servers outside are reached.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamProxy {
    /// None.
    #[default]
    None,
    /// The proxies in the environment variables `HTTPS_PROXY` and `HTTP_PROXY`, except to the hosts
    /// in `NO_PROXY`, to this machine, and to plain `http:` without `insecure: true`.
    Environment,
}

/// Where notices of problems are sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// The URL to which notices are posted as JSON, at most one a minute. Receivers such as Slack
    /// and Mattermost show the field `text`. Plain `http:` goes to private addresses only.
    /// Redirects are not followed.
    #[schemars(required)]
    pub webhook: Option<SecretRef>,
    /// The least severe problem that is reported. Default: warning.
    pub min_severity: Option<LeastSeverity>,
}

/// The least severe problem that is reported.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum LeastSeverity {
    /// All problems.
    #[default]
    Warning,
    /// Only problems that hurt callers or lose data, now or very soon.
    Critical,
}

/// One listening address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// The IP address and the port to listen on, such as 127.0.0.1:8080, 0.0.0.0:8080 or
    /// `"[::1]:8080"`.
    #[schemars(required)]
    pub address: Option<Text<Address>>,
    /// Whether HTTP/2 is served without TLS, besides HTTP/1. The caller must begin with HTTP/2
    /// (prior knowledge). Default: false.
    pub h2c: Option<bool>,
    /// Serves TLS here, with HTTP/2 by ALPN.
    pub tls: Option<ListenTls>,
}

/// A listener's certificate, read again on SIGHUP. Relative paths start at the configuration
/// folder.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenTls {
    /// The file with the certificate and its chain (PEM).
    #[schemars(required)]
    pub cert: Option<String>,
    /// The file with the private key (PEM).
    #[schemars(required)]
    pub key: Option<String>,
}

/// The operator's listener.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The IP address and the port to listen on, such as 127.0.0.1:8080, 0.0.0.0:8080 or
    /// `"[::1]:8080"`.
    #[schemars(required)]
    pub address: Option<Text<Address>>,
    /// Public names by which operators reach the listener. A request by another public name is
    /// refused with 421. Always accepted are IP addresses, names without a dot, the machine's own
    /// name, and names that end in .localhost, .svc, .cluster.local, .internal, .local or
    /// .home.arpa. Default: none.
    pub hosts: Option<List<String>>,
    /// The key that every request must carry, except the probes: as `Authorization: Bearer KEY`, or
    /// as the password of Basic, for which browsers ask. It has 32 characters or more. Without a
    /// key, the listener explains, tries and resets nothing on any address except loopback.
    /// Default: none.
    pub key: Option<SecretRef>,
    /// Whether there is a page for browsers, at `/`, with *Explain* and *Try*. Default: true.
    pub page: Option<bool>,
}

/// The largest sizes and numbers that the process accepts.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub struct Bounds {
    /// The largest body of a request, after it is unpacked. A larger one gets 413. Default: 32MiB.
    pub request_body: Option<Text<Size>>,
    /// The largest buffered answer of an upstream. Default: 64MiB.
    pub response_body: Option<Text<Size>>,
    /// The largest event of a stream of an upstream. Default: 8MiB.
    pub event: Option<Text<Size>>,
    /// The largest head of a request, 1MiB at most: its headers get 431 above it, its path and
    /// query 414. Default: 32KiB.
    pub header_bytes: Option<Text<Size>>,
    /// The most connections of callers at the same time. Further connections are closed at once.
    /// Default: 10000.
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
    /// The most bytes of all bodies that are in memory at the same time, counted from each
    /// request's head on. One caller may hold at most as much as is left for the others, but a
    /// caller with only one request may use all that is left. An eighth is kept for bodies of up to
    /// 64 KiB. Default: 1GiB.
    pub buffered_total: Option<Text<Size>>,
    /// The largest form with files: a recording, or pictures that are changed. A larger one gets
    /// 413. Default: 100MiB.
    pub upload: Option<Text<Size>>,
    /// The most bytes of all these forms at the same time. They wait in files without a name, in
    /// the folder of the ledger or, without a ledger, in the system's folder for temporary files.
    /// One caller may hold at most as much as is left for the others. If no file can be made there,
    /// forms stay in memory, and those above 64MiB get 413. Default: 4GiB.
    pub spool_total: Option<Text<Size>>,
}

/// Deadlines on the callers' side.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// How long a request's head may take from its first byte on, how long a new connection may
    /// take to send that byte, and the longest pause in a body. The whole body may take this time
    /// and one second more for each 16 KiB. Default: 30s.
    pub client_read: Option<Text<Span>>,
    /// How long the caller may take to receive one write. Default: 30s.
    pub client_write: Option<Text<Span>>,
    /// How long an idle connection of a caller stays open. Default: 75s.
    pub keepalive: Option<Text<Span>>,
    /// How long a stream may be silent before the caller gets the head of the answer. From then on
    /// the status is 200. Default: 10s.
    pub commit_after: Option<Text<Span>>,
    /// The time between two comments that keep a silent stream alive. Default: 15s.
    pub comment: Option<Text<Span>>,
}

/// What happens between SIGTERM and the end of the process.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// How long new requests are still served after SIGTERM, while `/readyz` answers 503, so that
    /// load balancers notice. Default: 0s.
    pub delay: Option<Text<Span>>,
    /// How long running requests may then go on. What still runs after it is ended with an error.
    /// Default: 25s.
    pub grace: Option<Text<Span>>,
}

/// Calls from web pages.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// The origins of web pages that may call, such as `https://app.example.com`. `"*"` allows all.
    /// Default: none.
    pub origins: Option<List<String>>,
}

/// What is logged, how and where.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How a line looks, in the log and in the access log. Default: auto.
    pub format: Option<Format>,
    /// How much is logged: this level and those above it. Default: info.
    pub level: Option<Level>,
    /// Where access lines go: `stdout`, `off`, or a path with a `/` in it. A relative path starts
    /// at the working directory. SIGHUP opens the file again. Default: stdout.
    pub access: Option<String>,
}

/// The file that records every admitted chat completion with its tokens and cost.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Whether requests are recorded. Default: true.
    pub enabled: Option<bool>,
    /// The SQLite file. The gateway makes it if it does not exist. A relative path starts at the
    /// working directory. Put the file on a local disk, and not into the configuration folder,
    /// which the gateway watches for changes. Default: data/ledger.sqlite.
    pub path: Option<String>,
    /// How long single requests are kept. Sums of days are kept for 400 days at least. Default:
    /// 90d.
    pub retention: Option<Text<Days>>,
}

/// The lists of providers' models.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelLists {
    /// How long a list is used before it is fetched again, at least 1s. If that fails, the list
    /// stays in use, and the next try comes sooner. Default: 1h.
    pub refresh: Option<Text<Span>>,
}

/// A Redis or Valkey that several gateways share.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The URL of the Redis or Valkey, version 6 or later: `redis://user:password@host:6379/0`, or
    /// `rediss://…` for TLS. If the URL has a password in it, `{ env: NAME }` or `{ file: /path }`
    /// is safer.
    #[schemars(required)]
    pub redis: Option<SecretRef>,
    /// How the certificate of the store is checked.
    pub tls: Option<Tls>,
    /// How many gateways share the store. While the store is unavailable, each gateway uses only
    /// its part of every limit: with 2 gateways a limit of 100 is 50 for each. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub instances: Option<u32>,
    /// What happens to requests with limits while the store is slow or unavailable. Default: local.
    pub on_store_down: Option<OnStoreDown>,
    /// How long a request waits for one answer of the store at most. Those that refer to more than
    /// 16 items need several. Default: 20ms.
    pub timeout: Option<Text<Span>>,
    /// The beginning of all names in the store. Default: portcullis.
    pub prefix: Option<String>,
}

/// The keys that seal what callers carry from one turn to the next: a model's thoughts, which its
/// provider must get back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The keys, at least one, each of 32 characters or more. The first one seals, and all open: to
    /// change the key, write the new one before the old one, and remove the old one after 30 days.
    /// Gateways that serve the same callers need the same keys. Default: a random key for each
    /// process, so that after a restart earlier thoughts are left out.
    #[schemars(required, length(min = 1, max = 16))]
    pub keys: Option<List<SecretRef>>,
}

/// Where the items of answers are kept for requests that refer to them.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ItemCacheMode {
    /// Nowhere: a reference to an item is refused.
    Off,
    /// In the memory of this process, up to its end.
    #[default]
    Memory,
    /// In memory, and in the `store`, encrypted with the first key of `seal`, for all gateways that
    /// share both.
    Store,
}

/// What happens to requests with limits while the store is slow or unavailable.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreDown {
    /// Each gateway goes on with its own counts and its part of each limit.
    Local,
    /// Requests with limits get 503 `store_unavailable`.
    Refuse,
}

/// How a line of the log looks.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text on a terminal, JSON elsewhere: in a file, in a pipe, under a service manager.
    #[default]
    Auto,
    /// One JSON object for each line.
    Json,
    /// A shorter line for people.
    Text,
}

impl Format {
    /// Returns whether lines that go there are written as text.
    pub fn is_text(self, output: &impl std::io::IsTerminal) -> bool {
        match self {
            Format::Auto => output.is_terminal(),
            Format::Json => false,
            Format::Text => true,
        }
    }
}

/// How much is logged.
#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing.
    Off,
    /// Faults that an operator must fix.
    Error,
    /// Also what an operator may have to check.
    Warn,
    /// Also events, such as a new catalog.
    Info,
    /// Also details of these events.
    Debug,
    /// Also every step.
    Trace,
}

/// An IP address and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| {
            "must be an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or \"[::1]:8080\"".to_owned()
        })
    }
}

impl Written for Address {
    const NAME: &str = "Address";
    const PATTERN: &str = r"^([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$";
    const MEANING: &str = "An IP address and a port: 127.0.0.1:8080, [::1]:8080.";
}
