//! [`Sums`] are the totals of a group of rows: one number for each [`Column`] of the table of days.
//! Pure.

use super::Row;
use crate::base::calendar::day_of;
use crate::base::hash;
use dialects::usage::Source;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Index;

/// The facts that the rows of a sum have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SumKey<'a> {
    pub(super) day: u64,
    pub(super) caller: &'a str,
    pub(super) key: &'a str,
    pub(super) model: &'a str,
    /// Empty if no account was asked; so is `upstream_model`.
    pub(super) account: &'a str,
    pub(super) upstream_model: &'a str,
    pub(super) outcome: &'a str,
    /// Empty in sums of days: they do not have it.
    pub(super) door: &'a str,
}

impl Hash for SumKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // These differ more often than the others.
        hash::hash_texts([self.key, self.model, self.account, self.outcome], state);
    }
}

/// The numbers that are summed, in the order of the columns in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// The number of rows.
    Requests,
    /// The tokens that were read.
    Prompt,
    /// The tokens that were written.
    Completion,
    /// The tokens that were read from a cache. They are part of those read.
    Cached,
    /// The tokens that were put into a cache. They are part of those read.
    CacheWrite,
    /// The tokens of thinking. They are part of those written.
    Reasoning,
    /// The rows whose tokens are an estimate.
    Estimated,
    /// The cost of the tokens, as far as it is known, in thousand-millionths of a dollar.
    Cost,
    /// The rows whose cost is not known.
    Unpriced,
    /// The tokens of attempts whose answer no caller got.
    UnusedTokens,
    /// The cost of those tokens, as far as it is known, in thousand-millionths of a dollar.
    UnusedCost,
    /// The rows that have such tokens and an unknown cost of them.
    UnusedUnpriced,
    /// The pictures that were made.
    Images,
    /// The milliseconds of sound.
    Millis,
    /// The characters that were spoken.
    Characters,
}

/// The number of columns.
pub(super) const COLUMNS: usize = Column::Characters as usize + 1;

/// One sum for each column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums(pub(super) [u64; COLUMNS]);

#[expect(
    clippy::indexing_slicing,
    reason = "each column has its place in the array"
)]
impl Index<Column> for Sums {
    type Output = u64;

    fn index(&self, column: Column) -> &u64 {
        &self.0[column as usize]
    }
}

impl Sums {
    /// Returns the sums of one row, in the order of [`Column`].
    pub(super) fn from_row(row: &Row) -> Sums {
        Sums([
            1,
            row.usage.prompt,
            row.usage.completion,
            row.usage.cached,
            row.usage.cache_write,
            row.usage.reasoning,
            u64::from(row.usage.source == Source::Estimated),
            row.cost.unwrap_or_default().0,
            u64::from(row.cost.is_none()),
            row.unused_tokens,
            row.unused_cost.unwrap_or_default().0,
            u64::from(row.unused_tokens > 0 && row.unused_cost.is_none()),
            row.usage.units.images.into(),
            row.usage.units.millis.into(),
            row.usage.units.characters.into(),
        ])
    }

    /// Adds other sums.
    pub fn add(&mut self, more: &Sums) {
        for (sum, more) in self.0.iter_mut().zip(more.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Returns the tokens that were read and written.
    pub fn tokens(&self) -> u64 {
        self[Column::Prompt].saturating_add(self[Column::Completion])
    }
}

/// Sums rows by all facts that they can be grouped by. Also returns the last time of each group.
pub(super) fn sums_of<'a>(rows: impl Iterator<Item = &'a Row>) -> HashMap<SumKey<'a>, (Sums, u64)> {
    let mut sums: HashMap<SumKey<'a>, (Sums, u64)> = HashMap::new();
    for row in rows {
        let key = SumKey {
            day: day_of(row.admitted_at),
            caller: &row.caller,
            key: &row.key,
            model: &row.model,
            account: row.account.as_deref().unwrap_or(""),
            upstream_model: row.upstream_model.as_deref().unwrap_or(""),
            outcome: row.outcome,
            door: "",
        };
        let (sum, last) = sums.entry(key).or_default();
        sum.add(&Sums::from_row(row));
        *last = row.admitted_at.max(*last);
    }
    sums
}
