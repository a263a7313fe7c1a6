use super::*;
use crate::account::failure::{Class, REFUSED_COOL, Setback};
use crate::account::given_up::GIVEN_UP;

fn setback(class: Class, retry_after: Option<Duration>) -> Setback {
    Setback { class, retry_after }
}

fn admitted(health: &Arc<TargetHealth>, now: Instant) -> AttemptGuard {
    health
        .admit(0, true, false, now)
        .unwrap_or_else(|kept| panic!("kept away: {kept:?}"))
}

fn fail(
    health: &Arc<TargetHealth>,
    class: Class,
    retry_after: Option<u64>,
    now: Instant,
) -> FailureEffect {
    admitted(health, now).record_failure(
        setback(class, retry_after.map(Duration::from_secs)),
        true,
        Duration::from_millis(5),
        now,
    )
}

fn succeed(health: &Arc<TargetHealth>, now: Instant) {
    admitted(health, now).record_answer(true, Duration::from_millis(5), now);
}

#[test]
fn a_rate_limit_is_not_shortened_by_milder_ones() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut late = admitted(&health, now);
    assert_eq!(
        fail(&health, Class::Rate, Some(7), now)
            .rest
            .map(|rest| rest.why),
        Some(Why::Rate)
    );
    late.record_failure(
        setback(Class::Rate, Some(Duration::from_secs(1))),
        true,
        Duration::ZERO,
        now,
    );
    assert!(matches!(
        health.admit(0, true, false, now + Duration::from_secs(6)),
        Err(Unavailable::Resting(_))
    ));
    assert!(
        health
            .admit(0, false, false, now + Duration::from_secs(7))
            .is_ok()
    );
    assert_eq!(
        health.status(now, SystemTime::now()).calls,
        CallCounts { all: 0, failed: 0 },
        "a limit is no failure"
    );
}

#[test]
fn overloaded_targets_stand_behind_and_never_rest() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let fit = |at: Instant| health.order_facts(true, false, at, SystemTime::now()).fit;
    let failed = fail(&health, Class::Overloaded, Some(7), now);
    assert!(
        failed.rest.is_none() && health.admit(0, false, false, now).is_ok(),
        "if it is alone, it is asked"
    );
    assert!(!fit(now + Duration::from_secs(6)) && fit(now + Duration::from_secs(7)));
    assert_eq!(
        health.status(now, SystemTime::now()).calls,
        CallCounts { all: 1, failed: 1 },
        "its breaker counts it"
    );
    succeed(&health, now);
    assert!(fit(now));
}

#[test]
fn a_target_broken_elsewhere_needs_an_answer_first() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let fit = |at: Instant| health.order_facts(true, false, at, SystemTime::now()).fit;
    let until = now + Duration::from_secs(5);
    health.record_hint(Some(until), now);
    assert!(!fit(now) && fit(until) && health.admit(0, false, false, now).is_ok());
    succeed(&health, now);
    assert!(fit(now));
    health.record_hint(Some(until + Duration::from_millis(3)), now);
    assert!(fit(now), "it is the same one");
    health.record_hint(Some(until + Duration::from_secs(9)), now);
    assert!(!fit(now), "and another");
    health.record_hint(None, now);
    assert!(fit(now));
}

#[test]
fn how_it_failed_last_is_known_until_it_answers() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let trouble = |detail: &str| Trouble {
        outcome: "tls",
        status: None,
        detail: Some(detail.to_owned()),
        failed_at: now,
    };
    assert!(
        health.record_trouble(trouble("expired")) && !health.record_trouble(trouble("expired")),
        "told once"
    );
    assert!(health.record_trouble(trouble("unknown issuer")));
    assert_eq!(health.trouble(), Some(trouble("unknown issuer")));
    assert!(!health.is_out_of_reach());
    for outcome in OUT_OF_REACH {
        health.record_trouble(Trouble {
            outcome,
            status: None,
            detail: None,
            failed_at: now,
        });
        assert!(health.is_out_of_reach());
    }
    succeed(&health, now);
    assert_eq!(health.trouble(), None);
    assert!(health.record_trouble(trouble("expired")), "and told again");
    health.forget_failures();
    assert_eq!(health.trouble(), None);
}

#[test]
fn three_refusals_in_a_row_rest_it() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    fail(&health, Class::Refused, None, now);
    fail(&health, Class::Refused, None, now);
    succeed(&health, now);
    fail(&health, Class::Refused, None, now);
    fail(&health, Class::Refused, None, now);
    assert_eq!((health.rest(now), health.refuses(now)), (None, false));
    assert_eq!(
        fail(&health, Class::Refused, None, now)
            .rest
            .map(|rest| rest.why),
        Some(Why::Refused)
    );
    assert!(health.refuses(now));
    assert_eq!(
        (
            health.rest(now + REFUSED_COOL),
            health.refuses(now + REFUSED_COOL)
        ),
        (None, false)
    );
    health.reset();
    assert_eq!(health.rest(now), None);
}

#[test]
fn answers_end_rests_for_refusals_not_rate_limits() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut out: Vec<AttemptGuard> = (0..5).map(|_| admitted(&health, now)).collect();
    let mut end = |class| {
        let mut guard = out.pop().unwrap();
        guard
            .record_failure(setback(class, None), true, Duration::ZERO, now)
            .rest
            .map(|rest| rest.why)
    };
    assert_eq!(end(Class::Rate), Some(Why::Rate));
    let limited = health.rest(now);
    assert_eq!(
        [
            end(Class::Refused),
            end(Class::Refused),
            end(Class::Refused)
        ],
        [None; 3],
        "it rests already"
    );
    assert_eq!(
        health.rest(now).map(|rest| rest.why),
        Some(Why::Refused),
        "the longer one is shown"
    );
    out.pop().unwrap().record_answer(true, Duration::ZERO, now);
    assert_eq!(health.rest(now), limited);
}

#[test]
fn nothing_is_awaited_twice_and_nothing_for_ever() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let awaited = || health.status(now, SystemTime::now()).awaited;
    let mut trial = admitted(&health, now);
    let other = admitted(&health, now);
    assert_eq!(awaited(), 2);
    trial.record_answer(true, Duration::from_millis(9), now);
    assert_eq!(awaited(), 1);
    trial.record_failure(
        setback(Class::Transient, None),
        true,
        Duration::from_secs(9),
        now,
    );
    assert_eq!(
        health.status(now, SystemTime::now()).expected,
        [None, Some(Duration::from_millis(9))],
        "a cut is not slowness"
    );
    drop((trial, other));
    assert_eq!(
        (awaited(), health.status(now, SystemTime::now()).calls),
        (0, CallCounts { all: 1, failed: 1 })
    );
}

#[test]
fn answers_that_begin_and_never_end_open_the_breaker() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut cut = |ends: bool| {
        let mut trial = admitted(&health, now);
        trial.record_answer(true, Duration::from_millis(9), now);
        if ends {
            trial.record_whole_answer(now);
            return None;
        }
        trial
            .record_failure(
                setback(Class::Transient, None),
                true,
                Duration::from_secs(9),
                now,
            )
            .breaker
    };
    assert!(
        [false, false, false, false, true, false, false, false, false]
            .map(&mut cut)
            .iter()
            .all(Option::is_none)
    );
    assert!(
        matches!(cut(false), Some(BreakerState::Open(_))),
        "five in a row"
    );
}

#[test]
fn what_is_told_of_a_target_is_recalled() {
    let (health, now, clock) = (
        Arc::new(TargetHealth::default()),
        Instant::now(),
        SystemTime::now(),
    );
    let soon = now + Duration::from_secs(9);
    let status = TargetStatus {
        breaker: BreakerState::Open(soon),
        calls: CallCounts { all: 0, failed: 0 },
        rest: Some(Rest {
            until: soon,
            why: Why::Refused,
        }),
        expected: [None, Some(Duration::from_millis(70))],
        awaited: 3,
        headroom: Some(0.25),
        behind: Some(soon),
    };
    health.recall(&status, now, clock);
    let again = health.status(now, clock);
    assert_eq!(
        (again.breaker, again.rest, again.awaited, again.headroom),
        (status.breaker, status.rest, 3, Some(0.25))
    );
    assert_eq!(again.expected, status.expected);
    health.recall(
        &TargetStatus {
            breaker: BreakerState::HalfOpen { probing: true },
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(matches!(
        health.admit(0, false, false, now),
        Err(Unavailable::Broken(_))
    ));
    health.recall(
        &TargetStatus {
            breaker: BreakerState::HalfOpen { probing: false },
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(
        health
            .admit(0, false, false, now)
            .is_ok_and(|trial| trial.is_probe())
    );
    health.recall(
        &TargetStatus {
            breaker: BreakerState::Closed,
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(
        health
            .admit(0, false, false, now)
            .is_ok_and(|trial| !trial.is_probe())
    );
}

#[test]
fn a_probed_target_is_for_its_probe_alone() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    for _ in 0..5 {
        fail(&health, Class::Transient, None, now);
    }
    let later = now + Duration::from_secs(7);
    assert!(
        health.probe(now).is_none()
            && !health.order_facts(true, true, later, SystemTime::now()).fit
    );
    assert!(
        health
            .order_facts(true, false, later, SystemTime::now())
            .fit
    );
    assert!(matches!(
        health.admit(0, false, true, later),
        Err(Unavailable::Broken(_))
    ));
    let mut probe = health.probe(later).expect("due");
    assert!(health.probe(later).is_none() && health.admit(0, false, false, later).is_err());
    assert_eq!(
        probe.record_answer(false, Duration::from_millis(9), later),
        Some(BreakerState::Closed)
    );
    assert!(health.admit(0, false, true, later).is_ok());
    let health = Arc::new(TargetHealth {
        probing: Probing::ByCallers,
        ..TargetHealth::default()
    });
    for _ in 0..5 {
        fail(&health, Class::Transient, None, now);
    }
    assert!(
        health.order_facts(true, true, later, SystemTime::now()).fit,
        "nobody else finds out"
    );
    assert!(
        health
            .admit(0, false, true, later)
            .is_ok_and(|trial| trial.is_probe())
    );
}

#[test]
fn abandoned_targets_stand_behind_and_count_as_slow() {
    let (health, start) = (Arc::new(TargetHealth::default()), Instant::now());
    let clock = SystemTime::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    for _ in 0..20 {
        succeed(&health, start);
    }
    let leave = |key: u64, now: Instant| {
        let waited = Duration::from_secs(2);
        let mut guard = health
            .admit(key, true, false, now - waited)
            .unwrap_or_else(|kept| panic!("{kept:?}"));
        guard.record_leave(true, waited, now)
    };
    let [first, second, third] = [0, 0, 0].map(|key| leave(key, at(40)));
    assert!(
        [first, second, third]
            .iter()
            .all(|left| left.is_given_up && left.breaker.is_none())
    );
    assert_eq!(
        [
            first.is_moved_back,
            second.is_moved_back,
            third.is_moved_back
        ],
        [false, false, true]
    );
    let facts = health.order_facts(true, false, at(41), clock);
    assert!(
        facts.fit && facts.behind && facts.latency > Some(Duration::from_secs(1)),
        "{facts:?}"
    );
    assert!(!health.is_sound(at(41)));
    assert_eq!(
        health.trouble().map(|trouble| trouble.outcome),
        Some("given_up")
    );
    assert!(!health.order_facts(true, false, at(51), clock).behind);
    // Five, and nobody gets an answer.
    assert_eq!(leave(0, at(42)).breaker, None);
    assert!(matches!(
        leave(0, at(42)).breaker,
        Some(BreakerState::Open(_))
    ));
    // A probe decides nothing.
    let mut probe = admitted(&health, at(60));
    assert!(probe.is_probe());
    let left = probe.record_leave(true, Duration::from_secs(9), at(69));
    drop(probe);
    assert_eq!((left.is_given_up, left.breaker), (false, None));
    assert_eq!(
        health.status(at(69), clock).breaker,
        BreakerState::HalfOpen { probing: false }
    );
    health.reset();
    assert!(
        !health.order_facts(true, false, at(43), clock).behind,
        "a reset forgets it"
    );
}

#[test]
fn a_recovered_targets_outage_stays_known() {
    let (health, start) = (Arc::new(TargetHealth::default()), Instant::now());
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert_eq!((health.since(start), health.last_failure()), (None, None));
    // The breaker opens with the fifth failure, and again after a probe that fails.
    for second in 1..=5 {
        fail(&health, Class::Transient, None, at(second));
    }
    let trouble = Trouble {
        outcome: "reset",
        status: None,
        detail: None,
        failed_at: at(5),
    };
    health.record_trouble(trouble.clone());
    assert_eq!(health.since(at(6)), Some(at(5)));
    fail(&health, Class::Transient, None, at(12));
    assert_eq!(
        health.since(at(13)),
        Some(at(5)),
        "it was never back between"
    );
    succeed(&health, at(40));
    assert_eq!(
        (health.since(at(41)), health.trouble()),
        (Some(at(40)), None)
    );
    assert_eq!(health.last_failure(), Some(trouble.clone()), "it stays");
    // A rest for the rate is over by itself.
    let mut other = admitted(&health, at(50));
    fail(&health, Class::Rate, Some(7), at(50));
    other.record_failure(
        setback(Class::Rate, Some(Duration::from_secs(9))),
        true,
        Duration::ZERO,
        at(50),
    );
    assert_eq!(
        (health.since(at(52)), health.since(at(60))),
        (Some(at(50)), Some(at(59)))
    );
    // An answer ends a rest for refusals.
    let mut late = admitted(&health, at(69));
    for _ in 0..3 {
        fail(&health, Class::Refused, None, at(70));
    }
    assert_eq!(health.since(at(71)), Some(at(70)));
    late.record_answer(true, Duration::ZERO, at(72));
    assert_eq!(health.since(at(73)), Some(at(72)));
    health.reset();
    assert!(
        health.record_trouble(trouble),
        "after a reset it is news again"
    );
}

#[test]
fn the_last_failure_is_the_last_impatient_caller() {
    let (health, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let failed = || {
        health
            .trouble()
            .map(|trouble| (trouble.outcome, trouble.failed_at))
    };
    let wait = Duration::from_secs(2);
    let waiting: Vec<AttemptGuard> = (0..3).map(|_| admitted(&health, now)).collect();
    for mut guard in waiting {
        assert!(guard.record_leave(true, wait, now + wait).is_given_up);
    }
    assert_eq!(failed(), Some((GIVEN_UP, now + wait)));
    // One alone, much later, does not move the target, but nobody has answered it either.
    let later = now + Duration::from_secs(100);
    let left = admitted(&health, later).record_leave(true, wait, later + wait);
    assert!(left.is_given_up && !left.is_moved_back);
    assert_eq!(failed(), Some((GIVEN_UP, later + wait)));
    // Another failure stays what it is.
    health.record_trouble(Trouble {
        outcome: "status",
        status: None,
        detail: None,
        failed_at: later + wait,
    });
    let latest = later + Duration::from_secs(100);
    assert!(
        admitted(&health, latest)
            .record_leave(true, wait, latest + wait)
            .is_given_up
    );
    assert_eq!(failed(), Some(("status", later + wait)));
}

#[test]
fn a_target_is_silent_while_requests_wait_in_vain() {
    let (health, start) = (Arc::new(TargetHealth::default()), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(health.silence(at(60)), None, "nobody waits");
    let mut first = admitted(&health, at(60));
    let mut second = admitted(&health, at(70));
    assert_eq!(health.silence(at(74)), None);
    assert_eq!(health.silence(at(80)), Some((2, Duration::from_secs(20))));
    // An answer that begins or ends is a sign, and so is a failure.
    first.record_answer(true, Duration::from_secs(20), at(80));
    assert_eq!(health.silence(at(90)), None);
    first.record_whole_answer(at(100));
    assert_eq!(health.silence(at(110)), None);
    fail(&health, Class::Transient, None, at(120));
    assert_eq!(health.silence(at(130)), None);
    assert_eq!(health.silence(at(200)), Some((1, Duration::from_secs(80))));
    second.record_answer(true, Duration::from_secs(130), at(200));
    assert_eq!(health.silence(at(400)), None, "nobody waits");
}
