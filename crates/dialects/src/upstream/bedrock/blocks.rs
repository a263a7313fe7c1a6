//! What is said, as content blocks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::models::Family;
use crate::neutral::turns::{Item, Outcome, Thoughts};
use crate::neutral::{Cache, Call, Losses, Media, Part, PartKind, Thought};
use crate::upstream::anthropic::alternation::{Side, is_blank};
use crate::upstream::anthropic::names::Names;
use crate::wire::json::Writer;

/// Writes blocks, in the order of the conversation.
pub(super) struct Blocks<'r, 'l> {
    /// The ids of calls and results that are still to come.
    pub(super) ids: std::vec::IntoIter<Cow<'r, str>>,
    pub(super) names: &'l Names<'r>,
    pub(super) points: CachePoints,
    /// Whether thoughts go back.
    pub(super) thoughts: bool,
    /// The names of the documents so far, each with the number to try for the next one of the same:
    /// no two may have one.
    pub(super) documents: BTreeMap<String, u64>,
    pub(super) losses: &'l mut Losses,
}

/// The places where a prompt cache may end, as far as the model takes them: blocks of their own,
/// behind what they are about.
#[derive(Debug)]
pub(super) struct CachePoints {
    family: Family,
    /// How many are still to be left out.
    surplus: usize,
}

/// Where the bytes of a part are: format, and base64.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'p> {
    Image(&'static str, &'p str),
    Document(&'static str, &'p str),
}

impl CachePoints {
    /// Of so many, the last four: what comes again is longest there.
    pub(super) fn of(count: usize, family: Family, losses: &mut Losses) -> Self {
        let most = if family.caches() { 4 } else { 0 };
        if count > most {
            losses.add("cache_control");
        }
        Self { family, surplus: count.saturating_sub(most) }
    }

    /// Writes one behind a tool, if there is a hint on it.
    pub(super) fn tool(&mut self, w: &mut Writer, cache: Option<&Cache<'_>>, losses: &mut Losses) {
        // Nova's tools are not cached.
        if self.family == Family::Claude {
            self.write(w, cache, losses);
        } else if cache.is_some() {
            losses.add("cache_control");
        }
    }

    /// Writes one, if there is a hint here.
    fn write(&mut self, w: &mut Writer, cache: Option<&Cache<'_>>, losses: &mut Losses) {
        let Some(cache) = cache else { return };
        if self.surplus > 0 {
            self.surplus -= 1;
            return;
        }
        let is_long = match (cache.ttl.as_deref(), self.family) {
            (None | Some("5m"), _) => false,
            (Some("1h"), Family::Claude) => true,
            (Some(_), _) => {
                losses.add("cache_control");
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

impl Blocks<'_, '_> {
    /// A message. The last one of a conversation may be the assistant's, which must not end with
    /// white space.
    pub(super) fn message(&mut self, w: &mut Writer, side: Side<'_, '_, '_>, is_last: bool) {
        w.object(|w| {
            w.key("role").text(if side.is_assistant { "assistant" } else { "user" });
            w.key("content").array(|w| {
                let mut items = side.items().peekable();
                while let Some(item) = items.next() {
                    let is_end = side.is_assistant && is_last && items.peek().is_none();
                    match item {
                        Item::Part(part) => self.part(w, part, is_end),
                        Item::Thoughts(thoughts) => self.thoughts(w, thoughts),
                        Item::Call(call, _) => self.call(w, call),
                        Item::Result(outcome) => self.result(w, outcome),
                    }
                }
                if needs_text(side) {
                    w.raw(r#"{"text":"."}"#);
                }
            });
        });
    }

    /// A text of the system's.
    pub(super) fn system(&mut self, w: &mut Writer, part: &Part<'_>) {
        self.part(w, part, false);
    }

    /// A text or a medium, and the hint behind it.
    fn part(&mut self, w: &mut Writer, part: &Part<'_>, is_end: bool) {
        self.kind(w, &part.kind, is_end);
        self.points.write(w, part.cache.as_ref(), self.losses);
    }

    fn kind(&mut self, w: &mut Writer, kind: &PartKind<'_>, is_end: bool) {
        if let PartKind::Text(text) = kind {
            w.object(|w| w.key("text").text(if is_end { text.trim_end() } else { text }));
            return;
        }
        if let PartKind::Image(_, Some(detail)) = kind
            && detail != "auto"
        {
            self.losses.add("messages[].content[].image_url.detail");
        }
        // What has no source was refused before anything was written.
        match source(kind) {
            Ok(Source::Image(format, data)) => w.object(|w| w.key("image").object(|w| media(w, format, data))),
            Ok(Source::Document(format, data)) => {
                let name = if let PartKind::File(_, Some(name)) = kind { name } else { "" };
                let name = self.document(name);
                w.object(|w| {
                    w.key("document").object(|w| {
                        w.key("name").text(&name);
                        media(w, format, data);
                    });
                });
            }
            Err(_) => {}
        }
    }

    /// A document's name as it may be: letters, digits, single blanks, hyphens, brackets; and no
    /// other's.
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

    fn thoughts(&mut self, w: &mut Writer, thoughts: &Thoughts<'_, '_>) {
        if self.thoughts {
            thoughts.all().iter().for_each(|one| thought(w, one));
        }
    }

    fn call(&mut self, w: &mut Writer, call: &Call<'_>) {
        if call.signature.is_some() {
            // Google's.
            self.losses.add("messages[].tool_calls[].extra_content");
        }
        w.object(|w| {
            w.key("toolUse").object(|w| {
                w.key("toolUseId").text(&self.ids.next().unwrap_or_default());
                w.key("name").text(self.names.written(&call.name));
                match call.object() {
                    Some(object) => w.key("input").raw(object),
                    None => {
                        self.losses.add(call.weakened());
                        w.key("input").object(|w| w.key(RAW).text(&call.arguments));
                    }
                }
            });
        });
    }

    fn result(&mut self, w: &mut Writer, outcome: &Outcome<'_, '_>) {
        w.object(|w| {
            w.key("toolResult").object(|w| {
                w.key("toolUseId").text(&self.ids.next().unwrap_or_default());
                w.key("content").array(|w| {
                    let mut any = false;
                    for part in outcome.parts.iter().filter(|part| says(part)) {
                        // The hint is the whole result's.
                        self.kind(w, &part.kind, false);
                        any = true;
                    }
                    if !any {
                        w.raw(NO_RESULT);
                    }
                });
            });
        });
        self.points.write(w, outcome.cache, self.losses);
    }
}

/// Where arguments that are no object go.
const RAW: &str = "_raw";
/// For a tool that gave nothing: no text may be blank.
const NO_RESULT: &str = r#"{"text":"(nothing)"}"#;

/// Whether a message has documents, which must not come without a text beside them.
fn needs_text(side: Side<'_, '_, '_>) -> bool {
    let is = |wanted: fn(&PartKind<'_>) -> bool| {
        side.items().any(|item| matches!(item, Item::Part(part) if wanted(&part.kind)))
    };
    is(|kind| matches!(kind, PartKind::File(..)) && matches!(source(kind), Ok(Source::Document(..))))
        && !is(|kind| matches!(kind, PartKind::Text(_)))
}

fn says(part: &Part<'_>) -> bool {
    !matches!(&part.kind, PartKind::Text(text) if is_blank(text))
}

fn media(w: &mut Writer, format: &str, data: &str) {
    w.key("format").text(format);
    w.key("source").object(|w| w.key("bytes").text(data));
}

fn thought(w: &mut Writer, thought: &Thought<'_>) {
    w.object(|w| {
        w.key("reasoningContent").object(|w| match (&thought.redacted, &thought.signature) {
            (Some(data), _) => w.key("redactedContent").text(data),
            (None, signature) => w.key("reasoningText").object(|w| {
                w.key("text").text(&thought.text);
                if let Some(signature) = signature {
                    w.key("signature").text(signature);
                }
            }),
        });
    });
}

/// A part's source, or why it has none here.
pub(super) fn source<'p>(kind: &'p PartKind<'_>) -> Result<Source<'p>, &'static str> {
    let (media, name) = match kind {
        PartKind::Text(_) => return Err("This is a text."),
        PartKind::Audio(..) => return Err("Sound cannot be sent to this model's provider."),
        PartKind::Image(media, _) => (media, None),
        PartKind::File(media, name) => (media, Some(name.as_deref().unwrap_or_default())),
    };
    let (media_type, data) = match media {
        Media::Inline(media_type, data) => (&**media_type, &**data),
        Media::Url(_) => return Err("This model's provider does not fetch URLs. Send the bytes as a data URL."),
        Media::Id(_) => return Err("Files that were uploaded elsewhere are not known here. Send the file itself."),
    };
    if let Some(format) = image_format(media_type, data) {
        return Ok(Source::Image(format, data));
    }
    let Some(name) = name else { return Err("Pictures must be JPEG, PNG, GIF or WebP here.") };
    match document_format(media_type, name, data) {
        Some(format) => Ok(Source::Document(format, data)),
        None => Err("Files must be PDF, Word, Excel, CSV, HTML, Markdown, text or pictures here."),
    }
}

/// As said, or by how the bytes begin where nothing is said.
fn image_format(media_type: &str, data: &str) -> Option<&'static str> {
    const FORMATS: [(&str, &str); 4] = [("jpeg", "/9j/"), ("png", "iVBORw0KGgo"), ("gif", "R0lGOD"), ("webp", "UklGR")];
    let said = media_type.strip_prefix("image/");
    let is_unsaid = matches!(media_type, "" | "application/octet-stream" | "image/*");
    FORMATS
        .iter()
        .find(|(name, start)| said == Some(name) || (is_unsaid && data.starts_with(start)))
        .map(|(name, _)| *name)
}

/// By the media type, else by the name's ending, else by how the bytes begin.
fn document_format(media_type: &str, name: &str, data: &str) -> Option<&'static str> {
    const ENDINGS: [&str; 9] = ["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"];
    let said = match media_type {
        "application/pdf" => Some("pdf"),
        "text/csv" => Some("csv"),
        "text/html" => Some("html"),
        "text/markdown" => Some("md"),
        "application/msword" => Some("doc"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => Some("docx"),
        "application/vnd.ms-excel" => Some("xls"),
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => Some("xlsx"),
        "application/json" | "application/xml" | "application/yaml" => Some("txt"),
        // A name tells Markdown from text better than a media type does.
        _ => None,
    };
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let by_name = || ENDINGS.iter().find(|known| ending.eq_ignore_ascii_case(known)).copied();
    let by_kind = || media_type.starts_with("text/").then_some("txt");
    let by_bytes =
        || (matches!(media_type, "" | "application/octet-stream") && data.starts_with("JVBERi")).then_some("pdf");
    said.or_else(by_name).or_else(by_kind).or_else(by_bytes)
}
