//! The changes of accounts and of models.

use std::collections::{BTreeMap, BTreeSet};

use super::Effect::{self, Breaks, Changes, Tightens, Widens};
use super::access::{Access, is_served};
use super::{FoundChanges, Holders, Sides, both_sides, by_effect, compare_settings};
use crate::base::units::format_count;
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
        before,
        after,
        access_before: old,
        ..
    } = *sides;
    for (id, (was, now)) in both_sides(&before.accounts, &after.accounts) {
        let entry = ("account", id.as_str());
        let (Some(was), Some(now)) = (was, now) else {
            let statement = if now.is_none() { "gone" } else { "new" };
            found.add(Changes, entry, statement);
            continue;
        };
        let models = after.models.iter().filter(|(_, model)| {
            let mut targets = model.targets.iter();
            targets.any(|target| target.account == *id)
        });
        let models: Vec<_> = models.collect();
        let whom = || old.holders_of_any(&models);
        let go = if models.len() == 1 { "goes" } else { "go" };
        let models = format!("{} {go} there", format_count(models.len(), "model"));
        match (was.enabled, now.enabled) {
            (true, false) => found.add(Changes, entry, format!("switched off; {models}")),
            (false, true) => found.add(Changes, entry, format!("switched on; {models}")),
            (true, true) if was.credential != now.credential => {
                let statement = format!(
                    "another kind of credential: {} → {}",
                    was.credential, now.credential
                );
                found.add(Changes, entry, statement);
            }
            (true, true) | (false, false) => {}
        }
        if was.address != now.address {
            found.add(
                Changes,
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
            let is_tighter = effect == Tightens;
            let whom = if is_tighter {
                whom()
            } else {
                Holders::default()
            };
            let statement = format!("{}; {models}", statement.join(", "));
            found.add_for_model(effect, entry, statement, whom);
        }
    }
}

/// Finds what changes at models, and for whom.
pub(super) fn compare_models(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        access_before: old,
        access_after: new,
        ..
    } = *sides;
    for (id, (was, now)) in both_sides(&before.models, &after.models) {
        let entry = ("model", id.as_str());
        let Some(was) = was else {
            add_new_model(found, sides, id);
            continue;
        };
        let whom = || old.holders_of(id, was.pattern);
        let Some(now) = now else {
            let (effect, statement) = match new.meant(id) {
                _ if !is_served(before, was) => (
                    Changes,
                    "gone; it had no target that is switched on".to_owned(),
                ),
                None => (Breaks, "gone".to_owned()),
                Some((pattern, _)) if pattern == id => {
                    (Changes, "gone; a pattern may answer instead".to_owned())
                }
                Some((other, _)) => (
                    Changes,
                    format!("gone; its name means the model {other} then"),
                ),
            };
            found.add_for_model(effect, entry, statement, whom());
            continue;
        };
        match (is_served(before, was), is_served(after, now)) {
            (true, false) => {
                let statement = format!("no target is left: {} switched off", accounts_off(now));
                found.add_for_model(Breaks, entry, statement, whom());
            }
            (false, true) => {
                let whom = new.holders_of(id, now.pattern);
                found.add_for_model(Widens, entry, "served again", whom);
            }
            (true, true) | (false, false) => {}
        }
        let (old_kinds, new_kinds) = (served_kinds(before, was), served_kinds(after, now));
        let lost: Vec<&str> = old_kinds.difference(&new_kinds).copied().collect();
        if !lost.is_empty() && is_served(after, now) {
            // What a model is for refuses nothing, but hardly anybody asks it for something else.
            let made_for = was.settings.get("kind").map_or("chat", String::as_str);
            let is_main = |kind: &&str| is_for(kind, made_for);
            let is_only_beside = old_kinds.iter().any(is_main) && !lost.iter().any(is_main);
            let effect = if is_only_beside { Tightens } else { Breaks };
            let statement = format!("no target serves {} any more", lost.join(", "));
            found.add_for_model(effect, entry, statement, whom());
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
    compare_names(found, sides);
}

fn add_new_model(found: &mut FoundChanges, sides: &Sides<'_, '_>, id: &str) {
    let Sides {
        after,
        access_before: old,
        access_after: new,
        ..
    } = *sides;
    let Some(model) = after.models.get(id) else {
        return;
    };
    let meant = match old.meant(id) {
        None => String::new(),
        Some((pattern, _)) if pattern == id => format!("; {BY_PATTERN}"),
        Some((other, _)) => format!("; its name meant the model {other} until now"),
    };
    let off = || format!("new, but not served: {} switched off", accounts_off(model));
    let holders = || new.holders_of(id, model.pattern);
    let (effect, statement, whom) = match is_served(after, model) {
        true if meant.is_empty() => (Widens, "new".to_owned(), holders()),
        true => (Changes, format!("new{meant}"), holders()),
        // Whoever asked for the other model by this name is refused now.
        false if new.dead.contains(id) && !meant.is_empty() => (
            Breaks,
            format!("{}{meant}", off()),
            holders_of_name(old, id),
        ),
        false => (Changes, off(), holders()),
    };
    found.add_for_model(effect, ("model", id), statement, whom);
}

/// Finds names that are gone, new, or mean another model. The names of a model that is no longer
/// served go with it.
fn compare_names(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        access_before: old,
        access_after: new,
        ..
    } = *sides;
    for (name, (id, pattern)) in &old.names {
        let (effect, statement) = match new.meant(name) {
            // The model is gone, and its own line has that.
            Some(_) if *name == *id && !after.models.contains_key(*id) => continue,
            Some((is, _)) if is != *id => {
                (Changes, format!("means the model {is} instead of {id}"))
            }
            // Of a model that goes, its other names are listed only if its id is still answered:
            // else all are listed with it.
            None if is_answered(after, new, id) => (Breaks, format!("gone; it meant {id}")),
            Some(_) | None => continue,
        };
        let whom = old.holders_of(id, *pattern);
        found.add_for_model(effect, ("name", name), statement, whom);
    }
    let is_new = |name: &&&str| !old.dead.contains(**name) && !after.models.contains_key(**name);
    for name in new.dead.iter().filter(is_new) {
        if let Some((id, _)) = old.meant(name).filter(|_| !old.names.contains_key(name)) {
            let meant = if id == *name {
                BY_PATTERN
            } else {
                &format!("it meant {id}")
            };
            let statement = format!("a name of a model that is not served; {meant}");
            found.add_for_model(
                Breaks,
                ("name", name),
                statement,
                holders_of_name(old, name),
            );
        }
    }
    let is_new = |name: &&str| !old.names.contains_key(name);
    for (name, (id, pattern)) in new.names.iter().filter(|(name, _)| is_new(name)) {
        let (effect, statement) = match old.meant(name) {
            // The model is new, and its own line has that.
            _ if *name == *id => continue,
            None if before
                .models
                .get(*id)
                .is_some_and(|model| is_served(before, model)) =>
            {
                (Widens, format!("new; it means {id}"))
            }
            None => continue,
            // Another name of the model had it.
            Some((is, _)) if is == *id => {
                (Changes, format!("written now; it meant {id} before, too"))
            }
            Some((of_pattern, _)) if of_pattern == *name => {
                (Changes, format!("means the model {id}; {BY_PATTERN}"))
            }
            Some((other, _)) => (Changes, format!("means the model {id} instead of {other}")),
        };
        let whom = match old.meant(name) {
            None => new.holders_of(id, *pattern),
            Some((is, _)) if is == *id => Holders::default(),
            Some(_) => holders_of_name(old, name),
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
type NamedTargets<'i> = BTreeMap<(String, usize), &'i TargetItem>;

fn targets_by_name(model: &ModelItem) -> NamedTargets<'_> {
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

/// Lists what changes at the targets of a model, but for their prices.
fn compare_targets(
    before: &Inventory,
    after: &Inventory,
    was: &ModelItem,
    now: &ModelItem,
) -> Vec<(Effect, String)> {
    let (old, new) = (targets_by_name(was), targets_by_name(now));
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut statements: Vec<_> = removed
        .map(|(name, _)| (Changes, format!("target {name} removed")))
        .collect();
    for ((name, _), target) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        let price = if target.price.is_some() {
            ""
        } else {
            ", price unknown"
        };
        let position = position_text(now, target);
        let statement = format!("target {name} added ({position}{price})");
        statements.push((Changes, statement));
    }
    let mut weights = Vec::new();
    for ((name, _), [target, target_now]) in kept_targets(&old, &new) {
        if target.weight != target_now.weight {
            let [weight, weight_now] = [target, target_now].map(|target| target.weight);
            weights.push((Changes, format!("weight of {name} {weight} → {weight_now}")));
        }
        let names = [&target.settings, &target_now.settings];
        let other = compare_settings(
            &whole_settings(before, target, names),
            &whole_settings(after, target_now, names),
        );
        let other = other
            .into_iter()
            .map(|(effect, other)| (effect, format!("{name}: {other}")));
        statements.extend(other);
    }
    statements.append(&mut weights);
    if order(&old, &new) != order(&new, &old) {
        let mut sorted: Vec<_> = now.targets.iter().collect();
        sorted.sort_by_key(|target| target.tier);
        let names: Vec<_> = sorted.into_iter().map(target_name).collect();
        statements.push((Changes, format!("order {}", names.join(", "))));
    }
    statements
}

/// Returns when a target of a model is tried, or how often.
fn position_text(model: &ModelItem, target: &TargetItem) -> String {
    let strategy = model.settings.get("strategy");
    if strategy.is_some_and(|strategy| strategy != "priority") {
        return format!("weight {}", target.weight);
    }
    match model
        .targets
        .iter()
        .filter(|other| other.tier < target.tier)
        .count()
    {
        0 => "tried first".to_owned(),
        many => format!("tried after {}", format_count(many, "other")),
    }
}

/// Lists the targets that are there before and after, each with both.
fn kept_targets<'m, 'i>(
    old: &'m NamedTargets<'i>,
    new: &'m NamedTargets<'i>,
) -> impl Iterator<Item = (&'m (String, usize), [&'i TargetItem; 2])> {
    old.iter()
        .filter_map(|(key, target)| Some((key, [*target, *new.get(key)?])))
}

/// Lists the targets that the other side has too, by their tiers.
fn order(targets: &NamedTargets<'_>, other: &NamedTargets<'_>) -> Vec<Vec<(String, usize)>> {
    let mut tiers: BTreeMap<u32, Vec<(String, usize)>> = BTreeMap::new();
    for (key, target) in targets.iter().filter(|(key, _)| other.contains_key(*key)) {
        tiers.entry(target.tier).or_default().push(key.clone());
    }
    tiers.into_values().collect()
}

/// Writes which costs differ.
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
    for ((name, _), [target, target_now]) in kept_targets(&old, &new) {
        let (effect, statement) = match (&target.price, &target_now.price) {
            (Some(_), None) => {
                let statement = "no longer known: requests of callers whose money is limited are not sent there";
                (Tightens, format!("price of {name} {statement}"))
            }
            (old, new) if old != new => {
                let [old, new] = [old, new].map(|price| price.as_ref().unwrap_or(&nothing));
                (
                    Changes,
                    format!("price of {name}: {}", price_changes(old, new)),
                )
            }
            _ => continue,
        };
        found.add_for_model(effect, ("model", id), statement, whom());
    }
}
