//! Items of answers in the store: every gateway can resolve a reference to them, whichever gateway
//! made them. They are sealed, and stand under a hash of the key and their id.

use super::Store;
use super::texts::{Lookup, StoredText, hash_words};
use crate::item_cache::KEPT_FOR;

impl Store {
    /// Stores a sealed item. Returns at once.
    pub fn keep_item(&self, key: &str, id: &str, sealed: String) {
        self.keep_text(StoredText {
            name: item_name(key, id),
            text: sealed,
            kept_for: KEPT_FOR,
        });
    }

    /// Looks up the sealed items of these ids.
    pub async fn find_items(&self, key: &str, ids: &[&str]) -> Vec<Lookup<Vec<u8>>> {
        self.find_texts(ids.iter().map(|id| item_name(key, id)).collect())
            .await
    }
}

fn item_name(key: &str, id: &str) -> String {
    format!("items:{}", hash_words(&[key, id]))
}
