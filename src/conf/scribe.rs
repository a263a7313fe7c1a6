//! A scribe goes down into a file of the configuration, and notes what is wrong, and where.
//!
//! All that it notes goes into one [`Report`] on all files. What the files only name is looked up
//! through it, too, so that whoever resolves a value needs nothing but the scribe of its place.

use crate::base::problem::{nearest, quoted, unless_secret};
use crate::conf::secret_ref::Reference;
use crate::conf::yaml::Path;
use std::cell::RefCell;

mod report;

pub(crate) use report::Report;

/// A place in a file, and who is told of what is wrong there.
#[derive(Clone, Copy)]
pub(crate) struct Scribe<'p, 't> {
    report: &'p RefCell<Report<'t>>,
    file: usize,
    path: Path<'p>,
}

/// An entry of a section as written, and where.
pub(crate) struct Written<'r, 'p, 't, T> {
    /// Where.
    pub(crate) at: Scribe<'p, 't>,
    /// Its name.
    pub(crate) id: &'r str,
    /// What is written.
    pub(crate) raw: &'r T,
}

impl<'p, 't> Scribe<'p, 't> {
    /// Begins at the root of a file, by the file's number.
    pub(crate) fn new(report: &'p RefCell<Report<'t>>, file: usize) -> Self {
        Scribe { report, file, path: Path::Root }
    }

    /// Goes to the same path in another file.
    pub(crate) fn in_file(&self, file: usize) -> Scribe<'p, 't> {
        Scribe { file, ..*self }
    }

    /// Goes to a field of ours in this map.
    pub(crate) fn key<'a>(&'a self, key: &'a str) -> Scribe<'a, 't> {
        self.below(self.path.key(key))
    }

    /// Goes to an entry of this map, by its name, as far as that may be shown.
    pub(crate) fn entry<'a>(&'a self, name: &'a str) -> Scribe<'a, 't> {
        let shows = self.report.borrow().shows;
        self.entry_if(name, shows(self.path.section(), name))
    }

    /// Goes to an entry of this map, whose name is shown or not.
    pub(crate) fn entry_if<'a>(&'a self, name: &'a str, is_shown: bool) -> Scribe<'a, 't> {
        self.below(self.path.entry(name, is_shown))
    }

    /// Goes to an item of this list.
    pub(crate) fn index(&self, index: usize) -> Scribe<'_, 't> {
        self.below(self.path.index(index))
    }

    fn below<'a>(&'a self, path: Path<'a>) -> Scribe<'a, 't> {
        Scribe { report: self.report, file: self.file, path }
    }

    /// Returns the last key of the path.
    pub(crate) fn field(&self) -> Option<&str> {
        self.path.section()
    }

    /// Returns whether anything of the path is written.
    pub(crate) fn is_written(&self) -> bool {
        self.report.borrow().is_written(self.file, &self.path)
    }

    /// Notes an error.
    pub(crate) fn problem(&self, what: &str) {
        self.report.borrow_mut().problem(self.file, &self.path, what);
    }

    /// Notes an error about a value that is not quoted: its column stands for it.
    pub(crate) fn withheld(&self, what: &str) {
        self.problem(&self.in_column(what));
    }

    /// Returns a sentence with the column of the value that it is about.
    pub(crate) fn in_column(&self, what: &str) -> String {
        self.report.borrow().in_column(self.file, &self.path, what)
    }

    /// Notes that a value should name something else of the file, and does not.
    pub(crate) fn unknown<'n>(&self, what: &str, id: &str, known: impl Iterator<Item = &'n str> + Clone) {
        let hint = meant(&format!("{what}s"), id, known.clone());
        match quoted(id, known) {
            Some(quoted) => self.problem(&format!("no {what} {quoted}; {hint}")),
            None => self.withheld(&format!("no such {what}; {hint}")),
        }
    }

    /// Notes that a field is not there: an error, unless it is there and could not be read.
    pub(crate) fn missing(&self, what: &str) {
        if !self.report.borrow().has_problem_at(self.file, &self.path) {
            self.problem(what);
        }
    }

    /// Returns whether an error inside this place says so.
    pub(crate) fn tells(&self, what: &str) -> bool {
        self.report.borrow().tells(self.file, &self.path, what)
    }

    /// Notes what is allowed but should not stay so.
    pub(crate) fn warn(&self, what: &str) {
        self.report.borrow_mut().warn(self.file, &self.path, what);
    }

    /// Notes a warning of a secret that is written out.
    pub(crate) fn warn_of_secret(&self, what: &str) {
        self.report.borrow_mut().literal_secrets.insert(self.file);
        self.warn(what);
    }

    /// Returns where the same path stands in another file: `catalog.yaml:14`.
    pub(crate) fn place_in(&self, file: usize) -> String {
        self.report.borrow().place(file, &self.path)
    }

    /// Finds what a reference names, or says why not.
    pub(crate) fn look_up(&self, reference: Reference<'_>) -> Result<String, String> {
        (self.report.borrow_mut().look_up)(reference)
    }
}

/// Returns a hint: the nearest name, or those that there are.
pub(crate) fn meant<'n>(what: &str, wrong: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(near) => format!("did you mean \"{}\"?", unless_secret(near)),
        None => listed(what, names),
    }
}

/// Returns what is allowed where nothing is near.
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
