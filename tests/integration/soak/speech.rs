//! What an upstream of the soak says, in four dialects: texts of which every piece tells whose it
//! is, as one answer or as the events of a stream.
//!
//! **Invariant:** a text is a function of its first piece, so whoever reads one knows what all of
//! it must be, byte for byte.

use crate::support::frames;

/// An answer's text: pieces that each name the request, the upstream, its count of answers, and
/// their own place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The request that it answers.
    pub request: u64,
    pub upstream: String,
    /// No other answer of this upstream has it.
    pub serial: u64,
    pub pieces: usize,
    /// Bytes that make each piece longer.
    pub pad: usize,
}

impl Text {
    pub fn piece(&self, place: usize) -> String {
        let Text {
            request,
            upstream,
            serial,
            pieces,
            pad,
        } = self;
        format!(
            "<{request}.{upstream}.{serial}.{place}/{pieces}+{pad}:{}>",
            "x".repeat(*pad)
        )
    }

    pub fn whole(&self) -> String {
        (0..self.pieces).map(|place| self.piece(place)).collect()
    }

    /// The text that begins as `seen` does.
    pub fn of(seen: &str) -> Option<Text> {
        let (head, _) = seen.strip_prefix('<')?.split_once(':')?;
        let (head, pad) = head.split_once('+')?;
        let (head, pieces) = head.split_once('/')?;
        let mut words = head.split('.');
        let request = words.next()?.parse().ok()?;
        let upstream = words.next()?.to_owned();
        let serial = words.next()?.parse().ok()?;
        Some(Text {
            request,
            upstream,
            serial,
            pieces: pieces.parse().ok()?,
            pad: pad.parse().ok()?,
        })
    }
}

/// The dialects that are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    OpenAi,
    Anthropic,
    Gemini,
    Bedrock,
}

impl Speech {
    /// The name of a model that this dialect serves.
    pub fn model(self) -> &'static str {
        match self {
            Speech::OpenAi => "gpt-4o-mini",
            Speech::Anthropic => "claude-sonnet-4-5",
            Speech::Gemini => "gemini-2.5-flash",
            Speech::Bedrock => "amazon.nova-pro-v1:0",
        }
    }

    /// More of the account, as YAML.
    pub fn account(self) -> &'static str {
        match self {
            Speech::OpenAi => "dialect: openai",
            Speech::Anthropic => "dialect: anthropic",
            Speech::Gemini => "dialect: gemini",
            Speech::Bedrock => "dialect: bedrock, region: us-east-1",
        }
    }

    pub fn wants_stream(self, target: &str, body: &[u8]) -> bool {
        match self {
            Speech::OpenAi | Speech::Anthropic => {
                memchr::memmem::find(body, b"\"stream\":true").is_some()
            }
            Speech::Gemini => target.contains(":streamGenerateContent"),
            Speech::Bedrock => target.ends_with("/converse-stream"),
        }
    }

    /// A buffered answer.
    pub fn answer(self, text: &str) -> String {
        match self {
            Speech::OpenAi => format!(
                r#"{{"id":"chatcmpl-soak","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}}}"#
            ),
            Speech::Anthropic => format!(
                r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":3}}}}"#
            ),
            Speech::Gemini => format!(
                r#"{{"candidates":[{{"content":{{"role":"model","parts":[{{"text":"{text}"}}]}},"finishReason":"STOP","index":0}}],"usageMetadata":{{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12}},"modelVersion":"gemini-2.5-flash","responseId":"r"}}"#
            ),
            Speech::Bedrock => format!(
                r#"{{"output":{{"message":{{"role":"assistant","content":[{{"text":"{text}"}}]}}}},"stopReason":"end_turn","usage":{{"inputTokens":9,"outputTokens":3,"totalTokens":12}},"metrics":{{"latencyMs":1}}}}"#
            ),
        }
    }

    pub fn stream_type(self) -> &'static str {
        match self {
            Speech::Bedrock => "application/vnd.amazon.eventstream",
            Speech::OpenAi | Speech::Anthropic | Speech::Gemini => "text/event-stream",
        }
    }

    /// The events before a text.
    pub fn opening(self) -> Vec<u8> {
        match self {
            Speech::OpenAi => chunk(r#"{"role":"assistant","content":""}"#, "null").into_bytes(),
            Speech::Anthropic => concat!(
                "event: message_start\n",
                r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#,
                "\n\nevent: content_block_start\n",
                r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                "\n\n"
            )
            .into(),
            Speech::Gemini => Vec::new(),
            Speech::Bedrock => frames::event("messageStart", r#"{"role":"assistant"}"#),
        }
    }

    /// The event of one piece.
    pub fn piece(self, text: &str) -> Vec<u8> {
        match self {
            Speech::OpenAi => chunk(&format!(r#"{{"content":"{text}"}}"#), "null").into_bytes(),
            Speech::Anthropic => format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
            )
            .into_bytes(),
            Speech::Gemini => format!(
                "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}],\"modelVersion\":\"gemini-2.5-flash\",\"responseId\":\"r\"}}\n\n"
            )
            .into_bytes(),
            Speech::Bedrock => frames::event("contentBlockDelta", &format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{text}"}}}}"#)),
        }
    }

    /// The events that say that it is whole; `twice`, where a dialect can say so twice.
    pub fn closing(self, usage: bool, twice: bool) -> Vec<u8> {
        match self {
            Speech::OpenAi => {
                let finish = chunk("{}", "\"stop\"");
                let finish = if twice { finish.repeat(2) } else { finish };
                let usage = if usage {
                    "data: {\"id\":\"chatcmpl-soak\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n"
                } else {
                    ""
                };
                format!("{finish}{usage}").into_bytes()
            }
            Speech::Anthropic => concat!(
                "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":3}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
            )
            .into(),
            Speech::Gemini => concat!(
                r#"data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12},"modelVersion":"gemini-2.5-flash","responseId":"r"}"#,
                "\n\n"
            )
            .into(),
            Speech::Bedrock => [
                frames::event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
                frames::event("messageStop", r#"{"stopReason":"end_turn"}"#),
                frames::event("metadata", r#"{"usage":{"inputTokens":9,"outputTokens":3,"totalTokens":12},"metrics":{"latencyMs":1}}"#),
            ]
            .concat(),
        }
    }

    /// What comes after all of it.
    pub fn done(self) -> &'static [u8] {
        match self {
            Speech::OpenAi => b"data: [DONE]\n\n",
            Speech::Anthropic | Speech::Gemini | Speech::Bedrock => b"",
        }
    }

    /// An error inside a stream.
    pub fn error_event(self) -> Vec<u8> {
        match self {
            Speech::OpenAi | Speech::Gemini => {
                format!("data: {}\n\n", self.error(500)).into_bytes()
            }
            Speech::Anthropic => {
                format!("event: error\ndata: {}\n\n", self.error(500)).into_bytes()
            }
            Speech::Bedrock => frames::exception(
                "modelStreamErrorException",
                r#"{"message":"injected: it broke"}"#,
            ),
        }
    }

    /// A piece that is none.
    pub fn garbage(self) -> Vec<u8> {
        match self {
            Speech::OpenAi | Speech::Anthropic | Speech::Gemini => b"data: {\"oops\n\n".to_vec(),
            Speech::Bedrock => {
                let mut broken = self.piece("none");
                if let Some(last) = broken.last_mut() {
                    *last ^= 1;
                }
                broken
            }
        }
    }

    /// The body of an error.
    pub fn error(self, status: u16) -> String {
        match self {
            Speech::OpenAi => {
                format!(
                    r#"{{"error":{{"message":"injected {status}","type":"mock_error","param":null,"code":null}}}}"#
                )
            }
            Speech::Anthropic => {
                let kind = match status {
                    400 | 422 => "invalid_request_error",
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                format!(
                    r#"{{"type":"error","error":{{"type":"{kind}","message":"injected {status}"}}}}"#
                )
            }
            Speech::Gemini => {
                let word = match status {
                    400 | 413 | 422 => "INVALID_ARGUMENT",
                    401 => "UNAUTHENTICATED",
                    402 | 403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    _ => "INTERNAL",
                };
                format!(
                    r#"{{"error":{{"code":{status},"message":"injected {status}","status":"{word}"}}}}"#
                )
            }
            Speech::Bedrock => format!(r#"{{"message":"injected {status}"}}"#),
        }
    }
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-soak\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"gpt-4o-mini\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}
