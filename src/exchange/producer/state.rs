//! The state of a producer, with the data of each state: Asking → Streaming → Over. `Ending` comes
//! before `Over` if a stream broke after good events. A whole answer or a refusal leads from Asking
//! to Over.
//!
//! **Invariant:** data that must outlast a dropped future is here, and in no local of that future.

use super::opening::{FailedAttempt, Gained, Opened};
use super::progress::Progress;
use super::reading::Reading;
use crate::account::failure::Failure;
use crate::account::target_health::AttemptGuard;
use crate::exchange::attempt::Attempt;
use crate::plan::Candidate;
use crate::series::{StepMoment, Sums};
use dialects::neutral::Losses;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// The state.
pub(super) enum ProducerState<'x> {
    /// No gate is open.
    Asking {
        race: Race<'x>,
        /// An answer that is a refusal by the model, for when no other answers.
        reserve: Option<Box<Declined<'x>>>,
    },
    /// A stream runs, and its gate is open.
    Streaming(Streaming<'x>),
    /// The last good events of a broken stream have been returned. Its failure comes next.
    Ending(Failure),
    /// The answer, or a refusal, has been returned. The attempt stays until its connection's fate
    /// is known.
    Over(Option<Attempt>),
}

/// The attempts that run before a gate is open.
#[derive(Default)]
pub(super) enum Race<'x> {
    /// No attempt runs: a candidate is looked for.
    #[default]
    Searching,
    /// No attempt runs: since this time the request waits in the queue.
    Waiting(Instant),
    /// One attempt runs.
    One(Running<'x>),
    /// Two attempts run. The second is a hedge of a slow first one.
    Two(Running<'x>, Running<'x>),
}

/// An attempt whose gate is not open yet.
pub(super) struct Running<'x> {
    pub(super) attempt: Try<'x>,
    /// True if the attempt is a hedge of a slow one.
    pub(super) is_hedge: bool,
    /// True if the thoughts of earlier answers were left out.
    pub(super) no_thoughts: bool,
    pub(super) losses: Losses,
    pub(super) end: Pin<Box<dyn Future<Output = Result<Opened, FailedAttempt>> + Send + 'x>>,
}

/// A stream that runs.
pub(super) struct Streaming<'x> {
    pub(super) attempt: Try<'x>,
    pub(super) reading: Reading,
}

/// An answer that is a refusal by the model.
pub(super) struct Declined<'x> {
    pub(super) running: Running<'x>,
    pub(super) opened: Opened,
    /// The attempt's place in the trail.
    pub(super) noted: usize,
    /// What was counted of the attempt for its target.
    pub(super) counted: Counted,
}

/// What is counted of an attempt for its target, and at which moment.
pub(super) struct Counted {
    pub(super) sums: Sums,
    /// The time to the first token, if the answer is a stream.
    pub(super) first_token: Option<Duration>,
    pub(super) moment: StepMoment,
}

impl Declined<'_> {
    /// Frees the place at the account while the answer waits in reserve.
    pub(super) fn release(&mut self) {
        if let Gained::Stream { reading, .. } = &mut self.opened.gained {
            reading.attempt.release();
            reading.give_back_room();
        }
    }
}

/// A [`Try`] is the producer's own data about an attempt.
pub(super) struct Try<'x> {
    pub(super) candidate: &'x Candidate,
    pub(super) began: Instant,
    pub(super) guard: AttemptGuard,
    pub(super) progress: Arc<Progress>,
    /// True if the target failed.
    pub(super) has_failed: bool,
    /// The milliseconds after which the caller gave the target up; 0 if it did not.
    pub(super) given_up_ms: u32,
}

impl<'x> ProducerState<'x> {
    /// Returns whether an attempt runs whose gate is not open.
    pub(super) fn is_racing(&self) -> bool {
        matches!(
            self,
            ProducerState::Asking {
                race: Race::One(_) | Race::Two(..),
                ..
            }
        )
    }

    /// Returns the attempt that runs alone.
    pub(super) fn alone(&self) -> Option<&Running<'x>> {
        if let ProducerState::Asking {
            race: Race::One(alone),
            ..
        } = self
        {
            Some(alone)
        } else {
            None
        }
    }

    /// Returns whether no other candidate will be tried.
    pub(super) fn is_committed(&self) -> bool {
        !matches!(self, ProducerState::Asking { .. })
    }

    /// Returns the stream that runs.
    pub(super) fn streaming(&self) -> Option<&Streaming<'x>> {
        if let ProducerState::Streaming(live) = self {
            Some(live)
        } else {
            None
        }
    }

    /// Returns the time since which the request waits in the queue.
    pub(super) fn waiting(&self) -> Option<Instant> {
        if let ProducerState::Asking {
            race: Race::Waiting(since),
            ..
        } = self
        {
            Some(*since)
        } else {
            None
        }
    }

    /// Returns the race, while no gate is open.
    pub(super) fn race(&mut self) -> Option<&mut Race<'x>> {
        if let ProducerState::Asking { race, .. } = self {
            Some(race)
        } else {
            None
        }
    }

    /// Returns the place for an answer in reserve, while others may answer.
    pub(super) fn reserve(&mut self) -> Option<&mut Option<Box<Declined<'x>>>> {
        if let ProducerState::Asking { reserve, .. } = self {
            Some(reserve)
        } else {
            None
        }
    }

    /// Takes the answer in reserve.
    pub(super) fn take_reserve(&mut self) -> Option<Box<Declined<'x>>> {
        self.reserve()?.take()
    }

    /// Takes all attempts out of the race.
    pub(super) fn stop_race(&mut self) -> impl Iterator<Item = Running<'x>> + use<'x> {
        self.race().map(Race::stop).into_iter().flatten().flatten()
    }
}

impl<'x> Race<'x> {
    /// Adds an attempt.
    pub(super) fn add(&mut self, running: Running<'x>) {
        *self = match std::mem::take(self) {
            Race::Searching | Race::Waiting(_) => Race::One(running),
            Race::One(first) | Race::Two(first, _) => Race::Two(first, running),
        };
    }

    /// Takes all attempts out of the race. A request that waits in the queue keeps waiting.
    fn stop(&mut self) -> [Option<Running<'x>>; 2] {
        match std::mem::take(self) {
            none @ (Race::Searching | Race::Waiting(_)) => {
                *self = none;
                [None, None]
            }
            Race::One(alone) => [Some(alone), None],
            Race::Two(first, second) => [Some(first), Some(second)],
        }
    }

    /// Polls the attempts, and takes the one that has ended out of the race.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(Running<'x>, Result<Opened, FailedAttempt>)> {
        let (end, is_second) = match self {
            Race::Searching | Race::Waiting(_) => return Poll::Pending,
            Race::One(alone) => (ready!(alone.end.as_mut().poll(context)), false),
            Race::Two(first, second) => match first.end.as_mut().poll(context) {
                Poll::Ready(end) => (end, false),
                Poll::Pending => (ready!(second.end.as_mut().poll(context)), true),
            },
        };
        let ended = match std::mem::take(self) {
            Race::Searching | Race::Waiting(_) => return Poll::Pending,
            Race::One(alone) => alone,
            Race::Two(first, second) => {
                let (ended, other) = if is_second {
                    (second, first)
                } else {
                    (first, second)
                };
                *self = Race::One(other);
                ended
            }
        };
        Poll::Ready((ended, end))
    }
}
