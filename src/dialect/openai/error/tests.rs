use super::*;

/// Fields: status, kind, code, param, message.
#[track_caller]
fn check(body: &str, expected: (Option<u16>, Option<&str>, Option<&str>, Option<&str>, &str)) {
    let error = error(body.as_bytes(), Some("application/json"));
    let found = (error.status, error.kind.as_deref(), error.code.as_deref(), error.param.as_deref(), &*error.message);
    assert_eq!(found, expected, "{body}");
}

#[test]
fn every_shape_is_read() {
    // OpenAI, Azure's filter, vLLM and llama.cpp
    check(
        r#"{"error":{"message":"no","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        (None, Some("invalid_request_error"), Some("context_length_exceeded"), Some("messages"), "no"),
    );
    check(
        r#"{"error":{"message":"no","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"x"}}}"#,
        (Some(400), None, Some("content_filter"), Some("prompt"), "no"),
    );
    check(
        r#"{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}"#,
        (Some(400), Some("BadRequestError"), Some("400"), None, "no"),
    );
    check(
        r#"{"error":{"code":400,"message":"no","type":"exceed_context_size_error","n_prompt_tokens":9}}"#,
        (Some(400), Some("exceed_context_size_error"), Some("context_length_exceeded"), None, "no"),
    );
    // Ollama, TGI, xAI
    check(r#"{"error":"no"}"#, (None, None, None, None, "no"));
    check(r#"{"error":"no","error_type":"validation"}"#, (None, Some("validation"), None, None, "no"));
    check(r#"{"code":"Some words","error":"no"}"#, (None, None, Some("Some words"), None, "no"));
    // Mistral
    check(
        r#"{"object":"error","message":"no","type":"invalid_function_call","param":null,"code":"3280"}"#,
        (None, Some("invalid_function_call"), Some("3280"), None, "no"),
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
    check(r#"{"message":"no","request_id":"r"}"#, (None, None, None, None, "no"));
    // API Management, OpenRouter, Gemini, Cerebras, FastChat
    check(r#"{"statusCode":401,"message":"no"}"#, (Some(401), None, None, None, "no"));
    check(r#"{"error":{"code":402,"message":"no","metadata":{"raw":"x"}},"user_id":"u"}"#, (Some(402), None, Some("402"), None, "no"));
    check(
        r#"[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]"#,
        (Some(429), Some("RESOURCE_EXHAUSTED"), Some("429"), None, "no"),
    );
    check(r#"{"error":{"message":"no"},"status_code":503}"#, (Some(503), None, None, None, "no"));
    check(r#"{"error":{"message":"no","code":"503"}}"#, (Some(503), None, Some("503"), None, "no"));
    check("\u{FEFF}\n{\"error\":{\"message\":\"no\",\"code\":40303}}", (None, None, Some("40303"), None, "no"));
}

#[test]
fn bodies_of_no_known_shape_are_for_the_log_only() {
    for (body, kind, message, excerpt) in [
        ("", None, NO_REASON, None),
        (" \n", None, NO_REASON, None),
        ("null", None, "the upstream's reason is not in a known format", Some("null")),
        ("{}", None, NO_REASON, Some("{}")),
        (r#"{"error":{}}"#, None, NO_REASON, Some(r#"{"error":{}}"#)),
        ("<html>\n<b>502</b>", None, "the upstream answered with a web page", Some("<html> <b>502</b>")),
        ("502 Bad\tGateway", Some("text/html; charset=utf-8"), "the upstream answered with a web page", Some("502 Bad Gateway")),
        ("slow down", Some("text/plain"), "the upstream's reason is not in a known format", Some("slow down")),
        ("{\"error\":", None, "the upstream's reason is not in a known format", Some("{\"error\":")),
    ] {
        let expected = UpstreamError { message: message.into(), excerpt: excerpt.map(Into::into), ..UpstreamError::default() };
        assert_eq!(error(body.as_bytes(), kind), expected, "{body}");
    }
}

#[test]
fn everything_is_bounded_and_never_fails() {
    let long = "é".repeat(100_000);
    let body = format!(r#"{{"error":{{"message":"{long}","type":"{long}","code":"{long}","param":"{long}"}}}}"#);
    let bounded = error(body.as_bytes(), None);
    assert!(bounded.message.len() <= MAX_MESSAGE + 3 && bounded.message.ends_with("é…"));
    for word in [bounded.kind, bounded.code, bounded.param] {
        assert!(word.unwrap().len() <= MAX_WORD + 3);
    }
    let odd: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    assert!(error(&odd, None).excerpt.unwrap().len() <= MAX_EXCERPT + 3);
    let deep = "[".repeat(100_000);
    assert!(error(deep.as_bytes(), None).excerpt.is_some());
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
        assert_eq!(hidden(json.as_bytes()), None, "{json}");
    }
}
