//! This module writes the request. The conversation and the tools are in [`super::contents`] and
//! [`super::tools`]; the settings of the answer are here.

use super::Service;
use super::contents::{self, Contents};
use super::models::Model;
use super::tools::{self, Plan};
use crate::neutral::answered::check_calls_answered;
use crate::neutral::schema::{read_members, string_value};
use crate::neutral::traits::Thinking;
use crate::neutral::turns::group_turns;
use crate::neutral::{
    Effort, Field, FieldRefused, LostFields, Raw, Request, Target, Undo, Written,
};
use crate::upstream::shared::options::Rule::{
    AtMost, Elsewhere, Fitting, Lost, Refused, Translated, UnderKey, Within, WrittenBy,
};
use crate::upstream::shared::options::{self, Options, Row, Words, write_within};
use crate::wire::json::Writer;

/// The options that are refused, those in `generationConfig`, the effort after the format, and the
/// tier outside of it.
pub(super) const OPTIONS: [&[Row]; 4] = options::table([
    &[
        (
            Field::Audio,
            Refused("This model can be asked for text only, not for audio."),
        ),
        (
            Field::Logprobs,
            Refused("This model does not report log probabilities."),
        ),
    ],
    &[
        (Field::Temperature, Within("temperature", ["0", "2"])),
        (Field::TopP, Within("topP", ["0", "1"])),
        (Field::TopK, Fitting("topK", [1, i64::MAX])),
        (
            Field::Choices,
            AtMost(
                "candidateCount",
                8,
                "This model gives at most eight choices for each request.",
            ),
        ),
        (Field::MaxTokens, UnderKey("maxOutputTokens")),
        (Field::Stop, WrittenBy(write_stops)),
        (
            Field::Seed,
            Fitting("seed", [i32::MIN as i64, i32::MAX as i64]),
        ),
        // Not every model takes them.
        (Field::PresencePenalty, Elsewhere),
        (Field::FrequencyPenalty, Elsewhere),
    ],
    &[
        (Field::Effort, WrittenBy(write_thinking)),
        (Field::User, Lost),
        // Only Vertex AI takes labels.
        (Field::Metadata, Elsewhere),
    ],
    &[(Field::ServiceTier, Translated("serviceTier", TIERS))],
]);

const TIERS: Words = &[
    ("auto", None),
    ("default", None),
    ("standard", None),
    ("flex", Some("flex")),
    ("priority", Some("priority")),
];

/// Writes a request for the Gemini API.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    write_for_service(request, target, Service::Gemini)
}

/// Writes a request for either service.
pub(super) fn write_for_service(
    request: &Request<'_>,
    target: &Target<'_>,
    service: Service,
) -> Result<Written, FieldRefused> {
    let [refused_options, settings, thinking, tier] = OPTIONS;
    let mut options = Options::new(request, target);
    options.check(refused_options)?;
    options.check(settings)?;
    FieldRefused::any([(
        request.stop.len() > MAX_STOPS,
        Field::Stop,
        "This model accepts at most five stop sequences.",
    )])?;
    let mut losses = LostFields::default();
    check_calls_answered(request)?;
    let plan = Plan::decide(request, target, &mut losses)?;
    let mut turns = group_turns(request, target.kept, &mut losses);
    contents::remove_thoughts(&mut turns, &mut losses);
    let is_silent = turns.turns.is_empty() && turns.system.is_empty();
    let is_prefilled =
        turns.turns.last().is_some_and(|turn| turn.is_assistant) && !target.traits.prefill;
    FieldRefused::any([
        (
            is_silent,
            Field::Messages,
            "This model needs a message that is not empty.",
        ),
        (
            is_prefilled,
            Field::Messages,
            "This model does not continue an assistant message: the last message must not be the assistant's.",
        ),
    ])?;
    let mut w = Writer::with_capacity(request.room());
    let mut refused = None;
    w.object(|w| {
        let mut contents = Contents {
            request,
            target,
            service,
            names: &plan.names,
            losses: &mut losses,
            refused: None,
        };
        contents.write(&turns, w);
        refused = contents.refused;
        plan.write(&mut losses, w);
        w.group("generationConfig", |w| {
            options.limit_sampling(&mut losses);
            let is_lowered = options.limit_tokens(target.traits.max_output);
            options.write(settings, w, &mut losses);
            losses.add_if(is_lowered, Field::MaxTokens);
            write_penalties(
                request,
                Model::read(target.model).takes_penalties(service),
                &mut losses,
                w,
            );
            if let Some(format) = plan.native {
                tools::write_format(
                    format,
                    target.traits.server.response_json_schema,
                    &mut losses,
                    w,
                );
            }
            options.write(thinking, w, &mut losses);
        });
        let fitting = request
            .metadata
            .filter(|_| service == Service::Vertex)
            .and_then(valid_labels);
        losses.add_if(
            fitting.is_none() && request.metadata.is_some_and(|metadata| !is_empty(metadata)),
            Field::Metadata,
        );
        options.write(tier, w, &mut losses);
        w.optional("labels", fitting, Writer::raw);
        options::note_lost_others(request, &mut losses);
    });
    if let Some(refused) = refused {
        return Err(refused);
    }
    let undo = Undo {
        names: plan.names.undo(),
        format_tool: plan.answer.map(|(name, _)| name),
        ..Undo::default()
    };
    Ok(Written::new(w, losses, undo))
}

/// The most stop sequences that Google takes.
const MAX_STOPS: usize = 5;

/// Writes the stop sequences, without empty ones.
fn write_stops(options: &Options<'_>, w: &mut Writer, _: &mut LostFields) {
    let stops = options.request.stop.iter().filter(|stop| !stop.is_empty());
    w.list("stopSequences", stops, |w, stop| w.text(stop));
}

/// The bounds of penalties. Google refuses 2, the upper bound in its documentation.
const PENALTIES: [&str; 2] = ["-2", "1.99"];

/// Writes the penalties, if the model takes any.
fn write_penalties(request: &Request<'_>, takes: bool, losses: &mut LostFields, w: &mut Writer) {
    let penalties = request.penalties;
    for (field, key, penalty) in [
        (
            Field::PresencePenalty,
            "presencePenalty",
            penalties.presence,
        ),
        (
            Field::FrequencyPenalty,
            "frequencyPenalty",
            penalties.frequency,
        ),
    ] {
        if let Some(penalty) = penalty.filter(|penalty| penalty.value != 0.0) {
            let is_kept = takes && write_within(w, key, PENALTIES, penalty);
            losses.add_if(!is_kept, field);
        }
    }
}

/// Writes the settings of thinking. Thoughts are shown if the model can think, unless the caller
/// switches thinking off. Hidden thoughts would cost as much.
fn write_thinking(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    let (request, target) = (options.request, options.target);
    let Some(effort) = request.effort() else {
        if matches!(target.traits.thinking, Thinking::Budget | Thinking::Effort) {
            w.key("thinkingConfig")
                .object(|w| w.key("includeThoughts").bool(true));
        }
        return;
    };
    let (model, can_stop) = (Model::read(target.model), target.traits.thinking_off);
    let (thinking_order, is_other) = match target.traits.thinking {
        Thinking::None | Thinking::Unknown => {
            losses.add_if(
                effort != Effort::None || target.traits.thinking == Thinking::Unknown,
                Field::Effort,
            );
            return;
        }
        Thinking::Budget => {
            let (wanted, is_other) = model.budget(effort, can_stop);
            // The answer needs tokens too. It gets a quarter of those that the caller allows.
            let allowed_tokens = request
                .max_tokens
                .map(|limit| limit.min(target.traits.max_output.unwrap_or(u64::MAX)) / 4 * 3);
            let tokens = wanted.min(allowed_tokens.unwrap_or(u64::MAX));
            match wanted > 0 && tokens < model.least_budget() {
                true => (ThinkingOrder::Nothing, true),
                false => (ThinkingOrder::Tokens(tokens), is_other),
            }
        }
        Thinking::Effort => {
            let (word, is_other) = model.level(effort, can_stop);
            (ThinkingOrder::Word(word), is_other)
        }
    };
    losses.add_if(is_other, Field::Effort);
    if matches!(thinking_order, ThinkingOrder::Nothing) && effort == Effort::None {
        return;
    }
    w.key("thinkingConfig").object(|w| {
        match thinking_order {
            ThinkingOrder::Nothing => {}
            ThinkingOrder::Tokens(tokens) => w.key("thinkingBudget").number(tokens),
            ThinkingOrder::Word(word) => w.key("thinkingLevel").text(word),
        }
        if effort != Effort::None {
            w.key("includeThoughts").bool(true);
        }
    });
}

/// The way in which a model is asked to think.
enum ThinkingOrder {
    /// The model thinks as it likes.
    Nothing,
    Tokens(u64),
    Word(&'static str),
}

/// Returns the request's metadata if it can be labels. Vertex AI takes lower-case letters, digits,
/// `_` and `-`, up to 63 characters. A key begins with a letter.
fn valid_labels(metadata: Raw<'_>) -> Option<&str> {
    let labels = read_members(metadata.0)?;
    let are_labels = (1..=64).contains(&labels.len())
        && labels.iter().all(|(name, value)| {
            is_label(name)
                && name.starts_with(|c: char| c.is_ascii_lowercase())
                && string_value(value).is_some_and(|value| is_label(&value))
        });
    are_labels.then_some(metadata.0)
}

fn is_label(word: &str) -> bool {
    let is_allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    word.len() <= 63 && word.bytes().all(is_allowed)
}

fn is_empty(object: Raw<'_>) -> bool {
    object
        .0
        .bytes()
        .all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

#[cfg(test)]
pub(super) mod tests;
