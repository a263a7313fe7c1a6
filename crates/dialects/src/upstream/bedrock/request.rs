//! A request in Converse's words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::blocks::{Blocks, CachePoints, Source, source};
use super::models::Family;
use super::tools::{Offers, Situation};
use crate::neutral::traits::{Sampling, Thinking as Kind};
use crate::neutral::turns::{self, Item, Thoughts, Turn, Turns};
use crate::neutral::{Losses, Number, PartKind, Raw, Refused, Request, Role, Target, ToolChoice, Written};
use crate::upstream::anthropic::alternation::{self, is_blank};
use crate::upstream::anthropic::names::Names;
use crate::upstream::anthropic::refuse::refuse;
use crate::upstream::anthropic::schema;
use crate::upstream::anthropic::thinking::Thinking;
use crate::wire::json::Writer;

/// Writes a request. Which model it is for, and whether it streams, is in the path.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, Refused> {
    let traits = &target.traits;
    let may_call = request.tool_choice != Some(ToolChoice::None);
    refuse(request, traits, may_call, |kind| source(kind).map(|source| matches!(source, Source::Image(..))))?;
    let family = Family::of(target.model, traits);
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
        return Err(Refused::unsupported("messages", "This model needs a message of the user that says something."));
    }
    if as_user {
        losses.add("messages[].role");
    }
    if prefilled && !traits.prefill {
        let last = request.messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or_default();
        let param = format!("messages[{last}]");
        return Err(Refused::unsupported(
            param,
            "This model does not go on from words of the assistant: the user must speak last.",
        ));
    }

    let names = Names::of(request);
    let mut thinking = Thinking::of(request, target, &mut losses)?;
    // Anthropic's own words are understood by Claudes only.
    let is_own = family != Family::Claude && request.others.iter().any(|(name, _)| name == "thinking");
    if is_own && (thinking.is_on() || thinking.is_off()) {
        thinking.leave_out(&mut losses);
    }
    let calling = sides.clone().rfind(|side| side.has_calls());
    if thinking.needs_thoughts() && (prefilled || calling.is_some_and(|side| !side.begins_with_thoughts())) {
        thinking.leave_out(&mut losses);
    }
    let situation = Situation { family, has_calls: calling.is_some(), prefilled, names: &names };
    let offers = Offers::of(request, target, &situation, &mut thinking, &mut losses)?;
    // Newer models refuse thoughts out of their place, unless they are told to drop them by a
    // header that this API does not have.
    let may_think = thinking.is_on() || (!thinking.is_off() && matches!(traits.thinking, Kind::Effort | Kind::Unknown));
    let takes_thoughts = may_think && family.signs() && !traits.bound_thoughts;
    let says_thoughts =
        || turns.iter().flat_map(|turn| &turn.items).any(|item| matches!(item, Item::Thoughts(Thoughts::Said(_))));
    if !takes_thoughts && says_thoughts() {
        losses.add(request.words.thoughts);
    }

    let of_tools = if family == Family::Claude { offers.cache_points() } else { 0 };
    let points = of_tools + system.iter().filter(|part| part.cache.is_some()).count() + cached(&spoken);
    let mut points = CachePoints::of(points, family, &mut losses);
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        let is_strict = traits.structured && family == Family::Claude;
        if offers.any() {
            w.key("toolConfig").object(|w| offers.write_tools(w, &situation, is_strict, &mut points, &mut losses));
        }
        let mut blocks = Blocks {
            ids: ids.into_iter(),
            names: &names,
            points,
            thoughts: takes_thoughts,
            documents: BTreeMap::new(),
            losses: &mut losses,
        };
        let said: &[_] = if as_user { &[] } else { &system };
        if !said.is_empty() || offers.hint.is_some() {
            w.key("system").array(|w| {
                said.iter().for_each(|part| blocks.system(w, part));
                if let Some(hint) = offers.hint {
                    w.object(|w| w.key("text").text(hint));
                }
            });
        }
        w.key("messages").array(|w| {
            if as_user {
                w.object(|w| {
                    w.key("role").text("user");
                    w.key("content").array(|w| system.iter().for_each(|part| blocks.system(w, part)));
                });
            }
            if begins_alone {
                w.raw(r#"{"role":"user","content":[{"text":"."}]}"#);
            }
            while let Some(side) = sides.next() {
                blocks.message(w, side, sides.peek().is_none());
            }
        });
        let dial = Dial::of(request, target, family, &thinking, &mut losses);
        member(w, "inferenceConfig", |w| dial.write_inference(w, request, &mut losses));
        member(w, "outputConfig", |w| {
            offers.write_output(w);
            dial.write_output(w);
        });
        member(w, "additionalModelRequestFields", |w| dial.write_more(w, &thinking));
        describe(w, request, &mut losses);
    });
    let mut written = Written { body: w.into_bytes(), losses, ..Written::default() };
    written.undo.stubs = offers.stubs();
    written.undo.format_tool = offers.format_tool;
    written.undo.names = names.into_changed();
    lose_others(request, family, &mut written.losses);
    Ok(written)
}

/// An object that is only there if there is something in it.
fn member(w: &mut Writer, key: &'static str, inside: impl FnOnce(&mut Writer)) {
    let mut object = Writer::default();
    object.object(inside);
    let object = String::from_utf8(object.into_bytes()).unwrap_or_default();
    if object != "{}" {
        w.key(key).raw(&object);
    }
}

/// What is said of the options of the answer, as far as the model lets it be said.
struct Dial<'r> {
    family: Family,
    max_tokens: Option<u64>,
    temperature: Option<Number<'r>>,
    top_p: Option<Number<'r>>,
    top_k: Option<u64>,
    effort: Option<&'static str>,
}

impl<'r> Dial<'r> {
    fn of(
        request: &Request<'r>,
        target: &Target<'_>,
        family: Family,
        thinking: &Thinking<'_>,
        losses: &mut Losses,
    ) -> Self {
        // Silence is the most that the model can say, which a budget must be less than.
        let is_bounded = family == Family::Claude && thinking.is_bounded();
        let says_most = request.max_tokens.is_some()
            || target.default_max_tokens.is_some()
            || thinking.needs_thoughts()
            || is_bounded;
        let mut dial = Self {
            family,
            max_tokens: says_most.then(|| thinking.max_tokens()),
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            effort: thinking.effort(),
        };
        let in_output_config = matches!(family, Family::Claude | Family::Mistral | Family::Other);
        if !target.traits.server.output_config && in_output_config && dial.effort.take().is_some() {
            losses.add("reasoning_effort");
        }
        dial.sample(target.traits.sampling, family == Family::Claude && thinking.is_on(), losses);
        let takes_top_k = matches!(family, Family::Claude | Family::Nova | Family::Nova2);
        if !takes_top_k && dial.top_k.take().is_some() {
            losses.add("top_k");
        }
        let can_be_off = matches!(family, Family::Claude | Family::Nova | Family::Nova2);
        if thinking.is_off() && !can_be_off {
            losses.add("reasoning_effort");
        }
        // Nova's highest effort goes with neither of them.
        let is_bound = dial.max_tokens.is_some() || dial.temperature.is_some() || dial.top_p.is_some();
        if family == Family::Nova2 && dial.effort == Some("high") && is_bound {
            losses.add("reasoning_effort");
            dial.effort = Some("medium");
        }
        dial
    }

    /// Leaves out what the model refuses; a default is no loss.
    fn sample(&mut self, sampling: Sampling, thinks: bool, losses: &mut Losses) {
        let mut lose = |name: &'static str, number: &mut Option<Number<'_>>, is_lost: bool| {
            if is_lost && number.take().is_some_and(|number| number.value != 1.0) {
                losses.add(name);
            }
        };
        let neither = sampling == Sampling::Neither || thinks;
        lose("temperature", &mut self.temperature, neither);
        let excludes = |top_p: f64| match sampling {
            Sampling::Neither => true,
            Sampling::One if self.temperature.is_some() => true,
            Sampling::One | Sampling::Both => thinks && top_p < 0.95,
        };
        let is_lost = self.top_p.is_some_and(|top_p| excludes(top_p.value));
        lose("top_p", &mut self.top_p, is_lost);
        if neither && self.top_k.take().is_some() {
            losses.add("top_k");
        }
    }

    fn write_inference(&self, w: &mut Writer, request: &Request<'_>, losses: &mut Losses) {
        if let Some(max_tokens) = self.max_tokens {
            w.key("maxTokens").number(max_tokens);
        }
        for (key, name, number) in [("temperature", "temperature", self.temperature), ("topP", "top_p", self.top_p)] {
            let Some(number) = number else { continue };
            match number.value {
                ..0.0 => w.key(key).number(0),
                0.0..=1.0 => w.key(key).raw(number.text),
                _ => w.key(key).number(1),
            }
            if !(0.0..=1.0).contains(&number.value) {
                losses.add(name);
            }
        }
        let (stops, empty): (Vec<_>, Vec<_>) = request.stop.iter().partition(|stop| !is_blank(stop));
        if !empty.is_empty() {
            losses.add("stop");
        }
        if !stops.is_empty() {
            w.key("stopSequences").array(|w| stops.into_iter().for_each(|stop| w.text(stop)));
        }
    }

    fn write_output(&self, w: &mut Writer) {
        match self.family {
            Family::Claude | Family::Mistral | Family::Other => {
                if let Some(effort) = self.effort {
                    w.key("effort").text(effort);
                }
            }
            // Theirs has a name of its own.
            Family::Nova2 | Family::Nova | Family::OpenAi => {}
        }
    }

    /// What only this family's models take.
    fn write_more(&self, w: &mut Writer, thinking: &Thinking<'_>) {
        match self.family {
            Family::Claude => {
                if let Some(top_k) = self.top_k {
                    w.key("top_k").number(top_k);
                }
                thinking.write(w, false, &mut Vec::new());
            }
            Family::Nova | Family::Nova2 => {
                if let Some(top_k) = self.top_k {
                    w.key("inferenceConfig").object(|w| w.key("topK").number(top_k));
                }
                if thinking.is_off() {
                    w.key("reasoningConfig").raw(r#"{"type":"disabled"}"#);
                } else if let Some(effort) = self.effort {
                    w.key("reasoningConfig").object(|w| {
                        w.key("type").text("enabled");
                        w.key("maxReasoningEffort").text(effort);
                    });
                }
            }
            Family::OpenAi => {
                if let Some(effort) = self.effort {
                    w.key("reasoning_effort").text(effort);
                }
            }
            Family::Mistral | Family::Other => {}
        }
    }
}

/// In which tier, and what the provider's log is told.
fn describe(w: &mut Writer, request: &Request<'_>, losses: &mut Losses) {
    match request.service_tier.as_deref() {
        None | Some("auto" | "default") => {}
        Some(tier @ ("priority" | "flex" | "reserved")) => w.key("serviceTier").object(|w| w.key("type").text(tier)),
        Some(_) => losses.add("service_tier"),
    }
    if let Some(Raw(metadata)) = request.metadata {
        match labels(metadata) {
            Some(labels) if labels.is_empty() => {}
            Some(labels) => {
                w.key("requestMetadata").object(|w| labels.iter().for_each(|(name, value)| w.name(name).text(value)))
            }
            None => losses.add("metadata"),
        }
    }
}

/// Names and values, if all of them may be there.
fn labels(metadata: &str) -> Option<Vec<(Cow<'_, str>, Cow<'_, str>)>> {
    let is_label = |text: &str| {
        text.len() <= 256 && text.chars().all(|c| c.is_ascii_alphanumeric() || " \t\n\r:_@$#=/+,-.".contains(c))
    };
    let labels: Option<Vec<_>> =
        schema::members(metadata)?.into_iter().map(|(name, value)| Some((name, schema::string(value)?))).collect();
    labels.filter(|labels| {
        labels.len() <= 16 && labels.iter().all(|(name, value)| !name.is_empty() && is_label(name) && is_label(value))
    })
}

/// What cannot be said to anybody here.
fn lose_others(request: &Request<'_>, family: Family, losses: &mut Losses) {
    let speaks = |number: &Option<Number<'_>>| number.is_some_and(|number| number.value != 0.0);
    let lost = [
        ("frequency_penalty", speaks(&request.frequency_penalty)),
        ("presence_penalty", speaks(&request.presence_penalty)),
        ("seed", request.seed.is_some()),
        (request.words.user, request.user.is_some()),
    ];
    for (name, _) in lost.into_iter().filter(|(_, is_lost)| *is_lost) {
        losses.add(name);
    }
    for (name, _) in &request.others {
        // A Claude's fate of it is decided where it is read.
        if name == "thinking" && family == Family::Claude {
            continue;
        }
        losses.add_written("", name);
    }
}

/// How many hints for the cache are in the messages.
fn cached(spoken: &[&Turn<'_, '_>]) -> usize {
    let has_one = |item: &&Item<'_, '_>| match item {
        Item::Part(part) => part.cache.is_some() && !matches!(&part.kind, PartKind::Text(text) if is_blank(text)),
        Item::Result(outcome) => outcome.cache.is_some(),
        Item::Thoughts(_) | Item::Call(..) => false,
    };
    spoken.iter().flat_map(|turn| &turn.items).filter(has_one).count()
}

#[cfg(test)]
mod tests;
