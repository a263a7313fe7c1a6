//! The rows of models, with their targets: in the order in which they would be tried now.

use super::context::{LiveAccount, LiveContext};
use super::figures::{COUNT_WINDOW, Quantiles, last_minute, rate_per_second};
use super::{HasName, to_json};
use crate::account::NamedTarget;
use crate::account::condition::{AccountState, Reason, TargetState};
use crate::account::strategy::{self, Smooth, View};
use crate::account::target_health::TargetHealth;
use crate::base::calendar::format_past_instant;
use crate::base::units::cut_text;
use crate::catalog::{Model, Target, globs};
use crate::live::{Route, Snapshot};
use crate::series::{STEPS, Sums};
use crate::settled::whole_millis;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The most targets of a pattern that are shown of an account: those with most requests.
const MAX_OF_PATTERN: usize = 5;
/// The most targets that are shown of a model.
const MAX_TARGETS: usize = 40;
/// The most targets of a model whose row would be longer than `LONG` bytes.
const FEW_TARGETS: usize = 6;
const LONG_ROW: usize = 10 * 1024;

/// A model, with what decides its place.
pub(super) struct ModelRow {
    model: Arc<Model>,
    sums: Sums,
    trouble: Trouble,
    row: OnceLock<String>,
}

/// How bad it is with a model. The worst comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// No target is fit.
    Out,
    /// Much fails, and not by the callers' fault.
    Failing,
    /// A target is out, or requests wait.
    Partly,
    None,
}

#[derive(Serialize)]
struct LiveModel<'r> {
    id: &'r str,
    strategy: &'static str,
    pattern: bool,
    requests: u32,
    per_second: f64,
    failed_caller: u32,
    failed_upstream: u32,
    failed_ours: u32,
    given_up: u32,
    first_token_ms: Option<Quantiles>,
    waiting: usize,
    queue: Option<usize>,
    retry_budget_spent: f64,
    series: Vec<u32>,
    failed_series: Vec<u32>,
    more_targets: usize,
    targets: Vec<LiveTarget<'r>>,
}

#[derive(Serialize)]
struct LiveTarget<'r> {
    account: &'r str,
    model: String,
    endpoint: &'static str,
    tier: u32,
    place: usize,
    #[serde(flatten)]
    standing: LiveStanding,
    behind_for_ms: Option<u64>,
    in_flight: usize,
    concurrency: Option<usize>,
    requests: u32,
    failed: u32,
    share: Option<f64>,
    first_token_ms: Option<Quantiles>,
    tokens_per_second: Option<f64>,
    headroom: Option<f64>,
    last_failure: Option<LiveFailure>,
}

/// The state of requests at a target and at its account.
#[derive(Serialize)]
struct LiveStanding {
    state: TargetState,
    reason: Option<Reason>,
    probing: bool,
    account_state: AccountState,
    account_reason: Option<Reason>,
    since: Option<String>,
    for_ms: Option<u64>,
}

#[derive(Serialize)]
struct LiveFailure {
    outcome: &'static str,
    detail: Option<String>,
    time: String,
}

/// Lists the models: first those with most trouble, and then those with most requests.
pub(super) fn model_rows(
    snapshot: &Snapshot,
    accounts: &[LiveAccount],
    now: Instant,
) -> Vec<ModelRow> {
    let models = snapshot.catalog.models().iter().zip(&snapshot.routes);
    let rows = models.map(|(model, route)| {
        let sums = route.demand.series.recent_sums(COUNT_WINDOW, now);
        let trouble = model_trouble(model, route, accounts, &sums, now);
        ModelRow {
            model: model.clone(),
            sums,
            trouble,
            row: OnceLock::new(),
        }
    });
    let mut rows: Vec<ModelRow> = rows.collect();
    rows.sort_by_key(|row| (row.trouble, Reverse(row.sums.requests)));
    rows
}

fn model_trouble(
    model: &Model,
    route: &Route,
    accounts: &[LiveAccount],
    sums: &Sums,
    now: Instant,
) -> Trouble {
    /// One of so many requests that fail is much, if there are as many.
    const MANY: u32 = 20;
    let (mut fit, mut out) = (0, 0);
    for (index, target) in model.targets.iter().enumerate() {
        let account = accounts.get(target.account.index);
        // What the operator has switched off is no trouble.
        let Some(account) = account.filter(|account| account.state != AccountState::Off) else {
            continue;
        };
        let healths = route
            .healths
            .get(index)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let is_fit = |signs| account.signs.target(signs).is_ok();
        let any_fit = if healths.is_empty() {
            is_fit(None)
        } else {
            healths.iter().any(|health| is_fit(Some(health.signs(now))))
        };
        if any_fit { fit += 1 } else { out += 1 }
    }
    let failed = sums
        .by_upstream
        .saturating_add(sums.by_us)
        .saturating_add(sums.given_up);
    if fit == 0 && out > 0 {
        Trouble::Out
    } else if sums.requests >= MANY && failed.saturating_mul(MANY) > sums.requests {
        Trouble::Failing
    } else if out > 0 || route.demand.waiting() > 0 {
        Trouble::Partly
    } else {
        Trouble::None
    }
}

impl HasName for ModelRow {
    fn name(&self) -> &str {
        &self.model.id
    }
}

impl ModelRow {
    /// Writes the row, once for all viewers.
    pub(super) fn json(&self, context: &LiveContext) -> &str {
        self.row.get_or_init(|| {
            let whole = self.write(context, MAX_TARGETS).unwrap_or_default();
            // The worst model must not be the one that is left out.
            if whole.len() <= LONG_ROW {
                whole
            } else {
                self.write(context, FEW_TARGETS).unwrap_or_default()
            }
        })
    }

    /// Writes the row with so many targets. If they are few, it is without details.
    fn write(&self, context: &LiveContext, max_targets: usize) -> Option<String> {
        let (model, sums, now) = (&*self.model, &self.sums, context.now);
        let route = context.snapshot.routes.get(model.index)?;
        let series = &route.demand.series;
        let buckets = series.buckets(STEPS, now);
        let (minute, time) = last_minute(series, context.up, now);
        let (mut targets, all) = live_targets(context, model, route, max_targets);
        if max_targets == FEW_TARGETS {
            targets
                .iter_mut()
                .filter_map(|target| target.last_failure.as_mut())
                .for_each(|last| last.detail = None);
        }
        Some(to_json(&LiveModel {
            id: &model.id,
            strategy: model.strategy.name(),
            pattern: model.is_pattern(),
            requests: sums.requests,
            per_second: rate_per_second(minute.requests.into(), time),
            failed_caller: sums.by_caller,
            failed_upstream: sums.by_upstream,
            failed_ours: sums.by_us,
            given_up: sums.given_up,
            first_token_ms: Quantiles::for_first_tokens(series, now),
            waiting: route.demand.waiting(),
            queue: model.queue.map(|queue| queue.length),
            retry_budget_spent: round_share(route.demand.spent(now)),
            series: buckets.iter().map(|bucket| bucket.sums.requests).collect(),
            failed_series: buckets.iter().map(|bucket| bucket.sums.failed()).collect(),
            more_targets: all.saturating_sub(targets.len()),
            targets,
        }))
    }
}

/// A target at one kind of endpoint, while its model's row is written.
struct ShownTarget<'r> {
    target: &'r Target,
    name: Arc<str>,
    health: Option<Arc<TargetHealth>>,
    sums: Sums,
    rank: usize,
}

/// Returns the first targets of a model, and the number of all.
fn live_targets<'r>(
    context: &'r LiveContext,
    model: &'r Model,
    route: &Route,
    max_targets: usize,
) -> (Vec<LiveTarget<'r>>, usize) {
    let (snapshot, now) = (&context.snapshot, context.now);
    let order = try_order(context, model, route);
    let mut shown = Vec::new();
    for (number, target) in model.targets.iter().enumerate() {
        let rank = order
            .iter()
            .position(|placed| *placed == number)
            .unwrap_or(number);
        let healths = route.healths.get(number).cloned().unwrap_or_default();
        let mut healths: Vec<NamedTarget> = healths
            .into_iter()
            .map(|health| (target.model.clone(), health))
            .collect();
        if model.is_pattern() {
            healths = pattern_targets(snapshot, target, now);
        }
        let show = |name, health| ShownTarget::new(target, name, health, rank, now);
        if healths.is_empty() {
            shown.push(show(target.model.clone(), None));
        }
        for (number, (name, health)) in healths.into_iter().enumerate() {
            let one = show(name, Some(health));
            // Most requests go to the first kind of endpoint. The others are shown if they are
            // used.
            let is_used = one.sums.requests > 0
                || one
                    .health
                    .as_ref()
                    .is_some_and(|health| health.trouble().is_some());
            if number == 0 || is_used {
                shown.push(one);
            }
        }
    }
    shown.sort_by_key(|one| one.rank);
    let count = shown.len();
    let attempts: u32 = shown
        .iter()
        .map(|one| one.sums.requests)
        .fold(0, u32::saturating_add);
    shown.truncate(max_targets);
    // Of a target that other models have too, it is not known which attempts were for this one.
    let are_shared = shown.iter().any(|one| {
        let health = one.health.as_ref();
        health.is_some_and(|health| context.shared.contains(&Arc::as_ptr(health).addr()))
    });
    let all = if are_shared { 0 } else { attempts };
    (
        shown
            .into_iter()
            .filter_map(|one| one.into_live_target(context, all))
            .collect(),
        count,
    )
}

/// Returns those models of an account that a pattern's target stands for: those with most requests.
fn pattern_targets(snapshot: &Snapshot, target: &Target, now: Instant) -> Vec<NamedTarget> {
    let asked = snapshot
        .states
        .get(target.account.index)
        .map(|state| state.all_asked())
        .unwrap_or_default();
    let matching = asked
        .into_iter()
        .filter(|(name, _)| globs::glob_matches(&target.model, name));
    let mut asked: Vec<_> = matching
        .map(|named| {
            let sums = named.1.series.recent_sums(COUNT_WINDOW, now);
            (sums.requests, named)
        })
        .filter(|(requests, _)| *requests > 0)
        .collect();
    asked.sort_by_key(|(requests, _)| Reverse(*requests));
    asked
        .into_iter()
        .take(MAX_OF_PATTERN)
        .map(|(_, named)| named)
        .collect()
}

/// Returns the places of a model's targets in the order in which a stream's would be tried now, if
/// nothing were drawn by lot.
fn try_order(context: &LiveContext, model: &Model, route: &Route) -> Vec<usize> {
    let targets = model.targets.iter().enumerate();
    let views =
        targets.map(|(number, target)| view(context, target, route.healths.get(number)?.first()?));
    match views.collect::<Option<Vec<View>>>() {
        Some(views) => {
            strategy::order_targets(model.strategy, &views, None, &mut Smooth::default(), || 0.5)
        }
        None => (0..model.targets.len()).collect(),
    }
}

/// Returns what the strategy knows of a target.
fn view(at: &LiveContext, target: &Target, health: &TargetHealth) -> Option<View> {
    let ready_account = at.snapshot.ready_accounts.get(target.account.index)?;
    let facts = health.order_facts(true, target.account.probe, at.now, at.clock);
    let in_flight = ready_account.state.in_flight();
    let awake = target.account.enabled && ready_account.state.health.rest(at.now).is_none();
    let cap = target.account.concurrency;
    Some(View {
        identity: strategy::target_identity(&target.account.id, &target.model),
        weight: target.weight,
        tier: target.tier,
        in_flight,
        cap,
        latency: facts.latency,
        awaited: facts.awaited,
        headroom: facts.headroom,
        behind: facts.behind,
        fit: facts.fit && awake && cap.is_none_or(|cap| in_flight < cap),
    })
}

impl<'r> ShownTarget<'r> {
    fn new(
        target: &'r Target,
        name: Arc<str>,
        health: Option<Arc<TargetHealth>>,
        place: usize,
        now: Instant,
    ) -> ShownTarget<'r> {
        let sums = health.as_ref();
        let sums = sums.map(|health| health.series.recent_sums(COUNT_WINDOW, now));
        ShownTarget {
            target,
            name,
            health,
            sums: sums.unwrap_or_default(),
            rank: place,
        }
    }

    fn into_live_target(self, context: &'r LiveContext, all: u32) -> Option<LiveTarget<'r>> {
        let ShownTarget {
            target,
            name,
            health,
            sums,
            rank,
        } = self;
        let account = context.snapshot.ready_accounts.get(target.account.index)?;
        let (now, clock) = (context.now, context.clock);
        let LiveAccount {
            signs,
            state,
            reason,
        } = context.accounts.get(target.account.index)?;
        let present = signs.target(health.as_ref().map(|health| health.signs(now)));
        let time = |instant| format_past_instant(instant, now, clock);
        let failure = health
            .as_ref()
            .and_then(|health| health.last_failure())
            .map(|failure| LiveFailure {
                outcome: failure.outcome,
                detail: failure.detail,
                time: time(failure.failed_at),
            });
        let status = health.as_ref().map(|health| health.status(now, clock));
        let until = |until: Instant| whole_millis(until.saturating_duration_since(now));
        let share = |all: u32| round_share(f64::from(sums.requests) / f64::from(all));
        let speed = (sums.writing_ms > 0)
            .then(|| rate_per_second(sums.output_tokens, Duration::from_millis(sums.writing_ms)));
        Some(LiveTarget {
            account: &account.account.id,
            model: cut_text(&name, 200),
            endpoint: health
                .as_ref()
                .map_or("chat", |health| health.endpoint.name()),
            tier: target.tier,
            place: rank,
            standing: LiveStanding {
                state: present.state,
                reason: present.reason,
                probing: present.is_probing,
                account_state: *state,
                account_reason: *reason,
                since: present.since.map(time),
                for_ms: present.lasts_until.map(until),
            },
            behind_for_ms: status.and_then(|status| status.behind).map(until),
            in_flight: account.state.in_flight(),
            concurrency: target.account.concurrency,
            requests: sums.requests,
            failed: sums.failed(),
            share: (all > 0).then(|| share(all)),
            first_token_ms: health
                .as_ref()
                .and_then(|health| Quantiles::for_first_tokens(&health.series, now)),
            tokens_per_second: speed,
            headroom: status.and_then(|status| status.headroom).map(round_share),
            last_failure: failure,
        })
    }
}

/// Rounds a share to the thousandth.
fn round_share(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Registry;
    use crate::catalog::resolve::resolve_catalog;
    use crate::limits;
    use std::collections::HashMap;
    use std::time::SystemTime;

    const CATALOG: &str = r#"
accounts:
  a: { dialect: openai, base_url: "https://a.test/v1", key: k-0123456789 }
  b: { dialect: openai, base_url: "https://b.test/v1", key: k-9876543210 }
models:
  turns: { strategy: weighted, targets: [{ account: a, model: x, weight: 1 }, { account: b, model: x, weight: 3 }] }
  tier: { targets: [{ account: a, model: x, weight: 1, tier: 1 }, { account: b, model: x, weight: 3, tier: 1 }] }
callers: {}
"#;

    #[test]
    fn the_heaviest_of_equal_targets_comes_first() {
        let files = [("catalog.yaml".to_owned(), CATALOG.to_owned())];
        let catalog = resolve_catalog(&files, &mut |_| Ok(String::new()));
        let catalog = catalog.unwrap_or_else(|problems| panic!("{problems}"));
        let limits = limits::Registry::default();
        let snapshot = Snapshot::new(catalog, &Registry::default(), &limits, &mut Vec::new, 1);
        let now = Instant::now();
        let context = LiveContext {
            now,
            clock: SystemTime::now(),
            ms: 0,
            up: Duration::ZERO,
            used_keys: HashMap::new(),
            accounts: LiveContext::accounts(&snapshot, now),
            shared: LiveContext::shared(&snapshot),
            snapshot: Arc::new(snapshot),
        };
        for id in ["turns", "tier"] {
            let model = context.snapshot.catalog.model(id).expect("a model");
            let route = &context.snapshot.routes[model.index];
            assert_eq!(try_order(&context, &model, route), [1, 0], "{id}");
        }
    }
}
