//! The admin listener: `/metrics`, `/status`, `/usage`, and the probes. A service of its own, on its own thread, so that it answers while everything else
//! is drained, up to the process's last moment. It knows no keys: bind it to an address that only operators reach.

use crate::access_log::rfc3339;
use crate::account::breaker;
use crate::account::track::Told;
use crate::catalog::reload::{self, Route, Snapshot};
use crate::drain::Phase;
use crate::exchange::upstream::Place;
use crate::ledger::days;
use crate::ledger::report::{Query, Unanswered, texts};
use crate::limits;
use crate::metrics::account_state;
use crate::shared::Shared;
use async_trait::async_trait;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::protocols::l4::stream::Stream;
use pingora::server::{ListenFds, ShutdownWatch};
use pingora::services::Service;
use serde_json::json;
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Scrapers are few.
const CONNECTIONS: usize = 64;
/// And quick.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many keys are told of: `/status` is read by people.
const KEYS: usize = 1_000;
/// And of so many limited callers, keys and models of keys.
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
        "/status" => (200, "application/json", format!("{:#}\n", status(shared))),
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

fn status(shared: &Shared) -> serde_json::Value {
    let snapshot = shared.live.load();
    let (now, clock) = (Instant::now(), SystemTime::now());
    let accounts: Vec<_> = snapshot
        .places
        .iter()
        .zip(&snapshot.tracks)
        .map(|(place, tracks)| {
            let targets: Vec<_> = tracks.iter().map(|(model, track)| (model, track.told(now, clock))).collect();
            let least = targets.iter().filter_map(|(_, told)| told.headroom).min_by(f64::total_cmp);
            let targets: Vec<_> = targets.iter().map(|(model, told)| target(place, model, told, now)).collect();
            json!({
                "id": place.account.id,
                "dialect": place.account.dialect.name(),
                "state": account_state(place.account.enabled, &place.state, tracks, now),
                "in_flight": place.state.in_flight(),
                "concurrency": place.account.concurrency,
                "idle_connections": place.state.pool.len(),
                "headroom": least.map(rounded),
                "targets": targets,
            })
        })
        .collect();
    let models: Vec<_> = snapshot
        .catalog
        .models()
        .iter()
        .zip(&snapshot.routes)
        .map(|(model, Route { demand, .. })| {
            json!({ "id": model.id, "waiting": demand.waiting(), "retry_budget_spent": rounded(demand.spent(now)) })
        })
        .collect();
    let reload::Told { refused, held } = shared.reloads.told();
    let ledger = shared.ledger.told();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "phase": phase_name(shared.drain.phase()),
        "ready": shared.drain.ready(),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "exchanges": shared.drain.exchanges(),
        "catalog": {
            "generation": snapshot.generation,
            "hash": snapshot.catalog.hash,
            "loaded": rfc3339(snapshot.loaded),
            "accounts": snapshot.catalog.accounts().len(),
            "models": snapshot.catalog.models().len(),
            "callers": snapshot.catalog.callers().len(),
            "keys": snapshot.catalog.key_count(),
            "warnings": snapshot.catalog.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "last_refusal": refused.map(|r| json!({ "time": rfc3339(r.at), "standing": r.standing, "reasons": r.reasons })),
            "held": held,
        },
        "ledger": {
            "state": ledger.state.name(),
            "path": shared.ledger.path(),
            "rows": ledger.rows,
            "waiting": ledger.waiting,
            "dropped": ledger.dropped,
            "problem": ledger.error,
        },
        "store": shared.store.as_ref().map(|store| {
            let told = store.told();
            json!({
                "state": told.state.name(),
                "for_seconds": told.time.as_secs(),
                "address": told.address,
                "live": told.live,
                "waiting": told.waiting,
                "clock_ahead_ms": told.clock_ahead_ms,
                "error": told.error,
            })
        }),
        "accounts": accounts,
        "keys": keys(&snapshot),
        "models": models,
    })
}

/// The keys that were ever used, as far as is known, the last one first.
fn keys(snapshot: &Snapshot) -> Vec<serde_json::Value> {
    let time = |at: u64| rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(at));
    let mut used: Vec<_> = snapshot
        .catalog
        .keys()
        .filter_map(|key| {
            let used = &snapshot.scopes.get(key.index)?.used;
            Some((used.at()?, key, used.old_hash_at()))
        })
        .collect();
    // A key with several secrets comes several times.
    used.sort_unstable_by_key(|(_, key, _)| key.index);
    used.dedup_by_key(|(_, key, _)| key.index);
    used.sort_by_key(|(at, ..)| Reverse(*at));
    used.truncate(KEYS);
    used.into_iter().map(|(at, key, old)| json!({ "id": key.id, "last_used": time(at), "old_hash_last_used": old.map(time) })).collect()
}

/// How a target does.
fn target(place: &Place, model: &str, told: &Told, now: Instant) -> serde_json::Value {
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let until = |at: Instant| millis(at.saturating_duration_since(now));
    let [whole, first] = told.expected;
    let rest = place.state.health.rest(now).or(told.rest);
    json!({
        "model": model,
        "breaker": told.breaker.name(),
        "opens_in_ms": if let breaker::State::Open(at) = told.breaker { Some(until(at)) } else { None },
        "calls": told.calls.0,
        "failed": told.calls.1,
        "rest": rest.map(|rest| json!({ "why": rest.why.name(), "for_ms": until(rest.until) })),
        "first_token_ms": first.map(millis),
        "whole_ms": whole.map(millis),
        "awaited": told.awaited,
        "headroom": told.headroom.map(rounded),
    })
}

/// To the thousandth.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Starting => "starting",
        Phase::Serving => "serving",
        Phase::Delaying => "delaying",
        Phase::Draining => "draining",
        Phase::Cutting => "cutting",
    }
}
