//! Ollama's errors: `{"error": "text"}`, as a body or as a line of a stream.

use crate::dialect::flat::is_overflow;
use crate::dialect::{UpstreamError, openai};

/// Reads the body of an answer of another status than 200.
pub fn error(_status: u16, content_type: Option<&str>, body: &[u8]) -> UpstreamError {
    corrected(openai::error(body, content_type))
}

/// Reads an error that came with status 200: nothing but its words says what kind it is.
pub(super) fn hidden(json: &[u8]) -> UpstreamError {
    corrected(openai::error(json, None))
}

/// What a model says that was loaded, or unloaded, but not asked. It may answer next time.
pub(super) fn unanswered(reason: &str) -> UpstreamError {
    UpstreamError {
        status: Some(503),
        code: Some(reason.to_owned()),
        message: format!("the upstream did not let the model answer (`{reason}`)"),
        ..UpstreamError::default()
    }
}

/// What the words say more exactly than the status, if there is one.
fn corrected(mut error: UpstreamError) -> UpstreamError {
    let words = error.message.to_ascii_lowercase();
    let (status, code) = if is_overflow(&words) {
        // "the input length exceeds the context length"
        (400, "context_length_exceeded")
    } else if words.contains("does not support") || words.contains("missing data required for image input") {
        // "registry.ollama.ai/library/gemma:2b does not support tools"; the other is said with status 500.
        (400, "unsupported_parameter")
    } else if words.starts_with("model ") && words.contains("not found") {
        // "model 'x' not found, try pulling it first"
        (404, "model_not_found")
    } else if words.contains("server busy") || words.contains("requires more system memory") {
        (503, "overloaded")
    } else {
        return error;
    };
    error.status = Some(status);
    error.code = Some(code.to_owned());
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<(u16, &str)>) {
        let body = format!(r#"{{"error":{}}}"#, crate::wire::json::quote(message));
        for found in [error(500, Some("application/json; charset=utf-8"), body.as_bytes()), hidden(body.as_bytes())] {
            assert_eq!(found.status.zip(found.code.as_deref()), expected, "{message}");
            assert_eq!(found.message, message);
        }
    }

    #[test]
    fn the_words_say_what_kind_it_is() {
        check("the input length exceeds the context length", Some((400, "context_length_exceeded")));
        check("prompt too long; exceeded max context length by 12 tokens", Some((400, "context_length_exceeded")));
        check("request (5000 tokens) exceeds the available context size (4096 tokens)", Some((400, "context_length_exceeded")));
        check("model 'llama9' not found, try pulling it first", Some((404, "model_not_found")));
        check("model \"llama9\" not found", Some((404, "model_not_found")));
        check("registry.ollama.ai/library/gemma:2b does not support tools", Some((400, "unsupported_parameter")));
        check("\"gemma:2b\" does not support thinking", Some((400, "unsupported_parameter")));
        check("this model is missing data required for image input", Some((400, "unsupported_parameter")));
        check("server busy, please try again.  maximum pending requests exceeded", Some((503, "overloaded")));
        check("model requires more system memory (9.0 GiB) than is available (4.0 GiB)", Some((503, "overloaded")));
        check("json: cannot unmarshal string into Go struct field ChatRequest.messages", None);
        check("an error was encountered while running the model: CUDA error", None);
        check("unauthorized", None);
    }

    #[test]
    fn other_shapes_are_read_too() {
        assert_eq!(error(404, Some("text/plain"), b"404 page not found").message, "the upstream's reason is not in a known format");
        assert_eq!(error(502, None, b"").message, "the upstream gave no reason");
        assert_eq!(error(500, None, br#"{"error":{"message":"m","type":"api_error"}}"#).kind.as_deref(), Some("api_error"));
    }
}
