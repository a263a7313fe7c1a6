//! An [`AttemptGuard`] stands for one attempt at a target. It tells the target's health how the
//! attempt ended, exactly once. If it is dropped before that, nothing was learnt.

use super::{TargetHealth, Trouble};
use crate::account::breaker::{BreakerPass, BreakerState, Jitter, Outcome};
use crate::account::failure::{Class, Setback};
use crate::account::given_up::{GIVEN_UP, Leave, TargetLoad};
use crate::account::health::Rest;
use crate::base::clock::Clock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// One attempt at a target, until its outcome is known.
#[must_use]
pub struct AttemptGuard {
    health: Arc<TargetHealth>,
    pass: BreakerPass,
    /// A half of the hash of the caller's key.
    key: u32,
    /// True while the attempt waits for its first token.
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
    pub(super) fn new(health: Arc<TargetHealth>, pass: BreakerPass, key: u64) -> AttemptGuard {
        let key = u32::try_from(key >> u32::BITS).unwrap_or_default();
        AttemptGuard {
            health,
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
        let mut memory = self.health.memory.lock();
        memory.peak_mut(stream).record_time(took, now);
        memory.given_up.record_answer(stream, took, now);
        memory.record_answer(now);
        self.stage = Stage::Begun;
        let change = memory
            .breaker
            .settle(self.pass, Outcome::Ok, now, Jitter::NONE);
        memory.record_breaker_change(change, now);
        change
    }

    /// Notes that an answer that had begun is whole.
    pub fn record_whole_answer(&mut self, now: Instant) {
        self.stage = Stage::Ended;
        let mut memory = self.health.memory.lock();
        memory.given_up.record_sign_of_life(now);
        memory
            .breaker
            .settle_answer_end(self.pass, Outcome::Ok, now, Jitter::NONE);
    }

    /// Notes that a probe found the target working again. The time is not noted, since the speed of
    /// a one-token answer says nothing about others.
    pub fn record_good_probe(&mut self, now: Instant) {
        self.stop_waiting();
        self.stage = Stage::Ended;
        let mut memory = self.health.memory.lock();
        memory.record_good_probe();
        memory.given_up.record_sign_of_life(now);
        let change = memory
            .breaker
            .settle(self.pass, Outcome::Ok, now, Jitter::NONE);
        memory.record_breaker_change(change, now);
    }

    /// Notes that the attempt failed after the time `took`. Returns the rest or the breaker's state
    /// that begins with the failure.
    pub fn record_failure(
        &mut self,
        setback: Setback,
        stream: bool,
        took: Duration,
        now: Instant,
    ) -> FailureEffect {
        let has_waited = self.stop_waiting();
        let mut memory = self.health.memory.lock();
        memory.given_up.record_sign_of_life(now);
        // A stream that is cut later was not slow to begin.
        if setback.class == Class::Transient && has_waited {
            memory.peak_mut(stream).record_wait(took, now);
        }
        let (outcome, jitter) = (Outcome::Failed(setback.class), Jitter::draw());
        let breaker = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Begun => memory
                .breaker
                .settle_answer_end(self.pass, outcome, now, jitter),
            Stage::Open | Stage::Ended => memory.breaker.settle(self.pass, outcome, now, jitter),
        };
        memory.record_breaker_change(breaker, now);
        let rest = memory.record_failure(setback, now);
        FailureEffect { breaker, rest }
    }

    /// Notes that the caller left after the time `waited`, and the target had not begun to answer.
    /// A probe of the breaker learns nothing from that.
    pub fn record_leave(&mut self, stream: bool, waited: Duration, now: Instant) -> LeaveEffect {
        self.stop_waiting();
        if self.pass.is_probe() || self.stage != Stage::Open {
            return LeaveEffect::default();
        }
        let awaited = self.health.awaited.load(Ordering::Relaxed);
        let mut memory = self.health.memory.lock();
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
        if consequence.is_given_up {
            memory.peak_mut(stream).record_wait(waited, now);
        }
        let was_given_up = memory.has_failed_with(&[GIVEN_UP]);
        if consequence.stands_behind || (consequence.is_given_up && was_given_up) {
            memory.record_trouble(Trouble {
                outcome: GIVEN_UP,
                status: None,
                detail: None,
                failed_at: now,
            });
        }
        let breaker = consequence
            .opens_breaker
            .then(|| memory.breaker.give_up(self.pass, now, Jitter::draw()))
            .flatten();
        memory.record_breaker_change(breaker, now);
        LeaveEffect {
            is_given_up: consequence.is_given_up,
            is_moved_back: consequence.is_moved_back,
            breaker,
        }
    }

    /// Returns whether the attempt is a probe of the breaker.
    pub fn is_probe(&self) -> bool {
        self.pass.is_probe()
    }

    /// Notes that another attempt was faster: this one would take at least as long as it has
    /// waited.
    pub fn record_lost_race(&mut self, stream: bool, waited: Duration, now: Instant) {
        self.health
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
            self.health.awaited.fetch_sub(1, Ordering::Relaxed);
        }
        awaited
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.stop_waiting();
        if self.stage == Stage::Open {
            self.health.memory.lock().breaker.settle(
                self.pass,
                Outcome::Neutral,
                Clock::now(),
                Jitter::NONE,
            );
        }
    }
}

/// The changes that follow from a caller who left.
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
