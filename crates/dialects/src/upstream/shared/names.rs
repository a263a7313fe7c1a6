//! This module makes ids of calls and names of tools valid for the API: `[a-zA-Z0-9_-]`, 64
//! characters at most.
//!
//! A valid name stays as it is. Another name is changed alike wherever it stands, and never into a
//! name that is already there.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::neutral::{Request, Undo};
use crate::upstream::shared::unique::{MAX, Unique};

/// Returns a valid form of this name if it is free, else a similar one.
pub(crate) fn give_name<'a>(unique: &mut Unique<'a>, wanted: &'a str) -> Cow<'a, str> {
    unique.take(valid_name(wanted))
}

/// The names of a conversation's tools at the upstream.
#[derive(Debug, Default)]
pub(crate) struct Names<'r> {
    unique: Unique<'r>,
    /// The tools whose name is different at the upstream.
    changed: BTreeMap<&'r str, String>,
}

impl<'r> Names<'r> {
    /// Gives names to the tools, and to tools that were called but are no longer there.
    pub(crate) fn assign(request: &'r Request<'_>) -> Self {
        let mut names = Self::default();
        if tool_names(request).all(is_valid_name) {
            return names;
        }
        for name in tool_names(request).filter(|name| is_valid_name(name)) {
            names.unique.reserve(name);
        }
        for name in tool_names(request).filter(|name| !is_valid_name(name)) {
            if !names.changed.contains_key(name) {
                let given = give_name(&mut names.unique, name).into_owned();
                names.changed.insert(name, given);
            }
        }
        names
    }

    /// Returns the name of this tool at the upstream.
    pub(crate) fn written<'n>(&'n self, name: &'n str) -> &'n str {
        self.changed.get(name).map_or(name, String::as_str)
    }

    /// Returns a free name for a tool of the gateway's.
    pub(crate) fn another(&self, request: &Request<'_>, wanted: &str) -> String {
        let mut unique = Unique::default();
        tool_names(request).for_each(|name| unique.reserve(self.written(name)));
        unique.take(Cow::Borrowed(wanted)).into_owned()
    }

    /// Returns the names that an answer must have back.
    pub(crate) fn into_undo(self) -> Undo {
        Undo {
            names: self.into_changed(),
            ..Undo::default()
        }
    }

    /// Returns the names that differ: (the upstream's, the caller's).
    pub(crate) fn into_changed(self) -> Vec<(String, String)> {
        self.changed
            .into_iter()
            .map(|(callers, theirs)| (theirs, callers.to_owned()))
            .collect()
    }
}

/// Returns the names of the tools, and of the functions that were called before.
fn tool_names<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r str> {
    let tools = request.tools.iter().map(|tool| &*tool.name);
    tools.chain(called_names(request))
}

/// Returns the names of the functions that were called before.
pub(crate) fn called_names<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r str> {
    request
        .messages
        .iter()
        .flat_map(|message| &message.calls)
        .map(|call| &*call.name)
}

fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX && name.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn valid_name(name: &str) -> Cow<'_, str> {
    if is_valid_name(name) {
        return Cow::Borrowed(name);
    }
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let letters = name.chars().map(|c| if is_kept(c) { c } else { '_' });
    let name: String = letters.take(MAX).collect();
    Cow::Owned(if name.is_empty() {
        "_".to_owned()
    } else {
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_and_remainders_are_given_once() {
        let long = "x".repeat(65);
        let wanted = [
            "a", "a.b", "a_b", "a", "a", "a_2", "", "_", "é", &long, &long, "a_b",
        ];
        let mut unique = Unique::default();
        let given: Vec<String> = wanted
            .iter()
            .map(|name| give_name(&mut unique, name).into_owned())
            .collect();
        let x = |count| "x".repeat(count);
        let expected = [
            "a",
            "a_b",
            "a_b_2",
            "a_2",
            "a_3",
            "a_2_2",
            "_",
            "__2",
            "__3",
            &x(64),
            &format!("{}_2", x(62)),
            "a_b_3",
        ];
        assert_eq!(given, expected);
    }
}
