//! The address of an account: LiteLLM adds other paths to it than Portcullis.

use std::net::{IpAddr, SocketAddr};

use super::draft::Drafting;
use super::names::entry_name;
use super::node::Lost;
use super::provider::{Ours, ProviderRow};
use super::world::ENVIRON;
use crate::notes::Grade;
use portcullis::base::problem::unless_secret;
use portcullis::catalog::resolve::parse_base;

impl Drafting<'_, '_> {
    /// Finds the address, as the account's dialect writes it.
    pub(super) fn find_address(&mut self) -> Result<Option<String>, Lost> {
        const UNUSABLE: &str =
            "must be https://HOST/PATH, without a user name, a query or a placeholder";
        let written = match self.row.ours {
            Ours::Dialect("bedrock") => {
                self.take_first(&["aws_bedrock_runtime_endpoint", "api_base"])
            }
            Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
                let [written, other] = ["api_base", "base_url"].map(|field| self.take(field));
                if let (Some(_), Some(other)) = (&written, &other) {
                    other.approximate("is not used, as `api_base` goes before it");
                }
                written.or(other)
            }
        };
        let text = match &written {
            Some(spot) if spot.text() == Some("") => None,
            Some(spot) => Some(self.world.plain(spot)?),
            None => self
                .row
                .bases
                .iter()
                .find_map(|name| self.world.variable(name)),
        };
        let Some(text) = text else { return Ok(None) };
        let (url, difference) = url_of_dialect(self.row, &text);
        // An address that cannot be used is not repeated: it may be a secret.
        if !is_plain(&text) || has_secret_path(&text) || parse_base(&url, true).is_err() {
            let spot = written.as_ref().unwrap_or(&self.entry.spot);
            return Err(spot.lost(Grade::Manual, UNUSABLE));
        }
        if let Some(spot) = written {
            let is_variable = spot.text().is_some_and(|text| text.starts_with(ENVIRON));
            match difference {
                Some(difference) => spot.approximate(difference),
                None if is_variable => {
                    spot.report(
                        Grade::Exact,
                        "the address that the environment has now is written",
                    );
                }
                None => spot.exact(),
            }
        }
        Ok(Some(url))
    }
}

/// Returns whether an address has no user name, no query, no escape and no placeholder.
fn is_plain(text: &str) -> bool {
    const MAX_LENGTH: usize = 300;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/.-_~[]+,;=&!$()".contains(&byte);
    text.len() <= MAX_LENGTH && text.bytes().all(is_plain)
}

/// Returns whether the path of an address, as it is written, may be or have a secret. The slashes
/// around it would hide one that is the whole path.
fn has_secret_path(text: &str) -> bool {
    let path = split_path(text).1.trim_matches('/');
    unless_secret(path) != path
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
fn url_of_dialect(row: &ProviderRow, url: &str) -> (String, Option<&'static str>) {
    const TO_TRY: &str =
        "LiteLLM may add another path here than Portcullis: try it with `portcullis doctor`";
    const MESSAGES: &str =
        "LiteLLM adds `/v1/messages` to this address; Portcullis adds `/messages`";
    let url = url.trim_end_matches('/');
    let without = |end: &str| url.strip_suffix(end).unwrap_or(url).to_owned();
    match row.ours {
        Ours::Dialect("azure") => {
            // Only the path counts: the host may begin with this word, too.
            let (origin, path) = split_path(url);
            let base = path.split("/openai").next().unwrap_or_default();
            (format!("{origin}{base}"), None)
        }
        Ours::Dialect("anthropic") if url.ends_with("/messages") => (without("/messages"), None),
        Ours::Dialect("anthropic") if url.ends_with("/v1") => (url.to_owned(), Some(MESSAGES)),
        Ours::Dialect("anthropic") => (format!("{url}/v1"), None),
        Ours::Dialect("gemini") if !url.ends_with("/v1") && !url.ends_with("/v1beta") => {
            (format!("{url}/v1beta"), Some(TO_TRY))
        }
        Ours::Dialect("cohere") => {
            let ends = ["/chat", "/rerank", "/embed"];
            let base = ends.iter().find_map(|end| url.strip_suffix(end));
            let base = base.unwrap_or(url).trim_end_matches("/v1");
            (format!("{}/v2", base.trim_end_matches("/v2")), Some(TO_TRY))
        }
        Ours::Dialect("ollama") => (without("/api"), None),
        Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
            (without("/chat/completions"), None)
        }
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
