//! Errors in the form that callers of Responses know.

use super::write::response::{ResponseHead, State};
pub(super) use crate::front::chat::errors::error_body;
use crate::front::{AnswerSoFar, CallerError};
use crate::neutral::{AnswerHeader, Echo};
use crate::wire::json::Writer;

/// Writes the end of a stream that has begun and cannot go on. Some clients fail on the first event
/// only, and others on the second only.
pub(super) fn error_event(error: &CallerError<'_>) -> Vec<u8> {
    let code = error_code(error);
    let AnswerSoFar {
        id,
        events,
        header,
        echo,
        ..
    } = error.answer;
    let head = ResponseHead::with_id(id.to_owned(), header.unwrap_or(&AnswerHeader::default()));
    let mut error_json = Writer::default();
    error_json.object(|w| {
        w.texts([("type", "error")]);
        w.key("sequence_number").number(events);
        w.texts([("code", code), ("message", error.message)]);
        w.or_null("param", error.param, Writer::text);
        // The client for Python looks for this member only.
        w.key("error").object(|w| {
            w.texts([
                ("type", error.kind),
                ("code", code),
                ("message", error.message),
            ]);
            w.or_null("param", error.param, Writer::text);
        });
    });
    let mut failed = Writer::default();
    failed.object(|w| {
        w.texts([("type", "response.failed")]);
        w.key("sequence_number").number(events.saturating_add(1));
        let state = State::Failed {
            code,
            message: error.message,
        };
        head.write(w.key("response"), echo.unwrap_or(&Echo::default()), state);
    });
    let (error_json, failed) = (error_json.into_bytes(), failed.into_bytes());
    [
        b"event: error\ndata: ".as_slice(),
        &error_json,
        b"\n\nevent: response.failed\ndata: ",
        &failed,
        b"\n\n",
    ]
    .concat()
}

/// Returns the code of a response that failed. Clients know few, and try again for most.
fn error_code(error: &CallerError<'_>) -> &'static str {
    match (error.code, error.status) {
        (Some("context_length_exceeded"), _) => "context_length_exceeded",
        (_, 429) => "rate_limit_exceeded",
        (_, 400 | 413 | 422) => "invalid_prompt",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error<'e>(status: u16, code: Option<&'e str>) -> CallerError<'e> {
        CallerError {
            status,
            kind: "upstream_error",
            code,
            param: None,
            message: "no",
            request_id: "r",
            retry_after: None,
            answer: AnswerSoFar::default(),
        }
    }

    #[test]
    fn the_body_has_all_four_keys() {
        let text = r#"{"error":{"message":"no","type":"upstream_error","param":null,"code":"x"}}"#;
        assert_eq!(
            String::from_utf8_lossy(&error_body(&error(404, Some("x")))),
            text
        );
    }

    #[test]
    fn a_broken_stream_ends_with_two_events() {
        let answer = AnswerSoFar {
            id: "resp_1",
            events: 7,
            has_begun: true,
            ..AnswerSoFar::default()
        };
        let event = String::from_utf8(error_event(&CallerError {
            answer,
            ..error(502, None)
        }))
        .unwrap();
        let events: Vec<_> = event.split_terminator("\n\n").collect();
        assert_eq!(
            events[0],
            concat!(
                "event: error\ndata: ",
                r#"{"type":"error","sequence_number":7,"code":"server_error","message":"no","param":null,"#,
                r#""error":{"type":"upstream_error","code":"server_error","message":"no","param":null}}"#
            )
        );
        let failed: serde_json::Value = serde_json::from_str(
            events[1]
                .strip_prefix("event: response.failed\ndata: ")
                .unwrap(),
        )
        .unwrap();
        assert_eq!(failed["type"], "response.failed");
        assert_eq!(
            (&failed["sequence_number"], &failed["response"]["id"]),
            (&8.into(), &"resp_1".into())
        );
        assert_eq!(failed["response"]["status"], "failed");
        assert_eq!(
            (
                &failed["response"]["temperature"],
                &failed["response"]["usage"]
            ),
            (&1.into(), &().into())
        );
        assert_eq!(failed["response"]["error"]["code"], "server_error");
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn the_code_says_whether_to_try_again() {
        for (status, theirs, expected) in [
            (502, None, "server_error"),
            (504, Some("timeout"), "server_error"),
            (429, Some("over_limit"), "rate_limit_exceeded"),
            (
                400,
                Some("context_length_exceeded"),
                "context_length_exceeded",
            ),
            (400, Some("content_filter"), "invalid_prompt"),
        ] {
            assert_eq!(error_code(&error(status, theirs)), expected);
        }
    }
}
