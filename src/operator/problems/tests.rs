use super::facts::*;
use super::verdict::{Verdict, Word, make_verdict};
use super::*;
use crate::drain::Phase;
use crate::limits::{Kind, Level};
use crate::series::{FaultCount, FaultCounts, WaitRange};
use crate::status::{
    LedgerReport, LedgerState, StoreReport, StoreState, UnpricedReport, UnreadableReport,
};
use std::sync::Arc;

const NOW: u64 = 1_800_000_000_000;

/// A healthy gateway.
fn healthy() -> Facts {
    let models = vec![model([target("a", FIT)])];
    Facts {
        now: NOW,
        tick: NOW,
        phase: (Phase::Serving, 0),
        models,
        usable_keys: 1,
        ..Facts::default()
    }
}

/// What is found at the first look.
fn find(facts: &Facts) -> Vec<Finding> {
    super::find_problems(facts, &mut FailureMemory::default())
}

/// The findings of one rule.
fn found(rule: Rule, facts: &Facts) -> Vec<Finding> {
    find(facts)
        .into_iter()
        .filter(|finding| finding.rule == rule)
        .collect()
}

/// The problems of one rule after the facts have lasted for so long.
fn after(lasted: u64, rule: Rule, facts: &Facts) -> Vec<Finding> {
    let mut lasting = FindingTimes::default();
    lasting.notice(find(facts), facts.now - lasted);
    let noticed = lasting.notice(find(facts), facts.now);
    noticed
        .into_iter()
        .filter(|one| one.is_problem && one.finding.rule == rule)
        .map(|one| one.finding)
        .collect()
}

/// Checks that a rule finds one problem, and returns what it says.
fn says(rule: Rule, facts: &Facts) -> String {
    let [finding] = &found(rule, facts)[..] else {
        panic!("{:?}", find(facts))
    };
    assert!(
        finding.summary.ends_with('.') || finding.rule == Rule::ReloadRefused,
        "{}",
        finding.summary
    );
    finding.summary.clone()
}

/// A target that answers.
const FIT: Option<Reason> = None;
const BROKEN: Option<Reason> = Some(Reason::Breaker);

fn target(account: &str, reason: Option<Reason>) -> ModelTarget {
    let failure = Some(("unreachable", Some("ConnectRefused: x".to_owned())));
    let state = match reason {
        None => TargetState::Ok,
        Some(Reason::Off) => TargetState::Off,
        Some(Reason::Breaker) => TargetState::Open,
        Some(Reason::Credential | Reason::Unfit | Reason::Rate) => TargetState::Resting,
    };
    ModelTarget {
        account: account.into(),
        name: "llama".into(),
        state,
        reason,
        failure,
        quiet: None,
    }
}

fn model(targets: impl Into<Vec<ModelTarget>>) -> ModelFacts {
    ModelFacts {
        id: "fast".into(),
        targets: targets.into(),
        ..ModelFacts::default()
    }
}

#[test]
fn nothing_is_wrong() {
    let facts = Facts {
        models: vec![model([target("a", FIT)])],
        ..healthy()
    };
    assert!(find(&facts).is_empty(), "{:?}", find(&facts));
    let said = make_verdict(&facts, &[]);
    assert_eq!(
        (said.word, &*said.sentence),
        (Word::Ok, "1 model can answer, and nothing is wrong.")
    );
}

#[test]
fn a_refused_reload() {
    let mut facts = healthy();
    let reasons = vec!["catalog.yaml:3: `x` is unknown".to_owned(), "y".to_owned()];
    facts.catalog.refused = Some((NOW - 7, reasons));
    let told = says(Rule::ReloadRefused, &facts);
    assert!(
        told.contains("catalog.yaml:3") && told.contains("(1 more"),
        "{told}"
    );
    let noticed = FindingTimes::default().notice(find(&facts), NOW);
    assert_eq!(noticed[0].since, NOW - 7, "since the refusal");
    let remedy = |facts: &Facts| found(Rule::ReloadRefused, facts)[0].remedy.clone();
    assert!(remedy(&facts).contains("as soon as they are right"));
}

#[test]
fn a_missing_variable_needs_a_restart() {
    let mut facts = healthy();
    for reason in [
        "catalog.yaml:3 accounts.a.key.env: the environment variable A_KEY is not set",
        "catalog.yaml:3 accounts.a.key.env: the environment variable named here is not set; did you mean B?",
    ] {
        facts.catalog.refused = Some((NOW, vec!["x".to_owned(), reason.to_owned()]));
        let remedy = &found(Rule::ReloadRefused, &facts)[0].remedy;
        assert!(
            remedy.contains("environment of its start: correct its name")
                && remedy.contains("{ file: … }")
                && remedy.contains("Mend all other errors before a restart"),
            "{remedy}"
        );
        assert!(!remedy.contains("as soon as"), "{remedy}");
    }
}

#[test]
fn a_change_that_is_held_or_has_no_end() {
    let mut facts = healthy();
    facts.catalog.endless = Some((NOW - 9, vec!["catalog.yaml".to_owned()]));
    assert!(says(Rule::ChangeHeld, &facts).contains("catalog.yaml is being written"));
    assert_eq!(
        found(Rule::ChangeHeld, &facts)[0].severity,
        Severity::Warning
    );
    for (age, severity) in [(29_999, Severity::Warning), (30_000, Severity::Critical)] {
        facts.catalog.endless = Some((NOW - age, vec!["catalog.yaml".to_owned()]));
        assert_eq!(
            found(Rule::ChangeHeld, &facts)[0].severity,
            severity,
            "after {age} ms"
        );
    }
    facts.catalog.held_loss = Some("removes 2 of 3 accounts".to_owned());
    assert!(says(Rule::ChangeHeld, &facts).contains("removes 2 of 3 accounts"));
}

#[test]
fn a_model_that_nobody_can_answer() {
    let [rate, unfit, credential, off] =
        [Reason::Rate, Reason::Unfit, Reason::Credential, Reason::Off].map(Option::Some);
    let of = |targets: &[Option<Reason>]| {
        let targets: Vec<_> = targets
            .iter()
            .map(|reason| target("gpu-1", *reason))
            .collect();
        Facts {
            models: vec![model(targets)],
            ..healthy()
        }
    };
    for fit in [
        &[FIT, BROKEN, credential, off][..],
        &[off],
        &[off, off],
        &[],
    ] {
        assert!(found(Rule::ModelUnfit, &of(fit)).is_empty(), "{fit:?}");
    }
    for out in [
        &[BROKEN][..],
        &[off, unfit],
        &[credential, BROKEN, unfit, BROKEN],
    ] {
        assert_eq!(after(0, Rule::ModelUnfit, &of(out)).len(), 1, "{out:?}");
    }
    let told = says(Rule::ModelUnfit, &of(&[BROKEN, credential, unfit, rate]));
    let expected = "No target of `fast` answers: gpu-1 refuses connections; gpu-1 refuses the credential, or its money is gone; \
                    gpu-1 does not serve the model; and 1 more.";
    assert_eq!(told, expected);
    // A rate limit is over soon.
    assert!(after(9_999, Rule::ModelUnfit, &of(&[rate, BROKEN])).is_empty());
    assert_eq!(
        after(10_000, Rule::ModelUnfit, &of(&[rate, BROKEN])).len(),
        1
    );
}

fn identity_problem(identity: IdentityFacts) -> (Severity, String, Option<u64>) {
    let account = AccountFacts {
        id: "a".into(),
        identity: Some(identity),
        ..AccountFacts::default()
    };
    let facts = Facts {
        accounts: vec![account],
        ..Facts::default()
    };
    let found = find_problems(&facts, &mut FailureMemory::default());
    let found = found
        .into_iter()
        .find(|one| one.rule == Rule::IdentityRefresh);
    let found = found.expect("a finding");
    (found.severity, found.summary, found.since)
}

#[test]
fn a_source_that_gives_nothing_new_is_a_problem() {
    let field = "aws";
    let failing = IdentityFacts {
        why: Some("AccessDenied: no".to_owned()),
        since: Some(7),
        until: Some(60_000),
        field,
    };
    let text = "The credential of account a could not be obtained anew: AccessDenied: no. The old one serves until 1970-01-01T00:01:00.000Z.";
    assert_eq!(
        identity_problem(failing.clone()),
        (Severity::Warning, text.to_owned(), Some(7))
    );
    let text = "The credential of account a could not be obtained anew: AccessDenied: no. There is no old one, so requests to the account fail.";
    let gone = IdentityFacts {
        until: None,
        ..failing
    };
    assert_eq!(
        identity_problem(gone),
        (Severity::Critical, text.to_owned(), Some(7))
    );
    let late = IdentityFacts {
        until: Some(60_000),
        field,
        ..IdentityFacts::default()
    };
    assert!(
        identity_problem(late)
            .1
            .contains("ends soon, and its source gives no later one")
    );
}

#[test]
fn doctor_tells_refused_credentials_from_used_up_quotas() {
    let account = AccountFacts {
        id: "a".into(),
        is_credential_refused: true,
        ..AccountFacts::default()
    };
    assert!(
        says(
            Rule::CredentialRefused,
            &Facts {
                accounts: vec![account],
                ..healthy()
            }
        )
        .contains("account a")
    );
    let with = |headroom| {
        let account = AccountFacts {
            id: "a".into(),
            headroom,
            ..AccountFacts::default()
        };
        Facts {
            accounts: vec![account],
            ..healthy()
        }
    };
    assert!(
        found(Rule::Headroom, &with(None)).is_empty()
            && found(Rule::Headroom, &with(Some(0.05))).is_empty()
    );
    assert_eq!(
        says(Rule::Headroom, &with(Some(0.049))),
        "Account a has 4 % left of what its provider allows."
    );
}

#[test]
fn a_breaker_that_stays_open() {
    let broken = vec![TargetFacts {
        name: "llama".into(),
        requests: Some(3),
        failure: Some(("cut", None)),
        ..TargetFacts::default()
    }];
    let account = AccountFacts {
        id: "gpu-1".into(),
        broken,
        ..AccountFacts::default()
    };
    let facts = Facts {
        accounts: vec![account],
        ..healthy()
    };
    assert!(after(29_999, Rule::BreakerOpen, &facts).is_empty());
    let [finding] = &after(30_000, Rule::BreakerOpen, &facts)[..] else {
        panic!("one problem")
    };
    assert_eq!(
        (finding.subject.0, &*finding.subject.1, finding.requests),
        ("target", "gpu-1/llama", Some(3))
    );
    assert!(
        finding
            .summary
            .starts_with("gpu-1 ends its answers too early"),
        "{}",
        finding.summary
    );
    // It closes, and opens again: it has to last again.
    let mut lasting = FindingTimes::default();
    for (now, facts, is) in [
        (0, &facts, false),
        (40, &facts, true),
        (41, &healthy(), false),
        (42, &facts, false),
    ] {
        let noticed = lasting.notice(find(facts), NOW + now * 1_000);
        assert_eq!(
            noticed.iter().any(|one| one.is_problem),
            is,
            "after {now} s"
        );
    }
}

#[test]
fn failures_and_whose_fault_they_are() {
    let with = |requests, by_caller, by_upstream, by_us| {
        let faults = failing_now();
        let recent = RecentFacts {
            requests,
            by_caller,
            by_upstream,
            by_us,
            faults,
            ..RecentFacts::default()
        };
        Facts {
            models: vec![ModelFacts {
                recent: Some(recent),
                ..model([])
            }],
            recent,
            ..healthy()
        }
    };
    let none = |facts: Facts| {
        assert!(
            found(Rule::Failures, &facts).is_empty(),
            "{:?}",
            find(&facts)
        )
    };
    none(with(19, 19, 0, 0));
    none(with(105, 5, 5, 5));
    let [caller] = &found(Rule::Failures, &with(20, 2, 1, 0))[..] else {
        panic!("one")
    };
    assert_eq!(
        caller.summary,
        "2 of 20 requests for `fast` failed by the callers' fault in the last 5 minutes."
    );
    assert_eq!(
        (caller.severity, caller.requests),
        (Severity::Warning, Some(2))
    );
    let severity = |facts: Facts| found(Rule::Failures, &facts)[0].severity;
    assert_eq!(severity(with(100, 0, 6, 0)), Severity::Warning);
    assert_eq!(severity(with(100, 0, 20, 0)), Severity::Warning);
    assert_eq!(severity(with(100, 0, 21, 0)), Severity::Critical);
    assert_eq!(severity(with(100, 0, 0, 21)), Severity::Critical);
    assert_eq!(
        severity(with(100, 100, 0, 0)),
        Severity::Warning,
        "it is not our outage"
    );
    // A caller who is refused again and again hides no provider's failure.
    let both = found(Rule::Failures, &with(670, 640, 30, 0));
    let says = |part: &str| {
        both.iter()
            .find(|one| one.part == part)
            .map(|one| (one.severity, one.summary.clone()))
    };
    let what = "30 of 30 requests for `fast` failed by the providers' fault in the last 5 minutes.";
    assert_eq!(
        says("providers"),
        Some((Severity::Critical, what.to_owned()))
    );
    assert_eq!(
        says("callers").map(|(severity, _)| severity),
        Some(Severity::Warning)
    );
    // Each model has too few requests, but all together have enough.
    let few = RecentFacts {
        requests: 10,
        by_upstream: 9,
        faults: failing_now(),
        ..RecentFacts::default()
    };
    let models = (0..3)
        .map(|n| ModelFacts {
            id: format!("m{n}").into(),
            recent: Some(few),
            ..model([])
        })
        .collect();
    let all = RecentFacts {
        requests: 30,
        by_upstream: 27,
        faults: failing_now(),
        ..RecentFacts::default()
    };
    let facts = Facts {
        models,
        recent: all,
        ..healthy()
    };
    let [of_all] = &found(Rule::Failures, &facts)[..] else {
        panic!("one")
    };
    assert_eq!(of_all.subject.0, "process");
    assert_eq!(
        of_all.summary,
        "27 of 30 requests failed by the providers' fault in the last 5 minutes."
    );
}

#[test]
fn a_silent_account_is_named_where_nothing_is_wrong() {
    let silent = SilentFacts {
        name: "llama".into(),
        requests: 1,
        silent_ms: 74_000,
    };
    let mut facts = hangs(0, 5, None);
    facts.accounts[0].given_up.clear();
    facts.accounts[0].silent.push(silent);
    let verdict = make_verdict(&facts, &[]);
    assert_eq!(
        (verdict.word, &*verdict.sentence),
        (
            Word::Ok,
            "1 model can answer, as far as is known. alpha has begun no answer of llama for 74 s, and 1 request waits."
        )
    );
}

fn hangs(callers: u64, attempts: u64, usual_ms: Option<u64>) -> Facts {
    let hung = GivenUpFacts {
        name: "llama".into(),
        callers,
        attempts,
        waits: WaitRange::from_one(2_040),
        usual_ms,
    };
    let account = AccountFacts {
        id: "alpha".into(),
        given_up: vec![hung],
        ..AccountFacts::default()
    };
    let recent = RecentFacts {
        requests: attempts,
        given_up: callers,
        faults: failing_now(),
        ..RecentFacts::default()
    };
    let model = ModelFacts {
        recent: Some(recent),
        ..model([target("alpha", FIT)])
    };
    Facts {
        accounts: vec![account],
        models: vec![model],
        recent,
        ..healthy()
    }
}

#[test]
fn waits_of_different_length_are_a_range() {
    let mut facts = hangs(9, 9, None);
    facts.accounts[0].given_up[0].waits = WaitRange {
        shortest_ms: 5_010,
        longest_ms: 60_000,
    };
    assert_eq!(
        says(Rule::GivenUp, &facts),
        "Callers give up waiting for alpha (9 in 1 min, after 5 s to 60 s)."
    );
}

#[test]
fn impatient_callers_are_told_as_a_hanging_target() {
    let facts = hangs(30, 30, Some(440));
    let what =
        "Callers give up waiting for alpha (30 in 1 min, after 2 s; it usually takes 0.4 s).";
    let [finding] = &found(Rule::GivenUp, &facts)[..] else {
        panic!("{:?}", find(&facts))
    };
    let subject = (finding.subject.0, &*finding.subject.1);
    assert_eq!(
        (&*finding.summary, finding.severity, subject),
        (what, Severity::Warning, ("target", "alpha/llama"))
    );
    let [failures] = &found(Rule::Failures, &facts)[..] else {
        panic!("{:?}", find(&facts))
    };
    assert_eq!(
        (failures.part, failures.severity),
        ("given_up", Severity::Warning)
    );
    assert_eq!(
        failures.summary,
        "30 of 30 requests for `fast` were given up by callers who waited for a provider much longer than usual, in the \
         last 5 minutes."
    );
    assert!(
        !find(&facts)
            .iter()
            .any(|one| one.remedy.contains("providers are well"))
    );
    let say = |facts: &Facts| {
        make_verdict(
            facts,
            &FindingTimes::default().notice(find(facts), facts.now),
        )
    };
    assert_eq!(
        say(&facts),
        Verdict {
            word: Word::Degraded,
            sentence: what.to_owned(),
            next: Vec::new()
        }
    );
    assert_eq!(
        says(Rule::GivenUp, &hangs(3, 150, None)),
        "Callers give up waiting for alpha (3 in 1 min, after 2 s)."
    );
    for few in [hangs(2, 2, None), hangs(3, 151, None), hangs(0, 0, None)] {
        assert!(found(Rule::GivenUp, &few).is_empty());
    }
    // What is over is a warning, and the verdict is good again.
    let over = Facts {
        accounts: Vec::new(),
        ..facts
    };
    assert_eq!(
        (say(&over).word, found(Rule::Failures, &over).len()),
        (Word::Ok, 1)
    );
}

#[test]
fn only_without_other_faults_is_all_well() {
    let recent = RecentFacts {
        requests: 20,
        by_caller: 9,
        faults: failing_now(),
        ..RecentFacts::default()
    };
    let facts = Facts {
        models: vec![ModelFacts {
            recent: Some(recent),
            ..model([])
        }],
        recent,
        ..healthy()
    };
    let well = |facts: &Facts| {
        found(Rule::Failures, facts)[0]
            .remedy
            .ends_with("its providers are well.")
    };
    assert!(well(&facts));
    assert!(!well(&Facts {
        open_admin: Some("0.0.0.0:1".to_owned()),
        ..facts
    }));
}

/// Each fault has just happened once more.
fn failing_now() -> FaultCounts {
    let fault = FaultCount {
        total: 1,
        last_failed_at: Some(NOW),
        ..FaultCount::default()
    };
    FaultCounts {
        by_caller: fault,
        by_upstream: fault,
        by_us: fault,
        given_up: fault,
        in_a_row: 0,
    }
}

/// A model that failed so often in a row, the last time `ago` milliseconds ago.
fn silent(in_a_row: u64, has_answered: bool, ago: u64) -> ModelFacts {
    let last = FaultCount {
        total: in_a_row,
        last_failed_at: Some(NOW - ago),
        ..FaultCount::default()
    };
    let faults = FaultCounts {
        by_upstream: last,
        in_a_row,
        ..FaultCounts::default()
    };
    ModelFacts {
        has_answered,
        last_failure: Some(("a".into(), ("status", None))),
        recent: Some(RecentFacts {
            requests: in_a_row,
            by_upstream: in_a_row,
            faults,
            ..RecentFacts::default()
        }),
        ..model([target("a", FIT)])
    }
}

#[test]
fn the_first_failure_of_a_new_gateway_is_shown() {
    let of = |models: Vec<ModelFacts>| Facts {
        models,
        ..healthy()
    };
    let check = |model: ModelFacts, expected: &str| {
        let facts = of(vec![model]);
        assert_eq!(says(Rule::NotAnswering, &facts), expected);
        let verdict = make_verdict(&facts, &FindingTimes::default().notice(find(&facts), NOW));
        assert_eq!(
            (verdict.word, &*verdict.sentence),
            (Word::Degraded, expected)
        );
    };
    check(
        silent(1, false, 0),
        "`fast` has not answered since the start: 1 request failed (a answers with errors).",
    );
    check(
        silent(3, false, 20_000),
        "`fast` has not answered since the start: 3 requests failed (a answers with errors), the last one 20 s ago.",
    );
    check(
        silent(3, true, 0),
        "The last 3 requests for `fast` failed (a answers with errors).",
    );
    let other = ModelFacts {
        id: "slow".into(),
        ..silent(1, false, 20_000)
    };
    let both = of(vec![silent(1, false, 0), other]);
    assert_eq!(
        says(Rule::NotAnswering, &both),
        "`fast`, `slow` have not answered since the start: 2 requests failed (a answers with errors)."
    );
    let reset = ModelFacts {
        last_failure: None,
        ..silent(4, false, 0)
    };
    let broken = ModelFacts {
        targets: vec![target("a", BROKEN)],
        ..silent(5, false, 0)
    };
    for model in [silent(2, true, 0), silent(0, false, 0), reset, broken] {
        assert!(found(Rule::NotAnswering, &of(vec![model])).is_empty());
    }
    // A rate limit is a problem of its own after ten seconds only.
    let limited = ModelFacts {
        targets: vec![target("a", Some(Reason::Rate))],
        ..silent(1, false, 0)
    };
    assert_eq!(found(Rule::NotAnswering, &of(vec![limited])).len(), 1);
}

/// Looks at one model: at its requests of five minutes and those that failed at its provider, at
/// the second of the last failure, and at the number of answers since and the second of the first.
fn look(
    memory: &mut FailureMemory,
    second: u64,
    counted: (u64, u64),
    last: u64,
    good: (u64, u64),
) -> Option<Finding> {
    let at = |second: u64| NOW + second * SECOND;
    let fault = FaultCount {
        total: last + 1,
        last_failed_at: Some(at(last)),
        requests_since: good.0,
        successes_since: good.0,
        good_since: (good.0 > 0).then_some(at(good.1)),
    };
    let faults = FaultCounts {
        by_upstream: fault,
        ..FaultCounts::default()
    };
    let recent = RecentFacts {
        requests: counted.0,
        by_upstream: counted.1,
        faults,
        ..RecentFacts::default()
    };
    let models = vec![ModelFacts {
        recent: Some(recent),
        ..model([target("a", FIT)])
    }];
    let facts = Facts {
        now: at(second),
        tick: at(second),
        models,
        recent,
        ..healthy()
    };
    let found = super::find_problems(&facts, memory)
        .into_iter()
        .filter(|one| one.rule == Rule::Failures);
    let found: Vec<Finding> = found.collect();
    assert!(
        found.len() <= 1 && found.iter().all(|one| one.subject.0 == "model"),
        "{found:?}"
    );
    found.into_iter().next()
}

#[test]
fn failures_end_after_recovery_and_never_get_worse() {
    use Severity::{Critical, Warning};
    let memory = &mut FailureMemory::default();
    let severity = |found: Option<Finding>| found.map(|found| found.severity);
    assert_eq!(
        severity(look(memory, 0, (100, 15), 0, (0, 0))),
        Some(Warning)
    );
    // The good ones from before leave the window. Nothing new has failed.
    assert_eq!(
        severity(look(memory, 29, (30, 15), 0, (0, 0))),
        Some(Warning)
    );
    let quiet = look(memory, 240, (15, 15), 0, (0, 0)).expect("it stands");
    let what = "15 of 100 requests for `fast` failed by the providers' fault in 5 minutes: last failed 4 min ago, \
                nothing asked since.";
    assert_eq!((quiet.severity, &*quiet.summary), (Warning, what));
    // Without an answer it has not recovered, however long ago it is.
    assert!(look(memory, 900, (0, 0), 0, (0, 0)).is_some());
    // One more failure says nothing of the share.
    assert_eq!(
        severity(look(memory, 901, (1, 1), 901, (0, 0))),
        Some(Warning)
    );
    assert_eq!(
        severity(look(memory, 902, (30, 29), 902, (0, 0))),
        Some(Critical)
    );
    // It answers again, and is severe for half a minute.
    assert_eq!(
        severity(look(memory, 931, (40, 29), 902, (10, 903))),
        Some(Critical)
    );
    assert_eq!(severity(look(memory, 932, (41, 29), 902, (11, 903))), None);
    // The failures are still in the window, and nothing of them comes back.
    assert_eq!(severity(look(memory, 950, (45, 29), 902, (15, 903))), None);
    // Few answers need more time.
    let memory = &mut FailureMemory::default();
    assert_eq!(
        severity(look(memory, 0, (20, 20), 0, (0, 0))),
        Some(Critical)
    );
    assert_eq!(
        severity(look(memory, 50, (21, 20), 0, (1, 40))),
        Some(Warning)
    );
    assert_eq!(severity(look(memory, 70, (21, 20), 0, (1, 40))), None);
}

/// `look` fails if the whole gateway becomes the subject.
#[test]
fn failures_keep_their_subject() {
    let memory = &mut FailureMemory::default();
    assert!(look(memory, 0, (25, 10), 0, (0, 0)).is_some());
    // Now the model has too few requests to begin with.
    assert!(look(memory, 200, (15, 10), 0, (0, 0)).is_some());
    assert!(look(memory, 210, (15, 10), 210, (0, 0)).is_some());
    assert!(look(memory, 250, (18, 10), 210, (3, 230)).is_none());
}

#[test]
fn why_nobody_can_answer_a_model_is_told_once() {
    let recent = RecentFacts {
        requests: 30,
        by_upstream: 30,
        faults: failing_now(),
        ..RecentFacts::default()
    };
    let with = |reason| {
        let models = vec![ModelFacts {
            recent: Some(recent),
            ..model([target("a", reason)])
        }];
        Facts {
            models,
            recent,
            ..healthy()
        }
    };
    let memory = &mut FailureMemory::default();
    let mut rules = |facts: &Facts| {
        super::find_problems(facts, memory)
            .iter()
            .map(|one| one.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(rules(&with(BROKEN)), [Rule::ModelUnfit]);
    assert_eq!(
        rules(&with(FIT)),
        [],
        "it recovered: nothing new has failed"
    );
}

#[test]
fn problems_with_one_cause_are_one_account() {
    let with = |id: &str, account: &str, reason| ModelFacts {
        id: id.into(),
        ..model([target(account, reason)])
    };
    let mut models: Vec<_> = (0..3)
        .map(|n| with(&format!("p39-{n}"), "prov-39", BROKEN))
        .collect();
    models.extend((0..2).map(|n| with(&format!("p00-{n}"), "prov-00", BROKEN)));
    models.extend((0..197).map(|n| with(&format!("m{n}"), "fine", FIT)));
    let facts = Facts {
        models,
        ..healthy()
    };
    let noticed = FindingTimes::default().notice(find(&facts), NOW);
    let reports = noticed.iter().map(Noticed::report);
    let told: Vec<_> = reports
        .map(|one| (one.subject.kind, one.subject.name, one.number))
        .collect();
    let account = |name: &str, number| ("account".to_owned(), name.to_owned(), number);
    assert_eq!(told, [account("prov-00", 2), account("prov-39", 3)]);
    let what = "3 models (`p39-0`, `p39-1`, `p39-2`) have no target that answers: prov-39 refuses connections.";
    assert_eq!(noticed[1].finding.summary, what);
    let says = "5 of 202 models fail: prov-00 and prov-39 refuse connections.";
    assert_eq!(make_verdict(&facts, &noticed).sentence, says);
    // One of them alone keeps the subject, so that nothing seems to end and to begin.
    let models = vec![with("p39-0", "prov-39", BROKEN), with("x", "prov-39", FIT)];
    let one = Facts {
        models,
        ..healthy()
    };
    let noticed = FindingTimes::default().notice(find(&one), NOW);
    assert_eq!(
        (noticed[0].finding.subject.0, &*noticed[0].finding.subject.1),
        ("account", "prov-39")
    );
    let says = "`p39-0` fails (1 of 2 models): prov-39 refuses connections.";
    assert_eq!(make_verdict(&one, &noticed).sentence, says);
}

#[test]
fn an_empty_gateway_says_what_to_do_next() {
    let said = |models: Vec<ModelFacts>, keys: usize, accounts: usize| {
        let accounts = vec![AccountFacts::default(); accounts];
        let facts = Facts {
            models,
            usable_keys: keys,
            accounts,
            ..healthy()
        };
        let said = make_verdict(&facts, &[]);
        (said.word, said.next.len())
    };
    assert_eq!(said(vec![], 0, 0), (Word::Empty, 4));
    assert_eq!(said(vec![], 0, 1), (Word::Empty, 3));
    assert_eq!(
        said(vec![model([target("a", FIT)])], 0, 1),
        (Word::Empty, 2)
    );
    assert_eq!(said(vec![model([target("a", FIT)])], 1, 1), (Word::Ok, 0));
}

#[test]
fn problems_name_queues_half_full_or_overflown() {
    let with = |waiting, queue, shed| {
        let recent = RecentFacts {
            shed,
            ..RecentFacts::default()
        };
        Facts {
            models: vec![ModelFacts {
                waiting,
                queue,
                recent: Some(recent),
                ..model([])
            }],
            ..healthy()
        }
    };
    for none in [with(4, Some(10), 0), with(0, Some(1), 0), with(9, None, 0)] {
        assert!(found(Rule::Queue, &none).is_empty());
    }
    assert!(
        says(Rule::Queue, &with(5, Some(10), 0))
            .starts_with("5 requests of at most 10 wait for `fast`")
    );
    assert!(
        says(Rule::Queue, &with(0, None, 1))
            .starts_with("1 request for `fast` found all accounts busy")
    );
}

#[test]
fn a_limit_that_is_nearly_used_up() {
    let with = |kind, used, limit| {
        let limit = LimitFacts {
            level: Level::Caller,
            name: "acme".into(),
            kind,
            used,
            limit,
        };
        Facts {
            limits: vec![limit],
            ..healthy()
        }
    };
    assert!(after(0, Rule::LimitNear, &with(Kind::RequestsPerDay, 89, 100)).is_empty());
    assert!(
        after(0, Rule::LimitNear, &with(Kind::RequestsPerDay, 0, 0)).is_empty(),
        "who may nothing is not near"
    );
    assert_eq!(
        after(0, Rule::LimitNear, &with(Kind::RequestsPerDay, 90, 100)).len(),
        1
    );
    let told = says(
        Rule::LimitNear,
        &with(Kind::UsdPerDay, 4_600_000_000, 5_000_000_000),
    );
    assert!(
        told.starts_with("Caller acme has used 4.6 USD of 5 USD of its `usd_per_day`"),
        "{told}"
    );
    // One that is free again soon hides no other, nor does it take over since when the other lasts.
    let of = |kind, used| LimitFacts {
        level: Level::Key,
        name: "acme/prod".into(),
        kind,
        used,
        limit: 100,
    };
    let both = Facts {
        limits: vec![of(Kind::UsdPerDay, 95), of(Kind::Concurrency, 100)],
        ..healthy()
    };
    assert_eq!(after(0, Rule::LimitNear, &both).len(), 1);
    let parts = after(30_000, Rule::LimitNear, &both)
        .iter()
        .map(|finding| finding.part)
        .collect::<Vec<_>>();
    assert_eq!(parts, ["usd_per_day", "concurrency"]);
    for short in [
        Kind::RequestsPerMinute,
        Kind::TokensPerMinute,
        Kind::Concurrency,
    ] {
        assert!(after(29_999, Rule::LimitNear, &with(short, 100, 100)).is_empty());
        assert_eq!(
            after(30_000, Rule::LimitNear, &with(short, 100, 100)).len(),
            1
        );
    }
}

#[test]
fn problems_name_stores_down_joining_or_off_time() {
    let with = |state, clock_ahead_ms| {
        let error = (state == StoreState::Down).then(|| "refused".to_owned());
        let store = StoreReport {
            address: "redis://h:1".to_owned(),
            state,
            clock_ahead_ms,
            error,
            ..StoreReport::default()
        };
        Facts {
            store: Some(store),
            ..healthy()
        }
    };
    assert!(
        find(&with(StoreState::Up, 4_999)).is_empty()
            && find(&with(StoreState::Up, -4_999)).is_empty()
    );
    assert!(after(4_999, Rule::StoreDown, &with(StoreState::Down, 0)).is_empty());
    let [down] = &after(5_000, Rule::StoreDown, &with(StoreState::Down, 0))[..] else {
        panic!("one")
    };
    assert!(
        down.severity == Severity::Critical && down.summary.contains("redis://h:1 is down"),
        "{}",
        down.summary
    );
    let [joins] = &after(5_000, Rule::StoreDown, &with(StoreState::Joining, 0))[..] else {
        panic!("one")
    };
    assert_eq!(joins.severity, Severity::Warning);
    assert_eq!(
        says(Rule::ClockOff, &with(StoreState::Up, 5_000)),
        "This gateway's clock is 5 s behind the store's."
    );
    assert_eq!(
        says(Rule::ClockOff, &with(StoreState::Up, -9_000)),
        "This gateway's clock is 9 s ahead of the store's."
    );
}

#[test]
fn unreadable_counts_are_told_until_sent_again() {
    let with = |waiting, ago| {
        let unreadable = UnreadableReport {
            number: 2,
            scope: Some("caller acme".to_owned()),
            waiting,
        };
        let store = StoreReport {
            address: "redis://h:1".to_owned(),
            unreadable,
            ..StoreReport::default()
        };
        let rises = RisesFacts {
            unreadable: Rise {
                total: 2,
                rose_at: Some(NOW - ago),
            },
            ..RisesFacts::default()
        };
        Facts {
            store: Some(store),
            rises,
            ..healthy()
        }
    };
    for facts in [with(0, MINUTE - 1), with(1, MINUTE), with(1, DAY)] {
        let [told] = &found(Rule::CountsUnreadable, &facts)[..] else {
            panic!("one")
        };
        assert!(
            told.severity == Severity::Warning && told.summary.contains("counts of caller acme"),
            "{}",
            told.summary
        );
    }
    assert!(found(Rule::CountsUnreadable, &with(0, MINUTE)).is_empty());
}

#[test]
fn a_ledger_that_fails_or_lost_rows() {
    let with = |state, rows| {
        let ledger = LedgerReport {
            state,
            problem: Some("no space".to_owned()),
            ..LedgerReport::default()
        };
        Facts {
            ledger,
            rises: RisesFacts {
                rows,
                ..RisesFacts::default()
            },
            ..healthy()
        }
    };
    let lost = |ago| Rise {
        total: 2,
        rose_at: Some(NOW - ago),
    };
    assert!(find(&with(LedgerState::Ok, Rise::default())).is_empty());
    assert!(find(&with(LedgerState::Off, Rise::default())).is_empty());
    assert_eq!(
        says(
            Rule::LedgerFailing,
            &with(LedgerState::Failing, Rise::default())
        ),
        "The ledger cannot be written: no space."
    );
    assert!(
        says(
            Rule::LedgerFailing,
            &with(LedgerState::Ok, lost(5 * MINUTE - 1))
        )
        .contains("2 rows were lost")
    );
    assert!(find(&with(LedgerState::Ok, lost(5 * MINUTE))).is_empty());
}

#[test]
fn what_must_not_happen_is_told_for_a_while() {
    let with = |lines, panics| Facts {
        rises: RisesFacts {
            lines,
            panics,
            ..RisesFacts::default()
        },
        ..healthy()
    };
    let (none, at) = (Rise::default(), |ago| Rise {
        total: 1,
        rose_at: Some(NOW - ago),
    });
    assert!(
        says(Rule::AccessLinesDropped, &with(at(5 * MINUTE - 1), none))
            .starts_with("1 access line was lost")
    );
    assert!(find(&with(at(5 * MINUTE), none)).is_empty());
    assert!(says(Rule::Panics, &with(none, at(HOUR - 1))).contains("1 exchange ended in it"));
    assert!(find(&with(none, at(HOUR))).is_empty());
    let mut rise = Rise::default();
    rise.take_count(0, 5);
    assert_eq!(rise.rose_at, None);
    rise.take_count(2, 7);
    rise.take_count(2, 9);
    assert_eq!(
        rise,
        Rise {
            total: 2,
            rose_at: Some(7)
        }
    );
}

#[test]
fn certificates_and_an_open_admin_listener() {
    let with = |left: i64| {
        let ends = NOW.saturating_add_signed(left);
        Facts {
            certificates: vec![CertificateFacts {
                listener: "0.0.0.0:443".to_owned(),
                ends,
            }],
            ..healthy()
        }
    };
    let day = i64::try_from(DAY).unwrap();
    assert!(find(&with(14 * day)).is_empty());
    let severity = |left| found(Rule::CertificateEnds, &with(left))[0].severity;
    assert_eq!(
        (severity(14 * day - 1), severity(3 * day)),
        (Severity::Warning, Severity::Warning)
    );
    assert_eq!(
        (severity(3 * day - 1), severity(-day)),
        (Severity::Critical, Severity::Critical)
    );
    assert!(says(Rule::CertificateEnds, &with(13 * day)).ends_with("ends in 13 days."));
    assert!(says(Rule::CertificateEnds, &with(0)).contains("has ended"));
    let open = Facts {
        open_admin: Some("0.0.0.0:9090".to_owned()),
        ..healthy()
    };
    assert!(says(Rule::AdminOpen, &open).contains("0.0.0.0:9090"));
}

#[test]
fn keys_that_are_in_use_and_end() {
    let with = |used: u64, left: i64| {
        let key = KeyFacts {
            id: "acme/prod".into(),
            used,
            ends: Some(NOW.saturating_add_signed(left)),
            old_secret: None,
        };
        Facts {
            keys: vec![key],
            ..healthy()
        }
    };
    let day = i64::try_from(DAY).unwrap();
    for none in [
        with(NOW, 7 * day),
        with(NOW - 7 * DAY - 1, day),
        with(NOW - DAY, -day),
        with(NOW - 9 * DAY, -1),
    ] {
        assert!(found(Rule::KeyEnds, &none).is_empty(), "{:?}", none.keys);
    }
    assert_eq!(
        says(Rule::KeyEnds, &with(NOW, 7 * day - 1)),
        "Key acme/prod is in use, and ends in 6 days."
    );
    assert!(says(Rule::KeyEnds, &with(NOW - 7 * DAY, 1)).contains("ends in 0 s"));
    assert!(says(Rule::KeyEnds, &with(NOW - 3, -1)).contains("has ended"));
    let old = |used: u64, left: i64| {
        let old_secret = Some(OldSecret {
            last_used: used,
            ends: NOW.saturating_add_signed(left),
        });
        Facts {
            keys: vec![KeyFacts {
                id: "acme/prod".into(),
                used: NOW,
                ends: None,
                old_secret,
            }],
            ..healthy()
        }
    };
    for none in [
        old(NOW, day),
        old(NOW, 0),
        old(NOW, -1),
        old(NOW - DAY - 1, 1),
    ] {
        assert!(find(&none).is_empty(), "{:?}", none.keys);
    }
    assert_eq!(
        says(Rule::OldSecretUsed, &old(NOW - DAY, day - 1)),
        "The old secret of key acme/prod is still used, and ends in 23 h."
    );
}

#[test]
fn costs_that_are_not_known() {
    let answers = |unpriced| {
        let recent = Some(RecentFacts {
            unpriced,
            ..RecentFacts::default()
        });
        Facts {
            models: vec![ModelFacts {
                recent,
                ..model([])
            }],
            counts_money: true,
            ..healthy()
        }
    };
    assert!(find(&answers(0)).is_empty());
    assert!(
        find(&Facts {
            counts_money: false,
            ..answers(1)
        })
        .is_empty(),
        "nobody counts money"
    );
    assert!(says(Rule::Unpriced, &answers(1)).starts_with("The cost of 1 answer of `fast`"));
    let report = |requests| UnpricedReport {
        account: "a".to_owned(),
        endpoint: "images".to_owned(),
        model: "fast".to_owned(),
        requests,
        upstream_model: "x".to_owned(),
    };
    let facts = Facts {
        unpriced: vec![report(2), report(3)],
        ..answers(1)
    };
    assert!(says(Rule::Unpriced, &facts).starts_with("5 requests for `fast` could not be sent"));
}

#[test]
fn problems_are_bounded_and_crowd_none_out() {
    let broken: Vec<_> = (0..300)
        .map(|n| TargetFacts {
            name: format!("m{n}").into(),
            ..TargetFacts::default()
        })
        .collect();
    let unfit = (0..300).map(|n| ModelFacts {
        id: format!("m{n}").into(),
        ..model([target(&format!("a{n}"), BROKEN)])
    });
    let mut facts = Facts {
        accounts: vec![AccountFacts {
            id: "a".into(),
            broken,
            ..AccountFacts::default()
        }],
        models: unfit.collect(),
        open_admin: Some("0.0.0.0:9090".to_owned()),
        ledger: LedgerReport {
            state: LedgerState::Failing,
            ..LedgerReport::default()
        },
        ..healthy()
    };
    let problems = |facts: &Facts| {
        let mut lasting = FindingTimes::default();
        lasting.notice(find(facts), NOW - DAY);
        Problems::new(&lasting.notice(find(facts), NOW))
    };
    let many = problems(&facts);
    let of = |rule: &str| {
        many.list
            .iter()
            .filter(|problem| problem.rule == rule)
            .count()
    };
    assert_eq!(
        (many.list.len(), many.more),
        (lasting::MAX_LISTED, 602 - lasting::MAX_LISTED)
    );
    assert_eq!(
        (of("model_unfit"), of("ledger_failing"), of("breaker_open")),
        (29, 1, 0),
        "critical ones go first"
    );
    let count = |problems: &Problems, rule, severity| {
        problems
            .counts()
            .find(|(one, of, _)| (*one, *of) == (rule, severity))
            .map(|(.., number)| number)
    };
    assert_eq!(
        count(&many, Rule::BreakerOpen, Severity::Warning),
        Some(300)
    );
    assert_eq!(count(&many, Rule::BreakerOpen, Severity::Critical), Some(0));
    facts.models.clear();
    let fewer = problems(&facts);
    let rules: Vec<&str> = fewer.list.iter().map(|problem| &*problem.rule).collect();
    assert_eq!(
        (rules[0], rules.contains(&"admin_open"), fewer.more),
        ("ledger_failing", true, 302 - lasting::MAX_LISTED)
    );
}

#[test]
fn the_memory_knows_since_when_despite_clocks() {
    let facts = Facts {
        open_admin: Some("x".to_owned()),
        ..healthy()
    };
    let mut lasting = FindingTimes::default();
    let mut since = |now| lasting.notice(find(&facts), now)[0].since;
    assert_eq!(
        (since(NOW), since(NOW + 9), since(NOW - 9), since(NOW)),
        (NOW, NOW, NOW - 9, NOW - 9)
    );
    assert!(lasting.notice(Vec::new(), NOW).is_empty());
    assert_eq!(
        lasting.notice(find(&facts), NOW + 1)[0].since,
        NOW + 1,
        "it went, and is back"
    );
    let twice = [find(&facts), find(&facts)].concat();
    assert_eq!(lasting.notice(twice, NOW + 2).len(), 1);
}

#[test]
fn the_verdict_says_the_worst() {
    let say = |facts: &Facts, lasted: u64| {
        let mut lasting = FindingTimes::default();
        lasting.notice(find(facts), facts.now - lasted);
        let said = make_verdict(facts, &lasting.notice(find(facts), facts.now));
        (said.word, said.sentence)
    };
    let phase = |phase| Facts {
        phase: (phase, 1),
        ..healthy()
    };
    assert_eq!(say(&phase(Phase::Starting), 0).0, Word::Degraded);
    assert_eq!(
        say(&phase(Phase::Delaying), 0),
        (
            Word::Draining,
            "The gateway shuts down, with 1 exchange to end.".to_owned()
        )
    );
    let lost = |state| TargetFacts {
        name: "llama".into(),
        failure: target("", state).failure,
        ..TargetFacts::default()
    };
    let broken = AccountFacts {
        id: "gpu-1".into(),
        broken: vec![lost(BROKEN)],
        ..AccountFacts::default()
    };
    let mut facts = Facts {
        accounts: vec![broken],
        models: vec![model([target("gpu-1", BROKEN), target("openai-main", FIT)])],
        ..healthy()
    };
    let degraded =
        "`fast` is degraded for 4 min: gpu-1 refuses connections, openai-main answers instead.";
    assert_eq!(
        say(&facts, 4 * MINUTE),
        (Word::Degraded, degraded.to_owned())
    );
    facts
        .models
        .push(model([target("gpu-1", BROKEN), target("b", FIT)]));
    assert_eq!(
        say(&facts, 4 * MINUTE).1,
        "2 of 2 models are degraded for 4 min: gpu-1 refuses connections."
    );
    facts.models = vec![model([target("gpu-1", BROKEN)])];
    assert_eq!(
        say(&facts, 3_000),
        (
            Word::Failing,
            "`fast` fails for 3 s: gpu-1 refuses connections.".to_owned()
        )
    );
    // Only a warning that hurts nobody now.
    let warned = Facts {
        open_admin: Some("0.0.0.0:1".to_owned()),
        ..healthy()
    };
    let (word, says) = say(&warned, 0);
    assert!(
        word == Word::Ok && says.contains("There is a warning: The admin listener"),
        "{says}"
    );
    let failing = Facts {
        ledger: LedgerReport {
            state: LedgerState::Failing,
            ..LedgerReport::default()
        },
        ..healthy()
    };
    assert_eq!(
        say(&failing, 0),
        (Word::Degraded, "The ledger cannot be written.".to_owned())
    );
}

/// A model without a fit target, and its fallback.
fn with_fallback(reason_of_fallback: Option<Reason>) -> Facts {
    let first = ModelFacts {
        fallbacks: vec!["other".into()],
        ..model([target("gpu-1", BROKEN)])
    };
    let other = ModelFacts {
        id: "other".into(),
        ..model([target("b", reason_of_fallback)])
    };
    Facts {
        models: vec![first, other],
        ..healthy()
    }
}

#[test]
fn a_fallback_that_answers_makes_it_degraded() {
    let told = |facts: &Facts| {
        let noticed = FindingTimes::default().notice(find(facts), NOW);
        make_verdict(facts, &noticed)
    };
    let facts = with_fallback(FIT);
    let unfit = found(Rule::ModelUnfit, &facts);
    assert_eq!(unfit.len(), 1);
    assert_eq!(
        (unfit[0].severity, unfit[0].part),
        (Severity::Warning, "fallback")
    );
    assert_eq!(
        unfit[0].summary,
        "No target of `fast` answers: gpu-1 refuses connections. Fallbacks answer instead."
    );
    let verdict = told(&facts);
    assert_eq!(verdict.word, Word::Degraded);
    assert!(
        verdict
            .sentence
            .ends_with("gpu-1 refuses connections, its fallback `other` answers instead."),
        "{}",
        verdict.sentence
    );
    let out = with_fallback(BROKEN);
    assert!(
        found(Rule::ModelUnfit, &out)
            .iter()
            .all(|one| one.severity == Severity::Critical && one.part.is_empty())
    );
    assert_eq!(told(&out).word, Word::Failing);
}

#[test]
fn a_process_without_descriptors() {
    let mut facts = healthy();
    facts.descriptors = DescriptorFacts {
        limit: 300,
        is_lacking: true,
        connections: Some(98),
    };
    assert!(says(Rule::NoDescriptors, &facts).contains("may have 300 files open and has them"));
    facts.descriptors.is_lacking = false;
    assert!(found(Rule::NoDescriptors, &facts).is_empty());
    facts.rises.refused = Rise {
        total: 2,
        rose_at: Some(NOW),
    };
    let told = says(Rule::NoDescriptors, &facts);
    assert!(
        told.contains("at most 98 connections: 2 connections were closed"),
        "{told}"
    );
    // Where the settings bound them, that is what somebody chose.
    facts.descriptors.connections = None;
    assert!(found(Rule::NoDescriptors, &facts).is_empty());
}

#[test]
fn each_rule_has_its_name_in_the_book() {
    let names: std::collections::BTreeSet<&str> = Rule::ALL.into_iter().map(Rule::name).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    let book = include_str!("../../../docs/src/problems.md");
    let headings: Vec<&str> = book
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    for rule in Rule::ALL {
        assert!(
            headings.contains(&rule.name()),
            "docs/src/problems.md has no heading for {}",
            rule.name()
        );
        assert_eq!(rule.link(), format!("problems.md#{}", rule.name()));
    }
    let of_rules = headings
        .iter()
        .filter(|heading| heading.contains('_') || names.contains(*heading));
    assert_eq!(of_rules.count(), names.len(), "a heading has no rule");
}

/// The text of a name is nobody's to choose here; it must only not break anything.
#[test]
fn odd_names_are_only_names() {
    let id: Arc<str> = "<img src=x onerror=alert(1)>\u{202e}\n`".into();
    let facts = Facts {
        models: vec![ModelFacts {
            id: id.clone(),
            ..model([target("a", BROKEN)])
        }],
        ..healthy()
    };
    assert!(says(Rule::ModelUnfit, &facts).contains(&*id));
}
