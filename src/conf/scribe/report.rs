//! A report gathers all that is wrong with the files of a configuration, each with its file, line
//! and path.
//!
//! An error about one thing is told once: what could not be read is not also reported as missing.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use crate::base::problem::{Problem, Problems, in_column};
use crate::conf::secret_ref::LookUp;
use crate::conf::yaml::read::{FileKind, MOST_FAULTS, read};
use crate::conf::yaml::{self, Node, Path, Shows};

/// What is found in all files, with the trees to tell where it stands.
pub(crate) struct Report<'t> {
    files: &'t [(String, String)],
    pub(super) shows: Shows,
    pub(super) look_up: &'t mut LookUp<'t>,
    trees: Vec<Option<Node<'t>>>,
    problems: Found,
    warnings: Found,
    /// The reading stopped before the end.
    cut: bool,
    /// No tree, or no section: whatever else could be said would be a consequence.
    hopeless: bool,
    /// The files in which a secret is written out.
    pub(crate) literal_secrets: BTreeSet<usize>,
}

/// Problems of one severity, each with its file's number, to be sorted by.
#[derive(Default)]
struct Found {
    list: Vec<(usize, Problem)>,
    /// How many more there were no room for.
    more: usize,
}

impl<'t> Report<'t> {
    /// Parses the files, each a name to show and its text. Of their keys only those are shown that
    /// `shows` lets through.
    pub(crate) fn new(files: &'t [(String, String)], shows: Shows, look_up: &'t mut LookUp<'t>) -> Self {
        let mut report = Self {
            files,
            shows,
            look_up,
            trees: Vec::new(),
            problems: Found::default(),
            warnings: Found::default(),
            cut: false,
            hopeless: false,
            literal_secrets: BTreeSet::new(),
        };
        for (file, (_, text)) in files.iter().enumerate() {
            let parsed = yaml::parse_as(text, shows);
            report.hopeless |= parsed.is_err();
            let (tree, faults) = match parsed {
                Ok((tree, faults)) => (Some(tree), faults),
                Err(fault) => (None, vec![fault]),
            };
            report.take(file, faults);
            report.trees.push(tree);
        }
        report
    }

    /// Returns how many files there are.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads what a file says. Without one of these parts of it nothing else can be said.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, file: usize, kind: FileKind, parts: &[&str]) -> Option<T> {
        let mut faults = Vec::new();
        let document = self.tree(file).and_then(|tree| read(tree, kind, &mut faults));
        self.hopeless |= faults.iter().any(|fault| fault.path.is_empty() || parts.contains(&&*fault.path));
        self.cut |= faults.len() >= MOST_FAULTS;
        self.take(file, faults);
        document
    }

    fn take(&mut self, file: usize, faults: Vec<Problem>) {
        for fault in faults {
            let fault = Problem { file: self.name(file), ..fault };
            self.problems.add(file, || fault);
        }
    }

    fn tree(&self, file: usize) -> Option<&Node<'t>> {
        self.trees.get(file).and_then(Option::as_ref)
    }

    fn find(&self, file: usize, at: &Path<'_>) -> Option<yaml::Found<'_, 't>> {
        self.tree(file)?.find(at)
    }

    pub(super) fn is_written(&self, file: usize, at: &Path<'_>) -> bool {
        self.tree(file).is_none_or(|tree| tree.find(at).is_some())
    }

    pub(super) fn has_problem_at(&self, file: usize, at: &Path<'_>) -> bool {
        let path = at.to_string();
        self.problems.list.iter().any(|(in_file, problem)| *in_file == file && problem.path.starts_with(&path))
    }

    /// Returns whether there is any error.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.list.is_empty()
    }

    /// Returns whether whatever else could be said would be a consequence.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.hopeless || self.cut
    }

    pub(super) fn problem(&mut self, file: usize, at: &Path<'_>, what: &str) {
        let mut problems = std::mem::take(&mut self.problems);
        problems.add(file, || self.locate(file, at, what));
        self.problems = problems;
    }

    pub(super) fn warn(&mut self, file: usize, at: &Path<'_>, what: &str) {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.add(file, || self.locate(file, at, what));
        self.warnings = warnings;
    }

    pub(super) fn in_column(&self, file: usize, at: &Path<'_>, what: &str) -> String {
        self.find(file, at).map_or_else(|| what.to_owned(), |found| in_column(what, found.node.column))
    }

    /// Returns whether an error inside this place says so.
    pub(super) fn tells(&self, file: usize, at: &Path<'_>, what: &str) -> bool {
        let inside = format!("{at}.");
        self.problems.list.iter().any(|(in_file, problem)| {
            *in_file == file && problem.path.starts_with(&inside) && problem.what.contains(what)
        })
    }

    fn locate(&self, file: usize, at: &Path<'_>, what: &str) -> Problem {
        let found = self.find(file, at);
        let what = match found {
            Some(found) if at.hides() => in_column(what, found.column),
            Some(_) | None => what.to_owned(),
        };
        Problem { file: self.name(file), line: found.map(|found| found.line), path: at.to_string(), what }
    }

    /// Returns `catalog.yaml:14`. The line is searched for, so this is for errors only, and only
    /// for those that are told.
    pub(super) fn place(&self, file: usize, at: &Path<'_>) -> String {
        let found = self.problems.has_room().then(|| self.find(file, at)).flatten();
        found.map_or_else(|| self.name(file), |found| format!("{}:{}", self.name(file), found.line))
    }

    fn name(&self, file: usize) -> String {
        self.files.get(file).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// Returns all errors, and all warnings.
    pub(crate) fn problems(mut self) -> Problems {
        let problems = std::mem::take(&mut self.problems);
        let more = match problems.more {
            _ if self.cut => Some("and more errors: the reading stopped here".to_owned()),
            0 => None,
            more => Some(format!("and {more} more errors")),
        };
        Problems(problems.in_order(more), self.warnings())
    }

    /// Returns all warnings.
    pub(crate) fn warnings(self) -> Vec<Problem> {
        let more = (self.warnings.more > 0).then(|| format!("and {} more warnings", self.warnings.more));
        self.warnings.in_order(more)
    }
}

impl Found {
    fn has_room(&self) -> bool {
        self.list.len() < MOST_FAULTS
    }

    fn add(&mut self, file: usize, problem: impl FnOnce() -> Problem) {
        if self.has_room() {
            self.list.push((file, problem()));
        } else {
            self.more += 1;
        }
    }

    fn in_order(mut self, more: Option<String>) -> Vec<Problem> {
        self.list.sort_by_key(|(file, problem)| (*file, problem.line));
        let mut list: Vec<Problem> = self.list.into_iter().map(|(_, problem)| problem).collect();
        if let (Some(what), Some(last)) = (more, list.last()) {
            list.push(Problem::of_file(last.file.clone(), what));
        }
        list
    }
}
