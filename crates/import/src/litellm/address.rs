//! The address of an account: LiteLLM adds other paths to it than Portcullis.

use std::net::{IpAddr, SocketAddr};

use super::names::entry_name;
use portcullis::base::problem::looks_secret;
use portcullis::catalog::resolve::parse_base;

/// Returns whether an address has no user name, no query, no escape and no placeholder, and a path
/// that is no secret. The slashes around the path would hide one.
pub(super) fn is_plain(text: &str) -> bool {
    const MAX_LENGTH: usize = 300;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/.-_~[]+,;=&!$()".contains(&byte);
    text.len() <= MAX_LENGTH
        && text.bytes().all(is_plain)
        && !looks_secret(split_path(text).1.trim_matches('/'))
}

/// Splits an address before its path.
fn split_path(url: &str) -> (&str, &str) {
    let start = url
        .match_indices('/')
        .nth(2)
        .map_or(url.len(), |(start, _)| start);
    url.split_at(start)
}

/// Turns LiteLLM's form of an address into ours. The second value is what may differ.
pub(super) fn dialect_url(dialect: &str, url: &str) -> (String, Option<&'static str>) {
    const TO_TRY: &str =
        "LiteLLM may add another path here than Portcullis: try it with `portcullis doctor`";
    const MESSAGES: &str =
        "LiteLLM adds `/v1/messages` to this address; Portcullis adds `/messages`";
    let url = url.trim_end_matches('/');
    let without = |end: &str| url.strip_suffix(end).unwrap_or(url).to_owned();
    match dialect {
        "azure" => {
            // Only the path counts: the host may begin with this word, too.
            let (origin, path) = split_path(url);
            let base = path.split("/openai").next().unwrap_or_default();
            (format!("{origin}{base}"), None)
        }
        "anthropic" if url.ends_with("/messages") => (without("/messages"), None),
        "anthropic" if url.ends_with("/v1") => (url.to_owned(), Some(MESSAGES)),
        "anthropic" => (format!("{url}/v1"), None),
        "gemini" if !url.ends_with("/v1") && !url.ends_with("/v1beta") => {
            (format!("{url}/v1beta"), Some(TO_TRY))
        }
        "cohere" => {
            let ends = ["/chat", "/rerank", "/embed"];
            let base = ends.iter().find_map(|end| url.strip_suffix(end));
            let base = base.unwrap_or(url).trim_end_matches("/v1");
            (format!("{}/v2", base.trim_end_matches("/v2")), Some(TO_TRY))
        }
        "ollama" => (without("/api"), None),
        _ => (without("/chat/completions"), None),
    }
}

/// Returns whether an address is plain http: to a host that may be public.
pub(super) fn is_open(url: &str) -> bool {
    parse_base(url, false).is_err()
}

/// Makes a part of an account's name out of a host.
pub(super) fn host_label(url: &str) -> String {
    let (origin, _) = split_path(url);
    let host = origin.rsplit('/').next().unwrap_or_default();
    let is_address = host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
    let name = host.split('.').next().filter(|_| !is_address);
    entry_name(name.unwrap_or(host), 40).unwrap_or_else(|| "server".to_owned())
}
