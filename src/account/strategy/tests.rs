mod together;

use super::*;
use crate::account::latency::Peak;
use crate::catalog::Strategy;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use std::time::Instant;

const ALL: [Strategy; 4] = [
    Strategy::Priority,
    Strategy::Weighted,
    Strategy::LeastBusy,
    Strategy::Fastest,
];

fn view(name: &str, weight: u32) -> View {
    View {
        identity: target_identity(name, "m"),
        weight,
        tier: 0,
        in_flight: 0,
        cap: None,
        latency: Some(Duration::from_millis(300)),
        awaited: 0,
        headroom: None,
        behind: false,
        fit: true,
    }
}

/// As an operator would draw it: a word for each target, `NAME` and then any of `wN` its weight,
/// `tN` its tier, `fN` in flight, `cN` its cap, `lN` milliseconds (`l?` unknown), `aN` awaited,
/// `hN` percent of its quota left, `b` given up lately, `!` not fit.
fn views(drawn: &str) -> Vec<View> {
    let one = |words: &str| {
        let mut words = words.split('.');
        let mut view = view(words.next().unwrap(), 1);
        for word in words {
            let number = word[1..].parse::<u32>().unwrap_or(0);
            match &word[..1] {
                "w" => view.weight = number,
                "t" => view.tier = number,
                "f" => view.in_flight = number as usize,
                "c" => view.cap = Some(number as usize),
                "l" => view.latency = (word != "l?").then(|| Duration::from_millis(number.into())),
                "a" => view.awaited = number as usize,
                "h" => view.headroom = Some(f64::from(number) / 100.0),
                "b" => view.behind = true,
                "!" => view.fit = false,
                other => panic!("no word {other}"),
            }
        }
        view
    };
    drawn.split_whitespace().map(one).collect()
}

/// The same number each time: everybody draws alike, so that equal weights stay in the order as
/// written.
fn alike() -> f64 {
    0.5
}

#[track_caller]
fn check(strategy: Strategy, drawn: &str, expected: &[usize]) {
    let order = order_targets(strategy, &views(drawn), None, &mut Smooth::default(), alike);
    assert_eq!(order, expected, "{strategy:?} {drawn}");
}

#[test]
fn orders() {
    use Strategy::*;
    for strategy in ALL {
        check(strategy, "", &[]);
        check(strategy, "a", &[0]);
        check(strategy, "a.!", &[0]);
        check(strategy, "a b c", &[0, 1, 2]);
        check(strategy, "a.! b c", &[1, 2, 0]);
        check(strategy, "a.! b.! c", &[2, 0, 1]);
        check(strategy, "a.h4 b.h5 c", &[1, 2, 0]);
        check(strategy, "a.h0 b.!.h90", &[0, 1]);
        check(strategy, "a.h0 b.h0", &[0, 1]);
        check(strategy, "a.b b c", &[1, 2, 0]);
        check(strategy, "a.b b.h0 c.!", &[1, 0, 2]);
        check(strategy, "a.b b.!", &[0, 1]);
        check(strategy, "a.b b.b", &[0, 1]);
    }
    check(Priority, "a.t1 b.t0 c.t2", &[1, 0, 2]);
    check(Priority, "a.t0.! b.t2 c.t1", &[2, 1, 0]);
    check(Priority, "a.t0.h1 b.t0 c.t1.h90", &[1, 2, 0]);
    check(Priority, "a.t0 b.t0.w3 c.t1.w9", &[1, 0, 2]);
    check(Priority, "a.t0.b b.t1 c.t2", &[1, 2, 0]);
    check(Fastest, "a.l10.b b.l900", &[1, 0]);
    check(Weighted, "a.t1 b.t0 c.w5", &[2, 0, 1]);
    check(LeastBusy, "a.f3 b.f1 c.f2", &[1, 2, 0]);
    check(LeastBusy, "a.f8.w8 b.f1.w2 c.f3.w1", &[1, 0, 2]);
    check(LeastBusy, "a.f40.c200 b.f9.c20", &[0, 1]);
    check(LeastBusy, "a.f40.c200.w1 b.f9.c20.w2", &[1, 0]);
    check(LeastBusy, "a.f40.c200 b.f9", &[1, 0]);
    check(LeastBusy, "a.t0.f1 b.t9.f0", &[1, 0]);
    check(LeastBusy, "a.f0.h1 b.f5", &[1, 0]);
    check(Fastest, "a.l900 b.l300 c.l100", &[1, 0, 2]);
    check(Fastest, "a.l300.f2 b.l800.f0", &[1, 0]);
    check(Fastest, "a.l300.f1 b.l800.f0", &[0, 1]);
    check(Fastest, "a b.l?", &[1, 0]);
    check(Fastest, "a b.l?.a1", &[0, 1]);
    check(Fastest, "a.l?.a1.f7 b.l?.a1.f2", &[1, 0]);
    check(Fastest, "a b.l?.!", &[0, 1]);
    check(Fastest, "a b.l?.h1", &[0, 1]);
}

#[test]
fn a_conversation_leaves_a_target_that_is_given_up() {
    for strategy in ALL {
        for conversation in 0..50_u64 {
            let of = |drawn| {
                order_targets(
                    strategy,
                    &views(drawn),
                    Some(stable_hash(conversation.to_le_bytes())),
                    &mut Smooth::default(),
                    alike,
                )
            };
            assert_eq!(of("a.t0.b b.t1"), [1, 0], "{strategy:?}");
            assert_eq!(
                of("a.t0 b.t0")[0],
                of("a.t0.b b.t0.b")[0],
                "{strategy:?}: both are given up"
            );
        }
    }
}

#[test]
fn smooth_is_nginxs() {
    let views = views("a.w5 b.w1 c.w1");
    let mut smooth = Smooth::default();
    let mut picks = String::new();
    for _ in 0..14 {
        let first = order_targets(Strategy::Weighted, &views, None, &mut smooth, alike)[0];
        picks.push(['a', 'b', 'c'][first]);
    }
    assert_eq!(picks, "aabacaaaabacaa");
}

#[test]
fn a_reload_starts_nothing_anew() {
    let mut smooth = Smooth::default();
    let mut first = |drawn: &str| {
        let views = views(drawn);
        views[order_targets(Strategy::Weighted, &views, None, &mut smooth, alike)[0]].identity
    };
    let (a, b) = (target_identity("a", "m"), target_identity("b", "m"));
    assert_eq!(first("a b"), a);
    assert_eq!(first("b a"), b, "in another order");
    assert_eq!(first("a.w800 b.w800"), a, "in another scale");
    assert_eq!(
        first("c a b"),
        b,
        "a new one does not push in: it has earned as little as the others"
    );
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut smooth = Smooth::default();
    for n in 0..1000 {
        let views = [view(&format!("a{n}"), 1), view("b", 1), view("c", 2)];
        order_targets(Strategy::Weighted, &views, None, &mut smooth, alike);
    }
    assert!(smooth.earned.len() <= 4, "{}", smooth.earned.len());
}

#[test]
fn an_identity_is_the_same_everywhere() {
    assert_eq!(
        target_identity("openai-main", "gpt-4o-mini"),
        0x9ad8_76f3_b7c8_7237
    );
    assert_ne!(target_identity("ab", "c"), target_identity("a", "bc"));
}

/// So many picks of the first, in a row.
fn picks(strategy: Strategy, views: &[View], sticky: bool, count: u64, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut smooth = Smooth::default();
    let mut picked = vec![0.0; views.len()];
    for n in 0..count {
        let conversation = sticky.then(|| stable_hash(n.to_le_bytes()));
        picked[order_targets(strategy, views, conversation, &mut smooth, || random.f64())[0]] +=
            1.0;
    }
    picked
}

fn some_views(most: usize) -> impl proptest::strategy::Strategy<Value = Vec<View>> {
    let one = (
        (
            1u32..1000,
            0u32..3,
            0usize..50,
            prop::option::of(1usize..60),
        ),
        (
            prop::option::of(1u64..5000),
            0usize..3,
            prop::option::of(0.0..1.0f64),
            any::<bool>(),
        ),
    );
    prop::collection::vec(one, 1..=most).prop_map(|all| {
        let mut views = Vec::new();
        for (n, ((weight, tier, in_flight, cap), (latency, awaited, headroom, fit))) in
            all.into_iter().enumerate()
        {
            let (identity, latency) = (
                target_identity(&format!("account-{n}"), "m"),
                latency.map(Duration::from_millis),
            );
            views.push(View {
                identity,
                weight,
                tier,
                in_flight,
                cap,
                latency,
                awaited,
                headroom,
                behind: false,
                fit,
            });
        }
        views
    })
}

proptest! {
    #[test]
    fn every_target_once_and_the_fit_ones_first(views in some_views(8), sticky in prop::option::of(any::<u64>()), seed in any::<u64>()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut smooth = Smooth::default();
        for strategy in ALL {
            for _ in 0..3 {
                let order = order_targets(strategy, &views, sticky, &mut smooth, || random.f64());
                let mut places = order.clone();
                places.sort_unstable();
                prop_assert_eq!(places, (0..views.len()).collect::<Vec<_>>());
                prop_assert!(order.is_sorted_by_key(|place| !views[*place].fit), "unfit before fit");
                // The home of a conversation comes first; behind it, and without one, tiers and
                // quotas hold.
                let rest = &order[usize::from(sticky.is_some() && views[order[0]].fit)..];
                prop_assert!(rest.is_sorted_by_key(|place| sort_key(strategy, &views[*place])));
                // Conversations stay in the lowest tier; the others go by what is left of the quota
                // first.
                let full = |view: &View| sticky.is_some() || view.headroom.is_none_or(|share| share >= NEARLY_GONE);
                let lowest = |full: &dyn Fn(&View) -> bool| views.iter().filter(|view| view.fit && full(view)).map(|view| view.tier).min();
                if strategy == Strategy::Priority && let Some(lowest) = lowest(&full).or(lowest(&|_| true)) {
                    prop_assert_eq!(views[order[0]].tier, lowest);
                }
            }
        }
        }
}

// Each of these cases is thousands of picks.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn weights_hold(weights in prop::collection::vec(1u32..100, 2..7), seed in any::<u64>()) {
        let views: Vec<View> = weights.iter().enumerate().map(|(n, weight)| view(&n.to_string(), *weight)).collect();
        let total: u32 = weights.iter().sum();
        for strategy in [Strategy::Weighted, Strategy::Priority] {
            for (picked, weight) in picks(strategy, &views, false, 10_000, seed).into_iter().zip(&weights) {
                let share = f64::from(*weight) / f64::from(total);
                prop_assert!((picked - share * 10_000.0).abs() <= 2.0, "{} picks for a share of {}", picked, share);
            }
        }
        // By conversations the weights hold as far as chance lets them.
        for (picked, weight) in picks(Strategy::Weighted, &views, true, 10_000, seed).into_iter().zip(&weights) {
            let share = f64::from(*weight) / f64::from(total);
            prop_assert!((picked / 10_000.0 - share).abs() <= 0.02, "{} conversations for a share of {}", picked, share);
        }
    }

    /// Also where weights, places and fitness change under way, each gets what it earned while it
    /// was fit.
    #[test]
    fn weights_hold_through_changes(
        weights in prop::collection::vec(1u32..50, 3..6),
        changes in prop::collection::vec((0usize..6, any::<bool>(), 1u32..50), 1..40),
        seed in any::<u64>(),
    ) {
        let mut views: Vec<View> = weights.iter().enumerate().map(|(n, weight)| view(&n.to_string(), *weight)).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut smooth = Smooth::default();
        let mut due = std::collections::HashMap::<u64, f64>::new();
        let mut picks = 0;
        for (which, fit, weight) in changes {
            random.shuffle(&mut views);
            let which = which % views.len();
            (views[which].fit, views[which].weight) = (fit, weight);
            let total: u32 = views.iter().filter(|view| view.fit).map(|view| view.weight).sum();
            if total == 0 {
                continue;
            }
            for _ in 0..250 {
                for view in views.iter().filter(|view| view.fit) {
                    *due.entry(view.identity).or_default() += f64::from(view.weight) / f64::from(total);
                }
                let first = order_targets(Strategy::Weighted, &views, None, &mut smooth, || random.f64())[0];
                *due.entry(views[first].identity).or_default() -= 1.0;
                picks += 1;
            }
        }
        let off = due.values().fold(0.0f64, |most, off| most.max(off.abs()));
        prop_assert!(off <= 4.0, "{} picks off after {}", off, picks);
    }

    #[test]
    fn nobody_starves(weights in prop::collection::vec(1u32..20, 2..6), seed in any::<u64>()) {
        // Of the smooth ones it is known how long one waits at the most.
        let views: Vec<View> = weights.iter().enumerate().map(|(n, weight)| view(&n.to_string(), *weight)).collect();
        let total: u32 = weights.iter().sum();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut smooth = Smooth::default();
        let mut waited = vec![0u32; views.len()];
        for _ in 0..2000 {
            let first = order_targets(Strategy::Weighted, &views, None, &mut smooth, || random.f64())[0];
            for (place, waited) in waited.iter_mut().enumerate() {
                *waited = if place == first { 0 } else { *waited + 1 };
                let turn = 2 * total.div_ceil(weights[place]);
                prop_assert!(*waited <= turn, "{} picks without {}", waited, place);
            }
        }
    }

    #[test]
    fn sticky_moves_only_when_its_target_is_out(views in some_views(6), others in some_views(6), conversation in any::<u64>(), seed in any::<u64>()) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut smooth = Smooth::default();
        for strategy in [Strategy::Weighted, Strategy::LeastBusy, Strategy::Fastest] {
            let mut first = |views: &[View]| views[order_targets(strategy, views, Some(conversation), &mut smooth, || random.f64())[0]].identity;
            let all: Vec<View> = views.iter().map(|view| View { fit: true, ..*view }).collect();
            let home = first(&all);
            // Whatever else changes but the weights.
            let mut changed: Vec<View> = all.iter().zip(others.iter().cycle()).map(|(view, other)| View { identity: view.identity, weight: view.weight, ..*other }).collect();
            changed.reverse();
            for view in &mut changed {
                view.fit |= view.identity == home;
            }
            prop_assert_eq!(first(&changed), home);
            let out: Vec<View> = all.iter().map(|view| View { fit: view.identity != home, ..*view }).collect();
            let refuge = first(&out);
            prop_assert_eq!(refuge != home, views.len() > 1);
            prop_assert_eq!(first(&out), refuge, "all requests of a conversation move to the same one");
            prop_assert_eq!(first(&all), home, "and come back");
        }
    }

    #[test]
    fn sticky_moves_only_the_share_that_left(weights in prop::collection::vec(1u32..20, 3..7), gone in 0usize..3, seed in any::<u64>()) {
        let views: Vec<View> = weights.iter().enumerate().map(|(n, weight)| view(&n.to_string(), *weight)).collect();
        let mut left = views.clone();
        let removed = left.remove(gone);
        let mut smooth = Smooth::default();
        let mut moved = 0.0;
        for n in 0..4000u64 {
            let mut first = |views: &[View]| views[order_targets(Strategy::Weighted, views, Some(stable_hash((n ^ seed).to_le_bytes())), &mut smooth, alike)[0]].identity;
            let (before, after) = (first(&views), first(&left));
            if before == removed.identity {
                moved += 1.0;
            } else {
                prop_assert_eq!(before, after);
            }
        }
        let share = f64::from(removed.weight) / f64::from(weights.iter().sum::<u32>());
        prop_assert!((moved / 4000.0 - share).abs() < 0.04, "{} moved of a share of {}", moved, share);
    }
}

/// Requests one after another through what a caller of [`order_targets`] would keep: each takes its
/// target's time, and so many run at once. How many each target got, and whether one ever waited
/// for longer than `longest`.
fn simulate(
    strategy: Strategy,
    times: &[u64],
    at_once: usize,
    seconds: u64,
) -> (Vec<usize>, Duration) {
    let start = Instant::now();
    let mut random = fastrand::Rng::with_seed(7);
    let mut smooth = Smooth::default();
    let mut peaks = vec![Peak::default(); times.len()];
    let mut running: Vec<(Duration, usize)> = Vec::new();
    let (mut picked, mut last, mut longest) = (
        vec![0; times.len()],
        vec![Duration::ZERO; times.len()],
        Duration::ZERO,
    );
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(seconds) {
        if running.len() == at_once {
            let (at, &(until, place)) = running
                .iter()
                .enumerate()
                .min_by_key(|(_, (until, _))| *until)
                .unwrap();
            running.swap_remove(at);
            now = until;
            peaks[place].record_time(Duration::from_millis(times[place]), start + now);
        }
        let views: Vec<View> = (0..times.len())
            .map(|place| {
                let busy = running.iter().filter(|(_, at)| *at == place).count();
                let latency = peaks[place].expected_time(start + now, busy > 0);
                View {
                    in_flight: busy,
                    awaited: busy,
                    latency,
                    ..view(&place.to_string(), 1)
                }
            })
            .collect();
        let first = order_targets(strategy, &views, None, &mut smooth, || random.f64())[0];
        picked[first] += 1;
        longest = longest.max(now - last[first]);
        last[first] = now;
        running.push((now + Duration::from_millis(times[first]), first));
    }
    let unheard = last
        .iter()
        .map(|last| now - *last)
        .max()
        .unwrap_or_default();
    (picked, longest.max(unheard))
}

#[test]
fn the_slow_are_tried_now_and_then() {
    let (picked, longest) = simulate(Strategy::Fastest, &[100, 2000], 8, 300);
    assert!(picked[0] > picked[1] * 10, "{picked:?}");
    assert!(
        longest < Duration::from_secs(40),
        "nobody asked one of them for {longest:?}"
    );
    let (picked, longest) = simulate(Strategy::LeastBusy, &[100, 2000, 100], 8, 300);
    assert!(picked[0] > picked[1] * 5, "{picked:?}");
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

#[test]
fn one_at_a_time_finds_out() {
    let mut views = views("a.l50 b.l?");
    let mut random = fastrand::Rng::with_seed(1);
    let mut firsts = 0;
    for _ in 0..1000 {
        let first = order_targets(
            Strategy::Fastest,
            &views,
            None,
            &mut Smooth::default(),
            || random.f64(),
        )[0];
        if first == 1 {
            firsts += 1;
            views[1].awaited += 1;
            views[1].in_flight += 1;
        }
    }
    assert_eq!(firsts, 1);
}
