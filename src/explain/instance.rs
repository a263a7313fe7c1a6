//! An instance is a running gateway as its `/status` reports it. The status is put into a snapshot
//! that is not served.

use std::time::{Duration, Instant, SystemTime};

use super::remaining_text;
use super::report::Report;
use crate::account::breaker;
use crate::account::health::{Rest, Why};
use crate::account::target_health::TargetStatus;
use crate::catalog::Model;
use crate::drain::Phase;
use crate::live::Snapshot;
use crate::plan::Candidate;
use crate::status::{
    AccountReport, AccountState, BreakerReport, FailureReport, ModelReport, RestReport, Status,
    TargetReport,
};
use dialects::Endpoint;

/// The longest time that a target rests or its breaker stays open. A longer time in the report is
/// cut to this.
const MAX_REST: Duration = Duration::from_secs(24 * 3_600);

/// The status of a running instance.
pub struct Instance {
    /// The source of the status, in words.
    pub source: String,
    /// The status.
    pub status: Status,
}

impl Instance {
    /// Returns the reason why the instance takes no request at all, if there is one.
    pub(super) fn refuses(&self) -> Option<String> {
        let phase = match self.status.phase {
            Phase::Draining => "draining",
            Phase::Cutting => "cutting",
            Phase::Starting | Phase::Serving | Phase::Delaying => return None,
        };
        Some(format!("the instance is shutting down ({phase})"))
    }

    /// Returns what the status reports about a model.
    pub(super) fn model(&self, id: &str) -> Option<&ModelReport> {
        self.status.models.iter().find(|model| model.id == *id)
    }

    fn account(&self, id: &str) -> Option<&AccountReport> {
        self.status
            .accounts
            .iter()
            .find(|account| account.id == *id)
    }

    /// Returns a line about the state of a target.
    pub(super) fn describe_target(&self, candidate: &Candidate) -> Option<String> {
        let Some(report) = self.account(&candidate.account().id) else {
            return Some("/status does not have this account".to_owned());
        };
        let limit_text = report
            .concurrency
            .map(|limit| format!(" of {limit}"))
            .unwrap_or_default();
        let mut does = vec![format!("{}{limit_text} in flight", report.in_flight)];
        match target_of(report, &candidate.upstream_model, candidate.health.endpoint) {
            Some(target) => {
                if target.calls > 0 {
                    does.push(format!(
                        "{} of {} calls failed",
                        target.failed, target.calls
                    ));
                }
                if let Some(FailureReport {
                    outcome,
                    status,
                    detail,
                    ago_ms,
                }) = &target.last_failure
                {
                    let detail = detail
                        .as_ref()
                        .map(|detail| format!(": {detail}"))
                        .unwrap_or_default();
                    let status = status
                        .map(|status| format!(", HTTP {status}"))
                        .unwrap_or_default();
                    does.push(format!(
                        "failed {} ago ({outcome}{status}{detail})",
                        remaining_text(Duration::from_millis(*ago_ms))
                    ));
                }
                if let Some(left_behind) = target.behind_for_ms {
                    let time = remaining_text(Duration::from_millis(left_behind));
                    does.push(format!(
                        "behind the others for {time} more, since callers have given it up"
                    ));
                }
                if target.breaker == BreakerReport::HalfOpen {
                    let now = if target.probing {
                        ", and one does so now"
                    } else {
                        ""
                    };
                    does.push(format!(
                        "breaker half open: one request at a time tests the target{now}"
                    ));
                }
                for (stage, time) in [
                    ("first token", target.first_token_ms),
                    ("whole answer", target.whole_ms),
                ] {
                    does.extend(time.map(|time| format!("{stage} expected in {time}ms")));
                }
                does.extend(
                    target
                        .headroom
                        .map(|share| format!("{:.0} % of the quota left", share * 100.0)),
                );
            }
            None => does.push("/status does not have this model at this account".to_owned()),
        }
        Some(does.join(", "))
    }

    /// Puts the status into the snapshot.
    pub(super) fn restore_state(&self, snapshot: &Snapshot, now: Instant, clock: SystemTime) {
        let after = |milliseconds| time_after(now, milliseconds);
        let rest_of = |rest| reported_rest(rest, now);
        for (ready_account, healths) in snapshot.ready_accounts.iter().zip(snapshot.targets()) {
            let Some(reported) = self.account(&ready_account.account.id) else {
                continue;
            };
            let mut rests = reported
                .targets
                .iter()
                .filter_map(|target| target.rest.as_ref())
                .map(rest_of);
            ready_account.state.recall(
                reported.in_flight,
                rests.find(|rest| rest.why == Why::Credential),
            );
            for (name, health) in healths {
                let Some(target) = target_of(reported, &name, health.endpoint) else {
                    continue;
                };
                let time = |time: Option<u64>| time.map(Duration::from_millis);
                let known = TargetStatus {
                    breaker: match target.breaker {
                        BreakerReport::Closed => breaker::BreakerState::Closed,
                        BreakerReport::Open => breaker::BreakerState::Open(after(
                            target.opens_in_ms.unwrap_or_default(),
                        )),
                        BreakerReport::HalfOpen => {
                            breaker::BreakerState::HalfOpen { probing: false }
                        }
                    },
                    calls: breaker::CallCounts {
                        all: target.calls,
                        failed: target.failed,
                    },
                    // A rest for the credential belongs to the account, not to the target.
                    rest: target
                        .rest
                        .as_ref()
                        .map(rest_of)
                        .filter(|rest| rest.why != Why::Credential),
                    expected: [time(target.whole_ms), time(target.first_token_ms)],
                    awaited: target.awaited,
                    headroom: target.headroom,
                    behind: target.behind_for_ms.map(after),
                };
                health.recall(&known, now, clock);
            }
        }
    }

    /// Notes each difference between the catalog of the instance and the files.
    pub(super) fn note_differences(&self, model: &Model, report: &mut Report) {
        let catalog = &self.status.catalog;
        let mut fact = |sentence: String| report.add_fact("catalog", sentence);
        if catalog
            .last_refusal
            .as_ref()
            .is_some_and(|refusal| refusal.standing)
        {
            fact(
                "the instance refused the present files, and serves an older catalog than this one"
                    .to_owned(),
            );
        }
        if let Some(held) = &catalog.held {
            fact(format!(
                "the instance delays a change ({held}), and serves an older catalog than this one"
            ));
        }
        if self.model(model.label()).is_none() {
            fact(format!(
                "the instance does not serve the model \"{}\": the instance has another catalog",
                model.id
            ));
        }
        for account in model.targets.iter().map(|target| &target.account) {
            let Some(reported) = self.account(&account.id) else {
                continue;
            };
            if (reported.state == AccountState::Off) == account.enabled {
                let has = if account.enabled {
                    "disabled"
                } else {
                    "enabled"
                };
                fact(format!(
                    "the account {} is {has} in the instance: the instance has another catalog",
                    account.id
                ));
            } else if reported.concurrency != account.concurrency {
                fact(format!(
                    "the account {} has another `concurrency` in the instance: the instance has another catalog",
                    account.id
                ));
            }
        }
    }
}

fn target_of<'a>(
    account: &'a AccountReport,
    model: &str,
    endpoint: Endpoint,
) -> Option<&'a TargetReport> {
    // An older gateway names no endpoint: it has one.
    account.targets.iter().find(|target| {
        target.model == *model && (target.endpoint.is_empty() || target.endpoint == endpoint.name())
    })
}

/// Returns the time after so many milliseconds.
fn time_after(now: Instant, milliseconds: u64) -> Instant {
    now + Duration::from_millis(milliseconds).min(MAX_REST)
}

fn reported_rest(report: &RestReport, now: Instant) -> Rest {
    Rest {
        until: time_after(now, report.for_ms),
        why: report.why,
    }
}
