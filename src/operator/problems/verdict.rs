//! The [`Verdict`] is the one sentence that an operator reads first.

use super::facts::{Facts, ModelFacts, ModelTarget, Reason, TargetState};
use super::finding::{CALLERS, GIVEN_UP};
use super::upstreams::answering_fallback;
use super::words::{duration_text, lasting_text, quiet_text, unfit_target, unfit_together};
use super::{Noticed, Rule};
use crate::base::units::{first_three, format_count};
use crate::drain::Phase;
use crate::status::Severity;
use dialects::named_enum;
use serde::Serialize;

/// A word for the whole gateway, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The word.
    pub word: Word,
    /// The sentence.
    #[serde(rename = "says")]
    pub sentence: String,
    /// The next steps, in this order, if nothing is served yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<&'static str>,
}

named_enum! {
    /// The words for the whole gateway.
    pub enum Word: Serialize {
        /// Callers get answers, and everything that they need is there.
        Ok = "ok",
        /// Nothing is set up that could answer somebody.
        Empty = "empty",
        /// Callers get answers, but something that they need is out.
        Degraded = "degraded",
        /// Some callers get no answers.
        Failing = "failing",
        /// The gateway shuts down.
        Draining = "draining",
    }
}

/// Returns the verdict.
pub fn make_verdict(facts: &Facts, noticed: &[Noticed]) -> Verdict {
    match facts.phase {
        (Phase::Starting, _) => {
            return Verdict::new(Word::Degraded, "The gateway is starting.".to_owned());
        }
        (Phase::Delaying | Phase::Draining | Phase::Cutting, exchanges) => {
            let exchanges = u64::try_from(exchanges).unwrap_or(u64::MAX);
            return Verdict::new(
                Word::Draining,
                format!(
                    "The gateway shuts down, with {} to end.",
                    format_count(exchanges, "exchange")
                ),
            );
        }
        (Phase::Serving, _) => {}
    }
    if let Some(one) = worst(noticed, is_failing) {
        let all: Vec<&Noticed> = noticed.iter().filter(|one| is_failing(one)).collect();
        return Verdict::new(
            Word::Failing,
            failing_models(facts, &all).unwrap_or_else(|| one.finding.summary.clone()),
        );
    }
    if let Some(empty) = empty_verdict(facts) {
        return empty;
    }
    // A provider that hangs comes first: its breaker may be open by now, which says less.
    if let Some(one) = worst(noticed, |one| {
        one.is_problem && one.finding.rule == Rule::GivenUp
    }) {
        return Verdict::new(Word::Degraded, one.finding.summary.clone());
    }
    if let Some(sentence) = degraded_models(facts, noticed) {
        return Verdict::new(Word::Degraded, sentence);
    }
    if let Some(one) = worst(noticed, hurts_service) {
        return Verdict::new(Word::Degraded, one.finding.summary.clone());
    }
    let models = format_count(
        u64::try_from(facts.models.len()).unwrap_or(u64::MAX),
        "model",
    );
    let warnings = noticed.iter().filter(|one| one.is_problem).count();
    let sentence = match worst(noticed, |one| one.is_problem) {
        Some(first) if warnings > 1 => {
            format!(
                "{models} can answer. There are {warnings} warnings: {}",
                first.finding.summary
            )
        }
        Some(first) => format!(
            "{models} can answer. There is a warning: {}",
            first.finding.summary
        ),
        None => match longest_silence(facts) {
            None => format!("{models} can answer, and nothing is wrong."),
            Some(silence) => {
                format!("{models} can answer, as far as is known. {silence}")
            }
        },
    };
    Verdict::new(Word::Ok, sentence)
}

/// Writes which account has begun no answer for the longest time while requests wait there. That is
/// no problem yet: a long answer may take as long.
fn longest_silence(facts: &Facts) -> Option<String> {
    let silent = facts
        .accounts
        .iter()
        .flat_map(|account| account.silent.iter().map(move |target| (account, target)));
    let (account, target) = silent.max_by_key(|(_, target)| target.silent_ms)?;
    let requests = if target.requests == 1 {
        "1 request waits".to_owned()
    } else {
        format!("{} wait", format_count(target.requests, "request"))
    };
    Some(format!(
        "{} has begun no answer of {} for {}, and {requests}.",
        account.id,
        target.name,
        duration_text(target.silent_ms)
    ))
}

impl Verdict {
    fn new(word: Word, says: String) -> Verdict {
        Verdict {
            word,
            sentence: says,
            next: Vec::new(),
        }
    }
}

/// Returns the worst of what was noticed, and is of this kind: what concerns the most requests;
/// among equals, what has lasted longest.
fn worst(noticed: &[Noticed], is_of_kind: impl Fn(&Noticed) -> bool) -> Option<&Noticed> {
    let of_kind = noticed.iter().filter(|one| is_of_kind(one));
    of_kind.min_by_key(|one| {
        (
            one.finding.severity,
            std::cmp::Reverse(one.finding.requests),
            one.since,
        )
    })
}

fn is_failing(one: &Noticed) -> bool {
    let is_critical = one.is_problem && one.finding.severity == Severity::Critical;
    is_critical
        && matches!(
            one.finding.rule,
            Rule::ModelUnfit | Rule::Failures | Rule::ListFailing
        )
}

/// Returns whether a problem degrades the service. Anybody can send what is refused. Of what was
/// given up, another rule says whether it lasts.
fn hurts_service(one: &Noticed) -> bool {
    let is_past = one.finding.part == CALLERS || one.finding.part == GIVEN_UP;
    let is_of_service = !is_past
        && matches!(
            one.finding.rule,
            Rule::ModelUnfit
                | Rule::CredentialRefused
                | Rule::NotAnswering
                | Rule::Failures
                | Rule::Queue
                | Rule::StoreDown
        );
    one.is_problem && (one.finding.severity == Severity::Critical || is_of_service)
}

/// Writes that nothing can be answered yet, since something is missing, and what to do next.
fn empty_verdict(facts: &Facts) -> Option<Verdict> {
    let (models, keys) = (facts.models.len(), facts.usable_keys);
    let sentence = match (models, keys) {
        (0, _) => "Nothing is served yet: the catalog has no models.".to_owned(),
        (_, 0) => "Nobody can ask yet: the catalog has no key that works.".to_owned(),
        _ => return None,
    };
    let steps = [
        (
            facts.accounts.is_empty(),
            "Write an account into `catalog.yaml`: a provider's address and a credential. `portcullis presets` lists known \
             ones, and the dialect `demo` needs none.",
        ),
        (
            models == 0,
            "Write a model there that has this account as a target. `portcullis check` says whether it is right.",
        ),
        (
            keys == 0,
            "Make a key: `portcullis key new --caller CALLER --name NAME --create`. It is shown once.",
        ),
        (
            true,
            "Send a request with this key to `/v1/chat/completions` of the callers' address.",
        ),
    ];
    let next = steps
        .into_iter()
        .filter(|(is_missing, _)| *is_missing)
        .map(|(_, step)| step)
        .collect();
    Some(Verdict {
        word: Word::Empty,
        sentence,
        next,
    })
}

/// Writes which models fail, and how many there are. Returns `None` if no model is known to.
fn failing_models(facts: &Facts, failing: &[&Noticed]) -> Option<String> {
    let models = facts.models.iter().filter(|model| {
        let mut failing = failing.iter();
        failing.any(|one| one.finding.models.contains(&model.id))
    });
    let models: Vec<&ModelFacts> = models.collect();
    let [one, more @ ..] = &models[..] else {
        return None;
    };
    let unfit_ones = models.iter().copied().filter(|model| {
        let mut targets = model.targets.iter();
        targets.all(|target| target.state != TargetState::Ok)
    });
    let unfit_ones: Vec<&ModelFacts> = unfit_ones.collect();
    let targets: Vec<&ModelTarget> = unfit_ones.iter().flat_map(|model| &model.targets).collect();
    let unfit_findings = failing
        .iter()
        .filter(|one| one.finding.rule == Rule::ModelUnfit);
    let lasts = lasting_text(
        facts.now.saturating_sub(
            unfit_findings
                .map(|one| one.since)
                .min()
                .unwrap_or(facts.now),
        ),
    );
    let among = among_all(facts.models.len());
    if more.is_empty() {
        // The problem itself has the number of requests that fail.
        unfit_ones.first()?;
        let why: Vec<String> = one.targets.iter().map(unfit_target).collect();
        let counted = if among.is_empty() {
            String::new()
        } else {
            format!(" (1{among} models)")
        };
        return Some(format!(
            "`{}` fails{lasts}{counted}: {}{}.",
            one.id,
            first_three(&why, ", "),
            quiet_text(targets.into_iter())
        ));
    }
    let others = failing
        .iter()
        .filter(|one| one.finding.rule == Rule::Failures);
    let mut why: Vec<String> = others
        .map(|one| one.finding.summary.trim_end_matches('.').to_owned())
        .collect();
    if !targets.is_empty() {
        why.insert(
            0,
            format!(
                "{}{}",
                unfit_together(&targets),
                quiet_text(targets.iter().copied())
            ),
        );
    }
    let lasts = if targets.is_empty() {
        String::new()
    } else {
        lasts
    };
    Some(format!(
        "{}{among} models fail{lasts}: {}.",
        models.len(),
        first_three(&why, "; ")
    ))
}

/// Writes how many models there are, after the number of some of them.
fn among_all(all: usize) -> String {
    if all > 1 {
        format!(" of {all}")
    } else {
        String::new()
    }
}

/// Writes which models have lost targets and answer all the same.
fn degraded_models(facts: &Facts, noticed: &[Noticed]) -> Option<String> {
    let hurt: Vec<&ModelFacts> = facts
        .models
        .iter()
        .filter(|model| model.targets.iter().any(is_lost))
        .collect();
    let [model, more @ ..] = &hurt[..] else {
        return None;
    };
    let gone: Vec<&ModelTarget> = hurt
        .iter()
        .flat_map(|model| &model.targets)
        .filter(|target| is_lost(target))
        .collect();
    let rules = noticed.iter().filter(|one| {
        let (rule, name) = (one.finding.rule, &*one.finding.subject.1);
        gone.iter().any(|target| {
            rule == Rule::CredentialRefused && *name == *target.account
                || rule == Rule::BreakerOpen
                    && *name == format!("{}/{}", target.account, target.name)
        })
    });
    let since = rules.map(|one| one.since).min();
    let lasts = since
        .map(|since| lasting_text(facts.now.saturating_sub(since)))
        .unwrap_or_default();
    let quiet = quiet_text(gone.iter().copied());
    if !more.is_empty() {
        let number = hurt.len();
        let why = unfit_together(&gone);
        return Some(format!(
            "{number}{} models are degraded{lasts}: {why}{quiet}.",
            among_all(facts.models.len())
        ));
    }
    let why: Vec<String> = gone.iter().map(|target| unfit_target(target)).collect();
    let instead = model
        .targets
        .iter()
        .find(|target| target.state == TargetState::Ok);
    let instead = match (instead, answering_fallback(facts, model)) {
        (Some(target), _) => format!(", {} answers instead", target.account),
        (None, Some(fallback)) => format!(", its fallback `{}` answers instead", fallback.id),
        (None, None) => String::new(),
    };
    Some(format!(
        "`{}` is degraded{lasts}: {}{quiet}{instead}.",
        model.id,
        first_three(&why, ", ")
    ))
}

fn is_lost(target: &ModelTarget) -> bool {
    matches!(
        target.reason,
        Some(Reason::Breaker | Reason::Credential | Reason::Unfit)
    )
}
