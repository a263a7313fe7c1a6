//! Servers that speak OpenAI's format and are well known: what an account needs to say of each of
//! them, in one table.
//!
//! A preset is a starting point that the catalog may override; it names no models, since those
//! change every month.

use crate::upstream::quirks::{self, Quirks};

/// A well-known server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name in the catalog.
    pub name: &'static str,
    /// Where it is.
    pub base_url: &'static str,
    /// In what it differs from OpenAI's own server.
    pub quirks: &'static Quirks,
    /// The environment variable that its own documentation has the key in; none where it takes no
    /// key.
    pub key: Option<&'static str>,
    /// What else to know.
    pub note: &'static str,
}

/// The preset of this name.
pub fn find(name: &str) -> Option<&'static Preset> {
    ALL.iter().find(|preset| preset.name == name)
}

/// The presets as a table to read, and how one is used.
pub fn table() -> String {
    let rows = ALL.iter().map(|preset| [preset.name, preset.base_url, preset.key.unwrap_or("-"), preset.note]);
    let rows: Vec<_> = std::iter::once(["preset", "base_url", "key", "note"]).chain(rows).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0);
    let (name, url, key) = (width(0), width(1), width(2));
    let mut table = String::new();
    for [preset, base_url, variable, note] in &rows {
        let line = format!("{preset:name$}  {base_url:url$}  {variable:key$}  {note}");
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table.push_str(EXAMPLE);
    table
}

const EXAMPLE: &str = "
accounts:
  groq: { preset: groq, key: { env: GROQ_API_KEY } }
";

/// The environment variables that providers' own documentation has credentials in.
pub const VARIABLES: [&str; 22] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AZURE_OPENAI_KEY",
    "AZURE_OPENAI_API_KEY",
    "COHERE_API_KEY",
    "CO_API_KEY",
    "OLLAMA_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "PERPLEXITY_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "CEREBRAS_API_KEY",
];

const fn hosted(
    name: &'static str,
    base_url: &'static str,
    quirks: &'static Quirks,
    key: &'static str,
    note: &'static str,
) -> Preset {
    Preset { name, base_url, quirks, key: Some(key), note }
}

const fn local(name: &'static str, base_url: &'static str, quirks: &'static Quirks, note: &'static str) -> Preset {
    Preset { name, base_url, quirks, key: None, note }
}

/// Every preset.
pub const ALL: &[Preset] = &[
    hosted("openai", "https://api.openai.com/v1", &Quirks::NONE, "OPENAI_API_KEY", "OpenAI"),
    hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        &quirks::MISTRAL,
        "MISTRAL_API_KEY",
        "Mistral AI; refuses fields that it does not know",
    ),
    hosted("xai", "https://api.x.ai/v1", &quirks::XAI, "XAI_API_KEY", "xAI (Grok)"),
    hosted("groq", "https://api.groq.com/openai/v1", &quirks::GROQ, "GROQ_API_KEY", "Groq; one choice, no logprobs"),
    hosted(
        "deepseek",
        "https://api.deepseek.com/v1",
        &quirks::DEEPSEEK,
        "DEEPSEEK_API_KEY",
        "DeepSeek; JSON, but of no schema",
    ),
    hosted(
        "openrouter",
        "https://openrouter.ai/api/v1",
        &quirks::OPENROUTER,
        "OPENROUTER_API_KEY",
        "OpenRouter; models are called vendor/model",
    ),
    hosted(
        "perplexity",
        "https://api.perplexity.ai",
        &quirks::PERPLEXITY,
        "PERPLEXITY_API_KEY",
        "Perplexity; searches, has no tools",
    ),
    hosted("together", "https://api.together.xyz/v1", &quirks::TOGETHER, "TOGETHER_API_KEY", "Together AI"),
    hosted(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        &quirks::FIREWORKS,
        "FIREWORKS_API_KEY",
        "Fireworks AI; models are called accounts/*/models/*",
    ),
    hosted("cerebras", "https://api.cerebras.ai/v1", &quirks::CEREBRAS, "CEREBRAS_API_KEY", "Cerebras"),
    local("vllm", "http://127.0.0.1:8000/v1", &quirks::VLLM, "vLLM; tools need --enable-auto-tool-choice and a parser"),
    local("llama_cpp", "http://127.0.0.1:8080/v1", &quirks::LLAMA_CPP, "llama.cpp's llama-server; tools need --jinja"),
    local("sglang", "http://127.0.0.1:30000/v1", &quirks::SGLANG, "SGLang; tools need a parser"),
    local("tgi", "http://127.0.0.1:3000/v1", &quirks::TGI, "Text Generation Inference; its one model is called tgi"),
    local("ollama_openai", "http://127.0.0.1:11434/v1", &quirks::OLLAMA, "Ollama; its own dialect can do more"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_distinct() {
        for (at, preset) in ALL.iter().enumerate() {
            assert_eq!(find(preset.name), Some(preset));
            assert!(ALL.iter().skip(at + 1).all(|other| other.name != preset.name), "{}", preset.name);
            assert_eq!(Quirks::find(preset.quirks.name), Some(preset.quirks), "{}", preset.name);
            assert!(!preset.base_url.ends_with('/'), "{}", preset.name);
            assert!(preset.key.is_none_or(|key| VARIABLES.contains(&key)), "{}", preset.name);
            assert_eq!(preset.base_url.starts_with("https://"), preset.key.is_some(), "{}", preset.name);
        }
        assert_eq!(find("nobody"), None);
    }

    #[test]
    fn every_quirk_has_a_preset() {
        for quirks in quirks::ALL {
            assert!(ALL.iter().any(|preset| preset.quirks == *quirks), "{}", quirks.name);
        }
    }

    #[test]
    fn the_table_is_aligned() {
        let table = table();
        let (rows, example) = table.split_once("\n\n").expect("an example");
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), ALL.len() + 1);
        let column = rows[0].find("base_url").unwrap();
        for (row, preset) in rows[1..].iter().zip(ALL) {
            assert_eq!(row.find(preset.base_url), Some(column), "{row}");
            assert!(row.is_ascii() && row.len() <= 132 && !row.ends_with(' '), "{row}");
        }
        assert_eq!(example.lines().count(), 2);
    }
}
