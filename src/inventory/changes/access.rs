//! Who may use which model, before and after a change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Effect::{Breaks, Changes, Tightens, Widens};
use super::{FoundChanges, Holders, Sides};
use crate::catalog::Permissions;
use crate::catalog::globs::{self, Globs};
use crate::inventory::{CallerItem, Inventory, KeyItem, ModelItem};

/// The names that can be asked for, and the keys that may do it.
pub(super) struct Access<'i> {
    /// From a name or an alias to the model that it means, and whether that is a pattern. Only
    /// models with a target whose account is switched on are served.
    pub(super) names: BTreeMap<&'i str, (&'i str, bool)>,
    /// The names of models that are not served. They mean no other model. A pattern that is not
    /// served leaves its names to others.
    pub(super) dead: BTreeSet<&'i str>,
    /// Each distinct set of permissions, with the callers and the number of keys that have it and
    /// work.
    groups: Vec<(Permissions, BTreeSet<&'i str>, usize)>,
    /// The positions of the sets, by what is written.
    positions: HashMap<Written<'i>, usize>,
}

/// The models of a caller, and those of its key.
type Written<'i> = (&'i [String], Option<&'i [String]>);

impl<'i> Access<'i> {
    pub(super) fn new(inventory: &'i Inventory, now: &str) -> Self {
        let (mut names, mut dead) = (BTreeMap::new(), BTreeSet::new());
        for (id, model) in &inventory.models {
            let all = std::iter::once(id)
                .chain(&model.aliases)
                .map(String::as_str);
            if is_served(inventory, model) {
                names.extend(all.map(|name| (name, (id.as_str(), model.pattern))));
            } else if !model.pattern {
                dead.extend(all);
            }
        }
        let mut access = Access {
            names,
            dead,
            groups: Vec::new(),
            positions: HashMap::new(),
        };
        for (id, caller) in &inventory.callers {
            for key in caller.keys.values() {
                let index = access.group_index(written_models(caller, key));
                let works = caller.works(now) && key.works(now);
                if let Some((_, callers, keys)) = access.groups.get_mut(index).filter(|_| works) {
                    callers.insert(id);
                    *keys += 1;
                }
            }
        }
        access
    }

    /// Returns the position of a set of permissions.
    fn group_index(&mut self, written: Written<'i>) -> usize {
        let next = self.groups.len();
        let index = *self.positions.entry(written).or_insert(next);
        if index == next {
            let permissions = Permissions {
                index: next,
                of_caller: read_globs(written.0),
                of_key: written.1.map_or_else(Globs::everything, read_globs),
            };
            self.groups.push((permissions, BTreeSet::new(), 0));
        }
        index
    }

    /// Returns who may use a model.
    pub(super) fn holders_of(&self, id: &str, is_pattern: bool) -> Holders {
        self.holders(|permissions| permissions.reach(id, is_pattern))
    }

    /// Returns who may use at least one of these models.
    pub(super) fn holders_of_any(&self, models: &[(&String, &ModelItem)]) -> Holders {
        self.holders(|permissions| {
            models
                .iter()
                .any(|(id, model)| permissions.reach(id, model.pattern))
        })
    }

    fn holders(&self, may: impl Fn(&Permissions) -> bool) -> Holders {
        let (mut callers, mut keys) = (BTreeSet::new(), 0);
        for (_, group_callers, count) in self
            .groups
            .iter()
            .filter(|(permissions, ..)| may(permissions))
        {
            callers.extend(group_callers.iter().copied());
            keys += count;
        }
        Holders {
            callers: callers.into_iter().map(str::to_owned).collect(),
            keys,
        }
    }

    /// Returns the model that a name means, as requests find it: written, or else by the glob or
    /// the pattern with the longest beginning. What a pattern stands for has the name itself.
    pub(super) fn meant<'n>(&self, name: &'n str) -> Option<(&'n str, bool)>
    where
        'i: 'n,
    {
        if let Some(written) = self.names.get(name) {
            return Some(*written);
        }
        if self.dead.contains(name) {
            return None;
        }
        let all = self.names.keys().chain(&self.dead);
        let globs = all.filter(|glob| glob.contains(['*', '?']) && globs::glob_matches(glob, name));
        let (id, is_pattern) = self
            .names
            .get(globs.max_by_key(|glob| glob.find(['*', '?']))?)?;
        Some(if *is_pattern {
            (name, false)
        } else {
            (*id, false)
        })
    }

    fn permissions(&self, written: Written<'_>) -> Option<&Permissions> {
        self.groups
            .get(*self.positions.get(&written)?)
            .map(|(permissions, ..)| permissions)
    }
}

fn read_globs(list: &[String]) -> Globs {
    Globs::new(list.iter().map(|glob| Arc::from(glob.as_str())))
}

/// Returns whether a model has a target to which requests may go.
pub(super) fn is_served(inventory: &Inventory, model: &ModelItem) -> bool {
    model.targets.iter().any(|target| {
        let account = inventory.accounts.get(&target.account);
        account.is_some_and(|account| account.enabled)
    })
}

fn written_models<'i>(caller: &'i CallerItem, key: &'i KeyItem) -> Written<'i> {
    (&caller.models, key.models.as_deref())
}

/// The changes for a key: models, and patterns of which it may use some models more or less.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct Effects {
    lost: Vec<String>,
    gained: Vec<String>,
    fewer: Vec<String>,
    more: Vec<String>,
    others: Vec<String>,
}

impl Effects {
    /// Adds what happens to a caller's keys, or to one key, that work or do not.
    fn add_to(&self, found: &mut FoundChanges, entry: (&'static str, &str), works: bool) {
        let of_less = |effect| if works { effect } else { Changes };
        let tightens = of_less(Tightens);
        for (effect, statement, models) in [
            (of_less(Breaks), "may no longer use", &self.lost),
            (tightens, "may use fewer models of", &self.fewer),
            (tightens, "may perhaps use other models of", &self.others),
            (Widens, "may also use", &self.gained),
            (Widens, "may use more models of", &self.more),
        ] {
            if !models.is_empty() {
                let (statement, models) = (statement.to_owned(), models.clone());
                found.add_with_models(effect, entry, statement, models, Holders::default());
            }
        }
    }
}

/// Finds the models that keys lose or gain although the model is there before and after. A secret
/// that opens another key then has the models of that one.
pub(super) fn compare_permissions(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        access_before: old,
        access_after: new,
        secrets,
        now,
    } = *sides;
    // A model that is only there before or after is reported once, in its own line.
    let kept = old.names.iter();
    let kept = kept.filter_map(|(name, was)| Some((*name, *was, new.meant(name)?)));
    // A name that is new may have been another model's until now, by a glob.
    let taken = new.names.iter();
    let taken = taken.filter(|(name, _)| !old.names.contains_key(*name));
    let taken = taken.filter_map(|(name, is)| Some((*name, old.meant(name)?, *is)));
    let both: Vec<_> = kept.chain(taken).collect();
    let both = || both.iter().copied();
    let moved: Vec<_> = both().filter(|(_, was, is)| was != is).collect();
    for (full, opens) in secrets.iter().flat_map(|secrets| &secrets.moved) {
        let Some((caller, key)) = before.key(full) else {
            continue;
        };
        for (caller_now, key_now) in opens.iter().filter_map(|opens| after.key(opens)) {
            let pair = old
                .permissions(written_models(caller, key))
                .zip(new.permissions(written_models(caller_now, key_now)));
            let key_effects = pair
                .map(|(was, is)| find_effects(both(), was, is))
                .unwrap_or_default();
            key_effects.add_to(found, ("key", full), true);
        }
    }
    let mut known: HashMap<(Written<'_>, Written<'_>), Effects> = HashMap::new();
    for (id, caller) in &before.callers {
        let Some(caller_now) = after.callers.get(id) else {
            continue;
        };
        let mut alike: BTreeMap<(&Effects, bool, bool), Vec<&str>> = BTreeMap::new();
        let kept_keys = caller.keys.iter().filter_map(|(name, key)| {
            let key_now = caller_now
                .keys
                .get(name)
                .filter(|_| !sides.is_moved(id, name))?;
            let pair = (
                written_models(caller, key),
                written_models(caller_now, key_now),
            );
            Some((name, pair, caller.works(now) && key.works(now)))
        });
        let keys: Vec<_> = kept_keys.collect();
        for (_, pair, _) in &keys {
            let Some((was, is)) = old.permissions(pair.0).zip(new.permissions(pair.1)) else {
                continue;
            };
            known
                .entry(*pair)
                .or_insert_with(|| match pair.0 == pair.1 {
                    true => find_effects(moved.iter().copied(), was, is),
                    false => find_effects(both(), was, is),
                });
        }
        for (name, pair, works) in keys {
            if let Some(key_effects) = known.get(&pair) {
                alike
                    .entry((key_effects, pair.0 != pair.1, works))
                    .or_default()
                    .push(name);
            }
        }
        let is_one = alike.len() == 1;
        for ((effects, is_other, works), names) in alike {
            let of_keys = || names.iter().map(|name| format!("{id}/{name}"));
            let entries: Vec<_> = match is_one {
                true => vec![("caller", id.clone())],
                false => of_keys().map(|key| ("key", key)).collect(),
            };
            for (kind, name) in &entries {
                effects.add_to(found, (kind, name), works);
                if is_other && *effects == Effects::default() {
                    found.add(
                        Changes,
                        (kind, name),
                        "`models` is written otherwise, to the same effect",
                    );
                }
            }
        }
    }
}

/// A name, what it means before, and what it means after.
type Meanings<'i> = (&'i str, (&'i str, bool), (&'i str, bool));

fn find_effects<'i>(
    names: impl Iterator<Item = Meanings<'i>>,
    before: &Permissions,
    after: &Permissions,
) -> Effects {
    let mut effects = Effects::default();
    for (name, was, is) in names {
        let list = match (before.reach(was.0, was.1), after.reach(is.0, is.1)) {
            (true, false) => &mut effects.lost,
            (false, true) => &mut effects.gained,
            // Which models a pattern stands for is not known here.
            (true, true) if was.1 && is.1 => {
                match (after.covers(before, name), before.covers(after, name)) {
                    (false, true) => &mut effects.fewer,
                    (true, false) => &mut effects.more,
                    (false, false) => &mut effects.others,
                    (true, true) => continue,
                }
            }
            (true, true) | (false, false) => continue,
        };
        list.push(name.to_owned());
    }
    effects
}
