//! A model is a public id, and the ways to serve it.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;

use super::{Account, Timeouts};
use crate::conf::price::{Origin, Price};
use dialects::traits::Traits;

/// A public model id and how it is served.
#[derive(Debug)]
pub struct Model {
    /// The id, as `/v1/models` lists it.
    pub id: Arc<str>,
    /// Its position in [`Catalog::models`](super::Catalog::models).
    pub index: usize,
    /// Other names for it, sorted.
    pub aliases: Vec<Arc<str>>,
    /// In what order its targets are tried.
    pub strategy: Strategy,
    /// The ways to serve it, as written, at least one.
    pub targets: Vec<Target>,
    /// Ids of other models, to be tried when no target is left. Never itself, never in a circle.
    pub fallbacks: Vec<Arc<str>>,
    /// Filled in where a request names no limit.
    pub max_tokens: Option<u64>,
    /// As `/v1/models` shows it, in Unix seconds.
    pub created: u64,
    /// As `/v1/models` shows it.
    pub owned_by: Arc<str>,
    /// Requests of one conversation go to the same target, as long as it is fit.
    pub sticky: bool,
    /// Ids of other models, to be tried when a request is too long for this one.
    pub on_context: Vec<Arc<str>>,
    /// Ids of other models, to be tried when this one would not answer.
    pub on_refusal: Vec<Arc<str>>,
    /// When a second attempt is made beside a slow first one.
    pub hedge: Option<Hedge>,
    /// How many requests wait, and for how long, when no account can take them; `None` = none
    /// waits.
    pub queue: Option<Queue>,
    /// A target that cannot express a field of a request is passed over.
    pub refuse_loss: bool,
    /// An answer that calls a tool with broken JSON is none.
    pub refuse_broken_calls: bool,
    /// Callers see its thinking.
    pub show_reasoning: bool,
}

impl Model {
    /// Returns whether at least one target stands on an enabled account.
    pub fn served(&self) -> bool {
        self.targets.iter().any(|target| target.account.enabled)
    }
}

/// The order in which targets are tried. Targets that are out, full or resting come last, whatever
/// the strategy is.
#[derive(serde::Deserialize, JsonSchema, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The lowest `tier` first; targets of one tier share by `weight`. Without tiers: as written.
    /// For a cheap or near account with others in reserve.
    #[default]
    Priority,
    /// In turn, by `weight`: at 3 to 1 every fourth request goes to the second. For accounts with
    /// known quotas, or to try a new one with a small share.
    Weighted,
    /// First the account with the fewest requests in flight for its `weight`, or, where the weights
    /// are equal and each account has a `concurrency`, for that. For GPUs of your own.
    LeastBusy,
    /// Of two targets that are drawn by `weight`, first the one that is expected to give its first
    /// token sooner. For providers whose speed changes by the hour.
    Fastest,
}

/// When a second attempt is made beside a slow first one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedge {
    /// When the first is slower than this share of the model's own attempts of late, above 0 and
    /// below 1.
    pub after: f64,
    /// For so large a share of the requests at most, above 0 and up to 1.
    pub at_most: f64,
}

/// Who waits for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// So many at most, at least 1.
    pub length: usize,
    /// For so long at most.
    pub wait: Duration,
}

/// One way to serve a model.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where.
    pub account: Arc<Account>,
    /// The name the account knows the model by.
    pub model: Arc<str>,
    /// Its share; at least 1.
    pub weight: u32,
    /// For [`Strategy::Priority`]: the lowest is tried first. Its place in the list, where none is
    /// written.
    pub tier: u32,
    /// How long to wait for it: the account's, but for what the model says.
    pub timeouts: Timeouts,
    /// What this model can do.
    pub traits: Traits,
    /// What it costs; `None` = nobody knows, which is not nothing.
    pub price: Option<Price>,
    /// Where the price is from, if there is one.
    pub price_from: Option<Origin>,
}
