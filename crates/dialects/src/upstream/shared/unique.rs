//! This module gives each name only once. If a name is wanted a second time, it gets a number.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The longest name. Newer versions of Anthropic's API take 128 characters for names of tools. 64
/// is valid for all APIs, and for ids too.
pub(crate) const MAX: usize = 64;

/// Gives names, each only once. They are ASCII.
#[derive(Debug, Default)]
pub(crate) struct Unique<'a> {
    /// The names that were given. Each has the number to try for the next name of its form.
    given: BTreeMap<Cow<'a, str>, u64>,
}

impl<'a> Unique<'a> {
    /// Reserves this name, so that it is not given.
    pub(crate) fn reserve(&mut self, name: &'a str) {
        self.given.entry(Cow::Borrowed(name)).or_insert(2);
    }

    /// Gives this name if it is free, else a similar one.
    pub(crate) fn take(&mut self, wanted: Cow<'a, str>) -> Cow<'a, str> {
        let Some(next) = self.given.get(&wanted) else {
            self.given.insert(wanted.clone(), 2);
            return wanted;
        };
        let mut next = *next;
        loop {
            let name = numbered_name(&wanted, next);
            next += 1;
            if !self.given.contains_key(name.as_str()) {
                self.given.insert(wanted, next);
                self.given.insert(Cow::Owned(name.clone()), 2);
                return Cow::Owned(name);
            }
        }
    }
}

/// Returns the name with a number, shortened to the longest length.
fn numbered_name(name: &str, number: u64) -> String {
    let number = format!("_{number}");
    let start = name.get(..MAX.saturating_sub(number.len())).unwrap_or(name);
    format!("{start}{number}")
}
