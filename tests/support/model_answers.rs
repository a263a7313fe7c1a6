//! What a model says, written as an upstream of each dialect sends it: whole and as a stream. And
//! the errors with which each dialect fails.

use serde_json::{Value, json};

use super::mock::Request;
use super::script::{self, Script};
use super::{Catalog, Mock, frames};

/// The name of a tool with free input.
pub const FREE: &str = "exec";

/// The tokens of every answer: the prompt's, those of them that were cached, and the answer's.
pub const PROMPT: u64 = 50;
pub const CACHED: u64 = 20;
pub const COMPLETION: u64 = 9;
/// Those of the answer that are thinking, where a dialect counts them.
pub const REASONING: u64 = 3;

/// A dialect, the rest of its account as YAML, and a model that it has.
pub type Row = (&'static str, &'static str, &'static str);

pub const DIALECTS: [Row; 9] = [
    ("openai", "", "gpt-4o"),
    ("openai", ", serves: [chat, responses]", "gpt-5"),
    ("azure", "", "gpt-4o"),
    ("anthropic", "", "claude-sonnet-4-5"),
    ("gemini", "", "gemini-3-pro"),
    (
        "vertex",
        ", project: acme-1, location: europe-west4, key: CaNaRy-token",
        "gemini-3-pro",
    ),
    (
        "bedrock",
        ", region: us-east-1, key: CaNaRy-bedrock",
        "anthropic.claude-sonnet-4-5-v1:0",
    ),
    ("cohere", "", "command-a-reasoning-08-2025"),
    ("ollama", "", "qwen3"),
];

/// Makes a catalog with the model `m` on an account of this dialect.
pub fn catalog((dialect, more, model): Row, mock: &Mock, of_model: &str) -> Catalog {
    // These write the version into the path themselves.
    let base = if ["azure", "vertex", "bedrock"].contains(&dialect) {
        format!("http://{}", mock.address())
    } else {
        mock.base_url()
    };
    let account = Catalog::new().account_at("a", &base, &format!("dialect: {dialect}{more}"));
    account.model_with("m", &[&format!("a={model}")], of_model)
}

/// One answer of a model, without regard to how it is written.
#[derive(Clone, Default)]
pub struct ModelAnswer {
    thinking: String,
    text: String,
    /// The tools' names, and their inputs.
    calls: Vec<(String, Value)>,
    /// Makes the ids of calls differ from those of other answers.
    nth: usize,
}

impl ModelAnswer {
    pub fn text(text: &str) -> Self {
        ModelAnswer {
            text: text.to_owned(),
            ..ModelAnswer::default()
        }
    }

    pub fn thinking(thinking: &str) -> Self {
        ModelAnswer {
            thinking: thinking.to_owned(),
            ..ModelAnswer::default()
        }
    }

    pub fn and_text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    pub fn call(mut self, tool: &str, input: Value) -> Self {
        self.calls.push((tool.to_owned(), input));
        self
    }

    /// Sets the number of the answer in its conversation.
    pub fn nth(mut self, nth: usize) -> Self {
        self.nth = nth;
        self
    }

    /// Writes the answer to this request.
    pub fn to(&self, dialect: &str, request: &Request) -> Script {
        // OpenAI's servers have two kinds of endpoint.
        let path = request.target.split('?').next().unwrap_or_default();
        let dialect = if path.ends_with("/responses") {
            "responses"
        } else {
            dialect
        };
        // Callers of Messages ask Claude in its own format.
        let dialect = if request.target.contains("/invoke") {
            "invoke"
        } else {
            dialect
        };
        let is_stream = match dialect {
            "invoke" => request.target.ends_with("-stream"),
            "gemini" | "vertex" => request.target.contains(":streamGenerateContent"),
            "bedrock" => request.target.ends_with("/converse-stream"),
            "ollama" => request.json()["stream"] != false,
            _ => request.json()["stream"] == true,
        };
        if is_stream {
            self.stream(dialect)
        } else {
            self.whole(dialect)
        }
    }

    pub fn whole(&self, dialect: &str) -> Script {
        let body = match dialect {
            "anthropic" | "invoke" => self.anthropic(),
            "gemini" | "vertex" => self.gemini(true),
            "bedrock" => self.bedrock(),
            "cohere" => self.cohere(),
            "ollama" => self.ollama(true),
            "responses" => self.responses(),
            _ => self.openai(),
        };
        Script::json(200, &body)
    }

    pub fn stream(&self, dialect: &str) -> Script {
        let head = Script::new().head(
            200,
            &[
                ("content-type", stream_type(dialect)),
                ("transfer-encoding", "chunked"),
            ],
        );
        self.pieces(dialect).iter().fold(head, Script::body).end()
    }

    /// Writes the beginning of a stream: it ends with the text, and the connection is cut.
    pub fn cut(&self, dialect: &str) -> Script {
        let pieces = self.pieces(dialect);
        let has_text = |piece: &Vec<u8>| String::from_utf8_lossy(piece).contains(&self.text);
        let last = pieces
            .iter()
            .position(has_text)
            .expect("a piece with the text");
        let head = Script::new().head(
            200,
            &[
                ("content-type", stream_type(dialect)),
                ("transfer-encoding", "chunked"),
            ],
        );
        pieces[..=last].iter().fold(head, Script::body).close()
    }

    /// The events of a stream. Each text is whole in one of them, and each input is in two.
    fn pieces(&self, dialect: &str) -> Vec<Vec<u8>> {
        let named = |events: Vec<Value>| -> Vec<Vec<u8>> {
            let write = |event: &Value| {
                format!(
                    "event: {}\ndata: {event}\n\n",
                    event["type"].as_str().unwrap()
                )
            };
            events
                .iter()
                .map(|event| write(event).into_bytes())
                .collect()
        };
        match dialect {
            "anthropic" => named(self.anthropic_events()),
            "invoke" => self.anthropic_events().iter().map(frames::chunk).collect(),
            "responses" => named(self.responses_events()),
            "cohere" => named(self.cohere_events()),
            "gemini" | "vertex" => [self.gemini(false), ModelAnswer::default().gemini(true)]
                .iter()
                .map(data)
                .collect(),
            "ollama" => {
                let lines = [self.ollama(false), ModelAnswer::default().ollama(true)];
                lines
                    .iter()
                    .map(|line| format!("{line}\n").into_bytes())
                    .collect()
            }
            "bedrock" => {
                let events = self.bedrock_events();
                events
                    .iter()
                    .map(|(name, data)| frames::event(name, &data.to_string()))
                    .collect()
            }
            _ => {
                let mut pieces: Vec<_> = self.openai_chunks().iter().map(data).collect();
                pieces.push(b"data: [DONE]\n\n".to_vec());
                pieces
            }
        }
    }

    fn id(&self, prefix: &str, call: usize) -> String {
        format!("{prefix}_{}_{call}", self.nth)
    }

    /// The input of a call as text, in two halves.
    fn halves(&self, call: usize) -> [String; 2] {
        let text = self.calls[call].1.to_string();
        let (first, second) = text.split_at(text.len() / 2);
        [first.to_owned(), second.to_owned()]
    }

    fn reason<'r>(&self, calls: &'r str, stop: &'r str) -> &'r str {
        if self.calls.is_empty() { stop } else { calls }
    }

    // OpenAI's chat completions.

    fn openai(&self) -> Value {
        let call = |(n, (name, input)): (usize, &(String, Value))| json!({"id": self.id("call", n), "type": "function", "function": {"name": name, "arguments": input.to_string()}});
        let calls: Vec<Value> = self.calls.iter().enumerate().map(call).collect();
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.thinking.is_empty() {
            message["reasoning_content"] = json!(self.thinking);
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": self.reason("tool_calls", "stop")});
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice], "usage": openai_usage()})
    }

    fn openai_chunks(&self) -> Vec<Value> {
        let mut chunks = vec![script::chunk(
            &json!({"role": "assistant", "content": ""}),
            None,
        )];
        for (key, text) in [
            ("reasoning_content", &self.thinking),
            ("content", &self.text),
        ] {
            chunks.extend((!text.is_empty()).then(|| script::chunk(&json!({key: text}), None)));
        }
        for (n, (name, _)) in self.calls.iter().enumerate() {
            let [first, second] = self.halves(n);
            let start = json!({"index": n, "id": self.id("call", n), "type": "function", "function": {"name": name, "arguments": first}});
            let rest = json!({"index": n, "function": {"arguments": second}});
            chunks.extend(
                [start, rest].map(|call| script::chunk(&json!({"tool_calls": [call]}), None)),
            );
        }
        chunks.push(script::finish(self.reason("tool_calls", "stop")));
        let mut usage = script::usage(0);
        usage["usage"] = openai_usage();
        chunks.push(usage);
        chunks
    }

    // OpenAI's Responses.

    fn responses_items(&self) -> Vec<Value> {
        let mut items = Vec::new();
        if !self.thinking.is_empty() {
            let summary = json!([{"type": "summary_text", "text": self.thinking}]);
            items.push(
                json!({"type": "reasoning", "id": self.id("rs", 0), "summary": summary, "encrypted_content": "c2ln"}),
            );
        }
        if !self.text.is_empty() {
            let parts = json!([{"type": "output_text", "text": self.text, "annotations": []}]);
            items.push(json!({"type": "message", "id": self.id("msg", 0), "role": "assistant", "status": "completed", "content": parts}));
        }
        let call = |(n, (name, input)): (usize, &(String, Value))| {
            let mut item = json!({"id": self.id("fc", n), "call_id": self.id("call", n), "name": name, "status": "completed"});
            // A tool with free input has no arguments.
            let free = input["input"].as_str().filter(|_| name == FREE);
            let (kind, key, written) = match free {
                Some(free) => ("custom_tool_call", "input", free.to_owned()),
                None => ("function_call", "arguments", input.to_string()),
            };
            (item["type"], item[key]) = (json!(kind), json!(written));
            item
        };
        items.extend(self.calls.iter().enumerate().map(call));
        items
    }

    fn responses(&self) -> Value {
        let usage = json!({"input_tokens": PROMPT, "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": COMPLETION, "output_tokens_details": {"reasoning_tokens": REASONING}, "total_tokens": PROMPT + COMPLETION});
        json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "up", "status": "completed", "output": self.responses_items(), "usage": usage})
    }

    fn responses_events(&self) -> Vec<Value> {
        let mut begun = self.responses();
        (begun["status"], begun["output"], begun["usage"]) =
            (json!("in_progress"), json!([]), Value::Null);
        let mut events = vec![json!({"type": "response.created", "response": begun})];
        for (n, item) in self.responses_items().into_iter().enumerate() {
            let mut start = item.clone();
            start["status"] = json!("in_progress");
            let event = |kind: &str, mut more: Value| {
                (more["type"], more["item_id"], more["output_index"]) =
                    (json!(kind), item["id"].clone(), json!(n));
                more
            };
            let between = match item["type"].as_str().unwrap() {
                "reasoning" => {
                    start["summary"] = json!([]);
                    let part = |text: &str| json!({"summary_index": 0, "part": {"type": "summary_text", "text": text}});
                    let text = |key: &str| json!({"summary_index": 0, key: self.thinking});
                    vec![
                        event("response.reasoning_summary_part.added", part("")),
                        event("response.reasoning_summary_text.delta", text("delta")),
                        event("response.reasoning_summary_text.done", text("text")),
                        event("response.reasoning_summary_part.done", part(&self.thinking)),
                    ]
                }
                "message" => {
                    start["content"] = json!([]);
                    let part = |text: &str| json!({"content_index": 0, "part": {"type": "output_text", "text": text, "annotations": []}});
                    let text =
                        |key: &str| json!({"content_index": 0, "logprobs": [], key: self.text});
                    vec![
                        event("response.content_part.added", part("")),
                        event("response.output_text.delta", text("delta")),
                        event("response.output_text.done", text("text")),
                        event("response.content_part.done", part(&self.text)),
                    ]
                }
                "custom_tool_call" => {
                    start["input"] = json!("");
                    vec![
                        event(
                            "response.custom_tool_call_input.delta",
                            json!({"delta": item["input"]}),
                        ),
                        event(
                            "response.custom_tool_call_input.done",
                            json!({"input": item["input"]}),
                        ),
                    ]
                }
                _ => {
                    start["arguments"] = json!("");
                    vec![
                        event(
                            "response.function_call_arguments.delta",
                            json!({"delta": item["arguments"]}),
                        ),
                        event(
                            "response.function_call_arguments.done",
                            json!({"arguments": item["arguments"]}),
                        ),
                    ]
                }
            };
            events.push(
                json!({"type": "response.output_item.added", "output_index": n, "item": start}),
            );
            events.extend(between);
            events.push(
                json!({"type": "response.output_item.done", "output_index": n, "item": item}),
            );
        }
        events.push(json!({"type": "response.completed", "response": self.responses()}));
        for (number, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = json!(number);
        }
        events
    }

    // Anthropic's Messages.

    fn anthropic_blocks(&self) -> Vec<Value> {
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks
                .push(json!({"type": "thinking", "thinking": self.thinking, "signature": "c2ln"}));
        }
        if !self.text.is_empty() {
            blocks.push(json!({"type": "text", "text": self.text}));
        }
        let call = |(n, (name, input)): (usize, &(String, Value))| json!({"type": "tool_use", "id": self.id("toolu", n), "name": name, "input": input});
        blocks.extend(self.calls.iter().enumerate().map(call));
        blocks
    }

    fn anthropic(&self) -> Value {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": self.anthropic_blocks(),
            "stop_reason": self.reason("tool_use", "end_turn"), "stop_sequence": null, "usage": anthropic_usage()})
    }

    fn anthropic_events(&self) -> Vec<Value> {
        let mut start = self.anthropic();
        (start["content"], start["stop_reason"]) = (json!([]), Value::Null);
        start["usage"]["output_tokens"] = json!(1);
        let mut events = vec![json!({"type": "message_start", "message": start})];
        let mut calls = 0;
        for (index, mut block) in self.anthropic_blocks().into_iter().enumerate() {
            let deltas = match block["type"].as_str().unwrap() {
                "thinking" => {
                    let thinking = json!({"type": "thinking_delta", "thinking": block["thinking"]});
                    let signature =
                        json!({"type": "signature_delta", "signature": block["signature"]});
                    (block["thinking"], block["signature"]) = (json!(""), json!(""));
                    vec![thinking, signature]
                }
                "text" => {
                    let text = json!({"type": "text_delta", "text": block["text"]});
                    block["text"] = json!("");
                    vec![text]
                }
                _ => {
                    block["input"] = json!({});
                    calls += 1;
                    self.halves(calls - 1)
                        .map(|half| json!({"type": "input_json_delta", "partial_json": half}))
                        .into()
                }
            };
            events.push(
                json!({"type": "content_block_start", "index": index, "content_block": block}),
            );
            let delta =
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
            events.extend(deltas.into_iter().map(delta));
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        let last =
            json!({"stop_reason": self.reason("tool_use", "end_turn"), "stop_sequence": null});
        events.push(json!({"type": "message_delta", "delta": last, "usage": anthropic_usage()}));
        events.push(json!({"type": "message_stop"}));
        events
    }

    // Gemini's generateContent. The last chunk of a stream says only how it ended.

    fn gemini(&self, is_end: bool) -> Value {
        let mut parts = Vec::new();
        if !self.thinking.is_empty() {
            parts.push(json!({"text": self.thinking, "thought": true}));
        }
        if !self.text.is_empty() {
            parts.push(json!({"text": self.text}));
        }
        let call = |(n, (name, input)): (usize, &(String, Value))| json!({"functionCall": {"id": self.id("g", n), "name": name, "args": input}, "thoughtSignature": "c2ln"});
        parts.extend(self.calls.iter().enumerate().map(call));
        let mut chunk = json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}], "modelVersion": "g", "responseId": "abc"});
        if is_end {
            chunk["candidates"][0]["finishReason"] = json!("STOP");
            chunk["usageMetadata"] = json!({"promptTokenCount": PROMPT, "cachedContentTokenCount": CACHED,
                "candidatesTokenCount": COMPLETION - REASONING, "thoughtsTokenCount": REASONING, "totalTokenCount": PROMPT + COMPLETION});
        }
        chunk
    }

    // Bedrock's Converse.

    fn bedrock(&self) -> Value {
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(json!({"reasoningContent": {"reasoningText": {"text": self.thinking, "signature": "c2ln"}}}));
        }
        if !self.text.is_empty() {
            blocks.push(json!({"text": self.text}));
        }
        let call = |(n, (name, input)): (usize, &(String, Value))| json!({"toolUse": {"toolUseId": self.id("t", n), "name": name, "input": input}});
        blocks.extend(self.calls.iter().enumerate().map(call));
        json!({"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": self.reason("tool_use", "end_turn"),
            "usage": bedrock_usage(), "metrics": {"latencyMs": 1}})
    }

    fn bedrock_events(&self) -> Vec<(&'static str, Value)> {
        let mut events = vec![("messageStart", json!({"role": "assistant"}))];
        let mut index = 0;
        let mut block = |start: Option<Value>, deltas: Vec<Value>| {
            let start = start.map(|start| json!({"contentBlockIndex": index, "start": start}));
            events.extend(start.map(|start| ("contentBlockStart", start)));
            let delta = |delta| {
                (
                    "contentBlockDelta",
                    json!({"contentBlockIndex": index, "delta": delta}),
                )
            };
            events.extend(deltas.into_iter().map(delta));
            events.push(("contentBlockStop", json!({"contentBlockIndex": index})));
            index += 1;
        };
        if !self.thinking.is_empty() {
            let text = json!({"reasoningContent": {"text": self.thinking}});
            block(
                None,
                vec![text, json!({"reasoningContent": {"signature": "c2ln"}})],
            );
        }
        if !self.text.is_empty() {
            block(None, vec![json!({"text": self.text})]);
        }
        for (n, (name, _)) in self.calls.iter().enumerate() {
            let start = json!({"toolUse": {"toolUseId": self.id("t", n), "name": name}});
            block(
                Some(start),
                self.halves(n)
                    .map(|half| json!({"toolUse": {"input": half}}))
                    .into(),
            );
        }
        events.push((
            "messageStop",
            json!({"stopReason": self.reason("tool_use", "end_turn")}),
        ));
        events.push((
            "metadata",
            json!({"usage": bedrock_usage(), "metrics": {"latencyMs": 1}}),
        ));
        events
    }

    // Cohere's chat.

    fn cohere(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": []});
        if !self.text.is_empty() {
            message["content"] = json!([{"type": "text", "text": self.text}]);
        }
        if !self.calls.is_empty() {
            let call = |(n, (name, input)): (usize, &(String, Value))| json!({"id": self.id("co", n), "type": "function", "function": {"name": name, "arguments": input.to_string()}});
            message["tool_calls"] =
                json!(self.calls.iter().enumerate().map(call).collect::<Vec<_>>());
            message["tool_plan"] = json!(self.thinking);
        }
        json!({"id": "c1", "message": message, "finish_reason": self.reason("TOOL_CALL", "COMPLETE"), "usage": cohere_usage()})
    }

    fn cohere_events(&self) -> Vec<Value> {
        let start = json!({"message": {"role": "assistant", "content": []}});
        let mut events = vec![json!({"type": "message-start", "id": "c1", "delta": start})];
        let content = |content: Value| json!({"message": {"content": content}});
        if !self.text.is_empty() {
            events.push(
                json!({"type": "content-start", "index": 0, "delta": content(json!({"type": "text", "text": ""}))}),
            );
            events.push(json!({"type": "content-delta", "index": 0, "delta": content(json!({"text": self.text}))}));
            events.push(json!({"type": "content-end", "index": 0}));
        }
        if !self.calls.is_empty() {
            events.push(json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": self.thinking}}}));
        }
        for (n, (name, _)) in self.calls.iter().enumerate() {
            let call = json!({"id": self.id("co", n), "type": "function", "function": {"name": name, "arguments": ""}});
            events.push(json!({"type": "tool-call-start", "index": n, "delta": {"message": {"tool_calls": call}}}));
            events.extend(self.halves(n).map(|half| {
                let more = json!({"tool_calls": {"function": {"arguments": half}}});
                json!({"type": "tool-call-delta", "index": n, "delta": {"message": more}})
            }));
            events.push(json!({"type": "tool-call-end", "index": n}));
        }
        let last =
            json!({"finish_reason": self.reason("TOOL_CALL", "COMPLETE"), "usage": cohere_usage()});
        events.push(json!({"type": "message-end", "delta": last}));
        events
    }

    // Ollama's chat. The last line of a stream says only how it ended.

    fn ollama(&self, is_end: bool) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.thinking.is_empty() {
            message["thinking"] = json!(self.thinking);
        }
        let call = |(name, input): &(String, Value)| json!({"function": {"name": name, "arguments": input}});
        if !self.calls.is_empty() {
            message["tool_calls"] = json!(self.calls.iter().map(call).collect::<Vec<_>>());
        }
        let mut line = json!({"model": "qwen3", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": is_end});
        if is_end {
            line["done_reason"] = json!("stop");
            (line["prompt_eval_count"], line["eval_count"]) = (json!(PROMPT), json!(COMPLETION));
        }
        line
    }
}

fn data(chunk: &Value) -> Vec<u8> {
    format!("data: {chunk}\n\n").into_bytes()
}

fn stream_type(dialect: &str) -> &'static str {
    match dialect {
        "bedrock" | "invoke" => "application/vnd.amazon.eventstream",
        "ollama" => "application/x-ndjson",
        _ => "text/event-stream",
    }
}

fn openai_usage() -> Value {
    json!({"prompt_tokens": PROMPT, "completion_tokens": COMPLETION, "total_tokens": PROMPT + COMPLETION,
        "prompt_tokens_details": {"cached_tokens": CACHED}, "completion_tokens_details": {"reasoning_tokens": REASONING}})
}

fn anthropic_usage() -> Value {
    json!({"input_tokens": PROMPT - CACHED, "cache_creation_input_tokens": 0, "cache_read_input_tokens": CACHED, "output_tokens": COMPLETION})
}

fn bedrock_usage() -> Value {
    json!({"inputTokens": PROMPT - CACHED, "cacheReadInputTokens": CACHED, "outputTokens": COMPLETION, "totalTokens": PROMPT + COMPLETION})
}

fn cohere_usage() -> Value {
    json!({"billed_units": {"input_tokens": PROMPT, "output_tokens": COMPLETION}, "tokens": {"input_tokens": PROMPT, "output_tokens": COMPLETION}})
}

/// The ways in which an upstream fails a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The answer ends after some text, and the connection with it.
    Cut,
    /// The key is wrong.
    Key,
    /// Too many requests, with a time after which to try again.
    Busy,
    /// Too many requests, without one.
    BusyForAny,
    /// It is out of order.
    Down,
    /// It has no room now, whoever asks.
    Overloaded,
    /// The prompt is longer than the model can read.
    TooLong,
}

impl Failure {
    /// Writes the failure as an upstream of this dialect does.
    pub fn script(self, dialect: &str) -> Script {
        match self {
            Failure::Cut => ModelAnswer::text("It begins well, and then").cut(dialect),
            Failure::Key => error(dialect, 401, "invalid key"),
            Failure::Busy => error(dialect, 429, "slow down").with("retry-after", "2"),
            Failure::BusyForAny => error(dialect, 429, "slow down"),
            Failure::Down => error(dialect, 503, "out of order"),
            Failure::Overloaded if dialect == "anthropic" => error(dialect, 529, "Overloaded"),
            Failure::Overloaded => error(
                dialect,
                503,
                "The model is overloaded. Please try again later.",
            ),
            Failure::TooLong => match dialect {
                "anthropic" => error(
                    dialect,
                    400,
                    "prompt is too long: 200001 tokens > 200000 maximum",
                ),
                "gemini" => error(
                    dialect,
                    400,
                    "The input token count (200001) exceeds the maximum number of tokens allowed (200000).",
                ),
                _ => error(
                    dialect,
                    400,
                    "This model's maximum context length is 200000 tokens. However, your messages resulted in 200001 tokens.",
                ),
            },
        }
    }
}

/// Writes an error as an upstream of this dialect does.
fn error(dialect: &str, status: u16, message: &str) -> Script {
    let kinds = [
        (
            400,
            "invalid_request_error",
            "INVALID_ARGUMENT",
            Some("context_length_exceeded"),
        ),
        (
            401,
            "authentication_error",
            "UNAUTHENTICATED",
            Some("invalid_api_key"),
        ),
        (
            429,
            "rate_limit_error",
            "RESOURCE_EXHAUSTED",
            Some("rate_limit_exceeded"),
        ),
        (503, "api_error", "UNAVAILABLE", None),
        (529, "overloaded_error", "UNAVAILABLE", None),
    ];
    let (_, kind, word, code) = kinds
        .into_iter()
        .find(|row| row.0 == status)
        .expect("a status of the table");
    let body = match dialect {
        "anthropic" => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        }
        "gemini" => json!({"error": {"code": status, "message": message, "status": word}}),
        _ => json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
    };
    Script::json(status, &body)
}
