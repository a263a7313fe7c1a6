//! A request of another format → a chat completion. Fields that OpenAI's format cannot express are
//! lost, and named. The quirks of a server are applied afterwards, as they are to every chat
//! completion.

use super::breakpoints::{self, is_media_part, write_texts};
use super::nesting::{LABELS, Nesting, UPLOADED_ELSEWHERE, file_name, limit_tokens, write_sound};
use crate::neutral::answered::check_calls_answered;
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    Cache, Call, Effort, Field, FieldRefused, LostFields, Media, Message, Part, PartKind, Request,
    Role, Target, Written,
};
use crate::upstream::shared::names::Names;
use crate::upstream::shared::options::Rule::{Lost, UnderKey, WrittenBy};
use crate::upstream::shared::options::{self, Options, Row};
use crate::wire::json::Writer;

/// The options, in the order in which they are written.
pub(crate) const OPTIONS: [&[Row]; 3] = options::table([
    &[
        (Field::MaxTokens, UnderKey("max_completion_tokens")),
        (Field::Temperature, UnderKey("temperature")),
        (Field::TopP, UnderKey("top_p")),
        (Field::FrequencyPenalty, UnderKey("frequency_penalty")),
        (Field::PresencePenalty, UnderKey("presence_penalty")),
        (Field::Effort, WrittenBy(write_effort)),
        (Field::Stop, WrittenBy(write_stops)),
        (Field::Seed, UnderKey("seed")),
        (Field::Choices, UnderKey("n")),
        (Field::Logprobs, UnderKey("logprobs")),
    ],
    LABELS,
    &[(Field::TopK, Lost), (Field::Audio, Lost)],
]);

/// The most texts at which to stop.
const MAX_STOPS: usize = 4;

/// Writes a request. `fetches` is true if the server fetches pictures.
pub(crate) fn compose_request(
    request: &Request<'_>,
    target: &Target<'_>,
    fetches: bool,
) -> Result<Written, FieldRefused> {
    check_calls_answered(request)?;
    if !fetches {
        refuse_urls(request)?;
    }
    target.traits.check(request)?;
    let mut losses = LostFields::default();
    let names = Names::assign(request);
    let mut options = Options::new(request, target);
    limit_tokens(&mut options, &mut losses);
    options.limit_sampling(&mut losses);
    let [settings, labels, lost] = OPTIONS;
    let mut refused = None;
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        if target.stream {
            w.key("stream").bool(true);
        }
        options.write(settings, w, &mut losses);
        options.write(labels, w, &mut losses);
        w.optional("response_format", request.format.as_ref(), |w, format| {
            Nesting::Nested.write_format(w, format, &mut losses);
        });
        breakpoints::note_lost_hints(request, &target.traits, &mut losses);
        Nesting::Nested.write_tools(w, request, &names);
        w.key("messages").array(|w| {
            let (traits, losses) = (&target.traits, &mut losses);
            let mut messages = Messages {
                w,
                names: &names,
                traits,
                losses,
                media: Vec::new(),
                refused: None,
            };
            request
                .messages
                .iter()
                .enumerate()
                .for_each(|(index, message)| messages.message(index, message));
            messages.end_results();
            refused = messages.refused.take();
        });
        options.note_lost(lost, &mut losses);
        options::note_lost_others(request, &mut losses);
    });
    if let Some(refused) = refused {
        return Err(refused);
    }
    Ok(Written::new(w, losses, names.into_undo()))
}

/// Refuses pictures that the server would have to fetch.
fn refuse_urls(request: &Request<'_>) -> Result<(), FieldRefused> {
    let is_remote = |part: &Part<'_>| matches!(part.kind, PartKind::Image(Media::Url(_), _));
    let mut places = request
        .messages
        .iter()
        .enumerate()
        .filter_map(|(index, message)| {
            message
                .content
                .iter()
                .position(is_remote)
                .map(|part_index| Field::Part(index, part_index))
        });
    match places.next() {
        Some(field) => Err(FieldRefused::unsupported(
            field,
            "This model's server fetches no pictures: send the data itself.",
        )),
        None => Ok(()),
    }
}

/// Writes the effort, if the model is known to think: a server that knows no effort refuses the
/// request.
fn write_effort(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let Some(effort) = options.request.effort() else {
        return;
    };
    if !is_thinking_model(options.target.model, &options.target.traits) {
        losses.add_if(effort != Effort::None, Field::Effort);
        return;
    }
    w.key("reasoning_effort").text(effort.name());
}

/// Writes the first of the texts at which to stop.
fn write_stops(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let stops = &options.request.stop;
    w.list("stop", stops.iter().take(MAX_STOPS), |w, stop| w.text(stop));
    losses.add_if(stops.len() > MAX_STOPS, Field::Stop);
}

/// Returns whether a model thinks, by its traits, or else because its name is one of OpenAI's.
pub(crate) fn is_thinking_model(model: &str, traits: &Traits) -> bool {
    match traits.thinking {
        Thinking::Unknown => {}
        Thinking::None => return false,
        Thinking::Effort | Thinking::Budget => return true,
    }
    let name = model.rsplit('/').next().unwrap_or(model);
    ["o1", "o3", "o4", "gpt-5", "gpt-6", "gpt-oss", "codex"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        && !name.contains("-chat")
}

/// Returns why an assistant's message cannot be sent, if it shows a picture or a file.
pub(super) fn assistant_media_refused(index: usize, message: &Message<'_>) -> Option<FieldRefused> {
    let part_index = message.content.iter().position(is_media_part)?;
    let why = "Pictures and files are accepted in the user's messages only.";
    Some(FieldRefused::unsupported(
        Field::Part(index, part_index),
        why,
    ))
}

/// Writes the messages.
struct Messages<'m, 'r, 'a> {
    w: &'m mut Writer,
    names: &'m Names<'r>,
    traits: &'m Traits,
    losses: &'m mut LostFields,
    /// The media of results. A result holds text only, so the user shows them after all results.
    media: Vec<(usize, &'r Message<'a>)>,
    refused: Option<FieldRefused>,
}

impl<'r, 'a> Messages<'_, 'r, 'a> {
    fn message(&mut self, index: usize, message: &'r Message<'a>) {
        if !message.role.is_result() {
            self.end_results();
        }
        message.note_others(self.losses);
        self.losses
            .add_if(!message.thoughts.is_empty(), Field::Thoughts);
        self.losses.add_if(
            message.calls.iter().any(|call| call.signature.is_some()),
            Field::CallSignature,
        );
        self.losses
            .add_if(message.reasoning.is_some(), Field::Reasoning);
        match message.role {
            Role::System | Role::Developer => {
                self.losses.add_if(
                    message.content.iter().any(is_media_part),
                    Field::SystemMedia,
                );
                self.texts(&[("role", "system")], message);
            }
            Role::User => self.user(index, message),
            Role::Assistant => {
                if let Some(why) = assistant_media_refused(index, message) {
                    self.refused.get_or_insert(why);
                }
                self.assistant(message);
            }
            Role::Tool | Role::Function => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                self.texts(&[("role", "tool"), ("tool_call_id", id)], message);
                if message.content.iter().any(is_media_part) {
                    self.media.push((index, message));
                }
            }
        }
    }

    /// Writes a message that has these members, and texts only.
    fn texts(&mut self, members: &[(&'static str, &str)], message: &Message<'_>) {
        let (traits, losses) = (self.traits, &mut *self.losses);
        self.w.object(|w| {
            members
                .iter()
                .for_each(|(name, value)| w.key(name).text(value));
            breakpoints::write_content(w.key("content"), message, traits, "text", losses);
        });
    }

    fn assistant(&mut self, message: &Message<'_>) {
        let names = self.names;
        self.w.object(|w| {
            w.key("role").text("assistant");
            match message.content.iter().all(is_media_part) && !message.calls.is_empty() {
                true => w.key("content").null(),
                false => write_texts(w.key("content"), &message.content),
            }
            w.list("tool_calls", &message.calls, |w, call: &Call<'_>| {
                w.object(|w| {
                    w.key("id").text(&call.id);
                    let (kind, arguments) = if call.is_custom {
                        ("custom", "input")
                    } else {
                        ("function", "arguments")
                    };
                    w.key("type").text(kind);
                    w.key(kind).object(|w| {
                        w.texts([
                            ("name", names.written(&call.name)),
                            (arguments, &call.arguments),
                        ]);
                    });
                });
            });
        });
    }

    fn user(&mut self, index: usize, message: &Message<'_>) {
        if let []
        | [
            Part {
                kind: PartKind::Text(_),
                ..
            },
        ] = &*message.content
        {
            return self.texts(&[("role", "user")], message);
        }
        let (refused, losses, traits) = (&mut self.refused, &mut *self.losses, self.traits);
        self.w.object(|w| {
            w.key("role").text("user");
            w.key("content").array(|w| {
                let parts = message.content.iter().enumerate();
                write_parts(w, index, parts, traits, refused, losses);
            });
        });
    }

    /// Shows the media of the results so far.
    fn end_results(&mut self) {
        let (media, traits) = (std::mem::take(&mut self.media), self.traits);
        if media.is_empty() {
            return;
        }
        let (refused, losses) = (&mut self.refused, &mut *self.losses);
        self.w.object(|w| {
            w.key("role").text("user");
            w.key("content").array(|w| {
                for (index, result) in media {
                    let id = result.tool_call_id.as_deref().unwrap_or_default();
                    let caption = format!("The media of the result of {id}:");
                    w.object(|w| w.texts([("type", "text"), ("text", &caption)]));
                    let parts = result.content.iter().enumerate();
                    let shown = parts.filter(|(_, part)| is_media_part(part));
                    write_parts(w, index, shown, traits, refused, losses);
                }
            });
        });
    }
}

/// Writes parts of the message at this index, each with its own index.
fn write_parts<'p>(
    w: &mut Writer,
    message_index: usize,
    parts: impl Iterator<Item = (usize, &'p Part<'p>)>,
    traits: &Traits,
    refused: &mut Option<FieldRefused>,
    losses: &mut LostFields,
) {
    for (part_index, part) in parts {
        let hint = breakpoints::hint_of(part, Role::User, traits);
        if let Err(why) = write_part(w, part, hint, losses) {
            let field = Field::Part(message_index, part_index);
            refused.get_or_insert_with(|| FieldRefused::unsupported(field, why));
        }
    }
}

/// Writes a part, with its hint for a prompt cache, or returns why it cannot be sent.
fn write_part(
    w: &mut Writer,
    part: &Part<'_>,
    hint: Option<&Cache<'_>>,
    losses: &mut LostFields,
) -> Result<(), &'static str> {
    match &part.kind {
        PartKind::Image(Media::Id(_), _) | PartKind::File(Media::Id(_), _) => {
            return Err(UPLOADED_ELSEWHERE);
        }
        PartKind::File(Media::Url(_), _) => {
            return Err("This model's provider fetches no files: send the data itself.");
        }
        PartKind::Text(text) => w.object(|w| {
            w.key("type").text("text");
            text.write(w.key("text"));
            breakpoints::write_breakpoint(w, hint, losses);
        }),
        PartKind::Image(media, detail) => w.object(|w| {
            w.key("type").text("image_url");
            w.key("image_url").object(|w| {
                w.key("url").text(&media.address());
                w.optional("detail", detail.as_deref(), Writer::text);
            });
            breakpoints::write_breakpoint(w, hint, losses);
        }),
        PartKind::Audio(data, format) => write_sound(w, data, format),
        PartKind::File(media, name) => w.object(|w| {
            w.key("type").text("file");
            w.key("file").object(|w| {
                w.key("filename").text(file_name(name, losses));
                w.key("file_data").text(&media.address());
            });
            breakpoints::write_breakpoint(w, hint, losses);
        }),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
