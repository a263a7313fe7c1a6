use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::identity::json::MAX_DEPTH;
use crate::identity::tests::{CLAIMS, ISSUER, encode, kid, read_keys};

/// Reads and verifies a text, and returns the verdict in words.
fn judge(text: impl AsRef<[u8]>, keys: &KeySet) -> String {
    match Unverified::parse(text.as_ref()) {
        Err(malformed) => malformed.to_string(),
        Ok(token) => match token.verify(keys) {
            Err(fault) => fault.reason().to_owned(),
            Ok(_) => "verified".to_owned(),
        },
    }
}

#[track_caller]
fn check(text: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(
        judge(&text, &ISSUER.keys()),
        expected,
        "{}",
        String::from_utf8_lossy(text.as_ref())
    );
}

/// Signs by RS256.
fn sign(header: &str, claims: &str) -> String {
    ISSUER.sign(Algorithm::Rs256, header, claims)
}

/// Replaces the signature of a token.
fn with_signature(token: &str, signature: &[u8]) -> String {
    let (signed, _) = token.rsplit_once('.').unwrap();
    format!("{signed}.{}", encode(signature))
}

#[test]
fn tokens_of_every_algorithm_are_verified() {
    let keys = ISSUER.keys();
    for algorithm in Algorithm::ALL {
        let text = ISSUER.token(algorithm);
        let token = Unverified::parse(text.as_bytes()).unwrap();
        assert_eq!(token.issuer(), Some("https://issuer.example"));
        assert_eq!(
            (token.algorithm(), token.kid()),
            (algorithm, Some(kid(algorithm)))
        );
        let verified = token.verify(&keys).unwrap();
        let signer = keys.keys().iter().find(|key| key.id == verified.key);
        assert_eq!(signer.unwrap().kid.as_deref(), Some(kid(algorithm)));
        assert_eq!(verified.claims.members["sub"], "alice");
        assert_eq!(verified.claims.declared_type.as_deref(), Some("JWT"));
        assert!(looks_like_token(text.as_bytes()));
        assert_eq!(format!("{token:?}"), "[token]");
    }
}

#[test]
fn tokens_of_other_libraries_are_judged_alike() {
    for (text, accepted, refused) in [
        (include_str!("../../../tests/tokens/pyjwt.json"), 13, 10),
        (include_str!("../../../tests/tokens/jose.json"), 10, 15),
    ] {
        let made: Value = serde_json::from_str(text).unwrap();
        let keys = read_keys(made["keys"].as_array().unwrap());
        let tokens = made["accepted"].as_array().unwrap();
        assert_eq!(tokens.len(), accepted);
        for token in tokens {
            let text = token["token"].as_str().unwrap();
            assert_eq!(judge(text, &keys), "verified", "{token}");
        }
        let tokens = made["refused"].as_array().unwrap();
        assert_eq!(tokens.len(), refused);
        for token in tokens {
            let text = token["token"].as_str().unwrap();
            assert_ne!(judge(text, &keys), "verified", "{token}");
        }
    }
}

/// RFC 7515, appendices A.2 and A.3, and RFC 8037, appendix A.4. The last signs no claims.
#[test]
fn the_examples_of_the_standards_are_verified() {
    let keys = read_keys(&[
        json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}),
        json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}),
        json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
    ]);
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    for (header, claims, signature, expected) in [
        (
            "eyJhbGciOiJSUzI1NiJ9",
            claims,
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
            "verified",
        ),
        (
            "eyJhbGciOiJFUzI1NiJ9",
            claims,
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            "verified",
        ),
        // The same text, but it is no object.
        (
            "eyJhbGciOiJFZERTQSJ9",
            "RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
            "its payload is not JSON",
        ),
    ] {
        assert_eq!(
            judge(format!("{header}.{claims}.{signature}"), &keys),
            expected
        );
    }
    let signature = BASE64.decode("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg").unwrap();
    let signed = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    assert!(keys.keys()[2].has_signed(Algorithm::EdDsa, signed, &signature));
}

#[test]
fn algorithms_without_a_pair_of_keys_are_refused() {
    const NO_ALGORITHM: &str = "its `alg` is none that is taken";
    for name in [
        "\"none\"",
        "\"None\"",
        "\"NONE\"",
        "\"nOnE\"",
        "\"none \"",
        "\"\"",
        "\"HS256\"",
        "\"HS384\"",
        "\"HS512\"",
        "\"hs256\"",
        "\"rs256\"",
        "\"RS256 \"",
        "\"RS256\\u0000\"",
        "\"RS1\"",
        "\"ES256K\"",
        "\"ES512\"",
        "\"Ed448\"",
        "\"eddsa\"",
        "\"dir\"",
        "\"RSA1_5\"",
        "\"RSA-OAEP\"",
        "\"A128KW\"",
        "null",
        "true",
        "256",
        "[\"RS256\"]",
        "{\"alg\":\"RS256\"}",
    ] {
        let genuine = sign(&format!(r#"{{"alg":{name},"kid":"rsa"}}"#), CLAIMS);
        check(&genuine, NO_ALGORITHM);
        check(with_signature(&genuine, b""), NO_ALGORITHM);
    }
    check(sign(r#"{"kid":"rsa"}"#, CLAIMS), NO_ALGORITHM);
    check(sign("{}", CLAIMS), NO_ALGORITHM);
}

#[test]
fn the_algorithm_must_be_that_of_the_key() {
    for signer in Algorithm::ALL {
        for named in Algorithm::ALL {
            for key in ["rsa", "p256", "p384", "ed25519"] {
                let header = format!(r#"{{"alg":"{named}","kid":"{key}"}}"#);
                let expected = match (kid(named) == key, signer == named) {
                    (false, _) => "algorithm",
                    (true, false) => "signature",
                    (true, true) => "verified",
                };
                check(ISSUER.sign(signer, header, CLAIMS), expected);
            }
        }
    }
    // An `alg` of the key allows only this one.
    let mut written = ISSUER.written_keys();
    written[0]["alg"] = "PS256".into();
    let keys = read_keys(&written);
    assert_eq!(judge(ISSUER.token(Algorithm::Rs256), &keys), "algorithm");
    assert_eq!(judge(ISSUER.token(Algorithm::Ps512), &keys), "algorithm");
    assert_eq!(judge(ISSUER.token(Algorithm::Ps256), &keys), "verified");
}

#[test]
fn only_the_key_that_is_named_is_tried() {
    for (kid, expected) in [
        (r#""rsa""#, "verified"),
        (r#""\u0072sa""#, "verified"),
        (r#""RSA""#, "unknown_key"),
        (r#""rsa ""#, "unknown_key"),
        (r#""""#, "unknown_key"),
        (r#""../../../../dev/null""#, "unknown_key"),
        (r#""/proc/self/environ""#, "unknown_key"),
        (r#""' OR 1=1 --""#, "unknown_key"),
        (r#""rsa\u0000""#, "unknown_key"),
        (r#""https://attacker.example/key""#, "unknown_key"),
        (r#""p256""#, "algorithm"),
        ("null", "`kid` of its header is no text"),
        ("0", "`kid` of its header is no text"),
        (r#"["rsa"]"#, "`kid` of its header is no text"),
        (r#"{"kid":"rsa"}"#, "`kid` of its header is no text"),
    ] {
        check(
            sign(&format!(r#"{{"alg":"RS256","kid":{kid}}}"#), CLAIMS),
            expected,
        );
    }
}

#[test]
fn keys_and_addresses_of_the_header_mean_nothing() {
    // The key in the header would verify the token, and is not in the set.
    let own = ISSUER.written_keys();
    let keys = read_keys(&own[1..]);
    for member in [
        format!(r#""jwk":{}"#, own[0]),
        r#""jku":"https://attacker.example/keys""#.to_owned(),
        r#""x5u":"https://attacker.example/chain""#.to_owned(),
        r#""x5c":["MIIB"],"x5t":"AAAA","x5t#S256":"AAAA""#.to_owned(),
    ] {
        for (kid, expected) in [
            ("", "algorithm"),
            (r#","kid":"p256""#, "algorithm"),
            (r#","kid":"rsa""#, "unknown_key"),
        ] {
            let token = sign(&format!(r#"{{"alg":"RS256",{member}{kid}}}"#), CLAIMS);
            assert_eq!(judge(&token, &keys), expected, "{member}{kid}");
        }
        // Nor do they do harm.
        let header = format!(r#"{{"alg":"ES256",{member},"kid":"p256"}}"#);
        let token = ISSUER.sign(Algorithm::Es256, header, CLAIMS);
        assert_eq!(judge(&token, &keys), "verified", "{member}");
    }
}

#[test]
fn headers_that_ask_for_more_are_refused() {
    const CRITICAL: &str = "its header has `crit`, and no extension is known";
    const NESTED: &str = "its header has `cty: JWT`, `enc`, `zip` or `b64`, which are not taken";
    for (member, expected) in [
        (r#""crit":["exp"]"#, CRITICAL),
        (r#""crit":["urn:example"],"urn:example":1"#, CRITICAL),
        (r#""crit":["b64"],"b64":false"#, CRITICAL),
        (r#""crit":[]"#, CRITICAL),
        (r#""crit":null"#, CRITICAL),
        (r#""\u0063rit":["exp"]"#, CRITICAL),
        (r#""b64":false"#, NESTED),
        (r#""zip":"DEF""#, NESTED),
        (r#""enc":"A256GCM""#, NESTED),
        (r#""cty":"JWT""#, NESTED),
        (r#""cty":"jwt""#, NESTED),
        (r#""cty":"application/jwt""#, NESTED),
        (r#""cty":1"#, "`cty` of its header is no text"),
        (r#""typ":["JWT"]"#, "`typ` of its header is no text"),
        (r#""cty":"json""#, "verified"),
        (r#""typ":"at+jwt""#, "verified"),
        (r#""epk":{"a":[1,{"b":null}]}"#, "verified"),
    ] {
        check(
            sign(
                &format!(r#"{{"alg":"RS256","kid":"rsa",{member}}}"#),
                CLAIMS,
            ),
            expected,
        );
    }
}

#[test]
fn what_is_not_one_object_is_refused() {
    let deep = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let (deepest, deeper) = (deep(MAX_DEPTH - 1), deep(MAX_DEPTH));
    let lists = "[".repeat(8000);
    for (claims, fault) in [
        (r#"{"sub":"alice","sub":"bob"}"#, "has a member twice"),
        (
            r#"{"sub":"alice","s\u0075b":"alice"}"#,
            "has a member twice",
        ),
        (
            r#"{"exp":1,"a":{"b":[{"c":1,"c":1}]}}"#,
            "has a member twice",
        ),
        (r#"{"":1,"":1}"#, "has a member twice"),
        ("[]", "is not a JSON object"),
        (r#""alice""#, "is not a JSON object"),
        ("1", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ("", "is not JSON"),
        (" ", "is not JSON"),
        ("{", "is not JSON"),
        ("{}{}", "is not JSON"),
        ("{},", "is not JSON"),
        ("{}\0", "is not JSON"),
        ("\u{feff}{}", "is not JSON"),
        ("{'sub':'alice'}", "is not JSON"),
        (r#"{"sub":"alice",}"#, "is not JSON"),
        (r#"{"sub":"alice"/**/}"#, "is not JSON"),
        (r#"{"exp":NaN}"#, "is not JSON"),
        (r#"{"exp":Infinity}"#, "is not JSON"),
        (r#"{"exp":1e999}"#, "is not JSON"),
        (r#"{"exp":-1e999}"#, "is not JSON"),
        (r#"{"exp":1e99999999999999999999}"#, "is not JSON"),
        (r#"{"exp":01}"#, "is not JSON"),
        (r#"{"exp":0x10}"#, "is not JSON"),
        (r#"{"sub":"\ud800"}"#, "is not JSON"),
        ("{\"sub\":\"a\nb\"}", "is not JSON"),
        (&*deeper, "is nested too deep"),
        (&*lists, "is nested too deep"),
    ] {
        let token = sign(r#"{"alg":"RS256","kid":"rsa"}"#, claims);
        check(token, &format!("its payload {fault}"));
        let token = sign(claims, CLAIMS);
        check(token, &format!("its header {fault}"));
    }
    let header = br#"{"alg":"RS256","kid":"rsa"}"#;
    check(
        ISSUER.sign(Algorithm::Rs256, header, b"{\"sub\":\"\xff\"}"),
        "its payload is not JSON",
    );
    for claims in [
        "{}",
        "\r\n {\t} ",
        &*deepest,
        r#"{"a":{"sub":1},"b":{"sub":1}}"#,
        r#"{"$serde_json::private::RawValue":"{}"}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
    ] {
        check(sign(r#"{"alg":"RS256","kid":"rsa"}"#, claims), "verified");
    }
}

#[test]
fn double_members_of_the_header_are_refused() {
    for header in [
        r#"{"alg":"none","alg":"RS256","kid":"rsa"}"#,
        r#"{"alg":"RS256","alg":"none","kid":"rsa"}"#,
        r#"{"alg":"RS256","\u0061lg":"RS256","kid":"rsa"}"#,
        r#"{"alg":"RS256","kid":"p256","kid":"rsa"}"#,
        r#"{"alg":"RS256","kid":"rsa","jwk":{"n":1,"n":1}}"#,
    ] {
        check(sign(header, CLAIMS), "its header has a member twice");
    }
}

#[test]
fn signatures_of_another_form_are_refused() {
    let es256 = ISSUER.token(Algorithm::Es256);
    let (signed, signature) = es256.rsplit_once('.').unwrap();
    let (der, fixed) = (
        ISSUER.der_signature(signed),
        BASE64.decode(signature).unwrap(),
    );
    // The order of the curve: a number that counts as zero.
    let order = b"\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xbc\xe6\xfa\xad\xa7\x17\x9e\x84\xf3\xb9\xca\xc2\xfc\x63\x25\x51";
    let (r, s) = fixed.split_at(32);
    for signature in [
        &*der,
        b"",
        &[0; 64],
        &[0xff; 64],
        &[&[0; 32], s].concat(),
        &[r, &[0; 32]].concat(),
        &[r, order].concat(),
        &[order, s].concat(),
        &[order.as_slice(), order].concat(),
        &[s, r].concat(),
        r,
        &fixed[..63],
        &[&*fixed, &[0]].concat(),
        &[&[0], &*fixed].concat(),
        // As for a curve of 48 bytes.
        &[&[0; 16], r, &[0; 16], s].concat(),
    ] {
        check(with_signature(&es256, signature), "signature");
    }
    let rs256 = ISSUER.token(Algorithm::Rs256);
    let signature = BASE64.decode(rs256.rsplit_once('.').unwrap().1).unwrap();
    for signature in [
        b"".as_slice(),
        &[0; 256],
        &[0xff; 256],
        &[&[0; 255], [1].as_slice()].concat(),
        &signature[1..],
        &signature[..255],
        &[&[0], &*signature].concat(),
        &[&*signature, &[0]].concat(),
        &[&*signature, &*signature].concat(),
    ] {
        check(with_signature(&rs256, signature), "signature");
    }
    let eddsa = ISSUER.token(Algorithm::EdDsa);
    let mut signature = BASE64.decode(eddsa.rsplit_once('.').unwrap().1).unwrap();
    for signature in [b"".as_slice(), &[0; 64], &signature[..63], &signature[..32]] {
        check(with_signature(&eddsa, signature), "signature");
    }
    // The same number plus the order of the group.
    let order = b"\xed\xd3\xf5\x5c\x1a\x63\x12\x58\xd6\x9c\xf7\xa2\xde\xf9\xde\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10";
    let mut carry = 0;
    for (byte, add) in signature[32..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(*add);
        *byte = u8::try_from(carry & 0xff).unwrap();
        carry >>= 8;
    }
    check(with_signature(&eddsa, &signature), "signature");
}

#[test]
fn the_parts_must_be_three_and_canonical() {
    const PARTS: &str = "it has not three parts between dots";
    // Lengths at which each part has bits that no byte needs.
    let genuine = sign(r#"{"alg":"RS256","kid":"rsa" }"#, r#"{"sub":"alice" }"#);
    check(&genuine, "verified");
    let parts: Vec<&str> = genuine.split('.').collect();
    let [header, claims, signature] = *parts.as_slice() else {
        unreachable!("a token has three parts");
    };
    for text in [
        String::new(),
        "sk-1234".to_owned(),
        ".".to_owned(),
        header.to_owned(),
        format!("{header}.{claims}"),
        format!("{genuine}."),
        format!(".{genuine}"),
        format!("{genuine}.{signature}"),
        format!("{header}.{claims}.{signature}.a.b.c"),
    ] {
        check(text, PARTS);
    }
    let encrypted = "it is encrypted, and only signed ones are taken";
    check(format!("{genuine}.a.b"), encrypted);
    check("....", encrypted);
    check("..", "its header is not JSON");
    check(format!(".{claims}.{signature}"), "its header is not JSON");
    check(format!("{header}..{signature}"), "its payload is not JSON");
    check(format!("{header}.{claims}."), "signature");
    check(format!("{header}.{header}.{signature}"), "signature");
    check(
        format!("{claims}.{header}.{signature}"),
        "its `alg` is none that is taken",
    );
    let other = ISSUER.token(Algorithm::Rs256);
    let other: Vec<&str> = other.split('.').collect();
    check(format!("{header}.{}.{signature}", other[1]), "signature");
    check(format!("{}.{claims}.{signature}", other[0]), "signature");
    for (index, name) in ["header", "payload", "signature"].into_iter().enumerate() {
        let part = parts[index];
        for written in [
            format!("{part}="),
            format!("{part}=="),
            format!("{part} "),
            format!(" {part}"),
            format!("{part}\n"),
            format!("\t{part}"),
            format!("{}\r\n{}", &part[..8], &part[8..]),
            format!("{}%2D{}", &part[..8], &part[8..]),
            format!("+{}", &part[1..]),
            format!("/{}", &part[1..]),
            format!("\0{}", &part[1..]),
            format!("é{}", &part[1..]),
            next_symbol(part),
        ] {
            let mut written_parts = parts.clone();
            written_parts[index] = &written;
            let expected = format!("its {name} is not base64url without padding");
            check(written_parts.join("."), &expected);
        }
    }
    check(
        b"e\xff.e30.e30",
        "its header is not base64url without padding",
    );
}

/// Changes bits of the last symbol that belong to no byte.
fn next_symbol(part: &str) -> String {
    assert_ne!(part.len() % 4, 0, "there are such bits");
    let (rest, last) = part.split_at(part.len() - 1);
    let next = char::from(last.as_bytes()[0] + 1);
    let next = if next == '[' { 'a' } else { next };
    format!("{rest}{next}")
}

#[test]
fn a_token_has_at_most_sixteen_kilobytes() {
    let shorter = |padding: usize| {
        let claims = format!(r#"{{"sub":"alice","x":"{}"}}"#, "x".repeat(padding));
        sign(r#"{"alg":"RS256","kid":"rsa"}"#, &claims)
    };
    let base = shorter(0).len();
    let mut padding = (MAX_TOKEN_BYTES - base) / 4 * 3 - 8;
    while shorter(padding + 1).len() <= MAX_TOKEN_BYTES {
        padding += 1;
    }
    let longest = shorter(padding);
    assert!(longest.len() >= MAX_TOKEN_BYTES - 1, "{}", longest.len());
    check(longest, "verified");
    check(shorter(padding + 1), "it has more than 16384 bytes");
    check("a".repeat(1 << 20), "it has more than 16384 bytes");
    assert!(!looks_like_token(shorter(padding + 1).as_bytes()));
}

#[test]
fn without_a_name_few_keys_are_tried() {
    let header = r#"{"alg":"ES256"}"#;
    let token = ISSUER.sign(Algorithm::Es256, header, CLAIMS);
    check(&token, "verified");
    let own = ISSUER.written_keys()[1].clone();
    // Keys on the curve that have not signed.
    let other = json!({"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    let set = |others: usize| {
        let mut keys = vec![other.clone(); others];
        keys.push(own.clone());
        read_keys(&keys)
    };
    assert_eq!(judge(&token, &set(3)), "verified");
    assert_eq!(judge(&token, &set(4)), "too_many_keys");
    let named = ISSUER.token(Algorithm::Es256);
    assert_eq!(judge(&named, &set(99)), "verified");
    assert_eq!(
        judge(&token, &read_keys(std::slice::from_ref(&other))),
        "unknown_key"
    );
    assert_eq!(
        judge(sign(r#"{"alg":"RS256"}"#, CLAIMS), &set(1)),
        "algorithm"
    );
    // Two keys of one name: either may have signed.
    let mut namesake = other;
    namesake["kid"] = "p256".into();
    assert_eq!(
        judge(&named, &read_keys(&[namesake.clone(), own])),
        "verified"
    );
    assert_eq!(judge(&named, &read_keys(&[namesake])), "signature");
}

#[test]
fn keys_of_callers_do_not_look_like_tokens() {
    for (text, expected) in [
        ("", false),
        ("sk-live-0123456789", false),
        ("e", false),
        ("eyJhbGciOiJSUzI1NiJ9.e30", false),
        ("eyJhbGciOiJSUzI1NiJ9.e30.c2ln", true),
        ("ewogICJhbGciOiAiUlMyNTYiCn0.e30.", true),
        ("eyJhbGciOiJSUzI1NiJ9.e30.c2ln.a.b", true),
        ("eyJhbGciOiJSUzI1NiJ9.e30=.c2ln", true),
        ("eyJ hbGciOiJSUzI1NiJ9.e30.c2ln", false),
        ("example.com.key/1", false),
    ] {
        assert_eq!(looks_like_token(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn no_changed_byte_is_accepted() {
    let keys = ISSUER.keys();
    for algorithm in Algorithm::ALL {
        let genuine = ISSUER.token(algorithm).into_bytes();
        for index in 0..genuine.len() {
            for byte in [genuine[index] ^ 1, genuine[index] ^ 0x20, b'A', b'.'] {
                let mut changed = genuine.clone();
                changed[index] = byte;
                let is_same = changed == genuine;
                let verdict = judge(&changed, &keys);
                assert_eq!(verdict == "verified", is_same, "{algorithm}: byte {index}");
            }
            let mut shorter = genuine.clone();
            shorter.remove(index);
            assert_ne!(judge(&shorter, &keys), "verified", "{algorithm}: {index}");
        }
    }
}

proptest! {
    #[test]
    fn no_change_of_a_token_is_accepted(
        algorithm in 0..Algorithm::ALL.len(),
        start in any::<prop::sample::Index>(),
        length in 0..8usize,
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"AZaz09-_.=eyJ".to_vec())], 0..8),
    ) {
        let mut text = ISSUER.token(Algorithm::ALL[algorithm]).into_bytes();
        let genuine = text.clone();
        let start = start.index(text.len() + 1);
        let end = (start + length).min(text.len());
        text.splice(start..end, bytes);
        let is_same = text == genuine;
        prop_assert_eq!(judge(&text, &ISSUER.keys()) == "verified", is_same);
    }

    #[test]
    fn any_text_is_judged(text in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert_ne!(judge(&text, &ISSUER.keys()), "verified");
    }
}
