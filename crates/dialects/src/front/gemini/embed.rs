//! The front doors of Gemini's `embedContent` and `batchEmbedContents`. The first gives one vector,
//! the second many. Google's clients use either for one vector.

use super::{EVENTS, NATIVE, camel_name, envelope, route};
use crate::front::embeddings::{INPUT_TYPE, MAX_INPUTS, read_purpose};
use crate::front::reading::count::{ReadTotals, each_member};
use crate::front::reading::scan::Scan;
use crate::front::reading::value::{self, Name, ReadResult, Value};
use crate::front::{
    Contents, Envelope, Fault, Front, Native, PassedRequest, PathRequest, RequestExtras, STANDARD,
    VectorDoor,
};
use crate::neutral::answer::Tally;
use crate::neutral::embedding::{Embedding, Input};
use crate::neutral::usage::Source;
use crate::neutral::vector::VectorText;
use crate::neutral::vectors::{Inputs, OF_GEMINI};
use crate::neutral::{Endpoint, Losses, Refused};
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span};
use crate::wire::splice::Edits;

/// The front door for many vectors.
pub static GEMINI_EMBEDS: Front = Front {
    name: "gemini_embeds",
    paths: &["/v1beta/models/{model}:batchEmbedContents"],
    route: |_, path, _| asked_model(path, "batchEmbedContents"),
    native: Some(Native {
        format: "batch_embed_contents",
        ..EMBED_NATIVE
    }),
    envelope: |front, body| read_envelope(body, front, "requests"),
    vectors: Some(VectorDoor {
        read: |envelope, body| read_embedding(envelope, body, true),
        write: |vectors, _, tally| write_answer(vectors, r#"{"embeddings":["#, "]", tally),
        places: OF_GEMINI,
    }),
    ..EMBED
};

/// The front door for one vector.
pub static GEMINI_EMBED: Front = Front {
    name: "gemini_embed",
    paths: &["/v1beta/models/{model}:embedContent"],
    route: |_, path, _| asked_model(path, "embedContent"),
    native: Some(Native {
        format: "embed_content",
        ..EMBED_NATIVE
    }),
    envelope: |front, body| read_envelope(body, front, "content"),
    vectors: Some(VectorDoor {
        read: |envelope, body| read_embedding(envelope, body, false),
        write: |vectors, _, tally| write_answer(vectors, r#"{"embedding":"#, "", tally),
        places: OF_GEMINI,
    }),
    ..EMBED
};

/// The fields that both front doors have in common.
const EMBED: Front = Front {
    stream_path: None,
    only_endpoint: Some(Endpoint::Embeddings),
    extras: RequestExtras {
        passed_headers: &[INPUT_TYPE],
        ..EVENTS.extras
    },
    probes: "",
    contents: Contents {
        fields: &["content", "requests"],
        ..EVENTS.contents
    },
    field_name: |request, field| {
        let name = (STANDARD.field_name)(request, field);
        match &*name {
            "dimensions" => "outputDimensionality".into(),
            "input_type" => "taskType".into(),
            "input" => "content".into(),
            _ => name,
        }
    },
    ..EVENTS
};

const EMBED_NATIVE: Native = Native {
    request: set_models,
    ..NATIVE
};

fn asked_model(path: &str, verb: &str) -> Option<PathRequest> {
    route::model_for_verb(path, verb).map(|model| PathRequest {
        model: Some(model),
        stream: false,
    })
}

/// Reads the envelope of a body. `needed` is the field that holds the texts.
fn read_envelope(
    body: &[u8],
    front: &'static Front,
    needed: &'static str,
) -> Result<Envelope, Fault> {
    let is_batch = needed == "requests";
    let mut inputs = Inputs {
        count: 1,
        ..Inputs::default()
    };
    let mut is_there = false;
    let mut scan = Scan::over(body, front, |scan, cursor, name| {
        is_there |= name == needed.as_bytes();
        if !is_batch || name != b"requests" || cursor.kind()? != Kind::Array {
            return count_member(cursor, name, &mut scan.totals);
        }
        inputs.count = 0;
        let mut first = None;
        let list = cursor.array(|cursor, _| {
            inputs.count += 1;
            let mut length: &[u8] = b"";
            each_member(cursor, &mut scan.totals, |cursor, name, totals| {
                let from = cursor.offset();
                count_member(cursor, name, totals)?;
                if is_length(name) {
                    length = json::span_bytes(cursor.text(), &(from..cursor.offset()));
                }
                Ok(())
            })?;
            inputs.lengths_differ |= *first.get_or_insert(length) != length;
            Ok(())
        })?;
        inputs.list = Some(list);
        Ok(())
    })?;
    if is_there && (is_batch != inputs.list.is_some() || !(1..=MAX_INPUTS).contains(&inputs.count))
    {
        scan.note(|| {
            Fault::of_value(
                "requests",
                "`requests` must be a list of 1 to 2048 requests",
            )
        });
    }
    scan.envelope.places.inputs = Some(inputs);
    scan.envelope_without_model((!is_there).then_some(needed))
}

/// Consumes a member of a request for one vector. Whether `model` is the model of the path is
/// checked later.
fn count_member(cursor: &mut Cursor<'_>, name: &[u8], totals: &mut ReadTotals) -> ScanResult<()> {
    match name {
        b"content" => envelope::scan_content(cursor, totals).map(drop),
        b"model" => cursor.skip(),
        name => totals.count_setting(cursor, name),
    }
}

/// Returns whether a member sets the length of a vector.
fn is_length(name: &[u8]) -> bool {
    [&b"output"[..], b"embed"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Replaces each model in a request that passes by the account's name for it.
fn set_models(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let account_model = format!(
        "models/{}",
        job.model.strip_prefix("models/").unwrap_or(job.model)
    );
    let text = edits.text();
    for (param, model) in find_models(text) {
        if !is_path_model(json::text_of(text, &model).as_deref(), &job.envelope.model) {
            let message = format!("`{param}` must be the model of the path");
            return Err(Refused::invalid(param, message));
        }
        edits.replace(model, json::quote_string(&account_model).into_bytes());
    }
    let mut losses: Losses = Losses::default();
    let headers = &job.envelope.headers;
    if headers.iter().any(|(name, _)| *name == INPUT_TYPE) {
        losses.add(INPUT_TYPE);
    }
    Ok(losses)
}

/// Returns each model in a body, with the path of its field.
fn find_models(body: &[u8]) -> Vec<(&'static str, Span)> {
    let mut models = Vec::new();
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| match &*camel_key(body, &key) {
        "requests" => cursor.maybe_array(|cursor, _| {
            cursor.maybe_members(|key, value| {
                if camel_key(body, &key) == "model" {
                    models.push(("requests[].model", value));
                }
            })
        }),
        "model" => cursor
            .value()
            .inspect(|value| models.push(("model", value.clone()))),
        _ => cursor.value(),
    });
    models
}

fn camel_key(body: &[u8], key: &Span) -> String {
    camel_name(&String::from_utf8_lossy(&json::name_of(body, key))).into_owned()
}

/// Returns whether a model in a body is the model of the path. The key was checked for the latter
/// only.
fn is_path_model(named: Option<&str>, path_model: &str) -> bool {
    named.is_some_and(|named| route::model_id(named).unwrap_or(named) == path_model)
}

/// Reads a request whole.
fn read_embedding<'a>(
    envelope: &Envelope,
    body: &'a [u8],
    is_batch: bool,
) -> Result<Embedding<'a>, Refused> {
    let mut all = if is_batch {
        Embedding::default()
    } else {
        single_embedding()
    };
    let read = value::read_body(body, |name, value| match &*camel_name(name) {
        "requests" if is_batch => value.array(|index, value| {
            let place = value.place;
            let mut one = single_embedding();
            value.non_null_object(|name, value| {
                read_member(&mut one, &envelope.model, name, value)
            })?;
            if index == 0 {
                (all.dimensions, all.purpose) = (one.dimensions, one.purpose);
            } else if (all.dimensions, all.purpose) != (one.dimensions, one.purpose) {
                let why =
                    "this model needs the same taskType and outputDimensionality in all requests";
                return Err(place.unsupported(why));
            }
            all.inputs.append(&mut one.inputs);
            all.others.append(&mut one.others);
            Ok(())
        }),
        _ if is_batch => value.note_lost(&mut all.others, "", name),
        _ => read_member(&mut all, &envelope.model, name, value),
    });
    read.map_err(|why| *why)?;
    if all.inputs.iter().any(|input| input.text.is_empty()) {
        return Err(Refused::invalid("content", "`content` must have a text"));
    }
    Ok(all)
}

fn single_embedding<'a>() -> Embedding<'a> {
    Embedding {
        inputs: vec![Input::default()],
        ..Embedding::default()
    }
}

/// Reads a member of a request for one vector.
fn read_member<'a>(
    one: &mut Embedding<'a>,
    path_model: &str,
    name: &Name<'a>,
    value: Value<'_, 'a>,
) -> ReadResult<()> {
    let place = value.place;
    match &*camel_name(name) {
        "model" => {
            if !is_path_model(value.text()?.as_deref(), path_model) {
                return Err(place.refuse("must be the model of the path"));
            }
        }
        "content" => {
            let text = read_content(value, &mut one.others)?;
            one.inputs
                .iter_mut()
                .for_each(|input| input.text = text.clone().into());
        }
        "taskType" => one.purpose = read_purpose(value, &["TASK_TYPE_UNSPECIFIED"])?,
        "title" => {
            let title = value.text()?;
            one.inputs
                .iter_mut()
                .for_each(|input| input.title.clone_from(&title));
        }
        "outputDimensionality" => one.dimensions = value.count_from(1, &[0])?,
        // Newer clients put the settings here.
        "embedContentConfig" => {
            value.object(|name, value| read_member(one, path_model, name, value))?;
        }
        _ => value.note_lost(&mut one.others, "", name)?,
    }
    Ok(())
}

/// Reads the text of a content. Several texts become lines of one.
fn read_content<'a>(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> ReadResult<String> {
    let mut texts = Vec::new();
    value.object(|name, value| match &**name {
        "parts" => value.array(|_, value| {
            let place = value.place;
            value.non_null_object(|name, value| match &**name {
                "text" => value.text().map(|text| texts.extend(text)),
                _ => Err(place.unsupported("this model has vectors only of texts")),
            })
        }),
        "role" => value.skip(),
        _ => value.note_lost(lost, "content.", name),
    })?;
    Ok(texts.join("\n"))
}

/// Writes an answer: the vectors, with a text before and one after them.
fn write_answer(vectors: &[VectorText<'_>], before: &str, after: &str, tally: &Tally) -> Vec<u8> {
    let size: usize = vectors.iter().map(|vector| vector.len() + 16).sum();
    let mut out = Vec::with_capacity(size + 128);
    out.extend_from_slice(before.as_bytes());
    for (index, vector) in vectors.iter().enumerate() {
        out.extend_from_slice(if index > 0 {
            br#",{"values":"#
        } else {
            br#"{"values":"#
        });
        out.extend_from_slice(vector);
        out.push(b'}');
    }
    out.extend_from_slice(after.as_bytes());
    let usage = tally.usage();
    if usage.source == Source::Reported {
        out.extend_from_slice(
            format!(
                r#","usageMetadata":{{"promptTokenCount":{}}}"#,
                usage.prompt
            )
            .as_bytes(),
        );
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests;
