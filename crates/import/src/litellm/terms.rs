//! The fields of an entry of `model_list` that limit the keys of its model. In LiteLLM most of it
//! counts for the name of the entry, also where no request reaches the entry: so it is kept if the
//! entry is left out.

use super::bound::{Bound, Bounds};
use super::counts::Counts;
use super::entry::Entry;
use super::node::Spot;
use crate::notes::Grade;
use portcullis::base::problem::quote_safely;

/// The limits of the keys that may use a model.
#[derive(Default)]
pub(super) struct OfKeys {
    /// The limits of each key for this model.
    pub(super) limits: Counts,
    /// The fields that cannot be carried.
    pub(super) bounds: Bounds,
}

/// The fields of an entry that are about keys.
pub(super) struct Terms<'a> {
    pub(super) name: &'a str,
    /// The name by which a team calls the entry.
    of_team: Option<&'a str>,
    fields: Vec<(&'static str, Spot<'a>)>,
    /// True if the entry became a target.
    pub(super) is_made: bool,
    /// True if LiteLLM keeps requests from the entry.
    pub(super) is_reserved: bool,
}

impl<'a> Terms<'a> {
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
    pub(super) fn reserve(&self, pattern: &str, to: &mut OfKeys) {
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
    pub(super) fn add(&self, field: &str, spot: &Spot<'_>, to: &mut OfKeys) {
        const WHY: &str = "of a model that it may use cannot be carried";
        const LIMITS: &str = "is in `model_limits` of each key that may use the model and has no such limits of its own";
        let limit = match field {
            "default_api_key_rpm_limit" => Some("requests_per_minute"),
            "default_api_key_tpm_limit" => Some("tokens_per_minute"),
            _ => None,
        };
        if let Some(limit) = limit {
            match to.limits.read(spot, field, limit) {
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
                spot.approximate(
                    "bounds nothing in LiteLLM: a budget needs `max_budget` and `budget_duration`",
                );
                return;
            }
        };
        if spot.is_empty() {
            spot.exact();
            return;
        }
        let bound = Bound::because(&format!("model_list.{field}"), word, WHY);
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

impl OfKeys {
    /// Returns whether nothing bounds the keys.
    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.bounds.iter().next().is_none()
    }
}
