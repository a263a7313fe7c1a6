//! Errors in the form that callers of Messages know.

use std::borrow::Cow;

use crate::front::{CallerError, OVERLOADED};
use crate::wire::json::Writer;

/// Writes an error.
pub(super) fn error_body(error: &CallerError<'_>) -> Vec<u8> {
    let mut w = Writer::with_capacity(error.message.len() + 256);
    w.object(|w| {
        w.key("type").text("error");
        w.key("error").object(|w| {
            w.texts([
                ("type", error_type(error)),
                ("message", &error_message(error)),
            ])
        });
        w.key("request_id").text(error.request_id);
    });
    w.into_bytes()
}

/// Writes an error as the last event of a stream.
pub(super) fn error_event(error: &CallerError<'_>) -> Vec<u8> {
    [
        b"event: error\ndata: ".as_slice(),
        &error_body(error),
        b"\n\n",
    ]
    .concat()
}

fn error_type(error: &CallerError<'_>) -> &'static str {
    match error.status {
        // In a stream the status has left already, so the type names the cause there too.
        _ if error.code == Some(OVERLOADED) => "overloaded_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// Returns the text. Clients know a prompt that is too long by these words, and make it shorter.
fn error_message<'e>(error: &CallerError<'e>) -> Cow<'e, str> {
    const TOO_LONG: &str = "prompt is too long";
    if error.code != Some("context_length_exceeded") || error.message.starts_with(TOO_LONG) {
        return Cow::Borrowed(error.message);
    }
    // Providers name both numbers, in any order. The larger one is the request's.
    let numbers = error
        .message
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse::<u64>().ok());
    let mut numbers: Vec<u64> = numbers.filter(|number| *number >= 256).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.as_slice() {
        [limit, .., asked] => Cow::Owned(format!("{TOO_LONG}: {asked} tokens > {limit} maximum")),
        _ => Cow::Owned(format!("{TOO_LONG}: {}", error.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::AnswerSoFar;

    fn error<'e>(status: u16, code: Option<&'e str>, message: &'e str) -> CallerError<'e> {
        CallerError {
            status,
            kind: "upstream_error",
            code,
            param: Some("x"),
            message,
            request_id: "r",
            retry_after: None,
            answer: AnswerSoFar::default(),
        }
    }

    #[test]
    fn an_error_has_anthropics_type_and_the_requests_id() {
        let text = |status| String::from_utf8(error_body(&error(status, None, "no"))).unwrap();
        assert_eq!(
            text(404),
            r#"{"type":"error","error":{"type":"not_found_error","message":"no"},"request_id":"r"}"#
        );
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (408, "invalid_request_error"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (503, "api_error"),
            (504, "timeout_error"),
        ] {
            assert!(text(status).contains(kind), "{status}");
        }
        for written in [error_body, error_event] {
            let text = String::from_utf8(written(&error(503, Some(OVERLOADED), "no"))).unwrap();
            assert!(text.contains("\"overloaded_error\""), "{text}");
        }
        let event = String::from_utf8(error_event(&error(502, None, "no"))).unwrap();
        assert!(
            event.starts_with("event: error\ndata: {\"type\":\"error\"")
                && event.ends_with("}\n\n"),
            "{event}"
        );
    }

    #[test]
    fn a_too_long_prompt_is_told_as_clients_expect() {
        for (said, told) in [
            (
                "prompt is too long: 5 tokens > 4 maximum",
                "prompt is too long: 5 tokens > 4 maximum",
            ),
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens.",
                "prompt is too long: 130001 tokens > 128000 maximum",
            ),
            (
                "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
                "prompt is too long: 1048577 tokens > 1048576 maximum",
            ),
            ("too many tokens", "prompt is too long: too many tokens"),
        ] {
            assert_eq!(
                error_message(&error(400, Some("context_length_exceeded"), said)),
                told
            );
        }
        assert_eq!(
            error_message(&error(400, None, "too many tokens")),
            "too many tokens"
        );
    }
}
