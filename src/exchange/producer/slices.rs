//! A request for the vectors of more texts than a server takes at once is cut into slices. Each
//! slice has a producer, with attempts and failover of its own. Together they are one exchange.
//!
//! A slice is written when it is asked for. Only those that are asked for side by side are in
//! memory, and the answers.
//!
//! **Invariant:** the caller gets all vectors, or none. What the slices that were answered used
//! counts, whatever becomes of the others.

use super::{Piece, Producer, ProducerState, Request, Sent};
use crate::account::failure::Failure;
use crate::base::lock::Lock;
use crate::base::memory::Held;
use crate::conf::price::{ShowCost, Usd};
use crate::error::Refusal;
use crate::exchange::OwnTime;
use crate::exchange::backends::Backends;
use crate::plan::{self, Candidate};
use crate::settled::{Attempts, Served};
use bytes::Bytes;
use dialects::front::Envelope;
use dialects::usage::{Source, Usage};
use dialects::{Answer, AnswerHeader};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// The most slices that are asked for side by side.
const SIDE_BY_SIDE: usize = 8;

/// The slices of a request.
pub struct Slices {
    parts: dialects::Slices,
    /// The requests for those that were asked for.
    requests: Vec<OnceLock<Request>>,
    /// The part of the budget that these requests hold.
    memory: Held,
}

/// The state of the slices, if the request was cut into some.
#[derive(Default)]
pub(super) struct Sliced<'x> {
    /// All of them, until they have ended.
    pub(super) slices: Option<&'x Slices>,
    /// The producers of those that are asked for now.
    lanes: Vec<Option<Producer<'x>>>,
    /// The results of those that have ended. Few requests are cut, and this is large.
    ended: Option<Box<Lock<Ended<'x>>>>,
    /// Their cost, once they have ended.
    pub(super) cost: Option<Option<Usd>>,
}

/// The results of the slices that have ended.
#[derive(Default)]
struct Ended<'x> {
    /// The number of slices that were begun.
    begun_slices: usize,
    /// The answers, and the part of the budget that each holds.
    answers: Vec<(usize, Answer, Option<Held>)>,
    usage: Usage,
    cost: Usd,
    is_unpriced: bool,
    queued: Duration,
    last_candidate: Option<&'x Candidate>,
    attempts: Attempts,
    served: Served,
}

/// Runs the slices of a request. It is what the producers of all slices begin with.
#[derive(Clone, Copy)]
struct SliceRunner<'x> {
    slices: &'x Slices,
    shared: &'x Backends,
    whole_request: &'x Request,
    own_time: &'x OwnTime,
    began: Instant,
}

impl Request {
    /// Finds where the request is cut, if it asks for more than its candidates give at once.
    pub fn cut(&self, sent: &Sent) -> Result<Option<Box<Slices>>, Refusal> {
        let max_inputs = plan::most_inputs(&self.candidates);
        let cut = dialects::Slices::cut(&self.envelope, &sent.body, max_inputs);
        let Some(cut) =
            cut.map_err(|refused| Refusal::unable(refused, &self.answer_header.model))?
        else {
            return Ok(None);
        };
        let each = size_of::<OnceLock<Request>>() + self.candidates.len() * size_of::<Candidate>();
        // Once a slice is paid for, no other lacks the room for its body.
        let bodies = SIDE_BY_SIDE.min(cut.count())
            * (0..cut.count())
                .map(|index| cut.size(index))
                .max()
                .unwrap_or(0);
        let room = cut.count().saturating_mul(each).saturating_add(bodies);
        let held = sent
            .memory
            .hold_separately(room)
            .ok_or_else(Refusal::no_room)?;
        let requests = std::iter::repeat_with(OnceLock::new)
            .take(cut.count())
            .collect();
        Ok(Some(Box::new(Slices {
            parts: cut,
            requests,
            memory: held,
        })))
    }

    /// Returns the request for a slice with this body.
    fn slice(&self, index: usize, body: &Bytes) -> Result<Request, Refusal> {
        // It is a part of what was read before.
        let read = self
            .envelope
            .front
            .envelope(body)
            .map_err(|_| Refusal::no_room())?;
        let Envelope { model, headers, .. } = &self.envelope;
        let envelope = Envelope {
            model: model.clone(),
            headers: headers.clone(),
            ..read
        };
        // The fields around the texts count once.
        let more_bytes = if index == 0 { envelope.more_bytes } else { 0 };
        let prompt_bytes = envelope.prompt_bytes.saturating_add(more_bytes) as u64;
        let answer_header = AnswerHeader {
            prompt_bytes,
            cost: ShowCost::No,
            ..AnswerHeader::clone(&self.answer_header)
        };
        Ok(Request {
            envelope,
            answer_header: Arc::new(answer_header),
            ..self.clone()
        })
    }
}

impl<'x> SliceRunner<'x> {
    /// Asks for one slice after another, until none is left.
    async fn run(
        self,
        lane: &mut Option<Producer<'x>>,
        ended: &Lock<Ended<'x>>,
    ) -> Result<(), Refusal> {
        let cut = &self.slices.parts;
        loop {
            let index = ended.lock().take_next();
            if index >= cut.count() {
                return Ok(());
            }
            let piece = lane.insert(self.slice_producer(index)?).next_uncut().await;
            let piece = piece.map_err(|refusal| in_whole(refusal, cut.first(index)))?;
            if let Some(slice) = lane.take() {
                ended.lock().add(slice, Some((index, piece)));
            }
        }
    }

    /// Makes the producer of a slice.
    fn slice_producer(self, index: usize) -> Result<Producer<'x>, Refusal> {
        let Slices {
            parts: cut,
            requests,
            memory: held,
        } = self.slices;
        let held = held.hold_separately(0).ok_or_else(Refusal::no_room)?;
        let body = cut.write(index);
        let request = self.whole_request.slice(index, &body)?;
        let request = requests
            .get(index)
            .ok_or_else(Refusal::no_room)?
            .get_or_init(|| request);
        let sent = Sent::body(body, held);
        Ok(Producer {
            began: self.began,
            ..Producer::new(self.shared, request, sent, self.own_time)
        })
    }
}

impl<'x> Producer<'x> {
    /// Lets the slices of the request be asked for, and not the request itself.
    pub fn slice(&mut self, slices: Option<&'x Slices>) {
        self.sliced.slices = slices;
        if slices.is_some() {
            self.request.meter.mark_sliced();
            let ended = self.sliced.ended.get_or_insert_default();
            ended.lock().attempts = Attempts::of_slices(self.request.trace.is_some());
        }
    }

    /// Has all slices answered, and joins their answers.
    pub(super) async fn join(&mut self, slices: &'x Slices) -> Result<Piece, Refusal> {
        let ended = self.ask_slices(slices).await;
        self.memory.body = Bytes::new();
        self.abandon("not_needed");
        let take_answers = |known: &Lock<Ended<'x>>| std::mem::take(&mut known.lock().answers);
        let mut answers = self
            .sliced
            .ended
            .as_deref()
            .map(take_answers)
            .unwrap_or_default();
        ended?;
        answers.sort_by_key(|(index, ..)| *index);
        let (answers, _held): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .map(|(_, answer, held)| (answer, held))
            .unzip();
        let request = self.request;
        let cost = match (request.answer_header.cost, self.sliced.cost.flatten()) {
            (ShowCost::No, _) => ShowCost::No,
            (ShowCost::AtPrice(_) | ShowCost::Sum(_), cost) => {
                cost.map_or(ShowCost::AtPrice(None), ShowCost::Sum)
            }
        };
        let answer_header = AnswerHeader {
            cost,
            ..AnswerHeader::clone(&request.answer_header)
        };
        let inputs = request.envelope.places.inputs.clone().unwrap_or_default();
        let size = answers
            .iter()
            .map(|answer| answer.body.len())
            .sum::<usize>()
            + 64 * inputs.count;
        let mut held = self
            .memory
            .request
            .hold_separately(size)
            .ok_or_else(Refusal::no_room)?;
        let joined =
            dialects::join_answers(request.envelope.front, &inputs, &answer_header, &answers)
                .map_err(|_| {
                    self.refusal(&Failure::Nonsense(
                        "vectors that cannot be joined".to_owned(),
                    ))
                })?;
        held.hold(joined.body.len());
        self.memory.answer = Some(held);
        Ok(Piece::Whole(joined))
    }

    /// Asks for all slices, some side by side, until one has failed or all are answered.
    async fn ask_slices(&mut self, slices: &'x Slices) -> Result<(), Refusal> {
        let lane_count = self.side_by_side().min(slices.parts.count());
        let Producer {
            shared,
            request,
            own_time: own,
            began,
            ..
        } = *self;
        let runner = SliceRunner {
            slices,
            shared,
            whole_request: request,
            own_time: own,
            began,
        };
        let Sliced { lanes, ended, .. } = &mut self.sliced;
        let ended: &Lock<Ended<'x>> = ended.get_or_insert_default();
        lanes.resize_with(lane_count, || None);
        let mut running: Vec<_> = lanes
            .iter_mut()
            .map(|lane| Some(Box::pin(runner.run(lane, ended))))
            .collect();
        let all = std::future::poll_fn(|context| {
            let mut is_over = true;
            for lane in &mut running {
                match lane.as_mut().map(|lane| lane.as_mut().poll(context)) {
                    Some(Poll::Ready(Err(refusal))) => return Poll::Ready(Err(refusal)),
                    Some(Poll::Ready(Ok(()))) => *lane = None,
                    Some(Poll::Pending) => is_over = false,
                    None => {}
                }
                // Until the first slice has a place, the others take none in the queue.
                if !request.meter.has_begun_slice() {
                    break;
                }
            }
            if is_over {
                Poll::Ready(Ok(()))
            } else {
                Poll::Pending
            }
        });
        pin!(all).await
    }

    /// Returns how many slices may be asked for at a time: a quarter of what the account may have,
    /// so that other requests find room.
    fn side_by_side(&self) -> usize {
        let first = self
            .request
            .candidates
            .first()
            .and_then(|one| one.account().concurrency);
        first.map_or(SIDE_BY_SIDE, |cap| (cap / 4).clamp(1, SIDE_BY_SIDE))
    }

    /// Ends the slices that run, and takes over what is known of all. The answers stay.
    pub(super) fn gather_slices(&mut self, why: &'static str) {
        let Some(ended) = &self.sliced.ended else {
            return;
        };
        let mut ended = ended.lock();
        // One caller leaves, however many slices wait.
        let mut is_told = false;
        for mut slice in std::mem::take(&mut self.sliced.lanes).into_iter().flatten() {
            is_told |= slice.end(why, !is_told);
            ended.add(slice, None);
        }
        self.usage = ended.usage;
        self.sliced.cost = Some(Some(ended.cost).filter(|_| !ended.is_unpriced));
        self.queued = ended.queued;
        self.last_candidate = ended.last_candidate;
        self.attempts = std::mem::take(&mut ended.attempts);
        self.served = std::mem::take(&mut ended.served);
        self.state = ProducerState::Over(None);
    }
}

impl<'x> Ended<'x> {
    /// Returns the place of the next slice.
    fn take_next(&mut self) -> usize {
        self.begun_slices += 1;
        self.begun_slices - 1
    }

    /// Takes over what is known of a slice, and its answer.
    fn add(&mut self, mut slice: Producer<'x>, answer: Option<(usize, Piece)>) {
        let used = slice.usage_so_far();
        self.usage = self.usage.and(used);
        if used.source != Source::None {
            let cost = slice.cost(&used);
            self.is_unpriced |= cost.is_none();
            self.cost = self.cost.plus(cost.unwrap_or_default());
        }
        self.queued = self.queued.max(slice.queued());
        self.last_candidate = self.last_candidate.or(slice.last_candidate);
        let (attempts, served) = slice.outcome();
        attempts
            .trail
            .into_iter()
            .for_each(|tried| self.attempts.add(tried));
        self.attempts.maybe_billed |= attempts.maybe_billed;
        self.attempts.shed |= attempts.shed;
        self.attempts.not_retried = self.attempts.not_retried.or(attempts.not_retried);
        served
            .losses
            .names()
            .iter()
            .for_each(|name| self.served.losses.add(name.clone()));
        self.served.upstream_request_id = self
            .served
            .upstream_request_id
            .take()
            .or(served.upstream_request_id);
        if let Some((index, Piece::Whole(answer))) = answer {
            let mut held = slice.memory.answer.take();
            if let Some(held) = &mut held {
                held.hold(answer.body.len());
            }
            self.answers.push((index, answer, held));
        }
    }
}

/// Names the texts in a refusal by their places in the whole request.
fn in_whole(refusal: Refusal, first: usize) -> Refusal {
    let param = refusal
        .param
        .as_deref()
        .map(|param| dialects::in_whole(param, first));
    let message = dialects::in_whole(&refusal.message, first).into();
    Refusal {
        param,
        message,
        ..refusal
    }
}
