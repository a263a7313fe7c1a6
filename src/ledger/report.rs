//! A report says who used how much: a [`Query`] to the ledger and its [`Answer`], for
//! `portcullis usage` and `GET /usage`.
//!
//! Whole days are answered from their sums, and only the rest of the first and the last day from
//! rows: the two agree, and days are few. What is older than the kept rows is answered in whole
//! days, and the answer says so.

mod shown;

use super::days::{date, day_of, start_of, time};
use super::read::{Range, Reader, Table, View, is_over};
use super::sums::{Column, SumKey, Sums};
use crate::units::Time;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Instant;

/// The groups if the question names none.
pub const BY: &str = "caller,model";
/// The time if the question names none.
pub const SINCE: &str = "24h";

/// What sums can be grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The day, in UTC.
    Day,
    /// Who asked.
    Caller,
    /// With which key.
    Key,
    /// For which model.
    Model,
    /// Who answered, or was asked last.
    Account,
    /// Its name for the model.
    UpstreamModel,
    /// How it ended.
    Outcome,
}

impl Group {
    const ALL: [Group; 7] =
        [Group::Day, Group::Caller, Group::Key, Group::Model, Group::Account, Group::UpstreamModel, Group::Outcome];

    /// Returns the group's name in questions and answers.
    pub fn name(self) -> &'static str {
        match self {
            Group::Day => "day",
            Group::Caller => "caller",
            Group::Key => "key",
            Group::Model => "model",
            Group::Account => "account",
            Group::UpstreamModel => "upstream_model",
            Group::Outcome => "outcome",
        }
    }

    fn push(self, key: &SumKey<'_>, into: &mut String) {
        match self {
            Group::Day => into.push_str(&date(key.day)),
            Group::Caller => into.push_str(key.caller),
            Group::Key => into.push_str(key.key),
            Group::Model => into.push_str(key.model),
            Group::Account => into.push_str(key.account),
            Group::UpstreamModel => into.push_str(key.upstream_model),
            Group::Outcome => into.push_str(key.outcome),
        }
    }
}

/// A question as a person wrote it.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "each is the option of `usage` with its name")]
pub struct Asked<'a> {
    pub by: Option<&'a str>,
    pub since: Option<&'a str>,
    pub until: Option<&'a str>,
    pub caller: Option<&'a str>,
    pub key: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    by: Vec<Group>,
    now: u64,
    since: u64,
    /// The moment after the last one. None: until now.
    until: Option<u64>,
    caller: Option<String>,
    key: Option<String>,
    model: Option<String>,
}

impl Query {
    /// Reads a question. An error begins with the name of the option that is wrong.
    pub fn new(asked: &Asked<'_>, now: u64) -> Result<Query, String> {
        let since = moment("since", asked.since.unwrap_or(SINCE), now)?;
        if since > now {
            return Err(format!("since: is still to come: it is {} now, in UTC", time(now)));
        }
        let until = asked.until.map(|text| moment("until", text, now)).transpose()?.filter(|until| *until <= now);
        if since >= until.unwrap_or(u64::MAX) {
            return Err("until: must be later than since".to_owned());
        }
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        Ok(Query {
            by: groups(asked.by.unwrap_or(BY))?,
            now,
            since,
            until,
            caller: owned(asked.caller),
            key: owned(asked.key),
            model: owned(asked.model),
        })
    }

    /// Reads a question from a URL's query.
    pub fn of_url(query: &str, now: u64) -> Result<Query, String> {
        let texts = texts(query, &["by", "since", "until", "caller", "key", "model"])?;
        let text = |name: &str| texts.get(name).map(String::as_str);
        let asked = Asked {
            by: text("by"),
            since: text("since"),
            until: text("until"),
            caller: text("caller"),
            key: text("key"),
            model: text("model"),
        };
        Query::new(&asked, now)
    }

    fn range(&self, from: u64, until: u64) -> Range<'_> {
        Range { from, until, caller: self.caller.as_deref(), key: self.key.as_deref(), model: self.model.as_deref() }
    }
}

/// Reads the pairs of a URL's query. Other names than `known` are an error.
pub fn texts(query: &str, known: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if !known.contains(&name.as_str()) {
            return Err(format!("{name}: is not known; there are {}", known.join(", ")));
        }
        if texts.contains_key(&name) {
            return Err(format!("{name}: stands there a second time"));
        }
        texts.insert(name, value);
    }
    Ok(texts)
}

fn groups(text: &str) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for name in text.split(',').map(str::trim) {
        let group = Group::ALL.into_iter().find(|group| group.name() == name);
        let names = Group::ALL.map(Group::name).join(", ");
        let group = group.ok_or_else(|| {
            format!("by: holds a name that is not known; there are {names}, with commas between them")
        })?;
        if groups.contains(&group) {
            return Err(format!("by: {name} stands there a second time"));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Reads a moment: `30m`, `24h` and `7d` ago, a date or a time.
fn moment(name: &str, text: &str, now: u64) -> Result<u64, String> {
    let ago = text.char_indices().last().and_then(|(at, unit)| {
        let unit = match unit {
            'm' => 60_000_u64,
            'h' => 3_600_000,
            'd' => 86_400_000,
            _ => return None,
        };
        let number =
            text.get(..at).filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))?;
        Some(number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)))
    });
    match ago {
        Some(ago) => {
            ago.and_then(|ago| now.checked_sub(ago)).ok_or_else(|| format!("{name}: {text} is too long: it is before 1970; name a date"))
        }
        None => text.parse::<Time>().map(|Time(seconds)| seconds.saturating_mul(1_000)).map_err(|_| {
            format!("{name}: must be 30m, 24h or 7d (so long ago), a date such as 2026-11-01, or a time such as 2026-11-01T08:00:00Z")
        }),
    }
}

/// Decodes percent-encoding (RFC 3986 §2.1), with the plus sign of forms.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    rest.next()
                        .and_then(|digit| char::from(digit).to_digit(16))
                        .and_then(|digit| u8::try_from(digit).ok())
                };
                let (high, low) = (digit(), digit());
                high.zip(low).map(|(high, low)| high << 4 | low).ok_or("the query holds a % that encodes nothing")?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "the query is not UTF-8".to_owned())
}

/// What a group used.
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

/// The answer.
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
    /// Returns whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The limits of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The answer must be complete by then.
    pub deadline: Instant,
    /// The largest number of lines.
    pub lines: usize,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// It would have more lines than this.
    TooMuch(usize),
    /// It takes too long.
    TooLong,
    /// Another question is being answered.
    Busy,
    /// The file cannot be read.
    Unreadable(String),
}

impl Display for Unanswered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::TooMuch(lines) => {
                write!(f, "that is more than {lines} lines: ask for less: fewer groups or a shorter time")
            }
            Unanswered::TooLong => {
                f.write_str("that takes too long here: ask for whole days (since=2026-11-01), or `portcullis usage`")
            }
            Unanswered::Busy => f.write_str("another question is being answered: ask again in a moment"),
            Unanswered::Unreadable(why) => f.write_str(why),
        }
    }
}

/// Answers a question from a file. None: there is no file yet.
pub fn answer(path: &Path, query: &Query, bounds: Option<Bounds>) -> Result<Option<Answer>, Unanswered> {
    match Reader::open(path).map_err(Unanswered::Unreadable)? {
        Some(reader) => answer_of(reader, path, query, bounds).map(Some),
        None => Ok(None),
    }
}

/// Answers a question from an open file.
pub(super) fn answer_of(
    mut reader: Reader,
    path: &Path,
    query: &Query,
    bounds: Option<Bounds>,
) -> Result<Answer, Unanswered> {
    let unanswered = |why: rusqlite::Error| match is_over(&why) {
        true => Unanswered::TooLong,
        false => Unanswered::Unreadable(format!("the ledger {} cannot be read: {why}", path.display())),
    };
    if let Some(Bounds { deadline, .. }) = bounds {
        reader.until(deadline).map_err(unanswered)?;
    }
    let view = reader.view().map_err(unanswered)?;
    let most = bounds.map(|bounds| bounds.lines);
    let mut sum =
        Summing { query, most, is_full: false, name: String::new(), lines: BTreeMap::new(), total: Used::default() };
    let (since, notes) = sum.all(&view).map_err(unanswered)?;
    if let Some(most) = most.filter(|_| sum.is_full) {
        return Err(Unanswered::TooMuch(most));
    }
    let lines = sum
        .lines
        .into_iter()
        .map(|(name, used)| (name.split(BETWEEN).map(ToOwned::to_owned).collect(), used))
        .collect();
    Ok(Answer { by: query.by.clone(), since, until: query.until.unwrap_or(query.now), lines, total: sum.total, notes })
}

/// Stands between the names of a line, and sorts before all that is in them.
const BETWEEN: char = '\0';

/// Sums while they are read.
struct Summing<'q> {
    query: &'q Query,
    /// The largest number of lines.
    most: Option<usize>,
    /// There would be more lines.
    is_full: bool,
    /// The name of the present line; kept for its memory.
    name: String,
    lines: BTreeMap<String, Used>,
    total: Used,
}

impl Summing<'_> {
    /// Reads everything that the question is about. Returns the first moment of the answer, and
    /// notes about it.
    fn all(&mut self, view: &View<'_>) -> rusqlite::Result<(u64, Vec<String>)> {
        let (since, until) = (self.query.since, self.query.until.unwrap_or(u64::MAX));
        let (rows_from, days_from) = view.kept()?;
        let (first, last) = (day_of(since), day_of(until));
        let (begins_within, ends_within) =
            (since > start_of(first), self.query.until.is_some() && until > start_of(last));
        // A day whose rows are gone is read as a whole.
        let (first_has_rows, last_has_rows) = (since >= rows_from, start_of(last) >= rows_from);
        let mut from_day = first;
        let mut until_day = last;
        if first == last && first_has_rows {
            self.rows(view, since, until)?;
        } else {
            if begins_within && first_has_rows {
                from_day = first.saturating_add(1);
                self.rows(view, since, start_of(from_day))?;
            }
            if ends_within && last_has_rows {
                self.rows(view, start_of(last), until)?;
            } else if ends_within {
                until_day = last.saturating_add(1);
            }
            let range = self.query.range(from_day, until_day);
            view.read(Table::Days, &range, &mut |key, sums| self.take(&key, &sums))?;
        }
        let mut notes = Vec::new();
        let whole_first = begins_within && !first_has_rows;
        if whole_first || (ends_within && !last_has_rows) {
            notes.push(format!(
                "single requests are kept from {} on; what is older is told in whole days",
                date(day_of(rows_from))
            ));
        }
        if first < days_from {
            notes.push(format!("nothing is kept of what was before {}", date(days_from)));
        }
        Ok((if whole_first { start_of(first) } else { since }, notes))
    }

    fn rows(&mut self, view: &View<'_>, from: u64, until: u64) -> rusqlite::Result<()> {
        let range = self.query.range(from, until);
        view.read(Table::Rows, &range, &mut |key, sums| self.take(&key, &sums))
    }

    /// Adds sums to their line. Returns false if there are too many lines.
    fn take(&mut self, key: &SumKey<'_>, sums: &Sums) -> bool {
        self.name.clear();
        for (index, group) in self.query.by.iter().enumerate() {
            if index > 0 {
                self.name.push(BETWEEN);
            }
            group.push(key, &mut self.name);
        }
        let ok = key.outcome == "ok";
        if let Some(line) = self.lines.get_mut(&self.name) {
            line.add(sums, ok);
        } else if self.most.is_some_and(|most| self.lines.len() >= most) {
            self.is_full = true;
        } else {
            self.lines.entry(self.name.clone()).or_default().add(sums, ok);
        }
        self.total.add(sums, ok);
        !self.is_full
    }
}

#[cfg(test)]
mod tests;
