//! The seam between the callers' format and an account's: what a gateway needs to know of either.
//!
//! Callers speak OpenAI's chat completions. An account speaks a [`Dialect`]; matching on it is the
//! extension point, one module a dialect. Where both formats are the same, [`openai`], the bytes
//! pass through but for the spans that must change; all others are written from and read into the
//! neutral form ([`crate::neutral`]).

mod stream;
pub(crate) mod translated;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::front::chat;
use crate::front::chat::envelope::Envelope;
use crate::neutral::answer::{Kept, Manner};
use crate::neutral::traits::Traits;
use crate::neutral::{
    self, Answer, AnswerFault, Emit, ErrorHead, Face, Family, Losses, Refused, Target, Undo, UpstreamError, Written,
};
use crate::upstream::openai::Quirks;
use crate::upstream::{anthropic, azure, bedrock, cohere, gemini, ollama, openai};
use translated::Stream as Translated;

pub use stream::Stream;
pub use translated::Framing;

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
    pub kept: &'a dyn Fn(&str) -> Option<neutral::Kept>,
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
        let reader: Box<dyn neutral::Reader> = match self {
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

/// How a buffered answer is read.
enum Telling {
    /// It is the standard's own, but for these.
    Itself(&'static Quirks),
    /// As events.
    Events(fn(&str, &[u8], Emit<'_>) -> Result<(), AnswerFault>),
}

type Write = fn(&neutral::Request<'_>, &Target<'_>) -> Result<Written, Refused>;

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

#[cfg(test)]
mod tests;
