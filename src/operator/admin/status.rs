//! Fills in a [`Status`] from the state of the process.

use crate::base::clock::Clock;
use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::Pages;
use crate::account::breaker::BreakerState;
use crate::account::condition::AccountSigns;
use crate::account::track::TargetHealth;
use crate::base::calendar::{rfc3339, time};
use crate::catalog::Key;
use crate::live::place::Place;
use crate::live::{self, Route, Snapshot};
use crate::settled::millis;
use crate::status::{
    AccountReport, BreakerReport, CatalogReport, ChangeReport, DescriptorsReport, EndlessReport,
    FailureReport, FileReport, FolderReport, KeyReport, ListReport, ModelReport, RefusalReport,
    RestReport, Status, TargetReport,
};

/// The most keys that the page lists, because people read it.
const KEYS: usize = 1_000;
/// The time over which callers are counted who gave a target up.
const MINUTE: Duration = Duration::from_secs(60);
/// The most files that the page lists.
const FILES: usize = 1_000;

/// Returns the page with the present state.
pub(super) fn of(pages: &Pages) -> Status {
    let snapshot = pages.books.live.load();
    let (now, clock) = (Clock::now(), SystemTime::now());
    let models = snapshot.catalog.models().iter().zip(&snapshot.routes).map(
        |(model, Route { demand, .. })| {
            let id = model.id.to_string();
            ModelReport {
                id,
                retry_budget_spent: rounded(demand.spent(now)),
                waiting: demand.waiting(),
            }
        },
    );
    let sight = pages.watch.look();
    Status {
        accounts: accounts(&snapshot, now, clock),
        catalog: catalog(pages, &snapshot, now, clock),
        descriptors: descriptors(pages),
        exchanges: pages.books.drain.exchanges(),
        keys: keys(&snapshot),
        ledger: pages.books.ledger.status(),
        models: models.collect(),
        more_problems: sight.problems.more,
        phase: pages.books.drain.phase(),
        problems: sight.problems.list.clone(),
        ready: pages.books.drain.ready(),
        store: pages.backends.store.as_ref().map(|store| store.status()),
        unpriced: pages.books.unpriced.report(snapshot.generation),
        uptime_seconds: pages.started.elapsed().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn descriptors(pages: &Pages) -> DescriptorsReport {
    let descriptors = &pages.books.descriptors;
    DescriptorsReport {
        connections: pages
            .backends
            .server
            .limits
            .connections_within(descriptors.limit()),
        lacking: descriptors.is_lacking(),
        limit: descriptors.limit(),
    }
}

fn accounts(snapshot: &Snapshot, now: Instant, clock: SystemTime) -> Vec<AccountReport> {
    let listed = snapshot.catalog.listed_accounts();
    let accounts = snapshot
        .places
        .iter()
        .zip(snapshot.targets())
        .map(|(place, tracks)| {
            let signs = place.state.signs(place.account.enabled, now);
            let targets = tracks
                .iter()
                .map(|(model, track)| target(model, track, &signs, now, clock));
            let targets: Vec<TargetReport> = targets.collect();
            let (state, reason) = signs.account(tracks.iter().map(|(_, track)| track.signs(now)));
            AccountReport {
                concurrency: place.account.concurrency,
                dialect: place.account.dialect.protocol.name.to_owned(),
                headroom: targets
                    .iter()
                    .filter_map(|target| target.headroom)
                    .min_by(f64::total_cmp),
                id: place.account.id.to_string(),
                idle_connections: place.state.http1.idle(),
                in_flight: place.state.in_flight(),
                list: listed
                    .contains(&place.account.index)
                    .then(|| list(place, clock)),
                reason,
                state,
                targets,
            }
        });
    accounts.collect()
}

fn list(place: &Place, clock: SystemTime) -> ListReport {
    let list = place.state.listing.state();
    let (failure_time, failure) = list.failure.map(|(at, why)| (rfc3339(at), why)).unzip();
    ListReport {
        age_seconds: list
            .fetched
            .map(|at| clock.duration_since(at).unwrap_or_default().as_secs()),
        failure,
        failure_time,
        left_out: list.names.as_ref().map_or(0, |names| names.left_out),
        names: list.names.as_ref().map_or(0, |names| names.names.len()),
    }
}

fn target(
    model: &str,
    track: &TargetHealth,
    account: &AccountSigns,
    now: Instant,
    clock: SystemTime,
) -> TargetReport {
    let until = |at: Instant| millis(at.saturating_duration_since(now));
    let known = track.status(now, clock);
    // An estimate that has faded away with time is none.
    let [whole, first] = known
        .expected
        .map(|time| time.map(millis).filter(|millis| *millis > 0));
    let rest = account.rest.or(known.rest);
    let condition = account.target(Some(track.signs(now)));
    let (breaker, opens_in_ms) = match known.breaker {
        BreakerState::Closed => (BreakerReport::Closed, None),
        BreakerState::Open(at) => (BreakerReport::Open, Some(until(at))),
        BreakerState::HalfOpen { .. } => (BreakerReport::HalfOpen, None),
    };
    TargetReport {
        awaited: known.awaited,
        behind_for_ms: known.behind.map(until),
        breaker,
        calls: known.calls.0,
        endpoint: track.endpoint.name().to_owned(),
        failed: known.calls.1,
        first_token_ms: first,
        given_up: track.series.last(MINUTE, now).given_up.into(),
        headroom: known.headroom.map(rounded),
        last_failure: track.trouble().map(|trouble| FailureReport {
            ago_ms: millis(now.saturating_duration_since(trouble.at)),
            detail: trouble.detail,
            outcome: trouble.outcome.to_owned(),
        }),
        model: model.to_owned(),
        opens_in_ms,
        probing: condition.is_probing,
        reason: condition.reason,
        rest: rest.map(|rest| RestReport {
            for_ms: until(rest.until),
            why: rest.why,
        }),
        state: condition.state,
        whole_ms: whole,
    }
}

fn catalog(pages: &Pages, snapshot: &Snapshot, now: Instant, clock: SystemTime) -> CatalogReport {
    let live::ReloadStatus { refused, held } = pages.books.live.reloads.status();
    let served = &snapshot.catalog;
    CatalogReport {
        accounts: served.accounts().len(),
        callers: served.callers().len(),
        files: files(pages, now, clock),
        folder: folder(pages),
        generation: snapshot.generation,
        hash: snapshot
            .marks(pages.backends.server.admin.is_guarded())
            .hash
            .clone(),
        held,
        keys: served.key_count(),
        last_refusal: refused.map(|refused| RefusalReport {
            withheld: refused
                .withheld
                .iter()
                .take(FILES)
                .map(|path| name(pages, path))
                .collect(),
            reasons: refused.reasons,
            standing: refused.standing,
            time: rfc3339(refused.at),
        }),
        loaded: rfc3339(snapshot.loaded),
        models: served.models().len(),
        waiting: waiting(pages, now),
        warnings: served.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn folder(pages: &Pages) -> Option<FolderReport> {
    let path = pages.books.live.reloads.folder()?;
    let metadata = std::fs::metadata(path).ok();
    Some(FolderReport {
        device: metadata.as_ref().map(MetadataExt::dev),
        inode: metadata.as_ref().map(MetadataExt::ino),
        path: path.display().to_string(),
    })
}

fn waiting(pages: &Pages, now: Instant) -> Option<ChangeReport> {
    let waiting = pages.books.live.reloads.waiting(now)?;
    let since = |since: Instant| millis(now.saturating_duration_since(since));
    let endless = waiting.endless.iter().take(FILES);
    Some(ChangeReport {
        endless: endless
            .map(|(path, at)| EndlessReport {
                file: name(pages, path),
                for_ms: since(*at),
            })
            .collect(),
        files: waiting
            .files
            .iter()
            .take(FILES)
            .map(|path| name(pages, path))
            .collect(),
        for_ms: since(waiting.since),
    })
}

/// Lists the files whose live text changed last.
fn files(pages: &Pages, now: Instant, clock: SystemTime) -> Vec<FileReport> {
    let live = pages.books.live.reloads.live();
    let at = |at: Instant| {
        rfc3339(
            clock
                .checked_sub(now.saturating_duration_since(at))
                .unwrap_or(clock),
        )
    };
    let last = live.iter().rev().take(FILES);
    last.map(|(path, seen)| FileReport {
        file: name(pages, path),
        live_as_of: at(*seen),
    })
    .collect()
}

/// Returns a file's name as the operator knows it: `catalog.d/10-acme.yaml`.
fn name(pages: &Pages, path: &Path) -> String {
    let (folder, absolute) = (
        pages.books.live.reloads.folder(),
        std::path::absolute(path).ok(),
    );
    let within = folder
        .zip(absolute.as_deref())
        .and_then(|(folder, path)| path.strip_prefix(folder).ok());
    within.unwrap_or(path).display().to_string()
}

/// Lists the keys that were ever used, as far as is known. The key that was used last comes first.
fn keys(snapshot: &Snapshot) -> Vec<KeyReport> {
    let used = snapshot.catalog.keys().filter_map(|key| {
        let used = &snapshot.scopes.get(key.index)?.used;
        Some((used.at()?, key, used.old_hash_at()))
    });
    let mut used: Vec<_> = used.collect();
    // A key with several secrets appears several times.
    used.sort_unstable_by_key(|(_, key, _)| key.index);
    used.dedup_by_key(|(_, key, _)| key.index);
    used.sort_by_key(|(at, ..)| Reverse(*at));
    used.truncate(KEYS);
    let report = |(at, key, old): (u64, &Arc<Key>, Option<u64>)| KeyReport {
        id: key.id.to_string(),
        last_used: time(at),
        old_hash_last_used: old.map(time),
    };
    used.into_iter().map(report).collect()
}

/// Rounds a share to the thousandth.
fn rounded(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_that_has_faded_away_is_none() {
        let (track, now, clock) = (TargetHealth::default(), Instant::now(), SystemTime::now());
        let mut known = track.status(now, clock);
        known.expected = [Some(Duration::from_secs(1)), None];
        track.recall(&known, now, clock);
        let whole = |now| target("m", &track, &AccountSigns::default(), now, clock).whole_ms;
        assert_eq!(
            (whole(now), whole(now + Duration::from_secs(240))),
            (Some(1_000), None)
        );
    }
}
