//! A fault is an error in an upstream's answer. This module has the kinds of faults, and the form
//! of an upstream's error.

use std::time::Duration;

use super::field::Field;

/// The status and the headers of an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorHead<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The header `content-type`.
    pub content_type: Option<&'a str>,
    /// The header `x-amzn-errortype`: the name that AWS gives the error.
    pub error_type: Option<&'a str>,
}

/// The reason why a body with a status of success is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerFault {
    /// The body is an error that came with a status of success.
    Upstream(UpstreamError),
    /// The body is no answer of this dialect. The text never quotes it.
    Nonsense(&'static str),
}

/// The result of reading a part of a stream.
pub type StreamResult<T> = Result<T, StreamFault>;

/// The reason why a stream ends without being whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamFault {
    /// The upstream reported an error inside the stream.
    Upstream(UpstreamError),
    /// An event is malformed, or too large. The text never quotes it.
    Broken(&'static str),
    /// The stream ended before the answer did.
    Cut,
}

impl From<AnswerFault> for StreamFault {
    fn from(fault: AnswerFault) -> Self {
        match fault {
            AnswerFault::Upstream(error) => Self::Upstream(error),
            AnswerFault::Nonsense(why) => Self::Broken(why),
        }
    }
}

/// An upstream's error, read from any shape. It may still contain secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// The HTTP status that fits this error, if the body names one or implies one. It may differ
    /// from the status of the answer.
    pub status: Option<u16>,
    /// OpenAI's `type`.
    pub kind: Option<String>,
    /// OpenAI's `code`; a number becomes its digits.
    pub code: Option<String>,
    /// The request's field at fault, as the upstream calls it, or in the caller's words.
    pub param: Option<Box<str>>,
    /// The field at fault, if the dialect has found it. The front door has still to name it.
    pub field: Option<Box<Field>>,
    /// The cause: the upstream's own words if its body has a known shape, else ours.
    pub message: String,
    /// The start of a body without a known shape (a web page, for example). It is for a log, never
    /// for a caller.
    pub excerpt: Option<Box<str>>,
    /// The time to wait before another try, if the body has it.
    pub retry_after: Option<Duration>,
}

/// The message of an error that has none.
pub(crate) const NO_REASON: &str = "the upstream gave no reason";

/// Phrases for a thought that another account has signed, or that was changed.
const BAD_THOUGHT: [&str; 5] = [
    "invalid `signature` in `thinking` block",
    "invalid `data` in `redacted_thinking` block",
    "blocks in the latest assistant message cannot be modified",
    "thought signature is not valid",
    "corrupted thought signature",
];

/// Phrases in the message of a 503 from a server that has no room now for any account.
const NO_ROOM_NOW: [&str; 6] = [
    "overload",
    "high demand",
    "capacity",
    "busy",
    "slow down",
    "too many connections",
];

impl UpstreamError {
    /// Returns whether the upstream has no room now for any account. So it is no limit of this
    /// account.
    ///
    /// `status` is the status that fits the error.
    pub fn is_overloaded(&self, status: u16) -> bool {
        let words = [&self.kind, &self.code].into_iter().flatten();
        let mut words = words.map(|word| word.to_ascii_lowercase());
        status == 529
            || words.any(|word| word.contains("overloaded") || word == "slow_down")
            || (status == 503 && self.has_phrase(&NO_ROOM_NOW))
    }

    /// Returns whether the upstream gave no reason at all. Then the message is ours.
    pub fn is_silent(&self) -> bool {
        self.message == NO_REASON && self.excerpt.is_none()
    }

    /// Returns whether the upstream refuses the thoughts of an earlier answer.
    pub fn refuses_thoughts(&self) -> bool {
        self.code.as_deref() == Some("invalid_encrypted_content") || self.has_phrase(&BAD_THOUGHT)
    }

    /// Returns whether one of these phrases is in the message.
    fn has_phrase(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// Returns whether a content filter stopped the prompt or the answer. Such an error has a code
    /// of its own, and the status 400.
    pub fn is_filtered(&self) -> bool {
        matches!(
            self.code.as_deref(),
            Some("content_filter" | "content_policy_violation")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_is_known_by_status_word_or_message() {
        let check = |status: u16, word: &str, message: &str, expected: bool| {
            let word = (!word.is_empty()).then(|| word.to_owned());
            for (kind, code) in [(word.clone(), None), (None, word)] {
                let error = UpstreamError {
                    kind,
                    code,
                    message: message.to_owned(),
                    ..UpstreamError::default()
                };
                assert_eq!(error.is_overloaded(status), expected, "{status}, {error:?}");
            }
        };
        check(529, "", "", true);
        check(502, "overloaded_error", "", true);
        // Moonshot; Hugging Face; Volcengine
        check(429, "engine_overloaded_error", "", true);
        check(429, "overloaded", "Model is overloaded", true);
        check(429, "ServerOverloaded", "", true);
        // OpenAI
        check(503, "slow_down", "", true);
        check(
            503,
            "server_error",
            "The engine is currently overloaded, please try again later",
            true,
        );
        // Google
        check(
            503,
            "UNAVAILABLE",
            "The model is overloaded. Please try again later.",
            true,
        );
        check(
            503,
            "UNAVAILABLE",
            "This model is currently experiencing high demand.",
            true,
        );
        check(
            503,
            "UNAVAILABLE",
            "The service is currently unavailable.",
            false,
        );
        // AWS; Groq; Ollama
        check(
            503,
            "",
            "Too many connections, please wait before trying again.",
            true,
        );
        check(503, "", "The model is currently over capacity.", true);
        check(
            503,
            "",
            "server busy, please try again.  maximum pending requests exceeded",
            true,
        );
        check(503, "", "out of order", false);
        check(500, "api_error", "The model is overloaded", false);
        check(429, "rate_limit_error", "slow down", false);
    }
}
