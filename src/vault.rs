//! Signed thoughts, kept for the next turn.
//!
//! Claude and Gemini want what they thought before a tool call back, signed and unchanged, when the
//! call's result is sent; OpenAI's clients know no field for it and lose it. So it is kept here by
//! the call's id, and put back. Bounded in bytes, for each key and for all, and in time; what is
//! lost costs the model its train of thought, and not the answer.
//!
//! **Invariant:** what was kept for one key is found with that key only, and by the family of
//! models that it came from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dialects::Family;
use dialects::neutral::{Kept, Thought};

/// A conversation that pauses for longer begins to think anew.
const KEPT_FOR: Duration = Duration::from_secs(6 * 3600);
/// Of all keys together.
const MOST_BYTES: usize = 64 << 20;
/// Of one key, so that one busy caller does not push out the others'.
const MOST_OF_A_KEY: usize = 8 << 20;
/// An entry's own weight, its id and its place in the order included.
const OVERHEAD: usize = 256;

/// The store.
#[derive(Default)]
pub struct Vault {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    shelves: HashMap<Arc<str>, Shelf>,
    bytes: usize,
}

/// What is kept for one key.
#[derive(Default)]
struct Shelf {
    entries: HashMap<Name, Entry>,
    /// The oldest first. A name that was kept again stands here twice; only with its own time it
    /// counts.
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
    pub fn put(&self, key: &Arc<str>, family: Family, call: &str, thoughts: Vec<Thought<'static>>, now: Instant) {
        let weight = |thought: &Thought<'_>| {
            thought.text.len()
                + thought.signature.as_deref().map_or(0, str::len)
                + thought.redacted.as_deref().map_or(0, str::len)
        };
        let bytes = OVERHEAD + call.len() + thoughts.iter().map(weight).sum::<usize>();
        let entry = Entry { thoughts: thoughts.into(), at: now, bytes };
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let shelf = inside.shelves.entry(key.clone()).or_default();
        let before = shelf.bytes;
        shelf.put(Name { family, call: call.into() }, entry);
        shelf.shed(now, MOST_OF_A_KEY);
        let after = shelf.bytes;
        inside.bytes = inside.bytes + after - before;
        while inside.bytes > MOST_BYTES {
            inside.shed_the_fullest(now);
        }
    }

    /// The thoughts that led to a call, if they are still there.
    pub fn find(&self, key: &Arc<str>, family: Family, call: &str, now: Instant) -> Option<Kept> {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = inside.shelves.get(key)?.entries.get(&Name { family, call: call.into() })?;
        (now.saturating_duration_since(entry.at) < KEPT_FOR).then(|| entry.thoughts.clone())
    }

    /// Lets go of what is too old, of keys that no longer come too.
    pub fn sweep(&self, now: Instant) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.shelves.retain(|_, shelf| {
            shelf.shed(now, MOST_OF_A_KEY);
            !shelf.entries.is_empty()
        });
        inside.bytes = inside.shelves.values().map(|shelf| shelf.bytes).sum();
    }

    /// How many calls have thoughts here.
    pub fn len(&self) -> usize {
        self.inside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .shelves
            .values()
            .map(|shelf| shelf.entries.len())
            .sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inside {
    /// Halves what is kept for the key that has the most.
    fn shed_the_fullest(&mut self, now: Instant) {
        let Some(shelf) = self.shelves.values_mut().max_by_key(|shelf| shelf.bytes) else { return };
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

    /// Lets go of what is too old, and of the oldest where it is more than `most` bytes.
    fn shed(&mut self, now: Instant, most: usize) {
        // A server that gives the same id again and again.
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

    #[test]
    fn only_the_same_key_and_family_find_it() {
        let (vault, now) = (Vault::default(), Instant::now());
        let (a, b): (Arc<str>, Arc<str>) = ("acme/prod".into(), "other/prod".into());
        vault.put(&a, Family::Claude, "call_1", thought("one"), now);
        assert_eq!(found(&vault, &a, Family::Claude, "call_1", now).as_deref(), Some("one"));
        assert_eq!(found(&vault, &b, Family::Claude, "call_1", now), None);
        assert_eq!(found(&vault, &a, Family::Gemini, "call_1", now), None);
        assert_eq!(found(&vault, &a, Family::Claude, "call_2", now), None);
    }

    #[test]
    fn it_expires_and_the_last_one_counts() {
        let (vault, start) = (Vault::default(), Instant::now());
        let key: Arc<str> = "acme/prod".into();
        vault.put(&key, Family::Claude, "call_1", thought("one"), start);
        let later = start + KEPT_FOR / 2;
        vault.put(&key, Family::Claude, "call_1", thought("two"), later);
        assert_eq!(found(&vault, &key, Family::Claude, "call_1", start + KEPT_FOR).as_deref(), Some("two"));
        assert_eq!(found(&vault, &key, Family::Claude, "call_1", later + KEPT_FOR), None);
        vault.put(&key, Family::Claude, "call_2", thought("three"), later + KEPT_FOR);
        assert_eq!(vault.len(), 1, "what is too old is let go");
    }

    #[test]
    fn it_does_not_grow_over_its_bounds() {
        let (vault, now) = (Vault::default(), Instant::now());
        let busy: Arc<str> = "acme/prod".into();
        let large = "x".repeat(1 << 20);
        for n in 0..100 {
            vault.put(&busy, Family::Claude, &format!("call_{n}"), thought(&large), now + Duration::from_millis(n));
        }
        assert_eq!(vault.len(), 7, "a key has its share");
        assert!(found(&vault, &busy, Family::Claude, "call_99", now).is_some());
        assert!(found(&vault, &busy, Family::Claude, "call_0", now).is_none());
        // The same name again and again.
        for n in 0..10_000 {
            vault.put(&busy, Family::Claude, "call_99", thought("small"), now + Duration::from_millis(n));
        }
        // Many keys: the fullest give way, and a quiet one keeps what it has.
        let quiet: Arc<str> = "quiet/prod".into();
        vault.put(&quiet, Family::Claude, "call_1", thought("mine"), now);
        for key in 0..20 {
            let key: Arc<str> = format!("caller-{key}/prod").into();
            for n in 0..7 {
                vault.put(&key, Family::Claude, &format!("call_{n}"), thought(&large), now);
            }
        }
        assert_eq!(found(&vault, &quiet, Family::Claude, "call_1", now).as_deref(), Some("mine"));
        {
            let inside = vault.inside.lock().unwrap();
            assert!(inside.bytes <= MOST_BYTES, "{}", inside.bytes);
            assert_eq!(inside.bytes, inside.shelves.values().map(|shelf| shelf.bytes).sum::<usize>());
            assert!(inside.shelves.values().all(|shelf| shelf.order.len() < 2000));
        }
        vault.sweep(now + KEPT_FOR + Duration::from_secs(20));
        assert!(vault.is_empty());
    }
}
