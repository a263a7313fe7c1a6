//! Keeps exchanges that still run in the file. Their use is written as it grows, and their final
//! rows replace it. If their process dies, they become rows with the outcome `shutdown`.
//!
//! **Invariant:** in the file an exchange is among the running ones or among the rows, never among
//! both: each step is one transaction. Sums are those of rows only.

use super::Row;
use super::book::{self, Book, Fault};
use super::columns::{COLUMNS, PLACEHOLDERS, RowColumn, optional_value, text_value};
use super::life::{self, Dead};
use super::past::take_out;
use super::read::read_integer;
use crate::base::calendar::{day_of, day_start};
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
                let values = running_columns().map(|(_, value)| value(row));
                let values = run.into_iter().chain(values);
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
                let columns: Vec<&str> = running_columns().map(|(name, _)| name).collect();
                let mut statement = transaction.prepare_cached(&format!(
                    "SELECT {} FROM running WHERE process = ?1",
                    columns.join(", ")
                ))?;
                for row in statement.query_map([name], read_row)? {
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
        if let Some(listed) = past.iter_mut().find(|past| **past == own) {
            listed.is_taken_over = true;
            continue;
        }
        // A row that is older than the past does not count any more.
        let Some(sum) = past.iter_mut().find(|past| is_sum_with(past, &own)) else {
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

/// Returns whether an entry of the past is the sum of a day or month that holds this row.
fn is_sum_with(past: &Past, row: &Past) -> bool {
    past.caller == row.caller
        && past.key == row.key
        && past.model == row.model
        && !past.is_taken_over
        && past.requests > 0
        && past.dated == row.dated
        && (past.dated.is_some() || past.used_at == day_start(day_of(row.used_at)))
}

/// Returns the columns that running exchanges have, in the order of their table.
fn running_columns() -> impl Iterator<Item = RowColumn> {
    let lacking = ["outcome", "first_byte_ms"];
    COLUMNS
        .into_iter()
        .filter(move |(name, _)| !lacking.contains(name))
}

/// Reads the row of a running exchange.
fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column: &str| row.get::<_, String>(column);
    Ok(Row {
        admitted_at: read_integer(row, "at")?,
        request_id: text("request_id")?,
        caller: text("caller")?.into(),
        key: text("key")?.into(),
        model: text("model")?.into(),
        account: read_name(row, "account")?,
        upstream_model: read_name(row, "upstream_model")?,
        usage: Usage {
            prompt: read_integer(row, "prompt")?,
            completion: read_integer(row, "completion")?,
            cached: read_integer(row, "cached")?,
            cache_write: read_integer(row, "cache_write")?,
            reasoning: read_integer(row, "reasoning")?,
            source: Source::of_name(&text("usage")?),
            units: Units {
                requests: 0,
                images: row.get("images")?,
                millis: row.get("audio_ms")?,
                characters: row.get("characters")?,
            },
            doubted: None,
        },
        cost: read_money(row, "cost")?,
        unused_tokens: read_integer(row, "unused_tokens")?,
        unused_cost: read_money(row, "unused_cost")?,
        outcome: CUT,
        attempts: row.get("attempts")?,
        stream: row.get("stream")?,
        status: row.get("status")?,
        total_ms: read_integer(row, "total_ms")?,
        door: text("door")?.into(),
        ..Row::default()
    })
}

/// Reads a name. An empty text stands for none.
fn read_name(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<Option<Arc<str>>> {
    let name = row.get::<_, String>(column)?;
    Ok(Some(name).filter(|name| !name.is_empty()).map(Into::into))
}

fn read_money(row: &rusqlite::Row<'_>, column: &str) -> rusqlite::Result<Option<Usd>> {
    let known = row.get::<_, Option<i64>>(column)?;
    Ok(known.map(|nanos| Usd(u64::try_from(nanos).unwrap_or_default())))
}
