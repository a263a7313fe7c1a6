//! A stream that has begun, as it comes: the next events, its end, and its connection's fate.

use super::opening::{Gained, Lost, Progress, Told};
use super::{Ended, Live, Piece, Producer};
use crate::alarm::Alarm;
use crate::error::Refusal;
use crate::exchange::attempt::Attempt;
use crate::exchange::failover::Failure;
use crate::memory::Held;
use dialects::{Flaws, Stream, StreamFault};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// Events that came at once leave in one write, up to about this: it fits the buffer of the
/// caller's connection.
const TOGETHER: usize = 8 * 1024;
/// Less than this of an event, or of a few, is not counted.
const SMALL: usize = 64 * 1024;
/// After a stream's end the connection's own end follows at once, or the connection is not kept.
const LINGER: Duration = Duration::from_millis(20);

/// The reading of a stream.
pub(super) struct Reading {
    pub(super) attempt: Attempt,
    pub(super) stream: Stream,
    /// Whole events, ready for the caller.
    pub(super) out: Vec<u8>,
    /// What it holds of the budget while an event is large.
    pub(super) held: Held,
    pub(super) idle: Duration,
    pub(super) total: Instant,
}

impl Reading {
    /// Takes in what comes by `due`, and what else has come with it. True if the stream says that
    /// it is at its end.
    pub(super) async fn feed(&mut self, due: Instant, late: Failure, alarm: &mut Alarm) -> Result<bool, Failure> {
        let mut waited = false;
        loop {
            let read = if waited {
                // What has come already leaves in one write; nobody is waited for.
                match now(pin!(self.attempt.read())).await {
                    Some(read) => Some(read),
                    None => return Ok(false),
                }
            } else {
                alarm.until(due, pin!(self.attempt.read())).await
            };
            waited = true;
            match read {
                None => return Err(late),
                Some(Err(failure)) => return Err(failure),
                Some(Ok(None)) => return Ok(true),
                Some(Ok(Some(chunk))) => match self.stream.feed(&chunk, &mut self.out) {
                    Err(fault) => return Err(failure_of(fault)),
                    Ok(()) if self.stream.done() => return Ok(true),
                    Ok(()) if !self.hold() => return Err(Failure::NoRoom),
                    Ok(()) if self.out.len() >= TOGETHER => return Ok(false),
                    Ok(()) => {}
                },
            }
        }
    }

    /// Counts what is kept of an event whose end has not come yet. What is small is no matter.
    fn hold(&mut self) -> bool {
        let buffered = self.stream.buffered() + self.out.len();
        self.held.hold(if buffered > SMALL { buffered } else { 0 })
    }
}

impl Producer<'_> {
    /// The next events of the live stream. It stays where it is while it waits, so that one who
    /// drops this future still finds it there.
    pub(super) async fn advance(&mut self) -> Result<Option<Piece>, Refusal> {
        let Some(live) = &mut self.live else { return Ok(None) };
        let reading = &mut live.reading;
        let idle = Instant::now() + reading.idle;
        let (due, late) =
            if reading.total <= idle { (reading.total, Failure::TotalTimeout) } else { (idle, Failure::IdleTimeout) };
        let fed = reading.feed(due, late, &mut self.alarm).await;
        live.progress.used(reading.stream.usage_so_far());
        let failure = match fed {
            Ok(false) if reading.out.is_empty() => return Ok(None),
            Ok(false) => return Ok(Some(Piece::Events(std::mem::take(&mut reading.out).into()))),
            Ok(true) => None,
            // Only its connection's end was missing.
            Err(_) if reading.stream.whole() => None,
            Err(failure) => Some(failure),
        };
        let Some(live) = self.live.take() else { return Ok(None) };
        match failure {
            None => self.close(live),
            Some(failure) => self.broke(live, failure),
        }
    }

    /// The end of a stream that runs.
    fn close(&mut self, live: Live) -> Result<Option<Piece>, Refusal> {
        let Live { place, began, mut trial, progress, reading } = live;
        match self.conclude(place, began, &progress, reading) {
            Ok(Gained::Whole { piece, told, attempt }) => {
                self.whole(Ended { place, began, trial, progress }, told, attempt);
                Ok(Some(piece))
            }
            Ok(Gained::Stream { .. }) => Ok(None),
            Err(lost) => self.lost(place, began, &mut trial, &progress, lost),
        }
    }

    /// The end of a stream: its last events, if it is whole, and its connection, whose fate is not
    /// known yet. What is wrong with it although it is whole is said before its finishes; or, where
    /// the catalog wants that, it has none.
    pub(super) fn conclude(
        &self,
        place: usize,
        began: Instant,
        progress: &Progress,
        mut reading: Reading,
    ) -> Result<Gained, Lost> {
        let trail = self
            .debug(Some((place, began, "ok")), progress.timing())
            .map(|(attempts, timing)| trail(&attempts, &timing));
        let said = reading.out.len();
        match reading.stream.finish(&mut reading.out, trail.as_deref()) {
            Ok(_) if self.refuses(place, reading.stream.flaws()) => {
                reading.out.truncate(said);
                let failure = Failure::BrokenCall(reading.stream.flaws().broken_calls);
                Err(Lost { failure, salvage: Some(Box::new(reading)) })
            }
            Ok(usage) => {
                let told = Told { usage, kept: reading.stream.kept(), flaws: reading.stream.flaws() };
                let Reading { mut attempt, mut out, .. } = reading;
                out.splice(said..said, told.flaws.comment().into_bytes());
                attempt.release();
                Ok(Gained::Whole { piece: Piece::End(out.into()), told, attempt: Some(attempt) })
            }
            Err(fault) => Err(Lost { failure: failure_of(fault), salvage: Some(Box::new(reading)) }),
        }
    }

    /// Whether an answer of the candidate at this place is none, for what is wrong with it.
    fn refuses(&self, place: usize, flaws: Flaws) -> bool {
        self.request.candidates.get(place).is_some_and(|candidate| candidate.refuses(flaws))
    }

    /// The stream broke. What came whole before still belongs to the caller.
    fn broke(&mut self, live: Live, failure: Failure) -> Result<Option<Piece>, Refusal> {
        let Live { place, began, mut trial, progress, reading } = live;
        self.lost(place, began, &mut trial, &progress, Lost { failure, salvage: Some(Box::new(reading)) })
    }

    /// After the caller has everything: keeps the connection, if its end follows at once.
    pub async fn settle(&mut self) {
        let Some(mut attempt) = self.lingering.take() else { return };
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

/// Members of the usage chunk's own object. Names of accounts and the words for times need no
/// escapes.
fn trail(attempts: &str, timing: &str) -> String {
    format!(r#""attempts":"{attempts}","server_timing":"{timing}""#)
}

/// The future's value, if it has one already.
async fn now<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

pub(super) fn failure_of(fault: StreamFault) -> Failure {
    match fault {
        StreamFault::Upstream(error) => Failure::InAnswer(error.into()),
        StreamFault::Broken(why) => Failure::Nonsense(why.to_owned()),
        StreamFault::Cut => Failure::Cut,
    }
}

#[cfg(test)]
mod tests;
