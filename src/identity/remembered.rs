//! [`Remembered`] keeps what was found for tokens that were verified, by their SHA-256, until they
//! end. So a signature is verified once, and not with each request.
//!
//! What is kept belongs to the issuer and to the key that signed: when that key is gone, what it
//! signed is forgotten.
//!
//! **Invariant:** what was begun before something was forgotten is not put afterwards: a token that
//! was verified with a key is not kept when the key is gone. For that, new keys and new rules are
//! put in place first, and then what went with the old ones is forgotten.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::base::hash::Quick;
use crate::base::lock::Lock;
use crate::identity::jwk::KeyId;

/// The most tokens that are kept.
pub const MAX_TOKENS: usize = 100_000;
/// So many threads can look at once, if they look for different tokens.
const SHARDS: usize = 16;

/// The SHA-256 of a token's text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

/// What was found for tokens.
pub struct Remembered<T> {
    shards: [Lock<Shard<T>>; SHARDS],
    max_per_shard: usize,
    /// How often something was forgotten.
    epoch: AtomicU64,
}

/// What is found for a token.
pub struct Finding<'i, T> {
    /// What is to be kept.
    pub value: Arc<T>,
    /// Whose token it is.
    pub issuer: &'i Arc<str>,
    /// Who signed it.
    pub key: KeyId,
    /// The second since 1970 from which on the token is not valid.
    pub expires_at: u64,
}

/// The time before a token was verified: see [`Remembered::begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

struct Shard<T> {
    entries: HashMap<TokenDigest, Entry<T>, Quick>,
    /// The same tokens, the oldest first.
    order: VecDeque<TokenDigest>,
    /// Each issuer with each key: entries share them.
    origins: Vec<Arc<Origin>>,
    /// The second at which ended tokens were last taken out.
    swept_at: u64,
}

struct Entry<T> {
    value: Arc<T>,
    origin: Arc<Origin>,
    expires_at: u64,
}

#[derive(PartialEq, Eq)]
struct Origin {
    issuer: Arc<str>,
    key: KeyId,
}

impl TokenDigest {
    /// Hashes a token.
    pub fn new(token: &[u8]) -> TokenDigest {
        TokenDigest(Sha256::digest(token).into())
    }

    fn shard(self) -> usize {
        // The map takes its bits from all bytes, so this takes none away from it.
        self.0.last().map_or(0, |byte| usize::from(*byte) % SHARDS)
    }
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self::new(MAX_TOKENS)
    }
}

impl<T> Remembered<T> {
    /// Makes room for so many tokens.
    pub fn new(max_tokens: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Lock::new(Shard::default())),
            max_per_shard: max_tokens.div_euclid(SHARDS).max(1),
            epoch: AtomicU64::new(0),
        }
    }

    /// Returns what was found for a token, if it is known and has not ended.
    pub fn find(&self, digest: &TokenDigest, now: u64) -> Option<Arc<T>> {
        let shard = self.shards.get(digest.shard())?.lock();
        let entry = shard.entries.get(digest)?;
        (now < entry.expires_at).then(|| entry.value.clone())
    }

    /// Notes the time before a token is verified: to be called before the keys and the rules are
    /// taken that it is verified with.
    pub fn begin(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Keeps what was found, unless something was forgotten since the begin.
    pub fn keep(&self, digest: TokenDigest, finding: Finding<'_, T>, begin: Epoch, now: u64) {
        let Some(shard) = self.shards.get(digest.shard()) else {
            return;
        };
        let mut shard = shard.lock();
        // Whoever forgets counts first and then takes this lock, so nothing is missed.
        if self.begin() == begin && now < finding.expires_at {
            shard.keep(digest, finding, self.max_per_shard, now);
        }
    }

    /// Forgets all tokens of an issuer that a key has signed.
    pub fn forget_key(&self, issuer: &str, key: &KeyId) {
        self.forget(|origin| *origin.issuer == *issuer && origin.key == *key);
    }

    /// Forgets all tokens of an issuer.
    pub fn forget_issuer(&self, issuer: &str) {
        self.forget(|origin| *origin.issuer == *issuer);
    }

    /// Forgets all tokens.
    pub fn clear(&self) {
        self.forget(|_| true);
    }

    /// Forgets tokens that have ended.
    pub fn sweep(&self, now: u64) {
        for shard in &self.shards {
            shard.lock().sweep(now);
        }
    }

    /// Returns how many tokens are kept.
    pub fn count(&self) -> usize {
        let counts = self.shards.iter().map(|shard| shard.lock().entries.len());
        counts.sum()
    }

    fn forget(&self, is_gone: impl Fn(&Origin) -> bool) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        for shard in &self.shards {
            shard.lock().retain(|entry| !is_gone(&entry.origin));
        }
    }
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            order: VecDeque::new(),
            origins: Vec::new(),
            swept_at: 0,
        }
    }
}

impl<T> Shard<T> {
    fn keep(&mut self, digest: TokenDigest, finding: Finding<'_, T>, limit: usize, now: u64) {
        if self.entries.len() >= limit && !self.entries.contains_key(&digest) {
            self.make_room(limit, now);
        }
        let entry = Entry {
            value: finding.value,
            origin: self.share_origin(finding.issuer, finding.key),
            expires_at: finding.expires_at,
        };
        if self.entries.insert(digest, entry).is_none() {
            self.order.push_back(digest);
        }
    }

    /// Takes out what has ended, at most once in a second, and then the oldest.
    fn make_room(&mut self, limit: usize, now: u64) {
        if now != self.swept_at {
            self.swept_at = now;
            self.sweep(now);
        }
        while self.entries.len() >= limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn sweep(&mut self, now: u64) {
        self.retain(|entry| now < entry.expires_at);
    }

    fn retain(&mut self, is_kept: impl Fn(&Entry<T>) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|_, entry| is_kept(entry));
        if self.entries.len() < before {
            let entries = &self.entries;
            self.order.retain(|digest| entries.contains_key(digest));
            self.origins.retain(|origin| Arc::strong_count(origin) > 1);
        }
    }

    fn share_origin(&mut self, issuer: &Arc<str>, key: KeyId) -> Arc<Origin> {
        let known = self
            .origins
            .iter()
            .find(|origin| origin.key == key && origin.issuer == *issuer);
        if let Some(origin) = known {
            return origin.clone();
        }
        let origin = Arc::new(Origin {
            issuer: issuer.clone(),
            key,
        });
        self.origins.push(origin.clone());
        origin
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[digest of a token]")
    }
}

#[cfg(test)]
mod tests;
