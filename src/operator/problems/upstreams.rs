//! The rules about models, targets and accounts.

use super::facts::{AccountFacts, Facts, ModelFacts, Reason, RecentFacts, TargetState};
use super::words::{failing, some, unfit};
use super::{Finding, Rule, SECOND, given_up};
use crate::base::units::count;
use crate::status::Severity;
use std::sync::Arc;

/// A breaker that is open for less than this is no problem: it is there for that.
const OPEN: u64 = 30 * SECOND;
/// A rate limit of a model's last target is no problem for this time.
const RATE: u64 = 10 * SECOND;
/// A list that fails for less than this is no problem: it is fetched again after five seconds.
const LIST: u64 = 10 * SECOND;
/// A share of the quota below this is little.
const HEADROOM: f64 = 0.05;
/// Of fewer requests no share is taken.
const LEAST: u64 = 20;

/// Looks for problems of models, targets and accounts.
pub(super) fn find(facts: &Facts, found: &mut Vec<Finding>) {
    for model in &facts.models {
        unfit_model(model, found);
        queue(model, found);
    }
    failures(facts, found);
    for account in &facts.accounts {
        of_account(account, found);
    }
}

/// Looks for a model that nobody can answer.
fn unfit_model(model: &ModelFacts, found: &mut Vec<Finding>) {
    let is_off = model.targets.iter().all(|target| target.state == TargetState::Off);
    if is_off || model.targets.iter().any(|target| target.state == TargetState::Ok) {
        return;
    }
    let is_limited = model.targets.iter().any(|target| target.reason == Some(Reason::Rate));
    let why: Vec<String> = model.targets.iter().map(unfit).collect();
    let what = format!("No target of `{}` answers: {}.", model.id, some(&why, "; "));
    let remedy = "Look at `last_failure` of these targets in `/status`. When the cause is mended, \
                  `POST /accounts/NAME/reset` tries an account at once.";
    let requests = model.recent.map(|recent| recent.requests);
    let finding = Finding::new(Rule::ModelUnfit, Severity::Critical, ("model", model.id.clone()), what, remedy);
    found.push(finding.of(requests).after(if is_limited { RATE } else { 0 }));
}

/// Looks for requests that wait, or did not even get a place to wait.
fn queue(model: &ModelFacts, found: &mut Vec<Finding>) {
    let half = model.queue.filter(|most| *most > 0 && model.waiting.saturating_mul(2) >= *most);
    let shed = model.recent.map_or(0, |recent| recent.shed);
    let waiting =
        half.map(|most| format!("{} of at most {most} wait for `{}`", count(of(model.waiting), "request"), model.id));
    let refused = (shed > 0).then(|| {
        format!(
            "{} for `{}` found all accounts busy and no place to wait, in the last 5 minutes",
            count(shed, "request"),
            model.id
        )
    });
    let what: Vec<String> = [waiting, refused].into_iter().flatten().collect();
    if what.is_empty() {
        return;
    }
    let what = format!("{}: its accounts are full or at rest.", what.join("; "));
    let remedy = "Add an account to the model, or raise `concurrency` of those that it has, if their providers allow it. \
                  `queue.length` of the model says how many may wait.";
    let finding = Finding::new(Rule::Queue, Severity::Warning, ("model", model.id.clone()), what, remedy);
    found.push(finding.of(model.recent.map(|recent| recent.requests)));
}

fn of(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The part of the failures that are the callers' fault.
pub(super) const CALLERS: &str = "callers";
/// The part of the failures that callers gave up.
pub(super) const GIVEN_UP: &str = "given_up";

/// Whose fault failures are.
#[derive(Clone, Copy)]
enum Fault {
    Caller,
    Upstream,
    Us,
    /// Callers waited for much longer than usual, and left.
    GivenUp,
}

/// Looks for failures of more than one of twenty requests. The whole gateway is a subject only for
/// a fault that no single model shows.
fn failures(facts: &Facts, found: &mut Vec<Finding>) {
    for fault in [Fault::Us, Fault::Upstream, Fault::GivenUp, Fault::Caller] {
        let of_models = facts.models.iter().filter_map(|model| {
            failing_requests(model.recent?, fault, ("model", model.id.clone()), &format!(" for `{}`", model.id))
        });
        let before = found.len();
        found.extend(of_models);
        if found.len() == before {
            found.extend(failing_requests(facts.recent, fault, ("process", "portcullis".into()), ""));
        }
    }
}

fn failing_requests(
    recent: RecentFacts,
    fault: Fault,
    subject: (&'static str, Arc<str>),
    of_what: &str,
) -> Option<Finding> {
    let (failed, by, remedy) = match fault {
        Fault::Caller => (
            recent.by_caller,
            "failed by the callers' fault",
            "Find the callers by `key` and `outcome` in the access lines: they send what is refused.",
        ),
        Fault::Upstream => (
            recent.by_upstream,
            "failed by the providers' fault",
            "Look at `attempts` in the access lines: they name the accounts and how each failed. A model with targets at \
             two providers survives the failure of one.",
        ),
        Fault::Us => (
            recent.by_us,
            "failed because the gateway could not serve them",
            "Look at the problems `queue`, `headroom` and `store_down` first: mostly no account had room. If there is none, \
             look at the gateway's log, memory and disk; if the log has a panic, report it.",
        ),
        Fault::GivenUp => (
            recent.given_up,
            "were given up by callers who waited for a provider much longer than usual,",
            "Look at `attempts` in the access lines: those that ended as `given_up` name the account. The problem `given_up` \
             says since when it hangs.",
        ),
    };
    // Who sends what is refused can make no provider look well.
    let of_callers = if matches!(fault, Fault::Caller) { 0 } else { recent.by_caller };
    let requests = recent.requests.saturating_sub(of_callers);
    if requests < LEAST || failed.saturating_mul(20) <= requests {
        return None;
    }
    let is_critical = matches!(fault, Fault::Upstream | Fault::Us) && failed.saturating_mul(5) > requests;
    let severity = if is_critical { Severity::Critical } else { Severity::Warning };
    let what = format!("{failed} of {}{of_what} {by} in the last 5 minutes.", count(requests, "request"));
    let part = match fault {
        Fault::Caller => CALLERS,
        Fault::Upstream => "providers",
        Fault::Us => "gateway",
        Fault::GivenUp => GIVEN_UP,
    };
    let finding = Finding::new(Rule::Failures, severity, subject, what, remedy).of(Some(failed));
    Some(Finding { part, ..finding })
}

/// Says that the gateway and its providers are well, if only callers do something wrong.
pub(super) fn clear_others(found: &mut [Finding]) {
    if found.iter().all(|one| one.rule == Rule::Failures && one.part == CALLERS) {
        found.iter_mut().for_each(|one| one.remedy.push_str(" The gateway and its providers are well."));
    }
}

fn of_account(account: &AccountFacts, found: &mut Vec<Finding>) {
    let id = &account.id;
    given_up::find(account, found);
    if account.is_credential_refused {
        let what = format!("The provider of account {id} refuses its credential, or the account's money is gone.");
        let remedy = format!(
            "Put a working credential where `key` of the account in the catalog says, or pay the provider's bill. Then \
             `POST /accounts/{id}/reset`; without it the account is tried again every minute."
        );
        found.push(Finding::new(Rule::CredentialRefused, Severity::Warning, ("account", id.clone()), what, remedy));
    }
    if let Some((why, has_names)) = &account.list_failure {
        let then = if *has_names { "the last good list stays" } else { "no model of its patterns is served" };
        let what = format!("The list of the models of account {id} could not be fetched ({why}): {then}.");
        let remedy = "Look whether the provider lists models to this credential; `portcullis doctor` asks it.";
        let finding = Finding::new(Rule::ListFailing, Severity::Warning, ("account", id.clone()), what, remedy);
        found.push(finding.after(LIST));
    }
    if let Some(headroom) = account.headroom.filter(|headroom| *headroom < HEADROOM) {
        let what = format!("Account {id} has {:.0} % left of what its provider allows.", (headroom * 100.0).floor());
        let remedy = "Add a second account to its models, or ask the provider for more. If nothing is left, the provider \
                      refuses requests, and they go to other targets.";
        found.push(Finding::new(Rule::Headroom, Severity::Warning, ("account", id.clone()), what, remedy));
    }
    for target in &account.broken {
        let what = format!(
            "{}, so its breaker keeps requests for {} away from it.",
            failing(id, target.failure.as_ref()),
            target.name
        );
        let remedy = format!(
            "Look at the provider's or the server's own state, and at `last_failure` in `/status`. Requests return by \
             themselves when one succeeds; `POST /accounts/{id}/reset` tries at once."
        );
        let subject = ("target", format!("{id}/{}", target.name));
        let finding = Finding::new(Rule::BreakerOpen, Severity::Warning, subject, what, remedy);
        found.push(Finding { since: target.since, ..finding.of(target.requests).after(OPEN) });
    }
}
