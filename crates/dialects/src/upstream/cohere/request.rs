//! This module writes a request for Cohere.

use std::borrow::Cow;

use super::tools::Tools;
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    Effort, Field, FieldRefused, LostFields, Media, Message, Number, Part, PartKind, Request, Role,
    Target, Undo, Written,
};
use crate::upstream::shared::flat;
use crate::upstream::shared::options::{self, Range};
use crate::wire::json::Writer;

/// Writes a request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    flat::refuse_unsupported(request, traits, true)?;
    if request.stop.len() > MAX_STOPS {
        return Err(FieldRefused::unsupported(
            Field::Stop,
            "This provider accepts at most five stop sequences.",
        ));
    }
    let mut losses = LostFields::default();
    let tools = Tools::decide(request, traits, &mut losses)?;
    flat::note_losses(request, &mut losses);

    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("stream").bool(target.stream);
        w.key("messages").each(&request.messages, |w, message| {
            write_message(w, message, traits, &mut losses)
        });
        tools.write(w, &mut losses);
        write_options(w, request, target, &mut losses);
    });
    Ok(Written {
        body: w.into_bytes(),
        headers: Vec::new(),
        losses,
        undo: Undo {
            format_tool: tools.answer_tool(),
            ..Undo::default()
        },
    })
}

const MAX_STOPS: usize = 5;

/// Writes a message, unless it is empty, because Cohere refuses empty messages.
fn write_message(w: &mut Writer, message: &Message<'_>, traits: &Traits, losses: &mut LostFields) {
    match message.role {
        Role::System | Role::Developer => write_words(w, "system", message, losses),
        Role::User => write_words(w, "user", message, losses),
        Role::Assistant => write_assistant(w, message, traits, losses),
        Role::Tool | Role::Function => w.object(|w| {
            w.texts([
                ("role", "tool"),
                (
                    "tool_call_id",
                    message.tool_call_id.as_deref().unwrap_or_default(),
                ),
            ]);
            w.key("content");
            write_content(w, &message.content, None, losses);
        }),
    }
}

fn write_words(w: &mut Writer, role: &str, message: &Message<'_>, losses: &mut LostFields) {
    if message.content.is_empty() {
        return;
    }
    w.object(|w| {
        w.key("role").text(role);
        w.key("content");
        write_content(w, &message.content, None, losses);
    });
}

/// Writes an assistant's message. A model that thinks gets its thinking back as thinking. Another
/// model gets it as the plan before its calls.
fn write_assistant(
    w: &mut Writer,
    message: &Message<'_>,
    traits: &Traits,
    losses: &mut LostFields,
) {
    let thinks = matches!(traits.thinking, Thinking::Budget | Thinking::Effort);
    let reasoning = message.reasoning.as_deref().filter(|text| !text.is_empty());
    let (thinking, plan) = match reasoning {
        Some(text) if thinks => (Some(text), None),
        Some(text) if !message.calls.is_empty() => (None, Some(text)),
        Some(_) => {
            losses.add(Field::Reasoning);
            (None, None)
        }
        None => (None, None),
    };
    if message.content.is_empty() && message.calls.is_empty() && thinking.is_none() {
        return;
    }
    w.object(|w| {
        w.key("role").text("assistant");
        if thinking.is_some() || !message.content.is_empty() {
            w.key("content");
            write_content(w, &message.content, thinking, losses);
        }
        w.optional("tool_plan", plan, Writer::text);
        w.list("tool_calls", &message.calls, |w, call| {
            w.object(|w| {
                w.texts([("id", &call.id), ("type", "function")]);
                w.key("function").object(|w| {
                    w.texts([
                        ("name", &call.name),
                        ("arguments", &flat::object_arguments(call)),
                    ])
                });
            });
        });
    });
}

/// Writes a single text as a string, and any other content as parts.
fn write_content(
    w: &mut Writer,
    parts: &[Part<'_>],
    thinking: Option<&str>,
    losses: &mut LostFields,
) {
    if thinking.is_none() {
        match parts {
            [] => return w.text(""),
            [
                Part {
                    kind: PartKind::Text(text),
                    ..
                },
            ] => return text.write(w),
            [..] => {}
        }
    }
    w.array(|w| {
        if let Some(thinking) = thinking {
            w.object(|w| w.texts([("type", "thinking"), ("thinking", thinking)]));
        }
        for part in parts {
            match &part.kind {
                PartKind::Text(text) => w.object(|w| {
                    w.key("type").text("text");
                    text.write(w.key("text"));
                }),
                PartKind::Image(media, detail) => write_image(w, media, detail.as_deref(), losses),
                // Such parts were refused before.
                PartKind::Audio(..) | PartKind::File(..) => {}
            }
        }
    });
}

fn write_image(w: &mut Writer, media: &Media<'_>, detail: Option<&str>, losses: &mut LostFields) {
    let url = match media {
        Media::Inline(kind, bytes) => Cow::Owned(format!("data:{kind};base64,{bytes}")),
        Media::Url(url) => Cow::Borrowed(&**url),
        Media::Id(_) => return,
    };
    w.object(|w| {
        w.key("type").text("image_url");
        w.key("image_url").object(|w| {
            w.key("url").text(&url);
            match detail {
                Some(detail @ ("auto" | "low" | "high")) => w.key("detail").text(detail),
                Some(_) => losses.add(Field::ImageDetail),
                None => {}
            }
        });
    });
}

fn write_options(
    w: &mut Writer,
    request: &Request<'_>,
    target: &Target<'_>,
    losses: &mut LostFields,
) {
    let traits = &target.traits;
    let max_tokens = options::max_tokens(request, target.default_max_tokens, traits, losses);
    w.optional("max_tokens", max_tokens, Writer::number);
    let (temperature, top_p) = options::allowed_sampling(request, traits, losses);
    TEMPERATURE.write(w, temperature, losses);
    TOP_P.write(w, top_p, losses);
    w.optional(
        "k",
        request.top_k.map(|top_k| top_k.min(MAX_K)),
        Writer::number,
    );
    losses.add_if(
        request.top_k.is_some_and(|top_k| top_k > MAX_K),
        Field::TopK,
    );
    for (range, penalty) in [
        (FREQUENCY_PENALTY, request.penalties.frequency),
        (PRESENCE_PENALTY, request.penalties.presence),
    ] {
        // A negative penalty rewards repetition, and Cohere does not know that.
        let is_praise = |penalty: &Number<'_>| penalty.value < 0.0;
        losses.add_if(penalty.as_ref().is_some_and(is_praise), range.field.clone());
        range.write(w, penalty.filter(|penalty| !is_praise(penalty)), losses);
    }
    w.list("stop_sequences", &request.stop, |w, stop| w.text(stop));
    w.optional(
        "seed",
        options::fitting_seed(request, losses),
        Writer::number,
    );
    if let Some(effort) = request.effort() {
        write_thinking(w, effort, max_tokens, traits, losses);
    }
}

const MAX_K: u64 = 500;

const TEMPERATURE: Range = Range {
    field: Field::Temperature,
    key: "temperature",
    minimum: "0",
    maximum: "",
};
const TOP_P: Range = Range {
    field: Field::TopP,
    key: "p",
    minimum: "0.01",
    maximum: "0.99",
};
const FREQUENCY_PENALTY: Range = Range {
    field: Field::FrequencyPenalty,
    key: "frequency_penalty",
    minimum: "0",
    maximum: "1",
};
const PRESENCE_PENALTY: Range = Range {
    field: Field::PresencePenalty,
    key: "presence_penalty",
    minimum: "0",
    maximum: "1",
};

fn write_thinking(
    w: &mut Writer,
    effort: Effort,
    max_tokens: Option<u64>,
    traits: &Traits,
    losses: &mut LostFields,
) {
    if traits.thinking == Thinking::None && effort == Effort::None {
        return;
    }
    let thinks = matches!(traits.thinking, Thinking::Budget | Thinking::Effort);
    let budget = match effort {
        Effort::None => None,
        Effort::Minimal => Some(512),
        Effort::Low => Some(2048),
        Effort::Medium => Some(8192),
        Effort::High => Some(16384),
        // The model thinks as much as it likes.
        Effort::Xhigh | Effort::Max => None,
    };
    if !thinks || effort == Effort::None && !traits.thinking_off {
        return losses.add(Field::Effort);
    }
    w.key("thinking").object(|w| {
        w.key("type").text(if effort == Effort::None {
            "disabled"
        } else {
            "enabled"
        });
        // Thinking counts toward the maximum of tokens, so half of it is left for the answer.
        let budget = budget.map(|budget: u64| {
            max_tokens
                .map_or(budget, |limit| budget.min(limit / 2))
                .max(1)
        });
        w.optional("token_budget", budget, Writer::number);
    });
}

#[cfg(test)]
mod tests;
