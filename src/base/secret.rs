//! A [`Secret`] is a text that cannot be printed: it has no `Display` and no `Serialize`, its
//! `Debug` is redacted, and it is wiped from memory when dropped.
//!
//! Code that needs the text calls [`Secret::expose`], so a search for that word finds every place
//! where a secret is read.

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
    use super::Secret;

    #[test]
    fn s05_a_secret_prints_nothing_of_itself() {
        let secret = Secret::new("sk-live");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "[secret] Some(\n    [secret],\n)"
        );
        assert_eq!(secret.expose(), "sk-live");
    }
}
