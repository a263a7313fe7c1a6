//! A [`Relay`] is the half of an exchange that faces the caller. Only the relay writes to the
//! caller, and it ends every answer explicitly.
//!
//! **Invariant:** a write is awaited to its end, or its failure is fatal, since a dropped write
//! leaves half a chunk. Comments are sent only between writes, and after a failed write nothing
//! more is written. While the relay waits for the producer, it watches the caller: if the caller
//! leaves, the exchange ends at once, and with it the upstream's work.

use super::record::Record;
use super::reply::{Notes, Reply};
use super::session_io;
use crate::base::alarm::Alarm;
use crate::drain::Phase;
use crate::error::{FailureKind, Outcome, Refusal};
use crate::exchange::producer::{BrokenAnswer, CALLER_LEFT, Piece, Producer};
use crate::exchange::{self, OwnTime};
use bytes::Bytes;
use dialects::usage::Source;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::time::Instant;

/// The trail's word for attempts that ended because the gateway shut down.
pub const SHUT_DOWN: &str = "shutdown";

/// The end of a relay.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made once an exchange, and a box would be an allocation"
)]
pub enum End {
    /// The caller has an answer, which is whole or was explicitly ended.
    Answered,
    /// Nothing was written yet. The caller gets a proper error, with these notes in its head.
    Refused(Refusal, Notes),
    /// The caller is gone, or does not read. The connection must be closed as it is.
    Broken,
}

/// Records an exchange that a panic of ours has ended: what was used is still counted. The state
/// after the panic may cause another panic, which is caught here.
pub fn account_for(record: &mut Record, producer: &mut Producer<'_>) {
    let recorded = catch_unwind(AssertUnwindSafe(|| {
        producer.abandon("internal");
        record_outcome(record, producer);
    }));
    if recorded.is_err() {
        log::error!(
            "it is unknown what the exchange {} used: the gateway failed twice",
            record.facts.request.id
        );
    }
}

/// Records the outcome of the attempts.
fn record_outcome(record: &mut Record, producer: &mut Producer<'_>) {
    record_usage(record, producer);
    record.facts.times.queued = producer.queued();
    (record.facts.attempts, record.facts.served) = producer.outcome();
}

/// Records the usage so far, and its price.
fn record_usage(record: &mut Record, producer: &Producer<'_>) {
    let usage = producer.usage_so_far();
    record.count(usage, producer.cost(&usage));
}

/// A relay of the pieces of an answer to one caller.
pub struct Relay<'x> {
    reply: Reply<'x>,
    own_time: &'x OwnTime,
    alarm: Alarm,
    /// True if the head of a stream was sent.
    is_head_sent: bool,
    /// True if the answer is no stream of events: nothing may be written into it.
    is_other: bool,
    last_write: Instant,
}

/// What follows a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    More,
    /// Nothing: the answer ends.
    End,
}

/// The reasons why no further piece of an answer comes.
enum Stop {
    Refused(Refusal),
    CallerLeft,
    Cutting,
}

impl<'x> Relay<'x> {
    /// Makes a relay to this caller.
    pub fn new(reply: Reply<'x>, own_time: &'x OwnTime) -> Relay<'x> {
        Relay {
            reply,
            own_time,
            alarm: Alarm::default(),
            is_head_sent: false,
            is_other: false,
            last_write: own_time.now(),
        }
    }

    /// Relays what the producer returns.
    pub async fn run(mut self, producer: &mut Producer<'_>) -> End {
        let end = self.relay(producer).await.unwrap_or_else(|()| {
            // At the end of a drain, it is the gateway that leaves.
            let is_cut = self.reply.drain.phase() == Phase::Cutting;
            let (why, outcome) = if is_cut {
                (SHUT_DOWN, Outcome::Shutdown)
            } else {
                (CALLER_LEFT, Outcome::ClientLeft)
            };
            producer.abandon(why);
            self.reply.record.end(outcome);
            End::Broken
        });
        record_outcome(self.reply.record, producer);
        end
    }

    /// Relays pieces until the answer ends. Fails if the caller leaves.
    async fn relay(&mut self, producer: &mut Producer<'_>) -> Result<End, ()> {
        let (began, drain) = (self.own_time.now(), self.reply.drain);
        let timeouts = &self.reply.settings.timeouts;
        let mut cutting = pin!(drain.wait_for_cutting());
        loop {
            let piece = {
                let mut next = pin!(producer.next());
                loop {
                    let due = match (
                        self.reply.record.facts.request.stream && !self.is_other,
                        self.is_head_sent,
                    ) {
                        (false, _) => None,
                        (true, false) => Some(began + timeouts.commit_after),
                        (true, true) => Some(self.last_write + timeouts.comment),
                    };
                    if let Some(piece) = self.wait(next.as_mut(), cutting.as_mut(), due).await {
                        break piece;
                    }
                    self.keep_alive().await?;
                }
            };
            match piece {
                Ok(Piece::Whole(answer)) => {
                    exchange::panic_if_asked(self.reply.session, "relay");
                    let estimated = answer.usage.source == Source::Estimated;
                    record_usage(self.reply.record, producer);
                    let notes = Notes {
                        estimated,
                        ..self.notes(producer)
                    };
                    // The futures of whole answers and of refusals are boxed, since every stream
                    // would hold their memory.
                    let written =
                        Box::pin(self.reply.write_answer(answer.body.into(), &notes)).await;
                    return written.map(|()| End::Answered);
                }
                Ok(Piece::Events(bytes)) => self.write_events(producer, bytes, Then::More).await?,
                Ok(Piece::End(bytes)) => {
                    record_usage(self.reply.record, producer);
                    self.write_events(producer, bytes, Then::End).await?;
                    self.reply.record.end(Outcome::Ok);
                    producer.keep_connection().await;
                    return Ok(End::Answered);
                }
                Err(Stop::Refused(refusal)) => {
                    let notes = self.notes(producer);
                    record_usage(self.reply.record, producer);
                    return Ok(
                        Box::pin(self.refuse(refusal, notes, producer.answer_so_far())).await,
                    );
                }
                Err(Stop::CallerLeft) => return Err(()),
                Err(Stop::Cutting) => {
                    producer.abandon(SHUT_DOWN);
                    record_usage(self.reply.record, producer);
                    let message = if self.reply.record.facts.times.first_byte.is_some() {
                        "The gateway is shutting down and could not wait for the end of the answer. The \
                         answer that you received is not complete."
                    } else {
                        "The gateway is shutting down and could not wait for the answer. Try again in a moment."
                    };
                    let refusal = Refusal::new(FailureKind::ShuttingDown, message).retry_after(1);
                    return Ok(Box::pin(self.refuse(
                        refusal,
                        Notes::default(),
                        producer.answer_so_far(),
                    ))
                    .await);
                }
            }
        }
    }

    /// Waits for the next piece, and watches everything else meanwhile. Returns `None` once `due`
    /// has passed.
    async fn wait(
        &mut self,
        mut next: Pin<&mut impl Future<Output = Result<Piece, Refusal>>>,
        mut cutting: Pin<&mut impl Future<Output = ()>>,
        due: Option<Instant>,
    ) -> Option<Result<Piece, Stop>> {
        let mut left = pin!(session_io::wait_for_leaving(self.reply.session));
        let alarm = &mut self.alarm;
        std::future::poll_fn(move |context| {
            if let Poll::Ready(piece) = next.as_mut().poll(context) {
                return Poll::Ready(Some(piece.map_err(Stop::Refused)));
            }
            if left.as_mut().poll(context).is_ready() {
                return Poll::Ready(Some(Err(Stop::CallerLeft)));
            }
            if cutting.as_mut().poll(context).is_ready() {
                return Poll::Ready(Some(Err(Stop::Cutting)));
            }
            due.map_or(Poll::Pending, |due| alarm.poll(context, due).map(|()| None))
        })
        .await
    }

    /// Keeps a silent stream alive. It sends the head first: this fixes the status, but not the
    /// answer.
    async fn keep_alive(&mut self) -> Result<(), ()> {
        self.send_head(&Notes::default()).await?;
        self.send(
            Bytes::from_static(self.reply.record.front.stream_frame.keepalive),
            Then::More,
        )
        .await
    }

    /// Writes events. If the head left before it was known who answers, the stream says what the
    /// head lacks.
    async fn write_events(
        &mut self,
        producer: &mut Producer<'_>,
        bytes: Bytes,
        then: Then,
    ) -> Result<(), ()> {
        if self.reply.record.facts.times.first_byte.is_none() {
            let notes = self.notes(producer);
            if self.is_head_sent {
                let late = [
                    ("x-portcullis-model", &notes.model),
                    ("x-portcullis-dropped", &notes.dropped),
                ];
                let late = late
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value.as_deref()?)));
                let write_header = self.reply.record.front.stream_frame.late_header;
                let late_lines: String = late
                    .map(|(name, value)| write_header(name, value))
                    .collect();
                if !late_lines.is_empty() {
                    self.send(late_lines.into(), Then::More).await?;
                }
            } else {
                self.send_head(&notes).await?;
            }
        }
        self.answer(bytes, then).await
    }

    /// Writes the head of a stream, if it was not sent.
    async fn send_head(&mut self, notes: &Notes) -> Result<(), ()> {
        if !self.is_head_sent {
            self.is_head_sent = true;
            let (kind, default_type) = (
                notes.content_type.as_ref(),
                self.reply.record.front.stream_frame.content_type,
            );
            let kind = kind.map(|kind| kind.as_bytes().to_ascii_lowercase());
            self.is_other = kind.is_some_and(|kind| !kind.starts_with(default_type.as_bytes()));
            self.reply.write_stream_head(notes).await?;
            exchange::panic_if_asked(self.reply.session, "relay");
        }
        Ok(())
    }

    /// Writes some of the answer itself.
    async fn answer(&mut self, bytes: Bytes, then: Then) -> Result<(), ()> {
        let record = &mut *self.reply.record;
        record
            .facts
            .times
            .first_byte
            .get_or_insert_with(|| record.began.elapsed());
        self.send(bytes, then).await
    }

    /// Writes bytes, and notes the time.
    async fn send(&mut self, bytes: Bytes, then: Then) -> Result<(), ()> {
        self.reply.write(bytes, then == Then::End).await?;
        self.last_write = self.own_time.now();
        Ok(())
    }

    /// Ends the answer with a refusal, or returns it if nothing was written yet.
    async fn refuse(&mut self, refusal: Refusal, notes: Notes, answer: BrokenAnswer) -> End {
        self.reply.record.record_refusal(&refusal);
        if !self.is_head_sent {
            return End::Refused(refusal, notes);
        }
        if self.is_other {
            return End::Broken;
        }
        let record = &*self.reply.record;
        let has_begun = record.facts.times.first_byte.is_some();
        let event = refusal.event(
            record.front,
            &record.facts.request.id,
            answer.seen_by_caller(has_begun),
        );
        let ends = !record.front.errors.cut_after_error;
        let then = if ends { Then::End } else { Then::More };
        match self.answer(event.into(), then).await {
            Ok(()) if ends => End::Answered,
            Ok(()) | Err(()) => End::Broken,
        }
    }

    /// Returns the notes for the head of the answer.
    fn notes(&self, producer: &Producer<'_>) -> Notes {
        let record = &*self.reply.record;
        let served = producer
            .candidate()
            .map(|candidate| &candidate.model.id)
            .filter(|id| record.is_by_glob || Some(*id) != record.facts.request.model.as_ref());
        let losses = producer.losses().names();
        let dropped = (!losses.is_empty()).then(|| losses.join(", "));
        let (attempts, timing) = producer.trail_so_far().unzip();
        let attempts = attempts.filter(|attempts| !attempts.is_empty());
        let content_type = producer.content_type().cloned();
        Notes {
            model: served.map(ToString::to_string),
            attempts,
            timing,
            dropped,
            estimated: false,
            content_type,
        }
    }
}
