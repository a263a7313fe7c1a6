//! The parts that several front doors share for bodies that pass to an account of the same format.

use std::borrow::Cow;

use super::{Envelope, PassedRequest};
use crate::neutral::answer::AnswerOptions;
use crate::neutral::seal::{AnswerSeal, Sealed, is_sealed};
use crate::neutral::{AnswerHeader, Thought};
use crate::wire::Event;
use crate::wire::json::{Cursor, ScanResult, Span, name_of, quote_string, span_bytes, text_of};
use crate::wire::splice::Edits;

/// The values that callers see in place of the account's own, in an answer that passes.
#[derive(Debug)]
pub(crate) struct PassedAnswer {
    /// The model, as a JSON text.
    model: String,
    /// Seals the thoughts' signatures. Without it, callers get the account's own.
    seal: Option<AnswerSeal>,
    /// True if the caller asked for the usage of the stream.
    pub(super) shows_usage: bool,
    /// True if the current event signs a thought, as far as its reader knows.
    pub(crate) has_signed: bool,
}

impl PassedAnswer {
    /// Returns the values for the callers of an answer.
    pub(crate) fn new(header: &AnswerHeader, options: &AnswerOptions) -> Self {
        Self {
            model: quote_string(&header.model),
            seal: options.seal.clone(),
            shows_usage: header.show_usage,
            has_signed: false,
        }
    }

    /// Consumes the name of the model, and replaces it.
    pub(super) fn model(&self, cursor: &mut Cursor<'_>, edits: &mut Edits<'_>) -> ScanResult<Span> {
        let value = cursor.value()?;
        edits.replace(value.clone(), self.model.clone().into_bytes());
        Ok(value)
    }

    /// Seals the text of a value. A text that is empty, or too long to be sealed, stays.
    pub(super) fn seal(
        &self,
        value: Option<Span>,
        edits: &mut Edits<'_>,
        seal: fn(&AnswerSeal, &str) -> Option<String>,
    ) {
        let Some((value, with)) = value.zip(self.seal.as_ref()) else {
            return;
        };
        let text = text_of(edits.text(), &value).filter(|text| !text.is_empty());
        if let Some(sealed) = text.and_then(|text| seal(with, &text)) {
            edits.replace(value, quote_string(&sealed).into_bytes());
        }
    }
}

impl PassedRequest<'_> {
    /// Writes the account's name for the model, if it has another one.
    pub(super) fn write_model(&self, edits: &mut Edits<'_>) {
        if self.envelope.model != self.model {
            let place = self.envelope.places.model.clone();
            edits.replace(place, quote_string(self.model).into_bytes());
        }
    }

    /// Lowers a maximum of tokens that is above the model's. Returns both, if it was lowered.
    pub(super) fn lower_max_tokens(&self, edits: &mut Edits<'_>) -> Option<(u64, u64)> {
        let (asked, max_output) = (self.envelope.max_tokens?, self.traits.max_output?);
        let place = self.envelope.places.max_tokens.clone()?;
        if asked <= max_output {
            return None;
        }
        edits.replace(place, max_output.to_string().into_bytes());
        Some((asked, max_output))
    }
}

/// A signature that a caller carries back for the account.
pub(super) enum Carried {
    /// The account's own signature, as it came.
    Unchanged,
    /// A sealed signature. It has the account's own text, as JSON.
    Opened(String),
    /// A signature that means nothing to the account, which would refuse it.
    Lost,
}

impl Carried {
    /// Returns what a caller's signature is. `own` finds the account's own text in a thought that
    /// was sealed.
    pub(super) fn for_text(
        text: &str,
        sealed: Sealed<'_>,
        own: impl FnOnce(Thought<'static>) -> Option<Cow<'static, str>>,
    ) -> Self {
        match sealed {
            Sealed::LeftOut => Self::Lost,
            Sealed::Closed | Sealed::Opened(_) if is_sealed(text) => sealed
                .open_one(text)
                .and_then(own)
                .map_or(Self::Lost, |own| Self::Opened(quote_string(&own))),
            Sealed::Closed | Sealed::Opened(_) if text.is_empty() => Self::Lost,
            Sealed::Closed | Sealed::Opened(_) => Self::Unchanged,
        }
    }
}

/// Returns a whole answer after some edits.
pub(super) fn edit_answer<'t>(
    body: &'t [u8],
    edit: impl FnOnce(&mut Cursor<'t>, &mut Edits<'t>) -> ScanResult<Span>,
) -> Vec<u8> {
    let mut edits = Edits::new(body);
    let mut out = Vec::new();
    // The answer was read before.
    let _read = edit(&mut Cursor::new(body), &mut edits);
    edits.apply_into(&mut out);
    out
}

/// Appends an event after some edits to its data. Clients drop an event without a name, and some
/// servers have the name in the data only.
pub(super) fn append_event<'d>(
    event: &Event<'d>,
    edit: impl FnOnce(&[u8], &mut Edits<'d>),
    out: &mut Vec<u8>,
) {
    let Event { name, data } = *event;
    let type_name = if name.is_empty() {
        event_type(data)
    } else {
        None
    };
    let name = type_name.as_deref().map_or(name, str::as_bytes);
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\ndata: ");
    let mut edits = Edits::new(data);
    edit(name, &mut edits);
    edits.apply_into(out);
    out.extend_from_slice(b"\n\n");
}

/// Returns the type of an event, if it can be a name.
fn event_type(data: &[u8]) -> Option<String> {
    let mut kind = None;
    let _read = Cursor::new(data).maybe_members(|key, value| {
        if *name_of(data, &key) == *b"type" {
            kind = text_of(data, &value).map(Cow::into_owned);
        }
    });
    kind.filter(|kind| {
        kind.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    })
}

/// Asks for the usage, or removes `stream_options`.
pub(crate) fn stream_options(envelope: &Envelope, ask_usage: bool, edits: &mut Edits<'_>) {
    let body = edits.text();
    match (
        &envelope.places.stream_options,
        &envelope.places.include_usage,
    ) {
        (Some(_), _) if !ask_usage => {
            if let Some((key, value)) = top_member(body, "stream_options") {
                edits.remove_member(&key, &value);
            }
        }
        (None, _) if !ask_usage => {}
        (None, _) => edits.insert_member(
            envelope.places.open,
            &br#""stream_options":{"include_usage":true}"#[..],
        ),
        (Some(_), Some(usage_span)) if span_bytes(body, usage_span) == b"true" => {}
        (Some(_), Some(usage_span)) => edits.replace(usage_span.clone(), &b"true"[..]),
        (Some(options), None) if span_bytes(body, options) == b"null" => {
            edits.replace(options.clone(), &br#"{"include_usage":true}"#[..]);
        }
        (Some(options), None) => {
            edits.insert_member(options.start, &br#""include_usage":true"#[..])
        }
    }
}

/// Finds the key and the value of a member of the top object.
fn top_member(body: &[u8], name: &str) -> Option<(Span, Span)> {
    let mut found = None;
    let read = Cursor::new(body).members(|key, value| {
        if *name_of(body, &key) == *name.as_bytes() {
            found = Some((key, value));
        }
    });
    read.ok().and(found)
}

#[cfg(test)]
mod tests;
