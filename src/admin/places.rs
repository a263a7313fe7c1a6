//! Who may be connected to the admin listener at once.
//!
//! Whoever has not sent a request's head yet is idle. When all places are taken, the oldest idle
//! one has to go, so that no number of them keeps anybody out. **Invariant:** who has sent a head
//! is never sent away by somebody else's coming.

use crate::lock::Lock;
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use tokio::sync::oneshot;

/// All places.
pub(super) struct Places {
    most: usize,
    taken: Lock<Taken>,
}

#[derive(Default)]
struct Taken {
    count: usize,
    next: u64,
    /// The oldest first. Each goes when it is dropped.
    idle: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A taken place.
pub(super) struct Place {
    number: u64,
    places: Arc<Places>,
}

impl Places {
    /// So many.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Lock::default() })
    }

    /// Takes a place for an idle connection, if need be from the oldest idle one. The receiver ends
    /// when the connection has to go. None: all are busy.
    pub(super) fn take(self: &Arc<Self>) -> Option<(Place, oneshot::Receiver<()>)> {
        let (leave, leaving) = oneshot::channel();
        let mut taken = self.taken();
        if taken.count >= self.most {
            // It gives its place back only when it is polled next; until then there is one more
            // than the most.
            drop(taken.idle.pop_front()?);
        }
        taken.count += 1;
        taken.next += 1;
        let number = taken.next;
        taken.idle.push_back((number, leave));
        Some((Place { number, places: self.clone() }, leaving))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock()
    }
}

impl Place {
    /// A head has come. Whether it came in time: nobody was given this place meanwhile.
    pub(super) fn is_busy(&self) -> bool {
        let mut taken = self.places.taken();
        let at = taken.idle.iter().position(|(number, _)| *number == self.number);
        at.and_then(|at| taken.idle.remove(at)).is_some_and(|(_, leave)| {
            // It is to stay: its receiver is looked at no more.
            drop(leave);
            true
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.count = taken.count.saturating_sub(1);
        taken.idle.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_one_goes_and_who_is_busy_stays() {
        let places = Places::new(3);
        let mut all: Vec<_> = (0..3).map(|_| places.take().unwrap()).collect();
        let gone =
            |leaving: &mut oneshot::Receiver<()>| leaving.try_recv() == Err(oneshot::error::TryRecvError::Closed);
        assert!(all[0].0.is_busy());
        let fourth = places.take().unwrap();
        assert!(gone(&mut all[1].1) && !gone(&mut all[2].1), "the oldest idle one");
        assert!(!all[1].0.is_busy(), "it is too late");
        assert!(fourth.0.is_busy() && all[2].0.is_busy());
        assert!(places.take().is_none(), "all are busy");
        all.remove(2);
        all.remove(1);
        assert!(places.take().is_some());
        drop((all, fourth));
        assert_eq!(places.taken().count, 0);
    }
}
