//! The changes of callers and of their keys. Which models they may use is in `access`.

use super::access::callers_of_both;
use super::{Effect, FoundChanges, compare_amounts};
use crate::base::address::Cidr;
use crate::inventory::{CallerItem, Inventory, KeyItem, SecretChanges, is_over};
use std::cmp::Ordering;

/// Finds what changes at callers and at keys. Of a key whose secrets are answered as other keys
/// nothing breaks, as far as it is known.
pub(super) fn compare_callers(
    found: &mut FoundChanges,
    [before, after]: [&Inventory; 2],
    secrets: Option<&SecretChanges>,
    now: &str,
) {
    let is_moved = |id: &str, name: &str| secrets.is_some_and(|secrets| secrets.is_moved(id, name));
    let breaks =
        |id: &str, caller: &CallerItem| caller.working_keys(now).any(|name| !is_moved(id, name));
    // Where not all names are listed, a key may be one of the others.
    let is_known = secrets.is_some_and(|secrets| secrets.more == 0);
    for (id, caller) in before
        .callers
        .iter()
        .filter(|(id, _)| !after.callers.contains_key(*id))
    {
        let (effect, unless) = match breaks(id, caller) {
            true if is_known => (Effect::Breaks, ""),
            true => (
                Effect::Breaks,
                ": refused unless other keys have the secrets",
            ),
            false => (Effect::Changes, ""),
        };
        found.add(
            effect,
            ("caller", id),
            format!("gone, with {}{unless}", keys_text(caller)),
        );
    }
    for (id, caller) in after
        .callers
        .iter()
        .filter(|(id, _)| !before.callers.contains_key(*id))
    {
        found.add(
            Effect::Widens,
            ("caller", id),
            format!("new, with {}", keys_text(caller)),
        );
    }
    for (id, was, is) in callers_of_both(before, after) {
        let entry = ("caller", id.as_str());
        match (was.enabled, is.enabled) {
            (true, false) => {
                let effect = if breaks(id, was) {
                    Effect::Breaks
                } else {
                    Effect::Changes
                };
                found.add(
                    effect,
                    entry,
                    format!("switched off: {} refused", keys_are(was)),
                );
            }
            (false, true) => found.add(Effect::Widens, entry, "switched on"),
            (true, true) | (false, false) => {}
        }
        compare_ends(
            found,
            entry,
            [&was.expires, &is.expires],
            (breaks(id, was), now),
        );
        if was.expose_cost != is.expose_cost {
            found.add(
                Effect::Changes,
                entry,
                format!("expose_cost {} → {}", was.expose_cost, is.expose_cost),
            );
        }
        for (effect, statement) in compare_amounts(&was.limits, &is.limits) {
            found.add(effect, entry, statement);
        }
        // A moved secret is reported with the keys that it opens.
        let gone = was
            .keys
            .iter()
            .filter(|(name, _)| !is.keys.contains_key(*name) && !is_moved(id, name));
        for (name, key) in gone {
            let works = was.works(now) && key.works(now);
            let (effect, statement) = match works {
                true if is_known => (Effect::Breaks, "gone: requests with it are refused"),
                true => (
                    Effect::Breaks,
                    "gone: requests with it are refused unless another key has its secret",
                ),
                false => (Effect::Changes, "gone; it did not work any more"),
            };
            found.add(effect, ("key", &format!("{id}/{name}")), statement);
        }
        for (name, key) in &is.keys {
            let full = format!("{id}/{name}");
            match was.keys.get(name) {
                None => found.add(Effect::Widens, ("key", &full), "new"),
                Some(key_was) if key_was != key => {
                    compare_key(
                        found,
                        ("key", &full),
                        [key_was, key],
                        (was.works(now) && !is_moved(id, name), now),
                    );
                }
                Some(_) => {}
            }
        }
    }
}

fn compare_key(
    found: &mut FoundChanges,
    entry: (&'static str, &str),
    [was, is]: [&KeyItem; 2],
    (may_break, now): (bool, &str),
) {
    let works = may_break && was.works(now);
    let breaks = if works {
        Effect::Breaks
    } else {
        Effect::Changes
    };
    match (was.disabled, is.disabled) {
        (false, true) => found.add(breaks, entry, "switched off: requests with it are refused"),
        (true, false) => found.add(Effect::Widens, entry, "switched on"),
        (true, true) | (false, false) => {}
    }
    compare_ends(found, entry, [&was.expires, &is.expires], (works, now));
    for (effect, statement) in compare_amounts(&was.limits, &is.limits) {
        found.add(effect, entry, statement);
    }
    let none = super::Amounts::new();
    let models: std::collections::BTreeSet<_> = was
        .model_limits
        .keys()
        .chain(is.model_limits.keys())
        .collect();
    for model in models {
        let [old, new] = [was, is].map(|key| key.model_limits.get(model).unwrap_or(&none));
        for (effect, statement) in compare_amounts(old, new) {
            found.add(effect, entry, format!("for the model {model}: {statement}"));
        }
    }
    if was.allow_ips != is.allow_ips {
        let text = |list: &[String]| {
            if list.is_empty() {
                "everywhere".to_owned()
            } else {
                list.join(", ")
            }
        };
        let effect = if covers_ranges(&is.allow_ips, &was.allow_ips) {
            Effect::Widens
        } else {
            Effect::Tightens
        };
        found.add(
            effect,
            entry,
            format!(
                "may be used from {} instead of {}",
                text(&is.allow_ips),
                text(&was.allow_ips)
            ),
        );
    }
    if was.debug != is.debug {
        found.add(
            Effect::Changes,
            entry,
            format!("debug {} → {}", was.debug, is.debug),
        );
    }
    if was.secrets != is.secrets {
        let text = |ends: &[Option<String>]| {
            let ends: Vec<_> = ends
                .iter()
                .map(|end| end.as_deref().unwrap_or("never"))
                .collect();
            format!("{} (ends: {})", ends.len(), ends.join(", "))
        };
        let [old, new] = [was, is].map(|key| key.working_secrets(now));
        // Which secret is which is not known here.
        let ends = |key: &KeyItem| {
            let mut ends: Vec<_> = key
                .secrets
                .iter()
                .map(|end| (end.is_none(), end.clone()))
                .collect();
            ends.sort_unstable();
            ends
        };
        let sooner = || ends(is).iter().zip(&ends(was)).any(|(is, was)| is < was);
        let effect = match new.cmp(&old) {
            Ordering::Less => breaks,
            Ordering::Equal if was.secrets.len() == is.secrets.len() && sooner() => {
                Effect::Tightens
            }
            Ordering::Equal | Ordering::Greater => Effect::Changes,
        };
        found.add(
            effect,
            entry,
            format!("secrets {} → {}", text(&was.secrets), text(&is.secrets)),
        );
    }
}

/// Returns whether every address of the old ranges is in one of the new ones. No range is all.
fn covers_ranges(new: &[String], old: &[String]) -> bool {
    let read = |list: &[String]| -> Vec<Cidr> {
        list.iter().filter_map(|range| range.parse().ok()).collect()
    };
    let (wide, narrow) = (read(new), read(old));
    let is_in = |range: &Cidr| wide.iter().any(|wide| wide.covers(range));
    new.is_empty() || (!old.is_empty() && narrow.iter().all(is_in))
}

/// Finds that something ends at another time. A key that does not work now breaks no request.
fn compare_ends(
    found: &mut FoundChanges,
    entry: (&'static str, &str),
    [was, is]: [&Option<String>; 2],
    (works, now): (bool, &str),
) {
    if was == is {
        return;
    }
    let text = |end: &Option<String>| end.clone().unwrap_or_else(|| "never".to_owned());
    let is_sooner = is
        .as_ref()
        .is_some_and(|is| was.as_ref().is_none_or(|was| is < was));
    let effect = match (is_over(was.as_deref(), now), is_over(is.as_deref(), now)) {
        (false, true) if works => Effect::Breaks,
        (_, true) => Effect::Changes,
        (true, false) => Effect::Widens,
        (false, false) if is_sooner => Effect::Tightens,
        (false, false) => Effect::Widens,
    };
    let refused = if effect == Effect::Breaks {
        ", which is past: requests are refused"
    } else {
        ""
    };
    found.add(
        effect,
        entry,
        format!("expires {} → {}{refused}", text(was), text(is)),
    );
}

fn keys_text(caller: &CallerItem) -> String {
    match caller.keys.len() {
        1 => "1 key".to_owned(),
        many => format!("{many} keys"),
    }
}

fn keys_are(caller: &CallerItem) -> String {
    format!(
        "{} {}",
        keys_text(caller),
        if caller.keys.len() == 1 { "is" } else { "are" }
    )
}
