//! Names for the catalog, made of names of LiteLLM, which may hold anything; and the names of
//! models that answer to nothing, since their entries are left out.

use dialects::wire::shorten_text;
use std::collections::{BTreeMap, HashMap};

use super::node::Spot;
use crate::notes::{Finding, Grade};
use portcullis::base::problem::looks_secret;
use portcullis::catalog::globs::glob_matches;
use portcullis::catalog::name;

/// Makes a name of an account, a caller or a key, of at most this many characters. Returns `None`
/// if nothing is left of it, or if it may be a secret.
pub(super) fn entry_name(text: &str, limit: usize) -> Option<String> {
    let mut made = String::new();
    for c in text.trim().chars() {
        let is_plain = c.is_ascii_alphanumeric() || "._-@+".contains(c);
        let c = if is_plain { c } else { '-' };
        // One dash is enough for a run of other characters.
        if c != '-' || !made.ends_with('-') {
            made.push(c);
        }
    }
    let made = made.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let made = shorten_text(made, limit);
    let made = made.trim_end_matches(['-', '.']);
    let is_name = name::of_entry(made).is_ok();
    (is_name && !looks_secret(made) && !looks_secret(text)).then(|| made.to_owned())
}

/// The names that are used so far, each with the number that was tried last.
#[derive(Default)]
pub(super) struct UsedNames(HashMap<String, usize>);

impl UsedNames {
    /// Assigns a name: the wanted one, or that with a number after it.
    pub(super) fn assign(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        // Each number is tried once for a name, however often the name is wanted.
        while self.0.contains_key(&name) {
            let number = self.0.entry(wanted.to_owned()).or_insert(1);
            *number += 1;
            let end = format!("-{number}");
            let length = 64_usize.saturating_sub(end.len());
            name = wanted.chars().take(length).chain(end.chars()).collect();
        }
        self.0.insert(name.clone(), 1);
        name
    }
}

/// The names of entries that are left out, each with the environment variable that its entry
/// needs, if that is the reason.
#[derive(Default)]
pub(super) struct Missing(BTreeMap<String, Option<String>>);

impl Missing {
    /// Adds the names of an entry that is left out.
    pub(super) fn add(&mut self, names: impl IntoIterator<Item = String>, unset: Option<&String>) {
        for name in names {
            let known = self.0.entry(name).or_default();
            *known = known.take().or_else(|| unset.cloned());
        }
    }

    /// Adds an alias of a name, if the name is one of these.
    pub(super) fn add_alias(&mut self, alias: &str, name: &str) {
        if let Some(unset) = self.0.get(name).cloned() {
            self.add([alias.to_owned()], unset.as_ref());
        }
    }

    /// Reports a name that is no model, with what follows from it.
    pub(super) fn report(&self, spot: &Spot<'_>, name: &str, grade: Grade, then: &str) {
        let mut patterns = self.0.iter();
        let of_pattern = patterns.find(|(pattern, _)| glob_matches(pattern, name));
        let entry = self.0.get(name).or(of_pattern.map(|(_, unset)| unset));
        let after = entry.cloned().flatten();
        let why = match (entry, &after) {
            (_, Some(variable)) => {
                format!(", since its entry is left out (set {variable} first)")
            }
            (Some(_), None) => ", since its entry is left out".to_owned(),
            (None, None) => String::new(),
        };
        let message = format!("there is no such model here{why}: {then}");
        spot.findings.add(Finding {
            after,
            ..spot.finding(grade, message)
        });
    }
}
