//! A finding is the result for one path of the source. This module collects findings.

use std::cell::{Ref, RefCell};
use std::collections::HashSet;
use std::ops::Range;

use dialects::named_enum;
use portcullis::base::problem::{quote_safely, unless_secret};

/// The text for a field whose entry is left out for another reason.
pub(super) const LEFT_OUT: &str = "is left out with its entry";

named_enum! {
    /// The grade of what was carried.
    pub enum Grade {
        /// It means the same.
        Exact = "exact",
        /// It means nearly the same; the finding has the difference.
        Approximate = "approximate",
        /// It has no counterpart.
        Unsupported = "unsupported",
        /// Somebody has to do something; the finding has what.
        Manual = "manual",
    }
}

/// The result for one path of the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The file's name.
    pub file: String,
    /// The line in it, where it is known.
    pub line: Option<usize>,
    /// The path: `model_list[0].litellm_params.rpm`.
    pub path: String,
    /// The grade of what was carried.
    pub grade: Grade,
    /// The result, with the difference or the advice. May be empty if it is exact.
    pub message: String,
    /// The entry that it became part of: `models.gpt-4o`; empty if none.
    pub became: String,
    /// The environment variable that is not set, if its entry is left out for that.
    pub unset: Option<String>,
    /// The environment variable that is to set first, if this follows from such an entry.
    pub after: Option<String>,
}

impl Finding {
    /// Returns the place in the source: `config.yaml:5 model_list[0]`.
    pub fn format_place(&self) -> String {
        format_place(&self.file, self.line, &self.path)
    }
}

/// The findings so far.
#[derive(Default)]
pub(super) struct Findings {
    list: RefCell<Vec<Finding>>,
    entry: RefCell<String>,
}

impl Findings {
    /// Sets the entry that the paths from now on become part of; empty for none.
    pub(super) fn set_entry(&self, entry: impl Into<String>) {
        *self.entry.borrow_mut() = entry.into();
    }

    pub(super) fn entry(&self) -> String {
        self.entry.borrow().clone()
    }

    pub(super) fn add(&self, finding: Finding) {
        self.list.borrow_mut().push(finding);
    }

    pub(super) fn len(&self) -> usize {
        self.list.borrow().len()
    }

    /// Takes away all findings after the first `len`.
    pub(super) fn truncate(&self, len: usize) {
        self.list.borrow_mut().truncate(len);
    }

    /// Sets the entry that the paths of some findings became part of.
    pub(super) fn move_to(&self, entry: &str, range: Range<usize>) {
        let mut list = self.list.borrow_mut();
        for finding in list.get_mut(range).unwrap_or_default() {
            entry.clone_into(&mut finding.became);
        }
    }

    pub(super) fn list(&self) -> Ref<'_, Vec<Finding>> {
        self.list.borrow()
    }

    /// Returns each finding once, in the order of the files and their lines. Where no lines are
    /// known, they keep their order.
    pub(super) fn sorted(&self) -> Vec<Finding> {
        let mut known = HashSet::new();
        let mut list = self.list.borrow().clone();
        list.retain(|finding| known.insert(finding.clone()));
        list.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        list
    }
}

/// Writes a place in the source.
pub(super) fn format_place(file: &str, line: Option<usize>, path: &str) -> String {
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    let blank = if path.is_empty() { "" } else { " " };
    format!("{file}{line}{blank}{path}")
}

/// Adds a key to a path. A key that may be a secret is left out.
pub(super) fn join_path(path: &str, key: &str) -> String {
    let is_plain = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-/:@+*".contains(&b));
    let key = if is_plain {
        unless_secret(key).to_owned()
    } else {
        quote_safely(key)
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}
