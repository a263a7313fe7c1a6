//! This module turns the caller's request into the account's request. The bytes do not change,
//! except for the spans that must.

use bytes::Bytes;

use super::rewrite::apply_quirks;
use crate::front::{Envelope, passing};
use crate::neutral::{Losses, Refused};
use crate::upstream::quirks::Quirks;
use crate::wire::json;
use crate::wire::splice::Edits;

/// The target for which a request is written.
#[derive(Debug, Clone, Copy)]
pub struct WriteTarget<'a> {
    /// The target's name for the model.
    pub model: &'a str,
    /// True if a stream is asked for its usage. It is false if the server refuses the field; then
    /// the caller's own `stream_options` is removed too.
    pub ask_usage: bool,
    /// The `max_tokens` for a request that does not have it.
    pub fill_max_tokens: Option<u64>,
    /// The differences between the server and OpenAI's.
    pub quirks: &'static Quirks,
}

/// Writes the request, and returns the losses.
///
/// The result has several parts, which are sent one after the other. So the unchanged spans of a
/// large body are not copied.
pub fn write_request(
    body: &Bytes,
    envelope: &Envelope,
    target: &WriteTarget<'_>,
) -> Result<(Vec<Bytes>, Losses), Refused> {
    let mut edits = Edits::new(body);
    if envelope.model != target.model {
        edits.replace(
            envelope.places.model.clone(),
            json::quote_string(target.model).into_bytes(),
        );
    }
    if envelope.stream {
        passing::stream_options(
            envelope,
            target.ask_usage && target.quirks.stream_options,
            &mut edits,
        );
    }
    if let Some(limit) = target.fill_max_tokens.filter(|_| !envelope.has_max_tokens) {
        match &envelope.places.max_tokens_null {
            Some(null) => edits.replace(null.clone(), limit.to_string().into_bytes()),
            None => edits.insert_member(
                envelope.places.open,
                format!(r#""max_tokens":{limit}"#).into_bytes(),
            ),
        }
    }
    let losses = if target.quirks.touches_requests() {
        apply_quirks(envelope.stream, target.quirks, &mut edits)?
    } else {
        Losses::default()
    };
    Ok((edits.parts(body).0, losses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::CHAT;
    use crate::wire::splice::SHORT_BODY;

    #[track_caller]
    fn check(body: &str, ask_usage: bool, fill: Option<u64>, expected: &str) {
        let envelope = CHAT.envelope(body.as_bytes()).expect("a good request");
        let to = WriteTarget {
            ask_usage,
            fill_max_tokens: fill,
            ..plain("up/stream \"1\"")
        };
        let (written, losses) =
            write_request(&Bytes::copy_from_slice(body.as_bytes()), &envelope, &to).unwrap();
        assert_eq!(String::from_utf8(written.concat()).unwrap(), expected);
        assert!(losses.names().is_empty());
    }

    fn plain(model: &str) -> WriteTarget<'_> {
        WriteTarget {
            model,
            ask_usage: true,
            fill_max_tokens: None,
            quirks: &Quirks::NONE,
        }
    }

    /// Both sides of the model, odd white space, numbers and escapes included, stay as they are.
    #[test]
    fn only_the_model_changes() {
        check(
            "\n{ \"seed\":1e999, \"model\" :\"fast\" ,\n\t\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 \\/ é\"}], \"x\":{\"model\":\"fast\"}, \"temperature\":1.0 } ",
            true,
            None,
            "\n{ \"seed\":1e999, \"model\" :\"up/stream \\\"1\\\"\" ,\n\t\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9 \\/ é\"}], \"x\":{\"model\":\"fast\"}, \"temperature\":1.0 } ",
        );
    }

    #[test]
    fn the_same_model_name_stays_as_it_was_written() {
        let body = Bytes::from_static(br#"{"model":"f\u0061st","messages":[{}]}"#);
        let envelope = CHAT.envelope(&body).unwrap();
        assert_eq!(
            write_request(&body, &envelope, &plain("fast")),
            Ok((vec![body], Losses::default()))
        );
    }

    #[test]
    fn a_large_body_is_not_copied() {
        let content = "x".repeat(SHORT_BODY);
        let body = Bytes::from(format!(
            r#"{{"model":"fast","messages":[{{"content":"{content}"}}],"stream":true}}"#
        ));
        let envelope = CHAT.envelope(&body).unwrap();
        let (parts, _) = write_request(&body, &envelope, &plain("up")).unwrap();
        let expected = format!(
            r#"{{"stream_options":{{"include_usage":true}},"model":"up","messages":[{{"content":"{content}"}}],"stream":true}}"#
        );
        assert_eq!(String::from_utf8(parts.concat()).unwrap(), expected);
        let last = parts.last().unwrap();
        assert!(last.len() > SHORT_BODY && body.as_ptr_range().contains(&last.as_ptr()));
    }

    #[test]
    fn streams_ask_for_usage() {
        let tail = r#""messages":[{}],"stream":true"#;
        for (before, after) in [
            ("", r#""stream_options":{"include_usage":true},"#),
            (
                r#""stream_options":null,"#,
                r#""stream_options":{"include_usage":true},"#,
            ),
            (
                r#""stream_options":{},"#,
                r#""stream_options":{"include_usage":true},"#,
            ),
            (
                r#""stream_options":{ "a":1},"#,
                r#""stream_options":{"include_usage":true, "a":1},"#,
            ),
            (
                r#""stream_options":{"include_usage":false},"#,
                r#""stream_options":{"include_usage":true},"#,
            ),
            (
                r#""stream_options":{"include_usage":null},"#,
                r#""stream_options":{"include_usage":true},"#,
            ),
            (
                r#""stream_options":{"include_usage" : true},"#,
                r#""stream_options":{"include_usage" : true},"#,
            ),
        ] {
            let body = format!(r#"{{{before}"model":"fast",{tail}}}"#);
            check(
                &body,
                true,
                None,
                &format!(r#"{{{after}"model":"up/stream \"1\"",{tail}}}"#),
            );
        }
    }

    #[test]
    fn servers_that_refuse_stream_options_get_none() {
        check(
            r#"{"model":"fast","stream_options":{"include_usage":true},"messages":[{}],"stream":true}"#,
            false,
            None,
            r#"{"model":"up/stream \"1\"","messages":[{}],"stream":true}"#,
        );
        check(
            r#"{"model":"fast","messages":[{}],"stream\u005foptions":{},"stream":true}"#,
            false,
            None,
            r#"{"model":"up/stream \"1\"","messages":[{}],"stream":true}"#,
        );
        check(
            r#"{"model":"fast","messages":[{}],"stream":true}"#,
            false,
            None,
            r#"{"model":"up/stream \"1\"","messages":[{}],"stream":true}"#,
        );
    }

    #[test]
    fn what_is_no_stream_keeps_its_stream_options() {
        let tail = r#""stream_options":{"include_usage":false},"messages":[{}]}"#;
        check(
            &format!(r#"{{"model":"fast",{tail}"#),
            true,
            None,
            &format!(r#"{{"model":"up/stream \"1\"",{tail}"#),
        );
    }

    #[test]
    fn max_tokens_is_filled_in_where_nothing_was_said() {
        for (before, after) in [
            ("", r#""max_tokens":64,"#),
            (r#""max_tokens":null,"#, r#""max_tokens":64,"#),
            (r#""max_tokens":7,"#, r#""max_tokens":7,"#),
            (
                r#""max_completion_tokens":7,"#,
                r#""max_completion_tokens":7,"#,
            ),
            (
                r#""max_completion_tokens":null,"#,
                r#""max_tokens":64,"max_completion_tokens":null,"#,
            ),
        ] {
            let body = format!(r#"{{{before}"model":"fast","messages":[{{}}]}}"#);
            check(
                &body,
                true,
                Some(64),
                &format!(r#"{{{after}"model":"up/stream \"1\"","messages":[{{}}]}}"#),
            );
        }
    }

    #[test]
    fn stream_options_and_max_tokens_go_in_together() {
        check(
            r#"{"model":"fast","messages":[{}],"stream":true}"#,
            true,
            Some(64),
            r#"{"stream_options":{"include_usage":true},"max_tokens":64,"model":"up/stream \"1\"","messages":[{}],"stream":true}"#,
        );
    }
}
