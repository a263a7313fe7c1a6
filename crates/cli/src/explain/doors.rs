//! The losses of each front door at each target of a model. They do not come from a list: requests
//! that have one part of a format each are written for the target, as the gateway writes them.

use std::path::Path;

use serde::Serialize;

use super::load_configuration;
use dialects::Translate;
use dialects::front::{Envelope, Front};
use portcullis::catalog::load::Loaded;
use portcullis::catalog::{Model, Reasoning, Target};

/// The losses of one front door at one target.
#[derive(Debug, Serialize)]
struct DoorAtTarget {
    door: &'static str,
    account: String,
    upstream_model: String,
    /// The fields that are left out or weakened, as callers see them.
    lost: Vec<String>,
    /// The parts of the format that are refused.
    refused: Vec<&'static str>,
}

#[derive(Serialize)]
struct DoorsOfModel<'m> {
    model: &'m str,
    doors: Vec<DoorAtTarget>,
}

/// Returns the text, or the JSON, for a model of the catalog.
pub(super) fn explain_doors(conf: &Path, model: &str, json: bool) -> Result<String, String> {
    let Loaded { catalog, .. } = load_configuration(conf)?;
    // The name is not repeated: somebody may have written a key.
    let model = &*catalog
        .model(model)
        .ok_or("--doors: the catalog has no such model")?;
    let targets = || model.targets.iter();
    let doors = Front::probed()
        .flat_map(|front| targets().map(move |target| probe_target(front, model, target)))
        .collect();
    let found = DoorsOfModel {
        model: &model.id,
        doors,
    };
    // Strings always serialise.
    Ok(if json {
        serde_json::to_string_pretty(&found).unwrap_or_default() + "\n"
    } else {
        doors_text(&found)
    })
}

/// Writes each part of a front door's format for a target.
fn probe_target(front: &'static Front, model: &Model, target: &Target) -> DoorAtTarget {
    let (mut lost, mut refused) = (Vec::new(), Vec::new());
    for (name, body, envelope) in front.probes() {
        let envelope = envelope.as_ref().ok();
        match envelope.and_then(|envelope| lost_fields(&body, envelope, model, target)) {
            Some(names) => lost.extend(names),
            None => refused.push(name),
        }
    }
    let mut seen = std::collections::HashSet::new();
    lost.retain(|name| seen.insert(name.clone()));
    DoorAtTarget {
        door: front.name,
        account: target.account.id.to_string(),
        upstream_model: target.model.to_string(),
        lost,
        refused,
    }
}

/// Writes a request. Returns the fields that it loses, or `None` if it is refused.
fn lost_fields(
    body: &bytes::Bytes,
    envelope: &Envelope,
    model: &Model,
    target: &Target,
) -> Option<Vec<String>> {
    let account = &target.account;
    let serves = |kind| account.serves.iter().any(|(served, _)| *served == kind);
    let endpoint = dialects::endpoint_for(serves, envelope.front, &target.model, &target.traits);
    let outbound = account.speaks(endpoint).write(&Translate {
        traits: target.traits,
        default_max_tokens: model.max_tokens,
        within: Some(target.timeouts.total),
        hide_reasoning: model.reasoning == Reasoning::Hide,
        stream_usage: account.added_fields.stream_usage,
        ..Translate::new(body, envelope, &target.model)
    });
    let outbound = outbound.ok()?;
    let references = envelope.check_references(&account.allowed_references, body);
    references.ok()?;
    let losses = outbound.losses.names().iter();
    Some(losses.map(ToString::to_string).collect())
}

fn doors_text(found: &DoorsOfModel<'_>) -> String {
    let mut text = format!("what is lost of requests for \"{}\"\n", found.model);
    for DoorAtTarget {
        door,
        account,
        upstream_model,
        lost,
        refused,
    } in &found.doors
    {
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        text.push_str(&format!(
            "\n{door} at {account} ({upstream_model})\n  lost     {}\n  refused  {}\n",
            list_names(&lost),
            list_names(refused)
        ));
    }
    text
}

fn list_names(names: &[&str]) -> String {
    if names.is_empty() {
        "nothing".to_owned()
    } else {
        names.join(", ")
    }
}
