//! A secret that cannot be printed: no `Display`, no `Serialize`, a redacted `Debug`, wiped when
//! dropped.
//!
//! Whoever needs the text says so with [`Secret::expose`], so that a search for that word finds
//! every place where a secret leaves its box.

use std::fmt;

use zeroize::Zeroizing;

/// A credential in clear text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Boxes a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
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
        assert_eq!(format!("{secret:?} {:#?}", Some(&secret)), "[secret] Some(\n    [secret],\n)");
        assert_eq!(secret.expose(), "sk-live");
    }
}
