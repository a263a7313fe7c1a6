//! What changes at accounts and at models.

use std::collections::BTreeMap;

use super::access::{Access, is_served};
use super::{Effect, Found, settings};
use crate::inventory::{Inventory, ModelItem, TargetItem};

/// Finds what changes at accounts. What follows for models is found with the models.
pub(super) fn accounts(found: &mut Found, before: &Inventory, after: &Inventory) {
    for id in before.accounts.keys().filter(|id| !after.accounts.contains_key(*id)) {
        found.add(Effect::Changes, ("account", id), "gone");
    }
    for (id, now) in &after.accounts {
        let at = ("account", id.as_str());
        let Some(was) = before.accounts.get(id) else {
            found.add(Effect::Changes, at, "new");
            continue;
        };
        let models = after.models.values().filter(|model| model.targets.iter().any(|target| target.account == *id));
        let models = match models.count() {
            1 => "1 model goes there".to_owned(),
            many => format!("{many} models go there"),
        };
        match (was.enabled, now.enabled) {
            (true, false) => found.add(Effect::Changes, at, format!("switched off; {models}")),
            (false, true) => found.add(Effect::Changes, at, format!("switched on; {models}")),
            (true, true) if was.credential != now.credential => {
                let what = format!("another kind of credential: {} → {}", was.credential, now.credential);
                found.add(Effect::Changes, at, what);
            }
            (true, true) | (false, false) => {}
        }
        if was.address != now.address {
            found.add(Effect::Changes, at, format!("address {} → {}; {models}", was.address, now.address));
        }
        let other = settings(&was.settings, &now.settings);
        if !other.is_empty() {
            found.add(Effect::Changes, at, other.join(", "));
        }
    }
}

/// Finds what changes at models, and for whom.
pub(super) fn models(found: &mut Found, before: &Inventory, after: &Inventory, [old, new]: &[Access<'_>; 2]) {
    for (id, was) in &before.models {
        let at = ("model", id.as_str());
        let whom = || old.whom(id, was.pattern);
        let Some(now) = after.models.get(id) else {
            let what = if is_served(before, was) { "gone" } else { "gone; it had no target that is switched on" };
            let effect = if is_served(before, was) { Effect::Breaks } else { Effect::Changes };
            found.of_model(effect, at, what, whom());
            continue;
        };
        match (is_served(before, was), is_served(after, now)) {
            (true, false) => {
                let accounts = off(now);
                found.of_model(Effect::Breaks, at, format!("no target is left: {accounts} switched off"), whom());
            }
            (false, true) => found.of_model(Effect::Widens, at, "served again", new.whom(id, now.pattern)),
            (true, true) | (false, false) => {}
        }
        if was == now {
            continue;
        }
        let mut what = settings(&was.settings, &now.settings);
        what.extend(targets(was, now));
        if !what.is_empty() {
            found.of_model(Effect::Changes, at, what.join(", "), whom());
        }
        prices(found, (id, was, now), || old.whom(id, was.pattern));
    }
    for (id, now) in after.models.iter().filter(|(id, _)| !before.models.contains_key(*id)) {
        let what = match is_served(after, now) {
            true => "new".to_owned(),
            false => format!("new, but not served: {} switched off", off(now)),
        };
        found.of_model(Effect::Widens, ("model", id), what, new.whom(id, now.pattern));
    }
    names(found, [before, after], [old, new]);
}

/// Finds names that are gone, new, or mean another model. The names of a model that is no longer
/// served go with it.
fn names(found: &mut Found, [before, after]: [&Inventory; 2], [old, new]: [&Access<'_>; 2]) {
    for (name, (id, pattern)) in &old.names {
        match new.names.get(name) {
            Some((is, _)) if is != id => {
                let what = format!("means the model {is} instead of {id}");
                found.of_model(Effect::Changes, ("name", name), what, old.whom(id, *pattern));
            }
            None if after.models.get(*id).is_some_and(|model| is_served(after, model)) => {
                found.of_model(Effect::Breaks, ("name", name), format!("gone; it meant {id}"), old.whom(id, *pattern));
            }
            Some(_) | None => {}
        }
    }
    for (name, (id, pattern)) in new.names.iter().filter(|(name, _)| !old.names.contains_key(*name)) {
        if before.models.get(*id).is_some_and(|model| is_served(before, model)) {
            found.of_model(Effect::Widens, ("name", name), format!("new; it means {id}"), new.whom(id, *pattern));
        }
    }
}

/// Names the accounts of a model's targets, and says whether it is one.
fn off(model: &ModelItem) -> String {
    let mut accounts: Vec<_> = model.targets.iter().map(|target| target.account.as_str()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    match accounts.as_slice() {
        [one] => format!("account {one} is"),
        many => format!("accounts {} are", many.join(", ")),
    }
}

/// The name of a target: its account, and that account's name for the model.
fn name(target: &TargetItem) -> String {
    format!("{}/{}", target.account, target.model)
}

/// Targets by their names. A model may have the same target twice.
fn named(model: &ModelItem) -> BTreeMap<(String, usize), &TargetItem> {
    let mut named = BTreeMap::new();
    for target in &model.targets {
        let count = (0..).find(|count| !named.contains_key(&(name(target), *count))).unwrap_or_default();
        named.insert((name(target), count), target);
    }
    named
}

/// Says what changes at the targets of a model.
fn targets(was: &ModelItem, now: &ModelItem) -> Vec<String> {
    let (old, new) = (named(was), named(now));
    let mut what = Vec::new();
    what.extend(old.keys().filter(|key| !new.contains_key(*key)).map(|(name, _)| format!("target {name} removed")));
    what.extend(new.keys().filter(|key| !old.contains_key(*key)).map(|(name, _)| format!("target {name} added")));
    for ((name, _), target, target_now) in old.iter().filter_map(|(key, target)| Some((key, target, new.get(key)?))) {
        if target.weight != target_now.weight {
            what.push(format!("weight of {name} {} → {}", target.weight, target_now.weight));
        }
        let other = settings(&target.settings, &target_now.settings);
        what.extend(other.iter().map(|other| format!("{name}: {other}")));
    }
    let order = |of: &BTreeMap<(String, usize), &TargetItem>, other: &BTreeMap<(String, usize), &TargetItem>| {
        let mut tiers: BTreeMap<u32, Vec<(String, usize)>> = BTreeMap::new();
        for (key, target) in of.iter().filter(|(key, _)| other.contains_key(*key)) {
            tiers.entry(target.tier).or_default().push(key.clone());
        }
        tiers.into_values().collect::<Vec<_>>()
    };
    if order(&old, &new) != order(&new, &old) {
        let mut sorted: Vec<_> = now.targets.iter().collect();
        sorted.sort_by_key(|target| target.tier);
        what.push(format!("order {}", sorted.into_iter().map(name).collect::<Vec<_>>().join(", ")));
    }
    what
}

/// Finds prices that differ.
fn prices(found: &mut Found, (id, was, now): (&str, &ModelItem, &ModelItem), whom: impl Fn() -> super::Whom) {
    let (old, new) = (named(was), named(now));
    let nothing = BTreeMap::new();
    for ((name, _), target, target_now) in old.iter().filter_map(|(key, target)| Some((key, target, new.get(key)?))) {
        let (effect, what) = match (&target.price, &target_now.price) {
            (Some(_), None) => {
                let what = "no longer known: requests of callers whose money is limited are not sent there";
                (Effect::Tightens, format!("price of {name} {what}"))
            }
            (old, new) if old != new => {
                let [old, new] = [old, new].map(|price| price.as_ref().unwrap_or(&nothing));
                (Effect::Changes, format!("price of {name}: {}", settings(old, new).join(", ")))
            }
            _ => continue,
        };
        found.of_model(effect, ("model", id), what, whom());
    }
}
