//! What bounds keys and cannot be carried.

/// A bound that cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    /// The field, under which `--loosen` drops it.
    pub(super) field: String,
    /// The word that drops it, too; `None` if nothing drops it.
    pub(super) word: Option<&'static str>,
    /// The reason.
    pub(super) why: String,
}

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

    /// Says what such a field of the file does to keys.
    pub(super) fn describe(&self, whose: &str) -> String {
        format!(
            "has no counterpart. It bounds {whose}, which are switched off unless `--loosen {}` drops it",
            self.field
        )
    }
}

/// Adds a bound, once.
pub(super) fn add_bound(bounds: &mut Vec<Bound>, bound: Bound) {
    if !bounds.contains(&bound) {
        bounds.push(bound);
    }
}
