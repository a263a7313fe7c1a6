//! This module writes a request for Ollama.

use std::collections::HashMap;

use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    Effort, Field, FieldRefused, Format, LostFields, Media, Message, PartKind, Request, Role,
    Target, Tool, Undo, Written,
};
use crate::upstream::shared::flat;
use crate::upstream::shared::options::Rule::{UnderKey, WrittenBy};
use crate::upstream::shared::options::{self, Options, Row};
use crate::upstream::shared::text::joined_text;
use crate::wire::json::Writer;

/// The options that are refused, those that are lost, those in `options`, and the effort outside of
/// it.
pub(super) const OPTIONS: [&[Row]; 4] = options::table([
    flat::REFUSED,
    flat::LOST,
    &[
        (Field::MaxTokens, UnderKey("num_predict")),
        (Field::TopK, UnderKey("top_k")),
        (Field::Temperature, UnderKey("temperature")),
        (Field::TopP, UnderKey("top_p")),
        (Field::FrequencyPenalty, UnderKey("frequency_penalty")),
        (Field::PresencePenalty, UnderKey("presence_penalty")),
        (Field::Seed, UnderKey("seed")),
        (Field::Stop, UnderKey("stop")),
    ],
    &[(Field::Effort, WrittenBy(write_thinking))],
]);

/// Writes a request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    let mut options = Options::new(request, target);
    flat::refuse_unsupported(&options, false)?;
    // No field can make a model call a tool, whatever traits the catalog has for the model.
    let offer = flat::choose_tools(
        request,
        &Traits {
            forced_tools: false,
            ..*traits
        },
    )?;
    let has_tools = offer.may_call();
    if request.format.is_some() && has_tools && !traits.structured_with_tools {
        return Err(FieldRefused::unsupported(
            Field::Format,
            "This model does not support a format for its answer together with tools.",
        ));
    }
    if request.format.is_some() && !traits.structured {
        return Err(FieldRefused::unsupported(
            Field::Format,
            "This model does not support a format for its answer.",
        ));
    }
    let mut losses = LostFields::default();
    let mut w = Writer::with_capacity(request.room());
    flat::note_losses(&options, &mut losses);
    let [_, _, settings, thinking] = OPTIONS;
    w.object(|w| {
        w.key("model").text(target.model);
        // Without this field the server would stream.
        w.key("stream").bool(target.stream);
        let mut names = HashMap::new();
        let spoken = request
            .messages
            .iter()
            .filter(|message| flat::has_content(message));
        w.key("messages").each(spoken, |w, message| {
            write_message(w, message, &mut names, &mut losses)
        });
        if has_tools {
            write_tools(w, &offer.tools, &mut losses);
        }
        write_format(w, request.format.as_ref(), &mut losses);
        losses.add_if(options.limit_tokens(traits.max_output), Field::MaxTokens);
        options.limit_sampling(&mut losses);
        w.group("options", |w| options.write(settings, w, &mut losses));
        options.write(thinking, w, &mut losses);
    });
    Ok(Written::new(w, losses, Undo::default()))
}

/// Writes a message. `names` has the functions of the calls so far, by the calls' ids, because a
/// result must name its function.
fn write_message<'r>(
    w: &mut Writer,
    message: &'r Message<'_>,
    names: &mut HashMap<&'r str, &'r str>,
    losses: &mut LostFields,
) {
    let role = match message.role {
        Role::System | Role::Developer => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool | Role::Function => "tool",
    };
    w.object(|w| {
        w.key("role").text(role);
        w.key("content").text(&joined_text(&message.content));
        write_images(w, message, losses);
        w.optional(
            "thinking",
            message.reasoning.as_deref().filter(|text| !text.is_empty()),
            Writer::text,
        );
        w.list("tool_calls", &message.calls, |w, call| {
            names.insert(&call.id, &call.name);
            w.object(|w| {
                w.key("id").text(&call.id);
                w.key("function").object(|w| {
                    w.key("name").text(&call.name);
                    w.key("arguments").raw(&flat::object_arguments(call));
                });
            });
        });
        if let Some(id) = &message.tool_call_id {
            w.optional(
                "tool_name",
                names.get(&**id).copied().or(message.name.as_deref()),
                Writer::text,
            );
            w.key("tool_call_id").text(id);
        }
    });
}

/// Writes the pictures next to the text, as base64 without a data URL.
fn write_images(w: &mut Writer, message: &Message<'_>, losses: &mut LostFields) {
    w.list("images", &message.content, |w, part| {
        // Pictures at other places were refused before.
        let PartKind::Image(Media::Inline(_, bytes), detail) = &part.kind else {
            return;
        };
        w.text(bytes);
        losses.add_if(
            detail.as_deref().is_some_and(|detail| detail != "auto"),
            Field::ImageDetail,
        );
    });
}

fn write_tools(w: &mut Writer, tools: &[&Tool<'_>], losses: &mut LostFields) {
    w.key("tools").each(tools, |w, tool| {
        losses.add_if(flat::is_strict(tool), Field::ToolStrict);
        flat::write_tool(
            w,
            &tool.name,
            tool.description.as_ref(),
            flat::tool_parameters(tool),
        );
    });
}

fn write_format(w: &mut Writer, format: Option<&Format<'_>>, losses: &mut LostFields) {
    match format {
        None => {}
        Some(Format::JsonSchema {
            schema: Some(schema),
            description,
            ..
        }) => {
            losses.add_if(description.is_some(), Field::FormatDescription);
            w.key("format").raw(schema);
        }
        Some(Format::JsonSchema { schema: None, .. } | Format::JsonObject) => {
            w.key("format").text("json")
        }
    }
}

fn write_thinking(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let Some(effort) = options.request.effort() else {
        return;
    };
    let traits = &options.target.traits;
    let asks_none = effort == Effort::None;
    match traits.thinking {
        // The model decides how hard it thinks. Any effort other than off and medium is weakened.
        Thinking::Budget => {
            losses.add_if(
                asks_none && !traits.thinking_off
                    || !matches!(effort, Effort::None | Effort::Medium),
                Field::Effort,
            );
            w.key("think").bool(!asks_none || !traits.thinking_off);
        }
        Thinking::Effort if asks_none && traits.thinking_off => w.key("think").bool(false),
        Thinking::Effort => {
            let (word, is_meant) = match effort {
                Effort::None | Effort::Minimal => ("low", false),
                Effort::Low => ("low", true),
                Effort::Medium => ("medium", true),
                Effort::High => ("high", true),
                Effort::Xhigh | Effort::Max => ("high", false),
            };
            losses.add_if(!is_meant, Field::Effort);
            w.key("think").text(word);
        }
        // A model that cannot think accepts this order, and no other.
        Thinking::Unknown if asks_none => w.key("think").bool(false),
        Thinking::None if asks_none => {}
        Thinking::Unknown | Thinking::None => losses.add(Field::Effort),
    }
}

#[cfg(test)]
mod tests;
