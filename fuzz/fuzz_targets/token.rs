//! Any text may stand where a token may, and any answer where an issuer's keys may. Both are read
//! or refused. No text is a genuine token, because the keys here are of nobody; and what the rules
//! take from claims that a hostile issuer has signed is within bounds, and has one name.
//!
//! The text up to the first line's end is a token. The rest, if there is any, is a set of keys, and
//! is read as claims, too.

#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use portcullis::identity::json::parse_object;
use portcullis::identity::jwk::KeySet;
use portcullis::identity::rules::{CallerRule, ClaimPath, ClaimRule, Rules, Several};
use portcullis::identity::token::{Claims, MAX_TOKEN_BYTES, Unverified, looks_like_token};

/// Keys of examples in the standards: RFC 7515, A.2 and A.3, and RFC 8037, A.2.
const KEYS: &[u8] = br#"{"keys":[{"kty":"RSA","kid":"rsa","e":"AQAB","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"},{"kty":"EC","kid":"ec","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"OKP","kid":"ed","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// The only text that these keys have signed: it ended in 2011, and the corpus has it.
const GENUINE: &[u8] = b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
const NOW: u64 = 1_767_226_200;

static ISSUER: LazyLock<KeySet> = LazyLock::new(|| KeySet::parse(KEYS).expect("a set"));

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (text, rest) = input.split_at(end.unwrap_or(input.len()));
    if read_token(text, &ISSUER) {
        assert!(text.starts_with(GENUINE));
    }
    let Some(rest) = rest.get(1..) else {
        return;
    };
    if let Ok(keys) = KeySet::parse(rest) {
        assert!(!keys.keys().is_empty() && keys.keys().len() <= 100);
        assert_eq!(keys.gone_since(&keys).count(), 0);
        // Whoever may choose the keys, too, may have signed it.
        let _is_genuine = read_token(text, &keys);
    }
    if let Ok(members) = parse_object(rest, MAX_TOKEN_BYTES) {
        let claims = Claims {
            declared_type: None,
            members,
        };
        judge_claims(&claims);
    }
});

/// Returns whether a text is a token that one of the keys has signed.
fn read_token(text: &[u8], keys: &KeySet) -> bool {
    let token = match Unverified::parse(text) {
        Ok(token) => token,
        Err(malformed) => {
            assert!(!malformed.to_string().is_empty());
            return false;
        }
    };
    // What begins with white space looks like no token, and is a malformed one at most.
    assert!(looks_like_token(text) || text.first() != Some(&b'e'));
    judge_claims(token.unverified_claims());
    match token.verify(keys) {
        Ok(verified) => keys.has(&verified.key),
        Err(_) => false,
    }
}

/// Judges claims by rules that take much, and checks what comes out.
fn judge_claims(claims: &Claims) {
    let rules = Rules {
        issuer: "joe".into(),
        audience: "portcullis".into(),
        declared_type: None,
        subject: ClaimPath::name("sub"),
        callers: CallerRule::ByClaim(ClaimRule {
            claim: ClaimPath::name("groups"),
            splits_at_spaces: true,
            map: vec![("ml".to_owned(), "research".into())],
            others: Some("everyone".into()),
            several: Several::First,
        }),
        require: Vec::new(),
        deny: vec!["mallory".to_owned()],
        max_age: Duration::from_secs(24 * 3600),
    };
    match rules.accept(claims, NOW) {
        Ok(accepted) => {
            let name = accepted.subject.key_name("okta");
            assert!(accepted.expires_at > NOW && accepted.expires_at <= NOW + 25 * 3600);
            assert!(name.len() <= "okta:".len() + 3 * 255 && name.is_ascii());
            assert_ne!(accepted.subject.text(), "mallory");
            assert!(["research", "everyone"].contains(&&*accepted.caller));
        }
        Err(refused) => {
            let text = refused.operator_text();
            assert!(text.len() < 1024 && !text.contains(char::is_control));
        }
    }
}
