//! A scribe stands at a place in a file of the configuration. It reads the value there, and notes
//! what is wrong with it.
//!
//! All notes go into one [`Report`] on all files. A scribe also looks up what the files only name,
//! so code that resolves a value needs nothing but the scribe of the value's place.

use crate::base::problem::{in_column, nearest_name, quote_near_miss, unless_secret};
use crate::conf::secret_ref::{Reference, SecretRef};
use crate::conf::yaml::{FoundNode, Path};

mod report;

pub(crate) use report::Report;

/// A place in a file, with the report that collects the errors.
#[derive(Clone, Copy)]
pub(crate) struct Scribe<'p, 't> {
    report: &'p Report<'t>,
    file: usize,
    path: Path<'p>,
}

/// An entry of a section as written, with its place.
pub(crate) struct WrittenEntry<'r, 'p, 't, T> {
    /// The place of the entry.
    pub(crate) scribe: Scribe<'p, 't>,
    /// The entry's name.
    pub(crate) id: &'r str,
    /// The entry's value as written.
    pub(crate) raw: &'r T,
}

impl<'p, 't> Scribe<'p, 't> {
    /// Begins at the root of a file, by the file's number.
    pub(crate) fn new(report: &'p Report<'t>, file: usize) -> Self {
        Scribe {
            report,
            file,
            path: Path::Root,
        }
    }

    /// Goes to the same path in another file.
    pub(crate) fn in_file(&self, file: usize) -> Scribe<'p, 't> {
        Scribe { file, ..*self }
    }

    /// Goes to a field of this map; the field is a word of ours.
    pub(crate) fn key<'a>(&'a self, key: &'a str) -> Scribe<'a, 't> {
        self.below(self.path.key(key))
    }

    /// Goes to an entry of this map by the entry's name. Messages show the name only if it may be
    /// shown.
    pub(crate) fn entry<'a>(&'a self, name: &'a str) -> Scribe<'a, 't> {
        self.entry_if(name, (self.report.kind.shows)(self.path.section(), name))
    }

    /// Goes to an entry of this map. Messages show its name only if `is_shown`.
    pub(crate) fn entry_if<'a>(&'a self, name: &'a str, is_shown: bool) -> Scribe<'a, 't> {
        self.below(self.path.entry(name, is_shown))
    }

    /// Goes to an item of this list.
    pub(crate) fn index(&self, index: usize) -> Scribe<'_, 't> {
        self.below(self.path.index(index))
    }

    fn below<'a>(&'a self, path: Path<'a>) -> Scribe<'a, 't> {
        Scribe {
            report: self.report,
            file: self.file,
            path,
        }
    }

    /// Returns the last key of the path.
    pub(crate) fn last_key(&self) -> Option<&str> {
        self.path.section()
    }

    fn find(&self) -> Option<FoundNode<'_, 't>> {
        self.report.tree(self.file)?.find(&self.path)
    }

    /// Returns whether any part of the path is written, as far as is known.
    pub(crate) fn is_written(&self) -> bool {
        self.report.tree(self.file).is_none() || self.find().is_some()
    }

    /// Notes an error.
    pub(crate) fn note_problem(&self, message: &str) {
        self.report.problems.borrow_mut().add(self.file, || {
            self.report.locate(self.file, &self.path, message)
        });
    }

    /// Notes an error, if there is one.
    pub(crate) fn note_problem_if(&self, is_wrong: bool, message: &str) {
        if is_wrong {
            self.note_problem(message);
        }
    }

    /// Returns the value that was read, or notes why it could not be read.
    pub(crate) fn read_or_noted<T, E: AsRef<str>>(&self, read: Result<T, E>) -> Option<T> {
        read.map_err(|wrong| self.note_problem(wrong.as_ref())).ok()
    }

    /// Notes an error about a value that is not quoted. The message has the value's column instead.
    pub(crate) fn note_problem_unquoted(&self, message: &str) {
        self.note_problem(&self.in_column(message));
    }

    /// Returns a sentence with the column of the value that it is about.
    pub(crate) fn in_column(&self, message: &str) -> String {
        self.find().map_or_else(
            || message.to_owned(),
            |found| in_column(message, found.node.column),
        )
    }

    /// Notes that a value should name something else in the file, and that no such thing exists.
    pub(crate) fn note_unknown<'n>(
        &self,
        noun: &str,
        id: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) {
        let hint = suggest_names(&format!("{noun}s"), id, known.clone());
        match quote_near_miss(id, known) {
            Some(quoted) => self.note_problem(&format!("no {noun} {quoted}; {hint}")),
            None => self.note_problem_unquoted(&format!("no such {noun}; {hint}")),
        }
    }

    /// Returns the thing that a value names, if it was found. If not, notes that there is none.
    pub(crate) fn found_or_noted<'n, T>(
        &self,
        found: Option<T>,
        noun: &str,
        id: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) -> Option<T> {
        if found.is_none() {
            self.note_unknown(noun, id, known);
        }
        found
    }

    /// Notes that a field is missing, unless it is written and could not be read.
    pub(crate) fn note_missing(&self, message: &str) {
        let path = self.path.to_string();
        if !self
            .report
            .problems
            .borrow()
            .any(self.file, |problem| problem.is_within(&path))
        {
            self.note_problem(message);
        }
    }

    /// Notes that a field is missing, if it is.
    pub(crate) fn note_missing_if(&self, is_missing: bool, message: &str) {
        if is_missing {
            self.note_missing(message);
        }
    }

    /// Returns a value that must be written. Notes that it is missing, if it is.
    pub(crate) fn required<T>(&self, written: Option<T>, message: &str) -> Option<T> {
        self.note_missing_if(written.is_none(), message);
        written
    }

    /// Returns whether an error at this place or inside it contains this text.
    pub(crate) fn has_error_with(&self, text: &str) -> bool {
        let path = self.path.to_string();
        let problems = self.report.problems.borrow();
        problems.any(self.file, |problem| {
            problem.is_within(&path) && problem.message.contains(text)
        })
    }

    /// Notes a warning: something is allowed but should not stay so.
    pub(crate) fn warn(&self, message: &str) {
        self.report.warnings.borrow_mut().add(self.file, || {
            self.report.locate(self.file, &self.path, message)
        });
    }

    /// Notes a warning, if there is one.
    pub(crate) fn warn_if(&self, is_doubtful: bool, message: &str) {
        if is_doubtful {
            self.warn(message);
        }
    }

    /// Notes a warning of a secret that is written out.
    pub(crate) fn warn_of_secret(&self, message: &str) {
        self.report.literal_secrets.borrow_mut().insert(self.file);
        self.warn(message);
    }

    /// Returns the place of the same path in another file: `catalog.yaml:14`. The line must be
    /// searched for, so it is left out if there is no room for another error.
    pub(crate) fn location_in(&self, file: usize) -> String {
        let found = self
            .report
            .problems
            .borrow()
            .has_room()
            .then(|| self.in_file(file).find().map(|found| found.line));
        let name = self.report.name(file);
        found
            .flatten()
            .map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"))
    }

    /// Reads a secret, which is written out or looked up. Errors are noted at the place of the
    /// secret or of its reference. An error of `read` is the rest of a sentence; the sentence
    /// begins with what holds the secret.
    pub(crate) fn secret<T>(
        &self,
        written: &SecretRef,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (field, value) = match written {
            SecretRef::Literal(secret) => {
                return read(secret.expose())
                    .map_err(|wrong| self.note_problem_unquoted(&wrong))
                    .ok();
            }
            SecretRef::Env(variable) => {
                let found = self.look_up(Reference::Env(variable));
                let value = found.and_then(|text| {
                    read(&text).map_err(|wrong| format!("the environment variable {wrong}"))
                });
                ("env", value)
            }
            SecretRef::File(path) => {
                let found = self.look_up(Reference::File(path));
                let value = found.and_then(|text| {
                    // One line end after the secret is not part of it.
                    let line = text
                        .strip_suffix('\n')
                        .map(|line| line.strip_suffix('\r').unwrap_or(line));
                    read(line.unwrap_or(&text)).map_err(|wrong| format!("the file {wrong}"))
                });
                ("file", value)
            }
        };
        value
            .map_err(|wrong| self.key(field).note_problem_unquoted(&wrong))
            .ok()
    }

    /// Reads a file of certificates.
    pub(crate) fn read_certificates(&self, path: &str) -> Option<String> {
        self.look_up(Reference::Ca(path))
            .map_err(|wrong| self.note_problem_unquoted(&wrong))
            .ok()
    }

    /// Reads a file of certificates that must be written.
    pub(crate) fn certificates(&self, written: Option<&str>) -> Option<String> {
        let path = written.filter(|path| !path.is_empty());
        self.read_certificates(self.required(path, "is missing: a file of certificates (PEM)")?)
    }

    /// Returns the text that a reference names, or the reason why there is none.
    pub(crate) fn look_up(&self, reference: Reference<'_>) -> Result<String, String> {
        (self.report.look_up.borrow_mut())(reference)
    }
}

/// Returns a hint: the nearest name, or the names that exist.
pub(crate) fn suggest_names<'n>(
    nouns: &str,
    wrong: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> String {
    match nearest_name(wrong, names.clone()) {
        Some(near) => format!("did you mean \"{}\"?", unless_secret(near)),
        None => list_names(nouns, names),
    }
}

/// Returns a list of the allowed names, for when none of them is near.
fn list_names<'n>(nouns: &str, names: impl Iterator<Item = &'n str>) -> String {
    const SHOWN: usize = 8;
    let mut names = names.peekable();
    if names.peek().is_none() {
        return format!("the catalog has no {nouns}");
    }
    let list: Vec<&str> = names.by_ref().take(SHOWN).map(unless_secret).collect();
    let list = list.join(", ");
    match names.count() {
        0 => format!("allowed: {list}"),
        more => format!("allowed: {list}, {more} more"),
    }
}
