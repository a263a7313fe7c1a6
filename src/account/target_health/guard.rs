//! An [`AttemptGuard`] stands for one attempt at a target. It tells the target's health how the
//! attempt ended, exactly once. If it is dropped before that, nothing was learnt.

use super::{TargetHealth, Trouble};
use crate::account::breaker::{BreakerPass, BreakerState, NOT_DRAWN, Outcome};
use crate::account::failure::{Class, REFUSED_COOL, Setback, overloaded_for, rate_cool};
use crate::account::given_up::{GIVEN_UP, Leave, TargetLoad};
use crate::account::health::Rest;
use crate::base::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// One attempt at a target, until its outcome is known.
#[must_use]
pub struct AttemptGuard {
    track: Arc<TargetHealth>,
    pass: BreakerPass,
    /// A half of the hash of the caller's key.
    key: u32,
    awaits: bool,
    stage: Stage,
}

/// The part of an attempt that the target's health knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing is known.
    Open,
    /// The attempt has begun to answer.
    Begun,
    /// The outcome is known.
    Ended,
}

/// Stands for the hash of a caller's key where no caller has sent the request.
pub const NO_KEY: u64 = 0;

impl AttemptGuard {
    /// Makes the guard of an attempt that begins.
    pub(super) fn new(track: Arc<TargetHealth>, pass: BreakerPass, key: u64) -> AttemptGuard {
        let key = u32::try_from(key >> u32::BITS).unwrap_or_default();
        AttemptGuard {
            track,
            pass,
            key,
            awaits: true,
            stage: Stage::Open,
        }
    }

    /// Notes that the target began to answer, or answered, after the time `took`. Returns the
    /// breaker's state if it changed.
    pub fn record_answer(
        &mut self,
        stream: bool,
        took: Duration,
        now: Instant,
    ) -> Option<BreakerState> {
        self.stop_waiting();
        let mut memory = self.track.memory.lock();
        memory.peak_mut(stream).record_time(took, now);
        memory.given_up.record_answer(stream, took, now);
        // An answer shows that the account serves the model.
        if memory.refused.is_some_and(|until| until > now) {
            memory.back = Some(now);
        }
        (memory.refusals, memory.refused, memory.overloaded) = (0, None, None);
        memory.answered = Some(now);
        memory.is_mended = true;
        if let Some(hint) = &mut memory.hint {
            hint.refuted = true;
        }
        self.stage = Stage::Begun;
        let change = memory
            .breaker
            .settle(self.pass, Outcome::Ok, now, fastrand::f64());
        memory.turned(change, now);
        change
    }

    /// Notes that an answer that had begun is whole.
    pub fn record_whole_answer(&mut self, now: Instant) {
        self.stage = Stage::Ended;
        self.track
            .memory
            .lock()
            .breaker
            .settle_end(self.pass, Outcome::Ok, now, NOT_DRAWN);
    }

    /// Notes that a probe found the target working again. The time is not noted, since the speed of
    /// a one-token answer says nothing about others.
    pub fn is_back(&mut self, now: Instant) {
        self.stop_waiting();
        self.stage = Stage::Ended;
        let mut memory = self.track.memory.lock();
        (memory.is_mended, memory.refusals) = (true, 0);
        let change = memory
            .breaker
            .settle(self.pass, Outcome::Ok, now, NOT_DRAWN);
        memory.turned(change, now);
    }

    /// Notes that the attempt failed after the time `took`. Returns the rest or the breaker's state
    /// that begins with the failure.
    pub fn record_failure(
        &mut self,
        Setback { class, retry_after }: Setback,
        stream: bool,
        took: Duration,
        now: Instant,
    ) -> FailureEffect {
        let first = self.stop_waiting();
        let mut memory = self.track.memory.lock();
        // A stream that is cut later was not slow to begin.
        if class == Class::Transient && first {
            memory.peak_mut(stream).record_wait(took, now);
        }
        let outcome = Outcome::Failed(class);
        let breaker = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Begun => memory
                .breaker
                .settle_end(self.pass, outcome, now, fastrand::f64()),
            Stage::Open | Stage::Ended => {
                memory
                    .breaker
                    .settle(self.pass, outcome, now, fastrand::f64())
            }
        };
        memory.turned(breaker, now);
        let rested = memory.rest(now).is_some();
        match class {
            // A longer rest is never cut short by a later, milder failure.
            Class::Rate => memory.limited = memory.limited.max(Some(now + rate_cool(retry_after))),
            Class::Overloaded => {
                memory.overloaded = memory
                    .overloaded
                    .max(Some(now + overloaded_for(retry_after)))
            }
            Class::Refused => {
                memory.refusals += 1;
                if memory.is_unfit() {
                    memory.refused = Some(now + REFUSED_COOL);
                }
            }
            Class::Credential => memory.answered = None,
            Class::Caller | Class::Transient | Class::Ours => {}
        }
        let rest = memory.rest(now).filter(|_| !rested);
        if rest.is_some() {
            memory.rested = Some(now);
        }
        FailureEffect { breaker, rest }
    }

    /// Notes that the caller left after the time `waited`, and the target had not begun to answer.
    /// A probe of the breaker learns nothing from that.
    pub fn record_leave(&mut self, stream: bool, waited: Duration, now: Instant) -> LeaveEffect {
        self.stop_waiting();
        if self.pass.is_probe() || self.stage != Stage::Open {
            return LeaveEffect::default();
        }
        let awaited = self.track.awaited.load(Ordering::Relaxed);
        let mut memory = self.track.memory.lock();
        let load = TargetLoad {
            awaited,
            calls: memory.breaker.ended_calls(now),
        };
        let began = now.checked_sub(waited).unwrap_or(now);
        let consequence = memory.given_up.record_leave(
            Leave {
                key: self.key.into(),
                stream,
                began,
            },
            load,
            now,
        );
        if consequence.counts {
            memory.peak_mut(stream).record_wait(waited, now);
        }
        let was_given_up = memory
            .trouble()
            .is_some_and(|trouble| trouble.outcome == GIVEN_UP);
        if consequence.is_behind || (consequence.counts && was_given_up) {
            memory.trouble = Some(Box::new(Trouble {
                outcome: GIVEN_UP,
                detail: None,
                failed_at: now,
            }));
            memory.is_mended = false;
        }
        let breaker = consequence
            .breaks
            .then(|| memory.breaker.give_up(self.pass, now, fastrand::f64()))
            .flatten();
        memory.turned(breaker, now);
        LeaveEffect {
            is_given_up: consequence.counts,
            is_moved_back: consequence.is_news,
            breaker,
        }
    }

    /// Returns whether the attempt is a probe of the breaker.
    pub fn is_probe(&self) -> bool {
        self.pass.is_probe()
    }

    /// Notes that another attempt was faster: this one would take at least as long as it has
    /// waited.
    pub fn outrun(&mut self, stream: bool, waited: Duration, now: Instant) {
        self.track
            .memory
            .lock()
            .peak_mut(stream)
            .record_wait(waited, now);
    }

    /// Notes that the attempt no longer waits for its first token. Returns whether it waited until
    /// now.
    fn stop_waiting(&mut self) -> bool {
        let awaited = std::mem::replace(&mut self.awaits, false);
        if awaited {
            self.track.awaited.fetch_sub(1, Ordering::Relaxed);
        }
        awaited
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.stop_waiting();
        if self.stage == Stage::Open {
            self.track.memory.lock().breaker.settle(
                self.pass,
                Outcome::Neutral,
                Clock::now(),
                NOT_DRAWN,
            );
        }
    }
}

/// What changed because a caller left.
#[derive(Debug, Clone, Copy, Default)]
pub struct LeaveEffect {
    /// True if the caller has given the target up: it waited for much longer than usual.
    pub is_given_up: bool,
    /// True if the target stands behind the others from now on.
    pub is_moved_back: bool,
    /// The breaker's new state, if it changed.
    pub breaker: Option<BreakerState>,
}

/// The changes that a failure caused, for the log.
#[derive(Debug, Clone, Copy)]
pub struct FailureEffect {
    /// The breaker's new state, if it changed.
    pub breaker: Option<BreakerState>,
    /// The rest that begins, if there is one.
    pub rest: Option<Rest>,
}
