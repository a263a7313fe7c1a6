//! [`Sums`] are the totals of a group of rows: one number for each [`Column`] of the table of days.
//! Pure.

use super::Row;
use crate::base::calendar::day_of;
use crate::base::hash;
use dialects::named_enum;
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

named_enum! {
    /// The numbers that are summed, each with its column in the file, in the order of the columns.
    pub enum Column {
        /// The number of rows.
        Requests = "requests",
        /// The tokens that were read.
        Prompt = "prompt",
        /// The tokens that were written.
        Completion = "completion",
        /// The tokens that were read from a cache. They are part of those read.
        Cached = "cached",
        /// The tokens that were put into a cache. They are part of those read.
        CacheWrite = "cache_write",
        /// The tokens of thinking. They are part of those written.
        Reasoning = "reasoning",
        /// The rows whose tokens are an estimate.
        Estimated = "estimated",
        /// The cost of the tokens, as far as it is known, in thousand-millionths of a dollar.
        Cost = "cost",
        /// The rows whose cost is not known.
        Unpriced = "unpriced",
        /// The tokens of attempts whose answer no caller got.
        UnusedTokens = "unused_tokens",
        /// The cost of those tokens, as far as it is known, in thousand-millionths of a dollar.
        UnusedCost = "unused_cost",
        /// The rows that have such tokens and an unknown cost of them.
        UnusedUnpriced = "unused_unpriced",
        /// The pictures that were made.
        Images = "images",
        /// The milliseconds of sound.
        Millis = "audio_ms",
        /// The characters that were spoken.
        Characters = "characters",
    }
}

impl Column {
    /// Returns what one row adds to the sum.
    fn count_in(self, row: &Row) -> u64 {
        match self {
            Column::Requests => 1,
            Column::Prompt => row.usage.prompt,
            Column::Completion => row.usage.completion,
            Column::Cached => row.usage.cached,
            Column::CacheWrite => row.usage.cache_write,
            Column::Reasoning => row.usage.reasoning,
            Column::Estimated => u64::from(row.usage.source == Source::Estimated),
            Column::Cost => row.cost.unwrap_or_default().0,
            Column::Unpriced => u64::from(row.cost.is_none()),
            Column::UnusedTokens => row.unused_tokens,
            Column::UnusedCost => row.unused_cost.unwrap_or_default().0,
            Column::UnusedUnpriced => u64::from(row.unused_tokens > 0 && row.unused_cost.is_none()),
            Column::Images => row.usage.units.images.into(),
            Column::Millis => row.usage.units.millis.into(),
            Column::Characters => row.usage.units.characters.into(),
        }
    }

    /// Returns what one row of the file adds to the sum, in SQL.
    pub(super) fn count_in_sql(self) -> &'static str {
        let computed = [
            (Column::Requests, "1"),
            (Column::Estimated, "usage = 'estimated'"),
            (Column::Cost, "coalesce(cost, 0)"),
            (Column::Unpriced, "cost IS NULL"),
            (Column::UnusedCost, "coalesce(unused_cost, 0)"),
            (
                Column::UnusedUnpriced,
                "unused_tokens > 0 AND unused_cost IS NULL",
            ),
        ];
        let found = computed.iter().find(|(column, _)| *column == self);
        found.map_or(self.name(), |(_, sql)| sql)
    }
}

/// One sum for each column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums(pub(super) [u64; Column::ALL.len()]);

#[expect(
    clippy::indexing_slicing,
    reason = "each column has its position in the array"
)]
impl Index<Column> for Sums {
    type Output = u64;

    fn index(&self, column: Column) -> &u64 {
        &self.0[column as usize]
    }
}

impl Sums {
    /// Returns the sums of one row.
    pub(super) fn from_row(row: &Row) -> Sums {
        Sums(Column::ALL.map(|column| column.count_in(row)))
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
pub(super) fn sum_rows<'a>(
    rows: impl Iterator<Item = &'a Row>,
) -> HashMap<SumKey<'a>, (Sums, u64)> {
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
