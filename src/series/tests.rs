use super::*;
use proptest::prelude::*;

/// One thing that a series is told, some milliseconds after the one before.
#[derive(Debug, Clone)]
struct Told {
    after_ms: u64,
    sums: Sums,
    first_ms: Option<u64>,
    sample: Option<(usize, usize)>,
}

prop_compose! {
    fn told()(
        after_ms in prop_oneof![3 => 0..2_000_u64, 1 => 0..400_000_u64],
        (blame, shed, unpriced) in (0..4_u8, 0..2_u32, 0..2_u32),
        (output_tokens, nano_usd, writing_ms) in (0..9_u64, prop_oneof![0..9_u64, Just(u64::MAX)], 0..9_u64),
        first_ms in prop::option::of(0..100_000_u64),
        sample in prop::option::of((0..5_usize, 0..5_usize)),
    ) -> Told {
        let mut sums =
            Sums { requests: 1, shed, unpriced, output_tokens, nano_usd, writing_ms, ..Sums::default() };
        match blame {
            0 => sums.count_failure(Blame::Caller),
            1 => sums.count_failure(Blame::Upstream),
            2 => sums.count_failure(Blame::Ours),
            _ => {}
        }
        Told { after_ms, sums, first_ms, sample }
    }
}

proptest! {
    /// What a series says is what a list of everything sums up to.
    #[test]
    fn a_series_is_a_list(
        all in prop::collection::vec(told(), 0..60), later_ms in 0..400_000_u64, seconds in 1..400_u64, swept in any::<bool>(),
    ) {
        // Far from the first step of the process.
        let mut now = Instant::now() + Duration::from_secs(1_000);
        let series = Series::default();
        let mut list = Vec::new();
        for one in &all {
            now += Duration::from_millis(one.after_ms);
            match one.sample {
                Some((runs, waits)) => series.sample(runs, waits, now),
                None => series.add(&one.sums, one.first_ms.map(Duration::from_millis), StepMoment::from_instant(now)),
            }
            list.push((StepMoment::from_instant(now).step, one));
        }
        now += Duration::from_millis(later_ms);
        if swept {
            series.sweep(now);
        }
        let step = StepMoment::from_instant(now).step;
        let sum_of = |steps: u64| {
            let mut sum = Sums::default();
            let recent = list.iter().filter(|(at, one)| at + steps > step && one.sample.is_none());
            recent.for_each(|(_, one)| sum.add(&one.sums));
            sum
        };
        let steps = seconds.div_ceil(5).min(STEPS as u64);
        prop_assert_eq!(series.recent_sums(Duration::from_secs(seconds.min(300)), now), sum_of(steps));
        let summed = Series::summed_time(Duration::from_secs(60), now);
        prop_assert!((55..60).contains(&summed.as_secs()));
        prop_assert_eq!(StepMoment::from_instant(now - summed).step + 11, step);
        let buckets = series.buckets(STEPS, now);
        prop_assert_eq!(buckets.len(), STEPS);
        for (age, bucket) in buckets.iter().rev().enumerate() {
            let of_step = list.iter().filter(|(at, _)| at + age as u64 == step);
            let mut expected = Bucket::default();
            for (_, one) in of_step {
                match one.sample {
                    Some((runs, waits)) => {
                        expected.in_flight = expected.in_flight.max(u32::try_from(runs).unwrap());
                        expected.waiting = expected.waiting.max(u32::try_from(waits).unwrap());
                    }
                    None => {
                        expected.sums.add(&one.sums);
                        one.first_ms.iter().for_each(|ms| expected.first_tokens.record(Duration::from_millis(*ms)));
                    }
                }
            }
            prop_assert_eq!(bucket, &expected);
        }
        let mut times: Vec<u64> = list
            .iter()
            .filter(|(at, one)| at + STEPS as u64 > step && one.sample.is_none())
            .filter_map(|(_, one)| one.first_ms)
            .collect();
        times.sort_unstable();
        let told = series.first_token_quantiles(now);
        prop_assert_eq!(told.is_some(), !times.is_empty());
        for (time, q) in told.into_iter().flatten().zip([0.5, 0.99]) {
            let rank = (1..times.len()).find(|rank| *rank as f64 >= q * times.len() as f64).unwrap_or(times.len());
            let (exact, time) = (times[rank - 1].max(1) as f64, time.as_secs_f64() * 1e3);
            prop_assert!(time >= exact / 1.13 && time <= exact * 1.13, "{} for {}", time, exact);
        }
        prop_assert!(series.0.lock().buckets.len() <= STEPS);
    }
}

#[test]
fn only_an_answer_ends_failures_in_a_row() {
    let series = Series::default();
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    let failed = |blame| {
        let mut sums = one;
        sums.count_failure(blame);
        sums
    };
    let left = Sums { left: 1, ..one };
    for (sums, in_a_row, has_answered) in [
        (left, 0, false),
        (failed(Blame::Upstream), 1, false),
        (failed(Blame::Caller), 1, false),
        (left, 1, false),
        (failed(Blame::Upstream), 2, false),
        (one, 0, true),
        (failed(Blame::Upstream), 1, true),
    ] {
        series.add(&sums, None, StepMoment::from_instant(Instant::now()));
        assert_eq!(
            (series.faults().in_a_row, series.has_answered()),
            (in_a_row, has_answered),
            "{sums:?}"
        );
    }
}

#[test]
fn a_late_request_counts_in_the_next_kept_step() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    series.add(&one, None, StepMoment::from_instant(now + STEP));
    series.add(&one, None, StepMoment::from_instant(now));
    assert_eq!(series.recent_sums(STEP, now + STEP).requests, 2);
    series.take_back(&one, None, StepMoment::from_instant(now));
    assert_eq!(series.recent_sums(STEP, now + STEP).requests, 1);
}

#[test]
fn a_late_request_leaves_its_own_step() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    let moment = StepMoment::from_instant(now);
    series.add(&one, None, moment);
    series.add(&one, None, StepMoment::from_instant(now + STEP));
    series.add(&one, None, moment);
    assert_eq!(count_requests(&series, now + STEP), [2, 1]);
    series.take_back(&one, None, moment);
    assert_eq!(count_requests(&series, now + STEP), [1, 1]);
}

/// Returns the requests of the last two steps.
fn count_requests(series: &Series, now: Instant) -> [u32; 2] {
    let buckets = series.buckets(2, now);
    [buckets[0].sums.requests, buckets[1].sums.requests]
}

#[test]
fn a_request_leaves_the_step_it_was_added_to() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    let moment = StepMoment::from_instant(now);
    series.add(&one, None, moment);
    series.add(&one, None, StepMoment::from_instant(now + STEP));
    series.take_back(&one, None, moment);
    assert_eq!(count_requests(&series, now + STEP), [0, 1]);
    // Its step is not kept any more.
    let later = now + STEP * 60;
    series.add(&one, None, StepMoment::from_instant(later));
    series.take_back(&one, None, moment);
    assert_eq!(series.recent_sums(STEP, later).requests, 1);
}

#[test]
fn nothing_is_left_of_a_request_taken_back() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let one = Sums {
        requests: 1,
        output_tokens: 7,
        writing_ms: 500,
        ..Sums::default()
    };
    let (second, moment) = (Some(Duration::from_secs(1)), StepMoment::from_instant(now));
    series.add(&one, second, moment);
    series.take_back(&one, second, moment);
    assert_eq!(series.buckets(1, now), [Bucket::default()]);
    // Of two that are alike, one stays.
    series.add(&one, second, moment);
    let alone = series.buckets(1, now);
    series.add(&one, second, moment);
    series.take_back(&one, second, moment);
    assert_eq!(series.buckets(1, now), alone);
}

#[test]
fn a_later_clocks_step_is_shown_with_this() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    let second = Duration::from_secs(1);
    series.sample(3, 0, now);
    series.add(&one, Some(second), StepMoment::from_instant(now));
    series.add(&one, Some(second), StepMoment::from_instant(now + STEP));
    series.sample(1, 2, now + STEP);
    let mut first_tokens = Times::default();
    first_tokens.record(second);
    first_tokens.record(second);
    let both = Bucket {
        sums: Sums {
            requests: 2,
            ..Sums::default()
        },
        in_flight: 3,
        waiting: 2,
        first_tokens,
        ..Bucket::default()
    };
    assert_eq!(series.buckets(1, now), [both]);
}

#[test]
fn what_is_over_takes_no_memory() {
    let (series, now) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    series.add(&Sums::default(), None, StepMoment::from_instant(now));
    series.sweep(now + STEP * 58);
    assert_eq!(series.0.lock().buckets.len(), 1);
    series.sweep(now + STEP * 60);
    assert_eq!(series.0.lock().buckets.capacity(), 0);
}

#[test]
fn a_series_knows_what_followed_the_last_failure() {
    let (series, start) = (
        Series::default(),
        Instant::now() + Duration::from_secs(1_000),
    );
    let moment = |second: u64| StepMoment::from_instant(start + Duration::from_secs(second));
    let add = |blame: Option<Blame>, second: u64| {
        let mut sums = Sums {
            requests: 1,
            ..Sums::default()
        };
        blame.iter().for_each(|blame| sums.count_failure(*blame));
        series.add(&sums, None, moment(second));
    };
    let one = Sums {
        requests: 1,
        ..Sums::default()
    };
    let take_back = |second: u64| series.take_back(&one, None, moment(second));
    let at = |second: u64| Some(moment(second).since_start_ms());
    add(None, 0);
    assert_eq!(series.faults(), FaultCounts::default());
    add(Some(Blame::Upstream), 1);
    add(Some(Blame::Upstream), 2);
    let failed = FaultCount {
        total: 2,
        last_failed_at: at(2),
        ..FaultCount::default()
    };
    assert_eq!(
        series.faults(),
        FaultCounts {
            by_upstream: failed,
            in_a_row: 2,
            ..FaultCounts::default()
        }
    );
    add(Some(Blame::Caller), 3);
    add(None, 4);
    add(None, 5);
    let good = FaultCount {
        requests_since: 3,
        successes_since: 2,
        good_since: at(4),
        ..failed
    };
    let of_caller = FaultCount {
        total: 1,
        last_failed_at: at(3),
        requests_since: 2,
        successes_since: 2,
        good_since: at(4),
    };
    assert_eq!(
        series.faults(),
        FaultCounts {
            by_upstream: good,
            by_caller: of_caller,
            ..FaultCounts::default()
        }
    );
    take_back(5);
    take_back(4);
    // Before the last failure: it does not count since then.
    take_back(1);
    let none = FaultCount {
        requests_since: 1,
        successes_since: 0,
        good_since: None,
        ..good
    };
    assert_eq!(series.faults().by_upstream, none);
    // It is remembered for longer than the steps are.
    series.sweep(start + Duration::from_secs(1_000));
    assert_eq!(series.faults().by_upstream, none);
}

#[test]
fn answers_without_a_price_stay_for_five_minutes() {
    let first = Instant::now() + Duration::from_secs(1_000);
    let in_step = u64::try_from(time_into_step(first).as_millis()).expect("a few seconds");
    // The catalog is live 1 s after a step began, and the answer comes in the same step.
    let loaded = first + Duration::from_millis(6_000 - in_step);
    let after = |seconds| loaded + Duration::from_secs(seconds);
    let series = Series::default();
    let unpriced = Sums {
        requests: 1,
        unpriced: 1,
        ..Sums::default()
    };
    series.add(&unpriced, None, StepMoment::from_instant(after(2)));
    let minutes = Duration::from_secs(300);
    for second in 2..299 {
        let counted = series.recent_unpriced(loaded, minutes, after(second));
        assert_eq!(counted, 1, "after {second} s");
    }
    assert_eq!(series.recent_unpriced(loaded, minutes, after(300)), 0);
    // A catalog that came after the answer may have the price.
    assert_eq!(series.recent_unpriced(after(3), minutes, after(4)), 0);
}

#[test]
fn sums_keep_the_shortest_and_the_longest_wait() {
    let mut sums = Sums::default();
    for wait_ms in [7, 5, 60] {
        sums.add(&Sums {
            given_up_waits: Some(WaitRange::from_one(wait_ms)),
            ..Sums::default()
        });
    }
    sums.add(&Sums::default());
    let range = WaitRange {
        shortest_ms: 5,
        longest_ms: 60,
    };
    assert_eq!(sums.given_up_waits, Some(range));
}
