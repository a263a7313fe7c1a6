//! A [`Reader`] reads the ledger's file, while somebody writes it or nobody does. Nothing here
//! changes the file.

use super::book::{self, Fault, number};
use super::days::{day_of, month_of, start_of};
use super::sums::{COLUMNS, Column, SumKey, Sums};
use crate::limits::Past;
use crate::price::Usd;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A window of a minute is never longer than this, in milliseconds.
const MINUTE: u64 = 61_000;
/// A reader waits this long for whoever has just begun to write a new file, or locks the file.
const BUSY: Duration = Duration::from_millis(500);

/// The columns of [`Sums`] in `daily`.
const SUMS: &str = "requests, prompt, completion, cached, cache_write, reasoning, estimated, cost, unpriced, unused_tokens, unused_cost, unused_unpriced";
/// The same columns of one row.
const SUMS_OF_ROW: &str = "1, prompt, completion, cached, cache_write, reasoning, usage = 'estimated', coalesce(cost, 0), cost IS NULL, \
     unused_tokens, coalesce(unused_cost, 0), unused_tokens > 0 AND unused_cost IS NULL";

/// The open file.
pub(super) struct Reader {
    connection: Connection,
}

/// The file as it is at one moment.
pub(super) struct View<'r> {
    transaction: rusqlite::Transaction<'r>,
}

/// A table of the file that has sums.
#[derive(Debug, Clone, Copy)]
pub(super) enum Table {
    /// One row an exchange.
    Rows,
    /// The sums of each day.
    Days,
}

/// Which rows or days to read: from the first moment (or day) up to, but not with, the last.
pub(super) struct Range<'a> {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) caller: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) model: Option<&'a str>,
}

impl Reader {
    /// Opens a file. None: there is no such file.
    pub(super) fn open(path: &Path) -> Result<Option<Reader>, String> {
        if !path.exists() {
            return Ok(None);
        }
        let first = open(path, false);
        let connection = match first {
            // To read a file that others write, SQLite must write beside it. Where it may not, the
            // file is read as it is, if no writer has left anything beside it.
            Err((Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), why)) if lies_still(path) => {
                open(path, true).map_err(|_| unreadable(path, why))?
            }
            Err((_, why)) => return Err(unreadable(path, why)),
            Ok(connection) => connection,
        };
        Ok(Some(Reader { connection }))
    }

    /// Sets a deadline: from then on every read fails with an error of which [`is_over`] is true.
    pub(super) fn until(&mut self, deadline: Instant) -> rusqlite::Result<()> {
        // Steps of SQLite's machine between two looks at the clock: far less than a millisecond.
        const STEPS: i32 = 4096;
        self.connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline))
    }

    /// Returns the file as it is now.
    pub(super) fn view(&self) -> rusqlite::Result<View<'_>> {
        Ok(View { transaction: self.connection.unchecked_transaction()? })
    }
}

/// Returns whether an error is that the deadline is over.
pub(super) fn is_over(why: &rusqlite::Error) -> bool {
    why.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

fn unreadable(path: &Path, why: impl Into<Fault>) -> String {
    format!("the ledger {} cannot be read: {}", path.display(), why.into().what)
}

fn open(path: &Path, still: bool) -> Result<Connection, (Option<ErrorCode>, Fault)> {
    let attempt = || {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = if still {
            flags |= OpenFlags::SQLITE_OPEN_URI;
            let text = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
            Connection::open_with_flags(format!("file:{text}?immutable=1"), flags)?
        } else {
            Connection::open_with_flags(path, flags)?
        };
        connection.busy_timeout(BUSY)?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    let connection = attempt().map_err(|why: rusqlite::Error| (why.sqlite_error_code(), Fault::from(why)))?;
    book::check(&connection).map_err(|why| (None, why))?;
    Ok(connection)
}

/// Returns whether all that was written is in the file itself.
fn lies_still(path: &Path) -> bool {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    std::fs::metadata(beside).map_or(true, |wal| wal.len() == 0)
}

impl View<'_> {
    /// Returns from which moment on all rows are kept, and from which day on all sums.
    pub(super) fn kept(&self) -> rusqlite::Result<(u64, u64)> {
        let meta = |name: &str| {
            let value =
                self.transaction.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| whole(row, 0));
            value.optional().map(Option::unwrap_or_default)
        };
        Ok((meta("rows_from")?, meta("days_from")?))
    }

    /// Calls `each` with every entry of a range in a table, until `each` returns false.
    pub(super) fn read(
        &self,
        table: Table,
        range: &Range<'_>,
        each: &mut dyn FnMut(SumKey<'_>, Sums) -> bool,
    ) -> rusqlite::Result<()> {
        let (name, day, time, sums) = match table {
            Table::Rows => ("exchange", "at / 86400000", "at", SUMS_OF_ROW),
            Table::Days => ("daily", "day", "day", SUMS),
        };
        let sql = format!(
            "SELECT {day}, caller, key, model, account, upstream_model, outcome, {sums} FROM {name} WHERE {time} >= ?1 AND {time} < ?2 {FILTER}"
        );
        let mut statement = self.transaction.prepare(&sql)?;
        let mut rows =
            statement.query(params![number(range.from), number(range.until), range.caller, range.key, range.model])?;
        while let Some(row) = rows.next()? {
            let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
            let key = SumKey {
                day: whole(row, 0)?,
                caller: text(1)?,
                key: text(2)?,
                model: text(3)?,
                account: text(4)?,
                upstream_model: text(5)?,
                outcome: text(6)?,
            };
            if !each(key, sums_at(row, 7)?) {
                break;
            }
        }
        Ok(())
    }
}

const FILTER: &str = "AND (?3 IS NULL OR caller = ?3) AND (?4 IS NULL OR key = ?4) AND (?5 IS NULL OR model = ?5)";

fn sums_at(row: &Row<'_>, first: usize) -> rusqlite::Result<Sums> {
    let mut each = [0; COLUMNS];
    for (column, number) in each.iter_mut().enumerate() {
        *number = whole(row, first + column)?;
    }
    Ok(Sums(each))
}

/// Reads a number. It is not negative, since none was written.
fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default())
}

/// Returns the first moment of which [`super::Ledger::past`] tells.
pub(super) fn since(now_ms: u64) -> u64 {
    start_of(month_of(day_of(now_ms))).min(now_ms.saturating_sub(MINUTE))
}

/// Reads what [`super::Ledger::past`] tells of the file. None: there is no file.
pub(super) fn past(path: &Path, now_ms: u64) -> Result<Option<Vec<Past>>, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(None) };
    past_of(&reader, now_ms).map(Some).map_err(|why| unreadable(path, why))
}

/// Sums rows of the future, by the day or month that they count for. A row counts for it if it was
/// written after the last row from before that day or month: the index finds that row by its time.
/// The sums are floats, since whole numbers could overflow.
const AHEAD: &str = "WITH before AS (SELECT
        coalesce((SELECT rowid FROM exchange WHERE at < ?2 ORDER BY at DESC LIMIT 1), 0) AS day,
        coalesce((SELECT rowid FROM exchange WHERE at < ?3 ORDER BY at DESC LIMIT 1), 0) AS month)
    SELECT CASE WHEN exchange.rowid > before.day THEN ?2 ELSE ?3 END AS since, caller, key, model, count(*),
        CAST(total(prompt) + total(completion) AS INTEGER), CAST(total(cost) AS INTEGER), sum(cost IS NULL), at / 86400000 AS dated
    FROM exchange, before WHERE at >= ?1 AND (exchange.rowid > before.day OR exchange.rowid > before.month) GROUP BY 1, 2, 3, 4, dated";

/// A day, a caller, a key, a model.
type Spender = (u64, Arc<str>, Arc<str>, Arc<str>);

fn past_of(reader: &Reader, now_ms: u64) -> rusqlite::Result<Vec<Past>> {
    let view = reader.view()?;
    let mut names = NamePool::default();
    let mut past = Vec::new();
    let mut days: BTreeMap<Spender, Sums> = BTreeMap::new();
    let range = |from, until| Range { from, until, caller: None, key: None, model: None };
    let (month, today) = (month_of(day_of(now_ms)), day_of(now_ms));
    view.read(Table::Days, &range(month, today + 1), &mut |key, sums| {
        let spender = (key.day, names.of(key.caller), names.of(key.key), names.of(key.model));
        days.entry(spender).or_default().add(&sums);
        true
    })?;
    // A little later than now is now.
    let late = now_ms.saturating_add(MINUTE);
    let mut recent = view.transaction.prepare(
        "SELECT at, caller, key, model, prompt, completion, coalesce(cost, 0), cost IS NULL FROM exchange WHERE at BETWEEN ?1 AND ?2",
    )?;
    let mut rows = recent.query([now_ms.saturating_sub(MINUTE), late].map(number))?;
    while let Some(row) = rows.next()? {
        let [caller, key, model] = names.at(row, 1)?;
        let at = whole(row, 0)?;
        let (prompt, completion, cost, unpriced) = (whole(row, 4)?, whole(row, 5)?, whole(row, 6)?, whole(row, 7)?);
        // The row is listed by itself, so its day's sums are listed without it.
        if let Some(day) = days.get_mut(&(day_of(at), caller.clone(), key.clone(), model.clone())) {
            for (column, part) in [
                (Column::Requests, 1),
                (Column::Prompt, prompt),
                (Column::Completion, completion),
                (Column::Cost, cost),
                (Column::Unpriced, unpriced),
            ] {
                day[column] = day[column].saturating_sub(part);
            }
        }
        let dated = Some(day_of(at)).filter(|day| *day > today);
        past.push(Past {
            at: at.min(now_ms),
            dated,
            caller,
            key,
            model,
            requests: 1,
            tokens: prompt.saturating_add(completion),
            usd: Usd(cost),
            unpriced,
            cut: false,
        });
    }
    // A row from a clock that was days ahead also counts today, or this month, if it was written
    // after all rows from before.
    let mut ahead = view.transaction.prepare(AHEAD)?;
    let of_today = start_of(today + 1).max(late.saturating_add(1));
    let mut rows = ahead.query([of_today, start_of(today), start_of(month)].map(number))?;
    while let Some(row) = rows.next()? {
        let [caller, key, model] = names.at(row, 1)?;
        past.push(Past {
            at: whole(row, 0)?,
            dated: Some(whole(row, 8)?),
            caller,
            key,
            model,
            requests: whole(row, 4)?,
            tokens: whole(row, 5)?,
            usd: Usd(whole(row, 6)?),
            unpriced: whole(row, 7)?,
            cut: false,
        });
    }
    past.extend(days.into_iter().filter(|(_, sums)| sums[Column::Requests] > 0).map(
        |((day, caller, key, model), sums)| Past {
            at: start_of(day),
            dated: None,
            caller,
            key,
            model,
            requests: sums[Column::Requests],
            tokens: sums.tokens(),
            usd: Usd(sums[Column::Cost]),
            unpriced: sums[Column::Unpriced],
            cut: false,
        },
    ));
    Ok(past)
}

/// Names, with one piece of memory for each.
#[derive(Default)]
struct NamePool(HashSet<Arc<str>>);

impl NamePool {
    /// Reads three names, of which the first is in this column.
    fn at(&mut self, row: &Row<'_>, column: usize) -> rusqlite::Result<[Arc<str>; 3]> {
        let mut name = |column: usize| Ok::<_, rusqlite::Error>(self.of(row.get_ref(column)?.as_str()?));
        Ok([name(column)?, name(column + 1)?, name(column + 2)?])
    }

    fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}

/// The callers, keys and models in the sums of days.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct LedgerNames {
    pub callers: BTreeSet<String>,
    pub keys: BTreeSet<String>,
    pub models: BTreeSet<String>,
}

/// Reads the callers, keys and models of a ledger. Nothing if there is no file yet.
pub fn names(path: &Path) -> Result<LedgerNames, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(LedgerNames::default()) };
    let distinct = |column: &str| -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = reader.connection.prepare(&format!("SELECT DISTINCT {column} FROM daily"))?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let read = || -> rusqlite::Result<LedgerNames> {
        Ok(LedgerNames { callers: distinct("caller")?, keys: distinct("key")?, models: distinct("model")? })
    };
    read().map_err(|why| unreadable(path, why))
}

/// Reads when each key was last used, in milliseconds of Unix time. Nothing if there is no file yet.
pub fn last_used(path: &Path) -> Result<HashMap<String, u64>, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(HashMap::new()) };
    let read = || -> rusqlite::Result<HashMap<String, u64>> {
        let mut statement = reader.connection.prepare("SELECT key, at FROM last_used")?;
        statement.query_map([], |row| Ok((row.get(0)?, whole(row, 1)?)))?.collect()
    };
    read().map_err(|why| unreadable(path, why))
}
