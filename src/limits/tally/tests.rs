use super::*;
use proptest::prelude::*;

impl Tally {
    fn take(&mut self, ask: Ask) -> Counted {
        self.take_at(ask, self.now)
    }
}

/// One that was admitted, with what it counts for now.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: u64,
    /// The second that it is of, as old as it was by the clocks that there were.
    second: i64,
    counts: Spent,
    /// The tokens beyond what was asked for, and the second in which they count.
    beyond: (i64, u64),
    open: Option<(Counted, Ask)>,
}

/// A plain list of all that happened, and the slowest way to count it.
#[derive(Default)]
struct Model {
    now: u64,
    /// Later days and months that count for the present ones too, since the clock was set back.
    days_ahead: Vec<u64>,
    months_ahead: Vec<u64>,
    events: Vec<Event>,
}

impl Model {
    fn used(&self, kind: Kind, counted: impl Fn(&Event) -> bool) -> u64 {
        let events = self.events.iter().filter(|event| counted(event));
        events
            .map(|event| match kind {
                Kind::RequestsPerMinute | Kind::RequestsPerDay => 1,
                Kind::TokensPerMinute | Kind::TokensPerDay => event.counts.tokens,
                Kind::Concurrency => u64::from(event.open.is_some()),
                Kind::UsdPerDay | Kind::UsdPerMonth => event.counts.usd.0,
            })
            .sum()
    }

    fn advance(&mut self, now: u64) {
        let before = self.now;
        let back = now + STEP_BACK < before;
        self.now = if back { now } else { before.max(now) };
        if back {
            let seconds = i64::try_from(before / SECOND - now / SECOND).unwrap();
            for event in &mut self.events {
                event.second -= seconds;
                event.beyond.0 -= seconds;
            }
        }
        let (day, of_month) = (self.now / DAY, month(self.now / DAY));
        let ahead = |is: bool, date: fn(u64) -> u64, now: u64| -> Vec<u64> {
            let dates = self.events.iter().map(|event| date(event.at / DAY));
            if is {
                dates.filter(|date| *date > now).collect()
            } else {
                Vec::new()
            }
        };
        if day != before / DAY {
            self.days_ahead = ahead(back, |day| day, day);
        }
        if of_month != month(before / DAY) {
            self.months_ahead = ahead(back, month, of_month);
        }
    }

    /// What counts against a limit, where a minute has so many milliseconds.
    fn of(&self, kind: Kind, minute: u64) -> u64 {
        let day = self.now / DAY;
        let is_young = |second: i64| {
            (i64::try_from(self.now / SECOND).unwrap() - second) * 1_000
                < i64::try_from(minute).unwrap()
        };
        if kind == Kind::TokensPerMinute {
            let parts = self.events.iter().flat_map(|event| {
                [
                    (event.second, event.counts.tokens - event.beyond.1),
                    event.beyond,
                ]
            });
            return parts
                .filter(|(second, _)| is_young(*second))
                .map(|(_, tokens)| tokens)
                .sum();
        }
        self.used(kind, |event| match kind {
            // It came within that second: so long ago at most, and at least.
            Kind::RequestsPerMinute | Kind::TokensPerMinute => is_young(event.second),
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::UsdPerDay => {
                event.at / DAY == day || self.days_ahead.contains(&(event.at / DAY))
            }
            Kind::UsdPerMonth => {
                month(event.at / DAY) == month(day)
                    || self.months_ahead.contains(&month(event.at / DAY))
            }
            Kind::Concurrency => true,
        })
    }

    /// More dates than a tally remembers.
    fn is_long(&self) -> bool {
        let others = |date: fn(u64) -> u64| {
            let mut dates: Vec<u64> = self
                .events
                .iter()
                .map(|event| date(event.at / DAY))
                .collect();
            dates.retain(|other| *other != date(self.now / DAY));
            dates.sort_unstable();
            dates.dedup();
            dates.len() > 16
        };
        others(|day| day) || others(month)
    }
}

/// The number of a day's month, found by going through all of them.
fn month(mut day: u64) -> u64 {
    for month in 0.. {
        let (year, of_year) = (1970 + month / 12, month % 12);
        let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        let days = [
            31,
            28 + u64::from(leap),
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ][usize::try_from(of_year).unwrap()];
        if day < days {
            return month;
        }
        day -= days;
    }
    unreachable!("months go on")
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    /// The clock is set back.
    Back(u64),
    Admit(Ask),
    Settle(prop::sample::Index, Spent),
}

fn step() -> impl Strategy<Value = Step> {
    let waits =
        prop_oneof![4 => 0u64..1_500, 4 => 0u64..70_000, 1 => 0u64..2 * DAY, 1 => 0u64..40 * DAY];
    let ask = (0u64..40, 0u64..40).prop_map(|(tokens, usd)| Ask::exact(tokens, Usd(usd)));
    // Now and then more than was asked for.
    let spent = (0u64..45, 0u64..45).prop_map(|(tokens, usd)| Spent {
        tokens,
        usd: Usd(usd),
    });
    prop_oneof![
        4 => waits.prop_map(Step::Wait),
        1 => prop_oneof![6 => 0u64..70_000, 1 => 0u64..2 * DAY, 1 => 0u64..40 * DAY].prop_map(Step::Back),
        6 => ask.prop_map(Step::Admit),
        3 => (any::<prop::sample::Index>(), spent).prop_map(|(which, spent)| Step::Settle(which, spent)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |most: u64| prop::option::of(1..most);
    (
        some(12),
        some(30),
        some(100),
        some(300),
        some(6),
        some(300),
        some(600),
    )
        .prop_map(|(a, b, c, d, e, f, g)| {
            Limits::default()
                .with(Kind::RequestsPerMinute, a)
                .with(Kind::RequestsPerDay, b)
                .with(Kind::TokensPerMinute, c)
                .with(Kind::TokensPerDay, d)
                .with(Kind::Concurrency, e)
                .with(Kind::UsdPerDay, f)
                .with(Kind::UsdPerMonth, g)
        })
}

/// Just before something changes: 2024-02-29, 2100-03-01 (no leap year), 2000-03-01, 2027-01-01,
/// 2026-12-01, the middle of a day.
const STARTS: [u64; 6] = [
    1_709_164_790_000,
    4_107_542_390_500,
    951_868_799_999,
    1_798_761_540_000,
    1_796_083_199_000,
    1_795_000_000_123,
];

proptest! {
    #[test]
    fn it_counts_as_a_list_would(
        start in prop::sample::select(&STARTS[..]),
        limits in limits(),
        share in 1u64..4,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut tally = Tally::default();
        tally.watch(&limits);
        let mut model = Model::default();
        let mut clock = start;
        for step in steps {
            match step {
                Step::Wait(ms) => clock += ms,
                Step::Back(ms) => clock -= ms,
                Step::Admit(ask) => {
                    model.advance(clock);
                    tally.advance(clock);
                    let over = tally.exceeded_limit(&limits, share, ask, clock);
                    let too_much = || Kind::ALL.into_iter().find(|kind| {
                        let asked = kind.asked_amount(ask);
 asked > 0 && kind.limit(&limits, share).is_some_and(|limit| model.of(*kind, 60_000) + asked > limit)
                    });
                    match over {
                        None => {
                            prop_assert_eq!(too_much(), None, "more than the limit within sixty whole seconds");
                            let entry = tally.take(ask);
                            let counts = Spent { tokens: ask.tokens, usd: ask.usd };
                            model.events.push(Event { at: model.now, second: i64::try_from(model.now / SECOND).unwrap(), counts, beyond: (0, 0), open: Some((entry, ask)) });
                        }
                        Some(over) => {
                            prop_assert!(too_much().is_some(), "there was room: {:?}", over);
                            prop_assert_eq!(Some(over.limit), over.kind.limit(&limits, share));
                            prop_assert!(over.used + over.asked > over.limit && over.asked == over.kind.asked_amount(ask));
                            prop_assert_eq!(over.wait.is_none(), over.asked > over.limit);
                            let room_after = |wait: u64| {
                                let mut later = tally.clone();
                                later.advance(clock + wait);
                                later.exceeded_limit(&limits, share, ask, clock + wait).is_none()
                            };
                            let concurrent = Kind::Concurrency.limit(&limits, share).is_some_and(|limit| model.of(Kind::Concurrency, 0) >= limit);
                            // The next day has perhaps been there already.
                            let by_minute = matches!(over.kind, Kind::RequestsPerMinute | Kind::TokensPerMinute);
                            let is_plain = model.events.iter().all(|event| event.at <= model.now) && model.now == clock;
                            if let Some(wait) = over.wait.filter(|_| !concurrent && is_plain) {
                                let wait = u64::try_from(wait.as_millis()).unwrap();
                                prop_assert!(!by_minute || wait <= 60_000, "{over:?}");
                                prop_assert!(room_after(wait) && !room_after(wait - 1), "waits are exact: {over:?}");
                            }
                        }
                    }
                }
                Step::Settle(which, spent) => {
                    let mut open: Vec<&mut Event> = model.events.iter_mut().filter(|event| event.open.is_some()).collect();
                    if !open.is_empty() {
                        let event = which.get_mut::<&mut Event>(&mut open);
                        let (entry, ask) = event.open.take().unwrap();
                        event.counts = spent;
                        let second = i64::try_from(model.now / SECOND).unwrap();
                        event.beyond = (second, spent.tokens.saturating_sub(ask.tokens));
                        tally.settle(entry, ask, spent);
                    }
                }
            }
            if model.is_long() {
                return Ok(());
            }
            let left = tally.limits_left(&limits, share, clock);
            for (kinds, told) in [
                ([Kind::RequestsPerMinute, Kind::RequestsPerDay], left.requests),
                ([Kind::TokensPerMinute, Kind::TokensPerDay], left.tokens),
            ] {
                let expected = kinds.into_iter().filter_map(|kind| {
                    kind.limit(&limits, share).map(|limit| limit.saturating_sub(model.of(kind, 60_000)))
                });
                prop_assert_eq!(told.map(|room| room.remaining), expected.min());
            }
            let mut all = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::RequestsPerMinute | Kind::TokensPerMinute));
            prop_assert!(all.all(|kind| tally.used_amount(kind) == u128::from(model.of(kind, 0))));
        }

        if model.events.iter().any(|event| event.at > model.now || event.second != i64::try_from(event.at / SECOND).unwrap()) {
            return Ok(());
        }
        // What comes after a restart: the last minute one by one, what was before it by the day, in
        // any order.
        for event in &mut model.events {
            if let Some((entry, ask)) = event.open.take() {
                tally.settle(entry, ask, event.counts);
            }
        }
        let mut rebuilt = Tally::default();
        rebuilt.watch(&limits);
        let youngest = model.now.saturating_sub(61 * SECOND);
        for event in model.events.iter().rev().filter(|event| event.at > youngest) {
            rebuilt.recall(event.at, None, Used::new(1, event.counts.tokens, event.counts.usd));
        }
        let older: Vec<&Event> = model.events.iter().filter(|event| event.at <= youngest).collect();
        for day in older.chunk_by(|a, b| a.at / DAY == b.at / DAY) {
            let sum = day.iter().fold(Spent::default(), |sum, event| Spent {
                tokens: sum.tokens + event.counts.tokens,
                usd: Usd(sum.usd.0 + event.counts.usd.0),
            });
            let used = Used::new(u64::try_from(day.len()).unwrap(), sum.tokens, sum.usd);
            rebuilt.recall(day[0].at / DAY * DAY, None, used);
        }
        rebuilt.advance(model.now);
        let counts = |tally: &Tally| {
            let counts = tally.counts();
            // After a restart, nobody knows which tokens were beyond what was asked for.
            let has_beyond = model.events.iter().any(|event| event.beyond.1 > 0);
            Counts { minute: if has_beyond { Vec::new() } else { counts.minute }, ..counts }
        };
        prop_assert_eq!(counts(&rebuilt), counts(&tally));
    }

    #[test]
    fn months_are_those_of_the_calendar(day in 0u64..200_000) {
        let Month { first, next } = Month::containing(day);
        prop_assert!(first <= day && day < next);
        prop_assert!(month(first) == month(day) && month(next) == month(day) + 1 && month(next - 1) == month(day));
        prop_assert!(first == 0 || month(first - 1) + 1 == month(day));
    }

    /// Numbers of any size: nothing wraps, and what is refunded is what was taken.
    #[test]
    fn numbers_without_end(
        limits in (any::<u64>(), any::<u64>(), any::<u64>()),
        asks in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..20),
        now in any::<u64>(),
        share in any::<u64>(),
    ) {
        let limits = Limits::default().with(Kind::TokensPerDay, Some(limits.0)).with(Kind::UsdPerMonth, Some(limits.1)).with(Kind::TokensPerMinute, Some(limits.2));
        let mut tally = Tally::default();
        tally.watch(&limits);
        tally.advance(now);
        let mut taken = Vec::new();
        for (tokens, usd, spent) in asks {
            let ask = Ask::exact(tokens, Usd(usd));
            let before = tally.used_amount(Kind::TokensPerMinute);
            if tally.exceeded_limit(&limits, share, ask, now).is_none() {
                taken.push((tally.take(ask), ask, spent));
                prop_assert_eq!(tally.used_amount(Kind::TokensPerMinute), before + u128::from(tokens));
            } else {
                // As somebody does who has limits on other things only.
                let entry = tally.take(ask);
                tally.settle(entry, ask, Spent::default());
            }
            tally.limits_left(&limits, share, 0);
        }
        prop_assert_eq!(tally.used_amount(Kind::TokensPerDay), taken.iter().map(|(_, ask, _)| u128::from(ask.tokens)).sum::<u128>());
        for (entry, ask, spent) in &taken {
            tally.settle(*entry, *ask, Spent { tokens: *spent, usd: Usd(*spent) });
        }
        prop_assert_eq!(tally.used_amount(Kind::UsdPerMonth), taken.iter().map(|(_, _, spent)| u128::from(*spent)).sum::<u128>());
        prop_assert_eq!((tally.used_amount(Kind::Concurrency), tally.used_amount(Kind::UsdPerMonth)), (0, tally.used_amount(Kind::UsdPerDay)));
        tally.advance(u64::MAX);
    }
}

#[test]
fn the_longest_wait_is_told_and_endless_ones_first() {
    let all = Limits::default()
        .with(Kind::RequestsPerMinute, Some(1))
        .with(Kind::RequestsPerDay, Some(1))
        .with(Kind::TokensPerMinute, Some(10))
        .with(Kind::Concurrency, Some(1))
        .with(Kind::UsdPerMonth, Some(5));
    let now = 1_798_761_541_000; // 59 seconds before 2027.
    let mut tally = Tally::default();
    tally.advance(now);
    tally.watch(&all);
    tally.take(Ask::exact(4, Usd(5)));
    let check = |limits: Limits, tokens: u64, kind: Kind, wait: Option<u64>| {
        let over = tally
            .exceeded_limit(&limits, 1, Ask::exact(tokens, Usd(1)), now)
            .unwrap();
        assert_eq!(
            (over.kind, over.wait),
            (kind, wait.map(Duration::from_secs))
        );
    };
    check(all, 6, Kind::RequestsPerMinute, Some(60));
    check(
        all.with(Kind::RequestsPerMinute, None),
        6,
        Kind::RequestsPerDay,
        Some(59),
    );
    check(
        all.with(Kind::RequestsPerMinute, None)
            .with(Kind::RequestsPerDay, None),
        6,
        Kind::UsdPerMonth,
        Some(59),
    );
    check(
        all.with(Kind::RequestsPerMinute, None),
        7,
        Kind::TokensPerMinute,
        Some(60),
    );
    check(all, 11, Kind::TokensPerMinute, None);
    check(
        Limits::default().with(Kind::Concurrency, Some(1)),
        11,
        Kind::Concurrency,
        Some(1),
    );
}

/// A limit that only an estimate exceeds is no wall: it lets one in when nothing else is counted.
#[test]
fn estimates_above_a_limit_wait_for_zero() {
    let limits = Limits::default()
        .with(Kind::TokensPerMinute, Some(100))
        .with(Kind::UsdPerDay, Some(50));
    let ask = |tokens: u64, sure: u64| Ask {
        tokens,
        usd: Usd(tokens),
        sure: Spent {
            tokens: sure,
            usd: Usd(sure),
        },
    };
    let now = 1_795_046_400_000; // Midnight.
    let mut tally = Tally::default();
    tally.advance(now);
    tally.watch(&limits);
    let over = |tally: &Tally, ask: Ask| {
        tally.exceeded_limit(&limits, 1, ask, now).map(|over| {
            (
                over.kind,
                over.wait.map(|wait| wait.as_secs()),
                over.estimated,
            )
        })
    };
    assert_eq!(over(&tally, ask(1_000, 50)), None);
    assert_eq!(
        over(&tally, ask(1_000, 51)),
        Some((Kind::UsdPerDay, None, false)),
        "it asks for too much itself"
    );
    assert_eq!(
        over(&tally, ask(1_000, 101)),
        Some((Kind::TokensPerMinute, None, false))
    );
    let entry = tally.take(ask(1_000, 50));
    let midnight = Some((Kind::UsdPerDay, Some(86_400), true));
    assert_eq!(
        over(&tally, ask(1_000, 50)),
        midnight,
        "and not two at once"
    );
    assert_eq!(
        over(&tally, ask(1, 1)).map(|(kind, ..)| kind),
        Some(Kind::UsdPerDay),
        "nor others beside it"
    );
    tally.settle(
        entry,
        ask(1_000, 50),
        Spent {
            tokens: 1,
            usd: Usd(1),
        },
    );
    assert_eq!(
        over(&tally, ask(49, 49)),
        None,
        "what it used in truth is what counts"
    );
    assert_eq!(over(&tally, ask(1_000, 50)), midnight);
    let none = Limits::default().with(Kind::TokensPerDay, Some(0));
    assert_eq!(
        Tally::default()
            .exceeded_limit(&none, 1, ask(1, 0), now)
            .map(|over| over.wait),
        Some(None),
        "nothing is allowed, and nothing passes"
    );
}

#[test]
fn without_a_minutes_limit_no_ring_is_kept() {
    let mut tally = Tally::default();
    let ask = Ask::exact(5, Usd(0));
    let by_minute = Limits::default()
        .with(Kind::TokensPerMinute, Some(8))
        .with(Kind::RequestsPerMinute, Some(9));
    tally.advance(1_000_000);
    tally.watch(&Limits::default().with(Kind::TokensPerDay, Some(100)));
    let before = tally.take(ask);
    assert!(tally.minute.is_none());
    tally.watch(&by_minute);
    let after = tally.take(ask);
    // It was never counted there, so nothing is taken out of what others have.
    tally.settle(
        before,
        ask,
        Spent {
            tokens: 7,
            usd: Usd(0),
        },
    );
    let counts = tally.counts();
    assert_eq!(
        (counts.minute, counts.day.tokens),
        (vec![(1_000, Used::new(1, 5, Usd(0)))], 12)
    );
    tally.settle(
        after,
        ask,
        Spent {
            tokens: 6,
            usd: Usd(0),
        },
    );
    assert_eq!(
        (tally.counts().minute, tally.counts().day.tokens),
        (vec![(1_000, Used::new(1, 6, Usd(0)))], 13)
    );
}

#[test]
fn a_clock_that_was_ahead_locks_nobody_out() {
    const HOUR: u64 = 3_600_000;
    let now = 1_795_046_400_000; // Midnight.
    let ask = Ask::exact(5, Usd(5));
    let all = Limits::default()
        .with(Kind::RequestsPerMinute, Some(2))
        .with(Kind::TokensPerMinute, Some(10))
        .with(Kind::RequestsPerDay, Some(2))
        .with(Kind::UsdPerMonth, Some(10));
    let by_minute = all
        .with(Kind::RequestsPerDay, None)
        .with(Kind::UsdPerMonth, None);
    let by_day = all
        .with(Kind::RequestsPerMinute, None)
        .with(Kind::TokensPerMinute, None);
    for ahead in [STEP_BACK + 6_000, HOUR, DAY, 365 * DAY] {
        let mut tally = Tally::default();
        tally.watch(&all);
        tally.advance(now + ahead);
        let (first, second) = (tally.take(ask), tally.take(ask));
        // A little later the clock is right.
        let now = now + 5_000;
        let waits = |tally: &mut Tally, limits: &Limits, now: u64| {
            tally.advance(now);
            tally
                .exceeded_limit(limits, 1, ask, now)
                .map(|over| over.wait.unwrap())
        };
        assert_eq!(
            waits(&mut tally, &by_minute, now),
            Some(Duration::from_secs(60)),
            "{ahead}"
        );
        let midnight = Duration::from_millis((now / DAY + 1) * DAY - now);
        assert_eq!(
            waits(&mut tally, &by_day.with(Kind::UsdPerMonth, None), now),
            Some(midnight),
            "{ahead}"
        );
        assert!(
            waits(&mut tally, &by_day, now)
                .is_some_and(|wait| wait <= Duration::from_millis(30 * DAY)),
            "{ahead}"
        );
        // What was reserved before is settled where it is counted now.
        tally.settle(
            first,
            ask,
            Spent {
                tokens: 1,
                usd: Usd(2),
            },
        );
        tally.undo(second, ask);
        let counts = tally.counts();
        assert_eq!(
            (counts.minute, counts.places),
            (vec![(now / SECOND, Used::new(1, 1, Usd(0)))], 0),
            "{ahead}"
        );
        assert_eq!(
            (
                counts.day.requests,
                counts.day.tokens,
                counts.day.usd,
                counts.month_usd
            ),
            (1, 1, Usd(2), Usd(2)),
            "{ahead}"
        );
        assert_eq!(waits(&mut tally, &by_minute, now + 60_000), None);
        // Nobody is locked out for longer than the day, unless that day is the one of which it was.
        tally.advance(now + DAY);
        assert_eq!(
            (tally.counts().day.requests, tally.counts().month_usd),
            (u64::from(ahead == DAY), Usd(2)),
            "{ahead}"
        );
    }
}

#[test]
fn a_clock_set_back_takes_out_nothing_uncounted() {
    let now = 1_795_046_400_000;
    let limits = Limits::default().with(Kind::TokensPerMinute, Some(100));
    let ask = Ask::exact(5, Usd(5));
    let mut tally = Tally::default();
    tally.watch(&limits);
    tally.advance(now);
    let before = tally.take(ask);
    tally.advance(now + 40 * DAY);
    let ahead = tally.take(ask);
    tally.advance(now);
    tally.settle(
        before,
        ask,
        Spent {
            tokens: 9,
            usd: Usd(9),
        },
    );
    let sums = |tally: &Tally| {
        [Kind::TokensPerMinute, Kind::TokensPerDay, Kind::UsdPerMonth]
            .map(|kind| tally.used_amount(kind))
    };
    assert_eq!(
        sums(&tally),
        [9, 14, 14],
        "its minute is over but for what was beyond, its day is this one again"
    );
    // Twice: each is settled where it is counted.
    tally.advance(now - DAY);
    assert_eq!(sums(&tally), [9, 14, 14]);
    tally.settle(ahead, ask, Spent::default());
    assert_eq!((sums(&tally), tally.counts().places), ([4, 9, 9], 0));
}

/// Twenty of twenty on one day; the clock goes back a day, and comes right.
#[test]
fn a_clock_set_back_gives_no_fresh_budget() {
    let noon = 1_795_046_400_000 + DAY / 2;
    let limits = Limits::default()
        .with(Kind::RequestsPerDay, Some(20))
        .with(Kind::UsdPerMonth, Some(1_000));
    let one = Ask::exact(1, Usd(1));
    // By the day, as the ledger has it.
    let mut ledger = std::collections::BTreeMap::<u64, u64>::new();
    let mut tally = Tally::default();
    let mut ask = |tally: &mut Tally, now: u64, times: usize| {
        let admitted = (0..times).filter(|_| {
            tally.advance(now);
            let room = tally.exceeded_limit(&limits, 1, one, now).is_none();
            if room {
                let entry = tally.take(one);
                tally.settle(
                    entry,
                    one,
                    Spent {
                        tokens: 1,
                        usd: Usd(1),
                    },
                );
                *ledger.entry(now / DAY).or_default() += 1;
            }
            room
        });
        let admitted = admitted.count();
        let of_day = ledger.get(&(now / DAY)).copied().unwrap_or_default();
        (admitted, tally.counts().day.requests, of_day)
    };
    assert_eq!(ask(&mut tally, noon - DAY, 5), (5, 5, 5));
    assert_eq!(ask(&mut tally, noon, 12), (12, 12, 12));
    assert_eq!(
        ask(&mut tally, noon - DAY + 1_000, 40),
        (3, 20, 8),
        "what was used on both dates counts"
    );
    assert_eq!(
        ask(&mut tally, noon + 2_000, 40),
        (8, 20, 20),
        "the date's sum is its own again"
    );
    assert_eq!(ask(&mut tally, noon - 40 * DAY, 40), (0, 28, 0));
    assert_eq!(ask(&mut tally, noon + 3_000, 40), (0, 20, 20));
    assert_eq!(
        ask(&mut tally, noon + DAY, 40),
        (20, 20, 20),
        "and a new day is a new one"
    );
    assert_eq!(tally.counts().month_usd, Usd(48));
}

#[test]
fn a_share_is_never_nothing_unless_the_limit_is() {
    for (limit, share, expected) in [
        (10, 3, 3),
        (2, 3, 1),
        (1, 9, 1),
        (0, 3, 0),
        (7, 0, 7),
        (7, 1, 7),
    ] {
        let limits = Limits::default()
            .with(Kind::Concurrency, Some(limit))
            .with(Kind::UsdPerDay, Some(limit));
        assert_eq!(Kind::Concurrency.limit(&limits, share), Some(expected));
        assert_eq!(Kind::UsdPerDay.limit(&limits, share), Some(expected));
    }
}

/// Returns whether a limit of the day is nearly full for another ask of this amount.
fn is_nearly_full(kind: Kind, limit: u64, used: u64, asked: u64) -> bool {
    let counts = Counts {
        day: Used::new(1, used, Usd(0)),
        ..Counts::default()
    };
    let limits = Limits::default().with(kind, Some(limit));
    Tally::from_counts(&counts).is_nearly_full(&limits, Ask::exact(asked, Usd(0)))
}

#[test]
fn a_limit_is_nearly_full_before_it_is_full() {
    // A sixteenth is left, or less.
    assert!(!is_nearly_full(Kind::TokensPerDay, 160, 149, 1));
    assert!(is_nearly_full(Kind::TokensPerDay, 160, 150, 1));
    // Another such ask has room, or not.
    assert!(!is_nearly_full(Kind::TokensPerDay, 160, 80, 40));
    assert!(is_nearly_full(Kind::TokensPerDay, 160, 81, 40));
    assert!(!is_nearly_full(Kind::RequestsPerDay, 1, 0, 1));
    assert!(is_nearly_full(Kind::Concurrency, 1_000, 0, 1));
}
