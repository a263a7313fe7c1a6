//! The catalog as written → the [`Catalog`], or everything that is wrong with it, of all files at
//! once.
//!
//! Pure: what is outside the texts (environment, secret files, CA files) comes through one function
//! that the caller gives. An error about one thing is told once: what could not be read is not also
//! reported as missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::rotation::KeySecret;
use super::{Account, Catalog, Key, Model, raw};
use crate::problem::{Problem, Problems, in_column, nearest, quoted, unless_secret};
use crate::secret_ref::LookUp;
use crate::yaml::read::{Entries, MOST_FAULTS, read};
use crate::yaml::{self, Fault, Node, Path};

mod accounts;
mod base;
mod callers;
mod credential;
mod known;
mod models;
mod prices;
mod timeouts;

use prices::Unpriced;

/// Reads and merges the files, each a name to show and its text. The first is `catalog.yaml`, which
/// must have all three sections.
pub fn resolve(files: &[(String, String)], look_up: &mut LookUp<'_>) -> Result<Catalog, Problems> {
    let mut report = Report::new(files);
    let documents = report.documents();
    if report.is_hopeless() {
        return Err(report.problems());
    }
    report.sections_are_there();

    let accounts =
        accounts::resolve(&report.merge(&documents, "accounts", |raw| raw.accounts.as_ref()), look_up, &mut report);
    let written = report.merge(&documents, "models", |raw| raw.models.as_ref());
    let models = models::resolve(&written, &accounts, &mut report);
    let mut unpriced = Unpriced::new(&models);
    let served = callers::resolve(&documents, &models, &mut unpriced, &mut report);
    unpriced.warn(&written, &served, &mut report);
    report.somebody_may_call(&served);

    if !report.problems.is_empty() {
        return Err(report.problems());
    }
    let names = models.values().flatten().flat_map(|model| {
        std::iter::once(&model.id).chain(&model.aliases).map(|name| (Arc::clone(name), Arc::clone(model)))
    });
    Ok(Catalog {
        hash: hash(files, accounts.values().flatten()),
        names: names.collect(),
        rotating: rotating(&served.keys),
        keys: served.keys,
        key_total: served.key_total,
        permissions: served.permissions,
        callers: served.callers,
        models: models.into_values().flatten().collect(),
        accounts: accounts.into_values().flatten().collect(),
        literal_secrets: std::mem::take(&mut report.literal_secrets),
        warnings: report.warnings(),
    })
}

/// The keys with a secret that is being replaced.
fn rotating(keys: &HashMap<[u8; 32], KeySecret>) -> Vec<Arc<Key>> {
    let mut rotating: Vec<_> =
        keys.values().filter(|secret| secret.replaced).map(|secret| Arc::clone(&secret.key)).collect();
    rotating.sort_unstable_by_key(|key| key.index);
    rotating.dedup_by_key(|key| key.index);
    rotating
}

/// What can be said of some files alone, where others could not even be read: nothing about
/// references.
pub fn faults(files: &[(String, String)]) -> Problems {
    let mut report = Report::new(files);
    report.documents();
    report.problems()
}

/// SHA-256.
pub fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// Accounts by name; `None` for those with errors, whose names count all the same.
type Accounts<'r> = BTreeMap<&'r str, Option<Arc<Account>>>;
/// Models by id, likewise.
type Models<'r> = BTreeMap<&'r str, Option<Arc<Model>>>;
/// Entries of one section of all files: name → file and what is written.
type Merged<'r, T> = BTreeMap<&'r str, (usize, Option<&'r T>)>;

fn hash<'a>(files: &[(String, String)], accounts: impl Iterator<Item = &'a Arc<Account>>) -> String {
    let mut sha = Sha256::new();
    for text in files.iter().flat_map(|(name, text)| [name, text]) {
        sha.update(text.len().to_be_bytes());
        sha.update(text);
    }
    // Secrets too, by way of a hash: a rotated one makes another catalog.
    accounts.for_each(|account| sha.update(account.fingerprint.to_be_bytes()));
    sha.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// What is found, with the trees to tell where it stands.
struct Report<'t> {
    files: &'t [(String, String)],
    trees: Vec<Option<Node<'t>>>,
    /// With the file's number, to be sorted by.
    problems: Vec<(usize, Problem)>,
    warnings: Vec<(usize, Problem)>,
    /// What there was no room for.
    more: usize,
    more_warnings: usize,
    /// The reading stopped before the end.
    cut: bool,
    /// No tree, or no section: whatever else could be said would be a consequence.
    hopeless: bool,
    /// The files in which a secret is written out.
    literal_secrets: BTreeSet<usize>,
}

impl<'t> Report<'t> {
    fn new(files: &'t [(String, String)]) -> Self {
        let mut report = Self {
            files,
            trees: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            more: 0,
            more_warnings: 0,
            cut: false,
            hopeless: false,
            literal_secrets: BTreeSet::new(),
        };
        for (file, (_, text)) in files.iter().enumerate() {
            let tree = match yaml::parse_as(text, raw::KIND.shows) {
                Ok((tree, faults)) => {
                    report.take(file, faults);
                    Some(tree)
                }
                Err(fault) => {
                    report.take(file, vec![fault]);
                    report.hopeless = true;
                    None
                }
            };
            report.trees.push(tree);
        }
        report
    }

    fn documents(&mut self) -> Vec<Option<raw::Catalog>> {
        let mut documents = Vec::new();
        for file in 0..self.trees.len() {
            let mut faults = Vec::new();
            let document =
                self.trees.get(file).and_then(Option::as_ref).and_then(|tree| read(tree, raw::KIND, &mut faults));
            self.hopeless |=
                faults.iter().any(|fault| matches!(fault.path.as_str(), "" | "accounts" | "models" | "callers"));
            self.cut |= faults.len() >= MOST_FAULTS;
            self.take(file, faults);
            documents.push(document);
        }
        documents
    }

    fn is_hopeless(&self) -> bool {
        self.hopeless || self.cut
    }

    fn sections_are_there(&mut self) {
        let Some(Some(tree)) = self.trees.first() else { return };
        let missing: Vec<_> = ["accounts", "models", "callers"]
            .into_iter()
            .filter(|section| tree.line_of(&Path::Root.key(section)).is_none())
            .collect();
        for section in missing {
            self.problem(
                0,
                &Path::Root.key(section),
                "is missing: write it, `{}` for none, so that a file cut short is not taken for a catalog",
            );
        }
    }

    /// A gateway that refuses everybody is seldom meant.
    fn somebody_may_call(&mut self, served: &callers::Served) {
        if served.callers.is_empty() {
            let what = "there are none, so nobody may call: `portcullis key new --caller NAME --name NAME --create` makes the first, with a key";
            self.warn(0, &Path::Root.key("callers"), what);
        }
    }

    /// One section of all files.
    fn merge<'r, T>(
        &mut self,
        documents: &'r [Option<raw::Catalog>],
        section: &str,
        of: impl Fn(&'r raw::Catalog) -> Option<&'r Entries<T>>,
    ) -> Merged<'r, T> {
        let mut merged: Merged<'r, T> = BTreeMap::new();
        for (file, document) in documents.iter().enumerate() {
            for (name, written) in document.as_ref().and_then(&of).into_iter().flat_map(|entries| &entries.0) {
                match merged.get(name.as_str()) {
                    Some((first, _)) => {
                        let section = Path::Root.key(section);
                        let at = entry(&section, name);
                        let first = self.place(*first, &at);
                        self.problem(file, &at, &format!("stands also in {first}: keep one"));
                    }
                    None => {
                        merged.insert(name, (file, written.as_ref()));
                    }
                }
            }
        }
        merged
    }

    fn take(&mut self, file: usize, faults: Vec<Fault>) {
        for Fault { line, path, what } in faults {
            if self.problems.len() < MOST_FAULTS {
                self.problems.push((file, Problem { file: self.name(file), line: Some(line), path, what }));
            } else {
                self.more += 1;
            }
        }
    }

    fn problem(&mut self, file: usize, at: &Path<'_>, what: &str) {
        if self.problems.len() < MOST_FAULTS {
            let problem = self.locate(file, at, what);
            self.problems.push((file, problem));
        } else {
            self.more += 1;
        }
    }

    /// An error about a value that is not quoted: its column stands for it.
    fn withheld(&mut self, file: usize, at: &Path<'_>, what: &str) {
        self.problem(file, at, &self.in_column(file, at, what));
    }

    fn in_column(&self, file: usize, at: &Path<'_>, what: &str) -> String {
        let found = self.trees.get(file).and_then(Option::as_ref).and_then(|tree| tree.find(at));
        found.map_or_else(|| what.to_owned(), |found| in_column(what, found.node.column))
    }

    /// A value that should name something else of the catalog, and does not.
    fn unknown<'n>(
        &mut self,
        file: usize,
        at: &Path<'_>,
        what: &str,
        id: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        let hint = meant(&format!("{what}s"), id, known.clone());
        match quoted(id, known) {
            Some(quoted) => self.problem(file, at, &format!("no {what} {quoted}; {hint}")),
            None => self.withheld(file, at, &format!("no such {what}; {hint}")),
        }
    }

    /// A field is not there: an error, unless it is there and could not be read.
    fn missing(&mut self, file: usize, at: &Path<'_>, what: &str) {
        let path = at.to_string();
        if !self.problems.iter().any(|(in_file, problem)| *in_file == file && problem.path.starts_with(&path)) {
            self.problem(file, at, what);
        }
    }

    /// Whether an error inside this place says so.
    fn tells(&self, file: usize, at: &Path<'_>, what: &str) -> bool {
        let inside = format!("{at}.");
        self.problems.iter().any(|(in_file, problem)| {
            *in_file == file && problem.path.starts_with(&inside) && problem.what.contains(what)
        })
    }

    fn warn(&mut self, file: usize, at: &Path<'_>, what: &str) {
        if self.warnings.len() < MOST_FAULTS {
            let warning = self.locate(file, at, what);
            self.warnings.push((file, warning));
        } else {
            self.more_warnings += 1;
        }
    }

    fn locate(&self, file: usize, at: &Path<'_>, what: &str) -> Problem {
        let found = self.trees.get(file).and_then(Option::as_ref).and_then(|tree| tree.find(at));
        let what = match found {
            Some(found) if at.hides() => in_column(what, found.column),
            Some(_) | None => what.to_owned(),
        };
        Problem { file: self.name(file), line: found.map(|found| found.line), path: at.to_string(), what }
    }

    /// `catalog.yaml:14`. The line is searched for, so this is for errors only, and only for those
    /// that are told.
    fn place(&self, file: usize, at: &Path<'_>) -> String {
        if self.problems.len() >= MOST_FAULTS {
            return self.name(file);
        }
        match self.trees.get(file).and_then(Option::as_ref).and_then(|tree| tree.line_of(at)) {
            Some(line) => format!("{}:{line}", self.name(file)),
            None => self.name(file),
        }
    }

    fn name(&self, file: usize) -> String {
        self.files.get(file).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    fn problems(mut self) -> Problems {
        let more = match self.more {
            _ if self.cut => Some("and more errors: the reading stopped here".to_owned()),
            0 => None,
            more => Some(format!("and {more} more errors")),
        };
        let problems = in_order(std::mem::take(&mut self.problems), more);
        Problems(problems, self.warnings())
    }

    fn warnings(self) -> Vec<Problem> {
        let more = (self.more_warnings > 0).then(|| format!("and {} more warnings", self.more_warnings));
        in_order(self.warnings, more)
    }
}

fn in_order(mut found: Vec<(usize, Problem)>, more: Option<String>) -> Vec<Problem> {
    found.sort_by_key(|(file, problem)| (*file, problem.line));
    let mut found: Vec<Problem> = found.into_iter().map(|(_, problem)| problem).collect();
    if let (Some(what), Some(last)) = (more, found.last()) {
        found.push(Problem { file: last.file.clone(), line: None, path: String::new(), what });
    }
    found
}

/// The place of an entry, by its name as far as that may be shown.
fn entry<'p>(section: &'p Path<'p>, name: &'p str) -> Path<'p> {
    section.entry(name, raw::shows(section.section(), name))
}

/// The names of a map, for "did you mean".
fn names<'m, T>(map: &'m BTreeMap<&str, T>) -> impl Iterator<Item = &'m str> + Clone {
    map.keys().copied()
}

/// The nearest name, or those that there are.
fn meant<'n>(what: &str, wrong: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(near) => format!("did you mean \"{}\"?", unless_secret(near)),
        None => listed(what, names),
    }
}

/// What is allowed where nothing is near.
fn listed<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 8;
    let mut names = names.peekable();
    if names.peek().is_none() {
        return format!("the catalog has no {what}");
    }
    let mut list: Vec<&str> = names.by_ref().take(SHOWN).map(unless_secret).collect();
    let more = names.count();
    let more = format!("{more} more");
    if more != "0 more" {
        list.push(&more);
    }
    format!("allowed: {}", list.join(", "))
}

#[cfg(test)]
mod tests;
