//! An entry of `model_list`. Each field is taken once; what is left at the end has no counterpart.
//!
//! Some of its fields limit the keys of its model ([`KeyFields`]). In LiteLLM most of it counts for
//! the name of the entry, also where no request reaches the entry: so it is kept if the entry is
//! left out.

use std::collections::BTreeMap;

use dialects::neutral::ModelKind;

use super::bound::Bounds;
use super::counts::Counts;
use super::merged_config::MergedConfig;
use super::node::{Lost, Spot};
use super::rules::{Section, report_field};
use crate::Bound;
use crate::notes::{Grade, LEFT_OUT};
use portcullis::base::problem::quote_safely;

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
            other.report_unsupported("LiteLLM does not read this here, and it is left out");
        }
        let Some((name, spot)) = name.zip(params) else {
            let why = "has no `model_name` or no `litellm_params`";
            spot.findings.add(*spot.lost(Grade::Unsupported, why));
            for (_, field) in info.iter().flat_map(Spot::entries) {
                field.report_unsupported(LEFT_OUT);
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
    pub(super) fn add_credential(&mut self, config: &MergedConfig<'a>) {
        let Some(named) = self.params.remove("litellm_credential_name") else {
            return;
        };
        let Some(credential) = named.text().and_then(|name| config.credential(name)) else {
            named.report_manual(
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
    pub(super) fn reservation(&self, config: &MergedConfig<'_>) -> Option<Lost> {
        const TEAM: &str = "only this team may use the entry, which the catalog says at callers";
        const WINDOWS: &str =
            "other teams may not use it at these hours, which the catalog cannot say";
        const ENVIRONMENT: &str = "LITELLM_ENVIRONMENT is none of these";
        let filled = |key| self.info.get(key).filter(|spot| !spot.is_empty());
        let blocked = filled("blocked").filter(|spot| spot.flag() != Some(false));
        let reasons = [
            (filled("team_id"), Grade::Manual, TEAM),
            (filled("access_windows"), Grade::Manual, WINDOWS),
            (blocked, Grade::Unsupported, "LiteLLM does not use it"),
            (
                self.other_environments(config),
                Grade::Unsupported,
                ENVIRONMENT,
            ),
        ];
        let mut reasons = reasons.into_iter();
        reasons.find_map(|(spot, grade, why)| Some(spot?.lost(grade, why)))
    }

    /// Returns the environments of the entry, if this is none of them.
    pub(super) fn other_environments(&self, config: &MergedConfig<'_>) -> Option<&Spot<'a>> {
        let environments = self.info.get("supported_environments")?;
        let here = config.variable("LITELLM_ENVIRONMENT");
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

/// Returns the kind of a model by LiteLLM's word, which is ours for some.
pub(super) fn model_kind(mode: &str) -> Option<ModelKind> {
    let name = match mode {
        "responses" => "chat",
        "image_generation" | "image_edit" => "image",
        "audio_speech" => "speech",
        "audio_transcription" => "transcription",
        same => same,
    };
    ModelKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// The limits of the keys that may use a model.
#[derive(Default)]
pub(super) struct KeyLimits {
    /// The limits of each key for this model.
    pub(super) limits: Counts,
    /// The fields that cannot be carried.
    pub(super) bounds: Bounds,
}

/// The fields of an entry that limit each key which may use its model, with our limits.
pub(super) const LIMITS_OF_KEYS: [(&str, &str); 2] = [
    ("default_api_key_rpm_limit", "requests_per_minute"),
    ("default_api_key_tpm_limit", "tokens_per_minute"),
];

/// The fields of an entry that are about keys.
pub(super) struct KeyFields<'a> {
    pub(super) name: &'a str,
    /// The name by which a team calls the entry.
    of_team: Option<&'a str>,
    fields: Vec<(&'static str, Spot<'a>)>,
    /// True if the entry became a target.
    pub(super) is_made: bool,
    /// True if LiteLLM keeps requests from the entry.
    pub(super) is_reserved: bool,
}

impl<'a> KeyFields<'a> {
    /// Takes the fields out of an entry.
    pub(super) fn take(entry: &mut Entry<'a>, is_reserved: bool) -> Self {
        const PARAMS: [&str; 5] = [
            "default_api_key_rpm_limit",
            "default_api_key_tpm_limit",
            "guardrails",
            "max_budget",
            "budget_duration",
        ];
        let params = PARAMS.map(|field| Some((field, entry.params.remove(field)?)));
        let shares = entry.info.remove("ptu_shares");
        let shares = shares.map(|spot| ("ptu_shares", spot));
        Self {
            name: entry.name.text().unwrap_or_default(),
            of_team: entry
                .info
                .get("team_public_model_name")
                .and_then(Spot::text),
            fields: params.into_iter().flatten().chain(shares).collect(),
            is_made: false,
            is_reserved,
        }
    }

    /// Returns the fields with the names of the models for which each counts.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &Spot<'a>, Vec<&'a str>)> {
        self.fields.iter().map(|(field, spot)| {
            let names = match *field {
                // LiteLLM knows the team when it looks for guardrails, and not for the limits.
                "guardrails" => [self.name].into_iter().chain(self.of_team).collect(),
                // The money of an entry counts only where requests reach the entry.
                "max_budget" | "budget_duration" if !self.is_made => Vec::new(),
                _ => vec![self.name],
            };
            (*field, spot, names)
        })
    }

    /// Adds that keys could not use this name, if it is left out and a pattern answers to it now.
    pub(super) fn reserve(&self, pattern: &str, to: &mut KeyLimits) {
        if self.is_reserved && pattern.contains('*') && pattern != self.name {
            let why = format!(
                "in LiteLLM some or all may not use {}, to which a pattern answers here: remove its entry to allow it, or write the models of the pattern by name",
                quote_safely(self.name)
            );
            to.bounds.add(Bound {
                field: "model_list".to_owned(),
                word: None,
                why,
            });
        }
    }

    /// Returns the paths of the fields.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(_, spot)| spot.path.as_str())
    }

    /// Adds a field to what bounds the keys of a model.
    pub(super) fn add(&self, field: &str, spot: &Spot<'_>, to: &mut KeyLimits) {
        const WHY: &str = "of a model that it may use cannot be carried";
        const LIMITS: &str = "is in `model_limits` of each key that may use the model and has no such limits of its own";
        let mut limits = LIMITS_OF_KEYS.into_iter();
        if let Some((_, ours)) = limits.find(|(theirs, _)| *theirs == field) {
            match to.limits.read(spot, field, ours) {
                Ok(()) => spot.report(Grade::Exact, LIMITS),
                Err(bound) => to.bounds.add_from(spot, bound),
            }
            return;
        }
        let word = match field {
            "guardrails" => "guardrails",
            "ptu_shares" => "teams",
            _ if self.has_budget() => "proxy-budget",
            _ => {
                spot.report_approximate(
                    "bounds nothing in LiteLLM: a budget needs `max_budget` and `budget_duration`",
                );
                return;
            }
        };
        if spot.is_empty() {
            spot.report_exact();
            return;
        }
        let bound = Bound::with_reason(&format!("model_list.{field}"), word, WHY);
        bound.report(spot, "keys that may use the model");
        to.bounds.add(bound);
    }

    /// Returns whether the entry has a budget. One of 0 is none in LiteLLM.
    fn has_budget(&self) -> bool {
        let written = |wanted: &str| self.fields.iter().find(|(field, _)| *field == wanted);
        let has_money = written("max_budget").is_some_and(|(_, spot)| spot.whole() != Some(0));
        has_money && written("budget_duration").is_some()
    }
}

impl KeyLimits {
    /// Returns whether nothing bounds the keys.
    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.bounds.iter().next().is_none()
    }
}
