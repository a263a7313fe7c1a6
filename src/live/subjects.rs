//! The keys of subjects. A subject's key is made when a first token of it comes, and forgotten when
//! it was idle for a while; what it has used is then in the ledger.
//!
//! **Invariant:** a subject's limits count what the subject has used before. Until that is known no
//! request of it is admitted.

use super::Snapshot;
use crate::base::lock::Lock;
use crate::catalog::Key;
use crate::limits::{self, KeyLimits, Past, SubjectScopes};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A key that was not used for so long is forgotten: longer than the window of a minute, and than
/// rows wait until they are in the ledger's file.
const IDLE: Duration = Duration::from_secs(180);

/// The keys of the subjects that were seen lately.
#[derive(Default)]
pub struct Subjects {
    by_id: Lock<HashMap<Arc<str>, Subject>>,
}

struct Subject {
    key: Arc<Key>,
    /// The generation of the catalog that the key is of.
    generation: u64,
    /// The reading of what was used before, while it runs.
    reading: Option<Arc<Reading>>,
}

/// The reading of what a subject has used before.
pub struct Reading {
    /// The id of the subject's key.
    pub id: Arc<str>,
    /// The caller that the subject belongs to.
    pub caller: Arc<str>,
    scopes: SubjectScopes,
    ended: watch::Sender<Progress>,
}

/// How far a reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Runs,
    Done,
    Failed,
}

/// What is known of a subject.
pub enum Known {
    /// Its key is ready.
    Ready(Arc<Key>),
    /// What it has used is being read.
    Awaited(Arc<Reading>),
    /// What it has used must be read, by whoever gets this.
    Unread(Arc<Reading>),
    /// A newer catalog is live.
    Outdated,
}

impl Subjects {
    /// Finds the key of a subject, or makes it. `id` is the key's id, and `template` the key of
    /// which it is a copy, in this catalog.
    pub fn find(
        &self,
        snapshot: &Snapshot,
        template: &Key,
        id: &Arc<str>,
        registry: &limits::Registry,
    ) -> Known {
        let mut by_id = self.by_id.lock();
        let last_used = match by_id.get(id) {
            Some(subject) if subject.generation == snapshot.generation => {
                return match &subject.reading {
                    Some(reading) => Known::Awaited(reading.clone()),
                    None => Known::Ready(subject.key.clone()),
                };
            }
            Some(subject) if subject.generation > snapshot.generation => return Known::Outdated,
            Some(Subject {
                reading: Some(reading),
                ..
            }) => return Known::Awaited(reading.clone()),
            Some(subject) => subject
                .key
                .own_scopes
                .as_ref()
                .map(|scopes| scopes.last_used.clone()),
            None => None,
        };
        let limits = KeyLimits {
            key: (id, &template.limits),
            ..KeyLimits::from(template)
        };
        let scopes = registry.subject_scopes(limits, &snapshot.catalog.model_ids(), last_used);
        let key = Arc::new(Key {
            id: id.clone(),
            own_scopes: Some(Arc::new(scopes.scopes.clone())),
            ..template.clone()
        });
        let reading = scopes.lack_past().then(|| {
            Arc::new(Reading {
                id: id.clone(),
                caller: template.caller.id.clone(),
                scopes,
                ended: watch::Sender::new(Progress::Runs),
            })
        });
        by_id.insert(
            id.clone(),
            Subject {
                key: key.clone(),
                generation: snapshot.generation,
                reading: reading.clone(),
            },
        );
        match reading {
            Some(reading) => Known::Unread(reading),
            None => Known::Ready(key),
        }
    }

    /// Ends a reading. With `None` the past could not be read: the subject's key is forgotten, so
    /// that the next request tries again.
    pub fn end_reading(&self, reading: &Arc<Reading>, past: Option<Vec<Past>>) {
        let mut by_id = self.by_id.lock();
        let is_known = past.is_some();
        if let Some(past) = past {
            reading.scopes.seed(past);
        }
        if let Entry::Occupied(mut entry) = by_id.entry(reading.id.clone())
            && let Some(running) = &entry.get().reading
            && Arc::ptr_eq(running, reading)
        {
            match is_known {
                true => entry.get_mut().reading = None,
                false => drop(entry.remove()),
            }
        }
        drop(by_id);
        let progress = if is_known {
            Progress::Done
        } else {
            Progress::Failed
        };
        reading.ended.send_replace(progress);
    }

    /// Forgets the keys that are idle at `now`, in milliseconds of Unix time.
    pub fn forget_idle(&self, registry: &limits::Registry, now: u64) {
        let idle_since = now.saturating_sub(IDLE.as_millis().try_into().unwrap_or(u64::MAX));
        let mut by_id = self.by_id.lock();
        let before = by_id.len();
        by_id.retain(|_, subject| {
            let Some(scopes) = &subject.key.own_scopes else {
                return false;
            };
            let used_at = scopes.last_used.last_used_at().unwrap_or(now);
            let is_held = Arc::strong_count(&subject.key) > 1
                || Arc::strong_count(scopes) > 1
                || scopes.are_held();
            used_at >= idle_since || subject.reading.is_some() || is_held
        });
        if by_id.len() < before {
            registry.forget_dropped();
        }
    }

    /// Returns the keys of the subjects of a caller.
    pub fn keys_of(&self, caller: &str) -> Vec<Arc<Key>> {
        let by_id = self.by_id.lock();
        let keys = by_id.values().map(|subject| &subject.key);
        keys.filter(|key| *key.caller.id == *caller)
            .cloned()
            .collect()
    }

    /// Returns the number of keys that are known.
    pub fn count(&self) -> usize {
        self.by_id.lock().len()
    }
}

impl Reading {
    /// Waits until the reading has ended.
    pub async fn await_end(&self) {
        let mut ended = self.ended.subscribe();
        // An error says that the sender is gone, and it is held here.
        let _ended = ended.wait_for(|progress| *progress != Progress::Runs).await;
    }

    /// Returns whether the past could not be read.
    pub fn has_failed(&self) -> bool {
        *self.ended.borrow() == Progress::Failed
    }
}
