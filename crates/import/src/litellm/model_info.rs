//! `model_info` of an entry: who may use it, its access groups, and its kind.

use std::collections::BTreeMap;

use super::node::At;
use super::params::World;
use crate::notes::{Finding, Grade};

/// Returns why an entry may not be used by all, or not at all.
pub(super) fn reserved(info: &BTreeMap<&str, At<'_>>, world: &World<'_>) -> Option<Finding> {
    const TEAM: &str = "only this team may use the entry, which the catalog says at callers: the entry is left out";
    const WINDOWS: &str = "other teams may not use the entry at these hours, which the catalog cannot say: the entry is left out";
    const BLOCKED: &str = "LiteLLM does not use this entry: it is left out";
    const ELSEWHERE: &str = "LITELLM_ENVIRONMENT is none of these: the entry is left out";
    let written = |key| info.get(key).filter(|at| !at.is_empty());
    if let Some(at) = written("team_id") {
        return Some(at.finding(Grade::Manual, "", TEAM));
    }
    if let Some(at) = written("access_windows") {
        return Some(at.finding(Grade::Manual, "", WINDOWS));
    }
    if let Some(at) = written("blocked").filter(|at| at.flag() != Some(false)) {
        return Some(at.finding(Grade::Unsupported, "", BLOCKED));
    }
    elsewhere(info, world)
        .map(|environments| environments.finding(Grade::Unsupported, "", ELSEWHERE))
}

/// Returns the environments of an entry, if this is none of them.
pub(super) fn elsewhere<'i, 'a>(
    info: &'i BTreeMap<&str, At<'a>>,
    world: &World<'_>,
) -> Option<&'i At<'a>> {
    let environments = info
        .get("supported_environments")
        .filter(|at| !at.is_empty())?;
    let here = world.variable("LITELLM_ENVIRONMENT");
    let is_here = environments
        .items()
        .iter()
        .any(|at| at.text().is_some() && at.text() == here.as_deref());
    (!is_here).then_some(environments)
}

/// Reads the access groups of an entry.
pub(super) fn access(
    info: &mut BTreeMap<&str, At<'_>>,
    became: &str,
    findings: &mut Vec<Finding>,
) -> Vec<String> {
    let Some(groups) = info.remove("access_groups") else {
        return Vec::new();
    };
    const WHAT: &str = "keys that name the group get its models by name";
    findings.push(groups.finding(Grade::Exact, became, WHAT));
    groups
        .items()
        .iter()
        .filter_map(At::text)
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
