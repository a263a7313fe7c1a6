//! [`Shelves`] keep values of many keys for a time, within bounds of bytes: for each key, so that
//! one busy caller does not push out the others, and for all keys together.
//!
//! **Invariant:** a value is found only with the key that it was put under.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::lock::Lock;

/// The bytes of an entry besides its name and its value.
pub const OVERHEAD: usize = 256;

/// How long and how much is kept.
#[derive(Debug, Clone, Copy)]
pub struct ShelfBounds {
    /// The time after which a value is not found any more.
    pub kept_for: Duration,
    /// The most bytes that all keys hold together.
    pub max_bytes: usize,
    /// The most bytes that one key holds.
    pub max_bytes_per_key: usize,
}

/// The values of all keys, by their names.
pub struct Shelves<N, V> {
    bounds: ShelfBounds,
    entries: Lock<All<N, V>>,
}

/// A value, and the bytes that it takes.
pub struct SizedValue<V> {
    /// The value.
    pub value: V,
    /// Its size.
    pub bytes: usize,
}

struct All<N, V> {
    by_key: HashMap<Arc<str>, Shelf<N, V>>,
    bytes: usize,
}

/// The values of one key.
struct Shelf<N, V> {
    entries: HashMap<N, Entry<V>>,
    /// The names, the oldest first. A name that was put again is here twice; only the one with its
    /// entry's time counts.
    order: VecDeque<(N, Instant)>,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    stored_at: Instant,
    bytes: usize,
}

impl<N: Clone + Eq + Hash, V: Clone> Shelves<N, V> {
    /// Returns empty shelves.
    pub fn new(bounds: ShelfBounds) -> Shelves<N, V> {
        Shelves {
            bounds,
            entries: Lock::new(All {
                by_key: HashMap::new(),
                bytes: 0,
            }),
        }
    }

    /// Puts a value.
    pub fn put(&self, key: &Arc<str>, name: N, sized: SizedValue<V>, now: Instant) {
        let SizedValue { value, bytes } = sized;
        let mut all = self.entries.lock();
        let shelf = all.by_key.entry(key.clone()).or_default();
        let before = shelf.bytes;
        shelf.put(
            name,
            Entry {
                value,
                stored_at: now,
                bytes,
            },
        );
        shelf.shed(now, self.bounds.kept_for, self.bounds.max_bytes_per_key);
        let after = shelf.bytes;
        all.bytes = all.bytes + after - before;
        while all.bytes > self.bounds.max_bytes {
            all.shed_the_fullest(now, self.bounds.kept_for);
        }
    }

    /// Returns the value of a name, if it is still there.
    pub fn find(&self, key: &Arc<str>, name: &N, now: Instant) -> Option<V> {
        let all = self.entries.lock();
        let entry = all.by_key.get(key)?.entries.get(name)?;
        (now.saturating_duration_since(entry.stored_at) < self.bounds.kept_for)
            .then(|| entry.value.clone())
    }

    /// Drops values that are too old, also those of keys that send no more requests.
    pub fn sweep(&self, now: Instant) {
        let mut all = self.entries.lock();
        all.by_key.retain(|_, shelf| {
            shelf.shed(now, self.bounds.kept_for, self.bounds.max_bytes_per_key);
            !shelf.entries.is_empty()
        });
        all.bytes = all.by_key.values().map(|shelf| shelf.bytes).sum();
    }
}

impl<N: Clone + Eq + Hash, V> All<N, V> {
    /// Halves the values of the key that has the most bytes.
    fn shed_the_fullest(&mut self, now: Instant, kept_for: Duration) {
        let Some(shelf) = self.by_key.values_mut().max_by_key(|shelf| shelf.bytes) else {
            return;
        };
        let before = shelf.bytes;
        shelf.shed(now, kept_for, before / 2);
        self.bytes = self.bytes + shelf.bytes - before;
    }
}

impl<N, V> Default for Shelf<N, V> {
    fn default() -> Self {
        Shelf {
            entries: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<N: Clone + Eq + Hash, V> Shelf<N, V> {
    fn put(&mut self, name: N, entry: Entry<V>) {
        self.bytes += entry.bytes;
        self.order.push_back((name.clone(), entry.stored_at));
        if let Some(old) = self.entries.insert(name, entry) {
            self.bytes -= old.bytes;
        }
    }

    /// Drops entries that are too old, and the oldest ones while there are more than `max_bytes`.
    fn shed(&mut self, now: Instant, kept_for: Duration, max_bytes: usize) {
        // The same name may be put again and again.
        if self.order.len() > 2 * self.entries.len() + 1024 {
            let entries = &self.entries;
            self.order.retain(|(name, stored_at)| {
                entries
                    .get(name)
                    .is_some_and(|entry| entry.stored_at == *stored_at)
            });
        }
        while let Some((_, stored_at)) = self.order.front() {
            if self.bytes <= max_bytes && now.saturating_duration_since(*stored_at) < kept_for {
                return;
            }
            let Some((name, stored_at)) = self.order.pop_front() else {
                return;
            };
            if self
                .entries
                .get(&name)
                .is_some_and(|entry| entry.stored_at == stored_at)
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

    fn sized(value: u32, bytes: usize) -> SizedValue<u32> {
        SizedValue { value, bytes }
    }

    const BOUNDS: ShelfBounds = ShelfBounds {
        kept_for: Duration::from_secs(3600),
        max_bytes: 64 << 20,
        max_bytes_per_key: 8 << 20,
    };

    fn count(shelves: &Shelves<u32, u32>) -> usize {
        shelves
            .entries
            .lock()
            .by_key
            .values()
            .map(|shelf| shelf.entries.len())
            .sum()
    }

    #[test]
    fn a_value_is_found_by_key_until_too_old() {
        let (shelves, start) = (Shelves::new(BOUNDS), Instant::now());
        let (own, other): (Arc<str>, Arc<str>) = ("acme/prod".into(), "other/prod".into());
        shelves.put(&own, 1, sized(10, OVERHEAD), start);
        let later = start + BOUNDS.kept_for / 2;
        shelves.put(&own, 1, sized(20, OVERHEAD), later);
        assert_eq!(shelves.find(&own, &1, start + BOUNDS.kept_for), Some(20));
        assert_eq!(shelves.find(&other, &1, later), None);
        assert_eq!(shelves.find(&own, &2, later), None);
        assert_eq!(shelves.find(&own, &1, later + BOUNDS.kept_for), None);
        shelves.put(&own, 2, sized(30, OVERHEAD), later + BOUNDS.kept_for);
        assert_eq!(count(&shelves), 1, "what is too old is let go");
    }

    #[test]
    fn they_do_not_grow_over_their_bounds() {
        let (shelves, now) = (Shelves::new(BOUNDS), Instant::now());
        let busy: Arc<str> = "acme/prod".into();
        let large = (1 << 20) + OVERHEAD;
        for n in 0..100 {
            shelves.put(
                &busy,
                n,
                sized(n, large),
                now + Duration::from_millis(u64::from(n)),
            );
        }
        assert_eq!(count(&shelves), 7, "a key has its share");
        assert!(shelves.find(&busy, &99, now).is_some() && shelves.find(&busy, &0, now).is_none());
        // The same name again and again.
        for n in 0..10_000 {
            shelves.put(
                &busy,
                99,
                sized(n, OVERHEAD),
                now + Duration::from_millis(u64::from(n)),
            );
        }
        // Many keys: the fullest give way, and a quiet one keeps what it has.
        let quiet: Arc<str> = "quiet/prod".into();
        shelves.put(&quiet, 1, sized(1, OVERHEAD), now);
        for key in 0..20 {
            let key: Arc<str> = format!("caller-{key}/prod").into();
            (0..7).for_each(|n| shelves.put(&key, n, sized(n, large), now));
        }
        assert_eq!(shelves.find(&quiet, &1, now), Some(1));
        {
            let all = shelves.entries.lock();
            assert!(all.bytes <= BOUNDS.max_bytes, "{}", all.bytes);
            assert_eq!(
                all.bytes,
                all.by_key.values().map(|shelf| shelf.bytes).sum::<usize>()
            );
            assert!(all.by_key.values().all(|shelf| shelf.order.len() < 2000));
        }
        shelves.sweep(now + BOUNDS.kept_for + Duration::from_secs(20));
        assert_eq!(count(&shelves), 0);
    }
}
