//! An [`Epoch`] is the time for which the store remembers what this gateway has sent. A new one
//! begins with each connection, and whenever the store may have lost something; then every scope is
//! sent again.

use super::clock_ms;
use crate::base::calendar::day_of;
use crate::limits::{Registry, Scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No scope is sent in this epoch.
pub(super) const UNTOLD: u64 = 0;

pub(super) struct Epoch {
    /// A scope notes by this number in which epoch it was last sent.
    pub(super) number: u64,
    /// The store knows this gateway's parts by this name.
    pub(super) name: String,
    /// Scopes that are still to be sent.
    pub(super) backlog: Vec<Arc<Scope>>,
    /// How many of them were sent.
    pub(super) told: usize,
    /// The day since 1970 on which the epoch began.
    pub(super) first_day: u64,
}

impl Epoch {
    /// Begins an epoch in which all of the registry's scopes are to be sent.
    pub(super) fn begin(registry: &Registry, process: &str) -> Epoch {
        // The number is of all sessions of the process.
        static EPOCHS: AtomicU64 = AtomicU64::new(UNTOLD + 1);
        Epoch {
            number: EPOCHS.fetch_add(1, Ordering::Relaxed),
            name: format!("{process}.{:016x}", fastrand::u64(..)),
            backlog: registry.scopes(),
            told: 0,
            first_day: day_of(clock_ms()),
        }
    }
}
