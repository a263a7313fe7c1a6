//! This module reads Ollama's errors: `{"error": "text"}`, as a body or as a line of a stream.

use crate::neutral::UpstreamError;
use crate::upstream::openai;
use crate::upstream::shared::flat::is_overflow;
use crate::wire::starts_with_any;

/// Reads the body of an answer with a status other than 200.
pub fn read_error(status: u16, content_type: Option<&str>, body: &[u8]) -> UpstreamError {
    correct_error(openai::read_error(body, content_type), status)
}

/// Reads an error that came with the status 200. Only its text shows its kind.
pub(super) fn hidden_error(json: &[u8]) -> UpstreamError {
    correct_error(openai::read_error(json, None), 200)
}

/// Returns the error of a model that was loaded or unloaded, but not asked. It may answer the next
/// time.
pub(super) fn unanswered_error(reason: &str) -> UpstreamError {
    UpstreamError {
        status: Some(503),
        code: Some(reason.to_owned()),
        message: format!("the upstream did not let the model answer (`{reason}`)"),
        ..UpstreamError::default()
    }
}

/// Corrects an error if its text is more exact than its status. A message may quote the request,
/// and a caller's text must not decide anything about the account. So only the beginning of a
/// sentence counts, except for a prompt that was refused.
fn correct_error(mut error: UpstreamError, status: u16) -> UpstreamError {
    let words = error.message.to_ascii_lowercase();
    let begins = |sentences: &[&str]| starts_with_any(&words, sentences);
    // The text after the model's name, which may be in quotes.
    let after_first = words
        .split_once(' ')
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let after_model = words
        .strip_prefix("model ")
        .and_then(|rest| rest.split_once(' '))
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let is_refused = matches!(status, 400 | 413);
    if begins(&TOO_LONG) || (is_refused && is_overflow(&words)) {
        // "the input length exceeds the context length"
        error.set(400, "context_length_exceeded");
    } else if after_first.starts_with("does not support ")
        || begins(&["this model is missing data required for image input"])
    {
        // "registry.ollama.ai/library/gemma:2b does not support tools". The other message comes
        // with the status 500.
        error.set(400, "unsupported_parameter");
    } else if after_model.starts_with("not found") {
        // "model 'x' not found, try pulling it first"
        error.set(404, "model_not_found");
    } else if begins(&["server busy", "model requires more system memory"]) {
        error.set(503, "overloaded");
    }
    error
}

const TOO_LONG: [&str; 4] = [
    "the input length exceeds the context length",
    "input length exceeds",
    "prompt too long",
    "prompt is too long",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<(u16, &str)>) {
        let body = format!(
            r#"{{"error":{}}}"#,
            crate::wire::json::quote_string(message)
        );
        for found in [
            read_error(
                500,
                Some("application/json; charset=utf-8"),
                body.as_bytes(),
            ),
            hidden_error(body.as_bytes()),
        ] {
            assert_eq!(
                found.status.zip(found.code.as_deref()),
                expected,
                "{message}"
            );
            assert_eq!(found.message, message);
        }
    }

    #[test]
    fn the_words_say_what_kind_it_is() {
        check(
            "the input length exceeds the context length",
            Some((400, "context_length_exceeded")),
        );
        check(
            "prompt too long; exceeded max context length by 12 tokens",
            Some((400, "context_length_exceeded")),
        );
        check(
            "request (5000 tokens) exceeds the available context size (4096 tokens)",
            Some((400, "context_length_exceeded")),
        );
        check(
            "model 'llama9' not found, try pulling it first",
            Some((404, "model_not_found")),
        );
        check("model \"llama9\" not found", Some((404, "model_not_found")));
        check(
            "registry.ollama.ai/library/gemma:2b does not support tools",
            Some((400, "unsupported_parameter")),
        );
        check(
            "\"gemma:2b\" does not support thinking",
            Some((400, "unsupported_parameter")),
        );
        check(
            "this model is missing data required for image input",
            Some((400, "unsupported_parameter")),
        );
        check(
            "server busy, please try again.  maximum pending requests exceeded",
            Some((503, "overloaded")),
        );
        check(
            "model requires more system memory (9.0 GiB) than is available (4.0 GiB)",
            Some((503, "overloaded")),
        );
        check(
            "json: cannot unmarshal string into Go struct field ChatRequest.messages",
            None,
        );
        check(
            "an error was encountered while running the model: CUDA error",
            None,
        );
        check("unauthorized", None);
    }

    #[test]
    fn what_a_message_quotes_decides_nothing() {
        for quoted in [
            "model 'x' not found",
            "server busy",
            "x does not support tools",
            "this model is missing data required for image input",
        ] {
            check(&format!("invalid value: \"{quoted}\""), None);
        }
        check("model returned 'it was not found'", None);
        check("no: prompt is too long", None);
        let refused = read_error(400, None, br#"{"error":"no: prompt is too long"}"#);
        assert_eq!(refused.code.as_deref(), Some("context_length_exceeded"));
    }

    #[test]
    fn other_shapes_are_read_too() {
        assert_eq!(
            read_error(404, Some("text/plain"), b"404 page not found").message,
            "the upstream's reason is not in a known format"
        );
        assert_eq!(
            read_error(502, None, b"").message,
            "the upstream gave no reason"
        );
        assert_eq!(
            read_error(
                500,
                None,
                br#"{"error":{"message":"m","type":"api_error"}}"#
            )
            .kind
            .as_deref(),
            Some("api_error")
        );
    }
}
