//! A producer is the half of an exchange that faces the upstreams: attempts, failover, hedges, and
//! the commit gate. It yields pieces of a standard answer, or the refusal that the caller gets
//! instead; it never sees the caller.
//!
//! **Invariant:** no byte of a stream is yielded before the gate is open, that is before an event
//! with content, thinking, audio, a tool call, a refusal or a finish has come. Until then any
//! failure may go to the next candidate, and two attempts may race; from then on there is one, and
//! none after it.

pub mod meter;
mod opening;
mod pick;
pub mod probe;
mod progress;
mod racing;
mod reading;
mod report;
mod state;
mod streaming;
mod thoughts;

use super::OwnTime;
use super::backends::Backends;
use super::choose::Search;
use crate::account::demand::Demand;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::memory::Held;
use crate::catalog::Model;
use crate::error::Refusal;
use crate::live::Snapshot;
use crate::plan::{Candidate, Reach};
use crate::settled::{Attempts, Served, Times};
use bytes::Bytes;
use dialects::front::Envelope;
use dialects::neutral::Losses;
use dialects::usage::{Source, Usage};
use dialects::{Answer, AnswerHeader};
use meter::Meter;
use opening::{Gained, Opened, WholeAnswer};
use state::{Declined, ProducerState, Race, Running, Streaming, Try};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The trail's word for attempts that ended because the caller did.
pub const CALLER_LEFT: &str = "client_left";

/// What is to be answered, and by whom it may be.
pub struct Request {
    /// What was read of the caller's body.
    pub envelope: Envelope,
    /// What every answer shows.
    pub face: Arc<AnswerHeader>,
    /// The model that was asked for.
    pub model: Arc<Model>,
    /// What the requests for the model have in common.
    pub demand: Arc<Demand>,
    /// Who may be asked, the best first.
    pub candidates: Vec<Candidate>,
    /// The most time for all attempts together, as the caller says.
    pub timeout: Option<Duration>,
    /// Where the time went before, for keys that may see the trail.
    pub debug: Option<Times>,
    /// Our id for the exchange.
    pub request_id: String,
    /// The caller's key: thoughts are kept for this key only.
    pub key: Arc<str>,
    /// Knows what the exchange has used so far.
    pub meter: Arc<Meter>,
    /// The catalog that the exchange began with, kept to its end.
    pub snapshot: Arc<Snapshot>,
}

/// A piece of the answer.
pub enum Piece {
    /// All of a buffered answer.
    Whole(Answer),
    /// Some events of a stream.
    Events(Bytes),
    /// The last events of a stream, which is complete with them.
    End(Bytes),
}

/// The producer.
pub struct Producer<'x> {
    shared: &'x Backends,
    request: &'x Request,
    own: &'x OwnTime,
    began: Instant,
    alarm: Alarm,
    memory: ExchangeMemory,
    search: Search,
    failures: Failures,
    /// For which requests it was judged who can be asked at all.
    judged: Option<Reach>,
    /// How long it waited for a place before.
    queued: Duration,
    /// No second attempt was begun, or looked for, beside the first.
    may_hedge: bool,
    state: ProducerState<'x>,
    /// The place in `candidates` of the one that answers, or was asked last.
    asked: Option<usize>,
    /// How long the attempt that answers took to have a connection, and to begin to answer.
    timing: (Option<Duration>, Option<Duration>),
    /// What was used.
    usage: Usage,
    /// The attempts that have ended.
    attempts: Attempts,
    /// Who answers, and how.
    served: Served,
}

/// What the exchange holds in memory.
struct ExchangeMemory {
    /// The caller's body, until nobody will be asked again.
    body: Bytes,
    /// What the request holds of the budget.
    request: Held,
    /// What a buffered answer holds of it.
    answer: Option<Held>,
}

/// What the attempts that failed have shown.
#[derive(Default)]
struct Failures {
    last: Option<Failure>,
    /// One of those who failed may answer the next time.
    hope: bool,
    /// When the first of those who limit their rate will be back.
    limited: Option<Duration>,
}

impl<'x> Producer<'x> {
    /// Returns a producer that has done nothing yet.
    pub fn new(shared: &'x Backends, request: &'x Request, body: Bytes, held: Held, own: &'x OwnTime) -> Producer<'x> {
        Producer {
            shared,
            request,
            own,
            began: Instant::now(),
            alarm: Alarm::default(),
            memory: ExchangeMemory { body, request: held, answer: None },
            search: Search::new(request.candidates.len(), shared.server.attempts),
            failures: Failures::default(),
            judged: None,
            queued: Duration::ZERO,
            may_hedge: request.model.hedge.is_some(),
            state: ProducerState::Asking { race: Race::Nobody, reserve: None },
            asked: None,
            timing: (None, None),
            usage: Usage::default(),
            attempts: Attempts::default(),
            served: Served::default(),
        }
    }

    /// Returns the candidate that answers.
    pub fn candidate(&self) -> Option<&'x Candidate> {
        self.request.candidates.get(self.asked?)
    }

    /// Returns how long it waited for a place.
    pub fn queued(&self) -> Duration {
        self.queued + self.state.waiting().map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Returns the next piece; or why there is none, and will be none.
    pub async fn next(&mut self) -> Result<Piece, Refusal> {
        loop {
            let step = match &self.state {
                ProducerState::Asking { race: Race::Nobody | Race::Waiting(_), .. } => self.seek().await,
                ProducerState::Asking { race: Race::One(_) | Race::Two(..), .. } => self.race().await,
                ProducerState::Streaming(_) => self.advance().await,
                ProducerState::Ending(failure) => {
                    let refusal = self.refusal(failure);
                    self.over(refusal)
                }
                ProducerState::Over(_) => {
                    let refusal = self.nobody_left();
                    self.over(refusal)
                }
            };
            if let Some(piece) = step? {
                return Ok(piece);
            }
        }
    }

    /// Returns what was reported or passed on so far, for an exchange that ends early.
    pub fn usage_so_far(&self) -> Usage {
        self.state.streaming().map_or(self.usage, |live| live.reading.stream.usage_so_far())
    }

    /// Ends the attempts that run, and notes why: the caller left, or the gateway goes down.
    pub fn abandon(&mut self, why: &'static str) {
        self.usage = self.usage_so_far();
        self.attempts.maybe_billed |= self.state.take_reserve().is_some();
        for running in self.state.stop_race() {
            // A caller who leaves pays for what was asked for it: once, though two were asked.
            if why == CALLER_LEFT && self.usage.source == Source::None {
                let attempt = &running.attempt;
                self.usage = attempt.progress.spent(self.request.face.prompt_bytes).unwrap_or_default();
                self.attempts.maybe_billed |= self.usage.source != Source::None;
                self.asked = Some(attempt.place);
                self.note(attempt, why, None, None);
            } else {
                self.give_up(running, why);
            }
        }
        if self.state.streaming().is_some()
            && let ProducerState::Streaming(live) = std::mem::replace(&mut self.state, ProducerState::Over(None))
        {
            self.attempts.maybe_billed = true;
            self.note(&live.attempt, why, Some(200), None);
        }
    }

    /// Returns what the attempts came to, and who answered.
    pub fn outcome(&mut self) -> (Attempts, Served) {
        if let Some(candidate) = self.candidate() {
            self.served.account = Some(candidate.place.account.id.clone());
            self.served.upstream_model = Some(candidate.upstream_model.clone());
        }
        (std::mem::take(&mut self.attempts), std::mem::take(&mut self.served))
    }

    /// Returns the fields of the request that the upstream is not told.
    pub fn losses(&self) -> &Losses {
        &self.served.losses
    }

    /// Notes whose answer or failure the caller gets, as far as is known.
    fn answers(&mut self, attempt: &Try, losses: Losses) {
        self.asked = Some(attempt.place);
        self.served.losses = losses;
        self.served.upstream_request_id = attempt.progress.lock().id.clone();
    }

    /// Passes an answer on.
    fn answer(&mut self, running: Running<'x>, Opened { gained, held, .. }: Opened) -> Piece {
        let Running { attempt, losses, .. } = running;
        // An answer in reserve is not needed any more: its connection closes.
        self.attempts.maybe_billed |= self.state.take_reserve().is_some();
        self.answers(&attempt, losses);
        self.timing = attempt.progress.timing();
        self.memory.answer = held;
        match gained {
            Gained::Whole(whole) => self.whole(attempt, whole),
            Gained::Stream { mut reading, .. } => {
                let events = std::mem::take(&mut reading.out);
                self.commit(ProducerState::Streaming(Streaming { attempt, reading }));
                Piece::Events(events.into())
            }
        }
    }

    /// Takes down that an answer is whole, and returns its last piece.
    fn whole(&mut self, mut attempt: Try, whole: WholeAnswer) -> Piece {
        let WholeAnswer { piece, usage, kept, flaws, attempt: connection } = whole;
        self.usage = usage;
        self.served.flaws = flaws;
        self.request.envelope.front.flaws(flaws).for_each(|name| self.served.losses.add(name));
        self.request.demand.answered(usage.completion / self.request.envelope.choices);
        attempt.guard.whole(std::time::Instant::now());
        self.keep(kept);
        self.note(&attempt, "ok", Some(200), None);
        self.commit(ProducerState::Over(connection));
        piece
    }

    /// Enters a state in which nobody is asked again: a long stream need not hold what it was
    /// asked.
    fn commit(&mut self, state: ProducerState<'x>) {
        self.state = state;
        self.memory.request.shrink(self.memory.body.len());
        self.memory.body = Bytes::new();
    }

    /// Ends the exchange with a refusal; an answer that is one itself is better than that.
    fn over(&mut self, refusal: Refusal) -> Result<Option<Piece>, Refusal> {
        let Some(declined) = self.state.take_reserve() else {
            self.state = ProducerState::Over(None);
            return Err(refusal);
        };
        let Declined { running, opened, noted } = *declined;
        // The trail notes it again by how it ends.
        self.attempts.trail.remove(noted);
        if let Some(candidate) = self.request.candidates.get(running.attempt.place) {
            self.request.meter.wanted(candidate, &running.attempt.progress, &self.attempts.trail);
        }
        Ok(Some(self.answer(running, opened)))
    }

    /// Returns when the time for a candidate is over, that of the attempts before it included.
    fn total(&self, candidate: &Candidate) -> Instant {
        let timeouts = &candidate.timeouts;
        let total = if self.request.envelope.stream { timeouts.total_stream } else { timeouts.total };
        self.began + self.request.timeout.map_or(total, |most| most.min(total))
    }
}
