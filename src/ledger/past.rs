//! Reads the past from the file: what was spent this month, for limits to begin with.

use super::book::number;
use super::days::{day_of, month_of, start_of};
use super::read::{Range, Reader, Table, View, unreadable, whole};
use super::sums::{Column, Sums};
use crate::limits::Past;
use crate::price::Usd;
use rusqlite::Row;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A window of a minute is never longer than this, in milliseconds.
const MINUTE: u64 = 61_000;
/// Returns the first moment of which [`Ledger::past`](super::Ledger::past) tells.
pub(super) fn since(now_ms: u64) -> u64 {
    start_of(month_of(day_of(now_ms))).min(now_ms.saturating_sub(MINUTE))
}

/// Reads what [`Ledger::past`](super::Ledger::past) tells of the file. None: there is no file.
pub(super) fn read(path: &Path, now_ms: u64) -> Result<Option<Vec<Past>>, String> {
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

/// The sums of days, by who spent them.
type Days = BTreeMap<Spender, Sums>;

fn past_of(reader: &Reader, now_ms: u64) -> rusqlite::Result<Vec<Past>> {
    let view = reader.view()?;
    let mut names = NamePool::default();
    let mut days = Days::new();
    let today = day_of(now_ms);
    let range = Range { from: month_of(today), until: today + 1, caller: None, key: None, model: None };
    view.read(Table::Days, &range, &mut |key, sums| {
        let spender = (key.day, names.of(key.caller), names.of(key.key), names.of(key.model));
        days.entry(spender).or_default().add(&sums);
        true
    })?;
    let mut past = recent(&view, &mut names, &mut days, now_ms)?;
    past.extend(ahead(&view, &mut names, now_ms)?);
    let days = days.into_iter().filter(|(_, sums)| sums[Column::Requests] > 0);
    past.extend(days.map(|((day, caller, key, model), sums)| Past {
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
    }));
    Ok(past)
}

/// Returns the latest moment that counts as now.
fn late(now_ms: u64) -> u64 {
    now_ms.saturating_add(MINUTE)
}

/// Reads the rows of the last minute, and takes them out of the sums of their days.
fn recent(view: &View<'_>, names: &mut NamePool, days: &mut Days, now_ms: u64) -> rusqlite::Result<Vec<Past>> {
    let mut past = Vec::new();
    let mut recent = view.transaction.prepare(
        "SELECT at, caller, key, model, prompt, completion, coalesce(cost, 0), cost IS NULL FROM exchange WHERE at BETWEEN ?1 AND ?2",
    )?;
    let mut rows = recent.query([now_ms.saturating_sub(MINUTE), late(now_ms)].map(number))?;
    while let Some(row) = rows.next()? {
        let [caller, key, model] = names.at(row, 1)?;
        let at = whole(row, 0)?;
        let (prompt, completion, cost, unpriced) = (whole(row, 4)?, whole(row, 5)?, whole(row, 6)?, whole(row, 7)?);
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
        past.push(Past {
            at: at.min(now_ms),
            dated: Some(day_of(at)).filter(|day| *day > day_of(now_ms)),
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
    Ok(past)
}

/// Reads rows from a clock that was days ahead. Such a row also counts today, or this month, if it
/// was written after all rows from before.
fn ahead(view: &View<'_>, names: &mut NamePool, now_ms: u64) -> rusqlite::Result<Vec<Past>> {
    let today = day_of(now_ms);
    let first = start_of(today + 1).max(late(now_ms).saturating_add(1));
    let mut past = Vec::new();
    let mut ahead = view.transaction.prepare(AHEAD)?;
    let mut rows = ahead.query([first, start_of(today), start_of(month_of(today))].map(number))?;
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
