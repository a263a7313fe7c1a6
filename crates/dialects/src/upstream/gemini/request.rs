//! This module writes the request. The conversation and the tools are in [`super::contents`] and
//! [`super::tools`]; the settings of the answer are here.

use super::Service;
use super::contents::{self, Contents};
use super::models::Model;
use super::tools::{self, Plan};
use crate::neutral::answered::check_calls_answered;
use crate::neutral::schema::{read_members, string_value};
use crate::neutral::traits::Thinking;
use crate::neutral::turns::{Turns, group_turns};
use crate::neutral::{
    Effort, Field, FieldRefused, LostFields, Raw, Request, Target, Undo, Written,
};
use crate::upstream::shared::options::Rule::{
    AtMost, Elsewhere, Lost, Refused, Translated, UnderKey, Within, WithinOrLost, WrittenBy,
};
use crate::upstream::shared::options::{self, Options, Row, Words, write_within};
use crate::wire::json::Writer;

/// The options in four groups, in the order in which they are written: those that are refused,
/// those of `generationConfig`, those after the format of the answer, and those outside of
/// `generationConfig`.
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
        // `Within` moves a number into its bounds; `WithinOrLost` leaves out one that is outside.
        (Field::Temperature, Within("temperature", ["0", "2"])),
        (Field::TopP, Within("topP", ["0", "1"])),
        (Field::TopK, WithinOrLost("topK", [1, i64::MAX])),
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
            WithinOrLost("seed", [i32::MIN as i64, i32::MAX as i64]),
        ),
        // Written by `write_penalties`: not every model takes them.
        (Field::PresencePenalty, Elsewhere),
        (Field::FrequencyPenalty, Elsewhere),
    ],
    &[
        (Field::Effort, WrittenBy(write_thinking)),
        (Field::User, Lost),
        // Written as `labels`, which only Vertex AI takes.
        (Field::Metadata, Elsewhere),
    ],
    &[(Field::ServiceTier, Translated("serviceTier", TIERS))],
]);

/// The words of `service_tier`, and Google's. A word with `None` means Google's default, and is not
/// written.
const TIERS: Words = &[
    ("auto", None),
    ("default", None),
    ("standard", None),
    ("flex", Some("flex")),
    ("priority", Some("priority")),
];

/// The most stop sequences that Google takes.
const MAX_STOPS: usize = 5;

/// The bounds of penalties. Google refuses 2, the upper bound in its documentation.
const PENALTIES: [&str; 2] = ["-2", "1.99"];

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
    let [refused_options, settings, _, tier] = OPTIONS;
    let mut options = Options::new(request, target);
    options.check(refused_options)?;
    options.check(settings)?;
    check_stops(request)?;
    let mut losses = LostFields::default();
    check_calls_answered(request)?;
    let plan = Plan::decide(request, target, &mut losses)?;
    let mut turns = group_turns(request, target.kept, &mut losses);
    contents::remove_thoughts(&mut turns, &mut losses);
    check_turns(&turns, target)?;
    let mut w = Writer::with_capacity(request.room());
    // What writes inside of an object returns nothing, so the refusal of a part is kept until the
    // body is written.
    let mut refused_part = None;
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
        refused_part = contents.refused;
        plan.write(&mut losses, w);
        w.group("generationConfig", |w| {
            write_generation_config(&mut options, &plan, service, &mut losses, w);
        });
        let labels = fitting_labels(request, service, &mut losses);
        options.write(tier, w, &mut losses);
        w.optional("labels", labels, Writer::raw);
        options::note_lost_others(request, &mut losses);
    });
    if let Some(refused) = refused_part {
        return Err(refused);
    }
    let undo = Undo {
        names: plan.names.undo(),
        format_tool: plan.answer.map(|(name, _)| name),
        ..Undo::default()
    };
    Ok(Written::new(w, losses, undo))
}

/// Refuses more stop sequences than Google takes.
fn check_stops(request: &Request<'_>) -> Result<(), FieldRefused> {
    FieldRefused::any([(
        filled_stops(request).count() > MAX_STOPS,
        Field::Stop,
        "This model accepts at most five stop sequences.",
    )])
}

/// Returns the stop sequences that are written: all but empty ones.
fn filled_stops<'r>(request: &'r Request<'_>) -> impl Iterator<Item = &'r str> {
    let stops = request.stop.iter().map(|stop| &**stop);
    stops.filter(|stop| !stop.is_empty())
}

/// Refuses a conversation that the model does not take.
fn check_turns(turns: &Turns<'_, '_>, target: &Target<'_>) -> Result<(), FieldRefused> {
    let is_empty_conversation = turns.turns.is_empty() && turns.system.is_empty();
    let ends_with_assistant = turns.turns.last().is_some_and(|turn| turn.is_assistant);
    FieldRefused::any([
        (
            is_empty_conversation,
            Field::Messages,
            "This model needs a message that is not empty.",
        ),
        (
            ends_with_assistant && !target.traits.prefill,
            Field::Messages,
            "This model does not continue an assistant message: the last message must not be the assistant's.",
        ),
    ])
}

/// Writes the settings of the answer, and its format.
fn write_generation_config(
    options: &mut Options<'_>,
    plan: &Plan<'_, '_>,
    service: Service,
    losses: &mut LostFields,
    w: &mut Writer,
) {
    let [_, settings, thinking, _] = OPTIONS;
    let (request, target) = (options.request, options.target);
    options.limit_sampling(losses);
    let is_lowered = options.limit_tokens(target.traits.max_output);
    options.write(settings, w, losses);
    losses.add_if(is_lowered, Field::MaxTokens);
    let takes_penalties = Model::read(target.model).takes_penalties(service);
    write_penalties(request, takes_penalties, losses, w);
    if let Some(format) = plan.native {
        let in_json_schema = target.traits.server.response_json_schema;
        tools::write_format(format, in_json_schema, losses, w);
    }
    options.write(thinking, w, losses);
}

/// Writes the stop sequences.
fn write_stops(options: &Options<'_>, w: &mut Writer, _: &mut LostFields) {
    let stops = filled_stops(options.request);
    w.list("stopSequences", stops, |w, stop| w.text(stop));
}

/// Writes the penalties, if the model takes any.
fn write_penalties(
    request: &Request<'_>,
    takes_penalties: bool,
    losses: &mut LostFields,
    w: &mut Writer,
) {
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
            let is_kept = takes_penalties && write_within(w, key, PENALTIES, penalty);
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
    let Some((order, differs)) = thinking_order(request, target, effort) else {
        // This model cannot be told how to think. If it never thinks, it does what `none` asks for.
        let never_thinks = target.traits.thinking == Thinking::None;
        losses.add_if(effort != Effort::None || !never_thinks, Field::Effort);
        return;
    };
    losses.add_if(differs, Field::Effort);
    // The smallest thinking does not fit, and none was wanted: nothing is written, and the model
    // decides.
    if matches!(order, ThinkingOrder::ModelsDefault) && effort == Effort::None {
        return;
    }
    w.key("thinkingConfig").object(|w| {
        match order {
            ThinkingOrder::ModelsDefault => {}
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
    ModelsDefault,
    /// At most so many tokens of thinking.
    Tokens(u64),
    /// A level of thinking, by Google's word.
    Word(&'static str),
}

/// Returns the way in which the model is asked to think, and whether that differs from the effort.
/// Returns `None` if it cannot be asked.
fn thinking_order(
    request: &Request<'_>,
    target: &Target<'_>,
    effort: Effort,
) -> Option<(ThinkingOrder, bool)> {
    let (model, can_stop) = (Model::read(target.model), target.traits.thinking_off);
    match target.traits.thinking {
        Thinking::None | Thinking::Unknown => None,
        Thinking::Budget => {
            let (wanted, differs) = model.budget(effort, can_stop);
            // The answer needs tokens too: it keeps a quarter of those that the caller allows.
            let allowed_tokens = request
                .max_tokens
                .map(|limit| limit.min(target.traits.max_output.unwrap_or(u64::MAX)) / 4 * 3);
            let tokens = wanted.min(allowed_tokens.unwrap_or(u64::MAX));
            if wanted > 0 && tokens < model.least_budget() {
                Some((ThinkingOrder::ModelsDefault, true))
            } else {
                Some((ThinkingOrder::Tokens(tokens), differs))
            }
        }
        Thinking::Effort => {
            let (word, differs) = model.level(effort, can_stop);
            Some((ThinkingOrder::Word(word), differs))
        }
    }
}

/// Returns the request's metadata if it is written as labels. Any other metadata is lost.
fn fitting_labels<'r>(
    request: &'r Request<'_>,
    service: Service,
    losses: &mut LostFields,
) -> Option<&'r str> {
    let metadata = request.metadata?;
    let labels = match service {
        Service::Vertex => valid_labels(metadata),
        Service::Gemini => None,
    };
    let is_lost = labels.is_none() && !is_empty_object(metadata);
    losses.add_if(is_lost, Field::Metadata);
    labels
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

fn is_empty_object(object: Raw<'_>) -> bool {
    object
        .0
        .bytes()
        .all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

#[cfg(test)]
pub(super) mod tests;
