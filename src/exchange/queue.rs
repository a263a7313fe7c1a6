//! Who waits for a place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Stand-in.
pub struct Queue {
    waiting: Arc<AtomicUsize>,
    /// Whose turn it is.
    pub turn: Semaphore,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { waiting: Arc::default(), turn: Semaphore::new(1) }
    }
}

/// In the queue.
pub struct Ticket(Arc<AtomicUsize>);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Queue {
    /// Waits.
    pub fn enter(&self, length: usize) -> Option<Ticket> {
        let entered = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < length).then_some(n + 1)).is_ok();
        entered.then(|| Ticket(self.waiting.clone()))
    }
    /// So many.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }
    /// Counts.
    pub fn admitted(&self, _: Instant) {}
    /// Seconds.
    pub fn retry_after(&self, _: Instant) -> u64 {
        1
    }
}
