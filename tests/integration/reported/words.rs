//! Answers that are none, as the servers of each dialect say them. All of them report the same
//! counts.

use serde_json::{Value, json};

use crate::support::script::JSON;
use crate::support::{Script, frames};

/// What every answer reports.
pub const PROMPT: u64 = 1_500;
pub const COMPLETION: u64 = 40;

/// The arguments of a call that nobody can read.
const BROKEN: &str = "{\"city\":";
const HANGS_UP: &str = "the gateway hangs up before the counts come";
const LATE: &str = "the counts come with the end";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
    Bedrock,
    Cohere,
    Ollama,
    /// It speaks as OpenAI does.
    Azure,
    /// It speaks as Gemini does.
    Vertex,
}

use Dialect::{Anthropic, Azure, Bedrock, Cohere, Gemini, Ollama, OpenAi, Responses, Vertex};

pub const DIALECTS: [Dialect; 9] = [
    OpenAi, Responses, Anthropic, Gemini, Bedrock, Cohere, Ollama, Azure, Vertex,
];

/// The ways in which an answer can be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It calls a tool with arguments that are no JSON.
    BrokenCall,
    /// It calls a tool that has no name.
    Nameless,
    /// It ends in an error.
    Error,
    /// It has nothing but its counts.
    Empty,
    /// Its JSON has no end.
    Unended,
    /// It breaks off after its counts.
    Cut,
    /// It goes silent after its counts, and the gateway hangs up.
    Silent,
}

pub const WAYS: [Way; 7] = [
    Way::BrokenCall,
    Way::Nameless,
    Way::Error,
    Way::Empty,
    Way::Unended,
    Way::Cut,
    Way::Silent,
];

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::BrokenCall => "broken_call",
            Way::Nameless => "nameless",
            Way::Error => "error",
            Way::Empty => "empty",
            Way::Unended => "unended",
            Way::Cut => "cut",
            Way::Silent => "silent",
        }
    }

    /// What the account's YAML has for it.
    pub fn settings(self) -> &'static str {
        if self == Way::Silent {
            ", timeouts: { idle: 1s, total: 1s }"
        } else {
            ""
        }
    }
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            OpenAi => "openai",
            Responses => "responses",
            Anthropic => "anthropic",
            Gemini => "gemini",
            Bedrock => "bedrock",
            Cohere => "cohere",
            Ollama => "ollama",
            Azure => "azure",
            Vertex => "vertex",
        }
    }

    /// The account's YAML.
    pub fn account(self) -> &'static str {
        match self {
            OpenAi => "dialect: openai",
            Responses => "dialect: openai, serves: [responses]",
            Anthropic => "dialect: anthropic",
            Gemini => "dialect: gemini",
            Bedrock => "dialect: bedrock, region: us-east-1",
            Cohere => "dialect: cohere",
            Ollama => "dialect: ollama",
            Azure => "dialect: azure, serves: [chat]",
            Vertex => "dialect: vertex, project: p, location: eu",
        }
    }

    pub fn model(self) -> &'static str {
        match self {
            OpenAi | Azure => "gpt-4o-mini",
            Responses => "gpt-5",
            Anthropic => "claude-sonnet-4-5",
            Gemini | Vertex => "gemini-2.5-flash",
            Bedrock => "amazon.nova-pro-v1:0",
            Cohere => "command-a-03-2025",
            Ollama => "llama3.2",
        }
    }

    /// What its server says; or why that makes no sense.
    pub fn says(self, way: Way, is_stream: bool) -> Result<Script, &'static str> {
        match (way, is_stream) {
            (Way::BrokenCall, false) => Ok(whole(self.counted(self.call("weather")))),
            (Way::Nameless, false) => Ok(whole(self.counted(self.call("")))),
            (Way::Error, false) => Ok(whole(self.counted(self.error()))),
            (Way::Empty, false) => Ok(whole(self.counted(self.empty()))),
            (Way::Unended, false) => Ok(self.unended()),
            (Way::Cut, false) => Ok(self.begun().reset()),
            (Way::Silent, false) => Ok(self.begun().stall()),
            (Way::BrokenCall, true) => Ok(self.stream(&self.call_events())),
            (Way::Error, true) => self.error_events().map(|events| self.stream(&events)),
            (Way::Cut, true) => self
                .counted_events()
                .map(|events| self.events(&events).reset()),
            (Way::Silent, true) => self
                .counted_events()
                .map(|events| self.events(&events).stall()),
            (Way::Nameless | Way::Empty | Way::Unended, true) => Err(HANGS_UP),
        }
    }

    fn usage(self) -> Value {
        let total = PROMPT + COMPLETION;
        match self {
            OpenAi | Azure => {
                json!({"prompt_tokens": PROMPT, "completion_tokens": COMPLETION, "total_tokens": total})
            }
            Responses => {
                json!({"input_tokens": PROMPT, "output_tokens": COMPLETION, "total_tokens": total})
            }
            Anthropic => json!({"input_tokens": PROMPT, "output_tokens": COMPLETION}),
            Gemini | Vertex => {
                json!({"promptTokenCount": PROMPT, "candidatesTokenCount": COMPLETION, "totalTokenCount": total})
            }
            Bedrock => {
                json!({"inputTokens": PROMPT, "outputTokens": COMPLETION, "totalTokens": total})
            }
            Cohere => json!({"tokens": {"input_tokens": PROMPT, "output_tokens": COMPLETION}}),
            Ollama => json!({"prompt_eval_count": PROMPT, "eval_count": COMPLETION}),
        }
    }

    /// The members of an answer that have the counts.
    fn counts(self) -> Value {
        match self {
            Ollama => self.usage(),
            Gemini | Vertex => json!({"usageMetadata": self.usage()}),
            OpenAi | Azure | Responses | Anthropic | Bedrock | Cohere => {
                json!({"usage": self.usage()})
            }
        }
    }

    /// The same answer with its counts.
    fn counted(self, mut answer: Value) -> Value {
        let counts = self.counts().as_object().expect("an object").clone();
        answer.as_object_mut().expect("an object").extend(counts);
        answer
    }

    /// An answer that calls a tool of this name.
    fn call(self, name: &str) -> Value {
        let function = json!({"name": name, "arguments": BROKEN});
        match self {
            OpenAi | Azure => {
                let call = json!({"id": "call_1", "type": "function", "function": function});
                let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                json!({"id": "c", "object": "chat.completion", "created": 1, "model": "up",
                    "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
            }
            Responses => {
                let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name,
                    "arguments": BROKEN, "status": "completed"});
                json!({"id": "resp_1", "object": "response", "status": "completed", "output": [item]})
            }
            Anthropic => {
                let block =
                    json!({"type": "tool_use", "id": "toolu_1", "name": name, "input": BROKEN});
                json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [block],
                    "stop_reason": "tool_use"})
            }
            Gemini | Vertex => {
                let part = json!({"functionCall": {"name": name, "args": BROKEN}});
                json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}]})
            }
            Bedrock => {
                let block = json!({"toolUse": {"toolUseId": "t1", "name": name, "input": BROKEN}});
                json!({"output": {"message": {"role": "assistant", "content": [block]}}, "stopReason": "tool_use"})
            }
            Cohere => {
                let call = json!({"id": "w1", "type": "function", "function": function});
                json!({"id": "c1", "finish_reason": "TOOL_CALL", "message": {"role": "assistant", "tool_calls": [call]}})
            }
            Ollama => {
                let message = json!({"role": "assistant", "content": "", "tool_calls": [{"function": function}]});
                json!({"model": "up", "message": message, "done": true, "done_reason": "stop"})
            }
        }
    }

    /// An answer of status 200 that ends in an error.
    fn error(self) -> Value {
        match self {
            OpenAi | Azure => {
                json!({"error": {"message": "no", "type": "server_error", "code": null}})
            }
            Responses => {
                let error = json!({"code": "server_error", "message": "no"});
                json!({"id": "resp_1", "object": "response", "status": "failed", "error": error, "output": []})
            }
            Anthropic => json!({"type": "error", "error": {"type": "api_error", "message": "no"}}),
            Gemini | Vertex => {
                json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]})
            }
            Bedrock => json!({"output": {"message": {"role": "assistant", "content": []}},
                "stopReason": "malformed_tool_use"}),
            Cohere => {
                json!({"id": "c1", "finish_reason": "ERROR", "message": {"role": "assistant", "content": []}})
            }
            Ollama => json!({"error": "no"}),
        }
    }

    /// An answer without what would make it one.
    fn empty(self) -> Value {
        match self {
            OpenAi | Azure => json!({"id": "c", "object": "chat.completion", "choices": []}),
            Responses => json!({"id": "resp_1", "object": "response", "status": "completed"}),
            Anthropic => {
                json!({"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "end_turn"})
            }
            Gemini | Vertex | Bedrock => json!({}),
            Cohere => json!({"id": "c1", "finish_reason": "COMPLETE"}),
            Ollama => json!({"model": "up", "done": true}),
        }
    }

    /// The first part of an answer that begins with its counts.
    fn first_part(self) -> String {
        let counts = self.counts().to_string();
        let begun = counts.strip_suffix('}').expect("an object");
        format!("{begun},\"message\":{{\"role\":\"assis")
    }

    /// An answer that has only this part.
    fn unended(self) -> Script {
        Script::text(200, JSON.1, self.first_part())
    }

    /// An answer that has more than this part.
    fn begun(self) -> Script {
        Script::new()
            .head(200, &[JSON, ("transfer-encoding", "chunked")])
            .body(self.first_part())
    }

    /// The events of a stream up to counts that are there before its end; or why there are none.
    fn counted_events(self) -> Result<Vec<Value>, &'static str> {
        Ok(match self {
            OpenAi | Azure => {
                let choice = json!({"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": null});
                let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up",
                    "choices": [choice]});
                vec![self.counted(chunk)]
            }
            Anthropic => {
                let delta = json!({"type": "text_delta", "text": "Hi"});
                vec![
                    self.start(),
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                    json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                    json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": COMPLETION}}),
                ]
            }
            Gemini | Vertex => {
                let candidate =
                    json!({"content": {"role": "model", "parts": [{"text": "Hi"}]}, "index": 0});
                vec![self.counted(json!({"candidates": [candidate]}))]
            }
            Responses | Bedrock | Cohere | Ollama => return Err(LATE),
        })
    }

    /// The events of a stream that calls a tool. The counts come last.
    fn call_events(self) -> Vec<Value> {
        match self {
            OpenAi | Azure => {
                let call = json!({"index": 0, "id": "call_1", "type": "function",
                    "function": {"name": "weather", "arguments": BROKEN}});
                let delta = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                let chunk = |choices: Value| json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": choices});
                vec![
                    chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}])),
                    chunk(json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])),
                    self.counted(chunk(json!([]))),
                ]
            }
            Responses => {
                let item = |arguments: &str| {
                    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
                        "arguments": arguments})
                };
                let begun = json!({"id": "resp_1", "object": "response", "status": "in_progress", "output": []});
                vec![
                    json!({"type": "response.created", "response": begun}),
                    json!({"type": "response.output_item.added", "output_index": 0, "item": item("")}),
                    json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": BROKEN}),
                    json!({"type": "response.output_item.done", "output_index": 0, "item": item(BROKEN)}),
                    json!({"type": "response.completed", "response": self.counted(self.call("weather"))}),
                ]
            }
            Anthropic => {
                let block =
                    json!({"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}});
                let delta = json!({"type": "input_json_delta", "partial_json": BROKEN});
                vec![
                    self.start(),
                    json!({"type": "content_block_start", "index": 0, "content_block": block}),
                    json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                    json!({"type": "content_block_stop", "index": 0}),
                    self.end(),
                    json!({"type": "message_stop"}),
                ]
            }
            Gemini | Vertex => vec![self.counted(self.call("weather"))],
            Bedrock => {
                let start = json!({"toolUse": {"toolUseId": "t1", "name": "weather"}});
                vec![
                    json!({"contentBlockStart": {"contentBlockIndex": 0, "start": start}}),
                    json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": BROKEN}}}}),
                    json!({"contentBlockStop": {"contentBlockIndex": 0}}),
                    json!({"messageStop": {"stopReason": "tool_use"}}),
                    json!({"metadata": self.counts()}),
                ]
            }
            Cohere => {
                let call = json!({"id": "w1", "type": "function",
                    "function": {"name": "weather", "arguments": BROKEN}});
                let mut end = json!({"finish_reason": "TOOL_CALL"});
                end["usage"] = self.usage();
                vec![
                    json!({"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant"}}}),
                    json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}}),
                    json!({"type": "tool-call-end", "index": 0}),
                    json!({"type": "message-end", "delta": end}),
                ]
            }
            Ollama => vec![self.counted(self.call("weather"))],
        }
    }

    /// The events of a stream that ends in an error; or why there are none.
    fn error_events(self) -> Result<Vec<Value>, &'static str> {
        Ok(match self {
            OpenAi | Azure => vec![self.counted(self.error())],
            Responses => {
                vec![json!({"type": "response.failed", "response": self.counted(self.error())})]
            }
            Anthropic => vec![self.start(), self.end(), self.error()],
            Gemini | Vertex => vec![self.counted(self.error())],
            Bedrock => vec![
                json!({"messageStart": {"role": "assistant"}}),
                json!({"messageStop": {"stopReason": "malformed_tool_use"}}),
                json!({"metadata": self.counts()}),
            ],
            Cohere => {
                let mut end = json!({"finish_reason": "ERROR"});
                end["usage"] = self.usage();
                vec![json!({"type": "message-end", "delta": end})]
            }
            Ollama => return Err("a line with an error has no counts"),
        })
    }

    /// The start of a message of Anthropic's, which counts the prompt.
    fn start(self) -> Value {
        let usage = json!({"input_tokens": PROMPT, "output_tokens": 1});
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
            "model": "up", "content": [], "stop_reason": null, "usage": usage}})
    }

    /// The end of one, which counts the answer.
    fn end(self) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
            "usage": {"output_tokens": COMPLETION}})
    }

    /// A stream of these events.
    fn stream(self, events: &[Value]) -> Script {
        let script = self.events(events);
        if matches!(self, OpenAi | Azure) {
            script.done()
        } else {
            script.end()
        }
    }

    /// The begin of a stream: these events, as they go over the wire.
    fn events(self, events: &[Value]) -> Script {
        let kind = match self {
            Bedrock => "application/vnd.amazon.eventstream",
            Ollama => "application/x-ndjson",
            OpenAi | Azure | Responses | Anthropic | Gemini | Vertex | Cohere => {
                "text/event-stream"
            }
        };
        let head = Script::new().head(
            200,
            &[("content-type", kind), ("transfer-encoding", "chunked")],
        );
        events.iter().fold(head, |script, event| match self {
            Bedrock => {
                let (kind, payload) = event
                    .as_object()
                    .and_then(|event| event.iter().next())
                    .expect("an event");
                script.body(frames::event(kind, &payload.to_string()))
            }
            Ollama => script.body(format!("{event}\n")),
            OpenAi | Azure | Gemini | Vertex => script.event(event),
            Responses | Anthropic | Cohere => script.named(event),
        })
    }
}

fn whole(answer: Value) -> Script {
    Script::json(200, &answer)
}
