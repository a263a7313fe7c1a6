//! The sets of labels that the metrics of exchanges may have: a model, the account that answered,
//! and the caller. A catalog of 1,000 callers, 200 models and 5 accounts makes a million of them,
//! which no Prometheus takes. So their number is bounded.
//!
//! **Invariant:** a set that has been admitted keeps its series for as long as the catalog knows
//! its names. A set that finds no room counts for the caller `other` from its first request on. So
//! no counter falls, and the sums by model and by account stay whole.

use super::labels::{HasNames, Name, PartyLabels};
use crate::base::hash::Quick;
use crate::base::lock::SharedLock;
use crate::conf::config::SeriesBounds;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// The name that stands for all that find no room.
pub(super) const OTHER: &str = "other";

/// The sets that have series of their own.
#[derive(Debug, Default)]
pub(super) struct Sets {
    bounds: SeriesBounds,
    admitted: SharedLock<Admitted>,
    /// The number of admitted sets, for `/metrics`.
    pub(super) number: Gauge,
}

#[derive(Debug, Default)]
struct Admitted {
    /// The sets with the caller's own name.
    own_sets: HashSet<PartyLabels, Quick>,
    /// The sets of a model and an account whose caller is `other`.
    merged_sets: HashSet<PartyLabels, Quick>,
}

impl Sets {
    /// Makes the sets of a process with these bounds.
    pub(super) fn new(bounds: SeriesBounds) -> Sets {
        Sets {
            bounds,
            ..Sets::default()
        }
    }

    /// Returns whether metrics name callers.
    pub(super) fn has_caller(&self) -> bool {
        self.bounds.has_caller
    }

    /// Returns whether `/metrics` shows all labels.
    pub(super) fn has_all_labels(&self) -> bool {
        self.bounds.has_caller && self.bounds.has_account
    }

    /// Leaves out the labels that `/metrics` is not to show.
    fn without_hidden(&self, parties: PartyLabels) -> PartyLabels {
        PartyLabels {
            model: parties.model,
            account: parties.account.filter(|_| self.bounds.has_account),
            caller: parties.caller.filter(|_| self.bounds.has_caller),
        }
    }

    /// Returns the labels for which a set counts: its own if there is room, or else `other`.
    pub(super) fn admit(&self, parties: &PartyLabels) -> PartyLabels {
        let own = self.without_hidden(parties.clone());
        let merged = self.without_hidden(PartyLabels {
            caller: other_name(),
            ..parties.clone()
        });
        let max_sets = self.bounds.most_sets;
        if let Some(counted) = self.admitted.read().find(&own, &merged, max_sets) {
            return counted;
        }
        let mut admitted = self.admitted.write();
        let counted = if has_room(&admitted.own_sets, &own, max_sets) {
            admitted.own_sets.insert(own.clone());
            own
        } else if has_room(&admitted.merged_sets, &merged, max_sets) {
            admitted.merged_sets.insert(merged.clone());
            merged
        } else {
            self.without_hidden(PartyLabels {
                model: other_name(),
                account: other_name(),
                caller: other_name(),
            })
        };
        self.number.set(
            i64::try_from(admitted.own_sets.len() + admitted.merged_sets.len()).unwrap_or(i64::MAX),
        );
        counted
    }

    /// Gives the room of sets back that have a name which `is_kept` does not know.
    pub(super) fn end_sets(&self, is_kept: &dyn Fn(&str, &str) -> bool) {
        let mut admitted = self.admitted.write();
        let Admitted {
            own_sets,
            merged_sets,
        } = &mut *admitted;
        for sets in [own_sets, merged_sets] {
            sets.retain(|parties| {
                parties
                    .names()
                    .into_iter()
                    .all(|(label, name)| name.as_ref().is_none_or(|name| is_kept(label, name)))
            });
        }
        let number = admitted.own_sets.len() + admitted.merged_sets.len();
        self.number.set(i64::try_from(number).unwrap_or(i64::MAX));
    }
}

impl Admitted {
    /// Returns the labels for which a set counts, if that is decided already.
    fn find(
        &self,
        own: &PartyLabels,
        merged: &PartyLabels,
        max_sets: usize,
    ) -> Option<PartyLabels> {
        if self.own_sets.contains(own) {
            return Some(own.clone());
        }
        (self.own_sets.len() >= max_sets && self.merged_sets.contains(merged))
            .then(|| merged.clone())
    }
}

fn has_room(sets: &HashSet<PartyLabels, Quick>, parties: &PartyLabels, max_sets: usize) -> bool {
    sets.len() < max_sets || sets.contains(parties)
}

/// Returns the name `other`, which is made once.
fn other_name() -> Name {
    static NAME: LazyLock<Arc<str>> = LazyLock::new(|| OTHER.into());
    Some(NAME.clone())
}
