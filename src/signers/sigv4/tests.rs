use std::time::Duration;

use super::*;

const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn signer(region: &str, token: Option<&str>) -> Signer {
    let token = token.map(Secret::new);
    Signer::new(region, "AKIDEXAMPLE", &Secret::new(KEY), token.as_ref())
}

/// The signature in `authorization`.
fn signature(headers: &Headers) -> &str {
    let (_, authorization) = headers
        .iter()
        .find(|(name, _)| *name == "authorization")
        .unwrap();
    authorization.expose().rsplit_once("Signature=").unwrap().1
}

/// A case of Amazon's signing test suite: 2015-08-30T12:36:00Z, `service`, `example.amazonaws.com`.
#[track_caller]
fn check_suite(method: &str, path: &str, token: Option<&str>, expected: &str) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
    let request = Unsigned {
        service: "service",
        method,
        host: "example.amazonaws.com",
        path,
        headers: &[],
        body: b"",
    };
    let headers = signer("us-east-1", token).sign(&request, now).unwrap();
    assert_eq!(signature(&headers), expected);
}

#[test]
fn the_test_suite_of_amazon() {
    // get-vanilla
    check_suite(
        "GET",
        "/",
        None,
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    );
    // get-vanilla-with-session-token
    check_suite(
        "GET",
        "/",
        Some("6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"),
        "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
    );
    // post-vanilla, post-vanilla-query
    check_suite(
        "POST",
        "/",
        None,
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    );
    check_suite(
        "POST",
        "/?Param1=value1",
        None,
        "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
    );
    // get-unreserved
    let unreserved = "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    check_suite(
        "GET",
        unreserved,
        None,
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    );
}

/// What botocore's `SigV4Auth` makes of the same requests, at 2026-11-21T06:07:08Z.
#[track_caller]
fn check_botocore(token: Option<&str>, path: &str, body: &str, expected: &str) {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_241_228);
    let host = "bedrock-runtime.us-west-2.amazonaws.com";
    let headers = signer("us-west-2", token)
        .headers(host, path, body.as_bytes(), now)
        .unwrap();
    assert_eq!(signature(&headers), expected);
}

#[test]
fn the_signatures_of_botocore() {
    let profile = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";
    let body = r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#;
    let arn = "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.meta.llama3-3-70b-instruct-v1%3A0/converse";
    check_botocore(
        None,
        profile,
        body,
        "425fad0b9b839aa147c9ab674970109ead8813e2dfa9caa6cc028cfc168a63d7",
    );
    check_botocore(
        None,
        arn,
        r#"{"é":1}"#,
        "edf0de742d867462079449a1fd493b0b821c2e3626fd91101b97e00b91b6d080",
    );
    let token = Some("IQoJb3JpZ2luX2VjEXAMPLE/+==");
    check_botocore(
        token,
        profile,
        body,
        "5dd827b24f5108d95fde876d2984a006f8401b2638194efe4ac1c5a240bacac3",
    );
    check_botocore(
        token,
        arn,
        r#"{"é":1}"#,
        "037123087ba48d62818f96ab3f16e0fb2d044ea28769ad2daec4a30d3b186e2f",
    );
}

#[test]
fn what_is_added() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
    let added = |token| {
        let headers = signer("us-east-1", token)
            .headers("localhost:8080", "/model/m/converse", b"{}", now)
            .unwrap();
        headers
            .into_iter()
            .map(|(name, value)| format!("{name}: {}", value.expose()))
            .collect::<Vec<_>>()
    };
    let scope = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request";
    let [date, authorization] = &added(None)[..] else {
        panic!()
    };
    assert_eq!(date, "x-amz-date: 20150830T123600Z");
    assert!(authorization.starts_with(&format!(
        "authorization: {scope}, SignedHeaders=host;x-amz-date, Signature="
    )));
    let [_, authorization, token] = &added(Some("token"))[..] else {
        panic!()
    };
    assert!(authorization.starts_with(&format!(
        "authorization: {scope}, SignedHeaders=host;x-amz-date;x-amz-security-token, Signature="
    )));
    assert_eq!(token, "x-amz-security-token: token");
}

#[test]
fn what_cannot_be_sent_is_not_signed() {
    let now = SystemTime::UNIX_EPOCH;
    let headers = |token, host, path| {
        signer("us-east-1", token)
            .headers(host, path, b"{}", now)
            .map(drop)
    };
    assert_eq!(headers(Some("a\nb"), "localhost", "/"), Err(Unsignable));
    assert_eq!(headers(None, "local host", "/"), Err(Unsignable));
    assert_eq!(headers(None, "localhost", "/a b"), Err(Unsignable));
    assert_eq!(headers(None, "local\nhost", "/"), Err(Unsignable));
    assert_eq!(headers(None, "localhost", "/"), Ok(()));
}

#[test]
fn s05_a_signer_prints_no_secret() {
    let signer = signer("us-east-1", Some("session-token"));
    assert_eq!(
        format!("{signer:?}"),
        "Signer { region: \"us-east-1\", .. }"
    );
    let headers = signer
        .headers("localhost", "/", b"", SystemTime::UNIX_EPOCH)
        .unwrap();
    assert!(!format!("{headers:?}").contains("session-token"));
}
