//! What `/metrics` shows of the running state: read anew each time somebody asks.

use crate::account::State;
use crate::account::health::Why;
use crate::account::track::Track;
use crate::desk::record::Books;
use crate::metrics::{AccountReading, Readings};
use crate::store::{self, Store};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Reads the running state.
pub fn readings(books: &Books, store: Option<&Store>) -> Readings {
    let (now, clock) = (Instant::now(), SystemTime::now());
    let snapshot = books.live.load();
    let accounts = snapshot.catalog.accounts().iter().zip(&snapshot.states).zip(&snapshot.tracks);
    let accounts = accounts.map(|((account, state), tracks)| {
        let targets: Vec<_> = tracks.iter().map(|(model, track)| (model.clone(), track.told(now, clock))).collect();
        AccountReading {
            account: account.id.clone(),
            in_flight: state.in_flight(),
            state: account_state(account.enabled, state, tracks, now),
            headroom: targets.iter().filter_map(|(_, target)| target.headroom).min_by(f64::total_cmp),
            breakers: targets.into_iter().map(|(model, target)| (model, target.breaker.name())).collect(),
        }
    });
    let models = snapshot.catalog.models().iter().zip(&snapshot.routes);
    let uses = |key: usize| snapshot.scopes.get(key).map(|scopes| scopes.used.old_hash_uses()).unwrap_or_default();
    let waits = books.live.reloads.waiting().map(|waiting| now.saturating_duration_since(waiting.since));
    Readings {
        accounts: accounts.collect(),
        waiting: models.map(|(model, route)| (model.id.clone(), route.demand.waiting())).collect(),
        old_hash_uses: snapshot.catalog.rotating().iter().map(|key| (key.id.clone(), uses(key.index))).collect(),
        edit_waits: waits.unwrap_or_default(),
        lines_dropped: books.access_log.dropped(),
        store_is_up: store.map(|store| store.state() == store::State::Up),
        ledger: books.ledger.told(),
    }
}

/// Returns the word for an account's state, in metrics and `/status`. An account rests for its rate
/// if any of its targets does.
pub(super) fn account_state(
    enabled: bool,
    state: &State,
    tracks: &[(Arc<str>, Arc<Track>)],
    now: Instant,
) -> &'static str {
    if !enabled {
        return "disabled";
    }
    if state.health.rest(now).is_some() {
        return "cooling_credential";
    }
    let for_rate = |(_, track): &(Arc<str>, Arc<Track>)| track.rest(now).is_some_and(|rest| rest.why == Why::Rate);
    if tracks.iter().any(for_rate) { "cooling_rate" } else { "ok" }
}
