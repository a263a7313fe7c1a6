//! This module writes the content of a conversation as content blocks.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::neutral::turns::Outcome;
use crate::neutral::{Cache, Call, Field, LostFields, Media, Part, PartKind, Thought};
use crate::upstream::claude::alternation::is_blank;
use crate::upstream::claude::blocks::{
    CacheHints, PDF, image_type, is_blank_part, is_pdf, write_input,
};
use crate::upstream::claude::conversation::BlockWriter;
use crate::upstream::shared::names::Names;
use crate::wire::json::Writer;

/// Writes blocks, in the order of the conversation.
pub(super) struct Blocks<'r, 'l> {
    pub(super) names: &'l Names<'r>,
    pub(super) breakpoints: Breakpoints,
    pub(super) losses: &'l mut LostFields,
}

/// The places where a prompt cache may end, up to the number that the API takes.
#[derive(Debug)]
pub(super) struct Breakpoints(CacheHints);

/// The bytes of a part, or their place, in a form that the API takes.
pub(super) enum MediaSource<'p> {
    /// The bytes of a picture or a PDF.
    Base64 {
        media_type: &'static str,
        data: &'p str,
    },
    /// A picture's URL.
    ImageUrl(&'p str),
    /// A text file.
    Text(String),
    /// A document's URL.
    DocumentUrl(&'p str),
}

impl MediaSource<'_> {
    /// Returns whether the source is a picture.
    pub(super) fn is_image(&self) -> bool {
        match self {
            MediaSource::ImageUrl(_) => true,
            MediaSource::Base64 { media_type, .. } => *media_type != PDF,
            MediaSource::Text(_) | MediaSource::DocumentUrl(_) => false,
        }
    }
}

impl Breakpoints {
    /// Selects the hints that the API takes out of `count`.
    pub(super) fn select(count: usize, losses: &mut LostFields) -> Self {
        Self(CacheHints::keep_last(count, 4, losses))
    }

    /// Writes the member `cache_control`, if there is a hint here.
    pub(super) fn write(
        &mut self,
        w: &mut Writer,
        hint: Option<&Cache<'_>>,
        losses: &mut LostFields,
    ) {
        let Some(cache) = self.0.next(hint) else {
            return;
        };
        w.key("cache_control").object(|w| {
            w.key("type").text("ephemeral");
            match cache.ttl.as_deref() {
                Some(ttl @ ("5m" | "1h")) => w.key("ttl").text(ttl),
                Some(_) => losses.add(Field::CacheHint),
                None => {}
            }
        });
    }
}

impl BlockWriter for Blocks<'_, '_> {
    fn text(&mut self, w: &mut Writer, text: &str) {
        w.object(|w| w.texts([("type", "text"), ("text", text)]));
    }

    fn part(&mut self, w: &mut Writer, part: &Part<'_>, is_end: bool) {
        self.kind(w, &part.kind, part.cache.as_ref(), is_end);
    }

    fn thought(&mut self, w: &mut Writer, thought: &Thought<'_>) {
        w.object(|w| match (&thought.redacted, &thought.signature) {
            (Some(data), _) => w.texts([("type", "redacted_thinking"), ("data", data)]),
            (None, signature) => {
                let signature = signature.as_deref().unwrap_or_default();
                w.texts([
                    ("type", "thinking"),
                    ("thinking", &thought.text),
                    ("signature", signature),
                ]);
            }
        });
    }

    fn call(&mut self, w: &mut Writer, id: &str, call: &Call<'_>) {
        w.object(|w| {
            w.texts([
                ("type", "tool_use"),
                ("id", id),
                ("name", self.names.written(&call.name)),
            ]);
            write_input(w, call, self.losses);
        });
    }

    fn result(&mut self, w: &mut Writer, id: &str, outcome: &Outcome<'_, '_>) {
        let mut parts = outcome
            .parts
            .iter()
            .filter(|part| !is_blank_part(part))
            .peekable();
        w.object(|w| {
            w.texts([("type", "tool_result"), ("tool_use_id", id)]);
            match (outcome.parts, parts.peek()) {
                (
                    [
                        Part {
                            kind: PartKind::Text(text),
                            ..
                        },
                    ],
                    Some(_),
                ) => text.write(w.key("content")),
                // The cache hint belongs to the whole result.
                (_, Some(_)) => w
                    .key("content")
                    .each(parts, |w, part| self.kind(w, &part.kind, None, false)),
                (_, None) => {}
            }
            self.breakpoints.write(w, outcome.cache, self.losses);
        });
    }
}

impl Blocks<'_, '_> {
    /// Writes a text or a medium with this cache hint.
    fn kind(
        &mut self,
        w: &mut Writer,
        kind: &PartKind<'_>,
        cache: Option<&Cache<'_>>,
        is_end: bool,
    ) {
        if let PartKind::Text(text) = kind {
            w.object(|w| {
                w.key("type").text("text");
                if is_end {
                    w.key("text").text(text.trim_end())
                } else {
                    text.write(w.key("text"))
                }
                self.breakpoints.write(w, cache, self.losses);
            });
            return;
        }
        // Parts without a source were refused before anything was written.
        let Ok(source) = media_source(kind) else {
            return;
        };
        let is_image = source.is_image();
        w.object(|w| {
            w.key("type")
                .text(if is_image { "image" } else { "document" });
            w.key("source").object(|w| match &source {
                MediaSource::Base64 { media_type, data } => {
                    w.texts([
                        ("type", "base64"),
                        ("media_type", media_type),
                        ("data", data),
                    ]);
                }
                MediaSource::ImageUrl(url) | MediaSource::DocumentUrl(url) => {
                    w.texts([("type", "url"), ("url", url)])
                }
                MediaSource::Text(text) => w.texts([
                    ("type", "text"),
                    ("media_type", "text/plain"),
                    ("data", text),
                ]),
            });
            match kind {
                PartKind::File(_, Some(name)) if !is_image && !is_blank(name) => {
                    w.key("title").text(name)
                }
                PartKind::Image(_, Some(detail)) if detail != "auto" => {
                    self.losses.add(Field::ImageDetail)
                }
                PartKind::Text(_)
                | PartKind::Image(..)
                | PartKind::Audio(..)
                | PartKind::File(..) => {}
            }
            self.breakpoints.write(w, cache, self.losses);
        });
    }
}

/// Returns the source of a part, or the reason why it cannot be sent.
pub(super) fn media_source<'p>(kind: &'p PartKind<'_>) -> Result<MediaSource<'p>, &'static str> {
    match kind {
        PartKind::Text(_) => Err("This is a text."),
        PartKind::Audio(..) => Err("Claude does not accept audio."),
        PartKind::Image(Media::Id(_), _) | PartKind::File(Media::Id(_), _) => {
            Err("This model's provider does not have a file with this id. Send the file itself.")
        }
        PartKind::Image(media @ Media::Url(url), _) if media.is_web() => {
            Ok(MediaSource::ImageUrl(url))
        }
        PartKind::File(media @ Media::Url(url), _) if media.is_web() => {
            Ok(MediaSource::DocumentUrl(url))
        }
        PartKind::Image(Media::Url(_), _) | PartKind::File(Media::Url(_), _) => {
            Err("This model's provider accepts only URLs that begin with https:// or http://.")
        }
        PartKind::Image(Media::Inline(media_type, data), _) => {
            let media_type = image_type(media_type, data)
                .ok_or("This model accepts pictures as JPEG, PNG, GIF or WebP only.")?;
            Ok(MediaSource::Base64 { media_type, data })
        }
        PartKind::File(Media::Inline(media_type, data), _) => {
            if let Some(media_type) = image_type(media_type, data) {
                return Ok(MediaSource::Base64 { media_type, data });
            }
            match &**media_type {
                _ if is_pdf(media_type, data) => Ok(MediaSource::Base64 {
                    media_type: PDF,
                    data,
                }),
                text if text.starts_with("text/")
                    || matches!(text, "application/json" | "application/xml") =>
                {
                    decode_text(data)
                        .map(MediaSource::Text)
                        .ok_or("The file must be text in UTF-8, encoded in base64.")
                }
                _ => Err("This model accepts only PDF, text and picture files."),
            }
        }
    }
}

/// Decodes base64 of a text that is not blank.
fn decode_text(data: &str) -> Option<String> {
    const ENGINE: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    String::from_utf8(ENGINE.decode(data).ok()?)
        .ok()
        .filter(|text| !is_blank(text))
}

#[cfg(test)]
mod tests;
