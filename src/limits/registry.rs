//! A [`Registry`] has all scopes by their names, and the time at which each key was last used. It
//! outlives catalogs.
//!
//! Scopes belong to the catalogs and reservations that hold them. A new scope begins with what was
//! used before it, so that neither a restart nor a new limit forgets that use. A caller, a key or a
//! key's model without limits has no scope, and costs nothing.

use super::tally::STEP_BACK;
use super::{Bound, Bounds, Changes, Level, Limits, Scope, Used};
use crate::base::lock::Lock;
use crate::base::memory::Purse;
use crate::conf::price::Usd;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use subjects::SubjectPrefixes;
pub use subjects::SubjectScopes;
use used::UsedKeys;

mod subjects;
mod used;

/// An amount that was used before. Scopes begin with such amounts. No two of them count the same
/// use. If one sums up a day, its time is the beginning of that day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// The time of the use, in milliseconds of Unix time; never later than now.
    pub used_at: u64,
    /// The day of the use, if it is still to come: then a clock was ahead, and the use also counts
    /// for the day or month of `at`.
    pub dated: Option<u64>,
    /// The caller that used it.
    pub caller: Arc<str>,
    /// The key that used it, as the catalog has it.
    pub key: Arc<str>,
    /// The id of the model that was asked for.
    pub model: Arc<str>,
    /// The number of requests.
    pub requests: u64,
    /// The number of tokens.
    pub tokens: u64,
    /// The cost of the tokens, as far as it is known.
    pub usd: Usd,
    /// The number of requests whose cost is not known.
    pub unpriced: u64,
    /// True if the use was taken over from a process that died: the store counts it only as
    /// reserved.
    pub is_taken_over: bool,
}

/// The time at which a key was last used, and the counts of tokens that run for it. Each key has
/// one, with or without limits, and keeps it when the catalog changes.
#[derive(Debug, Default)]
pub struct LastUsed {
    used_at: AtomicU64,
    old_hash: AtomicU64,
    old_hash_at: AtomicU64,
    asked_at: AtomicU64,
    /// The key's position in the newest catalog.
    index: AtomicU32,
    counts: AtomicU8,
    /// True if the registry lists the key as one that was used.
    is_listed: AtomicBool,
}

/// A place for a count of a request's tokens. It is given back when it is dropped.
pub struct CountPermit(Arc<LastUsed>);

impl Drop for CountPermit {
    fn drop(&mut self) {
        self.0.counts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LastUsed {
    /// Notes a use of the key at this time, in milliseconds of Unix time. Returns whether the use
    /// before was in an earlier second.
    fn touch(&self, now: u64) -> bool {
        let before = store_latest(&self.used_at, now);
        before / 1_000 < now / 1_000 || was_wrong(before, now)
    }

    /// Takes a place for a count of a request's tokens, if the key has one left.
    pub fn count(self: &Arc<LastUsed>) -> Option<CountPermit> {
        /// The most counts of a key at once.
        const COUNTS: u8 = 10;
        let taken = self
            .counts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < COUNTS).then_some(n + 1)
            });
        taken.ok().map(|_| CountPermit(self.clone()))
    }

    /// Notes that the key asks about itself at this time, in milliseconds of Unix time. Returns
    /// false if it asked less than a second ago.
    pub fn may_ask(&self, now: u64) -> bool {
        const EACH: u64 = 1_000;
        let asked = self
            .asked_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |asked| {
                (now >= asked.saturating_add(EACH) || was_wrong(asked, now)).then_some(now)
            });
        asked.is_ok()
    }

    /// Returns the key's position in the newest catalog.
    pub fn index(&self) -> usize {
        usize::try_from(self.index.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Returns the time of the last use, in milliseconds of Unix time, if there was one.
    pub fn last_used_at(&self) -> Option<u64> {
        Some(self.used_at.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Notes a use of the key with a secret that is about to expire.
    pub fn note_old_hash(&self, now: u64) {
        self.old_hash.fetch_add(1, Ordering::Relaxed);
        store_latest(&self.old_hash_at, now);
    }

    /// Returns the time of the last use with such a secret, in milliseconds of Unix time, if there
    /// was one.
    pub fn old_hash_at(&self) -> Option<u64> {
        Some(self.old_hash_at.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Returns the number of uses with such a secret.
    pub fn old_hash_uses(&self) -> u64 {
        self.old_hash.load(Ordering::Relaxed)
    }
}

/// Stores the later of the two times, and returns the stored one from before. It writes only if it
/// must: threads that use one key would otherwise take the memory's cache line from each other.
fn store_latest(last: &AtomicU64, time: u64) -> u64 {
    let before = last.load(Ordering::Relaxed);
    if was_wrong(before, time) {
        // If another thread writes first, its time is as good as this one.
        last.compare_exchange(before, time, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
    } else if before < time {
        last.fetch_max(time, Ordering::Relaxed);
    }
    before
}

/// Returns whether the clock was ahead at the time `before`.
fn was_wrong(before: u64, now: u64) -> bool {
    before.saturating_sub(now) > STEP_BACK
}

/// A key and the limits that bound it, as its catalog has them.
#[derive(Debug, Clone, Copy)]
pub struct KeyLimits<'c> {
    /// The key's name, and its limits.
    pub key: (&'c Arc<str>, &'c Limits),
    /// The caller's name, and the limits of all its keys together.
    pub caller: (&'c Arc<str>, &'c Limits),
    /// The key's further limits for single models, by the models' positions, sorted.
    pub models: &'c [(usize, Limits)],
}

/// The callers and keys of a catalog, each with its limits.
#[derive(Debug)]
pub struct Limited<'c> {
    /// The callers' names, and the limits of each.
    pub callers: Vec<(&'c Arc<str>, &'c Limits)>,
    /// The keys, in the catalog's order: those of a caller follow each other.
    pub keys: Vec<KeyLimits<'c>>,
    /// The ids of models, by their positions.
    pub models: Vec<&'c Arc<str>>,
    /// The keys of which the keys of subjects are copies. The name of such a key is the beginning
    /// of the names of its copies.
    pub templates: Vec<KeyLimits<'c>>,
}

/// The scopes of one key.
#[derive(Debug, Default, Clone)]
pub struct KeyScopes {
    caller: Option<Arc<Scope>>,
    key: Option<Arc<Scope>>,
    /// The scopes of single models, by the models' positions, sorted.
    models: Vec<(usize, Arc<Scope>)>,
    /// The time at which the key was last used.
    pub last_used: Arc<LastUsed>,
    /// The memory that requests of its caller hold.
    pub purse: Arc<Purse>,
    /// The part of the spool that they hold.
    pub spool: Arc<Purse>,
}

impl KeyScopes {
    /// Returns the scopes of a catalog's keys, in the order of its keys, as if nothing was used.
    pub fn unused<'c>(catalog: impl Into<Limited<'c>>) -> Vec<KeyScopes> {
        Registry::default().adopt(catalog, &mut Vec::new)
    }

    /// Returns the bounds of an exchange of the key, which is of the same catalog. `model` is the
    /// model's position.
    pub fn bounds<'a>(&'a self, key: impl Into<KeyLimits<'a>>, model: usize) -> Bounds<'a> {
        let key = key.into();
        let of_model = of_model(&self.models, model).zip(of_model(key.models, model));
        Bounds([
            self.caller(key),
            self.key(key),
            of_model.map(|(scope, limits)| Bound { limits, scope }),
        ])
    }

    /// Returns the bounds of all exchanges of the key, whatever their model: those that are known
    /// before the body is read.
    pub fn entry<'a>(&'a self, key: impl Into<KeyLimits<'a>>) -> Bounds<'a> {
        let key = key.into();
        Bounds([self.caller(key), self.key(key), None])
    }

    /// Returns all bounds of the key, those of all its models included.
    pub fn every<'a>(&'a self, key: impl Into<KeyLimits<'a>>) -> impl Iterator<Item = Bound<'a>> {
        let key = key.into();
        let models = self.models.iter().filter_map(move |(index, scope)| {
            Some(Bound {
                limits: of_model(key.models, *index)?,
                scope,
            })
        });
        self.caller(key)
            .into_iter()
            .chain(self.key(key))
            .chain(models)
    }

    fn caller<'a>(&'a self, key: KeyLimits<'a>) -> Option<Bound<'a>> {
        self.caller.as_ref().map(|scope| Bound {
            limits: key.caller.1,
            scope,
        })
    }

    fn key<'a>(&'a self, key: KeyLimits<'a>) -> Option<Bound<'a>> {
        self.key.as_ref().map(|scope| Bound {
            limits: key.key.1,
            scope,
        })
    }
}

fn of_model<T>(of_models: &[(usize, T)], model: usize) -> Option<&T> {
    let position = of_models
        .binary_search_by_key(&model, |(index, _)| *index)
        .ok()?;
    of_models.get(position).map(|(_, of_model)| of_model)
}

/// All scopes, by their names. A name tells the level: a caller's name has no slash, and a key's no
/// space.
#[derive(Default)]
pub struct Registry {
    scopes: Lock<HashMap<Arc<str>, Weak<Scope>>>,
    /// The scopes of the newest catalog's callers, if it has identities: a caller may have no keys
    /// but those of subjects, which come and go.
    callers: Lock<HashMap<Arc<str>, Arc<Scope>>>,
    /// The last uses of the newest catalog's keys, in its order.
    last_uses: Lock<Vec<(Arc<str>, Arc<LastUsed>)>>,
    used_keys: UsedKeys,
    /// The purses of the newest catalog's callers: of memory, and of the spool.
    purses: Lock<HashMap<Arc<str>, Purses>>,
    changes: Option<Arc<Changes>>,
    /// True if the past could not be read when it was last asked for.
    is_past_unread: AtomicBool,
    /// The scopes that therefore began with nothing, and their limits.
    unseeded: Lock<Unseeded>,
}

type Purses = (Arc<Purse>, Arc<Purse>);
type Unseeded = HashMap<Arc<str>, (Weak<Scope>, Limits)>;

impl Registry {
    /// Makes a registry whose scopes list their changes in `changes`.
    pub fn shared(changes: Arc<Changes>) -> Registry {
        Registry {
            changes: Some(changes),
            ..Registry::default()
        }
    }

    /// Returns the scopes of a catalog's keys, in the order of its keys. If a scope is new, `seeds`
    /// is asked once for all that was used before. A scope that this catalog does not limit is
    /// forgotten, even if somebody still holds it: it misses what is used from now on, and its
    /// counts would be wrong if it came back.
    pub fn adopt<'c>(
        &self,
        catalog: impl Into<Limited<'c>>,
        seeds: &mut dyn FnMut() -> Vec<Past>,
    ) -> Vec<KeyScopes> {
        let limited: Limited<'c> = catalog.into();
        let mut scopes = self.scopes.lock();
        let mut used = self.last_uses.lock();
        let mut adoption = Adoption {
            scopes_before: &scopes,
            scopes_now: HashMap::new(),
            new_scopes: HashMap::new(),
            changes: self.changes.as_ref(),
        };
        let callers = limited
            .callers
            .iter()
            .filter(|(_, limits)| !limits.is_none());
        let callers: HashMap<Arc<str>, Arc<Scope>> = callers
            .map(|(id, limits)| (Arc::clone(id), adoption.scope(Level::Caller, id, limits)))
            .collect();
        let mut purses = self.purses.lock();
        *purses = limited
            .callers
            .iter()
            .map(|(id, _)| (Arc::clone(id), purses.get(*id).cloned().unwrap_or_default()))
            .collect();
        let mut known = LastUses {
            list: std::mem::take(&mut *used),
            next_index: 0,
            by_id: None,
        };
        used.reserve(limited.keys.len());
        let all = limited.keys.iter().zip(0_u32..).map(|(key, index)| {
            let key = *key;
            let ((id, limits), (caller, _)) = (key.key, key.caller);
            let last = known.find(id).unwrap_or_default();
            last.index.store(index, Ordering::Relaxed);
            used.push((id.clone(), last.clone()));
            let (purse, spool) = purses.get(caller).cloned().unwrap_or_default();
            KeyScopes {
                caller: callers.get(&**caller).cloned(),
                key: (!limits.is_none()).then(|| adoption.scope(Level::Key, id, limits)),
                models: adoption.models(&limited.models, key),
                last_used: last,
                purse,
                spool,
            }
        });
        let all: Vec<KeyScopes> = all.collect();
        if !adoption.new_scopes.is_empty() {
            let (cut, past) = seeds().into_iter().partition(|past| past.is_taken_over);
            seed_scopes(&adoption.new_scopes, past);
            adoption
                .new_scopes
                .values()
                .for_each(|(scope, _)| scope.begins());
            seed_scopes(&adoption.new_scopes, cut);
            if self.is_past_unread.swap(false, Ordering::SeqCst) {
                let began = adoption.new_scopes.iter().map(|(name, (scope, limits))| {
                    (name.clone(), (Arc::downgrade(scope), *limits))
                });
                self.unseeded.lock().extend(began);
            }
        }
        let mut now = adoption.scopes_now;
        let prefixes = SubjectPrefixes::new(&limited);
        let subjects = scopes.iter().filter(|(name, _)| prefixes.limit(name));
        now.extend(subjects.map(|(name, scope)| (name.clone(), scope.clone())));
        scopes
            .iter()
            .filter(|(name, _)| !now.contains_key(*name))
            .filter_map(|(_, old)| old.upgrade())
            .for_each(|old| old.retire());
        *scopes = now;
        if limited.templates.is_empty() {
            self.callers.lock().clear();
        } else {
            *self.callers.lock() = callers;
        }
        self.used_keys.add_counted(&limited, &all);
        self.used_keys.keep(&all);
        all
    }

    /// Notes a use of a key at this time, in milliseconds of Unix time. Returns whether the use
    /// before was in an earlier second: the ledger needs no more notes than that.
    pub fn note_use(&self, key: &Arc<str>, last_used: &Arc<LastUsed>, now: u64) -> bool {
        self.used_keys.add(key, last_used);
        last_used.touch(now)
    }

    /// Returns the positions of the keys of a catalog that were used, or of which a scope has
    /// counted something, in their order. `scopes` are the catalog's. `find` finds a key by its id.
    pub fn used_keys<'c>(
        &self,
        catalog: impl Into<Limited<'c>>,
        scopes: &[KeyScopes],
        find: impl Fn(&str) -> Option<usize>,
    ) -> Vec<usize> {
        let changes = self.changes.as_ref();
        if self.used_keys.take_missing_keys()
            || changes.is_some_and(|changes| changes.take_late_use())
        {
            self.used_keys.add_counted(&catalog.into(), scopes);
        }
        self.used_keys.positions(scopes, find)
    }

    /// Notes that the past cannot be read now. The function that is asked for `seeds` calls this.
    /// Scopes that are new then get the past later, from [`Registry::seed_late`].
    pub fn note_unread_past(&self) {
        self.is_past_unread.store(true, Ordering::SeqCst);
    }

    /// Gives the past, once, to the scopes that had to begin without it.
    pub fn seed_late(&self, past: Vec<Past>) {
        let unseeded = {
            // `adopt` holds this lock until new scopes are listed in `unseeded`.
            let _adopted = self.scopes.lock();
            std::mem::take(&mut *self.unseeded.lock())
        };
        let held = unseeded
            .into_iter()
            .filter_map(|(name, (scope, limits))| Some((name, (scope.upgrade()?, limits))));
        seed_scopes(&held.collect(), past);
        self.used_keys.note_missing_keys();
    }

    /// Counts an exchange that began under another catalog, at its end, in the scopes that bound
    /// its key now. The scopes in `held` have counted it already.
    pub fn add_late<'s>(&self, past: &Past, held: impl Iterator<Item = &'s Arc<Scope>>) {
        let held: Vec<&Arc<Scope>> = held.collect();
        let now = {
            let scopes = self.scopes.lock();
            let of_model = of_key_and_model(&past.key, &past.model);
            [&*past.caller, &*past.key, &of_model]
                .map(|name| scopes.get(name).and_then(Weak::upgrade))
        };
        for scope in now
            .iter()
            .flatten()
            .filter(|scope| !held.iter().any(|held| Arc::ptr_eq(held, scope)))
        {
            scope.recall(past);
            self.used_keys.note_missing_keys();
        }
    }

    /// Returns the scopes that somebody holds, in no order.
    pub fn scopes(&self) -> Vec<Arc<Scope>> {
        self.scopes
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }
}

/// The last uses of the keys of the catalog before. The keys of both catalogs are mostly the same,
/// in the same order: then no lookup needs a hash.
struct LastUses {
    list: Vec<(Arc<str>, Arc<LastUsed>)>,
    next_index: usize,
    by_id: Option<HashMap<Arc<str>, usize>>,
}

impl LastUses {
    fn find(&mut self, id: &Arc<str>) -> Option<Arc<LastUsed>> {
        let index = if self
            .list
            .get(self.next_index)
            .is_some_and(|(known, _)| known == id)
        {
            self.next_index
        } else {
            let by_id = self.by_id.get_or_insert_with(|| {
                let numbered = self.list.iter().enumerate();
                numbered
                    .map(|(index, (known, _))| (known.clone(), index))
                    .collect()
            });
            *by_id.get(id)?
        };
        self.next_index = index + 1;
        self.list.get(index).map(|(_, used)| used.clone())
    }
}

struct Adoption<'r> {
    scopes_before: &'r HashMap<Arc<str>, Weak<Scope>>,
    scopes_now: HashMap<Arc<str>, Weak<Scope>>,
    new_scopes: HashMap<Arc<str>, (Arc<Scope>, Limits)>,
    changes: Option<&'r Arc<Changes>>,
}

impl Adoption<'_> {
    fn scope(&mut self, level: Level, name: &Arc<str>, limits: &Limits) -> Arc<Scope> {
        if let Some(scope) = self.scopes_before.get(name).and_then(Weak::upgrade) {
            self.scopes_now
                .insert(scope.name.clone(), Arc::downgrade(&scope));
            return scope;
        }
        let scope = Arc::new(Scope::new(level, name.clone()).shared(self.changes.cloned()));
        self.scopes_now.insert(name.clone(), Arc::downgrade(&scope));
        self.new_scopes
            .insert(name.clone(), (scope.clone(), *limits));
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

fn seed_scopes(new: &HashMap<Arc<str>, (Arc<Scope>, Limits)>, past: Vec<Past>) {
    let of_models = new
        .values()
        .any(|(scope, _)| scope.level == Level::KeyModel);
    for past in past {
        let model = of_models.then(|| of_key_and_model(&past.key, &past.model));
        for name in [Some(&*past.caller), Some(&*past.key), model.as_deref()]
            .into_iter()
            .flatten()
        {
            if let Some((scope, limits)) = new.get(name) {
                scope.tally().watch(limits);
                scope.recall(&past);
            }
        }
    }
}

impl Scope {
    /// Adds an amount that was used before.
    fn recall(self: &Arc<Scope>, past: &Past) {
        let used = Used::new(past.requests, past.tokens, past.usd);
        self.tally().recall(past.used_at, past.dated, used);
        self.note_use();
        self.lacks(past.used_at, past.unpriced);
        self.changed();
    }
}

fn of_key_and_model(key: &str, model: &str) -> String {
    format!("{key} {model}")
}

#[cfg(test)]
mod tests;
