use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

use super::*;

/// The key of RFC 7515, appendix A.2.1, in PKCS #8.
const RFC_7515: &str = "-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO
jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL
aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn
juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5
ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf
toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg
VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW
PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G
O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj
kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6
XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB
4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K
pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr
0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE
lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6
kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP
rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw
kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp
5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2
9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/
evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG
yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj
OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2
tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3
ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56
03k2+ZQwVK0JKSHuLFkuQ3U=
-----END PRIVATE KEY-----
";

/// That of RFC 7520, section 3.4.
const RFC_7520: &str = "-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCfgQ+0A4Jz0CWR
5Ac/MdK2ABuCzttNkvBQFl1Hz8q4o8Qct3isdVN5P475dXaNGiN02HElZMO813ue
pDRUSJlAfP8AmZIKkxokxEFIUqspvbCpXAZT82xg5gv5C2JY3aVvNwR7pcLR0Cmv
nJ1AuseqQceKDdEGit1pnoCP6gEeoUQdik97tOl7459V8d3UTpxLozUVlwPU00tg
PmUUek8j1tPAmWx17e6EaoLRkK4QeDyWHPA4eu0hBtLQVVtv2Tf61VNTh+D/cv++
eJQUArC4IuoqdLYFjB2r+bNKdstjuH+qLGhHuOKDf/+RGG5rHBSRHPmJqJCSqBzm
Ad2s0/nPAgMBAAECggEAbWUC9B+EFRIo8kpGfh0ZuyGPvMNKvYWNtB/ikiH9k20e
T+O1q/I78eiZkpXxXQ0UTEs2LsNRS+8uJbvQ+A1irkwMSMkK1J3XTGgdrhCku9gR
ldY7sNA/AKZGh+Q661/42rINLRCe8W+nZ34ui/qOfkLnK9QWDDqpaIsA+bMwWWSD
Fu2MUBYwkHTMEzLYGqOe04noqeq1hExBTHBOBdkMXiuFhUq1BU6l+DqEiWxqg82s
Xt2h+LMnT3046AOYJoRioz75tSUQfGCshWTBnP5uDjd18kKhyv07lhfSJdrPdM5P
lyl21hsFf4L/mHCuoFau7gdsPfHPxxjVOcOpBrQzwQKBgQDdKXGD8PBNclxvrT3l
GhfKBAIBnlGcC9mWejXKEe2dR7H9+nsBn/2dFo7sdf/5IV8ZB661qjZMOMMBZThW
6mTyvD0lHQDNnQ3Z++4gCav9YKyYal42pCd6/VPsjISyeHxQy36fkJp+GSKTOESy
uad0fovE6u9EmWw+npm/xtSrSQKBgQC4oTZ2H5xN/oREXiTh7+PLvwZ89hQhpTKh
JIm4HOncK5uTc4KqzqCtPxtH9y7QObUxnBaa12oPIj3ketR6rcw/Xm8ww43yUdN5
m7aWYq/CpbtqdXlTOEzWJnvPjIyS5TAVagG/Jjz3wRe9EP6F2pHEeVKoBnX3bMHe
lUUnSzukVwKBgAfD1b15Lya49i/hmEO798va+isOYPUmoVwcLFlM6dfU1ZYCPmFf
OatTSG9a8ULQ/iLF10d/k2p3r7kT0beTgTnYjBkKfKW7duoJY2HylPxPcZ/kVCx8
9PnnfRPYFyyg+FRp4Kc/j30P6tvaZOcVh6CadNPUH9R7woYsUV+fXoYpAoGACLDm
DGduhylc9o7r84rEUVn7pzQ6PF83Y+iBZx5NT+TpnOZKF1pErAMVeKzFEl41DlHH
qqBLSM0W1sOFbwTxYWZDm6sI6og5iTbwQGIC3gnJKbi/7k/vJgGHwHxgPaX2PnvP
+zyEkDERuf+ry4c/Z11Cq9AqC2yeL6kdKT1cYF8CgYEA3PiqvXQN0zwMeE+sBvZg
i289XP9XCQF3VWqPzMKnIgQp7/Tugo6+NZBKCQsMf3HaEGBjTVJs/jcK8+TRXvaK
e+7ZMaQj8VfBdYkssbu0NKDDhjJ+GtiseaDVWt7dcH0cfwxgFUHpQh7FoCrjFJ6h
6ZEpMF6xmujs4qMpPz8aaI4=
-----END PRIVATE KEY-----
";

/// `jws` is what the RFC shows: header, payload and signature.
#[track_caller]
fn check_vector(key: &str, jws: &str) {
    let der = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    let mut parts = jws.split('.').map(|part| BASE64.decode(part).unwrap());
    let made = sign_jws(&key, &parts.next().unwrap(), &parts.next().unwrap()).unwrap();
    assert_eq!(made.expose(), jws);
}

#[test]
fn the_rfcs_signatures_come_out() {
    // RFC 7515, A.2.1
    check_vector(
        RFC_7515,
        concat!(
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        ),
    );
    // RFC 7520, 4.1.3
    check_vector(
        RFC_7520,
        concat!(
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.",
            "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4.",
            "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg",
        ),
    );
}

fn file(fields: &str) -> String {
    let key = RFC_7515.replace('\n', "\\n");
    format!(
        r#"{{"type":"service_account","private_key":"{key}","client_email":"a@p.iam.gserviceaccount.com"{fields}}}"#
    )
}

#[test]
fn an_assertion_says_who_what_and_until_when() {
    #[track_caller]
    fn check(fields: &str, header: &str, claims: &str) {
        let account = ServiceAccount::parse(&file(fields)).unwrap();
        let assertion = account.assertion(1_700_000_000).unwrap();
        let (signed, signature) = assertion.expose().rsplit_once('.').unwrap();
        let key = account.key_pair().unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key());
        public
            .verify(signed.as_bytes(), &BASE64.decode(signature).unwrap())
            .unwrap();
        let texts: Vec<_> = signed
            .split('.')
            .map(|part| String::from_utf8(BASE64.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(texts, [header, claims]);
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
        assert_eq!(
            account.form(1_700_000_000).unwrap().expose(),
            format!("{grant}{}", assertion.expose())
        );
    }
    check(
        r#","private_key_id":"k1","token_uri":"https://token.example/t","project_id":"p","universe_domain":"googleapis.com""#,
        r#"{"alg":"RS256","typ":"JWT","kid":"k1"}"#,
        r#"{"iss":"a@p.iam.gserviceaccount.com","scope":"https://www.googleapis.com/auth/cloud-platform","aud":"https://token.example/t","iat":1700000000,"exp":1700003600}"#,
    );
    check(
        r#","private_key_id":null,"token_uri":"""#,
        r#"{"alg":"RS256","typ":"JWT"}"#,
        r#"{"iss":"a@p.iam.gserviceaccount.com","scope":"https://www.googleapis.com/auth/cloud-platform","aud":"https://oauth2.googleapis.com/token","iat":1700000000,"exp":1700003600}"#,
    );
}

#[test]
fn a_file_keeps_its_project_and_escaped_line_ends() {
    let account = ServiceAccount::parse(&file(r#","project_id":"p-1""#)).unwrap();
    assert_eq!(
        (account.project.as_deref(), account.token_uri.as_str()),
        (Some("p-1"), TOKEN_URI)
    );
    assert_eq!(
        ServiceAccount::parse(&file(r#","project_id":"p-1""#).replace("\\n", "\\\\n")).unwrap(),
        account
    );
}

#[test]
fn the_key_is_never_printed() {
    let account = ServiceAccount::parse(&file("")).unwrap();
    let printed = format!(
        "{account:?} {account:#?} {:?} {:?}",
        account.form(0),
        account.assertion(0)
    );
    assert!(
        !printed.contains("MIIE") && !printed.contains("PRIVATE") && !printed.contains("eyJ"),
        "{printed}"
    );
}

#[test]
fn bad_files_are_refused_without_a_quote() {
    #[track_caller]
    fn check(json: &str, why: &str) {
        assert_eq!(ServiceAccount::parse(json).unwrap_err(), why);
    }
    let form = "the key file is not the JSON of a service account's key";
    check("", form);
    check("[", form);
    check(r#"{"private_key":7}"#, form);
    check(
        r#"{"type":"authorized_user"}"#,
        "the key file is not the key of a service account: its `type` must be `service_account`",
    );
    check("{}", "the key file has no `private_key`");
    check(
        r#"{"private_key":"x"}"#,
        "the key file has no `client_email`",
    );
    let pem = "the `private_key` is not a PKCS #8 key in PEM (`-----BEGIN PRIVATE KEY-----`)";
    check(r#"{"private_key":"x","client_email":"a"}"#, pem);
    check(&file("").replace("PRIVATE KEY", "RSA PRIVATE KEY"), pem);
    check(
        &file("").replace("MIIE", "AAAA"),
        "the `private_key` is not an RSA key of 2048 to 4096 bits",
    );
}

#[test]
fn tokens_are_read() {
    #[track_caller]
    fn check(body: &str, seconds: u64) {
        let token = parse_token(200, None, body.as_bytes()).unwrap();
        assert_eq!(
            (token.access_token.expose(), token.expires_in.as_secs()),
            ("ya29.x", seconds)
        );
        assert!(!format!("{token:?}").contains("ya29"));
    }
    check(
        r#"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#,
        3599,
    );
    check(r#"{"access_token":"ya29.x","expires_in":"3599"}"#, 3599);
    check(r#"{"access_token":"ya29.x"}"#, 3600);
    check(
        r#"{"access_token":"ya29.x","expires_in":9007199254740992}"#,
        86_400,
    );
    check(
        r#"{"access_token":"ya29.x","expires_in":18446744073709551615}"#,
        3600,
    );
}

#[test]
fn refusals_are_read() {
    #[track_caller]
    fn check(status: u16, body: &str, expected: (Option<u16>, Option<&str>, &str)) {
        let error = parse_token(status, None, body.as_bytes()).unwrap_err();
        assert_eq!(
            (error.status, error.code.as_deref(), &*error.message),
            expected
        );
    }
    check(
        400,
        r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#,
        (Some(401), Some("invalid_grant"), "Invalid JWT Signature."),
    );
    check(
        400,
        r#"{"error":"invalid_scope"}"#,
        (Some(401), Some("invalid_scope"), "invalid_scope"),
    );
    check(
        403,
        r#"{"error":{"code":403,"message":"no","status":"PERMISSION_DENIED"}}"#,
        (Some(401), Some("403"), "no"),
    );
    check(
        400,
        r#"{"error":"temporarily_unavailable"}"#,
        (
            Some(503),
            Some("temporarily_unavailable"),
            "temporarily_unavailable",
        ),
    );
    check(
        500,
        r#"{"error":"internal_failure"}"#,
        (Some(503), Some("internal_failure"), "internal_failure"),
    );
    check(429, "", (Some(429), None, "the upstream gave no reason"));
    check(
        503,
        "<html>",
        (Some(503), None, "the upstream answered with a web page"),
    );
    check(302, "", (Some(502), None, "the upstream gave no reason"));
    let none = (
        Some(502),
        None,
        "the answer of the token server holds no token",
    );
    for body in [
        "",
        "{}",
        "null",
        r#"{"access_token":""}"#,
        r#"{"access_token":7}"#,
        r#"{"access_token":"a\r\nb"}"#,
    ] {
        check(200, body, none);
    }
    // No sentence of the server's, and no token.
    let other = (
        Some(502),
        None,
        "the answer of the token server has the status 201, and not 200",
    );
    for body in [
        "",
        r#"{"access_token":"ya29.x"}"#,
        r#"{"error":"no","error_description":"ya29.x is spent"}"#,
    ] {
        check(201, body, other);
    }
}

proptest! {
    #[test]
    fn nothing_panics(at in 0..200usize, byte in any::<u8>(), status in 100..600u16) {
        let mut body = br#"{"access_token":"ya29.x","expires_in":3599,"error":"no","error_description":"x"}"#.to_vec();
        if let Some(place) = body.get_mut(at) {
            *place = byte;
        }
        drop(parse_token(status, None, &body));
        drop(ServiceAccount::parse(&String::from_utf8_lossy(&body)));
    }
}
