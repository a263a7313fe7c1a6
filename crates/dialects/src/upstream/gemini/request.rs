//! The request: what is said of it elsewhere ([`super::contents`], [`super::tools`]), and how the
//! answer is to be made.

use super::contents::{self, Contents};
use super::tools::{self, Plan};
use super::{Service, models};
use crate::neutral::answered::answered;
use crate::neutral::traits::{Sampling, Thinking};
use crate::neutral::turns::turns;
use crate::neutral::{Effort, Losses, Number, Raw, Refused, Request, Target, Undo, Written};
use crate::wire::json::{Cursor, Kind, Writer, slice, text_of};

/// Writes a request for the Gemini API.
pub fn request(request: &Request<'_>, target: &Target<'_>) -> Result<Written, Refused> {
    write(request, target, Service::Gemini)
}

/// Writes a request for either service.
pub(super) fn write(request: &Request<'_>, target: &Target<'_>, service: Service) -> Result<Written, Refused> {
    refuse(request)?;
    let mut losses = Losses::default();
    answered(request)?;
    let plan = Plan::of(request, target, &mut losses)?;
    let mut turns = turns(request, target.kept, &mut losses);
    contents::prune(&mut turns, request.words, &mut losses);
    if turns.turns.is_empty() && turns.system.is_empty() {
        return Err(Refused::unsupported("messages", "this model needs a message that says something"));
    }
    if !target.traits.prefill && turns.turns.last().is_some_and(|turn| turn.is_assistant) {
        return Err(Refused::unsupported("messages", "with this model, the last message must not be the assistant's"));
    }
    let mut w = Writer::with_capacity(request.room());
    let mut refused = None;
    w.object(|w| {
        let mut contents =
            Contents { request, target, service, names: &plan.names, losses: &mut losses, refused: None };
        contents.write(&turns, w);
        refused = contents.refused;
        plan.write(&mut losses, w);
        let config = config(request, target, service, &plan, &mut losses);
        if config != b"{}" {
            w.key("generationConfig").raw(std::str::from_utf8(&config).unwrap_or("{}"));
        }
        if let Some(tier) = request.service_tier.as_deref().filter(|tier| matches!(*tier, "flex" | "priority")) {
            w.key("serviceTier").text(tier);
        }
        if let Some(labels) = request.metadata.filter(|_| service == Service::Vertex).and_then(labels) {
            w.key("labels").raw(labels);
        }
    });
    if let Some(refused) = refused {
        return Err(refused);
    }
    say_losses(request, service, &mut losses);
    let format_tool = plan.answer.map(|(name, _)| name);
    Ok(Written {
        body: w.into_bytes(),
        headers: Vec::new(),
        losses,
        undo: Undo { names: plan.names.undo(), format_tool, stubs: Vec::new() },
    })
}

/// Google takes so many stop sequences,
const MAX_STOPS: usize = 5;
/// and so many candidates.
const MAX_CANDIDATES: u64 = 8;

/// Refuses what would mean something else if it were left out.
fn refuse(request: &Request<'_>) -> Result<(), Refused> {
    if request.wants_audio {
        return Err(Refused::unsupported("modalities", "this model is asked for text only, not for audio"));
    }
    if request.logprobs || request.top_logprobs.is_some() {
        return Err(Refused::unsupported("logprobs", "log probabilities are not available from this model"));
    }
    if request.n.is_some_and(|n| n > MAX_CANDIDATES) {
        return Err(Refused::unsupported("n", "this model gives at most eight choices"));
    }
    if request.stop.len() > MAX_STOPS {
        return Err(Refused::unsupported("stop", "this model takes at most five stop sequences"));
    }
    Ok(())
}

/// How the answer is to be made.
fn config(
    request: &Request<'_>,
    target: &Target<'_>,
    service: Service,
    plan: &Plan<'_, '_>,
    losses: &mut Losses,
) -> Vec<u8> {
    let mut w = Writer::with_capacity(256);
    w.object(|w| {
        sampling(request, target, losses, w);
        if let Some(n) = request.n.filter(|n| *n > 1) {
            w.key("candidateCount").number(n);
        }
        if let Some(limit) = limit(request, target, losses) {
            w.key("maxOutputTokens").number(limit);
        }
        if request.stop.iter().any(|stop| !stop.is_empty()) {
            w.key("stopSequences")
                .array(|w| request.stop.iter().filter(|stop| !stop.is_empty()).for_each(|stop| w.text(stop)));
        }
        match request.seed.map(i32::try_from) {
            Some(Ok(seed)) => w.key("seed").raw(&seed.to_string()),
            Some(Err(_)) => losses.add("seed"),
            None => {}
        }
        let penalties = [
            ("presence_penalty", "presencePenalty", request.presence_penalty),
            ("frequency_penalty", "frequencyPenalty", request.frequency_penalty),
        ];
        for (ours, theirs, penalty) in penalties {
            match penalty {
                Some(penalty) if penalty.value == 0.0 => {}
                // The upper bound is said to be out of bounds.
                Some(penalty) if models::takes_penalties(target.model, service) => {
                    bounded(ours, theirs, penalty, ("-2", "1.99"), losses, w)
                }
                Some(_) => losses.add(ours),
                None => {}
            }
        }
        if let Some(format) = plan.native {
            tools::write_format(format, target.traits.server.response_json_schema, losses, w);
        }
        thinking(request, target, losses, w);
    });
    w.into_bytes()
}

fn sampling(request: &Request<'_>, target: &Target<'_>, losses: &mut Losses, w: &mut Writer) {
    let (temperature, top_p) = match target.traits.sampling {
        Sampling::Both => (true, true),
        Sampling::One => (true, request.temperature.is_none()),
        Sampling::Neither => (false, false),
    };
    match request.temperature {
        Some(value) if temperature => bounded("temperature", "temperature", value, ("0", "2"), losses, w),
        Some(_) => losses.add("temperature"),
        None => {}
    }
    match request.top_p {
        Some(value) if top_p => bounded("top_p", "topP", value, ("0", "1"), losses, w),
        Some(_) => losses.add("top_p"),
        None => {}
    }
    match request.top_k {
        Some(0) => losses.add("top_k"),
        Some(value) => w.key("topK").number(value),
        None => {}
    }
}

/// Writes a number, or the bound that it is beyond.
fn bounded(
    ours: &'static str,
    theirs: &'static str,
    number: Number<'_>,
    (least, most): (&str, &str),
    losses: &mut Losses,
    w: &mut Writer,
) {
    let value = |bound: &str| bound.parse().unwrap_or(number.value);
    let text = match () {
        () if number.value < value(least) => least,
        () if number.value > value(most) => most,
        () => number.text,
    };
    if text != number.text {
        losses.add(ours);
    }
    w.key(theirs).raw(text);
}

fn limit(request: &Request<'_>, target: &Target<'_>, losses: &mut Losses) -> Option<u64> {
    let limit = request.max_tokens.or(target.default_max_tokens)?;
    let most = target.traits.max_output.unwrap_or(u64::MAX);
    if request.max_tokens.is_some_and(|limit| limit > most) {
        losses.add(request.words.max_tokens);
    }
    Some(limit.min(most))
}

/// Thoughts are shown where a model can think, unless it is asked not to: they cost the same
/// unseen.
fn thinking(request: &Request<'_>, target: &Target<'_>, losses: &mut Losses, w: &mut Writer) {
    let Some(effort) = request.effort else {
        match target.traits.thinking {
            Thinking::Budget | Thinking::Effort => {
                w.key("thinkingConfig").object(|w| w.key("includeThoughts").bool(true))
            }
            Thinking::None | Thinking::Unknown => {}
        }
        return;
    };
    let can_stop = target.traits.thinking_off;
    let (said, is_other) = match target.traits.thinking {
        Thinking::None | Thinking::Unknown => {
            if effort != Effort::None || target.traits.thinking == Thinking::Unknown {
                losses.add("reasoning_effort");
            }
            return;
        }
        Thinking::Budget => {
            let (wanted, is_other) = models::budget(target.model, effort, can_stop);
            // An answer needs tokens too: a quarter of those that the caller allows.
            let most = request.max_tokens.map(|limit| limit.min(target.traits.max_output.unwrap_or(u64::MAX)) / 4 * 3);
            let tokens = wanted.min(most.unwrap_or(u64::MAX));
            match wanted > 0 && tokens < models::least_budget(target.model) {
                true => (Said::Nothing, true),
                false => (Said::Tokens(tokens), is_other),
            }
        }
        Thinking::Effort => {
            let (word, is_other) = models::level(target.model, effort, can_stop);
            (Said::Word(word), is_other)
        }
    };
    if is_other {
        losses.add("reasoning_effort");
    }
    if matches!(said, Said::Nothing) && effort == Effort::None {
        return;
    }
    w.key("thinkingConfig").object(|w| {
        match said {
            Said::Nothing => {}
            Said::Tokens(tokens) => w.key("thinkingBudget").number(tokens),
            Said::Word(word) => w.key("thinkingLevel").text(word),
        }
        if effort != Effort::None {
            w.key("includeThoughts").bool(true);
        }
    });
}

/// How a model is told to think.
enum Said {
    /// As it likes.
    Nothing,
    Tokens(u64),
    Word(&'static str),
}

/// The request's metadata, if it can be labels: Vertex takes lower-case letters, digits, `_` and
/// `-`, 63 of them, keys with a letter first.
fn labels(metadata: Raw<'_>) -> Option<&str> {
    let text = metadata.0.as_bytes();
    let mut fit = true;
    let is_plain = |word: &str| {
        word.len() <= 63
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
    };
    let mut count = 0;
    let read = Cursor::new(text).object(|cursor, key| {
        let key = text_of(text, &key).unwrap_or_default();
        fit &= is_plain(&key) && key.starts_with(|c: char| c.is_ascii_lowercase());
        fit &= cursor.kind()? == Kind::String;
        let value = cursor.value()?;
        fit &= is_plain(&text_of(text, &value).unwrap_or_default()) || slice(text, &value) == br#""""#;
        count += 1;
        Ok(())
    });
    (read.is_ok() && fit && (1..=64).contains(&count)).then_some(metadata.0)
}

/// What has no place in a request to Google.
fn say_losses(request: &Request<'_>, service: Service, losses: &mut Losses) {
    if request.user.is_some() {
        losses.add(request.words.user);
    }
    if let Some(metadata) = request.metadata
        && !is_empty(metadata)
        && (service == Service::Gemini || labels(metadata).is_none())
    {
        losses.add("metadata");
    }
    if request
        .service_tier
        .as_deref()
        .is_some_and(|tier| !matches!(tier, "auto" | "default" | "standard" | "flex" | "priority"))
    {
        losses.add("service_tier");
    }
    for (name, _) in &request.others {
        losses.add_written("", name);
    }
}

fn is_empty(object: Raw<'_>) -> bool {
    object.0.bytes().all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

#[cfg(test)]
pub(super) mod tests;
