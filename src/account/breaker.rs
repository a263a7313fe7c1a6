//! The breaker of one target: (account, model). It keeps requests away from where they fail, and
//! finds out with one of them when that is over.
//!
//! ```text
//! closed ── failures in a row, or a share of the last calls ──▶ open
//! open ── cool-down ──▶ half-open
//! half-open ── the probe succeeds ──▶ closed
//! half-open ── the probe fails ──▶ open, for twice the cool-down
//! ```
//!
//! One that opened because of a share of failures is broken *in part*: some of what it is asked it
//! answers. Where nobody else is left it is asked all the same, since some answers are better than
//! none, until so many in a row fail that nothing seems to work any more.
//!
//! Only failures that may pass count. The caller's faults say nothing about the account; its
//! credential, its rate and what it does not serve are looked after in [`health`](super::health).
//! Pure: `now` and chance come in.
//!
//! **Invariant:** a half-open breaker lends one probe at a time. One that is out for long lapses,
//! after `PATIENCE`, or after a second where nobody else is left; what it finds later
//! still counts. What was admitted before the breaker opened says nothing about what came after.

use super::failure::Class;
use super::window::Window;
use std::time::{Duration, Instant};

/// The number of failures in a row that opens the breaker, or of answers in a row that begin and do
/// not end. Where there are many calls it is a fiftieth of those in `WINDOW`, in whatever state the
/// breaker was: of a thousand calls of which a third fails, five in a row are soon found, and one
/// lost connection ends many streams at once.
const IN_A_ROW: u32 = 5;
/// The share of the calls in `WINDOW` that opens the breaker if it failed.
const SHARE: f64 = 0.5;
/// The least number of calls of which a share is taken.
const LEAST_CALLS: u32 = 20;
/// The time for which the breaker looks back on calls.
const WINDOW: Duration = Duration::from_secs(30);
/// The first cool-down. Each probe that fails doubles it.
const COOL: Duration = Duration::from_secs(5);
/// The longest cool-down, without its jitter.
const LONGEST: Duration = Duration::from_secs(60);
/// The time after which a probe counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// One of so many calls in `WINDOW` must fail in a row: the calls of about half a second.
const IN_A_ROW_OF: u64 = 50;
/// One of so many calls may fail of a target that is sound: were all like it, and each failure
/// asked another one, that would be 1.2 attempts a request.
const SOUND: u64 = 6;
/// A cool-down is up to so much of itself longer, so that a fleet's probes do not come together.
const JITTER: f64 = 0.2;
/// The cool-down where there is nobody else: a probe a second is no load, and each second of
/// waiting is one in which all are refused.
const ALONE: Duration = Duration::from_secs(1);
/// Who is refused because a probe is out may ask again after this: its end may come any moment.
const SOON: Duration = Duration::from_secs(1);

/// A breaker.
#[derive(Debug, Clone)]
pub struct Breaker {
    /// Of fewer calls no share is taken.
    least_calls: u32,
    /// Counts the phases, so that what was admitted in one is not settled in another.
    generation: u32,
    /// All that was settled in any phase.
    asked: Window,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    /// `cuts`: of the answers that had begun, how many in a row did not end.
    Closed {
        in_a_row: u32,
        cuts: u32,
        calls: Window,
    },
    Open {
        since: Instant,
        until: Instant,
        cool: Duration,
        extent: Extent,
    },
    /// `next` is the cool-down that follows if the probe fails.
    HalfOpen {
        next: Duration,
        lent: u32,
        probe: Option<Instant>,
        extent: Extent,
    },
}

/// How much of it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Nothing came of the last calls.
    Whole,
    /// A share of the calls failed, and others among them did not. So many in a row have failed
    /// since it opened, of those that went all the same.
    Part { in_a_row: u32 },
}

/// Whether a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// It may.
    Allow(BreakerPass),
    /// It may, and how it ends decides. It must be settled, as [`Outcome::Neutral`] if it ends
    /// otherwise.
    AllowProbe(BreakerPass),
    /// It may not, until then at the earliest.
    RefuseUntil(Instant),
}

/// What an admitted request is settled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPass {
    generation: u32,
    /// Which of its phase's probes it is; 0 = none.
    probe: u32,
}

impl BreakerPass {
    /// Returns whether it is a probe.
    pub fn is_probe(self) -> bool {
        self.probe > 0
    }
}

/// The end of a request, as the breaker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Ok,
    /// With a failure of this class.
    Failed(Class),
    /// With nothing to learn from: the caller left, or another attempt was faster.
    Neutral,
}

impl Outcome {
    /// Returns whether the target failed; `None` where the outcome says nothing about the target.
    fn failed(self) -> Option<bool> {
        match self {
            Outcome::Ok => Some(false),
            Outcome::Failed(Class::Transient) => Some(true),
            Outcome::Failed(Class::Caller | Class::Credential | Class::Refused | Class::Rate | Class::Ours)
            | Outcome::Neutral => None,
        }
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests go.
    Closed,
    /// No request goes until then.
    Open(Instant),
    /// One request goes at a time, as a probe.
    HalfOpen {
        /// A probe is on its way.
        probing: bool,
    },
}

impl BreakerState {
    /// Returns the word in metrics and in `/status`.
    pub fn name(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open(_) => "open",
            BreakerState::HalfOpen { .. } => "half_open",
        }
    }

    /// Returns whether a request that came now would be admitted.
    pub fn admits(self) -> bool {
        match self {
            BreakerState::Closed | BreakerState::HalfOpen { probing: false } => true,
            BreakerState::Open(_) | BreakerState::HalfOpen { probing: true } => false,
        }
    }
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker::new(LEAST_CALLS)
    }
}

impl Breaker {
    /// Returns a breaker that is closed, and to which nothing has happened yet. Of fewer calls than
    /// `least_calls` it takes no share.
    fn new(least_calls: u32) -> Breaker {
        Breaker { least_calls, generation: 0, asked: Window::new(WINDOW), phase: Phase::closed() }
    }

    /// Asks for a request that would go now. `alone`: nobody else can take it. Where the target is
    /// broken in part, such a request may go beside the probe; else it goes as one probe a second,
    /// whether the cool-down is over or not, and whether the probe before it has come back or not.
    /// So where all targets are out, the first to be back is found at once.
    pub fn admit(&mut self, now: Instant, alone: bool) -> Admission {
        let beside = BreakerPass { generation: self.generation, probe: 0 };
        if let Phase::Open { since, until, cool, extent } = self.phase {
            let soon = match extent {
                Extent::Whole if alone => until.min(since + ALONE),
                Extent::Part { .. } if alone && until > now => return Admission::Allow(beside),
                Extent::Whole | Extent::Part { .. } => until,
            };
            if soon > now {
                return Admission::RefuseUntil(soon);
            }
            // One that is asked early, since all are out, is not out for longer because of that.
            let next = if until > now { cool } else { (cool * 2).min(LONGEST) };
            self.phase = Phase::HalfOpen { next, lent: 0, probe: None, extent };
        }
        match &mut self.phase {
            Phase::HalfOpen { lent, probe, extent, .. } => {
                let is_part = *extent != Extent::Whole;
                let patience = if alone && !is_part { ALONE } else { PATIENCE };
                if let Some(lapses) = probe.map(|since| since + patience).filter(|lapses| *lapses > now) {
                    let is_beside = alone && is_part;
                    return if is_beside {
                        Admission::Allow(beside)
                    } else {
                        Admission::RefuseUntil(lapses.min(now + SOON))
                    };
                }
                *lent += 1;
                *probe = Some(now);
                Admission::AllowProbe(BreakerPass { generation: self.generation, probe: *lent })
            }
            Phase::Closed { .. } | Phase::Open { .. } => Admission::Allow(beside),
        }
    }

    /// Learns how an admitted request ended. Yields the state if that changed it, for the log.
    /// `random` is in [0, 1).
    pub fn settle(&mut self, pass: BreakerPass, outcome: Outcome, now: Instant, random: f64) -> Option<BreakerState> {
        if pass.generation != self.generation {
            return None;
        }
        let Some(failed) = outcome.failed() else {
            // Only the last one's place is free again: those before it have lapsed.
            if let Phase::HalfOpen { lent, probe, .. } = &mut self.phase
                && pass.probe == *lent
            {
                *probe = None;
            }
            return None;
        };
        self.asked.add((1, u32::from(failed)), now);
        if let Phase::Closed { in_a_row, calls, .. } = &mut self.phase {
            calls.add((1, u32::from(failed)), now);
            *in_a_row = if failed { *in_a_row + 1 } else { 0 };
            return if failed { self.judge(now, random) } else { None };
        }
        let many = self.many(now);
        match &mut self.phase {
            Phase::Closed { .. } => None,
            Phase::HalfOpen { .. } if pass.is_probe() && !failed => {
                self.close();
                Some(BreakerState::Closed)
            }
            Phase::HalfOpen { next, extent, .. } if pass.is_probe() => {
                let (cool, extent) = (*next, extent.after(failed, many));
                Some(self.open(cool, extent, now, random))
            }
            // It went because nobody else was left: when the breaker closes is not for it to say.
            Phase::HalfOpen { extent, .. } | Phase::Open { extent, .. } => {
                *extent = extent.after(failed, many);
                None
            }
        }
    }

    /// Learns how an answer ended that had begun, and was settled as good then: whole, or cut.
    pub fn ended(&mut self, pass: BreakerPass, outcome: Outcome, now: Instant, random: f64) -> Option<BreakerState> {
        let Phase::Closed { cuts, calls, .. } = &mut self.phase else { return None };
        if pass.generation != self.generation {
            return None;
        }
        if !outcome.failed()? {
            *cuts = 0;
            return None;
        }
        *cuts += 1;
        calls.add((0, 1), now);
        self.judge(now, random)
    }

    /// Returns how many failures in a row are too many.
    fn many(&self, now: Instant) -> u64 {
        u64::from(IN_A_ROW).max(self.asked.sums(now).0 / IN_A_ROW_OF)
    }

    /// Opens the breaker if it is closed and too many calls have failed.
    fn judge(&mut self, now: Instant, random: f64) -> Option<BreakerState> {
        let many = self.many(now);
        let Phase::Closed { in_a_row, cuts, calls } = &self.phase else { return None };
        let (all, failed) = calls.sums(now);
        let too_many = all >= u64::from(self.least_calls) && failed as f64 >= SHARE * all as f64;
        let nothing_works = u64::from(*in_a_row.max(cuts)) >= many;
        let extent = if nothing_works { Extent::Whole } else { Extent::Part { in_a_row: 0 } };
        (nothing_works || too_many).then(|| self.open(COOL, extent, now, random))
    }

    /// Returns what it is now.
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until, .. } if until > now => BreakerState::Open(until),
            Phase::Open { .. } => BreakerState::HalfOpen { probing: false },
            Phase::HalfOpen { probe, .. } => {
                BreakerState::HalfOpen { probing: probe.is_some_and(|since| since + PATIENCE > now) }
            }
        }
    }

    /// Returns whether nothing much is known to be wrong with it: its last call was answered, if
    /// there was one, and so were most of the last seconds'. To ask it after another one has failed
    /// moves a request, and multiplies nothing.
    pub fn is_sound(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Closed { in_a_row: 0, cuts: 0, calls } => {
                let (all, failed) = calls.lately(now);
                failed * SOUND <= all
            }
            Phase::Closed { .. } | Phase::Open { .. } | Phase::HalfOpen { .. } => false,
        }
    }

    /// Returns how many calls the breaker looks back on, and how many of them failed; none unless
    /// the breaker is closed.
    pub fn calls(&self, now: Instant) -> (u64, u64) {
        match &self.phase {
            Phase::Closed { calls, .. } => calls.sums(now),
            Phase::Open { .. } | Phase::HalfOpen { .. } => (0, 0),
        }
    }

    /// Takes on the state that another process tells of its own. What that does not tell, a probe
    /// that is out or how much is broken, is taken for the best.
    pub fn recall(&mut self, state: BreakerState, now: Instant) {
        self.reset();
        let (cool, extent) = (COOL, Extent::Part { in_a_row: 0 });
        match state {
            BreakerState::Closed => {}
            BreakerState::Open(until) => self.phase = Phase::Open { since: now, until, cool, extent },
            BreakerState::HalfOpen { probing } => {
                self.phase =
                    Phase::HalfOpen { next: cool, lent: u32::from(probing), probe: probing.then_some(now), extent };
            }
        }
    }

    /// Closes the breaker and forgets everything.
    pub fn reset(&mut self) {
        self.asked = Window::new(WINDOW);
        self.close();
    }

    fn close(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::closed();
    }

    fn open(&mut self, cool: Duration, extent: Extent, now: Instant, random: f64) -> BreakerState {
        let until = now + cool.mul_f64(1.0 + JITTER * if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 });
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Open { since: now, until, cool, extent };
        BreakerState::Open(until)
    }
}

impl Phase {
    fn closed() -> Phase {
        Phase::Closed { in_a_row: 0, cuts: 0, calls: Window::new(WINDOW) }
    }
}

impl Extent {
    /// After one more call. So many failures in a row are enough.
    fn after(self, failed: bool, many: u64) -> Extent {
        match self {
            Extent::Part { in_a_row } if failed && u64::from(in_a_row) + 1 < many => {
                Extent::Part { in_a_row: in_a_row + 1 }
            }
            Extent::Part { .. } if !failed => Extent::Part { in_a_row: 0 },
            Extent::Part { .. } | Extent::Whole => Extent::Whole,
        }
    }
}

#[cfg(test)]
mod tests;
