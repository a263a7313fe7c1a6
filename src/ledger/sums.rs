//! Sums of a day's rows, by all that they can be asked for. Pure.

use super::Row;
use super::days::day_of;
use dialects::usage::Source;
use std::collections::HashMap;

/// What the rows of a sum have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Group<'a> {
    pub(super) day: u64,
    pub(super) caller: &'a str,
    pub(super) key: &'a str,
    pub(super) model: &'a str,
    /// Empty where nobody was asked; so is the next.
    pub(super) account: &'a str,
    pub(super) upstream_model: &'a str,
    pub(super) outcome: &'a str,
}

/// The sums. Costs are in thousand-millionths of a dollar, and only what is known of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// How many rows.
    pub requests: u64,
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
    /// Of those read, the cached ones.
    pub cached: u64,
    /// Of those read, the ones that were put into a cache.
    pub cache_write: u64,
    /// Of those written, the thinking.
    pub reasoning: u64,
    /// Rows whose tokens are an estimate.
    pub estimated: u64,
    /// What they cost.
    pub cost: u64,
    /// Rows whose cost nobody knows.
    pub unpriced: u64,
    /// Tokens of attempts whose answer nobody got.
    pub unused_tokens: u64,
    /// What those cost.
    pub unused_cost: u64,
    /// Rows with such tokens whose cost nobody knows.
    pub unused_unpriced: u64,
}

impl Sums {
    /// Of one row.
    pub(super) fn of(row: &Row) -> Sums {
        Sums {
            requests: 1,
            prompt: row.usage.prompt,
            completion: row.usage.completion,
            cached: row.usage.cached,
            cache_write: row.usage.cache_write,
            reasoning: row.usage.reasoning,
            estimated: u64::from(row.usage.source == Source::Estimated),
            cost: row.cost.unwrap_or_default().0,
            unpriced: u64::from(row.cost.is_none()),
            unused_tokens: row.unused_tokens,
            unused_cost: row.unused_cost.unwrap_or_default().0,
            unused_unpriced: u64::from(row.unused_tokens > 0 && row.unused_cost.is_none()),
        }
    }

    /// In the order of the fields, which is that of the columns.
    pub(super) fn each(&self) -> [u64; 12] {
        [
            self.requests,
            self.prompt,
            self.completion,
            self.cached,
            self.cache_write,
            self.reasoning,
            self.estimated,
            self.cost,
            self.unpriced,
            self.unused_tokens,
            self.unused_cost,
            self.unused_unpriced,
        ]
    }

    /// The other way round.
    pub(super) fn from(each: [u64; 12]) -> Sums {
        let [
            requests,
            prompt,
            completion,
            cached,
            cache_write,
            reasoning,
            estimated,
            cost,
            unpriced,
            unused_tokens,
            unused_cost,
            unused_unpriced,
        ] = each;
        Sums {
            requests,
            prompt,
            completion,
            cached,
            cache_write,
            reasoning,
            estimated,
            cost,
            unpriced,
            unused_tokens,
            unused_cost,
            unused_unpriced,
        }
    }

    /// Adds others.
    pub fn add(&mut self, more: &Sums) {
        let mut sums = self.each();
        for (sum, more) in sums.iter_mut().zip(more.each()) {
            *sum = sum.saturating_add(more);
        }
        *self = Sums::from(sums);
    }

    /// Tokens read and written.
    pub fn total(&self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

/// The sums of these rows.
pub(super) fn of_days<'a>(rows: impl Iterator<Item = &'a Row>) -> HashMap<Group<'a>, Sums> {
    let mut sums: HashMap<Group<'a>, Sums> = HashMap::new();
    for row in rows {
        let group = Group {
            day: day_of(row.at),
            caller: &row.caller,
            key: &row.key,
            model: &row.model,
            account: row.account.as_deref().unwrap_or(""),
            upstream_model: row.upstream_model.as_deref().unwrap_or(""),
            outcome: row.outcome,
        };
        sums.entry(group).or_default().add(&Sums::of(row));
    }
    sums
}
