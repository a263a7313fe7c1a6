use super::*;
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const BAD: Outcome = Outcome::Failed(Class::Transient);

/// A script: `+` a good call, `-` a bad one, `c` the caller's fault, `n` a neutral one, each at
/// once; `a` a good one and `b` a bad one where nobody else is left; `d` and `e` the same two,
/// never settled; a number waits so many seconds. What it says at the end is the breaker's state,
/// and what the last call was told.
#[track_caller]
fn check(script: &str, state: &str, told: &str) {
    let mut now = Instant::now();
    let mut breaker = Breaker::default();
    let mut last = "";
    for word in script.split_whitespace() {
        if let Ok(seconds) = word.parse::<f64>() {
            now += Duration::from_secs_f64(seconds);
            continue;
        }
        for letter in word.chars() {
            let pass = match breaker.admit(now, matches!(letter, 'a' | 'b' | 'e')) {
                Admission::Allow(pass) => {
                    last = "yes";
                    pass
                }
                Admission::AllowProbe(pass) => {
                    last = "probe";
                    pass
                }
                Admission::RefuseUntil(until) => {
                    assert!(until > now);
                    last = "no";
                    continue;
                }
            };
            let outcome = match letter {
                '+' | 'a' => Outcome::Ok,
                '-' | 'b' => BAD,
                'c' => Outcome::Failed(Class::Caller),
                'r' => Outcome::Failed(Class::Rate),
                'n' => Outcome::Neutral,
                'd' | 'e' => continue,
                other => panic!("no letter {other}"),
            };
            breaker.settle(pass, outcome, now, Jitter::NONE);
        }
    }
    assert_eq!((breaker.state(now).name(), last), (state, told), "{script}");
}

#[test]
fn scripts() {
    // In a row.
    check("----", "closed", "yes");
    check("-----", "open", "yes");
    check("----+----", "closed", "yes");
    check("----c-", "open", "yes");
    check("---- 3600 -", "open", "yes");
    check("cccccccccccccccccccccccccccccccccccccccc", "closed", "yes");
    check("rrrrrrrrrr", "closed", "yes");
    check("nnnnnnnnnn", "closed", "yes");
    // By share: 20 calls at least, half of them bad.
    check("+-+-+-+-+-+-+-+-+-+", "closed", "yes");
    check("+-+-+-+-+-+-+-+-+-+-", "open", "yes");
    check("++-+-+-+-+-+-+-+-+-+", "closed", "yes");
    check("++-++-++-++-++-++-++-++-++-++-++-++-", "closed", "yes");
    check("+-+-+-+-+- 31 +-+-+-+-+-", "closed", "yes");
    check("+-+-+-+-+- 20 +-+-+-+-+-", "open", "yes");
    // The cool-down and its probe.
    check("----- +", "open", "no");
    check("----- 4.9 +", "open", "no");
    check("----- 5", "half_open", "yes");
    check("----- 5 +", "closed", "probe");
    check("----- 5 + ----", "closed", "yes");
    check("----- 5 -", "open", "probe");
    check("----- 5 - 9.9 +", "open", "no");
    check("----- 5 - 10 +", "closed", "probe");
    check("----- 5 - 10 - 19.9 +", "open", "no");
    check("----- 5 - 10 - 20 - 40 - 59.9 +", "open", "no");
    check("----- 5 - 10 - 20 - 40 - 60 - 60 - 60 +", "closed", "probe");
    check("----- 5 - 10 + ----- 5 +", "closed", "probe");
    // What says nothing gives the probe's place back.
    check("----- 5 n", "half_open", "probe");
    check("----- 5 n c r n +", "closed", "probe");
    // One that is dropped and never settled lapses.
    check("----- 5 d +", "half_open", "no");
    check("----- 5 d 9.9 +", "half_open", "no");
    check("----- 5 d 10 +", "closed", "probe");
    check("----- 5 d 10 -", "open", "probe");
    // Alone, and all of it is broken: a probe a second.
    check("----- a", "open", "no");
    check("----- 0.9 a", "open", "no");
    check("----- 1 a", "closed", "probe");
    check("----- 1 b 0.9 a", "open", "no");
    check("----- 1 b 1 b 1 b 1 a", "closed", "probe");
    check("----- 1 e 0.9 a", "half_open", "no");
    check("----- 1 e 1 a", "closed", "probe");
    check("----- 1 e 1 +", "half_open", "no");
    // Those early ones leave the cool-down as long as it was.
    check("----- 1 b 1 b 1 b 5 +", "closed", "probe");
    check("----- 5 - 1 b 1 b 9.9 +", "open", "no");
    check("----- 5 - 1 b 1 b 10 +", "closed", "probe");
    // Alone, and a part of it is: always, and that does not close it; nor does it hold back the
    // probe, or let those through who are not alone.
    check("+-+-+-+-+-+-+-+-+-+- a", "open", "yes");
    check("+-+-+-+-+-+-+-+-+-+- aaaaaaaaaa +", "open", "no");
    check("+-+-+-+-+-+-+-+-+-+- babbabbbabbbba", "open", "yes");
    check("+-+-+-+-+-+-+-+-+-+- 4.9 b", "open", "yes");
    check("+-+-+-+-+-+-+-+-+-+- bbbb 5 a", "closed", "probe");
    check("+-+-+-+-+-+-+-+-+-+- bbbb 5 d b", "half_open", "yes");
    check("+-+-+-+-+-+-+-+-+-+- bbbb 5 d a 10 +", "closed", "probe");
    // Nor is it all broken when the probe fails, which it may well.
    check("+-+-+-+-+-+-+-+-+-+- 5 - a", "open", "yes");
    check("+-+-+-+-+-+-+-+-+-+- 5 - 9.9 a +", "open", "no");
    check("+-+-+-+-+-+-+-+-+-+- 5 - 10 +", "closed", "probe");
    // But it is when so many in a row fail, the probe among them.
    check("+-+-+-+-+-+-+-+-+-+- bbbbb a", "open", "no");
    check("+-+-+-+-+-+-+-+-+-+- bbbbb 1 a", "closed", "probe");
    check("+-+-+-+-+-+-+-+-+-+- bbbb 5 - a", "open", "no");
    check("+-+-+-+-+-+-+-+----- a", "open", "no");
}

#[test]
fn closing_does_not_forget_how_much_is_asked() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    let mut settle = |outcome: Outcome, now: Instant| {
        let pass = pass(breaker.admit(now, false));
        breaker.settle(pass, outcome, now, Jitter::NONE)
    };
    for n in 0..2000 {
        settle(Outcome::Ok, start + Duration::from_millis(n * 5));
    }
    let mut now = start + Duration::from_secs(10);
    let opens = (1..).find(|_| settle(BAD, now).is_some());
    assert_eq!(opens, Some(40), "a fiftieth of the calls");
    now += Duration::from_secs(5);
    assert_eq!(settle(Outcome::Ok, now), Some(BreakerState::Closed));
    let opens = (1..).find(|_| settle(BAD, now).is_some());
    assert_eq!(
        opens,
        Some(20),
        "of so many calls a share is taken; five in a row are still chance"
    );
    now += Duration::from_secs(60);
    assert_eq!(settle(Outcome::Ok, now), Some(BreakerState::Closed));
    let opens = (1..).find(|_| settle(BAD, now).is_some());
    assert_eq!(opens, Some(5), "that was long ago");
}

#[test]
fn sound_is_what_it_is_now() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    let settle = |breaker: &mut Breaker, outcome: Outcome, seconds: u64| {
        let now = start + Duration::from_secs(seconds);
        let pass = pass(breaker.admit(now, false));
        breaker.settle(pass, outcome, now, Jitter::NONE);
        breaker.is_sound(now)
    };
    assert!(breaker.is_sound(start), "nothing is known against it");
    assert!(settle(&mut breaker, Outcome::Ok, 0));
    assert!(!settle(&mut breaker, BAD, 0), "its last call failed");
    for n in 3..6 {
        assert!(!settle(&mut breaker, Outcome::Ok, 0), "one of {n} failed");
    }
    assert!(settle(&mut breaker, Outcome::Ok, 0), "one of six may");
    assert!(!settle(&mut breaker, BAD, 1) && !settle(&mut breaker, Outcome::Ok, 1));
    assert!(
        settle(&mut breaker, Outcome::Ok, 7),
        "what was a while ago is over"
    );
    assert!(
        !settle(&mut breaker, BAD, 8) && !breaker.is_sound(start + Duration::from_secs(60)),
        "its last call failed, however long ago"
    );
}

#[test]
fn calls_are_those_that_it_looks_back_on() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    assert_eq!(breaker.calls(start), CallCounts { all: 0, failed: 0 });
    for outcome in [
        Outcome::Ok,
        BAD,
        Outcome::Neutral,
        Outcome::Failed(Class::Rate),
        Outcome::Ok,
    ] {
        let pass = pass(breaker.admit(start, false));
        breaker.settle(pass, outcome, start, Jitter::NONE);
    }
    assert_eq!(breaker.calls(start), CallCounts { all: 3, failed: 1 });
    assert_eq!(
        breaker.calls(start + Duration::from_secs(31)),
        CallCounts { all: 0, failed: 0 }
    );
    assert_eq!(
        tripped(start).calls(start),
        CallCounts { all: 0, failed: 0 }
    );
}

#[test]
fn last_resorts_settle_nothing_later() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    for n in 0..20 {
        let pass = pass(breaker.admit(start, false));
        breaker.settle(
            pass,
            if n % 2 == 0 { Outcome::Ok } else { BAD },
            start,
            Jitter::NONE,
        );
    }
    let beside: Vec<BreakerPass> = (0..10).map(|_| pass(breaker.admit(start, true))).collect();
    let now = start + Duration::from_secs(5);
    let probe = pass(breaker.admit(now, false));
    assert!(probe.is_probe() && !beside.iter().any(|pass| pass.is_probe()));
    let again = pass(breaker.admit(now, true));
    for (pass, outcome) in beside
        .into_iter()
        .chain([again])
        .zip([BAD, Outcome::Ok, Outcome::Neutral].into_iter().cycle())
    {
        assert_eq!(breaker.settle(pass, outcome, now, Jitter::NONE), None);
        assert_eq!(breaker.state(now), BreakerState::HalfOpen { probing: true });
    }
    assert_eq!(
        breaker.settle(probe, Outcome::Ok, now, Jitter::NONE),
        Some(BreakerState::Closed)
    );
}

fn pass(admission: Admission) -> BreakerPass {
    match admission {
        Admission::Allow(pass) | Admission::AllowProbe(pass) => pass,
        Admission::RefuseUntil(_) => panic!("not admitted"),
    }
}

fn tripped(now: Instant) -> Breaker {
    let mut breaker = Breaker::default();
    for _ in 0..5 {
        let pass = pass(breaker.admit(now, false));
        breaker.settle(pass, BAD, now, Jitter::NONE);
    }
    breaker
}

#[test]
fn what_was_admitted_before_it_opened_says_nothing_after() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    let old: Vec<BreakerPass> = (0..100)
        .map(|_| pass(breaker.admit(start, false)))
        .collect();
    for pass in &old[..10] {
        breaker.settle(*pass, BAD, start, Jitter::NONE);
    }
    let later = start + Duration::from_secs(6);
    let probe = pass(breaker.admit(later, false));
    for pass in &old[10..20] {
        assert_eq!(
            breaker.settle(*pass, Outcome::Ok, later, Jitter::NONE),
            None,
            "nor does its success close it"
        );
    }
    assert_eq!(
        breaker.settle(probe, Outcome::Ok, later, Jitter::NONE),
        Some(BreakerState::Closed)
    );
    for pass in &old[20..] {
        assert_eq!(breaker.settle(*pass, BAD, later, Jitter::NONE), None);
    }
    assert_eq!(breaker.state(later), BreakerState::Closed);
}

#[test]
fn a_slow_probe_still_counts() {
    let start = Instant::now();
    let mut breaker = tripped(start);
    let slow = pass(breaker.admit(start + Duration::from_secs(5), false));
    let late = start + Duration::from_secs(70);
    let second = pass(breaker.admit(late, false));
    assert!(slow.is_probe() && second.is_probe());
    breaker.settle(slow, Outcome::Neutral, late, Jitter::NONE);
    assert!(
        matches!(breaker.admit(late, false), Admission::RefuseUntil(_)),
        "the lapsed one's place is not the second one's"
    );
    assert_eq!(
        breaker.settle(slow, Outcome::Ok, late, Jitter::NONE),
        Some(BreakerState::Closed)
    );
    assert_eq!(breaker.settle(second, BAD, late, Jitter::NONE), None);
}

#[test]
fn who_waits_for_a_probe_waits_for_a_second() {
    let start = Instant::now();
    let mut breaker = tripped(start);
    let now = start + Duration::from_secs(5);
    assert!(pass(breaker.admit(now, false)).is_probe());
    assert_eq!(
        breaker.admit(now, false),
        Admission::RefuseUntil(now + SOON)
    );
}

#[test]
fn chance_only_lengthens_a_cool_down() {
    let now = Instant::now();
    let check = |random: f64, milliseconds: u64| {
        let mut breaker = Breaker::default();
        let mut fail = || {
            let pass = pass(breaker.admit(now, false));
            breaker.settle(pass, BAD, now, Jitter(random))
        };
        let before: Vec<_> = (1..IN_A_ROW).map(|_| fail()).collect();
        assert_eq!(before, [None; 4]);
        let opened = fail();
        assert_eq!(
            opened,
            Some(BreakerState::Open(
                now + Duration::from_millis(milliseconds)
            ))
        );
    };
    check(0.0, 5000);
    check(0.5, 5500);
    check(1.0, 6000);
    check(-3.0, 5000);
    check(f64::NAN, 5000);
    check(f64::INFINITY, 5000);
}

#[test]
fn among_many_calls_a_few_failures_are_chance() {
    let start = Instant::now();
    let mut breaker = Breaker::default();
    let mut settle = |outcome: Outcome, now: Instant| {
        let pass = pass(breaker.admit(now, false));
        breaker.settle(pass, outcome, now, Jitter::NONE)
    };
    for n in 0..9000 {
        // After a while two of five fail, eight in a row.
        let bad = n >= 1000 && n % 20 < 8;
        assert_eq!(
            settle(
                if bad { BAD } else { Outcome::Ok },
                start + Duration::from_millis(n * 3)
            ),
            None,
            "call {n}"
        );
    }
    let end = start + Duration::from_secs(27);
    let failed = (1..).find(|_| settle(BAD, end).is_some());
    assert!(
        failed.is_some_and(|failed| (160..200).contains(&failed)),
        "half a second of failures and no answer: {failed:?}"
    );
}

#[test]
fn who_is_alone_waits_for_a_second_only() {
    let start = Instant::now();
    let mut breaker = tripped(start);
    let mut now = start;
    for _ in 0..10 {
        assert_eq!(
            breaker.admit(now, true),
            Admission::RefuseUntil(now + ALONE_PROBE_INTERVAL)
        );
        now += ALONE_PROBE_INTERVAL;
        let probe = pass(breaker.admit(now, true));
        assert!(
            probe.is_probe() && matches!(breaker.admit(now, true), Admission::RefuseUntil(_)),
            "one probe at a time"
        );
        breaker.settle(probe, BAD, now, Jitter(0.9));
    }
    assert_eq!(
        breaker.admit(now, false),
        Admission::RefuseUntil(now + Duration::from_secs(5).mul_f64(1.18)),
        "and who is not alone does not wait longer for it"
    );
    now += ALONE_PROBE_INTERVAL;
    let probe = pass(breaker.admit(now, true));
    assert_eq!(
        breaker.settle(probe, Outcome::Ok, now, Jitter::NONE),
        Some(BreakerState::Closed)
    );
}

#[test]
fn reset_closes_it() {
    let now = Instant::now();
    let mut breaker = tripped(now);
    breaker.reset();
    assert_eq!(breaker.state(now), BreakerState::Closed);
    let pass = pass(breaker.admit(now, false));
    assert!(!pass.is_probe());
    assert_eq!(
        breaker.settle(pass, BAD, now, Jitter::NONE),
        None,
        "the failures before are forgotten"
    );
}

#[test]
fn a_crowd_gets_one_probe() {
    let start = Instant::now();
    let breaker = Mutex::new(tripped(start));
    let probes = AtomicUsize::new(0);
    let now = start + Duration::from_secs(5);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    match breaker.lock().unwrap().admit(now, false) {
                        Admission::Allow(_) => panic!("a half-open breaker admits probes only"),
                        Admission::AllowProbe(_) => drop(probes.fetch_add(1, Ordering::AcqRel)),
                        Admission::RefuseUntil(_) => {}
                    }
                }
            });
        }
    });
    assert_eq!(probes.load(Ordering::Acquire), 1);
}

/// Whether it was let through a breaker that was not closed, and is no probe.
#[derive(Debug, Clone, Copy)]
struct Beside(bool);

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    /// Whether nobody else could be asked.
    Ask(bool),
    /// Settles one of those that are out.
    End(usize, Outcome),
    /// One of those that are out is never settled.
    Lose(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        4 => Just(BAD),
        2 => Just(Outcome::Ok),
        1 => Just(Outcome::Neutral),
        1 => prop::sample::select(vec![Class::Caller, Class::Credential, Class::Refused, Class::Rate, Class::Ours]).prop_map(Outcome::Failed),
    ];
    let step = prop_oneof![
        1 => prop_oneof![0u64..2_000, 0u64..30_000].prop_map(Step::Wait),
        3 => prop::bool::weighted(0.2).prop_map(Step::Ask),
        3 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Step::End(which, outcome)),
        1 => any::<usize>().prop_map(Step::Lose),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    /// Any interleaving of requests that begin, end and get lost, against what must hold.
    #[test]
    fn one_probe_whatever_the_schedule(steps in steps(), random in 0.0..1.0, calls in prop::sample::select(vec![4u32, 20])) {
        // Of four calls half have often failed before five in a row have: it is then broken in
        // part.
        let mut now = Instant::now();
        let mut breaker = Breaker::new(calls);
        let mut out: Vec<(BreakerPass, Beside)> = Vec::new();
        // The probe that holds the place, if one does; what failed in a row, and at all, since it
        // last closed; and, where it is broken in part only, what failed in a row since then.
        let (mut probe, mut in_a_row, mut failed, mut part): (Option<(BreakerPass, Instant)>, u32, u32, Option<u32>) = (None, 0, 0, None);
        for step in steps {
            let before = breaker.state(now);
            match step {
                Step::Wait(milliseconds) => now += Duration::from_millis(milliseconds),
                Step::Ask(alone) => match breaker.admit(now, alone) {
                    Admission::Allow(pass) => {
                        let beside = before != BreakerState::Closed;
                        let free = before == BreakerState::HalfOpen { probing: false };
                        prop_assert!(!beside || alone && part.is_some() && !free);
                        prop_assert!(!pass.is_probe());
                        out.push((pass, Beside(beside)));
                    }
                    Admission::AllowProbe(pass) => {
                        let early = alone && part.is_none() && before != BreakerState::Closed;
                        let patience = if early { ALONE_PROBE_INTERVAL } else { PROBE_TIMEOUT };
                        let free = before == BreakerState::HalfOpen { probing: false };
                        prop_assert!(early || free);
                        prop_assert!(probe.is_none_or(|(_, lent)| now - lent >= patience), "two probes at once");
                        probe = Some((pass, now));
                        out.push((pass, Beside(false)));
                    }
                    Admission::RefuseUntil(until) => {
                        prop_assert!(!before.admits() && until > now);
                        prop_assert!(!(alone && part.is_some()), "some answers are better than none");
                        prop_assert!(until - now <= MAX_COOL_DOWN.mul_f64(1.0 + MAX_JITTER));
                    }
                },
                Step::Lose(which) if !out.is_empty() => drop(out.swap_remove(which % out.len())),
                Step::End(which, outcome) if !out.is_empty() => {
                    let (pass, Beside(beside)) = out.swap_remove(which % out.len());
                    let current = pass.generation == breaker.generation;
                    if current && (beside || pass.is_probe()) {
                        part = match outcome {
                            Outcome::Ok => part.map(|_| 0),
                            BAD => part.map(|in_a_row| in_a_row + 1).filter(|in_a_row| *in_a_row < IN_A_ROW),
                            Outcome::Failed(_) | Outcome::Neutral => part,
                        };
                    }
                    let current = current && !beside;
                    let changed = breaker.settle(pass, outcome, now, Jitter(random));
                    if !current {
                        prop_assert_eq!(changed, None, "of another phase, or beside this one");
                        prop_assert_eq!(breaker.state(now), before);
                        continue;
                    }
                    if changed.is_some() && !pass.is_probe() {
                        part = (in_a_row + 1 < IN_A_ROW).then_some(0);
                    } else if changed == Some(BreakerState::Closed) {
                        part = None;
                    }
                    match outcome {
                        Outcome::Ok => {
                            in_a_row = 0;
                            prop_assert_eq!(breaker.state(now), BreakerState::Closed, "an answer never opens it, and a probe's closes it");
                        }
                        Outcome::Failed(Class::Transient) if pass.is_probe() => {
                            prop_assert!(matches!(changed, Some(BreakerState::Open(_))), "one failed probe is enough");
                        }
                        Outcome::Failed(Class::Transient) => {
                            (in_a_row, failed) = (in_a_row + 1, failed + 1);
                            match changed {
                                Some(state) => prop_assert!(
                                    matches!(state, BreakerState::Open(_)) && (in_a_row >= IN_A_ROW || failed * 2 >= calls)
                                ),
                                None => prop_assert!(in_a_row < IN_A_ROW, "of less than 250 calls"),
                            }
                        }
                        Outcome::Failed(_) | Outcome::Neutral => prop_assert_eq!(changed, None, "it says nothing"),
                    }
                    if changed.is_some() {
                        (probe, in_a_row, failed) = (None, 0, 0);
                    } else if probe.is_some_and(|(held, _)| held == pass) {
                        probe = None;
                    }
                }
                Step::Lose(_) | Step::End(..) => {}
            }
        }
        // Whatever was lost on the way: it does not stay shut.
        now += MAX_COOL_DOWN.mul_f64(1.0 + MAX_JITTER).max(PROBE_TIMEOUT);
        prop_assert!(!matches!(breaker.admit(now, false), Admission::RefuseUntil(_)));
    }
}
