//! This module reads Cohere's errors: `{"message": …}`, and statuses that only Cohere has.

use crate::neutral::{Field, NO_REASON, UpstreamError};
use crate::upstream::openai;
use crate::upstream::shared::flat::is_overflow;
use crate::wire::json::Writer;

/// Reads the body of an answer with a status other than 200.
pub fn read_error(status: u16, content_type: Option<&str>, body: &[u8]) -> UpstreamError {
    let mut error = openai::read_error(body, content_type);
    let status = error.status.unwrap_or(status);
    let words = error.message.to_ascii_lowercase();
    match status {
        // The token is invalid. Or, by Cohere's documentation, the request is against the
        // guidelines for usage. A caller's text must not start a cool-down of a key.
        498 if error.message == NO_REASON || words.starts_with("invalid ") => {
            error.status = Some(401)
        }
        498 => error.set(400, "content_filter"),
        400 if words.starts_with("blocked input") || words.starts_with("blocked output") => {
            error.set(400, "content_filter");
        }
        // "The request was cancelled", but not by us.
        499 => error.status = Some(502),
        // The calls of a trial key for this month are used up. To wait a minute does not help.
        429 if is_monthly(&words) => error.set(402, "insufficient_quota"),
        404 if words.starts_with("model ") => error.code = Some("model_not_found".to_owned()),
        _ => {}
    }
    correct_error(error, status)
}

/// Returns whether the calls of a month are used up. Only the beginning of Cohere's own sentence
/// counts. A message may quote the request, and a caller's text must not decide anything about our
/// account.
fn is_monthly(words: &str) -> bool {
    let limit = words
        .strip_prefix("you are using a trial key, which is limited to ")
        .and_then(|rest| rest.split_once('.').or(Some((rest, ""))));
    limit.is_some_and(|(limit, _)| limit.ends_with("month"))
}

/// Returns the error that ended an answer which had begun. It has the finish reason, and the
/// upstream's text if there is one.
pub(super) fn unfinished_answer(reason: &str, words: Option<&str>) -> UpstreamError {
    let message = match words {
        Some(words) => words.to_owned(),
        None => format!("the upstream did not finish the answer (`{reason}`)"),
    };
    let mut json = Writer::default();
    json.object(|json| json.key("error").text(&message));
    let mut error = openai::read_error(&json.into_bytes(), None);
    let status = if reason == "TIMEOUT" { 504 } else { 502 };
    error.status = Some(status);
    error.code = Some(reason.to_ascii_lowercase()).filter(|code| !code.is_empty());
    correct_error(error, status)
}

/// Corrects an error if its text is more exact than its status.
fn correct_error(mut error: UpstreamError, status: u16) -> UpstreamError {
    let words = error.message.to_ascii_lowercase();
    let is_refused = matches!(status, 400 | 413);
    if words.starts_with("too many tokens: max tokens must") {
        // "too many tokens: max tokens must be less than or equal to 4096, the maximum output for
        // this model"
        error.field = Some(Field::MaxTokens.into());
    } else if words.starts_with("too many tokens")
        || (is_refused && (words.contains("too many tokens") || is_overflow(&words)))
    {
        // "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received
        // 4082."
        error.set(400, "context_length_exceeded");
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        status: u16,
        body: &str,
        expected: (Option<u16>, Option<&str>, Option<Field>),
        message: &str,
    ) {
        let error = read_error(status, Some("application/json"), body.as_bytes());
        assert_eq!(
            (
                error.status,
                error.code.as_deref(),
                error.field.as_deref().cloned()
            ),
            expected,
            "{body}"
        );
        assert_eq!(error.message, message, "{body}");
    }

    #[test]
    fn statuses_that_only_cohere_has_are_put_in_classes() {
        check(
            401,
            r#"{"id":"1","message":"invalid api token"}"#,
            (None, None, None),
            "invalid api token",
        );
        check(
            498,
            r#"{"message":"invalid token"}"#,
            (Some(401), None, None),
            "invalid token",
        );
        check(
            498,
            "",
            (Some(401), None, None),
            "the upstream gave no reason",
        );
        let blocked = "blocked input: please adjust your prompt and try again";
        for status in [400, 498] {
            check(
                status,
                &format!(r#"{{"message":"{blocked}"}}"#),
                (Some(400), Some("content_filter"), None),
                blocked,
            );
        }
        check(
            498,
            r#"{"message":"unsafe request"}"#,
            (Some(400), Some("content_filter"), None),
            "unsafe request",
        );
        check(
            499,
            r#"{"message":"request cancelled"}"#,
            (Some(502), None, None),
            "request cancelled",
        );
        check(
            422,
            r#"{"message":"bad enum"}"#,
            (None, None, None),
            "bad enum",
        );
        check(501, r#"{"message":"no"}"#, (None, None, None), "no");
        let unknown = r#"{"id":"1","message":"model 'x' not found, make sure the correct model ID was used"}"#;
        check(
            404,
            unknown,
            (None, Some("model_not_found"), None),
            "model 'x' not found, make sure the correct model ID was used",
        );
        check(
            404,
            r#"{"message":"not found"}"#,
            (None, None, None),
            "not found",
        );
    }

    #[test]
    fn a_rate_is_told_from_a_quota() {
        let minute = "You are using a Trial key, which is limited to 40 API calls / minute.";
        check(
            429,
            &format!(r#"{{"message":"{minute}"}}"#),
            (None, None, None),
            minute,
        );
        let month = "You are using a Trial key, which is limited to 1000 API calls / month.";
        check(
            429,
            &format!(r#"{{"message":"{month}"}}"#),
            (Some(402), Some("insufficient_quota"), None),
            month,
        );
        // Words that a caller wrote do not speak for the account.
        let quoted = "too fast: 'You are using a Trial key, which is limited to 1 API calls / month. billing'";
        check(
            429,
            &format!(r#"{{"message":"{quoted}"}}"#),
            (None, None, None),
            quoted,
        );
        check(
            500,
            r#"{"message":"no: too many tokens"}"#,
            (None, None, None),
            "no: too many tokens",
        );
        check(
            402,
            r#"{"message":"add a payment method"}"#,
            (None, None, None),
            "add a payment method",
        );
    }

    #[test]
    fn a_too_long_prompt_is_no_too_long_answer() {
        let prompt = "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4082. Try using a shorter prompt";
        check(
            400,
            &format!(r#"{{"message":"{prompt}"}}"#),
            (Some(400), Some("context_length_exceeded"), None),
            prompt,
        );
        let window = "the request exceeds the model's context window";
        check(
            413,
            &format!(r#"{{"message":"{window}"}}"#),
            (Some(400), Some("context_length_exceeded"), None),
            window,
        );
        let most = "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 60000.";
        check(
            400,
            &format!(r#"{{"message":"{most}"}}"#),
            (None, None, Some(Field::MaxTokens)),
            most,
        );
    }

    #[test]
    fn an_answer_that_was_given_up_says_so() {
        let of = |reason, words| {
            let UpstreamError {
                status,
                code,
                message,
                excerpt,
                ..
            } = unfinished_answer(reason, words);
            assert_eq!(excerpt, None);
            (status, code.unwrap_or_default(), message)
        };
        let said =
            |status, code: &str, message: &str| (Some(status), code.to_owned(), message.to_owned());
        assert_eq!(
            of("ERROR", None),
            said(
                502,
                "error",
                "the upstream did not finish the answer (`ERROR`)"
            )
        );
        assert_eq!(
            of("TIMEOUT", None),
            said(
                504,
                "timeout",
                "the upstream did not finish the answer (`TIMEOUT`)"
            )
        );
        assert_eq!(of("ERROR", Some("a \"b\"")), said(502, "error", "a \"b\""));
        assert_eq!(of("", Some("x")), said(502, "", "x"));
        assert_eq!(
            of("ERROR", Some("too many tokens: 9")),
            said(400, "context_length_exceeded", "too many tokens: 9")
        );
        assert!(
            unfinished_answer("ERROR", Some(&"x".repeat(1 << 20)))
                .message
                .len()
                < 2000
        );
    }
}
