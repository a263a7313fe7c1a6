//! The doors: how each is asked, and what its answers must be.

use clap::ValueEnum;
use serde_json::{Value, json};

/// The format in which a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TryDoor {
    /// OpenAI's chat completions
    Chat,
    /// Anthropic's messages
    Messages,
    /// OpenAI's responses
    Responses,
    /// Google's generateContent
    Gemini,
}

/// The format of a door. Rules are members, each with the shape that it must have.
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// The header with the key, if it is not `authorization`.
    pub(super) key_header: &'static str,
    /// The rules for the list of models, its entries, their rules, and their ids.
    pub(super) list: [&'static str; 4],
    /// The rules for a whole answer.
    pub(super) whole: &'static str,
    /// The rules for the first event of a stream, and for each.
    pub(super) begin: &'static str,
    pub(super) each: &'static str,
    /// The data or the type of the last event. Empty: the stream just ends.
    pub(super) end: &'static str,
    /// Where the text is, in a whole answer and in a stream.
    pub(super) text: &'static str,
    pub(super) delta: &'static str,
    /// The types of the events, items and parts whose text is the answer. Empty: all of them.
    pub(super) text_types: &'static str,
    /// Where the reason of the end is, in a whole answer and in a stream, and the words for it.
    pub(super) finish: &'static str,
    pub(super) delta_finish: &'static str,
    pub(super) finishes: &'static str,
    /// The tokens that were read, and those that were written; and their sum, if it is there.
    pub(super) counts: [&'static str; 2],
    pub(super) total: &'static str,
}

/// The question, which a model answers in short.
const QUESTION: &str = "Reply with the single word: pong";
/// The most tokens of an answer: enough for a model that thinks before it answers.
const MAX_TOKENS: u32 = 256;

impl TryDoor {
    /// Returns the path and the body of a small request.
    pub(super) fn request(self, model: &str, stream: bool) -> (String, Value) {
        if self == TryDoor::Gemini {
            let call = if stream {
                "streamGenerateContent?alt=sse"
            } else {
                "generateContent"
            };
            let contents = json!([{ "role": "user", "parts": [{ "text": QUESTION }] }]);
            let body = json!({ "contents": contents, "generationConfig": { "maxOutputTokens": MAX_TOKENS } });
            return (format!("/models/{model}:{call}"), body);
        }
        let (path, input, limit) = match self {
            TryDoor::Responses => ("/responses", "input", "max_output_tokens"),
            TryDoor::Messages => ("/messages", "messages", "max_tokens"),
            TryDoor::Chat | TryDoor::Gemini => ("/chat/completions", "messages", "max_tokens"),
        };
        let messages = json!([{ "role": "user", "content": QUESTION }]);
        let mut body =
            json!({ "model": model, input: messages, limit: MAX_TOKENS, "stream": stream });
        let more = match self {
            TryDoor::Chat if stream => json!({ "stream_options": { "include_usage": true } }),
            TryDoor::Responses => json!({ "store": false }),
            TryDoor::Chat | TryDoor::Messages | TryDoor::Gemini => Value::Null,
        };
        if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
            body.extend(more);
        }
        (path.to_owned(), body)
    }

    pub(super) fn format(self) -> &'static Format {
        match self {
            TryDoor::Chat => &CHAT,
            TryDoor::Messages => &MESSAGES,
            TryDoor::Responses => &RESPONSES,
            TryDoor::Gemini => &GEMINI,
        }
    }
}

const CHAT: Format = Format {
    name: "chat",
    version: "/v1",
    key_header: "",
    list: [
        "object:list data:array",
        "data",
        "id:text object:model",
        "id",
    ],
    whole: "id:text object:chat.completion created:count|missing model:text choices.0:object choices.0.index:0 choices.0.message:object \
            choices.0.message.role:assistant choices.0.message.content:string|null usage:object",
    begin: "choices.0.delta.role:assistant",
    each: "id:text object:chat.completion.chunk created:count|missing model:text choices:array",
    end: "[DONE]",
    text: "choices.0.message.content",
    delta: "choices.0.delta.content",
    text_types: "",
    finish: "choices.0.finish_reason",
    delta_finish: "choices.0.finish_reason",
    finishes: "stop|length|tool_calls|content_filter|function_call",
    counts: ["prompt_tokens", "completion_tokens"],
    total: "total_tokens",
};

const MESSAGES: Format = Format {
    name: "messages",
    version: "/v1",
    key_header: "x-api-key",
    list: [
        "data:array",
        "data",
        "id:text type:model display_name:string created_at:text",
        "id",
    ],
    whole: "id:text type:message role:assistant model:text content.0:object content.0.type:text usage:object",
    begin: "type:message_start message.id:text message.role:assistant message.model:text",
    each: "type:text",
    end: "message_stop",
    text: "content",
    delta: "delta.text",
    text_types: "",
    finish: "stop_reason",
    delta_finish: "delta.stop_reason",
    finishes: "end_turn|max_tokens|stop_sequence|tool_use|pause_turn|refusal|model_context_window_exceeded",
    counts: ["input_tokens", "output_tokens"],
    total: "",
};

const RESPONSES: Format = Format {
    name: "responses",
    whole: "id:text object:response created_at:count|missing model:text output.0:object output.0.type:text usage:object",
    begin: "type:response.created response.id:text response.object:response response.model:text",
    each: "type:text sequence_number:count",
    end: "response.completed|response.incomplete",
    text: "output",
    delta: "delta",
    text_types: "response.output_text.delta|message|output_text",
    finish: "status",
    delta_finish: "-",
    finishes: "completed|incomplete",
    counts: MESSAGES.counts,
    ..CHAT
};

const GEMINI: Format = Format {
    name: "gemini",
    version: "/v1beta",
    key_header: "x-goog-api-key",
    list: ["models:array", "models", "name:text", "name"],
    whole: "candidates.0:object candidates.0.content:object candidates.0.content.role:model modelVersion:text responseId:text",
    begin: "candidates.0.content.role:model",
    each: "modelVersion:text responseId:text",
    end: "",
    text: "candidates.0.content.parts",
    delta: "candidates.0.content.parts",
    text_types: "",
    finish: "candidates.0.finishReason",
    delta_finish: "candidates.0.finishReason",
    finishes: "STOP|MAX_TOKENS|SAFETY|RECITATION|LANGUAGE|BLOCKLIST|PROHIBITED_CONTENT|SPII|OTHER",
    counts: ["promptTokenCount", "candidatesTokenCount"],
    total: "totalTokenCount",
};
