//! The changes of callers and of their keys. Which models they may use is in `access`.

use std::cmp::Ordering;

use super::Effect::{self, Breaks, Changes, Tightens, Widens};
use super::{FoundChanges, Sides, both_sides, compare_amounts, differing};
use crate::base::address::Cidr;
use crate::base::units::format_count;
use crate::inventory::{CallerItem, KeyItem, is_over};

/// Finds what changes at callers and at keys. A key whose secrets open other keys from now on
/// breaks nothing, as far as it is known.
pub(super) fn compare_callers(found: &mut FoundChanges, sides: &Sides<'_, '_>) {
    let Sides { before, after, .. } = *sides;
    for (id, (was, is)) in both_sides(&before.callers, &after.callers) {
        let entry = ("caller", id.as_str());
        match (was, is) {
            (Some(was), Some(is)) => compare_caller(found, sides, entry, was, is),
            (Some(was), None) => {
                let (effect, unless) = match breaks_requests(sides, id, was) {
                    true if sides.knows_all_secrets() => (Breaks, ""),
                    true => (Breaks, ": refused unless other keys have the secrets"),
                    false => (Changes, ""),
                };
                found.add(
                    effect,
                    entry,
                    format!("gone, with {}{unless}", keys_text(was)),
                );
            }
            (None, is) => {
                let keys = is.map(keys_text).unwrap_or_default();
                found.add(Widens, entry, format!("new, with {keys}"));
            }
        }
    }
}

fn compare_caller(
    found: &mut FoundChanges,
    sides: &Sides<'_, '_>,
    entry: (&'static str, &str),
    was: &CallerItem,
    is: &CallerItem,
) {
    let (_, id) = entry;
    let works = breaks_requests(sides, id, was);
    let are = if was.keys.len() == 1 { "is" } else { "are" };
    let refused = format!("{} {are} refused", keys_text(was));
    compare_switch(found, entry, [was.enabled, is.enabled], works, &refused);
    compare_ends(found, entry, [&was.expires, &is.expires], works, sides.now);
    compare_flag(
        found,
        entry,
        "expose_cost",
        [was.expose_cost, is.expose_cost],
    );
    for (effect, statement) in compare_amounts(&was.limits, &is.limits) {
        found.add(effect, entry, statement);
    }
    for (name, (key_was, key_is)) in differing(&was.keys, &is.keys) {
        let full = format!("{id}/{name}");
        let entry = ("key", full.as_str());
        let is_moved = sides.is_moved(id, name);
        match (key_was, key_is) {
            (Some(key_was), Some(key_is)) => {
                let may_break = was.works(sides.now) && !is_moved;
                compare_keys(found, entry, key_was, key_is, may_break, sides.now);
            }
            // A moved secret is reported with the keys that it opens.
            (Some(_), None) if is_moved => {}
            (Some(key), None) => {
                let works = was.works(sides.now) && key.works(sides.now);
                let (effect, statement) = match works {
                    true if sides.knows_all_secrets() => {
                        (Breaks, "gone: requests with it are refused")
                    }
                    true => (
                        Breaks,
                        "gone: requests with it are refused unless another key has its secret",
                    ),
                    false => (Changes, "gone; it did not work any more"),
                };
                found.add(effect, entry, statement);
            }
            (None, _) => found.add(Widens, entry, "new"),
        }
    }
}

/// Finds that a caller or a key is switched on or off. `works` is false if no request breaks.
fn compare_switch(
    found: &mut FoundChanges,
    entry: (&'static str, &str),
    enabled: [bool; 2],
    works: bool,
    refused: &str,
) {
    match enabled {
        [true, false] => {
            found.add(breaks_if(works), entry, format!("switched off: {refused}"));
        }
        [false, true] => found.add(Widens, entry, "switched on"),
        [true, true] | [false, false] => {}
    }
}

fn compare_flag(
    found: &mut FoundChanges,
    entry: (&'static str, &str),
    name: &str,
    flags: [bool; 2],
) {
    let [was, is] = flags;
    if was != is {
        found.add(Changes, entry, format!("{name} {was} → {is}"));
    }
}

fn breaks_if(works: bool) -> Effect {
    if works { Breaks } else { Changes }
}

/// Returns whether a caller has a key that works now, and whose secret opens no other key then.
fn breaks_requests(sides: &Sides<'_, '_>, id: &str, caller: &CallerItem) -> bool {
    let mut keys = caller.working_keys(sides.now);
    keys.any(|name| !sides.is_moved(id, name))
}

fn compare_keys(
    found: &mut FoundChanges,
    entry: (&'static str, &str),
    was: &KeyItem,
    is: &KeyItem,
    may_break: bool,
    now: &str,
) {
    let works = may_break && was.works(now);
    let enabled = [!was.disabled, !is.disabled];
    compare_switch(found, entry, enabled, works, "requests with it are refused");
    compare_ends(found, entry, [&was.expires, &is.expires], works, now);
    compare_flag(found, entry, "debug", [was.debug, is.debug]);
    for (effect, what) in compare_amounts(&was.limits, &is.limits) {
        found.add(effect, entry, what);
    }
    let no_limits = super::Amounts::new();
    for (model, (old, new)) in differing(&was.model_limits, &is.model_limits) {
        let [old, new] = [old, new].map(|limits| limits.unwrap_or(&no_limits));
        for (effect, what) in compare_amounts(old, new) {
            found.add(effect, entry, format!("for the model {model}: {what}"));
        }
    }
    if was.allow_ips != is.allow_ips {
        let effect = if covers_ranges(&is.allow_ips, &was.allow_ips) {
            Widens
        } else {
            Tightens
        };
        found.add(
            effect,
            entry,
            format!(
                "may be used from {} instead of {}",
                addresses(&is.allow_ips),
                addresses(&was.allow_ips)
            ),
        );
    }
    if was.secrets != is.secrets {
        let [old, new] = [was, is].map(|key| key.working_secrets(now));
        // Secrets have no names here. So their ends are compared, the first one first.
        let (ends, ends_before) = (ordered_ends(is), ordered_ends(was));
        let is_sooner = ends.iter().zip(&ends_before).any(|(is, was)| is < was);
        let effect = match new.cmp(&old) {
            Ordering::Less => breaks_if(works),
            Ordering::Equal if was.secrets.len() == is.secrets.len() && is_sooner => Tightens,
            Ordering::Equal | Ordering::Greater => Changes,
        };
        found.add(
            effect,
            entry,
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

/// Returns whether every address of the old ranges is in one of the new ones. Without a range,
/// every address is.
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
    entry: (&'static str, &str),
    ends: [&Option<String>; 2],
    works: bool,
    now: &str,
) {
    let [was, is] = ends;
    if was == is {
        return;
    }
    let text = |end: &Option<String>| end.clone().unwrap_or_else(|| "never".to_owned());
    let is_sooner = is
        .as_ref()
        .is_some_and(|is| was.as_ref().is_none_or(|was| is < was));
    let effect = match (is_over(was.as_deref(), now), is_over(is.as_deref(), now)) {
        (false, true) if works => Breaks,
        (_, true) => Changes,
        (true, false) => Widens,
        (false, false) if is_sooner => Tightens,
        (false, false) => Widens,
    };
    let refused = if effect == Breaks {
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
    format_count(caller.keys.len(), "key")
}
