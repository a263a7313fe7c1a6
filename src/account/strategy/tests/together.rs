//! Orders, breakers and rests together, as the gateway asks them one after another: against a model
//! of who is fit, and against time.

use super::*;
use crate::account::breaker::{BreakerState, Outcome, PROBE_TIMEOUT};
use crate::account::failure::{Class, REFUSALS_IN_A_ROW, REFUSED_COOL, Setback, rate_cool};
use crate::account::target_health::{AttemptGuard, TargetHealth};
use std::sync::Arc;
use std::time::SystemTime;

/// A target, and what the model knows of it.
#[derive(Default)]
struct Target {
    weight: u32,
    cap: Option<usize>,
    health: Arc<TargetHealth>,
    in_flight: usize,
    rests: Option<Instant>,
    /// How many in a row, and until when it rests for them: an answer ends that.
    refused: (u32, Option<Instant>),
    /// Until when its breaker keeps requests away, if it is not closed.
    kept_away: Option<Instant>,
    probe: Option<Instant>,
}

impl Target {
    /// What the issue calls fit, by the model: neither full nor resting, and not kept away from but
    /// by one probe at a time.
    fn is_fit(&self, now: Instant) -> bool {
        let probed = self.probe.is_some_and(|since| now - since < PROBE_TIMEOUT);
        !self.is_full()
            && !self.is_resting(now)
            && self.kept_away.is_none_or(|until| until <= now && !probed)
    }

    fn is_resting(&self, now: Instant) -> bool {
        self.rests
            .max(self.refused.1)
            .is_some_and(|until| until > now)
    }

    fn is_full(&self) -> bool {
        self.cap.is_some_and(|cap| self.in_flight >= cap)
    }
}

/// One that is on its way.
struct Asked {
    place: usize,
    trial: AttemptGuard,
    began: Instant,
}

struct Crowd {
    strategy: Strategy,
    targets: Vec<Target>,
    smooth: Smooth,
    random: fastrand::Rng,
    now: Instant,
}

impl Crowd {
    fn new(
        strategy: Strategy,
        targets: impl IntoIterator<Item = (u32, Option<usize>)>,
        seed: u64,
    ) -> Crowd {
        Crowd {
            strategy,
            targets: targets
                .into_iter()
                .map(|(weight, cap)| Target {
                    weight,
                    cap,
                    ..Target::default()
                })
                .collect(),
            smooth: Smooth::default(),
            random: fastrand::Rng::with_seed(seed),
            now: Instant::now(),
        }
    }

    fn views(&self) -> Vec<View> {
        let one = |(place, target): (usize, &Target)| {
            let facts = target
                .health
                .order_facts(true, false, self.now, SystemTime::UNIX_EPOCH);
            View {
                tier: u32::try_from(place / 2).unwrap(),
                in_flight: target.in_flight,
                cap: target.cap,
                latency: facts.latency,
                awaited: facts.awaited,
                fit: !target.is_full() && facts.fit,
                ..view(&place.to_string(), target.weight)
            }
        };
        self.targets.iter().enumerate().map(one).collect()
    }

    /// The first that takes a request, and whether it took it because nobody else was left.
    fn ask(&mut self, sticky: Option<u64>) -> Option<(Asked, bool)> {
        let (views, random) = (self.views(), &mut self.random);
        let order = order_targets(self.strategy, &views, sticky, &mut self.smooth, || {
            random.f64()
        });
        for (alone, &place) in [false, true]
            .into_iter()
            .flat_map(|alone| order.iter().map(move |place| (alone, place)))
        {
            let target = &mut self.targets[place];
            if target.is_full() {
                continue;
            }
            let Ok(trial) = target.health.admit(0, alone, false, self.now) else {
                continue;
            };
            target.in_flight += 1;
            return Some((
                Asked {
                    place,
                    trial,
                    began: self.now,
                },
                alone,
            ));
        }
        None
    }

    /// How it ended, told to those who learn and to the model.
    fn end(
        &mut self,
        Asked {
            place,
            mut trial,
            began,
        }: Asked,
        outcome: Outcome,
        retry_after: Option<Duration>,
    ) {
        let target = &mut self.targets[place];
        target.in_flight -= 1;
        let mut rest = |cool: Duration| target.rests = target.rests.max(Some(self.now + cool));
        let state = match outcome {
            Outcome::Ok => {
                target.refused = (0, None);
                trial.record_answer(true, self.now - began, self.now)
            }
            Outcome::Failed(class) => {
                match class {
                    Class::Rate => rest(rate_cool(retry_after)),
                    Class::Refused => {
                        target.refused.0 += 1;
                        if target.refused.0 >= REFUSALS_IN_A_ROW {
                            target.refused.1 = Some(self.now + REFUSED_COOL);
                        }
                    }
                    Class::Caller
                    | Class::Credential
                    | Class::Overloaded
                    | Class::Transient
                    | Class::Ours => {}
                }
                trial
                    .record_failure(
                        Setback { class, retry_after },
                        true,
                        self.now - began,
                        self.now,
                    )
                    .breaker
            }
            Outcome::Neutral => None,
        };
        match state {
            Some(BreakerState::Open(until)) => {
                (target.kept_away, target.probe) = (Some(until), None)
            }
            Some(BreakerState::Closed) => (target.kept_away, target.probe) = (None, None),
            Some(BreakerState::HalfOpen { .. }) => panic!("only time half opens it"),
            None if trial.is_probe() && target.probe == Some(began) => target.probe = None,
            None => {}
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Ask(Option<u64>),
    /// One of those on their way ends: the number decides how, by what is wrong with its target.
    End(usize, f64),
}

fn steps() -> impl proptest::strategy::Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![
            1 => prop_oneof![4 => 0u64..300, 1 => 0u64..20_000].prop_map(Step::Wait),
            4 => prop::option::weighted(0.3, 0u64..20).prop_map(Step::Ask),
            4 => (any::<usize>(), 0.0..1.0).prop_map(|(which, how)| Step::End(which, how)),
        ],
        0..600,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However requests come and end: who cools is not picked while another one is fit; one probe
    /// at a time; and nobody is turned away while one is fit.
    #[test]
    fn none_that_cools_is_picked_while_another_is_fit(
        targets in prop::collection::vec((1u32..20, prop::option::of(1usize..6), prop::sample::select(vec![0.0, 0.02, 0.6, 0.9])), 1..5),
        steps in steps(),
        seed in any::<u64>(),
    ) {
        for strategy in ALL {
            let mut crowd = Crowd::new(strategy, targets.iter().map(|(weight, cap, _)| (*weight, *cap)), seed);
            let mut out: Vec<Asked> = Vec::new();
            for step in &steps {
                match step {
                    Step::Wait(milliseconds) => crowd.now += Duration::from_millis(*milliseconds),
                    Step::Ask(sticky) => {
                        let fit: Vec<bool> = crowd.targets.iter().map(|target| target.is_fit(crowd.now)).collect();
                        let now = crowd.now;
                        let Some((asked, alone)) = crowd.ask(*sticky) else {
                            prop_assert!(!fit.contains(&true), "turned away, and one is fit");
                            continue;
                        };
                        prop_assert_eq!(fit[asked.place], !alone, "of {:?} {} was picked", fit, asked.place);
                        prop_assert!(!alone || !fit.contains(&true));
                        let target = &mut crowd.targets[asked.place];
                        prop_assert!(!target.is_resting(now), "even the last one left is not asked while it rests");
                        if asked.trial.is_probe() {
                            // Where nobody else is left, it is one a second.
                            let patience = if alone { Duration::from_secs(1) } else { PROBE_TIMEOUT };
                            let lapsed = |since: Instant| now - since >= patience;
                            prop_assert!(target.kept_away.is_some() && target.probe.is_none_or(lapsed), "one probe at a time");
                            // From now on it is half open, also where an early probe comes to
                            // nothing.
                            (target.kept_away, target.probe) = (Some(now), Some(now));
                        }
                        out.push(asked);
                    }
                    Step::End(which, how) if !out.is_empty() => {
                        let asked = out.swap_remove(which % out.len());
                        let failing = targets[asked.place].2;
                        let (outcome, after) = match *how {
                            how if how < failing => (Outcome::Failed(Class::Transient), None),
                            how if how < 0.94 => (Outcome::Ok, None),
                            how if how < 0.95 => (Outcome::Neutral, None),
                            how if how < 0.96 => (Outcome::Failed(Class::Caller), None),
                            how if how < 0.97 => (Outcome::Failed(Class::Rate), None),
                            how if how < 0.98 => (Outcome::Failed(Class::Rate), Some(Duration::from_secs(2))),
                            _ => (Outcome::Failed(Class::Refused), None),
                        };
                        crowd.end(asked, outcome, after);
                    }
                    Step::End(..) => {}
                }
            }
        }
    }
}

/// Ten minutes of 50 requests a second, each of which takes 100 ms; in the second to the fourth,
/// one target after another fails in its own way. How many each was asked in each second.
fn ten_minutes(strategy: Strategy, weights: &[u32], seed: u64) -> Vec<Vec<f64>> {
    let mut crowd = Crowd::new(strategy, weights.iter().map(|weight| (*weight, None)), seed);
    let (start, mut asked_of) = (crowd.now, vec![vec![0.0; weights.len()]; 600]);
    let mut out = std::collections::VecDeque::<Asked>::new();
    for n in 0..30_000u32 {
        crowd.now = start + Duration::from_millis(20) * n;
        while out
            .front()
            .is_some_and(|asked| crowd.now - asked.began >= Duration::from_millis(100))
        {
            let asked = out.pop_front().unwrap();
            let second = (crowd.now - start).as_secs();
            let roll = crowd.random.f64();
            let outcome = match asked.place {
                0 if (60..120).contains(&second) => Outcome::Failed(Class::Transient),
                1 if (120..180).contains(&second) => Outcome::Failed(Class::Rate),
                2 if (180..240).contains(&second) && roll < 0.7 => {
                    Outcome::Failed(Class::Transient)
                }
                _ => Outcome::Ok,
            };
            crowd.end(asked, outcome, Some(Duration::from_secs(3)));
        }
        if let Some((asked, _)) = crowd.ask(None) {
            asked_of[(n / 50) as usize][asked.place] += 1.0;
            out.push_back(asked);
        }
    }
    asked_of
}

#[test]
fn who_is_well_again_gets_its_share_again() {
    let weights = [5, 3, 2];
    for seed in 0..5 {
        let asked_of = ten_minutes(Strategy::Weighted, &weights, seed);
        let during = |seconds: std::ops::Range<usize>, place: usize| {
            asked_of[seconds]
                .iter()
                .map(|second| second[place])
                .sum::<f64>()
        };
        assert!(
            during(62..120, 0) < 10.0 && during(122..180, 1) < 100.0 && during(200..240, 2) < 100.0,
            "trouble is kept away from"
        );
        // The last 200 s are 10,000 picks.
        for (place, weight) in weights.into_iter().enumerate() {
            let (share, due) = (during(400..600, place) / 10_000.0, f64::from(weight) / 10.0);
            assert!((share - due).abs() < 0.02, "{share} for {due}");
        }
    }
}

#[test]
fn nobody_who_is_well_again_starves() {
    // The longest cool-down with its jitter, and a little for the others to let it be drawn.
    const BACK: usize = 75;
    for strategy in [Strategy::Weighted, Strategy::LeastBusy, Strategy::Fastest] {
        for seed in 0..5 {
            let asked_of = ten_minutes(strategy, &[1, 1, 1], seed);
            for (place, well) in [(0, 120), (1, 180), (2, 240)] {
                let first = asked_of[well..]
                    .iter()
                    .position(|second| second[place] > 0.0);
                assert!(
                    first.is_some_and(|first| first <= BACK),
                    "{strategy:?}: {place} is asked again after {first:?} s"
                );
                let seldom = asked_of[well + BACK..]
                    .windows(20)
                    .position(|seconds| seconds.iter().all(|second| second[place] == 0.0));
                assert_eq!(seldom, None, "{strategy:?}: nobody asked {place} for 20 s");
            }
        }
    }
    // By tiers the first two share all of it when they are well, and the third gets what they
    // cannot take.
    let asked_of = ten_minutes(Strategy::Priority, &[1, 1, 1], 1);
    let during = |seconds: std::ops::Range<usize>, place: usize| {
        asked_of[seconds]
            .iter()
            .map(|second| second[place])
            .sum::<f64>()
    };
    assert_eq!(during(400..600, 2), 0.0);
    assert!(
        (during(400..600, 0) - 5000.0).abs() < 200.0
            && (during(400..600, 1) - 5000.0).abs() < 200.0
    );
}
