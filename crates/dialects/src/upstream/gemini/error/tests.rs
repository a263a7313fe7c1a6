use proptest::prelude::*;

use super::*;

/// Status, code, when to come back (ms), and the message.
#[track_caller]
fn check(body: &str, expected: (Option<u16>, Option<&str>, Option<u128>, &str)) {
    let error = read_error(400, Some("application/json"), body.as_bytes());
    let wait = error.retry_after.map(|wait| wait.as_millis());
    assert_eq!(
        (error.status, error.code.as_deref(), wait, &*error.message),
        expected,
        "{body}"
    );
}

fn body(code: u16, status: &str, message: &str, details: &str) -> String {
    format!(
        r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}","details":[{details}]}}}}"#
    )
}

#[test]
fn every_status() {
    for (status, http, class, code) in [
        ("INVALID_ARGUMENT", 400, 400, None),
        ("FAILED_PRECONDITION", 400, 400, None),
        ("OUT_OF_RANGE", 400, 400, None),
        ("UNAUTHENTICATED", 401, 401, None),
        ("PERMISSION_DENIED", 403, 403, None),
        ("NOT_FOUND", 404, 404, Some("model_not_found")),
        ("ABORTED", 409, 409, None),
        ("ALREADY_EXISTS", 409, 409, None),
        ("RESOURCE_EXHAUSTED", 429, 429, Some("rate_limit_exceeded")),
        ("CANCELLED", 499, 500, None),
        ("INTERNAL", 500, 500, None),
        ("UNKNOWN", 500, 500, None),
        ("DATA_LOSS", 500, 500, None),
        ("UNIMPLEMENTED", 501, 404, None),
        ("UNAVAILABLE", 503, 503, None),
        ("DEADLINE_EXCEEDED", 504, 504, None),
    ] {
        check(
            &body(http, status, "no", ""),
            (Some(class), code, None, "no"),
        );
        let alone = format!(r#"[{{"error":{{"message":"no","status":"{status}"}}}}]"#);
        check(&alone, (Some(class), code, None, "no"));
        assert_eq!(
            read_error(http, None, alone.as_bytes()).kind.as_deref(),
            Some(status)
        );
    }
    check(
        r#"{"error":{"code":418,"message":"no","status":"NEW"}}"#,
        (Some(418), None, None, "no"),
    );
    check(r#"{"error":{"message":"no"}}"#, (None, None, None, "no"));
    check(r#"{"error":"no"}"#, (None, None, None, "no"));
}

#[test]
fn a_bad_key_is_a_matter_of_the_credential() {
    let info = r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}"#;
    check(
        &body(400, "INVALID_ARGUMENT", "no", info),
        (Some(401), None, None, "no"),
    );
    for message in [
        "API key not valid. Please pass a valid API key.",
        "API key expired. Please renew the API key.",
        "API Key not found.",
    ] {
        check(
            &body(400, "INVALID_ARGUMENT", message, ""),
            (Some(401), None, None, message),
        );
    }
    let leaked = "Your API key was reported as leaked. Please use another API key.";
    check(
        &body(403, "PERMISSION_DENIED", leaked, ""),
        (Some(401), None, None, leaked),
    );
}

#[test]
fn what_is_refused_here_may_be_served_elsewhere() {
    let place = "User location is not supported for the API use.";
    check(
        &body(400, "FAILED_PRECONDITION", place, ""),
        (Some(403), None, None, place),
    );
    let project = "Project `1` is not allowed to use Publisher Model `m`";
    check(
        &body(400, "FAILED_PRECONDITION", project, ""),
        (Some(403), None, None, project),
    );
    let billing = "Please enable billing on project #1.";
    check(
        &body(400, "FAILED_PRECONDITION", billing, ""),
        (Some(402), None, None, billing),
    );
    let info =
        r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED"}"#;
    check(
        &body(403, "PERMISSION_DENIED", "no", info),
        (Some(402), None, None, "no"),
    );
}

#[test]
fn quotes_in_messages_do_not_speak_for_accounts() {
    for quoted in [
        "API key not valid",
        "API key expired",
        "Your API key was reported as leaked.",
        "User location is not supported",
        "Project `1` is not allowed to use x",
        "Please enable billing",
    ] {
        let message = format!("Invalid value at 'contents[0].parts[0]': {quoted}");
        for (http, status) in [
            (400, "INVALID_ARGUMENT"),
            (403, "PERMISSION_DENIED"),
            (500, "INTERNAL"),
        ] {
            check(
                &body(http, status, &message, ""),
                (Some(http), None, None, &message),
            );
        }
    }
    // Nor is a fault of theirs the caller's, whatever it quotes.
    let message = "Internal: 'the token count exceeds'";
    check(
        &body(500, "INTERNAL", message, ""),
        (Some(500), None, None, message),
    );
}

#[test]
fn a_prompt_too_long_is_said_so() {
    let long =
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    check(
        &body(400, "INVALID_ARGUMENT", long, ""),
        (Some(400), Some("context_length_exceeded"), None, long),
    );
}

#[test]
fn quotas_and_delays() {
    let wait = |delay: &str| {
        format!(r#"{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{delay}}}"#)
    };
    let rate = |delay, millis| {
        check(
            &body(429, "RESOURCE_EXHAUSTED", "no", &wait(delay)),
            (Some(429), Some("rate_limit_exceeded"), millis, "no"),
        )
    };
    rate(r#""37s""#, Some(37_000));
    rate(r#""0.5s""#, Some(500));
    rate(r#""3.250000001s""#, Some(3_250));
    rate(r#"{"seconds":"7","nanos":500000000}"#, Some(7_500));
    rate(r#"{"seconds":7}"#, Some(7_000));
    rate("7", Some(7_000));
    rate(r#""-1s""#, Some(0));
    rate(r#""1e300s""#, Some(604_800_000));
    rate(r#""NaNs""#, None);
    rate(r#""soon""#, None);
    rate("null", None);
    rate(r#"{"seconds":"x"}"#, None);

    let quota = |id: &str| {
        format!(
            r#"{{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{{"quotaId":"{id}","quotaValue":"50"}}]}}"#
        )
    };
    let minute = [
        quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
        wait(r#""37s""#),
    ]
    .join(",");
    check(
        &body(429, "RESOURCE_EXHAUSTED", "no", &minute),
        (Some(429), Some("rate_limit_exceeded"), Some(37_000), "no"),
    );
    let day = [
        quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        wait(r#""37s""#),
    ]
    .join(",");
    check(
        &body(429, "RESOURCE_EXHAUSTED", "no", &day),
        (Some(429), Some("insufficient_quota"), None, "no"),
    );
    check(
        &format!("[{}]", body(429, "RESOURCE_EXHAUSTED", "no", &day)),
        (Some(429), Some("insufficient_quota"), None, "no"),
    );
}

#[test]
fn bodies_of_no_known_shape() {
    let page = read_error(404, Some("text/html"), b"<html>404</html>");
    assert_eq!(
        (page.status, &*page.message),
        (None, "the upstream answered with a web page")
    );
    assert_eq!(
        read_error(500, None, b"").message,
        "the upstream gave no reason"
    );
    assert_eq!(read_error(500, None, b"[[]]").status, None);
}

#[test]
fn a_models_words_are_logged_shortly() {
    let error = unfinished_answer("MALFORMED_FUNCTION_CALL", Some(&"é".repeat(10_000)));
    assert_eq!(error.excerpt.map(|text| text.len()), Some(MAX_DETAILS));
    assert_eq!(
        error.message,
        "the model did not finish its answer (MALFORMED_FUNCTION_CALL)"
    );
}

proptest! {
    #[test]
    fn nothing_panics(cut in 0..400usize, at in 0..400usize, byte in any::<u8>()) {
        let good = body(429, "RESOURCE_EXHAUSTED", "no é", r#"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"PerDay"}]},{"@type":"google.rpc.RetryInfo","retryDelay":"3s"}"#);
        let mut bytes = good.into_bytes();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        bytes.truncate(cut.max(1));
        let _ = read_error(429, None, &bytes);
    }
}
