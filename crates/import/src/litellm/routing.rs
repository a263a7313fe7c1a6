//! How the targets of a model share requests, and which models stand in for it.

use std::collections::BTreeMap;

use dialects::neutral::ModelKind;

use super::models::{CatalogDraft, ModelDraft, TargetDraft, format_entry_place};
use super::node::Spot;
use crate::amount::Amount;
use crate::notes::Grade;
use crate::write::{EntryOut, Fields};
use portcullis::conf::yaml::edit::NewValue;

/// The lists of other models, by the model that they stand in for.
#[derive(Default)]
pub(super) struct Others {
    lists: BTreeMap<String, Vec<String>>,
    /// The models for all that have no list of their own.
    default: Vec<String>,
}

/// The router's settings for all models.
#[derive(Default)]
pub(super) struct Rules {
    pub(super) strategy: Option<&'static str>,
    /// `drop_params` of all models.
    pub(super) on_loss: Option<&'static str>,
    pub(super) fallbacks: Others,
    pub(super) context: Others,
    pub(super) refusal: Others,
}

impl Others {
    /// Reads a list such as `[{gpt-4o: [a, b]}, {"*": [c]}]`.
    pub(super) fn read(&mut self, spot: &Spot<'_>, draft: &CatalogDraft<'_>) {
        if !spot.is_list() {
            spot.report_manual("must be a list: write `fallbacks` by hand");
        }
        for (model, list) in spot.items().iter().flat_map(Spot::entries) {
            if model == "*" {
                self.default.extend(read_names(&list, draft, ""));
            } else if draft.has_model(model) {
                spot.findings.set_entry(format!("models.{model}"));
                let names = read_names(&list, draft, "");
                self.lists
                    .entry(model.to_owned())
                    .or_default()
                    .extend(names);
            } else {
                draft
                    .missing
                    .report(&list, model, Grade::Unsupported, "its list is left out");
            }
            spot.findings.set_entry("");
        }
    }

    /// Reads `default_fallbacks`.
    pub(super) fn read_default(&mut self, spot: &Spot<'_>, draft: &CatalogDraft<'_>) {
        let message = "is written at each model that has no fallbacks of its own";
        self.default.extend(read_names(spot, draft, message));
    }

    /// Returns the list of a model.
    fn named_for(&self, model: &str) -> &[String] {
        self.lists.get(model).unwrap_or(&self.default)
    }

    /// Returns the fallbacks of a model and those of its fallbacks, as far as LiteLLM follows them.
    fn chain(&self, model: &str) -> Vec<String> {
        const MAX_DEPTH: usize = 5;
        const MAX_NAMES: usize = 20;
        let mut all = vec![model];
        let mut level = vec![model];
        for _ in 0..MAX_DEPTH {
            let mut next = Vec::new();
            for name in level.into_iter().flat_map(|model| self.named_for(model)) {
                if all.len() <= MAX_NAMES && !all.contains(&name.as_str()) {
                    all.push(name);
                    next.push(name.as_str());
                }
            }
            level = next;
        }
        all.into_iter().skip(1).map(str::to_owned).collect()
    }
}

/// Reads the names of a list, without those that are no models here.
fn read_names(spot: &Spot<'_>, draft: &CatalogDraft<'_>, message: &str) -> Vec<String> {
    let mut names = Vec::new();
    for item in spot.items() {
        match item.text() {
            Some(name) if draft.has_model(name) && !name.contains('*') => {
                names.push(name.to_owned())
            }
            Some(name) => draft
                .missing
                .report(&item, name, Grade::Unsupported, "it is left out"),
            None => {
                item.report_unsupported("a fallback is the name of a model here: it is left out")
            }
        }
    }
    if names.is_empty() {
        spot.report_unsupported("no model of this list is here, so nothing is written");
    } else {
        spot.report(Grade::Exact, message);
    }
    names
}

impl Rules {
    /// Writes all models.
    pub(super) fn finish(&self, draft: &CatalogDraft<'_>) -> Vec<EntryOut> {
        let models = draft.models.iter();
        models.map(|model| self.write_model(model, draft)).collect()
    }

    fn write_model(&self, model: &ModelDraft<'_>, draft: &CatalogDraft<'_>) -> EntryOut {
        let findings = model.spot.findings;
        findings.set_entry(model.path());
        let mut fields = Fields::default();
        fields.set_list("aliases", &model.aliases);
        self.write_targets(model, &mut fields);
        fields.set_some("kind", model.kind.map(ModelKind::name));
        self.write_others(model, draft, &mut fields);
        let defaults = model.max_tokens;
        let defaults = defaults.map(|limit| NewValue::map([("max_tokens", limit.into())]));
        fields.set_some("defaults", defaults);
        fields.set_some("on_loss", model.on_loss.or(self.on_loss));
        findings.set_entry("");
        EntryOut {
            name: model.name.clone(),
            source_place: format_entry_place(&model.spot),
            fields,
            below: None,
        }
    }

    /// Writes the models that stand in for a model: others of its kind.
    fn write_others(&self, model: &ModelDraft<'_>, draft: &CatalogDraft<'_>, fields: &mut Fields) {
        const VECTORS: &str = "has no fallbacks here: another model's vectors mean something else";
        const CHAIN: &str = "LiteLLM follows the fallbacks of fallbacks: they are written out here";
        let kind = kind_or_chat(model);
        let direct = self.fallbacks.named_for(&model.name);
        if kind == ModelKind::Embedding {
            if !direct.is_empty() {
                model.spot.report_unsupported(VECTORS);
            }
            return;
        }
        let is_of_kind = |name: &str| draft.find_model(name).map(kind_or_chat) == Some(kind);
        let fits = |name: &&String| **name != model.name && is_of_kind(name);
        let chain = self.fallbacks.chain(&model.name);
        let wanted: Vec<String> = chain.iter().filter(fits).cloned().collect();
        if wanted.len() > direct.iter().filter(fits).count() {
            model.spot.report_approximate(CHAIN);
        }
        fields.set_list("fallbacks", &wanted);
        let mut on = Fields::default();
        for (field, others) in [("context", &self.context), ("refusal", &self.refusal)] {
            let mut names = Vec::new();
            for name in others.named_for(&model.name).iter().filter(fits) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            on.set_list(field, &names);
        }
        fields.set_some("fallbacks_on", on.map());
    }

    /// Writes the targets of a model, with their shares and tiers.
    fn write_targets(&self, model: &ModelDraft<'_>, fields: &mut Fields) {
        const LAST: &str = "a target without a share gets requests only when the others fail";
        let targets = &model.targets;
        let is_one = targets.len() == 1;
        let weights = read_weights(targets);
        let orders = read_orders(targets).filter(|_| !is_one);
        // A target without a weight, next to others with one, gets requests only when the others
        // have failed: it has a tier of its own.
        let has_last = !is_one && weights.contains(&0);
        let has_tiers = has_last || orders.is_some();
        if !is_one {
            let by_weight = self.strategy.unwrap_or("weighted");
            fields.set("strategy", if has_tiers { "priority" } else { by_weight });
        }
        if has_last {
            model.spot.report_approximate(LAST);
        }
        let orders = orders.unwrap_or_else(|| vec![0; targets.len()]);
        let mut written = Vec::new();
        for ((target, weight), order) in targets.iter().zip(weights).zip(orders) {
            let mut fields = Fields::default();
            fields.set("account", &*target.account);
            if target.model != model.name {
                fields.set("model", &*target.model);
            }
            if !is_one && weight > 1 {
                fields.set("weight", u64::from(weight));
            }
            if has_tiers {
                let tier = if has_last {
                    order * 2 + u64::from(weight == 0)
                } else {
                    order
                };
                fields.set("tier", tier);
            }
            fields.set_some("price", target.price.clone());
            written.extend(fields.map());
        }
        fields.set("targets", NewValue::List(written));
    }
}

fn kind_or_chat(model: &ModelDraft<'_>) -> ModelKind {
    model.kind.unwrap_or(ModelKind::Chat)
}

/// Reads `order` of the targets, as tiers from 0. Returns `None` if no target has one.
fn read_orders(targets: &[TargetDraft<'_>]) -> Option<Vec<u64>> {
    let mut orders = Vec::new();
    for target in targets {
        let spot = target.order.as_ref();
        let order = spot.and_then(|spot| spot.read_whole(0..=1_000_000, "tier"));
        if let (Some(spot), Some(_)) = (spot, order) {
            spot.report_exact();
        }
        orders.push(order);
    }
    let last = orders.iter().flatten().max()? + 1;
    Some(
        orders
            .into_iter()
            .map(|order| order.unwrap_or(last))
            .collect(),
    )
}

/// Reads the shares of the targets as LiteLLM does: by `weight`, else by `rpm`, else by `tpm`.
/// Without any of these, all targets have the same.
fn read_weights<'t>(targets: &'t [TargetDraft<'_>]) -> Vec<u32> {
    const CAP: &str = "is no cap here: Portcullis learns quotas from the provider's answers";
    const USED_CAP: &str = "is the target's `weight`, as in LiteLLM, but no cap";
    const ONE_TARGET: &str = "changes nothing here: the model has one target";
    const ALL_ZERO: &str = "changes nothing: no target of the model has more than 0";
    const NO_NUMBER: &str =
        "must be a number that is not negative: it counts as 0, so write `weight` by hand";
    const TOO_LARGE: &str =
        "a share is too large, so all targets have the same: write `weight` by hand";
    const ROUNDED: &str = "the shares are rounded to whole numbers";
    let (mut is_found, mut ratio) = (targets.len() == 1, None);
    for index in 0..3 {
        let share = |target: &'t TargetDraft<'_>| target.shares.get(index)?.as_ref();
        let spots: Vec<Option<&Spot<'_>>> = targets.iter().map(share).collect();
        let amount = |spot: Option<&Spot<'_>>| spot.and_then(Spot::amount).unwrap_or(Amount::ZERO);
        let shares: Vec<Amount> = spots.iter().copied().map(amount).collect();
        let is_used = !is_found && shares.iter().any(|share| !share.is_zero());
        if is_used {
            is_found = true;
            ratio = Amount::ratio(&shares);
        }
        // In LiteLLM `rpm` and `tpm` are caps, too.
        let is_cap = index > 0;
        for spot in spots.into_iter().flatten() {
            let (grade, message) = match (is_used, &ratio) {
                (false, _) if is_cap => (Grade::Manual, CAP),
                (false, _) if targets.len() == 1 => (Grade::Approximate, ONE_TARGET),
                _ if spot.amount().is_none() => (Grade::Manual, NO_NUMBER),
                (false, _) => (Grade::Approximate, ALL_ZERO),
                (true, None) => (Grade::Manual, TOO_LARGE),
                (true, Some(_)) if is_cap => (Grade::Manual, USED_CAP),
                (true, Some((_, true))) => (Grade::Exact, ""),
                (true, Some((_, false))) => (Grade::Approximate, ROUNDED),
            };
            spot.report(grade, message);
        }
    }
    let weights = ratio.map(|(weights, _)| weights);
    weights.unwrap_or_else(|| vec![1; targets.len()])
}
