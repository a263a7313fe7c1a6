//! The secrets of keys, and which of them are being replaced.

use super::Key;
use std::sync::Arc;
use std::time::SystemTime;

/// What opens a key.
#[derive(Debug)]
pub(super) struct KeySecret {
    pub(super) key: Arc<Key>,
    /// From when on it no longer does.
    pub(super) until: Option<SystemTime>,
    /// The key has a newer one.
    pub(super) replaced: bool,
}

/// Returns the end of the newest of a key's secrets: none, or the last.
pub fn newest(ends: impl Iterator<Item = Option<SystemTime>>) -> Option<SystemTime> {
    ends.max_by_key(|until| (until.is_none(), *until)).flatten()
}

/// Returns whether a secret with this end is being replaced, where the newest of its key has that
/// one: a key whose only secret has an end is not rotated.
pub fn is_replaced(until: Option<SystemTime>, newest: Option<SystemTime>) -> bool {
    until.is_some() && until != newest
}
