//! The id of a call is unique in its answer. It is the upstream's id, or one of ours if the
//! upstream gives none or gives one twice.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::AnswerHeader;

/// The most calls of one choice. Official clients refuse more.
pub(crate) const MAX_CALLS: usize = 128;

/// The ids of one answer's calls. A result names its call only by the id, so no two calls share an
/// id.
#[derive(Debug)]
pub(crate) struct Ids {
    /// The id of the answer itself: ids of ours build on it.
    answer_id: Box<str>,
    /// The hashes of the ids that were given. If two ids have one hash, the second one is
    /// replaced; nothing else happens.
    given: BTreeSet<u64>,
}

impl Ids {
    /// Returns an empty set of ids. Generated ids build on the answer's own id, so that calls of
    /// two answers in one conversation differ.
    pub(crate) fn new(header: &AnswerHeader) -> Self {
        Self {
            answer_id: header.id.as_str().into(),
            given: BTreeSet::new(),
        }
    }

    /// Returns the id that the caller sees.
    pub(crate) fn unique<'i>(&mut self, id: &'i str, choice: usize, number: usize) -> Cow<'i, str> {
        if !id.is_empty() && self.is_new(id) {
            return Cow::Borrowed(id);
        }
        let seed = self.seed();
        let mut number = number;
        loop {
            let made = format!("call_{seed}_{choice}_{number}");
            if self.is_new(&made) {
                return Cow::Owned(made);
            }
            number += MAX_CALLS;
        }
    }

    /// Returns the last 24 letters and digits of the answer's id. OpenAI refuses ids of more than
    /// 40 characters when they come back in a conversation.
    fn seed(&self) -> String {
        let id: Vec<char> = self
            .answer_id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        id.iter().skip(id.len().saturating_sub(24)).collect()
    }

    fn is_new(&mut self, id: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        self.given.insert(hasher.finish())
    }
}
