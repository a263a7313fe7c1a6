//! A request in Claude's words.

use super::blocks::{Blocks, Breakpoints, source};
use super::tools;
use crate::neutral::traits::{Sampling, Traits};
use crate::neutral::{Losses, Number, Refused, Request, Target, Written, turns};
use crate::upstream::claude::conversation::Conversation;
use crate::upstream::claude::fields::{lose_others, write_share, write_stops};
use crate::upstream::claude::refuse::refuse;
use crate::upstream::claude::thinking::Thinking;
use crate::upstream::claude::tools::{Situation, Tools};
use crate::wire::json::Writer;

/// Writes a request.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, Refused> {
    let traits = &target.traits;
    refuse(request, traits, true, |kind| source(kind).map(|source| source.is_image()))?;
    let mut losses = Losses::default();
    let turns = turns::turns(request, target.kept, &mut losses);
    let refusal = "Claude needs a message of the user that says something.";
    let mut conversation = Conversation::of(request, &turns, traits, refusal, &mut losses)?;

    let mut thinking = Thinking::of(request, target, &mut losses)?;
    if !traits.server.output_config {
        thinking.leave_out_effort(&mut losses);
    }
    conversation.check_thoughts(&mut thinking, &mut losses);
    let situation = Situation {
        api: tools::API,
        traits,
        has_calls: conversation.has_calls(),
        prefilled: conversation.is_prefilled(),
        stubs: tools::stubs(request, &mut losses),
    };
    let tools = Tools::of(request, situation, &mut thinking, &mut losses)?;
    let may_think = thinking.may_be_on(traits);
    conversation.sends_thoughts = may_think && conversation.has_thoughts();
    if !may_think && conversation.has_callers_thoughts() {
        losses.add(request.words.thoughts);
    }

    let mut breakpoints = Breakpoints::of(tools.cache_hints() + conversation.cache_hints(), &mut losses);
    let mut headers = Vec::new();
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("max_tokens").number(thinking.max_tokens());
        if target.stream {
            w.key("stream").bool(true);
        }
        sample(w, request, traits, &thinking, &mut losses);
        describe(w, request, &mut losses);
        thinking.write(w, conversation.sends_thoughts && traits.bound_thoughts, &mut headers);
        tools::write_output(w, &tools, thinking.effort());
        tools::write_tools(w, &tools, request, &mut breakpoints, &mut losses);
        conversation.write(w, tools.hint, &mut Blocks { names: &tools.names, breakpoints, losses: &mut losses });
    });
    // The fate of `thinking` is decided where it is read.
    lose_others(request, ("metadata", request.metadata.is_some()), true, &mut losses);
    Ok(Written { body: w.into_bytes(), losses, headers, undo: tools.undo() })
}

/// Temperature and the like, as far as the model lets them be said. A default needs not be.
fn sample(w: &mut Writer, request: &Request<'_>, traits: &Traits, thinking: &Thinking<'_>, losses: &mut Losses) {
    let is_said = |number: &&Number<'_>| number.value != 1.0;
    let mut temperature = request.temperature.as_ref().filter(is_said);
    let mut top_p = request.top_p.as_ref().filter(is_said);
    let mut top_k = request.top_k;
    let mut lose = |name: &'static str, is_lost: bool| {
        if is_lost {
            losses.add(name);
        }
        is_lost
    };
    let neither = traits.sampling == Sampling::Neither;
    if (neither || thinking.is_on()) && lose("temperature", temperature.is_some()) {
        temperature = None;
    }
    if (neither || thinking.is_on()) && lose("top_k", top_k.is_some()) {
        top_k = None;
    }
    let excludes = |top_p: f64| match traits.sampling {
        Sampling::Neither => true,
        Sampling::One if temperature.is_some() => true,
        Sampling::One | Sampling::Both => thinking.is_on() && top_p < 0.95,
    };
    if lose("top_p", top_p.is_some_and(|top_p| excludes(top_p.value))) {
        top_p = None;
    }
    for (name, number) in [("temperature", temperature), ("top_p", top_p)] {
        let Some(number) = number else { continue };
        write_share(w, name, *number, name, losses);
    }
    if let Some(top_k) = top_k {
        w.key("top_k").number(top_k);
    }
}

/// Where to stop, for whom this is, and in which tier.
fn describe(w: &mut Writer, request: &Request<'_>, losses: &mut Losses) {
    write_stops(w, "stop_sequences", &request.stop, losses);
    match &request.user {
        // The API's own limit.
        Some(user) if user.chars().count() > 256 => losses.add(request.words.user),
        Some(user) if !user.is_empty() => w.key("metadata").object(|w| w.key("user_id").text(user)),
        Some(_) | None => {}
    }
    match request.service_tier.as_deref() {
        Some("auto") => w.key("service_tier").text("auto"),
        Some("default" | "standard_only") => w.key("service_tier").text("standard_only"),
        Some(_) => losses.add("service_tier"),
        None => {}
    }
}

#[cfg(test)]
mod tests;
