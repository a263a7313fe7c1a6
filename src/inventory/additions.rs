//! Decides whether a change only adds entries, or disables some. A file that is still being written
//! may lack its end. If a change only adds or disables, nothing of an entry that is live was cut
//! away, so the change may be made before the file is known to be whole.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::{AccountItem, CallerItem, Inventory, KeyItem, ModelItem, SecretChanges, Settings};
use crate::catalog::Catalog;

/// The settings that are read from files or from the environment. Of an account that is switched
/// off they are not read, so they seem to differ.
const UNREAD_WHEN_OFF: [&str; 2] = ["ca", "proxy"];

/// Returns whether a change removes nothing, and changes nothing of what was there, except that
/// `enabled` may become false.
pub fn only_adds_or_disables(before: &Catalog, after: &Catalog, now: SystemTime) -> bool {
    let [old, new] = [
        Inventory::from_catalog(before),
        Inventory::from_catalog(after),
    ];
    // A key keeps all its working secrets, for as long as before, and none opens another key. The
    // secrets of an account that is switched off are not read.
    let SecretChanges {
        accounts,
        keys: losing_secrets,
        sooner: ending_sooner,
        moved: opening_others,
        more: _,
    } = SecretChanges::between(before, after, now);
    let changed_accounts_are_off = accounts.keys().all(|account| {
        let account = new.accounts.get(account);
        account.is_some_and(|account| !account.enabled)
    });
    let secrets_stay = changed_accounts_are_off
        && losing_secrets.is_empty()
        && ending_sooner.is_empty()
        && opening_others.is_empty();
    secrets_stay && entries_stay(&old, &new)
}

fn entries_stay(old: &Inventory, new: &Inventory) -> bool {
    let Inventory {
        accounts,
        callers,
        models,
        identities,
    } = old;
    all_stay(identities, &new.identities, Settings::eq)
        && all_stay(accounts, &new.accounts, account_stays)
        && all_stay(models, &new.models, ModelItem::eq)
        && all_stay(callers, &new.callers, caller_stays)
}

fn all_stay<V>(
    old: &BTreeMap<String, V>,
    new: &BTreeMap<String, V>,
    is_kept: fn(&V, &V) -> bool,
) -> bool {
    old.iter()
        .all(|(id, was)| new.get(id).is_some_and(|is| is_kept(was, is)))
}

/// Returns whether an account stays the same, but for being switched off.
fn account_stays(old: &AccountItem, new: &AccountItem) -> bool {
    let is_switched_off = old.enabled && !new.enabled;
    old == new
        || (is_switched_off
            && old.address == new.address
            && without_unread(&old.settings) == without_unread(&new.settings))
}

/// Returns the settings without those that are not read of an account that is switched off.
fn without_unread(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.retain(|name, _| !UNREAD_WHEN_OFF.contains(&name.as_str()));
    settings
}

/// Returns whether a caller stays the same, but for being switched off, and so do its keys.
fn caller_stays(old: &CallerItem, new: &CallerItem) -> bool {
    let CallerItem {
        enabled,
        expires,
        expose_cost,
        keys,
        limits,
        models,
    } = old;
    // The models of a caller without keys are not in the inventory.
    let models_stay = keys.is_empty() || *models == new.models;
    stays_or_goes_off(*enabled, new.enabled)
        && (expires, expose_cost, limits) == (&new.expires, &new.expose_cost, &new.limits)
        && models_stay
        && all_stay(keys, &new.keys, key_stays)
}

/// Returns whether a key stays the same, but for being switched off.
fn key_stays(old: &KeyItem, new: &KeyItem) -> bool {
    let with_old_switch = KeyItem {
        disabled: old.disabled,
        ..new.clone()
    };
    stays_or_goes_off(!old.disabled, !new.disabled) && with_old_switch == *old
}

/// Returns whether `enabled` stays, or becomes false.
fn stays_or_goes_off(old: bool, new: bool) -> bool {
    old || !new
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::only_adds_or_disables;
    use crate::catalog::resolve::resolve_catalog;

    const BEFORE: &str = "
accounts:
  a: { dialect: openai, base_url: 'http://10.0.0.1/v1', key: secret-of-a, concurrency: 5 }
  b: { dialect: demo }
  spare: { dialect: demo }
models:
  m: { targets: [{ account: a }, { account: b }] }
callers:
  acme: { models: [m], limits: { requests_per_minute: 9 }, keys: { one: { hash: 'sha256:AA' }, two: { hash: 'sha256:BB', enabled: false } } }
  idle: { models: [m] }
";

    /// Checks what a change of words does.
    #[track_caller]
    fn check(from: &str, to: &str, expected: bool) {
        let catalog = |text: &str| {
            let text = text
                .replace("AA", &"a".repeat(64))
                .replace("BB", &"b".repeat(64))
                .replace("CC", &"c".repeat(64));
            resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
                Err("nothing".to_owned())
            })
            .unwrap()
        };
        assert!(BEFORE.contains(from), "{from}");
        let after = BEFORE.replacen(from, to, 1);
        let found = only_adds_or_disables(&catalog(BEFORE), &catalog(&after), SystemTime::now());
        assert_eq!(found, expected, "{from} → {to}");
    }

    #[test]
    fn new_entries_and_switches_to_off_are_nothing_else() {
        check("acme", "acme", true);
        check("  b: {", "  c: { dialect: demo }\n  b: {", true);
        check(
            "  m: {",
            "  n: { aliases: [o], targets: [{ account: b }] }\n  m: {",
            true,
        );
        check(
            "  idle: {",
            "  new: { models: [m], keys: { k: { hash: 'sha256:CC' } } }\n  idle: {",
            true,
        );
        check("keys: { one", "keys: { k: { hash: 'sha256:CC' }, one", true);
        check(
            "idle: { models: [m]",
            "idle: { models: [m], keys: { k: { hash: 'sha256:CC' } }",
            true,
        );
        check("AA'", "AA', enabled: false", true);
        check("acme: {", "acme: { enabled: false,", true);
        check("a: { dialect", "a: { enabled: false, dialect", true);
        check("b: { dialect", "b: { enabled: false, dialect", true);
    }

    #[test]
    fn all_else_is_something_else() {
        for (from, to) in [
            ("  spare: { dialect: demo }\n", ""),
            (", { account: b }", ""),
            ("{ account: a }", "{ account: a, weight: 3 }"),
            (", concurrency: 5", ""),
            (
                "base_url: 'http://10.0.0.1/v1'",
                "enabled: false, base_url: 'http://10.0.0.2/v1'",
            ),
            ("secret-of-a", "secret-of-b"),
            ("10.0.0.1", "10.0.0.2"),
            (", limits: { requests_per_minute: 9 }", ""),
            (", enabled: false", ""),
            (", two: { hash: 'sha256:BB', enabled: false }", ""),
            ("sha256:AA", "sha256:CC"),
            ("AA'", "AA', expires: '2040-01-01'"),
            ("AA'", "AA', models: []"),
            ("AA'", "AA', enabled: false, debug: true"),
            ("  idle: { models: [m] }\n", ""),
            ("acme: { models: [m]", "acme: { models: ['*']"),
        ] {
            check(from, to, false);
        }
    }
}
