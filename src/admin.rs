//! The admin listener shows operators `/metrics`, `/status`, `/usage` and `/limits`, and answers
//! probes. It is a service of its own, on its own thread, so that it answers during a drain, up to
//! the process's last moment. It asks for no key: bind it to an address that only operators reach.
//! **Invariant:** `/livez` and `/readyz` are answered, no matter who asks, by which name, and how
//! many others are connected.

use crate::base::calendar;
use crate::base::lock::Lock;
use crate::desk::record::Books;
use crate::exchange::backends::Backends;
use crate::ledger::Ledger;
use crate::ledger::report::{Query, Unanswered, texts};
use crate::limits;
use crate::live::Live;
use crate::store::Store;
use async_trait::async_trait;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::oneshot::Receiver;

mod host;
mod places;
mod readings;
mod status;

use host::HostNames;
use places::{Connected, Places};
pub use readings::metrics;

/// The most connections that are open at once. Most of them send nothing: see [`places`].
const CONNECTIONS: usize = 512;
/// The most requests, probes aside, that are answered at once: scrapers are few.
const ASKING: usize = 64;
/// The longest time for an answer: scrapers are quick.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The time between two log lines about names that are refused.
const SILENCE: Duration = Duration::from_secs(60);
const PLAIN: &str = "text/plain";
/// Headers on each answer, since a browser may show it.
const GUARDS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];
/// The most callers, keys and keys' models that `/limits` shows.
const SCOPES: usize = 1_000;

/// The service.
pub struct Admin {
    pages: Arc<Pages>,
}

/// The pages that all connections share.
struct Pages {
    books: Arc<Books>,
    backends: Arc<Backends>,
    started: Instant,
    names: HostNames,
    asking: Semaphore,
    /// The time of the last log line about a refused name.
    warned: Lock<Option<Instant>>,
}

/// A page: its status, content type and body.
type Page = (u16, &'static str, String);

impl Admin {
    /// Returns the service. `started` is the time at which the process began to serve.
    pub fn new(books: Arc<Books>, backends: Arc<Backends>, started: Instant) -> Admin {
        // If a file cannot be read, its names are not known.
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let names =
            HostNames::new(read("/proc/sys/kernel/hostname").trim(), &read("/etc/hosts"), &backends.server.admin_hosts);
        let (asking, warned) = (Semaphore::new(ASKING), Lock::default());
        Admin { pages: Arc::new(Pages { books, backends, started, names, asking, warned }) }
    }
}

#[async_trait]
impl Service for Admin {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let address = self.pages.backends.server.admin;
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(why) => return log::error!("the admin listener cannot bind {address}: {why}"),
        };
        let places = Places::new(CONNECTIONS);
        // The connections' tasks belong to this service's runtime, which ends with the process.
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // If all places are busy, the new connection is closed at once.
                    let Some((place, leaving)) = places.take() else { continue };
                    let pages = self.pages.clone();
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "owned by this service's runtime, bounded in number and time"
                    )]
                    tokio::spawn(async move {
                        // A scraper that is too slow is disconnected; there is nothing to tell it.
                        drop(tokio::time::timeout(PATIENCE, pages.serve(stream, &place, leaving)).await);
                    });
                }
                Err(why) => {
                    log::warn!("the admin listener cannot accept: {why}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    fn name(&self) -> &str {
        "admin"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}

impl Pages {
    /// Reads one request, and writes its page.
    async fn serve(&self, stream: TcpStream, place: &Connected, leaving: Receiver<()>) -> pingora::Result<()> {
        let mut session = ServerSession::new_http1(Box::new(Stream::from(stream)));
        let has_head = tokio::select! {
            head = tokio::time::timeout(HEAD, session.read_request()) => matches!(head, Ok(Ok(true))),
            _ = leaving => false,
        };
        if !has_head || !place.is_busy() {
            return Ok(());
        }
        session.set_keepalive(None);
        let header = session.req_header();
        let head_only = header.method == http::Method::HEAD;
        let allow = if header.uri.path().starts_with("/accounts/") { "POST" } else { "GET, HEAD" };
        let (status, kind, body) = self.answer(header).await;
        let mut head = ResponseHeader::build(status, Some(4 + GUARDS.len()))?;
        head.insert_header("content-type", kind)?;
        if status != 204 {
            head.insert_header("content-length", body.len())?;
        }
        if status == 405 {
            head.insert_header("allow", allow)?;
        }
        for (name, value) in GUARDS {
            head.insert_header(name, value)?;
        }
        session.write_response_header(Box::new(head)).await?;
        if !head_only {
            session.write_response_body(body.into(), true).await?;
        }
        session.finish().await.map(drop)
    }

    /// Returns the page that a request asks for.
    async fn answer(&self, header: &RequestHeader) -> Page {
        // A probe's answer has nothing worth protecting, so a probe needs no allowed name and no
        // place. It must be answered whoever else asks.
        if let Some(healthy) = self.probe(header) {
            return (if healthy { 200 } else { 503 }, PLAIN, String::new());
        }
        if let Some(host) = hosts(header).find(|host| !self.names.allow(host)) {
            self.warn(host);
            return (421, PLAIN, host::refusal(host));
        }
        let Ok(_asking) = self.asking.try_acquire() else {
            return (503, PLAIN, "too many requests to the admin listener at once: try again\n".to_owned());
        };
        let (path, query) = (header.uri.path(), header.uri.query().unwrap_or(""));
        let reads = matches!(header.method, http::Method::GET | http::Method::HEAD);
        match path.strip_prefix("/accounts/").and_then(|path| path.strip_suffix("/reset")) {
            Some(account) if header.method == http::Method::POST && is_from_here(header) => {
                reset(&self.books.live, account)
            }
            Some(_) => (405, PLAIN, "use POST, and do not send it from a web page of another site\n".to_owned()),
            None if !reads => (405, PLAIN, "use GET\n".to_owned()),
            None => match path {
                "/usage" => usage(&self.books.ledger, query).await,
                "/limits" => limits(&self.books.live, self.backends.store.as_ref(), query).await,
                "/metrics" => (
                    200,
                    "application/openmetrics-text; version=1.0.0; charset=utf-8",
                    metrics(&self.books, self.backends.store.as_ref()),
                ),
                // Strings, numbers and lists of them always serialise.
                "/status" => {
                    let page = serde_json::to_string_pretty(&status::of(self)).unwrap_or_default();
                    (200, "application/json", page + "\n")
                }
                _ => {
                    let paths = "no such page. Use /status, /limits, /usage, /metrics, /livez, /readyz, or POST /accounts/NAME/reset\n";
                    (404, PLAIN, paths.to_owned())
                }
            },
        }
    }

    /// Returns whether the process is well, if the request is a probe. HAProxy asks `OPTIONS /` by
    /// default.
    fn probe(&self, header: &RequestHeader) -> Option<bool> {
        let options = header.method == http::Method::OPTIONS;
        let asks = options || header.method == http::Method::GET || header.method == http::Method::HEAD;
        match header.uri.path() {
            "/livez" if asks => Some(true),
            "/readyz" if asks => Some(self.books.drain.ready()),
            "/" | "*" if options => Some(self.books.drain.ready()),
            _ => None,
        }
    }

    /// Logs that a name is refused, since the operator may have to add it.
    fn warn(&self, host: &str) {
        let mut warned = self.warned.lock();
        if warned.is_none_or(|at| at.elapsed() >= SILENCE) {
            *warned = Some(Instant::now());
            log::warn!("{}", host::refusal(host).trim_end());
        }
    }
}

/// Returns all hosts that the request names. If the request's target also names a host, it is the
/// same one, or Pingora closes the connection.
fn hosts(header: &RequestHeader) -> impl Iterator<Item = &str> {
    // A value that is not text is not a host.
    header.headers.get_all(http::header::HOST).iter().map(|value| value.to_str().unwrap_or("?"))
}

/// Returns whether a request comes from no web page, or from one of ours. A page of another site
/// cannot send the header without asking first.
fn is_from_here(header: &RequestHeader) -> bool {
    let text = |name: http::HeaderName| header.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let Some(origin) = text(http::header::ORIGIN) else { return true };
    let ours = text(http::header::HOST)
        .filter(|host| !host.is_empty())
        .is_some_and(|host| origin.strip_prefix("http://") == Some(host));
    ours && header.headers.get("x-portcullis-admin").is_some_and(|value| value == "1")
}

/// Answers from the ledger, on another thread, since reading may take long.
async fn usage(ledger: &Arc<Ledger>, query: &str) -> Page {
    let query = match Query::of_url(query, calendar::now()) {
        Ok(query) => query,
        Err(why) => return (400, PLAIN, format!("{why}\n")),
    };
    if !ledger.is_on() {
        return (404, PLAIN, "the ledger is switched off: `ledger.enabled` is false in server.yaml\n".to_owned());
    }
    let deadline = Instant::now() + PATIENCE.mul_f64(0.8);
    let ledger = ledger.clone();
    let answer = move || ledger.answer(&query, deadline).map(|answer| answer.map(|answer| answer.json()));
    match tokio::task::spawn_blocking(answer).await {
        Ok(Ok(Some(json))) => (200, "application/json", json),
        Ok(Ok(None)) => (503, PLAIN, "the ledger has no file yet\n".to_owned()),
        Ok(Err(why)) => (if let Unanswered::TooMuch(_) = why { 400 } else { 503 }, PLAIN, format!("{why}\n")),
        Err(why) => (500, PLAIN, format!("the ledger could not be read: {why}\n")),
    }
}

/// Shows the state of all limits, or of one caller's: the first ones by name. The bounds of each
/// key include those of its caller.
async fn limits(live: &Live, store: Option<&Store>, query: &str) -> Page {
    let texts = match texts(query, &["caller"]) {
        Ok(texts) => texts,
        Err(why) => return (400, PLAIN, format!("{why}\n")),
    };
    let caller = texts.get("caller");
    let snapshot = live.load_full();
    let keys = snapshot.catalog.keys().filter(|key| caller.is_none_or(|caller| *key.caller.id == **caller));
    let scopes = keys.filter_map(|key| Some(snapshot.scopes.get(key.index)?.every(key)));
    let mut bounds: Vec<limits::Bound<'_>> = scopes.flatten().collect();
    bounds.sort_unstable_by(|a, b| a.scope.name.cmp(&b.scope.name));
    bounds.dedup_by(|a, b| Arc::ptr_eq(a.scope, b.scope));
    let more = bounds.len().saturating_sub(SCOPES);
    bounds.truncate(SCOPES);
    let of_all = match store {
        Some(store) => {
            let scopes: Vec<_> = bounds.iter().map(|bound| bound.scope.clone()).collect();
            tokio::time::timeout(PATIENCE / 2, store.counted(&scopes)).await.ok().flatten()
        }
        None => None,
    };
    let counted = if of_all.is_some() { "all instances" } else { "this instance" };
    let now = calendar::now();
    let counts = of_all.unwrap_or_else(|| bounds.iter().map(|bound| bound.scope.own(now)).collect());
    let told: Vec<_> = bounds.iter().zip(&counts).map(|(bound, counts)| limits::report(bound, counts, now)).collect();
    (200, "application/json", format!("{:#}\n", json!({ "counted": counted, "limits": told, "more": more })))
}

/// Ends an account's rests and closes its breakers.
fn reset(live: &Live, account: &str) -> Page {
    let snapshot = live.load();
    match snapshot.states.iter().find(|state| *state.id == *account) {
        Some(state) => {
            state.reset();
            log::info!("account {account} was reset by an operator: its rests have ended, and its breakers are closed");
            (204, PLAIN, String::new())
        }
        None => (404, PLAIN, "the catalog has no account with this name\n".to_owned()),
    }
}
