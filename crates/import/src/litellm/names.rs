//! Names for the catalog, made of names of LiteLLM, which may hold anything.

use std::collections::HashMap;

use portcullis::base::problem::unless_secret;
use portcullis::catalog::name;

/// Makes a name of an account, a caller or a key, of at most this many characters. Returns `None`
/// if nothing is left of it, or if it may be a secret.
pub(super) fn entry_name(text: &str, limit: usize) -> Option<String> {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-@+".contains(c) {
            c
        } else {
            '-'
        }
    };
    let mut made = String::new();
    for c in text.trim().chars().map(plain) {
        // One dash is enough for a run of other characters.
        if c != '-' || !made.ends_with('-') {
            made.push(c);
        }
    }
    let made = made.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let made: String = made.chars().take(limit).collect();
    let made = made.trim_end_matches(['-', '.']);
    (name::of_entry(made).is_ok() && unless_secret(made) == made && unless_secret(text) == text)
        .then(|| made.to_owned())
}

/// Returns whether a pattern may serve a model of this name.
pub(super) fn pattern_serves(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((begin, end)) => {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        }
        None => pattern == name,
    }
}

/// The names that are given so far, each with the number that was tried last.
#[derive(Default)]
pub(super) struct Taken(HashMap<String, usize>);

impl Taken {
    /// Gives a name: the one that is wished for, or that with a number after it.
    pub(super) fn give(&mut self, wish: &str) -> String {
        let mut name = wish.to_owned();
        // Each number is tried once for a name, however often the name is wished for.
        while self.0.contains_key(&name) {
            let number = self.0.entry(wish.to_owned()).or_insert(1);
            *number += 1;
            let end = format!("-{number}");
            name = wish
                .chars()
                .take(64_usize.saturating_sub(end.len()))
                .collect::<String>()
                + &end;
        }
        self.0.insert(name.clone(), 1);
        name
    }
}
