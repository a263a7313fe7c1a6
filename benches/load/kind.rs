//! The kinds of requests, and what makes an answer to each whole and right.

use std::time::Duration;

use memchr::memmem;

use crate::mock;

/// The kind of request that callers send, and of answer that is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole answer of OpenAI's chat.
    Plain,
    /// A whole answer of Anthropic's Messages.
    Messages,
    /// Chunks of OpenAI's chat.
    Stream { chunks: usize, gap: Duration },
}

const SYSTEM: &str = "You are a helpful assistant. Answer briefly and do not make anything up.";
const QUESTION: &str =
    "Explain in two sentences why a reverse proxy should keep its connections to the upstream. ";
const FILLER: &str = "The quick brown fox jumps over the lazy dog, and \\\"nobody\\\" minds.\\n";

impl Kind {
    pub fn is_stream(self) -> bool {
        matches!(self, Kind::Stream { .. })
    }

    pub fn path(self) -> &'static str {
        match self {
            Kind::Messages => "/v1/messages",
            Kind::Plain | Kind::Stream { .. } => "/v1/chat/completions",
        }
    }

    /// Writes a body for this model. If it is shorter than so many bytes, the question is filled
    /// up.
    pub fn body(self, model: &str, bytes: usize) -> String {
        let short = self.body_with(model, "");
        let lacking = bytes.saturating_sub(short.len());
        let mut filler = FILLER.repeat(lacking / FILLER.len());
        filler.push_str(&"x".repeat(lacking - filler.len()));
        self.body_with(model, &filler)
    }

    /// Writes a body for this model, with more text after the question.
    fn body_with(self, model: &str, more: &str) -> String {
        let question = format!("{{\"role\":\"user\",\"content\":\"{QUESTION}{more}\"}}");
        let rest = "\"temperature\":0.2,\"max_tokens\":256";
        if self == Kind::Messages {
            return format!(
                "{{\"model\":\"{model}\",\"system\":\"{SYSTEM}\",\"messages\":[{question}],{rest}}}"
            );
        }
        let stream = if self.is_stream() {
            ",\"stream\":true"
        } else {
            ""
        };
        format!(
            "{{\"model\":\"{model}\",\"messages\":[{{\"role\":\"system\",\"content\":\"{SYSTEM}\"}},{question}],{rest}{stream}}}"
        )
    }

    /// Checks a whole answer.
    pub fn check_answer(self, body: &[u8]) -> Result<(), String> {
        let counts: &[&str] = if self == Kind::Messages {
            &[
                r#""type":"message""#,
                r#""stop_reason":"end_turn""#,
                r#""input_tokens":48"#,
                r#""output_tokens":34"#,
            ]
        } else {
            &[r#""finish_reason":"stop""#, r#""total_tokens":82"#]
        };
        let has = |text: &str| memmem::find(body, text.as_bytes()).is_some();
        let whole = body.starts_with(b"{") && body.ends_with(b"}");
        if whole && has(mock::TEXT) && counts.iter().all(|count| has(count)) {
            return Ok(());
        }
        let start = String::from_utf8_lossy(&body[..body.len().min(300)]);
        Err(format!("an answer that is not what the mock sent: {start}"))
    }

    /// Checks a whole stream. Every chunk has its words; there are events besides.
    pub fn check_stream(self, text: &[u8]) -> Result<(), String> {
        let Kind::Stream { chunks, .. } = self else {
            return Err("a stream where none was asked for".to_owned());
        };
        const WORDS: &[u8] = br#""content":""#;
        let has_words = |at: &usize| text.get(at + WORDS.len()).is_some_and(|byte| *byte != b'"');
        let found = memmem::find_iter(text, WORDS).filter(has_words).count();
        if found == chunks && text.ends_with(b"data: [DONE]\n\n") {
            Ok(())
        } else {
            Err(format!("a stream of {found} chunks that is not whole"))
        }
    }
}
