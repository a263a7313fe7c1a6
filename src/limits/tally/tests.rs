use super::*;
use proptest::prelude::*;

/// One that was admitted, with what it counts for now.
#[derive(Debug, Clone, Copy)]
struct Event {
    /// For the minute, for the day and for the month.
    at: [u64; 3],
    counts: Spent,
    open: Option<(Entry, Ask)>,
    /// How often time had been set back.
    set_back: usize,
}

/// A plain list of all that happened, and the slowest way to count it.
#[derive(Default)]
struct Model {
    now: u64,
    set_back: usize,
    events: Vec<Event>,
}

impl Model {
    fn used(&self, kind: Kind, counted: impl Fn(u64) -> bool) -> u64 {
        let window = match kind {
            Kind::RequestsPerMinute | Kind::TokensPerMinute => 0,
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::Concurrency | Kind::UsdPerDay => 1,
            Kind::UsdPerMonth => 2,
        };
        let events = self.events.iter().filter(|event| counted(event.at[window]));
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
        if before <= now + STEP_BACK {
            self.now = before.max(now);
            return;
        }
        (self.now, self.set_back) = (now, self.set_back + 1);
        for [of_minute, of_day, of_month] in self.events.iter_mut().map(|event| &mut event.at) {
            let moved = |counted: bool| if counted { now } else { 0 };
            *of_minute = moved(*of_minute / SECOND + 60 >= before / SECOND);
            *of_day = moved(*of_day / DAY == before / DAY);
            *of_month = moved(month(*of_month / DAY) == month(before / DAY));
        }
    }

    /// What counts against a limit, where a minute has so many milliseconds.
    fn of(&self, kind: Kind, minute: u64) -> u64 {
        let day = self.now / DAY;
        self.used(kind, |at| match kind {
            Kind::RequestsPerMinute | Kind::TokensPerMinute => self.now - at < minute,
            Kind::RequestsPerDay | Kind::TokensPerDay | Kind::UsdPerDay => at / DAY == day,
            Kind::UsdPerMonth => month(at / DAY) == month(day),
            Kind::Concurrency => true,
        })
    }
}

/// The number of a day's month, found by going through all of them.
fn month(mut day: u64) -> u64 {
    for month in 0.. {
        let (year, of_year) = (1970 + month / 12, month % 12);
        let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
        let days = [31, 28 + u64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][usize::try_from(of_year).unwrap()];
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
    let waits = prop_oneof![4 => 0u64..1_500, 4 => 0u64..70_000, 1 => 0u64..2 * DAY, 1 => 0u64..40 * DAY];
    let ask = (0u64..40, 0u64..40).prop_map(|(tokens, usd)| Ask { tokens, usd: Usd(usd) });
    // Now and then more than was asked for.
    let spent = (0u64..45, 0u64..45).prop_map(|(tokens, usd)| Spent { tokens, usd: Usd(usd) });
    prop_oneof![
        4 => waits.prop_map(Step::Wait),
        1 => prop_oneof![6 => 0u64..70_000, 1 => 0u64..2 * DAY, 1 => 0u64..40 * DAY].prop_map(Step::Back),
        6 => ask.prop_map(Step::Admit),
        3 => (any::<prop::sample::Index>(), spent).prop_map(|(which, spent)| Step::Settle(which, spent)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |most: u64| prop::option::of(1..most);
    (some(12), some(30), some(100), some(300), some(6), some(300), some(600)).prop_map(|(a, b, c, d, e, f, g)| Limits {
        requests_per_minute: a,
        requests_per_day: b,
        tokens_per_minute: c,
        tokens_per_day: d,
        concurrency: e,
        usd_per_day: f.map(Usd),
        usd_per_month: g.map(Usd),
    })
}

/// Just before something changes: 2024-02-29, 2100-03-01 (no leap year), 2000-03-01, 2027-01-01, 2026-12-01, the middle of a day.
const STARTS: [u64; 6] = [1_709_164_790_000, 4_107_542_390_500, 951_868_799_999, 1_798_761_540_000, 1_796_083_199_000, 1_795_000_000_123];

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
                    let over = tally.over(&limits, share, ask, clock);
                    let too_much = |minute: u64| Kind::ALL.into_iter().find(|kind| {
                        let asked = kind.asked(ask);
 asked > 0 && kind.limit(&limits, share).is_some_and(|limit| model.of(*kind, minute) + asked > limit)
                    });
                    match over {
                        None => {
                            prop_assert_eq!(too_much(60_001), None, "more than the limit within sixty seconds");
                            let entry = tally.take(ask);
                            let counts = Spent { tokens: ask.tokens, usd: ask.usd };
                            model.events.push(Event { at: [model.now; 3], counts, open: Some((entry, ask)), set_back: model.set_back });
                        }
                        Some(over) => {
                            prop_assert!(too_much(61_000).is_some(), "there was room: {:?}", over);
                            prop_assert_eq!(Some(over.limit), over.kind.limit(&limits, share));
                            prop_assert!(over.used + over.asked > over.limit && over.asked == over.kind.asked(ask));
                            prop_assert_eq!(over.wait.is_none(), over.asked > over.limit);
                            let room_after = |wait: u64| {
                                let mut later = tally.clone();
                                later.advance(clock + wait);
                                later.over(&limits, share, ask, clock + wait).is_none()
                            };
                            let concurrent = Kind::Concurrency.limit(&limits, share).is_some_and(|limit| model.of(Kind::Concurrency, 0) >= limit);
                            if let Some(wait) = over.wait.filter(|_| !concurrent) {
                                let wait = u64::try_from(wait.as_millis()).unwrap();
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
                        // Nobody knows any more where it is counted.
                        if model.set_back <= event.set_back + 1 {
                            event.counts = spent;
                        }
                        tally.settle(entry, ask, spent);
                    }
                }
            }
            // By whole seconds it is the same to the token.
            let by_the_second = (model.now / SECOND).saturating_sub(60) * SECOND;
            let left = tally.left(&limits, share, clock);
            for (kinds, told) in [
                ([Kind::RequestsPerMinute, Kind::RequestsPerDay], left.requests),
                ([Kind::TokensPerMinute, Kind::TokensPerDay], left.tokens),
            ] {
                let expected = kinds.into_iter().filter_map(|kind| {
                    let used = match kind {
                        Kind::RequestsPerMinute | Kind::TokensPerMinute => model.used(kind, |at| at >= by_the_second),
                        Kind::RequestsPerDay | Kind::TokensPerDay | Kind::Concurrency | Kind::UsdPerDay | Kind::UsdPerMonth => model.of(kind, 0),
                    };
                    kind.limit(&limits, share).map(|limit| limit.saturating_sub(used))
                });
                prop_assert_eq!(told.map(|room| room.remaining), expected.min());
            }
            let mut all = Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::RequestsPerMinute | Kind::TokensPerMinute));
            prop_assert!(all.all(|kind| tally.used(kind) == u128::from(model.of(kind, 0))));
        }

        if model.set_back > 0 {
            return Ok(());
        }
        // What comes after a restart: the last minute one by one, what was before it by the day, in any order.
        for event in &mut model.events {
            if let Some((entry, ask)) = event.open.take() {
                tally.settle(entry, ask, event.counts);
            }
        }
        let mut rebuilt = Tally::default();
        rebuilt.watch(&limits);
        let youngest = model.now.saturating_sub(61 * SECOND);
        for event in model.events.iter().rev().filter(|event| event.at[0] > youngest) {
            rebuilt.recall(event.at[0], 1, event.counts);
        }
        let older: Vec<&Event> = model.events.iter().filter(|event| event.at[0] <= youngest).collect();
        for day in older.chunk_by(|a, b| a.at[0] / DAY == b.at[0] / DAY) {
            let sum = day.iter().fold(Spent::default(), |sum, event| Spent {
                tokens: sum.tokens + event.counts.tokens,
                usd: Usd(sum.usd.0 + event.counts.usd.0),
            });
            rebuilt.recall(day[0].at[0] / DAY * DAY, u64::try_from(day.len()).unwrap(), sum);
        }
        rebuilt.advance(model.now);
        prop_assert_eq!(rebuilt, tally);
    }

    #[test]
    fn months_are_those_of_the_calendar(day in 0u64..200_000) {
        let Month { first, next } = Month::of(day);
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
        let limits = Limits { tokens_per_day: Some(limits.0), usd_per_month: Some(Usd(limits.1)), tokens_per_minute: Some(limits.2), ..Limits::default() };
        let mut tally = Tally::default();
        tally.watch(&limits);
        tally.advance(now);
        let mut taken = Vec::new();
        for (tokens, usd, spent) in asks {
            let ask = Ask { tokens, usd: Usd(usd) };
            let before = tally.used(Kind::TokensPerMinute);
            if tally.over(&limits, share, ask, now).is_none() {
                taken.push((tally.take(ask), ask, spent));
                prop_assert_eq!(tally.used(Kind::TokensPerMinute), before + u128::from(tokens));
            } else {
                // As somebody does who has limits on other things only.
                let entry = tally.take(ask);
                tally.settle(entry, ask, Spent::default());
            }
            tally.left(&limits, share, 0);
        }
        prop_assert_eq!(tally.used(Kind::TokensPerDay), taken.iter().map(|(_, ask, _)| u128::from(ask.tokens)).sum::<u128>());
        for (entry, ask, spent) in &taken {
            tally.settle(*entry, *ask, Spent { tokens: *spent, usd: Usd(*spent) });
        }
        prop_assert_eq!(tally.used(Kind::UsdPerMonth), taken.iter().map(|(_, _, spent)| u128::from(*spent)).sum::<u128>());
        prop_assert_eq!((tally.used(Kind::Concurrency), tally.used(Kind::UsdPerMonth)), (0, tally.used(Kind::UsdPerDay)));
        tally.advance(u64::MAX);
    }
}

#[test]
fn of_several_the_longest_wait_is_told_and_for_ever_first() {
    let all = Limits {
        requests_per_minute: Some(1),
        requests_per_day: Some(1),
        tokens_per_minute: Some(10),
        concurrency: Some(1),
        usd_per_month: Some(Usd(5)),
        ..Limits::default()
    };
    let now = 1_798_761_540_000; // A minute before 2027.
    let mut tally = Tally::default();
    tally.advance(now);
    tally.watch(&all);
    tally.take(Ask { tokens: 4, usd: Usd(5) });
    let check = |limits: Limits, tokens: u64, kind: Kind, wait: Option<u64>| {
        let over = tally.over(&limits, 1, Ask { tokens, usd: Usd(1) }, now).unwrap();
        assert_eq!((over.kind, over.wait), (kind, wait.map(Duration::from_secs)));
    };
    check(all, 6, Kind::RequestsPerMinute, Some(61));
    check(Limits { requests_per_minute: None, ..all }, 6, Kind::RequestsPerDay, Some(60));
    check(Limits { requests_per_minute: None, requests_per_day: None, ..all }, 6, Kind::UsdPerMonth, Some(60));
    check(Limits { requests_per_minute: None, ..all }, 7, Kind::TokensPerMinute, Some(61));
    check(all, 11, Kind::TokensPerMinute, None);
    check(Limits { concurrency: Some(1), ..Limits::default() }, 11, Kind::Concurrency, Some(1));
}

#[test]
fn what_is_not_limited_by_the_minute_needs_no_ring_and_a_later_limit_counts_from_then_on() {
    let mut tally = Tally::default();
    let ask = Ask { tokens: 5, usd: Usd(0) };
    let by_minute = Limits { tokens_per_minute: Some(8), requests_per_minute: Some(9), ..Limits::default() };
    tally.advance(1_000_000);
    tally.watch(&Limits { tokens_per_day: Some(100), ..Limits::default() });
    let before = tally.take(ask);
    assert!(tally.minute.is_none());
    tally.watch(&by_minute);
    let after = tally.take(ask);
    // It was never counted there, so nothing is taken out of what others have.
    tally.settle(before, ask, Spent { tokens: 7, usd: Usd(0) });
    let counts = tally.counts();
    assert_eq!((counts.minute, counts.day_tokens), (vec![(1_000, 1, 5)], 12));
    tally.settle(after, ask, Spent { tokens: 6, usd: Usd(0) });
    assert_eq!((tally.counts().minute, tally.counts().day_tokens), (vec![(1_000, 1, 6)], 13));
}

#[test]
fn a_clock_that_was_ahead_locks_nobody_out() {
    const HOUR: u64 = 3_600_000;
    let now = 1_795_046_400_000; // Noon.
    let ask = Ask { tokens: 5, usd: Usd(5) };
    let all = Limits {
        requests_per_minute: Some(2),
        tokens_per_minute: Some(10),
        requests_per_day: Some(2),
        usd_per_month: Some(Usd(10)),
        ..Limits::default()
    };
    let by_minute = Limits { requests_per_day: None, usd_per_month: None, ..all };
    let by_day = Limits { requests_per_minute: None, tokens_per_minute: None, ..all };
    for ahead in [STEP_BACK + 6_000, HOUR, DAY, 365 * DAY] {
        let mut tally = Tally::default();
        tally.watch(&all);
        tally.advance(now + ahead);
        let (first, second) = (tally.take(ask), tally.take(ask));
        // A little later the clock is right.
        let now = now + 5_000;
        let waits = |tally: &mut Tally, limits: &Limits, now: u64| {
            tally.advance(now);
            tally.over(limits, 1, ask, now).map(|over| over.wait.unwrap())
        };
        assert_eq!(waits(&mut tally, &by_minute, now), Some(Duration::from_secs(61)), "{ahead}");
        let midnight = Duration::from_millis((now / DAY + 1) * DAY - now);
        assert_eq!(waits(&mut tally, &Limits { usd_per_month: None, ..by_day }, now), Some(midnight), "{ahead}");
        assert!(waits(&mut tally, &by_day, now).is_some_and(|wait| wait <= Duration::from_millis(30 * DAY)), "{ahead}");
        // What was reserved before is settled where it is counted now.
        tally.settle(first, ask, Spent { tokens: 1, usd: Usd(2) });
        tally.undo(second, ask);
        let counts = tally.counts();
        assert_eq!((counts.minute, counts.places), (vec![(now / SECOND, 1, 1)], 0), "{ahead}");
        assert_eq!((counts.day_requests, counts.day_tokens, counts.day_usd, counts.month_usd), (1, 1, Usd(2), Usd(2)), "{ahead}");
        assert_eq!(waits(&mut tally, &by_minute, now + 61_000), None);
        tally.advance(now + DAY);
        assert_eq!((tally.counts().day_requests, tally.counts().month_usd), (0, Usd(2)));
    }
}

#[test]
fn what_was_no_longer_counted_when_time_is_set_back_is_not_taken_out_of_what_is() {
    let now = 1_795_046_400_000;
    let limits = Limits { tokens_per_minute: Some(100), ..Limits::default() };
    let ask = Ask { tokens: 5, usd: Usd(5) };
    let mut tally = Tally::default();
    tally.watch(&limits);
    tally.advance(now);
    let before = tally.take(ask);
    tally.advance(now + 40 * DAY);
    let ahead = tally.take(ask);
    tally.advance(now);
    tally.settle(before, ask, Spent { tokens: 9, usd: Usd(9) });
    let sums = |tally: &Tally| (tally.used(Kind::TokensPerMinute), tally.day_tokens, tally.month_usd);
    assert_eq!(sums(&tally), (5, 5, 5));
    // Twice: nobody knows any more where it is counted, but that it no longer runs.
    tally.advance(now - DAY);
    tally.settle(ahead, ask, Spent::default());
    assert_eq!((sums(&tally), tally.counts().places), ((5, 5, 5), 0));
}

#[test]
fn a_share_of_a_limit_is_never_nothing_unless_all_of_it_is() {
    for (limit, share, expected) in [(10, 3, 3), (2, 3, 1), (1, 9, 1), (0, 3, 0), (7, 0, 7), (7, 1, 7)] {
        let limits = Limits { concurrency: Some(limit), usd_per_day: Some(Usd(limit)), ..Limits::default() };
        assert_eq!(Kind::Concurrency.limit(&limits, share), Some(expected));
        assert_eq!(Kind::UsdPerDay.limit(&limits, share), Some(expected));
    }
}
