//! What exchanges have used that still run, in the file: written down as it grows, replaced by
//! their final rows, and made rows of where the process died that they ran in.
//!
//! **Invariant:** in the file an exchange stands among those that run or among the rows, never
//! among both: each step is one transaction. Sums are those of rows.

use super::book::{self, Book, Fault, number};
use super::life::{self, Dead};
use super::{Row, days};
use crate::limits::Past;
use crate::price::Usd;
use dialects::usage::{Source, Usage};
use rusqlite::{Transaction, params};
use std::collections::{HashMap, HashSet};

pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS running (
        process TEXT NOT NULL, number INTEGER NOT NULL,
        at INTEGER NOT NULL, request_id TEXT NOT NULL, caller TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
        account TEXT NOT NULL, upstream_model TEXT NOT NULL,
        prompt INTEGER NOT NULL, completion INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL,
        reasoning INTEGER NOT NULL, usage TEXT NOT NULL, cost INTEGER, unused_tokens INTEGER NOT NULL, unused_cost INTEGER,
        attempts INTEGER NOT NULL, stream INTEGER NOT NULL, status INTEGER NOT NULL, total_ms INTEGER NOT NULL,
        PRIMARY KEY (process, number)) WITHOUT ROWID;
";

const SO_FAR: &str = "INSERT OR REPLACE INTO running VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)";

const OF_PROCESS: &str =
    "SELECT at, request_id, caller, key, model, account, upstream_model, prompt, completion, cached, cache_write, reasoning,
    usage, cost, unused_tokens, unused_cost, attempts, stream, status, total_ms FROM running WHERE process = ?1";

/// How exchanges have ended whose process died: as those that it cuts itself when it ends.
const CUT: &str = crate::error::Outcome::Shutdown.name();

impl Book {
    /// Writes down what these have used so far, each by its number in this process.
    pub(super) fn write_running(&mut self, process: &str, running: &[(u64, Row)]) -> Result<(), Fault> {
        let transaction = self.transaction()?;
        {
            let mut write = transaction.prepare_cached(SO_FAR)?;
            for (run, row) in running {
                write.execute(params![
                    process,
                    number(*run),
                    number(row.at),
                    row.request_id,
                    row.caller,
                    row.key,
                    row.model,
                    row.account.as_deref().unwrap_or(""),
                    row.upstream_model.as_deref().unwrap_or(""),
                    number(row.usage.prompt),
                    number(row.usage.completion),
                    number(row.usage.cached),
                    number(row.usage.cache_write),
                    number(row.usage.reasoning),
                    row.usage.source.name(),
                    row.cost.map(|Usd(cost)| number(cost)),
                    number(row.unused_tokens),
                    row.unused_cost.map(|Usd(cost)| number(cost)),
                    row.attempts,
                    row.stream,
                    row.status,
                    number(row.total_ms),
                ])?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Makes rows of what ran in processes that are dead; `process` is this one. Those rows.
    pub(super) fn take_over(&mut self, process: &str) -> Result<Vec<Row>, Fault> {
        let path = self.path().to_owned();
        let known: HashSet<String> = {
            let transaction = self.transaction()?;
            let mut names = transaction.prepare_cached("SELECT DISTINCT process FROM running")?;
            let known: rusqlite::Result<_> = names.query_map([], |row| row.get(0))?.collect();
            known?
        };
        // One that died before it wrote anything has left its file.
        let names: HashSet<String> =
            known.into_iter().chain(life::names(&path)).filter(|name| name != process).collect();
        // Each is held until its rows are taken over, so that nobody else is at it.
        let dead: Vec<(String, Dead)> =
            names.into_iter().filter_map(|name| Some((name.clone(), Dead::find(&path, &name)?))).collect();
        let mut rows = Vec::new();
        if !dead.is_empty() {
            let transaction = self.transaction()?;
            for (name, _) in &dead {
                let mut of_process = transaction.prepare_cached(OF_PROCESS)?;
                for row in of_process.query_map([name], row)? {
                    rows.push(row?);
                }
                transaction.prepare_cached("DELETE FROM running WHERE process = ?1")?.execute([name])?;
            }
            book::add(&transaction, rows.iter(), HashMap::new())?;
            transaction.commit()?;
        }
        dead.into_iter().for_each(|(_, dead)| dead.bury());
        Ok(rows)
    }
}

/// What was written down of these while they ran is replaced by them.
pub(super) fn replaced<'r>(
    transaction: &Transaction<'_>,
    rows: impl Iterator<Item = &'r Row>,
    process: &str,
) -> rusqlite::Result<()> {
    let mut runs = rows.filter_map(|row| row.run).peekable();
    if runs.peek().is_none() {
        return Ok(());
    }
    let mut delete = transaction.prepare_cached("DELETE FROM running WHERE process = ?1 AND number = ?2")?;
    for run in runs {
        delete.execute(params![process, number(run.number)])?;
    }
    Ok(())
}

/// Tells what was cut by itself, apart from the rest and from the sums of days: whoever kept counts
/// elsewhere had only reserved it.
pub(super) fn apart(past: &mut Vec<Past>, cut: &[Row], now_ms: u64) {
    for row in cut {
        let own = row.past(now_ms);
        // Those of the last minute are told by themselves already.
        if let Some(same) = past.iter_mut().find(|past| **past == own) {
            same.cut = true;
            continue;
        }
        let begin = days::start_of(days::day_of(own.at));
        let is_its_sum = |past: &&mut Past| {
            let is_whose = past.caller == own.caller && past.key == own.key && past.model == own.model;
            is_whose
                && !past.cut
                && past.requests > 0
                && past.dated == own.dated
                && (past.dated.is_some() || past.at == begin)
        };
        // What is older than all that counts is not told.
        let Some(sum) = past.iter_mut().find(is_its_sum) else { continue };
        sum.requests = sum.requests.saturating_sub(own.requests);
        sum.tokens = sum.tokens.saturating_sub(own.tokens);
        sum.usd = Usd(sum.usd.0.saturating_sub(own.usd.0));
        sum.unpriced = sum.unpriced.saturating_sub(own.unpriced);
        let at = sum.at;
        past.push(Past { at, cut: true, ..own });
    }
    past.retain(|past| past.requests > 0);
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column: usize| row.get::<_, String>(column);
    let name = |column: usize| text(column).map(|name| Some(name).filter(|name| !name.is_empty()).map(Into::into));
    let count = |column: usize| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default());
    let usd = |column: usize| {
        let known = row.get::<_, Option<i64>>(column);
        known.map(|known| known.map(|nanos| Usd(u64::try_from(nanos).unwrap_or_default())))
    };
    Ok(Row {
        at: count(0)?,
        request_id: text(1)?,
        caller: text(2)?.into(),
        key: text(3)?.into(),
        model: text(4)?.into(),
        account: name(5)?,
        upstream_model: name(6)?,
        usage: Usage {
            prompt: count(7)?,
            completion: count(8)?,
            cached: count(9)?,
            cache_write: count(10)?,
            reasoning: count(11)?,
            source: Source::of_name(&text(12)?),
            doubted: None,
        },
        cost: usd(13)?,
        unused_tokens: count(14)?,
        unused_cost: usd(15)?,
        outcome: CUT,
        attempts: row.get(16)?,
        stream: row.get(17)?,
        status: row.get(18)?,
        total_ms: count(19)?,
        first_byte_ms: None,
        run: None,
    })
}
