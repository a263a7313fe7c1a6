//! An [`Epoch`] is the time in which this gateway may rely on the store having what it has sent. A
//! new one begins with each connection, and whenever the store may have lost something. Then every
//! scope is sent again.

use crate::base::calendar::{day_of, now_millis};
use crate::limits::{Registry, Scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of no epoch: a scope with this number was not sent.
pub(super) const NOT_SENT: u64 = 0;

pub(super) struct Epoch {
    /// The number of the epoch. Each scope keeps the number of the epoch in which it was last sent.
    pub(super) number: u64,
    /// The name by which the store knows this gateway's parts.
    pub(super) name: String,
    /// The scopes that are still to be sent.
    pub(super) backlog: Vec<Arc<Scope>>,
    /// The number of scopes of the backlog that were sent.
    pub(super) sent_count: usize,
    /// The day on which the epoch began, as the number of days since 1970.
    pub(super) first_day: u64,
}

impl Epoch {
    /// Begins an epoch in which all scopes of the registry are to be sent.
    pub(super) fn begin(registry: &Registry, process: &str) -> Epoch {
        // All sessions of the process share the numbers.
        static EPOCHS: AtomicU64 = AtomicU64::new(NOT_SENT + 1);
        Epoch {
            number: EPOCHS.fetch_add(1, Ordering::Relaxed),
            name: format!("{process}.{:016x}", fastrand::u64(..)),
            backlog: registry.scopes(),
            sent_count: 0,
            first_day: day_of(now_millis()),
        }
    }
}
