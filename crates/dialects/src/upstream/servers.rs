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

/// Returns a server with its host and its paths. No variable for a key is known, and no provider in
/// the list of prices.
pub(crate) const fn known_server(host: HostPattern, paths: &'static [&'static str]) -> KnownServer {
    KnownServer {
        host,
        paths,
        variable: None,
        listed: None,
    }
}

impl KnownServer {
    /// Sets the variable that usually holds the key.
    pub(crate) const fn with_key(self, variable: &'static str) -> Self {
        Self {
            variable: Some(variable),
            ..self
        }
    }

    /// Sets the provider in the list of prices.
    pub(crate) const fn listed_as(self, provider: &'static str) -> Self {
        Self {
            listed: Some(provider),
            ..self
        }
    }
}

use HostPattern::{Between, Ends, Is, Port};

/// The servers that speak OpenAI's dialect. Some belong to providers that also have a dialect of
/// their own.
pub(crate) const OPENAI: &[KnownServer] = &[
    known_server(Is("api.openai.com"), &["/v1"])
        .with_key("OPENAI_API_KEY")
        .listed_as("openai"),
    known_server(Is("eu.api.openai.com"), &["/v1"]).with_key("OPENAI_API_KEY"),
    known_server(Is("us.api.openai.com"), &["/v1"]).with_key("OPENAI_API_KEY"),
    known_server(Is("api.mistral.ai"), &["/v1"])
        .with_key("MISTRAL_API_KEY")
        .listed_as("mistral"),
    known_server(Is("api.x.ai"), &["/v1"])
        .with_key("XAI_API_KEY")
        .listed_as("xai"),
    known_server(Is("api.groq.com"), &["/openai/v1"])
        .with_key("GROQ_API_KEY")
        .listed_as("groq"),
    // Served with a version in the path and without.
    known_server(Is("api.deepseek.com"), &["/v1", "", "/beta"]).with_key("DEEPSEEK_API_KEY"),
    known_server(Is("openrouter.ai"), &["/api/v1"]).with_key("OPENROUTER_API_KEY"),
    known_server(Is("api.perplexity.ai"), &["", "/v1"]).with_key("PERPLEXITY_API_KEY"),
    known_server(Is("api.together.xyz"), &["/v1"]).with_key("TOGETHER_API_KEY"),
    known_server(Is("api.together.ai"), &["/v1"]).with_key("TOGETHER_API_KEY"),
    known_server(Is("api.fireworks.ai"), &["/inference/v1"]).with_key("FIREWORKS_API_KEY"),
    known_server(Is("api.cerebras.ai"), &["/v1"]).with_key("CEREBRAS_API_KEY"),
    // The addresses at which other providers' servers speak OpenAI's dialect.
    known_server(Is("api.anthropic.com"), &["/v1"])
        .with_key("ANTHROPIC_API_KEY")
        .listed_as("anthropic"),
    known_server(Is("generativelanguage.googleapis.com"), &["/v1beta/openai"])
        .with_key("GEMINI_API_KEY")
        .listed_as("gemini"),
    known_server(Is("api.cohere.com"), &["/compatibility/v1"])
        .with_key("COHERE_API_KEY")
        .listed_as("cohere"),
    known_server(Is("api.cohere.ai"), &["/compatibility/v1"]).with_key("COHERE_API_KEY"),
    known_server(Ends(".openai.azure.com"), &["/openai/v1"]).with_key("AZURE_OPENAI_API_KEY"),
    known_server(Port(11434), &["/v1"]),
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
