//! This module changes a request as a server's quirks require. It gathers edits on the bytes and
//! losses, and refuses requests that the server cannot serve at all.
//!
//! The body was read before, so its grammar is valid, and no top-level field comes twice.
//! Everything that no quirk names stays as it was written.

use std::borrow::Cow;

use super::call_ids;
use super::scan::is_empty_value;
use crate::neutral::{Losses, Refused};
use crate::upstream::quirks::{Choices, Formats, Quirks, Rule};
use crate::wire::json::{self, Cursor, ScanResult, Span, integer_of, span_bytes, text_of};
use crate::wire::splice::Edits;
use crate::wire::starts_with_any_case;

/// A top-level field.
struct Field<'a> {
    name: Cow<'a, [u8]>,
    key: Span,
    value: Span,
}

/// Gathers the edits that `quirks` require. The `stream_options` of a stream are edited elsewhere.
pub(super) fn apply_quirks(
    stream: bool,
    quirks: &Quirks,
    edits: &mut Edits<'_>,
) -> Result<Losses, Refused> {
    let body = edits.text();
    let mut fields = Vec::with_capacity(16);
    let mut messages = Messages {
        quirks,
        index: 0,
        call_ids: Vec::new(),
        losses: Losses::default(),
        refused: None,
    };
    // This cannot fail, because the body was read before.
    let _read = Cursor::new(body).object(|cursor, key| {
        let name = json::name_of(body, &key);
        let value = match name.as_ref() {
            b"messages" if quirks.touches_messages() => messages.read(cursor, edits)?,
            _ => cursor.value()?,
        };
        fields.push(Field { name, key, value });
        Ok(())
    });
    if let Some(refused) = messages.refused {
        return Err(refused);
    }
    call_ids::shorten_ids(&messages.call_ids, edits);

    let mut top = TopFields {
        fields: &fields,
        edits,
        losses: messages.losses,
    };
    for field in &fields {
        let Ok(name) = str::from_utf8(&field.name) else {
            continue;
        };
        if name == "stream_options" && !quirks.stream_options && !stream {
            top.remove(field);
        }
        if let Some((name, rule)) = quirks.rule(name) {
            top.apply(name, rule, field)?;
        }
    }
    Ok(top.losses)
}

/// The top-level fields, and the edits and losses that they cause.
struct TopFields<'t, 'e> {
    fields: &'t [Field<'e>],
    edits: &'t mut Edits<'e>,
    losses: Losses,
}

impl TopFields<'_, '_> {
    fn apply(&mut self, name: &'static str, rule: Rule, field: &Field<'_>) -> Result<(), Refused> {
        let value = span_bytes(self.edits.text(), &field.value);
        if value == b"null" {
            self.remove(field);
            return Ok(());
        }
        let word = || text_of(self.edits.text(), &field.value);
        match rule {
            Rule::Rename(other) => self.rename(field, other),
            Rule::Omit => self.omit(name, field),
            Rule::Cannot if equals_absent(name, value) => self.remove(field),
            Rule::Cannot => return Err(unsupported_field(name)),
            Rule::OneOf(words) if word().is_some_and(|word| words.contains(&&*word)) => {}
            Rule::OneOf(_) => self.omit(name, field),
            Rule::Nearest(words) => {
                let word = word();
                if let Some((_, nearest)) = words
                    .iter()
                    .find(|(theirs, _)| word.as_deref() == Some(*theirs))
                {
                    self.edits.replace(
                        field.value.clone(),
                        json::quote_string(nearest).into_bytes(),
                    );
                    self.losses.add(name);
                }
            }
            Rule::List if value.starts_with(b"\"") => {
                self.edits
                    .replace(field.value.clone(), [b"[", value, b"]"].concat());
            }
            Rule::List => {}
            Rule::ToolChoice(choices) => return self.tool_choice(choices, field),
            Rule::Format(formats) => return self.format(formats, field),
        }
        Ok(())
    }

    fn remove(&mut self, field: &Field<'_>) {
        self.edits.remove_member(&field.key, &field.value);
    }

    /// Renames a field. The standard's field counts; the server's own field next to it is lost.
    fn rename(&mut self, field: &Field<'_>, other: &'static str) {
        let text = self.edits.text();
        if let Some(own) = self
            .fields
            .iter()
            .find(|field| *field.name == *other.as_bytes())
        {
            self.remove(own);
            let own = span_bytes(text, &own.value);
            if own != b"null" && own != span_bytes(text, &field.value) {
                self.losses.add(other);
            }
        }
        self.edits
            .replace(field.key.clone(), json::quote_string(other).into_bytes());
    }

    fn omit(&mut self, name: &'static str, field: &Field<'_>) {
        self.remove(field);
        if !equals_absent(name, span_bytes(self.edits.text(), &field.value)) {
            self.losses.add(name);
        }
    }

    fn tool_choice(&mut self, choices: Choices, field: &Field<'_>) -> Result<(), Refused> {
        let word = text_of(self.edits.text(), &field.value);
        match (choices, word.as_deref()) {
            (Choices::Any, Some("required")) => {
                self.edits.replace(field.value.clone(), &br#""any""#[..])
            }
            (Choices::Any, _) | (Choices::Words, Some(_)) | (Choices::Auto, Some("auto")) => {}
            (Choices::Auto, Some("none")) => {
                for field in self
                    .fields
                    .iter()
                    .filter(|field| matches!(&*field.name, b"tools" | b"tool_choice"))
                {
                    self.remove(field);
                }
            }
            (Choices::Words | Choices::Auto, _) => return Err(unsupported_field("tool_choice")),
        }
        Ok(())
    }

    fn format(&mut self, formats: Formats, field: &Field<'_>) -> Result<(), Refused> {
        const ANY_OBJECT: &[u8] = br#"{"type":"object"}"#;
        let format = AskedFormat::read(span_bytes(self.edits.text(), &field.value));
        let as_schema = match (formats, format.kind.as_deref()) {
            (Formats::NoSchema, Some("json_schema")) => {
                return Err(unsupported_field("response_format"));
            }
            (Formats::SchemaOnly, Some("json_object")) => [
                br#"{"type":"json_schema","json_schema":{"schema":"#,
                ANY_OBJECT,
                b"}}",
            ]
            .concat(),
            (Formats::Grammar, Some("text")) => {
                self.remove(field);
                return Ok(());
            }
            (Formats::Grammar, Some("json_schema" | "json_object")) if !format.is_grammar => [
                br#"{"type":"json","value":"#,
                format.schema.unwrap_or(ANY_OBJECT),
                b"}",
            ]
            .concat(),
            (Formats::NoSchema | Formats::SchemaOnly | Formats::Grammar, _) => return Ok(()),
        };
        self.edits.replace(field.value.clone(), as_schema);
        Ok(())
    }
}

/// A `response_format`.
#[derive(Default)]
struct AskedFormat<'a> {
    kind: Option<Cow<'a, str>>,
    schema: Option<&'a [u8]>,
    /// True if the format is already in TGI's own form.
    is_grammar: bool,
}

impl<'a> AskedFormat<'a> {
    fn read(text: &'a [u8]) -> Self {
        let mut format = Self::default();
        // A value that is no object has no kind.
        let _read = Cursor::new(text).object(|cursor, key| {
            match &*json::name_of(text, &key) {
                b"type" => format.kind = text_of(text, &cursor.value()?),
                b"json_schema" => {
                    cursor.maybe_members(|key, value| {
                        if *json::name_of(text, &key) == *b"schema" {
                            format.schema = Some(span_bytes(text, &value))
                                .filter(|schema| schema.starts_with(b"{"));
                        }
                    })?;
                }
                name => {
                    format.is_grammar |= *name == *b"value";
                    cursor.value()?;
                }
            }
            Ok(())
        });
        format
    }
}

/// The reader of the messages.
struct Messages<'q> {
    quirks: &'q Quirks,
    index: usize,
    /// The places of the ids of tool calls.
    call_ids: Vec<Span>,
    losses: Losses,
    refused: Option<Refused>,
}

/// The most names of lost fields of messages. More names do not help anybody.
const MAX_NAMES: usize = 32;

impl Messages<'_> {
    fn read(&mut self, cursor: &mut Cursor<'_>, edits: &mut Edits<'_>) -> ScanResult<Span> {
        cursor.maybe_array(|cursor, index| {
            self.index = index;
            self.message(cursor, edits)
        })
    }

    fn message(&mut self, cursor: &mut Cursor<'_>, edits: &mut Edits<'_>) -> ScanResult<()> {
        let text = cursor.text();
        let mut role = None;
        let mut name = None;
        cursor.maybe_object(|cursor, key| {
            let field = json::name_of(text, &key);
            let value = match field.as_ref() {
                b"content" if self.quirks.inline_images => self.parts(cursor)?,
                b"tool_calls" if self.quirks.short_call_ids => self.calls(cursor)?,
                _ => cursor.value()?,
            };
            match field.as_ref() {
                b"role" => role = Some(value),
                b"tool_call_id" if self.quirks.short_call_ids => self.call_ids.push(value),
                b"name" => name = Some((key, value)),
                field => self.unknown(field, &key, &value, edits),
            }
            Ok(())
        })?;
        let word = role.as_ref().and_then(|role| text_of(text, role));
        match word.as_deref() {
            Some("developer") if self.quirks.developer_is_system => {
                if let Some(role) = role.clone() {
                    edits.replace(role, &br#""system""#[..]);
                }
            }
            Some("function") if !self.knows(b"function_call") => self.refuse("role"),
            Some(_) | None => {}
        }
        if let Some((key, value)) = name
            && !matches!(word.as_deref(), Some("tool" | "function"))
        {
            self.unknown(b"name", &key, &value, edits);
        }
        Ok(())
    }

    fn knows(&self, field: &[u8]) -> bool {
        self.quirks
            .message_fields
            .is_none_or(|known| known.iter().any(|known| known.as_bytes() == field))
    }

    /// Removes a field from a message if the server refuses it there.
    fn unknown(&mut self, field: &[u8], key: &Span, value: &Span, edits: &mut Edits<'_>) {
        if self.knows(field) {
            return;
        }
        let is_full = !is_empty_value(span_bytes(edits.text(), value));
        if field == b"function_call" && is_full {
            return self.refuse("function_call");
        }
        edits.remove_member(key, value);
        if is_full {
            let field = str::from_utf8(field)
                .ok()
                .filter(|_| self.losses.names().len() < MAX_NAMES);
            self.losses
                .add_written("messages[].", field.unwrap_or("other"));
        }
    }

    fn calls(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<Span> {
        let text = cursor.text();
        cursor.maybe_array(|cursor, _| {
            cursor.maybe_members(|key, value| {
                if *json::name_of(text, &key) == *b"id" {
                    self.call_ids.push(value);
                }
            })
        })
    }

    /// Looks for pictures that the server would have to fetch.
    fn parts(&mut self, cursor: &mut Cursor<'_>) -> ScanResult<Span> {
        let text = cursor.text();
        cursor.maybe_array(|cursor, index| {
            cursor.maybe_object(|cursor, key| {
                if *json::name_of(text, &key) != *b"image_url" {
                    return cursor.value();
                }
                let mut url = None;
                let value = cursor.maybe_members(|key, value| {
                    if *json::name_of(text, &key) == *b"url" {
                        url = Some(value);
                    }
                })?;
                if !matches!(span_bytes(text, &value).first(), Some(b'{' | b'n')) {
                    url = Some(value.clone());
                }
                if url.is_some_and(|url| is_remote(text, &url)) {
                    self.refuse(&format!("content[{index}].image_url"));
                }
                Ok(value)
            })
        })
    }

    fn refuse(&mut self, field: &str) {
        let index = self.index;
        self.refused
            .get_or_insert_with(|| unsupported_field(&format!("messages[{index}].{field}")));
    }
}

/// Returns whether a picture's URL is an address, and not the picture itself.
fn is_remote(text: &[u8], url: &Span) -> bool {
    let inside = span_bytes(text, url).get(1..).unwrap_or_default();
    !starts_with_any_case(inside, "data:")
}

/// Returns whether a value means as much as an absent field.
fn equals_absent(name: &str, value: &[u8]) -> bool {
    let integer = || integer_of(value, &(0..value.len()));
    match name {
        "n" => integer() == Some(1),
        "top_logprobs" | "frequency_penalty" | "presence_penalty" => integer() == Some(0),
        "logprobs" | "store" => value == b"false",
        "logit_bias" | "metadata" => is_blank_between(value, b"{", b"}"),
        "tools" | "functions" => is_blank_between(value, b"[", b"]"),
        "parallel_tool_calls" => value == b"true",
        "service_tier" => matches!(value, br#""auto""# | br#""default""#),
        "tool_choice" | "function_call" => matches!(value, br#""auto""# | br#""none""#),
        "verbosity" => value == br#""medium""#,
        "modalities" => is_blank_between(value, br#"["text""#, b"]"),
        _ => false,
    }
}

fn is_blank_between(value: &[u8], open: &[u8], close: &[u8]) -> bool {
    let inside = value
        .strip_prefix(open)
        .and_then(|value| value.strip_suffix(close));
    inside.is_some_and(|inside| inside.trim_ascii().is_empty())
}

fn unsupported_field(param: &str) -> Refused {
    Refused::unsupported(
        param,
        format!("`{param}` is not supported by the model's server"),
    )
}

#[cfg(test)]
mod tests;
