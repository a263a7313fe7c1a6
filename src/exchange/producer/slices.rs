//! A request for the vectors of more texts than a server takes at once is cut into slices. Each
//! slice has a producer, with attempts and failover of its own. Together they are one exchange.
//!
//! **Invariant:** the caller gets all vectors, or none. What the slices that were answered used
//! counts, whatever becomes of the others.

use super::{Piece, Producer, ProducerState, Request, Sent};
use crate::account::failure::Failure;
use crate::base::memory::Held;
use crate::conf::price::{ShowCost, Usd};
use crate::error::Refusal;
use bytes::Bytes;
use dialects::front::Envelope;
use dialects::usage::{Source, Usage};
use dialects::{Answer, AnswerHeader};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The most slices that are asked for side by side.
const SIDE_BY_SIDE: usize = 8;

/// A part of a request, as a request of its own.
pub struct Slice {
    request: Request,
    body: Bytes,
    held: Held,
}

/// The slices of a request, if it was cut into some.
#[derive(Default)]
pub(super) struct Sliced<'x> {
    /// Their producers.
    pub(super) slices: Vec<Producer<'x>>,
    /// Their cost, once they have ended.
    pub(super) cost: Option<Option<Usd>>,
}

impl Request {
    /// Cuts the request into slices, if it asks for more than its candidates give at once.
    pub fn cut(&self, body: &Bytes, held: &Held) -> Result<Vec<Slice>, Refusal> {
        let most = self.candidates.iter().map(|one| one.dialect().most_inputs(&one.upstream_model)).min();
        let bodies = most.and_then(|most| dialects::slices(&self.envelope, body, most)).unwrap_or_default();
        bodies.into_iter().map(|body| self.slice(body, held)).collect()
    }

    fn slice(&self, body: Bytes, held: &Held) -> Result<Slice, Refusal> {
        // It is a part of what was read before.
        let read = (self.envelope.front.envelope)(&body).map_err(|_| Refusal::no_room())?;
        let Envelope { model, headers, .. } = &self.envelope;
        let envelope = Envelope { model: model.clone(), headers: headers.clone(), ..read };
        let prompt_bytes = envelope.prompt_bytes.saturating_add(envelope.more_bytes) as u64;
        let face = AnswerHeader { prompt_bytes, cost: ShowCost::No, ..AnswerHeader::clone(&self.face) };
        let held = held.beside(body.len()).ok_or_else(Refusal::no_room)?;
        Ok(Slice { request: Request { envelope, face: Arc::new(face), ..self.clone() }, body, held })
    }
}

impl<'x> Producer<'x> {
    /// Lets the slices of the request be asked for, and not the request itself.
    pub fn slice(&mut self, slices: &'x mut [Slice]) {
        let empty = || self.memory.request.beside(0);
        for Slice { request, body, held } in slices {
            let Some(held) = empty().map(|empty| std::mem::replace(held, empty)) else { continue };
            let sent = Sent { body: std::mem::take(body), upload: None, held };
            self.sliced.slices.push(Producer::new(self.shared, request, sent, self.own));
        }
        if !self.sliced.slices.is_empty() {
            self.request.meter.sums();
        }
    }

    /// Has all slices answered, and joins their answers.
    pub(super) async fn join(&mut self) -> Result<Piece, Refusal> {
        let ended = self.ask_slices().await;
        self.memory.body = Bytes::new();
        let cost = self.shown_cost();
        for slice in &mut self.sliced.slices {
            slice.abandon("not_needed");
        }
        self.gather();
        let answers = ended?;
        let request = self.request;
        let face = AnswerHeader { cost, ..AnswerHeader::clone(&request.face) };
        let inputs = request.envelope.places.inputs.clone().unwrap_or_default();
        let joined = dialects::join(request.envelope.front, &inputs, &face, &answers)
            .map_err(|_| self.refusal(&Failure::Nonsense("vectors that cannot be joined".to_owned())))?;
        self.memory.answer = self.memory.request.beside(joined.body.len());
        if self.memory.answer.is_none() {
            return Err(Refusal::no_room());
        }
        Ok(Piece::Whole(joined))
    }

    /// Asks for all slices, some side by side, until one has failed or all are answered.
    async fn ask_slices(&mut self) -> Result<Vec<Answer>, Refusal> {
        let most = self.side_by_side();
        let mut asked: Vec<_> =
            self.sliced.slices.iter_mut().map(|slice| (Box::pin(slice.next_of_one()), None)).collect();
        let all = std::future::poll_fn(|context| {
            let mut running = 0;
            for (next, piece) in asked.iter_mut().filter(|(_, piece)| piece.is_none()) {
                if running == most {
                    break;
                }
                match next.as_mut().poll(context) {
                    Poll::Ready(Err(refusal)) => return Poll::Ready(Err(refusal)),
                    Poll::Ready(Ok(one)) => *piece = Some(one),
                    Poll::Pending => running += 1,
                }
            }
            if running == 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        pin!(all).await?;
        let answer = |(_, piece)| if let Some(Piece::Whole(answer)) = piece { Some(answer) } else { None };
        Ok(asked.into_iter().filter_map(answer).collect())
    }

    /// Returns how many slices may be asked for at a time: a quarter of what the account may have,
    /// so that others find room beside them.
    fn side_by_side(&self) -> usize {
        let first = self.request.candidates.first().and_then(|one| one.place.account.concurrency);
        first.map_or(SIDE_BY_SIDE, |most| (most / 4).clamp(1, SIDE_BY_SIDE))
    }

    /// Returns the price of the answer that the caller sees, if all slices have the same.
    fn shown_cost(&self) -> ShowCost {
        let mut prices = self.sliced.slices.iter().map(|slice| slice.asked.and_then(|one| one.price));
        let first = prices.next().flatten();
        let is_same = prices.all(|price| price == first);
        if self.request.face.cost == ShowCost::No { ShowCost::No } else { ShowCost::At(first.filter(|_| is_same)) }
    }

    /// Takes over what is known of the slices.
    pub(super) fn gather(&mut self) {
        let mut cost = Some(Usd::ZERO);
        for mut slice in std::mem::take(&mut self.sliced.slices) {
            let used = slice.usage_so_far();
            self.usage = sum(self.usage, used);
            if used.source != Source::None {
                cost = cost.zip(slice.cost(&used)).map(|(sum, more)| sum.plus(more));
            }
            self.queued = self.queued.max(slice.queued());
            self.asked = self.asked.or(slice.asked);
            let (attempts, served) = slice.outcome();
            self.attempts.trail.extend(attempts.trail);
            self.attempts.maybe_billed |= attempts.maybe_billed;
            self.attempts.shed |= attempts.shed;
            self.attempts.not_retried = self.attempts.not_retried.or(attempts.not_retried);
            served.losses.names().iter().for_each(|name| self.served.losses.add(name.clone()));
            self.served.upstream_request_id = self.served.upstream_request_id.take().or(served.upstream_request_id);
            self.sliced.cost = Some(cost);
        }
        self.state = ProducerState::Over(None);
    }
}

/// Returns the sum of what two slices have used.
fn sum(one: Usage, other: Usage) -> Usage {
    let source = match (one.source, other.source) {
        (Source::None, source) | (source, Source::None) => source,
        (Source::Reported, Source::Reported) => Source::Reported,
        (Source::Estimated, _) | (_, Source::Estimated) => Source::Estimated,
    };
    Usage { prompt: one.prompt.saturating_add(other.prompt), source, doubted: one.doubted.or(other.doubted), ..one }
}
