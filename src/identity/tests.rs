//! An issuer for the tests of this folder: it signs whatever it is given.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPair as RsaPair, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::identity::algorithm::Algorithm;
use crate::identity::jwk::KeySet;

/// The claims of a token that is genuine.
pub(crate) const CLAIMS: &str = r#"{"iss":"https://issuer.example","aud":"portcullis","sub":"alice","iat":1767225600,"exp":1767229200}"#;

/// The keys of the issuer, made once.
pub(crate) static ISSUER: LazyLock<Issuer> = LazyLock::new(Issuer::new);

pub(crate) struct Issuer {
    rsa: RsaPair,
    p256: Vec<u8>,
    p384: Vec<u8>,
    ed25519: Vec<u8>,
}

impl Issuer {
    fn new() -> Issuer {
        let account = include_str!("../../tests/support/service_account.json");
        let account: Value = serde_json::from_str(account).unwrap();
        let key = account["private_key"].as_str().unwrap().as_bytes();
        let key = PrivatePkcs8KeyDer::from_pem_slice(key).unwrap();
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let p384 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random);
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random);
        Issuer {
            rsa: RsaPair::from_pkcs8(key.secret_pkcs8_der()).unwrap(),
            p256: p256.unwrap().as_ref().to_vec(),
            p384: p384.unwrap().as_ref().to_vec(),
            ed25519: ed25519.unwrap().as_ref().to_vec(),
        }
    }

    /// Returns the public keys: `rsa`, `p256`, `p384` and `ed25519`.
    pub(crate) fn written_keys(&self) -> Vec<Value> {
        let rsa = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let p256 = self.pair(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.p256);
        let p384 = self.pair(&ECDSA_P384_SHA384_FIXED_SIGNING, &self.p384);
        let ed25519 = Ed25519KeyPair::from_pkcs8(&self.ed25519).unwrap();
        let x = encode(ed25519.public_key().as_ref());
        vec![
            json!({"kty": "RSA", "kid": "rsa", "n": encode(&rsa.n), "e": encode(&rsa.e)}),
            written_point("P-256", "p256", p256.public_key().as_ref()),
            written_point("P-384", "p384", p384.public_key().as_ref()),
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed25519", "x": x}),
        ]
    }

    /// Returns the public keys as a set.
    pub(crate) fn keys(&self) -> KeySet {
        read_keys(&self.written_keys())
    }

    /// Makes a genuine token of an algorithm.
    pub(crate) fn token(&self, algorithm: Algorithm) -> String {
        let header = format!(
            r#"{{"alg":"{algorithm}","kid":"{}","typ":"JWT"}}"#,
            kid(algorithm)
        );
        self.sign(algorithm, &header, CLAIMS)
    }

    /// Makes a token of any header and any claims.
    pub(crate) fn sign(
        &self,
        algorithm: Algorithm,
        header: impl AsRef<[u8]>,
        claims: impl AsRef<[u8]>,
    ) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.signature(algorithm, &signed);
        format!("{signed}.{}", encode(signature))
    }

    pub(crate) fn signature(&self, algorithm: Algorithm, signed: &str) -> Vec<u8> {
        match algorithm {
            Algorithm::Rs256 => self.rsa_signature(&RSA_PKCS1_SHA256, signed),
            Algorithm::Rs384 => self.rsa_signature(&RSA_PKCS1_SHA384, signed),
            Algorithm::Rs512 => self.rsa_signature(&RSA_PKCS1_SHA512, signed),
            Algorithm::Ps256 => self.rsa_signature(&RSA_PSS_SHA256, signed),
            Algorithm::Ps384 => self.rsa_signature(&RSA_PSS_SHA384, signed),
            Algorithm::Ps512 => self.rsa_signature(&RSA_PSS_SHA512, signed),
            Algorithm::Es256 => {
                self.point_signature(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.p256, signed)
            }
            Algorithm::Es384 => {
                self.point_signature(&ECDSA_P384_SHA384_FIXED_SIGNING, &self.p384, signed)
            }
            Algorithm::EdDsa => {
                let pair = Ed25519KeyPair::from_pkcs8(&self.ed25519).unwrap();
                pair.sign(signed.as_bytes()).as_ref().to_vec()
            }
        }
    }

    /// Signs by ES256, and writes the two numbers as certificates have them.
    pub(crate) fn der_signature(&self, signed: &str) -> Vec<u8> {
        self.point_signature(&ECDSA_P256_SHA256_ASN1_SIGNING, &self.p256, signed)
    }

    fn rsa_signature(&self, padding: &'static dyn RsaEncoding, signed: &str) -> Vec<u8> {
        let mut signature = vec![0; self.rsa.public().modulus_len()];
        let random = SystemRandom::new();
        let signing = self
            .rsa
            .sign(padding, &random, signed.as_bytes(), &mut signature);
        signing.unwrap();
        signature
    }

    fn point_signature(
        &self,
        algorithm: &'static EcdsaSigningAlgorithm,
        pair: &[u8],
        signed: &str,
    ) -> Vec<u8> {
        let signature = self
            .pair(algorithm, pair)
            .sign(&SystemRandom::new(), signed.as_bytes());
        signature.unwrap().as_ref().to_vec()
    }

    fn pair(&self, algorithm: &'static EcdsaSigningAlgorithm, pair: &[u8]) -> EcdsaKeyPair {
        EcdsaKeyPair::from_pkcs8(algorithm, pair, &SystemRandom::new()).unwrap()
    }
}

/// Returns the name of the issuer's key for an algorithm.
pub(crate) fn kid(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Rs256
        | Algorithm::Rs384
        | Algorithm::Rs512
        | Algorithm::Ps256
        | Algorithm::Ps384
        | Algorithm::Ps512 => "rsa",
        Algorithm::Es256 => "p256",
        Algorithm::Es384 => "p384",
        Algorithm::EdDsa => "ed25519",
    }
}

/// Reads keys as a set.
#[track_caller]
pub(crate) fn read_keys(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

/// Encodes as base64url without padding.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn written_point(curve: &str, kid: &str, point: &[u8]) -> Value {
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({"kty": "EC", "crv": curve, "kid": kid, "x": encode(x), "y": encode(y)})
}
