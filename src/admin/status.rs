//! `/status`: how things are, for people and for the command line.

use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::Desk;
use super::readings::account_state;
use crate::access_log::rfc3339;
use crate::account::breaker;
use crate::account::track::{Told, Trouble};
use crate::drain::Phase;
use crate::live;
use crate::live::Route;
use crate::live::Snapshot;
use crate::live::place::Place;

/// So many keys are told of: it is read by people.
const KEYS: usize = 1_000;
/// And so many files.
const FILES: usize = 1_000;

/// The page, as it is now.
pub(super) fn of(desk: &Desk) -> serde_json::Value {
    let snapshot = desk.books.live.load();
    let (now, clock) = (Instant::now(), SystemTime::now());
    let accounts: Vec<_> = snapshot
        .places
        .iter()
        .zip(&snapshot.tracks)
        .map(|(place, tracks)| {
            let targets: Vec<_> =
                tracks.iter().map(|(model, track)| (model, track.told(now, clock), track.trouble())).collect();
            let least = targets.iter().filter_map(|(_, told, _)| told.headroom).min_by(f64::total_cmp);
            let targets: Vec<_> = targets
                .iter()
                .map(|(model, told, trouble)| target(place, model, told, trouble.as_ref(), now))
                .collect();
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
    let live::Told { refused, held } = desk.books.live.reloads.told();
    let ledger = desk.books.ledger.status();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "phase": phase_name(desk.books.drain.phase()),
        "ready": desk.books.drain.ready(),
        "uptime_seconds": desk.started.elapsed().as_secs(),
        "exchanges": desk.books.drain.exchanges(),
        "catalog": {
            "generation": snapshot.generation,
            "hash": snapshot.catalog.hash,
            "loaded": rfc3339(snapshot.loaded),
            "accounts": snapshot.catalog.accounts().len(),
            "models": snapshot.catalog.models().len(),
            "callers": snapshot.catalog.callers().len(),
            "keys": snapshot.catalog.key_count(),
            "warnings": snapshot.catalog.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "last_refusal": refused.map(|refused| refusal(desk, &refused)),
            "held": held,
            "folder": folder(desk),
            "waiting": waiting(desk, now),
            "files": files(desk, now, clock),
        },
        "ledger": {
            "state": ledger.state.name(),
            "path": desk.books.ledger.path(),
            "rows": ledger.rows,
            "waiting": ledger.waiting,
            "dropped": ledger.dropped,
            "problem": ledger.error,
        },
        "store": desk.backends.store.as_ref().map(|store| {
            let told = store.status();
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

/// Which folder is served: by its device and inode, so that nobody takes another one for it.
fn folder(desk: &Desk) -> Option<serde_json::Value> {
    let path = desk.books.live.reloads.folder()?;
    let metadata = std::fs::metadata(path).ok();
    Some(json!({
        "path": path,
        "device": metadata.as_ref().map(MetadataExt::dev),
        "inode": metadata.as_ref().map(MetadataExt::ino),
    }))
}

/// What was refused, why, and what serves on instead.
fn refusal(desk: &Desk, refused: &live::Refused) -> serde_json::Value {
    let withheld: Vec<_> = refused.withheld.iter().take(FILES).map(|path| name(desk, path)).collect();
    json!({ "time": rfc3339(refused.at), "standing": refused.standing, "reasons": refused.reasons, "withheld": withheld })
}

/// The change that is not live yet, and for how long.
fn waiting(desk: &Desk, now: Instant) -> Option<serde_json::Value> {
    let waiting = desk.books.live.reloads.waiting()?;
    let millis = |since: Instant| u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
    let name = |path: &Path| name(desk, path);
    let endless = waiting.endless.iter().map(|(path, since)| json!({ "file": name(path), "for_ms": millis(*since) }));
    Some(json!({
        "for_ms": millis(waiting.since),
        "files": waiting.files.iter().take(FILES).map(|path| name(path)).collect::<Vec<_>>(),
        "endless": endless.take(FILES).collect::<Vec<_>>(),
    }))
}

/// The files that changed last: an edit that was made before this time is live.
fn files(desk: &Desk, now: Instant, clock: SystemTime) -> Vec<serde_json::Value> {
    let live = desk.books.live.reloads.live();
    let at = |at: Instant| rfc3339(clock.checked_sub(now.saturating_duration_since(at)).unwrap_or(clock));
    let told = live.iter().rev().take(FILES);
    told.map(|(path, seen)| json!({ "file": name(desk, path), "live_as_of": at(*seen) })).collect()
}

/// As the operator knows it: `catalog.d/10-acme.yaml`.
fn name(desk: &Desk, path: &Path) -> String {
    let within = desk
        .books
        .live
        .reloads
        .folder()
        .and_then(|folder| std::path::absolute(path).ok()?.strip_prefix(folder).ok().map(Path::to_owned));
    within.as_deref().unwrap_or(path).display().to_string()
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
    used.into_iter()
        .map(|(at, key, old)| json!({ "id": key.id, "last_used": time(at), "old_hash_last_used": old.map(time) }))
        .collect()
}

/// How a target does.
fn target(place: &Place, model: &str, told: &Told, trouble: Option<&Trouble>, now: Instant) -> serde_json::Value {
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
        "last_failure": trouble.map(|trouble| {
            let ago = millis(now.saturating_duration_since(trouble.at));
            json!({ "outcome": trouble.outcome, "detail": trouble.detail, "ago_ms": ago })
        }),
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
