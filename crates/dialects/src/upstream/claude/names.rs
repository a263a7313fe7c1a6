//! Ids of calls and names of tools as the API takes them: `[a-zA-Z0-9_-]`, 64 at most.
//!
//! What fits stays as it is. The rest is changed, never into one that is there already, and the
//! same way wherever it stands.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::neutral::Request;
use crate::upstream::shared::unique::{MAX, Unique, numbered};

/// Gives this name, made fit, if it is free; else one like it.
pub(crate) fn give<'a>(unique: &mut Unique<'a>, wanted: &'a str) -> Cow<'a, str> {
    unique.take(fitting(wanted))
}

/// What the tools of a conversation are called.
#[derive(Debug, Default)]
pub(crate) struct Names<'r> {
    unique: Unique<'r>,
    /// Those that have another name here.
    changed: BTreeMap<&'r str, String>,
}

impl<'r> Names<'r> {
    /// Gives names to the tools, and to the calls to tools that are there no more.
    pub(crate) fn of(request: &'r Request<'_>) -> Self {
        let mut names = Self::default();
        let all = || request.tools.iter().map(|tool| &*tool.name).chain(called(request));
        if all().all(fits) {
            return names;
        }
        for name in all().filter(|name| fits(name)) {
            names.unique.reserve(name);
        }
        for name in all().filter(|name| !fits(name)) {
            if !names.changed.contains_key(name) {
                let given = give(&mut names.unique, name).into_owned();
                names.changed.insert(name, given);
            }
        }
        names
    }

    /// Returns what this tool is called here.
    pub(crate) fn written<'n>(&'n self, name: &'n str) -> &'n str {
        self.changed.get(name).map_or(name, String::as_str)
    }

    /// Returns a name for a tool of ours.
    pub(crate) fn another(&self, request: &Request<'_>, wanted: &str) -> String {
        let all = request.tools.iter().map(|tool| &*tool.name).chain(called(request));
        let taken: BTreeSet<&str> = all.map(|name| self.written(name)).collect();
        let numbered = (2..).map(|number| numbered(wanted, number));
        let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
        names.find(|name| !taken.contains(name.as_str())).unwrap_or_default()
    }

    /// Returns theirs and the caller's, of those that differ.
    pub(crate) fn into_changed(self) -> Vec<(String, String)> {
        self.changed.into_iter().map(|(callers, theirs)| (theirs, callers.to_owned())).collect()
    }
}

/// Returns the functions that were called before.
pub(crate) fn called<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r str> {
    request.messages.iter().flat_map(|message| &message.calls).map(|call| &*call.name)
}

fn fits(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX && name.bytes().all(is_plain)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn fitting(name: &str) -> Cow<'_, str> {
    if fits(name) {
        return Cow::Borrowed(name);
    }
    let one = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(one).take(MAX).collect();
    Cow::Owned(if name.is_empty() { "_".to_owned() } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_the_rest_is_made_to_each_once() {
        let long = "x".repeat(65);
        let wanted = ["a", "a.b", "a_b", "a", "a", "a_2", "", "_", "é", &long, &long, "a_b"];
        let mut unique = Unique::default();
        let given: Vec<String> = wanted.iter().map(|name| give(&mut unique, name).into_owned()).collect();
        let x = |count| "x".repeat(count);
        let expected =
            ["a", "a_b", "a_b_2", "a_2", "a_3", "a_2_2", "_", "__2", "__3", &x(64), &format!("{}_2", x(62)), "a_b_3"];
        assert_eq!(given, expected);
    }
}
