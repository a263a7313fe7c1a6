use super::*;
use crate::account::failure::{Class, REFUSED_COOL, Setback};
use crate::account::given_up::GIVEN_UP;

fn setback(class: Class, retry_after: Option<Duration>) -> Setback {
    Setback { class, retry_after }
}

fn admitted(track: &Arc<TargetHealth>, now: Instant) -> AttemptGuard {
    track
        .admit(0, true, false, now)
        .unwrap_or_else(|kept| panic!("kept away: {kept:?}"))
}

fn fail(
    track: &Arc<TargetHealth>,
    class: Class,
    retry_after: Option<u64>,
    now: Instant,
) -> FailureEffect {
    admitted(track, now).record_failure(
        setback(class, retry_after.map(Duration::from_secs)),
        true,
        Duration::from_millis(5),
        now,
    )
}

fn succeed(track: &Arc<TargetHealth>, now: Instant) {
    admitted(track, now).record_answer(true, Duration::from_millis(5), now);
}

#[test]
fn a_rate_limit_is_not_shortened_by_milder_ones() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut late = admitted(&track, now);
    assert_eq!(
        fail(&track, Class::Rate, Some(7), now)
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
        track.admit(0, true, false, now + Duration::from_secs(6)),
        Err(Unavailable::Resting(_))
    ));
    assert!(
        track
            .admit(0, false, false, now + Duration::from_secs(7))
            .is_ok()
    );
    assert_eq!(
        track.status(now, SystemTime::now()).calls,
        CallCounts { all: 0, failed: 0 },
        "a limit is no failure"
    );
}

#[test]
fn overloaded_targets_stand_behind_and_never_rest() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let fit = |at: Instant| track.standing(true, false, at, SystemTime::now()).fit;
    let failed = fail(&track, Class::Overloaded, Some(7), now);
    assert!(
        failed.rest.is_none() && track.admit(0, false, false, now).is_ok(),
        "if it is alone, it is asked"
    );
    assert!(!fit(now + Duration::from_secs(6)) && fit(now + Duration::from_secs(7)));
    assert_eq!(
        track.status(now, SystemTime::now()).calls,
        CallCounts { all: 1, failed: 1 },
        "its breaker counts it"
    );
    succeed(&track, now);
    assert!(fit(now));
}

#[test]
fn a_target_broken_elsewhere_needs_an_answer_first() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let fit = |at: Instant| track.standing(true, false, at, SystemTime::now()).fit;
    let until = now + Duration::from_secs(5);
    track.hint(Some(until), now);
    assert!(!fit(now) && fit(until) && track.admit(0, false, false, now).is_ok());
    succeed(&track, now);
    assert!(fit(now));
    track.hint(Some(until + Duration::from_millis(3)), now);
    assert!(fit(now), "it is the same one");
    track.hint(Some(until + Duration::from_secs(9)), now);
    assert!(!fit(now), "and another");
    track.hint(None, now);
    assert!(fit(now));
}

#[test]
fn how_it_failed_last_is_known_until_it_answers() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let trouble = |detail: &str| Trouble {
        outcome: "tls",
        detail: Some(detail.to_owned()),
        failed_at: now,
    };
    assert!(
        track.troubled(trouble("expired")) && !track.troubled(trouble("expired")),
        "told once"
    );
    assert!(track.troubled(trouble("unknown issuer")));
    assert_eq!(track.trouble(), Some(trouble("unknown issuer")));
    assert!(!track.is_out_of_reach());
    for outcome in OUT_OF_REACH {
        track.troubled(Trouble {
            outcome,
            detail: None,
            failed_at: now,
        });
        assert!(track.is_out_of_reach());
    }
    succeed(&track, now);
    assert_eq!(track.trouble(), None);
    assert!(track.troubled(trouble("expired")), "and told again");
    track.settings_changed();
    assert_eq!(track.trouble(), None);
}

#[test]
fn three_refusals_in_a_row_rest_it() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    fail(&track, Class::Refused, None, now);
    fail(&track, Class::Refused, None, now);
    succeed(&track, now);
    fail(&track, Class::Refused, None, now);
    fail(&track, Class::Refused, None, now);
    assert_eq!((track.rest(now), track.refuses(now)), (None, false));
    assert_eq!(
        fail(&track, Class::Refused, None, now)
            .rest
            .map(|rest| rest.why),
        Some(Why::Refused)
    );
    assert!(track.refuses(now));
    assert_eq!(
        (
            track.rest(now + REFUSED_COOL),
            track.refuses(now + REFUSED_COOL)
        ),
        (None, false)
    );
    track.reset();
    assert_eq!(track.rest(now), None);
}

#[test]
fn answers_end_rests_for_refusals_not_rate_limits() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut out: Vec<AttemptGuard> = (0..5).map(|_| admitted(&track, now)).collect();
    let mut end = |class| {
        let mut guard = out.pop().unwrap();
        guard
            .record_failure(setback(class, None), true, Duration::ZERO, now)
            .rest
            .map(|rest| rest.why)
    };
    assert_eq!(end(Class::Rate), Some(Why::Rate));
    let limited = track.rest(now);
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
        track.rest(now).map(|rest| rest.why),
        Some(Why::Refused),
        "the longer one is shown"
    );
    out.pop().unwrap().record_answer(true, Duration::ZERO, now);
    assert_eq!(track.rest(now), limited);
}

#[test]
fn nothing_is_awaited_twice_and_nothing_for_ever() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let awaited = || track.status(now, SystemTime::now()).awaited;
    let mut trial = admitted(&track, now);
    let other = admitted(&track, now);
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
        track.status(now, SystemTime::now()).expected,
        [None, Some(Duration::from_millis(9))],
        "a cut is not slowness"
    );
    drop((trial, other));
    assert_eq!(
        (awaited(), track.status(now, SystemTime::now()).calls),
        (0, CallCounts { all: 1, failed: 1 })
    );
}

#[test]
fn answers_that_begin_and_never_end_open_the_breaker() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let mut cut = |ends: bool| {
        let mut trial = admitted(&track, now);
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
    let (track, now, clock) = (
        Arc::new(TargetHealth::default()),
        Instant::now(),
        SystemTime::now(),
    );
    let soon = now + Duration::from_secs(9);
    let status = TrackStatus {
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
    track.recall(&status, now, clock);
    let again = track.status(now, clock);
    assert_eq!(
        (again.breaker, again.rest, again.awaited, again.headroom),
        (status.breaker, status.rest, 3, Some(0.25))
    );
    assert_eq!(again.expected, status.expected);
    track.recall(
        &TrackStatus {
            breaker: BreakerState::HalfOpen { probing: true },
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(matches!(
        track.admit(0, false, false, now),
        Err(Unavailable::Broken(_))
    ));
    track.recall(
        &TrackStatus {
            breaker: BreakerState::HalfOpen { probing: false },
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(
        track
            .admit(0, false, false, now)
            .is_ok_and(|trial| trial.is_probe())
    );
    track.recall(
        &TrackStatus {
            breaker: BreakerState::Closed,
            rest: None,
            ..status
        },
        now,
        clock,
    );
    assert!(
        track
            .admit(0, false, false, now)
            .is_ok_and(|trial| !trial.is_probe())
    );
}

#[test]
fn a_probed_target_is_for_its_probe_alone() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    for _ in 0..5 {
        fail(&track, Class::Transient, None, now);
    }
    let later = now + Duration::from_secs(7);
    assert!(
        track.probe(now).is_none() && !track.standing(true, true, later, SystemTime::now()).fit
    );
    assert!(track.standing(true, false, later, SystemTime::now()).fit);
    assert!(matches!(
        track.admit(0, false, true, later),
        Err(Unavailable::Broken(_))
    ));
    let mut probe = track.probe(later).expect("due");
    assert!(track.probe(later).is_none() && track.admit(0, false, false, later).is_err());
    assert_eq!(
        probe.record_answer(false, Duration::from_millis(9), later),
        Some(BreakerState::Closed)
    );
    assert!(track.admit(0, false, true, later).is_ok());
    let track = Arc::new(TargetHealth {
        is_unprobed: true,
        ..TargetHealth::default()
    });
    for _ in 0..5 {
        fail(&track, Class::Transient, None, now);
    }
    assert!(
        track.standing(true, true, later, SystemTime::now()).fit,
        "nobody else finds out"
    );
    assert!(
        track
            .admit(0, false, true, later)
            .is_ok_and(|trial| trial.is_probe())
    );
}

#[test]
fn abandoned_targets_stand_behind_and_count_as_slow() {
    let (track, start) = (Arc::new(TargetHealth::default()), Instant::now());
    let clock = SystemTime::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    for _ in 0..20 {
        succeed(&track, start);
    }
    let leave = |key: u64, now: Instant| {
        let waited = Duration::from_secs(2);
        let mut guard = track
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
    let standing = track.standing(true, false, at(41), clock);
    assert!(
        standing.fit && standing.behind && standing.latency > Some(Duration::from_secs(1)),
        "{standing:?}"
    );
    assert!(!track.is_sound(at(41)));
    assert_eq!(
        track.trouble().map(|trouble| trouble.outcome),
        Some("given_up")
    );
    assert!(!track.standing(true, false, at(51), clock).behind);
    // Five, and nobody gets an answer.
    assert_eq!(leave(0, at(42)).breaker, None);
    assert!(matches!(
        leave(0, at(42)).breaker,
        Some(BreakerState::Open(_))
    ));
    // A probe decides nothing.
    let mut probe = admitted(&track, at(60));
    assert!(probe.is_probe());
    let left = probe.record_leave(true, Duration::from_secs(9), at(69));
    drop(probe);
    assert_eq!((left.is_given_up, left.breaker), (false, None));
    assert_eq!(
        track.status(at(69), clock).breaker,
        BreakerState::HalfOpen { probing: false }
    );
    track.reset();
    assert!(
        !track.standing(true, false, at(43), clock).behind,
        "a reset forgets it"
    );
}

#[test]
fn a_recovered_targets_outage_stays_known() {
    let (track, start) = (Arc::new(TargetHealth::default()), Instant::now());
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    assert_eq!((track.since(start), track.last_failure()), (None, None));
    // The breaker opens with the fifth failure, and again after a probe that fails.
    for second in 1..=5 {
        fail(&track, Class::Transient, None, at(second));
    }
    let trouble = Trouble {
        outcome: "reset",
        detail: None,
        failed_at: at(5),
    };
    track.troubled(trouble.clone());
    assert_eq!(track.since(at(6)), Some(at(5)));
    fail(&track, Class::Transient, None, at(12));
    assert_eq!(
        track.since(at(13)),
        Some(at(5)),
        "it was never back between"
    );
    succeed(&track, at(40));
    assert_eq!((track.since(at(41)), track.trouble()), (Some(at(40)), None));
    assert_eq!(track.last_failure(), Some(trouble.clone()), "it stays");
    // A rest for the rate is over by itself.
    let mut other = admitted(&track, at(50));
    fail(&track, Class::Rate, Some(7), at(50));
    other.record_failure(
        setback(Class::Rate, Some(Duration::from_secs(9))),
        true,
        Duration::ZERO,
        at(50),
    );
    assert_eq!(
        (track.since(at(52)), track.since(at(60))),
        (Some(at(50)), Some(at(59)))
    );
    // An answer ends a rest for refusals.
    let mut late = admitted(&track, at(69));
    for _ in 0..3 {
        fail(&track, Class::Refused, None, at(70));
    }
    assert_eq!(track.since(at(71)), Some(at(70)));
    late.record_answer(true, Duration::ZERO, at(72));
    assert_eq!(track.since(at(73)), Some(at(72)));
    track.reset();
    assert!(track.troubled(trouble), "after a reset it is news again");
}

#[test]
fn the_last_failure_is_the_last_impatient_caller() {
    let (track, now) = (Arc::new(TargetHealth::default()), Instant::now());
    let failed = || {
        track
            .trouble()
            .map(|trouble| (trouble.outcome, trouble.failed_at))
    };
    let wait = Duration::from_secs(2);
    let waiting: Vec<AttemptGuard> = (0..3).map(|_| admitted(&track, now)).collect();
    for mut guard in waiting {
        assert!(guard.record_leave(true, wait, now + wait).is_given_up);
    }
    assert_eq!(failed(), Some((GIVEN_UP, now + wait)));
    // One alone, much later, does not move the target, but nobody has answered it either.
    let later = now + Duration::from_secs(100);
    let left = admitted(&track, later).record_leave(true, wait, later + wait);
    assert!(left.is_given_up && !left.is_moved_back);
    assert_eq!(failed(), Some((GIVEN_UP, later + wait)));
    // Another failure stays what it is.
    track.troubled(Trouble {
        outcome: "status",
        detail: None,
        failed_at: later + wait,
    });
    let latest = later + Duration::from_secs(100);
    assert!(
        admitted(&track, latest)
            .record_leave(true, wait, latest + wait)
            .is_given_up
    );
    assert_eq!(failed(), Some(("status", later + wait)));
}
