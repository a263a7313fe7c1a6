//! This module has the rules for single blocks that both APIs share: inputs of calls, cache hints,
//! media types.

use crate::neutral::{Cache, Call, Field, LostFields, Part, PartKind};
use crate::wire::json::Writer;

/// Returns whether a part is a blank text.
pub(crate) fn is_blank_part(part: &Part<'_>) -> bool {
    matches!(&part.kind, PartKind::Text(text) if text.is_blank())
}

/// Writes the input of a call. Arguments that are no object are put into one.
pub(crate) fn write_input(w: &mut Writer, call: &Call<'_>, losses: &mut LostFields) {
    if call.signature.is_some() {
        // The signature is Google's.
        losses.add(Field::CallSignature);
    }
    match call.object() {
        Some(object) => w.key("input").raw(object),
        None => {
            losses.add(call.weakened());
            w.key("input")
                .object(|w| w.key("_raw").text(&call.arguments));
        }
    }
}

/// The number of cache hints that an API does not take, because there are too many.
#[derive(Debug)]
pub(crate) struct CacheHints {
    /// The number of hints that are still to be left out.
    surplus: usize,
}

impl CacheHints {
    /// Takes the last `max_hints` of `count` hints, because they cover the longest prompt that
    /// comes again.
    pub(crate) fn keep_last(count: usize, max_hints: usize, losses: &mut LostFields) -> Self {
        losses.add_if(count > max_hints, Field::CacheHint);
        Self {
            surplus: count.saturating_sub(max_hints),
        }
    }

    /// Returns the hint of this place, if there is one and it is taken.
    pub(crate) fn next<'c, 'a>(&mut self, hint: Option<&'c Cache<'a>>) -> Option<&'c Cache<'a>> {
        if hint.is_some() && self.surplus > 0 {
            self.surplus -= 1;
            return None;
        }
        hint
    }
}

/// The media type of a PDF.
pub(crate) const PDF: &str = "application/pdf";

/// Returns whether a file is a PDF: by its media type, or by its first bytes if the media type does
/// not show it.
pub(crate) fn is_pdf(media_type: &str, data: &str) -> bool {
    media_type == PDF
        || matches!(media_type, "" | "application/octet-stream") && data.starts_with("JVBERi")
}

/// Returns the media type of a picture that both APIs take: the written one, or the one that the
/// first bytes show if the written one does not.
pub(crate) fn image_type(media_type: &str, data: &str) -> Option<&'static str> {
    const TYPES: [(&str, &str); 4] = [
        ("image/jpeg", "/9j/"),
        ("image/png", "iVBORw0KGgo"),
        ("image/gif", "R0lGOD"),
        ("image/webp", "UklGR"),
    ];
    let is_unsaid = matches!(media_type, "" | "application/octet-stream" | "image/*");
    TYPES
        .iter()
        .find(|(name, start)| *name == media_type || (is_unsaid && data.starts_with(start)))
        .map(|(name, _)| *name)
}
