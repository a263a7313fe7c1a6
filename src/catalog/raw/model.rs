//! A model as written.

use schemars::JsonSchema;

use super::Timeouts;
use crate::catalog::Strategy;
use crate::units::{Decimal, Quantile, Share, Span, Text, Time};
use crate::yaml::read::List;

/// A public model id.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Other names for it.
    pub aliases: Option<List<String>>,
    /// In what order the targets are tried. Default: priority.
    pub strategy: Option<Strategy>,
    /// Whether requests of one conversation go to the same target, as long as it is fit, so that
    /// its prompt cache hits. Default: false.
    pub sticky: Option<bool>,
    /// The ways to serve it, at least one.
    #[schemars(required, length(min = 1))]
    pub targets: Option<List<Target>>,
    /// Other models, to be tried in this order when no target is left.
    pub fallbacks: Option<List<String>>,
    /// Other models, for what no target of this one can help with.
    pub fallbacks_on: Option<FallbacksOn>,
    /// A second attempt, at another account, beside a first that is slow to begin. Default: none.
    pub hedge: Option<Hedge>,
    /// Lets requests wait when no account can take them. Default: nobody waits.
    pub queue: Option<Queue>,
    /// How long to wait for this model, where its accounts say otherwise.
    pub timeouts: Option<Timeouts>,
    /// Filled in where a request is silent.
    pub defaults: Option<Defaults>,
    /// What it costs, wherever it is served from. Default: what Portcullis knows of each target's
    /// provider, which may be nothing.
    pub price: Option<Price>,
    /// What happens to a field of a request that a target's dialect cannot express. Default: drop.
    pub on_loss: Option<OnLoss>,
    /// What happens to an answer that calls a tool with broken JSON, though the upstream says that
    /// the call is whole. Default: pass.
    pub on_broken_call: Option<OnBrokenCall>,
    /// Whether callers see what the model thinks, as `reasoning_content`. Default: show.
    pub reasoning: Option<Reasoning>,
    /// Shown by /v1/models. Default: one fixed date.
    pub created: Option<Text<Time>>,
    /// Shown by /v1/models. Default: portcullis.
    pub owned_by: Option<String>,
}

/// What happens to what cannot be expressed.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// It is left out, and named in the header x-portcullis-dropped.
    Drop,
    /// The target is passed over; if none is left, the request is refused.
    Refuse,
}

/// What happens to an answer that calls a tool with broken JSON.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum OnBrokenCall {
    /// It goes to the caller as it is, and is named in the header x-portcullis-dropped.
    Pass,
    /// It is no answer: the next target is asked. A stream that has begun ends with an error.
    Error,
}

/// Whether thinking is shown.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    /// As `reasoning_content`.
    Show,
    /// Not at all.
    Hide,
}

/// One way to serve a model.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The account.
    #[schemars(required)]
    pub account: Option<String>,
    /// The name that the account knows the model by. Default: the public id.
    pub model: Option<String>,
    /// Its share of the requests; for `least_busy` how much it can take, for `priority` its share
    /// within the tier. Default: 1.
    #[schemars(range(min = 1))]
    pub weight: Option<u32>,
    /// For the strategy `priority`: the lowest is tried first, several of one tier share by weight.
    /// All targets of a model have one or none. Default: its place in the list.
    pub tier: Option<u32>,
    /// What this model can do, where what Portcullis knows of it is wrong or nothing.
    pub traits: Option<Traits>,
    /// What it costs here. Default: what the model says.
    pub price: Option<Price>,
}

/// A whole price, in US dollars: nothing of another one is filled in.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// A million tokens that are read.
    #[schemars(required)]
    pub input: Option<Decimal>,
    /// A million tokens that are written.
    #[schemars(required)]
    pub output: Option<Decimal>,
    /// A million tokens that are read out of the upstream's cache. Default: `input`.
    pub cached_input: Option<Decimal>,
    /// A million tokens that are read and go into the upstream's cache. Default: `input`.
    pub cache_write: Option<Decimal>,
    /// A million tokens of thinking. Default: `output`.
    pub thinking: Option<Decimal>,
    /// Each answer, besides. Default: 0.
    pub per_request: Option<Decimal>,
    /// What an answer's tokens cost, all of them, where its prompt is long. Default: the same.
    pub long: Option<LongPrice>,
}

/// A whole price of answers to long prompts, in US dollars.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// Prompts of more tokens than this are long.
    #[schemars(required, range(min = 1))]
    pub above: Option<u64>,
    /// A million tokens that are read.
    #[schemars(required)]
    pub input: Option<Decimal>,
    /// A million tokens that are written.
    #[schemars(required)]
    pub output: Option<Decimal>,
    /// A million tokens that are read out of the upstream's cache. Default: `input`.
    pub cached_input: Option<Decimal>,
    /// A million tokens that are read and go into the upstream's cache. Default: `input`.
    pub cache_write: Option<Decimal>,
    /// A million tokens of thinking. Default: `output`.
    pub thinking: Option<Decimal>,
}

/// Other models, by what was wrong. Theirs are not followed further.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FallbacksOn {
    /// Larger ones, to be tried in this order when a request is too long for this one.
    pub context: Option<List<String>>,
    /// Others, to be tried in this order when this one refuses to answer.
    pub refusal: Option<List<String>>,
}

/// When a second attempt is made beside a slow first one.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// When the first waits longer for its first token than this share of the model's own attempts
    /// of late. Default: p95.
    pub after: Option<Text<Quantile>>,
    /// For so many of the model's requests at most. Default: 5%.
    pub at_most: Option<Text<Share>>,
}

/// Who waits for a place.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// So many requests at most. Default: 100.
    #[schemars(range(min = 1))]
    pub length: Option<u32>,
    /// For so long at most. Default: 5s.
    pub wait: Option<Text<Span>>,
}

/// What a model can do. What is not written is as Portcullis knows it.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traits {
    /// The most tokens that an answer may have.
    #[schemars(range(min = 1))]
    pub max_output: Option<u64>,
    /// What of `temperature` and `top_p` it takes.
    pub sampling: Option<Sampling>,
    /// How it is told to think: by a number of tokens, by a word, or not at all.
    pub thinking: Option<Thinking>,
    /// The words for the effort that it knows, where it is told by a word.
    #[schemars(length(min = 1))]
    pub efforts: Option<List<Effort>>,
    /// Whether thinking can be switched off.
    pub thinking_off: Option<bool>,
    /// Whether it knows tools.
    pub tools: Option<bool>,
    /// Whether it can be made to call one.
    pub forced_tools: Option<bool>,
    /// Whether it can be made to while it thinks.
    pub forced_while_thinking: Option<bool>,
    /// Whether thoughts that come back are refused if anything before them has changed since.
    pub bound_thoughts: Option<bool>,
    /// Whether it answers in a JSON Schema by itself.
    pub structured: Option<bool>,
    /// Whether it does so with tools at hand, too.
    pub structured_with_tools: Option<bool>,
    /// Whether it sees pictures.
    pub images: Option<bool>,
    /// Whether a conversation may end with the assistant's words, to be gone on with.
    pub prefill: Option<bool>,
}

/// What of `temperature` and `top_p` a model takes.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Sampling {
    /// Both together.
    Both,
    /// One of them.
    One,
    /// Neither.
    Neither,
}

/// How a model is told to think.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// It does not think.
    None,
    /// By a number of tokens.
    Budget,
    /// By a word for the effort.
    Effort,
}

/// A word for how hard to think.
#[derive(serde::Deserialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are the words themselves")]
pub enum Effort {
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// What is filled in where a request is silent.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// For requests that say neither `max_tokens` nor `max_completion_tokens`.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
}
