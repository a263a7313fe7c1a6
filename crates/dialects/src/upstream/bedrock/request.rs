//! A request in Converse's words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::blocks::{Blocks, CachePoints, Source, source};
use super::models::Family;
use super::tools;
use crate::neutral::traits::Sampling;
use crate::neutral::{Losses, Number, Raw, Refused, Request, Target, ToolChoice, Written, schema, turns};
use crate::upstream::claude::conversation::Conversation;
use crate::upstream::claude::fields::{lose_others, write_share, write_stops};
use crate::upstream::claude::refuse::refuse;
use crate::upstream::claude::thinking::Thinking;
use crate::upstream::claude::tools::{Situation, Tools};
use crate::wire::json::Writer;

/// Writes a request. Which model it is for, and whether it streams, is in the path.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, Refused> {
    let traits = &target.traits;
    let may_call = request.tool_choice != Some(ToolChoice::None);
    refuse(request, traits, may_call, |kind| source(kind).map(|source| matches!(source, Source::Image(..))))?;
    let family = Family::of(target.model, traits);
    let mut losses = Losses::default();
    let turns = turns::turns(request, target.kept, &mut losses);
    let refusal = "This model needs a message of the user that says something.";
    let mut conversation = Conversation::of(request, &turns, traits, refusal, &mut losses)?;

    let mut thinking = Thinking::of(request, target, &mut losses)?;
    // Anthropic's own words are understood by Claudes only.
    let is_own = family != Family::Claude && request.others.iter().any(|(name, _)| name == "thinking");
    if is_own && (thinking.is_on() || thinking.is_off()) {
        thinking.leave_out(&mut losses);
    }
    conversation.check_thoughts(&mut thinking, &mut losses);
    let (has_calls, prefilled) = (conversation.has_calls(), conversation.is_prefilled());
    let situation = Situation { api: tools::api(family), traits, has_calls, prefilled, stubs: Vec::new() };
    let mut tools = Tools::of(request, situation, &mut thinking, &mut losses)?;
    tools::complete(&mut tools, request, has_calls, &mut losses);
    // Newer models refuse thoughts out of their place, unless they are told to drop them by a
    // header that this API does not have.
    conversation.sends_thoughts = thinking.may_be_on(traits) && family.signs() && !traits.bound_thoughts;
    if !conversation.sends_thoughts && conversation.has_callers_thoughts() {
        losses.add(request.words.thoughts);
    }

    let of_tools = if family == Family::Claude { tools.cache_hints() } else { 0 };
    let mut points = CachePoints::of(of_tools + conversation.cache_hints(), family, &mut losses);
    let mut w = Writer::with_capacity(request.room());
    w.object(|w| {
        if tools.any() {
            w.key("toolConfig").object(|w| tools::write_tools(w, &tools, &mut points, &mut losses));
        }
        let documents = BTreeMap::new();
        let mut blocks = Blocks { names: &tools.names, points, documents, losses: &mut losses };
        conversation.write(w, tools.hint, &mut blocks);
        let dial = Dial::of(request, target, family, &thinking, &mut losses);
        member(w, "inferenceConfig", |w| dial.write_inference(w, request, &mut losses));
        member(w, "outputConfig", |w| {
            tools::write_output(w, &tools);
            dial.write_output(w);
        });
        member(w, "additionalModelRequestFields", |w| dial.write_more(w, &thinking));
        describe(w, request, &mut losses);
    });
    // A Claude's fate of `thinking` is decided where it is read.
    lose_others(request, (request.words.user, request.user.is_some()), family == Family::Claude, &mut losses);
    Ok(Written { body: w.into_bytes(), losses, headers: Vec::new(), undo: tools.undo() })
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

/// What is said of the manner of the answer, as far as the model lets it be said.
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
            if let Some(number) = number {
                write_share(w, key, number, name, losses);
            }
        }
        write_stops(w, "stopSequences", &request.stop, losses);
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

#[cfg(test)]
mod tests;
