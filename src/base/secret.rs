//! A [`Secret`] is a text that cannot be printed: it has no `Display` and no `Serialize`, its
//! `Debug` is redacted, and it is wiped from memory when dropped.
//!
//! Code that needs the text calls [`Secret::expose`], so a search for that word finds every place
//! where a secret is read.

use std::borrow::Cow;
use std::fmt;

use zeroize::Zeroizing;

/// A credential in clear text.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Makes a secret of a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Cuts the values of all parameters `key` out of a text, such as a path that a client has put
/// together wrongly: no line may show them.
pub fn cut_keys(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(start) = value_of_key(rest) {
        let (before, value) = rest.split_at(start);
        let end = value.find(|c: char| c == '&' || c == '/' || c.is_whitespace()).unwrap_or(value.len());
        shown.push_str(before);
        shown.push_str("[cut]");
        rest = value.split_at(end).1;
    }
    if shown.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(shown + rest) }
}

/// Returns where the value of the first parameter `key` begins.
fn value_of_key(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    ["key=", "key%3d"].into_iter().filter_map(|name| Some(lower.find(name)? + name.len())).min()
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::{Secret, cut_keys};

    #[test]
    fn no_key_stays_in_a_path() {
        for (path, shown) in [
            ("/v1/models", "/v1/models"),
            ("/v1/models&key=sk-1", "/v1/models&key=[cut]"),
            ("/v1beta/models%3FKEY%3Dsk-1&a=b", "/v1beta/models%3FKEY%3D[cut]&a=b"),
            ("/key=a/key=b/x", "/key=[cut]/key=[cut]/x"),
            ("api_key=s", "api_key=[cut]"),
        ] {
            assert_eq!(cut_keys(path), shown);
        }
    }

    #[test]
    fn s05_a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("sk-live");
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "[secret] Some(\n    [secret],\n)");
        assert_eq!(secret.expose(), "sk-live");
    }
}
