//! An [`Algorithm`] is a way to sign tokens that is accepted here: only those with a pair of keys.
//!
//! **Invariant:** there is no algorithm without a signature, and none with a shared secret, so a
//! public key can never be taken for a secret.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, VerificationAlgorithm,
};

/// A way to sign tokens (RFC 7518 §3.1, RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 padding and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 padding and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 padding and SHA-512.
    Rs512,
    /// RSA with PSS padding and SHA-256.
    Ps256,
    /// RSA with PSS padding and SHA-384.
    Ps384,
    /// RSA with PSS padding and SHA-512.
    Ps512,
    /// ECDSA on the curve P-256 with SHA-256.
    Es256,
    /// ECDSA on the curve P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// The kind of a key: which algorithms it can be used with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of 2048 to 8192 bits.
    Rsa,
    /// A point on the curve P-256.
    P256,
    /// A point on the curve P-384.
    P384,
    /// A key of Ed25519.
    Ed25519,
}

/// What verifies a signature.
#[derive(Clone, Copy)]
pub enum Verifier {
    /// By the two numbers of an RSA key.
    Rsa(&'static RsaParameters),
    /// By a key on a curve.
    Curve(&'static dyn VerificationAlgorithm),
}

impl Algorithm {
    /// All algorithms that are accepted.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    /// Finds an algorithm by its name, exactly as it is registered.
    pub fn find(name: &str) -> Option<Algorithm> {
        // The newer name of the same algorithm (RFC 9864).
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    /// Returns the registered name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// Returns the kind of key that the algorithm needs.
    pub fn key_kind(self) -> KeyKind {
        match self {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => KeyKind::Rsa,
            Algorithm::Es256 => KeyKind::P256,
            Algorithm::Es384 => KeyKind::P384,
            Algorithm::EdDsa => KeyKind::Ed25519,
        }
    }

    /// Returns what verifies a signature of this algorithm.
    pub fn verifier(self) -> Verifier {
        match self {
            Algorithm::Rs256 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 => Verifier::Curve(&ECDSA_P256_SHA256_FIXED),
            Algorithm::Es384 => Verifier::Curve(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDsa => Verifier::Curve(&ED25519),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
