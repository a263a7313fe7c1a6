use super::*;
use proptest::prelude::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const NOW: u64 = 1_795_000_000_000;

fn scope(level: Level) -> Arc<Scope> {
    Arc::new(Scope::new(level, level.name().into()))
}

fn scopes() -> [Arc<Scope>; 3] {
    [Level::Caller, Level::Key, Level::KeyModel].map(scope)
}

fn bounds<'a>(limits: &'a [Limits; 3], scopes: &'a [Arc<Scope>; 3]) -> Bounds<'a> {
    limits
        .iter()
        .zip(scopes)
        .filter(|(limits, _)| !limits.is_none())
        .map(|(limits, scope)| Bound { limits, scope })
        .collect()
}

fn one_of(kind: Kind) -> Limits {
    Limits::default().with(kind, Some(1))
}

const ONE: Ask = Ask::exact(1, Usd(1));

#[test]
fn of_two_hundred_threads_one_passes_a_limit() {
    for kind in Kind::ALL {
        for level in 0..3 {
            let mut limits = [Limits::default().with(Kind::RequestsPerDay, Some(1_000)); 3];
            limits[level] = one_of(kind);
            let scopes = scopes();
            let bounds = bounds(&limits, &scopes);
            let (start, end, passed) = (Barrier::new(200), Barrier::new(200), AtomicUsize::new(0));
            std::thread::scope(|threads| {
                for _ in 0..200 {
                    threads.spawn(|| {
                        start.wait();
                        let admitted = take_reservation(&bounds, ONE, NOW, 1);
                        if admitted.is_ok() {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                        // Places are held until everybody has asked.
                        end.wait();
                    });
                }
            });
            assert_eq!(passed.into_inner(), 1, "{}", kind.name());
            for scope in &scopes {
                let counts = scope.own_counts(NOW);
                assert_eq!(
                    (
                        counts.places,
                        counts.day.requests,
                        counts.day.tokens,
                        counts.day.usd
                    ),
                    (0, 1, 0, Usd(0))
                );
            }
        }
    }
}

#[test]
fn a_look_for_room_takes_nothing() {
    for kind in Kind::ALL {
        let (limits, scopes) = (
            [one_of(kind), Limits::default(), Limits::default()],
            scopes(),
        );
        let bounds = bounds(&limits, &scopes);
        assert_eq!(
            [has_room(&bounds, NOW), has_room(&bounds, NOW)],
            [Ok(()), Ok(())],
            "{}",
            kind.name()
        );
        let reservation = take_reservation(&bounds, ONE, NOW, 1).expect("room");
        let refused = has_room(&bounds, NOW).expect_err("nothing is left");
        assert_eq!((refused.over.kind, refused.level), (kind, Level::Caller));
        reservation.undo();
        assert_eq!(has_room(&bounds, NOW), Ok(()));
    }
}

#[test]
fn threads_over_shared_callers_never_block_or_lose() {
    let callers: Vec<Arc<Scope>> = (0..2).map(|_| scope(Level::Caller)).collect();
    let keys: Vec<Arc<Scope>> = (0..4).map(|_| scope(Level::Key)).collect();
    let models: Vec<Arc<Scope>> = (0..4).map(|_| scope(Level::KeyModel)).collect();
    let limits = Limits::default()
        .with(Kind::Concurrency, Some(3))
        .with(Kind::TokensPerDay, Some(40_000));
    let spent = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for thread in 0..8usize {
            let (callers, keys, models, limits, spent) =
                (&callers, &keys, &models, &limits, &spent);
            threads.spawn(move || {
                for turn in 0..2_000usize {
                    let key = (thread + turn) % 4;
                    // In an order that nobody should rely on.
                    let scopes = [&models[key], &callers[key % 2], &keys[key]];
                    let bounds: Bounds<'_> = scopes
                        .into_iter()
                        .map(|scope| Bound { limits, scope })
                        .collect();
                    let Ok(reservation) = take_reservation(&bounds, Ask::exact(9, Usd(0)), NOW, 1)
                    else {
                        continue;
                    };
                    match turn % 3 {
                        0 => drop(reservation),
                        more => {
                            spent.fetch_add(more, Ordering::Relaxed);
                            reservation.settle(
                                Spent {
                                    tokens: more as u64,
                                    usd: Usd(1),
                                },
                                NOW,
                            );
                        }
                    }
                }
            });
        }
    });
    for level in [&callers, &keys, &models] {
        let tokens: u64 = level
            .iter()
            .map(|scope| scope.own_counts(NOW).day.tokens)
            .sum();
        assert_eq!(
            (
                tokens,
                level
                    .iter()
                    .map(|scope| scope.own_counts(NOW).places)
                    .sum::<u64>()
            ),
            (spent.load(Ordering::Relaxed) as u64, 0)
        );
    }
    assert!(spent.into_inner() > 0);
}

#[test]
fn a_reservation_is_settled_once_or_released() {
    let limits = [Limits::default()
        .with(Kind::TokensPerDay, Some(100))
        .with(Kind::UsdPerDay, Some(100))
        .with(Kind::Concurrency, Some(2)); 3];
    let scopes = scopes();
    let bounds = bounds(&limits, &scopes);
    let ask = Ask::exact(60, Usd(50));
    let one = take_reservation(&bounds, ask, NOW, 1).unwrap();
    assert_eq!(
        (
            one.admitted_at,
            one.ask,
            one.scopes().map(|scope| scope.level).collect::<Vec<_>>()
        ),
        (
            NOW,
            ask,
            [Level::Caller, Level::Key, Level::KeyModel].to_vec()
        )
    );
    let refused = take_reservation(&bounds, ask, NOW, 1).unwrap_err();
    assert_eq!(
        (refused.level, refused.over.kind, refused.over.used),
        (Level::Caller, Kind::TokensPerDay, 60)
    );
    one.settle(
        Spent {
            tokens: 7,
            usd: Usd(3),
        },
        NOW,
    );
    drop(take_reservation(&bounds, ask, NOW, 1).unwrap());
    let unchecked = take_granted(
        &bounds,
        Ask::exact(1_000, Usd(0)),
        NOW,
        LimitsLeft::default(),
        &[],
    );
    assert_eq!(scopes[2].own_counts(NOW).day.tokens, 1_007);
    unchecked.settle(
        Spent {
            tokens: 200,
            usd: Usd(0),
        },
        NOW,
    );
    for scope in &scopes {
        let counts = scope.own_counts(NOW);
        assert_eq!(
            (
                counts.day.tokens,
                counts.day.usd,
                counts.month_usd,
                counts.places,
                counts.day.requests
            ),
            (207, Usd(3), Usd(3), 0, 3)
        );
    }
    assert!(
        take_reservation(&Bounds::default(), ask, NOW, 1)
            .unwrap()
            .scopes()
            .next()
            .is_none()
    );
}

#[test]
fn an_end_after_midnight_counts_for_its_beginning() {
    let limits = [Limits::default()
        .with(Kind::TokensPerDay, Some(100))
        .with(Kind::UsdPerMonth, Some(100)); 3];
    let scopes = scopes();
    let bounds = bounds(&limits, &scopes);
    let midnight = (NOW / 86_400_000 + 1) * 86_400_000;
    let ask = Ask::exact(60, Usd(50));
    let before = take_reservation(&bounds, ask, midnight - 1, 1).unwrap();
    let after = take_reservation(&bounds, ask, midnight, 1).unwrap();
    before.settle(
        Spent {
            tokens: 20,
            usd: Usd(20),
        },
        midnight,
    );
    after.settle(
        Spent {
            tokens: 30,
            usd: Usd(30),
        },
        midnight,
    );
    let counts = scopes[0].own_counts(midnight);
    assert_eq!(
        (counts.day.tokens, counts.day.usd, counts.month_usd),
        (30, Usd(30), Usd(50))
    );
}

#[test]
fn overuse_holds_back_those_after_its_end() {
    let limits = [Limits::default().with(Kind::TokensPerMinute, Some(100)); 3];
    let scopes = scopes();
    let bounds = bounds(&limits, &scopes);
    let (long, short) = (
        take_reservation(&bounds, Ask::exact(40, Usd(0)), NOW, 1).unwrap(),
        Ask::exact(20, Usd(0)),
    );
    // The stream runs on for longer than the minute in which it began.
    let end = NOW + 90_000;
    long.settle(
        Spent {
            tokens: 130,
            usd: Usd(0),
        },
        end,
    );
    let refused = take_reservation(&bounds, short, end, 1).unwrap_err();
    assert_eq!(
        (refused.over.kind, refused.over.used),
        (Kind::TokensPerMinute, 90)
    );
    let wait = u64::try_from(refused.over.wait.unwrap().as_millis()).unwrap();
    assert!((59_000..=60_000).contains(&wait), "{wait}");
    let counts = scopes[0].own_counts(end);
    assert_eq!(
        (counts.day.tokens, counts.day.requests, counts.places),
        (130, 1, 0)
    );
    let later = take_reservation(&bounds, short, end + wait, 1).unwrap();
    later.settle(
        Spent {
            tokens: 20,
            usd: Usd(0),
        },
        end + wait,
    );
    assert_eq!(
        scopes[0]
            .own_counts(end + wait)
            .minute
            .iter()
            .map(|(_, used)| used.tokens)
            .sum::<u64>(),
        20
    );
}

#[test]
fn the_tightest_of_all_levels_is_told_of() {
    let limits = [
        Limits::default()
            .with(Kind::RequestsPerMinute, Some(10))
            .with(Kind::TokensPerDay, Some(1_000)),
        Limits::default().with(Kind::RequestsPerDay, Some(3)),
        Limits::default()
            .with(Kind::TokensPerMinute, Some(1_000))
            .with(Kind::UsdPerDay, Some(5)),
    ];
    let scopes = scopes();
    let bounds = bounds(&limits, &scopes);
    let midnight = (NOW / 86_400_000 + 1) * 86_400_000;
    let left = take_reservation(&bounds, Ask::exact(400, Usd(5)), NOW + 250, 1).unwrap();
    let day = Duration::from_millis(midnight - NOW - 250);
    let requests = Room {
        limit: 3,
        remaining: 2,
        reset: day,
    };
    let tokens = Room {
        limit: 1_000,
        remaining: 600,
        reset: day,
    };
    assert_eq!(
        left.limits_left,
        LimitsLeft {
            requests: Some(requests),
            tokens: Some(tokens)
        }
    );
    // The money is gone until tomorrow; but so many tokens are never there within a minute.
    for (tokens, level, kind, wait) in [
        (600, Level::KeyModel, Kind::UsdPerDay, Some(day)),
        (1_001, Level::Caller, Kind::TokensPerDay, None),
    ] {
        let refused =
            take_reservation(&bounds, Ask::exact(tokens, Usd(1)), NOW + 250, 1).unwrap_err();
        assert_eq!(
            (
                refused.level,
                &*refused.name,
                refused.over.kind,
                refused.over.wait
            ),
            (level, level.name(), kind, wait)
        );
        assert_eq!(refused.limits_left, left.limits_left);
    }
    // A third of each, and two requests are more than one.
    let refused = take_reservation(&bounds, Ask::exact(0, Usd(0)), NOW + 250, 3).unwrap_err();
    assert_eq!(
        (refused.over.limit, refused.over.kind),
        (1, Kind::RequestsPerDay)
    );
}

#[test]
fn one_keys_clock_ahead_takes_nothing_from_another() {
    let limits = [
        Limits::default().with(Kind::RequestsPerDay, Some(100)),
        Limits::default().with(Kind::RequestsPerMinute, Some(1)),
    ];
    let caller = scope(Level::Caller);
    let keys = [scope(Level::Key), scope(Level::Key)];
    let bounds = |key: usize| -> Bounds<'_> {
        [
            Bound {
                limits: &limits[0],
                scope: &caller,
            },
            Bound {
                limits: &limits[1],
                scope: &keys[key],
            },
        ]
        .into_iter()
        .collect()
    };
    take_reservation(&bounds(0), ONE, NOW, 1)
        .unwrap()
        .settle(Spent::default(), NOW);
    take_reservation(&bounds(1), ONE, NOW + 3_600_000, 1)
        .unwrap()
        .settle(Spent::default(), NOW + 3_600_000);
    assert!(
        take_reservation(&bounds(0), ONE, NOW + 1_000, 1).is_err(),
        "its minute is not over"
    );
    assert!(
        take_reservation(&bounds(1), ONE, NOW + 2_000, 1).is_err(),
        "nor is that of the other, which began with the right time"
    );
    assert!(take_reservation(&bounds(0), ONE, NOW + 60_000, 1).is_ok());
    assert!(take_reservation(&bounds(1), ONE, NOW + 61_999, 1).is_err());
    assert!(take_reservation(&bounds(1), ONE, NOW + 62_000, 1).is_ok());
}

proptest! {
    /// Who comes back when a limit by the minute says so is let in, if nobody else asked; and it
    /// says at most a minute, in its head and in its text.
    #[test]
    fn who_comes_back_after_retry_after_is_let_in(
        most in (1u64..9, 1u64..60),
        steps in prop::collection::vec((0u64..20_000, 0u64..40, any::<bool>()), 1..60),
    ) {
        let limits = Limits::default().with(Kind::RequestsPerMinute, Some(most.0)).with(Kind::TokensPerMinute, Some(most.1));
        let scope = scope(Level::Key);
        let mut now = NOW + 137;
        for (wait, tokens, estimated) in steps {
            now += wait;
            let ask = Ask { sure: if estimated { Spent::default() } else { Spent { tokens, usd: Usd(0) } }, ..Ask::exact(tokens, Usd(0)) };
            let bounds: Bounds<'_> = [Bound { limits: &limits, scope: &scope }].into_iter().collect();
            let Err(refused) = take_reservation(&bounds, ask, now, 1) else { continue };
            let refusal = refused.refusal();
            prop_assert_eq!(refusal.retry.seconds().is_none(), refused.over.wait.is_none());
            let Some(seconds) = refusal.retry.seconds() else { continue };
            prop_assert!((1..=60).contains(&seconds) && matches!(refusal.retry, crate::error::Retry::Helps(_)));
            let told = if seconds == 60 { "Try again in 1m0s".to_owned() } else { format!("Try again in {seconds}s") };
            prop_assert!(refusal.message.contains(&told), "{} {}", seconds, refusal.message);
            now += seconds * 1_000;
            prop_assert!(take_reservation(&bounds, ask, now, 1).is_ok(), "{seconds} s were not enough");
        }
    }

    #[test]
    fn a_refusal_takes_nothing_anywhere(
        most in prop::array::uniform3((prop::option::of(1u64..9), prop::option::of(1u64..60), prop::option::of(1u64..9), prop::option::of(1u64..60))),
        steps in prop::collection::vec((0u64..30_000, 0u64..20, 0u64..20, any::<bool>()), 1..60),
    ) {
        let limits = most.map(|(requests, tokens, concurrency, usd)| Limits::default().with(Kind::RequestsPerMinute, requests).with(Kind::TokensPerMinute, tokens).with(Kind::Concurrency, concurrency).with(Kind::UsdPerDay, usd));
        let scopes = scopes();
        let bounds = bounds(&limits, &scopes);
        bounds.iter().for_each(|bound| bound.scope.tally().watch(bound.limits));
        let mut open = Vec::new();
        let mut now = NOW;
        let tallies = |now: u64| scopes.each_ref().map(|scope| {
            let mut tally = scope.tally().clone();
            tally.advance(now);
            tally
        });
        for (wait, tokens, usd, settle) in steps {
            now += wait;
            let before = tallies(now);
            let ask = Ask::exact(tokens, Usd(usd));
            let each = bounds.iter().map(|bound| (bound.scope.level, before[bound.scope.level as usize].exceeded_limit(bound.limits, 1, ask, now)));
            let over: Vec<_> = each.filter_map(|(level, over)| Some((level, over?))).collect();
            match take_reservation(&bounds, ask, now, 1) {
                Ok(reservation) => {
                    prop_assert!(over.is_empty());
                    open.push(reservation);
                }
                Err(refused) => {
                    prop_assert!(over.contains(&(refused.level, refused.over)));
                    prop_assert!(over.iter().all(|(_, over)| refused.over.worse(*over) == refused.over));
                    prop_assert_eq!(before, tallies(now));
                }
            }
            if settle && !open.is_empty() {
                open.swap_remove(0).settle(Spent { tokens: tokens / 2, usd: Usd(usd / 2) }, now);
            }
        }
        open.clear();
        prop_assert!(scopes.iter().all(|scope| scope.own_counts(now).places == 0));
    }
}

#[test]
fn unknown_costs_are_told_beside_the_months_sums() {
    // The first of a month, and the last day before.
    let (now, before) = (20_758 * DAY, 20_757 * DAY);
    let scope = Arc::new(Scope::new(Level::Caller, "acme".into()));
    for (at, requests) in [
        (before, 3),
        (now, 2),
        (before, 4),
        (now, 0),
        (now + 29 * DAY, 1),
    ] {
        scope.lacks(at, requests);
    }
    let told = |limits: Limits, now| {
        super::scope_report(
            &Bound {
                limits: &limits,
                scope: &scope,
            },
            &scope.own_counts(now),
            now,
        )["unpriced_requests"]
            .as_u64()
    };
    let money = Limits::default().with(Kind::UsdPerMonth, Some(5));
    assert_eq!(told(money, now), Some(3));
    assert_eq!(told(money, now + 31 * DAY), None, "another month");
    assert_eq!(
        told(Limits::default().with(Kind::RequestsPerDay, Some(5)), now),
        None,
        "no sum of money"
    );
}
