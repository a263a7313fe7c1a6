//! The content of a message is a string or a list of blocks. This module reads both.

use std::borrow::Cow;

use crate::front::reading::value::{Name, Place, ReadFault, Value};
use crate::front::reading::{others, url};
use crate::neutral::schema::{find, members};
use crate::neutral::{Cache, Call, Media, Message, Part, PartKind, Raw, Role, Said, Thought};
use crate::wire::json::Kind;

/// The start of a text that Claude Code puts first. It names the client's build, and would only
/// spoil the prompt caches of others.
const BILLING: &str = "x-anthropic-billing-header:";

/// What a message holds.
pub(super) struct Blocks<'a> {
    /// What its author says.
    pub(super) said: Message<'a>,
    /// The results of tools, each as a message.
    results: Vec<Message<'a>>,
    /// The names of tools that were shown to the model.
    pub(super) shown: Vec<Cow<'a, str>>,
    place: Option<usize>,
}

/// Reads `system`: a text, or blocks of text.
pub(super) fn system<'a>(value: Value<'_, 'a>, message: &mut Message<'a>) -> Result<(), ReadFault> {
    let place = value.place;
    let mut blocks = Blocks::new(None);
    blocks.content(value)?;
    blocks.fit(Role::System, place)?;
    let is_billing =
        |part: &Part<'_>| matches!(&part.kind, PartKind::Text(text) if text.starts_with(BILLING));
    if blocks.said.content.first().is_some_and(is_billing) {
        blocks.said.content.remove(0);
    }
    *message = Message {
        role: Role::System,
        ..blocks.said
    };
    Ok(())
}

impl<'a> Blocks<'a> {
    /// Returns the blocks of the message at this index.
    pub(super) fn at(index: usize) -> Self {
        Self::new(Some(index))
    }

    fn new(place: Option<usize>) -> Self {
        let said = Message {
            place,
            ..Message::default()
        };
        Self {
            said,
            results: Vec::new(),
            shown: Vec::new(),
            place,
        }
    }

    /// Reads a content.
    pub(super) fn content(&mut self, mut value: Value<'_, 'a>) -> Result<(), ReadFault> {
        match value.kind()? {
            Kind::Array => value.array(|_, value| self.block(value)),
            Kind::String | Kind::Null => {
                if let Some(text) = value.said()? {
                    say(&mut self.said, text, None);
                }
                Ok(())
            }
            kind @ (Kind::Object | Kind::Number | Kind::Bool) => {
                Err(value.place.wrong("a string or an array of blocks", kind))
            }
        }
    }

    /// Puts what was read to the end of the list.
    pub(super) fn end(
        mut self,
        role: Role,
        place: Place<'_>,
        list: &mut Vec<Message<'a>>,
    ) -> Result<(), ReadFault> {
        self.said.role = role;
        self.fit(role, place.field("content"))?;
        // Results alone say what the message says. What is lost of it is told with the last one.
        match self
            .results
            .last_mut()
            .filter(|_| self.said.content.is_empty())
        {
            Some(last) => last.others.append(&mut self.said.others),
            None => self.results.push(self.said),
        }
        list.append(&mut self.results);
        Ok(())
    }

    /// Refuses blocks that a message of this role cannot have.
    fn fit(&mut self, role: Role, place: Place<'_>) -> Result<(), ReadFault> {
        if role != Role::Assistant && !self.said.calls.is_empty() {
            return Err(place.refuse("has a `tool_use` block, which only an assistant can have"));
        }
        if role != Role::User && !self.results.is_empty() {
            return Err(place.refuse("has a `tool_result` block, which only a user can have"));
        }
        if role != Role::Assistant && !self.said.thoughts.is_empty() {
            return Err(place.refuse("has a block of thinking, which only an assistant can have"));
        }
        Ok(())
    }

    fn block(&mut self, value: Value<'_, 'a>) -> Result<(), ReadFault> {
        let place = value.place;
        let mut block = ReadBlock::default();
        value.element(|name, value| block.field(name, value))?;
        let kind = block
            .kind
            .take()
            .ok_or_else(|| place.field("type").missing())?;
        self.others(&block);
        match &*kind {
            "text" => {
                let text = block
                    .text
                    .take()
                    .ok_or_else(|| place.field("text").missing())?;
                say(&mut self.said, text, block.cache);
            }
            "image" | "document" => {
                let read = block
                    .source
                    .take()
                    .ok_or_else(|| place.field("source").missing())?;
                let parts = read.parts(&kind, block.title.take(), place)?;
                self.push(parts, block.cache);
            }
            "search_result" => {
                let cache = block.cache.take();
                self.push(block.search_result(), cache);
            }
            "thinking" => self.thought(Thought {
                text: block.thinking.unwrap_or_default(),
                signature: block.signature.filter(|signature| !signature.is_empty()),
                ..Thought::default()
            }),
            "redacted_thinking" => self.thought(Thought {
                redacted: block.data,
                ..Thought::default()
            }),
            "tool_use" => {
                let name = block.name.filter(|name| !name.is_empty());
                self.said.calls.push(Call {
                    id: block.id.ok_or_else(|| place.field("id").missing())?,
                    name: name.ok_or_else(|| place.field("name").missing())?,
                    arguments: block.input.unwrap_or(Cow::Borrowed("{}")),
                    ..Call::default()
                });
            }
            "tool_result" => {
                let id = block
                    .tool_use_id
                    .ok_or_else(|| place.field("tool_use_id").missing())?;
                self.shown.append(&mut block.shown);
                let mut result = Message {
                    role: Role::Tool,
                    place: self.place,
                    tool_call_id: Some(id),
                    content: block.content,
                    cache: block.cache,
                    ..Message::default()
                };
                if block.is_error {
                    result.content = failed(result.content);
                }
                self.results.push(result);
            }
            // A summary of what was said before.
            "compaction" => {
                let texts = block
                    .content
                    .into_iter()
                    .filter(|part| matches!(part.kind, PartKind::Text(_)));
                self.push(texts.collect(), block.cache);
            }
            // What Anthropic's servers did by themselves: the answer's text says what came of it.
            _ => others::note(
                &mut self.said.others,
                "content[].",
                &Cow::Owned(kind.into_owned()),
            ),
        }
        Ok(())
    }

    fn thought(&mut self, thought: Thought<'a>) {
        if thought != Thought::default() {
            self.said.thoughts.push(thought);
        }
    }

    fn others(&mut self, block: &ReadBlock<'a>) {
        block
            .others
            .iter()
            .for_each(|name| others::note(&mut self.said.others, "content[].", name));
    }

    fn push(&mut self, mut parts: Vec<Part<'a>>, cache: Option<Cache<'a>>) {
        if let Some(last) = parts.last_mut() {
            last.cache = cache;
        }
        self.said.content.append(&mut parts);
    }
}

/// Returns whether `citations` says something: a list of them, or that the answer shall have some.
fn asks_or_cites(Raw(citations): Raw<'_>) -> bool {
    let asked = members(citations).map(|settings| find(&settings, "enabled") == Some("true"));
    asked.unwrap_or(!matches!(citations, "null" | "[]"))
}

/// Says of a result that it is a failure.
fn failed(mut content: Vec<Part<'_>>) -> Vec<Part<'_>> {
    match content.first_mut() {
        Some(Part {
            kind: PartKind::Text(said),
            ..
        }) => *said = format!("Error: {said}").into(),
        Some(_) | None => content.insert(
            0,
            Part {
                kind: PartKind::Text("Error".into()),
                cache: None,
            },
        ),
    }
    content
}

/// Adds text to a message, if it is any.
fn say<'a>(message: &mut Message<'a>, said: Said<'a>, cache: Option<Cache<'a>>) {
    message
        .content
        .extend(text(said).map(|part| Part { cache, ..part }));
}

/// Returns a text as a part, unless it is empty.
fn text(text: Said<'_>) -> Option<Part<'_>> {
    (!text.is_empty()).then_some(Part {
        kind: PartKind::Text(text),
        cache: None,
    })
}

/// The members of a block of any type. Its type may come last.
#[derive(Default)]
struct ReadBlock<'a> {
    kind: Option<Cow<'a, str>>,
    text: Option<Said<'a>>,
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
    shown: Vec<Cow<'a, str>>,
    cache: Option<Cache<'a>>,
    others: Vec<Name<'a>>,
}

impl<'a> ReadBlock<'a> {
    fn field(&mut self, name: &Name<'a>, mut value: Value<'_, 'a>) -> Result<(), ReadFault> {
        match &**name {
            "type" => self.kind = value.text()?,
            "text" => self.text = value.said()?,
            "title" => self.title = value.text()?,
            "thinking" => self.thinking = value.text()?,
            "signature" => self.signature = value.text()?,
            "data" => self.data = value.text_or_not()?.0,
            "id" => self.id = value.text()?,
            "name" => self.name = value.text()?,
            "tool_use_id" => self.tool_use_id = value.text()?,
            "tool_name" => self.tool_name = value.text()?,
            "is_error" => self.is_error = value.flag()?.unwrap_or(false),
            "input" => self.input = Some(Cow::Borrowed(value.raw()?.0)),
            "cache_control" => {
                self.cache = value
                    .texts(["ttl"], |_, value| value.skip())?
                    .map(|[ttl]| Cache { ttl });
            }
            "source" if value.kind()? == Kind::String => self.url = value.text()?,
            "source" => self.source = Source::read(value, &mut self.others)?,
            "content" => self.inside(value)?,
            "citations" => {
                if asks_or_cites(value.ahead()?) {
                    others::note(&mut self.others, "", name);
                }
                value.skip()?;
            }
            // Who called, no model need be told.
            "caller" | "toolset_name" => value.skip()?,
            _ => others::field(&mut self.others, "", name, value)?,
        }
        Ok(())
    }

    /// Returns what was found: title and place, the text, and what is no text.
    fn search_result(self) -> Vec<Part<'a>> {
        let mut texts: Vec<Cow<'a, str>> = self.title.into_iter().chain(self.url).collect();
        let mut media = Vec::new();
        for part in self.content {
            match part.kind {
                PartKind::Text(text) => texts.push(text.into_text()),
                PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => media.push(part),
            }
        }
        texts.retain(|text| !text.is_empty());
        text(texts.join("\n").into())
            .into_iter()
            .chain(media)
            .collect()
    }

    /// Reads the content of a result: a text, or blocks. That of a block which is lost may be
    /// anything.
    fn inside(&mut self, mut value: Value<'_, 'a>) -> Result<(), ReadFault> {
        match value.kind()? {
            Kind::String => {
                if let Some(text) = value.said()?.filter(|text| !text.is_empty()) {
                    self.content.push(Part {
                        kind: PartKind::Text(text),
                        cache: None,
                    });
                }
                Ok(())
            }
            Kind::Array => value.array(|_, mut value| {
                if value.kind()? != Kind::Object {
                    return value.skip();
                }
                let place = value.place;
                let mut block = ReadBlock::default();
                value.element(|name, value| block.field(name, value))?;
                block
                    .others
                    .iter()
                    .for_each(|name| others::note(&mut self.others, "content[].", name));
                match block.kind.as_deref() {
                    Some("text") => {
                        let text = block.text.unwrap_or_default();
                        if !text.is_empty() {
                            self.content.push(Part {
                                kind: PartKind::Text(text),
                                cache: block.cache,
                            });
                        }
                    }
                    Some(kind @ ("image" | "document")) => {
                        let source = block
                            .source
                            .take()
                            .ok_or_else(|| place.field("source").missing())?;
                        self.content
                            .extend(source.parts(kind, block.title.take(), place)?);
                    }
                    Some("search_result") => self.content.extend(block.search_result()),
                    Some("tool_reference") => {
                        let name = block
                            .tool_name
                            .ok_or_else(|| place.field("tool_name").missing())?;
                        let text = format!("Tool {name} is now available.");
                        self.content.push(Part {
                            kind: PartKind::Text(text.into()),
                            cache: None,
                        });
                        self.shown.push(name);
                    }
                    Some(kind) => others::note(
                        &mut self.others,
                        "",
                        &Cow::Owned(format!("content[].{kind}")),
                    ),
                    None => others::note(&mut self.others, "", &Cow::Borrowed("content[]")),
                }
                Ok(())
            }),
            Kind::Object | Kind::Number | Kind::Bool | Kind::Null => value.skip(),
        }
    }
}

/// The source of a picture or a document.
#[derive(Default)]
struct Source<'a> {
    /// Its type, media type, data, URL and id of a file.
    texts: [Option<Cow<'a, str>>; 5],
    content: Vec<Part<'a>>,
}

impl<'a> Source<'a> {
    /// Reads a source. What is lost of it goes to `lost`.
    fn read(value: Value<'_, 'a>, lost: &mut Vec<Name<'a>>) -> Result<Option<Self>, ReadFault> {
        let mut content = Vec::new();
        let texts = value.texts(
            ["type", "media_type", "data", "url", "file_id"],
            |name, value| {
                if name != "content" {
                    return others::field(lost, "source.", name, value);
                }
                let mut inside = ReadBlock::default();
                inside.inside(value)?;
                content = inside.content;
                inside
                    .others
                    .iter()
                    .for_each(|name| others::note(lost, "source.", name));
                Ok(())
            },
        )?;
        Ok(texts.map(|texts| Self { texts, content }))
    }

    fn parts(
        self,
        of: &str,
        title: Option<Cow<'a, str>>,
        place: Place<'_>,
    ) -> Result<Vec<Part<'a>>, ReadFault> {
        let place = place.field("source");
        let [kind, media_type, data, url, file_id] = self.texts;
        let media = match kind.as_deref() {
            Some("base64") => {
                let data = data.ok_or_else(|| place.field("data").missing())?;
                let kind = media_type.ok_or_else(|| place.field("media_type").missing())?;
                url::inline(kind, data, place.field("media_type"))?
            }
            Some("url") => Media::Url(url.ok_or_else(|| place.field("url").missing())?),
            Some("file") => Media::Id(file_id.ok_or_else(|| place.field("file_id").missing())?),
            Some("text") => {
                let data = data.ok_or_else(|| place.field("data").missing())?;
                return Ok(title
                    .into_iter()
                    .chain([data])
                    .map(Said::from)
                    .filter_map(text)
                    .collect());
            }
            Some("content") => {
                return Ok(title
                    .into_iter()
                    .map(Said::from)
                    .filter_map(text)
                    .chain(self.content)
                    .collect());
            }
            Some(_) => {
                let why = "must be one of `base64`, `url`, `file`, `text` and `content`";
                return Err(place.field("type").refuse(why));
            }
            None => return Err(place.field("type").missing()),
        };
        let kind = if of == "image" {
            PartKind::Image(media, None)
        } else {
            PartKind::File(media, title)
        };
        Ok(vec![Part { kind, cache: None }])
    }
}
