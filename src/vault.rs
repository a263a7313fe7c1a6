//! The [`Vault`] keeps signed thoughts for the next turn of a conversation.
//!
//! Claude and Gemini sign what they thought before a tool call, and want it back unchanged with the
//! call's result. OpenAI's clients have no field for it and lose it. So the vault keeps it under
//! the call's id, and the gateway puts it back. The vault is bounded in bytes, for each key and for
//! all keys, and in time. If a thought is lost, the model loses its train of thought, but the
//! answer still comes.
//!
//! **Invariant:** thoughts of one key are found only with that key, and only for the family of
//! models that they came from.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::lock::Lock;
use dialects::Family;
use dialects::neutral::{Kept, Thought};

/// The time for which thoughts are kept. After a longer pause, the model thinks again from the
/// start.
const KEPT_FOR: Duration = Duration::from_secs(6 * 3600);
/// The most bytes that all keys hold together.
const MOST_BYTES: usize = 64 << 20;
/// The most bytes that one key holds, so that one busy caller does not push out the others.
const MOST_OF_A_KEY: usize = 8 << 20;
/// The bytes of an entry besides its thoughts and its call's id.
const OVERHEAD: usize = 256;

/// The signed thoughts of all keys.
#[derive(Default)]
pub struct Vault {
    shelves: Lock<Shelves>,
}

#[derive(Default)]
struct Shelves {
    by_key: HashMap<Arc<str>, Shelf>,
    bytes: usize,
}

/// The signed thoughts of one key.
#[derive(Default)]
struct Shelf {
    entries: HashMap<Name, Entry>,
    /// The names, the oldest first. A name that was kept again is here twice; only the one with its
    /// entry's time counts.
    order: VecDeque<(Name, Instant)>,
    bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Name {
    family: Family,
    call: Arc<str>,
}

struct Entry {
    thoughts: Kept,
    at: Instant,
    bytes: usize,
}

impl Vault {
    /// Keeps the thoughts that led to a call.
    pub fn put(&self, key: &Arc<str>, call: (Family, &str), thoughts: Vec<Thought<'static>>, now: Instant) {
        let (family, call) = call;
        let weight = |thought: &Thought<'_>| {
            thought.text.len()
                + thought.signature.as_deref().map_or(0, str::len)
                + thought.redacted.as_deref().map_or(0, str::len)
        };
        let bytes = OVERHEAD + call.len() + thoughts.iter().map(weight).sum::<usize>();
        let entry = Entry { thoughts: thoughts.into(), at: now, bytes };
        let mut shelves = self.shelves.lock();
        let shelf = shelves.by_key.entry(key.clone()).or_default();
        let before = shelf.bytes;
        shelf.put(Name { family, call: call.into() }, entry);
        shelf.shed(now, MOST_OF_A_KEY);
        let after = shelf.bytes;
        shelves.bytes = shelves.bytes + after - before;
        while shelves.bytes > MOST_BYTES {
            shelves.shed_the_fullest(now);
        }
    }

    /// Returns the thoughts that led to a call, if they are still there.
    pub fn find(&self, key: &Arc<str>, family: Family, call: &str, now: Instant) -> Option<Kept> {
        let shelves = self.shelves.lock();
        let entry = shelves.by_key.get(key)?.entries.get(&Name { family, call: call.into() })?;
        (now.saturating_duration_since(entry.at) < KEPT_FOR).then(|| entry.thoughts.clone())
    }

    /// Drops thoughts that are too old, also those of keys that send no more requests.
    pub fn sweep(&self, now: Instant) {
        let mut shelves = self.shelves.lock();
        shelves.by_key.retain(|_, shelf| {
            shelf.shed(now, MOST_OF_A_KEY);
            !shelf.entries.is_empty()
        });
        shelves.bytes = shelves.by_key.values().map(|shelf| shelf.bytes).sum();
    }
}

impl Shelves {
    /// Halves the thoughts of the key that has the most bytes.
    fn shed_the_fullest(&mut self, now: Instant) {
        let Some(shelf) = self.by_key.values_mut().max_by_key(|shelf| shelf.bytes) else { return };
        let before = shelf.bytes;
        shelf.shed(now, before / 2);
        self.bytes = self.bytes + shelf.bytes - before;
    }
}

impl Shelf {
    fn put(&mut self, name: Name, entry: Entry) {
        self.bytes += entry.bytes;
        self.order.push_back((name.clone(), entry.at));
        if let Some(old) = self.entries.insert(name, entry) {
            self.bytes -= old.bytes;
        }
    }

    /// Drops entries that are too old, and the oldest entries while there are more than `most`
    /// bytes.
    fn shed(&mut self, now: Instant, most: usize) {
        // A server may use the same call id again and again.
        if self.order.len() > 2 * self.entries.len() + 1024 {
            let entries = &self.entries;
            self.order.retain(|(name, at)| entries.get(name).is_some_and(|entry| entry.at == *at));
        }
        while let Some((_, at)) = self.order.front() {
            if self.bytes <= most && now.saturating_duration_since(*at) < KEPT_FOR {
                return;
            }
            let Some((name, at)) = self.order.pop_front() else { return };
            if self.entries.get(&name).is_some_and(|entry| entry.at == at)
                && let Some(entry) = self.entries.remove(&name)
            {
                self.bytes -= entry.bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thought(text: &str) -> Vec<Thought<'static>> {
        vec![Thought { text: text.to_owned().into(), signature: Some("sig".into()), ..Thought::default() }]
    }

    fn found(vault: &Vault, key: &Arc<str>, family: Family, call: &str, now: Instant) -> Option<String> {
        vault.find(key, family, call, now).map(|kept| kept[0].text.to_string())
    }

    /// Counts the calls with thoughts.
    fn count(vault: &Vault) -> usize {
        vault.shelves.lock().by_key.values().map(|shelf| shelf.entries.len()).sum()
    }

    #[test]
    fn only_the_same_key_and_family_find_it() {
        let (vault, now) = (Vault::default(), Instant::now());
        let (a, b): (Arc<str>, Arc<str>) = ("acme/prod".into(), "other/prod".into());
        vault.put(&a, (Family::Claude, "call_1"), thought("one"), now);
        assert_eq!(found(&vault, &a, Family::Claude, "call_1", now).as_deref(), Some("one"));
        assert_eq!(found(&vault, &b, Family::Claude, "call_1", now), None);
        assert_eq!(found(&vault, &a, Family::Gemini, "call_1", now), None);
        assert_eq!(found(&vault, &a, Family::Claude, "call_2", now), None);
    }

    #[test]
    fn it_expires_and_the_last_one_counts() {
        let (vault, start) = (Vault::default(), Instant::now());
        let key: Arc<str> = "acme/prod".into();
        vault.put(&key, (Family::Claude, "call_1"), thought("one"), start);
        let later = start + KEPT_FOR / 2;
        vault.put(&key, (Family::Claude, "call_1"), thought("two"), later);
        assert_eq!(found(&vault, &key, Family::Claude, "call_1", start + KEPT_FOR).as_deref(), Some("two"));
        assert_eq!(found(&vault, &key, Family::Claude, "call_1", later + KEPT_FOR), None);
        vault.put(&key, (Family::Claude, "call_2"), thought("three"), later + KEPT_FOR);
        assert_eq!(count(&vault), 1, "what is too old is let go");
    }

    #[test]
    fn it_does_not_grow_over_its_bounds() {
        let (vault, now) = (Vault::default(), Instant::now());
        let busy: Arc<str> = "acme/prod".into();
        let large = "x".repeat(1 << 20);
        for n in 0..100 {
            vault.put(&busy, (Family::Claude, &format!("call_{n}")), thought(&large), now + Duration::from_millis(n));
        }
        assert_eq!(count(&vault), 7, "a key has its share");
        assert!(found(&vault, &busy, Family::Claude, "call_99", now).is_some());
        assert!(found(&vault, &busy, Family::Claude, "call_0", now).is_none());
        // The same name again and again.
        for n in 0..10_000 {
            vault.put(&busy, (Family::Claude, "call_99"), thought("small"), now + Duration::from_millis(n));
        }
        // Many keys: the fullest give way, and a quiet one keeps what it has.
        let quiet: Arc<str> = "quiet/prod".into();
        vault.put(&quiet, (Family::Claude, "call_1"), thought("mine"), now);
        for key in 0..20 {
            let key: Arc<str> = format!("caller-{key}/prod").into();
            for n in 0..7 {
                vault.put(&key, (Family::Claude, &format!("call_{n}")), thought(&large), now);
            }
        }
        assert_eq!(found(&vault, &quiet, Family::Claude, "call_1", now).as_deref(), Some("mine"));
        {
            let shelves = vault.shelves.lock();
            assert!(shelves.bytes <= MOST_BYTES, "{}", shelves.bytes);
            assert_eq!(shelves.bytes, shelves.by_key.values().map(|shelf| shelf.bytes).sum::<usize>());
            assert!(shelves.by_key.values().all(|shelf| shelf.order.len() < 2000));
        }
        vault.sweep(now + KEPT_FOR + Duration::from_secs(20));
        assert_eq!(count(&vault), 0);
    }
}
