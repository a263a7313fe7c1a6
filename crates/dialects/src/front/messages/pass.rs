//! A request that passes to Anthropic's own API, and its answer. What is changed is: the model, a
//! maximum of tokens above the model's, thinking without a signature, and the model in the answer.
//! So fields that nobody here knows reach the API.

use bytes::Bytes;

use crate::front::{PassedBody, PassedRequest};
use crate::neutral::seal::is_sealed;
use crate::neutral::{Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Broken, Cursor, Kind, Span, slice, text_of};
use crate::wire::splice::{Edits, Part};

/// Changes what must change in a request.
pub(super) fn request(job: &PassedRequest<'_>) -> Result<PassedBody, Refused> {
    let (body, envelope) = (job.body, job.envelope);
    let (mut edits, mut losses): (_, Losses) = (Edits::new(body), Losses::default());
    if envelope.model != job.model {
        edits.replace(envelope.places.model.clone(), json::quote(job.model).into_bytes());
    }
    if let (Some(asked), Some(most), Some(span)) = (envelope.most_tokens, job.max_output, &envelope.places.most_tokens)
        && asked > most
    {
        edits.replace(span.clone(), most.to_string().into_bytes());
        losses.add("max_tokens");
    }
    let mut unsigned = Vec::new();
    let mut others = Others { model: &envelope.model, same: Vec::new(), refused: None };
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"messages" => cursor.maybe_array(|cursor, _| message(cursor, &mut unsigned)).map(drop),
        b"tools" => others.list(cursor, "tools"),
        b"fallbacks" => others.fallbacks(cursor),
        _ => cursor.value().map(drop),
    });
    if let Some(refused) = others.refused {
        return Err(refused);
    }
    for span in others.same {
        edits.replace(span, json::quote(job.model).into_bytes());
    }
    for span in &unsigned {
        edits.remove_member(span, span);
        losses.add("messages[].content[].thinking");
    }
    let mut parts = Vec::new();
    edits.apply(|part| match part {
        Part::Old(span) if span.is_empty() => {}
        Part::Old(span) => parts.push(body.slice(span)),
        Part::New(bytes) => parts.push(Bytes::copy_from_slice(bytes)),
    });
    Ok((parts, losses))
}

/// Finds thinking without a signature, which the API refuses. A message that has nothing else keeps
/// it.
fn message(cursor: &mut Cursor<'_>, unsigned: &mut Vec<Span>) -> Result<(), Broken> {
    let text = cursor.text();
    let read = cursor.maybe_object(|cursor, key| {
        if *json::name_of(text, &key) != *b"content" {
            return cursor.value();
        }
        let (mut found, mut count) = (Vec::new(), 0);
        let span = cursor.maybe_array(|cursor, _| {
            count += 1;
            let (mut is_thinking, mut is_signed) = (false, false);
            let span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
                b"type" => is_thinking = slice(text, &value) == br#""thinking""#,
                b"signature" => {
                    is_signed = {
                        text_of(text, &value).is_some_and(|signature| !signature.is_empty() && !is_sealed(&signature))
                    }
                }
                _ => {}
            })?;
            if is_thinking && !is_signed {
                found.push(span);
            }
            Ok(())
        })?;
        if found.len() < count {
            unsigned.append(&mut found);
        }
        Ok(span)
    });
    read.map(drop)
}

/// Other models that a request names. They would be asked on the account's bill, and nobody has
/// looked whether the key may use them.
struct Others<'m> {
    model: &'m str,
    /// Where the request's own model stands.
    same: Vec<Span>,
    refused: Option<Refused>,
}

impl Others<'_> {
    /// Reads `fallbacks`. A word in place of the list would leave the choice of the model to the
    /// provider.
    fn fallbacks(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if matches!(cursor.kind()?, Kind::Array | Kind::Null) {
            return self.list(cursor, "fallbacks");
        }
        let message = "`fallbacks` must be a list: this gateway asks for no other model here";
        self.refused.get_or_insert_with(|| Refused::unsupported("fallbacks", message));
        cursor.value().map(drop)
    }

    /// Reads a list of objects, and refuses a `model` in them that is not the request's.
    fn list(&mut self, cursor: &mut Cursor<'_>, name: &str) -> Result<(), Broken> {
        let text = cursor.text();
        let mut named = None;
        cursor.maybe_array(|cursor, index| {
            cursor.maybe_members(|key, value| {
                if *json::name_of(text, &key) != *b"model" || slice(text, &value) == b"null" {
                    return;
                }
                if text_of(text, &value).is_some_and(|model| model == self.model) {
                    self.same.push(value);
                } else {
                    named.get_or_insert(index);
                }
            })
        })?;
        if let Some(index) = named {
            let param = format!("{name}[{index}].model");
            let message =
                format!("`{param}` must be the model of the request: this gateway asks for no other model here");
            self.refused.get_or_insert_with(|| Refused::unsupported(param, message));
        }
        Ok(())
    }
}

/// Writes an event of a stream, with the model as a JSON text.
pub(super) fn event(event: &Event<'_>, model: &str, out: &mut Vec<u8>) {
    let Event { name, data } = *event;
    // Clients drop an event without a name. Some servers have it in the data only.
    let kind = if name.is_empty() { kind(data) } else { Some(String::from_utf8_lossy(name).into_owned()) };
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let start = out.len();
    let mut edits = Edits::new(data);
    if memchr::memmem::find(data, b"\"message_start\"").is_some() {
        let _read = Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
            b"message" => model_in(cursor, model, &mut edits),
            _ => cursor.value(),
        });
    }
    edits.apply_into(out);
    // An event over several lines goes out on one.
    let written = out.get_mut(start..).unwrap_or_default();
    written.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    out.extend_from_slice(b"\n\n");
}

/// Writes a whole answer, with the model as a JSON text.
pub(super) fn whole(body: &[u8], model: &str) -> Vec<u8> {
    let (mut edits, mut out) = (Edits::new(body), Vec::new());
    let _read = model_in(&mut Cursor::new(body), model, &mut edits);
    edits.apply_into(&mut out);
    out
}

/// Consumes an object, and replaces its `model`.
fn model_in(cursor: &mut Cursor<'_>, model: &str, edits: &mut Edits<'_>) -> Result<Span, Broken> {
    let text = cursor.text();
    cursor.maybe_members(|key, value| {
        if *json::name_of(text, &key) == *b"model" {
            edits.replace(value, model.as_bytes().to_vec());
        }
    })
}

fn kind(data: &[u8]) -> Option<String> {
    let mut kind = None;
    let _read = Cursor::new(data).maybe_members(|key, value| {
        if *json::name_of(data, &key) == *b"type" {
            kind = text_of(data, &value).map(|kind| kind.into_owned());
        }
    });
    kind.filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[cfg(test)]
mod tests;
