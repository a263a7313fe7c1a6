//! The [`Vault`] keeps signed thoughts for the next turn of a conversation.
//!
//! Claude and Gemini sign what they thought before a tool call, and want it back unchanged with the
//! call's result. OpenAI's clients have no field for it and lose it. So the vault keeps it under
//! the call's id, and the gateway puts it back. If a thought is lost, the model loses its train of
//! thought, but the answer still comes.
//!
//! **Invariant:** thoughts of one key are found only with that key, and only for the family of
//! models that they came from.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::base::shelves::{OVERHEAD, ShelfBounds, Shelves, SizedValue};
use dialects::Family;
use dialects::neutral::{Kept, Thought};

/// How long and how much is kept. After a longer pause, the model thinks again from the start.
const BOUNDS: ShelfBounds = ShelfBounds {
    kept_for: Duration::from_secs(6 * 3600),
    max_bytes: 64 << 20,
    max_bytes_per_key: 8 << 20,
};

/// The signed thoughts of all keys, by the family of models and the call's id.
pub struct Vault {
    shelves: Shelves<(Family, Arc<str>), Kept>,
}

impl Default for Vault {
    fn default() -> Vault {
        Vault {
            shelves: Shelves::new(BOUNDS),
        }
    }
}

impl Vault {
    /// Keeps the thoughts that led to a call.
    pub fn put(
        &self,
        key: &Arc<str>,
        call: (Family, &str),
        thoughts: Vec<Thought<'static>>,
        now: Instant,
    ) {
        let (family, call) = call;
        let bytes = OVERHEAD + call.len() + thoughts.iter().map(bytes_of).sum::<usize>();
        self.shelves.put(
            key,
            (family, call.into()),
            SizedValue {
                value: thoughts.into(),
                bytes,
            },
            now,
        );
    }

    /// Returns the thoughts that led to a call, if they are still there.
    pub fn find(&self, key: &Arc<str>, family: Family, call: &str, now: Instant) -> Option<Kept> {
        self.shelves.find(key, &(family, call.into()), now)
    }

    /// Drops thoughts that are too old, also those of keys that send no more requests.
    pub fn sweep(&self, now: Instant) {
        self.shelves.sweep(now);
    }
}

fn bytes_of(thought: &Thought<'_>) -> usize {
    thought.text.len()
        + thought.signature.as_deref().map_or(0, str::len)
        + thought.redacted.as_deref().map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_family_find_it() {
        let (vault, now) = (Vault::default(), Instant::now());
        let (a, b): (Arc<str>, Arc<str>) = ("acme/prod".into(), "other/prod".into());
        let thought = Thought {
            text: "one".into(),
            signature: Some("sig".into()),
            ..Thought::default()
        };
        vault.put(&a, (Family::Claude, "call_1"), vec![thought], now);
        let found = |key: &Arc<str>, family: Family, call: &str| {
            vault
                .find(key, family, call, now)
                .map(|kept| kept[0].text.to_string())
        };
        assert_eq!(found(&a, Family::Claude, "call_1").as_deref(), Some("one"));
        assert_eq!(found(&b, Family::Claude, "call_1"), None);
        assert_eq!(found(&a, Family::Gemini, "call_1"), None);
        assert_eq!(found(&a, Family::Claude, "call_2"), None);
        assert!(
            vault
                .find(&a, Family::Claude, "call_1", now + BOUNDS.kept_for)
                .is_none()
        );
    }
}
