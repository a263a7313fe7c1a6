//! URLs that hold their data (RFC 2397), and the media types of files by their names.

use std::borrow::Cow;

use super::value::{Place, ReadResult};
use crate::neutral::Media;
use crate::wire::starts_with_any_case;

/// Reads a URL: takes a `data:` URL apart, and keeps any other URL as it is.
pub(crate) fn read_media_url<'a>(url: Cow<'a, str>, place: Place<'_>) -> ReadResult<Media<'a>> {
    let media = split_data_url(url).ok_or_else(|| {
        place.unsupported("this model's provider accepts data URLs in base64 only")
    })?;
    if let Media::Inline(kind, _) = &media
        && !kind.is_empty()
    {
        check_media_type(kind, place)?;
    }
    Ok(media)
}

/// Reads the data of a sound: a `data:` URL, or base64 alone.
pub(crate) fn read_sound<'a>(data: Cow<'a, str>, place: Place<'_>) -> ReadResult<Cow<'a, str>> {
    read_media_url(data, place).map(|media| match media {
        Media::Inline(_, data) | Media::Url(data) | Media::Id(data) => data,
    })
}

/// Reads the data of a file: a URL, or base64 alone, as many callers send it. Where the data have
/// no media type, the file's name gives it.
pub(crate) fn read_file<'a>(
    data: Cow<'a, str>,
    filename: Option<&str>,
    place: Place<'_>,
) -> ReadResult<Media<'a>> {
    let named_type = || filename.and_then(media_type).unwrap_or_default().into();
    Ok(match read_media_url(data, place)? {
        Media::Url(data) if !has_scheme(&data) => Media::Inline(named_type(), data),
        Media::Inline(kind, data) if kind.is_empty() => Media::Inline(named_type(), data),
        media @ (Media::Inline(..) | Media::Url(_) | Media::Id(_)) => media,
    })
}

/// Returns base64 of a media type as a medium.
pub(crate) fn inline_media<'a>(
    kind: Cow<'a, str>,
    data: Cow<'a, str>,
    place: Place<'_>,
) -> ReadResult<Media<'a>> {
    let kind = match &*kind {
        "image/jpg" => Cow::Borrowed("image/jpeg"),
        word if word.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            Cow::Owned(word.to_ascii_lowercase())
        }
        _ => kind,
    };
    check_media_type(&kind, place)?;
    Ok(Media::Inline(kind, data))
}

/// Refuses a text that is no media type. The text is written into requests and addresses.
fn check_media_type(kind: &str, place: Place<'_>) -> ReadResult<()> {
    if is_media_type(kind) {
        Ok(())
    } else {
        Err(place.refuse("must name its media type as `type/subtype`"))
    }
}

/// Returns whether a text is a media type: two tokens, as RFC 9110 has them.
fn is_media_type(kind: &str) -> bool {
    kind.len() <= MAX_MEDIA_TYPE_BYTES
        && kind
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

fn is_token(word: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !word.is_empty() && word.bytes().all(is_part)
}

/// The most bytes of a media type.
const MAX_MEDIA_TYPE_BYTES: usize = 127;

/// Takes a `data:` URL apart. Returns `None` if its data are not in base64.
fn split_data_url(url: Cow<'_, str>) -> Option<Media<'_>> {
    if !starts_with_any_case(&*url, "data:") {
        return Some(Media::Url(url));
    }
    let comma = memchr::memchr(b',', url.as_bytes())?;
    let mut words = url.get(5..comma)?.split(';').map(str::trim);
    let mut kind = words.next().unwrap_or_default().to_ascii_lowercase();
    if !words.any(|word| word.eq_ignore_ascii_case("base64")) {
        return None;
    }
    if kind == "image/jpg" {
        kind = "image/jpeg".to_owned();
    }
    let data = match url {
        Cow::Borrowed(url) => Cow::Borrowed(url.get(comma + 1..)?),
        Cow::Owned(mut url) => {
            url.drain(..=comma);
            Cow::Owned(url)
        }
    };
    Some(Media::Inline(kind.into(), data))
}

/// Returns whether a text is a URL, and not base64: base64 has no colon.
pub(crate) fn has_scheme(url: &str) -> bool {
    // A scheme is short, and base64 may be megabytes.
    url.as_bytes().iter().take(32).any(|byte| *byte == b':')
}

/// Returns the media type for the ending of a file's name.
pub(crate) fn media_type(filename: &str) -> Option<&'static str> {
    let (_, extension) = filename.rsplit_once('.')?;
    let known = MEDIA_TYPES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(extension));
    known.map(|(_, kind)| *kind)
}

/// The media type of each ending.
const MEDIA_TYPES: [(&str, &str); 30] = [
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("py", "text/x-python"),
    ("xml", "text/xml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("rtf", "application/rtf"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
];
