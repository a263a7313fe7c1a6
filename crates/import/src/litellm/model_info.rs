//! `model_info` of an entry: who may use it, its access groups, and its kind.

use std::collections::BTreeMap;

use super::node::Spot;
use super::params::World;
use crate::notes::{Finding, Grade};

/// Returns why an entry may not be used by all, or not at all.
pub(super) fn reservation_finding(
    info: &BTreeMap<&str, Spot<'_>>,
    world: &World<'_>,
) -> Option<Finding> {
    const TEAM: &str = "only this team may use the entry, which the catalog says at callers: the entry is left out";
    const WINDOWS: &str = "other teams may not use the entry at these hours, which the catalog cannot say: the entry is left out";
    const BLOCKED: &str = "LiteLLM does not use this entry: it is left out";
    const ELSEWHERE: &str = "LITELLM_ENVIRONMENT is none of these: the entry is left out";
    let written = |key| info.get(key).filter(|spot| !spot.is_empty());
    if let Some(spot) = written("team_id") {
        return Some(spot.finding(Grade::Manual, "", TEAM));
    }
    if let Some(spot) = written("access_windows") {
        return Some(spot.finding(Grade::Manual, "", WINDOWS));
    }
    if let Some(spot) = written("blocked").filter(|spot| spot.flag() != Some(false)) {
        return Some(spot.finding(Grade::Unsupported, "", BLOCKED));
    }
    other_environments(info, world)
        .map(|environments| environments.finding(Grade::Unsupported, "", ELSEWHERE))
}

/// Returns the environments of an entry, if this is none of them.
pub(super) fn other_environments<'i, 'a>(
    info: &'i BTreeMap<&str, Spot<'a>>,
    world: &World<'_>,
) -> Option<&'i Spot<'a>> {
    let environments = info
        .get("supported_environments")
        .filter(|spot| !spot.is_empty())?;
    let here = world.variable("LITELLM_ENVIRONMENT");
    let is_here = environments
        .items()
        .iter()
        .any(|spot| spot.text().is_some() && spot.text() == here.as_deref());
    (!is_here).then_some(environments)
}

/// Reads the access groups of an entry.
pub(super) fn take_access_groups(
    info: &mut BTreeMap<&str, Spot<'_>>,
    became: &str,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let Some(groups) = info.remove("access_groups") else {
        return Vec::new();
    };
    const MESSAGE: &str = "keys that name the group get its models by name";
    findings.push(groups.finding(Grade::Exact, became, MESSAGE));
    groups
        .items()
        .iter()
        .filter_map(Spot::text)
        .map(str::to_owned)
        .collect()
}

/// Returns the kind of a model by LiteLLM's word.
pub(super) fn kind_of(mode: &str) -> Option<&'static str> {
    Some(match mode {
        "chat" | "responses" => "chat",
        "completion" => "completion",
        "embedding" => "embedding",
        "image_generation" | "image_edit" => "image",
        "moderation" => "moderation",
        "rerank" => "rerank",
        "audio_speech" => "speech",
        "audio_transcription" => "transcription",
        _ => return None,
    })
}

/// Returns the finding about a field of `model_info` that no rule took.
pub(super) fn of_info(key: &str) -> &'static str {
    match key {
        "id" => "targets have no ids here",
        "blocked" => "the entry is in use",
        "supported_environments" => "LITELLM_ENVIRONMENT is one of these now",
        "max_tokens" | "max_input_tokens" | "max_output_tokens" => {
            "write `traits` at the target if Portcullis does not know the model"
        }
        _ => "is information for LiteLLM, and is left out",
    }
}
