//! The content of a message, and the output of a call, are a string or a list of parts.

use std::borrow::Cow;

use crate::front::reading::value::{Name, Place, ReadFault, ReadResult, Value};
use crate::front::reading::{others, url};
use crate::neutral::{LazyText, Part, PartKind};
use crate::wire::json::Kind;

/// The content of a list of parts.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) list: Vec<Part<'a>>,
    /// The names of unknown members.
    pub(super) others: Vec<Name<'a>>,
    /// True if it is the output of a call.
    pub(super) is_output: bool,
    /// Why the list is no content. The item around it may be of a type whose content is not read.
    pub(super) refused: Option<ReadFault>,
}

/// The members of parts of any type that are strings.
const TEXTS: [&str; 7] = [
    "type",
    "image_url",
    "detail",
    "file_data",
    "file_url",
    "file_id",
    "filename",
];

impl<'a> Parts<'a> {
    /// Reads a string or a list of parts.
    pub(super) fn read(&mut self, mut value: Value<'_, 'a>) -> ReadResult<()> {
        match value.kind()? {
            Kind::Array => value.array(|_, mut value| {
                if value.kind()? == Kind::Object {
                    return self.part(value);
                }
                let (place, kind) = (value.place, value.kind()?);
                self.refused
                    .get_or_insert_with(|| place.wrong("an object", kind));
                value.skip()
            }),
            Kind::String | Kind::Null => {
                if let Some(text) = value.lazy_text()? {
                    self.push_text(text);
                }
                Ok(())
            }
            kind @ (Kind::Object | Kind::Number | Kind::Bool) => {
                let place = value.place;
                self.refused
                    .get_or_insert_with(|| place.wrong("a string or an array of parts", kind));
                value.skip()
            }
        }
    }

    fn push_text(&mut self, text: LazyText<'a>) {
        self.list.extend(Part::unless_empty(text));
    }

    /// Reads a part. Its type may come last, so the members of all types are kept until then.
    fn part(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut text = None;
        let mut refusal = None;
        let mut audio = None;
        let mut cache = None;
        let mut others = Vec::new();
        let texts = value.texts(TEXTS, |name, value| {
            match &**name {
                "text" => text = value.lazy_text()?,
                "refusal" => refusal = value.lazy_text()?,
                "prompt_cache_breakpoint" => cache = value.cache()?,
                "input_audio" => {
                    audio = value.texts(["data", "format"], |name, value| {
                        value.note_lost(&mut others, "input_audio.", name)
                    })?;
                }
                // No model needs the probabilities of an earlier text.
                "logprobs" => value.skip()?,
                _ => value.note_lost(&mut others, "", name)?,
            }
            Ok(())
        })?;
        let before = self.list.len();
        match self.add(texts.unwrap_or_default(), text, refusal, audio, place) {
            Ok(()) => {
                if let Some(part) = self.list.get_mut(before..).and_then(<[_]>::last_mut) {
                    part.cache = cache;
                }
                let prefix = if self.is_output {
                    "output[]."
                } else {
                    "content[]."
                };
                others
                    .iter()
                    .for_each(|name| others::note_name(&mut self.others, prefix, name));
            }
            Err(why) => drop(self.refused.get_or_insert(why)),
        }
        Ok(())
    }

    fn add(
        &mut self,
        texts: [Option<Cow<'a, str>>; TEXTS.len()],
        text: Option<LazyText<'a>>,
        refusal: Option<LazyText<'a>>,
        audio: Option<[Option<Cow<'a, str>>; 2]>,
        place: Place<'_>,
    ) -> ReadResult<()> {
        let [
            kind,
            image_url,
            detail,
            file_data,
            file_url,
            file_id,
            filename,
        ] = texts;
        let kind = place.require("type", kind)?;
        let media = match &*kind {
            "input_text" | "output_text" | "text" => {
                self.push_text(place.require("text", text)?);
                None
            }
            "refusal" => {
                self.push_text(place.require("refusal", refusal)?);
                None
            }
            "input_image" | "input_file" if file_id.is_some() => {
                let why = "files that were uploaded to OpenAI are known to its own servers only: send the data itself";
                return Err(place.field("file_id").unsupported(why));
            }
            "input_image" => {
                let url = place.require_text("image_url", image_url)?;
                let place = place.field("image_url");
                // No other server knows the largest detail.
                let detail = detail.map(|detail| {
                    if detail == "original" {
                        "high".into()
                    } else {
                        detail
                    }
                });
                Some(PartKind::Image(url::read_media_url(url, place)?, detail))
            }
            "input_file" => {
                let media = match (file_data, file_url) {
                    (Some(data), _) => {
                        url::read_file(data, filename.as_deref(), place.field("file_data"))?
                    }
                    (None, Some(url)) => url::read_media_url(url, place.field("file_url"))?,
                    (None, None) => return Err(place.refuse("must have `file_data` or `file_url`")),
                };
                Some(PartKind::File(media, filename))
            }
            "input_audio" => {
                let [data, format] = place.require("input_audio", audio)?;
                let place = place.field("input_audio");
                let data = place.require("data", data)?;
                let data = url::read_sound(data, place.field("data"))?;
                Some(PartKind::Audio(data, place.require("format", format)?))
            }
            _ => return Err(place.unsupported_type("content parts")),
        };
        self.list.extend(media.map(Part::from));
        Ok(())
    }
}
