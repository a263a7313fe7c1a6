//! An [`Insert`] is a statement that writes rows of the ledger, always the same number of them.
//!
//! SQLite keeps the values that were bound to a statement. Rows that follow each other mostly have
//! the same names. So only a value that is not there yet is bound, and several rows are written by
//! one statement.

use super::Row;
use super::columns::{COLUMNS, PLACEHOLDERS};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Transaction};
use std::slice;

/// The number of rows that one statement writes, if there are so many.
pub(super) const ROWS_AT_ONCE: usize = 16;

/// Inserts rows in their order.
pub(super) fn insert_rows<'r>(
    transaction: &Transaction<'_>,
    rows: impl Iterator<Item = &'r Row>,
) -> rusqlite::Result<()> {
    let rows: Vec<&Row> = rows.collect();
    let (together, rest) = rows.as_chunks::<ROWS_AT_ONCE>();
    if !together.is_empty() {
        let mut insert = Insert::new(transaction, ROWS_AT_ONCE)?;
        together.iter().try_for_each(|rows| insert.run(rows))?;
    }
    let mut insert = Insert::new(transaction, 1)?;
    rest.iter()
        .try_for_each(|row| insert.run(slice::from_ref(row)))
}

struct Insert<'t, 'r> {
    statement: CachedStatement<'t>,
    /// The values that are bound for each of the rows.
    bound: Vec<[ValueRef<'r>; COLUMNS.len()]>,
}

impl<'t, 'r> Insert<'t, 'r> {
    fn new(transaction: &'t Transaction<'_>, rows: usize) -> rusqlite::Result<Insert<'t, 'r>> {
        // If a row cannot be written, nothing of the transaction is. So SQLite need not be able to
        // undo a single statement.
        let columns = COLUMNS.map(|(name, _)| name).join(", ");
        let places = [PLACEHOLDERS].repeat(rows).join(", ");
        let sql = format!("INSERT OR ROLLBACK INTO exchange ({columns}) VALUES {places}");
        // What is not bound is null.
        let bound = vec![[ValueRef::Null; COLUMNS.len()]; rows];
        Ok(Insert {
            statement: transaction.prepare_cached(&sql)?,
            bound,
        })
    }

    /// Writes rows, as many as the statement has places for.
    fn run(&mut self, rows: &[&'r Row]) -> rusqlite::Result<()> {
        for (first, (row, bound)) in (1_usize..)
            .step_by(COLUMNS.len())
            .zip(rows.iter().zip(&mut self.bound))
        {
            for (parameter, ((_, value), bound)) in (first..).zip(COLUMNS.iter().zip(bound)) {
                let value = value(row);
                if *bound != value {
                    self.statement
                        .raw_bind_parameter(parameter, ToSqlOutput::Borrowed(value))?;
                    *bound = value;
                }
            }
        }
        self.statement.raw_execute().map(drop)
    }
}
