//! The web pages whose scripts may call the gateway: `cors.origins`.

use super::raw;
use crate::conf::scribe::Scribe;
use crate::conf::yaml::read::list_items;

/// Resolves the list of origins.
pub(super) fn resolve_origins(raw: &raw::Cors, section: &Scribe<'_, '_>) -> Vec<String> {
    let list = section.key("origins");
    let mut origins = Vec::new();
    for (index, written) in list_items(raw.origins.as_ref()) {
        match parse_origin(written) {
            Some(origin) => origins.push(origin),
            None => list.index(index).note_problem_unquoted("must be \"*\" or an origin such as https://app.example.com, without a path and without a slash at its end",
            ),
        }
    }
    origins
}

/// Returns an origin as browsers write it: in lower case, and without a port that is the scheme's
/// default.
fn parse_origin(written: &str) -> Option<String> {
    if written == "*" {
        return Some("*".to_owned());
    }
    let lower = written.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://")?;
    let standard = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => return None,
    };
    let authority: http::uri::Authority = rest.parse().ok()?;
    if authority.as_str() != rest || rest.contains('@') || authority.host().is_empty() {
        return None;
    }
    Some(format!(
        "{scheme}://{}",
        rest.strip_suffix(standard).unwrap_or(rest)
    ))
}
