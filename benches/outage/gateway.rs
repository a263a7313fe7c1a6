//! A simulated gateway: its loop is made up here, but its decisions are the gateway's own code.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use portcullis::account::breaker::{Admission, Breaker, BreakerPass, Jitter, Outcome};
use portcullis::account::budget::Budget;
use portcullis::account::failure::{Class, rate_cool};
use portcullis::account::latency::{Peak, Rolling};
use portcullis::account::queue::{Queue, Ticket};
use portcullis::account::quota::{self, Headroom};
use portcullis::account::strategy::{self, Smooth, View};
use portcullis::catalog::Strategy;

use crate::world::{ACCOUNTS, End, Episode, LENGTH, PER_SECOND, Time, World, exponential};

const ATTEMPTS: usize = 3;
/// The model's `queue`.
const QUEUE: usize = 2000;
const WAIT: Time = 5.0;
/// The time between two tries of the head of the queue.
const TRY: Time = 0.02;
/// The longest time to the first token that a caller counts as in time.
pub const IN_TIME: Time = 5.0;

/// The way in which targets are chosen.
#[derive(Clone, Copy)]
pub enum AnswerOptions {
    /// By weight at random, then the next one after a failure. Nothing is learnt.
    Plain,
    By(Strategy),
    /// By a strategy, with a second attempt beside a slow first one.
    Hedged(Strategy),
}

impl AnswerOptions {
    fn strategy(self) -> Option<Strategy> {
        match self {
            AnswerOptions::Plain => None,
            AnswerOptions::By(strategy) | AnswerOptions::Hedged(strategy) => Some(strategy),
        }
    }
}

/// The state that the gateway keeps of a target and its account.
#[derive(Default)]
struct Target {
    breaker: Breaker,
    peak: Peak,
    awaited: usize,
    in_flight: usize,
    /// The time until which the target rests.
    rest: Option<Instant>,
    headroom: Option<Headroom>,
}

struct Attempt {
    request: usize,
    target: usize,
    pass: Option<BreakerPass>,
    began: Time,
    end: End,
    /// True if another attempt was faster.
    cancelled: bool,
}

struct Request {
    arrived: Time,
    /// The targets that the request has not tried, in their order. There is no order while the
    /// request waits.
    order: Vec<Option<usize>>,
    tries: usize,
    /// The attempts that wait for their first token.
    running: Vec<usize>,
    answered: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    /// The first token of an attempt, or its failure.
    Turn(usize),
    /// The last token of an answer by this target.
    Over(usize),
    /// The time for a second attempt.
    Hedge(usize),
    /// The head of the queue tries.
    Head,
}

/// The results of the requests that arrived in one second.
#[derive(Clone, Copy, Default)]
pub struct Second {
    pub requests: f64,
    pub attempts: f64,
    pub answered: f64,
    pub in_time: f64,
    /// The requests for which no target could be asked, and the queue was full or did not move in
    /// time.
    pub shed: f64,
    /// The requests that were in the queue for a while.
    pub waited: f64,
    /// The requests that were not tried again, since the budget was spent.
    pub spared: f64,
    pub hedged: f64,
}

/// The results of one row.
pub struct Figures {
    pub seconds: Vec<Second>,
    /// The times to the first token of the requests that were answered.
    pub firsts: Vec<Time>,
}

/// A gateway: a made-up loop over the gateway's own decisions.
struct Gateway<'w> {
    manner: AnswerOptions,
    world: World<'w>,
    targets: [Target; ACCOUNTS.len()],
    model: Arc<str>,
    smooth: Smooth,
    queue: Arc<Queue>,
    /// The requests in the queue, the head first.
    waiting: VecDeque<(usize, Ticket)>,
    retries: Budget,
    hedges: Budget,
    rolling: Rolling,
    random: Rng,
    arrivals: Rng,
    requests: Vec<Request>,
    attempts: Vec<Attempt>,
    /// The events, by the time in nanoseconds, then by their number.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    numbers: u64,
    zero: Instant,
    figures: &'w mut Figures,
}

pub fn run(manner: AnswerOptions, episodes: &[Episode], seed: u64, figures: &mut Figures) {
    let mut gateway = Gateway {
        manner,
        world: World {
            episodes,
            quotas: [(0.0, 0.0); ACCOUNTS.len()],
            random: Rng::with_seed(seed ^ 1 << 32),
        },
        targets: Default::default(),
        model: "m".into(),
        smooth: Smooth::default(),
        queue: Arc::default(),
        waiting: VecDeque::new(),
        retries: Budget::retries(),
        hedges: Budget::hedges(),
        rolling: Rolling::default(),
        random: Rng::with_seed(seed ^ 2 << 32),
        arrivals: Rng::with_seed(seed ^ 3 << 32),
        requests: Vec::new(),
        attempts: Vec::new(),
        events: BinaryHeap::new(),
        numbers: 0,
        zero: Instant::now(),
        figures,
    };
    gateway.at(0.0, Event::Arrival);
    while let Some(Reverse((nanos, _, event))) = gateway.events.pop() {
        let now = nanos as f64 / 1e9;
        match event {
            Event::Arrival => gateway.arrive(now),
            Event::Turn(attempt) => gateway.turn(attempt, now),
            Event::Over(target) => gateway.targets[target].in_flight -= 1,
            Event::Hedge(request) => gateway.hedge(request, now),
            Event::Head => gateway.head(now),
        }
    }
    assert!(
        gateway
            .targets
            .iter()
            .all(|target| target.in_flight == 0 && target.awaited == 0),
        "places were lost"
    );
}

impl Gateway<'_> {
    fn at(&mut self, time: Time, event: Event) {
        self.numbers += 1;
        self.events
            .push(Reverse(((time * 1e9) as u64, self.numbers, event)));
    }

    fn instant(&self, now: Time) -> Instant {
        self.zero + Duration::from_secs_f64(now)
    }

    fn learns(&self) -> bool {
        self.manner.strategy().is_some()
    }

    fn second(&mut self, request: usize) -> &mut Second {
        &mut self.figures.seconds[self.requests[request].arrived as usize]
    }

    fn arrive(&mut self, now: Time) {
        let next = now + exponential(&mut self.arrivals, 1.0 / PER_SECOND);
        if next < LENGTH {
            self.at(next, Event::Arrival);
        }
        let instant = self.instant(now);
        self.retries.count_request(instant);
        self.hedges.count_request(instant);
        let request = self.requests.len();
        self.requests.push(Request {
            arrived: now,
            order: Vec::new(),
            tries: 0,
            running: Vec::new(),
            answered: false,
        });
        self.second(request).requests += 1.0;
        if self.queue.is_empty() && self.start(request, now) {
            return;
        }
        match self.queue.enter(QUEUE) {
            Some(ticket) => {
                if self.waiting.is_empty() {
                    self.at(now + TRY, Event::Head);
                }
                self.waiting.push_back((request, ticket));
                self.second(request).waited += 1.0;
            }
            None => self.second(request).shed += 1.0,
        }
    }

    /// Lets waiting requests go on, one after another, until one cannot.
    fn head(&mut self, now: Time) {
        while let Some(&(request, _)) = self.waiting.front() {
            if now >= self.requests[request].arrived + WAIT {
                self.second(request).shed += 1.0;
            } else if !self.start(request, now) {
                self.at(now + TRY, Event::Head);
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Begins the first attempt, if any target can be asked.
    fn start(&mut self, request: usize, now: Time) -> bool {
        let views: Vec<View> = (0..ACCOUNTS.len())
            .map(|place| self.view(place, now))
            .collect();
        // If no target is known to be busy, the strategy "least busy" draws at random by weight.
        let strategy = self.manner.strategy().unwrap_or(Strategy::LeastBusy);
        let random = &mut self.random;
        self.requests[request].order =
            strategy::order_targets(strategy, &views, None, &mut self.smooth, || random.f64())
                .into_iter()
                .map(Some)
                .collect();
        let instant = self.instant(now);
        let began = self.attempt(request, now);
        if began {
            self.queue.admitted(instant);
        }
        if began
            && matches!(self.manner, AnswerOptions::Hedged(_))
            && let Some(after) = self.rolling.quantile(0.95, instant)
        {
            self.at(now + after.as_secs_f64(), Event::Hedge(request));
        }
        began
    }

    fn view(&self, place: usize, now: Time) -> View {
        let (account, target) = (&ACCOUNTS[place], &self.targets[place]);
        let view = View {
            identity: strategy::target_identity(account.name, &self.model),
            weight: account.weight,
            tier: place as u32,
            in_flight: 0,
            cap: Some(account.capacity),
            latency: None,
            awaited: 0,
            headroom: None,
            behind: false,
            fit: true,
        };
        if !self.learns() {
            return view;
        }
        View {
            in_flight: target.in_flight,
            latency: target
                .peak
                .expected_time(self.instant(now), target.awaited > 0),
            awaited: target.awaited,
            headroom: target
                .headroom
                .and_then(|headroom| headroom.current_share(clock(now))),
            fit: self.has_room(place) && self.is_fit(place, now),
            ..view
        }
    }

    fn has_room(&self, place: usize) -> bool {
        self.targets[place].in_flight < ACCOUNTS[place].capacity
    }

    fn is_fit(&self, place: usize, now: Time) -> bool {
        self.targets[place]
            .breaker
            .state(self.instant(now))
            .admits()
            && self.is_awake(place, now)
    }

    fn is_awake(&self, place: usize, now: Time) -> bool {
        self.targets[place]
            .rest
            .is_none_or(|until| until <= self.instant(now))
    }

    /// Begins the next attempt that may be made. If no fit target is left, one that its breaker
    /// keeps away may be asked whether it is back.
    fn attempt(&mut self, request: usize, now: Time) -> bool {
        self.requests[request].tries < ATTEMPTS
            && (self.next(request, now, false) || self.learns() && self.next(request, now, true))
    }

    fn next(&mut self, request: usize, now: Time, alone: bool) -> bool {
        let instant = self.instant(now);
        for turn in 0..ACCOUNTS.len() {
            let Some(place) =
                self.requests[request].order[turn].filter(|place| self.has_room(*place))
            else {
                continue;
            };
            if !self.learns() {
                self.requests[request].order[turn] = None;
                self.begin(request, place, None, now);
                return true;
            }
            if !self.is_awake(place, now) {
                continue;
            }
            let breaker = &mut self.targets[place].breaker;
            let free = breaker.is_sound(instant);
            let pass = match breaker.admit(instant, alone) {
                Admission::Allow(pass) | Admission::AllowProbe(pass) => pass,
                Admission::RefuseUntil(_) => continue,
            };
            // A hedge has a budget of its own.
            let again =
                self.requests[request].tries > 0 && self.requests[request].running.is_empty();
            if again && !free && !self.retries.allow_retry(instant) {
                breaker.settle(pass, Outcome::Neutral, instant, Jitter::NONE);
                self.second(request).spared += 1.0;
                return false;
            }
            self.requests[request].order[turn] = None;
            self.begin(request, place, Some(pass), now);
            return true;
        }
        false
    }

    fn begin(&mut self, request: usize, place: usize, pass: Option<BreakerPass>, now: Time) {
        let end = self.world.ask(place, self.targets[place].in_flight, now);
        self.targets[place].in_flight += 1;
        self.targets[place].awaited += 1;
        let attempt = self.attempts.len();
        self.attempts.push(Attempt {
            request,
            target: place,
            pass,
            began: now,
            end,
            cancelled: false,
        });
        let (End::Token(after, _) | End::Failed(after, ..)) = end;
        self.at(now + after, Event::Turn(attempt));
        self.requests[request].tries += 1;
        self.requests[request].running.push(attempt);
        self.second(request).attempts += 1.0;
    }

    fn hedge(&mut self, request: usize, now: Time) {
        let Request {
            order,
            tries: 1,
            running,
            answered: false,
            ..
        } = &self.requests[request]
        else {
            return;
        };
        let other = order
            .iter()
            .flatten()
            .any(|place| self.has_room(*place) && self.is_fit(*place, now));
        let instant = self.instant(now);
        if running.len() == 1
            && other
            && self.hedges.allow_retry_within(0.05, instant)
            && self.next(request, now, false)
        {
            self.second(request).hedged += 1.0;
        }
    }

    /// Handles the first token of an attempt, or its failure.
    fn turn(&mut self, index: usize, now: Time) {
        let &Attempt {
            request,
            target: place,
            began,
            end,
            cancelled,
            ..
        } = &self.attempts[index];
        if cancelled {
            return;
        }
        self.requests[request]
            .running
            .retain(|running| *running != index);
        let took = Duration::from_secs_f64(now - began);
        let instant = self.instant(now);
        let target = &mut self.targets[place];
        match end {
            End::Token(_, rest) => {
                let told = self.world.told(place, now);
                let lookup = |name: &str| {
                    told.iter()
                        .flatten()
                        .find(|(known, _)| *known == name)
                        .map(|(_, value)| value.as_str())
                };
                target.headroom = quota::tightest_headroom(lookup, clock(now)).or(target.headroom);
                target.peak.record_time(took, instant);
                self.rolling.record(took, instant);
                self.settle(index, Outcome::Ok, now);
                // The attempt's place is taken until the end of the answer.
                self.targets[place].in_flight += 1;
                self.at(now + rest, Event::Over(place));
                self.answer(request, now);
            }
            End::Failed(_, class, retry_after) => {
                if class == Class::Transient {
                    target.peak.record_wait(took, instant);
                }
                let text = retry_after.map(|seconds| seconds.to_string());
                let lookup = |name: &str| text.as_deref().filter(|_| name == "retry-after");
                if class == Class::Rate {
                    target.rest = Some(instant + rate_cool(quota::retry_after(lookup, clock(now))))
                        .max(target.rest);
                }
                self.settle(index, Outcome::Failed(class), now);
                if self.requests[request].running.is_empty() {
                    self.attempt(request, now);
                }
            }
        }
    }

    fn answer(&mut self, request: usize, now: Time) {
        let first = now - self.requests[request].arrived;
        self.figures.firsts.push(first);
        self.second(request).answered += 1.0;
        self.second(request).in_time += f64::from(first <= IN_TIME);
        self.requests[request].answered = true;
        for slower in std::mem::take(&mut self.requests[request].running) {
            let &Attempt {
                target: place,
                began,
                ..
            } = &self.attempts[slower];
            let (waited, instant) = (Duration::from_secs_f64(now - began), self.instant(now));
            self.targets[place].peak.record_wait(waited, instant);
            self.rolling.record(waited, instant);
            self.attempts[slower].cancelled = true;
            self.settle(slower, Outcome::Neutral, now);
        }
    }

    fn settle(&mut self, index: usize, outcome: Outcome, now: Time) {
        let (instant, random) = (self.instant(now), self.random.f64());
        let &Attempt {
            target: place,
            pass,
            ..
        } = &self.attempts[index];
        let target = &mut self.targets[place];
        target.awaited -= 1;
        target.in_flight -= 1;
        if let Some(pass) = pass {
            target
                .breaker
                .settle(pass, outcome, instant, Jitter(random));
        }
    }
}

fn clock(now: Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(1.8e9 + now)
}
