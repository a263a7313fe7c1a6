//! The paths of requests. Clients make some paths from a base URL that ends with a slash, or has no
//! version: so a path may have too many slashes, and no `/v1`. Azure's clients put `/openai` in
//! front of OpenAI's paths, and often the model.

use super::{Front, ModelsAsked};
use crate::neutral::{Endpoint, Servers, below_version};
use crate::wire::percent;

/// The model and the stream that a path asks for, where the format has them in the path and not in
/// the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathRequest {
    /// The model's id, decoded. `None` if the path names no model; then the body also decides about
    /// the stream.
    pub model: Option<String>,
    /// True if a stream is asked for.
    pub stream: bool,
}

/// The bytes at a path's end that the quick test compares: a slash and five more. They must lie in
/// the last part of each of our paths; the shortest is `edits`. In a shorter one, surplus slashes
/// would be refused.
const QUICK_TEST_BYTES: usize = 6;

/// Routes a fixed path, which names no model unless it is one of Azure's.
pub(super) fn route_fixed(path: &str, wanted: &'static str) -> Option<PathRequest> {
    // A quick test first, since most paths belong to other doors. It looks at no slash but the one
    // before the last part, so surplus slashes make no difference.
    let quick_end = wanted
        .get(wanted.len().saturating_sub(QUICK_TEST_BYTES)..)
        .unwrap_or(wanted);
    if !path.ends_with(quick_end) && !path.ends_with('/') {
        return None;
    }
    let wanted = bare_path(wanted);
    let is_whole_path =
        path_after(path, wanted).is_some_and(|rest| rest.trim_end_matches('/').is_empty());
    if is_whole_path {
        Some(PathRequest::default())
    } else {
        route_deployment(path, wanted)
    }
}

/// Returns whether callers at this path speak the format of a front door. All paths below a
/// conversation's path belong to its format.
pub(super) fn owns_path(front: &Front, path: &str) -> bool {
    front.paths.iter().any(|wanted| match front.only_endpoint {
        None => path_after(path, bare_path(wanted)).is_some(),
        Some(_) => route_fixed(path, wanted).is_some(),
    })
}

/// Returns a path without its version and the slash before it.
fn bare_path(path: &'static str) -> &'static str {
    let path = below_version(path);
    path.strip_prefix('/').unwrap_or(path)
}

/// Returns whether these servers have an endpoint at this path.
fn servers_have(servers: Servers, wanted: &str) -> bool {
    let mut endpoints = Endpoint::ALL.into_iter();
    endpoints.any(|endpoint| endpoint.is_at(servers) && bare_path(endpoint.path()) == wanted)
}

/// Routes `/openai/deployments/{model}/…`, which Azure's clients use. The model may have slashes.
fn route_deployment(path: &str, wanted: &str) -> Option<PathRequest> {
    let path = path_under(path_under(skip_slashes(path)?, "openai")?, "deployments")?;
    // Azure has only some endpoints below a deployment: those with a dated API version.
    if !servers_have(Servers::DatedAzure, wanted) {
        return None;
    }
    let model = path
        .trim_end_matches('/')
        .strip_suffix(wanted)?
        .strip_suffix('/')?
        .trim_end_matches('/');
    let model = String::from_utf8(percent::decode_text(model)?).ok()?;
    (!model.is_empty()).then_some(PathRequest {
        model: Some(model),
        stream: false,
    })
}

/// Returns a path without the slashes before it. Azure's `openai` is left out too, if OpenAI's
/// servers have the wanted path, or it is the list of models.
pub(super) fn without_azure<'p>(path: &'p str, wanted: &str) -> Option<&'p str> {
    let path = skip_slashes(path)?;
    if let Some(rest) = path_under(path, "openai") {
        let is_openais_path = wanted == "models" || servers_have(Servers::OpenAi, wanted);
        if is_openais_path {
            return Some(rest);
        }
    }
    Some(path)
}

/// Reads which models a path without its version asks for.
pub(super) fn route_models(path: &str) -> Option<ModelsAsked> {
    let rest = path.strip_prefix("models")?;
    match skip_slashes(rest) {
        None => rest.is_empty().then_some(ModelsAsked::List),
        // Slashes inside the id belong to it: `models/org/m`.
        Some(id) => match id.trim_end_matches('/') {
            "" => Some(ModelsAsked::List),
            id => String::from_utf8(percent::decode_text(id)?)
                .ok()
                .map(ModelsAsked::One),
        },
    }
}

/// Returns what follows the wanted path: nothing, or a slash and more. `wanted` is without `/v1`.
/// The path may have it, and more than one slash between its parts. Returns `None` if it is another
/// path.
pub(super) fn path_after<'p>(path: &'p str, wanted: &str) -> Option<&'p str> {
    let path = without_azure(path, wanted)?;
    let mut rest = path_under(path, "v1").unwrap_or(path);
    // Most paths belong to other doors, and the door's own paths have one slash between their
    // parts.
    if rest.as_bytes().first() != wanted.as_bytes().first() {
        return None;
    }
    if let Some(rest) = rest.strip_prefix(wanted) {
        return (rest.is_empty() || rest.starts_with('/')).then_some(rest);
    }
    // The parts one by one, with one slash or more between them.
    let mut parts = wanted.split('/');
    rest = rest.strip_prefix(parts.next()?)?;
    for part in parts {
        rest = skip_slashes(rest)?.strip_prefix(part)?;
    }
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns the path below its first part, if that is `part`.
pub(super) fn path_under<'p>(path: &'p str, part: &str) -> Option<&'p str> {
    path.strip_prefix(part).and_then(skip_slashes)
}

/// Returns the text after one slash or more.
pub(super) fn skip_slashes(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    // Most paths have one slash.
    Some(if rest.starts_with('/') {
        rest.trim_start_matches('/')
    } else {
        rest
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Returns the result of [`path_after`], computed part by part.
    fn after_each_part<'p>(path: &'p str, wanted: &str) -> Option<&'p str> {
        let path = without_azure(path, wanted)?;
        let mut rest = path_under(path, "v1").unwrap_or(path);
        let mut parts = wanted.split('/');
        rest = rest.strip_prefix(parts.next()?)?;
        for part in parts {
            rest = skip_slashes(rest)?.strip_prefix(part)?;
        }
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    proptest! {
        #[test]
        fn a_path_is_cut_as_if_part_by_part(
            parts in prop::collection::vec(
                select(vec!["/", "//", "v1", "openai", "chat", "completions", "messages", "count_tokens", "c", "x", "%2F"]),
                0..9,
            ),
            wanted in select(vec!["chat/completions", "completions", "messages", "messages/count_tokens", "v2/rerank"]),
        ) {
            let path = parts.concat();
            prop_assert_eq!(path_after(&path, wanted), after_each_part(&path, wanted), "{}", path);
        }
    }

    #[test]
    fn a_fixed_path_may_lack_version_or_double_slashes() {
        for path in [
            "/v1/chat/completions",
            "/chat/completions",
            "//v1//chat//completions//",
        ] {
            assert_eq!(
                route_fixed(path, "chat/completions"),
                Some(PathRequest::default()),
                "{path}"
            );
        }
        for path in [
            "",
            "chat/completions",
            "/v1chat/completions",
            "/v1/chatcompletions",
            "/v2/chat/completions",
        ] {
            assert_eq!(path_after(path, "chat/completions"), None, "{path}");
        }
        assert_eq!(route_fixed("/v1/messages/batches", "messages"), None);
        assert_eq!(
            path_after("/v1/messages/batches", "messages"),
            Some("/batches")
        );
        assert_eq!(path_after("/v1/messagesx", "messages"), None);
    }

    #[test]
    fn the_paths_of_azure_stand_for_those_of_openai() {
        let of = |model: &str| {
            Some(PathRequest {
                model: Some(model.to_owned()),
                stream: false,
            })
        };
        for (path, wanted, expected) in [
            (
                "/openai/v1/chat/completions",
                "chat/completions",
                Some(PathRequest::default()),
            ),
            (
                "/openai/responses",
                "responses",
                Some(PathRequest::default()),
            ),
            (
                "/openai/deployments/m/chat/completions",
                "chat/completions",
                of("m"),
            ),
            (
                "//openai//deployments/m//images/edits/",
                "images/edits",
                of("m"),
            ),
            (
                "/openai/deployments/org%2Fm%20x/embeddings",
                "embeddings",
                of("org/m x"),
            ),
            (
                "/openai/deployments/org/m/embeddings",
                "embeddings",
                of("org/m"),
            ),
            // The list is a closed one.
            ("/openai/deployments/m/responses", "responses", None),
            ("/openai/deployments/m/models", "models", None),
            ("/openai/v1/messages", "messages", None),
            ("/openai/v1/rerank", "rerank", None),
            ("/openai/deployments//embeddings", "embeddings", None),
            ("/openai/deployments/embeddings", "embeddings", None),
            ("/openai/deployments/m/v1/embeddings/x", "embeddings", None),
            ("/openai/deployments/%zz/embeddings", "embeddings", None),
            ("/openai/deployments/%ff/embeddings", "embeddings", None),
            ("/openaix/v1/embeddings", "embeddings", None),
            ("/v1/openai/embeddings", "embeddings", None),
            ("/openai/v1/openai/v1/embeddings", "embeddings", None),
        ] {
            assert_eq!(route_fixed(path, wanted), expected, "{path}");
        }
        assert_eq!(
            route_fixed("/openai/deployments/m/chat/completions", "completions"),
            of("m/chat"),
            "the doors' order decides"
        );
    }
}
