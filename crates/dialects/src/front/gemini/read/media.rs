//! Pictures, sounds and files: in the request, or at an address.

use std::borrow::Cow;

use super::members;
use crate::front::reading::url;
use crate::front::reading::value::{Place, ReadFault, Value};
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
    /// Reads an object; `None` for `null`.
    fn read(value: Value<'_, 'a>) -> Result<Option<Self>, ReadFault> {
        let mut blob = Self::default();
        let is_there = members(value, &["mimeType", "data", "fileUri", "displayName"], |name, _, value| {
            match name {
                "mimeType" => blob.kind = value.text()?.filter(|kind| !kind.is_empty()),
                "data" => blob.data = value.text()?,
                "fileUri" => blob.uri = value.text()?,
                "displayName" => blob.name = value.text()?,
                _ => value.skip()?,
            }
            Ok(())
        })?;
        Ok(is_there.then_some(blob))
    }
}

/// Reads `inlineData`.
pub(super) fn inline<'a>(value: Value<'_, 'a>) -> Result<Option<PartKind<'a>>, ReadFault> {
    let place = value.place;
    let Some(Blob { kind, data, name, .. }) = Blob::read(value)? else { return Ok(None) };
    let kind = kind.ok_or_else(|| place.field("mimeType").missing())?;
    let data = data.ok_or_else(|| place.field("data").missing())?;
    // A server may fetch what looks like a URL.
    if memchr::memchr(b':', data.as_bytes()).is_some() {
        return Err(place.field("data").refuse("must be base64"));
    }
    if let Some(format) = sound(&kind) {
        return Ok(Some(PartKind::Audio(data, format)));
    }
    let media = url::inline(kind, data, place.field("mimeType"))?;
    let is_picture = matches!(&media, Media::Inline(kind, _) if kind.starts_with("image/"));
    Ok(Some(if is_picture { PartKind::Image(media, None) } else { PartKind::File(media, name) }))
}

/// Reads `fileData`.
pub(super) fn file<'a>(value: Value<'_, 'a>) -> Result<Option<PartKind<'a>>, ReadFault> {
    let place = value.place;
    let Some(Blob { kind, uri, name, .. }) = Blob::read(value)? else { return Ok(None) };
    let uri = uri.filter(|uri| !uri.is_empty()).ok_or_else(|| place.field("fileUri").missing())?;
    check(&uri, place.field("fileUri"))?;
    let of_name = || url::media_type(&uri).unwrap_or_default();
    let is_picture = kind.as_deref().unwrap_or_else(of_name).to_ascii_lowercase().starts_with("image/");
    let media = Media::Url(uri);
    Ok(Some(if is_picture { PartKind::Image(media, None) } else { PartKind::File(media, name) }))
}

/// Refuses what is no address, and the address of a file that was uploaded to Google.
fn check(uri: &str, place: Place<'_>) -> Result<(), ReadFault> {
    let is_uploaded =
        uri.starts_with("files/") || uri.to_ascii_lowercase().contains("generativelanguage.googleapis.com");
    if is_uploaded {
        return Err(place.unsupported("files that were uploaded to Google are not at hand here: send the data itself"));
    }
    if url::has_scheme(uri) { Ok(()) } else { Err(place.refuse("must be a URL")) }
}

/// Returns the format of a sound.
fn sound(kind: &str) -> Option<Cow<'static, str>> {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let format = kind.strip_prefix("audio/")?;
    let format = format.strip_prefix("x").and_then(|rest| rest.strip_prefix('-')).unwrap_or(format);
    Some(match format {
        "wav" | "wave" | "vnd.wave" => Cow::Borrowed("wav"),
        "mp3" | "mpeg" | "mpga" => Cow::Borrowed("mp3"),
        _ => Cow::Owned(format.to_owned()),
    })
}
