//! A request in Claude's words.

use super::alternation::{self, is_blank};
use super::blocks::{Blocks, Breakpoints, source};
use super::names::Names;
use super::refuse::refuse;
use super::thinking::Thinking;
use super::tools::Offers;
use crate::neutral::traits::{Sampling, Thinking as Kind, Traits};
use crate::neutral::turns::{self, Item, Thoughts, Turn, Turns};
use crate::neutral::{Losses, Number, Part, PartKind, Refused, Request, Role, Target, Written};
use crate::wire::json::Writer;

/// Writes a request.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, Refused> {
    refuse(request, &target.traits, true, |kind| source(kind).map(|source| source.is_image()))?;
    let mut losses = Losses::default();
    let Turns { system, turns } = turns::turns(request, target.kept, &mut losses);
    let spoken = alternation::spoken(&turns);
    let ids = alternation::ids(request, &spoken)?;
    let mut sides = alternation::sides(&spoken).peekable();
    let begins_alone = sides.peek().is_some_and(|side| side.is_assistant);
    let prefilled = sides.clone().next_back().is_some_and(|side| side.is_assistant);
    let system: Vec<_> =
        system.into_iter().filter(|part| !matches!(&part.kind, PartKind::Text(text) if is_blank(text))).collect();
    // Somebody must speak: where only the system does, the user says it.
    let as_user = spoken.is_empty();
    if as_user && system.is_empty() {
        return Err(Refused::unsupported("messages", "Claude needs a message of the user that says something."));
    }
    if as_user {
        losses.add("messages[].role");
    }
    if prefilled && !target.traits.prefill {
        let last = request.messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or_default();
        return Err(Refused::unsupported(
            format!("messages[{last}]"),
            "This model does not go on from words of the assistant: the user must speak last.",
        ));
    }

    let names = Names::of(request);
    let mut thinking = Thinking::of(request, target, &mut losses)?;
    if !target.traits.server.output_config {
        thinking.leave_out_effort(&mut losses);
    }
    let calling = sides.clone().rfind(|side| side.has_calls());
    if thinking.needs_thoughts() && (prefilled || calling.is_some_and(|side| !side.begins_with_thoughts())) {
        thinking.leave_out(&mut losses);
    }
    let offers = Offers::of(request, target, &names, prefilled, &mut thinking, &mut losses)?;
    let thoughts = || turns.iter().flat_map(|turn| &turn.items).filter(|item| matches!(item, Item::Thoughts(_)));
    let may_think =
        thinking.is_on() || (!thinking.is_off() && matches!(target.traits.thinking, Kind::Effort | Kind::Unknown));
    let sends_thoughts = may_think && thoughts().next().is_some();
    if !may_think && thoughts().any(|item| matches!(item, Item::Thoughts(Thoughts::Said(_)))) {
        losses.add(request.words.thoughts);
    }

    let breakpoints =
        offers.breakpoints() + system.iter().filter(|part| part.cache.is_some()).count() + cached(&spoken);
    let mut written = Written::default();
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        w.key("model").text(target.model);
        w.key("max_tokens").number(thinking.max_tokens());
        if target.stream {
            w.key("stream").bool(true);
        }
        sample(w, request, &target.traits, &thinking, &mut losses);
        describe(w, request, &mut losses);
        thinking.write(w, sends_thoughts && target.traits.bound_thoughts, &mut written.headers);
        offers.write_output(w, thinking.effort());
        let mut breakpoints = Breakpoints::of(breakpoints, &mut losses);
        offers.write_tools(w, &names, &target.traits, &mut breakpoints, &mut losses);
        let mut blocks =
            Blocks { ids: ids.into_iter(), names: &names, breakpoints, thoughts: sends_thoughts, losses: &mut losses };
        write_system(w, if as_user { &[] } else { &system }, offers.hint, &mut blocks);
        w.key("messages").array(|w| {
            if as_user {
                w.object(|w| {
                    w.key("role").text("user");
                    w.key("content").array(|w| {
                        system.iter().for_each(|part| blocks.part(w, &part.kind, part.cache.as_ref(), false))
                    });
                });
            }
            if begins_alone {
                w.raw(r#"{"role":"user","content":[{"type":"text","text":"."}]}"#);
            }
            while let Some(side) = sides.next() {
                blocks.message(w, side, sides.peek().is_none());
            }
        });
    });
    written.undo.stubs = offers.stubs(&names);
    written.undo.format_tool = offers.format_tool().map(str::to_owned);
    written.undo.names = names.into_changed();
    lose_others(request, &mut losses);
    Ok(Written { body: w.into_bytes(), losses, ..written })
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
        match number.value {
            ..0.0 => w.key(name).number(0),
            0.0..=1.0 => w.key(name).raw(number.text),
            _ => w.key(name).number(1),
        }
        lose(name, !(0.0..=1.0).contains(&number.value));
    }
    if let Some(top_k) = top_k {
        w.key("top_k").number(top_k);
    }
}

/// Where to stop, for whom this is, and in which tier.
fn describe(w: &mut Writer, request: &Request<'_>, losses: &mut Losses) {
    let (blank, stops): (Vec<_>, Vec<_>) = request.stop.iter().partition(|stop| is_blank(stop));
    if !blank.is_empty() {
        losses.add("stop");
    }
    if !stops.is_empty() {
        w.key("stop_sequences").array(|w| stops.into_iter().for_each(|stop| w.text(stop)));
    }
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

fn write_system(w: &mut Writer, system: &[&Part<'_>], hint: Option<&'static str>, blocks: &mut Blocks<'_, '_>) {
    if system.is_empty() && hint.is_none() {
        return;
    }
    w.key("system").array(|w| {
        for part in system {
            blocks.part(w, &part.kind, part.cache.as_ref(), false);
        }
        if let Some(hint) = hint {
            w.object(|w| {
                w.key("type").text("text");
                w.key("text").text(hint);
            });
        }
    });
}

/// What no Claude takes.
fn lose_others(request: &Request<'_>, losses: &mut Losses) {
    let speaks = |number: &Option<Number<'_>>| number.is_some_and(|number| number.value != 0.0);
    let lost = [
        ("frequency_penalty", speaks(&request.frequency_penalty)),
        ("presence_penalty", speaks(&request.presence_penalty)),
        ("seed", request.seed.is_some()),
        ("metadata", request.metadata.is_some()),
    ];
    lost.into_iter().filter(|(_, is_lost)| *is_lost).for_each(|(name, _)| losses.add(name));
    for (name, _) in &request.others {
        // The fate of `thinking` is decided where it is read.
        if name != "thinking" {
            losses.add_written("", name);
        }
    }
}

/// How many hints for the cache are in the messages.
fn cached(spoken: &[&Turn<'_, '_>]) -> usize {
    let has_one = |item: &&Item<'_, '_>| match item {
        Item::Part(part) => part.cache.is_some(),
        Item::Result(outcome) => outcome.cache.is_some(),
        Item::Thoughts(_) | Item::Call(..) => false,
    };
    alternation::sides(spoken).flat_map(alternation::Side::items).filter(has_one).count()
}

#[cfg(test)]
mod tests;
