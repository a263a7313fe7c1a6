//! What the dialects have in common whose messages are the callers' own, one to one:
//! [`cohere`](crate::upstream::cohere), [`ollama`](crate::upstream::ollama).
//!
//! First comes what is refused, then what is lost, so that the writing itself cannot fail. Nothing
//! here knows either dialect.

pub(crate) mod shapes;

use std::borrow::Cow;

use crate::neutral::answered::answered;
use crate::neutral::offer::{Choice, Naming, Offer};
use crate::neutral::traits::{Sampling, Traits};
use crate::neutral::{
    Call, Losses, Media, Message, Number, Part, PartKind, Raw, Refused, Request, Role, Tool, ToolChoice, ToolKind,
    Words,
};
use crate::wire::json::Writer;

/// Refuses what neither dialect can say: several choices, probabilities, sound, and what stands in
/// messages besides text, but for pictures in the user's that are here, or at a URL where the
/// provider fetches those (`urls`).
pub(crate) fn refuse(request: &Request<'_>, traits: &Traits, urls: bool) -> Result<(), Refused> {
    if request.n.is_some_and(|n| n > 1) {
        return Err(Refused::unsupported("n", "This model gives one choice an answer."));
    }
    if request.logprobs || request.top_logprobs.is_some() {
        return Err(Refused::unsupported("logprobs", "This model gives no log probabilities."));
    }
    if request.wants_audio {
        return Err(Refused::unsupported("modalities", "This model answers in text only."));
    }
    answered(request)?;
    if !request.messages.iter().any(speaks) {
        return Err(Refused::unsupported("messages", "This model needs a message that says something."));
    }
    for (index, message) in request.messages.iter().enumerate() {
        if matches!(message.role, Role::Tool | Role::Function) && message.tool_call_id.is_none() {
            return Err(Refused::invalid(
                format!("messages[{index}].tool_call_id"),
                "The result of a tool must name the call that it answers.",
            ));
        }
        for (place, part) in message.content.iter().enumerate() {
            if let Err((field, why)) = carried(message.role, part, traits, urls) {
                return Err(Refused::unsupported(format!("messages[{index}].content[{place}].{field}"), why));
            }
        }
    }
    if !traits.prefill && request.messages.last().is_some_and(|message| message.role == Role::Assistant) {
        return Err(Refused::unsupported("messages", "This model cannot go on from the assistant's own words."));
    }
    Ok(())
}

/// Whether a message says anything: providers refuse those that do not, or their models wonder at
/// them.
pub(crate) fn speaks(message: &Message<'_>) -> bool {
    let has_thought = message.reasoning.as_ref().is_some_and(|text| !text.is_empty());
    matches!(message.role, Role::Tool | Role::Function)
        || !message.content.is_empty()
        || !message.calls.is_empty()
        || has_thought
}

/// Whether a part can be carried; else its field, and why not.
fn carried(role: Role, part: &Part<'_>, traits: &Traits, urls: bool) -> Result<(), (&'static str, &'static str)> {
    let media = match &part.kind {
        PartKind::Text(_) => return Ok(()),
        PartKind::Image(media, _) => media,
        PartKind::Audio(..) => return Err(("input_audio", "This model cannot hear.")),
        PartKind::File(..) => return Err(("file", "This model takes no files.")),
    };
    let why = match (media, role) {
        _ if !traits.images => "This model cannot see pictures.",
        (Media::Id(_), _) => "This provider knows no uploaded files.",
        (_, Role::System | Role::Developer | Role::Assistant | Role::Tool | Role::Function) => {
            "This provider takes pictures in the user's messages only."
        }
        (Media::Url(_), Role::User) if !urls => "This provider takes pictures as `data:` URLs only.",
        (Media::Url(_), Role::User) if !media.is_web() => {
            "This provider takes pictures as `data:` URLs, or from https:// and http:// only."
        }
        (Media::Url(_) | Media::Inline(..), Role::User) => return Ok(()),
    };
    Err(("image_url", why))
}

/// Names what neither dialect can say and what it can do without.
pub(crate) fn lost(request: &Request<'_>, losses: &mut Losses) {
    for message in &request.messages {
        of_message(message, request.words, losses);
    }
    if request.tools.iter().any(|tool| tool.cache.is_some()) {
        losses.add("cache_control");
    }
    if request.parallel_tool_calls == Some(false) && !request.tools.is_empty() {
        losses.add("parallel_tool_calls");
    }
    if request.user.is_some() {
        losses.add(request.words.user);
    }
    if request.metadata.is_some() {
        losses.add("metadata");
    }
    if request.service_tier.as_ref().is_some_and(|tier| !matches!(&**tier, "auto" | "default")) {
        losses.add("service_tier");
    }
    for (name, _) in &request.others {
        losses.add_written("", name);
    }
}

fn of_message(message: &Message<'_>, words: Words, losses: &mut Losses) {
    // The name of a function is said by its result.
    if message.name.is_some() && !matches!(message.role, Role::Tool | Role::Function) {
        losses.add("messages[].name");
    }
    if message.cache.is_some() || message.content.iter().any(|part| part.cache.is_some()) {
        losses.add("cache_control");
    }
    // Signatures are another provider's, and without it worth nothing.
    if !message.thoughts.is_empty() {
        losses.add(words.thoughts);
    }
    if message.calls.iter().any(|call| call.signature.is_some()) {
        losses.add("messages[].tool_calls[].extra_content");
    }
    for call in message.calls.iter().filter(|call| call.object().is_none()) {
        losses.add(call.weakened());
    }
    for name in &message.others {
        losses.add_written("messages[].", name);
    }
}

/// Decides which tools are shown and which must be called. A choice among tools is made by showing
/// no others.
pub(crate) fn offer<'r, 'a>(request: &'r Request<'a>, traits: &Traits) -> Result<Offer<'r, 'a>, Refused> {
    let is_function = |tool: &Tool<'_>| matches!(tool.kind, ToolKind::Function(..));
    let must_not_call = request.tool_choice == Some(ToolChoice::None);
    if !must_not_call {
        if let Some(index) = request.tools.iter().position(|tool| !is_function(tool)) {
            return Err(Refused::unsupported(
                format!("tools[{index}]"),
                "This provider knows tools of type `function` only.",
            ));
        }
        if !traits.tools && !request.tools.is_empty() {
            return Err(Refused::unsupported(request.words.tools, "This model knows no tools."));
        }
    }
    let mut offer = Offer::of(request, traits, Naming::None, "This model cannot be made to call a tool.")?;
    if must_not_call {
        offer.tools.retain(|tool| traits.tools && is_function(tool));
        if offer.tools.is_empty() {
            offer.choice = Choice::Free;
        }
    }
    Ok(offer)
}

/// Returns the parameters of a tool, which must be said even if there are none.
pub(crate) fn parameters<'a>(tool: &Tool<'a>) -> Raw<'a> {
    match tool.kind {
        ToolKind::Function(Some(schema), _) => schema,
        ToolKind::Function(None, _) | ToolKind::Custom | ToolKind::Other => Raw(r#"{"type":"object","properties":{}}"#),
    }
}

/// Writes a function that may be called.
pub(crate) fn write_tool(w: &mut Writer, name: &str, description: Option<&str>, parameters: Raw<'_>) {
    w.object(|w| {
        w.key("type").text("function");
        w.key("function").object(|w| {
            w.key("name").text(name);
            if let Some(description) = description {
                w.key("description").text(description);
            }
            w.key("parameters").raw(parameters.0);
        });
    });
}

/// Whether a tool's calls must keep to its parameters.
pub(crate) fn is_strict(tool: &Tool<'_>) -> bool {
    matches!(tool.kind, ToolKind::Function(_, Some(true)))
}

/// The arguments of a call, as an object: what is none is wrapped in one.
pub(crate) fn arguments<'c>(call: &'c Call<'_>) -> Cow<'c, str> {
    match call.object() {
        Some(object) => Cow::Borrowed(object),
        None => Cow::Owned(format!(r#"{{"_raw":{}}}"#, crate::wire::json::quote(&call.arguments))),
    }
}

/// The texts of a message as one.
pub(crate) fn text<'m>(content: &'m [Part<'_>]) -> Cow<'m, str> {
    let mut texts = content.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) => Some(&**text),
        PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => None,
    });
    let Some(first) = texts.next() else { return Cow::Borrowed("") };
    let Some(second) = texts.next() else { return Cow::Borrowed(first) };
    let mut joined = format!("{first}\n{second}");
    for text in texts {
        joined.push('\n');
        joined.push_str(text);
    }
    Cow::Owned(joined)
}

/// The most tokens to ask for.
pub(crate) fn max_tokens(
    request: &Request<'_>,
    default: Option<u64>,
    traits: &Traits,
    losses: &mut Losses,
) -> Option<u64> {
    let asked = request.max_tokens.or(default)?;
    let allowed = traits.max_output.map_or(asked, |most| asked.min(most));
    if allowed < asked && request.max_tokens.is_some() {
        losses.add(request.words.max_tokens);
    }
    Some(allowed)
}

/// `temperature` and `top_p`, as far as the model lets them be said.
pub(crate) fn sampling<'a>(
    request: &Request<'a>,
    traits: &Traits,
    losses: &mut Losses,
) -> (Option<Number<'a>>, Option<Number<'a>>) {
    let (temperature, top_p) = match traits.sampling {
        Sampling::Both => (request.temperature, request.top_p),
        Sampling::One => (request.temperature, request.top_p.filter(|_| request.temperature.is_none())),
        Sampling::Neither => (None, None),
    };
    if temperature != request.temperature {
        losses.add("temperature");
    }
    if top_p != request.top_p {
        losses.add("top_p");
    }
    (temperature, top_p)
}

/// Whether an upstream's words say that the prompt is longer than the model can read.
pub(crate) fn is_overflow(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let any = |list: &[&str]| list.iter().any(|word| words.contains(word));
    any(&["prompt too long", "prompt is too long"])
        || any(&["context length", "context window", "context size"])
            && any(&["exceed", "too long", "larger", "maximum", "limit"])
}

#[cfg(test)]
mod tests;
