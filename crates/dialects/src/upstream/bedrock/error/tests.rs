use super::*;

/// Class, type, code and message.
#[track_caller]
fn check(
    status: u16,
    errortype: Option<&str>,
    body: &str,
    expected: (Option<u16>, Option<&str>, Option<&str>, &str),
) {
    let error = read_error(status, errortype, Some("application/json"), body.as_bytes());
    assert_eq!(
        (
            error.status,
            error.kind.as_deref(),
            error.code.as_deref(),
            &*error.message
        ),
        expected
    );
}

const NO: &str = r#"{"message":"no"}"#;

#[test]
fn every_exception_has_a_class() {
    for (status, name, class) in [
        (403, "AccessDeniedException", 403),
        (403, "UnrecognizedClientException", 401),
        (403, "InvalidSignatureException", 401),
        (403, "ExpiredTokenException", 401),
        (403, "IncompleteSignatureException", 401),
        (403, "MissingAuthenticationTokenException", 401),
        (404, "ResourceNotFoundException", 404),
        (404, "UnknownOperationException", 404),
        (400, "ValidationException", 400),
        (400, "ServiceQuotaExceededException", 429),
        (429, "ThrottlingException", 429),
        (429, "TooManyRequestsException", 429),
        (429, "ModelNotReadyException", 503),
        (408, "ModelTimeoutException", 504),
        (424, "ModelErrorException", 502),
        (424, "ModelStreamErrorException", 502),
        (500, "InternalServerException", 500),
        (503, "ServiceUnavailableException", 503),
    ] {
        check(
            status,
            Some(name),
            NO,
            (Some(class), Some(name), None, "no"),
        );
        let with_address = format!("{name}:http://internal.amazon.com/coral/com.amazon.bedrock/");
        check(
            status,
            Some(&with_address),
            NO,
            (Some(class), Some(name), None, "no"),
        );
        let in_body = format!(r#"{{"__type":"com.amazon.bedrock#{name}","message":"no"}}"#);
        check(
            status,
            None,
            &in_body,
            (Some(class), Some(name), None, "no"),
        );
    }
}

#[test]
fn quotes_in_messages_do_not_speak_for_accounts() {
    for quoted in [
        "Authentication failed: Please make sure your API Key is valid.",
        "Bearer Token has expired",
        "The security token included in the request is expired",
        "The request signature we calculated does not match",
        "Model access is denied due to INVALID_PAYMENT_INSTRUMENT",
        "Your account is not authorized",
        "Operation not allowed",
        "The provided model identifier is invalid.",
        "Invocation of model ID x with on-demand throughput",
    ] {
        let message = format!("The value `{quoted}` at 'messages' is not valid");
        let body = serde_json::json!({ "message": message }).to_string();
        for (status, name, class) in [
            (400, "ValidationException", 400),
            (403, "AccessDeniedException", 403),
            (500, "InternalFailure", 500),
        ] {
            check(
                status,
                Some(name),
                &body,
                (Some(class), Some(name), None, &message),
            );
        }
        check(403, None, &body, (None, None, None, &message));
    }
    // Nor is a fault of theirs the caller's, whatever it quotes.
    let body = r#"{"message":"no: prompt is too long"}"#;
    check(
        424,
        Some("ModelErrorException"),
        body,
        (
            Some(502),
            Some("ModelErrorException"),
            None,
            "no: prompt is too long",
        ),
    );
}

#[test]
fn only_the_name_of_an_error_is_shown() {
    for name in [
        "sk-secret",
        "AKIASECRET",
        "Bearer",
        "ExceptionSecret",
        "x",
        &"E".repeat(65),
    ] {
        check(403, Some(name), NO, (None, None, None, "no"));
        check(
            400,
            Some(name),
            r#"{"__type":"x#ValidationException","message":"no"}"#,
            (Some(400), Some("ValidationException"), None, "no"),
        );
        check(
            403,
            None,
            &format!(r#"{{"__type":"{name}","message":"no"}}"#),
            (None, None, None, "no"),
        );
        let Some(StreamFault::Upstream(error)) =
            event_error(format!("exception/{name}").as_bytes(), NO.as_bytes())
        else {
            panic!()
        };
        assert_eq!((error.status, error.kind), (Some(502), None));
    }
    for name in ["NewError", "SomeFault", "AccessDenied"] {
        check(418, Some(name), NO, (None, Some(name), None, "no"));
    }
    check(
        403,
        Some("ExpiredToken"),
        NO,
        (Some(401), Some("ExpiredToken"), None, "no"),
    );
}

#[test]
fn without_a_name_the_status_counts() {
    check(418, None, NO, (None, None, None, "no"));
    check(
        418,
        Some("NewException"),
        NO,
        (None, Some("NewException"), None, "no"),
    );
    check(424, None, NO, (Some(502), None, None, "no"));
    check(408, None, NO, (Some(504), None, None, "no"));
    check(403, None, NO, (None, None, None, "no"));
    check(429, Some(""), NO, (None, None, None, "no"));
}

#[test]
fn messages_are_where_amazon_puts_them() {
    check(
        403,
        None,
        r#"{"Message":"a\nb"}"#,
        (None, None, None, "a b"),
    );
    check(
        403,
        None,
        r#"{"message":"a","Message":"b"}"#,
        (None, None, None, "a"),
    );
    check(
        403,
        None,
        r#"{"message":"","Message":"b"}"#,
        (None, None, None, "b"),
    );
    check(
        424,
        None,
        r#"{"originalMessage":"b","originalStatusCode":400,"resourceName":"r"}"#,
        (Some(502), None, None, "b"),
    );
    check(
        500,
        None,
        "{}",
        (None, None, None, "the upstream gave no reason"),
    );
    check(
        500,
        None,
        "",
        (None, None, None, "the upstream gave no reason"),
    );
    check(
        502,
        None,
        "<html>bad</html>",
        (None, None, None, "the upstream answered with a web page"),
    );
    let long = format!(r#"{{"Message":"{}"}}"#, "é".repeat(5000));
    let error = read_error(400, None, None, long.as_bytes());
    assert_eq!((error.message.chars().count(), error.excerpt), (1024, None));
}

#[test]
fn a_filter_is_the_callers_matter() {
    for (status, name, message) in [
        (
            400,
            "ValidationException",
            "The model returned the following errors: Output blocked by content filtering policy",
        ),
        (
            424,
            "ModelErrorException",
            "Output blocked by content filtering policy",
        ),
        (
            400,
            "ValidationException",
            "This request has been blocked by our content filters. Please adjust your text prompt.",
        ),
    ] {
        let body = serde_json::json!({ "message": message }).to_string();
        check(
            status,
            Some(name),
            &body,
            (Some(400), Some(name), Some("content_filter"), message),
        );
        let fault = event_error(format!("exception/{name}").as_bytes(), body.as_bytes());
        let Some(StreamFault::Upstream(error)) = fault else {
            panic!()
        };
        assert!(error.is_filtered() && error.status == Some(400));
    }
    let quoted = "The value `Output blocked by content filtering policy` is not valid";
    let body = serde_json::json!({ "message": quoted }).to_string();
    check(
        400,
        Some("ValidationException"),
        &body,
        (Some(400), Some("ValidationException"), None, quoted),
    );
}

#[test]
fn some_words_decide() {
    for message in [
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum",
        "The model returned the following errors: input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000",
        "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        "Too many input tokens. Max input tokens: 8192, request input token count: 9000",
        "This model's maximum context length is 32768 tokens. Please reduce the length of the prompt",
    ] {
        let body = format!(r#"{{"message":"{message}"}}"#);
        let expected = (
            Some(400),
            Some("ValidationException"),
            Some("context_length_exceeded"),
            message,
        );
        check(400, Some("ValidationException"), &body, expected);
        check(400, None, &body, (expected.0, None, expected.2, expected.3));
        let fault = event_error(b"exception/validationException", body.as_bytes());
        let Some(StreamFault::Upstream(error)) = fault else {
            panic!()
        };
        assert_eq!(
            (error.status, error.code.as_deref()),
            (Some(400), Some("context_length_exceeded"))
        );
    }
    for (status, name, message, class) in [
        (
            403,
            "AccessDeniedException",
            "Authentication failed: Please make sure your API Key is valid.",
            401,
        ),
        (
            403,
            "AccessDeniedException",
            "Bearer Token has expired",
            401,
        ),
        (
            403,
            "",
            "The security token included in the request is expired",
            401,
        ),
        (
            403,
            "",
            "The request signature we calculated does not match the signature you provided.",
            401,
        ),
        (
            403,
            "AccessDeniedException",
            "You don't have access to the model with the specified model ID.",
            403,
        ),
        (
            403,
            "AccessDeniedException",
            "Model access is denied due to INVALID_PAYMENT_INSTRUMENT:A valid payment instrument must be provided.",
            402,
        ),
        (
            400,
            "ValidationException",
            "Your account is not authorized to invoke this API operation.",
            403,
        ),
        (400, "ValidationException", "Operation not allowed", 403),
        (
            400,
            "ValidationException",
            "The provided model identifier is invalid.",
            404,
        ),
        (
            400,
            "ValidationException",
            "Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile.",
            404,
        ),
        (
            400,
            "ValidationException",
            "The text field in the ContentBlock object at messages.0.content.0 is blank.",
            400,
        ),
    ] {
        let body = serde_json::json!({ "message": message }).to_string();
        let kind = Some(name).filter(|name| !name.is_empty());
        check(status, kind, &body, (Some(class), kind, None, message));
    }
}
