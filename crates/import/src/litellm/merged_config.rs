//! The settings of all files, put together, and what entries may refer to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::node::{Lost, Spot};
use crate::Inputs;
use crate::amount::Amount;
use crate::notes::{Finding, Grade};
use portcullis::base::problem::looks_secret;
use portcullis::base::units::duration_text;

/// The report's text for a time that cannot be read.
pub(super) const NO_TIME: &str = "must be a number of seconds: write `timeouts` by hand";

/// The beginning of a value that names an environment variable.
pub(super) const ENVIRON: &str = "os.environ/";

/// Returns the environment variable that a value names.
pub(super) fn variable_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix(ENVIRON)?;
    let is_name = (1..=128).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !looks_secret(name);
    is_name.then_some(name)
}

/// The settings of the file and all that it includes, with what else decides how they are read.
pub(super) struct MergedConfig<'a> {
    lists: BTreeMap<&'a str, Vec<Spot<'a>>>,
    sections: BTreeMap<&'a str, Spot<'a>>,
    /// The sections that no code of their own reads.
    pub(super) others: Vec<(&'a str, Spot<'a>)>,
    /// True if files with keys are given.
    pub(super) has_keys: bool,
    /// Reads the environment of this process.
    environment: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> MergedConfig<'a> {
    /// Puts the files together as LiteLLM does: lists are joined, and of anything else the last one
    /// counts.
    pub(super) fn new(roots: &[Spot<'a>], inputs: &'a Inputs<'_>) -> Self {
        let mut config = Self {
            lists: BTreeMap::new(),
            sections: BTreeMap::new(),
            others: Vec::new(),
            has_keys: !inputs.keys.is_empty(),
            environment: inputs.variable,
        };
        for (key, spot) in roots.iter().flat_map(Spot::entries) {
            match key {
                "include" => spot.report_exact(),
                "model_list" | "credential_list" | "guardrails" if spot.is_list() => {
                    config.lists.entry(key).or_default().extend(spot.items());
                }
                "litellm_settings"
                | "router_settings"
                | "general_settings"
                | "environment_variables" => {
                    if let Some(before) = config.sections.insert(key, spot) {
                        before.report_unsupported(
                            "an included file has this section too, which counts",
                        );
                    }
                }
                _ => config.others.push((key, spot)),
            }
        }
        config.report_references();
        config
    }

    /// Reports what entries refer to.
    fn report_references(&self) {
        let variables = self.section("environment_variables");
        for (_, spot) in variables.into_iter().flat_map(Spot::entries) {
            spot.report_manual("set this variable for the gateway if a secret is read from it");
        }
        for spot in self.list("credential_list") {
            match ["credential_name", "credential_values"].map(|field| spot.filled(field)) {
                [Some(_), Some(_)] => {
                    spot.report(Grade::Exact, "is written out at each entry that names it");
                }
                _ => spot.report_manual("has no `credential_name` or no `credential_values`"),
            }
        }
    }

    pub(super) fn list(&self, name: &str) -> &[Spot<'a>] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Spot<'a>> {
        self.sections.get(name)
    }

    pub(super) fn setting(&self, section: &str, name: &str) -> Option<Spot<'a>> {
        self.section(section)?.get(name)
    }

    /// Returns the time for all entries. LiteLLM's router takes `request_timeout` first. One that
    /// cannot be read counts as none.
    pub(super) fn timeout(&self) -> Option<Spot<'a>> {
        let of_router = || self.readable_time("router_settings", "timeout");
        self.request_timeout().or_else(of_router)
    }

    pub(super) fn request_timeout(&self) -> Option<Spot<'a>> {
        self.readable_time("litellm_settings", "request_timeout")
    }

    /// Returns the time for all entries that only streams have.
    pub(super) fn stream_timeout(&self) -> Option<Spot<'a>> {
        self.readable_time("router_settings", "stream_timeout")
    }

    fn readable_time(&self, section: &str, name: &str) -> Option<Spot<'a>> {
        let spot = self.setting(section, name)?;
        self.span(&spot).is_some().then_some(spot)
    }

    /// Returns a number of seconds as a length of time.
    pub(super) fn span(&self, spot: &Spot<'_>) -> Option<String> {
        format_span(&self.plain(spot).ok()?)
    }

    /// Returns the values of a credential: of several of this name, the last that has some.
    pub(super) fn credential(&self, name: &str) -> Option<Spot<'a>> {
        let list = self.list("credential_list").iter().rev();
        let mut named = list.filter(|spot| spot.get_text("credential_name") == Some(name));
        named.find_map(|spot| spot.filled("credential_values"))
    }

    /// Returns whether an alias hides the models of its name. One that stands for itself hides
    /// nothing.
    pub(super) fn is_hidden(&self, id: &str) -> bool {
        let aliases = self.setting("router_settings", "model_group_alias");
        let alias = aliases.and_then(|aliases| aliases.get(id));
        alias.is_some_and(|alias| alias.get_text("model").or(alias.text()) != Some(id))
    }

    /// Returns a variable that holds no secret.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let of_file = self.setting("environment_variables", name);
        let of_file = of_file.as_ref().and_then(Spot::text).map(str::to_owned);
        let text = of_file.or_else(|| (self.environment)(name));
        text.filter(|text| !text.is_empty())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    /// Returns a value that is no secret: what is written, or what the variable that is named
    /// holds.
    pub(super) fn plain(&self, spot: &Spot<'_>) -> Result<String, Lost> {
        let Some(text) = spot.text() else {
            return Err(spot.lost(Grade::Manual, "must be a text"));
        };
        if !text.starts_with(ENVIRON) {
            return Ok(text.to_owned());
        }
        let Some(name) = variable_name(text) else {
            return Err(spot.lost(Grade::Manual, "names no environment variable"));
        };
        self.variable(name).ok_or_else(|| {
            let why = format!(
                "{name} is not set here, and the gateway reads only secrets from its environment"
            );
            let lost = *spot.lost(Grade::Manual, why);
            Box::new(Finding {
                unset: Some(name.to_owned()),
                ..lost
            })
        })
    }

    /// Returns a value that is one plain word: a version, a project, a region.
    pub(super) fn word(&self, spot: &Spot<'_>, is_right: Check) -> Result<String, Lost> {
        const WRONG: &str = "must be one word of letters, digits and `-`";
        let word = self.plain(spot)?;
        match is_right(&word) {
            true => Ok(word),
            false => Err(spot.lost(Grade::Manual, WRONG)),
        }
    }
}

/// Writes seconds as a length of time.
fn format_span(seconds: &str) -> Option<String> {
    const WEEK: u64 = 168 * 3_600_000;
    let (milliseconds, _) = Amount::parse(seconds)?.units(3)?;
    let is_right = (1..=WEEK).contains(&milliseconds);
    is_right.then(|| duration_text(Duration::from_millis(milliseconds)))
}

/// A question about a word.
pub(super) type Check = fn(&str) -> bool;

/// Returns whether a text may be a version, a project: something that is no secret.
pub(super) fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b))
        && !looks_secret(text)
}

/// Returns whether a text may be a region: it becomes a part of a host name.
pub(super) fn is_region(text: &str) -> bool {
    is_word(text)
        && !text.contains(['.', '_', ':'])
        && !text.starts_with('-')
        && !text.ends_with('-')
}
