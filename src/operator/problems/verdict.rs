//! The [`Verdict`] is the one sentence that an operator reads first.

use super::facts::{Facts, ModelFacts, ModelTarget, Reason, TargetState};
use super::upstreams::{CALLERS, GIVEN_UP};
use super::words::{some, span, unfit};
use super::{Noticed, Rule};
use crate::base::units::count;
use crate::drain::Phase;
use crate::status::Severity;
use serde::Serialize;

/// A word for the whole gateway, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The word.
    pub word: Word,
    /// The sentence.
    pub says: String,
}

/// The words for the whole gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Callers get answers, and everything that they need is there.
    Ok,
    /// Callers get answers, but something that they need is out.
    Degraded,
    /// Some callers get no answers.
    Failing,
    /// The gateway shuts down.
    Draining,
}

/// Returns the verdict.
pub fn verdict(facts: &Facts, noticed: &[Noticed]) -> Verdict {
    let of = |word, says: String| Verdict { word, says };
    match facts.phase {
        (Phase::Starting, _) => return of(Word::Degraded, "The gateway is starting.".to_owned()),
        (Phase::Delaying | Phase::Draining | Phase::Cutting, exchanges) => {
            let exchanges = u64::try_from(exchanges).unwrap_or(u64::MAX);
            return of(
                Word::Draining,
                format!("The gateway shuts down, with {} to end.", count(exchanges, "exchange")),
            );
        }
        (Phase::Serving, _) => {}
    }
    // The worst is what concerns the most requests; among equals, what has lasted longest.
    let worst = |is: &dyn Fn(&Noticed) -> bool| {
        let those = noticed.iter().filter(|one| is(one));
        those.min_by_key(|one| (one.finding.severity, std::cmp::Reverse(one.finding.requests), one.since))
    };
    let is_failing = |one: &Noticed| {
        let is_critical = one.is_problem && one.finding.severity == Severity::Critical;
        is_critical && matches!(one.finding.rule, Rule::ModelUnfit | Rule::Failures)
    };
    if let Some(one) = worst(&is_failing) {
        let model = facts.models.iter().find(|model| model.id == one.finding.subject.1);
        let says = match (one.finding.rule, model) {
            (Rule::ModelUnfit, Some(model)) => {
                let why: Vec<String> = model.targets.iter().map(unfit).collect();
                let lasts = span(facts.now.saturating_sub(one.since));
                format!("`{}` fails for {lasts}: {}.", model.id, some(&why, ", "))
            }
            _ => one.finding.what.clone(),
        };
        return of(Word::Failing, says);
    }
    // Whoever hangs is told first: its breaker may be open by now, which says less.
    if let Some(one) = worst(&|one| one.is_problem && one.finding.rule == Rule::GivenUp) {
        return of(Word::Degraded, one.finding.what.clone());
    }
    if let Some(says) = degraded(facts, noticed) {
        return of(Word::Degraded, says);
    }
    let hurts = |one: &Noticed| {
        // Anybody can send what is refused. Of what was given up, another rule says whether it
        // lasts.
        let is_past = one.finding.part == CALLERS || one.finding.part == GIVEN_UP;
        let is_of_service = !is_past
            && matches!(one.finding.rule, Rule::CredentialRefused | Rule::Failures | Rule::Queue | Rule::StoreDown);
        one.is_problem && (one.finding.severity == Severity::Critical || is_of_service)
    };
    if let Some(one) = worst(&hurts) {
        return of(Word::Degraded, one.finding.what.clone());
    }
    let models = count(u64::try_from(facts.models.len()).unwrap_or(u64::MAX), "model");
    let warnings = noticed.iter().filter(|one| one.is_problem).count();
    let says = match worst(&|one| one.is_problem) {
        Some(first) if warnings > 1 => {
            format!("{models} can answer. There are {warnings} warnings: {}", first.finding.what)
        }
        Some(first) => format!("{models} can answer. There is a warning: {}", first.finding.what),
        None => format!("{models} can answer, and nothing is wrong."),
    };
    of(Word::Ok, says)
}

/// Says which model has lost a target and answers all the same. Of several it is the one with the
/// most requests.
fn degraded(facts: &Facts, noticed: &[Noticed]) -> Option<String> {
    let lost =
        |target: &&ModelTarget| matches!(target.reason, Some(Reason::Breaker | Reason::Credential | Reason::Unfit));
    let requests = |model: &&ModelFacts| model.recent.map_or(0, |recent| recent.requests);
    let hurt: Vec<&ModelFacts> =
        facts.models.iter().filter(|model| model.targets.iter().any(|target| lost(&target))).collect();
    let most = hurt.iter().copied().map(|model| requests(&model)).max()?;
    let model = hurt.iter().find(|model| requests(model) == most)?;
    let gone: Vec<&ModelTarget> = model.targets.iter().filter(lost).collect();
    let why: Vec<String> = gone.iter().map(|target| unfit(target)).collect();
    let is_of = |one: &&Noticed| {
        let (rule, name) = (one.finding.rule, &*one.finding.subject.1);
        gone.iter().any(|target| {
            rule == Rule::CredentialRefused && *name == *target.account
                || rule == Rule::BreakerOpen && *name == format!("{}/{}", target.account, target.name)
        })
    };
    let since = noticed.iter().filter(is_of).map(|one| one.since).min();
    let lasts = since.map(|since| format!(" for {}", span(facts.now.saturating_sub(since)))).unwrap_or_default();
    let instead = model.targets.iter().find(|target| target.state == TargetState::Ok);
    let instead = instead.map(|target| format!(", {} answers instead", target.account)).unwrap_or_default();
    let more = match hurt.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" ({} more {} hurt)", more, if more == 1 { "model is" } else { "models are" }),
    };
    Some(format!("`{}` is degraded{lasts}: {}{instead}.{more}", model.id, some(&why, ", ")))
}
