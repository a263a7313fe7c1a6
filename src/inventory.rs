//! An [`Inventory`] is a catalog as operators may compare it: every entry with its settings as
//! texts, in the order of their names, and nothing secret.
//!
//! **Invariant:** the same files make the same inventory, byte by byte, on every machine. Of a
//! credential it shows only the kind, of a header only the name, and of a key's secrets only how
//! many there are and when they end. What is secret counts only in the [`Marks`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod additions;
mod build;
pub mod changes;
mod mark;
mod settings;

pub use additions::only_adds_or_disables;
pub use changes::words::{plain_text, render_changes};
pub use changes::{Change, Effect, ExtraFacts, find_changes};
pub use mark::{Marks, SecretChanges, section_marks};

/// Settings by their names. A setting that has its usual value may be left out.
pub type Settings = BTreeMap<String, String>;

/// All accounts, models, callers and identities.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// The accounts.
    pub accounts: BTreeMap<String, AccountItem>,
    /// The callers, with their keys.
    pub callers: BTreeMap<String, CallerItem>,
    /// The models.
    pub models: BTreeMap<String, ModelItem>,
    /// The issuers of tokens, each with its settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identities: BTreeMap<String, Settings>,
}

/// An account.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountItem {
    /// The address of its server; empty for the demo.
    pub address: String,
    /// The kind of its credential: `none`, `key`, `aws` or `service_account`. Of an account that
    /// is switched off no credential is read.
    pub credential: String,
    /// True if it takes requests.
    pub enabled: bool,
    /// All else.
    pub settings: Settings,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelItem {
    /// Other names for it, and globs over further names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// True if the id is a pattern, which matches the models that a provider lists.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pattern: bool,
    /// All else.
    pub settings: Settings,
    /// Its targets, as written.
    pub targets: Vec<TargetItem>,
}

/// A target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetItem {
    /// The account.
    pub account: String,
    /// The account's name for the model.
    pub model: String,
    /// The price of each thing; `None` if it is not known.
    pub price: Option<Settings>,
    /// All else.
    pub settings: Settings,
    /// The tier: the lowest is tried first.
    pub tier: u32,
    /// Its share.
    pub weight: u32,
}

/// A caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallerItem {
    /// True if its keys work.
    pub enabled: bool,
    /// When its keys end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// True if its answers have their cost.
    #[serde(default, skip_serializing_if = "is_false")]
    pub expose_cost: bool,
    /// Its keys, by their names without the caller's.
    pub keys: BTreeMap<String, KeyItem>,
    /// The limits of all its keys together.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub limits: Amounts,
    /// The models that it may use; empty if it has no key.
    pub models: Vec<String>,
}

/// A key of a caller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyItem {
    /// The addresses from which it may be used; empty = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_ips: Vec<String>,
    /// True if it may ask for the trail of attempts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub debug: bool,
    /// True if it is disabled.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disabled: bool,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Its limits.
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub limits: Amounts,
    /// Its limits for single models.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model_limits: BTreeMap<String, Amounts>,
    /// The models that it may use out of its caller's; `None` = all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// When each of its secrets ends; `null` = never.
    pub secrets: Vec<Option<String>>,
}

/// Limits by their names.
pub type Amounts = BTreeMap<String, Value>;

/// The answer of `GET /catalog`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServedCatalog {
    /// The catalog that is served.
    pub catalog: Inventory,
    /// The content of the files now.
    pub disk: CatalogOnDisk,
    /// The folder that is watched, as that machine names it.
    pub folder: Option<String>,
    /// How many catalogs were live since the start, this one included.
    pub generation: u64,
    /// The name of the instance.
    pub instance: String,
    /// The marks of the catalog that is served.
    pub live: Marks,
    /// Since when it is served.
    pub loaded: String,
    /// A mark of each section of server.yaml, as it was at the start.
    pub server: BTreeMap<String, String>,
    /// The program's version.
    pub version: String,
}

/// The content of the files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CatalogOnDisk {
    /// True if it is what is served. `false` means that a change waits, or is refused.
    pub is_live: bool,
    /// The marks of the catalog in the files, if they make one.
    #[serde(flatten)]
    pub marks: Option<Marks>,
    /// The reasons why they make none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Whose secrets differ from those that are in use.
    #[serde(default)]
    pub secrets_changed: SecretChanges,
}

impl Inventory {
    /// Finds a key by its whole name, with its caller.
    fn key(&self, full: &str) -> Option<(&CallerItem, &KeyItem)> {
        let (caller, name) = full.split_once('/')?;
        let caller = self.callers.get(caller)?;
        Some((caller, caller.keys.get(name)?))
    }
}

impl CallerItem {
    /// Returns whether requests of its keys may be answered at this time.
    fn works(&self, now: &str) -> bool {
        self.enabled && !is_over(self.expires.as_deref(), now)
    }

    /// Returns the names of its keys that work.
    fn working_keys<'i>(&'i self, now: &'i str) -> impl Iterator<Item = &'i String> {
        let keys = self.keys.iter().filter(|_| self.works(now));
        keys.filter(|(_, key)| key.works(now)).map(|(name, _)| name)
    }
}

impl KeyItem {
    /// Returns whether requests with the key may be answered at this time, if its caller works.
    fn works(&self, now: &str) -> bool {
        !self.disabled && !is_over(self.expires.as_deref(), now) && self.working_secrets(now) > 0
    }

    /// Returns the number of its secrets that have not ended.
    fn working_secrets(&self, now: &str) -> usize {
        self.secrets
            .iter()
            .filter(|end| !is_over(end.as_deref(), now))
            .count()
    }
}

/// Returns whether an end is past. Times in this form sort as texts.
fn is_over(end: Option<&str>, now: &str) -> bool {
    end.is_some_and(|end| end <= now)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_false(flag: &bool) -> bool {
    !flag
}
