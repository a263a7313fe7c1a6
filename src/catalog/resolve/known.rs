//! A known server is one that is known by its host. This is what the catalog checks by the table of
//! such servers: whether `base_url` has the path under which the server is called.

use std::net::IpAddr;

use crate::base::problem::looks_secret;
use crate::catalog::Base;
use dialects::Protocol;
use dialects::upstream::servers::HostPattern::{Between, Ends, Is, Port};
use dialects::upstream::servers::KnownServer;

/// The longest label of a host's name that a message shows. A longer one may be anything.
const MAX_LABEL_LENGTH: usize = 30;

/// Returns the known server at this address, for an account of this dialect.
pub(super) fn find_server(protocol: &Protocol, base: &Base) -> Option<&'static KnownServer> {
    KnownServer::find(protocol, &base.host, base.port)
}

/// Writes the host as a base does. A part that the operator chose is left out if it may be a
/// secret.
pub(super) fn display_host(known: &KnownServer, base: &Base) -> String {
    let is_plain = !looks_secret(&base.host)
        && base
            .host
            .split('.')
            .all(|label| label.len() <= MAX_LABEL_LENGTH);
    match known.host {
        Is(host) => host.to_owned(),
        Ends(_) | Between(..) | Port(_) if is_plain || base.host.parse::<IpAddr>().is_ok() => {
            base.authority.clone()
        }
        Ends(end) => format!("NAME{end}"),
        Between(begin, end) => format!("{begin}NAME{end}"),
        Port(port) => format!("HOST:{port}"),
    }
}

/// Describes the probable fault of the path, and the address that is meant. Returns `None` if the
/// server has this path.
pub(super) fn describe_wrong_path(known: &KnownServer, base: &Base) -> Option<String> {
    let meant_path = known.paths.first().copied().unwrap_or_default();
    if known.paths.contains(&&*base.path) {
        return None;
    }
    let scheme = if base.tls { "https" } else { "http" };
    let meant_url = format!("{scheme}://{}{meant_path}", display_host(known, base));
    let lacks = known.paths.iter().any(|path| path.starts_with(&*base.path));
    let message = if lacks {
        "lacks the path of this server's API"
    } else {
        "has another path than this server's API"
    };
    Some(format!(
        "{message}: did you mean {meant_url}? Portcullis adds the rest of the path"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::resolve::base;
    use dialects::presets;
    use dialects::upstream::{anthropic, azure, cohere, gemini, ollama, openai};

    #[test]
    fn the_table_agrees_with_the_presets() {
        for preset in presets::ALL.iter().filter(|preset| preset.key.is_some()) {
            let base = base::parse_base(preset.base_url, false).unwrap();
            let known = find_server(&openai::PROTOCOL, &base)
                .unwrap_or_else(|| panic!("{} is not in the table", preset.name));
            assert_eq!(
                (known.variable, describe_wrong_path(known, &base)),
                (preset.key, None),
                "{}",
                preset.name
            );
            // What is usual stands first.
            assert_eq!(known.paths.first(), Some(&&*base.path), "{}", preset.name);
        }
    }

    #[test]
    fn addresses_that_are_not_meant() {
        for (protocol, url, meant) in [
            (
                &openai::PROTOCOL,
                "https://api.openai.com",
                "https://api.openai.com/v1",
            ),
            (
                &openai::PROTOCOL,
                "https://api.openai.com/v1/models",
                "https://api.openai.com/v1",
            ),
            (
                &openai::PROTOCOL,
                "https://openrouter.ai/v1",
                "https://openrouter.ai/api/v1",
            ),
            (
                &openai::PROTOCOL,
                "http://127.0.0.1:11434",
                "http://127.0.0.1:11434/v1",
            ),
            (
                &openai::PROTOCOL,
                "https://acme.openai.azure.com",
                "https://acme.openai.azure.com/openai/v1",
            ),
            (
                &anthropic::PROTOCOL,
                "https://api.anthropic.com",
                "https://api.anthropic.com/v1",
            ),
            (
                &anthropic::PROTOCOL,
                "https://api.anthropic.com/v1/messages",
                "https://api.anthropic.com/v1",
            ),
            (
                &gemini::PROTOCOL,
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta",
            ),
            (
                &cohere::PROTOCOL,
                "https://api.cohere.com/v1",
                "https://api.cohere.com/v2",
            ),
            (
                &azure::PROTOCOL,
                "https://acme.openai.azure.com/openai",
                "https://acme.openai.azure.com?",
            ),
            (
                &ollama::PROTOCOL,
                "http://10.0.0.1:11434/v1",
                "http://10.0.0.1:11434?",
            ),
            (
                &gemini::VERTEX,
                "https://europe-west4-aiplatform.googleapis.com/v1",
                "https://europe-west4-aiplatform.googleapis.com?",
            ),
            (
                &ollama::PROTOCOL,
                "http://[::1]:11434/v1",
                "http://[::1]:11434?",
            ),
            (
                &ollama::PROTOCOL,
                "http://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f:11434/v1",
                "http://HOST:11434?",
            ),
            (
                &azure::PROTOCOL,
                "https://6f1b2c3d-0a1b-4c2d-8e3f-9a8b7c6d5e4f.openai.azure.com/v1",
                "https://NAME.openai.azure.com?",
            ),
        ] {
            let base = base::parse_base(url, true).unwrap();
            let told = find_server(protocol, &base)
                .and_then(|known| describe_wrong_path(known, &base))
                .unwrap_or_else(|| panic!("{url} is taken"));
            assert!(
                told.contains(meant) && !told.contains("6f1b"),
                "{url}: {told}"
            );
        }
        for (protocol, url) in [
            (&openai::PROTOCOL, "https://api.openai.com/v1"),
            (&openai::PROTOCOL, "https://api.deepseek.com"),
            (&openai::PROTOCOL, "https://gateway.example.com"),
            (&openai::PROTOCOL, "http://127.0.0.1:8000"),
            (&openai::PROTOCOL, "https://notapi.openai.com.example.com"),
            (
                &gemini::PROTOCOL,
                "https://generativelanguage.googleapis.com/v1",
            ),
            (&ollama::PROTOCOL, "http://127.0.0.1:11434"),
            (&ollama::PROTOCOL, "https://ollama.example.com/v1"),
        ] {
            let base = base::parse_base(url, false).unwrap();
            assert_eq!(
                find_server(protocol, &base).and_then(|known| describe_wrong_path(known, &base)),
                None,
                "{url}"
            );
        }
    }
}
