//! The log lines about lost spans: one line when that begins, and one when it is over. Pure: the
//! time is passed in.

use super::post::Posted;
use std::time::{Duration, Instant};

/// The time without a lost span after which it is over: a receiver that takes one batch and not the
/// next would be an outage each time.
const QUIET: Duration = Duration::from_secs(60);

/// The state of an outage.
#[derive(Default)]
pub(super) struct Outage {
    /// The loss that goes on, if one does.
    loss: Option<Loss>,
}

/// The spans that were lost since an outage began.
struct Loss {
    spans: usize,
    /// The time at which some were lost last.
    last_at: Instant,
}

impl Outage {
    /// Notes what became of a batch of so many spans, and for how many others there was no room.
    /// Returns a line for the log, if there is something new.
    pub(super) fn note_batch(
        &mut self,
        posted: &Posted,
        count: usize,
        full: usize,
        now: Instant,
    ) -> Option<(log::Level, String)> {
        let (lost, message) = match posted {
            // The end of the process has a line of its own.
            Posted::Ended => return None,
            Posted::Taken { rejected: 0 } if full == 0 => return self.note_good(now),
            Posted::Taken { rejected: 0 } => {
                let message = "more spans come than the receiver at `traces.endpoint` takes: those that find no room in the queue are \
                            dropped";
                (0, message.to_owned())
            }
            Posted::Taken { rejected } => {
                let lost = (*rejected).min(count);
                let message = format!(
                    "the receiver at `traces.endpoint` takes spans and rejects {lost} of {count}: these are dropped"
                );
                (lost, message)
            }
            Posted::Later { why, .. } | Posted::Refused(why) | Posted::Failed(why) => {
                let message = format!(
                    "spans cannot be sent to `traces.endpoint` ({why}): they are dropped until they can be"
                );
                (count, message)
            }
        };
        let spans = lost + full;
        let Some(loss) = &mut self.loss else {
            self.loss = Some(Loss {
                spans,
                last_at: now,
            });
            return Some((log::Level::Warn, message));
        };
        loss.spans += spans;
        loss.last_at = now;
        None
    }

    fn note_good(&mut self, now: Instant) -> Option<(log::Level, String)> {
        let is_over = |loss: &mut Loss| now.duration_since(loss.last_at) >= QUIET;
        let lost = self.loss.take_if(is_over)?.spans;
        let were = if lost == 1 { "was" } else { "were" };
        Some((
            log::Level::Info,
            format!("no more spans are lost; {lost} {were} dropped"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Posted = Posted::Taken { rejected: 0 };

    /// Notes batches of ten spans, one a second, and returns the lines with their seconds.
    fn said(batches: &[(Posted, usize)]) -> Vec<(u64, String)> {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        let mut note = |(second, (posted, full)): (u64, &(Posted, usize))| {
            let (_, what) =
                outage.note_batch(posted, 10, *full, begin + Duration::from_secs(second))?;
            Some((second, what))
        };
        (0..).zip(batches).filter_map(&mut note).collect()
    }

    const BEGINS: &str = "spans cannot be sent to `traces.endpoint` (the connection was refused): they are dropped until they \
                          can be";

    fn failed() -> (Posted, usize) {
        (Posted::Failed("the connection was refused".to_owned()), 0)
    }

    fn good(times: usize) -> impl Iterator<Item = (Posted, usize)> {
        (0..times).map(|_| (GOOD, 0))
    }

    #[test]
    fn an_outage_has_two_lines() {
        let batches = good(1)
            .chain([failed(), failed()])
            .chain(good(70))
            .chain([failed(), (Posted::Ended, 0)]);
        let ends = "no more spans are lost; 20 were dropped";
        let lines = said(&batches.collect::<Vec<_>>());
        assert_eq!(
            lines,
            [
                (1, BEGINS.to_owned()),
                (62, ends.to_owned()),
                (73, BEGINS.to_owned())
            ]
        );
    }

    #[test]
    fn a_receiver_failing_sometimes_is_one_outage() {
        let batches = (0..300)
            .flat_map(|_| [failed()].into_iter().chain(good(1)))
            .chain(good(70));
        let lines = said(&batches.collect::<Vec<_>>());
        let ends = "no more spans are lost; 3000 were dropped";
        assert_eq!(lines, [(0, BEGINS.to_owned()), (658, ends.to_owned())]);
    }

    #[test]
    fn no_more_is_lost_than_there_was() {
        let batches = [(
            Posted::Taken {
                rejected: usize::MAX,
            },
            0,
        )]
        .into_iter()
        .chain(good(70));
        let lines = said(&batches.collect::<Vec<_>>());
        assert!(
            lines[0].1.contains("rejects 10 of 10:") && lines[1].1.ends_with("; 10 were dropped"),
            "{lines:?}"
        );
        let one = [(Posted::Taken { rejected: 1 }, 0)]
            .into_iter()
            .chain(good(70));
        assert!(
            said(&one.collect::<Vec<_>>())[1]
                .1
                .ends_with("; 1 was dropped")
        );
    }

    #[test]
    fn spans_lost_among_others_are_told_once() {
        for (bad, words, lost) in [
            ((Posted::Taken { rejected: 3 }, 0), "rejects 3 of 10", 6),
            ((GOOD, 7), "no room in the queue", 14),
        ] {
            let mut batches = vec![bad];
            batches.extend((0..20).map(|_| (GOOD, 0)));
            batches.push(match &batches[0] {
                (Posted::Taken { rejected }, full) => (
                    Posted::Taken {
                        rejected: *rejected,
                    },
                    *full,
                ),
                _ => panic!("only these"),
            });
            batches.extend((0..70).map(|_| (GOOD, 0)));
            let lines = said(&batches);
            assert_eq!(
                lines.iter().map(|(second, _)| *second).collect::<Vec<_>>(),
                [0, 81],
                "{lines:?}"
            );
            assert!(lines[0].1.contains(words), "{lines:?}");
            assert!(
                lines[1].1.ends_with(&format!("; {lost} were dropped")),
                "{lines:?}"
            );
        }
    }
}
