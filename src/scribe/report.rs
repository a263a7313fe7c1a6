//! A report gathers all that is wrong with the files of a configuration, each with its file, line
//! and path.
//!
//! An error about one thing is told once: what could not be read is not also reported as missing.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use crate::problem::{Problem, Problems, in_column};
use crate::secret_ref::LookUp;
use crate::yaml::read::{Kind, MOST_FAULTS, read};
use crate::yaml::{self, Fault, Node, Path, Shows};

/// What is found in all files, with the trees to tell where it stands.
pub(crate) struct Report<'t> {
    files: &'t [(String, String)],
    pub(super) shows: Shows,
    pub(super) look_up: &'t mut LookUp<'t>,
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
    pub(crate) literal_secrets: BTreeSet<usize>,
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
            problems: Vec::new(),
            warnings: Vec::new(),
            more: 0,
            more_warnings: 0,
            cut: false,
            hopeless: false,
            literal_secrets: BTreeSet::new(),
        };
        for (file, (_, text)) in files.iter().enumerate() {
            let tree = match yaml::parse_as(text, shows) {
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

    /// Returns how many files there are.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads what a file says. Without one of these parts of it nothing else can be said.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, file: usize, kind: Kind, parts: &[&str]) -> Option<T> {
        let mut faults = Vec::new();
        let document = self.tree(file).and_then(|tree| read(tree, kind, &mut faults));
        self.hopeless |= faults.iter().any(|fault| fault.path.is_empty() || parts.contains(&&*fault.path));
        self.cut |= faults.len() >= MOST_FAULTS;
        self.take(file, faults);
        document
    }

    fn tree(&self, file: usize) -> Option<&Node<'t>> {
        self.trees.get(file).and_then(Option::as_ref)
    }

    pub(super) fn is_written(&self, file: usize, at: &Path<'_>) -> bool {
        self.tree(file).is_none_or(|tree| tree.line_of(at).is_some())
    }

    pub(super) fn has_problem_at(&self, file: usize, at: &Path<'_>) -> bool {
        let path = at.to_string();
        self.problems.iter().any(|(in_file, problem)| *in_file == file && problem.path.starts_with(&path))
    }

    /// Returns whether there is any error.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Returns whether whatever else could be said would be a consequence.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.hopeless || self.cut
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

    pub(super) fn problem(&mut self, file: usize, at: &Path<'_>, what: &str) {
        if self.problems.len() < MOST_FAULTS {
            let problem = self.locate(file, at, what);
            self.problems.push((file, problem));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn in_column(&self, file: usize, at: &Path<'_>, what: &str) -> String {
        let found = self.tree(file).and_then(|tree| tree.find(at));
        found.map_or_else(|| what.to_owned(), |found| in_column(what, found.node.column))
    }

    /// Returns whether an error inside this place says so.
    pub(super) fn tells(&self, file: usize, at: &Path<'_>, what: &str) -> bool {
        let inside = format!("{at}.");
        self.problems.iter().any(|(in_file, problem)| {
            *in_file == file && problem.path.starts_with(&inside) && problem.what.contains(what)
        })
    }

    pub(super) fn warn(&mut self, file: usize, at: &Path<'_>, what: &str) {
        if self.warnings.len() < MOST_FAULTS {
            let warning = self.locate(file, at, what);
            self.warnings.push((file, warning));
        } else {
            self.more_warnings += 1;
        }
    }

    fn locate(&self, file: usize, at: &Path<'_>, what: &str) -> Problem {
        let found = self.tree(file).and_then(|tree| tree.find(at));
        let what = match found {
            Some(found) if at.hides() => in_column(what, found.column),
            Some(_) | None => what.to_owned(),
        };
        Problem { file: self.name(file), line: found.map(|found| found.line), path: at.to_string(), what }
    }

    /// Returns `catalog.yaml:14`. The line is searched for, so this is for errors only, and only
    /// for those that are told.
    pub(super) fn place(&self, file: usize, at: &Path<'_>) -> String {
        if self.problems.len() >= MOST_FAULTS {
            return self.name(file);
        }
        match self.tree(file).and_then(|tree| tree.line_of(at)) {
            Some(line) => format!("{}:{line}", self.name(file)),
            None => self.name(file),
        }
    }

    fn name(&self, file: usize) -> String {
        self.files.get(file).map(|(name, _)| name.clone()).unwrap_or_default()
    }

    /// Returns all errors, and all warnings.
    pub(crate) fn problems(mut self) -> Problems {
        let more = match self.more {
            _ if self.cut => Some("and more errors: the reading stopped here".to_owned()),
            0 => None,
            more => Some(format!("and {more} more errors")),
        };
        let problems = in_order(std::mem::take(&mut self.problems), more);
        Problems(problems, self.warnings())
    }

    /// Returns all warnings.
    pub(crate) fn warnings(self) -> Vec<Problem> {
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
