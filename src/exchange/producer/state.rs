//! The state of a producer, with what belongs to each: Seeking → Racing → Streaming → Ending →
//! Over.
//!
//! Failed attempts lead from Racing back to Seeking; a whole answer leads at once to Over.
//! **Invariant:** what must outlast a future that is dropped is here, and in no local of that
//! future.

use super::opening::{FailedAttempt, Gained, Opened};
use super::progress::Progress;
use super::reading::Reading;
use crate::account::failure::Failure;
use crate::account::track::AttemptGuard;
use crate::base::memory::Held;
use crate::exchange::attempt::Attempt;
use dialects::neutral::Losses;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;

/// The state.
pub(super) enum ProducerState<'x> {
    /// No attempt runs: a candidate is looked for.
    Seeking {
        /// An answer that is a refusal, for when nobody else answers.
        reserve: Option<Box<Declined<'x>>>,
        /// Since when it waits in the queue.
        waiting: Option<Instant>,
    },
    /// An attempt runs, or two, and no gate is open.
    Racing {
        first: Running<'x>,
        second: Option<Running<'x>>,
        /// An answer that is a refusal, for when nobody else answers.
        reserve: Option<Box<Declined<'x>>>,
    },
    /// A stream runs whose gate is open.
    Streaming(Streaming),
    /// The last good events of a stream that broke are out; its failure comes next.
    Ending(Failure),
    /// The answer is out, or a refusal. The attempt stays until its connection's fate is known.
    Over(Option<Attempt>),
}

/// An attempt whose gate is not open yet.
pub(super) struct Running<'x> {
    pub(super) attempt: Try,
    /// It began beside a slow one.
    pub(super) is_hedge: bool,
    pub(super) losses: Losses,
    pub(super) end: Pin<Box<dyn Future<Output = Result<Opened, FailedAttempt>> + Send + 'x>>,
}

/// A stream that runs.
pub(super) struct Streaming {
    pub(super) attempt: Try,
    pub(super) reading: Reading,
}

/// An answer that is a refusal.
pub(super) struct Declined<'x> {
    pub(super) running: Running<'x>,
    pub(super) gained: Gained,
    pub(super) held: Option<Held>,
    /// Its place in the trail.
    pub(super) noted: usize,
}

impl Declined<'_> {
    /// Frees its place at the account, while it waits for others.
    pub(super) fn release(&mut self) {
        if let Gained::Stream { reading, .. } = &mut self.gained {
            reading.attempt.release();
        }
    }
}

/// A try is an attempt as the producer keeps account of it.
pub(super) struct Try {
    /// The candidate's place.
    pub(super) place: usize,
    pub(super) began: Instant,
    pub(super) guard: AttemptGuard,
    pub(super) progress: Arc<Progress>,
}

impl<'x> ProducerState<'x> {
    /// Tells whether an attempt runs whose gate is not open.
    pub(super) fn is_racing(&self) -> bool {
        matches!(self, ProducerState::Racing { .. })
    }

    /// Tells whether nobody is asked any more.
    pub(super) fn is_committed(&self) -> bool {
        !matches!(self, ProducerState::Seeking { .. } | ProducerState::Racing { .. })
    }

    /// Returns the stream that runs.
    pub(super) fn streaming(&self) -> Option<&Streaming> {
        if let ProducerState::Streaming(live) = self { Some(live) } else { None }
    }

    /// Returns since when it waits in the queue.
    pub(super) fn waiting(&self) -> Option<Instant> {
        if let ProducerState::Seeking { waiting, .. } = self { *waiting } else { None }
    }

    /// Returns the place for an answer that is a refusal, for as long as others may answer.
    pub(super) fn reserve(&mut self) -> Option<&mut Option<Box<Declined<'x>>>> {
        match self {
            ProducerState::Seeking { reserve, .. } | ProducerState::Racing { reserve, .. } => Some(reserve),
            ProducerState::Streaming(_) | ProducerState::Ending(_) | ProducerState::Over(_) => None,
        }
    }

    /// Takes the answer that is a refusal out of its place.
    pub(super) fn take_reserve(&mut self) -> Option<Box<Declined<'x>>> {
        self.reserve()?.take()
    }

    /// Adds an attempt.
    pub(super) fn race(&mut self, running: Running<'x>) {
        match self {
            ProducerState::Seeking { reserve, .. } => {
                *self = ProducerState::Racing { first: running, second: None, reserve: reserve.take() };
            }
            ProducerState::Racing { second, .. } => *second = Some(running),
            // Nobody is asked after the commit.
            ProducerState::Streaming(_) | ProducerState::Ending(_) | ProducerState::Over(_) => {}
        }
    }

    /// Takes all attempts out of the race.
    pub(super) fn stop_race(&mut self) -> impl Iterator<Item = Running<'x>> + use<'x> {
        let mut stopped = [None, None];
        if self.is_racing() {
            let seeking = ProducerState::Seeking { reserve: self.take_reserve(), waiting: None };
            if let ProducerState::Racing { first, second, .. } = std::mem::replace(self, seeking) {
                stopped = [Some(first), second];
            }
        }
        stopped.into_iter().flatten()
    }

    /// Polls the attempts that run, and takes the one that has ended out of the race.
    pub(super) fn poll_race(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(Running<'x>, Result<Opened, FailedAttempt>)> {
        let ProducerState::Racing { first, second, .. } = self else { return Poll::Pending };
        if let Poll::Ready(end) = first.end.as_mut().poll(context) {
            if let Some(other) = second.take() {
                return Poll::Ready((std::mem::replace(first, other), end));
            }
            let alone = self.stop_race().next();
            return alone.map_or(Poll::Pending, |running| Poll::Ready((running, end)));
        }
        if let Some(Poll::Ready(end)) = second.as_mut().map(|running| running.end.as_mut().poll(context))
            && let Some(running) = second.take()
        {
            return Poll::Ready((running, end));
        }
        Poll::Pending
    }
}
