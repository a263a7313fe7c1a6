//! This module writes a request for the Messages API.

use super::blocks::{Blocks, Breakpoints, media_source};
use super::tools;
use crate::neutral::traits::Traits;
use crate::neutral::{Field, FieldRefused, LostFields, Request, Target, Written, turns};
use crate::upstream::claude::conversation::Conversation;
use crate::upstream::claude::fields::{Dials, is_meant, lose_numbers, lose_others, write_stops};
use crate::upstream::claude::refuse::refuse_unsupported;
use crate::upstream::claude::thinking::Thinking;
use crate::upstream::claude::tools::{Situation, Tools};
use crate::upstream::shared::options;
use crate::wire::json::Writer;

/// Writes a request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, FieldRefused> {
    let traits = &target.traits;
    refuse_unsupported(request, traits, true, |kind| {
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

    let mut headers = Vec::new();
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("max_tokens").number(thinking.max_tokens);
        if target.stream {
            w.key("stream").bool(true);
        }
        write_sampling(w, request, traits, thinking.is_on(), &mut losses);
        write_stops_and_user(w, request, &mut losses);
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
    lose_numbers(request, &mut losses);
    losses.add_if(request.metadata.is_some(), Field::Metadata);
    lose_others(request, &mut losses);
    Ok(Written {
        body: w.into_bytes(),
        losses,
        headers,
        undo: tools.undo(),
    })
}

/// Writes `temperature`, `top_p` and `top_k`, as far as the model allows them. A default is not
/// written.
fn write_sampling(
    w: &mut Writer,
    request: &Request<'_>,
    traits: &Traits,
    thinks: bool,
    losses: &mut LostFields,
) {
    let temperature = request.temperature.filter(|number| is_meant(*number));
    let top_p = request.top_p.filter(|number| is_meant(*number));
    let mut dials = Dials {
        temperature,
        top_p,
        top_k: request.top_k,
    };
    dials.restrict_temperature(traits.sampling, thinks, losses);
    dials.restrict_top_k(traits.sampling, thinks, losses);
    dials.restrict_top_p(traits.sampling, thinks, losses);
    dials.write(w, ["temperature", "top_p"], losses);
    w.optional("top_k", dials.top_k, Writer::number);
}

/// Writes the stop sequences, the user, and the service tier.
fn write_stops_and_user(w: &mut Writer, request: &Request<'_>, losses: &mut LostFields) {
    write_stops(w, "stop_sequences", &request.stop, losses);
    match &request.user {
        // The API's own limit.
        Some(user) if user.chars().count() > 256 => losses.add(Field::User),
        Some(user) if !user.is_empty() => w.key("metadata").object(|w| w.key("user_id").text(user)),
        Some(_) | None => {}
    }
    w.optional(
        "service_tier",
        options::service_tier(request, &TIERS, losses),
        Writer::text,
    );
}

const TIERS: [(&str, Option<&str>); 3] = [
    ("auto", Some("auto")),
    ("default", Some("standard_only")),
    ("standard_only", Some("standard_only")),
];

#[cfg(test)]
mod tests;
