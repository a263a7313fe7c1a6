//! The scopes of subjects. The keys of subjects are in no catalog: each is made when a first token
//! of its subject comes, as a copy of a template, and forgotten when it was idle for a while.

use super::{Adoption, KeyLimits, KeyScopes, LastUsed, Limited, Past, Registry, seed_scopes};
use crate::limits::{Level, Limits, Scope};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// The scopes of a subject's key, and those of them that have counted nothing yet.
pub struct SubjectScopes {
    /// The scopes of the key.
    pub scopes: KeyScopes,
    new_scopes: HashMap<Arc<str>, (Arc<Scope>, Limits)>,
}

impl SubjectScopes {
    /// Returns whether a scope must get the use of before.
    pub fn lack_past(&self) -> bool {
        !self.new_scopes.is_empty()
    }

    /// Gives new scopes what was used before. Nothing may count in them until then.
    pub fn seed(&self, past: Vec<Past>) {
        seed_scopes(&self.new_scopes, past);
        self.new_scopes
            .values()
            .for_each(|(scope, _)| scope.begins());
    }
}

impl Registry {
    /// Returns the scopes of a subject's key. `models` are the ids of the catalog's models, by
    /// their positions. `last_used` is the last use of the key, if it is known.
    pub fn subject_scopes(
        &self,
        key: KeyLimits<'_>,
        models: &[&Arc<str>],
        last_used: Option<Arc<LastUsed>>,
    ) -> SubjectScopes {
        let mut scopes = self.scopes.lock();
        let mut adoption = Adoption {
            scopes_before: &scopes,
            scopes_now: HashMap::new(),
            new_scopes: HashMap::new(),
            changes: self.changes.as_ref(),
        };
        let (id, limits) = key.key;
        let of_key = (!limits.is_none()).then(|| adoption.scope(Level::Key, id, limits));
        let of_models = adoption.models(models, key);
        let Adoption {
            scopes_now,
            new_scopes,
            ..
        } = adoption;
        scopes.extend(scopes_now);
        drop(scopes);
        let purses = self.purses.lock().get(key.caller.0).cloned();
        let (purse, spool) = purses.unwrap_or_default();
        let scopes = KeyScopes {
            caller: self.callers.lock().get(key.caller.0).cloned(),
            key: of_key,
            models: of_models,
            last_used: last_used.unwrap_or_default(),
            purse,
            spool,
        };
        SubjectScopes { scopes, new_scopes }
    }

    /// Forgets the scopes that nobody holds.
    pub fn forget_dropped(&self) {
        self.scopes
            .lock()
            .retain(|_, scope| Weak::strong_count(scope) > 0);
    }
}

impl KeyScopes {
    /// Returns whether somebody else holds one of the scopes that only this key has: a request that
    /// runs, or the list of what the store must get.
    pub fn are_held(&self) -> bool {
        let of_models = self.models.iter().map(|(_, scope)| scope);
        self.key
            .iter()
            .chain(of_models)
            .any(|scope| Arc::strong_count(scope) > 1)
    }
}

impl LastUsed {
    /// Notes a use of a subject's key at this time, in milliseconds of Unix time. Returns whether
    /// the use before was in an earlier second.
    pub fn touch_subject(&self, now: u64) -> bool {
        self.touch(now)
    }
}

/// The beginnings of the names of subjects' keys, each with the models that are limited.
pub(super) struct SubjectPrefixes<'c> {
    keys: HashSet<&'c str>,
    of_models: HashSet<(&'c str, &'c str)>,
}

impl<'c> SubjectPrefixes<'c> {
    pub(super) fn new(limited: &Limited<'c>) -> SubjectPrefixes<'c> {
        let mut prefixes = SubjectPrefixes {
            keys: HashSet::new(),
            of_models: HashSet::new(),
        };
        for template in &limited.templates {
            let (prefix, limits) = template.key;
            if !limits.is_none() {
                prefixes.keys.insert(prefix);
            }
            let models = template.models.iter();
            let models = models.filter(|(_, limits)| !limits.is_none());
            let models = models.filter_map(|(index, _)| limited.models.get(*index));
            prefixes
                .of_models
                .extend(models.map(|model| (&**prefix, &***model)));
        }
        prefixes
    }

    /// Returns whether the scope with this name is one of a subject that the catalog limits.
    pub(super) fn limit(&self, name: &str) -> bool {
        let Some((prefix, subject)) = name
            .find(':')
            .and_then(|colon| name.split_at_checked(colon + 1))
        else {
            return false;
        };
        match subject.split_once(' ') {
            Some((_, model)) => self.of_models.contains(&(prefix, model)),
            None => self.keys.contains(prefix),
        }
    }
}
