use super::*;

/// Fields: status, kind, code, param, message.
#[track_caller]
fn check(body: &str, expected: (Option<u16>, Option<&str>, Option<&str>, Option<&str>, &str)) {
    let error = read_error(body.as_bytes(), Some("application/json"));
    let found = (
        error.status,
        error.kind.as_deref(),
        error.code.as_deref(),
        error.param.as_deref(),
        &*error.message,
    );
    assert_eq!(found, expected, "{body}");
}

#[test]
fn every_shape_is_read() {
    // OpenAI, Azure's filter, vLLM and llama.cpp
    check(
        r#"{"error":{"message":"no","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        (
            None,
            Some("invalid_request_error"),
            Some("context_length_exceeded"),
            Some("messages"),
            "no",
        ),
    );
    check(
        r#"{"error":{"message":"no","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"x"}}}"#,
        (
            Some(400),
            None,
            Some("content_filter"),
            Some("prompt"),
            "no",
        ),
    );
    check(
        r#"{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}"#,
        (Some(400), Some("BadRequestError"), Some("400"), None, "no"),
    );
    check(
        r#"{"error":{"code":400,"message":"no","type":"exceed_context_size_error","n_prompt_tokens":9}}"#,
        (
            Some(400),
            Some("exceed_context_size_error"),
            Some("context_length_exceeded"),
            None,
            "no",
        ),
    );
    // Ollama, TGI, xAI
    check(r#"{"error":"no"}"#, (None, None, None, None, "no"));
    check(
        r#"{"error":"no","error_type":"validation"}"#,
        (None, Some("validation"), None, None, "no"),
    );
    check(
        r#"{"code":"Some words","error":"no"}"#,
        (None, None, Some("Some words"), None, "no"),
    );
    // Mistral
    check(
        r#"{"object":"error","message":"no","type":"invalid_function_call","param":null,"code":"3280"}"#,
        (
            None,
            Some("invalid_function_call"),
            Some("3280"),
            None,
            "no",
        ),
    );
    check(
        r#"{"object":"error","message":{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"no"}]},"type":"x"}"#,
        (None, Some("x"), None, None, "body.messages.0: no"),
    );
    check(
        r#"{"detail":[{"loc":["body","stop"],"msg":"no","type":"t"},{"msg":"nor this"}]}"#,
        (None, None, None, None, "body.stop: no; nor this"),
    );
    check(r#"{"detail":"no"}"#, (None, None, None, None, "no"));
    check(
        r#"{"message":"no","request_id":"r"}"#,
        (None, None, None, None, "no"),
    );
    // API Management, OpenRouter, Gemini, Cerebras, FastChat
    check(
        r#"{"statusCode":401,"message":"no"}"#,
        (Some(401), None, None, None, "no"),
    );
    check(
        r#"{"error":{"code":402,"message":"no","metadata":{"raw":"x"}},"user_id":"u"}"#,
        (Some(402), None, Some("402"), None, "no"),
    );
    check(
        r#"[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]"#,
        (
            Some(429),
            Some("RESOURCE_EXHAUSTED"),
            Some("429"),
            None,
            "no",
        ),
    );
    check(
        r#"{"error":{"message":"no"},"status_code":503}"#,
        (Some(503), None, None, None, "no"),
    );
    check(
        r#"{"error":{"message":"no","code":"503"}}"#,
        (Some(503), None, Some("503"), None, "no"),
    );
    check(
        "\u{FEFF}\n{\"error\":{\"message\":\"no\",\"code\":40303}}",
        (None, None, Some("40303"), None, "no"),
    );
}

#[test]
fn bodies_of_unknown_shape_are_only_logged() {
    for (body, kind, message, excerpt) in [
        ("", None, NO_REASON, None),
        (" \n", None, NO_REASON, None),
        (
            "null",
            None,
            "the upstream's reason is not in a known format",
            Some("null"),
        ),
        ("{}", None, NO_REASON, Some("{}")),
        (r#"{"error":{}}"#, None, NO_REASON, Some(r#"{"error":{}}"#)),
        (
            "<html>\n<b>502</b>",
            None,
            "the upstream answered with a web page",
            Some("<html> <b>502</b>"),
        ),
        (
            "502 Bad\tGateway",
            Some("text/html; charset=utf-8"),
            "the upstream answered with a web page",
            Some("502 Bad Gateway"),
        ),
        (
            "slow down",
            Some("text/plain"),
            "the upstream's reason is not in a known format",
            Some("slow down"),
        ),
        (
            "{\"error\":",
            None,
            "the upstream's reason is not in a known format",
            Some("{\"error\":"),
        ),
    ] {
        let expected = UpstreamError {
            message: message.into(),
            excerpt: excerpt.map(Into::into),
            ..UpstreamError::default()
        };
        assert_eq!(read_error(body.as_bytes(), kind), expected, "{body}");
    }
}

#[test]
fn everything_is_bounded_and_never_fails() {
    let long = "é".repeat(100_000);
    let body = format!(
        r#"{{"error":{{"message":"{long}","type":"{long}","code":"{long}","param":"{long}"}}}}"#
    );
    let bounded = read_error(body.as_bytes(), None);
    assert!(bounded.message.len() <= MAX_MESSAGE + 3 && bounded.message.ends_with("é…"));
    for word in [bounded.kind, bounded.code, bounded.param.map(String::from)] {
        assert!(word.unwrap().len() <= MAX_WORD + 3);
    }
    let odd: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    assert!(read_error(&odd, None).excerpt.unwrap().len() <= MAX_EXCERPT + 3);
    let deep = "[".repeat(100_000);
    assert!(read_error(deep.as_bytes(), None).excerpt.is_some());
}

#[test]
fn answers_and_chunks_hide_no_error() {
    for json in [
        r#"{"choices":[{"message":{"content":"error"},"finish_reason":"stop"}],"error":null}"#,
        r#"{"choices":[{"delta":{"content":"a"},"error":null}]}"#,
        r#"{"choices":[],"message":"not an error: it has choices"}"#,
        r#"{"choices":null,"usage":{"prompt_tokens":1}}"#,
        r#"{"x_groq":{"id":"req"},"choices":[]}"#,
        r#"{"type":"ping"}"#,
        r#"{"model":"m","message":{"role":"assistant","content":"native Ollama"},"done":false}"#,
        "{}",
        "[]",
        "nonsense",
    ] {
        assert_eq!(find_error(json.as_bytes()), None, "{json}");
    }
}

#[test]
fn a_too_long_prompt_is_said_in_one_word() {
    for (status, body) in [
        // OpenAI, vLLM, DeepSeek, OpenRouter
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","code":null}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens","metadata":{"provider_name":null}}}"#,
        ),
        // xAI, Mistral
        (
            400,
            r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Prompt contains 35000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}"#,
        ),
        // llama.cpp, SGLang, TGI, Together, Fireworks, Groq
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size","type":"server_error"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (8192 tokens).","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`","error_type":"validation"}"#,
        ),
        (
            403,
            r#"{"error":{"message":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193.","type":"invalid_request_error","param":"max_tokens","code":null}}"#,
        ),
        (
            400,
            r#"{"error":{"object":"error","type":"invalid_request_error","message":"The prompt is too long: 9000, model maximum context length: 8191"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
    ] {
        let error = read_refusal(&Quirks::NONE, status, body.as_bytes(), None);
        assert_eq!(
            error.code.as_deref(),
            Some("context_length_exceeded"),
            "{body}"
        );
        assert_eq!(error.status.unwrap_or(status), 400, "{body}");
    }
}

#[test]
fn a_filter_is_said_in_one_word() {
    let check = |status: u16, body: &str, code: &str| {
        let error = read_refusal(&Quirks::NONE, status, body.as_bytes(), None);
        assert_eq!(
            (error.status, error.code.as_deref(), error.is_filtered()),
            (Some(400), Some(code), true),
            "{body}"
        );
    };
    for (status, body) in [
        // OpenAI, Azure, and who stands between it and us
        (
            400,
            r#"{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt: https://x","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
        ),
        (
            500,
            r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"500"}}"#,
        ),
        // xAI, DeepSeek, OpenRouter, and Anthropic behind others
        (
            403,
            r#"{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Team: x, API key ID: y, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO"}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Content Exists Risk","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
        ),
        (400, r#"{"detail":"Content Exists Risk"}"#),
        (
            403,
            r#"{"error":{"code":403,"message":"Input was flagged","metadata":{"flagged_input":"…"}}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Output blocked by content filtering policy","type":"invalid_request_error"}}"#,
        ),
        // Moonshot, Alibaba, Zhipu
        (
            400,
            r#"{"error":{"code":400,"message":"The request was rejected because it was considered high risk","param":"prompt","type":"content_filter"}}"#,
        ),
        (
            400,
            r#"{"error":{"code":"data_inspection_failed","param":null,"message":"Input data may contain inappropriate content.","type":"data_inspection_failed"}}"#,
        ),
        (
            400,
            r#"{"contentFilter":[{"level":1,"role":"user"}],"error":{"code":"1301","message":"no"}}"#,
        ),
    ] {
        check(status, body, "content_filter");
    }
    check(
        400,
        r#"{"error":{"message":"no","type":"invalid_request_error","code":"content_policy_violation"}}"#,
        "content_policy_violation",
    );
    // A quotation in a message is no filter's word.
    for body in [
        r#"{"error":{"message":"Unknown value: 'Content Exists Risk'","type":"invalid_request_error","code":"invalid_value"}}"#,
        r#"{"error":{"message":"no","type":"invalid_request_error","code":"invalid_prompt"},"contentFilter":null}"#,
    ] {
        assert!(
            !read_refusal(&Quirks::NONE, 400, body.as_bytes(), None).is_filtered(),
            "{body}"
        );
    }
}

/// Checks the class of an error with this status and this body.
#[track_caller]
fn check_class(quirks: &Quirks, status: u16, body: &str, class: u16) {
    assert_eq!(
        read_refusal(quirks, status, body.as_bytes(), None)
            .status
            .unwrap_or(status),
        class,
        "{body}"
    );
}

#[test]
fn statuses_are_what_they_mean() {
    use crate::upstream::quirks::{GROQ, XAI};
    let key = r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: na***ys. You can obtain an API key from https://console.x.ai."}"#;
    check_class(&XAI, 400, key, 401);
    check_class(
        &XAI,
        400,
        r#"{"code":"Client specified an invalid argument","error":"Argument not supported on this model: stop"}"#,
        400,
    );
    check_class(
        &GROQ,
        498,
        r#"{"error":{"message":"Flex tier capacity exceeded","type":"capacity","code":"capacity_exceeded"}}"#,
        503,
    );
    check_class(&Quirks::NONE, 498, "{}", 498);
    let flagged = r#"{"error":{"code":403,"message":"Input was flagged","metadata":{"reasons":["violence"],"flagged_input":"…","provider_name":"p"}}}"#;
    check_class(&Quirks::NONE, 403, flagged, 400);
    check_class(
        &Quirks::NONE,
        403,
        r#"{"error":{"code":403,"message":"Key limit exceeded"}}"#,
        403,
    );
    check_class(
        &Quirks::NONE,
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}"#,
        402,
    );
    check_class(
        &Quirks::NONE,
        401,
        "<html><head><title>401 Authorization Required</title></head></html>",
        401,
    );
    check_class(
        &Quirks::NONE,
        429,
        r#"{"error":"Model is overloaded","error_type":"overloaded"}"#,
        429,
    );
    check_class(
        &Quirks::NONE,
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        503,
    );
}

#[test]
fn waits_are_read_from_words() {
    for (words, millis) in [
        ("Please retry after 6 seconds.", Some(6_000)),
        (
            "Rate limit reached. Please try again in 7.66s. Visit x",
            Some(7_660),
        ),
        ("Please try again in 20ms.", Some(20)),
        ("Please try again in 6s. however you ask", Some(6_000)),
        ("Please retry after 6 seconds. see the docs", Some(6_000)),
        ("Please try again in 1m2.5s.", Some(62_500)),
        ("Please try again in 2h0m1s", Some(7_201_000)),
        ("Please retry after 1 minute", Some(60_000)),
        ("Please retry after 900000000000 hours", Some(86_400_000)),
        ("Please retry after 1.2.3 seconds", None),
        ("Please retry after a while", None),
        ("Please try again in 7", None),
        ("Please retry after ", None),
        ("Try later", None),
    ] {
        assert_eq!(
            read_wait(words),
            millis.map(Duration::from_millis),
            "{words}"
        );
    }
}
