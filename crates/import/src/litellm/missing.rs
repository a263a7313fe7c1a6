//! The names of models that answer to nothing, since their entries are left out. What refers to one
//! of them says why.

use std::collections::BTreeMap;

use super::names::pattern_serves;
use super::node::Spot;
use crate::notes::{Finding, Grade};

/// The names, each with the environment variable that its entry needs, if that is the reason.
#[derive(Default)]
pub(super) struct Missing(BTreeMap<String, Option<String>>);

impl Missing {
    /// Adds the names of an entry that is left out.
    pub(super) fn add(&mut self, names: impl IntoIterator<Item = String>, unset: Option<String>) {
        for name in names {
            let known = self.0.entry(name).or_default();
            *known = known.take().or_else(|| unset.clone());
        }
    }

    /// Adds an alias of a name, if the name is one of these.
    pub(super) fn add_alias(&mut self, alias: &str, name: &str) {
        if let Some(unset) = self.0.get(name).cloned() {
            self.add([alias.to_owned()], unset);
        }
    }

    /// Makes the finding about a name that is no model, with what follows from it.
    pub(super) fn finding(
        &self,
        spot: &Spot<'_>,
        grade: Grade,
        became: &str,
        then: &str,
    ) -> Finding {
        self.finding_about(
            spot.text().unwrap_or_default(),
            spot.finding(grade, became, then),
        )
    }

    /// Puts the reason why a name is no model before what a finding says.
    pub(super) fn finding_about(&self, name: &str, finding: Finding) -> Finding {
        let of_pattern = || {
            self.0
                .iter()
                .find(|(pattern, _)| pattern_serves(pattern, name))
                .map(|(_, unset)| unset)
        };
        let (why, after) = match self.0.get(name).or_else(of_pattern) {
            None => ("there is no such model here".to_owned(), None),
            Some(None) => (
                "there is no such model here, since its entry is left out".to_owned(),
                None,
            ),
            Some(Some(variable)) => (
                format!(
                    "there is no such model here, since its entry is left out (set {variable} first)"
                ),
                Some(variable.clone()),
            ),
        };
        Finding {
            message: format!("{why}: {}", finding.message),
            after,
            ..finding
        }
    }
}
