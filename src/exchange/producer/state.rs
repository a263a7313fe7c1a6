//! The state of a producer, with what belongs to each: Asking → Streaming → Ending → Over. A whole
//! answer leads from Asking at once to Over.
//!
//! **Invariant:** what must outlast a future that is dropped is here, and in no local of that
//! future.

use super::opening::{FailedAttempt, Gained, Opened};
use super::progress::Progress;
use super::reading::Reading;
use crate::account::failure::Failure;
use crate::account::track::AttemptGuard;
use crate::exchange::attempt::Attempt;
use dialects::neutral::Losses;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// The state.
#[expect(clippy::large_enum_variant, reason = "one for each exchange, and a box would be an allocation")]
pub(super) enum ProducerState<'x> {
    /// No gate is open.
    Asking {
        race: Race<'x>,
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

/// The attempts that run before a gate is open.
#[derive(Default)]
pub(super) enum Race<'x> {
    /// None: a candidate is looked for.
    #[default]
    Nobody,
    /// None: since this time the request waits in the queue.
    Waiting(Instant),
    /// One.
    One(Running<'x>),
    /// The second began beside a slow first one.
    Two(Running<'x>, Running<'x>),
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
    pub(super) opened: Opened,
    /// Its place in the trail.
    pub(super) noted: usize,
}

impl Declined<'_> {
    /// Frees its place at the account, while it waits for others.
    pub(super) fn release(&mut self) {
        if let Gained::Stream { reading, .. } = &mut self.opened.gained {
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
        matches!(self, ProducerState::Asking { race: Race::One(_) | Race::Two(..), .. })
    }

    /// Tells whether nobody is asked any more.
    pub(super) fn is_committed(&self) -> bool {
        !matches!(self, ProducerState::Asking { .. })
    }

    /// Returns the stream that runs.
    pub(super) fn streaming(&self) -> Option<&Streaming> {
        if let ProducerState::Streaming(live) = self { Some(live) } else { None }
    }

    /// Returns since when the request waits in the queue.
    pub(super) fn waiting(&self) -> Option<Instant> {
        if let ProducerState::Asking { race: Race::Waiting(since), .. } = self { Some(*since) } else { None }
    }

    /// Returns the race, for as long as no gate is open.
    pub(super) fn race(&mut self) -> Option<&mut Race<'x>> {
        if let ProducerState::Asking { race, .. } = self { Some(race) } else { None }
    }

    /// Returns the place for an answer that is a refusal, for as long as others may answer.
    pub(super) fn reserve(&mut self) -> Option<&mut Option<Box<Declined<'x>>>> {
        if let ProducerState::Asking { reserve, .. } = self { Some(reserve) } else { None }
    }

    /// Takes the answer that is a refusal out of its place.
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
            Race::Nobody | Race::Waiting(_) => Race::One(running),
            Race::One(first) | Race::Two(first, _) => Race::Two(first, running),
        };
    }

    /// Takes all attempts out of the race. Who waits in the queue goes on waiting.
    fn stop(&mut self) -> [Option<Running<'x>>; 2] {
        match std::mem::take(self) {
            none @ (Race::Nobody | Race::Waiting(_)) => {
                *self = none;
                [None, None]
            }
            Race::One(alone) => [Some(alone), None],
            Race::Two(first, second) => [Some(first), Some(second)],
        }
    }

    /// Polls the attempts, and takes the one that has ended out of the race.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(Running<'x>, Result<Opened, FailedAttempt>)> {
        let (end, is_second) = match self {
            Race::Nobody | Race::Waiting(_) => return Poll::Pending,
            Race::One(alone) => (ready!(alone.end.as_mut().poll(context)), false),
            Race::Two(first, second) => match first.end.as_mut().poll(context) {
                Poll::Ready(end) => (end, false),
                Poll::Pending => (ready!(second.end.as_mut().poll(context)), true),
            },
        };
        let ended = match std::mem::take(self) {
            Race::Nobody | Race::Waiting(_) => return Poll::Pending,
            Race::One(alone) => alone,
            Race::Two(first, second) => {
                let (ended, other) = if is_second { (second, first) } else { (first, second) };
                *self = Race::One(other);
                ended
            }
        };
        Poll::Ready((ended, end))
    }
}
