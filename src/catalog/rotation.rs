//! A rotation replaces a secret of a key by a newer one. This module finds the secrets that are
//! being replaced.

use super::Key;
use std::sync::Arc;
use std::time::SystemTime;

/// A secret that opens a key.
#[derive(Debug, Clone)]
pub(super) struct KeySecret {
    /// The position of the key among all keys. A catalog has fewer than 2³² bytes.
    key: u32,
    /// The time from which the secret no longer opens the key.
    pub(super) expires_at: Option<SystemTime>,
    /// True if the key has a newer secret.
    pub(super) replaced: bool,
}

impl KeySecret {
    /// Makes a secret of the key at this position.
    pub(super) fn new(key: usize, expires_at: Option<SystemTime>, replaced: bool) -> KeySecret {
        KeySecret {
            key: u32::try_from(key).unwrap_or(u32::MAX),
            expires_at,
            replaced,
        }
    }

    /// Returns the key, which is one of these.
    pub(super) fn find_key<'k>(&self, keys: &'k [Arc<Key>]) -> Option<&'k Arc<Key>> {
        keys.get(usize::try_from(self.key).ok()?)
    }
}

/// Returns the end of the newest of a key's secrets: `None` if one has no end, or else the latest
/// end.
pub fn newest_end(ends: impl Iterator<Item = Option<SystemTime>>) -> Option<SystemTime> {
    ends.max_by_key(|until| (until.is_none(), *until)).flatten()
}

/// Returns whether a secret with the end `until` is being replaced. `newest` is the end of the
/// key's newest secret. A key whose only secret has an end is not being rotated.
pub fn is_replaced(until: Option<SystemTime>, newest: Option<SystemTime>) -> bool {
    until.is_some() && until != newest
}
