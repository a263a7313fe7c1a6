//! The half of an exchange that faces the upstreams: attempts, failover, hedges, and the commit
//! gate. It yields pieces of a standard answer, or what the caller is to be told instead; it never
//! sees the caller.
//!
//! **Invariant:** no byte of a stream is yielded before the gate is open, that is before an event
//! with content, thinking, audio, a tool call, a refusal or a finish has come. Until then any
//! failure may go to the next candidate, and two attempts may race; from then on there is one, and
//! none after it.

pub mod meter;
mod opening;
mod pick;
pub mod probe;
mod racing;
mod reading;
mod recall;
mod telling;

use super::Own;
use super::attempt::Attempt;
use super::backends::Backends;
use super::failover::{Failure, Then};
use crate::account::demand::Demand;
use crate::account::track::Trial;
use crate::alarm::Alarm;
use crate::catalog::Model;
use crate::error::Refusal;
use crate::live::Snapshot;
use crate::memory::Held;
use crate::plan::{Candidate, Reach};
use crate::settled::Tried;
use bytes::Bytes;
use dialects::Answer;
use dialects::Face;
use dialects::Flaws;
use dialects::front::chat::envelope::Envelope;
use dialects::neutral::Losses;
use dialects::neutral::Refused;
use dialects::usage::Source;
use dialects::usage::Usage;
use meter::Meter;
use opening::{Gained, Lost, Opened, Progress, Told};
use reading::Reading;
use std::future::Future;
use std::pin::Pin;
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
    pub face: Arc<Face>,
    /// The model that was asked for.
    pub model: Arc<Model>,
    /// What its requests have in common.
    pub demand: Arc<Demand>,
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// All attempts together may take no longer, as the caller says.
    pub timeout: Option<Duration>,
    /// What the time went into before, for keys that may see the trail.
    pub debug: Option<Before>,
    /// Our id.
    pub request_id: String,
    /// The caller's key: what is kept for the next turn is kept for it.
    pub key: Arc<str>,
    /// What it has used so far.
    pub meter: Arc<Meter>,
    /// The catalog that the exchange began with, kept to its end.
    pub snapshot: Arc<Snapshot>,
}

/// What the time of an exchange went into before anybody was asked.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// From the head's arrival until it was known who asks.
    pub auth: Duration,
    /// From the body's last byte until it was known who may be asked.
    pub plan: Duration,
    /// Our own part of it all.
    pub own: Duration,
}

/// A piece of the answer.
pub enum Piece {
    /// All of a buffered answer.
    Whole(Answer),
    /// Some of a stream.
    Events(Bytes),
    /// The last of a stream, after which it is complete.
    End(Bytes),
}

/// The producer.
pub struct Producer<'x> {
    shared: &'x Backends,
    request: &'x Request,
    own: &'x Own,
    /// The caller's body, until nobody will be asked again.
    body: Bytes,
    /// What the request holds of the budget.
    held: Held,
    /// What the answer holds of it.
    answer_held: Option<Held>,
    /// The attempts so far.
    pub trail: Vec<Tried>,
    /// What it cost so far.
    pub usage: Usage,
    /// The place in `candidates` of the one that answers, or was asked last.
    pub served: Option<usize>,
    /// The upstream's own id.
    pub upstream_request_id: Option<String>,
    /// An upstream may charge for an answer that nobody got.
    pub maybe_billed: bool,
    /// What the request as it went up last does not say of what the caller said, and what the
    /// answer did not do of it.
    pub losses: Losses,
    /// What is wrong with the answer, though it is whole.
    pub flaws: Flaws,
    /// How long it waited for a place, and since when it does.
    queued: Duration,
    waiting: Option<Instant>,
    /// How long the attempt that answers took to have a connection, and to begin to answer.
    timing: (Option<Duration>, Option<Duration>),
    /// Why no further attempt was made, although there was somebody.
    pub not_retried: Option<&'static str>,
    /// Whether a second attempt beside a slow first one was made, and was faster.
    pub hedged: Option<bool>,
    /// It was not even let into the queue.
    pub shed: bool,
    /// Before the gate is open.
    running: Vec<Running<'x>>,
    /// From then on.
    live: Option<Live>,
    /// A whole stream's attempt, until its connection's fate is known.
    lingering: Option<Attempt>,
    /// A failure that came together with the last good events: those are yielded first.
    pending: Option<Failure>,
    /// An answer that says no, for when nobody else says anything.
    declined: Option<Declined<'x>>,
    opened: bool,
    /// No second attempt was begun, or looked for, beside the first.
    may_hedge: bool,
    asked: Vec<bool>,
    reach: Reach,
    /// For whom it is known whether they may be asked at all.
    judged: Option<Reach>,
    tries: usize,
    last: Option<Failure>,
    /// One of those that were asked may answer the next time.
    hope: bool,
    resting: Resting,
    /// When the first of those that were asked and limit their rate will be back.
    limited: Option<Duration>,
    /// Why a candidate that could not do what is asked was passed over: the first one's word.
    unable: Option<Refused>,
    began: Instant,
    alarm: Alarm,
}

/// An attempt whose gate is not open yet.
struct Running<'x> {
    place: usize,
    began: Instant,
    /// It began beside a slow one.
    is_hedge: bool,
    trial: Trial,
    losses: Losses,
    progress: Arc<Progress>,
    end: Pin<Box<dyn Future<Output = Result<Opened, Lost>> + Send + 'x>>,
}

/// A stream that runs.
struct Live {
    place: usize,
    began: Instant,
    trial: Trial,
    progress: Arc<Progress>,
    reading: Reading,
}

/// An answer that says no.
struct Declined<'x> {
    running: Running<'x>,
    gained: Gained,
    held: Option<Held>,
    /// Its place in the trail.
    noted: usize,
}

impl Declined<'_> {
    /// It waits for others: its place at the account is free meanwhile.
    fn release(&mut self) {
        if let Gained::Stream { reading, .. } = &mut self.gained {
            reading.attempt.release();
        }
    }
}

/// An attempt that has ended.
struct Ended {
    place: usize,
    began: Instant,
    trial: Trial,
    progress: Arc<Progress>,
}

/// Why candidates were passed over, for when none is left.
#[derive(Default)]
struct Resting {
    passed: usize,
    for_rate: usize,
    /// When the first of them will be back; not those that only the operator can bring back.
    soonest: Option<Duration>,
    /// When callers are told to come back for one of them: later, where it was out of reach.
    told: Option<Duration>,
}

impl<'x> Producer<'x> {
    /// Nothing is done yet.
    pub fn new(shared: &'x Backends, request: &'x Request, body: Bytes, held: Held, own: &'x Own) -> Producer<'x> {
        Producer {
            shared,
            request,
            own,
            body,
            held,
            answer_held: None,
            trail: Vec::new(),
            usage: Usage::default(),
            served: None,
            upstream_request_id: None,
            maybe_billed: false,
            losses: Losses::default(),
            flaws: Flaws::default(),
            queued: Duration::ZERO,
            waiting: None,
            timing: (None, None),
            not_retried: None,
            hedged: None,
            shed: false,
            running: Vec::new(),
            live: None,
            lingering: None,
            pending: None,
            declined: None,
            opened: false,
            may_hedge: request.model.hedge.is_some(),
            asked: vec![false; request.candidates.len()],
            reach: Reach::Any,
            judged: None,
            tries: 0,
            last: None,
            hope: false,
            resting: Resting::default(),
            limited: None,
            unable: None,
            began: Instant::now(),
            alarm: Alarm::default(),
        }
    }

    /// The candidate that answers.
    pub fn candidate(&self) -> Option<&'x Candidate> {
        self.request.candidates.get(self.served?)
    }

    /// How long it waited for a place.
    pub fn queued(&self) -> Duration {
        self.queued + self.waiting.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// The next piece; or why there is none, and will be none.
    pub async fn next(&mut self) -> Result<Piece, Refusal> {
        if let Some(failure) = self.pending.take() {
            return Err(self.refusal(&failure));
        }
        loop {
            if self.live.is_some() {
                match self.advance().await? {
                    Some(piece) => return Ok(piece),
                    None => continue,
                }
            }
            let begun = if self.running.is_empty() { self.begin().await } else { Ok(true) };
            let step = match begun {
                Ok(true) => match self.race().await {
                    (running, Ok(opened)) => self.adopt(running, opened),
                    (running, Err(lost)) => self.lose(running, lost),
                },
                Ok(false) => {
                    let refusal = self.nobody_left();
                    self.over(refusal)
                }
                Err(refusal) => self.over(refusal),
            };
            if let Some(piece) = step? {
                return Ok(piece);
            }
        }
    }

    /// What was reported or passed on so far, for an exchange that ends early.
    pub fn usage_so_far(&self) -> Usage {
        self.live.as_ref().map_or(self.usage, |live| live.reading.stream.usage_so_far())
    }

    /// Notes the attempts that the caller's leaving, or our going down, put an end to.
    pub fn abandon(&mut self, why: &'static str) {
        self.usage = self.usage_so_far();
        self.maybe_billed |= self.declined.is_some();
        for running in std::mem::take(&mut self.running) {
            // Who leaves pays for what was asked for it: once, though two were asked.
            if why == CALLER_LEFT && self.usage.source == Source::None {
                let Running { place, began, progress, .. } = running;
                self.usage = progress.spent(self.request.face.prompt_bytes).unwrap_or_default();
                self.maybe_billed |= self.usage.source != Source::None;
                self.served = Some(place);
                self.note(place, why, began, None, &progress, None);
            } else {
                self.give_up(running, why);
            }
        }
        if let Some(live) = self.live.take() {
            self.maybe_billed = true;
            self.note(live.place, why, live.began, Some(200), &live.progress, None);
        }
    }

    /// Passes an answer on.
    fn answer(&mut self, running: Running<'x>, gained: Gained, held: Option<Held>) -> Piece {
        let Running { place, began, trial, losses, progress, .. } = running;
        // One that said no is not needed any more: its connection closes.
        self.maybe_billed |= self.declined.take().is_some();
        self.served = Some(place);
        self.losses = losses;
        self.upstream_request_id = progress.id();
        self.timing = progress.timing();
        self.answer_held = held;
        match gained {
            Gained::Whole { piece, told, attempt } => {
                let ended = Ended { place, began, trial, progress };
                self.whole(ended, told, attempt);
                piece
            }
            Gained::Stream { mut reading, .. } => {
                self.commit();
                let events = std::mem::take(&mut reading.out);
                self.live = Some(Live { place, began, trial, progress, reading });
                Piece::Events(events.into())
            }
        }
    }

    /// An answer is whole.
    fn whole(&mut self, Ended { place, began, mut trial, progress }: Ended, told: Told, attempt: Option<Attempt>) {
        let Told { usage, kept, flaws } = told;
        self.commit();
        self.usage = usage;
        self.flaws = flaws;
        flaws.names().for_each(|name| self.losses.add(name));
        self.request.demand.answered(usage.completion / self.request.envelope.choices);
        trial.whole(std::time::Instant::now());
        self.keep(kept);
        self.note(place, "ok", began, Some(200), &progress, None);
        self.lingering = attempt;
    }

    /// From now on nobody will be asked again: a long stream need not hold what it was asked.
    fn commit(&mut self) {
        self.opened = true;
        self.held.shrink(self.body.len());
        self.body = Bytes::new();
    }

    /// An attempt failed before its gate was open, or with its first events.
    fn lose(&mut self, running: Running<'x>, lost: Lost) -> Result<Option<Piece>, Refusal> {
        let Running { place, began, mut trial, losses, progress, .. } = running;
        self.losses = losses;
        self.lost(place, began, &mut trial, &progress, lost)
    }

    fn lost(
        &mut self,
        place: usize,
        began: Instant,
        trial: &mut Trial,
        progress: &Progress,
        Lost { failure, salvage }: Lost,
    ) -> Result<Option<Piece>, Refusal> {
        self.served = Some(place);
        self.upstream_request_id = progress.id();
        let then = failure.then();
        // As long as nothing has left for the caller, somebody else may still give a whole answer.
        let goes_on = !self.opened
            && match then {
                Then::Another => !self.running.is_empty() || self.is_anybody_left(None),
                Then::Larger => self.asks(Reach::TooLong),
                Then::Milder => self.asks(Reach::Declined),
                // Another one that runs may have more time.
                Then::Nobody => failure == Failure::TotalTimeout && !self.running.is_empty(),
            };
        // A whole answer that says no is better than a part of another.
        if let Some(mut reading) = salvage.filter(|_| !goes_on && self.declined.is_none()) {
            // What came whole belongs to the caller, and is what was used.
            self.usage = reading.stream.usage_so_far();
            self.failed(&failure, place, began, trial, progress, false);
            std::mem::take(&mut self.running).into_iter().for_each(|other| self.give_up(other, "not_needed"));
            self.commit();
            let events = std::mem::take(&mut reading.out);
            if events.is_empty() {
                return Err(self.refusal(&failure));
            }
            self.pending = Some(failure);
            return Ok(Some(Piece::Events(events.into())));
        }
        self.failed(&failure, place, began, trial, progress, true);
        match then {
            Then::Another => {}
            Then::Nobody if goes_on => {}
            Then::Larger if goes_on => self.reach = Reach::TooLong,
            Then::Milder if goes_on => self.reach = Reach::Declined,
            Then::Larger | Then::Milder | Then::Nobody => {
                std::mem::take(&mut self.running).into_iter().for_each(|other| self.give_up(other, "not_needed"));
                let refusal = self.refusal(&failure);
                return self.over(refusal);
            }
        }
        self.last = Some(failure);
        Ok(None)
    }

    /// There will be no other answer: one that says no is better than none.
    fn over(&mut self, refusal: Refusal) -> Result<Option<Piece>, Refusal> {
        let Some(Declined { running, gained, held, noted }) = self.declined.take() else { return Err(refusal) };
        // It is told as what it is in the end.
        self.trail.remove(noted);
        if let Some(candidate) = self.request.candidates.get(running.place) {
            self.request.meter.wanted(candidate, &running.progress, &self.trail);
        }
        Ok(Some(self.answer(running, gained, held)))
    }

    /// Whether there is a candidate for such requests.
    fn asks(&self, reach: Reach) -> bool {
        let mut places = self.request.candidates.iter().zip(&self.asked);
        places.any(|(candidate, asked)| !asked && candidate.reach == reach) && self.tries < self.shared.server.attempts
    }

    /// When the time for a candidate is over, that of the attempts before it included.
    fn total(&self, candidate: &Candidate) -> Instant {
        let timeouts = &candidate.timeouts;
        let total = if self.request.envelope.stream { timeouts.total_stream } else { timeouts.total };
        self.began + self.request.timeout.map_or(total, |most| most.min(total))
    }
}
