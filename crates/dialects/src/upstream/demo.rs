//! The demo account answers by itself, so a first request works without any real account.
//!
//! It acts as an upstream. Its answer is in OpenAI's real format, and is read like the answer of
//! any other server. It gives one choice. It calls tools, answers in a JSON Schema, and shows some
//! words of thinking, where the request asks for that. It counts each word as a token. Some of its
//! models fail on purpose, to show how the gateway handles failures.

mod calls;
mod others;
mod sample;

use std::time::Duration;

use super::protocol::{BaseUrl, DialectFacts, ENDPOINTS, Endpoints, Litellm, Prices, Protocol};
use super::{endpoint_protocols, openai};
use crate::front::STANDARD;
use crate::neutral::answer::{AnswerOptions, Draft};
use crate::neutral::traits::{Thinking, Traits};
use crate::neutral::{
    AnswerHeader, Effort, Event, Family, Finish, Format, PartKind, Request, Servers, Tokens,
};
use calls::NextAct;

const FACTS: DialectFacts = DialectFacts {
    name: "demo",
    about: "Answers by itself, without a network and without a credential: for trying things out.",
    provider: "demo",
    servers: &[],
    own_fields: &[],
    litellm: Litellm::NONE,
    base_url: BaseUrl::Nowhere,
    key_header: None,
    prices: |_| Prices::Free,
    translation: None,
    error: |_, head, body| openai::read_error(body, head.content_type),
};

/// The demo account, which makes no calls.
pub static PROTOCOL: Protocol = Protocol {
    endpoints: Endpoints {
        protocols: &PROTOCOLS,
        default_endpoints: |_, _| &openai::OF_OTHERS,
        ..ENDPOINTS
    },
    traits: |_| Traits {
        thinking: Thinking::Effort,
        ..Traits::UNKNOWN
    },
    is_imitated: true,
    family: Some(Family::Demo),
    ..Protocol::common(FACTS)
};

static PROTOCOLS: [Protocol; Servers::Others.count()] =
    endpoint_protocols(&openai::PROTOCOL, &openai::OF_OTHERS);

/// The pause before the first word of the slow model: longer than callers wait for a sign of life.
const SLOW: Duration = Duration::from_secs(30);
/// The seconds after which the busy model may be asked again.
const RETRY_AFTER: u64 = 5;

/// An answer of the demo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The seconds after which the demo may be asked again.
    pub retry_after: Option<u64>,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub pieces: Vec<Piece>,
    /// True if the connection breaks after the pieces.
    pub breaks: bool,
}

/// A part of the demo's answer, and the pause before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The pause before the part is sent. It imitates a model, and makes the streaming visible.
    pub pause: Duration,
    /// The bytes. In a stream, they are whole server-sent events.
    pub bytes: Vec<u8>,
}

/// Returns the answer to a request's body at a path. `length` is the length of the whole body; of a
/// form, `body` has less. Returns `None` if the model that it names is down, and so gives no
/// answer.
pub fn demo_reply(path: &str, body: &[u8], length: usize, stream: bool) -> Option<Reply> {
    if let Some(answer) = others::answer_path(path, body, length) {
        return Some(
            answer.map_or_else(refusal_reply, |(content_type, pieces)| Reply {
                status: 200,
                retry_after: None,
                content_type,
                pieces: add_pauses(pieces),
                breaks: false,
            }),
        );
    }
    let model = STANDARD
        .envelope(body)
        .map(|envelope| envelope.model)
        .unwrap_or_default();
    match model.as_str() {
        "demo-down" => return None,
        "demo-429" => return Some(busy_reply()),
        _ => {}
    }
    let request = (STANDARD.read)(body)
        .map(|(request, _)| request)
        .unwrap_or_default();
    let demo_answer = DemoAnswer::for_request(&request);
    let mut pieces = demo_answer.pieces(stream);
    let breaks = model == "demo-broken";
    if breaks && stream {
        pieces.truncate(pieces.len() / 2);
    } else if breaks {
        pieces
            .iter_mut()
            .for_each(|piece| piece.bytes.truncate(piece.bytes.len() / 2));
    }
    if let Some(first) = pieces.first_mut().filter(|_| model == "demo-slow") {
        first.pause = SLOW;
    }
    let content_type = if stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    Some(Reply {
        status: 200,
        retry_after: None,
        content_type,
        pieces,
        breaks,
    })
}

/// Returns the tokens of a request's body, as its answer reports them.
pub fn count_tokens(body: &[u8]) -> u64 {
    let words = (STANDARD.read)(body).map(|(request, _)| words_read(&request));
    u64::try_from(words.unwrap_or_default()).unwrap_or(u64::MAX)
}

/// Returns the answer of a server that has too many requests.
fn busy_reply() -> Reply {
    let bytes = br#"{"error":{"message":"The demo-429 model always has too many requests.","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#;
    Reply {
        status: 429,
        retry_after: Some(RETRY_AFTER),
        content_type: "application/json",
        pieces: vec![Piece {
            pause: Duration::ZERO,
            bytes: bytes.to_vec(),
        }],
        breaks: false,
    }
}

/// Returns the answer to a request that asks for too much.
fn refusal_reply(message: String) -> Reply {
    let error = serde_json::json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null } });
    let pieces = add_pauses(vec![error.to_string().into_bytes()]);
    Reply {
        status: 400,
        retry_after: None,
        content_type: "application/json",
        pieces,
        breaks: false,
    }
}

/// Puts a pause before each piece but the first.
fn add_pauses(pieces: Vec<Vec<u8>>) -> Vec<Piece> {
    let pauses = std::iter::once(Duration::ZERO).chain(std::iter::repeat(BETWEEN_WORDS));
    pauses
        .zip(pieces)
        .map(|(pause, bytes)| Piece { pause, bytes })
        .collect()
}

/// The content of the demo's answer.
#[derive(Default)]
struct DemoAnswer {
    reasoning: &'static str,
    text: String,
    /// The names of the tools that it calls, and the arguments.
    calls: Vec<(String, String)>,
    /// True if the text gives the reason why there is no answer in the requested format.
    declines: bool,
    /// True if the text is cut, because it would be longer than the request allows.
    is_cut: bool,
    /// The place of the answer in the conversation, for the ids of its calls.
    answer_index: usize,
    /// The number of words in the prompt.
    prompt: usize,
}

/// The words in the place of a model's thinking.
const THINKING: &str =
    "The demo does not think. It shows these words where the thinking of a model would stand.";

impl DemoAnswer {
    fn for_request(request: &Request<'_>) -> DemoAnswer {
        let mut demo_answer = DemoAnswer {
            answer_index: request.messages.len(),
            prompt: words_read(request),
            ..DemoAnswer::default()
        };
        if request
            .effort()
            .is_some_and(|effort| effort != Effort::None)
        {
            demo_answer.reasoning = THINKING;
        }
        match calls::next_act(request) {
            NextAct::Call(calls) => demo_answer.calls = calls,
            NextAct::Text(text) => demo_answer.set_text(text, request.max_tokens),
            NextAct::Answer => match &request.format {
                None => demo_answer.set_text(plain_answer(request), request.max_tokens),
                Some(Format::JsonObject) => demo_answer.text = r#"{"demo":"an object"}"#.to_owned(),
                Some(Format::JsonSchema { schema, .. }) => {
                    match sample::sample_for_schema(schema.as_deref().unwrap_or("{}"), "demo") {
                        Some(json) => demo_answer.text = json,
                        None => {
                            demo_answer.declines = true;
                            demo_answer.text =
                                "The demo cannot make up an answer for this JSON Schema."
                                    .to_owned();
                        }
                    }
                }
            },
        }
        demo_answer
    }

    /// Sets the text, or as much of it as the request allows.
    fn set_text(&mut self, text: String, max_words: Option<u64>) {
        let max_words = max_words
            .and_then(|max_tokens| usize::try_from(max_tokens).ok())
            .unwrap_or(usize::MAX);
        self.is_cut = text.split_inclusive(' ').count() > max_words;
        self.text = if self.is_cut {
            text.split_inclusive(' ').take(max_words).collect()
        } else {
            text
        };
    }

    /// Returns the answer, whole or as a stream, with one word or one call in each event. A long
    /// text ends with one event for the rest of it.
    fn pieces(&self, is_stream: bool) -> Vec<Piece> {
        let header = AnswerHeader {
            show_usage: true,
            ..AnswerHeader::default()
        };
        let writer = if is_stream {
            STANDARD.stream
        } else {
            STANDARD.whole
        };
        let mut draft = Draft::new(&header, AnswerOptions::default(), writer(&header));
        let mut written = Vec::new();
        for word in split_words(self.reasoning) {
            draft.take(Event::Reasoning(0, word));
            written.push(std::mem::take(draft.out()));
        }
        for word in split_words(&self.text) {
            draft.take(if self.declines {
                Event::Refusal(0, word)
            } else {
                Event::Text(0, word)
            });
            written.push(std::mem::take(draft.out()));
        }
        for (number, (name, arguments)) in self.calls.iter().enumerate() {
            let id = format!("call_demo_{}_{number}", self.answer_index);
            draft.take(Event::Call {
                choice: 0,
                id: Some(&id),
                name,
                signature: None,
            });
            draft.take(Event::Arguments(0, arguments));
            written.push(std::mem::take(draft.out()));
        }
        draft.take(Event::Usage(self.usage()));
        draft.take(Event::Finish(
            0,
            if self.is_cut {
                Finish::Length
            } else {
                Finish::Stop
            },
        ));
        draft.take(Event::End);
        // It has a choice, and so an end.
        let _usage = draft.end(None);
        written.push(std::mem::take(draft.out()));
        written.retain(|bytes| !bytes.is_empty());
        add_pauses(written)
    }

    /// Returns the usage: one token for each word of the prompt, of the thinking and of the answer.
    fn usage(&self) -> Tokens {
        let words = |text: &str| text.split_whitespace().count();
        let number = |count: usize| u64::try_from(count).ok();
        let thought = words(self.reasoning);
        let called: usize = self
            .calls
            .iter()
            .map(|(_, arguments)| words(arguments) + 1)
            .sum();
        Tokens {
            prompt: number(self.prompt),
            completion: number(thought + called + words(&self.text)),
            reasoning: number(thought),
            ..Tokens::default()
        }
    }
}

/// The most words of a text that have an event each.
const MOST_WORDS: usize = 200;
/// The pause between words: long enough to be seen on a terminal, short enough for a test.
const BETWEEN_WORDS: Duration = Duration::from_millis(15);

/// Returns the words of a text, and the rest of a long text as one piece.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_inclusive(' ').take(MOST_WORDS);
    let rest = text
        .get(words.clone().map(str::len).sum()..)
        .filter(|rest| !rest.is_empty());
    words.chain(rest)
}

fn plain_answer(request: &Request<'_>) -> String {
    let tools = match calls::suggested_tool(request) {
        Some(tool) => {
            let name = calls::short_name(tool);
            format!(
                " and {}: write \"call {name}\", and the demo calls it",
                with_count(request.tools.len(), "tool")
            )
        }
        None => String::new(),
    };
    format!(
        "This is the demo account of Portcullis. No model was asked: this answer is always the same. \
         The request had {}{tools}. Write a real account and a model into catalog.yaml, and ask again.",
        with_count(request.messages.len(), "message")
    )
}

/// Returns a number with its noun, such as `1 tool` and `2 tools`.
fn with_count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Counts the words of the conversation's texts.
fn words_read(request: &Request<'_>) -> usize {
    let parts = request.messages.iter().flat_map(|message| &message.content);
    parts
        .map(|part| match &part.kind {
            PartKind::Text(text) => text.split_whitespace().count(),
            PartKind::Image(..) | PartKind::Audio(..) | PartKind::File(..) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests;
