//! The parameters of one entry, and what they may refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::{is_region, is_word};
use super::node::Spot;
use crate::notes::{Finding, Grade};

/// The beginning of a value that names an environment variable.
pub(super) const ENVIRON: &str = "os.environ/";

/// Returns the environment variable that a value names.
pub(super) fn variable_of(text: &str) -> Option<&str> {
    let name = text.strip_prefix(ENVIRON)?;
    let is_name = (1..=128).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && portcullis::base::problem::unless_secret(name) == name;
    is_name.then_some(name)
}

/// Why a value cannot be read. The reason names the environment variable that is not set, if any.
pub(super) struct Unread {
    why: String,
    unset: Option<String>,
}

impl Unread {
    fn new(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            unset: None,
        }
    }

    /// Makes the finding about the value, for which its entry is left out.
    pub(super) fn leaves_out(self, spot: &Spot<'_>) -> Finding {
        let message = format!("{}; the entry is left out", self.why);
        Finding {
            unset: self.unset,
            ..spot.finding(Grade::Manual, "", message)
        }
    }

    /// Makes the finding about the value, for which this is to write by hand.
    pub(super) fn by_hand(self, spot: &Spot<'_>, field: &str) -> Finding {
        spot.finding(
            Grade::Manual,
            "",
            format!("{}; write `{field}` by hand", self.why),
        )
    }
}

/// The surroundings of the entries.
pub(super) struct World<'a> {
    /// Reads the environment of this process.
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    /// True if files with keys are given.
    pub(super) has_keys: bool,
    /// `environment_variables` of the file, which LiteLLM puts into its environment.
    pub(super) variables: BTreeMap<&'a str, Spot<'a>>,
    /// `credential_list`, by name.
    pub(super) credentials: BTreeMap<&'a str, Spot<'a>>,
    /// The names in `model_group_alias`, which hide models of the same name.
    pub(super) aliases: BTreeSet<&'a str>,
    /// `request_timeout`, which LiteLLM takes first, or the router's `timeout`.
    pub(super) timeout: Option<Spot<'a>>,
    /// The router's `stream_timeout`.
    pub(super) stream_timeout: Option<Spot<'a>>,
}

impl World<'_> {
    /// Returns a variable that holds no secret.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let of_file = self
            .variables
            .get(name)
            .and_then(Spot::text)
            .map(str::to_owned);
        of_file
            .or_else(|| (self.environment)(name))
            .filter(|text| !text.is_empty())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    /// Returns a value that is no secret: what is written, or what the variable that is named
    /// holds.
    pub(super) fn plain(&self, spot: &Spot<'_>) -> Result<String, Unread> {
        let text = spot.text().ok_or_else(|| Unread::new("must be a text"))?;
        if !text.starts_with(ENVIRON) {
            return Ok(text.to_owned());
        }
        let name = variable_of(text).ok_or_else(|| Unread::new("names no environment variable"))?;
        self.variable(name).ok_or_else(|| {
            let why = format!("{name} is not set here, and Portcullis reads only secrets from the environment: set it and run this again");
            Unread { why, unset: Some(name.to_owned()) }
        })
    }

    /// Returns a value that is a region.
    pub(super) fn region(&self, spot: &Spot<'_>) -> Result<String, Unread> {
        let text = self.plain(spot)?;
        if is_region(&text) {
            Ok(text)
        } else {
            Err(Unread::new("must be a region, of letters, digits and -"))
        }
    }

    /// Returns a value that is one plain word: a version, a project.
    pub(super) fn word(&self, spot: &Spot<'_>) -> Result<String, Unread> {
        let text = self.plain(spot)?;
        if is_word(&text) {
            Ok(text)
        } else {
            Err(Unread::new("must be one word of letters, digits and - . _"))
        }
    }
}

/// The parameters of an entry. Each is taken once; what is left at the end has no counterpart.
pub(super) struct Params<'a> {
    /// The place of all of them.
    pub(super) spot: Spot<'a>,
    fields: BTreeMap<&'a str, Spot<'a>>,
}

impl<'a> Params<'a> {
    /// Reads the parameters, with those of the credential that they name. The entry's own count
    /// first.
    pub(super) fn read(spot: Spot<'a>, world: &World<'a>, findings: &mut Vec<Finding>) -> Self {
        let mut fields: BTreeMap<&str, Spot<'_>> = spot.entries().into_iter().collect();
        if let Some(named) = fields.remove("litellm_credential_name") {
            match named.text().and_then(|name| world.credentials.get(name)) {
                Some(credential) => {
                    findings.push(named.finding(
                        Grade::Exact,
                        "",
                        "the credential's values are written out",
                    ));
                    for (key, value) in credential.entries() {
                        fields.entry(key).or_insert(value);
                    }
                }
                None => {
                    const MESSAGE: &str = "`credential_list` has no credential of this name: write the account's key by hand";
                    findings.push(named.finding(Grade::Manual, "", MESSAGE));
                }
            }
        }
        Self { spot, fields }
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Spot<'a>> {
        self.fields.remove(key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// Returns the parameters that no rule took.
    pub(super) fn rest(self) -> impl Iterator<Item = (&'a str, Spot<'a>)> {
        self.fields.into_iter()
    }
}
