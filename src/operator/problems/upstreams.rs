//! The rules about models, targets and accounts.

use super::causes::Causes;
use super::facts::{
    AccountFacts, Facts, IdentityFacts, ModelFacts, ModelTarget, Reason, TargetState,
};
use super::finding::{CALLERS, GIVEN_UP};
use super::not_answering::find_silent_models;
use super::recovery::{FailureMemory, FailureSummary, Fault};
use super::words::{
    cut_reason, failing_account, model_names, quiet_for, quiet_text, unfit_target, unfit_together,
};
use super::{Finding, Rule, SECOND, given_up};
use crate::base::calendar::format_time;
use crate::base::units::{first_three, format_count};
use crate::status::Severity;
use std::sync::Arc;

/// A breaker that is open for less than this is no problem: it is there for that.
const OPEN_TIME: u64 = 30 * SECOND;
/// A rate limit of a model's last target is no problem for this time.
const RATE_TIME: u64 = 10 * SECOND;
/// A list that fails for less than this is no problem: it is fetched again after five seconds.
const LIST_TIME: u64 = 10 * SECOND;
/// A share of the quota below this is little.
const LOW_HEADROOM: f64 = 0.05;

/// Finds problems of models, targets and accounts.
pub(super) fn find_upstream_problems(
    facts: &Facts,
    memory: &mut FailureMemory,
    found: &mut Vec<Finding>,
) {
    let causes = Causes::new(&facts.models);
    let unfit = facts.models.iter().filter(|model| is_unfit(model));
    let (out, replaced): (Vec<_>, Vec<_>) = unfit.partition(|model| is_out(facts, model));
    for models in causes.group(out) {
        found.extend(unfit_models(&causes, &models));
    }
    for models in causes.group(replaced) {
        let finding = unfit_models(&causes, &models);
        found.extend(finding.map(|finding| Finding {
            severity: Severity::Warning,
            part: FALLBACK,
            summary: format!("{} Fallbacks answer instead.", finding.summary),
            ..finding
        }));
    }
    facts
        .models
        .iter()
        .for_each(|model| find_queue_problem(model, found));
    find_failures(facts, &causes, memory, found);
    find_silent_models(facts, &causes, found);
    for account in &facts.accounts {
        find_account_problems(account, found);
    }
}

/// Returns whether no account can answer a model. A disabled model is no problem.
fn is_unfit(model: &ModelFacts) -> bool {
    let is_off = model
        .targets
        .iter()
        .all(|target| target.state == TargetState::Off);
    !is_off
        && model
            .targets
            .iter()
            .all(|target| target.state != TargetState::Ok)
}

/// Returns whether neither an account nor a fallback can answer a model.
fn is_out(facts: &Facts, model: &ModelFacts) -> bool {
    is_unfit(model) && answering_fallback(facts, model).is_none()
}

/// Returns the fallback that answers for a model without a fit target.
pub(super) fn answering_fallback<'f>(
    facts: &'f Facts,
    model: &ModelFacts,
) -> Option<&'f ModelFacts> {
    let is_fit = |target: &ModelTarget| target.state == TargetState::Ok;
    let find_model = |id: &Arc<str>| facts.models.iter().find(|other| other.id == *id);
    let mut fallbacks = model.fallbacks.iter().filter_map(find_model);
    fallbacks.find(|fallback| fallback.targets.iter().any(is_fit))
}

/// Finds models that no account can answer, for one cause.
fn unfit_models(causes: &Causes, models: &[&ModelFacts]) -> Option<Finding> {
    let first = models.first()?;
    let summary = match models {
        [model] => {
            let why: Vec<String> = model.targets.iter().map(unfit_target).collect();
            format!(
                "No target of `{}` answers: {}",
                model.id,
                first_three(&why, "; ")
            )
        }
        _ => {
            let targets: Vec<&ModelTarget> =
                models.iter().flat_map(|model| &model.targets).collect();
            let number = format_count(to_u64(models.len()), "model");
            format!(
                "{number} ({}) have no target that answers: {}",
                first_three(&model_names(models), ", "),
                unfit_together(&targets)
            )
        }
    };
    let summary = format!(
        "{summary}{}.",
        quiet_text(models.iter().flat_map(|model| &model.targets))
    );
    let remedy = "Look at `last_failure` of these targets in `/status`. When the cause is mended, \
                  `POST /accounts/NAME/reset` tries an account at once.";
    let requests = models
        .iter()
        .filter_map(|model| Some(model.recent?.requests))
        .reduce(|sum, more| sum + more);
    let are_limited = models.iter().all(|model| {
        let mut targets = model.targets.iter();
        targets.any(|target| target.reason == Some(Reason::Rate))
    });
    let finding = Finding::new(
        Rule::ModelUnfit,
        Severity::Critical,
        causes.subject(first),
        summary,
        remedy,
    );
    let finding = finding
        .with_requests(requests)
        .with_models(models.iter().map(|model| model.id.clone()).collect());
    Some(finding.must_last(if are_limited { RATE_TIME } else { 0 }))
}

/// Finds requests that wait, or did not even get a place to wait.
fn find_queue_problem(model: &ModelFacts, found: &mut Vec<Finding>) {
    let half = model
        .queue
        .filter(|max_waiting| *max_waiting > 0 && model.waiting.saturating_mul(2) >= *max_waiting);
    let shed = model.recent.map_or(0, |recent| recent.shed);
    let waiting = half.map(|max_waiting| {
        format!(
            "{} of at most {max_waiting} wait for `{}`",
            format_count(to_u64(model.waiting), "request"),
            model.id
        )
    });
    let refused = (shed > 0).then(|| {
        format!(
            "{} for `{}` found all accounts busy and no place to wait, in the last 5 minutes",
            format_count(shed, "request"),
            model.id
        )
    });
    let what: Vec<String> = [waiting, refused].into_iter().flatten().collect();
    if what.is_empty() {
        return;
    }
    let parts = format!("{}: its accounts are full or at rest.", what.join("; "));
    let remedy = "Add an account to the model, or raise `concurrency` of those that it has, if their providers allow it. \
                  `queue.length` of the model says how many may wait.";
    let finding = Finding::new(
        Rule::Queue,
        Severity::Warning,
        ("model", model.id.clone()),
        parts,
        remedy,
    );
    found.push(finding.with_requests(model.recent.map(|recent| recent.requests)));
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The part of the unfit models for which fallbacks answer.
const FALLBACK: &str = "fallback";
/// Finds failures of more than one of twenty requests.
fn find_failures(
    facts: &Facts,
    causes: &Causes,
    memory: &mut FailureMemory,
    found: &mut Vec<Finding>,
) {
    for fault in [Fault::Us, Fault::Upstream, Fault::GivenUp, Fault::Caller] {
        // The cause why no account answers a model is a finding already.
        let is_reported = |model: &ModelFacts| fault == Fault::Upstream && is_out(facts, model);
        let (of_models, of_all): (Vec<FailureSummary>, _) = memory
            .find_failures(facts, fault, is_reported)
            .into_iter()
            .partition(|failure| failure.model.is_some());
        found.extend(
            of_all.iter().map(|failure| {
                failing_requests(fault, ("process", "portcullis".into()), &[failure])
            }),
        );
        let failing = |model: &ModelFacts| sight_of(&of_models, model);
        let models = facts
            .models
            .iter()
            .filter(|model| failing(model).is_some())
            .collect();
        // Callers who send what is refused have no account as their cause.
        let groups = match fault {
            Fault::Upstream => causes.group(models),
            Fault::Caller | Fault::Us | Fault::GivenUp => {
                models.into_iter().map(|model| vec![model]).collect()
            }
        };
        for group in groups {
            let Some(first) = group.first() else { continue };
            let subject = match fault {
                Fault::Upstream => causes.subject(first),
                Fault::Caller | Fault::Us | Fault::GivenUp => ("model", first.id.clone()),
            };
            let group_failures: Vec<&FailureSummary> =
                group.iter().filter_map(|model| failing(model)).collect();
            let mut finding = failing_requests(fault, subject, &group_failures);
            if fault == Fault::Upstream && group.iter().all(|model| has_several_accounts(model)) {
                ALL_FAIL.clone_into(&mut finding.remedy);
            }
            found.push(finding.with_models(group.iter().map(|model| model.id.clone()).collect()));
        }
    }
}

fn sight_of<'s>(sights: &'s [FailureSummary], model: &ModelFacts) -> Option<&'s FailureSummary> {
    let mut sights = sights.iter();
    sights.find(|sight| sight.model.as_ref() == Some(&model.id))
}

/// The advice where a second provider is there, and fails, too.
const ALL_FAIL: &str = "Look at `attempts` in the access lines: they name the accounts and how each failed. There are several accounts, and \
                        they fail together: look whether something has them all, such as this machine's network, a proxy, or one provider \
                        behind them.";

/// Returns whether a model has targets at several accounts that are not switched off.
fn has_several_accounts(model: &ModelFacts) -> bool {
    let mut accounts = model
        .targets
        .iter()
        .filter(|target| target.state != TargetState::Off)
        .map(|target| &target.account);
    let first = accounts.next();
    accounts.any(|account| Some(account) != first)
}

fn failing_requests(
    fault: Fault,
    subject: (&'static str, Arc<str>),
    failures: &[&FailureSummary],
) -> Finding {
    let (part, by, remedy) = match fault {
        Fault::Caller => (
            CALLERS,
            "failed by the callers' fault",
            "Find the callers by `key` and `outcome` in the access lines: they send what is refused.",
        ),
        Fault::Upstream => (
            "providers",
            "failed by the providers' fault",
            "Look at `attempts` in the access lines: they name the accounts and how each failed. A model with targets at \
             two providers survives the failure of one.",
        ),
        Fault::Us => (
            "gateway",
            "failed because the gateway could not serve them",
            "Look at the problems `queue`, `headroom` and `store_down` first: mostly no account had room. If there is none, \
             look at the gateway's log, memory and disk; if the log has a panic, report it.",
        ),
        Fault::GivenUp => (
            GIVEN_UP,
            "were given up by callers who waited for a provider much longer than usual,",
            "Look at `attempts` in the access lines: those that ended as `given_up` name the account. The problem `given_up` \
             says since when it hangs.",
        ),
    };
    let failed: u64 = failures
        .iter()
        .map(|failure_summary| failure_summary.failed)
        .sum();
    let requests: u64 = failures
        .iter()
        .map(|failure_summary| failure_summary.requests)
        .sum();
    let names: Vec<String> = failures
        .iter()
        .filter_map(|failure_summary| failure_summary.model.as_ref())
        .map(|model| format!("`{model}`"))
        .collect();
    let of_what = if names.is_empty() {
        String::new()
    } else {
        format!(" for {}", first_three(&names, ", "))
    };
    // The last of several to fail says how long ago it was.
    let since = failures
        .iter()
        .min_by_key(|failure_summary| failure_summary.age)
        .and_then(|failure_summary| failure_summary.since.clone());
    let when = since.map_or("in the last 5 minutes".to_owned(), |since| {
        format!("in 5 minutes: {since}")
    });
    let summary = format!(
        "{failed} of {}{of_what} {by} {when}.",
        format_count(requests, "request")
    );
    let severity = failures
        .iter()
        .map(|failure_summary| failure_summary.severity)
        .min()
        .unwrap_or(Severity::Warning);
    let finding = Finding::new(Rule::Failures, severity, subject, summary, remedy)
        .with_requests(Some(failed));
    Finding { part, ..finding }
}

/// Writes that the gateway and its providers are well, if only callers do something wrong.
pub(super) fn clear_others(found: &mut [Finding]) {
    if found
        .iter()
        .all(|one| one.rule == Rule::Failures && one.part == CALLERS)
    {
        found.iter_mut().for_each(|one| {
            one.remedy
                .push_str(" The gateway and its providers are well.")
        });
    }
}

/// Returns the finding for a source that gives no new credential.
fn identity_finding(id: &Arc<str>, identity: &IdentityFacts) -> Finding {
    let why = match &identity.why {
        Some(why) => format!("could not be obtained anew: {}", cut_reason(why)),
        None => "ends soon, and its source gives no later one".to_owned(),
    };
    let then = match identity.until {
        Some(until) => format!("The old one serves until {}.", format_time(until)),
        None => "There is no old one, so requests to the account fail.".to_owned(),
    };
    let severity = match identity.until {
        Some(_) => Severity::Warning,
        None => Severity::Critical,
    };
    let remedy = format!(
        "Mend what `{}` of the account names: the role, the token's file, the service, or the way to it. It is asked again at \
         once after a change of the catalog, and every half minute without one; `portcullis doctor` asks it now.",
        identity.field
    );
    let summary = format!("The credential of account {id} {why}. {then}");
    let subject = ("account", id.clone());
    let finding = Finding::new(Rule::IdentityRefresh, severity, subject, summary, remedy);
    Finding {
        since: identity.since,
        ..finding
    }
}

fn find_account_problems(account: &AccountFacts, found: &mut Vec<Finding>) {
    let id = &account.id;
    given_up::find_given_up(account, found);
    if account.is_credential_refused {
        let summary = format!(
            "The provider of account {id} refuses its credential, or the account's money is gone."
        );
        let remedy = format!(
            "Put a working credential where `key` of the account in the catalog says, or pay the provider's bill. A changed file is \
             used at once, a changed environment variable after a restart. If neither changes, as after a paid bill, the account is tried \
             once a minute; `POST /accounts/{id}/reset` tries it at once."
        );
        found.push(Finding::new(
            Rule::CredentialRefused,
            Severity::Warning,
            ("account", id.clone()),
            summary,
            remedy,
        ));
    }
    if let Some(identity) = &account.identity {
        found.push(identity_finding(id, identity));
    }
    if let Some((why, has_names)) = &account.list_failure {
        // Without any list, the models of its patterns are out, and no other list can come soon.
        let (then, severity, least_time) = if *has_names {
            ("the last good list stays", Severity::Warning, LIST_TIME)
        } else {
            let then = "no model of its patterns is served";
            (then, Severity::Critical, 0)
        };
        let summary =
            format!("The list of the models of account {id} could not be fetched ({why}): {then}.");
        let remedy = "Look whether the provider lists models to this credential; `portcullis doctor` asks it.";
        let finding = Finding::new(
            Rule::ListFailing,
            severity,
            ("account", id.clone()),
            summary,
            remedy,
        );
        found.push(finding.must_last(least_time));
    }
    if let Some(headroom) = account.headroom.filter(|headroom| *headroom < LOW_HEADROOM) {
        let summary = format!(
            "Account {id} has {:.0} % left of what its provider allows.",
            (headroom * 100.0).floor()
        );
        let remedy = "Add a second account to its models, or ask the provider for more. If nothing is left, the provider \
                      refuses requests, and they go to other targets.";
        found.push(Finding::new(
            Rule::Headroom,
            Severity::Warning,
            ("account", id.clone()),
            summary,
            remedy,
        ));
    }
    for target in &account.broken {
        let summary = format!(
            "{}, so its breaker keeps requests for {} away from it{}.",
            failing_account(id, target.failure.as_ref()),
            target.name,
            quiet_for(target.quiet)
        );
        let remedy = format!(
            "Look at the provider's or the server's own state, and at `last_failure` in `/status`. Requests return by \
             themselves when one succeeds; `POST /accounts/{id}/reset` tries at once."
        );
        let subject = ("target", format!("{id}/{}", target.name));
        let finding = Finding::new(
            Rule::BreakerOpen,
            Severity::Warning,
            subject,
            summary,
            remedy,
        );
        found.push(Finding {
            since: target.since,
            ..finding.with_requests(target.requests).must_last(OPEN_TIME)
        });
    }
}
