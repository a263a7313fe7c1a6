//! A [`Drain`] ends a process in order: it counts the exchanges that run, and knows the phase of
//! the shutdown.
//!
//! The phases are: serving → delaying (still serving, but `/readyz` says no and connections close)
//! → draining (no new connections) → cutting (what still runs ends with an error). After the
//! delay, the process ends as soon as no exchange is left.

use crate::base::clock::Clock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The phases of the process, in their order.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing is loaded, or no address is bound yet.
    #[default]
    Starting,
    /// Callers are served.
    Serving,
    /// Callers are served while load balancers notice the shutdown.
    Delaying,
    /// Only running exchanges are served.
    Draining,
    /// Running exchanges are ended.
    Cutting,
}

/// The phase of the process, and the number of exchanges that run.
#[derive(Default)]
pub struct Drain {
    phase: watch::Sender<Phase>,
    exchanges: AtomicUsize,
    /// The answers that are passed on after their exchanges.
    relays: AtomicUsize,
    /// The exchanges that were cut, and whose callers did not take the error in time.
    undelivered: AtomicUsize,
}

/// An answer that is passed on within the process. The process does not end before it has arrived,
/// as far as the grace allows.
pub struct Relaying<'d>(&'d Drain);

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.relays.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drain {
    /// Returns the present phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Enters a phase, unless a later one is entered already.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let on = *now < phase;
            if on {
                *now = phase;
            }
            on
        });
    }

    /// Returns whether new requests are welcome.
    pub fn ready(&self) -> bool {
        self.phase() == Phase::Serving
    }

    /// Returns whether a new request is served, from wherever it comes.
    pub fn takes_new(&self) -> bool {
        self.phase() < Phase::Draining
    }

    /// Waits until this phase, or a later one, is entered.
    pub async fn wait_for_phase(&self, wanted: Phase) {
        let mut phase = self.phase.subscribe();
        // The sender lives in `self`, so this can only end by the phase.
        if phase.wait_for(|now| *now >= wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until running exchanges must end.
    pub async fn wait_for_cutting(&self) {
        self.wait_for_phase(Phase::Cutting).await;
    }

    /// Counts an exchange that begins.
    pub fn begin_exchange(&self) {
        self.exchanges.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts an exchange that is settled.
    pub fn end_exchange(&self) {
        self.exchanges.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts an answer that is passed on, until the guard is dropped.
    pub fn relay(&self) -> Relaying<'_> {
        self.relays.fetch_add(1, Ordering::AcqRel);
        Relaying(self)
    }

    /// Counts an exchange that is cut without the error that its caller should get.
    pub fn note_undelivered(&self) {
        self.undelivered.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of exchanges that were cut without an error.
    pub fn undelivered(&self) -> usize {
        self.undelivered.load(Ordering::Acquire)
    }

    /// Waits until exchanges are cut, and none of them has ended for a time: it is then in vain to
    /// wait for the others.
    pub async fn wait_until_stalled(&self, time: Duration) {
        self.wait_for_cutting().await;
        loop {
            let before = self.exchanges();
            Clock::sleep_until(Clock::now() + time).await;
            if self.exchanges() >= before {
                return;
            }
        }
    }

    /// Returns the number of running exchanges.
    pub fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::Acquire)
    }

    /// Waits until no exchange and no relay is left. It polls, since this happens once in a
    /// process's life, and must not cost each exchange a wake-up.
    pub async fn wait_until_idle(&self) {
        while self.exchanges() > 0 || self.relays.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
