//! A known server is one that is known by its host. The table says under which path each is called,
//! and whether it answers anybody without a credential.
//!
//! It is a table and no rule: a host that is not in it may have any path, and need no key.

use std::net::IpAddr;

use crate::base::problem::unless_secret;
use crate::catalog::Base;
use dialects::Protocol;
use dialects::upstream::{anthropic, azure, bedrock, cohere, gemini, ollama, openai};

/// The longest label of a host's name that a message shows. A longer one may be anything.
const LONGEST: usize = 30;

/// A server that is known by its host.
pub(super) struct KnownServer {
    host: HostPattern,
    protocol: &'static Protocol,
    /// The paths that `base_url` may have after the host; the first is the usual one.
    paths: &'static [&'static str],
    /// The variable that usually holds the server's key; `None` if the server needs no key, or if
    /// other code checks that.
    pub(super) variable: Option<&'static str>,
}

enum HostPattern {
    /// Exactly this host.
    Is(&'static str),
    /// Any host whose name ends with this text.
    Ends(&'static str),
    /// Any host at this port, by which everybody knows the server.
    Port(u16),
}

const fn at(
    host: HostPattern,
    protocol: &'static Protocol,
    paths: &'static [&'static str],
    variable: Option<&'static str>,
) -> KnownServer {
    KnownServer { host, protocol, paths, variable }
}

use HostPattern::{Ends, Is, Port};
const ALL: &[KnownServer] = &[
    at(Is("api.openai.com"), &openai::PROTOCOL, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("eu.api.openai.com"), &openai::PROTOCOL, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("us.api.openai.com"), &openai::PROTOCOL, &["/v1"], Some("OPENAI_API_KEY")),
    at(Is("api.mistral.ai"), &openai::PROTOCOL, &["/v1"], Some("MISTRAL_API_KEY")),
    at(Is("api.x.ai"), &openai::PROTOCOL, &["/v1"], Some("XAI_API_KEY")),
    at(Is("api.groq.com"), &openai::PROTOCOL, &["/openai/v1"], Some("GROQ_API_KEY")),
    // Served with a version in the path and without.
    at(Is("api.deepseek.com"), &openai::PROTOCOL, &["/v1", "", "/beta"], Some("DEEPSEEK_API_KEY")),
    at(Is("openrouter.ai"), &openai::PROTOCOL, &["/api/v1"], Some("OPENROUTER_API_KEY")),
    at(Is("api.perplexity.ai"), &openai::PROTOCOL, &["", "/v1"], Some("PERPLEXITY_API_KEY")),
    at(Is("api.together.xyz"), &openai::PROTOCOL, &["/v1"], Some("TOGETHER_API_KEY")),
    at(Is("api.together.ai"), &openai::PROTOCOL, &["/v1"], Some("TOGETHER_API_KEY")),
    at(Is("api.fireworks.ai"), &openai::PROTOCOL, &["/inference/v1"], Some("FIREWORKS_API_KEY")),
    at(Is("api.cerebras.ai"), &openai::PROTOCOL, &["/v1"], Some("CEREBRAS_API_KEY")),
    // The addresses at which other providers' servers speak OpenAI's dialect.
    at(Is("api.anthropic.com"), &openai::PROTOCOL, &["/v1"], Some("ANTHROPIC_API_KEY")),
    at(Is("generativelanguage.googleapis.com"), &openai::PROTOCOL, &["/v1beta/openai"], Some("GEMINI_API_KEY")),
    at(Is("api.cohere.com"), &openai::PROTOCOL, &["/compatibility/v1"], Some("COHERE_API_KEY")),
    at(Is("api.cohere.ai"), &openai::PROTOCOL, &["/compatibility/v1"], Some("COHERE_API_KEY")),
    at(Ends(".openai.azure.com"), &openai::PROTOCOL, &["/openai/v1"], Some("AZURE_OPENAI_API_KEY")),
    at(Port(11434), &openai::PROTOCOL, &["/v1"], None),
    // The addresses at which they speak their own dialects.
    at(Is("api.anthropic.com"), &anthropic::PROTOCOL, &["/v1"], Some("ANTHROPIC_API_KEY")),
    at(
        Is("generativelanguage.googleapis.com"),
        &gemini::PROTOCOL,
        &["/v1beta", "/v1", "/v1alpha"],
        Some("GEMINI_API_KEY"),
    ),
    at(Is("api.cohere.com"), &cohere::PROTOCOL, &["/v2"], Some("COHERE_API_KEY")),
    at(Is("api.cohere.ai"), &cohere::PROTOCOL, &["/v2"], Some("COHERE_API_KEY")),
    at(Ends(".openai.azure.com"), &azure::PROTOCOL, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Ends(".services.ai.azure.com"), &azure::PROTOCOL, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Ends(".cognitiveservices.azure.com"), &azure::PROTOCOL, &[""], Some("AZURE_OPENAI_API_KEY")),
    at(Is("aiplatform.googleapis.com"), &gemini::VERTEX, &[""], None),
    at(Ends("-aiplatform.googleapis.com"), &gemini::VERTEX, &[""], None),
    at(Ends(".rep.googleapis.com"), &gemini::VERTEX, &[""], None),
    at(Ends(".amazonaws.com"), &bedrock::PROTOCOL, &[""], None),
    at(Is("ollama.com"), &ollama::PROTOCOL, &[""], Some("OLLAMA_API_KEY")),
    at(Port(11434), &ollama::PROTOCOL, &[""], None),
];

/// Returns the known server at this address, for an account of this dialect.
pub(super) fn find(protocol: &Protocol, base: &Base) -> Option<&'static KnownServer> {
    ALL.iter().find(|known| {
        known.protocol == protocol
            && match known.host {
                Is(host) => *base.host == *host,
                Ends(end) => base.host.ends_with(end),
                Port(port) => base.port == port,
            }
    })
}

impl KnownServer {
    /// Writes the host as a base does. A part that the operator chose is left out if it may be a
    /// secret.
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

    /// Returns a text that says what is probably wrong with the path, and which address is meant.
    pub(super) fn other_path(&self, base: &Base) -> Option<String> {
        let meant = self.paths.first().copied().unwrap_or_default();
        if self.paths.contains(&&*base.path) {
            return None;
        }
        let scheme = if base.tls { "https" } else { "http" };
        let meant = format!("{scheme}://{}{meant}", self.host(base));
        let lacks = self.paths.iter().any(|path| path.starts_with(&*base.path));
        let what =
            if lacks { "lacks the path of this server's API" } else { "has another path than this server's API" };
        Some(format!("{what}: did you mean {meant}? Portcullis adds the rest of the path"))
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
            let known = find(&openai::PROTOCOL, &base).unwrap_or_else(|| panic!("{} is not in the table", preset.name));
            assert_eq!((known.variable, known.other_path(&base)), (preset.key, None), "{}", preset.name);
            // What is usual stands first.
            assert_eq!(known.paths.first(), Some(&&*base.path), "{}", preset.name);
        }
    }

    #[test]
    fn addresses_that_are_not_meant() {
        for (protocol, url, meant) in [
            (&openai::PROTOCOL, "https://api.openai.com", "https://api.openai.com/v1"),
            (&openai::PROTOCOL, "https://api.openai.com/v1/models", "https://api.openai.com/v1"),
            (&openai::PROTOCOL, "https://openrouter.ai/v1", "https://openrouter.ai/api/v1"),
            (&openai::PROTOCOL, "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            (&openai::PROTOCOL, "https://acme.openai.azure.com", "https://acme.openai.azure.com/openai/v1"),
            (&anthropic::PROTOCOL, "https://api.anthropic.com", "https://api.anthropic.com/v1"),
            (&anthropic::PROTOCOL, "https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1"),
            (
                &gemini::PROTOCOL,
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta",
            ),
            (&cohere::PROTOCOL, "https://api.cohere.com/v1", "https://api.cohere.com/v2"),
            (&azure::PROTOCOL, "https://acme.openai.azure.com/openai", "https://acme.openai.azure.com?"),
            (&ollama::PROTOCOL, "http://10.0.0.1:11434/v1", "http://10.0.0.1:11434?"),
            (
                &gemini::VERTEX,
                "https://europe-west4-aiplatform.googleapis.com/v1",
                "https://europe-west4-aiplatform.googleapis.com?",
            ),
            (&ollama::PROTOCOL, "http://[::1]:11434/v1", "http://[::1]:11434?"),
            (&ollama::PROTOCOL, "http://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f:11434/v1", "http://HOST:11434?"),
            (
                &azure::PROTOCOL,
                "https://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f.openai.azure.com/v1",
                "https://NAME.openai.azure.com?",
            ),
        ] {
            let base = base::read(url, true).unwrap();
            let told = find(protocol, &base)
                .and_then(|known| known.other_path(&base))
                .unwrap_or_else(|| panic!("{url} is taken"));
            assert!(told.contains(meant) && !told.contains("6f1b"), "{url}: {told}");
        }
        for (protocol, url) in [
            (&openai::PROTOCOL, "https://api.openai.com/v1"),
            (&openai::PROTOCOL, "https://api.deepseek.com"),
            (&openai::PROTOCOL, "https://gateway.example.com"),
            (&openai::PROTOCOL, "http://127.0.0.1:8000"),
            (&openai::PROTOCOL, "https://notapi.openai.com.example.com"),
            (&gemini::PROTOCOL, "https://generativelanguage.googleapis.com/v1"),
            (&ollama::PROTOCOL, "http://127.0.0.1:11434"),
            (&ollama::PROTOCOL, "https://ollama.example.com/v1"),
        ] {
            let base = base::read(url, false).unwrap();
            assert_eq!(find(protocol, &base).and_then(|known| known.other_path(&base)), None, "{url}");
        }
    }
}
