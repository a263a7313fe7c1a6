//! The past is what was spent this month, with which limits begin. It is read from the file.

use super::columns::stored_integer;
use super::read::{Range, Reader, Table, View, read_integer, unreadable_error};
use super::sums::Column;
use crate::base::calendar::{day_of, day_start, first_day_of_month};
use crate::conf::price::Usd;
use crate::limits::Past;
use rusqlite::{Params, Row, params, params_from_iter};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The longest window of a minute, in milliseconds.
const MINUTE: u64 = 61_000;

/// Returns the first moment that [`Ledger::past_use`](super::Ledger::past_use) includes.
pub(super) fn first_moment(now_ms: u64) -> u64 {
    day_start(first_day_of_month(day_of(now_ms))).min(now_ms.saturating_sub(MINUTE))
}

/// Reads the part of [`Ledger::past_use`](super::Ledger::past_use) in the file. Returns `None` if
/// there is no file.
pub(super) fn read_past(path: &Path, now_ms: u64) -> Result<Option<Vec<Past>>, String> {
    let Some(reader) = Reader::open(path)? else {
        return Ok(None);
    };
    read_past_view(&reader, now_ms)
        .map(Some)
        .map_err(|why| unreadable_error(path, why))
}

/// Reads the part of what one key has used that is in the file. Returns `None` if there is no file.
pub(super) fn read_past_of_key(
    path: &Path,
    caller: &str,
    key: &str,
    now_ms: u64,
) -> Result<Option<Vec<Past>>, String> {
    let Some(reader) = Reader::open(path)? else {
        return Ok(None);
    };
    read_key_view(&reader, caller, key, now_ms)
        .map(Some)
        .map_err(|why| unreadable_error(path, why))
}

/// Sums what one key has used on each day of this month. Each day is looked up by itself: so the
/// index finds the key's rows, and the rows of others are not read.
const OF_KEY: &str = "WITH RECURSIVE days(number) AS (SELECT ?3 UNION ALL SELECT number + 1 FROM days WHERE number < ?4)
    SELECT number * 86400000 AS used_at, caller, key, model, sum(requests) AS requests,
        CAST(total(prompt) + total(completion) AS INTEGER) AS tokens, CAST(total(cost) AS INTEGER) AS usd,
        sum(unpriced) AS unpriced, NULL AS dated
    FROM days CROSS JOIN daily ON day = number AND caller = ?1 AND key = ?2 GROUP BY number, model";

fn read_key_view(
    reader: &Reader,
    caller: &str,
    key: &str,
    now_ms: u64,
) -> rusqlite::Result<Vec<Past>> {
    let view = reader.view()?;
    let mut names = NamePool::default();
    let today = day_of(now_ms);
    let [first, last] = [first_day_of_month(today), today].map(stored_integer);
    let mut past = names.read_rows(&view, OF_KEY, params![caller, key, first, last])?;
    // Each row of the last minute is moved from the sum of its day to its own moment.
    let from = now_ms.saturating_sub(MINUTE);
    let until = now_ms.saturating_add(MINUTE);
    let [from, until, now, today] = [from, until, now_ms, today].map(stored_integer);
    let recent = format!("{RECENT} AND key = ?5");
    let recent = names.read_rows(&view, &recent, params![from, until, now, today, key])?;
    for row in &recent {
        let day = day_start(row.dated.unwrap_or_else(|| day_of(row.used_at)));
        let mut sums = past.iter_mut();
        if let Some(sum) = sums.find(|sum| sum.used_at == day && sum.model == row.model) {
            take_out(sum, row);
        }
    }
    past.retain(|sum| sum.requests > 0);
    past.extend(recent);
    Ok(past)
}

/// Sums rows of the future, by the day or month that they count for. A row counts for a day or
/// month if it was written after the last row from before that day or month. The index finds that
/// last row by its time. The sums are floats, since whole numbers could overflow.
const AHEAD: &str = "WITH before AS (SELECT
        coalesce((SELECT rowid FROM exchange WHERE at < ?2 ORDER BY at DESC LIMIT 1), 0) AS day,
        coalesce((SELECT rowid FROM exchange WHERE at < ?3 ORDER BY at DESC LIMIT 1), 0) AS month)
    SELECT CASE WHEN exchange.rowid > before.day THEN ?2 ELSE ?3 END AS used_at, caller, key, model, count(*) AS requests,
        CAST(total(prompt) + total(completion) AS INTEGER) AS tokens, CAST(total(cost) AS INTEGER) AS usd, sum(cost IS NULL) AS unpriced,
        at / 86400000 AS dated
    FROM exchange, before WHERE at >= ?1 AND (exchange.rowid > before.day OR exchange.rowid > before.month) GROUP BY 1, 2, 3, 4, dated";

/// Reads the rows of the last minute, each at its moment. A row is never later than ?3, which is in
/// the day ?4.
const RECENT: &str = "SELECT min(at, ?3) AS used_at, caller, key, model, 1 AS requests, prompt + completion AS tokens,
        coalesce(cost, 0) AS usd, cost IS NULL AS unpriced, CASE WHEN at / 86400000 > ?4 THEN at / 86400000 END AS dated
    FROM exchange WHERE at BETWEEN ?1 AND ?2";

/// The sums of days, by the day, the caller, the key and the model.
type Days = BTreeMap<(u64, Arc<str>, Arc<str>, Arc<str>), Past>;

fn read_past_view(reader: &Reader, now_ms: u64) -> rusqlite::Result<Vec<Past>> {
    let view = reader.view()?;
    let mut names = NamePool::default();
    let mut days = Days::new();
    let today = day_of(now_ms);
    let range = Range {
        from: first_day_of_month(today),
        until: today + 1,
        caller: None,
        key: None,
        model: None,
    };
    view.read_entries(Table::Days, &range, &mut |key, sums| {
        let (caller, its_key, model) = (
            names.intern(key.caller),
            names.intern(key.key),
            names.intern(key.model),
        );
        let day = days
            .entry((key.day, caller.clone(), its_key.clone(), model.clone()))
            .or_insert_with(|| Past {
                used_at: day_start(key.day),
                caller,
                key: its_key,
                model,
                ..Past::default()
            });
        day.requests = day.requests.saturating_add(sums[Column::Requests]);
        day.tokens = day.tokens.saturating_add(sums.tokens());
        day.usd = Usd(day.usd.0.saturating_add(sums[Column::Cost]));
        day.unpriced = day.unpriced.saturating_add(sums[Column::Unpriced]);
        true
    })?;
    // The latest moment that counts as now.
    let late = now_ms.saturating_add(MINUTE);
    let mut past = names.read_past(
        &view,
        RECENT,
        &[now_ms.saturating_sub(MINUTE), late, now_ms, today],
    )?;
    for recent in &past {
        let day = recent.dated.unwrap_or_else(|| day_of(recent.used_at));
        if let Some(sum) = days.get_mut(&(
            day,
            recent.caller.clone(),
            recent.key.clone(),
            recent.model.clone(),
        )) {
            take_out(sum, recent);
        }
    }
    // Rows from a clock that was days ahead also count today, or this month.
    let ahead = day_start(today + 1).max(late.saturating_add(1));
    past.extend(names.read_past(
        &view,
        AHEAD,
        &[
            ahead,
            day_start(today),
            day_start(first_day_of_month(today)),
        ],
    )?);
    past.extend(days.into_values().filter(|day| day.requests > 0));
    Ok(past)
}

/// Takes a part out of a sum.
pub(super) fn take_out(sum: &mut Past, part: &Past) {
    sum.requests = sum.requests.saturating_sub(part.requests);
    sum.tokens = sum.tokens.saturating_sub(part.tokens);
    sum.usd = Usd(sum.usd.0.saturating_sub(part.usd.0));
    sum.unpriced = sum.unpriced.saturating_sub(part.unpriced);
}

/// The names that were read, with one allocation for each.
#[derive(Default)]
struct NamePool(HashSet<Arc<str>>);

impl NamePool {
    /// Reads what was spent, in the columns of [`AHEAD`] and [`RECENT`].
    fn read_past(
        &mut self,
        view: &View<'_>,
        sql: &str,
        bounds: &[u64],
    ) -> rusqlite::Result<Vec<Past>> {
        let bounds = bounds.iter().copied().map(stored_integer);
        self.read_rows(view, sql, params_from_iter(bounds))
    }

    /// Reads what was spent, in the same columns, with parameters of any kind.
    fn read_rows(
        &mut self,
        view: &View<'_>,
        sql: &str,
        parameters: impl Params,
    ) -> rusqlite::Result<Vec<Past>> {
        let mut statement = view.transaction.prepare(sql)?;
        let rows = statement.query_map(parameters, |row| {
            Ok(Past {
                used_at: read_integer(row, "used_at")?,
                dated: row
                    .get::<_, Option<i64>>("dated")?
                    .and_then(|day| u64::try_from(day).ok()),
                caller: self.named(row, "caller")?,
                key: self.named(row, "key")?,
                model: self.named(row, "model")?,
                requests: read_integer(row, "requests")?,
                tokens: read_integer(row, "tokens")?,
                usd: Usd(read_integer(row, "usd")?),
                unpriced: read_integer(row, "unpriced")?,
                is_taken_over: false,
            })
        })?;
        rows.collect()
    }

    fn named(&mut self, row: &Row<'_>, column: &str) -> rusqlite::Result<Arc<str>> {
        Ok(self.intern(row.get_ref(column)?.as_str()?))
    }

    fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }
}
