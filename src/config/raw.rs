//! `server.yaml` as written: what it may say, and what the schema tells editors about it.
//!
//! Nothing is filled in: a field that is not written is `None`. The doc comments of fields are
//! shown by editors.

use std::net::SocketAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::address::Cidr;
use crate::secret_ref::{SecretRef, Tls};
use crate::units::{Days, Size, Span, Text, Written};
use crate::yaml::read::List;

/// How the process runs. Read once, at the start.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where callers are served. Default: 127.0.0.1:8080. `serve --listen` overrides it.
    #[schemars(length(min = 1))]
    pub listen: Option<List<Listen>>,
    /// Where /metrics and /status are served. Default: 127.0.0.1:9090.
    pub admin: Option<Admin>,
    /// Threads that serve. Default: 0, one per core.
    #[schemars(range(max = 1024))]
    pub workers: Option<u32>,
    /// How many targets one exchange may try. Default: 3.
    #[schemars(range(min = 1, max = 100))]
    pub attempts: Option<u32>,
    /// Bounds.
    pub limits: Option<Limits>,
    /// Deadlines on the callers' side.
    pub timeouts: Option<Timeouts>,
    /// How SIGTERM ends the process.
    pub drain: Option<Drain>,
    /// Whose X-Forwarded-For is believed: the caller's address is the last hop that is not among
    /// them. Default: nobody's.
    pub trusted_proxies: Option<List<Text<Cidr>>>,
    /// Calls from browsers.
    pub cors: Option<Cors>,
    /// What is logged.
    pub log: Option<Log>,
    /// Where settled exchanges are written down, with their tokens and cost.
    pub ledger: Option<Ledger>,
    /// Where several gateways keep what they share: limits, budgets, what is broken upstream,
    /// signed thoughts. Default: each is for itself.
    pub store: Option<Store>,
}

/// One listening address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// An IP address and a port.
    #[schemars(required)]
    pub address: Option<Text<Address>>,
    /// HTTP/2 without TLS too. Default: false.
    pub h2c: Option<bool>,
    /// Serve TLS here, with HTTP/2.
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
    /// An IP address and a port.
    #[schemars(required)]
    pub address: Option<Text<Address>>,
    /// Names by which it may be asked, besides IP addresses, names without a dot, the machine's own
    /// name, and names that end in .localhost, .svc, .cluster.local, .internal, .local or
    /// .home.arpa. Default: none.
    pub hosts: Option<List<String>>,
}

/// Bounds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The largest body of a request. Default: 32MiB.
    pub request_body: Option<Text<Size>>,
    /// The largest buffered answer of an account. Default: 64MiB.
    pub response_body: Option<Text<Size>>,
    /// The largest event of a stream. Default: 8MiB.
    pub event: Option<Text<Size>>,
    /// A request's head, at most 1MiB. Default: 32KiB.
    pub header_bytes: Option<Text<Size>>,
    /// Callers' connections at once. Default: 10000.
    #[schemars(range(min = 1))]
    pub connections: Option<u32>,
    /// All that is buffered at once, of all requests. Default: 1GiB.
    pub buffered_total: Option<Text<Size>>,
}

/// Deadlines on the callers' side.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// For a request's body to be there. Default: 30s.
    pub client_read: Option<Text<Span>>,
    /// For one write to be taken. Default: 30s.
    pub client_write: Option<Text<Span>>,
    /// An idle connection's life. Default: 75s.
    pub keepalive: Option<Text<Span>>,
    /// After this a silent stream gets its head. Default: 10s.
    pub commit_after: Option<Text<Span>>,
    /// Between the comments that keep a silent stream alive. Default: 15s.
    pub comment: Option<Text<Span>>,
}

/// How SIGTERM ends the process.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Goes on serving, while load balancers see /readyz fail. Default: 0s.
    pub delay: Option<Text<Span>>,
    /// For running requests to end. Default: 25s.
    pub grace: Option<Text<Span>>,
}

/// Calls from browsers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Pages from here may call, such as `https://app.example.com`; "*" for all. Default: none.
    pub origins: Option<List<String>>,
}

/// What is logged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// How a line looks. Default: json.
    pub format: Option<Format>,
    /// From which level on. Default: info.
    pub level: Option<Level>,
    /// Where access lines go: stdout, off, or a path with a / in it, opened again on SIGHUP.
    /// Default: stdout.
    pub access: Option<String>,
}

/// Where settled exchanges are written down, with their tokens and cost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Write them down. Default: true.
    pub enabled: Option<bool>,
    /// The SQLite file; made where there is none. A relative path starts at the working directory.
    /// Default: data/ledger.sqlite.
    pub path: Option<String>,
    /// How long single exchanges are kept; sums of days are kept for 400 days at least. Default:
    /// 90d.
    pub retention: Option<Text<Days>>,
}

/// Where several gateways keep what they share.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The URL of a Redis or Valkey: `redis://user:password@host:6379/0`, `rediss://…` for TLS;
    /// with a password in it better `{ env: NAME }` or `{ file: /path }`.
    #[schemars(required)]
    pub redis: Option<SecretRef>,
    /// How TLS is spoken.
    pub tls: Option<Tls>,
    /// How many gateways share it: without it each has this part of every limit. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub instances: Option<u32>,
    /// What becomes of requests with limits while it is slow or gone: `local` goes on with this
    /// gateway's part of each limit, `refuse` answers 503. Default: local.
    pub on_store_down: Option<OnStoreDown>,
    /// No request waits longer for it. Default: 20ms.
    pub timeout: Option<Text<Span>>,
    /// What all its names begin with. Default: portcullis.
    pub prefix: Option<String>,
}

/// What becomes of requests with limits while the store is slow or gone.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnStoreDown {
    /// This gateway's part of each limit.
    Local,
    /// 503.
    Refuse,
}

/// How a line of the log looks.
#[derive(Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// For reading.
    Text,
}

/// How much is logged.
#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing.
    Off,
    /// What needs a hand.
    Error,
    /// And what may.
    Warn,
    /// And what happens.
    Info,
    /// And how.
    Debug,
    /// And every step.
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
