//! [`Seals`] close what an upstream must get back into texts that callers carry, and open them when
//! they come back: a model's thoughts and their signatures.
//!
//! A sealed text is authenticated encryption (AES-256-GCM) over a version, the caller, the time,
//! the family of the model, the boundary and the thoughts. The boundary is the account's address
//! and credential: at another one the thoughts mean nothing. Each text has a key of its own, made
//! from a salt that is a keyed hash of all that is sealed. So no nonce comes twice, and what is
//! sealed twice for one answer becomes the same text: some formats say a thought several times.
//!
//! **Invariant:** a text that was changed, forged, sealed for another caller or long ago opens to
//! nothing, and the answer does not say which of these it was.

use crate::base::calendar;
use crate::base::secret::Secret;
use crate::catalog::Account;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use dialects::Family;
use dialects::neutral::Thought;
use dialects::neutral::answer::Kept;
use dialects::neutral::seal::{MARK, MAX_SEALED_BYTES, Seal, sealed_in};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The time after which a sealed text is of no use, in milliseconds.
const KEPT_FOR: u64 = 30 * calendar::DAY;
/// The most bytes that are sealed into one text.
const MAX_PLAIN_BYTES: usize = 1 << 20;
/// The bytes of the salt.
const SALT_BYTES: usize = 16;

/// The keys that seal and open.
pub struct Seals {
    /// The first key seals, and all open.
    keys: Vec<hmac::Key>,
}

/// The content of one sealed text.
#[derive(Serialize, Deserialize)]
struct SealedThoughts {
    /// When it was sealed, in milliseconds of Unix time.
    #[serde(rename = "at")]
    sealed_at: u64,
    family: String,
    boundary: String,
    call: String,
    thoughts: Vec<WrittenThought>,
}

/// A thought as it is written: text, signature, redacted data, and whether it is a call's.
pub type WrittenThought = (String, Option<String>, Option<String>, bool);

/// Returns a thought as it is written.
pub fn flatten_thought(thought: &Thought<'_>) -> WrittenThought {
    let owned = |text: &str| text.to_owned();
    let Thought {
        text,
        signature,
        redacted,
        of_call,
    } = thought;
    (
        owned(text),
        signature.as_deref().map(owned),
        redacted.as_deref().map(owned),
        *of_call,
    )
}

/// Returns the thought that was written.
pub fn restore_thought(written: WrittenThought) -> Thought<'static> {
    let (text, signature, redacted, of_call) = written;
    Thought {
        text: text.into(),
        signature: signature.map(Into::into),
        redacted: redacted.map(Into::into),
        of_call,
    }
}

impl Seals {
    /// Makes the seals of a process. Without a key they have one that ends with the process.
    pub fn new(secrets: &[Secret]) -> Result<Seals, String> {
        let mut keys: Vec<_> = secrets
            .iter()
            .map(|key| hmac::Key::new(HMAC_SHA256, key.expose().as_bytes()))
            .collect();
        if keys.is_empty() {
            let key = hmac::Key::generate(HMAC_SHA256, &SystemRandom::new())
                .map_err(|_| "the system gives no random bytes")?;
            keys.push(key);
        }
        Ok(Seals { keys })
    }

    /// Returns the boundary of the newest thoughts in a body that were sealed for this caller.
    pub fn newest_boundary(&self, caller: &str, body: &[u8]) -> Option<String> {
        let now = calendar::now_millis();
        sealed_in(body).find_map(|text| Some(self.open(caller, &text, now)?.boundary))
    }

    /// Seals a text for somebody, for a server that both share: its time is not revealed.
    pub fn seal_text(&self, owner: &str, text: &[u8]) -> Option<String> {
        self.seal_bytes(owner, text.to_vec())
    }

    /// Opens what was closed for somebody.
    pub fn open_text(&self, owner: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let sealed = std::str::from_utf8(sealed).ok()?;
        self.open_bytes(owner, sealed, |plain| Some(plain.trim_ascii_end().to_vec()))
    }

    fn seal(&self, caller: &str, sealed: &SealedThoughts) -> Option<String> {
        self.seal_bytes(caller, serde_json::to_vec(sealed).ok()?)
    }

    fn seal_bytes(&self, caller: &str, mut plain: Vec<u8>) -> Option<String> {
        if plain.len() > MAX_PLAIN_BYTES {
            return None;
        }
        // Base64 of it then has no padding, which programs write or leave out.
        while !(plain.len() + SALT_BYTES + AES_256_GCM.tag_len()).is_multiple_of(3) {
            plain.push(b' ');
        }
        let master = self.keys.first()?;
        let salt = derive_salt(master, caller, &plain);
        let salt = salt.as_ref().get(..SALT_BYTES)?;
        derive_key(master, salt)?
            .seal_in_place_append_tag(zero_nonce(), authenticated_data(caller), &mut plain)
            .ok()?;
        let mut text = MARK.to_owned();
        BASE64.encode_string([salt, &plain].concat(), &mut text);
        Some(text)
    }

    fn open(&self, caller: &str, text: &str, now: u64) -> Option<SealedThoughts> {
        let sealed: SealedThoughts =
            self.open_bytes(caller, text, |plain| serde_json::from_slice(plain).ok())?;
        (now.abs_diff(sealed.sealed_at) < KEPT_FOR).then_some(sealed)
    }

    /// Opens a text with the first key that does, and reads it.
    fn open_bytes<T>(
        &self,
        caller: &str,
        text: &str,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let text = text
            .trim()
            .strip_prefix(MARK)
            .filter(|text| text.len() <= MAX_SEALED_BYTES)?;
        // Some programs write the other alphabet of base64.
        let bytes = BASE64
            .decode(text.replace('-', "+").replace('_', "/"))
            .ok()?;
        let (salt, closed) = bytes.split_at_checked(SALT_BYTES)?;
        self.keys.iter().find_map(|master| {
            let mut closed = closed.to_vec();
            let plain = derive_key(master, salt)?
                .open_in_place(zero_nonce(), authenticated_data(caller), &mut closed)
                .ok()?;
            read(plain)
        })
    }
}

/// Returns the salt of one text. It is never a hash of as few bytes as [`derive_key`] is.
fn derive_salt(master: &hmac::Key, caller: &str, plain: &[u8]) -> hmac::Tag {
    let mut all = hmac::Context::with_key(master);
    all.update(&(caller.len() as u64).to_be_bytes());
    all.update(caller.as_bytes());
    all.update(plain);
    all.sign()
}

/// Returns the key of one text.
fn derive_key(master: &hmac::Key, salt: &[u8]) -> Option<LessSafeKey> {
    let bytes = hmac::sign(master, salt);
    UnboundKey::new(&AES_256_GCM, bytes.as_ref())
        .ok()
        .map(LessSafeKey::new)
}

/// Returns the nonce, which is always the same: no key is used twice.
fn zero_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Returns what is authenticated besides the text itself.
fn authenticated_data(caller: &str) -> Aad<String> {
    Aad::from(format!("{MARK} {caller}"))
}

/// Seals and opens for one caller and one account.
pub struct AccountSeal {
    seals: Arc<Seals>,
    caller: Arc<str>,
    family: Family,
    boundary: Arc<str>,
    /// When it was made, in milliseconds of Unix time. It is used for one request or one answer.
    made_at: u64,
}

impl AccountSeal {
    /// Returns the seal of a caller's thoughts of this family at an account.
    pub fn new(
        seals: &Arc<Seals>,
        caller: &Arc<str>,
        family: Family,
        account: &Account,
    ) -> AccountSeal {
        let (seals, caller) = (seals.clone(), caller.clone());
        AccountSeal {
            seals,
            caller,
            family,
            boundary: account.boundary().clone(),
            made_at: calendar::now_millis(),
        }
    }
}

impl Seal for AccountSeal {
    fn seal(&self, kept: &Kept) -> Option<String> {
        let sealed = SealedThoughts {
            sealed_at: self.made_at,
            family: self.family.name().to_owned(),
            boundary: self.boundary.to_string(),
            call: kept.call.clone(),
            thoughts: kept.thoughts.iter().map(flatten_thought).collect(),
        };
        self.seals.seal(&self.caller, &sealed)
    }

    fn signature(&self) -> Option<&'static str> {
        (self.family == Family::Demo).then_some("demo")
    }

    fn open(&self, text: &str) -> Option<Kept> {
        let sealed = self.seals.open(&self.caller, text, self.made_at)?;
        let is_own = sealed.family == self.family.name() && *sealed.boundary == *self.boundary;
        let thoughts = sealed.thoughts.into_iter().map(restore_thought).collect();
        is_own.then_some(Kept {
            call: sealed.call,
            thoughts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn seals(keys: &[&str]) -> Seals {
        Seals::new(&keys.iter().map(|key| Secret::new(*key)).collect::<Vec<_>>()).unwrap()
    }

    fn thoughts(text: &str) -> SealedThoughts {
        let thought = Thought {
            text: text.to_owned().into(),
            signature: Some("sig==".into()),
            ..Thought::default()
        };
        let (family, boundary, call) = ("claude".to_owned(), "b".to_owned(), "call_1".to_owned());
        SealedThoughts {
            sealed_at: NOW,
            family,
            boundary,
            call,
            thoughts: vec![flatten_thought(&thought)],
        }
    }

    fn opened(seals: &Seals, caller: &str, text: &str, now: u64) -> Option<Vec<Thought<'static>>> {
        Some(
            seals
                .open(caller, text, now)?
                .thoughts
                .into_iter()
                .map(restore_thought)
                .collect(),
        )
    }

    #[test]
    fn sealed_things_open_for_their_callers_keys() {
        let (old, both, new) = (seals(&["old"]), seals(&["new", "old"]), seals(&["new"]));
        let text = old.seal("acme", &thoughts("hm")).unwrap();
        assert!(text.starts_with(MARK) && text.len() % 4 == 0, "{text}");
        assert!(!text.contains("hm"));
        let found = opened(&old, "acme", &text, NOW + KEPT_FOR - 1).unwrap();
        assert_eq!(
            (&*found[0].text, found[0].signature.as_deref()),
            ("hm", Some("sig=="))
        );
        assert_eq!(opened(&both, "acme", &text, NOW), Some(found.clone()));
        assert_eq!(
            opened(&both, "acme", &format!(" \n{text}\t"), NOW),
            Some(found.clone()),
            "blanks are no part of it"
        );
        let by_first = both.seal("acme", &thoughts("hm")).unwrap();
        assert_eq!(opened(&new, "acme", &by_first, NOW), Some(found));
        for (seals, caller, now) in [
            (&new, "acme", NOW),
            (&old, "other", NOW),
            (&old, "", NOW),
            (&old, "acme", NOW + KEPT_FOR),
        ] {
            assert_eq!(opened(seals, caller, &text, now), None, "{caller} {now}");
        }
        let (one, other) = (seals(&[]), seals(&[]));
        let text = one.seal("acme", &thoughts("hm")).unwrap();
        assert!(
            opened(&one, "acme", &text, NOW).is_some()
                && opened(&other, "acme", &text, NOW).is_none()
        );
    }

    #[test]
    fn only_one_answers_equal_thoughts_are_one_text() {
        let seals = seals(&["key"]);
        let sealed = |caller: &str, text: &str, at: u64| {
            let text = seals
                .seal(
                    caller,
                    &SealedThoughts {
                        sealed_at: at,
                        ..thoughts(text)
                    },
                )
                .unwrap();
            BASE64.decode(text.strip_prefix(MARK).unwrap()).unwrap()[..SALT_BYTES].to_vec()
        };
        let first = sealed("acme", "hm", NOW);
        assert_eq!(first, sealed("acme", "hm", NOW));
        for other in [
            sealed("acme", "hn", NOW),
            sealed("acm", "hm", NOW),
            sealed("acme", "hm", NOW + 1),
        ] {
            assert_ne!(first, other, "the salt, and so the key");
        }
    }

    #[test]
    fn a_changed_or_forged_text_opens_to_nothing() {
        let seals = seals(&["key"]);
        let text = seals.seal("acme", &thoughts("hm")).unwrap();
        let bytes = BASE64.decode(&text).unwrap();
        for at in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[at / 8] ^= 1 << (at % 8);
            assert_eq!(
                opened(&seals, "acme", &BASE64.encode(changed), NOW),
                None,
                "bit {at}"
            );
        }
        for end in 0..text.len() {
            assert_eq!(opened(&seals, "acme", &text[..end], NOW), None, "{end}");
        }
        for text in [
            MARK.to_owned(),
            format!("{MARK}!"),
            format!("{text}AAAA"),
            format!("{MARK}{}", "A".repeat(10 << 20)),
        ] {
            assert_eq!(opened(&seals, "acme", &text, NOW), None);
        }
    }

    #[test]
    fn what_was_closed_for_somebody_opens_for_nobody_else() {
        let (one, other) = (seals(&["key"]), seals(&["other", "key"]));
        let sealed = one
            .seal_text("item acme/prod msg_1", br#"{"id":"msg_1"}"#)
            .unwrap();
        assert!(!sealed.contains("msg_1"), "{sealed}");
        let reopened = other.open_text("item acme/prod msg_1", sealed.as_bytes());
        assert_eq!(reopened.as_deref(), Some(&br#"{"id":"msg_1"}"#[..]));
        assert_eq!(
            one.open_text("item other/prod msg_1", sealed.as_bytes()),
            None
        );
        assert_eq!(
            seals(&["new"]).open_text("item acme/prod msg_1", sealed.as_bytes()),
            None
        );
    }

    #[test]
    fn what_is_too_long_is_not_sealed() {
        let seals = seals(&["key"]);
        assert!(
            seals
                .seal("acme", &thoughts(&"x".repeat(MAX_PLAIN_BYTES)))
                .is_none()
        );
        let long = seals
            .seal("acme", &thoughts(&"x".repeat(MAX_PLAIN_BYTES - 200)))
            .unwrap();
        assert_eq!(
            opened(&seals, "acme", &long, NOW).unwrap()[0].text.len(),
            MAX_PLAIN_BYTES - 200
        );
    }

    #[test]
    fn the_other_alphabet_and_escaped_slashes_are_read_too() {
        let seals = seals(&["key"]);
        let tries = (0..).map(|at| {
            seals
                .seal(
                    "acme",
                    &SealedThoughts {
                        sealed_at: NOW + at,
                        ..thoughts("hm")
                    },
                )
                .unwrap()
        });
        let text = tries
            .into_iter()
            .find(|text| text.contains('/') && text.contains('+'))
            .unwrap();
        assert!(
            opened(
                &seals,
                "acme",
                &text.replace('+', "-").replace('/', "_"),
                NOW
            )
            .is_some()
        );
        let sealed = SealedThoughts {
            sealed_at: calendar::now_millis(),
            ..thoughts("hm")
        };
        let text = (0..).map(|at| {
            seals
                .seal(
                    "acme",
                    &SealedThoughts {
                        sealed_at: sealed.sealed_at - at,
                        ..thoughts("hm")
                    },
                )
                .unwrap()
        });
        let text = text
            .into_iter()
            .find(|text| text.contains('/') && text.contains('+'))
            .unwrap();
        let forged = format!("{MARK}AAAA");
        for body in [
            format!(r#"{{"signature":"{text}"}}"#),
            format!(r#"{{"signature":"{text}","data":"{forged}"}}"#),
            format!(
                r#"{{"signature":"{}"}}"#,
                text.replace('/', "\\/").replace('+', "\\u002B")
            ),
        ] {
            assert_eq!(
                seals.newest_boundary("acme", body.as_bytes()).as_deref(),
                Some("b"),
                "{body}"
            );
            assert_eq!(seals.newest_boundary("other", body.as_bytes()), None);
        }
        assert_eq!(
            seals.newest_boundary("acme", forged.repeat(9).as_bytes()),
            None
        );
    }

    #[test]
    fn a_boundary_is_an_address_and_a_credential() {
        let text = "accounts:\n  a: {dialect: anthropic, key: one}\n  b: {dialect: anthropic, key: one}\n  \
                    c: {dialect: anthropic, key: two}\n  d: {dialect: anthropic, key: one, base_url: 'https://x.example/v1'}\n\
                    models: {}\ncallers: {}\n";
        let files = [("catalog.yaml".to_owned(), text.to_owned())];
        let catalog =
            crate::catalog::resolve::resolve_catalog(&files, &mut |_| Err(String::new())).unwrap();
        let found: Vec<_> = catalog
            .accounts()
            .iter()
            .map(|account| account.boundary())
            .collect();
        assert!(
            found[0] == found[1]
                && found[0] != found[2]
                && found[0] != found[3]
                && found[2] != found[3]
        );
        assert!(found.iter().all(|hash| hash.len() == 32));
    }
}
