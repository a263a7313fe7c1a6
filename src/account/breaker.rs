//! A [`Breaker`] keeps requests away from a target (an account and a model) that fails. Later it
//! lets one request through, as a probe, to find out whether the target works again.
//!
//! ```text
//! closed ── failures in a row, or a share of the last calls ──▶ open
//! open ── cool-down ──▶ half-open
//! half-open ── the probe succeeds ──▶ closed
//! half-open ── the probe fails ──▶ open, for twice the cool-down
//! ```
//!
//! A breaker that opened because of a share of failures is broken *in part*: the target still
//! answers some requests. If no other target is left, requests go to it all the same, since some
//! answers are better than none. This ends when so many requests in a row fail that nothing seems
//! to work any more.
//!
//! Only failures that may pass count. The caller's faults say nothing about the target. Callers who
//! leave before the target answers open the breaker only if there are several, and no caller gets
//! an answer: [`given_up`](super::given_up) says when. [`health`](super::health) and
//! [`target_health`](super::target_health) look after the account's credential, its rate, and
//! models that it does not serve. Pure: `now` and the [`Jitter`] are passed in.
//!
//! **Invariant:** a half-open breaker has one probe at a time. A probe that is out for too long
//! lapses: after `PROBE_TIMEOUT`, or after a second if no other target is left. Its outcome still
//! counts. A request that was admitted before the breaker opened says nothing about the time after.

use super::failure::Class;
use super::window::Window;
use std::time::{Duration, Instant};

/// The number of failures in a row that opens the breaker, or of answers in a row that begin and do
/// not end. Where there are many calls it is a fiftieth of those in `WINDOW`, in whatever state the
/// breaker was: of a thousand calls of which a third fails, five in a row are soon found, and one
/// lost connection ends many streams at once.
const IN_A_ROW: u32 = 5;
/// The share of the calls in `WINDOW` that opens the breaker if it failed.
const FAILED_SHARE: f64 = 0.5;
/// The least number of calls of which a share is taken.
const LEAST_CALLS: u32 = 20;
/// The time for which the breaker looks back on calls.
const WINDOW: Duration = Duration::from_secs(30);
/// The first cool-down. Each probe that fails doubles it.
const FIRST_COOL_DOWN: Duration = Duration::from_secs(5);
/// The longest cool-down, without its jitter.
const MAX_COOL_DOWN: Duration = Duration::from_secs(60);
/// The time after which a probe counts as lost.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// One of so many calls in `WINDOW` must fail in a row: the calls of about half a second.
const IN_A_ROW_OF: u64 = 50;
/// A target is sound if at most one of this many calls fails. If all targets failed that often, and
/// each failure went to another target, a request would have 1.2 attempts.
const SOUND_ONE_IN: u64 = 6;
/// The largest share by which a cool-down is made longer at random, so that the probes of a fleet
/// do not come together.
const MAX_JITTER: f64 = 0.2;
/// The cool-down if no other target is left: a probe a second is no load, and in each second of
/// waiting all requests are refused.
const ALONE_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a request may be sent again that was refused because a probe is out: the
/// probe may end at any moment.
const SOON: Duration = Duration::from_secs(1);

/// The breaker of one target.
#[derive(Debug, Clone)]
pub struct Breaker {
    /// The least number of calls of which a share is taken.
    least_calls: u32,
    /// Counts the phases, so that a request that was admitted in one phase is not settled in
    /// another.
    generation: u32,
    /// All calls that were settled, in any phase.
    all_calls: Window,
    phase: Phase,
}

#[derive(Debug, Clone)]
enum Phase {
    /// `in_a_row` counts the failures in a row, and `cuts` the begun answers in a row that did not
    /// end.
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
    /// `next` is the cool-down that follows if the probe fails. `lent` counts the probes of this
    /// phase.
    HalfOpen {
        next: Duration,
        lent: u32,
        probe: Option<Instant>,
        extent: Extent,
    },
}

/// The part of the target's calls that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of the last calls failed.
    AllFailed,
    /// A share of the calls failed, and others did not. `in_a_row` counts the failures in a row
    /// since the breaker opened, of the requests that went all the same.
    SomeFailed { in_a_row: u32 },
}

/// The breaker's decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// The request may go.
    Allow(BreakerPass),
    /// The request may go as a probe, and its outcome decides. It must be settled, as
    /// [`Outcome::Neutral`] if nothing was learnt.
    AllowProbe(BreakerPass),
    /// The request may not go, until then at the earliest.
    RefuseUntil(Instant),
}

/// A pass of an admitted request. The request's outcome is settled with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPass {
    generation: u32,
    /// The number of the probe in its phase; 0 if the request is no probe.
    probe: u32,
}

/// The calls that a breaker looks back on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCounts {
    /// The number of all calls.
    pub all: u64,
    /// The number of those that failed.
    pub failed: u64,
}

/// The random part of a cool-down, as a share of `MAX_JITTER` from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Jitter(pub f64);

impl Jitter {
    /// The jitter of an outcome that cannot open the breaker.
    pub const NONE: Jitter = Jitter(0.0);

    /// Draws a random jitter, for an outcome that may open the breaker.
    pub fn draw() -> Jitter {
        Jitter(fastrand::f64())
    }

    /// Returns the number by which the cool-down is multiplied.
    fn factor(self) -> f64 {
        let share = if self.0.is_finite() {
            self.0.clamp(0.0, 1.0)
        } else {
            0.0
        };
        1.0 + MAX_JITTER * share
    }
}

impl BreakerPass {
    /// Returns whether the request is a probe.
    pub fn is_probe(self) -> bool {
        self.probe > 0
    }
}

/// The end of a request, as the breaker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The target answered.
    Ok,
    /// The attempt failed, with this class.
    Failed(Class),
    /// There is nothing to learn: the caller left, or another attempt was faster.
    Neutral,
}

impl Outcome {
    /// Returns whether the target failed. Returns `None` if the outcome says nothing about the
    /// target.
    fn failed(self) -> Option<bool> {
        match self {
            Outcome::Ok => Some(false),
            Outcome::Failed(Class::Transient | Class::Overloaded) => Some(true),
            Outcome::Failed(
                Class::Caller | Class::Credential | Class::Refused | Class::Rate | Class::Ours,
            )
            | Outcome::Neutral => None,
        }
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests may go.
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
    /// Makes a breaker that is closed, and to which nothing has happened yet. It takes no share of
    /// fewer calls than `least_calls`.
    fn new(least_calls: u32) -> Breaker {
        Breaker {
            least_calls,
            generation: 0,
            all_calls: Window::new(WINDOW),
            phase: Phase::new_closed(),
        }
    }

    /// Decides about a request that would go now. `alone` says that no other target can take it. If
    /// the target is broken in part, such a request may run at the time of the probe. Otherwise it
    /// goes as one probe a second, even if the cool-down is not over or the probe before has not
    /// come back. So if all targets are out, the first one that is back is found at once.
    pub fn admit(&mut self, now: Instant, alone: bool) -> Admission {
        let pass = BreakerPass {
            generation: self.generation,
            probe: 0,
        };
        if let Phase::Open {
            since,
            until,
            cool,
            extent,
        } = self.phase
        {
            let soon = match extent {
                Extent::AllFailed if alone => until.min(since + ALONE_PROBE_INTERVAL),
                Extent::SomeFailed { .. } if alone && until > now => return Admission::Allow(pass),
                Extent::AllFailed | Extent::SomeFailed { .. } => until,
            };
            if soon > now {
                return Admission::RefuseUntil(soon);
            }
            // A target that is asked early, since all are out, does not get a longer cool-down for
            // that.
            let next = if until > now {
                cool
            } else {
                (cool * 2).min(MAX_COOL_DOWN)
            };
            self.phase = Phase::HalfOpen {
                next,
                lent: 0,
                probe: None,
                extent,
            };
        }
        match &mut self.phase {
            Phase::HalfOpen {
                lent,
                probe,
                extent,
                ..
            } => {
                let is_part = *extent != Extent::AllFailed;
                let probe_timeout = if alone && !is_part {
                    ALONE_PROBE_INTERVAL
                } else {
                    PROBE_TIMEOUT
                };
                if let Some(lapses) = probe
                    .map(|since| since + probe_timeout)
                    .filter(|lapses| *lapses > now)
                {
                    let is_beside = alone && is_part;
                    return if is_beside {
                        Admission::Allow(pass)
                    } else {
                        Admission::RefuseUntil(lapses.min(now + SOON))
                    };
                }
                *lent += 1;
                *probe = Some(now);
                Admission::AllowProbe(BreakerPass {
                    generation: self.generation,
                    probe: *lent,
                })
            }
            Phase::Closed { .. } | Phase::Open { .. } => Admission::Allow(pass),
        }
    }

    /// Settles an admitted request with its outcome. Returns the breaker's state if it changed, for
    /// the log. `jitter` is for the cool-down if the breaker opens.
    pub fn settle(
        &mut self,
        pass: BreakerPass,
        outcome: Outcome,
        now: Instant,
        jitter: Jitter,
    ) -> Option<BreakerState> {
        if pass.generation != self.generation {
            return None;
        }
        let Some(failed) = outcome.failed() else {
            // Only the last probe's place becomes free: the probes before it have lapsed.
            if let Phase::HalfOpen { lent, probe, .. } = &mut self.phase
                && pass.probe == *lent
            {
                *probe = None;
            }
            return None;
        };
        self.all_calls.add((1, u32::from(failed)), now);
        if let Phase::Closed {
            in_a_row, calls, ..
        } = &mut self.phase
        {
            calls.add((1, u32::from(failed)), now);
            *in_a_row = if failed { *in_a_row + 1 } else { 0 };
            return if failed {
                self.judge(now, jitter)
            } else {
                None
            };
        }
        let many = self.many_failures(now);
        match &mut self.phase {
            Phase::Closed { .. } => None,
            Phase::HalfOpen { .. } if pass.is_probe() && !failed => {
                self.close();
                Some(BreakerState::Closed)
            }
            Phase::HalfOpen { next, extent, .. } if pass.is_probe() => {
                let (cool, extent) = (*next, extent.after_call(failed, many));
                Some(self.open(cool, extent, now, jitter))
            }
            // This request went because no other target was left. It does not decide when the
            // breaker closes.
            Phase::HalfOpen { extent, .. } | Phase::Open { extent, .. } => {
                *extent = extent.after_call(failed, many);
                None
            }
        }
    }

    /// Settles the end of an answer that had begun and was settled as good then: the answer is
    /// whole, or was cut.
    pub fn settle_answer_end(
        &mut self,
        pass: BreakerPass,
        outcome: Outcome,
        now: Instant,
        jitter: Jitter,
    ) -> Option<BreakerState> {
        let Phase::Closed { cuts, calls, .. } = &mut self.phase else {
            return None;
        };
        if pass.generation != self.generation {
            return None;
        }
        if !outcome.failed()? {
            *cuts = 0;
            return None;
        }
        *cuts += 1;
        calls.add((0, 1), now);
        self.judge(now, jitter)
    }

    /// Opens the breaker if it is closed, since callers give the target up and no caller gets an
    /// answer. A probe's caller who leaves decides nothing.
    pub fn give_up(
        &mut self,
        pass: BreakerPass,
        now: Instant,
        jitter: Jitter,
    ) -> Option<BreakerState> {
        let is_closed =
            matches!(self.phase, Phase::Closed { .. }) && pass.generation == self.generation;
        is_closed.then(|| self.open(FIRST_COOL_DOWN, Extent::AllFailed, now, jitter))
    }

    /// Returns how many calls ended lately, in whatever state the breaker was.
    pub fn ended_calls(&self, now: Instant) -> u64 {
        self.all_calls.sums(now).0
    }

    /// Returns how many failures in a row are too many.
    fn many_failures(&self, now: Instant) -> u64 {
        u64::from(IN_A_ROW).max(self.ended_calls(now) / IN_A_ROW_OF)
    }

    /// Opens the breaker if it is closed and too many calls have failed.
    fn judge(&mut self, now: Instant, jitter: Jitter) -> Option<BreakerState> {
        let many = self.many_failures(now);
        let Phase::Closed {
            in_a_row,
            cuts,
            calls,
        } = &self.phase
        else {
            return None;
        };
        let (all, failed) = calls.sums(now);
        let too_many =
            all >= u64::from(self.least_calls) && failed as f64 >= FAILED_SHARE * all as f64;
        let nothing_works = u64::from(*in_a_row.max(cuts)) >= many;
        let extent = if nothing_works {
            Extent::AllFailed
        } else {
            Extent::SomeFailed { in_a_row: 0 }
        };
        (nothing_works || too_many).then(|| self.open(FIRST_COOL_DOWN, extent, now, jitter))
    }

    /// Returns the present state.
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { until, .. } if until > now => BreakerState::Open(until),
            Phase::Open { .. } => BreakerState::HalfOpen { probing: false },
            Phase::HalfOpen { probe, .. } => BreakerState::HalfOpen {
                probing: probe.is_some_and(|since| since + PROBE_TIMEOUT > now),
            },
        }
    }

    /// Returns whether the last call was answered, if there was one, and so were most calls of the
    /// last seconds. A request that failed elsewhere can go to such a target: this moves the
    /// request, and does not multiply load.
    pub fn is_sound(&self, now: Instant) -> bool {
        match &self.phase {
            Phase::Closed {
                in_a_row: 0,
                cuts: 0,
                calls,
            } => {
                let (all, failed) = calls.lately(now);
                failed * SOUND_ONE_IN <= all
            }
            Phase::Closed { .. } | Phase::Open { .. } | Phase::HalfOpen { .. } => false,
        }
    }

    /// Returns the calls that the breaker looks back on; none unless the breaker is closed.
    pub fn calls(&self, now: Instant) -> CallCounts {
        let (all, failed) = match &self.phase {
            Phase::Closed { calls, .. } => calls.sums(now),
            Phase::Open { .. } | Phase::HalfOpen { .. } => (0, 0),
        };
        CallCounts { all, failed }
    }

    /// Takes over the state of another process's breaker. That process does not show how much is
    /// broken: it is taken as a part.
    pub fn recall(&mut self, state: BreakerState, now: Instant) {
        self.reset();
        let (cool, extent) = (FIRST_COOL_DOWN, Extent::SomeFailed { in_a_row: 0 });
        match state {
            BreakerState::Closed => {}
            BreakerState::Open(until) => {
                self.phase = Phase::Open {
                    since: now,
                    until,
                    cool,
                    extent,
                }
            }
            BreakerState::HalfOpen { probing } => {
                self.phase = Phase::HalfOpen {
                    next: cool,
                    lent: u32::from(probing),
                    probe: probing.then_some(now),
                    extent,
                };
            }
        }
    }

    /// Closes the breaker and forgets everything.
    pub fn reset(&mut self) {
        self.all_calls = Window::new(WINDOW);
        self.close();
    }

    fn close(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::new_closed();
    }

    fn open(
        &mut self,
        cool: Duration,
        extent: Extent,
        now: Instant,
        jitter: Jitter,
    ) -> BreakerState {
        let until = now + cool.mul_f64(jitter.factor());
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Open {
            since: now,
            until,
            cool,
            extent,
        };
        BreakerState::Open(until)
    }
}

impl Phase {
    fn new_closed() -> Phase {
        Phase::Closed {
            in_a_row: 0,
            cuts: 0,
            calls: Window::new(WINDOW),
        }
    }
}

impl Extent {
    /// Returns the extent after one more call. `many` failures in a row make it whole.
    fn after_call(self, failed: bool, many: u64) -> Extent {
        match self {
            Extent::SomeFailed { in_a_row } if failed && u64::from(in_a_row) + 1 < many => {
                Extent::SomeFailed {
                    in_a_row: in_a_row + 1,
                }
            }
            Extent::SomeFailed { .. } if !failed => Extent::SomeFailed { in_a_row: 0 },
            Extent::SomeFailed { .. } | Extent::AllFailed => Extent::AllFailed,
        }
    }
}

#[cfg(test)]
mod tests;
