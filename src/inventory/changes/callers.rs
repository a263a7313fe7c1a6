//! The changes of callers and of their keys. Which models they may use is in `access`.

use super::access::callers_of_both;
use super::{Effect, FoundChanges, Sides, compare_amounts};
use crate::base::address::Cidr;
use crate::inventory::{CallerItem, KeyItem, is_over};
use std::cmp::Ordering;

/// Finds what changes at callers and at keys. Of a key whose secrets are answered as other keys
/// nothing breaks, as far as it is known.
pub(super) fn compare_callers(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides {
        before,
        after,
        secrets,
        now,
        ..
    } = *sides;
    let breaks = |id: &str, caller: &CallerItem| breaks_requests(sides, id, caller);
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
        let works = breaks(id, was);
        compare_ends(found, entry, &was.expires, &is.expires, works, now);
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
            .filter(|(name, _)| !is.keys.contains_key(*name) && !sides.is_moved(id, name));
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
                    let may_break = was.works(now) && !sides.is_moved(id, name);
                    compare_keys(found, ("key", &full), key_was, key, may_break, now);
                }
                Some(_) => {}
            }
        }
    }
}

/// Returns whether a caller has a key that works now, and whose secret opens no other key then.
fn breaks_requests(sides: &Sides<'_, '_>, id: &str, caller: &CallerItem) -> bool {
    let mut keys = caller.working_keys(sides.now);
    keys.any(|name| !sides.is_moved(id, name))
}

fn compare_keys(
    found: &mut FoundChanges,
    at: (&'static str, &str),
    was: &KeyItem,
    is: &KeyItem,
    may_break: bool,
    now: &str,
) {
    let works = may_break && was.works(now);
    let breaks = if works {
        Effect::Breaks
    } else {
        Effect::Changes
    };
    match (was.disabled, is.disabled) {
        (false, true) => found.add(breaks, at, "switched off: requests with it are refused"),
        (true, false) => found.add(Effect::Widens, at, "switched on"),
        (true, true) | (false, false) => {}
    }
    compare_ends(found, at, &was.expires, &is.expires, works, now);
    for (effect, what) in compare_amounts(&was.limits, &is.limits) {
        found.add(effect, at, what);
    }
    let none = super::Amounts::new();
    let models: std::collections::BTreeSet<_> = was
        .model_limits
        .keys()
        .chain(is.model_limits.keys())
        .collect();
    for model in models {
        let [old, new] = [was, is].map(|key| key.model_limits.get(model).unwrap_or(&none));
        for (effect, what) in compare_amounts(old, new) {
            found.add(effect, at, format!("for the model {model}: {what}"));
        }
    }
    if was.allow_ips != is.allow_ips {
        let effect = if covers_ranges(&is.allow_ips, &was.allow_ips) {
            Effect::Widens
        } else {
            Effect::Tightens
        };
        found.add(
            effect,
            at,
            format!(
                "may be used from {} instead of {}",
                addresses(&is.allow_ips),
                addresses(&was.allow_ips)
            ),
        );
    }
    if was.debug != is.debug {
        found.add(
            Effect::Changes,
            at,
            format!("debug {} → {}", was.debug, is.debug),
        );
    }
    if was.secrets != is.secrets {
        let [old, new] = [was, is].map(|key| key.working_secrets(now));
        // Which secret is which is not known here.
        let (ends, ends_before) = (ordered_ends(is), ordered_ends(was));
        let is_sooner = ends.iter().zip(&ends_before).any(|(is, was)| is < was);
        let effect = match new.cmp(&old) {
            Ordering::Less => breaks,
            Ordering::Equal if was.secrets.len() == is.secrets.len() && is_sooner => {
                Effect::Tightens
            }
            Ordering::Equal | Ordering::Greater => Effect::Changes,
        };
        found.add(
            effect,
            at,
            format!("secrets {} → {}", secret_ends(was), secret_ends(is)),
        );
    }
}

fn addresses(list: &[String]) -> String {
    if list.is_empty() {
        "everywhere".to_owned()
    } else {
        list.join(", ")
    }
}

/// Writes how many secrets a key has, and when they end.
fn secret_ends(key: &KeyItem) -> String {
    let ends = key.secrets.iter();
    let ends: Vec<_> = ends.map(|end| end.as_deref().unwrap_or("never")).collect();
    format!("{} (ends: {})", ends.len(), ends.join(", "))
}

/// Lists when the secrets of a key end, the first one first.
fn ordered_ends(key: &KeyItem) -> Vec<(bool, Option<String>)> {
    let ends = key.secrets.iter();
    let mut ends: Vec<_> = ends.map(|end| (end.is_none(), end.clone())).collect();
    ends.sort_unstable();
    ends
}

/// Returns whether every address of the old ranges is in one of the new ones. No range is all.
fn covers_ranges(new: &[String], old: &[String]) -> bool {
    let (wide, narrow) = (read_ranges(new), read_ranges(old));
    let is_in = |range: &Cidr| wide.iter().any(|wide| wide.covers(range));
    new.is_empty() || (!old.is_empty() && narrow.iter().all(is_in))
}

fn read_ranges(list: &[String]) -> Vec<Cidr> {
    list.iter().filter_map(|range| range.parse().ok()).collect()
}

/// Finds that something ends at another time. A key that does not work now breaks no request.
fn compare_ends(
    found: &mut FoundChanges,
    at: (&'static str, &str),
    was: &Option<String>,
    is: &Option<String>,
    works: bool,
    now: &str,
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
        at,
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
