//! The rule about models whose last requests all failed, while no breaker is open yet: the first
//! request of a new gateway shows what is wrong as well as the fifth.
//!
//! **Invariant:** one answered request ends it. Where requests were answered before, a single
//! failure says nothing.

use super::causes::Causes;
use super::facts::{Facts, ModelFacts};
use super::finding::CALLERS;
use super::words::{duration_text, failing_account, model_names};
use super::{Finding, Rule};
use crate::base::units::{first_three, format_count};
use crate::status::Severity;

/// So many failures in a row are a problem of a model that has answered before.
const IN_A_ROW: u64 = 3;

/// Finds models whose last requests failed, unless another rule has found them.
pub(super) fn find_silent_models(facts: &Facts, causes: &Causes, found: &mut Vec<Finding>) {
    let silent = facts
        .models
        .iter()
        .filter(|model| is_silent(model) && !is_reported(found, model));
    let groups = causes.group(silent.collect());
    found.extend(
        groups
            .iter()
            .filter_map(|models| silent_models(causes, models, facts.tick)),
    );
}

fn is_silent(model: &ModelFacts) -> bool {
    let least = if model.has_answered { IN_A_ROW } else { 1 };
    // What failed before an account was reset, or its settings changed, is past.
    model.last_failure.is_some() && failures_in_a_row(model) >= least
}

fn failures_in_a_row(model: &ModelFacts) -> u64 {
    model.recent.map_or(0, |recent| recent.faults.in_a_row)
}

/// Returns whether another rule has found a model already, and at once.
fn is_reported(found: &[Finding], model: &ModelFacts) -> bool {
    let mut others = found.iter().filter(|one| {
        one.must_last == 0
            && (one.rule == Rule::ModelUnfit || one.rule == Rule::Failures && one.part != CALLERS)
    });
    others.any(|one| one.models.contains(&model.id))
}

fn silent_models(causes: &Causes, models: &[&ModelFacts], tick: u64) -> Option<Finding> {
    let first = models.first()?;
    let failed = models.iter().map(|model| failures_in_a_row(model)).sum();
    let names = first_three(&model_names(models), ", ");
    let requests = format_count(failed, "request");
    let summary = match models {
        _ if models.iter().any(|model| model.has_answered) => {
            format!("The last {requests} for {names} failed")
        }
        [_] => format!("{names} has not answered since the start: {requests} failed"),
        _ => format!("{names} have not answered since the start: {requests} failed"),
    };
    let causes_of_failures = models.iter().filter_map(|model| {
        let (account, failure) = model.last_failure.as_ref()?;
        Some(failing_account(account, Some(failure)))
    });
    let mut why: Vec<String> = causes_of_failures.collect();
    why.dedup();
    let quiet = models
        .iter()
        .filter_map(|model| quiet_ms(model, tick))
        .min();
    let summary = format!(
        "{summary} ({}){}.",
        first_three(&why, "; "),
        last_one_text(quiet)
    );
    let remedy = "`attempts` in the access lines and `last_failure` in `/status` say how it failed. `portcullis doctor` checks \
                  the account, and `doctor --ask` tries its models. The first request that is answered ends this.";
    let finding = Finding::new(
        Rule::NotAnswering,
        Severity::Warning,
        causes.subject(first),
        summary,
        remedy,
    );
    let models = models.iter().map(|model| model.id.clone()).collect();
    Some(finding.with_requests(Some(failed)).with_models(models))
}

/// Returns the milliseconds since a model's last failure.
fn quiet_ms(model: &ModelFacts, tick: u64) -> Option<u64> {
    let failed_at = model.recent?.faults.by_upstream.last_failed_at?;
    Some(tick.saturating_sub(failed_at))
}

/// Writes how long ago the last failure was, if it is long ago. Other requests may still wait.
fn last_one_text(since: Option<u64>) -> String {
    const SHORT: u64 = 10_000;
    since
        .filter(|since| *since >= SHORT)
        .map(|since| format!(", the last one {} ago", duration_text(since)))
        .unwrap_or_default()
}
