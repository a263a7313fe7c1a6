//! Going down in order: who is still at work, and how far the way down has gone.
//!
//! serving → delaying (still serving, but `/readyz` says no and connections close) → draining (no
//! new connection) → cutting (what still runs ends with an error). The process ends as soon as no
//! exchange is left, whichever phase it is in.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How far the way down has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not bound or not loaded yet.
    Starting,
    /// The usual.
    Serving,
    /// A load balancer is to notice first.
    Delaying,
    /// Only what runs.
    Draining,
    /// Not even that.
    Cutting,
}

/// The phase, and the count of exchanges.
pub struct Drain {
    phase: watch::Sender<Phase>,
    exchanges: AtomicUsize,
}

impl Default for Drain {
    fn default() -> Drain {
        Drain { phase: watch::Sender::new(Phase::Starting), exchanges: AtomicUsize::new(0) }
    }
}

impl Drain {
    /// The present phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Goes on; never back.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let on = *now < phase;
            if on {
                *now = phase;
            }
            on
        });
    }

    /// Whether new work is welcome.
    pub fn ready(&self) -> bool {
        self.phase() == Phase::Serving
    }

    /// Resolves when what still runs must end.
    pub async fn cutting(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives in `self`, so this can only end by the phase.
        if phase.wait_for(|p| *p == Phase::Cutting).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// An exchange begins.
    pub fn begin(&self) {
        self.exchanges.fetch_add(1, Ordering::AcqRel);
    }

    /// An exchange is settled.
    pub fn end(&self) {
        self.exchanges.fetch_sub(1, Ordering::AcqRel);
    }

    /// How many run.
    pub fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::Acquire)
    }

    /// Waits until no exchange is left. Polls, since it happens once in a process's life and must
    /// not cost every exchange a wake-up.
    pub async fn idle(&self) {
        while self.exchanges() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
