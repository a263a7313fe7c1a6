//! The ids of calls: the upstream's, and ours where it has none or says one twice.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::AnswerHeader;

/// Official clients refuse more calls of one choice.
pub(crate) const MAX_CALLS: usize = 128;

/// The ids of one answer's calls. A result names its call by nothing else, so no two calls share
/// one.
#[derive(Debug)]
pub(crate) struct Ids {
    seed: Box<str>,
    /// Hashes of those that were given: two ids with the same hash cost the second its name, and no
    /// more.
    given: BTreeSet<u64>,
}

impl Ids {
    /// Built on the answer's own id, so that calls of two answers in one conversation differ.
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        // OpenAI refuses ids of more than 40 characters when they come back in a conversation.
        let id: Vec<char> = header.id.chars().filter(char::is_ascii_alphanumeric).collect();
        Self { seed: id.iter().skip(id.len().saturating_sub(24)).collect(), given: BTreeSet::new() }
    }

    /// The id that the caller sees.
    pub(crate) fn unique<'i>(&mut self, id: &'i str, choice: usize, number: usize) -> Cow<'i, str> {
        if !id.is_empty() && self.is_new(id) {
            return Cow::Borrowed(id);
        }
        let mut number = number;
        loop {
            let made = format!("call_{}_{choice}_{number}", self.seed);
            if self.is_new(&made) {
                return Cow::Owned(made);
            }
            number += MAX_CALLS;
        }
    }

    fn is_new(&mut self, id: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        self.given.insert(hasher.finish())
    }
}
