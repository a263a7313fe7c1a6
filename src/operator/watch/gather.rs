//! Gathers the facts from the process.

use super::Watch;
use crate::account::breaker::BreakerState;
use crate::account::condition::Condition;
use crate::account::given_up::GIVEN_UP;
use crate::account::target_health::{TargetHealth, TargetStatus};
use crate::account::{NamedTarget, State};
use crate::base::calendar;
use crate::catalog::rotation::{is_replaced, newest_end};
use crate::catalog::{Model, Signer, Target, globs};
use crate::live::ready_account::ReadyAccount;
use crate::live::{Live, Snapshot};
use crate::operator::problems::facts::{
    AccountFacts, CatalogFacts, CertificateFacts, DescriptorFacts, Facts, GivenUpFacts,
    IdentityFacts, IssuerFacts, KeyFacts, LimitFacts, ModelFacts, ModelTarget, OldSecret,
    RecentFacts, RisesFacts, SilentFacts, TargetFacts, TargetFailure,
};
use crate::operator::problems::is_short_lived;
use crate::series::{Series, StepMoment};
use crate::settled::whole_millis;
use dialects::Endpoint;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The time for which requests are counted.
const RECENT_TIME: Duration = Duration::from_secs(300);
/// The time for which callers are counted who gave a target up.
const MINUTE: Duration = Duration::from_secs(60);

/// The moment of a look, on both clocks.
#[derive(Clone, Copy)]
struct ClockReadings {
    now: Instant,
    clock: SystemTime,
    ms: u64,
}

impl Watch {
    /// Returns the facts of this moment.
    pub(super) fn facts(&self, rises: &mut RisesFacts, now: Instant) -> Facts {
        let clocks = ClockReadings {
            now,
            clock: SystemTime::now(),
            ms: calendar::now_millis(),
        };
        let books = &*self.books;
        let snapshot = books.live.load_full();
        let ledger = books.ledger.status();
        rises.rows.take_count(ledger.dropped, clocks.ms);
        rises
            .lines
            .take_count(books.access_log.dropped(), clocks.ms);
        rises
            .panics
            .take_count(books.metrics.process.panics.get(), clocks.ms);
        rises
            .refused
            .take_count(books.metrics.process.refused_connections.get(), clocks.ms);
        let store = self.backends.store.as_ref().map(|store| store.status());
        rises.unreadable.take_count(
            store.as_ref().map_or(0, |store| store.unreadable.number),
            clocks.ms,
        );
        Facts {
            now: clocks.ms,
            tick: StepMoment::from_instant(clocks.now).since_start_ms(),
            phase: (books.drain.phase(), books.drain.exchanges()),
            catalog: catalog_facts(&books.live, clocks),
            accounts: enabled_accounts(&snapshot, clocks),
            models: model_facts(&snapshot, clocks),
            recent: recent_facts(&books.figures.whole, &snapshot, clocks),
            counts_money: counts_money(&books.figures.whole, &snapshot, clocks),
            limits: limit_facts(&books.live, &snapshot, clocks),
            usable_keys: snapshot.key_summary().usable,
            keys: key_facts(&books.live, &snapshot),
            issuers: issuer_facts(&snapshot),
            unpriced: books.unpriced.report(snapshot.generation),
            store,
            ledger,
            rises: *rises,
            descriptors: self.descriptors(),
            certificates: self.certificates(),
            uncertified: self.uncertified(),
            open_admin: self.open_admin(),
        }
    }

    fn descriptors(&self) -> DescriptorFacts {
        let (limit, bounds) = (self.books.descriptors.limit(), &self.settings.limits);
        let connections = Some(bounds.connections_within(limit))
            .filter(|possible| *possible < bounds.connections);
        DescriptorFacts {
            limit,
            is_lacking: self.books.descriptors.is_lacking(),
            connections,
        }
    }

    fn certificates(&self) -> Vec<CertificateFacts> {
        let listeners = self.settings.listen.iter().zip(&*self.certificates);
        let ends = listeners.filter_map(|(listen, certificate)| {
            let ends = certificate.as_ref()?.ends()?;
            let ends = u64::try_from(ends)
                .unwrap_or_default()
                .saturating_mul(1_000);
            Some(CertificateFacts {
                listener: listen.address.to_string(),
                ends,
            })
        });
        ends.collect()
    }

    fn uncertified(&self) -> Vec<(String, String)> {
        let listeners = self.settings.listen.iter().zip(&*self.certificates);
        let waiting = listeners.filter_map(|(listen, one)| {
            Some((listen.address.to_string(), one.as_ref()?.awaited()?))
        });
        waiting.collect()
    }

    fn open_admin(&self) -> Option<String> {
        let admin = &self.settings.admin;
        (!admin.is_guarded()).then(|| admin.address.to_string())
    }
}

/// Returns a time in milliseconds of Unix time.
fn unix_ms(time: SystemTime) -> u64 {
    u64::try_from(
        time.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis(),
    )
    .unwrap_or(u64::MAX)
}

/// Returns the milliseconds since a moment.
fn elapsed_ms(clocks: ClockReadings, since: Instant) -> u64 {
    u64::try_from(clocks.now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX)
}

/// Returns what happened in the last five minutes. A new catalog may have prices that were missing,
/// so only answers under this one count as those without a price.
fn recent_facts(series: &Series, snapshot: &Snapshot, clocks: ClockReadings) -> RecentFacts {
    let sums = series.recent_sums(RECENT_TIME, clocks.now);
    let live = clocks
        .clock
        .duration_since(snapshot.loaded)
        .unwrap_or_default();
    // A clock that was set forward makes the catalog older than the process.
    let loaded = clocks.now.checked_sub(live);
    let unpriced = loaded.map_or(sums.unpriced, |loaded| {
        series.recent_unpriced(loaded, RECENT_TIME, clocks.now)
    });
    RecentFacts {
        requests: sums.requests.into(),
        by_caller: sums.by_caller.into(),
        by_upstream: sums.by_upstream.into(),
        by_us: sums.by_us.into(),
        given_up: sums.given_up.into(),
        shed: sums.shed.into(),
        unpriced: unpriced.into(),
        faults: series.faults(),
    }
}

/// Returns whether anybody counts money here: something had a price, or money is limited.
fn counts_money(whole: &Series, snapshot: &Snapshot, clocks: ClockReadings) -> bool {
    whole.recent_sums(RECENT_TIME, clocks.now).nano_usd > 0 || snapshot.key_summary().limits_money
}

/// Returns the issuers whose keys cannot be fetched.
fn issuer_facts(snapshot: &Snapshot) -> Vec<IssuerFacts> {
    let failing = snapshot.issuers().filter_map(|(identity, issuer)| {
        let trouble = issuer.trouble()?;
        let keys = issuer.last_keys();
        let until = keys.and_then(|keys| keys.fetched_at.checked_add(identity.keys_stale));
        Some(IssuerFacts {
            identity: identity.id.clone(),
            since: calendar::unix_millis(trouble.since),
            reason: trouble.reason,
            usable_until: until.map(calendar::unix_millis),
        })
    });
    failing.collect()
}

fn catalog_facts(live: &Live, clocks: ClockReadings) -> CatalogFacts {
    let status = live.reloads.status();
    let refused = status.refused.filter(|refused| refused.standing);
    let endless = live
        .reloads
        .waiting(clocks.now)
        .map(|waiting| waiting.endless)
        .unwrap_or_default();
    let since = endless.iter().map(|(_, since)| *since).min();
    CatalogFacts {
        refused: refused.map(|refused| (unix_ms(refused.refused_at), refused.reasons)),
        held_loss: status.hold_reason,
        endless: since.map(|since| {
            (
                clocks.ms.saturating_sub(elapsed_ms(clocks, since)),
                endless
                    .iter()
                    .map(|(path, _)| {
                        let name = path.file_name().unwrap_or_default();
                        name.to_string_lossy().into_owned()
                    })
                    .collect(),
            )
        }),
    }
}

/// Returns whether a target is kept from requests by its breaker. It is until it has answered.
fn is_broken(status: &TargetStatus) -> bool {
    match status.breaker {
        BreakerState::Closed => false,
        BreakerState::Open(_) | BreakerState::HalfOpen { .. } => true,
    }
}

fn last_failure(health: &TargetHealth) -> Option<TargetFailure> {
    health
        .trouble()
        .map(|trouble| (trouble.outcome, trouble.detail))
}

/// Returns the milliseconds since the last failure of a target, if nothing was asked there since.
fn quiet_ms(health: &TargetHealth, clocks: ClockReadings) -> Option<u64> {
    let trouble = health.trouble()?;
    let asked = health
        .series
        .faults()
        .requests_since_failure(trouble.outcome == GIVEN_UP);
    let is_quiet = asked == 0 && health.status(clocks.now, clocks.clock).awaited == 0;
    is_quiet.then(|| elapsed_ms(clocks, trouble.failed_at))
}

fn enabled_accounts(snapshot: &Snapshot, clocks: ClockReadings) -> Vec<AccountFacts> {
    let listed = snapshot.catalog.listed_accounts();
    let enabled = snapshot
        .ready_accounts
        .iter()
        .zip(snapshot.targets())
        .filter(|(ready_account, _)| ready_account.account.enabled);
    let facts = enabled.map(|(ready_account, healths)| {
        let list = listed
            .contains(&ready_account.account.index)
            .then(|| ready_account.state.listing.state());
        let failure =
            list.and_then(|list| list.failure.map(|(_, why)| (why, list.names.is_some())));
        AccountFacts {
            list_failure: failure,
            ..account_facts(ready_account, &healths, clocks)
        }
    });
    facts.collect()
}

/// Returns what is wrong with the source of an account's credential, if anything is.
fn identity_facts(ready_account: &ReadyAccount, clocks: ClockReadings) -> Option<IdentityFacts> {
    let account = &ready_account.account;
    let Some(Signer::Source(source)) = &account.signer else {
        return None;
    };
    let state = ready_account
        .state
        .identity
        .state(account.fingerprint, clocks.now);
    if state.failing.is_none() && !state.ends_soon(clocks.now) {
        return None;
    }
    let left = state
        .present
        .map(|present| whole_millis(present.until.saturating_duration_since(clocks.now)));
    let failing = state.failing;
    Some(IdentityFacts {
        since: failing.as_ref().map(|failing| {
            let ago = elapsed_ms(clocks, failing.since);
            clocks.ms.saturating_sub(ago)
        }),
        why: failing.map(|failing| failing.why),
        until: left.map(|left| clocks.ms.saturating_add(left)),
        field: source.field(),
    })
}

fn account_facts(
    ready_account: &ReadyAccount,
    healths: &[NamedTarget],
    clocks: ClockReadings,
) -> AccountFacts {
    let mut facts = AccountFacts {
        id: ready_account.account.id.clone(),
        ..AccountFacts::default()
    };
    facts.is_credential_refused = ready_account
        .state
        .signs(true, clocks.now)
        .is_credential_refused();
    facts.identity = identity_facts(ready_account, clocks);
    for (model, health) in healths {
        let status = health.status(clocks.now, clocks.clock);
        facts.headroom = [facts.headroom, status.headroom]
            .into_iter()
            .flatten()
            .min_by(f64::total_cmp);
        facts
            .given_up
            .extend(given_up(health.name(model), health, clocks));
        if let Some((requests, silence)) = health.silence(clocks.now) {
            facts.silent.push(SilentFacts {
                name: health.name(model),
                requests: u64::try_from(requests).unwrap_or(u64::MAX),
                silent_ms: whole_millis(silence),
            });
        }
        if is_broken(&status) {
            let ago = health
                .since(clocks.now)
                .map(|since| elapsed_ms(clocks, since));
            facts.broken.push(TargetFacts {
                name: health.name(model),
                failure: last_failure(health),
                since: ago.map(|ago| clocks.ms.saturating_sub(ago)),
                quiet: quiet_ms(health, clocks),
                requests: Some(
                    health
                        .series
                        .recent_sums(RECENT_TIME, clocks.now)
                        .requests
                        .into(),
                ),
            });
        }
    }
    facts
}

/// Returns how callers gave a target up within the last minute, if some did.
fn given_up(name: Arc<str>, health: &TargetHealth, clocks: ClockReadings) -> Option<GivenUpFacts> {
    let sums = health.series.recent_sums(MINUTE, clocks.now);
    let callers = u64::from(sums.given_up);
    Some(GivenUpFacts {
        name,
        callers,
        attempts: sums.requests.into(),
        waits: sums.given_up_waits?,
        usual_ms: health.usual_time(clocks.now).map(whole_millis),
    })
}

fn model_facts(snapshot: &Snapshot, clocks: ClockReadings) -> Vec<ModelFacts> {
    let models = snapshot.catalog.models().iter().zip(&snapshot.routes);
    let facts = models.map(|(model, route)| {
        let mut takes_fallbacks = true;
        let targets = model.targets.iter().enumerate().map(|(index, target)| {
            let ready_account = snapshot.ready_accounts.get(target.account.index);
            let healths = route
                .healths
                .get(index)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let (condition, failing) = target_condition(
                ready_account.map(|ready_account| &**ready_account),
                healths,
                clocks,
            );
            takes_fallbacks &= failing.is_some_and(|track| track.endpoint.has_stand_ins());
            ModelTarget {
                account: target.account.id.clone(),
                name: failing
                    .map_or_else(|| target.model.clone(), |health| health.name(&target.model)),
                state: condition.state,
                reason: condition.reason,
                failure: failing.and_then(last_failure),
                quiet: failing.and_then(|health| quiet_ms(health, clocks)),
            }
        });
        let targets = targets.collect();
        let series = &route.demand.series;
        let recent = recent_facts(series, snapshot, clocks);
        ModelFacts {
            id: model.id.clone(),
            targets,
            fallbacks: if takes_fallbacks {
                fallbacks_for_all(snapshot, model)
            } else {
                Vec::new()
            },
            waiting: route.demand.waiting(),
            queue: model.queue.map(|queue| queue.length),
            has_answered: series.has_answered(),
            last_failure: (recent.faults.in_a_row > 0)
                .then(|| newest_failure(snapshot, model))
                .flatten(),
            recent: Some(recent),
        }
    });
    facts.collect()
}

/// Returns the account of the model's target that failed last and has not answered since, and that
/// failure.
fn newest_failure(snapshot: &Snapshot, model: &Model) -> Option<(Arc<str>, TargetFailure)> {
    let troubles = model.targets.iter().flat_map(|target| {
        let state = snapshot.states.get(target.account.index);
        let healths = state.map(|state| healths_of_name(state, target, model.is_pattern()));
        let troubles = healths
            .into_iter()
            .flatten()
            .filter_map(|one| one.trouble());
        troubles.map(|trouble| (&target.account.id, trouble))
    });
    troubles
        .max_by_key(|(_, trouble)| trouble.failed_at)
        .map(|(account, trouble)| (account.clone(), (trouble.outcome, trouble.detail)))
}

/// Returns what is known of a target at all kinds of endpoints. That of a pattern stands for all
/// models that were asked for by it.
fn healths_of_name(state: &State, target: &Target, is_pattern: bool) -> Vec<Arc<TargetHealth>> {
    if !is_pattern {
        let kinds = Endpoint::ALL.into_iter();
        return kinds
            .filter_map(|kind| state.known_health(&target.model, kind))
            .collect();
    }
    let asked = state.all_asked().into_iter();
    asked
        .filter(|(name, _)| globs::glob_matches(&target.model, name))
        .map(|(_, health)| health)
        .collect()
}

/// Returns those fallbacks of a model that every key may use which may use the model.
fn fallbacks_for_all(snapshot: &Snapshot, model: &Model) -> Vec<Arc<str>> {
    if model.fallbacks.is_empty() {
        return Vec::new();
    }
    let mut fallbacks = model.fallbacks.clone();
    let all = snapshot.key_summary().permissions.iter();
    for permissions in all.filter(|permissions| permissions.allow(&model.id)) {
        fallbacks.retain(|id| permissions.allow(id));
    }
    fallbacks
}

/// Returns the condition of a model's target, and what keeps it from requests. A target is fit if
/// one of its kinds of endpoints is.
fn target_condition<'t>(
    ready_account: Option<&ReadyAccount>,
    healths: &'t [Arc<TargetHealth>],
    clocks: ClockReadings,
) -> (Condition, Option<&'t TargetHealth>) {
    let Some(ready_account) = ready_account else {
        return (Condition::default(), None);
    };
    let account = ready_account
        .state
        .signs(ready_account.account.enabled, clocks.now);
    let mut unfit = None;
    for health in healths {
        let condition = account.target(Some(health.signs(clocks.now)));
        if condition.is_ok() {
            return (condition, None);
        }
        unfit = unfit.or(Some((condition, Some(&**health))));
    }
    unfit.unwrap_or((account.target(None), None))
}

/// Returns, for each scope that has counted something, the limits of which the largest share is
/// used: one that is free again soon, and one that is not.
fn limit_facts(live: &Live, snapshot: &Snapshot, clocks: ClockReadings) -> Vec<LimitFacts> {
    let mut facts = Vec::new();
    let keys = snapshot.used_keys(&live.limits);
    for (_, bound) in snapshot.bounds(keys.into_iter()) {
        let counts = bound.scope.own_counts(clocks.ms);
        let share = |used: u64, limit: u64| used as f64 / limit.max(1) as f64;
        for is_short in [false, true] {
            let those = bound
                .used_amounts(&counts)
                .filter(|(kind, ..)| is_short_lived(*kind) == is_short);
            if let Some((kind, used, limit)) =
                those.max_by(|a, b| share(a.1, a.2).total_cmp(&share(b.1, b.2)))
            {
                let (level, name) = (bound.scope.level, bound.scope.name.clone());
                facts.push(LimitFacts {
                    level,
                    name,
                    kind,
                    used,
                    limit,
                });
            }
        }
    }
    facts
}

/// Returns the keys that were used and have an end, or a secret with an end.
fn key_facts(live: &Live, snapshot: &Snapshot) -> Vec<KeyFacts> {
    let used = snapshot.used_keys(&live.limits).into_iter();
    let usable = used.filter(|key| key.enabled && key.caller.enabled);
    let facts = usable.filter_map(|key| {
        let of_secrets = snapshot.key_summary().secret_ends(key);
        let last = newest_end(of_secrets.iter().copied());
        let ends = [key.expires, key.caller.expires, last];
        if of_secrets.is_empty() && ends.iter().all(Option::is_none) {
            return None;
        }
        let used = &snapshot.key_scopes(key)?.last_used;
        let olds = of_secrets
            .iter()
            .filter(|until| is_replaced(**until, last))
            .flatten();
        // Secrets that have ended open nothing any more.
        let now = SystemTime::now();
        let old = olds
            .filter(|until| **until > now)
            .min()
            .map(|until| unix_ms(*until));
        Some(KeyFacts {
            id: key.id.clone(),
            used: used.last_used_at()?,
            ends: ends.into_iter().flatten().min().map(unix_ms),
            old_secret: used
                .old_hash_at()
                .zip(old)
                .map(|(last_used, ends)| OldSecret { last_used, ends }),
        })
    });
    facts.collect()
}

#[cfg(test)]
mod tests;
