//! The scan of a body for its envelope: one pass, no copy.
//!
//! The whole text is checked to be JSON. The scan checks only the fields on which Portcullis acts;
//! the upstream judges all others. A field given twice at the top level is refused, so that a
//! splice cannot be fooled. A fault never quotes more of the body than forty characters of a
//! field's name.

use std::borrow::Cow;

use super::count::ReadTotals;
use crate::front::{Envelope, Fault, Front};
use crate::wire::json::{self, Cursor, Kind, ScanResult, Span};

/// A longer id names no model, and would only swell logs.
const MAX_MODEL_BYTES: usize = 512;

/// The formats have some forty fields. The bound keeps the memory for finding duplicates small,
/// compared with the body.
const MAX_FIELDS: usize = 1 << 17;

/// The state of the scan. Faults in fields wait for its end, since broken JSON comes first.
pub(crate) struct Scan<'a> {
    names: Vec<Cow<'a, [u8]>>,
    fault: Option<Fault>,
    /// The sums over the body.
    pub(crate) totals: ReadTotals,
    /// The envelope so far.
    pub(crate) envelope: Envelope,
    bytes: usize,
}

impl<'a> Scan<'a> {
    /// Scans a body. `field` consumes the value of each top-level field.
    pub(crate) fn over(
        body: &'a [u8],
        front: &'static Front,
        mut field: impl FnMut(&mut Self, &mut Cursor<'a>, &[u8]) -> ScanResult<()>,
    ) -> Result<Self, Fault> {
        if body.trim_ascii().is_empty() {
            return Err(Fault::of_body(
                "the request body is empty: it must be a JSON object".to_owned(),
            ));
        }
        let syntax = |broken| Fault::syntax(&broken, body);
        let mut cursor = Cursor::new(body);
        let kind = cursor.kind().map_err(syntax)?;
        if kind != Kind::Object {
            let message = format!(
                "the request body must be a JSON object, not {}",
                kind.named()
            );
            return Err(Fault::of_body(message));
        }
        // Room for an ordinary request, so that the list does not grow step by step.
        let names = Vec::with_capacity(16);
        let envelope = Envelope::new(front);
        let mut scan = Self {
            names,
            fault: None,
            totals: ReadTotals::default(),
            envelope,
            bytes: body.len(),
        };
        let top = cursor
            .object(|cursor, key| {
                let name = json::name_of(cursor.text(), &key);
                field(&mut scan, cursor, &name)?;
                scan.name(name);
                Ok(())
            })
            .map_err(syntax)?;
        cursor.end().map_err(syntax)?;
        scan.envelope.places.open = top.start;
        Ok(scan)
    }

    /// Notes the name of a top-level field.
    fn name(&mut self, name: Cow<'a, [u8]>) {
        if self.names.len() < MAX_FIELDS {
            self.names.push(name);
        } else {
            self.note(|| Fault::of_body("the request body has too many fields".to_owned()));
        }
    }

    /// Consumes the model's name.
    pub(crate) fn model(&mut self, cursor: &mut Cursor<'a>) -> ScanResult<()> {
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
                self.envelope.places.model = span;
            }
        }
        Ok(())
    }

    /// Consumes `true`, `false` or `null`.
    pub(crate) fn flag(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> ScanResult<(Option<bool>, Span)> {
        let kind = cursor.kind()?;
        let span = cursor.value()?;
        let flag = match kind {
            Kind::Bool => Some(json::span_bytes(cursor.text(), &span) == b"true"),
            Kind::Null => None,
            Kind::Object | Kind::Array | Kind::String | Kind::Number => {
                self.note(|| Fault::of_type(param, "true or false", kind));
                None
            }
        };
        Ok((flag, span))
    }

    /// Consumes a maximum of tokens, which must be above 0.
    pub(crate) fn max_tokens(
        &mut self,
        cursor: &mut Cursor<'a>,
        param: &'static str,
    ) -> ScanResult<()> {
        let kind = cursor.kind()?;
        let span = cursor.value()?;
        let maximum = lenient_number(cursor, &span);
        if maximum.is_none_or(|maximum| maximum == 0) {
            self.note(|| Fault::of_type(param, "a whole number above 0", kind));
        }
        self.envelope.has_max_tokens = true;
        self.envelope.max_tokens = maximum;
        self.envelope.places.max_tokens = Some(span);
        Ok(())
    }

    /// Consumes one of OpenAI's fields for the end user and for the cache of prompts.
    pub(crate) fn user_field(&mut self, cursor: &mut Cursor<'a>, name: &[u8]) -> ScanResult<()> {
        let span = scan_text(cursor)?;
        let user = &mut self.envelope.user;
        match name {
            b"prompt_cache_key" => self.envelope.cache_key = span,
            // OpenAI's newer name for the end user, which is preferred.
            b"safety_identifier" => *user = span.or(user.take()),
            _ => *user = user.take().or(span),
        }
        Ok(())
    }

    /// Consumes a list of messages. `message` consumes one, and returns whether it is a user's.
    pub(crate) fn messages(
        &mut self,
        cursor: &mut Cursor<'a>,
        field: &'static str,
        mut message: impl FnMut(&mut Cursor<'a>, &mut ReadTotals) -> ScanResult<bool>,
    ) -> ScanResult<()> {
        let kind = cursor.kind()?;
        if kind != Kind::Array {
            self.note(|| Fault::of_type(field, "an array of messages", kind));
            return cursor.skip();
        }
        let mut count = 0;
        let mut begins = None;
        cursor.array(|cursor, index| {
            count += 1;
            let kind = cursor.kind()?;
            if kind != Kind::Object {
                self.note(|| Fault::of_type(format!("{field}[{index}]"), "an object", kind));
            }
            let start = *begins.get_or_insert(cursor.offset());
            let is_users = message(cursor, &mut self.totals)?;
            if is_users && self.envelope.beginning.is_none() {
                self.envelope.beginning = Some(start..cursor.offset());
            }
            Ok(())
        })?;
        if count == 0 {
            self.note(|| Fault::no_messages(field));
        }
        Ok(())
    }

    /// Keeps the first fault.
    pub(crate) fn note(&mut self, fault: impl FnOnce() -> Fault) {
        self.fault.get_or_insert_with(fault);
    }

    /// Returns the envelope, or the first fault. `missing` is a field that must be there and is
    /// not.
    pub(crate) fn envelope(self, missing: Option<&'static str>) -> Result<Envelope, Fault> {
        let missing = self
            .envelope
            .model
            .is_empty()
            .then_some("model")
            .or(missing);
        self.envelope_without_model(missing)
    }

    /// Returns the envelope of a request whose format does not name the model, or the first fault.
    pub(crate) fn envelope_without_model(
        mut self,
        missing: Option<&'static str>,
    ) -> Result<Envelope, Fault> {
        if let Some(name) = find_duplicate(&mut self.names) {
            return Err(Fault::duplicate(&String::from_utf8_lossy(name)));
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if let Some(missing) = missing {
            return Err(Fault::missing(missing));
        }
        if self.totals.named.is_full {
            return Err(Fault::too_many_names());
        }
        let most_prompt = self.totals.max_tokens(self.bytes);
        Ok(Envelope {
            conversation_may_refer: self.totals.may_refer,
            named: self.totals.named.found,
            prompt_bytes: self.totals.text,
            more_bytes: self
                .totals
                .other_bytes
                .saturating_add(self.totals.tokens.saturating_mul(4)),
            max_prompt_tokens: most_prompt,
            ..self.envelope
        })
    }
}

/// Consumes a value, and returns its place if it is a text.
pub(crate) fn scan_text(cursor: &mut Cursor<'_>) -> ScanResult<Option<Span>> {
    let is_text = cursor.kind()? == Kind::String;
    let span = cursor.value()?;
    Ok(is_text.then_some(span))
}

/// Consumes a number of answers. A value that is no number asks for one.
pub(crate) fn read_choice_count(cursor: &mut Cursor<'_>) -> ScanResult<u64> {
    let span = cursor.value()?;
    Ok(lenient_number(cursor, &span).unwrap_or(1))
}

/// Returns a name that stands twice in the list.
fn find_duplicate<'n>(names: &'n mut [Cow<'_, [u8]>]) -> Option<&'n [u8]> {
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

/// Returns whether a format, or an object with a format under `format`, asks for JSON.
pub(crate) fn asks_json(value: &[u8]) -> bool {
    let mut found = false;
    let _read = Cursor::new(value).maybe_object(|cursor, key| {
        if *json::name_of(value, &key) == *b"format" {
            return cursor.maybe_members(|key, span| found |= is_json_type(value, &key, &span));
        }
        let span = cursor.value()?;
        found |= is_json_type(value, &key, &span);
        Ok(span)
    });
    found
}

fn is_json_type(text: &[u8], key: &Span, value: &Span) -> bool {
    *json::name_of(text, key) == *b"type"
        && json::text_of(text, value)
            .is_some_and(|kind| matches!(&*kind, "json_schema" | "json_object"))
}

/// Returns a number as the most generous upstream may read it: `1e3` and `"1000"` are a thousand,
/// and a fraction is rounded up. `None` for a value that is no number; the upstream judges it.
pub(crate) fn lenient_number(cursor: &Cursor<'_>, span: &Span) -> Option<u64> {
    let text = cursor.text();
    let number: f64 = match json::integer_of(text, span) {
        Some(whole) => return Some(whole),
        None => json::text_of(text, span).map_or_else(
            || {
                str::from_utf8(json::span_bytes(text, span))
                    .ok()?
                    .parse()
                    .ok()
            },
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
