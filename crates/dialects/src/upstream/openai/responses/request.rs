//! Writes a request of another format as a request for a response. Items of one turn follow each
//! other: the thoughts, the text, the calls.

use std::borrow::Cow;

use super::super::breakpoints::{self, is_media_part, write_texts};
use super::super::compose::{assistant_media_refused, is_thinking_model};
use super::super::nesting::{
    LABELS, Nesting, UPLOADED_ELSEWHERE, file_name, limit_tokens, write_sound,
};
use crate::neutral::Endpoint;
use crate::neutral::answered::check_calls_answered;
use crate::neutral::traits::Sampling;
use crate::neutral::{
    Cache, Call, ENCRYPTED, Effort, Field, FieldRefused, LostFields, Media, Message, Part,
    PartKind, Request, Role, Target, Thought, ToolKind, Written,
};
use crate::upstream::shared::names::Names;
use crate::upstream::shared::options::Rule::{Lost, Refused, UnderKey, WrittenBy};
use crate::upstream::shared::options::{self, Options, Row};
use crate::wire::json::Writer;

/// The beginning of every encrypted thought of OpenAI's. Another text would be refused.
const SEAL: &str = "gAAAA";

/// The options that are refused, those that are written, and those that a request for a response
/// has no place for.
pub(super) const OPTIONS: [&[Row]; 4] = options::table([
    &[
        (Field::Choices, Refused(options::ONE_CHOICE)),
        (
            Field::Logprobs,
            Refused("This model does not report log probabilities in this format."),
        ),
        (
            Field::Audio,
            Refused("This model cannot answer with audio."),
        ),
    ],
    &[
        (Field::MaxTokens, UnderKey("max_output_tokens")),
        (Field::Temperature, UnderKey("temperature")),
        (Field::TopP, UnderKey("top_p")),
        (Field::Effort, WrittenBy(write_reasoning)),
    ],
    LABELS,
    &[
        (Field::FrequencyPenalty, Lost),
        (Field::PresencePenalty, Lost),
        (Field::Stop, Lost),
        (Field::Seed, Lost),
        (Field::TopK, Lost),
    ],
]);

/// Writes a request.
pub(super) fn write_request(
    request: &Request<'_>,
    target: &Target<'_>,
) -> Result<Written, FieldRefused> {
    check_calls_answered(request)?;
    target.traits.check(request)?;
    let [refused_options, settings, labels, lost] = OPTIONS;
    let mut options = Options::new(request, target);
    options.check(refused_options)?;
    refuse_custom_tools(request)?;
    let mut losses = LostFields::default();
    let names = Names::assign(request);
    options.thinks = is_thinking_model(target.model, &target.traits);
    bound_tokens(&mut options, &mut losses);
    limit_sampling(&mut options, &mut losses);
    let mut refused = None;
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        if target.stream {
            w.key("stream").bool(true);
        }
        w.key("store").bool(false);
        if options.thinks {
            w.key("include").array(|w| w.text(ENCRYPTED));
        }
        options.write(settings, w, &mut losses);
        options.write(labels, w, &mut losses);
        w.optional("text", request.format.as_ref(), |w, format| {
            w.object(|w| Nesting::Flat.write_format(w.key("format"), format, &mut losses));
        });
        Nesting::Flat.write_tools(w, request, &names);
        w.key("input").array(|w| {
            let mut items = Items {
                w,
                names: &names,
                target,
                losses: &mut losses,
                refused: None,
            };
            request
                .messages
                .iter()
                .enumerate()
                .for_each(|(index, message)| items.write_message(index, message));
            refused = items.refused.take();
        });
        options.note_lost(lost, &mut losses);
        options::note_lost_others(request, &mut losses);
        breakpoints::note_lost_hints(request, &target.traits, &mut losses);
    });
    if let Some(refused) = refused {
        return Err(refused);
    }
    Ok(Written::new(w, losses, names.into_undo()))
}

/// Refuses tools whose calls would look like calls of functions.
fn refuse_custom_tools(request: &Request<'_>) -> Result<(), FieldRefused> {
    let mut tools = request.tools.iter();
    match tools.position(|tool| !matches!(tool.kind, ToolKind::Function(..))) {
        Some(index) => Err(FieldRefused::unsupported(
            Field::Tool(index),
            "This model supports tools of type `function` only, in this format.",
        )),
        None => Ok(()),
    }
}

/// Limits the maximum of tokens to what the model and the endpoint take.
fn bound_tokens(options: &mut Options<'_>, losses: &mut LostFields) {
    limit_tokens(options, losses);
    let least = Endpoint::Responses.least_tokens();
    if options.max_tokens.is_some_and(|maximum| maximum < least) {
        losses.add(Field::MaxTokens);
        options.max_tokens = Some(least);
    }
}

/// Leaves out `temperature` and `top_p` for a model that thinks, because it refuses them. The
/// default of both, 1, is no loss.
fn limit_sampling(options: &mut Options<'_>, losses: &mut LostFields) {
    let is_refused = options.thinks
        && options.target.traits.sampling == Sampling::Both
        && options.request.effort() != Some(Effort::None);
    if !is_refused {
        return options.limit_sampling(losses);
    }
    let (temperature, top_p) = (options.temperature.take(), options.top_p.take());
    losses.add_if(
        temperature.is_some_and(options::differs_from_default),
        Field::Temperature,
    );
    losses.add_if(
        top_p.is_some_and(options::differs_from_default),
        Field::TopP,
    );
}

/// Writes the effort, and asks for a summary of the thoughts if the caller asked to think and so
/// wants to see them.
fn write_reasoning(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let request = options.request;
    let effort = request.effort();
    if !options.thinks {
        return losses.add_if(
            effort.is_some_and(|effort| effort != Effort::None),
            Field::Effort,
        );
    }
    let shows = request.thinking.settings.is_some() && effort != Some(Effort::None);
    if effort.is_none() && !shows {
        return;
    }
    w.key("reasoning").object(|w| {
        w.optional("effort", effort.map(Effort::name), Writer::text);
        if shows {
            w.key("summary").text("auto");
        }
    });
}

/// Writes the items of the conversation.
struct Items<'m, 'r> {
    w: &'m mut Writer,
    names: &'m Names<'r>,
    target: &'m Target<'m>,
    losses: &'m mut LostFields,
    refused: Option<FieldRefused>,
}

impl Items<'_, '_> {
    fn write_message(&mut self, index: usize, message: &Message<'_>) {
        message.note_others(self.losses);
        let is_result = message.role.is_result();
        self.losses
            .add_if(message.name.is_some() && !is_result, Field::ParticipantName);
        match message.role {
            Role::System | Role::Developer => {
                self.losses.add_if(
                    message.content.iter().any(is_media_part),
                    Field::SystemMedia,
                );
                let role = if message.role == Role::System {
                    "system"
                } else {
                    "developer"
                };
                self.w.object(|w| {
                    w.key("role").text(role);
                    breakpoints::write_content(
                        w.key("content"),
                        message,
                        &self.target.traits,
                        "input_text",
                        self.losses,
                    );
                });
            }
            Role::User => self.write_item(&[("role", "user")], "content", index, message),
            Role::Assistant => {
                if let Some(why) = assistant_media_refused(index, message) {
                    self.refused.get_or_insert(why);
                }
                self.write_answer(message);
            }
            Role::Tool | Role::Function => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let head = [("type", "function_call_output"), ("call_id", id)];
                self.write_item(&head, "output", index, message);
            }
        }
    }

    /// Writes an answer of the model: its thoughts, its text, its calls.
    fn write_answer(&mut self, message: &Message<'_>) {
        let has_text = !message.content.iter().all(is_media_part);
        self.losses
            .add_if(message.reasoning.is_some(), Field::Reasoning);
        // A thought alone would be refused: it belongs to the item after it.
        let is_followed = has_text || !message.calls.is_empty();
        // A caller who sends no thoughts back gets those that the gateway kept for the turn's
        // calls.
        let mut calls = message.calls.iter();
        let kept = if message.thoughts.is_empty() {
            calls.find_map(|call| (self.target.kept)(&call.id))
        } else {
            None
        };
        for thought in kept.as_deref().unwrap_or(&message.thoughts) {
            match thought
                .sealed()
                .filter(|seal| is_followed && seal.starts_with(SEAL))
            {
                Some(seal) => write_thought(self.w, &thought.text, seal),
                None => self.losses.add(Field::Thoughts),
            }
        }
        if has_text || message.calls.is_empty() {
            self.w.object(|w| {
                w.key("role").text("assistant");
                write_texts(w.key("content"), &message.content);
            });
        }
        message.calls.iter().for_each(|call| self.write_call(call));
    }

    fn write_call(&mut self, call: &Call<'_>) {
        self.losses
            .add_if(call.signature.is_some(), Field::CallSignature);
        let arguments = match call.is_custom {
            false => Cow::Borrowed(&*call.arguments),
            true => {
                self.losses.add(Field::CustomCall);
                let mut w = Writer::default();
                w.object(|w| w.texts([("input", &call.arguments)]));
                Cow::Owned(String::from_utf8(w.into_bytes()).unwrap_or_default())
            }
        };
        let name = self.names.written(&call.name);
        let members = [
            ("type", "function_call"),
            ("call_id", &call.id),
            ("name", name),
            ("arguments", &arguments),
        ];
        self.w.object(|w| w.texts(members));
    }

    /// Writes an item that has these first members, and the content of the message at `index`, a
    /// text or parts, as the member `content_name`.
    fn write_item(
        &mut self,
        first_members: &[(&'static str, &str)],
        content_name: &'static str,
        index: usize,
        message: &Message<'_>,
    ) {
        let Self {
            w,
            refused,
            losses,
            target,
            ..
        } = self;
        w.object(|w| {
            first_members
                .iter()
                .for_each(|(name, value)| w.key(name).text(value));
            if !message.content.iter().any(is_media_part) {
                return breakpoints::write_content(
                    w.key(content_name),
                    message,
                    &target.traits,
                    "input_text",
                    losses,
                );
            }
            w.key(content_name).array(|w| {
                let last = message.content.len().saturating_sub(1);
                for (part_index, part) in message.content.iter().enumerate() {
                    let of_whole = message
                        .cache
                        .as_ref()
                        .filter(|_| target.traits.cache_breakpoints && part_index == last);
                    let hint =
                        breakpoints::hint_of(part, message.role, &target.traits).or(of_whole);
                    if let Err(why) = write_part(w, part, hint, losses) {
                        refused.get_or_insert_with(|| {
                            FieldRefused::unsupported(Field::Part(index, part_index), why)
                        });
                    }
                }
            });
        });
    }
}

impl Thought<'_> {
    /// Returns the encrypted text that makes the thought valid at its provider.
    fn sealed(&self) -> Option<&str> {
        self.redacted.as_deref().or(self.signature.as_deref())
    }
}

fn write_thought(w: &mut Writer, text: &str, seal: &str) {
    w.object(|w| {
        w.key("type").text("reasoning");
        w.key("summary").array(|w| {
            if !text.is_empty() {
                w.object(|w| w.texts([("type", "summary_text"), ("text", text)]));
            }
        });
        w.key("encrypted_content").text(seal);
    });
}

/// Writes a part, or returns why it cannot be sent.
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
        PartKind::Text(text) => w.object(|w| {
            w.key("type").text("input_text");
            text.write(w.key("text"));
            breakpoints::write_breakpoint(w, hint, losses);
        }),
        PartKind::Image(media, detail) => w.object(|w| {
            w.texts([("type", "input_image"), ("image_url", &media.address())]);
            w.key("detail").text(detail.as_deref().unwrap_or("auto"));
            breakpoints::write_breakpoint(w, hint, losses);
        }),
        PartKind::Audio(data, format) => write_sound(w, data, format),
        PartKind::File(Media::Url(url), name) => {
            losses.add_if(name.is_some(), Field::FileName);
            w.object(|w| {
                w.texts([("type", "input_file"), ("file_url", url)]);
                breakpoints::write_breakpoint(w, hint, losses);
            });
        }
        PartKind::File(media, name) => w.object(|w| {
            w.texts([
                ("type", "input_file"),
                ("filename", file_name(name, losses)),
                ("file_data", &media.address()),
            ]);
            breakpoints::write_breakpoint(w, hint, losses);
        }),
    }
    Ok(())
}
