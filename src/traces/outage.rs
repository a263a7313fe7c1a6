//! What the log says of spans that are lost: one line when that begins, and one when it is over.
//! Pure: the time is passed in.

use super::post::Posted;
use std::time::{Duration, Instant};

/// The time without a lost span after which it is over, if only some of the spans were lost: their
/// batches come between others, and each would be an outage of its own.
const QUIET: Duration = Duration::from_secs(60);

/// What is known of an outage.
#[derive(Default)]
pub(super) struct Outage {
    /// The spans that were lost since it began; `None` if there is none.
    lost: Option<usize>,
    /// The time at which spans were lost last, if only some were.
    partly: Option<Instant>,
}

impl Outage {
    /// Notes what became of a batch of so many spans, and for how many others there was no room.
    /// Returns a line for the log, if there is something new.
    pub(super) fn note(
        &mut self,
        posted: &Posted,
        count: usize,
        full: usize,
        now: Instant,
    ) -> Option<(log::Level, String)> {
        let (lost, is_partly, what) = match posted {
            // The end of the process has a line of its own.
            Posted::Ended => return None,
            Posted::Taken { rejected: 0 } if full == 0 => return self.good(now),
            Posted::Taken { rejected: 0 } => {
                let what = "more spans come than the receiver at `traces.endpoint` takes: those that find no room in the queue are \
                            dropped";
                (0, true, what.to_owned())
            }
            Posted::Taken { rejected } => {
                let what = format!(
                    "the receiver at `traces.endpoint` takes spans and rejects {rejected} of {count}: these are dropped"
                );
                ((*rejected).min(count), true, what)
            }
            Posted::Later { why, .. } | Posted::Refused(why) | Posted::Failed(why) => {
                let what =
                    format!("spans cannot be sent to `traces.endpoint` ({why}): they are dropped until they can be");
                (count, false, what)
            }
        };
        self.partly = is_partly.then_some(now);
        let is_new = self.lost.is_none();
        *self.lost.get_or_insert(0) += lost + full;
        is_new.then_some((log::Level::Warn, what))
    }

    fn good(&mut self, now: Instant) -> Option<(log::Level, String)> {
        if self.partly.is_some_and(|last| now.duration_since(last) < QUIET) {
            return None;
        }
        let lost = self.lost.take()?;
        Some((log::Level::Info, format!("spans can be sent again; {lost} spans were dropped")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Posted = Posted::Taken { rejected: 0 };

    /// Notes batches of ten spans, one a second, and returns what is said at which second.
    fn said(batches: &[(Posted, usize)]) -> Vec<(u64, String)> {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        let mut note = |(second, (posted, full)): (u64, &(Posted, usize))| {
            let (_, what) = outage.note(posted, 10, *full, begin + Duration::from_secs(second))?;
            Some((second, what))
        };
        (0..).zip(batches).filter_map(&mut note).collect()
    }

    #[test]
    fn an_outage_has_two_lines() {
        let failed = || (Posted::Failed("the connection was refused".to_owned()), 0);
        let lines = said(&[(GOOD, 0), failed(), failed(), (GOOD, 0), (GOOD, 0), failed(), (Posted::Ended, 0)]);
        let begins = "spans cannot be sent to `traces.endpoint` (the connection was refused): they are dropped until they \
                      can be";
        let ends = "spans can be sent again; 20 spans were dropped";
        assert_eq!(lines, [(1, begins.to_owned()), (3, ends.to_owned()), (5, begins.to_owned())]);
    }

    #[test]
    fn spans_that_are_lost_among_others_are_told_once_too() {
        for (bad, words, lost) in
            [((Posted::Taken { rejected: 3 }, 0), "rejects 3 of 10", 6), ((GOOD, 7), "no room in the queue", 14)]
        {
            let mut batches = vec![bad];
            batches.extend((0..20).map(|_| (GOOD, 0)));
            batches.push(match &batches[0] {
                (Posted::Taken { rejected }, full) => (Posted::Taken { rejected: *rejected }, *full),
                _ => panic!("only these"),
            });
            batches.extend((0..70).map(|_| (GOOD, 0)));
            let lines = said(&batches);
            assert_eq!(lines.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [0, 81], "{lines:?}");
            assert!(lines[0].1.contains(words), "{lines:?}");
            assert!(lines[1].1.ends_with(&format!("; {lost} spans were dropped")), "{lines:?}");
        }
    }
}
