//! Errors in the form that callers of chat know.

use crate::front::CallerError;
use crate::wire::json::Writer;

/// Writes an error.
pub(crate) fn error_body(error: &CallerError<'_>) -> Vec<u8> {
    let mut w = Writer::with_capacity(error.message.len() + 256);
    w.object(|w| {
        w.key("error").object(|w| {
            w.texts([("message", error.message), ("type", error.kind)]);
            w.or_null("param", error.param, Writer::text);
            w.or_null("code", error.code, Writer::text);
        });
    });
    w.into_bytes()
}

/// Writes an error as the last event of a stream.
pub(crate) fn error_event(error: &CallerError<'_>) -> Vec<u8> {
    [b"data: ".as_slice(), &error_body(error), b"\n\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::AnswerSoFar;

    #[test]
    fn the_body_has_all_four_keys() {
        let kind = "invalid_request_error";
        let code = Some("unknown_url");
        let error = CallerError {
            status: 404,
            kind,
            code,
            param: None,
            message: "no",
            request_id: "r",
            retry_after: None,
            answer: AnswerSoFar::default(),
        };
        let text = r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"unknown_url"}}"#;
        assert_eq!(String::from_utf8_lossy(&error_body(&error)), text);
        assert_eq!(
            String::from_utf8_lossy(&error_event(&error)),
            format!("data: {text}\n\n")
        );
    }
}
