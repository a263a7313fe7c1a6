//! A [`Query`] is a question to the ledger: the groups, the time, and the filters.

use crate::base::calendar::{DAY, format_date, format_time};
use crate::base::units::{NumberFault, Time, number_and_unit};
use crate::ledger::read::Range;
use crate::ledger::sums::SumKey;
use dialects::named_enum;
use dialects::wire::percent;
use std::collections::BTreeMap;

/// The groups if the query names none.
pub const DEFAULT_GROUPS: &str = "caller,model";
/// The beginning of the time if the query names none.
pub const DEFAULT_SINCE: &str = "24h";

named_enum! {
    /// The facts by which sums can be grouped.
    pub enum Group {
        /// The day, in UTC.
        Day = "day",
        /// The caller.
        Caller = "caller",
        /// The key.
        Key = "key",
        /// The model that was asked for.
        Model = "model",
        /// The account that answered, or was asked last.
        Account = "account",
        /// The account's name for the model.
        UpstreamModel = "upstream_model",
        /// The outcome.
        Outcome = "outcome",
        /// The door that the request came in by. The sums of days do not have it.
        Door = "door",
    }
}

impl Group {
    /// Returns whether the sums of days lose it when they are old.
    pub(super) fn is_merged_later(self) -> bool {
        matches!(self, Group::Account | Group::UpstreamModel | Group::Outcome)
    }

    pub(super) fn push_name(self, key: &SumKey<'_>, into: &mut String) {
        match self {
            Group::Day => into.push_str(&format_date(key.day)),
            Group::Caller => into.push_str(key.caller),
            Group::Key => into.push_str(key.key),
            Group::Model => into.push_str(key.model),
            Group::Account => into.push_str(key.account),
            Group::UpstreamModel => into.push_str(key.upstream_model),
            Group::Outcome => into.push_str(key.outcome),
            Group::Door => into.push_str(key.door),
        }
    }
}

/// A query as a person wrote it.
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "each is the option of `usage` with its name")]
pub struct RawQuery<'a> {
    pub by: Option<&'a str>,
    pub since: Option<&'a str>,
    pub until: Option<&'a str>,
    pub caller: Option<&'a str>,
    pub key: Option<&'a str>,
    pub model: Option<&'a str>,
}

/// A query that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub(super) by: Vec<Group>,
    pub(super) now: u64,
    pub(super) since: u64,
    /// The moment after the last one. `None` means now.
    pub(super) until: Option<u64>,
    pub(super) caller: Option<String>,
    pub(super) key: Option<String>,
    pub(super) model: Option<String>,
    /// True if the answer is wanted as CSV, not as JSON.
    pub csv: bool,
}

impl Query {
    /// Reads a query. An error begins with the name of the option that is wrong.
    pub fn new(asked: &RawQuery<'_>, now: u64) -> Result<Query, String> {
        let since = parse_moment("since", asked.since.unwrap_or(DEFAULT_SINCE), now)?;
        if since > now {
            return Err(format!(
                "since: must not be in the future; in UTC it is {} now",
                format_time(now)
            ));
        }
        let until = asked
            .until
            .map(|text| parse_moment("until", text, now))
            .transpose()?
            .filter(|until| *until <= now);
        if since >= until.unwrap_or(u64::MAX) {
            return Err("until: must be later than since".to_owned());
        }
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        Ok(Query {
            by: parse_groups(asked.by.unwrap_or(DEFAULT_GROUPS))?,
            now,
            since,
            until,
            caller: owned(asked.caller),
            key: owned(asked.key),
            model: owned(asked.model),
            csv: false,
        })
    }

    /// Reads a query from the query part of a URL.
    pub fn from_url(query: &str, now: u64) -> Result<Query, String> {
        let texts = query_pairs(
            query,
            &["by", "since", "until", "caller", "key", "model", "format"],
        )?;
        let text = |name: &str| texts.get(name).map(String::as_str);
        let asked = RawQuery {
            by: text("by"),
            since: text("since"),
            until: text("until"),
            caller: text("caller"),
            key: text("key"),
            model: text("model"),
        };
        let csv = match text("format") {
            None | Some("json") => false,
            Some("csv") => true,
            Some(_) => return Err("format: must be json or csv".to_owned()),
        };
        Ok(Query {
            csv,
            ..Query::new(&asked, now)?
        })
    }

    /// Reads a question of a key about its own use, from the query part of a URL. It groups by
    /// nothing that names others.
    pub fn for_key(query: &str, key: &str, now: u64) -> Result<Query, String> {
        const OWN: [Group; 4] = [Group::Day, Group::Model, Group::Outcome, Group::Door];
        let texts = query_pairs(query, &["by", "since", "until", "model"])?;
        let text = |name: &str| texts.get(name).map(String::as_str);
        let by = text("by").unwrap_or("model");
        let own = |name: &str| OWN.iter().any(|group| group.name() == name.trim());
        if !by.split(',').all(own) {
            return Err(format!(
                "by: must be of {}, with commas between them",
                OWN.map(Group::name).join(", ")
            ));
        }
        let (since, until, model) = (text("since"), text("until"), text("model"));
        Query::new(
            &RawQuery {
                by: Some(by),
                since,
                until,
                caller: None,
                key: Some(key),
                model,
            },
            now,
        )
    }

    /// Returns the rows or days of this time that the query asks for.
    pub(super) fn range(&self, from: u64, until: u64) -> Range<'_> {
        Range {
            from,
            until,
            caller: self.caller.as_deref(),
            key: self.key.as_deref(),
            model: self.model.as_deref(),
        }
    }
}

/// Reads the pairs of a URL's query. A name that is not in `known` is an error.
pub fn query_pairs(query: &str, known: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode_form(name)?, decode_form(value)?);
        if !known.contains(&name.as_str()) {
            return Err(format!(
                "{}: is not known; allowed: {}",
                shortened(&name),
                known.join(", ")
            ));
        }
        if texts.contains_key(&name) {
            return Err(format!("{name}: is written twice"));
        }
        texts.insert(name, value);
    }
    Ok(texts)
}

/// Returns the beginning of a text that somebody sent.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    match text
        .char_indices()
        .nth(SHOWN)
        .and_then(|(end, _)| text.get(..end))
    {
        Some(shown) => format!("{shown}…"),
        None => text.to_owned(),
    }
}

fn parse_groups(text: &str) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for name in text.split(',').map(str::trim) {
        let group = Group::ALL.into_iter().find(|group| group.name() == name);
        let names = Group::NAMES.join(", ");
        let group = group.ok_or_else(|| {
            format!(
                "by: holds a name that is not known; allowed, with commas between them: {names}"
            )
        })?;
        if groups.contains(&group) {
            return Err(format!("by: {name} is written twice"));
        }
        groups.push(group);
    }
    Ok(groups)
}

const NO_MOMENT: &str = "must be a time ago such as 30m, 24h or 7d, a date such as 2026-11-01, or a time such as \
     2026-11-01T08:00:00Z";

/// Reads a moment: `30m`, `24h` or `7d` ago, a date, or a time.
pub(super) fn parse_moment(name: &str, text: &str, now: u64) -> Result<u64, String> {
    let begin = match number_and_unit(
        text,
        &[("m", 60_000), ("h", 3_600_000), ("d", DAY)],
        u64::MAX,
    ) {
        Ok(ago) => now.checked_sub(ago),
        Err(NumberFault::TooLarge) => None,
        Err(NumberFault::NoNumber) => {
            let time = text.parse::<Time>();
            return time
                .map(|Time(seconds)| seconds.saturating_mul(1_000))
                .map_err(|_| format!("{name}: {NO_MOMENT}"));
        }
    };
    begin.ok_or_else(|| {
        let shown = shortened(text);
        format!("{name}: {shown} is too long, because it begins before 1970; write a date")
    })
}

/// Decodes percent-encoding (RFC 3986 §2.1), with the plus sign of forms.
fn decode_form(text: &str) -> Result<String, String> {
    let bytes = percent::decode_text(&text.replace('+', " "))
        .ok_or("the query holds a % without two hexadecimal digits after it")?;
    String::from_utf8(bytes).map_err(|_| "the query is not UTF-8".to_owned())
}
