//! This module writes a request for the Messages API.

use super::blocks::{Blocks, Breakpoints, media_source};
use super::tools;
use crate::neutral::{Field, FieldRefused, LostFields, Request, Target, Written, turns};
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
use crate::upstream::shared::options::{self, Options, Row, Words, differs_from_default};
use crate::wire::json::Writer;

/// The options that are refused, those that are written, and those that are lost.
pub(super) const OPTIONS: [&[Row]; 5] = options::table([
    REFUSED,
    &[(Field::MaxTokens, UnderKey("max_tokens"))],
    &[
        (Field::Temperature, Within("temperature", BOUNDS)),
        (Field::TopP, Within("top_p", BOUNDS)),
        (Field::TopK, UnderKey("top_k")),
        (
            Field::Stop,
            WrittenBy(|options, w, losses| write_stops(options, "stop_sequences", w, losses)),
        ),
        (Field::User, WrittenBy(write_user)),
        (Field::ServiceTier, Translated("service_tier", TIERS)),
        (Field::Effort, Elsewhere),
    ],
    LOST_NUMBERS,
    &[(Field::Metadata, Lost)],
]);

const TIERS: Words = &[
    ("auto", Some("auto")),
    ("default", Some("standard_only")),
    ("standard_only", Some("standard_only")),
];

/// Writes a request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    let mut options = Options::new(request, target);
    refuse_unsupported(&options, true, |kind| {
        media_source(kind).map(|source| source.is_image())
    })?;
    let mut losses = LostFields::default();
    let turns = turns::group_turns(request, target.kept, &mut losses);
    let refusal = "Claude needs a user message that is not empty.";
    let mut conversation = Conversation::read(request, &turns, traits, refusal, &mut losses)?;

    let mut thinking = Thinking::decide(request, target, &mut losses)?;
    if !traits.server.output_config {
        thinking.leave_out_effort(&mut losses);
    }
    conversation.check_thoughts(&mut thinking, &mut losses);
    let stubs = tools::stub_names(request, &mut losses);
    let situation = Situation {
        api: tools::API,
        traits,
        conversation: &conversation,
        stubs,
    };
    let tools = Tools::decide(request, situation, &mut thinking, &mut losses)?;
    let may_think = thinking.may_be_on(traits);
    conversation.sends_thoughts = may_think && conversation.has_thoughts();
    losses.add_if(
        !may_think && conversation.has_callers_thoughts(),
        Field::Thoughts,
    );

    options.max_tokens = Some(thinking.max_tokens);
    options.thinks = thinking.is_on();
    restrict_sampling(&mut options, &mut losses);
    let [_, max_tokens, settings, lost_numbers, lost] = OPTIONS;
    let mut headers = Vec::new();
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        options.write(max_tokens, w, &mut losses);
        if target.stream {
            w.key("stream").bool(true);
        }
        options.write(settings, w, &mut losses);
        thinking.write(
            w,
            conversation.sends_thoughts && traits.bound_thoughts,
            &mut headers,
        );
        tools::write_output(w, &tools, thinking.effort);
        let mut breakpoints = Breakpoints::select(
            tools.cache_hints() + conversation.cache_hints(),
            &mut losses,
        );
        tools::write_tools(w, &tools, request, &mut breakpoints, &mut losses);
        conversation.write(
            w,
            tools.hint,
            &mut Blocks {
                names: &tools.names,
                breakpoints,
                losses: &mut losses,
            },
        );
    });
    options.note_lost(lost_numbers, &mut losses);
    options.note_lost(lost, &mut losses);
    note_lost_others(request, &mut losses);
    Ok(Written {
        body: w.into_bytes(),
        losses,
        headers,
        undo: tools.undo(),
    })
}

/// Leaves out defaults, and the numbers that the model does not allow.
fn restrict_sampling(options: &mut Options<'_>, losses: &mut LostFields) {
    options.temperature = options
        .temperature
        .filter(|number| differs_from_default(*number));
    options.top_p = options.top_p.filter(|number| differs_from_default(*number));
    options.restrict_temperature(losses);
    options.restrict_top_k(losses);
    options.restrict_top_p(losses);
}

/// Writes the end user, unless the name is longer than the API takes.
fn write_user(options: &Options<'_>, w: &mut Writer, losses: &mut LostFields) {
    match &options.request.user {
        Some(user) if user.chars().count() > 256 => losses.add(Field::User),
        Some(user) if !user.is_empty() => w.key("metadata").object(|w| w.key("user_id").text(user)),
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests;
