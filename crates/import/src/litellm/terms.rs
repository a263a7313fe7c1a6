//! The fields of an entry of `model_list` that limit the keys of its model. In LiteLLM most of it
//! counts for the name of the entry, also where no request reaches the entry: so it is kept if the
//! entry is left out.

use std::collections::BTreeMap;

use super::bound::Bound;
use super::node::Spot;
use super::number::{read_number, tighten_limit};
use super::params::Params;
use crate::notes::{Finding, Grade};
use portcullis::base::problem::quote_safely;

/// The limits of the keys that may use a model.
#[derive(Default)]
pub(super) struct OfKeys {
    /// The limits of each key for this model.
    pub(super) limits: BTreeMap<&'static str, u64>,
    /// The fields that cannot be carried.
    pub(super) bounds: Vec<Bound>,
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
    pub(super) fn take(
        name: &Spot<'a>,
        params: &mut Params<'a>,
        info: &mut BTreeMap<&str, Spot<'a>>,
    ) -> Self {
        const PARAMS: [&str; 5] = [
            "default_api_key_rpm_limit",
            "default_api_key_tpm_limit",
            "guardrails",
            "max_budget",
            "budget_duration",
        ];
        let mut fields: Vec<_> = PARAMS
            .iter()
            .filter_map(|field| Some((*field, params.take(field)?)))
            .collect();
        fields.extend(info.remove("ptu_shares").map(|spot| ("ptu_shares", spot)));
        let of_team = info.get("team_public_model_name").and_then(Spot::text);
        Self {
            name: name.text().unwrap_or_default(),
            of_team,
            fields,
            is_made: false,
            is_reserved: false,
        }
    }

    /// Returns the fields with the names of the models for which each counts.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &Spot<'a>, Vec<&'a str>)> {
        let names = |field: &str| match field {
            // LiteLLM knows the team when it looks for guardrails, and not for the limits.
            "guardrails" => std::iter::once(self.name).chain(self.of_team).collect(),
            // The money of an entry counts only where requests reach the entry.
            "max_budget" | "budget_duration" if !self.is_made => Vec::new(),
            _ => vec![self.name],
        };
        self.fields
            .iter()
            .map(move |(field, spot)| (*field, spot, names(field)))
    }

    /// Adds that keys could not use this name, if it is left out and a pattern answers to it now.
    pub(super) fn reserve(&self, pattern: &str, to: &mut OfKeys) {
        if self.is_reserved && pattern.contains('*') && pattern != self.name {
            let why = format!(
                "in LiteLLM some or all may not use {}, and here a pattern answers to this name. To allow it, remove its entry from the \
                 file; else write the models of the pattern by name",
                quote_safely(self.name)
            );
            to.stop(Bound {
                field: "model_list".to_owned(),
                word: None,
                why,
            });
        }
    }

    /// Returns whether a path leads to one of the fields.
    pub(super) fn has(&self, path: &str) -> bool {
        self.fields.iter().any(|(_, spot)| spot.path == path)
    }

    /// Adds a field to what bounds the keys of a model.
    pub(super) fn add(
        &self,
        (field, spot): (&str, &Spot<'a>),
        became: &str,
        to: &mut OfKeys,
    ) -> Finding {
        let word = match field {
            "guardrails" => "guardrails",
            "ptu_shares" => "teams",
            "max_budget" | "budget_duration" if self.has_budget() => "proxy-budget",
            "max_budget" | "budget_duration" => {
                const MESSAGE: &str =
                    "bounds nothing in LiteLLM: a budget needs `max_budget` and `budget_duration`";
                return spot.finding(Grade::Approximate, became, MESSAGE);
            }
            _ => "",
        };
        if !word.is_empty() {
            if spot.is_empty() {
                return spot.finding(Grade::Exact, became, "");
            }
            let bound = Bound::because(
                &format!("model_list.{field}"),
                word,
                "of a model that it may use cannot be carried",
            );
            let message = bound.describe("keys that may use the model");
            to.stop(bound);
            return spot.finding(Grade::Unsupported, became, message);
        }
        let limit = match field {
            "default_api_key_rpm_limit" => "requests_per_minute",
            _ => "tokens_per_minute",
        };
        match read_number(spot, field) {
            Ok(number) => {
                tighten_limit(&mut to.limits, limit, number);
                const MESSAGE: &str = "is in `model_limits` of each key that may use the model and has no such limits of its own";
                spot.finding(Grade::Exact, became, MESSAGE)
            }
            Err(bound) => {
                let finding = spot.finding(Grade::Unsupported, became, bound.why.clone());
                to.stop(bound);
                finding
            }
        }
    }

    /// Returns whether the entry has a budget. One of 0 is none in LiteLLM.
    fn has_budget(&self) -> bool {
        let find = |name: &str| {
            self.fields
                .iter()
                .find(|(field, _)| *field == name)
                .map(|(_, spot)| spot)
        };
        let is_zero = |spot: &Spot<'_>| spot.amount().is_some_and(|amount| amount.is_zero());
        find("budget_duration").is_some() && find("max_budget").is_some_and(|spot| !is_zero(spot))
    }
}

impl OfKeys {
    /// Returns whether nothing bounds the keys.
    pub(super) fn is_empty(&self) -> bool {
        self.limits.is_empty() && self.bounds.is_empty()
    }

    /// Adds a bound, once.
    fn stop(&mut self, bound: Bound) {
        if !self.bounds.contains(&bound) {
            self.bounds.push(bound);
        }
    }
}
