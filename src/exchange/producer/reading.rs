//! A [`Reading`] reads a stream, and makes whole events for the caller of what has come.

use crate::account::failure::Failure;
use crate::base::alarm::Alarm;
use crate::base::memory::Held;
use crate::base::pool;
use crate::exchange::attempt::Attempt;
use bytes::Bytes;
use dialects::Stream;
use dialects::neutral::labels::Start;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;

/// The size up to which events that come at once leave in one write. It fits the buffer of the
/// caller's connection.
const TOGETHER: usize = 8 * 1024;
/// The size from which on buffered events count in the memory budget.
const SMALL: usize = 64 * 1024;

/// The reading of a stream.
pub(super) struct Reading {
    pub(super) attempt: Attempt,
    pub(super) stream: Stream,
    /// Whole events, ready for the caller.
    pub(super) out: Vec<u8>,
    /// The part of the memory budget that the reading holds while an event is large.
    pub(super) memory: Held,
    pub(super) idle: Duration,
    pub(super) total: Instant,
    /// The start of the stream as it comes, until the provider's labels are read from it. `None` if
    /// nobody wants them.
    pub(super) label_source: Option<Box<Start>>,
}

/// A time at which something is due, and the failure if it has not come. (It is made only then,
/// since failures are large.)
pub(super) type Deadline = (Instant, fn() -> Failure);

impl Reading {
    /// Returns when the next events are due, counted from now, and the failure if they do not come.
    pub(super) fn due(&self, now: Instant) -> Deadline {
        let idle = now + self.idle;
        if self.total <= idle {
            (self.total, || Failure::TotalTimeout)
        } else {
            (idle, || Failure::IdleTimeout)
        }
    }

    /// Takes in what comes by `deadline`, and what else has come with it. Returns true if the
    /// stream says that it is at its end.
    pub(super) async fn feed(
        &mut self,
        now: Instant,
        deadline: Deadline,
        alarm: &mut Alarm,
    ) -> Result<bool, Failure> {
        let (due, late) = deadline;
        // What is always ready to be read does not put off the deadline.
        if now >= due {
            return Err(late());
        }
        let mut waited = false;
        loop {
            let read = if waited {
                // What has come already leaves in one write, without waiting for more.
                match poll_now(pin!(self.attempt.read())).await {
                    Some(read) => Some(read),
                    None => return Ok(false),
                }
            } else {
                alarm.until(due, pin!(self.attempt.read())).await
            };
            waited = true;
            let Some(read) = read else { return Err(late()) };
            let Some(chunk) = read? else { return Ok(true) };
            if let Some(start) = &mut self.label_source {
                start.take(&chunk);
            }
            if self.out.capacity() == 0 {
                self.out = pool::take_buffer();
            }
            let fed = self.stream.feed(&chunk, &mut self.out);
            if self.out.is_empty() {
                pool::give_back(std::mem::take(&mut self.out));
            }
            match fed {
                Err(fault) => return Err(fault.into()),
                Ok(()) if self.stream.done() => return Ok(true),
                Ok(()) if !self.hold() => return Err(Failure::NoRoom),
                Ok(()) if self.out.len() >= TOGETHER => return Ok(false),
                Ok(()) => {}
            }
        }
    }

    /// Gives the pool its memory back while events wait: the first one that counts may be far off.
    pub(super) fn give_back_room(&mut self) {
        if self.out.capacity() == pool::SIZE {
            let events = self.out.as_slice().to_vec();
            pool::give_back(std::mem::replace(&mut self.out, events));
        }
    }

    /// Takes the events that are ready.
    pub(super) fn take_events(&mut self) -> Bytes {
        into_piece(std::mem::take(&mut self.out))
    }

    /// Counts the buffered part of an event whose end has not come yet, if it is large.
    fn hold(&mut self) -> bool {
        let buffered = self.stream.buffered() + self.out.len();
        self.memory
            .hold(if buffered > SMALL { buffered } else { 0 })
    }
}

/// Makes events ready to be sent. Memory of the pool goes back to it, since the events may wait.
pub(super) fn into_piece(events: Vec<u8>) -> Bytes {
    if events.capacity() != pool::SIZE {
        return events.into();
    }
    let copy = Bytes::copy_from_slice(&events);
    pool::give_back(events);
    copy
}

/// Returns the future's value, if it is ready now.
async fn poll_now<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

#[cfg(test)]
mod tests;
