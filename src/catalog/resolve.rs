//! Resolving turns the catalog as written into the [`Catalog`], or into a list of everything that
//! is wrong in all files.
//!
//! Pure: what is outside the texts (environment, secret files, CA files) comes through one function
//! that the caller gives. Each error is reported once: an entry that could not be read is not also
//! reported as missing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::identity::Identity;
use super::rotation::KeySecret;
use super::{Account, Caller, Catalog, Key, Model, name, raw};
use crate::base::lock::Lock;
use crate::base::problem::Problems;
use crate::conf::scribe::{Report, Scribe};
use crate::conf::secret_ref::{LookUp, Reference};
use crate::conf::yaml::read::Entries;

mod accounts;
mod aws;
mod base;
mod callers;
mod credential;
mod identities;
mod identity;
mod known;
mod models;
mod prices;
mod timeouts;

pub use base::{parse_base, parse_service};
pub use identities::parse_key_address;
use prices::Unpriced;

/// The sections that `catalog.yaml` must have.
const SECTIONS: [&str; 3] = ["accounts", "models", "callers"];

/// Documents of files that had no error, by the SHA-256 of the files' texts. They are not read a
/// second time.
#[derive(Default)]
pub struct Documents(HashMap<[u8; 32], Arc<raw::Catalog>>);

/// Reads and merges the files. Each file is a name to show and a text. The first is `catalog.yaml`,
/// which must have all three sections.
pub fn resolve_catalog(
    files: &[(String, String)],
    look_up: &mut LookUp<'_>,
) -> Result<Catalog, Problems> {
    resolve_with_documents(files, None, look_up)
}

/// Does the same. `known` are the documents of the last time, if they are kept, and those of this
/// time take their place.
pub fn resolve_with_documents(
    files: &[(String, String)],
    known: Option<&mut Documents>,
    look_up: &mut LookUp<'_>,
) -> Result<Catalog, Problems> {
    let mut report = Report::new(files, raw::KIND, look_up);
    let documents = match known {
        Some(known) => read_new_documents(files, known, &mut report),
        None => read_documents(files, &mut report),
    };
    if report.is_hopeless() {
        return Err(report.problems());
    }
    sections_are_there(&report);

    let written = merge_section(&documents, "accounts", |raw| raw.accounts.as_ref(), &report);
    let accounts = accounts::resolve_accounts(&written, &report);
    let written = merge_section(&documents, "models", |raw| raw.models.as_ref(), &report);
    let limited = callers::limited_models(&documents);
    let models = models::resolve_models(&written, &accounts, limited, &report);
    let mut unpriced = Unpriced::new(&models);
    let identities = merge_section(
        &documents,
        "identities",
        |raw| raw.identities.as_ref(),
        &report,
    );
    let (callers, mut resolver) =
        callers::resolve_callers(&documents, &models, &mut unpriced, &report);
    let identities = identities::resolve_identities(&identities, &mut resolver, &report);
    let served = ServedCallers {
        callers,
        identities,
        secrets: resolver.secrets,
        keys: resolver.keys,
    };
    unpriced.warn(&written, &served, &report);
    somebody_may_call(&served, &report);

    if report.has_problems() {
        return Err(report.problems());
    }
    let names = models.values().flatten().flat_map(|model| {
        std::iter::once(&model.id)
            .chain(&model.aliases)
            .map(|name| (Arc::clone(name), Arc::clone(model)))
    });
    let globs = models.values().flatten().flat_map(|model| {
        model
            .patterns()
            .map(|glob| (Arc::clone(glob), Arc::clone(model)))
    });
    let mut globs: Vec<_> = globs.collect();
    // The longest beginning counts; of one model's globs it does not matter which.
    globs.sort_by_key(|(glob, _)| std::cmp::Reverse(name::literal_prefix(glob).len()));
    Ok(Catalog {
        digest: digest_of(files, accounts.values().flatten()),
        names: names.collect(),
        globs,
        rotating: rotating_keys(&served),
        secrets: served.secrets,
        keys: served.keys,
        callers: served.callers,
        identities: served.identities,
        models: models.into_values().flatten().collect(),
        accounts: accounts.into_values().flatten().collect(),
        literal_secrets: report.literal_secrets.take(),
        listings: Vec::new(),
        pattern_models: Lock::default(),
        warnings: report.warnings(),
    })
}

/// Returns the keys with a secret that is being replaced.
fn rotating_keys(served: &ServedCallers) -> Vec<Arc<Key>> {
    let replaced = served.secrets.values().filter(|secret| secret.replaced);
    let mut rotating: Vec<_> = replaced
        .filter_map(|secret| secret.find_key(&served.keys).cloned())
        .collect();
    rotating.sort_unstable_by_key(|key| key.index);
    rotating.dedup_by_key(|key| key.index);
    rotating
}

/// Returns the errors that can be found in some files alone, when others could not even be read.
/// Errors about references are not among them.
pub fn find_faults(files: &[(String, String)]) -> Problems {
    let mut no_references = |_: Reference<'_>| Err(String::new());
    let mut report = Report::new(files, raw::KIND, &mut no_references);
    read_documents(files, &mut report);
    report.problems()
}

/// Returns the SHA-256 of a text.
pub fn sha256_of(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Accounts by name. The value is `None` for an account with errors; its name counts all the same.
type Accounts<'r> = BTreeMap<&'r str, Option<Arc<Account>>>;
/// Models by id. The value is `None` for a model with errors; its id counts all the same.
type Models<'r> = BTreeMap<&'r str, Option<Arc<Model>>>;
/// The entries of one section of all files: from a name to its file and to what is written.
type Merged<'r, T> = BTreeMap<&'r str, (usize, Option<&'r T>)>;

fn digest_of<'a>(
    files: &[(String, String)],
    accounts: impl Iterator<Item = &'a Arc<Account>>,
) -> [u8; 32] {
    let mut sha = Sha256::new();
    for text in files.iter().flat_map(|(name, text)| [name, text]) {
        sha.update(text.len().to_be_bytes());
        sha.update(text);
    }
    // The hash covers secrets too, through another hash: a rotated secret makes another catalog.
    accounts.for_each(|account| sha.update(account.fingerprint.to_be_bytes()));
    sha.finalize().into()
}

/// The callers and their keys, as far as they could be resolved.
struct ServedCallers {
    callers: Vec<Arc<Caller>>,
    identities: Vec<Arc<Identity>>,
    /// The secrets of the keys, by their SHA-256.
    secrets: HashMap<[u8; 32], KeySecret>,
    keys: Vec<Arc<Key>>,
}

/// Reads each file into its document.
fn read_documents(
    files: &[(String, String)],
    report: &mut Report<'_>,
) -> Vec<Option<Arc<raw::Catalog>>> {
    (0..files.len())
        .map(|file| report.read(file, &SECTIONS).map(Arc::new))
        .collect()
}

/// Reads each file into its document, except those that are known.
fn read_new_documents(
    files: &[(String, String)],
    known: &mut Documents,
    report: &mut Report<'_>,
) -> Vec<Option<Arc<raw::Catalog>>> {
    let mut kept = HashMap::new();
    let documents = files.iter().enumerate().map(|(file, (_, text))| {
        let digest = sha256_of(text);
        let found = known.0.get(&digest).cloned();
        let document = found.or_else(|| report.read(file, &SECTIONS).map(Arc::new))?;
        // What was read of a file with an error is not all of it.
        if !report.has_problems() {
            kept.insert(digest, Arc::clone(&document));
        }
        Some(document)
    });
    let documents = documents.collect();
    known.0 = kept;
    documents
}

fn sections_are_there(report: &Report<'_>) {
    let root = Scribe::new(report, 0);
    let message = "is missing: write it, as `{}` if it is empty. Without it a file that was cut short would look complete";
    for section in SECTIONS {
        let is_misspelt = || root.has_error_with(&format!("did you mean `{section}`"));
        let is_missing = !root.key(section).is_written() && !is_misspelt();
        root.key(section).note_problem_if(is_missing, message);
    }
}

/// Warns if there is no caller: a gateway that refuses everybody is seldom meant.
fn somebody_may_call(served: &ServedCallers, report: &Report<'_>) {
    let message = "there is no caller, so every request is refused: `portcullis key new --caller NAME --name NAME --create` makes a caller \
                with a key";
    Scribe::new(report, 0)
        .key("callers")
        .warn_if(served.callers.is_empty(), message);
}

/// Puts one section of all files together.
fn merge_section<'r, T>(
    documents: &'r [Option<Arc<raw::Catalog>>],
    section: &str,
    section_of: impl Fn(&'r raw::Catalog) -> Option<&'r Entries<T>>,
    report: &Report<'_>,
) -> Merged<'r, T> {
    let mut merged: Merged<'r, T> = BTreeMap::new();
    for (file, document) in documents.iter().enumerate() {
        for (name, written) in document
            .as_deref()
            .and_then(&section_of)
            .into_iter()
            .flat_map(|entries| &entries.0)
        {
            match merged.get(name.as_str()) {
                Some((first, _)) => {
                    let root = Scribe::new(report, file);
                    let section = root.key(section);
                    let scribe = section.entry(name);
                    scribe.note_problem(&format!(
                        "is also in {}: keep only one of the two",
                        scribe.location_in(*first)
                    ));
                }
                None => {
                    merged.insert(name, (file, written.as_ref()));
                }
            }
        }
    }
    merged
}

/// Returns the names of a map, for "did you mean".
fn known_names<'m, T>(map: &'m BTreeMap<&str, T>) -> impl Iterator<Item = &'m str> + Clone {
    map.keys().copied()
}

#[cfg(test)]
mod tests;
