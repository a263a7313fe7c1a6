//! Errors in the form that callers of Gemini know.

use crate::front::CallerError;
use crate::wire::json::Writer;

/// Writes an error.
pub(super) fn error_body(error: &CallerError<'_>) -> Vec<u8> {
    let mut w = Writer::with_capacity(error.message.len() + 256);
    w.object(|w| {
        w.key("error").object(|w| {
            w.key("code").number(error.status.into());
            w.texts([
                ("message", error.message),
                ("status", status_word(error.status, error.kind)),
            ]);
            let (wait, field) = (
                error.retry_after.map(Detail::Wait),
                error.param.map(Detail::Field),
            );
            w.list("details", wait.into_iter().chain(field), |w, detail| {
                detail.write(error.message, w)
            });
        });
    });
    w.into_bytes()
}

/// A detail of an error.
enum Detail<'e> {
    /// The seconds until another try makes sense.
    Wait(u64),
    /// The field at fault.
    Field(&'e str),
}

impl Detail<'_> {
    fn write(self, message: &str, w: &mut Writer) {
        w.object(|w| match self {
            Detail::Wait(seconds) => {
                let delay = format!("{seconds}s");
                w.texts([
                    ("@type", "type.googleapis.com/google.rpc.RetryInfo"),
                    ("retryDelay", &delay),
                ]);
            }
            Detail::Field(field) => {
                w.key("@type")
                    .text("type.googleapis.com/google.rpc.BadRequest");
                w.key("fieldViolations").each([field], |w, field| {
                    w.object(|w| w.texts([("field", field), ("description", message)]));
                });
            }
        });
    }
}

/// Writes an error as the last event of a stream.
pub(super) fn error_event(error: &CallerError<'_>) -> Vec<u8> {
    [b"data: ".as_slice(), &error_body(error), b"\n\n"].concat()
}

/// Writes an error as the last element of an array, with the array's end, and its beginning if that
/// was not written yet.
pub(super) fn error_element(error: &CallerError<'_>) -> Vec<u8> {
    let before: &[u8] = if error.answer.has_begun { b",\n" } else { b"[" };
    [before, &error_body(error), b"]\n"].concat()
}

/// Returns Google's word for an HTTP status, and for the type of the error in OpenAI's words.
fn status_word(status: u16, kind: &str) -> &'static str {
    match status {
        // The caller has made no mistake.
        400 if kind == "upstream_error" => "FAILED_PRECONDITION",
        401 => "UNAUTHENTICATED",
        402 | 403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::AnswerSoFar;

    fn error(status: u16) -> CallerError<'static> {
        CallerError {
            status,
            kind: "k",
            code: None,
            param: None,
            message: "no",
            request_id: "r",
            retry_after: None,
            answer: AnswerSoFar::default(),
        }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn an_error_has_googles_status() {
        assert_eq!(
            text(error_body(&error(404))),
            r#"{"error":{"code":404,"message":"no","status":"NOT_FOUND"}}"#
        );
        for (code, word) in [
            (400, "INVALID_ARGUMENT"),
            (401, "UNAUTHENTICATED"),
            (405, "INVALID_ARGUMENT"),
            (413, "INVALID_ARGUMENT"),
            (429, "RESOURCE_EXHAUSTED"),
            (500, "INTERNAL"),
            (501, "UNIMPLEMENTED"),
            (502, "UNAVAILABLE"),
            (503, "UNAVAILABLE"),
            (504, "DEADLINE_EXCEEDED"),
        ] {
            assert!(text(error_body(&error(code))).contains(word), "{code}");
        }
    }

    #[test]
    fn operators_faults_are_not_the_callers() {
        let error = CallerError {
            kind: "upstream_error",
            ..error(400)
        };
        assert!(text(error_body(&error)).ends_with(r#""status":"FAILED_PRECONDITION"}}"#));
    }

    #[test]
    fn the_wait_and_the_field_are_details() {
        let details = |error| {
            text(error_body(&error))
                .split_once(r#""details":"#)
                .map(|(_, rest)| rest.to_owned())
                .unwrap()
        };
        assert_eq!(
            details(CallerError {
                retry_after: Some(7),
                ..error(429)
            }),
            r#"[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#
        );
        assert_eq!(
            details(CallerError {
                param: Some("contents"),
                ..error(400)
            }),
            r#"[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"contents","description":"no"}]}]}}"#
        );
    }

    #[test]
    fn a_stream_ends_with_the_error() {
        let body = r#"{"error":{"code":502,"message":"no","status":"UNAVAILABLE"}}"#;
        assert_eq!(text(error_event(&error(502))), format!("data: {body}\n\n"));
        assert_eq!(text(error_element(&error(502))), format!("[{body}]\n"));
        assert_eq!(
            text(error_element(&CallerError {
                answer: AnswerSoFar {
                    has_begun: true,
                    ..AnswerSoFar::default()
                },
                ..error(502)
            })),
            format!(",\n{body}]\n")
        );
    }
}
