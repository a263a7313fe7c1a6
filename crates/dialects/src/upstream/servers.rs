//! A known server is a server that is recognised by its host. Each dialect lists its own servers,
//! with the paths of their base URLs, the variable that usually holds the key, and the provider in
//! the list of prices.
//!
//! The lists are no rule: a host that is in none may have any path, and need no key.

use super::{ALL, Protocol};

/// A server that is recognised by its host.
#[derive(Debug)]
pub struct KnownServer {
    /// The host.
    pub host: HostPattern,
    /// The paths that a base URL may have after the host; the first is the usual one.
    pub paths: &'static [&'static str],
    /// The variable that usually holds the server's key; `None` if the server needs no key, or if
    /// other code checks that.
    pub variable: Option<&'static str>,
    /// The provider in the list of prices that is paid here; `None` if other prices may hold.
    pub listed: Option<&'static str>,
}

/// The address of a known server.
#[derive(Debug, Clone, Copy)]
pub enum HostPattern {
    /// Exactly this host.
    Is(&'static str),
    /// Any host whose name ends with this text.
    Ends(&'static str),
    /// Any host whose name begins and ends with these texts.
    Between(&'static str, &'static str),
    /// Any host at this port, which is the server's well-known port.
    Port(u16),
}

/// Returns a server with its host, its paths, the variable of its key, and its provider in the list
/// of prices.
pub(crate) const fn known_server(
    host: HostPattern,
    paths: &'static [&'static str],
    variable: Option<&'static str>,
    listed: Option<&'static str>,
) -> KnownServer {
    KnownServer {
        host,
        paths,
        variable,
        listed,
    }
}

use HostPattern::{Between, Ends, Is, Port};

/// The servers that speak OpenAI's dialect. Some belong to providers that also have a dialect of
/// their own.
pub(crate) const OPENAI: &[KnownServer] = &[
    known_server(
        Is("api.openai.com"),
        &["/v1"],
        Some("OPENAI_API_KEY"),
        Some("openai"),
    ),
    known_server(
        Is("eu.api.openai.com"),
        &["/v1"],
        Some("OPENAI_API_KEY"),
        None,
    ),
    known_server(
        Is("us.api.openai.com"),
        &["/v1"],
        Some("OPENAI_API_KEY"),
        None,
    ),
    known_server(
        Is("api.mistral.ai"),
        &["/v1"],
        Some("MISTRAL_API_KEY"),
        Some("mistral"),
    ),
    known_server(Is("api.x.ai"), &["/v1"], Some("XAI_API_KEY"), Some("xai")),
    known_server(
        Is("api.groq.com"),
        &["/openai/v1"],
        Some("GROQ_API_KEY"),
        Some("groq"),
    ),
    // Served with a version in the path and without.
    known_server(
        Is("api.deepseek.com"),
        &["/v1", "", "/beta"],
        Some("DEEPSEEK_API_KEY"),
        None,
    ),
    known_server(
        Is("openrouter.ai"),
        &["/api/v1"],
        Some("OPENROUTER_API_KEY"),
        None,
    ),
    known_server(
        Is("api.perplexity.ai"),
        &["", "/v1"],
        Some("PERPLEXITY_API_KEY"),
        None,
    ),
    known_server(
        Is("api.together.xyz"),
        &["/v1"],
        Some("TOGETHER_API_KEY"),
        None,
    ),
    known_server(
        Is("api.together.ai"),
        &["/v1"],
        Some("TOGETHER_API_KEY"),
        None,
    ),
    known_server(
        Is("api.fireworks.ai"),
        &["/inference/v1"],
        Some("FIREWORKS_API_KEY"),
        None,
    ),
    known_server(
        Is("api.cerebras.ai"),
        &["/v1"],
        Some("CEREBRAS_API_KEY"),
        None,
    ),
    // The addresses at which other providers' servers speak OpenAI's dialect.
    known_server(
        Is("api.anthropic.com"),
        &["/v1"],
        Some("ANTHROPIC_API_KEY"),
        Some("anthropic"),
    ),
    known_server(
        Is("generativelanguage.googleapis.com"),
        &["/v1beta/openai"],
        Some("GEMINI_API_KEY"),
        Some("gemini"),
    ),
    known_server(
        Is("api.cohere.com"),
        &["/compatibility/v1"],
        Some("COHERE_API_KEY"),
        Some("cohere"),
    ),
    known_server(
        Is("api.cohere.ai"),
        &["/compatibility/v1"],
        Some("COHERE_API_KEY"),
        None,
    ),
    known_server(
        Ends(".openai.azure.com"),
        &["/openai/v1"],
        Some("AZURE_OPENAI_API_KEY"),
        None,
    ),
    known_server(Port(11434), &["/v1"], None, None),
];

impl KnownServer {
    /// Returns the known server at this host and port, for an account of this dialect.
    pub fn find(protocol: &Protocol, host: &str, port: u16) -> Option<&'static KnownServer> {
        let mut servers = protocol.servers.iter();
        servers.find(|known| known.host.matches(host, port))
    }
}

impl HostPattern {
    fn matches(self, host: &str, port: u16) -> bool {
        match self {
            Is(name) => host == name,
            Ends(end) => host.ends_with(end),
            Between(begin, end) => host.starts_with(begin) && host.ends_with(end),
            Port(known) => port == known,
        }
    }
}

/// Returns the provider in the list of prices that is paid at a host. A proxy, another region's
/// address and a server of one's own may have other prices, so they have no provider here.
pub fn listed_provider(host: &str) -> Option<&'static str> {
    let mut servers = ALL.iter().flat_map(|protocol| protocol.servers);
    servers.find_map(|known| known.listed.filter(|_| known.host.matches(host, 0)))
}
