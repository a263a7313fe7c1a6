//! The texts of a message, and where a prompt cache may end. The hints of other formats, such as
//! `cache_control` of Messages, are `prompt_cache_breakpoint` here, at models that know it: in
//! texts, pictures and files of all but the assistant. The others are lost, and named.

use crate::neutral::traits::Traits;
use crate::neutral::{Cache, Field, LazyText, LostFields, Message, Part, PartKind, Request, Role};
use crate::upstream::shared::options;
use crate::wire::json::Writer;

/// How long OpenAI keeps a prompt at least. The hint of a shorter time is no loss.
const SHORT_TIMES: [&str; 2] = ["5m", "30m"];

/// Returns whether a model of this name knows breakpoints: GPT-5.6, and newer models.
pub(crate) fn knows_breakpoints(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gpt-") else {
        return false;
    };
    let version = version.split('-').next().unwrap_or(version);
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    match (major.parse::<u32>(), minor.parse::<u32>()) {
        (Ok(major), Ok(minor)) => (major, minor) >= (5, 6),
        (_, _) => false,
    }
}

/// Notes the hints that the request for this model has no field for.
pub(super) fn note_lost_hints(request: &Request<'_>, traits: &Traits, losses: &mut LostFields) {
    if !traits.cache_breakpoints {
        return options::note_lost_cache_hints(request, losses);
    }
    let is_lost = request.messages.iter().any(loses_hint)
        || request.tools.iter().any(|tool| tool.cache.is_some());
    losses.add_if(is_lost, Field::CacheHint);
}

/// Returns whether a message has a hint in a place where this model takes none.
fn loses_hint(message: &Message<'_>) -> bool {
    let is_lost = |part: &Part<'_>| part.cache.is_some() && !can_have_hint(message.role, part);
    let is_result = message.role.is_result();
    message.content.iter().any(is_lost) || message.cache.is_some() && !is_result
}

/// Returns the hint of a part, if this model gets it.
pub(super) fn hint_of<'p>(
    part: &'p Part<'_>,
    role: Role,
    traits: &Traits,
) -> Option<&'p Cache<'p>> {
    part.cache
        .as_ref()
        .filter(|_| traits.cache_breakpoints && can_have_hint(role, part))
}

fn can_have_hint(role: Role, part: &Part<'_>) -> bool {
    role != Role::Assistant && !matches!(part.kind, PartKind::Audio(..))
}

/// Writes the member of a part that has a hint.
pub(super) fn write_breakpoint(w: &mut Writer, hint: Option<&Cache<'_>>, losses: &mut LostFields) {
    let Some(hint) = hint else { return };
    let is_other_time = hint
        .ttl
        .as_deref()
        .is_some_and(|ttl| !SHORT_TIMES.contains(&ttl));
    losses.add_if(is_other_time, Field::CacheHint);
    w.key("prompt_cache_breakpoint")
        .object(|w| w.texts([("mode", "explicit")]));
}

/// Writes the texts of a content: as one, or as parts of this type if one of them has a hint. A
/// hint on the whole of a result stands at its last text.
pub(super) fn write_content(
    w: &mut Writer,
    message: &Message<'_>,
    traits: &Traits,
    part_type: &'static str,
    losses: &mut LostFields,
) {
    let texts = || message.content.iter().filter(|part| !is_media_part(part));
    let of_whole = message.cache.as_ref().filter(|_| traits.cache_breakpoints);
    let has_hint =
        of_whole.is_some() || texts().any(|part| hint_of(part, message.role, traits).is_some());
    let count = texts().count();
    if !has_hint || count == 0 {
        return write_texts(w, &message.content);
    }
    w.array(|w| {
        for (index, part) in texts().enumerate() {
            let of_whole = of_whole.filter(|_| index + 1 == count);
            let PartKind::Text(text) = &part.kind else {
                continue;
            };
            w.object(|w| {
                w.texts([("type", part_type)]);
                text.write(w.key("text"));
                write_breakpoint(w, hint_of(part, message.role, traits).or(of_whole), losses);
            });
        }
    });
}

pub(super) fn is_media_part(part: &Part<'_>) -> bool {
    !matches!(part.kind, PartKind::Text(_))
}

/// Writes the texts of a content as one.
pub(super) fn write_texts(w: &mut Writer, content: &[Part<'_>]) {
    let texts = content.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) => Some(text),
        PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => None,
    });
    LazyText::write_joined(texts, "\n\n", w);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{Dialect, Translate};
    use crate::front::{Front, MESSAGES, RESPONSES};
    use crate::neutral::Endpoint;
    use crate::upstream::{anthropic, openai};

    fn chat() -> Dialect {
        Dialect::from(&openai::PROTOCOL)
    }

    fn responses() -> Dialect {
        chat().for_endpoint(Endpoint::Responses)
    }

    /// Writes a request for a model with the traits of its name. Returns the request, and the
    /// losses.
    fn written(
        dialect: Dialect,
        model: &str,
        front: &'static Front,
        body: &Value,
    ) -> (Value, String) {
        let body = Bytes::from(body.to_string());
        let envelope = front.envelope(&body).expect("a request");
        let traits = (dialect.protocol.traits)(model);
        let said = dialect
            .write(&Translate {
                traits,
                ..Translate::new(&body, &envelope, model)
            })
            .expect("written");
        let sent: Value = serde_json::from_slice(&said.body.concat()).expect("JSON");
        (sent, said.losses.names().join(" "))
    }

    #[test]
    fn newer_models_of_openai_know_breakpoints() {
        for (model, expected) in [
            ("gpt-5.6", true),
            ("gpt-5.6-mini", true),
            ("gpt-5.10", true),
            ("gpt-6", true),
            ("gpt-6-2026-10-01", true),
            ("openai/gpt-5.6", true),
            ("gpt-5.5", false),
            ("gpt-5", false),
            ("gpt-4o", false),
            ("gpt-4.1", false),
            ("gpt-oss-120b", false),
            ("o3", false),
            ("mistral-large", false),
            ("", false),
        ] {
            assert_eq!(knows_breakpoints(model), expected, "{model}");
        }
    }

    /// A model that knows breakpoints gets the hints of Messages as its own.
    #[test]
    fn cache_hints_are_breakpoints_where_known() {
        let hint = json!({"type": "ephemeral"});
        let long = json!({"type": "ephemeral", "ttl": "1h"});
        let point = json!({"mode": "explicit"});
        let picture = json!({"type": "base64", "media_type": "image/png", "data": "AAAA"});
        let members = json!({"model": "m", "max_tokens": 9,
        "system": [{"type": "text", "text": "One.", "cache_control": hint}, {"type": "text", "text": "Two."}],
        "messages": [
        {"role": "user", "content": [
        {"type": "text", "text": "see"},
        {"type": "image", "source": picture, "cache_control": hint}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "four", "cache_control": hint}]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": long}]},
        ],
        });
        let (body, losses) = written(chat(), "gpt-5.6", &MESSAGES, &members);
        let messages = &body["messages"];
        let text =
            |text: &str| json!({"type": "text", "text": text, "prompt_cache_breakpoint": point});
        assert_eq!(
            messages[0]["content"],
            json!([text("One."), {"type": "text", "text": "Two."}])
        );
        assert_eq!(
            messages[1]["content"][0],
            json!({"type": "text", "text": "see"})
        );
        assert_eq!(messages[1]["content"][1]["prompt_cache_breakpoint"], point);
        assert_eq!(messages[3]["content"], json!([text("four")]));
        assert_eq!(messages[5]["content"], json!([text("more")]));
        assert_eq!(
            losses, "cache_control",
            "an hour is longer than OpenAI promises"
        );
        // Others get texts as before, and the loss is named.
        let (body, losses) = written(chat(), "gpt-5", &MESSAGES, &members);
        assert!(
            !body.to_string().contains("prompt_cache_breakpoint"),
            "{body}"
        );
        assert_eq!(
            (&body["messages"][0]["content"], &*losses),
            (&json!("One.\n\nTwo."), "cache_control")
        );
        // The assistant's words and tools have no place for one.
        for members in [
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"},
{"role": "assistant", "content": [{"type": "text", "text": "y", "cache_control": hint}]},
{"role": "user", "content": "z"}]}),
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
"tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": hint}]}),
        ] {
            let (body, losses) = written(chat(), "gpt-5.6", &MESSAGES, &members);
            assert!(
                !body.to_string().contains("prompt_cache_breakpoint"),
                "{body}"
            );
            assert_eq!(losses, "cache_control");
        }
    }

    /// Hints of Messages and of chat become breakpoints, and those become hints.
    #[test]
    fn cache_hints_are_breakpoints_and_back() {
        let (hint, point) = (json!({"type": "ephemeral"}), json!({"mode": "explicit"}));
        let asked = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief.", "cache_control": hint}],
"messages": [{"role": "user", "content": "x"},
{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "four", "cache_control": hint}]}]});
        let (sent, lost) = written(responses(), "gpt-5.6", &MESSAGES, &asked);
        let text = |text: &str| json!([{"type": "input_text", "text": text, "prompt_cache_breakpoint": point}]);
        assert_eq!(sent["input"][0]["content"], text("Be brief."), "{sent}");
        assert_eq!(
            (&sent["input"][1]["content"], &sent["input"][3]["output"]),
            (&json!("x"), &text("four"))
        );
        assert!(!lost.contains("cache"), "{lost}");
        let (sent, lost) = written(responses(), "gpt-5", &MESSAGES, &asked);
        assert!(
            sent["input"][0]["content"] == "Be brief." && lost.contains("cache_control"),
            "{lost}"
        );

        let part = json!({"type": "input_text", "text": "x", "prompt_cache_breakpoint": point});
        let asked = json!({"model": "m", "input": [{"role": "user", "content": [part]}]});
        let claude = Dialect::from(&anthropic::PROTOCOL);
        let (sent, lost) = written(claude, "claude-sonnet-4-5", &RESPONSES, &asked);
        assert_eq!(
            sent["messages"][0]["content"][0]["cache_control"], hint,
            "{sent}"
        );
        assert_eq!(lost, "");
    }
}
