//! The public keys of an issuer: a [`KeySet`] is read from what the issuer publishes (a JWK set,
//! RFC 7517).
//!
//! A key that cannot verify tokens here is left out, with the reason: sets also hold keys for
//! encryption, and kinds that came later. A set of which nothing is left is an error.
//!
//! **Invariant:** a key in a set is public, has at least 112 bits of security, and verifies only
//! the algorithms that fit its kind.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::identity::algorithm::{Algorithm, KeyKind, Verifier};
use crate::identity::json::{Members, parse_object};

/// The most bytes of a set.
pub const MAX_SET_BYTES: usize = 256 * 1024;
/// The most keys of a set. Issuers publish two to ten.
pub const MAX_KEYS: usize = 100;

/// The keys of an issuer that can verify tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<Key>,
    left_out: Vec<LeftOut>,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The name by which tokens refer to it.
    pub kid: Option<String>,
    /// What it is, whatever its name.
    pub id: KeyId,
    /// The algorithms that it verifies.
    algorithms: Vec<Algorithm>,
    material: Material,
}

/// What tells a key from all others: the SHA-256 of its canonical members (RFC 7638). It stays when
/// the issuer names the key in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 32]);

/// A key of the set that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which key of the set it is, from one on.
    pub position: usize,
    /// The reason.
    pub reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    /// Both without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// An uncompressed point: the byte 4, and both coordinates.
    P256(Vec<u8>),
    /// As for P-256.
    P384(Vec<u8>),
    /// A key of 32 bytes.
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Reads a set, as an issuer publishes it. The error is for the operator.
    pub fn parse(text: &[u8]) -> Result<KeySet, String> {
        let mut members =
            parse_object(text, MAX_SET_BYTES).map_err(|fault| format!("the answer {fault}"))?;
        let Some(Value::Array(written)) = members.remove("keys") else {
            return Err("the answer is no set of keys: it has no list `keys`".to_owned());
        };
        if written.len() > MAX_KEYS {
            let count = written.len();
            return Err(format!(
                "the set has {count} keys, and at most {MAX_KEYS} are read"
            ));
        }
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for (index, key) in written.iter().enumerate() {
            match Key::read(key) {
                Ok(key) => keys.push(key),
                Err(reason) => left_out.push(LeftOut {
                    position: index + 1,
                    reason,
                }),
            }
        }
        if keys.is_empty() {
            let reasons: Vec<_> = left_out.iter().take(3).map(LeftOut::to_string).collect();
            let reasons = match reasons.is_empty() {
                true => "it is empty".to_owned(),
                false => reasons.join("; "),
            };
            return Err(format!("no key of the set can verify tokens: {reasons}"));
        }
        Ok(KeySet { keys, left_out })
    }

    /// Returns the keys, in the order of the set.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns the keys of the set that are not used.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns whether a key is in the set.
    pub fn has(&self, id: &KeyId) -> bool {
        self.keys.iter().any(|key| key.id == *id)
    }

    /// Lists the keys that were in an older set, and are not in this one: what they signed is no
    /// longer valid.
    pub fn gone_since<'o>(&self, older: &'o KeySet) -> impl Iterator<Item = KeyId> + use<'_, 'o> {
        let ids = older.keys.iter().map(|key| key.id);
        ids.filter(|id| !self.has(id))
    }
}

impl Key {
    fn read(written: &Value) -> Result<Key, &'static str> {
        let members = written.as_object().ok_or("it is no object")?;
        check_purpose(members)?;
        let material = Material::read(members)?;
        let kid = match members.get("kid") {
            None | Some(Value::Null) => None,
            Some(Value::String(kid)) => Some(kid.clone()),
            Some(_) => return Err("its `kid` is no text"),
        };
        let kind = material.kind();
        let algorithms = match members.get("alg") {
            None | Some(Value::Null) => Algorithm::ALL
                .into_iter()
                .filter(|algorithm| algorithm.key_kind() == kind)
                .collect(),
            Some(written) => {
                let algorithm = written.as_str().and_then(Algorithm::find);
                let fitting = algorithm.filter(|algorithm| algorithm.key_kind() == kind);
                vec![fitting.ok_or("its `alg` is no signature of this kind of key")?]
            }
        };
        Ok(Key {
            kid,
            id: material.id(),
            algorithms,
            material,
        })
    }

    /// Returns whether the key verifies signatures of this algorithm.
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithms.contains(&algorithm)
    }

    /// Returns the algorithms that the key verifies.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// Returns whether the message was signed with this key. A key that does not fit the algorithm
    /// has signed nothing.
    pub fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        self.fits(algorithm) && self.material.has_signed(algorithm, message, signature)
    }
}

impl Material {
    fn read(members: &Members) -> Result<Material, &'static str> {
        let curve = members.get("crv").and_then(Value::as_str);
        match (members.get("kty").and_then(Value::as_str), curve) {
            (Some("RSA"), _) => read_rsa(members),
            (Some("EC"), Some("P-256")) => Ok(Material::P256(read_point(members, 32)?)),
            (Some("EC"), Some("P-384")) => Ok(Material::P384(read_point(members, 48)?)),
            (Some("OKP"), Some("Ed25519")) => {
                Ok(Material::Ed25519(read_coordinate(members, "x", 32)?))
            }
            (Some("EC" | "OKP"), _) => Err("its curve is none of P-256, P-384, Ed25519"),
            (Some("oct"), _) => Err("it is a shared secret"),
            (Some(_), _) => Err("its `kty` is none of RSA, EC, OKP"),
            (None, _) => Err("it has no `kty`"),
        }
    }

    fn kind(&self) -> KeyKind {
        match self {
            Material::Rsa { .. } => KeyKind::Rsa,
            Material::P256(_) => KeyKind::P256,
            Material::P384(_) => KeyKind::P384,
            Material::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// Hashes the members that make the key, in the order of their names (RFC 7638 §3).
    fn id(&self) -> KeyId {
        let text = match self {
            Material::Rsa { modulus, exponent } => {
                let (n, e) = (encode_bytes(modulus), encode_bytes(exponent));
                format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#)
            }
            Material::P256(point) => canonical_point("P-256", point),
            Material::P384(point) => canonical_point("P-384", point),
            Material::Ed25519(key) => {
                let x = encode_bytes(key);
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#)
            }
        };
        KeyId(Sha256::digest(text).into())
    }

    fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (self, algorithm.verifier()) {
            (Material::Rsa { modulus, exponent }, Verifier::Rsa(parameters)) => {
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, message, signature)
            }
            (
                Material::P256(bytes) | Material::P384(bytes) | Material::Ed25519(bytes),
                Verifier::Curve(verifier),
            ) => UnparsedPublicKey::new(verifier, bytes).verify(message, signature),
            (Material::Rsa { .. }, Verifier::Curve(_))
            | (Material::P256(_) | Material::P384(_) | Material::Ed25519(_), Verifier::Rsa(_)) => {
                return false;
            }
        };
        verified.is_ok()
    }
}

/// Refuses keys that are published for something else, and those that are not only public.
fn check_purpose(members: &Members) -> Result<(), &'static str> {
    match members.get("use") {
        None | Some(Value::Null) => {}
        Some(purpose) if purpose == "sig" => {}
        Some(purpose) if purpose == "enc" => return Err("it is for encryption"),
        Some(_) => return Err("its `use` is not `sig`"),
    }
    match members.get("key_ops") {
        None | Some(Value::Null) => {}
        Some(Value::Array(uses)) if uses.iter().any(|operation| operation == "verify") => {}
        Some(_) => return Err("its `key_ops` have no `verify`"),
    }
    // Whoever reads the set can sign with it.
    match members.contains_key("d") {
        true => Err("its private part is published"),
        false => Ok(()),
    }
}

fn read_rsa(members: &Members) -> Result<Material, &'static str> {
    let (modulus, exponent) = (read_number(members, "n")?, read_number(members, "e")?);
    let leading = modulus
        .first()
        .map_or(0, |byte| byte.leading_zeros() as usize);
    if !(2048..=8192).contains(&(8 * modulus.len() - leading)) {
        return Err("it has not 2048 to 8192 bits");
    }
    // What `ring` takes: odd, and of at most 33 bits.
    let value = exponent.iter().try_fold(0_u64, |so_far, byte| {
        Some(so_far.checked_mul(256)? + u64::from(*byte))
    });
    let is_odd = |bytes: &[u8]| bytes.last().is_some_and(|byte| byte & 1 == 1);
    let is_usable = value.is_some_and(|value| (3..1 << 33).contains(&value));
    if !is_usable || !is_odd(&exponent) || !is_odd(&modulus) {
        return Err("its numbers make no RSA key");
    }
    Ok(Material::Rsa { modulus, exponent })
}

fn read_point(members: &Members, length: usize) -> Result<Vec<u8>, &'static str> {
    let (x, y) = (
        read_coordinate(members, "x", length)?,
        read_coordinate(members, "y", length)?,
    );
    Ok([&[4], &*x, &*y].concat())
}

/// Reads bytes that have always the same length (RFC 7518 §6.2.1.2).
fn read_coordinate(members: &Members, name: &str, length: usize) -> Result<Vec<u8>, &'static str> {
    let bytes = read_bytes(members, name)?;
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err("its coordinates have not the length of the curve"),
    }
}

/// Reads a number. Some issuers write a leading zero, which does not change it.
fn read_number(members: &Members, name: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = read_bytes(members, name)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(bytes.split_off(zeros))
}

fn read_bytes(members: &Members, name: &str) -> Result<Vec<u8>, &'static str> {
    let written = members.get(name).and_then(Value::as_str);
    let written = written.ok_or("a member that makes the key is missing")?;
    let decoded = URL_SAFE_NO_PAD.decode(written);
    decoded.map_err(|_| "a member that makes the key is not in base64url")
}

fn encode_bytes(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn canonical_point(curve: &str, point: &[u8]) -> String {
    let coordinates = point.get(1..).unwrap_or_default();
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    let (x, y) = (encode_bytes(x), encode_bytes(y));
    format!(r#"{{"crv":"{curve}","kty":"EC","x":"{x}","y":"{y}"}}"#)
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: {}", self.position, self.reason)
    }
}

#[cfg(test)]
mod tests;
