//! The configuration of the process: `conf/server.yaml`, as written and resolved. It is read once,
//! at the start.
//!
//! The types as written are strict, and every field may be left out. The resolved types have every
//! value, and keep every rule. This module opens no file and asks the system nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::address::Cidr;
use crate::base::problem::{Problem, Problems, quote_near_miss};
use crate::base::secret::Secret;
use crate::base::units::{Days, Size, Span, Text};
use crate::conf::proxy::{EnvironmentWarning, Proxies};
use crate::conf::scribe::{Report, Scribe};
use crate::conf::secret_ref::{LookUp, Reference};
use crate::conf::yaml;
use crate::conf::yaml::read::{List, list_items};

mod admin;
mod habits;
mod metrics;
mod notify;
mod origins;
pub mod raw;
mod seal;
mod store;
mod traces;

pub use admin::Admin;
pub use metrics::SeriesBounds;
pub use notify::{LeastSeverity, Notify, Webhook};
pub use raw::{Format, GenAi, ItemCacheMode};
pub use store::{Address, OnStoreDown, Store};
pub use traces::{FromFile, Sampling, Traces};

/// The files that a process has open besides its connections: logs, the ledger, listeners.
const OTHER_FILES: u64 = 64;

/// The size of the largest catalog, if none is written.
const DEFAULT_CATALOG_SIZE: usize = 32 << 20;
/// The largest size of a catalog that may be written.
pub const MAX_CATALOG_SIZE: usize = yaml::LARGEST_TEXT;

/// The configuration of the process, resolved.
#[derive(Debug, Clone)]
pub struct Server {
    /// The listeners for callers, at least one.
    pub listen: Vec<Listen>,
    /// The listener for operators.
    pub admin: Admin,
    /// The number of threads that serve; 0 = one per core.
    pub workers: usize,
    /// The most attempts of one exchange, at least 1.
    pub attempts: usize,
    /// Bounds, in bytes except `connections`.
    pub limits: Bounds,
    /// Deadlines on the caller's side.
    pub timeouts: ClientTimeouts,
    /// The phases of the shutdown after SIGTERM.
    pub drain: Drain,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Cidr>,
    /// Origins that browsers may call from; `*` = all; empty = none, and OPTIONS is 405.
    pub cors: Vec<String>,
    /// The settings of the log.
    pub log: Log,
    /// The settings of the ledger.
    pub ledger: Ledger,
    /// The time after which the list of a provider's models is fetched again.
    pub list_refresh: Duration,
    /// The store through which gateways share limits, if there is one.
    pub store: Option<Store>,
    /// The keys that seal thoughts, the one that seals first; empty for a random one.
    pub seal: Vec<Secret>,
    /// Where the items of answers are kept.
    pub item_cache: ItemCacheMode,
    /// Where notices of problems are sent, if anywhere.
    pub notify: Option<Notify>,
    /// Where traces are sent, if anywhere.
    pub traces: Option<Traces>,
    /// The proxies through which servers outside are reached.
    pub proxies: Arc<Proxies>,
    /// How many series `/metrics` has.
    pub series: SeriesBounds,
    /// Warnings: settings that are no error and should be different all the same.
    pub warnings: Vec<Problem>,
}

/// One listening address.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address and the port.
    pub address: SocketAddr,
    /// True if the listener speaks HTTP/2 without TLS too.
    pub h2c: bool,
    /// The certificate, if the listener speaks TLS.
    pub tls: Option<ListenTls>,
}

/// A listener's certificate. Relative paths start at the configuration folder.
#[derive(Debug, Clone)]
pub struct ListenTls {
    /// The chain, PEM.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// Bounds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The largest body of a request.
    pub request_body: usize,
    /// The largest buffered answer.
    pub response_body: usize,
    /// The largest event of a stream.
    pub event: usize,
    /// The largest head of a request.
    pub header_bytes: usize,
    /// The most connections of callers at once.
    pub connections: usize,
    /// The most that all requests together may buffer at once.
    pub buffered_total: usize,
    /// The largest form with files.
    pub upload: usize,
    /// The most that all of them together may take on the disk.
    pub spool_total: usize,
    /// The largest catalog, all its files together.
    pub catalog_size: usize,
}

impl Bounds {
    /// Returns the most connections of callers in a process that may have so many files open. Each
    /// usually has one to a provider, too, and a large upload is in a file.
    pub fn connections_within(&self, files: u64) -> usize {
        let left = files.saturating_sub(OTHER_FILES);
        let uploads = (self.spool_total / self.upload.max(1)) as u64;
        let pairs = (left - uploads.min(left / 4)) / 2;
        usize::try_from(pairs)
            .unwrap_or(usize::MAX)
            .clamp(1, self.connections)
    }

    /// Returns whether so many connections are clearly fewer than the settings allow.
    pub fn are_few_connections(&self, possible: usize) -> bool {
        possible < self.connections - self.connections / 10
    }
}

/// Deadlines on the caller's side.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// The time in which the body of a request must arrive.
    pub client_read: Duration,
    /// The time in which the caller must take one write.
    pub client_write: Duration,
    /// The time that an idle connection lives.
    pub keepalive: Duration,
    /// The time after which a silent stream gets its head.
    pub commit_after: Duration,
    /// The time between the comments that keep a silent stream alive.
    pub comment: Duration,
}

/// The phases of the shutdown after SIGTERM.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    /// The time in which everything is served as before, while load balancers learn of the
    /// shutdown.
    pub delay: Duration,
    /// The time in which running exchanges may end.
    pub grace: Duration,
}

/// The settings of the log.
#[derive(Debug, Clone)]
pub struct Log {
    /// The format of a line.
    pub format: Format,
    /// The lowest level that is logged.
    pub level: log::LevelFilter,
    /// The place to which access lines go.
    pub access: Access,
}

/// The place to which access lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Standard output.
    Stdout,
    /// Nowhere.
    Off,
    /// A file, opened again on SIGHUP.
    File(PathBuf),
}

/// The path of the ledger where none is written.
pub const DEFAULT_LEDGER: &str = "data/ledger.sqlite";

/// The settings of the ledger, in which settled exchanges are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// True if exchanges are written down.
    pub enabled: bool,
    /// The file. A relative path starts at the working directory.
    pub path: PathBuf,
    /// The time for which single exchanges are kept. Sums of days stay longer.
    pub retention: Duration,
}

impl Server {
    /// Returns the folder that keeps the lists of providers' models. It is in the ledger's folder.
    pub fn list_folder(&self) -> Option<PathBuf> {
        self.ledger
            .enabled
            .then(|| self.ledger.path.with_file_name("model-lists"))
    }

    /// Returns the folder that keeps the keys of issuers. It is in the ledger's folder.
    pub fn key_folder(&self) -> Option<PathBuf> {
        self.ledger
            .enabled
            .then(|| self.ledger.path.with_file_name("issuer-keys"))
    }
}

/// Reads `server.yaml`. Errors show it as `name`. Things that it names but does not hold are looked
/// up.
pub fn parse_server(name: &str, text: &str, look_up: &mut LookUp<'_>) -> Result<Server, Problems> {
    let files = [(name.to_owned(), text.to_owned())];
    let mut report = Report::new(&files, habits::KIND, look_up);
    let raw: Option<raw::Server> = report.read(0, &[]);
    let server = raw.map(|raw| resolve_server(raw, &Scribe::new(&report, 0)));
    match server {
        Some(server) if !report.has_problems() => Ok(Server {
            warnings: report.warnings(),
            ..server
        }),
        Some(_) | None => Err(report.problems()),
    }
}

fn resolve_server(raw: raw::Server, root: &Scribe<'_, '_>) -> Server {
    let item_cache = item_cache(&raw, root);
    let listen = resolve_listeners(raw.listen.as_ref(), root);
    let admin = admin::resolve_admin(raw.admin.as_ref(), &listen, root);
    let workers = raw.workers.unwrap_or(0);
    root.key("workers").note_problem_if(
        workers > 1024,
        "must be at most 1024; 0 means one for each core",
    );
    let attempts = raw.attempts.unwrap_or(3);
    root.key("attempts")
        .note_problem_if(!(1..=100).contains(&attempts), "must be 1 to 100");
    let written = raw.catalog_size.map(|Text(Size(size))| size);
    let catalog_size = positive_or_default(
        written,
        DEFAULT_CATALOG_SIZE,
        "0B",
        &root.key("catalog_size"),
    );
    root.key("catalog_size")
        .note_problem_if(catalog_size > MAX_CATALOG_SIZE, "must be at most 1GiB");
    let drain = raw.drain.unwrap_or_default();
    let proxies = resolve_proxies(
        raw.upstream_proxy.unwrap_or_default(),
        &root.key("upstream_proxy"),
    );
    Server {
        listen,
        admin,
        workers: to_usize(workers),
        attempts: to_usize(attempts),
        limits: resolve_bounds(
            &raw.limits.unwrap_or_default(),
            catalog_size,
            &root.key("limits"),
        ),
        timeouts: resolve_timeouts(&raw.timeouts.unwrap_or_default(), &root.key("timeouts")),
        drain: Drain {
            delay: drain.delay.map_or(Duration::ZERO, |Text(Span(span))| span),
            grace: drain
                .grace
                .map_or(Duration::from_secs(25), |Text(Span(span))| span),
        },
        trusted_proxies: list_items(raw.trusted_proxies.as_ref())
            .map(|(_, Text(range))| *range)
            .collect(),
        cors: origins::resolve_origins(&raw.cors.unwrap_or_default(), &root.key("cors")),
        log: resolve_log(&raw.log.unwrap_or_default(), &root.key("log")),
        ledger: resolve_ledger(&raw.ledger.unwrap_or_default(), &root.key("ledger")),
        list_refresh: list_refresh(
            &raw.model_lists.unwrap_or_default(),
            &root.key("model_lists"),
        ),
        item_cache,
        seal: seal::seal_keys(raw.seal.as_ref(), raw.store.is_some(), root),
        store: raw
            .store
            .and_then(|raw| store::resolve_store(&raw, &root.key("store"))),
        notify: raw
            .notify
            .and_then(|raw| notify::resolve_notify(&raw, &root.key("notify"))),
        traces: raw
            .traces
            .and_then(|raw| traces::resolve_traces(&raw, &root.key("traces"))),
        proxies: Arc::new(proxies),
        series: metrics::resolve_metrics(&raw.metrics.unwrap_or_default(), &root.key("metrics")),
        warnings: Vec::new(),
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn resolve_listeners(written: Option<&List<raw::Listen>>, root: &Scribe<'_, '_>) -> Vec<Listen> {
    let list = root.key("listen");
    let Some(written) = written else {
        return vec![Listen {
            address: loopback_address(8080),
            h2c: false,
            tls: None,
        }];
    };
    list.note_problem_if(written.is_empty(), "must list at least one address");
    let mut listen: Vec<Listen> = Vec::new();
    for (index, raw) in list_items(Some(written)) {
        let scribe = list.index(index);
        let tls = raw
            .tls
            .as_ref()
            .and_then(|tls| listen_tls(tls, &scribe.key("tls")));
        let h2c = raw.h2c.unwrap_or(false);
        let message = "is HTTP/2 without TLS, and this listener has `tls`: remove `h2c`";
        scribe
            .key("h2c")
            .note_problem_if(h2c && raw.tls.is_some(), message);
        let message = "is missing: an IP address and a port, such as 127.0.0.1:8080";
        let Some(Text(raw::Address(address))) =
            scribe.key("address").required(raw.address, message)
        else {
            continue;
        };
        let message =
            "has port 0, at which no caller finds the gateway: write the port, such as 8080";
        scribe
            .key("address")
            .note_problem_if(address.port() == 0, message);
        if is_taken(address, &listen) {
            scribe
                .key("address")
                .note_problem(&format!("{address} is written twice: keep only one"));
        } else {
            listen.push(Listen { address, h2c, tls });
        }
    }
    listen
}

/// Returns whether a listener has this address. Port 0 is an error of its own.
fn is_taken(address: SocketAddr, listen: &[Listen]) -> bool {
    address.port() != 0 && listen.iter().any(|other| other.address == address)
}

fn listen_tls(raw: &raw::ListenTls, scribe: &Scribe<'_, '_>) -> Option<ListenTls> {
    let cert = pem_path("cert", raw.cert.as_ref(), scribe);
    let key = pem_path("key", raw.key.as_ref(), scribe);
    Some(ListenTls {
        cert: cert?,
        key: key?,
    })
}

fn pem_path(field: &str, written: Option<&String>, tls: &Scribe<'_, '_>) -> Option<PathBuf> {
    let written = written.filter(|path| !path.is_empty());
    let path = tls
        .key(field)
        .required(written, "is missing: the path of a PEM file");
    path.map(PathBuf::from)
}

/// Returns the address of the admin listener, whatever else is wrong in the text of `server.yaml`.
pub fn admin_address(text: &str) -> Option<SocketAddr> {
    let (tree, _) = yaml::parse(text).ok()?;
    let section = yaml::Path::Root.key("admin");
    let Some(found) = tree.find(&section.key("address")) else {
        return Some(loopback_address(9090));
    };
    match &found.node.value {
        yaml::Value::Plain(address) | yaml::Value::Quoted(address) => address.parse().ok(),
        // Only the section is written.
        yaml::Value::Map(_) => Some(loopback_address(9090)),
        yaml::Value::List(_) => None,
    }
}

/// Returns the `catalog_size` of a text of `server.yaml`, whatever else is wrong in it.
pub fn catalog_size(text: &str) -> usize {
    let tree = yaml::parse(text).ok().map(|(tree, _)| tree);
    let found = tree
        .as_ref()
        .and_then(|tree| tree.find(&yaml::Path::Root.key("catalog_size")));
    let size = found.and_then(|found| match &found.node.value {
        yaml::Value::Plain(size) | yaml::Value::Quoted(size) => size.parse().ok(),
        yaml::Value::Map(_) | yaml::Value::List(_) => None,
    });
    size.map_or(DEFAULT_CATALOG_SIZE, |Size(size)| {
        size.min(MAX_CATALOG_SIZE)
    })
}

fn loopback_address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn resolve_bounds(raw: &raw::Bounds, catalog_size: usize, section: &Scribe<'_, '_>) -> Bounds {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    let size = |field, written, default| size_of(field, written, default, section);
    let limits = Bounds {
        request_body: size("request_body", raw.request_body, 32 * MIB),
        response_body: size("response_body", raw.response_body, 64 * MIB),
        event: size("event", raw.event, 8 * MIB),
        header_bytes: size("header_bytes", raw.header_bytes, 32 * KIB),
        connections: to_usize(raw.connections.unwrap_or(10_000)),
        buffered_total: size("buffered_total", raw.buffered_total, 1024 * MIB),
        upload: size("upload", raw.upload, 100 * MIB),
        spool_total: size("spool_total", raw.spool_total, 4096 * MIB),
        catalog_size,
    };
    // This is Pingora's own limit, which cannot be raised.
    section
        .key("header_bytes")
        .note_problem_if(limits.header_bytes > MIB, "must be at most 1MiB");
    section
        .key("connections")
        .note_problem_if(limits.connections == 0, "must be at least 1");
    let is_small = limits.buffered_total < limits.request_body.max(limits.response_body);
    let message = "must be at least as large as request_body and as response_body; if not, the largest bodies could never pass";
    section
        .key("buffered_total")
        .note_problem_if(is_small, message);
    let message =
        "must be at least as large as upload; if not, the largest uploads could never pass";
    section
        .key("spool_total")
        .note_problem_if(limits.spool_total < limits.upload, message);
    limits
}

/// Returns a size, which must be more than nothing.
fn size_of(
    field: &str,
    written: Option<Text<Size>>,
    default: usize,
    section: &Scribe<'_, '_>,
) -> usize {
    let written = written.map(|Text(Size(size))| size);
    positive_or_default(written, default, "0B", &section.key(field))
}

fn resolve_timeouts(raw: &raw::Timeouts, section: &Scribe<'_, '_>) -> ClientTimeouts {
    let span = |field, written, seconds| span_of(field, written, seconds, section);
    ClientTimeouts {
        client_read: span("client_read", raw.client_read, 30),
        client_write: span("client_write", raw.client_write, 30),
        keepalive: span("keepalive", raw.keepalive, 75),
        commit_after: span("commit_after", raw.commit_after, 10),
        comment: span("comment", raw.comment, 15),
    }
}

/// Returns a time, which must be more than nothing.
fn span_of(
    field: &str,
    written: Option<Text<Span>>,
    default_seconds: u64,
    section: &Scribe<'_, '_>,
) -> Duration {
    let default = Duration::from_secs(default_seconds);
    let written = written.map(|Text(Span(span))| span);
    positive_or_default(written, default, "0s", &section.key(field))
}

/// Returns the written value, which must be more than `nothing`, or else the default.
fn positive_or_default<T: Default + PartialEq>(
    written: Option<T>,
    default: T,
    nothing: &str,
    scribe: &Scribe<'_, '_>,
) -> T {
    scribe.note_problem_if(
        written == Some(T::default()),
        &format!("must be more than {nothing}"),
    );
    written.unwrap_or(default)
}

fn resolve_log(raw: &raw::Log, section: &Scribe<'_, '_>) -> Log {
    let access = match raw.access.as_deref() {
        None | Some("stdout") => Access::Stdout,
        Some("off") => Access::Off,
        Some(path) if path.contains('/') && !path.ends_with('/') => Access::File(path.into()),
        // Without a slash, the text is more likely a misspelt word than a file.
        Some(other) => {
            let message =
                "must be stdout, off, or the path of a file with a / in it, such as ./access.log";
            match quote_near_miss(other, ["stdout", "off"]) {
                Some(quoted) => section
                    .key("access")
                    .note_problem(&format!("{message}, not {quoted}")),
                None => section.key("access").note_problem_unquoted(message),
            }
            Access::Off
        }
    };
    Log {
        format: raw.format.unwrap_or_default(),
        level: match raw.level.unwrap_or(raw::Level::Info) {
            raw::Level::Off => log::LevelFilter::Off,
            raw::Level::Error => log::LevelFilter::Error,
            raw::Level::Warn => log::LevelFilter::Warn,
            raw::Level::Info => log::LevelFilter::Info,
            raw::Level::Debug => log::LevelFilter::Debug,
            raw::Level::Trace => log::LevelFilter::Trace,
        },
        access,
    }
}

fn resolve_ledger(raw: &raw::Ledger, section: &Scribe<'_, '_>) -> Ledger {
    let path = raw.path.as_deref().unwrap_or(DEFAULT_LEDGER);
    let is_no_file = path.is_empty() || path.ends_with('/');
    section.key("path").note_problem_if(
        is_no_file,
        "must be the path of a file, such as data/ledger.sqlite",
    );
    Ledger {
        enabled: raw.enabled.unwrap_or(true),
        path: path.into(),
        retention: raw.retention.map_or(Days(90), |Text(days)| days).span(),
    }
}

fn list_refresh(raw: &raw::ModelLists, section: &Scribe<'_, '_>) -> Duration {
    let Text(Span(refresh)) = raw.refresh.unwrap_or(Text(Span(Duration::from_secs(3600))));
    section
        .key("refresh")
        .note_problem_if(refresh < Duration::from_secs(1), "must be at least 1s");
    refresh
}

/// Returns the proxies of the process.
fn resolve_proxies(raw: raw::UpstreamProxy, scribe: &Scribe<'_, '_>) -> Proxies {
    if raw == raw::UpstreamProxy::None {
        return Proxies::default();
    }
    let read = Proxies::from_environment(|name| scribe.look_up(Reference::Optional(name)));
    let read =
        scribe.read_or_noted(read.map_err(|wrong| format!("the environment variable {wrong}")));
    let (proxies, warnings) = read.unwrap_or_default();
    for warning in warnings {
        match warning {
            EnvironmentWarning::NoProxy => scribe.warn(
                "is `environment`, and neither HTTPS_PROXY nor HTTP_PROXY is set, in upper or lower case: no proxy is used",
            ),
            EnvironmentWarning::OnlyAllProxy => scribe.warn(
                "is `environment`, and only ALL_PROXY is set, which is not read: write its value into HTTPS_PROXY or HTTP_PROXY; no proxy is used",
            ),
            EnvironmentWarning::UselessExemptions(entries) => scribe.warn(&format!(
                "NO_PROXY has entries that match nothing ({entries}): write hosts such as a.example.com or .example.com, addresses, or ranges"
            )),
        }
    }
    proxies
}

/// Returns where the items of answers are kept.
fn item_cache(raw: &raw::Server, root: &Scribe<'_, '_>) -> ItemCacheMode {
    let mode = raw.item_cache.unwrap_or_default();
    let lacks = mode == ItemCacheMode::Store && (raw.store.is_none() || raw.seal.is_none());
    let message = "is `store`: it needs the section `store`, and `seal.keys`, which encrypt what is kept there; write                 both, or `memory`";
    root.key("item_cache").note_problem_if(lacks, message);
    mode
}

#[cfg(test)]
mod tests;
