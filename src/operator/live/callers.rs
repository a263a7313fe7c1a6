//! The rows of callers: what they use, and how near they are to a limit.

use super::context::{LiveContext, UsedKeys};
use super::figures::known_money;
use super::{HasName, to_json};
use crate::base::calendar::format_time;
use crate::figures::callers::{CallerSums, CallerUse};
use crate::limits::{Bound, Kind, resets_at};
use crate::live::{Live, Snapshot};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A caller, with what decides its place.
pub(super) struct CallerRow {
    id: Arc<str>,
    sums: CallerSums,
    row: OnceLock<String>,
}

#[derive(Serialize)]
struct LiveCaller<'r> {
    id: &'r str,
    today: LiveUse,
    month: LiveUse,
    limited: u64,
    last_used: Option<String>,
    limit: Option<LiveLimit>,
}

#[derive(Serialize)]
struct LiveUse {
    requests: u64,
    tokens: u64,
    usd: Option<String>,
    usd_known: &'static str,
}

impl From<&CallerUse> for LiveUse {
    fn from(used: &CallerUse) -> LiveUse {
        let (usd, usd_known) = known_money(used);
        LiveUse {
            requests: used.requests,
            tokens: used.tokens,
            usd,
            usd_known,
        }
    }
}

/// The limit of which the largest share is used.
#[derive(Serialize)]
struct LiveLimit {
    level: &'static str,
    name: String,
    kind: &'static str,
    used: Value,
    limit: Value,
    ratio: f64,
    resets_at: Option<String>,
}

/// A kind of limit, what is used of it, the limit, and when all of it is free again.
type UsedLimit = (Kind, u64, u64, Option<u64>);

/// Lists the callers: those that spend most today come first. A caller that was removed is listed
/// as long as it has used something this month.
pub(super) fn caller_rows(
    snapshot: &Snapshot,
    mut sums: BTreeMap<Arc<str>, CallerSums>,
) -> Vec<CallerRow> {
    for caller in snapshot.catalog.callers() {
        sums.entry(caller.id.clone()).or_default();
    }
    let rows = sums.into_iter().map(|(id, sums)| CallerRow {
        id,
        sums,
        row: OnceLock::new(),
    });
    let mut rows: Vec<CallerRow> = rows.collect();
    let amounts = |used: &CallerUse| (used.usd, used.tokens, used.requests);
    rows.sort_by_cached_key(|row| {
        std::cmp::Reverse((
            amounts(&row.sums.today),
            amounts(&row.sums.month),
            row.sums.limited,
        ))
    });
    rows
}

/// Lists the keys of which something is counted.
pub(super) fn used_keys_by_caller(live: &Live, snapshot: &Snapshot) -> UsedKeys {
    let mut keys = UsedKeys::new();
    for key in snapshot.used_keys(&live.limits) {
        keys.entry(key.caller.id.clone())
            .or_default()
            .push(key.index);
    }
    keys
}

impl HasName for CallerRow {
    fn name(&self) -> &str {
        &self.id
    }
}

impl CallerRow {
    /// Writes the row, once for all viewers.
    pub(super) fn json(&self, context: &LiveContext) -> &str {
        self.row.get_or_init(|| {
            let snapshot = &context.snapshot;
            let used = context.used_keys.get(&self.id);
            let used = used.map(Vec::as_slice).unwrap_or_default();
            let last = used
                .iter()
                .filter_map(|index| snapshot.scopes.get(*index)?.last_used.last_used_at())
                .max();
            // Of the limits of other keys nothing is used, so one of them stands for all.
            let caller_keys = snapshot.catalog.caller_keys(&self.id);
            let first = snapshot.key_summary().first_limited(caller_keys);
            let keys = used.iter().copied().chain(first);
            to_json(&LiveCaller {
                id: &self.id,
                today: (&self.sums.today).into(),
                month: (&self.sums.month).into(),
                limited: self.sums.limited,
                last_used: last.map(format_time),
                limit: tightest_limit(keys, snapshot, context.ms),
            })
        })
    }
}

/// Returns the limit of which the largest share is used: the caller's own, or one of its keys at
/// these positions.
fn tightest_limit(
    positions: impl Iterator<Item = usize>,
    snapshot: &Snapshot,
    now: u64,
) -> Option<LiveLimit> {
    let all = snapshot.catalog.keys().as_slice();
    let keys = positions.filter_map(|index| all.get(index));
    let mut tightest: Option<(f64, Bound<'_>, UsedLimit)> = None;
    for (_, bound) in snapshot.bounds(keys) {
        let counts = bound.scope.own_counts(now);
        for (kind, used, limit) in bound.used_amounts(&counts) {
            let ratio = if limit == 0 {
                1.0
            } else {
                used as f64 / limit as f64
            };
            if tightest
                .as_ref()
                .is_none_or(|(highest, ..)| ratio > *highest)
            {
                tightest = Some((
                    ratio,
                    bound,
                    (kind, used, limit, resets_at(kind, &counts, now)),
                ));
            }
        }
    }
    let (ratio, bound, (kind, used, limit, resets)) = tightest?;
    Some(LiveLimit {
        level: bound.scope.level.name(),
        name: bound.scope.name.to_string(),
        kind: kind.name(),
        used: kind.amount_text(used),
        limit: kind.amount_text(limit),
        ratio: (ratio * 1000.0).round() / 1000.0,
        resets_at: resets.map(format_time),
    })
}
