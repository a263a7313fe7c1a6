//! What changes at callers and at their keys. Which models they may use is in `access`.

use super::access::callers_of_both;
use super::{Effect, Found, amounts};
use crate::inventory::{CallerItem, Inventory, KeyItem};

pub(super) fn callers(found: &mut Found, before: &Inventory, after: &Inventory, now: &str) {
    for (id, caller) in before.callers.iter().filter(|(id, _)| !after.callers.contains_key(*id)) {
        let effect = if caller.keys.is_empty() { Effect::Changes } else { Effect::Breaks };
        found.add(effect, ("caller", id), format!("gone, with {}", keys(caller)));
    }
    for (id, caller) in after.callers.iter().filter(|(id, _)| !before.callers.contains_key(*id)) {
        found.add(Effect::Widens, ("caller", id), format!("new, with {}", keys(caller)));
    }
    for (id, was, is) in callers_of_both(before, after) {
        let at = ("caller", id.as_str());
        match (was.enabled, is.enabled) {
            (true, false) => found.add(Effect::Breaks, at, format!("switched off: {} refused", are(was))),
            (false, true) => found.add(Effect::Widens, at, "switched on"),
            (true, true) | (false, false) => {}
        }
        end(found, at, [&was.expires, &is.expires], now);
        if was.expose_cost != is.expose_cost {
            found.add(Effect::Changes, at, format!("expose_cost {} → {}", was.expose_cost, is.expose_cost));
        }
        for (effect, what) in amounts(&was.limits, &is.limits) {
            found.add(effect, at, what);
        }
        for name in was.keys.keys().filter(|name| !is.keys.contains_key(*name)) {
            found.add(Effect::Breaks, ("key", &format!("{id}/{name}")), "gone: requests with it are refused");
        }
        for (name, key) in &is.keys {
            let full = format!("{id}/{name}");
            match was.keys.get(name) {
                None => found.add(Effect::Widens, ("key", &full), "new"),
                Some(key_was) if key_was != key => of_key(found, ("key", &full), [key_was, key], now),
                Some(_) => {}
            }
        }
    }
}

fn of_key(found: &mut Found, at: (&'static str, &str), [was, is]: [&KeyItem; 2], now: &str) {
    match (was.disabled, is.disabled) {
        (false, true) => found.add(Effect::Breaks, at, "switched off: requests with it are refused"),
        (true, false) => found.add(Effect::Widens, at, "switched on"),
        (true, true) | (false, false) => {}
    }
    end(found, at, [&was.expires, &is.expires], now);
    for (effect, what) in amounts(&was.limits, &is.limits) {
        found.add(effect, at, what);
    }
    let none = super::Amounts::new();
    let models: std::collections::BTreeSet<_> = was.model_limits.keys().chain(is.model_limits.keys()).collect();
    for model in models {
        let [old, new] = [was, is].map(|key| key.model_limits.get(model).unwrap_or(&none));
        for (effect, what) in amounts(old, new) {
            found.add(effect, at, format!("for the model {model}: {what}"));
        }
    }
    if was.allow_ips != is.allow_ips {
        let text = |list: &[String]| if list.is_empty() { "everywhere".to_owned() } else { list.join(", ") };
        let is_less = was.allow_ips.is_empty() || was.allow_ips.iter().any(|range| !is.allow_ips.contains(range));
        let effect = if is_less && !is.allow_ips.is_empty() { Effect::Tightens } else { Effect::Widens };
        found.add(effect, at, format!("may be used from {} instead of {}", text(&is.allow_ips), text(&was.allow_ips)));
    }
    if was.debug != is.debug {
        found.add(Effect::Changes, at, format!("debug {} → {}", was.debug, is.debug));
    }
    if was.secrets != is.secrets {
        let text = |ends: &[Option<String>]| {
            let ends: Vec<_> = ends.iter().map(|end| end.as_deref().unwrap_or("never")).collect();
            format!("{} (ends: {})", ends.len(), ends.join(", "))
        };
        found.add(Effect::Changes, at, format!("secrets {} → {}", text(&was.secrets), text(&is.secrets)));
    }
}

/// Finds that something ends at another time.
fn end(found: &mut Found, at: (&'static str, &str), [was, is]: [&Option<String>; 2], now: &str) {
    if was == is {
        return;
    }
    let text = |end: &Option<String>| end.clone().unwrap_or_else(|| "never".to_owned());
    let is_over = |end: &Option<String>| end.as_deref().is_some_and(|end| end <= now);
    let is_sooner = is.as_ref().is_some_and(|is| was.as_ref().is_none_or(|was| is < was));
    let effect = match (is_over(was), is_over(is)) {
        (false, true) => Effect::Breaks,
        (true, true) => Effect::Changes,
        (true, false) => Effect::Widens,
        (false, false) if is_sooner => Effect::Tightens,
        (false, false) => Effect::Widens,
    };
    let refused = if effect == Effect::Breaks { ", which is past: requests are refused" } else { "" };
    found.add(effect, at, format!("expires {} → {}{refused}", text(was), text(is)));
}

fn keys(caller: &CallerItem) -> String {
    match caller.keys.len() {
        1 => "1 key".to_owned(),
        many => format!("{many} keys"),
    }
}

fn are(caller: &CallerItem) -> String {
    format!("{} {}", keys(caller), if caller.keys.len() == 1 { "is" } else { "are" })
}
