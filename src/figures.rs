//! The [`Figures`] are what the page of operators shows of the whole gateway and of callers. What
//! it shows of models and targets is in their own state: see [`account`](crate::account).

pub mod callers;

use crate::series::Series;
use callers::Callers;
use std::sync::Arc;
use std::time::Instant;

/// The figures of a process.
#[derive(Default)]
pub struct Figures {
    /// The events of the last five minutes.
    pub whole: Series,
    /// The use of each caller.
    pub callers: Arc<Callers>,
}

impl Figures {
    /// Notes how many exchanges run and wait now.
    pub fn sample(&self, in_flight: usize, waiting: usize, now: Instant) {
        self.whole.sample(in_flight, waiting, now);
    }
}
