//! A [`Queue`] holds the requests that wait for a place at a model whose accounts are all full or
//! at rest. The first that comes is the first served, and the number of waiting requests is
//! bounded.
//!
//! Only the head of the queue tries to get a place. The others wait until the head has left, so
//! that no request is overtaken, and a thousand waiting requests cost as much as one. A request
//! that is shed or gives up gets a `retry-after`, by the number of requests in front and the number
//! that were admitted lately.
//!
//! **Invariant:** a [`Ticket`] is one waiting request, from [`Queue::enter`] until it is dropped,
//! in whatever state its task was.

use super::window::Window;
use crate::base::lock::Lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// The time over which the speed of the queue is measured.
const SPAN: Duration = Duration::from_secs(10);
/// The shortest time of counting that gives a rate.
const AT_LEAST: Duration = Duration::from_secs(1);
/// The longest `retry-after` of a caller, in seconds.
const MAX_WAIT_SECONDS: u64 = 60;

/// The queue of one model.
#[derive(Debug)]
pub struct Queue {
    waiting: AtomicUsize,
    /// The permit that the head holds. It is fair: it goes to the first that asked for it.
    head: Arc<Semaphore>,
    admitted: Lock<Window>,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            waiting: AtomicUsize::new(0),
            head: Arc::new(Semaphore::new(1)),
            admitted: Lock::new(Window::new(SPAN)),
        }
    }
}

/// Whether a ticket counts in the length of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    Counted,
    Uncounted,
}

impl Queue {
    /// Takes the last place in the queue. Returns `None` if `length` requests wait already. A new
    /// request must ask [`Queue::is_empty`] before it asks an account: if others wait, it is not
    /// its turn.
    pub fn enter(self: &Arc<Queue>, length: usize) -> Option<Ticket> {
        self.waiting
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| {
                (n < length).then_some(n + 1)
            })
            .ok()?;
        Some(self.line_up(Counting::Counted))
    }

    /// Takes the last place for a part of a request whose other parts run already. It counts as
    /// none, so that it turns no request away.
    pub fn enter_uncounted(self: &Arc<Queue>) -> Ticket {
        self.line_up(Counting::Uncounted)
    }

    fn line_up(self: &Arc<Queue>, counting: Counting) -> Ticket {
        let mut turn = Turn::Waits(Box::pin(self.head.clone().acquire_owned()));
        // The first poll puts the request in line. Whoever waits polls it again.
        let _asked = turn.poll(&mut Context::from_waker(Waker::noop()));
        Ticket {
            turn,
            queue: self.clone(),
            is_counted: counting == Counting::Counted,
        }
    }

    /// Returns the number of waiting requests, the head included.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Returns whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Notes that a request begins its first attempt, whether it waited or not.
    pub fn admitted(&self, now: Instant) {
        self.admitted.lock().add((1, 0), now);
    }

    /// Returns the number of seconds, from 1 to 60, after which a request would be admitted that
    /// came now and waited behind all others, if the queue keeps its present speed.
    pub fn retry_after(&self, now: Instant) -> u64 {
        let (admitted, over) = {
            let admitted = self.admitted.lock();
            (admitted.sums(now).0, admitted.looks_back(now))
        };
        wait_seconds(self.waiting(), admitted, over)
    }
}

/// Returns how long the last of a queue waits. If no request was admitted, one is assumed, since a
/// better rate is not known yet.
fn wait_seconds(in_front: usize, admitted: u64, over: Duration) -> u64 {
    let over = if admitted == 0 {
        SPAN
    } else {
        over.max(AT_LEAST)
    };
    let each = over.as_secs_f64() / admitted.max(1) as f64;
    let whole = Duration::try_from_secs_f64((each * (in_front as f64 + 1.0)).ceil())
        .map_or(MAX_WAIT_SECONDS, |wait| wait.as_secs());
    whole.clamp(1, MAX_WAIT_SECONDS)
}

/// A request's place in the queue.
pub struct Ticket {
    turn: Turn,
    queue: Arc<Queue>,
    is_counted: bool,
}

impl Ticket {
    /// Waits until all requests in front have left, one way or another. It is cancel-safe, since
    /// the place belongs to the ticket and not to this future. After that the ticket is the head
    /// until it is dropped.
    pub async fn turn(&mut self) {
        std::future::poll_fn(|context| self.turn.poll(context)).await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // This comes before the count goes down: whoever finds the queue empty finds the head's
        // permit free, too.
        self.turn = Turn::Left;
        self.queue
            .waiting
            .fetch_sub(usize::from(self.is_counted), Ordering::AcqRel);
    }
}

enum Turn {
    Waits(Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>),
    /// The permit is held only to be given back.
    Come(#[expect(dead_code, reason = "a guard")] OwnedSemaphorePermit),
    Left,
}

impl Turn {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Turn::Waits(permit) = self else {
            return Poll::Ready(());
        };
        match permit.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(permit) => {
                // The semaphore is never closed. If it were, no request would have to wait for it.
                *self = permit.map_or(Turn::Left, Turn::Come);
                Poll::Ready(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// Returns whether its turn has come, by one poll.
    fn is_head(ticket: &mut Ticket) -> bool {
        std::pin::pin!(ticket.turn())
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    }

    #[test]
    fn first_come_first_served() {
        let queue = Arc::new(Queue::default());
        let (mut a, mut b, mut c) = (
            queue.enter(3).unwrap(),
            queue.enter(3).unwrap(),
            queue.enter(3).unwrap(),
        );
        assert!(
            queue.enter(3).is_none() && queue.waiting() == 3,
            "who is shed is not counted"
        );
        assert!(
            !is_head(&mut c) && !is_head(&mut b) && is_head(&mut a),
            "in whatever order they ask"
        );
        drop(b);
        assert!(
            !is_head(&mut c),
            "who leaves from the middle lets nobody pass the head"
        );
        let mut d = queue.enter(3).unwrap();
        drop(a);
        assert!(!is_head(&mut d) && is_head(&mut c));
        drop(c);
        assert!(is_head(&mut d) && is_head(&mut d), "it stays the head's");
        drop(d);
        assert!(queue.is_empty() && is_head(&mut queue.enter(1).unwrap()));
        assert!(
            queue.is_empty() && queue.enter(0).is_none(),
            "where nobody may wait"
        );
        let mut first = queue.enter(1).unwrap();
        let mut part = queue.enter_uncounted();
        assert!(
            is_head(&mut first) && !is_head(&mut part) && queue.waiting() == 1,
            "a part waits in line"
        );
        drop(first);
        assert!(
            is_head(&mut part) && queue.is_empty() && queue.enter(1).is_some(),
            "and takes no place"
        );
        drop(part);
        assert!(queue.is_empty());
    }

    #[test]
    fn how_long_it_will_take() {
        let check = |in_front, admitted, over: f64, expected| {
            assert_eq!(
                wait_seconds(in_front, admitted, Duration::from_secs_f64(over)),
                expected,
                "{in_front} {admitted} {over}"
            );
        };
        check(0, 1000, 10.0, 1);
        check(99, 100, 10.0, 10);
        check(100, 100, 10.0, 11);
        check(9, 5, 10.0, 20);
        check(usize::MAX, 1, 10.0, 60);
        // A queue that is young.
        check(4, 5, 2.0, 2);
        check(4, 1, 0.0, 5);
        // No request was admitted.
        check(0, 0, 0.0, 10);
        check(3, 0, 10.0, 40);
        check(50, 0, 10.0, 60);
    }

    #[test]
    fn it_goes_as_it_went_of_late() {
        let (queue, start) = (Arc::new(Queue::default()), Instant::now());
        let _waits: Vec<Ticket> = (0..19).map(|_| queue.enter(100).unwrap()).collect();
        for n in 0..60 {
            queue.admitted(start + Duration::from_millis(100) * n);
        }
        assert_eq!(
            queue.retry_after(start + Duration::from_secs(6)),
            2,
            "ten a second, and 19 in front"
        );
        assert_eq!(
            queue.retry_after(start + Duration::from_secs(60)),
            60,
            "what was a minute ago says nothing"
        );
    }

    #[tokio::test]
    async fn who_waits_is_woken_once_the_head_has_left() {
        let queue = Arc::new(Queue::default());
        let order = Arc::new(Lock::new(Vec::new()));
        let head = queue.enter(10).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..8 {
            let (mut ticket, order) = (queue.enter(10).unwrap(), order.clone());
            tasks.spawn(async move {
                if n == 3 {
                    // Its place is the ticket's: what it waits with may be dropped and made anew.
                    assert!(!is_head(&mut ticket));
                    tokio::task::yield_now().await;
                }
                ticket.turn().await;
                order.lock().push(n);
                tokio::task::yield_now().await;
            });
        }
        tokio::task::yield_now().await;
        assert!(order.lock().is_empty());
        drop(head);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        assert_eq!(*order.lock(), (0..8).collect::<Vec<_>>());
        assert!(queue.is_empty());
    }

    #[derive(Debug, Clone)]
    enum Step {
        Enter,
        /// One of those that wait asks whether its turn has come.
        Ask(usize),
        /// One leaves: its caller, its deadline, or it was admitted.
        Leave(usize),
    }

    proptest! {
        /// Against a plain list, however they come, ask and leave.
        #[test]
        fn it_queues_as_a_list_would(
            steps in prop::collection::vec(
                prop_oneof![Just(Step::Enter), any::<usize>().prop_map(Step::Ask), any::<usize>().prop_map(Step::Leave)], 0..200),
            length in 0usize..8,
        ) {
            let queue = Arc::new(Queue::default());
            let mut list: Vec<Ticket> = Vec::new();
            for step in steps {
                match step {
                    Step::Enter => {
                        let ticket = queue.enter(length);
                        prop_assert_eq!(ticket.is_some(), list.len() < length);
                        list.extend(ticket);
                    }
                    Step::Ask(which) if !list.is_empty() => {
                        let which = which % list.len();
                        prop_assert_eq!(is_head(&mut list[which]), which == 0);
                    }
                    Step::Leave(which) if !list.is_empty() => drop(list.remove(which % list.len())),
                    Step::Ask(_) | Step::Leave(_) => {}
                }
                prop_assert_eq!(queue.waiting(), list.len());
                prop_assert_eq!(queue.is_empty(), list.is_empty());
            }
            if let Some(first) = list.first_mut() {
                prop_assert!(is_head(first), "somebody can always go on");
            }
        }
    }
}
