//! What an answer repeats of its request, as the caller wrote it.

use std::collections::HashMap;

use crate::front::reading::value::Name;
use crate::neutral::{CallKind, CallersTool, Echo, Raw};
use crate::wire::json::{self, Writer};

/// The fields that are always there, and what they are if the request does not say them.
const ALWAYS: [(&str, &str); 9] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("temperature", "null"),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_p", "null"),
    ("truncation", r#""disabled""#),
];

/// The fields that are there if the request says them.
const SAID: [&str; 5] = ["max_tool_calls", "prompt_cache_key", "safety_identifier", "top_logprobs", "user"];

/// The longest field that is repeated: a stream says each of them three times, and no program needs
/// to be told what it sent.
const LONGEST: usize = 64 * 1024;

/// The fields that an answer repeats.
#[derive(Default)]
pub(super) struct Echoed<'a> {
    always: [Option<Raw<'a>>; ALWAYS.len()],
    said: [Option<Raw<'a>>; SAID.len()],
    pub(super) format: Option<Raw<'a>>,
    pub(super) verbosity: Option<Raw<'a>>,
    pub(super) effort: Option<Raw<'a>>,
    pub(super) summary: Option<Raw<'a>>,
}

impl<'a> Echoed<'a> {
    /// Takes a top-level field.
    pub(super) fn field(&mut self, name: &Name<'a>, value: Raw<'a>) {
        let always = ALWAYS.iter().map(|(name, _)| *name).zip(&mut self.always);
        if let Some((_, place)) = always.chain(SAID.into_iter().zip(&mut self.said)).find(|(known, _)| *known == name) {
            *place = Some(value);
        }
    }

    /// Writes the fields, with the tools that are called by more than a name.
    pub(super) fn echo(self, shows_thinking: bool, known: HashMap<String, CallersTool>) -> Echo {
        let raw = |w: &mut Writer, value: Option<Raw<'_>>, default: &str| match value {
            Some(Raw(text)) if text != "null" && text.len() <= LONGEST => w.raw(&json::one_line(text)),
            Some(_) | None => w.raw(default),
        };
        let mut w = Writer::default();
        for ((name, default), value) in ALWAYS.into_iter().zip(self.always) {
            raw(w.key(name), value, default);
        }
        for (name, value) in SAID.into_iter().zip(self.said) {
            w.optional(name, value, |w, value| raw(w, Some(value), "null"));
        }
        w.key("reasoning").object(|w| {
            raw(w.key("effort"), self.effort, "null");
            raw(w.key("summary"), self.summary, "null");
        });
        w.key("text").object(|w| {
            raw(w.key("format"), self.format, r#"{"type":"text"}"#);
            w.optional("verbosity", self.verbosity, |w, value| raw(w, Some(value), "null"));
        });
        let is_special = |tool: &CallersTool| tool.kind != CallKind::Function || tool.namespace.is_some();
        let mut tools: Vec<_> = known.into_values().filter(is_special).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Echo {
            members: String::from_utf8(w.into_bytes()).unwrap_or_default(),
            shows_thinking,
            carries_thoughts: false,
            tools,
        }
    }
}
