//! Items of answers, which later requests may refer to: in the memory of this process, and in the
//! store that gateways share, where they are sealed.

use super::backends::Backends;
use crate::base::clock::Clock;
use crate::conf::config::ItemCacheMode;
use crate::store::Lookup;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Instant;

impl Backends {
    /// Keeps an item for a key.
    pub fn keep_item(&self, key: &Arc<str>, id: &str, item: &[u8]) {
        if self.items.mode() == ItemCacheMode::Off {
            return;
        }
        self.items.put(key, id, item, Clock::now());
        if let (ItemCacheMode::Store, Some(store)) = (self.items.mode(), &self.store)
            && let Some(sealed) = self.seals.seal_text(&sealed_owner(key, id), item)
        {
            store.keep_item(key, id, sealed);
        }
    }

    /// Looks up the items of these ids. What the store returns stays in memory, so that another try
    /// after a late answer asks for the rest only.
    pub async fn find_items(&self, key: &Arc<str>, ids: &[&str]) -> Vec<Lookup<Bytes>> {
        let now = Clock::now();
        let kept = ids.iter().map(|id| {
            self.items
                .find(key, id, now)
                .map_or(Lookup::Absent, Lookup::There)
        });
        let mut found: Vec<Lookup<Bytes>> = kept.collect();
        let (ItemCacheMode::Store, Some(store)) = (self.items.mode(), &self.store) else {
            return found;
        };
        let (missing, places): (Vec<&str>, Vec<&mut Lookup<Bytes>>) = ids
            .iter()
            .copied()
            .zip(&mut found)
            .filter(|(_, item)| **item == Lookup::Absent)
            .unzip();
        let fetched = store.find_items(key, &missing).await;
        for ((slot, id), sealed) in places.into_iter().zip(missing).zip(fetched) {
            *slot = self.opened_item(key, id, sealed, now);
        }
        found
    }

    /// Opens an item of the store, and keeps it in memory. One that does not open is not there.
    fn opened_item(
        &self,
        key: &Arc<str>,
        id: &str,
        sealed: Lookup<Vec<u8>>,
        now: Instant,
    ) -> Lookup<Bytes> {
        let sealed = match sealed {
            Lookup::There(sealed) => sealed,
            Lookup::Absent => return Lookup::Absent,
            Lookup::Unasked => return Lookup::Unasked,
        };
        let Some(item) = self.seals.open_text(&sealed_owner(key, id), &sealed) else {
            return Lookup::Absent;
        };
        self.items.put(key, id, &item, now);
        Lookup::There(Bytes::from(item))
    }
}

/// Returns for whom, and as what, an item is sealed: another key's, and one under another id, do
/// not open.
fn sealed_owner(key: &str, id: &str) -> String {
    format!("item {} {key} {id}", key.len())
}
