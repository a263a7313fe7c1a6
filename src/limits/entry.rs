//! An [`Entry`] is the place of a request whose body is still arriving. The place is taken from the
//! caller and the key, since the model is not known yet.
//!
//! An entry counts in this gateway only, and bounds only other entries. The admission takes a place
//! of its own; by then the entry is given back.

use super::{Bounds, Kind, LimitReached, Scope, WHOLE_LIMIT, lock_tallies};
use std::sync::Arc;

/// The places of one upload. Dropping the entry frees them.
#[derive(Debug)]
pub struct Entry([Option<Arc<Scope>>; 3]);

/// Takes a place from each bound that limits places, or from none. Returns `None` if no bound
/// limits places.
pub fn enter_request(
    bounds: &Bounds<'_>,
    now: impl FnOnce() -> u64,
) -> Result<Option<Entry>, LimitReached> {
    let bounds: Bounds<'_> = bounds
        .iter()
        .filter(|bound| bound.limits.allowed(Kind::Concurrency).is_some())
        .copied()
        .collect();
    if bounds.is_empty() {
        return Ok(None);
    }
    let now_ms = now();
    let mut tallies = lock_tallies(&bounds, now_ms);
    for (bound, tally) in tallies.iter().flatten() {
        let over = Kind::Concurrency
            .limit(bound.limits, WHOLE_LIMIT)
            .and_then(|limit| tally.no_place(limit));
        let over = over.map(|over| (bound.scope, over)).into_iter();
        if let Some(reached) = LimitReached::worst(
            over,
            || tally.limits_left(bound.limits, WHOLE_LIMIT, now_ms),
            WHOLE_LIMIT,
        ) {
            return Err(reached);
        }
    }
    Ok(Some(Entry(tallies.each_mut().map(|locked| {
        let (bound, tally) = locked.as_mut()?;
        tally.enter();
        bound.scope.note_use();
        Some(bound.scope.clone())
    }))))
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.0
            .iter()
            .flatten()
            .for_each(|scope| scope.tally().leave());
    }
}
