//! The key's part of an explanation: whether the key may be used, whether it sees the model, and if
//! not, why. A caller never learns that reason.

use dialects::wire::shorten_text;
use std::sync::Arc;
use std::time::SystemTime;

use super::Key;
use super::report::Report;
use crate::base::calendar::format_system_time;
use crate::base::problem::{nearest_name, no_such};
use crate::catalog::{self, Catalog, Model};
use crate::error::{FailureKind, Refusal};

/// Returns the key with this id, whether it may be used or not. Adds to the report that it works,
/// or why it does not.
pub(super) fn find_key(
    catalog: &Catalog,
    id: &str,
    now: SystemTime,
    report: &mut Report,
) -> Option<Key> {
    let secrets_of_key = catalog.secrets().filter(|(_, key, _)| *key.id == *id);
    let secrets: Vec<_> = secrets_of_key.map(|(_, key, until)| (key, until)).collect();
    let Some((key, _)) = secrets.first() else {
        let why = no_such("key", id, catalog.keys().map(|key| &*key.id));
        report.add_fault("key", Refusal::new(FailureKind::InvalidKey, why));
        return None;
    };
    let has_expired = |until: &Option<SystemTime>| until.is_some_and(|until| until <= now);
    let working_count = secrets
        .iter()
        .filter(|(_, until)| !has_expired(until))
        .count();
    let mut faults = Vec::new();
    for (whose, name, enabled, expires) in [
        ("the key", &key.id, key.enabled, key.expires),
        (
            "its caller",
            &key.caller.id,
            key.caller.enabled,
            key.caller.expires,
        ),
    ] {
        if !enabled {
            faults.push(format!("{whose} {name} is disabled"));
        }
        if let Some(expires) = expires.filter(|expires| *expires <= now) {
            faults.push(format!(
                "{whose} {name} has expired, at {}",
                format_system_time(expires)
            ));
        }
    }
    if working_count == 0 {
        let last = secrets
            .iter()
            .filter_map(|(_, until)| *until)
            .max()
            .map(format_system_time)
            .unwrap_or_default();
        faults.push(format!(
            "all its secrets have expired, the last one at {last}"
        ));
    }
    if key.usable(now).is_ok() && working_count > 0 {
        report.add_fact("key", describe_key(key, secrets.len(), working_count));
    } else {
        report.add_fault(
            "key",
            Refusal::new(FailureKind::InvalidKey, faults.join("; ")),
        );
    }
    Some(Arc::clone(key))
}

/// Describes a key that works.
fn describe_key(key: &catalog::Key, secret_count: usize, working_count: usize) -> String {
    let mut sentence = format!("{} works", key.id);
    if let Some(expires) = [key.expires, key.caller.expires]
        .into_iter()
        .flatten()
        .min()
    {
        sentence.push_str(&format!(" until {}", format_system_time(expires)));
    }
    if secret_count > 1 {
        sentence.push_str(&format!(
            ", with {working_count} of its {secret_count} secrets"
        ));
    }
    if !key.allow_ips.is_empty() {
        let ranges: Vec<String> = key.allow_ips.iter().map(ToString::to_string).collect();
        sentence.push_str(&format!(
            ", but only from {}, which this command does not check",
            ranges.join(", ")
        ));
    }
    sentence
}

/// Returns the model that this id means for the key. Adds to the report that the key may use it,
/// or why it may not.
pub(super) fn find_model(
    catalog: &Catalog,
    key: &catalog::Key,
    id: &str,
    report: &mut Report,
) -> Option<Arc<Model>> {
    if let Some(model) = catalog.model_awaiting_list(&key.permissions, id) {
        let why = format!(
            "\"{}\" is a name of the pattern \"{}\", and there is no list of its provider's models beside the ledger: a gateway \
             answers so until it has fetched the list",
            model.id,
            model.label()
        );
        report.add_fault("model", Refusal::new(FailureKind::UpstreamUnavailable, why));
        return None;
    }
    let Some(model) = find_meant_model(catalog, key, id) else {
        let ids = catalog
            .models()
            .iter()
            .flat_map(|model| std::iter::once(&model.id).chain(&model.aliases))
            .map(|id| &**id);
        let meant = nearest_name(id, ids)
            .map(|meant| format!("; did you mean \"{meant}\"?"))
            .unwrap_or_default();
        let shown = shorten_text(id, 80);
        report.add_fault(
            "model",
            not_found(format!("there is no model \"{shown}\"{meant}")),
        );
        return None;
    };
    let why =
        why_hidden(catalog, key, &model).or_else(|| why_demo_is_hidden(catalog, key, id, &model));
    match why {
        Some(why) => {
            report.add_fault("model", not_found(why));
            None
        }
        None => {
            let alias = if *model.id == *id {
                String::new()
            } else {
                format!(", which has the alias \"{id}\"")
            };
            let pattern = model
                .pattern
                .as_ref()
                .map(|pattern| format!(", from the pattern \"{pattern}\""));
            report.add_fact(
                "model",
                format!(
                    "\"{}\"{alias}{}: the key may use it",
                    model.id,
                    pattern.unwrap_or_default()
                ),
            );
            Some(model)
        }
    }
}

/// Returns the model that the id means for this key; otherwise whichever model has the id, to say
/// why the key does not see it.
fn find_meant_model(catalog: &Catalog, key: &catalog::Key, id: &str) -> Option<Arc<Model>> {
    catalog.visible(key, id).or_else(|| catalog.model(id))
}

fn not_found(why: String) -> Refusal {
    Refusal::new(FailureKind::ModelNotFound, why).param("model")
}

/// Returns the reason why the key does not see a model, or `None` if it does.
pub(super) fn why_hidden(catalog: &Catalog, key: &catalog::Key, model: &Model) -> Option<String> {
    if catalog.visible(key, &model.id).is_some() {
        return None;
    }
    let mut why = Vec::new();
    for (whose, globs) in [
        (
            format!("the caller {}", key.caller.id),
            &key.permissions.of_caller,
        ),
        (format!("the key {}", key.id), &key.permissions.of_key),
    ] {
        if !globs.matches(&model.id) {
            let alias = model.aliases.iter().any(|alias| globs.matches(alias));
            let hint = if alias {
                ": an alias matches, but globs only match ids"
            } else {
                ""
            };
            why.push(format!(
                "{whose} may use {globs}, which \"{}\" does not match{hint}",
                model.id
            ));
        }
    }
    if !model.has_enabled_account() {
        let mut accounts: Vec<&str> = model
            .targets
            .iter()
            .map(|target| &*target.account.id)
            .collect();
        accounts.dedup();
        why.push(format!(
            "no account of \"{}\" is enabled ({})",
            model.id,
            accounts.join(", ")
        ));
    }
    // A model of a pattern is not served before a list has its name.
    if why.is_empty() && !catalog.is_served(model) {
        why.push("the list of its provider's models has not been fetched".to_owned());
    }
    Some(why.join("; "))
}

/// Returns the reason why the key does not see a demo by the id that was given, or `None` if it
/// does. [`why_hidden`] asks by the model's own id, and found nothing. If the key still does not
/// see the model by this id, only a demo's glob matches the id, and such a glob counts only for
/// keys with a list of models.
fn why_demo_is_hidden(
    catalog: &Catalog,
    key: &catalog::Key,
    id: &str,
    model: &Model,
) -> Option<String> {
    if catalog.visible(key, id).is_some() {
        return None;
    }
    let (shown, demo) = (shorten_text(id, 80), &model.id);
    Some(format!(
        "\"{shown}\" is a name of the demo \"{demo}\" only for keys whose models are listed, in `models`"
    ))
}
