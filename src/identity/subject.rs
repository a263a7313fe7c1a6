//! A [`Subject`] is who has a token: a person, or a machine. It becomes the name of a key.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use ring::hmac;

use crate::base::hash::digest_text;

/// The most bytes of a subject.
pub const MAX_SUBJECT_BYTES: usize = 255;
/// The bytes of a hash that are shown: enough that no two subjects have the same.
const HASH_BYTES: usize = 16;

/// Who has a token, as the issuer names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject(Arc<str>);

impl Subject {
    /// Takes a text of 1 to 255 bytes without control characters.
    pub fn new(text: &str) -> Option<Subject> {
        let has_length = (1..=MAX_SUBJECT_BYTES).contains(&text.len());
        (has_length && !text.contains(char::is_control)).then(|| Subject(text.into()))
    }

    /// Returns the text of the claim.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the name of the subject's key: the identity, `:`, and the text in percent-encoding.
    /// No two subjects have the same name.
    pub fn key_name(&self, identity: &str) -> String {
        format!("{identity}:{}", Encoded(&self.0))
    }

    /// Returns the name of the subject's key where its text must not be shown. Whoever has no
    /// secret cannot find out the name of a subject that he knows.
    pub fn hash_name(&self, identity: &str, secret: &[u8; 32]) -> String {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        context.update(identity.as_bytes());
        // No name and no subject has this byte, so the two have one reading.
        context.update(&[0]);
        context.update(self.0.as_bytes());
        let hash = digest_text(context.sign().as_ref(), HASH_BYTES);
        format!("{identity}:{hash}")
    }
}

/// A text that is written in percent-encoding.
struct Encoded<'t>(&'t str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() || b"._@+-".contains(&byte) => {
                    f.write_char(char::from(byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_subject_becomes_the_name_of_a_key() {
        for (subject, expected) in [
            ("alice@acme.com", "okta:alice@acme.com"),
            ("a.b_c+d-e", "okta:a.b_c+d-e"),
            (
                "repo:acme/app:ref:refs/heads/main",
                "okta:repo%3Aacme%2Fapp%3Aref%3Arefs%2Fheads%2Fmain",
            ),
            ("100%", "okta:100%25"),
            ("auth0|5f7c", "okta:auth0%7C5f7c"),
            ("Zoë ", "okta:Zo%C3%AB%20"),
            ("~\"'`", "okta:%7E%22%27%60"),
        ] {
            let subject = Subject::new(subject).unwrap();
            assert_eq!(subject.key_name("okta"), expected);
        }
    }

    #[test]
    fn a_hashed_name_is_the_same_everywhere() {
        let alice = Subject::new("alice@acme.com").unwrap();
        let name = alice.hash_name("okta", &[7; 32]);
        // The first half of what this prints, with the 32 bytes of the key:
        // printf 'okta\0alice@acme.com' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707…
        assert_eq!(name, "okta:fed03a861190fbd534521e48f18dd075");
        let others = [
            alice.hash_name("okta", &[8; 32]),
            alice.hash_name("entra", &[7; 32]),
            Subject::new("bob@acme.com")
                .unwrap()
                .hash_name("okta", &[7; 32]),
        ];
        let hash = |name: &str| name.split_once(':').map(|parts| parts.1.to_owned());
        assert!(others.iter().all(|other| hash(other) != hash(&name)));
    }

    proptest! {
        #[test]
        fn no_two_subjects_have_one_name(one in ".{1,8}", other in "[%A-F0-9a:]{1,8}") {
            let name = |text: &str| Subject::new(text).map(|subject| subject.key_name("okta"));
            if let (Some(first), Some(second)) = (name(&one), name(&other)) {
                prop_assert_eq!(first == second, one == other);
                prop_assert_eq!(first.matches(':').count(), 1);
            }
        }
    }
}
