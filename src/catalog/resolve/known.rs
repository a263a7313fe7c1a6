//! Servers that are known by their hosts: under which path each is asked, and whether it answers
//! anybody without a credential.
//!
//! A table and no rule: a host that is not in it may have any path, and need no key.

use std::net::IpAddr;

use crate::catalog::{Base, raw};
use crate::problem::unless_secret;
use raw::Dialect as D;

/// A label of a host's name that is longer may be anything.
const LONGEST: usize = 30;

/// A server.
pub(super) struct Known {
    host: Host,
    dialect: D,
    /// What `base_url` has behind the host; the first is the usual one.
    paths: &'static [&'static str],
    /// Where its key usually is; `None` where it needs none, or where that is looked at elsewhere.
    pub(super) variable: Option<&'static str>,
}

enum Host {
    /// This one.
    Is(&'static str),
    /// Its name ends so.
    Ends(&'static str),
    /// Whichever host, at the port that everybody knows the server by.
    Port(u16),
}

const fn at(host: Host, dialect: D, paths: &'static [&'static str], variable: Option<&'static str>) -> Known {
    Known { host, dialect, paths, variable }
}

use Host::{Ends, Is, Port};
const ALL: &[Known] = &[
    at(Is("api.openai.com"), D::OpenAi, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("eu.api.openai.com"), D::OpenAi, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("us.api.openai.com"), D::OpenAi, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("api.mistral.ai"), D::OpenAi, &["/v1"], Some("MISTRAL_API_KEY")),
    at(Is("api.x.ai"), D::OpenAi, &["/v1"], Some("XAI_API_KEY")),
    at(Is("api.groq.com"), D::OpenAi, &["/openai/v1"], Some("GROQ_API_KEY")),
    // Served with and without its version.
    at(Is("api.deepseek.com"), D::OpenAi, &["/v1", "", "/beta"], Some("DEEPSEEK_API_KEY")),
    at(Is("openrouter.ai"), D::OpenAi, &["/api/v1"], Some("OPENROUTER_API_KEY")),
    at(Is("api.perplexity.ai"), D::OpenAi, &["", "/v1"], Some("PERPLEXITY_API_KEY")),
    at(Is("api.together.xyz"), D::OpenAi, &["/v1"], Some("TOGETHER_API_KEY")),
    at(Is("api.together.ai"), D::OpenAi, &["/v1"], Some("TOGETHER_API_KEY")),
    at(Is("api.fireworks.ai"), D::OpenAi, &["/inference/v1"], Some("FIREWORKS_API_KEY")),
    at(Is("api.cerebras.ai"), D::OpenAi, &["/v1"], Some("CEREBRAS_API_KEY")),
    // What they serve in OpenAI's words.
    at(Is("api.anthropic.com"), D::OpenAi, &["/v1"], Some("ANTHROPIC_API_KEY")),
    at(Is("generativelanguage.googleapis.com"), D::OpenAi, &["/v1beta/openai"], Some("GEMINI_API_KEY")),
    at(Is("api.cohere.com"), D::OpenAi, &["/compatibility/v1"], Some("COHERE_API_KEY")),
    at(Is("api.cohere.ai"), D::OpenAi, &["/compatibility/v1"], Some("COHERE_API_KEY")),
    at(Ends(".openai.azure.com"), D::OpenAi, &["/openai/v1"], Some("AZURE_OPENAI_API_KEY")),
    at(Port(11434), D::OpenAi, &["/v1"], None),
    // In their own.
    at(Is("api.anthropic.com"), D::Anthropic, &["/v1"], Some("ANTHROPIC_API_KEY")),
    at(Is("generativelanguage.googleapis.com"), D::Gemini, &["/v1beta", "/v1", "/v1alpha"], Some("GEMINI_API_KEY")),
    at(Is("api.cohere.com"), D::Cohere, &["/v2"], Some("COHERE_API_KEY")),
    at(Is("api.cohere.ai"), D::Cohere, &["/v2"], Some("COHERE_API_KEY")),
    at(Ends(".openai.azure.com"), D::Azure, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Ends(".services.ai.azure.com"), D::Azure, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Ends(".cognitiveservices.azure.com"), D::Azure, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Is("aiplatform.googleapis.com"), D::Vertex, &[""], None),
    at(Ends("-aiplatform.googleapis.com"), D::Vertex, &[""], None),
    at(Ends(".rep.googleapis.com"), D::Vertex, &[""], None),
    at(Ends(".amazonaws.com"), D::Bedrock, &[""], None),
    at(Is("ollama.com"), D::Ollama, &[""], Some("OLLAMA_API_KEY")),
    at(Port(11434), D::Ollama, &[""], None),
];

/// The server that an account of this dialect asks there.
pub(super) fn find(dialect: D, base: &Base) -> Option<&'static Known> {
    ALL.iter().find(|known| {
        known.dialect == dialect
            && match known.host {
                Is(host) => *base.host == *host,
                Ends(end) => base.host.ends_with(end),
                Port(port) => base.port == port,
            }
    })
}

impl Known {
    /// As a base writes it; what is somebody's own of it is left out where it may be a secret.
    pub(super) fn host(&self, base: &Base) -> String {
        let is_plain =
            unless_secret(&base.host) == &*base.host && base.host.split('.').all(|label| label.len() <= LONGEST);
        match self.host {
            Is(host) => host.to_owned(),
            Ends(_) | Port(_) if is_plain || base.host.parse::<IpAddr>().is_ok() => base.authority.clone(),
            Ends(end) => format!("NAME{end}"),
            Port(port) => format!("HOST:{port}"),
        }
    }

    /// What is probably wrong with the path, and the address meant.
    pub(super) fn other_path(&self, base: &Base) -> Option<String> {
        let meant = self.paths.first().copied().unwrap_or_default();
        if self.paths.contains(&&*base.path) {
            return None;
        }
        let scheme = if base.tls { "https" } else { "http" };
        let meant = format!("{scheme}://{}{meant}", self.host(base));
        let lacks = self.paths.iter().any(|path| path.starts_with(&*base.path));
        let what = if lacks {
            "lacks the path that this server is asked under"
        } else {
            "has another path than this server is asked under"
        };
        Some(format!("{what}: probably {meant} is meant, behind which Portcullis writes the rest"))
    }
}

/// The variable that providers of this dialect usually have the key in.
pub(super) fn variable(dialect: D) -> Option<&'static str> {
    match dialect {
        D::OpenAi => Some("OPENAI_API_KEY"),
        D::Azure => Some("AZURE_OPENAI_API_KEY"),
        D::Anthropic => Some("ANTHROPIC_API_KEY"),
        D::Gemini => Some("GEMINI_API_KEY"),
        D::Cohere => Some("COHERE_API_KEY"),
        D::Ollama => Some("OLLAMA_API_KEY"),
        D::Bedrock => Some("AWS_BEARER_TOKEN_BEDROCK"),
        D::Vertex | D::Demo => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::base;
    use dialects::presets;

    #[test]
    fn the_table_agrees_with_the_presets() {
        for preset in presets::ALL.iter().filter(|preset| preset.key.is_some()) {
            let base = base::read(preset.base_url, false).unwrap();
            let known = find(D::OpenAi, &base).unwrap_or_else(|| panic!("{} is not in the table", preset.name));
            assert_eq!((known.variable, known.other_path(&base)), (preset.key, None), "{}", preset.name);
            // What is usual stands first.
            assert_eq!(known.paths.first(), Some(&&*base.path), "{}", preset.name);
        }
    }

    #[test]
    fn addresses_that_are_not_meant() {
        for (dialect, url, meant) in [
            (D::OpenAi, "https://api.openai.com", "https://api.openai.com/v1"),
            (D::OpenAi, "https://api.openai.com/v1/models", "https://api.openai.com/v1"),
            (D::OpenAi, "https://openrouter.ai/v1", "https://openrouter.ai/api/v1"),
            (D::OpenAi, "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            (D::OpenAi, "https://acme.openai.azure.com", "https://acme.openai.azure.com/openai/v1"),
            (D::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1"),
            (D::Anthropic, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
            (
                D::Gemini,
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta",
            ),
            (D::Cohere, "https://api.cohere.com/v1", "https://api.cohere.com/v2"),
            (D::Azure, "https://acme.openai.azure.com/openai", "https://acme.openai.azure.com is meant"),
            (D::Ollama, "http://10.0.0.1:11434/v1", "http://10.0.0.1:11434 is meant"),
            (
                D::Vertex,
                "https://europe-west4-aiplatform.googleapis.com/v1",
                "https://europe-west4-aiplatform.googleapis.com is meant",
            ),
            (D::Ollama, "http://[::1]:11434/v1", "http://[::1]:11434 is meant"),
            (D::Ollama, "http://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f:11434/v1", "http://HOST:11434 is meant"),
            (
                D::Azure,
                "https://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f.openai.azure.com/v1",
                "https://NAME.openai.azure.com is meant",
            ),
        ] {
            let base = base::read(url, true).unwrap();
            let told = find(dialect, &base)
                .and_then(|known| known.other_path(&base))
                .unwrap_or_else(|| panic!("{url} is taken"));
            assert!(told.contains(meant) && !told.contains("6f1b"), "{url}: {told}");
        }
        for (dialect, url) in [
            (D::OpenAi, "https://api.openai.com/v1"),
            (D::OpenAi, "https://api.deepseek.com"),
            (D::OpenAi, "https://gateway.example.com"),
            (D::OpenAi, "http://127.0.0.1:8000"),
            (D::OpenAi, "https://notapi.openai.com.example.com"),
            (D::Gemini, "https://generativelanguage.googleapis.com/v1"),
            (D::Ollama, "http://127.0.0.1:11434"),
            (D::Ollama, "https://ollama.example.com/v1"),
        ] {
            let base = base::read(url, false).unwrap();
            assert_eq!(find(dialect, &base).and_then(|known| known.other_path(&base)), None, "{url}");
        }
    }
}
