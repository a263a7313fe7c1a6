//! URLs that hold what they name (RFC 2397), and the media types of files by their names.

use std::borrow::Cow;

use super::value::{Place, ReadFault};
use crate::neutral::Media;

/// Takes a `data:` URL apart; any other is as it is.
pub(in crate::front) fn media<'a>(
    url: Cow<'a, str>,
    place: Place<'_>,
) -> Result<Media<'a>, ReadFault> {
    let media = apart(url).ok_or_else(|| {
        place.unsupported("this model's provider accepts data URLs in base64 only")
    })?;
    if let Media::Inline(kind, _) = &media
        && !kind.is_empty()
    {
        check(kind, place)?;
    }
    Ok(media)
}

/// Takes base64 of a media type.
pub(in crate::front) fn inline<'a>(
    kind: Cow<'a, str>,
    data: Cow<'a, str>,
    place: Place<'_>,
) -> Result<Media<'a>, ReadFault> {
    let kind = match &*kind {
        "image/jpg" => Cow::Borrowed("image/jpeg"),
        word if word.bytes().any(|byte| byte.is_ascii_uppercase()) => {
            Cow::Owned(word.to_ascii_lowercase())
        }
        _ => kind,
    };
    check(&kind, place)?;
    Ok(Media::Inline(kind, data))
}

/// Refuses what is no media type. It is written into requests, and into addresses.
fn check(kind: &str, place: Place<'_>) -> Result<(), ReadFault> {
    if is_media_type(kind) {
        Ok(())
    } else {
        Err(place.refuse("must name its media type as `type/subtype`"))
    }
}

/// Two tokens, as RFC 9110 has them.
fn is_media_type(kind: &str) -> bool {
    let is_token = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    kind.len() <= MAX_TYPE
        && kind
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

/// Bytes of a media type.
const MAX_TYPE: usize = 127;

/// `None` if its data is not in base64.
fn apart(url: Cow<'_, str>) -> Option<Media<'_>> {
    let is_data = url
        .as_bytes()
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"data:"));
    if !is_data {
        return Some(Media::Url(url));
    }
    let comma = memchr::memchr(b',', url.as_bytes())?;
    let kind = {
        let mut words = url.get(5..comma)?.split(';').map(str::trim);
        let kind = words.next().unwrap_or_default().to_ascii_lowercase();
        if !words.any(|word| word.eq_ignore_ascii_case("base64")) {
            return None;
        }
        Cow::Owned(if kind == "image/jpg" {
            "image/jpeg".to_owned()
        } else {
            kind
        })
    };
    let data = match url {
        Cow::Borrowed(url) => Cow::Borrowed(url.get(comma + 1..)?),
        Cow::Owned(mut url) => {
            url.drain(..=comma);
            Cow::Owned(url)
        }
    };
    Some(Media::Inline(kind, data))
}

/// Whether it is a URL. Base64 has no colon.
pub(in crate::front) fn has_scheme(url: &str) -> bool {
    url.as_bytes().iter().take(32).any(|byte| *byte == b':')
}

/// The media type that a file's name speaks of.
pub(in crate::front) fn media_type(filename: &str) -> Option<&'static str> {
    let (_, extension) = filename.rsplit_once('.')?;
    let known = TYPES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(extension));
    known.map(|(_, kind)| *kind)
}

const TYPES: [(&str, &str); 30] = [
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
