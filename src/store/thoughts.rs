//! Signed thoughts in the store: every gateway can put them back, whichever gateway received them.
//!
//! The store keeps a thought as long as the [`vault`](crate::vault) does, under a hash of the key,
//! the family and the call: so the id of another caller's call finds nothing.

use super::Store;
use super::texts::{Lookup, MAX_TEXTS, StoredText, hash_words};
use crate::seal;
use dialects::Family;
use dialects::neutral::Thought;
use serde_json::json;

/// The time for which a thought is kept, in seconds. The vault has the same.
const KEPT_FOR: u64 = 6 * 3600;

impl Store {
    /// Stores the thoughts that led to a call. Returns at once.
    pub fn keep_thoughts(&self, key: &str, family: Family, call: &str, thoughts: &[Thought<'_>]) {
        self.keep_text(StoredText {
            name: thought_name(key, family, call),
            text: thoughts_json(thoughts),
            kept_for: KEPT_FOR,
        });
    }

    /// Returns the thoughts that led to these calls, as far as they arrive in time. Each comes with
    /// the place of its call.
    pub async fn find_thoughts(
        &self,
        key: &str,
        calls: &[(Family, &str)],
    ) -> Vec<(usize, Vec<Thought<'static>>)> {
        let names: Vec<String> = calls
            .iter()
            .take(MAX_TEXTS)
            .map(|(family, call)| thought_name(key, *family, call))
            .collect();
        let found = self.find_texts(names).await.into_iter().enumerate();
        found
            .filter_map(|(index, text)| Some((index, read_thoughts(&text)?)))
            .collect()
    }
}

fn thought_name(key: &str, family: Family, call: &str) -> String {
    format!("thoughts:{}", hash_words(&[key, family.name(), call]))
}

fn thoughts_json(thoughts: &[Thought<'_>]) -> String {
    json!(
        thoughts
            .iter()
            .map(seal::flatten_thought)
            .collect::<Vec<_>>()
    )
    .to_string()
}

fn read_thoughts(text: &Lookup<Vec<u8>>) -> Option<Vec<Thought<'static>>> {
    let Lookup::There(bytes) = text else {
        return None;
    };
    let all: Vec<seal::WrittenThought> = serde_json::from_slice(bytes).ok()?;
    Some(all.into_iter().map(seal::restore_thought).collect())
}
