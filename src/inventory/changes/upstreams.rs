//! What changes at accounts and at models.

use std::collections::{BTreeMap, BTreeSet};

use super::access::{Access, is_served};
use super::{Effect, Found, Whom, by_effect, settings};
use crate::inventory::{Inventory, ModelItem, Settings, TargetItem};
use dialects::Endpoint;
use dialects::neutral::ModelKind;

/// All kinds of endpoint for conversations together.
const CONVERSATIONS: &str = "conversations";

/// How a proxy differs of which it is not known what it was, or will be.
const UNREAD: [&str; 2] = ["proxy own → not set", "proxy not set → own"];

/// Finds what changes at accounts. What follows for models is found with the models.
pub(super) fn accounts(
    found: &mut Found,
    [before, after]: [&Inventory; 2],
    [old, _]: &[Access<'_>; 2],
) {
    for id in before
        .accounts
        .keys()
        .filter(|id| !after.accounts.contains_key(*id))
    {
        found.add(Effect::Changes, ("account", id), "gone");
    }
    for (id, now) in &after.accounts {
        let at = ("account", id.as_str());
        let Some(was) = before.accounts.get(id) else {
            found.add(Effect::Changes, at, "new");
            continue;
        };
        let goes_there =
            |model: &ModelItem| model.targets.iter().any(|target| target.account == *id);
        let models: Vec<_> = after
            .models
            .iter()
            .filter(|(_, model)| goes_there(model))
            .collect();
        let whom = || old.whom_of_any(&models);
        let models = match models.len() {
            1 => "1 model goes there".to_owned(),
            many => format!("{many} models go there"),
        };
        match (was.enabled, now.enabled) {
            (true, false) => found.add(Effect::Changes, at, format!("switched off; {models}")),
            (false, true) => found.add(Effect::Changes, at, format!("switched on; {models}")),
            (true, true) if was.credential != now.credential => {
                let what = format!(
                    "another kind of credential: {} → {}",
                    was.credential, now.credential
                );
                found.add(Effect::Changes, at, what);
            }
            (true, true) | (false, false) => {}
        }
        if was.address != now.address {
            found.add(
                Effect::Changes,
                at,
                format!("address {} → {}; {models}", was.address, now.address),
            );
        }
        let mut each = settings(&was.settings, &now.settings);
        if was.enabled != now.enabled {
            // Files and variables are not read of an account that is switched off: what is in them
            // need not have changed.
            let is_unread = |what: &str| what.starts_with("ca ") || UNREAD.contains(&what);
            each.retain(|(_, what)| !is_unread(what));
        }
        for (effect, what) in by_effect(each) {
            let whom = if effect == Effect::Tightens {
                whom()
            } else {
                Whom::default()
            };
            found.of_model(effect, at, format!("{}; {models}", what.join(", ")), whom);
        }
    }
}

/// Finds what changes at models, and for whom.
pub(super) fn models(
    found: &mut Found,
    before: &Inventory,
    after: &Inventory,
    [old, new]: &[Access<'_>; 2],
) {
    for (id, was) in &before.models {
        let at = ("model", id.as_str());
        let whom = || old.whom(id, was.pattern);
        let Some(now) = after.models.get(id) else {
            let (effect, what) = match new.meant(id) {
                _ if !is_served(before, was) => (
                    Effect::Changes,
                    "gone; it had no target that is switched on".to_owned(),
                ),
                None => (Effect::Breaks, "gone".to_owned()),
                Some((pattern, _)) if pattern == id => (
                    Effect::Changes,
                    "gone; a pattern may answer instead".to_owned(),
                ),
                Some((other, _)) => (
                    Effect::Changes,
                    format!("gone; its name means the model {other} then"),
                ),
            };
            found.of_model(effect, at, what, whom());
            continue;
        };
        match (is_served(before, was), is_served(after, now)) {
            (true, false) => {
                let accounts = off(now);
                found.of_model(
                    Effect::Breaks,
                    at,
                    format!("no target is left: {accounts} switched off"),
                    whom(),
                );
            }
            (false, true) => found.of_model(
                Effect::Widens,
                at,
                "served again",
                new.whom(id, now.pattern),
            ),
            (true, true) | (false, false) => {}
        }
        let (old_kinds, new_kinds) = (kinds(before, was), kinds(after, now));
        let lost: Vec<&str> = old_kinds.difference(&new_kinds).copied().collect();
        if !lost.is_empty() && is_served(after, now) {
            // What a model is for refuses nothing, but hardly anybody asks it for something else.
            let made_for = was.settings.get("kind").map_or("chat", String::as_str);
            let is_main = |kind: &&str| is_for(kind, made_for);
            let is_only_beside = old_kinds.iter().any(is_main) && !lost.iter().any(is_main);
            let effect = if is_only_beside {
                Effect::Tightens
            } else {
                Effect::Breaks
            };
            found.of_model(
                effect,
                at,
                format!("no target serves {} any more", lost.join(", ")),
                whom(),
            );
        }
        if was == now {
            continue;
        }
        let mut each = settings(&was.settings, &now.settings);
        each.extend(targets([before, after], was, now));
        for (effect, what) in by_effect(each) {
            found.of_model(effect, at, what.join(", "), whom());
        }
        prices(found, (id, was, now), || old.whom(id, was.pattern));
    }
    for (id, now) in after
        .models
        .iter()
        .filter(|(id, _)| !before.models.contains_key(*id))
    {
        let meant = match old.meant(id) {
            None => String::new(),
            Some((pattern, _)) if pattern == id => format!("; {BY_PATTERN}"),
            Some((other, _)) => format!("; its name meant the model {other} until now"),
        };
        let (what, effect) = match is_served(after, now) {
            true if meant.is_empty() => ("new".to_owned(), Effect::Widens),
            true => (format!("new{meant}"), Effect::Changes),
            // Whoever asked for the other model by this name is refused now.
            false if new.dead.contains(id.as_str()) && !meant.is_empty() => {
                let what = format!("new, but not served: {} switched off{meant}", off(now));
                found.of_model(Effect::Breaks, ("model", id), what, whom_of_name(old, id));
                continue;
            }
            false => (
                format!("new, but not served: {} switched off", off(now)),
                Effect::Changes,
            ),
        };
        found.of_model(effect, ("model", id), what, new.whom(id, now.pattern));
    }
    names(found, [before, after], [old, new]);
}

/// Finds names that are gone, new, or mean another model. The names of a model that is no longer
/// served go with it.
fn names(found: &mut Found, [before, after]: [&Inventory; 2], [old, new]: [&Access<'_>; 2]) {
    // Of a model that goes, its other names are told only if its id is still answered: else all are
    // told with it.
    let stays = |id: &str| match after.models.get(id) {
        Some(model) => is_served(after, model),
        None => new.meant(id).is_some(),
    };
    for (name, (id, pattern)) in &old.names {
        match new.meant(name) {
            // The model is gone, and that is told with it.
            Some(_) if *name == *id && !after.models.contains_key(*id) => {}
            Some((is, _)) if is != *id => {
                let what = format!("means the model {is} instead of {id}");
                found.of_model(
                    Effect::Changes,
                    ("name", name),
                    what,
                    old.whom(id, *pattern),
                );
            }
            None if stays(id) => {
                found.of_model(
                    Effect::Breaks,
                    ("name", name),
                    format!("gone; it meant {id}"),
                    old.whom(id, *pattern),
                );
            }
            Some(_) | None => {}
        }
    }
    let is_new = |name: &&&str| !old.dead.contains(**name) && !after.models.contains_key(**name);
    for name in new.dead.iter().filter(is_new) {
        if let Some((id, _)) = old.meant(name).filter(|_| !old.names.contains_key(name)) {
            let meant = if id == *name {
                BY_PATTERN.to_owned()
            } else {
                format!("it meant {id}")
            };
            let what = format!("a name of a model that is not served; {meant}");
            found.of_model(
                Effect::Breaks,
                ("name", name),
                what,
                whom_of_name(old, name),
            );
        }
    }
    let was_served = |id: &str| {
        before
            .models
            .get(id)
            .is_some_and(|model| is_served(before, model))
    };
    for (name, (id, pattern)) in new
        .names
        .iter()
        .filter(|(name, _)| !old.names.contains_key(*name))
    {
        let (effect, what, whom) = match old.meant(name) {
            // The model is new, and that is told with it.
            _ if *name == *id => continue,
            None if !was_served(id) => continue,
            None => (
                Effect::Widens,
                format!("new; it means {id}"),
                new.whom(id, *pattern),
            ),
            // Another name of the model had it.
            Some((is, _)) if is == *id => (
                Effect::Changes,
                format!("written now; it meant {id} before, too"),
                Whom::default(),
            ),
            Some((of_pattern, _)) if of_pattern == *name => (
                Effect::Changes,
                format!("means the model {id}; {BY_PATTERN}"),
                whom_of_name(old, name),
            ),
            Some((other, _)) => (
                Effect::Changes,
                format!("means the model {id} instead of {other}"),
                whom_of_name(old, name),
            ),
        };
        found.of_model(effect, ("name", name), what, whom);
    }
}

/// What is said of a name that is in a pattern, which stands for the models of a list.
const BY_PATTERN: &str = "until now a pattern may have answered";

/// Returns who may use what a name means.
fn whom_of_name(access: &Access<'_>, name: &str) -> Whom {
    access
        .meant(name)
        .map(|(id, pattern)| access.whom(id, pattern))
        .unwrap_or_default()
}

/// Returns the kinds of requests that a model's targets take. Conversations are one: each is
/// translated into the others.
fn kinds<'i>(inventory: &'i Inventory, model: &ModelItem) -> BTreeSet<&'i str> {
    let accounts = model
        .targets
        .iter()
        .filter_map(|target| inventory.accounts.get(&target.account));
    let serves = accounts
        .filter(|account| account.enabled)
        .filter_map(|account| account.settings.get("serves"));
    let is_conversation = |kind: &str| Endpoint::find(kind).is_some_and(Endpoint::is_conversation);
    let each = serves
        .flat_map(|list| list.split(", "))
        .filter(|kind| !kind.is_empty());
    each.map(|kind| {
        if is_conversation(kind) {
            CONVERSATIONS
        } else {
            kind
        }
    })
    .collect()
}

/// Returns whether a kind of requests is what a model is for.
fn is_for(kind: &str, made_for: &str) -> bool {
    match Endpoint::find(kind) {
        _ if kind == CONVERSATIONS => made_for == ModelKind::Chat.name(),
        one => one.is_some_and(|one| one.facts().made_for.name() == made_for),
    }
}

/// Names the accounts of a model's targets, and says whether it is one.
fn off(model: &ModelItem) -> String {
    let mut accounts: Vec<_> = model
        .targets
        .iter()
        .map(|target| target.account.as_str())
        .collect();
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
        let count = (0..)
            .find(|count| !named.contains_key(&(name(target), *count)))
            .unwrap_or_default();
        named.insert((name(target), count), target);
    }
    named
}

/// Returns the settings of a target, with those of its account for the names that either has.
fn whole(inventory: &Inventory, target: &TargetItem, names: [&Settings; 2]) -> Settings {
    let of_account = inventory
        .accounts
        .get(&target.account)
        .map(|account| &account.settings);
    let value = |name: &String| target.settings.get(name).or_else(|| of_account?.get(name));
    let each = names.into_iter().flat_map(BTreeMap::keys);
    each.filter_map(|name| Some((name.clone(), value(name)?.clone())))
        .collect()
}

/// Says what changes at the targets of a model.
fn targets(
    [before, after]: [&Inventory; 2],
    was: &ModelItem,
    now: &ModelItem,
) -> Vec<(Effect, String)> {
    let (old, new) = (named(was), named(now));
    let mut what = Vec::new();
    what.extend(
        old.keys()
            .filter(|key| !new.contains_key(*key))
            .map(|(name, _)| format!("target {name} removed")),
    );
    for ((name, _), target) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        let before = now
            .targets
            .iter()
            .filter(|other| other.tier < target.tier)
            .count();
        let place = match before {
            _ if now
                .settings
                .get("strategy")
                .is_some_and(|strategy| strategy != "priority") =>
            {
                format!("weight {}", target.weight)
            }
            0 => "tried first".to_owned(),
            1 => "tried after 1 other".to_owned(),
            many => format!("tried after {many} others"),
        };
        let price = if target.price.is_some() {
            ""
        } else {
            ", price unknown"
        };
        what.push(format!("target {name} added ({place}{price})"));
    }
    let mut each: Vec<_> = what.drain(..).map(|what| (Effect::Changes, what)).collect();
    for ((name, _), target, target_now) in old
        .iter()
        .filter_map(|(key, target)| Some((key, target, new.get(key)?)))
    {
        if target.weight != target_now.weight {
            what.push(format!(
                "weight of {name} {} → {}",
                target.weight, target_now.weight
            ));
        }
        let names = [&target.settings, &target_now.settings];
        let other = settings(
            &whole(before, target, names),
            &whole(after, target_now, names),
        );
        each.extend(
            other
                .into_iter()
                .map(|(effect, other)| (effect, format!("{name}: {other}"))),
        );
    }
    let order = |of: &BTreeMap<(String, usize), &TargetItem>,
                 other: &BTreeMap<(String, usize), &TargetItem>| {
        let mut tiers: BTreeMap<u32, Vec<(String, usize)>> = BTreeMap::new();
        for (key, target) in of.iter().filter(|(key, _)| other.contains_key(*key)) {
            tiers.entry(target.tier).or_default().push(key.clone());
        }
        tiers.into_values().collect::<Vec<_>>()
    };
    if order(&old, &new) != order(&new, &old) {
        let mut sorted: Vec<_> = now.targets.iter().collect();
        sorted.sort_by_key(|target| target.tier);
        what.push(format!(
            "order {}",
            sorted.into_iter().map(name).collect::<Vec<_>>().join(", ")
        ));
    }
    each.extend(what.into_iter().map(|what| (Effect::Changes, what)));
    each
}

/// Says which costs differ.
fn words(old: &Settings, new: &Settings) -> String {
    settings(old, new)
        .into_iter()
        .map(|(_, what)| what)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Finds prices that differ.
fn prices(
    found: &mut Found,
    (id, was, now): (&str, &ModelItem, &ModelItem),
    whom: impl Fn() -> Whom,
) {
    let (old, new) = (named(was), named(now));
    let nothing = BTreeMap::new();
    for ((name, _), target, target_now) in old
        .iter()
        .filter_map(|(key, target)| Some((key, target, new.get(key)?)))
    {
        let (effect, what) = match (&target.price, &target_now.price) {
            (Some(_), None) => {
                let what = "no longer known: requests of callers whose money is limited are not sent there";
                (Effect::Tightens, format!("price of {name} {what}"))
            }
            (old, new) if old != new => {
                let [old, new] = [old, new].map(|price| price.as_ref().unwrap_or(&nothing));
                (
                    Effect::Changes,
                    format!("price of {name}: {}", words(old, new)),
                )
            }
            _ => continue,
        };
        found.of_model(effect, ("model", id), what, whom());
    }
}
