//! A report gathers everything that is wrong with the files of a configuration, each error with its
//! file, line and path.
//!
//! Each error is reported once: a field that could not be read is not also reported as missing.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use crate::base::problem::{Problem, Problems, in_column};
use crate::conf::secret_ref::LookUp;
use crate::conf::yaml::read::{FileKind, MOST_FAULTS, read_value};
use crate::conf::yaml::{self, Node, Path};

/// The size from which a file is large: its tree is not kept, because it takes much memory and only
/// gives the places of errors.
const LARGE: usize = 1 << 20;

/// The errors and warnings of all files, and the trees that give the places.
pub(crate) struct Report<'t> {
    files: &'t [(String, String)],
    pub(super) kind: FileKind,
    pub(super) look_up: RefCell<&'t mut LookUp<'t>>,
    /// The trees of the files that were read. That of a large file is made again once a place in it
    /// is asked for.
    trees: Vec<OnceCell<Option<Node<'t>>>>,
    pub(super) problems: RefCell<Notes>,
    pub(super) warnings: RefCell<Notes>,
    /// True if the reading stopped before the end.
    is_cut: bool,
    /// True if there is no tree, or no section. All further errors would only follow from that.
    hopeless: bool,
    /// The files in which a secret is written out.
    pub(crate) literal_secrets: RefCell<BTreeSet<usize>>,
}

/// Problems of one severity. Each has the number of its file, by which they are sorted.
#[derive(Default)]
pub(super) struct Notes {
    list: Vec<(usize, Problem)>,
    /// The number of further problems, for which there was no room.
    further_problems: usize,
}

impl<'t> Report<'t> {
    /// Makes the report of files of this kind, each a name to show and its text.
    pub(crate) fn new(
        files: &'t [(String, String)],
        kind: FileKind,
        look_up: &'t mut LookUp<'t>,
    ) -> Self {
        Self {
            files,
            kind,
            look_up: RefCell::new(look_up),
            trees: files.iter().map(|_| OnceCell::new()).collect(),
            problems: RefCell::default(),
            warnings: RefCell::default(),
            is_cut: false,
            hopeless: false,
            literal_secrets: RefCell::default(),
        }
    }

    /// Reads the values of a file. If one of these parts of it is wrong, nothing else can be said
    /// about the file.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, file: usize, parts: &[&str]) -> Option<T> {
        let (_, text) = self.files.get(file)?;
        let (tree, faults) = match yaml::parse_as(text, self.kind.shows) {
            Ok((tree, faults)) => (Some(tree), faults),
            Err(fault) => (None, vec![fault]),
        };
        self.hopeless |= tree.is_none();
        self.take(file, faults);
        let mut faults = Vec::new();
        let document = tree
            .as_ref()
            .and_then(|tree| read_value(tree, self.kind, &mut faults));
        self.hopeless |= faults
            .iter()
            .any(|fault| fault.path.is_empty() || parts.contains(&&*fault.path));
        self.is_cut |= faults.len() >= MOST_FAULTS;
        self.take(file, faults);
        if let Some(tree_cell) = self.trees.get(file).filter(|_| text.len() < LARGE) {
            tree_cell.set(tree).ok();
        }
        document
    }

    fn take(&mut self, file: usize, faults: Vec<Problem>) {
        for fault in faults {
            self.problems.borrow_mut().add(file, || Problem {
                file: self.name(file).to_owned(),
                ..fault
            });
        }
    }

    pub(super) fn tree(&self, file: usize) -> Option<&Node<'t>> {
        let (tree, (_, text)) = (self.trees.get(file)?, self.files.get(file)?);
        tree.get_or_init(|| {
            yaml::parse_as(text, self.kind.shows)
                .ok()
                .map(|(tree, _)| tree)
        })
        .as_ref()
    }

    /// Returns whether there is any error.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.borrow().list.is_empty()
    }

    /// Returns whether all further errors would only follow from those that are known.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.hopeless || self.is_cut
    }

    /// Makes a problem with the line of its place. The line must be searched for. So this is for
    /// errors only, and only for those that are reported.
    pub(super) fn locate(&self, file: usize, path: &Path<'_>, message: &str) -> Problem {
        let found = self.tree(file).and_then(|tree| tree.find(path));
        let message = match found {
            Some(found) if path.hides() => in_column(message, found.column),
            Some(_) | None => message.to_owned(),
        };
        Problem {
            file: self.name(file).to_owned(),
            line: found.map(|found| found.line),
            path: path.to_string(),
            message,
        }
    }

    pub(super) fn name(&self, file: usize) -> &str {
        self.files
            .get(file)
            .map(|(name, _)| name.as_str())
            .unwrap_or_default()
    }

    /// Returns all errors, and all warnings.
    pub(crate) fn problems(self) -> Problems {
        let problems = self.problems.take();
        let more = match problems.further_problems {
            _ if self.is_cut => {
                Some("there are more errors: Portcullis stopped reading here".to_owned())
            }
            0 => None,
            more => Some(format!("and {more} more errors")),
        };
        Problems(problems.in_order(more), self.warnings())
    }

    /// Returns all warnings.
    pub(crate) fn warnings(self) -> Vec<Problem> {
        let warnings = self.warnings.into_inner();
        let more = (warnings.further_problems > 0)
            .then(|| format!("and {} more warnings", warnings.further_problems));
        warnings.in_order(more)
    }
}

impl Notes {
    pub(super) fn has_room(&self) -> bool {
        self.list.len() < MOST_FAULTS
    }

    pub(super) fn add(&mut self, file: usize, problem: impl FnOnce() -> Problem) {
        if self.has_room() {
            self.list.push((file, problem()));
        } else {
            self.further_problems += 1;
        }
    }

    /// Returns whether `is_such` holds for any problem of this file.
    pub(super) fn any(&self, file: usize, is_such: impl Fn(&Problem) -> bool) -> bool {
        self.list
            .iter()
            .any(|(in_file, problem)| *in_file == file && is_such(problem))
    }

    fn in_order(mut self, more: Option<String>) -> Vec<Problem> {
        self.list
            .sort_by_key(|(file, problem)| (*file, problem.line));
        let mut list: Vec<Problem> = self.list.into_iter().map(|(_, problem)| problem).collect();
        if let (Some(message), Some(last)) = (more, list.last()) {
            list.push(Problem::of_file(last.file.clone(), message));
        }
        list
    }
}
