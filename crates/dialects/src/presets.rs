//! A preset has the facts that an account needs to use a well-known server that speaks OpenAI's
//! format. All presets are in one table.
//!
//! A preset is a starting point, and the catalog may override it. It names no models, because
//! models change every month.

use crate::upstream;
use crate::upstream::quirks::{
    CEREBRAS, DEEPSEEK, FIREWORKS, GROQ, LLAMA_CPP, MISTRAL, OLLAMA, OPENROUTER, PERPLEXITY,
    Quirks, SGLANG, TGI, TOGETHER, VLLM, XAI,
};

/// A well-known server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name in the catalog.
    pub name: &'static str,
    /// The server's base URL.
    pub base_url: &'static str,
    /// The differences from OpenAI's own server.
    pub quirks: &'static Quirks,
    /// The environment variable for the key in the server's own documentation. It is `None` if the
    /// server takes no key.
    pub key: Option<&'static str>,
    /// A remark for the operator.
    pub note: &'static str,
}

/// Returns the preset of this name.
pub fn find_preset(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// Returns the environment variables for credentials in the providers' own documentation.
pub fn key_variables<'a>() -> impl Iterator<Item = &'a str> {
    let of_protocols = upstream::ALL
        .iter()
        .filter_map(|protocol| protocol.key_variable);
    ALL.iter()
        .filter_map(|preset| preset.key)
        .chain(of_protocols)
        .chain(OTHER_VARIABLES)
}

/// Other variables for keys, and variables for credentials that are no keys.
const OTHER_VARIABLES: [&str; 6] = [
    "GOOGLE_API_KEY",
    "AZURE_OPENAI_KEY",
    "CO_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// Returns the preset of a server on the internet. Such a server takes a key.
const fn hosted_preset(
    quirks: &'static Quirks,
    base_url: &'static str,
    key: &'static str,
    note: &'static str,
) -> Preset {
    Preset {
        name: quirks.name,
        base_url,
        quirks,
        key: Some(key),
        note,
    }
}

/// Returns the preset of a server on this machine.
const fn local_preset(
    quirks: &'static Quirks,
    base_url: &'static str,
    note: &'static str,
) -> Preset {
    Preset {
        name: quirks.name,
        base_url,
        quirks,
        key: None,
        note,
    }
}

/// All presets.
pub const ALL: &[Preset] = &[
    Preset {
        name: "openai",
        ..hosted_preset(
            &Quirks::NONE,
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "OpenAI",
        )
    },
    hosted_preset(
        &MISTRAL,
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        "Mistral AI; refuses fields that it does not know",
    ),
    hosted_preset(&XAI, "https://api.x.ai/v1", "XAI_API_KEY", "xAI (Grok)"),
    hosted_preset(
        &GROQ,
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        "Groq; one choice for each request, no logprobs",
    ),
    hosted_preset(
        &DEEPSEEK,
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DeepSeek; JSON answers, but no JSON Schemas",
    ),
    hosted_preset(
        &OPENROUTER,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "OpenRouter; models are called vendor/model",
    ),
    hosted_preset(
        &PERPLEXITY,
        "https://api.perplexity.ai",
        "PERPLEXITY_API_KEY",
        "Perplexity; searches the web, no tools",
    ),
    hosted_preset(
        &TOGETHER,
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        "Together AI",
    ),
    hosted_preset(
        &FIREWORKS,
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "Fireworks AI; models are called accounts/*/models/*",
    ),
    hosted_preset(
        &CEREBRAS,
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        "Cerebras",
    ),
    local_preset(
        &VLLM,
        "http://127.0.0.1:8000/v1",
        "vLLM; tools need --enable-auto-tool-choice and a parser",
    ),
    local_preset(
        &LLAMA_CPP,
        "http://127.0.0.1:8080/v1",
        "llama.cpp's llama-server; tools need --jinja",
    ),
    local_preset(
        &SGLANG,
        "http://127.0.0.1:30000/v1",
        "SGLang; tools need a parser",
    ),
    local_preset(
        &TGI,
        "http://127.0.0.1:3000/v1",
        "Text Generation Inference; its one model is called tgi",
    ),
    Preset {
        name: "ollama_openai",
        ..local_preset(
            &OLLAMA,
            "http://127.0.0.1:11434/v1",
            "Ollama; the dialect `ollama` can do more",
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::quirks;

    #[test]
    fn presets_are_distinct() {
        for (at, preset) in ALL.iter().enumerate() {
            assert_eq!(find_preset(preset.name), Some(preset));
            assert!(
                ALL.iter()
                    .skip(at + 1)
                    .all(|other| other.name != preset.name),
                "{}",
                preset.name
            );
            assert_eq!(
                Quirks::find(preset.quirks.name),
                Some(preset.quirks),
                "{}",
                preset.name
            );
            assert!(!preset.base_url.ends_with('/'), "{}", preset.name);
            assert!(
                preset
                    .key
                    .is_none_or(|key| key_variables().any(|name| name == key)),
                "{}",
                preset.name
            );
            assert_eq!(
                preset.base_url.starts_with("https://"),
                preset.key.is_some(),
                "{}",
                preset.name
            );
        }
        assert_eq!(find_preset("nobody"), None);
    }

    #[test]
    fn every_quirk_has_a_preset() {
        for quirks in quirks::ALL {
            assert!(
                ALL.iter().any(|preset| preset.quirks == *quirks),
                "{}",
                quirks.name
            );
        }
    }
}
