//! A request that passes to an account that has OpenAI's Responses, and its answer. What is changed
//! is: the model, a maximum of tokens above the model's, `store` and `include`, the ids of items,
//! thoughts that nobody could read, and the model in the answer. So fields that nobody here knows
//! reach the account, and the tools that its server runs.

use std::borrow::Cow;

use crate::front::PassedRequest;
use crate::front::passing::{self, append_line, replace_member};
use crate::neutral::{ENCRYPTED, Losses, Refused};
use crate::wire::Event;
use crate::wire::json::{self, Broken, Cursor, Kind, Span, slice, text_of};
use crate::wire::splice::Edits;

/// Changes what must change in a request.
pub(super) fn request(job: &PassedRequest<'_>, edits: &mut Edits<'_>) -> Result<Losses, Refused> {
    let (body, envelope) = (edits.text(), job.envelope);
    let mut pass = Pass { edits, losses: Losses::default(), refused: None, forgets: job.forgets };
    if envelope.model != job.model {
        pass.edits.replace(envelope.places.model.clone(), json::quote(job.model).into_bytes());
    }
    if let (Some(asked), Some(most), Some(span)) = (envelope.most_tokens, job.max_output, &envelope.places.most_tokens)
        && asked > most
    {
        pass.edits.replace(span.clone(), most.to_string().into_bytes());
        pass.losses.add("max_output_tokens");
    }
    let (mut stores, mut includes) = (true, false);
    // The body was read before.
    let _read = Cursor::new(body).object(|cursor, key| match &*json::name_of(body, &key) {
        b"input" => cursor.maybe_array(|cursor, index| pass.item(cursor, index)),
        b"store" => {
            let value = cursor.value()?;
            stores = false;
            pass.not_stored(&value);
            Ok(value)
        }
        b"include" => {
            includes = true;
            pass.include(cursor, job.thinks)
        }
        _ => cursor.value(),
    });
    let open = envelope.places.open;
    if stores {
        pass.edits.insert_member(open, &br#""store":false"#[..]);
    }
    if job.thinks && !includes {
        pass.edits.insert_member(open, format!(r#""include":["{ENCRYPTED}"]"#).into_bytes());
    }
    let Pass { losses, refused, .. } = pass;
    refused.map_or(Ok(losses), Err)
}

/// The reading of one body.
struct Pass<'p, 'e> {
    edits: &'p mut Edits<'e>,
    losses: Losses,
    refused: Option<Refused>,
    /// True if no thought goes back.
    forgets: bool,
}

/// The items whose ids their server need not know. The others are known by their ids alone.
const NAMELESS: [&str; 9] = [
    "",
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "tool_search_call",
    "tool_search_output",
];

impl Pass<'_, '_> {
    /// Asks the server to store nothing.
    fn not_stored(&mut self, value: &Span) {
        if slice(self.edits.text(), value) != b"false" {
            self.edits.replace(value.clone(), &b"false"[..]);
        }
    }

    /// Reads what an answer shall include, and adds the thoughts of a model that thinks.
    fn include(&mut self, cursor: &mut Cursor<'_>, thinks: bool) -> Result<Span, Broken> {
        let (text, is_list) = (cursor.text(), cursor.kind()? == Kind::Array);
        let (mut has_it, mut is_empty) = (false, true);
        let span = cursor.maybe_array(|cursor, _| {
            let value = cursor.value()?;
            is_empty = false;
            has_it |= text_of(text, &value).is_some_and(|name| name == ENCRYPTED);
            Ok(())
        })?;
        match (thinks && !has_it, is_list && !is_empty) {
            (true, true) => {
                let after = span.start + 1;
                self.edits.replace(after..after, format!(r#""{ENCRYPTED}","#).into_bytes());
            }
            (true, false) => self.edits.replace(span.clone(), format!(r#"["{ENCRYPTED}"]"#).into_bytes()),
            (false, _) => {}
        }
        Ok(span)
    }

    /// Reads an item. Nothing was stored, so an id means nothing to the server, which refuses ids
    /// that it does not know; and a thought is nothing without what the server encrypted.
    fn item(&mut self, cursor: &mut Cursor<'_>, index: usize) -> Result<(), Broken> {
        let text = cursor.text();
        let (mut kind, mut has_role, mut is_sealed, mut id) = (Cow::Borrowed(""), false, false, None);
        let span = cursor.maybe_members(|key, value| match &*json::name_of(text, &key) {
            b"type" => kind = text_of(text, &value).unwrap_or_default(),
            b"role" => has_role = true,
            b"id" if slice(text, &value) != b"null" => id = Some((key, value)),
            b"encrypted_content" => {
                is_sealed = !self.forgets && text_of(text, &value).is_some_and(|seal| passing::is_signed(&seal));
            }
            _ => {}
        })?;
        match (&*kind, id) {
            ("item_reference", _) | ("", Some(_)) if !has_role => {
                let message = "refers to an item that is stored elsewhere, but the gateway stores none: send the item \
                               itself";
                let param = format!("input[{index}]");
                self.refused.get_or_insert_with(|| Refused::invalid(param.clone(), format!("`{param}` {message}")));
            }
            ("reasoning", _) if !is_sealed => {
                self.edits.remove_member(&span, &span);
                self.losses.add("input[].reasoning");
            }
            (kind, Some((key, value))) if NAMELESS.contains(&kind) => self.edits.remove_member(&key, &value),
            (_, _) => {}
        }
        Ok(())
    }
}

/// Writes an event of a stream, with the model as a JSON text.
pub(super) fn event(event: &Event<'_>, model: &str, out: &mut Vec<u8>) {
    let Event { name, data } = *event;
    // Some servers have the name in the data only.
    let kind = if name.is_empty() { kind(data) } else { Some(String::from_utf8_lossy(name).into_owned()) };
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(kind.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let mut edits = Edits::new(data);
    if memchr::memmem::find(data, b"\"response\"").is_some() {
        let _read = Cursor::new(data).maybe_object(|cursor, key| match &*json::name_of(data, &key) {
            b"response" => replace_member(cursor, "model", model, &mut edits),
            _ => cursor.value(),
        });
    }
    append_line(edits, out);
    out.extend_from_slice(b"\n\n");
}

/// Writes a whole answer, with the model as a JSON text.
pub(super) fn whole(body: &[u8], model: &str) -> Vec<u8> {
    let (mut edits, mut out) = (Edits::new(body), Vec::new());
    let _read = replace_member(&mut Cursor::new(body), "model", model, &mut edits);
    edits.apply_into(&mut out);
    out
}

fn kind(data: &[u8]) -> Option<String> {
    let mut kind = None;
    let _read = Cursor::new(data).maybe_members(|key, value| {
        if *json::name_of(data, &key) == *b"type" {
            kind = text_of(data, &value).map(|kind| kind.into_owned());
        }
    });
    kind.filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')))
}

#[cfg(test)]
mod tests;
