//! A report lists use and cost: a [`Query`] to the ledger and its [`Answer`], for `portcullis
//! usage` and `GET /usage`.
//!
//! Whole days are answered from their sums, and only the rest of the first and the last day from
//! rows: the two agree, and there are few days. Time from before the kept rows is answered in whole
//! days, and the answer says so.

mod query;
mod shown;

pub use query::{DEFAULT_GROUPS, DEFAULT_SINCE, Group, Query, RawQuery, query_pairs};

use super::merge::MERGED;
use super::read::{KeptFrom, Reader, Table, View, is_deadline_error};
use super::sums::{Column, SumKey, Sums};
use crate::base::calendar::{DAY, day_of, day_start, format_date};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Instant;

/// The use of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The sums.
    pub sums: Sums,
    /// The requests whose outcome was not `ok`.
    pub failed: u64,
}

impl Used {
    fn add(&mut self, sums: &Sums, ok: bool) {
        self.sums.add(sums);
        if !ok {
            self.failed = self.failed.saturating_add(sums[Column::Requests]);
        }
    }
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    by: Vec<Group>,
    since: u64,
    until: u64,
    lines: Vec<(Vec<String>, Used)>,
    total: Used,
    notes: Vec<String>,
}

impl Answer {
    /// Returns whether no request was found.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The limits of an answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerBounds {
    /// The time by which the answer must be complete.
    pub deadline: Instant,
    /// The largest number of lines.
    pub lines: usize,
}

/// The reasons for which there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The answer would have more lines than this.
    TooMuch(usize),
    /// The answer takes too long. It was reading this.
    TooLong(SlowRead),
    /// Another question is being answered.
    Busy,
    /// The file cannot be read.
    Unreadable(String),
}

/// The part that was being read when the time was over, which shows how to ask for less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowRead {
    /// Sums of days, and rows of a part of the first or the last day.
    DaySums,
    /// Rows of whole days, whose sums have lost the account and the outcome. The day from which on
    /// sums have them, if the answer reaches it.
    OldRows(Option<u64>),
    /// Rows of whole days, since only rows have the door.
    Doors,
}

impl Display for Unanswered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::TooMuch(lines) => {
                write!(
                    f,
                    "the answer has more than {lines} lines: ask for fewer groups or a shorter time"
                )
            }
            Unanswered::TooLong(reading) => {
                write!(
                    f,
                    "the answer takes too long: {reading}, or use `portcullis usage`"
                )
            }
            Unanswered::Busy => {
                f.write_str("the ledger is answering another question: ask again in a moment")
            }
            Unanswered::Unreadable(why) => f.write_str(why),
        }
    }
}

impl Display for SlowRead {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SlowRead::DaySums => {
                f.write_str("ask for whole days (since=2026-11-01) or a shorter time")
            }
            SlowRead::OldRows(None) => f.write_str(
                "by account, upstream_model or outcome, single rows are read for days so long ago: ask for a shorter \
                 time, or without these groups",
            ),
            SlowRead::OldRows(Some(detailed_days)) => {
                let day = format_date(*detailed_days);
                write!(
                    f,
                    "by account, upstream_model or outcome, single rows are read for days before {day}: ask for \
                     since={day}, or without these groups"
                )
            }
            SlowRead::Doors => f.write_str(
                "by door, single rows are read: ask for a shorter time, or without door",
            ),
        }
    }
}

/// Answers a query from a file. Returns `None` if there is no file yet.
pub fn answer_query(
    path: &Path,
    query: &Query,
    bounds: Option<AnswerBounds>,
) -> Result<Option<Answer>, Unanswered> {
    let reader = Reader::open(path).map_err(Unanswered::Unreadable)?;
    reader
        .map(|reader| answer_of(reader, path, query, bounds))
        .transpose()
}

/// Answers a query from an open file.
pub(super) fn answer_of(
    mut reader: Reader,
    path: &Path,
    query: &Query,
    bounds: Option<AnswerBounds>,
) -> Result<Answer, Unanswered> {
    if let Some(AnswerBounds { deadline, .. }) = bounds {
        reader
            .set_deadline(deadline)
            .map_err(|why| unanswered(&why, SlowRead::DaySums, path))?;
    }
    let view = reader
        .view()
        .map_err(|why| unanswered(&why, SlowRead::DaySums, path))?;
    let mut sum = Summing::new(query, bounds.map(|bounds| bounds.lines));
    let all = sum.read_all(&view);
    let (since, mut notes) = all.map_err(|why| unanswered(&why, sum.reading, path))?;
    if let Some(max_lines) = sum.max_lines.filter(|_| sum.is_full) {
        return Err(Unanswered::TooMuch(max_lines));
    }
    let lines = sum
        .lines
        .into_iter()
        .map(|(name, used)| (name.split(BETWEEN).map(ToOwned::to_owned).collect(), used))
        .collect::<Vec<_>>();
    if lines.is_empty() && query.until.is_none() {
        notes.push(
            "requests of the last second are not there yet: the gateway writes its rows four times a second".to_owned(),
        );
    }
    Ok(Answer {
        by: query.by.clone(),
        since,
        until: query.until.unwrap_or(query.now),
        lines,
        total: sum.total,
        notes,
    })
}

fn unanswered(why: &rusqlite::Error, reading: SlowRead, path: &Path) -> Unanswered {
    match is_deadline_error(why) {
        true => Unanswered::TooLong(reading),
        false => Unanswered::Unreadable(format!(
            "the ledger {} cannot be read: {why}",
            path.display()
        )),
    }
}

/// The character between the names of a line. It sorts before all that names have.
const BETWEEN: char = '\0';

/// The sums of an answer while rows are read.
struct Summing<'q> {
    query: &'q Query,
    /// The largest number of lines.
    max_lines: Option<usize>,
    /// True if there would be more lines.
    is_full: bool,
    /// The name of the present line. It is kept so that its memory is used again.
    name: String,
    lines: BTreeMap<String, Used>,
    total: Used,
    /// The part that is being read.
    reading: SlowRead,
}

impl Summing<'_> {
    fn new(query: &Query, max_lines: Option<usize>) -> Summing<'_> {
        Summing {
            query,
            max_lines,
            is_full: false,
            name: String::new(),
            lines: BTreeMap::new(),
            total: Used::default(),
            reading: SlowRead::DaySums,
        }
    }

    /// Reads everything that the query asks for. Returns the first moment of the answer, and notes
    /// about the answer.
    fn read_all(&mut self, view: &View<'_>) -> rusqlite::Result<(u64, Vec<String>)> {
        let (since, until) = (self.query.since, self.query.until.unwrap_or(u64::MAX));
        let KeptFrom {
            rows: rows_from,
            days: days_from,
            detailed_days,
        } = view.kept_from()?;
        let (first, last) = (day_of(since), day_of(until));
        let (begins_within, ends_within) = (
            since > day_start(first),
            self.query.until.is_some() && until > day_start(last),
        );
        // If the rows of a day are gone, the whole day is read.
        let (first_has_rows, last_has_rows) = (since >= rows_from, day_start(last) >= rows_from);
        let mut notes = Vec::new();
        let mut from_day = first;
        let mut until_day = last;
        if first == last && first_has_rows {
            self.read_rows(view, since, until)?;
        } else {
            if begins_within && first_has_rows {
                from_day = first.saturating_add(1);
                self.read_rows(view, since, day_start(from_day))?;
            }
            if ends_within && last_has_rows {
                self.read_rows(view, day_start(last), until)?;
            } else if ends_within {
                until_day = last.saturating_add(1);
            }
            // The first day of which all rows are there.
            let kept = day_of(rows_from.saturating_add(DAY - 1))
                .max(from_day)
                .min(until_day);
            if self.query.by.contains(&Group::Door) {
                // Only rows have it.
                self.reading = SlowRead::Doors;
                self.read_rows(view, day_start(kept), day_start(until_day))?;
                if from_day < kept {
                    notes.push(format!(
                        "the doors of requests from before {} are not known",
                        format_date(kept)
                    ));
                }
                until_day = kept;
            } else if self.query.by.iter().any(|group| group.is_merged_later())
                && from_day < detailed_days
            {
                // Rows have what the sums of old days have lost.
                let detailed = detailed_days.clamp(kept, until_day);
                self.reading =
                    SlowRead::OldRows(Some(detailed_days).filter(|day| *day < until_day));
                self.read_rows(view, day_start(kept), day_start(detailed))?;
                self.reading = SlowRead::DaySums;
                self.read_days(view, detailed, until_day)?;
                if from_day < kept {
                    let before = format_date(kept.min(detailed_days));
                    notes.push(format!(
                        "requests from before {before} are counted without their account, upstream model and outcome: {MERGED}"
                    ));
                }
                until_day = kept;
            }
            self.read_days(view, from_day, until_day)?;
        }
        let whole_first = begins_within && !first_has_rows;
        if whole_first || (ends_within && !last_has_rows) {
            notes.push(format!(
                "single requests are kept from {} on; older requests are shown in whole days",
                format_date(day_of(rows_from))
            ));
        }
        if first < days_from {
            notes.push(format!(
                "the ledger has nothing from before {}",
                format_date(days_from)
            ));
        }
        Ok((if whole_first { day_start(first) } else { since }, notes))
    }

    fn read_days(&mut self, view: &View<'_>, from: u64, until: u64) -> rusqlite::Result<()> {
        let range = self.query.range(from, until);
        view.read_entries(Table::Days, &range, &mut |key, sums| {
            self.add_sums(&key, &sums)
        })
    }

    fn read_rows(&mut self, view: &View<'_>, from: u64, until: u64) -> rusqlite::Result<()> {
        let range = self.query.range(from, until);
        view.read_entries(Table::Rows, &range, &mut |key, sums| {
            self.add_sums(&key, &sums)
        })
    }

    /// Adds sums to their line. Returns false if there are too many lines.
    fn add_sums(&mut self, key: &SumKey<'_>, sums: &Sums) -> bool {
        self.name.clear();
        for (index, group) in self.query.by.iter().enumerate() {
            if index > 0 {
                self.name.push(BETWEEN);
            }
            group.push_name(key, &mut self.name);
        }
        let ok = key.outcome == "ok";
        if let Some(line) = self.lines.get_mut(&self.name) {
            line.add(sums, ok);
        } else if self
            .max_lines
            .is_some_and(|limit| self.lines.len() >= limit)
        {
            self.is_full = true;
        } else {
            self.lines
                .entry(self.name.clone())
                .or_default()
                .add(sums, ok);
        }
        self.total.add(sums, ok);
        !self.is_full
    }
}

#[cfg(test)]
mod tests;
