//! This module writes a request for Cohere.

use super::tools::Tools;
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    Effort, Field, FieldRefused, LostFields, Media, Message, Part, PartKind, Request, Role, Target,
    Undo, Written,
};
use crate::upstream::shared::flat;
use crate::upstream::shared::options::Rule::{
    AtMost, Elsewhere, UnderKey, Within, WithinOrLost, WrittenBy,
};
use crate::upstream::shared::options::{self, Options, Row, write_within};
use crate::wire::json::Writer;

/// The options that are refused, those that are lost, and those that are written.
pub(super) const OPTIONS: [&[Row]; 3] = options::table([
    flat::REFUSED,
    flat::LOST,
    &[
        (Field::MaxTokens, UnderKey("max_tokens")),
        (Field::Temperature, Within("temperature", ["0", ""])),
        (Field::TopP, Within("p", ["0.01", "0.99"])),
        (Field::TopK, WrittenBy(write_top_k)),
        (Field::FrequencyPenalty, WrittenBy(write_penalties)),
        (Field::PresencePenalty, Elsewhere),
        (
            Field::Stop,
            AtMost(
                "stop_sequences",
                5,
                "This provider accepts at most five stop sequences.",
            ),
        ),
        (Field::Seed, WithinOrLost("seed", [0, i64::MAX])),
        (Field::Effort, WrittenBy(write_thinking)),
    ],
]);

/// Writes a request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    let mut options = Options::new(request, target);
    flat::refuse_unsupported(&options, true)?;
    let [_, _, settings] = OPTIONS;
    options.check(settings)?;
    let mut losses = LostFields::default();
    let tools = Tools::decide(request, traits, &mut losses)?;

    let mut w = Writer::with_capacity(request.room());
    flat::note_losses(&options, &mut losses);
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("stream").bool(target.stream);
        w.key("messages").each(&request.messages, |w, message| {
            write_message(w, message, traits, &mut losses)
        });
        tools.write(w, &mut losses);
        losses.add_if(options.limit_tokens(traits.max_output), Field::MaxTokens);
        options.limit_sampling(&mut losses);
        options.write(settings, w, &mut losses);
    });
    let undo = Undo {
        format_tool: tools.answer_tool(),
        ..Undo::default()
    };
    Ok(Written::new(w, losses, undo))
}

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
    w.object(|w| {
        w.key("type").text("image_url");
        w.key("image_url").object(|w| {
            w.key("url").text(&media.address());
            match detail {
                Some(detail @ ("auto" | "low" | "high")) => w.key("detail").text(detail),
                Some(_) => losses.add(Field::ImageDetail),
                None => {}
            }
        });
    });
}

/// Writes the number of the likeliest tokens, or the largest one that is taken.
fn write_top_k(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let top_k = options.top_k.map(|top_k| top_k.min(MAX_K));
    w.optional("k", top_k, Writer::number);
    losses.add_if(top_k != options.top_k, Field::TopK);
}

const MAX_K: u64 = 500;

/// Writes both penalties. A negative one rewards repetition, and Cohere does not know that.
fn write_penalties(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let penalties = options.request.penalties;
    for (field, key, penalty) in [
        (
            Field::FrequencyPenalty,
            "frequency_penalty",
            penalties.frequency,
        ),
        (
            Field::PresencePenalty,
            "presence_penalty",
            penalties.presence,
        ),
    ] {
        if let Some(penalty) = penalty {
            let is_kept = penalty.value >= 0.0 && write_within(w, key, ["0", "1"], penalty);
            losses.add_if(!is_kept, field);
        }
    }
}

fn write_thinking(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let Some(effort) = options.request.effort() else {
        return;
    };
    let (traits, max_tokens) = (&options.target.traits, options.max_tokens);
    if traits.thinking == Thinking::None && effort == Effort::None {
        return;
    }
    let budget = match effort {
        Effort::None => None,
        Effort::Minimal => Some(512),
        Effort::Low => Some(2048),
        Effort::Medium => Some(8192),
        Effort::High => Some(16384),
        // The model thinks as much as it likes.
        Effort::Xhigh | Effort::Max => None,
    };
    if !options.thinks || effort == Effort::None && !traits.thinking_off {
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
