//! The producer while a stream runs: its next events, its end, and the fate of its connection.

use super::opening::WholeAnswer;
use super::reading::{Reading, into_piece};
use super::report::CallerGot;
use super::state::{ProducerState, Streaming, Try};
use super::{Piece, Producer};
use crate::account::failure::Failure;
use crate::error::Refusal;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time from a stream's end to the end of its connection's answer. After it, the
/// connection is not kept.
const LINGER: Duration = Duration::from_millis(20);

impl<'x> Producer<'x> {
    /// Returns the next events of the stream. The stream stays in the state during the wait, so
    /// that it is still there if this future is dropped.
    pub(super) async fn advance(&mut self) -> Result<Option<Piece>, Refusal> {
        let ProducerState::Streaming(Streaming { attempt, reading }) = &mut self.state else {
            return Ok(None);
        };
        let now = self.own_time.now();
        let fed = reading.feed(now, reading.due(now), &mut self.alarm).await;
        attempt.progress.lock().usage = reading.stream.usage_so_far();
        let failure = match fed {
            Ok(false) if reading.out.is_empty() => return Ok(None),
            Ok(false) => return Ok(Some(Piece::Events(reading.take_events()))),
            Ok(true) => None,
            // Only the end of the connection was missing.
            Err(_) if reading.stream.whole() => None,
            Err(failure) => Some(failure),
        };
        let live = std::mem::replace(&mut self.state, ProducerState::Over(None));
        let ProducerState::Streaming(Streaming { attempt, reading }) = live else {
            return Ok(None);
        };
        let concluded = match failure {
            None => self.conclude(&attempt, reading),
            Some(failure) => Err((failure, Box::new(reading))),
        };
        match concluded {
            Ok(whole) => Ok(Some(self.finish_whole(attempt, whole))),
            Err((failure, reading)) => self.salvage(attempt, failure, *reading),
        }
    }

    /// Ends a stream. If it is whole, returns its last events, and its connection, whose fate is
    /// not known yet. A flaw of a whole answer is named in a comment before its last events. If the
    /// catalog wants that, the stream breaks because of the flaw instead.
    pub(super) fn conclude(
        &self,
        attempt: &Try<'_>,
        mut reading: Reading,
    ) -> Result<WholeAnswer, (Failure, Box<Reading>)> {
        let trail = self.debug(Some((attempt, "ok")), attempt.progress.times());
        let trail = trail.map(|(attempts, timing)| {
            format!(r#""attempts":"{attempts}","server_timing":"{timing}""#)
        });
        let before = reading.out.len();
        let failure = match reading.stream.finish(&mut reading.out, trail.as_deref()) {
            Ok(_) if attempt.candidate.refuses(reading.stream.flaws()) => {
                reading.out.truncate(before);
                Failure::BrokenCall(reading.stream.flaws().broken_calls)
            }
            Ok(usage) => {
                let Reading {
                    mut attempt,
                    mut stream,
                    mut out,
                    ..
                } = reading;
                let flaws = stream.flaws();
                out.splice(
                    before..before,
                    self.request.envelope.front.late_flaws(flaws).into_bytes(),
                );
                attempt.release();
                let piece = Piece::End(into_piece(out));
                return Ok(WholeAnswer {
                    attempt: Some(attempt),
                    ..WholeAnswer::end_of_stream(&mut stream, piece, usage)
                });
            }
            Err(fault) => fault.into(),
        };
        attempt.progress.lock().usage = reading.stream.usage_so_far();
        Err((failure, Box::new(reading)))
    }

    /// Returns the whole events of a broken stream: they belong to the caller, and count as used.
    /// The failure comes next.
    pub(super) fn salvage(
        &mut self,
        mut attempt: Try<'x>,
        failure: Failure,
        mut reading: Reading,
    ) -> Result<Option<Piece>, Refusal> {
        (self.usage, self.shown_so_far) = (reading.stream.usage_so_far(), reading.stream.so_far());
        self.measure();
        self.report_failure(&failure, &mut attempt, CallerGot::Part);
        self.stop_race();
        self.commit(ProducerState::Over(None));
        let events = reading.take_events();
        if events.is_empty() {
            return Err(self.refusal(&failure));
        }
        self.state = ProducerState::Ending(failure);
        Ok(Some(Piece::Events(events)))
    }

    /// Keeps the connection, once the caller has everything, if the end of the connection's answer
    /// follows at once.
    pub async fn keep_connection(&mut self) {
        let ProducerState::Over(lingering) = &mut self.state else {
            return;
        };
        let Some(mut attempt) = lingering.take() else {
            return;
        };
        let due = Instant::now() + LINGER;
        while !attempt.is_done() {
            match self.alarm.until(due, pin!(attempt.read())).await {
                Some(Ok(Some(_))) => {}
                Some(Ok(None)) => break,
                Some(Err(_)) | None => return,
            }
        }
        attempt.finish().await;
    }
}
