//! [`Recent`] keeps the newest lines in memory, for the page of operators. Failures have rings of
//! their own, so that a flood of good requests does not push them out; and a flood of requests that
//! failed by their callers' fault does not push out the others.

use crate::base::lock::Lock;
use crate::error::Blame;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most lines that are kept of all.
const MAX_LINES: usize = 2_000;
/// The most bytes that these lines have.
const MAX_BYTES: usize = 4 << 20;
/// The most lines that are kept of failures, half of them of those that are the callers' fault.
const MAX_FAILURES: usize = 500;

/// A line, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentLine {
    /// The number of the line since the start.
    pub seq: u64,
    /// The line as JSON, without an end of line.
    pub json: Arc<[u8]>,
}

/// The newest lines.
#[derive(Default)]
pub struct Recent(Lock<Rings>);

#[derive(Default)]
struct Rings {
    /// The number of the newest line.
    seq: u64,
    all: Ring,
    by_callers: Ring,
    by_others: Ring,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<RecentLine>,
    bytes: usize,
}

impl Ring {
    /// Adds a line. The oldest lines go until this many lines and bytes are left.
    fn push(&mut self, line: RecentLine, max_lines: usize, max_bytes: usize) {
        self.bytes += line.json.len();
        self.lines.push_back(line);
        while self.lines.len() > max_lines || self.bytes > max_bytes {
            let Some(old) = self.lines.pop_front() else {
                return;
            };
            self.bytes -= old.json.len();
        }
    }

    /// Returns the lines after one number and before another, the newest first.
    fn between(&self, after: u64, before: u64) -> impl Iterator<Item = RecentLine> {
        let lines = self
            .lines
            .iter()
            .rev()
            .skip_while(move |line| line.seq >= before);
        lines.take_while(move |line| line.seq > after).cloned()
    }
}

impl Recent {
    /// Adds lines, the oldest first. With each comes whose fault it is, if it is a failure.
    pub(super) fn add<'l>(&self, lines: impl ExactSizeIterator<Item = (&'l [u8], Option<Blame>)>) {
        // Of very many, only the last ones stay.
        let skipped = lines.len().saturating_sub(MAX_LINES);
        let mut rings = self.0.lock();
        for (index, (json, blame)) in lines.enumerate() {
            rings.seq += 1;
            if index < skipped && blame.is_none() {
                continue;
            }
            let line = RecentLine {
                seq: rings.seq,
                json: json.into(),
            };
            const HALF_LINES: usize = MAX_FAILURES / 2;
            const HALF_BYTES: usize = MAX_BYTES / 8;
            match blame {
                Some(Blame::Caller) => rings.by_callers.push(line.clone(), HALF_LINES, HALF_BYTES),
                Some(Blame::Upstream | Blame::Ours | Blame::GivenUp) => {
                    rings.by_others.push(line.clone(), HALF_LINES, HALF_BYTES)
                }
                None => {}
            }
            rings.all.push(line, MAX_LINES, MAX_BYTES);
        }
    }

    /// Returns the number of the newest line.
    pub fn newest_number(&self) -> u64 {
        self.0.lock().seq
    }

    /// Returns the lines after one number and before another, the newest first. Only the writer of
    /// the log waits meanwhile, and no request.
    pub fn lines(&self, after: u64, before: u64) -> Vec<RecentLine> {
        self.0.lock().all.between(after, before).collect()
    }

    /// Returns of these lines the failures: also those that have gone from the other lines.
    pub fn failures(&self, after: u64, before: u64) -> Vec<RecentLine> {
        let rings = self.0.lock();
        let by_callers = rings.by_callers.between(after, before);
        let by_others = rings.by_others.between(after, before);
        let mut lines: Vec<_> = by_callers.chain(by_others).collect();
        drop(rings);
        lines.sort_unstable_by_key(|line| std::cmp::Reverse(line.seq));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blame(number: u64) -> Option<Blame> {
        [
            None,
            None,
            Some(Blame::Caller),
            Some(Blame::Upstream),
            Some(Blame::Ours),
            Some(Blame::GivenUp),
        ][usize::try_from(number % 6).unwrap()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// What the rings have is what a list of all lines ends with.
        #[test]
        fn rings_are_the_end_of_a_list(
            batches in prop::collection::vec((0..700_usize, 0..5_u64, 1..40_usize), 1..8),
            large in prop::option::of(0..5_u64),
            (after, before) in (0..4_000_u64, 0..4_000_u64),
        ) {
            let (recent, mut list) = (Recent::default(), Vec::new());
            for (count, kind, times) in batches {
                let lines: Vec<_> = (0..count * 4)
                    .map(|at| (format!("{{{}}}", "x".repeat(at % times)).into_bytes(), blame(kind * at as u64)))
                    .collect();
                recent.add(lines.iter().map(|(line, blame)| (&**line, *blame)));
                list.extend(lines);
            }
            if let Some(kind) = large {
                let line = vec![b'x'; MAX_BYTES / 3];
                (0..4).for_each(|_| recent.add([(&*line, blame(kind))].into_iter()));
                list.extend((0..4).map(|_| (line.clone(), blame(kind))));
            }
            prop_assert_eq!(recent.newest_number(), list.len() as u64);
            let last = |is_wanted: &dyn Fn(Option<Blame>) -> bool, most: usize, bytes: usize| {
                let mut sum = 0;
                let wanted = list.iter().zip(1..list.len() + 1).rev().filter(|((_, blame), _)| is_wanted(*blame));
                let fits = |((line, _), _): &((Vec<u8>, Option<Blame>), usize)| { sum += line.len(); sum <= bytes };
                let kept = wanted.take(most).map(|((line, blame), seq)| ((line.clone(), *blame), seq));
                kept.take_while(fits).map(|((line, _), seq)| (seq as u64, line)).collect::<Vec<_>>()
            };
            let shown = |lines: Vec<RecentLine>| -> Vec<_> {
                lines.into_iter().map(|line| (line.seq, line.json.to_vec())).collect()
            };
            let within = |(seq, _): &(u64, Vec<u8>)| *seq > after && *seq < before;
            let all: Vec<_> = last(&|_| true, MAX_LINES, MAX_BYTES).into_iter().filter(within).collect();
            prop_assert_eq!(shown(recent.lines(after, before)), all);
            let half = MAX_FAILURES / 2;
            let mut failures = last(&|blame| blame == Some(Blame::Caller), half, MAX_BYTES / 8);
            failures.extend(last(&|blame| matches!(blame, Some(Blame::Upstream | Blame::Ours | Blame::GivenUp)), half, MAX_BYTES / 8));
            failures.retain(within);
            failures.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
            prop_assert_eq!(shown(recent.failures(after, before)), failures);
        }
    }
}
