//! A place is the right to be connected to the admin listener.
//!
//! A connection is idle until it has sent the head of a request. When all places are taken, the
//! oldest idle connection has to go, so that idle connections do not keep others out.
//! **Invariant:** a connection that has sent a head is never closed for a new one.

use crate::base::lock::Lock;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// All places of the listener.
pub(super) struct ConnectionSlots {
    max_connections: usize,
    state: Lock<Taken>,
}

#[derive(Default)]
struct Taken {
    count: usize,
    next_number: u64,
    /// The idle connections, the oldest first. A connection has to go when its sender is dropped.
    idle: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A connection that has a place, and gives it back when it is dropped.
pub(super) struct Connected {
    number: u64,
    slots: Arc<ConnectionSlots>,
}

impl ConnectionSlots {
    /// Makes `max_connections` places.
    pub(super) fn new(max_connections: usize) -> Arc<Self> {
        Arc::new(Self {
            max_connections,
            state: Lock::default(),
        })
    }

    /// Takes a place for an idle connection, if necessary from the oldest idle one. The receiver
    /// ends when the connection has to go. Returns `None` if all connections are busy.
    pub(super) fn take(self: &Arc<Self>) -> Option<(Connected, oneshot::Receiver<()>)> {
        let (leave, leaving) = oneshot::channel();
        let mut taken = self.state.lock();
        if taken.count >= self.max_connections {
            // The old connection gives its place back only when it is polled next. Until then there
            // is one more than the most.
            drop(taken.idle.pop_front()?);
        }
        taken.count += 1;
        taken.next_number += 1;
        let number = taken.next_number;
        taken.idle.push_back((number, leave));
        Some((
            Connected {
                number,
                slots: self.clone(),
            },
            leaving,
        ))
    }
}

impl Connected {
    /// Notes that a head has come. Returns whether it came in time, that is, before the place was
    /// given to another connection.
    pub(super) fn mark_busy(&self) -> bool {
        let mut taken = self.slots.state.lock();
        let index = taken
            .idle
            .iter()
            .position(|(number, _)| *number == self.number);
        // The receiver of a busy connection is not looked at any more.
        index.and_then(|index| taken.idle.remove(index)).is_some()
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut taken = self.slots.state.lock();
        taken.count = taken.count.saturating_sub(1);
        taken.idle.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_one_goes_busy_stay() {
        let places = ConnectionSlots::new(3);
        let mut all: Vec<_> = (0..3).map(|_| places.take().unwrap()).collect();
        let gone = |leaving: &mut oneshot::Receiver<()>| {
            leaving.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        assert!(all[0].0.mark_busy());
        let fourth = places.take().unwrap();
        assert!(
            gone(&mut all[1].1) && !gone(&mut all[2].1),
            "the oldest idle one"
        );
        assert!(!all[1].0.mark_busy(), "it is too late");
        assert!(fourth.0.mark_busy() && all[2].0.mark_busy());
        assert!(places.take().is_none(), "all are busy");
        all.remove(2);
        all.remove(1);
        assert!(places.take().is_some());
        drop((all, fourth));
        assert_eq!(places.state.lock().count, 0);
    }
}
