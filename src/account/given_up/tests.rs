use super::*;
use crate::account::latency::ENOUGH;

/// A target, and a clock in milliseconds.
struct Watched {
    target: GivenUp,
    start: Instant,
    now: u64,
}

const MAIN: u64 = 1;
const OTHER: u64 = 2;

impl Watched {
    fn new() -> Watched {
        Watched {
            target: GivenUp::default(),
            start: Instant::now(),
            now: 0,
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Lets the target give enough answers to know its usual time.
    fn usually(mut self, ms: u64) -> Watched {
        for _ in 0..ENOUGH {
            self.now += ms;
            self.target.record_request(MAIN, 0, self.at(self.now));
            self.target
                .record_answer(true, Duration::from_millis(ms), self.at(self.now));
        }
        self
    }

    /// A caller who began so long ago leaves.
    fn leave(&mut self, key: u64, waited: u64, awaited: usize) -> Consequence {
        let leave = Leave {
            key,
            stream: true,
            began: self.at(self.now.saturating_sub(waited)),
        };
        self.target.record_request(key, awaited, leave.began);
        let now = self.at(self.now);
        self.target
            .record_leave(leave, TargetLoad { awaited, calls: 0 }, now)
    }

    fn is_behind(&self) -> bool {
        self.target.behind(self.at(self.now)).is_some()
    }
}

#[test]
fn leaving_counts_after_thrice_the_slowest_usual_answers() {
    for (usual, waited, counts) in [
        (400, 1_000, false),
        (400, 1_450, true),
        (50, 999, false),
        (50, 1_001, true),
        (20_000, 40_000, false),
    ] {
        let mut watched = Watched::new().usually(usual);
        watched.now += 100_000;
        assert_eq!(
            watched.leave(MAIN, waited, 0).is_given_up,
            counts,
            "usually {usual} ms, left after {waited} ms"
        );
    }
}

#[test]
fn times_of_whole_answers_say_nothing_of_streams() {
    let mut watched = Watched::new();
    for _ in 0..ENOUGH {
        watched
            .target
            .record_answer(false, Duration::from_secs(20), watched.at(0));
    }
    watched.now = 60_000;
    assert!(
        watched.leave(MAIN, 2_000, 0).is_given_up,
        "of streams, nothing is known"
    );
    let leave = Leave {
        key: MAIN,
        stream: false,
        began: watched.at(58_000),
    };
    let told = watched.target.record_leave(
        leave,
        TargetLoad {
            awaited: 0,
            calls: 0,
        },
        watched.at(60_000),
    );
    assert_eq!(told, Consequence::default(), "whole answers take long");
}

#[test]
fn without_a_usual_time_any_answer_shows_life() {
    let mut watched = Watched::new();
    watched.now = 10_000;
    watched
        .target
        .record_answer(true, Duration::from_secs(3), watched.at(9_000));
    assert_eq!(watched.leave(MAIN, 2_000, 0), Consequence::default());
    assert!(!watched.leave(OTHER, 999, 0).is_given_up, "too soon");
    watched.now = 11_500;
    assert!(watched.leave(OTHER, 2_000, 0).is_given_up);
}

#[test]
fn three_leaves_in_half_a_minute_demote_targets() {
    let mut watched = Watched::new().usually(400);
    watched.now += 60_000;
    assert!(
        !watched.leave(MAIN, 2_000, 0).stands_behind
            && !watched.leave(MAIN, 2_000, 0).stands_behind
    );
    assert!(!watched.is_behind());
    let third = watched.leave(MAIN, 2_000, 0);
    assert!(third.stands_behind && third.is_moved_back && !third.opens_breaker);
    let fourth = watched.leave(MAIN, 2_000, 0);
    assert!(
        fourth.stands_behind && !fourth.is_moved_back,
        "it is told once"
    );
    watched.now += 9_999;
    assert!(watched.is_behind());
    watched.now += 1;
    assert!(!watched.is_behind());
    // Those of before are forgotten after half a minute.
    watched.now += 30_000;
    assert!(!watched.leave(MAIN, 2_000, 0).stands_behind);
}

#[test]
fn of_many_calls_a_fiftieth_must_be_abandoned() {
    let mut watched = Watched::new().usually(400);
    let now = watched.at(watched.now + 60_000);
    let began = watched.at(watched.now + 58_000);
    let around = TargetLoad {
        awaited: 9,
        calls: 1_000,
    };
    let mut leave = |key| {
        watched
            .target
            .record_leave(
                Leave {
                    key,
                    stream: true,
                    began,
                },
                around,
                now,
            )
            .stands_behind
    };
    assert!((0..19).all(|key| !leave(key)));
    assert!(leave(20));
}

#[test]
fn one_person_cancelling_again_is_one_caller() {
    let mut watched = Watched::new();
    for nth in 0..5 {
        watched.now += 2_500;
        let told = watched.leave(MAIN, 2_000, 0);
        assert_eq!(
            (told.is_given_up, told.stands_behind, told.opens_breaker),
            (nth == 0, false, false),
            "{nth}"
        );
    }
    // A program that tries again goes on.
    watched.now += 2_500;
    let told = watched.leave(MAIN, 2_000, 0);
    assert!(told.is_given_up && told.stands_behind && told.opens_breaker);
}

#[test]
fn one_impatient_caller_beside_patient_ones_moves_nothing() {
    let mut watched = Watched::new();
    for nth in 0..20 {
        watched.now += 1_500;
        let told = watched.leave(MAIN, 1_400, 5);
        assert!(
            !told.stands_behind && !told.opens_breaker,
            "{nth}: {told:?}"
        );
    }
}

#[test]
fn many_who_leave_are_many_with_one_key() {
    let mut watched = Watched::new();
    watched.now = 2_000;
    let told: Vec<_> = (0..5)
        .map(|nth| watched.leave(MAIN, 2_000, 29 - nth))
        .collect();
    assert_eq!(
        told.iter()
            .map(|told| told.stands_behind)
            .collect::<Vec<_>>(),
        [false, false, true, true, true]
    );
    assert_eq!(
        told.iter()
            .map(|told| told.opens_breaker)
            .collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    // They come back, and leave again.
    watched.now = 4_000;
    assert!((0..5).all(|nth| watched.leave(MAIN, 1_900, 29 - nth).stands_behind));
}

#[test]
fn one_keys_leaving_opens_no_breaker_among_others() {
    let mut watched = Watched::new().usually(400);
    watched.now += 60_000;
    watched
        .target
        .record_request(OTHER, 1, watched.at(watched.now - 5_000));
    for _ in 0..9 {
        assert!(!watched.leave(MAIN, 2_000, 1).opens_breaker);
    }
    assert!(
        watched.leave(OTHER, 2_000, 1).opens_breaker,
        "two keys give it up"
    );
}

#[test]
fn leaves_open_no_breaker_while_anybody_gets_an_answer() {
    let mut watched = Watched::new().usually(400);
    watched.now += 20_000;
    assert!((0..9).all(|_| !watched.leave(MAIN, 2_000, 0).opens_breaker));
    watched.now += 10_000;
    assert!(
        watched.leave(MAIN, 2_000, 0).opens_breaker,
        "for half a minute nobody did"
    );
}

#[test]
fn what_is_forgotten_does_not_stand_behind() {
    let mut watched = Watched::new().usually(400);
    watched.now += 60_000;
    assert!((0..3).all(|_| watched.leave(MAIN, 2_000, 0).is_given_up));
    let usual = watched.target.usual_time(watched.at(watched.now)).unwrap();
    assert!((0.35..0.45).contains(&usual.as_secs_f64()), "{usual:?}");
    assert!(watched.is_behind());
    watched.target.forget();
    assert!(!watched.is_behind());
    watched.target.recall(Some(watched.at(watched.now + 5)));
    assert!(watched.is_behind());
}

#[test]
fn after_an_unanswered_hour_only_news_is_known() {
    let mut watched = Watched::new().usually(400);
    watched.now += 3_600_000;
    assert!((0..3).all(|_| watched.leave(MAIN, 2_000, 0).is_given_up) && watched.is_behind());
    watched.target.sweep(watched.at(watched.now));
    assert!(
        watched.target.usual_times[1].is_none(),
        "the usual time is forgotten"
    );
    assert!(watched.is_behind(), "and callers have just left");
    watched.now += 1_000;
    assert!(
        watched.leave(MAIN, 2_000, 0).stands_behind,
        "they count with the next one"
    );
    // What is not used any more takes no memory.
    watched.now += 3_599_999;
    watched.target.sweep(watched.at(watched.now));
    assert!(watched.target.leaves.is_some());
    watched.now += 1;
    watched.target.sweep(watched.at(watched.now));
    assert!(watched.target.leaves.is_none());
}

#[test]
fn silence_lasts_from_the_last_answer_while_requests_wait() {
    let second = 1_000;
    let mut watched = Watched::new();
    watched.target.record_request(MAIN, 0, watched.at(0));
    assert_eq!(watched.target.silence(watched.at(14 * second)), None);
    let silence = |target: &mut GivenUp, now| target.silence(now).map(|time| time.as_secs());
    let (at_15, at_20, at_40) = (watched.at(15_000), watched.at(20_000), watched.at(40_000));
    assert_eq!(silence(&mut watched.target, at_15), Some(15));
    // Another request changes nothing, and an answer to either ends it.
    watched.target.record_request(OTHER, 1, at_15);
    assert_eq!(silence(&mut watched.target, at_20), Some(20));
    watched
        .target
        .record_answer(false, Duration::from_secs(20), at_20);
    assert_eq!(silence(&mut watched.target, at_20), None);
    assert_eq!(silence(&mut watched.target, at_40), Some(20));
}

#[test]
fn a_slow_target_is_silent_later() {
    let mut watched = Watched::new().usually(10_000);
    watched
        .target
        .record_request(MAIN, 0, watched.at(watched.now));
    let after = |watched: &Watched, seconds: u64| watched.at(watched.now + seconds * 1_000);
    let (early, late) = (after(&watched, 20), after(&watched, 60));
    assert_eq!(watched.target.silence(early), None);
    assert!(watched.target.silence(late).is_some());
}
