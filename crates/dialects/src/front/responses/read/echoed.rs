//! The part of a request that its answer repeats, as the caller wrote it.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::front::reading::value::Name;
use crate::neutral::{CallKind, CallersTool, Echo, Raw};
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span, Writer};
use crate::wire::splice::Edits;

/// The fields that every answer repeats, with their values if the request does not set them.
/// OpenAI's own description and Open Responses require all fields, and few may be null.
const FIELDS: [(&str, &str); 17] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("temperature", "1"),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_p", "1"),
    ("truncation", r#""disabled""#),
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("top_logprobs", "0"),
    ("service_tier", r#""default""#),
    ("max_tool_calls", "null"),
    ("prompt_cache_key", "null"),
    ("safety_identifier", "null"),
    ("user", "null"),
];

/// The longest field that is repeated. A stream repeats each field three times, and the program
/// that sent it knows it.
const MAX_FIELD_BYTES: usize = 64 * 1024;

/// The members that descriptions of a function require, and of a JSON Schema for the answer; each
/// with the value that a missing one stands for.
const OF_FUNCTION: [(&str, &str); 3] = [
    ("description", "null"),
    ("parameters", "null"),
    ("strict", "null"),
];
const OF_SCHEMA: [(&str, &str); 2] = [("description", "null"), ("strict", "false")];

/// The fields that an answer repeats.
#[derive(Default)]
pub(super) struct Echoed<'a> {
    fields: [Option<Raw<'a>>; FIELDS.len()],
    pub(super) format: Option<Raw<'a>>,
    pub(super) verbosity: Option<Raw<'a>>,
    pub(super) effort: Option<Raw<'a>>,
    pub(super) summary: Option<Raw<'a>>,
}

impl<'a> Echoed<'a> {
    /// Notes a top-level field.
    pub(super) fn field(&mut self, name: &Name<'a>, value: Raw<'a>) {
        let mut fields = FIELDS.iter().zip(&mut self.fields);
        if let Some((_, stored_value)) = fields.find(|((known, _), _)| known == name) {
            *stored_value = Some(value);
        }
    }

    /// Writes the fields, with the tools that are called by more than a name.
    pub(super) fn echo(self, shows_thinking: bool, known: HashMap<String, CallersTool>) -> Echo {
        let members = self.members();
        let mut tools: Vec<_> = known
            .into_values()
            .filter(|tool| tool.kind != CallKind::Function || tool.namespace.is_some())
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Echo {
            members,
            shows_thinking,
            carries_thoughts: false,
            tools,
        }
    }

    fn members(self) -> String {
        let mut w = Writer::default();
        for ((name, default), value) in FIELDS.into_iter().zip(self.fields) {
            let value = value.filter(|value| name != "service_tier" || value.0 != r#""auto""#);
            w.key(name).raw(&match name {
                "tools" => with_members(field_text(value, default), "function", &OF_FUNCTION),
                _ => field_text(value, default),
            });
        }
        w.key("reasoning").object(|w| {
            w.key("effort").raw(&field_text(self.effort, "null"));
            w.key("summary").raw(&field_text(self.summary, "null"));
        });
        w.key("text").object(|w| {
            let format = field_text(self.format, r#"{"type":"text"}"#);
            w.key("format")
                .raw(&with_members(format, "json_schema", &OF_SCHEMA));
            w.optional("verbosity", self.verbosity, |w, value| {
                w.raw(&field_text(Some(value), "null"))
            });
        });
        String::from_utf8(w.into_bytes()).unwrap_or_default()
    }
}

/// Returns the members of an answer to a request that is not known.
pub(crate) fn unknown_members() -> String {
    Echoed::default().members()
}

/// Returns a field as the request has it, on one line, or its default.
fn field_text<'v>(value: Option<Raw<'v>>, default: &'static str) -> Cow<'v, str> {
    match value {
        Some(Raw(text)) if text != "null" && text.len() <= MAX_FIELD_BYTES => json::one_line(text),
        Some(_) | None => Cow::Borrowed(default),
    }
}

/// Adds the missing members to an object of this type, or to the objects in a list.
fn with_members<'v>(value: Cow<'v, str>, kind: &str, wanted: &[(&str, &str)]) -> Cow<'v, str> {
    let text = value.as_bytes();
    let mut edits = Edits::new(text);
    let mut cursor = Cursor::new(text);
    let read = match cursor.kind() {
        Ok(Kind::Array) => cursor.array(|cursor, _| add_members(cursor, &mut edits, kind, wanted)),
        Ok(_) => add_members(&mut cursor, &mut edits, kind, wanted),
        Err(why) => Err(why),
    };
    match (read, edits.applied()) {
        (Ok(_), Cow::Owned(edited)) => String::from_utf8(edited).map_or(value, Cow::Owned),
        (_, _) => value,
    }
}

/// Consumes a value. If it is an object of this type, adds the members that it lacks.
fn add_members(
    cursor: &mut Cursor<'_>,
    edits: &mut Edits<'_>,
    kind: &str,
    wanted: &[(&str, &str)],
) -> ScanResult<Span> {
    let text = cursor.text();
    let mut is_wanted = false;
    let mut missing = wanted.to_vec();
    let span = cursor.maybe_members(|key, value| {
        let name = json::name_of(text, &key);
        is_wanted |=
            *name == *b"type" && json::text_of(text, &value).is_some_and(|word| word == kind);
        missing.retain(|(known, _)| known.as_bytes() != &*name);
    })?;
    for (name, default) in missing.into_iter().filter(|_| is_wanted) {
        edits.insert_member(span.start, format!("\"{name}\":{default}").into_bytes());
    }
    Ok(span)
}
