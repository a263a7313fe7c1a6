//! The content of a message is a string or a list of parts. This module reads both.

use std::borrow::Cow;

use crate::front::reading::value::{Name, ReadResult, Value, non_empty};
use crate::front::reading::{others, url};
use crate::neutral::{Cache, LazyText, Media, Message, Part, PartKind, Thought};
use crate::wire::json::Kind;

/// Adds a text to a message, unless it is empty.
pub(super) fn push_text<'a>(
    message: &mut Message<'a>,
    text: LazyText<'a>,
    cache: Option<Cache<'a>>,
) {
    if !text.is_empty() {
        let part = Part::text(text);
        message.content.push(Part { cache, ..part });
    }
}

/// Reads a message's `content`.
pub(super) fn read_content<'a>(
    mut value: Value<'_, 'a>,
    message: &mut Message<'a>,
) -> ReadResult<()> {
    match value.kind()? {
        Kind::Array => value.array(|_, value| read_part(value, message)),
        Kind::String | Kind::Null => {
            // Most contents are a text.
            if let Some(text) = value.lazy_text()? {
                message.content.reserve_exact(1);
                push_text(message, text, None);
            }
            Ok(())
        }
        kind @ (Kind::Object | Kind::Number | Kind::Bool) => {
            Err(value.place.wrong("a string or an array of parts", kind))
        }
    }
}

/// Reads one of an assistant's `thinking_blocks`.
pub(super) fn thinking_block<'a>(
    value: Value<'_, 'a>,
    message: &mut Message<'a>,
) -> ReadResult<()> {
    let mut thought = Thought::default();
    let mut text = None;
    value.non_null_object(|name, value| {
        match &**name {
            "thinking" => text = value.text()?,
            "signature" => thought.signature = non_empty(value.text()?),
            "data" => thought.redacted = non_empty(value.text()?),
            "type" | "cache_control" => value.skip()?,
            _ => value.note_lost(&mut message.others, "thinking_blocks[].", name)?,
        }
        Ok(())
    })?;
    thought.text = text.unwrap_or_default();
    if thought != Thought::default() {
        message.thoughts.push(thought);
    }
    Ok(())
}

/// Reads OpenRouter's `reasoning_details`, and returns those of Claude's, which can come back. All
/// other details are lost; they are no reason to refuse.
pub(super) fn reasoning_details<'a>(
    mut value: Value<'_, 'a>,
    message: &mut Message<'a>,
) -> ReadResult<Vec<Thought<'a>>> {
    let mut details = Vec::new();
    let mut is_lost = false;
    if value.kind()? != Kind::Array {
        is_lost = value.read_is_filled()?;
    } else {
        value.array(|_, mut value| {
            if value.kind()? != Kind::Object {
                return value.skip().map(|()| is_lost = true);
            }
            let mut thought = Thought::default();
            let mut is_claudes = true;
            value.object(|name, value| {
                let text = value.text_if_string()?.0;
                match &**name {
                    "text" => thought.text = text.unwrap_or_default(),
                    "signature" => thought.signature = non_empty(text),
                    "data" => thought.redacted = non_empty(text),
                    "format" => {
                        is_claudes = text.is_none_or(|format| format.starts_with("anthropic"))
                    }
                    _ => {}
                }
                Ok(())
            })?;
            if is_claudes && (thought.signature.is_some() || thought.redacted.is_some()) {
                details.push(thought);
            } else {
                is_lost = true;
            }
            Ok(())
        })?;
    }
    if is_lost {
        others::note_name(&mut message.others, "", &Cow::Borrowed("reasoning_details"));
    }
    Ok(details)
}

/// The types of parts that are shown. Each is also the name of the member that holds the part.
const SHOWN: [&str; 5] = ["text", "refusal", "image_url", "input_audio", "file"];

/// Reads a part. Its type may come last, so the members of all types are kept until then.
fn read_part<'a>(value: Value<'_, 'a>, message: &mut Message<'a>) -> ReadResult<()> {
    let place = value.place;
    let mut kind = None;
    let mut cache = None;
    let mut thought = Thought::default();
    let mut has_thinking = false;
    let mut members = [const { None }; SHOWN.len()];
    let [text, refusal, image, audio, file] = &mut members;
    value.non_null_object(|name, value| {
        match &**name {
            "type" => kind = value.text()?,
            "text" => *text = value.lazy_text()?.map(PartKind::Text),
            "refusal" => *refusal = value.lazy_text()?.map(PartKind::Text),
            "image_url" => *image = self::read_image(value, &mut message.others)?,
            "input_audio" => *audio = self::read_audio(value, &mut message.others)?,
            "file" => *file = self::read_file(value, &mut message.others)?,
            "cache_control" | "prompt_cache_breakpoint" => cache = value.cache()?.or(cache.take()),
            // Mistral sends a list of parts.
            "thinking" => {
                let (text, is_list) = value.text_if_string()?;
                has_thinking = is_list || text.is_some();
                thought.text = text.unwrap_or_default();
            }
            "signature" => thought.signature = non_empty(value.text_if_string()?.0),
            "data" => thought.redacted = non_empty(value.text_if_string()?.0),
            _ => value.note_lost(&mut message.others, "content[].", name)?,
        }
        Ok(())
    })?;
    let kind = place.require("type", kind)?;
    if matches!(&*kind, "thinking" | "redacted_thinking") {
        if thought.signature.is_some() || thought.redacted.is_some() {
            message.thoughts.push(thought);
        } else if has_thinking {
            note_lost_member(message, "thinking");
        }
        return Ok(());
    }
    let Some(place_of_kind) = SHOWN.iter().position(|name| *name == kind) else {
        return Err(place.unsupported_type("content parts"));
    };
    let shown = members.get_mut(place_of_kind).and_then(Option::take);
    let shown = place.require(&kind, shown)?;
    // A part of this type does not have the other members.
    for (name, member) in SHOWN.iter().zip(&members) {
        if member.is_some() {
            note_lost_member(message, name);
        }
    }
    if has_thinking {
        note_lost_member(message, "thinking");
    }
    match shown {
        PartKind::Text(text) => push_text(message, text, cache),
        kind @ (PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..)) => {
            message.content.push(Part { kind, cache })
        }
    }
    Ok(())
}

/// Notes that a member of the part is lost.
fn note_lost_member(message: &mut Message<'_>, name: &'static str) {
    others::note_name(&mut message.others, "content[].", &Cow::Borrowed(name));
}

/// Reads `{url, detail}`, or Mistral's form: the bare URL.
fn read_image<'a>(
    mut value: Value<'_, 'a>,
    others: &mut Vec<Name<'a>>,
) -> ReadResult<Option<PartKind<'a>>> {
    let place = value.place;
    if value.kind()? == Kind::String {
        let url = non_empty(value.text()?).ok_or_else(|| place.refuse("must not be empty"))?;
        return Ok(Some(PartKind::Image(
            url::read_media_url(url, place)?,
            None,
        )));
    }
    let texts = value.texts(["url", "detail"], |name, value| {
        value.note_lost(others, "content[].image_url.", name)
    })?;
    let Some([url, detail]) = texts else {
        return Ok(None);
    };
    let url = place.require_text("url", url)?;
    let place = place.field("url");
    Ok(Some(PartKind::Image(
        url::read_media_url(url, place)?,
        detail,
    )))
}

fn read_audio<'a>(
    value: Value<'_, 'a>,
    others: &mut Vec<Name<'a>>,
) -> ReadResult<Option<PartKind<'a>>> {
    let place = value.place;
    let texts = value.texts(["data", "format"], |name, value| {
        value.note_lost(others, "content[].input_audio.", name)
    })?;
    let Some([data, format]) = texts else {
        return Ok(None);
    };
    let data = place.require_text("data", data)?;
    let format = place.require_text("format", format)?;
    let data = url::read_sound(data, place.field("data"))?;
    Ok(Some(PartKind::Audio(data, format)))
}

fn read_file<'a>(
    value: Value<'_, 'a>,
    others: &mut Vec<Name<'a>>,
) -> ReadResult<Option<PartKind<'a>>> {
    let place = value.place;
    let texts = value.texts(["file_data", "file_id", "filename"], |name, value| {
        value.note_lost(others, "content[].file.", name)
    })?;
    let Some([data, id, filename]) = texts else {
        return Ok(None);
    };
    let media = match (non_empty(data), non_empty(id)) {
        // OpenAI takes only data URLs, and OpenRouter takes other URLs, too.
        (Some(data), _) => url::read_file(data, filename.as_deref(), place.field("file_data"))?,
        (None, Some(id)) => Media::Id(id),
        (None, None) => return Err(place.refuse("must have `file_data` or `file_id`")),
    };
    Ok(Some(PartKind::File(media, filename)))
}
