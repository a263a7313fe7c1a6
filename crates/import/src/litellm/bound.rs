//! Finds the bounds that cannot be carried: fields of LiteLLM that keep a key from something, and
//! that the catalog cannot express. A key with such a bound is switched off, unless `--loosen`
//! drops the bound.

use super::node::Spot;
use super::rules::{Fate, Harmless, Section, Whose, field_fate, field_rule};
use crate::Bound;
use crate::notes::join_path;

impl Bound {
    /// Makes the bound of a field that has no counterpart. `word` is the word of `--loosen` that
    /// drops it, too.
    pub(super) fn not_carried(field: &str, word: &'static str) -> Self {
        Self::with_reason(field, word, "cannot be carried")
    }

    /// Makes a bound with another reason. `why` is the rest of a sentence that begins with the
    /// field.
    pub(super) fn with_reason(field: &str, word: &'static str, why: &str) -> Self {
        Self {
            word: Some(word),
            ..Self::undroppable(field, why)
        }
    }

    /// Makes a bound that nothing drops.
    pub(super) fn undroppable(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            word: None,
            why: format!("`{field}` {why}"),
        }
    }

    /// Makes the bound of a field whose value cannot be read.
    pub(super) fn unreadable(field: &str) -> Self {
        Self::undroppable(field, "cannot be read")
    }

    /// Reports at its place that the field has no counterpart, and which keys it switches off.
    /// `whose` names them: `all keys`.
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

    /// Adds a bound, and reports its reason at the field.
    pub(super) fn add_from(&mut self, spot: &Spot<'_>, bound: Bound) {
        spot.report_unsupported(&bound.why);
        self.add(bound);
    }

    /// Adds a bound for each field of a row that bounds keys and cannot be carried. The bound's
    /// name is the field's, after `prefix`: `user.max_budget`.
    pub(super) fn add_row(&mut self, section: Section, row: &Spot<'_>, prefix: &str) {
        for (field, spot) in row.entries() {
            let name = join_path(prefix, field);
            let (shape, fate) = field_rule(section, field);
            // A value that cannot be read may mean anything, so it bounds.
            if !shape.fits(&spot) {
                self.add_from(&spot, Bound::unreadable(&name));
                continue;
            }
            match fate {
                // Such as `scim_active: false`: the key is off.
                Fate::Required if spot.flag() == Some(false) => {
                    self.add_from(&spot, Bound::undroppable(&name, "is false"));
                }
                // A bound, unless the value says that it bounds nothing.
                Fate::Bounds {
                    loosen_word,
                    unless,
                    ..
                } if !unless.includes(field, &spot, row) => {
                    self.add_from(&spot, Bound::not_carried(&name, loosen_word));
                }
                // The value is one of the words that bound nothing, which means the same here.
                Fate::Bounds {
                    unless: Harmless::Word(_),
                    ..
                } if !spot.is_empty() => spot.report_exact(),
                // A map with fields of its own.
                Fate::Nested(section) => self.add_row(section, &spot, &name),
                Fate::Carry | Fate::Info(..) | Fate::Bounds { .. } | Fate::Required => {}
            }
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Bound> {
        self.0.iter()
    }
}

/// Returns the bound that a setting of the file is, and the keys that it bounds. Returns `None` if
/// it bounds none.
pub(super) fn setting_bound(
    section: Section,
    spot: &Spot<'_>,
    key: &str,
) -> Option<(Whose, Bound)> {
    let Fate::Bounds {
        loosen_word,
        unless,
        whose,
    } = field_fate(section, key)
    else {
        return None;
    };
    let bounds_nothing = unless.includes(key, spot, spot);
    (!bounds_nothing).then(|| (whose, Bound::not_carried(&spot.path, loosen_word)))
}
