//! A flat dialect is a dialect in which each message of the caller becomes one message:
//! [`cohere`](crate::upstream::cohere) and [`ollama`](crate::upstream::ollama). This module has the
//! code that they share.
//!
//! Refusals come first and losses second, so that the writing itself cannot fail. Nothing here
//! knows either dialect.

pub(crate) mod shapes;

use std::borrow::Cow;

use crate::neutral::answered::check_calls_answered;
use crate::neutral::offer::{Choice, Naming, Offer};
use crate::neutral::traits::Traits;
use crate::neutral::{
    Call, Field, FieldRefused, LazyText, LostFields, Media, Message, Part, PartKind, Raw, Request,
    Role, Tool, ToolChoice, ToolKind,
};
use crate::upstream::shared::options::Rule::{Lost, Refused, Translated};
use crate::upstream::shared::options::{self, Options, Row, Words};
use crate::wire::json::Writer;

/// The options that neither dialect has, and without which an answer would be another one.
pub(crate) const REFUSED: &[Row] = &[
    (Field::Choices, Refused(options::ONE_CHOICE)),
    (
        Field::Logprobs,
        Refused("This model does not report log probabilities."),
    ),
    (Field::Audio, Refused("This model answers in text only.")),
];

/// The options that neither dialect has, and without which the answer is still useful.
pub(crate) const LOST: &[Row] = &[
    (Field::User, Lost),
    (Field::Metadata, Lost),
    (Field::ServiceTier, Translated("", TIERS)),
];

/// The tiers that need no word.
const TIERS: Words = &[("auto", None), ("default", None)];

/// Refuses requests that neither dialect can send: several choices, probabilities, sound, and
/// content of messages other than text and a user's pictures. A picture must be in the request, or
/// at a URL if the provider fetches URLs (`urls`).
pub(crate) fn refuse_unsupported(options: &Options<'_>, urls: bool) -> Result<(), FieldRefused> {
    options.check(REFUSED)?;
    let (request, traits) = (options.request, &options.target.traits);
    check_calls_answered(request)?;
    if !request.messages.iter().any(has_content) {
        return Err(FieldRefused::unsupported(
            Field::Messages,
            "This model needs a message that is not empty.",
        ));
    }
    for (index, message) in request.messages.iter().enumerate() {
        if message.role.is_result() && message.tool_call_id.is_none() {
            return Err(FieldRefused::invalid(
                Field::CallId(index),
                "A tool message must name the call that it answers (`tool_call_id`).",
            ));
        }
        for (part_index, part) in message.content.iter().enumerate() {
            if let Err(why) = check_part(message.role, part, traits, urls) {
                return Err(FieldRefused::unsupported(
                    Field::Part(index, part_index),
                    why,
                ));
            }
        }
    }
    if !traits.prefill
        && request
            .messages
            .last()
            .is_some_and(|message| message.role == Role::Assistant)
    {
        return Err(FieldRefused::unsupported(
            Field::Messages,
            "This model does not continue an assistant message.",
        ));
    }
    Ok(())
}

/// Returns whether a message has any content. Providers refuse messages without content, or their
/// models answer them badly.
pub(crate) fn has_content(message: &Message<'_>) -> bool {
    let has_thought = message
        .reasoning
        .as_ref()
        .is_some_and(|text| !text.is_empty());
    message.role.is_result()
        || !message.content.is_empty()
        || !message.calls.is_empty()
        || has_thought
}

/// Checks that a part can be sent. The error is the reason why it cannot.
fn check_part(
    role: Role,
    part: &Part<'_>,
    traits: &Traits,
    urls: bool,
) -> Result<(), &'static str> {
    let media = match &part.kind {
        PartKind::Text(_) => return Ok(()),
        PartKind::Image(media, _) => media,
        PartKind::Audio(..) => return Err("This model does not accept audio."),
        PartKind::File(..) => return Err("This model does not accept files."),
    };
    let why = match (media, role) {
        _ if !traits.images => "This model does not accept pictures.",
        (Media::Id(_), _) => "This provider does not accept ids of files. Send the picture itself.",
        (_, Role::System | Role::Developer | Role::Assistant | Role::Tool | Role::Function) => {
            "This provider accepts pictures in the user's messages only."
        }
        (Media::Url(_), Role::User) if !urls => {
            "This provider accepts pictures as `data:` URLs only."
        }
        (Media::Url(_), Role::User) if !media.is_web() => {
            "This provider accepts pictures as `data:`, https:// and http:// URLs only."
        }
        (Media::Url(_) | Media::Inline(..), Role::User) => return Ok(()),
    };
    Err(why)
}

/// Notes the fields that neither dialect can send, and without which the answer is still useful.
pub(crate) fn note_losses(options: &Options<'_>, losses: &mut LostFields) {
    let request = options.request;
    request
        .messages
        .iter()
        .for_each(|message| note_message_losses(message, losses));
    options::note_lost_cache_hints(request, losses);
    losses.add_if(
        request.parallel_tool_calls == Some(false) && !request.tools.is_empty(),
        Field::ParallelCalls,
    );
    options.note_lost(LOST, losses);
    options::note_lost_others(request, losses);
}

fn note_message_losses(message: &Message<'_>, losses: &mut LostFields) {
    let is_result = message.role.is_result();
    let has_signed_call = message.calls.iter().any(|call| call.signature.is_some());
    // A result has the name of its function.
    losses.add_if(message.name.is_some() && !is_result, Field::ParticipantName);
    // Signatures are another provider's. A thought without its signature has no value.
    losses.add_if(!message.thoughts.is_empty(), Field::Thoughts);
    losses.add_if(has_signed_call, Field::CallSignature);
    for call in message.calls.iter().filter(|call| call.object().is_none()) {
        losses.add(call.weakened());
    }
    message.note_others(losses);
}

/// Decides which tools are shown and which must be called. To choose some tools, only these are
/// shown.
pub(crate) fn choose_tools<'r, 'a>(
    request: &'r Request<'a>,
    traits: &Traits,
) -> Result<Offer<'r, 'a>, FieldRefused> {
    let is_function = |tool: &Tool<'_>| matches!(tool.kind, ToolKind::Function(..));
    let must_not_call = request.tool_choice == Some(ToolChoice::None);
    if !must_not_call {
        let other = request.tools.iter().position(|tool| !is_function(tool));
        let field = Field::Tool(other.unwrap_or_default());
        FieldRefused::any([
            (
                other.is_some(),
                field,
                "This provider supports tools of type `function` only.",
            ),
            (
                !traits.tools && !request.tools.is_empty(),
                Field::Tools,
                "This model does not support tools.",
            ),
        ])?;
    }
    let mut offer = Offer::decide(
        request,
        traits,
        Naming::None,
        "This model cannot be forced to call a tool.",
    )?;
    if must_not_call {
        offer.tools.retain(|tool| traits.tools && is_function(tool));
        if offer.tools.is_empty() {
            offer.choice = Choice::Free;
        }
    }
    Ok(offer)
}

/// Returns the parameters of a tool. They must be there even if they are empty.
pub(crate) fn tool_parameters<'t>(tool: &'t Tool<'_>) -> Raw<'t> {
    match &tool.kind {
        ToolKind::Function(Some(schema), _) => Raw(schema),
        ToolKind::Function(None, _) | ToolKind::Custom | ToolKind::Other => {
            Raw(r#"{"type":"object","properties":{}}"#)
        }
    }
}

/// Writes a function that may be called.
pub(crate) fn write_tool(
    w: &mut Writer,
    name: &str,
    description: Option<&LazyText<'_>>,
    parameters: Raw<'_>,
) {
    w.object(|w| {
        w.key("type").text("function");
        w.key("function").object(|w| {
            w.key("name").text(name);
            w.optional("description", description, |w, about| about.write(w));
            w.key("parameters").raw(parameters.0);
        });
    });
}

/// Returns whether the calls of a tool must match its parameters exactly.
pub(crate) fn is_strict(tool: &Tool<'_>) -> bool {
    matches!(tool.kind, ToolKind::Function(_, Some(true)))
}

/// Returns the arguments of a call as an object. Arguments that are no object are put into one.
pub(crate) fn object_arguments<'c>(call: &'c Call<'_>) -> Cow<'c, str> {
    match call.object() {
        Some(object) => Cow::Borrowed(object),
        None => Cow::Owned(format!(
            r#"{{"_raw":{}}}"#,
            crate::wire::json::quote_string(&call.arguments)
        )),
    }
}

/// Returns whether an upstream's message is about a prompt that is too long for the model.
pub(crate) fn is_overflow(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let any = |list: &[&str]| list.iter().any(|word| words.contains(word));
    any(&["prompt too long", "prompt is too long"])
        || any(&["context length", "context window", "context size"])
            && any(&["exceed", "too long", "larger", "maximum", "limit"])
}

#[cfg(test)]
mod tests;
