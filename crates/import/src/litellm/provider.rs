//! LiteLLM's providers, by the prefix of `litellm_params.model`, and what stands for them here.

use dialects::upstream::{self, Litellm};

use Ours::{Dialect, Preset, Server};

/// The counterpart of a provider.
#[derive(Clone, Copy)]
pub(super) enum Ours {
    /// A preset, with its own address.
    Preset(&'static str),
    /// A dialect, with its own address or what makes one.
    Dialect(&'static str),
    /// A server that speaks OpenAI's format, at an address that must be written; with these quirks.
    Server(Option<&'static str>),
}

/// A provider of LiteLLM.
#[derive(Clone, Copy)]
pub(super) struct ProviderRow {
    pub(super) ours: Ours,
    /// Its names, and the variables that LiteLLM reads for it.
    pub(super) litellm: Litellm,
}

/// The providers whose servers speak OpenAI's format, each with its names, the variables of its
/// key, and those of its address.
#[rustfmt::skip]
const OF_OPENAI: &[ProviderRow] = &[
    provider_row(Preset("openai"), &["openai", "text-completion-openai"], &["OPENAI_API_KEY"], &["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
    provider_row(Preset("groq"), &["groq"], &["GROQ_API_KEY"], &[]),
    provider_row(Preset("mistral"), &["mistral"], &["MISTRAL_API_KEY"], &["MISTRAL_API_BASE"]),
    provider_row(Preset("xai"), &["xai"], &["XAI_API_KEY"], &["XAI_API_BASE"]),
    provider_row(Preset("deepseek"), &["deepseek"], &["DEEPSEEK_API_KEY"], &["DEEPSEEK_API_BASE"]),
    provider_row(Preset("openrouter"), &["openrouter"], &["OPENROUTER_API_KEY", "OR_API_KEY"], &["OPENROUTER_API_BASE"]),
    provider_row(Preset("perplexity"), &["perplexity"], &["PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"], &["PERPLEXITY_API_BASE"]),
    provider_row(Preset("together"), &["together_ai"], &["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY"], &[]),
    provider_row(Preset("fireworks"), &["fireworks_ai"], &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"], &["FIREWORKS_API_BASE"]),
    provider_row(Preset("cerebras"), &["cerebras"], &["CEREBRAS_API_KEY"], &["CEREBRAS_API_BASE"]),
    provider_row(Server(Some("vllm")), &["hosted_vllm"], &[], &["HOSTED_VLLM_API_BASE"]),
    provider_row(Server(None), &["lm_studio"], &[], &["LM_STUDIO_API_BASE"]),
    provider_row(Server(Some("llama_cpp")), &["llamafile"], &[], &["LLAMAFILE_API_BASE"]),
    provider_row(Server(None), &["openai_like"], &[], &["OPENAI_LIKE_API_BASE"]),
    provider_row(Server(None), &["custom_openai"], &[], &[]),
    provider_row(Server(None), &["litellm_proxy"], &["LITELLM_PROXY_API_KEY"], &["LITELLM_PROXY_API_BASE"]),
];

impl ProviderRow {
    /// Finds the provider that has this name.
    fn find(name: &str) -> Option<Self> {
        let of_dialects = upstream::ALL.iter().map(|protocol| Self {
            ours: Dialect(protocol.name),
            litellm: protocol.litellm,
        });
        let mut all = OF_OPENAI.iter().copied().chain(of_dialects);
        all.find(|row| row.litellm.names.contains(&name))
    }

    /// Returns the dialect of its servers.
    pub(super) fn dialect(self) -> &'static str {
        match self.ours {
            Dialect(dialect) => dialect,
            Preset(_) | Server(_) => "openai",
        }
    }
}

type Names = &'static [&'static str];

const fn provider_row(ours: Ours, names: Names, keys: Names, bases: Names) -> ProviderRow {
    let litellm = Litellm { names, keys, bases };
    ProviderRow { ours, litellm }
}

/// The provider and the model in `litellm_params.model`.
pub(super) struct Provided<'m> {
    pub(super) row: ProviderRow,
    /// The provider's own name for the model.
    pub(super) model: &'m str,
    /// The name of the provider, if it follows from the model's name only.
    pub(super) guessed: Option<&'static str>,
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
    let mut guessed = None;
    let (provider, rest) = match (custom, model.split_once('/')) {
        (Some(custom), Some((prefix, rest))) if prefix == custom => (custom, rest),
        (Some(custom), _) => (custom, model),
        (None, Some(split)) => split,
        (None, None) => (*guessed.insert(provider_by_name(model)), model),
    };
    let row = ProviderRow::find(provider).ok_or(NOT_HERE)?;
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
            guessed,
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
