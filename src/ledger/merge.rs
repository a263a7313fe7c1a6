//! Sums of days that are old lose what few ask for: the account, its name for the model, and the
//! outcome. A thousand callers, two hundred models and five accounts would else make a million sums
//! a day, for more than a year.
//!
//! The file itself says up to where its sums are merged, so that neither a step nor a start looks
//! through all sums again. Other versions of this program ignore these entries of `meta`.
//!
//! **Invariant:** the caller, the key, the model, the day, all numbers, and whether requests failed
//! are never merged: no sum of money changes.

use super::book::{Book, Fault, add_sums, keep_from};
use super::columns::stored_integer;
use super::merge_point::MergePoint;
use super::read::{read_integer, read_sums};
use super::sums::{Column, SumKey, Sums};
use rusqlite::{Transaction, params};

/// The number of days for which sums keep the account, its name for the model, and the outcome. It
/// is more than a month, so that usual reports find all.
pub(super) const DETAILED_DAYS: u64 = 35;

/// The text in place of the account and its name for the model. No account has such a name.
pub(super) const MERGED: &str = "(merged)";
/// The outcome of merged requests that failed.
const MERGED_FAILURES: &str = "(failed)";
/// The most sums that one transaction merges. Others can write between two of them.
const MAX_SUMS: usize = 1_000;

/// A sum of a day, as it is before it is merged.
struct DetailedSum {
    day: u64,
    caller: String,
    key: String,
    model: String,
    account: String,
    upstream_model: String,
    outcome: String,
    sums: Sums,
}

impl Book {
    /// Merges some sums of days before `until`. Returns true if there may be more.
    pub(super) fn merge_days(&mut self, until: u64) -> Result<bool, Fault> {
        let transaction = self.transaction()?;
        let from = MergePoint::read(&transaction)?;
        if from.day >= until {
            return Ok(false);
        }
        let detailed = read_detailed(&transaction, &from, until)?;
        for sum in &detailed {
            delete_sum(&transaction, sum)?;
            add_sums(&transaction, &sum.merged_key(), &sum.sums)?;
        }
        let last = detailed.last();
        if let Some(last) = last {
            keep_from(&transaction, "detailed_from", last.day.saturating_add(1))?;
        }
        let may_have_more = detailed.len() == MAX_SUMS;
        let reached = last
            .filter(|_| may_have_more)
            .map_or_else(|| MergePoint::begin_of(until), DetailedSum::merge_point);
        reached.write(&transaction)?;
        transaction.commit()?;
        Ok(may_have_more)
    }
}

impl DetailedSum {
    /// Returns the place before all sums with these names.
    fn merge_point(&self) -> MergePoint {
        MergePoint {
            day: self.day,
            names: [self.caller.clone(), self.key.clone(), self.model.clone()],
        }
    }

    /// Returns the facts that are left when the sum is merged.
    fn merged_key(&self) -> SumKey<'_> {
        SumKey {
            day: self.day,
            caller: &self.caller,
            key: &self.key,
            model: &self.model,
            account: MERGED,
            upstream_model: MERGED,
            outcome: if self.outcome == "ok" {
                "ok"
            } else {
                MERGED_FAILURES
            },
            door: "",
        }
    }
}

/// Reads the next sums, in the order of the table's key.
fn read_detailed(
    transaction: &Transaction<'_>,
    from: &MergePoint,
    until: u64,
) -> rusqlite::Result<Vec<DetailedSum>> {
    let sums = Column::NAMES.join(", ");
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {sums}, day, caller, key, model, account, upstream_model, outcome FROM daily
         WHERE (day, caller, key, model) >= (?1, ?2, ?3, ?4) AND day < ?5 AND account <> '{MERGED}'
         ORDER BY day, caller, key, model LIMIT {MAX_SUMS}"
    ))?;
    let MergePoint {
        day,
        names: [caller, key, model],
    } = from;
    let rows = statement.query_map(
        params![
            stored_integer(*day),
            caller,
            key,
            model,
            stored_integer(until)
        ],
        |row| {
            Ok(DetailedSum {
                day: read_integer(row, "day")?,
                caller: row.get("caller")?,
                key: row.get("key")?,
                model: row.get("model")?,
                account: row.get("account")?,
                upstream_model: row.get("upstream_model")?,
                outcome: row.get("outcome")?,
                sums: read_sums(row, 0)?,
            })
        },
    )?;
    rows.collect()
}

fn delete_sum(transaction: &Transaction<'_>, sum: &DetailedSum) -> rusqlite::Result<usize> {
    let DetailedSum {
        day,
        caller,
        key,
        model,
        account,
        upstream_model,
        outcome,
        ..
    } = sum;
    transaction
        .prepare_cached(
            "DELETE FROM daily WHERE day = ?1 AND caller = ?2 AND key = ?3 AND model = ?4
             AND account = ?5 AND upstream_model = ?6 AND outcome = ?7",
        )?
        .execute(params![
            stored_integer(*day),
            caller,
            key,
            model,
            account,
            upstream_model,
            outcome
        ])
}
