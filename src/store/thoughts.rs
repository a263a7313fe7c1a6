//! Signed thoughts in the store: every gateway can put them back, whichever gateway received them.
//!
//! The store keeps a thought as long as the [`vault`](crate::vault) does, under a hash of the key,
//! the family and the call: so the id of another caller's call finds nothing.

use super::Store;
use super::texts::{AT_ONCE, Lookup, StoredText, hash};
use crate::seal;
use dialects::Family;
use dialects::neutral::Thought;
use serde_json::json;

/// The time for which a thought is kept, in seconds. The vault has the same.
const KEPT_FOR: u64 = 6 * 3600;

impl Store {
    /// Stores the thoughts that led to a call. Returns at once.
    pub fn keep(&self, key: &str, family: Family, call: &str, thoughts: &[Thought<'_>]) {
        self.keep_text(StoredText {
            name: name(key, family, call),
            text: written(thoughts),
            kept_for: KEPT_FOR,
        });
    }

    /// Returns the thoughts that led to these calls, as far as they arrive in time. Each comes with
    /// the place of its call.
    pub async fn find(
        &self,
        key: &str,
        calls: &[(Family, &str)],
    ) -> Vec<(usize, Vec<Thought<'static>>)> {
        let names: Vec<String> = calls
            .iter()
            .take(AT_ONCE)
            .map(|(family, call)| name(key, *family, call))
            .collect();
        let found = self.find_texts(names).await.into_iter().enumerate();
        found
            .filter_map(|(place, text)| Some((place, read(&text)?)))
            .collect()
    }
}

fn name(key: &str, family: Family, call: &str) -> String {
    format!("thoughts:{}", hash(&[key, family.name(), call]))
}

fn written(thoughts: &[Thought<'_>]) -> String {
    json!(thoughts.iter().map(seal::written).collect::<Vec<_>>()).to_string()
}

fn read(text: &Lookup<Vec<u8>>) -> Option<Vec<Thought<'static>>> {
    let Lookup::There(bytes) = text else {
        return None;
    };
    let all: Vec<seal::WrittenThought> = serde_json::from_slice(bytes).ok()?;
    Some(all.into_iter().map(seal::read).collect())
}
