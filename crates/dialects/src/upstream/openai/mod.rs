//! OpenAI's chat completions, towards servers that speak them more or less.
//!
//! Requests and answers pass as the bytes they are: they are scanned, and only the spans that are
//! not as the standard, or a server's [`Quirks`](super::quirks::Quirks), want them are edited. So
//! unknown fields, key order and number forms survive. What always holds of an answer, whatever the
//! upstream left out: an id, a time, the right `object`, the caller's model id, numbered choices
//! with role and finish reason, and a usage whose total is true. A whole answer is never made out
//! of half a one: where the end is missing, the answer is a fault.

mod answer;
mod call_ids;
mod calls;
mod choice;
mod chunks;
mod content;
mod error;
mod event;
mod finish;
mod head;
mod meter;
mod names;
mod parts;
mod pattern;
mod reasoning;
mod request;
mod rewrite;
mod shape;
mod stray;

pub use answer::{answer, converted};
pub(crate) use chunks::Chunks;
pub(crate) use error::{NO_REASON, gave_up};
pub use error::{error, refusal};
pub use request::{To, request};
pub use stray::Strays;

use std::borrow::Cow;

use super::protocol::{BaseUrl, Protocol};
use crate::wire::json::{Span, slice};

/// OpenAI, and every server that imitates it.
pub static PROTOCOL: Protocol = Protocol {
    name: "openai",
    about: "OpenAI, and every server that imitates its chat completions. `key` is sent as a bearer.",
    base_url: BaseUrl::At("https://api.openai.com/v1"),
    key_variable: Some("OPENAI_API_KEY"),
    error: |settings, head, body| refusal(settings.quirks, head.status, body, head.content_type),
    is_imitated: true,
    ..Protocol::COMMON
};

/// Returns a JSON number for a small count, without allocation in the ordinary case.
fn digits(number: usize) -> Cow<'static, [u8]> {
    const ONE: &[u8; 10] = b"0123456789";
    match ONE.get(number..=number) {
        Some(digit) => Cow::Borrowed(digit),
        None => Cow::Owned(number.to_string().into_bytes()),
    }
}

/// Returns a string's literal as the text has it, if it is a string and not empty.
fn filled<'a>(text: &'a [u8], span: &Span) -> Option<&'a [u8]> {
    let literal = slice(text, span);
    (literal.len() > 2 && literal.starts_with(b"\"")).then_some(literal)
}

#[cfg(test)]
mod tests;
