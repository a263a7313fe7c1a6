//! The envelope of a chat request: the few fields that decide where it goes, with their exact
//! spans.
//!
//! One pass over the body, no copy of it. The whole text is checked to be JSON; of its fields only
//! those that Portcullis acts on are checked, all others pass for the upstream to judge. A field
//! given twice at the top level is refused, so that a splice cannot be fooled. What a fault says
//! never quotes more of the body than forty characters of a field's name.

mod content;

use content::{Read, message};
use std::borrow::Cow;

use crate::front::{CHAT, Envelope, Fault};
use crate::wire::json::{self, Broken, Cursor, Kind, Span};

/// A longer id names no model, and would only swell logs.
const MAX_MODEL_BYTES: usize = 512;

/// The API has some forty fields. The bound keeps the memory for finding duplicates small beside
/// the body.
const MAX_FIELDS: usize = 1 << 17;

/// What decides where a request goes, what it may cost and how it is answered. Some servers take
/// these names in any case, and of several the last: what one of them reads must be what was read
/// here.
const KNOWN: [(&str, &str); 12] = [
    ("model", "model"),
    ("messages", "messages"),
    ("stream", "stream"),
    ("stream_options", "stream_options"),
    ("max_tokens", "max_tokens"),
    ("max_completion_tokens", "max_completion_tokens"),
    ("n", "n"),
    ("data_sources", "data_sources"),
    ("datasources", "data_sources"),
    ("cached_content", "cached_content"),
    ("cachedcontent", "cached_content"),
    ("extra_body", "extra_body"),
];

/// Whether a name is another one but for its case.
fn is_nearly(name: &[u8], known: &str) -> bool {
    name.iter().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) && json::folds_to(name, known)
}

/// Reads a request body.
pub(super) fn read(body: &[u8]) -> Result<Envelope, Fault> {
    if body.trim_ascii().is_empty() {
        return Err(Fault::plain("the request body is empty: it must be a JSON object".to_owned()));
    }
    let syntax = |broken| Fault::syntax(&broken, body);
    let mut cursor = Cursor::new(body);
    let kind = cursor.kind().map_err(syntax)?;
    if kind != Kind::Object {
        let message = format!("the request body must be a JSON object, not {}", kind.named());
        return Err(Fault::plain(message));
    }

    // Room for an ordinary request, so that the list does not grow step by step.
    let names = Vec::with_capacity(16);
    let envelope = Envelope::new(&CHAT);
    let mut seen = TopFields { names, fault: None, has_messages: false, read: Read::default(), envelope };
    let top = cursor.object(|cursor, key| seen.field(cursor, &key)).map_err(syntax)?;
    cursor.end().map_err(syntax)?;
    seen.envelope(top.start, body.len())
}

/// What the scan has met so far. Faults in fields wait for its end, since broken JSON comes first.
struct TopFields<'a> {
    names: Vec<Cow<'a, [u8]>>,
    fault: Option<Fault>,
    has_messages: bool,
    read: Read,
    envelope: Envelope,
}

impl<'a> TopFields<'a> {
    /// Consumes the value of a top-level field.
    fn field(&mut self, cursor: &mut Cursor<'a>, key: &Span) -> Result<(), Broken> {
        let name = json::name_of(cursor.text(), key);
        match name.as_ref() {
            b"model" => self.model(cursor)?,
            b"messages" => self.messages(cursor)?,
            b"stream" => self.envelope.stream = self.flag(cursor, "stream")?.0.unwrap_or(false),
            b"stream_options" => self.stream_options(cursor)?,
            b"max_tokens" | b"max_completion_tokens" => {
                let is_null = cursor.kind()? == Kind::Null;
                let span = cursor.value()?;
                self.envelope.max_tokens_said |= !is_null;
                self.envelope.most_tokens = self.envelope.most_tokens.max(number(cursor, &span));
                if *name == *b"max_tokens" {
                    self.envelope.max_tokens_null = is_null.then_some(span);
                }
            }
            b"n" => {
                let span = cursor.value()?;
                self.envelope.choices = number(cursor, &span).unwrap_or(1).max(1);
            }
            b"tools" | b"functions" => self.read.more += cursor.value()?.len(),
            b"response_format" => {
                let span = cursor.value()?;
                self.read.more += span.len();
                self.envelope.wants_json = is_json_format(json::slice(cursor.text(), &span));
            }
            b"prompt_cache_key" | b"user" => {
                let kind = cursor.kind()?;
                let span = Some(cursor.value()?).filter(|_| kind == Kind::String);
                if *name == *b"user" { self.envelope.user = span } else { self.envelope.cache_key = span }
            }
            b"data_sources" | b"dataSources" | b"cached_content" | b"cachedContent" | b"extra_body" | b"google" => {
                self.read.refers = true;
                self.read.other(cursor)?;
            }
            name => {
                if let Some((_, known)) = KNOWN.into_iter().find(|(folded, _)| is_nearly(name, folded)) {
                    self.note(|| Fault::case(name, known));
                }
                self.read.other(cursor)?;
            }
        }
        if self.names.len() < MAX_FIELDS {
            self.names.push(name);
        } else {
            self.note(|| Fault::plain("the request body has too many fields".to_owned()));
        }
        Ok(())
    }

    fn model(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        let kind = cursor.kind()?;
        let span = cursor.value()?;
        match json::text_of(cursor.text(), &span) {
            None => self.note(|| Fault::of_type("model", "a string", kind)),
            Some(model) if model.is_empty() => {
                self.note(|| Fault::of_value("model", "`model` must not be empty"));
            }
            Some(model) if model.len() > MAX_MODEL_BYTES => {
                self.note(|| Fault::of_value("model", "`model` is longer than 512 bytes"));
            }
            Some(model) => {
                self.envelope.model = model.into_owned();
                self.envelope.model_span = span;
            }
        }
        Ok(())
    }

    fn messages(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        self.has_messages = true;
        let kind = cursor.kind()?;
        if kind != Kind::Array {
            self.note(|| Fault::of_type("messages", "an array of messages", kind));
            return cursor.value().map(drop);
        }
        let mut count = 0;
        let mut begins = None;
        cursor.array(|cursor, index| {
            count += 1;
            let kind = cursor.kind()?;
            if kind != Kind::Object {
                self.note(|| Fault::of_type(format!("messages[{index}]"), "an object", kind));
            }
            let start = *begins.get_or_insert(cursor.at());
            let mut is_users = false;
            message(cursor, &mut is_users, &mut self.read)?;
            if is_users && self.envelope.beginning.is_none() {
                self.envelope.beginning = Some(start..cursor.at());
            }
            Ok(())
        })?;
        if count == 0 {
            self.note(|| Fault {
                code: Some("empty_array"),
                ..Fault::of_value("messages", "`messages` must hold at least one message")
            });
        }
        Ok(())
    }

    fn stream_options(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Broken> {
        let kind = cursor.kind()?;
        let span = if kind == Kind::Object {
            cursor.object(|cursor, key| {
                let name = json::name_of(cursor.text(), &key);
                if *name != *b"include_usage" {
                    if is_nearly(&name, "include_usage") {
                        self.note(|| Fault::case(&name, "include_usage"));
                    }
                    return cursor.value().map(drop);
                }
                if self.envelope.include_usage_span.is_some() {
                    self.note(|| Fault::duplicate("stream_options.include_usage"));
                }
                let (flag, span) = self.flag(cursor, "stream_options.include_usage")?;
                self.envelope.include_usage = flag.unwrap_or(false);
                self.envelope.include_usage_span = Some(span);
                Ok(())
            })?
        } else {
            if kind != Kind::Null {
                self.note(|| Fault::of_type("stream_options", "an object", kind));
            }
            cursor.value()?
        };
        self.envelope.stream_options = Some(span);
        Ok(())
    }

    /// Consumes `true`, `false` or `null`.
    fn flag(&mut self, cursor: &mut Cursor<'a>, param: &'static str) -> Result<(Option<bool>, Span), Broken> {
        let kind = cursor.kind()?;
        let span = cursor.value()?;
        let flag = match kind {
            Kind::Bool => Some(json::slice(cursor.text(), &span) == b"true"),
            Kind::Null => None,
            Kind::Object | Kind::Array | Kind::String | Kind::Number => {
                self.note(|| Fault::of_type(param, "true or false", kind));
                None
            }
        };
        Ok((flag, span))
    }

    /// Keeps the first fault.
    fn note(&mut self, fault: impl FnOnce() -> Fault) {
        self.fault.get_or_insert_with(fault);
    }

    fn envelope(mut self, open: usize, bytes: usize) -> Result<Envelope, Fault> {
        if let Some(name) = duplicate(&mut self.names) {
            return Err(Fault::duplicate(&String::from_utf8_lossy(name)));
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if self.envelope.model.is_empty() {
            return Err(Fault::missing("model"));
        }
        if !self.has_messages {
            return Err(Fault::missing("messages"));
        }
        Ok(Envelope {
            open,
            refers: self.read.refers,
            prompt_bytes: self.read.text,
            more_bytes: self.read.more.saturating_add(self.read.tokens.saturating_mul(4)),
            most_prompt: self.read.most(bytes),
            ..self.envelope
        })
    }
}

/// Whether a `response_format` asks for JSON.
fn is_json_format(format: &[u8]) -> bool {
    let mut found = false;
    let read = Cursor::new(format).object(|cursor, key| {
        let value = cursor.value()?;
        if *json::name_of(format, &key) == *b"type" {
            found = json::text_of(format, &value).is_some_and(|kind| matches!(&*kind, "json_object" | "json_schema"));
        }
        Ok(())
    });
    read.is_ok() && found
}

/// A name that stands twice in the list.
fn duplicate<'n>(names: &'n mut [Cow<'_, [u8]>]) -> Option<&'n [u8]> {
    // A handful is compared faster than sorted; many must not be compared each with each.
    const FEW: usize = 32;
    if names.len() > FEW {
        names.sort_unstable();
        return names.windows(2).find_map(|pair| match pair {
            [one, other] if one == other => Some(one.as_ref()),
            _ => None,
        });
    }
    let mut rest = &*names;
    while let Some((name, others)) = rest.split_first() {
        if others.contains(name) {
            return Some(name);
        }
        rest = others;
    }
    None
}

/// A number as anybody behind us may read it: `1e3` and `"1000"` are a thousand, too, and what is
/// not whole is rounded up. What is none is for the upstream to judge.
fn number(cursor: &Cursor<'_>, span: &Span) -> Option<u64> {
    let text = cursor.text();
    let number: f64 = match json::integer_of(text, span) {
        Some(whole) => return Some(whole),
        None => json::text_of(text, span).map_or_else(
            || std::str::from_utf8(json::slice(text, span)).ok()?.parse().ok(),
            |text| text.trim().parse().ok(),
        )?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and what is too large becomes the largest"
    )]
    (number >= 0.0).then(|| number.ceil() as u64)
}

#[cfg(test)]
mod tests;
