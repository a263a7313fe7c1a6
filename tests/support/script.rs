//! A script says what an upstream does with a request, as data:
//! `Script::sse().event(delta("a")).reset()`.
//!
//! A script whose last step is neither `end`, `close`, `reset` nor `stall` closes the connection,
//! as a server that died does.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// One thing that an upstream does.
#[derive(Clone)]
pub enum Step {
    /// Sends a status and fields, as written. `transfer-encoding: chunked` frames what follows.
    Head(u16, Vec<(String, String)>),
    /// Sends a 1xx head.
    Informational(u16, Vec<(String, String)>),
    /// Sends bytes past all framing (HTTP/1 only).
    Raw(Vec<u8>),
    /// Sends a piece of the body. In a chunked body, it is one chunk.
    Body(Vec<u8>),
    /// Sends a piece of the body, `size` bytes at a time.
    Slices {
        bytes: Vec<u8>,
        size: usize,
        gap: Duration,
    },
    Delay(Duration),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Does nothing more until the peer closes.
    Stall,
    /// Ends the body; the connection stays usable.
    End,
    /// Closes the connection by FIN.
    Close,
    /// Resets by RST; on HTTP/2, by `RST_STREAM`.
    Reset,
    /// Sends `REFUSED_STREAM`: the request was not looked at (HTTP/2 only).
    Refuse,
    /// Calls back into the test at this very point.
    Do(Arc<dyn Fn() + Send + Sync>),
}

/// The steps of one answer.
#[derive(Clone, Default)]
pub struct Script {
    pub steps: Vec<Step>,
}

pub const PROMPT_TOKENS: u64 = 9;
pub const SSE: (&str, &str) = ("content-type", "text/event-stream");
pub const JSON: (&str, &str) = ("content-type", "application/json");

impl Script {
    pub fn new() -> Self {
        Script::default()
    }

    // Whole answers.

    /// Sends a buffered answer with this text.
    pub fn answer(text: &str) -> Self {
        Script::json(200, &completion(text))
    }

    /// Sends a whole stream: the role, `n` pieces `w0 `, `w1 ` …, finish, usage, `[DONE]`.
    pub fn stream(n: usize) -> Self {
        Script::sse()
            .words(0..n)
            .event(finish("stop"))
            .event(usage(n as u64))
            .done()
    }

    /// Sends an error in OpenAI's shape.
    pub fn error(status: u16, message: &str) -> Self {
        let error = json!({"message": message, "type": "mock_error", "param": null, "code": null});
        Script::json(status, &json!({"error": error}))
    }

    pub fn json(status: u16, body: &Value) -> Self {
        Script::text(status, "application/json", body.to_string())
    }

    /// Sends any body with its length.
    pub fn text(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = body.len().to_string();
        Script::new()
            .head(
                status,
                &[("content-type", content_type), ("content-length", &length)],
            )
            .body(body)
            .end()
    }

    /// Takes the request and never says anything.
    pub fn silent() -> Self {
        Script::new().stall()
    }

    // Piece by piece.

    pub fn head(self, status: u16, fields: &[(&str, &str)]) -> Self {
        self.then(Step::Head(status, owned(fields)))
    }

    /// Sends the head of a stream, chunked.
    pub fn sse() -> Self {
        Script::new().head(200, &[SSE, ("transfer-encoding", "chunked")])
    }

    /// Adds a field to the last head.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let head = self.steps.iter_mut().rev().find_map(|step| match step {
            Step::Head(_, fields) => Some(fields),
            _ => None,
        });
        head.expect("a head to add to")
            .push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn informational(self, status: u16, fields: &[(&str, &str)]) -> Self {
        self.then(Step::Informational(status, owned(fields)))
    }

    pub fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Raw(bytes.as_ref().to_vec()))
    }

    pub fn body(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Body(bytes.as_ref().to_vec()))
    }

    pub fn slices(self, bytes: impl AsRef<[u8]>, size: usize, gap: Duration) -> Self {
        self.then(Step::Slices {
            bytes: bytes.as_ref().to_vec(),
            size,
            gap,
        })
    }

    /// Sends one server-sent event.
    pub fn event(self, data: impl Display) -> Self {
        self.body(format!("data: {data}\n\n"))
    }

    /// Sends one server-sent event, and names it by its type.
    pub fn named(self, event: &Value) -> Self {
        self.body(format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().expect("a type")
        ))
    }

    /// Sends one content event for each number. The first carries the role.
    pub fn words(mut self, range: std::ops::Range<usize>) -> Self {
        for i in range {
            if i == 0 {
                self = self.event(chunk(&json!({"role": "assistant", "content": ""}), None));
            }
            self = self.event(delta(&format!("w{i} ")));
        }
        self
    }

    pub fn done(self) -> Self {
        self.event("[DONE]").end()
    }

    pub fn delay(self, time: Duration) -> Self {
        self.then(Step::Delay(time))
    }

    pub fn wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    pub fn run(self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.then(Step::Do(Arc::new(call)))
    }

    pub fn stall(self) -> Self {
        self.then(Step::Stall)
    }

    pub fn end(self) -> Self {
        self.then(Step::End)
    }

    pub fn close(self) -> Self {
        self.then(Step::Close)
    }

    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    pub fn refuse(self) -> Self {
        self.then(Step::Refuse)
    }

    /// Adds a whole buffered answer after the steps so far.
    pub fn then_answer(self, text: &str) -> Self {
        self.and(Script::answer(text))
    }

    /// Adds all steps of another script.
    pub fn and(mut self, more: Script) -> Self {
        self.steps.extend(more.steps);
        self
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns all body bytes in one, as a client of this answer should get them.
    pub fn payload(&self) -> Vec<u8> {
        let bytes = self.steps.iter().filter_map(|step| match step {
            Step::Body(bytes) | Step::Slices { bytes, .. } => Some(bytes.as_slice()),
            _ => None,
        });
        bytes.collect::<Vec<_>>().concat()
    }
}

/// A gate holds a script until the test opens it, for everyone and for ever.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    pub fn new() -> Self {
        Gate(Arc::new(Semaphore::new(0)))
    }

    pub fn open(&self) {
        self.0.close();
    }

    pub async fn opened(&self) {
        let _closed = self.0.acquire().await;
    }
}

// Bodies in OpenAI's format.

/// Returns a buffered answer.
pub fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000, "model": "mock-model",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text, "refusal": null},
            "logprobs": null, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": 3, "total_tokens": PROMPT_TOKENS + 3},
    })
}

/// Returns one chunk of a stream.
pub fn chunk(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "mock-model",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}],
    })
}

/// Returns a chunk with text.
pub fn delta(text: &str) -> Value {
    chunk(&json!({ "content": text }), None)
}

/// Returns the chunk that ends a choice.
pub fn finish(reason: &str) -> Value {
    chunk(&json!({}), Some(reason))
}

/// Returns the chunk with the usage.
pub fn usage(completion: u64) -> Value {
    let mut last = finish("stop");
    last["choices"] = json!([]);
    last["usage"] = json!({
        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": completion, "total_tokens": PROMPT_TOKENS + completion,
    });
    last
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}
