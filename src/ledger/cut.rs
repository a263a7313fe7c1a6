//! Keeps exchanges that still run in the file. Their use is written as it grows, and their final
//! rows replace it. If their process dies, they become rows with the outcome `shutdown`.
//!
//! **Invariant:** in the file an exchange is among the running ones or among the rows, never among
//! both: each step is one transaction. Sums are those of rows only.

use super::Row;
use super::book::{self, Book, Fault};
use super::columns::{COLUMNS, PLACEHOLDERS, optional_value, row_values, text_value};
use super::life::{self, Dead};
use super::past::take_out;
use super::read::read_integer;
use crate::base::calendar::{day_of, start_of};
use crate::conf::price::Usd;
use crate::limits::Past;
use dialects::usage::{Source, Units, Usage};
use rusqlite::params_from_iter;
use rusqlite::types::ToSqlOutput;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The outcome of exchanges whose process died. Exchanges that a process cuts when it ends have the
/// same outcome.
const CUT: &str = crate::error::Outcome::Shutdown.name();

impl Book {
    /// Writes what running exchanges have used so far, each under its number in this process.
    pub(super) fn write_running(
        &mut self,
        process: &str,
        running: &[(u64, Row)],
    ) -> Result<(), Fault> {
        let transaction = self.transaction()?;
        {
            let mut write = transaction.prepare_cached(&format!(
                "INSERT OR REPLACE INTO running VALUES {PLACEHOLDERS}"
            ))?;
            for (run, row) in running {
                let run = [text_value(process), optional_value(Some(*run))];
                let values = COLUMNS
                    .into_iter()
                    .zip(row_values(row))
                    .filter(|(column, _)| is_known(column));
                let values = run.into_iter().chain(values.map(|(_, value)| value));
                write.execute(params_from_iter(values.map(ToSqlOutput::Borrowed)))?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Makes rows of the exchanges that ran in dead processes, and returns the rows. `process` is
    /// the name of this process, which is not dead.
    pub(super) fn take_over(&mut self, process: &str) -> Result<Vec<Row>, Fault> {
        let path = self.path().to_owned();
        let known: HashSet<String> = {
            let transaction = self.transaction()?;
            let mut names = transaction.prepare_cached("SELECT DISTINCT process FROM running")?;
            let known: rusqlite::Result<_> = names.query_map([], |row| row.get(0))?.collect();
            known?
        };
        // A process that died before it wrote anything has left its file.
        let names: HashSet<String> = known
            .into_iter()
            .chain(life::process_names(&path))
            .filter(|name| name != process)
            .collect();
        // Each process is held until its rows are taken over, so that no other process takes them.
        let dead: Vec<(String, Dead)> = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), Dead::find(&path, &name)?)))
            .collect();
        let mut rows = Vec::new();
        if !dead.is_empty() {
            let transaction = self.transaction()?;
            for (name, _) in &dead {
                let columns: Vec<&str> = COLUMNS
                    .into_iter()
                    .filter(|column| is_known(column))
                    .collect();
                let of_process = format!(
                    "SELECT {} FROM running WHERE process = ?1",
                    columns.join(", ")
                );
                let mut of_process = transaction.prepare_cached(&of_process)?;
                for row in of_process.query_map([name], read_row)? {
                    rows.push(row?);
                }
                transaction
                    .prepare_cached("DELETE FROM running WHERE process = ?1")?
                    .execute([name])?;
            }
            book::add_rows(&transaction, rows.iter(), HashMap::new())?;
            transaction.commit()?;
        }
        dead.into_iter().for_each(|(_, dead)| dead.bury());
        Ok(rows)
    }
}

/// Takes the rows of dead processes out of the sums of days, and lists them one by one: the store
/// counts them only as reserved.
pub(super) fn split_dead_rows(past: &mut Vec<Past>, cut: &[Row], now_ms: u64) {
    for row in cut {
        let own = row.past_use(now_ms);
        // Rows of the last minute are already listed one by one.
        if let Some(same) = past.iter_mut().find(|past| **past == own) {
            same.is_taken_over = true;
            continue;
        }
        let begin = start_of(day_of(own.used_at));
        // A row that is older than the past does not count any more.
        let Some(sum) = past.iter_mut().find(|past| is_sum_of(past, &own, begin)) else {
            continue;
        };
        take_out(sum, &own);
        let sum_time = sum.used_at;
        past.push(Past {
            used_at: sum_time,
            is_taken_over: true,
            ..own
        });
    }
    past.retain(|past| past.requests > 0);
}

/// Returns whether a row of the past is the sum of the day that begins then, and holds this one.
fn is_sum_of(past: &Past, own: &Past, begin: u64) -> bool {
    past.caller == own.caller
        && past.key == own.key
        && past.model == own.model
        && !past.is_taken_over
        && past.requests > 0
        && past.dated == own.dated
        && (past.dated.is_some() || past.used_at == begin)
}

/// Returns whether running exchanges have a column.
fn is_known(column: &str) -> bool {
    !matches!(column, "outcome" | "first_byte_ms")
}

/// Reads the row of a running exchange.
fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column: usize| row.get::<_, String>(column);
    Ok(Row {
        admitted_at: read_integer(row, 0)?,
        request_id: text(1)?,
        caller: text(2)?.into(),
        key: text(3)?.into(),
        model: text(4)?.into(),
        account: name(row, 5)?,
        upstream_model: name(row, 6)?,
        usage: Usage {
            prompt: read_integer(row, 7)?,
            completion: read_integer(row, 8)?,
            cached: read_integer(row, 9)?,
            cache_write: read_integer(row, 10)?,
            reasoning: read_integer(row, 11)?,
            source: Source::of_name(&text(12)?),
            units: Units {
                requests: 0,
                images: row.get(21)?,
                millis: row.get(22)?,
                characters: row.get(23)?,
            },
            doubted: None,
        },
        cost: money(row, 13)?,
        unused_tokens: read_integer(row, 14)?,
        unused_cost: money(row, 15)?,
        outcome: CUT,
        attempts: row.get(16)?,
        stream: row.get(17)?,
        status: row.get(18)?,
        total_ms: read_integer(row, 19)?,
        door: text(20)?.into(),
        ..Row::default()
    })
}

fn name(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Arc<str>>> {
    let name = row.get::<_, String>(column)?;
    Ok(Some(name).filter(|name| !name.is_empty()).map(Into::into))
}

fn money(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Usd>> {
    let known = row.get::<_, Option<i64>>(column)?;
    Ok(known.map(|nanos| Usd(u64::try_from(nanos).unwrap_or_default())))
}
