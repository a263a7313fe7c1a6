//! This module sends pictures, sounds and files: as bytes in the request, or as an address from
//! which Google itself fetches. The gateway fetches nothing.

use std::borrow::Cow;

use super::Service;
use super::models::Model;
use crate::neutral::{Field, FieldRefused, LostFields, Media, Part, PartKind, Request, Target};

/// The way in which Google gets the bytes of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carried<'p> {
    /// Media in the request: media type and base64.
    Inline(Cow<'p, str>, &'p str),
    /// Media from an address, with the media type if Google does not know it.
    FromUrl(Option<&'static str>, &'p str),
}

/// Returns the way in which Google gets a part that is no text, or the reason why it cannot.
pub(super) fn carry_part<'p>(
    part: &'p PartKind<'_>,
    target: &Target<'_>,
    service: Service,
    losses: &mut LostFields,
) -> Result<Carried<'p>, &'static str> {
    match part {
        PartKind::Text(_) => Err("text cannot be sent as an image or a file"),
        PartKind::Image(..) if !target.traits.images => Err("This model does not accept pictures."),
        PartKind::Image(media, detail) => {
            losses.add_if(
                detail.as_deref().is_some_and(|detail| detail != "auto"),
                Field::ImageDetail,
            );
            match of_media(media, "image/jpeg", target, service)? {
                Carried::Inline(kind, _) if !is_image(&kind) => Err(
                    "This model accepts pictures as PNG, JPEG, WebP, GIF, BMP, HEIC or HEIF only.",
                ),
                carried @ (Carried::Inline(..) | Carried::FromUrl(..)) => Ok(carried),
            }
        }
        PartKind::Audio(data, format) => {
            let kind = media_type(format).filter(|kind| kind.starts_with("audio/"));
            let kind = kind.ok_or("This model does not accept audio in this format.")?;
            Ok(Carried::Inline(Cow::Borrowed(kind), data))
        }
        PartKind::File(media, name) => {
            let by_name = name.as_deref().and_then(type_of);
            losses.add_if(name.is_some(), Field::FileName);
            of_media(media, by_name.unwrap_or("application/pdf"), target, service)
        }
    }
}

fn of_media<'p>(
    media: &'p Media<'_>,
    default: &'static str,
    target: &Target<'_>,
    service: Service,
) -> Result<Carried<'p>, &'static str> {
    match media {
        Media::Inline(kind, _) if kind.starts_with("image/") && !target.traits.images => {
            Err("This model does not accept pictures.")
        }
        Media::Inline(kind, data) if kind.is_empty() => {
            Ok(Carried::Inline(Cow::Borrowed(default), data))
        }
        Media::Inline(kind, data) => Ok(Carried::Inline(Cow::Borrowed(kind), data)),
        Media::Url(url) => of_url(url, target.model, service),
        Media::Id(_) => {
            Err("This model's provider does not have a file with this id. Send the file itself.")
        }
    }
}

fn of_url<'p>(url: &'p str, model: &str, service: Service) -> Result<Carried<'p>, &'static str> {
    let lower = url.to_ascii_lowercase();
    if lower.starts_with("gs://") {
        if service == Service::Gemini {
            return Err("Only Vertex AI can read gs:// URLs. Send the data itself.");
        }
        let kind = type_of(url)
            .ok_or("The URL must end with an extension such as .png, which shows the type.")?;
        return Ok(Carried::FromUrl(Some(kind), url));
    }
    let Some(rest) = lower
        .strip_prefix("https://")
        .or_else(|| lower.strip_prefix("http://"))
    else {
        return Err("This model does not accept URLs of this scheme. Send the data itself.");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match host {
        "generativelanguage.googleapis.com" if rest.contains("/files/") => match service {
            // Google learned the type when the file was uploaded.
            Service::Gemini => Ok(Carried::FromUrl(None, url)),
            Service::Vertex => {
                Err("Vertex AI cannot read files of the Gemini API. Send the data itself.")
            }
        },
        "www.youtube.com" | "youtube.com" | "m.youtube.com" | "youtu.be" => {
            Ok(Carried::FromUrl(Some("video/mp4"), url))
        }
        _ if !Model::read(model).reads_urls() => {
            Err("This model does not fetch URLs. Send the data itself.")
        }
        // Only the path's extension counts. The extension of a host is a country.
        _ => match url
            .get(url.len() - rest.len() + host.len()..)
            .and_then(type_of)
        {
            Some(kind) if is_fetched(kind) => Ok(Carried::FromUrl(Some(kind), url)),
            Some(_) => {
                Err("This model does not fetch files of this type from URLs. Send the data itself.")
            }
            None => Err(
                "The URL must end with an extension such as .png, which shows the type. Or send the data itself.",
            ),
        },
    }
}

fn is_image(kind: &str) -> bool {
    matches!(
        kind,
        "image/png"
            | "image/jpeg"
            | "image/webp"
            | "image/gif"
            | "image/bmp"
            | "image/heic"
            | "image/heif"
    )
}

/// Returns whether Google fetches files of this type from public addresses.
fn is_fetched(kind: &str) -> bool {
    matches!(
        kind,
        "image/bmp" | "image/jpeg" | "image/png" | "image/webp" | "application/pdf"
    ) || kind.starts_with("text/")
        || kind.starts_with("video/")
}

/// Returns the media type that the extension of a file's name or address stands for.
fn type_of(address: &str) -> Option<&'static str> {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let (_, extension) = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .rsplit_once('.')?;
    media_type(&extension.to_ascii_lowercase())
}

/// Returns the media type of files with this extension.
fn media_type(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "md" => "text/markdown",
        "xml" => "text/xml",
        "mp4" => "video/mp4",
        "mpeg" | "mpg" => "video/mpeg",
        "mov" => "video/quicktime",
        "avi" => "video/x-msvideo",
        "flv" => "video/x-flv",
        "webm" => "video/webm",
        "wmv" => "video/x-ms-wmv",
        "3gp" | "3gpp" => "video/3gpp",
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        "aac" => "audio/aac",
        "flac" => "audio/flac",
        "ogg" => "audio/ogg",
        "aiff" => "audio/aiff",
        _ => return None,
    })
}

/// Returns the refusal of a part. It names the place of the part.
pub(super) fn part_refused(
    request: &Request<'_>,
    part: &Part<'_>,
    why: &'static str,
) -> FieldRefused {
    let field = request
        .messages
        .iter()
        .enumerate()
        .find_map(|(message, one)| {
            let part_index = one
                .content
                .iter()
                .position(|other| std::ptr::eq(other, part))?;
            Some(Field::Part(message, part_index))
        });
    FieldRefused::unsupported(field.unwrap_or(Field::Messages), why)
}
