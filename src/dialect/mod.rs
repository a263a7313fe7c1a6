//! The seam between the callers' format and an account's: what the rest of the gateway knows of either.
//!
//! Callers speak OpenAI's chat completions. An account speaks a [`Dialect`]; matching on it is the
//! extension point, one module a dialect. Where both formats are the same, [`openai`], the bytes pass
//! through but for the spans that must change. Everything here is pure: bytes in, bytes out; no clock,
//! no randomness, no sockets: what an answer needs of them comes in its [`Face`].

pub mod demo;
pub mod openai;

use crate::usage::Usage;

/// The wire format that an account speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI's chat completions, and every server that imitates them.
    OpenAi,
    /// Answers by itself, in OpenAI's format and without a network.
    Demo,
}

impl Dialect {
    /// Every dialect there is.
    pub const ALL: [Self; 2] = [Self::OpenAi, Self::Demo];

    /// The word for it in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Demo => "demo",
        }
    }
}

/// What every answer of one exchange shows, whatever the upstream said.
#[derive(Debug, Clone)]
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
}

/// A whole answer in the callers' format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The body to send.
    pub body: Vec<u8>,
    /// What it cost.
    pub usage: Usage,
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
    /// The HTTP status named inside the body, if it is one of an error.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let names = Dialect::ALL.map(Dialect::name);
        assert_eq!(names, ["openai", "demo"]);
    }
}
