//! A known server is one that is known by its host. The table says under which path each is called,
//! and where its key usually is.
//!
//! It is a table and no rule: a host that is not in it may have any path, and need no key.

use super::{Protocol, anthropic, azure, bedrock, cohere, gemini, ollama, openai};

/// A server that is known by its host.
pub struct KnownServer {
    /// The host, by which it is known.
    pub host: HostPattern,
    protocol: &'static Protocol,
    /// The paths that a base URL may have after the host; the first is the usual one.
    pub paths: &'static [&'static str],
    /// The variable that usually holds the server's key; `None` if the server needs no key, or if
    /// other code checks that.
    pub variable: Option<&'static str>,
}

/// Where a known server is.
#[derive(Debug, Clone, Copy)]
pub enum HostPattern {
    /// Exactly this host.
    Is(&'static str),
    /// Any host whose name ends with this text.
    Ends(&'static str),
    /// Any host at this port, by which everybody knows the server.
    Port(u16),
}

const fn known_server(
    host: HostPattern,
    protocol: &'static Protocol,
    paths: &'static [&'static str],
    variable: Option<&'static str>,
) -> KnownServer {
    KnownServer {
        host,
        protocol,
        paths,
        variable,
    }
}

use HostPattern::{Ends, Is, Port};
const ALL: &[KnownServer] = &[
    known_server(
        Is("api.openai.com"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("OPENAI_API_KEY"),
    ),
    known_server(
        Is("eu.api.openai.com"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("OPENAI_API_KEY"),
    ),
    known_server(
        Is("us.api.openai.com"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("OPENAI_API_KEY"),
    ),
    known_server(
        Is("api.mistral.ai"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("MISTRAL_API_KEY"),
    ),
    known_server(
        Is("api.x.ai"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("XAI_API_KEY"),
    ),
    known_server(
        Is("api.groq.com"),
        &openai::PROTOCOL,
        &["/openai/v1"],
        Some("GROQ_API_KEY"),
    ),
    // Served with a version in the path and without.
    known_server(
        Is("api.deepseek.com"),
        &openai::PROTOCOL,
        &["/v1", "", "/beta"],
        Some("DEEPSEEK_API_KEY"),
    ),
    known_server(
        Is("openrouter.ai"),
        &openai::PROTOCOL,
        &["/api/v1"],
        Some("OPENROUTER_API_KEY"),
    ),
    known_server(
        Is("api.perplexity.ai"),
        &openai::PROTOCOL,
        &["", "/v1"],
        Some("PERPLEXITY_API_KEY"),
    ),
    known_server(
        Is("api.together.xyz"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("TOGETHER_API_KEY"),
    ),
    known_server(
        Is("api.together.ai"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("TOGETHER_API_KEY"),
    ),
    known_server(
        Is("api.fireworks.ai"),
        &openai::PROTOCOL,
        &["/inference/v1"],
        Some("FIREWORKS_API_KEY"),
    ),
    known_server(
        Is("api.cerebras.ai"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("CEREBRAS_API_KEY"),
    ),
    // The addresses at which other providers' servers speak OpenAI's dialect.
    known_server(
        Is("api.anthropic.com"),
        &openai::PROTOCOL,
        &["/v1"],
        Some("ANTHROPIC_API_KEY"),
    ),
    known_server(
        Is("generativelanguage.googleapis.com"),
        &openai::PROTOCOL,
        &["/v1beta/openai"],
        Some("GEMINI_API_KEY"),
    ),
    known_server(
        Is("api.cohere.com"),
        &openai::PROTOCOL,
        &["/compatibility/v1"],
        Some("COHERE_API_KEY"),
    ),
    known_server(
        Is("api.cohere.ai"),
        &openai::PROTOCOL,
        &["/compatibility/v1"],
        Some("COHERE_API_KEY"),
    ),
    known_server(
        Ends(".openai.azure.com"),
        &openai::PROTOCOL,
        &["/openai/v1"],
        Some("AZURE_OPENAI_API_KEY"),
    ),
    known_server(Port(11434), &openai::PROTOCOL, &["/v1"], None),
    // The addresses at which they speak their own dialects.
    known_server(
        Is("api.anthropic.com"),
        &anthropic::PROTOCOL,
        &["/v1"],
        Some("ANTHROPIC_API_KEY"),
    ),
    known_server(
        Is("generativelanguage.googleapis.com"),
        &gemini::PROTOCOL,
        &["/v1beta", "/v1", "/v1alpha"],
        Some("GEMINI_API_KEY"),
    ),
    known_server(
        Is("api.cohere.com"),
        &cohere::PROTOCOL,
        &["/v2"],
        Some("COHERE_API_KEY"),
    ),
    known_server(
        Is("api.cohere.ai"),
        &cohere::PROTOCOL,
        &["/v2"],
        Some("COHERE_API_KEY"),
    ),
    known_server(
        Ends(".openai.azure.com"),
        &azure::PROTOCOL,
        &[""],
        Some("AZURE_OPENAI_API_KEY"),
    ),
    known_server(
        Ends(".services.ai.azure.com"),
        &azure::PROTOCOL,
        &[""],
        Some("AZURE_OPENAI_API_KEY"),
    ),
    known_server(
        Ends(".cognitiveservices.azure.com"),
        &azure::PROTOCOL,
        &[""],
        Some("AZURE_OPENAI_API_KEY"),
    ),
    known_server(
        Is("aiplatform.googleapis.com"),
        &gemini::VERTEX,
        &[""],
        None,
    ),
    known_server(
        Ends("-aiplatform.googleapis.com"),
        &gemini::VERTEX,
        &[""],
        None,
    ),
    known_server(Ends(".rep.googleapis.com"), &gemini::VERTEX, &[""], None),
    known_server(Ends(".amazonaws.com"), &bedrock::PROTOCOL, &[""], None),
    known_server(
        Is("ollama.com"),
        &ollama::PROTOCOL,
        &[""],
        Some("OLLAMA_API_KEY"),
    ),
    known_server(Port(11434), &ollama::PROTOCOL, &[""], None),
];

impl KnownServer {
    /// Returns the known server at this host and port, for an account of this dialect.
    pub fn find(protocol: &Protocol, host: &str, port: u16) -> Option<&'static KnownServer> {
        ALL.iter().find(|known| {
            known.protocol == protocol
                && match known.host {
                    Is(name) => host == name,
                    Ends(end) => host.ends_with(end),
                    Port(known) => port == known,
                }
        })
    }
}
