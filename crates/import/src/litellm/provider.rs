//! LiteLLM's providers, by the prefix of `litellm_params.model`, and what stands for them here.

use std::sync::LazyLock;

use dialects::upstream::{self, Litellm};

use Ours::{Dialect, Preset, Server};

/// The counterpart of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    /// A preset, with its own address.
    Preset(&'static str),
    /// A dialect, with its own address or what makes one.
    Dialect(&'static str),
    /// A server that speaks OpenAI's format, at an address that must be written; with these quirks.
    Server(Option<&'static str>),
}

/// A provider of LiteLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProviderRow {
    pub(super) name: &'static str,
    pub(super) ours: Ours,
    /// The environment variables in which LiteLLM looks for the key if none is written.
    pub(super) keys: Names,
    /// The environment variables in which LiteLLM looks for the address if none is written.
    pub(super) bases: Names,
}

/// The providers that have a counterpart here.
static ALL: LazyLock<Vec<ProviderRow>> = LazyLock::new(|| {
    let mut all = OF_OPENAI.to_vec();
    for protocol in upstream::ALL {
        let Litellm { names, keys, bases } = protocol.litellm;
        all.extend(
            names
                .iter()
                .map(|name| provider_row(name, Dialect(protocol.name), keys, bases)),
        );
    }
    all
});

/// Those whose servers speak OpenAI's format.
#[rustfmt::skip]
const OF_OPENAI: &[ProviderRow] = &[
    provider_row("openai", Preset("openai"), &["OPENAI_API_KEY"], &["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
    provider_row("text-completion-openai", Preset("openai"), &["OPENAI_API_KEY"], &["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
    provider_row("groq", Preset("groq"), &["GROQ_API_KEY"], &[]),
    provider_row("mistral", Preset("mistral"), &["MISTRAL_API_KEY"], &["MISTRAL_API_BASE"]),
    provider_row("xai", Preset("xai"), &["XAI_API_KEY"], &["XAI_API_BASE"]),
    provider_row("deepseek", Preset("deepseek"), &["DEEPSEEK_API_KEY"], &["DEEPSEEK_API_BASE"]),
    provider_row("openrouter", Preset("openrouter"), &["OPENROUTER_API_KEY", "OR_API_KEY"], &["OPENROUTER_API_BASE"]),
    provider_row("perplexity", Preset("perplexity"), &["PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"], &["PERPLEXITY_API_BASE"]),
    provider_row("together_ai", Preset("together"), &["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY"], &[]),
    provider_row("fireworks_ai", Preset("fireworks"), &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"], &["FIREWORKS_API_BASE"]),
    provider_row("cerebras", Preset("cerebras"), &["CEREBRAS_API_KEY"], &["CEREBRAS_API_BASE"]),
    provider_row("hosted_vllm", Server(Some("vllm")), &[], &["HOSTED_VLLM_API_BASE"]),
    provider_row("lm_studio", Server(None), &[], &["LM_STUDIO_API_BASE"]),
    provider_row("llamafile", Server(Some("llama_cpp")), &[], &["LLAMAFILE_API_BASE"]),
    provider_row("openai_like", Server(None), &[], &["OPENAI_LIKE_API_BASE"]),
    provider_row("custom_openai", Server(None), &[], &[]),
    provider_row("litellm_proxy", Server(None), &["LITELLM_PROXY_API_KEY"], &["LITELLM_PROXY_API_BASE"]),
];

impl ProviderRow {
    /// Returns the dialect of its servers.
    pub(super) fn dialect(&self) -> &'static str {
        match self.ours {
            Dialect(dialect) => dialect,
            Preset(_) | Server(_) => "openai",
        }
    }
}

type Names = &'static [&'static str];

const fn provider_row(name: &'static str, ours: Ours, keys: Names, bases: Names) -> ProviderRow {
    ProviderRow {
        name,
        ours,
        keys,
        bases,
    }
}

fn find_provider(name: &str) -> Option<&'static ProviderRow> {
    ALL.iter().find(|row| row.name == name)
}

/// The provider and the model in `litellm_params.model`.
pub(super) struct Provided<'m> {
    pub(super) row: &'static ProviderRow,
    /// The provider's own name for the model.
    pub(super) model: &'m str,
    /// True if the provider follows from the model's name only.
    pub(super) is_guessed: bool,
}

/// Finds the provider of a model as LiteLLM does: the text before the first slash, else the name of
/// a well-known model. `custom` is `custom_llm_provider`. The error is why there is no counterpart.
pub(super) fn model_provider<'m>(
    model: &'m str,
    custom: Option<&str>,
) -> Result<Provided<'m>, &'static str> {
    const NOT_HERE: &str = "Portcullis has no dialect for this provider";
    const ROUTE: &str =
        "this way of Bedrock has no counterpart: Portcullis uses Converse, and Claude's own format";
    const GARDEN: &str = "Portcullis speaks to Gemini and Claude on Vertex AI only";
    let is_guessed = custom.is_none() && !model.contains('/');
    let (provider, rest) = match (custom, model.split_once('/')) {
        (Some(custom), Some((prefix, rest))) if prefix == custom => (custom, rest),
        (Some(custom), _) => (custom, model),
        (None, Some(split)) => split,
        (None, None) => (provider_by_name(model), model),
    };
    let row = find_provider(provider).ok_or(NOT_HERE)?;
    let without = |prefix: &str| rest.strip_prefix(prefix);
    let model = match row.dialect() {
        "bedrock" => without("converse/").or(without("invoke/")).unwrap_or(rest),
        "vertex" => without("gemini/").unwrap_or(rest),
        _ => rest,
    };
    let is_of_vertex = model.starts_with("gemini")
        || model.starts_with("claude")
        || model.contains("embedding")
        || model == "*";
    match row.dialect() {
        _ if model.is_empty() => Err("names no model"),
        "bedrock" if model.contains('/') && !model.starts_with("arn:") => Err(ROUTE),
        "vertex" if !is_of_vertex => Err(GARDEN),
        _ => Ok(Provided {
            row,
            model,
            is_guessed,
        }),
    }
}

/// The beginnings of well-known models without a prefix. LiteLLM has a list of names, and refuses
/// all others.
const BEGINNINGS: [(&str, &str); 5] = [
    ("anthropic", "claude"),
    ("vertex_ai", "gemini"),
    ("cohere", "command embed- rerank-"),
    (
        "bedrock",
        "anthropic. amazon. meta. mistral. cohere. us. eu. apac. global.",
    ),
    (
        "openai",
        "gpt o1 o3 o4 chatgpt ft: text- dall-e whisper tts omni- codex davinci babbage computer-use \
         sora",
    ),
];

fn provider_by_name(model: &str) -> &'static str {
    let begins = |list: &str| list.split(' ').any(|begin| model.starts_with(begin));
    let found = BEGINNINGS.iter().find(|(_, list)| begins(list));
    match found {
        Some((provider, _)) => provider,
        None if model == "*" => "openai",
        None => "",
    }
}
