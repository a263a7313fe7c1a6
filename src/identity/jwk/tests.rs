use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::base::hash::digest_text;
use crate::identity::tests::{ISSUER, encode, read_keys};

/// The key of RFC 7638, section 3.1.
const RFC_7638: &str = r#"{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}"#;

/// Reads a set beside whose key there is a usable one, and returns why the key is left out.
#[track_caller]
fn reason(key: &Value) -> &'static str {
    let usable = ISSUER.written_keys()[1].clone();
    let set = read_keys(&[key.clone(), usable]);
    match set.left_out() {
        [
            LeftOut {
                position: 1,
                reason,
            },
        ] if set.keys().len() == 1 => reason,
        [] => "used",
        left_out => panic!("{left_out:?}"),
    }
}

fn changed(index: usize, member: &str, value: impl Into<Value>) -> Value {
    let mut key = ISSUER.written_keys()[index].clone();
    key[member] = value.into();
    key
}

/// A number of so many bits that is odd.
fn number(bits: usize) -> String {
    let mut bytes = vec![0xff; bits.div_ceil(8)];
    if !bits.is_multiple_of(8) {
        bytes[0] = 0xff >> (8 - bits % 8);
    }
    encode(bytes)
}

#[test]
fn a_key_is_known_by_its_thumbprint() {
    let set = read_keys(&[serde_json::from_str(RFC_7638).unwrap()]);
    let [key] = set.keys() else {
        panic!("one key");
    };
    assert_eq!(
        encode(key.id.0),
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    );
    assert_eq!(key.kid.as_deref(), Some("2011-04-29"));
    assert_eq!(key.algorithms(), [Algorithm::Rs256]);
    // RFC 8037, appendix A.3.
    let key =
        json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let set = read_keys(&[key]);
    assert_eq!(
        encode(set.keys()[0].id.0),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
    // Another name, another order and a leading zero make no other key.
    let own = ISSUER.written_keys();
    let modulus = URL_SAFE_NO_PAD
        .decode(own[0]["n"].as_str().unwrap())
        .unwrap();
    let mut padded = changed(0, "n", encode([&[0], &*modulus].concat()));
    padded["kid"] = "other".into();
    let (one, other) = (read_keys(&own), read_keys(&[padded]));
    assert_eq!(one.keys()[0].id, other.keys()[0].id);
    let ids: std::collections::HashSet<_> = one.keys().iter().map(|key| key.id).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(digest_text(&ids.iter().next().unwrap().0, 32).len(), 64);
}

#[test]
fn keys_that_went_are_listed() {
    let own = ISSUER.written_keys();
    let (older, newer) = (read_keys(&own[..3]), read_keys(&own[1..]));
    let gone: Vec<_> = newer.gone_since(&older).collect();
    assert_eq!(gone, [older.keys()[0].id]);
    assert!(older.has(&gone[0]) && !newer.has(&gone[0]));
    assert_eq!(newer.gone_since(&newer).count(), 0);
}

#[test]
fn keys_that_cannot_verify_are_left_out() {
    const SIZE: &str = "it has not 2048 to 8192 bits";
    const NUMBERS: &str = "its numbers make no RSA key";
    const MISSING: &str = "a member that makes the key is missing";
    const BASE64: &str = "a member that makes the key is not in base64url";
    const COORDINATES: &str = "its coordinates have not the length of the curve";
    const ALGORITHM: &str = "its `alg` is no signature of this kind of key";
    let secret = json!({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"});
    for (key, expected) in [
        (ISSUER.written_keys()[0].clone(), "used"),
        (changed(0, "use", "sig"), "used"),
        (changed(0, "use", Value::Null), "used"),
        (changed(0, "key_ops", json!(["verify"])), "used"),
        (changed(0, "x5c", json!(["MIIB"])), "used"),
        (changed(0, "n", number(2048)), "used"),
        (changed(0, "n", number(8192)), "used"),
        (changed(0, "e", "Aw"), "used"),
        (changed(3, "alg", "EdDSA"), "used"),
        (changed(3, "alg", "Ed25519"), "used"),
        (changed(0, "use", "enc"), "it is for encryption"),
        (changed(0, "use", "other"), "its `use` is not `sig`"),
        (
            changed(0, "key_ops", json!(["encrypt"])),
            "its `key_ops` have no `verify`",
        ),
        (
            changed(0, "key_ops", "verify"),
            "its `key_ops` have no `verify`",
        ),
        (changed(0, "d", "AQAB"), "its private part is published"),
        (changed(1, "d", "AQAB"), "its private part is published"),
        (changed(0, "kid", 1), "its `kid` is no text"),
        (changed(0, "alg", "RSA-OAEP"), ALGORITHM),
        (changed(0, "alg", "ES256"), ALGORITHM),
        (changed(0, "alg", "HS256"), ALGORITHM),
        (changed(0, "alg", "none"), ALGORITHM),
        (changed(0, "alg", 256), ALGORITHM),
        (changed(1, "alg", "ES384"), ALGORITHM),
        (changed(2, "alg", "ES256"), ALGORITHM),
        (changed(3, "alg", "Ed448"), ALGORITHM),
        (changed(0, "n", number(2047)), SIZE),
        (changed(0, "n", number(1024)), SIZE),
        (changed(0, "n", number(8193)), SIZE),
        (changed(0, "n", ""), SIZE),
        (changed(0, "n", encode([0; 256])), SIZE),
        (changed(0, "n", encode([0xfe; 256])), NUMBERS),
        (changed(0, "e", ""), NUMBERS),
        (changed(0, "e", "AQ"), NUMBERS),
        (changed(0, "e", "AQAA"), NUMBERS),
        (changed(0, "e", number(34)), NUMBERS),
        (changed(0, "e", number(2048)), NUMBERS),
        (changed(0, "e", 65537), MISSING),
        (changed(0, "n", Value::Null), MISSING),
        (changed(0, "e", "AQAB=="), BASE64),
        (changed(0, "e", "AQ+/"), BASE64),
        (changed(0, "e", "AQ AB"), BASE64),
        (changed(1, "x", encode([1; 31])), COORDINATES),
        (changed(1, "y", encode([1; 33])), COORDINATES),
        (changed(1, "crv", "P-384"), COORDINATES),
        (changed(2, "crv", "P-256"), COORDINATES),
        (changed(3, "x", encode([1; 57])), COORDINATES),
        (changed(1, "y", Value::Null), MISSING),
        (
            changed(1, "crv", "P-521"),
            "its curve is none of P-256, P-384, Ed25519",
        ),
        (
            changed(1, "crv", "secp256k1"),
            "its curve is none of P-256, P-384, Ed25519",
        ),
        (
            changed(1, "crv", "Ed25519"),
            "its curve is none of P-256, P-384, Ed25519",
        ),
        (
            changed(3, "crv", "X25519"),
            "its curve is none of P-256, P-384, Ed25519",
        ),
        (
            changed(3, "crv", "Ed448"),
            "its curve is none of P-256, P-384, Ed25519",
        ),
        (secret, "it is a shared secret"),
        (
            changed(0, "kty", "AKP"),
            "its `kty` is none of RSA, EC, OKP",
        ),
        (
            changed(0, "kty", "rsa"),
            "its `kty` is none of RSA, EC, OKP",
        ),
        (changed(0, "kty", 1), "it has no `kty`"),
        (json!({}), "it has no `kty`"),
        (json!([]), "it is no object"),
        (json!("key"), "it is no object"),
    ] {
        assert_eq!(reason(&key), expected, "{key}");
    }
}

#[test]
fn a_set_of_no_use_is_an_error() {
    let keys = |count: usize| {
        let keys = vec![ISSUER.written_keys()[1].clone(); count];
        json!({ "keys": keys }).to_string()
    };
    assert_eq!(
        KeySet::parse(keys(100).as_bytes()).unwrap().keys().len(),
        100
    );
    let secret = r#"{"keys":[{"kty":"oct","k":"AAAA"},{"kty":"RSA","use":"enc"}]}"#;
    let long = format!(r#"{{"keys":[],"x":"{}"}}"#, "x".repeat(MAX_SET_BYTES));
    for (text, expected) in [
        ("", "the answer is not JSON"),
        ("<html>", "the answer is not JSON"),
        ("[]", "the answer is not a JSON object"),
        (r#"{"keys":[],"keys":[]}"#, "the answer has a member twice"),
        (
            r#"{"keys":[{"kty":"RSA","kty":"EC"}]}"#,
            "the answer has a member twice",
        ),
        ("{}", "the answer is no set of keys: it has no list `keys`"),
        (
            r#"{"keys":{}}"#,
            "the answer is no set of keys: it has no list `keys`",
        ),
        (
            r#"{"keys":[]}"#,
            "no key of the set can verify tokens: it is empty",
        ),
        (
            secret,
            "no key of the set can verify tokens: key 1: it is a shared secret; key 2: it is for encryption",
        ),
        (&keys(101), "the set has 101 keys, and at most 100 are read"),
        (&long, "the answer is too long"),
    ] {
        assert_eq!(
            KeySet::parse(text.as_bytes()).unwrap_err(),
            expected,
            "{text:.80}"
        );
    }
}

proptest! {
    #[test]
    fn any_set_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(KeySet::parse(&text));
    }

    #[test]
    fn any_change_of_a_set_is_read_or_refused(
        start in any::<prop::sample::Index>(),
        length in 0..40usize,
        bytes in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut text = json!({ "keys": ISSUER.written_keys() }).to_string().into_bytes();
        let start = start.index(text.len());
        let end = (start + length).min(text.len());
        text.splice(start..end, bytes);
        if let Ok(set) = KeySet::parse(&text) {
            prop_assert!(set.keys().iter().all(|key| !key.algorithms().is_empty()));
        }
    }
}
