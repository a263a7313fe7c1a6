//! The front door of OpenAI's embeddings: texts, or tokens, become vectors.

use super::other_endpoints::{self, NATIVE, endpoint_door};
use super::reading::value;
use super::{Choices, Envelope, Fault, Front, Native, PassedRequest, RequestExtras, VectorDoor};
use crate::neutral::answer::Tally;
use crate::neutral::embedding::{Embedding, Input};
use crate::neutral::purpose::Purpose;
use crate::neutral::vector::VectorText;
use crate::neutral::vectors::{Inputs, OF_OPENAI};
use crate::neutral::{AnswerHeader, Endpoint, Losses, Refused};
use crate::wire::json::{self, Cursor, Kind, ScanResult};
use crate::wire::splice::Edits;

/// The front door for vectors of texts.
pub static EMBEDDINGS: Front = Front {
    extras: RequestExtras {
        passed_headers: &[INPUT_TYPE],
        ..Front::COMMON.extras
    },
    native: Some(Native {
        format: "embeddings",
        request: edit_request,
        ..NATIVE
    }),
    envelope: |_, body| read_envelope(body),
    vectors: Some(VectorDoor {
        read: read_embedding,
        write: write_answer,
        places: OF_OPENAI,
    }),
    ..endpoint_door(Endpoint::Embeddings)
};

/// The header with the purpose of the vectors.
pub(crate) const INPUT_TYPE: &str = "x-portcullis-input-type";

/// The most inputs of a request, as OpenAI has it.
pub(super) const MAX_INPUTS: usize = 2048;

/// Reads the envelope of a body.
fn read_envelope(body: &[u8]) -> Result<Envelope, Fault> {
    let mut envelope = other_endpoints::read_envelope(body, &EMBEDDINGS, &["input"])?;
    let mut inputs = Inputs::default();
    let mut fault = None;
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| {
        match &*json::name_of(body, &key) {
            b"input" => fault = scan_input(cursor, &mut inputs)?.or(fault.take()),
            b"input_type" => {
                cursor.value()?;
                inputs.say_purpose = true;
            }
            b"encoding_format" => match json::span_bytes(body, &cursor.value()?) {
                b"\"float\"" | b"null" => {}
                b"\"base64\"" => inputs.base64 = true,
                _ => {
                    let message = "`encoding_format` must be `float` or `base64`";
                    fault.get_or_insert_with(|| Fault::of_value("encoding_format", message));
                }
            },
            _ => {
                cursor.value()?;
            }
        }
        Ok(())
    });
    (envelope.choices, envelope.places.inputs) = (Choices::ONE, Some(inputs));
    fault.map_or(Ok(envelope), Err)
}

/// Consumes the input: a text, tokens, or a list of texts or of lists of tokens. Some servers take
/// lists of objects, too. Returns the fault of the input.
fn scan_input(cursor: &mut Cursor<'_>, inputs: &mut Inputs) -> ScanResult<Option<Fault>> {
    let kind = cursor.kind()?;
    if kind != Kind::Array {
        inputs.count = 1;
        let is_empty = cursor.text_len()? == 0;
        return Ok(if kind == Kind::String {
            is_empty.then(|| Fault::of_value("input", "`input` must not be an empty text"))
        } else {
            Some(Fault::of_type(
                "input",
                "a text, or an array of texts or of tokens",
                kind,
            ))
        });
    }
    let text = cursor.text();
    let mut first = None;
    let mut is_odd = false;
    let list = cursor.array(|cursor, _| {
        let kind = cursor.kind()?;
        let span = cursor.value()?;
        let is_empty = matches!(json::span_bytes(text, &span), br#""""# | b"[]");
        is_odd |= is_empty
            || *first.get_or_insert(kind) != kind
            || matches!(kind, Kind::Bool | Kind::Null);
        inputs.count += 1;
        Ok(())
    })?;
    let fault = |message| Some(Fault::of_value("input", message));
    if first == Some(Kind::Number) {
        // They are the tokens of one text.
        inputs.count = 1;
    } else {
        inputs.list = Some(list);
    }
    Ok(match inputs.count {
        0 => fault("`input` must not be empty"),
        _ if is_odd => fault(
            "`input` must hold only texts that are not empty, only tokens, or only lists of tokens",
        ),
        1..=MAX_INPUTS => None,
        _ => fault("`input` must hold at most 2048 texts: send several requests"),
    })
}

/// Changes the model in a request that passes. Servers of the format have words of their own for
/// the purpose of the vectors. So the operator's word is added where the request has none, and the
/// caller's header is lost.
fn edit_request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let mut losses = (NATIVE.request)(job, edits)?;
    let says_purpose = job
        .envelope
        .places
        .inputs
        .as_ref()
        .is_some_and(|inputs| inputs.say_purpose);
    if job
        .envelope
        .headers
        .iter()
        .any(|(name, _)| *name == INPUT_TYPE)
    {
        losses.add(INPUT_TYPE);
    } else if let Some((_, word)) = job.traits.input_type.filter(|_| !says_purpose) {
        edits.insert_member(
            job.envelope.places.open,
            format!(r#""input_type":"{word}""#).into_bytes(),
        );
    }
    Ok(losses)
}

/// Reads a request whole.
fn read_embedding<'a>(_: &Envelope, body: &'a [u8]) -> Result<Embedding<'a>, Refused> {
    let mut embedding = Embedding::default();
    let read = value::read_body(body, |name, mut value| {
        match &**name {
            "model" | "encoding_format" => value.skip()?,
            "input" if value.kind()? == Kind::String => embedding.inputs.extend(text_input(value)?),
            "input" => value.array(|_, mut value| {
                if value.kind()? != Kind::String {
                    return Err(value.place.unsupported(
                        "only accounts whose servers speak OpenAI's format take anything but texts: this model has none",
                    ));
                }
                embedding.inputs.extend(text_input(value)?);
                Ok(())
            })?,
            "dimensions" => embedding.dimensions = value.count_from(1, &[])?,
            "input_type" => embedding.purpose = read_purpose(value, &[])?,
            _ => value.note_lost(&mut embedding.others, "", name)?,
        }
        Ok(())
    });
    read.map(|()| embedding).map_err(|why| *why)
}

fn text_input<'a>(value: value::Value<'_, 'a>) -> value::ReadResult<Option<Input<'a>>> {
    Ok(value.text()?.map(|text| Input { text, title: None }))
}

/// Reads the purpose of vectors. The words of `unset` stand for no purpose.
pub(super) fn read_purpose(
    value: value::Value<'_, '_>,
    unset: &[&str],
) -> value::ReadResult<Option<Purpose>> {
    let place = value.place;
    let Some(word) = value.text()?.filter(|word| !unset.contains(&&**word)) else {
        return Ok(None);
    };
    match Purpose::find(&word) {
        Some(purpose) => Ok(Some(purpose)),
        None => Err(place.refuse(&format!("must be one of {}", Purpose::NAMES.join(", ")))),
    }
}

/// Writes an answer.
fn write_answer(vectors: &[VectorText<'_>], header: &AnswerHeader, tally: &Tally) -> Vec<u8> {
    let size: usize = vectors.iter().map(|vector| vector.len() + 64).sum();
    let mut out = Vec::with_capacity(size + 256);
    out.push(b'{');
    // Mistral's clients need an id.
    if !header.id.is_empty() {
        json::put_text(&mut out, r#""id":"#, &header.id);
        out.push(b',');
    }
    out.extend_from_slice(br#""object":"list","data":["#);
    for (index, vector) in vectors.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        out.extend_from_slice(
            format!(r#"{comma}{{"object":"embedding","index":{index},"embedding":"#).as_bytes(),
        );
        out.extend_from_slice(vector);
        out.push(b'}');
    }
    json::put_text(&mut out, r#"],"model":"#, &header.model);
    let usage = tally.usage();
    let (prompt, total) = (usage.prompt, usage.total());
    out.extend_from_slice(
        format!(r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total}"#).as_bytes(),
    );
    tally.end_usage(&mut out);
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
