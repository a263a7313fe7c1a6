//! LiteLLM's providers, by the prefix of `litellm_params.model`, and what stands for them here.

use std::sync::LazyLock;

use dialects::upstream::{self, Litellm};

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
    pub(super) keys: &'static [&'static str],
    /// The environment variables in which LiteLLM looks for the address if none is written.
    pub(super) bases: &'static [&'static str],
}

const fn provider_row(
    name: &'static str,
    ours: Ours,
    keys: &'static [&'static str],
    bases: &'static [&'static str],
) -> ProviderRow {
    ProviderRow {
        name,
        ours,
        keys,
        bases,
    }
}

use Ours::{Dialect, Preset, Server};

/// The providers that have a counterpart here.
static ALL: LazyLock<Vec<ProviderRow>> = LazyLock::new(|| {
    let dialects = upstream::ALL.iter().flat_map(|protocol| {
        let Litellm { names, keys, bases } = protocol.litellm;
        names
            .iter()
            .map(move |name| provider_row(name, Dialect(protocol.name), keys, bases))
    });
    dialects.chain(OF_OPENAI.iter().copied()).collect()
});

/// Those whose servers speak OpenAI's format.
const OF_OPENAI: &[ProviderRow] = &[
    provider_row(
        "openai",
        Preset("openai"),
        &["OPENAI_API_KEY"],
        &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
    ),
    provider_row(
        "text-completion-openai",
        Preset("openai"),
        &["OPENAI_API_KEY"],
        &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
    ),
    provider_row("groq", Preset("groq"), &["GROQ_API_KEY"], &[]),
    provider_row(
        "mistral",
        Preset("mistral"),
        &["MISTRAL_API_KEY"],
        &["MISTRAL_API_BASE"],
    ),
    provider_row("xai", Preset("xai"), &["XAI_API_KEY"], &["XAI_API_BASE"]),
    provider_row(
        "deepseek",
        Preset("deepseek"),
        &["DEEPSEEK_API_KEY"],
        &["DEEPSEEK_API_BASE"],
    ),
    provider_row(
        "openrouter",
        Preset("openrouter"),
        &["OPENROUTER_API_KEY", "OR_API_KEY"],
        &["OPENROUTER_API_BASE"],
    ),
    provider_row(
        "perplexity",
        Preset("perplexity"),
        &["PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"],
        &["PERPLEXITY_API_BASE"],
    ),
    provider_row(
        "together_ai",
        Preset("together"),
        &[
            "TOGETHER_API_KEY",
            "TOGETHER_AI_API_KEY",
            "TOGETHERAI_API_KEY",
        ],
        &[],
    ),
    provider_row(
        "fireworks_ai",
        Preset("fireworks"),
        &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"],
        &["FIREWORKS_API_BASE"],
    ),
    provider_row(
        "cerebras",
        Preset("cerebras"),
        &["CEREBRAS_API_KEY"],
        &["CEREBRAS_API_BASE"],
    ),
    provider_row(
        "hosted_vllm",
        Server(Some("vllm")),
        &[],
        &["HOSTED_VLLM_API_BASE"],
    ),
    provider_row("lm_studio", Server(None), &[], &["LM_STUDIO_API_BASE"]),
    provider_row(
        "llamafile",
        Server(Some("llama_cpp")),
        &[],
        &["LLAMAFILE_API_BASE"],
    ),
    provider_row("openai_like", Server(None), &[], &["OPENAI_LIKE_API_BASE"]),
    provider_row("custom_openai", Server(None), &[], &[]),
    provider_row(
        "litellm_proxy",
        Server(None),
        &["LITELLM_PROXY_API_KEY"],
        &["LITELLM_PROXY_API_BASE"],
    ),
];

pub(super) fn find_provider(name: &str) -> Option<&'static ProviderRow> {
    ALL.iter().find(|row| row.name == name)
}

/// The provider and the model in `litellm_params.model`.
pub(super) enum ProviderOf<'m> {
    /// A provider with a counterpart, and its own name for the model. `guessed` says that the
    /// provider follows from the model's name only.
    Known {
        row: &'static ProviderRow,
        model: &'m str,
        guessed: bool,
    },
    /// Nothing that has a counterpart here, with the reason.
    Other(&'static str),
}

/// Finds the provider of a model as LiteLLM does: the text before the first slash, else the name of
/// a well-known model. `custom` is `custom_llm_provider`.
pub(super) fn of_model<'m>(model: &'m str, custom: Option<&str>) -> ProviderOf<'m> {
    const NOT_HERE: &str = "Portcullis has no dialect for this provider: the entry is left out";
    if let Some(custom) = custom {
        let Some(row) = find_provider(custom) else {
            return ProviderOf::Other(NOT_HERE);
        };
        let model = model
            .strip_prefix(custom)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(model);
        return model_of_row(row, model, false);
    }
    match model.split_once('/') {
        Some((prefix, rest)) => match find_provider(prefix) {
            Some(row) => model_of_row(row, rest, false),
            None => ProviderOf::Other(NOT_HERE),
        },
        None => match find_provider(by_name(model)) {
            Some(row) => model_of_row(row, model, true),
            None => ProviderOf::Other(NOT_HERE),
        },
    }
}

fn model_of_row<'m>(row: &'static ProviderRow, model: &'m str, guessed: bool) -> ProviderOf<'m> {
    const ROUTE: &str = "this way of Bedrock has no counterpart: Portcullis uses Converse, and Claude's own format. The entry is left out";
    const GARDEN: &str =
        "Portcullis speaks to Gemini and Claude on Vertex AI only: the entry is left out";
    let model = match row.ours {
        Dialect("bedrock") => {
            let plain = ["converse/", "invoke/"]
                .iter()
                .find_map(|way| model.strip_prefix(way))
                .unwrap_or(model);
            if plain.contains('/') && !plain.starts_with("arn:") {
                return ProviderOf::Other(ROUTE);
            }
            plain
        }
        Dialect("vertex") => {
            let plain = model.strip_prefix("gemini/").unwrap_or(model);
            if !plain.starts_with("gemini")
                && !plain.starts_with("claude")
                && !plain.contains("embedding")
                && plain != "*"
            {
                return ProviderOf::Other(GARDEN);
            }
            plain
        }
        Preset(_) | Dialect(_) | Server(_) => model,
    };
    if model.is_empty() {
        return ProviderOf::Other("names no model: the entry is left out");
    }
    ProviderOf::Known {
        row,
        model,
        guessed,
    }
}

/// Returns the provider of a well-known model without a prefix. LiteLLM has a list of names; this
/// knows their beginnings. LiteLLM refuses all other names.
fn by_name(model: &str) -> &'static str {
    let begins = |with: &[&str]| with.iter().any(|with| model.starts_with(with));
    if begins(&["claude"]) {
        "anthropic"
    } else if begins(&["gemini"]) {
        "vertex_ai"
    } else if begins(&["command", "embed-", "rerank-"]) {
        "cohere"
    } else if begins(&[
        "anthropic.",
        "amazon.",
        "meta.",
        "mistral.",
        "cohere.",
        "us.",
        "eu.",
        "apac.",
        "global.",
    ]) {
        "bedrock"
    } else if begins(&[
        "gpt",
        "o1",
        "o3",
        "o4",
        "chatgpt",
        "ft:",
        "text-",
        "dall-e",
        "whisper",
        "tts",
        "omni-",
        "codex",
        "davinci",
        "babbage",
        "computer-use",
        "sora",
    ]) || model == "*"
    {
        "openai"
    } else {
        ""
    }
}
