//! This module has the rules about callers, their keys and what they cost.

use super::facts::{Facts, KeyFacts, LimitFacts, OldSecret};
use super::words::{amount_text, duration_text};
use super::{DAY, Finding, Rule, SECOND};
use crate::base::units::format_count;
use crate::limits::{Kind, Level, Period};
use crate::status::Severity;
use std::collections::BTreeMap;

/// The time for which a limit that is soon free again must be nearly used up before it is reported.
const MUST_LAST: u64 = 30 * SECOND;
/// A key is in use if it was used within this time.
const IN_USE: u64 = 7 * DAY;
/// The time before the end of a key from which the end is reported.
const WARN_BEFORE: u64 = 7 * DAY;
/// The time after the end of a key until which the end is reported.
const REPORT_AFTER: u64 = DAY;

/// Finds limits that are nearly used up, keys and old secrets that end, and models whose cost is
/// not known.
pub(super) fn find_limit_problems(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(facts.limits.iter().filter_map(find_near_limit));
    for key in &facts.keys {
        found.extend(find_ending_key(key, facts.now));
        found.extend(find_old_secret(key, facts.now));
    }
    find_unpriced(facts, found);
}

/// Returns the finding about a limit, if nine tenths of it are used.
fn find_near_limit(limit: &LimitFacts) -> Option<Finding> {
    let LimitFacts {
        kind,
        used,
        limit: allowed,
        ..
    } = *limit;
    if u128::from(used) * 10 < u128::from(allowed) * 9 || allowed == 0 {
        return None;
    }
    // The scope of a key's use of a model is named `KEY MODEL`.
    let (subject, owner) = match (limit.level, limit.name.split_once(' ')) {
        (Level::Caller, _) => ("caller", format!("Caller {}", limit.name)),
        (Level::KeyModel, Some((key, model))) => ("key", format!("Key {key}, for `{model}`,")),
        (Level::Key | Level::KeyModel, _) => ("key", format!("Key {}", limit.name)),
    };
    let summary = format!(
        "{owner} has used {} of {} of its `{}`; what is beyond it is refused with 429.",
        amount_text(kind, used),
        amount_text(kind, allowed),
        kind.name()
    );
    let remedy = "If the use is right, raise the limit in the catalog. `portcullis usage` shows what it went to.";
    let finding = Finding::new(
        Rule::LimitNear,
        Severity::Warning,
        (subject, limit.name.clone()),
        summary,
        remedy,
    );
    let must_last = if is_short_lived(kind) { MUST_LAST } else { 0 };
    Some(Finding {
        part: kind.name(),
        ..finding.must_last(must_last)
    })
}

/// Returns whether a limit of this kind is free again soon: it counts the present, or the last
/// minute.
pub fn is_short_lived(kind: Kind) -> bool {
    matches!(kind.period(), Period::Minute | Period::Present)
}

/// Returns the finding about a key, if it is in use and ends, or was in use and has ended.
fn find_ending_key(key: &KeyFacts, now: u64) -> Option<Finding> {
    let ends = key.ends?;
    let was_in_use = key.used.saturating_add(IN_USE) >= now.min(ends);
    let is_near = ends.saturating_sub(now) < WARN_BEFORE;
    let is_long_past = ends.saturating_add(REPORT_AFTER) <= now;
    if !was_in_use || !is_near || is_long_past {
        return None;
    }
    let summary = match ends.checked_sub(now) {
        Some(left) if left > 0 => format!(
            "Key {} is in use, and ends in {}.",
            key.id,
            duration_text(left)
        ),
        Some(_) | None => {
            format!(
                "Key {} was in use, and has ended: its requests are refused with 401.",
                key.id
            )
        }
    };
    let remedy = "Write a later `expires` at the key or at its caller in the catalog, or give the owner another key \
                  (`portcullis key new`).";
    Some(Finding::new(
        Rule::KeyEnds,
        Severity::Warning,
        ("key", key.id.clone()),
        summary,
        remedy,
    ))
}

/// Returns the finding about a key's old secret, if it is still used although it ends soon.
fn find_old_secret(key: &KeyFacts, now: u64) -> Option<Finding> {
    let OldSecret {
        last_used: used,
        ends,
    } = key.old_secret?;
    let left = ends
        .checked_sub(now)
        .filter(|left| *left > 0 && *left < DAY)?;
    if used.saturating_add(DAY) < now {
        return None;
    }
    let summary = format!(
        "The old secret of key {} is still used, and ends in {}.",
        key.id,
        duration_text(left)
    );
    let remedy = "Tell the key's owner to use the new secret. To give them more time, write a later `until` at the \
                  old one in the catalog.";
    Some(Finding::new(
        Rule::OldSecretUsed,
        Severity::Warning,
        ("key", key.id.clone()),
        summary,
        remedy,
    ))
}

/// Finds models whose cost is not known: of answers, or of requests that were not sent.
fn find_unpriced(facts: &Facts, found: &mut Vec<Finding>) {
    let mut by_model: BTreeMap<&str, UnpricedCounts> = BTreeMap::new();
    // Where money is not counted, no price is missing.
    for model in facts.models.iter().filter(|_| facts.counts_money) {
        let answers = model.recent.map_or(0, |recent| recent.unpriced);
        if answers > 0 {
            by_model.entry(&model.id).or_default().answers = answers;
        }
    }
    for report in &facts.unpriced {
        let counts = by_model.entry(&report.model).or_default();
        counts.refused_requests = counts.refused_requests.saturating_add(report.requests);
    }
    for (model, counts) in by_model {
        let are_all_sent = counts.refused_requests == 0;
        let summary = if are_all_sent {
            format!(
                "The cost of {} of `{model}` in the last 5 minutes is not known: the target lacks a price.",
                format_count(counts.answers, "answer")
            )
        } else {
            format!(
                "{} for `{model}` could not be sent to a target, since money is limited and the price there is not known.",
                format_count(counts.refused_requests, "request")
            )
        };
        let remedy = "Write `price` at the target in the catalog, or `price: { input: 0, output: 0 }` if it costs nothing. \
                      `unpriced` in `/status` names targets that were not asked.";
        let finding = Finding::new(
            Rule::Unpriced,
            Severity::Warning,
            ("model", model),
            summary,
            remedy,
        );
        // Requests that were not sent are counted since the catalog became live, so they are no
        // number of the last five minutes.
        found.push(finding.with_requests(are_all_sent.then_some(counts.answers)));
    }
}

/// What of a model has no known cost.
#[derive(Default)]
struct UnpricedCounts {
    /// The answers of the last five minutes.
    answers: u64,
    /// The requests that were not sent to a target.
    refused_requests: u64,
}
