//! An entry of `model_list`. Each field is taken once; what is left at the end has no counterpart.

use std::collections::BTreeMap;

use super::node::{Lost, Spot};
use super::rules::{Section, report_field};
use super::world::World;
use crate::notes::{Grade, LEFT_OUT};

/// The fields of a map.
pub(super) type Fields<'a> = BTreeMap<&'a str, Spot<'a>>;

/// An entry of `model_list`.
pub(super) struct Entry<'a> {
    pub(super) name: Spot<'a>,
    /// The place of the parameters.
    pub(super) spot: Spot<'a>,
    /// `litellm_params`, with those of the credential that they name.
    pub(super) params: Fields<'a>,
    /// `model_info`.
    pub(super) info: Fields<'a>,
}

impl<'a> Entry<'a> {
    /// Reads an entry. Returns `None` if it is none.
    pub(super) fn read(spot: &Spot<'a>) -> Option<Self> {
        let mut fields: Fields<'a> = spot.entries().into_iter().collect();
        let name = fields.remove("model_name");
        let params = take_map(&mut fields, "litellm_params");
        let info = take_map(&mut fields, "model_info");
        for other in fields.values() {
            other.unsupported("LiteLLM does not read this here, and it is left out");
        }
        let Some((name, spot)) = name.zip(params) else {
            let why = "has no `model_name` or no `litellm_params`";
            spot.findings.add(*spot.lost(Grade::Unsupported, why));
            for (_, field) in info.iter().flat_map(Spot::entries) {
                field.unsupported(LEFT_OUT);
            }
            return None;
        };
        Some(Self {
            params: spot.entries().into_iter().collect(),
            info: info.iter().flat_map(Spot::entries).collect(),
            name,
            spot,
        })
    }

    /// Returns all places of the entry, its name last.
    pub(super) fn places(&self) -> Vec<Spot<'a>> {
        let fields = self.params.values().chain(self.info.values());
        fields.chain([&self.name]).cloned().collect()
    }

    /// Adds the parameters of the credential that the entry names. The entry's own count first.
    pub(super) fn add_credential(&mut self, world: &World<'a>) {
        let Some(named) = self.params.remove("litellm_credential_name") else {
            return;
        };
        let Some(credential) = named.text().and_then(|name| world.credential(name)) else {
            named.manual(
                "`credential_list` has no credential of this name: write the account's key by hand",
            );
            return;
        };
        named.report(Grade::Exact, "the credential's values are written out");
        for (key, value) in credential.entries() {
            self.params.entry(key).or_insert(value);
        }
    }

    /// Takes a field out of the parameters, or else out of the information.
    pub(super) fn take(&mut self, field: &str) -> Option<Spot<'a>> {
        let of_params = self.params.remove(field);
        of_params.or_else(|| self.info.remove(field))
    }

    /// Returns why the entry may not be used by all, or not at all.
    pub(super) fn reservation(&self, world: &World<'_>) -> Option<Lost> {
        const TEAM: &str = "only this team may use the entry, which the catalog says at callers";
        const WINDOWS: &str =
            "other teams may not use it at these hours, which the catalog cannot say";
        let filled = |key| self.info.get(key).filter(|spot| !spot.is_empty());
        if let Some(spot) = filled("team_id") {
            return Some(spot.lost(Grade::Manual, TEAM));
        }
        if let Some(spot) = filled("access_windows") {
            return Some(spot.lost(Grade::Manual, WINDOWS));
        }
        if let Some(spot) = filled("blocked").filter(|spot| spot.flag() != Some(false)) {
            return Some(spot.lost(Grade::Unsupported, "LiteLLM does not use it"));
        }
        let spot = self.other_environments(world)?;
        Some(spot.lost(Grade::Unsupported, "LITELLM_ENVIRONMENT is none of these"))
    }

    /// Returns the environments of the entry, if this is none of them.
    pub(super) fn other_environments(&self, world: &World<'_>) -> Option<&Spot<'a>> {
        let environments = self.info.get("supported_environments")?;
        let here = world.variable("LITELLM_ENVIRONMENT");
        let is_here = here.is_some_and(|here| environments.texts().contains(&here));
        (!is_here && !environments.is_empty()).then_some(environments)
    }

    /// Reports the fields that no rule took.
    pub(super) fn report_rest(&self) {
        for (section, fields) in [(Section::Params, &self.params), (Section::Info, &self.info)] {
            for (field, spot) in fields {
                report_field(section, field, spot);
            }
        }
    }
}

fn take_map<'a>(fields: &mut Fields<'a>, field: &str) -> Option<Spot<'a>> {
    fields.get(field).filter(|spot| spot.is_map())?;
    fields.remove(field)
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
