//! Items of answers, which later requests may refer to: in the memory of this process, and in the
//! store that gateways share, where they are sealed.

use super::backends::Backends;
use crate::conf::config::ItemCacheMode;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

impl Backends {
    /// Keeps an item for a key.
    pub fn keep_item(&self, key: &Arc<str>, id: &str, item: &[u8]) {
        if self.items.mode() == ItemCacheMode::Off {
            return;
        }
        self.items.put(key, id, item, Instant::now());
        if let (ItemCacheMode::Store, Some(store)) = (self.items.mode(), &self.store)
            && let Some(sealed) = self.seals.close(&owner(key, id), item)
        {
            store.keep_item(key, id, sealed);
        }
    }

    /// Returns the items of these ids, as far as they are there, or arrive in time.
    pub async fn find_items(&self, key: &Arc<str>, ids: &[&str]) -> Vec<Option<Bytes>> {
        let now = Instant::now();
        let mut found: Vec<Option<Bytes>> = ids.iter().map(|id| self.items.find(key, id, now)).collect();
        let (ItemCacheMode::Store, Some(store)) = (self.items.mode(), &self.store) else { return found };
        let missing = ids.iter().zip(&found).filter(|(_, item)| item.is_none()).map(|(id, _)| *id);
        let missing: Vec<&str> = missing.collect();
        let mut fetched = store.find_items(key, &missing).await.into_iter().zip(missing);
        for place in found.iter_mut().filter(|place| place.is_none()) {
            let Some((sealed, id)) = fetched.next() else { break };
            let item = sealed.and_then(|sealed| self.seals.reopen(&owner(key, id), &sealed));
            if let Some(item) = &item {
                self.items.put(key, id, item, now);
            }
            *place = item.map(Bytes::from);
        }
        found
    }
}

/// Returns for whom, and as what, an item is sealed: another key's, and one under another id, do
/// not open.
fn owner(key: &str, id: &str) -> String {
    format!("item {} {key} {id}", key.len())
}
