//! The changes of accounts and of models.

use std::collections::{BTreeMap, BTreeSet};

use super::access::{Access, is_served};
use super::{Effect, FoundChanges, Holders, Sides, by_effect, compare_settings};
use crate::inventory::{Inventory, ModelItem, Settings, TargetItem};
use dialects::Endpoint;
use dialects::neutral::ModelKind;

/// All kinds of endpoint for conversations together.
const CONVERSATIONS: &str = "conversations";

/// How a proxy differs of which it is not known what it was, or will be.
const UNREAD: [&str; 2] = ["proxy own → not set", "proxy not set → own"];

/// Finds what changes at accounts. What follows for models is found with the models.
pub(super) fn compare_accounts(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before, after, old, ..
    } = *sides;
    for id in before
        .accounts
        .keys()
        .filter(|id| !after.accounts.contains_key(*id))
    {
        found.add(Effect::Changes, ("account", id), "gone");
    }
    for (id, now) in &after.accounts {
        let entry = ("account", id.as_str());
        let Some(was) = before.accounts.get(id) else {
            found.add(Effect::Changes, entry, "new");
            continue;
        };
        let models = after.models.iter().filter(|(_, model)| {
            let mut targets = model.targets.iter();
            targets.any(|target| target.account == *id)
        });
        let models: Vec<_> = models.collect();
        let whom = || old.holders_of_any(&models);
        let models = match models.len() {
            1 => "1 model goes there".to_owned(),
            many => format!("{many} models go there"),
        };
        match (was.enabled, now.enabled) {
            (true, false) => found.add(Effect::Changes, entry, format!("switched off; {models}")),
            (false, true) => found.add(Effect::Changes, entry, format!("switched on; {models}")),
            (true, true) if was.credential != now.credential => {
                let statement = format!(
                    "another kind of credential: {} → {}",
                    was.credential, now.credential
                );
                found.add(Effect::Changes, entry, statement);
            }
            (true, true) | (false, false) => {}
        }
        if was.address != now.address {
            found.add(
                Effect::Changes,
                entry,
                format!("address {} → {}; {models}", was.address, now.address),
            );
        }
        let mut each = compare_settings(&was.settings, &now.settings);
        if was.enabled != now.enabled {
            // Files and variables are not read of an account that is switched off: what is in them
            // need not have changed.
            each.retain(|(_, statement)| {
                !statement.starts_with("ca ") && !UNREAD.contains(&statement.as_str())
            });
        }
        for (effect, statement) in by_effect(each) {
            let whom = if effect == Effect::Tightens {
                whom()
            } else {
                Holders::default()
            };
            found.add_for_model(
                effect,
                entry,
                format!("{}; {models}", statement.join(", ")),
                whom,
            );
        }
    }
}

/// Finds what changes at models, and for whom.
pub(super) fn compare_models(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        old,
        new,
        ..
    } = *sides;
    for (id, was) in &before.models {
        let entry = ("model", id.as_str());
        let whom = || old.holders_of(id, was.pattern);
        let Some(now) = after.models.get(id) else {
            let (effect, statement) = match new.meant(id) {
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
            found.add_for_model(effect, entry, statement, whom());
            continue;
        };
        match (is_served(before, was), is_served(after, now)) {
            (true, false) => {
                let accounts = accounts_off(now);
                found.add_for_model(
                    Effect::Breaks,
                    entry,
                    format!("no target is left: {accounts} switched off"),
                    whom(),
                );
            }
            (false, true) => found.add_for_model(
                Effect::Widens,
                entry,
                "served again",
                new.holders_of(id, now.pattern),
            ),
            (true, true) | (false, false) => {}
        }
        let (old_kinds, new_kinds) = (served_kinds(before, was), served_kinds(after, now));
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
            found.add_for_model(
                effect,
                entry,
                format!("no target serves {} any more", lost.join(", ")),
                whom(),
            );
        }
        if was == now {
            continue;
        }
        let mut each = compare_settings(&was.settings, &now.settings);
        each.extend(compare_targets(before, after, was, now));
        for (effect, statement) in by_effect(each) {
            found.add_for_model(effect, entry, statement.join(", "), whom());
        }
        compare_prices(found, id, was, now, whom);
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
        let (statement, effect) = match is_served(after, now) {
            true if meant.is_empty() => ("new".to_owned(), Effect::Widens),
            true => (format!("new{meant}"), Effect::Changes),
            // Whoever asked for the other model by this name is refused now.
            false if new.dead.contains(id.as_str()) && !meant.is_empty() => {
                let statement = format!(
                    "new, but not served: {} switched off{meant}",
                    accounts_off(now)
                );
                found.add_for_model(
                    Effect::Breaks,
                    ("model", id),
                    statement,
                    holders_of_name(old, id),
                );
                continue;
            }
            false => (
                format!("new, but not served: {} switched off", accounts_off(now)),
                Effect::Changes,
            ),
        };
        found.add_for_model(
            effect,
            ("model", id),
            statement,
            new.holders_of(id, now.pattern),
        );
    }
    compare_names(found, sides);
}

/// Finds names that are gone, new, or mean another model. The names of a model that is no longer
/// served go with it.
fn compare_names(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        old,
        new,
        ..
    } = *sides;
    for (name, (id, pattern)) in &old.names {
        match new.meant(name) {
            // The model is gone, and its own line has that.
            Some(_) if *name == *id && !after.models.contains_key(*id) => {}
            Some((is, _)) if is != *id => {
                let statement = format!("means the model {is} instead of {id}");
                found.add_for_model(
                    Effect::Changes,
                    ("name", name),
                    statement,
                    old.holders_of(id, *pattern),
                );
            }
            // Of a model that goes, its other names are listed only if its id is still answered:
            // else all are listed with it.
            None if is_answered(after, new, id) => {
                found.add_for_model(
                    Effect::Breaks,
                    ("name", name),
                    format!("gone; it meant {id}"),
                    old.holders_of(id, *pattern),
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
            let statement = format!("a name of a model that is not served; {meant}");
            found.add_for_model(
                Effect::Breaks,
                ("name", name),
                statement,
                holders_of_name(old, name),
            );
        }
    }
    for (name, (id, pattern)) in new
        .names
        .iter()
        .filter(|(name, _)| !old.names.contains_key(*name))
    {
        let (effect, statement, whom) = match old.meant(name) {
            // The model is new, and its own line has that.
            _ if *name == *id => continue,
            None if !before
                .models
                .get(*id)
                .is_some_and(|model| is_served(before, model)) =>
            {
                continue;
            }
            None => (
                Effect::Widens,
                format!("new; it means {id}"),
                new.holders_of(id, *pattern),
            ),
            // Another name of the model had it.
            Some((is, _)) if is == *id => (
                Effect::Changes,
                format!("written now; it meant {id} before, too"),
                Holders::default(),
            ),
            Some((of_pattern, _)) if of_pattern == *name => (
                Effect::Changes,
                format!("means the model {id}; {BY_PATTERN}"),
                holders_of_name(old, name),
            ),
            Some((other, _)) => (
                Effect::Changes,
                format!("means the model {id} instead of {other}"),
                holders_of_name(old, name),
            ),
        };
        found.add_for_model(effect, ("name", name), statement, whom);
    }
}

fn is_answered(inventory: &Inventory, access: &Access<'_>, id: &str) -> bool {
    match inventory.models.get(id) {
        Some(model) => is_served(inventory, model),
        None => access.meant(id).is_some(),
    }
}

/// The words for a name in a pattern, which matches the models of a list.
const BY_PATTERN: &str = "until now a pattern may have answered";

/// Returns who may use what a name means.
fn holders_of_name(access: &Access<'_>, name: &str) -> Holders {
    access
        .meant(name)
        .map(|(id, pattern)| access.holders_of(id, pattern))
        .unwrap_or_default()
}

/// Returns the kinds of requests that a model's targets take. Conversations are one: each is
/// translated into the others.
fn served_kinds<'i>(inventory: &'i Inventory, model: &ModelItem) -> BTreeSet<&'i str> {
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
fn accounts_off(model: &ModelItem) -> String {
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
fn target_name(target: &TargetItem) -> String {
    format!("{}/{}", target.account, target.model)
}

/// Targets by their names. A model may have the same target twice.
fn targets_by_name(model: &ModelItem) -> BTreeMap<(String, usize), &TargetItem> {
    let mut named = BTreeMap::new();
    for target in &model.targets {
        let count = (0..)
            .find(|count| !named.contains_key(&(target_name(target), *count)))
            .unwrap_or_default();
        named.insert((target_name(target), count), target);
    }
    named
}

/// Returns the settings of a target, with those of its account for the names that either has.
fn whole_settings(inventory: &Inventory, target: &TargetItem, names: [&Settings; 2]) -> Settings {
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
fn compare_targets(
    before: &Inventory,
    after: &Inventory,
    was: &ModelItem,
    now: &ModelItem,
) -> Vec<(Effect, String)> {
    let (old, new) = (targets_by_name(was), targets_by_name(now));
    let mut statements = Vec::new();
    statements.extend(
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
        let position_text = match before {
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
        statements.push(format!("target {name} added ({position_text}{price})"));
    }
    let mut each: Vec<_> = statements
        .drain(..)
        .map(|statement| (Effect::Changes, statement))
        .collect();
    for ((name, _), target, target_now) in old
        .iter()
        .filter_map(|(key, target)| Some((key, target, new.get(key)?)))
    {
        if target.weight != target_now.weight {
            statements.push(format!(
                "weight of {name} {} → {}",
                target.weight, target_now.weight
            ));
        }
        let names = [&target.settings, &target_now.settings];
        let other = compare_settings(
            &whole_settings(before, target, names),
            &whole_settings(after, target_now, names),
        );
        each.extend(
            other
                .into_iter()
                .map(|(effect, other)| (effect, format!("{name}: {other}"))),
        );
    }
    if order(&old, &new) != order(&new, &old) {
        let mut sorted: Vec<_> = now.targets.iter().collect();
        sorted.sort_by_key(|target| target.tier);
        statements.push(format!(
            "order {}",
            sorted
                .into_iter()
                .map(target_name)
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    each.extend(
        statements
            .into_iter()
            .map(|statement| (Effect::Changes, statement)),
    );
    each
}

/// Lists the targets that the other side has too, by their tiers.
fn order(
    targets: &BTreeMap<(String, usize), &TargetItem>,
    other: &BTreeMap<(String, usize), &TargetItem>,
) -> Vec<Vec<(String, usize)>> {
    let mut tiers: BTreeMap<u32, Vec<(String, usize)>> = BTreeMap::new();
    for (key, target) in targets.iter().filter(|(key, _)| other.contains_key(*key)) {
        tiers.entry(target.tier).or_default().push(key.clone());
    }
    tiers.into_values().collect()
}

/// Says which costs differ.
fn price_changes(old: &Settings, new: &Settings) -> String {
    compare_settings(old, new)
        .into_iter()
        .map(|(_, statement)| statement)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Finds prices that differ.
fn compare_prices(
    found: &mut FoundChanges,
    id: &str,
    was: &ModelItem,
    now: &ModelItem,
    whom: impl Fn() -> Holders,
) {
    let (old, new) = (targets_by_name(was), targets_by_name(now));
    let nothing = BTreeMap::new();
    for ((name, _), target, target_now) in old
        .iter()
        .filter_map(|(key, target)| Some((key, target, new.get(key)?)))
    {
        let (effect, statement) = match (&target.price, &target_now.price) {
            (Some(_), None) => {
                let statement = "no longer known: requests of callers whose money is limited are not sent there";
                (Effect::Tightens, format!("price of {name} {statement}"))
            }
            (old, new) if old != new => {
                let [old, new] = [old, new].map(|price| price.as_ref().unwrap_or(&nothing));
                (
                    Effect::Changes,
                    format!("price of {name}: {}", price_changes(old, new)),
                )
            }
            _ => continue,
        };
        found.add_for_model(effect, ("model", id), statement, whom());
    }
}
