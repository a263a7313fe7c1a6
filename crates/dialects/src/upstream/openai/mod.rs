//! OpenAI's chat completions, for all servers that speak them more or less.
//!
//! Requests and answers keep their bytes. They are scanned, and only spans that the standard, or a
//! server's [`Quirks`](super::quirks::Quirks), want otherwise are edited. So unknown fields, the
//! order of keys and the form of numbers survive.
//!
//! **Invariant:** every answer has an id, a time, the right `object`, the caller's model id,
//! numbered choices with role and finish reason, and a usage whose total is true, whatever the
//! upstream left out. Half an answer never becomes a whole one: an answer without its end is a
//! fault.
//!
//! | Module | What it does |
//! |---|---|
//! | | *Requests* |
//! | `request` | turns the caller's request into the account's |
//! | `rewrite` | changes a request as a server's quirks require |
//! | `call_ids` | makes ids of calls for Mistral's server |
//! | `compose` | writes a request of another format as a chat completion |
//! | `breakpoints` | writes texts, and where a prompt cache may end |
//! | `nesting` | writes what chat completions and Responses share: tools, formats |
//! | | *Whole answers* |
//! | `plain` | reads an answer that is standard already, in one scan |
//! | `answer` | corrects all other answers |
//! | | *Streams* |
//! | `chunks` | corrects the chunks of a stream |
//! | `template` | corrects a chunk that repeats the one before but for its text |
//! | `event` | writes a chunk as an event |
//! | `stray` | finds errors in lines that belong to no event |
//! | | *Parts of answers and chunks* |
//! | `scan` | finds the places of the members, in one scan |
//! | `head` | corrects the fields that all chunks share |
//! | `choice` | corrects a choice, by its state |
//! | `calls` | corrects the fragments of calls |
//! | `content` | makes content a string |
//! | `parts` | reads content that is a list |
//! | `reasoning` | shows thinking under one name, or removes it |
//! | `names` | has the names that servers give to thinking |
//! | `finish` | maps finish reasons to OpenAI's five |
//! | `meter` | corrects the usage |
//! | | *Answers for callers of another format* |
//! | `standard` | reads corrected answers and chunks as events |
//! | | *All else* |
//! | `error` | reads errors in every form |
//! | `responses` | the protocol of OpenAI's Responses |
//! | `embed` | the protocol of vectors |
//! | `other_endpoints` | the protocols of endpoints without a conversation |

mod answer;
mod breakpoints;
mod call_ids;
mod calls;
mod choice;
mod chunks;
mod compose;
mod content;
pub(crate) mod embed;
mod error;
mod event;
mod finish;
mod head;
mod meter;
mod names;
mod nesting;
pub(crate) mod other_endpoints;
mod parts;
mod plain;
mod reasoning;
mod request;
pub(crate) mod responses;
mod rewrite;
mod scan;
mod standard;
mod stray;
mod template;

pub use answer::{answer_as_stream, correct_answer, reported_usage};
pub(crate) use chunks::Chunks;
pub(crate) use compose::{compose_request, is_thinking_model};
pub(crate) use error::{find_error, unfinished_answer};
pub use error::{read_error, read_refusal};
pub use request::{WriteTarget, write_request};
pub(crate) use standard::{StandardChunks, read_answer};
pub use stray::Strays;

use std::borrow::Cow;

use super::endpoint_protocols;
use super::listing::ONE_PAGE;
use super::protocol::{
    AccountField, BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol,
};
use super::servers::OPENAI;
use crate::neutral::traits::Traits;
use crate::neutral::{Endpoint, Servers};

/// Returns the known abilities of a model by its name.
pub(super) fn model_traits(model: &str) -> Traits {
    Traits {
        cache_breakpoints: breakpoints::knows_breakpoints(model),
        ..Traits::UNKNOWN
    }
}

const FACTS: DialectFacts = DialectFacts {
    name: "openai",
    about: "OpenAI, and every server that imitates its chat completions. `key` is sent as a bearer.",
    provider: "openai",
    servers: OPENAI,
    own_fields: &[AccountField::Preset, AccountField::Quirks],
    litellm: Litellm::NONE,
    base_url: BaseUrl::Fixed("https://api.openai.com/v1"),
    key_header: None,
    prices: |_| Prices::Listed,
    translation: None,
    error: |settings, head, body| {
        read_refusal(settings.quirks, head.status, body, head.content_type)
    },
};

/// OpenAI, and every server that imitates it.
pub static PROTOCOL: Protocol = Protocol {
    endpoints: Endpoints {
        protocols: &PROTOCOLS,
        default_endpoints: |_, host| if is_own(host) { &OF_OPENAI } else { &OF_OTHERS },
        listing: Some(ONE_PAGE),
        ..ENDPOINTS
    },
    traits: model_traits,
    key_variable: Some("OPENAI_API_KEY"),
    is_imitated: true,
    ..Protocol::common(FACTS)
};

static PROTOCOLS: [Protocol; Endpoint::ALL.len()] = endpoint_protocols(&PROTOCOL, &Endpoint::ALL);
static OF_OPENAI: [Endpoint; Servers::OpenAi.count()] = Servers::OpenAi.kinds();
pub(super) static OF_OTHERS: [Endpoint; Servers::Others.count()] = Servers::Others.kinds();

/// Returns whether a host is one of OpenAI's own, in any region.
fn is_own(host: &str) -> bool {
    host.strip_suffix("api.openai.com")
        .is_some_and(|region| region.is_empty() || region.ends_with('.'))
}

/// Returns a small count as a JSON number. Usually nothing is allocated.
fn number_literal(number: usize) -> Cow<'static, [u8]> {
    const ONE: &[u8; 10] = b"0123456789";
    match ONE.get(number..=number) {
        Some(digit) => Cow::Borrowed(digit),
        None => Cow::Owned(number.to_string().into_bytes()),
    }
}

#[cfg(test)]
mod tests;
