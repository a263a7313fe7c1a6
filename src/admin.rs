//! The admin listener: `/metrics`, `/status`, `/usage`, and the probes. A service of its own, on its own thread, so that it answers while everything else
//! is drained, up to the process's last moment. It knows no keys: bind it to an address that only operators reach.

use crate::ledger::days;
use crate::ledger::report::{Query, Unanswered, texts};
use crate::limits;
use crate::shared::Shared;
use async_trait::async_trait;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

mod status;

/// Scrapers are few.
const CONNECTIONS: usize = 64;
/// And quick.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many limited callers, keys and models of keys are told of.
const SCOPES: usize = 1_000;

/// The service.
pub struct Admin {
    shared: Arc<Shared>,
}

impl Admin {
    /// Over what all exchanges share.
    pub fn new(shared: Arc<Shared>) -> Admin {
        Admin { shared }
    }
}

#[async_trait]
impl Service for Admin {
    async fn start_service(&mut self, _: Option<ListenFds>, _: ShutdownWatch, _: usize) {
        let address = self.shared.server.admin;
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(why) => {
                log::error!("the admin listener cannot bind {address}: {why}");
                return;
            }
        };
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // Our listeners' connections are the runtime's children; it ends with the process.
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let shared = self.shared.clone();
                    #[expect(clippy::disallowed_methods, reason = "owned by this service's runtime, bounded in number and time")]
                    tokio::spawn(async move {
                        let _place = place;
                        // A scraper that is too slow is let go; there is nothing to tell it.
                        drop(tokio::time::timeout(PATIENCE, serve(&shared, stream)).await);
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

async fn serve(shared: &Arc<Shared>, stream: TcpStream) -> pingora::Result<()> {
    let mut session = ServerSession::new_http1(Box::new(Stream::from(stream)));
    if !session.read_request().await? {
        return Ok(());
    }
    session.set_keepalive(None);
    let head_only = session.req_header().method == http::Method::HEAD;
    let header = session.req_header();
    let (status, kind, body) = match header.uri.path().strip_prefix("/accounts/").and_then(|path| path.strip_suffix("/reset")) {
        // A page that somebody looks at must not be able to do this.
        Some(account) if header.method == http::Method::POST && header.headers.get(http::header::ORIGIN).is_none() => {
            reset(shared, account)
        }
        Some(_) => (405, "text/plain", "use POST, and not from a browser\n".to_owned()),
        None if header.uri.path() == "/usage" && (head_only || header.method == http::Method::GET) => {
            usage(shared, header.uri.query().unwrap_or("")).await
        }
        None if header.uri.path() == "/limits" && (head_only || header.method == http::Method::GET) => {
            limits(shared, header.uri.query().unwrap_or("")).await
        }
        None if head_only || header.method == http::Method::GET => answer(shared, header.uri.path()),
        None => (405, "text/plain", "use GET\n".to_owned()),
    };
    let allow = if header.uri.path().starts_with("/accounts/") { "POST" } else { "GET, HEAD" };
    let mut head = ResponseHeader::build(status, Some(4))?;
    head.insert_header("content-type", kind)?;
    if status != 204 {
        head.insert_header("content-length", body.len())?;
    }
    if status == 405 {
        head.insert_header("allow", allow)?;
    }
    session.write_response_header(Box::new(head)).await?;
    if !head_only {
        session.write_response_body(body.into(), true).await?;
    }
    session.finish().await.map(drop)
}

fn answer(shared: &Shared, path: &str) -> (u16, &'static str, String) {
    match path {
        "/livez" => (200, "text/plain", String::new()),
        "/readyz" => (if shared.drain.ready() { 200 } else { 503 }, "text/plain", String::new()),
        "/metrics" => (200, "application/openmetrics-text; version=1.0.0; charset=utf-8", shared.metrics.render(shared)),
        "/status" => (200, "application/json", format!("{:#}\n", status::of(shared))),
        _ => {
            let paths = "there are /status, /limits, /usage, /metrics, /livez and /readyz, and POST /accounts/NAME/reset\n";
            (404, "text/plain", paths.to_owned())
        }
    }
}

/// Reads the ledger, off this thread: it may take its time.
async fn usage(shared: &Arc<Shared>, query: &str) -> (u16, &'static str, String) {
    const PLAIN: &str = "text/plain";
    let query = match Query::of_url(query, days::now()) {
        Ok(query) => query,
        Err(why) => return (400, PLAIN, format!("{why}\n")),
    };
    if !shared.ledger.is_on() {
        return (404, PLAIN, "there is no ledger: `ledger.enabled` in server.yaml\n".to_owned());
    }
    let deadline = Instant::now() + PATIENCE.mul_f64(0.8);
    let shared = shared.clone();
    let answer = move || shared.ledger.answer(&query, deadline).map(|answer| answer.map(|answer| answer.json()));
    match tokio::task::spawn_blocking(answer).await {
        Ok(Ok(Some(json))) => (200, "application/json", json),
        Ok(Ok(None)) => (503, PLAIN, "the ledger has no file\n".to_owned()),
        Ok(Err(why @ Unanswered::TooMuch(_))) => (400, PLAIN, format!("{why}\n")),
        Ok(Err(why @ (Unanswered::TooLong | Unanswered::Busy | Unanswered::Unreadable(_)))) => (503, PLAIN, format!("{why}\n")),
        Err(why) => (500, PLAIN, format!("the ledger was not read: {why}\n")),
    }
}

/// How all limits stand, or those of one caller: the first of them by name. Those of a caller are in each of its keys' bounds.
async fn limits(shared: &Shared, query: &str) -> (u16, &'static str, String) {
    let texts = match texts(query, &["caller"]) {
        Ok(texts) => texts,
        Err(why) => return (400, "text/plain", format!("{why}\n")),
    };
    let caller = texts.get("caller");
    let snapshot = shared.live.load_full();
    let keys = snapshot.catalog.keys().filter(|key| caller.is_none_or(|caller| *key.caller.id == **caller));
    let scopes = keys.filter_map(|key| Some(snapshot.scopes.get(key.index)?.every(key)));
    let mut bounds: Vec<limits::Bound<'_>> = scopes.flatten().collect();
    bounds.sort_unstable_by(|a, b| a.scope.name.cmp(&b.scope.name));
    bounds.dedup_by(|a, b| Arc::ptr_eq(a.scope, b.scope));
    let more = bounds.len().saturating_sub(SCOPES);
    bounds.truncate(SCOPES);
    let of_all = match &shared.store {
        Some(store) => {
            let scopes: Vec<_> = bounds.iter().map(|bound| bound.scope.clone()).collect();
            tokio::time::timeout(PATIENCE / 2, store.counted(&scopes)).await.ok().flatten()
        }
        None => None,
    };
    let counted = if of_all.is_some() { "all instances" } else { "this instance" };
    let now = days::now();
    let counts = of_all.unwrap_or_else(|| bounds.iter().map(|bound| bound.scope.own(now)).collect());
    let told: Vec<_> = bounds.iter().zip(&counts).map(|(bound, counts)| limits::told(bound, counts, now)).collect();
    (200, "application/json", format!("{:#}\n", json!({ "counted": counted, "limits": told, "more": more })))
}

/// Ends an account's rests and closes its breakers.
fn reset(shared: &Shared, account: &str) -> (u16, &'static str, String) {
    let snapshot = shared.live.load();
    match snapshot.states.iter().find(|state| *state.id == *account) {
        Some(state) => {
            state.reset();
            log::info!("account {account}: its rests are ended and its breakers closed, as was asked for");
            (204, "text/plain", String::new())
        }
        None => (404, "text/plain", "no account of this name is in the catalog\n".to_owned()),
    }
}
