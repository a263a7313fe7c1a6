//! This module reads errors. It uses their type, and sentences that are more precise than the type.

use crate::wire::shorten_text;
use serde::Deserialize;

use crate::neutral::{Field, UpstreamError};
use crate::upstream::openai;
use crate::upstream::shared::text::Text;

/// Reads the body of an answer with the status of an error.
pub fn read_error(status: u16, content_type: Option<&str>, body: &[u8]) -> UpstreamError {
    correct_error(
        openai::read_error(body, content_type),
        Some(status),
        &error_cause(body),
    )
}

/// Reads an error that came in the place of an answer.
pub(super) fn hidden_error(data: &[u8]) -> UpstreamError {
    correct_error(openai::read_error(data, None), None, &error_cause(data))
}

/// The status of each type, and OpenAI's code for it.
const TYPES: [(&str, u16, Option<&str>); 11] = [
    ("invalid_request_error", 400, None),
    ("authentication_error", 401, None),
    ("billing_error", 402, Some(NO_MONEY)),
    ("permission_error", 403, None),
    ("not_found_error", 404, None),
    ("conflict_error", 409, None),
    ("request_too_large", 413, Some("request_too_large")),
    ("rate_limit_error", 429, Some("rate_limit_exceeded")),
    ("api_error", 500, None),
    ("timeout_error", 504, None),
    ("overloaded_error", 529, None),
];

/// The causes (`error.details.error_code`) that concern our account, whatever the type is.
const CAUSES: [(&str, u16, Option<&str>); 9] = [
    ("contract_spend_limit_reached", 402, Some(NO_MONEY)),
    ("enforced_spend_limit_reached", 402, Some(NO_MONEY)),
    (
        "linked_organization_billing_unavailable",
        402,
        Some(NO_MONEY),
    ),
    (
        "linked_organization_spend_limit_reached",
        402,
        Some(NO_MONEY),
    ),
    ("organization_on_hold", 401, None),
    ("organization_type_not_supported", 401, None),
    ("parent_organization_required", 401, None),
    ("cmek_key_disabled", 401, None),
    ("cmek_key_network_blocked", 401, None),
];

/// The beginnings of messages that are more precise than their type, which is
/// `invalid_request_error` for all of these. Only the beginning counts. A later part may quote the
/// request, and a caller's text must not decide anything about our account.
const SENTENCES: [(&str, u16, Option<&str>); 6] = [
    ("prompt is too long", 400, Some(TOO_LONG)),
    ("input is too long", 400, Some(TOO_LONG)),
    ("your credit balance is too low", 402, Some(NO_MONEY)),
    (
        "you have reached your specified api usage limits",
        402,
        Some(NO_MONEY),
    ),
    ("this organization has been disabled", 401, None),
    ("this credential is only authorized", 401, None),
];

/// Words about a prompt that is too long, anywhere in a refusal. The caller is at fault in any
/// case.
const TOO_LONG_WORDS: [&str; 4] = [
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "input is too long",
];

const TOO_LONG: &str = "context_length_exceeded";
const NO_MONEY: &str = "insufficient_quota";

fn correct_error(mut error: UpstreamError, status: Option<u16>, cause: &str) -> UpstreamError {
    let by_cause = CAUSES.iter().find(|(name, ..)| *name == cause);
    if error.code.is_none() && !cause.is_empty() {
        error.code = Some(shorten_text(cause, 64));
    }
    let message = error.message.to_ascii_lowercase();
    let kind = error.kind.as_deref().unwrap_or_default();
    let is_vague = matches!(kind, "" | "invalid_request_error" | "api_error");
    let by_sentence = SENTENCES
        .iter()
        .find(|(sentence, ..)| is_vague && message.starts_with(sentence));
    let is_refused =
        matches!(status, Some(400 | 413)) || (status.is_none() && kind == "invalid_request_error");
    let is_too_long =
        is_vague && is_refused && TOO_LONG_WORDS.iter().any(|words| message.contains(words));
    let certain = by_cause
        .or(by_sentence)
        .or(is_too_long.then_some(&("", 400, Some(TOO_LONG))));
    let Some((_, meant, code)) = certain.or_else(|| TYPES.iter().find(|(name, ..)| *name == kind))
    else {
        return error;
    };
    // A vague type is less precise than the status.
    if certain.is_some() || !is_vague || status.is_none() {
        error.status = Some(*meant);
    }
    if let Some(code) = code {
        error.code = Some((*code).to_owned());
    }
    if kind == "not_found_error" && message.starts_with("model") {
        error.code = Some("model_not_found".to_owned());
    }
    if *code == Some(TOO_LONG) {
        error.field = Some(Field::Messages.into());
    }
    error
}

/// Returns the cause that newer answers have next to the type; empty if there is none.
fn error_cause(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        error: Option<Inner<'a>>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        details: Option<Details<'a>>,
    }
    #[derive(Deserialize)]
    struct Details<'a> {
        #[serde(borrow, default)]
        error_code: Text<'a>,
    }
    // The rest of the body may have text that cannot be decoded.
    let details = serde_json::from_slice::<Body<'_>>(body)
        .ok()
        .and_then(|body| body.error?.details);
    details
        .map(|details| details.error_code.as_str().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expected: (Option<u16>, Option<&str>, Option<&str>)) {
        let error = read_error(status, Some("application/json"), body.as_bytes());
        assert_eq!(
            (error.status, error.kind.as_deref(), error.code.as_deref()),
            expected,
            "{body}"
        );
    }

    fn body(kind: &str, message: &str) -> String {
        format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_x"}}"#
        )
    }

    #[test]
    fn a_cause_counts_beside_text_that_cannot_be_decoded() {
        let body = r#"{"error":{"type":"invalid_request_error","message":"x \ud83d","details":{"error_code":"organization_on_hold"}}}"#;
        assert_eq!(error_cause(body.as_bytes()), "organization_on_hold");
    }

    #[test]
    fn every_type_has_its_class() {
        for (status, kind, meant, code) in [
            (400, "invalid_request_error", None, None),
            (401, "authentication_error", Some(401), None),
            (402, "billing_error", Some(402), Some("insufficient_quota")),
            (403, "billing_error", Some(402), Some("insufficient_quota")),
            (403, "permission_error", Some(403), None),
            (404, "not_found_error", Some(404), None),
            (409, "conflict_error", Some(409), None),
            (
                413,
                "request_too_large",
                Some(413),
                Some("request_too_large"),
            ),
            (
                429,
                "rate_limit_error",
                Some(429),
                Some("rate_limit_exceeded"),
            ),
            (500, "api_error", None, None),
            (503, "api_error", None, None),
            (504, "timeout_error", Some(504), None),
            (529, "overloaded_error", Some(529), None),
            (500, "overloaded_error", Some(529), None),
            (418, "new_error", None, None),
        ] {
            check(status, &body(kind, "no"), (meant, Some(kind), code));
        }
        check(
            404,
            &body("not_found_error", "model: claude-x"),
            (Some(404), Some("not_found_error"), Some("model_not_found")),
        );
    }

    #[test]
    fn words_say_more_than_the_type() {
        let invalid = |message| body("invalid_request_error", message);
        let too_long = (
            Some(400),
            Some("invalid_request_error"),
            Some("context_length_exceeded"),
        );
        check(
            400,
            &invalid("prompt is too long: 210000 tokens > 200000 maximum"),
            too_long,
        );
        check(
            400,
            &invalid(
                "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease it",
            ),
            too_long,
        );
        check(413, &invalid("Prompt is too long"), too_long);
        let no_money = (
            Some(402),
            Some("invalid_request_error"),
            Some("insufficient_quota"),
        );
        check(
            400,
            &invalid("Your credit balance is too low to access the Anthropic API."),
            no_money,
        );
        check(
            400,
            &invalid(
                "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
            ),
            no_money,
        );
        check(
            400,
            &invalid("This organization has been disabled."),
            (Some(401), Some("invalid_request_error"), None),
        );
        let filtered = (
            Some(400),
            Some("invalid_request_error"),
            Some("content_filter"),
        );
        check(
            400,
            &invalid("Output blocked by content filtering policy"),
            filtered,
        );
        assert!(
            hidden_error(invalid("Output blocked by content filtering policy").as_bytes())
                .is_filtered()
        );
        check(
            400,
            &invalid("system: `Output blocked by content filtering policy`"),
            (None, Some("invalid_request_error"), None),
        );
        // A limit of tokens a minute is no prompt that is too long.
        let rate = (
            Some(429),
            Some("rate_limit_error"),
            Some("rate_limit_exceeded"),
        );
        check(
            429,
            &body("rate_limit_error", "prompt is too long for this minute"),
            rate,
        );
    }

    #[test]
    fn quotes_in_messages_do_not_speak_for_accounts() {
        for quoted in [
            "Your credit balance is too low to access the Anthropic API.",
            "You have reached your specified API usage limits.",
            "This organization has been disabled.",
            "This credential is only authorized for use with x",
        ] {
            let message = format!("tools.0.custom.name: `{quoted}` should match pattern");
            for kind in ["invalid_request_error", "api_error", "new_error"] {
                check(400, &body(kind, &message), (None, Some(kind), None));
                check(500, &body(kind, &message), (None, Some(kind), None));
            }
        }
        // Nor is a fault of theirs the caller's, whatever it quotes.
        check(
            500,
            &body("api_error", "no: `prompt is too long`"),
            (None, Some("api_error"), None),
        );
        check(
            404,
            &body("not_found_error", "no such file: model"),
            (Some(404), Some("not_found_error"), None),
        );
    }

    #[test]
    fn a_cause_says_more_than_both() {
        let body = |kind: &str, cause: &str| {
            format!(
                r#"{{"type":"error","error":{{"type":"{kind}","message":"prompt is too long","details":{{"error_code":"{cause}","x":1}}}}}}"#
            )
        };
        for (cause, meant, code) in CAUSES {
            check(
                429,
                &body("rate_limit_error", cause),
                (Some(meant), Some("rate_limit_error"), code.or(Some(cause))),
            );
        }
        let rate = (
            Some(429),
            Some("rate_limit_error"),
            Some("rate_limit_exceeded"),
        );
        check(429, &body("rate_limit_error", "ramp_limit_exceeded"), rate);
        check(
            403,
            &body("permission_error", "new_cause"),
            (Some(403), Some("permission_error"), Some("new_cause")),
        );
        check(
            403,
            r#"{"error":{"type":"permission_error","message":"no","details":null}}"#,
            (Some(403), Some("permission_error"), None),
        );
    }

    #[test]
    fn a_foreign_error_body_is_still_an_error() {
        check(529, "", (None, None, None));
        check(502, "<html>bad gateway</html>", (None, None, None));
        check(500, r#"{"error":"boom"}"#, (None, None, None));
        check(
            400,
            r#"{"message":"prompt is too long"}"#,
            (Some(400), None, Some("context_length_exceeded")),
        );
        assert_eq!(
            read_error(502, Some("text/html"), b"<html>").message,
            "the upstream answered with a web page"
        );
    }

    #[test]
    fn an_error_in_an_answer_has_its_types_status() {
        for (kind, meant, ..) in TYPES {
            assert_eq!(
                hidden_error(body(kind, "no").as_bytes()).status,
                Some(meant)
            );
        }
        assert_eq!(
            hidden_error(body("new_error", "no").as_bytes()).status,
            None
        );
        let flat = hidden_error(br#"{"type":"overloaded_error","message":"Overloaded"}"#);
        assert_eq!(
            (flat.status, flat.message.as_str()),
            (Some(529), "Overloaded")
        );
    }
}
