//! The [`ItemCache`] keeps the items of answers at Responses, so that a later request may refer to
//! them by their ids, as programs do that think that the server stores them.
//!
//! It keeps an item for the key that got it, and only if the request did not say `store: false`.
//! A reference is resolved before anything else is done with a request. One that cannot be resolved
//! is refused, with a reason: an answer without a part of its conversation would be wrong.

use dialects::wire::shorten_text;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::base::calendar;
use crate::base::shelves::{OVERHEAD, ShelfBounds, Shelves, SizedValue};
use crate::conf::config::ItemCacheMode;

/// The time for which an item is kept, in seconds.
pub const KEPT_FOR: u64 = 24 * 3600;
/// How long and how much is kept.
const BOUNDS: ShelfBounds = ShelfBounds {
    kept_for: Duration::from_secs(KEPT_FOR),
    max_bytes: 64 << 20,
    max_bytes_per_key: 8 << 20,
};
/// The advice to a caller whose item is not there.
const REMEDY: &str = "Send the item itself: programs do so if they set `store` to false; Vercel's AI SDK with \
                      `providerOptions: { openai: { store: false } }`.";

/// The items of all keys, by their ids.
pub struct ItemCache {
    mode: ItemCacheMode,
    shelves: Shelves<Arc<str>, Bytes>,
    /// When the process began, in milliseconds of Unix time.
    began: u64,
}

impl ItemCache {
    /// Returns an empty cache.
    pub fn new(mode: ItemCacheMode) -> ItemCache {
        ItemCache {
            mode,
            shelves: Shelves::new(BOUNDS),
            began: calendar::now_millis(),
        }
    }

    /// Returns where items are kept.
    pub fn mode(&self) -> ItemCacheMode {
        self.mode
    }

    /// Keeps an item.
    pub fn put(&self, key: &Arc<str>, id: &str, item: &[u8], now: Instant) {
        let bytes = OVERHEAD + id.len() + item.len();
        self.shelves.put(
            key,
            id.into(),
            SizedValue {
                value: Bytes::copy_from_slice(item),
                bytes,
            },
            now,
        );
    }

    /// Returns the item of an id, if it is still there.
    pub fn find(&self, key: &Arc<str>, id: &str, now: Instant) -> Option<Bytes> {
        self.shelves.find(key, &id.into(), now)
    }

    /// Drops items that are too old, also those of keys that send no more requests.
    pub fn sweep(&self, now: Instant) {
        self.shelves.sweep(now);
    }

    /// Writes why there is no item of this id now, and what to do.
    pub fn why_missing(&self, id: &str, now_ms: u64) -> String {
        let reason = missing_reason(self.mode, made_at(id), self.began, now_ms);
        let shown = shorten_text(id, 80);
        format!("refers to the item `{shown}`, which is not here: {reason}. {REMEDY}")
    }
}

/// Returns why an item is not there that was made at this time, if its id says when.
fn missing_reason(mode: ItemCacheMode, made_at: Option<u64>, began: u64, now_ms: u64) -> String {
    let hours = KEPT_FOR / 3600;
    let age = made_at.map(|made| Duration::from_millis(now_ms.saturating_sub(made)).as_secs());
    match (mode, age) {
        (ItemCacheMode::Off, _) => "this gateway keeps no items (`item_cache: off`)".to_owned(),
        (_, None) => format!("no answer to this key had it in the last {hours} hours"),
        (_, Some(age)) if age >= KEPT_FOR => {
            format!(
                "it was made {} ago, and items are kept for {hours} hours",
                shown_age(age)
            )
        }
        (ItemCacheMode::Memory, Some(age)) if made_at.is_some_and(|made| made < began) => format!(
            "it was made {} ago, and this gateway was started after that (`item_cache: memory` keeps items no longer)",
            shown_age(age)
        ),
        (ItemCacheMode::Memory, Some(age)) => format!(
            "it was made {} ago, but not for this key at this gateway, or its request said `store: false`, or newer \
             items of the key took its place",
            shown_age(age)
        ),
        (ItemCacheMode::Store, Some(age)) => format!(
            "it was made {} ago, but not for this key at a gateway with this store, or its request said \
             `store: false`, or the store could not take it, or has lost it",
            shown_age(age)
        ),
    }
}

fn shown_age(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} seconds"),
        120..7200 => format!("{} minutes", seconds / 60),
        _ => format!("{} hours", seconds / 3600),
    }
}

/// Returns when the answer of an item was made, in milliseconds of Unix time. Ids of this gateway
/// hold a UUID of version 7, which begins with its time.
fn made_at(id: &str) -> Option<u64> {
    let is_uuid = |part: &&str| part.len() == 32 && part.as_bytes().get(12) == Some(&b'7');
    let uuid = id
        .split('_')
        .find(is_uuid)
        .filter(|uuid| uuid.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(uuid.get(..12)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_by_key_until_too_old() {
        let (cache, now) = (ItemCache::new(ItemCacheMode::Memory), Instant::now());
        let (own, other): (Arc<str>, Arc<str>) = ("acme/prod".into(), "other/prod".into());
        cache.put(&own, "msg_1", br#"{"id":"msg_1"}"#, now);
        assert_eq!(
            cache.find(&own, "msg_1", now).as_deref(),
            Some(&br#"{"id":"msg_1"}"#[..])
        );
        assert_eq!(cache.find(&other, "msg_1", now), None);
        assert_eq!(cache.find(&own, "msg_2", now), None);
        assert_eq!(cache.find(&own, "msg_1", now + BOUNDS.kept_for), None);
        cache.sweep(now + BOUNDS.kept_for);
        assert_eq!(cache.find(&own, "msg_1", now), None);
    }

    #[test]
    fn the_reason_names_age_start_or_setting() {
        const NOW: u64 = 1_800_000_000_000;
        let id = |age: u64| format!("msg_{:012x}7abc8def0123456789ab_0", NOW - age * 1000);
        let said =
            |mode, id: &str, began: u64| missing_reason(mode, made_at(id), NOW - began * 1000, NOW);
        let (memory, store) = (ItemCacheMode::Memory, ItemCacheMode::Store);
        for (found, expected) in [
            (said(ItemCacheMode::Off, &id(5), 60), "`item_cache: off`"),
            (
                said(memory, &id(25 * 3600), 60),
                "made 25 hours ago, and items are kept for 24 hours",
            ),
            (
                said(memory, &id(90 * 60), 60),
                "made 90 minutes ago, and this gateway was started after that",
            ),
            (
                said(store, &id(90 * 60), 60),
                "made 90 minutes ago, but not for this key",
            ),
            (
                said(memory, &id(40), 60),
                "made 40 seconds ago, but not for this key",
            ),
            (
                said(memory, "msg_0a1b2c", 60),
                "no answer to this key had it in the last 24 hours",
            ),
        ] {
            assert!(found.contains(expected), "{found}");
        }
        let told = ItemCache::new(memory).why_missing(&"x".repeat(200), NOW);
        assert!(
            told.contains("providerOptions: { openai: { store: false } }") && told.len() < 400,
            "{told}"
        );
    }
}
