//! A name is gone when it has left the catalog. Its series stay for a while, so that no counter
//! falls when the name comes back, and so that the last exchanges under the name are scraped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which the series of a name stay. It is longer than any scrape interval.
const KEPT_FOR: Duration = Duration::from_secs(3600);
/// The number of names whose series stay for so long. If the catalog has more names, it is the
/// number of these.
pub(super) const MIN_KEPT_NAMES: usize = 1_000;

/// The label of a name, and the name.
pub(crate) type LabelledName = (&'static str, Arc<str>);

/// The names that are gone and whose series stay, in the order in which they left.
#[derive(Default)]
pub(super) struct Gone(VecDeque<(Instant, LabelledName)>);

impl Gone {
    /// Notes a change of the catalog: `left` has just left, `is_live` says what is there now, and
    /// `live` is how many names that is. Returns whether the series of a name are to end.
    pub(super) fn note_change(
        &mut self,
        left: Vec<LabelledName>,
        live: usize,
        is_live: &dyn Fn(&str, &str) -> bool,
        now: Instant,
    ) -> bool {
        self.0.retain(|(_, (label, name))| !is_live(label, name));
        self.0.extend(left.into_iter().map(|name| (now, name)));
        let before = self.0.len();
        self.0
            .drain(..before.saturating_sub(live.max(MIN_KEPT_NAMES)));
        while self
            .0
            .front()
            .is_some_and(|(since, _)| now.saturating_duration_since(*since) >= KEPT_FOR)
        {
            self.0.pop_front();
        }
        self.0.len() < before
    }

    /// Lists the names whose series stay.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(_, (label, name))| (*label, &**name))
    }
}
