//! Signed thoughts, kept for the next turn.
//!
//! Claude and Gemini want what they thought before a tool call back, signed and unchanged, when the call's result is sent; OpenAI's clients
//! know no field for it and lose it. So it is kept here by the call's id, and put back. Bounded in bytes and in time; what is lost costs
//! the model its train of thought, and not the answer.
//!
//! **Invariant:** what was kept for one key is found with that key only, and by the family of models that it came from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::dialect::Family;
use crate::dialect::chat::{Kept, Thought};

/// A conversation that pauses for longer begins to think anew.
const KEPT_FOR: Duration = Duration::from_secs(6 * 3600);
/// Of all keys together.
const MOST_BYTES: usize = 64 << 20;
/// An entry's own weight, its id and its place in the order included.
const OVERHEAD: usize = 256;

/// The store.
#[derive(Default)]
pub struct Vault {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    entries: HashMap<Name, Entry>,
    /// The oldest first. A name that was kept again stands here twice; only with its own time it counts.
    order: VecDeque<(Name, Instant)>,
    bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Name {
    key: Arc<str>,
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
            thought.text.len() + thought.signature.as_deref().map_or(0, str::len) + thought.redacted.as_deref().map_or(0, str::len)
        };
        let bytes = OVERHEAD + call.len() + thoughts.iter().map(weight).sum::<usize>();
        let name = Name { key: key.clone(), family, call: call.into() };
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.bytes += bytes;
        inside.order.push_back((name.clone(), now));
        if let Some(old) = inside.entries.insert(name, Entry { thoughts: thoughts.into(), at: now, bytes }) {
            inside.bytes -= old.bytes;
        }
        inside.shed(now);
    }

    /// The thoughts that led to a call, if they are still there.
    pub fn find(&self, key: &Arc<str>, family: Family, call: &str, now: Instant) -> Option<Kept> {
        let name = Name { key: key.clone(), family, call: call.into() };
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.entries.get(&name).filter(|entry| now.saturating_duration_since(entry.at) < KEPT_FOR).map(|entry| entry.thoughts.clone())
    }

    /// How many calls have thoughts here.
    pub fn len(&self) -> usize {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inside {
    /// Lets go of what is too old, and of the oldest where it is too much.
    fn shed(&mut self, now: Instant) {
        // A server that gives the same id again and again.
        if self.order.len() > 2 * self.entries.len() + 1024 {
            let entries = &self.entries;
            self.order.retain(|(name, at)| entries.get(name).is_some_and(|entry| entry.at == *at));
        }
        while let Some((_, at)) = self.order.front() {
            if self.bytes <= MOST_BYTES && now.saturating_duration_since(*at) < KEPT_FOR {
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
    fn it_does_not_grow_over_its_bound() {
        let (vault, now) = (Vault::default(), Instant::now());
        let key: Arc<str> = "acme/prod".into();
        let large = "x".repeat(1 << 20);
        for n in 0..100 {
            vault.put(&key, Family::Claude, &format!("call_{n}"), thought(&large), now + Duration::from_millis(n));
        }
        assert!((60..64).contains(&vault.len()), "{}", vault.len());
        let now = now + Duration::from_secs(1);
        assert!(found(&vault, &key, Family::Claude, "call_99", now).is_some());
        assert!(found(&vault, &key, Family::Claude, "call_0", now).is_none());
        // The same name again and again.
        for _ in 0..1000 {
            vault.put(&key, Family::Claude, "call_99", thought("small"), now);
        }
        for n in 0..10_000 {
            vault.put(&key, Family::Claude, "call_99", thought("small"), now + Duration::from_millis(n));
        }
        let inside = vault.inside.lock().unwrap();
        assert!(inside.bytes <= MOST_BYTES && inside.order.len() < 2000, "{}", inside.order.len());
    }
}
