//! A reading is a gauge of the running state. It is set anew for each request of `/metrics`.

use crate::account::condition::{AccountState, Reason, TargetState};
use crate::base::calendar;
use crate::base::clock::Clock;
use crate::desk::record::Books;
use crate::limits::{Kind, Level};
use crate::status::{LedgerState, StoreState};
use crate::store::Store;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// The most limits of callers that `/metrics` shows: the most used ones.
const MAX_SHARES: usize = 1_000;

/// Returns the text of `/metrics`.
pub fn metrics_text(books: &Books, store: Option<&Store>) -> String {
    read_accounts(books);
    let (metrics, snapshot) = (&books.metrics, books.live.load());
    metrics.models.waiting.clear();
    for (model, route) in snapshot.catalog.models().iter().zip(&snapshot.routes) {
        let waiting = i64::try_from(route.demand.waiting()).unwrap_or(i64::MAX);
        metrics
            .models
            .waiting
            .get_or_create(&[("model", Some(model.label().clone()))])
            .inc_by(waiting);
    }
    metrics.catalog.old_hash_uses.clear();
    for key in &snapshot.catalog.rotating {
        let uses = snapshot
            .scopes
            .get(key.index)
            .map(|scopes| scopes.last_used.old_hash_uses())
            .unwrap_or_default();
        metrics
            .catalog
            .old_hash_uses
            .get_or_create(&[("key", Some(key.id.clone()))])
            .inc_by(uses);
    }
    read_limits(books);
    let now = Clock::now();
    let waits = books
        .live
        .reloads
        .waiting(now)
        .map(|waiting| now.saturating_duration_since(waiting.since));
    metrics
        .catalog
        .waiting_seconds
        .set(waits.unwrap_or_default().as_secs_f64());
    metrics
        .process
        .lines_dropped
        .set(i64::try_from(books.access_log.dropped()).unwrap_or(i64::MAX));
    if let Some(store) = store {
        metrics
            .stores
            .up
            .get_or_create(&[])
            .set(i64::from(store.state() == StoreState::Up));
    }
    let ledger = books.ledger.status();
    for (counter, count) in [
        (&metrics.stores.ledger_rows, ledger.rows),
        (&metrics.stores.ledger_dropped, ledger.dropped),
        (
            &metrics.process.descriptors_lacking,
            books.descriptors.lacks(),
        ),
    ] {
        counter.inc_by(count.saturating_sub(counter.get()));
    }
    metrics
        .stores
        .ledger_up
        .set(i64::from(ledger.state == LedgerState::Ok));
    metrics.text()
}

/// Sets the gauges of the accounts.
fn read_accounts(books: &Books) {
    let (metrics, snapshot) = (&books.metrics.accounts, books.live.load());
    let (now, clock) = (Clock::now(), SystemTime::now());
    metrics.in_flight.clear();
    metrics.states.clear();
    metrics.reasons.clear();
    metrics.targets.clear();
    metrics.probing.clear();
    metrics.headroom.clear();
    // A provider may list thousands of models, and callers may ask for each.
    let listed = snapshot.catalog.listed_accounts();
    let targets = snapshot
        .catalog
        .models()
        .iter()
        .flat_map(|model| &model.targets);
    let targets = targets.filter(|target| listed.contains(&target.account.index));
    let written: HashSet<(usize, &str)> = targets
        .map(|target| (target.account.index, &*target.model))
        .collect();
    for (ready_account, healths) in snapshot.ready_accounts.iter().zip(snapshot.targets()) {
        let index = ready_account.account.index;
        let name = [("account", Some(ready_account.account.id.clone()))];
        let in_flight = i64::try_from(ready_account.state.in_flight()).unwrap_or(i64::MAX);
        metrics.in_flight.get_or_create(&name).set(in_flight);
        let signs = ready_account
            .state
            .signs(ready_account.account.enabled, now);
        let (present, reason) = signs.account(healths.iter().map(|(_, health)| health.signs(now)));
        for one in AccountState::ALL {
            metrics
                .states
                .get_or_create(&(name.clone(), [("state", one.name())]))
                .set(i64::from(one == present));
        }
        for one in Reason::ALL {
            let is_so = i64::from(Some(one) == reason);
            metrics
                .reasons
                .get_or_create(&(name.clone(), [("reason", one.name())]))
                .set(is_so);
        }
        let mut least: Option<f64> = None;
        for (model, health) in &healths {
            let target = health.status(now, clock);
            least = [least, target.headroom]
                .into_iter()
                .flatten()
                .min_by(f64::total_cmp);
            if listed.contains(&index) && !written.contains(&(index, model)) {
                continue;
            }
            let (endpoint, present) = (
                health.endpoint.name(),
                signs.target(Some(health.signs(now))),
            );
            let names = [
                ("account", Some(ready_account.account.id.clone())),
                ("model", Some(model.clone())),
            ];
            for one in TargetState::ALL {
                let labels = (
                    names.clone(),
                    [("endpoint", endpoint), ("state", one.name())],
                );
                metrics
                    .targets
                    .get_or_create(&labels)
                    .set(i64::from(one == present.state));
            }
            // All other targets need no test, and would have a series that is always 0.
            if present.state == TargetState::HalfOpen {
                let labels = (names, [("endpoint", endpoint)]);
                metrics
                    .probing
                    .get_or_create(&labels)
                    .set(i64::from(present.is_probing));
            }
        }
        if let Some(least) = least {
            metrics.headroom.get_or_create(&name).set(least);
        }
    }
}

/// Sets the gauges of the callers' limits: for each kind of limit, the highest share that a caller
/// or one of its keys has used of it. If metrics name no callers, it is the highest of all callers.
/// A limit of 0 has no share.
fn read_limits(books: &Books) {
    let (metrics, snapshot) = (&books.metrics.callers, books.live.load());
    metrics.limits_used.clear();
    let names_callers = books.metrics.has_callers();
    let now = calendar::now_millis();
    let mut shares: HashMap<(&str, Level, Kind), (f64, &Arc<str>)> = HashMap::new();
    let mut seen = HashSet::new();
    for key in snapshot.catalog.keys() {
        let Some(scopes) = snapshot.scopes.get(key.index) else {
            continue;
        };
        // The bounds of each key include those of its caller.
        for bound in scopes
            .every(key)
            .filter(|bound| seen.insert(Arc::as_ptr(bound.scope)))
        {
            let (level, caller) = (bound.scope.level, &key.caller.id);
            for (kind, used, limit) in bound
                .used_amounts(&bound.scope.own_counts(now))
                .filter(|(_, _, limit)| *limit > 0)
            {
                let share = used as f64 / limit as f64;
                let group = if names_callers { &**caller } else { "" };
                let (highest, _) = shares
                    .entry((group, level, kind))
                    .or_insert((share, caller));
                *highest = highest.max(share);
            }
        }
    }
    let mut shares: Vec<_> = shares.into_iter().collect();
    if shares.len() > MAX_SHARES {
        shares.select_nth_unstable_by(MAX_SHARES, |(_, (a, _)), (_, (b, _))| b.total_cmp(a));
        shares.truncate(MAX_SHARES);
    }
    for ((_, level, kind), (share, caller)) in shares {
        let caller = Some(caller.clone()).filter(|_| names_callers);
        let labels = (
            [("caller", caller)],
            [("level", level.name()), ("limit", kind.name())],
        );
        metrics.limits_used.get_or_create(&labels).set(share);
    }
}
