//! A [`Producer`] is the half of an exchange that faces the upstreams: attempts, failover, hedges,
//! and the commit. It returns pieces of a standard answer, or the refusal that the caller gets
//! instead. It never sees the caller.
//!
//! The gate of an attempt opens with its first event that has content, thinking, audio, a tool
//! call, a refusal or a finish. **Invariant:** no byte of a stream is returned before a gate is
//! open. Until then any failure may lead to the next candidate, and two attempts may race. From
//! then on there is one attempt, and none after it.
//!
//! The methods of [`Producer`] are in the files of their stages, and the data of each stage is in
//! `state`:
//!
//! | Stage | File | Methods |
//! |---|---|---|
//! | a search for a candidate, or a wait in the queue | `pick` | `pick`, `wait`, `start_attempt` |
//! | attempts run, and no gate is open | `racing` | `race`, `adopt`, `lose`, `give_up` |
//! | the commit: an answer or a refusal is passed on | here | `answer`, `whole`, `commit`, `over` |
//! | a stream runs, to its end | `streaming` | `advance`, `salvage`, `keep_connection` |
//! | the exchange ends early | here, `leaving` | `abandon`, `end`, `leave` |
//!
//! What belongs to no stage: `report` notes how attempts ended and makes refusals, `slices` runs a
//! producer for each slice of a request, `thoughts` and `items` keep parts of answers for later
//! requests.

mod body_reading;
mod items;
mod leaving;
pub mod meter;
mod opening;
mod pick;
pub mod probe;
mod progress;
mod racing;
mod reading;
mod report;
mod request;
#[cfg(test)]
mod sizes;
pub mod slices;
mod state;
mod streaming;
mod thoughts;

use self::progress::AttemptTimes;
use super::OwnTime;
use super::admission::CallersRequest;
use super::backends::Backends;
use super::choose::Search;
use super::upload::Upload;
use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::memory::Held;
use crate::conf::price::Usd;
use crate::error::Refusal;
use crate::plan::{Candidate, Reach};
use crate::settled::{Attempts, Served, Tried};
use bytes::Bytes;
use dialects::front::AnswerSoFar;
use dialects::neutral::{Losses, Unfinished};
use dialects::usage::{Source, Usage};
use dialects::{Answer, AnswerHeader};
use http::HeaderValue;
use opening::{Gained, Opened, WholeAnswer};
pub use request::{KeyRights, Request, Sent};
use slices::Sliced;
use state::{Counted, Declined, ProducerState, Race, Running, Streaming, Try};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The trail's word for attempts that ended because the caller left.
pub const CALLER_LEFT: &str = "client_left";

/// An answer that cannot go on.
pub struct BrokenAnswer {
    header: Arc<AnswerHeader>,
    so_far: Unfinished,
}

impl BrokenAnswer {
    /// Returns what its caller has of it. `has_begun` says whether some of it was written.
    pub fn seen_by_caller(&self, has_begun: bool) -> AnswerSoFar<'_> {
        let Unfinished { id, events, echo } = &self.so_far;
        let id = id.as_deref().unwrap_or(&self.header.id);
        AnswerSoFar {
            id,
            events: *events,
            has_begun,
            header: Some(&self.header),
            echo: echo.as_deref(),
        }
    }
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

/// The producer of one exchange.
pub struct Producer<'x> {
    shared: &'x Backends,
    request: &'x Request,
    own_time: &'x OwnTime,
    began: Instant,
    alarm: Alarm,
    memory: ExchangeMemory,
    search: Search<'x>,
    failures: Failures,
    /// The reach for which the candidates that can never be tried were struck out.
    struck_for_reach: Option<Reach>,
    /// True if an upstream has refused the thoughts of earlier answers, so that they are left out.
    no_thoughts: bool,
    /// The time that the exchange waited for a place before.
    queued: Duration,
    /// True while a hedge of the first attempt may begin: the model hedges, and none was looked for
    /// yet.
    may_hedge: bool,
    state: ProducerState<'x>,
    /// The candidate that answers, or was tried last.
    last_candidate: Option<&'x Candidate>,
    /// The times of the answering attempt.
    times: AttemptTimes,
    /// The usage of the exchange.
    usage: Usage,
    /// The part of a broken answer that the caller has: its id and its events.
    shown_so_far: Unfinished,
    /// The attempts that have ended.
    attempts: Attempts,
    /// The account that answers, and what is known of its answer.
    served: Served,
    /// The slices of the request, if it was cut into some.
    sliced: Sliced<'x>,
}

/// The memory that the exchange holds.
struct ExchangeMemory {
    /// The caller's body, until no other candidate will be tried.
    body: Bytes,
    /// The caller's form, for as long.
    upload: Option<Arc<Upload>>,
    /// The part of the budget that the request holds.
    request: Held,
    /// The part of the budget that a buffered answer holds.
    answer: Option<Held>,
}

/// The conclusions from the attempts that failed.
#[derive(Default)]
struct Failures {
    last_failure: Option<Failure>,
    /// True if a candidate that failed may answer the next time.
    may_recover: bool,
    /// The time until the first candidate with a rate limit is back.
    limited: Option<Duration>,
}

impl<'x> Producer<'x> {
    /// Returns what is written for a candidate.
    fn callers_request(&self) -> CallersRequest<'_> {
        let request = self.request;
        CallersRequest {
            body: &self.memory.body,
            envelope: &request.envelope,
            catalog: &request.snapshot.catalog,
            permissions: &request.rights.permissions,
            model_limits: &request.rights.model_limits,
        }
    }

    /// Makes a producer that has done nothing yet.
    pub fn new(
        shared: &'x Backends,
        request: &'x Request,
        sent: Sent,
        own: &'x OwnTime,
    ) -> Producer<'x> {
        let Sent {
            body,
            upload,
            memory: held,
        } = sent;
        Producer {
            shared,
            request,
            own_time: own,
            began: own.now(),
            alarm: Alarm::default(),
            memory: ExchangeMemory {
                body,
                upload: upload.map(Arc::new),
                request: held,
                answer: None,
            },
            search: Search::new(&request.candidates, shared.server.attempts),
            failures: Failures::default(),
            struck_for_reach: None,
            no_thoughts: false,
            queued: Duration::ZERO,
            may_hedge: request.model.hedge.is_some()
                && request.envelope.front.only_endpoint.is_none(),
            state: ProducerState::Asking {
                race: Race::Searching,
                reserve: None,
            },
            last_candidate: None,
            times: AttemptTimes::default(),
            usage: Usage::default(),
            shown_so_far: Unfinished::default(),
            attempts: Attempts::default(),
            served: Served::default(),
            sliced: Sliced::default(),
        }
    }

    /// Returns the candidate that answers.
    pub fn candidate(&self) -> Option<&'x Candidate> {
        self.last_candidate
    }

    /// Returns the type of the answer, if it passes as it comes.
    pub fn content_type(&self) -> Option<&HeaderValue> {
        self.served.content_type.as_ref()
    }

    /// Returns the time that the exchange has waited for a place.
    pub fn queued(&self) -> Duration {
        self.queued
            + self
                .state
                .waiting()
                .map(|since| since.elapsed())
                .unwrap_or_default()
    }

    /// Returns the next piece, or the refusal if there is none and will be none.
    pub async fn next(&mut self) -> Result<Piece, Refusal> {
        match self.sliced.slices {
            None => self.next_uncut().await,
            Some(slices) => self.join(slices).await,
        }
    }

    /// Returns the next piece of the answer to a request that is not cut into slices.
    async fn next_uncut(&mut self) -> Result<Piece, Refusal> {
        loop {
            let step = match &self.state {
                ProducerState::Asking {
                    race: Race::Searching | Race::Waiting(_),
                    ..
                } => self.begin_next_attempt().await,
                ProducerState::Asking {
                    race: Race::One(_) | Race::Two(..),
                    ..
                } => self.race().await,
                ProducerState::Streaming(_) => self.advance().await,
                ProducerState::Ending(failure) => {
                    let refusal = self.refusal(failure);
                    self.over(refusal)
                }
                ProducerState::Over(_) => {
                    let refusal = self.no_candidate_left();
                    self.over(refusal)
                }
            };
            if let Some(piece) = step? {
                return Ok(piece);
            }
        }
    }

    /// Returns the usage that was reported or passed on so far, for an exchange that ends early.
    pub fn usage_so_far(&self) -> Usage {
        self.state
            .streaming()
            .map_or(self.usage, |live| live.reading.stream.usage_so_far())
    }

    /// Returns the cost of what was used, if the price is known.
    pub fn cost(&self, usage: &Usage) -> Option<Usd> {
        let price = || self.candidate()?.price;
        self.sliced
            .cost
            .unwrap_or_else(|| price().map(|price| price.cost(usage)))
    }

    /// Returns what the caller knows of an answer that cannot go on.
    pub fn answer_so_far(&self) -> BrokenAnswer {
        let so_far = self.state.streaming().map_or_else(
            || self.shown_so_far.clone(),
            |live| live.reading.stream.so_far(),
        );
        BrokenAnswer {
            header: self.request.answer_header.clone(),
            so_far,
        }
    }

    /// Ends the attempts that run, and notes why: the caller left, or the gateway shuts down.
    pub fn abandon(&mut self, why: &'static str) {
        if self.sliced.slices.take().is_some() {
            return self.gather_slices(why);
        }
        self.end(why, true);
    }

    /// Ends the attempts that run. If the caller left and `notifies_targets`, this is noted at the
    /// targets that let the caller wait. Returns whether there was one.
    fn end(&mut self, why: &'static str, notifies_targets: bool) -> bool {
        let mut is_told = false;
        self.usage = self.usage_so_far();
        if let Some(live) = self.state.streaming() {
            self.shown_so_far = live.reading.stream.so_far();
        }
        self.attempts.maybe_billed |= self.state.take_reserve().is_some();
        for mut running in self.state.stop_race() {
            let is_left = why == CALLER_LEFT;
            let why = if is_left && notifies_targets {
                self.leave(&mut running.attempt)
            } else {
                why
            };
            is_told |= is_left && notifies_targets;
            // A caller who leaves pays for what was asked for it: once, though two attempts run.
            if is_left && self.usage.source == Source::None {
                let attempt = &running.attempt;
                self.usage = attempt
                    .progress
                    .spent(self.request.answer_header.prompt_bytes)
                    .unwrap_or_default();
                self.attempts.maybe_billed |= self.usage.source != Source::None;
                self.last_candidate = Some(attempt.candidate);
                self.note(attempt, why, None, None);
            } else {
                self.give_up(running, why);
            }
        }
        if self.state.streaming().is_some()
            && let ProducerState::Streaming(live) =
                std::mem::replace(&mut self.state, ProducerState::Over(None))
        {
            self.attempts.maybe_billed = true;
            self.measure();
            self.note(&live.attempt, why, Some(200), None);
        }
        is_told
    }

    /// Notes the length of an answer, be it whole or not, for what later requests reserve.
    fn measure(&self) {
        let writes = self
            .last_candidate
            .is_some_and(|candidate| candidate.health.endpoint.writes());
        if writes && self.usage.source != Source::None {
            let each = self.usage.completion / self.request.envelope.choices.written.max(1);
            self.request.demand.answered(each, self.own_time.clock());
        }
    }

    /// Returns the attempts, and who answered.
    pub fn outcome(&mut self) -> (Attempts, Served) {
        if let Some(candidate) = self.candidate() {
            self.served.account = Some(candidate.account().id.clone());
            self.served.upstream_model = Some(candidate.upstream_model.clone());
        }
        (
            std::mem::take(&mut self.attempts),
            std::mem::take(&mut self.served),
        )
    }

    /// Returns the fields of the request that the upstream did not get.
    pub fn losses(&self) -> &Losses {
        &self.served.losses
    }

    /// Notes whose answer or failure the caller gets, as far as this is known.
    fn note_answering(&mut self, attempt: &Try<'x>, losses: Losses) {
        self.last_candidate = Some(attempt.candidate);
        self.served.losses = losses;
        let mut progress = attempt.progress.lock();
        self.served.upstream_request_id = progress.id.clone();
        self.served.content_type = progress.content_type.take();
    }

    /// Passes an answer on, since its attempt has opened its gate.
    fn answer(
        &mut self,
        running: Running<'x>,
        Opened {
            gained,
            memory: held,
            ..
        }: Opened,
    ) -> Piece {
        let Running {
            attempt, losses, ..
        } = running;
        // An answer in reserve is not needed any more: its connection closes.
        self.attempts.maybe_billed |= self.state.take_reserve().is_some();
        self.note_answering(&attempt, losses);
        self.times = attempt.progress.times();
        self.memory.answer = held;
        match gained {
            Gained::Whole(whole) => self.finish_whole(attempt, whole),
            Gained::Stream { mut reading, .. } => {
                let events = reading.take_events();
                self.commit(ProducerState::Streaming(Streaming { attempt, reading }));
                Piece::Events(events)
            }
        }
    }

    /// Notes that an answer is whole, and returns its last piece.
    fn finish_whole(&mut self, mut attempt: Try<'_>, whole: WholeAnswer) -> Piece {
        let WholeAnswer {
            piece,
            usage,
            thoughts: kept,
            flaws,
            reasons,
            attempt: connection,
        } = whole;
        self.usage = usage;
        (self.served.flaws, self.served.reasons) = (flaws, reasons);
        self.request
            .envelope
            .front
            .flaws(flaws)
            .for_each(|name| self.served.losses.add(name));
        self.measure();
        attempt.guard.record_whole_answer(self.own_time.clock());
        self.keep(kept);
        self.keep_items(&piece);
        self.note(&attempt, "ok", Some(200), None);
        self.commit(ProducerState::Over(connection));
        piece
    }

    /// Enters a state in which no other candidate is tried. A long stream then need not hold the
    /// request's body.
    fn commit(&mut self, state: ProducerState<'x>) {
        self.state = state;
        let held = if self.memory.upload.is_some() {
            self.memory.request.bytes()
        } else {
            self.memory.body.len()
        };
        self.memory.request.shrink(held);
        (self.memory.body, self.memory.upload) = (Bytes::new(), None);
    }

    /// Ends the exchange with a refusal. If an answer is in reserve, it is better than the refusal.
    fn over(&mut self, refusal: Refusal) -> Result<Option<Piece>, Refusal> {
        let Some(declined) = self.state.take_reserve() else {
            self.state = ProducerState::Over(None);
            return Err(refusal);
        };
        let Declined {
            running,
            opened,
            noted,
            counted,
        } = *declined;
        // The trail lists the attempt again when it ends.
        let Tried { labels, .. } = self.attempts.trail.remove(noted);
        let attempt = &running.attempt;
        attempt.progress.lock().labels = labels;
        let Counted {
            sums,
            first_token,
            moment,
        } = counted;
        let series = &attempt.candidate.health.series;
        series.take_back(&sums, first_token, moment);
        self.request
            .meter
            .note_wanted(attempt.candidate, &attempt.progress, &self.attempts.trail);
        Ok(Some(self.answer(running, opened)))
    }

    /// Returns the time from a moment to the present poll.
    fn time_since(&self, moment: Instant) -> Duration {
        self.own_time.now().saturating_duration_since(moment)
    }

    /// Returns the time at which a candidate's attempt must be over, counted from the first
    /// attempt.
    fn total(&self, candidate: &Candidate) -> Instant {
        let timeouts = &candidate.timeouts;
        let total = if self.request.envelope.stream {
            timeouts.total_stream
        } else {
            timeouts.total
        };
        self.began
            + self
                .request
                .timeout
                .map_or(total, |timeout| timeout.min(total))
    }
}
