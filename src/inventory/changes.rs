//! The changes between two inventories: what differs, what follows from it, and for whom.
//!
//! It is pure: two values and the time come in, and a list goes out, what is most harmful first.
//! Whether a key may use a model is decided by [`Permissions`](crate::catalog::Permissions), as for
//! requests and for lists of models.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::settings::Tighter;
use super::{Amounts, Inventory, SecretChanges, Settings};
use dialects::named_enum;

mod access;
mod callers;
mod upstreams;
pub mod words;

use Effect::{Breaks, Changes, Restart, Tightens, Widens};
use access::Access;

named_enum! {
    /// The effect of a change on requests. The most harmful effect comes first.
    #[derive(PartialOrd, Ord)]
    pub enum Effect: Serialize {
        /// Requests that are answered now will be refused.
        Breaks = "breaks",
        /// A limit or a time is shorter, or fewer addresses may send.
        Tightens = "tightens",
        /// Requests go another way, cost something else, or look different.
        Changes = "changes",
        /// Somebody may do more than before.
        Widens = "widens",
        /// It is used only after a restart.
        Restart = "restart",
    }
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    /// The effect.
    pub effect: Effect,
    /// The kind of the entries: `caller`, `key`, `model`, `name`, `account`, `identity` or
    /// `server.yaml`.
    pub kind: &'static str,
    /// The consequence for them, in words.
    #[serde(rename = "what")]
    pub statement: String,
    /// The models that this is about, if it is a list of models.
    pub models: Vec<String>,
    /// The entries.
    pub names: Vec<String>,
    /// Who may use the model now (who will, if it is new); empty where the entries say it.
    pub callers: Vec<String>,
    /// The number of their keys that may use it.
    pub keys: usize,
}

/// The callers and the number of keys that may use a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Holders {
    callers: Vec<String>,
    keys: usize,
}

/// The findings. Entries with one effect are put together.
#[derive(Default)]
struct FoundChanges(BTreeMap<ChangeKey, BTreeSet<String>>);

/// The change: its effect, the kind of the entries, the words, the models, and for whom.
type ChangeKey = (Effect, &'static str, String, Vec<String>, Holders);

impl FoundChanges {
    fn add(&mut self, effect: Effect, entry: (&'static str, &str), statement: impl Into<String>) {
        self.add_with_models(
            effect,
            entry,
            statement.into(),
            Vec::new(),
            Holders::default(),
        );
    }

    /// Adds what happens to a model, for these callers. If there are none, nothing breaks.
    fn add_for_model(
        &mut self,
        effect: Effect,
        entry: (&'static str, &str),
        statement: impl Into<String>,
        whom: Holders,
    ) {
        let effect = if effect == Breaks && whom.keys == 0 {
            Changes
        } else {
            effect
        };
        self.add_with_models(effect, entry, statement.into(), Vec::new(), whom);
    }

    fn add_with_models(
        &mut self,
        effect: Effect,
        entry: (&'static str, &str),
        statement: String,
        models: Vec<String>,
        whom: Holders,
    ) {
        let (kind, name) = entry;
        self.0
            .entry((effect, kind, statement, models, whom))
            .or_default()
            .insert(name.to_owned());
    }

    fn into_changes(self) -> Vec<Change> {
        let changes = self.0.into_iter().map(|(happening, names)| {
            let (effect, kind, statement, models, whom) = happening;
            Change {
                effect,
                kind,
                statement,
                models,
                names: names.into_iter().collect(),
                callers: whom.callers,
                keys: whom.keys,
            }
        });
        changes.collect()
    }
}

/// The facts about two inventories that are not in them.
#[derive(Debug, Default)]
pub struct ExtraFacts<'b> {
    /// Whose secrets differ; `None` if it is not known.
    pub secrets: Option<SecretChanges>,
    /// The marks of the sections of server.yaml, before and after.
    pub server: Option<[&'b BTreeMap<String, String>; 2]>,
}

/// The two inventories that are compared, and what is known of them.
#[derive(Clone, Copy)]
struct Sides<'a, 'i> {
    before: &'i Inventory,
    after: &'i Inventory,
    /// Who may use which model before the change.
    access_before: &'a Access<'i>,
    /// Who may use which model after it.
    access_after: &'a Access<'i>,
    /// Whose secrets differ; `None` if it is not known.
    secrets: Option<&'a SecretChanges>,
    /// The present time, as in the inventories.
    now: &'a str,
}

impl Sides<'_, '_> {
    /// Returns whether it is known of each key whether its secrets differ. Where not all names are
    /// listed, a key may be one of the others.
    fn knows_all_secrets(&self) -> bool {
        self.secrets.is_some_and(|secrets| secrets.more == 0)
    }

    /// Returns whether the secret of a key opens another key after the change.
    fn is_moved(&self, caller: &str, key: &str) -> bool {
        self.secrets
            .is_some_and(|secrets| secrets.is_moved(caller, key))
    }
}

/// Lists the changes from one inventory to another. `now` is a time as in the inventories.
pub fn find_changes(
    before: &Inventory,
    after: &Inventory,
    besides: &ExtraFacts<'_>,
    now: &str,
) -> Vec<Change> {
    let mut found = FoundChanges::default();
    let [old, new] = [Access::new(before, now), Access::new(after, now)];
    let sides = Sides {
        before,
        after,
        access_before: &old,
        access_after: &new,
        secrets: besides.secrets.as_ref(),
        now,
    };
    upstreams::compare_accounts(&mut found, &sides);
    upstreams::compare_models(&mut found, &sides);
    callers::compare_callers(&mut found, &sides);
    access::compare_permissions(&mut found, &sides);
    compare_identities(&mut found, before, after);
    if let Some(secrets) = &besides.secrets {
        add_secret_changes(&mut found, after, secrets);
    }
    if let Some([before, after]) = besides.server {
        for (name, _) in differing(before, after) {
            found.add(Restart, ("server.yaml", name), "differs");
        }
    }
    found.into_changes()
}

/// Compares the issuers of tokens.
fn compare_identities(found: &mut FoundChanges, before: &Inventory, after: &Inventory) {
    for (name, settings) in both_sides(&before.identities, &after.identities) {
        let entry = ("identity", name.as_str());
        match settings {
            (Some(before), Some(after)) => {
                for (setting, (was, is)) in both_sides(before, after) {
                    if was != is {
                        let [was, is] = [was, is].map(|one| one.map_or("none", String::as_str));
                        found.add(Changes, entry, format!("{setting}: {was} → {is}"));
                    }
                }
            }
            (Some(_), None) => found.add(Breaks, entry, "gone; its tokens are refused"),
            (None, _) => found.add(Widens, entry, "new; its tokens are accepted"),
        }
    }
}

/// Adds whose secrets differ.
fn add_secret_changes(found: &mut FoundChanges, after: &Inventory, secrets: &SecretChanges) {
    for (account, parts) in &secrets.accounts {
        found.add(
            Changes,
            ("account", account),
            format!("other secrets: {}", parts.join(", ")),
        );
    }
    let shortened = [
        (Breaks, &secrets.keys, "is refused"),
        (Tightens, &secrets.sooner, "ends sooner"),
    ];
    for (effect, keys, then) in shortened {
        for key in keys {
            found.add(
                effect,
                ("key", key),
                format!("a secret of it that works now {then}"),
            );
        }
    }
    for (key, opens) in &secrets.moved {
        let others: Vec<_> = opens
            .iter()
            .filter(|other| *other != key)
            .map(String::as_str)
            .collect();
        let opens = format!(
            "opens the key{} {} then",
            if others.len() == 1 { "" } else { "s" },
            others.join(", ")
        );
        let statement = match after.key(key) {
            Some(_) => format!("a secret of it {opens}"),
            None => format!("gone; its secret {opens}"),
        };
        found.add(Changes, ("key", key), statement);
    }
}

/// The value of an entry before and after a change; at least one of them is there.
type BeforeAfter<'m, V> = (Option<&'m V>, Option<&'m V>);

/// Lists the entries that are there before or after, by their names.
fn both_sides<'m, V>(
    before: &'m BTreeMap<String, V>,
    after: &'m BTreeMap<String, V>,
) -> impl Iterator<Item = (&'m String, BeforeAfter<'m, V>)> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .map(|name| (name, (before.get(name), after.get(name))))
}

/// Lists the entries that differ, by their names.
fn differing<'m, V: PartialEq>(
    before: &'m BTreeMap<String, V>,
    after: &'m BTreeMap<String, V>,
) -> impl Iterator<Item = (&'m String, BeforeAfter<'m, V>)> {
    both_sides(before, after).filter(|(_, (old, new))| old != new)
}

/// Lists the settings that differ, as `name before → after`, with what each does.
fn compare_settings(before: &Settings, after: &Settings) -> Vec<(Effect, String)> {
    let each = differing(before, after).map(|(name, (old, new))| {
        let effect = if Tighter::find(name).is_tighter(old, new) {
            Tightens
        } else {
            Changes
        };
        let [old, new] = [old, new].map(|value| value.map_or("not set", String::as_str));
        (effect, format!("{name} {old} → {new}"))
    });
    each.collect()
}

/// Puts the words of each effect together.
fn by_effect(each: Vec<(Effect, String)>) -> BTreeMap<Effect, Vec<String>> {
    let mut all: BTreeMap<Effect, Vec<String>> = BTreeMap::new();
    for (effect, statement) in each {
        all.entry(effect).or_default().push(statement);
    }
    all
}

/// Lists the limits that differ, with what each does.
fn compare_amounts(before: &Amounts, after: &Amounts) -> Vec<(Effect, String)> {
    let each = differing(before, after).map(|(name, (old, new))| {
        let number = |limit: Option<&Value>| limit.map_or(Some(f64::INFINITY), Value::as_f64);
        let effect = match number(old).zip(number(new)) {
            // `reserve` is a rule, and has a usual value.
            _ if name == "reserve" => Changes,
            Some((old, new)) if new < old => Tightens,
            Some(_) => Widens,
            None => Changes,
        };
        let nothing = if name == "reserve" {
            "usual"
        } else {
            "no limit"
        };
        let [old, new] = [old, new].map(|limit| limit.map_or(nothing.to_owned(), amount));
        (effect, format!("{name} {old} → {new}"))
    });
    each.collect()
}

/// Writes a limit as in the catalog. Money is `10` there, not `10.0`.
fn amount(limit: &Value) -> String {
    match limit {
        Value::String(word) => word.clone(),
        Value::Number(money) if money.is_f64() => money.as_f64().unwrap_or_default().to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            limit.to_string()
        }
    }
}

#[cfg(test)]
mod agrees;
#[cfg(test)]
mod tests;
