//! This module writes the content of a conversation as content blocks.

use std::collections::BTreeMap;

use super::models::Family;
use crate::neutral::turns::{Item, Outcome};
use crate::neutral::{Cache, Call, Field, LostFields, Media, Part, PartKind, Thought};
use crate::upstream::claude::alternation::Side;
use crate::upstream::claude::blocks::{CacheHints, image_type, is_blank_part, is_pdf, write_input};
use crate::upstream::claude::conversation::BlockWriter;
use crate::upstream::shared::names::Names;
use crate::wire::json::Writer;

/// Writes blocks, in the order of the conversation.
pub(super) struct Blocks<'r, 'l> {
    pub(super) names: &'l Names<'r>,
    pub(super) points: CachePoints,
    /// The names of the documents so far. Each has the number to try for the next document of that
    /// name, because no two documents may share a name.
    pub(super) documents: BTreeMap<String, u64>,
    pub(super) losses: &'l mut LostFields,
}

/// The places where a prompt cache may end, up to the number that the model takes. A cache point is
/// a block of its own, after the content that it belongs to.
#[derive(Debug)]
pub(super) struct CachePoints {
    family: Family,
    hints: CacheHints,
}

/// The format of a part, and its bytes in base64.
#[derive(Debug, Clone, Copy)]
pub(super) enum MediaSource<'p> {
    Image(&'static str, &'p str),
    Document(&'static str, &'p str),
}

impl CachePoints {
    /// Selects the hints that the model takes out of `count`.
    pub(super) fn select(count: usize, family: Family, losses: &mut LostFields) -> Self {
        Self {
            family,
            hints: CacheHints::keep_last(count, if family.caches() { 4 } else { 0 }, losses),
        }
    }

    /// Writes a cache point after a tool, if the tool has a hint.
    pub(super) fn tool(
        &mut self,
        w: &mut Writer,
        cache: Option<&Cache<'_>>,
        losses: &mut LostFields,
    ) {
        // Nova does not cache its tools.
        if self.family == Family::Claude {
            self.write(w, cache, losses);
        } else if cache.is_some() {
            losses.add(Field::CacheHint);
        }
    }

    /// Writes a cache point, if there is a hint here.
    fn write(&mut self, w: &mut Writer, hint: Option<&Cache<'_>>, losses: &mut LostFields) {
        let Some(cache) = self.hints.next(hint) else {
            return;
        };
        let is_long = match (cache.ttl.as_deref(), self.family) {
            (None | Some("5m"), _) => false,
            (Some("1h"), Family::Claude) => true,
            (Some(_), _) => {
                losses.add(Field::CacheHint);
                false
            }
        };
        w.raw(if is_long {
            r#"{"cachePoint":{"type":"default","ttl":"1h"}}"#
        } else {
            r#"{"cachePoint":{"type":"default"}}"#
        });
    }
}

impl BlockWriter for Blocks<'_, '_> {
    fn text(&mut self, w: &mut Writer, text: &str) {
        w.object(|w| w.key("text").text(text));
    }

    fn part(&mut self, w: &mut Writer, part: &Part<'_>, is_end: bool) {
        self.kind(w, &part.kind, is_end);
        self.points.write(w, part.cache.as_ref(), self.losses);
    }

    fn thought(&mut self, w: &mut Writer, thought: &Thought<'_>) {
        w.object(|w| {
            w.key("reasoningContent")
                .object(|w| match (&thought.redacted, &thought.signature) {
                    (Some(data), _) => w.key("redactedContent").text(data),
                    (None, signature) => w.key("reasoningText").object(|w| {
                        w.key("text").text(&thought.text);
                        w.optional("signature", signature.as_deref(), Writer::text);
                    }),
                });
        });
    }

    fn call(&mut self, w: &mut Writer, id: &str, call: &Call<'_>) {
        w.object(|w| {
            w.key("toolUse").object(|w| {
                w.texts([("toolUseId", id), ("name", self.names.written(&call.name))]);
                write_input(w, call, self.losses);
            });
        });
    }

    fn result(&mut self, w: &mut Writer, id: &str, outcome: &Outcome<'_, '_>) {
        let mut parts = outcome
            .parts
            .iter()
            .filter(|part| !is_blank_part(part))
            .peekable();
        w.object(|w| {
            w.key("toolResult").object(|w| {
                w.key("toolUseId").text(id);
                match parts.peek() {
                    // The cache hint belongs to the whole result.
                    Some(_) => w
                        .key("content")
                        .each(parts, |w, part| self.kind(w, &part.kind, false)),
                    None => w.key("content").each([NO_RESULT], Writer::raw),
                }
            });
        });
        self.points.write(w, outcome.cache, self.losses);
    }

    fn end(&mut self, w: &mut Writer, side: Side<'_, '_, '_>) {
        if needs_text(side) {
            self.text(w, ".");
        }
    }
}

impl Blocks<'_, '_> {
    /// Writes a text or a medium.
    fn kind(&mut self, w: &mut Writer, kind: &PartKind<'_>, is_end: bool) {
        if let PartKind::Text(text) = kind {
            w.object(|w| {
                if is_end {
                    w.key("text").text(text.trim_end())
                } else {
                    text.write(w.key("text"))
                }
            });
            return;
        }
        if let PartKind::Image(_, Some(detail)) = kind
            && detail != "auto"
        {
            self.losses.add(Field::ImageDetail);
        }
        // Parts without a source were refused before anything was written.
        match media_source(kind) {
            Ok(MediaSource::Image(format, data)) => {
                w.object(|w| w.key("image").object(|w| write_media(w, format, data)))
            }
            Ok(MediaSource::Document(format, data)) => {
                let name = if let PartKind::File(_, Some(name)) = kind {
                    name
                } else {
                    ""
                };
                let name = self.document(name);
                w.object(|w| {
                    w.key("document").object(|w| {
                        w.key("name").text(&name);
                        write_media(w, format, data);
                    });
                });
            }
            Err(_) => {}
        }
    }

    /// Returns a valid and unique name for a document. Letters, digits, single spaces, hyphens and
    /// brackets are valid.
    fn document(&mut self, name: &str) -> String {
        const MAX: usize = 190;
        let mut fitting = String::new();
        for c in name.chars() {
            match c {
                c if c.is_ascii_alphanumeric() || "-()[]".contains(c) => fitting.push(c),
                c if c.is_whitespace() && !fitting.ends_with(' ') => fitting.push(' '),
                c if !c.is_whitespace() && !fitting.ends_with('-') => fitting.push('-'),
                _ => {}
            }
        }
        fitting.truncate(MAX);
        let fitting = match fitting.trim() {
            "" => "document",
            name => name,
        };
        let mut unique = fitting.to_owned();
        while self.documents.contains_key(&unique) {
            let next = self.documents.entry(fitting.to_owned()).or_insert(2);
            unique = format!("{fitting} {next}");
            *next += 1;
        }
        self.documents.insert(unique.clone(), 2);
        unique
    }
}

/// The content of an empty result, because no text may be blank.
const NO_RESULT: &str = r#"{"text":"(nothing)"}"#;

/// Returns whether a message has documents but no text. Documents need a text next to them.
fn needs_text(side: Side<'_, '_, '_>) -> bool {
    let mut has_document = false;
    for item in side.items() {
        let Item::Part(part) = item else { continue };
        if matches!(part.kind, PartKind::Text(_)) {
            return false;
        }
        has_document |= matches!(part.kind, PartKind::File(..))
            && matches!(media_source(&part.kind), Ok(MediaSource::Document(..)));
    }
    has_document
}

fn write_media(w: &mut Writer, format: &str, data: &str) {
    w.key("format").text(format);
    w.key("source").object(|w| w.key("bytes").text(data));
}

/// Returns the source of a part, or the reason why it cannot be sent.
pub(super) fn media_source<'p>(kind: &'p PartKind<'_>) -> Result<MediaSource<'p>, &'static str> {
    let (media, name) = match kind {
        PartKind::Text(_) => return Err("This is a text."),
        PartKind::Audio(..) => return Err("This model's provider does not accept audio."),
        PartKind::Image(media, _) => (media, None),
        PartKind::File(media, name) => (media, Some(name.as_deref().unwrap_or_default())),
    };
    let (media_type, data) = match media {
        Media::Inline(media_type, data) => (&**media_type, &**data),
        Media::Url(_) => {
            return Err("This model's provider does not fetch URLs. Send the bytes as a data URL.");
        }
        Media::Id(_) => {
            return Err(
                "This model's provider does not have a file with this id. Send the file itself.",
            );
        }
    };
    if let Some(format) = image_type(media_type, data).and_then(|name| name.strip_prefix("image/"))
    {
        return Ok(MediaSource::Image(format, data));
    }
    let Some(name) = name else {
        return Err("This model accepts pictures as JPEG, PNG, GIF or WebP only.");
    };
    match document_format(media_type, name, data) {
        Some(format) => Ok(MediaSource::Document(format, data)),
        None => Err(
            "This model accepts only PDF, Word, Excel, CSV, HTML, Markdown, text and picture files.",
        ),
    }
}

/// Returns the format of a document: by the media type, else by the ending of the name, else by the
/// first bytes.
fn document_format(media_type: &str, name: &str, data: &str) -> Option<&'static str> {
    const ENDINGS: [&str; 9] = [
        "pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md",
    ];
    let by_type = match media_type {
        "application/pdf" => Some("pdf"),
        "text/csv" => Some("csv"),
        "text/html" => Some("html"),
        "text/markdown" => Some("md"),
        "application/msword" => Some("doc"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Some("docx"),
        "application/vnd.ms-excel" => Some("xls"),
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => Some("xlsx"),
        "application/json" | "application/xml" | "application/yaml" => Some("txt"),
        // A file's name distinguishes Markdown from text better than a media type does.
        _ => None,
    };
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let mut endings = ENDINGS.into_iter();
    let by_name = || endings.find(|known| ending.eq_ignore_ascii_case(known));
    let by_kind = || media_type.starts_with("text/").then_some("txt");
    let by_bytes = || is_pdf(media_type, data).then_some("pdf");
    by_type.or_else(by_name).or_else(by_kind).or_else(by_bytes)
}
