//! Resolving prices: the cost of each target. Limits of money that cannot be kept, because a price
//! is unknown, are refused.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Merged, Models, ServedCallers};
use crate::base::problem::quote_safely;
use crate::base::units::{Decimal, Fine, first_three};
use crate::catalog::{Account, Key, Model, Permissions, Target, raw};
use crate::conf::price::{Each, LongPrices, Origin, Price, Rates, Usd};
use crate::conf::scribe::{Report, Scribe};
use crate::limits::{Kind, Limits};

/// Reads a price as written.
pub(super) fn read_price(written: Option<&raw::Price>, scribe: &Scribe<'_, '_>) -> Option<Price> {
    let raw = written?;
    let per_request = raw
        .per_request
        .map(|Decimal(millionths)| Usd::of_millionths(millionths));
    let [per_image, per_second, per_character] = [raw.per_image, raw.per_second, raw.per_character]
        .map(|each| each.map(|Fine(picos)| Each(picos)));
    let tokens = [
        raw.input,
        raw.output,
        raw.cached_input,
        raw.cache_write,
        raw.thinking,
    ];
    let has_others = per_request.is_some()
        || [per_image, per_second, per_character]
            .iter()
            .any(Option::is_some);
    let is_by_tokens = !has_others || raw.long.is_some() || tokens.iter().any(Option::is_some);
    // The errors of the price are reported already. The price is taken as free, so that it is not
    // also reported as unknown.
    let rates = is_by_tokens.then(|| read_rates(tokens, scribe).unwrap_or_default());
    let long = read_long(raw.long.as_ref(), &scribe.key("long"));
    Some(Price {
        rates,
        per_request,
        per_image,
        per_second,
        per_character,
        long,
    })
}

fn read_long(written: Option<&raw::LongPrice>, scribe: &Scribe<'_, '_>) -> Option<LongPrices> {
    let raw = written?;
    let at_above = scribe.key("above");
    match raw.above {
        None => at_above
            .note_missing("is missing: write the number of tokens above which a prompt is long"),
        Some(0) => {
            at_above.note_problem("must be at least 1; for one price for all prompts remove `long`")
        }
        Some(_) => {}
    }
    let rates = read_rates(
        [
            raw.input,
            raw.output,
            raw.cached_input,
            raw.cache_write,
            raw.thinking,
        ],
        scribe,
    )?;
    Some(LongPrices {
        above: raw.above?,
        rates,
    })
}

/// Returns the cost of a million tokens that are read, are written, come out of the cache, go into
/// it, or are thought. The first two must be written.
fn read_rates(written: [Option<Decimal>; 5], scribe: &Scribe<'_, '_>) -> Option<Rates> {
    let [input, output, cached_input, cache_write, thinking] = written;
    let message = "is missing: write US dollars per million tokens, or `0` if they are free";
    let input = scribe.key("input").required(input, message);
    let output = scribe.key("output").required(output, message);
    let (Decimal(input), Decimal(output)) = input.zip(output)?;
    Some(Rates {
        input,
        output,
        cached_input: written_or(cached_input, input),
        cache_write: written_or(cache_write, input),
        thinking: written_or(thinking, output),
    })
}

fn written_or(written: Option<Decimal>, other: u64) -> u64 {
    written.map_or(other, |Decimal(millionths)| millionths)
}

/// Returns the target's own price, or else the model's, or else the one that is known of the
/// provider.
pub(super) fn of_target(
    own: Option<Price>,
    of_model: Option<Price>,
    account: &Account,
    model: &str,
) -> Option<(Price, Origin)> {
    let written = own
        .map(|price| (price, Origin::Target))
        .or(of_model.map(|price| (price, Origin::Model)));
    written.or_else(|| account.known_price(model))
}

/// The served models that have a target without a known price.
pub(super) struct Unpriced<'m> {
    /// The models by index; `None` for those with errors.
    models: Vec<Option<&'m Model>>,
    /// The models without a price, each with its first such target.
    list: Vec<(&'m Model, &'m Target)>,
    /// For the index of each set of permissions, the models of `list` that it allows, by their
    /// place in `list`. Many keys have the same permissions.
    pub(super) allowed: HashMap<usize, Vec<usize>>,
}

impl<'m> Unpriced<'m> {
    pub(super) fn new(models: &'m Models<'m>) -> Self {
        let models: Vec<_> = models.values().map(Option::as_deref).collect();
        let list = models
            .iter()
            .flatten()
            // What a pattern stands for is found only by a request.
            .filter(|model| model.pattern.is_none())
            .filter_map(|model| {
                Some((
                    *model,
                    model.targets.iter().find(|target| lacks_price(target))?,
                ))
            })
            .collect();
        Self {
            models,
            list,
            allowed: HashMap::new(),
        }
    }

    /// Checks that everything that a caller's keys may use has a price, if the caller's money is
    /// limited. Fallbacks are part of what the keys may use.
    pub(super) fn check_caller<'p>(
        &mut self,
        limits: &Limits,
        permissions: impl Iterator<Item = &'p Permissions>,
        scribe: &Scribe<'_, '_>,
    ) {
        if !limits.limits_money() || self.list.is_empty() {
            return;
        }
        let found: BTreeSet<usize> = permissions
            .flat_map(|permissions| self.allowed(permissions).to_vec())
            .collect();
        self.refuse(limits, found, scribe);
    }

    /// Checks the same for a key, and for the models that the key has limits for.
    pub(super) fn check_key(&mut self, key: &Key, scribe: &Scribe<'_, '_>) {
        if self.list.is_empty() {
            return;
        }
        self.check_caller(
            &key.limits,
            std::iter::once(&*key.permissions),
            &scribe.key("limits"),
        );
        let section = scribe.key("model_limits");
        for (index, limits) in key
            .model_limits
            .iter()
            .filter(|(_, limits)| limits.limits_money())
        {
            let Some(Some(model)) = self.models.get(*index).copied() else {
                continue;
            };
            if !key.permissions.allow(&model.id) {
                continue;
            }
            let others = [&model.fallbacks, &model.on_context, &model.on_refusal]
                .into_iter()
                .flatten();
            let of_model: HashSet<&str> = std::iter::once(&model.id)
                .chain(others)
                .map(|id| &**id)
                .collect();
            let allowed = self.allowed(&key.permissions).to_vec();
            let is_of_model = |(model, _): &(&Model, &Target)| of_model.contains(&*model.id);
            let found = allowed
                .into_iter()
                .filter(|list_index| self.list.get(*list_index).is_some_and(is_of_model))
                .collect();
            self.refuse(limits, found, &section.key(&model.id));
        }
    }

    fn allowed(&mut self, permissions: &Permissions) -> &[usize] {
        let list = &self.list;
        self.allowed.entry(permissions.index).or_insert_with(|| {
            let unpriced = list.iter().enumerate();
            unpriced
                .filter(|(_, (model, _))| permissions.allow(&model.id))
                .map(|(index, _)| index)
                .collect()
        })
    }

    fn refuse(&self, limits: &Limits, found: BTreeSet<usize>, scribe: &Scribe<'_, '_>) {
        if found.is_empty() {
            return;
        }
        let found: Vec<_> = found
            .into_iter()
            .filter_map(|index| self.list.get(index).copied())
            .collect();
        let is_daily = limits.allowed(Kind::UsdPerDay).is_some();
        let kind = if is_daily {
            Kind::UsdPerDay
        } else {
            Kind::UsdPerMonth
        };
        let message = format!(
            "this limit of money cannot be kept, because the price is unknown for: {}. Until it is known, the catalog is refused; \
             {WRITE_PRICE}",
            name_models(&found)
        );
        scribe.key(kind.name()).note_problem(&message);
    }

    /// Warns once of models without a price. There is no warning if two things hold: each such
    /// target is served over plain HTTP, so hardly by a provider that sends bills, and nothing else
    /// in the catalog is about money.
    pub(super) fn warn(
        &self,
        written: &Merged<'_, raw::Model>,
        served: &ServedCallers,
        report: &Report<'_>,
    ) {
        let Some((first, _)) = self.list.first() else {
            return;
        };
        let bills = |target: &Target| target.account.base.tls;
        if self.list.iter().any(|(model, _)| {
            model
                .targets
                .iter()
                .any(|target| lacks_price(target) && bills(target))
        }) || self.is_about_money(served)
        {
            let file = written
                .get(&*first.id)
                .map(|(file, _)| *file)
                .unwrap_or_default();
            let message = format!(
                "the price is unknown for: {}. Where no limit is in money, requests are served, and their cost is not counted; {WRITE_PRICE}",
                name_models(&self.list)
            );
            Scribe::new(report, file)
                .key("models")
                .key(&first.id)
                .warn(&message);
        }
    }

    /// Returns whether anything else in the catalog is about money: a limit, a price, or a cost
    /// that callers read.
    fn is_about_money(&self, served: &ServedCallers) -> bool {
        let targets = self
            .models
            .iter()
            .flatten()
            .flat_map(|model| &model.targets);
        let is_priced = |from| !matches!(from, None | Some(Origin::Demo));
        served
            .callers
            .iter()
            .any(|caller| caller.expose_cost || caller.limits.limits_money())
            || served.keys.iter().any(|key| limits_money(key))
            || targets
                .into_iter()
                .any(|target| target.account.enabled && is_priced(target.price_from))
    }
}

fn limits_money(key: &Key) -> bool {
    let of_models = key.model_limits.iter().map(|(_, limits)| limits);
    of_models.chain([&key.limits]).any(Limits::limits_money)
}

const WRITE_PRICE: &str = "write a line such as `price: { input: 0.50, output: 1.50 }` into the model, or into its target beside \
                           `account`: US dollars per million tokens, `0` if they are free. `portcullis prices` lists those that are known";

/// Returns whether a target is on an enabled account and has no price.
fn lacks_price(target: &Target) -> bool {
    target.account.enabled && target.price.is_none()
}

/// Names the first few models, each with the account that serves it.
fn name_models(list: &[(&Model, &Target)]) -> String {
    let names = list.iter().map(|(model, target)| {
        // The account's own name for the model is not shown: it is no id of the catalog.
        let (id, account) = (quote_safely(&model.id), quote_safely(&target.account.id));
        format!("model {id} at account {account}")
    });
    first_three(&names.collect::<Vec<_>>(), ", ")
}
