//! The queue between exchanges, which settle, and the task that sends them. It holds a bounded
//! number of spans. What does not fit is dropped and counted: no request waits for a receiver.

use crate::base::clock::Clock;
use crate::base::lock::{self, Lock};
use crate::settled::MAX_PARTS;
use std::collections::VecDeque;
use std::sync::Condvar;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The most spans that wait.
const MAX_WAITING_SPANS: usize = 2_048;
/// The most spans that are sent together, but for those of one exchange.
pub(super) const MAX_BATCH_SPANS: usize = 512;
// Beside the attempts of slices that are kept, there is room for those that ended in other ways.
const _: () = assert!(
    MAX_PARTS as usize <= MAX_WAITING_SPANS / 2,
    "an exchange of many slices does not fit"
);
/// The longest time that a span waits before it is sent.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The queue.
#[derive(Default)]
pub(super) struct SpanQueue {
    state: Lock<Waiting>,
    /// Wakes the task when there is enough for a batch, or when the end has come.
    wake: Notify,
    /// Wakes those who wait for the end, when nothing is left.
    over: Condvar,
}

/// The spans that are not sent because the process ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfinished {
    /// Those that were left at the end of the last wait.
    pub(super) left_at_end: usize,
    /// Those that were given up, and counted, before.
    pub(super) given_up_before: usize,
}

/// Spans that are sent together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The number of spans.
    pub(super) count: usize,
    /// Each span as a field of the message that has them all.
    pub(super) bytes: Vec<u8>,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    /// The number of their spans.
    spans: usize,
    /// The number of spans that are being sent.
    sending: usize,
    /// The number of spans for which there was no room, since this was asked last.
    overflown: usize,
    /// The number of spans that were given up because the process ends.
    given_up: usize,
    /// True if everything is to be sent at once.
    is_ending: bool,
}

impl SpanQueue {
    /// Puts the spans of an exchange in. Returns the number of spans that were dropped: all of
    /// them, if there is no room.
    pub(super) fn put(&self, count: usize, bytes: &[u8]) -> usize {
        let mut state = self.state.lock();
        if state.spans + count > MAX_WAITING_SPANS {
            state.overflown += count;
            return count;
        }
        let was = state.spans;
        state.spans += count;
        state.add(count, bytes);
        let is_due = state.is_ending || (was < MAX_BATCH_SPANS && state.spans >= MAX_BATCH_SPANS);
        drop(state);
        if is_due {
            self.wake.notify_one();
        }
        0
    }

    /// Waits until there is something to send. What is returned counts as being sent until
    /// [`SpanQueue::note_sent`] is called.
    pub(super) async fn next_batch(&self) -> Batch {
        loop {
            let is_due = {
                let state = self.state.lock();
                state.is_ending || state.spans >= MAX_BATCH_SPANS
            };
            if !is_due {
                // No span waits longer than this, whatever wakes the task.
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = Clock::sleep_until(Clock::now() + MAX_WAIT) => {}
                }
            }
            if let Some(batch) = self.state.lock().take() {
                return batch;
            }
            if self.is_ending() {
                self.wake.notified().await;
            }
        }
    }

    /// Notes that a batch was sent or dropped, but for so many of its spans, which were given up
    /// because the process ends. Returns whether they still count: the end may have counted them.
    pub(super) fn note_sent(&self, given_up: usize) -> bool {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.sending) == 0 {
            return false;
        }
        state.given_up += given_up;
        drop(state);
        self.over.notify_all();
        true
    }

    /// Returns for how many spans there was no room, since this was asked last.
    pub(super) fn take_overflown(&self) -> usize {
        std::mem::take(&mut self.state.lock().overflown)
    }

    /// Waits until everything is to be sent at once.
    pub(super) async fn wait_until_ending(&self) {
        while !self.is_ending() {
            self.wake.notified().await;
        }
    }

    /// Returns whether everything is to be sent at once.
    pub(super) fn is_ending(&self) -> bool {
        self.state.lock().is_ending
    }

    /// Lets everything be sent at once, from now on.
    pub(super) fn hurry(&self) {
        self.state.lock().is_ending = true;
        self.wake.notify_one();
    }

    /// Lets everything be sent, and waits for it, but not longer than this. What is left then is
    /// given up.
    pub(super) fn finish(&self, timeout: Duration) -> Unfinished {
        self.hurry();
        let due = Instant::now() + timeout;
        let mut state = self.state.lock();
        while (state.sending > 0 || !state.batches.is_empty())
            && let Some(left) = due.checked_duration_since(Instant::now())
        {
            state = lock::wait_with_timeout(&self.over, state, left);
        }
        let left = std::mem::take(&mut state.sending) + std::mem::take(&mut state.spans);
        state.batches.clear();
        Unfinished {
            left_at_end: left,
            given_up_before: state.given_up,
        }
    }
}

impl Waiting {
    /// Adds the spans of an exchange to the last batch, or begins another one. An exchange is never
    /// cut.
    fn add(&mut self, count: usize, bytes: &[u8]) {
        match self
            .batches
            .back_mut()
            .filter(|batch| batch.count + count <= MAX_BATCH_SPANS)
        {
            Some(batch) => {
                batch.count += count;
                batch.bytes.extend_from_slice(bytes);
            }
            None => self.batches.push_back(Batch {
                count,
                bytes: bytes.to_vec(),
            }),
        }
    }

    /// Takes out what is sent together.
    fn take(&mut self) -> Option<Batch> {
        let batch = self.batches.pop_front()?;
        self.spans -= batch.count;
        self.sending = batch.count;
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts an exchange with so many spans in.
    fn put(queue: &SpanQueue, count: usize) -> usize {
        queue.put(count, &vec![7; count])
    }

    fn take(queue: &SpanQueue) -> usize {
        queue.state.lock().take().map_or(0, counted)
    }

    fn counted(batch: Batch) -> usize {
        assert_eq!(batch.bytes, vec![7; batch.count]);
        batch.count
    }

    #[test]
    fn what_does_not_fit_is_dropped_whole() {
        let queue = SpanQueue::default();
        assert_eq!(
            (0..MAX_WAITING_SPANS)
                .map(|_| put(&queue, 2))
                .sum::<usize>(),
            MAX_WAITING_SPANS
        );
        assert_eq!(put(&queue, 1), 1);
        assert_eq!(take(&queue), MAX_BATCH_SPANS);
        assert_eq!((put(&queue, MAX_BATCH_SPANS), put(&queue, 1)), (0, 1));
        assert_eq!(
            [queue.take_overflown(), queue.take_overflown()],
            [MAX_WAITING_SPANS + 2, 0]
        );
        // An exchange is never cut, however many attempts it has.
        let queue = SpanQueue::default();
        assert_eq!((put(&queue, MAX_BATCH_SPANS + 101), put(&queue, 1)), (0, 0));
        assert_eq!(
            [0, 1, 2].map(|_| take(&queue)),
            [MAX_BATCH_SPANS + 101, 1, 0]
        );
    }

    #[tokio::test]
    async fn only_a_batch_that_is_not_full_waits() {
        let queue = SpanQueue::default();
        let lost: usize = (0..MAX_BATCH_SPANS + 1).map(|_| put(&queue, 1)).sum();
        assert_eq!(lost, 0);
        let begun = Instant::now();
        assert_eq!(counted(queue.next_batch().await), MAX_BATCH_SPANS);
        queue.note_sent(0);
        assert!(begun.elapsed() < MAX_WAIT);
        // A full batch was announced, and is taken: the next one waits all the same.
        assert_eq!(counted(queue.next_batch().await), 1);
        queue.note_sent(0);
        put(&queue, 3);
        queue.hurry();
        assert_eq!(counted(queue.next_batch().await), 3);
    }

    #[test]
    fn the_end_waits_for_sending_but_not_forever() {
        let queue = SpanQueue::default();
        assert_eq!(
            queue.finish(Duration::from_secs(60)),
            Unfinished {
                left_at_end: 0,
                given_up_before: 0
            }
        );
        put(&queue, 1);
        assert_eq!(take(&queue), 1);
        std::thread::scope(|scope| {
            let end = scope.spawn(|| queue.finish(Duration::from_secs(60)));
            assert!(queue.note_sent(1));
            assert_eq!(
                end.join().ok(),
                Some(Unfinished {
                    left_at_end: 0,
                    given_up_before: 1
                })
            );
        });
    }

    #[test]
    fn what_the_end_leaves_is_counted_once() {
        let queue = SpanQueue::default();
        for attempts in [0, 2] {
            put(&queue, 1 + attempts);
        }
        assert_eq!(take(&queue), 4);
        put(&queue, 2);
        let begun = Instant::now();
        let unfinished = queue.finish(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        assert_eq!(
            unfinished,
            Unfinished {
                left_at_end: 6,
                given_up_before: 0
            }
        );
        // The task comes too late to count its batch, and nothing is left for it.
        assert!(!queue.note_sent(4));
        assert_eq!(
            queue.finish(Duration::ZERO),
            Unfinished {
                left_at_end: 0,
                given_up_before: 0
            }
        );
    }
}
