//! A model is an id that callers may ask for, and the targets that serve it.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Account, Timeouts, globs};
use crate::conf::price::{Origin, Price};
use dialects::named_enum;
use dialects::neutral::ModelKind;
use dialects::traits::Traits;

/// A public model id, and the ways to serve it.
#[derive(Debug, Clone)]
pub struct Model {
    /// The id, as `/v1/models` lists it.
    pub id: Arc<str>,
    /// The pattern that the model comes from, such as `openai/*`. If the model is itself a pattern,
    /// this is its own id.
    pub pattern: Option<Arc<str>>,
    /// The model's position in [`Catalog::models`](super::Catalog::models).
    pub index: usize,
    /// Other names for the model, sorted.
    pub aliases: Vec<Arc<str>>,
    /// Globs over further names, which are never listed.
    pub alias_globs: Vec<Arc<str>>,
    /// The order in which the targets are tried.
    pub strategy: Strategy,
    /// The ways to serve the model, as written, at least one.
    pub targets: Vec<Target>,
    /// Ids of other models that are tried when no target is left. The model itself is never among
    /// them. Their own fallbacks are not followed, so models may stand in for each other.
    pub fallbacks: Vec<Arc<str>>,
    /// The limit that is filled in if a request names none.
    pub max_tokens: Option<u64>,
    /// The time of creation as `/v1/models` shows it, in Unix seconds.
    pub created: u64,
    /// The owner as `/v1/models` shows it.
    pub owned_by: Arc<str>,
    /// The kind of the model, as the catalog has it.
    pub kind: Option<ModelKind>,
    /// True if requests of one conversation go to the same target, as long as it is fit.
    pub sticky: bool,
    /// Ids of other models that are tried when a request is too long for this one.
    pub on_context: Vec<Arc<str>>,
    /// Ids of other models that are tried when this one refuses to answer.
    pub on_refusal: Vec<Arc<str>>,
    /// The rule for a second attempt while a slow first one runs.
    pub hedge: Option<Hedge>,
    /// The rule for requests that wait when no account can take them; `None` = none waits.
    pub queue: Option<Queue>,
    /// What happens to a field that a target cannot express.
    pub on_loss: OnLoss,
    /// What happens to an answer that calls a tool with broken JSON.
    pub on_broken_call: OnBrokenCall,
    /// Whether callers see the model's thinking.
    pub reasoning: Reasoning,
}

impl Model {
    /// Returns whether this is the id or an alias of the model; a name that only a glob matches is
    /// neither.
    pub fn is_called(&self, name: &str) -> bool {
        *self.id == *name
            || self
                .aliases
                .binary_search_by(|alias| (**alias).cmp(name))
                .is_ok()
    }

    /// Returns the globs that lead to this model: those of its aliases, and its own id if it is a
    /// pattern.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Arc<str>> {
        self.alias_globs
            .iter()
            .chain(self.pattern.iter().filter(|_| self.is_pattern()))
    }

    /// Returns whether this is a pattern, which stands for other models.
    pub fn is_pattern(&self) -> bool {
        self.pattern.as_ref() == Some(&self.id)
    }

    /// Returns the name for metrics. There are few of them, however many models a pattern has.
    pub fn label(&self) -> &Arc<str> {
        self.pattern.as_ref().unwrap_or(&self.id)
    }

    /// Makes the model with this id, for which the pattern stands. Returns `None` if the id does
    /// not match or is itself a pattern, or if no target is left.
    pub(super) fn for_id(&self, id: &str) -> Option<Model> {
        let star_text = globs::star_text(&self.id, id).filter(|text| !text.contains('*'))?;
        let targets: Vec<Target> = self
            .targets
            .iter()
            .filter_map(|target| target.for_star(star_text))
            .collect();
        (!targets.is_empty()).then(|| Model {
            id: id.into(),
            targets,
            fallbacks: without(&self.fallbacks, id),
            on_context: without(&self.on_context, id),
            on_refusal: without(&self.on_refusal, id),
            ..self.clone()
        })
    }

    /// Returns whether only demo accounts serve the model, so that no provider is called.
    pub fn is_demo(&self) -> bool {
        self.targets
            .iter()
            .all(|target| target.account.dialect.protocol.calls_nobody())
    }

    /// Returns whether at least one target stands on an enabled account.
    pub fn has_enabled_account(&self) -> bool {
        self.targets.iter().any(|target| target.account.enabled)
    }
}

/// Returns the ids of a list without this one: a model is never its own fallback.
fn without(list: &[Arc<str>], id: &str) -> Vec<Arc<str>> {
    let others = list.iter().filter(|other| ***other != *id);
    others.cloned().collect()
}

named_enum! {
    /// The order in which targets are tried. Targets that are out, full or resting come last,
    /// whatever the strategy is.
    #[derive(Default)]
    pub enum Strategy: Deserialize, JsonSchema {
        /// The lowest `tier` first; targets of one tier share by `weight`. Without tiers: as
        /// written. For a cheap or near account with others in reserve.
        #[default]
        Priority = "priority",
        /// In turn, by `weight`: at 3 to 1 every fourth request goes to the second. For accounts
        /// with known quotas, or to try a new one with a small share.
        Weighted = "weighted",
        /// First the target whose account has the fewest requests in flight, divided by the
        /// target's `weight`. If all weights are equal and each account has a `concurrency`:
        /// divided by that. For GPUs of your own.
        LeastBusy = "least_busy",
        /// Of two targets that are drawn by `weight`, first the one that is expected to give its
        /// first token sooner. For providers whose speed changes by the hour.
        Fastest = "fastest",
    }
}

named_enum! {
    /// What happens to a field that a dialect cannot express.
    #[derive(Default)]
    pub enum OnLoss: Deserialize, JsonSchema {
        /// The field is left out, and named in the header `x-portcullis-dropped`.
        #[default]
        Drop = "drop",
        /// The target is skipped. If no target is left, the request is refused with 400
        /// `unsupported_parameter`.
        Refuse = "refuse",
    }
}

named_enum! {
    /// What happens to an answer that calls a tool with broken JSON.
    #[derive(Default)]
    pub enum OnBrokenCall: Deserialize, JsonSchema {
        /// The answer goes to the caller unchanged, and the header `x-portcullis-dropped` names the
        /// flaw.
        #[default]
        Pass = "pass",
        /// The answer counts as a failure: the next target is asked. A stream that has begun ends
        /// with an error.
        Error = "error",
    }
}

named_enum! {
    /// Whether callers see what a model thinks.
    #[derive(Default)]
    pub enum Reasoning: Deserialize, JsonSchema {
        /// They see it in the way of the format that they speak, such as `reasoning_content`.
        #[default]
        Show = "show",
        /// They do not see it.
        Hide = "hide",
    }
}

/// The rule for a second attempt while a slow first one runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// The share of the model's own latest attempts that the first attempt must be slower than,
    /// above 0 and below 1.
    pub after: f64,
    /// The largest share of the requests that may be hedged, above 0 and up to 1.
    pub at_most: f64,
}

/// The bounds of a queue of requests that wait for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// The most requests that wait, at least 1.
    pub length: usize,
    /// The longest time that a request waits.
    pub wait: Duration,
}

/// One way to serve a model.
#[derive(Debug, Clone)]
pub struct Target {
    /// The account that serves it.
    pub account: Arc<Account>,
    /// The account's name for the model.
    pub model: Arc<str>,
    /// The target's share; at least 1.
    pub weight: u32,
    /// The tier for [`Strategy::Priority`]: the lowest is tried first. If none is written, it is
    /// the target's place in the list.
    pub tier: u32,
    /// The longest times to wait for the target: the account's, unless the model has its own.
    pub timeouts: Timeouts,
    /// The features of this model.
    pub traits: Traits,
    /// The features that are known for sure, or that the operator has written. Lists of models show
    /// no others.
    pub known_traits: Traits,
    /// The target's price; `None` = unknown, which is not zero.
    pub price: Option<Price>,
    /// The origin of the price, if there is one.
    pub price_from: Option<Origin>,
}

impl Target {
    /// Makes the target of a model from a pattern's target: `star_text` takes the place of its `*`.
    /// Returns `None` for a model that was tuned for one customer (`ft:`), unless the pattern asks
    /// for such models.
    fn for_star(&self, star_text: &str) -> Option<Target> {
        const TUNED: &str = "ft:";
        let (account, model) = (&self.account, globs::fill_star(&self.model, star_text));
        if model.starts_with(TUNED) && !self.model.starts_with(TUNED) {
            return None;
        }
        let known = (account.dialect.protocol.traits)(&model);
        let written = self.price.zip(self.price_from);
        let (price, price_from) = written.or_else(|| account.known_price(&model)).unzip();
        Some(Target {
            traits: known.for_server(account.server),
            known_traits: if known.guessed {
                Traits::UNKNOWN
            } else {
                known
            },
            model: model.into(),
            price,
            price_from,
            ..self.clone()
        })
    }
}
