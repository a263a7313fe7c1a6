//! The [`Clock`] of the gateway's own periods: cool-downs, refreshes, and the rounds of what runs
//! in the background. Windows of limits, dates, and the timeouts of the settings do not go by it,
//! but by the real time.
//!
//! It is the system's monotonic clock, and costs nothing more. With the feature `test-clock`, a
//! test may hold it, advance it, and ask for a round: the module `commands` has how.

use std::time::{Duration, Instant};

#[cfg(feature = "test-clock")]
pub mod commands;

/// The clock.
pub struct Clock;

/// Work in the background that is done again and again, with a pause after each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Problems are found.
    Problems,
    /// Notices of problems are sent.
    Notices,
    /// Host names are looked up.
    Names,
    /// Idle connections are closed.
    Connections,
    /// Lists of models are fetched.
    Lists,
    /// Keys of issuers are fetched.
    Keys,
    /// Credentials of accounts are obtained.
    Identities,
    /// Failing targets are probed.
    Probes,
    /// The files of the configuration are read, and what they hold is taken or not.
    Files,
}

#[cfg(not(feature = "test-clock"))]
impl Clock {
    /// Returns the time.
    #[inline]
    pub fn now() -> Instant {
        Instant::now()
    }

    /// Returns the time on this clock at a moment of the real time.
    #[inline]
    pub fn time_at(moment: Instant) -> Instant {
        moment
    }

    /// Waits until a time on this clock.
    pub async fn sleep_until(due: Instant) {
        tokio::time::sleep_until(due.into()).await;
    }

    /// Waits between two rounds.
    pub async fn pause(_: Round, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Notes that a round begins after a pause of another kind.
    #[inline]
    pub fn begin(_: Round) {}

    /// Notes that a round has ended, and the pause is of another kind.
    #[inline]
    pub fn end(_: Round) {}
}

#[cfg(feature = "test-clock")]
impl Clock {
    /// Returns the time.
    pub fn now() -> Instant {
        Clock::time_at(Instant::now())
    }

    /// Returns the time on this clock at a moment of the real time.
    pub fn time_at(moment: Instant) -> Instant {
        commands::CONTROL.lock().time_at(moment)
    }

    /// Waits until a time on this clock.
    pub async fn sleep_until(due: Instant) {
        commands::sleep_until(due).await;
    }

    /// Waits between two rounds.
    pub async fn pause(round: Round, time: Duration) {
        commands::pause(round, time).await;
    }

    /// Notes that a round begins after a pause of another kind.
    pub fn begin(round: Round) {
        commands::begin(round);
    }

    /// Notes that a round has ended, and the pause is of another kind.
    pub fn end(round: Round) {
        commands::end(round);
    }
}
