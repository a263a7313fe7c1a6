//! Fills in a [`Status`] from the state of the process.

use crate::base::clock::Clock;
use std::cmp::Reverse;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::Pages;
use crate::account::breaker::BreakerState;
use crate::account::condition::AccountSigns;
use crate::account::target_health::TargetHealth;
use crate::base::calendar::{format_past_instant, format_system_time, format_time};
use crate::catalog::Signer;
use crate::live::ready_account::ReadyAccount;
use crate::live::{self, Live, Route, Snapshot};
use crate::operator::problems::verdict::Verdict;
use crate::settled::whole_millis;
use crate::status::{
    AccountReport, BreakerReport, CatalogReport, ChangeReport, DescriptorsReport, EndlessReport,
    FailureReport, FileReport, FolderReport, IdentityReport, KeyReport, ListReport, ModelReport,
    RefusalReport, RestReport, Status, TargetReport, VerdictReport,
};

/// The most keys that the page lists, because people read it.
const MAX_KEYS: usize = 1_000;
/// The time over which callers are counted who gave a target up.
const MINUTE: Duration = Duration::from_secs(60);
/// The most files that the page lists.
const MAX_FILES: usize = 1_000;

/// Returns the page with the present state.
pub(super) fn present_status(pages: &Pages) -> Status {
    let snapshot = pages.books.live.load();
    let (now, clock) = (Clock::now(), SystemTime::now());
    let models = snapshot.catalog.models().iter().zip(&snapshot.routes).map(
        |(model, Route { demand, .. })| {
            let id = model.id.to_string();
            ModelReport {
                id,
                retry_budget_spent: round_share(demand.spent(now)),
                waiting: demand.waiting(),
            }
        },
    );
    let observation = pages.watch.observe();
    let Verdict {
        word,
        sentence,
        next,
    } = &observation.verdict;
    Status {
        verdict: VerdictReport {
            word: word.name().to_owned(),
            sentence: sentence.clone(),
            next: next.iter().map(|step| (*step).to_owned()).collect(),
        },
        accounts: account_reports(&snapshot, now, clock),
        catalog: catalog_report(pages, &snapshot, now, clock),
        descriptors: descriptors_report(pages),
        exchanges: pages.books.drain.exchanges(),
        keys: key_reports(&pages.books.live, &snapshot),
        ledger: pages.books.ledger.status(),
        models: models.collect(),
        more_problems: observation.problems.more,
        phase: pages.books.drain.phase(),
        problems: observation.problems.list.clone(),
        ready: pages.books.drain.ready(),
        store: pages.backends.store.as_ref().map(|store| store.status()),
        unpriced: pages.books.unpriced.report(snapshot.generation),
        uptime_seconds: pages.started.elapsed().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn descriptors_report(pages: &Pages) -> DescriptorsReport {
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

fn account_reports(snapshot: &Snapshot, now: Instant, clock: SystemTime) -> Vec<AccountReport> {
    let listed = snapshot.catalog.listed_accounts();
    let accounts =
        snapshot
            .ready_accounts
            .iter()
            .zip(snapshot.targets())
            .map(|(ready_account, healths)| {
                let signs = ready_account
                    .state
                    .signs(ready_account.account.enabled, now);
                let targets = healths
                    .iter()
                    .map(|(model, health)| target_report(model, health, &signs, now, clock));
                let targets: Vec<TargetReport> = targets.collect();
                let (state, reason) =
                    signs.account(healths.iter().map(|(_, health)| health.signs(now)));
                AccountReport {
                    concurrency: ready_account.account.concurrency,
                    dialect: ready_account.account.dialect.protocol.name.to_owned(),
                    headroom: targets
                        .iter()
                        .filter_map(|target| target.headroom)
                        .min_by(f64::total_cmp),
                    id: ready_account.account.id.to_string(),
                    identity: identity_report(ready_account, now, clock),
                    idle_connections: ready_account.state.http1.idle(),
                    in_flight: ready_account.state.in_flight(),
                    list: listed
                        .contains(&ready_account.account.index)
                        .then(|| list_report(ready_account, clock)),
                    reason,
                    state,
                    targets,
                }
            });
    accounts.collect()
}

fn identity_report(
    ready_account: &ReadyAccount,
    now: Instant,
    clock: SystemTime,
) -> Option<IdentityReport> {
    let account = &ready_account.account;
    let is_source = matches!(account.signer, Some(Signer::Source(_)));
    let state = ready_account.state.identity.state(account.fingerprint, now);
    let name = state.present.as_ref().map(|present| present.name.clone());
    is_source.then(|| IdentityReport {
        failure: state.failing.map(|failing| failing.why),
        name: name.filter(|name| !name.is_empty()),
        until: state.present.map(|present| {
            format_system_time(clock + present.until.saturating_duration_since(now))
        }),
    })
}

fn list_report(ready_account: &ReadyAccount, clock: SystemTime) -> ListReport {
    let list = ready_account.state.listing.state();
    let (failure_time, failure) = list
        .failure
        .map(|(failed_at, why)| (format_system_time(failed_at), why))
        .unzip();
    ListReport {
        age_seconds: list.fetched.map(|fetched_at| {
            clock
                .duration_since(fetched_at)
                .unwrap_or_default()
                .as_secs()
        }),
        failure,
        failure_time,
        left_out: list.names.as_ref().map_or(0, |names| names.left_out),
        names: list.names.as_ref().map_or(0, |names| names.names.len()),
    }
}

fn target_report(
    model: &str,
    health: &TargetHealth,
    account: &AccountSigns,
    now: Instant,
    clock: SystemTime,
) -> TargetReport {
    let until = |end: Instant| whole_millis(end.saturating_duration_since(now));
    let known = health.status(now, clock);
    // An estimate that has faded away with time is none.
    let [whole, first] = known
        .expected
        .map(|time| time.map(whole_millis).filter(|millis| *millis > 0));
    let rest = account.rest.or(known.rest);
    let condition = account.target(Some(health.signs(now)));
    let (breaker, opens_in_ms) = match known.breaker {
        BreakerState::Closed => (BreakerReport::Closed, None),
        BreakerState::Open(end) => (BreakerReport::Open, Some(until(end))),
        BreakerState::HalfOpen { .. } => (BreakerReport::HalfOpen, None),
    };
    TargetReport {
        awaited: known.awaited,
        behind_for_ms: known.behind.map(until),
        breaker,
        calls: known.calls.all,
        endpoint: health.endpoint.name().to_owned(),
        failed: known.calls.failed,
        first_token_ms: first,
        given_up: health.series.recent_sums(MINUTE, now).given_up.into(),
        headroom: known.headroom.map(round_share),
        last_failure: health.trouble().map(|trouble| FailureReport {
            ago_ms: whole_millis(now.saturating_duration_since(trouble.failed_at)),
            detail: trouble.detail,
            outcome: trouble.outcome.to_owned(),
            status: trouble.status,
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

fn catalog_report(
    pages: &Pages,
    snapshot: &Snapshot,
    now: Instant,
    clock: SystemTime,
) -> CatalogReport {
    let live::ReloadStatus {
        refused,
        hold_reason: held,
    } = pages.books.live.reloads.status();
    let served = &snapshot.catalog;
    CatalogReport {
        accounts: served.accounts().len(),
        callers: served.callers().len(),
        files: file_reports(pages, now, clock),
        folder: folder_report(pages),
        generation: snapshot.generation,
        hash: snapshot
            .marks(pages.backends.server.admin.is_guarded())
            .hash
            .clone(),
        held,
        keys: served.keys().len(),
        last_refusal: refused.map(|refused| RefusalReport {
            withheld: refused
                .withheld
                .iter()
                .take(MAX_FILES)
                .map(|path| name_in_folder(pages, path))
                .collect(),
            reasons: refused.reasons,
            standing: refused.standing,
            time: format_system_time(refused.refused_at),
        }),
        loaded: format_system_time(snapshot.loaded),
        models: served.models().len(),
        waiting: waiting_change(pages, now),
        warnings: served.warnings.iter().map(ToString::to_string).collect(),
    }
}

fn folder_report(pages: &Pages) -> Option<FolderReport> {
    let path = pages.books.live.reloads.folder()?;
    let metadata = std::fs::metadata(path).ok();
    Some(FolderReport {
        device: metadata.as_ref().map(MetadataExt::dev),
        inode: metadata.as_ref().map(MetadataExt::ino),
        path: path.display().to_string(),
    })
}

fn waiting_change(pages: &Pages, now: Instant) -> Option<ChangeReport> {
    let waiting = pages.books.live.reloads.waiting(now)?;
    let since = |since: Instant| whole_millis(now.saturating_duration_since(since));
    let endless = waiting.endless.iter().take(MAX_FILES);
    Some(ChangeReport {
        endless: endless
            .map(|(path, written_since)| EndlessReport {
                file: name_in_folder(pages, path),
                for_ms: since(*written_since),
            })
            .collect(),
        files: waiting
            .files
            .iter()
            .take(MAX_FILES)
            .map(|path| name_in_folder(pages, path))
            .collect(),
        for_ms: since(waiting.since),
    })
}

/// Lists the files whose live text changed last.
fn file_reports(pages: &Pages, now: Instant, clock: SystemTime) -> Vec<FileReport> {
    let live = pages.books.live.reloads.live_files();
    let last = live.iter().rev().take(MAX_FILES);
    last.map(|(path, seen)| FileReport {
        file: name_in_folder(pages, path),
        live_as_of: format_past_instant(*seen, now, clock),
    })
    .collect()
}

/// Returns a file's name as the operator knows it: `catalog.d/10-acme.yaml`.
fn name_in_folder(pages: &Pages, path: &Path) -> String {
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
fn key_reports(live: &Live, snapshot: &Snapshot) -> Vec<KeyReport> {
    let keys = snapshot.used_keys(&live.limits).into_iter();
    let used = keys.filter_map(|key| {
        let used = &snapshot.key_scopes(key)?.last_used;
        Some((used.last_used_at()?, key, used.old_hash_at()))
    });
    let mut used: Vec<_> = used.collect();
    used.sort_by_key(|(used_at, ..)| Reverse(*used_at));
    used.truncate(MAX_KEYS);
    let reports = used.into_iter().map(|(used_at, key, old)| KeyReport {
        id: key.id.to_string(),
        last_used: format_time(used_at),
        old_hash_last_used: old.map(format_time),
    });
    reports.collect()
}

/// Rounds a share to the thousandth.
fn round_share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_that_has_faded_away_is_none() {
        let (health, now, clock) = (TargetHealth::default(), Instant::now(), SystemTime::now());
        let mut known = health.status(now, clock);
        known.expected = [Some(Duration::from_secs(1)), None];
        health.recall(&known, now, clock);
        let whole =
            |now| target_report("m", &health, &AccountSigns::default(), now, clock).whole_ms;
        assert_eq!(
            (whole(now), whole(now + Duration::from_secs(240))),
            (Some(1_000), None)
        );
    }
}
