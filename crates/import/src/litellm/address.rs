//! The address of an account: LiteLLM adds other paths to it than Portcullis.

use std::net::IpAddr;

use super::draft::Draft;
use super::params::{ENVIRON, Params, World};
use super::provider::{Ours, ProviderRow};
use crate::notes::{Finding, Grade};
use dialects::address::private_ip;
use portcullis::base::problem::unless_secret;

/// Finds the address, as the account's dialect writes it.
pub(super) fn find_address(
    row: &'static ProviderRow,
    params: &mut Params<'_>,
    world: &World<'_>,
    draft: &mut Draft,
) -> Result<Option<String>, Box<Finding>> {
    let written = match row.ours {
        Ours::Dialect("bedrock") => params
            .take("aws_bedrock_runtime_endpoint")
            .or_else(|| params.take("api_base")),
        Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
            let base_url = params.take("base_url");
            params.take("api_base").or(base_url)
        }
    };
    let (text, spot) = match &written {
        Some(spot) => {
            if spot.text() == Some("") {
                return Ok(None);
            }
            let text = world
                .plain(spot)
                .map_err(|unread| Box::new(unread.leaves_out(spot)))?;
            (text, Some(spot))
        }
        None => match row.bases.iter().find_map(|name| world.variable(name)) {
            Some(text) => (text, None),
            None => return Ok(None),
        },
    };
    let (ours, differs) = match usable_text(&text) {
        Some(url) => in_dialect(row, url),
        None => {
            const MESSAGE: &str = "is no address that can be used (https://HOST/PATH, without a user name, a query or a placeholder): the entry is left out";
            let params = spot.cloned().unwrap_or_else(|| params.spot.clone());
            return Err(Box::new(params.finding(Grade::Manual, "", MESSAGE)));
        }
    };
    if let Some(spot) = spot {
        let from = spot.text().is_some_and(|text| text.starts_with(ENVIRON));
        let (grade, message) = match (differs, from) {
            (Some(differs), _) => (Grade::Approximate, differs),
            (None, true) => (
                Grade::Exact,
                "the address that the environment has now is written",
            ),
            (None, false) => (Grade::Exact, ""),
        };
        draft.note(spot, grade, message);
    }
    Ok(Some(ours))
}

/// Returns the address if it can be one of ours. Anything else is not repeated: it may be a secret.
fn usable_text(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let is_plain = text.len() <= 300
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"@?#<>{}\"'\\`|^%*".contains(&b));
    let uri: Option<http::Uri> = text.parse().ok();
    let has_host = uri
        .as_ref()
        .and_then(http::Uri::host)
        .is_some_and(|host| !host.is_empty());
    let path = rest
        .split_once('/')
        .map(|(_, path)| path.trim_end_matches('/'))
        .unwrap_or_default();
    let path_is_plain =
        path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    // A part of a path may be a secret.
    (is_web && is_plain && has_host && path_is_plain && unless_secret(path) == path).then_some(text)
}

/// Turns LiteLLM's form of an address into ours. The second value says what is not sure.
fn in_dialect(row: &ProviderRow, url: &str) -> (String, Option<&'static str>) {
    const TO_TRY: &str = "LiteLLM adds another path here than Portcullis may: try it with `portcullis doctor` or one request";
    let url = url.trim_end_matches('/');
    let cut = |end: &str| url.strip_suffix(end).unwrap_or(url);
    match row.ours {
        Ours::Dialect("azure") => {
            // Only the path is looked at: the host may begin with this word, too.
            let path = url.find("://").map_or(0, |spot| spot + 3);
            let path = url
                .get(path..)
                .and_then(|rest| rest.find('/'))
                .map_or(url.len(), |spot| path + spot);
            let end = url
                .get(path..)
                .and_then(|rest| rest.find("/openai"))
                .map_or(url.len(), |spot| path + spot);
            (url.get(..end).unwrap_or(url).to_owned(), None)
        }
        Ours::Dialect("anthropic") => match url.strip_suffix("/messages") {
            Some(base) => (base.to_owned(), None),
            None if url.ends_with("/v1") => (
                url.to_owned(),
                Some("LiteLLM adds `/v1/messages` to this address; Portcullis adds `/messages`"),
            ),
            None => (format!("{url}/v1"), None),
        },
        Ours::Dialect("gemini") if !url.ends_with("/v1") && !url.ends_with("/v1beta") => {
            (format!("{url}/v1beta"), Some(TO_TRY))
        }
        Ours::Dialect("cohere") => {
            let base = url
                .strip_suffix("/chat")
                .or_else(|| url.strip_suffix("/rerank"))
                .or_else(|| url.strip_suffix("/embed"));
            let base = base
                .unwrap_or(url)
                .trim_end_matches("/v1")
                .trim_end_matches("/v2");
            (format!("{base}/v2"), Some(TO_TRY))
        }
        Ours::Dialect("ollama") => (cut("/api").to_owned(), None),
        Ours::Preset(_) | Ours::Dialect(_) | Ours::Server(_) => {
            (cut("/chat/completions").to_owned(), None)
        }
    }
}

/// Returns whether an address is plain http: to a host that may be public.
pub(super) fn is_open(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let host = rest.split('/').next().unwrap_or_default();
    let name = if host.starts_with('[') {
        host.split(']')
            .next()
            .unwrap_or_default()
            .trim_start_matches('[')
    } else {
        host.split(':').next().unwrap_or_default()
    };
    !name.eq_ignore_ascii_case("localhost") && !name.parse::<IpAddr>().is_ok_and(private_ip)
}

/// Makes a part of an account's name out of a host.
pub(super) fn host_label(url: &str) -> String {
    let host = url
        .split("://")
        .nth(1)
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default();
    let is_address = host.parse::<std::net::SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok();
    let label = if is_address {
        host
    } else {
        host.split('.').next().unwrap_or_default()
    };
    super::names::entry_name(label, 40).unwrap_or_else(|| "server".to_owned())
}
