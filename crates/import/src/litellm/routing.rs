//! How the targets of a model share requests, and which models stand in for it.

use std::collections::{BTreeMap, BTreeSet};

use super::models::{GroupDraft, Made, TargetDraft, place_of};
use super::node::Spot;
use crate::amount::Amount;
use crate::notes::{Finding, Grade};
use crate::write::EntryOut;
use portcullis::conf::yaml::edit::New;

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
    pub(super) fn read(&mut self, spot: &Spot<'_>, made: &Made<'_>, findings: &mut Vec<Finding>) {
        if !spot.is_list() {
            findings.push(spot.finding(
                Grade::Manual,
                "",
                "must be a list: write `fallbacks` by hand",
            ));
            return;
        }
        for item in spot.items() {
            for (model, list) in item.entries() {
                let became = format!("models.{model}");
                let (is_all, is_known) = (model == "*", made.has(model));
                if !is_all && !is_known {
                    let finding = list.finding(Grade::Unsupported, "", "its list is left out");
                    findings.push(made.missing.finding_about(model, finding));
                    continue;
                }
                let names = read_names(&list, made, findings);
                findings.push(match (names.is_empty(), is_all) {
                    (true, _) => list.finding(Grade::Unsupported, "", NONE_LEFT),
                    (false, true) => list.finding(Grade::Exact, "", ""),
                    (false, false) => list.finding(Grade::Exact, &became, ""),
                });
                if is_all {
                    self.default.extend(names);
                } else {
                    self.lists
                        .entry(model.to_owned())
                        .or_default()
                        .extend(names);
                }
            }
        }
    }

    /// Reads `default_fallbacks`.
    pub(super) fn read_default(
        &mut self,
        spot: &Spot<'_>,
        made: &Made<'_>,
        findings: &mut Vec<Finding>,
    ) {
        let names = read_names(spot, made, findings);
        findings.push(match names.is_empty() {
            true => spot.finding(Grade::Unsupported, "", NONE_LEFT),
            false => spot.finding(
                Grade::Exact,
                "",
                "is written at each model that has no fallbacks of its own",
            ),
        });
        self.default.extend(names);
    }

    /// Returns the list of a model.
    fn named_for(&self, model: &str) -> &[String] {
        self.lists.get(model).unwrap_or(&self.default)
    }
}

/// The report's text for a list without names that are models here.
const NONE_LEFT: &str = "no model of this list is here, so nothing is written";

/// Reads the names of a list, without those that are no models here.
fn read_names(spot: &Spot<'_>, made: &Made<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut names = Vec::new();
    for item in spot.items() {
        match item.text() {
            Some(name) if made.has(name) && !name.contains('*') => names.push(name.to_owned()),
            Some(_) => {
                findings.push(
                    made.missing
                        .finding(&item, Grade::Unsupported, "", "it is left out"),
                )
            }
            None => {
                const MESSAGE: &str = "a fallback is the name of a model here: it is left out";
                findings.push(item.finding(Grade::Unsupported, "", MESSAGE));
            }
        }
    }
    names
}

impl Rules {
    /// Writes all models.
    pub(super) fn finish(&self, made: &Made<'_>, findings: &mut Vec<Finding>) -> Vec<EntryOut> {
        let kinds: BTreeMap<&str, Option<&str>> = made
            .groups
            .iter()
            .map(|group| (&*group.name, group.kind))
            .collect();
        let mut entries = Vec::with_capacity(made.groups.len());
        for group in &made.groups {
            let mut fields = Vec::new();
            if !group.aliases.is_empty() {
                fields.push(("aliases", New::texts(&group.aliases)));
            }
            let targets = self.targets(group, &mut fields, findings);
            fields.push(("targets", New::List(targets)));
            if let Some(kind) = group.kind {
                fields.push(("kind", New::text(kind)));
            }
            self.others(group, &kinds, &mut fields, findings);
            if let Some(limit) = group.max_tokens {
                fields.push((
                    "defaults",
                    New::map([("max_tokens", New::Number(limit.to_string()))]),
                ));
            }
            if let Some(word) = group.on_loss.or(self.on_loss) {
                fields.push(("on_loss", New::text(word)));
            }
            entries.push(EntryOut {
                name: group.name.clone(),
                from: place_of(&group.spot),
                fields,
                below: None,
            });
        }
        entries
    }

    fn others(
        &self,
        group: &GroupDraft<'_>,
        kinds: &BTreeMap<&str, Option<&str>>,
        fields: &mut Vec<(&'static str, New)>,
        findings: &mut Vec<Finding>,
    ) {
        let kind = group.kind.unwrap_or("chat");
        let fits = |name: &String| {
            *name != group.name
                && kinds
                    .get(name.as_str())
                    .is_some_and(|kind_of_other| kind_of_other.unwrap_or("chat") == kind)
        };
        let note = |findings: &mut Vec<Finding>, grade, message: &str| {
            findings.push(
                group
                    .spot
                    .finding(grade, &format!("models.{}", group.name), message),
            );
        };
        if kind == "embedding" {
            if !self.fallbacks.named_for(&group.name).is_empty() {
                note(
                    findings,
                    Grade::Unsupported,
                    "a model of vectors has no fallbacks here: another model's vectors mean something else",
                );
            }
            return;
        }
        let chain = fallback_chain(&group.name, &self.fallbacks);
        let direct = self
            .fallbacks
            .named_for(&group.name)
            .iter()
            .filter(|name| fits(name))
            .count();
        let wanted: Vec<String> = chain.into_iter().filter(|name| fits(name)).collect();
        if wanted.len() > direct {
            note(
                findings,
                Grade::Approximate,
                "LiteLLM follows the fallbacks of fallbacks: they are written out here",
            );
        }
        if !wanted.is_empty() {
            fields.push(("fallbacks", New::texts(&wanted)));
        }
        let mut on = Vec::new();
        for (field, others) in [("context", &self.context), ("refusal", &self.refusal)] {
            let mut seen = BTreeSet::new();
            let names: Vec<String> = others
                .named_for(&group.name)
                .iter()
                .filter(|name| fits(name) && seen.insert((*name).clone()))
                .cloned()
                .collect();
            if !names.is_empty() {
                on.push((field.to_owned(), New::texts(&names)));
            }
        }
        if !on.is_empty() {
            fields.push(("fallbacks_on", New::Map(on)));
        }
    }

    /// Writes the targets of a model, with their shares and tiers.
    fn targets(
        &self,
        group: &GroupDraft<'_>,
        fields: &mut Vec<(&'static str, New)>,
        findings: &mut Vec<Finding>,
    ) -> Vec<New> {
        let became = format!("models.{}", group.name);
        let several = group.targets.len() > 1;
        let tiers = if several {
            read_tiers(&group.targets, &became, findings)
        } else {
            None
        };
        let weights = read_weights(&group.targets, &became, findings);
        // A target without a weight, next to others with one, gets requests only when the others
        // have failed.
        let is_last = |index: usize| {
            weights
                .as_ref()
                .is_some_and(|weights| weights.get(index) == Some(&0))
        };
        let has_last = several && (0..group.targets.len()).any(is_last);
        if several {
            let strategy = if tiers.is_some() || has_last {
                "priority"
            } else {
                self.strategy.unwrap_or("weighted")
            };
            fields.push(("strategy", New::text(strategy)));
            if has_last {
                const MESSAGE: &str =
                    "a target without a share gets requests only when the others fail";
                findings.push(group.spot.finding(Grade::Approximate, &became, MESSAGE));
            }
        }
        let target = |(index, target): (usize, &TargetDraft<'_>)| {
            let mut fields = vec![("account".to_owned(), New::text(&target.account))];
            if target.model != group.name {
                fields.push(("model".to_owned(), New::text(&target.model)));
            }
            let weight = weights
                .as_ref()
                .and_then(|weights| weights.get(index))
                .copied()
                .unwrap_or(1);
            if several && weight > 1 {
                fields.push(("weight".to_owned(), New::Number(weight.to_string())));
            }
            if tiers.is_some() || has_last {
                let tier = tiers
                    .as_ref()
                    .and_then(|tiers| tiers.get(index))
                    .copied()
                    .unwrap_or(0);
                let tier = if has_last {
                    tier * 2 + u64::from(is_last(index))
                } else {
                    tier
                };
                fields.push(("tier".to_owned(), New::Number(tier.to_string())));
            }
            if let Some(price) = &target.price {
                fields.push(("price".to_owned(), price.clone()));
            }
            New::Map(fields)
        };
        group.targets.iter().enumerate().map(target).collect()
    }
}

/// Reads `order` of the targets, as tiers from 0. Returns `None` if no target has one.
fn read_tiers(
    targets: &[TargetDraft<'_>],
    became: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<u64>> {
    let read = |spot: &Option<Spot<'_>>| {
        spot.as_ref()
            .and_then(Spot::amount)
            .and_then(Amount::whole)
            .filter(|n| *n <= 1_000_000)
    };
    let orders: Vec<Option<u64>> = targets.iter().map(|target| read(&target.order)).collect();
    let last = orders.iter().flatten().max()? + 1;
    for target in targets {
        if let Some(spot) = &target.order {
            let (grade, message) = match read(&target.order) {
                Some(_) => (Grade::Exact, ""),
                None => (
                    Grade::Manual,
                    "must be a whole number: write `tier` by hand",
                ),
            };
            findings.push(spot.finding(grade, became, message));
        }
    }
    Some(
        orders
            .into_iter()
            .map(|order| order.unwrap_or(last))
            .collect(),
    )
}

/// Reads the shares of the targets as LiteLLM does: by `weight`, else by `rpm`, else by `tpm`.
fn read_weights(
    targets: &[TargetDraft<'_>],
    became: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<u32>> {
    const CAP: &str = "as a cap of the deployment it is not carried: Portcullis learns quotas from the provider's answers";
    let names = ["weight", "rpm", "tpm"];
    let value = |target: &TargetDraft<'_>, index: usize| {
        target
            .shares
            .get(index)
            .and_then(Option::as_ref)
            .and_then(Spot::amount)
            .unwrap_or(Amount::ZERO)
    };
    let used = (0..names.len()).find(|index| {
        targets.len() > 1
            && targets
                .iter()
                .any(|target| !value(target, *index).is_zero())
    });
    let ratio = used.and_then(|index| {
        Amount::ratio(
            &targets
                .iter()
                .map(|target| value(target, index))
                .collect::<Vec<_>>(),
        )
    });
    for spot in targets
        .iter()
        .flat_map(|target| target.shares.iter().enumerate())
    {
        let (index, Some(spot)) = spot else { continue };
        let (is_used, is_cap) = (used == Some(index), index > 0);
        let exact = ratio.as_ref().is_some_and(|(_, exact)| *exact);
        let (grade, message) = match (is_used, is_cap) {
            (true, false) if exact => (Grade::Exact, ""),
            (true, false) => (
                Grade::Approximate,
                "the shares are rounded to whole numbers",
            ),
            (true, true) => (
                Grade::Manual,
                "is the target's `weight`, as LiteLLM uses it; as a cap of the deployment it is not carried",
            ),
            (false, false) => (
                Grade::Approximate,
                "changes nothing here: the model has one target",
            ),
            (false, true) => (Grade::Manual, CAP),
        };
        findings.push(spot.finding(grade, became, message));
    }
    ratio.map(|(weights, _)| weights)
}

/// Returns the fallbacks of a model and those of its fallbacks, as far as LiteLLM follows them.
fn fallback_chain(model: &str, others: &Others) -> Vec<String> {
    const DEEPEST: usize = 5;
    const LIMIT: usize = 20;
    let mut all: Vec<String> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::from([model]);
    let mut level: Vec<&str> = vec![model];
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for name in level.into_iter().flat_map(|model| others.named_for(model)) {
            if all.len() < LIMIT && seen.insert(name) {
                all.push(name.clone());
                next.push(name.as_str());
            }
        }
        level = next;
    }
    all
}
