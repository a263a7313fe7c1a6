//! The content of a message is a string or a list of blocks. This module reads both.

use std::borrow::Cow;

use crate::front::reading::value::{Name, Place, ReadResult, Value, non_empty};
use crate::front::reading::{others, url};
use crate::neutral::schema::{find_member, read_members};
use crate::neutral::{Cache, Call, LazyText, Media, Message, Part, PartKind, Raw, Role, Thought};
use crate::wire::json::Kind;

/// The start of a text that Claude Code puts first. It names the client's build, and would only
/// spoil the prompt caches of others.
const BILLING: &str = "x-anthropic-billing-header:";

/// The content of a message, as it is read.
pub(super) struct Blocks<'a> {
    /// All blocks but the results of tools.
    pub(super) message: Message<'a>,
    /// The results of tools, each as a message.
    results: Vec<Message<'a>>,
    /// The deferred tools that a result has made known to the model, by name.
    pub(super) shown_tools: Vec<Cow<'a, str>>,
    /// The index of the message in the caller's list; `None` for `system`.
    caller_index: Option<usize>,
}

/// Reads `system`: a text, or blocks of text.
pub(super) fn read_system<'a>(value: Value<'_, 'a>, message: &mut Message<'a>) -> ReadResult<()> {
    let place = value.place;
    let mut blocks = Blocks::new(None);
    blocks.read_content(value)?;
    blocks.check_role(Role::System, place)?;
    if let Some(PartKind::Text(text)) = blocks.message.content.first().map(|part| &part.kind)
        && text.starts_with(BILLING)
    {
        blocks.message.content.remove(0);
    }
    *message = Message {
        role: Role::System,
        ..blocks.message
    };
    Ok(())
}

impl<'a> Blocks<'a> {
    /// Begins to read the content of the message at this index.
    pub(super) fn for_message(index: usize) -> Self {
        Self::new(Some(index))
    }

    fn new(caller_index: Option<usize>) -> Self {
        let message = Message {
            caller_index,
            ..Message::default()
        };
        Self {
            message,
            results: Vec::new(),
            shown_tools: Vec::new(),
            caller_index,
        }
    }

    /// Reads the content of a message: a string, or a list of blocks.
    pub(super) fn read_content(&mut self, mut value: Value<'_, 'a>) -> ReadResult<()> {
        match value.kind()? {
            Kind::Array => value.array(|_, value| self.read_block(value)),
            Kind::String | Kind::Null => {
                let part = value.lazy_text()?.and_then(Part::unless_empty);
                self.message.content.extend(part);
                Ok(())
            }
            kind @ (Kind::Object | Kind::Number | Kind::Bool) => {
                Err(value.place.wrong("a string or an array of blocks", kind))
            }
        }
    }

    /// Ends the message, and appends it and the results of tools to the list. Results come first,
    /// each as a message of its own.
    pub(super) fn finish(
        mut self,
        role: Role,
        place: Place<'_>,
        list: &mut Vec<Message<'a>>,
    ) -> ReadResult<()> {
        self.message.role = role;
        self.check_role(role, place.field("content"))?;
        // A message that holds only results needs no message of its own. Its last result lists the
        // fields that are lost.
        match self
            .results
            .last_mut()
            .filter(|_| self.message.content.is_empty())
        {
            Some(last) => last.others.append(&mut self.message.others),
            None => self.results.push(self.message),
        }
        list.append(&mut self.results);
        Ok(())
    }

    /// Refuses blocks that a message of this role cannot have.
    fn check_role(&self, role: Role, place: Place<'_>) -> ReadResult<()> {
        if role != Role::Assistant && !self.message.calls.is_empty() {
            return Err(place.refuse("has a `tool_use` block, which only an assistant can have"));
        }
        if role != Role::User && !self.results.is_empty() {
            return Err(place.refuse("has a `tool_result` block, which only a user can have"));
        }
        if role != Role::Assistant && !self.message.thoughts.is_empty() {
            return Err(place.refuse("has a block of thinking, which only an assistant can have"));
        }
        Ok(())
    }

    fn read_block(&mut self, value: Value<'_, 'a>) -> ReadResult<()> {
        let place = value.place;
        let mut block = ReadBlock::default();
        value.non_null_object(|name, value| block.read_field(name, value))?;
        let kind = place.require("type", block.kind.take())?;
        block.note_others(&mut self.message.others, "content[].");
        match &*kind {
            "text" if block.text.is_none() => return Err(place.field("text").missing()),
            "text" | "image" | "document" | "search_result" => {
                let cache = block.cache.take();
                self.push_parts(block.parts(&kind, place)?, cache);
            }
            "thinking" => self.push_thought(Thought {
                text: block.thinking.unwrap_or_default(),
                signature: non_empty(block.signature),
                ..Thought::default()
            }),
            "redacted_thinking" => self.push_thought(Thought {
                redacted: block.data,
                ..Thought::default()
            }),
            "tool_use" => {
                self.message.calls.push(Call {
                    id: place.require("id", block.id)?,
                    name: place.require_text("name", block.name)?,
                    arguments: block.input.unwrap_or(Cow::Borrowed("{}")),
                    ..Call::default()
                });
            }
            "tool_result" => {
                let id = place.require("tool_use_id", block.tool_use_id)?;
                self.shown_tools.append(&mut block.shown_tools);
                let mut result = Message {
                    role: Role::Tool,
                    caller_index: self.caller_index,
                    tool_call_id: Some(id),
                    content: block.content,
                    cache: block.cache,
                    ..Message::default()
                };
                if block.is_error {
                    result.content = mark_failed(result.content);
                }
                self.results.push(result);
            }
            // Anthropic's summary of the conversation so far.
            "compaction" => {
                let texts = block
                    .content
                    .into_iter()
                    .filter(|part| matches!(part.kind, PartKind::Text(_)));
                self.push_parts(texts.collect(), block.cache);
            }
            // Any other block, mostly a call that Anthropic's servers made themselves, or its
            // result (`server_tool_use`, `web_search_tool_result`). The model's text already tells
            // the outcome.
            _ => others::note_name(
                &mut self.message.others,
                "content[].",
                &Cow::Owned(kind.into_owned()),
            ),
        }
        Ok(())
    }

    fn push_thought(&mut self, thought: Thought<'a>) {
        if thought != Thought::default() {
            self.message.thoughts.push(thought);
        }
    }

    fn push_parts(&mut self, mut parts: Vec<Part<'a>>, cache: Option<Cache<'a>>) {
        add_hint(&mut parts, cache);
        self.message.content.append(&mut parts);
    }
}

/// Gives the hint of a block to the last of its parts. Without it, the hints of the parts stay.
fn add_hint<'a>(parts: &mut [Part<'a>], cache: Option<Cache<'a>>) {
    if let (Some(last), Some(cache)) = (parts.last_mut(), cache) {
        last.cache = Some(cache);
    }
}

/// Returns whether something is lost with `citations`: a list that is not empty, or
/// `{"enabled": true}`, which asks for citations in the answer.
fn asks_or_cites(citations: Raw<'_>) -> bool {
    let citations = citations.0;
    let asked =
        read_members(citations).map(|settings| find_member(&settings, "enabled") == Some("true"));
    asked.unwrap_or(!matches!(citations, "null" | "[]"))
}

/// Writes into the text of a failed result that it is an error, since most dialects have no field
/// for it.
fn mark_failed(mut content: Vec<Part<'_>>) -> Vec<Part<'_>> {
    match content.first_mut() {
        Some(Part {
            kind: PartKind::Text(text),
            ..
        }) => *text = format!("Error: {text}").into(),
        Some(_) | None => content.insert(0, Part::text("Error")),
    }
    content
}

/// The members of a block. All are read before the type is known, since `type` may come last.
#[derive(Default)]
struct ReadBlock<'a> {
    kind: Option<Cow<'a, str>>,
    text: Option<LazyText<'a>>,
    source: Option<Source<'a>>,
    /// The `source` of a search result is its URL.
    url: Option<Cow<'a, str>>,
    title: Option<Cow<'a, str>>,
    thinking: Option<Cow<'a, str>>,
    signature: Option<Cow<'a, str>>,
    data: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
    name: Option<Cow<'a, str>>,
    input: Option<Cow<'a, str>>,
    tool_use_id: Option<Cow<'a, str>>,
    tool_name: Option<Cow<'a, str>>,
    is_error: bool,
    content: Vec<Part<'a>>,
    shown_tools: Vec<Cow<'a, str>>,
    cache: Option<Cache<'a>>,
    others: Vec<Name<'a>>,
}

impl<'a> ReadBlock<'a> {
    fn read_field(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> ReadResult<()> {
        match &**name {
            "type" => self.kind = value.text()?,
            "text" => self.text = value.lazy_text()?,
            "title" => self.title = value.text()?,
            "thinking" => self.thinking = value.text()?,
            "signature" => self.signature = value.text()?,
            // Only redacted thinking has it. A value of another kind is no error: the type of the
            // block may be another one.
            "data" => self.data = value.text_if_string()?.0,
            "id" => self.id = value.text()?,
            "name" => self.name = value.text()?,
            "tool_use_id" => self.tool_use_id = value.text()?,
            "tool_name" => self.tool_name = value.text()?,
            "is_error" => self.is_error = value.flag()?.unwrap_or(false),
            "input" => self.input = Some(Cow::Borrowed(value.raw()?.0)),
            "cache_control" => {
                self.cache = value.cache()?;
            }
            "source" if value.kind()? == Kind::String => self.url = value.text()?,
            "source" => self.source = Source::read(value, &mut self.others)?,
            "content" => self.read_content(value)?,
            "citations" => {
                if asks_or_cites(value.peek_raw()?) {
                    others::note_name(&mut self.others, "", name);
                }
                value.skip()?;
            }
            // They say who made the call, which no model needs to know.
            "caller" | "toolset_name" => value.skip()?,
            _ => value.note_lost(&mut self.others, "", name)?,
        }
        Ok(())
    }

    /// Returns the parts of a text, a search result, a picture or a document: the blocks that
    /// messages and results of tools share.
    fn parts(self, kind: &str, place: Place<'_>) -> ReadResult<Vec<Part<'a>>> {
        match kind {
            "text" => Ok(self.text.and_then(Part::unless_empty).into_iter().collect()),
            "search_result" => Ok(self.search_result_parts()),
            _ => {
                let source = place.require("source", self.source)?;
                source.into_parts(kind, self.title, place)
            }
        }
    }

    /// Hands the names of the lost fields on, with a prefix.
    fn note_others(&self, noted: &mut Vec<Name<'a>>, prefix: &str) {
        let names = self.others.iter();
        names.for_each(|name| others::note_name(noted, prefix, name));
    }

    /// Returns the parts of a search result: a text with its title and URL, and its media. The text
    /// has the last hint of the texts that it joins.
    fn search_result_parts(self) -> Vec<Part<'a>> {
        let mut texts: Vec<Cow<'a, str>> = self.title.into_iter().chain(self.url).collect();
        let mut text_hint = None;
        let mut media = Vec::new();
        for part in self.content {
            match part.kind {
                PartKind::Text(text) => {
                    texts.push(text.into_text());
                    text_hint = part.cache.or(text_hint);
                }
                PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => media.push(part),
            }
        }
        texts.retain(|text| !text.is_empty());
        let text = Part::unless_empty(texts.join("\n")).map(|text| Part {
            cache: text_hint,
            ..text
        });
        text.into_iter().chain(media).collect()
    }

    /// Reads the `content` of a block or a source: a text, or blocks. Because the type of the block
    /// may still come, a value of another kind is skipped here, and not refused.
    fn read_content(&mut self, mut value: Value<'_, 'a>) -> ReadResult<()> {
        match value.kind()? {
            Kind::String => {
                self.content
                    .extend(value.lazy_text()?.and_then(Part::unless_empty));
                Ok(())
            }
            Kind::Array => value.array(|_, value| self.read_inner_block(value)),
            Kind::Object | Kind::Number | Kind::Bool | Kind::Null => value.skip(),
        }
    }

    fn read_inner_block(&mut self, mut value: Value<'_, 'a>) -> ReadResult<()> {
        if value.kind()? != Kind::Object {
            return value.skip();
        }
        let place = value.place;
        let mut block = ReadBlock::default();
        value.non_null_object(|name, value| block.read_field(name, value))?;
        block.note_others(&mut self.others, "content[].");
        let kind = block.kind.take();
        match kind.as_deref() {
            Some(kind @ ("text" | "image" | "document" | "search_result")) => {
                let cache = block.cache.take();
                let mut parts = block.parts(kind, place)?;
                add_hint(&mut parts, cache);
                self.content.append(&mut parts);
            }
            Some("tool_reference") => {
                let name = place.require("tool_name", block.tool_name)?;
                let text = format!("Tool {name} is now available.");
                self.content.push(Part {
                    cache: block.cache,
                    ..Part::text(text)
                });
                self.shown_tools.push(name);
            }
            Some(kind) => others::note_name(
                &mut self.others,
                "",
                &Cow::Owned(format!("content[].{kind}")),
            ),
            None => others::note_name(&mut self.others, "", &Cow::Borrowed("content[]")),
        }
        Ok(())
    }
}

/// The source of a picture or a document.
#[derive(Default)]
struct Source<'a> {
    kind: Option<Cow<'a, str>>,
    media_type: Option<Cow<'a, str>>,
    data: Option<Cow<'a, str>>,
    url: Option<Cow<'a, str>>,
    file_id: Option<Cow<'a, str>>,
    content: Vec<Part<'a>>,
}

impl<'a> Source<'a> {
    /// Reads a source. Names of its fields that are lost go to `lost`.
    fn read(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> ReadResult<Option<Self>> {
        let mut content = Vec::new();
        let texts = value.texts(
            ["type", "media_type", "data", "url", "file_id"],
            |name, value| {
                if name != "content" {
                    return value.note_lost(lost, "source.", name);
                }
                let mut inner = ReadBlock::default();
                inner.read_content(value)?;
                inner.note_others(lost, "source.");
                content = inner.content;
                Ok(())
            },
        )?;
        let Some([kind, media_type, data, url, file_id]) = texts else {
            return Ok(None);
        };
        Ok(Some(Self {
            kind,
            media_type,
            data,
            url,
            file_id,
            content,
        }))
    }

    fn into_parts(
        mut self,
        block_kind: &str,
        title: Option<Cow<'a, str>>,
        place: Place<'_>,
    ) -> ReadResult<Vec<Part<'a>>> {
        let place = place.field("source");
        let kind = place.require("type", self.kind.take())?;
        match &*kind {
            "text" => {
                let data = place.require("data", self.data)?;
                let texts = title.into_iter().chain([data]);
                return Ok(texts.filter_map(Part::unless_empty).collect());
            }
            "content" => {
                let title = title.into_iter().filter_map(Part::unless_empty);
                return Ok(title.chain(self.content).collect());
            }
            _ => {}
        }
        let media = self.into_media(&kind, place)?;
        let part = if block_kind == "image" {
            PartKind::Image(media, None)
        } else {
            PartKind::File(media, title)
        };
        Ok(vec![part.into()])
    }

    /// Returns the medium of a source of this kind.
    fn into_media(self, kind: &str, place: Place<'_>) -> ReadResult<Media<'a>> {
        match kind {
            "base64" => {
                let data = place.require("data", self.data)?;
                let media_type = place.require("media_type", self.media_type)?;
                url::inline_media(media_type, data, place.field("media_type"))
            }
            "url" => Ok(Media::Url(place.require("url", self.url)?)),
            "file" => Ok(Media::Id(place.require("file_id", self.file_id)?)),
            _ => {
                let why = "must be one of `base64`, `url`, `file`, `text` and `content`";
                Err(place.field("type").refuse(why))
            }
        }
    }
}
