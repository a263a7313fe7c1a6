//! What bounds keys and cannot be carried.

use super::node::Spot;
use super::rules::{Fate, Free, Section, Whose, field_fate, field_rule};
use crate::Bound;
use crate::notes::join_path;

impl Bound {
    pub(super) fn new(field: &str, word: &'static str) -> Self {
        Self::because(field, word, "cannot be carried")
    }

    /// Makes a bound whose reason is more than its field.
    pub(super) fn because(field: &str, word: &'static str, why: &str) -> Self {
        Self {
            word: Some(word),
            ..Self::firm(field, why)
        }
    }

    /// Makes a bound that nothing drops.
    pub(super) fn firm(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            word: None,
            why: format!("`{field}` {why}"),
        }
    }

    pub(super) fn unreadable(field: &str) -> Self {
        Self::firm(field, "cannot be read")
    }

    /// Reports a field of the file with what it does to keys.
    pub(super) fn report(&self, spot: &Spot<'_>, whose: &str) {
        spot.report_unsupported(format!(
            "has no counterpart. It bounds {whose}, which are switched off unless `--loosen {}` drops it",
            self.field
        ));
    }
}

/// Bounds, each once.
#[derive(Default)]
pub(super) struct Bounds(Vec<Bound>);

impl Bounds {
    pub(super) fn add(&mut self, bound: Bound) {
        if !self.0.contains(&bound) {
            self.0.push(bound);
        }
    }

    /// Adds a bound, and reports it where it stands.
    pub(super) fn add_from(&mut self, spot: &Spot<'_>, bound: Bound) {
        spot.report_unsupported(&bound.why);
        self.add(bound);
    }

    /// Adds what bounds the keys of a row and cannot be carried. `prefix` is the path of the row in
    /// names.
    pub(super) fn add_row(&mut self, section: Section, row: &Spot<'_>, prefix: &str) {
        for (field, spot) in row.entries() {
            let name = join_path(prefix, field);
            let (shape, fate) = field_rule(section, field);
            let bound = match fate {
                _ if !shape.fits(&spot) => Bound::unreadable(&name),
                Fate::Required if spot.flag() == Some(false) => Bound::firm(&name, "is false"),
                Fate::Bound(word, free, _) if !free.bounds_nothing(field, &spot, row) => {
                    Bound::new(&name, word)
                }
                Fate::Bound(_, Free::Word(_), _) if !spot.is_empty() => {
                    spot.report_exact();
                    continue;
                }
                Fate::Below(section) => {
                    self.add_row(section, &spot, &name);
                    continue;
                }
                Fate::Carry | Fate::Info(..) | Fate::Bound(..) | Fate::Required => continue,
            };
            self.add_from(&spot, bound);
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Bound> {
        self.0.iter()
    }
}

/// Returns what a setting of the file bounds for which keys, if it bounds any.
pub(super) fn setting_bound(
    section: Section,
    spot: &Spot<'_>,
    key: &str,
) -> Option<(Whose, Bound)> {
    let Fate::Bound(word, free, whose) = field_fate(section, key) else {
        return None;
    };
    (!free.bounds_nothing(key, spot, spot)).then(|| (whose, Bound::new(&spot.path, word)))
}
