//! Resolving models: their targets, their aliases, and the models that may stand in for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::{Accounts, Merged, Models, prices, timeouts};
use crate::base::problem::quote_safely;
use crate::base::units::{Quantile, Share, Span, Text, Time};
use crate::catalog::{Hedge, Model, Queue, Strategy, Target, globs, name, raw};
use crate::conf::scribe::{Report, Scribe, WrittenEntry};
use crate::conf::yaml::read::{List, list_items};
use dialects::neutral::purpose::{self, Purpose};
use dialects::traits::{Efforts, Traits};

/// The value of `created` if none is written: 2026-01-01. The time of loading is never used,
/// because it would change.
const DEFAULT_CREATED: u64 = 1_767_225_600;
const DEFAULT_OWNER: &str = "portcullis";

/// The defaults of `hedge` and `queue`.
const DEFAULT_HEDGE_AFTER: Quantile = Quantile(0.95);
const DEFAULT_HEDGE_SHARE: Share = Share(0.05);
const DEFAULT_QUEUE_LENGTH: usize = 100;
const DEFAULT_QUEUE_WAIT: Duration = Duration::from_secs(5);

pub(super) fn resolve_models<'r>(
    written: &Merged<'r, raw::Model>,
    accounts: &Accounts<'_>,
    limited: impl Iterator<Item = &'r str>,
    report: &Report<'_>,
) -> Models<'r> {
    let root = Scribe::new(report, 0);
    let section = root.key("models");
    let aliases = gather_aliases(written, &section);
    let of_patterns = of_patterns(written, &aliases, limited);
    let mut models: BTreeMap<&str, Option<Model>> = BTreeMap::new();
    for (id, (file, raw)) in written {
        let section = section.in_file(*file);
        let scribe = section.entry(id);
        scribe.read_or_noted(if name::is_glob(id) {
            name::of_pattern(id)
        } else {
            name::of_model(id)
        });
        let model = raw.and_then(|raw| {
            WrittenEntry { scribe, id, raw }.resolve_model(accounts, written, &aliases)
        });
        models.insert(id, model);
    }
    for (id, pattern) in of_patterns {
        let pattern = models.get(pattern).and_then(Option::as_ref);
        if let Some(model) = pattern.and_then(|pattern| pattern.for_id(id)) {
            models.insert(id, Some(model));
        }
    }
    let indexed = models.into_iter().enumerate();
    indexed
        .map(|(index, (id, model))| (id, model.map(|model| Arc::new(Model { index, ..model }))))
        .collect()
}

/// Returns the models of patterns that something in the catalog names: a limit, or another model's
/// fallbacks. Each comes with its pattern. They are models of their own from the start.
fn of_patterns<'r>(
    written: &Merged<'r, raw::Model>,
    aliases: &HashMap<&str, &str>,
    limited: impl Iterator<Item = &'r str>,
) -> BTreeMap<&'r str, &'r str> {
    let raw = written.values().filter_map(|(_, raw)| *raw);
    let lists = raw.flat_map(|raw| {
        let on = raw.fallbacks_on.as_ref();
        [
            raw.fallbacks.as_ref(),
            on.and_then(|on| on.context.as_ref()),
            on.and_then(|on| on.refusal.as_ref()),
        ]
    });
    let others = lists.flat_map(|list| list_items(list).map(|(_, id)| id.as_str()));
    let unwritten = others.chain(limited).filter(|id| {
        !written.contains_key(id) && !aliases.contains_key(id) && name::of_model(id).is_ok()
    });
    unwritten
        .filter_map(|id| Some((id, pattern_of(written.keys().copied(), id)?)))
        .collect()
}

/// Returns the pattern that a model's id belongs to: of several, the one with the longest
/// beginning.
pub(super) fn pattern_of<'r>(ids: impl Iterator<Item = &'r str>, id: &str) -> Option<&'r str> {
    ids.filter(|pattern| globs::star_text(pattern, id).is_some())
        .max_by_key(|pattern| name::literal_prefix(pattern).len())
}

/// Gathers the aliases, each with its model. No alias is an id, and none may stand twice.
fn gather_aliases<'r>(
    written: &Merged<'r, raw::Model>,
    section: &Scribe<'_, '_>,
) -> HashMap<&'r str, &'r str> {
    let mut aliases: HashMap<&str, &str> = HashMap::new();
    for (id, (file, raw)) in written {
        let section = section.in_file(*file);
        let scribe = section.entry(id);
        if let Some((other, _)) = same_beginning(id, id, written, &HashMap::new()) {
            scribe.note_problem(&format!(
                "begins as \"{other}\" does, so nobody could tell which of them counts: make one of them longer, or \
                 write several targets at one of them"
            ));
        }
        let scribe = scribe.key("aliases");
        let message = "is not for a pattern, which stands for many models: write a model of its own for the alias";
        scribe.note_problem_if(
            name::is_glob(id) && raw.is_some_and(|raw| raw.aliases.is_some()),
            message,
        );
        for (index, alias) in list_items(raw.and_then(|raw| raw.aliases.as_ref())) {
            let scribe = scribe.index(index);
            let is_glob = name::is_glob(alias);
            let checked = if is_glob {
                name::of_alias_glob(alias)
            } else {
                name::of_model(alias)
            };
            let catches_all = raw.is_some_and(|raw| raw.catch_all == Some(true));
            if let Err(wrong) = checked {
                scribe.note_problem_unquoted(wrong);
            } else if is_glob && name::literal_prefix(alias).is_empty() && !catches_all {
                scribe.note_problem(&format!(
                    "{} begins with a wildcard, so it may match every name: if that is meant, write `catch_all: true` beside it",
                    quote_safely(alias)
                ));
            } else if let Some((other, glob)) = same_beginning(alias, id, written, &aliases) {
                scribe.note_problem(&format!(
                    "{} begins as {} of \"{other}\" does, so nobody could tell which of them counts: make one of them longer",
                    quote_safely(alias),
                    quote_safely(glob)
                ));
            } else if written.contains_key(alias.as_str()) {
                scribe.note_problem(&format!(
                    "{} is already the id of a model, so it cannot be an alias",
                    quote_safely(alias)
                ));
            } else if let Some(other) = aliases.insert(alias, id) {
                scribe.note_problem(&format!(
                    "{} is already an alias of \"{other}\"",
                    quote_safely(alias)
                ));
            }
        }
    }
    aliases
}

/// Finds another model's glob or pattern with the same beginning before its first wildcard.
fn same_beginning<'r>(
    alias: &str,
    id: &str,
    written: &Merged<'r, raw::Model>,
    aliases: &HashMap<&'r str, &'r str>,
) -> Option<(&'r str, &'r str)> {
    if !name::is_glob(alias) {
        return None;
    }
    let prefix = name::literal_prefix(alias);
    let globs = aliases.iter().map(|(glob, other)| (*other, *glob));
    let mut others = globs
        .chain(written.keys().map(|id| (*id, *id)))
        .filter(|(other, glob)| *other != id && name::is_glob(glob));
    others.find(|(_, glob)| name::literal_prefix(glob) == prefix)
}

impl WrittenEntry<'_, '_, '_, raw::Model> {
    fn resolve_model(
        &self,
        accounts: &Accounts<'_>,
        written: &Merged<'_, raw::Model>,
        aliases: &HashMap<&str, &str>,
    ) -> Option<Model> {
        let raw = self.raw;
        let mut targets = self.targets(accounts);
        self.tiers();
        timeouts::of_model(
            raw.timeouts.as_ref(),
            targets.as_deref_mut().unwrap_or_default(),
            &self.scribe.key("timeouts"),
        );
        let hedge = self.hedge(targets.as_deref());
        let queue = self.queue();
        let others = |key: &Scribe<'_, '_>, ids| self.fallback_list(key, ids, written, aliases);
        let fallbacks = others(&self.scribe.key("fallbacks"), raw.fallbacks.as_ref());
        let on = self.scribe.key("fallbacks_on");
        let on_context = others(
            &on.key("context"),
            raw.fallbacks_on.as_ref().and_then(|on| on.context.as_ref()),
        );
        let on_refusal = others(
            &on.key("refusal"),
            raw.fallbacks_on.as_ref().and_then(|on| on.refusal.as_ref()),
        );
        let max_tokens = raw
            .defaults
            .as_ref()
            .and_then(|defaults| defaults.max_tokens);
        self.scribe
            .key("defaults")
            .key("max_tokens")
            .note_problem_if(max_tokens == Some(0), "must be at least 1");
        let owned_by = raw.owned_by.as_deref().unwrap_or(DEFAULT_OWNER);
        let is_no_text = owned_by.is_empty() || owned_by.chars().any(char::is_control);
        self.scribe
            .key("owned_by")
            .note_problem_if(is_no_text, "must be text without control characters");
        let mut aliases: Vec<Arc<str>> = list_items(raw.aliases.as_ref())
            .map(|(_, alias)| alias.as_str().into())
            .collect();
        aliases.sort_unstable();
        let (alias_globs, aliases) = aliases.into_iter().partition(|alias| name::is_glob(alias));
        let model = Model {
            id: self.id.into(),
            pattern: name::is_glob(self.id).then(|| self.id.into()),
            index: 0,
            aliases,
            alias_globs,
            strategy: raw.strategy.unwrap_or_default(),
            targets: targets?,
            fallbacks,
            sticky: raw.sticky.unwrap_or(false),
            on_context,
            on_refusal,
            hedge,
            queue,
            max_tokens,
            created: raw
                .created
                .map_or(DEFAULT_CREATED, |Text(Time(seconds))| seconds),
            owned_by: owned_by.into(),
            kind: raw.kind,
            on_loss: raw.on_loss.unwrap_or_default(),
            on_broken_call: raw.on_broken_call.unwrap_or_default(),
            reasoning: raw.reasoning.unwrap_or_default(),
        };
        let stand_ins = [
            ("fallbacks", &model.fallbacks),
            ("fallbacks_on", &model.on_context),
            ("fallbacks_on", &model.on_refusal),
        ];
        if model.targets.iter().any(gives_vectors)
            && let Some((key, _)) = stand_ins.into_iter().find(|(_, list)| !list.is_empty())
        {
            let message = "cannot be written for a model of vectors: those of different models cannot be compared";
            self.scribe.key(key).note_problem(message);
        }
        let tiers: HashSet<u32> = model.targets.iter().map(|target| target.tier).collect();
        let is_in_order =
            model.strategy == Strategy::Priority && tiers.len() == model.targets.len();
        let message = "changes nothing: with the strategy `priority` and one target in each tier, all conversations go \
                    to the first target. Give several targets the same `tier`, or write another strategy";
        self.scribe.key("sticky").warn_if(
            model.sticky && is_in_order && model.targets.len() > 1,
            message,
        );
        self.scribe.warn_if(
            !model.has_enabled_account(),
            "is not served, because all accounts of its targets are disabled",
        );
        Some(model)
    }

    /// Resolves the targets; `None` if one of them is wrong.
    fn targets(&self, accounts: &Accounts<'_>) -> Option<Vec<Target>> {
        let list = self.scribe.key("targets");
        let of_model = prices::read_price(self.raw.price.as_ref(), &self.scribe.key("price"));
        let written = self
            .raw
            .targets
            .as_ref()
            .filter(|targets| !targets.is_empty());
        let written = list.required(
            written,
            "must list at least one target, such as `- { account: NAME }`",
        )?;
        let mut seen = HashSet::new();
        let targets: Vec<Option<Target>> = written
            .iter()
            .enumerate()
            .map(|(index, target)| {
                let target = target.as_ref()?;
                let scribe = list.index(index);
                let model = target.model.as_deref().unwrap_or(self.id);
                let is_no_name = !(1..=512).contains(&model.len()) || model.chars().any(char::is_control);
                scribe.key("model").note_problem_if(is_no_name, "must be 1 to 512 bytes without control characters");
                let message = "must be at least 1; to send no requests to a target, remove the target";
                scribe.key("weight").note_problem_if(target.weight == Some(0), message);
                let own = prices::read_price(target.price.as_ref(), &scribe.key("price"));
                let account = target.account.as_deref();
                let account = scribe.key("account").required(account, "is missing: the name of an account")?;
                let is_pattern = name::of_pattern(self.id).is_ok();
                let message = "must hold one `*`, as the model's id does: it stands for the same text in both";
                scribe.key("model").note_problem_if(is_pattern && model.matches('*').count() != 1, message);
                let message = "is not for a pattern, which stands for many models: write a model of its own for it";
                scribe.key("traits").note_problem_if(is_pattern && target.traits.is_some(), message);
                let message = "has the same account and model as a target before it: keep only one of the two";
                scribe.note_problem_if(!seen.insert((account, model)), message);
                let found =
                    scribe.key("account").found_or_noted(accounts.get(account), "account", account, super::known_names(accounts))?;
                // The account may be `None`: then it has errors of its own.
                let account = Arc::clone(found.as_ref()?);
                let message = "has a dialect whose servers do not list their models, so a pattern cannot be used: write each \
                            model by its name";
                scribe.key("account").note_problem_if(is_pattern && account.dialect.protocol.endpoints.listing.is_none(), message);
                let message = "becomes a part of the request's path in this account's dialect, so it cannot hold \
                            `?`, `#`, `\\`, or an empty, `.` or `..` part between slashes";
                scribe.key("model").note_problem_if(account.dialect.cannot_address(model), message);
                let known = (account.dialect.protocol.traits)(model);
                let known_traits = merge_traits(if known.guessed { Traits::UNKNOWN } else { known }, target.traits.as_ref());
                let traits = merge_traits(known, target.traits.as_ref()).for_server(account.server);
                scribe.key("traits").key("context").note_problem_if(traits.context == Some(0), "must be at least 1");
                scribe.key("traits").key("max_output").note_problem_if(traits.max_output == Some(0), "must be at least 1");
                if let Some(word) = target.traits.as_ref().and_then(|traits| traits.input_type.as_deref()) {
                    let scribe = scribe.key("traits");
                    scribe.key("input_type").found_or_noted(
                        Purpose::find(word),
                        "purpose of vectors",
                        word,
                        Purpose::NAMES.into_iter(),
                    );
                }
                let tier = target.tier.unwrap_or_else(|| u32::try_from(index).unwrap_or(u32::MAX));
                let (price, price_from) = prices::of_target(own, of_model, &account, model).unzip();
                Some(Target {
                    timeouts: account.timeouts,
                    account,
                    model: model.into(),
                    weight: target.weight.unwrap_or(1),
                    tier,
                    traits,
                    known_traits,
                    price,
                    price_from,
                })
            })
            .collect();
        targets.into_iter().collect()
    }

    /// Checks that either all targets have a tier or none has, and that the strategy uses tiers.
    fn tiers(&self) {
        let list = self.scribe.key("targets");
        let targets = || list_items(self.raw.targets.as_ref());
        let Some((with, _)) = targets().find(|(_, target)| target.tier.is_some()) else {
            return;
        };
        if let Some((without, _)) = targets().find(|(_, target)| target.tier.is_none()) {
            let message = "is missing, but other targets of this model have it: write it at all targets or at none";
            list.index(without).key("tier").note_missing(message);
        }
        let is_unused = self.raw.strategy.unwrap_or_default() != Strategy::Priority;
        let message = "is only used by the strategy `priority`, and this model has another strategy: remove the tiers";
        list.index(with).key("tier").warn_if(is_unused, message);
    }

    fn hedge(&self, targets: Option<&[Target]>) -> Option<Hedge> {
        let written = self.raw.hedge.as_ref()?;
        let scribe = self.scribe.key("hedge");
        let Share(at_most) = written
            .at_most
            .map_or(DEFAULT_HEDGE_SHARE, |Text(share)| share);
        let message = "must be more than 0%; remove `hedge` to make no second attempts";
        scribe
            .key("at_most")
            .note_problem_if(at_most <= 0.0, message);
        if let Some([first, rest @ ..]) = targets
            && rest
                .iter()
                .all(|target| target.account.id == first.account.id)
        {
            let message = "has no effect: the second attempt needs another account, and this model has only one";
            scribe.warn(message);
        }
        let Quantile(after) = written
            .after
            .map_or(DEFAULT_HEDGE_AFTER, |Text(quantile)| quantile);
        Some(Hedge { after, at_most })
    }

    fn queue(&self) -> Option<Queue> {
        let written = self.raw.queue.as_ref()?;
        let scribe = self.scribe.key("queue");
        let message = "must be at least 1; remove `queue` to let no request wait";
        scribe
            .key("length")
            .note_problem_if(written.length == Some(0), message);
        let wait = written
            .wait
            .map_or(DEFAULT_QUEUE_WAIT, |Text(Span(span))| span);
        scribe.key("wait").note_problem_if(
            wait.is_zero(),
            "must be more than 0s; remove `queue` to let no request wait",
        );
        Some(Queue {
            length: written.length.map_or(DEFAULT_QUEUE_LENGTH, |length| {
                usize::try_from(length).unwrap_or(usize::MAX)
            }),
            wait,
        })
    }

    /// Resolves a list of other models: `fallbacks`, or one of the lists of `fallbacks_on`.
    fn fallback_list(
        &self,
        scribe: &Scribe<'_, '_>,
        list: Option<&List<String>>,
        written: &Merged<'_, raw::Model>,
        aliases: &HashMap<&str, &str>,
    ) -> Vec<Arc<str>> {
        let mut seen = HashSet::new();
        for (index, id) in list_items(list) {
            let wrong = if id == self.id {
                "is the model itself".to_owned()
            } else if let Some(model) = aliases.get(id.as_str()) {
                format!("{} is an alias: write \"{model}\"", quote_safely(id))
            } else if name::is_glob(id) && written.contains_key(id.as_str()) {
                format!(
                    "{} is a pattern: write the name of one of its models",
                    quote_safely(id)
                )
            } else if !written.contains_key(id.as_str())
                && pattern_of(written.keys().copied(), id).is_none()
            {
                scribe
                    .index(index)
                    .note_unknown("model", id, super::known_names(written));
                continue;
            } else if !seen.insert(id) {
                format!("{} is written twice: keep only one", quote_safely(id))
            } else {
                continue;
            };
            scribe.index(index).note_problem(&wrong);
        }
        list_items(list).map(|(_, id)| id.as_str().into()).collect()
    }
}

fn gives_vectors(target: &Target) -> bool {
    target.traits.input_type.is_some() || purpose::gives_vectors(&target.model)
}

/// Returns the traits of a model: the known ones, replaced by those that are written.
fn merge_traits(known: Traits, written: Option<&raw::Traits>) -> Traits {
    let Some(written) = written else { return known };
    Traits {
        context: written.context.or(known.context),
        max_output: written.max_output.or(known.max_output),
        sampling: written.sampling.unwrap_or(known.sampling),
        thinking: written.thinking.unwrap_or(known.thinking),
        thinking_off: written.thinking_off.unwrap_or(known.thinking_off),
        tools: written.tools.unwrap_or(known.tools),
        forced_tools: written.forced_tools.unwrap_or(known.forced_tools),
        efforts: match &written.efforts {
            None => known.efforts,
            Some(_) => Efforts::from_list(
                &list_items(written.efforts.as_ref())
                    .map(|(_, word)| *word)
                    .collect::<Vec<_>>(),
            ),
        },
        bound_thoughts: written.bound_thoughts.unwrap_or(known.bound_thoughts),
        forced_while_thinking: written
            .forced_while_thinking
            .unwrap_or(known.forced_while_thinking),
        structured: written.structured.unwrap_or(known.structured),
        structured_with_tools: written
            .structured_with_tools
            .unwrap_or(known.structured_with_tools),
        server: known.server,
        images: written.images.unwrap_or(known.images),
        prefill: written.prefill.unwrap_or(known.prefill),
        cache_breakpoints: written.cache_breakpoints.unwrap_or(known.cache_breakpoints),
        input_type: written.input_type.as_deref().and_then(Purpose::and_word),
        guessed: known.guessed,
    }
}
