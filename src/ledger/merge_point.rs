//! The [`MergePoint`] is the place in the sums of days up to which old ones are merged. It stands
//! in the file, so that a start does not look through all sums again. Versions of this program that
//! do not know its entries of `meta` ignore them.

use super::columns::stored_integer;
use rusqlite::{OptionalExtension, Transaction, params};

/// The entry with the day before which all sums are merged.
const DAY: &str = "merged_until";
/// The entry with the names of that day before which sums are merged, too: the caller, the key and
/// the model, as JSON.
const NAMES: &str = "merged_names";

/// The place from which on sums are not merged yet, in the order of their table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergePoint {
    pub(super) day: u64,
    /// The caller, the key and the model.
    pub(super) names: [String; 3],
}

impl MergePoint {
    /// Returns the place before all sums of a day.
    pub(super) fn begin_of(day: u64) -> MergePoint {
        MergePoint {
            day,
            names: Default::default(),
        }
    }

    /// Reads the place in the file. It is before all days in a file without one.
    pub(super) fn read(transaction: &Transaction<'_>) -> rusqlite::Result<MergePoint> {
        let mut statement = transaction.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        let day: Option<i64> = statement.query_row([DAY], |row| row.get(0)).optional()?;
        let names: Option<String> = statement.query_row([NAMES], |row| row.get(0)).optional()?;
        let names = names.and_then(|names| serde_json::from_str(&names).ok());
        Ok(MergePoint {
            day: day.and_then(|day| day.try_into().ok()).unwrap_or_default(),
            names: names.unwrap_or_default(),
        })
    }

    /// Writes the place to the file.
    pub(super) fn write(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let names = serde_json::json!(self.names).to_string();
        transaction
            .prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2), (?3, ?4)")?
            .execute(params![DAY, stored_integer(self.day), NAMES, names])?;
        Ok(())
    }
}

/// Has the sums of a day looked through again, since new ones have come late.
pub(super) fn merge_again(transaction: &Transaction<'_>, day: u64) -> rusqlite::Result<()> {
    match MergePoint::read(transaction) {
        Ok(point) if point.day >= day => MergePoint::begin_of(day).write(transaction),
        // Where somebody dropped the table, rows are written all the same; and where the file
        // cannot be read, that fails, too.
        Ok(_) | Err(_) => Ok(()),
    }
}
