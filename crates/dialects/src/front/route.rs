//! The paths of requests. Clients make some of them from a base URL that ends with a slash, or has
//! no version: so a path may have too many slashes, and no `/v1`.

use super::ModelsAsked;
use crate::wire::percent;

/// What a path says of a request, where the format says it there and not in the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// The model's id, decoded. `None` if the body says which model is asked for, and whether for a
    /// stream.
    pub model: Option<String>,
    /// Whether a stream is asked for.
    pub stream: bool,
}

/// Routes a path that says nothing.
pub(super) fn fixed(path: &str, wanted: &str) -> Option<Asked> {
    after(path, wanted)?.trim_end_matches('/').is_empty().then(Asked::default)
}

/// Reads what a path without its version asks of the models.
pub(super) fn listed(path: &str) -> Option<ModelsAsked> {
    let rest = path.strip_prefix("models")?;
    match skip_slashes(rest) {
        None => rest.is_empty().then_some(ModelsAsked::List),
        // Slashes between are a part of the id.
        Some(id) => match id.trim_end_matches('/') {
            "" => Some(ModelsAsked::List),
            id => String::from_utf8(percent::decode(id)?).ok().map(ModelsAsked::One),
        },
    }
}

/// Returns what follows this path: nothing, or a slash and more.
pub(super) fn after<'p>(path: &'p str, wanted: &str) -> Option<&'p str> {
    let path = skip_slashes(path)?;
    let mut rest = under(path, "v1").unwrap_or(path);
    for (number, part) in wanted.split('/').enumerate() {
        rest = if number == 0 { rest } else { skip_slashes(rest)? }.strip_prefix(part)?;
    }
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns the path below a first part.
pub(super) fn under<'p>(path: &'p str, part: &str) -> Option<&'p str> {
    path.strip_prefix(part).and_then(skip_slashes)
}

/// Returns the text after one slash or more.
pub(super) fn skip_slashes(path: &str) -> Option<&str> {
    path.starts_with('/').then(|| path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_path_may_have_slashes_too_many_and_no_version() {
        for path in ["/v1/chat/completions", "/chat/completions", "//v1//chat//completions//"] {
            assert_eq!(fixed(path, "chat/completions"), Some(Asked::default()), "{path}");
        }
        for path in ["", "chat/completions", "/v1chat/completions", "/v1/chatcompletions", "/v2/chat/completions"] {
            assert_eq!(after(path, "chat/completions"), None, "{path}");
        }
        assert_eq!(fixed("/v1/messages/batches", "messages"), None);
        assert_eq!(after("/v1/messages/batches", "messages"), Some("/batches"));
        assert_eq!(after("/v1/messagesx", "messages"), None);
    }
}
