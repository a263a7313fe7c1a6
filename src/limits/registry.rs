//! All scopes by their names, and when each key was last used: what outlives catalogs.
//!
//! They belong to the catalogs and reservations that hold them. A scope that nobody has counted for
//! yet begins with what was used before, so that neither a restart nor a new limit forgets it. What
//! has no limits has no scope, and costs nothing.

use super::tally::STEP_BACK;
use super::{Bound, Bounds, Changes, Level, Limits, Scope, Spent};
use crate::catalog::{Catalog, Key};
use crate::memory::Purse;
use crate::price::Usd;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What was used before: what scopes begin with. No two of them count the same, and one that sums
/// up a while is of its begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// When, in milliseconds of Unix time; never later than now.
    pub at: u64,
    /// The day that it is of, where that is still to come: then a clock was ahead, and it counts
    /// for the day or month of `at`, too.
    pub dated: Option<u64>,
    /// By which caller.
    pub caller: Arc<str>,
    /// With which key, as [`Key::id`] has it.
    pub key: Arc<str>,
    /// The id of the model that was asked for.
    pub model: Arc<str>,
    /// How many requests.
    pub requests: u64,
    /// How many tokens.
    pub tokens: u64,
    /// What they cost, as far as that is known.
    pub usd: Usd,
    /// How many of the requests cost what nobody knows.
    pub unpriced: u64,
    /// It ran in a process that died, and was taken over from it: whoever keeps counts elsewhere
    /// has it as only reserved.
    pub cut: bool,
}

/// When a key was last used. A key has one, limits or not, and keeps it from catalog to catalog.
#[derive(Debug, Default)]
pub struct LastUsed {
    at: AtomicU64,
    old_hash: AtomicU64,
    old_hash_at: AtomicU64,
}

impl LastUsed {
    /// It is used at this time, in milliseconds of Unix time. Whether the time before was in an
    /// earlier second: whoever keeps it elsewhere need not be told more often.
    pub fn touch(&self, at: u64) -> bool {
        let before = latest(&self.at, at);
        before / 1_000 < at / 1_000 || was_wrong(before, at)
    }

    /// When it was, in milliseconds of Unix time, if it ever was.
    pub fn at(&self) -> Option<u64> {
        Some(self.at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// It is used by a secret that is about to expire.
    pub fn by_old_hash(&self, at: u64) {
        self.old_hash.fetch_add(1, Ordering::Relaxed);
        latest(&self.old_hash_at, at);
    }

    /// When it was used by such a one last, in milliseconds of Unix time, if it ever was.
    pub fn old_hash_at(&self) -> Option<u64> {
        Some(self.old_hash_at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// How often it was.
    pub fn old_hash_uses(&self) -> u64 {
        self.old_hash.load(Ordering::Relaxed)
    }
}

/// Remembers the later one, and says what was there before. Threads that use one key would take its
/// line of memory from each other for nothing if it were always written.
fn latest(last: &AtomicU64, at: u64) -> u64 {
    let before = last.load(Ordering::Relaxed);
    if was_wrong(before, at) {
        // If somebody else is faster, it is as late as this.
        last.compare_exchange(before, at, Ordering::Relaxed, Ordering::Relaxed).ok();
    } else if before < at {
        last.fetch_max(at, Ordering::Relaxed);
    }
    before
}

/// The clock was ahead then.
fn was_wrong(before: u64, now: u64) -> bool {
    before.saturating_sub(now) > STEP_BACK
}

/// The scopes of one key.
#[derive(Debug, Default, Clone)]
pub struct KeyScopes {
    caller: Option<Arc<Scope>>,
    key: Option<Arc<Scope>>,
    /// By the model's position, sorted.
    models: Vec<(usize, Arc<Scope>)>,
    /// When the key was last used.
    pub used: Arc<LastUsed>,
    /// What its caller holds in memory.
    pub purse: Arc<Purse>,
}

impl KeyScopes {
    /// What bounds an exchange of the key, which is of the same catalog, for a model, given by its
    /// position.
    pub fn bounds<'a>(&'a self, key: &'a Key, model: usize) -> Bounds<'a> {
        Bounds([
            self.caller.as_ref().map(|scope| Bound { limits: &key.caller.limits, scope }),
            self.key.as_ref().map(|scope| Bound { limits: &key.limits, scope }),
            of_model(&self.models, model)
                .zip(of_model(&key.model_limits, model))
                .map(|(scope, limits)| Bound { limits, scope }),
        ])
    }

    /// What bounds all that the key asks for: what is known of it before its body is.
    pub fn entry<'a>(&'a self, key: &'a Key) -> Bounds<'a> {
        Bounds([
            self.caller.as_ref().map(|scope| Bound { limits: &key.caller.limits, scope }),
            self.key.as_ref().map(|scope| Bound { limits: &key.limits, scope }),
            None,
        ])
    }

    /// All that bounds the key, whatever is asked for.
    pub fn every<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = Bound<'a>> {
        let models = self
            .models
            .iter()
            .filter_map(|(index, scope)| Some(Bound { limits: of_model(&key.model_limits, *index)?, scope }));
        let caller = self.caller.as_ref().map(|scope| Bound { limits: &key.caller.limits, scope });
        caller.into_iter().chain(self.key.as_ref().map(|scope| Bound { limits: &key.limits, scope })).chain(models)
    }

    /// All of them, from the caller's down.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.caller.iter().chain(&self.key).chain(self.models.iter().map(|(_, scope)| scope))
    }
}

fn of_model<T>(of_models: &[(usize, T)], model: usize) -> Option<&T> {
    let at = of_models.binary_search_by_key(&model, |(index, _)| *index).ok()?;
    of_models.get(at).map(|(_, of_model)| of_model)
}

/// All scopes. Their names tell levels apart: no caller's has a slash, no key's a space.
#[derive(Default)]
pub struct Registry {
    scopes: Mutex<HashMap<Arc<str>, Weak<Scope>>>,
    /// Of the newest catalog's keys, in its order.
    used: Mutex<Vec<(Arc<str>, Arc<LastUsed>)>>,
    /// Of the newest catalog's callers.
    purses: Mutex<HashMap<Arc<str>, Arc<Purse>>>,
    changes: Option<Arc<Changes>>,
    /// What was used before could not be told to whoever asks now.
    owed: AtomicBool,
    /// Those that began with nothing therefore, and how they are limited.
    unseeded: Mutex<Unseeded>,
}

type Unseeded = HashMap<Arc<str>, (Weak<Scope>, Limits)>;

impl Registry {
    /// What its scopes count is kept elsewhere too.
    pub fn shared(changes: Arc<Changes>) -> Registry {
        Registry { changes: Some(changes), ..Registry::default() }
    }

    /// The scopes of a catalog's keys, by [`Key::index`]. Where one is new, all that was used
    /// before is asked for, once. What this catalog does not limit is forgotten, whoever holds it
    /// still: it is not counted any more, and would not know of it if it came back.
    pub fn adopt(&self, catalog: &Catalog, seeds: &mut dyn FnMut() -> Vec<Past>) -> Vec<KeyScopes> {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut adoption =
            Adoption { before: &scopes, now: HashMap::new(), new: HashMap::new(), changes: self.changes.as_ref() };
        let limited = catalog.callers().iter().filter(|caller| !caller.limits.is_none());
        let callers: HashMap<&str, Arc<Scope>> =
            limited.map(|caller| (&*caller.id, adoption.scope(Level::Caller, &caller.id, &caller.limits))).collect();
        let mut purses = self.purses.lock().unwrap_or_else(PoisonError::into_inner);
        *purses = catalog
            .callers()
            .iter()
            .map(|caller| (caller.id.clone(), purses.get(&caller.id).cloned().unwrap_or_default()))
            .collect();
        // In the order in which they were made: in that of their hashes each one would be waited
        // for.
        let mut keys: Vec<Option<&Arc<Key>>> = vec![None; catalog.key_total()];
        for key in catalog.keys() {
            if let Some(place) = keys.get_mut(key.index) {
                *place = Some(key);
            }
        }
        let mut known = Known { list: std::mem::take(&mut *used), next: 0, by_id: None };
        used.reserve(keys.len());
        let mut of_key = |key: &Arc<Key>| {
            let last = known.find(&key.id).unwrap_or_default();
            used.push((key.id.clone(), last.clone()));
            KeyScopes {
                caller: callers.get(&*key.caller.id).cloned(),
                key: (!key.limits.is_none()).then(|| adoption.scope(Level::Key, &key.id, &key.limits)),
                models: adoption.models(catalog, key),
                used: last,
                purse: purses.get(&key.caller.id).cloned().unwrap_or_default(),
            }
        };
        let all = keys.into_iter().map(|key| key.map(&mut of_key).unwrap_or_default()).collect();
        if !adoption.new.is_empty() {
            let (cut, past) = seeds().into_iter().partition(|past| past.cut);
            seed(&adoption.new, past);
            adoption.new.values().for_each(|(scope, _)| scope.begins());
            seed(&adoption.new, cut);
            if self.owed.swap(false, Ordering::SeqCst) {
                let began =
                    adoption.new.iter().map(|(name, (scope, limits))| (name.clone(), (Arc::downgrade(scope), *limits)));
                self.unseeded.lock().unwrap_or_else(PoisonError::into_inner).extend(began);
            }
        }
        let now = adoption.now;
        scopes
            .iter()
            .filter(|(name, _)| !now.contains_key(*name))
            .filter_map(|(_, old)| old.upgrade())
            .for_each(|old| old.retire());
        *scopes = now;
        all
    }

    /// Whoever is asked for seeds says so if they are not known: those that are new remain to be
    /// told, by [`Registry::recall`].
    pub fn owe(&self) {
        self.owed.store(true, Ordering::SeqCst);
    }

    /// What was used before the scopes began that could not be told so far. It is told to them,
    /// once.
    pub fn recall(&self, past: Vec<Past>) {
        let unseeded = {
            // Whoever adopts has it until those that are new are listed.
            let _adopted = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *self.unseeded.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let held = unseeded.into_iter().filter_map(|(name, (scope, limits))| Some((name, (scope.upgrade()?, limits))));
        seed(&held.collect(), past);
    }

    /// An exchange ends that began under another catalog: those that bound its key now, but did not
    /// know of it, are told what it used. `held` are those that knew.
    pub fn late<'s>(&self, past: &Past, held: impl Iterator<Item = &'s Arc<Scope>>) {
        let held: Vec<&Arc<Scope>> = held.collect();
        let now = {
            let scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
            let of_model = of_key_and_model(&past.key, &past.model);
            [&*past.caller, &*past.key, &of_model].map(|name| scopes.get(name).and_then(Weak::upgrade))
        };
        for scope in now.iter().flatten().filter(|scope| !held.iter().any(|held| Arc::ptr_eq(held, scope))) {
            scope.tally().recall(past.at, past.dated, past.requests, Spent { tokens: past.tokens, usd: past.usd });
            scope.lacks(past.at, past.unpriced);
            scope.changed();
        }
    }

    /// The scopes that are held, in no order.
    pub fn scopes(&self) -> Vec<Arc<Scope>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).values().filter_map(Weak::upgrade).collect()
    }
}

/// What the last catalog's keys were used, looked up by keys that are mostly the same in the same
/// order: then nothing is hashed.
struct Known {
    list: Vec<(Arc<str>, Arc<LastUsed>)>,
    next: usize,
    by_id: Option<HashMap<Arc<str>, usize>>,
}

impl Known {
    fn find(&mut self, id: &Arc<str>) -> Option<Arc<LastUsed>> {
        let at = if self.list.get(self.next).is_some_and(|(known, _)| known == id) {
            self.next
        } else {
            let number = || self.list.iter().enumerate().map(|(at, (known, _))| (known.clone(), at)).collect();
            *self.by_id.get_or_insert_with(number).get(id)?
        };
        self.next = at + 1;
        self.list.get(at).map(|(_, used)| used.clone())
    }
}

struct Adoption<'r> {
    before: &'r HashMap<Arc<str>, Weak<Scope>>,
    now: HashMap<Arc<str>, Weak<Scope>>,
    new: HashMap<Arc<str>, (Arc<Scope>, Limits)>,
    changes: Option<&'r Arc<Changes>>,
}

impl Adoption<'_> {
    fn scope(&mut self, level: Level, name: &Arc<str>, limits: &Limits) -> Arc<Scope> {
        if let Some(scope) = self.before.get(name).and_then(Weak::upgrade) {
            self.now.insert(scope.name.clone(), Arc::downgrade(&scope));
            return scope;
        }
        let scope = Scope::new(level, name.clone());
        let scope = Arc::new(match self.changes {
            Some(changes) => scope.shared(changes.clone()),
            None => scope,
        });
        self.now.insert(name.clone(), Arc::downgrade(&scope));
        self.new.insert(name.clone(), (scope.clone(), *limits));
        scope
    }

    fn models(&mut self, catalog: &Catalog, key: &Key) -> Vec<(usize, Arc<Scope>)> {
        let limited = key.model_limits.iter().filter(|(_, limits)| !limits.is_none());
        let named = limited.filter_map(|(index, limits)| {
            let model = catalog.models().get(*index)?;
            Some((*index, self.scope(Level::KeyModel, &of_key_and_model(&key.id, &model.id).into(), limits)))
        });
        named.collect()
    }
}

fn seed(new: &HashMap<Arc<str>, (Arc<Scope>, Limits)>, past: Vec<Past>) {
    let of_models = new.values().any(|(scope, _)| scope.level == Level::KeyModel);
    for Past { at, dated, caller, key, model, requests, tokens, usd, unpriced, cut: _ } in past {
        let model = of_models.then(|| of_key_and_model(&key, &model));
        for name in [Some(&*caller), Some(&*key), model.as_deref()].into_iter().flatten() {
            if let Some((scope, limits)) = new.get(name) {
                let mut tally = scope.tally();
                tally.watch(limits);
                tally.recall(at, dated, requests, Spent { tokens, usd });
                drop(tally);
                scope.lacks(at, unpriced);
                scope.changed();
            }
        }
    }
}

fn of_key_and_model(key: &str, model: &str) -> String {
    format!("{key} {model}")
}

#[cfg(test)]
mod tests;
