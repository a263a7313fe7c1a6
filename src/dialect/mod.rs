//! The seam between the callers' format and an account's: what the rest of the gateway knows of
//! either.
//!
//! Callers speak OpenAI's chat completions. An account speaks a [`Dialect`]; matching on it is the
//! extension point, one module a dialect. Where both formats are the same, [`openai`], the bytes
//! pass through but for the spans that must change; all others are written from and read into the
//! neutral form, [`chat`]. Everything here is pure: bytes in, bytes out; no clock, no randomness,
//! no sockets: what an answer needs of them comes in its [`Face`].

pub mod anthropic;
pub mod azure;
pub mod bedrock;
pub mod chat;
pub mod cohere;
pub mod demo;
mod flat;
mod flaws;
pub mod gemini;
mod lenient;
mod mark;
pub mod ollama;
pub mod openai;
pub mod presets;
pub mod references;
mod stream;
pub mod traits;
pub mod translated;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::intake::envelope::Envelope;
use crate::price::ShowCost;
use crate::usage::Usage;
use chat::speak::{Kept, Manner};
use chat::{Emit, Losses, Refused, Target, Undo};
use openai::Quirks;
use traits::Traits;
use translated::{Framing, Stream as Translated};

pub use flaws::Flaws;
pub use stream::Stream;

/// The wire format that an account speaks, with those of its settings that decide how it is
/// written.
#[derive(Debug, Clone)]
pub enum Dialect {
    /// OpenAI's chat completions, and every server that imitates them, more or less.
    OpenAi(&'static Quirks),
    /// The same at Azure, with deployments in the path where a dated version is named.
    Azure(Option<Arc<str>>),
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// The same on Vertex AI.
    Vertex {
        /// Whose it is.
        project: Arc<str>,
        /// Where it runs.
        location: Arc<str>,
    },
    /// AWS Bedrock's Converse, in this region.
    Bedrock(Arc<str>),
    /// Cohere's chat, v2.
    Cohere,
    /// Ollama's own chat.
    Ollama,
    /// Answers by itself, in OpenAI's format and without a network.
    Demo,
}

/// What writing a request needs to know.
pub struct Ask<'a> {
    /// The caller's body.
    pub body: &'a Bytes,
    /// What was read of it.
    pub envelope: &'a Envelope,
    /// The target's name for the model.
    pub model: &'a str,
    /// What this model can do.
    pub traits: Traits,
    /// For requests that are silent about it.
    pub default_max_tokens: Option<u64>,
    /// How long a buffered answer may take in all, where that bounds how long it should be.
    pub within: Option<Duration>,
    /// Whether the account's server may be asked for the usage of a stream.
    pub stream_usage: bool,
    /// The thoughts that came before a call, where they were kept.
    pub kept: &'a dyn Fn(&str) -> Option<chat::Kept>,
}

/// A request as it goes up.
pub struct Said {
    /// What follows the base URL, the query included.
    pub path: Cow<'static, str>,
    /// The body, in parts.
    pub body: Vec<Bytes>,
    /// Headers that it needs, besides those that every request has.
    pub headers: Vec<(&'static str, &'static str)>,
    /// How much of it is not the caller's own bytes.
    pub copied: usize,
    /// What it does not say of what the caller said.
    pub losses: Losses,
    /// What reading the answer must undo.
    pub undo: Undo,
}

/// Where signed thoughts come from: one family's mean nothing to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Claude, wherever it runs.
    Claude,
    /// Gemini.
    Gemini,
}

impl Dialect {
    /// The words for them in the catalog.
    pub const NAMES: [&'static str; 9] =
        ["openai", "azure", "anthropic", "gemini", "vertex", "bedrock", "cohere", "ollama", "demo"];

    /// The word for it in the catalog.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OpenAi(_) => "openai",
            Self::Azure(_) => "azure",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Vertex { .. } => "vertex",
            Self::Bedrock(_) => "bedrock",
            Self::Cohere => "cohere",
            Self::Ollama => "ollama",
            Self::Demo => "demo",
        }
    }

    /// Whether it calls nobody.
    pub fn is_demo(&self) -> bool {
        matches!(self, Self::Demo)
    }

    /// What is known of a model by its name.
    pub fn traits(&self, model: &str) -> Traits {
        match self {
            Self::OpenAi(_) | Self::Azure(_) | Self::Demo => Traits::UNKNOWN,
            Self::Anthropic => anthropic::traits(model),
            Self::Gemini | Self::Vertex { .. } => gemini::traits(model),
            Self::Bedrock(_) => bedrock::traits(model),
            Self::Cohere => cohere::traits(model),
            Self::Ollama => ollama::traits(model),
        }
    }

    /// Whose signed thoughts it takes and gives.
    pub fn family(&self) -> Option<Family> {
        match self {
            Self::Anthropic | Self::Bedrock(_) => Some(Family::Claude),
            Self::Gemini | Self::Vertex { .. } => Some(Family::Gemini),
            Self::OpenAi(_) | Self::Azure(_) | Self::Cohere | Self::Ollama | Self::Demo => None,
        }
    }

    /// Writes a request.
    pub fn write(&self, ask: &Ask<'_>) -> Result<Said, Refused> {
        let stream = ask.envelope.stream;
        let path: Cow<'static, str> = match self {
            Self::OpenAi(_) | Self::Demo => "/chat/completions".into(),
            Self::Azure(version) => azure::path(version.as_deref(), ask.model).into(),
            Self::Anthropic => anthropic::path().into(),
            Self::Gemini => gemini::path(ask.model, stream).into(),
            Self::Vertex { project, location } => gemini::vertex_path(project, location, ask.model, stream).into(),
            Self::Bedrock(_) => bedrock::path(ask.model, stream).into(),
            Self::Cohere => "/chat".into(),
            Self::Ollama => "/api/chat".into(),
        };
        let quirks = match self {
            Self::OpenAi(quirks) => quirks,
            Self::Demo => &Quirks::NONE,
            Self::Azure(version) => azure::quirks(version.as_deref()),
            Self::Anthropic => return translate(ask, path, anthropic::request),
            Self::Gemini => return translate(ask, path, gemini::request),
            Self::Vertex { .. } => return translate(ask, path, gemini::vertex_request),
            Self::Bedrock(_) => return translate(ask, path, bedrock::request),
            Self::Cohere => return translate(ask, path, cohere::request),
            Self::Ollama => return translate(ask, path, ollama::request),
        };
        // What cannot be read here is for the account's server to judge, as is everything else that
        // passes through.
        if ask.traits.deny()
            && let Ok(request) = chat::read::read(ask.body)
        {
            ask.traits.check(&request)?;
        }
        let to = openai::To {
            model: ask.model,
            ask_usage: stream && ask.stream_usage,
            fill_max_tokens: ask.default_max_tokens,
            quirks,
        };
        let (body, losses) = openai::request(ask.body, ask.envelope, &to)?;
        Ok(Said { path, body, headers: Vec::new(), copied: 0, losses, undo: Undo::default() })
    }

    /// Whether a model of this name has no business in a path, where this dialect would write it:
    /// even percent-encoded, since what stands behind us may decode it.
    pub fn cannot_address(&self, model: &str) -> bool {
        let in_path = match self {
            Self::Azure(version) => version.is_some(),
            Self::Gemini | Self::Vertex { .. } | Self::Bedrock(_) => true,
            Self::OpenAi(_) | Self::Anthropic | Self::Cohere | Self::Ollama | Self::Demo => false,
        };
        let leaves = || {
            model.contains(['?', '#', '\\'])
                || model.chars().any(char::is_control)
                || model.split('/').any(|part| matches!(part, "" | "." | ".."))
        };
        in_path && leaves()
    }

    /// Reads a buffered answer.
    pub fn answer(
        &self,
        model: &str,
        face: &Face,
        manner: &Manner,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        match self.telling() {
            Telling::Itself(quirks) => {
                openai::answer(face, quirks, !manner.hide_reasoning, body).map(|answer| (answer, Vec::new()))
            }
            Telling::Events(tell) => translated::repairing(body, |body| {
                translated::answer(face, manner.clone(), |emit| tell(model, body, emit))
            }),
        }
    }

    /// Reads a buffered answer that came where a stream was asked for, and writes it as one. Its
    /// head can tell all of the trail.
    pub fn converted(
        &self,
        model: &str,
        face: &Face,
        manner: &Manner,
        body: &[u8],
    ) -> Result<(Answer, Vec<Kept>), AnswerFault> {
        match self.telling() {
            Telling::Itself(quirks) => {
                openai::converted(face, quirks, !manner.hide_reasoning, body).map(|answer| (answer, Vec::new()))
            }
            Telling::Events(tell) => translated::repairing(body, |body| {
                translated::converted(face, manner.clone(), |emit| tell(model, body, emit))
            }),
        }
    }

    fn telling(&self) -> Telling {
        match self {
            Self::OpenAi(quirks) => Telling::Itself(quirks),
            Self::Azure(_) | Self::Demo => Telling::Itself(&Quirks::NONE),
            Self::Anthropic => Telling::Events(|_, body, emit| anthropic::answer(body, emit)),
            Self::Gemini | Self::Vertex { .. } => Telling::Events(|_, body, emit| gemini::answer(body, emit)),
            Self::Bedrock(_) => Telling::Events(bedrock::answer),
            Self::Cohere => Telling::Events(|_, body, emit| cohere::answer(body, emit)),
            Self::Ollama => Telling::Events(|_, body, emit| ollama::answer(body, emit)),
        }
    }

    /// How a stream of it is cut into events.
    pub fn framing(&self) -> Framing {
        match self {
            Self::Bedrock(_) => Framing::Frames,
            Self::Ollama => Framing::Lines,
            Self::OpenAi(_)
            | Self::Azure(_)
            | Self::Anthropic
            | Self::Gemini
            | Self::Vertex { .. }
            | Self::Cohere
            | Self::Demo => Framing::Events,
        }
    }

    /// What the header `accept` says.
    pub fn accept(&self) -> &'static str {
        match self.framing() {
            Framing::Events => "application/json, text/event-stream",
            Framing::Lines => "application/json, application/x-ndjson",
            Framing::Frames => "application/json, application/vnd.amazon.eventstream",
        }
    }

    /// The reading of one stream; no event may be longer than `event_limit` bytes.
    pub fn stream(&self, model: &str, face: &Face, manner: Manner, event_limit: usize) -> Stream {
        let reader: Box<dyn chat::Reader> = match self {
            Self::OpenAi(_) | Self::Azure(_) | Self::Demo => {
                let quirks = if let Self::OpenAi(quirks) = self { quirks } else { &Quirks::NONE };
                return Stream::Passed(Box::new(openai::Stream::new(
                    face,
                    quirks,
                    !manner.hide_reasoning,
                    event_limit,
                )));
            }
            Self::Anthropic => Box::new(anthropic::Reader::default()),
            Self::Gemini | Self::Vertex { .. } => Box::new(gemini::Reader::default()),
            Self::Bedrock(_) => Box::new(bedrock::Reader::new(model)),
            Self::Cohere => Box::new(cohere::Reader::new()),
            Self::Ollama => Box::new(ollama::Reader::new()),
        };
        Stream::Translated(Box::new(Translated::new(face, manner, self.framing(), reader, event_limit)))
    }

    /// The status that an error means, which may be another than the one it came with.
    pub fn meant(&self, seen: u16, error: &UpstreamError) -> u16 {
        // A server that imitates OpenAI's may say in the body whose fault it is, but not that a
        // fault of its own is the caller's; a filter is none.
        let is_loose =
            matches!(self, Self::OpenAi(_) | Self::Demo) && !(400..500).contains(&seen) && !error.is_filtered();
        error.status.filter(|_| !is_loose).unwrap_or(seen)
    }

    /// Reads an answer whose status says that it is an error.
    pub fn error(&self, head: &ErrorHead<'_>, body: &[u8]) -> UpstreamError {
        match self {
            Self::OpenAi(quirks) => openai::refusal(quirks, head.status, body, head.content_type),
            Self::Demo => openai::error(body, head.content_type),
            Self::Azure(_) => azure::error(head.status, body, head.content_type),
            Self::Anthropic => anthropic::error(head.status, head.content_type, body),
            Self::Gemini | Self::Vertex { .. } => gemini::error(head.status, head.content_type, body),
            Self::Bedrock(_) => bedrock::error(head.status, head.error_type, head.content_type, body),
            Self::Cohere => cohere::error(head.status, head.content_type, body),
            Self::Ollama => ollama::error(head.status, head.content_type, body),
        }
    }
}

/// What an error's head says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorHead<'a> {
    /// The status.
    pub status: u16,
    /// `content-type`
    pub content_type: Option<&'a str>,
    /// `x-amzn-errortype`: what AWS calls it.
    pub error_type: Option<&'a str>,
}

/// How a buffered answer is read.
enum Telling {
    /// It is the standard's own, but for these.
    Itself(&'static Quirks),
    /// As events.
    Events(fn(&str, &[u8], Emit<'_>) -> Result<(), AnswerFault>),
}

type Write = fn(&chat::Request<'_>, &Target<'_>) -> Result<chat::Written, Refused>;

fn translate(ask: &Ask<'_>, path: Cow<'static, str>, write: Write) -> Result<Said, Refused> {
    let request = chat::read::read(ask.body)?;
    let target = Target {
        model: ask.model,
        traits: ask.traits,
        default_max_tokens: ask.default_max_tokens,
        stream: ask.envelope.stream,
        within: ask.within.filter(|_| !ask.envelope.stream),
        kept: ask.kept,
    };
    let written = write(&request, &target)?;
    let copied = written.body.len();
    Ok(Said {
        path,
        body: vec![written.body.into()],
        headers: written.headers,
        copied,
        losses: written.losses,
        undo: written.undo,
    })
}

/// What every answer of one exchange shows, whatever the upstream said.
#[derive(Debug, Clone, Default)]
pub struct Face {
    /// The model id that the caller asked for.
    pub model: String,
    /// The answer's id where the upstream gives none. Unique: generated tool-call ids build on it.
    pub id: String,
    /// The answer's time (Unix seconds) where the upstream gives none.
    pub created: u64,
    /// Streams: the caller asked for the usage chunk.
    pub show_usage: bool,
    /// UTF-8 bytes of the prompt's text, for the estimate where the upstream counts nothing.
    pub prompt_bytes: u64,
    /// Whether the usage says what the answer cost, which depends on who gives it.
    pub cost: ShowCost,
    /// The content must be JSON.
    pub wants_json: bool,
}

/// A whole answer in the callers' format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The body to send.
    pub body: Vec<u8>,
    /// What it cost.
    pub usage: Usage,
    /// It says nothing to the caller but that it will not answer: a refusal, or a content filter's
    /// finish, and no text and no call.
    pub declined: bool,
    /// What is wrong with it, though it is whole.
    pub flaws: Flaws,
}

/// Why what a healthy status announced is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerFault {
    /// The body is an error that came with a status of success.
    Upstream(UpstreamError),
    /// The body is no answer of this dialect. The text never quotes it.
    Nonsense(&'static str),
}

/// Why a stream ends without being whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// The upstream reported an error inside the stream.
    Upstream(UpstreamError),
    /// An event is malformed, or too large. The text never quotes it.
    Broken(&'static str),
    /// The stream ended before the answer did.
    Cut,
}

/// An upstream's error, read from whatever shape it came in. Not yet scrubbed of secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// The HTTP status that says what this is, if the body names one, or is to be read as one,
    /// whatever the answer's own was.
    pub status: Option<u16>,
    /// OpenAI's `type`.
    pub kind: Option<String>,
    /// OpenAI's `code`; a number becomes its digits.
    pub code: Option<String>,
    /// The request's field at fault.
    pub param: Option<String>,
    /// What happened: the upstream's own words where its body has a known shape, else ours.
    pub message: String,
    /// The start of a body of no known shape (a web page, say): for a log, never for a caller.
    pub excerpt: Option<Box<str>>,
    /// When to come back, where the body says it.
    pub retry_after: Option<Duration>,
}

impl UpstreamError {
    /// A content filter let the prompt not through, or the answer: the code says so, and the status
    /// is 400.
    pub fn is_filtered(&self) -> bool {
        matches!(self.code.as_deref(), Some("content_filter" | "content_policy_violation"))
    }
}

#[cfg(test)]
mod tests;
