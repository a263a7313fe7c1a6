//! Reads a signed token (RFC 7519, in the compact form of RFC 7515), and verifies it.
//!
//! A token is taken in one form only: three parts, base64url as it is written by everybody, objects
//! without double members, an algorithm of the list. All else is refused before any key is asked.
//! Keys and addresses in its header (`jwk`, `jku`, `x5c`, `x5u`) mean nothing here.
//!
//! **Invariant:** [`Claims`] that count come from [`Unverified::verify`]. Nothing here prints a
//! token, or a part of it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::base::secret::Secret;
use crate::identity::algorithm::Algorithm;
use crate::identity::json::{JsonFault, Members, parse_object};
use crate::identity::jwk::{Key, KeyId, KeySet};

/// The most bytes of a token.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;
/// The most keys that are tried for a token. Strangers can ask for it, and each try costs 30 to
/// 110 µs (1.4 ms on the curve P-384). A token that names its key needs one; an issuer whose tokens
/// name none has two or three keys, while it changes them.
pub const MAX_TRIED_KEYS: usize = 4;

/// A token that is well formed. Nothing says yet that it is genuine.
pub struct Unverified {
    text: Secret,
    /// The length of what is signed: the first two parts, and the dot between them.
    signed_length: usize,
    signature: Zeroizing<Vec<u8>>,
    algorithm: Algorithm,
    kid: Option<String>,
    claims: Claims,
}

/// What a token says.
#[derive(Clone, PartialEq)]
pub struct Claims {
    /// The type that its header has (`typ`).
    pub declared_type: Option<String>,
    /// The claims by their names.
    pub members: Members,
}

/// A token whose signature is of the issuer.
#[derive(Debug, Clone, Copy)]
pub struct Verified<'t> {
    /// The key that signed it.
    pub key: KeyId,
    /// What it says.
    pub claims: &'t Claims,
}

/// Why a text is no token that is read here. It quotes nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// More than [`MAX_TOKEN_BYTES`].
    TooLong,
    /// Not three parts between dots.
    Parts,
    /// Five parts: an encrypted token.
    Encrypted,
    /// A part is not base64url as it should be written.
    Base64(Part),
    /// A part is no object.
    Json(Part, JsonFault),
    /// A member that is read has another type than it must have.
    Member(&'static str),
    /// It is not signed, or with a shared secret, or in a way that is not known.
    Algorithm,
    /// It has extensions that must be understood (`crit`), and none is.
    Critical,
    /// A token is nested in it (`cty`), or it is compressed (`zip`), or not base64url (`b64`).
    Nested,
}

/// A part of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first: how it is signed.
    Header,
    /// The second: what is signed.
    Claims,
    /// The third.
    Signature,
}

/// Why a well-formed token is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotVerified {
    /// The key that it names is not in the set, or it names none and no key that fits has signed
    /// it. A newer set may have the key.
    UnknownKey,
    /// The key that it names has not signed it.
    BadSignature,
    /// No key, or not the one that it names, is for its algorithm.
    AlgorithmMismatch,
    /// More than [`MAX_TRIED_KEYS`] keys may have signed it. None is tried.
    TooManyKeys,
}

/// Returns whether a text has the form of a token, so that it can be said to be none that counts.
pub fn looks_like_token(text: &[u8]) -> bool {
    // What begins with `{` begins with `e` in base64.
    text.first() == Some(&b'e')
        && text.len() <= MAX_TOKEN_BYTES
        && text.iter().filter(|byte| **byte == b'.').count() >= 2
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'='))
}

impl Unverified {
    /// Reads a token.
    pub fn parse(text: &[u8]) -> Result<Unverified, Malformed> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(Malformed::TooLong);
        }
        let mut parts = text.split(|byte| *byte == b'.');
        let (Some(header), Some(claims), Some(signature)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(Malformed::Parts);
        };
        match parts.count() {
            0 => {}
            2 => return Err(Malformed::Encrypted),
            _ => return Err(Malformed::Parts),
        }
        let signed_length = header.len() + 1 + claims.len();
        let header = read_part(header, Part::Header)?;
        let algorithm = check_header(&header)?;
        let claims = read_part(claims, Part::Claims)?;
        let signature = Zeroizing::new(decode_part(signature, Part::Signature)?);
        let text = std::str::from_utf8(text).map_err(|_| Malformed::Parts)?;
        Ok(Unverified {
            text: Secret::new(text),
            signed_length,
            signature,
            algorithm,
            kid: find_text(&header, "kid")?,
            claims: Claims {
                declared_type: find_text(&header, "typ")?,
                members: claims,
            },
        })
    }

    /// Returns whose token it claims to be: that says whose keys must verify it.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.members.get("iss").and_then(Value::as_str)
    }

    /// Returns how it claims to be signed.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the name of the key that it claims to be signed with.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Returns what it claims. Only for showing it to the operator who has it: nothing of this is
    /// known to be true.
    pub fn unverified_claims(&self) -> &Claims {
        &self.claims
    }

    /// Verifies the signature with the keys of the issuer.
    pub fn verify(&self, keys: &KeySet) -> Result<Verified<'_>, NotVerified> {
        let named: Vec<&Key> = keys
            .keys()
            .iter()
            .filter(|key| self.kid.is_none() || key.kid == self.kid)
            .collect();
        if named.is_empty() {
            return Err(NotVerified::UnknownKey);
        }
        let mut fitting = named.iter().filter(|key| key.fits(self.algorithm));
        match fitting.clone().count() {
            0 => return Err(NotVerified::AlgorithmMismatch),
            // What is tried must not depend on the order of the set.
            count if count > MAX_TRIED_KEYS => return Err(NotVerified::TooManyKeys),
            _ => {}
        }
        let signed = self.text.expose().as_bytes().get(..self.signed_length);
        let signed = signed.unwrap_or_default();
        let signer = fitting.find(|key| key.has_signed(self.algorithm, signed, &self.signature));
        match signer {
            Some(key) => Ok(Verified {
                key: key.id,
                claims: &self.claims,
            }),
            None if self.kid.is_none() => Err(NotVerified::UnknownKey),
            None => Err(NotVerified::BadSignature),
        }
    }
}

fn read_part(written: &[u8], part: Part) -> Result<Members, Malformed> {
    let text = Zeroizing::new(decode_part(written, part)?);
    parse_object(&text, MAX_TOKEN_BYTES).map_err(|fault| Malformed::Json(part, fault))
}

/// Decodes base64url without padding. Bits that no byte needs must be zero: one signed text has one
/// form.
fn decode_part(written: &[u8], part: Part) -> Result<Vec<u8>, Malformed> {
    let decoded = URL_SAFE_NO_PAD.decode(written);
    decoded.map_err(|_| Malformed::Base64(part))
}

/// Requires that the header asks for nothing that is not done here.
fn check_header(header: &Members) -> Result<Algorithm, Malformed> {
    if header.contains_key("crit") {
        return Err(Malformed::Critical);
    }
    if ["enc", "zip", "b64"]
        .iter()
        .any(|name| header.contains_key(*name))
        || find_text(header, "cty")?.is_some_and(|kind| is_same_type(&kind, "JWT"))
    {
        return Err(Malformed::Nested);
    }
    let algorithm = header.get("alg").and_then(Value::as_str);
    algorithm
        .and_then(Algorithm::find)
        .ok_or(Malformed::Algorithm)
}

fn find_text(header: &Members, name: &'static str) -> Result<Option<String>, Malformed> {
    match header.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Malformed::Member(name)),
    }
}

/// Returns whether two media types are the same: `application/` may be left out, and case does not
/// count (RFC 7515 §4.1.9).
pub fn is_same_type(left: &str, right: &str) -> bool {
    strip_application(left).eq_ignore_ascii_case(strip_application(right))
}

fn strip_application(kind: &str) -> &str {
    const PREFIX: &str = "application/";
    match kind.split_at_checked(PREFIX.len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case(PREFIX) => rest,
        Some(_) | None => kind,
    }
}

impl Malformed {
    /// Returns a word for counts and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Malformed::Algorithm => "algorithm",
            Malformed::TooLong
            | Malformed::Parts
            | Malformed::Encrypted
            | Malformed::Base64(_)
            | Malformed::Json(..)
            | Malformed::Member(_)
            | Malformed::Critical
            | Malformed::Nested => "malformed",
        }
    }
}

impl NotVerified {
    /// Returns a word for counts and logs.
    pub fn reason(self) -> &'static str {
        match self {
            NotVerified::UnknownKey => "unknown_key",
            NotVerified::BadSignature => "signature",
            NotVerified::AlgorithmMismatch => "algorithm",
            NotVerified::TooManyKeys => "too_many_keys",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Header => "header",
            Part::Claims => "payload",
            Part::Signature => "signature",
        })
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::TooLong => write!(f, "it has more than {MAX_TOKEN_BYTES} bytes"),
            Malformed::Parts => f.write_str("it has not three parts between dots"),
            Malformed::Encrypted => f.write_str("it is encrypted, and only signed ones are taken"),
            Malformed::Base64(part) => write!(f, "its {part} is not base64url without padding"),
            Malformed::Json(part, fault) => write!(f, "its {part} {fault}"),
            Malformed::Member(name) => write!(f, "`{name}` of its header is no text"),
            Malformed::Algorithm => f.write_str("its `alg` is none that is taken"),
            Malformed::Critical => f.write_str("its header has `crit`, and no extension is known"),
            Malformed::Nested => {
                f.write_str("its header has `cty: JWT`, `enc`, `zip` or `b64`, which are not taken")
            }
        }
    }
}

impl fmt::Display for NotVerified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotVerified::UnknownKey => "none of the issuer's keys that are known has signed it",
            NotVerified::BadSignature => "the key that it names has not signed it",
            NotVerified::AlgorithmMismatch => "its `alg` does not fit the issuer's key",
            NotVerified::TooManyKeys => {
                "it names no key of its own, and more than four of the issuer's may have signed it"
            }
        })
    }
}

impl fmt::Debug for Unverified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[claims]")
    }
}

#[cfg(test)]
mod tests;
