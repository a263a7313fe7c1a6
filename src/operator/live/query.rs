//! The questions that `/live` answers.

use std::collections::BTreeMap;

use crate::ledger::report::query_pairs;
use dialects::named_enum;

named_enum! {
    /// The parts of the answer that may be left out.
    pub(super) enum Section {
        Figures = "figures",
        Configuration = "configuration",
        Models = "models",
        Callers = "callers",
        Requests = "requests",
    }
}

impl Section {
    /// Returns the part of the room that the section may take, beside the others of which the room
    /// is not known before.
    pub(super) fn weight(self) -> usize {
        match self {
            Section::Figures | Section::Configuration => 0,
            Section::Models => 5,
            Section::Callers => 2,
            Section::Requests => 3,
        }
    }

    /// Returns the most rows that the section may have.
    pub(super) fn max_rows(self) -> usize {
        match self {
            Section::Figures | Section::Configuration => 0,
            Section::Models | Section::Callers => 50,
            Section::Requests => 100,
        }
    }
}

/// A question.
#[derive(Debug, Default)]
pub(super) struct LiveQuery {
    /// Only lines after this one.
    pub(super) after: u64,
    /// Only lines before this one.
    pub(super) before: Option<u64>,
    /// Only failures.
    pub(super) failures: bool,
    /// Only lines that have this text in one of the fields by which requests are found.
    pub(super) find: String,
    /// Only models whose names have this text.
    pub(super) models: String,
    /// The number of models that are left out at the beginning.
    pub(super) models_from: usize,
    /// Only callers whose names have this text.
    pub(super) callers: String,
    /// The number of callers that are left out at the beginning.
    pub(super) callers_from: usize,
    /// The sections that are shown; empty = all.
    show: Vec<Section>,
}

impl LiveQuery {
    /// Reads the query of a URL.
    pub(super) fn from_url(query: &str) -> Result<LiveQuery, String> {
        const KNOWN: [&str; 9] = [
            "after",
            "requests_before",
            "failures",
            "find",
            "models",
            "models_from",
            "callers",
            "callers_from",
            "show",
        ];
        let mut texts = query_pairs(query, &KNOWN)?;
        let (after, before) = (
            number(&texts, "after")?.unwrap_or(0),
            number(&texts, "requests_before")?,
        );
        let (models_from, callers_from) = (
            position(&texts, "models_from")?,
            position(&texts, "callers_from")?,
        );
        let failures = match texts.get("failures").map(String::as_str) {
            None | Some("" | "0") => false,
            Some("1") => true,
            Some(_) => return Err("failures: must be 0 or 1".to_owned()),
        };
        let mut show = Vec::new();
        let names = texts.remove("show").unwrap_or_default();
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let section = Section::ALL
                .into_iter()
                .find(|section| section.name() == name);
            show.push(section.ok_or_else(|| {
                let allowed = Section::NAMES.join(", ");
                format!("show: holds a name that is not known; allowed: {allowed}")
            })?);
        }
        let mut text = |name: &str| texts.remove(name).unwrap_or_default();
        let (find, models, callers) = (text("find"), text("models"), text("callers"));
        Ok(LiveQuery {
            after,
            before,
            failures,
            find,
            models,
            models_from,
            callers,
            callers_from,
            show,
        })
    }

    /// Returns whether a section is shown.
    pub(super) fn shows(&self, section: Section) -> bool {
        self.show.is_empty() || self.show.contains(&section)
    }
}

fn number(texts: &BTreeMap<String, String>, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = texts.get(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|_| format!("{name}: must be a whole number that is not negative"))
}

fn position(texts: &BTreeMap<String, String>, name: &str) -> Result<usize, String> {
    let number = number(texts, name)?.unwrap_or(0);
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

/// Reads a query that must have one value.
pub(super) fn only_value(query: &str, name: &str) -> Result<String, String> {
    let value = query_pairs(query, &[name])?
        .remove(name)
        .filter(|value| !value.is_empty());
    value.ok_or_else(|| format!("{name}: is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_or_refused_in_words() {
        let query = LiveQuery::from_url(
            "after=7&failures=1&find=a%20b&models=gpt&models_from=3&show=models,requests",
        )
        .unwrap();
        assert_eq!(
            (
                query.after,
                query.failures,
                &*query.find,
                &*query.models,
                query.models_from
            ),
            (7, true, "a b", "gpt", 3)
        );
        assert!(query.shows(Section::Models) && !query.shows(Section::Figures));
        assert!(LiveQuery::from_url("").unwrap().shows(Section::Figures));
        for (query, why) in [
            (
                "after=-1",
                "after: must be a whole number that is not negative",
            ),
            ("failures=yes", "failures: must be 0 or 1"),
            (
                "show=all",
                "show: holds a name that is not known; allowed: figures, configuration, models, callers, requests",
            ),
        ] {
            assert_eq!(LiveQuery::from_url(query).err().as_deref(), Some(why));
        }
        assert!(LiveQuery::from_url("other=1").is_err());
        assert_eq!(only_value("id=x", "id").as_deref(), Ok("x"));
        assert!(only_value("", "id").is_err() && only_value("id=", "id").is_err());
    }
}
