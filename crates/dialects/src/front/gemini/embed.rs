//! Gemini's `embedContent` and `batchEmbedContents`, as callers speak them. The first asks for one
//! vector, the second for many. Google's clients ask for one by either.

use super::{EVENTS, NATIVE, camel, envelope, route};
use crate::front::embeddings::{INPUT_TYPE, MOST, purpose};
use crate::front::reading::count::{Read, members};
use crate::front::reading::others;
use crate::front::reading::scan::Scan;
use crate::front::reading::value::{self, Name, ReadFault, Value};
use crate::front::{
    Asked, Contents, Envelope, Fault, Front, Heard, Native, PassedRequest, STANDARD, VectorDoor,
};
use crate::neutral::answer::Tally;
use crate::neutral::embedding::{Embedding, Input};
use crate::neutral::usage::Source;
use crate::neutral::vector::VectorText;
use crate::neutral::vectors::{Inputs, OF_GEMINI};
use crate::neutral::{Endpoint, Losses, Refused};
use crate::wire::json::{self, Broken, Cursor, Kind, Span};
use crate::wire::splice::Edits;

/// Many vectors.
pub static GEMINI_EMBEDS: Front = Front {
    name: "gemini_embeds",
    route: |path, _| asked(path, "batchEmbedContents"),
    native: Some(Native {
        format: "batch_embed_contents",
        ..PASSES
    }),
    envelope: |body| read_envelope(body, &GEMINI_EMBEDS, "requests"),
    vectors: Some(VectorDoor {
        read: |envelope, body| read(envelope, body, true),
        write: |vectors, _, tally| write(vectors, [br#"{"embeddings":["#, b"]"], tally),
        places: OF_GEMINI,
    }),
    ..EMBED
};

/// One vector.
pub static GEMINI_EMBED: Front = Front {
    name: "gemini_embed",
    route: |path, _| asked(path, "embedContent"),
    native: Some(Native {
        format: "embed_content",
        ..PASSES
    }),
    envelope: |body| read_envelope(body, &GEMINI_EMBED, "content"),
    vectors: Some(VectorDoor {
        read: |envelope, body| read(envelope, body, false),
        write: |vectors, _, tally| write(vectors, [br#"{"embedding":"#, b""], tally),
        places: OF_GEMINI,
    }),
    ..EMBED
};

/// What both have in common.
const EMBED: Front = Front {
    only: Some(Endpoint::Embeddings),
    heard: Heard {
        passed: &[INPUT_TYPE],
        ..EVENTS.heard
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

const PASSES: Native = Native {
    request: passed,
    ..NATIVE
};

fn asked(path: &str, verb: &str) -> Option<Asked> {
    route::verb(path, verb).map(|model| Asked {
        model: Some(model),
        stream: false,
    })
}

/// Reads what decides where a body goes. The texts stand in this field.
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
            return count_member(cursor, name, &mut scan.read);
        }
        inputs.count = 0;
        let mut first = None;
        let list = cursor.array(|cursor, _| {
            inputs.count += 1;
            let mut length: &[u8] = b"";
            members(cursor, &mut scan.read, |cursor, name, read| {
                let from = cursor.at();
                count_member(cursor, name, read)?;
                if is_length(name) {
                    length = json::slice(cursor.text(), &(from..cursor.at()));
                }
                Ok(())
            })?;
            inputs.lengths_differ |= *first.get_or_insert(length) != length;
            Ok(())
        })?;
        inputs.list = Some(list);
        Ok(())
    })?;
    if is_there && (is_batch != inputs.list.is_some() || !(1..=MOST).contains(&inputs.count)) {
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

/// Consumes a member of a request for one vector. A model is that of the path, which is checked
/// later.
fn count_member(cursor: &mut Cursor<'_>, name: &[u8], read: &mut Read) -> Result<(), Broken> {
    match name {
        b"content" => envelope::content(cursor, read).map(drop),
        b"model" => cursor.value().map(drop),
        name => read.setting(cursor, name),
    }
}

/// Returns whether a member says how long a vector is.
fn is_length(name: &[u8]) -> bool {
    [&b"output"[..], b"embed"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn camel_of(name: &[u8]) -> String {
    camel(&String::from_utf8_lossy(name)).into_owned()
}

/// Changes what must change in a request that passes: each model in it is the account's.
fn passed(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let text = edits.text();
    let mut refused = None;
    let own = format!(
        "models/{}",
        job.model.strip_prefix("models/").unwrap_or(job.model)
    );
    let mut model = |key: &Span, value: Span, param: &str| {
        if *camel_of(&json::name_of(text, key)) != *"model" {
            return;
        }
        let named = json::text_of(text, &value);
        match check(named.as_deref(), &job.envelope.model) {
            true => edits.replace(value, json::quote(&own).into_bytes()),
            false => refused = Some(Refused::invalid(param, other_model(param))),
        }
    };
    // The body was read before.
    let _read = Cursor::new(text).object(|cursor, key| {
        if camel_of(&json::name_of(text, &key)) == "requests" {
            return cursor.maybe_array(|cursor, _| {
                cursor.maybe_members(|key, value| model(&key, value, "requests[].model"))
            });
        }
        let value = cursor.value()?;
        model(&key, value.clone(), "model");
        Ok(value)
    });
    let mut losses: Losses = Losses::default();
    if job
        .envelope
        .headers
        .iter()
        .any(|(name, _)| *name == INPUT_TYPE)
    {
        losses.add(INPUT_TYPE);
    }
    refused.map_or(Ok(losses), Err)
}

/// Returns whether a model in a body is that of the path: nobody has looked whether the key may use
/// another.
fn check(named: Option<&str>, of_path: &str) -> bool {
    named.is_some_and(|named| route::model(named).unwrap_or(named) == of_path)
}

fn other_model(param: &str) -> String {
    format!("`{param}` must be the model of the path")
}

/// Reads a request whole.
fn read<'a>(envelope: &Envelope, body: &'a [u8], is_batch: bool) -> Result<Embedding<'a>, Refused> {
    let one_input = || Embedding {
        inputs: vec![Input::default()],
        ..Embedding::default()
    };
    let mut all = if is_batch {
        Embedding::default()
    } else {
        one_input()
    };
    let read = value::body(body, |name, value| match &*camel(name) {
        "requests" if is_batch => value.array(|index, value| {
            let place = value.place;
            let mut one = one_input();
            value.element(|name, value| member(&mut one, &envelope.model, name, value))?;
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
        _ if is_batch => others::field(&mut all.others, "", name, value),
        _ => member(&mut all, &envelope.model, name, value),
    });
    read.map_err(|why| *why)?;
    if all.inputs.iter().any(|input| input.text.is_empty()) {
        return Err(Refused::invalid("content", "`content` must have a text"));
    }
    Ok(all)
}

/// Reads a member of a request for one vector.
fn member<'a>(
    one: &mut Embedding<'a>,
    of_path: &str,
    name: &Name<'a>,
    value: Value<'_, 'a>,
) -> Result<(), ReadFault> {
    let place = value.place;
    match &*camel(name) {
        "model" => {
            if !check(value.text()?.as_deref(), of_path) {
                return Err(place.refuse("must be the model of the path"));
            }
        }
        "content" => {
            let text = content(value, &mut one.others)?;
            one.inputs
                .iter_mut()
                .for_each(|input| input.text = text.clone().into());
        }
        "taskType" => one.purpose = purpose(value, &["TASK_TYPE_UNSPECIFIED"])?,
        "title" => {
            let title = value.text()?;
            one.inputs
                .iter_mut()
                .for_each(|input| input.title.clone_from(&title));
        }
        "outputDimensionality" => one.dimensions = value.count(1, &[0])?,
        // Newer clients put the settings here.
        "embedContentConfig" => {
            value.object(|name, value| member(one, of_path, name, value))?;
        }
        _ => others::field(&mut one.others, "", name, value)?,
    }
    Ok(())
}

/// Reads a content, which has texts. Several are one with a line for each.
fn content<'a>(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> Result<String, ReadFault> {
    let mut texts = Vec::new();
    value.object(|name, value| match &**name {
        "parts" => value.array(|_, value| {
            let place = value.place;
            value.element(|name, value| match &**name {
                "text" => value.text().map(|text| texts.extend(text)),
                _ => Err(place.unsupported("this model has vectors only of texts")),
            })
        }),
        "role" => value.skip(),
        _ => others::field(lost, "content.", name, value),
    })?;
    Ok(texts.join("\n"))
}

/// Writes an answer. The vectors stand between two texts.
fn write(vectors: &[VectorText<'_>], [before, after]: [&[u8]; 2], tally: &Tally) -> Vec<u8> {
    let size: usize = vectors.iter().map(|vector| vector.len() + 16).sum();
    let mut out = Vec::with_capacity(size + 128);
    out.extend_from_slice(before);
    for (index, vector) in vectors.iter().enumerate() {
        out.extend_from_slice(if index > 0 {
            br#",{"values":"#
        } else {
            br#"{"values":"#
        });
        out.extend_from_slice(vector);
        out.push(b'}');
    }
    out.extend_from_slice(after);
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
