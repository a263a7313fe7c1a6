//! Reading the file, beside whoever writes it, or when nobody does. Nothing here changes it.

use super::book::{self, Fault, number};
use super::days::{day_of, month_of, start_of};
use super::sums::Sums;
use crate::limits::Past;
use crate::price::Usd;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Statement, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A minute's window is never longer, in milliseconds.
const MINUTE: u64 = 61_000;
/// A reader waits so long for whoever has just begun to write a new file; and so long at the start
/// for one who locks it.
const BUSY: Duration = Duration::from_millis(500);

/// The columns of [`Sums`] in `daily`.
const SUMS: &str = "requests, prompt, completion, cached, cache_write, reasoning, estimated, cost, unpriced, unused_tokens, unused_cost, unused_unpriced";
/// The same of one row.
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

/// Which rows or days are meant: those of the first moment (or day) up to, but not with, the last.
pub(super) struct Range<'a> {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) caller: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) model: Option<&'a str>,
}

/// Text by which sums can be grouped, as the file has it.
pub(super) struct Names<'r> {
    pub(super) day: u64,
    pub(super) caller: &'r str,
    pub(super) key: &'r str,
    pub(super) model: &'r str,
    pub(super) account: &'r str,
    pub(super) upstream_model: &'r str,
    pub(super) outcome: &'r str,
}

impl Reader {
    /// None: there is no such file.
    pub(super) fn open(path: &Path) -> Result<Option<Reader>, String> {
        if !path.exists() {
            return Ok(None);
        }
        let told = |why: Fault| format!("the ledger {} cannot be read: {}", path.display(), why.what);
        let first = open(path, false);
        let connection = match first {
            // Nobody may write beside it, as SQLite must to read it while others write: it is read
            // as it lies there, if nothing is beside it.
            Err((Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), why)) if lies_still(path) => {
                open(path, true).map_err(|_| told(why))?
            }
            Err((_, why)) => return Err(told(why)),
            Ok(connection) => connection,
        };
        Ok(Some(Reader { connection }))
    }

    /// From this moment on nothing is read any more, however little of what it reads is asked for:
    /// that is the error [`is_over`].
    pub(super) fn until(&mut self, deadline: Instant) -> rusqlite::Result<()> {
        // Steps of SQLite's machine, of which each row takes some: far less than a millisecond.
        const STEPS: i32 = 4096;
        self.connection.progress_handler(STEPS, Some(move || Instant::now() >= deadline))
    }

    pub(super) fn view(&self) -> rusqlite::Result<View<'_>> {
        Ok(View { transaction: self.connection.unchecked_transaction()? })
    }
}

/// Whether it was too late.
pub(super) fn is_over(why: &rusqlite::Error) -> bool {
    why.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
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

/// Whether nothing has been written that is not in the file itself.
fn lies_still(path: &Path) -> bool {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    std::fs::metadata(beside).map_or(true, |wal| wal.len() == 0)
}

impl View<'_> {
    /// From which moment on all rows are kept, and from which day on all sums.
    pub(super) fn kept(&self) -> rusqlite::Result<(u64, u64)> {
        let meta = |name: &str| {
            let value =
                self.transaction.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| whole(row, 0));
            value.optional().map(Option::unwrap_or_default)
        };
        Ok((meta("rows_from")?, meta("days_from")?))
    }

    /// Hands over every row of a range. Ends early where `each` says false.
    pub(super) fn rows(
        &self,
        range: &Range<'_>,
        each: &mut dyn FnMut(Names<'_>, Sums) -> bool,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT at / 86400000, caller, key, model, account, upstream_model, outcome, {SUMS_OF_ROW} FROM exchange WHERE at >= ?1 AND at < ?2 {FILTER}"
        );
        hand_over(&mut self.transaction.prepare(&sql)?, range, each)
    }

    /// The same of the sums of days.
    pub(super) fn days(
        &self,
        range: &Range<'_>,
        each: &mut dyn FnMut(Names<'_>, Sums) -> bool,
    ) -> rusqlite::Result<()> {
        let sql = format!(
            "SELECT day, caller, key, model, account, upstream_model, outcome, {SUMS} FROM daily WHERE day >= ?1 AND day < ?2 {FILTER}"
        );
        hand_over(&mut self.transaction.prepare(&sql)?, range, each)
    }
}

const FILTER: &str = "AND (?3 IS NULL OR caller = ?3) AND (?4 IS NULL OR key = ?4) AND (?5 IS NULL OR model = ?5)";

fn hand_over(
    statement: &mut Statement<'_>,
    range: &Range<'_>,
    each: &mut dyn FnMut(Names<'_>, Sums) -> bool,
) -> rusqlite::Result<()> {
    let mut rows =
        statement.query(params![number(range.from), number(range.until), range.caller, range.key, range.model])?;
    while let Some(row) = rows.next()? {
        let text = |column: usize| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
        let names = Names {
            day: whole(row, 0)?,
            caller: text(1)?,
            key: text(2)?,
            model: text(3)?,
            account: text(4)?,
            upstream_model: text(5)?,
            outcome: text(6)?,
        };
        if !each(names, sums(row, 7)?) {
            break;
        }
    }
    Ok(())
}

fn sums(row: &Row<'_>, first: usize) -> rusqlite::Result<Sums> {
    let mut each = [0; 12];
    for (column, number) in each.iter_mut().enumerate() {
        *number = whole(row, first + column)?;
    }
    Ok(Sums::from(each))
}

/// A number that is not negative, since none was written.
fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default())
}

/// From when on [`super::Ledger::past`] tells.
pub(super) fn since(now_ms: u64) -> u64 {
    start_of(month_of(day_of(now_ms))).min(now_ms.saturating_sub(MINUTE))
}

/// What [`super::Ledger::past`] tells, of what is in the file. None: there is no file.
pub(super) fn past(path: &Path, now_ms: u64) -> Result<Option<Vec<Past>>, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(None) };
    past_of(&reader, now_ms)
        .map(Some)
        .map_err(|why| format!("the ledger {} cannot be read: {}", path.display(), Fault::from(why).what))
}

/// Those of the future by the day or month they count for. Only the row before a day by its time is
/// asked what was written before it: that is in the index. Sums of floats, since those of whole
/// numbers could overflow.
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
    let mut names = Shared::default();
    let mut past = Vec::new();
    let mut days: BTreeMap<Spender, Sums> = BTreeMap::new();
    let range = |from, until| Range { from, until, caller: None, key: None, model: None };
    let (month, today) = (month_of(day_of(now_ms)), day_of(now_ms));
    view.days(&range(month, today + 1), &mut |group, sums| {
        let group = (group.day, names.of(group.caller), names.of(group.key), names.of(group.model));
        days.entry(group).or_default().add(&sums);
        true
    })?;
    // A little later than now is now.
    let late = now_ms.saturating_add(MINUTE);
    let mut recent = view.transaction.prepare(
        "SELECT at, caller, key, model, prompt, completion, coalesce(cost, 0), cost IS NULL FROM exchange WHERE at BETWEEN ?1 AND ?2",
    )?;
    let mut rows = recent.query([now_ms.saturating_sub(MINUTE), late].map(number))?;
    while let Some(row) = rows.next()? {
        let mut name =
            |column: usize| row.get_ref(column)?.as_str().map(|name| names.of(name)).map_err(rusqlite::Error::from);
        let (caller, key, model) = (name(1)?, name(2)?, name(3)?);
        let number = |column| row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or_default());
        let (at, prompt, completion, cost, unpriced) = (number(0)?, number(4)?, number(5)?, number(6)?, number(7)?);
        // It is told by itself, so its day is told without it.
        if let Some(day) = days.get_mut(&(day_of(at), caller.clone(), key.clone(), model.clone())) {
            day.requests = day.requests.saturating_sub(1);
            day.prompt = day.prompt.saturating_sub(prompt);
            day.completion = day.completion.saturating_sub(completion);
            day.cost = day.cost.saturating_sub(cost);
            day.unpriced = day.unpriced.saturating_sub(unpriced);
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
    // What a clock wrote that was days ahead counts today, or this month, too, if it was written
    // later than all that is older.
    let mut ahead = view.transaction.prepare(AHEAD)?;
    let of_today = start_of(today + 1).max(late.saturating_add(1));
    let mut rows = ahead.query([of_today, start_of(today), start_of(month)].map(number))?;
    while let Some(row) = rows.next()? {
        let mut name =
            |column: usize| row.get_ref(column)?.as_str().map(|name| names.of(name)).map_err(rusqlite::Error::from);
        let (caller, key, model) = (name(1)?, name(2)?, name(3)?);
        let (requests, tokens, usd, unpriced) = (whole(row, 4)?, whole(row, 5)?, Usd(whole(row, 6)?), whole(row, 7)?);
        past.push(Past {
            at: whole(row, 0)?,
            dated: Some(whole(row, 8)?),
            caller,
            key,
            model,
            requests,
            tokens,
            usd,
            unpriced,
            cut: false,
        });
    }
    past.extend(days.into_iter().filter(|(_, sums)| sums.requests > 0).map(|((day, caller, key, model), sums)| Past {
        at: start_of(day),
        dated: None,
        caller,
        key,
        model,
        requests: sums.requests,
        tokens: sums.total(),
        usd: Usd(sums.cost),
        unpriced: sums.unpriced,
        cut: false,
    }));
    Ok(past)
}

/// One piece of memory for each name.
#[derive(Default)]
struct Shared(HashSet<Arc<str>>);

impl Shared {
    fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}

/// Whom the sums of days tell of: the callers, keys and models that are or were.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct Known {
    pub callers: BTreeSet<String>,
    pub keys: BTreeSet<String>,
    pub models: BTreeSet<String>,
}

/// Nobody where there is no file yet.
pub fn known(path: &Path) -> Result<Known, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(Known::default()) };
    let names = |column: &str| -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = reader.connection.prepare(&format!("SELECT DISTINCT {column} FROM daily"))?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let read = || -> rusqlite::Result<Known> {
        Ok(Known { callers: names("caller")?, keys: names("key")?, models: names("model")? })
    };
    read().map_err(|why| format!("the ledger {} cannot be read: {}", path.display(), Fault::from(why).what))
}

/// When each key was used last, in milliseconds of Unix time. Nothing where there is no file yet.
pub fn last_used(path: &Path) -> Result<HashMap<String, u64>, String> {
    let Some(reader) = Reader::open(path)? else { return Ok(HashMap::new()) };
    let read = || -> rusqlite::Result<HashMap<String, u64>> {
        let mut statement = reader.connection.prepare("SELECT key, at FROM last_used")?;
        statement.query_map([], |row| Ok((row.get(0)?, whole(row, 1)?)))?.collect()
    };
    read().map_err(|why| format!("the ledger {} cannot be read: {}", path.display(), Fault::from(why).what))
}
