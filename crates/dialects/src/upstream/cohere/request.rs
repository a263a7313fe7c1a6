//! A request in Cohere's words.

use std::borrow::Cow;

use super::tools::Tools;
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    Effort, Field, FieldRefused, LostFields, Media, Message, Part, PartKind, Request, Role, Target, Undo, Written,
};
use crate::upstream::shared::flat;
use crate::upstream::shared::options::{self, Range};
use crate::wire::json::Writer;

/// Writes a request.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    flat::refuse(request, traits, true)?;
    if request.stop.len() > MAX_STOPS {
        return Err(FieldRefused::unsupported(Field::Stop, "This provider takes five stop sequences at most."));
    }
    let mut losses = LostFields::default();
    let tools = Tools::of(request, traits, &mut losses)?;
    flat::lost(request, &mut losses);

    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("stream").bool(target.stream);
        w.key("messages").array(|w| {
            for message in &request.messages {
                write_message(w, message, traits, &mut losses);
            }
        });
        tools.write(w, &mut losses);
        write_options(w, request, target, &mut losses);
    });
    Ok(Written {
        body: w.into_bytes(),
        headers: Vec::new(),
        losses,
        undo: Undo { format_tool: tools.answer_tool(), ..Undo::default() },
    })
}

const MAX_STOPS: usize = 5;

/// Writes a message, unless it says nothing, which Cohere refuses.
fn write_message(w: &mut Writer, message: &Message<'_>, traits: &Traits, losses: &mut LostFields) {
    match message.role {
        Role::System | Role::Developer => write_words(w, "system", message, losses),
        Role::User => write_words(w, "user", message, losses),
        Role::Assistant => write_assistant(w, message, traits, losses),
        Role::Tool | Role::Function => w.object(|w| {
            w.key("role").text("tool");
            w.key("tool_call_id").text(message.tool_call_id.as_deref().unwrap_or_default());
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

/// Thinking goes back to a model that thinks as thinking, and to others as the plan behind their
/// calls.
fn write_assistant(w: &mut Writer, message: &Message<'_>, traits: &Traits, losses: &mut LostFields) {
    let thinks = match traits.thinking {
        Thinking::Budget | Thinking::Effort => true,
        Thinking::None | Thinking::Unknown => false,
    };
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
        if let Some(plan) = plan {
            w.key("tool_plan").text(plan);
        }
        if message.calls.is_empty() {
            return;
        }
        w.key("tool_calls").array(|w| {
            for call in &message.calls {
                w.object(|w| {
                    w.key("id").text(&call.id);
                    w.key("type").text("function");
                    w.key("function").object(|w| {
                        w.key("name").text(&call.name);
                        w.key("arguments").text(&flat::arguments(call));
                    });
                });
            }
        });
    });
}

/// One text as a string, and everything else as parts.
fn write_content(w: &mut Writer, parts: &[Part<'_>], thinking: Option<&str>, losses: &mut LostFields) {
    if thinking.is_none() {
        match parts {
            [] => return w.text(""),
            [Part { kind: PartKind::Text(text), .. }] => return w.text(text),
            [..] => {}
        }
    }
    w.array(|w| {
        if let Some(thinking) = thinking {
            w.object(|w| {
                w.key("type").text("thinking");
                w.key("thinking").text(thinking);
            });
        }
        for part in parts {
            match &part.kind {
                PartKind::Text(text) => w.object(|w| {
                    w.key("type").text("text");
                    w.key("text").text(text);
                }),
                PartKind::Image(media, detail) => write_image(w, media, detail.as_deref(), losses),
                // FieldRefused before.
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

fn write_options(w: &mut Writer, request: &Request<'_>, target: &Target<'_>, losses: &mut LostFields) {
    let traits = &target.traits;
    let max_tokens = options::max_tokens(request, target.default_max_tokens, traits, losses);
    if let Some(max_tokens) = max_tokens {
        w.key("max_tokens").number(max_tokens);
    }
    let (temperature, top_p) = options::sampling(request, traits, losses);
    for (range, number) in [(TEMPERATURE, temperature), (TOP_P, top_p)] {
        if let Some(number) = number {
            range.write(w, number, losses);
        }
    }
    if let Some(top_k) = request.top_k {
        w.key("k").number(top_k.min(MAX_K));
        losses.add_if(top_k > MAX_K, Field::TopK);
    }
    for (range, penalty) in
        [(FREQUENCY_PENALTY, request.penalties.frequency), (PRESENCE_PENALTY, request.penalties.presence)]
    {
        match penalty {
            // There is no praise.
            Some(penalty) if penalty.value < 0.0 => losses.add(range.field),
            Some(penalty) => range.write(w, penalty, losses),
            None => {}
        }
    }
    if !request.stop.is_empty() {
        w.key("stop_sequences").array(|w| request.stop.iter().for_each(|stop| w.text(stop)));
    }
    if let Some(seed) = options::seed::<u64>(request, losses) {
        w.key("seed").number(seed);
    }
    if let Some(effort) = request.effort {
        write_thinking(w, effort, max_tokens, traits, losses);
    }
}

const MAX_K: u64 = 500;

const TEMPERATURE: Range = Range { field: Field::Temperature, key: "temperature", least: "0", most: "" };
const TOP_P: Range = Range { field: Field::TopP, key: "p", least: "0.01", most: "0.99" };
const FREQUENCY_PENALTY: Range =
    Range { field: Field::FrequencyPenalty, key: "frequency_penalty", least: "0", most: "1" };
const PRESENCE_PENALTY: Range = Range { field: Field::PresencePenalty, key: "presence_penalty", least: "0", most: "1" };

fn write_thinking(w: &mut Writer, effort: Effort, max_tokens: Option<u64>, traits: &Traits, losses: &mut LostFields) {
    let thinks = match traits.thinking {
        Thinking::Budget | Thinking::Effort => true,
        Thinking::None if effort == Effort::None => return,
        Thinking::None | Thinking::Unknown => false,
    };
    let budget = match effort {
        Effort::None => None,
        Effort::Minimal => Some(512),
        Effort::Low => Some(2048),
        Effort::Medium => Some(8192),
        Effort::High => Some(16384),
        // As much as it likes.
        Effort::Xhigh | Effort::Max => None,
    };
    if !thinks || effort == Effort::None && !traits.thinking_off {
        return losses.add(Field::Effort);
    }
    w.key("thinking").object(|w| {
        w.key("type").text(if effort == Effort::None { "disabled" } else { "enabled" });
        // Thinking counts among the most tokens: half of them are left for the answer.
        if let Some(budget) = budget {
            w.key("token_budget").number(max_tokens.map_or(budget, |most| budget.min(most / 2)).max(1));
        }
    });
}

#[cfg(test)]
mod tests;
