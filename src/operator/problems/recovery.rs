//! When failures are a problem, how bad it is, and when it is over. [`FailureMemory`] is what is
//! remembered of them from one look to the next.
//!
//! **Invariant:** after the last failure nothing becomes worse: the requests that are reported are
//! those of the minutes before it, although good ones leave the window later. Without an answer
//! since, nothing has recovered.

use super::SECOND;
use super::facts::{Facts, ModelFacts, RecentFacts};
use super::words::duration_text;
use crate::base::units::format_count;
use crate::series::FaultCount;
use crate::status::Severity;
use std::collections::HashMap;
use std::sync::Arc;

/// Of fewer requests no share is taken.
const MIN_REQUESTS: u64 = 20;
/// A failure that is older than this is severe only if no request was answered since.
const FRESH_AGE: u64 = 30 * SECOND;
/// So many answers since the last failure show that it is over.
const ENOUGH_ANSWERS: u64 = 3;
/// Answers for this time show it, too, however few they are.
const ANSWERING_TIME: u64 = 30 * SECOND;

/// Whose fault failures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    Caller,
    Upstream,
    Us,
    /// Callers waited for much longer than usual, and left.
    GivenUp,
}

/// The failures that are problems now, and what is known of those that were.
#[derive(Debug, Default)]
pub struct FailureMemory {
    /// By the model and the fault. The model is `None` for the whole gateway.
    standing: HashMap<(Option<Arc<str>>, Fault), Standing>,
}

/// The failures of one subject by one fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    /// The number of all failures when this was written.
    all_failures: u64,
    /// The requests of the minutes before the last failure, and how many of them failed. Both are 0
    /// if another rule reports these failures.
    requests: u64,
    failed: u64,
    severity: Severity,
}

/// The report on the failures of one subject by one fault.
#[derive(Debug, Clone)]
pub(super) struct FailureSummary {
    /// The model; `None` for the whole gateway.
    pub(super) model: Option<Arc<str>>,
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) severity: Severity,
    /// The milliseconds since the last failure.
    pub(super) age: u64,
    /// The requests since the last failure, if that is a while ago.
    pub(super) since: Option<String>,
}

impl FailureMemory {
    /// Finds failures of more than one of twenty requests. The whole gateway is a subject only
    /// for what no single model shows. `is_reported` is true for the models that another rule
    /// reports already.
    pub(super) fn find_failures(
        &mut self,
        facts: &Facts,
        fault: Fault,
        is_reported: impl Fn(&ModelFacts) -> bool,
    ) -> Vec<FailureSummary> {
        let mut failures = Vec::new();
        let mut rest = facts.recent;
        for model in &facts.models {
            let name = (Some(model.id.clone()), fault);
            let Some(recent) = model.recent else { continue };
            if is_reported(model) {
                self.excuse(&name, recent.fault(fault).total);
                rest = rest.without(&recent);
                continue;
            }
            let before = self.standing.get(&name).copied();
            let now = judge_subject(before, &recent, fault, facts.tick);
            let is_known = now.is_some_and(|now| now.requests > 0);
            // A failure that another rule has reported is not reported again of the whole gateway.
            if now.is_some() || is_over(&recent.fault(fault), facts.tick) {
                rest = rest.without(&recent);
            }
            self.keep(name, now);
            let stands = now.filter(|_| is_known);
            failures.extend(
                stands.map(|now| now.summarize(Some(model.id.clone()), &recent, fault, facts.tick)),
            );
        }
        let models = facts.models.iter().map(|model| &model.id);
        self.standing.retain(|(name, _), _| {
            name.as_ref()
                .is_none_or(|name| models.clone().any(|id| id == name))
        });
        let before = self.standing.get(&(None, fault)).copied();
        let now = judge_subject(before, &rest, fault, facts.tick).map(|now| match before {
            // What fails at one model makes what failed at others no worse.
            Some(before) if now.failed <= before.failed => Standing {
                severity: now.severity.max(before.severity),
                ..now
            },
            Some(_) | None => now,
        });
        self.keep((None, fault), now);
        let stands = now.filter(|now| now.requests > 0);
        failures.extend(stands.map(|now| now.summarize(None, &rest, fault, facts.tick)));
        failures
    }

    fn keep(&mut self, name: (Option<Arc<str>>, Fault), standing: Option<Standing>) {
        if let Some(standing) = standing {
            self.standing.insert(name, standing);
        } else {
            self.standing.remove(&name);
        }
    }

    /// Notes that another rule reports all failures until now.
    fn excuse(&mut self, name: &(Option<Arc<str>>, Fault), seen: u64) {
        let excused = Standing {
            all_failures: seen,
            requests: 0,
            failed: 0,
            severity: Severity::Warning,
        };
        self.standing.insert(name.clone(), excused);
    }
}

/// Judges the failures of a subject. Returns what is to be remembered of them.
fn judge_subject(
    before: Option<Standing>,
    recent: &RecentFacts,
    fault: Fault,
    now: u64,
) -> Option<Standing> {
    let (known, requests, failed) = (
        recent.fault(fault),
        recent.judged(fault),
        recent.failed(fault),
    );
    let is_many = requests >= MIN_REQUESTS && failed.saturating_mul(20) > requests;
    // Of the rest of the gateway, what failed at a model with a problem of its own is no news.
    let is_news = failed > 0 && before.is_none_or(|before| before.all_failures != known.total);
    if known.last_failed_at.is_none() || is_over(&known, now) {
        return None;
    }
    // No further request is needed to know that a caller has gone.
    if fault == Fault::Caller && failed == 0 {
        return None;
    }
    let is_critical =
        matches!(fault, Fault::Upstream | Fault::Us) && failed.saturating_mul(5) > requests;
    let severity = if is_critical {
        Severity::Critical
    } else {
        Severity::Warning
    };
    let present = Standing {
        all_failures: known.total,
        requests,
        failed,
        severity,
    };
    match before {
        // Few requests are enough to go on, and say nothing new of the share.
        Some(before) if before.requests > 0 => {
            let is_diluted = requests >= MIN_REQUESTS && !is_many;
            match (is_diluted, is_news) {
                (true, _) => None,
                (false, true) if requests >= MIN_REQUESTS => Some(present),
                (false, true) => Some(Standing {
                    severity: before.severity,
                    ..present
                }),
                (false, false) => Some(before),
            }
        }
        Some(excused) if !is_news => Some(excused),
        Some(_) | None => is_many.then_some(present),
    }
}

impl Standing {
    fn summarize(
        self,
        model: Option<Arc<str>>,
        recent: &RecentFacts,
        fault: Fault,
        now: u64,
    ) -> FailureSummary {
        let known = recent.fault(fault);
        let age = failure_age(&known, now);
        let is_severe = known.successes_since == 0 || age < FRESH_AGE;
        FailureSummary {
            model,
            requests: self.requests,
            failed: self.failed,
            severity: if is_severe {
                self.severity
            } else {
                Severity::Warning
            },
            age,
            since: (age >= FRESH_AGE).then(|| what_came_since(&known, now)),
        }
    }
}

/// Returns the milliseconds since the last failure.
fn failure_age(fault: &FaultCount, now: u64) -> u64 {
    fault
        .last_failed_at
        .map_or(u64::MAX, |last| now.saturating_sub(last))
}

/// Returns whether there were failures, and enough was answered since to show that they are over.
fn is_over(fault: &FaultCount, now: u64) -> bool {
    let is_answering = fault
        .good_since
        .is_some_and(|since| now.saturating_sub(since) >= ANSWERING_TIME);
    fault.last_failed_at.is_some()
        && failure_age(fault, now) >= FRESH_AGE
        && (fault.successes_since >= ENOUGH_ANSWERS || is_answering)
}

/// Writes what happened since the last failure.
fn what_came_since(fault: &FaultCount, now: u64) -> String {
    let ago = duration_text(failure_age(fault, now));
    match (fault.requests_since, fault.successes_since) {
        (0, _) => format!("last failed {ago} ago, nothing asked since"),
        (_, 0) => format!("last failed {ago} ago, no answer since"),
        (_, good) => format!(
            "last failed {ago} ago, {} since",
            format_count(good, "answer")
        ),
    }
}

impl RecentFacts {
    fn fault(&self, fault: Fault) -> FaultCount {
        match fault {
            Fault::Caller => self.faults.by_caller,
            Fault::Upstream => self.faults.by_upstream,
            Fault::Us => self.faults.by_us,
            Fault::GivenUp => self.faults.given_up,
        }
    }

    fn failed(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Caller => self.by_caller,
            Fault::Upstream => self.by_upstream,
            Fault::Us => self.by_us,
            Fault::GivenUp => self.given_up,
        }
    }

    /// Returns the requests of which a share is taken. Who sends what is refused can make no
    /// provider look well.
    fn judged(&self, fault: Fault) -> u64 {
        let of_callers = if fault == Fault::Caller {
            0
        } else {
            self.by_caller
        };
        self.requests.saturating_sub(of_callers)
    }

    /// Takes the requests of a model away.
    fn without(self, other: &RecentFacts) -> RecentFacts {
        RecentFacts {
            requests: self.requests.saturating_sub(other.requests),
            by_caller: self.by_caller.saturating_sub(other.by_caller),
            by_upstream: self.by_upstream.saturating_sub(other.by_upstream),
            by_us: self.by_us.saturating_sub(other.by_us),
            given_up: self.given_up.saturating_sub(other.given_up),
            ..self
        }
    }
}
