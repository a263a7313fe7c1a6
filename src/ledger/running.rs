//! [`Running`] lists the exchanges that run. The writer reads the list every few seconds, and
//! writes what they have used so far.
//!
//! An exchange enters the list when it is admitted, and leaves it with its final row.
//! **Invariant:** one lock guards both the leaving of an exchange and the mark that the file may
//! have something of it. So its final row knows whether it replaces something. An exchange that
//! began and ended between two reads of the list was never written.

use super::{Row, Run};
use crate::base::lock::Lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// An exchange that runs.
pub trait Runs: Send + Sync {
    /// Returns the row that the exchange would have if the process ended now.
    fn so_far(&self) -> Row;

    /// Claims the settling of the exchange. Returns whether it was free.
    fn claim(&self) -> bool;
}

/// The list of all running exchanges. It has several parts, so that few exchanges wait for the same
/// lock.
#[derive(Default)]
pub(super) struct Running {
    parts: [Lock<Places>; PARTS],
    last_number: AtomicU64,
}

const PARTS: usize = 16;

#[derive(Default)]
struct Places {
    places: Vec<Option<RunningPlace>>,
    free_indices: Vec<usize>,
}

struct RunningPlace {
    number: u64,
    runs: Weak<dyn Runs>,
    /// True if the file may have something of the exchange.
    may_be_written: bool,
}

impl Running {
    /// Adds an exchange.
    pub(super) fn begin(&self, runs: Weak<dyn Runs>) -> Run {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let mut places = self.part(number);
        let new = Some(RunningPlace {
            number,
            runs,
            may_be_written: false,
        });
        let free = places.free_indices.pop();
        let slot = match free.and_then(|index| Some((index, places.places.get_mut(index)?))) {
            Some((index, entry)) => {
                *entry = new;
                index
            }
            None => {
                places.places.push(new);
                places.places.len() - 1
            }
        };
        Run { slot, number }
    }

    /// Removes an exchange. Returns whether the file may have something of it.
    pub(super) fn end(&self, run: Run) -> bool {
        let mut places = self.part(run.number);
        let Some(entry) = places.places.get_mut(run.slot) else {
            return false;
        };
        let Some(ended) = entry.take_if(|entry| entry.number == run.number) else {
            return false;
        };
        places.free_indices.push(run.slot);
        drop(places);
        ended.may_be_written
    }

    /// Returns all exchanges that run now, and marks each: the file may have something of it from
    /// now on.
    pub(super) fn list_and_mark(&self) -> Vec<(u64, Arc<dyn Runs>)> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(part.lock().places.iter_mut().flatten().filter_map(|entry| {
                let runs = entry.runs.upgrade()?;
                entry.may_be_written = true;
                Some((entry.number, runs))
            }));
        }
        all
    }

    /// Returns all exchanges that run now, with their places.
    pub(super) fn all(&self) -> Vec<(Run, Arc<dyn Runs>)> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(
                part.lock()
                    .places
                    .iter()
                    .enumerate()
                    .filter_map(|(slot, running)| {
                        let RunningPlace { number, runs, .. } = running.as_ref()?;
                        Some((
                            Run {
                                slot,
                                number: *number,
                            },
                            runs.upgrade()?,
                        ))
                    }),
            );
        }
        all
    }

    /// Returns whether no exchange runs.
    pub(super) fn is_empty(&self) -> bool {
        self.parts
            .iter()
            .map(Lock::lock)
            .all(|places| places.places.len() == places.free_indices.len())
    }

    /// Locks the part of the list that has the exchange with this number.
    fn part(&self, number: u64) -> MutexGuard<'_, Places> {
        let [first, ..] = &self.parts;
        let index = usize::try_from(number % PARTS as u64).unwrap_or_default();
        self.parts.get(index).unwrap_or(first).lock()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    struct Still;

    impl Runs for Still {
        fn so_far(&self) -> Row {
            row(1)
        }

        fn claim(&self) -> bool {
            true
        }
    }

    #[test]
    fn who_leaves_knows_whether_it_was_looked_at() {
        let running = Running::default();
        let (one, two): (Arc<dyn Runs>, Arc<dyn Runs>) = (Arc::new(Still), Arc::new(Still));
        let first = running.begin(Arc::downgrade(&one));
        assert!(!running.end(first), "it was never looked at");
        assert!(running.is_empty());
        let second = running.begin(Arc::downgrade(&one));
        assert_eq!(
            running
                .list_and_mark()
                .iter()
                .map(|(number, _)| *number)
                .collect::<Vec<_>>(),
            [second.number]
        );
        // In the place of one that has left there is another one now.
        let third = running.begin(Arc::downgrade(&two));
        assert!(running.end(second));
        // The others that begin before the same part has its turn leave at once.
        (0..PARTS - 2)
            .map(|_| running.begin(Arc::downgrade(&one)))
            .for_each(|run| assert!(!running.end(run)));
        let fourth = running.begin(Arc::downgrade(&two));
        assert_eq!(
            second.number + PARTS as u64,
            fourth.number,
            "in the same part"
        );
        assert!(second.slot == fourth.slot && second.number != fourth.number);
        assert!(!running.end(second), "it leaves once");
        assert!(!running.end(third) && !running.end(fourth) && running.is_empty());
    }

    #[test]
    fn all_are_looked_at_whichever_part_they_are_in() {
        let running = Running::default();
        let one: Arc<dyn Runs> = Arc::new(Still);
        let runs: Vec<Run> = (0..3 * PARTS)
            .map(|_| running.begin(Arc::downgrade(&one)))
            .collect();
        let mut seen: Vec<u64> = running
            .list_and_mark()
            .iter()
            .map(|(number, _)| *number)
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, runs.iter().map(|run| run.number).collect::<Vec<_>>());
        assert!(
            !running.is_empty()
                && runs.into_iter().all(|run| running.end(run))
                && running.is_empty()
        );
    }

    #[test]
    fn who_left_silently_is_not_looked_at() {
        let running = Running::default();
        let one: Arc<dyn Runs> = Arc::new(Still);
        running.begin(Arc::downgrade(&one));
        drop(one);
        assert_eq!(running.list_and_mark().len(), 0);
    }
}
