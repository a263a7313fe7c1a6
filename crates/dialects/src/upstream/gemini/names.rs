//! This module makes function names valid for Google.
//!
//! The rule is the narrower one of Google's documentation: first a letter or `_`, then letters,
//! digits, `_`, `.` and `-`, 64 characters in all. A name with other characters gets another name,
//! and the answer has the caller's name again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::neutral::Request;
use crate::upstream::shared::unique::{MAX, Unique};

/// The names of a request's tools.
#[derive(Debug, Default)]
pub(super) struct FunctionNames<'r> {
    /// Google's name for each caller's name that is not valid.
    renamed: BTreeMap<&'r str, String>,
    /// The names of all tools. It is `None` if every name is valid.
    unique: Option<Unique<'r>>,
}

impl<'r> FunctionNames<'r> {
    pub(super) fn from_request(request: &'r Request<'_>) -> Self {
        let mut names = Self::default();
        for tool in request
            .tools
            .iter()
            .filter(|tool| !is_valid_name(&tool.name) && !tool.name.is_empty())
        {
            if !names.renamed.contains_key(&*tool.name) {
                let new = names.free(request, valid_name(&tool.name));
                names.renamed.insert(&tool.name, new);
            }
        }
        names
    }

    /// Returns Google's name for a function. The name of a function that is in no tool, but only in
    /// the conversation, is made valid too.
    pub(super) fn theirs<'n>(&'n self, name: &'n str) -> Cow<'n, str> {
        match self.renamed.get(name) {
            Some(new) => Cow::Borrowed(new),
            None if is_valid_name(name) => Cow::Borrowed(name),
            None => Cow::Owned(valid_name(name)),
        }
    }

    /// Returns this name, or a similar one that no tool has. The name is taken from then on.
    pub(super) fn free(&mut self, request: &'r Request<'_>, wanted: String) -> String {
        let unique = self.unique.get_or_insert_with(|| {
            let mut unique = Unique::default();
            request
                .tools
                .iter()
                .for_each(|tool| unique.reserve(&tool.name));
            unique
        });
        unique.take(Cow::Owned(wanted)).into_owned()
    }

    /// Returns the changes that reading the answer must undo: (Google's name, the caller's name),
    /// sorted.
    pub(super) fn undo(self) -> Vec<(String, String)> {
        let mut undo: Vec<_> = self
            .renamed
            .into_iter()
            .map(|(old, new)| (new, old.to_owned()))
            .collect();
        undo.sort_unstable();
        undo
    }
}

fn is_valid_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= MAX && name.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// Returns the name with `_` for every character that is not valid.
pub(super) fn valid_name(name: &str) -> String {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let plain = name.chars().map(|c| {
        u8::try_from(c)
            .ok()
            .filter(|byte| is_name_byte(*byte))
            .map_or('_', char::from)
    });
    let first = if starts { None } else { Some('_') };
    first.into_iter().chain(plain).take(MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutral::{Tool, ToolKind};

    #[track_caller]
    fn check(tools: &[&str], renamed: &[(&str, &str)]) {
        let tool = |name: &&str| Tool {
            name: Cow::Owned((*name).to_owned()),
            description: None,
            kind: ToolKind::Function(None, None),
            cache: None,
        };
        let request = Request {
            tools: tools.iter().map(tool).collect(),
            ..Request::default()
        };
        let found = FunctionNames::from_request(&request).undo();
        let found: Vec<_> = found
            .iter()
            .map(|(new, old)| (new.as_str(), old.as_str()))
            .collect();
        assert_eq!(found, renamed);
    }

    #[test]
    fn what_fits_stays() {
        check(&[], &[]);
        check(&["f", "_f", "a.b-c_d9", &"x".repeat(64)], &[]);
    }

    #[test]
    fn misfits_get_new_names_that_are_free() {
        check(&["a b"], &[("a_b", "a b")]);
        check(
            &["9to5", "-x", "wetter/münchen", "ns:f"],
            &[
                ("_-x", "-x"),
                ("_9to5", "9to5"),
                ("ns_f", "ns:f"),
                ("wetter_m_nchen", "wetter/münchen"),
            ],
        );
        check(
            &["a b", "a_b", "a/b", "a/b"],
            &[("a_b_2", "a b"), ("a_b_3", "a/b")],
        );
        let long = "x".repeat(65);
        check(
            &[&long, &"x".repeat(64)],
            &[(&format!("{}_2", "x".repeat(62)), &long)],
        );
        check(&[""], &[]);
    }
}
