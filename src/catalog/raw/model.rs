//! A model as written.

use dialects::neutral::{Effort, ModelKind};
use dialects::traits::{Sampling, Thinking};
use schemars::JsonSchema;

use super::Timeouts;
use crate::base::units::{Decimal, Fine, Quantile, Share, Span, Text, Time};
use crate::catalog::{OnBrokenCall, OnLoss, Reasoning, Strategy};
use crate::conf::yaml::read::List;

/// A public model id and how it is served.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Other names of the model. An alias is listed, and a key may use it if the key may use the
    /// model. An alias may be a glob, such as `claude-*`. It then answers for all names that match
    /// and are no id and no other alias, and is not listed. If several globs match, the one with
    /// the most characters before its first wildcard counts. Default: none.
    pub aliases: Option<List<String>>,
    /// Whether an alias may begin with a wildcard, so that the model answers for every unknown
    /// name. Default: false.
    pub catch_all: Option<bool>,
    /// The order in which the targets are tried. Default: priority.
    pub strategy: Option<Strategy>,
    /// Whether all requests of one conversation go to the same target, as long as it is fit, so
    /// that the provider's prompt cache hits. Default: false.
    pub sticky: Option<bool>,
    /// The ways to serve the model, at least one.
    #[schemars(required, length(min = 1))]
    pub targets: Option<List<Target>>,
    /// Other models, to be tried in this order when no target is left. Those that the key may not
    /// use are skipped; their own fallbacks are not followed. Default: none.
    pub fallbacks: Option<List<String>>,
    /// Other models, for two failures that no other target of this model can avoid.
    pub fallbacks_on: Option<FallbacksOn>,
    /// A second attempt at another account, while the first attempt is slow to begin. `{}` switches
    /// it on with all defaults; without it there is none.
    pub hedge: Option<Hedge>,
    /// Lets requests wait while no account can take them. `{}` switches it on with all defaults;
    /// without it no request waits.
    pub queue: Option<Queue>,
    /// How long to wait for this model. Each key that is written overrides the key of its accounts.
    pub timeouts: Option<Timeouts>,
    /// Values for fields that a request leaves out.
    pub defaults: Option<Defaults>,
    /// What the model costs, at each target that has no `price` of its own. Without it the price of
    /// each target is the one in Portcullis' list (`portcullis prices`), or unknown.
    pub price: Option<Price>,
    /// What happens when a target's dialect cannot express a field of the request. Default: drop.
    pub on_loss: Option<OnLoss>,
    /// What happens to an answer that calls a tool with broken JSON, although the upstream says
    /// that the call is complete. Default: pass.
    pub on_broken_call: Option<OnBrokenCall>,
    /// Whether callers see what the model thinks. Default: show.
    pub reasoning: Option<Reasoning>,
    /// What the model is for, as /v1/models shows it. Default: known by the name, or not shown.
    pub kind: Option<ModelKind>,
    /// The date that /v1/models shows. Default: one fixed date.
    pub created: Option<Text<Time>>,
    /// The owner that /v1/models shows. Default: portcullis.
    pub owned_by: Option<String>,
}

/// One way to serve a model.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The name of the account.
    #[schemars(required)]
    pub account: Option<String>,
    /// The name by which the account knows the model. If the public id has a `*`, the name has one
    /// too, for the same text. Default: the public id.
    pub model: Option<String>,
    /// The target's share of the requests. For `least_busy` it is how much the target can take; for
    /// `priority` it is the share within the tier. Default: 1.
    #[schemars(range(min = 1))]
    pub weight: Option<u32>,
    /// For the strategy `priority`: the lowest tier is tried first. Either all targets of a model
    /// have a tier or none has. Default: its place in the list.
    pub tier: Option<u32>,
    /// What the model can do at this target. Write it if what Portcullis knows by the model's name
    /// is wrong or missing.
    pub traits: Option<Traits>,
    /// What the model costs at this target. Default: the model's `price`.
    pub price: Option<Price>,
}

/// A complete price, in US dollars with at most six decimals. It takes no part of another price.
/// Write `input` and `output`, or at least one of the keys that begin with `per_`, or all.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price of a million tokens that are read. Default: unknown.
    pub input: Option<Decimal>,
    /// The price of a million tokens that are written. Default: unknown.
    pub output: Option<Decimal>,
    /// The price of a million tokens that are read out of the upstream's cache. Default: `input`.
    pub cached_input: Option<Decimal>,
    /// The price of a million tokens that are read and put into the upstream's cache. Default:
    /// `input`.
    pub cache_write: Option<Decimal>,
    /// The price of a million tokens of thinking. Default: `output`.
    pub thinking: Option<Decimal>,
    /// The price of each answer, besides its tokens. Default: 0.
    pub per_request: Option<Decimal>,
    /// The price of each picture that is made, with at most twelve decimals. Default: unknown.
    pub per_image: Option<Fine>,
    /// The price of a second of sound, with at most twelve decimals. Default: unknown.
    pub per_second: Option<Fine>,
    /// The price of each character that is spoken, with at most twelve decimals. Default: unknown.
    pub per_character: Option<Fine>,
    /// The price of all tokens of an answer whose prompt is long. Default: the same price.
    pub long: Option<LongPrice>,
}

/// A whole price of answers to long prompts, in US dollars with at most six decimals.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LongPrice {
    /// A prompt of more tokens than this is long.
    #[schemars(required, range(min = 1))]
    pub above: Option<u64>,
    /// The price of a million tokens that are read.
    #[schemars(required)]
    pub input: Option<Decimal>,
    /// The price of a million tokens that are written.
    #[schemars(required)]
    pub output: Option<Decimal>,
    /// The price of a million tokens that are read out of the upstream's cache. Default: `input`.
    pub cached_input: Option<Decimal>,
    /// The price of a million tokens that are read and put into the upstream's cache. Default:
    /// `input`.
    pub cache_write: Option<Decimal>,
    /// The price of a million tokens of thinking. Default: `output`.
    pub thinking: Option<Decimal>,
}

/// Other models, by what was wrong. Their own fallbacks are not followed. Those that the key may
/// not use are skipped.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FallbacksOn {
    /// Models with a larger window, to be tried in this order when a request is too long for this
    /// one. Default: none.
    pub context: Option<List<String>>,
    /// Models to be tried in this order when this one refuses to answer. Default: none.
    pub refusal: Option<List<String>>,
}

/// When a second attempt begins while a slow first one runs. The answer that begins first is passed
/// on, and the other attempt ends.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hedge {
    /// The second attempt begins when the first waits for its first token longer than this share of
    /// the model's own attempts of the last minutes: p50 to p99. Default: p95.
    pub after: Option<Text<Quantile>>,
    /// The largest share of the model's requests that get a second attempt, counted over 10 s.
    /// Default: 5%.
    pub at_most: Option<Text<Share>>,
}

/// The requests that wait for an account, first in, first out.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The most requests that wait at once. One more gets 503 or 429 `no_capacity` at once.
    /// Default: 100.
    #[schemars(range(min = 1))]
    pub length: Option<u32>,
    /// How long a request waits at most. Default: 5s.
    pub wait: Option<Text<Span>>,
}

/// What a model can do. For each key that is not written, Portcullis uses what it knows by the
/// model's name. For the dialects `openai` and `azure`, where requests pass through, only `tools`,
/// `images` and `structured` apply.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traits {
    /// The most tokens that a conversation may have, as lists of models show it. Default: unknown.
    #[schemars(range(min = 1))]
    pub context: Option<u64>,
    /// The most tokens that an answer may have. Default: known by the name.
    #[schemars(range(min = 1))]
    pub max_output: Option<u64>,
    /// Which of `temperature` and `top_p` the model takes. Default: known by the name.
    pub sampling: Option<Sampling>,
    /// How a request sets the model's thinking. Default: known by the name.
    pub thinking: Option<Thinking>,
    /// The words for the effort that the model accepts, if its effort is set by a word. Default:
    /// known by the name.
    #[schemars(length(min = 1))]
    pub efforts: Option<List<Effort>>,
    /// Whether thinking can be switched off. Default: known by the name.
    pub thinking_off: Option<bool>,
    /// Whether the model knows tools. Default: known by the name.
    pub tools: Option<bool>,
    /// Whether a request can force the model to call a tool. Default: known by the name.
    pub forced_tools: Option<bool>,
    /// Whether a request can force the model to call a tool while it thinks. Default: known by the
    /// name.
    pub forced_while_thinking: Option<bool>,
    /// Whether the model refuses its own earlier thoughts if something before them has changed.
    /// Default: known by the name.
    pub bound_thoughts: Option<bool>,
    /// Whether the model can answer in a JSON Schema by itself. Default: known by the name.
    pub structured: Option<bool>,
    /// Whether the model can answer in a JSON Schema when it also has tools. Default: known by the
    /// name.
    pub structured_with_tools: Option<bool>,
    /// Whether the model sees pictures. Default: known by the name.
    pub images: Option<bool>,
    /// What the vectors of the model are for, if the request has no `input_type`:
    /// `search_document`, `search_query`, `classification`, `clustering`, `semantic_similarity`,
    /// `question_answering`, `fact_verification` or `code_retrieval_query`; also Google's words,
    /// and `document`, `passage` and `query`. Servers of OpenAI's format get this word itself.
    /// Default: at Cohere's models `search_document`, else nothing.
    pub input_type: Option<String>,
    /// Whether the model reads OpenAI's `prompt_cache_breakpoint`, into which `cache_control` of
    /// Messages is then translated. Default: known by the name.
    pub cache_breakpoints: Option<bool>,
    /// Whether a conversation may end with a message of the assistant, which the model then
    /// continues. Default: known by the name.
    pub prefill: Option<bool>,
}

/// Values for fields that a request leaves out.
#[derive(serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The `max_tokens` of requests with neither `max_tokens` nor `max_completion_tokens`.
    /// Default: none.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
}
