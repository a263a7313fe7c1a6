//! This module writes a request for Converse.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::blocks::{Blocks, CachePoints, MediaSource, media_source};
use super::models::Family;
use super::tools;
use crate::neutral::{
    Field, FieldRefused, LostFields, Raw, Request, Target, ToolChoice, Written, schema, turns,
};
use crate::upstream::claude::conversation::Conversation;
use crate::upstream::claude::fields::{
    BOUNDS, LOST_NUMBERS, REFUSED, note_lost_others, write_stops,
};
use crate::upstream::claude::refuse::refuse_unsupported;
use crate::upstream::claude::thinking::Thinking;
use crate::upstream::claude::tools::{Situation, Tools};
use crate::upstream::shared::options::Rule::{
    Elsewhere, Lost, Translated, UnderKey, Within, WrittenBy,
};
use crate::upstream::shared::options::{self, Options, Row, Words};
use crate::wire::json::Writer;

/// The options that are refused, those in `inferenceConfig`, those outside of it, and those that
/// are lost.
pub(super) const OPTIONS: [&[Row]; 5] = options::table([
    REFUSED,
    &[
        (Field::MaxTokens, UnderKey("maxTokens")),
        (Field::Temperature, Within("temperature", BOUNDS)),
        (Field::TopP, Within("topP", BOUNDS)),
        (
            Field::Stop,
            WrittenBy(|options, w, losses| write_stops(options, "stopSequences", w, losses)),
        ),
    ],
    &[
        (
            Field::ServiceTier,
            WrittenBy(|options, w, losses| {
                if options.request.service_tier.is_some() {
                    w.group("serviceTier", |w| options.write(TIER, w, losses));
                }
            }),
        ),
        (Field::Metadata, WrittenBy(write_labels)),
        // Each family takes these at a place of its own.
        (Field::Effort, Elsewhere),
        (Field::TopK, Elsewhere),
    ],
    LOST_NUMBERS,
    &[(Field::User, Lost)],
]);

const TIER: &[Row] = &[(Field::ServiceTier, Translated("type", TIERS))];

const TIERS: Words = &[
    ("auto", None),
    ("default", None),
    ("priority", Some("priority")),
    ("flex", Some("flex")),
    ("reserved", Some("reserved")),
];

/// Writes a request. The path names the model, and the method for a stream.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    let may_call = request.tool_choice != Some(ToolChoice::None);
    let options = Options::new(request, target);
    refuse_unsupported(&options, may_call, |kind| {
        media_source(kind).map(|source| matches!(source, MediaSource::Image(..)))
    })?;
    let family = Family::for_model(target.model, traits);
    let mut losses = LostFields::default();
    let turns = turns::group_turns(request, target.kept, &mut losses);
    let refusal = "This model needs a user message that is not empty.";
    let mut conversation = Conversation::read(request, &turns, traits, refusal, &mut losses)?;

    let mut thinking = match request.thinking.settings {
        Some(_) if family != Family::Claude => Thinking::of_effort(request, target, &mut losses)?,
        Some(_) | None => Thinking::decide(request, target, &mut losses)?,
    };
    // Only Claudes understand Anthropic's own fields of thinking.
    let is_own =
        family != Family::Claude && request.others.iter().any(|(name, _)| name == "thinking");
    if is_own && (thinking.is_on() || thinking.is_off()) {
        thinking.leave_out(&mut losses);
    }
    conversation.check_thoughts(&mut thinking, &mut losses);
    let situation = Situation {
        api: tools::family_api(family),
        traits,
        conversation: &conversation,
        stubs: Vec::new(),
    };
    let mut tools = Tools::decide(request, situation, &mut thinking, &mut losses)?;
    tools::complete_tools(&mut tools, request, conversation.has_calls(), &mut losses);
    // Newer models refuse thoughts in the wrong place. A header could make them drop such thoughts,
    // but this API does not have it.
    conversation.sends_thoughts =
        thinking.may_be_on(traits) && family.signs() && !traits.bound_thoughts;
    losses.add_if(
        !conversation.sends_thoughts && conversation.has_callers_thoughts(),
        Field::Thoughts,
    );

    let of_tools = if family == Family::Claude {
        tools.cache_hints()
    } else {
        0
    };
    let mut points =
        CachePoints::select(of_tools + conversation.cache_hints(), family, &mut losses);
    let [_, inference, others, lost_numbers, lost] = OPTIONS;
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        if tools.any() {
            w.key("toolConfig")
                .object(|w| tools::write_tools(w, &tools, &mut points, &mut losses));
        }
        let documents = BTreeMap::new();
        let mut blocks = Blocks {
            names: &tools.names,
            points,
            documents,
            losses: &mut losses,
        };
        conversation.write(w, tools.hint, &mut blocks);
        let settings = AnswerSettings::decide(options, family, &thinking, &mut losses);
        w.group("inferenceConfig", |w| {
            settings.options.write(inference, w, &mut losses)
        });
        w.group("outputConfig", |w| {
            tools::write_output(w, &tools);
            w.optional(
                "effort",
                settings.effort.filter(|_| family.has_output_effort()),
                Writer::text,
            );
        });
        w.group("additionalModelRequestFields", |w| {
            settings.write_more(w, &thinking)
        });
        for rows in [others, lost_numbers, lost] {
            settings.options.write(rows, w, &mut losses);
        }
    });
    if family == Family::Claude {
        note_lost_others(request, &mut losses);
    } else {
        options::note_lost_others(request, &mut losses);
    }
    Ok(Written::new(w, losses, tools.undo()))
}

/// The settings of the answer, as far as the model allows them.
struct AnswerSettings<'r> {
    family: Family,
    options: Options<'r>,
    effort: Option<&'static str>,
}

impl<'r> AnswerSettings<'r> {
    fn decide(
        mut options: Options<'r>,
        family: Family,
        thinking: &Thinking<'_>,
        losses: &mut LostFields,
    ) -> Self {
        // Without a maximum, the answer may be as long as the model can write. A budget must be
        // less than the maximum, so a budget needs one.
        let is_bounded = family == Family::Claude && thinking.is_bounded;
        let says_most = options.max_tokens.is_some() || thinking.needs_thoughts() || is_bounded;
        options.max_tokens = says_most.then_some(thinking.max_tokens);
        let mut effort = thinking.effort;
        if family.has_output_effort() && !options.target.traits.server.output_config {
            losses.add_if(effort.take().is_some(), Field::Effort);
        }
        options.thinks = family == Family::Claude && thinking.is_on();
        options.restrict_temperature(losses);
        options.restrict_top_p(losses);
        options.restrict_top_k(losses);
        if !matches!(family, Family::Claude | Family::Nova | Family::Nova2) {
            losses.add_if(options.top_k.take().is_some(), Field::TopK);
            losses.add_if(thinking.is_off(), Field::Effort);
        }
        // Nova's highest effort works with none of these options.
        let is_bound = options.max_tokens.is_some()
            || options.temperature.is_some()
            || options.top_p.is_some();
        if family == Family::Nova2 && effort == Some("high") && is_bound {
            losses.add(Field::Effort);
            effort = Some("medium");
        }
        Self {
            family,
            options,
            effort,
        }
    }

    /// Writes the fields that only this family's models take.
    fn write_more(&self, w: &mut Writer, thinking: &Thinking<'_>) {
        match self.family {
            Family::Claude => {
                w.optional("top_k", self.options.top_k, Writer::number);
                thinking.write(w, false, &mut Vec::new());
            }
            Family::Nova | Family::Nova2 => {
                w.group("inferenceConfig", |w| {
                    w.optional("topK", self.options.top_k, Writer::number)
                });
                if thinking.is_off() {
                    w.key("reasoningConfig").raw(r#"{"type":"disabled"}"#);
                } else if let Some(effort) = self.effort {
                    w.key("reasoningConfig")
                        .object(|w| w.texts([("type", "enabled"), ("maxReasoningEffort", effort)]));
                }
            }
            Family::OpenAi => w.optional("reasoning_effort", self.effort, Writer::text),
            Family::Mistral | Family::Other => {}
        }
    }
}

/// Writes the labels for the provider's log.
fn write_labels(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let Some(Raw(metadata)) = options.request.metadata else {
        return;
    };
    match valid_labels(metadata) {
        Some(labels) => w.group("requestMetadata", |w| {
            labels
                .iter()
                .for_each(|(name, value)| w.name(name).text(value));
        }),
        None => losses.add(Field::Metadata),
    }
}

/// Returns the names and values of the labels, if the API accepts them all.
fn valid_labels(metadata: &str) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let labels: Option<Vec<_>> = schema::read_members(metadata)?
        .into_iter()
        .map(|(name, value)| Some((name, schema::string_value(value)?)))
        .collect();
    labels.filter(|labels| {
        labels.len() <= 16
            && labels
                .iter()
                .all(|(name, value)| !name.is_empty() && is_label(name) && is_label(value))
    })
}

fn is_label(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || " \t\n\r:_@$#=/+,-.".contains(c);
    text.len() <= 256 && text.chars().all(is_allowed)
}

#[cfg(test)]
mod tests;
