//! [`UsedKeys`] lists the keys of which something is counted, so that whoever shows counts need not
//! walk all keys of the catalog.
//!
//! **Invariant:** a key is listed if it was used, or if a scope of it has counted something. Of the
//! keys that only their caller's scope has counted, one is enough.

use super::{KeyScopes, LastUsed, Limited};
use crate::base::lock::Lock;
use crate::limits::Scope;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The keys that were used.
#[derive(Default)]
pub(super) struct UsedKeys {
    /// The keys, in no order, each once: the id, and the last use.
    keys: Lock<Vec<(Arc<str>, Arc<LastUsed>)>>,
    /// True if a scope has counted something that was used elsewhere or before.
    may_miss_keys: AtomicBool,
}

impl UsedKeys {
    /// Lists a key, if it is not listed.
    pub(super) fn add(&self, id: &Arc<str>, last_used: &Arc<LastUsed>) {
        let is_listed = &last_used.is_listed;
        if !is_listed.load(Ordering::Relaxed) && !is_listed.swap(true, Ordering::Relaxed) {
            self.keys.lock().push((id.clone(), last_used.clone()));
        }
    }

    /// Notes that a scope may have counted something of a key that is not listed.
    pub(super) fn note_missing_keys(&self) {
        self.may_miss_keys.store(true, Ordering::Relaxed);
    }

    /// Returns whether a key may be missing from the list, and forgets it.
    pub(super) fn take_missing_keys(&self) -> bool {
        self.may_miss_keys.load(Ordering::Relaxed)
            && self.may_miss_keys.swap(false, Ordering::Relaxed)
    }

    /// Lists the keys of a catalog of which a scope has counted something.
    pub(super) fn add_counted(&self, limited: &Limited<'_>, scopes: &[KeyScopes]) {
        let mut last_caller = None;
        for (key, scopes) in limited.keys.iter().zip(scopes) {
            let caller = Some(key.caller.0);
            let is_first = caller != last_caller;
            last_caller = caller;
            let of_caller = scopes.caller.iter().filter(|_| is_first);
            let of_models = scopes.models.iter().map(|(_, scope)| scope);
            let mut all = of_caller.chain(&scopes.key).chain(of_models);
            if all.any(|scope| scope.is_used()) {
                self.add(key.key.0, &scopes.last_used);
            }
        }
    }

    /// Forgets the keys that the newest catalog does not have. These are its scopes.
    pub(super) fn keep(&self, scopes: &[KeyScopes]) {
        let mut keys = self.keys.lock();
        keys.retain(|(_, last_used)| last_used.is_of(scopes, last_used.index()));
    }

    /// Returns the positions of the keys in the catalog that has these scopes. `find` finds a key
    /// of the catalog by its id: it is called if the catalog is not the newest one.
    pub(super) fn positions(
        &self,
        scopes: &[KeyScopes],
        find: impl Fn(&str) -> Option<usize>,
    ) -> Vec<usize> {
        let keys = self.keys.lock();
        let positions = keys.iter().filter_map(|(id, last_used)| {
            let index = last_used.index();
            match last_used.is_of(scopes, index) {
                true => Some(index),
                false => find(id).filter(|index| last_used.is_of(scopes, *index)),
            }
        });
        let mut positions: Vec<usize> = positions.collect();
        positions.sort_unstable();
        positions
    }
}

impl LastUsed {
    /// Returns whether this is the last use of the key at a position.
    fn is_of(&self, scopes: &[KeyScopes], index: usize) -> bool {
        let known = scopes.get(index);
        known.is_some_and(|known| std::ptr::eq(&raw const *known.last_used, self))
    }
}

impl Scope {
    /// Returns whether anything was ever counted.
    fn is_used(&self) -> bool {
        self.shared.is_used.load(Ordering::Relaxed)
    }
}
