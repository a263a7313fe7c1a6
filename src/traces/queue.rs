//! The queue between exchanges, which settle, and the task that sends them. It holds a bounded
//! number of spans. What does not fit is dropped and counted: no request waits for a receiver.

use super::Unsent;
use crate::base::lock::{self, Lock};
use std::collections::VecDeque;
use std::sync::Condvar;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The most spans that wait.
const MOST: usize = 2_048;
/// The most spans that are sent together, but for those of one exchange.
pub(super) const BATCH: usize = 512;
/// The longest time that a span waits before it is sent.
const WAIT: Duration = Duration::from_secs(5);

/// The queue.
#[derive(Default)]
pub(super) struct SpanQueue {
    state: Lock<Waiting>,
    /// Wakes the task when there is enough for a batch, or when the end has come.
    wake: Notify,
    /// Tells who waits for the end that nothing is left.
    over: Condvar,
}

#[derive(Default)]
struct Waiting {
    kept: VecDeque<Unsent>,
    /// The number of their spans.
    spans: usize,
    /// True while a batch is being sent.
    is_sending: bool,
    /// True if everything is to be sent at once.
    is_hurried: bool,
}

impl SpanQueue {
    /// Puts an exchange in. Returns the number of spans that were dropped: all of its own, if there
    /// is no room.
    pub(super) fn put(&self, kept: Unsent) -> usize {
        let spans = kept.spans();
        let mut state = self.state.lock();
        if state.spans + spans > MOST {
            return spans;
        }
        let was = state.spans;
        state.spans += spans;
        state.kept.push_back(kept);
        let is_due = state.is_hurried || (was < BATCH && state.spans >= BATCH);
        drop(state);
        if is_due {
            self.wake.notify_one();
        }
        0
    }

    /// Waits until there is something to send. What is returned counts as being sent until
    /// [`SpanQueue::sent`] is called.
    pub(super) async fn batch(&self) -> Vec<Unsent> {
        loop {
            let is_due = {
                let state = self.state.lock();
                state.is_hurried || state.spans >= BATCH
            };
            if !is_due {
                // Nobody waits longer than this, whatever wakes the task.
                drop(tokio::time::timeout(WAIT, self.wake.notified()).await);
            }
            let batch = self.state.lock().take();
            if !batch.is_empty() {
                return batch;
            }
            if self.is_hurried() {
                self.wake.notified().await;
            }
        }
    }

    /// Notes that a batch is sent, or given up.
    pub(super) fn sent(&self) {
        self.state.lock().is_sending = false;
        self.over.notify_all();
    }

    /// Waits until everything is to be sent at once.
    pub(super) async fn hurried(&self) {
        while !self.is_hurried() {
            self.wake.notified().await;
        }
    }

    /// Returns whether everything is to be sent at once.
    pub(super) fn is_hurried(&self) -> bool {
        self.state.lock().is_hurried
    }

    /// Lets everything be sent at once, from now on.
    pub(super) fn hurry(&self) {
        self.state.lock().is_hurried = true;
        self.wake.notify_one();
    }

    /// Lets everything be sent, and waits for it, but not longer than this.
    pub(super) fn finish(&self, patience: Duration) {
        self.hurry();
        let due = Instant::now() + patience;
        let mut state = self.state.lock();
        while (state.is_sending || !state.kept.is_empty())
            && let Some(left) = due.checked_duration_since(Instant::now())
        {
            state = lock::wait_for(&self.over, state, left);
        }
    }
}

impl Waiting {
    /// Takes out what is sent together.
    fn take(&mut self) -> Vec<Unsent> {
        let (mut batch, mut spans) = (Vec::new(), 0);
        while self.kept.front().is_some_and(|next| spans == 0 || spans + next.spans() <= BATCH)
            && let Some(next) = self.kept.pop_front()
        {
            spans += next.spans();
            batch.push(next);
        }
        self.spans -= spans;
        self.is_sending = !batch.is_empty();
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settled::{Settled, Tried};

    fn kept(attempts: usize) -> Unsent {
        let mut settled = Settled::default();
        settled.attempts.trail.resize(attempts, Tried::default());
        Unsent { settled, snapshot: None }
    }

    fn spans(batch: &[Unsent]) -> usize {
        batch.iter().map(Unsent::spans).sum()
    }

    #[test]
    fn what_does_not_fit_is_dropped_whole() {
        let queue = SpanQueue::default();
        assert_eq!((0..MOST).map(|_| queue.put(kept(1))).sum::<usize>(), MOST);
        assert_eq!(queue.put(kept(0)), 1);
        let batch = queue.state.lock().take();
        assert_eq!(spans(&batch), BATCH);
        assert_eq!((queue.put(kept(BATCH - 1)), queue.put(kept(0))), (0, 1));
        // An exchange is never cut, however many attempts it has.
        let queue = SpanQueue::default();
        assert_eq!((queue.put(kept(BATCH + 100)), queue.put(kept(0))), (0, 0));
        let sizes = [0, 1, 2].map(|_| spans(&queue.state.lock().take()));
        assert_eq!(sizes, [BATCH + 101, 1, 0]);
    }

    #[tokio::test]
    async fn a_full_batch_waits_for_nothing_and_less_waits_for_its_time_or_the_end() {
        let queue = SpanQueue::default();
        let lost: usize = (0..BATCH + 1).map(|_| queue.put(kept(0))).sum();
        assert_eq!(lost, 0);
        let begun = Instant::now();
        assert_eq!(spans(&queue.batch().await), BATCH);
        queue.sent();
        assert!(begun.elapsed() < WAIT);
        // A full batch was announced, and is taken: the next one waits all the same.
        assert_eq!(spans(&queue.batch().await), 1);
        queue.sent();
        queue.put(kept(2));
        queue.hurry();
        assert_eq!(spans(&queue.batch().await), 3);
    }

    #[test]
    fn the_end_waits_for_what_is_being_sent_and_not_for_ever() {
        let queue = SpanQueue::default();
        queue.finish(Duration::from_secs(60));
        queue.put(kept(0));
        let begun = Instant::now();
        queue.finish(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        std::thread::scope(|scope| {
            assert_eq!(queue.state.lock().take().len(), 1);
            let end = scope.spawn(|| queue.finish(Duration::from_secs(60)));
            queue.sent();
            assert!(end.join().is_ok());
        });
    }
}
