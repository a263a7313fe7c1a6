//! The words in which problems speak of durations, amounts and failures.

use super::facts::{ModelFacts, ModelTarget, Reason, TargetFailure};
use crate::base::units::{cut_text, first_three, rough_duration};
use crate::conf::price::Usd;
use crate::limits::Kind;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest reason of an operator's file that is quoted, in characters.
const MAX_REASON: usize = 300;

/// Writes milliseconds in the unit that fits: `40 s`, `4 min`, `3 h`, `6 days`.
pub(super) fn duration_text(ms: u64) -> String {
    rough_duration(Duration::from_millis(ms))
}

/// Writes for how long something has lasted, after the words about it. What has only begun has no
/// such words.
pub(super) fn lasting_text(ms: u64) -> String {
    const BEGUN: u64 = 2_000;
    if ms < BEGUN {
        String::new()
    } else {
        format!(" for {}", duration_text(ms))
    }
}

/// Writes a time in seconds, to the tenth where it is short: `2 s`, `0.4 s`, `20 ms`.
pub(super) fn seconds_text(ms: u64) -> String {
    let tenths = ms.saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        _ if ms < 100 => format!("{ms} ms"),
        (whole @ 0..10, part @ 1..) => format!("{whole}.{part} s"),
        (whole, _) => format!("{whole} s"),
    }
}

/// Cuts a long reason.
pub(super) fn cut_reason(reason: &str) -> String {
    cut_text(reason, MAX_REASON)
}

/// Writes an amount of a kind of limit.
pub(super) fn amount_text(kind: Kind, amount: u64) -> String {
    if kind.is_money() {
        format!("{} USD", Usd(amount))
    } else {
        amount.to_string()
    }
}

/// Writes how an account fails: `gpu-1 refuses connections`.
pub(super) fn failing_account(account: &str, failure: Option<&TargetFailure>) -> String {
    format!("{account} {}", failure_verb(failure).for_count(1))
}

/// The verbs for one account that fails, and for several.
struct FailureVerb {
    one: Cow<'static, str>,
    several: Cow<'static, str>,
}

impl FailureVerb {
    fn for_count(&self, number: usize) -> &str {
        if number == 1 {
            &self.one
        } else {
            &self.several
        }
    }
}

fn failure_verb(failure: Option<&TargetFailure>) -> FailureVerb {
    let Some((outcome, detail)) = failure else {
        return verb_pair("failed too often", "failed too often");
    };
    let is_refused = detail
        .as_deref()
        .is_some_and(|detail| detail.to_ascii_lowercase().contains("refused"));
    match *outcome {
        "unreachable" if is_refused => verb_pair("refuses connections", "refuse connections"),
        "unreachable" => verb_pair("cannot be reached", "cannot be reached"),
        "connect_timeout" => verb_pair(
            "does not accept connections in time",
            "do not accept connections in time",
        ),
        "proxy" => verb_pair(
            "is not reached through its proxy",
            "are not reached through their proxies",
        ),
        "tls" => verb_pair("makes no secure connection", "make no secure connections"),
        "reset" | "stale" => verb_pair(
            "closes connections without an answer",
            "close connections without an answer",
        ),
        "send_timeout" => verb_pair(
            "does not read requests in time",
            "do not read requests in time",
        ),
        "first_byte_timeout" | "first_token_timeout" => verb_pair(
            "does not begin to answer in time",
            "do not begin to answer in time",
        ),
        "idle_timeout" | "total_timeout" => verb_pair(
            "does not end its answers in time",
            "do not end their answers in time",
        ),
        "nonsense" | "broken_call" => verb_pair(
            "gives answers that nobody can read",
            "give answers that nobody can read",
        ),
        "cut" => verb_pair("ends its answers too early", "end their answers too early"),
        "credential" => verb_pair(
            "refuses the credential, or its money is gone",
            "refuse their credentials, or their money is gone",
        ),
        "refused" => verb_pair("does not serve the model", "do not serve the model"),
        "rate_limited" => verb_pair("limits the rate", "limit the rate"),
        "overloaded" => verb_pair("is overloaded", "are overloaded"),
        "given_up" => verb_pair(
            "lets callers wait until they give up",
            "let callers wait until they give up",
        ),
        "status" | "error_in_answer" => verb_pair("answers with errors", "answer with errors"),
        other => FailureVerb {
            one: format!("fails ({other})").into(),
            several: format!("fail ({other})").into(),
        },
    }
}

fn verb_pair(one: &'static str, several: &'static str) -> FailureVerb {
    FailureVerb {
        one: one.into(),
        several: several.into(),
    }
}

/// Writes why a model's target cannot be used.
pub(super) fn unfit_target(target: &ModelTarget) -> String {
    let account = &target.account;
    match does_unfit(target) {
        Ok(does) => format!("{account} {}", does.for_count(1)),
        Err(reason) => format!("{account} {reason}"),
    }
}

/// Writes why targets of several models cannot be used: each account once, and those that fail in
/// the same way together.
pub(super) fn unfit_together(targets: &[&ModelTarget]) -> String {
    // An account that fails in several ways is described by the way of most targets.
    let mut ways: BTreeMap<&str, BTreeMap<Cow<'static, str>, (usize, FailureVerb)>> =
        BTreeMap::new();
    for target in targets {
        if let Ok(does) = does_unfit(target) {
            let way = ways.entry(&target.account).or_default();
            way.entry(does.one.clone()).or_insert((0, does)).0 += 1;
        }
    }
    let mut together: BTreeMap<Cow<'static, str>, (Vec<&str>, FailureVerb)> = BTreeMap::new();
    for (account, ways) in ways {
        let Some((_, does)) = ways.into_values().max_by_key(|(targets, _)| *targets) else {
            continue;
        };
        together
            .entry(does.one.clone())
            .or_insert_with(|| (Vec::new(), does))
            .0
            .push(account);
    }
    let mut together: Vec<(Vec<&str>, FailureVerb)> = together.into_values().collect();
    together.sort_by_key(|(accounts, _)| Reverse(accounts.len()));
    let why = together.iter().map(|(accounts, does)| {
        format!(
            "{} {}",
            list_names(accounts),
            does.for_count(accounts.len())
        )
    });
    first_three(&why.collect::<Vec<_>>(), "; ")
}

/// Returns what is wrong with a target that cannot be used, or why that is none of its failures.
fn does_unfit(target: &ModelTarget) -> Result<FailureVerb, &'static str> {
    match target.reason {
        None => Err("answers"),
        Some(Reason::Off) => Err("is disabled"),
        Some(Reason::Credential) => Ok(failure_verb(Some(&("credential", None)))),
        Some(Reason::Unfit) => Ok(failure_verb(Some(&("refused", None)))),
        Some(Reason::Rate) => Ok(failure_verb(Some(&("rate_limited", None)))),
        Some(Reason::Breaker) => Ok(failure_verb(target.failure.as_ref())),
    }
}

/// Returns the names of models, in quotes.
pub(super) fn model_names(models: &[&ModelFacts]) -> Vec<String> {
    models
        .iter()
        .map(|model| format!("`{}`", model.id))
        .collect()
}

/// Lists names as people do: `a`, `a and b`, `a, b and c`, `a, b, c and 2 more`.
fn list_names(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= 3 => format!("{} and {last}", first.join(", ")),
        [a, b, c, more @ ..] => format!("{a}, {b}, {c} and {} more", more.len()),
        [..] => names.join(", "),
    }
}

/// Writes how long ago the last of some targets failed, if that is a while ago and none of them was
/// asked since.
pub(super) fn quiet_text<'t>(targets: impl Iterator<Item = &'t ModelTarget>) -> String {
    let out = targets.filter(|target| target.reason.is_some_and(|reason| reason != Reason::Off));
    // One that was asked since is not quiet, and the whole is not.
    let least = out
        .map(|target| target.quiet)
        .try_fold(u64::MAX, |least, quiet| Some(least.min(quiet?)));
    quiet_for(least.filter(|least| *least < u64::MAX))
}

/// Writes how long ago something failed after which nothing was asked.
pub(super) fn quiet_for(since: Option<u64>) -> String {
    const SHORT: u64 = 10_000;
    let since = since.filter(|since| *since >= SHORT);
    since
        .map(|since| {
            format!(
                ", last failed {} ago, nothing asked since",
                duration_text(since)
            )
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_lists() {
        let spans = [
            0,
            59_999,
            119_999,
            120_000,
            7_199_999,
            7_200_000,
            172_799_999,
            172_800_000,
        ]
        .map(duration_text);
        assert_eq!(
            spans,
            [
                "0 s", "59 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"
            ]
        );
        let lasting = [0, 1_999, 2_000, 240_000].map(lasting_text);
        assert_eq!(lasting, ["", "", " for 2 s", " for 4 min"]);
        let times = [0, 20, 99, 100, 450, 2_000, 2_090, 9_999, 10_900].map(seconds_text);
        assert_eq!(
            times,
            [
                "0 ms", "20 ms", "99 ms", "0.1 s", "0.5 s", "2 s", "2.1 s", "10 s", "10 s"
            ]
        );
        let texts: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(first_three(&texts, ", "), "a, b, c and 2 more");
        assert_eq!(first_three(&texts[..3], ", "), "a, b, c");
        assert_eq!(cut_reason(&"é".repeat(301)).chars().count(), 301);
        assert_eq!(cut_reason("x"), "x");
    }

    #[test]
    fn each_failure_has_words() {
        let refused = ("unreachable", Some("ConnectRefused: x".to_owned()));
        assert_eq!(
            failing_account("a", Some(&refused)),
            "a refuses connections"
        );
        assert_eq!(
            failing_account("a", Some(&("unreachable", None))),
            "a cannot be reached"
        );
        assert_eq!(
            failing_account("a", Some(&("no_room", None))),
            "a fails (no_room)"
        );
        assert_eq!(failing_account("a", None), "a failed too often");
    }
    #[test]
    fn accounts_that_fail_alike_are_told_together() {
        let target = |account: &str, reason, outcome| ModelTarget {
            account: account.into(),
            reason: Some(reason),
            failure: Some((outcome, None)),
            ..ModelTarget::default()
        };
        let targets = [
            target("b", Reason::Breaker, "reset"),
            target("a", Reason::Breaker, "reset"),
            target("a", Reason::Breaker, "cut"),
            target("a", Reason::Breaker, "reset"),
            target("c", Reason::Credential, "credential"),
            target("d", Reason::Off, "cut"),
        ];
        let targets: Vec<&ModelTarget> = targets.iter().collect();
        assert_eq!(
            unfit_together(&targets),
            "a and b close connections without an answer; c refuses the credential, or its money is gone"
        );
        assert_eq!(list_names(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list_names(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(quiet_text(targets.iter().copied()), "");
        let quiet_one = |quiet| ModelTarget {
            quiet: Some(quiet),
            ..target("a", Reason::Breaker, "cut")
        };
        let both = [quiet_one(240_000), quiet_one(600_000)];
        assert_eq!(
            quiet_text(both.iter()),
            ", last failed 4 min ago, nothing asked since"
        );
        assert_eq!(quiet_for(Some(9_999)), "");
        assert_eq!(
            quiet_for(Some(10_000)),
            ", last failed 10 s ago, nothing asked since"
        );
        assert_eq!(quiet_text([quiet_one(9_999)].iter()), "");
    }
}
