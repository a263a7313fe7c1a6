//! What each dialect's upstream says, well and badly: the one place of the matrix that knows a wire
//! format.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::support::script::{JSON, SSE};
use crate::support::wire::position;
use crate::support::{Gate, Script, frames};

/// In all that an upstream says of a failure: a caller may see it only where the fault is the
/// caller's, and no log may ever.
pub const MARK: &str = "purple-elephant";
/// What it says of a failure.
pub const COMPLAINT: &str = "no: purple-elephant";
/// How many pieces an answer has.
pub const PIECES: usize = 3;
/// More than any limit allows.
const LONG: usize = 10 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    OpenAi,
    Anthropic,
    Gemini,
    Bedrock,
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::Anthropic => "anthropic",
            Dialect::Gemini => "gemini",
            Dialect::Bedrock => "bedrock",
        }
    }

    /// What the second target speaks: another one, so that a failover changes the language too.
    pub fn next(self) -> Dialect {
        match self {
            Dialect::OpenAi => Dialect::Anthropic,
            Dialect::Anthropic => Dialect::Gemini,
            Dialect::Gemini => Dialect::Bedrock,
            Dialect::Bedrock => Dialect::OpenAi,
        }
    }

    /// The account's YAML.
    pub fn account(self) -> &'static str {
        match self {
            Dialect::OpenAi => "dialect: openai",
            Dialect::Anthropic => "dialect: anthropic",
            Dialect::Gemini => "dialect: gemini",
            Dialect::Bedrock => "dialect: bedrock, region: us-east-1",
        }
    }

    /// A model that it has.
    pub fn model(self) -> &'static str {
        match self {
            Dialect::OpenAi => "gpt-4o-mini",
            Dialect::Anthropic => "claude-sonnet-4-5",
            Dialect::Gemini => "gemini-2.5-flash",
            Dialect::Bedrock => "amazon.nova-pro-v1:0",
        }
    }

    /// Of prompt and completion what the upstream has counted when so many pieces of a stream have
    /// come. The rest must be estimated.
    pub fn counted(self, voice: Voice, pieces: usize) -> (Option<u64>, Option<u64>) {
        match self {
            Dialect::OpenAi | Dialect::Bedrock => (None, None),
            Dialect::Anthropic => (Some(voice.prompt), None),
            Dialect::Gemini => (Some(voice.prompt), Some(pieces as u64)),
        }
    }

    fn words(self, voice: Voice) -> Words {
        match self {
            Dialect::OpenAi => openai(voice),
            Dialect::Anthropic => anthropic(voice),
            Dialect::Gemini => gemini(voice),
            Dialect::Bedrock => bedrock(voice),
        }
    }

    /// One content event with this text.
    fn piece(self, nth: usize, text: &str, voice: Voice) -> Vec<u8> {
        match self {
            Dialect::OpenAi => data(&chunk(
                json!([{"index": 0, "delta": {"content": text}, "logprobs": null, "finish_reason": null}]),
            )),
            Dialect::Anthropic => named(
                &json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
            ),
            Dialect::Gemini => data(&candidate(text, None, voice.prompt, nth as u64 + 1)),
            Dialect::Bedrock => frame(
                "contentBlockDelta",
                &json!({"contentBlockIndex": 0, "delta": {"text": text}}),
            ),
        }
    }

    /// A buffered answer with this text.
    fn answer(self, text: &str, voice: Voice) -> Value {
        let Voice {
            prompt, completion, ..
        } = voice;
        match self {
            Dialect::OpenAi => {
                json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": self.model(),
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text, "refusal": null}, "logprobs": null, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}})
            }
            Dialect::Anthropic => {
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": self.model(),
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": prompt, "output_tokens": completion}})
            }
            Dialect::Gemini => candidate(text, Some("STOP"), prompt, completion),
            Dialect::Bedrock => {
                json!({"output": {"message": {"role": "assistant", "content": [{"text": text}]}}, "stopReason": "end_turn",
                "usage": {"inputTokens": prompt, "outputTokens": completion, "totalTokens": prompt + completion}, "metrics": {"latencyMs": 1}})
            }
        }
    }

    /// An error with this status, with the words that the provider has for it, where it has some.
    pub fn error(self, status: u16) -> Script {
        let script = Script::json(status, &self.error_body(status));
        let name = match status {
            403 => "AccessDeniedException",
            404 => "ResourceNotFoundException",
            429 => "ThrottlingException",
            500 => "InternalServerException",
            503 => "ServiceUnavailableException",
            _ => return script,
        };
        if self == Dialect::Bedrock {
            script.with("x-amzn-errortype", name)
        } else {
            script
        }
    }

    pub fn error_body(self, status: u16) -> Value {
        match self {
            Dialect::OpenAi => {
                let (kind, code) = match status {
                    401 => ("invalid_request_error", Some("invalid_api_key")),
                    404 => ("invalid_request_error", Some("model_not_found")),
                    429 => ("requests", Some("rate_limit_exceeded")),
                    400..=499 => ("invalid_request_error", None),
                    _ => ("server_error", None),
                };
                json!({"error": {"message": COMPLAINT, "type": kind, "param": null, "code": code}})
            }
            Dialect::Anthropic => {
                let kind = match status {
                    401 => "authentication_error",
                    403 => "permission_error",
                    404 => "not_found_error",
                    413 => "request_too_large",
                    429 => "rate_limit_error",
                    529 => "overloaded_error",
                    _ => "api_error",
                };
                json!({"type": "error", "error": {"type": kind, "message": COMPLAINT}, "request_id": "req_1"})
            }
            Dialect::Gemini => {
                let mut body = json!({"error": {"code": status, "message": COMPLAINT}});
                let word = match status {
                    401 => "UNAUTHENTICATED",
                    403 => "PERMISSION_DENIED",
                    404 => "NOT_FOUND",
                    429 => "RESOURCE_EXHAUSTED",
                    500 => "INTERNAL",
                    503 => "UNAVAILABLE",
                    _ => return body,
                };
                body["error"]["status"] = json!(word);
                body
            }
            Dialect::Bedrock => json!({"message": COMPLAINT}),
        }
    }

    /// The code that a caller is shown for a request that is too large.
    pub fn too_large(self) -> Option<&'static str> {
        match self {
            Dialect::Anthropic => Some("request_too_large"),
            Dialect::OpenAi | Dialect::Gemini | Dialect::Bedrock => None,
        }
    }

    /// A 429 that says in the provider's own way when to come back.
    pub fn quota_used_up(self, wait: u64) -> Script {
        let limited = self.error(429);
        match self {
            Dialect::OpenAi => limited
                .with("x-ratelimit-limit-requests", "100")
                .with("x-ratelimit-remaining-requests", "0")
                .with("x-ratelimit-reset-requests", &format!("{wait}s")),
            Dialect::Anthropic => limited
                .with("anthropic-ratelimit-requests-limit", "100")
                .with("anthropic-ratelimit-requests-remaining", "0")
                .with(
                    "anthropic-ratelimit-requests-reset",
                    &rfc3339(SystemTime::now() + Duration::from_secs(wait)),
                ),
            Dialect::Gemini => {
                let mut body = self.error_body(429);
                body["error"]["details"] = json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{wait}s")}]);
                Script::json(429, &body)
            }
            Dialect::Bedrock => limited,
        }
    }
}

/// Whose words they are: no piece, and no count, is the same in two of them.
#[derive(Debug, Clone, Copy)]
pub struct Voice {
    letter: char,
    pub prompt: u64,
    pub completion: u64,
}

/// The first target's.
pub const FIRST: Voice = Voice {
    letter: 'w',
    prompt: 9,
    completion: 3,
};
/// The second's.
pub const SECOND: Voice = Voice {
    letter: 's',
    prompt: 21,
    completion: 4,
};

impl Voice {
    pub fn pieces(self) -> [String; PIECES] {
        std::array::from_fn(|n| format!("{}{n} ", self.letter))
    }
}

/// The parts of a dialect's stream, each as it goes over the wire.
struct Words {
    content_type: &'static str,
    /// What comes before all content.
    role: Vec<u8>,
    /// From the reason why it ended to the usage.
    ends: Vec<u8>,
    /// What says after that that the stream is at its end; empty where nothing does.
    mark: Vec<u8>,
    error: Vec<u8>,
    /// An event that is none.
    malformed: Vec<u8>,
}

fn openai(voice: Voice) -> Words {
    let Voice {
        prompt, completion, ..
    } = voice;
    let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    let mut usage = chunk(json!([]));
    usage["usage"] = json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion});
    Words {
        content_type: SSE.1,
        role: data(&chunk(choice(
            json!({"role": "assistant", "content": ""}),
            Value::Null,
        ))),
        ends: [data(&chunk(choice(json!({}), json!("stop")))), data(&usage)].concat(),
        mark: b"data: [DONE]\n\n".to_vec(),
        error: data(&Dialect::OpenAi.error_body(500)),
        malformed: b"data: {oops\n\n".to_vec(),
    }
}

fn chunk(choices: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-4o-mini-2024-07-18", "choices": choices})
}

fn anthropic(voice: Voice) -> Words {
    let Voice {
        prompt, completion, ..
    } = voice;
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": Dialect::Anthropic.model(), "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": prompt, "output_tokens": 1}}});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": completion}});
    Words {
        content_type: SSE.1,
        role: [named(&start), named(&block)].concat(),
        ends: [
            named(&json!({"type": "content_block_stop", "index": 0})),
            named(&end),
        ]
        .concat(),
        mark: named(&json!({"type": "message_stop"})),
        error: named(&Dialect::Anthropic.error_body(500)),
        malformed: b"event: content_block_delta\ndata: {oops\n\n".to_vec(),
    }
}

fn gemini(voice: Voice) -> Words {
    Words {
        content_type: SSE.1,
        role: data(&candidate("", None, voice.prompt, 0)),
        ends: data(&candidate("", Some("STOP"), voice.prompt, voice.completion)),
        mark: Vec::new(),
        error: data(&Dialect::Gemini.error_body(500)),
        malformed: b"data: {oops\n\n".to_vec(),
    }
}

fn candidate(text: &str, finish: Option<&str>, prompt: u64, completion: u64) -> Value {
    let mut candidate =
        json!({"content": {"role": "model", "parts": [{"text": text}]}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    let usage = json!({"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": prompt + completion});
    json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "responseId": "abc"})
}

fn bedrock(voice: Voice) -> Words {
    let Voice {
        prompt, completion, ..
    } = voice;
    let usage = json!({"inputTokens": prompt, "outputTokens": completion, "totalTokens": prompt + completion});
    Words {
        content_type: "application/vnd.amazon.eventstream",
        role: frame("messageStart", &json!({"role": "assistant"})),
        ends: [
            frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
            frame("messageStop", &json!({"stopReason": "end_turn"})),
            frame(
                "metadata",
                &json!({"usage": usage, "metrics": {"latencyMs": 1}}),
            ),
        ]
        .concat(),
        mark: Vec::new(),
        error: frames::exception(
            "internalServerException",
            &Dialect::Bedrock.error_body(500).to_string(),
        ),
        malformed: frames::event("contentBlockDelta", "{oops"),
    }
}

fn data(event: &Value) -> Vec<u8> {
    format!("data: {event}\n\n").into_bytes()
}

fn named(event: &Value) -> Vec<u8> {
    format!(
        "event: {}\ndata: {event}\n\n",
        event["type"].as_str().expect("a type")
    )
    .into_bytes()
}

fn frame(kind: &str, event: &Value) -> Vec<u8> {
    frames::event(kind, &event.to_string())
}

/// One answer in the making: in which dialect, in whose words, and whether a stream was asked for.
pub struct Scene {
    pub dialect: Dialect,
    pub voice: Voice,
    pub stream: bool,
    /// Opened when the caller has seen all that comes before the fault.
    pub seen: Gate,
}

impl Scene {
    fn words(&self) -> Words {
        self.dialect.words(self.voice)
    }

    /// The text of a whole answer.
    fn text(&self) -> String {
        self.dialect
            .answer(&self.voice.pieces().concat(), self.voice)
            .to_string()
    }

    /// As a good upstream answers.
    pub fn sound(&self) -> Script {
        if !self.stream {
            return Script::text(200, JSON.1, self.text());
        }
        let words = self.words();
        self.pieces(PIECES).body(words.ends).body(words.mark).end()
    }

    /// A head that announces an answer, chunked.
    pub fn head(&self) -> Script {
        let kind = if self.stream {
            self.words().content_type
        } else {
            JSON.1
        };
        Script::new().head(
            200,
            &[("content-type", kind), ("transfer-encoding", "chunked")],
        )
    }

    fn pieces(&self, pieces: usize) -> Script {
        let all = self.voice.pieces();
        let script = self.head().body(self.words().role);
        all.iter()
            .take(pieces)
            .enumerate()
            .fold(script, |script, (n, text)| {
                script.body(self.dialect.piece(n, text, self.voice))
            })
    }

    /// So many pieces, and nothing more before the caller has them.
    pub fn begun(&self, pieces: usize) -> Script {
        self.pieces(pieces).wait(&self.seen)
    }

    /// The head and two pieces, or half an answer, in one write: silence is counted from there.
    pub fn begun_at_once(&self) -> Script {
        let (kind, body) = if self.stream {
            (self.words().content_type, self.pieces(2).payload())
        } else {
            (JSON.1, self.half())
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
            body.len()
        );
        Script::new().raw([head.as_bytes(), &body, b"\r\n"].concat())
    }

    /// The role, and no content.
    pub fn role(&self) -> Script {
        self.pieces(0)
    }

    /// Half of a whole answer's text.
    pub fn half(&self) -> Vec<u8> {
        let text = self.text();
        text.as_bytes()[..text.len() / 2].to_vec()
    }

    pub fn error_event(&self) -> Vec<u8> {
        self.words().error
    }

    pub fn malformed_event(&self) -> Vec<u8> {
        self.words().malformed
    }

    /// All but what says that it is all.
    pub fn without_mark(&self) -> Script {
        self.pieces(PIECES)
            .body(self.words().ends)
            .wait(&self.seen)
            .end()
    }

    /// An answer that is good but for its length.
    pub fn endless(&self) -> Script {
        let piece = || stretch(&self.dialect.piece(0, STRETCHED, self.voice), LONG);
        match (self.stream, self.dialect) {
            (false, _) => Script::text(
                200,
                JSON.1,
                stretch(
                    self.dialect
                        .answer(STRETCHED, self.voice)
                        .to_string()
                        .as_bytes(),
                    LONG,
                ),
            ),
            (true, Dialect::Bedrock) => {
                self.head().body(long_frame()).body(self.words().ends).end()
            }
            (true, _) => self
                .head()
                .body(piece())
                .body(self.words().ends)
                .body(self.words().mark)
                .end(),
        }
    }
}

/// Stands for a long text.
pub const STRETCHED: &str = "@@@";

/// Puts a text of this length where [`STRETCHED`] stands. To write it as JSON would take the time
/// of all else together.
pub fn stretch(text: &[u8], length: usize) -> Vec<u8> {
    let at = position(text, STRETCHED.as_bytes()).expect("something to stretch");
    [
        &text[..at],
        &vec![b'x'; length],
        &text[at + STRETCHED.len()..],
    ]
    .concat()
}

/// A long piece of Bedrock's, with all its checksums.
fn long_frame() -> Vec<u8> {
    let short = Dialect::Bedrock.piece(0, STRETCHED, FIRST);
    let mut frame = stretch(&short, LONG);
    let length = frame.len() as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    let prelude = crc32fast::hash(&frame[..8]);
    frame[8..12].copy_from_slice(&prelude.to_be_bytes());
    let end = frame.len() - 4;
    let all = crc32fast::hash(&frame[..end]);
    frame[end..].copy_from_slice(&all.to_be_bytes());
    frame
}

/// As Anthropic writes times.
fn rfc3339(time: SystemTime) -> String {
    portcullis::base::calendar::format_system_time(time)
}
