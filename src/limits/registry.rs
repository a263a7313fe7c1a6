//! All scopes by their names, and when each key was last used: what outlives catalogs.
//!
//! They belong to the catalogs and reservations that hold them. A scope that nobody has counted for
//! yet begins with what was used before, so that neither a restart nor a new limit forgets it. What
//! has no limits has no scope, and costs nothing.

use super::tally::STEP_BACK;
use super::{Bound, Bounds, Changes, Level, Limits, Scope, Spent};
use crate::base::lock::Lock;
use crate::base::memory::Purse;
use crate::conf::price::Usd;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What was used before: what scopes begin with. No two of them count the same, and one that sums
/// up a while is of its begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// When, in milliseconds of Unix time; never later than now.
    pub at: u64,
    /// The day that it is of, where that is still to come: then a clock was ahead, and it counts
    /// for the day or month of `at`, too.
    pub dated: Option<u64>,
    /// By which caller.
    pub caller: Arc<str>,
    /// With which key, as the catalog has it.
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

    /// Returns when it was, in milliseconds of Unix time, if it ever was.
    pub fn at(&self) -> Option<u64> {
        Some(self.at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// It is used by a secret that is about to expire.
    pub fn by_old_hash(&self, at: u64) {
        self.old_hash.fetch_add(1, Ordering::Relaxed);
        latest(&self.old_hash_at, at);
    }

    /// Returns when it was used by such a one last, in milliseconds of Unix time, if it ever was.
    pub fn old_hash_at(&self) -> Option<u64> {
        Some(self.old_hash_at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Returns how often it was.
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

/// Tells whether the clock was ahead then.
fn was_wrong(before: u64, now: u64) -> bool {
    before.saturating_sub(now) > STEP_BACK
}

/// A key, with the limits that bound it, as its catalog has them.
#[derive(Debug, Clone, Copy)]
pub struct KeyLimits<'c> {
    /// Its name, and what it may use.
    pub key: (&'c Arc<str>, &'c Limits),
    /// Its caller's name, and what all keys of that may use together.
    pub caller: (&'c Arc<str>, &'c Limits),
    /// What the key may use of single models besides: by the models' positions, sorted.
    pub models: &'c [(usize, Limits)],
}

/// Whoever has limits in a catalog, or may have.
#[derive(Debug)]
pub struct Limited<'c> {
    /// The callers' names, and what each may use.
    pub callers: Vec<(&'c Arc<str>, &'c Limits)>,
    /// The keys, in the order in which they were made; `None` where a number has no key.
    pub keys: Vec<Option<KeyLimits<'c>>>,
    /// The ids of models, by their positions.
    pub models: Vec<&'c Arc<str>>,
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
    /// Returns what bounds an exchange of the key, which is of the same catalog, for a model, given
    /// by its position.
    pub fn bounds<'a>(&'a self, key: impl Into<KeyLimits<'a>>, model: usize) -> Bounds<'a> {
        let key = key.into();
        let of_model = of_model(&self.models, model).zip(of_model(key.models, model));
        Bounds([self.caller(key), self.key(key), of_model.map(|(scope, limits)| Bound { limits, scope })])
    }

    /// Returns what bounds all that the key asks for: what is known of it before its body is.
    pub fn entry<'a>(&'a self, key: impl Into<KeyLimits<'a>>) -> Bounds<'a> {
        let key = key.into();
        Bounds([self.caller(key), self.key(key), None])
    }

    /// Returns all that bounds the key, whatever is asked for.
    pub fn every<'a>(&'a self, key: impl Into<KeyLimits<'a>>) -> impl Iterator<Item = Bound<'a>> {
        let key = key.into();
        let models = self
            .models
            .iter()
            .filter_map(move |(index, scope)| Some(Bound { limits: of_model(key.models, *index)?, scope }));
        self.caller(key).into_iter().chain(self.key(key)).chain(models)
    }

    fn caller<'a>(&'a self, key: KeyLimits<'a>) -> Option<Bound<'a>> {
        self.caller.as_ref().map(|scope| Bound { limits: key.caller.1, scope })
    }

    fn key<'a>(&'a self, key: KeyLimits<'a>) -> Option<Bound<'a>> {
        self.key.as_ref().map(|scope| Bound { limits: key.key.1, scope })
    }

    /// Returns all of them, from the caller's down.
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
    scopes: Lock<HashMap<Arc<str>, Weak<Scope>>>,
    /// Of the newest catalog's keys, in its order.
    used: Lock<Vec<(Arc<str>, Arc<LastUsed>)>>,
    /// Of the newest catalog's callers.
    purses: Lock<HashMap<Arc<str>, Arc<Purse>>>,
    changes: Option<Arc<Changes>>,
    /// What was used before could not be told to whoever asks now.
    owed: AtomicBool,
    /// Those that began with nothing therefore, and how they are limited.
    unseeded: Lock<Unseeded>,
}

type Unseeded = HashMap<Arc<str>, (Weak<Scope>, Limits)>;

impl Registry {
    /// Returns a registry whose scopes' counts are kept elsewhere too.
    pub fn shared(changes: Arc<Changes>) -> Registry {
        Registry { changes: Some(changes), ..Registry::default() }
    }

    /// Returns the scopes of a catalog's keys, in the order of its keys. Where one is new, all that
    /// was used before is asked for, once. What this catalog does not limit is forgotten, whoever
    /// holds it still: it is not counted any more, and would not know of it if it came back.
    pub fn adopt<'c>(&self, catalog: impl Into<Limited<'c>>, seeds: &mut dyn FnMut() -> Vec<Past>) -> Vec<KeyScopes> {
        let limited: Limited<'c> = catalog.into();
        let mut scopes = self.scopes.lock();
        let mut used = self.used.lock();
        let mut adoption =
            Adoption { before: &scopes, now: HashMap::new(), new: HashMap::new(), changes: self.changes.as_ref() };
        let callers = limited.callers.iter().filter(|(_, limits)| !limits.is_none());
        let callers: HashMap<&str, Arc<Scope>> =
            callers.map(|(id, limits)| (&***id, adoption.scope(Level::Caller, id, limits))).collect();
        let mut purses = self.purses.lock();
        *purses = limited
            .callers
            .iter()
            .map(|(id, _)| (Arc::clone(id), purses.get(*id).cloned().unwrap_or_default()))
            .collect();
        let mut known = LastUses { list: std::mem::take(&mut *used), next: 0, by_id: None };
        used.reserve(limited.keys.len());
        let mut of_key = |key: KeyLimits<'c>| {
            let ((id, limits), (caller, _)) = (key.key, key.caller);
            let last = known.find(id).unwrap_or_default();
            used.push((id.clone(), last.clone()));
            KeyScopes {
                caller: callers.get(&**caller).cloned(),
                key: (!limits.is_none()).then(|| adoption.scope(Level::Key, id, limits)),
                models: adoption.models(&limited.models, key),
                used: last,
                purse: purses.get(caller).cloned().unwrap_or_default(),
            }
        };
        let all = limited.keys.iter().map(|key| key.map(&mut of_key).unwrap_or_default()).collect();
        if !adoption.new.is_empty() {
            let (cut, past) = seeds().into_iter().partition(|past| past.cut);
            seed(&adoption.new, past);
            adoption.new.values().for_each(|(scope, _)| scope.begins());
            seed(&adoption.new, cut);
            if self.owed.swap(false, Ordering::SeqCst) {
                let began =
                    adoption.new.iter().map(|(name, (scope, limits))| (name.clone(), (Arc::downgrade(scope), *limits)));
                self.unseeded.lock().extend(began);
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
            let _adopted = self.scopes.lock();
            std::mem::take(&mut *self.unseeded.lock())
        };
        let held = unseeded.into_iter().filter_map(|(name, (scope, limits))| Some((name, (scope.upgrade()?, limits))));
        seed(&held.collect(), past);
    }

    /// Counts an exchange that began under another catalog, at its end, in the scopes that bound
    /// its key now. The scopes in `held` have counted it already.
    pub fn late<'s>(&self, past: &Past, held: impl Iterator<Item = &'s Arc<Scope>>) {
        let held: Vec<&Arc<Scope>> = held.collect();
        let now = {
            let scopes = self.scopes.lock();
            let of_model = of_key_and_model(&past.key, &past.model);
            [&*past.caller, &*past.key, &of_model].map(|name| scopes.get(name).and_then(Weak::upgrade))
        };
        for scope in now.iter().flatten().filter(|scope| !held.iter().any(|held| Arc::ptr_eq(held, scope))) {
            scope.recall(past);
        }
    }

    /// Returns the scopes that are held, in no order.
    pub fn scopes(&self) -> Vec<Arc<Scope>> {
        self.scopes.lock().values().filter_map(Weak::upgrade).collect()
    }
}

/// What the last catalog's keys were used, looked up by keys that are mostly the same in the same
/// order: then nothing is hashed.
struct LastUses {
    list: Vec<(Arc<str>, Arc<LastUsed>)>,
    next: usize,
    by_id: Option<HashMap<Arc<str>, usize>>,
}

impl LastUses {
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
        let scope = Arc::new(Scope::new(level, name.clone()).shared(self.changes.cloned()));
        self.now.insert(name.clone(), Arc::downgrade(&scope));
        self.new.insert(name.clone(), (scope.clone(), *limits));
        scope
    }

    fn models(&mut self, models: &[&Arc<str>], key: KeyLimits<'_>) -> Vec<(usize, Arc<Scope>)> {
        let limited = key.models.iter().filter(|(_, limits)| !limits.is_none());
        let named = limited.filter_map(|(index, limits)| {
            let name = of_key_and_model(key.key.0, models.get(*index)?);
            Some((*index, self.scope(Level::KeyModel, &name.into(), limits)))
        });
        named.collect()
    }
}

fn seed(new: &HashMap<Arc<str>, (Arc<Scope>, Limits)>, past: Vec<Past>) {
    let of_models = new.values().any(|(scope, _)| scope.level == Level::KeyModel);
    for past in past {
        let model = of_models.then(|| of_key_and_model(&past.key, &past.model));
        for name in [Some(&*past.caller), Some(&*past.key), model.as_deref()].into_iter().flatten() {
            if let Some((scope, limits)) = new.get(name) {
                scope.tally().watch(limits);
                scope.recall(&past);
            }
        }
    }
}

impl Scope {
    /// Adds what was used before.
    fn recall(self: &Arc<Scope>, past: &Past) {
        self.tally().recall(past.at, past.dated, past.requests, Spent { tokens: past.tokens, usd: past.usd });
        self.lacks(past.at, past.unpriced);
        self.changed();
    }
}

fn of_key_and_model(key: &str, model: &str) -> String {
    format!("{key} {model}")
}

#[cfg(test)]
mod tests;
