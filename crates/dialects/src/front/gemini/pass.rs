//! A request that passes to an account with Gemini's format, and its answer.
//!
//! These parts are changed:
//! * a maximum of tokens above the model's;
//! * signatures that are sealed, or that mean nothing to Google;
//! * a model in the body, which is left out because the path names the model;
//! * the model in the answer.
//!
//! All other fields, unknown ones included, reach the account, and so do Google's own tools.

use std::borrow::Cow;

use super::camel_name;
use crate::front::passing::{self, Carried};
use crate::front::reading::scan::lenient_number;
use crate::front::{PassedAnswer, PassedRequest};
use crate::neutral::seal::AnswerSeal;
use crate::neutral::traits::Thinking;
use crate::neutral::{Losses, NO_SIGNATURE, Refused};
use crate::wire::Event;
use crate::wire::json::{Cursor, Kind, ScanResult, Span, name_of, quote_string, text_of};
use crate::wire::splice::Edits;

/// Makes these changes in a request.
pub(super) fn edit_request(
    job: &PassedRequest<'_>,
    edits: &mut Edits<'_>,
) -> Result<Losses, Refused> {
    let text = edits.text();
    let mut losses: Losses = Losses::default();
    // The body was read before.
    let _read = Cursor::new(text).object(|cursor, key| match &*member_name(text, &key) {
        "model" => {
            let value = cursor.value()?;
            edits.remove_member(&key, &value);
            Ok(value)
        }
        "contents" => visit_each(cursor, &mut |cursor| {
            cursor.maybe_object(|cursor, key| match &*member_name(text, &key) {
                "parts" => visit_each(cursor, &mut |cursor| {
                    edit_part(cursor, job, edits, &mut losses)
                }),
                _ => cursor.value(),
            })
        }),
        "generationConfig" => cursor.maybe_members(|key, value| {
            if member_name(text, &key) == "maxOutputTokens"
                && let (Some(asked), Some(max_tokens)) = (
                    lenient_number(&Cursor::new(text), &value),
                    job.traits.max_output,
                )
                && asked > max_tokens
            {
                edits.replace(value, max_tokens.to_string().into_bytes());
                losses.add("generationConfig.maxOutputTokens");
            }
        }),
        _ => cursor.value(),
    });
    Ok(losses)
}

/// Consumes a list, or one thing in the place of a list.
fn visit_each<'a>(
    cursor: &mut Cursor<'a>,
    item: &mut dyn FnMut(&mut Cursor<'a>) -> ScanResult<Span>,
) -> ScanResult<Span> {
    if cursor.kind()? == Kind::Array {
        cursor.array(|cursor, _| item(cursor))
    } else {
        item(cursor)
    }
}

/// Consumes a part, and opens its signature. Leaves out a signature that means nothing to Google.
fn edit_part(
    cursor: &mut Cursor<'_>,
    job: &PassedRequest<'_>,
    edits: &mut Edits<'_>,
    losses: &mut Losses,
) -> ScanResult<Span> {
    let text = cursor.text();
    let mut carried = None;
    let mut calls = false;
    let span = cursor.maybe_members(|key, value| match &*member_name(text, &key) {
        "thoughtSignature" => {
            carried = text_of(text, &value).map(|signature| (key, value, signature))
        }
        "functionCall" => calls = true,
        _ => {}
    })?;
    let Some((key, value, signature)) = carried else {
        return Ok(span);
    };
    let carried = Carried::for_text(&signature, job.sealed, |thought| thought.signature);
    if matches!(carried, Carried::Lost) && !signature.is_empty() {
        losses.add("contents[].parts[].thoughtSignature");
    }
    match carried {
        Carried::Unchanged => {}
        Carried::Opened(own) => edits.replace(value, own.into_bytes()),
        // Newer models refuse a call without any.
        Carried::Lost
            if calls && matches!(job.traits.thinking, Thinking::Effort | Thinking::Unknown) =>
        {
            edits.replace(value, quote_string(NO_SIGNATURE).into_bytes());
        }
        Carried::Lost => edits.remove_member(&key, &value),
    }
    Ok(span)
}

/// Returns a member's name as it is usually written.
fn member_name<'t>(text: &'t [u8], key: &Span) -> Cow<'t, str> {
    let written = match name_of(text, key) {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    };
    match camel_name(&written) {
        Cow::Owned(name) => Cow::Owned(name),
        Cow::Borrowed(_) => written,
    }
}

/// Writes an event of a stream.
pub(super) fn write_event(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    write_element(event, answer, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes an element of a stream that is an array.
pub(super) fn write_element(event: &Event<'_>, answer: &PassedAnswer, out: &mut Vec<u8>) {
    let mut edits = Edits::new(event.data);
    let _read = edit_response(&mut Cursor::new(event.data), answer, &mut edits);
    edits.apply_into(out);
}

/// Writes a whole answer.
pub(super) fn write_answer(body: &[u8], answer: &PassedAnswer) -> Vec<u8> {
    passing::edit_answer(body, |cursor, edits| edit_response(cursor, answer, edits))
}

/// Consumes an answer, or a chunk of one. Replaces its model, and seals the signatures of its
/// parts.
fn edit_response(
    cursor: &mut Cursor<'_>,
    answer: &PassedAnswer,
    edits: &mut Edits<'_>,
) -> ScanResult<Span> {
    let text = cursor.text();
    cursor.maybe_object(|cursor, key| match &*member_name(text, &key) {
        "modelVersion" => answer.model(cursor, edits),
        "candidates" => visit_each(cursor, &mut |cursor| {
            cursor.maybe_object(|cursor, key| match &*member_name(text, &key) {
                "content" => cursor.maybe_object(|cursor, key| match &*member_name(text, &key) {
                    "parts" => visit_each(cursor, &mut |cursor| {
                        let mut signature = None;
                        let part = cursor.maybe_members(|key, value| {
                            if member_name(text, &key) == "thoughtSignature" {
                                signature = Some(value);
                            }
                        })?;
                        answer.seal(signature, edits, AnswerSeal::signature_of_call);
                        Ok(part)
                    }),
                    _ => cursor.value(),
                }),
                _ => cursor.value(),
            })
        }),
        _ => cursor.value(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{GEMINI, PathRequest};
    use crate::neutral::AnswerHeader;
    use crate::neutral::answer::AnswerOptions;
    use crate::neutral::seal::Sealed;
    use crate::neutral::traits::Traits;

    /// The most tokens of an answer.
    const MOST: u64 = 4000;

    /// Passes a body to the model `up`.
    fn passed(body: &str) -> (String, String) {
        let envelope = GEMINI.envelope(body.as_bytes()).expect("a request");
        let envelope = envelope.with_path(PathRequest {
            model: Some("m".to_owned()),
            stream: false,
        });
        let traits = Traits {
            max_output: Some(MOST),
            ..Traits::UNKNOWN
        };
        let job = PassedRequest {
            envelope: &envelope,
            model: "up",
            traits,
            thinks: false,
            ask_usage: true,
            sealed: Sealed::Closed,
        };
        let (mut edits, mut out) = (Edits::new(body.as_bytes()), Vec::new());
        let losses = edit_request(&job, &mut edits).expect("it passes");
        edits.apply_into(&mut out);
        (String::from_utf8(out).unwrap(), losses.names().join(" "))
    }

    #[test]
    fn only_what_must_change_is_changed() {
        let body = |signature: &str, most: &str, model: &str| {
            let part = format!(r#"{{"thought":true , "new" :[1e9],"text":"é"{signature}}}"#);
            format!(
                r#"{{ {model}"tools":[{{"googleSearch":{{}}}}],"contents" :[ {{"parts":[{part}]}}, {{"parts":{part}}} ],"generationConfig":{{"maxOutputTokens": {most},"odd":1}},"x":null}}"#
            )
        };
        for (signature, after) in [
            (r#","thoughtSignature":"""#, ""),
            (r#","thought_signature":"""#, ""),
            (
                r#","thoughtSignature":"c2ln""#,
                r#","thoughtSignature":"c2ln""#,
            ),
            ("", ""),
        ] {
            assert_eq!(
                passed(&body(signature, "4000", "")),
                (body(after, "4000", ""), String::new())
            );
        }
        let lost = "generationConfig.maxOutputTokens";
        assert_eq!(
            passed(&body("", "4001", "")),
            (body("", "4000", ""), lost.to_owned())
        );
        for most in ["\"65536\"", "1e6", "4000.5"] {
            assert_eq!(
                passed(&body("", most, "")),
                (body("", "4000", ""), lost.to_owned())
            );
        }
        assert_eq!(
            passed(&body("", "1", r#""model":"models/m", "#)),
            (body("", "1", ""), String::new())
        );
        let snake = r#"{"generation_config":{"max_output_tokens":9000},"contents":{"parts":[]}}"#;
        assert_eq!(
            passed(snake),
            (snake.replace("9000", "4000"), lost.to_owned())
        );
    }

    #[test]
    fn an_answer_says_the_model_that_was_asked_for() {
        let before = r#"{"candidates":[{"new":{"modelVersion":"x"}}], "modelVersion" :"up"}"#;
        let after = before.replace(r#""up""#, r#""m""#);
        let header = AnswerHeader {
            model: "m".to_owned(),
            ..AnswerHeader::default()
        };
        let answer = PassedAnswer::new(&header, &AnswerOptions::default());
        assert_eq!(
            String::from_utf8(super::write_answer(before.as_bytes(), &answer)).unwrap(),
            after
        );
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let data = Event {
            name: b"x",
            data: before.as_bytes(),
        };
        super::write_event(&data, &answer, &mut one);
        super::write_element(&data, &answer, &mut other);
        assert_eq!(
            String::from_utf8(one).unwrap(),
            format!("data: {after}\n\n")
        );
        assert_eq!(String::from_utf8(other).unwrap(), after);
    }
}
