//! Pictures, sounds and files: in the request, or at an address.

use std::borrow::Cow;

use super::read_camel_members;
use crate::front::reading::value::{Name, Place, ReadResult, Value, non_empty};
use crate::front::reading::{others, url};
use crate::neutral::{Media, PartKind};

/// The members of `inlineData` and of `fileData`.
#[derive(Default)]
struct Blob<'a> {
    kind: Option<Cow<'a, str>>,
    data: Option<Cow<'a, str>>,
    uri: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
}

impl<'a> Blob<'a> {
    /// Reads the object of this name; `None` for `null`. `lost` gets the names of unknown members.
    fn read(
        value: Value<'_, 'a>,
        field_name: &str,
        lost: &mut Vec<Name<'a>>,
    ) -> ReadResult<Option<Self>> {
        let mut blob = Self::default();
        let is_there = read_camel_members(value, |known, name, value| {
            match known {
                "mimeType" => blob.kind = non_empty(value.text()?),
                "data" => blob.data = value.text()?,
                "fileUri" => blob.uri = value.text()?,
                "displayName" => blob.name = value.text()?,
                _ => value.note_lost(lost, &format!("parts[].{field_name}."), name)?,
            }
            Ok(())
        })?;
        Ok(is_there.then_some(blob))
    }
}

/// Notes the name of a picture or of a sound: no provider takes such a name.
fn note_lost_name(name: Option<Cow<'_, str>>, field_name: &str, lost: &mut Vec<Name<'_>>) {
    if name.is_some_and(|name| !name.is_empty()) {
        others::note_name(
            lost,
            &format!("parts[].{field_name}."),
            &Cow::Borrowed("displayName"),
        );
    }
}

/// Reads `inlineData`.
pub(super) fn read_inline_data<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<Name<'a>>,
) -> ReadResult<Option<PartKind<'a>>> {
    let place = value.place;
    let Some(Blob {
        kind, data, name, ..
    }) = Blob::read(value, "inlineData", lost)?
    else {
        return Ok(None);
    };
    let kind = place.require("mimeType", kind)?;
    let data = place.require("data", data)?;
    // A server may fetch data that look like a URL.
    if memchr::memchr(b':', data.as_bytes()).is_some() {
        return Err(place.field("data").refuse("must be base64"));
    }
    if let Some(format) = sound_format(&kind) {
        note_lost_name(name, "inlineData", lost);
        return Ok(Some(PartKind::Audio(data, format)));
    }
    let media = url::inline_media(kind, data, place.field("mimeType"))?;
    let is_picture = matches!(&media, Media::Inline(kind, _) if kind.starts_with("image/"));
    if is_picture {
        note_lost_name(name, "inlineData", lost);
        return Ok(Some(PartKind::Image(media, None)));
    }
    Ok(Some(PartKind::File(media, name)))
}

/// Reads `fileData`.
pub(super) fn read_file_data<'a>(
    value: Value<'_, 'a>,
    lost: &mut Vec<Name<'a>>,
) -> ReadResult<Option<PartKind<'a>>> {
    let place = value.place;
    let Some(Blob {
        kind, uri, name, ..
    }) = Blob::read(value, "fileData", lost)?
    else {
        return Ok(None);
    };
    let uri = place.require_text("fileUri", uri)?;
    check_uri(&uri, place.field("fileUri"))?;
    let of_name = || url::media_type(&uri).unwrap_or_default();
    let is_picture = kind
        .as_deref()
        .unwrap_or_else(of_name)
        .to_ascii_lowercase()
        .starts_with("image/");
    let media = Media::Url(uri);
    if is_picture {
        note_lost_name(name, "fileData", lost);
        return Ok(Some(PartKind::Image(media, None)));
    }
    Ok(Some(PartKind::File(media, name)))
}

/// Refuses a text that is no address, and the address of a file that was uploaded to Google.
fn check_uri(uri: &str, place: Place<'_>) -> ReadResult<()> {
    let is_uploaded = uri.starts_with("files/")
        || uri
            .to_ascii_lowercase()
            .contains("generativelanguage.googleapis.com");
    if is_uploaded {
        return Err(place.unsupported(
            "files that were uploaded to Google are not at hand here: send the data itself",
        ));
    }
    if url::has_scheme(uri) {
        Ok(())
    } else {
        Err(place.refuse("must be a URL"))
    }
}

/// Returns the format of a sound.
fn sound_format(kind: &str) -> Option<Cow<'static, str>> {
    let kind = kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let format = kind.strip_prefix("audio/")?;
    let format = format
        .strip_prefix("x")
        .and_then(|rest| rest.strip_prefix('-'))
        .unwrap_or(format);
    Some(match format {
        "wav" | "wave" | "vnd.wave" => Cow::Borrowed("wav"),
        "mp3" | "mpeg" | "mpga" => Cow::Borrowed("mp3"),
        _ => Cow::Owned(format.to_owned()),
    })
}
