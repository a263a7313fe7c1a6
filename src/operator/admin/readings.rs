//! A reading is a gauge of the running state. It is set anew for each request of `/metrics`.

use crate::account::condition::{AccountState, Reason, TargetState};
use crate::base::calendar;
use crate::base::clock::Clock;
use crate::desk::record::Books;
use crate::limits::{Kind, Level};
use crate::live::key_summary::MAX_LISTED;
use crate::status::{LedgerState, StoreState};
use crate::store::Store;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

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
            .key_scopes(key)
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
/// A limit of 0 has no share. At most [`MAX_LISTED`] are shown: the most used ones.
fn read_limits(books: &Books) {
    let (metrics, snapshot) = (&books.metrics.callers, books.live.load());
    metrics.limits_used.clear();
    let names_callers = books.metrics.has_callers();
    let now = calendar::now_millis();
    let mut shares: HashMap<(Option<&Arc<str>>, Level, Kind), f64> = HashMap::new();
    let keys = snapshot.used_keys(&books.live.limits);
    for (key, bound) in snapshot.bounds(keys.into_iter()) {
        let (level, caller) = (bound.scope.level, &key.caller.id);
        for (kind, used, limit) in bound
            .used_amounts(&bound.scope.own_counts(now))
            .filter(|(_, _, limit)| *limit > 0)
        {
            let share = used as f64 / limit as f64;
            let caller = Some(caller).filter(|_| names_callers);
            let highest = shares.entry((caller, level, kind)).or_default();
            *highest = highest.max(share);
        }
    }
    let summary = snapshot.key_summary();
    // Of the other limits nothing is used.
    if names_callers {
        for (caller, level, kind) in &summary.caller_limits {
            if shares.len() < MAX_LISTED {
                shares.entry((Some(caller), *level, *kind)).or_default();
            }
        }
    } else {
        for (level, kind) in &summary.limit_kinds {
            shares.entry((None, *level, *kind)).or_default();
        }
    }
    let mut shares: Vec<_> = shares.into_iter().collect();
    if shares.len() > MAX_LISTED {
        shares.select_nth_unstable_by(MAX_LISTED, |(_, a), (_, b)| b.total_cmp(a));
        shares.truncate(MAX_LISTED);
    }
    for ((caller, level, kind), share) in shares {
        let labels = (
            [("caller", caller.cloned())],
            [("level", level.name()), ("limit", kind.name())],
        );
        metrics.limits_used.get_or_create(&labels).set(share);
    }
}
