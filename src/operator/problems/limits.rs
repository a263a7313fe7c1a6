//! The rules about callers, their keys and what they cost.

use super::facts::{Facts, KeyFacts, LimitFacts, OldSecret};
use super::words::{amount_text, duration_text};
use super::{DAY, Finding, Rule, SECOND};
use crate::base::units::format_count;
use crate::limits::{Kind, Level, Period};
use crate::status::Severity;
use std::collections::BTreeMap;

/// A limit by the minute is near only if it stays so: it is free again soon.
const MUST_STAY: u64 = 30 * SECOND;
/// A key is in use if it was used within this time.
const IN_USE: u64 = 7 * DAY;
/// The end of a key is near.
const NEAR: u64 = 7 * DAY;
/// The end of a key is reported for this time after it.
const PAST: u64 = DAY;

/// Finds problems of callers and keys, and for costs that are not known.
pub(super) fn find_limit_problems(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(facts.limits.iter().filter_map(near_limit));
    for key in &facts.keys {
        found.extend(ending_key(key, facts.now));
        found.extend(old_secret(key, facts.now));
    }
    find_unpriced(facts, found);
}

/// Checks a limit of which nine tenths are used.
fn near_limit(limit: &LimitFacts) -> Option<Finding> {
    let LimitFacts {
        kind,
        used,
        limit: allowed,
        ..
    } = *limit;
    if u128::from(used) * 10 < u128::from(allowed) * 9 || allowed == 0 {
        return None;
    }
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
    let must_last = if is_short_lived(kind) { MUST_STAY } else { 0 };
    Some(Finding {
        part: kind.name(),
        ..finding.must_last(must_last)
    })
}

/// Returns whether a limit of this kind is free again soon.
pub fn is_short_lived(kind: Kind) -> bool {
    matches!(kind.period(), Period::Minute | Period::Present)
}

/// Checks a key that is in use and ends.
fn ending_key(key: &KeyFacts, now: u64) -> Option<Finding> {
    let ends = key.ends?;
    if key.used.saturating_add(IN_USE) < now.min(ends)
        || ends.saturating_sub(now) >= NEAR
        || ends.saturating_add(PAST) <= now
    {
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

/// Checks an old secret that is still used, although it ends soon.
fn old_secret(key: &KeyFacts, now: u64) -> Option<Finding> {
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
    let mut of_models: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    // Where money is not counted, no price is missing.
    for model in facts.models.iter().filter(|_| facts.counts_money) {
        let answers = model.recent.map_or(0, |recent| recent.unpriced);
        if answers > 0 {
            of_models.entry(&model.id).or_default().0 = answers;
        }
    }
    for report in &facts.unpriced {
        let refused = &mut of_models.entry(&report.model).or_default().1;
        *refused = refused.saturating_add(report.requests);
    }
    for (model, (answers, refused)) in of_models {
        let summary = match (answers, refused) {
            (_, 0) => format!(
                "{} of `{model}` in the last 5 minutes cost nobody knows how much: its price is not known.",
                format_count(answers, "answer")
            ),
            _ => format!(
                "{} for `{model}` could not be sent to a target, since money is limited and the price there is not known.",
                format_count(refused, "request")
            ),
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
        // What was not sent is counted since the catalog is live, and not for five minutes.
        found.push(finding.with_requests((refused == 0).then_some(answers)));
    }
}
