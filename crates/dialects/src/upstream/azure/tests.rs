use super::*;
use crate::dialect::Stream;
use crate::front::CHAT;
use crate::neutral::{Answer, AnswerHeader, Refused, StreamFault};
use crate::upstream::openai::{WriteTarget, correct_answer, write_request};
use bytes::Bytes;
use std::time::Duration;

#[test]
fn addresses() {
    for (version, model, expected) in [
        (None, "gpt-5", "/openai/v1/chat/completions"),
        (
            Some("preview"),
            "gpt-5",
            "/openai/v1/chat/completions?api-version=preview",
        ),
        (
            Some("2024-10-21"),
            "gpt-4o",
            "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
        ),
        (
            Some("2025-04-01-preview"),
            "gpt-4o",
            "/openai/deployments/gpt-4o/chat/completions?api-version=2025-04-01-preview",
        ),
        (
            Some("2024-10-21&x=é"),
            "a/b c?d%é",
            "/openai/deployments/a%2Fb%20c%3Fd%25%C3%A9/chat/completions?api-version=2024-10-21%26x%3D%C3%A9",
        ),
        (
            Some("2024-10-21"),
            "..",
            "/openai/deployments/__/chat/completions?api-version=2024-10-21",
        ),
        (Some(""), "m", "/openai/v1/chat/completions?api-version=_"),
    ] {
        assert_eq!(chat_path(Endpoint::Chat, version, model), expected);
    }
}

#[track_caller]
fn check(version: &str, before: &str, after: &str, losses: &str) {
    let [before, after] = [before, after]
        .map(|fields| format!(r#"{{"model":"m","messages":[{{"role":"user"}}]{fields}}}"#));
    let envelope = CHAT.envelope(before.as_bytes()).unwrap();
    let to = WriteTarget {
        model: "m",
        ask_usage: true,
        fill_max_tokens: None,
        quirks: version_quirks(Some(version)),
    };
    let (parts, lost) = write_request(&Bytes::from(before.clone()), &envelope, &to).unwrap();
    assert_eq!(
        String::from_utf8(parts.concat()).unwrap(),
        after,
        "{version}: {before}"
    );
    assert_eq!(lost.names().join(" "), losses, "{version}: {before}");
}

#[test]
fn old_versions_are_asked_for_what_they_know() {
    let limit = r#","max_completion_tokens":5"#;
    for version in [
        "2023-05-15",
        "2024-02-15-preview",
        "2024-06-01",
        "2024-08-01-preview",
    ] {
        check(version, limit, r#","max_tokens":5"#, "");
        check(
            version,
            r#","stream":true,"stream_options":{"include_usage":true}"#,
            r#","stream":true"#,
            "",
        );
        check(
            version,
            r#","parallel_tool_calls":false"#,
            "",
            "parallel_tool_calls",
        );
        check(
            version,
            r#","reasoning_effort":"low","user":"u""#,
            r#","user":"u""#,
            "reasoning_effort",
        );
    }
    for version in ["2024-09-01-preview", "2024-10-21"] {
        check(version, limit, limit, "");
        check(
            version,
            r#","reasoning_effort":"low","store":false,"metadata":{"a":"b"}"#,
            "",
            "reasoning_effort metadata",
        );
        let streamed = r#","stream":true,"stream_options":{"include_usage":true}"#;
        check(version, streamed, streamed, "");
    }
    let all = r#","reasoning_effort":"low","max_completion_tokens":5,"store":true,"modalities":["audio"]"#;
    for version in [
        "2024-12-01-preview",
        "2025-04-01-preview",
        "preview",
        "v1",
        "2024-6-1",
    ] {
        check(version, all, all, "");
    }
    assert_eq!(version_quirks(None), &Quirks::NONE);
}

#[test]
fn old_versions_know_no_schemas() {
    let body = Bytes::from_static(
        br#"{"model":"m","messages":[{}],"response_format":{"type":"json_schema","json_schema":{}}}"#,
    );
    let envelope = CHAT.envelope(&body).unwrap();
    for (version, is_refused) in [
        ("2024-06-01", true),
        ("2024-08-01-preview", false),
        ("2024-10-21", false),
    ] {
        let to = WriteTarget {
            model: "m",
            ask_usage: false,
            fill_max_tokens: None,
            quirks: version_quirks(Some(version)),
        };
        assert_eq!(
            matches!(
                write_request(&body, &envelope, &to),
                Err(Refused::Unsupported(_))
            ),
            is_refused,
            "{version}"
        );
    }
}

fn header(show_usage: bool) -> AnswerHeader {
    AnswerHeader {
        model: "fast".into(),
        id: "chatcmpl-0a".into(),
        created: 7,
        show_usage,
        prompt_bytes: 400,
        ..AnswerHeader::default()
    }
}

/// The events of a stream, without their frames.
fn streamed(show_usage: bool, events: &[&str]) -> (Vec<String>, Result<(), StreamFault>) {
    let mut stream = Stream::passed(&header(show_usage), &Quirks::NONE, true, 1 << 20);
    let mut out = Vec::new();
    let mut result = Ok(());
    for event in events {
        result =
            result.and_then(|()| stream.feed(format!("data: {event}\n\n").as_bytes(), &mut out));
    }
    result = result.and_then(|()| stream.finish(&mut out, None).map(drop));
    let out = String::from_utf8(out).unwrap();
    (
        out.split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
            .collect(),
        result,
    )
}

const PROMPT_FILTER: &str = r#"{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":false,"detected":false}}}]}"#;
const SAFE: &str = r#""content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"self_harm":{"filtered":false,"severity":"safe"}}"#;

/// Returns a chunk of the model's with this choice.
fn chunk(choice: &str) -> String {
    format!(
        r#"{{"choices":[{{{choice},"index":0,"logprobs":null}}],"created":1700000000,"id":"chatcmpl-az","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","system_fingerprint":"fp_1"}}"#
    )
}

#[test]
fn the_first_chunk_is_swallowed_with_its_head() {
    let [role, text, end] = [
        r#""content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null"#
            .to_owned(),
        format!(r#"{SAFE},"delta":{{"content":"Hi"}},"finish_reason":null"#),
        r#""content_filter_results":{},"delta":{},"finish_reason":"stop""#.to_owned(),
    ]
    .map(|choice| chunk(&choice));
    let usage = r#"{"choices":[],"created":1700000000,"id":"chatcmpl-az","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","system_fingerprint":"fp_1","usage":{"completion_tokens":1,"prompt_tokens":9,"total_tokens":10}}"#;
    let (out, result) = streamed(
        false,
        &[PROMPT_FILTER, &role, &text, &text, &end, usage, "[DONE]"],
    );
    assert_eq!(result, Ok(()));
    let ours = |chunk: &str| chunk.replace("gpt-4o-2024-08-06", "fast");
    assert_eq!(
        out,
        [
            ours(&role),
            ours(&text),
            ours(&text),
            ours(&end),
            "[DONE]".to_owned()
        ]
    );

    let (out, _) = streamed(true, &[PROMPT_FILTER, &role, &end, usage, "[DONE]"]);
    let with_null = |chunk: &str| ours(chunk).replacen('{', r#"{"usage":null,"#, 1);
    assert_eq!(
        out,
        [
            with_null(&role),
            with_null(&end),
            ours(usage),
            "[DONE]".to_owned()
        ]
    );
}

/// The asynchronous filter speaks between the model's chunks and after them, with an empty head and
/// no delta.
#[test]
fn chunks_of_the_asynchronous_filter_follow_the_head() {
    let role = chunk(r#""delta":{"content":"","role":"assistant"},"finish_reason":null"#);
    let text = chunk(r#""delta":{"content":"Hi"},"finish_reason":null"#);
    let end = chunk(r#""delta":{},"finish_reason":"stop""#);
    let filter = |finish: &str, results: &str| {
        format!(
            r#"{{"id":"","object":"","created":0,"model":"","choices":[{{"index":0,"finish_reason":{finish},{results},"content_filter_raw":[],"content_filter_offsets":{{"check_offset":44,"start_offset":44,"end_offset":198}}}}],"usage":null}}"#
        )
    };
    let shown = |finish: &str, results: &str| {
        format!(
            r#"{{"id":"chatcmpl-az","object":"chat.completion.chunk","created":1700000000,"model":"fast","choices":[{{"delta":{{}},"index":0,"finish_reason":{finish},{results},"content_filter_raw":[],"content_filter_offsets":{{"check_offset":44,"start_offset":44,"end_offset":198}}}}]}}"#
        )
    };
    let ours = |chunk: &str| chunk.replace("gpt-4o-2024-08-06", "fast");

    let (out, result) = streamed(
        false,
        &[
            PROMPT_FILTER,
            &role,
            &text,
            &filter("null", SAFE),
            &text,
            &end,
            &filter("null", SAFE),
            "[DONE]",
        ],
    );
    assert_eq!(result, Ok(()));
    let safe = shown("null", SAFE);
    assert_eq!(
        out,
        [
            ours(&role),
            ours(&text),
            safe.clone(),
            ours(&text),
            safe,
            ours(&end),
            "[DONE]".to_owned()
        ]
    );

    // The last chunk has the reason, though the model had ended before.
    let found =
        r#""content_filter_results":{"protected_material_text":{"detected":true,"filtered":true}}"#;
    let (out, result) = streamed(
        false,
        &[
            PROMPT_FILTER,
            &role,
            &text,
            &end,
            &filter(r#""content_filter""#, found),
            "[DONE]",
        ],
    );
    assert_eq!(result, Ok(()));
    assert_eq!(
        out,
        [
            ours(&role),
            ours(&text),
            shown(r#""content_filter""#, found),
            "[DONE]".to_owned()
        ]
    );
}

#[test]
fn a_whole_answer_keeps_what_the_filter_says() {
    let body = format!(
        r#"{{"choices":[{{{SAFE},"finish_reason":"content_filter","index":0,"logprobs":null,"message":{{"content":"Hi","refusal":null,"role":"assistant"}}}}],"created":1700000000,"id":"chatcmpl-az","model":"gpt-4o-2024-08-06","object":"chat.completion","prompt_filter_results":[{{"prompt_index":0,"content_filter_results":{{}}}}],"usage":{{"completion_tokens":1,"prompt_tokens":9,"total_tokens":10}}}}"#
    );
    let Answer { body: out, .. } =
        correct_answer(&header(false), &Quirks::NONE, true, body.as_bytes()).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        body.replace("gpt-4o-2024-08-06", "fast")
    );
    // A filter that failed is not the answer's failure.
    let failed = body
        .replace(SAFE, r#""content_filter_result":{"error":{"code":"content_filter_error","message":"The contents are not filtered"}}"#);
    assert!(correct_answer(&header(false), &Quirks::NONE, true, failed.as_bytes()).is_ok());
}

/// The HTTP status and the body; how it is to be classed, its code, its param.
#[track_caller]
fn check_error(
    status: u16,
    body: &str,
    class: u16,
    code: Option<&str>,
    param: Option<&str>,
) -> UpstreamError {
    let error = read_error(status, body.as_bytes(), Some("application/json"));
    assert_eq!(error.status.unwrap_or(status), class, "{body}");
    assert_eq!(
        (error.code.as_deref(), error.param.as_deref()),
        (code, param),
        "{body}"
    );
    error
}

#[test]
fn errors() {
    let filtered = r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true,"severity":"high"}}}}}"#;
    check_error(400, filtered, 400, Some("content_filter"), Some("prompt"));
    let (_, fault) = streamed(
        false,
        &[PROMPT_FILTER, &filtered.replace(r#""status":400,"#, "")],
    );
    let Err(StreamFault::Upstream(found)) = fault else {
        panic!("{fault:?}")
    };
    assert_eq!(found.status, Some(400));

    check_error(
        401,
        r#"{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}"#,
        401,
        Some("401"),
        None,
    );
    let flat = r#"{ "statusCode": 401, "message": "Unauthorized. Access token is missing, invalid, or expired." }"#;
    assert!(
        check_error(401, flat, 401, None, None)
            .message
            .starts_with("Unauthorized")
    );
    check_error(
        401,
        r#"{"error":{"code":"PermissionDenied","message":"Principal does not have access to API/Operation."}}"#,
        401,
        Some("PermissionDenied"),
        None,
    );
    check_error(
        403,
        r#"{"error":{"code":"403","message":"Access denied due to Virtual Network/Firewall rules."}}"#,
        403,
        Some("403"),
        None,
    );
    check_error(
        404,
        r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        404,
        Some("DeploymentNotFound"),
        None,
    );
    check_error(
        404,
        r#"{"error":{"code":"404","message":"Resource not found"}}"#,
        404,
        Some("404"),
        None,
    );
    check_error(
        400,
        r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, x."}}"#,
        404,
        Some("OperationNotSupported"),
        None,
    );
    check_error(
        400,
        r#"{"error":{"code":"BadRequest","message":"API version not supported"}}"#,
        404,
        Some("BadRequest"),
        None,
    );
    // Words that a caller wrote do not speak for the account.
    let quoted =
        r#"{"error":{"code":"BadRequest","message":"Invalid value: 'API version not supported'"}}"#;
    check_error(400, quoted, 400, Some("BadRequest"), None);
    check_error(
        400,
        r#"{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":null}}"#,
        400,
        None,
        None,
    );
    let rate = r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit. Please retry after 6 seconds."}}"#;
    assert_eq!(
        check_error(429, rate, 429, Some("429"), None).retry_after,
        Some(Duration::from_secs(6))
    );
    check_error(
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        400,
        Some("context_length_exceeded"),
        Some("messages"),
    );
}
