//! A request that passes to an account that has Gemini's format, and its answer. What is changed
//! is: a maximum of tokens above the model's, signatures that mean nothing to Google, and the model
//! in the answer. A model in the body is left out: the path names it. So fields that nobody here
//! knows reach the account, and Google's own tools too.

use std::borrow::Cow;

use super::camel;
use crate::front::PassedRequest;
use crate::front::passing::{self, append_line, replace_member};
use crate::neutral::{Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{Broken, Cursor, Kind, Span, integer_of, name_of, text_of};
use crate::wire::splice::Edits;

/// Changes what must change in a request.
pub(super) fn request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let text = edits.text();
    let mut losses: Losses = Losses::default();
    // The body was read before.
    let _read = Cursor::new(text).object(|cursor, key| match &*name(text, &key) {
        "model" => {
            let value = cursor.value()?;
            edits.remove_member(&key, &value);
            Ok(value)
        }
        "contents" => each(cursor, &mut |cursor| {
            cursor.maybe_object(|cursor, key| match &*name(text, &key) {
                "parts" => each(cursor, &mut |cursor| part(cursor, edits, job.forgets)),
                _ => cursor.value(),
            })
        }),
        "generationConfig" => cursor.maybe_members(|key, value| {
            if name(text, &key) == "maxOutputTokens"
                && let (Some(asked), Some(most)) = (integer_of(text, &value), job.max_output)
                && asked > most
            {
                edits.replace(value, most.to_string().into_bytes());
                losses.add("generationConfig.maxOutputTokens");
            }
        }),
        _ => cursor.value(),
    });
    Ok(losses)
}

/// Consumes a list, or one thing in the place of a list.
fn each<'a>(
    cursor: &mut Cursor<'a>,
    item: &mut dyn FnMut(&mut Cursor<'a>) -> Result<Span, Broken>,
) -> Result<Span, Broken> {
    if cursor.kind()? == Kind::Array { cursor.array(|cursor, _| item(cursor)) } else { item(cursor) }
}

/// Consumes a part, and removes a signature that means nothing to Google.
fn part(cursor: &mut Cursor<'_>, edits: &mut Edits<'_>, forgets: bool) -> Result<Span, Broken> {
    let text = cursor.text();
    cursor.maybe_members(|key, value| {
        if name(text, &key) == "thoughtSignature"
            && (forgets || text_of(text, &value).is_some_and(|signature| !passing::is_signed(&signature)))
        {
            edits.remove_member(&key, &value);
        }
    })
}

/// Returns a member's name as it is usually written.
fn name<'t>(text: &'t [u8], key: &Span) -> Cow<'t, str> {
    let written = match name_of(text, key) {
        Cow::Borrowed(name) => String::from_utf8_lossy(name),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    };
    match camel(&written) {
        Cow::Owned(name) => Cow::Owned(name),
        Cow::Borrowed(_) => written,
    }
}

/// Writes an event of a stream, with the model as a JSON text.
pub(super) fn event(event: &Event<'_>, model: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    element(event, model, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes an element of a stream that is an array, with the model as a JSON text.
pub(super) fn element(event: &Event<'_>, model: &str, out: &mut Vec<u8>) {
    let mut edits = Edits::new(event.data);
    let _read = replace_member(&mut Cursor::new(event.data), "modelVersion", model, &mut edits);
    append_line(edits, out);
}

/// Writes a whole answer, with the model as a JSON text.
pub(super) fn whole(body: &[u8], model: &str) -> Vec<u8> {
    let (mut edits, mut out) = (Edits::new(body), Vec::new());
    let _read = replace_member(&mut Cursor::new(body), "modelVersion", model, &mut edits);
    edits.apply_into(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Asked, GEMINI};

    /// The most tokens of an answer.
    const MOST: u64 = 4000;

    /// Passes a body to the model `up`.
    fn passed(body: &str) -> (String, String) {
        let envelope = (GEMINI.envelope)(body.as_bytes()).expect("a request");
        let envelope = envelope.at(Asked { model: Some("m".to_owned()), stream: false });
        let job =
            PassedRequest { envelope: &envelope, model: "up", max_output: Some(MOST), thinks: false, forgets: false };
        let (mut edits, mut out) = (Edits::new(body.as_bytes()), Vec::new());
        let losses = request(&job, &mut edits).expect("it passes");
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
            (r#","thoughtSignature":"c2ln""#, r#","thoughtSignature":"c2ln""#),
            ("", ""),
        ] {
            assert_eq!(passed(&body(signature, "4000", "")), (body(after, "4000", ""), String::new()));
        }
        let lost = "generationConfig.maxOutputTokens";
        assert_eq!(passed(&body("", "4001", "")), (body("", "4000", ""), lost.to_owned()));
        assert_eq!(passed(&body("", "1", r#""model":"models/m", "#)), (body("", "1", ""), String::new()));
        let snake = r#"{"generation_config":{"max_output_tokens":9000},"contents":{"parts":[]}}"#;
        assert_eq!(passed(snake), (snake.replace("9000", "4000"), lost.to_owned()));
    }

    #[test]
    fn an_answer_says_the_model_that_was_asked_for() {
        let before = r#"{"candidates":[{"new":{"modelVersion":"x"}}],
 "modelVersion" :"up"}"#;
        let after = before.replace(r#""up""#, r#""m""#);
        assert_eq!(String::from_utf8(super::whole(before.as_bytes(), r#""m""#)).unwrap(), after);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let data = Event { name: b"x", data: before.as_bytes() };
        super::event(&data, r#""m""#, &mut one);
        super::element(&data, r#""m""#, &mut other);
        let line = after.replace('\n', " ");
        assert_eq!(String::from_utf8(one).unwrap(), format!("data: {line}\n\n"));
        assert_eq!(String::from_utf8(other).unwrap(), line);
    }
}
